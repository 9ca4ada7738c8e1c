"""The likelihood of successes among trials that vary more than binomial counts, row by row.

The probability of success of a row is a beta variable with mean ``mu = F(eta)``, F the logistic function, and
variance ``mu (1 - mu) rho``. With ``alpha = rho / (1 - rho)`` and ``s = 1 / alpha`` the likelihood of y successes and
f failures is, up to a factor,

    B(mu s + y, (1 - mu) s + f) / B(mu s, (1 - mu) s).

It is not log-concave in eta: far from a row's own share the likelihood falls no faster than that of one success or
failure. There its second derivative, and the precision of its site, may be negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import betainc, expit, gammaln, polygamma, psi

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial import compiled_shares
from pybayesridge.binomial.likelihood import Binomial, from_counts, mean_probability
from pybayesridge.sites.shape import ShapePrior
from pybayesridge.sites.tilted import CHUNK, DROP, NORMAL_STEP, PER_UNIT, SIZES, Cavity, Tilted, empty, sum_up

PRIOR = ShapePrior(0.5, 0.5)
"""Of alpha: the correlation rho of two trials of a row, ``alpha / (1 + alpha)``, is Beta(1/2, 1/2)."""

LOW, HIGH = -12.0, 7.0
"""Least log alpha, less the log of the largest number of trials, and largest, that are looked at: below trials are
binomial to e^LOW, above all trials of a row have one outcome."""

FIRST = (1e-3, 10.0)
"""Range of the first guess of alpha."""

UNIT = 1e-3
"""Precisions of sites are told apart on the scale of their logs down to this part of the largest one."""

LARGE = 100.0
"""From here on differences of the log gamma function are taken by Stirling's formula, without their cancellation."""

COARSE = 49
"""Places at which the range of a tilted density is looked for, in each of two grids."""

NARROW = 5.0
"""Where the slope of the log likelihood is no more than this, for one standard deviation of the cavity, the range
follows from the cavity: it is less than twice as long as it need be."""

STRAIGHT, NEAR_STEP = 5.0, 0.5
"""So far from 0, and by the log of s more, the log likelihood is straight; the spacing of nodes at 0, where it grows
with the distance from there."""

FAR, MANY = 7.0, 512
"""Standard deviations of a cavity, on either side of its middle, within which such nodes are as close as equally
spaced ones; the number of equally spaced ones above which there are such nodes."""

FEW = 1000
"""Distribution functions of so many trials are sums, whose first terms are above 2^-1000."""

AROUND, BEYOND = 6.0, 18.0
"""For more trials they are averages over the log odds of a beta variable, which go on both sides so many standard
deviations of the normal density with its curvature at the top, and by an exponent in its exponential tail;"""

SPACED, COUNTS = 0.7, (17, 21, 25, 33, 49)
"""the spacing in these standard deviations, and how many there may be. They are off by 1e-6 at the most."""

WIDE, NEAR = 9.0, 40.0
"""Half widths of these grids: standard deviations of the cavity, and units around the row's own share."""


