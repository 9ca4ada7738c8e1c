#' Predictions and their intervals
#'
#' Posterior mean of the linear predictor for new data or for the rows of the fit, with credible intervals of the linear
#' predictor (`"credible"`) or prediction intervals of a new observation (`"prediction"`). For fits with `family =
#' binomial()` the posterior mean of the probability of the event, and for counts the posterior median of the expected
#' count, with credible intervals of it or prediction intervals of a new count or number of successes, and for ordered categories the posterior mean of the probability of each. Python is not required.
#'
#' @param object A fit of [bayes_ridge()] or [spike_slab()].
#' @param newdata A data frame with the variables of the formula, or a matrix with the columns of `x`. By default the
#'   rows of the fit.
#' @param interval `"none"`, `"credible"` or `"prediction"`.
#' @param level Probability of the interval, which is equal-tailed.
#' @param se.fit Whether to return posterior standard deviations of the linear predictor as well.
#' @param weights Precision weights of the new observations for `"prediction"`, in the units of the weights of the fit.
#'   The default is the weights of the fit for its own rows and their mean for new data.
#' @param na.action Treatment of missing values in `newdata`; by default the prediction is `NA`.
#' @param type `"response"`; for other families than `gaussian()` also `"link"`, the linear predictor, for counts with the log of the exposure.
#'   In contrast to [stats::predict.glm()] the default is the response. Predictions of terms are not available.
#' @param exposure Of counts, for new data: a number, one for each row, or the name of a variable of `newdata`. 1 by default,
#'   so that predictions are rates. An offset in the formula, which is evaluated in `newdata`, leaves no room for this argument.
#' @param trials Of fits with `family = binomial()` and `"beta-binomial"`, for `interval = "prediction"`: numbers of trials of the new rows, as
#'   a number, one for each row, or the name of a variable of `newdata`. The rows of the fit have their own.
#' @param ... Not used: further arguments raise an error.
#' @param re_form Of fits with terms such as `(1 | g)`, as `re.form` of 'lme4': `NULL` for predictions with the effects of all
#'   groups, `NA` (or `~ 0`) for those of the population, without them.
#' @param new_levels The effect of a group that the fit has not seen, or that is missing: `"sample"` for a draw from the population of
#'   groups, with mean 0 and the variance of the groups, which widens the intervals; `"zero"` for 0, that of a group in the middle.
#' @details The formula uses the constants and the functions of packages that it used in the fit. Functions of the session must be
#'   defined as they were. Terms whose values depend on all rows, such as `I(x - mean(x))`, are refused for new rows; `scale()`,
#'   `poly()` and `splines::ns()` keep what they took from the data, unless they are inside another function. Functions of a factor, such
#'   as `as.integer(f)`, have its levels in the data of the fit.
#'
#'   Intervals for the rows of the fit require its data. A fit keeps small data (see `model` in [bayes_ridge()]);
#'   otherwise the data named in its call are used, and an error is raised if they are not found.
#'
#'   The interval of a probability is that of the linear predictor, transformed. A new yes/no response has no interval:
#'   `interval = "prediction"` is an error for binomial fits without `trials`. With these `lwr` and `upr` are numbers of successes, and `fit`
#'   the probability. The interval of a new count, of a new number of successes, or of a new response with Student-t noise
#'   accounts for the uncertainty in the linear predictor and in what the distribution has besides it (dispersion, or scale and degrees of
#'   freedom); the ends of an interval of counts or successes are whole numbers, so that its probability is at least `level`. Expected counts
#'   are medians since the tail of the posterior of the penalty can rule a mean out; their `se.fit` is half the distance of the
#'   quantiles at 16 % and 84 %.
#'
#'   The probabilities of ordered categories are posterior means; their intervals and standard deviations are those of 4,000 draws,
#'   the same at each call. Linear predictors of such fits contain no cut point.
#' @return A vector; with an interval a matrix with columns `fit`, `lwr` and `upr`. With several targets a matrix with
#'   one column per target, and of ordered categories with one for each category; with an interval an array whose third dimension is
#'   the target or the category. With `se.fit = TRUE` a list
#'   with these values (`fit`), `se.fit` and `residual.scale`.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(dist ~ poly(speed, 2), data = cars)
#' predict(fit, data.frame(speed = c(10, 20)), interval = "prediction", level = 0.9)
#' @export
predict.pybayesridge_fit <- function(object, newdata, interval = c("none", "credible", "prediction"), level = 0.95,
                                     se.fit = FALSE, weights = NULL, na.action = stats::na.pass,
                                     type = "response", ..., re_form = NULL, new_levels = c("sample", "zero")) {
  refuse_dots("predict", ...)
  groups <- with_groups(re_form)
  new_levels <- check_new_levels(new_levels)
  check_type(type)
  interval <- check_interval(interval)
  check_level(level)
  own <- missing(newdata) || is.null(newdata)
  if (own && interval == "none" && !se.fit && groups) {
    return(stats::fitted(object))
  }
  env <- parent.frame()
  rows <- if (own) own_rows(object, env, groups) else new_rows(object, newdata, na.action, env, groups)
  noise <- noise_factors(object, nrow(rows$x), weights, own)
  complete <- !is.na(rowSums(rows$x))
  x <- rows$x[complete, , drop = FALSE]
  pad <- function(v) padded(v, rows, complete)
  targets <- seq_along(object$targets)
  extra <- if (interval == "prediction") noise[complete]
  unseen <- if (new_levels == "sample") unseen_of(object, rows)[complete, , drop = FALSE]
  limits <- if (interval != "none") as_array(row_intervals(object, x, targets, tails(level), extra, unseen))
  parts <- lapply(targets, function(target) {
    fit <- list(fit = pad(linear_predictor(object, x, target)))
    if (interval != "none") {
      fit$lwr <- pad(limits[, 1L, target])
      fit$upr <- pad(limits[, 2L, target])
    }
    if (se.fit) {
      fit$se.fit <- pad(row_standard_deviations(object, x, target, unseen))
    }
    fit
  })
  out <- prediction_shape(parts, interval, object$targets)
  if (!se.fit) {
    return(out)
  }
  se <- sapply(parts, `[[`, "se.fit")
  if (length(parts) == 1L) {
    se <- parts[[1L]]$se.fit
  } else {
    se <- matrix(se, ncol = length(parts), dimnames = list(names(parts[[1L]]$fit), object$targets))
  }
  list(fit = out, se.fit = se, residual.scale = stats::sigma(object))
}

