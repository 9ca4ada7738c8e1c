"""Smooth functions at the nodes of an integral, computed at some of them: polynomials, tried out at others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from scipy.linalg import qr

from pybayesridge._types import FloatArray, IntArray

DEGREES = (4, 5)
"""Of the polynomials that are tried, one after the other."""

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
    so are those of the next degree, and after the last of them all others are computed too.

    Parameters
    ----------
    features : (M, d) array
        In which the functions are smooth.
    weight : (M,) array
        Of the nodes, sums to 1.
    function : callable
        The values (J,) at a node.
    """
    known: dict[int, FloatArray] = {}

    def at(nodes: IntArray) -> FloatArray:
        known.update((m, function(m)) for m in nodes.tolist() if m not in known)
        return np.stack([known[m] for m in nodes.tolist()])

    every = np.arange(weight.size)
    for degree in DEGREES:
        basis = polynomials(features, weight, degree)
        chosen = _determining(basis, weight)
        tried = others = np.setdiff1d(every, chosen)
        if others.size > TRIED:
            heavy = weight[others] + weight.max() * 1e-6
            tried = np.sort(np.random.default_rng(SEED).choice(others, TRIED, replace=False, p=heavy / heavy.sum()))
        importance = np.sqrt(weight[chosen] + weight.max() * 1e-4)[:, None]
        fitted = np.linalg.lstsq(importance * basis[chosen], importance * at(chosen), rcond=None)[0]
        out: FloatArray = basis @ fitted
        if not tried.size or np.abs(out[tried] - at(tried)).mean(axis=0).max(initial=0.0) <= ACCEPTED:
            out[list(known)] = np.stack(list(known.values()))
            return out
    return at(every)


def polynomials(features: FloatArray, weight: FloatArray, most: int) -> FloatArray:
    """All products of up to `most` features (M, d), which are standardised, (M, number of products)."""
    middle = weight @ features
    spread = np.sqrt(weight @ (features - middle) ** 2)
    x = (features - middle) / np.where(spread > 0, spread, 1.0)
    columns = [np.ones(len(x))]
    for degree in range(1, most + 1):
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
