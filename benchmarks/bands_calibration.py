"""Coverage of intervals of mixed models whose variances are drawn from the prior, beside lmer of the R package lme4.

    python -m benchmarks.bands_calibration [--quick] [--out FOLDER]

One to three crossed factors of 5 to 30 unbalanced levels; variances are drawn from the prior of the fit, then
effects, then responses, so that 95 % intervals should cover 95 % of everything. lmer fits some of the same data by
restricted maximum likelihood: Wald and profile intervals of the fixed effect, profile intervals of sds.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.bands import ROWS, covered, drawn
from benchmarks.common import QUICK_RESULTS, RESULTS, environment, save, table, use_one_thread
from benchmarks.large_groups import run

SETS, OF_LMER = {1: 300, 2: 300, 3: 80}, {1: 60, 2: 30, 3: 15}

LEVELS = (5, 31)

EFFECT = 0.5

LMER = """
suppressMessages(library(lme4))
folder <- commandArgs(TRUE)[1]
for (file in list.files(folder, full.names = TRUE)) {
  data <- read.csv(file)
  factors <- setdiff(names(data), c("y", "t"))
  for (name in factors) data[[name]] <- factor(data[[name]])
  formula <- as.formula(paste("y ~ t +", paste0("(1 | ", factors, ")", collapse = " + ")))
  fit <- suppressMessages(suppressWarnings(lmer(formula, data)))
  wald <- confint(fit, "t", method = "Wald")
  quietly <- function(x) suppressMessages(suppressWarnings(x))
  profile <- tryCatch(quietly(confint(fit, method = "profile", quiet = TRUE, oldNames = FALSE)),
                      error = function(e) NULL)
  out <- wald
  if (!is.null(profile)) {
    rows <- c("t", paste0("sd_(Intercept)|", factors))
    out <- rbind(out, profile[rows, , drop = FALSE])
  } else out <- rbind(out, matrix(NA, 1 + length(factors), 2))
  cat(basename(file), as.vector(t(out)), "\\n")
}
"""


def by_lmer(sets: list[dict[str, Any]]) -> list[np.ndarray] | None:
    """Intervals by lmer, (2 + number of factors, 2) each: Wald, profile, and those of the factors; None without R."""
    with tempfile.TemporaryDirectory() as folder:
        for i, data in enumerate(sets):
            codes = {f"f{k}": code for k, code in enumerate(data["codes"])}
            pd.DataFrame({"y": data["y"], "t": data["t"], **codes}).to_csv(f"{folder}/{i:04}.csv", index=False)
        out = run(["Rscript"], LMER, folder)
    if out is None:
        return None
    lines = sorted(line.split() for line in out.splitlines())
    return [np.array([np.nan if x == "NA" else float(x) for x in line[1:]]).reshape(-1, 2) for line in lines]


def percent(hits: list[float]) -> str:
    """A mean in per cent with its standard error."""
    each = np.array(hits, dtype=float)
    each = each[np.isfinite(each)]
    return f"{100 * each.mean():.1f} ± {100 * each.std(ddof=1) / np.sqrt(each.size):.1f}"


def main() -> None:
    """Fit all sets of each number of factors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer data sets: under a minute")
    parser.add_argument("--out", type=Path, help="folder of the page")
    args = parser.parse_args()
    use_one_thread()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy"])
    rows, others, stored = [], [], {}
    for count in SETS:
        rng = np.random.default_rng(count)
        number = 6 if args.quick else SETS[count]
        sets = [drawn(tuple(rng.integers(*LEVELS, size=count)), rng) for _ in range(number)]
        hits: dict[str, list[float]] = {}
        for data in sets:
            for what, each in covered(data)[0].items():
                hits.setdefault(what, []).append(float(each.mean()))
        rows.append([str(count), str(number), *(percent(each) for each in hits.values())])
        few = sets[: 3 if args.quick else OF_LMER[count]]
        found = by_lmer(few)
        stored[str(count)] = {"sets": number, **{what: float(np.mean(each)) for what, each in hits.items()}}
        if found is None:
            continue
        cells: dict[str, list[float]] = {"Wald": [], "profile": [], "sds": []}
        for data, ends in zip(few, found, strict=True):
            truth = np.concatenate([[EFFECT, EFFECT], data["sd"]])
            inside = np.where(np.isnan(ends).any(axis=1), np.nan, (ends[:, 0] <= truth) & (truth <= ends[:, 1]))
            cells["Wald"].append(inside[0])
            cells["profile"].append(inside[1])
            cells["sds"].append(float(inside[2:].mean()))
        none = sum(bool(np.isnan(each).any()) for each in found)
        ours = [percent(hits[name][: len(few)]) for name in ("fixed effect", "standard deviations")]
        others.append([str(count), str(len(few)), ours[0], *map(percent, cells.values()), ours[1], str(none)])
        stored[str(count)]["lmer"] = {what: float(np.nanmean(each)) for what, each in cells.items()}
    heads = ["factors", "data sets", "fixed effect", "random effects", "standard deviations", "shares"]
    text = "\n\n".join(
        [
            f"Coverage of 95 % intervals in per cent, ± its standard error; {ROWS} rows, crossed factors of "
            f"{LEVELS[0]} to {LEVELS[1] - 1} unbalanced levels, a covariate under a flat prior; "
            "variances are drawn from the prior.",
            table(heads, rows),
            "The first of these data sets by lmer (restricted maximum likelihood). Where profiling stopped with an "
            "error there is no interval.",
            table(
                [
                    "factors",
                    "data sets",
                    "fixed effect",
                    "lmer, Wald",
                    "lmer, profile",
                    "lmer, sds by profile",
                    "standard deviations",
                    "without profile",
                ],
                others,
            )
            if others
            else "R or lme4 is not there.",
        ]
    )
    save("bands_calibration", env, stored, text, args.out or (QUICK_RESULTS if args.quick else RESULTS))


if __name__ == "__main__":
    main()
