# New responses of families without a noise variance: their distribution is that given the linear predictor, averaged over the
# posterior of the linear predictor. A family says by `new` what it is: a function of a fit that returns a list of
#   whole    whether responses are whole numbers
#   up_to    probabilities of at most y (m) for linear predictors eta (m x K), a column for each component of the fit, of rows of some
#            extent (m), which is NULL but for trials
#   around   two responses (m x 2) such that most are between them, for linear predictors (m) and extents

# Normal scores of the linear predictor of each component go this far, in steps of 1, which are halved (so often at the most) where the
# probability of a response rises by more than `steep` from one to the next; as in Python.
farthest_score <- 5
steep <- 0.4
most_halvings <- 5L

# Components of smaller weight are left out.
light_component <- 1e-6

# Of the search. To enclose a quantile each step is twice the last one, or so much longer than to where a straight line would be, and so
# many times the last one at the most.
most_doublings <- 200L
ahead_of_line <- 1.5
most_ahead <- 1000

# Every so many steps halve the bracket. A continuous response is found to 2^-50 of where it was looked for, or to so many normal scores,
# which are cut off; large numbers to so many of their neighbours.
most_steps <- 400L
halved_every <- 4L
width_of_search <- 2^-50
score_error <- 1e-12
farthest_quantile <- 37
least_width <- 4 * .Machine$double.eps

# Around a near response it looks first so far, relative to where it was looked for.
near_width <- 1e-3

counts_given <- function(fit, up_to) {
  list(
    whole = TRUE,
    up_to = function(y, eta, extent) up_to(y, pmin(exp(eta), .Machine$double.xmax), fit),
    around = function(eta, extent) cbind(-1, pmin(ceiling(2 * exp(eta) + 10), most_drawn))
  )
}

# A value for each column of a matrix of m rows, as a vector of its elements.
for_columns <- function(values, m) rep(values, each = m)

poisson_up_to <- function(y, mean, fit) matrix(stats::ppois(y, mean), nrow(mean))

overdispersed_up_to <- function(y, mean, fit) {
  size <- for_columns(1 / alpha_of_nodes(fit), nrow(mean))
  matrix(stats::pnbinom(y, size = size, mu = mean), nrow(mean))
}

student_given <- function(fit) {
  noise <- scale_of_nodes(fit)
  reach <- 10 * max(noise$sigma)
  list(
    whole = FALSE,
    up_to = function(y, eta, extent) {
      m <- nrow(eta)
      matrix(stats::pt((y - eta) / for_columns(noise$sigma, m), for_columns(noise$df, m)), m)
    },
    around = function(eta, extent) cbind(eta - reach, eta + reach)
  )
}

successes_given <- function(fit, up_to) {
  list(
    whole = TRUE,
    up_to = function(y, eta, extent) matrix(up_to(y, as.vector(eta), extent, fit), nrow(eta)),
    around = function(eta, extent) cbind(-1, extent)
  )
}

successes_up_to <- function(y, eta, trials, fit) stats::pbinom(rep_len(y, length(eta)), trials, link_probability(eta, fit$link))

# Distribution functions of so many trials are sums; for more they are averages over the log odds of a beta variable, which go on
# both sides so many standard deviations of the normal density as curved, and by an exponent in its exponential tail; their spacing in
# these standard deviations, and how many there may be: as in Python.
few_trials <- 1000
log_odds_around <- 6
log_odds_beyond <- 18
log_odds_spaced <- 0.7
log_odds_nodes <- c(17L, 21L, 25L, 33L, 49L)

shares_up_to <- function(y, eta, trials, fit) {
  s <- for_columns(1 / alpha_of_nodes(fit), length(y))
  y <- rep_len(y, length(eta))
  trials <- rep_len(trials, length(eta))
  out <- as.double(y >= 0)
  inside <- y >= 0 & y < trials
  for (sums in c(TRUE, FALSE)) {
    at <- which(inside & (trials <= few_trials) == sums)
    if (length(at)) out[at] <- (if (sums) sums_of_shares else integrals_of_shares)(y[at], eta[at], trials[at], s[at])
  }
  out
}

# Probabilities of at most y successes, by the recursion over the rarer outcome.
sums_of_shares <- function(y, eta, trials, s) {
  rare <- eta <= 0
  a <- stats::plogis(-abs(eta)) * s
  b <- stats::plogis(abs(eta)) * s
  most <- ifelse(rare, y, trials - y - 1)
  term <- total <- exp(log_rising(b, trials) - log_rising(s, trials))
  at <- seq_along(most)
  for (k in seq_len(max(most)) - 1) {
    at <- at[most[at] > k]
    term[at] <- term[at] * (trials[at] - k) / (k + 1) * ((a[at] + k) / (b[at] + (trials[at] - k - 1)))
    total[at] <- total[at] + term[at]
  }
  total <- pmin(total, 1)
  ifelse(rare, total, 1 - total)
}

