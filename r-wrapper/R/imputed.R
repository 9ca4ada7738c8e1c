#' Fits of multiply imputed data
#'
#' `fit_imputed()` fits a model to each of several completed data sets, such as those of a `mids` object of the package 'mice',
#' and pools the posteriors into one. `pool_fits()` pools fits that exist, such as those of `with(imp, bayes_ridge(...))`. The
#' methods of the pooled fit do not require Python.
#'
#' @details The posterior given the observed values is the average of the posteriors given completed data over the
#'   imputations: with \eqn{M} of them, a mixture in which each has weight \eqn{1/M}. Means and covariances follow by the laws of
#'   total expectation and variance; limits of intervals are quantiles of the mixture. Each draw of `posterior_sample()` is of a
#'   fit chosen at random.
#'
#'   The variance is \eqn{W + B}, with \eqn{W} the mean of the variances of the fits and \eqn{B} the variance of their means.
#'   Rubin's rules, which `mice::pool()` applies to the means and standard deviations of `with(imp, bayes_ridge(...))`, correct
#'   \eqn{B} for a small number of imputations and assume normal posteriors. The difference vanishes as \eqn{M} grows; the
#'   mixture requires no normality, but more imputations, such as 20 to 100. The p-values of `summary(mice::pool(...))` do not
#'   apply to shrunken estimates.
#'
#'   Transforms that learn from the data, such as `scale()`, `poly()`, `splines::bs()` and `splines::ns()`, must mean the same
#'   in all fits. Where what they learn differs between the data sets, `fit_imputed()` lets them learn it from the rows of all
#'   data sets together, and calls `fit` a second time for each; `pool_fits()` refuses such fits.
#'
#'   `predict()` requires `newdata`, since the rows of the fits differ. For binomial and Poisson fits it returns
#'   probabilities or expected counts, and the limits of an interval are those of the linear predictor, transformed.
#'
#' @param data A `mids` object of the package 'mice', or a list of at least two data frames without missing values in the
#'   variables of the model.
#' @param fit A function of one data frame that returns a fit of [bayes_ridge()] or [spike_slab()].
#' @param fits A list of at least two fits, or a `mira` object of the package 'mice'. The fits must have the same model, method,
#'   responses, coefficients and number of rows.
#' @param exposure,trials As in [predict.pybayesridge_fit()].
#' @param x,object A pooled fit.
#' @param parm,level,newdata,interval,type,na.action,conf.int,conf.level,digits As for a single fit; see
#'   [pybayesridge-methods], [predict.pybayesridge_fit()] and [tidy.pybayesridge_fit()].
#' @param target For `vcov()`: name or position of a target, if there are several.
#' @param n,kind,seed As in [as_draws.pybayesridge_fit()].
#' @param se.fit Whether to return posterior standard deviations as well: a list with `fit` and `se.fit`.
#' @param ... Not used: further arguments raise an error.
#' @return A list of class `"pybayesridge_pooled"` with methods for `print()`, `summary()`, `coef()`, `vcov()`, `confint()`,
#'   `predict()`, `nobs()`, `family()`, `tidy()`, `glance()`, [posterior_sample()], [inclusion_prob()], [odds_ratios()] and the
#'   draws of the package 'posterior'. Among its elements are `fits`, `coefficients`, `bse`, and `between_share`, the share of the variance of each
#'   coefficient that lies between the fits: what the missing values cost.
#' @references Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 18.2.
#'
#'   Zhou and Reiter (2010). A note on Bayesian inference after multiple imputation. The American Statistician 64, 159-163.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("mice", quietly = TRUE)
#' imp <- mice::mice(mice::nhanes, m = 5, seed = 1, printFlag = FALSE)
#' pooled <- fit_imputed(imp, function(data) bayes_ridge(chl ~ age + bmi, data = data))
#' summary(pooled)
#' predict(pooled, data.frame(age = 2, bmi = 25), interval = "prediction")
#' @export
fit_imputed <- function(data, fit, ...) {
  refuse_dots("fit_imputed", ...)
  if (missing(fit) || !is.function(fit)) {
    stop("'fit' must be a function from a data frame to a fit, such as function(data) bayes_ridge(y ~ x, data = data)", call. = FALSE)
  }
  sets <- completed_sets(data)
  one <- function(i) {
    found <- tryCatch(fit(sets[[i]]), error = function(e) stop("data set ", i, ": ", conditionMessage(e), call. = FALSE))
    if (!inherits(found, "pybayesridge_fit")) {
      stop("data set ", i, ": 'fit' returns ", kind_of(found), ", not a fit of bayes_ridge() or spike_slab()", call. = FALSE)
    }
    if (length(found$na.action)) {
      stop(
        "data set ", i, ": there are still missing values in ", length(found$na.action),
        " row(s) of the variables of the model: impute them too",
        call. = FALSE
      )
    }
    found
  }
  found <- lapply(seq_along(sets), function(i) with_learning(list(), one(i)))
  fits <- lapply(found, `[[`, "value")
  same_model(fits)
  together <- learned_together(lapply(found, `[[`, "uses"))
  if (!is.null(together)) {
    fits <- lapply(seq_along(sets), function(i) with_learning(together, one(i))$value)
  }
  out <- pool_fits(fits)
  out$call <- match.call()
  out
}

