# Selections for yes/no responses: their posterior, worked out from the states that Python exports
# (pybayesridge/results/export_sets.py says what is what), and their methods. Each state has a set of columns and the normal
# law of the u + m coordinates of rows: those of the unpenalised columns, then those of the columns in.

is_binary_sets <- function(post) !is.null(post[["state_mean"]])

# A list for each state: its columns (of p), and the mean and a root of the covariance of the coordinates.
state_laws <- function(post, states = seq_along(post$state_set)) {
  members <- set_members(post)
  sizes <- length(post$z_at) + post$set_size[post$state_set]
  ends <- cumsum(sizes)
  root_ends <- cumsum(sizes^2)
  lapply(states, function(i) {
    d <- sizes[i]
    list(
      state = i, columns = post$visited[members[[post$state_set[i]]]],
      mean = post$state_mean[ends[i] - d + seq_len(d)],
      root = matrix(post$state_root[root_ends[i] - d^2 + seq_len(d^2)], d, d)
    )
  })
}

# As mixture_of(): where functionals lie at the states, and their squared scales.
mixture_of_binary_sets <- function(f, post) {
  where <- scale2 <- matrix(0, length(post$state_set), length(f$leverage))
  for (law in state_laws(post)) {
    coords <- cbind(f$flat, f$rows[, law$columns, drop = FALSE])
    where[law$state, ] <- coords %*% law$mean
    scale2[law$state, ] <- rowSums((coords %*% law$root)^2)
  }
  list(where = where, scale2 = scale2, weight = post$weight[, 1L])
}

# As state_coefficients().
binary_state_coefficients <- function(post) {
  k <- length(post$z_at)
  laws <- state_laws(post)
  of_columns <- function(law) k + seq_along(law$columns)
  joined <- function(each) as.numeric(unlist(lapply(laws, each)))
  list(
    state = joined(function(law) rep(law$state, length(law$columns))),
    column = joined(function(law) law$columns),
    mean = joined(function(law) law$mean[of_columns(law)]),
    scale2 = joined(function(law) rowSums(law$root[of_columns(law), , drop = FALSE]^2))
  )
}

# Covariance of (unpenalised, standardised penalised) coefficients: correlations of the states, and the variances of `bse`.
covariance_of_binary_sets <- function(object) {
  post <- object$posterior
  k <- length(post$z_at)
  p <- length(post$at)
  second <- matrix(0, k + p, k + p)
  mean <- numeric(k + p)
  for (law in state_laws(post)) {
    at <- c(seq_len(k), k + law$columns)
    weight <- post$weight[law$state, 1L]
    second[at, at] <- second[at, at] + weight * (tcrossprod(law$root) + tcrossprod(law$mean))
    mean[at] <- mean[at] + weight * law$mean
  }
  turn <- diag(k + p)
  turn[seq_len(k), seq_len(k)] <- post$z_root
  turn[seq_len(k), k + seq_len(p)] <- functionals_of_z(post)$rows
  out <- turn %*% (second - tcrossprod(mean)) %*% t(turn)
  own <- diag(out)
  sd <- unname(c(object$bse[post$z_at], object$bse[post$at] * post$scale))
  factor <- ifelse(own > 0, sd / sqrt(own), 0)
  out <- out * outer(factor, factor)
  diag(out) <- sd^2
  out
}

# Draws of the flat coordinates (size x u), of standardised coefficients (size x p) and of the hyperparameters: a state,
# and its normal law.
binary_sets_draws <- function(post, size) {
  k <- length(post$z_at)
  state <- sample.int(length(post$state_set), size, replace = TRUE, prob = post$weight[, 1L])
  out <- matrix(0, size, k + length(post$at))
  for (law in state_laws(post, unique(state))) {
    of_state <- which(state == law$state)
    noise <- matrix(stats::rnorm(length(of_state) * length(law$mean)), length(of_state))
    out[of_state, c(seq_len(k), k + law$columns)] <- rep(law$mean, each = length(of_state)) + tcrossprod(noise, law$root)
  }
  list(
    b = out[, k + seq_along(post$at), drop = FALSE], flat = out[, seq_len(k), drop = FALSE],
    hyper = state_hyper(post, state, post$noise[state, 1L])
  )
}

