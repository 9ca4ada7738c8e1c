#' Estimated marginal means
#'
#' Methods for the package 'emmeans', which treats a fit as Bayesian: `emmeans()`, `emtrends()`, `contrast()`, `pairs()`
#' and `emmip()` summarise posterior draws by medians and highest-density intervals. Python is not required.
#'
#' @details The fit must be made by a formula. The grid consists of the values of the data, which are those kept by the fit,
#'   or those named in its call if they still give its fitted values, or `data`. Means are those of the population, without effects
#'   of groups such as `(1 | g)`.
#'
#' `summary(point.est = mean)` gives posterior means, and `summary(frequentist = TRUE)` intervals by a normal approximation.
#' For binomial fits `type = "response"` transforms the linear predictor to probabilities: the values are posterior
#' medians, whereas `predict()` returns means. For Poisson fits it gives rates, or with an offset in the formula expected counts at its
#' mean exposure (see `offset` of `emmeans::ref_grid()`). The means of several targets have the factor `rep.meas`. `joint_tests()` and
#' `test(joint = TRUE)` raise errors: F tests are not defined for a posterior, see [joint_contrast()].
#'
#' @param object A fit by a formula.
#' @param data The data of the fit, if they are not found.
#' @param trms,xlev,grid Supplied by 'emmeans'.
#' @param ndraws Number of posterior draws; an argument of `emmeans()` or `ref_grid()`.
#' @param seed For [set.seed()]; the random number generator of the session is restored.
#' @param ... Passed to the functions of 'emmeans'.
#' @return The values that 'emmeans' requires.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("emmeans", quietly = TRUE)
#' fit <- bayes_ridge(breaks ~ wool * tension, data = warpbreaks)
#' emmeans::emmeans(fit, pairwise ~ wool | tension)
#' @name emmeans.pybayesridge_fit
NULL

#' @rdname emmeans.pybayesridge_fit
#' @exportS3Method emmeans::recover_data
recover_data.pybayesridge_fit <- function(object, data = NULL, ...) {
  # 'emmeans' reports a text as the reason, and says nothing of errors.
  table <- tryCatch(original_data(object, data, "emmeans()"), error = conditionMessage)
  if (is.character(table)) {
    return(table)
  }
  trms <- terms_in(object, globalenv(), response = FALSE, part = "population")
  whole <- terms_in(object, globalenv(), part = "population")
  attributes(whole) <- list(class = "formula", .Environment = attr(whole, ".Environment"))
  call <- as.call(list(object$call[[1L]], formula = whole, data = quote(data)))
  # Numbers of the formula, such as a degree, are no variables.
  constants <- c("pi", setdiff(all.vars(trms), names(table)))
  out <- emmeans::recover_data(call, trms, object$na.action, data = table, params = constants)
  if (!is.null(object$weights)) out[["(weights)"]] <- object$weights
  out
}

#' @rdname emmeans.pybayesridge_fit
#' @exportS3Method emmeans::emm_basis
emm_basis.pybayesridge_fit <- function(object, trms, xlev, grid, ndraws = 4000, seed = 0, ...) {
  check_scope(object, globalenv())
  frame <- stats::model.frame(trms, grid, na.action = stats::na.pass, xlev = object$xlevels)
  x <- columns_at(object, trms, frame, groups = FALSE)$x
  targets <- length(object$targets)
  misc <- list()
  if (!is.null(family_of(object)$moments)) {
    misc <- list(tran = object$link, inv.lbl = family_of(object)$unit)
  } else if (targets > 1L) {
    misc <- list(ylevs = list(rep.meas = object$targets))
    x <- kronecker(diag(targets), x)
  }
  draws <- joint_draws(object, ndraws, linear_kind(object), seed, hyper = FALSE)
  list(
    X = x, bhat = as.vector(object$coefficients), nbasis = matrix(NA), V = covariance_or_draws(object, draws),
    dffun = function(k, dfargs) {
      # In an environment of the package emmeans.
      if (isTRUE(dynGet("joint", FALSE))) getNamespace("pybayesridge")$no_joint_test() else Inf
    }, dfargs = list(), misc = misc, post.beta = draws
  )
}

# Tests of several contrasts together, which ask for degrees of freedom.
no_joint_test <- function() {
  no_sampling("joint_tests", paste0(
    "joint_contrast() returns the posterior probability of the smallest ellipsoid that contains zero (for selections that all are ",
    "zero), and compare_evidence() compares models with and without the terms"
  ))
}

# Linear functions of the coefficients of a selection by expectation propagation are those of its Gaussian approximation,
# as in predict().
linear_kind <- function(object) if (!has_joint(object$posterior)) "gaussian"

# The posterior covariance, or that of draws where there is none.
covariance_or_draws <- function(object, draws) {
  exact <- tryCatch(vcov.pybayesridge_fit(object), error = function(e) NULL)
  if (is.null(exact) || any(!is.finite(exact))) stats::cov(draws) else exact
}
