# Terms of a formula with a variance of their own (bars.R) as columns: each makes one band or several, sets of penalised columns
# that share a variance. A band is a list of plain values that code new rows:
#   name         as tables show it: "g" of (1 | g), "x|g", "a:b", "s(x)", "s(x):g[a]", or the name that band() gives
#   kind         "group", "smooth" or "columns"
#   columns      names of the penalised columns; `lines`: of the unpenalised ones that belong to it, which stand before them
#   standardized whether the prior is on the columns divided by their standard deviations
#   term         what varies by group ("1" or a column), or the variable of a curve
#   correlated   the term as it is written, for bands whose effects of the same level are correlated
#   groups       of a group, or of a curve for each level: `variables`, their `levels`, and the `pairs` that occur
# and for columns and groups `terms`, `contrasts` and the columns `at` of their model matrix, for a curve `variable`, `curve` and
# `by` (with `level`, or a number).

# Most numbers in the columns of a formula with bands, 2 GB: those of groups are mostly zeros. As in Python.
most_elements <- 2^28

bands_of_terms <- function(terms, frame) {
  out <- unlist(lapply(terms, function(term) {
    switch(term$kind, group = group_bands(term, frame), smooth = smooth_bands(term, frame), columns = list(columns_band(term, frame)))
  }), recursive = FALSE)
  refuse_twice(out)
  out
}

group_bands <- function(term, frame) {
  groups <- groups_of(frame, term$groups)
  label <- group_label(groups)
  told <- told_groups(groups)
  if (length(told) == 1L) {
    stop(
      term$written, ": '", label, "' has one level, ", told, ", so that nothing varies between groups: leave the term out",
      call. = FALSE
    )
  }
  if (length(told) >= nrow(frame)) {
    stop(
      term$written, ": '", label, "' has as many levels as there are rows (", nrow(frame), "), and effects of rows cannot be told ",
      "from noise: leave the term out; overdispersed counts have family='negative-binomial', trials 'beta-binomial'",
      call. = FALSE
    )
  }
  terms <- strip_environment(effects_of(term))
  made <- stats::model.matrix(terms, frame)
  names <- colnames(made)
  if (!length(names)) {
    stop(term$written, " has no effects: write (1 | ", label, ")", call. = FALSE)
  }
  if (!term$correlated && length(attr(made, "contrasts"))) {
    stop(
      term$written, ": effects of the levels of a factor are not independent with two bars, since they depend on its coding: write ",
      "a bar for correlated ones, (0 + f | g), or (1 | g:f) for independent ones with one variance",
      call. = FALSE
    )
  }
  empty <- names[colSums(made != 0) == 0]
  if (length(empty)) {
    stop(term$written, ": ", paste0("'", empty, "'", collapse = ", "), " is zero in every row: leave it out", call. = FALSE)
  }
  lapply(seq_along(names), function(j) {
    effect <- if (names[j] == "(Intercept)") "1" else names[j]
    start <- if (effect == "1") "" else paste0(effect, "|")
    list(
      name = paste0(start, label), kind = "group", columns = paste0(start, told), lines = character(), standardized = FALSE,
      term = effect, groups = groups, terms = terms, contrasts = attr(made, "contrasts"), at = j,
      correlated = if (term$correlated && length(names) > 1L) term$written
    )
  })
}

columns_band <- function(term, frame) {
  terms <- strip_environment(columns_of(term))
  made <- stats::model.matrix(terms, frame)
  at <- which(colnames(made) != "(Intercept)")
  list(
    name = term$name, kind = "columns", columns = colnames(made)[at], lines = character(), standardized = TRUE, terms = terms,
    contrasts = attr(made, "contrasts"), at = at
  )
}

