r"""Rows of which each has one level of a factor with very many, and a few other columns: the factor is eliminated.

Given sites with precisions w, and in coordinates of unit prior variance, the posterior precision is an arrow: with e
the entry of a row in the column of its level, b its other entries and sums over the rows of a level,

    d = 1 + sum w e^2,   c = sum w e b,   S = prior + sum over rows of w b b' - sum over levels of c c' / d,

the effects of levels are independent given the other coordinates, whose precision is S. With ``L L' = S``

    var(e a_s + b'v) = e^2 / d + |L^-1 (b - e c / d)|^2.

S is made of what is left of b within levels, and of what is between them, ``c c' / (d (d - 1))``: both are sums of
squares, so that nothing cancels however large variances are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.linalg import blas

if TYPE_CHECKING:
    from pybayesridge.sites.gaussian import Windows

CHUNK = 1 << 20
"""Numbers of temporary arrays over rows and columns."""


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows in coordinates of unit prior variance, but for factors of the columns: first the others, then the levels.

    Attributes
    ----------
    level : (n,) int array
    value : (n,) array
        Entry in the column of the level; 0 for a row without one.
    beside : (n, m) array, Fortran order
    k : int
        Number of flat coordinates, which come first.
    units : (m + L,) array
        Factors of the columns.
    """

    level: IntArray
    value: FloatArray
    beside: FloatArray
    k: int
    units: FloatArray

    @property
    def m(self) -> int:
        """Number of other coordinates."""
        return int(self.beside.shape[1])

    def times(self, vector: FloatArray) -> FloatArray:
        """Products of the rows with a vector of coordinates, (n,)."""
        scaled = self.units * vector
        of_others = blas.product(self.beside, scaled[: self.m, None])[:, 0]
        return of_others + self.value * scaled[self.m :][self.level]

    def transposed_times(self, vector: FloatArray) -> FloatArray:
        """The sum of the rows, each times a number, (m + L,)."""
        of_others = blas.product(self.beside, vector[:, None], transpose_a=True)[:, 0]
        of_levels = np.bincount(self.level, self.value * vector, self.units.size - self.m)
        return self.units * np.concatenate([of_others, of_levels])

    def combined(self, precision: FloatArray, shift: FloatArray, windows: Windows | None = None) -> ArrowGaussian:
        """The posterior for sites of these natural parameters, (n,) each, and windows of no level.

        Raises
        ------
        FloatingPointError
            If the precision is not positive definite: the sites do not determine the flat coordinates.
        """
        m, count = self.m, self.units.size - self.m
        e = self.value * self.units[m:][self.level]
        own: FloatArray = np.bincount(self.level, precision * e**2, count).astype(np.float64)
        at_levels = sparse.csr_matrix((precision * e, (self.level, np.arange(e.size))), shape=(count, e.size))
        cross = np.asarray(at_levels @ self.beside) * self.units[:m]
        mean = cross / np.where(own > 0, own, 1.0)[:, None]
        square, root = np.zeros((m, m), order="F"), np.sqrt(precision)
        for part in self.parts():
            within = self.beside[part] * self.units[:m] - e[part, None] * mean[self.level[part]]
            square = blas.add_square(square, np.multiply(within, root[part, None], order="F"), transposed=True)
        d: FloatArray = 1.0 + own
        between = cross / np.sqrt(d * np.where(own > 0, own, 1.0))[:, None]
        square = blas.add_square(square, np.asfortranarray(between), transposed=True)
        square[np.arange(self.k, m), np.arange(self.k, m)] += 1.0
        right = self.transposed_times(shift)
        if windows is not None:
            square = blas.add_square(square, np.asfortranarray(windows.half[:, :m]), transposed=True)
            right += windows.pull
        lower, info = dpotrf(square, lower=1, clean=1) if m else (square, 0)
        if info != 0:
            raise FloatingPointError("the rows do not determine the unpenalised coefficients")
        found = ArrowGaussian(d, cross, lower, np.empty(0))
        return ArrowGaussian(d, cross, lower, found.unhalf(found.half(right)))

    def parts(self) -> list[slice]:
        """Consecutive parts of the rows, of which copies are small."""
        step = max(1, CHUNK // max(self.m, 1))
        return [slice(start, start + step) for start in range(0, self.level.size, step)]


@dataclass(frozen=True, slots=True)
class ArrowGaussian:
    """The joint posterior of the coordinates; see :class:`pybayesridge.sites.gaussian.Gaussian`.

    Attributes
    ----------
    d : (L,) array
    cross : (L, m) array
        c.
    lower : (m, m) array
        The L of S.
    mean : (m + L,) array
    """

    d: FloatArray
    cross: FloatArray
    lower: FloatArray
    mean: FloatArray

    @property
    def m(self) -> int:
        """Number of other coordinates."""
        return int(self.lower.shape[0])

    @property
    def log_root(self) -> float:
        """Half the log determinant of the posterior precision."""
        return 0.5 * float(np.log(self.d).sum()) + float(np.log(np.diag(self.lower)).sum())

    def half(self, right: FloatArray) -> FloatArray:
        """A root of the covariance times a vector, whose square is ``right' covariance right``."""
        of_levels = right[self.m :]
        rest = right[: self.m] - self.cross.T @ (of_levels / self.d)
        return np.concatenate([self._forward(rest), of_levels / np.sqrt(self.d)])

    def unhalf(self, half: FloatArray) -> FloatArray:
        """Of a half (m + L,) or (m + L, q) the covariance times what it is of; of noise a deviation from the mean."""
        root = np.sqrt(self.d)
        v = solve_triangular(self.lower, half[: self.m], lower=True, trans="T", check_finite=False)
        scale = root if half.ndim == 1 else root[:, None]
        return np.concatenate([v, (half[self.m :] - self.cross @ v / scale) / scale])

    def length(self, direction: FloatArray) -> float:
        """The length of a step in posterior standard deviations."""
        v = direction[: self.m]
        of_levels = np.sqrt(self.d) * direction[self.m :] + self.cross @ v / np.sqrt(self.d)
        return float(np.sqrt((of_levels**2).sum() + ((self.lower.T @ v) ** 2).sum()))

    def variances(self, rows: ArrowRows) -> FloatArray:
        """Variances of the linear functions that `rows` are, (n,)."""
        e = rows.value * rows.units[self.m :][rows.level]
        out: FloatArray = e**2 / self.d[rows.level]
        ratio = e / self.d[rows.level]
        for part in rows.parts():
            left = rows.beside[part] * rows.units[: self.m] - ratio[part, None] * self.cross[rows.level[part]]
            out[part] += (self._forward(left.T) ** 2).sum(axis=0)
        return out

    def halves(self, of_levels: sparse.csr_matrix, beside: FloatArray) -> tuple[sparse.csr_matrix, FloatArray]:
        """Halves of linear functions, (q, L) of the levels and (q, m) of the others, in two parts."""
        left = beside - np.asarray(of_levels @ (self.cross / self.d[:, None]))
        return of_levels @ sparse.diags(1.0 / np.sqrt(self.d)), self._forward(left.T).T

    def _forward(self, right: FloatArray) -> FloatArray:
        if self.m == 0:
            return right
        out: FloatArray = solve_triangular(self.lower, right, lower=True, check_finite=False)
        return out
