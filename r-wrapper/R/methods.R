#' Methods for fits
#'
#' Standard methods for fits of [bayes_ridge()] and [spike_slab()]. None of them requires Python or, unless stated
#' otherwise, the data: a fit can be saved with [saveRDS()] and used in another session.
#'
#' @details
#' * `coef()`, `fitted()`, `residuals()`: named vectors, or matrices with one column per target if there are several.
#'   With `na.action = na.exclude` fitted values and residuals are `NA` for omitted rows.
#' * `vcov()`: posterior covariance matrix of the coefficients. Several targets are independent of each other, and the
#'   matrix is block-diagonal; `target` selects one block.
#' * `confint()`: equal-tailed credible intervals.
#' * `sigma()`: square root of the noise variance. `nobs()`, `df.residual()`, `weights()`, `deviance()`, `family()`: as for
#'   [lm()]; the deviance is the (weighted) residual sum of squares. For binomial and Poisson fits the deviance and the residuals are those
#'   of [glm()] at the posterior means of the probabilities, or the medians of the expected counts, and `sigma()` is an error. Ordered
#'   categories have no residuals: `fitted()` is the matrix of their probabilities.
#' * `logLik()`: the log marginal likelihood for [bayes_ridge()] and the log evidence for [spike_slab()], with the
#'   coefficients integrated out. For `"fixed"` it is conditional on the penalty; for all other methods of the ridge the
#'   penalty is integrated out as well. For [spike_slab()] the hyperparameters are integrated out by `"exact"`, and are
#'   estimates for expectation propagation. Only differences between models with the same response and the same unpenalised
#'   columns are meaningful: they are log Bayes factors, see [compare_evidence()]. The number of free coefficients is
#'   not defined: the attribute `df` is `NA`.
#' * `AIC()`, `BIC()`, `anova()`, `step()`, `drop1()`, `add1()`, `lrtest()`, `waldtest()`, `coeftest()` and `coefci()` of
#'   'lmtest', `linearHypothesis()`, `Anova()`, `deltaMethod()` and `vif()` of 'car', `glht()` of 'multcomp' and
#'   `check_collinearity()` of 'performance' raise errors that name the function to use instead: their tests and criteria
#'   are not defined for a posterior.
#' * `formula()`, `terms()`, `model.frame()`, `model.matrix()`, `update()`: as for [lm()]. `model.frame()` and
#'   `model.matrix()` require the data: those kept by the fit (see `model` in [bayes_ridge()]) or those named in its
#'   call.
#'
#' @param object,x,formula A fit.
#' @param parm Names or positions of coefficients; by default all.
#' @param level Probability of the credible intervals.
#' @param target Name or position of a target, if there are several.
#' @param type `"response"`, or `"weighted"` for residuals multiplied by the square roots of the weights; for binomial and
#'   Poisson fits `"response"`, `"deviance"` or `"pearson"`.
#' @param use.fallback Not used; part of the generic function.
#' @param k Not used; the penalty of [stats::AIC()].
#' @param ... Not used: further arguments raise an error.
#' @return The value of the generic function; see the details.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(mpg ~ wt + hp, data = mtcars)
#' coef(fit)
#' vcov(fit)
#' confint(fit, "wt", level = 0.9)
#' logLik(update(fit, . ~ . + qsec))
#' @name pybayesridge-methods
NULL

coefficient_names <- function(object) {
  b <- object$coefficients
  if (is.matrix(b)) rownames(b) else names(b)
}

target_position <- function(object, target) {
  at <- if (is.character(target)) match(target, object$targets) else target
  if (length(at) != 1L || is.na(at) || !at %in% seq_along(object$targets)) {
    stop("'target' must be one of ", paste0("'", object$targets, "'", collapse = ", "), call. = FALSE)
  }
  as.integer(at)
}

#' @rdname pybayesridge-methods
#' @export
coef.pybayesridge_fit <- function(object, ...) {
  refuse_dots("coef", ...)
  object$coefficients
}

