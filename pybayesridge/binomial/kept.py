"""States of the sampler for yes/no responses that are kept: sets, and the normal law of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import AugmentedProblem
from pybayesridge.selection.collapsed import Spectrum

MOST_STATES = 8000
"""States that are held at once; then two of three are dropped."""

MOST_NUMBERS = 8_000_000
"""Numbers in their covariance factors at most: fewer states are held of large sets."""

FEWEST_STATES = 100

BATCHES = 8
"""Of each chain, for the errors of means."""


@dataclass(frozen=True, slots=True)
class State:
    """A set of units at a step of a chain, and the normal law of the coefficients given the auxiliary variables.

    Attributes
    ----------
    step, chain : int
    units : int array
        Units in.
    columns : (m,) int array
        Their columns, in the order of the coefficients.
    node : int
        Of log g.
    weight : float
    mean : (k + m,) array
        Of the unpenalised coefficients and of those of `columns`, in the coordinates of the rows.
    root : (k + m, k + m) array
        A factor of their covariance: ``root @ root.T``.
    """

    step: int
    chain: int
    units: IntArray
    columns: IntArray
    node: int
    weight: float
    mean: FloatArray
    root: FloatArray


def conditional(problem: AugmentedProblem, part: Spectrum, precision: float) -> tuple[FloatArray, FloatArray]:
    """Mean (k + m,) and factor of the covariance of all coefficients given a set and the auxiliary variables.

    `precision` is 1 / v, that of the slab.
    """
    k, m = problem.half.size, part.columns.size
    values = part.values + precision
    coef, root_b = part.vectors @ (part.cross / values), part.vectors / np.sqrt(values)
    back = solve_triangular(problem.factor, np.eye(k), check_finite=False) if k else np.zeros((0, 0))
    on_c = problem.on_c[:, part.columns]
    root = np.zeros((k + m, k + m))
    root[:k, :k], root[:k, k:], root[k:, k:] = back, -back @ (on_c @ root_b), root_b
    return np.concatenate([back @ (problem.half - on_c @ coef), coef]), root


class Kept:
    """States of all chains, thinned as they become too many; changed in place.

    Attributes
    ----------
    every : int
        Steps of a chain between two that are kept.
    states : list of State
    """

    __slots__ = ("_numbers", "every", "states")

    def __init__(self, every: int) -> None:
        self.every, self.states, self._numbers = every, list[State](), 0

    def add(self, state: State) -> None:
        """Keep a state."""
        self.states.append(state)
        self._numbers += state.root.size

    def thin(self) -> None:
        """Drop two of three steps, as long as there are too many states.

        The number of steps between two that are kept stays odd: each step flips a unit, so that the states after an
        even number of steps all have an even, or all an odd, number of units more.
        """
        while len(self.states) > MOST_STATES or (self._numbers > MOST_NUMBERS and len(self.states) > FEWEST_STATES):
            self.every *= 3
            self.states = [state for state in self.states if state.step % self.every == 0]
            self._numbers = sum(state.root.size for state in self.states)

    def after(self, lead: int) -> list[State]:
        """The states from step `lead` on; all, if there is none."""
        return [state for state in self.states if state.step >= lead] or self.states


def mean_error(states: list[State], n_coefficients: int) -> float:
    """Largest Monte Carlo standard error of the posterior mean of a coefficient, in posterior standard deviations.

    Parameters
    ----------
    states : list of State
        In the order of their steps.
    n_coefficients : int
        Unpenalised and penalised ones, k + d.
    """
    weight = np.array([state.weight for state in states])
    weight /= weight.sum()
    k = states[0].mean.size - states[0].columns.size
    always = np.arange(k)
    place = np.concatenate([np.r_[always, k + state.columns] for state in states])
    own = np.repeat(np.arange(len(states)), [state.mean.size for state in states])
    mean = np.concatenate([state.mean for state in states])
    square = mean**2 + np.concatenate([np.einsum("ij,ij->i", state.root, state.root) for state in states])
    center = np.bincount(place, weight[own] * mean, n_coefficients)
    variance = np.bincount(place, weight[own] * square, n_coefficients) - center**2
    batch, n_batches = _batches(np.array([state.chain for state in states]))
    sums = np.zeros((n_batches, n_coefficients))
    np.add.at(sums, (batch[own], place), weight[own] * mean)
    sums -= np.bincount(batch, weight, n_batches)[:, None] * center
    error = (sums**2).sum(axis=0) * n_batches / max(n_batches - 1, 1)
    known = variance > 0
    return float(np.sqrt(np.max(error[known] / variance[known], initial=0.0)))


def _batches(chain: IntArray) -> tuple[IntArray, int]:
    """The batch of each state, and their number: parts of the chains, of equal length."""
    batch, chains = np.empty(chain.size, dtype=np.intp), np.unique(chain)
    for i, c in enumerate(chains):
        of_chain = np.flatnonzero(chain == c)
        batch[of_chain] = i * BATCHES + np.arange(of_chain.size) * BATCHES // of_chain.size
    return batch, chains.size * BATCHES
