"""Credible sets: correlated columns of which at least one is in, by the kept states."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import CredibleSet, Exact

LEAST_PROBABILITY = 1e-4
"""Units that are in less often are in no credible set."""

MOST_IN_PLAY = 2000
"""Units from which credible sets are made, the most probable ones."""

ROUNDING = 1e-12
"""Error of a sum of weights: it decides neither on the coverage nor between units that add the same."""


def credible_sets(
    problem: Problem, exact: Exact, *, coverage: float = 0.95, min_abs_corr: float = 0.5
) -> tuple[CredibleSet, ...]:
    """Disjoint sets of correlated units, each with at least one unit that is in with probability `coverage`.

    A set begins with the most probable unit that is in no set yet. Units whose absolute correlation with every unit
    of the set is at least `min_abs_corr` are added, always the one that adds most to the probability that at least
    one of the set is in, until that probability reaches `coverage`. Units that are not needed are then dropped, the
    least probable first. Where `coverage` cannot be reached there is no set. A group is a set of its own or in none.
    Units that no kept state has in are in no set.

    Parameters
    ----------
    problem : Problem
    exact : Exact
    coverage : float
    min_abs_corr : float

    Returns
    -------
    tuple of CredibleSet
        Ordered by the most probable unit.
    """
    prob = exact.unit_prob
    odds = exact.grid.unit_odds
    play = np.argsort(-prob, kind="stable")[:MOST_IN_PLAY]
    play = play[prob[play] > LEAST_PROBABILITY]
    if odds is not None:
        play = play[odds[play] < np.inf]
    play = play[np.isin(play, problem.units.of_column[exact.states.columns])]
    inside = exact.states.membership(problem.units, play) > 0
    coverage -= ROUNDING
    weight = exact.states.weight
    taken = np.zeros(play.size, dtype=bool)
    out = []
    for first in range(play.size):
        if taken[first]:
            continue
        corr = _correlation(problem, play, first)
        near = np.flatnonzero(~taken & (corr >= min_abs_corr))
        if weight[inside[:, near].any(axis=1)].sum() < coverage:
            continue
        chosen = _grow(problem, play, inside, weight, first, near, coverage, min_abs_corr)
        if chosen is None:
            continue
        taken[chosen] = True
        rows = inside[:, chosen]
        out.append(
            CredibleSet(
                units=play[chosen],
                probability=min(float(weight[rows.any(axis=1)].sum()), 1.0),
                purity=_purity(problem, play[chosen]),
                expected=float(prob[play[chosen]].sum()),
            )
        )
    return tuple(out)


def _grow(
    problem: Problem,
    play: IntArray,
    inside: BoolArray,
    weight: FloatArray,
    first: int,
    near: IntArray,
    coverage: float,
    min_abs_corr: float,
) -> IntArray | None:
    """Positions in `play` of the set around `first`, the most probable first; None if it does not exist."""
    chosen = [first]
    covered = inside[:, first].copy()
    near = near[near != first]
    while weight[covered].sum() < coverage:
        if near.size == 0:
            return None
        gain = weight[~covered] @ inside[~covered][:, near]
        best = int(near[np.argmax(gain >= gain.max() - ROUNDING)])
        if gain.max() <= 0:
            return None
        chosen.append(best)
        covered |= inside[:, best]
        near = near[(near != best) & (_correlation(problem, play, best)[near] >= min_abs_corr)]
    for one in sorted(chosen, reverse=True):
        rest = [i for i in chosen if i != one]
        if rest and weight[inside[:, rest].any(axis=1)].sum() >= coverage:
            chosen = rest
    return np.array(sorted(chosen), dtype=np.intp)


def _correlation(problem: Problem, play: IntArray, at: int) -> FloatArray:
    """Absolute correlations of the unit at a position with all in play; of a group, 1 with itself and 0 else."""
    units = problem.units
    out = np.zeros(play.size)
    columns = units.members(int(play[at]))
    if columns.size == 1:
        single = units.sizes[play] == 1
        others = units.columns(play[single])
        j = int(columns[0])
        size = np.sqrt(problem.diag[others] * problem.diag[j])
        out[single] = np.abs(problem.column(j)[others]) / np.where(size > 0, size, np.inf)
    out[at] = 1.0
    return out


def _purity(problem: Problem, units: IntArray) -> float:
    return float(min(_correlation(problem, units, i).min() for i in range(units.size)))
