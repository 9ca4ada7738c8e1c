# Student-t noise: its scale and degrees of freedom are averaged over with the penalty.

# Numbers, of one response.
one_response <- function(y, name, family) {
  y <- as_response(y, name)
  if (ncol(y) > 1L) {
    stop("family = ", family, " takes one response, not ", ncol(y), call. = FALSE)
  }
  list(y = y)
}

# The family as of stats::family(), of noise of some scale.
student_object <- function(scale, df) {
  out <- stats::gaussian()
  out$family <- sprintf("Student-t(%s)", format(df, digits = 4L))
  out$variance <- function(mu) rep(scale^2, length(mu))
  out$dev.resids <- function(y, mu, wt) {
    z2 <- ((y - mu) / scale)^2
    wt * (if (is.finite(df)) (df + 1) * log1p(z2 / df) else z2)
  }
  out$aic <- function(y, n, mu, wt, dev) -2 * sum(wt * (stats::dt((y - mu) / scale, df, log = TRUE) - log(scale)))
  out$simulate <- NULL
  out
}

# Scale and degrees of freedom at the components of a fit.
scale_of_nodes <- function(fit) {
  post <- fit$posterior
  list(sigma = exp(post$log_shape), df = post[["form"]] %||% rep(fit$noise_df, nrow(post$weight)))
}

# Steps of the trapezoidal rule over the log of a gamma variable: the longest, and in standard deviations of its density; and by how
# much in logarithm the integrand has fallen at the ends.
step_of_gamma <- 0.25
part_of_gamma <- 0.7
fall_of_gamma <- 40

# Logs of the mean densities of responses over normal predictors (m x K), each column with its own noise: given a gamma variable w
# of mean 1 and shape df / 2 the noise is normal with variance sigma^2 / w.
log_means_of_student <- function(center, spread, y, noise) {
  out <- center * 0
  square <- matrix(noise$sigma^2, nrow(center), ncol(center), byrow = TRUE)
  away <- (y - center)^2
  for (df in unique(noise$df)) {
    at <- which(noise$df == df)
    of <- function(m) m[, at, drop = FALSE]
    out[, at] <- if (is.finite(df)) {
      log_mixed_over_gamma(of(away), of(spread), of(square), df)
    } else {
      log_normal(of(away), of(spread) + of(square))
    }
  }
  out
}

log_normal <- function(away, variance) -0.5 * (log(2 * pi * variance) + away / variance)

log_mixed_over_gamma <- function(away, spread, square, df) {
  # Where the responses are farthest the integrand is a gamma density of shape (df + 1) / 2, and nowhere is it more to the left.
  lowest <- log((df + 1) / (df + max(away / square))) - 2 * fall_of_gamma / (df + 1) - sqrt(4 * fall_of_gamma / (df + 1))
  highest <- log1p(2 * fall_of_gamma / df + sqrt(4 * fall_of_gamma / df))
  step <- min(step_of_gamma, part_of_gamma * sqrt(2 / (df + 1)))
  u <- seq(lowest, highest + step, by = step)
  density <- df / 2 * (log(df / 2) + u - exp(u)) - lgamma(df / 2)
  total <- away * 0 - Inf
  for (i in seq_along(u)) total <- log_add(total, density[i] + log_normal(away, spread + square * exp(-u[i])))
  total + log(step)
}
