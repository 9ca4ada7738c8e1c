#' Bayesian ridge regression
#'
#' Ridge regression with the penalty estimated from its posterior instead of by cross-validation.
#'
#' @details
#' Let \eqn{Z} contain the unpenalised columns (at least the intercept), which have a flat prior, and \eqn{X} the other
#' columns. The model is
#'
#' \deqn{y \sim N(Z g + X b, \sigma^2 W^{-1}), \quad b \sim N(0, \tau^2 \sigma^2 I), \quad
#'   p(\sigma^2) \propto 1/\sigma^2, \quad \tau^2 \sum_j |x_j|^2 / n \sim \mathrm{beta'}(1/2, 1/2).}
#'
#' A priori the share of variance that the columns explain is Beta(1/2, 1/2), whatever their number; see `prior`. The
#' ridge penalty is \eqn{\lambda = 1/\tau^2}. The prior of `b` refers to columns divided by their (weighted) standard
#' deviation with divisor n, unless `standardize = FALSE`. All results are in the units of the data. The penalty is the
#' factor in \eqn{\|y - Xb\|^2 + \lambda \|b\|^2}; the `lambda` of glmnet equals it times `sd(y) / n`, where `sd` has
#' divisor n.
#'
#' | `method` | the penalty | uncertainty |
#' | --- | --- | --- |
#' | `"exact"` | integrated out | the exact marginal posterior: a mixture of t distributions |
#' | `"em"` | posterior mode, by expectation maximisation | conditional on the mode: normal; intervals are too narrow |
#' | `"loocv"`, `"gcv"` | minimises cross-validation over `grid` | conditional on the penalty: t |
#' | `"fixed"` | `lam` | conditional on the penalty: t |
#' | `"reml"` | with several penalties: restricted maximum likelihood | conditional on the penalties: normal |
#'
#' With `family = binomial()` the responses are yes/no values or successes among trials \eqn{m}:
#'
#' \deqn{y \sim \mathrm{Binomial}(m, F(Z g + X b)), \quad b \sim N(0, \tau^2 I), \quad
#'   \tau^2 \sum_j |x_j|^2 / n \sim c \, \mathrm{beta'}(1/2, 1/2),}
#'
#' where \eqn{F} is the logistic (`binomial()`) or the normal (`binomial("probit")`) distribution function and \eqn{c} the
#' variance of the latent noise, \eqn{\pi^2/3} or 1. A priori the share of latent variance that the columns explain is
#' Beta(1/2, 1/2). Coefficients are on the scale of the link: for `binomial()` they are log odds ratios, see
#' [odds_ratios()]. No method is exact; `"gcv"` is not available.
#'
#' | `method` | the penalty | the coefficients for each penalty |
#' | --- | --- | --- |
#' | `"ep"` (default) | integrated out | expectation propagation |
#' | `"laplace"` | integrated out | Laplace's approximation: faster with many rows, less accurate with few |
#' | `"em"` | posterior mode | `solver` |
#' | `"loocv"` | the best leave-one-out log score over `grid` | `solver` |
#' | `"fixed"` | `lam` | `solver` |
#'
#' A binomial response is one of: 0 and 1; a logical vector; a factor or character vector with two values, the second
#' level being the event whose probability is modelled; `cbind(successes, failures)`. In contrast to [stats::glm()] a
#' vector of fractions is refused, and `weights` are frequency weights: a row of weight 3 counts as three rows.
#'
#' With `family = poisson()` the responses are counts, with exposures \eqn{e} that are 1 unless they are given:
#'
#' \deqn{y \sim \mathrm{Poisson}(e \exp(Z g + X b)), \quad b \sim N(0, \tau^2 I),}
#'
#' with the same prior and methods as for yes/no responses, where \eqn{c = \log(1 + 1/m)} and m is the mean count. Coefficients are
#' log rate ratios, see [rate_ratios()]. Give exposures by `exposure` or by `offset(log(e))` in the formula, not by dividing the
#' counts. As in [stats::lm()] predictions for new data have the exposures of an offset in the formula; otherwise they are rates, for
#' an exposure of 1, unless `predict(exposure = )` says otherwise. Expected counts and fitted values are posterior medians, since
#' the tail of the posterior of the penalty can rule a mean out.
#'
#' `family = "negative-binomial"` is the same for counts that vary more: their variance is \eqn{\mu + \alpha \mu^2}, and
#' \eqn{c = \log(1 + 1/m + \alpha)}. The dispersion \eqn{\alpha} is integrated out, its prior being such that \eqn{1 / (1 + \alpha)} is
#' Beta(1/2, 1/2); [hyperparameters()] returns its posterior. The family object `MASS::negative.binomial(theta)` fixes it at `1 / theta`, as `dispersion` does.
#'
#' `family = "beta-binomial"` is for successes among trials, `cbind(successes, failures)`, that vary more than binomial counts: the
#' probability of a row is a beta variable, whose mean is \eqn{F(Z g + X b)} with the logistic \eqn{F}, and two trials of a row have
#' the correlation \eqn{\rho = \alpha / (1 + \alpha)}. The dispersion \eqn{\alpha} is integrated out, \eqn{\rho} being Beta(1/2, 1/2) a
#' priori, unless `dispersion` gives it. With many rows of many trials `method = "laplace"` is much faster.
#'
#' `family = "student-t"` is for continuous responses with outliers: the noise has a t distribution with the scale \eqn{\sigma} and
#' `df` degrees of freedom,
#'
#' \deqn{y \sim t_{df}(Z g + X b, \sigma), \quad b \sim N(0, \tau^2 I), \quad p(\sigma^2) \propto 1/\sigma^2,}
#'
#' with the same prior of \eqn{\tau^2}, where \eqn{c = \sigma^2}. The scale is integrated out. If `df` is not given, the degrees of
#' freedom are averaged over: 2, 3, 4, 6, 10, 20 and `Inf`, which is normal noise, are equally probable a priori.
#' [hyperparameters()] returns the posterior of both. The methods are `"ep"` and `"laplace"`, and weights are frequency weights.
#'
#' `family = "ordinal"` is for ordered categories: the response is an ordered factor, or whole numbers, whose values are the
#' categories in their order. With \eqn{F} as for `binomial()`, by `link`,
#'
#' \deqn{P(y \le k) = F(c_k - Z g - X b), \quad b \sim N(0, \tau^2 I), \quad p(c, g) \propto 1,}
#'
#' where the cut points \eqn{c_1 < c_2 < \dots} take the place of the intercept; [cut_points()] returns their posterior. A positive
#' coefficient moves the response towards higher categories. With `link = "probit"` the methods are `"laplace"` and, with `solver =
#' "laplace"`, those that choose one penalty. The fitted values are a matrix of probabilities, and there are no residuals.
#'
#' The model is fitted by Python, see [install_pybayesridge()]. The fit is a list of plain R values, and its methods
#' (see [pybayesridge-methods]) do not require Python. It keeps its model frame, or `x` and `y`, if they are small; see
#' `model`. Each fit has the fitted values and the residuals, whose sum is the response. The elements `bse`, `fitted.values`,
#' `residuals` and `x` are computed from the others when `$` or `[[` asks for them, if this saves memory; `names()` then omits
#' them.
#'
#' @section Several penalties:
#' With `bands`, or terms of the formula as below, each band of columns has a penalty of its own: the coefficients of band k are
#' \eqn{N(0, \tau_k^2 \sigma^2)}{N(0, tau_k^2 sigma^2)}. All penalties are integrated out together (`"exact"`, up to eight bands), are those of the posterior
#' mode (`"em"`), of restricted maximum likelihood (`"reml"`) as in 'lme4', or given (`"fixed"`). The total of the bands has the prior of a
#' single penalty, and their shares in it are Dirichlet(1/2, ..., 1/2). With other families than `gaussian()` \eqn{\sigma^2} is 1, `"ep"` and
#' `"laplace"` integrate over up to eight variances and correlations, and the methods `"reml"` and `"fixed"` are as above; of counts and
#' shares with a dispersion they require it as `dispersion`, and with `family = "student-t"` they are not available. Dispersions, and the
#' scale and degrees of freedom of Student-t noise, are averaged over with the variances, see [hyperparameters()]. [variance_components()] returns the standard deviations and shares;
#' its page has `ranef()`, `fixef()`, `VarCorr()` and `smooth_curve()`.
#'
#' | term | meaning |
#' | --- | --- |
#' | `(1 | g)` | an effect of each level of `g` |
#' | `(0 + x | g)` | a slope of `x` for each level |
#' | `(x | g)` | effects and slopes, correlated |
#' | `(x || g)` | effects and slopes, independent of each other: `(1 | g) + (0 + x | g)` |
#' | `(1 | a/b)` | levels of `b` within those of `a`: `(1 | a) + (1 | a:b)` |
#' | `s(x)`, `s(x, k = 20)` | a cubic regression spline with 10 or 20 knots at quantiles of the data |
#' | `s(x, by = g)` | a curve for each level of the factor `g`; of an ordered factor for each level but the first |
#' | `s(x, by = z)` | a curve by which the number `z` is multiplied |
#' | `band(a, b, name = "genes")` | plain columns with a penalty of their own |
#'
#' All other terms are penalised together, as a band of the name `other`, unless `unpenalized` names them; `unpenalized = "fixed"` names
#' them all, which makes them fixed effects. The prior refers to columns of groups and smooth curves as they are, whatever `standardize`
#' says. A curve consists of an unpenalised line and penalised columns; outside the data it goes on as a line. `.` leaves out groups and what is part
#' of a curve or a band. Correlations of `(x | g)` have the LKJ prior with eta = 1; they require `"exact"`, `"ep"`, `"laplace"` or `"reml"`. A function `s` of yours is called in braces, `{s(x)}`.
#'
#' @param formula A formula such as `y ~ x1 + poly(x2, 3) + g`, or `cbind(y1, y2) ~ .` for several targets. It is
#'   evaluated by [stats::model.frame()] and [stats::model.matrix()]. An offset raises an error, except of
#'   counts.
#' @param data A data frame, list or environment with the variables of the formula.
#' @param subset,weights,na.action As in [stats::lm()], evaluated in `data`; `subset` and `na.action` require a formula.
#'   Weights are precision weights, of which only the ratios matter; with other families than `gaussian()` frequency weights.
#' @param method `"exact"` (the default), `"em"`, `"loocv"`, `"gcv"` or `"fixed"`, with several penalties also `"reml"`; with other families `"ep"` (the
#'   default), `"laplace"`, `"em"`, `"loocv"` or `"fixed"`. See the details.
#' @param family `gaussian()`, `binomial()`, `binomial("probit")`, `poisson()`, `MASS::negative.binomial(theta)`, or a name: `"gaussian"`,
#'   `"binomial"`, `"poisson"`, `"negative-binomial"`, `"beta-binomial"`, `"student-t"`, `"ordinal"`.
#' @param link With `family = "ordinal"` or `"binomial"`: `"logit"` (the default) or `"probit"`.
#' @param x,y Instead of a formula: a numeric matrix (or data frame) of columns, and a vector or matrix of targets. A
#'   constant column of `x` serves as the intercept. `bayes_ridge()` keeps sparse matrices of the package 'Matrix'
#'   sparse; `spike_slab()` converts them to dense matrices.
#' @param intercept With `x` and `y`: whether there is an intercept. With a formula the formula determines the
#'   intercept, and other values raise an error.
#' @param unpenalized Columns with a flat prior, which are not shrunk: names of terms or of columns of the model matrix;
#'   with `x` names or positions.
#' @param bands Columns that share a penalty, if there are several: a named list of names of terms or columns (with `x` also of
#'   positions), or a label for each column other than the intercept. Penalised columns in none of the bands of a list are one more
#'   band, `other`. See the section on several penalties.
#' @param standardize Whether the prior refers to standardised columns.
#' @param prior Prior of \eqn{\tau^2}: `"r2"`, `"half-cauchy"`, or two or three positive numbers `(a, b)` or `(a, b,
#'   scale)`. \eqn{\tau^2}/scale is beta-prime, with density proportional to \eqn{t^{a-1} (1+t)^{-a-b}}; `scale` is 1 by
#'   default. `"r2"` is (1/2, 1/2) with the scale \eqn{1 / (\sum_j |x_j|^2 / n)}, where \eqn{x_j} are the penalised
#'   columns on the scale of the prior, weighted and with the unpenalised columns projected out. `"half-cauchy"` is the
#'   prior of the paper, (1/2, 1/2, 1): \eqn{\tau} is half-Cauchy with scale 1. Under it the prior share of explained
#'   variance tends to 1 as columns are added.
#' @param sigma2 For `family = gaussian()`: the noise variance, if it is known.
#' @param tol Accuracy of log lambda at which the iteration stops. With several penalties 1e-3 by default: accuracy of the integral, in
#'   posterior standard deviations. With other families than `gaussian()` 1e-6 by default: the largest
#'   estimated error of the integral over the penalty.
#' @param maxiter Maximum number of iterations. With other families than `gaussian()` 200 by default: of sweeps at one penalty.
#'   With two or three bands, several responses and `tol` of at least 0.02: most decompositions that `"exact"` makes, without limit by default.
#' @param grid For `"loocv"` and `"gcv"`: `"fixed"` (1e10 to 1e-10, the default), `"glmnet"` (the penalties of glmnet),
#'   or a vector of penalties.
#' @param lam For `"fixed"`: the penalty, or one for each target; 0 is least squares. With several penalties one for each band. Those of
#'   targets and bands are in their order or named.
#' @param dof For `family = gaussian()`, degrees of freedom: `"nu"` is n minus the rank of the unpenalised columns (recommended), `"paper"` is n.
#' @param parameterization For `"em"`: whether the mode is that of the density of \eqn{\tau^2} or of \eqn{\tau}.
#' @param accelerate For `"em"` and `family = gaussian()`: whether to find the fixed point of EM by root finding; `FALSE` runs the EM iteration.
#'   The results agree.
#' @param solver For other families than `gaussian()` and `"em"`, `"loocv"` and `"fixed"`: how the posterior of the coefficients is
#'   approximated.
#' @param flat_in For other families than `gaussian()` and `"student-t"`: units in which the unpenalised coefficients have a flat prior. `"latent"`
#'   (recommended): the standard deviation of the latent response, which gives a proper posterior also if the columns
#'   separate the responses. `"link"`: the scale of the link.
#' @param exposure Of counts: a positive number for each row, in proportion to which counts are expected; evaluated in
#'   `data` as `weights` are.
#' @param df For `family = "student-t"`: the degrees of freedom of the noise, above 1 and at most 1000, or `Inf`. By default they are
#'   averaged over.
#' @param dispersion For `family = "negative-binomial"` and `"beta-binomial"`: \eqn{\alpha}, if it is known. By default it is integrated
#'   out.
#' @param contrasts A list as in [stats::lm()].
#' @param model Whether to keep the model frame (or `x` and `y`) with the fit, for methods that use the rows of the fit:
#'   `predict(interval = )`, `augment()`, `model.matrix()`, `simulate()`, `report()`. `NULL` keeps at most a million
#'   cells, and a matrix `x` of any size where it takes the place of parts of the posterior that are as large (if it has more
#'   columns than rows). With `FALSE` these methods use the data named in the call.
#' @param disp Whether to print the number of iterations, and the progress of long fits also where the session is not
#'   interactive.
#' @param ... Not used: further arguments raise an error.
#'
#' @return A list of class `"bayes_ridge"` (for other families than `gaussian()` also `"pybayesridge_generalized"`). With several targets vectors over coefficients and rows are matrices with
#'   one column per target, and numbers are vectors. Among the elements are
#'   \describe{
#'     \item{coefficients, bse}{posterior means and standard deviations}
#'     \item{fitted.values, residuals}{fitted values and residuals}
#'     \item{lambda_, tau2, sigma2}{the penalty, `1 / lambda_`, and the noise variance. For `"exact"` the penalty is the
#'       posterior mean on the log scale; see [hyperparameters()].}
#'     \item{log_marginal}{log marginal likelihood, also returned by `logLik()`}
#'     \item{df_model, df_resid, rsquared, nobs}{effective degrees of freedom (excluding the constant), residual degrees
#'       of freedom, R-squared, number of rows}
#'     \item{converged, n_iter, n_modes, solver, diagnostics}{diagnostics of the computation}
#'     \item{facts}{a data frame of the numbers of the whole fit that `summary()` and `glance()` show, a row for each target}
#'     \item{findings}{what a reader must know: a data frame with `code`, `severity` (`"note"` or `"warning"`) and
#'       `text`}
#'     \item{loo_mse, grid, grid_scores}{cross-validation, for `"loocv"` and `"gcv"`}
#'     \item{bands, components}{with several penalties: names of the bands, and the laws of their variances, see
#'       [variance_components()]; `lambda_` and `tau2` are absent}
#'     \item{event, link, n_trials, n_events}{for `family = binomial()` and `"beta-binomial"`: the event whose probability is modelled, the link,
#'       and the numbers of trials and events}
#'     \item{loo_probabilities, loo_log_score, loo_brier, loo_auc}{for `family = binomial()` and `"beta-binomial"`: probability of the event at
#'       each row predicted from the other rows, the mean log probability of the outcomes, the Brier score and the area
#'       under the ROC curve}
#'     \item{link, exposure, n_events, loo_means, loo_log_score, loo_deviance}{for counts: the link, the exposures if
#'       there are any, the sum of the counts, the expected count of each row predicted from the other rows, the mean log probability
#'       of the counts, and the share of the deviance that these predictions explain}
#'     \item{dispersion, dispersion_mean}{for `family = "negative-binomial"` and `"beta-binomial"`: \eqn{\alpha} as it was given, or the exponential of the
#'       posterior mean of its logarithm, and its posterior mean}
#'     \item{noise_scale, noise_scale_mean, noise_df, loo_means, loo_absolute_error}{for `family = "student-t"`: the exponential of the
#'       posterior mean of \eqn{\log \sigma}, the posterior mean of \eqn{\sigma}, the degrees of freedom (as given or the most
#'       probable), the response of each row predicted from the other rows, and the mean absolute error of these predictions}
#'     \item{link, categories, category_counts, codes, loo_log_score}{for `family = "ordinal"`: the link, the categories and how many
#'       rows each has, the category of each row as a number from 0, and the mean log probability of the observed categories, each
#'       row predicted from the others}
#'     \item{posterior}{the representation of the posterior that intervals and predictions use}
#'   }
#' @references Tew, Boley and Schmidt (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression via
#'   Expectation Maximization. NeurIPS.
#' @seealso [spike_slab()], [pybayesridge-methods]
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(mpg ~ ., data = mtcars)
#' summary(fit)
#' predict(fit, mtcars[1:3, ], interval = "prediction")
#'
#' confint(bayes_ridge(mpg ~ poly(hp, 2) + wt + factor(cyl), data = mtcars))
#'
#' yes <- bayes_ridge(am ~ wt + hp, data = mtcars, family = binomial())
#' odds_ratios(yes)
#' predict(yes, mtcars[1:3, ], interval = "credible")
#'
#' rates <- bayes_ridge(ncases ~ agegp + offset(log(ncases + ncontrols)),
#'   data = esoph, family = poisson())
#' rate_ratios(rates)
#'
#' curves <- bayes_ridge(mpg ~ wt + s(hp, k = 6) + (1 | carb), data = mtcars, unpenalized = "fixed")
#' variance_components(curves)
#' predict(curves, transform(mtcars[1:2, ], carb = 5), interval = "prediction")
#' @export
bayes_ridge <- function(formula, data, subset, weights, na.action,
                        method = c("exact", "em", "loocv", "gcv", "fixed", "reml", "ep", "laplace"), family = "gaussian", link = NULL,
                        x = NULL, y = NULL, intercept = TRUE, unpenalized = NULL, bands = NULL, standardize = TRUE,
                        prior = "r2", sigma2 = NULL, tol = 1e-8, maxiter = 10000, grid = NULL, lam = NULL,
                        dof = c("nu", "paper"), parameterization = c("tau2", "tau"), accelerate = TRUE,
                        solver = c("ep", "laplace"), flat_in = c("latent", "link"), exposure = NULL, df = NULL, dispersion = NULL,
                        contrasts = NULL, model = NULL, disp = FALSE, ...) {
  refuse_dots("bayes_ridge", ...)
  call <- match.call()
  family <- chosen_family(family, link = link)
  gaussian <- family$name == "gaussian"
  refuse_other_families(call, family$name)
  valid <- families[[family$name]]$methods
  method <- if (missing(method)) valid[1L] else match.arg(method, valid)
  solver <- match.arg(solver)
  refuse_no_factors(family, method, solver)
  keeps_data(model, 0)
  input <- if (missing(formula)) {
    refuse_formula_arguments(call)
    matrix_input(
      x, y, if (missing(weights)) NULL else weights, check_flag(intercept, "intercept"),
      sparse = is.null(bands), family = family$name, exposure = if (missing(exposure)) NULL else exposure
    )
  } else {
    refuse_both(x, y)
    check_formula(formula, "bayes_ridge", data)
    formula_input(call, parent.frame(), contrasts, if (!missing(intercept)) intercept, family = family$name, bands = TRUE)
  }
  banded <- !is.null(bands) || !is.null(input$band_terms)
  if ((!gaussian || banded) && missing(tol)) tol <- NULL
  if ((!gaussian || banded) && missing(maxiter)) maxiter <- NULL
  free <- resolve_unpenalized(unpenalized, input)
  settings <- list(
    family = "bayes_ridge",
    model = list(
      intercept = input$intercept,
      unpenalized = c(free, as.list(unlist(lapply(input$band_terms$bands, `[[`, "lines")))),
      standardize = check_flag(standardize, "standardize"),
      prior = prior_for_python(prior)
    ),
    fit = list(
      method = method,
      tol = check_number(tol, "tol"),
      maxiter = check_number(maxiter, "maxiter"),
      grid = check_grid(grid),
      lam = penalties_for_python(lam, banded),
      parameterization = match.arg(parameterization)
    )
  )
  own <- if (!gaussian) {
    list(
      model = list(
        family = family$name, link = if (family$link != "identity") family$link, dispersion = dispersion_of(family, dispersion),
        flat_in = if ("flat_in" %in% families[[family$name]]$takes) match.arg(flat_in), trials = input$trials, levels = input$levels,
        exposure = input$exposure, df = check_number(df, "df")
      ),
      fit = list(solver = solver)
    )
  } else {
    list(
      model = list(sigma2 = check_number(sigma2, "sigma2")),
      fit = list(dof = match.arg(dof), accelerate = check_flag(accelerate, "accelerate"))
    )
  }
  settings$model <- c(settings$model, own$model, if (banded) bands_for_python(bands, input, free))
  settings$fit <- c(settings$fit, own$fit)
  value <- call_fit(settings, input, without = as.list(made_in_r(input, model, gaussian, if (banded) "bands" else "ridge")), progress = shows_progress(disp))
  tell_iterations(new_fit(value, input, call, settings, model, list(prior = prior, known_sigma2 = sigma2)), disp)
}

