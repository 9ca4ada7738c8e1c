#' Print and summarise fits
#'
#' `summary()` returns the posterior mean, standard deviation and credible interval of each coefficient, the
#' hyperparameters and notes on the interpretation. If there are more than 60 coefficients, the table (and printing a fit)
#' contains the 30 largest standardised coefficients, with effects of groups and curves after all others, or, for [spike_slab()], the 30 coefficients with the highest inclusion
#' probabilities; `coef()`, `confint()` and `tidy()` return all. The column `Pr(incl.)` contains inclusion probabilities,
#' and for a fit by the sampler of `method = "exact"` `MC s.e.` their Monte Carlo standard errors. Neither function
#' requires Python.
#'
#' @param object,x A fit, or a summary.
#' @param level Probability of the credible intervals.
#' @param digits Significant digits.
#' @param ... Not used: further arguments raise an error.
#' @return `summary()`: a list of class `"summary.bayes_ridge"` or `"summary.spike_slab"` with the elements `call`,
#'   `coefficients` (a matrix; with several targets a list of matrices), `omitted` (the number of coefficients that the
#'   matrix omits), `facts`, `notes` and `level`; of ordered categories `cut_points` (a matrix); with several penalties `bands` (for each target a matrix, see
#'   [variance_components()]), and `correlations` of effects of groups; where a dispersion, or the scale and degrees of freedom
#'   of Student-t noise, are integrated out, `hyperparameters` (a matrix); for [spike_slab()] with `method = "exact"` also `size` (mean, median and
#'   credible interval of the number of included columns, and of included groups).
#'   Printing returns its argument invisibly.
#' @examplesIf pybayesridge::pybayesridge_available()
#' print(bayes_ridge(mpg ~ ., data = mtcars))
#' summary(bayes_ridge(mpg ~ ., data = mtcars), level = 0.9)
#' @name summary.pybayesridge_fit
NULL

mc_error <- "MC s.e."
longest <- 60L
inclusion <- "Pr(incl.)"
shown <- 30L

#' @rdname summary.pybayesridge_fit
#' @export
print.pybayesridge_fit <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  refuse_dots("print", ...)
  cat("\n", title_of(x), " (method \"", x$method, "\")\n\nCall:\n", sep = "")
  cat(paste(deparse(x$call), collapse = "\n"), "\n\nCoefficients (posterior ", center_of(x), "s):\n", sep = "")
  b <- as.matrix(x$coefficients)
  if (nrow(b) > longest) {
    keep <- first_of_many(x, apply(importance(x), 1L, max))
    show_coefficients(b[keep, , drop = FALSE], digits)
    cat(left_out(nrow(b) - shown, inherits(x, "spike_slab"), any(shown_last(x))))
  } else {
    show_coefficients(b, digits)
  }
  if (has_cuts(x)) {
    cat("\nCut points:\n")
    cuts <- cut_points(x)
    show_coefficients(as.matrix(stats::setNames(cuts$mean, rownames(cuts))), digits)
  }
  cat("\n")
  cat(headline(x, digits), sep = "\n")
  if (!isTRUE(x$converged)) {
    cat("NOT CONVERGED: do not report these numbers\n")
  }
  invisible(x)
}

show_coefficients <- function(b, digits) {
  if (ncol(b) == 1L) {
    print.default(alike(b[, 1L], digits), print.gap = 2L, quote = FALSE)
  } else {
    print.default(columns_alike(b, digits), print.gap = 2L, quote = FALSE, right = TRUE)
  }
}

# What the coefficients are: medians where the posterior of a binomial fit has no mean.
center_of <- function(object) if (isFALSE(object$posterior$has_mean)) "median" else "mean"

title_of <- function(object) {
  title <- if (inherits(object, "spike_slab")) "Spike-and-slab regression" else "Bayesian ridge regression"
  paste0(title, family_of(object)$title(object))
}

# Facts of a fit in the lines below its coefficients, and what they are called there.
headline_facts <- list(
  bayes_ridge = c(lambda = "lambda", sigma = "sigma", df_model = "effective df", loo_auc = "leave-one-out AUC", loo_deviance = "leave-one-out share of deviance"),
  spike_slab = c(
    prior_inclusion = "prior inclusion", slab_var = "slab variance", sigma = "sigma", log_evidence = "log evidence"
  )
)

