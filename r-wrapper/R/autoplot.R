#' Plots for 'ggplot2'
#'
#' The pictures of [plot()][plot.pybayesridge_fit] as objects of 'ggplot2', to which layers, scales and themes can be added.
#' Python is not required.
#'
#' @param object A fit.
#' @param which As in `plot()`: `"coefficients"`, for [spike_slab()] `"inclusion"` (the default for these fits), and for
#'   binomial fits `"calibration"` and `"roc"`, for fits with terms such as `(1 | g)` `"random_effects"`.
#' @param level Probability of the credible intervals.
#' @param target Name or position of a target, if there are several.
#' @param max_shown Number of coefficients to show, as in `plot()`.
#' @param intercept Whether to show the intercept.
#' @param standardized Whether to show coefficients per standard deviation of their column.
#' @param bins For `"calibration"`: number of bins of equally many trials.
#' @param ... Not used: further arguments raise an error.
#' @return A `"ggplot"` object. Its data are a data frame with the column `term` and the columns `estimate`, `lower` and
#'   `upper`, or `inclusion_prob`; for `"calibration"` with `probability`, `share`, `lower` and `upper`; for `"roc"` with
#'   `false_positive` and `true_positive`.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("ggplot2", quietly = TRUE)
#' ggplot2::autoplot(bayes_ridge(mpg ~ ., data = mtcars))
#' @exportS3Method ggplot2::autoplot
autoplot.pybayesridge_fit <- function(object, which = NULL, level = 0.95, target = 1, max_shown = 40, intercept = FALSE,
                                      standardized = TRUE, bins = 10, ...) {
  refuse_dots("autoplot", ...)
  which <- check_picture(object, which)
  shown <- pictures[[which]]$shows(object, list(
    level = level, target = target, max_shown = max_shown, intercept = intercept, standardized = standardized, bins = bins
  ))
  if (!is.null(shown$table$term)) shown$table$term <- factor(shown$table$term, levels = shown$table$term)
  pictures[[which]]$ggplot(shown) + ggplot2::labs(x = shown$xlab, y = shown$ylab, title = shown$main)
}

# The names of columns as ggplot2::aes() takes them.
aesthetics <- function(...) do.call(ggplot2::aes, lapply(list(...), as.symbol))

coefficient_ggplot <- function(shown) {
  ggplot2::ggplot(shown$table, aesthetics(x = "estimate", y = "term")) +
    ggplot2::geom_vline(xintercept = 0, linetype = 2, colour = "grey50") +
    ggplot2::geom_segment(aesthetics(x = "lower", xend = "upper", yend = "term")) +
    ggplot2::geom_point()
}

inclusion_ggplot <- function(shown) {
  ggplot2::ggplot(shown$table, aesthetics(x = "inclusion_prob", y = "term")) +
    ggplot2::geom_vline(xintercept = 0.5, linetype = 2, colour = "grey50") +
    ggplot2::geom_segment(aesthetics(xend = "inclusion_prob", yend = "term"), x = 0) +
    ggplot2::geom_point() +
    ggplot2::coord_cartesian(xlim = c(0, 1))
}

# Axes are those of the unit square, with the diagonal.
unit_square <- function(table, x, y) {
  ggplot2::ggplot(table, aesthetics(x = x, y = y)) +
    ggplot2::geom_abline(intercept = 0, slope = 1, linetype = 2, colour = "grey50") +
    ggplot2::coord_fixed(xlim = c(0, 1), ylim = c(0, 1))
}

calibration_ggplot <- function(shown) {
  unit_square(shown$table, "probability", "share") +
    ggplot2::geom_line() +
    ggplot2::geom_segment(aesthetics(y = "lower", xend = "probability", yend = "upper")) +
    ggplot2::geom_point()
}

# The steps of the curve in their order, some of which go straight up.
roc_ggplot <- function(shown) unit_square(shown$table, "false_positive", "true_positive") + ggplot2::geom_path()
