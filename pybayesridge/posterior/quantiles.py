"""Quantiles of mixtures of t or normal distributions and point masses, by a bracketed Newton iteration.

:class:`Common` mixtures share their weights, as linear functions of the coefficients do at the nodes of a quadrature;
:class:`Ragged` ones have weights and numbers of components of their own, as coefficients have that are in some sets
of columns only. Both are solved by the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from scipy.special import ndtr, ndtri

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.posterior.student import Law, exact, standard_quantile, tabulated

QUANTILE_TOL = 1e-6
"""A probability this close to the right one, relative to that in the shorter tail, is followed by a last Newton step,
which squares the error."""

QUANTILE_STEP = 1e-4
"""Largest last step, relative to the distance from the centre and the typical scale."""

LINEAR = 1e-2
"""Largest relative change of the density over a step that is believed to be the last because of its curvature."""

SQUARED = 2e-8
"""Error of such a step, in typical scales, as the change of the density since the last point tells it."""

EVERY = (4, 2)
"""Of many components every so many make mixtures that give starting points: they are nodes of a quadrature."""

MANY_COMPONENTS = 32
"""From so many components on these mixtures are solved for first."""

REPRESENTATIVE = 0.5
"""Share of the weight, times `EVERY`, that they must have."""

FEW = 256
"""Components of the smaller ragged mixture from whose quantile the search begins, the first ones."""

COARSE = 5e-2
"""Tolerance of these solutions, as `QUANTILE_TOL` and `QUANTILE_STEP`."""

CURVE_TOL, CURVE_STEP = 1e-3, 1e-2
"""Likewise of quantiles for tables, which are right to 1e-4 standard deviations."""

MAXITER = 200
"""Bisection alone would halve a bracket this often; Newton's steps take about six."""

MANY = 50_000
"""Components times mixtures beyond which quantiles of t mixtures are solved for by a table of the law."""

EXTREME = 1e-3
"""Quantiles with less probability beyond them are solved for by the law itself: the table errs by 3e-12."""

ELEMENTS = 32_768
"""Components times mixtures at once: what fits into a processor's second cache."""

RAGGED_ELEMENTS = 16_384
"""Likewise of ragged mixtures, which need more memory for each component."""

SMALLEST, EPS = float(np.finfo(float).tiny), float(np.finfo(float).eps)


