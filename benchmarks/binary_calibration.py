"""Yes/no responses: simulation-based calibration of the ridge and of selection.

    python -m benchmarks.binary_calibration [--quick] [--out FOLDER] [--render] [--seconds 600] [--only PART ...]

Hyperparameters are drawn from their prior, then coefficients, then responses, and the model is fitted with the same
prior. 95 % intervals should then hold the truth 95 % of the time, and inclusion probabilities should be frequencies.
There is no intercept, whose flat prior cannot be drawn from. Columns are AR(1) and standardised.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from benchmarks import common
from benchmarks.measures import LEVEL, coverage
from benchmarks.selection_calibration import autoregressive, bins, draw_of_prior, mean_and_error
from benchmarks.selection_calibration_page import percent
from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.binomial.augmentation import BinomialRows
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.link import LATENT_VARIANCE
from pybayesridge.binomial.selection import binary_grid
from pybayesridge.data.units import units_of
from pybayesridge.selection.grid import Given, Grid

NAME = "binary_calibration"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
NEW_ROWS, RHO = 20, 0.5
SHARE = {"logit": expit, "probit": ndtr}
MCSE = 0.02


@dataclass(frozen=True, slots=True)
class Setting:
    """Data sets of a size; method None is selection."""

    n: int
    p: int
    link: str
    method: str | None
    sets: int


FULL = {
    f"ridge, {method}, {link}, n = {n}, p = {p}": Setting(n, p, link, method, sets)
    for method, link, n, p, sets in (
        ("ep", "logit", 50, 5, 1000),
        ("laplace", "logit", 50, 5, 1000),
        ("ep", "probit", 50, 5, 1000),
        ("ep", "logit", 100, 20, 500),
        ("laplace", "logit", 100, 20, 500),
        ("ep", "logit", 60, 200, 300),
    )
} | {
    f"selection, {link}, n = {n}, p = {p}": Setting(n, p, link, None, sets)
    for link, n, p, sets in (("logit", 100, 8, 300), ("probit", 100, 8, 200), ("logit", 300, 60, 60))
}
QUICK = {
    "ridge, ep, logit, n = 40, p = 4": Setting(40, 4, "logit", "ep", 8),
    "selection, logit, n = 40, p = 4": Setting(40, 4, "logit", None, 3),
}


def ridge_draw(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Coefficients and tau2: the share of the latent variance that is explained is Beta(1/2, 1/2)."""
    share = rng.beta(0.5, 0.5)
    tau2 = share / (1 - share) * LATENT_VARIANCE[setting.link] / setting.p
    return np.sqrt(tau2) * rng.standard_normal(setting.p), tau2


def prior_grid(setting: Setting, x: np.ndarray) -> Grid:
    """The prior of the hyperparameters of a selection."""
    likelihood = Binomial(np.ones(setting.n), np.zeros(setting.n), np.ones(setting.n), setting.link)
    return binary_grid(BinomialRows.of(x, np.zeros((setting.n, 0)), likelihood, units_of(setting.p)), Given())


