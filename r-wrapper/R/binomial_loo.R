# Rows with yes/no responses predicted from the others (predictive/sites.py): of approximations Python exports the log
# probabilities, of a sampled selection they follow from the kept states.

# Log probabilities of each row without it (`elpd`) and with it (`within`), a row for every copy that its weight stands for.
binomial_left_out <- function(x, env) {
  copies <- x$weights %||% rep(1, x$nobs)
  if (any(copies != round(copies))) {
    stop("loo() requires weights that are whole numbers: a row of weight w counts as w rows", call. = FALSE)
  }
  events <- round(unname(x$fitted.values + x$residuals) * x$trials)
  rows <- own_rows(x, env)$x
  ways <- lchoose(x$trials, events)
  found <- if (has_sets(x$posterior)) {
    states_left_out(x, rows, events)
  } else {
    approximately_left_out(x, rows, events, ways)
  }
  found <- lapply(found, rep, copies)
  ways <- rep(ways, copies)
  out <- list(elpd = found$elpd + ways, within = found$within + ways)
  draws <- effective_draws(x)
  if (is.finite(draws)) out$n_eff <- told_draws(draws * found$efficiency, rep(rownames(rows) %||% seq_along(events), copies))
  out
}

approximately_left_out <- function(x, rows, events, ways) {
  refuse_rows(
    matrix(is.finite(x$loo_log_density)), rownames(rows) %||% seq_along(events),
    "the other rows do not determine an unpenalised coefficient"
  )
  list(
    elpd = x$loo_log_density - ways,
    within = by_component(x, rows, events, function(each, s, f) log_within(each, s, f, x$link))
  )
}

# Given a state the mean of the inverse likelihood of a row is the inverse of its probability from the other rows.
states_left_out <- function(x, rows, events) {
  found <- by_component(x, rows, events, function(each, s, f) {
    inverse <- log_mean_inverse(each$where, each$scale2, s, f, x$link)
    ratio <- inverse + rep(log(each$weight), each = nrow(inverse))
    total <- log_sums(ratio)
    cbind(-total, log_within(each, s, f, x$link), exp(2 * total - log_sums(ratio + inverse)))
  })
  list(elpd = found[, 1L], within = found[, 2L], efficiency = found[, 3L])
}

# `of(components, successes, failures)` of blocks of rows of the model matrix, one block after another.
by_component <- function(x, rows, events, of) {
  post <- x$posterior
  split <- split_rows(x, rows)
  used <- components(post, floor = 0)
  parts <- lapply(chunks(length(events), elements / 4 / nrow(post$weight)), function(at) {
    f <- functionals(post, split$x[at, , drop = FALSE], split$z[at, , drop = FALSE])
    of(mixture_of(f, used, post), events[at], x$trials[at] - events[at])
  })
  if (is.matrix(parts[[1L]])) do.call(rbind, parts) else unlist(parts, use.names = FALSE)
}

# Below this probability the closed form of single trials loses digits.
least_closed <- 1e-3

# Log of the mean likelihood over components: of single trials in closed form.
log_within <- function(each, s, f, link) {
  out <- rep(-Inf, length(s))
  closed <- s + f == 1
  if (any(closed)) {
    up <- ifelse(s[closed] == 1, 1, -1)
    where <- each$where[closed, , drop = FALSE] * up
    share <- drop(normal_moments(where, each$scale2[closed, , drop = FALSE], link, FALSE)$first %*% each$weight)
    out[closed] <- ifelse(share > least_closed, log(share), -Inf)
  }
  rest <- out == -Inf
  if (any(rest)) {
    rows <- function(m) m[rest, , drop = FALSE]
    inside <- log_mean_likelihood(rows(each$where), rows(each$scale2), s[rest], f[rest], link)
    out[rest] <- log_sums(inside + rep(log(each$weight), each = nrow(inside)))
  }
  out
}

# Log likelihood of counts (of the length of `eta`), without binomial coefficients.
log_likelihood <- function(s, f, eta, link) {
  log_share <- if (link == "probit") stats::pnorm else stats::plogis
  s * log_share(eta, log.p = TRUE) + f * log_share(-eta, log.p = TRUE)
}

