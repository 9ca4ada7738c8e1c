"""Coverage of intervals of mixed models whose variances are drawn from the prior, beside lmer and MixedLM.

    python -m benchmarks.bands_calibration [--quick] [--resume] [--out FOLDER] [--render]

Up to three factors of 5 to 30 unbalanced levels, crossed or one within another; variances are drawn from the prior of
the fit, then effects, then responses, so that 95 % intervals should hold 95 % of everything. MixedLM of statsmodels
fits the same data by restricted maximum likelihood, with Wald intervals of the fixed effect, and lmer of the R
package lme4 the first of them: Wald, profile and parametric bootstrap intervals. Each data set has its own seed: a
run that was stopped goes on with ``--resume``.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import arguments, environment, save, table, use_one_thread
from benchmarks.large_groups import run
from benchmarks.measures import LEVEL, mean_error
from benchmarks.peers_r import versions
from pybayesridge import BayesRidge

NAME = "bands_calibration"
SETTINGS: dict[str, tuple[int, bool, int, int]] = {
    "one factor": (1, False, 300, 60),
    "two crossed factors": (2, False, 300, 30),
    "three crossed factors": (3, False, 300, 20),
    "a factor within another, and a crossed one": (3, True, 300, 20),
}
"""Number of factors, whether the second is within the first, data sets, and how many of them lmer fits."""
QUICK = 2
ROWS, LEVELS, EFFECT = 80, (5, 31), 0.5
SMALL = 0.01
"""Shares of the variance below this are near zero."""
BOOTSTRAPS = 100
EVERY = 10
"""Sets after which the page is saved."""
WHAT = ("fixed effect", "random effects", "sds", "sds near zero", "bounds of sds", "shares")
OF_LMER = ("Wald", "profile", "bootstrap", "sds by profile", "sds by bootstrap")

LMER = """
suppressMessages(library(lme4))
arguments <- commandArgs(TRUE)
data <- read.csv(arguments[1])
factors <- setdiff(names(data), c("y", "t"))
for (name in factors) data[[name]] <- factor(data[[name]])
formula <- as.formula(paste("y ~ t +", paste0("(1 | ", factors, ")", collapse = " + ")))
quietly <- function(x) suppressMessages(suppressWarnings(x))
rows <- c("t", paste0("sd_(Intercept)|", factors))
intervals <- function(method, ...) {
  seconds <- sum(system.time(found <- tryCatch(
    quietly(confint(fit, method = method, quiet = TRUE, oldNames = FALSE, ...)),
    error = function(e) matrix(NA, length(rows), 2, dimnames = list(rows))))[1:2])
  cat(method, seconds, as.vector(t(found[rows, , drop = FALSE])), "\\n")
}
fit <- quietly(lmer(formula, data))
set.seed(1)
intervals("Wald")
intervals("profile")
intervals("boot", nsim = as.integer(arguments[2]))
"""


def drawn(factors: int, nested: bool, rng: np.random.Generator) -> dict[str, Any]:
    """A data set from the prior, with what was drawn: a covariate, codes of factors and their dummies."""
    levels = rng.integers(*LEVELS, size=factors)
    if nested:
        levels[:2] = np.sort(levels[:2])
    codes = []
    for count in levels.tolist():
        share = rng.gamma(2, size=count)
        some = rng.choice(count, size=ROWS - count, p=share / share.sum())
        codes.append(rng.permutation(np.concatenate([np.arange(count), some])))
    if nested:
        whose = np.concatenate([np.arange(levels[0]), rng.integers(levels[0], size=levels[1] - levels[0])])
        codes[0] = whose[codes[1]]
    x = np.hstack(
        [(code[:, None] == np.arange(count)).astype(float) for code, count in zip(codes, levels, strict=True)]
    )
    band, t = np.repeat(np.arange(factors), levels), rng.normal(size=ROWS)
    z = np.column_stack([np.ones(ROWS), t])
    outside = x - z @ np.linalg.lstsq(z, x, rcond=None)[0]
    size = np.bincount(band, weights=(outside**2).sum(axis=0)) / ROWS
    share = rng.beta(0.5, 0.5)
    width = share / (1 - share) * rng.dirichlet(np.full(factors, 0.5))
    sd = np.sqrt(width / size)
    b = sd[band] * rng.normal(size=band.size)
    return {
        "t": t,
        "codes": codes,
        "x": x,
        "band": band,
        "b": b,
        "sd": sd,
        "share": width / (1 + width.sum()),
        "y": 1 + EFFECT * t + x @ b + rng.normal(size=ROWS),
    }


def inside(low: Any, high: Any, truth: Any) -> np.ndarray:
    """Which intervals hold the truth; nan where there is none."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    held = (low <= truth) & (truth <= high)
    return np.where(np.isnan(low), np.nan, held.astype(float))


