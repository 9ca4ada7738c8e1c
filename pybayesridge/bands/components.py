"""The posterior of the variances of the bands: a fine grid over shares and total, interpolated between the nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import expit, gammaincc, gammaln, logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.bands.fit import BandFit
from pybayesridge.bands.shares import ShareRule
from pybayesridge.ridge.density import log_density
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.profile import penalized_rss

PIECES, ORDER = {1: 1, 2: 150, 3: 24}, 4
"""Pieces of each angle, by the number of bands, and points in each of them, to which densities are interpolated."""

TOTALS = {1: 801, 2: 201, 3: 101}
"""Points of the log of the total of the bands, likewise."""

DROP = 30.0
"""The grid of totals ends where the density has fallen by this in logarithm at every node."""

BINS = 4096
"""Points of the distribution of a variance relative to the noise variance of its component."""

NEGLIGIBLE = 1e-12
"""Shares with a smaller weight are no part of distribution functions."""

LITTLE = 0.01
"""A share below which a band is said to matter little."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The law of the log of the total of the bands at each point of a rule over their shares.

    Attributes
    ----------
    weight : (A,) array
        Posterior weights of the points.
    shares : (A, K) array
    log_w : (L,) array
        Evenly spaced.
    density, cdf : (A, L) arrays
        Of the log total given the shares.
    """

    weight: FloatArray
    shares: FloatArray
    log_w: FloatArray
    density: FloatArray
    cdf: FloatArray

    @classmethod
    def of(cls, shares: FloatArray, log_w: FloatArray, mass: FloatArray) -> Totals:
        """From the joint density (A, L) times the weights of the points."""
        weight = mass.sum(axis=1)
        keep = weight > NEGLIGIBLE * weight.sum()
        curve = scipy.interpolate.CubicSpline(log_w, mass[keep], axis=1)
        cdf = curve.antiderivative()(log_w)
        total = cdf[:, -1:]
        return cls(weight[keep] / weight[keep].sum(), shares[keep], log_w, mass[keep] / total, cdf / total)

    def below(self, log_w: FloatArray) -> float:
        """Probability that the log total is below a number for each of the points (A,): by cubic interpolation."""
        step = self.log_w[1] - self.log_w[0]
        place = np.clip((log_w - self.log_w[0]) / step, 0.0, self.log_w.size - 1.0)
        left = np.minimum(place.astype(np.intp), self.log_w.size - 2)
        x, each = place - left, np.arange(self.weight.size)
        f0, f1 = self.cdf[each, left], self.cdf[each, left + 1]
        d0, d1 = step * self.density[each, left], step * self.density[each, left + 1]
        cubic = f0 + x * (d0 + x * (3 * (f1 - f0) - 2 * d0 - d1 + x * (d0 + d1 - 2 * (f1 - f0))))
        return min(max(float(self.weight @ np.clip(cubic, f0, f1)), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class VarianceGrid:
    """Points of the joint posterior of the variances and the noise of one target.

    Attributes
    ----------
    weight : (F,) array
        Sums to 1.
    log_t : (F, K) array
        Of the variances of the coefficients relative to the noise, on the user's scale of the prior.
    share : (F, K) array
        Of each band in the variance of an observation, the noise included: ``w_k / (1 + w)``.
    scale2 : (F,) array
        Squared scale of the noise, user's scale.
    df : float
        Degrees of freedom of the noise variance, which is ``df scale2`` over a chi-squared variate; infinite where it
        is `scale2`.
    totals : Totals or None
        None where the penalties are fixed.
    """

    weight: FloatArray
    log_t: FloatArray
    share: FloatArray
    scale2: FloatArray
    df: float
    totals: Totals | None = None

    @classmethod
    def of(cls, fit: BandFit, noise: GaussianNoise, target: int) -> VarianceGrid:
        """The grid of a target."""
        if fit.rule is None:
            return cls._at_point(fit, target)
        return cls._integrated(fit, fit.rule, noise, target)

    @classmethod
    def _at_point(cls, fit: BandFit, target: int) -> VarianceGrid:
        assert fit.log_w is not None
        m = int(fit.weight[:, target].argmax())
        unit2 = fit.posterior.design.y_norm[target] ** 2
        log_w, shares = fit.log_w[m : m + 1], fit.shares[m : m + 1]
        scale2 = fit.posterior.mixtures[m].scale2[:, target] * unit2
        share = shares * (1 / (1 + np.exp(-log_w)))[:, None]
        return cls(np.ones(1), fit.log_variances(shares, log_w), share, scale2, fit.posterior.df)

    @classmethod
    def _integrated(cls, fit: BandFit, rule: ShareRule, noise: GaussianNoise, target: int) -> VarianceGrid:
        only = np.array([target])
        total = np.log(fit.size.sum())
        spectra = [spectrum.of_targets(only) for spectrum in fit.spectra]
        models = [fit.model(m, noise).only(only) for m in range(len(spectra))]
        # From the total w to t2 of the rotated problem of each node.
        units = np.array([2 * np.log(spectrum.top) - total for spectrum in spectra])

        def densities(log_w: FloatArray) -> FloatArray:
            pairs = zip(spectra, models, units, strict=True)
            return np.stack([log_density(s, model, (log_w + unit)[:, None])[:, 0] for s, model, unit in pairs])

        log_w = _totals(fit, target, units, densities)
        log_p = densities(log_w)
        log_rss = np.stack(
            [np.log(penalized_rss(s, (log_w + unit)[:, None])[:, 0]) for s, unit in zip(spectra, units, strict=True)]
        )
        finer, between = rule, np.eye(len(rule.shares))
        if rule.order:
            finer = ShareRule.of(rule.box, 1 if fit.count == 1 else ORDER, PIECES[fit.count])
            between = rule.interpolation(finer, in_logs=fit.in_logs)
        log_weight = finer.log_weight if finer.log_weight.ndim == 1 else finer.log_weight[:, target]
        terms = between @ log_p + log_weight[:, None]
        mass = np.exp(terms - logsumexp(terms))
        weight = mass.ravel()
        likelihood = models[0].likelihood
        rss = np.exp(between @ log_rss)
        scale2 = likelihood.scale2(rss[..., None]).ravel() * fit.posterior.design.y_norm[target] ** 2
        w = np.broadcast_to(log_w, terms.shape).ravel()
        shares = np.repeat(finer.shares, log_w.size, axis=0)
        keep = weight > 1e-13
        weight = weight[keep] / weight[keep].sum()
        share = shares[keep] / (1 + np.exp(-w[keep]))[:, None]
        totals = Totals.of(finer.shares, log_w, mass)
        return cls(weight, fit.log_variances(shares[keep], w[keep]), share, scale2[keep], likelihood.df, totals)

    def noise(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Posterior mean and quantiles of the noise variance."""
        return self._of_variance(np.log(self.scale2), probabilities, 1.0)

    def sd(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean, quantiles and standard deviation of the standard deviation of a band's coefficients."""
        log_scale2 = self.log_t[:, band] + np.log(self.scale2)
        mean, quantiles = self._of_variance(log_scale2, probabilities, 0.5)
        if self.totals is not None and np.isinf(self.df):
            totals = self.totals
            # What is left of the log of the variance without those of the band's share and the total.
            unit = float(
                log_scale2[0] - _logit(self.share[0].sum()) - np.log(self.share[0, band] / self.share[0].sum())
            )
            log_phi = np.log(totals.shares[:, band])
            roots = [_root(lambda x: totals.below(x - log_phi), p) for p in probabilities.tolist()]
            quantiles = np.exp(unit + np.array(roots))
        square = self._of_variance(log_scale2, np.zeros(0), 1.0)[0]
        return mean, np.sqrt(quantiles), float(np.sqrt(max(square - mean**2, 0.0)))

    def shares(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean and quantiles of a band's share, and the probability that it is below 1 %."""
        totals, mean = self.totals, float(self.weight @ self.share[:, band])
        if totals is None:
            return mean, np.full(probabilities.size, mean), float(mean < LITTLE)
        phi = totals.shares[:, band]

        def below(share: float) -> float:
            # The share is phi w / (1 + w).
            rest = phi - share
            with np.errstate(divide="ignore"):
                at = np.where(rest > 0, np.log(share) - np.log(np.where(rest > 0, rest, 1.0)), np.inf)
            return totals.below(at)

        found = [expit(_root(lambda x: below(float(expit(x))), p)) for p in probabilities.tolist()]
        return mean, np.array(found), below(LITTLE)

    def _of_variance(
        self, log_scale2: FloatArray, probabilities: FloatArray, power: float
    ) -> tuple[float, FloatArray]:
        """Mean of a power of a variance and its quantiles, the variance being ``df scale2`` over a chi-squared."""
        weight = self.weight
        with np.errstate(over="ignore"):
            mean = float(weight @ np.exp(power * log_scale2))
        if np.isinf(self.df):
            return mean, np.full(probabilities.size, np.exp(log_scale2[0]))
        half = self.df / 2
        exists = half > power
        mean *= float(np.exp(power * np.log(half) + gammaln(half - power) - gammaln(half))) if exists else np.inf
        points, mass = _binned(log_scale2, weight)

        def excess(log_variance: float, probability: float) -> float:
            return float(mass @ gammaincc(half, half * np.exp(points - log_variance)) - probability)

        found = []
        for probability in probabilities.tolist():
            low, high = float(points[0]) - 3.0, float(points[-1]) + 3.0
            while excess(low, probability) > 0 and low > points[0] - 700:
                low -= 5.0 + 100.0 / self.df
            while excess(high, probability) < 0 and high < points[-1] + 700:
                high += 5.0 + 100.0 / self.df
            found.append(np.exp(scipy.optimize.brentq(excess, low, high, args=(probability,), xtol=1e-9)))
        return mean, np.array(found)


def _totals(
    fit: BandFit, target: int, units: FloatArray, densities: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Logs of the total over which the density is spread at the nodes that matter."""
    weight = fit.weight[:, target]
    heavy = np.flatnonzero(weight > 1e-9)
    grid = np.arange(-60.0, 60.0, 0.5)
    values = densities(grid)
    top = values[heavy].max()
    with_moment = values[heavy] + grid
    seen = (values[heavy] > top - DROP) | (with_moment > with_moment.max() - DROP / 2)
    inside = np.flatnonzero(seen.any(axis=0))
    return np.linspace(
        grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, grid.size - 1)], TOTALS.get(fit.count, TOTALS[3])
    )


def _binned(x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted points on an even grid, each split between its neighbours so that means stay."""
    low, high = float(x.min()), float(x.max())
    if x.size <= BINS or high - low < 1e-12:
        return x, weight
    points = np.linspace(low, high, BINS)
    place = (x - low) / (points[1] - points[0])
    left = np.minimum(place.astype(np.intp), BINS - 2)
    right = place - left
    mass = np.bincount(left, weight * (1 - right), BINS) + np.bincount(left + 1, weight * right, BINS)
    return points, np.asarray(mass, dtype=np.float64)


def _root(below: Callable[[float], float], probability: float) -> float:
    """The point, between -60 and 40, at which a distribution function has a value."""
    return float(scipy.optimize.brentq(lambda x: below(x) - probability, -60.0, 40.0, xtol=1e-10))


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))
