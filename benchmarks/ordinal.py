"""Ordered categories: calibration of the ridge by simulation, pure noise, and time beside statsmodels.

    python -m benchmarks.ordinal [--quick] [--out FOLDER] [--render] [--only PART ...]

Calibration: the share of the latent variance that the columns explain is drawn from its prior, Beta(1/2, 1/2), then
coefficients, and cut points in units of the standard deviation of the latent response, at shares of the categories
that are drawn from a Dirichlet distribution with parameters 4; 95 % intervals should hold coefficients and cut points
95 % of the time. Sets without a row in one of the categories are drawn again.

Pure noise: columns that have nothing to do with the categories. The explained share should be small, and 95 %
intervals should exclude 0 for fewer than 5 % of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks import common
from benchmarks.measures import LEVEL, coverage, mean_error
from pybayesridge import BayesRidge

NAME = "ordinal"
PACKAGES = ["pybayesridge", "numpy", "scipy", "statsmodels"]
SETTINGS = {
    f"{link}, {method}, n = {n}, p = {p}, {k} categories": (link, method, n, p, k, sets)
    for link, method, n, p, k, sets in (
        ("logit", "ep", 60, 5, 4, 600),
        ("logit", "laplace", 60, 5, 4, 400),
        ("probit", "laplace", 60, 5, 4, 400),
    )
}
QUICK = {"logit, laplace, n = 40, p = 3, 3 categories": ("logit", "laplace", 40, 3, 3, 4)}
NOISE = ((60, 5), (100, 50))
EVEN = 4.0
"""Parameter of the Dirichlet distribution of the shares of the categories."""


def draw(
    link: str, n: int, p: int, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, coefficients, cut points and categories."""
    variance = np.pi**2 / 3 if link == "logit" else 1.0
    while True:
        x = rng.standard_normal((n, p))
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        share = rng.beta(0.5, 0.5)
        b = np.sqrt(share / (1.0 - share) * variance / p) * rng.standard_normal(p)
        at = norm.ppf(np.cumsum(rng.dirichlet(np.full(k, EVEN)))[:-1])
        cuts = np.sqrt(variance / (1.0 - share)) * at
        noise = rng.logistic(size=n) if link == "logit" else rng.standard_normal(n)
        y = np.searchsorted(cuts, x @ b + noise)
        if np.unique(y).size == k:
            return x, b, cuts, y


def calibrated(link: str, method: str, n: int, p: int, k: int, sets: int) -> dict[str, Any]:
    """Coverage of the intervals of coefficients and of cut points, by set, and their errors."""
    rng, held, of_cuts = np.random.default_rng(1), [], []
    refused = 0
    for _ in range(sets):
        x, b, cuts, y = draw(link, n, p, k, rng)
        try:
            res = BayesRidge(y, x, family="ordinal", link=link).fit(method)
        except ValueError:
            # Laplace's approximation, where columns separate the categories.
            refused += 1
            continue
        held.append(coverage(b, res.arrays.conf_int(1 - LEVEL)))
        of_cuts.append(coverage(cuts, res.cut_points(1 - LEVEL)[["lower", "upper"]].to_numpy()))
    (share, error), (cut_share, cut_error) = mean_error(held), mean_error(of_cuts)
    return {
        "sets": sets,
        "refused": refused,
        "coverage": share,
        "error": error,
        "cut_coverage": cut_share,
        "cut_error": cut_error,
    }


def noise(n: int, p: int, sets: int) -> dict[str, float]:
    """Explained share and intervals that exclude 0, where there is nothing."""
    rng, shares, excluded = np.random.default_rng(2), [], []
    for _ in range(sets):
        x, y = rng.standard_normal((n, p)), np.r_[0, 1, 2, 3, rng.integers(0, 4, n - 4)]
        res = BayesRidge(y, x, family="ordinal").fit("laplace")
        ends = res.arrays.conf_int(1 - LEVEL)
        shares.append(float(res.explained_variance()["median"]))
        excluded.append(float(((ends[:, 0] > 0) | (ends[:, 1] < 0)).mean()))
    return {"share": float(np.mean(shares)), "excluded": float(np.mean(excluded))}


def times(n: int, p: int, repetitions: int) -> dict[str, float]:
    """Processor time of a fit relative to that of statsmodels' OrderedModel, least of several runs."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, p))
    y = np.digitize(x @ rng.standard_normal(p) * 0.1 + rng.logistic(size=n), [-1.5, 0.0, 1.5])
    found = common.interleaved(
        {
            "statsmodels": lambda: OrderedModel(y, x, distr="logit").fit(disp=0, method="bfgs"),
            "ep": lambda: BayesRidge(y, x, family="ordinal").fit(),
            "laplace": lambda: BayesRidge(y, x, family="ordinal").fit("laplace"),
        },
        repetitions,
    )
    least = {name: float(each["least"]) for name, each in found.items()}
    return {name: seconds / least["statsmodels"] for name, seconds in least.items()} | {
        "seconds": least["statsmodels"]
    }


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = ["Calibration, pure noise and time of ridges for categories, made by `python -m benchmarks.ordinal`."]
    if "calibration" in found:
        rows = [
            [
                name,
                f"{each['sets']}",
                f"{each['refused']}",
                f"{100 * each['coverage']:.1f} ± {100 * each['error']:.1f} %",
                f"{100 * each['cut_coverage']:.1f} ± {100 * each['cut_error']:.1f} %",
            ]
            for name, each in found["calibration"].items()
        ]
        head = ["setting", "sets", "refused", "coverage of 95 % intervals", "of those of cut points"]
        parts += ["## Calibration", common.table(head, rows)]
    if "noise" in found:
        rows = [
            [name, f"{100 * each['share']:.1f} %", f"{100 * each['excluded']:.1f} %"]
            for name, each in found["noise"].items()
        ]
        head = ["setting", "mean of the explained share's median", "intervals that exclude 0"]
        parts += ["## Pure noise", common.table(head, rows)]
    if "time" in found:
        rows = [
            [name, f"{each['seconds']:.2f} s", f"{each['ep']:.1f}", f"{each['laplace']:.1f}"]
            for name, each in found["time"].items()
        ]
        head = ["rows and columns", "statsmodels' OrderedModel", "ep, relative", "laplace, relative"]
        parts += ["## Time", common.table(head, rows)]
    return "\n\n".join(parts)


def calibrations(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for name, setting in (QUICK if quick else SETTINGS).items():
        yield name, calibrated(*setting)


def noises(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each setting."""
    for n, p in NOISE[:1] if quick else NOISE:
        yield f"n = {n}, p = {p}", noise(n, p, 3 if quick else 100)


def all_times(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each size."""
    for n, p in ((200, 5),) if quick else ((1000, 10), (5000, 100)):
        yield f"{n:,} x {p}", times(n, p, 1 if quick else 2)


PARTS = {"calibration": calibrations, "noise": noises, "time": all_times}


def main() -> None:
    common.run_parts(__doc__, NAME, PACKAGES, page, PARTS)


if __name__ == "__main__":
    main()
