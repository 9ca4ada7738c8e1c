"""The posterior of variances and correlations: points interpolated between those of a lattice, or a single one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from pybayesridge._types import FloatArray
from pybayesridge.bands.components import LITTLE, VarianceGrid
from pybayesridge.bands.covariance import CovarianceCoordinates, Factors, Terms
from pybayesridge.bands.lattice import Lattice
from pybayesridge.bands.mixed_sampled import SampledPoints, Scores
from pybayesridge.bands.tables import SCORES, TabledLaw
from pybayesridge.ridge.likelihood import PenaltyLikelihood

CERTAIN = 1 - 1e-12
"""Largest share, and largest correlation, whose logit or inverse hyperbolic tangent is tabulated."""

LEAST = 1e-300
"""Smaller values have this one's logarithm."""


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
        heavy: bool = False,
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
        heavy : bool
            The bands' standard deviations have no posterior variance.
        """
        totals = terms.totals(factors)
        of_term = totals / (1 + totals.sum(axis=1, keepdims=True))
        share = np.empty((weight.size, terms.count))
        for each, own in zip(terms.bands, of_term.T, strict=True):
            share[:, list(each)] = own[:, None]
        with np.errstate(divide="ignore"):
            log_t = np.log(terms.variances(factors)) - log_unit
        return cls(VarianceGrid(weight, log_t, share, scale2, df, heavy=heavy), terms.correlations(factors))

    @property
    def heavy(self) -> bool:
        """Whether the bands' standard deviations have no posterior variance."""
        return self.variances.heavy

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
        if self._is_smooth(band):
            return grid.sd(band, probabilities)
        value = np.sqrt(np.exp(grid.log_t[:, band]) * grid.scale2)
        mean, quantiles, sd = _summary(value, grid.weight, probabilities)
        return mean, quantiles, float("inf") if grid.heavy else sd

    def shares(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean and quantiles of the share of a band's term, and the probability that it is below 1 %."""
        share, weight = self.variances.share[:, band], self.variances.weight
        mean, quantiles, _ = _summary(share, weight, probabilities)
        return mean, quantiles, float(weight[share < LITTLE].sum())

    def correlations_at(self, probabilities: FloatArray) -> list[tuple[float, FloatArray, float]]:
        """Posterior mean, quantiles and standard deviation of each correlation."""
        return [_summary(values, self.variances.weight, probabilities) for values in self.correlations.T]

    def laws(self) -> list[TabledLaw]:
        """The laws of each band's standard deviation and share, of correlations, and of the noise variance."""
        at, grid, out = ndtr(SCORES), self.variances, []
        for k in range(grid.log_t.shape[1]):
            if self._is_smooth(k):
                mean, _, sd = grid.sd(k, np.zeros(0))
                out.append(TabledLaw("sd", k, mean, sd, np.nan, *grid.law_of_band(k)))
            else:
                mean, quantiles, sd = self.sd(k, at)
                out.append(TabledLaw.of_points("sd", k, (mean, sd, np.nan), 2 * np.log(np.maximum(quantiles, LEAST))))
            share, quantiles, little = self.shares(k, at)
            inside = np.clip(quantiles, LEAST, CERTAIN)
            out.append(TabledLaw.of_points("share", k, (share, np.nan, little), np.log(inside) - np.log1p(-inside)))
        for k, (mean, quantiles, sd) in enumerate(self.correlations_at(at)):
            limits = np.clip(quantiles, -CERTAIN, CERTAIN)
            out.append(TabledLaw.of_points("correlation", k, (mean, sd, np.nan), np.arctanh(limits)))
        return [*out, grid.law_of_noise()]

    def _is_smooth(self, band: int) -> bool:
        """Whether the noise makes the law of the variance of a band smooth."""
        return bool(np.isfinite(self.variances.df) and np.isfinite(self.log_t[:, band]).all())


def of_lattice(
    coordinates: CovarianceCoordinates | Scores,
    lattice: Lattice | SampledPoints,
    likelihood: PenaltyLikelihood,
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
