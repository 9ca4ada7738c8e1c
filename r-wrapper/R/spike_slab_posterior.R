# EP's posterior on the user's scale: pybayesridge/ep/posterior.py in R.
#
# The coefficients are normal given the hyperparameters, with covariance diag(own) + plus'plus - minus'minus in the units
# of the design; averaged over several values of the hyperparameters they are a mixture.

bisections <- 100L

# What a coefficient of the design is multiplied by to give the user's.
coefficient_unit <- function(post) post$y_norm[1L] / post$scale

# Means and variances of b's and Z's part of the linear predictor for each component, g x m.
row_components <- function(post, x, z) {
  rows <- rows_outside_z(post, x, z)
  leverage <- z_leverage(post, z)
  each <- lapply(post$components, function(g) {
    variance <- drop(rows^2 %*% g$own) + rowSums((rows %*% t(g$plus))^2) - rowSums((rows %*% t(g$minus))^2)
    list(mean = drop(rows %*% g$mean), variance = pmax(variance, 0) + g$noise_var * leverage)
  })
  m <- nrow(rows)
  list(
    mean = matrix(unlist(lapply(each, `[[`, "mean")), ncol = m, byrow = TRUE),
    variance = matrix(unlist(lapply(each, `[[`, "variance")), ncol = m, byrow = TRUE)
  )
}

component_values <- function(post, name) {
  matrix(unlist(lapply(post$components, `[[`, name)), nrow = length(post$components), byrow = TRUE)
}

spike_row_quantiles <- function(post, x, z, probabilities, noise) {
  parts <- row_components(post, x, z)
  variance <- parts$variance
  if (!is.null(noise)) {
    variance <- variance + outer(drop(component_values(post, "noise_var")), noise)
  }
  full <- matrix(post$weight, nrow(variance), ncol(variance))
  base <- drop(z %*% post$y_on_z[, 1L])
  out <- matrix(0, nrow(x), length(probabilities))
  for (i in seq_along(probabilities)) {
    out[, i] <- base + spike_quantile(parts$mean, sqrt(variance), full, probabilities[i]) * post$y_norm[1L]
  }
  out
}

# Quantile of m mixtures of g normals (g x m arguments) and, with the weight that is left, a point mass at zero.
spike_quantile <- function(mean, sd, weight, probability) {
  spike <- pmax(1 - colSums(weight), 0)
  spike[spike < 1e-15] <- 0
  cdf <- function(t) {
    t <- rep(t, each = nrow(mean))
    each <- ifelse(sd > 0, stats::pnorm((t - mean) / ifelse(sd > 0, sd, 1)), as.numeric(t >= mean))
    colSums(weight * matrix(each, nrow(mean)))
  }
  below <- cdf(numeric(ncol(mean)))
  on_spike <- below < probability & probability <= below + spike
  if (nrow(mean) == 1L) {
    w <- ifelse(weight[1L, ] > 0, weight[1L, ], 1)
    side <- ifelse(probability <= below, probability, probability - spike)
    out <- mean[1L, ] + sd[1L, ] * stats::qnorm(pmin(pmax(side / w, 0), 1))
    out[on_spike | weight[1L, ] == 0] <- 0
    return(out)
  }
  reach <- 40 * apply(sd, 2L, max) + apply(abs(mean), 2L, max)
  low <- -reach
  high <- reach
  for (i in seq_len(bisections)) {
    middle <- 0.5 * (low + high)
    reached <- cdf(middle) + spike * (middle >= 0) >= probability
    high[reached] <- middle[reached]
    low[!reached] <- middle[!reached]
  }
  high[spike > 0 & on_spike] <- 0
  high
}

#' @exportS3Method
row_intervals.spike_slab <- function(object, x, target, probabilities, noise) {
  split <- split_rows(object, x)
  spike_row_quantiles(object$posterior, split$x, split$z, probabilities, noise)
}

#' @exportS3Method
row_standard_deviations.spike_slab <- function(object, x, target) {
  post <- object$posterior
  split <- split_rows(object, x)
  parts <- row_components(post, split$x, split$z)
  mean <- drop(post$weight %*% parts$mean)
  spread <- (parts$mean - rep(mean, each = nrow(parts$mean)))^2
  sqrt(drop(post$weight %*% (parts$variance + spread))) * post$y_norm[1L]
}

