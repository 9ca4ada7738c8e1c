"""Random intercepts with thousands of levels: time, memory and estimates beside lmer of the R package lme4.

    python -m benchmarks.large_groups [--quick] [--out FOLDER]

Ratings of lecturers by students, with departments: InstEval, which comes with lme4 (if it is there), and simulated
ones of the same size. The model is ``y ~ 1 + (1 | s) + (1 | d) + (1 | dept)``. Each fit has a process of its own,
whose processor time and peak resident memory are those of reading the data and fitting.
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


def main() -> None:
    """Fit both data sets by each method."""
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
    head = ["data", "method", "sd of s", "sd of d", "sd of dept", "residual sd", "intercept", "s", "MB"]
    text = (
        f"Ratings of about {ROWS // size:,} rows, {students:,} students, {LECTURERS // size:,} lecturers and "
        f'{DEPARTMENTS} departments. Estimates by restricted maximum likelihood (lmer, "reml"), and posterior means '
        'with 95 % intervals ("exact"); processor seconds of one fit, and the peak resident memory of its '
        "process.\n\n" + table(head, rows)
    )
    env = environment(["pybayesridge", "numpy", "scipy"])
    save("large_groups", env, stored, text, args.out or (QUICK_RESULTS if args.quick else RESULTS))


if __name__ == "__main__":
    main()
