# What a formula uses beside the data: constants and functions. A fit keeps the terms without their environment, which may be
# large; of it the fit keeps what the formula used, so that new data are coded as the data were, wherever predict() is called.

# Names that a formula uses beside its data: `values` (vectors that are no columns, such as a degree or knots), `packages`
# (functions of packages, by the name of the package) and `functions` (others, without environment); and the terms whose values
# depend on all rows.
scope_of <- function(terms, data, frame) {
  rows <- nrow(frame) + length(attr(frame, "na.action"))
  env <- if (is.environment(data)) data else attr(terms, ".Environment")
  names <- setdiff(all.vars(terms), if (is.list(data)) names(data))
  values <- lapply(stats::setNames(names, names), get0, envir = env)
  values <- Filter(function(value) is.atomic(value) && !is.null(value) && NROW(value) != rows, values)
  called <- functions_of(terms)
  found <- Filter(Negate(is.null), lapply(stats::setNames(called, called), get0, envir = env, mode = "function"))
  packages <- vapply(names(found), function(name) package_of(name, found[[name]]), "")
  scope <- list(
    values = if (length(values)) values, packages = packages[nzchar(packages)],
    functions = lapply(found[!nzchar(packages)], without_environment), all_rows = terms_of_all_rows(terms, frame, data)
  )
  scope[lengths(scope) > 0L]
}

# Names of the functions that are called in an expression, those written as package::name left aside.
functions_of <- function(expression) {
  if (!is.call(expression)) {
    return(character())
  }
  # A formula's class has methods of its own.
  attributes(expression) <- NULL
  head <- expression[[1L]]
  inside <- unlist(lapply(as.list(expression)[-1L], functions_of))
  unique(c(if (is.symbol(head) && !as.character(head) %in% c("~", "::", ":::")) as.character(head), inside))
}

# The package in which a function is found under its name, or "".
package_of <- function(name, f) {
  home <- if (is.primitive(f)) baseenv() else environment(f)
  if (!isNamespace(home) && !identical(home, baseenv())) {
    return("")
  }
  same <- get0(name, home, mode = "function", inherits = FALSE)
  if (identical(same, f)) environmentName(home) else ""
}

without_environment <- function(f) {
  f <- utils::removeSource(f)
  environment(f) <- baseenv()
  f
}

# The terms of a fit in an environment in which what the formula used stands before what `env` has.
# Of a formula with bands `part` is "fixed" for those of the rest of it, "population" for those without groups.
terms_in <- function(object, env, response = TRUE, part = NULL) {
  if (is.null(object$terms)) {
    stop("this fit was made ", if (is.null(object$file)) "from matrices" else "in Python", ": it has no terms", call. = FALSE)
  }
  terms <- if (is.null(part)) object$terms else object$band_terms[[part]] %||% object$terms
  scope <- object$scope
  if (length(scope)) {
    env <- list2env(as.list(scope$values), parent = env)
    for (name in names(scope$packages)) {
      package <- scope$packages[[name]]
      if (requireNamespace(package, quietly = TRUE)) assign(name, get(name, asNamespace(package)), envir = env)
    }
  }
  attr(terms, ".Environment") <- env
  if (response) terms else stats::delete.response(terms)
}

# Refuses a function of the formula that is another one where the formula is evaluated.
check_functions <- function(object, env) {
  for (name in names(object$scope$functions)) {
    now <- get0(name, env, mode = "function")
    if (is.null(now)) next
    if (is.primitive(now) || !identical(without_environment(now), object$scope$functions[[name]], ignore.bytecode = TRUE)) {
      stop("the function '", name, "' of the formula is not what it was when the model was fitted: define it as it was", call. = FALSE)
    }
  }
}

# Terms whose values in a row depend on other rows, such as I(x - mean(x)): some of ten rows, each coded alone, have other values
# there.
terms_of_all_rows <- function(terms, frame, data) {
  if (!is.data.frame(data) || nrow(frame) < 2L) {
    return(NULL)
  }
  codes <- as.list(attr(terms, "predvars"))[-1L]
  of_calls <- setdiff(which(vapply(codes, is.call, NA)), attr(terms, "response"))
  if (!length(of_calls)) {
    return(NULL)
  }
  table <- as.data.frame(data)
  rows <- unique(round(seq(1, nrow(frame), length.out = 10L)))
  at <- match(rownames(frame)[rows], rownames(table))
  differs <- vapply(of_calls, function(i) {
    any(vapply(seq_along(rows), function(one) {
      # What cannot be coded alone, such as lagged values, is an error for new rows as well.
      alone <- tryCatch(
        suppressWarnings(eval(codes[[i]], table[at[one], , drop = FALSE], attr(terms, ".Environment"))),
        error = function(e) NULL
      )
      NROW(alone) == 1L && !same_values(alone, frame[[i]], rows[one])
    }, NA))
  }, NA)
  if (any(differs)) names(frame)[of_calls[differs]]
}

same_values <- function(alone, all, row) {
  all <- if (is.matrix(all)) all[row, ] else all[row]
  if (is.numeric(all)) isTRUE(all.equal(as.double(alone), as.double(all))) else identical(as.character(alone), as.character(all))
}

# Refuses new rows where the formula cannot code them as it coded those of the fit.
check_scope <- function(object, env) {
  check_functions(object, env)
  term <- object$scope$all_rows[1L]
  if (!is.null(term)) {
    stop(
      "the values of the term '", term, "' depend on all rows of the data, and those of new rows would be others: make a column ",
      "of these values before the fit, or use scale(), poly() or splines::ns(), which keep what they took from the data",
      call. = FALSE
    )
  }
}
