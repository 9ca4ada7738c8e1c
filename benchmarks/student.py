"""Student-t noise: calibration of the ridge by simulation.

    python -m benchmarks.student [--quick] [--out FOLDER] [--render] [--only PART ...]

Degrees of freedom, the share of the latent variance that the columns explain and coefficients are drawn from their
prior, then responses about them; intervals of a given probability should hold coefficients and the scale of the noise
that often. The prior of the scale and of the intercept has no integral. Both only shift and stretch the responses and
the intervals: the scale is 1 and the intercept 0 in all sets, and given these the prior of the explained share is
Beta(1/2, 1/2), as given any others. Degrees of freedom are few different numbers: the posterior probability of
fewer than the true ones, plus a uniformly drawn part of that of the true ones, should be uniform.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.measures import coverage, mean_error
from pybayesridge import BayesRidge, ConvergenceWarning
from pybayesridge.sites.student import GRID

NAME = "student"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
LEVELS = (0.5, 0.9, 0.95)
"""Probabilities of the intervals."""
SETTINGS = {f"{method}, n = {n}, p = {p}": (method, n, p, sets) for method, n, p, sets in (("ep", 60, 5, 150),)}
QUICK = {"laplace, n = 30, p = 2": ("laplace", 30, 2, 3)}
QUANTITIES = ("coefficients", "sigma", "df")


def draw(n: int, p: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Columns, coefficients, responses and the degrees of freedom."""
    x = rng.standard_normal((n, p))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    share, df = np.clip(rng.beta(0.5, 0.5), 0.0, 1.0 - 1e-6), float(rng.choice(GRID))
    b = np.sqrt(share / (1.0 - share) / p) * rng.standard_normal(p)
    noise = rng.standard_normal(n) if np.isinf(df) else rng.standard_t(df, n)
    return x, b, x @ b + noise, df


def place(forms: np.ndarray, share: np.ndarray, df: float, rng: np.random.Generator) -> float:
    """Where the true degrees of freedom are in their posterior, from 0 to 1."""
    return float(share[forms < df].sum() + rng.uniform() * share[forms == df].sum())


def fitted(method: str, n: int, p: int, rng: np.random.Generator) -> tuple[dict[str, list[float]], bool]:
    """For one set the part of the intervals of each quantity that holds it, by level; and whether it converged."""
    x, b, y, df = draw(n, p, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        res = BayesRidge(y, x, family="student-t").fit(method)
    at = place(res.sites_fit.shape.forms, res.sites_fit.shape.share, df, rng)
    tables = [res.hyperparameters(1 - level).loc["sigma", ["lower", "upper"]] for level in LEVELS]
    held = {
        "coefficients": [coverage(b, res.arrays.conf_int(1 - level)[1:]) for level in LEVELS],
        "sigma": [float(low <= 1.0 <= high) for low, high in tables],
        "df": [float(abs(at - 0.5) <= 0.5 * level) for level in LEVELS],
    }
    return held, bool(res.converged)


def calibrated(method: str, n: int, p: int, sets: int) -> dict[str, Any]:
    """Coverage of the intervals of each quantity at each level with its error, and how many fits converged."""
    rng = np.random.default_rng(1)
    return summed([fitted(method, n, p, rng) for _ in range(sets)])


def summed(found: list[tuple[dict[str, list[float]], bool]]) -> dict[str, Any]:
    """Means and their errors over sets."""
    held = {name: np.array([each[name] for each, _ in found]) for name in QUANTITIES}
    of_quantities = {name: [mean_error(column) for column in each.T] for name, each in held.items()}
    return {"sets": len(found), "converged": sum(converged for _, converged in found), **of_quantities}


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = ["Calibration of ridges with Student-t noise, made by `python -m benchmarks.student`."]
    if "calibration" in found:
        rows = [
            [name, f"{each['sets']}", f"{each['converged']}", quantity]
            + [f"{100 * share:.1f} ± {100 * error:.1f} %" for share, error in each[quantity]]
            for name, each in found["calibration"].items()
            for quantity in QUANTITIES
        ]
        levels = [f"{100 * level:.0f} % intervals" for level in LEVELS]
        head = ["setting", "sets", "converged", "intervals of", *levels]
        parts += ["## Calibration", common.table(head, rows)]
    return "\n\n".join(parts)


def calibrations(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for name, setting in (QUICK if quick else SETTINGS).items():
        yield name, calibrated(*setting)


PARTS = {"calibration": calibrations}


def main() -> None:
    common.run_parts(__doc__, NAME, PACKAGES, page, PARTS)


if __name__ == "__main__":
    main()
