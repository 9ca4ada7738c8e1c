#' Plot a fit
#'
#' Coefficients with their intervals, or for [spike_slab()] also inclusion probabilities, in base graphics. Needs no
#' Python.
#'
#' @param x A fit.
#' @param which `"coefficients"` or, for [spike_slab()], `"inclusion"`, the default there.
#' @param level Probability of the intervals.
#' @param target Name or position of one of several targets.
#' @param max_shown How many coefficients to show: the largest per standard deviation, or the most probable.
#' @param intercept Whether to show the intercept.
#' @param standardized Whether to show coefficients per standard deviation of their column.
#' @param xlab,main,... Passed to [graphics::plot.default()].
#' @return `x`, invisibly.
#' @examplesIf pybayesridge::pybayesridge_available()
#' plot(bayes_ridge(mpg ~ ., data = mtcars))
#' @name plot.pybayesridge_fit
NULL

#' @rdname plot.pybayesridge_fit
#' @export
plot.bayes_ridge <- function(x, level = 0.95, target = 1, max_shown = 40, intercept = FALSE, standardized = TRUE,
                             xlab = NULL, main = NULL, ...) {
  plot_coefficients(x, level, target, max_shown, intercept, standardized, xlab, main, ...)
}

plot_coefficients <- function(x, level, target, max_shown, intercept, standardized, xlab, main, ...) {
  check_level(level)
  target <- target_position(x, target)
  names <- coefficient_names(x)
  limits <- coefficient_intervals(x, target, tails(level))
  unit <- rep(1, length(names))
  if (standardized) {
    unit[x$posterior$at] <- x$posterior$sd
  }
  keep <- which(intercept | names != "(Intercept)")
  size <- standardized_size(x)[, target]
  keep <- keep[order(-size[keep])][seq_len(min(max_shown, length(keep)))]
  keep <- rev(sort(keep))
  at <- seq_along(keep)
  middle <- as.matrix(x$coefficients)[keep, target] * unit[keep]
  ends <- limits[keep, , drop = FALSE] * unit[keep]
  if (is.null(xlab)) {
    xlab <- if (standardized) "coefficient per standard deviation" else "coefficient"
  }
  if (is.null(main)) main <- sprintf("%s: %g %% intervals", x$targets[target], 100 * level)
  finite <- ends[is.finite(ends)]
  old <- wide_margin(names[keep])
  on.exit(graphics::par(old))
  dot_frame(names[keep], range(0, middle, finite), xlab, main, ...)
  graphics::abline(v = 0, lty = 2L, col = "grey50")
  graphics::segments(pmax(ends[, 1L], graphics::par("usr")[1L]), at, pmin(ends[, 2L], graphics::par("usr")[2L]), at)
  graphics::points(middle, at, pch = 19L)
  invisible(x)
}

# Room for names at the left; gives what par() was.
wide_margin <- function(names) {
  mai <- graphics::par("mai")
  width <- max(nchar(names), 0L) * graphics::par("cin")[1L] * 0.7 + 0.4
  graphics::par(mai = c(mai[1L], min(width, 0.5 * graphics::par("din")[1L]), mai[3L], mai[4L]))
}

# An empty plot with names at the left.
dot_frame <- function(names, xlim, xlab, main, ...) {
  at <- seq_along(names)
  graphics::plot.default(
    xlim, range(c(0.5, length(at) + 0.5)),
    type = "n", yaxt = "n", xlab = xlab, ylab = "", main = main, ...
  )
  graphics::axis(2L, at = at, labels = names, las = 1L, cex.axis = 0.8)
}
