"""Several penalties: whether intervals cover, and speed and fit beside statsmodels and himalaya.

    python -m benchmarks.bands [--quick] [--out FOLDER]

Calibration: variances are drawn from the prior, then coefficients, then data with crossed factors whose levels are
unbalanced; the same prior is used to fit, so that 95 % intervals should cover 95 % of everything that was drawn.
Restricted maximum likelihood by MixedLM of statsmodels fits the same data, with Wald intervals of the fixed effect.
Feature spaces: 200 rows and three spaces, one of them of noise; R-squared of 2,000 new rows by bands, by one penalty,
and by GroupRidgeCV of himalaya (random search with 100 draws, five folds).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import QUICK_RESULTS, RESULTS, environment, save, table, use_one_thread
from benchmarks.measures import r_squared
from pybayesridge import BayesRidge

LEVEL = 0.95

FACTORS = {"8 and 12 levels": (8, 12), "5, 8 and 12 levels": (5, 8, 12)}

ROWS = 80

SPACES = (20, 60, 100)

EFFECTS = (0.4, 0.08, 0.0)


def crossed(levels: tuple[int, ...], rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """A covariate, the codes of unbalanced factors, and their dummies side by side."""
    codes = []
    for count in levels:
        share = rng.gamma(2, size=count)
        some = rng.choice(count, size=ROWS - count, p=share / share.sum())
        codes.append(rng.permutation(np.concatenate([np.arange(count), some])))
    dummies = [(code[:, None] == np.arange(count)).astype(float) for code, count in zip(codes, levels, strict=True)]
    return rng.normal(size=ROWS), codes, np.hstack(dummies)


def drawn(levels: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
    """A data set from the prior, with what was drawn."""
    t, codes, x = crossed(levels, rng)
    band = np.repeat(np.arange(len(levels)), levels)
    z = np.column_stack([np.ones(ROWS), t])
    outside = x - z @ np.linalg.lstsq(z, x, rcond=None)[0]
    size = np.bincount(band, weights=(outside**2).sum(axis=0)) / ROWS
    share = rng.beta(0.5, 0.5)
    width = share / (1 - share) * rng.dirichlet(np.full(len(levels), 0.5))
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
        "y": 1 + 0.5 * t + x @ b + rng.normal(size=ROWS),
    }


def covered(data: dict[str, Any]) -> tuple[dict[str, np.ndarray], float]:
    """Which intervals cover, and the seconds of the fit and all of them."""
    labels = ["t", *(f"f{k}" for k in data["band"])]
    start = time.process_time()
    model = BayesRidge(
        data["y"],
        np.column_stack([data["t"], data["x"]]),
        bands=labels,
        unpenalized=[0],
        standardize=False,
    )
    res = model.fit()
    ends, table_of_bands = res.arrays.conf_int(1 - LEVEL), res.variance_components(1 - LEVEL)
    seconds = time.process_time() - start

    def inside(low: Any, high: Any, truth: Any) -> np.ndarray:
        return (np.asarray(low) <= truth) & (truth <= np.asarray(high))

    found = {
        "fixed effect": inside(*ends[[1]].T, 0.5),
        "random effects": inside(*ends[2:].T, data["b"]),
        "standard deviations": inside(table_of_bands["lower"], table_of_bands["upper"], data["sd"]),
        "shares": inside(table_of_bands["share_lower"], table_of_bands["share_upper"], data["share"]),
    }
    return found, seconds


def mixed_model(data: dict[str, Any]) -> tuple[bool, float]:
    """Whether the Wald interval of the fixed effect of MixedLM covers, and the seconds of the fit."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    frame = pd.DataFrame({"y": data["y"], "t": data["t"], "one": 1})
    formula = {}
    for k, code in enumerate(data["codes"]):
        frame[f"f{k}"] = code
        formula[f"f{k}"] = f"0 + C(f{k})"
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = MixedLM.from_formula("y ~ t", frame, groups="one", re_formula="0", vc_formula=formula).fit()
    low, high = res.conf_int(1 - LEVEL).loc["t"]
    return bool(low <= 0.5 <= high), time.process_time() - start


