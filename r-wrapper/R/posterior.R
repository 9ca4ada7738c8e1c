# The posterior of a fit, worked out from what Python exports of it: pybayesridge/results/export.py says what is what.
#
# Linear functions of the coefficients are mixtures of normals or t's over the nodes of the export. A "functionals" list
# holds m of them: their standardised rows (m x p), leverage (of the unpenalised columns, m), and for a ridge coords
# (m x r) and outside (m), the coordinates of the rows in the row space and their squared norm outside of it.

negligible <- 1e-12
elements <- 4e6
# Of quantiles, whose arrays are passed over many times: they stay in the processor's cache. Fewer of a ridge, where a part
# costs nothing but its elements.
elements_at_once <- 3e5
elements_of_ridge <- 6e4
left_by_rounding <- (64 * .Machine$double.eps)^2
newton_steps <- 3L

is_ridge <- function(post) !is.null(post[["s"]])

functionals <- function(post, x, z) {
  rows <- sweep(x - z %*% post$on_z, 2L, post$scale, "/")
  out <- list(rows = rows, leverage = rowSums((z %*% post$z_root)^2))
  if (is_binary_sets(post) || is_binary_ep(post)) {
    out$flat <- z %*% post$z_root
  }
  if (!is_ridge(post)) {
    return(out)
  }
  coords <- times_right(post, rows)
  outside <- numeric(nrow(rows))
  if (length(post$s) < length(post$at)) {
    # Of what is left, not as a difference of squares: where tau2 is large a share of 1e-20 matters.
    rest <- rowSums((rows - back_from_right(post, coords))^2)
    outside <- ifelse(rest > left_by_rounding * rowSums(rows^2), rest, 0)
  }
  if (is_binary(post)) coords <- cbind(z %*% post$z_root, coords)
  c(out, list(coords = coords, outside = outside))
}

# Those of the unpenalised coefficients, less what the responses have on these columns.
functionals_of_z <- function(post) {
  k <- length(post$z_at)
  functionals(post, matrix(0, k, length(post$at)), diag(k))
}

# Those of the standardised coefficients j of a ridge.
functionals_of_columns <- function(post, j) {
  right <- right_of(post, j)
  coords <- if (is_binary(post)) cbind(matrix(0, length(j), length(post$z_at)), right) else right
  list(coords = coords, outside = outside_of(post, j, right), leverage = numeric(length(j)))
}

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

# The nodes of one target whose weight is above `floor`. Of a ridge the centres a = V'b (K x r) and the variances inside
# (K x r) and outside (K) the row space.
nodes_of <- function(post, target, floor = -1) {
  keep <- if (nrow(post$weight) == 1L) 1L else which(post$weight[, target] > floor)
  nodes <- list(keep = keep, weight = post$weight[keep, target], noise = post$noise[keep, target])
  if (!is_ridge(post)) {
    return(nodes)
  }
  log_t2 <- post$log_t2[keep, target]
  shrunk <- shrinkage(post$s, log_t2)
  inside <- nodes$noise * sweep(shrunk, 2L, post$s^2, "/")
  inside[log_t2 == -Inf, ] <- 0
  c(nodes, list(
    a = sweep(shrunk, 2L, post$z[, target] / post$s, "*"),
    inside = inside,
    outside = ifelse(nodes$noise == 0, 0, nodes$noise * exp(log_t2))
  ))
}

