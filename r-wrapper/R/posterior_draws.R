# Draws of coefficients from the components of a posterior.

# Draws of one target: coefficients (size x k), the noise variance of each draw (if there is noise), of a ridge its tau2, and other
# hyperparameters. `kind` matters to expectation propagation: see posterior_sample().
posterior_draws <- function(object, target, size, kind = "gaussian") {
  post <- object$posterior
  k <- length(post$z_at)
  p <- length(post$at)
  drawn <- drawn_components(post, target, size)
  theta <- drawn_coordinates(post, drawn, size, kind)
  unit <- post$y_norm[target]
  of_columns <- unit / post$scale
  b <- if (in_row_space(post)) {
    from_row_space(post, theta, drawn, of_columns)
  } else {
    theta[, ncol(theta) - p + seq_len(p), drop = FALSE] * rep(of_columns, each = size)
  }
  spread <- if (!is.null(drawn$parts$noise)) sqrt(drawn$parts$noise[drawn$node]) * drawn$mix * unit
  flat <- if (is_flat(post)) theta[, seq_len(k), drop = FALSE] else matrix(stats::rnorm(size * k), size, k) * spread
  names <- c(coefficient_names(object), cut_names(object))
  out <- matrix(0, size, length(names), dimnames = list(NULL, names))
  if (k) out[, post$z_at] <- tcrossprod(flat, post$z_root) - tcrossprod(b, post$on_z) + rep(post$y_on_z[, target], each = size)
  out[, post$at] <- b
  sigma2 <- if (!is.null(spread)) spread^2
  cuts <- cut_positions(object)
  hyper <- if (has_sets(post)) {
    state_hyper(post, drawn$node, post$noise[drawn$node, 1L] * drawn$mix^2)
  } else if (!is.null(post[["band"]])) {
    drawn$tau2 <- NULL
    node <- drawn$parts$keep[drawn$node]
    of_bands <- drawn_variances(object, target, node)
    if (is.null(post[["log_shape"]])) of_bands else cbind(of_bands, drawn_shapes(object, node))
  } else if (!is.null(post[["log_shape"]])) {
    drawn_shapes(object, drawn$node)
  }
  if (length(cuts)) {
    of_cuts <- data.frame(increasing_cuts(out[, cuts, drop = FALSE]), check.names = FALSE)
    hyper <- if (is.null(hyper)) of_cuts else cbind(of_cuts, hyper)
  }
  coefficients <- if (length(cuts)) out[, seq_along(coefficient_names(object)), drop = FALSE] else out
  list(coefficients = coefficients, sigma2 = sigma2, tau2 = drawn$tau2, hyper = hyper, node = drawn$parts$keep[drawn$node])
}

# Further parameters of the family at nodes.
drawn_shapes <- function(object, node) {
  post <- object$posterior
  out <- stats::setNames(data.frame(exp(post$log_shape[node])), family_of(object)$shape[["name"]])
  if (!is.null(post[["form"]])) cbind(out, df = post$form[node]) else out
}

# The components that draws are of: `parts`, the `node` of each draw, what its deviations are multiplied by, and tau2.
drawn_components <- function(post, target, size) {
  if (layout_of(post) == "spectrum") {
    # Of the continuous posterior of the penalty: each draw has a component of its own.
    at <- draw_log_t2(post, target, size)
    parts <- c(list(weight = rep(1 / size, size)), of_spectrum(post, target, at$log_t2, at$noise))
    node <- seq_len(size)
    log_t2 <- at$log_t2
  } else {
    # Draws have all nodes, as their positions among the K.
    parts <- components(post, target)
    node <- sample.int(length(parts$weight), size, replace = TRUE, prob = parts$weight)
    log_t2 <- post[["log_t2"]][node, 1L]
  }
  mix <- if (is.finite(post$df)) sqrt(post$df / stats::rchisq(size, post$df)) else rep(1, size)
  list(parts = parts, node = node, mix = mix, tau2 = if (!is.null(log_t2)) exp(log_t2 - post$log_unit))
}

