"""Densities on a line that are known at points between two ends, with exponential tails beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pybayesridge._types import FloatArray

FINE = 4001
"""Points of the interpolated density."""


@dataclass(frozen=True, slots=True)
class TailedDensity:
    """A density between two ends, with exponential tails beyond them.

    Attributes
    ----------
    points, density : (m,) arrays
        Equally spaced points, and the density there, which is normalised.
    cumulative : (m,) array
        Probability below each point.
    rise, fall : float
        Rates of the tails.
    """

    points: FloatArray
    density: FloatArray
    cumulative: FloatArray
    rise: float
    fall: float

    @classmethod
    def through(cls, where: FloatArray, height: FloatArray, rise: float, fall: float) -> TailedDensity:
        """The density whose logarithm at some places is `height`, up to a constant."""
        fine = np.linspace(where[0], where[-1], FINE)
        curve = scipy.interpolate.CubicSpline(where, height)(fine)
        return cls.of(fine, np.exp(curve - height.max()), rise, fall)

    @classmethod
    def mixed(
        cls, parts: Sequence[TailedDensity], weights: Sequence[float], rise: float, fall: float
    ) -> TailedDensity:
        """The mixture of some densities, with the rates of its tails."""
        low, high = min(part.points[0] for part in parts), max(part.points[-1] for part in parts)
        fine = np.linspace(low, high, FINE)
        share = np.array(weights) / sum(weights)
        return cls.of(fine, share @ np.stack([part.at(fine) for part in parts]), rise, fall)

    @classmethod
    def of(cls, points: FloatArray, density: FloatArray, rise: float, fall: float) -> TailedDensity:
        """A density at points, divided by its integral."""
        below, above = density[0] / rise, density[-1] / fall
        total = below + scipy.integrate.cumulative_trapezoid(density, points, initial=0.0)
        whole = total[-1] + above
        return cls(points, density / whole, np.maximum.accumulate(total) / whole, rise, fall)

    def at(self, where: FloatArray) -> FloatArray:
        """The density at some places."""
        first, last = self.points[0], self.points[-1]
        inside = np.interp(where, self.points, self.density)
        beyond = np.minimum(self.rise * (where - first), 0.0) - np.maximum(self.fall * (where - last), 0.0)
        out: FloatArray = inside * np.exp(beyond)
        return out

    def quantiles(self, at: FloatArray) -> FloatArray:
        """Quantiles at probabilities `at`."""
        low, high = self.cumulative[0], self.cumulative[-1]
        inside = np.interp(at, self.cumulative, self.points)
        with np.errstate(divide="ignore"):
            below = self.points[0] + np.log(at / low) / self.rise
            above = self.points[-1] - np.log((1 - at) / (1 - high)) / self.fall
        return np.where(at < low, below, np.where(at > high, above, inside))
