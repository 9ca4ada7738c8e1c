# The posterior of a fit as components, whatever its kind: normals (t's where `df` is finite) of coordinates, one for each node
# of the export (pybayesridge/results/export.py says what is what). A linear function of the coefficients, with the coordinates
# c, has at a node the location sum_j c_j mean_j and the squared scale
#
#     sum_j c_j^2 own_j + sum_i sign_i (root_i c)^2 + beyond * outside + noise * leverage,
#
# `outside` being its squared norm outside of the row space, and `leverage` what its unpenalised part has. Nodes with the same
# coordinates are a block. Only this file knows what kinds of exports there are.

# "spectrum" (a ridge), "coordinates" (yes/no responses in the row space), "columns" (expectation propagation), "sets" and
# "states" (kept sets of columns, and for yes/no responses a law for each state), "bands" (ridges, one for each node over shares),
# "mixed" (nodes over variances and correlations).
layout_of <- function(post) {
  layouts <- c(base = "bands", node_root = "coordinates", entries = "mixed", s = "spectrum", state_mean = "states", set_size = "sets", own = "columns")
  unname(layouts[names(layouts) %in% names(post)][1L])
}

# Whether coordinates are those of the row space, and not the columns themselves.
in_row_space <- function(post) !is.null(post[["s"]])

# Whether unpenalised columns have coordinates of their own, which come first, and not a leverage.
is_flat <- function(post) layout_of(post) %in% c("coordinates", "states") || !is.null(post[["flat_slope"]])

# Whether coefficients are functionals of a mixture without spikes.
has_functionals <- function(post) in_row_space(post) || layout_of(post) %in% c("bands", "mixed", "coordinates")

# Whether the posterior is one of sets of columns, so that components can be zero for certain.
has_sets <- function(post) !is.null(post[["set_size"]])

# Whether there is a joint posterior of all coefficients. That of expectation propagation is a Gaussian, whose coefficients have
# spikes and slabs of their own beside it.
has_joint <- function(post) is.null(post[["slab_weight"]])

