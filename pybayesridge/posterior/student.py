"""Distribution function and density of Student's t and the normal distribution: exact, and fast from a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from pybayesridge._types import FloatArray

SPACING = 5e-3
"""Between the points of the distribution function's table; cubics between them err by 3e-12 at most."""

REACH = 40.0
"""The table's last point, in scales of a component."""

BEYOND = 1e-13
"""A tail beyond the table that is not larger is nothing, and has no density either: where a component is a billionth
as wide as the others, what it had at the table's end would be most of the mixture's density."""

Law = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Distribution function and density at given points."""


def exact(df: float) -> Law:
    """To all digits; df inf is the normal distribution."""
    if np.isinf(df):
        return lambda x: (ndtr(x), np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))
    constant = np.exp(gammaln((df + 1) / 2) - gammaln(df / 2)) / np.sqrt(np.pi * df)
    return lambda x: (stdtr(df, x), constant * np.exp(-(df + 1) / 2 * np.log1p(x**2 / df)))


@lru_cache(maxsize=8)
def tabulated(df: float) -> Law:
    """Distribution function and density of a t (normal: df inf) distribution, by cubic Hermite interpolation."""
    points = np.linspace(-REACH, REACH, round(2 * REACH / SPACING) + 1)
    constant = _cdf(points, df)
    linear = exact(df)(points)[1] * SPACING
    rise = np.diff(constant)
    square = np.append(3 * rise - 2 * linear[:-1] - linear[1:], 0.0)
    cubic = np.append(linear[:-1] + linear[1:] - 2 * rise, 0.0)
    linear[-1] = 0.0
    negligible = constant[0] <= BEYOND
    if negligible:
        linear[0] = 0.0

    def law(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        at = x * (1.0 / SPACING) + REACH / SPACING
        np.fmax(np.fmin(at, points.size - 1, out=at), 0.0, out=at)
        below = at.astype(np.intp)
        at -= below
        c1, c2, c3 = linear.take(below), square.take(below), cubic.take(below)
        c3 *= at
        c2 += c3
        # Now c2 + c3 s and c3 s: value c0 + s (c1 + s (c2 + c3 s)), slope c1 + s (2 (c2 + c3 s) + c3 s).
        c3 += c2
        c3 += c2
        c3 *= at
        c3 += c1
        c3 *= 1.0 / SPACING
        c2 *= at
        c2 += c1
        c2 *= at
        c2 += constant.take(below)
        if not negligible:
            far = np.abs(x) >= REACH
            c2[far], c3[far] = exact(df)(x[far])
        return c2, c3

    return law


def standard_quantile(df: float, probability: FloatArray | float) -> FloatArray:
    """Quantiles of the standard law; many equal probabilities cost one."""
    unique, inverse = np.unique(np.asarray(probability, dtype=np.float64), return_inverse=True)
    found: FloatArray = ndtri(unique) if np.isinf(df) else stdtrit(df, unique)
    return found[inverse.reshape(np.shape(probability))]


def _cdf(x: FloatArray, df: float) -> FloatArray:
    out: FloatArray = ndtr(x) if np.isinf(df) else stdtr(df, x)
    return out
