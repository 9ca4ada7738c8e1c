#' Methods for the packages of 'easystats' and for 'ggeffects'
#'
#' Methods for `parameters::model_parameters()`, `bayestestR::describe_posterior()` and other functions of 'bayestestR',
#' `performance::r2()` and `ggeffects::ggpredict()`, by methods for 'insight'. Python is not required.
#'
#' @details Means, medians, standard deviations and equal-tailed intervals of coefficients are those of `coef()` and
#'   `confint()`. All else, such as highest-density intervals and probabilities of direction (`pd`), is computed from posterior
#'   draws, which are the same for the same `seed`. The exact posterior probability of the sign of a coefficient of a binomial
#'   fit is in [odds_ratios()].
#'
#' `performance::r2()` is the Bayesian R-squared of Gelman et al. (2019): the variance of the linear predictor over the rows
#' divided by its sum with the noise variance, for each draw. It requires the rows of the fit. It agrees with
#' [explained_variance()], except that unpenalised columns explain variance as well. For binomial and Poisson fits the noise
#' is that of the latent response, and a row counts as often as its weight and its trials say. It is not available for [spike_slab()] by
#' expectation propagation, which leaves out most of the uncertainty of the noise variance.
#'
#' `performance::model_performance()` has the leave-one-out score of [loo()][loo.pybayesridge_fit], the median of this R-squared,
#' the root mean squared residual (not of ordered categories) and the noise standard deviation.
#'
#' The default range of `rope()`, `equivalence_test()`, `p_rope()` and `p_significance()` of 'bayestestR' is that of
#' `bayestestR::rope_range()` for the fit.
#'
#' `ggeffects::ggpredict()` gives posterior means with credible intervals; `interval = "prediction"` gives prediction
#' intervals. Of a fit with groups such as `(1 | g)` it predicts for one of them, which it names below its table; for the population
#' use `ggeffects::ggemmeans()` or `predict(re_form = NA)`. `parameters::p_value()` is an error: a posterior has no p-values.
#'
#' @param x,posteriors,model A fit.
#' @param data New data; by default the rows of the fit.
#' @param predict `"expectation"` (credible intervals of the mean, or of the probability), `"link"` or `"prediction"`.
#' @param ci Probability of intervals. For `get_predicted()` `NULL` gives none.
#' @param ci_method `"eti"` (equal-tailed) or another method of 'bayestestR', such as `"hdi"`.
#' @param test Tests of 'bayestestR', such as `"rope"`. The default range of practical equivalence is that of
#'   `bayestestR::rope_range()`.
#' @param centrality,rope_range,dispersion Passed to `bayestestR::describe_posterior()`.
#' @param exponentiate For a binomial fit with the logit link or a Poisson fit: whether to return odds or rate ratios.
#' @param robust Whether to report the median and the median absolute deviation instead of mean and standard deviation.
#' @param ndraws,seed Number of draws, and their seed. The random number generator of the session is restored.
#' @param source,verbose,... Not used, or passed to 'bayestestR'.
#' @return The value of the generic function. `model_parameters()` of a selection has the column `Inclusion`.
#' @references Gelman, Goodrich, Gabry and Vehtari (2019). R-squared for Bayesian regression models. The American
#'   Statistician 73, 307-309.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("parameters", quietly = TRUE)
#' fit <- bayes_ridge(mpg ~ wt + hp, data = mtcars)
#' parameters::model_parameters(fit)
#' @name easystats.pybayesridge_fit
NULL

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method insight::get_data
get_data.pybayesridge_fit <- function(x, source = NULL, verbose = TRUE, ...) original_data(x, what = "insight::get_data()")

#' @exportS3Method insight::model_info
model_info.pybayesridge_fit <- function(x, verbose = TRUE, ...) {
  check_one_target(x, "model_info")
  out <- NextMethod()
  out$is_bayesian <- TRUE
  if (!is.null(x$trials)) out$is_bernoulli <- all(x$trials == 1)
  if (identical(x$link, "identity")) out$is_linear <- TRUE
  out
}

# Else the factors of groups, as in (1 | g), would be predictors like others.
#' @exportS3Method insight::find_predictors
find_predictors.pybayesridge_fit <- function(x, effects = c("fixed", "random", "all"), ..., flatten = FALSE) {
  effects <- match.arg(effects)
  out <- NextMethod(effects = "fixed", flatten = FALSE)
  groups <- unique(unlist(lapply(group_bands_of(x), function(band) band$groups$variables)))
  if (!is.null(groups)) {
    of_fit <- list(conditional = setdiff(out$conditional, x$band_terms$only_groups), random = groups)
    wanted <- list(fixed = "conditional", random = "random", all = names(of_fit))[[effects]]
    out <- Filter(length, of_fit[wanted])
  }
  if (!length(out)) NULL else if (flatten) unique(unlist(out, use.names = FALSE)) else out
}

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method insight::get_parameters
get_parameters.pybayesridge_fit <- function(x, ndraws = 4000, seed = 0, ...) draws_frame(x, ndraws, seed)

