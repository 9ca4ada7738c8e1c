# Selections for yes/no responses by expectation propagation: their posterior, worked out from what Python exports of it.
# pybayesridge/results/export_sets.py says what is what. Given the penalised coefficients w of a node, the coordinates of the
# unpenalised columns are normal with mean flat_mean - flat_slope w and the root flat_root of their covariance.

is_binary_ep <- function(post) !is.null(post[["flat_slope"]])

# The law of node i of the coordinates of the unpenalised columns given the others.
flat_of_node <- function(post, i) {
  k <- length(post$z_at)
  at <- (i - 1L) * k + seq_len(k)
  list(
    mean = post$flat_mean[i, ], slope = post$flat_slope[at, , drop = FALSE], root = post$flat_root[at, , drop = FALSE]
  )
}

# As mixture_of(): where functionals lie at the nodes, and their squared scales.
mixture_of_binary_ep <- function(f, post) {
  where <- scale2 <- matrix(0, nrow(post$weight), length(f$leverage))
  for (i in seq_len(nrow(where))) {
    node <- node_of(post, i)
    flat <- flat_of_node(post, i)
    rows <- f$rows - f$flat %*% flat$slope
    where[i, ] <- f$flat %*% flat$mean + rows %*% node$mean
    inside <- drop(rows^2 %*% node$own) + colSums(node$sign * (node$root %*% t(rows))^2)
    scale2[i, ] <- pmax(inside, 0) + rowSums((f$flat %*% flat$root)^2)
  }
  list(where = where, scale2 = scale2, weight = post$weight[, 1L])
}

# Covariance of (unpenalised, standardised penalised) coefficients.
covariance_of_binary_ep <- function(post) {
  k <- length(post$z_at)
  p <- length(post$at)
  of_z <- seq_len(k)
  of_x <- k + seq_len(p)
  weight <- post$weight[, 1L]
  within <- matrix(0, k + p, k + p)
  means <- matrix(0, length(weight), k + p)
  for (i in seq_along(weight)) {
    node <- node_of(post, i)
    flat <- flat_of_node(post, i)
    own <- diag(node$own, p) + crossprod(node$root, node$sign * node$root)
    cross <- -flat$slope %*% own
    within[of_x, of_x] <- within[of_x, of_x] + weight[i] * own
    within[of_z, of_x] <- within[of_z, of_x] + weight[i] * cross
    within[of_z, of_z] <- within[of_z, of_z] + weight[i] * (tcrossprod(flat$root) - tcrossprod(cross, flat$slope))
    means[i, ] <- c(flat$mean - flat$slope %*% node$mean, node$mean)
  }
  within[of_x, of_z] <- t(within[of_z, of_x])
  centred <- sweep(means, 2L, drop(weight %*% means))
  turn <- diag(k + p)
  turn[of_z, of_z] <- post$z_root
  turn[of_z, of_x] <- functionals_of_z(post)$rows
  turn %*% (within + crossprod(centred * weight, centred)) %*% t(turn)
}

# Draws of the coordinates of the unpenalised columns (size x u), given those of the others (size x p) and their nodes.
flat_draws <- function(post, b, node) {
  k <- length(post$z_at)
  out <- matrix(stats::rnorm(nrow(b) * k), nrow(b), k)
  for (i in unique(node)) {
    at <- node == i
    flat <- flat_of_node(post, i)
    noise <- tcrossprod(out[at, , drop = FALSE], flat$root)
    out[at, ] <- rep(flat$mean, each = sum(at)) - tcrossprod(b[at, , drop = FALSE], flat$slope) + noise
  }
  out
}

# As coefficients_above(); of a penalised coefficient spike and slab together.
binary_ep_above <- function(object) {
  post <- object$posterior
  out <- rep(NaN, length(object$coefficients))
  if (length(post$z_at)) {
    each <- mixture_of_binary_ep(functionals_of_z(post), post)
    out[post$z_at] <- drop(each$weight %*% stats::pnorm(each$where / sqrt(each$scale2)))
  }
  varies <- post$slab_var > 0
  above <- ifelse(varies, stats::pnorm(post$slab_mean / sqrt(ifelse(varies, post$slab_var, 1))), post$slab_mean > 0)
  out[post$at] <- drop(post$weight[, 1L] %*% (post$slab_weight * above))
  pmin(pmax(out, 0), 1)
}
