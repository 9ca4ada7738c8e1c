"""The law of new responses: the distribution of a response given its linear predictor, over the posterior of that.

For whole numbers the distribution function is taken between them too, as a function that rises, so that quantiles of
counts are found as those of continuous responses are, and rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.posterior.laws import quantiles

SCORES = np.linspace(-5.0, 5.0, 41)
"""Normal scores at which quantiles of linear predictors are known; 6e-7 of the probability lies beyond."""

EVERY = 4
"""Of these so many are used first."""

STEEP = 0.4
"""Where the probability of a response rises by more from one linear predictor to the next, twice as many are used:
the trapezoidal rule for a rise whose width is the distance of two of them is off by 1e-8."""

HALVINGS = 6
"""How often at the most. A rise at one point, which is what many events for a well-known rate come to, is then
placed to 1/64 of a normal score: the probability up to it is off by 1/128 of the normal density there, 3e-3 at the
median and 5e-4 at the ends of a 95 % interval."""

ELEMENTS = 1 << 19
"""Most linear predictors that are held at once."""

LARGEST = 1e18
"""From here on counts are infinite as quantiles: doubles have no room for whole numbers."""

WIDE = 1e-5
"""Relative distance from :data:`LARGEST` that the search for it may leave."""

SURE = 1e-9
"""Probabilities closer to that of a whole number are not told from it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Responses for one value of what their distribution has besides the linear predictor, such as a dispersion.

    Attributes
    ----------
    weight : float
    linear : (m, 41) array
        Quantiles of the linear predictors of rows at the normal scores :data:`SCORES`.
    up_to : callable
        ``up_to(y, eta)`` gives probabilities of responses of at most y for linear predictors that broadcast with y.
    around : callable
        ``around(eta)`` gives two responses such that most are between them.
    """

    weight: float
    linear: FloatArray
    up_to: Callable[[FloatArray, FloatArray], FloatArray]
    around: Callable[[FloatArray], tuple[FloatArray, FloatArray]]


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
        return cls(parts, laws[0].whole)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (m, c) at probabilities (c,); of whole numbers the least that has so much up to it."""
        m = self.parts[0].linear.shape[0]
        step = max(1, ELEMENTS // (SCORES.size * len(self.parts)))
        pieces = [_quantiles(self.taken(slice(i, i + step)), probabilities) for i in range(0, m, step)]
        return np.concatenate(pieces) if pieces else np.empty((0, probabilities.size))

    def taken(self, which: slice | IntArray) -> ResponseLaw:
        """The law of some of the rows."""
        return replace(self, parts=[replace(part, linear=part.linear[which]) for part in self.parts])


def _quantiles(law: ResponseLaw, probabilities: FloatArray) -> FloatArray:
    """Quantiles (m, c) of few rows."""
    m, c = law.parts[0].linear.shape[0], probabilities.size
    at, ends = np.repeat(probabilities, m), np.empty(m * c)
    todo = np.arange(m * c)
    for halved in range(HALVINGS + 1):
        rule = _Rule.of(law.taken(todo % m), halved)
        ends[todo] = rule.quantiles(at[todo])
        todo = todo[rule.steepest(ends[todo]) > STEEP]
        if todo.size == 0:
            break
    return ends.reshape(c, m).T


@dataclass(frozen=True, slots=True)
class _Rule:
    """The trapezoidal rule in the normal score of the linear predictors, for the distribution function of responses.

    Attributes
    ----------
    law : ResponseLaw
        With as many linear predictors as the rule has nodes.
    weight : (J,) array
    """

    law: ResponseLaw
    weight: FloatArray

    @classmethod
    def of(cls, law: ResponseLaw, halved: int) -> _Rule:
        """The rule whose step has been halved so many times."""
        count = 1 + ((SCORES.size - 1) // EVERY) * 2**halved
        score = np.linspace(SCORES[0], SCORES[-1], count)
        density = np.exp(-0.5 * score**2)

        def between(linear: FloatArray) -> FloatArray:
            if count <= SCORES.size:
                return linear[:, :: (SCORES.size - 1) // (count - 1)]
            out: FloatArray = PchipInterpolator(SCORES, linear, axis=1)(score)
            return out

        parts = [replace(part, linear=between(part.linear)) for part in law.parts]
        return cls(replace(law, parts=parts), density / density.sum())

    def quantiles(self, probability: FloatArray) -> FloatArray:
        """The quantile of each row at a probability of its own, (m,)."""
        middle = self.weight.size // 2
        each = np.concatenate([part.around(part.linear[:, middle]) for part in self.law.parts])
        found = quantiles(lambda which, y: 1.0 - self._up_to(which, y), each, probability)
        if not self.law.whole:
            return found
        every, up = np.arange(probability.size), np.ceil(found)
        lower = self._up_to(every, up - 1.0) >= probability - SURE
        higher = self._up_to(every, up) < probability - SURE
        # Adding zero makes a positive zero of a negative one.
        out = np.maximum(up - lower + higher, 0.0) + 0.0
        return np.where(out > (1.0 - WIDE) * LARGEST, np.inf, out)

    def steepest(self, y: FloatArray) -> FloatArray:
        """The largest difference of the probability of at most `y` (m,) between neighbouring linear predictors."""
        at = np.minimum(y, LARGEST)[:, None] if self.law.whole else y[:, None]
        rises = [np.abs(np.diff(part.up_to(at, part.linear))).max(axis=1) for part in self.law.parts]
        out: FloatArray = np.max(rises, axis=0)
        return out

    def _up_to(self, which: IntArray, y: FloatArray) -> FloatArray:
        """Probabilities of at most `y` of some of the rows."""
        total = np.zeros(which.size)
        for part in self.law.parts:
            total += part.weight * (part.up_to(y[:, None], part.linear[which]) @ self.weight)
        return np.where(y >= LARGEST, 1.0, total) if self.law.whole else total


def levels() -> FloatArray:
    """The probabilities of :data:`SCORES`."""
    out: FloatArray = ndtr(SCORES)
    return out
