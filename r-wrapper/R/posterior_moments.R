# Standard deviations and covariances from the components of a posterior.

# As in ridge/mixture.py: for more functionals than so many times the nodes their locations are reduced to those directions
# that have more than this share of the largest.
few_functionals <- 4
least_spread <- 1e-9

# Posterior standard deviations of functionals: the nodes are averaged before the functionals come in, which may be many.
functional_sd <- function(f, post, target) {
  if (isFALSE(post$has_variance)) {
    return(rep(Inf, length(f$leverage)))
  }
  flat <- is_flat(post)
  beyond <- f$outside > 0
  if (!is.null(post[["covariance"]])) {
    # Of all nodes, among them those of negligible weight.
    c <- coordinates(f, list(), flat)
    variance <- rowSums((c %*% post$covariance) * c)
    variance[beyond] <- variance[beyond] + f$outside[beyond] * post$mean_t2
    if (!is.null(f[["unseen"]])) variance <- variance + rowSums((f$unseen %*% post$band_covariance) * f$unseen)
    return(sqrt(pmax(variance, 0)))
  }
  parts <- components(post, target, floor = 0)
  weight <- parts$weight
  variance <- if (is.null(parts$noise)) numeric(length(f$leverage)) else f$leverage * sum(weight * parts$noise)
  variance[beyond] <- variance[beyond] + f$outside[beyond] * mean_beyond(parts, post)
  for (block in parts$blocks) {
    c <- coordinates(f, block, flat)
    variance <- variance + mean_spread(c, block, weight[block$nodes])
    if (!is.null(block[["beyond"]])) variance <- variance + outside_of_block(f, block, c) * sum(weight[block$nodes] * block$beyond)
  }
  variance <- ifelse(variance == 0, 0, variance_factor(post$df) * variance)
  sqrt(variance + spread_of_locations(f, parts, flat)) * post$y_norm[target]
}

mean_beyond <- function(parts, post) {
  if (isTRUE(post$open_variance) && length(parts$weight) > 1L) Inf else sum(parts$weight * parts$beyond)
}

# Means of spread_of() over the nodes.
mean_spread <- function(c, block, weight) {
  if (is.null(block[["own"]]) || length(block[["sign"]]) || !is.null(block[["lower"]])) {
    return(drop(spread_of(c, block) %*% weight))
  }
  drop(c^2 %*% drop(weight %*% block$own))
}

