"""Rows in the columns of several bands: ``eta = Q h + X A u``, the u of unit prior variance.

Q and X are those of :mod:`pybayesridge.sites.coordinates`, A the root of the covariances of the effects of
:mod:`pybayesridge.bands.covariance`: given A the problem is that of a single penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, Terms
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.system import System
from pybayesridge.design.design import Design
from pybayesridge.sites.coordinates import InRows, Scaled


@dataclass(frozen=True, slots=True)
class BandSpace(InRows):
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

    def functionals_at(self, coords: FloatArray, factors: Factors) -> FloatArray:
        """What multiplies h and u, from what multiplies h and the coefficients, (m, k + p)."""
        out = np.empty(coords.shape, order="F")
        out[:, : self.k] = coords[:, : self.k]
        out[:, self.k :] = self.terms.times_factors(coords[:, self.k :], factors)
        return out

    def coefficients(self, u: FloatArray, factors: Factors) -> FloatArray:
        """H and the coefficients from h and u, (k + p, m)."""
        return np.vstack([u[: self.k], self.terms.coefficients(u[self.k :], factors)])


@dataclass(frozen=True, slots=True)
class BandsAt:
    """Rows in the columns of all bands at given covariances; see :class:`pybayesridge.sites.coordinates.Space`."""

    space: BandSpace
    factors: Factors

    def scaled(self, log_t2: float) -> Scaled:
        """The rows for coordinates of unit prior variance; variances are those of the factors times t2.

        They are copied only where effects are correlated.
        """
        k, p, terms = self.space.k, self.space.rank, self.space.terms
        rows, units = self.space.rows, np.r_[np.ones(k), np.full(p, np.exp(0.5 * log_t2))]
        if any(len(factor) > 1 for factor in self.factors):
            rows = self.space.functionals_at(rows, self.factors)
        else:
            for (columns,), factor in zip(terms.columns, self.factors, strict=True):
                units[k + columns] *= factor[0, 0]
        return Scaled(rows, k, units)

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
