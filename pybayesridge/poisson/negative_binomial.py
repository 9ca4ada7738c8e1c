"""The likelihood of counts that vary more than Poisson counts, with the log link, row by row.

A row is a Poisson count whose rate is ``exposure * exp(eta)`` times a gamma variable of mean 1 and variance alpha, so
that its variance is ``mean + alpha mean^2`` (NB2). With ``s = 1 / alpha`` and ``p = mean / (s + mean)`` its
probability is proportional to ``p^count (1 - p)^s``: as a function of eta that of `count` successes and s failures
with the logit link, for a linear predictor that is shifted by ``log(exposure / s)``. So the moments are those of
yes/no responses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import betainc, gammaln

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.tilted import tilted_moments
from pybayesridge.poisson import likelihood as of_poisson
from pybayesridge.poisson.likelihood import HIGHEST, MOST_DRAWN, Poisson
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.shape import ShapePrior
from pybayesridge.sites.tilted import Cavity, Tilted

PRIOR = ShapePrior(0.5, 0.5)
"""Of alpha: its root, the coefficient of variation of the rates that the columns leave open, is half-Cauchy with
scale 1, and 1 / (1 + alpha) is Beta(1/2, 1/2)."""

HIGH = 10.0
"""Largest log alpha that is looked at."""

BELOW = 14.0
"""The least is so far below minus the logs of the largest count and of the root of the number of rows: there alpha
changes the log likelihood by less than a millionth for each count."""

FIRST = (1e-3, 10.0)
"""Range of the first guess of alpha."""

NO_DISPERSION = 1e-9
"""Below, counts that can be told apart have the distribution of Poisson counts."""

MANY = 100
"""From so many rows on functions of counts are looked up in a table if the counts are small."""

FAR = 30.0
"""Logs of ratios of means and counts beyond which exponentials are large."""

SERIES = 10.0
"""From here on what Stirling's formula leaves of the log gamma function is a series."""


