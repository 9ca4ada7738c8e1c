# Quantiles from the components of a posterior (components.R), and the posterior of the penalty.

negligible <- 1e-12
elements <- 4e6
# Of quantiles, whose arrays are passed over many times: they stay in the processor's cache.
elements_at_once <- 2e5
left_by_rounding <- (64 * .Machine$double.eps)^2
newton_steps <- 3L

# Variance relative to squared scale.
variance_factor <- function(df) {
  if (is.infinite(df)) 1 else if (df > 2) df / (df - 2) else Inf
}

# Quantiles of every functional, m x length(probabilities), for one target or (as a third dimension) several.
functional_quantiles <- function(f, post, target, probabilities, noise = 0) {
  m <- length(f$leverage)
  noise <- rep(noise, length.out = m)
  size <- nrow(post$weight)
  out <- array(0, c(m, length(probabilities), length(target)))
  law <- student(post$df, size * m * length(target), probabilities)
  for (some in chunks(length(target), elements_at_once / size / m)) {
    parts <- lapply(target[some], function(i) thinned(components(post, i, negligible), m, probabilities))
    for (at in chunks(m, elements_at_once / size)) {
      part <- some_functionals(f, at)
      of_each <- lapply(parts, function(one) mixture_of(part, one, post, noise[at]))
      each <- without_atoms(merged(above_each_other(of_each)))
      found <- mixture_quantiles(each$where, each$scale, each$weight, post$df, probabilities, each$spike, law)
      out[at, , some] <- aperm(array(found, c(length(at), length(some), length(probabilities))), c(1L, 3L, 2L))
    }
  }
  out <- out * rep(post$y_norm[target], each = m * length(probabilities))
  if (length(target) == 1L) matrix(out, m, length(probabilities)) else out
}

# The mixtures of several targets as one, of all their rows: nodes of no weight make up for those that some have less.
above_each_other <- function(mixtures) {
  if (length(mixtures) == 1L) {
    return(mixtures[[1L]])
  }
  size <- max(vapply(mixtures, function(one) ncol(one$where), 0L))
  all <- function(name) {
    do.call(rbind, lapply(mixtures, function(one) one[[name]][, pmin(seq_len(size), ncol(one$where)), drop = FALSE]))
  }
  weight <- lapply(mixtures, function(one) {
    matrix(c(one$weight, numeric(size - length(one$weight))), nrow(one$where), size, byrow = TRUE)
  })
  list(where = all("where"), scale2 = all("scale2"), weight = do.call(rbind, weight))
}

# Components with common weights, of which the last ones are one where they differ by less than `indistinct` over their weight: what
# is not shrunk at one penalty is not at any smaller one.
indistinct <- 1e-14

merged <- function(each) {
  size <- ncol(each$where)
  if (size < many_components || !is.null(dim(each$weight))) {
    return(each)
  }
  where <- each$where[, size]
  scale2 <- each$scale2[, size]
  if (any(scale2 == 0)) {
    return(each)
  }
  scale <- sqrt(scale2)
  last <- size
  while (last > 1L) {
    k <- last - 1L
    apart <- max(abs(each$where[, k] - where) / scale + abs(each$scale2[, k] / scale2 - 1))
    if (apart * each$weight[k] > indistinct) break
    last <- k
  }
  keep <- seq_len(last)
  weight <- each$weight[keep]
  weight[last] <- sum(each$weight[last:size])
  into <- c(seq_len(last - 1L), size)
  list(where = each$where[, into, drop = FALSE], scale2 = each$scale2[, into, drop = FALSE], weight = weight)
}

chunks <- function(m, step) {
  step <- max(1, floor(step))
  lapply(seq_len(ceiling(m / step)), function(i) ((i - 1) * step + 1):min(i * step, m))
}

# Quantiles of standardised penalised coefficients j, a third dimension for several targets.
penalized_quantiles <- function(object, target, probabilities, j) {
  post <- object$posterior
  if (has_functionals(post)) {
    return(functional_quantiles(functionals_of_columns(post, j), post, target, probabilities))
  }
  found <- law_quantiles(j, probabilities, post$df, size_of_laws(post, j), function(some) law_of_penalized(object, some, target))
  found * post$y_norm[target]
}

# Quantiles of the laws of some quantities: `law` gives where, scale, weight (m x K) and spike (m) of those `at`, which have so
# many components.
law_quantiles <- function(at, probabilities, df, sizes, law) {
  out <- matrix(0, length(at), length(probabilities))
  sorted <- order(-sizes)
  while (length(sorted)) {
    count <- max(1, min(length(sorted), elements_at_once %/% max(sizes[sorted[1L]], 1)))
    some <- sorted[seq_len(count)]
    sorted <- sorted[-seq_len(count)]
    each <- law(at[some])
    # What is zero for certain has no component.
    varies <- rowSums(each$weight) > 0
    if (!any(varies)) next
    rows <- function(a) a[varies, , drop = FALSE]
    out[some[varies], ] <- mixture_quantiles(
      rows(each$where), rows(each$scale), rows(each$weight), df, probabilities, each$spike[varies]
    )
  }
  out
}

# How many components the laws of standardised coefficients j have.
size_of_laws <- function(post, j) {
  if (!has_sets(post)) {
    return(rep(nrow(post$weight), length(j)))
  }
  states <- tabulate(post$state_set, length(post$set_size))
  counts <- tapply(rep(states, post$set_size), factor(post$visited[post$set_columns], levels = seq_along(post$at)), sum, default = 0)
  as.vector(counts)[j]
}

