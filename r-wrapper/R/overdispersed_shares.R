# Successes among trials that vary more than binomial counts: the probability of a row is a beta variable, of mean mu and shapes mu s
# and (1 - mu) s with s = 1 / alpha.

beta_binomial_response <- function(y, name) {
  out <- binary_response(y, name)
  if (is.null(out$trials)) {
    stop(
      "family = \"beta-binomial\" takes cbind(successes, failures): single yes/no responses say nothing of its dispersion",
      call. = FALSE
    )
  }
  out
}

# The family as of stats::family(); weights are numbers of trials, all of one row.
beta_binomial_object <- function(alpha) {
  out <- stats::binomial()
  out$family <- "betabinomial"
  out$dev.resids <- function(y, mu, wt) {
    value <- function(share) value_of_shares(stats::qlogis(share), wt * y, wt * (1 - y), 1 / alpha)
    2 * pmax(value(y) - value(mu), 0)
  }
  out$aic <- function(y, n, mu, wt, dev) {
    -2 * sum(value_of_shares(stats::qlogis(mu), wt * y, wt * (1 - y), 1 / alpha) + lchoose(wt, wt * y))
  }
  out$simulate <- NULL
  out
}

draw_shares <- function(mean, trials, alpha) {
  stats::rbinom(length(mean), trials, stats::rbeta(length(mean), mean / alpha, (1 - mean) / alpha))
}

# Log of a (a + 1) ... (a + count - 1), of the shape of the longer one.
log_rising <- function(a, count) {
  of_some <- pmax(count, 1)
  out <- lgamma(of_some) - lbeta(pmax(a, .Machine$double.xmin), of_some)
  out[rep(count == 0, length.out = length(out))] <- 0
  out
}

# Logs of probabilities of successes and failures at linear predictors, without the binomial coefficients.
value_of_shares <- function(eta, successes, failures, s) {
  log_rising(stats::plogis(eta) * s, successes) + log_rising(stats::plogis(-eta) * s, failures) - log_rising(s, successes + failures)
}

# Places at which the range of an integrand is looked for, the step of the trapezoidal rule in standard deviations of a normal density
# as curved, and its steps for each unit: as a function of the linear predictor the logistic one is analytic within pi of the real
# line.
coarse_of_shares <- 48L
step_of_shares <- 0.5
per_unit_of_shares <- 2

# Logs of the mean probabilities of successes over normal predictors (m x K), each column with its own alpha.
log_means_of_shares <- function(center, spread, successes, failures, alpha) {
  flat <- pmax(spread, .Machine$double.xmin)
  s <- matrix(1 / alpha, nrow(center), ncol(center), byrow = TRUE)
  log_integrand <- function(eta) value_of_shares(eta, successes, failures, s) - (eta - center)^2 / (2 * flat)
  # Slopes of the log likelihood are below a sum of s / (s + k) for the successes, and likewise for the failures.
  reach <- function(count) {
    pull <- flat * pmin(1 + s * log1p(count / s), count)
    pull + sqrt(pull^2 + 2 * left_of_integrand * flat)
  }
  range <- range_of_integrand(log_integrand, center - reach(failures), center + reach(successes))
  curvature <- 1 / flat + pmin(s / 2 + 1, (successes + failures) / 4)
  count <- ceiling(max((range$high - range$low) * (sqrt(curvature) / step_of_shares + per_unit_of_shares)))
  step <- (range$high - range$low) / count
  total <- matrix(-Inf, nrow(center), ncol(center))
  for (i in 0:count) total <- log_add(total, log_integrand(range$low + i * step))
  total + log(step) - 0.5 * log(2 * pi * flat)
}

# The part of ranges in which an integrand is not negligible, between neighbours of the places where it is not.
range_of_integrand <- function(log_integrand, low, high) {
  step <- (high - low) / coarse_of_shares
  values <- lapply(0:coarse_of_shares, function(i) log_integrand(low + i * step))
  least <- do.call(pmax, values) - left_of_integrand
  first <- low * 0 + coarse_of_shares
  last <- low * 0
  for (i in 0:coarse_of_shares) {
    above <- values[[i + 1L]] >= least
    first <- pmin(first, ifelse(above, i, coarse_of_shares))
    last <- pmax(last, ifelse(above, i, 0))
  }
  list(low = low + pmax(first - 1, 0) * step, high = low + pmin(last + 1, coarse_of_shares) * step)
}
