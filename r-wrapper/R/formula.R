# R's formulas, frames and matrices -> what Python is given: double matrices, names, and what predict() needs later.

# The parts of a model as a list: y (n x q), x (n x p) with names, weights, and what is kept with the fit.
# `call` is the user's, `env` where it was made.
# With `bands` terms may have a variance of their own.
formula_input <- function(call, env, contrasts, intercept = NULL, family = "gaussian", bands = FALSE) {
  wanted <- match(c("formula", "data", "subset", "weights", "na.action", "exposure"), names(call), 0L)
  data <- eval(call$data, env)
  if (inherits(data, "mids")) {
    stop(
      "'data' is a mids object: fit_imputed(", deparse1(call$data), ", function(data) ", deparse1(call[[1L]]),
      "(..., data = data)) fits its completed data sets and pools the fits",
      call. = FALSE
    )
  }
  split <- special_terms(call$formula, env, data, bands)
  frame_call <- call[c(1L, wanted)]
  if (!is.null(split)) frame_call$formula <- frame_formula(split)
  frame_call$drop.unused.levels <- TRUE
  frame_call[[1L]] <- quote(stats::model.frame)
  frame <- learned_frame(eval(frame_call, env), frame_call, data, env)
  terms <- attr(frame, "terms")
  offset <- stats::model.offset(frame)
  if (!is.null(offset) && !"exposure" %in% families[[family]]$takes) {
    stop("an offset is not supported", if (family == "gaussian") ": subtract it from the response", call. = FALSE)
  }
  if (attr(terms, "response") == 0L) {
    stop("the formula has no response", call. = FALSE)
  }
  fixed <- if (is.null(split)) terms else part_of_terms(stats::terms(split$fixed), terms)
  if (!is.null(intercept)) {
    check_intercept(intercept, fixed)
  }
  if (nrow(frame) == 0L) {
    stop("0 (non-NA) cases", call. = FALSE)
  }
  response <- families[[family]]$response(response_of_frame_call(frame, frame_call, env, family), deparse1(terms[[2L]]))
  x <- stats::model.matrix(fixed, frame, contrasts)
  of_fixed <- list(contrasts = attr(x, "contrasts"))
  x <- without_intercept(x, family)
  of_fixed$assign <- attr(x, "assign")
  own <- if (!is.null(split)) band_terms_of(split, fixed, terms, frame, colnames(x))
  if (!is.null(own)) x <- with_bands(x, own$bands, frame)$x
  check_finite(x, "column")
  variables <- predictors(terms, data)
  c(response, list(
    x = x,
    row_names = rownames(frame),
    weights = as_weights(stats::model.weights(frame), nrow(response$y)),
    exposure = check_exposure(frame[["(exposure)"]], offset, rownames(frame)),
    intercept = attr(fixed, "intercept") == 1L,
    assign = c(of_fixed$assign, rep(-1L, ncol(x) - length(of_fixed$assign))),
    band_terms = own,
    terms = strip_environment(terms),
    variables = variables,
    scope = scope_of(terms, data, frame),
    untransformed = untransformed(frame, data, terms),
    xlevels = levels_of_factors(terms, frame, own$only_groups),
    contrasts = of_fixed$contrasts,
    na.action = attr(frame, "na.action"),
    frame = frame
  ))
}

# The formula in two parts (split_formula()), where terms may have a variance of their own (`bands`) and some have. Refuses those
# of other packages, which R would take for something else (a bar for a logical or) or not find.
special_terms <- function(formula, env, data, bands) {
  formula <- tryCatch(stats::as.formula(eval(formula, env), env), error = function(e) NULL)
  if (is.null(formula)) {
    return(NULL)
  }
  for (term in written_terms(formula[[length(formula)]])) {
    name <- called(term)
    if (!bands && name %in% c("|", "||")) {
      group <- deparse1(term[[3L]])
      stop(
        "the formula has the term '", deparse1(term), "': random effects ('|') are for bayes_ridge(). Write ",
        if (identical(term[[2L]], 1)) "" else paste0(deparse1(term[[2L]]), " * "), "factor(", group,
        "), whose coefficients are shrunk or selected as well; a logical 'or' is I(", deparse1(term), ")",
        call. = FALSE
      )
    }
    if (name %in% c(smooth_terms, if (!bands) "s") && !is_own_function(name, environment(formula))) {
      stop(
        "the formula has the term '", deparse1(term), "': ", if (name == "s") {
          "smooth curves are for bayes_ridge()"
        } else {
          "smooth terms of other packages are not supported"
        },
        ". Write a spline with given degrees of freedom, such as splines::ns(", all.vars(term)[1L], ", df = 4)",
        call. = FALSE
      )
    }
  }
  if (bands) split_formula(formula, data)
}