# Where functionals lie at the nodes, and their squared scales: K x m. `noise` (m) is the variance of new observations
# relative to that of the noise.
mixture_of <- function(f, post, target, noise = 0, floor = -1) {
  if (is_binary_sets(post)) {
    return(mixture_of_binary_sets(f, post))
  }
  if (is_sets(post)) {
    return(mixture_of_sets(f, post, noise))
  }
  if (is_binary(post)) {
    return(mixture_of_binary(f, post))
  }
  if (is_binary_ep(post)) {
    return(mixture_of_binary_ep(f, post))
  }
  nodes <- nodes_of(post, target, floor)
  extra <- outer(nodes$noise, f$leverage + noise)
  if (is_ridge(post)) {
    where <- nodes$a %*% t(f$coords)
    scale2 <- nodes$inside %*% t(f$coords^2) + extra
    beyond <- f$outside > 0
    scale2[, beyond] <- scale2[, beyond] + outer(nodes$outside, f$outside[beyond])
  } else {
    where <- post$mean[nodes$keep, , drop = FALSE] %*% t(f$rows)
    roots <- outer(nodes$keep, post$root_of, "==") %*% (post$root_sign * (post$root %*% t(f$rows))^2)
    scale2 <- post$own[nodes$keep, , drop = FALSE] %*% t(f$rows^2) + roots
    x <- shared_rows(post)
    for (i in seq_along(nodes$keep)) {
      half <- shared_root(post, nodes$keep[i], t(f$rows), x)
      if (!is.null(half)) scale2[i, ] <- scale2[i, ] - colSums(half^2)
    }
    scale2 <- pmax(scale2, 0) + extra
  }
  list(where = where, scale2 = scale2, weight = nodes$weight)
}

# Variance relative to squared scale.
variance_factor <- function(df) {
  if (is.infinite(df)) 1 else if (df > 2) df / (df - 2) else Inf
}

# Quantiles of every functional, m x length(probabilities), for one target or (as a third dimension) several.
functional_quantiles <- function(f, post, target, probabilities, noise = 0) {
  m <- length(f$leverage)
  noise <- rep(noise, length.out = m)
  size <- nrow(post$weight)
  step <- (if (is_ridge(post)) elements_of_ridge else elements_at_once) / size
  out <- array(0, c(m, length(probabilities), length(target)))
  law <- student(post$df, size * m * length(target))
  for (at in chunks(m, step)) {
    part <- lapply(f, function(a) if (is.matrix(a)) a[at, , drop = FALSE] else a[at])
    for (some in chunks(length(target), step / length(at))) {
      of_each <- lapply(target[some], function(i) mixture_of(part, post, i, noise[at], floor = negligible))
      each <- without_atoms(beside_each_other(of_each), is_sets(post))
      found <- vapply(probabilities, function(p) {
        mixture_quantile(each$where, each$scale, each$weight, post$df, p, each$spike, law)
      }, numeric(ncol(each$where)))
      out[at, , some] <- aperm(array(found, c(length(at), length(some), length(probabilities))), c(1L, 3L, 2L))
    }
  }
  out <- out * rep(post$y_norm[target], each = m * length(probabilities))
  if (length(target) == 1L) matrix(out, m, length(probabilities)) else out
}

# The mixtures of several targets as one, of all their columns: nodes of no weight make up for those that some have less.
beside_each_other <- function(mixtures) {
  if (length(mixtures) == 1L) {
    return(mixtures[[1L]])
  }
  size <- max(vapply(mixtures, function(one) nrow(one$where), 0L))
  all <- function(name) {
    do.call(cbind, lapply(mixtures, function(one) one[[name]][pmin(seq_len(size), nrow(one$where)), , drop = FALSE]))
  }
  weight <- lapply(mixtures, function(one) {
    matrix(c(one$weight, numeric(size - length(one$weight))), size, ncol(one$where))
  })
  list(where = all("where"), scale2 = all("scale2"), weight = do.call(cbind, weight))
}

chunks <- function(m, step) split(seq_len(m), (seq_len(m) - 1L) %/% max(1, floor(step)))

# Quantiles of standardised coefficients j; of a selection those of spike and slab together.
penalized_quantiles <- function(object, target, probabilities, j) {
  post <- object$posterior
  if (is_sets(post)) {
    return(sets_quantiles(post, probabilities, j, unname(object$inclusion_prob[post$at])))
  }
  if (is_ridge(post)) {
    return(functional_quantiles(functionals_of_columns(post, j), post, target, probabilities))
  }
  weight <- post$slab_weight[, j, drop = FALSE] * post$weight[, 1L]
  mean <- post$slab_mean[, j, drop = FALSE]
  sd <- sqrt(post$slab_var[, j, drop = FALSE])
  limits <- lapply(probabilities, function(p) mixture_quantile(mean, sd, weight, Inf, p, 1 - colSums(weight)))
  matrix(unlist(limits), length(j)) * post$y_norm[1L]
}

