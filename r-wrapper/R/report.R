#' Write a report
#'
#' One HTML file with the model in words and formulas, tables, pictures, checks, warnings in plain language and what is
#' needed to make it again. It needs nothing beside it and no network.
#'
#' @details
#' Unlike the other methods this one calls Python, which fits the model again and draws; with reports come the Python
#' packages jinja2 and matplotlib, which [install_pybayesridge()] brings. The data are those that the fit keeps (see
#' `model` in [bayes_ridge()]) or that its call names.
#'
#' @param object A fit.
#' @param file Name of the file; one that is there is overwritten.
#' @param title,question Heading, and what the analysis is to answer.
#' @param target Name or position of one of several targets; by default all.
#' @param level Probability of the intervals.
#' @param ... Nothing else: an argument that there is not is an error.
#' @return `file`, invisibly.
#' @examples
#' \dontrun{
#' report(bayes_ridge(mpg ~ ., data = mtcars), "cars.html")
#' }
#' @export
report <- function(object, ...) UseMethod("report")

#' @rdname report
#' @export
report.pybayesridge_fit <- function(object, file, title = NULL, question = NULL, target = NULL, level = 0.95, ...) {
  refuse_dots("report", ...)
  check_level(level)
  if (missing(file) || !is.character(file) || length(file) != 1L || is.na(file) || !nzchar(file)) {
    stop("'file' must be the name of a file", call. = FALSE)
  }
  input <- list(
    x = own_rows(object, parent.frame())$x,
    y = as.matrix(object$fitted.values) + as.matrix(object$residuals),
    weights = object$weights,
    terms = object$terms
  )
  colnames(input$y) <- object$targets
  versions <- list(
    R = format(getRversion()),
    "pybayesridge (R package)" = format(utils::packageVersion("pybayesridge"))
  )
  page <- list(
    path = path.expand(file), title = title, question = question,
    target = if (!is.null(target)) object$targets[target_position(object, target)],
    alpha = 1 - level, call = paste(c("library(pybayesridge)", "", deparse(object$call)), collapse = "\n"),
    versions = versions, notes = as.list(c(object$notes, naprint_note(object)))
  )
  rows <- rownames(input$x)
  written <- call_fit(
    object$settings, input,
    what = "report", family = object$settings$family, page = page,
    row_names = if (!is.null(rows)) as.list(rows)
  )
  apart <- abs(as.vector(written$params) - as.vector(as.matrix(object$coefficients)))
  if (!isTRUE(all(apart <= 1e-3 * as.vector(as.matrix(object$bse))))) {
    warning("Python's fit for the report differs from this one: the versions differ, or the fit had a 'start'", call. = FALSE)
  }
  invisible(file)
}