@dataclass(frozen=True, slots=True)
class NegativeBinomial(Poisson):
    """Counts with a dispersion.

    Attributes
    ----------
    log_alpha : float
        Log of the dispersion; nan where it is unknown.
    """

    log_alpha: float = np.nan

    shape_prior: ClassVar[ShapePrior | None] = PRIOR

    @property
    def log_shape(self) -> float:
        """The log of the dispersion."""
        return self.log_alpha

    @property
    def unknown_shape(self) -> ShapePrior | None:
        """The prior of the dispersion with the range that the counts ask for."""
        if not np.isnan(self.log_alpha):
            return None
        low = -BELOW - float(np.log(max(self.counts.max(initial=1.0), 1.0))) - 0.5 * float(np.log(max(self.n, 1)))
        return replace(PRIOR, low=low, high=HIGH)

    @property
    def alpha(self) -> float:
        """The dispersion."""
        return float(np.exp(self.log_alpha))

    def of_shape(self, log_shape: float) -> NegativeBinomial:
        """The likelihood for a dispersion."""
        return replace(self, log_alpha=log_shape)

    @property
    def order(self) -> float:
        """Half a moment less than counts that are not 0.

        For large alpha each of these has a probability that falls as ``1 / alpha``, whatever its mean above that, and
        zeros do not fall before eta is about alpha. With the prior's tail the density of a large intercept is
        ``int alpha^(-3/2 - m) da`` from there on, which falls as ``eta^-(m + 1/2)``.
        """
        return float(self.copies @ (self.counts > 0)) + PRIOR.b - 1.0

    def first_shape(self) -> float:
        """The log of the dispersion that the counts' own variance suggests, if they all had the overall rate."""
        rate = float(self.copies @ self.counts) / float(self.copies @ self.exposure)
        return self.shape_near(np.full(self.n, np.log(rate)))

    def shape_near(self, eta: FloatArray) -> float:
        """The same for linear predictors (n,)."""
        mean = self.exposure * np.exp(np.minimum(eta, HIGHEST))
        beyond = self.copies @ ((self.counts - mean) ** 2 - mean)
        return float(np.log(np.clip(beyond / (self.copies @ mean**2), *FIRST)))

    @property
    def latent_variance(self) -> float:
        """``log(1 + 1 / level + alpha)``: as of Poisson counts, whose coefficient of variation is a smaller one."""
        return float(np.log1p(1.0 / self.level + self.alpha))

    def rows(self, which: IntArray) -> NegativeBinomial:
        """The likelihood of some of the rows."""
        return replace(self, counts=self.counts[which], exposure=self.exposure[which], copies=self.copies[which])

    def copied(self, copies: FloatArray) -> NegativeBinomial:
        """The same counts with other numbers of copies."""
        return replace(self, copies=copies)

    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood of all copies, relative to the top of that of Poisson counts."""
        y, s = self.counts, 1.0 / self.alpha
        some = y > 0
        whole = eta - np.log(np.where(some, y, 1.0) / self.exposure)
        away = np.minimum(whole, HIGHEST)
        of_some = _from_top(away, y, s)
        of_none = -s * np.log1p(np.exp(away) / s)
        straight = -s * (whole - away)  # beyond there, where exponentials would be infinite
        out: FloatArray = self.copies * (np.where(some, of_some, of_none) + straight + self._top())
        return out

    def _top(self) -> FloatArray:
        """Log probability of one copy where the mean is the count, relative to that of a Poisson count, (n,)."""
        y, s = self.counts, 1.0 / self.alpha
        many = self.n > MANY and y.max() < self.n // 2
        each = np.arange(y.max() + 1.0) if many else y
        top = -0.5 * np.log1p(each / s) + beyond_stirling(each + s) - beyond_stirling(np.array(s))
        out: FloatArray = np.where(each > 0, top, 0.0)
        return out[y.astype(np.intp)] if many else out

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative and minus the second."""
        s = 1.0 / self.alpha
        mean = self.exposure * np.exp(np.minimum(eta, HIGHEST))
        rest = s / (s + mean)
        return self.copies * rest * (self.counts - mean), self.copies * (self.counts + s) * rest * (mean / (s + mean))

    def largest_curvature(self) -> FloatArray:
        """That where the mean is 1 / alpha, (n,)."""
        return 0.25 * self.copies * (self.counts + 1.0 / self.alpha)

    def reach(self, top: FloatArray, drop: float) -> FloatArray:
        """Nothing is known beforehand."""
        return Likelihood.reach(self, top, drop)

    def draws(self, eta: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Counts."""
        return counts_of(self.exposure[:, None] * self.mean(eta), np.array(self.alpha), generator)

    def up_to(self, y: FloatArray, eta: FloatArray, extent: FloatArray | None = None) -> FloatArray:
        """Probability of a count of at most `y` for an exposure of 1."""
        if self.alpha < NO_DISPERSION:
            return Poisson.up_to(self, y, eta, extent)
        failure = 1.0 / (1.0 + self.alpha * self.mean(eta))
        out: FloatArray = betainc(1.0 / self.alpha, y + 1.0, failure)
        return out

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the tilted densities."""
        y, s = self.counts, 1.0 / self.alpha
        shift = np.log(self.exposure / s)
        moved = Cavity(cavity.center + shift, cavity.precision, cavity.slope)
        found = tilted_moments(self.copies * y, self.copies * s, "logit", moved)
        top = -np.where(y > 0, y * np.log1p(s / np.where(y > 0, y, 1.0)), 0.0) - s * np.log1p(y / s)
        constant = self.copies * (self._top() - top)
        return Tilted(
            found.log_integral + constant, found.mean - shift, found.variance, found.gradient, found.site_precision
        )

    def deviances(self, mean: FloatArray) -> FloatArray:
        """Deviance of expected counts, of one copy of each row, (n,)."""
        y, s = self.counts, 1.0 / self.alpha
        with np.errstate(divide="ignore"):  # where 0 is expected a count has an infinite deviance
            away = np.log(np.where(y > 0, mean, 1.0)) - np.log(np.where(y > 0, y, 1.0))
        return 2.0 * np.where(y > 0, -_from_top(away, y, s), s * np.log1p(mean / s))

    def variances(self, mean: FloatArray) -> FloatArray:
        """Variances of counts of some means."""
        return mean + self.alpha * mean**2

    def tops(self) -> FloatArray:
        """Log probability of one copy where the mean is the count, (n,)."""
        return self.log_constants() + self._top()


def _from_top(away: FloatArray, y: FloatArray, s: float) -> FloatArray:
    """Log likelihood of counts relative to its top, where linear predictors are `away` from there, (n,).

    It is ``y away - (y + s) log((s + y exp(away)) / (s + y))``, and as much with y and s exchanged and `away` turned
    round. With the smaller of the two large numbers do not cancel; far away one of both does not overflow.
    """
    turned = np.where(np.abs(away) < FAR, y > s, away > 0)
    less, more, way = np.where(turned, s, y), np.where(turned, y, s), np.where(turned, -away, away)
    return less * way - (y + s) * _log_ratio(way, less, more)


def _log_ratio(away: FloatArray, y: FloatArray, s: FloatArray) -> FloatArray:
    """``log((s + y exp(away)) / (s + y))``, which keeps its digits near 0 and where one of both is much smaller."""
    change = y / (s + y) * np.expm1(away)
    near = change > -0.5
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log(s / (s + y)), np.log(y / (s + y)) + away)
    return np.where(near, np.log1p(np.where(near, change, 0.0)), far)


def beyond_stirling(x: FloatArray) -> FloatArray:
    """The log gamma function less ``(x - 1/2) log x - x + log(2 pi) / 2``, for positive x."""
    large = np.maximum(x, SERIES)
    z = large**-2.0
    series = (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188))))) / large
    small = np.minimum(x, SERIES)
    direct = gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.where(x >= SERIES, series, direct)


def counts_of(mean: FloatArray, alpha: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Counts of some means and dispersions, which broadcast."""
    shape = np.broadcast_to(1.0 / alpha, mean.shape)
    rate = np.minimum(mean * generator.gamma(shape) / shape, MOST_DRAWN)
    return np.asarray(generator.poisson(rate), dtype=np.float64)


def from_counts(
    counts: FloatArray, exposure: FloatArray | None, weights: FloatArray | None, alpha: float | None
) -> NegativeBinomial:
    """The likelihood of `counts`, each row counted `weights` times; None stands for 1, and for an unknown alpha."""
    rows = of_poisson.from_counts(counts, exposure, weights)
    log_alpha = np.nan if alpha is None else float(np.log(alpha))
    return NegativeBinomial(rows.counts, rows.exposure, rows.copies, rows.level, log_alpha=log_alpha)