# Penalties of targets or bands, those with names as a dictionary.
penalties_for_python <- function(lam, banded) {
  if (is.null(lam)) return(NULL)
  numbers <- check_numbers(lam, "lam")
  if (banded || length(numbers) > 1L) stats::setNames(as.list(numbers), names(lam)) else numbers
}

# Fits in Python what formula_input() or matrix_input() made, or does something else with the fit: `what`.
call_fit <- function(settings, input, ..., what = settings$family) {
  settings$model$weights <- input$weights
  labels <- colnames(input$x)
  do.call(call_python, c(
    list(
      what, input$y, columns_for_python(input$x),
      x_names = if (is.null(labels)) NULL else as.list(labels),
      y_names = as.list(colnames(input$y)),
      from_formula = !is.null(input$terms)
    ),
    settings[setdiff(names(settings), "family")],
    list(...)
  ))
}

# A fit: what Python exports of it, and what only R knows.
new_fit <- function(value, input, call, settings, model, own = list()) {
  fit <- fit_of_export(value, input$row_names)
  fit$findings <- name_rows(fit$findings, input$row_names %||% seq_len(nrow(input$y)))
  if (!is.null(input$event)) fit$event <- input$event
  of_formula <- !is.null(input$terms)
  by_rows <- !is.null(value$posterior[["half"]]) || !is.null(value$posterior[["lower"]]) && is.null(value$posterior[["rows"]])
  if (by_rows) {
    fit$posterior$data <- list(
      x = input$x, shift = as.numeric(fit$intercept_added),
      root_w = if (!is.null(input$weights)) sqrt(input$weights / fit$weight_mean)
    )
  }
  keep <- by_rows || is.null(.subset2(fit, "fitted.values")) && !is.null(input$x) || keeps_data(model, cells(input))
  known <- list(
    call = strip_call(call),
    weights = input$weights,
    levels = input$levels,
    named = if (!of_formula) input$named %||% !is.null(colnames(input$x)),
    columns = if (!of_formula) setdiff(coefficient_names(fit), if (fit$intercept_added) "(Intercept)"),
    settings = settings,
    terms = input$terms,
    band_terms = input$band_terms,
    variables = input$variables,
    scope = if (length(input$scope)) input$scope,
    xlevels = input$xlevels,
    contrasts = input$contrasts,
    na.action = input$na.action,
    model = if (keep && of_formula) kept_frame(input),
    untransformed = if (keep) input$untransformed,
    x = if (keep && !of_formula && !by_rows) input$x,
    y = if (keep && !of_formula) input$y,
    row_names = if (is.null(.subset2(fit, "fitted.values"))) input$row_names
  )
  known <- c(known, own)
  structure(c(unclass(fit), known[!vapply(known, is.null, NA)]), class = class(fit))
}

