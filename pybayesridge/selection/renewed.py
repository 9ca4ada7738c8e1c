"""Where a walk goes to sets that have nothing to do with the present one: how many units, and which node of log g.

Where little is explained, sets of hundreds of units under a narrow slab have a share of the posterior beside the
empty one and small ones, and moves of some units seldom lead from one to the other. Given how many units they have,
such sets are nearly as probable as each other: one that is drawn at random is accepted often
(``compiled/c/sets/renew.c``, where the acceptance ratio stands). How many units are proposed, and which node, follows
the posterior of sets by chance about: of m of N units, X_A X_A' is taken for m / N times that of all of them. Units
that are probably in stay.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.linalg import blas
from pybayesridge.selection.collapsed import FLOOR, left_over, of_left_over, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import Renewed, log_sets, priors_of_sizes
from pybayesridge.selection.problem import Problem

LIKELY_IN = 0.5
"""Probability from which a unit stays."""

MOST_SIZES = 20_001
"""Sets have fewer loose units than this, and than what the prior allows."""

WORK = 4e9
"""Multiplications for the eigenvalues, about, at most; if they take more there are no such moves."""

SIZES = 40
"""Numbers of units for which the prior and the likelihood are computed; those between are interpolated."""

LEFT_OUT = 1e-5
"""Probability of the largest sets that are not proposed."""

NOTHING = -1e100
"""Logarithm of what has no probability, where it is interpolated."""

SCALES = 400
"""Values of g m / N at which sets by chance are evaluated; others are interpolated."""

STEP = 2000.0
"""Multiplications that take as long as a step in which few columns are in."""

LEAST_UNITS = 100
"""Loose units from which there are such moves: others go everywhere by single ones."""


def n_sizes(problem: Problem, most_columns: int) -> int:
    """How many sizes of sets are proposed."""
    return int(min(MOST_SIZES, most_columns // max(int(problem.units.sizes.max(initial=1)), 1), problem.units.n) + 1)


def can_renew(problem: Problem, grid: Grid) -> bool:
    """Whether the probability that a unit is in and log g are learned, of many units, and eigenvalues affordable."""
    if grid.unit_odds is not None or grid.log_g.size == 1 or problem.units.n < LEAST_UNITS:
        return False
    n, d = _n_rows(problem), float(problem.d)
    return min(n, d) ** 2 * (d + 20.0 * min(n, d)) <= WORK


def renewed_sets(problem: Problem, grid: Grid, loose: BoolArray, most: int) -> Renewed:
    """Moves of loose units (G,), the others being in, to sets of fewer than `most` units in all."""
    n_loose, n_kept = int(np.count_nonzero(loose)), int(np.count_nonzero(~loose))
    kept = spectrum(problem, problem.units.columns(np.flatnonzero(~loose)))
    left, log_det, log_scale = _by_chance(problem, grid, loose)
    some = np.unique(np.geomspace(1, max(min(most - n_kept, n_loose + 1), 1), SIZES).astype(np.intp)) - 1
    with np.errstate(divide="ignore"):
        log_share = np.log(some / max(n_loose, 1))
    at = np.maximum(log_share[:, None] + grid.log_g, log_scale[0])
    of_kept = left_over(problem, kept, grid.k) / left[0]
    likelihood = of_left_over(problem, grid.noise_var, of_kept * np.interp(at, log_scale, left))
    likelihood -= 0.5 * (np.log1p(kept.values / grid.k[:, None]).sum(axis=1) + np.interp(at, log_scale, log_det))
    prior = priors_of_sizes(grid, n_kept + some, n_kept + int(some[-1]) + 1)
    of_some = likelihood + prior + log_sets(n_loose, some)[:, None]
    sizes = np.arange(some[-1] + 1)
    log_mass = _between(some, of_some, sizes)
    of_size = logsumexp(log_mass, axis=1)
    least = np.log(LEFT_OUT) + logsumexp(of_size)
    last = int(np.flatnonzero(np.logaddexp.accumulate(of_size[::-1])[::-1] > least)[-1])
    total = logsumexp(of_size[: last + 1])
    return Renewed(loose, log_mass[: last + 1] - (total + log_sets(n_loose, sizes[: last + 1]))[:, None])


def _between(some: IntArray, values: FloatArray, sizes: IntArray) -> FloatArray:
    """Values (S, K) that are known of some sizes, at others: on a scale on which they are smooth."""
    if some.size == 1:
        return values
    at, known, values = np.log1p(sizes), np.log1p(some), np.maximum(values, NOTHING)
    below = np.clip(np.searchsorted(known, at, side="right") - 1, 0, known.size - 2)
    share = ((at - known[below]) / np.diff(known)[below])[:, None]
    between = values[below + 1] * share
    between += values[below] * (1.0 - share)
    return between


def shares_of_sizes(renewed: Renewed) -> FloatArray:
    """How often a move is to 0, 1, ... loose units, (S,)."""
    n_loose, of_set = int(np.count_nonzero(renewed.loose)), logsumexp(renewed.log_prob, axis=1)
    return np.asarray(np.exp(of_set + log_sets(n_loose, np.arange(of_set.size))))


def renewal_work(problem: Problem, renewed: Renewed) -> float:
    """Multiplications of a move on average, about."""
    share = shares_of_sizes(renewed)
    m, n = np.arange(share.size) * (problem.d / problem.units.n), _n_rows(problem)
    r = np.minimum(m, n)
    return float(share @ (r**3 / 6.0 + 0.5 * m * r * np.where(m > n, r, _product_work(problem))))


def step_work(problem: Problem, m: float) -> float:
    """Those of another step, where m columns are in, with all that is done beside them."""
    return STEP + m * _product_work(problem) + 2.0 * min(m, _n_rows(problem)) ** 2


def longer_step(problem: Problem, m: float) -> float:
    """How many times as long a step in the largest sets takes as one in sets of m columns."""
    # With more columns than rows they are held by their rows.
    return step_work(problem, min(float(problem.d), _n_rows(problem))) / step_work(problem, m)


def _n_rows(problem: Problem) -> float:
    """Rows that are held; infinitely many if none are."""
    return np.inf if problem.rows is None else float(problem.rows.shape[0])


def _product_work(problem: Problem) -> float:
    """Multiplications for an entry of X'X."""
    return 1.0 if problem.gram is not None else _n_rows(problem)