smooth_bands <- function(term, frame) {
  variable <- deparse1(as_variable(term$argument))
  argument <- deparse1(term$argument)
  label <- paste0("s(", argument, ")")
  x <- frame[[variable]]
  by <- if (nzchar(term$by)) frame[[term$by]]
  multiplied <- !is.null(by) && !term$as_factor && (is.numeric(by) || is.logical(by))
  curve <- curve_of(x, term$basis, !multiplied, term$written)
  band <- function(name, lines, ...) {
    list(
      name = name, kind = "smooth", columns = paste0(name, ".", seq_len(term$basis - 2L)), lines = paste0(name, ".", lines),
      standardized = FALSE, term = argument, variable = variable, curve = curve, ...
    )
  }
  if (is.null(by)) {
    return(list(band(label, "line")))
  }
  if (multiplied) {
    if (diff(range(by)) == 0) {
      stop(term$written, ": '", term$by, "' is constant, so that the curve is ", label, call. = FALSE)
    }
    return(list(band(paste0(label, ":", term$by), c("constant", "line"), by = term$by)))
  }
  groups <- groups_of(frame, term$by)
  told <- told_groups(groups)
  if (length(told) == 1L) {
    stop(term$written, ": '", term$by, "' has one level, so that the curve is ", label, call. = FALSE)
  }
  codes <- codes_of_groups(groups, frame)
  lapply(seq_along(told)[if (is.ordered(by)) -1L else TRUE], function(level) {
    if (length(unique(x[codes == level])) < 2L) {
      stop(
        term$written, ": the rows of ", told[level], " have one value of ", argument, ", too few for a curve: leave them out",
        call. = FALSE
      )
    }
    band(paste0(label, ":", told[level]), "line", groups = groups, by = term$by, level = level)
  })
}

# The levels of a grouping factor, or of several together: those that occur, in their order, and which combinations do.
groups_of <- function(frame, variables) {
  levels <- lapply(frame[variables], levels_that_occur)
  for (name in variables[vapply(levels, is.null, NA)]) {
    stop(
      "'", name, "' cannot be a grouping factor: its values are ", class(frame[[name]])[1L], ", and groups are text, numbers or true ",
      "and false: convert it to text",
      call. = FALSE
    )
  }
  each <- mapply(function(column, known) match(plain_groups(column), known), frame[variables], levels, SIMPLIFY = FALSE)
  pairs <- unique(do.call(cbind, unname(each)))
  pairs <- pairs[do.call(order, lapply(seq_len(ncol(pairs)), function(j) pairs[, j])), , drop = FALSE]
  list(variables = variables, levels = unname(levels), pairs = pairs)
}

# Values of a grouping factor as they are compared: text, numbers or truth values; NULL for others.
plain_groups <- function(column) {
  if (is.factor(column)) {
    as.character(column)
  } else if (!is.object(column) && is.null(dim(column)) && (is.character(column) || is.numeric(column) || is.logical(column))) {
    unname(column)
  }
}

levels_that_occur <- function(column) {
  values <- plain_groups(column)
  if (is.null(values)) {
    return(NULL)
  }
  if (is.factor(column)) intersect(levels(column), values) else sort(unique(values), method = "radix")
}

group_label <- function(groups) paste(groups$variables, collapse = ":")

# Each group as names of columns have it, g[a] or a[1]:b[2].
told_groups <- function(groups) {
  each <- lapply(seq_along(groups$variables), function(j) {
    paste0(groups$variables[j], "[", told_levels(groups$levels[[j]]), "]")[groups$pairs[, j]]
  })
  do.call(paste, c(each, sep = ":"))
}

# Levels as text; whole numbers are not written in scientific notation.
told_levels <- function(levels) {
  whole <- is.numeric(levels) && all(levels == round(levels) & abs(levels) < 1e15)
  if (whole) sprintf("%.0f", levels) else as.character(levels)
}

# The group of each row: 0 where a value is missing, or the fit has not seen the combination.
codes_of_groups <- function(groups, frame) {
  at <- 0
  known <- 0
  for (j in seq_along(groups$variables)) {
    levels <- groups$levels[[j]]
    column <- plain_groups(frame[[groups$variables[j]]])
    refuse_other_kind(column, groups$variables[j], levels)
    at <- at * length(levels) + match(column, levels) - 1
    known <- known * length(levels) + groups$pairs[, j] - 1
  }
  match(at, known, nomatch = 0L, incomparables = NA)
}

