# Checks of arguments: what cannot be done is refused by name, with the nearest that can.

# Stops where `...` holds anything: arguments that a function or method does not have. `generic` is what the user called.
# Every function for users has `...` for this, since R says "unused argument" otherwise and not what was meant.
refuse_dots <- function(generic, ...) {
  written <- as.list(substitute(list(...)))[-1L]
  if (!length(written)) {
    return(invisible())
  }
  given <- names(written)
  given <- given[nzchar(given)]
  if (!length(given)) {
    stop(generic, "() was given too many arguments", call. = FALSE)
  }
  takes <- setdiff(names(formals(sys.function(sys.parent()))), "...")
  stop(unknown_argument(generic, given[1L], takes), call. = FALSE)
}

unknown_argument <- function(generic, given, takes) {
  rest <- takes[-1L]
  hint <- did_you_mean(given, takes)
  listed <- length(rest) && !(nzchar(hint) && length(rest) > most_listed)
  paste0(
    generic, "() has no argument '", given, "'", hint,
    if (listed) paste0(" (it takes ", paste0("'", rest, "'", collapse = ", "), ")")
  )
}

# Arguments of which a list is easier to read than the nearest of them alone.
most_listed <- 10L

# "did you mean" with the nearest of `valid`, or nothing where none is near.
did_you_mean <- function(given, valid) {
  near <- nearest(given, valid)
  if (length(near)) paste0(": did you mean '", near, "'?") else ""
}

# The nearest of `valid` by edits, those with the same beginning first; none where most letters differ.
nearest <- function(given, valid) {
  if (!length(valid)) {
    return(character())
  }
  edits <- drop(utils::adist(given, valid, ignore.case = TRUE))
  common <- vapply(valid, function(name) common_beginning(given, name), 0L)
  at <- which.min(edits - common)
  if (edits[at] - common[at] < max(nchar(given) / 2, 1)) valid[at] else character()
}

common_beginning <- function(a, b) {
  size <- min(nchar(a), nchar(b))
  same <- strsplit(substr(a, 1L, size), "")[[1L]] == strsplit(substr(b, 1L, size), "")[[1L]]
  if (all(same)) size else match(FALSE, same) - 1L
}

intervals <- c("none", "credible", "prediction")

# The interval that was asked for; the default is all of them, as in match.arg().
check_interval <- function(interval) {
  if (identical(interval, intervals)) {
    return("none")
  }
  at <- if (is.character(interval) && length(interval) == 1L) pmatch(interval, intervals) else NA
  if (is.na(at)) {
    stop(
      "'interval' must be one of \"none\", \"credible\" or \"prediction\"",
      if (identical(interval, "confidence")) {
        ": interval = \"credible\" is the Bayesian counterpart of a confidence interval of the mean"
      },
      call. = FALSE
    )
  }
  intervals[at]
}

# Positions of names among labels; an interaction is found whatever the order of its variables.
match_names <- function(names, labels) {
  at <- match(names, labels)
  # Names that are not R's are written in backticks in a formula, and need not be elsewhere.
  plain <- function(name) gsub("`", "", name, fixed = TRUE)
  at <- ifelse(is.na(at), match(plain(names), plain(labels)), at)
  left <- which(is.na(at) & grepl(":", names, fixed = TRUE))
  if (length(left)) {
    at[left] <- match(sorted_interaction(names[left]), sorted_interaction(labels))
  }
  at
}

sorted_interaction <- function(labels) {
  vapply(strsplit(labels, ":", fixed = TRUE), function(parts) paste(sort(parts), collapse = ":"), "")
}

refuse_both <- function(x, y) {
  if (!is.null(x) || !is.null(y)) {
    stop("give either a formula or x and y, not both", call. = FALSE)
  }
}

