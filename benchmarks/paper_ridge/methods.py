"""Methods compared in Table 2: fits by the package, and the paper's own algorithms where they differ from it.

Three EMs go by the paper's name. Its equation (11), and Table 3, take the mode as a density in (tau2, sigma2) and
count n data points where n - 1 remain after the intercept. Its printed results come from code that takes the mode
as a density in (tau, sigma): the same as a density in (tau, sigma2) with n - 1 data points, so that "em" is
``fit("em", parameterization="tau")``.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import clock
from pybayesridge import BayesRidge
from pybayesridge.design.design import Design
from pybayesridge.exceptions import PybayesridgeWarning
from pybayesridge.ridge.grids import POINTS, glmnet_grid
from pybayesridge.ridge.prior import NAMED
from pybayesridge.ridge.rows import left_rows
from pybayesridge.ridge.spectrum import Spectrum, rotate

EPS = 1e-8
"""The paper's threshold of convergence."""

FIXED_GRID = np.logspace(10, -10, POINTS)

FITS: dict[str, dict[str, Any]] = {
    "em": {"method": "em", "parameterization": "tau", "tol": EPS},
    "fixed": {"method": "loocv", "grid": "fixed"},
    "glmnet": {"method": "loocv", "grid": "glmnet"},
    "exact": {"method": "exact"},
    "equation_11": {"method": "em", "dof": "paper", "tol": EPS},
    "em_tau2": {"method": "em"},
}
"""Arguments of ``fit``, all with the paper's half-Cauchy prior; "em_tau2" is EM as the package counts and
parameterises it where nothing is said."""

DEFAULT = "default"
"""``BayesRidge(y, x).fit()``: the package's own prior, the penalty integrated out."""

PAPERS = ("em_published", "fixed_published", "glmnet_published")
"""Algorithms of the authors' code: EM with the paper's stopping rule; leave-one-out without the leverage of the
intercept over the fixed grid, and over glmnet's without the factor n that makes its penalties those of a sum of
squares."""

METHODS = (*FITS, DEFAULT, *PAPERS)
RATIO = ("em", "fixed", "glmnet")
"""The times that T is a ratio of."""

TIMED = (*RATIO, "exact")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One method on one split: score on the test rows, penalty (the mean over targets), seconds where timed."""

    score: float
    penalty: float
    seconds: float


def fit(y: np.ndarray, x: np.ndarray, name: str) -> tuple[Any, float]:
    """A whole fit from the arrays: results, and seconds of one thread."""
    start = clock()
    result = BayesRidge(y, x, prior="half-cauchy").fit(**FITS[name])
    return result, clock() - start


def with_default_prior(model: BayesRidge) -> BayesRidge:
    """The model with the package's own prior, and the same rotation."""
    other = copy.copy(model)
    other.prior_of_tau2 = NAMED["r2"]
    return other


