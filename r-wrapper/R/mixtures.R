# Quantiles of mixtures of normal or t distributions with common degrees of freedom. A row of `where` and of `scale` is a
# mixture, a column a component; `weight` is that of the components (K), or of those of each mixture (m x K).

quantile_tol <- 1e-6
quantile_step <- 1e-4
quantile_maxiter <- 200L

# A step is believed to be the last where the density changes by no more than this share over it, and its error by that
# change is no more than this many typical scales.
straight_share <- 1e-2
straight_error <- 1e-11

# Mixtures of every so many components, nodes of a quadrature, give starting points if there are `many_components` and these
# have that share of the weight; `coarse` is the tolerance of their quantiles.
every_component <- c(4L, 2L)
many_components <- 32L
representative <- 0.5
coarse <- 5e-2

# Values from which on a distribution function is interpolated, cubic between nodes `table_step` apart, which is accurate
# to 1e-11: up to where a tail is `no_tail`, and no farther than `table_reach`. Less probable quantiles than `extreme` are
# not taken from it.
many_values <- 20000
table_reach <- 40
table_step <- 0.005
no_tail <- 1e-14
extreme <- 1e-3

# The t distribution (the normal one for infinite `df`): a function that gives `below` and `density` at standard values,
# of which there will be `count` at a time for these probabilities.
student <- function(df, count, probabilities = 0.5) {
  exact <- function(x) list(below = stats::pt(x, df), density = stats::dt(x, df))
  if (count < many_values || any(pmin(probabilities, 1 - probabilities) < extreme)) {
    return(exact)
  }
  reach <- min(-stats::qt(no_tail, df), table_reach)
  whole <- reach < table_reach
  half <- ceiling(reach / table_step)
  nodes <- (-half:half) * table_step
  below <- stats::pt(nodes, df)
  slope <- stats::dt(nodes, df) * table_step
  rise <- diff(below)
  stops <- slope[-1L]
  starts <- slope[-length(slope)]
  square <- 3 * rise - 2 * starts - stops
  cubic <- starts + stops - 2 * rise
  reach <- half * table_step
  function(x) {
    all <- length(x) > 0L && isTRUE(-reach < min(x) && max(x) < reach)
    if (!all) {
      size <- abs(x)
      near <- which(size < reach)
    }
    place <- (if (all) x else x[near]) * (1 / table_step) + half
    node <- as.integer(place)
    s <- place - node
    node <- node + 1L
    c1 <- starts[node]
    c2 <- square[node]
    c3 <- cubic[node] * s
    inside <- below[node] + s * (c1 + s * (c2 + c3))
    density <- (c1 + s * (2 * c2 + 3 * c3)) * (1 / table_step)
    if (all) {
      dim(inside) <- dim(density) <- dim(x)
      return(list(below = inside, density = density))
    }
    out <- list(below = (x > 0) * 1, density = x * 0)
    out$below[near] <- inside
    out$density[near] <- density
    if (!whole) {
      far <- which(size >= reach)
      beyond <- exact(x[far])
      out$below[far] <- beyond$below
      out$density[far] <- beyond$density
    }
    out
  }
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
  matrix(vapply(probabilities, function(p) quantile_of(of, p), numeric(nrow(where))), nrow(where))
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
    of$below <- over_components(law(ifelse(where == 0, 0, -where / scale))$below, weight)
  }
  of$center <- over_components(where, of$weight)
  # Geometric mean: the standard deviation is that of the tail where this is heavy.
  unit <- exp(over_components(log(scale), of$weight))
  odd <- !((unit > 0) %in% TRUE)
  if (any(odd)) {
    unit[odd] <- exp(rowSums(ifelse(weight_rows(of, odd) > 0, weight_rows(of, odd) * log(scale[odd, , drop = FALSE]), 0)))
    unit[odd] <- ifelse(unit[odd] > 0, unit[odd], pmax(rowSums(scale[odd, , drop = FALSE]), .Machine$double.xmin))
  }
  of$unit <- unit
  # Without noise every component is the same point.
  of$varies <- rowSums(scale) > 0 & total > 0
  of
}

weight_rows <- function(of, rows) {
  if (is.null(dim(of$weight))) matrix(of$weight, sum(rows), length(of$weight), byrow = TRUE) else of$weight[rows, , drop = FALSE]
}

# A quantile, by bracketed Newton: the steps that Python takes. The probability is solved for: under a heavy tail a step that is
# small relative to the standard deviation says nothing.
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
    point <- solved(of$center + base * of$unit, c(of, list(share = share, base = base, todo = which(of$varies & !on_spike))))
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

# From starting points by mixtures of fewer components, if there are many, to the quantiles.
solved <- function(point, sought) {
  found <- list(point = point, last = list(x = rep(NaN, length(point)), slope = rep(NaN, length(point))))
  weight <- sought$weight
  if (is.null(dim(weight)) && length(weight) >= many_components) {
    for (every in every_component) {
      some <- seq(1L, length(weight), by = every)
      share <- sum(weight[some])
      if (every * share > representative) {
        few <- sought
        few$where <- sought$where[, some, drop = FALSE]
        few$narrow <- sought$narrow[, some, drop = FALSE]
        few$weight <- weight[some] / share
        found <- newton(found, few, coarse, coarse)
      }
    }
  }
  newton(found, sought, quantile_tol, quantile_step)$point
}

# The quantiles from starting points, and the last points with the densities there.
newton <- function(found, sought, tol, largest_step) {
  point <- found$point
  last <- found$last
  low <- rep(-Inf, length(point))
  high <- -low
  todo <- sought$todo
  enough <- tol * pmin(sought$share, 1 - sought$share)
  previous <- high
  for (iteration in seq_len(quantile_maxiter)) {
    if (!length(todo)) break
    x <- point[todo]
    at <- distribution(sought, x, todo)
    excess <- at$below - sought$share[todo]
    unit <- sought$unit[todo]
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
    short <- !((step > largest_step * (abs(x - center) + unit)) %in% TRUE)
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
  list(point = point, last = last)
}

# Distribution function and density of some mixtures, each at its own point.
distribution <- function(of, x, some) {
  part <- length(some) < nrow(of$where)
  narrow <- if (part) of$narrow[some, , drop = FALSE] else of$narrow
  weight <- if (is.null(dim(of$weight)) || !part) of$weight else of$weight[some, , drop = FALSE]
  at <- of$law((x - if (part) of$where[some, , drop = FALSE] else of$where) * narrow)
  list(below = over_components(at$below, weight), density = over_components(at$density * narrow, weight))
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
