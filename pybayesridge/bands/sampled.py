"""Shares of more bands than a product rule can take: scrambled Sobol' points under a proposal, weighted.

In normal scores of the angles the prior of the shares is standard normal, and the posterior of a band whose variance
may be zero has no sharp edge. It is skewed all the same: the proposal is a mixture of t distributions, which some
rounds of weighted points estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import betainc, betaincinv, gammaln, logsumexp, ndtr, ndtri

from pybayesridge._types import FloatArray
from pybayesridge.bands.shares import Box, ShareRule, angles_of, shares_of

TAILS = 8.0
"""Degrees of freedom of the proposal."""

MOST_PARTS, EACH = 4, 10
"""Most t distributions of a proposal, and how many effective points there are for each of them and each score."""

EM_STEPS = 15
"""Of the fit of a mixture: it need not be the best one."""

WIDER = 1.2
"""What scales of a proposal are multiplied by: too wide a proposal costs points, too narrow a one is wrong."""

LEAST_SHARE = 0.02
"""Least share of a t distribution in a proposal."""

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
    """A mixture of t distributions of normal scores.

    Parameters
    ----------
    share : (C,) array
        Sums to 1.
    mean : (C, d) array
    covariance : (C, d, d) array
        Squared scales of the t distributions.
    """

    def __init__(self, share: FloatArray, mean: FloatArray, covariance: FloatArray) -> None:
        self.share, self.mean = share, mean
        self.root = np.linalg.cholesky(covariance)

    @classmethod
    def normal_like(cls, mean: FloatArray, covariance: FloatArray) -> Proposal:
        """A single t distribution with this mean (d,) and these squared scales (d, d)."""
        return cls(np.ones(1), mean[None], covariance[None])

    @classmethod
    def fitted(cls, points: FloatArray, log_weight: FloatArray) -> Proposal:
        """One like points (M, d) with logs of weights (M,).

        With as many parts as the effective number of points allows. These begin as slices of the points along the
        direction in which they vary most; EM steps follow.
        """
        weight = np.exp(log_weight - logsumexp(log_weight))
        # Weights are cut, so that single points make no covariance.
        weight = np.minimum(weight, np.sqrt(weight.mean() * weight.max()))
        weight /= weight.sum()
        count, d = points.shape
        whole = weight @ points
        centred = points - whole
        covariance = (centred * weight[:, None]).T @ centred
        floor = LEAST * np.eye(d)
        parts = int(np.clip(1 / (weight**2).sum() / (EACH * d), 1, MOST_PARTS))
        along = centred @ np.linalg.eigh(covariance)[1][:, -1]
        order = np.argsort(along)
        slices = np.empty(count, dtype=np.intp)
        slices[order] = np.minimum((np.cumsum(weight[order]) * parts).astype(np.intp), parts - 1)
        member = np.equal.outer(np.arange(parts), slices).astype(float)
        near = np.ones((parts, count))
        for _ in range(EM_STEPS if parts > 1 else 1):
            own = member * weight
            share = own.sum(axis=1)
            pulled = own * near
            mean = (pulled @ points) / pulled.sum(axis=1)[:, None]
            apart = points - mean[:, None]
            scatter = np.einsum("cm,cmi,cmj->cij", pulled, apart, apart) / share[:, None, None]
            # A part that few points make takes some of its shape from all of them.
            borrowed = np.minimum(1.0, (d + 2) * (own**2).sum(axis=1) / share**2)[:, None, None]
            scatter = (1 - borrowed) * scatter + borrowed * covariance / min(parts, 2) + floor
            share = np.maximum(share, LEAST_SHARE)
            made = cls(share / share.sum(), mean, scatter)
            log_parts, squares = made._of_parts(points)
            member = np.exp(log_parts - logsumexp(log_parts, axis=0))
            near = (TAILS + d) / (TAILS + squares)
        return cls(made.share, made.mean, WIDER**2 * scatter)

    def points(self, uniform: FloatArray) -> FloatArray:
        """Points (M, d) from uniform numbers (M, d + 2)."""
        inside = np.clip(uniform, 1e-12, 1 - 1e-12)
        widen = np.sqrt(TAILS / scipy.stats.chi2.ppf(inside[:, -2], TAILS))
        part = np.minimum(np.searchsorted(np.cumsum(self.share), inside[:, -1]), self.share.size - 1)
        normal = ndtri(inside[:, :-2]) * widen[:, None]
        out: FloatArray = self.mean[part] + np.einsum("mij,mj->mi", self.root[part], normal)
        return out

    def log_density(self, points: FloatArray) -> FloatArray:
        """Log density at points (M, d)."""
        out: FloatArray = logsumexp(self._of_parts(points)[0], axis=0)
        return out

    def _of_parts(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of shares times densities of the parts, and squared distances from them, (C, M)."""
        d = points.shape[1]
        apart = np.linalg.solve(self.root, (points - self.mean[:, None]).transpose(0, 2, 1))
        squares = (apart**2).sum(axis=1)
        constant = gammaln((TAILS + d) / 2) - gammaln(TAILS / 2) - d / 2 * np.log(TAILS * np.pi)
        size = np.log(np.diagonal(self.root, axis1=1, axis2=2)).sum(axis=1)
        log_t = constant - size[:, None] - (TAILS + d) / 2 * np.log1p(squares / TAILS)
        return np.log(self.share)[:, None] + log_t, squares


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