# Variances of the locations of functionals over the nodes.
spread_of_locations <- function(f, parts, flat) {
  weight <- parts$weight
  if (length(weight) <= 1L) {
    return(0)
  }
  if (length(parts$blocks) > 1L || !is.null(parts$blocks[[1L]][["turn"]])) {
    where <- matrix(0, length(f$leverage), length(weight))
    for (block in parts$blocks) where[, block$nodes] <- tcrossprod(coordinates(f, block, flat), block$mean)
    return(drop((where - drop(where %*% weight))^2 %*% weight))
  }
  block <- parts$blocks[[1L]]
  spread <- (block$mean - rep(drop(weight %*% block$mean), each = length(weight))) * sqrt(weight)
  if (length(f$leverage) > few_functionals * min(dim(spread))) {
    # Smooth in log t2, they have a low numerical rank.
    found <- svd(spread, nu = 0L)
    spread <- t(found$v) * found$d
    spread <- spread[found$d > least_spread * found$d[1L], , drop = FALSE]
  }
  rowSums(tcrossprod(coordinates(f, block, flat), spread)^2)
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

no_covariance <- paste0(
  "the coefficients have no posterior covariance: the columns separate the responses, and the tail of the posterior of the ",
  "penalty is too heavy. Use confint() or posterior_sample()"
)

# Covariance of all coefficients of one target, in the order of the coefficients.
posterior_covariance <- function(object, target) {
  post <- object$posterior
  if (isFALSE(post$has_variance)) {
    stop(no_covariance, call. = FALSE)
  }
  unit <- c(rep(1, length(post$z_at)), 1 / post$scale) * post$y_norm[target]
  coefficients <- seq_along(coefficient_names(object))
  size <- length(coefficients) + length(cut_positions(object))
  out <- matrix(0, size, size)
  at <- c(post$z_at, post$at)
  sd <- if (has_sets(post)) unname(object$bse)[at] / unit
  out[at, at] <- covariance_of_all(post, components(post, target), sd) * outer(unit, unit)
  out[coefficients, coefficients, drop = FALSE]
}

# The same of standardised coefficients, the unpenalised ones first, in units of the response. Of sets those are the correlations
# of the kept states and the standard deviations `sd` of the fit.
covariance_of_all <- function(post, parts, sd) {
  k <- length(post$z_at)
  p <- length(post$at)
  of_z <- functionals_of_z(post)
  flat <- is_flat(post)
  if (is.infinite(variance_factor(post$df))) {
    return(matrix(Inf, k + p, k + p))
  }
  theta <- post[["covariance"]] %||% covariance_of_coordinates(post, parts, flat)
  if (!is.null(sd) && !flat) theta <- with_deviations(theta, sd[k + seq_len(p)])
  of_columns <- if (in_row_space(post)) right_of(post) else diag(p)
  c <- rbind(of_z$x, of_columns)
  if (flat) c <- cbind(rbind(of_z$flat, matrix(0, p, k)), c)
  out <- c %*% theta %*% t(c)
  if (!is.null(parts$noise)) {
    of_k <- seq_len(k)
    out[of_k, of_k] <- out[of_k, of_k] + variance_factor(post$df) * sum(parts$weight * parts$noise) * tcrossprod(of_z$flat)
  }
  if (in_row_space(post) && length(post$s) < p) {
    rows <- rbind(-post$on_z / rep(post$scale, each = k), diag(p))
    coords <- rbind(of_z$x, of_columns)
    # Without differences of squares where the covariance is that of all nodes.
    rest <- tcrossprod(rows - back_from_right(post, coords))
    beyond <- post[["mean_t2"]] %||% (variance_factor(post$df) * mean_beyond(parts, post))
    out <- out + beyond * rest
  }
  if (!is.null(sd) && flat) with_deviations(out, sd) else out
}

# A covariance with other standard deviations.
with_deviations <- function(covariance, sd) {
  own <- diag(covariance)
  factor <- ifelse(own > 0, sd / sqrt(own), 0)
  out <- covariance * outer(factor, factor)
  diag(out) <- sd^2
  out
}

# Covariance of the coordinates of functionals.
covariance_of_coordinates <- function(post, parts, flat) {
  k <- if (flat) length(post$z_at) else 0L
  size <- k + if (in_row_space(post)) length(post$s) else length(post$at)
  within <- second <- matrix(0, size, size)
  mean <- numeric(size)
  factor <- variance_factor(post$df)
  center <- 0
  whole <- all(vapply(parts$blocks, function(block) is.null(block[["columns"]]), NA))
  for (block in parts$blocks) {
    at <- if (is.null(block[["columns"]])) seq_len(size) else c(seq_len(k), k + block$columns)
    if (!length(at)) next
    weight <- parts$weight[block$nodes]
    found <- moments_of_block(block, weight, k)
    within[at, at] <- within[at, at] + factor * found$inner
    # About a mean that is nearly theirs, so that squares keep their digits.
    if (whole && identical(center, 0)) center <- drop(weight %*% found$mean) / sum(weight)
    centred <- found$mean - rep(if (whole) center else 0, each = length(weight), length.out = length(found$mean))
    second[at, at] <- second[at, at] + crossprod(centred * weight, centred)
    mean[at] <- mean[at] + drop(weight %*% centred)
  }
  if (length(parts$weight) > 1L) within + second - tcrossprod(mean) else within
}

# The covariance within the nodes of a block, averaged, and their means, in coordinates of functionals.
moments_of_block <- function(block, weight, k) {
  mean <- block$mean
  d <- ncol(mean)
  inner <- if (is.null(block[["own"]])) matrix(0, d, d) else diag(drop(weight %*% block$own), d)
  signs <- block[["sign"]]
  if (length(signs)) inner <- inner + crossprod(block$root, weight[block$of] * signs * block$root)
  if (!is.null(block[["lower"]])) {
    half <- forwardsolve(block$lower, block$x * rep(block$own[1L, ], each = nrow(block$x)))
    inner <- inner - weight * crossprod(half)
  }
  if (!is.null(block[["equations"]])) inner <- inner + sum(weight) * block$scale2 * inverse_of_equations(block$equations)
  turn <- block[["turn"]]
  if (k && !is.null(block[["slope"]])) {
    turn <- diag(d)
    turn[seq_len(k), -seq_len(k)] <- -block$slope
  }
  if (is.null(turn)) {
    return(list(inner = inner, mean = mean))
  }
  inner <- turned_back(t(turned_back(inner, turn)), turn)
  if (!is.null(block[["beyond"]])) inner <- inner + sum(weight * block$beyond) * products_outside(block)
  list(inner = inner, mean = turned_back(mean, turn))
}
