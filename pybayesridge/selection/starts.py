"""Where walkers start: sets that are unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem

MOST_PRIOR = 10
"""Units of a draw from the prior at most: it need not be likely, and a large one is slow to leave."""

MOST_DENSE = 100
"""Columns of a dense start at most: a walker that belongs there finds the way to larger sets."""


@dataclass(frozen=True, slots=True)
class Start:
    """A state to start from.

    Attributes
    ----------
    units : int array
    node : int
        Of log g: the most probable one given the set.
    kind : {"given", "empty", "dense", "searched", "prior"}
    """

    units: IntArray
    node: int
    kind: str


def starting_states(
    problem: Problem,
    grid: Grid,
    n: int,
    rng: np.random.Generator,
    given: Sequence[IntArray] = (),
    most_columns: int | None = None,
    searched: Sequence[IntArray] = (),
) -> list[Start]:
    """States for n walkers: the empty set, dense sets, those `searched`, draws from the prior, those `given`."""
    always, free = grid.always, grid.free
    most = problem.d if most_columns is None else most_columns
    dense = _dense(problem, always, free, min(most, MOST_DENSE))
    found: list[tuple[str, IntArray]] = []
    for i in range(n):
        if given and i % 4 == 3:
            found.append(("given", _within(np.asarray(given[(i // 4) % len(given)], dtype=np.intp), always, free)))
        elif i % 4 in (0, 3):
            found.append(("empty", always))
        elif i % 4 == 1:
            # The first half of the dense starts is as dense as may be, the others less.
            share = 1.0 if i % 8 == 1 else 0.4
            found.append(("dense", np.union1d(always, dense[: int(np.ceil(share * dense.size))]).astype(np.intp)))
        elif i % 8 == 2 and i // 8 < len(searched):
            found.append(("searched", searched[i // 8]))
        else:
            found.append(("prior", _prior_draw(problem, always, free, most, rng)))
    nodes: dict[bytes, int] = {}
    out = []
    for kind, units in found:
        key = units.tobytes()
        if key not in nodes:
            part = spectrum(problem, problem.units.columns(units))
            nodes[key] = int(np.argmax(log_joint(problem, grid, part, units)))
        out.append(Start(units, nodes[key], kind))
    return out


def _within(start: IntArray, always: IntArray, free: IntArray) -> IntArray:
    return np.union1d(always, np.intersect1d(start, free)).astype(np.intp)


def _dense(problem: Problem, always: IntArray, free: IntArray, most: int) -> IntArray:
    """Half of the units, or as many as rows allow: those with the largest correlations with the response."""
    units = problem.units
    square = np.divide(problem.cross**2, problem.diag, out=np.zeros(problem.d), where=problem.diag > 0)
    explained: FloatArray = np.bincount(units.of_column, square, minlength=units.n) / np.maximum(units.sizes, 1)
    order = free[np.argsort(-explained[free], kind="stable")]
    columns = np.cumsum(units.sizes[order])
    room = min(most - int(units.sizes[always].sum()), max(int(problem.nu), 1))
    size = min(int(np.searchsorted(columns, room, side="right")), int(np.ceil(free.size / 2)))
    return order[: max(size, 0)]


def _prior_draw(problem: Problem, always: IntArray, free: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    size = min(int(rng.integers(1, MOST_PRIOR + 1)), free.size)
    chosen = rng.choice(free, size, replace=False) if size else free[:0]
    sizes = problem.units.sizes
    fits = np.cumsum(sizes[chosen]) <= most - sizes[always].sum()
    return np.sort(np.concatenate([always, chosen[fits]])).astype(np.intp)
