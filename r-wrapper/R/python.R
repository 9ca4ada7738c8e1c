# What goes over the bridge; the same number stands in pybayesridge/r_bridge.py.
protocol <- 16

environment_name <- "r-pybayesridge"

#' Install the Python package
#'
#' The Python package `pybayesridge` fits the models. This function installs it and its dependencies into a Python
#' environment, which the R package finds automatically.
#'
#' @details The package is installed from a local folder or file: the repository (the folder that contains
#'   `pyproject.toml`), a wheel (`pybayesridge-*.whl`) or a source distribution (`pybayesridge-*.tar.gz`). The function
#'   does not search a package registry for pybayesridge: it is in none yet, and another package could have the
#'   same name. The dependencies (NumPy, SciPy, pandas, statsmodels and others) are installed from the registry that pip
#'   uses on this machine.
#'
#' The Python interpreter is selected in this order:
#'
#' 1. the interpreter specified by the environment variable `RETICULATE_PYTHON`, or by
#'    [reticulate::use_python()] or [reticulate::use_virtualenv()] before the first fit;
#' 2. the environment `r-pybayesridge` created by `install_pybayesridge()`;
#' 3. the interpreter that reticulate finds on this machine. Fitting a model does not download anything.
#'
#' Python 3.11 or newer is required. Versions of reticulate before 1.38 support only NumPy 1 and Python up to 3.11. For
#' these versions the function installs a version of NumPy before 2, and fitting a model with a newer NumPy raises an
#' error.
#'
#' On Debian 12 (R 4.2, reticulate 1.28, Python 3.11) and Debian 13 (R 4.5, reticulate 1.41, Python 3.13) the following
#' packages are required: `r-base-core`, `r-cran-reticulate`, `python3-venv`, `python3-pip` and `libpython3-dev`.
#'
#' Python starts with the first fit, not when the package is loaded. Of the functions for a fit only [report()], [save_fit()],
#' [contrast()] and those on its page require Python.
#'
#' @param path Path of the repository, of a wheel or of a source distribution; a leading `~` stands for the home folder.
#' @param envname Name or path of the virtual environment.
#' @param report Whether to install the packages that [report()] requires as well.
#' @param ... Passed to [reticulate::py_install()], such as `pip_options`.
#' @return `NULL`, invisibly.
#' @examples
#' \dontrun{
#' install_pybayesridge("~/src/pybayesridge")
#' }
#' @export
install_pybayesridge <- function(path, envname = environment_name, report = TRUE, ...) {
  if (missing(path)) {
    stop("'path' is missing: ", what_to_install, call. = FALSE)
  }
  packages <- python_package(path, check_flag(report, "report"))
  if (utils::packageVersion("reticulate") < "1.38") {
    packages <- c(packages, "numpy<2")
  }
  if (grepl("[/\\\\]", envname)) {
    envname <- path.expand(envname)
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

what_to_install <- paste0(
  "give the path of the repository's folder (it holds pyproject.toml), of a wheel (pybayesridge-*.whl) or of a source ",
  "distribution (pybayesridge-*.tar.gz); a name is not asked of any registry of packages"
)

# What pip is given for a path: the whole path, so that it cannot be read as a name.
python_package <- function(path, report) {
  if (!is.character(path) || length(path) != 1L || is.na(path) || !nzchar(path)) {
    stop("'path' must be one path: ", what_to_install, call. = FALSE)
  }
  full <- suppressWarnings(normalizePath(path.expand(path), winslash = "/"))
  if (!file.exists(full)) {
    stop("there is no file or folder '", path.expand(path), "': ", what_to_install, call. = FALSE)
  }
  good <- if (dir.exists(full)) is_source(full) else grepl("^pybayesridge-[^/]*[.](whl|tar[.]gz)$", basename(full))
  if (!good) {
    stop("'", full, "' is not the Python package pybayesridge: ", what_to_install, call. = FALSE)
  }
  if (grepl("['\"\\[]", full)) {
    stop("the path '", full, "' has a quote or a bracket, which pip would not read: move it", call. = FALSE)
  }
  paste0(full, if (report) "[report]")
}

# Whether a folder's pyproject.toml says that it is the source of pybayesridge.
is_source <- function(folder) {
  project <- file.path(folder, "pyproject.toml")
  file.exists(project) && any(grepl("^name *= *[\"']pybayesridge[\"']", readLines(project, warn = FALSE)))
}

#' Check that the Python package is available
#'
#' The function starts Python.
#'
#' @param ... Not used: further arguments raise an error.
#' @return `TRUE` if models can be fitted: Python, the Python package and compatible versions of reticulate and NumPy
#'   were found. Otherwise `FALSE`, with the reason in the attribute `"reason"`.
#' @examples
#' pybayesridge_available()
#' @export
pybayesridge_available <- function(...) {
  refuse_dots("pybayesridge_available", ...)
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
  "Run install_pybayesridge(\"path/of/the/repository\"), or let the environment variable RETICULATE_PYTHON name a Python (3.11 or newer) ",
  "that has it"
)

start_python <- function() {
  found <- tryCatch(without_downloads(reticulate::py_available(initialize = TRUE)), error = conditionMessage)
  if (!isTRUE(found)) {
    stop(
      "Python could not be started", if (is.character(found)) paste0(" (", first_line(found), ")"),
      ". pybayesridge fits models with the Python package 'pybayesridge'. ", how_to, ".",
      call. = FALSE
    )
  }
}

# From 1.41 on reticulate makes an environment of downloaded packages where it finds no Python that was chosen. Ours is in
# no registry, so that this could not serve a fit: it is left out, unless the user or another package has asked for it.
without_downloads <- function(code) {
  managed <- "RETICULATE_USE_MANAGED_VENV"
  if (nzchar(Sys.getenv(managed)) || length(required_packages())) {
    return(code)
  }
  do.call(Sys.setenv, stats::setNames(list("no"), managed))
  on.exit(Sys.unsetenv(managed))
  code
}

# Packages that somebody has asked reticulate for by py_require(), which older versions do not have.
required_packages <- function() {
  if (utils::packageVersion("reticulate") < "1.41") {
    return(character())
  }
  setdiff(getExportedValue("reticulate", "py_require")()$packages, "numpy")
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
    "(install_pybayesridge(path) does so)."
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
