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

# Steps of the search; a continuous response is found to 2^-50 of where it was looked for.
most_doublings <- 200L
most_bisections <- 100L
width_of_search <- 2^-50

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

# Distribution functions of so many trials are sums; for more they are averages over so many log odds of a beta variable, which go on
# both sides so many standard deviations of the normal density as curved, and by an exponent in its exponential tail: as in Python.
few_trials <- 1000
log_odds_nodes <- 49L
log_odds_around <- 6
log_odds_beyond <- 18

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
  width <- log_odds_around * sqrt((a + b) / a / b)
  low <- -width - log_odds_beyond / a
  high <- width + log_odds_beyond / b
  below <- total <- 0
  for (node in seq(0, 1, length.out = log_odds_nodes)) {
    away <- low + (high - low) * node
    change <- ifelse(
      away < 0, log1p(a / (a + b) * expm1(pmin(away, 0))), pmax(away, 0) + log1p(b / (a + b) * expm1(-pmax(away, 0)))
    )
    weight <- exp(a * away - (a + b) * change)
    below <- below + weight * stats::pbeta(stats::plogis(log(a / b) + away), other, rest)
    total <- total + weight
  }
  ifelse(over_share, 1 - below / total, below / total)
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

# The quantile of each row, by finer rules where the probability is steep.
quantiles_of_new <- function(laws, p) {
  out <- numeric(nrow(laws[[1L]]$where))
  whole <- laws[[1L]]$whole
  todo <- seq_along(out)
  # Whole numbers are looked for from where they are at the means of the components.
  for (halved in (if (whole) -1L else 0L):most_halvings) {
    scores <- if (halved < 0L) 0 else seq(-farthest_score, farthest_score, length.out = 1 + 2 * farthest_score * 2^halved)
    some <- lapply(laws, function(law) {
      law$where <- law$where[todo, , drop = FALSE]
      law$scale <- law$scale[todo, , drop = FALSE]
      law$extent <- law$extent[todo]
      law
    })
    share <- function(y, at) {
      found <- share_up_to(some, y, scores, at)$share
      if (whole) ifelse(y >= most_drawn, 1, found) else found
    }
    near <- if (whole) pmin(out[todo], most_drawn)
    out[todo] <- found <- searched(share, if (whole && halved >= 0L) cbind(near - 1, near) else start_of_search(some), p, whole)
    if (halved < 0L) next
    if (whole) found <- pmin(found, most_drawn)
    todo <- todo[share_up_to(some, found, scores, seq_along(todo))$rise > steep]
    if (!length(todo)) break
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
  list(share = share, rise = rise)
}

# Responses between which most of those of each row are.
start_of_search <- function(laws) {
  ends <- lapply(laws, function(law) law$around(drop(law$where %*% law$weight), law$extent))
  cbind(do.call(pmin, lapply(ends, function(e) e[, 1L])), do.call(pmax, lapply(ends, function(e) e[, 2L])))
}

# Where `share(y, at)` reaches p, by bisection: of whole numbers the least at which it has.
searched <- function(share, ends, p, whole) {
  low <- ends[, 1L]
  high <- ends[, 2L]
  for (side in c(-1L, 1L)) {
    step <- high - low
    for (i in seq_len(most_doublings)) {
      end <- if (side > 0L) high else low
      off <- which((share(end, seq_along(end)) < p) == (side > 0L))
      if (!length(off)) break
      if (side > 0L) high[off] <- high[off] + step[off] else low[off] <- low[off] - step[off]
      step[off] <- 2 * step[off]
    }
  }
  width <- if (whole) rep(1, length(low)) else (high - low) * width_of_search
  for (i in seq_len(most_bisections)) {
    open <- which(high - low > width)
    if (!length(open)) break
    middle <- (low[open] + high[open]) / 2
    if (whole) middle <- floor(middle)
    up <- middle > low[open] & middle < high[open]
    if (!any(up)) break
    reached <- share(middle, open) >= p
    high[open[reached]] <- middle[reached]
    low[open[!reached]] <- middle[!reached]
  }
  # As in Python: doubles have no room for larger whole numbers.
  if (whole) ifelse(high >= most_drawn, Inf, pmax(high, 0)) else (low + high) / 2
}