#' @rdname pybayesridge-methods
#' @export
vcov.pybayesridge_fit <- function(object, target = NULL, ...) {
  refuse_dots("vcov", ...)
  names <- coefficient_names(object)
  targets <- if (is.null(target)) seq_along(object$targets) else target_position(object, target)
  k <- length(names)
  if (length(targets) > 1L) {
    out <- matrix(0, k * length(targets), k * length(targets))
    for (i in targets) {
      at <- (i - 1L) * k + seq_len(k)
      out[at, at] <- posterior_covariance(object, i)
    }
    names <- paste(rep(object$targets, each = k), names, sep = ":")
  } else {
    out <- posterior_covariance(object, targets)
  }
  dimnames(out) <- list(names, names)
  out
}

#' @rdname pybayesridge-methods
#' @export
confint.pybayesridge_fit <- function(object, parm, level = 0.95, ...) {
  refuse_dots("confint", ...)
  check_level(level)
  each <- names <- coefficient_names(object)
  q <- length(object$targets)
  if (q > 1L) {
    names <- paste(rep(object$targets, each = length(each)), each, sep = ":")
  }
  at <- seq_along(names)
  if (!missing(parm)) {
    at <- if (is.character(parm)) match_names(parm, names) else parm
    absent <- parm[is.na(at) | !abs(at) %in% seq_along(names)]
    if (length(absent)) {
      stop(
        "there is no coefficient ", paste0("'", absent, "'", collapse = ", "), did_you_mean(as.character(absent[1L]), names),
        call. = FALSE
      )
    }
    at <- seq_along(names)[at]
  }
  out <- matrix(0, length(at), 2L, dimnames = list(names[at], percent(tails(level))))
  if (missing(parm)) {
    out[] <- aperm(as_array(coefficient_intervals(object, seq_len(q), tails(level))), c(1L, 3L, 2L))
    return(out)
  }
  for (i in seq_len(q)) {
    of_target <- (at - 1L) %/% length(each) + 1L == i
    out[of_target, ] <- coefficient_intervals(object, i, tails(level), (at[of_target] - 1L) %% length(each) + 1L)
  }
  out
}

percent <- function(probabilities) {
  paste(format(100 * probabilities, trim = TRUE, scientific = FALSE, digits = 3L), "%")
}

#' @rdname pybayesridge-methods
#' @export
fitted.pybayesridge_fit <- function(object, ...) {
  refuse_dots("fitted", ...)
  check_rows(object)
  stats::napredict(object$na.action, object$fitted.values)
}

#' @rdname pybayesridge-methods
#' @export
residuals.pybayesridge_fit <- function(object, type = c("response", "weighted"), ...) {
  refuse_dots("residuals", ...)
  type <- match.arg(type)
  check_rows(object)
  out <- object$residuals
  if (type == "weighted" && !is.null(object$weights)) {
    out <- out * sqrt(object$weights)
  }
  stats::naresid(object$na.action, out)
}

#' @rdname pybayesridge-methods
#' @export
sigma.pybayesridge_fit <- function(object, use.fallback = TRUE, ...) {
  refuse_dots("sigma", ...)
  sqrt(noise_variance(object))
}

noise_variance <- function(object) if (inherits(object, "spike_slab")) object$noise_var else object$sigma2

#' @rdname pybayesridge-methods
#' @export
family.pybayesridge_fit <- function(object, ...) {
  refuse_dots("family", ...)
  family_of(object)$object(object)
}

#' @rdname pybayesridge-methods
#' @export
nobs.pybayesridge_fit <- function(object, use.fallback = FALSE, ...) {
  refuse_dots("nobs", ...)
  object$nobs
}

#' @rdname pybayesridge-methods
#' @export
weights.pybayesridge_fit <- function(object, ...) {
  refuse_dots("weights", ...)
  if (!is.null(object$weights)) stats::naresid(object$na.action, object$weights)
}

#' @rdname pybayesridge-methods
#' @export
df.residual.pybayesridge_fit <- function(object, ...) {
  refuse_dots("df.residual", ...)
  object$df_resid
}

#' @rdname pybayesridge-methods
#' @export
deviance.pybayesridge_fit <- function(object, ...) {
  refuse_dots("deviance", ...)
  check_rows(object)
  w <- if (is.null(object$weights)) 1 else object$weights
  sums <- colSums(as.matrix(w * as.matrix(object$residuals)^2))
  by_target(sums, object$targets)
}