# Arguments that only formulas have, given with x and y. `call` is the user's, matched.
refuse_formula_arguments <- function(call) {
  given <- intersect(c("data", "subset", "na.action", "contrasts"), names(call))
  if (length(given)) {
    stop(
      "'", given[1L], "' requires a formula: with x and y, ",
      if (given[1L] == "subset") "give those rows of x and y" else "leave it out",
      call. = FALSE
    )
  }
}

# The first argument, where it is not a formula; `data` is an expression and not evaluated unless there is an error.
check_formula <- function(formula, fitter, data) {
  if (inherits(formula, "formula")) {
    return(invisible())
  }
  if (is.character(formula) && length(formula) == 1L && inherits(try(stats::as.formula(formula), TRUE), "formula")) {
    return(invisible())
  }
  second <- tryCatch(data, error = function(e) NULL)
  stop(
    "'formula' must be a formula such as y ~ x1 + x2, not ", kind_of(formula), ": ",
    if (inherits(second, "formula")) {
      paste0("write the formula first, then the data")
    } else {
      paste0("with matrices write ", fitter, "(x = , y = )")
    },
    call. = FALSE
  )
}

kind_of <- function(value) {
  if (is.data.frame(value)) {
    "a data frame"
  } else if (is.matrix(value) || inherits(value, "Matrix")) {
    "a matrix"
  } else if (is.numeric(value)) {
    "a numeric vector"
  } else {
    paste("an object of class", class(value)[1L])
  }
}

# With a formula `intercept` may only say what the formula says.
check_intercept <- function(intercept, terms) {
  if (check_flag(intercept, "intercept") == (attr(terms, "intercept") == 1L)) {
    return(invisible())
  }
  stop(
    if (intercept) {
      "'intercept' is TRUE, and the formula has no intercept: leave out '0 +' or '- 1'"
    } else {
      "'intercept' requires x and y: to leave the intercept out, write the formula with '0 +', as in y ~ 0 + x"
    },
    call. = FALSE
  )
}

check_flag <- function(value, name) {
  if (!is.logical(value) || length(value) != 1L || is.na(value)) {
    stop("'", name, "' must be TRUE or FALSE", call. = FALSE)
  }
  value
}

check_number <- function(value, name) {
  if (is.null(value)) {
    return(NULL)
  }
  if (!is.numeric(value) || length(value) != 1L || is.na(value)) {
    stop("'", name, "' must be a number", call. = FALSE)
  }
  as.double(value)
}

check_numbers <- function(value, name) {
  if (!is.numeric(value) || !length(value) || anyNA(value)) {
    stop("'", name, "' must be numeric", call. = FALSE)
  }
  as.double(value)
}

check_count <- function(value, name) {
  if (!is.numeric(value) || length(value) != 1L || is.na(value) || value < 1 || value != round(value)) {
    stop("'", name, "' must be a positive whole number", call. = FALSE)
  }
  as.integer(value)
}

check_seed <- function(seed) {
  if (!is.numeric(seed) || length(seed) != 1L || is.na(seed) || seed < 0 || seed != round(seed)) {
    stop("'seed' must be a whole number of at least 0", call. = FALSE)
  }
  as.double(seed)
}

# "fixed", "glmnet" or penalties; NULL for the default.
check_grid <- function(grid) {
  if (is.null(grid) || (is.character(grid) && length(grid) == 1L && grid %in% c("fixed", "glmnet"))) {
    return(grid)
  }
  if (!is.numeric(grid) || !length(grid)) {
    stop("'grid' must be \"fixed\", \"glmnet\" or a vector of penalties", call. = FALSE)
  }
  bad <- which(!is.finite(grid) | grid < 0)
  if (length(bad)) {
    stop("'grid' must have penalties that are finite and not negative: grid[", bad[1L], "] is ", grid[bad[1L]], call. = FALSE)
  }
  as.double(grid)
}

check_level <- function(level) {
  if (!is.numeric(level) || length(level) != 1L || is.na(level) || level <= 0 || level >= 1) {
    stop("'level' must be a number between 0 and 1, such as 0.95", call. = FALSE)
  }
  invisible(level)
}
