#' Plots for 'ggplot2'
#'
#' The pictures of [plot()][plot.pybayesridge_fit] as objects of 'ggplot2', to which layers, scales and themes can be added.
#' Python is not required.
#'
#' @param object A fit.
#' @param which `"coefficients"` or, for [spike_slab()], `"inclusion"` (the default for these fits).
#' @param level Probability of the credible intervals.
#' @param target Name or position of a target, if there are several.
#' @param max_shown Number of coefficients to show, as in `plot()`.
#' @param intercept Whether to show the intercept.
#' @param standardized Whether to show coefficients per standard deviation of their column.
#' @param ... Not used: further arguments raise an error.
#' @return A `"ggplot"` object. Its data are a data frame with the column `term` and the columns `estimate`, `lower` and
#'   `upper`, or `inclusion_prob`.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("ggplot2", quietly = TRUE)
#' ggplot2::autoplot(bayes_ridge(mpg ~ ., data = mtcars))
#' @exportS3Method ggplot2::autoplot
autoplot.pybayesridge_fit <- function(object, which = NULL, level = 0.95, target = 1, max_shown = 40, intercept = FALSE,
                                      standardized = TRUE, ...) {
  refuse_dots("autoplot", ...)
  selection <- inherits(object, "spike_slab")
  which <- match.arg(which, c(if (selection) "inclusion", "coefficients"))
  if (which == "inclusion") {
    return(inclusion_ggplot(shown_inclusion(object, intercept, max_shown), object$targets))
  }
  check_level(level)
  target <- target_position(object, target)
  table <- shown_coefficients(object, level, target, max_shown, intercept, standardized)
  coefficient_ggplot(table, standardized, sprintf("%s: %g %% intervals", object$targets[target], 100 * level))
}

coefficient_ggplot <- function(table, standardized, title) {
  table$term <- factor(table$term, levels = table$term)
  columns <- function(...) do.call(ggplot2::aes, list(...))
  ggplot2::ggplot(table, columns(x = quote(estimate), y = quote(term))) +
    ggplot2::geom_vline(xintercept = 0, linetype = 2, colour = "grey50") +
    ggplot2::geom_segment(columns(x = quote(lower), xend = quote(upper), yend = quote(term))) +
    ggplot2::geom_point() +
    ggplot2::labs(x = coefficient_label(standardized), y = NULL, title = title)
}

inclusion_ggplot <- function(p, title) {
  table <- data.frame(term = factor(names(p), levels = names(p)), inclusion_prob = unname(p))
  columns <- function(...) do.call(ggplot2::aes, list(...))
  ggplot2::ggplot(table, columns(x = quote(inclusion_prob), y = quote(term))) +
    ggplot2::geom_vline(xintercept = 0.5, linetype = 2, colour = "grey50") +
    ggplot2::geom_segment(columns(x = 0, xend = quote(inclusion_prob), yend = quote(term))) +
    ggplot2::geom_point() +
    ggplot2::coord_cartesian(xlim = c(0, 1)) +
    ggplot2::labs(x = inclusion_label, y = NULL, title = title)
}