smooth_terms <- c("te", "ti", "t2")

# Whether there is a function of this name that is not one of a package for smooth terms.
is_own_function <- function(name, env) {
  found <- get0(name, env, mode = "function")
  !is.null(found) && !environmentName(topenv(environment(found))) %in% c("mgcv", "gam", "brms")
}

# Terms of a formula as they are written: what its operators stand between.
written_terms <- function(part) {
  operators <- c("+", "-", "*", "/", ":", "^", "%in%", "(")
  if (is.call(part) && is.symbol(part[[1L]]) && as.character(part[[1L]]) %in% operators) {
    return(unlist(lapply(as.list(part)[-1L], written_terms), recursive = FALSE))
  }
  list(part)
}

matrix_input <- function(x, y, weights, intercept, sparse = FALSE, family = "gaussian", exposure = NULL) {
  if (is.null(x) || is.null(y)) {
    stop("give a formula, or both x and y", call. = FALSE)
  }
  x <- as_columns(x, "x", sparse)
  response <- families[[family]]$response(y, "y")
  y <- response$y
  if (nrow(x) != nrow(y)) {
    stop(sprintf("x has %d rows and y has %d", nrow(x), nrow(y)), call. = FALSE)
  }
  if (nrow(x) == 0L) {
    stop("0 (non-NA) cases", call. = FALSE)
  }
  check_finite(x, "column")
  if (!is.null(weights) && length(weights) != nrow(x)) {
    stop(sprintf("weights has length %d, x has %d rows", length(weights), nrow(x)), call. = FALSE)
  }
  row_names <- rownames(x)
  if (is.null(row_names)) row_names <- rownames(y)
  c(response, list(
    x = x,
    row_names = row_names,
    weights = as_weights(weights, nrow(x)),
    exposure = check_exposure(exposure, NULL, row_names %||% seq_len(nrow(x))),
    intercept = intercept
  ))
}

# A numeric matrix, from a matrix, a data frame of numbers or a vector; where `sparse`, those of the package Matrix stay so.
as_columns <- function(x, what, sparse = FALSE) {
  if (is.data.frame(x)) {
    good <- vapply(x, function(column) is.numeric(column) || is.logical(column), NA)
    if (!all(good)) {
      stop(
        what, " has columns that are not numeric (", paste(names(x)[!good], collapse = ", "), "): use a formula",
        call. = FALSE
      )
    }
    x <- as.matrix(x)
  }
  if (inherits(x, "Matrix") && requireNamespace("Matrix", quietly = TRUE)) {
    if (sparse && inherits(x, "sparseMatrix")) {
      return(methods::as(methods::as(methods::as(x, "dMatrix"), "generalMatrix"), "CsparseMatrix"))
    }
    x <- as.matrix(x)
  }
  if (!(is.numeric(x) || is.logical(x)) || length(dim(x)) > 2L) {
    stop(what, " must be a numeric matrix", call. = FALSE)
  }
  if (is.null(dim(x))) {
    x <- matrix(x, ncol = 1L, dimnames = list(names(x), NULL))
  }
  storage.mode(x) <- "double"
  x
}

# The response as a matrix of doubles with one named column for each target.
as_response <- function(y, name) {
  if (is.data.frame(y)) {
    y <- response_of_frame(y)
  }
  if (is.factor(y) || is.character(y) || !(is.numeric(y) || is.logical(y)) || inherits(y, c("Surv", "Date", "POSIXct"))) {
    stop(
      "the response must be numeric, not ", class(y)[1L],
      if (is.ordered(y)) {
        ": family = \"ordinal\" is for ordered categories"
      } else if (is.factor(y) || is.character(y)) {
        ": family = binomial() is for responses with two values"
      },
      call. = FALSE
    )
  }
  if (is.null(dim(y))) {
    y <- matrix(as.double(y), ncol = 1L, dimnames = list(names(y), name))
  } else {
    y <- unclass(y)
    y <- matrix(as.double(y), nrow(y), ncol(y), dimnames = dimnames(y))
  }
  if (is.null(colnames(y))) {
    colnames(y) <- if (ncol(y) == 1L) name else paste0("Y", seq_len(ncol(y)))
  }
  unnamed <- !nzchar(colnames(y))
  colnames(y)[unnamed] <- paste0("Y", seq_len(ncol(y)))[unnamed]
  check_finite(y, "response")
  y
}

# A data frame of numbers as a matrix with its names.
response_of_frame <- function(y) {
  if (!length(y)) {
    stop("the response has no column", call. = FALSE)
  }
  good <- vapply(y, function(column) is.null(dim(column)) && (is.numeric(column) || is.logical(column)), NA)
  if (!all(good)) {
    first <- which(!good)[1L]
    stop("the response '", names(y)[first], "' must be numeric, not ", class(y[[first]])[1L], call. = FALSE)
  }
  as.matrix(y)
}