def columns(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Columns to fit, each of mean 0 and mean square 1, and new rows on the same scale."""
    both = autoregressive(setting.n + NEW_ROWS, setting.p, RHO, rng)
    x, new = both[: setting.n], both[setting.n :]
    mean, scale = x.mean(axis=0), x.std(axis=0)
    return (x - mean) / scale, (new - mean) / scale


def one_draw(setting: Setting, seed: int) -> dict[str, Any] | None:
    """Draw from the model, fit, and compare; None if the responses are all the same, which no model takes."""
    rng = np.random.default_rng([seed, setting.n, setting.p])
    x, new = columns(setting, rng)
    if setting.method is None:
        inside, coef = draw_of_prior(prior_grid(setting, x), rng)
    else:
        coef, tau2 = ridge_draw(setting, rng)
    share = SHARE[setting.link]
    y = (rng.random(setting.n) < share(x @ coef)).astype(float)
    if np.ptp(y) == 0:
        return None
    start = time.process_time()
    model = SpikeSlab if setting.method is None else BayesRidge
    options: dict[str, Any] = {"mcse": MCSE, "rng": seed} if setting.method is None else {}
    results = model(y, x, intercept=False, family="binomial", link=setting.link).fit(
        setting.method or "exact", **options
    )
    seconds = time.process_time() - start
    interval = np.asarray(results.conf_int(1 - LEVEL))
    held = (interval[:, 0] <= coef) & (coef <= interval[:, 1])
    predicted = np.asarray(results.get_prediction(new).conf_int(alpha=1 - LEVEL))
    out = {
        "converged": bool(results.converged),
        "seconds": seconds,
        "share": coverage(share(new @ coef), predicted),
        "coef": int(held.sum()),
        "coefs": setting.p,
    }
    if setting.method is not None:
        of_tau2 = results.hyperparameters(1 - LEVEL).loc["tau2"]
        return out | {"tau2": bool(of_tau2["lower"] <= tau2 <= of_tau2["upper"])}
    return out | {"prob": np.asarray(results.inclusion_prob).round(7).tolist(), "in": np.flatnonzero(inside).tolist()}


def measure(name: str, setting: Setting, seconds: float) -> dict[str, Any]:
    """All draws of a setting, or as many as there is processor time for."""
    draws, dropped, start = [], 0, time.process_time()
    for seed in range(setting.sets):
        one = one_draw(setting, seed)
        if one is None:
            dropped += 1
        else:
            draws.append(one)
        if (seed + 1) % 20 == 0:
            print(f"{name}: {seed + 1} of {setting.sets}", file=sys.stderr, flush=True)
        if time.process_time() - start > seconds:
            break
    return summarised(draws) | {"all_the_same": dropped}


def summarised(draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverages with standard errors over data sets, in bins for inclusion probabilities."""
    out: dict[str, Any] = {
        "sets": len(draws),
        "converged": sum(draw["converged"] for draw in draws),
        "median_seconds": float(np.median([draw["seconds"] for draw in draws])),
        "share": mean_and_error([draw["share"] for draw in draws]),
        "coef": mean_and_error([draw["coef"] / draw["coefs"] for draw in draws]),
    }
    if "tau2" in draws[0]:
        return out | {"tau2": mean_and_error([draw["tau2"] for draw in draws])}
    prob = np.array([draw["prob"] for draw in draws])
    inside = np.zeros(prob.shape)
    for i, draw in enumerate(draws):
        inside[i, draw["in"]] = 1.0
    return out | {"bins": bins(prob, inside)}


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    ridge = {name: one for name, one in found.items() if "tau2" in one}
    selection = {name: one for name, one in found.items() if "bins" in one}
    head = ["setting", "data sets", "coefficients", "tau2", "probabilities of new rows", "converged", "seconds"]
    parts = [
        "Coverage of 95 % intervals in per cent, ± its standard error over data sets, for data drawn from the model "
        "and its prior. Data sets whose responses are all the same are left out.",
    ]
    for title, group in (("The ridge", ridge), ("Selection", selection)):
        if not group:
            continue
        rows = [
            [
                name,
                one["sets"],
                percent(one["coef"]),
                percent(one["tau2"]) if "tau2" in one else "-",
                percent(one["share"]),
                f"{one['converged']} of {one['sets']}",
                f"{one['median_seconds']:.2f}",
            ]
            for name, one in group.items()
        ]
        parts += [f"## {title}", common.table(head, rows)]
    if selection:
        parts.append(
            "The interval of a coefficient that is out with probability above 95 % is the point 0, and zeros are "
            "held by it: coverage of all coefficients may exceed 95 %."
        )
    for name, one in selection.items():
        rows = [
            [f"{b['low']:g} to {b['high']:g}", b["columns"], f"{b['said']:.3f}", f"{b['true']:.3f}", f"{b['z']:+.1f}"]
            for b in one["bins"]
        ]
        head = ["inclusion probability", "columns", "mean probability", "share that is in", "z"]
        parts += [f"### {name}", common.table(head, rows)]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few draws of small problems")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    parser.add_argument("--render", action="store_true", help="write the page again from stored numbers")
    parser.add_argument("--seconds", type=float, default=np.inf, help="processor time of a setting")
    parser.add_argument("--only", nargs="+", choices=[*FULL], default=[*FULL])
    args = parser.parse_args()
    common.use_one_thread()
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    stored = folder / f"{NAME}.json"
    kept = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() and not args.quick else {"results": {}}
    if args.render:
        common.save(NAME, kept["environment"], kept["results"], page(kept["results"]), folder)
        return
    env, found = common.environment(PACKAGES), dict(kept["results"])
    for name, setting in QUICK.items() if args.quick else ((name, FULL[name]) for name in args.only):
        found[name] = measure(name, setting, args.seconds)
        common.save(NAME, env, found, page(found), folder)


if __name__ == "__main__":
    main()
