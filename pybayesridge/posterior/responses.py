"""The law of new responses: the distribution of a response given its linear predictor, over the posterior of that.

The mean over a linear predictor is that of a Gauss-Hermite rule, whose weights are corrected by the moments of the
predictor's law: few values of a distribution function that is smooth over the width of the posterior. Where it is
not, the trapezoidal rule in the normal scores of the predictor takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, Self

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.posterior.laws import quantiles
from pybayesridge.posterior.quantiles import Common

SCORES = np.linspace(-5.0, 5.0, 41)
"""Normal scores at which quantiles of linear predictors are known; 6e-7 of the probability lies beyond."""

STEEP = 0.4
"""Where the probability of a response rises by more from one linear predictor to the next, twice as many are used:
with linear predictors that have heavy tails and rises of this size probabilities are off by 3e-5 at the most."""

HALVINGS = 4
"""How often at the most. A rise at one point, which is what many events for a well-known rate come to, is then
placed to 1/64 of a normal score: the probability up to it is off by 1/128 of the normal density there, 3e-3 at the
median and 5e-4 at the ends of a 95 % interval."""

NODES = (5, 11)
"""Sizes of the Gauss-Hermite rules that come before, in this order."""

SMOOTH = 0.15
"""Largest rise of the probability from one of their nodes to the next at which they are believed, and"""

LAST_TERMS = 1e-5
"""largest part that the two highest moments of the linear predictor have in a probability, at all responses that a
search looks at, and"""

HEAVY = 0.3
"""largest part that they can have, whatever the distribution function: heavier tails are no matter of moments."""

ROWS = 4096
"""Rows that are looked at together."""

LARGEST = 1e18
"""From here on counts are infinite as quantiles: doubles have no room for whole numbers."""

WIDE = 1e-5
"""Relative distance from :data:`LARGEST` that the search for it may leave."""

SURE = 1e-9
"""Probabilities closer to that of a whole number are not told from it, nor those closer than half of a tail."""

ROUNDING = 1e-14
"""Of probabilities: the sum of all weights of a rule is 1 but for this."""

FIRST_STEP, CLOSE, SECANTS = 1e-3, 1e-9, 8
"""Of the search for other quantiles from a near point, relative to the width of the bracket that it began with: the
first step, the last one, and how many there are at the most."""

HALVED, MAXITER = 4, 400
"""Of the search among whole numbers every so many steps halve the bracket; most steps."""

FAR = 37.0
"""Normal scores are cut off here."""


class Linear(Protocol):
    """The laws of the linear predictors of m rows."""

    def scaled(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Means and standard deviations (m,); weights (K,), centres and variances (K, m) of scaled components."""

    def curves(self) -> FloatArray:
        """Quantiles at :data:`SCORES`, (m, 41)."""

    def taken(self, which: IntArray) -> Self:
        """Those of some of the rows."""


