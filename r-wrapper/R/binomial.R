# Yes/no responses: what bayes_ridge() takes and keeps for them. Their posterior is in binomial_posterior.R; selections are in
# binomial_sets.R.

# "gaussian", or the link of a binomial family; `family` is as in glm().
link_of <- function(family) {
  if (is.function(family)) family <- family()
  if (is.character(family) && length(family) == 1L && family %in% c("gaussian", "binomial")) {
    return(if (family == "gaussian") family else "logit")
  }
  if (!inherits(family, "family")) {
    stop("'family' must be gaussian() or binomial(), or one of their names", call. = FALSE)
  }
  if (family$family == "gaussian" && family$link == "identity") {
    return("gaussian")
  }
  if (family$family != "binomial" || !family$link %in% c("logit", "probit")) {
    stop(
      "'family' must be gaussian(), binomial() or binomial(\"probit\"), not ", family$family, "(\"", family$link, "\")",
      call. = FALSE
    )
  }
  family$link
}

# Arguments in `call` that are of the other family.
refuse_other_family <- function(call, binomial, gaussian_only = c("sigma2", "dof", "accelerate"),
                                binomial_only = c("solver", "flat_in")) {
  others <- if (binomial) gaussian_only else binomial_only
  given <- intersect(others, names(call))
  if (length(given)) {
    stop(
      "'", given[1L], "' is for family = ", if (binomial) "gaussian()" else "binomial()", ": leave it out",
      call. = FALSE
    )
  }
}

methods_of_family <- list(
  gaussian = c("exact", "em", "loocv", "gcv", "fixed", "reml"),
  # Python says why there is no "exact" and no "gcv".
  binomial = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv")
)

two_values <- "a binomial response has two values, or two columns cbind(successes, failures), not "

# A yes/no response as `y` (n x 1: codes, or numbers of successes), `levels` of a factor, `trials` of counts, and the
# name of the `event`.
binary_response <- function(y, name) {
  if (is.data.frame(y)) {
    y <- if (length(y) == 1L) y[[1L]] else as.matrix(y)
  }
  if (length(dim(y)) == 2L && ncol(y) > 1L) {
    return(count_response(y, name))
  }
  labels <- if (is.null(dim(y))) names(y) else rownames(y)
  if (is.logical(y) || is.character(y) || is.factor(y)) {
    y <- droplevels(as.factor(y))
    check_two(levels(y))
    out <- list(y = as.integer(y) - 1, levels = as.list(levels(y)), event = levels(y)[2L])
  } else if (is.numeric(y) && !inherits(y, c("Surv", "Date", "POSIXct"))) {
    check_codes(as.vector(y))
    out <- list(y = as.double(y))
  } else {
    stop(two_values, class(y)[1L], call. = FALSE)
  }
  out$y <- matrix(out$y, ncol = 1L, dimnames = list(labels, name))
  check_finite(out$y, "response")
  out
}

check_two <- function(levels) {
  if (length(levels) == 1L) {
    stop("all responses are '", levels, "': a binomial model needs both outcomes", call. = FALSE)
  }
  if (length(levels) > 2L) {
    stop(
      "the response has ", length(levels), " levels (", paste0("'", utils::head(levels, 5L), "'", collapse = ", "),
      "): a binomial response has two. Compare one with the others by I(response == \"", levels[1L], "\")",
      call. = FALSE
    )
  }
}

check_codes <- function(y) {
  y <- y[!is.na(y)]
  if (all(y %in% c(0, 1))) {
    return(invisible())
  }
  stop(
    if (all(y >= 0 & y <= 1)) {
      "the response has fractions: give cbind(successes, failures)"
    } else {
      "the response has numbers other than 0 and 1: make it a factor with two levels, or give cbind(successes, failures)"
    },
    call. = FALSE
  )
}

count_response <- function(y, name) {
  if (ncol(y) != 2L || !is.numeric(y)) {
    stop(two_values, ncol(y), " columns", call. = FALSE)
  }
  y <- unclass(y)
  check_finite(y, "response")
  bad <- which(rowSums(y < 0 | y != round(y)) > 0 | rowSums(y) == 0)
  if (length(bad)) {
    rows <- if (is.null(rownames(y))) bad else rownames(y)[bad]
    stop(
      "cbind(successes, failures) must have whole numbers that are not negative, and at least one trial in each row: not so ",
      "in row(s) ", paste0("'", utils::head(rows, 5L), "'", collapse = ", "),
      call. = FALSE
    )
  }
  event <- colnames(y)[1L]
  list(
    y = matrix(as.double(y[, 1L]), ncol = 1L, dimnames = list(rownames(y), name)),
    trials = as.double(rowSums(y)),
    event = if (length(event) && nzchar(event)) event
  )
}