as_weights <- function(weights, n) {
  if (is.null(weights)) {
    return(NULL)
  }
  if (!is.numeric(weights) || length(weights) != n) {
    stop("'weights' must be a numeric vector with one weight for each row", call. = FALSE)
  }
  if (any(!is.finite(weights)) || any(weights <= 0)) {
    stop("weights must be positive and finite: use 'subset' to leave out rows that should not count", call. = FALSE)
  }
  as.double(weights)
}

# What crosses the bridge: a matrix of doubles, or the slots of a sparse one.
columns_for_python <- function(x) {
  if (!inherits(x, "sparseMatrix")) {
    return(x)
  }
  list(nrow = nrow(x), ncol = ncol(x), i = as.double(x@i), p = as.double(x@p), x = x@x)
}

check_finite <- function(m, what) {
  values <- if (inherits(m, "sparseMatrix")) m@x else m
  if (is.finite(sum(values))) {
    return(invisible())
  }
  bad <- which(vapply(seq_len(ncol(m)), function(j) any(!is.finite(m[, j])), NA))
  if (length(bad)) {
    names <- if (is.null(colnames(m))) bad else colnames(m)[bad]
    stop("NA/NaN/Inf in ", what, " ", paste0("'", utils::head(names, 5L), "'", collapse = ", "), call. = FALSE)
  }
}

# Names (or, for matrices, positions) of the unpenalised columns, as Python wants them.
resolve_unpenalized <- function(unpenalized, input) {
  if (is.null(unpenalized)) {
    return(NULL)
  }
  if (is.null(input$terms)) {
    if (is.numeric(unpenalized)) {
      return(columns_by_position(unpenalized, input))
    }
    return(as.list(as.character(unpenalized)))
  }
  if (!is.character(unpenalized)) {
    stop("'unpenalized' must be names of terms or of columns of the model matrix", call. = FALSE)
  }
  every <- !is.null(input$band_terms) && "fixed" %in% unpenalized && !"fixed" %in% attr(input$band_terms$fixed, "term.labels")
  plain <- if (every) as.list(colnames(input$x)[input$assign > 0L])
  unique(c(plain, columns_of_names(if (every) setdiff(unpenalized, "fixed") else unpenalized, input, "'unpenalized'")))
}

# The columns that names of terms or of columns stand for; `what` names them.
columns_of_names <- function(names, input, what) {
  labels <- attr(input$band_terms$fixed %||% input$terms, "term.labels")
  columns <- colnames(input$x)
  found <- lapply(names, function(name) {
    term <- match_names(name, labels)
    if (!is.na(term)) {
      return(columns[input$assign == term])
    }
    column <- match_names(name, columns)
    if (is.na(column)) {
      stop(
        what, " names '", name, "', which is neither a term nor a column; the terms are ",
        paste0("'", labels, "'", collapse = ", "), did_you_mean(name, labels),
        call. = FALSE
      )
    }
    columns[column]
  })
  as.list(unique(unlist(found)))
}

# Columns of a matrix at positions: by name, since a number can be the name of another, or without names counted from 0.
columns_by_position <- function(positions, input, what = "'unpenalized'") {
  width <- ncol(input$x)
  if (anyNA(positions) || any(positions != round(positions)) || any(positions < 1) || any(positions > width)) {
    stop(sprintf("%s: positions must lie between 1 and %d", what, width), call. = FALSE)
  }
  as.list(colnames(input$x)[positions] %||% (as.double(positions) - 1))
}

# Variables that new data must have: those of the formula that came from `data`, and not from elsewhere, as a degree or
# knots may.
predictors <- function(terms, data) {
  if (is.list(data)) intersect(all.vars(stats::delete.response(terms)), names(data))
}

# Variables of the formula that the model frame has only within functions, in its rows: NULL if there are none.
untransformed <- function(frame, data, terms) {
  absent <- setdiff(intersect(all.vars(terms), names(data)), names(frame))
  if (!is.data.frame(data) || !length(absent)) {
    return(NULL)
  }
  at <- match(rownames(frame), rownames(data))
  if (!anyNA(at)) as.data.frame(data)[at, absent, drop = FALSE]
}

# Levels of the factors that new data must have; groups may be new.
levels_of_factors <- function(terms, frame, only_groups = NULL) {
  out <- stats::.getXlevels(terms, frame)
  out <- out[setdiff(names(out), only_groups)]
  if (length(out)) out
}

# Terms that read a part of the variables of others, with what these have learned of the data.
part_of_terms <- function(part, whole) {
  told <- function(terms) vapply(as.list(attr(terms, "variables"))[-1L], deparse1, "")
  at <- match(told(part), told(whole))
  attr(part, "predvars") <- attr(whole, "predvars")[c(1L, at + 1L)]
  attr(part, "dataClasses") <- attr(whole, "dataClasses")[at]
  part
}