# As coefficients_above(); a penalised coefficient is in with its inclusion probability, as in Python.
binary_sets_above <- function(object) {
  post <- object$posterior
  out <- rep(NaN, length(object$coefficients))
  if (length(post$z_at)) {
    each <- mixture_of_binary_sets(functionals_of_z(post), post)
    out[post$z_at] <- drop(each$weight %*% stats::pnorm(each$where / sqrt(each$scale2)))
  }
  found <- binary_state_coefficients(post)
  weight <- post$weight[found$state, 1L]
  column <- factor(found$column, levels = seq_along(post$at))
  above <- tapply(weight * stats::pnorm(found$mean / sqrt(found$scale2)), column, sum, default = 0)
  share <- tapply(weight, column, sum, default = 0)
  prob <- unname(object$inclusion_prob[post$at])
  out[post$at] <- as.vector(above * ifelse(share > 0 & share < 1, prob / share, 1))
  pmin(pmax(out, 0), 1)
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

# Mean and mean square of the probability where linear predictors are normal: matrices of the shape of `mean`.
normal_moments <- function(mean, variance, link) {
  if (link == "probit") {
    total <- 1 + variance
    at <- mean / sqrt(total)
    first <- stats::pnorm(at)
    return(list(first = first, second = first - 2 * owen_t(at, 1 / sqrt(total + variance))))
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

# As probability_moments(), for selections.
normal_components_probabilities <- function(f, post, link, se.fit) {
  m <- length(f$leverage)
  mean <- sd <- numeric(m)
  for (at in chunks(m, elements / nrow(post$weight))) {
    if (!length(at)) next
    part <- lapply(f, function(a) if (is.matrix(a)) a[at, , drop = FALSE] else a[at])
    each <- mixture_of(part, post, 1L)
    found <- normal_moments(each$where, each$scale2, link)
    mean[at] <- drop(each$weight %*% found$first)
    sd[at] <- sqrt(pmax(drop(each$weight %*% found$second) - mean[at]^2, 0))
  }
  c(list(fit = mean), if (se.fit) list(se.fit = sd))
}

# The values of an export that only these fits have.
binomial_selection_values <- function(value) {
  list(
    link = value$link, event = value$event, trials = as.vector(value$trials), n_trials = value$n_trials,
    n_events = value$n_events, linear.predictors = as.vector(value$linear_predictors),
    loo_log_density = as.vector(value$loo_log_density)
  )
}

#' @exportS3Method
headline.spike_slab_binomial <- function(object, digits) {
  chosen <- median_model(object)
  c(
    paste0(
      "event ", object$event, " (", alike(object$n_events, digits), " of ", alike(object$n_trials, digits),
      "), prior inclusion ", singly(mean(prior_of_penalized(object)), digits), ", slab variance ",
      singly(object$slab_var, digits), if (!is.null(object$log_evidence)) {
        paste0(", log evidence ", singly(object$log_evidence, digits))
      }
    ),
    if (is_sampled(object)) paste("largest Monte Carlo s.e. of an inclusion probability", singly(object$residual, 2L)),
    strwrap(paste("median model:", if (length(chosen)) paste(chosen, collapse = ", ") else "no column"), exdent = 2L)
  )
}

#' @exportS3Method
facts.spike_slab_binomial <- function(object) {
  out <- data.frame(
    row.names = object$targets,
    nobs = object$nobs,
    trials = object$n_trials,
    events = object$n_events,
    prior_inclusion = mean(prior_of_penalized(object)),
    slab_var = object$slab_var,
    expected_size = object$expected_size,
    df_model = unname(object$df_model),
    df_resid = unname(object$df_resid)
  )
  if (!is.null(object$log_evidence)) out$log_evidence <- object$log_evidence
  out
}

#' @rdname predict.pybayesridge_fit
#' @export
predict.spike_slab_binomial <- predict.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
residuals.spike_slab_binomial <- residuals.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
deviance.spike_slab_binomial <- deviance.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
sigma.spike_slab_binomial <- sigma.bayes_ridge_binomial

#' @rdname posterior_sample
#' @export
simulate.spike_slab_binomial <- simulate.bayes_ridge_binomial

#' @rdname pybayesridge-methods
#' @export
logLik.spike_slab_binomial <- function(object, ...) {
  if (is_binary_sets(object$posterior)) stop(no_evidence, call. = FALSE)
  NextMethod()
}

no_evidence <- paste0(
  "the sampler of spike_slab() with family = binomial() gives no log evidence: see inclusion_prob() and top_models(), or use ",
  "method = \"ep\""
)

#' @rdname plot.pybayesridge_fit
#' @export
plot.spike_slab_binomial <- function(x, which = c("inclusion", "coefficients", "calibration", "roc"), level = 0.95,
                                     max_shown = 40, intercept = FALSE, standardized = TRUE, bins = 10, xlab = NULL,
                                     main = NULL, sets = TRUE, ...) {
  which <- match.arg(which)
  if (which %in% c("inclusion", "coefficients")) {
    return(plot.spike_slab(x, which, level, max_shown, intercept, standardized, xlab, main, sets, ...))
  }
  given <- plot_arguments(...)
  share <- unname(x$fitted.values)
  labels <- if (which == "roc") "in-sample ROC curve, area %.3f" else c("fitted probability", "calibration, in-sample")
  draw_fit_of_shares(x, which, share, labels, bins, xlab, main, given)
  invisible(x)
}