# Values of another kind than those of the fit would all be new: 1 is not "1".
refuse_other_kind <- function(column, name, levels) {
  kind <- function(values) if (is.character(values)) "text" else if (is.logical(values)) "true or false" else "numbers"
  if (!all(is.na(column)) && (is.null(column) || kind(column) != kind(levels))) {
    stop(
      "the groups '", name, "' were ", kind(levels), " in the fit, and are ", if (is.null(column)) "neither text nor numbers" else kind(column),
      " in the new data: give the column the type that it had",
      call. = FALSE
    )
  }
}

# A band at rows: its columns `x`, the unpenalised ones first, and `unseen`: where the fit has not seen the group or it is
# missing what multiplies its effect, and 0 elsewhere. `groups`: whether effects of groups count.
band_at <- function(band, frame, groups = TRUE) {
  names <- c(band$lines, band$columns)
  unseen <- numeric(nrow(frame))
  if (band$kind == "group") {
    x <- matrix(0, nrow(frame), length(names), dimnames = list(NULL, names))
    if (groups) {
      effect <- stats::model.matrix(band$terms, frame, contrasts.arg = band$contrasts)[, band$at]
      codes <- codes_of_groups(band$groups, frame)
      known <- which(codes > 0L)
      x[cbind(known, codes[known])] <- effect[known]
      unseen[codes == 0L] <- effect[codes == 0L]
      x[is.na(effect), ] <- NA
      unseen[is.na(effect)] <- 0
    }
    return(list(x = x, unseen = unseen))
  }
  if (band$kind == "columns") {
    x <- stats::model.matrix(band$terms, frame, contrasts.arg = band$contrasts)[, band$at, drop = FALSE]
    return(list(x = x, unseen = unseen))
  }
  at <- as.double(frame[[band$variable]])
  line <- cbind(at - band$curve$mean)
  x <- curve_at(band$curve, at)
  if (!is.null(band[["level"]])) {
    codes <- codes_of_groups(band$groups, frame)
    column <- frame[[band$by]]
    new <- codes == 0L & !is.na(column)
    if (any(new)) {
      stop(
        "new data have a level of '", band$by, "' that the fit has not seen ('", as.character(column[new][1L]), "'), for which ", band$name,
        " has no curve: leave those rows out",
        call. = FALSE
      )
    }
    here <- ifelse(is.na(column), NA, as.double(codes == band$level))
    line <- line * here
    x <- x * here
  } else if (!is.null(band[["by"]])) {
    number <- as.double(frame[[band$by]])
    line <- cbind(number, number * line)
    x <- number * x
  }
  x <- cbind(line, x)
  dimnames(x) <- list(NULL, names)
  list(x = x, unseen = unseen)
}

# The columns of all bands at rows beside those of the rest of the formula, `plain`, and what multiplies effects of new groups
# (a column for each band).
with_bands <- function(plain, bands, frame, groups = TRUE) {
  count <- ncol(plain) + sum(lengths(lapply(bands, function(band) c(band$lines, band$columns))))
  numbers <- as.double(nrow(frame)) * count
  if (numbers > most_elements) {
    most <- bands[[which.max(lengths(lapply(bands, `[[`, "columns")))]]
    stop(
      sprintf(
        paste(
          "the %d columns of %d rows would take %.0f GB, most of them those of %s (%d): use groups with fewer levels, or fit in",
          "Python, where such columns are sparse"
        ),
        count, nrow(frame), numbers * 8 / 1e9, told_band(most), length(most$columns)
      ),
      call. = FALSE
    )
  }
  each <- lapply(bands, band_at, frame = frame, groups = groups)
  unseen <- do.call(cbind, lapply(each, `[[`, "unseen"))
  colnames(unseen) <- vapply(bands, `[[`, "", "name")
  x <- do.call(cbind, c(list(plain), lapply(each, `[[`, "x")))
  attr(x, "assign") <- c(attr(plain, "assign"), rep(NA, ncol(x) - ncol(plain)))
  list(x = x, unseen = unseen)
}

# The term of a formula that makes a band alone.
told_band <- function(band) {
  if (band$kind != "group") {
    return(band$name)
  }
  paste0("(", if (band$term == "1") "1" else paste("0 +", band$term), " | ", group_label(band$groups), ")")
}