strip_environment <- function(terms) {
  attr(terms, ".Environment") <- NULL
  terms
}

# A call as it is kept: a formula that was passed by value loses its environment.
strip_call <- function(call) {
  if (inherits(call$formula, "formula")) {
    attr(call$formula, ".Environment") <- NULL
  }
  call
}

# New data as rows of the model matrix: x (m x p, NA in rows that are not complete), what na.action left out, and `unseen`, what
# multiplies the effects of groups that the fit has not seen (a column for each band with such, or NULL). `groups`: whether
# effects of groups count.
new_rows <- function(object, newdata, na.action, env, groups = TRUE) {
  if (is.null(object$terms)) {
    coded <- is.null(object$coding) || has_columns(object, newdata)
    rows <- if (coded) {
      list(x = new_columns(object, newdata))
    } else {
      rows_with_groups(object, newdata, groups) %||% rows_of_python(object, newdata)
    }
    return(if (groups) rows else without_groups(object, rows))
  }
  if (is.matrix(newdata)) {
    newdata <- as.data.frame(newdata)
  }
  if (!is.list(newdata)) {
    stop("'newdata' must be a data frame with the variables of the formula", call. = FALSE)
  }
  terms <- terms_in(object, env, response = FALSE)
  check_scope(object, env)
  of_groups <- object$band_terms$only_groups
  absent <- setdiff(object$variables, c(names(newdata), if (!groups) of_groups))
  if (!groups) {
    count <- if (is.data.frame(newdata)) nrow(newdata) else NROW(newdata[[1L]])
    newdata[of_groups] <- lapply(object$band_terms$group_levels, rep, length.out = count)
  }
  if (length(absent)) {
    stop("'newdata' lacks the variable(s) ", paste0("'", absent, "'", collapse = ", "), call. = FALSE)
  }
  newdata <- with_known_levels(newdata, object$scope$factors)
  frame <- stats::model.frame(terms, newdata, na.action = na.action, xlev = object$xlevels)
  omitted <- attr(frame, "na.action")
  if (is.data.frame(newdata) && length(frame) && nrow(frame) + length(omitted) != nrow(newdata)) {
    stop(
      sprintf("'newdata' has %d rows, but variables of the formula have %d", nrow(newdata), nrow(frame)),
      call. = FALSE
    )
  }
  classes <- attr(terms, "dataClasses")
  if (!is.null(classes)) {
    stats::.checkMFClasses(classes[setdiff(names(classes), of_groups)], frame)
  }
  c(columns_at(object, terms, frame, groups), list(na.action = omitted))
}

# The model matrix of a family with cut points, which take the place of the intercept.
without_intercept <- function(x, family) {
  assign <- attr(x, "assign")
  if (!isTRUE(families[[family]]$cuts) || !any(assign == 0L)) {
    return(x)
  }
  structure(x[, assign > 0L, drop = FALSE], assign = assign[assign > 0L])
}

# Rows of the model matrix of a model frame, and their `offset`; of a formula with bands also `unseen`.
columns_at <- function(object, terms, frame, groups = TRUE) {
  own <- object$band_terms
  fixed <- if (is.null(own)) terms else stats::delete.response(own$fixed)
  plain <- without_intercept(stats::model.matrix(fixed, frame, contrasts.arg = object$contrasts), object$distribution %||% "gaussian")
  c(if (is.null(own)) list(x = plain) else with_bands(plain, own$bands, frame, groups), list(offset = stats::model.offset(frame)))
}

new_columns <- function(object, newdata) {
  names <- object$columns
  if (is.data.frame(newdata) && all(names %in% names(newdata))) {
    newdata <- newdata[names]
  }
  if (is.numeric(newdata) && is.null(dim(newdata)) && length(names) > 1L) {
    if (length(newdata) != length(names)) {
      stop(sprintf("'newdata' has length %d, but x had %d columns", length(newdata), length(names)), call. = FALSE)
    }
    newdata <- matrix(newdata, nrow = 1L, dimnames = list(NULL, names(newdata)))
  }
  if (isTRUE(object$named) && !is.null(colnames(newdata))) {
    absent <- setdiff(names, colnames(newdata))
    if (length(absent)) {
      stop("'newdata' lacks the column(s) ", paste0("'", utils::head(absent, 5L), "'", collapse = ", "), call. = FALSE)
    }
    newdata <- newdata[, names, drop = FALSE]
  }
  x <- as_columns(newdata, "newdata")
  if (ncol(x) != length(names)) {
    stop(sprintf("'newdata' has %d columns, but x had %d", ncol(x), length(names)), call. = FALSE)
  }
  x
}
