#' Draws for the package 'posterior'
#'
#' Draws from the posterior of a fit in the formats of the package 'posterior', for its summaries and for the packages that
#' accept them, such as 'bayesplot'. The draws are those of [posterior_sample()], with the hyperparameters. Python is not
#' required.
#'
#' @param x A fit.
#' @param n Number of draws. They are independent and form one chain.
#' @param kind For [spike_slab()] by expectation propagation, as in [posterior_sample()].
#' @param seed For [set.seed()]: the same seed gives the same draws, and the random number generator of the session is
#'   restored. With `NULL` the draws continue the generator of the session.
#' @param ... Not used: further arguments raise an error.
#' @return Draws of the coefficients, named as by `coef()`, and of the hyperparameters: `tau2` and `sigma2` of
#'   [bayes_ridge()] (binomial fits have no `sigma2`); `sigma2` of [spike_slab()] (binomial fits have none), with
#'   `method = "exact"` also `slab_var` and `prior_inclusion` (if it was not given). A coefficient of a selection is exactly 0 in the draws whose set does not
#'   contain its column. With several targets the names begin with that of the target, as in `mpg:wt`.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("posterior", quietly = TRUE)
#' draws <- posterior::as_draws_df(bayes_ridge(mpg ~ wt + hp, data = mtcars))
#' posterior::summarise_draws(draws, "mean", "sd")
#' @exportS3Method posterior::as_draws_matrix
#' @rdname as_draws.pybayesridge_fit
as_draws_matrix.pybayesridge_fit <- function(x, n = 4000, kind = c("spike_slab", "gaussian"), seed = 0, ...) {
  refuse_dots("as_draws_matrix", ...)
  draws <- joint_draws(x, n, if (!missing(kind)) match.arg(kind), seed)
  posterior::as_draws_matrix(draws)
}

#' @exportS3Method posterior::as_draws
#' @rdname as_draws.pybayesridge_fit
as_draws.pybayesridge_fit <- function(x, ...) posterior::as_draws_df(x, ...)

#' @exportS3Method posterior::as_draws_df
#' @rdname as_draws.pybayesridge_fit
as_draws_df.pybayesridge_fit <- function(x, ...) posterior::as_draws_df(posterior::as_draws_matrix(x, ...))

#' @exportS3Method posterior::as_draws_array
#' @rdname as_draws.pybayesridge_fit
as_draws_array.pybayesridge_fit <- function(x, ...) posterior::as_draws_array(posterior::as_draws_matrix(x, ...))

#' @exportS3Method posterior::as_draws_list
#' @rdname as_draws.pybayesridge_fit
as_draws_list.pybayesridge_fit <- function(x, ...) posterior::as_draws_list(posterior::as_draws_matrix(x, ...))

#' @exportS3Method posterior::as_draws_rvars
#' @rdname as_draws.pybayesridge_fit
as_draws_rvars.pybayesridge_fit <- function(x, ...) posterior::as_draws_rvars(posterior::as_draws_matrix(x, ...))

# Draws of posterior_sample(), of all targets side by side; `kind` NULL for the default.
joint_draws <- function(object, n, kind, seed, hyper = TRUE) {
  n <- check_count(n, "n")
  several <- length(object$targets) > 1L
  parts <- with_seed(seed, lapply(seq_along(object$targets), function(i) {
    arguments <- c(list(object, n, target = i, hyper = hyper), if (!is.null(kind)) list(kind = kind))
    draws <- do.call(posterior_sample, arguments)
    if (several) colnames(draws) <- paste(object$targets[i], colnames(draws), sep = ":")
    draws
  }))
  out <- do.call(cbind, parts)
  twice <- colnames(out)[duplicated(colnames(out))]
  if (length(twice)) {
    stop("a coefficient has the name of a hyperparameter ('", twice[1L], "'): rename the column", call. = FALSE)
  }
  out
}

# The value of `code`, which begins with `seed`; the session's generator is as it was.
with_seed <- function(seed, code) {
  if (is.null(seed)) {
    return(code)
  }
  before <- generator_state()
  on.exit(assign(".Random.seed", before, envir = globalenv()))
  set.seed(check_seed(seed))
  code
}
