# What goes over the bridge; the same number stands in pybayesridge/r_bridge.py.
protocol <- 1

environment_name <- "r-pybayesridge"

#' Install the Python package
#'
#' Fitting is done by the Python package `pybayesridge`. This function installs it, with all it needs, into a Python
#' environment that this R package then finds by itself.
#'
#' @details
#' Which Python is used, in this order:
#'
#' 1. the interpreter that the environment variable `RETICULATE_PYTHON` names, or that
#'    [reticulate::use_python()] or [reticulate::use_virtualenv()] chose before the first fit;
#' 2. the environment `r-pybayesridge` that `install_pybayesridge()` makes;
#' 3. whatever reticulate finds. From reticulate 1.41 it makes an environment with `pybayesridge` by itself.
#'
#' Python has to be 3.11 or newer. reticulate before 1.38 knows only NumPy 1 and Python up to 3.11: the function then
#' installs a NumPy older than 2, and a fit stops with an error when it meets a newer one.
#'
#' Python starts with the first fit, not when the package is loaded; what is done with a fit needs no Python.
#'
#' @param packages What to install: names with or without versions, or the path of a source tree.
#' @param envname Name or path of the virtual environment.
#' @param ... Passed to [reticulate::py_install()], such as `python_version`.
#' @return `NULL`, invisibly.
#' @examples
#' \dontrun{
#' install_pybayesridge()
#' }
#' @export
install_pybayesridge <- function(packages = "pybayesridge", envname = environment_name, ...) {
  if (utils::packageVersion("reticulate") < "1.38") {
    packages <- c(packages, "numpy<2")
  }
  if (!reticulate::virtualenv_exists(envname)) {
    reticulate::virtualenv_create(envname)
  }
  reticulate::py_install(packages, envname = envname, method = "virtualenv", ...)
  if (reticulate::py_available()) {
    message("Restart R to use the environment '", envname, "'.")
  }
  invisible(NULL)
}

#' Is the Python side there?
#'
#' @return `TRUE` when models can be fitted: Python, the Python package and versions of reticulate and NumPy that fit
#'   each other were found. Otherwise `FALSE`, with the reason in the attribute `"reason"`. Starts Python.
#' @examples
#' pybayesridge_available()
#' @export
pybayesridge_available <- function() {
  reason <- tryCatch(
    {
      bridge()
      NULL
    },
    error = conditionMessage
  )
  if (is.null(reason)) TRUE else structure(FALSE, reason = reason)
}

# The Python module, imported and checked at the first use.
bridge <- function() {
  if (is.null(the$bridge)) {
    prefer_own_environment()
    start_python()
    check_numpy()
    the$bridge <- import_bridge()
  }
  the$bridge
}

prefer_own_environment <- function() {
  chosen <- nzchar(Sys.getenv("RETICULATE_PYTHON")) || nzchar(Sys.getenv("RETICULATE_PYTHON_ENV"))
  if (chosen || reticulate::py_available()) {
    return(invisible())
  }
  # Without any Python even looking for environments may fail; start_python() says it better.
  if (isTRUE(tryCatch(reticulate::virtualenv_exists(environment_name), error = function(e) FALSE))) {
    reticulate::use_virtualenv(environment_name, required = FALSE)
  }
  invisible()
}

how_to <- paste0(
  "Run install_pybayesridge(), or let the environment variable RETICULATE_PYTHON name a Python (3.11 or newer) ",
  "that has it"
)

start_python <- function() {
  found <- tryCatch(reticulate::py_available(initialize = TRUE), error = conditionMessage)
  if (!isTRUE(found)) {
    stop(
      "Python could not be started", if (is.character(found)) paste0(" (", first_line(found), ")"),
      ". pybayesridge fits models with the Python package 'pybayesridge'. ", how_to, ".",
      call. = FALSE
    )
  }
}

check_numpy <- function() {
  version <- tryCatch(
    as.character(reticulate::py_eval("__import__('numpy').__version__")),
    error = function(e) NULL
  )
  if (is.null(version)) {
    stop(
      "The Python that reticulate uses (", python_path(), ") has no NumPy, and so no 'pybayesridge'. ", how_to, ".",
      call. = FALSE
    )
  }
  problem <- pair_problem(utils::packageVersion("reticulate"), version)
  if (!is.null(problem)) {
    stop(problem, call. = FALSE)
  }
}

# reticulate before 1.38 hands arrays of NumPy 2 over unconverted, without a word.
pair_problem <- function(reticulate_version, numpy_version) {
  numpy_major <- as.integer(sub("[.].*", "", numpy_version))
  if (package_version(as.character(reticulate_version)) >= "1.38" || numpy_major < 2) {
    return(NULL)
  }
  paste0(
    "reticulate ", reticulate_version, " cannot read the arrays of NumPy ", numpy_version, ". ",
    "Update reticulate to 1.38 or newer, or install a NumPy older than 2 into the Python that it uses ",
    "(install_pybayesridge() does so)."
  )
}

import_bridge <- function() {
  module <- tryCatch(reticulate::import("pybayesridge.r_bridge"), error = function(e) conditionMessage(e))
  if (is.character(module)) {
    absent <- grepl("No module named '?pybayesridge", module)
    stop(
      "The Python that reticulate uses (", python_path(), ") ",
      if (absent) "does not have the package 'pybayesridge' of version 0.1 or newer" else {
        paste0("could not import 'pybayesridge' (", first_line(module), ")")
      },
      ". ", how_to, ".",
      call. = FALSE
    )
  }
  theirs <- module$PROTOCOL
  if (!identical(as.numeric(theirs), protocol)) {
    stop(
      "The Python package 'pybayesridge' is too ", if (theirs < protocol) "old" else "new",
      " for this version of the R package: install versions of both that belong together.",
      call. = FALSE
    )
  }
  module
}

python_path <- function() {
  tryCatch(reticulate::py_config()$python, error = function(e) "unknown")
}

first_line <- function(text) {
  strsplit(text, "\n", fixed = TRUE)[[1]][1]
}

# Calls a function of the bridge; its errors and warnings become R's, with the message alone.
call_python <- function(name, ...) {
  answer <- bridge()[[name]](...)
  messages <- as.character(unlist(answer$warnings))
  classes <- as.character(unlist(answer$warning_classes))
  for (i in seq_along(messages)) {
    warning(warningCondition(messages[i], class = c(classes[i], "pybayesridge_warning")))
  }
  if (!is.null(answer$error)) {
    stop(errorCondition(answer$error, class = c(answer$error_class, "pybayesridge_error")))
  }
  answer$value
}
