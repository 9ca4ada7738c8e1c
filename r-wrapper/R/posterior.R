# The posterior of linear functions of a ridge's coefficients: pybayesridge/ridge/mixture.py and posterior.py in R.
#
# Given t2 everything linear in the coefficients is normal or t; the posterior is a mixture over nodes in log t2, of
# which there is one for a fitted penalty. A "functionals" list holds m linear functions in the rotated basis: coords
# (m x r), outside (m; squared norm outside the row space) and leverage (m; of the unpenalised columns).

quantile_tol <- 1e-6
negligible <- 1e-12
quantile_maxiter <- 200L
elements <- 4e6
left_by_rounding <- (64 * .Machine$double.eps)^2
newton_steps <- 3L

# s_j^2 / (s_j^2 + 1/t2), a row for each node.
shrinkage <- function(s, log_t2) {
  s2 <- rep(s^2, each = length(log_t2))
  matrix(s2 / (s2 + exp(-log_t2)), length(log_t2), length(s))
}

# 1 less that, without subtracting.
complement <- function(s, log_t2) {
  s2 <- rep(s^2, each = length(log_t2))
  matrix(1 / (1 + s2 * exp(log_t2)), length(log_t2), length(s))
}

# The nodes of one target: centres a = V'b (K x r), variances inside (K x r) and outside (K) the row space. Of several,
# those whose weight is above `floor`.
target_nodes <- function(post, target, floor = -1) {
  keep <- if (nrow(post$weight) == 1L) 1L else post$weight[, target] > floor
  log_t2 <- post$log_t2[keep, target]
  scale2 <- post$scale2[keep, target]
  shrunk <- shrinkage(post$s, log_t2)
  inside <- scale2 * sweep(shrunk, 2L, post$s^2, "/")
  inside[log_t2 == -Inf, ] <- 0
  list(
    a = sweep(shrunk, 2L, post$z[, target] / post$s, "*"),
    inside = inside,
    outside = ifelse(scale2 == 0, 0, scale2 * exp(log_t2)),
    weight = post$weight[keep, target],
    scale2 = scale2
  )
}

# Variance beside squared scale.
variance_factor <- function(df) {
  if (is.infinite(df)) 1 else if (df > 2) df / (df - 2) else Inf
}

spread2 <- function(f, nodes, noise = 0) {
  out <- nodes$inside %*% t(f$coords^2) + outer(nodes$scale2, f$leverage + noise)
  beyond <- f$outside > 0
  if (any(beyond)) {
    out[, beyond] <- out[, beyond] + outer(nodes$outside, f$outside[beyond])
  }
  out
}

# Mean and variance of every functional: a list of two (m).
functional_moments <- function(f, post, target) {
  nodes <- target_nodes(post, target)
  where <- nodes$a %*% t(f$coords)
  spread <- spread2(f, nodes)
  factor <- variance_factor(post$df)
  if (nrow(where) == 1L) {
    return(list(mean = where[1L, ], variance = ifelse(spread[1L, ] == 0, 0, factor * spread[1L, ])))
  }
  mean <- drop(nodes$weight %*% where)
  variance <- drop(nodes$weight %*% (factor * spread + sweep(where, 2L, mean)^2))
  if (post$open_variance) {
    variance[f$outside > 0] <- Inf
  }
  list(mean = mean, variance = variance)
}

# Quantiles of every functional, m x length(probabilities).
functional_quantiles <- function(f, post, target, probabilities, noise = 0) {
  m <- nrow(f$coords)
  step <- max(1L, as.integer(elements / nrow(post$log_t2)))
  out <- matrix(0, m, length(probabilities))
  nodes <- target_nodes(post, target, floor = negligible)
  for (start in seq.int(1L, by = step, length.out = ceiling(m / step))) {
    at <- seq.int(start, min(start + step - 1L, m))
    part <- list(coords = f$coords[at, , drop = FALSE], outside = f$outside[at], leverage = f$leverage[at])
    where <- nodes$a %*% t(part$coords)
    scale <- sqrt(spread2(part, nodes, if (length(noise) == m) noise[at] else noise))
    for (i in seq_along(probabilities)) {
      out[at, i] <- if (nrow(post$log_t2) == 1L) {
        where[1L, ] + scale[1L, ] * stats::qt(probabilities[i], post$df)
      } else {
        mixture_quantile(where, scale, nodes$weight, post$df, probabilities[i])
      }
    }
  }
  out
}

