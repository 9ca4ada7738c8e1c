# Quantiles of mixtures of normal or t distributions with common degrees of freedom.

quantile_tol <- 1e-6
quantile_step <- 1e-4
quantile_maxiter <- 200L

# Components of the smaller mixture from whose quantile the search among many begins.
few_components <- 256L

# Values from which on a distribution function is interpolated: up to `table_reach`, cubic between nodes `table_step` apart,
# which is accurate to 1e-11.
many_values <- 20000
table_reach <- 40
table_step <- 0.005

# The t distribution (the normal one for infinite `df`): a function that gives `below` and `density` at standard values,
# of which there will be `count` at a time.
student <- function(df, count) {
  exact <- function(x) list(below = stats::pt(x, df), density = stats::dt(x, df))
  if (is.infinite(df)) {
    return(function(x) list(below = stats::pnorm(x), density = stats::dnorm(x)))
  }
  if (count < many_values) {
    return(exact)
  }
  nodes <- seq(-table_reach, table_reach, length.out = round(2 * table_reach / table_step) + 1)
  below <- stats::pt(nodes, df)
  slope <- stats::dt(nodes, df) * table_step
  rise <- diff(below)
  function(x) {
    within <- isTRUE(max(abs(range(x))) <= table_reach)
    near <- if (within) x else pmin(pmax(x, -table_reach), table_reach)
    place <- (near + table_reach) / table_step
    node <- pmin(as.integer(place), length(rise) - 1L) + 1L
    s <- place - (node - 1L)
    d0 <- slope[node]
    d1 <- slope[node + 1L]
    up <- rise[node]
    out <- list(
      below = below[node] + s * (d0 + s * (3 * up - 2 * d0 - d1 + s * (d0 + d1 - 2 * up))),
      density = (d0 + s * (d1 - d0)) / table_step
    )
    far <- if (!within) which(abs(x) > table_reach)
    if (length(far)) {
      beyond <- exact(x[far])
      out$below[far] <- beyond$below
      out$density[far] <- beyond$density
    }
    out
  }
}

# Quantiles of m mixtures of K normals or t's (`where` and `scale`, K x m, with weights K or K x m) and of `spike`, the
# probability of zero (m), by bracketed Newton: the steps that Python takes. The probability is solved for: under a heavy
# tail a step that is small relative to the standard deviation says nothing.
mixture_quantile <- function(where, scale, weight, df, probability, spike = numeric(ncol(where)),
                             law = student(df, length(where))) {
  weight <- matrix(weight, nrow(where), ncol(where))
  total <- colSums(weight)
  # Weights that sum to one but for rounding leave no spike.
  spike[spike < 1e-15] <- 0
  below <- if (any(spike > 0)) colSums(weight * law(ifelse(where == 0, 0, -where / scale))$below) else 0
  on_spike <- spike > 0 & below < probability & probability <= below + spike
  probability <- ifelse(spike > 0 & probability > below, probability - spike, rep(probability, length.out = ncol(where)))
  share <- pmin(pmax(probability / total, 0), 1 - .Machine$double.eps)
  each <- where + scale * rep(stats::qt(share, df), each = nrow(where))
  point <- each[1L, ]
  if (nrow(where) > 1L) {
    center <- colSums(weight * where) / total
    # Geometric mean: the standard deviation is that of the tail where this is heavy.
    unit <- exp(colSums(ifelse(weight > 0, weight * log(scale), 0)) / total)
    widest <- column_maxima(scale)
    unit <- ifelse(unit > 0, unit, pmax(widest, .Machine$double.xmin))
    # Without noise every component is the same point.
    todo <- which(!on_spike & widest > 0)
    low <- -column_maxima(-each)
    high <- column_maxima(each)
    point <- heavy_quantile(where, scale, weight, df, probability, total)
    if (is.null(point)) point <- center + stats::qt(share, df) * unit
    point <- pmin(pmax(point, low), high)
    point[todo] <- refined(
      point[todo], low[todo], high[todo], center[todo], unit[todo], probability[todo],
      where[, todo, drop = FALSE], scale[, todo, drop = FALSE], weight[, todo, drop = FALSE], law
    )
  }
  point[on_spike] <- 0
  point
}

# The largest entry of each column, over the shorter side.
column_maxima <- function(m) {
  if (nrow(m) > ncol(m)) {
    return(apply(m, 2L, max))
  }
  out <- m[1L, ]
  for (i in seq_len(nrow(m))[-1L]) out <- pmax(out, m[i, ])
  out
}

# Quantiles of the heaviest components, from which the search among many begins; NULL where there are few.
heavy_quantile <- function(where, scale, weight, df, probability, total) {
  if (nrow(where) <= 2L * few_components) {
    return(NULL)
  }
  heavy <- order(-rowSums(weight))[seq_len(few_components)]
  some <- weight[heavy, , drop = FALSE]
  of_some <- colSums(some)
  if (any(of_some <= 0)) {
    return(NULL)
  }
  some <- some * rep(total / of_some, each = few_components)
  mixture_quantile(where[heavy, , drop = FALSE], scale[heavy, , drop = FALSE], some, df, probability)
}

refined <- function(point, low, high, center, unit, probability, where, scale, weight, law) {
  enough <- quantile_tol * pmin(probability, 1 - probability)
  previous <- rep(Inf, length(point))
  todo <- seq_along(point)
  for (iteration in seq_len(quantile_maxiter)) {
    if (!length(todo)) break
    s <- scale[, todo, drop = FALSE]
    w <- weight[, todo, drop = FALSE]
    x <- point[todo]
    standard <- (rep(x, each = nrow(s)) - where[, todo, drop = FALSE]) / s
    of_law <- law(standard)
    excess <- colSums(w * of_law$below) - probability[todo]
    newton <- x - excess / colSums(w * of_law$density / s)
    above <- excess >= 0
    high[todo[above]] <- x[above]
    low[todo[!above]] <- x[!above]
    # Between separated modes a probability next to the right one is not enough.
    far <- abs(newton - x) > quantile_step * (abs(x - center[todo]) + unit[todo])
    close <- abs(excess) <= enough[todo] & !(far %in% TRUE)
    inside <- !is.nan(newton) & newton >= low[todo] & newton <= high[todo] & newton != x &
      abs(excess) <= 0.5 * previous[todo]
    # The ends of a bracket may lie many powers of ten apart: halve it in digits, not in length.
    ends <- asinh((low[todo] - center[todo]) / unit[todo]) + asinh((high[todo] - center[todo]) / unit[todo])
    middle <- pmin(pmax(center[todo] + unit[todo] * sinh(0.5 * ends), low[todo]), high[todo])
    point[todo] <- ifelse(inside, newton, ifelse(close, x, middle))
    previous[todo] <- abs(excess)
    todo <- todo[!close & point[todo] != x]
  }
  point
}