headline <- function(object, digits) {
  named <- headline_facts[[if (inherits(object, "spike_slab")) "spike_slab" else "bayes_ridge"]]
  named <- named[names(named) %in% names(object$facts)]
  written <- apply(as.matrix(object$facts[names(named)]), 1L, function(values) {
    paste(named, ifelse(is.nan(values), "not defined", singly(values, digits)), collapse = ", ")
  })
  event <- if (!is.null(object$event)) {
    paste0("event ", object$event, " (", alike(object$n_events, digits), " of ", alike(object$n_trials, digits), "), ")
  }
  out <- paste0(if (length(object$targets) > 1L) paste0(object$targets, ": "), event, written)
  if (!inherits(object, "spike_slab")) {
    return(out)
  }
  chosen <- median_model(object)
  c(
    out,
    if (is_sampled(object)) paste("largest Monte Carlo s.e. of an inclusion probability", singly(object$residual, 2L)),
    strwrap(paste("median model:", if (length(chosen)) paste(chosen, collapse = ", ") else "no column"), exdent = 2L)
  )
}

left_out <- function(count, by_probability, by_kind) {
  if (by_kind) {
    return(sprintf("(%d coefficients are left out, effects of groups and curves first)\n", count))
  }
  what <- if (by_probability) "coefficients of smaller inclusion probability" else "smallest standardised coefficients"
  sprintf("(the %d %s are left out)\n", count, what)
}

# Which coefficients are effects of groups or parts of curves, which long tables show after all others.
shown_last <- function(object) {
  curves <- Filter(function(band) band$kind == "smooth", object$band_terms$bands)
  are_effects_of_groups(object) | coefficient_names(object) %in% unlist(lapply(curves, `[[`, "columns"))
}

# Positions of the coefficients that a long table shows, by their `size` (k).
first_of_many <- function(object, size) order(shown_last(object), -size)[seq_len(shown)]

# What the coefficients of a long table are sorted by, k x q.
importance <- function(object) {
  if (!inherits(object, "spike_slab")) {
    return(standardized_size(object))
  }
  out <- as.matrix(object$inclusion_prob)
  out[object$posterior$z_at, ] <- Inf
  out
}

# Size of every coefficient per standard deviation of its column, k x q; unpenalised ones come first.
standardized_size <- function(object) {
  b <- abs(as.matrix(object$coefficients))
  post <- object$posterior
  size <- b * 0
  size[post$at, ] <- b[post$at, ] * post$sd
  size[seq_len(nrow(size)) %in% post$z_at, ] <- Inf
  size
}

#' @rdname summary.pybayesridge_fit
#' @export
summary.pybayesridge_fit <- function(object, level = 0.95, ...) {
  refuse_dots("summary", ...)
  check_level(level)
  size <- importance(object)
  targets <- seq_along(object$targets)
  all <- nrow(size) <= longest
  sd <- if (all) as.matrix(object$bse)
  limits <- if (all) as_array(coefficient_intervals(object, targets, tails(level)))
  tables <- lapply(targets, function(i) {
    at <- if (all) seq_len(nrow(size)) else first_of_many(object, size[, i])
    of_target <- if (all) limits[, , i] else coefficient_intervals(object, i, tails(level), at)
    out <- cbind(
      as.matrix(object$coefficients)[at, i], if (all) sd[, i] else deviations_at(object, at, i), matrix(of_target, length(at)), extra_columns(object, at)
    )
    heads <- c(if (center_of(object) == "mean") "Mean" else "Median", "SD", percent(tails(level)))
    dimnames(out) <- list(rownames(size)[at], c(heads, colnames(extra_columns(object, at))))
    out
  })
  names(tables) <- object$targets
  structure(
    list(
      call = object$call,
      title = title_of(object),
      method = object$method,
      event = object$event,
      categories = if (has_cuts(object)) stats::setNames(object$category_counts, object$categories),
      targets = object$targets,
      coefficients = if (length(tables) == 1L) tables[[1L]] else tables,
      cut_points = if (has_cuts(object)) cut_point_table(object, level),
      groups = if (isTRUE(object$several)) object$group_inclusion_prob,
      sizes = if (has_sets(object$posterior)) size_rows(object, level),
      bands = if (inherits(object, "bayes_ridge_bands")) band_tables(object, level),
      correlations = if (length(rows_of_quantity(object, "correlation"))) correlation_tables(object, level),
      hyperparameters = shape_cells(object, level),
      facts = object$facts,
      notes = notes_of(all_findings(object)),
      omitted = if (nrow(size) > longest) nrow(size) - shown else 0L,
      effects_last = any(shown_last(object)),
      level = level,
      converged = object$converged
    ),
    class = c(paste0("summary.", setdiff(class(object), c("pybayesridge_generalized", "pybayesridge_fit"))), "summary.pybayesridge_fit")
  )
}

# Cut points in the columns of the coefficients.
cut_point_table <- function(object, level) {
  out <- as.matrix(as.data.frame(cut_points(object, level)))
  colnames(out) <- c(if (center_of(object) == "mean") "Mean" else "Median", "SD", percent(tails(level)))
  out
}

