# Counts that vary more than Poisson counts: negative binomial ones, of variance mean + alpha mean^2. alpha is 1 / theta of 'MASS'.

# Whether a family is one of MASS::negative.binomial() or glm.nb(), whose name has theta.
is_negative_binomial <- function(family) grepl("^Negative Binomial", family$family) && identical(family$link, "log")

# alpha of such a family.
given_dispersion <- function(family) {
  theta <- get0(".Theta", environment(family$variance), mode = "numeric")
  if (is.null(theta) || length(theta) != 1L || !is.finite(theta) || theta <= 0) {
    stop("'family' has no theta: write MASS::negative.binomial(theta), or \"negative-binomial\" to estimate it", call. = FALSE)
  }
  1 / theta
}

# alpha as it is given: by the family object, or as a number.
dispersion_of <- function(family, dispersion) {
  if (!is.null(family$dispersion) && !is.null(dispersion)) {
    stop("give the dispersion once: by theta of the family, or as 'dispersion', which is 1 / theta", call. = FALSE)
  }
  family$dispersion %||% check_number(dispersion, "dispersion")
}

# The family as of stats::family().
negative_binomial_object <- function(alpha) {
  out <- stats::poisson()
  out$family <- sprintf("Negative Binomial(%s)", format(1 / alpha, digits = 4L))
  out$variance <- function(mu) mu + alpha * mu^2
  out$dev.resids <- function(y, mu, wt) {
    of_some <- ifelse(y > 0, y * log(ifelse(y > 0, y, 1) / mu), 0)
    2 * wt * (of_some - (y + 1 / alpha) * log1p(alpha * (y - mu) / (1 + alpha * mu)))
  }
  out$aic <- function(y, n, mu, wt, dev) -2 * sum(wt * stats::dnbinom(y, size = 1 / alpha, mu = mu, log = TRUE))
  out$simulate <- NULL
  out
}

# Counts of some means: Poisson counts of gamma rates, which may be larger than stats::rnbinom() takes.
draw_overdispersed <- function(mean, alpha) {
  rate <- mean * stats::rgamma(length(mean), 1 / alpha) * alpha
  stats::rpois(length(mean), pmin(rate, most_drawn))
}

# The variance of the latent noise, which the fit has at its own dispersion.
latent_of_overdispersed <- function(fit, alpha) log1p(expm1(fit$latent_variance) - fit$dispersion + alpha)

# alpha at the components of a fit.
alpha_of_nodes <- function(fit) {
  post <- fit$posterior
  if (is.null(post[["log_shape"]])) rep(fit$dispersion, nrow(post$weight)) else exp(post$log_shape)
}

# Logs of the mean probabilities of counts over normal predictors (m x K), each column with its own alpha: as functions of the
# linear predictor they are those of `y` events among y + 1 / alpha trials.
log_means_of_overdispersed <- function(center, spread, y, exposure, alpha) {
  flat <- pmax(spread, .Machine$double.xmin)
  size <- matrix(1 / alpha, nrow(center), ncol(center), byrow = TRUE)
  likelihood <- likelihood_of_overdispersed(y, exposure, size)
  top <- top_of_integrand(center, flat, likelihood)
  reach <- sqrt(2 * left_of_integrand * flat)
  by_equal_steps(likelihood, center, flat, top, reach, reach, pmax(likelihood$slopes(top)$bend, y))
}

likelihood_of_overdispersed <- function(y, exposure, size) {
  some <- y > 0
  ways <- size * 0
  ways[some, ] <- -lbeta(size[some, , drop = FALSE], y[some]) - log(y[some])
  odds <- function(eta) eta + log(exposure) - log(size)
  list(
    value = function(eta) {
      at <- odds(eta)
      ways + y * stats::plogis(at, log.p = TRUE) + size * stats::plogis(-at, log.p = TRUE)
    },
    slopes = function(eta) {
      at <- odds(eta)
      list(slope = y * stats::plogis(-at) - size * stats::plogis(at), bend = (y + size) * stats::dlogis(at))
    }
  )
}
