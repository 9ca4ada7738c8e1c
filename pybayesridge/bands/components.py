"""The posterior of the variances of the bands: a fine grid over shares and total, interpolated between the nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import expit, gammaincc, gammainccinv, gammaincinv, gammaln, logsumexp

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.bands.shares import ShareRule, pieces_of
from pybayesridge.bands.simplex import PolynomialRule
from pybayesridge.bands.tables import Below, TabledLaw, below_variance
from pybayesridge.ridge.density import log_density
from pybayesridge.ridge.profile import PenaltyModel, penalized_rss
from pybayesridge.ridge.spectrum import Spectrum

PIECES, ORDER = {1: (1, 1.0), 2: (200, 1.1), 3: (16, 2.0)}, 4
"""Even pieces of each angle, by the number of bands, and points in each of them, to which densities are interpolated;
the ratio of those into which the pieces at the ends are divided, where shares vanish."""

TOTALS = {1: 801, 2: 201, 3: 101}
"""Points of the log of the total of the bands, likewise."""

DROP = 30.0
"""The grid of totals ends where the density has fallen by this in logarithm at every node."""

FLOOR = 200.0
"""Log densities smaller than the largest by more are not told apart."""

COARSE, FINE = np.arange(-60.0, 60.0, 0.5), 241
"""Logs of the total at which densities are looked for, and points in the part of these that matters at a node."""

BINS = 4096
"""Points of the distribution of a variance relative to the noise variance of its component."""

NEGLIGIBLE = 1e-12
"""Shares with a smaller weight are no part of distribution functions."""

LEAST_MASS = 1e-13
"""Points of the grid with a smaller weight are left out."""

LEAST = 10.0 ** -np.arange(1, 13, 2)
"""Shares of such sizes are told apart by the centre of the total given the shares."""

RESOLVED = 100.0
"""Least such size relative to the smallest share of a node."""

RIDGE = 1e-3
"""Penalty of the slopes, relative to the weight of all nodes: between and beyond nodes the centre stays smooth."""

FLAT = 0.25
"""Power of the posterior weights of nodes with which they count for the centre."""

CERTAIN = 1e-18
"""A probability that is not told from zero."""

LITTLE = 0.01
"""A share below which a band is said to matter little."""

RANGE = (-60.0, 40.0)
"""Logs of totals, and logits of shares, between which quantiles are looked for."""


def is_heavy(fall: float, rank: int) -> bool:
    """Whether the posterior of a band's variance has no mean, so that that of its root has no variance.

    With the other variances as they are, the prior density of the log of a variance t falls as ``t^-(fall + (K - 1)
    / 2)``, `fall` being the rate for the total and K the number of bands, and the likelihood as ``t^(-r/2)``, r being
    the rank of the band's columns; where the variances of a set S of bands grow together, as ``t^-(fall + (K - |S| +
    rank of S) / 2)``. The mean exists if all these exponents are above 1. With a rate of 1/2, that of the default
    prior, only those are not of which S is all bands, together of rank 1.

    Parameters
    ----------
    fall : float
        Rate at which the prior density of the log of the total falls: b of a beta-prime prior.
    rank : int
        Of the columns of all bands, the unpenalised ones projected out.
    """
    return fall + 0.5 * rank <= 1.0


@dataclass(frozen=True, slots=True)
class ShareNodes:
    """The ridges at the nodes of a rule over the bands' shares, for one target.

    Attributes
    ----------
    rule : ShareRule or PolynomialRule
    target : int
        Its position among the targets of the rule.
    shares : (M, K) array
    weight : (M,) array
        Posterior weights.
    log_evidence : (M,) array
        Log density of the shares at the nodes, that of the prior not included.
    spectra : list of M Spectrum
    models : list of M PenaltyModel
        Of the total given the shares.
    total : float
        Log of the sum of the bands' sizes.
    log_unit : (K,) array
        See :func:`log_variances`.
    unit2 : float
        Squared norm of the target.
    in_logs : bool
        How densities are interpolated between the nodes; see :meth:`ShareRule.interpolated`.
    """

    rule: ShareRule | PolynomialRule
    target: int
    shares: FloatArray
    weight: FloatArray
    log_evidence: FloatArray
    spectra: list[Spectrum]
    models: list[PenaltyModel]
    total: float
    log_unit: FloatArray
    unit2: float
    in_logs: bool

    @property
    def count(self) -> int:
        """Number of bands."""
        return int(self.log_unit.size)


def log_variances(shares: FloatArray, log_w: FloatArray, log_unit: FloatArray) -> FloatArray:
    """Log of ``t_k``, on the user's scale of the prior, at shares (…, K) and log totals w (…), (…, K)."""
    with np.errstate(divide="ignore"):
        out: FloatArray = np.log(shares) + log_w[..., None] - log_unit
    return out


