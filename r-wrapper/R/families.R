# What differs between families of responses, one list for each; R/bayes_ridge.R and R/spike_slab.R take responses in by
# `response_of()`.
#   object     as of stats::family()
#   noise      whether responses have a noise variance
#   title      what stands after the name of the model
#   types      of predictions, the first by default
#   mean       of linear predictors on the scale of the response
#   interval   checks the kind of an interval
#   observed   numbers of a response in new data
#   responses  those of the fit as Python takes them (n x q)
#   pictures   that only it has
#   left_out   log densities of rows predicted from the others
families <- list(
  gaussian = list(
    object = function(fit) stats::gaussian(),
    noise = TRUE,
    title = function(fit) "",
    types = "response",
    mean = function(eta, fit) eta,
    interval = function(interval) check_interval(interval),
    observed = function(values, fit) as.double(values),
    responses = function(fit) {
      y <- .subset2(fit, "y")
      if (is.null(y)) fit_responses(fit) else y
    },
    pictures = NULL,
    left_out = function(fit, target, env) left_out_rows(fit, env, target)
  ),
  binomial = list(
    object = function(fit) stats::binomial(fit$link),
    noise = FALSE,
    title = function(fit) paste0(", binomial family, ", fit$link, " link"),
    types = c("response", "link"),
    mean = function(eta, fit) link_probability(eta, fit$link),
    interval = function(interval) check_binomial_interval(interval),
    observed = function(values, fit) shares_of_events(values, fit),
    responses = function(fit) round(fit_responses(fit) * fit$trials),
    pictures = c("calibration", "roc"),
    left_out = function(fit, target, env) binomial_left_out(fit, env)
  )
)

family_of <- function(object) families[[if (is.null(.subset2(object, "link"))) "gaussian" else "binomial"]]

# Fitted values and residuals, n x q.
fit_responses <- function(object) as.matrix(object$fitted.values) + as.matrix(object$residuals)
