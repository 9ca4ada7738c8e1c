"""Distribution functions of variances, shares and correlations as tables, from which other languages interpolate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincc, ndtr, ndtri

from pybayesridge._types import FloatArray
from pybayesridge.late import Late

if TYPE_CHECKING:
    from scipy import interpolate
else:
    interpolate = Late("scipy.interpolate")

REACH = 5.2
"""The outermost points of a tabulated distribution function, in standard deviations of a normal one."""

STEP = 0.1
"""Most that two neighbouring points lie apart on that scale: a cubic errs by some 1e-7 of a deviation."""

NEAR, SHORT = 0.01, 0.1
"""Points nearer than this on that scale may lie farther apart than `SHORT`, in logs: little lies between."""

APART, MOST = 2e-4, 1200
"""Points are added between two where a cubic errs by more than this on that scale, up to so many in all: the law of a
share is a sum over points, with bends between them."""

SCORES = np.linspace(-REACH, REACH, 521)
"""Normal quantiles of the probabilities at which laws are tabulated that are known by weighted points."""

START = 65
"""Points with which a table begins."""

MOST_HALVINGS = 40
"""Most times that the steps of a table are halved."""

Below = Callable[[FloatArray], FloatArray]
"""A distribution function, of many values at once."""


@dataclass(frozen=True, slots=True)
class TabledLaw:
    """The posterior of a quantity of one target, on a scale on which it is smooth.

    Attributes
    ----------
    quantity : {"sd", "share", "correlation", "sigma2"}
        The scales are the log of the variance, the logit, the inverse hyperbolic tangent, the log.
    which : int
        Which band or correlation.
    mean, sd : float
        Of the quantity itself; NaN where they are not shown.
    little : float
        Probability of a share below 1 %, else NaN.
    below : callable or None
        The distribution function; None with `points`, or where there is a single point, `start`.
    start, width : float
        Where the distribution function is looked at first, and how far from there.
    points : array or None
        The quantiles at :data:`SCORES`.
    """

    quantity: str
    which: int
    mean: float
    sd: float
    little: float
    below: Below | None
    start: float
    width: float
    points: FloatArray | None = None

    @classmethod
    def of_points(
        cls, quantity: str, which: int, numbers: tuple[float, float, float], points: FloatArray
    ) -> TabledLaw:
        """A law by its quantiles at :data:`SCORES`; `numbers` are mean, standard deviation and what is little."""
        if points[0] == points[-1]:
            return cls(quantity, which, *numbers, None, float(points[0]), 0.0)
        return cls(quantity, which, *numbers, None, 0.0, 0.0, points)

    def table(self) -> tuple[FloatArray, FloatArray]:
        """Points, and the normal quantiles of the probabilities up to them; one point without either."""
        if self.points is not None:
            return self.points, SCORES
        if self.below is None:
            return np.array([self.start]), np.zeros(1)
        return tabulated(self.below, self.start, self.width)


def below_variance(points: FloatArray, weight: FloatArray, df: float) -> Below:
    """The distribution function of the log of a variance that is ``df`` times ``exp(points)`` over a chi-squared."""
    points, weight = points[weight > 0], weight[weight > 0]
    half = df / 2
    return lambda x: gammaincc(half, half * np.exp(points - x[:, None])) @ weight


def tabulated(below: Below, start: float, width: float) -> tuple[FloatArray, FloatArray]:
    """A distribution function as points and normal quantiles of its values, close enough to interpolate.

    Parameters
    ----------
    below : callable
        Increasing and smooth.
    start, width : float
        Where it begins to look, and how far.

    Returns
    -------
    points, scores : arrays
        Both increase; the scores from about -:data:`REACH` to :data:`REACH`.
    """
    low, high, ends = start - width, start + width, ndtr(np.array([-REACH, REACH]))
    for _ in range(MOST_HALVINGS):
        inside = below(np.array([low, high]))
        if inside[0] <= ends[0] and inside[1] >= ends[1]:
            break
        low, high = low - (inside[0] > ends[0]) * width, high + (inside[1] < ends[1]) * width
        width *= 2
    points = np.linspace(low, high, START)
    scores = _scores(below(points))
    for _ in range(MOST_HALVINGS):
        apart = np.diff(scores)
        wide = np.flatnonzero((apart > STEP) | ((apart > NEAR) & (np.diff(points) > SHORT)))
        if not wide.size:
            break
        between = (points[wide] + points[wide + 1]) / 2
        points, scores = np.insert(points, wide + 1, between), np.insert(scores, wide + 1, _scores(below(between)))
    wide = np.arange(points.size - 1)[np.diff(scores) > APART]
    while wide.size and points.size + wide.size <= MOST:
        between = (points[wide] + points[wide + 1]) / 2
        found = _scores(below(between))
        bent = np.abs(interpolate.PchipInterpolator(points, scores)(between) - found) > APART
        points, scores = np.insert(points, wide + 1, between), np.insert(scores, wide + 1, found)
        first = (wide + np.arange(wide.size))[bent]
        wide = np.sort(np.concatenate([first, first + 1]))
    # Of those in a tail only the last counts; where rounding errors show, the function does not increase.
    keep = np.concatenate([np.diff(scores) > 0, [True]]) & (np.maximum.accumulate(scores) == scores)
    keep &= (scores < REACH) | (np.arange(scores.size) == np.argmax(scores >= REACH))
    return points[keep], scores[keep]


def _scores(probabilities: FloatArray) -> FloatArray:
    out: FloatArray = np.clip(ndtri(np.clip(probabilities, 0.0, 1.0)), -REACH, REACH)
    return out
