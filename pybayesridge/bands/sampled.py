"""Shares of more bands than a product rule can take: scrambled Sobol' points under a proposal, weighted.

In normal scores of the angles the prior of the shares is standard normal, and the posterior of a band whose variance
may be zero has no sharp edge. The proposal is a t distribution with the mean and the covariance of the posterior
there, which some rounds of weighted points estimate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from scipy.linalg import cholesky
from scipy.special import betainc, betaincinv, gammaln, logsumexp, ndtr, ndtri

from pybayesridge._types import FloatArray
from pybayesridge.bands.shares import Box, ShareRule, angles_of, shares_of

TAILS = 8.0
"""Degrees of freedom of the proposal."""

ROUNDS, POINTS = 4, 64
"""Rounds in which the proposal is fitted, and points in each."""

FARTHEST = 6.0
"""Normal scores are cut at this: shares beyond are 0 or 1 for all purposes."""

SCRAMBLES = 4
"""Independent scrambles of the points, whose differences tell the error."""

WIDE = 0.7
"""Standard deviation of the first proposal, in those of the prior."""

LEAST = 1e-3
"""Least variance of a proposal along a direction, likewise."""

CENTRAL = 2.5
"""Largest normal score about which the first proposal is."""

LogDensity = Callable[[FloatArray], FloatArray]
"""Logs of a density, (M,), at shares (M, K), the total integrated out, or at scores (M, d)."""


def scores_of(angles: FloatArray) -> FloatArray:
    """Normal scores (M, K - 1) of angles (M, K - 1)."""
    half = _halves(angles.shape[1])
    out: FloatArray = ndtri(betainc(half, 0.5, np.sin(angles) ** 2))
    return np.clip(out, -FARTHEST, FARTHEST)


def angles_at(scores: FloatArray) -> FloatArray:
    """The angles whose normal scores these are."""
    cut = np.clip(scores, -FARTHEST, FARTHEST)
    squared: FloatArray = betaincinv(_halves(scores.shape[1]), 0.5, ndtr(cut))
    return np.arcsin(np.sqrt(squared))


def _halves(count: int) -> FloatArray:
    """First parameters of the beta distributions of the squared sines."""
    out: FloatArray = np.arange(count, 0, -1) / 2
    return out


class Proposal:
    """A t distribution of normal scores.

    Parameters
    ----------
    mean : (d,) array
    covariance : (d, d) array
    """

    def __init__(self, mean: FloatArray, covariance: FloatArray) -> None:
        self.mean = mean
        self.root = cholesky(covariance, lower=True)

    def points(self, uniform: FloatArray) -> FloatArray:
        """Points (M, d) from uniform numbers (M, d + 1)."""
        inside = np.clip(uniform, 1e-12, 1 - 1e-12)
        widen = np.sqrt(TAILS / scipy.stats.chi2.ppf(inside[:, -1], TAILS))
        out: FloatArray = self.mean + (ndtri(inside[:, :-1]) * widen[:, None]) @ self.root.T
        return out

    def log_density(self, points: FloatArray) -> FloatArray:
        """Log density at points (M, d)."""
        d = self.mean.size
        apart = np.linalg.solve(self.root, (points - self.mean).T)
        constant = gammaln((TAILS + d) / 2) - gammaln(TAILS / 2) - d / 2 * np.log(TAILS * np.pi)
        size = float(np.log(np.diag(self.root)).sum())
        out: FloatArray = constant - size - (TAILS + d) / 2 * np.log1p((apart**2).sum(axis=0) / TAILS)
        return out


def fitted_proposal(log_density: LogDensity, start: FloatArray, seed: int) -> Proposal:
    """A proposal near the posterior of the shares.

    Parameters
    ----------
    log_density : callable
    start : (K,) array
        Shares that are likely.
    seed : int
    """
    mean = np.clip(scores_of(angles_of(start[None]))[0], -CENTRAL, CENTRAL)
    return fitted_to(lambda points: log_density(shares_of(angles_at(points))) + _log_prior(points), mean, seed)


def fitted_to(log_density: LogDensity, mean: FloatArray, seed: int, points: int = POINTS) -> Proposal:
    """A proposal near a density of scores (M, d) whose prior is standard normal.

    The first round is about `mean` (d,); there are so many `points` in each.
    """
    d = mean.size
    made, known, values = [], np.zeros((0, d)), np.zeros(0)
    covariance = WIDE**2 * np.eye(d)
    for i in range(ROUNDS):
        made.append(Proposal(mean, covariance))
        drawn = made[-1].points(scipy.stats.qmc.Sobol(d + 1, seed=np.random.default_rng([seed, i])).random(points))
        known = np.vstack([known, drawn])
        values = np.concatenate([values, log_density(drawn)])
        terms = values - logsumexp([each.log_density(known) for each in made], axis=0)
        weight = np.exp(terms - logsumexp(terms))
        # Weights are cut, so that single points make no covariance.
        weight = np.minimum(weight, np.sqrt(weight.mean() * weight.max()))
        weight /= weight.sum()
        mean = weight @ known
        centred = known - mean
        covariance = (centred * weight[:, None]).T @ centred + LEAST * np.eye(d)
    return Proposal(mean, covariance)


def _log_prior(scores: FloatArray) -> FloatArray:
    out: FloatArray = -0.5 * (scores**2).sum(axis=1) - scores.shape[1] / 2 * np.log(2 * np.pi)
    return out


class SampledShares:
    """Points of a proposal in independent scrambles, more of which can be had.

    Parameters
    ----------
    proposal : Proposal
    seed : int
    """

    def __init__(self, proposal: Proposal, seed: int) -> None:
        self.proposal = proposal
        d = proposal.mean.size
        self.engines = [
            scipy.stats.qmc.Sobol(d + 1, seed=np.random.default_rng([seed, 100 + i])) for i in range(SCRAMBLES)
        ]

    def more(self, count: int) -> ShareRule:
        """As many further points of each scramble, scramble by scramble, with the logs of their weights."""
        points = np.vstack([self.proposal.points(engine.random(count)) for engine in self.engines])
        angles = angles_at(points)
        log_weight = _log_prior(points) - self.proposal.log_density(points)
        return ShareRule(Box.whole(points.shape[1] + 1), 0, angles, shares_of(angles), log_weight)


def together(rules: list[ShareRule]) -> ShareRule:
    """The points of several calls as one rule, with weights that sum to about 1."""
    angles = np.vstack([rule.angles for rule in rules])
    log_weight = np.concatenate([rule.log_weight for rule in rules])
    shares = np.vstack([rule.shares for rule in rules])
    return ShareRule(rules[0].box, 0, angles, shares, log_weight - np.log(len(log_weight)))


def scramble_of(sizes: list[int]) -> FloatArray:
    """The scramble of each point, for calls with so many points in each scramble."""
    return np.concatenate([np.repeat(np.arange(SCRAMBLES), size) for size in sizes])
