# The variables of a formula in the rows of the fit, before any function of the formula: what grids of values are made of.

# A data frame with the predictors, and with the variables of the response where they are known. They are those of the kept
# model frame, or else of `data`, or else of the data that the call names, wherever it was called from. Rows that do not
# give the fitted values again are not those of the fit.
original_data <- function(object, data = NULL, what = "this") {
  if (is.null(object$terms)) {
    made <- if (is.null(object$file)) "from matrices" else "in Python"
    stop(what, " requires a fit by a formula of R: this fit was made ", made, call. = FALSE)
  }
  variables <- predictor_names(object)
  if (!is.null(data)) {
    found <- rows_of_fit(object, data, variables)
    if (is.null(found)) {
      stop("'data' are not those of the fit: they do not give its fitted values", call. = FALSE)
    }
    return(found)
  }
  kept <- c(object$model, object$untransformed)
  if (all(c(response_names(object), variables) %in% names(kept))) {
    return(kept_columns(object, kept, c(response_names(object), variables)))
  }
  for (table in tables_in_reach(object, variables)) {
    found <- rows_of_fit(object, table, variables)
    if (!is.null(found)) {
      return(found)
    }
  }
  if (length(kept) && all(variables %in% names(kept))) {
    return(kept_columns(object, kept, variables))
  }
  stop(
    "the data of this fit were not found again, or have changed since: ", what, " requires the variables ",
    paste0("'", variables, "'", collapse = ", "), ", give them by 'data' if it has this argument",
    call. = FALSE
  )
}

# Variables of the formula that have a value in each row.
predictor_names <- function(object) {
  object$variables %||% setdiff(all.vars(stats::delete.response(object$terms)), "pi")
}

response_names <- function(object) all.vars(attr(object$terms, "variables")[[2L]])

# Columns of a list as a data frame with the row names of the fit.
kept_columns <- function(object, kept, names) {
  structure(unclass(kept)[intersect(names, names(kept))], class = "data.frame", row.names = row.names(object$model))
}

# The rows of `table` that are those of the fit, or NULL.
rows_of_fit <- function(object, table, variables) {
  same <- tryCatch(
    {
      table <- as.data.frame(table)
      labels <- case.names.pybayesridge_fit(object)
      at <- if (is.null(labels)) seq_len(object$nobs) else match(labels, rownames(table))
      table <- table[at, , drop = FALSE]
      same_rows(object, new_rows(object, table, stats::na.pass, globalenv())$x)
      TRUE
    },
    error = function(e) FALSE
  )
  if (same) table[intersect(c(response_names(object), variables), names(table))]
}

# Tables that may be the data of the fit: what the call names, in the functions that are running and in the session.
tables_in_reach <- function(object, variables) {
  named <- object$call$data
  places <- c(rev(sys.frames()), list(globalenv()))
  found <- lapply(places, function(place) {
    value <- if (is.null(named)) {
      tryCatch(mget(intersect(variables, ls(place, all.names = TRUE)), envir = place), error = function(e) NULL)
    } else if (is.symbol(named)) {
      tryCatch(get0(as.character(named), place, mode = "list", inherits = FALSE), error = function(e) NULL)
    }
    if (is.list(value) && all(variables %in% names(value))) value
  })
  whole <- if (!is.null(named)) tryCatch(eval(named, globalenv()), error = function(e) NULL)
  Filter(Negate(is.null), c(found, if (is.list(whole)) list(whole)))
}