@dataclass(frozen=True, slots=True)
class Totals:
    """The law of the log of the total of the bands at each point of a rule over their shares.

    Attributes
    ----------
    weight : (A,) array
        Posterior weights of the points.
    shares : (A, K) array
    center : (A,) array
        About the mean of the log total given the shares.
    at : (L,) array
        Evenly spaced logs of the total, from its centre on.
    density, cdf : (A, L) arrays
        Of the log total given the shares.
    """

    weight: FloatArray
    shares: FloatArray
    center: FloatArray
    at: FloatArray
    density: FloatArray
    cdf: FloatArray

    @classmethod
    def of(cls, shares: FloatArray, center: FloatArray, at: FloatArray, mass: FloatArray) -> Totals:
        """From the joint density (A, L) times the weights of the points."""
        weight = mass.sum(axis=1)
        keep = weight > NEGLIGIBLE * weight.sum()
        cdf = (at[1] - at[0]) * mass[keep] @ _integrals(at.size)
        total = cdf[:, -1:]
        weight = weight[keep] / weight[keep].sum()
        return cls(weight, shares[keep], center[keep], at, mass[keep] / total, cdf / total)

    def below(self, log_w: FloatArray) -> float:
        """Probability that the log total is below a number for each of the points (A,): by cubic interpolation."""
        step = self.at[1] - self.at[0]
        place = np.clip((log_w - self.center - self.at[0]) / step, 0.0, self.at.size - 1.0)
        left = np.minimum(place.astype(np.intp), self.at.size - 2)
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
    heavy : bool
        The bands' standard deviations have no posterior variance; see :func:`is_heavy`.
    """

    weight: FloatArray
    log_t: FloatArray
    share: FloatArray
    scale2: FloatArray
    df: float
    totals: Totals | None = None
    heavy: bool = False

    @classmethod
    def of(cls, nodes: ShareNodes) -> VarianceGrid:
        """The grid of a target whose penalties are integrated out."""
        rule, spectra, models, total = nodes.rule, nodes.spectra, nodes.models, nodes.total
        # From the total w to t2 of the rotated problem of each node.
        units = np.array([2 * np.log(spectrum.top) - total for spectrum in spectra])

        def densities(log_w: FloatArray) -> FloatArray:
            each = zip(spectra, models, log_w + units[:, None], strict=True)
            return np.stack([log_density(s, model, log_t2[:, None])[:, 0] for s, model, log_t2 in each])

        # From a centre of its own on the density of the log total changes little from node to node, so that it can be
        # interpolated: a strong signal makes those of two nodes lie far apart.
        slopes, at = _totals(nodes, densities)
        log_w = (_features(nodes.shares, _least(nodes)) @ slopes)[:, None] + at
        log_p = densities(log_w)
        # Polynomials of all shares need smooth values also where there is next to no probability.
        top = log_p.max(axis=1, keepdims=True) if isinstance(rule, PolynomialRule) else log_p.max()
        log_p = np.maximum(log_p, top - FLOOR)
        log_rss = np.stack(
            [
                np.log(penalized_rss(s, log_t2[:, None])[:, 0])
                for s, log_t2 in zip(spectra, log_w + units[:, None], strict=True)
            ]
        )
        finer, between = _finer(nodes)
        # The density of the shares, whose interpolation was checked, times that of the total given them.
        log_shares = between(nodes.log_evidence[:, None])[:, 0] + _of_target(finer, nodes.target)
        some = np.flatnonzero(log_shares > log_shares.max() + np.log(LEAST_MASS))
        shares = finer.shares[some]
        terms = between(log_p)[some]
        mass = np.exp(terms - terms.max(axis=1, keepdims=True))
        mass *= (np.exp(log_shares[some] - logsumexp(log_shares[some])) / mass.sum(axis=1))[:, None]
        keep = mass > LEAST_MASS
        of, place = np.nonzero(keep)
        weight = mass[keep] / mass[keep].sum()
        likelihood = models[0].likelihood
        rss = np.exp(between(log_rss)[some][keep])
        scale2 = likelihood.scale2(rss[:, None])[:, 0] * nodes.unit2
        center = _features(shares, _least(nodes)) @ slopes
        w = center[of] + at[place]
        share = shares[of] / (1 + np.exp(-w))[:, None]
        log_t = log_variances(shares, np.zeros(len(shares)), nodes.log_unit)[of] + w[:, None]
        heavy = is_heavy(models[0].b, max(spectrum.rank for spectrum in spectra))
        return cls(weight, log_t, share, scale2, likelihood.df, Totals.of(shares, center, at, mass), heavy)

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
            quantiles = np.exp(unit + _roots(lambda x: totals.below(x - log_phi), probabilities, *RANGE, 1e-10))
        return mean, np.sqrt(quantiles), self._spread(log_scale2, mean)

    def _spread(self, log_scale2: FloatArray, mean: float) -> float:
        """Standard deviation of the root of a variance with this mean: between points, and of the noise at each."""
        half, one = self._moment(0.5), self._moment(1.0)
        if self.heavy or not (np.isfinite(mean) and np.isfinite(one)):
            return float("inf")
        between = self.weight @ (half * np.exp(0.5 * log_scale2) - mean) ** 2
        return float(np.sqrt(between + (one - half**2) * (self.weight @ np.exp(log_scale2))))

    def _moment(self, power: float) -> float:
        """Mean of a power of a variance in units of that power of its scale."""
        half = self.df / 2
        if np.isinf(half):
            return 1.0
        if half <= power:
            return float("inf")
        return float(np.exp(power * np.log(half) + gammaln(half - power) - gammaln(half)))

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

        found = expit(_roots(lambda x: below(float(expit(x))), probabilities, *RANGE, 1e-10))
        return mean, found, below(LITTLE)

    @property
    def correlations(self) -> FloatArray:
        """Of effects of the same level: none, since each band has effects that are independent of the others'."""
        return np.zeros((self.weight.size, 0))

    def correlations_at(self, probabilities: FloatArray) -> list[tuple[float, FloatArray, float]]:
        """Of none."""
        return []

    def laws(self) -> list[TabledLaw]:
        """The laws of the standard deviation and the share of each band, and of the noise variance."""
        none, out = np.zeros(0), []
        for k in range(self.log_t.shape[1]):
            mean, _, sd = self.sd(k, none)
            share, _, little = self.shares(k, none)
            out.append(TabledLaw("sd", k, mean, sd, np.nan, *self.law_of_band(k)))
            with np.errstate(divide="ignore"):
                at = np.log(share) - np.log1p(-share)
            of_share = None if self.totals is None else self._below_share(k)
            out.append(TabledLaw("share", k, share, np.nan, little, of_share, float(at), 1.0))
        return [*out, self.law_of_noise()]

    def law_of_noise(self) -> TabledLaw:
        """The law of the noise variance."""
        mean, _ = self.noise(np.zeros(0))
        return TabledLaw("sigma2", 0, mean, np.nan, np.nan, *self._below_variance(np.log(self.scale2)))

    def law_of_band(self, band: int) -> tuple[Below | None, float, float]:
        """The distribution function of the log of a band's variance, a point of it and its width."""
        log_scale2 = self.log_t[:, band] + np.log(self.scale2)
        if self.totals is None or np.isfinite(self.df):
            return self._below_variance(log_scale2)
        totals, share = self.totals, self.share[0]
        # What is left of the log of the variance without those of the band's share and the total.
        all_bands = share.sum()
        unit = float(log_scale2[0] - np.log(all_bands) + np.log1p(-all_bands) - np.log(share[band] / all_bands))
        log_phi = np.log(totals.shares[:, band])
        return (
            lambda x: np.array([totals.below(one - unit - log_phi) for one in x.tolist()]),
            float(self.weight @ log_scale2),
            1.0,
        )

    def _below_share(self, band: int) -> Below:
        """The distribution function of the logit of a band's share ``phi w / (1 + w)``."""
        totals = self.totals
        assert totals is not None
        phi = totals.shares[:, band]

        def below(x: FloatArray) -> FloatArray:
            out = []
            for share in (1 / (1 + np.exp(-x))).tolist():
                rest = phi - share
                with np.errstate(divide="ignore"):
                    at = np.where(rest > 0, np.log(share) - np.log(np.where(rest > 0, rest, 1.0)), np.inf)
                out.append(totals.below(at))
            return np.array(out)

        return below

    def _below_variance(self, log_scale2: FloatArray) -> tuple[Below | None, float, float]:
        """The same as :meth:`law_of_band` of a variance that is ``df scale2`` over a chi-squared variate."""
        start = float(self.weight @ log_scale2) if self.weight.size > 1 else float(log_scale2[0])
        if np.isinf(self.df):
            return None, start, 0.0
        points, mass = binned(log_scale2, self.weight)
        return below_variance(points, mass, self.df), start, float(1 + 2 / np.sqrt(self.df / 2))

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
        mean *= self._moment(power)
        points, mass = binned(log_scale2, weight)
        order = np.argsort(points, kind="stable")
        points, mass = points[order], mass[order]
        before = np.concatenate([[0.0], np.cumsum(mass)])
        # Components that are farther below have all of their probability below, and those farther above none.
        ends = np.log(np.array([gammaincinv(half, CERTAIN), gammainccinv(half, CERTAIN)]) / half)

        def below(log_variance: float) -> float:
            first, last = np.searchsorted(points, log_variance + ends)
            some = gammaincc(half, half * np.exp(points[first:last] - log_variance))
            return float(before[first] + mass[first:last] @ some)

        low, high = float(points[0]) - 3.0, float(points[-1]) + 3.0
        while below(low) > probabilities.min(initial=1.0) and low > points[0] - 700:
            low -= 5.0 + 100.0 / self.df
        while below(high) < probabilities.max(initial=0.0) and high < points[-1] + 700:
            high += 5.0 + 100.0 / self.df
        return mean, np.exp(_roots(below, probabilities, low, high, 1e-9))


