#' pybayesridge: Bayesian linear models for people who read regression tables
#'
#' * [bayes_ridge()]: ridge regression with the penalty found from its posterior.
#' * [spike_slab()]: variable selection with spike-and-slab priors by expectation propagation.
#' * [install_pybayesridge()]: the Python package that fits them.
#' * [pybayesridge-methods], [predict.pybayesridge_fit()], [posterior_sample()]: what can be done with a fit, without
#'   Python.
#'
#' @keywords internal
"_PACKAGE"