# Draws of the coefficients as a data frame.
draws_frame <- function(object, ndraws, seed) as.data.frame(joint_draws(object, ndraws, NULL, seed, hyper = FALSE))

check_one_target <- function(object, what) {
  if (length(object$targets) > 1L) {
    stop(what, "() is for fits of one target: fit each on its own", call. = FALSE)
  }
}

# Else those of ordered categories would be codes less probabilities.
#' @exportS3Method insight::get_residuals
get_residuals.pybayesridge_fit <- function(x, ...) {
  refuse_categories(x, "residuals")
  NextMethod()
}

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method insight::get_predicted
get_predicted.pybayesridge_fit <- function(x, data = NULL, predict = "expectation", ci = NULL, ...) {
  check_one_target(x, "get_predicted")
  limits_of <- "credible"
  if (missing(ci)) {
    # 'ggeffects' does not hand on these arguments: they are in the calls around this one.
    ci <- dynGet("ci.lvl", dynGet("ci_level", NULL))
    if (identical(dynGet("interval", NULL), "prediction")) limits_of <- "prediction"
  }
  predict <- match.arg(predict, c("expectation", "response", "link", "prediction"))
  refuse_one_number(x, predict, "predict")
  if (predict == "prediction") limits_of <- "prediction"
  arguments <- list(
    x, if (is.null(data)) NULL else as.data.frame(data), se.fit = TRUE,
    type = if (predict %in% family_of(x)$types) predict else "response"
  )
  if (length(ci) && !is.na(ci)) arguments <- c(arguments, interval = limits_of, level = ci)
  found <- do.call(stats::predict, arguments)
  fit <- if (is.matrix(found$fit)) found$fit[, "fit"] else found$fit
  limits <- data.frame(SE = unname(found$se.fit))
  if (is.matrix(found$fit)) {
    limits$CI_low <- unname(found$fit[, "lwr"])
    limits$CI_high <- unname(found$fit[, "upr"])
  }
  structure(unname(fit), ci_data = limits, ci = ci, data = data, predict = predict, class = c("get_predicted", "numeric"))
}

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method bayestestR::describe_posterior
describe_posterior.pybayesridge_fit <- function(posteriors, centrality = "median", dispersion = FALSE, ci = 0.95,
                                                ci_method = "eti", test = "p_direction", rope_range = "default",
                                                ndraws = 4000, seed = 0, ...) {
  if (identical(rope_range, "default") && any(grepl("rope|equi|^ps$|signif", test))) {
    rope_range <- bayestestR::rope_range(posteriors)
  }
  out <- bayestestR::describe_posterior(
    draws_frame(posteriors, ndraws, seed), centrality = centrality, dispersion = dispersion, ci = ci,
    ci_method = ci_method, test = test, rope_range = rope_range, ...
  )
  exact_summaries(out, posteriors, ci_method)
}

# A table of 'bayestestR' with the posterior's own moments and quantiles in place of those of draws.
exact_summaries <- function(table, object, ci_method) {
  at <- function(values, names) unname(values)[match(table$Parameter, names)]
  limits <- stats::confint(object, level = 0.5)
  names <- rownames(limits)
  if ("Mean" %in% names(table) && center_of(object) == "mean") table$Mean <- at(as.vector(object$coefficients), names)
  if ("SD" %in% names(table)) table$SD <- at(as.vector(object$bse), names)
  if ("Median" %in% names(table)) table$Median <- at(medians_of(object), names)
  if (tolower(ci_method) %in% c("eti", "quantile") && "CI" %in% names(table)) {
    for (level in unique(table$CI)) {
      of_level <- table$CI == level
      limits <- stats::confint(object, level = level)
      table$CI_low[of_level] <- at(limits[, 1L], names)[of_level]
      table$CI_high[of_level] <- at(limits[, 2L], names)[of_level]
    }
  }
  table
}

medians_of <- function(object) unlist(lapply(seq_along(object$targets), function(i) coefficient_intervals(object, i, 0.5)))

# Methods that are those of the draws.
of_draws <- function(generic) {
  force(generic)
  function(x, ..., ndraws = 4000, seed = 0) getExportedValue("bayestestR", generic)(draws_frame(x, ndraws, seed), ...)
}

#' @exportS3Method bayestestR::hdi
hdi.pybayesridge_fit <- of_draws("hdi")

#' @exportS3Method bayestestR::eti
eti.pybayesridge_fit <- of_draws("eti")

#' @exportS3Method bayestestR::ci
ci.pybayesridge_fit <- of_draws("ci")

#' @exportS3Method bayestestR::p_direction
p_direction.pybayesridge_fit <- of_draws("p_direction")

#' @exportS3Method bayestestR::point_estimate
point_estimate.pybayesridge_fit <- of_draws("point_estimate")

