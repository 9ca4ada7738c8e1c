"""Ridges with several penalties beside a dense grid over the variances, and what must not change.

**Beside a grid.** Two bands of one to six columns, in four to thirty rows: nearly equal columns within and between
the bands, more columns than rows, bands without signal, signals up to a thousand times the noise, weights,
unpenalised columns, columns on their own scale, a known noise variance. Means, standard deviations, quantiles (as
probabilities), shares and the log evidence against `tests.dense_bands`, where the grid resolves the posterior.

**What must not change.** The order of rows, of columns and of bands; the units of the response and, where they are
standardised, of the columns.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline
from scipy.special import gammaincc

from pybayesridge import BayesRidge
from pybayesridge.exceptions import PybayesridgeWarning
from tests.dense_bands import cdf, dense_grid
from tests.fuzz.compare import LIMIT, Difference, Verdict

TOL = 1e-4
"""What fits are asked for, in posterior standard deviations."""

BESIDE = 3e-3
"""Of means, probabilities, shares and the log evidence."""

SPREAD = 0.02
"""Of standard deviations, relative: where the columns of a band differ by orders of magnitude, those of the largest
reach down to shares that are too small for the rule; 0.01 was the worst in 600 problems."""

SAME = 1e-5
"""The same posterior by a problem that is written down otherwise, in posterior standard deviations."""

STEPS = (0.4, 0.5)
"""Of the grid, in logs of variances: where it is fine enough, both give the same."""

RESOLVED = 1e-4
"""Largest difference of both grids from which on it is not."""


@dataclass(frozen=True)
class Bands:
    """A regression whose penalised columns, the last ones, are in bands."""

    name: str
    y: np.ndarray
    z: np.ndarray
    x: np.ndarray
    band: np.ndarray
    weights: np.ndarray | None
    sigma2: float | None
    standardize: bool

    def fit(self, **changes):
        """The package's fit, with some of the data changed."""
        of = {name: changes.get(name, getattr(self, name)) for name in ("y", "z", "x", "band", "weights", "sigma2")}
        names = changes.get("names", [f"x{j}" for j in range(of["x"].shape[1])])
        table = pd.DataFrame(of["x"], columns=names)
        table[[f"z{j}" for j in range(of["z"].shape[1])]] = of["z"]
        label = np.array(["a", "b", "c"])
        bands = {label[k]: [n for n, own in zip(names, of["band"], strict=True) if own == k] for k in set(of["band"])}
        unpenalized = [n for n in table if n.startswith("z")]
        model = BayesRidge(
            of["y"],
            table,
            bands=bands,
            unpenalized=unpenalized or None,
            weights=of["weights"],
            sigma2=of["sigma2"],
            standardize=self.standardize,
        )
        return model.fit(tol=TOL)


def make_bands(seed, number):
    """A random problem with two bands."""
    rng = np.random.default_rng([seed, number, 7])
    n, sizes = int(rng.integers(4, 31)), rng.integers(1, 7, 2)
    d = int(sizes.sum())
    band = np.repeat([0, 1], sizes)
    if rng.random() < 0.3:
        rho = rng.choice([0.9, 0.999, 0.999999])
        x = np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))
    else:
        x = rng.normal(size=(n, d))
    if rng.random() < 0.2:
        x[:, 0] = x[:, -1]
    b = rng.normal(size=d) * rng.choice([0.0, 0.3, 3.0], 2)[band]
    noise = float(10.0 ** rng.choice([0.0, 0.0, 0.0, -1.0, -3.0, 2.0]))
    y = x @ b + noise * rng.normal(size=n) + rng.choice([0.0, 5.0])
    x = x * 10.0 ** (rng.integers(-2, 3, d) if rng.random() < 0.3 else np.zeros(d)) + rng.choice([0.0, 3.0])
    z = rng.normal(size=(n, int(rng.choice([0, 0, 1])) if n > 5 else 0))
    weights = rng.uniform(0.2, 3.0, n) if rng.random() < 0.3 else None
    sigma2 = noise**2 if rng.random() < 0.2 else None
    standardize = bool(rng.random() < 0.8)
    what = [f"{n}x{d}", "z" * z.shape[1], "w" * (weights is not None), "s" * standardize, "k" * (sigma2 is not None)]
    return Bands(f"{seed}/{number} bands {' '.join(filter(None, what))}", y, z, x, band, weights, sigma2, standardize)