@dataclass(frozen=True, slots=True)
class BetaBinomial(Binomial):
    """Counts of successes and failures with a dispersion; the logit link.

    Attributes
    ----------
    log_alpha : float
        Log of ``rho / (1 - rho)``; nan where it is unknown.
    """

    log_alpha: float = np.nan

    shape_prior: ClassVar[ShapePrior | None] = PRIOR

    @property
    def log_shape(self) -> float:
        """The log of the dispersion."""
        return self.log_alpha

    @property
    def unknown_shape(self) -> ShapePrior | None:
        """The prior of the dispersion with the range that the trials ask for."""
        if not np.isnan(self.log_alpha):
            return None
        most = float((self.successes + self.failures).max(initial=1.0))
        return replace(PRIOR, low=LOW - float(np.log(most)), high=HIGH)

    @property
    def alpha(self) -> float:
        """The dispersion."""
        return float(np.exp(self.log_alpha))

    def of_shape(self, log_shape: float) -> BetaBinomial:
        """The likelihood for a dispersion."""
        return replace(self, log_alpha=log_shape)

    def first_shape(self) -> float:
        """The log of the dispersion that the shares' own variance suggests, if all rows had the overall share."""
        m, c = self.successes + self.failures, self.copies
        share = float(c @ self.successes) / float(c @ m)
        noise = m * share * (1.0 - share)
        beyond = float(c @ ((self.successes - m * share) ** 2 - noise))
        rho = np.clip(beyond / max(float(c @ (noise * (m - 1.0))), 1e-300), 1e-4, 0.9)
        return float(np.log(np.clip(rho / (1.0 - rho), *FIRST)))

    @property
    def signed_unit(self) -> FloatArray:
        """Precisions of sites may be negative, (n,)."""
        return UNIT * self.largest_curvature()

    def rows(self, which: IntArray) -> BetaBinomial:
        """The likelihood of some of the rows."""
        return replace(
            self, successes=self.successes[which], failures=self.failures[which], copies=self.copies[which]
        )

    def copied(self, copies: FloatArray) -> BetaBinomial:
        """The same counts with other numbers of copies."""
        return replace(self, copies=copies)

    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood of all copies."""
        s = 1.0 / self.alpha
        up, down = log_rising(expit(eta) * s, self.successes), log_rising(expit(-eta) * s, self.failures)
        out: FloatArray = self.copies * (up + down - log_rising(np.array(s), self.successes + self.failures))
        return out

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative and minus the second, which may be negative."""
        s = 1.0 / self.alpha
        p, q = expit(eta), expit(-eta)
        first_up, second_up = _of_log_rising(p * s, self.successes)
        first_down, second_down = _of_log_rising(q * s, self.failures)
        slope = q * first_up - p * first_down
        # With a = p s, da = a q and d(a q) = a q (q - p), and likewise for failures.
        bend = -(q**2 * second_up + p**2 * second_down + (q - p) * (q * first_up - p * first_down))
        return self.copies * slope, self.copies * bend

    def slope(self, eta: FloatArray) -> FloatArray:
        """Its first derivative alone."""
        s = 1.0 / self.alpha
        p, q = expit(eta), expit(-eta)
        out: FloatArray = self.copies * (
            q * _first_of_log_rising(p * s, self.successes) - p * _first_of_log_rising(q * s, self.failures)
        )
        return out

    def values_and_slopes(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log likelihood of all copies and its first derivative at linear predictors (K, n)."""
        found = compiled_shares.values_and_slopes(eta, self.successes, self.failures, self.alpha)
        if found is None:
            return self.values(eta), self.slope(eta)
        return self.copies * found[0], self.copies * found[1]

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the tilted densities, which may have more than one top."""
        low, high, top = self._where(cavity)
        # However many the trials are, the curvature is little more than that of s of them.
        most = np.minimum(self.largest_curvature(), self.copies * (0.5 / self.alpha + 1.0))
        needed = (high - low) * (np.sqrt(cavity.precision + most) / NORMAL_STEP + PER_UNIT) + 1
        needed = np.where(np.isfinite(needed), needed, SIZES[-1])
        unit, stretched = self._stretched(cavity, low, high)
        growing = (needed > MANY) & (stretched < needed)
        size = np.searchsorted(SIZES[:-1], np.where(growing, stretched, needed))
        out = empty(self.n)
        for group in np.unique(np.stack([size, growing]), axis=1).T:
            count, members = int(SIZES[group[0]]), np.flatnonzero((size == group[0]) & (growing == group[1]))
            step = max(1, CHUNK // count)
            for start in range(0, members.size, step):
                rows = members[start : start + step]
                eta, spacing = _nodes(low[rows], high[rows], count, unit if group[1] else np.inf)
                part = self.rows(rows)
                sum_up(out, rows, *part.values_and_slopes(eta), cavity, top, eta, spacing, signed=True)
        return out

    def _stretched(self, cavity: Cavity, low: FloatArray, high: FloatArray) -> tuple[float, FloatArray]:
        """The unit for nodes whose spacing grows with the distance from 0, and how many are needed, (n,)."""
        unit = STRAIGHT + max(0.0, -self.log_alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.abs(cavity.center + cavity.slope / cavity.precision) * np.sqrt(cavity.precision)
        step = np.minimum(NEAR_STEP / unit, NORMAL_STEP / (FAR + far))
        return unit, (np.arcsinh(high / unit) - np.arcsinh(low / unit)) / step + 1

    def _where(self, cavity: Cavity) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The range beyond which the tilted densities are below e^-DROP of their tops, and a place inside, each (n,).

        Of cavities with standard deviation sd the log likelihood, whose slope is at most S, changes by no more than S
        times a distance d, so that the log density has fallen by ``(d / sd)^2 / 2 - S d`` at the least.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            sd, middle = 1.0 / np.sqrt(cavity.precision), cavity.center + cavity.slope / cavity.precision
            pull = self._steepest() * sd
            reach = sd * (pull + np.sqrt(pull**2 + 2.0 * DROP))
        low, high, top = middle - reach, middle + reach, middle
        wide = np.flatnonzero(~(pull <= NARROW))
        if wide.size:
            low[wide], high[wide], top[wide] = self.rows(wide).looked_for(cavity.rows(wide))
        return low, high, top

    def _steepest(self) -> FloatArray:
        """A bound of the absolute slope of the log likelihood, (n,): the sum of ``s / (s + i)`` for each outcome."""
        s, most = 1.0 / self.alpha, np.maximum(self.successes, self.failures)
        return self.copies * np.minimum(most, 1.0 + s * np.log1p(most / s))

    def looked_for(self, cavity: Cavity) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where the tilted densities are above e^-DROP of their tops, and about where these are, each (n,)."""
        sd = 1.0 / np.sqrt(cavity.precision)
        middle = cavity.center + cavity.slope / cavity.precision
        own = self.first_guess()
        grid = np.linspace(-1.0, 1.0, COARSE)[:, None]
        # Of the second grid most places are near the row's own share.
        eta = np.sort(np.concatenate([middle + WIDE * sd * grid, own + NEAR * grid**3]), axis=0)
        away = eta - cavity.center
        density = self.values(eta) + away * (cavity.slope - 0.5 * cavity.precision * away)
        at = density.argmax(axis=0)
        each = np.arange(self.n)
        above = density > density[at, each] - DROP
        first, last = above.argmax(axis=0), eta.shape[0] - 1 - above[::-1].argmax(axis=0)
        low = eta[np.maximum(first - 1, 0), each]
        high = eta[np.minimum(last + 1, eta.shape[0] - 1), each]
        return low, high, eta[at, each]

    def predicted(self, cavity: Cavity, log_integral: FloatArray) -> FloatArray:
        """Probability of success, the posterior given the other copies taken as normal."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, variance = cavity.center + cavity.slope / cavity.precision, 1.0 / cavity.precision
        rest = np.flatnonzero(self.copies > 0)
        if rest.size:
            found = self.rows(rest).tilted(cavity.rows(rest))
            mean[rest], variance[rest] = found.mean, found.variance
        return mean_probability(mean, variance, "logit")

    def draws(self, eta: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Numbers of successes."""
        trials = (self.successes + self.failures)[:, None]
        return successes_of(trials, self.mean(eta), np.array(self.alpha), generator)

    def up_to(self, y: FloatArray, eta: FloatArray, extent: FloatArray | None = None) -> FloatArray:
        """Probability of at most `y` successes among `extent` trials."""
        trials = np.ones(1) if extent is None else extent
        y, trials, eta = np.broadcast_arrays(y, trials, eta)
        out = np.ones(eta.shape)
        few = trials <= FEW
        for where, function in ((few & (y < trials), _sums), (~few & (y < trials), _integrals)):
            if where.any():
                out[where] = function(y[where], trials[where], eta[where], 1.0 / self.alpha)
        return out

    def deviances(self, mean: FloatArray) -> FloatArray:
        """Twice the log likelihood of the row's own share less that of `mean`, of one copy, (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            one = self.copied(np.ones(self.n))
            own = one.values(np.log(self.successes) - np.log(self.failures))
            out: FloatArray = 2.0 * (own - one.values(np.log(mean) - np.log1p(-mean)))
        return np.maximum(out, 0.0)

    def variances(self, mean: FloatArray) -> FloatArray:
        """Variances of numbers of successes of one copy of each row, (n,)."""
        m, rho = self.successes + self.failures, self.alpha / (1.0 + self.alpha)
        return m * mean * (1.0 - mean) * (1.0 + (m - 1.0) * rho)


def _nodes(low: FloatArray, high: FloatArray, count: int, unit: float) -> tuple[FloatArray, FloatArray]:
    """As many nodes between the ends of each row, (count, n), and the spacing around each of them.

    They are equally spaced in v, where ``eta = unit sinh(v)``; in eta if the unit is infinite.
    """
    first, last = (low, high) if np.isinf(unit) else (np.arcsinh(low / unit), np.arcsinh(high / unit))
    v = first + (last - first) * np.linspace(0.0, 1.0, count)[:, None]
    spacing = (last - first)[None] / (count - 1)
    return (v, spacing) if np.isinf(unit) else (unit * np.sinh(v), spacing * unit * np.cosh(v))


def _sums(y: FloatArray, trials: FloatArray, eta: FloatArray, s: float) -> FloatArray:
    """Probabilities of at most `y` successes, by the recursion over the rarer outcome; all (m,).

    No success has a probability of at least ``(1 - mean)^trials`` where it is the rarer outcome.
    """
    rare = eta <= 0
    most = np.where(rare, y, trials - y - 1.0)
    order = np.argsort(-most)
    a, b = expit(-np.abs(eta[order])) * s, expit(np.abs(eta[order])) * s
    count, size = trials[order], most[order]
    term = np.exp(log_rising(b, count) - log_rising(np.array(s), count))
    total = term.copy()
    for k in range(int(size[0])):
        left = int(np.searchsorted(-size, -k, side="left"))
        part = slice(0, left)
        term[part] *= (count[part] - k) / (k + 1.0) * ((a[part] + k) / (b[part] + (count[part] - k - 1.0)))
        total[part] += term[part]
    out = np.empty(y.size)
    out[order] = np.minimum(total, 1.0)
    return np.where(rare, out, 1.0 - out)


def _integrals(y: FloatArray, trials: FloatArray, eta: FloatArray, s: float) -> FloatArray:
    """The same by the trapezoidal rule: that one beta variable, the share, is below another one; all (m,).

    At most y successes among m trials have the probability that a Beta(y + 1, m - y) variable is above the share of
    success. The distribution function of one is averaged over the other, the narrower one on the scale of log odds.
    """
    a, b, c, d = expit(eta) * s, expit(-eta) * s, y + 1.0, trials - y
    over_share = _log_odds_variance(a, b) < _log_odds_variance(c, d)
    first, second = np.where(over_share, a, c), np.where(over_share, b, d)
    other, rest = np.where(over_share, c, a), np.where(over_share, d, b)
    out = np.empty(y.size)
    low, high, needed = _log_odds_range(first, second)
    size = np.searchsorted(COUNTS[:-1], needed)
    for group in np.unique(size):
        members, count = np.flatnonzero(size == group), COUNTS[group]
        step = max(1, CHUNK // count)
        for start in range(0, members.size, step):
            at = members[start : start + step]
            odds, weight = _log_odds_rule(first[at], second[at], low[at], high[at], count)
            below = betainc(other[at], rest[at], expit(odds))
            out[at] = (weight * below).sum(axis=0) / weight.sum(axis=0)
    return np.where(over_share, 1.0 - out, out)


def _log_odds_variance(a: FloatArray, b: FloatArray) -> FloatArray:
    """Variance of the log odds of beta variables."""
    out: FloatArray = polygamma(1, np.maximum(a, 1e-100)) + polygamma(1, np.maximum(b, 1e-100))
    return out


def _log_odds_range(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distances from the top of the density of log odds beyond which nothing is, and how many nodes it needs."""
    sd = np.sqrt((a + b) / a / b)
    low, high = -AROUND * sd - BEYOND / a, AROUND * sd + BEYOND / b
    return low, high, (high - low) / (SPACED * sd) + 1.0


def _log_odds_rule(
    a: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """Equally spaced log odds of beta variables, and their densities relative to the top, each (count, m)."""
    size = a + b
    away = low + (high - low) * np.linspace(0.0, 1.0, count)[:, None]
    # Above the top the same with the outcomes exchanged, whose exponential is below 1.
    change = np.where(away < 0, np.log1p(a / size * np.expm1(np.minimum(away, 0.0))), 0.0)
    change += np.where(away > 0, away + np.log1p(b / size * np.expm1(-np.maximum(away, 0.0))), 0.0)
    return np.log(a / b) + away, np.exp(a * away - size * change)


def log_rising(a: FloatArray, count: FloatArray) -> FloatArray:
    """Log of ``a (a + 1) ... (a + count - 1)``, for positive a; 0 for a count of 0."""
    large = a > LARGE
    if large.any():
        x = np.maximum(a, LARGE)
        rest = _beyond_stirling(x + count) - _beyond_stirling(x)
        series = (x - 0.5) * np.log1p(count / x) + count * (np.log(x + count) - 1.0) + rest
        if large.all():
            return series
    x = np.clip(a, 1e-300, LARGE)
    direct: FloatArray = np.where(count > 0, gammaln(x + count) - gammaln(x), 0.0)
    return np.where(large, series, direct) if large.any() else direct


def _beyond_stirling(x: FloatArray) -> FloatArray:
    """What Stirling's formula leaves of the log gamma function, from LARGE on."""
    return (1 / 12 - (1 / 360 - 1 / (1260 * x**2)) / x**2) / x


def _first_of_log_rising(a: FloatArray, count: FloatArray) -> FloatArray:
    """A times its first derivative in a: at most `count`, and 1 at a = 0."""
    a = np.maximum(a, 1e-300)
    return np.where(count > 0, 1.0 + a * (psi(a + np.maximum(count, 1.0)) - psi(a + 1.0)), 0.0)


def _of_log_rising(a: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A times its first derivative, and a^2 times the second."""
    a = np.maximum(a, 1e-300)
    more = np.maximum(count, 1.0)
    second = -1.0 + a**2 * (polygamma(1, a + more) - polygamma(1, a + 1.0))
    return _first_of_log_rising(a, count), np.where(count > 0, second, 0.0)


def successes_of(
    trials: FloatArray, mean: FloatArray, alpha: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """Numbers of successes of some mean shares and dispersions, which broadcast."""
    s = np.broadcast_to(1.0 / alpha, mean.shape)
    share = generator.beta(np.maximum(mean * s, 1e-12), np.maximum((1.0 - mean) * s, 1e-12))
    count = np.broadcast_to(trials, mean.shape).astype(np.int64)
    return np.asarray(generator.binomial(count, share), dtype=np.float64)


def of_successes(
    successes: FloatArray, trials: FloatArray, weights: FloatArray | None, alpha: float | None
) -> BetaBinomial:
    """The likelihood of `successes` among `trials`, each row counted `weights` times; None for an unknown alpha."""
    rows = from_counts(successes, trials, weights, "logit")
    log_alpha = np.nan if alpha is None else float(np.log(alpha))
    return BetaBinomial(rows.successes, rows.failures, rows.copies, "logit", log_alpha=log_alpha)