completed_sets <- function(data) {
  if (inherits(data, "mids")) {
    if (!requireNamespace("mice", quietly = TRUE)) {
      stop("a mids object requires the package 'mice': install it, or give a list of the completed data frames", call. = FALSE)
    }
    return(unclass(mice::complete(data, "all")))
  }
  if (is.data.frame(data) || !is.list(data) || length(data) < 2L) {
    stop("'data' must be a mids object or a list of at least two data frames, not ", kind_of(data), call. = FALSE)
  }
  unname(data)
}

#' @rdname fit_imputed
#' @export
pool_fits <- function(fits, ...) {
  refuse_dots("pool_fits", ...)
  call <- match.call()
  if (inherits(fits, "mira")) {
    fits <- fits$analyses
  }
  good <- is.list(fits) && !inherits(fits, "pybayesridge_fit") && length(fits) > 1L
  if (!good || !all(vapply(fits, inherits, NA, "pybayesridge_fit"))) {
    stop("'fits' must be a list of at least two fits of bayes_ridge() or spike_slab()", call. = FALSE)
  }
  fits <- unname(as.list(fits))
  same_model(fits)
  same_transforms(fits)
  first <- fits[[1L]]
  means <- lapply(fits, function(fit) fit$coefficients)
  mean <- Reduce(`+`, means) / length(fits)
  between <- Reduce(`+`, lapply(means, function(each) (each - mean)^2)) / length(fits)
  variance <- Reduce(`+`, lapply(fits, function(fit) fit$bse^2)) / length(fits) + between
  share <- between / variance
  share[!(variance > 0)] <- 0
  out <- list(
    call = strip_call(call), fits = fits, method = first$method, targets = first$targets, coefficients = mean, bse = sqrt(variance),
    between_share = share, nobs = first$nobs, converged = all(vapply(fits, function(fit) isTRUE(fit$converged), NA))
  )
  if (inherits(first, "spike_slab")) {
    out$inclusion_prob <- Reduce(`+`, lapply(fits, `[[`, "inclusion_prob")) / length(fits)
  }
  structure(out, class = "pybayesridge_pooled")
}

