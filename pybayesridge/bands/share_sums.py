"""Sums over the shares of the bands of polynomials in them, for many targets at once, and how far they are off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.bands.posterior import scaled
from pybayesridge.bands.problem import BandProblem
from pybayesridge.bands.shares import ShareRule, log_of_sum, posterior_weight, share_moments
from pybayesridge.bands.simplex import EDGES, PolynomialRule, corners, edges
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.ridge.fit import RidgeFit
from pybayesridge.ridge.mixture import effective_directions, mean_coefficients

FINE = {2: 144, 3: 48}
"""Points in each angle at which polynomials are summed over, by the number of bands; and two thirds of these."""

CAUTION = 10.0
"""Changes from the next lower degree count so many times as errors, those from the one below it as they are: with
bands of one column they fall slowly."""

FEWEST, FEW = 5, 0.1
"""Least degree whose nodes may be those of the posterior of the coefficients, and the share of the error that is
accepted which fewer nodes may take."""

PARTS = (1 / 4, 1 / 2)
"""Sizes of parts, see :func:`parts_of`."""

BORDER, OUTSIDE = 0.05, 1e-3
"""Parts are of targets with at most such a probability outside, or in them beside other shares, relative to the
size."""

FLATTENED, BESIDE = 0.1, 4.0
"""See :func:`unseen`; shares up to so many times the margin are beside an edge."""

SATURATED = 100.0
"""Larger log ratios are not told apart."""

AT_ONCE = 1 << 21
"""Most points times targets at once of such sums."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at the nodes of a rule of polynomials, of q targets.

    Attributes
    ----------
    log_integral : (M, q) array
        Logs of the integrals over the total.
    log_mean : (M, q) array
        Logs of the mean of what the variances of all bands are, but for their shares; 0 where one has no mean.
    noise, rank : (M, q) arrays
        Mean squared scale of the noise, which is finite also where its mean variance is not, and effective number of
        directions.
    fitted : (M, c, q) array
        Fitted values in random directions, in units of the targets' norms.
    """

    log_integral: FloatArray
    log_mean: FloatArray
    noise: FloatArray
    rank: FloatArray
    fitted: FloatArray

    @classmethod
    def of(
        cls,
        problem: BandProblem,
        shares: FloatArray,
        fits: list[RidgeFit],
        log_integral: FloatArray,
        sketch: FloatArray,
    ) -> Known:
        """From the ridges at shares (M, K); `sketch` (p, c) are products of directions with X."""
        means, fitted = [], []
        for at_node, fit in zip(shares, fits, strict=True):
            mixture = fit.mixture
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                mean = (mixture.weight * mixture.scale2 * np.exp(mixture.log_t2)).sum(axis=0)
                log_mean = np.log(np.where(mixture.open_variance, 1.0, mean / fit.spectrum.top**2))
            means.append(np.where(np.isfinite(log_mean), log_mean, 0.0))
            factor = problem.factors(at_node)
            rows = sketch.T * factor[problem.band]
            design = scaled(problem.design, problem.band, factor)
            coords = fit.spectrum.project_rows(design, rows) / fit.spectrum.top
            fitted.append(blas.product(coords, mean_coefficients(fit.spectrum, mixture)))
        return cls(
            log_integral,
            np.stack(means),
            np.stack([(fit.mixture.weight * fit.mixture.scale2).sum(axis=0) for fit in fits]),
            np.stack([effective_directions(fit.spectrum, fit.mixture) for fit in fits]),
            np.stack(fitted),
        )

    def with_more(self, more: Known) -> Known:
        """These and further nodes."""
        each = [np.concatenate([getattr(self, name), getattr(more, name)]) for name in self.__slots__]
        return Known(*each)

    def of_targets(self, which: IntArray | slice) -> Known:
        """The same of some of the targets."""
        return Known(*(getattr(self, name)[..., which] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Summed:
    """Sums over the shares, of polynomials: weights of the nodes (M, q), logs of the integrals and errors (q,)."""

    weight: FloatArray
    log_integral: FloatArray
    error: FloatArray

    def of_targets(self, which: IntArray) -> Summed:
        """The same of some of the targets."""
        return Summed(self.weight[:, which], self.log_integral[which], self.error[which])


def by_degrees(known: Known, rule: PolynomialRule, at_edges: FloatArray, tol: float, most: int) -> Summed:
    """The sums by polynomials of a degree.

    Their error is the change from polynomials of the two lower degrees, that of the next lower times `CAUTION`, what
    it changes that weights must not be negative, and what they miss at the edges, where log integrals are `at_edges`,
    (E, q), or at the border of a part. Where all but the weights is within `tol`, the posterior of the coefficients
    has as few nodes as change next to nothing, those of a lower degree, and never more than those of the degree
    `most`.
    """
    bands, q = rule.shares.shape[1], known.log_integral.shape[1]
    fine, coarser = (rule.points(order) for order in (FINE[bands], 2 * FINE[bands] // 3))
    rules = [(rule, fine), (rule, coarser), *((rule.lower(rule.degree - less), fine) for less in (1, 2))]
    between = [one.between(points.shares) for one, points in rules]
    parts = []
    for some in even_parts(q, max(1, AT_ONCE // len(fine.shares))):
        own = known.of_targets(some)
        best, *others = [_Sums.of(own, matrix, points) for matrix, (_, points) in zip(between, rules, strict=True)]
        quadrature, one, two = (_change(own, best, other) for other in others)
        missed = _missed(own, rule, best.share, fine, at_edges[:, some])
        error = np.maximum.reduce([CAUTION * quadrature, CAUTION * one, two, missed])
        weight, misfit = _fewest(own, rule, best, error <= tol, FEW * tol, min(most, rule.degree))
        parts.append(Summed(weight, best.log_integral, np.maximum(error, misfit)))
    return Summed(
        np.concatenate([part.weight for part in parts], axis=1),
        np.concatenate([part.log_integral for part in parts]),
        np.concatenate([part.error for part in parts]),
    )


def _fewest(
    known: Known, rule: PolynomialRule, best: _Sums, wanted: BoolArray, tol: float, most: int
) -> tuple[FloatArray, FloatArray]:
    """Weights (M, q) that are not negative, of as few nodes as change no more than `tol`, and what they change, (q,).

    Of targets that are not `wanted` (q,) the weights are those of the degree `most`.
    """
    weight, misfit = np.zeros_like(best.weight), np.full(wanted.size, np.inf)
    for degree in range(min(FEWEST, most), most + 1):
        left = np.flatnonzero((misfit > tol) & (wanted | (degree == most)))
        if not left.size:
            continue
        own, lower = known.of_targets(left), rule.lower(degree)
        new = np.zeros((len(weight), left.size))
        new[: len(lower.shares)] = lower.nonnegative(best.weight[:, left], rule.shares)
        spread = np.abs(_log_spread(own, rule.shares, new) - best.log_spread[:, left]).max(axis=0)
        # Two nodes far from each other may have the mean share of what is between them, but not the mean root.
        root = np.abs(np.log(blas.product(np.sqrt(rule.shares).T, new) / best.mean[:, left])).max(axis=0)
        weight[:, left] = new
        misfit[left] = np.maximum.reduce([_misfit(own, best.weight[:, left], new), spread, root])
    return weight, misfit


def parts_of(known: Known, rule: PolynomialRule) -> list[tuple[FloatArray, IntArray]]:
    """Parts of all shares that have all but `OUTSIDE` of the density of targets, by polynomials, with these targets.

    The least shares (K,) of each, and positions; that of most targets first, and small parts before large ones.
    """
    bands = rule.shares.shape[1]
    fine = rule.points(FINE[bands])
    left = np.arange(known.log_integral.shape[1])
    log_density = blas.product(rule.between(fine.shares), known.log_integral[: len(rule.shares)])
    share = posterior_weight(log_density + fine.log_weight[:, None])
    out = []
    for size in PARTS:
        lows = corners(bands, size)
        inside = [(((fine.shares - low) / size >= BORDER) | (low == 0)).all(axis=1) for low in lows]
        holds = blas.product(np.array(inside, dtype=float), share) >= 1 - OUTSIDE
        while left.size and holds[:, left].any():
            best = int(holds[:, left].sum(axis=1).argmax())
            out.append((lows[best], left[holds[best, left]]))
            left = left[~holds[best, left]]
    return out


def _missed(
    known: Known, rule: PolynomialRule, share: FloatArray, fine: ShareRule, at_edges: FloatArray
) -> FloatArray:
    """The probability that polynomials wrongly have, or do not have, beside an edge or the border of a part, (q,).

    Parameters
    ----------
    known : Known
    rule : PolynomialRule
    share : (F, q) array
        Posterior weights of the points of `fine`.
    fine : ShareRule
    at_edges : (E, q) array
        Log integrals at the points of :func:`edges` for each of `EDGES` in turn.
    """
    border = ((rule.local(fine.shares) < BORDER) & (rule.low > 0)).any(axis=1)
    out: FloatArray = CAUTION * share[border].sum(axis=0)
    for edge, found in zip(EDGES, np.split(at_edges, len(EDGES)), strict=True):
        ends = edges(rule.low, edge)
        off = found - blas.product(rule.between(ends), known.log_integral[: len(rule.shares)])
        for k in range(ends.shape[1]):
            own = ends[:, k] < 2 * edge
            if not own.any():
                continue
            weight = posterior_weight(found[own] - np.minimum(off[own], 0.0))
            beside = share[fine.shares[:, k] < rule.margin].sum(axis=0)
            out = np.maximum(out, beside * (weight * np.abs(np.expm1(np.minimum(off[own], SATURATED)))).sum(axis=0))
    return out


def unseen(known: Known, rule: PolynomialRule, at_edges: FloatArray) -> FloatArray:
    """Errors (q,) of polynomials of too low a degree, whose changes from the next lower ones do not tell them.

    A peak between two nodes makes them fall slowly from one degree to the next: then the change from half the degree
    is of the size of the error. A peak between an edge and a node is seen from the edge, where log integrals are
    `at_edges` (E, q): what polynomials miss there counts by how likely shares beside the edge are, the log density
    taken times `FLATTENED`.
    """
    fine = rule.points(FINE[rule.shares.shape[1]])
    lower = rule.lower(max(rule.degree // 2, 1))
    between = [one.between(fine.shares) for one in (rule, lower)]
    out = []
    for some in even_parts(known.log_integral.shape[1], max(1, AT_ONCE // len(fine.shares))):
        own = known.of_targets(some)
        best, half = (_Sums.of(own, matrix, fine) for matrix in between)
        flat = posterior_weight(FLATTENED * best.log_density + fine.log_weight[:, None])
        out.append(np.maximum(_change(own, best, half), _missed_in_logs(own, rule, flat, fine, at_edges[:, some])))
    return np.concatenate(out)


def _missed_in_logs(
    known: Known, rule: PolynomialRule, share: FloatArray, fine: ShareRule, at_edges: FloatArray
) -> FloatArray:
    """As of :func:`_missed`, but for the border of a part: log densities in place of densities, (q,)."""
    out = np.zeros(known.log_integral.shape[1])
    for edge, found in zip(EDGES, np.split(at_edges, len(EDGES)), strict=True):
        ends = edges(rule.low, edge)
        off = np.abs(found - blas.product(rule.between(ends), known.log_integral[: len(rule.shares)]))
        for end, one in zip(ends, off, strict=True):
            beside = (fine.shares[:, end < 2 * edge] < BESIDE * rule.margin).all(axis=1)
            out = np.maximum(out, share[beside].sum(axis=0) * one)
    return out


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over the points of a fine rule, of what polynomials say there.

    Attributes
    ----------
    log_density : (F, q) array
        At the points, weights of the rule not included.
    share : (F, q) array
        Posterior weights of the points.
    weight : (M, q) array
        What the nodes count in means: not all are positive.
    log_integral : (q,) array
    mean, spread : (K, q) arrays
        Of the roots of the shares, as of :func:`~pybayesridge.bands.shares.share_moments`.
    log_spread : (K, q) array
        Logs of the roots of the mean variances of the bands.
    """

    log_density: FloatArray
    share: FloatArray
    weight: FloatArray
    log_integral: FloatArray
    mean: FloatArray
    spread: FloatArray
    log_spread: FloatArray

    @classmethod
    def of(cls, known: Known, between: FloatArray, points: ShareRule) -> _Sums:
        """By the matrix `between` from values at the first nodes to those at the points of a rule."""
        used = between.shape[1]
        log_density = blas.product(between, known.log_integral[:used])
        terms = log_density + points.log_weight[:, None]
        in_means = blas.product(between, known.log_mean[:used])
        in_means += terms
        # Both in their places: passes over these arrays are most of the time.
        log_integral, of_bands = (log_of_sum(each) for each in (terms, in_means))
        mean, spread = share_moments(points, terms)
        log_spread = 0.5 * (np.log(points.shares.T @ in_means) + (of_bands - log_integral))
        return cls(log_density, terms, between.T @ terms, log_integral, mean, spread, log_spread)


