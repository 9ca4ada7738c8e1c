"""The time that a fit and its methods take in R, compared with Python, and the size of the saved file.

    python -m benchmarks.r_bridge [--quick] [--render]

R runs as in `tools/test-r`, which makes the environment `.venv-r`; RETICULATE_PYTHON and R_LIBS name others. One R
process fits the same data by `bayes_ridge()` and, in its Python, by `BayesRidge.fit()`, in turn. In R the fit is
handed over: coefficients and the posterior, from which all methods are computed without Python.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import arguments, measured, save, show_seconds, table, use_one_thread

ROOT = Path(__file__).resolve().parents[1]
SIZES = [(1000, 50, 1, 40), (1000, 50, 200, 7), (10_000, 50, 1, 20), (100, 20_000, 1, 7)]
QUICK_SIZES = [(1000, 50, 1, 10), (1000, 50, 20, 3), (100, 2000, 1, 3)]
"""Rows, columns, responses, repetitions."""

AIM, SHARE = 5e-3, 0.1
"""Aim for what R adds: these seconds, and this share of the fit."""

METHODS = ("confint", "posterior_sample", "loo")
CALLS = 10
TIMES = 1.5
"""Methods that both languages compute, how often each is called, and the aim: R takes at most so many times Python's
time."""

CODE = """
suppressMessages(library(pybayesridge))
given <- as.numeric(strsplit(commandArgs(TRUE)[1], ",")[[1]])
n <- given[1]; p <- given[2]; q <- given[3]; repetitions <- given[4]; calls <- given[5]
processor <- function() sum(proc.time()[1:2])
seconds <- function(code) {
  code <- substitute(code)
  where <- parent.frame()
  start <- processor()
  eval(code, where)
  processor() - start
}
set.seed(1)
x <- matrix(rnorm(n * p), n)
y <- x[, 1] + matrix(rnorm(n * q), n)
python <- reticulate::py_run_string("
def fit(y, x):
    import time
    from pybayesridge import BayesRidge
    start = time.process_time()
    BayesRidge(y[:, 0] if y.shape[1] == 1 else y, x).fit()
    return time.process_time() - start
")$fit
method <- reticulate::py_run_string("
def method(y, x, name):
    import time
    from pybayesridge import BayesRidge
    res = BayesRidge(y[:, 0] if y.shape[1] == 1 else y, x).fit()
    start = time.process_time()
    {'confint': res.conf_int, 'posterior_sample': lambda: res.sample(1000), 'loo': res.loo}[name]()
    return time.process_time() - start
")$method
fit <- bayes_ridge(x = x, y = y)
invisible(python(y, x))
ours <- theirs <- numeric(repetitions)
for (i in seq_len(repetitions)) {
  theirs[i] <- python(y, x)
  ours[i] <- seconds(bayes_ridge(x = x, y = y))
}
pdf(NULL)
invisible(plot(fit))
file <- tempfile()
saveRDS(fit, file, compress = FALSE)
in_turn <- function(name, ours) {
  invisible(c(method(y, x, name), seconds(ours())))
  apply(replicate(calls, c(method(y, x, name), seconds(ours()))), 1, median)
}
both <- if (p > n) {
  c(
    in_turn("confint", function() confint(fit)), in_turn("posterior_sample", function() posterior_sample(fit, 1000)),
    in_turn("loo", function() loo::loo(fit))
  )
}
numbers <- c(
  theirs, ours, seconds(for (i in 1:5) summary(fit)) / 5, seconds(for (i in 1:5) plot(fit)) / 5,
  seconds(predict(fit, x[1:10, ], interval = "prediction")), file.size(file), 8 * (length(x) + length(y)), both
)
cat(format(numbers, digits = 10), sep = "\\n")
"""


def in_r(n: int, p: int, q: int, repetitions: int) -> dict[str, float]:
    """Seconds and bytes of one size, by R in a process of its own."""
    env = {"RETICULATE_PYTHON": str(ROOT / ".venv-r/bin/python"), "R_LIBS": str(ROOT / ".venv-r/R")} | os.environ
    env["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "code.R"
        script.write_text(CODE, encoding="utf-8")
        command = ["Rscript", "--vanilla", str(script), f"{n},{p},{q},{repetitions},{CALLS}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"Rscript failed: {done.stderr.strip().splitlines()[-1]}; tools/test-r makes .venv-r")
    values = [float(line) for line in done.stdout.split()]
    python, ours, rest = values[:repetitions], values[repetitions : 2 * repetitions], values[2 * repetitions :]
    names = ["summary", "plot", "predict", "file", "data"]
    if p > n:
        names += [f"{method}_{language}" for method in METHODS for language in ("python", "r")]
    medians = {"python": statistics.median(python), "r": statistics.median(ours)}
    return medians | dict(zip(names, rest, strict=True))


def measure(quick: bool) -> dict[str, dict[str, float]]:
    """Every size."""
    sizes = QUICK_SIZES if quick else SIZES
    return {json.dumps([n, p, q]): in_r(n, p, q, repetitions) for n, p, q, repetitions in sizes}


def page(found: dict[str, Any]) -> str:
    """The tables and what they are of."""
    fits, methods, both = [], [], []
    for key, one in found.items():
        name = " × ".join(str(size) for size in json.loads(key))
        added, aim = one["r"] - one["python"], AIM + SHARE * one["python"]
        fits.append([name, *map(show_seconds, (one["python"], one["r"], added, aim))])
        times = map(show_seconds, (one["summary"], one["plot"], one["predict"]))
        methods.append([name, *times, f"{one['file'] / 1e6:.2f} MB", f"{one['file'] / one['data']:.2f}"])
        for method in METHODS:
            if (theirs := one.get(f"{method}_python")) is not None:
                ours = one[f"{method}_r"]
                both.append([name, f"{method}()", show_seconds(theirs), show_seconds(ours), f"{ours / theirs:.1f}"])
    return "\n\n".join(
        [
            "`BayesRidge.fit()` and `bayes_ridge()` in the same R process, in turn, medians. The aim for what R adds "
            f"is {show_seconds(AIM)} and {SHARE:.0%} of the fit. It includes what Python computes when it is asked "
            "for: effective degrees of freedom, R-squared, findings. Standard deviations of the coefficients, fitted "
            "values and residuals are computed in R when they are asked for.",
            table(["n × p × responses", "Python", "R", "added", "aim"], fits),
            "Methods for the fit in R, and the file of `saveRDS(compress = FALSE)` in multiples of the columns and "
            "responses in double precision. `predict()` is of ten rows with prediction intervals.",
            table(["n × p × responses", "summary()", "plot()", "predict()", "file", "of the data"], methods),
            "Methods that both languages compute, in turn, medians: credible intervals of all coefficients, 1,000 "
            "draws of them, and leave-one-out scores of all rows; in Python each of a new fit. The aim is that R "
            f"takes at most {TIMES} times Python's time.",
            table(["n × p × responses", "method in R", "Python", "R", "R / Python"], both),
        ]
    )


def main() -> None:
    """Measure, and write page and numbers."""
    args = arguments(__doc__)
    if not args.render:
        use_one_thread()
    env, found = measured("r_bridge", args, ["pybayesridge"], measure)
    save("r_bridge", env, found, page(found), args.out)


if __name__ == "__main__":
    main()
