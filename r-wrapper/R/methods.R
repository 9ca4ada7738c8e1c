#' Methods for fits
#'
#' Fits of [bayes_ridge()] and [spike_slab()] answer R's usual questions. None of these methods needs Python or, unless
#' said, the data: a fit can be saved with [saveRDS()] and read in another session.
#'
#' @details
#' * `coef()`, `fitted()`, `residuals()`: named vectors, or matrices with a column for each of several targets. With
#'   `na.action = na.exclude` the latter two have `NA` in the rows left out.
#' * `vcov()`: posterior covariance of the coefficients. With several targets, which are independent of each other, the
#'   matrix has a block for each; `target` picks one.
#' * `confint()`: equal-tailed credible intervals.
#' * `sigma()`: square root of the noise variance. `nobs()`, `df.residual()`, `weights()`, `deviance()` as for [lm()];
#'   the deviance is the (weighted) residual sum of squares.
#' * `logLik()`: the log marginal likelihood for [bayes_ridge()] and the log evidence for [spike_slab()]: the
#'   coefficients are integrated out, and `df` counts only hyperparameters that were chosen by maximising it. For
#'   `"fixed"` it is that given the penalty; for all other methods of the ridge the penalty is integrated out as well,
#'   whatever the method. Only differences between models of the same response and unpenalised columns mean something.
#' * `formula()`, `terms()`, `model.frame()`, `model.matrix()`, `update()`: as for [lm()]. The two in the middle need the
#'   data: those kept by `model = TRUE`, or those that the call names.
#'
#' @param object,x,formula A fit.
#' @param parm Names or positions of coefficients; by default all.
#' @param level Probability of the intervals.
#' @param target Name or position of one of several targets.
#' @param type `"response"`, or `"weighted"` for residuals multiplied by the square roots of the weights.
#' @param ... Not used.
#' @return What the generic promises; see the details.
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
coef.pybayesridge_fit <- function(object, ...) object$coefficients

