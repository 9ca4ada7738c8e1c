"""Sets that walkers may go to at once: those that were visited, with about their posterior probabilities.

Two explanations of the same response may differ in several units, and what lies between them may be improbable: moves
of single units then seldom lead from one to the other. What is known of both serves as a proposal
(``compiled/c/sets/recall.c``, where the acceptance ratio stands): core units, those whose probabilities matter, are
exchanged all at once, other units stay. Where there are many signals, each with several explanations, hardly any set
of all core units is visited twice: other lists are of a unit and those that it is correlated with, alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joints_by_size, spectra_by_size
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import Recalled
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.traces import Trace, sorted_sets

CORE = (0.001, 0.005, 0.02, 0.1)
"""Probabilities from which a unit is of the core: the first with which enough states are recalled, or the last."""

ENOUGH = 0.7
"""Share of the states of a walk whose core is recalled and was visited twice: then enough of them are."""

MOST_CORE = 128
"""Units of the core at most: with more of them hardly any set is visited twice."""

MOST_SETS = 1000
"""Sets that are recalled at most, those that were visited most."""

MOST_UNITS = 64
"""Units of such a set at most; the compiled code has room for no more."""

MOST_LISTS = 24
"""Lists of correlated units at most, one around each of the units that vary most."""

MOST_ALIKE = 12
"""Units of such a list."""

CORES_AT_ONCE = 64 // MOST_ALIKE
"""Such lists whose units fit into the bits of an integer."""

LEAST_ALIKE = 0.25
"""Squared correlation with its unit from which others are on its list."""

LEAST_VARIANCE = 0.005
"""Of the indicator of a unit for a list around it."""

MOST_STATES = 20_000
"""States of a walk that are looked at, at most."""


@dataclass(frozen=True, slots=True)
class _Visited:
    """The sets of core units that most states have.

    Attributes
    ----------
    core : (G,) bool array
    key : (S,) uint64 array
        Ascending.
    sets : list of int arrays
    count : (S,) int array
        How many states have it.
    share : float
        Of the states that have one of them, without those that are the only one.
    """

    core: BoolArray
    key: AnyArray
    sets: list[IntArray]
    count: IntArray
    share: float


def recalled_sets(
    problem: Problem, grid: Grid, trace: Trace, prob: FloatArray, marks: AnyArray, others: Sequence[IntArray] = ()
) -> list[Recalled]:
    """Lists of the sets that states of a walk have most: of all core units, then of some correlated ones.

    `prob` (G,) are about the inclusion probabilities, `marks` (G,) random numbers of 64 bits. Without two sets of
    core units there is no list. Sets of all core units are proposed with their posterior probabilities given that no
    other unit is in; those of correlated units as often as they were visited. `others`: sets that are proposed with
    those of all core units, visited or not; their units are core units, if these do not become too many.
    """
    trace = trace.thinned(MOST_STATES)
    for least in CORE:
        core = _likely(prob, least)
        more = np.unique(np.concatenate([np.flatnonzero(core), *others])).astype(np.intp)
        if more.size <= MOST_CORE:
            core[more] = True
        found = _visited(trace, core, marks)
        if found.share >= ENOUGH:
            break
    found = _with_others(found, [units for units in others if core[units].all()], marks)
    if len(found.sets) < 2:
        return []
    table = _log_joints(problem, grid, found.sets)
    lists = [_listed(found, table - logsumexp(table))]
    for found in _visited_of_few(trace, _alike(problem, prob, _likely(prob, CORE[1])), marks):
        if len(found.sets) > 1:
            lists.append(_listed(found, np.log(found.count / found.count.sum())))
    return lists


def _with_others(found: _Visited, others: Sequence[IntArray], marks: AnyArray) -> _Visited:
    """With sets that were not visited, or hardly."""
    count = dict(zip(found.key.tolist(), found.count.tolist(), strict=True))
    sets = dict(zip(found.key.tolist(), found.sets, strict=True))
    for units in others:
        key = int(np.bitwise_xor.reduce(marks[units], initial=np.uint64(0)))
        sets.setdefault(key, units)
        count.setdefault(key, 0)
    keys = sorted(sets)
    return _Visited(
        found.core,
        np.array(keys, dtype=np.uint64),
        [sets[key] for key in keys],
        np.array([count[key] for key in keys]),
        found.share,
    )


def _listed(found: _Visited, log_prob: FloatArray) -> Recalled:
    bounds = np.concatenate([[0], np.cumsum([each.size for each in found.sets])])
    return Recalled(found.core, found.key, bounds, np.concatenate(found.sets), log_prob)


def _alike(problem: Problem, prob: FloatArray, core: BoolArray) -> list[IntArray]:
    """Core units that are correlated with one of them that varies, it among them, for each of several such units."""
    units = np.flatnonzero(core)
    variance = (prob * (1.0 - prob))[units]
    first = problem.units.order[problem.units.start[units]]
    products = problem.block(first)
    length = np.sqrt(np.maximum(np.diag(products), 1e-300))
    square = (products / length / length[:, None]) ** 2
    out: dict[bytes, IntArray] = {}
    for i in np.argsort(-variance, kind="stable")[:MOST_LISTS]:
        alike = np.argsort(-square[i], kind="stable")[:MOST_ALIKE]
        alike = np.sort(units[alike[square[i, alike] >= LEAST_ALIKE]])
        if variance[i] >= LEAST_VARIANCE and alike.size > 1:
            out[alike.tobytes()] = alike
    return list(out.values())


def _likely(prob: FloatArray, least: float) -> BoolArray:
    """The core: units of at least this probability, or the likeliest of them, (G,)."""
    core = np.zeros(prob.size, dtype=bool)
    likely = np.argsort(-prob, kind="stable")[:MOST_CORE]
    core[likely[prob[likely] >= least]] = True
    return core


def _visited(trace: Trace, core: BoolArray, marks: AnyArray) -> _Visited:
    """What most states have of the core."""
    inside = core[trace.units]
    units = trace.units[inside]
    of_state = np.repeat(np.arange(trace.n), trace.sizes)[inside]
    start = np.searchsorted(of_state, np.arange(trace.n + 1))
    size = np.diff(start)
    key = np.zeros(trace.n, dtype=np.uint64)
    if units.size:
        key[size > 0] = np.bitwise_xor.reduceat(marks[units], start[:-1][size > 0])
    values, first, count = np.unique(key, return_index=True, return_counts=True)
    fits = np.flatnonzero(size[first] <= MOST_UNITS)
    chosen = fits[_most(count[fits])]
    seen, sets = count[chosen], sorted_sets(units, start, first[chosen])
    return _Visited(core, values[chosen], sets, seen, float(seen[seen > 1].sum()) / max(trace.n, 1))


def _most(count: IntArray) -> IntArray:
    """Which sets were visited most, ascending; `count` is in the order of their keys."""
    return np.sort(np.argsort(-count, kind="stable")[:MOST_SETS]).astype(np.intp)


def _visited_of_few(trace: Trace, cores: Sequence[IntArray], marks: AnyArray) -> Iterator[_Visited]:
    """As :func:`_visited`, of each of several cores of at most `MOST_ALIKE` units, ascending."""
    filled = np.flatnonzero(trace.sizes)
    for first in range(0, len(cores), CORES_AT_ONCE):
        some = cores[first : first + CORES_AT_ONCE]
        # A bit for each unit of each core.
        bit, of_state = np.zeros(marks.size, dtype=np.uint64), np.zeros(trace.n, dtype=np.uint64)
        for i, units in enumerate(some):
            bit[units] |= np.uint64(1) << (i * MOST_ALIKE + np.arange(units.size)).astype(np.uint64)
        if filled.size:
            of_state[filled] = np.bitwise_or.reduceat(bit[trace.units], trace.start[filled])
        for i, units in enumerate(some):
            code = (of_state >> np.uint64(i * MOST_ALIKE)).astype(np.intp) & (2**MOST_ALIKE - 1)
            count = np.bincount(code)
            seen = np.flatnonzero(count)
            inside = (seen[:, None] >> np.arange(units.size)) & 1 > 0
            key = np.bitwise_xor.reduce(np.where(inside, marks[units], np.uint64(0)), axis=1)
            order = np.argsort(key, kind="stable")
            chosen = order[_most(count[seen][order])]
            often = count[seen[chosen]]
            core = np.zeros(marks.size, dtype=bool)
            core[units] = True
            share = float(often[often > 1].sum()) / max(trace.n, 1)
            yield _Visited(core, key[chosen], [units[own] for own in inside[chosen]], often, share)


def _log_joints(problem: Problem, grid: Grid, sets: list[IntArray]) -> FloatArray:
    """Log p(y, S, node) of each set, (S, K)."""
    out = np.empty((len(sets), grid.log_g.size))
    parts = spectra_by_size(problem, [problem.units.columns(each) for each in sets])
    for some, joint, _ in log_joints_by_size(problem, grid, parts, sets):
        out[some] = joint
    return out