# Quantile of m mixtures of K components with common weights (`where` and `scale` are K x m), by bracketed Newton: the
# steps that Python takes. The probability is solved for: under a heavy tail a step that is small relative to the standard
# deviation says nothing.
mixture_quantile <- function(where, scale, weight, df, probability) {
  base <- stats::qt(probability, df)
  each <- where + scale * base
  low <- apply(each, 2L, min)
  high <- apply(each, 2L, max)
  center <- drop(weight %*% where)
  unit <- typical_scale(scale, weight)
  point <- pmin(pmax(center + base * unit, low), high)
  enough <- quantile_tol * min(probability, 1 - probability)
  previous <- rep(Inf, length(point))
  # Without noise every component is the same point.
  todo <- which(apply(scale, 2L, max) > 0)
  for (iteration in seq_len(quantile_maxiter)) {
    if (!length(todo)) break
    s <- scale[, todo, drop = FALSE]
    x <- point[todo]
    standard <- (rep(x, each = nrow(s)) - where[, todo, drop = FALSE]) / s
    excess <- drop(weight %*% matrix(stats::pt(standard, df), nrow(s))) - probability
    newton <- x - excess / drop(weight %*% matrix(stats::dt(standard, df) / s, nrow(s)))
    above <- excess >= 0
    high[todo[above]] <- x[above]
    low[todo[!above]] <- x[!above]
    close <- abs(excess) <= enough
    inside <- !is.nan(newton) & newton >= low[todo] & newton <= high[todo] & abs(excess) <= 0.5 * previous[todo]
    middle <- middle_of(low[todo], high[todo], center[todo], unit[todo])
    point[todo] <- ifelse(inside, newton, ifelse(close, x, middle))
    previous[todo] <- abs(excess)
    todo <- todo[!close & point[todo] != x]
  }
  point
}

# Geometric mean over the components: the standard deviation is that of the tail where this is heavy.
typical_scale <- function(scale, weight) {
  out <- exp(drop(weight %*% log(scale)))
  ifelse(out > 0, out, pmax(apply(scale, 2L, max), .Machine$double.xmin))
}

# Middle of a bracket whose ends may lie many powers of ten apart: halves it in digits, not in length.
middle_of <- function(low, high, center, unit) {
  ends <- asinh((low - center) / unit) + asinh((high - center) / unit)
  pmin(pmax(center + unit * sinh(0.5 * ends), low), high)
}

# Standardised rows, less what the unpenalised columns take from them.
rows_outside_z <- function(post, x, z) {
  out <- sweep(x, 2L, post$scale, "/")
  if (!is.null(post$ones)) {
    out <- out - outer(drop(z %*% post$ones), post$center / post$scale)
  }
  if (!is.null(post$projection)) {
    out <- out - z %*% sweep(post$projection, 2L, post$scale, "/")
  }
  out
}

row_functionals <- function(post, x, z) {
  rows <- rows_outside_z(post, x, z)
  coords <- rows %*% post$right / post$top
  outside <- numeric(nrow(rows))
  if (length(post$s) < length(post$scale)) {
    # Of what is left, not as a difference of squares: where tau2 is large a share of 1e-20 matters.
    whole <- rowSums(rows^2)
    rest <- rowSums((rows - coords %*% t(post$right) * post$top)^2)
    outside <- ifelse(rest > left_by_rounding * whole, rest, 0) / post$top^2
  }
  list(coords = coords, outside = outside, leverage = z_leverage(post, z))
}

# What the squared norms of the penalised coefficients have outside the row space; rounding errors are nothing.
outside_of_coefficients <- function(post) {
  rest <- 1 - rowSums(post$right^2)
  if (length(post$s) < length(post$at)) ifelse(rest > post$rounding, rest, 0) else numeric(length(post$at))
}

z_leverage <- function(post, z) {
  if (!ncol(z)) {
    return(numeric(nrow(z)))
  }
  colSums(backsolve(post$r, t(z), transpose = TRUE)^2)
}

# The functionals that are the coefficients themselves, with the unit and the shift of each: unpenalised ones first.
coefficient_functionals <- function(post, target) {
  k <- length(post$z_at)
  p <- length(post$at)
  of_z <- row_functionals(post, matrix(0, k, p), diag(k))
  list(
    f = list(
      coords = rbind(of_z$coords, post$right),
      outside = c(of_z$outside, outside_of_coefficients(post)),
      leverage = c(of_z$leverage, numeric(p))
    ),
    unit = c(rep(1, k), 1 / (post$scale * post$top)) * post$y_norm[target],
    shift = c(post$y_on_z[, target], numeric(p)),
    at = c(post$z_at, post$at)
  )
}