# For each target a table of the bands: the number of their columns, standard deviations and shares.
band_tables <- function(object, level) {
  post <- object$posterior
  columns <- tabulate(post$band, length(object$bands))
  ends <- percent(tails(level))
  lapply(seq_along(object$targets), function(i) {
    values <- t(vapply(seq_along(object$bands), component_row, numeric(10L), object = object, target = i, at = tails(level)))
    out <- cbind(columns, values[, c(1L, 3:8), drop = FALSE])
    dimnames(out) <- list(object$bands, c("Columns", "SD", ends, "Share", ends, "P(share<1%)"))
    out
  })
}

# For each target a table of the correlations of effects of groups.
correlation_tables <- function(object, level) {
  lapply(seq_along(object$targets), function(i) {
    out <- correlation_table(object, i, level)[, c(1L, 3L, 4L), drop = FALSE]
    colnames(out) <- c("Correlation", percent(tails(level)))
    out
  })
}

# A dispersion, or the scale and degrees of freedom of the noise, where they are integrated out.
shape_cells <- function(object, level) {
  table <- shape_table(object, level)
  if (is.null(table)) {
    return(NULL)
  }
  out <- as.matrix(table)
  colnames(out) <- c("Mean", "Median", percent(tails(level)))
  out
}

band_cells <- function(table, digits) {
  cells <- cbind(
    format(table[, 1L], big.mark = thousands_mark(), trim = TRUE), columns_alike(table[, 2:4, drop = FALSE], digits, ends = 2:3),
    formatC(table[, 5:8, drop = FALSE], digits = 3L, format = "f")
  )
  dimnames(cells) <- dimnames(table)
  cells
}

# The findings of a fit, with that on rows that R left out.
all_findings <- function(object) {
  if (!length(object$na.action)) {
    return(object$findings)
  }
  note <- stats::naprint(object$na.action)
  text <- paste0(toupper(substr(note, 1L, 1L)), substring(note, 2L), ".")
  rbind(object$findings, data.frame(code = "rows-left-out", severity = "note", text = text))
}

# The same as a list of lists, for Python.
listed_findings <- function(object) {
  found <- all_findings(object)
  unname(lapply(split(found, seq_len(nrow(found))), as.list))
}

# Their sentences, warnings marked.
notes_of <- function(findings) {
  paste0(ifelse(findings$severity == "warning", "Warning: ", ""), findings$text)
}

extra_columns <- function(object, at) {
  if (!inherits(object, "spike_slab")) {
    return(NULL)
  }
  out <- matrix(object$inclusion_prob[at], dimnames = list(NULL, inclusion))
  if (is_sampled(object)) out <- cbind(out, matrix(object$inclusion_se[at], dimnames = list(NULL, mc_error)))
  out
}

# Whether probabilities have Monte Carlo errors.
is_sampled <- function(object) identical(object$enumerated, FALSE)

#' @rdname summary.pybayesridge_fit
#' @export
print.summary.pybayesridge_fit <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  refuse_dots("print", ...)
  cat("\n", x$title, " (method \"", x$method, "\")\n\nCall:\n", sep = "")
  cat(paste(deparse(x$call), collapse = "\n"), "\n", sep = "")
  if (!is.null(x$event)) cat("\nEvent: ", x$event, "\n", sep = "")
  if (!is.null(x$categories)) {
    counts <- vapply(x$categories, alike, "", digits = digits)
    cat("\n", paste(strwrap(paste("Rows in categories:", paste0(names(counts), " ", counts, collapse = ", ")), exdent = 2L), collapse = "\n"), "\n", sep = "")
  }
  tables <- if (is.list(x$coefficients)) x$coefficients else list(x$coefficients)
  for (i in seq_along(tables)) {
    table <- tables[[i]]
    if (length(tables) > 1L) {
      cat("\nTarget: ", x$targets[i], "\n", sep = "")
    }
    cat("\nCoefficients:\n")
    print.default(columns_alike(table, digits, ends = 3:4), print.gap = 2L, quote = FALSE, right = TRUE)
    if (x$omitted > 0L) {
      cat(left_out(x$omitted, inherits(x, "summary.spike_slab"), x$effects_last))
    }
    if (!is.null(x$cut_points)) {
      cat("\nCut points:\n")
      print.default(columns_alike(x$cut_points, digits, ends = 3:4), print.gap = 2L, quote = FALSE, right = TRUE)
    }
    if (!is.null(x$bands)) {
      cat("\nBands:\n")
      print.default(band_cells(x$bands[[i]], digits), print.gap = 2L, quote = FALSE, right = TRUE)
    }
    if (!is.null(x$correlations)) {
      cells <- formatC(x$correlations[[i]], digits = 3L, format = "f")
      print.default(cells, print.gap = 2L, quote = FALSE, right = TRUE)
    }
    if (!is.null(x$hyperparameters)) {
      cat("\nHyperparameters:\n")
      print.default(columns_alike(x$hyperparameters, digits, ends = 3:4), print.gap = 2L, quote = FALSE, right = TRUE)
    }
    cat("\n")
    numbers <- unlist(x$facts[i, ])
    shown_numbers <- ifelse(is.nan(numbers), "not defined", singly(numbers, digits))
    cat(strwrap(paste0(names(numbers), " ", shown_numbers, collapse = ", ")), sep = "\n")
  }
  if (!is.null(x$groups)) {
    top <- sort(x$groups, decreasing = TRUE)
    cat("\nInclusion probabilities of terms or groups:\n")
    print.default(probabilities(top[seq_len(min(shown, length(top)))]), print.gap = 2L, quote = FALSE)
  }
  if (!is.null(x$sizes)) cat("\n")
  for (name in rownames(x$sizes)) {
    size <- x$sizes[name, ]
    cat(sprintf(
      "Included %s: mean %s, %g %% interval %g to %g\n",
      if (name == "size") "columns" else "groups", singly(size[["mean"]], digits), 100 * x$level, size[["lower"]], size[["upper"]]
    ))
  }
  cat("\nNotes:\n")
  cat(strwrap(paste("-", x$notes), exdent = 2L), sep = "\n")
  invisible(x)
}

