"""The exact answer, and where expectation propagation is in doubt: what results ask.

The answer is by enumeration or Monte Carlo, with the Monte Carlo errors of averages over its states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.estimates import Errors
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.states import States

WHOLE = 1e-6
"""Weights that are this close to multiples of the smallest are counts of draws."""

CONTRADICTED = 0.2
"""Error of an inclusion probability given the other units from which expectation propagation is wrong."""

FEWEST = 10
"""Fewer states than this are never a choice of many."""


@dataclass(frozen=True, slots=True)
class Computation:
    """One way to compute the posterior of the sets.

    Attributes
    ----------
    sampled : bool
        Whether sets were sampled, so that averages have Monte Carlo errors.
    in_words : str
        For the report; ``{steps}`` and ``{error}`` are the number of steps and the largest error of an inclusion
        probability.
    """

    sampled: bool
    in_words: str


COMPUTATIONS = {
    "enumeration": Computation(sampled=False, in_words="It is a sum over all sets, without Monte Carlo error."),
    "sampler": Computation(
        sampled=True,
        in_words="Sets were sampled from it by a Metropolis-Hastings algorithm in {steps} steps. The largest Monte "
        "Carlo standard error of an inclusion probability is {error}.",
    ),
}
"""By the names that :class:`Exact` has."""


@dataclass(frozen=True, slots=True)
class Model:
    """One set of units with its posterior probability.

    Attributes
    ----------
    units : (m,) int array
    probability : float
    """

    units: IntArray
    probability: float


@dataclass(frozen=True, slots=True)
class CredibleSet:
    """Units of which at least one is in with a given probability.

    Attributes
    ----------
    units : (m,) int array
        The most probable first.
    probability : float
        That at least one of them is in.
    purity : float
        The least absolute correlation of two of their columns; 1 for one column.
    expected : float
        Expected number of them that are in.
    """

    units: IntArray
    probability: float
    purity: float
    expected: float


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two units whose inclusion probabilities by EP are in doubt.

    Attributes
    ----------
    unit, partner : int
        In ascending order.
    correlation : float
        Largest absolute correlation of a column of the one with a column of the other.
    error : float
        The larger difference of their two probabilities from those given that the other units are in or out as EP's
        median probability model has them; 0 where EP leaves others open that are correlated with the pair, so that
        this says little.
    """

    unit: int
    partner: int
    correlation: float
    error: float = 0.0

    @property
    def contradicted(self) -> bool:
        """Whether EP contradicts the data."""
        return self.error > CONTRADICTED


@dataclass(frozen=True, slots=True)
class Check:
    """Inclusion probabilities of expectation propagation and exact ones, at the same hyperparameters.

    Attributes
    ----------
    by_ep, exact, se : (p,) arrays
        Those of expectation propagation, the exact ones, and the Monte Carlo standard errors of these.
    """

    by_ep: FloatArray
    exact: FloatArray
    se: FloatArray

    @property
    def difference(self) -> FloatArray:
        """EP's less the exact ones."""
        return self.by_ep - self.exact


