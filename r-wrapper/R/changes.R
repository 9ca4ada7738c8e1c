# Changes of variables, for effects(): what R codes of them, row by row.

most_variables <- 200L

# First step of a numerical derivative relative to the range of the variable, which becomes shorter by `shorter` until two
# derivatives agree, as in Python.
first_step <- 1e-4
shorter <- 10
most_steps <- 8L
agreement <- 1e-6

# Values of a variable, and rows, at which it is looked whether columns change in jumps; halvings of an interval in which a column
# changes, and the share of the largest change that is left of that of a jump.
sweep_values <- 50L
sweep_rows <- 20L
bisections <- 30L
jump <- 1e-6

# A list for each change: `variable`, `label`, and the rows of the model matrix `from` and `to`, or `at` and their derivatives
# `slopes`; the weights of the rows are an attribute.
changes_of <- function(object, variables, values, data, env) {
  found <- variables_of_fit(object, data, env)
  names <- setdiff(names(found$table), only_in_offset(object))
  if (is.null(variables)) {
    if (!length(names)) stop("the fit has no variables", call. = FALSE)
    if (length(names) > most_variables) {
      stop("the fit has ", length(names), " variables: name those whose effects are asked for by 'variables'", call. = FALSE)
    }
    variables <- names
  }
  if (!is.character(variables) || !length(variables)) {
    stop("'variables' must be names of variables of the fit", call. = FALSE)
  }
  unknown <- setdiff(variables, names)
  if (length(unknown)) {
    stop("'", unknown[1L], "' is not a variable of the fit", did_you_mean(unknown[1L], names), call. = FALSE)
  }
  if (!is.null(values) && length(values) != 2L) {
    stop("'values' must be two values to compare, c(a, b)", call. = FALSE)
  }
  out <- unlist(lapply(unique(variables), changes_of_one, found = found, values = values), recursive = FALSE)
  attr(out, "weights") <- found$weights
  out
}

# Variables of exposures, which no coefficient belongs to.
only_in_offset <- function(object) {
  offset <- attr(object$terms, "offset")
  if (is.null(offset)) {
    return(character())
  }
  variables <- vapply(as.list(attr(object$terms, "variables"))[-1L], deparse1, "")
  of_terms <- rownames(attr(object$terms, "factors"))[rowSums(attr(object$terms, "factors")) > 0]
  setdiff(all_variables(variables[offset]), all_variables(of_terms))
}

all_variables <- function(texts) unique(unlist(lapply(texts, function(text) all.vars(str2lang(text)))))

# The variables at the rows, their weights, and a function from such a table to rows of the model matrix.
variables_of_fit <- function(object, data, env) {
  what <- "effects()"
  if (!is.null(object$file)) {
    stop("effects() requires a fit by R: use effects() in Python for a fit that was read from a file", call. = FALSE)
  }
  if (is.null(object$terms)) {
    x <- if (is.null(data)) own_rows(object, env)$x else new_rows(object, data, stats::na.pass, env)$x
    table <- as.data.frame(as.matrix(x))
    names(table) <- object$columns
    ones <- vapply(table, function(column) all(column == 1), NA)
    coded <- function(rows) with_ones(object, unname(as.matrix(rows)))
    varying <- table[!(ones & object$constant & !object$intercept_added)]
  } else {
    check_scope(object, env)
    varying <- if (is.null(data)) original_data(object, NULL, what) else as.data.frame(data)
    absent <- setdiff(predictor_names(object), names(varying))
    if (length(absent)) stop("'data' lacks the variable(s) ", paste0("'", absent, "'", collapse = ", "), call. = FALSE)
    varying <- varying[predictor_names(object)]
    table <- varying
    coded <- function(rows) {
      with_ones(object, unname(new_rows(object, rows, stats::na.pass, env)$x))
    }
  }
  complete <- stats::complete.cases(table)
  if (!is.null(data) && !any(complete)) stop("'data' has no row without missing values", call. = FALSE)
  weights <- if (is.null(data) && !family_of(object)$noise) family_of(object)$sizes(object) else 1
  fitted <- if (is.null(data)) varying else tryCatch(variables_of_fit(object, NULL, env)$table, error = function(e) NULL)
  list(
    fitted = fitted, table = varying[complete, , drop = FALSE], whole = table[complete, , drop = FALSE], coded = coded,
    weights = rep(weights, length.out = length(complete))[complete], levels = object$xlevels,
    written = if (!is.null(object$terms)) as.list(attr(object$terms, "variables"))[-(1:2)]
  )
}

changes_of_one <- function(name, found, values) {
  column <- found$table[[name]]
  levels <- levels_of_variable(column, found$levels[[name]]) %||% levels_of_number(name, found)
  at <- function(value) found$coded(with_value(found$whole, name, value, levels))
  if (!is.null(values)) {
    for (value in as.list(values)) check_value(name, value, found$fitted[[name]] %||% column, levels)
    return(list(list(
      variable = name, label = change_label(values, is.null(levels)), from = at(values[[1L]]), to = at(values[[2L]])
    )))
  }
  if (is.null(levels)) {
    slopes <- slopes_of(name, found)
    return(list(list(variable = name, label = "per unit", at = found$coded(found$whole), slopes = slopes)))
  }
  from <- at(levels[1L])
  lapply(levels[-1L], function(level) {
    list(variable = name, label = paste(level, "-", levels[1L]), from = from, to = at(level))
  })
}

