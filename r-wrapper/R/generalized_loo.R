# Rows of responses that are not Gaussian predicted from the others (sites/leave_one_out.py): of approximations Python exports the log
# probabilities, of a sampled selection they follow from the kept states.

# Log probabilities of each row without it (`elpd`) and with it (`within`), a row for every copy that its weight stands for.
generalized_left_out <- function(x, env) {
  copies <- whole_copies(x)
  y <- unname(family_of(x)$responses(x)[, 1L])
  rows <- own_rows(x, env)$x
  constant <- family_of(x)$constant(y, x)
  found <- if (has_sets(x$posterior)) states_left_out(x, rows, y) else approximately_left_out(x, rows, y, constant)
  found <- lapply(found, rep, copies)
  constant <- rep(constant, copies)
  out <- list(elpd = found$elpd + constant, within = found$within + constant)
  draws <- effective_draws(x)
  if (is.finite(draws)) out$n_eff <- told_draws(draws * found$efficiency, rep(rownames(rows) %||% seq_along(y), copies))
  out
}

# How many rows each row stands for.
whole_copies <- function(x) {
  copies <- x$weights %||% rep(1, x$nobs)
  if (any(copies != round(copies))) {
    stop("loo() requires weights that are whole numbers: a row of weight w counts as w rows", call. = FALSE)
  }
  copies
}

approximately_left_out <- function(x, rows, y, constant) {
  refused <- x$findings$text[x$findings$code == "no-loo-score"]
  if (length(refused)) stop(refused[1L], call. = FALSE)
  refuse_rows(
    matrix(is.finite(x$loo_log_density)), rownames(rows) %||% seq_along(y),
    "the other rows do not determine an unpenalised coefficient"
  )
  list(
    elpd = x$loo_log_density - constant,
    within = if (has_cuts(x)) log_shares(x, rows, y) else by_component(x, rows, function(each, at) family_of(x)$within(each, y[at], x, at))
  )
}

# Given a state the mean of the inverse likelihood of a row is the inverse of its probability from the other rows.
states_left_out <- function(x, rows, events) {
  found <- by_component(x, rows, function(each, at) {
    inverse <- log_mean_inverse(each$where, each$scale2, events[at], x$trials[at] - events[at], x$link)
    ratio <- inverse + rep(log(each$weight), each = nrow(inverse))
    total <- log_sums(ratio)
    cbind(-total, family_of(x)$within(each, events[at], x, at), exp(2 * total - log_sums(ratio + inverse)))
  })
  list(elpd = found[, 1L], within = found[, 2L], efficiency = found[, 3L])
}

