"""The linear predictor in as few coordinates as the rank allows: ``eta = Q h + A a``; and the way back.

Q is an orthonormal basis of the unpenalised columns, scaled to unit mean square, h flat. ``A = X V`` with X the
penalised columns on the scale of the prior, the unpenalised ones projected out, and V an orthonormal basis of its row
space: ``a = V'b ~ N(0, t2 I)``. Rows are weighted by their trials in means, variances and projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.outside import outside_of_columns
from pybayesridge.ridge.posterior import LEFT
from pybayesridge.ridge.spectrum import Spectrum

ELEMENTS, ROWS = 1 << 16, 1024
"""Rows are copied in blocks of about so many numbers, which stay in the processor's cache, and of at least so many
rows, which keep products of large blocks fast."""


SMALL = 1 << 18
"""Numbers that are few beside what a computer holds."""

COLUMNS = 4096
"""Columns whose coefficients are looked at together."""

OF_NODES = 1 << 18
"""Most elements of a temporary array over nodes and linear functions."""


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


@dataclass(frozen=True, slots=True)
class SitesFunctionals:
    """m linear functions of the coordinates and of what lies outside them.

    Attributes
    ----------
    coords : (m, k + r) array
    outside : (m,) or (m, K) array
        With one penalty the squared norm of the part outside the row space, which has the prior's variance t2; with
        several what multiplies the effects of levels that no row of the data has.
    """

    coords: FloatArray
    outside: FloatArray

    @property
    def count(self) -> int:
        """M."""
        return int(self.outside.shape[0])

    def part(self, which: slice) -> SitesFunctionals:
        """Some of them."""
        return SitesFunctionals(self.coords[which], self.outside[which])

    def by_columns(self) -> SitesFunctionals:
        """The same in Fortran order."""
        return SitesFunctionals(np.asfortranarray(self.coords), self.outside)


class InRows:
    """Sizes of rows in coordinates, of which the first k are flat; a base of dataclasses with these attributes."""

    __slots__ = ()

    joint: ClassVar[bool] = True
    """Whether matrices over all coordinates are made."""

    if TYPE_CHECKING:
        rows: FloatArray
        k: int
        design: Design

    @property
    def distances(self) -> int:
        """How many flat coordinates are of no column; they come first."""
        return self.k - self.design.block.k

    def chunk(self, nodes: int) -> int:
        """How many linear functions are looked at together, at each of some nodes."""
        return max(1, OF_NODES // max(nodes, 1))

    def of_flat(self, z_rows: FloatArray) -> FloatArray:
        """What multiplies the flat coordinates of the unpenalised columns (m, k), and the distances."""
        return np.hstack([np.zeros((z_rows.shape[0], self.distances)), z_rows @ to_user(self.design)])

    def nothing_outside(self, count: int) -> FloatArray:
        """What linear functions of the coordinates alone have outside them."""
        return np.zeros(count)

    def of_distances(self) -> SitesFunctionals:
        """The flat coordinates that are of no column."""
        e = self.distances
        return SitesFunctionals(np.eye(e, self.k + self.rank), self.nothing_outside(e))

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

    def at(self, factors: Any) -> Coordinates:
        """The same: there are no covariances of effects."""
        return self

    def keeps(self, size: int) -> bool:
        """Whether twenty joint posteriors of the coordinates take no more memory than the columns, or little."""
        return size**2 <= max(SMALL, self.design.n * self.design.p // 20)

    def scaled(self, log_t2: float) -> Scaled:
        """The rows for coordinates of unit prior variance: ``[Q, t A]``."""
        return self.functionals_at(self.rows, log_t2)

    def in_units(self, coords: FloatArray, log_t2: float) -> FloatArray:
        """Linear functions of the coordinates as those of coordinates of unit prior variance, (m, k + r)."""
        return coords * self._units(log_t2)

    def functionals_at(self, coords: FloatArray, log_t2: float) -> Scaled:
        """Linear functions (m, k + r) for coordinates of unit prior variance."""
        return Scaled(coords, self.k, self._units(log_t2))

    def coefficients(self, u: FloatArray, log_t2: float) -> FloatArray:
        """The coordinates of the rows, (k + r, m), from those of unit prior variance."""
        return u * self._units(log_t2)[:, None]

    def variance_outside(self, outside: FloatArray, log_t2: float) -> FloatArray:
        """Variances of what is outside the row space, (m,)."""
        return outside * np.exp(log_t2)

    def mean_variance_outside(self, outside: FloatArray, mean_t2: float, covariances: Any) -> FloatArray:
        """The same over all nodes; 0 times an infinite mean is 0."""
        return np.multiply(outside, mean_t2, out=np.zeros_like(outside), where=outside > 0)

    def functionals(self, x_rows: AnyArray, z_rows: FloatArray) -> SitesFunctionals:
        """Linear predictors of rows (m, p), (m, k) on the user's scale."""
        rows = self.design.rows_outside_z(x_rows, z_rows)
        inside = self.spectrum.project_rows(self.design, rows)
        outside = np.zeros(rows.shape[0])
        if self.rank < self.design.p:
            rest, whole = (np.einsum("ij,ij->i", a, a) for a in (self._left(rows, inside), rows))
            outside = np.where(rest > LEFT * whole, rest, 0.0)
        return SitesFunctionals(np.hstack([self.of_flat(z_rows), inside]), outside)

    def covariance_outside(
        self, x_rows: AnyArray, z_rows: FloatArray, coords: FloatArray, mean_t2: float
    ) -> FloatArray | float:
        """Covariances (m, m) of what rows with such coordinates have outside the row space, over all nodes."""
        if self.rank == self.design.p:
            return 0.0
        left = self._left(self.design.rows_outside_z(x_rows, z_rows), coords[:, self.k :])
        return mean_t2 * blas.product(left, left.T)

    def _left(self, rows: FloatArray, inside: FloatArray) -> FloatArray:
        return rows - self.spectrum.standardized_coefficients(self.design, np.ascontiguousarray(inside.T)).T

    def of_coefficients(self) -> Iterator[tuple[slice, SitesFunctionals]]:
        """Consecutive penalised coefficients on the scale of the prior."""
        for part, right in _gathered(self.spectrum.right_pieces(self.design)):
            outside = outside_of_columns(self.design, self.spectrum, part.start, right)
            yield part, SitesFunctionals(np.hstack([np.zeros((right.shape[0], self.k)), right]), outside)

    def on_user_scale(
        self, drawn: FloatArray, log_t2: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Unpenalised (m, k) and penalised (m, p) coefficients from draws of coordinates (k + r, m), given log t2."""
        design, inside, t = self.design, np.ascontiguousarray(drawn[self.k :]), np.exp(0.5 * log_t2)
        if self.rank < design.p:
            prior = rng.standard_normal((t.size, design.p))
            inside_of_prior = self.spectrum.project_rows(design, prior)
            b = self.spectrum.standardized_coefficients(design, inside - (t[:, None] * inside_of_prior).T).T
            b = b + t[:, None] * prior
        else:
            b = self.spectrum.standardized_coefficients(design, inside).T
        b = b / design.scale
        h = drawn[self.distances : self.k].T @ to_user(design).T
        return h + design.taken_from_z(np.ascontiguousarray(b.T)).T, b

    def squares(self, coordinates: FloatArray) -> FloatArray:
        """Sums of squares of what penalised coordinates (r, m) explain at the rows, (m,): ``sum_j s_j^2 a_j^2``."""
        out: FloatArray = (coordinates.T**2) @ (self.spectrum.s * self.spectrum.top) ** 2
        return out

    def as_arrays(self, log_t2: FloatArray, mean_t2: float, factors: Any, covariances: Any) -> dict[str, Any]:
        """Arrays that only one penalty has; see :mod:`pybayesridge.sites.posterior`."""
        right = self.spectrum.with_right(self.design).right
        right = np.zeros((self.design.p, 0)) if right is None else right
        return {
            "log_t2": log_t2[:, None],
            "s": self.spectrum.s * self.spectrum.top,
            "right": right,
            "outside": outside_of_columns(self.design, self.spectrum, 0, right),
            "mean_t2": float(mean_t2),
        }

    def _units(self, log_t2: float) -> FloatArray:
        """From coordinates of unit prior variance to those of the rows, (k + r,)."""
        return np.r_[np.ones(self.k), np.full(self.rank, np.exp(0.5 * log_t2))]


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


def to_user(design: Design) -> FloatArray:
    """From flat coordinates to coefficients of the unpenalised columns, (k, k)."""
    out: FloatArray = design.block.regress(np.eye(design.block.k)) * np.sqrt(design.n)
    return out


def _gathered(pieces: Iterator[tuple[slice, FloatArray]]) -> Iterator[tuple[slice, FloatArray]]:
    """The same rows of V in parts that are large enough for what every part costs at every node."""
    held: list[FloatArray] = []
    start = 0
    for part, right in pieces:
        start = part.start if not held else start
        held.append(right)
        if part.stop - start >= COLUMNS:
            yield slice(start, part.stop), np.concatenate(held)
            held = []
    if held:
        yield slice(start, part.stop), np.concatenate(held)
