"""Coverage of intervals of logistic, Poisson and cumulative mixed models, variances drawn from the prior.

    python -m benchmarks.mixed_calibration [--quick] [--resume] [--out FOLDER] [--render]

A standardised covariate and one or two crossed factors of 5 to 30 unbalanced levels. Variances are drawn from the
prior of the fit, then the slope, the effects of levels, and the responses, so that 95 % intervals should hold 95 % of
everything. The intercept is flat in units of the latent standard deviation, so that for intercepts within a given
range the ratio of explained and latent variance is beta-prime(1/2, 1). Of three ordered categories both cut points
are flat, and it is beta-prime(1/2, 3/2). For counts the latent variance is that of the expected count in the middle;
the model takes the mean of the counts in its place. Responses that are all alike, or lack a category, are drawn
again. Each data set has its own seed: a run that was stopped goes on with ``--resume``.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.common import arguments, environment, save, table, use_one_thread
from benchmarks.measures import LEVEL, mean_error
from pybayesridge import BayesRidge

NAME = "mixed_calibration"
ROWS, LEVELS = 100, (5, 31)
SETTINGS: dict[str, tuple[str, int, str, int]] = {
    "logistic, one factor": ("binomial", 1, "ep", 600),
    "Poisson, one factor": ("poisson", 1, "ep", 400),
    "ordinal, one factor": ("ordinal", 1, "ep", 600),
    "logistic, two factors": ("binomial", 2, "ep", 100),
    "Poisson, two factors": ("poisson", 2, "ep", 100),
    "logistic, one factor, Laplace": ("binomial", 1, "laplace", 400),
}
QUICK = 3
MIDDLE = {"binomial": (-1.0, 1.0), "poisson": (0.0, 2.3), "ordinal": (0.0, 2.0)}
"""Range of the intercepts; of ordered categories minus the first cut point, from which the second is so far away."""
DISTANCE = (0.5, 2.5)
LARGEST = 1e9
"""Counts with a larger mean are drawn again."""
WHAT = ("slope", "effects of levels", "sd of the slope", "sds of factors", "shares")
EVERY = 10
"""Sets after which the page is saved."""


def drawn(family: str, factors: int, rng: np.random.Generator) -> dict[str, Any]:
    """A data set from the prior, with what was drawn."""
    while True:
        t = rng.standard_normal(ROWS)
        t = (t - t.mean()) / t.std()
        levels = rng.integers(*LEVELS, size=factors)
        codes = []
        for count in levels.tolist():
            share = rng.gamma(2, size=count)
            some = rng.choice(count, size=ROWS - count, p=share / share.sum())
            codes.append(rng.permutation(np.concatenate([np.arange(count), some])))
        middle = rng.uniform(*MIDDLE[family])
        c = np.log1p(np.exp(-middle)) if family == "poisson" else np.pi**2 / 3
        share = rng.beta(0.5, 1.5 if family == "ordinal" else 1.0)
        w = c * share / (1 - share) * rng.dirichlet(np.full(1 + factors, 0.5))
        # The mean square of centred dummies.
        size = [1 - float(((np.bincount(code) / ROWS) ** 2).sum()) for code in codes]
        sd = np.sqrt(w / np.array([1.0, *size]))
        slope = sd[0] * rng.standard_normal()
        effects = [s * rng.standard_normal(count) for s, count in zip(sd[1:], levels, strict=True)]
        eta = middle + slope * t + sum(b[code] for b, code in zip(effects, codes, strict=True))
        if family == "poisson" and eta.max() > np.log(LARGEST):
            continue
        y = responses(family, eta, rng)
        if len(np.unique(y)) == 3 or (family != "ordinal" and np.ptp(y) > 0):
            names = {f"f{k}": code for k, code in enumerate(codes)}
            frame = pd.DataFrame({"y": y, "t": t, **names})
            # Where the middle is that of the counts, so are the shares of the latent variance.
            return {"frame": frame, "slope": slope, "effects": effects, "sd": sd, "share": w / (c + w.sum())}


def responses(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Responses at linear predictors."""
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "ordinal":
        return np.digitize(eta + rng.logistic(size=eta.size), [0.0, rng.uniform(*DISTANCE)])
    return (rng.random(eta.size) < expit(eta)).astype(int)