# The share of events of a response in new data, which may have one of the two levels only.
shares_of_events <- function(values, object) {
  if (!is.null(object$levels)) {
    return(match(as.character(values), unlist(object$levels)) - 1)
  }
  if (length(dim(values)) == 2L) as.double(values[, 1L] / rowSums(values)) else as.double(values)
}

# The values that only these fits have.
binomial_values <- function(value, one) {
  scores <- c("n_trials", "n_events", "loo_log_score", "loo_brier", "loo_auc")
  c(
    list(
      link = value$link,
      event = value$event,
      parameterization = value$parameterization,
      lambda_ = one(value$lambda_),
      tau2 = one(value$tau2),
      log_marginal = one(value$log_marginal),
      solver = value$solver,
      trials = as.vector(value$trials),
      loo_probabilities = as.vector(value$loo_probabilities),
      loo_log_density = as.vector(value$loo_log_density),
      grid = plain_columns(value[["grid"]]),
      grid_scores = plain_columns(value$grid_scores),
      quadrature_error = one(value$quadrature_error),
      penalty_means = as.vector(value$penalty_means)
    ),
    value[scores]
  )
}

#' Odds ratios
#'
#' Exponentials of the coefficients of a binomial fit with credible intervals, on the logit link. Python is not required.
#'
#' @param object A fit of [bayes_ridge()] or [spike_slab()] with `family = binomial()`, or a pooled fit of such ([fit_imputed()]).
#' @param level Probability of the credible intervals.
#' @param parm Names or positions of coefficients; by default all.
#' @param ... Not used: further arguments raise an error.
#' @return A data frame with a row for each coefficient: `odds_ratio` (the exponential of `coef()`), `lower` and
#'   `upper` (those of the interval), and `prob_above_1`, the posterior probability that the odds rise with the column; for
#'   [spike_slab()] also `prob_equal_1`, the posterior probability that they do not depend on it, and if sets of columns were
#'   sampled `mcse`, the Monte Carlo standard error of the odds ratio. The row of the intercept contains the odds where every
#'   column is 0.
#' @examplesIf pybayesridge::pybayesridge_available()
#' odds_ratios(bayes_ridge(am ~ wt + hp, data = mtcars, family = binomial()))
#' @export
odds_ratios <- function(object, level = 0.95, parm = NULL, ...) {
  refuse_dots("odds_ratios", ...)
  if (inherits(object, "pybayesridge_pooled") && !is.null(object$fits[[1L]]$link)) {
    return(pooled_odds_ratios(object, level, parm))
  }
  if (is.null(object$link)) {
    stop("odds_ratios() is for fits with family = binomial()", call. = FALSE)
  }
  if (object$link != "logit") {
    stop("odds_ratios() is for the logit link: coefficients of the ", object$link, " link are not log odds ratios", call. = FALSE)
  }
  limits <- if (is.null(parm)) {
    stats::confint(object, level = level)
  } else {
    stats::confint(object, parm, level = level)
  }
  at <- match(rownames(limits), coefficient_names(object))
  above <- coefficients_above(object)
  out <- data.frame(
    odds_ratio = unname(exp(object$coefficients[at])),
    lower = unname(exp(limits[, 1L])),
    upper = unname(exp(limits[, 2L])),
    prob_above_1 = above[at],
    row.names = rownames(limits)
  )
  if (inherits(object, "spike_slab")) {
    out$prob_equal_1 <- ifelse(is.nan(above), NaN, 1 - unname(object$inclusion_prob))[at]
  }
  errors <- object$monte_carlo
  if (!is.null(errors) && !object$enumerated) {
    errors <- errors[errors$quantity == "odds_ratio", ]
    own <- errors$mcse[match(rownames(out), errors$name)]
    out$mcse <- ifelse(is.na(own), NaN, own)
  }
  posterior_table(out)
}

