# The exact posterior of sets of columns, worked out from the sets that Python exports
# (pybayesridge/results/export_sets.py says what is what). Given its state's noise variance the coefficients of set A are
# N(M^-1 c_A, s2 M^-1), M = B_A'B_A + k: in the eigenvectors of B_A'B_A every state of a set is diagonal.

# Error of a sum of weights: it decides neither on a coverage nor between columns that add the same. As in Python.
sum_error <- 1e-12

is_sets <- function(post) !is.null(post[["set_size"]])

# Positions of the columns of each set among the visited ones.
set_members <- function(post) {
  sets <- factor(rep(seq_along(post$set_size), post$set_size), levels = seq_along(post$set_size))
  unname(split(post$set_columns, sets))
}

# A list for each set that one of `states` has: its columns (of p), its states, and eigenvectors, eigenvalues and products
# with the response in these coordinates.
set_spectra <- function(post, states = seq_along(post$state_set)) {
  of_set <- split(states, post$state_set[states])
  members <- set_members(post)
  lapply(names(of_set), function(name) {
    at <- members[[as.integer(name)]]
    products <- crossprod(post$square_root[, at, drop = FALSE])
    e <- list(values = as.vector(products), vectors = diag(length(at)))
    if (length(at) > 1L) e <- eigen(products, symmetric = TRUE)
    list(
      columns = post$visited[at], states = of_set[[name]], vectors = e$vectors, values = pmax(e$values, 0),
      cross = drop(crossprod(e$vectors, post$cross[at]))
    )
  })
}

# 1 / (eigenvalue + k) for the states of a set, a column for each.
shrink_set <- function(part, post, states = part$states) 1 / outer(part$values, exp(-post$log_g[states]), "+")

# As mixture_of(): where functionals lie at the states, and their squared scales.
mixture_of_sets <- function(f, post, noise) {
  size <- length(post$state_set)
  where <- scale2 <- matrix(0, size, length(f$leverage))
  for (part in set_spectra(post)) {
    if (!length(part$columns)) next
    rotated <- f$rows[, part$columns, drop = FALSE] %*% part$vectors
    shrunk <- shrink_set(part, post)
    where[part$states, ] <- crossprod(part$cross * shrunk, t(rotated))
    scale2[part$states, ] <- crossprod(shrunk, t(rotated^2))
  }
  scale2 <- post$noise[, 1L] * (scale2 + rep(f$leverage + noise, each = size))
  list(where = where, scale2 = scale2, weight = post$weight[, 1L])
}

# The same with the states at which a functional is zero for certain as its spike.
without_atoms <- function(each, sets) {
  each$scale <- sqrt(each$scale2)
  each$spike <- numeric(ncol(each$where))
  atom <- each$scale2 == 0
  if (sets && any(atom)) {
    each$spike <- colSums(each$weight * atom)
    each$weight <- each$weight * !atom
    each$scale[atom] <- 1
  }
  each
}

# Mean and squared scale of every coefficient of every state.
state_coefficients <- function(post) {
  if (is_binary_sets(post)) {
    return(binary_state_coefficients(post))
  }
  parts <- lapply(set_spectra(post), function(part) {
    if (!length(part$columns)) {
      return(NULL)
    }
    shrunk <- shrink_set(part, post)
    list(
      state = rep(part$states, each = length(part$columns)), column = rep(part$columns, length(part$states)),
      mean = as.vector(part$vectors %*% (part$cross * shrunk)),
      scale2 = as.vector(part$vectors^2 %*% shrunk) * rep(post$noise[part$states, 1L], each = length(part$columns))
    )
  })
  joined <- function(name) as.numeric(unlist(lapply(parts, `[[`, name)))
  list(state = joined("state"), column = joined("column"), mean = joined("mean"), scale2 = joined("scale2"))
}

