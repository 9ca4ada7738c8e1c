"""Overdispersed shares: calibration of the ridge by simulation, and pure noise.

    python -m benchmarks.beta_binomial [--quick] [--out FOLDER] [--render] [--only PART ...]

Calibration: the share of the latent variance that the columns explain is drawn from its prior, then coefficients, the
dispersion from its prior, rho ~ Beta(1/2, 1/2), and successes; 95 % intervals should hold coefficients and the
dispersion 95 % of the time. The intercept is flat in units of the latent standard deviation, so that for a given one
the prior of the explained share is Beta(1/2, 1). Sets in which all trials have one outcome are drawn again.

Pure noise: columns that have nothing to do with the shares. The explained share should be small, and 95 % intervals
should exclude 0 for fewer than 5 % of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks import common
from benchmarks.measures import LEVEL, coverage, mean_error
from pybayesridge import BayesRidge

NAME = "beta_binomial"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
SETTINGS = {
    f"{method}, n = {n}, p = {p}, {trials} trials": (method, n, p, trials, sets)
    for method, n, p, trials, sets in (("laplace", 40, 4, 20, 400), ("ep", 40, 4, 20, 400))
}
QUICK = {"laplace, n = 30, p = 2, 10 trials": ("laplace", 30, 2, 10, 3)}
NOISE = ((0.1, 40, 4), (0.5, 40, 4))


def draw(n: int, p: int, trials: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Columns, coefficients, successes and the dispersion."""
    while True:
        x = rng.standard_normal((n, p))
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        share, rho = rng.beta(0.5, 1.0), np.clip(rng.beta(0.5, 0.5), 1e-6, 1 - 1e-6)
        b = np.sqrt(share / (1.0 - share) * np.pi**2 / 3 / p) * rng.standard_normal(p)
        s = (1.0 - rho) / rho
        mean = expit(0.3 + x @ b)
        y = rng.binomial(trials, rng.beta(np.maximum(mean * s, 1e-12), np.maximum((1.0 - mean) * s, 1e-12)))
        if 0 < y.sum() < n * trials:
            return x, b, y, float(rho / (1.0 - rho))


def calibrated(method: str, n: int, p: int, trials: int, sets: int) -> dict[str, Any]:
    """Coverage of the intervals of coefficients, by set, and of the dispersion, with their errors."""
    rng, held, of_alpha = np.random.default_rng(1), [], []
    for _ in range(sets):
        x, b, y, alpha = draw(n, p, trials, rng)
        res = BayesRidge(y, x, family="beta-binomial", trials=np.full(n, trials)).fit(method)
        held.append(coverage(b, res.arrays.conf_int(1 - LEVEL)[1:]))
        low, high = res.hyperparameters(1 - LEVEL).loc["alpha", ["lower", "upper"]]
        of_alpha.append(float(low <= alpha <= high))
    (share, error), (alpha_share, alpha_error) = mean_error(held), mean_error(of_alpha)
    return {
        "sets": sets,
        "coverage": share,
        "error": error,
        "alpha_coverage": alpha_share,
        "alpha_error": alpha_error,
    }


def noise(rho: float, n: int, p: int, sets: int) -> dict[str, float]:
    """Explained share and intervals that exclude 0, where there is nothing."""
    rng, shares, excluded, s = np.random.default_rng(2), [], [], (1.0 - rho) / rho
    for _ in range(sets):
        x, y = rng.standard_normal((n, p)), rng.binomial(20, rng.beta(0.4 * s, 0.6 * s, n))
        res = BayesRidge(y, x, family="beta-binomial", trials=np.full(n, 20)).fit("laplace")
        ends = res.arrays.conf_int(1 - LEVEL)[1:]
        shares.append(float(res.explained_variance()["median"]))
        excluded.append(float(((ends[:, 0] > 0) | (ends[:, 1] < 0)).mean()))
    return {"share": float(np.mean(shares)), "excluded": float(np.mean(excluded))}


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = ["Calibration and pure noise of ridges for shares, made by `python -m benchmarks.beta_binomial`."]
    if "calibration" in found:
        rows = [
            [
                name,
                f"{each['sets']}",
                f"{100 * each['coverage']:.1f} ± {100 * each['error']:.1f} %",
                f"{100 * each['alpha_coverage']:.1f} ± {100 * each['alpha_error']:.1f} %",
            ]
            for name, each in found["calibration"].items()
        ]
        head = ["setting", "sets", "coverage of 95 % intervals", "of those of alpha"]
        parts += ["## Calibration", common.table(head, rows)]
    if "noise" in found:
        rows = [
            [name, f"{100 * each['share']:.1f} %", f"{100 * each['excluded']:.1f} %"]
            for name, each in found["noise"].items()
        ]
        head = ["setting", "mean of the explained share's median", "intervals that exclude 0"]
        parts += ["## Pure noise", common.table(head, rows)]
    return "\n\n".join(parts)


def calibrations(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for name, setting in (QUICK if quick else SETTINGS).items():
        yield name, calibrated(*setting)


def noises(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for rho, n, p in NOISE[:1] if quick else NOISE:
        yield f"rho = {rho:g}, n = {n}, p = {p}", noise(rho, n, p, 3 if quick else 50)


PARTS = {"calibration": calibrations, "noise": noises}


def main() -> None:
    common.run_parts(__doc__, NAME, PACKAGES, page, PARTS)


if __name__ == "__main__":
    main()