# Refuses fits that have no common posterior.
same_model <- function(fits) {
  if (any(vapply(fits, has_cuts, NA))) {
    stop("fits with family = \"ordinal\" cannot be pooled: combine the draws of posterior_sample(hyper = TRUE)", call. = FALSE)
  }
  identity_of <- function(fit) {
    list(
      "their model" = class(fit)[1L], "method" = fit$method, "family" = fit$distribution, "link" = fit$link, "event" = fit$event,
      "responses" = fit$targets, "coefficients" = coefficient_names(fit), "number of rows" = fit$nobs,
      "degrees of freedom" = fit$posterior$df,
      "levels of factors" = vapply(fit$xlevels, paste, "", collapse = ", "), "contrasts" = unlist(fit$contrasts)
    )
  }
  first <- identity_of(fits[[1L]])
  for (i in seq_along(fits)) {
    own <- identity_of(fits[[i]])
    for (what in names(first)) {
      if (!identical(own[[what]], first[[what]])) {
        stop(
          "fits 1 and ", i, " differ in ", what, ": ", paste(first[[what]], collapse = ", "), " and ",
          paste(own[[what]], collapse = ", "),
          if (what == "coefficients") ". A level of a factor may occur in some of the data sets only",
          call. = FALSE
        )
      }
    }
    if (isFALSE(fits[[i]]$posterior$has_mean)) {
      stop("fit ", i, " has no posterior means, which cannot be pooled: the columns separate the responses", call. = FALSE)
    }
  }
}

# Refuses fits whose transforms, such as splines, have learned different numbers from their data.
same_transforms <- function(fits) {
  same_curves(fits)
  terms <- lapply(fits, `[[`, "terms")
  if (any(vapply(terms, is.null, NA))) {
    return(invisible())
  }
  for (i in seq_along(fits)) {
    differ <- differing_predvars(terms[c(1L, i)])
    if (any(differ)) {
      stop(
        "fits 1 and ", i, " use different numbers in ", variables_of(terms[[1L]], differ), ", such as knots or means, so that ",
        "their coefficients mean different things: fit_imputed() finds such numbers once for all data sets; or write them into ",
        "the formula, as in splines::ns(x, knots = c(1, 2), Boundary.knots = c(0, 3))",
        call. = FALSE
      )
    }
  }
}

# Refuses smooth curves that are not of the same functions: their variable was imputed.
same_curves <- function(fits) {
  curves <- function(fit) lapply(Filter(function(band) band$kind == "smooth", fit$band_terms$bands), `[`, c("name", "curve"))
  for (i in seq_along(fits)) {
    if (!isTRUE(all.equal(curves(fits[[i]]), curves(fits[[1L]]), tolerance = 1e-9))) {
      stop(
        "fits 1 and ", i, " have different knots in a smooth curve, whose variable has been imputed, so that their coefficients mean ",
        "different things: write a spline with given knots, as in splines::ns(x, knots = c(1, 2), Boundary.knots = c(0, 3))",
        call. = FALSE
      )
    }
  }
}

# Mixtures of the laws of m quantities given each fit, m x K, and the probability of zero, m: those of all fits together.
# `laws` are lists of where, scale, weight and spike, see law_of_coefficients().
pooled_mixture <- function(laws) {
  of <- function(name) do.call(cbind, lapply(laws, `[[`, name))
  spike <- Reduce(`+`, lapply(laws, `[[`, "spike")) / length(laws)
  out <- list(where = of("where"), scale = of("scale"), weight = of("weight") / length(laws), spike = spike)
  if (any(out$scale == 0 & out$weight > 0)) {
    stop("a fit without noise has points and no intervals, which cannot be pooled", call. = FALSE)
  }
  out
}

# Quantiles of pooled quantities `at`; `law(i, at)` is that of some of them given fit i.
pooled_quantiles <- function(object, at, probabilities, law) {
  sizes <- rep(sum(vapply(object$fits, function(fit) nrow(fit$posterior$weight), 0L)), length(at))
  law_quantiles(at, probabilities, object$fits[[1L]]$posterior$df, sizes, function(some) {
    pooled_mixture(lapply(seq_along(object$fits), law, some))
  })
}

# The law of rows of the model matrix of one fit, `x` (m x p): linear predictors, with noise of variance `noise` (m) relative to
# that of the noise.
law_of_rows <- function(fit, x, target, noise = 0) {
  post <- fit$posterior
  split <- split_rows(fit, x)
  each <- mixture_of(functionals(post, split$x, split$z), components(post, target, negligible), post, noise)
  law_of_mixture(each, post$y_norm[target], drop(split$z %*% post$y_on_z[, target]))
}