class _Mixtures(Protocol):
    """m mixtures whose distribution functions are known."""

    def distribution(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function and density of each at its own point, (m,)."""

    def some(self, kept: IntArray) -> Self:
        """Some of the mixtures."""


@dataclass(frozen=True, slots=True)
class Sought:
    """The quantiles that are solved for, one of each of m mixtures; all (m,) arrays.

    Attributes
    ----------
    probability, score, tail : (m,) arrays
        The probability, its normal quantile, and the smaller of it and its complement.
    low, high : (m,) arrays
        The bracket.
    center, unit : (m,) arrays
        The mixture's mean and typical scale.
    """

    probability: FloatArray
    score: FloatArray
    tail: FloatArray
    low: FloatArray
    high: FloatArray
    center: FloatArray
    unit: FloatArray

    @classmethod
    def of(
        cls, probability: FloatArray, low: FloatArray, high: FloatArray, center: FloatArray, unit: FloatArray
    ) -> Sought:
        """At probabilities (m,)."""
        return cls(probability, ndtri(probability), np.minimum(probability, 1 - probability), low, high, center, unit)

    def some(self, kept: IntArray) -> Sought:
        """Some of them."""
        return Sought(
            self.probability[kept],
            self.score[kept],
            self.tail[kept],
            self.low[kept],
            self.high[kept],
            self.center[kept],
            self.unit[kept],
        )


@dataclass(frozen=True, slots=True)
class Common:
    """m mixtures of K components with common weights; a component of scale 0 is a point mass.

    Attributes
    ----------
    center, scale : (K, m) arrays
    weight : (K,) array
        Sums to 1. Components in the order of nodes of a quadrature, or the heaviest first, are solved for faster.
    df : float
        Degrees of freedom of the components; inf for normal ones.
    """

    center: FloatArray
    scale: FloatArray
    weight: FloatArray
    df: float

    def quantiles(self, probabilities: FloatArray, total: int | None = None) -> FloatArray:
        """Quantiles at probabilities (c,) between 0 and 1, (m, c); exactly 0 where a point mass at 0 has them.

        `total` says of how many mixtures these are a part: of many the distribution function of the components comes
        from a table.
        """
        m = self.center.shape[1]
        if self.weight.size == 1:
            closed: FloatArray = self.center[0][:, None] + self.scale[0][:, None] * standard_quantile(
                self.df, probabilities
            )
            return closed
        law = law_for(self.df, self.weight.size * (total or m), probabilities)
        out = np.empty((m, probabilities.size))
        for part in even_parts(m, ELEMENTS // self.weight.size):
            out[part] = _quantiles(self._of(part), law, probabilities)
        return out

    def curves(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles at many increasing probabilities, (m, c), right to 1e-4 standard deviations: for tables.

        From the middle one outwards, each is solved for from where the last one lies, so that one or two steps are
        enough.
        """
        if self.weight.size == 1:
            return self.quantiles(probabilities)
        m, law = self.center.shape[1], tabulated(self.df)
        out = np.empty((m, probabilities.size))
        for part in even_parts(m, ELEMENTS // self.weight.size):
            out[part] = _curves(self._of(part), law, probabilities)
        return out

    def _of(self, part: slice) -> Common:
        center, scale = (np.ascontiguousarray(a[:, part]) for a in (self.center, self.scale))
        return Common(center, scale, self.weight, self.df)


def law_for(df: float, size: int, probabilities: FloatArray) -> Law:
    """The law of the components: a table for many, unless a probability is extreme or the law is normal."""
    if np.isinf(df) or size <= MANY or np.minimum(probabilities, 1 - probabilities).min(initial=1.0) < EXTREME:
        return exact(df)
    return tabulated(df)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some mixtures with common weights, in the processor's cache.

    Attributes
    ----------
    center, narrow : (K, m) arrays
        Centres, and reciprocals of the scales, 0 for points.
    point : (K, m) bool array or None
        Where point masses are; None if there are none.
    weight : (K,) array
    law : Law
    which : int array or None
        Those that are looked at; None for all. Copies of them would drive the rest out of the cache.
    """

    center: FloatArray
    narrow: FloatArray
    point: BoolArray | None
    weight: FloatArray
    law: Law
    which: IntArray | None = None

    @classmethod
    def of(cls, center: FloatArray, scale: FloatArray, weight: FloatArray, law: Law) -> _Part:
        """Of centres and scales (K, m)."""
        with np.errstate(divide="ignore", over="ignore"):
            narrow = 1.0 / scale
        if not scale.min(initial=1.0) <= 0.0:
            return cls(center, narrow, None, weight, law)
        point = scale <= 0.0
        return cls(center, np.where(point, 0.0, narrow), point, weight, law)

    def every(self, step: int) -> _Part:
        """Mixtures of every so many components."""
        few = self.weight[::step]
        point = None if self.point is None else self.point[::step]
        return _Part(self.center[::step], self.narrow[::step], point, few / few.sum(), self.law)

    def some(self, kept: IntArray) -> _Part:
        """Some of the mixtures."""
        return replace(self, which=kept if self.which is None else self.which[kept])

    def distribution(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function and density of each at its own point."""
        center, narrow, point = self.center, self.narrow, self.point
        if self.which is not None:
            center, narrow = center[:, self.which], narrow[:, self.which]
            point = None if point is None else point[:, self.which]
        at = x - center
        reached = None if point is None else at >= 0.0
        at *= narrow
        cdf, density = self.law(at)
        if point is not None and reached is not None:
            cdf = np.where(point, reached, cdf)
        density *= narrow
        return self.weight @ cdf, self.weight @ density

    def at_zero(self) -> tuple[FloatArray, FloatArray] | None:
        """Probabilities below zero, and up to it, where a point mass lies there."""
        if self.point is None:
            return None
        spike = self.weight @ (self.point & (self.center == 0.0))
        up_to = self.distribution(np.zeros(self.center.shape[1]))[0]
        return up_to - spike, np.where(spike > 0, up_to, -1.0)


def _per_normal(density: FloatArray, normal: FloatArray) -> FloatArray:
    """The derivative of a quantile by its normal score, (m,); 0 where there is none."""
    with np.errstate(all="ignore"):
        slope = np.exp(-0.5 * normal**2) / np.sqrt(2 * np.pi) / density
    return np.where(np.isfinite(slope), slope, 0.0)


def _quantiles(mixtures: Common, law: Law, probabilities: FloatArray) -> FloatArray:
    """As :meth:`Common.quantiles`, of a few mixtures, one probability after the other."""
    m, whole = mixtures.center.shape[1], _Part.of(mixtures.center, mixtures.scale, mixtures.weight, law)
    middle, unit = mixtures.weight @ mixtures.center, _typical(mixtures.scale, mixtures.weight)
    out, zero = np.empty((m, probabilities.size)), whole.at_zero()
    for i, probability in enumerate(probabilities.tolist()):
        base = float(standard_quantile(mixtures.df, probability))
        each = mixtures.center + mixtures.scale * base
        low, high = each.min(axis=0), each.max(axis=0)
        # Without noise every component is the same point.
        todo = np.flatnonzero(high > low)
        point, last = np.clip(middle + base * unit, low, high), np.full((2, m), np.nan)
        if zero is not None:
            on_zero = (zero[0] < probability) & (probability <= zero[1])
            point[on_zero], todo = 0.0, todo[~on_zero[todo]]
        sought = Sought.of(np.full(m, probability), low, high, middle, unit)
        for every in EVERY if mixtures.weight.size >= MANY_COMPONENTS else ():
            if every * mixtures.weight[::every].sum() > REPRESENTATIVE:
                point = solve(whole.every(every), sought, point, last, todo, COARSE, COARSE)
        out[:, i] = solve(whole, sought, point, last, todo, QUANTILE_TOL, QUANTILE_STEP)
    return out


def _curves(mixtures: Common, law: Law, probabilities: FloatArray) -> FloatArray:
    """As :meth:`Common.curves`, of a few mixtures."""
    normal, m = ndtri(probabilities), mixtures.center.shape[1]
    whole = _Part.of(mixtures.center, mixtures.scale, mixtures.weight, law)
    out = np.empty((m, normal.size))
    first = normal.size // 2
    out[:, first] = _quantiles(mixtures, law, probabilities[first : first + 1])[:, 0]
    middle, typical = mixtures.weight @ mixtures.center, _typical(mixtures.scale, mixtures.weight)
    unit = _per_normal(whole.distribution(out[:, first])[1], np.full(m, normal[first]))
    ends = mixtures.center.min(axis=0), mixtures.center.max(axis=0), mixtures.scale.max(axis=0)
    for towards in (range(first + 1, normal.size), range(first - 1, -1, -1)):
        x, slope, before, here = out[:, first], unit, unit, first
        for i in towards:
            start = x + (normal[i] - normal[here]) * (1.5 * slope - 0.5 * before)
            base = float(standard_quantile(mixtures.df, float(probabilities[i])))
            low, high = ends[0] + min(base, 0.0) * ends[2], ends[1] + max(base, 0.0) * ends[2]
            low, high = (x, np.maximum(high, x)) if i > here else (np.minimum(low, x), x)
            sought = Sought.of(np.full(m, probabilities[i]), low, high, middle, typical)
            last, todo = np.full((2, m), np.nan), np.flatnonzero(high > low)
            x = solve(whole, sought, np.clip(start, low, high), last, todo, CURVE_TOL, CURVE_STEP)
            before, slope, here = slope, _per_normal(last[1], np.full(m, normal[i])), i
            out[:, i] = x
    return out


@dataclass(frozen=True, slots=True)
class Ragged:
    """m mixtures, each of at least one component; a component of scale 0 is a point mass.

    Attributes
    ----------
    weight, center, scale : (E,) arrays
        Of the components, mixture by mixture; finite. The weights of a mixture sum to 1; a search is fast where the
        heaviest come first.
    start : (m + 1,) int array
        The components of mixture i are ``start[i]`` to ``start[i + 1] - 1``.
    df : float
        Degrees of freedom of the components; inf for normal ones.
    """

    weight: FloatArray
    center: FloatArray
    scale: FloatArray
    start: IntArray
    df: float

    @classmethod
    def of_columns(cls, weight: FloatArray, center: FloatArray, scale: FloatArray, df: float) -> Ragged:
        """Mixtures of K components each, with weights of their own; all (K, m)."""
        k, m = center.shape
        return cls(weight.T.ravel(), center.T.ravel(), scale.T.ravel(), k * np.arange(m + 1, dtype=np.intp), df)

    @property
    def sizes(self) -> IntArray:
        """Number of components of each mixture, (m,)."""
        return np.diff(self.start)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles of all mixtures at all of some probabilities (c,) between 0 and 1, (m, c)."""
        m, c = self.start.size - 1, probabilities.size
        which = np.repeat(np.arange(m, dtype=np.intp), c)
        return self.at(which, np.tile(probabilities, m)).reshape(m, c)

    def at(self, which: IntArray, probability: FloatArray) -> FloatArray:
        """Quantile of mixture ``which[i]`` at ``probability[i]``, (P,); exactly 0 where a point mass at 0 has it."""
        out, todo = np.zeros(which.size), np.arange(which.size)
        spike = self._sum(self.weight * ((self.scale <= 0.0) & (self.center == 0.0)))
        if spike.any():
            below = self.below(np.zeros(spike.size))[which]
            todo = np.flatnonzero((below >= probability) | (below + spike[which] < probability))
        extreme = np.minimum(probability, 1 - probability) < EXTREME
        for rare in (False, True):
            law = exact(self.df) if rare or np.isinf(self.df) else tabulated(self.df)
            own = todo[extreme[todo] == rare]
            for part in _pieces(self.sizes[which[own]]):
                some = own[part]
                out[some] = _Pairs.of(self, which[some], law).quantiles(probability[some])
        return out

    def with_spike(self, share: FloatArray, probabilities: FloatArray) -> FloatArray:
        """Quantiles of mixtures that have the weight `share` (m,), the rest being a point mass at zero; (m, c)."""
        out = np.zeros((share.size, probabilities.size))
        weight = share[:, None]
        negative = weight * self.below(np.zeros(share.size))[:, None]
        in_spike = (negative < probabilities) & (probabilities <= negative + 1.0 - weight)
        which, at = np.nonzero((weight > 0.0) & ~(in_spike & (weight < 1.0)))
        inside = within_slab(probabilities[at], share[which], negative[which, 0])
        out[which, at] = self.at(which, np.clip(inside, SMALLEST, 1.0 - EPS))
        return out

    def below(self, x: FloatArray) -> FloatArray:
        """Probability of each mixture below x (m,), without what a point mass has at x."""
        out, every = np.empty(x.size), np.arange(x.size, dtype=np.intp)
        law = exact(self.df) if np.isinf(self.df) else tabulated(self.df)
        for part in _pieces(self.sizes):
            out[part] = _Pairs.of(self, every[part], law).below(x[part])
        return out

    def _sum(self, values: FloatArray) -> FloatArray:
        """Sums of `values` (E,) over the components of each mixture, (m,)."""
        return np.add.reduceat(values, self.start[:-1]) if values.size else np.zeros(0)


def slab_quantiles(
    weight: FloatArray, center: FloatArray, scale: FloatArray, df: float, probabilities: FloatArray
) -> FloatArray:
    """Quantiles (m, c) of mixtures of K components and, with the weight that is left, a point mass at zero.

    Parameters
    ----------
    weight, center, scale : (K, m) arrays
        Weights sum to at most 1 over the components.
    df : float
    probabilities : (c,) array
    """
    share = weight.sum(axis=0)
    # Weights that sum to one but for rounding leave no point mass.
    share[share > 1.0 - 8 * EPS] = 1.0
    known = share > 0
    own = weight / np.where(known, share, 1.0)
    where, wide = np.where(known, center, 0.0), np.where(known, scale, 1.0)
    return Ragged.of_columns(np.where(known, own, 1.0 / len(own)), where, wide, df).with_spike(share, probabilities)


def within_slab(probability: FloatArray, share: FloatArray, negative: FloatArray) -> FloatArray:
    """Probability given inclusion at a quantile of spike and slab together that is not the spike.

    Parameters
    ----------
    probability : array
    share : array
        The weight of the slab, above 0.
    negative : array
        `share` times the slab's probability below 0.
    """
    return np.where(probability <= negative, probability, probability - (1.0 - share)) / share


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The components of the mixtures of some pairs of mixture and probability, pair by pair.

    Attributes
    ----------
    weight, center, scale : (T,) arrays
    pair : (T,) int array
    start : (P,) int array
        The first component of each pair.
    points : bool
        Whether there are point masses.
    law : Law
    df : float
    """

    weight: FloatArray
    center: FloatArray
    scale: FloatArray
    pair: IntArray
    start: IntArray
    points: bool
    law: Law
    df: float

    @classmethod
    def of(cls, mixtures: Ragged, which: IntArray, law: Law) -> _Pairs:
        """Gather them."""
        sizes = mixtures.sizes[which]
        start = np.cumsum(sizes) - sizes
        pair = np.repeat(np.arange(which.size), sizes)
        at = np.arange(pair.size) + np.repeat(mixtures.start[which] - start, sizes)
        scale = mixtures.scale[at]
        points = bool((scale <= 0.0).any())
        return cls(mixtures.weight[at], mixtures.center[at], scale, pair, start, points, law, mixtures.df)

    def distribution(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function and density of each pair at x (P,)."""
        at = x[self.pair] - self.center
        scale, point = self._safe()
        cdf, density = self.law(at / scale)
        density /= scale
        if point is not None:
            cdf, density = np.where(point, at >= 0.0, cdf), np.where(point, 0.0, density)
        return self._sum(self.weight * cdf), self._sum(self.weight * density)

    def below(self, x: FloatArray) -> FloatArray:
        """The probability of a value below x (P,)."""
        at = x[self.pair] - self.center
        scale, point = self._safe()
        cdf = self.law(at / scale)[0]
        return self._sum(self.weight * (cdf if point is None else np.where(point, at > 0.0, cdf)))

    def _safe(self) -> tuple[FloatArray, BoolArray | None]:
        if not self.points:
            return self.scale, None
        point = self.scale <= 0.0
        return np.where(point, 1.0, self.scale), point

    def _sum(self, values: FloatArray) -> FloatArray:
        return np.add.reduceat(values, self.start) if values.size else np.zeros(0)

    def quantiles(self, probability: FloatArray) -> FloatArray:
        """Quantile of each pair, (P,)."""
        weighted = (self.weight > 0.0) & (self.scale > 0.0)
        ends = self.center + np.where(weighted, self.scale, 0.0) * standard_quantile(self.df, probability)[self.pair]
        low, high = np.minimum.reduceat(ends, self.start), np.maximum.reduceat(ends, self.start)
        middle = self._sum(self.weight * self.center)
        sd = np.sqrt(self._sum(self.weight * (self.scale**2 + (self.center - middle[self.pair]) ** 2)))
        wide = self._sum(self.weight * weighted)
        logs = self._sum(self.weight * np.log(np.where(weighted, self.scale, 1.0)))
        unit = np.where(wide > 0, np.exp(logs / np.where(wide > 0, wide, 1.0)), SMALLEST)
        sought = Sought.of(probability, low, high, middle, unit)
        point, last = np.clip(middle + sd * ndtri(probability), low, high), np.full((2, low.size), np.nan)
        todo, many = np.flatnonzero(high > low), self._first()
        if many is not None:
            point = solve(many, sought, point, last, todo, COARSE, COARSE)
        return solve(self, sought, point, last, todo, QUANTILE_TOL, QUANTILE_STEP)

    def _first(self) -> _Pairs | None:
        """The first components alone of mixtures with many; None if none has many."""
        sizes = np.diff(self.start, append=self.pair.size)
        if sizes.max(initial=0) <= 2 * FEW:
            return None
        fewer = np.where(sizes > 2 * FEW, FEW, sizes)
        start = np.cumsum(fewer) - fewer
        kept = np.arange(int(fewer.sum())) + np.repeat(self.start - start, fewer)
        weight = self.weight[kept] / np.repeat(np.add.reduceat(self.weight[kept], start), fewer)
        pair = np.repeat(np.arange(sizes.size), fewer)
        return _Pairs(weight, self.center[kept], self.scale[kept], pair, start, self.points, self.law, self.df)

    def some(self, kept: IntArray) -> _Pairs:
        """Those of some of the pairs."""
        chosen = np.zeros(self.start.size, dtype=bool)
        chosen[kept] = True
        inside = chosen[self.pair]
        sizes = np.diff(self.start, append=self.pair.size)[chosen]
        start = np.cumsum(sizes) - sizes
        pair = np.repeat(np.arange(sizes.size), sizes)
        weight, center, scale = self.weight[inside], self.center[inside], self.scale[inside]
        return _Pairs(weight, center, scale, pair, start, self.points, self.law, self.df)


def _pieces(sizes: IntArray) -> Iterator[slice]:
    """Split mixtures, with so many components, into pieces of about `RAGGED_ELEMENTS` components."""
    reached, begin = np.cumsum(sizes), 0
    while begin < sizes.size:
        done = int(reached[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(reached, done + RAGGED_ELEMENTS, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def solve(
    mixtures: _Mixtures,
    sought: Sought,
    point: FloatArray,
    last: FloatArray,
    todo: IntArray,
    tol: float,
    largest_step: float,
) -> FloatArray:
    """The quantiles of the mixtures `todo` from starting points, (m,), within the brackets.

    See `QUANTILE_TOL` and `QUANTILE_STEP`. `last` (2, m) has the last points and the densities there, and is brought
    up to date.
    """
    point = point.copy()
    now = sought if todo.size == point.size else sought.some(todo)
    left = mixtures if todo.size == point.size else mixtures.some(todo)
    low, high, x = now.low.copy(), now.high.copy(), point[todo]
    before, slope_before = last[:, todo]
    previous = np.full(todo.size, np.inf)
    for _ in range(MAXITER):
        if todo.size == 0:
            break
        reached, slope = left.distribution(x)
        excess = reached - now.probability
        error = np.abs(excess)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            newton = x + _normal_step(reached, now.score) / slope
            if not np.isfinite(newton).all():
                newton = np.where(np.isfinite(newton), newton, x - excess / slope)
            step = np.abs(newton - x)
            bend = np.abs((slope - slope_before) / (x - before)) * step / slope
            straight = (bend <= LINEAR) & (bend * step <= SQUARED * now.unit)
        above = excess >= 0
        high, low = np.where(above, x, high), np.where(above, low, x)
        # Between separated modes a probability next to the right one is not enough.
        short = ~(step > largest_step * (np.abs(x - now.center) + now.unit))
        close = (error <= tol * now.tail) & short
        # Where a component is next to a point mass Newton's steps stand still without having arrived.
        inside = (newton >= low) & (newton <= high) & (newton != x) & (error <= 0.5 * previous)
        close |= inside & short & straight
        following = np.where(inside, newton, x)
        bisect = ~(inside | close)
        if bisect.any():
            following = np.where(bisect, _middle(low, high, now.center, now.unit), following)
        going = ~close & (following != x)
        before, slope_before, previous, x = x, slope, error, following
        if not going.all():
            done = ~going
            point[todo[done]] = x[done]
            last[:, todo[done]] = before[done], slope_before[done]
            # Positions take columns faster than a mask does.
            kept = np.flatnonzero(going)
            left, now, todo = left.some(kept), now.some(kept), todo[kept]
            low, high, x, previous = low[kept], high[kept], x[kept], previous[kept]
            before, slope_before = before[kept], slope_before[kept]
    point[todo] = x
    return point


def _normal_step(reached: FloatArray, score: FloatArray) -> FloatArray:
    """Missing probability by a Newton step between normal quantiles: mixtures are nearly normal; nan in far tails."""
    at = ndtri(reached)
    out: FloatArray = (score - at) * np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi)
    return out


def _typical(scale: FloatArray, weight: FloatArray) -> FloatArray:
    """Geometric mean over the components, (m,): the standard deviation is that of the tail where this is heavy."""
    if scale.min(initial=1.0) > 0:
        plain: FloatArray = np.exp(weight @ np.log(scale))
        return np.maximum(plain, SMALLEST)
    point = scale <= 0.0
    wide = weight @ ~point
    logs = weight @ np.log(np.where(point, 1.0, scale))
    return np.where(wide > 0, np.exp(logs / np.where(wide > 0, wide, 1.0)), SMALLEST)


def _middle(low: FloatArray, high: FloatArray, center: FloatArray, unit: FloatArray) -> FloatArray:
    """Middle of a bracket whose ends may lie many powers of ten apart: halves it in digits, not in length."""
    ends = np.arcsinh((low - center) / unit) + np.arcsinh((high - center) / unit)
    return np.clip(center + unit * np.sinh(0.5 * ends), low, high)


def upper_tail(center: FloatArray, scale: FloatArray, at: FloatArray, df: float) -> FloatArray:
    """Probability that each component exceeds `at`; a scale of 0 is a point. Small ones keep their digits."""
    point = scale <= 0.0
    distance = center - at
    with np.errstate(over="ignore"):
        standard = distance / np.where(point, 1.0, scale)
    each: FloatArray = ndtr(standard) if np.isinf(df) else exact(df)(standard)[0]
    return np.where(point, distance > 0.0, each)