# Covariance of all coefficients of one target, in the order of the coefficients.
coefficient_covariance <- function(post, target, size) {
  k <- length(post$z_at)
  p <- length(post$at)
  rows <- rbind(rows_outside_z(post, matrix(0, k, p), diag(k)), diag(p))
  coords <- rows %*% post$right / post$top
  leverage <- matrix(0, k + p, k + p)
  if (k) {
    half <- backsolve(post$r, diag(k))
    leverage[seq_len(k), seq_len(k)] <- half %*% t(half)
  }
  nodes <- target_nodes(post, target)
  factor <- variance_factor(post$df)
  covariance <- if (is.infinite(factor)) {
    matrix(Inf, k + p, k + p)
  } else {
    middle <- drop(nodes$weight %*% nodes$inside)
    inner <- coords %*% (middle * t(coords)) + sum(nodes$weight * nodes$scale2) * leverage
    if (length(post$s) < p) {
      outer <- tcrossprod(rows) / post$top^2 - tcrossprod(coords)
      inner <- inner + (if (post$open_variance) Inf else sum(nodes$weight * nodes$outside)) * outer
    }
    inner <- inner * factor
    if (length(nodes$weight) > 1L) {
      centred <- sweep(nodes$a, 2L, drop(nodes$weight %*% nodes$a)) %*% t(coords)
      inner <- inner + crossprod(centred * nodes$weight, centred)
    }
    inner
  }
  unit <- c(rep(1, k), 1 / post$scale) * post$y_norm[target]
  out <- matrix(0, size, size)
  at <- c(post$z_at, post$at)
  out[at, at] <- covariance * outer(unit, unit)
  out
}

# The model matrix of new rows as its penalised and unpenalised columns.
split_rows <- function(object, x) {
  if (object$intercept_added) {
    x <- cbind(1, x)
  }
  list(x = x[, object$posterior$at, drop = FALSE], z = x[, object$posterior$z_at, drop = FALSE])
}

# Unnormalised log density of log t2 at points of it, and the penalised residual sum of squares there, of one target.
log_t2_density <- function(post, target, points) {
  prior <- post$prior
  rss <- numeric(length(points))
  determinant <- numeric(length(points))
  step <- max(1L, as.integer(elements / max(length(post$s), 1L)))
  for (start in seq.int(1L, by = step, length.out = ceiling(length(points) / step))) {
    at <- seq.int(start, min(start + step - 1L, length(points)))
    kept <- complement(post$s, points[at])
    rss[at] <- drop(kept %*% post$z[, target]^2) + post$rss0[target]
    determinant[at] <- -rowSums(log(kept))
  }
  own <- points - prior$log_scale
  fit <- if (is.null(prior$noise)) prior$count / 2 * log(rss) else rss / (2 * prior$noise[target])
  log_sum <- pmax(own, 0) + log1p(exp(-abs(own)))
  list(log = -0.5 * determinant - fit + prior$a * own - (prior$a + prior$b) * log_sum, rss = rss)
}

# Points of log t2, its density there and the integral of the density's spline up to there; one point and nothing else
# for a fitted penalty.
log_t2_distribution <- function(post, target) {
  keep <- post$weight[, target] > 0
  nodes <- post$log_t2[keep, target]
  last <- nodes[length(nodes)]
  if (length(nodes) < 2L || !all(is.finite(nodes))) {
    return(list(points = last))
  }
  steps <- post$fine * (length(nodes) - 1L)
  if (is.finite(post$df)) {
    steps <- max(steps, floor((last - nodes[1L]) / (0.25 * sqrt(2 / post$df))))
  }
  points <- seq(nodes[1L], last, length.out = min(steps, post$most_points) + 1L)
  found <- log_t2_density(post, target, points)
  density <- exp(found$log - max(found$log))
  spline <- stats::splinefun(points, density, method = "fmm")
  # The third derivative jumps at the knots.
  between <- points[-1L] - diff(points) / 2
  parts <- list(density, spline(points, 1L), spline(points, 2L) / 2, spline(between, 3L) / 6)
  whole <- quartic(parts, seq_along(points[-1L]), diff(points))
  list(points = points, density = density, cdf = c(0, cumsum(whole)), parts = parts, rss = found$rss)
}

# Integral of a spline from its knots `at` over the lengths h.
quartic <- function(parts, at, h) {
  h * (parts[[1L]][at] + h * (parts[[2L]][at] / 2 + h * (parts[[3L]][at] / 3 + h * parts[[4L]][at] / 4)))
}

log_t2_quantiles <- function(post, target, probabilities) {
  d <- log_t2_distribution(post, target)
  n <- length(d$points)
  if (n == 1L) {
    return(rep(d$points, length(probabilities)))
  }
  wanted <- probabilities * d$cdf[n]
  out <- stats::approx(d$cdf, d$points, wanted, rule = 2, ties = "ordered")$y
  for (step in seq_len(newton_steps)) {
    at <- pmin(pmax(findInterval(out, d$points), 1L), n - 1L)
    h <- out - d$points[at]
    slope <- d$parts[[1L]][at] + h * (d$parts[[2L]][at] + h * (d$parts[[3L]][at] + h * d$parts[[4L]][at]))
    out <- out - (d$cdf[at] + quartic(d$parts, at, h) - wanted) / slope
    out <- pmin(pmax(out, d$points[1L]), d$points[n])
  }
  out
}