# Levels of a number that the formula has within functions such as factor() only.
levels_of_number <- function(name, found) {
  of_name <- found$written[vapply(found$written, function(one) name %in% all.vars(one), NA)]
  texts <- vapply(of_name, deparse1, "")
  alone <- length(texts) && all(texts %in% names(found$levels)) && all(lengths(lapply(of_name, all.vars)) == 1L)
  if (alone) found$levels[[texts[1L]]]
}

change_label <- function(values, is_number) {
  values <- vapply(as.list(values), function(value) format(value, digits = 7L, big.mark = if (is_number) "," else ""), "")
  if (is_number) paste(values[1L], "to", values[2L]) else paste(values[2L], "-", values[1L])
}

# Levels of a factor, text or truth values, the first one being compared with; NULL for numbers.
levels_of_variable <- function(column, coded) {
  if (is.logical(column)) {
    return(c("FALSE", "TRUE"))
  }
  if (is.factor(column) || is.character(column)) coded %||% levels(as.factor(column))
}

check_value <- function(name, value, column, levels) {
  if (is.null(levels)) {
    if (!is.numeric(value) || !is.finite(value)) stop("the values of '", name, "' must be finite numbers", call. = FALSE)
    if (value < min(column, na.rm = TRUE) || value > max(column, na.rm = TRUE)) {
      warning(
        "the value ", format(value), " of '", name, "' lies outside the range of the data, ", format(min(column, na.rm = TRUE)), " to ",
        format(max(column, na.rm = TRUE)),
        call. = FALSE
      )
    }
  } else if (!as.character(value) %in% levels) {
    stop("'", name, "' has no level '", value, "'", did_you_mean(as.character(value), levels), call. = FALSE)
  }
}

# A table with one variable at a value, of its own type.
with_value <- function(table, name, value, levels) {
  column <- table[[name]]
  table[[name]] <- if (is.logical(column)) {
    rep(as.logical(value), nrow(table))
  } else if (is.factor(column)) {
    factor(rep(as.character(value), nrow(table)), levels = levels(column), ordered = is.ordered(column))
  } else {
    rep(if (is.null(levels)) value else as.character(value), nrow(table))
  }
  table
}

not_smooth <- function(name) {
  stop(
    "the formula has no derivative with respect to '", name, "' everywhere, since the prediction changes in jumps: give two values to ",
    "compare, values = c(a, b)",
    call. = FALSE
  )
}

# Derivatives of the rows of the model matrix with respect to a number, by differences within its range.
slopes_of <- function(name, found) {
  x <- as.double(found$whole[[name]])
  range <- range(x)
  width <- diff(range)
  if (!(width > 0)) {
    width <- max(abs(range), 1)
    range <- range + c(-1, 1) * width
  }
  coded <- function(values, table = found$whole) {
    table[[name]] <- values
    rows <- tryCatch(found$coded(table), error = function(e) NULL)
    if (is.null(rows) || anyNA(rows)) not_smooth(name)
    rows
  }
  refuse_jumps(name, found, range, coded)
  step <- first_step * width
  previous <- NULL
  for (i in seq_len(most_steps)) {
    low <- pmax(x - step, range[1L])
    high <- pmin(x + step, range[2L])
    slopes <- (coded(high) - coded(low)) / (high - low)
    if (!is.null(previous)) {
      size <- apply(abs(slopes), 2L, max)
      if (all(abs(slopes - previous) <= agreement * rep(pmax(size, .Machine$double.xmin), each = nrow(slopes)))) break
    }
    previous <- slopes
    step <- step / shorter
  }
  slopes
}

# Whether columns change in jumps: in the interval in which each changes most, next to nothing is left after bisections.
refuse_jumps <- function(name, found, range, coded) {
  rows <- found$whole[unique(round(seq(1, nrow(found$whole), length.out = sweep_rows))), , drop = FALSE]
  # Not in round places, where jumps are likely.
  values <- range[1L] + diff(range) * c(0, (seq_len(sweep_values - 1L) - 0.381966) / sweep_values, 1)
  rows <- rows[rep(seq_len(nrow(rows)), each = length(values)), , drop = FALSE]
  design <- coded(rep(values, length.out = nrow(rows)), rows)
  change <- abs(design[-1L, , drop = FALSE] - design[-nrow(design), , drop = FALSE])
  change[seq_len(nrow(change)) %% length(values) == 0L, ] <- 0
  for (j in which(apply(change, 2L, max) > 0)) {
    i <- which.max(change[, j])
    row <- rows[i, , drop = FALSE]
    low <- values[(i - 1L) %% length(values) + 1L]
    high <- values[(i - 1L) %% length(values) + 2L]
    of <- function(value) coded(value, row)[1L, j]
    ends <- c(of(low), of(high))
    for (halving in seq_len(bisections)) {
      middle <- low + 0.381966 * (high - low)
      value <- of(middle)
      if (abs(value - ends[1L]) > abs(ends[2L] - value)) {
        high <- middle
        ends[2L] <- value
      } else {
        low <- middle
        ends[1L] <- value
      }
    }
    if (abs(diff(ends)) > jump * max(change[, j])) not_smooth(name)
  }
}
