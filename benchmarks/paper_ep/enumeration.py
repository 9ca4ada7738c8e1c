"""The exact posterior of spike and slab: a sum over all 2^d inclusion patterns, each by one rank-one update.

The patterns form a tree: a child adds one column beyond the last of its parent. Every pattern is met once and its
covariance K = noise I + slab sum x x' is reached by at most d additions, so that rounding does not build up as it
does along a Gray code. Sums over a subtree are handed up when it is left; those of a column are the subtrees where
it was added. Needs numba (pip install 'pybayesridge[benchmarks]'); 2^25 patterns of 10 rows take some seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

NEGLIGIBLE = 1e-25
"""Patterns of less than this share of the largest met so far are left out: 2^25 of them weigh 3e-18."""
HEADROOM = 50.0
"""The weights' unit is raised when a log weight exceeds it by this much."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The exact posterior.

    Attributes
    ----------
    log_evidence : float
    inclusion_prob, mean, var : (d,) arrays
        Moments of the coefficients, over spike and slab together.
    """

    log_evidence: float
    inclusion_prob: np.ndarray
    mean: np.ndarray
    var: np.ndarray


def enumerate_patterns(
    x: np.ndarray, y: np.ndarray, prior_inclusion: np.ndarray, slab_var: float, noise_var: float
) -> Exact:
    """Sum over all patterns of d columns.

    Parameters
    ----------
    x : (n, d) array
    y : (n,) array
    prior_inclusion : (d,) array
        Strictly between 0 and 1.
    slab_var, noise_var : float

    Returns
    -------
    Exact
    """
    p = np.asarray(prior_inclusion, dtype=float)
    if not np.all((p > 0) & (p < 1)):
        raise ValueError("prior_inclusion must lie strictly between 0 and 1: leave out columns that are always out")
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    rows, square = y.size, float(y @ y)
    if x.shape[0] > x.shape[1]:
        # d rows say the same of the coefficients.
        q, x = np.linalg.qr(x)
        y = q.T @ y
    n, d = x.shape
    columns = np.ascontiguousarray(x.T)
    inverse, a = np.empty((d + 1, n, n)), np.empty((d + 1, n))
    inverse[0], a[0] = np.eye(n) / noise_var, y / noise_var
    sums = np.zeros((d + 1, 1 + n + n * n))
    odds = np.log(p) - np.log1p(-p)
    unit, total, of_column = _walk(columns, odds, float(slab_var), sums, inverse, a)
    inside, first, second = of_column / total
    empty = np.log1p(-p).sum() - 0.5 * (rows * np.log(2 * np.pi * noise_var) + square / noise_var)
    mean = slab_var * first
    return Exact(
        log_evidence=float(empty + unit + np.log(total)),
        inclusion_prob=inside,
        mean=mean,
        var=slab_var * inside + slab_var**2 * second - mean**2,
    )


@njit(cache=True)
def _walk(columns, log_odds, slab, sums, inverse, a):
    """Sum over the tree below the empty pattern, whose K^-1 and K^-1 y stand in inverse[0] and a[0].

    Given a pattern with a = K^-1 y: weight, mean slab x'a, second moment slab + slab^2 x'(a a' - K^-1) x. Returns the
    log of the unit of weight, the total, and for each column the total, x'a and x'(a a' - K^-1) x over the patterns
    that hold it.
    """
    d, n = columns.shape
    u, of_column = np.empty(n), np.zeros((3, d))
    log_weight, following, added = np.zeros(d + 1), np.zeros(d + 1, np.int64), np.zeros(d + 1, np.int64)
    unit = 0.0
    _open(sums, inverse, a, 0, 1.0)
    level = 0
    while level >= 0:
        j = following[level]
        if j == d:
            if level > 0:
                _close(columns[added[level]], added[level], sums, level, of_column)
            level -= 1
            continue
        following[level] = j + 1
        child = level + 1
        log_weight[child] = log_weight[level] + log_odds[j] + _add(columns[j], slab, inverse, a, level, u, j + 1 < d)
        if log_weight[child] > unit + HEADROOM:
            shrink = math.exp(unit - log_weight[child])
            _scale(sums, shrink)
            _scale(of_column, shrink)
            unit = log_weight[child]
        weight = math.exp(log_weight[child] - unit)
        if j + 1 == d:
            if weight > NEGLIGIBLE:
                _add(columns[j], slab, inverse, a, level, u, True)
                _open(sums, inverse, a, child, weight)
                _close(columns[j], j, sums, child, of_column)
            continue
        _open(sums, inverse, a, child, weight)
        following[child], added[child] = j + 1, j
        level = child
    return unit, sums[0, 0], of_column


@njit(cache=True)
def _add(x, slab, inverse, a, level, u, store):
    """Gain in log weight when x joins the pattern at `level`; `store` the inverse and K^-1 y in the next level.

    By Sherman and Morrison's formula; `u` is scratch.
    """
    n = x.size
    spread = 1.0
    fit = 0.0
    for i in range(n):
        product = 0.0
        for k in range(n):
            product += inverse[level, i, k] * x[k]
        u[i] = product
        spread += slab * x[i] * product
        fit += x[i] * a[level, i]
    if store:
        factor = slab / spread
        for i in range(n):
            a[level + 1, i] = a[level, i] - factor * fit * u[i]
            for k in range(n):
                inverse[level + 1, i, k] = inverse[level, i, k] - factor * u[i] * u[k]
    return 0.5 * (slab * fit * fit / spread - math.log(spread))


@njit(cache=True)
def _open(sums, inverse, a, level, weight):
    """Start the sums of a subtree with its root's own: weight, weight times a, weight times a a' - K^-1."""
    n = a.shape[1]
    if weight <= NEGLIGIBLE:
        sums[level, 0] = 0.0
        return
    sums[level, 0] = weight
    for i in range(n):
        sums[level, 1 + i] = weight * a[level, i]
        for k in range(n):
            sums[level, 1 + n + i * n + k] = weight * (a[level, i] * a[level, k] - inverse[level, i, k])


@njit(cache=True)
def _close(x, j, sums, level, of_column):
    """Count a finished subtree for the column that its root added, and hand its sums to the parent."""
    if sums[level, 0] == 0.0:
        return
    n = x.size
    of_column[0, j] += sums[level, 0]
    for i in range(n):
        of_column[1, j] += x[i] * sums[level, 1 + i]
        for k in range(n):
            of_column[2, j] += x[i] * x[k] * sums[level, 1 + n + i * n + k]
    fresh = sums[level - 1, 0] == 0.0
    for i in range(sums.shape[1]):
        sums[level - 1, i] = sums[level, i] if fresh else sums[level - 1, i] + sums[level, i]


@njit(cache=True)
def _scale(array, factor):
    """Multiply in place; a loop compiles faster than an array expression."""
    for i in range(array.shape[0]):
        for k in range(array.shape[1]):
            array[i, k] *= factor
