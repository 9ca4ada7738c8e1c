# What a formula uses beside the data: constants and functions. A fit keeps the terms without their environment, which may be
# large; of it the fit keeps what the formula used, so that new data are coded as the data were, wherever predict() is called.

# Names that a formula uses beside its data: `values` (vectors that are no columns, such as a degree or knots), `packages`
# (functions of packages, by the name of the package) and `functions` (others, without environment); the terms whose values
# depend on all rows; and the `factors` that its functions read.
scope_of <- function(terms, data, frame) {
  table <- table_of_variables(terms, data)
  env <- if (is.environment(data)) data else attr(terms, ".Environment")
  names <- setdiff(all.vars(terms), if (is.list(data)) names(data))
  values <- lapply(stats::setNames(names, names), get0, envir = env)
  values <- Filter(function(value) is.atomic(value) && !is.null(value) && NROW(value) != nrow(table), values)
  called <- functions_of(terms)
  found <- Filter(Negate(is.null), lapply(stats::setNames(called, called), get0, envir = env, mode = "function"))
  packages <- vapply(names(found), function(name) package_of(name, found[[name]]), "")
  scope <- list(
    values = if (length(values)) values, packages = packages[nzchar(packages)],
    functions = lapply(found[!nzchar(packages)], without_environment), all_rows = terms_of_all_rows(terms, frame, table),
    factors = factors_in_functions(terms, table)
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

# The variables of a formula in all rows of the data, wherever the formula found them.
table_of_variables <- function(terms, data) {
  if (is.data.frame(data)) {
    return(as.data.frame(data))
  }
  env <- attr(terms, ".Environment")
  of_data <- function(code) eval(code, if (is.null(data)) env else data, env)
  count <- NROW(of_data(attr(terms, "variables")[[2L]]))
  names <- all.vars(terms)
  found <- lapply(stats::setNames(names, names), function(name) tryCatch(of_data(as.name(name)), error = function(e) NULL))
  structure(Filter(function(value) NROW(value) == count, found), class = "data.frame", row.names = seq_len(count))
}

# Terms whose values in a row depend on other rows, such as I(x - mean(x)): some of ten rows, each coded alone, these rows coded
# together, or the first half of the data, have other values there.
terms_of_all_rows <- function(terms, frame, table) {
  codes <- as.list(attr(terms, "predvars"))[-1L]
  of_calls <- setdiff(which(vapply(codes, is.call, NA)), attr(terms, "response"))
  if (nrow(frame) < 2L || !length(of_calls)) {
    return(NULL)
  }
  ten <- unique(round(seq(1, nrow(frame), length.out = 10L)))
  some <- c(as.list(ten), list(ten, seq_len(nrow(frame) %/% 2L)))
  table <- table[intersect(unlist(lapply(codes[of_calls], all.vars)), names(table))]
  at <- match(rownames(frame), rownames(table))
  differs <- vapply(of_calls, function(i) {
    any(vapply(some, function(rows) {
      # What cannot be coded without the others, such as lagged values, is an error for new rows as well.
      alone <- tryCatch(
        suppressWarnings(eval(codes[[i]], table[at[rows], , drop = FALSE], attr(terms, ".Environment"))),
        error = function(e) NULL
      )
      NROW(alone) == length(rows) && !same_values(alone, frame[[i]], rows)
    }, NA))
  }, NA)
  if (any(differs)) names(frame)[of_calls[differs]]
}

same_values <- function(alone, all, rows) {
  all <- if (is.matrix(all)) all[rows, ] else all[rows]
  if (is.numeric(all)) isTRUE(all.equal(as.double(alone), as.double(all))) else identical(as.character(alone), as.character(all))
}

# Factors that functions of the formula read, without their values: as.integer(f) and C(f, sum) depend on all levels.
factors_in_functions <- function(terms, table) {
  calls <- Filter(is.call, as.list(attr(stats::delete.response(terms), "variables"))[-1L])
  found <- Filter(is.factor, table[intersect(unlist(lapply(calls, all.vars)), names(table))])
  lapply(found, `[`, 0L)
}

# New data with the levels of the factors that functions of the formula read; levels that are new stand after them.
with_known_levels <- function(newdata, factors) {
  for (name in intersect(names(factors), names(newdata))) {
    value <- newdata[[name]]
    if (!is.factor(value) && !is.character(value)) next
    known <- factors[[name]]
    told <- as.character(value)
    newdata[[name]] <- factor(told, c(levels(known), setdiff(told, c(levels(known), NA))), ordered = is.ordered(known))
  }
  newdata
}

# Refuses new rows where the formula cannot code them as it coded those of the fit.
check_scope <- function(object, env) {
  check_functions(object, env)
  term <- object$scope$all_rows[1L]
  if (!is.null(term)) {
    stop(
      "the values of the term '", term, "' depend on all rows of the data, and those of new rows would be others: make a column ",
      "of these values before the fit, or use scale(), poly() or splines::ns(), which keep what they took from the data where they ",
      "are not inside another function",
      call. = FALSE
    )
  }
}