#' @exportS3Method
coefficient_intervals.spike_slab <- function(object, target, probabilities) {
  post <- object$posterior
  k <- length(post$z_at)
  out <- matrix(0, length(object$coefficients), length(probabilities))
  if (k) {
    out[post$z_at, ] <- spike_row_quantiles(post, matrix(0, k, length(post$at)), diag(k), probabilities, NULL)
  }
  if (length(post$at)) {
    mean <- component_values(post, "cond_mean")
    sd <- sqrt(component_values(post, "cond_var"))
    weight <- component_values(post, "inclusion_prob") * post$weight
    for (i in seq_along(probabilities)) {
      out[post$at, i] <- spike_quantile(mean, sd, weight, probabilities[i]) * coefficient_unit(post)
    }
  }
  out
}

#' @exportS3Method
posterior_covariance.spike_slab <- function(object, target) {
  post <- object$posterior
  k <- length(post$z_at)
  p <- length(post$at)
  of_z <- rows_outside_z(post, matrix(0, k, p), diag(k))
  half <- if (k) backsolve(post$r, diag(k)) else diag(0)
  means <- component_values(post, "mean")
  mean <- drop(post$weight %*% means)
  z <- seq_len(k)
  b <- k + seq_len(p)
  covariance <- matrix(0, k + p, k + p)
  for (i in seq_along(post$components)) {
    g <- post$components[[i]]
    own <- diag(g$own, p) + crossprod(g$plus) - crossprod(g$minus) + tcrossprod(means[i, ] - mean)
    cross <- of_z %*% own
    covariance[b, b] <- covariance[b, b] + post$weight[i] * own
    covariance[z, b] <- covariance[z, b] + post$weight[i] * cross
    covariance[z, z] <- covariance[z, z] + post$weight[i] * (tcrossprod(cross, of_z) + g$noise_var * tcrossprod(half))
  }
  covariance[b, z] <- t(covariance[z, b])
  unit <- c(rep(post$y_norm[1L], k), coefficient_unit(post))
  out <- matrix(0, length(object$coefficients), length(object$coefficients))
  at <- c(post$z_at, post$at)
  out[at, at] <- covariance * outer(unit, unit)
  out
}

#' @exportS3Method
coefficient_draws.spike_slab <- function(object, target, size) {
  mixture_draws(object, size, function(g, count) spike_draws(g, object$posterior$groups, count))
}

#' @exportS3Method
predictive_draws.spike_slab <- function(object, target, size) mixture_draws(object, size, gaussian_draws)

# Draws over all components: coefficients (size x k) and noise variances. `draw` makes those of the penalised columns of
# one component, in the units of the design.
mixture_draws <- function(object, size, draw) {
  post <- object$posterior
  k <- length(post$z_at)
  counts <- drop(stats::rmultinom(1L, size, post$weight))
  drawn <- which(counts > 0L)
  parts <- lapply(drawn, function(i) draw(post$components[[i]], counts[i]))
  b <- sweep(do.call(rbind, parts), 2L, coefficient_unit(post), "*")
  sigma2 <- rep(drop(component_values(post, "noise_var")), counts) * post$y_norm[1L]^2
  draws <- matrix(0, size, length(object$coefficients), dimnames = list(NULL, names(object$coefficients)))
  of_z <- unpenalized_given(post, b, 1L)
  if (k) {
    of_z <- of_z + t(backsolve(post$r, matrix(stats::rnorm(k * size), k, size) * rep(sqrt(sigma2), each = k)))
  }
  draws[, post$z_at] <- of_z
  draws[, post$at] <- b
  # Components follow each other: mix them, so that any share of the draws is from all.
  mixed <- sample.int(size)
  list(coefficients = draws[mixed, , drop = FALSE], sigma2 = sigma2[mixed], tau2 = NULL)
}

# Draws whose every column has its own spike and slab, tied together as the Gaussian's are: its standard normal scores
# become probabilities, and these quantiles of spike and slab (a Gaussian copula). `groups` numbers the columns that are in
# or out together; NULL for columns on their own.
spike_draws <- function(g, groups, size) {
  score <- standard_scores(g, gaussian_draws(g, size))
  out <- matrix(0, size, length(g$mean))
  several <- groups %in% groups[duplicated(groups)]
  for (j in if (length(several)) which(!several) else seq_along(g$mean)) {
    out[, j] <- spike_quantile_of(score[, j], g$cond_mean[j], sqrt(g$cond_var[j]), g$inclusion_prob[j])
  }
  for (at in split(seq_along(groups)[several], groups[several])) {
    out[, at] <- group_draws(score[, at, drop = FALSE], g, at)
  }
  out
}

