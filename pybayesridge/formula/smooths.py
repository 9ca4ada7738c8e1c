"""Smooth curves as columns: cubic regression splines, of whose functions all but a line are penalised.

A natural cubic spline with knots c_1 < … < c_k is determined by its second derivatives at the inner knots and a line.
With h the distances of the knots and B tridiagonal, (h_i + h_{i+1})/3 on the diagonal and h_{i+1}/6 beside it, the
integral of the squared second derivative is g'Bg, g the second derivatives at the inner knots. Where B = LL' and
g = L'⁻¹ b that is b'b: the penalty is a ridge on b. The values at the knots follow from D f = B g, D the second
differences, up to a line: by sums, which stay accurate however near two knots are. Of the functions that differ by a
line, those are taken that have mean zero over the rows and are orthogonal, in values at the knots, to the centred
line; singular vectors of their values order them, the smoothest first. These are the eigenvectors of the penalty
within the constraint, as in Wood, *Generalized Additive Models* (2017), sections 5.3.1 and 5.4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from formulaic.materializers.types import FactorValues
from formulaic.utils.stateful_transforms import stateful_transform
from scipy import linalg

from pybayesridge._types import FloatArray
from pybayesridge.formula.hints import FormulaError

CURVE = "_curve"
"""The name by which :func:`curve` is called in expressions that only the package writes."""

TIE = 1e-6
"""Values of a function at knots that differ by less, relative to the largest, may be equal but for rounding."""

UNITS = 1e100
"""Largest range of a variable, and the inverse of the least: its square is a divisor."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Natural cubic splines with common knots, which go on as lines outside them.

    Attributes
    ----------
    knots : (k,) array
        Ascending.
    values, curvatures : (k, m) arrays
        Values and second derivatives at the knots, a column for each of the m functions; those are zero at both ends.
    """

    knots: FloatArray
    values: FloatArray
    curvatures: FloatArray

    def at(self, x: FloatArray) -> FloatArray:
        """The functions at some points, (n, m); NaN where `x` is."""
        knots, f, g = self.knots, self.values, self.curvatures
        inside = np.clip(x, knots[0], knots[-1])
        gone = np.isnan(inside)
        i = np.clip(np.searchsorted(knots, np.where(gone, knots[0], inside), side="right") - 1, 0, knots.size - 2)
        h = np.diff(knots)[i]
        left, right = ((knots[i + 1] - inside) / h)[:, None], ((inside - knots[i]) / h)[:, None]
        sixth = (h**2 / 6.0)[:, None]
        out = left * f[i] + right * f[i + 1] + sixth * ((left**3 - left) * g[i] + (right**3 - right) * g[i + 1])
        beyond = np.flatnonzero(x != inside)  # and NaN, which stays NaN
        slopes = self._end_slopes()[(x[beyond] > knots[-1]).astype(int)]
        out[beyond] += (x[beyond] - inside[beyond])[:, None] * slopes
        return out

    def _end_slopes(self) -> FloatArray:
        """First derivatives at the first and at the last knot, (2, m)."""
        h, f, g = np.diff(self.knots), self.values, self.curvatures
        first = (f[1] - f[0]) / h[0] - h[0] * (2 * g[0] + g[1]) / 6.0
        last = (f[-1] - f[-2]) / h[-1] + h[-1] * (g[-2] + 2 * g[-1]) / 6.0
        return np.stack([first, last])


def knots_of(x: FloatArray, count: int) -> FloatArray:
    """Knots at the quantiles of the distinct values, (count,)."""
    return np.quantile(np.unique(x[~np.isnan(x)]), np.linspace(0.0, 1.0, count))


def gram(knots: FloatArray) -> FloatArray:
    """The products of the second derivatives of natural splines, given at the inner knots: B, (k - 2, k - 2)."""
    h = np.diff(knots)
    beside = h[1:-1] / 6.0
    return np.diag((h[:-1] + h[1:]) / 3.0) + np.diag(beside, 1) + np.diag(beside, -1)


def penalized(knots: FloatArray, x: FloatArray, *, centered: bool, counts: FloatArray | None = None) -> Curves:
    """The penalised functions of a curve, k - 2 of them: their coefficients have the penalty of their squares.

    Parameters
    ----------
    knots : (k,) array
        Ascending; the integral of squared second derivatives is that over x in units of their range.
    x : (n,) array
        The values of the rows; NaN is left out.
    centered : bool
        Whether each function has mean zero over the rows; else all are orthogonal to the constant and the line in
        their values at the knots.
    counts : (n,) array or None
        How often each value occurs, none being NaN.
    """
    unit = knots[-1] - knots[0]
    steps = np.diff(knots) / unit
    products = gram(knots / unit)
    inner = linalg.solve_triangular(linalg.cholesky(products, lower=True), np.eye(steps.size - 1), lower=True).T
    count = inner.shape[1]
    none = np.zeros((1, count))
    slopes = np.vstack([none, np.cumsum(products @ inner, axis=0)])
    values = np.vstack([none, np.cumsum(steps[:, None] * slopes, axis=0)])
    curvatures = np.vstack([none, inner, none]) / unit**2
    line = (knots - _mean(x, counts)) / unit
    if centered:
        values -= _mean(Curves(knots, values, curvatures).at(x if counts is not None else x[~np.isnan(x)]), counts)
        values -= np.outer(line, line @ values / (line @ line))
    else:
        flat = linalg.qr(np.stack([np.ones(knots.size), line], axis=1), mode="economic")[0]
        values -= flat @ (flat.T @ values)
    order = linalg.svd(values, full_matrices=False)[2].T
    values, curvatures = values @ order, curvatures @ order
    signs = _signs(values)
    return Curves(knots, values * signs, curvatures * signs)


def _mean(values: FloatArray, counts: FloatArray | None) -> Any:
    """Mean over the rows."""
    return np.nanmean(values, axis=0) if counts is None else np.average(values, axis=0, weights=counts)


def _signs(values: FloatArray) -> FloatArray:
    """Signs that make the first of the largest values of each column positive, (m,)."""
    size = np.abs(values)
    first = np.argmax(size >= (1 - TIE) * size.max(axis=0), axis=0)
    return np.where(values[first, np.arange(values.shape[1])] < 0, -1.0, 1.0)


def learned(x: FloatArray, k: int, *, centered: bool, counts: FloatArray | None = None) -> dict[str, Any]:
    """What :func:`curve` learns of values (n,), each of which occurs once or as often as `counts` (n,) say."""
    distinct = np.unique(x).size
    if distinct == 1:
        raise FormulaError("the variable has the same value in every row, so that there is no curve: leave it out")
    if distinct < k:
        fewer = f"k={distinct} or less" if distinct > 2 else "the variable itself"
        raise FormulaError(
            f"the variable has {distinct} distinct values, and a curve with k={k} needs at least {k}: use {fewer}"
        )
    knots = knots_of(x, k)
    if not (np.diff(knots) > 0).all() or not 1 / UNITS <= np.ptp(knots) <= UNITS:
        raise FormulaError("the values of the variable lie too close together, or too far apart, for a curve")
    made = penalized(knots, x, centered=centered, counts=counts)
    return {
        "knots": knots,
        "values": made.values,
        "curvatures": made.curvatures,
        "mean": float(np.mean(x) if counts is None else np.average(x, weights=counts)),
    }


@stateful_transform
def curve(data: Any, k: int, centered: bool, _state: Any = None) -> FactorValues:
    """The columns of a smooth curve: the line, then the penalised functions, the smoothest first.

    The knots and functions are those of the first evaluation.

    Parameters
    ----------
    data : (n,) array
        NaN where it is missing.
    k : int
        Number of knots.
    centered : bool
        See :func:`penalized`.
    """
    x = _numbers(data)
    if not _state:
        _state.update(learned(x[~np.isnan(x)], k, centered=centered))
    functions = Curves(_state["knots"], _state["values"], _state["curvatures"]).at(x)
    columns = {"line": x - _state["mean"]} | {str(j + 1): functions[:, j] for j in range(functions.shape[1])}
    return FactorValues(
        columns, kind="numerical", spans_intercept=False, column_names=tuple(columns), format="{name}[{field}]"
    )


def _numbers(data: Any) -> FloatArray:
    """The values of one variable, real and finite or missing."""
    values = np.asarray(data)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        told = "several columns" if values.ndim > 1 else "text or another factor"
        raise FormulaError(f"a smooth curve is a function of one variable that is a number, not of {told}")
    out = values.astype(np.float64)
    if np.isinf(out).any():
        raise FormulaError(f"the variable is infinite in row {int(np.flatnonzero(np.isinf(out))[0])}")
    return out