@dataclass(frozen=True, slots=True)
class Exact:
    """The posterior of the sets of d columns in G units (columns or groups), in the units of the problem.

    Attributes
    ----------
    unit_prob, unit_se : (G,) arrays
        Inclusion probabilities and their Monte Carlo standard errors, 0 by enumeration.
    inclusion_prob, inclusion_se : (d,) arrays
        The same for each column.
    mean, var, cond_mean, cond_var : (d,) arrays
        Moments of the coefficients, and given that they are in; 0 for what is never in.
    size_prob : (M + 1,) array
        Posterior probabilities of 0 to M units in.
    node_prob : (K,) array
        Posterior probabilities of the grid's nodes.
    models : tuple of Model
        The most probable sets, best first.
    log_evidence, log_evidence_se : float
        Log p(y), of the density of y outside the unpenalised columns; s2, where it is integrated out, under 1 / s2.
    states : States
    grid : Grid
    method : {"enumeration", "sampler"}
    converged : bool
        Whether the largest standard error is within the precision asked for and the chains agree.
    n_iter : int
        Sets summed over, or steps of all chains.
    agreement : float
        The largest potential scale reduction factor of an inclusion probability, 1 at best.
    effective : float
        Effective number of draws, by the worst known inclusion probability.
    quadrature_error : float
        By enumeration: the largest change of an inclusion probability when the grid is refined.
    size_limit : int or None
        Largest number of columns in, if the sampler has reached it.
    interrupted : bool
    mean_error : float
        The largest Monte Carlo standard error of a coefficient's mean, in its posterior standard deviations.
    errors : Errors or None
        Monte Carlo standard errors of the moments; None by enumeration, which has none.
    inflation : float
        What errors by the differences between walkers are multiplied by, 1 in fits of earlier versions; those here
        are.
    drift : float
        The sampler's largest error by rounding of log |M|, or relative error of R.
    """

    unit_prob: FloatArray
    unit_se: FloatArray
    inclusion_prob: FloatArray
    inclusion_se: FloatArray
    mean: FloatArray
    var: FloatArray
    cond_mean: FloatArray
    cond_var: FloatArray
    size_prob: FloatArray
    node_prob: FloatArray
    models: tuple[Model, ...]
    log_evidence: float
    log_evidence_se: float
    states: States
    grid: Grid
    method: str
    converged: bool
    n_iter: int
    agreement: float = 1.0
    effective: float = float("inf")
    quadrature_error: float = 0.0
    size_limit: int | None = None
    interrupted: bool = False
    mean_error: float = 0.0
    errors: Errors | None = None
    inflation: float = 1.0
    drift: float = 0.0

    @property
    def computation(self) -> Computation:
        """How it was computed."""
        return COMPUTATIONS[self.method]

    @property
    def max_se(self) -> float:
        """The largest standard error of an inclusion probability."""
        return float(self.unit_se.max(initial=0.0))

    @property
    def expected_size(self) -> float:
        """Posterior mean of the number of units in."""
        return float(self.unit_prob.sum())

    @property
    def draws(self) -> float:
        """Effective number of independent draws that the kept states stand for; inf where they are a whole sum."""
        weight = self.states.weight
        if self.computation.sampled:
            return min(self.effective, float(1.0 / (weight**2).sum()))
        # Of a sum with too many terms states are resampled, with weights that are counts.
        share = weight / weight.min()
        counts = weight.size > FEWEST and np.allclose(share, np.round(share), rtol=0, atol=WHOLE)
        return float(share.sum()) if counts else np.inf

    @property
    def walkers(self) -> IntArray:
        """The walker of each kept state, or in fits of earlier versions its chain, numbered from 0."""
        states = self.states
        found: IntArray = np.unique(states.chain if states.walker is None else states.walker, return_inverse=True)[1]
        return found.reshape(-1)

    @property
    def n_walkers(self) -> int:
        """How many walkers the kept states come from."""
        return int(self.walkers.max(initial=0)) + 1

    def error_of_influence(self, influence: FloatArray) -> FloatArray:
        """Standard error of a function of the states' weights, from its derivative times these weights, (S, ...).

        The derivatives sum to zero over the states. The error is that of the differences between walkers that started
        apart: infinite where all states come from one walker, 0 where the states are a whole sum.
        """
        if self.computation.sampled:
            return self._between(self.walkers, influence)
        draws = self.draws
        if np.isinf(draws):
            return np.zeros(influence.shape[1:])
        each = influence.reshape(influence.shape[0], -1)
        square = ((each**2) / self.states.weight[:, None]).sum(axis=0) / draws
        return np.sqrt(square).reshape(influence.shape[1:])

    def error_of_draws(self, values: FloatArray, state: IntArray) -> FloatArray:
        """Standard error of the average of `values` (N, ...), independent draws given the kept states `state` (N,).

        That of the drawing is a part of it.
        """
        return self._between(self.walkers[state], (values - values.mean(axis=0)) / values.shape[0])

    def error_of_mean(self, values: FloatArray) -> FloatArray:
        """Standard error of the average of `values` (S, ...) over the states."""
        weight = self.states.weight.reshape(-1, *(1,) * (values.ndim - 1))
        return self.error_of_influence(weight * (values - (weight * values).sum(axis=0)))

    def _between(self, walker: IntArray, influence: FloatArray) -> FloatArray:
        """Standard error from what each walker adds, by the `walker` of each state or draw; infinite for one."""
        n = self.n_walkers
        if n < 2:
            return np.full(influence.shape[1:], np.inf)
        of_walker = (np.arange(n)[:, None] == walker).astype(np.float64) @ influence.reshape(influence.shape[0], -1)
        square = n / (n - 1) * (of_walker**2).sum(axis=0)
        return self.inflation * np.sqrt(square).reshape(influence.shape[1:])
