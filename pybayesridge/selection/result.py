"""The exact answer, by enumeration or Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.estimates import Errors
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.states import States


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
