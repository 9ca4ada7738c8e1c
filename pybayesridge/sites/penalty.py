"""The posterior of t2 and what follows from it alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pybayesridge._types import FloatArray
from pybayesridge.sites.fit import EXISTS, SitesFit
from pybayesridge.sites.prior import LogPrior

FINE = 4001
"""Points of the interpolated density."""


@dataclass(frozen=True, slots=True)
class PenaltyDistribution:
    """Density of l = log t2 between two ends, with exponential tails beyond them.

    Attributes
    ----------
    log_t2, density : (m,) arrays
        The density is normalised.
    cumulative : (m,) array
        Probability below each point.
    rise, fall : float
        Rates of the tails.
    """

    log_t2: FloatArray
    density: FloatArray
    cumulative: FloatArray
    rise: float
    fall: float

    def quantiles(self, at: FloatArray) -> FloatArray:
        """Quantiles of log t2 at probabilities `at`."""
        low, high = self.cumulative[0], self.cumulative[-1]
        inside = np.interp(at, self.cumulative, self.log_t2)
        with np.errstate(divide="ignore"):
            below = self.log_t2[0] + np.log(at / low) / self.rise
            above = self.log_t2[-1] - np.log((1 - at) / (1 - high)) / self.fall
        return np.where(at < low, below, np.where(at > high, above, inside))


def penalty_posterior(fit: SitesFit, prior: LogPrior) -> PenaltyDistribution:
    """The posterior of log t2 of a fit that integrates it out."""
    where = np.array([node.log_t2 for node in fit.nodes])
    height = np.array([node.log_evidence + prior(node.log_t2) for node in fit.nodes])
    fine = np.linspace(where[0], where[-1], FINE)
    density = np.exp(scipy.interpolate.CubicSpline(where, height)(fine) - height.max())
    below, above = density[0] / prior.a, density[-1] / fit.fall
    total = below + scipy.integrate.cumulative_trapezoid(density, fine, initial=0.0)
    whole = total[-1] + above
    return PenaltyDistribution(fine, density / whole, np.maximum.accumulate(total) / whole, prior.a, fit.fall)


def mean_of_t2(fit: SitesFit) -> float:
    """Posterior mean of t2; inf where there is none."""
    if not fit.fall > 1 + EXISTS:
        return np.inf
    with np.errstate(over="ignore"):
        return float(fit.weight @ np.exp([node.log_t2 for node in fit.nodes]))


def mean_of_penalty(fit: SitesFit, prior: LogPrior) -> float:
    """Posterior mean of 1 / t2, whose tail is the prior's; inf where there is none."""
    if len(fit.nodes) > 1 and not prior.a > 1 + EXISTS:
        return np.inf
    with np.errstate(over="ignore"):
        return float(fit.weight @ np.exp([-node.log_t2 for node in fit.nodes]))


def effective_df(fit: SitesFit) -> float:
    """Posterior mean of the effective degrees of freedom, the flat coordinates among them."""
    return float(fit.weight @ [node.effective_df() for node in fit.nodes])