@dataclass(frozen=True, slots=True)
class Normals:
    """Mixtures of normal distributions; see :class:`Linear`.

    Attributes
    ----------
    components : Common
    """

    components: Common

    def scaled(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of the components."""
        own = self.components
        return _scaled(own.weight, own.center, own.scale**2)

    def curves(self) -> FloatArray:
        """Quantiles."""
        return self.components.curves(ndtr(SCORES))

    def taken(self, which: IntArray) -> Normals:
        """Some of them."""
        own = self.components
        return Normals(Common(own.center[:, which], own.scale[:, which], own.weight, own.df))


@dataclass(frozen=True, slots=True)
class Curves:
    """Laws of which quantiles are known; see :class:`Linear`.

    Attributes
    ----------
    values : (m, 41) array
    """

    values: FloatArray

    def scaled(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of points at the quantiles."""
        return _scaled(_normal_weights(SCORES), self.values.T, np.zeros((SCORES.size, 1)))

    def curves(self) -> FloatArray:
        """The quantiles."""
        return self.values

    def taken(self, which: IntArray) -> Curves:
        """Some of them."""
        return Curves(self.values[which])


@dataclass(frozen=True, slots=True)
class Part:
    """Responses for one value of what their distribution has besides the linear predictor, such as a dispersion.

    Attributes
    ----------
    weight : float
    linear : Linear
        The laws of the linear predictors of rows.
    up_to : callable
        ``up_to(y, eta, extent)`` gives probabilities of responses of at most y for linear predictors that broadcast
        with y, as does the extent of the row, such as a number of trials; None where there is none.
    around : callable
        ``around(eta, extent)`` gives two responses such that most are between them.
    extent : (m,) array or None
        Extents of the rows.
    """

    weight: float
    linear: Linear
    up_to: Callable[[FloatArray, FloatArray, FloatArray | None], FloatArray]
    around: Callable[[FloatArray, FloatArray | None], tuple[FloatArray, FloatArray]]
    extent: FloatArray | None = None

    def taken(self, which: IntArray) -> Part:
        """The same of some of the rows."""
        own = None if self.extent is None else self.extent[which]
        return replace(self, linear=self.linear.taken(which), extent=own)


@dataclass(frozen=True, slots=True)
class ResponseLaw:
    """New responses of m rows.

    Attributes
    ----------
    parts : sequence of Part
        Weights sum to 1.
    whole : bool
        Whether responses are whole numbers.
    """

    parts: Sequence[Part]
    whole: bool

    @classmethod
    def mixed(cls, laws: Sequence[ResponseLaw], weight: FloatArray) -> ResponseLaw:
        """The mixture of several laws of the same rows, with weights that sum to 1."""
        parts = [
            replace(part, weight=part.weight * own)
            for law, own in zip(laws, weight.tolist(), strict=True)
            for part in law.parts
        ]
        return replace(laws[0], parts=parts)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (m, c) at probabilities (c,); of whole numbers the least that has so much up to it.

        They are those of probabilities that differ from the asked ones by 1e-5 at the most where a Gauss-Hermite rule
        is believed; see :data:`STEEP` and :data:`HALVINGS` for the other rows.
        """
        middle, low, high = self._around()
        m, c = low.size, probabilities.size
        at, todo = np.repeat(probabilities, m), np.arange(m * c)
        first = _Rule.of_nodes(self, middle)
        found = first.searched(np.tile(low, c), np.tile(high, c), at, todo % m)
        unit, law = np.tile(high - low, c), self
        for count in NODES:
            rows, place = np.unique(todo % m, return_inverse=True)
            rule = _Rule.of_gauss(law.taken(rows), count)
            found[todo], sure = rule.improved(found[todo], unit[todo], at[todo], place.reshape(-1))
            todo = todo[~sure]
            if todo.size == 0:
                return found.reshape(c, m).T
        rows, place = np.unique(todo % m, return_inverse=True)
        law, which = law.taken(rows).by_curves(), place.reshape(-1)
        for halved in range(HALVINGS + 1):
            rule = _Rule.of_scores(law, halved)
            found[todo] = rule.searched(np.tile(low, c)[todo], np.tile(high, c)[todo], at[todo], which)
            steep = rule.at(which, found[todo])[1] > STEEP
            todo, which = todo[steep], which[steep]
            if todo.size == 0:
                break
        return found.reshape(c, m).T

    def taken(self, which: IntArray) -> ResponseLaw:
        """The law of some of the rows."""
        return replace(self, parts=[part.taken(which) for part in self.parts])

    def by_curves(self) -> ResponseLaw:
        """The same with the linear predictors by their quantiles."""
        return replace(self, parts=[replace(part, linear=Curves(part.linear.curves())) for part in self.parts])

    def _around(self) -> tuple[list[FloatArray], FloatArray, FloatArray]:
        """Means of the linear predictors in each part, and responses between which most of each row are."""
        middle = [part.linear.scaled()[0] for part in self.parts]
        ends = [part.around(eta, part.extent) for part, eta in zip(self.parts, middle, strict=True)]
        low, high = (np.array(each) for each in zip(*ends, strict=True))
        return middle, low.min(axis=0), high.max(axis=0)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule for means over the linear predictors of m rows, for the distribution function of responses.

    Attributes
    ----------
    law : ResponseLaw
    nodes : list of (m, J) array
        Linear predictors, of each part.
    weight : list of (m, J) or (1, J) array
    last : list of (m, J) array
        Weights of the terms of a probability that should be negligible; empty where no such terms are known.
    """

    law: ResponseLaw
    nodes: list[FloatArray]
    weight: list[FloatArray]
    last: list[FloatArray]

    @classmethod
    def of_nodes(cls, law: ResponseLaw, middle: list[FloatArray]) -> _Rule:
        """The rule with one node for each part."""
        return cls(law, [each[:, None] for each in middle], [np.ones((1, 1)) for _ in middle], [])

    @classmethod
    def of_gauss(cls, law: ResponseLaw, count: int) -> _Rule:
        """The Gauss-Hermite rule of so many nodes, with weights that give the moments of the linear predictors."""
        each = [_gauss(part.linear, count) for part in law.parts]
        nodes, weight, last = zip(*each, strict=True)
        return cls(law, list(nodes), list(weight), list(last))

    @classmethod
    def of_scores(cls, law: ResponseLaw, halved: int) -> _Rule:
        """The trapezoidal rule in normal scores whose step has been halved so many times."""
        count = 1 + (SCORES.size - 1) * 2**halved
        score = np.linspace(SCORES[0], SCORES[-1], count)

        def between(linear: FloatArray) -> FloatArray:
            if halved == 0:
                return linear
            out: FloatArray = PchipInterpolator(SCORES, linear, axis=1)(score)
            return out

        nodes = [between(part.linear.curves()) for part in law.parts]
        return cls(law, nodes, [_normal_weights(score)[None]] * len(nodes), [])

    def at(self, which: IntArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Probabilities of at most `y` of rows `which`, their largest rises between nodes, and the last terms."""
        total, rise, last = np.zeros((3, which.size))
        at = np.minimum(y, LARGEST)[:, None] if self.law.whole else y[:, None]
        for i, part in enumerate(self.law.parts):
            extent = None if part.extent is None else part.extent[which, None]
            each = part.up_to(at, self.nodes[i][which], extent)
            weight = self.weight[i]
            total += part.weight * np.einsum("ij,ij->i", each, weight[which] if weight.shape[0] > 1 else weight)
            if each.shape[1] > 1:
                rise = np.maximum(rise, np.abs(np.diff(each)).max(axis=1))
            if self.last:
                last += part.weight * np.abs(np.einsum("ij,ij->i", each, self.last[i][which]))
        return np.where(y >= LARGEST, 1.0, total) if self.law.whole else total, rise, last

    def searched(self, low: FloatArray, high: FloatArray, probability: FloatArray, which: IntArray) -> FloatArray:
        """Quantiles of rows `which`, each at a probability of its own, that are about between `low` and `high`."""
        if self.law.whole:
            return _least(lambda some, y: self.at(which[some], y)[0], low, high, probability)
        return quantiles(lambda some, y: 1.0 - self.at(which[some], y)[0], np.stack([low, high]), probability)

    def improved(
        self, near: FloatArray, unit: FloatArray, probability: FloatArray, which: IntArray
    ) -> tuple[FloatArray, BoolArray]:
        """The same from points that are near, and whether the rule is to be believed there."""
        heavy = np.max([np.abs(last).sum(axis=1) for last in self.last], axis=0)
        sure = heavy[which] <= HEAVY

        def up_to(some: IntArray, y: FloatArray) -> FloatArray:
            value, rise, last = self.at(which[some], y)
            sure[some] &= (rise <= SMOOTH) & (last <= LAST_TERMS)
            return value

        if self.law.whole:
            start = np.where(np.isinf(near), LARGEST, near)
            return _least(up_to, start - 1.0, start, probability), sure
        found, converged = _by_secants(up_to, near, unit, probability)
        return found, sure & converged


def in_blocks(m: int, law: Callable[[slice], ResponseLaw], probabilities: FloatArray) -> FloatArray:
    """Quantiles (m, c) of rows whose laws are made block by block."""
    pieces = [law(slice(i, i + ROWS)).quantiles(probabilities) for i in range(0, m, ROWS)]
    return np.concatenate(pieces) if pieces else np.empty((0, probabilities.size))


def _normal_weights(score: FloatArray) -> FloatArray:
    """Weights of the trapezoidal rule in normal scores."""
    density = np.exp(-0.5 * score**2)
    out: FloatArray = density / density.sum()
    return out


def _scaled(
    weight: FloatArray, center: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """As :meth:`Linear.scaled`, of components."""
    mean = weight @ center
    away = center - mean
    with np.errstate(all="ignore"):
        sd = np.sqrt(weight @ (variance + away**2))
        unit = np.where(sd > 0, 1.0 / sd, 0.0)
        return mean, sd, weight, away * unit, variance * unit**2


@lru_cache(maxsize=len(NODES))
def _hermite(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes and weights of the Gauss-Hermite rule, and He_n / n! at the nodes, (count, count)."""
    node, weight = np.polynomial.hermite_e.hermegauss(count)
    values = np.ones((count, count))
    values[1] = node
    for n in range(2, count):
        values[n] = (node * values[n - 1] - values[n - 2]) / n
    return node, weight / weight.sum(), values


def _gauss(linear: Linear, count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes, weights and weights of the last two terms, each (m, count).

    The density of a standardised variable is the normal one times ``sum_n h_n He_n / n!`` with ``h_n`` the mean of
    ``He_n``. That of a normal component with centre d and variance v is ``g_n = d g_(n-1) + (n-1) (v-1) g_(n-2)``.
    """
    mean, sd, share, center, variance = linear.scaled()
    node, weight, values = _hermite(count)
    narrower = variance - np.where(sd > 0, 1.0, 0.0)
    before, now = np.ones(center.shape), center
    moments = [np.ones(mean.size), np.zeros(mean.size)]
    for n in range(2, count):
        before, now = now, center * now + (n - 1) * narrower * before
        moments.append(share @ now if n > 2 else np.zeros(mean.size))
    terms = np.stack(moments, axis=1)
    own = (terms @ values) * weight
    last = (terms[:, -2:] @ values[-2:]) * weight
    return mean[:, None] + sd[:, None] * node, own, last


def _score(probability: FloatArray) -> FloatArray:
    out: FloatArray = np.clip(ndtri(np.clip(probability, 0.0, 1.0)), -FAR, FAR)
    return out


def _by_secants(
    up_to: Callable[[IntArray, FloatArray], FloatArray], near: FloatArray, unit: FloatArray, probability: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Quantiles from near points by the secant method on normal scores, and whether it has converged."""
    todo, wanted = np.arange(near.size), _score(probability)
    old, out, converged = near.copy(), near.copy(), np.zeros(near.size, dtype=bool)
    at_old = _score(up_to(todo, old)) - wanted
    slope = np.full(near.size, np.nan)
    step = np.where(at_old > 0, -FIRST_STEP, FIRST_STEP) * unit
    for _ in range(SECANTS):
        out[todo] = old[todo] + step[todo]
        close = np.abs(step[todo]) <= CLOSE * unit[todo]
        converged[todo[close]] = True
        todo = todo[~close & np.isfinite(step[todo])]
        if todo.size == 0:
            break
        value = _score(up_to(todo, out[todo])) - wanted[todo]
        with np.errstate(divide="ignore", invalid="ignore"):
            slope[todo] = (value - at_old[todo]) / step[todo]
            old[todo], at_old[todo] = out[todo], value
            step[todo] = -value / slope[todo]
    return out, converged


def _least(
    up_to: Callable[[IntArray, FloatArray], FloatArray], low: FloatArray, high: FloatArray, probability: FloatArray
) -> FloatArray:
    """The least whole numbers up to which the probability is no smaller, between or near `low` and `high`."""
    wanted = _score(probability)
    enough = probability - np.minimum(SURE, 0.5 * np.minimum(probability, 1.0 - probability))
    enough = np.minimum(enough, 1.0 - ROUNDING)
    low, high = np.maximum(np.floor(low), -1.0), np.maximum(np.ceil(high), 0.0)
    low = np.minimum(low, high - 1.0)
    every = np.arange(low.size)
    at_low, at_high = np.zeros(low.size), up_to(every, high)
    some = every[low > -1.0]
    at_low[some] = up_to(some, low[some])
    step = np.maximum(high - low, 4.0 * np.spacing(high))
    todo = every[at_high < enough]
    while todo.size:
        low[todo], at_low[todo] = high[todo], at_high[todo]
        high[todo] = np.minimum(high[todo] + step[todo], LARGEST)
        step[todo] *= 2.0
        at_high[todo] = up_to(todo, high[todo])
        todo = todo[at_high[todo] < enough[todo]]
    todo = every[at_low >= enough]
    while todo.size:
        high[todo], at_high[todo] = low[todo], at_low[todo]
        low[todo] = np.maximum(low[todo] - step[todo], -1.0)
        step[todo] *= 2.0
        at_low[todo] = 0.0
        some = todo[low[todo] > -1.0]
        at_low[some] = up_to(some, low[some])
        todo = todo[at_low[todo] >= enough[todo]]
    at_low, at_high = _score(at_low), _score(at_high)
    todo = every
    for i in range(MAXITER):
        # From 2^53 on the distance of neighbouring doubles is more than 1.
        todo = todo[high[todo] - low[todo] > np.maximum(1.0, 4.0 * np.spacing(high[todo]))]
        if todo.size == 0:
            break
        share = np.full(todo.size, 0.5)
        if i % HALVED != HALVED - 1:
            share = (wanted[todo] - at_low[todo]) / np.maximum(at_high[todo] - at_low[todo], SURE)
        y = np.floor(low[todo] + np.clip(share, 0.0, 1.0) * (high[todo] - low[todo]))
        y = np.clip(y, low[todo] + 1.0, high[todo] - 1.0)
        value = up_to(todo, y)
        reached, at = value >= enough[todo], _score(value)
        high[todo[reached]], at_high[todo[reached]] = y[reached], at[reached]
        low[todo[~reached]], at_low[todo[~reached]] = y[~reached], at[~reached]
    # Adding zero makes a positive zero of a negative one.
    return np.where(high > (1.0 - WIDE) * LARGEST, np.inf, high + 0.0)