# Quantiles of the noise variance in units of the target's squared norm: a mixture of inverse gammas, or a number.
sigma2_quantiles <- function(post, target, probabilities) {
  scale2 <- post$scale2[, target]
  weight <- post$weight[, target]
  if (is.infinite(post$df) || all(scale2 == 0)) {
    return(rep(scale2[1L], length(probabilities)))
  }
  d <- log_t2_distribution(post, target)
  if (length(d$points) > 1L) {
    weight <- d$density / sum(d$density)
    scale2 <- d$rss / post$df
  }
  shape <- post$df / 2
  rate <- scale2 * shape
  excess <- function(log_s2, probability) {
    sum(weight * stats::pgamma(rate * exp(-log_s2), shape, lower.tail = FALSE)) - probability
  }
  middle <- log(sum(weight * scale2))
  vapply(probabilities, function(probability) {
    step <- 1 + 100 / post$df
    low <- high <- middle
    while (excess(low, probability) > 0 && low > middle - 700) low <- low - step
    while (excess(high, probability) < 0 && high < middle + 700) high <- high + step
    exp(stats::uniroot(excess, c(low, high), probability = probability, tol = 1e-13, maxiter = 1000L)$root)
  }, 0)
}

# Draws of log t2 (rotated units) and of the noise variance (units of the target's squared norm).
draw_hyperparameters <- function(post, target, size) {
  d <- log_t2_distribution(post, target)
  log_t2 <- if (length(d$points) == 1L) {
    rep(d$points, size)
  } else {
    stats::approx(d$cdf, d$points, stats::runif(size) * d$cdf[length(d$cdf)], rule = 2, ties = "ordered")$y
  }
  scale2 <- post$scale2[, target]
  sigma2 <- if (is.infinite(post$df) || all(scale2 == 0)) {
    rep(scale2[1L], size)
  } else {
    rss <- drop(complement(post$s, log_t2) %*% post$z[, target]^2) + post$rss0[target]
    0.5 * rss / stats::rgamma(size, post$df / 2)
  }
  list(log_t2 = log_t2, sigma2 = sigma2)
}

# Draws of one target: coefficients (size x k) and the noise variance of each draw.
posterior_draws <- function(object, target, size) {
  post <- object$posterior
  k <- length(post$z_at)
  p <- length(post$at)
  r <- length(post$s)
  drawn <- draw_hyperparameters(post, target, size)
  log_t2 <- drawn$log_t2
  sigma2 <- drawn$sigma2
  e <- shrinkage(post$s, log_t2)
  a <- sweep(e, 2L, post$z[, target] / post$s, "*") +
    sweep(sqrt(sigma2 * e), 2L, post$s, "/") * matrix(stats::rnorm(size * r), size, r)
  b <- a %*% t(post$right)
  if (r < p) {
    noise <- matrix(stats::rnorm(size * p), size, p) * ifelse(sigma2 == 0, 0, sqrt(sigma2) * exp(log_t2 / 2))
    b <- b + noise - (noise %*% post$right) %*% t(post$right)
  }
  b <- sweep(b, 2L, post$y_norm[target] / (post$scale * post$top), "*")
  of_z <- unpenalized_given(post, b, target)
  if (k) {
    standard <- matrix(stats::rnorm(k * size), k, size) * rep(sqrt(sigma2) * post$y_norm[target], each = k)
    of_z <- of_z + t(backsolve(post$r, standard))
  }
  draws <- matrix(0, size, length(coefficient_names(object)), dimnames = list(NULL, coefficient_names(object)))
  draws[, post$z_at] <- of_z
  draws[, post$at] <- b
  list(coefficients = draws, sigma2 = sigma2 * post$y_norm[target]^2, tau2 = exp(log_t2 - post$log_unit))
}

# Means of the unpenalised coefficients given draws of the penalised ones (size x p).
unpenalized_given <- function(post, b, target) {
  of_z <- matrix(rep(post$y_on_z[, target], each = nrow(b)), nrow(b), length(post$z_at))
  if (!is.null(post$ones)) {
    of_z <- of_z - outer(drop(b %*% post$center), post$ones)
  }
  if (!is.null(post$projection)) {
    of_z <- of_z - b %*% t(post$projection)
  }
  of_z
}
