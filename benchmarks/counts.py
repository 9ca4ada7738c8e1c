"""Counts: calibration of the ridges by simulation, pure noise, and time beside statsmodels.

    python -m benchmarks.counts [--quick] [--out FOLDER] [--render] [--only PART ...]

Calibration: the share of the latent variance that the columns explain is drawn from its prior, then coefficients,
then counts; 95 % intervals should hold the coefficients 95 % of the time. The intercept is flat in units of the
latent standard deviation, so that within a given range of intercepts the prior of the ratio t of explained and noise
variance is beta-prime(1/2, 1). The unit of the noise is log(1 + 1/m) with m the expected count of a row whose columns
are at their means; the model takes the mean of the counts in its place.

Overdispersed: the same for negative binomial counts, with the dispersion alpha drawn from its prior too, alpha being
part of the unit of the noise. Intervals of alpha are looked at as well. Sets without any event are drawn again.

Pure noise: columns that have nothing to do with the counts. The explained share should be small at any level of the
counts, and 95 % intervals should exclude 0 for fewer than 5 % of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.measures import LEVEL, coverage, mean_error
from pybayesridge import BayesRidge

NAME = "counts"
PACKAGES = ["pybayesridge", "numpy", "scipy", "statsmodels"]
SETTINGS = {
    f"{method}, n = {n}, p = {p}, counts of {level:g}": (method, n, p, level, sets)
    for method, n, p, level, sets in (
        ("ep", 50, 5, 1.0, 600),
        ("laplace", 50, 5, 1.0, 600),
        ("ep", 50, 5, 100.0, 400),
        ("ep", 100, 20, 3.0, 200),
        ("ep", 60, 200, 3.0, 60),
    )
}
OVERDISPERSED = {
    f"{method}, n = {n}, p = {p}, counts of {level:g}": (method, n, p, level, sets)
    for method, n, p, level, sets in (
        ("ep", 50, 5, 3.0, 200),
        ("laplace", 50, 5, 3.0, 200),
        ("ep", 100, 20, 10.0, 60),
    )
}
QUICK = {"ep, n = 40, p = 4, counts of 2": ("ep", 40, 4, 2.0, 5)}
NOISE = ((50, 5), (100, 50))
LEVELS = (0.3, 3.0, 300.0, 1e5)
TIMED = ("ep", "laplace", "overdispersed", "overdispersed laplace", "its negative binomial")
LARGEST = 1e12
"""A set whose expected counts are larger than this is drawn again: it cannot be counted."""


def draw(
    n: int, p: int, level: float, rng: np.random.Generator, *, overdispersed: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Columns, coefficients and counts of a set with an event at least, and the dispersion."""
    while True:
        x = rng.standard_normal((n, p))
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        alpha = float(np.tan(0.5 * np.pi * rng.uniform()) ** 2) if overdispersed else 0.0
        noise = np.log1p(1.0 / level + alpha)
        share = rng.beta(0.5, 1.0)
        b = np.sqrt(share / (1.0 - share) * noise / p) * rng.standard_normal(p)
        mean = level * np.exp(x @ b)
        rate = mean * rng.gamma(1.0 / alpha, alpha, n) if alpha else mean
        if rate.max() < LARGEST and (y := rng.poisson(rate)).any():
            return x, b, y, alpha


def calibrated(method: str, n: int, p: int, level: float, sets: int) -> dict[str, Any]:
    """Coverage of the intervals of coefficients, by set, and its error."""
    rng, held = np.random.default_rng(1), []
    for _ in range(sets):
        x, b, y, _ = draw(n, p, level, rng)
        ends = BayesRidge(y, x, family="poisson").fit(method).arrays.conf_int(1 - LEVEL)[1:]
        held.append(coverage(b, ends))
    return {"sets": sets, "coverage": float(np.mean(held)), "error": float(np.std(held, ddof=1) / np.sqrt(sets))}


def overdispersed(method: str, n: int, p: int, level: float, sets: int) -> dict[str, Any]:
    """Coverage of the intervals of coefficients, by set, and of the dispersion, with their errors."""
    rng, held, of_alpha = np.random.default_rng(4), [], []
    for _ in range(sets):
        x, b, y, alpha = draw(n, p, level, rng, overdispersed=True)
        res = BayesRidge(y, x, family="negative-binomial").fit(method)
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