def covered(data: Mapping[str, Any]) -> dict[str, Any]:
    """Shares of intervals that cover, the seconds of the fit and all of them, and whether it converged."""
    start = time.process_time()
    res = BayesRidge(
        data["y"],
        np.column_stack([data["t"], data["x"]]),
        bands=["t", *(f"f{k}" for k in data["band"])],
        unpenalized=[0],
        standardize=False,
    ).fit()
    ends, bands = res.arrays.conf_int(1 - LEVEL), res.variance_components(1 - LEVEL)
    seconds = time.process_time() - start
    sds = inside(bands["lower"], bands["upper"], data["sd"])
    small = data["share"] < SMALL
    return {
        "fixed effect": float(inside(*ends[1], EFFECT)),
        "random effects": float(inside(*ends[2:].T, data["b"]).mean()),
        "sds": float(sds.mean()),
        "sds near zero": float(sds[small].mean()) if small.any() else float("nan"),
        "bounds of sds": float((data["sd"] <= bands["bound"].to_numpy()).mean()),
        "shares": float(inside(bands["share_lower"], bands["share_upper"], data["share"]).mean()),
        "seconds": seconds,
        "converged": bool(res.converged),
    }


def mixed_model(data: Mapping[str, Any]) -> dict[str, float]:
    """Whether the Wald interval of the fixed effect of MixedLM covers, and the seconds of the fit."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    frame = pd.DataFrame({"y": data["y"], "t": data["t"], "one": 1})
    formula = {}
    for k, code in enumerate(data["codes"]):
        frame[f"f{k}"] = code
        formula[f"f{k}"] = f"0 + C(f{k})"
    start = time.process_time()
    try:
        with warnings.catch_warnings():  # statsmodels turns on its own
            warnings.simplefilter("ignore")
            res = MixedLM.from_formula("y ~ t", frame, groups="one", re_formula="0", vc_formula=formula).fit()
        low, high = res.conf_int(1 - LEVEL).loc["t"]
    except np.linalg.LinAlgError:
        low = high = np.nan
    return {"MixedLM": float(inside(low, high, EFFECT)), "MixedLM, s": time.process_time() - start}


def by_lmer(data: Mapping[str, Any]) -> dict[str, float] | None:
    """Which intervals of lmer cover, and the seconds of profile and bootstrap; None without R."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".csv") as file:
        codes = {f"f{k}": code for k, code in enumerate(data["codes"])}
        pd.DataFrame({"y": data["y"], "t": data["t"], **codes}).to_csv(file.name, index=False)
        out = run(["Rscript"], LMER, file.name, str(BOOTSTRAPS))
    if out is None:
        return None
    found = {}
    for line in out.splitlines():
        name, seconds, *ends = line.split()
        name = "bootstrap" if name == "boot" else name
        low, high = np.array([np.nan if x == "NA" else float(x) for x in ends]).reshape(-1, 2).T
        held = inside(low, high, np.concatenate([[EFFECT], data["sd"]]))
        found |= {name: float(held[0]), f"sds by {name}": float(held[1:].mean()), f"{name}, s": float(seconds)}
    return found


def one(factors: int, nested: bool, seed: list[int]) -> dict[str, Any]:
    """The fits of a data set by Python."""
    data = drawn(factors, nested, np.random.default_rng(seed))
    return covered(data) | mixed_model(data)


def percent(values: list[Any]) -> str:
    """A mean in per cent with its standard error."""
    mean, error = mean_error([np.nan if each is None else each for each in values])
    return "-" if np.isnan(mean) else f"{100 * mean:.1f} ± {100 * error:.1f}"


