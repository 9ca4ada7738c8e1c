"""The posterior of variances and correlations: points interpolated between those of a lattice, or a single one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.bands.components import LITTLE, VarianceGrid
from pybayesridge.bands.covariance import Coordinates, Factors, Terms
from pybayesridge.bands.lattice import Lattice
from pybayesridge.bands.mixed_sampled import SampledPoints, Scores
from pybayesridge.ridge.likelihood import GaussianLikelihood


@dataclass(frozen=True, slots=True)
class MixedGrid:
    """Points of the joint posterior of the variances, the correlations and the noise of one target.

    Attributes
    ----------
    variances : VarianceGrid
        With the share of its term for each band: of effects that are correlated they cannot be told apart.
    correlations : (F, number of pairs) array
    """

    variances: VarianceGrid
    correlations: FloatArray

    @classmethod
    def of(
        cls,
        terms: Terms,
        factors: Factors,
        weight: FloatArray,
        scale2: FloatArray,
        df: float,
        log_unit: float,
    ) -> MixedGrid:
        """The grid of points (F,) with weights.

        Parameters
        ----------
        terms : Terms
        factors : tuple of (F, q, q) arrays
        weight, scale2 : (F,) arrays
        df : float
        log_unit : float
            What logs of variances are larger by than on the user's scale of the prior.
        """
        totals = terms.totals(factors)
        of_term = totals / (1 + totals.sum(axis=1, keepdims=True))
        share = np.empty((weight.size, terms.count))
        for each, own in zip(terms.bands, of_term.T, strict=True):
            share[:, list(each)] = own[:, None]
        with np.errstate(divide="ignore"):
            log_t = np.log(terms.variances(factors)) - log_unit
        return cls(VarianceGrid(weight, log_t, share, scale2, df), terms.correlations(factors))

    @property
    def log_t(self) -> FloatArray:
        """Logs of the variances of the coefficients relative to the noise, (F, K)."""
        return self.variances.log_t

    def noise(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Posterior mean and quantiles of the noise variance."""
        return self.variances.noise(probabilities)

    def sd(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean, quantiles and standard deviation of the standard deviation of a band's coefficients."""
        grid = self.variances
        if np.isfinite(grid.df) and np.isfinite(grid.log_t[:, band]).all():
            return grid.sd(band, probabilities)
        value = np.sqrt(np.exp(grid.log_t[:, band]) * grid.scale2)
        return _summary(value, grid.weight, probabilities)

    def shares(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean and quantiles of the share of a band's term, and the probability that it is below 1 %."""
        share, weight = self.variances.share[:, band], self.variances.weight
        mean, quantiles, _ = _summary(share, weight, probabilities)
        return mean, quantiles, float(weight[share < LITTLE].sum())

    def correlations_at(self, probabilities: FloatArray) -> list[tuple[float, FloatArray, float]]:
        """Posterior mean, quantiles and standard deviation of each correlation."""
        return [_summary(values, self.variances.weight, probabilities) for values in self.correlations.T]


def of_lattice(
    coordinates: Coordinates | Scores,
    lattice: Lattice | SampledPoints,
    likelihood: GaussianLikelihood,
    unit2: float,
    log_unit: float,
) -> MixedGrid:
    """The grid between the points of a lattice, whose other function is the log of R; `unit2` that of the noise."""
    points, weight, log_rss = lattice.fine()
    scale2 = likelihood.scale2(np.exp(log_rss)[:, None])[:, 0] * unit2
    factors = coordinates.factors(points)
    return MixedGrid.of(coordinates.terms, factors, weight, scale2, likelihood.df, log_unit)


def _summary(values: FloatArray, weight: FloatArray, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
    """Mean, quantiles and standard deviation of weighted points."""
    mean = float(weight @ values)
    order = np.argsort(values, kind="stable")
    own = weight[order]
    quantiles = np.interp(probabilities, np.cumsum(own) - own / 2, values[order])
    return mean, quantiles, float(np.sqrt(weight @ (values - mean) ** 2))
