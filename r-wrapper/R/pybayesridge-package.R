#' pybayesridge: Bayesian linear models for people who read regression tables
#'
#' * [bayes_ridge()]: ridge regression with the penalty estimated from its posterior.
#' * [spike_slab()]: variable selection with spike-and-slab priors, exact or by expectation propagation.
#' * [install_pybayesridge()]: installation of the Python package that fits the models.
#' * [pybayesridge-methods], [predict.pybayesridge_fit()], [posterior_sample()]: methods for a fit, which do not require
#'   Python.
#'
#' @keywords internal
"_PACKAGE"

# The generics that have methods here.
#' @importFrom stats case.names coef confint deviance df.residual fitted formula logLik model.frame model.matrix nobs
#' @importFrom stats add1 AIC anova BIC drop1 extractAIC family predict residuals sigma simulate terms variable.names vcov weights
NULL