# Covariance of all coefficients of one target, in the order of the coefficients.
posterior_covariance <- function(object, target) {
  post <- object$posterior
  covariance <- if (is_binary_sets(post)) {
    covariance_of_binary_sets(object)
  } else if (is_sets(post)) {
    sets_covariance_of_all(object)
  } else if (is_binary_ep(post)) {
    covariance_of_binary_ep(post)
  } else if (is_binary(post)) {
    covariance_of_binary(post)
  } else {
    covariance_of_nodes(post, target)
  }
  unit <- c(rep(1, length(post$z_at)), 1 / post$scale) * post$y_norm[target]
  size <- length(coefficient_names(object))
  out <- matrix(0, size, size)
  at <- c(post$z_at, post$at)
  out[at, at] <- covariance * outer(unit, unit)
  out
}

# The same of standardised coefficients, the unpenalised ones first, in units of the response.
covariance_of_nodes <- function(post, target) {
  k <- length(post$z_at)
  p <- length(post$at)
  of_z <- functionals_of_z(post)
  rows <- rbind(of_z$rows, diag(p))
  nodes <- nodes_of(post, target)
  leverage <- matrix(0, k + p, k + p)
  leverage[seq_len(k), seq_len(k)] <- sum(nodes$weight * nodes$noise) * tcrossprod(post$z_root)
  if (is_ridge(post)) {
    coords <- rbind(of_z$coords, right_of(post))
    inner <- coords %*% (drop(nodes$weight %*% nodes$inside) * t(coords)) + leverage
    if (length(post$s) < p) {
      spread <- if (post$open_variance) Inf else sum(nodes$weight * nodes$outside)
      inner <- inner + spread * (tcrossprod(rows) - tcrossprod(coords))
    }
    where <- nodes$a %*% t(coords)
  } else {
    half <- post$root %*% t(rows)
    inner <- rows %*% (drop(nodes$weight %*% post$own) * t(rows)) + leverage +
      crossprod(half, nodes$weight[post$root_of] * post$root_sign * half)
    x <- shared_rows(post)
    for (i in post[["lower_of"]]) {
      inner <- inner - nodes$weight[i] * crossprod(shared_root(post, i, t(rows), x))
    }
    where <- post$mean %*% t(rows)
  }
  factor <- variance_factor(post$df)
  covariance <- if (is.infinite(factor)) matrix(Inf, k + p, k + p) else inner * factor
  if (length(nodes$weight) > 1L) {
    centred <- sweep(where, 2L, drop(nodes$weight %*% where))
    covariance <- covariance + crossprod(centred * nodes$weight, centred)
  }
  covariance
}

# The posterior of log t2: points, the residual sum of squares there, and the density (unnormalised) and distribution function
# of a spline through them; one point and nothing else for a fitted penalty.
log_t2_distribution <- function(post, target) {
  n <- post$log_t2_points[target]
  if (n == 1) {
    return(list(points = post$log_t2_to[target]))
  }
  points <- seq(post$log_t2_from[target], post$log_t2_to[target], length.out = n)
  found <- do.call(rbind, lapply(chunks(n, elements / max(length(post$s), 1L)), function(at) {
    kept <- complement(post$s, points[at])
    cbind(kept %*% post$z[, target]^2 + post$rss0[target], rowSums(log(kept)))
  }))
  rss <- found[, 1L]
  own <- points - post$prior_log_scale
  fit <- if (is.null(post$prior_noise)) post$prior_count / 2 * log(rss) else rss / (2 * post$prior_noise[target])
  log_sum <- pmax(own, 0) + log1p(exp(-abs(own)))
  height <- 0.5 * found[, 2L] - fit + post$prior_a * own - (post$prior_a + post$prior_b) * log_sum
  density <- stats::splinefun(points, exp(height - max(height)), method = "fmm")
  # Simpson's rule is exact for a cubic.
  integral <- function(from, h) h / 6 * (density(from) + 4 * density(from + h / 2) + density(from + h))
  whole <- c(0, cumsum(integral(points[-n], diff(points))))
  cdf <- function(x) {
    at <- findInterval(x, points, rightmost.closed = TRUE)
    whole[at] + integral(points[at], x - points[at])
  }
  list(points = points, rss = rss, density = density, cdf = cdf, whole = whole)
}