# The components of one target whose weight is above `floor`: `weight` (K), `noise` and `beyond` (K, or NULL for none) and
# `blocks`, lists of
#   nodes            their positions among the K
#   mean, own        (nodes x d; own NULL for none)
#   root, sign, of   (rows x d; of: the node of a row, by its position in `nodes`)
#   columns, turn    coordinates that the block uses, and a matrix that they are multiplied by (NULL: all, and none), or the roots
#                    of covariances (mixed_posterior.R)
#   slope            what flat coordinates take from the others, per coordinate (u x p)
#   lower, x         |lower x (own c)|^2 is to be subtracted: a list with a triangular matrix to be solved for each node (or NULL)
#   beyond, ...      of bands: see band_posterior.R
#   equations, ...   of correlated effects: see mixed_posterior.R
components <- function(post, target = 1L, floor = -1) {
  # Each target has nodes of its own where effects are correlated.
  if (layout_of(post) == "mixed") floor <- max(floor, 0)
  keep <- if (nrow(post$weight) == 1L) 1L else which(post$weight[, target] > floor)
  out <- switch(layout_of(post),
    spectrum = of_spectrum(post, target, post$log_t2[keep, target], post$noise[keep, target]),
    bands = of_bands(post, keep, target),
    mixed = of_mixed(post, keep, target),
    coordinates = of_coordinates(post, keep),
    columns = of_columns(post, keep),
    sets = of_sets(post, keep),
    states = of_states(post, keep)
  )
  c(list(keep = keep, weight = post$weight[keep, target]), out)
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

of_spectrum <- function(post, target, log_t2, noise) {
  block <- block_of_spectrum(post$s, post$z[, target], log_t2, noise)
  list(noise = noise, beyond = beyond_of(log_t2, noise), blocks = list(c(list(nodes = seq_along(log_t2)), block)))
}

# Variances of what is outside of the row space.
beyond_of <- function(log_t2, noise) ifelse(noise == 0, 0, noise * exp(log_t2))

# Means and variances in the singular vectors, a row for each node.
block_of_spectrum <- function(s, z, log_t2, noise) {
  shrunk <- shrinkage(s, log_t2)
  size <- nrow(shrunk)
  own <- shrunk * (noise * rep(1 / s^2, each = size))
  own[log_t2 == -Inf, ] <- 0
  list(mean = shrunk * rep(z / s, each = size), own = own)
}

of_coordinates <- function(post, keep) {
  m <- ncol(post$node_mean)
  of <- rep(seq_along(keep), each = m)
  rows <- (keep[of] - 1L) * m + rep(seq_len(m), length(keep))
  block <- list(
    nodes = seq_along(keep), mean = post$node_mean[keep, , drop = FALSE], root = post$node_root[rows, , drop = FALSE],
    sign = rep(1, length(of)), of = of
  )
  if (is.null(post[["log_t2"]])) {
    # Of several bands, where all is inside.
    return(list(blocks = list(block)))
  }
  list(beyond = exp(post$log_t2[keep, 1L]), blocks = list(block))
}

of_columns <- function(post, keep) {
  flat <- is_flat(post)
  x <- if (length(post[["lower_of"]])) standard_columns(post)
  rows_of <- function(i, width) (i - 1L) * width + seq_len(width)
  blocks <- lapply(seq_along(keep), function(i) {
    node <- keep[i]
    rows <- post$root_of == node
    out <- list(
      nodes = i, mean = post$mean[node, , drop = FALSE], own = post$own[node, , drop = FALSE],
      root = post$root[rows, , drop = FALSE], sign = post$root_sign[rows], of = rep(1L, sum(rows))
    )
    at <- match(node, post[["lower_of"]])
    if (length(at) && !is.na(at)) {
      out$lower <- post$lower[rows_of(at, nrow(x)), , drop = FALSE]
      out$x <- x
    }
    if (flat) {
      k <- length(post$z_at)
      of_flat <- rows_of(node, k)
      out$slope <- post$flat_slope[of_flat, , drop = FALSE]
      out$mean <- cbind(post$flat_mean[node, , drop = FALSE], out$mean)
      out$own <- cbind(matrix(0, 1L, k), out$own)
      out$root <- rbind(
        cbind(t(post$flat_root[of_flat, , drop = FALSE]), matrix(0, k, ncol(out$root))),
        cbind(matrix(0, nrow(out$root), k), out$root)
      )
      out$sign <- c(rep(1, k), out$sign)
      out$of <- rep(1L, length(out$sign))
    }
    out
  })
  list(noise = if (!flat) post$noise[keep, 1L], blocks = blocks)
}

# Positions of the columns of each set among the visited ones.
set_members <- function(post) {
  sets <- factor(rep(seq_along(post$set_size), post$set_size), levels = seq_along(post$set_size))
  unname(split(post$set_columns, sets))
}

# Given its noise variance s2 the coefficients of a state with the set A are N(M^-1 c_A, s2 M^-1), M = B_A'B_A + k: in the
# eigenvectors of B_A'B_A every state of a set is diagonal.
of_sets <- function(post, keep) {
  members <- set_members(post)
  noise <- post$noise[keep, 1L]
  of_set <- split(seq_along(keep), post$state_set[keep])
  blocks <- lapply(names(of_set), function(name) {
    at <- members[[as.integer(name)]]
    nodes <- of_set[[name]]
    products <- crossprod(post$square_root[, at, drop = FALSE])
    e <- list(values = as.vector(products), vectors = diag(length(at)))
    if (length(at) > 1L) e <- eigen(products, symmetric = TRUE)
    shrunk <- 1 / outer(exp(-post$log_g[keep[nodes]]), pmax(e$values, 0), "+")
    cross <- drop(crossprod(e$vectors, post$cross[at]))
    list(
      nodes = nodes, columns = post$visited[at], turn = e$vectors, mean = shrunk * rep(cross, each = length(nodes)),
      own = shrunk * noise[nodes]
    )
  })
  list(noise = noise, blocks = blocks)
}

of_states <- function(post, keep) {
  members <- set_members(post)
  sizes <- length(post$z_at) + post$set_size[post$state_set]
  ends <- cumsum(sizes)
  root_ends <- cumsum(sizes^2)
  blocks <- lapply(seq_along(keep), function(i) {
    state <- keep[i]
    d <- sizes[state]
    root <- matrix(post$state_root[root_ends[state] - d^2 + seq_len(d^2)], d, d)
    list(
      nodes = i, columns = post$visited[members[[post$state_set[state]]]],
      mean = matrix(post$state_mean[ends[state] - d + seq_len(d)], 1L), root = t(root), sign = rep(1, d), of = rep(1L, d)
    )
  })
  list(blocks = blocks)
}

# Linear functions of the coefficients, of rows x (m x p) and z (m x u) of the model matrix: `x`, their coordinates, `flat`,
# those of the unpenalised columns, `leverage` and `outside` (m).
functionals <- function(post, x, z) {
  rows <- x - z %*% post$on_z
  rows <- rows / rep(post$scale, each = nrow(rows))
  flat <- z %*% post$z_root
  out <- list(x = rows, flat = flat, leverage = rowSums(flat^2), outside = numeric(nrow(rows)))
  if (!in_row_space(post)) {
    return(out)
  }
  out$x <- times_right(post, rows)
  if (length(post$s) < length(post$at)) {
    # Of what is left, not as a difference of squares: where tau2 is large a share of 1e-20 matters.
    rest <- rowSums((rows - back_from_right(post, out$x))^2)
    out$outside <- ifelse(rest > left_by_rounding * rowSums(rows^2), rest, 0)
  }
  out
}

# Those of the unpenalised coefficients, less what the responses have on these columns.
functionals_of_z <- function(post) {
  k <- length(post$z_at)
  functionals(post, matrix(0, k, length(post$at)), diag(k))
}

# Those of the standardised coefficients j.
functionals_of_columns <- function(post, j) {
  flat <- matrix(0, length(j), length(post$z_at))
  out <- list(flat = flat, leverage = numeric(length(j)), outside = numeric(length(j)))
  if (in_row_space(post)) {
    out$x <- right_of(post, j)
    out$outside <- outside_of(post, j, out$x)
  } else {
    out$x <- matrix(0, length(j), length(post$at))
    out$x[cbind(seq_along(j), j)] <- 1
  }
  out
}

some_functionals <- function(f, at) lapply(f, function(a) if (is.matrix(a)) a[at, , drop = FALSE] else a[at])

both_functionals <- function(f, g) Map(function(a, b) if (is.matrix(a)) rbind(a, b) else c(a, b), f, g[names(f)])

# Coordinates of functionals in a block.
coordinates <- function(f, block, flat) {
  x <- if (is.null(block[["columns"]])) f$x else f$x[, block$columns, drop = FALSE]
  if (!is.null(block[["turn"]])) x <- turned(x, block$turn)
  if (!is.null(block[["slope"]])) x <- x - f$flat %*% block$slope
  if (flat) cbind(f$flat, x) else x
}

# c a', for a matrix or a product of thin ones.
times <- function(c, a) if (is.list(a)) (c %*% t(a$right)) %*% t(a$left) else c %*% t(a)

# Where functionals lie at the components, and their squared scales: m x K. `noise` (m) is the variance of new observations
# relative to that of the noise.
mixture_of <- function(f, parts, post, noise = 0) {
  flat <- is_flat(post)
  size <- length(parts$weight)
  m <- length(f$leverage)
  whole <- length(parts$blocks) == 1L
  where <- scale2 <- if (!whole) matrix(0, m, size)
  for (block in parts$blocks) {
    c <- coordinates(f, block, flat)
    located <- times(c, block$mean)
    spread <- spread_of(c, block)
    if (!is.null(block[["beyond"]])) spread <- spread + outer(outside_of_block(f, block, c), block$beyond)
    if (whole) {
      where <- located
      scale2 <- spread
    } else {
      where[, block$nodes] <- located
      scale2[, block$nodes] <- spread
    }
  }
  if (flat && !is.null(f[["unseen"]])) scale2 <- scale2 + unseen_at_nodes(post, f$unseen, parts$keep)
  beyond <- f$outside > 0
  if (any(beyond)) scale2[beyond, ] <- scale2[beyond, ] + outer(f$outside[beyond], parts$beyond)
  extra <- f$leverage + noise
  if (!is.null(parts$noise) && any(extra > 0)) scale2 <- scale2 + outer(extra, parts$noise)
  list(where = where, scale2 = scale2, weight = parts$weight)
}

# Squared scales of functionals with coordinates c at the nodes of a block, but for noise and what is outside.
spread_of <- function(c, block) {
  out <- if (is.null(block[["own"]])) matrix(0, nrow(c), length(block$nodes)) else times(c^2, block$own)
  signs <- block[["sign"]]
  if (length(signs)) {
    sums <- rowsum(tcrossprod(block$root, c)^2 * signs, block$of)
    at <- as.integer(rownames(sums))
    out[, at] <- out[, at] + t(sums)
  }
  if (!is.null(block[["equations"]])) out <- out + block$scale2 * spread_of_equations(c, block$equations)
  if (!is.null(block[["lower"]])) {
    out <- out - colSums(forwardsolve(block$lower, block$x %*% (block$own[1L, ] * t(c)))^2)
  }
  if (any(signs < 0) || !is.null(block[["lower"]])) pmax(out, 0) else out
}

# Factors of products that are cheaper for many functionals, for quantiles that are not extreme: as in linalg/low_rank.py. An error
# of a centre counts in units of the node's scale, and by its weight.
functionals_per_node <- 40
low_rank_error <- 1e-10

thinned <- function(parts, count, probabilities) {
  block <- parts$blocks[[1L]]
  small <- length(parts$blocks) > 1L || !is.null(block[["beyond"]]) || is.null(block[["own"]]) || length(block[["sign"]]) || !is.null(block[["lower"]])
  if (small || count <= functionals_per_node * min(dim(block$mean)) || any(pmin(probabilities, 1 - probabilities) < extreme)) {
    return(parts)
  }
  slack <- 1 / (length(parts$weight) * parts$weight)
  parts$blocks[[1L]]$mean <- thin(block$mean, sqrt(block$own), slack)
  parts$blocks[[1L]]$own <- thin(block$own, block$own, rep(1, length(parts$weight)))
  parts
}

# A matrix as a product whose entries err by the `low_rank_error` times slack (of rows) times `size` at most, where that is cheaper.
thin <- function(a, size, slack) {
  logs <- log(size)
  of_rows <- exp(rowMeans(logs) - mean(logs)) * slack
  of_columns <- -row_maxima(t(-size * (slack / of_rows)))
  scaled <- a / of_rows / rep(of_columns, each = nrow(a))
  if (!length(a) || !all(is.finite(scaled))) {
    return(a)
  }
  parts <- svd(scaled)
  tail <- sqrt(rev(cumsum(rev(parts$d^2))))
  few <- max(1L, sum(tail > low_rank_error / 2))
  if (8 * .Machine$double.eps * parts$d[1L] > low_rank_error / 2 || few * sum(dim(a)) >= length(a) / 2) {
    return(a)
  }
  some <- seq_len(few)
  list(
    left = parts$u[, some, drop = FALSE] * rep(parts$d[some], each = nrow(a)) * of_rows,
    right = t(parts$v[, some, drop = FALSE] * of_columns)
  )
}

# The same with the components at which a functional is zero for certain as its spike.
without_atoms <- function(each) {
  each$scale <- sqrt(each$scale2)
  each$spike <- numeric(nrow(each$where))
  atom <- each$scale2 == 0
  if (any(atom)) {
    atom <- atom & each$where == 0
    weight <- if (is.null(dim(each$weight))) array(rep(each$weight, each = nrow(atom)), dim(atom)) else each$weight
    each$spike <- rowSums(weight * atom)
    each$weight <- weight * !atom
    each$scale[atom] <- 1
  }
  each
}
