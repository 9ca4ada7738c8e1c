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
#'   `predict()` requires `newdata`, since the rows of the fits differ. For binomial fits it returns probabilities, and the
#'   limits of an interval are those of the linear predictor, transformed.
#'
#' @param data A `mids` object of the package 'mice', or a list of at least two data frames without missing values in the
#'   variables of the model.
#' @param fit A function of one data frame that returns a fit of [bayes_ridge()] or [spike_slab()].
#' @param fits A list of at least two fits, or a `mira` object of the package 'mice'. The fits must have the same model, method,
#'   responses, coefficients and number of rows.
#' @param x,object A pooled fit.
#' @param parm,level,newdata,interval,type,na.action,conf.int,conf.level,digits As for a single fit; see
#'   [pybayesridge-methods], [predict.pybayesridge_fit()] and [tidy.pybayesridge_fit()].
#' @param target For `vcov()`: name or position of a target, if there are several.
#' @param n,kind,seed As in [as_draws.pybayesridge_fit()].
#' @param se.fit Whether to return posterior standard deviations as well: a list with `fit` and `se.fit`.
#' @param ... Not used: further arguments raise an error.
#' @return A list of class `"pybayesridge_pooled"` with methods for `print()`, `summary()`, `coef()`, `vcov()`, `confint()`,
#'   `predict()`, `nobs()`, `family()`, `tidy()`, `glance()`, [posterior_sample()], [inclusion_prob()] and the draws of the package
#'   'posterior'. Among its elements are `fits`, `coefficients`, `bse`, and `between_share`, the share of the variance of each
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
fit_imputed <- function(data, fit) {
  if (missing(fit) || !is.function(fit)) {
    stop("'fit' must be a function from a data frame to a fit, such as function(data) bayes_ridge(y ~ x, data = data)", call. = FALSE)
  }
  sets <- completed_sets(data)
  fits <- lapply(seq_along(sets), function(i) {
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
  })
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
pool_fits <- function(fits) {
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
  identity_of <- function(fit) {
    list(
      "their model" = class(fit)[1L], "method" = fit$method, "link" = fit$link, "event" = fit$event,
      "responses" = fit$targets, "coefficients" = coefficient_names(fit), "number of rows" = fit$nobs,
      "degrees of freedom" = fit$posterior$df
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

# Mixtures of the laws of m quantities given each fit, K x m, and the probability of zero, m: those of all fits together.
# `laws` are lists of where, scale, weight (K or K x m) and spike.
pooled_mixture <- function(laws) {
  of <- function(name) do.call(rbind, lapply(laws, `[[`, name))
  weight <- do.call(rbind, lapply(laws, function(law) array(law$weight, dim(law$where))))
  spike <- Reduce(`+`, lapply(laws, `[[`, "spike")) / length(laws)
  out <- list(where = of("where"), scale = of("scale"), weight = weight / length(laws), spike = spike)
  # Under an infinite penalty a coefficient is zero for certain.
  point <- out$scale == 0
  if (any(point & out$where != 0)) {
    stop("a fit without noise has points and no intervals, which cannot be pooled", call. = FALSE)
  }
  out$spike <- out$spike + colSums(out$weight * point)
  out$weight[point] <- 0
  out$scale[point] <- 1
  out
}

# Quantiles of pooled quantities `at`, in blocks; `law(i, at)` is that of some of them given fit i.
pooled_quantiles <- function(object, at, probabilities, law) {
  df <- object$fits[[1L]]$posterior$df
  out <- matrix(0, length(at), length(probabilities))
  nodes <- sum(vapply(object$fits, function(fit) nrow(fit$posterior$weight), 0L))
  for (part in chunks(length(at), elements / nodes)) {
    if (!length(part)) next
    each <- pooled_mixture(lapply(seq_along(object$fits), law, at[part]))
    # What is zero for certain has no component.
    some <- colSums(each$weight) > 0
    columns <- function(m) m[, some, drop = FALSE]
    if (any(some)) {
      out[part[some], ] <- unlist(lapply(probabilities, function(p) {
        mixture_quantile(columns(each$where), columns(each$scale), columns(each$weight), df, p, each$spike[some])
      }))
    }
  }
  out
}

# The law of rows of the model matrix of one fit, `x` (m x p): linear predictors, with noise of variance `noise` (m) relative to
# that of the noise.
law_of_rows <- function(fit, x, target, noise = 0) {
  post <- fit$posterior
  split <- split_rows(fit, x)
  each <- mixture_of(functionals(post, split$x, split$z), post, target, noise, floor = negligible)
  shift <- drop(split$z %*% post$y_on_z[, target])
  list(
    where = each$where * post$y_norm[target] + rep(shift, each = nrow(each$where)),
    scale = sqrt(each$scale2) * post$y_norm[target], weight = each$weight, spike = numeric(nrow(x))
  )
}

# The law of coefficients `at` of one fit.
law_of_coefficients <- function(fit, at, target) {
  post <- fit$posterior
  of_z <- match(at, post$z_at)
  j <- match(at, post$at)
  law <- law_of_penalized(fit, j[!is.na(j)], target)
  out <- list(
    where = matrix(0, nrow(law$where), length(at)), scale = matrix(1, nrow(law$where), length(at)),
    weight = matrix(0, nrow(law$where), length(at)), spike = rep(1, length(at))
  )
  into <- !is.na(j)
  unit <- post$y_norm[target] / post$scale[j[into]]
  out$where[, into] <- law$where * rep(unit, each = nrow(law$where))
  out$scale[, into] <- law$scale * rep(unit, each = nrow(law$where))
  out$weight[, into] <- law$weight
  out$spike[into] <- law$spike
  into <- !is.na(of_z)
  if (any(into)) {
    # Unpenalised ones, as rows of the model matrix that have a one in their column.
    each <- mixture_of(functionals_of_z(post), post, target, floor = negligible)
    rows <- seq_len(nrow(each$where))
    shift <- post$y_on_z[of_z[into], target]
    out$where[rows, into] <- each$where[, of_z[into]] * post$y_norm[target] + rep(shift, each = length(rows))
    out$scale[rows, into] <- sqrt(each$scale2[, of_z[into]]) * post$y_norm[target]
    out$weight[rows, into] <- each$weight
    out$spike[into] <- 0
  }
  out
}

# The same of standardised penalised coefficients j, in units of the response's norm; as penalized_quantiles() has them.
law_of_penalized <- function(fit, j, target) {
  post <- fit$posterior
  if (is_sets(post)) {
    return(law_of_sets(fit, j))
  }
  if (is_ridge(post)) {
    each <- mixture_of(functionals_of_columns(post, j), post, target, floor = negligible)
    weight <- array(each$weight, dim(each$where))
    return(list(where = each$where, scale = sqrt(each$scale2), weight = weight, spike = numeric(length(j))))
  }
  weight <- post$slab_weight[, j, drop = FALSE] * post$weight[, 1L]
  list(
    where = post$slab_mean[, j, drop = FALSE], scale = sqrt(post$slab_var[, j, drop = FALSE]), weight = weight,
    spike = 1 - colSums(weight)
  )
}

# Of a selection by sets: the states that have the column share its inclusion probability.
law_of_sets <- function(fit, j) {
  post <- fit$posterior
  size <- nrow(post$weight)
  prob <- unname(fit$inclusion_prob[post$at])[j]
  out <- list(where = matrix(0, size, length(j)), scale = matrix(1, size, length(j)), weight = matrix(0, size, length(j)), spike = 1 - prob)
  found <- state_coefficients(post)
  for (i in which(prob > 0)) {
    of_column <- which(found$column == j[i])
    state <- found$state[of_column]
    weight <- post$weight[state, 1L]
    if (!length(state)) {
      out$spike[i] <- 1
      next
    }
    out$where[, i] <- found$mean[of_column[1L]]
    out$scale[, i] <- sqrt(found$scale2[of_column[1L]])
    out$where[state, i] <- found$mean[of_column]
    out$scale[state, i] <- sqrt(found$scale2[of_column])
    out$weight[state, i] <- prob[i] * weight / sum(weight)
  }
  out
}