# Refuses bands that would be the same, and columns that are in two bands.
refuse_twice <- function(bands) {
  keys <- vapply(bands, function(band) {
    if (band$kind == "group") paste(c(band$term, sort(band$groups$variables)), collapse = "\r") else band$name
  }, "")
  twice <- bands[duplicated(keys)]
  if (length(twice)) {
    group <- if (twice[[1L]]$kind == "group") group_label(twice[[1L]]$groups)
    stop(
      "the formula has ", told_band(twice[[1L]]), " twice: leave one out", if (!is.null(group)) {
        paste0("; a slope without an intercept is (0 + x | ", group, "), both independent of each other are (x || ", group, ")")
      },
      call. = FALSE
    )
  }
  columns <- unlist(lapply(bands, function(band) c(band$columns, band$lines)))
  if (anyDuplicated(columns)) {
    stop("the column '", columns[duplicated(columns)][1L], "' is in two bands: leave it out of one", call. = FALSE)
  }
}

# Refuses terms that are part of a band, whose columns would be there twice, and warns of curves that say nothing of heights.
check_within <- function(bands, fixed, frame, columns) {
  sums <- factors_of_terms(fixed, frame)
  others <- lapply(bands, function(band) if (band$kind == "columns") factors_of_terms(band$terms, frame))
  for (i in seq_along(bands)) {
    band <- bands[[i]]
    beside <- c(sums, unlist(others[-i], recursive = FALSE))
    for (part in parts_of_band(band)) {
      if (any(vapply(beside, setequal, NA, part$factors))) {
        stop(part$told, " is part of ", told_band(band), " already: leave ", part$told, " out of the rest of the formula", call. = FALSE)
      }
    }
    inside <- intersect(columns, c(band$columns, band$lines))
    if (length(inside)) {
      stop(
        "the column '", inside[1L], "' is in the band ", band$name, " and once more in the formula: leave it out of one",
        call. = FALSE
      )
    }
  }
  refuse_sums_of_curves(bands)
  grouped <- lapply(Filter(function(band) band$kind == "group" && band$term == "1", bands), function(band) band$groups$variables)
  of_levels <- Filter(function(band) !is.null(band[["level"]]), bands)
  for (name in unique(vapply(of_levels, `[[`, "", "by"))) {
    if (!any(vapply(sums, setequal, NA, paste0("levels ", name))) && !any(vapply(grouped, identical, NA, name))) {
      warning(
        "the curves with by = ", name, " are centred, and '", name, "' itself is not in the formula, so that all its levels have one ",
        "height: add ", name, ", or (1 | ", name, ")",
        call. = FALSE
      )
    }
  }
}

# The factors of each term, written alike: "levels g" of a factor, "values x" of a number.
factors_of_terms <- function(terms, frame) {
  table <- attr(terms, "factors")
  if (!length(table)) {
    return(list())
  }
  codes <- as.list(attr(terms, "variables"))[-1L]
  told <- vapply(codes, function(code) {
    name <- column_in_factor(code)
    value <- frame[[deparse1(code)]]
    if (!is.null(name) && (is.call(code) || is.factor(value) || is.character(value) || is.logical(value))) {
      paste("levels", name)
    } else {
      paste("values", deparse1(code))
    }
  }, "")
  lapply(seq_len(ncol(table)), function(j) told[table[, j] > 0])
}

# Terms whose columns are sums of those of a band, as users write them.
parts_of_band <- function(band) {
  if (band$kind == "group" && band$term == "1") {
    return(list(list(told = group_label(band$groups), factors = paste("levels", band$groups$variables))))
  }
  if (band$kind != "smooth") {
    return(list())
  }
  argument <- paste("values", band$variable)
  if (is.null(band[["by"]])) {
    return(list(list(told = band$term, factors = argument)))
  }
  of_levels <- !is.null(band[["level"]])
  by <- paste(if (of_levels) "levels" else "values", band$by)
  out <- list(list(told = paste0(band$by, ":", band$term), factors = c(by, argument)))
  if (!of_levels) {
    c(out, list(list(told = band$by, factors = by)))
  } else if (band$level == 1L) {
    c(out, list(list(told = band$term, factors = argument)))
  } else {
    out
  }
}

