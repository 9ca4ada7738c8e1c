# Draws of normal laws with the covariance diag(own) + root' diag(sign) root, part of which can be in products of `lower` and the
# rows of the data (row_space.R), and of the spikes and slabs of expectation propagation.

# The normal law of node i of a block: mean, own, root and sign.
gaussian_of <- function(block, i = 1L) {
  own <- if (!is.null(block[["own"]])) block$own[i, ] else numeric(ncol(block$mean))
  rows <- block$of == i
  # L^-1 X diag(own).
  half <- if (!is.null(block[["lower"]])) forwardsolve(block$lower, block$x * rep(own, each = nrow(block$x)))
  list(
    mean = block$mean[i, ], own = own, root = rbind(half, block$root[rows, , drop = FALSE]),
    sign = c(rep(-1, NROW(half)), block$sign[rows])
  )
}

# The same of the penalised coefficients of a block with `k` flat coordinates, with their spikes and slabs.
node_of <- function(post, block, i, k) {
  g <- gaussian_of(block)
  if (k) {
    g$mean <- g$mean[-seq_len(k)]
    g$own <- g$own[-seq_len(k)]
    g$root <- g$root[-seq_len(k), -seq_len(k), drop = FALSE]
    g$sign <- g$sign[-seq_len(k)]
  }
  c(g, lapply(post[c("slab_weight", "slab_mean", "slab_var")], function(a) a[i, ]), list(groups = post$groups))
}

# Draws whose every column has its own spike and slab, tied together as the Gaussian's are: its standard normal scores
# become probabilities, and these quantiles of spike and slab (a Gaussian copula). Columns of a group are in or out together.
spike_draws <- function(g, size) {
  score <- standard_scores(g, gaussian_draws(g, size))
  out <- matrix(0, size, length(g$mean))
  several <- g$groups %in% g$groups[duplicated(g$groups)]
  over <- function(a) matrix(a, size, 1L)
  for (j in if (length(several)) which(!several) else seq_along(g$mean)) {
    p <- g$slab_weight[j]
    sd <- sqrt(g$slab_var[j])
    out[, j] <- if (p >= 1 || sd == 0) {
      if (p > 0) g$slab_mean[j] + sd * score[, j] else 0
    } else {
      mixture_quantile(over(g$slab_mean[j]), over(sd), p, Inf, stats::pnorm(score[, j]), rep(1 - p, size))
    }
  }
  for (at in split(seq_along(g$groups)[several], g$groups[several])) {
    out[, at] <- group_draws(score[, at, drop = FALSE], g, at)
  }
  out
}

# Deviations from means in standard deviations; 0 for a column that does not vary.
standard_scores <- function(g, draws) {
  sd <- sqrt(pmax(g$own + colSums(g$sign * g$root^2), 0))
  draws / rep(ifelse(sd > 0, sd, Inf), each = nrow(draws))
}

# Draws of the columns `at` of one group. It is in where its scores lie far enough in the direction of its slab's mean;
# given that, this direction is made standard normal again, and the rest of the scores is as it was.
group_draws <- function(score, g, at) {
  p <- g$slab_weight[at[1L]]
  mean <- g$slab_mean[at]
  sd <- sqrt(g$slab_var[at])
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
  root <- g$root[, at, drop = FALSE]
  covariance <- diag(g$own[at], length(at)) + crossprod(root, g$sign * root)
  spread <- sqrt(pmax(diag(covariance), 0))
  spread[spread == 0] <- Inf
  covariance / outer(spread, spread)
}

# Draws of deviations from the mean.
gaussian_draws <- function(g, size) {
  p <- length(g$mean)
  plus <- g$root[g$sign > 0, , drop = FALSE]
  out <- matrix(stats::rnorm(size * nrow(plus)), size) %*% plus
  if (any(g$own > 0)) {
    root <- sqrt(g$own)
    half <- sweep(g$root[g$sign < 0, , drop = FALSE], 2L, ifelse(root > 0, root, 1), "/")
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
