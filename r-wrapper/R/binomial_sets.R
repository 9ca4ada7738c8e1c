# What selections of responses that are not Gaussian have of their own: values of their exports.

# The values of an export that only these fits have.
generalized_selection_values <- function(value) {
  list(
    exposure = if (!is.null(value[["exposure"]])) as.vector(value$exposure),
    link = value$link, event = value$event, trials = if (!is.null(value[["trials"]])) as.vector(value$trials), n_trials = value$n_trials,
    n_events = value$n_events, dispersion = value$dispersion, dispersion_mean = value$dispersion_mean, linear.predictors = as.vector(value$linear_predictors),
    loo_log_density = as.vector(value$loo_log_density)
  )
}

# Why a fit has no evidence.
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
