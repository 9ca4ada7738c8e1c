"""The joint posterior at one node, asked about linear functions: dense, or with a factor of very many levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from pybayesridge._types import FloatArray
from pybayesridge.linalg import blas
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.arrow import ArrowGaussian
from pybayesridge.sites.coordinates import Coordinates, SitesFunctionals
from pybayesridge.sites.gaussian import Gaussian

if TYPE_CHECKING:
    from pybayesridge.bands.covariance import Factors
    from pybayesridge.sites.arrow_bands import ArrowAt, ArrowFunctionals, ArrowSpace
    from pybayesridge.sites.bands import BandsAt, BandSpace


@dataclass(frozen=True, slots=True)
class DenseLaw:
    """The law of linear functions of coordinates whose covariance is a matrix.

    Attributes
    ----------
    at : Coordinates or BandsAt
    log_t2 : float
    gaussian : Gaussian
        In coordinates of unit prior variance.
    """

    at: Coordinates | BandsAt
    log_t2: float
    gaussian: Gaussian

    def moments(self, f: SitesFunctionals) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations, each (m,)."""
        rows = self.at.functionals_at(f.coords, self.log_t2)
        variance = self.gaussian.variances(rows) + self.at.variance_outside(f.outside, self.log_t2)
        return rows.times(self.gaussian.mean), np.sqrt(variance)

    def halves(self, f: SitesFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means (m,), rows (m, d) whose products are covariances, and what is to be added to the variances, (m,)."""
        rows = self.at.functionals_at(f.coords, self.log_t2)
        coords = rows.rows * rows.units
        mean = blas.product(coords, self.gaussian.mean[:, None])[:, 0]
        return mean, blas.product(coords, self.gaussian.root()), self.at.variance_outside(f.outside, self.log_t2)

    def roots(self, f: SitesFunctionals) -> tuple[FloatArray, FloatArray]:
        """Means (m,), and a root (m, d) of the covariance, of functions of the coordinates alone."""
        mean, half, _ = self.halves(f)
        return mean, half

    def of_coordinates(self) -> tuple[FloatArray, FloatArray]:
        """Mean (k + r,) of the coordinates of the rows, and a root (k + r, k + r) of their covariance."""
        mean = self.at.coefficients(self.gaussian.mean[:, None], self.log_t2)[:, 0]
        return mean, self.at.coefficients(self.gaussian.root(), self.log_t2)

    def drawn(self, noise: FloatArray) -> FloatArray:
        """Draws of the coordinates of the rows from standard normal variates, both (k + r, m)."""
        noise = solve_triangular(self.gaussian.factor, noise, lower=True, trans="T", check_finite=False)
        return self.at.coefficients(self.gaussian.mean[:, None] + noise, self.log_t2)


@dataclass(frozen=True, slots=True)
class ArrowLaw:
    """The same with a factor of very many levels."""

    at: ArrowAt
    gaussian: ArrowGaussian

    def moments(self, f: ArrowFunctionals) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations, each (m,)."""
        mean, half, own = self.halves(f)
        return mean, np.sqrt((half**2).sum(axis=1) + own)

    def halves(self, f: ArrowFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As of dense laws, for functions of which no two have a level in common."""
        mean, of_levels, of_others = self._halves(f)
        own = np.asarray(of_levels.power(2).sum(axis=1)).ravel()
        return mean, of_others, own + self.at.variance_outside(f.outside)

    def roots(self, f: ArrowFunctionals) -> tuple[FloatArray, FloatArray]:
        """Means (m,), and a root (m, m) of the covariance, of functions of the coordinates alone."""
        mean, covariance = self.covariance(f)
        values, vectors = np.linalg.eigh(covariance)
        return mean, vectors * np.sqrt(np.maximum(values, 0.0))

    def covariance(self, f: ArrowFunctionals) -> tuple[FloatArray, FloatArray]:
        """Means (m,) and the covariance (m, m) of functions of the coordinates alone."""
        mean, of_levels, of_others = self._halves(f)
        return mean, (of_levels @ of_levels.T).toarray() + of_others @ of_others.T

    def drawn(self, noise: FloatArray) -> FloatArray:
        """Draws of h and the coefficients on the scale of the prior from standard normal variates, (k + p, m)."""
        return self.at.coefficients(self.gaussian.mean[:, None] + self.gaussian.unhalf(noise))

    def _halves(self, f: ArrowFunctionals) -> tuple[FloatArray, Any, FloatArray]:
        """Means, and halves whose squares are the variances, of the levels and of the others."""
        of_levels, beside = self.at.functionals_at(f)
        g = self.gaussian
        mean = beside @ g.mean[: g.m] + np.asarray(of_levels @ g.mean[g.m :])
        return mean, *g.halves(of_levels, beside)


def law_at(space: Coordinates | BandSpace | ArrowSpace, node: Node, factors: Factors) -> Any:
    """The law at a node, given the roots of the covariances of each term there."""
    at: Any = space.at(factors)
    gaussian: Any = node.gaussian(at)
    if isinstance(gaussian, ArrowGaussian):
        return ArrowLaw(at, gaussian)
    return DenseLaw(at, node.log_t2, gaussian)