# Whether `re_form` asks for the effects of groups: NULL for all, as in lme4, NA or ~0 for the population.
with_groups <- function(re_form) {
  if (is.null(re_form)) {
    return(TRUE)
  }
  none <- inherits(re_form, "formula") && identical(re_form[[length(re_form)]], 0)
  if (!none && !(length(re_form) == 1L && is.atomic(re_form) && is.na(re_form))) {
    stop("'re_form' must be NULL (with the effects of all groups) or NA (without them)", call. = FALSE)
  }
  FALSE
}

check_new_levels <- function(new_levels) {
  valid <- c("sample", "zero")
  if (identical(new_levels, valid)) {
    return("sample")
  }
  if (!is.character(new_levels) || length(new_levels) != 1L || !new_levels %in% valid) {
    stop("'new_levels' must be \"sample\" or \"zero\"", call. = FALSE)
  }
  new_levels
}

# Values of the complete rows as those of all rows.
padded <- function(values, rows, complete) {
  out <- rep(NA_real_, length(complete))
  out[complete] <- values
  names(out) <- rownames(rows$x)
  stats::napredict(rows$na.action, out)
}

check_type <- function(type) {
  if (!identical(type, "response")) {
    stop("type = ", deparse1(type), " is not available: predict() gives the response (and intervals by 'interval')", call. = FALSE)
  }
}