# Refuses a curve beside one for each level of a factor, which is their sum.
refuse_sums_of_curves <- function(bands) {
  curves <- Filter(function(band) band$kind == "smooth", bands)
  whole <- vapply(Filter(function(band) is.null(band[["by"]]), curves), `[[`, "", "term")
  first <- list()
  for (band in curves) {
    if (is.null(band[["level"]]) || band$level > 1L) next
    if (band$term %in% whole) {
      stop(
        "s(", band$term, ") is the sum of the curves of all levels of '", band$by, "': leave it out, or make '", band$by, "' an ordered ",
        "factor, whose first level has no curve of its own",
        call. = FALSE
      )
    }
    known <- first[[band$term]]
    if (!is.null(known)) {
      stop(
        "the curves of ", band$term, " for all levels of '", known, "' and of '", band$by, "' have the same sum: make one of them an ",
        "ordered factor, whose first level has no curve of its own",
        call. = FALSE
      )
    }
    first[[band$term]] <- band$by
  }
}

# What is kept of a formula with bands: the formula itself, the terms of the rest (`fixed`) and those of a population without groups
# (`population`), the bands, and variables that are groups and nothing else, with a level of each.
band_terms_of <- function(split, fixed, terms, frame, columns) {
  bands <- bands_of_terms(split$terms, frame)
  check_within(bands, fixed, frame, columns)
  groups <- unique(unlist(lapply(split$terms, function(term) if (term$kind == "group") term$groups)))
  others <- Filter(function(term) term$kind != "group", split$terms)
  of_effects <- lapply(split$terms, function(term) if (term$kind == "group") all.vars(term$effects))
  elsewhere <- c(all.vars(stats::delete.response(fixed)), unlist(of_effects), unlist(lapply(others, function(term) {
    unlist(lapply(variables_of_term(term), all.vars))
  })))
  only <- setdiff(groups, elsewhere)
  population <- part_of_terms(stats::terms(frame_formula(list(fixed = split$fixed, terms = others))), terms)
  written <- split$formula
  environment(written) <- NULL
  list(
    formula = written, fixed = strip_environment(fixed), population = strip_environment(population), bands = bands, only_groups = only,
    group_levels = lapply(stats::setNames(only, only), function(name) levels_that_occur(frame[[name]])[1L])
  )
}

# Which columns of the coefficients are effects of groups.
are_effects_of_groups <- function(object) {
  coefficient_names(object) %in% unlist(lapply(group_bands_of(object), `[[`, "columns"))
}

group_bands_of <- function(object) {
  if (is.null(object$band_terms)) object$group_bands else Filter(function(band) band$kind == "group", object$band_terms$bands)
}

# Groups in the formula of a fit from Python as bands of a formula here, with their levels as text.
group_bands_of_file <- function(bands) {
  text <- function(values) as.character(unlist(values))
  lapply(bands, function(band) {
    groups <- list(variables = text(band$variables), levels = lapply(band$levels, text), pairs = as.matrix(band$pairs))
    list(
      name = band$name, kind = "group", columns = text(band$columns), term = band$term,
      correlated = if (nzchar(band$correlated)) band$correlated, groups = groups
    )
  })
}

# Rows of a fit that was not made by a formula of R without the effects of groups.
without_groups <- function(object, rows) {
  columns <- unlist(lapply(group_bands_of(object), `[[`, "columns"))
  if (!length(columns)) {
    return(rows)
  }
  rows$x[, object$columns %in% columns] <- 0
  rows["unseen"] <- list(NULL)
  rows
}

# What multiplies the effects of groups that the fit has not seen, a column for each band of the posterior; NULL where there are
# none.
unseen_of <- function(object, rows) {
  if (is.null(rows[["unseen"]]) || !any(rows$unseen != 0)) {
    return(NULL)
  }
  out <- matrix(0, nrow(rows$x), length(object$bands))
  out[, match(colnames(rows$unseen), object$bands)] <- rows$unseen
  out
}

refuse_new_groups <- function(object, rows, what) {
  unseen <- unseen_of(object, rows)
  if (!is.null(unseen)) {
    stop(
      what, " does not know the group of row ", which(rowSums(unseen != 0) > 0)[1L], ", which the fit has not seen or which is ",
      "missing: predict() draws its effect from the population",
      call. = FALSE
    )
  }
}
