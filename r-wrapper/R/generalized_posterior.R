# Responses that are not Gaussian: their means where linear predictors are mixtures of normals, and the posterior of the penalty.

link_probability <- function(eta, link) if (link == "probit") stats::pnorm(eta) else stats::plogis(eta)

# Predictions of rows of the model matrix: `fit`, `lwr` and `upr` where `probabilities` are given, and `se.fit`.
generalized_rows <- function(object, x, type, probabilities, se.fit, exposure = NULL, unseen = NULL) {
  post <- object$posterior
  split <- split_rows(object, x)
  f <- c(functionals(post, split$x, split$z), if (!is.null(unseen)) list(unseen = unseen))
  out <- list()
  moments <- family_of(object)$moments
  if (type == "link" || is.null(moments)) {
    out$fit <- if (!isFALSE(post$has_mean)) linear_predictor(object, x, 1L) else functional_quantiles(f, post, 1L, 0.5)[, 1L]
    if (se.fit) out$se.fit <- functional_sd(f, post, 1L)
  } else {
    out <- moments(f, object, se.fit)
  }
  if (!is.null(probabilities)) {
    limits <- functional_quantiles(f, post, 1L, probabilities)
    if (type == "response") limits <- family_of(object)$mean(limits, object)
    out$lwr <- limits[, 1L]
    out$upr <- limits[, 2L]
  }
  with_exposure(out, type, exposure)
}

# Predictions of rows of an exposure of 1 as those of rows of some exposures.
with_exposure <- function(found, type, exposure) {
  if (is.null(exposure)) {
    return(found)
  }
  if (type == "response") {
    return(lapply(found, `*`, exposure))
  }
  shifted <- names(found) != "se.fit"
  found[shifted] <- lapply(found[shifted], `+`, log(exposure))
  found
}

# Linear predictors (a row for each exposure) as the link has them, with logs of exposures, or as means of responses.
on_scale <- function(object, eta, type, exposure = NULL) {
  if (type == "link") {
    return(if (is.null(exposure)) eta else eta + log(exposure))
  }
  mean <- family_of(object)$mean(eta, object)
  if (is.null(exposure)) mean else mean * exposure
}

# Equally likely values of a normal variable in place of its distribution, as in Python.
normal_levels <- 256L

# Posterior mean of the probability of functionals, and its standard deviation if that is asked for; by the quadratures of Python.
probability_moments <- function(f, post, link, se.fit, moments = if (layout_of(post) == "coordinates") level_moments else normal_moments) {
  m <- length(f$leverage)
  parts <- components(post)
  mean <- sd <- numeric(m)
  for (at in chunks(m, elements / nrow(post$weight))) {
    if (!length(at)) next
    each <- mixture_of(some_functionals(f, at), parts, post)
    found <- moments(each$where, each$scale2, link, se.fit)
    mean[at] <- drop(found$first %*% each$weight)
    if (se.fit) sd[at] <- sqrt(pmax(drop(found$second %*% each$weight) - drop((found$center %||% found$first) %*% each$weight)^2, 0))
  }
  c(list(fit = mean), if (se.fit) list(se.fit = sd))
}

# Mean and, for a standard deviation, mean square of the probability where linear predictors are normal, and the `center` that goes
# with it: matrices of the shape of `mean`.
level_moments <- function(mean, variance, link, both = TRUE) {
  sd <- sqrt(variance)
  out <- list(first = mean_probability(mean, sd, link))
  if (both) {
    out$center <- out$second <- 0
    for (z in stats::qnorm((seq_len(normal_levels) - 0.5) / normal_levels)) {
      share <- link_probability(mean + sd * z, link)
      out$center <- out$center + share / normal_levels
      out$second <- out$second + share^2 / normal_levels
    }
  }
  out
}

# Mixture of normal distribution functions for the logistic one (Monahan and Stefanski 1992), as in Python.
logistic_shares <- c(
  0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
  0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354
)
logistic_slopes <- c(
  1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391,
  0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306
)

# The same by a mixture of normal distribution functions, or in closed form.
normal_moments <- function(mean, variance, link, both = TRUE) {
  if (link == "probit") {
    total <- 1 + variance
    at <- mean / sqrt(total)
    first <- stats::pnorm(at)
    return(list(first = first, second = if (both) first - 2 * owen_t(at, 1 / sqrt(total + variance))))
  }
  first <- slope <- mean * 0
  for (i in seq_along(logistic_shares)) {
    scale <- logistic_slopes[i] / sqrt(1 + logistic_slopes[i]^2 * variance)
    first <- first + logistic_shares[i] * stats::pnorm(scale * mean)
    slope <- slope + logistic_shares[i] * scale * stats::dnorm(scale * mean)
  }
  # F' = F (1 - F) for the logistic function F.
  list(first = first, second = first - slope)
}

