"""The posterior of t2 and what follows from it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from pybayesridge._types import FloatArray
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.fit import EXISTS, SitesFit
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.prior import LogPrior
from pybayesridge.sites.shape import FormGrid, ShapeGrid, tail_rates

FINE = 4001
"""Points of the interpolated density."""

LEAST = 1e-7
"""Values of a further parameter of smaller weight are left out."""


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

    def density_at(self, log_t2: FloatArray) -> FloatArray:
        """The density at some places."""
        first, last = self.log_t2[0], self.log_t2[-1]
        inside = np.interp(log_t2, self.log_t2, self.density)
        beyond = np.minimum(self.rise * (log_t2 - first), 0.0) - np.maximum(self.fall * (log_t2 - last), 0.0)
        out: FloatArray = inside * np.exp(beyond)
        return out

    def quantiles(self, at: FloatArray) -> FloatArray:
        """Quantiles of log t2 at probabilities `at`."""
        low, high = self.cumulative[0], self.cumulative[-1]
        inside = np.interp(at, self.cumulative, self.log_t2)
        with np.errstate(divide="ignore"):
            below = self.log_t2[0] + np.log(at / low) / self.rise
            above = self.log_t2[-1] - np.log((1 - at) / (1 - high)) / self.fall
        return np.where(at < low, below, np.where(at > high, above, inside))


def penalty_posterior(fit: SitesFit, prior: Callable[[Likelihood], LogPrior]) -> PenaltyDistribution:
    """The posterior of log t2 of a fit that integrates it out; `prior` is that given a likelihood."""
    grid = fit.shape
    if grid is None:
        return _of_nodes(fit.nodes, prior(fit.likelihood), fit.fall)
    parts, weights = [], []
    for i in np.flatnonzero(grid.weight > LEAST).tolist():
        nodes = tuple(fit.nodes[j] for j in np.flatnonzero(grid.which == i))
        parts.append(_of_nodes(nodes, prior(fit.likelihood.of_node(nodes[0])), fit.fall))
        weights.append(float(grid.weight[i]))
    return _mixed(parts, weights, parts[0].rise, fit.fall)


def _mixed(parts: list[PenaltyDistribution], weights: list[float], rise: float, fall: float) -> PenaltyDistribution:
    """The mixture of some distributions, with the rates of its tails."""
    low, high = min(part.log_t2[0] for part in parts), max(part.log_t2[-1] for part in parts)
    fine = np.linspace(low, high, FINE)
    share = np.array(weights) / sum(weights)
    density = share @ np.stack([part.density_at(fine) for part in parts])
    return _normalised(fine, density, rise, fall)


def _of_nodes(nodes: tuple[Node, ...], prior: LogPrior, fall: float) -> PenaltyDistribution:
    """The posterior of log t2 by the evidence at nodes in ascending order."""
    where = np.array([node.log_t2 for node in nodes])
    height = np.array([node.log_evidence + prior(node.log_t2) for node in nodes])
    return interpolated(where, height, prior.a, fall)


def interpolated(where: FloatArray, height: FloatArray, rise: float, fall: float) -> PenaltyDistribution:
    """The density whose logarithm at some places is `height`, up to a constant."""
    fine = np.linspace(where[0], where[-1], FINE)
    return _normalised(fine, np.exp(scipy.interpolate.CubicSpline(where, height)(fine) - height.max()), rise, fall)


def _normalised(fine: FloatArray, density: FloatArray, rise: float, fall: float) -> PenaltyDistribution:
    """A density with exponential tails, divided by its integral."""
    below, above = density[0] / rise, density[-1] / fall
    total = below + scipy.integrate.cumulative_trapezoid(density, fine, initial=0.0)
    whole = total[-1] + above
    return PenaltyDistribution(fine, density / whole, np.maximum.accumulate(total) / whole, rise, fall)


def shape_posterior(grid: ShapeGrid | FormGrid) -> PenaltyDistribution:
    """The posterior of the log of a further parameter of the likelihood."""
    if isinstance(grid, ShapeGrid):
        return interpolated(grid.u, grid.log_density, *tail_rates(grid))
    likely = np.flatnonzero(grid.share > LEAST).tolist()
    parts = [shape_posterior(grid.grids[i]) for i in likely]
    rise, fall = min(part.rise for part in parts), min(part.fall for part in parts)
    return _mixed(parts, [float(grid.share[i]) for i in likely], rise, fall)


def of_shape(grid: ShapeGrid | FormGrid, probabilities: FloatArray) -> FloatArray:
    """Posterior mean of a further parameter of the likelihood, and quantiles (m,), (1 + m,)."""
    return np.r_[float(grid.weight @ np.exp(grid.u)), np.exp(shape_posterior(grid).quantiles(probabilities))]


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


def effective_df_at(fit: SitesFit, log_t2: FloatArray) -> FloatArray:
    """Effective degrees of freedom at some values of log t2, averaged over a further parameter."""
    which = np.zeros(len(fit.nodes), dtype=np.intp) if fit.shape is None else fit.shape.which
    weight = np.ones(1) if fit.shape is None else fit.shape.weight
    out = np.zeros(log_t2.size)
    for i, share in enumerate(weight.tolist()):
        nodes = [fit.nodes[j] for j in np.flatnonzero(which == i)]
        out += share * np.interp(log_t2, [node.log_t2 for node in nodes], [node.effective_df() for node in nodes])
    return out


def effective_df(fit: SitesFit) -> float:
    """Posterior mean of the effective degrees of freedom, the flat coordinates among them."""
    return float(fit.weight @ [node.effective_df() for node in fit.nodes])
