#' Write a report
#'
#' Writes a self-contained HTML file with a description of the model, tables, plots, predictive checks, warnings in
#' plain language and the code that reproduces the fit. The file does not require a network connection.
#'
#' @details Unlike the other methods `report()` calls Python, which fits the model again and draws the plots. It
#'   requires the Python packages jinja2 and matplotlib, which [install_pybayesridge()] installs. The data are those
#'   kept by the fit (see `model` in [bayes_ridge()]) or those named in its call.
#'
#' @param object A fit.
#' @param file Name of the file; an existing file is overwritten.
#' @param title,question Heading of the report, and the question that the analysis addresses.
#' @param target Name or position of a target, if there are several; by default all targets.
#' @param level Probability of the credible intervals.
#' @param ... Not used: further arguments raise an error.
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
  check_file(file)
  versions <- list(
    R = format(getRversion()),
    "pybayesridge (R package)" = format(utils::packageVersion("pybayesridge"))
  )
  page <- list(
    path = path.expand(file), title = title, question = question,
    target = if (!is.null(target)) object$targets[target_position(object, target)],
    alpha = 1 - level, call = paste(c("library(pybayesridge)", "", deparse(object$call)), collapse = "\n"),
    versions = versions, findings = listed_findings(object)
  )
  written <- if (is.null(object$file)) {
    input <- refitted_input(object, parent.frame())
    rows <- rownames(input$x)
    call_fit(
      object$settings, input,
      what = "report", family = object$settings$family, page = page,
      row_names = if (!is.null(rows)) as.list(rows)
    )
  } else {
    call_python("report_saved", object$file, page, isTRUE(object$allow_code))
  }
  apart <- abs(as.vector(written$params) - as.vector(as.matrix(object$coefficients)))
  if (!isTRUE(all(apart <= 1e-3 * as.vector(as.matrix(object$bse))))) {
    warning(
      "Python's fit for the report differs from this one: ",
      if (is.null(object$file)) "the versions differ, or the fit had a 'start'" else "the file has changed since it was read",
      call. = FALSE
    )
  }
  invisible(file)
}
