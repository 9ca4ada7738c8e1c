# Posterior standard deviations of functionals (posterior.R) and of coefficients.

# As in ridge/mixture.py: for more functionals than so many times the nodes their locations are reduced to those directions
# that have more than this share of the largest.
few_functionals <- 4
least_spread <- 1e-9

functional_sd <- function(f, post, target) {
  if (is_binary(post)) {
    return(binary_sd(f, post))
  }
  variance <- if (is_ridge(post)) {
    ridge_variance(f, post, target)
  } else {
    each <- mixture_of(f, post, target)
    spread <- ifelse(each$scale2 == 0, 0, variance_factor(post$df) * each$scale2)
    drop(each$weight %*% (spread + sweep(each$where, 2L, drop(each$weight %*% each$where))^2))
  }
  sqrt(variance) * post$y_norm[target]
}

# Variances of functionals of a ridge: the nodes are averaged before the functionals come in, which may be many.
ridge_variance <- function(f, post, target) {
  nodes <- nodes_of(post, target, floor = 0)
  weight <- nodes$weight
  inside <- drop(f$coords^2 %*% drop(weight %*% nodes$inside)) + f$leverage * sum(weight * nodes$noise)
  beyond <- f$outside > 0
  several <- length(weight) > 1L
  open <- isTRUE(post$open_variance) && several
  if (any(beyond)) {
    inside[beyond] <- inside[beyond] + if (open) Inf else f$outside[beyond] * sum(weight * nodes$outside)
  }
  out <- ifelse(inside == 0, 0, variance_factor(post$df) * inside)
  if (!several) {
    return(out)
  }
  spread <- sweep(nodes$a, 2L, drop(weight %*% nodes$a)) * sqrt(weight)
  if (length(out) > few_functionals * min(dim(spread))) {
    # Smooth in log t2, their locations have a low numerical rank.
    parts <- svd(spread, nu = 0L)
    spread <- t(parts$v) * parts$d
    spread <- spread[parts$d > least_spread * parts$d[1L], , drop = FALSE]
  }
  out + rowSums(tcrossprod(f$coords, spread)^2)
}

# Posterior standard deviations of the coefficients `at` of a ridge, a column for each target.
ridge_deviations <- function(object, at = seq_along(coefficient_names(object)), targets = seq_along(object$targets)) {
  post <- object$posterior
  out <- matrix(0, length(at), length(targets))
  of_z <- match(at, post$z_at)
  if (any(!is.na(of_z))) {
    f <- functionals_of_z(post)
    for (i in seq_along(targets)) out[!is.na(of_z), i] <- functional_sd(f, post, targets[i])[of_z[!is.na(of_z)]]
  }
  place <- which(at %in% post$at)
  for (some in chunks(length(place), elements / max(length(post$s), 1L))) {
    j <- match(at[place[some]], post$at)
    f <- functionals_of_columns(post, j)
    for (i in seq_along(targets)) out[place[some], i] <- functional_sd(f, post, targets[i]) / post$scale[j]
  }
  out
}