def calibration(repetitions: int) -> tuple[list[list[Any]], dict[str, Any]]:
    """Coverage of everything, and of MixedLM's intervals of the fixed effect."""
    rows, stored = [], {}
    for name, levels in FACTORS.items():
        rng = np.random.default_rng(sum(levels))
        hits: dict[str, list[np.ndarray]] = {}
        times, other, other_times = [], [], []
        for _ in range(repetitions):
            data = drawn(levels, rng)
            found, seconds = covered(data)
            times.append(seconds)
            for what, each in found.items():
                hits.setdefault(what, []).append(each.mean())
            wald, seconds = mixed_model(data)
            other.append(wald)
            other_times.append(seconds)
        cells = [_percent(np.array(values)) for values in hits.values()]
        wald_cell = _percent(np.array(other, dtype=float))
        rows.append([name, *cells, wald_cell, f"{np.median(times):.2f}", f"{np.median(other_times):.2f}"])
        stored[name] = {what: float(np.mean(values)) for what, values in hits.items()}
        stored[name] |= {"MixedLM": float(np.mean(other)), "seconds": times, "MixedLM seconds": other_times}
    return rows, stored


def _percent(hits: np.ndarray) -> str:
    return f"{100 * hits.mean():.1f} ± {100 * hits.std(ddof=1) / np.sqrt(hits.size):.1f}"


def by_himalaya(y: np.ndarray, x: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Predictions by banded ridge regression of himalaya; None if it is not there."""
    try:
        from himalaya.ridge import GroupRidgeCV
    except ImportError:
        return None
    model = GroupRidgeCV(
        groups=np.repeat(np.arange(len(SPACES)), SPACES),
        solver_params={"n_iter": 100, "alphas": np.logspace(-4, 6, 21), "progress_bar": False},
        random_state=0,
        fit_intercept=True,
    ).fit(x, y)
    return lambda new: np.asarray(model.predict(new))


def spaces(repetitions: int) -> tuple[list[list[Any]], dict[str, Any]]:
    """R-squared of new rows and seconds of each method."""
    scores: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    labels = np.repeat([f"space {k}" for k in range(len(SPACES))], SPACES)

    def bands(y: np.ndarray, x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        res = BayesRidge(y, x, bands=labels).fit()
        return lambda new: np.asarray(res.predict(new))

    def one(y: np.ndarray, x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        res = BayesRidge(y, x).fit()
        return lambda new: np.asarray(res.predict(new))

    methods = {"bands": bands, "one penalty": one, "himalaya": by_himalaya}
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        b = np.concatenate([s * rng.normal(size=p) for s, p in zip(EFFECTS, SPACES, strict=True)])
        x, new = rng.normal(size=(200, b.size)), rng.normal(size=(2000, b.size))
        y, y_new = x @ b + rng.normal(size=200), new @ b + rng.normal(size=2000)
        for name, method in methods.items():
            start = time.process_time()
            predict = method(y, x)
            if predict is None:
                continue
            times.setdefault(name, []).append(time.process_time() - start)
            scores.setdefault(name, []).append(r_squared(y_new, predict(new).ravel()))
    rows = [
        [
            name,
            f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}",
            f"{np.median(times[name]):.2f}",
        ]
        for name, values in scores.items()
    ]
    return rows, {name: {"r2": scores[name], "seconds": times[name]} for name in scores}


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer data sets: under a minute")
    parser.add_argument("--out", type=Path, help="folder of the page")
    args = parser.parse_args()
    use_one_thread()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy", "statsmodels", "himalaya"])
    calibrated, stored = calibration(6 if args.quick else 60)
    compared, of_spaces = spaces(3 if args.quick else 8)
    heads = ["factors", "fixed effect", "random effects", "standard deviations", "shares"]
    text = "\n\n".join(
        [
            f"Coverage of 95 % intervals in per cent, ± its standard error; {ROWS} rows, crossed factors, variances "
            "drawn from the prior. MixedLM: Wald intervals of the fixed effect by restricted maximum likelihood. "
            "Medians of processor seconds of a fit, with all intervals for ours.",
            table([*heads, "MixedLM, fixed effect", "s", "MixedLM, s"], calibrated),
            f"Feature spaces of {', '.join(map(str, SPACES))} columns, the last of noise; 200 rows. R-squared of "
            "2,000 new rows, ± its standard error, and processor seconds of a fit.",
            table(["method", "R-squared", "s"], compared),
        ]
    )
    folder = args.out or (QUICK_RESULTS if args.quick else RESULTS)
    save("bands", env, {"calibration": stored, "spaces": of_spaces}, text, folder)


if __name__ == "__main__":
    main()
