"""The Gaussian approximation that row by row factors ``exp(shift eta - precision eta^2 / 2)`` make, for one t2.

In coordinates of unit prior variance, ``[Q, t A]``, the posterior precision is ``C' diag(precision) C`` plus 1 for
each penalised coordinate; the unpenalised ones have no prior at all. O(n r^2), with r at most the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmm, dtrsv
from scipy.linalg.lapack import dpotrf, dtrtri

from pybayesridge._types import FloatArray
from pybayesridge.linalg import blas
from pybayesridge.sites.arrow import ArrowRows
from pybayesridge.sites.coordinates import Scaled


@dataclass(frozen=True, slots=True)
class Sites:
    """A Gaussian factor for every row.

    Attributes
    ----------
    precision, shift : (n,) arrays
        Natural parameters; the precision is negative only for likelihoods that are not log-concave.
    """

    precision: FloatArray
    shift: FloatArray


@dataclass(frozen=True, slots=True)
class Windows:
    """Normal densities of linear functions of the coordinates, times a factor: a part of a posterior.

    Attributes
    ----------
    rows : (w, k + r) array
        The functions, of coordinates of unit prior variance, and of the flat ones none.
    center, sd : (w,) arrays
    log_factor : float
    """

    rows: FloatArray
    center: FloatArray
    sd: FloatArray
    log_factor: float

    @property
    def half(self) -> FloatArray:
        """Rows whose products are what windows add to the posterior precision, (w, k + r)."""
        return self.rows / self.sd[:, None]

    @property
    def pull(self) -> FloatArray:
        """What they add to the precision times the mean, (k + r,)."""
        out: FloatArray = (self.center / self.sd**2) @ self.rows
        return out

    def log_value(self, at: FloatArray) -> float:
        """The log of their product at coordinates (k + r,)."""
        away = (self.rows @ at - self.center) / self.sd
        constant = np.log(self.sd).sum() + 0.5 * self.sd.size * np.log(2 * np.pi)
        return self.log_factor - 0.5 * float(away @ away) - float(constant)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The joint posterior of the coordinates.

    Attributes
    ----------
    factor : (k + r, k + r) array
        Lower triangular: ``factor @ factor.T`` is the posterior precision.
    mean : (k + r,) array
    """

    factor: FloatArray
    mean: FloatArray

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, which had the normaliser among them."""
        return {name: value for name, value in state.items() if name != "log_normalizer"}

    @property
    def log_root(self) -> float:
        """Half the log determinant of the posterior precision."""
        return float(np.log(np.diag(self.factor)).sum())

    def half(self, right: FloatArray) -> FloatArray:
        """``L^-1 right``, whose square is ``right' covariance right``."""
        return forward(self.factor, right)

    def unhalf(self, half: FloatArray) -> FloatArray:
        """``L^-T half``: of a half the covariance times what it is of, of noise a deviation from the mean."""
        return backward(self.factor, half)

    def length(self, direction: FloatArray) -> float:
        """The length of a step in posterior standard deviations."""
        return float(np.sqrt(((self.factor.T @ direction) ** 2).sum()))

    def variances(self, rows: Scaled) -> FloatArray:
        """Variances of the linear functions that `rows` are, (m,)."""
        out = np.empty(rows.rows.shape[0])
        root = self.root() * rows.units[:, None]
        for part in rows.parts():
            half = dtrmm(1.0, root, rows.rows[part].copy(order="F"), side=1, overwrite_b=1)
            out[part] = np.einsum("ij,ij->i", half, half)
        return out

    def root(self) -> FloatArray:
        """Upper triangular matrix (k + r, k + r) that, times its transpose, is the posterior covariance."""
        if self.factor.size == 0:
            return self.factor
        inverse, _ = dtrtri(self.factor, lower=1)
        return np.asfortranarray(inverse.T)

    def covariance(self) -> FloatArray:
        """Posterior covariance of the coordinates, (k + r, k + r)."""
        root = self.root()
        return blas.product(root, root.T)


def combine(rows: Scaled | ArrowRows, sites: Sites, windows: Windows | None = None) -> Gaussian:
    """Multiply sites, prior and windows.

    Raises
    ------
    FloatingPointError
        If the precision is not positive definite: the sites do not determine the flat coordinates.
    """
    if isinstance(rows, ArrowRows):
        return rows.combined(sites.precision, sites.shift, windows)  # type: ignore[return-value]
    factor = factorize(rows, sites.precision, windows)
    right = rows.transposed_times(sites.shift)
    if windows is not None:
        right = right + windows.pull
    half = forward(factor, right)
    return Gaussian(factor, backward(factor, half))


def prior_slope(gaussian: Gaussian, k: int, sites: Sites, variance: FloatArray) -> float:
    """Posterior mean of the derivative in log t2 of the prior's log density, the rows' variances being `variance`.

    It is ``(E|u|^2 - r) / 2`` with u the penalised coordinates, whose variances add up to r less the degrees of
    freedom that the rows take.
    """
    taken = float(sites.precision @ variance) - k
    return 0.5 * (float(gaussian.mean[k:] @ gaussian.mean[k:]) - taken)


def factorize(rows: Scaled, precision: FloatArray, windows: Windows | None = None) -> FloatArray:
    """Cholesky factor, lower, of the posterior precision for sites of the given precision (n,)."""
    size = rows.units.size
    total, root = np.zeros((size, size), order="F"), np.sqrt(np.maximum(precision, 0.0))
    for part in rows.parts():
        total = blas.add_square(total, np.multiply(rows.rows[part], root[part, None], order="F"), transposed=True)
    negative = np.flatnonzero(precision < 0)
    if negative.size:
        taken = np.multiply(rows.rows[negative], np.sqrt(-precision[negative])[:, None], order="F")
        total -= blas.add_square(np.zeros((size, size), order="F"), taken, transposed=True)
    total *= rows.units[:, None]
    total *= rows.units
    total.reshape(-1, order="F")[rows.k * (size + 1) :: size + 1] += 1.0
    if windows is not None:
        total += blas.product(windows.half, windows.half, transpose_a=True)
    if size == 0:
        return total
    out, info = dpotrf(total, lower=1, overwrite_a=1)
    if info != 0:
        raise FloatingPointError("the rows do not determine the unpenalised coefficients")
    factor: FloatArray = out
    return factor


def forward(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``L^-1 right`` for one right-hand side, L lower triangular: SciPy's own function takes longer than the sums."""
    return dtrsv(factor, right, lower=1) if right.size else right


def backward(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``L^-T right``, likewise."""
    return dtrsv(factor, right, lower=1, trans=1) if right.size else right
