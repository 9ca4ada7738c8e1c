# The posterior of a fit with correlated effects (pybayesridge/bands/mixed_posterior.py): nodes over variances and correlations, each a
# block of components (components.R). With A the root of the covariances of the effects at a node a block has, in coordinates u of
# coefficients A u,
#   turn        A: `columns` of the bands, and `row`, `column` and `value` of its entries
#   equations   the upper triangular factor of H = A' gram A + I, whose inverse is the covariance relative to the noise
#   scale2      the noise, beyond: likewise, of effects of groups that the fit has not seen

of_mixed <- function(post, keep, target) {
  noise <- post$noise[keep, target]
  columns <- split(seq_along(post$band), factor(post$band, levels = seq_len(max(post$band))))
  blocks <- lapply(seq_along(keep), function(i) {
    turn <- list(columns = columns, row = post$entry_row, column = post$entry_column, value = post$entries[keep[i], ])
    h <- turned(t(turned(post$gram, turn)), turn)
    diag(h) <- diag(h) + 1
    upper <- chol(h)
    right <- turned(t(post$gram_y[, target]), turn)
    u <- backsolve(upper, backsolve(upper, t(right), transpose = TRUE))
    list(nodes = i, mean = t(u), turn = turn, equations = upper, scale2 = noise[i], beyond = noise[i])
  })
  list(noise = noise, blocks = blocks)
}

# x A, of a matrix A or the roots of the covariances of effects.
turned <- function(x, turn) {
  if (!is.list(turn)) {
    return(x %*% turn)
  }
  out <- matrix(0, nrow(x), ncol(x))
  for (e in seq_along(turn$value)) {
    to <- turn$columns[[turn$column[e]]]
    out[, to] <- out[, to] + turn$value[e] * x[, turn$columns[[turn$row[e]]]]
  }
  out
}

# x A'.
turned_back <- function(x, turn) {
  if (!is.list(turn)) {
    return(tcrossprod(x, turn))
  }
  turned(x, list(columns = turn$columns, row = turn$column, column = turn$row, value = turn$value))
}

# Squared scales of functionals with coordinates c relative to the noise.
spread_of_equations <- function(c, upper) colSums(backsolve(upper, t(c), transpose = TRUE)^2)

inverse_of_equations <- function(upper) chol2inv(upper)

# Draws of the deviations of u, a row for each of the standard deviations of the noise.
draws_of_equations <- function(upper, sd) {
  d <- nrow(upper)
  t(backsolve(upper, matrix(stats::rnorm(d * length(sd)), d))) * sd
}

# Variances of the effects of groups that the fit has not seen, relative to the noise.
unseen_of_block <- function(f, block) {
  if (is.null(f[["unseen"]])) {
    return(numeric(length(f$leverage)))
  }
  turn <- block$turn
  turn$columns <- seq_len(ncol(f$unseen))
  rowSums(turned(f$unseen, turn)^2)
}

# The same at nodes (m x K) of responses that are not Gaussian.
unseen_at_nodes <- function(post, unseen, nodes) {
  columns <- as.list(seq_len(ncol(unseen)))
  found <- vapply(nodes, function(node) {
    turn <- list(columns = columns, row = post$entry_row, column = post$entry_column, value = post$entries[node, ])
    rowSums(turned(unseen, turn)^2)
  }, numeric(nrow(unseen)))
  matrix(found, nrow(unseen), length(nodes))
}

# Variances of the effects of bands at nodes (a column for each), and correlations (a column for each pair of bands of a term).
covariances_at <- function(post, node) {
  count <- max(post$band)
  roots <- array(0, c(length(node), count, count))
  for (e in seq_along(post$entry_row)) roots[, post$entry_row[e], post$entry_column[e]] <- post$entries[node, e]
  products <- function(i, j) rowSums(matrix(roots[, i, ] * roots[, j, ], length(node)))
  variances <- vapply(seq_len(count), function(i) products(i, i), numeric(length(node)))
  variances <- matrix(variances, length(node), count)
  pairs <- pairs_of_bands(post)
  correlations <- vapply(seq_len(nrow(pairs)), function(k) {
    i <- pairs[k, 1L]
    j <- pairs[k, 2L]
    norm <- sqrt(variances[, i] * variances[, j])
    ifelse(norm > 0, products(i, j) / ifelse(norm > 0, norm, 1), 0)
  }, numeric(length(node)))
  list(variances = variances, correlations = matrix(correlations, length(node), nrow(pairs)))
}

# The pairs of bands whose effects are correlated, in the order of the components.
pairs_of_bands <- function(post) {
  apart <- post$entry_row != post$entry_column
  cbind(post$entry_column[apart], post$entry_row[apart])
}

named_correlations <- function(object, correlations) {
  colnames(correlations) <- object$components$band[rows_of_quantity(object, "correlation")]
  correlations
}
