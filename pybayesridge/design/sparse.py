"""X'X or XX' of a sparse X, centred implicitly: nothing of the size of X is made dense.

    sqrt(W) (X - 1 m') = sqrt(W) X - Q P,    Q an orthonormal basis of sqrt(W) Z,  P = Q' sqrt(W) X

so that the projected product is that of the sparse matrix less a correction of rank k. The correction cancels where
means are large relative to standard deviations, or where Z explains nearly all of a column; then the caller takes the
products of dense blocks instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.linalg import blas
from pybayesridge.linalg.scale import SAFE, common_scale, constant_columns

FULL = 0.25
"""Columns with a larger share of rows that are not zero are centred explicitly."""

AT_ONCE = 64
"""So many of them at a time."""

CANCELS = 1e6
"""Largest ratio of what is taken from a sum of squares to what is left: ten digits are left."""


def sparse_products(
    x: Any, columns: IntArray, block: Unpenalized, y: FloatArray, *, standardize: bool
) -> dict[str, Any] | None:
    """The fields of a ``CrossProducts``, or None where implicit centring would cost too many digits.

    Parameters
    ----------
    x : (n, m) CSC matrix
    columns : (p,) int array
        Positions of the penalised columns.
    block : Unpenalized
    y : (n, q) array
        Weighted targets with Z projected out.
    standardize : bool
    """
    n = x.shape[0]
    chosen = x[:, columns].astype(np.float64)
    root = np.ones(n) if block.sqrt_w is None else block.sqrt_w
    weighted = sparse.csc_matrix(sparse.diags(root) @ chosen) if block.sqrt_w is not None else chosen
    with np.errstate(over="ignore", under="ignore"):
        square = np.asarray(weighted.multiply(weighted).sum(axis=0)).ravel()
    mean = np.asarray(chosen.T @ root**2).ravel() / n
    variance = square / n - mean**2
    filled = np.diff(chosen.indptr) > 0
    if not ((square > SAFE[0]) & (square < SAFE[1]))[filled].all():
        return None
    # A column with a single value in every row is constant; elsewhere a small variance may have cancelled.
    if (mean**2 > CANCELS * np.maximum(variance, 0.0))[filled].any():
        return None
    of_z = np.asarray((weighted.T @ block.q).T)
    taken = np.einsum("ij,ij->j", of_z, of_z)
    if (taken > CANCELS * np.maximum(square - taken, 0.0))[filled].any():
        return None
    sd = np.sqrt(np.maximum(variance, 0.0))
    centred = block.ones is not None
    constant = constant_columns(sd, np.abs(mean))
    scale = np.where(constant, 1.0, sd) if standardize else np.full(sd.size, common_scale(sd))
    inverse = np.where(constant & centred, 0.0, 1.0 / scale)
    on_q = of_z * inverse
    scaled = weighted @ sparse.diags(inverse)
    center = mean if centred else np.zeros(sd.size)
    projection = None
    if block.k > 0 and not block.only_constant:
        of_center = np.outer(block.q.T @ root, center * inverse)
        projection = block.regress(on_q - of_center) * scale
    tall = n >= columns.size
    return {
        "side": "gram" if tall else "dual",
        "product": _gram(scaled, on_q) if tall else _dual(scaled, on_q, block.q),
        "xty": np.asarray(scaled.T @ y) if tall else None,
        "center": center,
        "projection": projection,
        "scale": scale,
        "sd": sd,
        "constant": constant,
    }


def sparse_columns(x: Any, columns: IntArray, block: Unpenalized, *, standardize: bool) -> dict[str, Any]:
    """The fields of a ``CrossProducts`` whose product is of no columns: means, scales, and what Z takes of these.

    Arguments are those of :func:`sparse_products`.
    """
    n, p = x.shape[0], columns.size
    root = np.ones(n) if block.sqrt_w is None else block.sqrt_w
    centred = block.ones is not None
    mean, sd, on_q, magnitude = np.zeros(p), np.zeros(p), np.zeros((block.k, p)), np.zeros(p)
    filled = np.diff(x.indptr)[columns]
    some = np.flatnonzero(filled <= FULL * n)
    if some.size:
        chosen = x[:, columns[some]].astype(np.float64)
        top = np.maximum(abs(chosen).max(axis=0).toarray().ravel(), np.finfo(float).tiny)
        chosen = sparse.csc_matrix(chosen @ sparse.diags(1.0 / top))
        mean[some] = np.asarray(chosen.T @ root**2).ravel() / n
        square = np.asarray(chosen.power(2).T @ root**2).ravel() / n
        sd[some] = top * np.sqrt(np.maximum(square - mean[some] ** 2, 0.0))
        on_q[:, some] = np.asarray(chosen.T @ (root[:, None] * block.q)).T
        if centred:
            on_q[:, some] -= np.outer(block.q.T @ root, mean[some])
        mean[some] *= top
        on_q[:, some] *= top
        magnitude[some] = np.abs(mean[some])
    full = np.flatnonzero(filled > FULL * n)
    for start in range(0, full.size, AT_ONCE):
        part = full[start : start + AT_ONCE]
        dense = x[:, columns[part]].toarray().astype(np.float64)
        first = dense[0]
        shift = first + (root**2 @ (dense - first)) / n
        rest = dense - shift
        mean[part], magnitude[part] = shift, np.abs(shift)
        most = np.maximum(np.abs(rest).max(axis=0), np.finfo(float).tiny)
        sd[part] = most * np.sqrt((root**2 @ (rest / most) ** 2) / n)
        on_q[:, part] = block.q.T @ (root[:, None] * (rest if centred else dense))
    constant = constant_columns(sd, magnitude)
    scale = np.where(constant, 1.0, sd) if standardize else np.full(p, common_scale(sd))
    projection = block.regress(on_q) if block.k > 0 and not block.only_constant else None
    return {
        "side": "gram",
        "product": np.empty((0, 0)),
        "xty": None,
        "center": mean if centred else np.zeros(p),
        "projection": projection,
        "scale": scale,
        "sd": sd,
        "constant": constant,
    }


def _gram(scaled: Any, on_q: FloatArray) -> FloatArray:
    out: FloatArray = np.asfortranarray((scaled.T @ scaled).toarray())
    out -= blas.product(on_q, on_q, transpose_a=True)
    return out


def _dual(scaled: Any, on_q: FloatArray, q: FloatArray) -> FloatArray:
    out: FloatArray = np.asfortranarray((scaled @ scaled.T).toarray())
    cross = blas.product(q, np.ascontiguousarray(np.asarray(scaled @ on_q.T).T))
    out -= cross + cross.T
    out += blas.product(q, blas.product(blas.product(on_q, np.ascontiguousarray(on_q.T)), np.ascontiguousarray(q.T)))
    return out