# Draws of the coordinates of functionals, size x D: those of the row space, or the standardised coefficients; flat ones first.
drawn_coordinates <- function(post, drawn, size, kind) {
  k <- if (is_flat(post)) length(post$z_at) else 0L
  out <- matrix(0, size, k + if (in_row_space(post)) length(post$s) else length(post$at))
  for (block in drawn$parts$blocks) {
    of_block <- match(drawn$node, block$nodes)
    rows <- which(!is.na(of_block))
    d <- ncol(block$mean)
    if (!length(rows) || !d) next
    node <- of_block[rows]
    found <- if (kind == "spike_slab" && !is.null(post[["slab_weight"]])) {
      # Given the penalised coefficients the flat coordinates, whose rows of the root are the first, are normal.
      flat <- matrix(stats::rnorm(length(rows) * k), length(rows)) %*% block$root[seq_len(k), seq_len(k), drop = FALSE]
      cbind(
        flat + rep(block$mean[1L, seq_len(k)], each = length(rows)),
        spike_draws(node_of(post, block, drawn$parts$keep[block$nodes], k), length(rows))
      )
    } else {
      block$mean[node, , drop = FALSE] + drawn$mix[rows] * deviations(block, node)
    }
    if (k && !is.null(block[["slope"]])) {
      found[, seq_len(k)] <- found[, seq_len(k)] - tcrossprod(found[, -seq_len(k), drop = FALSE], block$slope)
    }
    if (!is.null(block[["turn"]])) found <- turned_back(found, block$turn)
    if (!is.null(block[["beyond"]])) found <- found + draws_outside(block, sqrt(block$beyond[node]) * drawn$mix[rows])
    out[rows, if (is.null(block[["columns"]])) seq_len(ncol(out)) else c(seq_len(k), k + block$columns)] <- found
  }
  out
}

# Draws of the deviations from the means of the nodes of a block.
deviations <- function(block, node) {
  if (!is.null(block[["equations"]])) {
    return(draws_of_equations(block$equations, rep(sqrt(block$scale2), length(node))))
  }
  d <- ncol(block$mean)
  signs <- block[["sign"]]
  if (!length(signs) && is.null(block[["lower"]])) {
    spread <- sqrt(block$own)
    if (length(node) != nrow(spread) || !identical(node, seq_len(nrow(spread)))) spread <- spread[node, , drop = FALSE]
    return(spread * matrix(stats::rnorm(length(node) * d), length(node)))
  }
  out <- matrix(0, length(node), d)
  for (i in unique(node)) {
    at <- which(node == i)
    out[at, ] <- gaussian_draws(gaussian_of(block, i), length(at))
  }
  out
}

# Coefficients, in their units, of draws in the row space, with what they have outside of it: some columns at a time.
from_row_space <- function(post, theta, drawn, unit) {
  size <- nrow(theta)
  p <- length(post$at)
  inside <- theta[, ncol(theta) - length(post$s) + seq_along(post$s), drop = FALSE]
  if (length(post$s) == p) {
    return(back_from_right(post, inside) * rep(unit, each = size))
  }
  spread <- sqrt(drawn$parts$beyond[drawn$node]) * drawn$mix
  out <- matrix(NA_real_, size, p)
  pieces <- chunks(p, piece / max(size, length(post$s)))
  inner <- 0
  for (j in pieces) {
    noise <- matrix(stats::rnorm(size * length(j)), size) * spread
    out[, j] <- noise
    inner <- inner + noise %*% t(factor_of_right(post, j))
  }
  half <- post[["half"]]
  if (!is.null(post[["right"]])) half <- diag(length(post$s))
  inner <- tcrossprod(inside - inner %*% half, half)
  for (j in pieces) out[, j] <- (out[, j] + inner %*% factor_of_right(post, j)) * rep(unit[j], each = size)
  out
}
