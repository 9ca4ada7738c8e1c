# Right singular vectors V of the standardised columns, and roots of covariances, of posteriors that keep the rows of the
# data in their place: as large as the data once, and not once for each node. `post$data` are the columns as they were
# given; a posterior from elsewhere has V itself (`right`) or the standardised rows (`rows`).

machine_error <- .Machine$double.eps

# As in ridge/outside.py.
near_share <- 1e-3
difference_error <- 1e-8
eigenvalue_error <- 4 * machine_error
most_lean <- 1e-6
certain_size <- 16

# Elements of some columns at a time, which stay in the processor's cache.
piece <- 3e5

# Standardised columns j of the data, weighted, less what the unpenalised columns have of them (n x |j|).
standard_columns <- function(post, j = seq_along(post$at)) {
  if (!is.null(post[["rows"]])) {
    return(post$rows[, j, drop = FALSE])
  }
  data <- post$data
  x <- unname(data$x[, post$at[j] - data$shift, drop = FALSE])
  out <- (x - unpenalized_columns(post) %*% post$on_z[, j, drop = FALSE]) / rep(post$scale[j], each = nrow(x))
  if (is.null(data$root_w)) out else out * data$root_w
}

column_pieces <- function(post) chunks(length(post$at), piece / max(nrow(post$data$x), 1L))

# The unpenalised columns of the data, that of an added intercept among them (n x u).
unpenalized_columns <- function(post) {
  data <- post$data
  of_z <- post$z_at - data$shift
  out <- matrix(1, nrow(data$x), length(of_z))
  out[, of_z > 0] <- data$x[, of_z[of_z > 0]]
  out
}

# Columns j of what `half` multiplies to V', or of V' itself where it is there.
factor_of_right <- function(post, j) if (is.null(post[["right"]])) standard_columns(post, j) else t(post$right[j, , drop = FALSE])

# Rows j of V. R's own BLAS multiplies transposed copies faster than crossprod() and tcrossprod().
right_of <- function(post, j = seq_along(post$at)) {
  if (!is.null(post[["right"]])) {
    return(post$right[j, , drop = FALSE])
  }
  out <- matrix(0, length(j), ncol(post$half))
  for (at in chunks(length(j), piece / max(nrow(post$half), 1L))) {
    out[at, ] <- t(standard_columns(post, j[at])) %*% post$half
  }
  out
}

# `rows` V, for rows (m x p).
times_right <- function(post, rows) {
  if (!is.null(post[["right"]])) {
    return(rows %*% post$right)
  }
  inner <- matrix(0, nrow(rows), nrow(post$half))
  for (j in column_pieces(post)) inner <- inner + rows[, j, drop = FALSE] %*% t(standard_columns(post, j))
  inner %*% post$half
}

# `coords` V', for coordinates (m x r).
back_from_right <- function(post, coords) {
  if (!is.null(post[["right"]])) {
    return(tcrossprod(coords, post$right))
  }
  inner <- tcrossprod(coords, post$half)
  out <- matrix(0, nrow(coords), length(post$at))
  for (j in column_pieces(post)) out[, j] <- inner %*% standard_columns(post, j)
  out
}

# Share of coefficients j outside the row space, from their rows of V; as in ridge/outside.py.
outside_of <- function(post, j, right = right_of(post, j)) {
  if (!is.null(post[["outside"]])) {
    return(post$outside[j])
  }
  p <- length(post$at)
  if (length(post$s) == p) {
    return(numeric(length(j)))
  }
  s <- post$s / post$s[1L]
  out <- pmax(1 - rowSums(right^2), 0)
  near <- which(out < min(near_share, machine_error / s[length(s)] / difference_error))
  for (at in chunks(length(near), elements / p)) {
    part <- near[at]
    some <- right[part, , drop = FALSE]
    rest <- -back_from_right(post, some)
    own <- cbind(seq_along(part), j[part])
    rest[own] <- rest[own] + 1
    # Once more, since V is orthonormal only up to rounding errors.
    rest <- rest - back_from_right(post, times_right(post, rest))
    square <- rowSums(rest^2)
    lean <- drop(some^2 %*% pmin(eigenvalue_error / s, most_lean)^2)
    out[part] <- ifelse(square > certain_size^2 * lean, square, 0)
  }
  out
}