# Quantiles of standardised coefficients j, spike and slab together: the share of the slab is the inclusion probability
# `prob` (p), which is more accurate than the weights of the states.
sets_quantiles <- function(post, probabilities, j, prob) {
  out <- matrix(0, length(j), length(probabilities))
  found <- state_coefficients(post)
  of_column <- split(seq_along(found$column), factor(found$column, levels = j))
  law <- student(post$df, length(found$column))
  for (i in which(lengths(of_column) > 0L & prob[j] > 0)) {
    at <- of_column[[i]]
    weight <- post$weight[found$state[at], 1L]
    share <- prob[j[i]]
    where <- matrix(found$mean[at])
    scale <- matrix(sqrt(found$scale2[at]))
    out[i, ] <- vapply(probabilities, function(probability) {
      mixture_quantile(where, scale, share * weight / sum(weight), post$df, probability, 1 - share, law)
    }, 0)
  }
  out * post$y_norm[1L]
}

# Covariance of the standardised coefficients: correlations of the states, and the variances `var` (p).
sets_covariance <- function(post, var) {
  p <- length(post$at)
  second <- matrix(0, p, p)
  mean <- numeric(p)
  for (part in set_spectra(post)) {
    at <- part$columns
    if (!length(at)) next
    weight <- post$weight[part$states, 1L]
    noise <- variance_factor(post$df) * post$noise[part$states, 1L]
    shrunk <- shrink_set(part, post)
    each <- part$vectors %*% (part$cross * shrunk)
    inner <- part$vectors %*% (drop(shrunk %*% (weight * noise)) * t(part$vectors))
    second[at, at] <- second[at, at] + inner + each %*% (weight * t(each))
    mean[at] <- mean[at] + drop(each %*% weight)
  }
  out <- second - tcrossprod(mean)
  own <- diag(out)
  factor <- ifelse(own > 0, sqrt(var / own), 0)
  out <- out * outer(factor, factor)
  diag(out) <- var
  out
}

# Covariance of (unpenalised, penalised) coefficients in units of the response, as posterior_covariance() wants it.
sets_covariance_of_all <- function(object) {
  post <- object$posterior
  k <- length(post$z_at)
  p <- length(post$at)
  if (is.infinite(variance_factor(post$df))) {
    return(matrix(Inf, k + p, k + p))
  }
  of_z <- functionals_of_z(post)$rows
  cov <- sets_covariance(post, unname(object$bse[post$at] * post$scale / post$y_norm[1L])^2)
  cross <- of_z %*% cov
  noise <- variance_factor(post$df) * sum(post$weight[, 1L] * post$noise[, 1L])
  rbind(cbind(cross %*% t(of_z) + noise * tcrossprod(post$z_root), cross), cbind(t(cross), cov))
}

# Standardised coefficients (size x p), noise variances and the other hyperparameters: a state, its noise, and its
# coefficients given both.
sets_draws <- function(post, size) {
  state <- sample.int(length(post$state_set), size, replace = TRUE, prob = post$weight[, 1L])
  sigma2 <- post$noise[state, 1L]
  if (is.finite(post$df)) {
    sigma2 <- sigma2 * post$df / stats::rchisq(size, post$df)
  }
  b <- matrix(0, size, length(post$at))
  draws <- split(seq_len(size), post$state_set[state])
  for (part in set_spectra(post, unique(state))) {
    if (!length(part$columns)) next
    at <- draws[[as.character(post$state_set[part$states[1L]])]]
    shrunk <- shrink_set(part, post, state[at])
    noise <- matrix(stats::rnorm(length(shrunk)), nrow(shrunk)) * rep(sqrt(sigma2[at]), each = nrow(shrunk))
    b[at, part$columns] <- t(part$vectors %*% (part$cross * shrunk + sqrt(shrunk) * noise))
  }
  list(b = b, sigma2 = sigma2, hyper = state_hyper(post, state, sigma2))
}

# The slab variance and the prior inclusion probability (unless it was given) of states with the noise variances `sigma2`.
state_hyper <- function(post, state, sigma2) {
  c(
    list(slab_var = exp(post$log_g[state]) * post$slab_unit * sigma2),
    if (!anyNA(post$t)) list(prior_inclusion = stats::plogis(post$t[state]))
  )
}
