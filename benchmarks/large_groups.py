"""Random intercepts with very many levels: time, memory and estimates beside lmer and glmer of the R package lme4.

    python -m benchmarks.large_groups [--quick] [--out FOLDER]

Ratings of lecturers by students, with departments: InstEval, which comes with lme4 (if it is there), and simulated
ones of the same size. The model is ``y ~ 1 + (1 | s) + (1 | d) + (1 | dept)``. And simulated counts with hundreds of
levels, ``y ~ x + z + (1 | g)``. Each fit has a process of its own, whose processor time and peak resident memory are
those of reading the data and fitting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import QUICK_RESULTS, RESULTS, environment, save, table, use_one_thread

ROWS, STUDENTS, LECTURERS, DEPARTMENTS = 73_421, 2_972, 1_128, 14

SDS = {"s": 0.33, "d": 0.52, "dept": 0.08}

OURS = """
import json, resource, sys, time
import pandas as pd
from pybayesridge import BayesRidge
path, method = sys.argv[1:]
data = pd.read_csv(path)
start = time.process_time()
model = BayesRidge.from_formula("y ~ 1 + (1 | s) + (1 | d) + (1 | dept)", data, unpenalized="fixed")
res = model.fit(method)
seconds = time.process_time() - start
sds = res.variance_components()
found = {name: [float(x) for x in sds.loc[name, ["mean", "lower", "upper"]]] for name in sds.index}
print(json.dumps({
    "seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "sds": found,
    "residual": float(res.sigma2) ** 0.5, "intercept": float(res.params.iloc[0]), "iterations": res.n_iter,
}))
"""

LMER = """
suppressMessages(library(lme4))
path <- commandArgs(TRUE)[1]
data <- read.csv(path)
for (name in c("s", "d", "dept")) data[[name]] <- factor(data[[name]])
seconds <- sum(system.time(fit <- lmer(y ~ 1 + (1 | s) + (1 | d) + (1 | dept), data))[1:2])
sds <- as.data.frame(VarCorr(fit))
status <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
peak <- 1024 * as.numeric(gsub("[^0-9]", "", status))
names <- c("seconds", "memory", "intercept", sds$grp)
cat(sprintf("%s %.10g\\n", names, c(seconds, peak, fixef(fit), sds$sdcor)), sep = "")
"""

COUNTS = ((5_000, 50), (10_000, 300), (50_000, 300))
"""Rows and levels of counts."""

OURS_OF_COUNTS = """
import json, sys, time
import pandas as pd
from pybayesridge import BayesRidge
path, method = sys.argv[1:]
data = pd.read_csv(path)
start = time.process_time()
model = BayesRidge.from_formula("y ~ x + z + (1 | g)", data, family="poisson", unpenalized="fixed")
res = model.fit(method)
seconds = time.process_time() - start
sd = res.variance_components().loc["g", ["mean", "lower", "upper"]]
print(json.dumps({"seconds": seconds, "sd": [float(x) for x in sd], "slope": [res.params["x"], res.bse["x"]]}))
"""

GLMER = """
suppressMessages(library(lme4))
data <- read.csv(commandArgs(TRUE)[1])
data$g <- factor(data$g)
seconds <- sum(system.time(fit <- glmer(y ~ x + z + (1 | g), data, family = poisson()))[1:2])
found <- c(seconds, as.data.frame(VarCorr(fit))$sdcor, coef(summary(fit))["x", 1:2])
cat(sprintf("%s %.10g\\n", c("seconds", "sd", "slope", "se"), found), sep = "")
"""

INSTEVAL = 'suppressMessages(library(lme4)); write.csv(InstEval[, c("y", "s", "d", "dept")], commandArgs(TRUE)[1])'


def simulated(rows: int, students: int, lecturers: int, rng: np.random.Generator) -> pd.DataFrame:
    """Ratings of lecturers, each of whom belongs to a department, by students; popular lecturers have more."""
    popular = rng.gamma(1.0, size=lecturers)
    frame = pd.DataFrame(
        {
            "s": np.r_[np.arange(students), rng.integers(students, size=rows - students)],
            "d": rng.permutation(
                np.r_[np.arange(lecturers), rng.choice(lecturers, rows - lecturers, p=popular / popular.sum())]
            ),
        }
    )
    frame["dept"] = rng.integers(DEPARTMENTS, size=lecturers)[frame["d"]]
    frame["y"] = 3.25 + 1.18 * rng.normal(size=rows)
    for name, sd in SDS.items():
        frame["y"] += sd * rng.normal(size=int(frame[name].max()) + 1)[frame[name]]
    return frame


def counts(rows: int, levels: int, rng: np.random.Generator) -> pd.DataFrame:
    """Counts whose logs have means that differ between levels with standard deviation 0.5."""
    frame = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["x", "z"])
    frame["g"] = rng.integers(levels, size=rows)
    frame["y"] = rng.poisson(np.exp(0.3 * frame["x"] + 0.5 * rng.normal(size=levels)[frame["g"]]))
    return frame


def run(command: list[str], code: str, *args: str) -> str | None:
    """What a script prints; None where it cannot run."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(code)
        file.flush()
        try:
            done = subprocess.run(
                [*command, file.name, *args], capture_output=True, text=True, check=False, env=dict(os.environ)
            )
        except FileNotFoundError:
            return None
    return done.stdout if done.returncode == 0 else None


