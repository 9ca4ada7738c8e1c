"""R's packages through Rscript, in a process of its own; times are R's processor time, with R's own BLAS.

susieR is the installed one, or where the environment variable SUSIER_SOURCE names a folder with its sources (the
files DESCRIPTION, NAMESPACE and R/*.R of its repository) that one: its functions in R are all that is needed.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

PREAMBLE = """
arguments <- commandArgs(TRUE)
read <- function(name, columns) {
  path <- file.path(arguments[1], name)
  matrix(readBin(path, "double", file.size(path) / 8), ncol = columns)
}
d <- as.integer(arguments[2])
x <- read("x", d); y <- read("y", 1)[, 1]; x_test <- read("x_test", d)
seconds <- function(expression) sum(system.time(expression, gcFirst = FALSE)[c("user.self", "sys.self")])
write <- function(name, values) writeBin(as.double(values), file.path(arguments[1], name))
set.seed(1)
"""
GLMNET = """
suppressMessages(library(glmnet))
write("seconds", seconds(fit <- cv.glmnet(x, y, alpha = 0)))
write("mean", predict(fit, x_test, s = "lambda.min"))
"""
MASS = """
frame <- data.frame(y = y, x)
write("seconds", seconds({
  fit <- MASS::lm.ridge(y ~ ., frame, lambda = 10^seq(-4, 6, length.out = 100))
  b <- coef(fit)[which.min(fit$GCV), ]
}))
write("mean", b[1] + x_test %*% b[-1])
"""
LOAD_SUSIE = """
if (nzchar(Sys.getenv("SUSIER_SOURCE"))) {
  sources <- new.env(parent = globalenv())
  packages <- c("methods", "stats", "Matrix", "matrixStats", "mixsqp", "crayon", "graphics", "grDevices", "utils")
  for (package in packages)
    for (name in getNamespaceExports(package)) assign(name, getExportedValue(package, name), sources)
  for (file in list.files(file.path(Sys.getenv("SUSIER_SOURCE"), "R"), "[.]R$", full.names = TRUE))
    sys.source(file, sources)
  # As functions of an installed package are.
  for (name in ls(sources))
    if (typeof(sources[[name]]) == "closure" && identical(environment(sources[[name]]), sources))
      assign(name, compiler::cmpfun(sources[[name]]), sources)
  attach(sources, warn.conflicts = FALSE)
  lines <- readLines(file.path(Sys.getenv("SUSIER_SOURCE"), "NAMESPACE"))
  for (line in grep("^S3method", lines, value = TRUE)) {
    method <- strsplit(gsub("^S3method[(]|[)]$", "", line), ",")[[1]]
    registerS3method(method[1], method[2], sources[[paste(method, collapse = ".")]], envir = globalenv())
  }
} else suppressMessages(library(susieR))
"""
SUSIE = (
    LOAD_SUSIE
    + """
write("seconds", seconds(fit <- susie(x, y, L = 10)))
draws <- susie_get_posterior_samples(fit, 1000)$b
lines <- sweep(x_test, 2, colMeans(x)) %*% draws
write("mean", predict(fit, x_test))
write("sd", sqrt(apply(lines, 1, var) + fit$sigma2 * (1 + 1 / nrow(x))))
write("prob", fit$pip)
write("coef", t(apply(draws, 1, quantile, c(0.025, 0.975))))
write("converged", fit$converged)
"""
)


@functools.cache
def has(package: str) -> bool:
    """Whether R and one of its packages are there."""
    if shutil.which("Rscript") is None:
        return False
    test = f"quit(status = !requireNamespace('{package}', quietly = TRUE))"
    return subprocess.run(["Rscript", "--vanilla", "-e", test], capture_output=True, check=False).returncode == 0


def has_susie() -> bool:
    """Whether susieR can run."""
    if "SUSIER_SOURCE" in os.environ:
        return all(has(package) for package in ("Matrix", "matrixStats", "mixsqp", "crayon"))
    return has("susieR")


def susie_versions() -> str:
    """R and susieR, as a sentence."""
    source = os.environ.get("SUSIER_SOURCE")
    if source is None:
        return f"{versions(('susieR',))}: as installed, no later one was at hand."
    lines = (Path(source) / "DESCRIPTION").read_text(encoding="utf-8").splitlines()
    known = dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith(" "))
    return (
        f"{versions(())}, susieR {known['Version']} ({known['Date']}): the R functions of its repository, "
        "compiled to byte code as those of an installed package are."
    )


@functools.cache
def versions(packages: tuple[str, ...]) -> str:
    """R, its BLAS and the packages that are there, as text."""
    if shutil.which("Rscript") is None:
        return "R is not there: its packages are left out"
    here = [package for package in packages if has(package)]
    listed = ", ".join(f"'{package}'" for package in here)
    code = f"""cat(paste0("R ", getRversion(), " with ", basename(extSoftVersion()[["BLAS"]])))
               for (p in c({listed})) cat(paste0(", ", p, " ", packageVersion(p)))"""
    text = subprocess.run(["Rscript", "--vanilla", "-e", code], capture_output=True, text=True, check=True).stdout
    absent = [package for package in packages if package not in here]
    return text + (f"; left out, not installed: {', '.join(absent)}" if absent else "")


def run(code: str, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, limit: float) -> dict[str, np.ndarray]:
    """Run R code on the data; what it writes, as vectors. Raises subprocess.TimeoutExpired after `limit` seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, array in (("x", x), ("y", y), ("x_test", x_test)):
            (folder / file).write_bytes(np.asarray(array, dtype=float).tobytes("F"))
        script = folder / "code.R"
        script.write_text(PREAMBLE + code, encoding="utf-8")
        command = ["Rscript", "--vanilla", str(script), str(folder), str(x.shape[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        if done.returncode:
            raise RuntimeError(f"Rscript failed: {done.stderr.strip().splitlines()[-1]}")
        inputs = {"x", "y", "x_test", "code.R"}
        return {file.name: np.fromfile(file) for file in folder.iterdir() if file.name not in inputs}