def fitted_to(log_density: LogDensity, mean: FloatArray, seed: int) -> Proposal:
    """A proposal near a density of scores (M, d) whose prior is standard normal; the first round is about `mean`."""
    return LookedAt.in_rounds(log_density, mean, seed, POINTS).proposal()


@dataclass(frozen=True, slots=True)
class LookedAt:
    """Points of several proposals at which a density of scores is known.

    Attributes
    ----------
    proposals : tuple of Proposal
        From which the points were drawn.
    counts : tuple of int
        How many from each.
    points : (M, d) array
    log_density : (M,) array
    """

    proposals: tuple[Proposal, ...]
    counts: tuple[int, ...]
    points: FloatArray
    log_density: FloatArray

    @classmethod
    def nowhere(cls, d: int) -> LookedAt:
        """No points of d scores."""
        return cls((), (), np.zeros((0, d)), np.zeros(0))

    @classmethod
    def in_rounds(cls, log_density: LogDensity, mean: FloatArray, seed: int, points: int) -> LookedAt:
        """Rounds of so many points each, the first about `mean` (d,), each other like the points before it."""
        d = mean.size
        made = cls.nowhere(d)
        proposal = Proposal.normal_like(mean, WIDE**2 * np.eye(d))
        for i in range(ROUNDS):
            engine = scipy.stats.qmc.Sobol(d + 2, seed=np.random.default_rng([seed, i]))
            drawn = proposal.points(engine.random(points))
            made = made.with_more(proposal, drawn, log_density(drawn))
            proposal = made.proposal()
        return made

    def with_more(self, proposal: Proposal, points: FloatArray, log_density: FloatArray) -> LookedAt:
        """These and others."""
        return LookedAt(
            (*self.proposals, proposal),
            (*self.counts, len(points)),
            np.vstack([self.points, points]),
            np.concatenate([self.log_density, log_density]),
        )

    def log_proposal(self) -> FloatArray:
        """Log density at the points of the mixture of all proposals, (M,)."""
        share = np.log(np.array(self.counts) / sum(self.counts))
        each = np.stack([proposal.log_density(self.points) for proposal in self.proposals])
        out: FloatArray = logsumexp(share[:, None] + each, axis=0)
        return out

    def proposal(self) -> Proposal:
        """One near the density."""
        return Proposal.fitted(self.points, self.log_density - self.log_proposal())


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
        d = proposal.mean.shape[1]
        self.engines = [
            scipy.stats.qmc.Sobol(d + 2, seed=np.random.default_rng([seed, 100 + i])) for i in range(SCRAMBLES)
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