def r_squared(y: np.ndarray, predicted: np.ndarray) -> float:
    """1 - mean squared error / variance of the test rows about their own mean."""
    return float(1.0 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
    """Share of rows whose largest of q predictions is that of their class; `y` one-versus-all, (n, q)."""
    return float((y.argmax(axis=1) == predicted.argmax(axis=1)).mean())


def run_split(
    y: np.ndarray, x: np.ndarray, y_test: np.ndarray, x_test: np.ndarray, *, timed: bool
) -> dict[str, Outcome]:
    """Every method on one split; `y` is (n,), or (n, q) for a classification one versus all.

    With `timed` those of `TIMED` start from the arrays; else all share one rotation, which changes no estimate beyond
    rounding. With several targets, where a fit takes minutes, only T is timed, and the paper's own algorithms are
    left out: n is large there, and 1/n no matter.
    """
    score = r_squared if y.ndim == 1 else accuracy
    out: dict[str, Outcome] = {}
    # What the warnings say (edges of grids, no signal) is the subject of the comparison, and is seen in the penalty.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        model = None
        for name in (TIMED if y.ndim == 1 else RATIO) if timed else ():
            result, seconds = fit(y, x, name)
            out[name] = _outcome(result, x_test, y_test, score, seconds)
            # Its rotation is accurate enough for every penalty of the grid.
            model = result.model if name == "fixed" else model
        model = BayesRidge(y, x, prior="half-cauchy") if model is None else model
        for name, arguments in FITS.items():
            if name not in out:
                out[name] = _outcome(model.fit(**arguments), x_test, y_test, score, np.nan)
        out[DEFAULT] = _outcome(with_default_prior(model).fit(), x_test, y_test, score, np.nan)
        for name, lam in published_penalties(model).items() if y.ndim == 1 else ():
            out[name] = _outcome(model.fit("fixed", lam=float(lam[0])), x_test, y_test, score, np.nan)
    return out


def _outcome(result: Any, x_test: np.ndarray, y_test: np.ndarray, score: Any, seconds: float) -> Outcome:
    predicted = np.asarray(result.predict(x_test))
    penalty = float(np.exp(np.mean(np.log(np.maximum(np.asarray(result.lambda_, dtype=float), 1e-300)))))
    return Outcome(score(y_test, predicted), penalty, seconds)


def published_penalties(model: BayesRidge) -> dict[str, np.ndarray]:
    """Penalties chosen by the authors' algorithms, a (q,) array each."""
    design, spectrum = model.prepare(rotate)
    out = {"em_published": published_em(design, spectrum)}
    for name, grid in published_grids(design, spectrum).items():
        best = scores_without_intercept(design, spectrum, grid).argmin(axis=0)
        out[name] = np.take_along_axis(grid, best[None], axis=0)[0]
    return out


def published_em(design: Design, spectrum: Spectrum, maxiter: int = 10_000) -> np.ndarray:
    """Penalties of EM for the density in (tau, sigma), stopped when |change of RSS| / (1 + |RSS|) < 1e-8, (q,).

    That rule, the paper's, is applied to targets of variance 1. Where RSS vanishes, as with more columns than rows,
    it may fire long before anything has converged.
    """
    n, p, nothing = design.n, spectrum.p, spectrum.p - spectrum.rank
    s2 = (spectrum.s * spectrum.top) ** 2
    out = np.empty(design.q)
    for target in range(design.q):
        z = spectrum.z[:, target] * np.sqrt(n)
        outside = spectrum.rss0[target] * n
        c = z * np.sqrt(s2)
        tau2, sigma2, rss_before = 1.0, 1.0, np.inf
        for _ in range(maxiter):
            d = s2 + 1 / tau2
            esn = ((c / d) ** 2).sum() + sigma2 * ((1 / d).sum() + tau2 * nothing)
            rss = outside + ((z / tau2 / d) ** 2).sum()
            ess = rss + sigma2 * (s2 / d).sum()
            # The positive root of (p + 2) ESS t^2 + (p ESS - (n - 1) ESN) t - (n + 1) ESN = 0.
            b = p * ess - (n - 1) * esn
            root = np.sqrt(b * b + 4 * (p + 2) * ess * (n + 1) * esn)
            tau2 = 2 * (n + 1) * esn / (b + root) if b > 0 else (root - b) / (2 * (p + 2) * ess)
            sigma2 = (tau2 * ess + esn) / ((n + p + 1) * tau2)
            if abs(rss_before - rss) / (1 + abs(rss)) < EPS:
                break
            rss_before = rss
        out[target] = 1 / tau2
    return out


def published_grids(design: Design, spectrum: Spectrum) -> dict[str, np.ndarray]:
    """The paper's two grids, (L, q) each."""
    return {
        "fixed_published": np.repeat(FIXED_GRID[:, None], design.q, axis=1),
        "glmnet_published": glmnet_grid(design, spectrum) / design.n,
    }


def scores_without_intercept(design: Design, spectrum: Spectrum, grid: np.ndarray) -> np.ndarray:
    """The paper's leave-one-out score: columns and target centred once, no leverage of the intercept, (L, q).

    The columns must be standardised and the rows unweighted, with the intercept the only unpenalised column.
    """
    s2 = (spectrum.s * spectrum.top) ** 2
    out = np.zeros(grid.shape)
    for rows, u in left_rows(design, spectrum):
        if spectrum.rank == design.nu:
            # What is outside of X is the mean alone; subtraction would leave rounding errors.
            share, outside = np.full(u.shape[0], 1.0 / design.n), np.zeros((u.shape[0], design.q))
        else:
            share, outside = np.maximum(1.0 - (u**2).sum(axis=1), 0.0), design.y[rows] - u @ spectrum.z
        for target in range(design.q):
            if target == 0 or (grid[:, target] != grid[:, target - 1]).any():
                f = grid[:, [target]] / (s2 + grid[:, [target]])
                left = share[:, None] + u**2 @ f.T
            error = (outside[:, [target]] + u @ (f * spectrum.z[:, target]).T) / left
            out[:, target] += (error**2).sum(axis=0)
    return out / design.n
