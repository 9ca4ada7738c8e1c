"""Quantiles of many mixtures of t or normal distributions with common degrees of freedom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from pybayesridge._types import BoolArray, FloatArray, IntArray

REACH = 40.0
"""The table of a distribution function covers standard values up to here in absolute value."""

STEP = 0.005
"""Distance of the table's nodes: cubic interpolation between them is accurate to 1e-11."""

FEW = 256
"""Components of the smaller mixture from whose quantile the search begins, the first ones."""

NARROW = 1e-11
"""A bracket of this width, in multiples of the largest scale and center, ends the search."""

LAST, ROUGH = 1e-6, 0.03
"""A Newton step below this multiple of the smallest scale is the last: its error is of the order of the square.

The second where a guess is enough."""

MAXITER = 200
"""Most Newton or bisection steps; bisections alone need about 60."""

ROOT_2PI = float(np.sqrt(2.0 * np.pi))

AT_ONCE = 2**14
"""Components in a piece of work: larger arrays are fetched from the system anew for every operation."""


@dataclass(frozen=True, slots=True)
class Law:
    """The standard t distribution, or with infinitely many degrees of freedom the normal one.

    Attributes
    ----------
    nu : float
    below, density : (k,) arrays or None
        Distribution function and density times `STEP` at the nodes of a table; None for the normal distribution.
    """

    nu: float
    below: FloatArray | None
    density: FloatArray | None

    def quantile(self, probability: FloatArray) -> FloatArray:
        """Quantiles of the law, as many as probabilities."""
        unique, inverse = np.unique(probability, return_inverse=True)
        found: FloatArray = ndtri(unique) if self.below is None else stdtrit(self.nu, unique)
        return found[inverse.reshape(-1)]

    def both(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function and, to a relative error of about `STEP` squared, density."""
        if self.below is None or self.density is None:
            return ndtr(x), np.exp(-0.5 * x * x) / ROOT_2PI
        place = (np.clip(x, -REACH, REACH) + REACH) / STEP
        node = np.minimum(place.astype(np.int32), self.below.size - 2)
        s = place - node
        f0, f1 = self.below[node], self.below[node + 1]
        d0, d1 = self.density[node], self.density[node + 1]
        rise = f1 - f0
        value = f0 + s * (d0 + s * (3.0 * rise - 2.0 * d0 - d1 + s * (d0 + d1 - 2.0 * rise)))
        slope = (d0 + s * (d1 - d0)) / STEP
        far = np.abs(x) > REACH
        if far.any():
            value[far] = stdtr(self.nu, x[far])
            slope[far] = _density(self.nu, x[far])
        return value, slope


def _density(nu: float, x: FloatArray) -> FloatArray:
    log_norm = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
    return np.exp(log_norm - 0.5 * (nu + 1.0) * np.log1p(x * x / nu))


@lru_cache(maxsize=8)
def law_of(nu: float) -> Law:
    """The law with `nu` degrees of freedom, and its table."""
    if np.isinf(nu):
        return Law(nu, None, None)
    nodes = np.linspace(-REACH, REACH, round(2 * REACH / STEP) + 1)
    return Law(nu, stdtr(nu, nodes), STEP * _density(nu, nodes))


@dataclass(frozen=True, slots=True)
class Mixtures:
    """m mixtures, each of at least one component: t distributions, and point masses at 0 where the scale is 0.

    Attributes
    ----------
    weight, center, scale : (E,) arrays
        Of the components, mixture by mixture; finite. The weights of a mixture sum to 1; a search is fast where the
        heaviest come first.
    start : (m + 1,) int array
        The components of mixture i are ``start[i]`` to ``start[i + 1] - 1``.
    law : Law
    """

    weight: FloatArray
    center: FloatArray
    scale: FloatArray
    start: IntArray
    law: Law

    @classmethod
    def alike(cls, weight: FloatArray, center: FloatArray, scale: FloatArray, law: Law) -> Mixtures:
        """Mixtures with the same weights (S,), of centers and scales (S, m)."""
        states, m = center.shape
        order = np.argsort(-weight, kind="stable")
        start = states * np.arange(m + 1, dtype=np.intp)
        return cls(np.tile(weight[order], m), center[order].T.ravel(), scale[order].T.ravel(), start, law)

    @property
    def sizes(self) -> IntArray:
        """Number of components of each mixture, (m,)."""
        return np.diff(self.start)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles of all mixtures at all of some probabilities (q,) between 0 and 1, (m, q)."""
        m, q = self.start.size - 1, probabilities.size
        which = np.repeat(np.arange(m, dtype=np.intp), q)
        return self.at(which, np.tile(probabilities, m)).reshape(m, q)

    def at(self, which: IntArray, probability: FloatArray, *, last: float = LAST) -> FloatArray:
        """Quantile of mixture ``which[i]`` at ``probability[i]``, (P,); exactly 0 where a point mass has it."""
        out = np.zeros(which.size)
        spike = self._sum(self.weight * (self.scale <= 0.0))
        todo = np.arange(which.size)
        if spike.any():
            below = self.below(np.zeros(spike.size))[which]
            todo = np.flatnonzero((below >= probability) | (below + spike[which] < probability))
        first = self._first(which[todo], probability[todo])
        for part in _pieces(self.sizes[which[todo]]):
            some = todo[part]
            out[some] = self._search(which[some], probability[some], first[part], last)
        return out

    def below(self, x: FloatArray) -> FloatArray:
        """Probability of each mixture below x (m,), without point masses."""
        out, every = np.empty(x.size), np.arange(x.size, dtype=np.intp)
        for part in _pieces(self.sizes):
            out[part] = _Components.of(self, every[part]).smooth(x[part])[0]
        return out

    def _sum(self, values: FloatArray) -> FloatArray:
        """Sums of `values` (E,) over the components of each mixture, (m,)."""
        return np.add.reduceat(values, self.start[:-1]) if values.size else np.zeros(0)

    def _first(self, which: IntArray, probability: FloatArray) -> FloatArray:
        """A guess: the quantile of the first components; if these are all, that of a normal distribution."""
        few = self._first_components()
        if few is not None:
            return few.at(which, probability, last=ROUGH)
        mean = self._sum(self.weight * self.center)
        about = self.center - np.repeat(mean, self.sizes)
        sd = np.sqrt(self._sum(self.weight * (self.scale**2 + about**2)))
        return mean[which] + sd[which] * ndtri(probability)

    def _first_components(self) -> Mixtures | None:
        """The mixtures of the first components alone of those with many; None if none has many."""
        sizes = self.sizes
        if sizes.size == 0 or sizes.max() <= 2 * FEW:
            return None
        fewer = np.where(sizes > 2 * FEW, FEW, sizes)
        start = np.concatenate([[0], np.cumsum(fewer)]).astype(np.intp)
        kept = np.arange(start[-1]) + np.repeat(self.start[:-1] - start[:-1], fewer)
        weight = self.weight[kept] / np.repeat(np.add.reduceat(self.weight[kept], start[:-1]), fewer)
        return Mixtures(weight, self.center[kept], self.scale[kept], start, self.law)

    def _search(self, which: IntArray, probability: FloatArray, first: FloatArray, last: float) -> FloatArray:
        """Newton's method in a bracket that shrinks, with bisections where a step would leave it.

        Its equation is in normal scores, in which the tails are nearly straight lines.
        """
        parts = _Components.of(self, which)
        low, high = parts.bracket(probability)
        width, step_size = parts.sizes()
        width, step_size = NARROW * width, np.maximum(last * step_size, NARROW * width)
        x, left, score = np.clip(first, low, high), np.arange(which.size), ndtri(probability)
        for step in range(MAXITER):
            at, wanted = x[left], probability[left]
            below, density = parts.smooth(at)
            below = below + np.where(at >= 0.0, parts.spike, 0.0)
            reached = below >= wanted
            high[left], low[left] = np.where(reached, at, high[left]), np.where(reached, low[left], at)
            found = ndtri(below)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                newton = at - (found - score[left]) * np.exp(-0.5 * found**2) / (ROOT_2PI * density)
            inside = (newton >= low[left]) & (newton <= high[left]) & (step % 8 != 7)
            x[left] = np.where(inside, newton, 0.5 * (low[left] + high[left]))
            narrow = high[left] - low[left] <= width[left]
            going = ~(narrow | (inside & (np.abs(newton - at) <= step_size[left])))
            left = left[going]
            if left.size == 0:
                break
            if not going.all():
                parts = parts.some(going)
        return x


@dataclass(frozen=True, slots=True)
class _Components:
    """The components of the mixtures of some pairs of mixture and probability, pair by pair.

    Attributes
    ----------
    weight, center, scale : (T,) arrays
        Scales of point masses are 1, their weights 0.
    pair : (T,) int array
    start : (P,) int array
        The first component of each pair.
    spike : (P,) array
        Weight of the point masses at 0.
    law : Law
    """

    weight: FloatArray
    center: FloatArray
    scale: FloatArray
    pair: IntArray
    start: IntArray
    spike: FloatArray
    law: Law

    @classmethod
    def of(cls, mixtures: Mixtures, which: IntArray) -> _Components:
        """Gather them."""
        sizes = mixtures.sizes[which]
        start = np.cumsum(sizes) - sizes
        pair = np.repeat(np.arange(which.size), sizes)
        at = np.arange(pair.size) + np.repeat(mixtures.start[which] - start, sizes)
        weight, scale = mixtures.weight[at], mixtures.scale[at]
        point = scale <= 0.0
        spike = np.zeros(which.size)
        if point.any():
            spike = np.add.reduceat(weight * point, start)
            weight, scale = np.where(point, 0.0, weight), np.where(point, 1.0, scale)
        return cls(weight, mixtures.center[at], scale, pair, start, spike, mixtures.law)

    def smooth(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function without the point masses, and density, of each pair at x (P,)."""
        below, density = self.law.both((x[self.pair] - self.center) / self.scale)
        return (
            np.add.reduceat(self.weight * below, self.start),
            np.add.reduceat(self.weight / self.scale * density, self.start),
        )

    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds of the quantiles at probabilities (P,)."""
        scale = np.where(self.weight > 0.0, self.scale, 0.0)
        ends = self.center + scale * self.law.quantile(probability)[self.pair]
        return np.minimum.reduceat(ends, self.start), np.maximum.reduceat(ends, self.start)

    def sizes(self) -> tuple[FloatArray, FloatArray]:
        """The largest scale and center of each pair together, and the smallest scale."""
        largest = np.maximum.reduceat(np.where(self.weight > 0.0, self.scale, 0.0), self.start)
        smallest = np.minimum.reduceat(np.where(self.weight > 0.0, self.scale, np.inf), self.start)
        return largest + np.maximum.reduceat(np.abs(self.center), self.start), smallest

    def some(self, kept: BoolArray) -> _Components:
        """Those of some of the pairs."""
        inside = kept[self.pair]
        sizes = np.diff(self.start, append=self.pair.size)[kept]
        return _Components(
            self.weight[inside],
            self.center[inside],
            self.scale[inside],
            np.repeat(np.arange(sizes.size), sizes),
            np.cumsum(sizes) - sizes,
            self.spike[kept],
            self.law,
        )


def _pieces(sizes: IntArray) -> Iterator[slice]:
    """Split pairs, with so many components, into pieces of about `AT_ONCE` components."""
    reached, begin = np.cumsum(sizes), 0
    while begin < sizes.size:
        done = int(reached[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(reached, done + AT_ONCE, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end