def by_lmer(path: str) -> dict[str, Any] | None:
    """Estimates of lmer, its seconds and memory."""
    out = run(["Rscript"], LMER, path)
    if out is None:
        return None
    values = {name: float(value) for name, value in (line.split() for line in out.splitlines())}
    sds = {name: [values[name]] * 3 for name in SDS}
    return {"sds": sds, "residual": values["Residual"]} | {
        name: values[name] for name in ("seconds", "memory", "intercept")
    }


def row_of(name: str, method: str, found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    cells = []
    for mean, low, high in found["sds"].values():
        cells.append(f"{mean:.5f}" if high - low < 1e-9 else f"{mean:.3f} ({low:.3f}, {high:.3f})")
    return [
        name,
        method,
        *cells,
        f"{found['residual']:.5f}",
        f"{found['intercept']:.5f}",
        f"{found['seconds']:.0f}",
        f"{found['memory'] / 1e6:,.0f}",
    ]


def by_glmer(path: str) -> dict[str, Any] | None:
    """Estimates of glmer, and its seconds."""
    out = run(["Rscript"], GLMER, path)
    if out is None:
        return None
    values = {name: float(value) for name, value in (line.split() for line in out.splitlines())}
    return {"seconds": values["seconds"], "sd": [values["sd"]] * 3, "slope": [values["slope"], values["se"]]}


def of_counts(sizes: tuple[tuple[int, int], ...], folder: str) -> tuple[dict[str, Any], str]:
    """Fits of counts, and the table of these."""
    rows, stored = [], {}
    for n, levels in sizes:
        path, name = f"{folder}/counts.csv", f"{n:,} x {levels}"
        counts(n, levels, np.random.default_rng(1)).to_csv(path, index=False)
        found = {"glmer": by_glmer(path)}
        for method in ("laplace", "ep"):
            out = run([sys.executable], OURS_OF_COUNTS, path, method)
            found[method] = None if out is None else json.loads(out)
        for method, each in found.items():
            if each is not None:
                mean, low, high = each["sd"]
                sd = f"{mean:.4f}" if method == "glmer" else f"{mean:.4f} ({low:.3f}, {high:.3f})"
                slope, error = each["slope"]
                rows.append([name, method, sd, f"{slope:.4f} ± {error:.4f}", f"{each['seconds']:.1f}"])
        stored[name] = found
    return stored, table(["rows and levels", "method", "sd of g", "slope of x", "s"], rows)


def main() -> None:
    """Fit all data sets by each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and lecturers, without InstEval")
    parser.add_argument("--out", type=Path, help="folder of the page")
    args = parser.parse_args()
    use_one_thread()
    size, students = (10, 500) if args.quick else (1, STUDENTS)
    rows, stored = [], {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {"simulated": f"{folder}/simulated.csv"}
        data = simulated(ROWS // size, students, LECTURERS // size, np.random.default_rng(0))
        data.to_csv(paths["simulated"], index=False)
        if not args.quick and run(["Rscript"], INSTEVAL, f"{folder}/insteval.csv") is not None:
            paths["InstEval"] = f"{folder}/insteval.csv"
        for name, path in paths.items():
            found = {"lmer": by_lmer(path)}
            for method in ("reml", "exact"):
                out = run([sys.executable], OURS, path, method)
                found[method] = None if out is None else json.loads(out)
            rows += [row_of(name, method, each) for method, each in found.items() if each is not None]
            stored[name] = found
        stored["counts"], table_of_counts = of_counts(COUNTS[:1] if args.quick else COUNTS, folder)
    head = ["data", "method", "sd of s", "sd of d", "sd of dept", "residual sd", "intercept", "s", "MB"]
    text = (
        f"Ratings of about {ROWS // size:,} rows, {students:,} students, {LECTURERS // size:,} lecturers and "
        f'{DEPARTMENTS} departments. Estimates by restricted maximum likelihood (lmer, "reml"), and posterior means '
        'with 95 % intervals ("exact"); processor seconds of one fit, and the peak resident memory of its '
        "process.\n\n" + table(head, rows) + "\n\n## Counts\n\nPoisson models with a random intercept, the variance "
        "integrated out, beside estimates of glmer by Laplace's method; the standard deviation of g is 0.5.\n\n"
        + table_of_counts
    )
    env = environment(["pybayesridge", "numpy", "scipy"])
    save("large_groups", env, stored, text, args.out or (QUICK_RESULTS if args.quick else RESULTS))


if __name__ == "__main__":
    main()