@functools.cache
def _integrals(count: int) -> FloatArray:
    """What values at 0, 1, …, of a cubic spline count in its integrals up to these points, (count, count)."""
    points = np.arange(float(count))
    return np.asarray(scipy.interpolate.CubicSpline(points, np.eye(count)).antiderivative()(points)).T


def _finer(nodes: ShareNodes) -> tuple[ShareRule, Callable[[FloatArray], FloatArray]]:
    """The points over the shares to which functions are interpolated, and their values (A, L) from those (M, L)."""
    rule = nodes.rule
    if isinstance(rule, ShareRule) and not rule.order:
        return rule, lambda values: values
    order, pieces = 1 if nodes.count == 1 else ORDER, pieces_of(*PIECES[nodes.count])
    if isinstance(rule, PolynomialRule):
        points = rule.points(order, pieces)
        matrix = rule.between(points.shares)
        return points, lambda values: matrix @ values
    finer = ShareRule.of(rule.box, order, pieces)
    return finer, lambda values: rule.interpolated(finer, values, in_logs=nodes.in_logs)


def _of_target(rule: ShareRule, target: int) -> FloatArray:
    """Log weights of the points of a rule for one target, (M,)."""
    return rule.log_weight if rule.log_weight.ndim == 1 else rule.log_weight[:, target]


