"""Rows in the columns of several bands: ``eta = Q h + X A u``, the u of unit prior variance.

Q and X are those of :mod:`pybayesridge.sites.coordinates`, A the root of the covariances of the effects of
:mod:`pybayesridge.bands.covariance`: given A the problem is that of a single penalty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, Terms, entries_of
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.system import System
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.sites.coordinates import InRows, Scaled, SitesFunctionals, to_user
from pybayesridge.sites.gaussian import Gaussian


class InBands:
    """What spaces with several penalties share: effects of levels that no row of the data has, and arrays for R."""

    __slots__ = ()

    terms: Terms
    design: Design

    def split(self, x_rows: Any) -> tuple[Any, FloatArray]:
        """Rows of the columns (m, p), and what multiplies the effects of new levels (m, K), which may follow them."""
        p = self.design.p
        if x_rows.shape[1] == p:
            return x_rows, self.nothing_outside(x_rows.shape[0])
        new = x_rows[:, p:]
        return x_rows[:, :p], np.asarray(new.toarray() if sparse.issparse(new) else new, dtype=np.float64)

    def mean_variance_outside(
        self, outside: FloatArray, mean_t2: float, covariances: tuple[FloatArray, ...]
    ) -> FloatArray:
        """Variances (m,) of the effects of new levels, that `outside` (m, K) multiplies, over all nodes."""
        out = np.zeros(len(outside))
        for bands, covariance in zip(self.terms.bands, covariances, strict=True):
            new = outside[:, list(bands)]
            out += np.einsum("mi,ij,mj->m", new, covariance, new)
        return out

    def variance_of_new(self, outside: FloatArray, factors: Factors) -> FloatArray:
        """Variances (m,) of the effects of new levels, that `outside` (m, K) multiplies, given the factors."""
        out = np.zeros(len(outside))
        for bands, factor in zip(self.terms.bands, factors, strict=True):
            out += ((outside[:, list(bands)] @ factor) ** 2).sum(axis=-1)
        return out

    def nothing_outside(self, count: int) -> FloatArray:
        """What linear functions of the coordinates alone have outside them."""
        return np.zeros((count, self.terms.count))

    def covariance_outside(self, *_: Any) -> float:
        """All coefficients are coordinates."""
        return 0.0


@dataclass(frozen=True, slots=True)
class BandSpace(InBands, InRows):
    """Rows in the columns of all bands, and the way back.

    Attributes
    ----------
    rows : (n, k + p) array, Fortran order
        ``[Q, X]``.
    k : int
        Number of unpenalised columns.
    design : Design
        Its columns on the scale of the prior.
    terms : Terms
    gram : (p, p) array
        X'X, rows weighted by their trials.
    """

    rows: FloatArray
    k: int
    design: Design
    terms: Terms
    gram: FloatArray

    def without_rows(self) -> BandSpace:
        """The same with every array over rows emptied."""
        return replace(self, rows=self.rows[:0], design=self.design.without_rows())

    @property
    def numbers(self) -> int:
        """Numbers of a joint posterior."""
        return int(self.rows.shape[1]) ** 2

    @property
    def diagonal(self) -> FloatArray:
        """Sums of squares of the columns, rows weighted by their trials, (p,)."""
        return np.diag(self.gram)

    def rows_in(self, columns: IntArray) -> FloatArray:
        """Rows in Q and some of the penalised columns, (n, k + m)."""
        return self.rows[:, np.r_[np.arange(self.k), self.k + columns]]

    def at(self, factors: Factors) -> BandsAt:
        """The same at given covariances."""
        return BandsAt(self, factors)

    def functionals(self, x_rows: Any, z_rows: FloatArray) -> SitesFunctionals:
        """Linear predictors of rows (m, p), (m, k); then what multiplies effects of new levels, if given."""
        x, new = self.split(x_rows)
        return SitesFunctionals(np.hstack([self.of_flat(z_rows), self.design.rows_outside_z(x, z_rows)]), new)

    def of_coefficients(self) -> Iterator[tuple[slice, SitesFunctionals]]:
        """All penalised coefficients on the scale of the prior."""
        p = self.design.p
        own = np.hstack([np.zeros((p, self.k)), np.eye(p)])
        yield slice(0, p), SitesFunctionals(own, self.nothing_outside(p))

    def on_user_scale(self, drawn: FloatArray, *_: Any) -> tuple[FloatArray, FloatArray]:
        """Unpenalised (m, k) and penalised (m, p) coefficients from draws of coordinates (k + p, m)."""
        h, b = drawn[self.distances : self.k], drawn[self.k :] / self.design.scale[:, None]
        return (to_user(self.design) @ h + self.design.taken_from_z(b)).T, b.T

    def squares(self, b: FloatArray) -> FloatArray:
        """Sums of squares of what coefficients (p, m) explain at the rows, (m,)."""
        out: FloatArray = np.einsum("ij,ij->j", b, blas.product(self.gram, b))
        return out

    def as_arrays(
        self, log_t2: FloatArray, mean_t2: float, factors: Factors, covariances: tuple[FloatArray, ...]
    ) -> dict[str, Any]:
        """Arrays that only several penalties have; see :mod:`pybayesridge.sites.posterior`."""
        between = np.zeros((self.terms.count, self.terms.count))
        for bands, covariance in zip(self.terms.bands, covariances, strict=True):
            between[np.ix_(bands, bands)] = covariance
        return {"gram": self.gram, "band_covariance": between, **entries_of(self.terms, [factors])}


def in_units_of(center: FloatArray, units: FloatArray) -> FloatArray:
    """Coordinates in such units; 0 where the unit is."""
    return np.divide(center, units, out=np.zeros(center.shape), where=units > 0)


@dataclass(frozen=True, slots=True)
class BandsAt:
    """Rows in the columns of all bands at given covariances; see :class:`pybayesridge.sites.coordinates.Space`."""

    space: BandSpace
    factors: Factors

    def scaled(self, log_t2: float) -> Scaled:
        """The rows for coordinates of unit prior variance; variances are those of the factors times t2.

        They are copied only where effects are correlated.
        """
        rows = self.space.rows if self._independent else self._times_factors(self.space.rows)
        return Scaled(rows, self.space.k, self._units(log_t2))

    @property
    def _independent(self) -> bool:
        return all(len(factor) == 1 for factor in self.factors)

    def _units(self, log_t2: float) -> FloatArray:
        """Units of the coordinates of the rows, (k + p,)."""
        k = self.space.k
        units = np.r_[np.ones(k), np.full(self.space.rank, np.exp(0.5 * log_t2))]
        if self._independent:
            for (columns,), factor in zip(self.space.terms.columns, self.factors, strict=True):
                units[k + columns] *= factor[0, 0]
        return units

    def at_center(self, center: FloatArray) -> FloatArray:
        """H and the coefficients from coordinates of the rows with a log t2 of 0, (k + p,)."""
        return self.coefficients(in_units_of(center, self._units(0.0))[:, None])[:, 0]

    def pulled(self, slope: FloatArray) -> FloatArray:
        """The slope of a function in h and the coefficients from that in coordinates of unit prior variance."""
        k, out = self.space.k, slope.copy()
        for columns, factor in zip(self.space.terms.columns, self.factors, strict=True):
            out[k + columns] = np.linalg.pinv(factor).T @ slope[k + columns]
        return out

    def functionals_at(self, coords: FloatArray, log_t2: float) -> Scaled:
        """Linear functions of h and the coefficients, (m, k + p), in coordinates of unit prior variance."""
        return Scaled(self._times_factors(coords), self.space.k, np.ones(coords.shape[1]))

    def coefficients(self, u: FloatArray, log_t2: float = 0.0) -> FloatArray:
        """H and the coefficients from coordinates of unit prior variance, (k + p, m)."""
        k = self.space.k
        return np.vstack([u[:k], self.space.terms.coefficients(u[k:], self.factors)])

    def coefficient_sds(self, found: Gaussian) -> FloatArray:
        """Posterior standard deviations of h and the coefficients, (k + p,)."""
        out: FloatArray = np.linalg.norm(self.coefficients(found.root()), axis=1)
        return out

    def in_units(self, coords: FloatArray, log_t2: float) -> FloatArray:
        """Linear functions of h and the coefficients as those of coordinates of unit prior variance, (m, k + p)."""
        return self._times_factors(coords)

    def variance_outside(self, outside: FloatArray, log_t2: float) -> FloatArray:
        """Variances (m,) of the effects of new levels, that `outside` (m, K) multiplies."""
        return self.space.variance_of_new(outside, self.factors)

    def _times_factors(self, coords: FloatArray) -> FloatArray:
        k, out = self.space.k, np.empty(coords.shape, order="F")
        out[:, :k], out[:, k:] = coords[:, :k], self.space.terms.times_factors(coords[:, k:], self.factors)
        return out

    def keeps(self, size: int) -> bool:
        """No: there are hundreds of nodes, of which most are left out in the end."""
        return False


def from_problem(problem: MixedProblem) -> BandSpace:
    """Rows in the columns of a problem, whose design is weighted by trials."""
    assert isinstance(problem.system, System)
    design = problem.design
    k, n = design.block.k, design.n
    rows = np.empty((n, k + design.p), order="F")
    rows[:, :k] = design.block.q * np.sqrt(n)
    for part, piece in design.row_pieces():
        rows[part, k:] = piece
    if design.block.sqrt_w is not None:
        rows /= design.block.sqrt_w[:, None]
    return BandSpace(rows, k, design, problem.terms, problem.system.gram)
