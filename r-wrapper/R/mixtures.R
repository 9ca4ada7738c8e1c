# Quantiles of mixtures of normal or t distributions with common degrees of freedom. A row of `where` and of `scale` is a
# mixture, a column a component; `weight` is that of the components (K), or of those of each mixture (m x K).

quantile_tol <- 1e-6
quantile_step <- 1e-4
quantile_maxiter <- 200L

# A step is believed to be the last where the density changes by no more than this share over it, and its error by that
# change is no more than this many typical scales.
straight_share <- 1e-2
straight_error <- 1e-11

# Of many components with common weights, nodes of a quadrature, every so many make mixtures that are solved for first, each from
# where the last one's quantiles are, by so many steps at the most, to about this many typical scales (see quickly()).
many_components <- 32L
every_component <- c(4L, 2L, 1L)
representative <- 0.5
quick_steps <- 3L
coarse <- 0.1

# Searches begin at quantiles of one component, with the root of the mean square of the scales, or so often their mean if that is less.
heavy_spread <- 1.5

# Components that are certain, one way or the other, as far around the starting points as this share of their distances from the
# centres are not looked at, but for mixtures that have others, which are this share at the most.
room_around <- 0.4
unlike_others <- 0.1

# Values from which on a distribution function is interpolated, cubic between nodes `table_step` apart, which is accurate
# to 1e-11: up to where a tail is `no_tail`, and no farther than `table_reach`. Less probable quantiles than `extreme` are
# not taken from it.
many_values <- 20000
table_reach <- 40
table_step <- 0.005
no_tail <- 1e-14
extreme <- 1e-3

# The t distribution (the normal one for infinite `df`): `at`, a function that gives `below`, `density` and, if asked, its `slope`
# at standard values, of which there will be `count` at a time for these probabilities, and the `reach` beyond which nothing is.
student <- function(df, count, probabilities = 0.5) {
  exact <- function(x, slope = FALSE) {
    out <- list(below = stats::pt(x, df), density = stats::dt(x, df))
    if (slope) out$slope <- -out$density * (if (is.infinite(df)) x else x * (df + 1) / (df + x^2))
    out
  }
  if (count < many_values || any(pmin(probabilities, 1 - probabilities) < extreme)) {
    return(list(at = exact, reach = Inf))
  }
  reach <- min(-stats::qt(no_tail, df), table_reach)
  whole <- reach < table_reach
  half <- ceiling(reach / table_step)
  nodes <- (-half:half) * table_step
  below <- stats::pt(nodes, df)
  starts <- stats::dt(nodes, df) * table_step
  rise <- diff(below)
  size <- length(nodes)
  square <- c(3 * rise - 2 * starts[-size] - starts[-1L], 0)
  cubic <- c(starts[-size] + starts[-1L] - 2 * rise, 0)
  # Next to nothing, which of a narrow component would be most of a mixture's density.
  starts[c(if (whole) 1L, size)] <- 0
  reach <- half * table_step
  at <- function(x, slope = FALSE) {
    place <- x * (1 / table_step) + (half + 1)
    all <- isTRUE(min(place, 1) >= 1 && max(place, 1) <= size)
    if (!all) {
      place <- pmin.int(pmax.int(place, 1), size)
      dim(place) <- dim(x)
    }
    node <- as.integer(place)
    s <- place - node
    c1 <- starts[node]
    c2 <- square[node]
    c3 <- cubic[node] * s
    inner <- c2 + c3
    out <- list(below = below[node] + s * (c1 + s * inner), density = (c1 + s * (inner + inner + c3)) * (1 / table_step))
    if (slope) out$slope <- (inner + c3 + c3) * (2 / table_step^2)
    if (!all && !whole) {
      far <- which(abs(x) >= reach)
      beyond <- exact(x[far], slope)
      for (name in names(out)) out[[name]][far] <- beyond[[name]]
    }
    out
  }
  list(at = at, reach = if (whole) reach else Inf)
}

# Sums over the components of each mixture.
over_components <- function(values, weight) if (is.null(dim(weight))) drop(values %*% weight) else rowSums(values * weight)