# The law of standardised penalised coefficients j, in units of the response's norm. Of a selection spike and slab have their own:
# of sets the states that have the column share its inclusion probability, which is more accurate than their weights.
law_of_penalized <- function(fit, j, target = 1L) {
  post <- fit$posterior
  if (has_sets(post)) {
    return(law_of_sets(post, j, unname(fit$inclusion_prob[post$at])[j]))
  }
  if (has_functionals(post)) {
    return(law_of_mixture(mixture_of(functionals_of_columns(post, j), components(post, target, negligible), post)))
  }
  weight <- t(post$slab_weight[, j, drop = FALSE] * post$weight[, 1L])
  scale <- sqrt(t(post$slab_var[, j, drop = FALSE]))
  law <- list(where = t(post$slab_mean[, j, drop = FALSE]), scale = scale, weight = weight, spike = 1 - rowSums(weight))
  point <- scale == 0 & law$where == 0
  law$spike <- law$spike + rowSums(weight * point)
  law$weight[point] <- 0
  law$scale[point] <- 1
  law
}

# Components as a law, `unit` (of the response) and `shift` (m) later.
law_of_mixture <- function(each, unit = 1, shift = 0) {
  each$where <- each$where * unit + shift
  each$scale2 <- each$scale2 * unit^2
  each <- without_atoms(each)
  if (is.null(dim(each$weight))) each$weight <- array(rep(each$weight, each = nrow(each$where)), dim(each$where))
  each[c("where", "scale", "weight", "spike")]
}

law_of_sets <- function(post, j, prob) {
  found <- state_coefficients(post)
  of_column <- split(seq_along(found$column), factor(found$column, levels = j))
  size <- max(lengths(of_column), 1L)
  where <- weight <- matrix(0, length(j), size)
  scale <- matrix(1, length(j), size)
  spike <- 1 - prob
  for (i in seq_along(j)) {
    at <- of_column[[i]]
    if (!length(at) || prob[i] <= 0) {
      spike[i] <- 1
      next
    }
    into <- seq_along(at)
    own <- post$weight[found$state[at], 1L]
    where[i, into] <- found$mean[at]
    scale[i, into] <- sqrt(found$scale2[at])
    weight[i, into] <- prob[i] * own / sum(own)
  }
  list(where = where, scale = scale, weight = weight, spike = spike)
}

# Mean and squared scale of every coefficient of every state.
state_coefficients <- function(post) {
  k <- if (is_flat(post)) length(post$z_at) else 0L
  found <- lapply(components(post)$blocks, function(block) {
    p <- length(block$columns)
    d <- length(block$nodes)
    if (!p) {
      return(NULL)
    }
    turn <- block[["turn"]] %||% cbind(matrix(0, p, k), diag(p))
    list(
      state = rep(block$nodes, each = p), column = rep(block$columns, d), mean = as.vector(tcrossprod(turn, block$mean)),
      scale2 = as.vector(spread_of(turn, block))
    )
  })
  joined <- function(name) as.numeric(unlist(lapply(found, `[[`, name)))
  list(state = joined("state"), column = joined("column"), mean = joined("mean"), scale2 = joined("scale2"))
}

# The law of coefficients `at`, in their units.
law_of_coefficients <- function(fit, at, target = 1L) {
  post <- fit$posterior
  of_z <- match(at, post$z_at)
  j <- match(at, post$at)
  into <- which(!is.na(j))
  law <- law_of_penalized(fit, j[into], target)
  flat <- which(!is.na(of_z))
  of_flat <- if (length(flat)) {
    each <- mixture_of(functionals_of_z(post), components(post, target, negligible), post)
    law_of_mixture(each, post$y_norm[target], post$y_on_z[, target])
  }
  size <- max(ncol(law$where), ncol(of_flat$where))
  out <- list(
    where = matrix(0, length(at), size), scale = matrix(1, length(at), size), weight = matrix(0, length(at), size),
    spike = rep(1, length(at))
  )
  fill <- function(out, rows, law, unit = 1) {
    of <- seq_len(ncol(law$where))
    out$where[rows, of] <- law$where * unit
    out$scale[rows, of] <- law$scale * unit
    out$weight[rows, of] <- law$weight
    out$spike[rows] <- law$spike
    out
  }
  if (length(into)) out <- fill(out, into, law, post$y_norm[target] / post$scale[j[into]])
  if (length(flat)) fill(out, flat, some_functionals(of_flat, of_z[flat])) else out
}

# Posterior probability that each coefficient is positive; NaN for those that are zero for certain.
coefficients_above <- function(object) {
  post <- object$posterior
  at <- seq_along(coefficient_names(object))
  law <- law_of_coefficients(object, at)
  point <- law$scale == 0
  out <- rowSums(law$weight * ifelse(point, law$where > 0, stats::pt(law$where / ifelse(point, 1, law$scale), post$df)))
  out[!at %in% c(post$z_at, post$at)] <- NaN
  pmin(pmax(out, 0), 1)
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

# Draws of log t2, and the squared scale of the noise there (units of the target's squared norm).
draw_log_t2 <- function(post, target, size) {
  d <- log_t2_distribution(post, target)
  log_t2 <- rep(d$points[1L], size)
  if (length(d$points) > 1L) {
    log_t2 <- stats::approx(d$whole, d$points, stats::runif(size) * max(d$whole), rule = 2, ties = "ordered")$y
  }
  noise <- rep(post$noise[1L, target], size)
  if (is.finite(post$df) && any(post$noise[, target] != 0)) {
    noise <- (drop(complement(post$s, log_t2) %*% post$z[, target]^2) + post$rss0[target]) / post$df
  }
  list(log_t2 = log_t2, noise = noise)
}
