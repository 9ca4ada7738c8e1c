"""The sum over all sets of up to 15 columns or groups, and over the nodes of the hyperparameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.model.least_squares import EPS
from pybayesridge.selection.collapsed import FLOOR, of_left_over
from pybayesridge.selection.grid import Given, Grid, grid_of
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import Exact, Model
from pybayesridge.selection.states import build_states, mean_noise, resampled

MAX_UNITS = 15
"""Columns or groups that may be in or out, up to which all sets are summed over."""

QUADRATURE_TOL = 1e-8
"""Change of an inclusion probability at which the grid is fine enough."""

COARSE = 4.0
"""Width of a panel of log g to begin with."""

REFINEMENTS = 3

TAIL = 1e-12
"""Posterior probability of the sets that moments leave out."""

AT_ONCE = 2**18
"""Numbers in a piece of work."""


def can_enumerate(grid: Grid) -> bool:
    """Whether few enough units may be in or out."""
    return _free(grid).size <= MAX_UNITS


def _free(grid: Grid) -> IntArray:
    odds = grid.unit_odds
    return np.arange(grid.n_units) if odds is None else np.flatnonzero(np.isfinite(odds))


def _always(grid: Grid) -> IntArray:
    odds = grid.unit_odds
    return np.zeros(0, dtype=np.intp) if odds is None else np.flatnonzero(odds == np.inf)


def enumerate_sets(
    problem: Problem, given: Given, *, rng: int | np.random.Generator = 0, n_models: int = 100
) -> Exact:
    """Sum over all sets; the grid of learned hyperparameters is refined until inclusion probabilities stay."""
    grid = grid_of(problem, given, panel=COARSE)
    log_joint = joint_table(problem, grid)
    error = 0.0
    if grid.log_g.size > 1 or grid.unit_odds is None:
        before = _marginals(grid, log_joint)[0]
        for fineness in range(1, REFINEMENTS + 1):
            grid = grid_of(problem, given, panel=COARSE * 0.5**fineness, prior=grid.prior)
            log_joint = joint_table(problem, grid)
            now = _marginals(grid, log_joint)[0]
            error = float(np.abs(now - before).max(initial=0.0))
            before = now
            if error <= QUADRATURE_TOL:
                break
    return _summed(problem, grid, log_joint, error, np.random.default_rng(rng), n_models)


def joint_table(problem: Problem, grid: Grid) -> FloatArray:
    """Log p(y, A, node) of every set, (K, 2^f) for f free units: bit i of the position is the i-th free unit."""
    free = _free(grid)
    n_in = _popcount(free.size)
    width = max(2**free.size, problem.units.sizes[np.concatenate([_always(grid), free])].sum() ** 2)
    chunk = max(AT_ONCE // width, 1)
    k = grid.k
    out = np.empty((k.size, 2**free.size))
    for first in range(0, k.size, chunk):
        nodes = slice(first, min(first + chunk, k.size))
        found = fits_of_all_sets(problem, grid, k[nodes])
        noise = None if grid.noise_var is None else grid.noise_var[nodes, None]
        out[nodes] = of_left_over(problem, noise, found.left) - 0.5 * found.log_det
    if grid.unit_odds is None:
        out += np.stack([grid.log_size(m) for m in range(free.size + 1)], axis=1)[:, n_in]
        return out
    odds = grid.unit_odds[free]
    prior = np.zeros(1)
    for one in odds:
        prior = np.concatenate([prior, prior + one])
    return out + prior + grid.log_none + grid.log_weight[:, None]


@dataclass(frozen=True, slots=True)
class FitsOfAllSets:
    """Fits of every set, in the order of :func:`joint_table`, at some nodes.

    Attributes
    ----------
    left, log_det : (K, 2^f) arrays
        R, and ``log|I + g X_A'X_A|``.
    fitted, leverage : (K, 2^f, r) arrays
        Of some rows.
    """

    left: FloatArray
    log_det: FloatArray
    fitted: FloatArray
    leverage: FloatArray


def fits_of_all_sets(problem: Problem, grid: Grid, k: FloatArray, x: FloatArray | None = None) -> FitsOfAllSets:
    """Fit every set at some 1 / g, (K,), to predict the rows x (r, d).

    Units are taken in or left out one after the other; a set's Schur complement of the columns that follow is shared
    by all sets that begin with it, so that a set costs a few operations, and a few for each row.
    """
    always, free = _always(grid), _free(grid)
    units = np.concatenate([always, free]).astype(np.intp)
    columns = problem.units.columns(units)
    right = problem.cross[columns, None]
    if x is not None:
        right = np.concatenate([right, x[:, columns].T], axis=1)
    gram, sizes = problem.block(columns), problem.units.sizes[units]
    fit, leverage, log_det = _eliminate(gram, right, k, sizes, int(always.size))
    left = np.maximum(problem.yy - fit[..., 0], FLOOR * problem.yy)
    return FitsOfAllSets(left, log_det, fit[..., 1:], leverage)


def _popcount(n: int) -> IntArray:
    count = np.zeros(1, dtype=np.intp)
    for _ in range(n):
        count = np.concatenate([count, count + 1])
    return count


def _eliminate(
    gram: FloatArray, right: FloatArray, k: FloatArray, sizes: IntArray, must: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """With right sides [c, X']: ``c'(G + k)^-1 [c, X']``, the diagonal of ``X(G + k)^-1 X'``, ``log|I + G / k|``.

    Of all sets: (K, 2^f, 1 + r), (K, 2^f, r) and (K, 2^f).
    """
    d, width = right.shape
    # (K, patterns, m, m + 1 + r): what is left of the columns to come, and of the right sides.
    rest = np.broadcast_to(np.column_stack([gram, right]), (k.size, 1, d, d + width))
    fit, square, log_det = np.zeros((k.size, 1, width)), np.zeros((k.size, 1, width - 1)), np.zeros((k.size, 1))
    for i, size in enumerate(sizes):
        inside, of_fit, of_square, log_ratio = rest, fit, square, log_det
        for _ in range(size):
            # What the columns before leave of a square is below 0 by rounding alone.
            pivot = np.maximum(inside[:, :, 0, 0], 0.0) + k[:, None]
            own = inside[:, :, 0, -width:] / np.sqrt(pivot)[..., None]
            of_fit, of_square = of_fit + own[..., :1] * own, of_square + own[..., 1:] ** 2
            log_ratio = log_ratio + np.log(pivot / k[:, None])
            row = inside[:, :, 0, 1:]
            inside = inside[:, :, 1:, 1:] - (inside[:, :, 1:, 0] / pivot[..., None])[..., None] * row[:, :, None, :]
        if i < must:
            rest, fit, square, log_det = inside, of_fit, of_square, log_ratio
            continue
        rest = np.concatenate([rest[:, :, size:, size:], inside], axis=1)
        fit, square, log_det = (
            np.concatenate(pair, axis=1) for pair in ((fit, of_fit), (square, of_square), (log_det, log_ratio))
        )
    return fit, square, log_det


def _marginals(grid: Grid, log_joint: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Inclusion probabilities (G,), probabilities of sets (2^f,) and of nodes (K,), log evidence."""
    top = float(log_joint.max())
    joint = np.exp(log_joint - top)
    total = float(joint.sum())
    of_set, of_node = (np.minimum(joint.sum(axis=axis) / total, 1.0) for axis in (0, 1))
    prob = np.zeros(grid.n_units)
    prob[_always(grid)] = 1.0
    free = _free(grid)
    for i, unit in enumerate(free):
        prob[unit] = min(float(of_set.reshape(-1, 2, 2**i)[:, 1].sum()), 1.0)
    return prob, of_set, of_node, top + float(np.log(total))


def units_in(code: int, grid: Grid) -> IntArray:
    """The units of a set by its position in :func:`joint_table`, ascending."""
    return np.flatnonzero(_members(np.array([code]), grid)[0])


def _members(codes: IntArray, grid: Grid) -> BoolArray:
    """Whether each unit is in some sets, by their positions in :func:`joint_table`, (a, G)."""
    free = _free(grid)
    out = np.zeros((codes.size, grid.n_units), dtype=bool)
    out[:, _always(grid)] = True
    out[:, free] = (codes[:, None] >> np.arange(free.size)) & 1
    return out


def _summed(
    problem: Problem, grid: Grid, log_joint: FloatArray, error: float, rng: np.random.Generator, n_models: int
) -> Exact:
    prob, of_set, of_node, evidence = _marginals(grid, log_joint)
    free, always = _free(grid), _always(grid)
    size_prob: FloatArray = np.bincount(_popcount(free.size) + always.size, of_set).astype(float)
    order = np.argsort(-of_set, kind="stable")
    relevant = order[: int(np.searchsorted(np.cumsum(of_set[order]), 1.0 - TAIL)) + 1]
    log_weight = log_joint - evidence
    joint = np.exp(log_weight - logsumexp(log_weight))
    moments = _moments(problem, grid, joint, relevant)
    weight = joint.ravel()
    code = np.arange(weight.size) % of_set.size
    index, kept = resampled(weight, (_popcount(free.size) + always.size)[code].astype(float), rng)
    sets = {c: units_in(c, grid) for c in np.unique(code[index]).tolist()}
    states = build_states(
        problem,
        grid,
        [sets[c] for c in code[index].tolist()],
        index // of_set.size,
        kept,
        np.zeros(index.size, dtype=np.intp),
        rng,
    )
    models = tuple(Model(units_in(c, grid), float(of_set[c])) for c in order[:n_models])
    return Exact(
        unit_prob=prob,
        unit_se=np.zeros(prob.size),
        inclusion_prob=prob[problem.units.of_column],
        inclusion_se=np.zeros(problem.d),
        mean=moments.mean,
        var=moments.var,
        cond_mean=moments.cond_mean,
        cond_var=moments.cond_var,
        size_prob=size_prob,
        node_prob=of_node,
        models=models,
        log_evidence=evidence,
        log_evidence_se=0.0,
        states=states,
        grid=grid,
        method="enumeration",
        converged=error <= QUADRATURE_TOL + 0.5 * EPS * problem.yy / float(states.mean_noise().min()),
        n_iter=int(log_joint.size),
        quadrature_error=error,
    )


def _by_size(problem: Problem, grid: Grid, codes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Sets in pieces with equally many columns: their codes (a,) and columns (a, m)."""
    units = problem.units
    # Columns that may be in, unit by unit.
    some = units.order[_members(np.array([-1]), grid)[0][units.of_column[units.order]]]
    sizes = _members(codes, grid) @ units.sizes
    for m in np.unique(sizes):
        which = np.flatnonzero(sizes == m)
        chunk = max(AT_ONCE // max(int(m) * max(int(m), grid.log_g.size), 1), 1)
        for first in range(0, which.size, chunk):
            piece = codes[which[first : first + chunk]]
            inside = _members(piece, grid)[:, units.of_column[some]]
            yield piece, some[np.nonzero(inside)[1]].reshape(piece.size, m)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Of the coefficients, and of these given that they are in, each (d,)."""

    mean: FloatArray
    var: FloatArray
    cond_mean: FloatArray
    cond_var: FloatArray


def _moments(problem: Problem, grid: Grid, joint: FloatArray, codes: IntArray) -> _Moments:
    """Moments of the coefficients over the sets `codes`, with probabilities `joint` (K, 2^f).

    Moments are about the coefficients of the most probable set: with strong signals these can be millions of standard
    deviations from zero.
    """
    gram = problem.block(np.arange(problem.d))
    node = int(np.argmax(joint[:, codes[0]]))
    center, inside, outside, first, second = np.zeros((5, problem.d))
    for _, columns in _by_size(problem, grid, codes[:1]):
        center[columns[0]] = _coefficients(problem, grid, gram, columns)[0][0, node]
    for code, columns in _by_size(problem, grid, codes):
        weight = joint[:, code].T  # (a, K)
        out = np.ones((code.size, problem.d), dtype=bool)
        np.put_along_axis(out, columns, False, axis=1)
        outside += weight.sum(axis=1) @ out
        if columns.shape[1] == 0:
            continue
        coef, var = _coefficients(problem, grid, gram, columns)
        gap = coef - center[columns][:, None, :]
        np.add.at(inside, columns, weight.sum(axis=1)[:, None])
        np.add.at(first, columns, np.einsum("ak,akj->aj", weight, gap))
        np.add.at(second, columns, np.einsum("ak,akj->aj", weight, gap**2 + var))
    safe = np.where(inside > 0, inside, 1.0)
    total, cond_gap = inside + outside, first / safe
    gap = (first - outside * center) / total
    return _Moments(
        mean=center + gap,
        var=np.maximum((second + outside * center**2) / total - gap**2, 0.0),
        cond_mean=np.where(inside > 0, center + cond_gap, 0.0),
        cond_var=np.maximum(second / safe - cond_gap**2, 0.0),
    )


def _coefficients(problem: Problem, grid: Grid, gram: FloatArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances of the coefficients of sets of `columns` (a, m) at all nodes, each (a, K, m)."""
    values, vectors = np.linalg.eigh(gram[columns[:, :, None], columns[:, None, :]])
    values = np.maximum(values, 0.0)
    cross = np.einsum("ai,aij->aj", problem.cross[columns], vectors)
    inverse = 1.0 / (values[:, None, :] + grid.k[:, None])  # (a, K, m)
    coef = (cross[:, None, :] * inverse) @ vectors.transpose(0, 2, 1)
    spread = inverse @ (vectors**2).transpose(0, 2, 1)
    left = problem.yy - np.einsum("aj,akj->ak", cross**2, inverse)
    left = np.maximum(left, FLOOR * problem.yy)
    noise = np.broadcast_to(mean_noise(left, problem.nu) if grid.noise_var is None else grid.noise_var, left.shape)
    return coef, noise[..., None] * spread