# One quantile of m mixtures of K normals or t's and of `spike`, the probability of zero (m).
mixture_quantile <- function(where, scale, weight, df, probability, spike = numeric(nrow(where)),
                             law = student(df, length(where), probability)) {
  quantile_of(mixtures(where, scale, weight, df, spike, law), probability)
}

# Several of them, m x length(probabilities).
mixture_quantiles <- function(where, scale, weight, df, probabilities, spike = numeric(nrow(where)),
                              law = student(df, length(where), probabilities)) {
  of <- mixtures(where, scale, weight, df, spike, law)
  if (length(probabilities)) of$core <- core_of(of, stats::qt(probabilities[1L], df))
  out <- matrix(0, nrow(where), length(probabilities))
  for (i in seq_along(probabilities)) {
    if (i > 1L && !any(of$spike > 0)) {
      # From the mirror image of the last one, or as far out as that for its probability.
      base <- stats::qt(probabilities[i - 1:0], df)
      if (base[1L] != 0) of$spread <- abs((out[, i - 1L] - of$center) / base[1L])
    }
    out[, i] <- quantile_of(of, probabilities[i])
  }
  out
}

# Mixtures, with weights that sum to 1: what the quantiles of every probability need.
mixtures <- function(where, scale, weight, df, spike, law) {
  common <- is.null(dim(weight))
  total <- if (common) rep(sum(weight), nrow(where)) else rowSums(weight)
  # Weights that sum to one but for rounding leave no spike.
  spike[spike < 1e-15] <- 0
  of <- list(where = where, scale = scale, narrow = 1 / scale, df = df, law = law, total = total, spike = spike)
  of$weight <- if (common) weight / total[1L] else weight / total
  if (any(spike > 0)) {
    of$below <- over_components(law$at(ifelse(where == 0, 0, -where / scale))$below, weight)
  }
  of$center <- over_components(where, of$weight)
  mean <- over_components(scale, of$weight)
  of$spread <- pmin(sqrt(over_components(scale^2, of$weight)), heavy_spread * mean)
  # Without noise every component is the same point.
  of$varies <- mean > 0 & total > 0
  of
}

# Typical scales of some mixtures: geometric means, since the standard deviation is that of the tail where this is heavy.
typical_scale <- function(of, some) {
  scale <- of$scale[some, , drop = FALSE]
  weight <- if (is.null(dim(of$weight))) of$weight else of$weight[some, , drop = FALSE]
  out <- exp(over_components(log(scale), weight))
  odd <- which(!((out > 0) %in% TRUE))
  if (length(odd)) {
    scale <- scale[odd, , drop = FALSE]
    weight <- if (is.null(dim(weight))) rep(weight, each = length(odd)) else weight[odd, , drop = FALSE]
    found <- exp(rowSums(ifelse(weight > 0, weight * log(scale), 0)))
    out[odd] <- ifelse(found > 0, found, pmax(rowSums(scale), .Machine$double.xmin))
  }
  out
}

# A quantile. The probability is solved for: under a heavy tail a step that is small relative to the standard deviation says
# nothing.
quantile_of <- function(of, probability) {
  spike <- of$spike
  on_spike <- FALSE
  if (any(spike > 0)) {
    on_spike <- spike > 0 & of$below < probability & probability <= of$below + spike
    probability <- ifelse(spike > 0 & probability > of$below, probability - spike, probability)
  }
  share <- rep(pmin(pmax(probability / of$total, 0), 1 - .Machine$double.eps), length.out = length(of$total))
  same <- length(share) > 0L && all(share == share[1L])
  base <- if (same) stats::qt(share[1L], of$df) else stats::qt(share, of$df)
  if (ncol(of$where) == 1L) {
    point <- of$where[, 1L] + of$scale[, 1L] * base
  } else {
    point <- solved(of$center + base * of$spread, c(of, list(share = share, base = base, todo = which(of$varies & !on_spike))))
  }
  point[on_spike] <- 0
  point
}

# The largest entry of each row.
row_maxima <- function(m) {
  if (nrow(m) < ncol(m)) {
    return(apply(m, 1L, max))
  }
  out <- m[, 1L]
  for (i in seq_len(ncol(m))[-1L]) out <- pmax.int(out, m[, i])
  out
}

# From starting points to the quantiles.
solved <- function(point, sought) {
  if (is.null(dim(sought$weight)) && length(sought$weight) >= many_components) {
    found <- quickly(point, sought)
    point <- found$point
    sought$todo <- found$left
  }
  newton(point, sought)
}

