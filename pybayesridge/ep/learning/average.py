"""Averaging over hyperparameters: a mixture of fits on a small grid around the maximum of the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.learning.maximize import HyperFit, learn
from pybayesridge.ep.learning.objective import Objective, build_objective, position
from pybayesridge.ep.model.hyperparameters import Given, Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import EPResult

#: Grid positions in posterior standard deviations, and limits of those deviations in log units.
_GRID = (-1.5, 0.0, 1.5)
_GRID_SD = (0.05, 1.5)
_DIFFERENCE = 0.05


@dataclass(frozen=True, slots=True)
class HyperAverage:
    """A mixture of fits over a grid of hyperparameters; g grid points.

    Attributes
    ----------
    best : HyperFit
        The maximum, around which the grid lies.
    hypers : tuple of Hyperparameters
        The grid.
    results : tuple of EPResult
        The fits.
    weights : ndarray (g,)
        Posterior weights, summing to one.
    inclusion_prob, mean, var : ndarray (d,)
        Moments of the mixture.
    log_evidence : float
        Log of the evidence averaged over the grid with the prior's weights.
    converged : bool
        Whether any fit of the grid has converged; the others have no weight then.
    """

    best: HyperFit
    hypers: tuple[Hyperparameters, ...]
    results: tuple[EPResult, ...]
    weights: FloatArray
    inclusion_prob: FloatArray
    mean: FloatArray
    var: FloatArray
    log_evidence: float
    converged: bool


def average(
    data: Data,
    given: Given | None = None,
    *,
    groups: IntArray | None = None,
    maxiter: int = 30,
) -> HyperAverage:
    """Average over a grid of the hyperparameters left at None, weighted by evidence and prior.

    The grid has three values per hyperparameter: the maximum (see :func:`learn`) and 1.5 posterior standard
    deviations to either side along the principal axes of the curvature there. Where EP does not settle, the
    weight is zero.

    Parameters
    ----------
    data : Data
        Least-squares data.
    given : Given, optional
        Those that are not learned; one probability is learned for all columns.
    groups : ndarray (d,) of int, optional
        Columns with equal numbers are in or out together.
    maxiter : int
        As in :func:`learn`.

    Returns
    -------
    HyperAverage
        The mixture.
    """
    best = learn(data, given, groups=groups, maxiter=maxiter)
    objective = build_objective(data, given or Given(), groups)
    centre = position(objective, best.hyper)
    axes = _principal_axes(objective, centre, best.result)
    trials = []
    for place in product(_GRID, repeat=centre.size):
        x = objective.clip(centre + axes @ np.array(place))
        trials.append(objective.evaluate(x, best.result))
    settled = np.array([t.result.converged for t in trials])
    values = np.where(settled | ~np.any(settled), [t.value for t in trials], -np.inf)
    weights = np.exp(values - logsumexp(values))
    priors = np.where(np.isfinite(values), [objective.log_prior(t.x)[0] for t in trials], -np.inf)
    results = tuple(t.result for t in trials)
    mean = _weighted(weights, [r.mean for r in results])
    second = _weighted(weights, [r.var + r.mean**2 for r in results])
    return HyperAverage(
        best=best,
        hypers=tuple(objective.hyper(t.x) for t in trials),
        results=results,
        weights=weights,
        inclusion_prob=np.clip(_weighted(weights, [r.inclusion_prob for r in results]), 0.0, 1.0),
        mean=mean,
        var=np.maximum(second - mean**2, 0.0),
        log_evidence=float(logsumexp(values) - logsumexp(priors)),
        converged=bool(np.any(settled)),
    )


def _weighted(weights: FloatArray, arrays: list[FloatArray]) -> FloatArray:
    """``sum_j weights_j arrays_j``."""
    return np.einsum("j,ji->i", weights, np.stack(arrays))


def _principal_axes(objective: Objective, centre: FloatArray, start: EPResult) -> FloatArray:
    """Columns: principal axes of the objective's curvature, as long as one posterior standard deviation."""
    k = centre.size
    hess = np.zeros((k, k))
    for i in range(k):
        shift = np.zeros(k)
        shift[i] = _DIFFERENCE
        ahead = objective.evaluate(centre + shift, start).grad
        behind = objective.evaluate(centre - shift, start).grad
        hess[i] = (behind - ahead) / (2.0 * _DIFFERENCE)
    lam, vec = np.linalg.eigh(0.5 * (hess + hess.T))
    sd = np.clip(1.0 / np.sqrt(np.maximum(lam, 1e-12)), *_GRID_SD)
    return vec * sd
