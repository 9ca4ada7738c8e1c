"""Sets that are more probable than all that differ from them in one unit: where a walk may not come by itself.

Between two such sets every way may lead through sets that are far less probable than both. From sets of several sizes
a path goes to the best of the sets that differ in one unit, as long as one is better, and to the likeliest node of
log g each time; other paths stay at a node. Where it ends is a proposal for walks
(:mod:`pybayesridge.selection.recalled`), which keeps the posterior, whatever is proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pybayesridge._types import IntArray
from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.recalled import MOST_UNITS
from pybayesridge.selection.traces import log_joints
from pybayesridge.selection.unseen import Neighbours

MOST_FREE = 40
"""Units up to which there are such paths."""

PATHS = 10
"""How many."""

NODES = 8
"""Nodes of s2, where it is learned and v is given, at which there is a path: much noise and few columns may explain
the response, or little noise and many, and nothing between."""

STEPS = 60
"""Of a path, at most."""

MOST_IN_PAIRS = 24
"""Units up to which sets that differ in two of them from the most probable one are looked at as well."""

MOST_NEAR = 60
"""How many of them, at most."""

LEAST_NEAR = -20.0
"""Nats by which they are less probable than the most probable set, at most."""

LEAST_GAIN = 1e-9
"""Nats by which the next set is better."""


def summits(problem: Problem, grid: Grid, most_columns: int) -> list[IntArray]:
    """Sets of units at which paths end, none twice."""
    free = grid.free
    if not 0 < free.size <= MOST_FREE or not problem.yy > 0:
        return []
    next_to, rng = Neighbours(problem, grid), np.random.default_rng(0)
    starts: list[tuple[IntArray, int | None]] = []
    for size in np.linspace(free.size, 1, PATHS).astype(int).tolist():
        start = rng.permutation(free)[:size]
        fits = np.cumsum(problem.units.sizes[start]) <= most_columns
        starts.append((np.union1d(grid.always, start[fits]).astype(np.intp), None))
    if grid.follows_noise:
        starts += [(grid.always, node) for node in np.linspace(0, grid.log_g.size - 1, NODES).astype(int).tolist()]
    found: dict[bytes, IntArray] = {}
    for start, node in starts:
        units = _ascended(next_to, start, most_columns, node)
        if units.size <= MOST_UNITS:
            found[units.tobytes()] = units
    return list(found.values())


def with_pairs(problem: Problem, grid: Grid, sets: Sequence[IntArray], most_columns: int) -> list[IntArray]:
    """With the likeliest of those that differ in two units from the likeliest one, if these are not too many.

    One more or less may be improbable, and both not.
    """
    free = grid.free
    if not sets or free.size > MOST_IN_PAIRS:
        return list(sets)
    value = log_joints(problem, grid, sets)
    known, found = {units.tobytes() for units in sets}, []
    for pair in combinations(free.tolist(), 2):
        units = np.setxor1d(sets[int(np.argmax(value))], pair).astype(np.intp)
        fits = problem.units.sizes[units].sum() <= most_columns and units.size <= MOST_UNITS
        if fits and units.tobytes() not in known:
            found.append(units)
    beside = log_joints(problem, grid, found) - value.max() if found else np.zeros(0)
    likeliest = np.argsort(-beside, kind="stable")[:MOST_NEAR].tolist()
    return [*sets, *(found[i] for i in likeliest if beside[i] > LEAST_NEAR)]


def _ascended(next_to: Neighbours, units: IntArray, room: int, node: int | None = None) -> IntArray:
    """Where the path from a set ends, ascending, at a node or at the likeliest of each set."""
    problem, grid = next_to.problem, next_to.grid
    for _ in range(STEPS):
        at = node
        if at is None:
            part = spectrum(problem, problem.units.columns(units))
            at = int(np.argmax(log_joint(problem, grid, part, units)))
        try:
            here = next_to.at(units, at)
            choices = [*next_to.births(here, problem.stacked(here.columns))]
        except np.linalg.LinAlgError:
            break  # columns that are multiples of one another, at next to no penalty
        value = np.concatenate([each.log_joint for each in choices] + [next_to.deaths(here)])
        unit = np.concatenate([each.units for each in choices] + [units]).astype(np.intp)
        inside = np.isin(unit, units)
        value[~inside & (here.columns.size + problem.units.sizes[unit] > room)] = -np.inf
        best = int(np.argmax(value))
        if not value[best] > here.log_joint + LEAST_GAIN:
            break
        units = np.setdiff1d(units, unit[best]) if inside[best] else np.union1d(units, unit[best])
        units = units.astype(np.intp)
    return units
