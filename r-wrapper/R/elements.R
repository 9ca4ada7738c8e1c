# Elements of a fit that are computed from its others when they are asked for, by `$` and `[[`: what a fit keeps is then no
# larger than it has to be. A fit of an earlier version has them as they are. And what a fit keeps of its data.

computed_elements <- c("bse", "fitted.values", "residuals", "x")

# Classes of yes/no fits of release 0.1.0, which may have been kept by saveRDS(). Methods would take them for Gaussian fits.
yes_no_of_earlier <- c("bayes_ridge_binomial", "spike_slab_binomial")

# Fits of release 0.1.0 are refused where an answer needs what they do not have.
refuse_earlier <- function(object, name) {
  if (inherits(object, yes_no_of_earlier) || (identical(name, "facts") && is.null(.subset2(object, "facts")))) {
    stop(
      "the fit was made by release 0.1.0 of pybayesridge and lacks what this release asks of it: fit the model again",
      call. = FALSE
    )
  }
}

#' @export
`$.pybayesridge_fit` <- function(x, name) {
  refuse_earlier(x, name)
  names <- names(x)
  if (!name %in% names) {
    # As `$` of a list, which completes names.
    all <- union(names, computed_elements)
    at <- pmatch(name, all)
    if (is.na(at)) {
      return(NULL)
    }
    name <- all[at]
  }
  element_of(x, name)
}

#' @export
`[[.pybayesridge_fit` <- function(x, i, exact = TRUE) {
  refuse_earlier(x, i)
  if (is.character(i) && length(i) == 1L) element_of(x, i) else .subset2(x, i)
}

element_of <- function(object, name) {
  value <- .subset2(object, name)
  if (!is.null(value) || !name %in% computed_elements || is.null(.subset2(object, "posterior"))) {
    return(value)
  }
  switch(name,
    bse = if (layout_of(object$posterior) == "spectrum") {
      labelled(ridge_deviations(object), coefficient_names(object), .subset2(object, "targets"))
    },
    fitted.values = computed_fitted(object),
    residuals = computed_residuals(object),
    x = .subset2(object, "posterior")$data$x
  )
}

# Standard deviations of the coefficients `at` of one target.
deviations_at <- function(object, at, target) {
  bse <- .subset2(object, "bse")
  if (is.null(bse)) ridge_deviations(object, at, target)[, 1L] else unname(as.matrix(bse)[at, target])
}

computed_fitted <- function(object) {
  x <- object$x
  if (is.null(x) || !family_of(object)$noise) {
    return(NULL)
  }
  b <- as.matrix(.subset2(object, "coefficients"))
  slopes <- if (object$intercept_added) b[-1L, , drop = FALSE] else b
  out <- unname(as.matrix(x %*% slopes))
  if (object$intercept_added) out <- out + rep(b[1L, ], each = nrow(out))
  labelled(out, .subset2(object, "row_names"), object$targets)
}

computed_residuals <- function(object) {
  y <- .subset2(object, "y")
  frame <- .subset2(object, "model")
  if (is.null(y) && is.null(frame) || !family_of(object)$noise) {
    return(NULL)
  }
  if (is.null(y)) y <- as_response(stats::model.response(frame), "y")
  fitted <- object$fitted.values
  if (is.matrix(fitted)) unname(y) - fitted else as.vector(y) - fitted
}

# Whether a fit has values of its rows.
has_values_of_rows <- function(object) {
  !is.null(.subset2(object, "fitted.values")) || !is.null(object$x)
}

# Row names of a fit, or NULL.
row_names_of <- function(object) {
  fitted <- .subset2(object, "fitted.values")
  if (is.null(fitted)) {
    return(.subset2(object, "row_names"))
  }
  if (is.matrix(fitted)) rownames(fitted) else names(fitted)
}

# Cells that a fit keeps where `model` does not say.
most_cells <- 1e6

keeps_data <- function(model, cells) {
  if (is.null(model)) {
    return(cells <= most_cells)
  }
  if (!is.logical(model) || length(model) != 1L || is.na(model)) {
    stop("'model' must be TRUE, FALSE or NULL", call. = FALSE)
  }
  model
}

# Numbers in the model frame, or in x (of a sparse one those that are not zero).
cells <- function(input) {
  if (is.null(input$terms)) {
    return(if (inherits(input$x, "sparseMatrix")) length(input$x@x) else length(input$x))
  }
  sum(vapply(c(input$frame, input$untransformed), length, 0L))
}

kept_frame <- function(input) {
  attr(input$frame, "terms") <- input$terms
  input$frame
}

# Values that Python leaves out of the export of a fit since R makes them of what the fit keeps. A matrix with more columns
# than rows is kept whatever its size, unless `model` says otherwise, where it takes the place of what is as large: singular
# vectors of a ridge, roots of covariances of expectation propagation (`method` of a selection).
made_in_r <- function(input, model, gaussian, method = "ridge") {
  if (!gaussian) {
    return(character())
  }
  # Products with sparse matrices need the package Matrix, which a later session may lack.
  matrices <- is.null(input$terms) && is.matrix(input$x)
  wide <- matrices && nrow(input$x) < ncol(input$x) && !isFALSE(model)
  keep <- keeps_data(model, cells(input)) || wide && !method %in% c("auto", "exact")
  c(
    if (method == "ridge") "bse", if (keep) "resid", if (keep && matrices) "fittedvalues",
    if (keep && wide && method != "bands") c("right", "rows")
  )
}