prediction_shape <- function(parts, interval, targets) {
  one <- function(part) {
    if (interval == "none") part$fit else cbind(fit = part$fit, lwr = part$lwr, upr = part$upr)
  }
  if (length(parts) == 1L) {
    return(one(parts[[1L]]))
  }
  all <- lapply(parts, one)
  rows <- names(parts[[1L]]$fit)
  if (interval == "none") {
    return(matrix(unlist(all), ncol = length(all), dimnames = list(rows, targets)))
  }
  array(unlist(all), c(nrow(all[[1L]]), 3L, length(all)), list(rows, c("fit", "lwr", "upr"), targets))
}

# The model matrix of the fit's own rows.
own_rows <- function(object, env, groups = TRUE) {
  if (!is.null(object$terms)) {
    frame <- own_frame(object, env)
    rows <- columns_at(object, terms_in(object, env), frame)
    rows$x <- same_rows(object, rows$x)
    if (!groups) rows$x[, are_effects_of_groups(object)] <- 0
    return(c(rows, list(na.action = object$na.action)))
  }
  if (!groups && length(group_bands_of(object))) {
    return(without_groups(object, own_rows(object, env)))
  }
  if (is.matrix(object$x)) {
    return(list(x = object$x, na.action = NULL))
  }
  x <- object$x
  x <- tryCatch(as_columns(if (is.null(x)) eval(object$call$x, env) else x, "x"), error = function(e) NULL)
  if (is.null(x)) {
    otherwise <- if (is.null(object$file)) "fit with model = TRUE" else "read a file with data by read_fit(model = TRUE)"
    stop("this fit holds no data: give 'newdata', or ", otherwise, call. = FALSE)
  }
  list(x = same_rows(object, x), na.action = NULL)
}

# Whether numbers differ by no more than 1e-6 of the largest, whatever their unit (all.equal() compares small ones as they
# are).
same_numbers <- function(ours, theirs) {
  length(ours) == length(theirs) && isTRUE(all(abs(ours - theirs) <= 1e-6 * max(abs(theirs), 0)))
}

# The rows found again, if they give the fitted values that were kept.
same_rows <- function(object, x) {
  fitted <- as.matrix(object$fitted.values)
  b <- as.matrix(object$coefficients)
  same <- nrow(x) == nrow(fitted) && ncol(x) + object$intercept_added == nrow(b)
  if (same) {
    again <- if (!family_of(object)$noise && is.null(object$linear.predictors)) {
      generalized_rows(object, x, "response", NULL, FALSE, object$exposure)$fit
    } else {
      with_ones(object, x) %*% b
    }
    same <- same_numbers(as.vector(again), as.vector(object$linear.predictors %||% fitted))
  }
  if (!same) {
    stop("the data have changed since the fit: give 'newdata', or fit with model = TRUE", call. = FALSE)
  }
  x
}

# The model frame of the fit, kept or made again from the data that the call names.
own_frame <- function(object, env) {
  if (!is.null(object$model)) {
    return(object$model)
  }
  call <- object$call
  wanted <- match(c("data", "subset", "weights"), names(call), 0L)
  call <- call[c(1L, wanted)]
  call[[1L]] <- quote(stats::model.frame)
  check_functions(object, env)
  call$formula <- terms_in(object, env)
  call$xlev <- object$xlevels
  call$na.action <- quote(stats::na.pass)
  call$drop.unused.levels <- TRUE
  frame <- tryCatch(eval(call, env), error = function(e) {
    stop(
      "this fit holds no data, and they could not be found again (", conditionMessage(e),
      "): give 'newdata', or fit with model = TRUE",
      call. = FALSE
    )
  })
  if (length(object$na.action)) {
    frame <- frame[-as.integer(object$na.action), , drop = FALSE]
    attr(frame, "na.action") <- object$na.action
  }
  frame
}

# Variance of new observations relative to sigma2.
noise_factors <- function(object, m, weights, own) {
  if (!is.null(weights)) {
    return(object$weight_mean / as_weights(weights, m))
  }
  if (own && !is.null(object$weights)) {
    return(object$weight_mean / object$weights)
  }
  rep(1, m)
}

