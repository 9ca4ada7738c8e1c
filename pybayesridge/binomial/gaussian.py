"""The Gaussian approximation that row by row factors ``exp(shift eta - precision eta^2 / 2)`` make, for one t2.

In coordinates of unit prior variance, ``[Q, t A]``, the posterior precision is ``C' diag(precision) C`` plus 1 for
each penalised coordinate; the unpenalised ones have no prior at all. O(n r^2), with r at most the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.blas import dtrsm

from pybayesridge._types import FloatArray
from pybayesridge.linalg import blas


@dataclass(frozen=True, slots=True)
class Sites:
    """A Gaussian factor for every row.

    Attributes
    ----------
    precision, shift : (n,) arrays
        Natural parameters; the precision is not negative.
    """

    precision: FloatArray
    shift: FloatArray


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The joint posterior of the coordinates.

    Attributes
    ----------
    factor : (k + r, k + r) array
        Lower triangular: ``factor @ factor.T`` is the posterior precision.
    mean : (k + r,) array
    log_normalizer : float
        Log integral of the sites times the prior; the flat coordinates have Lebesgue measure.
    """

    factor: FloatArray
    mean: FloatArray
    log_normalizer: float

    def variances(self, rows: FloatArray) -> FloatArray:
        """Variances of linear functions, (m,), for `rows` (m, k + r) in Fortran order."""
        half = dtrsm(1.0, self.factor, rows, side=1, lower=1, trans_a=1)
        return np.einsum("ij,ij->i", half, half)

    def covariance(self) -> FloatArray:
        """Posterior covariance of the coordinates, (k + r, k + r)."""
        half = solve_triangular(self.factor, np.eye(self.mean.size), lower=True, check_finite=False)
        return blas.product(half, half, transpose_a=True)


def combine(rows: FloatArray, k: int, sites: Sites) -> Gaussian:
    """Multiply sites and prior.

    Parameters
    ----------
    rows : (n, k + r) array, Fortran order
        In coordinates of unit prior variance.
    k : int
        Number of flat coordinates, which come first.
    sites : Sites

    Raises
    ------
    FloatingPointError
        If the precision is not positive definite: the sites do not determine the flat coordinates.
    """
    factor = factorize(rows, k, sites.precision)
    right = rows.T @ sites.shift
    half = solve_triangular(factor, right, lower=True, check_finite=False)
    mean = solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
    log_normalizer = 0.5 * k * np.log(2 * np.pi) - np.log(np.diag(factor)).sum() + 0.5 * float(half @ half)
    return Gaussian(factor, mean, float(log_normalizer))


def factorize(rows: FloatArray, k: int, precision: FloatArray) -> FloatArray:
    """Cholesky factor, lower, of the posterior precision for sites of the given precision (n,)."""
    total = blas.add_square(None, rows * np.sqrt(precision)[:, None], transposed=True)
    total[np.diag_indices_from(total)] += np.r_[np.zeros(k), np.ones(total.shape[0] - k)]
    if total.size == 0:
        return total
    try:
        out: FloatArray = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        raise FloatingPointError("the rows do not determine the unpenalised coefficients") from error
    return out