# Nodes and weights of Gauss and Legendre on (0, 1), by the eigenvectors of the Jacobi matrix.
legendre <- function(n) {
  i <- seq_len(n - 1L)
  jacobi <- matrix(0, n, n)
  jacobi[cbind(i, i + 1L)] <- jacobi[cbind(i + 1L, i)] <- i / sqrt(4 * i^2 - 1)
  e <- eigen(jacobi, symmetric = TRUE)
  list(nodes = (e$values + 1) / 2, weights = e$vectors[1L, ]^2)
}

# Owen's T function for a from 0 to 1, by Gauss and Legendre with 24 nodes.
owen_t <- function(h, a) {
  rule <- legendre(24L)
  out <- h * 0
  for (j in seq_along(rule$nodes)) {
    square <- 1 + (a * rule$nodes[j])^2
    out <- out + rule$weights[j] * exp(-0.5 * h^2 * square) / square
  }
  a * out / (2 * pi)
}

# Mean of the probability where the linear predictor is normal with `mean` and `sd` (of one shape). For the logit link by
# the trapezoidal rule, which converges exponentially: over the normal variable where it varies little, else over the
# logistic one, P(U < mean + sd Z) being the mean of Phi((mean - U) / sd).
mean_probability <- function(mean, sd, link) {
  if (link == "probit") {
    return(stats::pnorm(mean / sqrt(1 + sd^2)))
  }
  out <- mean * 0
  small <- sd < 2
  for (z in seq(-9.1, 9.1, by = 0.35)) {
    out[small] <- out[small] + 0.35 * stats::dnorm(z) * stats::plogis(mean[small] + sd[small] * z)
  }
  for (u in seq(-42, 42, by = 0.6)) {
    out[!small] <- out[!small] + 0.6 * stats::dlogis(u) * stats::pnorm((mean[!small] - u) / sd[!small])
  }
  pmin(out, 1)
}

# Mean, median and interval of the penalty, tau2 and the effective degrees of freedom.
generalized_hyperparameters <- function(object, level) {
  post <- object$posterior
  points <- quantiles_with_tails(post$log_t2_from, post$log_t2_to, post$cumulative, post$rise, post$fall, c(0.5, tails(level)))
  df <- rep(unname(object$df_model), 3L)
  if (length(post$cumulative) > 1L) {
    df <- stats::approx(post$path_log_t2, post$path_df, points, rule = 2)$y - object$constant - length(cut_positions(object))
  }
  quantiles <- rbind(exp(post$log_unit - points)[c(1L, 3L, 2L)], exp(points - post$log_unit), df)
  table <- data.frame(object$penalty_means, quantiles)
  dimnames(table) <- list(c("lambda", "tau2", "df_model"), c("mean", "median", "lower", "upper"))
  rbind(table, shape_table(object, level))
}

# Mean, median and interval of further parameters of the family, where they are integrated out.
shape_table <- function(object, level) {
  shape <- family_of(object)$shape
  mean <- if (!is.null(shape)) .subset2(object, shape[["mean"]])
  if (is.null(mean)) {
    return(NULL)
  }
  post <- object$posterior
  at <- c(0.5, tails(level))
  own <- quantiles_with_tails(post$shape_from, post$shape_to, post$shape_cumulative, post$shape_rise, post$shape_fall, at)
  values <- rbind(c(mean, exp(own)), if (!is.null(post[["forms"]])) moments_of_values(post$forms, post$form_share, at))
  dimnames(values) <- list(c(shape[["name"]], "df")[seq_len(nrow(values))], c("mean", "median", "lower", "upper"))
  as.data.frame(values)
}

# Mean and quantiles of one of several values with probabilities, of which the mean may be infinite.
moments_of_values <- function(values, share, probabilities) {
  likely <- share > 0
  order <- order(values)
  at <- findInterval(probabilities, cumsum(share[order])[-length(share)], left.open = TRUE)
  c(sum(share[likely] * values[likely]), values[order][at + 1L])
}

# Quantiles of a distribution function at equally spaced points: by interpolation, and beyond these by exponential tails.
quantiles_with_tails <- function(from, to, cumulative, rise, fall, probabilities) {
  n <- length(cumulative)
  if (n == 1L) {
    return(rep(to, length(probabilities)))
  }
  points <- seq(from, to, length.out = n)
  low <- cumulative[1L]
  high <- cumulative[n]
  inside <- stats::approx(cumulative, points, probabilities, rule = 2, ties = "ordered")$y
  ifelse(
    probabilities < low, points[1L] + log(probabilities / low) / rise,
    ifelse(probabilities > high, points[n] - log((1 - probabilities) / (1 - high)) / fall, inside)
  )
}

# Draws of the share of latent variance that the columns explain.
latent_share <- function(object, size) {
  post <- object$posterior
  drawn <- drawn_components(post, 1L, size)
  theta <- drawn_coordinates(post, drawn, size, "gaussian")
  explained <- drop(theta[, length(post$z_at) + seq_along(post$s), drop = FALSE]^2 %*% post$s^2)
  explained / (explained + object$nobs * family_of(object)$latent(object, shapes_at(post, drawn)))
}

# A further parameter of the family at draws, where it is integrated out.
shapes_at <- function(post, drawn) if (!is.null(post[["log_shape"]])) exp(post$log_shape[drawn$node])
