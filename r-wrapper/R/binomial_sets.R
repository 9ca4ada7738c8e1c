# What selections of yes/no responses have of their own: values of their exports, and methods.

# The values of an export that only these fits have.
binomial_selection_values <- function(value) {
  list(
    link = value$link, event = value$event, trials = as.vector(value$trials), n_trials = value$n_trials,
    n_events = value$n_events, linear.predictors = as.vector(value$linear_predictors),
    loo_log_density = as.vector(value$loo_log_density)
  )
}

#' @rdname predict.pybayesridge_fit
#' @export
predict.spike_slab_binomial <- predict.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
residuals.spike_slab_binomial <- residuals.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
deviance.spike_slab_binomial <- deviance.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
sigma.spike_slab_binomial <- sigma.bayes_ridge_binomial

#' @rdname posterior_sample
#' @export
simulate.spike_slab_binomial <- simulate.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
logLik.spike_slab_binomial <- function(object, ...) {
  if (is.null(object$log_evidence)) stop(why_no_evidence(object), call. = FALSE)
  NextMethod()
}

# Why a fit has none.
why_no_evidence <- function(object) {
  if (inherits(object, "bayes_ridge_bands")) {
    return("the evidence of a fit with bands requires penalties that are integrated out or given: use method = \"exact\"")
  }
  no_evidence
}

no_evidence <- paste0(
  "the sampler of spike_slab() with family = binomial() gives no log evidence: see inclusion_prob() and top_models(), or use ",
  "method = \"ep\""
)
