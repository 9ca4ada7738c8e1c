"""Averaging over hyperparameters: a mixture of fits on a lattice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.learning.lattice import FitLattice, Node
from pybayesridge.ep.learning.maximize import learned_names
from pybayesridge.ep.learning.objective import Objective, Trial, build_objective
from pybayesridge.ep.learning.starts import rough_modes
from pybayesridge.ep.model.hyperparameters import Given, Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import EPResult, Sites

#: Nodes below this weight are not kept, nor fitted to the last tolerance.
_KEPT = 1e-3
#: Share of the weight that may lie where EP does not settle.
_UNSETTLED = 0.01


@dataclass(frozen=True, slots=True)
class HyperAverage:
    """A mixture of fits over a lattice of hyperparameters; g nodes.

    Attributes
    ----------
    hypers : tuple of Hyperparameters
        The nodes.
    results : tuple of EPResult
        The fits.
    weights : ndarray (g,)
        Posterior weights, summing to one.
    learned : tuple of str
        Names of the hyperparameters that were not given.
    inclusion_prob, mean, var : ndarray (d,)
        Moments of the mixture.
    log_evidence : float
        Log of the evidence with the hyperparameters integrated out under their prior; log s2 is flat.
    unsettled : float
        Share of the posterior of the hyperparameters, roughly, where EP does not settle.
    converged : bool
        Whether that is negligible, and every fit of the mixture has converged.
    n_steps : int
        Values of the hyperparameters tried.
    n_fac : int
        Covariance evaluations in all.
    """

    hypers: tuple[Hyperparameters, ...]
    results: tuple[EPResult, ...]
    weights: FloatArray
    learned: tuple[str, ...]
    inclusion_prob: FloatArray
    mean: FloatArray
    var: FloatArray
    log_evidence: float
    unsettled: float
    converged: bool
    n_steps: int
    n_fac: int


def average(
    data: Data,
    given: Given | None = None,
    *,
    groups: IntArray | None = None,
    n: float | None = None,
    expected_size: float = 1.0,
    tol: float = 1e-4,
    maxiter: int = 1000,
    start: tuple[Hyperparameters, Sites] | None = None,
) -> HyperAverage:
    """Average over the hyperparameters left at None, weighted by EP's evidence and their prior.

    The nodes form a lattice in logit p, if it is learned, and in the log odds of the explained share, if v is
    learned, around the maximum of the evidence times the prior; the noise, if it is learned, is at its maximum at
    every node and adds what its integral would for a fixed set of columns. Where EP does not settle, the weight is
    zero, and what that might leave out is stated.

    Parameters
    ----------
    data : Data
        Least-squares data.
    given : Given, optional
        Those that are not learned; one probability is learned for all columns.
    groups : ndarray (d,) of int, optional
        Columns with equal numbers are in or out together.
    n : float, optional
        Rows, by default the degrees of freedom of the noise.
    expected_size : float
        Columns or groups expected to be in, in the middle of the prior.
    tol, maxiter : float, int
        Tolerance of the residual and iterations of EP at each node that counts.
    start : (Hyperparameters, Sites), optional
        Where to start.

    Returns
    -------
    HyperAverage
        The mixture.
    """
    objective = build_objective(data, given or Given(), groups, n=n, expected_size=expected_size)
    return average_from(objective, rough_modes(objective, start), tol=tol, maxiter=maxiter)


def average_from(
    objective: Objective, seeds: list[Trial], *, tol: float, maxiter: int, by_sweeps: bool = True
) -> HyperAverage:
    """Average over the lattice around fits near the maxima, `seeds`, the highest first.

    Parameters
    ----------
    objective : Objective
    seeds : list of Trial
    tol, maxiter : float, int
        As for :func:`average`.
    by_sweeps : bool
        Whether joint sweeps lead to the nodes at first.
    """
    lattice = FitLattice(objective, seeds, by_sweeps=by_sweeps)
    nodes = lattice.fill()
    settled = np.array([node.trial.result.converged for node in nodes])
    all_weights = _weights(nodes, np.ones_like(settled))
    weights = _weights(nodes, settled if settled.any() else np.ones_like(settled))
    trials = [
        _finished(objective, node.trial, tol, maxiter)
        for node, weight in zip(nodes, weights, strict=True)
        if weight > _KEPT
    ]
    kept = weights[weights > _KEPT]
    lost = float(all_weights[~settled].sum())
    failed = np.array([not t.result.converged for t in trials])
    if 0 < kept[failed].sum() / kept.sum() <= _UNSETTLED:
        trials, kept = [t for t, f in zip(trials, failed, strict=True) if not f], kept[~failed]
        failed = np.zeros(len(trials), dtype=bool)
    values = np.array([node.value for node in nodes])[settled | ~settled.any()]
    volume = objective.place.lattice_dimension * float(np.log(lattice.spacing)) - objective.place.log_prior_total()
    evidence = float(logsumexp(values)) + volume + _of_noise(objective)
    return _mixture(objective, trials, kept / kept.sum(), evidence, lost, lost <= _UNSETTLED and not failed.any())


def _weights(nodes: list[Node], use: BoolArray) -> FloatArray:
    values = np.where(use, [node.value for node in nodes], -np.inf)
    return np.asarray(np.exp(values - logsumexp(values)))


def _finished(objective: Objective, trial: Trial, tol: float, maxiter: int) -> Trial:
    """The fit at its hyperparameters, to the tolerance asked for."""
    return trial if trial.result.residual <= tol else objective.evaluate(trial.x, trial, tol=tol, maxiter=maxiter)


def _mixture(
    objective: Objective,
    trials: list[Trial],
    weights: FloatArray,
    evidence: float,
    unsettled: float,
    converged: bool,
) -> HyperAverage:
    results = tuple(t.result for t in trials)
    mean = _weighted(weights, [r.mean for r in results])
    second = _weighted(weights, [r.var + r.mean**2 for r in results])
    return HyperAverage(
        hypers=tuple(t.hyper for t in trials),
        results=results,
        weights=weights,
        learned=learned_names(objective),
        inclusion_prob=np.clip(_weighted(weights, [r.inclusion_prob for r in results]), 0.0, 1.0),
        mean=mean,
        var=np.maximum(second - mean**2, 0.0),
        log_evidence=evidence,
        unsettled=unsettled,
        converged=bool(converged),
        n_steps=objective.n_steps,
        n_fac=objective.n_fac,
    )


def _weighted(weights: FloatArray, arrays: list[FloatArray]) -> FloatArray:
    """``sum_j weights_j arrays_j``."""
    return np.einsum("j,ji->i", weights, np.stack(arrays))


def _of_noise(objective: Objective) -> float:
    """Difference of the log integral over log s2 and its log maximum: given the sum of squares, a gamma function."""
    if objective.place.given.noise_var is not None:
        return 0.0
    half = 0.5 * objective.data.nu
    return float(gammaln(half) + half * (1.0 - np.log(half)))
