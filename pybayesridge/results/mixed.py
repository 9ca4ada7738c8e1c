"""Equal-weight mixtures of the posteriors of several fits: moments, probabilities and quantiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.results.base import LinearResults
from pybayesridge.results.contrast import Answer, combined, exceedance

WIDTH = 1e-7
"""Width of a bracket at which a quantile is found, relative to the distance of the components' quantiles."""

ROUNDING = 4 * np.finfo(float).eps
"""Width relative to the quantile itself below which there are no digits."""

MAXITER = 200
"""Most steps of the search; bisection alone needs fewer."""

Above: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]
"""Probabilities that some of the mixtures, by their positions, exceed points."""


def mixed(
    fits: Sequence[LinearResults], weights: Sequence[FloatArray], value: FloatArray, alpha: float, target: int
) -> Answer:
    """The mixture's posterior of combinations of coefficients, less `value` (m,).

    Parameters
    ----------
    fits : sequence of M results
    weights : sequence of M (m, k) arrays
        The combinations for each fit.
    value : (m,) array
    alpha : float
    target : int
    """
    pairs = list(zip(fits, weights, strict=True))
    parts = [combined(fit, w, value, alpha, target) for fit, w in pairs]
    mean, sd = total_moments([part.mean for part in parts], [part.sd for part in parts])
    positive = np.mean([part.positive for part in parts], axis=0)
    zeros = [part.zero for part in parts if part.zero is not None]
    zero = np.mean(zeros, axis=0) if zeros else None
    # Both ends of all intervals at once: the lower ones, then the upper ones.
    each = np.stack([part.interval.T.ravel() for part in parts])
    probability = np.repeat([alpha / 2, 1 - alpha / 2], value.size)

    def above(which: IntArray, at: FloatArray) -> FloatArray:
        of = which % value.size
        return np.mean([exceedance(fit, w[of], at + value[of], target) for fit, w in pairs], axis=0)

    ends = np.zeros(each.shape[1])
    other = np.ones(ends.size, dtype=bool)
    if zero is not None:
        below, up_to = np.tile(1 - positive - zero, 2), np.tile(1 - positive, 2)
        other = ~((below < probability) & (probability <= up_to))
    at = np.flatnonzero(other)
    ends[at] = quantiles(lambda which, x: above(at[which], x), each[:, at], probability[at])
    return Answer(mean, sd, ends.reshape(2, -1).T, positive, zero)


def total_moments(means: Sequence[FloatArray], sds: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of an equal-weight mixture, by the law of total variance."""
    mean: FloatArray = np.mean(means, axis=0)
    between = np.mean([(each - mean) ** 2 for each in means], axis=0)
    return mean, np.sqrt(np.mean(np.square(sds), axis=0) + between)


def quantiles(above: Above, each: FloatArray, probability: FloatArray) -> FloatArray:
    """Quantiles of m mixtures at probabilities (m,), between the least and the largest of their components.

    Parameters
    ----------
    above : callable
    each : (M, m) array
        The components' quantiles.
    probability : (m,) array
    """
    everything = np.arange(probability.size)
    low, high = each.min(axis=0), each.max(axis=0)
    unit = high - low
    ends = []
    # Components' quantiles and probabilities differ by rounding or, by sampling, by Monte Carlo errors.
    for end, side in ((low, -1.0), (high, 1.0)):
        excess = 1 - above(everything, end) - probability
        width = 0.01 * unit
        todo = np.flatnonzero((excess * side < 0) & (width > 0))
        for _ in range(MAXITER):
            if todo.size == 0:
                break
            end[todo] += side * width[todo]
            width[todo] *= 2
            excess[todo] = 1 - above(todo, end[todo]) - probability[todo]
            todo = todo[excess[todo] * side < 0]
        ends.append(excess)
    return _roots(above, probability, Bracket(low, high, *ends), WIDTH * unit)


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two points around each root, and the functions there; all (m,)."""

    a: FloatArray
    b: FloatArray
    at_a: FloatArray
    at_b: FloatArray

    def taken(self, which: BoolArray) -> Bracket:
        """Some of the brackets."""
        return Bracket(self.a[which], self.b[which], self.at_a[which], self.at_b[which])

    def best(self) -> FloatArray:
        """The ends where the functions are nearer to 0."""
        return np.where(np.abs(self.at_a) < np.abs(self.at_b), self.a, self.b)


def _roots(above: Above, probability: FloatArray, start: Bracket, enough: FloatArray) -> FloatArray:
    """Points at which the mixtures have their probabilities, by Chandrupatla's method for all at once."""
    out, todo, now = start.best(), np.arange(probability.size), start
    share = np.full(probability.size, 0.5)
    for _ in range(MAXITER):
        tolerance = enough[todo] + ROUNDING * np.abs(now.best())
        out[todo] = now.best()
        left = (np.abs(now.b - now.a) > tolerance) & (now.at_a != 0) & (now.at_b != 0)
        if not left.any():
            break
        todo, now, share, tolerance = todo[left], now.taken(left), share[left], tolerance[left]
        x = now.a + share * (now.b - now.a)
        f = 1 - above(todo, x) - probability[todo]
        same = np.sign(f) == np.sign(now.at_a)
        c, at_c = np.where(same, now.a, now.b), np.where(same, now.at_a, now.at_b)
        now = Bracket(x, np.where(same, now.b, now.a), f, np.where(same, now.at_b, now.at_a))
        share = _next_share(now, c, at_c, tolerance)
    return out


def _next_share(now: Bracket, c: FloatArray, at_c: FloatArray, tolerance: FloatArray) -> FloatArray:
    """Where in the bracket to go next: by inverse quadratic interpolation, or where that is unsafe to its middle."""
    a, b, fa, fb, fc = now.a, now.b, now.at_a, now.at_b, at_c
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        least = np.minimum(0.5, 0.5 * tolerance / np.abs(b - a))
    share = np.where(smooth & np.isfinite(inverse), inverse, 0.5)
    least = np.where(np.isfinite(least), least, 0.5)
    return np.clip(share, least, 1 - least)
