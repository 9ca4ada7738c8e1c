"""Averaging over hyperparameters: a mixture of fits on a lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.learning.lattice import FitLattice, Node
from pybayesridge.ep.learning.maximize import learned_names
from pybayesridge.ep.learning.objective import Objective, Trial, build_objective
from pybayesridge.ep.learning.starts import rough_modes
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites, EPResult

#: Nodes below this weight are not kept, nor fitted to the last tolerance.
_KEPT = 1e-3
#: Share of the weight that may lie where EP does not settle.
UNSETTLED = 0.01


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
    given: KnownHyperparameters | None = None,
    *,
    groups: IntArray | None = None,
    n: float | None = None,
    expected_size: float = 1.0,
    tol: float = 1e-4,
    maxiter: int = 1000,
    start: tuple[Hyperparameters, ColumnSites] | None = None,
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
    given : KnownHyperparameters, optional
        Those that are not learned; one probability is learned for all columns.
    groups : ndarray (d,) of int, optional
        Columns with equal numbers are in or out together.
    n : float, optional
        Rows, by default the degrees of freedom of the noise.
    expected_size : float
        Columns or groups expected to be in, in the middle of the prior.
    tol, maxiter : float, int
        Tolerance of the residual and iterations of EP at each node that counts.
    start : (Hyperparameters, ColumnSites), optional
        Where to start.

    Returns
    -------
    HyperAverage
        The mixture.
    """
    objective = build_objective(data, given or KnownHyperparameters(), groups, n=n, expected_size=expected_size)
    return average_from(objective, rough_modes(objective, start), tol=tol, maxiter=maxiter)


@dataclass(frozen=True, slots=True)
class Explored:
    """A lattice that has been filled.

    Attributes
    ----------
    lattice : FitLattice
    nodes : tuple of Node
    use : (m,) bool array
        Nodes with a weight: where EP settles, if it does so anywhere.
    """

    lattice: FitLattice
    nodes: tuple[Node, ...]
    use: BoolArray

    @classmethod
    def of(cls, lattice: FitLattice) -> Explored:
        """Fill a lattice."""
        nodes = tuple(lattice.fill())
        settled = np.array([node.trial.result.converged for node in nodes], dtype=bool)
        return cls(lattice, nodes, settled if settled.any() else np.ones_like(settled))

    @property
    def values(self) -> FloatArray:
        """The objective at the nodes, (m,)."""
        return np.array([node.value for node in self.nodes])

    @property
    def weights(self) -> FloatArray:
        """Posterior weights of the nodes, (m,)."""
        return _weights(np.where(self.use, self.values, -np.inf))

    @property
    def lost(self) -> float:
        """Share of the posterior, roughly, where EP does not settle."""
        settled = np.array([node.trial.result.converged for node in self.nodes], dtype=bool)
        return float(_weights(self.values)[~settled].sum())

    @property
    def log_evidence(self) -> float:
        """Log of the integral of the evidence over the prior; minus infinity where there is no approximation."""
        if not np.isfinite(self.values[self.use]).any():
            return -np.inf
        place = self.lattice.objective.place
        volume = place.lattice_dimension * float(np.log(self.lattice.spacing)) - place.log_prior_total()
        return float(logsumexp(self.values[self.use])) + volume + _of_noise(self.lattice.objective)


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
    found = Explored.of(FitLattice(objective, seeds, by_sweeps=by_sweeps))
    return mixture_of([found], np.ones(1), found.log_evidence, tol=tol, maxiter=maxiter)[0]


def mixture_of(
    parts: Sequence[Explored], share: FloatArray, log_evidence: float, *, tol: float, maxiter: int
) -> tuple[HyperAverage, IntArray]:
    """The mixture of several lattices, and the lattice of each of its fits.

    Parameters
    ----------
    parts : sequence of L Explored
    share : (L,) array
        Their posterior probabilities.
    log_evidence : float
        Of all.
    tol, maxiter : float, int
        As for :func:`average`.
    """
    weights = np.concatenate([w * part.weights for w, part in zip(share.tolist(), parts, strict=True)])
    of_part = np.repeat(np.arange(len(parts)), [len(part.nodes) for part in parts])
    nodes = [node for part in parts for node in part.nodes]
    which = np.flatnonzero(weights > _KEPT)
    trials = [_finished(parts[of_part[i]].lattice.objective, nodes[i].trial, tol, maxiter) for i in which]
    kept = weights[which]
    lost = float(share @ [part.lost for part in parts])
    failed = np.array([not t.result.converged for t in trials])
    if 0 < kept[failed].sum() / kept.sum() <= UNSETTLED:
        trials, kept, which = [t for t, f in zip(trials, failed, strict=True) if not f], kept[~failed], which[~failed]
        failed = np.zeros(len(trials), dtype=bool)
    converged = lost <= UNSETTLED and not failed.any()
    objectives = [part.lattice.objective for part in parts]
    return _mixture(objectives, trials, kept / kept.sum(), log_evidence, lost, converged), of_part[which]


def _weights(values: FloatArray) -> FloatArray:
    if not np.isfinite(values).any():
        return np.zeros(values.size)
    return np.asarray(np.exp(values - logsumexp(values)))


def _finished(objective: Objective, trial: Trial, tol: float, maxiter: int) -> Trial:
    """The fit at its hyperparameters, to the tolerance asked for."""
    return trial if trial.result.residual <= tol else objective.evaluate(trial.x, trial, tol=tol, maxiter=maxiter)


def _mixture(
    objectives: Sequence[Objective],
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
        learned=learned_names(objectives[0]),
        inclusion_prob=np.clip(_weighted(weights, [r.inclusion_prob for r in results]), 0.0, 1.0),
        mean=mean,
        var=np.maximum(second - mean**2, 0.0),
        log_evidence=evidence,
        unsettled=unsettled,
        converged=bool(converged),
        n_steps=sum(objective.n_steps for objective in objectives),
        n_fac=sum(objective.n_fac for objective in objectives),
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