# The quantiles of most mixtures by a few steps, by mixtures of fewer components first, and those that are `left`, for newton(). A
# step is one of Newton's between normal quantiles, in which mixtures are nearly straight, and is corrected by their bend.
quickly <- function(point, sought) {
  start <- point
  todo <- sought$todo
  columns <- seq_along(sought$weight)
  room <- rep(Inf, length(point))
  above <- logical(length(point))
  core <- integer()
  if (!is.null(sought$core)) {
    near <- room_around * abs(start - sought$center)
    away <- start - sought$where[, 1L]
    certain <- (abs(away) - near > sought$core$extent)[todo]
    if (isTRUE(mean(certain) >= 1 - unlike_others)) {
      core <- seq_len(sought$core$count)
      todo <- todo[certain]
      columns <- columns[-core]
      room <- near
      above <- away > 0
    }
  }
  bend <- rep(NaN, length(point))
  sure <- logical(length(point))
  for (every in every_component) {
    last <- every == 1L
    weight <- weight_of_some(sought$weight, every)
    if (is.null(weight)) next
    below <- above * sum(weight[core])
    few <- with_components(sought, columns[weight[columns] > 0], weight)
    going <- todo
    for (i in seq_len(quick_steps)) {
      if (!length(going)) break
      x <- point[going]
      unit <- sought$spread[going]
      share <- sought$share[going]
      known <- last && i == 1L && !anyNA(bend[going])
      at <- distribution(few, x, going, slope = !known)
      reached <- at$below + below[going]
      score <- stats::qnorm(pmin(pmax(reached, 0), 1))
      normal <- stats::dnorm(score)
      if (!known) bend[going] <- at$slope / at$density + score * at$density / normal
      step <- (stats::qnorm(share) - score) * normal / at$density
      curved <- step - 0.5 * bend[going] * step^2
      change <- abs(step) * pmax(abs(bend[going]), 1 / unit)
      inside <- (change <= 0.5 & abs(x + curved - start[going]) <= room[going]) %in% TRUE
      done <- if (last) {
        short <- abs(step) <= quantile_step * unit
        enough <- abs(reached - share) <= quantile_tol * pmin(share, 1 - share)
        short & change <= straight_share & (enough | change^2 * abs(step) <= straight_error * unit)
      } else {
        change^2 * abs(step) <= coarse^3 * unit
      }
      point[going[inside]] <- (x + curved)[inside]
      sure[going] <- inside & done
      going <- going[inside & !done]
    }
  }
  list(point = point, left = sought$todo[!sure[sought$todo]])
}

# The first components that are certain around the starting points for a standard quantile `base`, of most mixtures: their number
# `count`, and how far at the most (m) from the first one's centre they reach. NULL if there are none.
core_of <- function(of, base) {
  if (!is.null(dim(of$weight)) || length(of$weight) < many_components || is.infinite(of$law$reach)) {
    return(NULL)
  }
  origin <- of$where[, 1L]
  least <- abs(of$center + base * of$spread - origin) - room_around * abs(base) * of$spread
  extent <- numeric(length(origin))
  for (k in seq_along(of$weight)[-1L] - 1L) {
    further <- pmax.int(extent, abs(of$where[, k] - origin) + of$law$reach * of$scale[, k])
    if (!isTRUE(mean(least > further) >= 1 - unlike_others)) {
      return(if (k > 1L) list(count = k - 1L, extent = extent))
    }
    extent <- further
  }
  list(count = length(of$weight) - 1L, extent = extent)
}

# Weights with which every so many components stand for all (0 of the others), but for the last one, which may be several (see
# merged()); NULL where they do not represent them.
weight_of_some <- function(weight, every) {
  if (every == 1L) {
    return(weight)
  }
  size <- length(weight)
  out <- numeric(size)
  some <- seq(size - 1L, 1L, by = -every)
  share <- sum(weight[some]) / sum(weight[-size])
  if (!isTRUE(every * share > representative)) {
    return(NULL)
  }
  out[some] <- weight[some] / share
  out[size] <- weight[size]
  out
}