#' @rdname pybayesridge-methods
#' @export
logLik.pybayesridge_fit <- function(object, ...) {
  refuse_dots("logLik", ...)
  if (length(object$targets) > 1L) {
    stop("logLik() is for fits of one target; see the element log_marginal", call. = FALSE)
  }
  if (is.null(log_evidence(object))) {
    stop(why_no_evidence(object), call. = FALSE)
  }
  structure(log_evidence(object), df = NA_integer_, nobs = object$nobs, nall = object$nobs, class = "logLik")
}

log_evidence <- function(object) if (inherits(object, "spike_slab")) object$log_evidence else object$log_marginal

#' @rdname pybayesridge-methods
#' @export
formula.pybayesridge_fit <- function(x, ...) {
  refuse_dots("formula", ...)
  out <- x$band_terms$formula
  if (!is.null(out)) {
    environment(out) <- parent.frame()
    return(out)
  }
  out <- terms_in(x, parent.frame())
  attributes(out) <- list(class = "formula", .Environment = attr(out, ".Environment"))
  out
}

#' @rdname pybayesridge-methods
#' @export
terms.pybayesridge_fit <- function(x, ...) {
  refuse_dots("terms", ...)
  terms_in(x, parent.frame(), part = "fixed")
}

#' @rdname pybayesridge-methods
#' @export
model.frame.pybayesridge_fit <- function(formula, ...) {
  refuse_dots("model.frame", ...)
  env <- parent.frame()
  frame <- own_frame(formula, env)
  attr(frame, "terms") <- terms_in(formula, env)
  frame
}

#' @rdname pybayesridge-methods
#' @export
model.matrix.pybayesridge_fit <- function(object, ...) {
  refuse_dots("model.matrix", ...)
  own_rows(object, parent.frame())$x
}

#' @rdname pybayesridge-methods
#' @export
case.names.pybayesridge_fit <- function(object, ...) {
  refuse_dots("case.names", ...)
  row_names_of(object)
}

#' @rdname pybayesridge-methods
#' @export
variable.names.pybayesridge_fit <- function(object, ...) {
  refuse_dots("variable.names", ...)
  coefficient_names(object)
}

