"""Quantile functions of many continuous distributions as values at some points, which do not tell what made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from scipy.special import ndtr, ndtri, stdtrit

from pybayesridge._types import ArrayLike, FloatArray

REACH = 5.2
"""The outermost points, in standard deviations of a normal distribution: tails of 1e-7."""

POINTS = 61
"""Points of a table unless more are asked for: intervals are right to about 1e-3 standard deviations."""

SHAPE = np.array([-1.0, 0.0, 1.0])
"""Where centre and scale are read off, likewise."""

SMALLEST_TAIL = float(ndtr(-REACH))
"""Tails that are smaller are not in a table."""

NO_ROW_SPACE = (
    "these results were saved without the space of the rows, so that only what each coefficient has alone is here "
    "(mean, standard deviation, intervals): {what} needs all of them together. Use results that were saved with it, "
    "or fit again"
)
"""The message of what needs the joint posterior."""


@dataclass(frozen=True, slots=True)
class QuantileTable:
    """Quantile functions of m distributions for each of q targets.

    Attributes
    ----------
    center, scale : (m, q) arrays
        The median, and half the distance between the quantiles at one standard deviation of a normal distribution.
    df : float
        Degrees of freedom of the t distribution (inf for the normal one) that the points are those of.
    table : (points, m, q) float32 array or None
        Quantiles less the median, in units of the scale. None where the distributions are that one exactly.
    """

    center: FloatArray
    scale: FloatArray
    df: float
    table: Any

    @staticmethod
    def probabilities(*, exactly: bool, points: int = POINTS) -> FloatArray:
        """Increasing probabilities at which :meth:`of` takes quantiles; three for t (or normal) ones."""
        out: FloatArray = ndtr(SHAPE if exactly else _grid(points))
        return out

    @classmethod
    def of(cls, quantiles: FloatArray, df: float, *, exactly: bool, points: int = POINTS) -> Self:
        """Tabulate quantiles (m, q, c) at :meth:`probabilities`; `exactly`: these are t (or normal) ones."""
        grid = SHAPE if exactly else _grid(points)
        low, center, high = (quantiles[..., i] for i in np.searchsorted(grid, SHAPE))
        scale = (high - low) / (2 * float(_base(ndtr(1.0), df)))
        if exactly:
            return cls(center, scale, df, None)
        unit = np.where(scale > 0, scale, 1.0)
        table = np.empty((points, *center.shape), dtype=np.float32)
        for i, at in enumerate(np.searchsorted(grid, _knots(points))):
            table[i] = (quantiles[..., at] - center) / unit
        return cls(center, scale, df, table)

    def at(self, probability: ArrayLike) -> FloatArray:
        """Quantiles (m, q) at a probability, or at one for each distribution (m, q)."""
        return self._at(probability, self._pieces())

    def of_targets(self, which: slice) -> Self:
        """The same of some of the targets."""
        table = None if self.table is None else self.table[:, :, which]
        return type(self)(self.center[:, which], self.scale[:, which], self.df, table)

    def below_zero(self) -> FloatArray:
        """Probability of a value below zero, (m, q), by bisection."""
        low, high = np.full(self.center.shape, SMALLEST_TAIL), np.full(self.center.shape, 1 - SMALLEST_TAIL)
        pieces = self._pieces()
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self._at(middle, pieces) < 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def _interpolated(self, knots: FloatArray, values: FloatArray) -> FloatArray:
        """Coefficients of a cubic (4, c - 1, m, q) between each two of the points (c,) with values (c, m, q)."""
        return scipy.interpolate.CubicSpline(knots, values, axis=0).c

    def _pieces(self) -> FloatArray | None:
        if self.table is None or self.center.size == 0:
            return None
        return self._interpolated(self._points(), self.table.astype(np.float64))

    def _points(self) -> FloatArray:
        knots: FloatArray = _base(ndtr(_knots(len(self.table))), self.df)
        return knots

    def _at(self, probability: Any, pieces: FloatArray | None) -> FloatArray:
        p = np.broadcast_to(np.asarray(probability, dtype=np.float64), self.center.shape)
        # A distribution of scale 0 is a point, at probabilities 0 and 1 too.
        u = np.where(self.scale > 0, _base(p, self.df), 0.0)
        if pieces is None:
            return self.center + self.scale * u
        knots = self._points()
        u = np.clip(u, knots[0], knots[-1])
        piece = np.clip(np.searchsorted(knots, u, side="right") - 1, 0, knots.size - 2)
        step = u - knots[piece]
        value = np.zeros(u.shape)
        for coefficients in pieces:
            value = value * step + np.take_along_axis(coefficients, piece[None], axis=0)[0]
        return self.center + self.scale * value


class MonotoneTable(QuantileTable):
    """A table of distributions that can have several modes, or points: between its points it does not oscillate.

    Where a quantile function jumps from one mode to the next, the probability up to the interpolated quantile is off
    by at most that between two points of the table.
    """

    __slots__ = ()

    def _interpolated(self, knots: FloatArray, values: FloatArray) -> FloatArray:
        """See `QuantileTable`."""
        return scipy.interpolate.PchipInterpolator(knots, values, axis=0).c


def check_tails(probabilities: FloatArray) -> None:
    """Refuse quantiles whose tails are not in a table."""
    tail = float(np.minimum(probabilities, 1 - probabilities).min(initial=0.5))
    if tail < SMALLEST_TAIL:
        raise ValueError(
            f"alpha is {2 * tail:g}: results that were saved without the space of the rows have intervals for an "
            f"alpha of at least {2 * SMALLEST_TAIL:.1g}"
        )


def _knots(count: int) -> FloatArray:
    return np.linspace(-REACH, REACH, count)


def _grid(count: int) -> FloatArray:
    return np.sort(np.concatenate([SHAPE, _knots(count)]))


def _base(p: Any, df: float) -> Any:
    return ndtri(p) if np.isinf(df) else stdtrit(df, p)