# The same mixtures of some components only, with other weights.
with_components <- function(sought, columns, weight) {
  if (length(columns) < length(weight)) {
    sought$where <- sought$where[, columns, drop = FALSE]
    sought$narrow <- sought$narrow[, columns, drop = FALSE]
  }
  sought$weight <- weight[columns]
  sought
}

# The quantiles from starting points, whatever the mixtures, by bracketed Newton as in Python.
newton <- function(point, sought) {
  last <- list(x = rep(NaN, length(point)), slope = rep(NaN, length(point)))
  low <- rep(-Inf, length(point))
  high <- -low
  todo <- sought$todo
  units <- replace(low, todo, typical_scale(sought, todo))
  enough <- quantile_tol * pmin(sought$share, 1 - sought$share)
  previous <- high
  for (iteration in seq_len(quantile_maxiter)) {
    if (!length(todo)) break
    x <- point[todo]
    at <- distribution(sought, x, todo)
    excess <- at$below - sought$share[todo]
    unit <- units[todo]
    center <- sought$center[todo]
    moved <- x + normal_step(at$below, sought$share[todo]) / at$density
    odd <- !is.finite(moved)
    moved[odd] <- (x - excess / at$density)[odd]
    step <- abs(moved - x)
    bend <- abs((at$density - last$slope[todo]) / (x - last$x[todo])) * step / at$density
    straight <- bend <= straight_share & bend * step <= straight_error * unit
    last$x[todo] <- x
    last$slope[todo] <- at$density
    above <- excess >= 0
    high[todo[above]] <- x[above]
    low[todo[!above]] <- x[!above]
    # Between separated modes a probability next to the right one is not enough.
    short <- !((step > quantile_step * (abs(x - center) + unit)) %in% TRUE)
    close <- abs(excess) <= enough[todo] & short
    inside <- !is.nan(moved) & moved >= low[todo] & moved <= high[todo] & moved != x & abs(excess) <= 0.5 * previous[todo]
    close <- close | (inside & short & straight) %in% TRUE
    point[todo[inside]] <- moved[inside]
    lost <- which(!inside & !close)
    if (length(lost)) {
      ends <- bracket(sought, todo[lost], low, high)
      low[todo[lost]] <- ends$low
      high[todo[lost]] <- ends$high
      point[todo[lost]] <- middle(ends, center[lost], unit[lost])
    }
    previous[todo] <- abs(excess)
    todo <- todo[!close & point[todo] != x]
  }
  point
}

# Distribution function and density of some mixtures, each at its own point, and the slope of the density there if asked.
distribution <- function(of, x, some, slope = FALSE) {
  part <- length(some) < nrow(of$where)
  narrow <- if (part) of$narrow[some, , drop = FALSE] else of$narrow
  weight <- if (is.null(dim(of$weight)) || !part) of$weight else of$weight[some, , drop = FALSE]
  at <- of$law$at((x - if (part) of$where[some, , drop = FALSE] else of$where) * narrow, slope)
  out <- list(below = over_components(at$below, weight), density = over_components(at$density * narrow, weight))
  if (slope) out$slope <- over_components(at$slope * narrow * narrow, weight)
  out
}

# Ends between which the quantiles lie, those of the components where nothing better is known.
bracket <- function(of, some, low, high) {
  base <- if (length(of$base) > 1L) of$base[some] else of$base
  open <- is.infinite(low[some]) | is.infinite(high[some])
  out <- list(low = low[some], high = high[some])
  if (any(open)) {
    each <- of$where[some, , drop = FALSE] + base / of$narrow[some, , drop = FALSE]
    out$low <- pmax(out$low, -row_maxima(-each))
    out$high <- pmin(out$high, row_maxima(each))
  }
  out
}

# The middle of brackets whose ends may lie many powers of ten apart: in digits, not in length.
middle <- function(ends, center, unit) {
  sum <- asinh((ends$low - center) / unit) + asinh((ends$high - center) / unit)
  pmin(pmax(center + unit * sinh(0.5 * sum), ends$low), ends$high)
}

# Missing probability by a Newton step between normal quantiles, since mixtures are nearly normal; NaN in far tails.
normal_step <- function(reached, share) {
  at <- stats::qnorm(pmin(pmax(reached, 0), 1))
  (stats::qnorm(share) - at) * stats::dnorm(at)
}
