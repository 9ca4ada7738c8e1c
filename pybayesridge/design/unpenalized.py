"""The unpenalised block Z (the intercept and whatever else has a flat prior): its basis and projections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular
from scipy.linalg.lapack import dtrtrs

from pybayesridge._types import FloatArray
from pybayesridge.linalg import blas

COLLINEAR = 1e-11
"""A column of Z whose part outside the others is at most this share of its norm counts as their combination."""


@dataclass(frozen=True, slots=True)
class Unpenalized:
    """Z with its weighted QR factorisation ``sqrt(W) Z = Q R``.

    Attributes
    ----------
    z : (n, k) array
        The columns on the user's scale.
    q : (n, k) array
        Orthonormal basis of ``sqrt(W) Z``.
    r : (k, k) array
        Upper triangular.
    ones : (k,) array or None
        The combination with ``Z @ ones = 1``; None when the constant is not in the span of Z.
    sqrt_w : (n,) array or None
        Square roots of the weights (of mean 1); None for equal weights.
    """

    z: FloatArray
    q: FloatArray
    r: FloatArray
    ones: FloatArray | None
    sqrt_w: FloatArray | None

    @property
    def k(self) -> int:
        """Number of columns, which is the rank."""
        return int(self.z.shape[1])

    @property
    def only_constant(self) -> bool:
        """Whether Z is a single constant column."""
        return self.k == 1 and self.ones is not None

    @property
    def loss(self) -> float:
        """Relative error, about, that rounding errors leave in coefficients on Z, by the condition of its columns."""
        if self.k <= 1:
            return 0.0
        return float(4 * np.finfo(float).eps * np.linalg.cond(self.r / np.linalg.norm(self.r, axis=0)))

    def weigh(self, a: FloatArray) -> FloatArray:
        """Multiply the rows of `a` by sqrt(w)."""
        if self.sqrt_w is None:
            return a
        return a * (self.sqrt_w[:, None] if a.ndim == 2 else self.sqrt_w)

    def regress(self, qta: FloatArray) -> FloatArray:
        """Weighted least-squares coefficients on Z from ``Q' sqrt(W) a``: ``R^-1 qta``, (k, m)."""
        if not self.k:
            return qta
        out: FloatArray
        out, info = dtrtrs(self.r.T, qta, lower=1, trans=1)  # the transpose lies as LAPACK wants it
        if info or len(self.r) != self.k:
            raise LinAlgError("the factor R of the unpenalised columns is not there, or is singular")
        return out

    def residual(self, a_w: FloatArray) -> FloatArray:
        """Project Q out of weighted columns; twice, since once loses digits under cancellation."""
        for _ in range(2 if self.k else 0):
            a_w = a_w - blas.product(self.q, blas.product(self.q, a_w, transpose_a=True))
        return a_w

    def leverage(self, z_rows: FloatArray) -> FloatArray:
        """``z (Z'WZ)^-1 z'`` for each row of `z_rows` (m, k)."""
        if not self.k:
            return np.zeros(z_rows.shape[0])
        half = solve_triangular(self.r, z_rows.T, trans="T", check_finite=False)
        return np.einsum("ij,ij->j", half, half)


DIGITS = 150
"""Powers of ten of a column from which on squares, such as variances of its coefficient, overflow or vanish."""

SMALL = 10_000
"""Up to this many rows the factorised intercept is kept: many small fits have the same number of them."""


def factorize(z: FloatArray, sqrt_w: FloatArray | None, names: Sequence[str], constant: int | None) -> Unpenalized:
    """Factorise the unpenalised block.

    Parameters
    ----------
    z : (n, k) array
        Finite float64 columns.
    sqrt_w : (n,) array or None
        Square roots of the weights.
    names : sequence of str
        Names of the columns, for messages.
    constant : int or None
        Position of the column that is the intercept, if there is one.

    Raises
    ------
    ValueError
        If a column is a combination of the others, or far too large or small.
    """
    n, k = z.shape
    if k == 1 and constant == 0 and sqrt_w is None and n <= SMALL and (z == 1.0).all():
        return _intercept(n)
    return _factorize(z, sqrt_w, names, constant)


@lru_cache(maxsize=16)
def _intercept(n: int) -> Unpenalized:
    """The block of an intercept alone. Its arrays cannot be written to, since models share them."""
    out = _factorize(np.ones((n, 1)), None, ["Intercept"], 0)
    for array in (out.z, out.q, out.r, out.ones):
        if array is not None:
            array.flags.writeable = False
    return out


def _factorize(z: FloatArray, sqrt_w: FloatArray | None, names: Sequence[str], constant: int | None) -> Unpenalized:
    n, k = z.shape
    order = np.arange(k)
    if constant is not None:
        order = np.r_[constant, np.delete(order, constant)]
    zw = z if sqrt_w is None else z * sqrt_w[:, None]
    size = np.abs(zw).max(axis=0, initial=0.0)
    size[size == 0] = 1.0
    q, r = (np.empty((n, 0)), np.empty((0, 0))) if k == 0 else qr(zw[:, order] / size[order], mode="economic")
    if k > n:
        raise ValueError(
            f"{k} unpenalised columns (the intercept among them) for {n} rows: leave some out of `unpenalized`"
        )
    pivots = np.abs(np.diag(r))
    norms = np.sqrt((r**2).sum(axis=0))
    bad = np.flatnonzero(pivots <= COLLINEAR * norms)
    if bad.size:
        listed = ", ".join(repr(names[order[i]]) for i in bad[:5])
        raise ValueError(
            f"unpenalised column(s) {listed} are linear combinations of the other unpenalised columns: "
            "leave them out, or let them be penalised"
        )
    far = np.flatnonzero(np.abs(np.log10(size)) > DIGITS)
    if far.size:
        listed = ", ".join(repr(names[i]) for i in far[:5])
        raise ValueError(f"the squares of unpenalised column(s) {listed} leave the range of floats: rescale them")
    # Undo the reordering: Q R P' has upper triangular R only in the sorted order, so refactorise P R.
    r_full = np.empty((k, k))
    r_full[:, order] = r * size[order]
    if k and not np.array_equal(order, np.arange(k)):
        rotate, r_full = qr(r_full, mode="economic")
        q = q @ rotate
    ones = _constant_combination(z, q, r_full, sqrt_w, constant)
    return Unpenalized(z=z, q=q, r=r_full, ones=ones, sqrt_w=sqrt_w)


def _constant_combination(
    z: FloatArray, q: FloatArray, r: FloatArray, sqrt_w: FloatArray | None, constant: int | None
) -> FloatArray | None:
    n, k = z.shape
    if k == 0:
        return None
    if constant is not None:
        ones = np.zeros(k)
        ones[constant] = 1.0 / z[0, constant]
        return ones
    target = np.ones(n) if sqrt_w is None else sqrt_w
    ones = solve_triangular(r, q.T @ target, check_finite=False)
    return ones if np.abs(z @ ones - 1.0).max() < 1e-10 else None
