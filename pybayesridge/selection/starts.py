"""Where chains start: sets that are unlike each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pybayesridge._types import IntArray
from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.odds import log_odds, new_chains
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.walk import largest_set

MOST_FORWARD = 50
"""Units that forward selection takes in at most."""

MOST_PRIOR = 10
"""Units of a draw from the prior at most: it need not be likely, and a large one is slow to leave."""


def starting_sets(
    problem: Problem, grid: Grid, n_chains: int, rng: np.random.Generator, given: Sequence[IntArray] = ()
) -> list[IntArray]:
    """Sets for `n_chains` chains: forward selection, those `given`, the empty set, a draw from the prior."""
    odds = grid.unit_odds
    every = np.arange(grid.n_units, dtype=np.intp)
    always = every[:0] if odds is None else np.flatnonzero(odds == np.inf)
    free = every if odds is None else np.flatnonzero(np.isfinite(odds))
    out: list[IntArray] = [forward_selection(problem, grid, always)]
    out += [_within(np.asarray(start, dtype=np.intp), always, free) for start in given]
    out.append(always)
    while len(out) < n_chains:
        out.append(_prior_draw(grid, always, free, rng))
    return out[:n_chains]


def _within(start: IntArray, always: IntArray, free: IntArray) -> IntArray:
    return np.union1d(always, np.intersect1d(start, free)).astype(np.intp)


def forward_selection(problem: Problem, grid: Grid, always: IntArray) -> IntArray:
    """Let the unit with the largest log odds in, as long as they are positive."""
    chains = new_chains(problem, grid, 1, largest_set(problem, 1))
    units = always
    while True:
        columns = problem.units.columns(units)
        part = spectrum(problem, columns)
        chains.node[0] = int(np.argmax(log_joint(problem, grid, part, units)))
        chains.factors.rebuild(0, part, float(grid.k[chains.node[0]]))
        chains.n_in[0] = units.size
        chains.state[0] = False
        chains.state[0, units] = True
        odds = log_odds(chains).value[0]
        odds[units] = -np.inf
        best = int(odds.argmax()) if odds.size else 0
        if not odds.size or odds[best] <= 0 or units.size >= always.size + MOST_FORWARD:
            return np.sort(units)
        units = np.append(units, best).astype(np.intp)


def _prior_draw(grid: Grid, always: IntArray, free: IntArray, rng: np.random.Generator) -> IntArray:
    size = min(int(rng.integers(1, MOST_PRIOR + 1)), free.size)
    chosen = rng.choice(free, size, replace=False) if size else free[:0]
    return np.sort(np.concatenate([always, chosen])).astype(np.intp)
