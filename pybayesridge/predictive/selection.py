"""Rows of a selection predicted from the others: by the kept states of the exact posterior, or by EP's Gaussian."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.algorithms.solve import row_variances
from pybayesridge.ep.posterior import SelectionPosterior
from pybayesridge.predictive.all_sets import AllSets, can_sum
from pybayesridge.predictive.known_sets import CoordinateRows, grid_without_rows, known_sets
from pybayesridge.predictive.left_out import (
    ALONE,
    NO_NOISE,
    LeftOut,
    NoDensityError,
    Noise,
    checked_densities,
    given_components,
    joined,
    mixed,
    undetermined,
)
from pybayesridge.predictive.ridge import on_user_scale
from pybayesridge.predictive.unseen import with_unseen
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.posterior import ExactPosterior
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.states import States

IMPROPER = (
    "without it the approximation by expectation propagation, which is made for all rows, is no distribution for "
    "some hyperparameters: use method='exact', or fit without this row to predict it"
)
"""Sites of negative precision can need the row."""

HALF, SHARE = 0.5, 0.01
"""Without a row of more leverage than the first (from the penalised columns, of what the others leave), sites of
which some are negative can be very different: by 20 nats at the worst seen. It matters where such hyperparameters
have more weight than the second."""

FEW = 100.0
"""Effective draws of a row's prediction, below which sets with exact weights take the place of the draws."""

ELEMENTS = 2_000_000
"""Numbers held at once of rows in all states."""


def exact_left_out(posterior: ExactPosterior) -> LeftOut:
    """Predictions of every row from the others by an exact posterior of sets; densities on the user's scale.

    Given a state, which is a set of columns and a slab variance relative to the noise, everything is in closed form.
    Where all sets were summed over they are again (:mod:`pybayesridge.predictive.all_sets`). Else the kept states are
    weighted anew, and sets that matter only without a row are added (:mod:`pybayesridge.predictive.unseen`).

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    design, exact = posterior.design, posterior.exact
    states = exact.states
    known = states.noise_var
    _check_noise(states.left if known is None else known)
    if known is None and states.nu <= 1:
        raise NoDensityError(None, ALONE)
    problem = posterior.problem()
    grid = grid_without_rows(problem, exact.grid, (rows for _, rows in _pieces(posterior, design.n)))
    if not exact.computation.sampled and can_sum(grid, design.n):
        every = AllSets.of(problem, grid)
        pieces = [every.left_out(rows, start) for start, rows in _pieces(posterior, design.n)]
        return on_user_scale(replace(joined(pieces), influence=np.zeros(states.n)), design)
    return on_user_scale(_by_kept_states(posterior, problem, grid), design)


def _pieces(posterior: ExactPosterior, most: int) -> Iterator[tuple[int, CoordinateRows]]:
    """Rows, at most so many, and the position of the first."""
    design = posterior.design
    for rows, x in design.row_pieces():
        own = (design.block.q[rows] ** 2).sum(axis=1)
        for begin in range(0, x.shape[0], most):
            part = slice(begin, min(begin + most, x.shape[0]))
            first = rows.start + begin
            yield first, CoordinateRows(np.asarray(x[part]), design.y[first : rows.start + part.stop, 0], own[part])


def _by_kept_states(posterior: ExactPosterior, problem: Problem, grid: Grid) -> LeftOut:
    """Predictions of every row by the kept states, and sets that are added."""
    design, exact = posterior.design, posterior.exact
    states = exact.states
    if states.noise_var is None:
        noise, rss = Noise(states.nu), states.left[:, None]
    else:
        noise, rss = Noise(states.nu, states.noise_var[:, None]), np.ones((states.n, 1))
    sets, kept, evidence_se = known_sets(problem, exact, grid)
    pieces, added = [], np.zeros((2, design.n))
    for first, some in _pieces(posterior, max(ELEMENTS // max(states.n, 1), 1)):
        fitted, leverage = _given_states(states, some.x)
        slack = np.where(undetermined(some.own), 0.0, 1.0 - (leverage + some.own))
        error = np.divide(some.y - fitted, slack, out=np.zeros_like(slack), where=slack > 0)
        given = checked_densities(states.weight, error, slack, rss, noise, first)
        found = mixed(states.weight, given.left_out, given.within, given.below, given.error)
        few = exact.computation.sampled and exact.draws * found.efficiency < FEW
        more = with_unseen(sets, kept, some, found, given, few | np.zeros(some.y.size, dtype=bool), design.n)
        influence = more.rest - states.weight[:, None] * (1.0 - more.exact)
        errors = np.stack([exact.error_of_influence(influence), evidence_se * more.exact, more.missing])
        added[:, first : first + some.y.size] = errors[1:]
        pieces.append(replace(more.found, influence=influence.sum(axis=1), mcse=np.sqrt((errors**2).sum(axis=0))))
    # The error of the evidence is the same in all rows.
    beyond = float(np.hypot(added[0].sum(), np.sqrt((added[1] ** 2).sum())))
    return replace(joined(pieces), beyond=beyond)


def _given_states(states: States, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fitted values and leverages without those of Z of rows (m, p) in each state, (S, m)."""
    fitted, leverage = np.empty((2, states.n, x.shape[0]))
    for i in range(states.n):
        inside = x[:, states.set_of(i)]
        fitted[i] = inside @ states.coef[states.start[i] : states.start[i + 1]]
        half = inside @ states.root[i]
        leverage[i] = np.einsum("ij,ij->i", half, half)
    return fitted, leverage


def ep_left_out(posterior: SelectionPosterior) -> LeftOut:
    """Predictions of every row from the others by EP's Gaussian; densities on the user's scale.

    The Gaussian that approximates the prior (EP's sites) is that of the fit to all rows, and so are hyperparameters
    at an estimate; those that are averaged over are weighted anew.

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    design, selection = posterior.design, posterior.selection
    variance = np.array([[hyper.noise_var] for hyper in selection.hypers])
    _check_noise(variance)
    negative = np.array([bool((result.site2 < 0.0).any()) for result in selection.results])
    noise, rss, y, pieces = Noise(float(design.nu), variance), np.ones_like(variance), design.y[:, 0], []
    for rows, x in design.row_pieces():
        own = (design.block.q[rows] ** 2).sum(axis=1)
        rotated = selection.rotation.rows(x)
        fitted, slack = np.empty((2, variance.size, x.shape[0]))
        for g, (result, hyper) in enumerate(zip(selection.results, selection.hypers, strict=True)):
            part = np.maximum(row_variances(hyper.likelihood(posterior.data), result, rotated), 0.0)
            fitted[g], slack[g] = rotated @ result.mean, 1.0 - (part / hyper.noise_var + own)
        stuck = undetermined(own)
        slack[:, stuck] = 0.0
        improper = np.flatnonzero((slack[selection.weights > 0] <= 0.0).any(axis=0) & ~stuck)
        if improper.size:
            raise NoDensityError(rows.start + int(improper[0]), IMPROPER)
        error = y[rows] - fitted
        error = np.divide(error, slack, out=np.zeros_like(error), where=slack > 0)
        found = given_components(selection.weights, error, slack, rss, noise, rows.start)
        doubtful = (slack < HALF * (1.0 - own)) & negative[:, None]
        pieces.append(replace(found, doubtful=selection.weights @ doubtful > SHARE))
    return on_user_scale(joined(pieces), design)


def _check_noise(size: FloatArray) -> None:
    if not (size > 0).all():
        raise NoDensityError(None, NO_NOISE)