# The same as the probability that a Beta(y + 1, trials - y) variable is above the share of success: the distribution function of one of
# them is averaged over the other, the narrower one on the scale of log odds, by the trapezoidal rule.
integrals_of_shares <- function(y, eta, trials, s) {
  share <- list(stats::plogis(eta) * s, stats::plogis(-eta) * s)
  count <- list(y + 1, trials - y)
  variance <- function(of) trigamma(pmax(of[[1L]], 1e-100)) + trigamma(pmax(of[[2L]], 1e-100))
  over_share <- variance(share) < variance(count)
  a <- ifelse(over_share, share[[1L]], count[[1L]])
  b <- ifelse(over_share, share[[2L]], count[[2L]])
  other <- ifelse(over_share, count[[1L]], share[[1L]])
  rest <- ifelse(over_share, count[[2L]], share[[2L]])
  sd <- sqrt((a + b) / a / b)
  low <- -log_odds_around * sd - log_odds_beyond / a
  high <- log_odds_around * sd + log_odds_beyond / b
  size <- findInterval((high - low) / (log_odds_spaced * sd) + 1, log_odds_nodes[-length(log_odds_nodes)], left.open = TRUE) + 1L
  out <- numeric(length(y))
  for (group in unique(size)) {
    at <- which(size == group)
    out[at] <- average_over_odds(a[at], b[at], other[at], rest[at], low[at], high[at], log_odds_nodes[group])
  }
  ifelse(over_share, 1 - out, out)
}

# Means of the distribution functions of Beta(other, rest) variables over Beta(a, b) ones by so many nodes, between such distances of log
# odds from the top of the density.
average_over_odds <- function(a, b, other, rest, low, high, count) {
  away <- low + outer(high - low, seq(0, 1, length.out = count))
  change <- log1p(ifelse(away < 0, a, b) / (a + b) * expm1(-abs(away))) + pmax(away, 0)
  weight <- exp(a * away - (a + b) * change)
  below <- stats::pbeta(stats::plogis(log(a / b) + away), other, rest)
  rowSums(weight * below) / rowSums(weight)
}

# Quantiles of new responses, m x length(probabilities), of rows of the model matrices `xs` of fits, the mixture of whose posteriors with
# equal weights it is; `extent` has the exposures or trials of the rows or is NULL, and `unseen` is as of generalized_rows().
new_quantiles <- function(fits, xs, probabilities, extent = NULL, unseen = NULL) {
  m <- nrow(xs[[1L]])
  size <- sum(vapply(fits, function(fit) nrow(fit$posterior$weight), 0L))
  out <- matrix(0, m, length(probabilities))
  for (at in chunks(m, elements / size)) {
    if (!length(at)) next
    laws <- Map(function(fit, x) law_of_new(fit, x[at, , drop = FALSE], extent[at], unseen[at, , drop = FALSE]), fits, xs)
    out[at, ] <- vapply(probabilities, function(p) quantiles_of_new(laws, p), numeric(length(at)))
  }
  out
}

# Lower and upper ends, from a column for each.
ends_of <- function(limits) list(limits[, 1L], limits[, 2L])

# Linear predictors of rows at the components of a fit, and the distribution of a response given them.
law_of_new <- function(fit, x, extent, unseen) {
  post <- fit$posterior
  split <- split_rows(fit, x)
  f <- c(functionals(post, split$x, split$z), if (!is.null(unseen)) list(unseen = unseen))
  each <- mixture_of(f, components(post), post)
  of_exposure <- "exposure" %in% family_of(fit)$takes && !is.null(extent)
  shift <- drop(split$z %*% post$y_on_z[, 1L]) + if (of_exposure) log(extent) else 0
  weight <- as.vector(each$weight)
  weight[weight < light_component] <- 0
  where <- each$where * post$y_norm[1L] + shift
  law <- list(where = where, scale = sqrt(each$scale2) * post$y_norm[1L], weight = weight / sum(weight))
  c(law, list(extent = if (!of_exposure) extent), family_of(fit)$new(fit))
}

# The quantile of each row, by finer rules where the probability is steep, from where it is at the means of the components.
quantiles_of_new <- function(laws, p) {
  whole <- laws[[1L]]$whole
  ends <- start_of_search(laws)
  near <- if (whole) 1 else near_width * (ends[, 2L] - ends[, 1L])
  out <- numeric(nrow(ends))
  todo <- seq_along(out)
  for (halved in -1L:most_halvings) {
    scores <- if (halved < 0L) 0 else seq(-farthest_score, farthest_score, length.out = 1 + 2 * farthest_score * 2^halved)
    some <- lapply(laws, function(law) {
      law$where <- law$where[todo, , drop = FALSE]
      law$scale <- law$scale[todo, , drop = FALSE]
      law$extent <- law$extent[todo]
      law
    })
    found <- searched(function(y, at) share_up_to(some, y, scores, at), ends, p, whole)
    out[todo] <- found$at
    left <- halved < 0L | found$rise > steep
    todo <- todo[left]
    if (!length(todo)) break
    middle <- if (whole) pmin(out[todo], most_drawn) else out[todo]
    if (length(near) > 1L) near <- near[left]
    ends <- if (whole) cbind(middle - near, middle) else cbind(middle - near, middle + near)
  }
  out
}

