# Responses that are not Gaussian: what fits of them keep, and their methods. What differs between families is in families.R, their
# posterior in generalized_posterior.R.

# The values that only ridges of such responses have: those of all families, scores among them, and what the family keeps.
generalized_values <- function(value, one, family, row_names = NULL) {
  kept <- c("link", "parameterization", "solver", "penalty_means", grep("^loo_", names(value), value = TRUE), family$keeps)
  c(
    lapply(value[intersect(kept, names(value))], as.vector),
    if (!is.null(family$values)) family$values(value, row_names),
    list(
      lambda_ = one(value$lambda_),
      tau2 = one(value$tau2),
      log_marginal = one(value$log_marginal),
      grid = plain_columns(value[["grid"]]),
      grid_scores = plain_columns(value$grid_scores),
      quadrature_error = one(value$quadrature_error)
    )
  )
}

#' Odds ratios and rate ratios
#'
#' Exponentials of the coefficients with credible intervals: of a binomial or ordinal fit with the logit link odds ratios, of counts
#' rate ratios. Python is not required.
#'
#' @param object A fit of [bayes_ridge()] or [spike_slab()] with `family = binomial()`, `"beta-binomial"` or `"ordinal"`, for `rate_ratios()` with
#'   `family = poisson()` or `"negative-binomial"`, or a pooled fit of such ([fit_imputed()]).
#' @param level Probability of the credible intervals.
#' @param parm Names or positions of coefficients; by default all.
#' @param ... Not used: further arguments raise an error.
#' @return A data frame with a row for each coefficient: `odds_ratio` or `rate_ratio` (the exponential of `coef()`), `lower` and
#'   `upper` (those of the interval), and `prob_above_1`, the posterior probability that the odds or the rate rises with the column;
#'   for [spike_slab()] also `prob_equal_1`, the posterior probability that they do not depend on it, and if sets of columns were
#'   sampled `mcse`, the Monte Carlo standard error of the odds ratio. The row of the intercept contains the odds or the rate where
#'   every column is 0.
#' @examplesIf pybayesridge::pybayesridge_available()
#' odds_ratios(bayes_ridge(am ~ wt + hp, data = mtcars, family = binomial()))
#' rate_ratios(bayes_ridge(carb ~ wt + hp, data = mtcars, family = poisson()))
#' @export
odds_ratios <- function(object, level = 0.95, parm = NULL, ...) {
  refuse_dots("odds_ratios", ...)
  ratios(object, "odds_ratio", level, parm)
}

#' @rdname odds_ratios
#' @export
rate_ratios <- function(object, level = 0.95, parm = NULL, ...) {
  refuse_dots("rate_ratios", ...)
  ratios(object, "rate_ratio", level, parm)
}

ratios <- function(object, name, level, parm) {
  pooled <- inherits(object, "pybayesridge_pooled")
  one <- if (pooled) object$fits[[1L]] else object
  if (!inherits(one, "pybayesridge_fit") || !identical(family_of(one)$ratio_name, name)) {
    having <- names(Filter(function(family) identical(family$ratio_name, name), families))
    stop(name, "s() is for fits with family = ", either(vapply(having, told_family, "")), call. = FALSE)
  }
  if (!family_of(one)$has_ratio(one)) {
    stop("odds_ratios() is for the logit link: coefficients of the ", one$link, " link are not log odds ratios", call. = FALSE)
  }
  if (pooled) pooled_ratios(object, name, level, parm) else ratios_of_fit(object, name, level, parm)
}

# Exponentials of coefficients and of their intervals.
exponentials <- function(object, name, level, parm) {
  limits <- if (is.null(parm)) stats::confint(object, level = level) else stats::confint(object, parm, level = level)
  at <- match(rownames(limits), coefficient_names(object))
  ends <- exp(cbind(object$coefficients[at], limits))
  dimnames(ends) <- list(rownames(limits), c(name, "lower", "upper"))
  data.frame(ends)
}

ratios_of_fit <- function(object, name, level, parm) {
  out <- exponentials(object, name, level, parm)
  at <- match(rownames(out), coefficient_names(object))
  above <- coefficients_above(object)
  out$prob_above_1 <- above[at]
  if (inherits(object, "spike_slab")) {
    out$prob_equal_1 <- ifelse(is.nan(above), NaN, 1 - unname(object$inclusion_prob))[at]
  }
  errors <- object$monte_carlo
  if (!is.null(errors) && !object$enumerated) {
    errors <- errors[errors$quantity == name, ]
    own <- errors$mcse[match(rownames(out), errors$name)]
    out$mcse <- ifelse(is.na(own), NaN, own)
  }
  posterior_table(out)
}

# As ratios of one fit: of the means and the intervals of the mixture, and the mean of the probabilities.
pooled_ratios <- function(object, name, level, parm) {
  each <- lapply(object$fits, ratios_of_fit, name, level, parm)
  out <- exponentials(object, name, level, parm)
  for (column in setdiff(names(each[[1L]]), c(names(out), "mcse"))) {
    out[[column]] <- Reduce(`+`, lapply(each, `[[`, column)) / length(each)
  }
  if (!is.null(each[[1L]]$mcse)) {
    # The errors of the means, whose exponentials the ratios are, of independent fits.
    squares <- lapply(each, function(one) (one$mcse / one[[name]])^2)
    out$mcse <- out[[name]] * sqrt(Reduce(`+`, squares)) / length(each)
  }
  posterior_table(out)
}

