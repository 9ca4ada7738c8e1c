"""Sets that walkers may go to at once: those that were visited, with about their posterior probabilities.

Two explanations of the same response may differ in several units, and what lies between them may be improbable: moves
of single units then seldom lead from one to the other. What is known of both serves as a proposal
(``compiled/c/sets/recall.c``, where the acceptance ratio stands): core units, those whose probabilities matter, are
exchanged all at once, other units stay.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joint_of_each, spectra
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import Recalled
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.traces import Trace

CORE = 0.02
"""Probability from which a unit is one of the core."""

MOST_CORE = 64
"""Units of the core at most: with more of them hardly any set is visited twice."""

MOST_SETS = 500
"""Sets that are recalled at most, those that were visited most."""

MOST_UNITS = 64
"""Units of such a set at most; the compiled code has room for no more."""

AT_ONCE = 64
"""Sets, of about the same size, that are evaluated at once."""


def recalled_sets(problem: Problem, grid: Grid, trace: Trace, prob: FloatArray, marks: AnyArray) -> Recalled | None:
    """The core sets of the states of a walk that were visited most; None if there are not two of them.

    `prob` (G,) are about the inclusion probabilities, `marks` (G,) random numbers of 64 bits.
    """
    core = np.zeros(prob.size, dtype=bool)
    likely = np.argsort(-prob, kind="stable")[:MOST_CORE]
    core[likely[prob[likely] >= CORE]] = True
    inside = core[trace.units]
    units = trace.units[inside]
    of_state = np.repeat(np.arange(trace.n), trace.sizes)[inside]
    start = np.searchsorted(of_state, np.arange(trace.n + 1))
    some = np.diff(start) > 0
    key = np.zeros(trace.n, dtype=np.uint64)
    if some.any():
        key[some] = np.bitwise_xor.reduceat(marks[units], start[:-1][some])
    values, first, count = np.unique(key, return_index=True, return_counts=True)
    fits = np.diff(start)[first] <= MOST_UNITS
    values, first, count = values[fits], first[fits], count[fits]
    if values.size < 2:
        return None
    chosen = np.sort(np.argsort(-count, kind="stable")[:MOST_SETS])
    sets = [np.sort(units[start[i] : start[i + 1]]).astype(np.intp) for i in first[chosen]]
    table = _log_joints(problem, grid, sets)
    bounds = np.concatenate([[0], np.cumsum([each.size for each in sets])])
    return Recalled(core, values[chosen], bounds, np.concatenate(sets), table - logsumexp(table))


def _log_joints(problem: Problem, grid: Grid, sets: list[IntArray]) -> FloatArray:
    """Log p(y, S, node) of each set, (S, K)."""
    out = np.empty((len(sets), grid.log_g.size))
    order = np.argsort([each.size for each in sets], kind="stable")
    for some in np.split(order, range(AT_ONCE, order.size, AT_ONCE)):
        own = [sets[i] for i in some]
        parts = spectra(problem, [problem.units.columns(each) for each in own])
        out[some] = log_joint_of_each(problem, grid, parts, own)[0]
    return out
