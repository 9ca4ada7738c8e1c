"""Smooth functions at the nodes of an integral, computed at some of them: polynomials, tried out at others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from scipy.linalg import qr

from pybayesridge._types import FloatArray, IntArray

DEGREE = 5
"""Of the polynomials."""

ROUNDS = 2
"""For each of their coefficients so many nodes."""

TRIED = 16
"""Nodes at which they are tried out."""

ACCEPTED = 2e-3
"""Largest mean error there, of logs of variances. That of standard deviations is at most half of it."""

SEED = 20
"""Of the choice of these: the same data have the same answer."""


def filled(features: FloatArray, weight: FloatArray, function: Callable[[int], FloatArray]) -> FloatArray:
    """Values of functions at all nodes, (M, J).

    They are computed at nodes that determine polynomials well, and at some others by chance, those of large weight
    more often, where the polynomials are tried out: if one of them is off by more than :data:`ACCEPTED` in the mean,
    all others are computed too.

    Parameters
    ----------
    features : (M, d) array
        In which the functions are smooth.
    weight : (M,) array
        Of the nodes, sums to 1.
    function : callable
        The values (J,) at a node.
    """
    basis = polynomials(features, weight)
    chosen = _determining(basis, weight)
    others = np.setdiff1d(np.arange(weight.size), chosen)
    tried = others
    if others.size > TRIED:
        heavy = weight[others] + weight.max() * 1e-6
        tried = np.sort(np.random.default_rng(SEED).choice(others, TRIED, replace=False, p=heavy / heavy.sum()))
    known = np.concatenate([chosen, tried])
    values = np.stack([function(m) for m in known.tolist()])
    importance = np.sqrt(weight[chosen] + weight.max() * 1e-4)[:, None]
    fitted = np.linalg.lstsq(importance * basis[chosen], importance * values[: chosen.size], rcond=None)[0]
    out = basis @ fitted
    if tried.size and np.abs(out[tried] - values[chosen.size :]).mean(axis=0).max(initial=0.0) > ACCEPTED:
        rest = np.setdiff1d(others, tried)
        out[rest] = [function(m) for m in rest.tolist()]
    out[known] = values
    return out


def polynomials(features: FloatArray, weight: FloatArray) -> FloatArray:
    """All products of up to :data:`DEGREE` features (M, d), which are standardised, (M, number of products)."""
    middle = weight @ features
    spread = np.sqrt(weight @ (features - middle) ** 2)
    x = (features - middle) / np.where(spread > 0, spread, 1.0)
    columns = [np.ones(len(x))]
    for degree in range(1, DEGREE + 1):
        columns += [
            x[:, list(each)].prod(axis=1) for each in combinations_with_replacement(range(x.shape[1]), degree)
        ]
    return np.stack(columns, axis=1)


def _determining(basis: FloatArray, weight: FloatArray) -> IntArray:
    """Nodes whose rows are far from combinations of each other, those of large weight first."""
    left, out = np.arange(len(basis)), np.zeros(0, dtype=np.intp)
    for _ in range(ROUNDS):
        rows = basis[left] * np.sqrt(weight[left] + weight.max() * 1e-4)[:, None]
        order = qr(rows.T, mode="r", pivoting=True)[1][: basis.shape[1]]
        out = np.concatenate([out, left[order]])
        left = np.delete(left, order)
    return out