def one(family: str, factors: int, method: str, seed: list[int]) -> dict[str, Any]:
    """Which intervals of a data set cover, as shares, and whether the fit converged."""
    data = drawn(family, factors, np.random.default_rng(seed))
    formula = "y ~ t + " + " + ".join(f"(1 | f{k})" for k in range(factors))
    res = BayesRidge.from_formula(formula, data["frame"], family=family).fit(method)
    ends, bands = res.conf_int(1 - LEVEL), res.variance_components(1 - LEVEL)
    effects = res.random_effects(alpha=1 - LEVEL)
    held = []
    for k, b in enumerate(data["effects"]):
        names = [(f"f{k}", f"f{k}[{level}]") for level in range(b.size)]
        low, high = effects.loc[names, ["lower", "upper"]].to_numpy().T
        held += ((low <= b) & (b <= high)).tolist()

    def inside(frame: pd.DataFrame, names: tuple[str, str], truth: np.ndarray) -> np.ndarray:
        low, high = frame[list(names)].to_numpy().T
        return np.asarray((low <= truth) & (truth <= high), dtype=float)

    order = ["other", *(f"f{k}" for k in range(factors))]
    sds = inside(bands.loc[order], ("lower", "upper"), data["sd"])
    shares = inside(bands.loc[order], ("share_lower", "share_upper"), data["share"])
    low, high = ends.loc["t"]
    return {
        "slope": float(low <= data["slope"] <= high),
        "effects of levels": float(np.mean(held)),
        "sd of the slope": float(sds[0]),
        "sds of factors": float(sds[1:].mean()),
        "shares": float(shares.mean()),
        "z": float((data["slope"] - res.params["t"]) / res.bse["t"]),
        "converged": bool(res.converged),
    }


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """The page."""
    rows = []
    for name, sets in found.items():
        if not sets:
            continue
        cells = []
        for what in WHAT:
            mean, error = mean_error([each[what] for each in sets])
            cells.append(f"{100 * mean:.1f} ± {100 * error:.1f}")
        rows.append([name, str(len(sets)), *cells, str(sum(not each["converged"] for each in sets))])
    return "\n\n".join(
        [
            f"Coverage of 95 % intervals in per cent, ± its standard error; {ROWS} rows, a covariate and crossed "
            f"factors of {LEVELS[0]} to {LEVELS[1] - 1} unbalanced levels, variances drawn from the prior.",
            table(["model", "data sets", *WHAT, "not converged"], rows),
        ]
    )


def main() -> None:
    """Fit all sets of each setting that are not stored."""
    args = arguments(__doc__, resumable=True)
    stored = Path(args.out) / f"{NAME}.json"
    found: dict[str, list[dict[str, Any]]] = {}
    if args.render or (args.resume and stored.exists()):
        kept = json.loads(stored.read_text(encoding="utf-8"))
        found = kept["results"]
        if args.render:
            save(NAME, kept["environment"], found, page(found), args.out)
            return
    use_one_thread()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy"])
    found = {name: found.get(name, []) for name in SETTINGS}
    for place, (name, (family, factors, method, sets)) in enumerate(SETTINGS.items()):
        has = found[name]
        for i in range(len(has), QUICK if args.quick else sets):
            has.append(one(family, factors, method, [place, i]))
            if (i + 1) % EVERY == 0:
                env["load_at_end"] = [round(v, 2) for v in os.getloadavg()]
                save(NAME, env, found, page(found), args.out)
    save(NAME, env, found, page(found), args.out)


if __name__ == "__main__":
    main()