# Draws less their means, in standard deviations; 0 for a column that does not vary.
standard_scores <- function(g, draws) {
  sd <- sqrt(pmax(g$own + colSums(g$plus^2) - colSums(g$minus^2), 0))
  centred <- sweep(draws, 2L, g$mean)
  sweep(centred, 2L, ifelse(sd > 0, sd, Inf), "/")
}

# Quantile of (1 - p) at zero and p of N(mean, sd^2), at the probability pnorm(score).
spike_quantile_of <- function(score, mean, sd, p) {
  if (p >= 1 || sd == 0) {
    return(if (p > 0) mean + sd * score else numeric(length(score)))
  }
  below <- p * stats::pnorm(0, mean, sd)
  left <- stats::pnorm(score)
  right <- stats::pnorm(score, lower.tail = FALSE)
  low <- left < below
  high <- right < p - below
  out <- numeric(length(score))
  out[low] <- mean + sd * stats::qnorm(left[low] / p)
  out[high] <- mean + sd * stats::qnorm(right[high] / p, lower.tail = FALSE)
  out
}

# Draws of the columns `at` of one group. It is in where its scores lie far enough in the direction of its slab's mean;
# given that, this direction is made standard normal again, and the rest of the scores is as it was.
group_draws <- function(score, g, at) {
  p <- g$inclusion_prob[at[1L]]
  mean <- g$cond_mean[at]
  sd <- sqrt(g$cond_var[at])
  out <- matrix(0, nrow(score), length(at))
  slab <- function(score) rep(mean, each = nrow(score)) + score * rep(sd, each = nrow(score))
  if (p >= 1) {
    return(slab(score))
  }
  if (p <= 0 || all(sd == 0)) {
    return(out)
  }
  direction <- mean / ifelse(sd > 0, sd, Inf)
  if (!any(direction != 0)) direction <- as.numeric(sd > 0)
  correlation <- gaussian_correlation(g, at)
  length <- sqrt(drop(direction %*% correlation %*% direction))
  along <- drop(score %*% direction) / length
  outside <- stats::pnorm(along, lower.tail = FALSE)
  is_in <- outside < p
  again <- stats::qnorm(outside[is_in] / p, lower.tail = FALSE)
  moved <- score[is_in, , drop = FALSE] + outer(again - along[is_in], drop(correlation %*% direction) / length)
  out[is_in, ] <- slab(moved)
  out
}

gaussian_correlation <- function(g, at) {
  covariance <- diag(g$own[at], length(at)) + crossprod(g$plus[, at, drop = FALSE]) - crossprod(g$minus[, at, drop = FALSE])
  spread <- sqrt(pmax(diag(covariance), 0))
  spread[spread == 0] <- Inf
  covariance / outer(spread, spread)
}

# Draws from N(mean, diag(own) + plus'plus - minus'minus).
gaussian_draws <- function(g, size) {
  p <- length(g$mean)
  out <- matrix(rep(g$mean, each = size), size, p)
  if (nrow(g$plus)) {
    out <- out + matrix(stats::rnorm(size * nrow(g$plus)), size, nrow(g$plus)) %*% g$plus
  }
  if (any(g$own > 0)) {
    root <- sqrt(g$own)
    half <- sweep(g$minus, 2L, ifelse(root > 0, root, 1), "/")
    # half = U diag(s) V': the square root of I - half'half is I - V (1 - sqrt(1 - s^2)) V'.
    e <- eigen(tcrossprod(half), symmetric = TRUE)
    keep <- e$values > 1e-14
    s2 <- pmin(e$values[keep], 1)
    right <- crossprod(half, e$vectors[, keep, drop = FALSE]) / rep(sqrt(s2), each = p)
    draw <- matrix(stats::rnorm(size * p), size, p)
    draw <- draw - ((draw %*% right) * rep(1 - sqrt(1 - s2), each = size)) %*% t(right)
    out <- out + sweep(draw, 2L, root, "*")
  }
  out
}