def _by_chance(problem: Problem, grid: Grid, loose: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """R and ``log |I + s X_N'X_N|`` for several s, and log s: all loose columns N, the others projected out."""
    columns = np.flatnonzero(loose[problem.units.of_column])
    others = np.setdiff1d(np.arange(problem.d), columns)
    of_all = _by_moments if problem.rows is None else _by_rows
    values, cross, yy = of_all(problem, columns, others)
    low, high = float(grid.log_g[0]) - np.log(problem.units.n), float(grid.log_g[-1])
    log_scale = np.linspace(low - 1.0, high, SCALES)
    scale = np.exp(log_scale)[:, None]
    left = yy - (cross**2 * (scale / (1.0 + values * scale))).sum(axis=1)
    return np.maximum(left, FLOOR * problem.yy), np.log1p(values * scale).sum(axis=1), log_scale


def _by_rows(problem: Problem, columns: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray, float]:
    """Eigenvalues of X_N X_N', the products of ``X_N'y`` with its axes, and y'y, without the other columns."""
    target, outside = problem.in_rows()[1:]
    assert target is not None
    turned = problem.columns_alone()
    own = turned[columns] if others.size else turned
    square = blas.product(own, own, transpose_a=True)
    if others.size:
        q = np.linalg.qr(turned[others].T)[0]
        square -= q @ (q.T @ square)
        square -= (square @ q) @ q.T
        target = target - q @ (q.T @ target)
    values, vectors = np.linalg.eigh(square)
    values = np.maximum(values, 0.0)
    return values, np.sqrt(values) * (vectors.T @ target), float(target @ target) + outside


def _by_moments(problem: Problem, columns: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray, float]:
    """As :func:`_by_rows`, of X'X alone."""
    square, cross, yy = problem.block(columns), problem.cross[columns], problem.yy
    if others.size:
        between = problem.stacked(others)[:, columns]
        both = np.column_stack([between, problem.cross[others]])
        moved = np.linalg.lstsq(problem.block(others), both, rcond=None)[0]
        square = square - between.T @ moved[:, :-1]
        cross, yy = cross - between.T @ moved[:, -1], yy - float(problem.cross[others] @ moved[:, -1])
    values, vectors = np.linalg.eigh(square)
    return np.maximum(values, 0.0), vectors.T @ cross, yy
