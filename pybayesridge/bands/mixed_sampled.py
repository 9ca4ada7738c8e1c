"""Integrals over more variances and correlations than a lattice can take: weighted scrambled Sobol' points.

In normal scores of the explained share of all bands, of the angles of their shares and of partial correlations the
prior is standard normal but for a factor that covariances bring in: no variance that may be zero makes a sharp edge.
The proposals are mixtures of t distributions, each like all points before it; see :mod:`pybayesridge.bands.sampled`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from scipy.special import betainc, betaincinv, logsumexp, ndtr, ndtri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import CovarianceCoordinates, Factors, Terms, correlated, partial_scores
from pybayesridge.bands.lattice import Value
from pybayesridge.bands.sampled import (
    CENTRAL,
    FARTHEST,
    ROUNDS,
    SCRAMBLES,
    LookedAt,
    Proposal,
    angles_at,
    scores_of,
)
from pybayesridge.bands.shares import angles_of, shares_of

ACCEPTED = 40.0
"""An error so many times `tol` is accepted."""

POINTS = 128
"""Points in each round in which the first proposal is fitted."""

FIRST_POINTS = ROUNDS * POINTS
"""All of these."""

FIRST, MOST = 64, 1024
"""Points of each scramble: at first, and after which no more are added."""

SMOOTH = 0.1
"""Standard deviation of the normal distributions that points are spread out to, in those of the posterior."""

FINE = 1 << 17
"""About how many points they are spread out to."""

SEED = 20
"""Of the points: the same data have the same answer."""

NEGLIGIBLE = 1e-7
"""Points of smaller weight are left out."""


LEAST_SHARE = 1e-3
"""Least share of a band where points are looked for first."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Normal scores x (d,) of all variances and correlations; others are those of :class:`CovarianceCoordinates`.

    Attributes
    ----------
    terms : Terms
    a, b : float
        Of the beta-prime prior of W relative to its unit.
    log_unit : float
        Log of this unit.
    """

    terms: Terms
    a: float
    b: float
    log_unit: float

    @classmethod
    def like(cls, coordinates: CovarianceCoordinates) -> Scores:
        """With the prior of other coordinates."""
        return cls(coordinates.terms, coordinates.a, coordinates.b, coordinates.log_unit)

    def factors(self, x: FloatArray) -> Factors:
        """A of each term at scores (…, d)."""
        count, shape = self.terms.count, x.shape[:-1]
        score = np.clip(x[..., 0], -FARTHEST, FARTHEST)
        ratio = betaincinv(self.a, self.b, ndtr(score)) / betaincinv(self.b, self.a, ndtr(-score))
        shares = np.ones((*shape, 1))
        if count > 1:
            shares = shares_of(angles_at(x[..., 1:count].reshape(-1, count - 1))).reshape(*shape, count)
        root = np.sqrt(np.exp(self.log_unit) * ratio[..., None] * shares / self.terms.size)
        return correlated(self.terms, root, x[..., count:])

    def log_prior(self, x: FloatArray) -> FloatArray:
        """Log density of the prior with respect to x (…, d)."""
        return self.log_density(x, self.factors(x))

    def log_density(self, x: FloatArray, factors: Factors) -> FloatArray:
        """The same where the `factors` are these."""
        own = (self.terms.variances(factors) * self.terms.size).sum(axis=-1)
        total = self.terms.totals(factors).sum(axis=-1)
        ratio = np.divide(total, own, out=np.ones(np.shape(own)), where=own > 0)
        unit = np.exp(-self.log_unit)
        out: FloatArray = (
            -0.5 * (x**2).sum(axis=-1)
            - 0.5 * np.log(2 * np.pi) * x.shape[-1]
            + self.a * np.log(np.maximum(ratio, 1e-300))
            + (self.a + self.b) * (np.log1p(own * unit) - np.log1p(total * unit))
        )
        return out

    def near(self, factors: Factors) -> FloatArray:
        """Scores (d,) near those at which the A of the terms are these: no share vanishes."""
        w = self.terms.variances(factors) * self.terms.size
        ratio = float(w.sum()) * np.exp(-self.log_unit)
        shares = np.maximum(w, LEAST_SHARE * w.sum() + 1e-300)
        first = -ndtri(betainc(self.b, self.a, 1 / (1 + ratio)))
        angles = scores_of(angles_of((shares / shares.sum())[None]))[0] if w.size > 1 else np.zeros(0)
        return np.concatenate([[first], angles, *(partial_scores(factor) for factor in factors)])


@dataclass(frozen=True, slots=True)
class SampledPoints:
    """Weighted points of a density, with what :class:`pybayesridge.bands.lattice.Lattice` has.

    Attributes
    ----------
    points : (M, d) array
    log_ratio : (M,) array
        Logs of density over that of the proposal.
    other : (M,) array
        A function at the points.
    scramble : (M,) int array
        Which of independent sets of points each belongs to.
    count : int
        Number of points, those of next to no weight among them.
    """

    points: FloatArray
    log_ratio: FloatArray
    other: FloatArray
    scramble: IntArray
    count: int

    complete = True

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, which also counted evaluations."""
        return {name: value for name, value in state.items() if name != "looked_at"}

    @property
    def weight(self) -> FloatArray:
        """Sums to 1, (M,)."""
        out: FloatArray = np.exp(self.log_ratio - logsumexp(self.log_ratio))
        return out

    @property
    def log_integral(self) -> float:
        """Log of the integral of the density."""
        return float(logsumexp(self.log_ratio) - np.log(self.count))

    def error(self, functions: FloatArray) -> float:
        """Largest standard error of the log integral, and of means of functions (M, J) in standard deviations."""
        weight = self.weight
        mean = weight @ functions
        spread = np.sqrt(np.maximum(weight @ functions**2 - mean**2, 1e-20 * weight @ functions**2) + 1e-300)
        masses, means = [], []
        for each in range(SCRAMBLES):
            own = self.scramble == each
            masses.append(weight[own].sum())
            means.append(weight[own] @ functions[own] / max(masses[-1], 1e-300))
        of_means = (np.std(means, axis=0, ddof=1) / spread).max()
        return float(max(np.std(masses, ddof=1) * SCRAMBLES, of_means) / np.sqrt(SCRAMBLES))

    def changed(self, change: FloatArray) -> SampledPoints:
        """The points with weights for a density whose logs there differ by so much, (M,)."""
        return replace(self, log_ratio=self.log_ratio + change)

    def fine(self, count: int = FINE) -> tuple[FloatArray, FloatArray, FloatArray]:
        """About `count` points (F, d) without steps in any coordinate, weights (F,), and the other function (F,).

        Each point is spread out to a narrow normal distribution, and all are drawn together as much as keeps means
        and covariances (West 1993).
        """
        weight, d = self.weight, self.points.shape[1]
        mean = weight @ self.points
        centred = self.points - mean
        covariance = (centred * weight[:, None]).T @ centred
        root = np.linalg.cholesky(covariance + 1e-12 * np.trace(covariance) * np.eye(d))
        each = max(1, count // weight.size)
        normal = np.random.default_rng(SEED).standard_normal((weight.size * each, d))
        spread = np.repeat(mean + np.sqrt(1 - SMOOTH**2) * centred, each, axis=0) + SMOOTH * normal @ root.T
        return spread, np.repeat(weight / each, each), np.repeat(self.other, each)


def first_proposal(density: Callable[[FloatArray], Value], origin: FloatArray) -> Proposal:
    """A proposal near a density of scores, which is looked at in rounds; `origin` (d,) are scores that are likely."""

    def log_density(points: FloatArray) -> FloatArray:
        return np.array([density(point).log_density for point in points])

    return LookedAt.in_rounds(log_density, np.clip(origin, -CENTRAL, CENTRAL), SEED, POINTS).proposal()


@dataclass(frozen=True, slots=True)
class Drawn:
    """Points that were drawn for one density, and serve for others like it.

    Attributes
    ----------
    points : (M, d) array
    log_proposal : (M,) array
        Log density of the mixture of their proposals.
    scramble : (M,) int array
        Which of independent sets of points each belongs to.
    """

    points: FloatArray
    log_proposal: FloatArray
    scramble: IntArray

    def at(self, density: Callable[[FloatArray], Value]) -> tuple[SampledPoints, FloatArray]:
        """The points with weights for a density, and what is kept of them."""
        return self.weighted([density(point) for point in self.points])

    def weighted(self, values: list[Value]) -> tuple[SampledPoints, FloatArray]:
        """The points that matter where the values are these, and what is kept of them."""
        log_ratio = np.array([value.log_density for value in values]) - self.log_proposal
        keep = np.flatnonzero(log_ratio > logsumexp(log_ratio) + np.log(NEGLIGIBLE))
        other = np.array([values[i].other for i in keep])
        points = SampledPoints(self.points[keep], log_ratio[keep], other, self.scramble[keep], log_ratio.size)
        return points, np.stack([values[i].more for i in keep])


def sampled(
    density: Callable[[FloatArray], Value],
    proposal: Proposal,
    enough: Callable[[SampledPoints, FloatArray], bool],
) -> tuple[Drawn, SampledPoints, FloatArray]:
    """Points for a density of scores, those that matter with their weights, and what is kept of these.

    Parameters
    ----------
    density : callable
    proposal : Proposal
        Of the first points.
    enough : callable
        Of the points that matter and what is kept of them: whether no more are needed.
    """
    d = proposal.mean.shape[1]
    engines = [scipy.stats.qmc.Sobol(d + 2, seed=np.random.default_rng([SEED, 100 + i])) for i in range(SCRAMBLES)]
    seen, values, scramble = LookedAt.nowhere(d), list[Value](), np.zeros(0, dtype=np.intp)
    size, each = FIRST, FIRST
    while True:
        new = np.vstack([proposal.points(engine.random(size)) for engine in engines])
        values += [density(point) for point in new]
        seen = seen.with_more(proposal, new, np.array([value.log_density for value in values[-len(new) :]]))
        scramble = np.concatenate([scramble, np.repeat(np.arange(SCRAMBLES), size)])
        drawn = Drawn(seen.points, seen.log_proposal(), scramble)
        points, kept = drawn.weighted(values)
        if each >= MOST or enough(points, kept):
            return drawn, points, kept
        proposal, size, each = seen.proposal(), each, 2 * each
