"""Quantiles of mixtures with common weights, by a bracketed Newton iteration on the distribution function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from pybayesridge._types import FloatArray
from pybayesridge.ridge.student import Law, exact

QUANTILE_TOL = 1e-6
"""A probability this close to the right one, relative to that in the shorter tail, is followed by a last Newton step,
which squares the error."""

QUANTILE_STEP = 1e-4
"""Largest last step, relative to the distance from the centre and the typical scale."""

EVERY = 4
"""Of many components every so many make the mixture that gives the starting point: they are nodes of a quadrature."""

MANY_COMPONENTS = 32
"""From so many components on that mixture is solved for first."""

REPRESENTATIVE = 0.5
"""Share of the weight, times `EVERY`, that they must have."""

COARSE = 1e-2
"""Tolerance of that solution, as `QUANTILE_TOL` and `QUANTILE_STEP`."""

QUANTILE_MAXITER = 200
"""Bisection alone would halve a bracket this often; Newton's steps take about six."""


@dataclass(frozen=True, slots=True)
class _Sought:
    """The quantile that is solved for: law of the components, brackets, and where and how wide the m mixtures are."""

    law: Law
    probability: float
    low: FloatArray
    high: FloatArray
    center: FloatArray
    unit: FloatArray


def mixture_quantile(
    where: FloatArray,
    scale: FloatArray,
    weight: FloatArray,
    df: float,
    probability: float,
    law: Law | None = None,
) -> FloatArray:
    """Quantile of m mixtures of K components with common weights: `where` and `scale` are (K, m).

    `law` takes the place of the exact distribution function. Weights sum to 1. Components in the order of nodes
    of a quadrature are solved for faster.
    """
    law = law or exact(df)
    base = float(ndtri(probability) if np.isinf(df) else stdtrit(df, probability))
    each = where + scale * base
    low, high = each.min(axis=0), each.max(axis=0)
    center, unit = weight @ where, _typical_scale(scale, weight)
    sought = _Sought(law, probability, low, high, center, unit)
    point = np.clip(center + base * unit, low, high)
    few = weight[::EVERY]
    if weight.size >= MANY_COMPONENTS and EVERY * few.sum() > REPRESENTATIVE:
        point = _solve(where[::EVERY], scale[::EVERY], few / few.sum(), sought, point, COARSE, COARSE)
    return _solve(where, scale, weight, sought, point, QUANTILE_TOL, QUANTILE_STEP)


def _solve(
    where: FloatArray,
    scale: FloatArray,
    weight: FloatArray,
    sought: _Sought,
    point: FloatArray,
    tol: float,
    largest_step: float,
) -> FloatArray:
    """The quantiles from starting points, (m,), within the brackets; see `QUANTILE_TOL` and `QUANTILE_STEP`."""
    probability, center, unit = sought.probability, sought.center, sought.unit
    low, high, point = sought.low.copy(), sought.high.copy(), point.copy()
    enough = tol * min(probability, 1 - probability)
    previous = np.full(point.size, np.inf)
    # Without noise every component is the same point.
    todo = np.flatnonzero(scale.max(axis=0) > 0)
    for _ in range(QUANTILE_MAXITER):
        if todo.size == 0:
            break
        at, spread = (where, scale) if todo.size == point.size else (where[:, todo], scale[:, todo])
        x = point[todo]
        cdf, density = sought.law((x - at) / spread)
        excess = weight @ cdf - probability
        density /= spread
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess / (weight @ density)
        high[todo] = np.where(excess >= 0, x, high[todo])
        low[todo] = np.where(excess < 0, x, low[todo])
        # Between separated modes a probability next to the right one is not enough.
        close = (np.abs(excess) <= enough) & ~(
            np.abs(newton - x) > largest_step * (np.abs(x - center[todo]) + unit[todo])
        )
        # Where a component is next to a point mass Newton's steps stand still without having arrived.
        inside = (newton >= low[todo]) & (newton <= high[todo]) & (newton != x)
        inside &= np.abs(excess) <= 0.5 * previous[todo]
        middle = _middle(low[todo], high[todo], center[todo], unit[todo])
        point[todo] = np.where(inside, newton, np.where(close, x, middle))
        previous[todo] = np.abs(excess)
        todo = todo[~close & (point[todo] != x)]
    return point


def _typical_scale(scale: FloatArray, weight: FloatArray) -> FloatArray:
    """Geometric mean over the components, (m,): the standard deviation is that of the tail where this is heavy."""
    with np.errstate(divide="ignore"):
        out: FloatArray = np.exp(weight @ np.log(scale))
    return np.where(out > 0, out, np.maximum(scale.max(axis=0), np.finfo(float).tiny))


def _middle(low: FloatArray, high: FloatArray, center: FloatArray, unit: FloatArray) -> FloatArray:
    """Middle of a bracket whose ends may lie many powers of ten apart: halves it in digits, not in length."""
    ends = np.arcsinh((low - center) / unit) + np.arcsinh((high - center) / unit)
    return np.clip(center + unit * np.sinh(0.5 * ends), low, high)
