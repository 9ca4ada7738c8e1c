#' Share of variance explained
#'
#' Posterior mean, median and credible interval of the share of variance that the penalised columns explain in the
#' sample, \eqn{|g|^2 / (|g|^2 + n \sigma^2)}{|g|^2 / (|g|^2 + n sigma2)}, where \eqn{g} is the contribution of the
#' penalised columns to the linear predictor (with the unpenalised columns projected out) and \eqn{n} the number of
#' rows. With weights the weighted version is used. Unlike R-squared it has a posterior distribution, which accounts for
#' uncertainty in the coefficients and the noise variance and, with `method = "exact"`, in the penalty. Without signal
#' the interval extends to 0. With the other methods it is conditional on the quantities that they fix.
#'
#' For `family = binomial()` it is the share of the latent variance: the noise variance is that of the link, \eqn{\pi^2/3}
#' for the logit and 1 for the probit link, and a priori the share of a ridge is Beta(1/2, 1/2). A row counts as often as it has
#' trials, times its weight. For `family = poisson()` the noise variance is \eqn{\log(1 + 1/m)}, where m is the mean count, of negative
#' binomial counts \eqn{\log(1 + 1/m + \alpha)}.
#'
#' For [spike_slab()] the joint posterior of columns and noise variance is required, and therefore a fit by `method = "exact"`;
#' so are the rows, those kept by the fit (see `model` in [bayes_ridge()]) or those named in its call.
#'
#' @param object A fit of [bayes_ridge()], or of [spike_slab()] with `method = "exact"`.
#' @param level Probability of the (equal-tailed) interval.
#' @param seed For [set.seed()]; the random number generator of the session is restored. The posterior is computed from
#'   4,000 to 20,000 draws: the Monte Carlo standard error of the probability at a 2.5 % quantile is at most 0.0025.
#' @param ... Not used: further arguments raise an error.
#' @return A data frame with a row for each target and the columns `mean`, `median`, `lower` and `upper`; `NaN` if the
#'   unpenalised columns fit the response exactly.
#' @references Gelman, Goodrich, Gabry and Vehtari (2019). R-squared for Bayesian regression models. The American
#'   Statistician 73, 307-309.
#' @examplesIf pybayesridge::pybayesridge_available()
#' explained_variance(bayes_ridge(mpg ~ ., data = mtcars))
#' @export
explained_variance <- function(object, level = 0.95, seed = 0, ...) {
  refuse_dots("explained_variance", ...)
  refuse_pooled(object, "explained_variance")
  if (!inherits(object, "pybayesridge_fit")) {
    stop("explained_variance() is for fits of bayes_ridge(), and of spike_slab() with method = \"exact\"", call. = FALSE)
  }
  check_level(level)
  env <- parent.frame()
  shares <- with_seed(seed, lapply(seq_along(object$targets), function(i) {
    if (inherits(object, "spike_slab")) {
      explained_in_rows(object, 4000L, env, penalized = TRUE)
    } else if (inherits(object, "bayes_ridge_bands")) {
      share_of_bands(object, i)
    } else {
      explained_share(object, i)
    }
  }))
  rows <- lapply(shares, function(share) {
    c(mean(share), stats::quantile(share, c(0.5, tails(level)), names = FALSE, na.rm = anyNA(share)))
  })
  out <- as.data.frame(do.call(rbind, rows))
  dimnames(out) <- list(object$targets, c("mean", "median", "lower", "upper"))
  out
}

# Draws of the share of one target, as in ridge/explained.py.
explained_share <- function(object, target) {
  post <- object$posterior
  r <- length(post$s)
  size <- max(4000L, min(20000L, 2^23 %/% max(r, 1L)))
  if (layout_of(post) != "spectrum") {
    return(latent_share(object, size))
  }
  drawn <- draw_log_t2(post, target, size)
  sigma2 <- drawn$noise * if (is.finite(post$df)) post$df / stats::rchisq(size, post$df) else 1
  step <- max(1L, 2^18 %/% max(r, 1L))
  fit <- unlist(lapply(seq(1L, size, by = step), function(start) {
    at <- start:min(start + step - 1L, size)
    e <- shrinkage(post$s, drawn$log_t2[at])
    g <- e * rep(post$z[, target], each = nrow(e)) + sqrt(sigma2[at] * e) * matrix(stats::rnorm(length(e)), nrow(e))
    rowSums(g^2)
  }))
  fit / (fit + object$nobs * sigma2)
}

# Draws of the share of variance that the linear predictor has in the rows of the fit, beyond the constant or, if `penalized`,
# beyond all unpenalised columns.
explained_in_rows <- function(object, size, env, penalized = FALSE) {
  # Expectation propagation leaves out most of the uncertainty of the noise variance.
  if (inherits(object, "spike_slab")) posterior_of_sets(object, "the share of variance explained", "explained_variance")
  x <- own_rows(object, env)$x
  x <- with_ones(object, x)
  draws <- posterior_draws(object, 1L, size)
  weight <- (object$weights %||% rep(1, nrow(x))) * (object$trials %||% 1)
  x <- sqrt(weight / sum(weight)) * x
  flat <- if (penalized) x[, object$posterior$z_at, drop = FALSE] else if (object$constant || has_cuts(object)) sqrt(weight / sum(weight))
  if (length(flat)) x <- qr.resid(qr(flat), x)
  # Without rounding errors, so that a draw of no column explains nothing.
  if (penalized) x[, object$posterior$z_at] <- 0
  share <- lapply(chunks(size, elements / nrow(x)), function(at) colSums((x %*% t(draws$coefficients[at, , drop = FALSE]))^2))
  explained <- unlist(share)
  explained / (explained + draws$sigma2 %||% family_of(object)$latent(object, draws$hyper[[family_of(object)$shape[["name"]] %||% "none"]]))
}