#' @rdname predict.pybayesridge_fit
#' @export
predict.bayes_ridge_binomial <- function(object, newdata, type = c("response", "link"), interval = c("none", "credible"),
                                         level = 0.95, se.fit = FALSE, na.action = stats::na.pass, ...) {
  refuse_dots("predict", ...)
  type <- match.arg(type)
  interval <- check_binomial_interval(interval)
  check_level(level)
  own <- missing(newdata) || is.null(newdata)
  if (own && type == "response" && interval == "none" && !se.fit) {
    return(stats::fitted(object))
  }
  env <- parent.frame()
  rows <- if (own) own_rows(object, env) else new_rows(object, newdata, na.action, env)
  complete <- !is.na(rowSums(rows$x))
  found <- binomial_rows(object, rows$x[complete, , drop = FALSE], type, if (interval != "none") tails(level), se.fit)
  parts <- lapply(found, padded, rows, complete)
  out <- prediction_shape(list(parts), interval, object$targets)
  if (se.fit) list(fit = out, se.fit = parts$se.fit, residual.scale = 1) else out
}

check_binomial_interval <- function(interval) {
  if (identical(interval, c("none", "credible"))) {
    return("none")
  }
  interval <- check_interval(interval)
  if (interval == "prediction") {
    stop(
      "a new response is one of two values and has no interval: interval = \"credible\" is that of its probability",
      call. = FALSE
    )
  }
  interval
}

#' @rdname pybayesridge-methods
#' @export
residuals.bayes_ridge_binomial <- function(object, type = c("response", "deviance", "pearson"), ...) {
  refuse_dots("residuals", ...)
  type <- match.arg(type)
  check_rows(object)
  share <- object$fitted.values
  y <- share + object$residuals
  trials <- object$trials * (object$weights %||% 1)
  out <- switch(type,
    response = object$residuals,
    deviance = sign(object$residuals) * sqrt(2 * trials * relative_entropy(y, share)),
    pearson = object$residuals * sqrt(trials / (share * (1 - share)))
  )
  stats::naresid(object$na.action, out)
}

# y log(y / p) + (1 - y) log((1 - y) / (1 - p)).
relative_entropy <- function(y, p) {
  each <- function(a, b) ifelse(a > 0, a * log(a / b), 0)
  pmax(each(y, p) + each(1 - y, 1 - p), 0)
}

#' @rdname pybayesridge-methods
#' @export
deviance.bayes_ridge_binomial <- function(object, ...) {
  refuse_dots("deviance", ...)
  sum(stats::residuals(object, "deviance")^2, na.rm = TRUE)
}

#' @rdname pybayesridge-methods
#' @export
sigma.bayes_ridge_binomial <- function(object, use.fallback = TRUE, ...) {
  refuse_dots("sigma", ...)
  stop("sigma() is not defined for a binomial fit: its responses have no noise variance", call. = FALSE)
}

#' @rdname posterior_sample
#' @export
simulate.bayes_ridge_binomial <- function(object, nsim = 1, seed = NULL, newdata = NULL, ...) {
  refuse_dots("simulate", ...)
  nsim <- check_count(nsim, "nsim")
  env <- parent.frame()
  rows <- if (is.null(newdata)) own_rows(object, env) else new_rows(object, newdata, stats::na.pass, env)
  x <- with_ones(object, rows$x)
  trials <- if (is.null(newdata)) object$trials else rep(1, nrow(x))
  before <- generator_state()
  if (!is.null(seed)) {
    on.exit(assign(".Random.seed", before, envir = globalenv()))
    set.seed(seed)
  }
  state <- if (is.null(seed)) before else structure(seed, kind = as.list(RNGkind()))
  share <- link_probability(x %*% t(posterior_draws(object, 1L, nsim)$coefficients), object$link)
  out <- lapply(seq_len(nsim), function(i) {
    drawn <- rep(NA_real_, nrow(x))
    known <- !is.na(share[, i])
    drawn[known] <- stats::rbinom(sum(known), trials[known], share[known, i])
    if (is.null(object$levels)) drawn else factor(drawn, 0:1, unlist(object$levels))
  })
  names(out) <- paste0("sim_", seq_len(nsim))
  labels <- rownames(rows$x)
  if (is.null(labels)) labels <- seq_len(nrow(x))
  structure(out, class = "data.frame", row.names = labels, seed = state)
}