def _change(known: Known, fine: _Sums, coarse: _Sums) -> FloatArray:
    """The largest change between two polynomials, or two rules for the same one."""
    changes = [
        np.abs(fine.log_integral - coarse.log_integral),
        (np.abs(fine.mean - coarse.mean) / fine.spread).max(axis=0),
        np.abs(fine.log_spread - coarse.log_spread).max(axis=0),
    ]
    if len(fine.share) == len(coarse.share):
        changes.append(0.5 * (fine.share * np.abs(fine.log_density - coarse.log_density)).sum(axis=0))
    less = np.zeros_like(fine.weight)
    less[: len(coarse.weight)] = coarse.weight
    return np.maximum.reduce([*changes, _misfit(known, fine.weight, less)])


def _misfit(known: Known, weight: FloatArray, other: FloatArray) -> FloatArray:
    """How far other weights (M, q) change fitted values and the root of their mean variance, (q,)."""
    noise = np.maximum((weight * known.noise * np.maximum(known.rank, 1.0)).sum(axis=0), np.finfo(float).tiny)
    change = np.einsum("mt,mct->ct", weight - other, known.fitted)
    squares = known.noise * known.rank + (known.fitted**2).sum(axis=1)
    variance = [
        (each * squares).sum(axis=0) - (np.einsum("mt,mct->ct", each, known.fitted) ** 2).sum(axis=0)
        for each in (weight, other)
    ]
    out: FloatArray = np.maximum(
        np.sqrt((change**2).sum(axis=0) / noise), 0.5 * np.abs(variance[0] - variance[1]) / noise
    )
    return out


def _log_spread(known: Known, shares: FloatArray, weight: FloatArray) -> FloatArray:
    """Logs of the roots of the mean variances of the bands, (K, q), by weights (M, q) of nodes at shares (M, K)."""
    log_mean = known.log_mean[: len(shares)]
    top = log_mean.max(axis=0)
    out: FloatArray = 0.5 * (np.log(shares.T @ (weight * np.exp(log_mean - top))) + top)
    return out
