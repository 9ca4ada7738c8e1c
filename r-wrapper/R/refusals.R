# Functions of other packages that would answer for a Bayesian fit with numbers of least squares: they are refused, and the
# error says what answers the question. Methods of packages that are not loaded are registered when they are.

#' @rdname pybayesridge-methods
#' @export
AIC.pybayesridge_fit <- function(object, ..., k = 2) no_criterion("AIC", object)

#' @rdname pybayesridge-methods
#' @export
BIC.pybayesridge_fit <- function(object, ...) no_criterion("BIC", object)

# Called by step() as well.
#' @export
extractAIC.pybayesridge_fit <- function(fit, scale, k = 2, ...) no_criterion("AIC", fit)

#' @export
anova.pybayesridge_fit <- function(object, ...) no_criterion("anova", object)

#' @export
drop1.pybayesridge_fit <- function(object, scope, ...) no_criterion("drop1", object)

#' @export
add1.pybayesridge_fit <- function(object, scope, ...) no_criterion("add1", object)

#' @exportS3Method lmtest::lrtest
lrtest.pybayesridge_fit <- function(object, ...) no_criterion("lrtest", object)

#' @exportS3Method lmtest::waldtest
waldtest.pybayesridge_fit <- function(object, ...) no_hypothesis("waldtest")

#' @exportS3Method lmtest::coeftest
coeftest.pybayesridge_fit <- function(x, ...) {
  no_sampling("coeftest", "summary() returns posterior means, standard deviations and credible intervals")
}

#' @exportS3Method lmtest::coefci
coefci.pybayesridge_fit <- function(x, ...) no_sampling("coefci", "confint() returns credible intervals")

#' @exportS3Method car::linearHypothesis
linearHypothesis.pybayesridge_fit <- function(model, ...) no_hypothesis("linearHypothesis")

#' @exportS3Method car::Anova
Anova.pybayesridge_fit <- function(mod, ...) no_hypothesis("Anova")

#' @exportS3Method car::deltaMethod
deltaMethod.pybayesridge_fit <- function(object, ...) {
  no_sampling("deltaMethod", "compute the function of the coefficients for each draw of posterior_sample()")
}

#' @exportS3Method car::vif
vif.pybayesridge_fit <- function(mod, ...) no_inflation("vif")

#' @exportS3Method multcomp::modelparm
modelparm.pybayesridge_fit <- function(model, ...) no_hypothesis("glht")

#' @exportS3Method performance::check_collinearity
check_collinearity.pybayesridge_fit <- function(x, ...) no_inflation("check_collinearity")

# There is no number of free coefficients, which these charge for.
no_criterion <- function(name, object) {
  of <- if (inherits(object, "spike_slab")) "spike_slab" else "bayes_ridge"
  stop(
    name, "() is not defined for a fit of ", of, "(), whose coefficients are integrated out, so that there is ",
    "no number of parameters to count: ",
    if (is.null(log_evidence(object))) {
      paste0("compare fits by loo() for errors of prediction; ", why_no_evidence(object))
    } else {
      "compare fits by compare_evidence() (differences of logLik() are log Bayes factors) or by loo() for errors of prediction"
    },
    call. = FALSE
  )
}

no_sampling <- function(name, instead) {
  stop(
    name, "() is not defined for a Bayesian fit, whose coefficients have a posterior and no sampling distribution: ", instead,
    call. = FALSE
  )
}

no_hypothesis <- function(name) {
  no_sampling(name, paste0(
    "compute posterior probabilities from the draws of posterior_sample(), or compare models with and without the terms by ",
    "compare_evidence()"
  ))
}

no_inflation <- function(name) {
  stop(
    name, "() is not defined for a Bayesian fit, whose covariance depends on the prior as well as on the columns: use the ",
    "correlations of model.matrix()",
    call. = FALSE
  )
}