# Findings on a row, which Python knows by its position from 0, with its name in R.
name_rows <- function(findings, labels) {
  for (i in which(findings$code == "no-loo-score")) {
    at <- regexpr("row [0-9]+ has", findings$text[i])
    if (at > 0L) {
      position <- as.integer(gsub("[^0-9]", "", regmatches(findings$text[i], at)))
      regmatches(findings$text[i], at) <- paste0("row '", labels[position + 1L], "' has")
    }
  }
  findings
}

# The fit that is in an export (pybayesridge/results/export.py), with R's names and shapes.
fit_of_export <- function(value, row_names = NULL) {
  names <- as.character(unlist(value$names))
  if (isTRUE(value$intercept_added)) {
    if (!is.null(value$monte_carlo)) {
      sampled <- as.character(unlist(value$monte_carlo$name))
      value$monte_carlo$name <- ifelse(sampled == names[1L], "(Intercept)", sampled)
    }
    names[1L] <- "(Intercept)"
  }
  targets <- as.character(unlist(value$targets))
  one <- function(numbers) by_target(numbers, targets)
  fit <- list(
    method = value$method,
    targets = targets,
    coefficients = labelled(value$params, names, targets),
    bse = labelled(value[["bse"]], names, targets),
    fitted.values = labelled(value[["fittedvalues"]], row_names, targets),
    residuals = labelled(value[["resid"]], row_names, targets),
    weight_mean = value$weight_mean,
    rsquared = one(value$rsquared),
    nobs = as.integer(value$nobs),
    df_model = one(value$df_model),
    df_resid = one(value$df_resid),
    converged = value$converged,
    n_iter = as.integer(value$n_iter),
    standardize = value$standardize,
    findings = findings_frame(value$findings),
    facts = data.frame(lapply(value$facts, as.vector), row.names = targets),
    intercept_added = value$intercept_added,
    constant = value$constant
  )
  kind <- kind_of_export(value$family)
  generalized <- !is.null(kind$distribution)
  own <- switch(kind$model,
    bayes_ridge = if (generalized) generalized_values(value, one, families[[kind$distribution]], row_names) else ridge_values(value, one),
    spike_slab = c(selection_values(value, names), if (generalized) generalized_selection_values(value))
  )
  if (kind$banded) own <- c(own, bands_values(value))
  fit <- c(fit, own, list(posterior = plain_tree(value$posterior)))
  class <- c(
    if (kind$banded) "bayes_ridge_bands", kind$model, if (generalized) "pybayesridge_generalized", "pybayesridge_fit"
  )
  fit$distribution <- kind$distribution
  structure(fit[!vapply(fit, is.null, NA)], class = class)
}

