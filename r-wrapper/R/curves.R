# Smooth curves as columns: natural cubic splines with knots at quantiles, of whose functions all but a line are penalised by
# their squared coefficients. As in formula/smooths.py, which says why.

# Values of a function at knots that differ by less, relative to the largest, may be equal but for rounding.
tie <- 1e-6

# What a curve of a variable is: its `knots`, `values` and `curvatures` of the penalised functions at these (k x (k - 2)), and the
# `mean` of the variable. `centered`: whether each function has mean zero over the rows.
curve_of <- function(x, count, centered, written) {
  if (!(is.numeric(x) || is.logical(x)) || length(dim(x)) > 1L && ncol(x) > 1L) {
    stop(
      written, ": a smooth curve is a function of one variable that is a number, not of ",
      if (length(dim(x)) > 1L) "several columns" else "text or another factor",
      call. = FALSE
    )
  }
  x <- as.double(x)
  if (any(is.infinite(x))) {
    stop(written, ": the variable is infinite in row ", which(is.infinite(x))[1L], call. = FALSE)
  }
  distinct <- length(unique(x))
  if (distinct == 1L) {
    stop(written, ": the variable has the same value in every row, so that there is no curve: leave it out", call. = FALSE)
  }
  if (distinct < count) {
    stop(
      written, ": the variable has ", distinct, " distinct values, and a curve with k = ", count, " needs at least ", count, ": use ",
      if (distinct > 2L) paste0("k = ", distinct, " or less") else "the variable itself",
      call. = FALSE
    )
  }
  knots <- stats::quantile(unique(x), seq(0, 1, length.out = count), names = FALSE)
  if (!all(diff(knots) > 0) || !is.finite(diff(range(knots)))) {
    stop(written, ": the values of the variable lie too close together, or too far apart, for a curve", call. = FALSE)
  }
  c(penalized_curve(knots, x, centered), list(mean = mean(x)))
}

penalized_curve <- function(knots, x, centered) {
  unit <- knots[length(knots)] - knots[1L]
  steps <- diff(knots) / unit
  products <- second_products(knots / unit)
  count <- ncol(products)
  inner <- backsolve(chol(products), diag(count))
  running <- function(m) rbind(0, apply(m, 2L, cumsum))
  slopes <- rbind(0, matrix(apply(products %*% inner, 2L, cumsum), count))
  values <- running(steps * slopes)
  curvatures <- rbind(0, inner, 0) / unit^2
  line <- (knots - mean(x)) / unit
  if (centered) {
    values <- values - rep(colMeans(curve_at(list(knots = knots, values = values, curvatures = curvatures), x)), each = length(knots))
    values <- values - outer(line, drop(line %*% values) / sum(line^2))
  } else {
    values <- qr.resid(qr(cbind(1, line)), values)
  }
  order <- svd(values)$v
  values <- values %*% order
  curvatures <- curvatures %*% order
  # The first of the largest values of each function is positive.
  signs <- apply(values, 2L, function(v) sign(v[which(abs(v) >= (1 - tie) * max(abs(v)))[1L]]))
  list(knots = knots, values = values * rep(signs, each = nrow(values)), curvatures = curvatures * rep(signs, each = nrow(values)))
}

# Products of the second derivatives of natural splines that are given at the inner knots.
second_products <- function(knots) {
  h <- diff(knots)
  n <- length(h) - 1L
  out <- diag((h[-length(h)] + h[-1L]) / 3, n)
  if (n > 1L) {
    beside <- cbind(seq_len(n - 1L), seq_len(n - 1L) + 1L)
    out[beside] <- out[beside[, 2:1, drop = FALSE]] <- h[2:n] / 6
  }
  out
}

# The penalised functions at some points, length(x) x (k - 2); beyond the knots they go on as lines.
curve_at <- function(curve, x) {
  knots <- curve$knots
  f <- curve$values
  g <- curve$curvatures
  last <- length(knots)
  inside <- pmin(pmax(x, knots[1L]), knots[last])
  i <- findInterval(ifelse(is.na(inside), knots[1L], inside), knots, rightmost.closed = TRUE)
  h <- diff(knots)[i]
  left <- (knots[i + 1L] - inside) / h
  right <- (inside - knots[i]) / h
  out <- left * f[i, , drop = FALSE] + right * f[i + 1L, , drop = FALSE] +
    h^2 / 6 * ((left^3 - left) * g[i, , drop = FALSE] + (right^3 - right) * g[i + 1L, , drop = FALSE])
  beyond <- which(x != inside)
  if (length(beyond)) {
    h <- diff(knots)
    ends <- rbind(
      (f[2L, ] - f[1L, ]) / h[1L] - h[1L] * (2 * g[1L, ] + g[2L, ]) / 6,
      (f[last, ] - f[last - 1L, ]) / h[last - 1L] + h[last - 1L] * (g[last - 1L, ] + 2 * g[last, ]) / 6
    )
    which_end <- 1L + (x[beyond] > knots[last])
    out[beyond, ] <- out[beyond, , drop = FALSE] + (x[beyond] - inside[beyond]) * ends[which_end, , drop = FALSE]
  }
  out
}