# Probabilities of at most y (of rows `at`), and their largest rises between neighbouring scores.
share_up_to <- function(laws, y, scores, at) {
  density <- stats::dnorm(scores)
  share <- rise <- numeric(length(at))
  for (law in laws) {
    keep <- law$weight > 0
    where <- law$where[at, , drop = FALSE]
    scale <- law$scale[at, , drop = FALSE]
    last <- NULL
    for (j in seq_along(scores)) {
      each <- law$up_to(y, where + scores[j] * scale, law$extent[at])
      share <- share + density[j] / sum(density) * drop(each[, keep, drop = FALSE] %*% law$weight[keep]) / length(laws)
      if (j > 1L) {
        changes <- abs(each[, keep, drop = FALSE] - last)
        rise <- pmax(rise, changes[cbind(seq_along(at), max.col(changes, "first"))])
      }
      last <- each[, keep, drop = FALSE]
    }
  }
  list(share = if (laws[[1L]]$whole) ifelse(y >= most_drawn, 1, share) else share, rise = rise)
}

# Responses between which most of those of each row are.
start_of_search <- function(laws) {
  ends <- lapply(laws, function(law) law$around(drop(law$where %*% law$weight), law$extent))
  cbind(do.call(pmin, lapply(ends, function(e) e[, 1L])), do.call(pmax, lapply(ends, function(e) e[, 2L])))
}

# Where the share of `of(y, at)` reaches p, and its rise there; of whole numbers the least at which it has. Between ends the steps are
# those of the Illinois method for normal scores, in which distribution functions are nearly straight.
searched <- function(of, ends, p, whole) {
  every <- seq_len(nrow(ends))
  value <- function(y, at) {
    found <- of(y, at)
    list(y = y, share = found$share, rise = found$rise)
  }
  taken <- function(to, at, from, which = at) Map(function(a, b) replace(a, at, b[which]), to, from)
  low <- value(ends[, 1L], every)
  high <- value(ends[, 2L], every)
  sought <- score_of(p)
  width <- if (whole) 1 else (high$y - low$y) * width_of_search
  for (side in c(1L, -1L)) {
    step <- pmax(high$y - low$y, width, least_width * abs(high$y))
    for (i in seq_len(most_doublings)) {
      end <- if (side > 0L) high else low
      off <- which((end$share < p) == (side > 0L))
      if (!length(off)) break
      straight <- (sought - score_of(end$share)) * (high$y - low$y) / (score_of(high$share) - score_of(low$share))
      ahead <- pmax(step, pmin(ahead_of_line * abs(straight), most_ahead * step), na.rm = TRUE)[off]
      if (whole) ahead <- ceiling(ahead)
      found <- value(end$y[off] + side * ahead, off)
      if (side > 0L) low <- taken(low, off, high) else high <- taken(high, off, low)
      if (side > 0L) high <- taken(high, off, found, seq_along(off)) else low <- taken(low, off, found, seq_along(off))
      step[off] <- 2 * step[off]
    }
  }
  under <- score_of(low$share) - sought
  over <- score_of(high$share) - sought
  last <- integer(length(every))
  for (i in seq_len(most_steps)) {
    open <- which(high$y - low$y > pmax(width, least_width * abs(low$y), least_width * abs(high$y)))
    if (!length(open)) break
    part <- under[open] / (under[open] - over[open])
    part[i %% halved_every == 0L | is.nan(part)] <- 0.5
    y <- low$y[open] + part * (high$y[open] - low$y[open])
    if (whole) y <- pmin(pmax(floor(y), low$y[open] + 1), high$y[open] - 1)
    found <- value(y, open)
    away <- score_of(found$share) - sought
    up <- found$share >= p
    over[open] <- ifelse(up, away, over[open] * ifelse(last[open] < 0L, 0.5, 1))
    under[open] <- ifelse(up, under[open] * ifelse(last[open] > 0L, 0.5, 1), away)
    last[open] <- ifelse(up, 1L, -1L)
    found_there <- !whole & abs(away) <= score_error
    high <- taken(high, open[up | found_there], found, up | found_there)
    low <- taken(low, open[!up | found_there], found, !up | found_there)
  }
  # As in Python: doubles have no room for larger whole numbers.
  at <- if (whole) ifelse(high$y >= most_drawn, Inf, pmax(high$y, 0)) else (low$y + high$y) / 2
  list(at = at, rise = high$rise)
}

score_of <- function(share) pmin(pmax(stats::qnorm(pmin(pmax(share, 0), 1)), -farthest_quantile), farthest_quantile)