# The model, whether it has several penalties, and the distribution of responses where they are not Gaussian, of the `family` of an export.
kind_of_export <- function(family) {
  model <- sub("^(bayes_ridge|spike_slab).*", "\\1", family)
  suffix <- sub("^_", "", substring(family, nchar(model) + 1L))
  distribution <- sub("^bands_?", "", suffix)
  list(model = model, banded = startsWith(suffix, "bands"), distribution = if (nzchar(distribution)) distribution)
}

ridge_values <- function(value, one) {
  list(
    dof = value$dof,
    parameterization = value$parameterization,
    lambda_ = one(value$lambda_),
    tau2 = one(value$tau2),
    sigma2 = one(value$sigma2),
    log_marginal = one(value$log_marginal),
    n_modes = one(value$n_modes),
    solver = value$solver,
    loo_mse = one(value$loo_mse),
    grid = plain_columns(value[["grid"]]),
    grid_scores = plain_columns(value$grid_scores),
    quadrature_error = one(value$quadrature_error),
    diagnostics = lapply(value$diagnostics, one),
    hyper_means = plain(value$hyper_means)
  )
}

shows_progress <- function(disp) isTRUE(disp) || interactive()

tell_iterations <- function(fit, disp) {
  if (isTRUE(disp)) {
    cat(sprintf("%s: %d iterations, converged: %s\n", fit$method, fit$n_iter, fit$converged))
  }
  fit
}

