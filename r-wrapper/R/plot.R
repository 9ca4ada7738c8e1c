#' Plot a fit
#'
#' Plots coefficients with credible intervals, inclusion probabilities of [spike_slab()], and for binomial fits the calibration
#' and the ROC curve of the probabilities, in base graphics. Python is not required.
#'
#' @param x A fit.
#' @param which `"coefficients"` or, for [spike_slab()], `"inclusion"` (the default for these fits). For binomial fits also
#'   `"calibration"` (shares of events in bins of the leave-one-out probabilities, with Clopper-Pearson 95 % intervals) and
#'   `"roc"` (their ROC curve); for [spike_slab()] these are of the fitted probabilities, and in-sample.
#'   For fits with terms such as `(1 | g)` also `"random_effects"`: the effects of the groups in ascending order.
#' @param level Probability of the credible intervals.
#' @param target Name or position of a target, if there are several.
#' @param max_shown Number of coefficients to show: those with the largest standardised values, or those with the
#'   highest inclusion probabilities; of effects of groups those farthest from 0.
#' @param intercept Whether to show the intercept.
#' @param standardized Whether to show coefficients per standard deviation of their column.
#' @param bins For `"calibration"`: number of bins of equally many trials.
#' @param xlab,main Labels.
#' @param sets For inclusion probabilities of a fit by `method = "exact"`: whether to write the number of the credible set
#'   of a column (see [credible_sets()]) at the right margin.
#' @param ... Passed to [graphics::plot.default()] in place of the defaults of the plot: `xlim`, `ylim`, `ylab`, `sub`
#'   and similar arguments. `col`, `pch`, `cex` and `lwd` apply to points and lines.
#' @return `x`, invisibly.
#' @examplesIf pybayesridge::pybayesridge_available()
#' plot(bayes_ridge(mpg ~ ., data = mtcars))
#' @name plot.pybayesridge_fit
#' @export
plot.pybayesridge_fit <- function(x, which = NULL, level = 0.95, target = 1, max_shown = 40, intercept = FALSE,
                                  standardized = TRUE, bins = 10, xlab = NULL, main = NULL, sets = TRUE, ...) {
  which <- check_picture(x, which)
  given <- plot_arguments(...)
  options <- list(
    level = level, target = target, max_shown = max_shown, intercept = intercept, standardized = standardized, bins = bins
  )
  shown <- pictures[[which]]$shows(x, options)
  given$frame <- utils::modifyList(list(xlab = xlab %||% shown$xlab, main = main %||% shown$main), given$frame)
  old <- graphics::par("mai", "new")
  on.exit(graphics::par(old))
  pictures[[which]]$draw(shown, given)
  if (check_flag(sets, "sets") && which == "inclusion" && has_sets(x$posterior)) {
    draw_sets(credible_sets(x), x, shown$table$term)
  }
  invisible(x)
}

draw_coefficients <- function(shown, given) {
  table <- shown$table
  at <- seq_len(nrow(table))
  ends <- cbind(table$lower, table$upper)
  limits <- range(0, table$estimate, ends[is.finite(ends)])
  dot_frame(table$term, utils::modifyList(list(xlim = limits), given$frame))
  graphics::abline(v = 0, lty = 2L, col = "grey50")
  left <- pmax(ends[, 1L], graphics::par("usr")[1L])
  right <- pmin(ends[, 2L], graphics::par("usr")[2L])
  do.call(graphics::segments, c(list(left, at, right, at), given$line))
  draw_points(table$estimate, at, given$point)
}

draw_inclusion <- function(shown, given) {
  p <- shown$table$inclusion_prob
  at <- seq_along(p)
  dot_frame(shown$table$term, utils::modifyList(list(xlim = c(0, 1)), given$frame))
  graphics::abline(v = 0.5, lty = 2L, col = "grey50")
  do.call(graphics::segments, utils::modifyList(list(0, at, p, at, lwd = 3, lend = 1L), given$line))
  draw_points(p, at, given$point)
}

draw_calibration <- function(shown, given) {
  table <- shown$table
  draw_curve(table$probability, table$share, shown, given)
  do.call(graphics::segments, c(list(table$probability, table$lower, table$probability, table$upper), given$line))
  draw_points(table$probability, table$share, given$point)
}

draw_roc <- function(shown, given) draw_curve(shown$table$false_positive, shown$table$true_positive, shown, given)

# A curve in the unit square, with the diagonal.
draw_curve <- function(x, y, shown, given) {
  defaults <- list(x = 0:1, y = 0:1, type = "l", lty = 2L, col = "grey50", ylab = shown$ylab)
  do.call(graphics::plot.default, utils::modifyList(defaults, given$frame))
  do.call(graphics::lines, utils::modifyList(list(x = x, y = y), given$line))
}