# `of(components, at)` of blocks of rows of the model matrix, one block after another.
by_component <- function(x, rows, of) {
  post <- x$posterior
  split <- split_rows(x, rows)
  used <- components(post, floor = 0)
  parts <- lapply(chunks(nrow(rows), elements / 4 / nrow(post$weight)), function(at) {
    f <- functionals(post, split$x[at, , drop = FALSE], split$z[at, , drop = FALSE])
    of(mixture_of(f, used, post), at)
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
    inside <- log_means_of_likelihood(rows(each$where), rows(each$scale2), likelihood_of_events(s[rest], f[rest], link))
    out[rest] <- log_mean_of(inside, each)
  }
  out
}

# Log likelihoods of rows as functions of linear predictors (a row for each): `value`, and `slopes`, the first derivative and minus
# the second. Without the binomial coefficients; numbers of events may be negative.
likelihood_of_events <- function(s, f, link) {
  log_share <- if (link == "probit") stats::pnorm else stats::plogis
  list(
    value = function(eta) s * log_share(eta, log.p = TRUE) + f * log_share(-eta, log.p = TRUE),
    slopes = function(eta) slopes_of_events(s, f, eta, link)
  )
}

# Likewise of counts relative to the top, in which no digits of large ones are lost.
likelihood_of_counts <- function(y, exposure) {
  top <- log(ifelse(y > 0, y, 1) / exposure)
  list(
    value = function(eta) {
      away <- eta - top
      out <- y * (away - expm1(away))
      out[y == 0, ] <- -exp(away[y == 0, ])
      out
    },
    slopes = function(eta) {
      mean <- exposure * exp(eta)
      list(slope = y - mean, bend = mean)
    }
  )
}

slopes_of_events <- function(s, f, eta, link) {
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

# Log of the mean over components, of logs (m x K).
log_mean_of <- function(inside, each) log_sums(inside + rep(log(each$weight), each = nrow(inside)))

# Logs of the means of a log-concave likelihood over normal predictors; m x K. By Gauss and Hermite around the top of the integrand.
log_means_of_likelihood <- function(center, spread, likelihood) {
  flat <- pmax(spread, .Machine$double.xmin)
  at <- top_of_integrand(center, flat, likelihood)
  width <- 1 / sqrt(1 / flat + likelihood$slopes(at)$bend)
  rule <- hermite(32L)
  total <- matrix(-Inf, nrow(center), ncol(center))
  for (j in seq_along(rule$nodes)) {
    eta <- at + width * rule$nodes[j]
    value <- likelihood$value(eta) - (eta - center)^2 / (2 * flat) + rule$nodes[j]^2 / 2 + rule$log_weights[j]
    total <- log_add(total, value)
  }
  total + log(width) - 0.5 * log(2 * pi * flat)
}

# Where a log-concave likelihood times a normal density is largest, by Newton's method.
top_of_integrand <- function(center, flat, likelihood) {
  at <- center
  for (step in seq_len(newton_most)) {
    found <- likelihood$slopes(at)
    curvature <- 1 / flat + found$bend
    move <- (found$slope - (at - center) / flat) / curvature
    at <- at + move
    if (max(move^2 * curvature) <= top_found^2) break
  }
  at
}

# Fall of the log of the integrand beyond which nothing of it is left, the step of the trapezoidal rule in standard deviations of a
# normal density as curved, what is added to this curvature for the bend of a count of 0 (as in Python), and most steps.
left_of_integrand <- 38
step_of_counts <- 0.6
bend_of_zero <- 6
most_steps_of_counts <- 5000L

# The same of counts, whose likelihood is curved at one end only: by equal steps. Above the top it is more curved than there, and
# with the mean u at the top it falls at d below by u (exp(-d) - 1 + d), which is at least u d^2 / 3 and from 1 on u d / e.
log_means_of_counts <- function(center, spread, y, exposure) {
  flat <- pmax(spread, .Machine$double.xmin)
  likelihood <- likelihood_of_counts(y, exposure)
  top <- top_of_integrand(center, flat, likelihood)
  mean <- likelihood$slopes(top)$bend
  near <- sqrt(3 * left_of_integrand / mean)
  below <- pmin(sqrt(2 * left_of_integrand * flat), ifelse(near <= 1, near, exp(1) * left_of_integrand / mean))
  above <- sqrt(2 * left_of_integrand / (1 / flat + mean))
  by_equal_steps(likelihood, center, flat, top, below, above, pmax(mean, y))
}

# The integral from `below` the top of the integrand to `above` it, of a likelihood of that curvature.
by_equal_steps <- function(likelihood, center, flat, top, below, above, curvature) {
  count <- min(ceiling(max((below + above) * sqrt(1 / flat + curvature + bend_of_zero)) / step_of_counts), most_steps_of_counts)
  step <- (below + above) / count
  total <- matrix(-Inf, nrow(center), ncol(center))
  for (i in 0:count) {
    eta <- top - below + i * step
    total <- log_add(total, likelihood$value(eta) - (eta - center)^2 / (2 * flat))
  }
  total + log(step) - 0.5 * log(2 * pi * flat)
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
    return(log_means_of_likelihood(center, spread, likelihood_of_events(-s, -f, link)))
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
    out <- log_add(out, -0.5 * z^2 - likelihood_of_events(s, trials - s, link)$value(center + z * sqrt(spread)))
  }
  out + log(rule_step) - 0.5 * log(2 * pi)
}