linear_predictor <- function(object, x, target) {
  b <- as.matrix(object$coefficients)[, target]
  drop(with_ones(object, x) %*% b)
}

# Columns of the coefficients: with an added intercept those of `x`, of any number of rows, after a column of ones.
with_ones <- function(object, x) if (object$intercept_added) cbind(rep(1, nrow(x)), x) else x

# The model matrix of new rows as its penalised and unpenalised columns; linear predictors have no cut point.
split_rows <- function(object, x) {
  x <- with_ones(object, x)
  cuts <- length(cut_positions(object))
  if (cuts) x <- cbind(x, matrix(0, nrow(x), cuts))
  list(x = x[, object$posterior$at, drop = FALSE], z = x[, object$posterior$z_at, drop = FALSE])
}

# Quantiles of rows, m x length(probabilities), for one target or (as a third dimension) several.
row_intervals <- function(object, x, target, probabilities, noise, unseen = NULL) {
  post <- object$posterior
  split <- split_rows(object, x)
  f <- c(functionals(post, split$x, split$z), if (!is.null(unseen)) list(unseen = unseen))
  limits <- functional_quantiles(f, post, target, probabilities, if (is.null(noise)) 0 else noise)
  base <- split$z %*% post$y_on_z[, target, drop = FALSE]
  limits + as.vector(base[, rep(seq_along(target), each = length(probabilities))])
}

row_standard_deviations <- function(object, x, target, unseen = NULL) {
  split <- split_rows(object, x)
  f <- c(functionals(object$posterior, split$x, split$z), if (!is.null(unseen)) list(unseen = unseen))
  functional_sd(f, object$posterior, target)
}

# One target's table as that of several.
as_array <- function(a) array(a, c(dim(a), 1L)[1:3])

# Quantiles of the coefficients `at`, a row for each; for several targets an array whose third dimension they are.
coefficient_intervals <- function(object, target, probabilities, at = seq_along(coefficient_names(object))) {
  if (inherits(object, "pybayesridge_pooled")) {
    each <- lapply(target, function(one) {
      pooled_quantiles(object, at, probabilities, function(i, some) law_of_coefficients(object$fits[[i]], some, one))
    })
    return(if (length(target) == 1L) each[[1L]] else array(unlist(each), c(dim(each[[1L]]), length(target))))
  }
  post <- object$posterior
  if (!is.null(post[["half"]]) && length(at) > length(post$at) / 2) {
    # Singular vectors are made of the rows once.
    post$right <- right_of(post)
    object$posterior <- post
  }
  out <- array(0, c(length(at), length(probabilities), length(target)))
  of_z <- match(at, post$z_at)
  free <- !is.na(of_z)
  j <- match(at, post$at)
  penalized <- !is.na(j)
  if (any(free) && any(penalized) && has_functionals(post) && !in_row_space(post)) {
    # All at once: making the components is most of the work.
    f <- both_functionals(some_functionals(functionals_of_z(post), of_z[free]), functionals_of_columns(post, j[penalized]))
    out[c(which(free), which(penalized)), , ] <- as_array(functional_quantiles(f, post, target, probabilities))
  } else {
    if (any(free)) {
      limits <- as_array(functional_quantiles(functionals_of_z(post), post, target, probabilities))
      out[free, , ] <- limits[of_z[free], , ]
    }
    out[penalized, , ] <- penalized_quantiles(object, target, probabilities, j[penalized])
  }
  out[free, , ] <- out[free, , ] + as.vector(post$y_on_z[of_z[free], rep(target, each = length(probabilities))])
  out[penalized, , ] <- out[penalized, , ] / post$scale[j[penalized]]
  if (length(target) == 1L) matrix(out, length(at), length(probabilities)) else out
}

tails <- function(level) c((1 - level) / 2, (1 + level) / 2)