def _totals(nodes: ShareNodes, densities: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Coefficients of the centre of the log total as a function of the shares, and its points from there on (L,).

    `densities` are the log densities at points of each node's own, (M, L).
    """
    weight = nodes.weight
    heavy = weight > 1e-9
    coarse = np.broadcast_to(COARSE, (heavy.size, COARSE.size))
    low, high = _ends(coarse, _matters(densities(coarse), coarse))
    log_w = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, FINE)
    values = densities(log_w)
    mass = np.exp(values - values.max(axis=1, keepdims=True))
    center = (mass * log_w).sum(axis=1) / mass.sum(axis=1)
    root = weight[heavy] ** FLAT
    features = _features(nodes.shares[heavy], _least(nodes))
    mean = np.average(center[heavy], weights=root)
    normal = (root[:, None] * features).T @ features + RIDGE * root.sum() * np.eye(features.shape[1])
    slopes = np.linalg.solve(normal, (root[:, None] * features).T @ (center[heavy] - mean))
    slopes[0] += mean
    low, high = _ends(log_w, _matters(values, log_w))
    middle = _features(nodes.shares, _least(nodes)) @ slopes
    at = np.linspace((low - middle)[heavy].min(), (high - middle)[heavy].max(), TOTALS.get(nodes.count, TOTALS[3]))
    return slopes, at


def _least(nodes: ShareNodes) -> FloatArray:
    """Sizes of shares (L, K), as far as the nodes resolve them."""
    return np.maximum(LEAST[:, None], RESOLVED * nodes.shares.min(axis=0))


def _features(shares: FloatArray, least: FloatArray) -> FloatArray:
    """What the centre is a linear function of, at shares (M, K).

    A signal in a band fixes its share times the total, if the share is not so small that other bands take it over:
    logs of shares beyond values of several sizes (L, K).
    """
    terms = [np.log(shares + each) for each in least]
    return np.hstack([np.ones((len(shares), 1)), *terms])


def _matters(values: FloatArray, log_w: FloatArray) -> BoolArray:
    """Where the log densities (M, L) of a node matter to its probabilities or its mean total."""
    with_moment = values + log_w
    out: BoolArray = values > values.max(axis=1, keepdims=True) - DROP
    out |= with_moment > with_moment.max(axis=1, keepdims=True) - DROP / 2
    return out


def _ends(log_w: FloatArray, inside: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The points (M, L) around those that are inside, of each node (M,)."""
    each, last = np.arange(len(log_w)), log_w.shape[1] - 1
    first, final = inside.argmax(axis=1), last - inside[:, ::-1].argmax(axis=1)
    return log_w[each, np.maximum(first - 1, 0)], log_w[each, np.minimum(final + 1, last)]


def binned(x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def _roots(
    below: Callable[[float], float], probabilities: FloatArray, low: float, high: float, xtol: float
) -> FloatArray:
    """The points between two others at which a distribution function has some values.

    The one in the middle bounds the others, so that many take little more time than few.
    """
    known, out = functools.cache(below), np.empty(probabilities.size)
    order, parts = np.argsort(probabilities, kind="stable"), [(0, probabilities.size, low, high)]

    def root(probability: float, first: float, last: float) -> float:
        return float(scipy.optimize.brentq(lambda x: known(x) - probability, first, last, xtol=xtol))

    while parts:
        first, last, left, right = parts.pop()
        if first == last:
            continue
        middle = (first + last) // 2
        probability = float(probabilities[order[middle]])
        try:
            found = root(probability, left, right)
        except ValueError:  # the function hardly rises between them, so that rounding errors have its sign
            found = root(probability, low, high)
        out[order[middle]] = found
        # Each root is known up to the tolerance.
        parts += [(first, middle, left, min(found + 2 * xtol, right))]
        parts += [(middle + 1, last, max(found - 2 * xtol, left), right)]
    return out


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))
