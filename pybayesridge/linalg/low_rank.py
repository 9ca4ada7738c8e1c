"""Products with a matrix of low numerical rank, each row as accurate as it has to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from pybayesridge._types import FloatArray
from pybayesridge.linalg import blas

ROUNDING = 8 * float(np.finfo(float).eps)
"""Errors of a decomposition, relative to the largest singular value."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix (m, r), as it is or as a product.

    Attributes
    ----------
    left : (m, c) array or None
        None if the matrix is `right` itself.
    right : (c, r) or (m, r) array
    """

    left: FloatArray | None
    right: FloatArray

    def times(self, b: FloatArray) -> FloatArray:
        """The matrix times `b` (r, k), (m, k)."""
        out = blas.product(self.right, b)
        return out if self.left is None else blas.product(self.left, out)


def factorize(a: FloatArray, size: FloatArray, slack: FloatArray, tol: float) -> Product:
    """`a` (m, r) as a product of two thin matrices with entries that err by ``tol * slack * size`` at most.

    Row by row the errors in units of ``slack * size`` have at most the norm `tol`, rounding included. Where this
    takes too many columns, or sizes are zero, the product is `a` itself.

    Parameters
    ----------
    a : (m, r) array
    size : (m, r) array
        Positive units of the entries.
    slack : (m,) array
        Factors by which rows may be less accurate.
    tol : float
    """
    exact = Product(None, a)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The sizes are near products of a row's and a column's unit, which are never larger.
        logs = np.log(size)
        rows = np.exp(logs.mean(axis=1) - logs.mean()) * slack
        columns = (size * slack[:, None] / rows[:, None]).min(axis=0)
        scaled = a / rows[:, None] / columns
    if a.size == 0 or not np.isfinite(scaled).all():
        return exact
    left, values, right = svd(scaled, full_matrices=False, check_finite=False)
    tail = np.sqrt(np.cumsum(values[::-1] ** 2))[::-1]
    few = max(1, int(np.count_nonzero(tail > tol / 2)))
    if ROUNDING * values[0] > tol / 2 or few * sum(a.shape) >= a.size / 2:
        return exact
    return Product(left[:, :few] * values[:few] * rows[:, None], right[:few] * columns)
