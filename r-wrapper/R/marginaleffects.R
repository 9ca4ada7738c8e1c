#' Methods for 'marginaleffects'
#'
#' The extension points of the package 'marginaleffects': `predictions()`, `comparisons()`, `slopes()` and their averages
#' treat a fit by a formula as Bayesian and summarise posterior draws; `hypotheses()` of coefficients uses their posterior
#' covariance. Python is not required.
#'
#' @details 'marginaleffects' asks for a list of additional classes:
#' `options(marginaleffects_model_classes = "pybayesridge_fit")`.
#'
#' @param model A fit of one target.
#' @param newdata New data.
#' @param type `"response"` or, for binomial and Poisson fits, `"link"`.
#' @param vcov `NULL` or `TRUE` for the posterior covariance, `FALSE` for none. Robust and clustered covariances are errors.
#' @param coefs Coefficients in the order of `coef()`.
#' @param ndraws,seed Number of draws, and their seed: the same draws for all predictions, so that differences of
#'   predictions are differences for each draw.
#' @param ... Not used.
#' @return `get_predict()`: a data frame with `rowid` and `estimate` (of `predict()`) and the attribute
#'   `posterior_draws`, a matrix with a row for each prediction. `get_coef()`: a vector. `get_vcov()`: a matrix.
#'   `set_coef()`: a fit with other coefficients, for derivatives of predictions only: its predictions are functions of
#'   the coefficients and have no draws.
#' @name marginaleffects.pybayesridge_fit
NULL

#' @rdname marginaleffects.pybayesridge_fit
#' @exportS3Method marginaleffects::get_coef
get_coef.pybayesridge_fit <- function(model, ...) {
  check_one_target(model, "get_coef")
  model$coefficients
}

#' @rdname marginaleffects.pybayesridge_fit
#' @exportS3Method marginaleffects::set_coef
set_coef.pybayesridge_fit <- function(model, coefs, ...) {
  check_one_target(model, "set_coef")
  if (!is.numeric(coefs) || length(coefs) != length(model$coefficients)) {
    stop("'coefs' must have ", length(model$coefficients), " numbers", call. = FALSE)
  }
  model$coefficients[] <- coefs
  model$replaced <- TRUE
  model
}

#' @rdname marginaleffects.pybayesridge_fit
#' @exportS3Method marginaleffects::get_vcov
get_vcov.pybayesridge_fit <- function(model, vcov = NULL, ...) {
  check_one_target(model, "get_vcov")
  if (is.null(vcov) || isTRUE(vcov)) {
    return(stats::vcov(model))
  }
  if (isFALSE(vcov)) {
    return(NULL)
  }
  stop("'vcov' must be TRUE or FALSE: the covariance of a Bayesian fit is that of its posterior", call. = FALSE)
}

#' @rdname marginaleffects.pybayesridge_fit
#' @exportS3Method marginaleffects::get_predict
get_predict.pybayesridge_fit <- function(model, newdata, type = "response", ndraws = 4000, seed = 0, ...) {
  check_one_target(model, "get_predict")
  type <- match.arg(type %||% "response", family_of(model)$types)
  refuse_one_number(model, type, "type")
  rows <- new_rows(model, newdata, stats::na.pass, parent.frame())
  refuse_new_groups(model, rows, "get_predict()")
  x <- with_ones(model, rows$x)
  exposure <- exposure_of_rows(model, rows, own = FALSE)
  of_link <- function(eta) if (family_of(model)$noise) eta else on_scale(model, eta, type, exposure)
  rowid <- newdata[["rowid"]] %||% seq_len(nrow(x))
  if (isTRUE(model$replaced)) {
    return(data.frame(rowid = rowid, estimate = of_link(drop(x %*% model$coefficients))))
  }
  draws <- of_link(x %*% t(joint_draws(model, ndraws, linear_kind(model), seed, hyper = FALSE)))
  rownames(draws) <- NULL
  structure(
    data.frame(rowid = rowid, estimate = unname(stats::predict(model, newdata, type = type))),
    posterior_draws = draws
  )
}
