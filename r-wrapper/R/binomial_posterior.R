# The posterior of a ridge of yes/no responses, worked out from what Python exports of it:
# pybayesridge/results/export_binary.py says what is what.

is_binary <- function(post) !is.null(post[["node_root"]])

no_covariance <- paste0(
  "the coefficients have no posterior covariance: the columns separate the responses, and the tail of the posterior of the ",
  "penalty is too heavy. Use confint() or posterior_sample()"
)

node_rows <- function(post, i) {
  m <- ncol(post$node_mean)
  post$node_root[(i - 1L) * m + seq_len(m), , drop = FALSE]
}

# As mixture_of(): where functionals lie at the nodes, and their squared scales.
mixture_of_binary <- function(f, post) {
  where <- tcrossprod(post$node_mean, f$coords)
  scale2 <- where * 0
  for (i in seq_len(nrow(where))) {
    scale2[i, ] <- colSums(tcrossprod(node_rows(post, i), f$coords)^2)
  }
  beyond <- f$outside > 0
  scale2[, beyond] <- scale2[, beyond] + outer(exp(post$log_t2[, 1L]), f$outside[beyond])
  list(where = where, scale2 = scale2, weight = post$weight[, 1L])
}

binary_sd <- function(f, post) {
  if (!post$has_variance) {
    return(rep(Inf, length(f$outside)))
  }
  variance <- rowSums((f$coords %*% post$covariance) * f$coords)
  beyond <- f$outside > 0
  variance[beyond] <- variance[beyond] + f$outside[beyond] * post$mean_t2
  sqrt(pmax(variance, 0))
}

# Covariance of (unpenalised, penalised) standardised coefficients.
covariance_of_binary <- function(post) {
  if (!post$has_variance) {
    stop(no_covariance, call. = FALSE)
  }
  p <- length(post$at)
  of_z <- functionals_of_z(post)
  rows <- rbind(of_z$rows, diag(p))
  coords <- rbind(of_z$coords, cbind(matrix(0, p, length(post$z_at)), right_of(post)))
  out <- coords %*% post$covariance %*% t(coords)
  if (length(post$s) < p) {
    rest <- rows - back_from_right(post, coords[, length(post$z_at) + seq_along(post$s), drop = FALSE])
    out <- out + post$mean_t2 * tcrossprod(rest)
  }
  out
}

# Draws of the coordinates: those of the unpenalised columns (size x u), the others (size x r), and log t2.
binary_coordinates <- function(post, size) {
  k <- length(post$z_at)
  node <- sample.int(nrow(post$weight), size, replace = TRUE, prob = post$weight[, 1L])
  coords <- matrix(0, size, ncol(post$node_mean))
  for (i in unique(node)) {
    of_node <- node == i
    noise <- matrix(stats::rnorm(sum(of_node) * ncol(coords)), sum(of_node))
    coords[of_node, ] <- rep(post$node_mean[i, ], each = sum(of_node)) + noise %*% node_rows(post, i)
  }
  list(
    flat = coords[, seq_len(k), drop = FALSE], inside = coords[, k + seq_along(post$s), drop = FALSE],
    log_t2 = post$log_t2[node, 1L]
  )
}

# Draws of the flat coordinates (size x u), of standardised coefficients (size x p) and of tau2.
binary_draws <- function(post, size) {
  p <- length(post$at)
  drawn <- binary_coordinates(post, size)
  b <- back_from_right(post, drawn$inside)
  if (length(post$s) < p) {
    noise <- matrix(stats::rnorm(size * p), size, p) * exp(drawn$log_t2 / 2)
    b <- b + noise - back_from_right(post, times_right(post, noise))
  }
  list(b = b, flat = drawn$flat, tau2 = exp(drawn$log_t2 - post$log_unit))
}

# Posterior probability that each of all `count` coefficients is positive; NaN for those that are zero for certain.
coefficients_above <- function(post, count) {
  p <- length(post$at)
  of_z <- functionals_of_z(post)
  f <- list(
    coords = rbind(of_z$coords, cbind(matrix(0, p, length(post$z_at)), right_of(post))),
    outside = c(of_z$outside, outside_of(post, seq_len(p)))
  )
  each <- mixture_of_binary(f, post)
  above <- stats::pnorm(each$where / sqrt(each$scale2))
  above[each$scale2 == 0] <- as.numeric(each$where[each$scale2 == 0] > 0)
  out <- rep(NaN, count)
  out[c(post$z_at, post$at)] <- drop(each$weight %*% above)
  out
}

link_probability <- function(eta, link) if (link == "probit") stats::pnorm(eta) else stats::plogis(eta)

