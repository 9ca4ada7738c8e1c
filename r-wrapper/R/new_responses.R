# New responses of families without a noise variance: their distribution is that given the linear predictor, averaged over the
# posterior of the linear predictor. A family says by `new` what it is: a function of a fit that returns a list of
#   whole    whether responses are whole numbers
#   up_to    probabilities of at most y (m) for linear predictors eta (m x K), a column for each component of the fit
#   around   two responses (m x 2) such that most are between them

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
    up_to = function(y, eta) up_to(y, pmin(exp(eta), .Machine$double.xmax), fit),
    around = function(eta) cbind(-1, pmin(ceiling(2 * exp(eta) + 10), most_drawn))
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
    up_to = function(y, eta) {
      m <- nrow(eta)
      matrix(stats::pt((y - eta) / for_columns(noise$sigma, m), for_columns(noise$df, m)), m)
    },
    around = function(eta) cbind(eta - reach, eta + reach)
  )
}

# Quantiles of new responses, m x length(probabilities), of rows of the model matrices `xs` of fits, the mixture of whose posteriors with
# equal weights it is; `exposure` and `unseen` as of generalized_rows().
new_quantiles <- function(fits, xs, probabilities, exposure = NULL, unseen = NULL) {
  m <- nrow(xs[[1L]])
  size <- sum(vapply(fits, function(fit) nrow(fit$posterior$weight), 0L))
  out <- matrix(0, m, length(probabilities))
  for (at in chunks(m, elements / size)) {
    if (!length(at)) next
    laws <- Map(function(fit, x) law_of_new(fit, x[at, , drop = FALSE], exposure[at], unseen[at, , drop = FALSE]), fits, xs)
    out[at, ] <- vapply(probabilities, function(p) quantiles_of_new(laws, p), numeric(length(at)))
  }
  out
}

# Lower and upper ends, from a column for each.
ends_of <- function(limits) list(limits[, 1L], limits[, 2L])

# Linear predictors of rows at the components of a fit, and the distribution of a response given them.
law_of_new <- function(fit, x, exposure, unseen) {
  post <- fit$posterior
  split <- split_rows(fit, x)
  f <- c(functionals(post, split$x, split$z), if (!is.null(unseen)) list(unseen = unseen))
  each <- mixture_of(f, components(post), post)
  shift <- drop(split$z %*% post$y_on_z[, 1L]) + if (is.null(exposure)) 0 else log(exposure)
  weight <- as.vector(each$weight)
  weight[weight < light_component] <- 0
  where <- each$where * post$y_norm[1L] + shift
  c(list(where = where, scale = sqrt(each$scale2) * post$y_norm[1L], weight = weight / sum(weight)), family_of(fit)$new(fit))
}

# The quantile of each row, by finer rules where the probability is steep.
quantiles_of_new <- function(laws, p) {
  out <- numeric(nrow(laws[[1L]]$where))
  whole <- laws[[1L]]$whole
  todo <- seq_along(out)
  for (halved in 0:most_halvings) {
    scores <- seq(-farthest_score, farthest_score, length.out = 1 + 2 * farthest_score * 2^halved)
    some <- lapply(laws, function(law) {
      law$where <- law$where[todo, , drop = FALSE]
      law$scale <- law$scale[todo, , drop = FALSE]
      law
    })
    share <- function(y, at) {
      found <- share_up_to(some, y, scores, at)$share
      if (whole) ifelse(y >= most_drawn, 1, found) else found
    }
    out[todo] <- found <- searched(share, start_of_search(some), p, whole)
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
      each <- law$up_to(y, where + scores[j] * scale)
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
  ends <- lapply(laws, function(law) law$around(drop(law$where %*% law$weight)))
  cbind(do.call(pmin, lapply(ends, function(e) e[, 1L])), do.call(pmax, lapply(ends, function(e) e[, 2L])))
}

# Where `share(y, at)` reaches p, by bisection: of whole numbers the least at which it has.
searched <- function(share, ends, p, whole) {
  low <- ends[, 1L]
  high <- ends[, 2L]
  for (side in if (whole) 1L else c(-1L, 1L)) {
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