# The same with the default range of practical equivalence of the model in place of that of draws, which have no response.
of_draws_in_range <- function(generic) {
  force(generic)
  function(x, range = "default", ..., ndraws = 4000, seed = 0) {
    if (identical(range, "default")) range <- bayestestR::rope_range(x)
    getExportedValue("bayestestR", generic)(draws_frame(x, ndraws, seed), range, ...)
  }
}

#' @exportS3Method bayestestR::rope
rope.pybayesridge_fit <- of_draws_in_range("rope")

#' @exportS3Method bayestestR::equivalence_test
equivalence_test.pybayesridge_fit <- of_draws_in_range("equivalence_test")

#' @exportS3Method bayestestR::p_rope
p_rope.pybayesridge_fit <- of_draws_in_range("p_rope")

#' @exportS3Method bayestestR::p_significance
p_significance.pybayesridge_fit <- function(x, threshold = "default", ..., ndraws = 4000, seed = 0) {
  if (identical(threshold, "default")) threshold <- max(bayestestR::rope_range(x))
  bayestestR::p_significance(draws_frame(x, ndraws, seed), threshold, ...)
}

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method parameters::model_parameters
model_parameters.pybayesridge_fit <- function(model, centrality = "median", ci = 0.95, ci_method = "eti", test = "pd",
                                              exponentiate = FALSE, ...) {
  check_exponentiate(model, exponentiate)
  out <- bayestestR::describe_posterior(model, centrality = centrality, ci = ci, ci_method = ci_method, test = test, ...)
  if (exponentiate) {
    scaled <- intersect(c("Median", "Mean", "MAP", "CI_low", "CI_high"), names(out))
    out[scaled] <- lapply(out[scaled], exp)
  }
  if (inherits(model, "spike_slab")) out$Inclusion <- unname(model$inclusion_prob)[match(out$Parameter, coefficient_names(model))]
  if (length(ci) == 1L) out$CI <- NULL
  rownames(out) <- NULL
  structure(
    out, ci = ci, ci_method = toupper(ci_method), exponentiate = exponentiate, digits = 2, ci_digits = 2, p_digits = 3,
    footer_digits = 3, verbose = FALSE, model_class = class(model), pretty_names = stats::setNames(out$Parameter, out$Parameter),
    class = c("parameters_model", "see_parameters_model", "data.frame")
  )
}

# Its refit would be of other data under the same names, and its table would call these coefficients standardised.
#' @exportS3Method datawizard::standardize
standardize.pybayesridge_fit <- function(x, ...) {
  stop(
    "standardize() does not fit again: fit bayes_ridge() or spike_slab() to standardised data; coefficients per standard ",
    "deviation of their columns are those of plot(standardized = TRUE)",
    call. = FALSE
  )
}

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method performance::model_performance
model_performance.pybayesridge_fit <- function(model, ...) {
  refuse_dots("model_performance", ...)
  check_one_target(model, "model_performance")
  env <- parent.frame()
  scores <- eval(quote(loo(fit)), list(fit = model, loo = loo.pybayesridge_fit), env)$estimates
  out <- data.frame(
    ELPD = scores["elpd_loo", 1L], ELPD_SE = scores["elpd_loo", 2L], LOOIC = scores["looic", 1L], LOOIC_SE = scores["looic", 2L]
  )
  if (has_joint(model$posterior)) {
    out$R2 <- stats::median(with_seed(0, explained_in_rows(model, 4000L, env)))
  }
  if (!has_cuts(model)) out$RMSE <- sqrt(mean(model$residuals^2))
  if (family_of(model)$noise) out$Sigma <- stats::sigma(model)
  structure(out, row.names = 1L, class = c("performance_model", "data.frame"))
}

#' @exportS3Method parameters::p_value
p_value.pybayesridge_fit <- function(model, ...) {
  no_sampling("p_value", "the column pd of model_parameters() is the posterior probability of the direction of a coefficient")
}

#' @exportS3Method parameters::standard_error
standard_error.pybayesridge_fit <- function(model, ...) {
  data.frame(Parameter = rownames(stats::confint(model)), SE = unname(as.vector(model$bse)))
}

#' @rdname easystats.pybayesridge_fit
#' @exportS3Method performance::r2
r2.pybayesridge_fit <- function(model, robust = TRUE, ci = 0.95, ndraws = 4000, seed = 0, ...) {
  check_level(ci)
  check_one_target(model, "r2")
  env <- parent.frame()
  share <- with_seed(seed, explained_in_rows(model, check_count(ndraws, "ndraws"), env))
  limits <- unname(stats::quantile(share, tails(ci)))
  structure(
    list(R2_Bayes = if (robust) stats::median(share) else mean(share)),
    SE = list(R2_Bayes = if (robust) stats::mad(share) else stats::sd(share)),
    CI = list(R2_Bayes = data.frame(CI = ci, CI_low = limits[1L], CI_high = limits[2L])),
    ci_method = "ETI", robust = robust, class = "r2_bayes"
  )
}
