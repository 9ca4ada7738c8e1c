"""Coordinates of cut points and linear predictor: distances of cut points, and those of the rows.

With eta the linear predictor of a row, an intercept among it, and ``g_j = d_1 + ... + d_j`` the distance of cut point
j from the first (j from 0), the sites' linear functions are ``eta - g_j`` and ``d_j``. The intercept is minus the
first cut point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ordinal.likelihood import Cumulative
from pybayesridge.ridge.spectrum import Spectrum
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.coordinates import Coordinates, InRows, Scaled
from pybayesridge.sites.gaussian import Gaussian


@dataclass(frozen=True, slots=True)
class CutCoordinates(InRows):
    """The sites' linear functions in coordinates.

    Attributes
    ----------
    rows : (N, e + k + r) array, Fortran order
    distances : int
        e, of K categories K - 2; they come first.
    of_rows : Coordinates
        Those of the rows alone.
    """

    rows: FloatArray
    distances: int
    of_rows: Coordinates

    @property
    def k(self) -> int:  # type: ignore[override]
        """Number of flat coordinates."""
        return self.distances + self.of_rows.k

    @property
    def design(self) -> Design:
        """The columns, and the way back to the user's scale."""
        return self.of_rows.design

    @property
    def spectrum(self) -> Spectrum:
        """Their rotation."""
        return self.of_rows.spectrum

    @property
    def total_variance(self) -> float:
        """Sum of the variances of the penalised columns on the scale of the prior."""
        return self.of_rows.total_variance

    def without_rows(self) -> CutCoordinates:
        """The same with every array over rows emptied."""
        return CutCoordinates(self.rows[:0], self.distances, self.of_rows.without_rows())

    def keeps(self, size: int) -> bool:
        """Whether the joint posterior of that many coordinates is small enough to be kept."""
        return self.of_rows.keeps(size)

    def scaled(self, log_t2: float) -> Scaled:
        """The sites' linear functions for coordinates of unit prior variance."""
        rank = self.of_rows.rank
        return Scaled(self.rows, self.k, np.r_[np.ones(self.k), np.full(rank, np.exp(0.5 * log_t2))])


def with_cuts(space: Coordinates, likelihood: Cumulative) -> CutCoordinates:
    """The coordinates of the sites of `likelihood` from those of its rows."""
    return CutCoordinates(likelihood.of_sites(space.rows), likelihood.inner, space)


@dataclass(frozen=True, slots=True)
class WithoutCuts:
    """A node whose joint posterior is that of the rows' coordinates, the distances integrated out.

    Attributes
    ----------
    node : approximation
    space : CutCoordinates
    """

    node: Node
    space: CutCoordinates

    @property
    def log_t2(self) -> float:
        """Log of t2."""
        return self.node.log_t2

    @property
    def log_evidence(self) -> float:
        """Log evidence given it."""
        return self.node.log_evidence

    @property
    def log_shape(self) -> float:
        """There is no further parameter: nan."""
        return self.node.log_shape

    @property
    def form(self) -> float:
        """There is one form of the likelihood: nan."""
        return self.node.form

    def whole(self) -> Gaussian:
        """The joint posterior of distances and coordinates of the rows."""
        return self.node.gaussian(self.space)

    def gaussian(self, space: Coordinates) -> Gaussian:
        """That of the coordinates of the rows.

        Where what is integrated out comes first, its rows and columns of the Cholesky factor are left out.
        """
        whole, e = self.whole(), self.space.distances
        return Gaussian(np.asfortranarray(whole.factor[e:, e:]), whole.mean[e:])

    def effective_df(self) -> float:
        """Of the coordinates of the rows."""
        return self.node.effective_df() - self.space.distances

    def without_rows(self, space: Coordinates, joint: bool) -> WithoutCuts:
        """The same without what runs over rows."""
        return WithoutCuts(self.node.without_rows(self.space, joint), self.space.without_rows())