# Numbers of one column, as the tables of the Python package write them: with thousands separators and the same
# decimals; where sizes differ too much for that each with its own, and scientific (1.239e9) only where it needs it.
alike <- function(values, digits) {
  out <- format(values, digits = digits)
  proper <- is.finite(values) & values != 0
  if (any(proper)) {
    places <- decimal_places(abs(values[proper]), digits, if (sum(proper) > 1L) 2 else 4)
    out[proper] <- if (is.na(places)) by_size(values[proper], digits) else fixed_notation(values[proper], places)
  }
  out[!is.na(values) & values == 0] <- "0"
  stats::setNames(format(trimws(out), justify = "right"), names(values))
}

# Decimals that give the largest number so many significant digits and all others one less; NA where that takes too
# many places.
decimal_places <- function(sizes, digits, spare) {
  exponent <- function(size, digits) as.integer(sub(".*e", "", sprintf("%.*e", as.integer(digits - 1), size)))
  fewer <- max(digits - 1, 1)
  largest <- exponent(max(sizes), digits)
  places <- max(digits - 1 - largest, fewer - 1 - exponent(min(sizes), fewer), 0)
  if (max(largest + 1, 1) + places <= digits + spare) places else NA
}

by_size <- function(values, digits) {
  places <- vapply(abs(values), decimal_places, 0, digits = digits, spare = 4)
  if (all(is.na(places))) {
    mantissas <- sub("e.*", "", sprintf("%.*e", as.integer(digits - 1), values))
    return(scientific_notation(values, needed_decimals(mantissas)))
  }
  out <- scientific_notation(values, digits - 1)
  fixed <- !is.na(places)
  mark <- thousands_mark()
  out[fixed] <- mapply(formatC, values[fixed], digits = places[fixed], MoreArgs = list(format = "f", big.mark = mark))
  out
}

fixed_notation <- function(values, places) {
  needed <- needed_decimals(sprintf("%.*f", as.integer(places), values))
  formatC(values, digits = needed, format = "f", big.mark = thousands_mark())
}

scientific_notation <- function(values, places) {
  text <- formatC(values, digits = places, format = "e")
  sub("e-0*([0-9])", "e-\\1", sub("e[+]0*([0-9])", "e\\1", text))
}

# Decimals that are left without the zeros that end all numbers.
needed_decimals <- function(texts) {
  max(nchar(sub("0+$", "", ifelse(grepl(".", texts, fixed = TRUE), sub(".*[.]", "", texts), ""))))
}

thousands_mark <- function() if (getOption("OutDec") == ",") "" else ","

# Columns of a table, each alike; `ends` are columns that are written like one.
columns_alike <- function(table, digits, ends = integer()) {
  out <- vapply(seq_len(ncol(table)), function(j) {
    if (colnames(table)[j] %in% c(inclusion, mc_error)) probabilities(table[, j]) else alike(table[, j], digits)
  }, character(nrow(table)))
  out <- matrix(out, nrow(table), dimnames = dimnames(table))
  if (length(ends)) out[, ends] <- alike(c(table[, ends]), digits)
  out
}

probabilities <- function(values) {
  stats::setNames(formatC(values, digits = 3L, format = "f"), names(values))
}

# Numbers that do not stand in a column: each as if it were alone.
singly <- function(values, digits) vapply(values, alike, "", digits = digits, USE.NAMES = FALSE)