# What a fit has to say, a row for each finding.
findings_frame <- function(lists) {
  column <- function(name) as.character(unlist(lists[[name]]))
  data.frame(code = column("code"), severity = column("severity"), text = column("text"))
}

# A name as it is, numbers as a list; Python refuses what is neither or has another length.
prior_for_python <- function(prior) {
  if (is.character(prior) && length(prior) == 1L && !is.na(prior)) {
    return(prior)
  }
  if (!is.numeric(prior) || anyNA(prior)) {
    stop("'prior' must be \"r2\", \"half-cauchy\", c(a, b) or c(a, b, scale) with positive numbers", call. = FALSE)
  }
  as.list(as.double(prior))
}

# R's own vectors and matrices: arrays of one dimension lose it.
plain <- function(a) {
  if (is.array(a) && length(dim(a)) == 1L) as.vector(a) else a
}

plain_tree <- function(value) {
  if (is.list(value)) lapply(value, plain_tree) else plain(value)
}

plain_columns <- function(m) {
  if (is.null(m)) {
    return(NULL)
  }
  if (ncol(m) == 1L) as.vector(m) else m
}

# A k x q matrix as a named vector, or a matrix with names where there are several targets.
labelled <- function(m, labels, targets) {
  if (is.null(m)) {
    return(NULL)
  }
  if (length(targets) == 1L) {
    return(stats::setNames(as.vector(m), labels))
  }
  dimnames(m) <- list(labels, targets)
  m
}

by_target <- function(numbers, targets) {
  if (is.null(numbers)) {
    return(NULL)
  }
  numbers <- as.vector(numbers)
  if (length(targets) == 1L) numbers else stats::setNames(numbers, targets)
}
