#' Leave-one-out scores for 'loo'
#'
#' `loo()` and `loo_compare()` of the package 'loo' for binomial fits of single yes/no responses, from the leave-one-out
#' probabilities that the fit contains. They are computed by leaving rows out of the approximation of the fit and not by
#' importance sampling, so that there are no Pareto k values. Python is not required.
#'
#' @details Other fits do not contain a leave-one-out score of each row, and `loo()` is an error: [compare_evidence()]
#'   compares them, and `loo_mse` of ridges by `method = "loocv"` is their error of prediction.
#'
#' @param x A fit of [bayes_ridge()] with `family = binomial()` and one trial in each row, without weights.
#' @param ... Not used: further arguments raise an error.
#' @return A list of class `"loo"`: `estimates` and `pointwise` with `elpd_loo`, `p_loo` and `looic`.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("loo", quietly = TRUE)
#' loo::loo_compare(
#'   loo::loo(bayes_ridge(am ~ wt, data = mtcars, family = binomial())),
#'   loo::loo(bayes_ridge(am ~ wt + hp, data = mtcars, family = binomial()))
#' )
#' @exportS3Method loo::loo
loo.pybayesridge_fit <- function(x, ...) {
  refuse_dots("loo", ...)
  if (is.null(x$loo_probabilities)) {
    stop(
      "loo() requires leave-one-out scores of each row, which this fit does not contain: ",
      if (is_binomial(x)) "see inclusion_prob() and top_models()" else "compare fits by compare_evidence()",
      call. = FALSE
    )
  }
  if (any(x$trials != 1) || !is.null(x$weights)) {
    stop(
      "loo() requires one trial in each row and no weights: the element loo_log_score is the mean score of a trial",
      call. = FALSE
    )
  }
  event <- unname(x$fitted.values + x$residuals) > 0.5
  log_score <- function(share) unname(ifelse(event, log(share), log1p(-share)))
  elpd <- log_score(x$loo_probabilities)
  pointwise <- cbind(elpd_loo = elpd, p_loo = log_score(x$fitted.values) - elpd, looic = -2 * elpd)
  estimates <- cbind(Estimate = colSums(pointwise), SE = sqrt(nrow(pointwise) * apply(pointwise, 2L, stats::var)))
  out <- list(estimates = estimates, pointwise = pointwise)
  structure(c(out, named_estimates(estimates)), dims = c(NA_integer_, nrow(pointwise)), class = c("pybayesridge_loo", "loo"))
}

#' @exportS3Method loo::print_dims
print_dims.pybayesridge_loo <- function(x, ...) {
  cat("Leave-one-out probabilities of", attr(x, "dims")[2L], "rows, each predicted from the others.\n")
}

# What older versions of 'loo' keep beside the matrix.
named_estimates <- function(estimates) {
  as.list(c(estimates[, "Estimate"], stats::setNames(estimates[, "SE"], paste0("se_", rownames(estimates)))))
}