#' Draws from the posterior
#'
#' `posterior_sample()` draws coefficients from their posterior. `simulate()` draws new responses from the posterior
#' predictive distribution, which includes the uncertainty of the coefficients. Neither requires Python.
#'
#' @details For [bayes_ridge()] the draws are independent draws from the exact joint posterior described by `confint()`
#'   and `vcov()` (conditional on the penalty for methods that fix it). For other families than `gaussian()` they are from its approximation,
#'   and `simulate()` draws yes/no responses (a factor if the response was one), or numbers of events among the trials of
#'   each row (for `newdata` of one trial), ordered categories, responses with Student-t noise, or counts for the exposure of each row (for `newdata` that of an offset in the formula, or 1).
#'
#' For [spike_slab()] with `method = "exact"` the draws are independent draws from the joint posterior: a set of columns
#'   and hyperparameters among those kept by the fit, the noise variance, and the coefficients. The coefficients of
#'   columns outside the set are exactly 0.
#'
#' For [spike_slab()] by expectation propagation the draws are independent draws from one of two approximations of the
#'   joint posterior.
#'
#' * `kind = "spike_slab"`: each penalised coefficient is drawn from its marginal posterior: zero with probability `1 -
#'   inclusion_prob(object)` and otherwise from its slab. The share of zeros and the quantiles therefore agree with
#'   `inclusion_prob()` and `confint()`. The dependence between coefficients is that of the Gaussian approximation of
#'   expectation propagation (a Gaussian copula), and the columns of a group are included in the same draws.
#'   Probabilities of joint events, for example that two columns are both included, are approximate, and the variance of
#'   linear functions of strongly correlated coefficients is larger than under the posterior. The intercept and other
#'   unpenalised coefficients are drawn conditional on the penalised coefficients.
#' * `kind = "gaussian"`: draws from the Gaussian approximation. They agree with the means, `vcov()` and the intervals
#'   of `predict()`, but no draw is zero, and the quantiles differ from `confint()`. `simulate()` draws the linear
#'   predictor from this approximation.
#'
#' `sample(kind = "gibbs")` of the Python package draws from the exact joint posterior given the hyperparameters.
#'
#' @param object A fit.
#' @param n,nsim Number of draws.
#' @param target Name or position of a target, if there are several.
#' @param hyper Whether to add the corresponding draws of the hyperparameters that the fit has: `tau2` and `sigma2`, or a dispersion
#'   `alpha`, or the scale `sigma` and `df` of Student-t noise, or the cut points of ordered categories; for
#'   [spike_slab()] `sigma2` (its `noise_var`) and with `method = "exact"` also `slab_var` and `prior_inclusion`.
#' @param kind For [spike_slab()] by expectation propagation: `"spike_slab"` or `"gaussian"`; see the details.
#' @param seed `NULL`, or a number for [set.seed()], as in [stats::simulate()]; the random number generator of the
#'   session is then restored.
#' @param newdata Data for which responses are simulated; by default the rows of the fit, which requires the data (see
#'   `model` in [bayes_ridge()]).
#' @param ... Not used: further arguments raise an error.
#' @return `posterior_sample()`: a matrix with a row for each draw and a column for each coefficient. `simulate()`: a
#'   data frame with a column for each draw (a matrix if there are several targets), and the attribute `"seed"`.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(mpg ~ wt + hp, data = mtcars)
#' colMeans(posterior_sample(fit, 1000))
#' simulate(fit, 2, seed = 1, newdata = mtcars[1:3, ])
#' @export
posterior_sample <- function(object, n = 1000, target = 1, hyper = FALSE, kind = c("spike_slab", "gaussian"), ...) {
  refuse_dots("posterior_sample", ...)
  if (inherits(object, "pybayesridge_pooled")) {
    chosen <- if (!missing(kind)) list(kind = kind)
    return(do.call(pooled_draws, c(list(object, check_count(n, "n"), target = target, hyper = hyper), chosen)))
  }
  if (!inherits(object, "pybayesridge_fit")) {
    stop("posterior_sample() is for fits of bayes_ridge() and spike_slab(), not ", kind_of(object), call. = FALSE)
  }
  if (!missing(kind) && !inherits(object, "spike_slab")) {
    stop("'kind' is for fits of spike_slab(): the draws of others are from the joint posterior", call. = FALSE)
  }
  if (!missing(kind) && has_joint(object$posterior)) {
    stop("'kind' is for fits by expectation propagation: the draws of this fit are from the joint posterior", call. = FALSE)
  }
  draws <- posterior_draws(object, target_position(object, target), check_count(n, "n"), match.arg(kind))
  if (!check_flag(hyper, "hyper")) {
    return(draws$coefficients)
  }
  do.call(cbind, c(list(draws$coefficients, tau2 = draws$tau2, sigma2 = draws$sigma2), draws$hyper))
}

#' @rdname posterior_sample
#' @export
simulate.pybayesridge_fit <- function(object, nsim = 1, seed = NULL, newdata = NULL, ...) {
  refuse_dots("simulate", ...)
  nsim <- check_count(nsim, "nsim")
  env <- parent.frame()
  rows <- if (is.null(newdata)) own_rows(object, env) else new_rows(object, newdata, stats::na.pass, env)
  refuse_new_groups(object, rows, "simulate()")
  noise <- noise_factors(object, nrow(rows$x), NULL, is.null(newdata))
  before <- generator_state()
  if (!is.null(seed)) {
    on.exit(assign(".Random.seed", before, envir = globalenv()))
    set.seed(seed)
  }
  state <- if (is.null(seed)) before else structure(seed, kind = as.list(RNGkind()))
  x <- with_ones(object, rows$x)
  each <- lapply(seq_along(object$targets), function(target) {
    draws <- posterior_draws(object, target, nsim)
    mean <- x %*% t(draws$coefficients)
    mean + sqrt(outer(noise, draws$sigma2)) * stats::rnorm(length(mean))
  })
  out <- lapply(seq_len(nsim), function(i) {
    if (length(each) == 1L) {
      each[[1L]][, i]
    } else {
      matrix(unlist(lapply(each, function(m) m[, i])), ncol = length(each), dimnames = list(NULL, object$targets))
    }
  })
  names(out) <- paste0("sim_", seq_len(nsim))
  labels <- rownames(rows$x)
  if (is.null(labels)) labels <- seq_len(nrow(x))
  structure(out, class = "data.frame", row.names = labels, seed = state)
}

# The state of the session's generator, which has none before its first number.
generator_state <- function() {
  if (!exists(".Random.seed", envir = globalenv(), inherits = FALSE)) {
    stats::runif(1L)
  }
  get(".Random.seed", envir = globalenv())
}