# Its first derivative in `eta`, and minus the second.
slopes_of_likelihood <- function(s, f, eta, link) {
  if (link != "probit") {
    return(list(slope = s * stats::plogis(-eta) - f * stats::plogis(eta), bend = (s + f) * stats::dlogis(eta)))
  }
  hazard <- function(x) exp(stats::dnorm(x, log = TRUE) - stats::pnorm(x, log.p = TRUE))
  # Far out h (h + x) is a difference of large numbers: its series.
  bend <- function(x, h) pmin(pmax(ifelse(x < -1e3, 1 - 1 / x^2, h * (h + x)), 0), 1)
  up <- hazard(eta)
  down <- hazard(-eta)
  list(slope = s * up - f * down, bend = s * bend(eta, up) + f * bend(-eta, down))
}

# Nodes and weights of Gauss and Hermite for the density exp(-x^2 / 2), by the eigenvectors of the Jacobi matrix.
hermite <- function(n) {
  i <- seq_len(n - 1L)
  jacobi <- matrix(0, n, n)
  jacobi[cbind(i, i + 1L)] <- jacobi[cbind(i + 1L, i)] <- sqrt(i)
  e <- eigen(jacobi, symmetric = TRUE)
  list(nodes = e$values, log_weights = log(e$vectors[1L, ]^2) + 0.5 * log(2 * pi))
}

newton_most <- 30L
top_found <- 1e-6

# Log of the mean of a log-concave likelihood (counts may be negative) over normal predictors; m x K. By Gauss and Hermite
# around the top of the integrand.
log_mean_likelihood <- function(center, spread, s, f, link) {
  s <- rep(s, ncol(center))
  f <- rep(f, ncol(center))
  flat <- pmax(spread, .Machine$double.xmin)
  at <- center
  for (step in seq_len(newton_most)) {
    found <- slopes_of_likelihood(s, f, at, link)
    curvature <- 1 / flat + found$bend
    move <- (found$slope - (at - center) / flat) / curvature
    at <- at + move
    if (max(move^2 * curvature) <= top_found^2) break
  }
  width <- 1 / sqrt(1 / flat + slopes_of_likelihood(s, f, at, link)$bend)
  rule <- hermite(32L)
  total <- matrix(-Inf, nrow(center), ncol(center))
  for (j in seq_along(rule$nodes)) {
    eta <- at + width * rule$nodes[j]
    value <- log_likelihood(s, f, eta, link) - (eta - center)^2 / (2 * flat) + rule$nodes[j]^2 / 2 + rule$log_weights[j]
    total <- log_add(total, value)
  }
  total + log(width) - 0.5 * log(2 * pi * flat)
}

log_add <- function(a, b) {
  top <- pmax(a, b)
  top + log1p(exp(-abs(a - b)))
}

# Of the trapezoidal rule, in standard deviations: spacing, and reach beyond the top of the integrand.
rule_step <- 0.25
rule_beyond <- 12

# Log of the mean of 1 / likelihood over normal predictors; m x K. With the logit link it is a sum of exponentials, for many
# trials by the trapezoidal rule; with the probit link the variances given all rows are below 1 / trials.
log_mean_inverse <- function(center, spread, s, f, link) {
  if (link == "probit") {
    return(log_mean_likelihood(center, spread, -s, -f, link))
  }
  trials <- rep(s + f, ncol(center))
  s <- rep(s, ncol(center))
  reach <- rule_beyond + max(trials * sqrt(spread))
  out <- matrix(-Inf, nrow(center), ncol(center))
  if (max(trials) < 2 * reach / rule_step) {
    for (k in 0:max(trials)) {
      power <- k - s
      term <- lchoose(trials, k) + power * center + 0.5 * power^2 * spread
      out <- if (k == 0) term else log_add(out, ifelse(k <= trials, term, -Inf))
    }
    return(out)
  }
  for (z in seq(-reach, reach + rule_step, by = rule_step)) {
    out <- log_add(out, -0.5 * z^2 - log_likelihood(s, trials - s, center + z * sqrt(spread), link))
  }
  out + log(rule_step) - 0.5 * log(2 * pi)
}
