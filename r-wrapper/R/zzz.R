# What this session knows of Python: the bridge, once it has been imported and checked.
the <- new.env(parent = emptyenv())

.onLoad <- function(libname, pkgname) {
  if (utils::packageVersion("reticulate") >= "1.41") {
    # Called by name: older versions of reticulate have no such function.
    py_require <- getExportedValue("reticulate", "py_require")
    py_require("pybayesridge", python_version = ">=3.11")
  }
}
