"""The linear predictor in as few coordinates as the rank allows: ``eta = Q h + A a``.

Q is an orthonormal basis of the unpenalised columns, scaled to unit mean square, h flat. ``A = X V`` with X the
penalised columns on the scale of the prior, the unpenalised ones projected out, and V an orthonormal basis of its row
space: ``a = V'b ~ N(0, t2 I)``. Rows are weighted by their trials in means, variances and projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.spectrum import Spectrum

ELEMENTS, ROWS = 1 << 16, 1024
"""Rows are copied in blocks of about so many numbers, which stay in the processor's cache, and of at least so many
rows, which keep products of large blocks fast."""


SMALL = 1 << 18
"""Numbers that are few beside what a computer holds."""


def rows_of_part(size: int) -> int:
    """Rows that are copied at once, of `size` numbers each."""
    return max(ROWS, ELEMENTS // max(size, 1))


@dataclass(frozen=True, slots=True)
class Scaled:
    """Rows in coordinates of unit prior variance, of which there is never a whole copy.

    Attributes
    ----------
    rows : (n, k + r) array, Fortran order
    k : int
        Number of flat coordinates, which come first.
    units : (k + r,) array
        Factors of the columns.
    """

    rows: FloatArray
    k: int
    units: FloatArray

    def parts(self) -> Iterator[slice]:
        """Consecutive parts of the rows, of which copies are small."""
        n, step = self.rows.shape[0], rows_of_part(self.rows.shape[1])
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def times(self, vector: FloatArray) -> FloatArray:
        """Products of the rows with a vector of coordinates, (n,)."""
        return blas.product(self.rows, (self.units * vector)[:, None])[:, 0]

    def transposed_times(self, vector: FloatArray) -> FloatArray:
        """The sum of the rows, each times a number, (k + r,)."""
        return self.units * blas.product(self.rows, vector[:, None], transpose_a=True)[:, 0]


class Space(Protocol):
    """Rows in coordinates whose prior variances are known, or follow from t2."""

    def scaled(self, log_t2: float) -> Scaled:
        """The rows for coordinates of unit prior variance."""

    def keeps(self, size: int) -> bool:
        """Whether the joint posterior of that many coordinates is small enough to be kept."""


class InRows:
    """Sizes of rows in coordinates, of which the first k are flat; a base of dataclasses with these attributes."""

    __slots__ = ()

    if TYPE_CHECKING:
        rows: FloatArray
        k: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def rank(self) -> int:
        """Number of penalised coordinates."""
        return int(self.rows.shape[1]) - self.k

    @property
    def flops(self) -> float:
        """Floating-point operations of the largest call of BLAS in an approximation."""
        size = self.rows.shape[1]
        return float(max(rows_of_part(size), size)) * size**2


@dataclass(frozen=True, slots=True)
class Coordinates(InRows):
    """Rows in coordinates, and the way back.

    Attributes
    ----------
    rows : (n, k + r) array, Fortran order
        ``[Q, A]``.
    k : int
        Number of unpenalised columns.
    design : Design
    spectrum : Spectrum
    """

    rows: FloatArray
    k: int
    design: Design
    spectrum: Spectrum

    @property
    def total_variance(self) -> float:
        """Sum of the variances of the penalised columns on the scale of the prior."""
        return float((self.spectrum.s**2).sum()) * self.spectrum.top**2 / self.design.n

    def without_rows(self) -> Coordinates:
        """The same with every array over rows emptied."""
        return Coordinates(self.rows[:0], self.k, self.design.without_rows(), self.spectrum.with_right(self.design))

    def keeps(self, size: int) -> bool:
        """Whether twenty joint posteriors of the coordinates take no more memory than the columns, or little."""
        return size**2 <= max(SMALL, self.design.n * self.design.p // 20)

    def scaled(self, log_t2: float) -> Scaled:
        """The rows for coordinates of unit prior variance: ``[Q, t A]``."""
        return Scaled(self.rows, self.k, np.r_[np.ones(self.k), np.full(self.rank, np.exp(0.5 * log_t2))])


def from_design(design: Design, spectrum: Spectrum) -> Coordinates:
    """Rows in coordinates from a design of the columns, weighted by trials, and its rotation."""
    k, n = design.block.k, design.n
    rows = np.empty((n, k + spectrum.rank), order="F")
    rows[:, :k] = design.block.q * np.sqrt(n)
    if spectrum.left is not None:
        np.multiply(spectrum.left, spectrum.s * spectrum.top, out=rows[:, k:])
    elif spectrum.right is not None:
        design.times(spectrum.right, out=rows[:, k:])
    if design.block.sqrt_w is not None:
        rows /= design.block.sqrt_w[:, None]
    return Coordinates(rows, k, design, spectrum)