def compare_bands(problem):
    """Fit, compare, and judge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = problem.fit()
        errors = [*_beside_grid(problem, res), *_invariances(problem, res)]
    announced = not np.all(res.converged)
    foreign = [str(w.message) for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    differences = tuple(
        Difference(name, 0, LIMIT * float(np.abs(error).max(initial=0.0)) / allowed, 0.0, announced)
        for name, error, allowed in errors
    )
    failure = f"warns of {foreign[0]}" if foreign else None
    return Verdict(problem.name, "bands", differences, tuple(str(w.message) for w in caught), failure)


def _grid(problem, step):
    z = np.column_stack([np.ones(len(problem.y)), problem.z])
    return dense_grid(
        problem.y,
        problem.x,
        problem.band,
        step=step,
        weights=problem.weights,
        z=z,
        standardize=problem.standardize,
        sigma2=problem.sigma2,
    )


def _beside_grid(problem, res):
    """Differences, where two grids agree."""
    try:
        fine, coarse = (_grid(problem, step) for step in STEPS)
    except np.linalg.LinAlgError:
        return
    if not (np.isfinite(fine["sd"]).all() and np.isfinite(coarse["sd"]).all()):
        return
    off = np.abs((fine["mean"] - coarse["mean"]) / fine["sd"]).max() + np.abs(fine["sd"] / coarse["sd"] - 1).max()
    off += abs(fine["log_evidence"] - coarse["log_evidence"])
    if not off < RESOLVED:
        return
    k = 1 + problem.z.shape[1]
    # The package has the columns in the order of the table: the unpenalised ones last.
    order = np.r_[0, k : len(fine["mean"]), 1:k]
    mean, sd = fine["mean"][order], fine["sd"][order]
    yield "mean", (res.params.to_numpy() - mean) / sd, BESIDE
    if not 2 < fine["df"] < 5:  # else the grid's own tails are too short
        yield "sd", res.bse.to_numpy() / sd - 1, SPREAD
    grid = fine | {"center": fine["center"][:, order], "scale": fine["scale"][:, order]}
    ends = np.column_stack([res.conf_int(0.05).to_numpy(), res.conf_int(0.5).to_numpy()[:, 0]])
    for level, at in zip((0.025, 0.975, 0.25), ends.T, strict=True):
        below, beyond = cdf(grid, at - BESIDE * sd) - level, level - cdf(grid, at + BESIDE * sd)
        yield "quantile", np.maximum(np.maximum(below, beyond), 0.0), BESIDE
    yield "positive", np.asarray(res.prob_positive) - (1 - cdf(grid, np.zeros(len(mean)))), BESIDE
    share = res.variance_components().loc[["a", "b"], "share"].to_numpy()
    yield "share", share - fine["weight"] @ fine["share"], BESIDE
    at = np.array([0.025, 0.975])
    for k, name in enumerate(["a", "b"]):
        found = res.variance_components(0.05).loc[name, ["lower", "upper"]].to_numpy(dtype=float)
        yield "sd of a band", _of_sds(fine, k, found) - at, BESIDE
    yield "evidence", res.log_marginal - fine["log_evidence"], BESIDE


def _of_sds(grid, k, at):
    """Probabilities that the standard deviation of a band is below some values."""
    log_scale2 = grid["log_t"][:, k] + np.log(grid["noise"])
    if np.isinf(grid["df"]):
        points, place = np.unique(np.round(log_scale2, 9), return_inverse=True)
        density = np.bincount(place, grid["weight"]) / (points[1] - points[0])
        return CubicSpline(points, density).antiderivative()(2 * np.log(at))
    half = grid["df"] / 2
    return np.array([grid["weight"] @ gammaincc(half, half * np.exp(log_scale2) / sd**2) for sd in at])


def _moments(res):
    """Means and standard deviations by name, and the log evidence."""
    return res.params, res.bse, res.log_marginal


def _difference(name, found, wanted):
    (a, s, evidence), (b, t, known) = found, wanted
    yield f"{name}, mean", ((a[b.index] - b) / t).to_numpy(), SAME
    yield f"{name}, sd", (s[t.index] / t - 1).to_numpy(), SAME
    yield f"{name}, evidence", evidence - known, SAME


def _invariances(problem, res):
    own = _moments(res)
    n, d = problem.x.shape
    rng = np.random.default_rng(n * d)
    rows, columns = rng.permutation(n), rng.permutation(d)
    weights = problem.weights
    turned = {
        "y": problem.y[rows],
        "z": problem.z[rows],
        "x": problem.x[rows][:, columns],
        "band": 1 - problem.band[columns],
        "names": [f"x{j}" for j in columns],
        "weights": None if weights is None else weights[rows],
    }
    yield from _difference("order", _moments(problem.fit(**turned)), own)
    unit = 1e3
    sigma2 = None if problem.sigma2 is None else unit**2 * problem.sigma2
    mean, sd, evidence = _moments(problem.fit(y=unit * problem.y, sigma2=sigma2))
    free = n - 1 - problem.z.shape[1]
    yield from _difference("unit of y", (mean / unit, sd / unit, evidence + free * np.log(unit)), own)
    if problem.standardize:
        mean, sd, evidence = _moments(problem.fit(x=problem.x * 10.0 ** np.arange(d)))
        back = pd.Series(10.0 ** np.arange(d), index=[f"x{j}" for j in range(d)]).reindex(mean.index, fill_value=1.0)
        yield from _difference("units", (mean * back, sd * back, evidence), own)