log_t2_quantiles <- function(d, probabilities) {
  n <- length(d$points)
  if (n == 1L) {
    return(rep(d$points, length(probabilities)))
  }
  sought <- probabilities * d$whole[n]
  out <- stats::approx(d$whole, d$points, sought, rule = 2, ties = "ordered")$y
  for (step in seq_len(newton_steps)) {
    out <- pmin(pmax(out - (d$cdf(out) - sought) / d$density(out), d$points[1L]), d$points[n])
  }
  out
}

# Quantiles of the noise variance in units of the target's squared norm: a mixture of inverse gammas, or a number.
sigma2_quantiles <- function(post, target, d, probabilities) {
  noise <- post$noise[, target]
  weight <- post$weight[, target]
  if (is.infinite(post$df) || all(noise == 0)) {
    return(rep(noise[1L], length(probabilities)))
  }
  if (length(d$points) > 1L) {
    weight <- d$density(d$points) / sum(d$density(d$points))
    noise <- d$rss / post$df
  }
  variance_quantiles(weight, noise, post$df, probabilities)
}

# Draws of log t2 and of the noise variance (units of the target's squared norm).
draw_hyperparameters <- function(post, target, size) {
  d <- log_t2_distribution(post, target)
  log_t2 <- rep(d$points[1L], size)
  if (length(d$points) > 1L) {
    log_t2 <- stats::approx(d$whole, d$points, stats::runif(size) * max(d$whole), rule = 2, ties = "ordered")$y
  }
  sigma2 <- rep(post$noise[1L, target], size)
  if (is.finite(post$df) && any(post$noise[, target] != 0)) {
    rss <- drop(complement(post$s, log_t2) %*% post$z[, target]^2) + post$rss0[target]
    sigma2 <- 0.5 * rss / stats::rgamma(size, post$df / 2)
  }
  list(log_t2 = log_t2, sigma2 = sigma2)
}

# Draws of one target: coefficients (size x k), the noise variance of each draw (if there is noise) and of a ridge its tau2.
# `kind` matters to a selection: see posterior_sample().
posterior_draws <- function(object, target, size, kind = "gaussian") {
  post <- object$posterior
  draws <- if (is_binary(post)) {
    binary_draws(post, size)
  } else if (is_ridge(post)) {
    ridge_draws(post, target, size)
  } else if (is_binary_sets(post)) {
    binary_sets_draws(post, size)
  } else if (is_sets(post)) {
    sets_draws(post, size)
  } else {
    selection_draws(post, size, kind)
  }
  b <- sweep(draws$b, 2L, post$y_norm[target] / post$scale, "*")
  spread <- if (!is.null(draws$sigma2)) sqrt(draws$sigma2) * post$y_norm[target]
  k <- length(post$z_at)
  flat <- if (is.null(spread)) draws$flat else matrix(stats::rnorm(size * k), size, k) * spread
  of_z <- flat %*% t(post$z_root) - b %*% t(post$on_z)
  out <- matrix(0, size, length(coefficient_names(object)), dimnames = list(NULL, coefficient_names(object)))
  out[, post$z_at] <- sweep(of_z, 2L, post$y_on_z[, target], "+")
  out[, post$at] <- b
  list(coefficients = out, sigma2 = if (!is.null(spread)) spread^2, tau2 = draws$tau2, hyper = draws$hyper)
}

# Standardised coefficients (size x p), noise variances and tau2.
ridge_draws <- function(post, target, size) {
  p <- length(post$at)
  drawn <- draw_hyperparameters(post, target, size)
  e <- shrinkage(post$s, drawn$log_t2)
  a <- sweep(e, 2L, post$z[, target] / post$s, "*") +
    sweep(sqrt(drawn$sigma2 * e), 2L, post$s, "/") * matrix(stats::rnorm(length(e)), size)
  b <- back_from_right(post, a)
  if (ncol(e) < p) {
    spread <- ifelse(drawn$sigma2 == 0, 0, sqrt(drawn$sigma2) * exp(drawn$log_t2 / 2))
    noise <- matrix(stats::rnorm(size * p), size, p) * spread
    b <- b + noise - back_from_right(post, times_right(post, noise))
  }
  list(b = b, sigma2 = drawn$sigma2, tau2 = exp(drawn$log_t2 - post$log_unit))
}