#' @rdname pybayesridge-methods
#' @export
vcov.pybayesridge_fit <- function(object, target = NULL, ...) {
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

posterior_covariance <- function(object, target) UseMethod("posterior_covariance")

#' @exportS3Method
posterior_covariance.bayes_ridge <- function(object, target) {
  coefficient_covariance(object$posterior, target, length(coefficient_names(object)))
}

#' @rdname pybayesridge-methods
#' @export
confint.pybayesridge_fit <- function(object, parm, level = 0.95, ...) {
  check_level(level)
  names <- coefficient_names(object)
  limits <- lapply(seq_along(object$targets), function(i) coefficient_intervals(object, i, tails(level)))
  out <- do.call(rbind, limits)
  if (length(object$targets) > 1L) {
    names <- paste(rep(object$targets, each = length(names)), names, sep = ":")
  }
  dimnames(out) <- list(names, percent(tails(level)))
  if (missing(parm)) {
    return(out)
  }
  absent <- if (is.character(parm)) setdiff(parm, names) else parm[!abs(parm) %in% seq_along(names)]
  if (length(absent)) {
    stop("there is no coefficient ", paste0("'", absent, "'", collapse = ", "), call. = FALSE)
  }
  out[parm, , drop = FALSE]
}

percent <- function(probabilities) {
  paste(format(100 * probabilities, trim = TRUE, scientific = FALSE, digits = 3L), "%")
}

#' @rdname pybayesridge-methods
#' @export
fitted.pybayesridge_fit <- function(object, ...) {
  stats::napredict(object$na.action, object$fitted.values)
}

#' @rdname pybayesridge-methods
#' @export
residuals.pybayesridge_fit <- function(object, type = c("response", "weighted"), ...) {
  type <- match.arg(type)
  out <- object$residuals
  if (type == "weighted" && !is.null(object$weights)) {
    out <- out * sqrt(object$weights)
  }
  stats::naresid(object$na.action, out)
}

#' @rdname pybayesridge-methods
#' @export
sigma.pybayesridge_fit <- function(object, ...) sqrt(noise_variance(object))

noise_variance <- function(object) if (inherits(object, "spike_slab")) object$noise_var else object$sigma2

#' @rdname pybayesridge-methods
#' @export
nobs.pybayesridge_fit <- function(object, ...) object$nobs

#' @rdname pybayesridge-methods
#' @export
weights.pybayesridge_fit <- function(object, ...) {
  if (!is.null(object$weights)) stats::naresid(object$na.action, object$weights)
}

#' @rdname pybayesridge-methods
#' @export
df.residual.pybayesridge_fit <- function(object, ...) object$df_resid

#' @rdname pybayesridge-methods
#' @export
deviance.pybayesridge_fit <- function(object, ...) {
  w <- if (is.null(object$weights)) 1 else object$weights
  sums <- colSums(as.matrix(w * as.matrix(object$residuals)^2))
  by_target(sums, object$targets)
}

#' @rdname pybayesridge-methods
#' @export
logLik.pybayesridge_fit <- function(object, ...) {
  if (length(object$targets) > 1L) {
    stop("logLik() is for fits of one target; see the element log_marginal", call. = FALSE)
  }
  structure(log_evidence(object), df = learned(object), nobs = object$nobs, nall = object$nobs, class = "logLik")
}

log_evidence <- function(object) if (inherits(object, "spike_slab")) object$log_evidence else object$log_marginal

learned <- function(object) if (is.null(object$learned)) 0L else length(object$learned)

#' @rdname pybayesridge-methods
#' @export
formula.pybayesridge_fit <- function(x, ...) {
  out <- terms_in(x, parent.frame())
  attributes(out) <- list(class = "formula", .Environment = parent.frame())
  out
}

#' @rdname pybayesridge-methods
#' @export
terms.pybayesridge_fit <- function(x, ...) terms_in(x, parent.frame())

#' @rdname pybayesridge-methods
#' @export
model.frame.pybayesridge_fit <- function(formula, ...) {
  env <- parent.frame()
  frame <- own_frame(formula, env)
  attr(frame, "terms") <- terms_in(formula, env)
  frame
}

#' @rdname pybayesridge-methods
#' @export
model.matrix.pybayesridge_fit <- function(object, ...) own_rows(object, parent.frame())$x

#' @rdname pybayesridge-methods
#' @export
case.names.pybayesridge_fit <- function(object, ...) {
  fitted <- object$fitted.values
  if (is.matrix(fitted)) rownames(fitted) else names(fitted)
}

#' @rdname pybayesridge-methods
#' @export
variable.names.pybayesridge_fit <- function(object, ...) coefficient_names(object)

#' Draws from the posterior
#'
#' `posterior_sample()` draws coefficients from their joint posterior; `simulate()` draws new responses from the
#' posterior predictive distribution, the uncertainty of the coefficients included. Neither needs Python.
#'
#' @param object A fit.
#' @param n,nsim How many draws.
#' @param target Name or position of one of several targets.
#' @param hyper Whether to add the draws of `tau2` and `sigma2` that go with the coefficients, where they have some.
#' @param seed As in [stats::simulate()].
#' @param newdata Where to simulate; by default the rows of the fit, which needs the data (see [predict()]).
#' @param ... Not used.
#' @return `posterior_sample()`: a matrix with a row for each draw and a column for each coefficient. `simulate()`: a data
#'   frame with a column for each draw (a matrix, where there are several targets), and the attribute `"seed"`.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(mpg ~ wt + hp, data = mtcars, method = "exact")
#' colMeans(posterior_sample(fit, 1000))
#' simulate(fit, 2, seed = 1, newdata = mtcars[1:3, ])
#' @export
posterior_sample <- function(object, n = 1000, target = 1, hyper = FALSE) {
  if (!is.numeric(n) || length(n) != 1L || is.na(n) || n < 1) {
    stop("'n' must be a positive number", call. = FALSE)
  }
  draws <- joint_draws(object, target_position(object, target), as.integer(n))
  if (!hyper) {
    return(draws$coefficients)
  }
  cbind(draws$coefficients, tau2 = draws$tau2, sigma2 = draws$sigma2)
}

joint_draws <- function(object, target, size) UseMethod("joint_draws")

#' @exportS3Method
joint_draws.bayes_ridge <- function(object, target, size) posterior_draws(object, target, size)

#' @rdname posterior_sample
#' @export
simulate.pybayesridge_fit <- function(object, nsim = 1, seed = NULL, newdata = NULL, ...) {
  env <- parent.frame()
  rows <- if (is.null(newdata)) own_rows(object, env) else new_rows(object, newdata, stats::na.pass, env)
  noise <- noise_factors(object, nrow(rows$x), NULL, is.null(newdata))
  state <- seed_state(seed)
  x <- if (object$intercept_added) cbind(1, rows$x) else rows$x
  each <- lapply(seq_along(object$targets), function(target) {
    draws <- joint_draws(object, target, as.integer(nsim))
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

# The state of the generator that simulate() promises to report, after setting the seed.
seed_state <- function(seed) {
  if (!exists(".Random.seed", envir = globalenv(), inherits = FALSE)) {
    stats::runif(1L)
  }
  if (is.null(seed)) {
    return(get(".Random.seed", envir = globalenv()))
  }
  set.seed(seed)
  structure(seed, kind = as.list(RNGkind()))
}

#' Posterior of the hyperparameters of a ridge
#'
#' Posterior mean, median and interval of the penalty `lambda`, of `tau2 = 1/lambda`, of the noise variance `sigma2` and
#' of the effective degrees of freedom.
#'
#' @param object A fit of [bayes_ridge()].
#' @param level Probability of the interval.
#' @return A data frame with a row for each (of each target, where there are several) and the columns `mean`, `median`,
#'   `lower` and `upper`. A mean is infinite where the posterior has none: with the half-Cauchy prior that is always so for
#'   `lambda`. Methods that fix the penalty have a single point for it.
#' @examplesIf pybayesridge::pybayesridge_available()
#' hyperparameters(bayes_ridge(mpg ~ ., data = mtcars, method = "exact"))
#' @export
hyperparameters <- function(object, level = 0.95) {
  if (!inherits(object, "bayes_ridge")) {
    stop("hyperparameters() is for fits of bayes_ridge()", call. = FALSE)
  }
  check_level(level)
  post <- object$posterior
  others <- length(post$z_at) - has_constant(object)
  tables <- lapply(seq_along(object$targets), function(i) {
    at <- c(0.5, tails(level))
    points <- log_t2_quantiles(post, i, at)
    df <- rowSums(shrinkage(post$s, points)) + others
    sigma2 <- sigma2_quantiles(post, i, at) * post$y_norm[i]^2
    quantiles <- rbind(exp(post$log_unit - points)[c(1L, 3L, 2L)], exp(points - post$log_unit), sigma2, df)
    table <- data.frame(object$hyper_means[, i], quantiles)
    names(table) <- c("mean", "median", "lower", "upper")
    what <- c("lambda", "tau2", "sigma2", "df_model")
    if (length(object$targets) == 1L) {
      rownames(table) <- what
      return(table)
    }
    cbind(response = object$targets[i], parameter = what, table)
  })
  do.call(rbind, tables)
}

has_constant <- function(object) as.integer(!is.null(object$posterior$ones))
