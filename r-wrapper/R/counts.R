# Counts: what bayes_ridge() takes for them, and the exposures of rows.

# Counts as `y` (n x 1).
counts_response <- function(y, name, family) {
  if (is.factor(y) || is.character(y)) {
    stop("family = ", family, " takes counts, which are numbers, not ", class(y)[1L], call. = FALSE)
  }
  y <- as_response(y, name)
  if (ncol(y) > 1L) {
    stop("family = ", family, " takes one count for each row, not ", ncol(y), " columns", call. = FALSE)
  }
  refuse <- function(bad, ...) {
    rows <- rownames(y) %||% seq_len(nrow(y))
    if (any(bad)) stop("family = ", family, " takes counts, ", ..., ": row(s) ", some_quoted(rows[bad]), call. = FALSE)
  }
  refuse(y < 0, "but the response is negative")
  refuse(y != round(y), "whole numbers, but the response has fractions (of rates give the counts, and their denominators as 'exposure')")
  refuse(
    y > largest_count, "but the response is above ", format(largest_count), ", where a Poisson distribution has hardly any noise (model the ",
    "logarithms with family = gaussian())"
  )
  if (!any(y > 0)) {
    stop(
      "all counts are 0, which says that the rate is small and not how small: a Poisson model needs at least one event",
      call. = FALSE
    )
  }
  list(y = y)
}

# As in Python: relative to the noise of larger counts rounding errors decide.
largest_count <- 1e11

some_quoted <- function(rows) {
  paste0(paste0("'", utils::head(rows, 5L), "'", collapse = ", "), if (length(rows) > 5L) sprintf(" and %d others", length(rows) - 5L))
}

# The exposures of the rows of a fit: those of the argument, or of offset() in the formula, on the scale of logs.
check_exposure <- function(exposure, offset, labels) {
  if (!is.null(offset)) {
    if (!is.null(exposure)) {
      stop("give exposures once: by 'exposure' or by offset() in the formula", call. = FALSE)
    }
    exposure <- exp(as.vector(offset))
    valid_exposure(exposure, labels, "offset() in the formula, of which exposures are the exponentials,")
  } else if (!is.null(exposure)) {
    exposure <- numeric_exposure(exposure, length(labels))
    valid_exposure(exposure, labels, "'exposure'")
  }
  exposure
}

numeric_exposure <- function(exposure, n, single = FALSE, name = "exposure") {
  if (!is.numeric(exposure) || !length(exposure) %in% c(n, if (single) 1L)) {
    stop("'", name, "' must be ", if (single) "a number, or ", "a numeric vector with one number for each row", call. = FALSE)
  }
  as.double(exposure)
}

valid_exposure <- function(exposure, labels, what, missing = FALSE) {
  bad <- !is.finite(exposure) | exposure <= 0
  if (missing) bad <- bad & !is.na(exposure)
  if (any(bad)) {
    stop(
      what, " must be positive and finite", if (!missing) ", and not missing", ": not so in row(s) ", some_quoted(labels[bad]),
      call. = FALSE
    )
  }
}

# Exposures of rows (m), or NULL: those `given` for them; else of the rows of the fit their own, and of new rows those of offset() in
# the formula, or 1.
exposure_of_rows <- function(object, rows, own, given = NULL, newdata = NULL) {
  labels <- rownames(rows$x) %||% seq_len(nrow(rows$x))
  if (is.null(given)) {
    if (own) {
      return(.subset2(object, "exposure"))
    }
    if (is.null(rows$offset)) {
      return(NULL)
    }
    out <- exp(as.vector(rows$offset))
    valid_exposure(out, labels, "offset() in the formula, of which exposures are the exponentials,", missing = TRUE)
    return(out)
  }
  if (!"exposure" %in% family_of(object)$takes) {
    stop("'exposure' is for fits with family = ", either(vapply(taking("exposure"), told_family, "")), call. = FALSE)
  }
  if (!is.null(attr(object$terms, "offset"))) {
    stop("the formula has the exposures, by offset(): change its variables in 'newdata', and leave out 'exposure'", call. = FALSE)
  }
  given_for_rows(given, "exposure", rows, newdata)
}

# Numbers of trials of rows (m), or NULL: those `given` for them; else of the rows of the fit their own, if they have several. A
# `prediction` interval needs them.
trials_of_rows <- function(object, rows, own, given = NULL, newdata = NULL, prediction = FALSE) {
  of_trials <- families_with(function(family) "trials" %in% family$keeps)
  is_one <- .subset2(object, "distribution") %in% of_trials
  if (!is.null(given)) {
    if (!isTRUE(is_one)) {
      stop("'trials' is for fits with family = ", either(vapply(of_trials, told_family, "")), call. = FALSE)
    }
    out <- given_for_rows(given, "trials", rows, newdata)
    bad <- !is.na(out) & out != round(out)
    if (any(bad)) {
      labels <- rownames(rows$x) %||% seq_len(nrow(rows$x))
      stop("'trials' must be whole numbers: not so in row(s) ", some_quoted(labels[bad]), call. = FALSE)
    }
    return(out)
  }
  of_fit <- if (isTRUE(is_one)) .subset2(object, "trials")
  if (all(of_fit == 1)) of_fit <- NULL
  out <- if (own) of_fit
  if (prediction && isTRUE(is_one) && is.null(out)) {
    if (!is.null(of_fit)) {
      stop(
        "the number of successes in new rows depends on their numbers of trials: give 'trials', a number or the name of a variable of ",
        "'newdata'; interval = \"credible\" is that of the probability",
        call. = FALSE
      )
    }
    stop(
      "a new response is one of two values and has no interval: interval = \"credible\" is that of its probability; for a number of ",
      "successes give 'trials'",
      call. = FALSE
    )
  }
  out
}

# Positive numbers for rows (m): one for all, one for each, or a variable of the new data.
given_for_rows <- function(given, name, rows, newdata) {
  labels <- rownames(rows$x) %||% seq_len(nrow(rows$x))
  if (is.character(given) && length(given) == 1L) {
    if (!is.list(newdata) || !given %in% names(newdata)) {
      stop("'", name, "' names '", given, "', which is not a variable of 'newdata'", call. = FALSE)
    }
    given <- newdata[[given]]
  }
  out <- numeric_exposure(given, length(labels) + length(rows$na.action), single = TRUE, name = name)
  if (length(out) == 1L) out <- rep(out, length(labels)) else if (length(rows$na.action)) out <- out[-as.integer(rows$na.action)]
  valid_exposure(out, labels, paste0("'", name, "'"), missing = TRUE)
  out
}

# Largest mean that counts are drawn with, as in Python: beyond it whole numbers have no room.
most_drawn <- 1e18

# Probabilities at which half the distance of the quantiles is the standard deviation of a normal distribution.
around_median <- stats::pnorm(c(-1, 0, 1))

# Expected counts of functionals, for an exposure of 1: medians, since the tail of the penalty's posterior rules a mean out.
rate_moments <- function(f, post, se.fit) {
  rates_of(functional_quantiles(f, post, 1L, if (se.fit) around_median else 0.5), se.fit)
}

# `fit` and `se.fit` of quantiles of linear predictors at the median, or around it.
rates_of <- function(quantiles, se.fit) {
  rates <- exp(quantiles)
  if (se.fit) list(fit = rates[, 2L], se.fit = (rates[, 3L] - rates[, 1L]) / 2) else list(fit = rates[, 1L])
}