draw_points <- function(x, y, given) {
  do.call(graphics::points, utils::modifyList(list(x = x, y = y, pch = 19L), given))
}

# What the user said of a plot: for the frame, for points and for lines.
plot_arguments <- function(...) {
  given <- list(...)
  takes <- c(names(formals(graphics::plot.default)), names(graphics::par(no.readonly = TRUE)))
  unknown <- setdiff(names(given), setdiff(takes, c("x", "y", "type", "new")))
  if (length(unknown)) {
    own <- c(names(formals(plot.pybayesridge_fit)), "xlim", "ylim", "ylab", "sub", "col", "pch", "cex", "lwd")
    stop("plot() has no argument '", unknown[1L], "'", did_you_mean(unknown[1L], setdiff(own, "...")), call. = FALSE)
  }
  if (length(given) && (is.null(names(given)) || !all(nzchar(names(given))))) {
    stop("plot() was given too many arguments", call. = FALSE)
  }
  of_points <- c("col", "pch", "cex", "bg", "lwd", "lty")
  list(
    frame = given[setdiff(names(given), of_points)],
    point = given[intersect(names(given), c("col", "pch", "cex", "bg"))],
    line = given[intersect(names(given), c("col", "lwd", "lty"))]
  )
}

# Size of the names at the left, relative to par("cex").
name_size <- 0.8

# Inches between the names and the frame: an axis has its labels on the line that mgp says.
name_gap <- function() (graphics::par("mgp")[2L] + 0.5) * graphics::par("csi")

# Labels for the left, cut where one is wider than half of the figure, and the margin that they need, in inches. Widths are
# those of the device, so there must be a plot.
name_margin <- function(names, title = FALSE) {
  rest <- name_gap() + if (title) graphics::par("csi") * 1.5 else 0
  most <- 0.6 * graphics::par("fin")[1L] - rest
  width <- function(labels) graphics::strwidth(labels, units = "inches", cex = name_size)
  labels <- names
  wide <- width(labels) > most
  labels[wide] <- vapply(names[wide], function(name) {
    sizes <- seq_len(nchar(name))
    fits <- width(paste0(substring(name, 1L, sizes), "...")) <= most
    paste0(substr(name, 1L, max(sizes[fits], 1L)), "...")
  }, "")
  list(labels = unname(labels), inches = max(width(labels), 0) + rest)
}

# An empty plot with names at the left; `given` goes over what is chosen here. Leaves the margins changed.
dot_frame <- function(names, given) {
  at <- seq_along(names)
  given <- utils::modifyList(list(ylim = range(c(0.5, length(at) + 0.5)), ylab = ""), given)
  graphics::plot.new()
  margin <- name_margin(names, title = nzchar(given$ylab))
  mai <- graphics::par("mai")
  graphics::par(mai = c(mai[1L], max(margin$inches, 0.3), mai[3L], mai[4L]), new = TRUE)
  ylab <- given$ylab
  given$ylab <- ""
  arguments <- utils::modifyList(list(x = given$xlim, y = given$ylim), given)
  do.call(graphics::plot.default, utils::modifyList(arguments, list(type = "n", yaxt = "n")))
  if (!identical(given$yaxt, "n")) {
    graphics::axis(2L, at = at, labels = margin$labels, las = 1L, cex.axis = name_size)
  }
  graphics::mtext(ylab, side = 2L, line = margin$inches / graphics::par("csi") - 1.5)
}

# The numbers of credible sets at the right, beside the columns or terms `shown`.
draw_sets <- function(found, x, shown) {
  of_shown <- found$set[match(shown, label_of_columns(x, found$column))]
  marked <- which(!is.na(of_shown))
  if (!length(marked)) {
    return(invisible())
  }
  graphics::mtext(of_shown[marked], side = 4L, line = 0.3, at = marked, las = 1L, cex = name_size * graphics::par("cex"))
  graphics::mtext("set", side = 3L, line = 0.2, at = graphics::par("usr")[2L], adj = 0, cex = name_size * graphics::par("cex"))
}

# What inclusion_bars() calls columns: their terms or groups, or themselves.
label_of_columns <- function(x, columns) {
  if (is.null(x$posterior$groups) || is.null(x$settings$group)) {
    return(columns)
  }
  labels <- as.character(unlist(x$settings$group))
  names <- coefficient_names(x)
  if (x$intercept_added) names <- names[-1L]
  labels[match(columns, names)]
}
