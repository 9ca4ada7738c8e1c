"""Moments of one success or failure with the logit link under wide normal densities, by nodes at fixed places.

With F the logistic function and ``x ~ N(m, v)`` the cavity, the moments follow from ``Z = E F(x)`` and from its first
two derivatives in m, ``E F'(x)`` and ``E F''(x)``. The logistic function less a normal distribution function falls as
fast as exp(-|x|), as F' and F'' do: on nodes that are the same for all rows the trapezoidal rule integrates the three
at once. Its error is e^(-2 pi^2 / h), from the poles of F, times e^(pi^2 / 2v).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import expit, ndtr

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.linalg import blas

SPACING, REACH = 0.6, 28.2
"""Distance of the nodes and their largest."""

NARROWEST, FLATTEST = 1.0, 1e12
"""Variances of the normal densities."""

LOWEST = -4.5
"""Least mean of these in standard deviations, towards where the likelihood vanishes: Z is a sum of terms near 1."""

FARTHEST = 13.0
"""Means farther than this plus v / 13 to that side have Z from beyond the nodes.

On the other side Z is about 1, and what lies beyond the nodes is e^-28 in the gradient and in the curvature, times
the density of the normal law there: less than e^-28 standard deviations of the law.
"""

BEND = 1.7
"""Standard deviation of the normal distribution function that is taken off."""

ROWS = 256
"""Rows that are integrated together: temporary arrays stay in a cache."""


def _functions() -> tuple[FloatArray, FloatArray]:
    """The nodes (K,), and what is averaged at them with the rule's weights (3, K)."""
    count = round(REACH / SPACING)
    at = SPACING * np.arange(-count, count + 1, dtype=np.float64)
    # Each difference is that of the smaller probabilities, of opposite sign on both sides.
    rest = -np.sign(at) * (expit(-np.abs(at)) - ndtr(-np.abs(at) / BEND))
    slope = expit(at) * expit(-at)
    averaged: FloatArray = np.stack([rest, slope, slope * (expit(-at) - expit(at))])
    return at, averaged * (SPACING / np.sqrt(2.0 * np.pi))


AT, FUNCTIONS = _functions()


def suits(sign: FloatArray, precision: FloatArray, mean: FloatArray) -> BoolArray:
    """Rows to which this applies, of a success (`sign` 1) or a failure (-1) each.

    Parameters
    ----------
    sign : (n,) array
    precision : (n,) array
        Of the normal densities; positive where `mean` is finite.
    mean : (n,) array
    """
    inside = (precision <= 1.0 / NARROWEST) & (precision >= 1.0 / FLATTEST)
    towards = sign * mean
    inside &= towards * np.sqrt(precision) >= LOWEST
    out: BoolArray = inside & ((-towards - FARTHEST) * precision <= 1.0 / FARTHEST)
    return out


def moments(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Z of a success under ``N(mean, variance)``, and of its logarithm the first derivative and minus the second."""
    integral = ndtr(mean / np.sqrt(BEND**2 + variance))
    averages = np.empty((3, mean.size))
    for rows in _blocks(mean.size):
        away = np.subtract.outer(AT, mean[rows])
        away *= away
        away *= -0.5 / variance[rows]
        averages[:, rows] = blas.product(FUNCTIONS, np.exp(away, out=away))
    averages /= np.sqrt(variance)
    integral += averages[0]
    gradient = averages[1] / integral
    return integral, gradient, gradient**2 - averages[2] / integral


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + ROWS) for start in range(0, n, ROWS))
