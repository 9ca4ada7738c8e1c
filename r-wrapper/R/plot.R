#' Plot a fit
#'
#' Plots coefficients with credible intervals and, for [spike_slab()], inclusion probabilities in base graphics. Python
#' is not required.
#'
#' @param x A fit.
#' @param which `"coefficients"` or, for [spike_slab()], `"inclusion"` (the default for these fits). For binomial fits also
#'   `"calibration"` (shares of events in bins of the leave-one-out probabilities, with Clopper-Pearson 95 % intervals) and
#'   `"roc"` (their ROC curve); for [spike_slab()] these are of the fitted probabilities, and in-sample.
#' @param level Probability of the credible intervals.
#' @param target Name or position of a target, if there are several.
#' @param max_shown Number of coefficients to show: those with the largest standardised values, or those with the
#'   highest inclusion probabilities.
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
  given <- plot_arguments(...)
  table <- shown_coefficients(x, level, target, max_shown, intercept, standardized)
  at <- seq_len(nrow(table))
  ends <- cbind(table$lower, table$upper)
  xlab <- xlab %||% coefficient_label(standardized)
  if (is.null(main)) main <- sprintf("%s: %g %% intervals", x$targets[target], 100 * level)
  finite <- ends[is.finite(ends)]
  old <- graphics::par("mai", "new")
  on.exit(graphics::par(old))
  dot_frame(table$term, utils::modifyList(list(xlim = range(0, table$estimate, finite), xlab = xlab, main = main), given$frame))
  graphics::abline(v = 0, lty = 2L, col = "grey50")
  left <- pmax(ends[, 1L], graphics::par("usr")[1L])
  right <- pmin(ends[, 2L], graphics::par("usr")[2L])
  do.call(graphics::segments, c(list(left, at, right, at), given$line))
  draw_points(table$estimate, at, given$point)
  invisible(x)
}

coefficient_label <- function(standardized) if (standardized) "coefficient per standard deviation" else "coefficient"

inclusion_label <- "posterior inclusion probability"

# Coefficients as they are shown, the last first: those of the largest standardised size, in the order of the model.
shown_coefficients <- function(x, level, target, max_shown, intercept, standardized) {
  names <- coefficient_names(x)
  unit <- rep(1, length(names))
  if (standardized) {
    unit[x$posterior$at] <- x$posterior$sd
  }
  keep <- which(intercept | names != "(Intercept)")
  size <- standardized_size(x)[, target]
  keep <- keep[order(-size[keep])][seq_len(min(max_shown, length(keep)))]
  keep <- rev(sort(keep))
  ends <- coefficient_intervals(x, target, tails(level), keep) * unit[keep]
  data.frame(
    term = names[keep], estimate = unname(as.matrix(x$coefficients)[keep, target] * unit[keep]),
    lower = ends[, 1L], upper = ends[, 2L]
  )
}

# Inclusion probabilities as they are shown, likewise.
shown_inclusion <- function(x, intercept, max_shown) {
  p <- inclusion_bars(x, intercept)
  keep <- order(-p)[seq_len(min(max_shown, length(p)))]
  p[rev(sort(keep))]
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
    own <- c(names(formals(plot.spike_slab)), "xlim", "ylim", "ylab", "sub", "col", "pch", "cex", "lwd")
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

#' @rdname plot.pybayesridge_fit
#' @export
plot.spike_slab <- function(x, which = c("inclusion", "coefficients"), level = 0.95, max_shown = 40, intercept = FALSE,
                            standardized = TRUE, xlab = NULL, main = NULL, sets = TRUE, ...) {
  check_flag(sets, "sets")
  which <- match.arg(which)
  if (which == "coefficients") {
    return(plot_coefficients(x, level, 1, max_shown, intercept, standardized, xlab, main, ...))
  }
  given <- plot_arguments(...)
  p <- shown_inclusion(x, intercept, max_shown)
  at <- seq_along(p)
  old <- graphics::par("mai", "new")
  on.exit(graphics::par(old))
  if (is.null(xlab)) xlab <- inclusion_label
  if (is.null(main)) main <- x$targets
  dot_frame(names(p), utils::modifyList(list(xlim = c(0, 1), xlab = xlab, main = main), given$frame))
  graphics::abline(v = 0.5, lty = 2L, col = "grey50")
  do.call(graphics::segments, utils::modifyList(list(0, at, p, at, lwd = 3, lend = 1L), given$line))
  draw_points(p, at, given$point)
  if (sets && is_sets(x$posterior)) draw_sets(credible_sets(x), x, names(p))
  invisible(x)
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

# Inclusion probabilities as they are shown: of every term or group once, in the order of the model, unpenalised columns
# among them.
inclusion_bars <- function(x, intercept) {
  p <- x$inclusion_prob
  if (!is.null(x$posterior$groups)) {
    of_group <- inclusion_prob(x, by = "group")
    certain <- setdiff(names(p)[x$posterior$z_at], names(of_group))
    p <- c(p[certain], of_group)
  }
  if (intercept) p else p[names(p) != "(Intercept)"]
}
