# The posterior of a fit with several bands (pybayesridge/bands/posterior.py): at each node over the shares of the bands
# a ridge, whose columns are those of the design times `factors`. A node is a block of components (components.R), in the singular
# vectors of its columns, with
#   turn      factors times these vectors (p x r)
#   inside    the vectors, `stretch`: the factor of each column, and `factor`: of each band
#   beyond    variances of what is outside of the row space, and of effects of groups that the fit has not seen
#   s, z      singular values, and the responses in the left vectors; log_t2: of the nodes

of_bands <- function(post, keep, target) {
  noise <- post$noise[keep, target]
  log_t2 <- post$log_t2[keep, target]
  of_node <- split(seq_along(keep), post$node_of[keep])
  gram <- if (ncol(post$base) <= few_more * nrow(post$base)) crossprod(post$base)
  toward <- crossprod(post$base, post$z[, target])
  blocks <- lapply(names(of_node), function(name) {
    nodes <- of_node[[name]]
    turned <- rotation_of_node(post, as.integer(name), gram)
    z <- drop(crossprod(turned$turn, toward)) / turned$s
    own <- block_of_spectrum(turned$s, z, log_t2[nodes], noise[nodes])
    c(list(nodes = nodes, z = z, log_t2 = log_t2[nodes], beyond = beyond_of(log_t2[nodes], noise[nodes])), own, turned)
  })
  list(noise = noise, blocks = blocks)
}

# With up to so many times as many columns as rows of the base, eigenvectors of cross-products take half the time of singular
# vectors. They are as accurate unless eigenvalues are smaller than this, relative to the largest.
few_more <- 1.2
least_eigenvalue <- 1e-6

# The right singular vectors of the columns of a node, and the singular values; `gram` are the cross-products of the base.
rotation_of_node <- function(post, node, gram = NULL) {
  stretch <- post$factors[node, post$band]
  some <- seq_len(min(dim(post$base)))
  found <- if (!is.null(gram)) eigen(gram * outer(stretch, stretch), symmetric = TRUE)
  if (!is.null(found) && length(some) && found$values[length(some)] > least_eigenvalue * found$values[1L]) {
    s <- sqrt(found$values[some])
    inside <- found$vectors[, some, drop = FALSE]
  } else {
    found <- svd(post$base * rep(stretch, each = nrow(post$base)), nu = 0L)
    s <- found$d
    inside <- found$v
  }
  list(s = s, inside = inside, turn = inside * stretch, stretch = stretch, factor = post$factors[node, ])
}

# Squared norms of functionals outside of the row space of a block, those of effects of new groups among them; `c` are their
# coordinates.
outside_of_block <- function(f, block, c) {
  if (is.null(block[["inside"]])) {
    return(unseen_of_block(f, block))
  }
  out <- numeric(nrow(c))
  if (ncol(block$inside) < nrow(block$inside)) {
    rows <- f$x * rep(block$stretch, each = nrow(f$x))
    # Of what is left, not as a difference of squares.
    rest <- rowSums((rows - tcrossprod(c, block$inside))^2)
    out <- ifelse(rest > left_by_rounding * rowSums(rows^2), rest, 0)
  }
  if (!is.null(f[["unseen"]])) out <- out + drop(f$unseen^2 %*% block$factor^2)
  out
}

# The covariance outside of the row space, for a variance of 1.
products_outside <- function(block) {
  if (is.null(block[["inside"]])) {
    return(0)
  }
  p <- nrow(block$inside)
  if (ncol(block$inside) == p) {
    return(matrix(0, p, p))
  }
  (diag(p) - tcrossprod(block$inside)) * outer(block$stretch, block$stretch)
}

# Draws of what coefficients have there, given their standard deviations.
draws_outside <- function(block, sd) {
  p <- nrow(block$inside)
  if (is.null(p) || ncol(block$inside) == p) {
    return(0)
  }
  noise <- matrix(stats::rnorm(length(sd) * p), length(sd)) * sd
  (noise - tcrossprod(noise %*% block$inside, block$inside)) * rep(block$stretch, each = length(sd))
}

# Residuals of rows without themselves and 1 less their leverages, as slack_in_row_space().
slack_of_bands <- function(f, post, parts, y, root_w, n) {
  slack <- residual <- matrix(0, length(y), length(parts$weight))
  for (block in parts$blocks) {
    found <- slack_of_spectrum(
      f$x %*% block$turn, block$s, block$z, block$log_t2, f$leverage, y, root_w, n, length(post$z_at)
    )
    slack[, block$nodes] <- found$slack
    residual[, block$nodes] <- found$residual
  }
  list(least = found$least, slack = slack, residual = residual)
}

# Variances of the bands relative to the noise at nodes, a column for each: tau2[band], on the scale of the prior.
drawn_variances <- function(object, target, node) {
  post <- object$posterior
  of_mixed <- !is.null(post[["entries"]])
  if (of_mixed) {
    covariances <- covariances_at(post, node)
    out <- covariances$variances * exp(-post$log_unit)
  } else {
    out <- exp(post$log_t2[node, target] - post$log_unit) * post$factors[post$node_of[node], , drop = FALSE]^2
  }
  colnames(out) <- paste0("tau2[", object$bands, "]")
  if (of_mixed) out <- cbind(out, named_correlations(object, covariances$correlations))
  as.data.frame(out, optional = TRUE)
}

# Draws of the share of variance that all bands explain together, of one target.
share_of_bands <- function(object, target) {
  post <- object$posterior
  size <- max(4000L, min(20000L, 2^23 %/% max(length(post$band), 1L)) %/% 2L)
  drawn <- drawn_components(post, target, size)
  theta <- drawn_coordinates(post, drawn, size, "gaussian")
  if (is_flat(post)) theta <- theta[, -seq_along(post$z_at), drop = FALSE]
  fit <- if (is.null(post[["base"]])) rowSums((theta %*% post$gram) * theta) else rowSums(tcrossprod(theta, post$base)^2)
  family <- family_of(object)
  sigma2 <- if (family$noise) drawn$parts$noise[drawn$node] * drawn$mix^2 else family$latent(object, shapes_at(post, drawn))
  fit / (fit + object$nobs * sigma2)
}

# Quantiles of the laws of variances and shares, from their tables: of the standard deviation of a band, of its share in the
# variance of an observation, of a correlation, of the noise variance.
quantiles_of_component <- function(object, row, target, probabilities) {
  found <- object$components
  sizes <- as.matrix(found$sizes)
  end <- cumsum(sizes)[(target - 1L) * nrow(sizes) + row]
  at <- seq_len(sizes[row, target]) + end - sizes[row, target]
  value <- found$points[at]
  if (length(at) > 1L) {
    scores <- pmin(pmax(stats::qnorm(probabilities), found$scores[at[1L]]), found$scores[at[length(at)]])
    value <- stats::splinefun(found$scores[at], value, method = "hyman")(scores)
  } else {
    value <- rep(value, length(probabilities))
  }
  switch(found$quantity[row], sd = exp(value / 2), share = stats::plogis(value), correlation = tanh(value), exp(value))
}

# The rows of a quantity among the components.
rows_of_quantity <- function(object, quantity) which(object$components$quantity == quantity)

component_means <- function(object, rows, target) as.matrix(object$components$mean)[rows, target]