def page(found: Mapping[str, list[dict[str, Any]]], peers: str) -> str:
    """The page."""
    rows, others = [], []
    for name, sets in found.items():
        if not sets:
            continue
        cells = [percent([each[what] for each in sets]) for what in (*WHAT, "MixedLM")]
        seconds = [f"{np.median([each[what] for each in sets]):.2f}" for what in ("seconds", "MixedLM, s")]
        rows.append([name, str(len(sets)), *cells, *seconds, str(sum(not each["converged"] for each in sets))])
        few = [each for each in sets if each.get("lmer")]
        if few:
            ours = [percent([each[what] for each in few]) for what in ("fixed effect", "sds")]
            theirs = [percent([each["lmer"][what] for each in few]) for what in OF_LMER]
            ratios = [
                f"{np.median([each['lmer'][f'{what}, s'] / each['seconds'] for each in few]):.1f}"
                for what in ("profile", "bootstrap")
            ]
            others.append([name, str(len(few)), ours[0], *theirs[:3], ours[1], *theirs[3:], *ratios])
    heads = ["factors", "data sets", *WHAT, "MixedLM, fixed effect", "s", "MixedLM, s", "not converged"]
    of_lmer = [
        "factors",
        "data sets",
        "fixed effect",
        *OF_LMER[:3],
        "sds",
        *OF_LMER[3:],
        "profile / s",
        "bootstrap / s",
    ]
    return "\n\n".join(
        [
            f"Coverage of 95 % intervals in per cent, ± its standard error; {ROWS} rows, factors of {LEVELS[0]} to "
            f"{LEVELS[1] - 1} unbalanced levels, a covariate under a flat prior; variances are drawn from the prior. "
            f"Near zero are standard deviations of less than {100 * SMALL:.0f} % of the variance: equal-tailed "
            "intervals never reach 0, and average to 95 % over all. Bounds are upper ones (95 %). MixedLM: Wald "
            "intervals of the fixed effect by restricted maximum likelihood. Medians of the seconds of a fit, with "
            "all intervals for ours.",
            table(heads, rows),
            "The first of these data sets by lmer (restricted maximum likelihood): Wald, profile and parametric "
            f"bootstrap intervals ({BOOTSTRAPS} samples, percentiles). Where profiling stopped with an error there "
            "is no interval. Seconds of the intervals relative to those of a fit of ours with all of them (medians "
            f"of ratios). {peers}.",
            table(of_lmer, others) if others else "R or lme4 is not there.",
        ]
    )


def main() -> None:
    """Fit all sets of each setting that are not stored."""
    args = arguments(__doc__, resumable=True)
    stored = Path(args.out) / f"{NAME}.json"
    found: dict[str, list[dict[str, Any]]] = {}
    if args.render or (args.resume and stored.exists()):
        kept = json.loads(stored.read_text(encoding="utf-8"))
        found = {name: kept["results"].get(name, []) for name in SETTINGS}
        if args.render:
            save(NAME, kept["environment"], found, page(found, kept["environment"]["r"]), args.out)
            return
    use_one_thread()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy", "statsmodels"])
    env["r"] = versions(("lme4",))
    for count, _ in enumerate(missing(found, args.quick)):
        if (count + 1) % EVERY == 0:
            env["load_at_end"] = [round(v, 2) for v in os.getloadavg()]
            save(NAME, env, found, page(found, env["r"]), args.out)
    save(NAME, env, found, page(found, env["r"]), args.out)


def missing(found: dict[str, list[dict[str, Any]]], quick: bool) -> Iterator[None]:
    """Add the sets that are missing one by one: the settings in turn, then fits by lmer."""
    for i in range(QUICK if quick else max(sets for _, _, sets, _ in SETTINGS.values())):
        for place, (name, (factors, nested, sets, _)) in enumerate(SETTINGS.items()):
            if i < sets and len(found.setdefault(name, [])) == i:
                found[name].append(one(factors, nested, [place, i]))
                yield
    for place, (name, (factors, nested, _, of_lmer)) in enumerate(SETTINGS.items()):
        for i, each in enumerate(found[name][:of_lmer]):
            if "lmer" not in each:
                each["lmer"] = by_lmer(drawn(factors, nested, np.random.default_rng([place, i])))
                yield


if __name__ == "__main__":
    main()