#' @rdname predict.pybayesridge_fit
#' @export
predict.pybayesridge_generalized <- function(object, newdata, type = c("response", "link"),
                                             interval = c("none", "credible", "prediction"), level = 0.95, se.fit = FALSE,
                                             na.action = stats::na.pass, exposure = NULL, ..., re_form = NULL,
                                             new_levels = c("sample", "zero"), trials = NULL) {
  refuse_dots("predict", ...)
  type <- match.arg(type)
  interval <- family_of(object)$interval(interval)
  refuse_new_link(interval, type)
  check_level(level)
  groups <- with_groups(re_form)
  new_levels <- check_new_levels(new_levels)
  own <- missing(newdata) || is.null(newdata)
  if (own && type == "response" && interval == "none" && !se.fit && is.null(exposure) && is.null(trials) && groups) {
    return(stats::fitted(object))
  }
  env <- parent.frame()
  rows <- if (own) own_rows(object, env, groups) else new_rows(object, newdata, na.action, env, groups)
  complete <- !is.na(rowSums(rows$x))
  extent <- exposure_of_rows(object, rows, own, exposure, if (!own) newdata)
  trials <- trials_of_rows(object, rows, own, trials, if (!own) newdata, interval == "prediction")
  unseen <- if (new_levels == "sample") unseen_of(object, rows)[complete, , drop = FALSE]
  x <- rows$x[complete, , drop = FALSE]
  probabilities <- if (interval != "none") tails(level)
  found <- if (type == "response" && has_cuts(object)) {
    category_rows(object, x, probabilities, se.fit, unseen)
  } else {
    list(generalized_rows(object, x, type, probabilities, se.fit, extent[complete], unseen))
  }
  if (interval == "prediction") {
    found[[1L]][c("lwr", "upr")] <- ends_of(new_quantiles(list(object), list(x), probabilities, (trials %||% extent)[complete], unseen))
  }
  parts <- lapply(found, lapply, padded, rows, complete)
  labels <- names(parts) %||% object$targets
  out <- prediction_shape(parts, interval, labels)
  if (!se.fit) {
    return(out)
  }
  list(fit = out, se.fit = prediction_shape(lapply(parts, function(part) list(fit = part$se.fit)), "none", labels), residual.scale = 1)
}

# An interval of means of responses; `reason` is why that of new responses is refused.
check_mean_interval <- function(interval, reason, mean) {
  interval <- check_interval(interval)
  if (interval == "prediction") {
    stop(reason, ": interval = \"credible\" is that of its ", mean, call. = FALSE)
  }
  interval
}

# Linear predictors have no interval of a new one.
refuse_new_link <- function(interval, type) {
  if (interval == "prediction" && type == "link") {
    stop("interval = \"prediction\" is of a new response: it needs type = \"response\"", call. = FALSE)
  }
}

#' @rdname pybayesridge-methods
#' @export
residuals.pybayesridge_generalized <- function(object, type = c("response", "deviance", "pearson"), ...) {
  refuse_dots("residuals", ...)
  type <- match.arg(type)
  refuse_categories(object, "residuals")
  check_rows(object)
  family <- stats::family(object)
  mean <- object$fitted.values
  own <- family_of(object)
  copies <- object$weights %||% rep(1, length(mean))
  size <- rep(own$sizes(object), length.out = length(mean))
  spread <- family$variance(mean) * if (is.null(own$inflation)) 1 else own$inflation(object)
  out <- switch(type,
    response = object$residuals,
    deviance = sign(object$residuals) * sqrt(pmax(copies * family$dev.resids(mean + object$residuals, mean, size / copies), 0)),
    pearson = object$residuals * sqrt(size / spread)
  )
  stats::naresid(object$na.action, out)
}

#' @rdname pybayesridge-methods
#' @export
deviance.pybayesridge_generalized <- function(object, ...) {
  refuse_dots("deviance", ...)
  refuse_categories(object, "deviance")
  sum(stats::residuals(object, "deviance")^2, na.rm = TRUE)
}

#' @rdname pybayesridge-methods
#' @export
sigma.pybayesridge_generalized <- function(object, use.fallback = TRUE, ...) {
  refuse_dots("sigma", ...)
  stop(
    "sigma() is not defined for ", if (has_cuts(object)) "an " else "a ", object$distribution, " fit: ",
    family_of(object)$no_sigma %||% "its responses have no noise variance",
    call. = FALSE
  )
}

#' @rdname posterior_sample
#' @export
simulate.pybayesridge_generalized <- function(object, nsim = 1, seed = NULL, newdata = NULL, ...) {
  refuse_dots("simulate", ...)
  nsim <- check_count(nsim, "nsim")
  env <- parent.frame()
  own <- is.null(newdata)
  rows <- if (own) own_rows(object, env) else new_rows(object, newdata, stats::na.pass, env)
  refuse_new_groups(object, rows, "simulate()")
  x <- with_ones(object, rows$x)
  exposure <- exposure_of_rows(object, rows, own)
  trials <- if (own) object$trials
  before <- generator_state()
  if (!is.null(seed)) {
    on.exit(assign(".Random.seed", before, envir = globalenv()))
    set.seed(seed)
  }
  state <- if (is.null(seed)) before else structure(seed, kind = as.list(RNGkind()))
  drawn <- posterior_draws(object, 1L, nsim)
  eta <- x %*% t(drawn$coefficients)
  means <- on_scale(object, eta, "response", exposure)
  out <- lapply(seq_len(nsim), function(i) {
    known <- which(!is.na(means[, i]))
    family_of(object)$draw(means[known, i], trials[known], object, drawn$hyper[i, , drop = FALSE])[match(seq_len(nrow(x)), known)]
  })
  names(out) <- paste0("sim_", seq_len(nsim))
  labels <- rownames(rows$x)
  if (is.null(labels)) labels <- seq_len(nrow(x))
  structure(out, class = "data.frame", row.names = labels, seed = state)
}