# Predictions of rows of the model matrix: `fit`, `lwr` and `upr` where `probabilities` are given, and `se.fit`.
binomial_rows <- function(object, x, type, probabilities, se.fit) {
  post <- object$posterior
  split <- split_rows(object, x)
  f <- functionals(post, split$x, split$z)
  out <- list()
  if (type == "link") {
    out$fit <- if (!isFALSE(post$has_mean)) linear_predictor(object, x, 1L) else functional_quantiles(f, post, 1L, 0.5)[, 1L]
    if (se.fit) out$se.fit <- functional_sd(f, post, 1L)
  } else {
    moments <- if (is_binary(post)) probability_moments else normal_components_probabilities
    out <- moments(f, post, object$link, se.fit)
  }
  if (!is.null(probabilities)) {
    limits <- functional_quantiles(f, post, 1L, probabilities)
    if (type == "response") limits <- link_probability(limits, object$link)
    out$lwr <- limits[, 1L]
    out$upr <- limits[, 2L]
  }
  out
}

# Equally likely values of a normal variable in place of its distribution, as in Python.
normal_levels <- 256L

# Posterior mean of the probability of functionals, and its standard deviation if that is asked for.
probability_moments <- function(f, post, link, se.fit) {
  m <- length(f$outside)
  mean <- sd <- numeric(m)
  normal <- stats::qnorm((seq_len(normal_levels) - 0.5) / normal_levels)
  for (at in chunks(m, elements / nrow(post$weight))) {
    if (!length(at)) next
    part <- list(coords = f$coords[at, , drop = FALSE], outside = f$outside[at])
    each <- mixture_of_binary(part, post)
    mean[at] <- drop(each$weight %*% mean_probability(each$where, sqrt(each$scale2), link))
    if (se.fit) {
      first <- second <- 0
      for (z in normal) {
        share <- link_probability(each$where + sqrt(each$scale2) * z, link)
        first <- first + drop(each$weight %*% share) / normal_levels
        second <- second + drop(each$weight %*% share^2) / normal_levels
      }
      sd[at] <- sqrt(pmax(second - first^2, 0))
    }
  }
  c(list(fit = mean), if (se.fit) list(se.fit = sd))
}

# Mean of the probability where the linear predictor is normal with `mean` and `sd` (of one shape). For the logit link by
# the trapezoidal rule, which converges exponentially: over the normal variable where it varies little, else over the
# logistic one, P(U < mean + sd Z) being the mean of Phi((mean - U) / sd).
mean_probability <- function(mean, sd, link) {
  if (link == "probit") {
    return(stats::pnorm(mean / sqrt(1 + sd^2)))
  }
  out <- mean * 0
  small <- sd < 2
  for (z in seq(-9.1, 9.1, by = 0.35)) {
    out[small] <- out[small] + 0.35 * stats::dnorm(z) * stats::plogis(mean[small] + sd[small] * z)
  }
  for (u in seq(-42, 42, by = 0.6)) {
    out[!small] <- out[!small] + 0.6 * stats::dlogis(u) * stats::pnorm((mean[!small] - u) / sd[!small])
  }
  pmin(out, 1)
}

# Mean, median and interval of the penalty, tau2 and the effective degrees of freedom.
binary_hyperparameters <- function(object, level) {
  post <- object$posterior
  points <- binary_log_t2(post, c(0.5, tails(level)))
  df <- rep(unname(object$df_model), 3L)
  if (length(post$cumulative) > 1L) {
    df <- stats::approx(post$path_log_t2, post$path_df, points, rule = 2)$y - object$constant
  }
  quantiles <- rbind(exp(post$log_unit - points)[c(1L, 3L, 2L)], exp(points - post$log_unit), df)
  table <- data.frame(object$penalty_means, quantiles)
  dimnames(table) <- list(c("lambda", "tau2", "df_model"), c("mean", "median", "lower", "upper"))
  table
}

# Quantiles of log t2: by interpolation, and beyond the points of its distribution function by its exponential tails.
binary_log_t2 <- function(post, probabilities) {
  n <- length(post$cumulative)
  if (n == 1L) {
    return(rep(post$log_t2_to, length(probabilities)))
  }
  points <- seq(post$log_t2_from, post$log_t2_to, length.out = n)
  low <- post$cumulative[1L]
  high <- post$cumulative[n]
  inside <- stats::approx(post$cumulative, points, probabilities, rule = 2, ties = "ordered")$y
  ifelse(
    probabilities < low, points[1L] + log(probabilities / low) / post$rise,
    ifelse(probabilities > high, points[n] - log((1 - probabilities) / (1 - high)) / post$fall, inside)
  )
}

# Draws of the share of latent variance that the columns explain.
latent_share <- function(object, size) {
  post <- object$posterior
  explained <- drop(binary_coordinates(post, size)$inside^2 %*% post$s^2)
  explained / (explained + object$nobs * latent_noise(object$link))
}

# Variance of the latent noise of a link.
latent_noise <- function(link) if (link == "probit") 1 else pi^2 / 3
