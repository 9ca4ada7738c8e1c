"""The distance of two neighbouring cut points as a site: ``copies * log(1 - exp(-d))`` for d > 0, times a normal.

The density is smooth up to its end at d = 0, where it is 0, and is integrated by Gauss and Legendre over the range in
which it is above e^-DROP of its top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.sites.tilted import Cavity, Tilted

DROP = 36.0
"""The range ends where the log density has fallen by this from its top."""

BEND = 36.0
"""Above the log of the copies and this the factor is 1 to e^-BEND."""

NODES, FEW = 100, 32
"""Nodes of each of two parts for moments, and for averages of smooth functions over very many distances."""

STEPS = 40
"""Bisections of a range, which is located to a millionth of itself at the least."""

SECTIONS, MANY = 64, 32
"""Parts of a range that are looked at together, instead of bisections, for up to so many ranges."""

LEAST = 1e-300
"""Least distance and precision, in place of 0."""

_RULES = {count: np.polynomial.legendre.leggauss(count) for count in (NODES, FEW)}


def log_factor(d: FloatArray) -> FloatArray:
    """``log(1 - exp(-d))``; -inf from 0 downwards."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: FloatArray = np.where(d > 0, np.log(-np.expm1(-np.maximum(d, LEAST))), -np.inf)
    return out


def factor_derivatives(d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Its first derivative and minus the second, for positive d."""
    with np.errstate(over="ignore"):
        first = 1.0 / np.expm1(d)
        return first, first * (1.0 + first)


@dataclass(frozen=True, slots=True)
class SpacingRule:
    """Nodes d (Q, m), the log density there, and the weights of a Gauss-Legendre rule for each column."""

    d: FloatArray
    log_density: FloatArray
    weight: FloatArray

    def shares(self) -> tuple[FloatArray, FloatArray]:
        """Weights (Q, m) of averages over the density, and the log of its integral (m,)."""
        top = self.log_density.max(axis=0)
        mass = self.weight * np.exp(self.log_density - top)
        total = mass.sum(axis=0)
        return mass / total, top + np.log(total)


def rule(copies: FloatArray, cavity: Cavity, count: int = NODES) -> SpacingRule:
    """Nodes for the likelihood of `copies` (m,) rows times normal densities, restricted to positive distances."""
    precision = np.maximum(cavity.precision, LEAST)

    def log_density(d: FloatArray) -> FloatArray:
        away = d - cavity.center
        with np.errstate(invalid="ignore"):
            likely = np.where(copies > 0, copies * log_factor(d), np.where(d > 0, 0.0, -np.inf))
        out: FloatArray = likely + away * (cavity.slope - 0.5 * precision * away)
        return out

    def rises(d: FloatArray) -> BoolArray:
        first, _ = factor_derivatives(d)
        out: BoolArray = copies * first + cavity.slope - precision * (d - cavity.center) > 0
        return out

    middle = cavity.center + cavity.slope / precision
    # The top is at most so far above the middle of the normal density: the factor rises by less than 1 / d.
    far = np.maximum(middle, 0.0) + 2.0 * np.sqrt((copies + 1.0) / precision)
    low, high = _located(rises, np.full(copies.size, LEAST), far, _by_ratio)
    top = 0.5 * (low + high)
    level = log_density(np.maximum(top, LEAST)) - DROP
    beyond = top + np.sqrt(2.0 * DROP / precision)

    def is_high(d: FloatArray) -> BoolArray:
        out: BoolArray = log_density(d) > level
        return out

    ends = [_located(is_high, top, last, _by_distance)[1] for last in (np.full(copies.size, LEAST), beyond)]
    x, w = _RULES[count]
    # From the bend on the factor is 1: there the density is that of the normal, however wide it is.
    middle = np.clip(np.log(np.maximum(copies, 1.0)) + BEND, ends[0], ends[1])
    parts = [(ends[0], 0.5 * (middle - ends[0])), (middle, 0.5 * (ends[1] - middle))]
    d = np.concatenate([start + width * (x[:, None] + 1.0) for start, width in parts])
    return SpacingRule(d, log_density(d), np.concatenate([width * w[:, None] for _, width in parts]))


def _located(
    holds: Callable[[FloatArray], BoolArray],
    start: FloatArray,
    end: FloatArray,
    between: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """The last point from a start towards an end (m,) at which something holds, and the first at which it does not.

    Ranges are divided by two, or into so many parts that a few of them are as fast.
    """
    parts = SECTIONS if start.size <= MANY else 2
    shares, columns = np.arange(1, parts)[:, None] / parts, np.arange(start.size)
    for _ in range(int(np.ceil(STEPS / np.log2(parts)))):
        inner = between(start, end, shares)
        last = holds(inner).sum(axis=0)
        points = np.vstack([start, inner, end])
        start, end = points[last, columns], points[last + 1, columns]
    return start, end


def _by_distance(start: FloatArray, end: FloatArray, share: FloatArray) -> FloatArray:
    return start + share * (end - start)


def _by_ratio(start: FloatArray, end: FloatArray, share: FloatArray) -> FloatArray:
    """Points between by ratio where the ends are far apart."""
    far = end > 4.0 * start
    with np.errstate(over="ignore"):
        return np.where(far, start ** (1.0 - share) * end**share, _by_distance(start, end, share))


def tilted(copies: FloatArray, cavity: Cavity) -> Tilted:
    """Moments of the distances."""
    found = rule(copies, cavity)
    share, log_integral = found.shares()
    mean = (share * found.d).sum(axis=0)
    away = found.d - mean
    variance = (share * away**2).sum(axis=0)
    slope = copies * factor_derivatives(found.d)[0]
    gradient = (share * slope).sum(axis=0)
    covariance = (share * away * slope).sum(axis=0)
    return Tilted(log_integral, mean, variance, gradient, np.maximum(-covariance, 0.0) / variance)
