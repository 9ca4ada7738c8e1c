"""Rows of a selection predicted from the others by the exact posterior of sets of columns.

Given a state, which is a set of columns and a slab variance relative to the noise, everything is in closed form.
Where all sets were summed over they are again (:mod:`pybayesridge.selection.left_out_summed`). Else the kept states
are weighted anew, and sets that matter only without a row are added (:mod:`pybayesridge.selection.left_out_unseen`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.posterior.left_out import (
    ALONE,
    LeftOut,
    NoDensityError,
    Noise,
    check_noise,
    checked_densities,
    joined,
    mixed,
    undetermined,
)
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.left_out_known import CoordinateRows, grid_without_rows, known_sets
from pybayesridge.selection.left_out_summed import AllSets, can_sum
from pybayesridge.selection.left_out_unseen import UNSETTLED, Added, with_unseen
from pybayesridge.selection.left_out_walked import walked
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import Exact
from pybayesridge.selection.states import States

FEW = 100.0
"""Effective draws of a row's prediction, below which sets with exact weights take the place of the draws."""

MOST_WALKED, STARTS = 10, 2
"""Rows that are predicted by walks without them, at most; sets that such a walk starts from."""

MOST_OWN = 0.999
"""Leverage of a row from the unpenalised columns up to which there are such walks."""

ELEMENTS = 2_000_000
"""Numbers held at once of rows in all states."""


def rows_left_out(design: Design, problem: Problem, exact: Exact) -> LeftOut:
    """Predictions of every row from the others; densities on the user's scale.

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    states = exact.states
    known = states.noise_var
    check_noise(states.left if known is None else known)
    if known is None and states.nu <= 1:
        raise NoDensityError(None, ALONE)
    grid = grid_without_rows(problem, exact.grid, (rows for _, rows in _pieces(design, design.n)))
    if not exact.computation.sampled and can_sum(grid, design.n):
        every = AllSets.of(problem, grid)
        pieces = [every.left_out(rows, start) for start, rows in _pieces(design, design.n)]
        return replace(joined(pieces), influence=np.zeros(states.n)).in_units(design.row_units)
    return _by_kept_states(design, problem, exact, grid).in_units(design.row_units)


def _pieces(design: Design, most: int) -> Iterator[tuple[int, CoordinateRows]]:
    """Rows, at most so many, and the position of the first."""
    for rows, x in design.row_pieces():
        own = (design.block.q[rows] ** 2).sum(axis=1)
        for begin in range(0, x.shape[0], most):
            part = slice(begin, min(begin + most, x.shape[0]))
            first = rows.start + begin
            yield first, CoordinateRows(np.asarray(x[part]), design.y[first : rows.start + part.stop, 0], own[part])


def _by_kept_states(design: Design, problem: Problem, exact: Exact, grid: Grid) -> LeftOut:
    """Predictions of every row by the kept states, and sets that are added."""
    states = exact.states
    if states.noise_var is None:
        noise, rss = Noise(states.nu), states.left[:, None]
    else:
        noise, rss = Noise(states.nu, states.noise_var[:, None]), np.ones((states.n, 1))
    sets, kept, evidence_se = known_sets(problem, exact, grid)
    pieces, added = [], np.zeros((2, design.n))
    for first, some in _pieces(design, max(ELEMENTS // max(states.n, 1), 1)):
        fitted, leverage = _given_states(states, some.x)
        slack = np.where(undetermined(some.own), 0.0, 1.0 - (leverage + some.own))
        error = np.divide(some.y - fitted, slack, out=np.zeros_like(slack), where=slack > 0)
        given = checked_densities(states.weight, error, slack, rss, noise, first)
        found = mixed(states.weight, given.left_out, given.within, given.below, given.error)
        few = exact.computation.sampled and exact.draws * found.efficiency < FEW
        more = with_unseen(sets, kept, some, found, given, few | np.zeros(some.y.size, dtype=bool), design.n)
        more = _with_walks(problem, grid, states, some, more, first)
        influence = more.rest - states.weight[:, None] * (1.0 - more.exact)
        errors = np.stack([exact.error_of_influence(influence), evidence_se * more.exact, more.missing])
        added[:, first : first + some.y.size] = errors[1:]
        pieces.append(replace(more.found, influence=influence.sum(axis=1), mcse=np.sqrt((errors**2).sum(axis=0))))
    # The error of the evidence is the same in all rows.
    beyond = float(np.hypot(added[0].sum(), np.sqrt((added[1] ** 2).sum())))
    return replace(joined(pieces), beyond=beyond)


def _with_walks(problem: Problem, grid: Grid, states: States, rows: CoordinateRows, more: Added, first: int) -> Added:
    """Predict rows that sets which were not added have much of by walks without them, if they are few."""
    doubt = np.flatnonzero((more.missing > UNSETTLED) & (rows.own < MOST_OWN))
    if not doubt.size or doubt.size > MOST_WALKED or problem.gram is None:
        return more
    found = replace(
        more.found,
        **{name: getattr(more.found, name).copy() for name in ("log_density", "pit", "error", "efficiency")},
    )
    out = replace(more, found=found, rest=more.rest.copy(), exact=more.exact.copy(), missing=more.missing.copy())
    for i in doubt.tolist():
        likely = np.argsort(-more.rest[:, i], kind="stable")[:STARTS].tolist()
        starts = [np.unique(problem.units.of_column[states.set_of(s)]).astype(np.intp) for s in likely]
        own = walked(problem, grid, rows, i, starts, first + i)
        if not own.se < more.missing[i]:
            continue
        for name in ("log_density", "pit", "error", "efficiency"):
            getattr(found, name)[i] = getattr(own, name)
        # The kept states have no part in it. A walk that has not converged leaves the row in doubt.
        out.rest[:, i], out.exact[i] = states.weight, 0.0
        if own.converged:
            out.missing[i] = own.se
        else:
            found.efficiency[i] = 0.0
    return out


def _given_states(states: States, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fitted values and leverages without those of Z of rows (m, p) in each state, (S, m)."""
    fitted, leverage = np.empty((2, states.n, x.shape[0]))
    for i in range(states.n):
        inside = x[:, states.set_of(i)]
        fitted[i] = inside @ states.coef[states.start[i] : states.start[i + 1]]
        half = inside @ states.root[i]
        leverage[i] = np.einsum("ij,ij->i", half, half)
    return fitted, leverage