def noise(n: int, p: int, level: float, sets: int) -> dict[str, float]:
    """Explained share and intervals that exclude 0, where there is nothing."""
    rng, shares, excluded = np.random.default_rng(2), [], []
    for _ in range(sets):
        x = rng.standard_normal((n, p))
        while not (y := rng.poisson(level, n)).any():
            pass
        res = BayesRidge(y, x, family="poisson").fit()
        ends = res.arrays.conf_int(1 - LEVEL)[1:]
        shares.append(float(res.explained_variance()["median"]))
        excluded.append(float(((ends[:, 0] > 0) | (ends[:, 1] < 0)).mean()))
    return {"share": float(np.mean(shares)), "excluded": float(np.mean(excluded))}


def times(n: int, p: int, repetitions: int) -> dict[str, float]:
    """Processor time of a fit relative to that of statsmodels' GLM, least of several runs."""
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, p))
    mean = np.exp(0.5 + x @ rng.standard_normal(p) * 0.05)
    y, more = rng.poisson(mean), rng.poisson(mean * rng.gamma(2.0, 0.5, n))
    exog = sm.add_constant(x)
    found = common.interleaved(
        {
            "statsmodels": lambda: sm.GLM(y, exog, family=sm.families.Poisson()).fit(),
            "its negative binomial": lambda: sm.NegativeBinomial(more, exog).fit(disp=0),
            "ep": lambda: BayesRidge(y, x, family="poisson").fit(),
            "laplace": lambda: BayesRidge(y, x, family="poisson").fit("laplace"),
            "overdispersed": lambda: BayesRidge(more, x, family="negative-binomial").fit(),
            "overdispersed laplace": lambda: BayesRidge(more, x, family="negative-binomial").fit("laplace"),
        },
        repetitions,
    )
    least = {name: float(each["least"]) for name, each in found.items()}
    return {name: seconds / least["statsmodels"] for name, seconds in least.items()} | {
        "seconds": least["statsmodels"]
    }


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = ["Calibration, pure noise and time of ridges for counts, made by `python -m benchmarks.counts`."]
    if "calibration" in found:
        rows = [
            [name, f"{each['sets']}", f"{100 * each['coverage']:.1f} %", f"{100 * each['error']:.1f} %"]
            for name, each in found["calibration"].items()
        ]
        head = ["setting", "sets", "coverage of 95 % intervals", "standard error"]
        parts += ["## Calibration", common.table(head, rows)]
    if "overdispersed" in found:
        rows = [
            [
                name,
                f"{each['sets']}",
                f"{100 * each['coverage']:.1f} ± {100 * each['error']:.1f} %",
                f"{100 * each['alpha_coverage']:.1f} ± {100 * each['alpha_error']:.1f} %",
            ]
            for name, each in found["overdispersed"].items()
        ]
        head = ["setting", "sets", "coverage of 95 % intervals", "of those of alpha"]
        parts += ["## Negative binomial counts", common.table(head, rows)]
    if "noise" in found:
        rows = [
            [name, f"{100 * each['share']:.1f} %", f"{100 * each['excluded']:.1f} %"]
            for name, each in found["noise"].items()
        ]
        head = ["setting", "mean of the explained share's median", "intervals that exclude 0"]
        parts += ["## Pure noise", common.table(head, rows)]
    if "time" in found:
        rows = [
            [
                name,
                f"{each['seconds']:.2f} s",
                *(f"{each[one]:.1f}" if one in each else "–" for one in TIMED),
            ]
            for name, each in found["time"].items()
        ]
        head = [
            "rows and columns",
            "statsmodels' GLM",
            "ep, relative",
            "laplace, relative",
            "negative binomial, ep",
            "negative binomial, laplace",
            "statsmodels' negative binomial",
        ]
        parts += ["## Time", common.table(head, rows)]
    return "\n\n".join(parts)


def calibrations(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for name, setting in (QUICK if quick else SETTINGS).items():
        yield name, calibrated(*setting)


def all_overdispersed(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for name, setting in (QUICK if quick else OVERDISPERSED).items():
        yield name, overdispersed(*setting)


def noises(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for n, p in NOISE[:1] if quick else NOISE:
        for level in LEVELS[:2] if quick else LEVELS:
            yield f"n = {n}, p = {p}, counts of {level:g}", noise(n, p, level, 3 if quick else 100)


def all_times(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each size."""
    for n, p in ((200, 5),) if quick else ((1000, 10), (5000, 100)):
        yield f"{n:,} x {p}", times(n, p, 2 if quick else 5)


PARTS = {"calibration": calibrations, "overdispersed": all_overdispersed, "noise": noises, "time": all_times}


def main() -> None:
    common.run_parts(__doc__, NAME, PACKAGES, page, PARTS)


if __name__ == "__main__":
    main()
