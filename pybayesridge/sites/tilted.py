"""Moments of a row's likelihood times a normal density of its linear predictor.

The tilted density is ``L(eta) exp(slope (eta - center) - precision (eta - center)^2 / 2)``: the cavity in natural
parameters about a point of reference, so that a cavity may be flat (precision 0) where the likelihood alone makes the
density proper. It is log-concave.

It is integrated by the trapezoidal rule, which converges geometrically for analytic functions, over the range where
the density is above e^-DROP of its top, with steps that suit the largest curvature within it. A family with a faster
way has its own (:mod:`pybayesridge.binomial.tilted`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pybayesridge._types import FloatArray, IntArray

DROP = 26.0
"""The range ends where the log density has fallen by this from its top: e^-26 is 5e-12."""

NORMAL_STEP = 0.85
"""Spacing of nodes in standard deviations of the cavity."""

PER_UNIT = 1.0
"""Nodes for each unit of length at the least: likelihoods are analytic within about 3 of the real line."""

SIZES = np.array([12, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512, 1024, 4096])
"""Rows are integrated together with those that need as many nodes."""

CHUNK = 1 << 15
"""Most elements of a temporary array over rows and nodes: it stays in a cache."""

SIDES = np.array([[-1.0], [1.0]])
"""Below the top and above it."""

MODE_MAXITER = 60
MODE_TOL = 1e-3
"""The top is located to about this part of the standard deviation there: it only places the range."""


@dataclass(frozen=True, slots=True)
class Cavity:
    """Density of the linear predictor of each row without the row, up to a constant factor.

    Attributes
    ----------
    center : (n,) array
        Point of reference.
    precision : (n,) array
        Not negative.
    slope : (n,) array
        Slope of the log density at the point of reference.
    """

    center: FloatArray
    precision: FloatArray
    slope: FloatArray

    def rows(self, which: IntArray) -> Cavity:
        """The cavities of some of the rows."""
        return Cavity(self.center[which], self.precision[which], self.slope[which])


@dataclass(frozen=True, slots=True)
class Tilted:
    """Moments of the tilted densities.

    Attributes
    ----------
    log_integral : (n,) array
        Of the density as it stands, not of one with a normalised cavity.
    mean, variance : (n,) arrays
    gradient : (n,) array
        Mean of the slope of the log likelihood.
    site_precision : (n,) array
        ``1 / variance - precision`` of the cavity, without the cancellation: minus the regression slope of the
        likelihood's slope on eta.
    """

    log_integral: FloatArray
    mean: FloatArray
    variance: FloatArray
    gradient: FloatArray
    site_precision: FloatArray

    def put(self, rows: IntArray, part: Tilted) -> None:
        """Write the moments of some rows."""
        for name in Tilted.__dataclass_fields__:
            getattr(self, name)[rows] = getattr(part, name)


def normal_cavity(mean: FloatArray, variance: FloatArray) -> Cavity:
    """The cavity N(mean, variance) without its normalising factor ``sqrt(2 pi variance)``."""
    return Cavity(mean, 1.0 / variance, np.zeros_like(mean))


def merged(n: int, *parts: tuple[IntArray, Tilted]) -> Tilted:
    """The moments of n rows from those of parts of them, with their positions."""
    out = empty(n)
    for rows, part in parts:
        out.put(rows, part)
    return out


def empty(n: int) -> Tilted:
    """Moments of n rows that are still to be written."""
    return Tilted(*(np.empty(n) for _ in range(5)))


class Integrand(Protocol):
    """The likelihood of rows, as :class:`~pybayesridge.sites.likelihood.Likelihood` says it."""

    @property
    def n(self) -> int:
        """Number of rows."""

    def rows(self, which: IntArray) -> Integrand:
        """Some of the rows."""

    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood at linear predictors that broadcast with (n,)."""

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative, and minus the second."""

    def largest_curvature(self) -> FloatArray:
        """Bounds of the latter, (n,)."""

    def reach(self, top: FloatArray, drop: float) -> FloatArray:
        """Distance above tops of tilted densities by which the likelihood alone falls by `drop`, (n,)."""


def by_equal_steps(
    likelihood: Integrand,
    cavity: Cavity,
    curvature: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] | None = None,
) -> Tilted:
    """The moments by the trapezoidal rule with equal steps.

    They suit the largest curvature of the likelihood, or the `curvature` (n,) of the range's low end, top and high
    end.
    """
    top, low, high = density_range(likelihood.values, likelihood.derivatives, cavity, likelihood.reach)
    most = likelihood.largest_curvature() if curvature is None else curvature(low, top, high)
    needed = (high - low) * (np.sqrt(cavity.precision + most) / NORMAL_STEP + PER_UNIT) + 1
    size = np.searchsorted(SIZES[:-1], needed)
    out = empty(likelihood.n)
    for group in np.unique(size):
        count, members = int(SIZES[group]), np.flatnonzero(size == group)
        share, step = np.linspace(0.0, 1.0, count)[:, None], max(1, CHUNK // count)
        for start in range(0, members.size, step):
            rows = members[start : start + step]
            part, wide = likelihood.rows(rows), (high - low)[rows]
            eta = low[rows] + wide * share
            sum_up(out, rows, part.values(eta), part.derivatives(eta)[0], cavity, top, eta, wide[None] / (count - 1))
    return out


def sum_up(
    out: Tilted,
    rows: IntArray,
    density: FloatArray,
    slope: FloatArray,
    cavity: Cavity,
    top: FloatArray,
    eta: FloatArray,
    spacing: FloatArray,
    *,
    signed: bool = False,
) -> None:
    """Write the sums over nodes `eta` (K, m) of some rows into `out`.

    The log likelihood at the nodes and its slope are overwritten. Only `signed` sites may have negative precisions.
    """
    away = eta - cavity.center[rows]
    density += away * (cavity.slope[rows] - 0.5 * cavity.precision[rows] * away)
    peak = density.max(axis=0)
    density -= peak
    weight = np.exp(density, out=density)
    weight *= spacing
    total = weight.sum(axis=0)
    weight /= total
    distance = eta - top[rows]
    shift = np.einsum("ij,ij->j", weight, distance)
    distance -= shift
    gradient = np.einsum("ij,ij->j", weight, slope)
    weight *= distance
    variance = np.einsum("ij,ij->j", weight, distance)
    slope -= gradient
    covariance = np.einsum("ij,ij->j", weight, slope)
    out.log_integral[rows] = peak + np.log(total)
    out.mean[rows] = top[rows] + shift
    out.variance[rows] = variance
    out.gradient[rows] = gradient
    out.site_precision[rows] = (-covariance if signed else np.maximum(-covariance, 0.0)) / variance


def density_range(
    values: Callable[[FloatArray], FloatArray],
    derivatives: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    cavity: Cavity,
    reach: Callable[[FloatArray, float], FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Modes of the log density, and points beyond which it is lower by DROP; each (n,).

    The log likelihood and its derivatives are functions of linear predictors of all rows; `reach` is
    :meth:`Likelihood.reach <pybayesridge.sites.likelihood.Likelihood.reach>`.
    """

    def log_density(x: FloatArray) -> FloatArray:
        away = x - cavity.center
        out: FloatArray = values(x) + away * (cavity.slope - 0.5 * cavity.precision * away)
        return out

    def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = derivatives(x)
        return first + cavity.slope - cavity.precision * (x - cavity.center), second + cavity.precision

    top = _top(slopes, cavity.center, *_bracket(slopes, cavity))
    bend = slopes(top)[1]
    height = log_density(top)
    x = top + SIDES * np.sqrt(2 * DROP / np.maximum(bend, 1e-300))
    if reach is not None:
        x[1] = np.minimum(x[1], top + reach(top, DROP))
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(4):
            # The tangent of a concave function lies above it: each step ends outside, then comes closer.
            step = (log_density(x) - height + DROP) / slopes(x)[0]
            moved = np.where(np.isfinite(step), x - step, x)
            x = np.where(SIDES * (moved - top) > 0, moved, x)
    return top, x[0], x[1]


def _bracket(slopes, cavity: Cavity) -> tuple[FloatArray, FloatArray]:  # type: ignore[no-untyped-def]
    """Points on either side of the top."""
    at = cavity.center
    unit = np.minimum(1.0 / np.sqrt(np.maximum(cavity.precision, 1e-16)), 1.0)
    width = np.stack([unit, unit])
    for _ in range(200):
        inside = SIDES * slopes(at + SIDES * width)[0] > 0
        if not inside.any():
            break
        width = np.where(inside, 2 * width, width)
    return at - width[0], at + width[1]


def _top(slopes, start: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:  # type: ignore[no-untyped-def]
    """Zero of the slope by Newton's method, bisecting where a step would leave the bracket.

    A row has settled where the slope is small for the curvature at the same point, and then stays. The length of the
    last step would not do: where the density is nearly flat, long steps towards its bend look short.
    """
    x = start
    last = np.full(x.shape, np.inf)
    settled = np.zeros(x.shape, dtype=bool)
    for _ in range(MODE_MAXITER):
        first, second = slopes(x)
        settled |= np.abs(first) <= MODE_TOL * np.sqrt(second)
        if settled.all():
            break
        low, high = np.where(first > 0, x, low), np.where(first > 0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = x + first / second
        inside = (moved >= low) & (moved <= high) & (np.abs(moved - x) <= 0.7 * last)
        moved = np.where(settled, x, np.where(inside, moved, 0.5 * (low + high)))
        last = np.abs(moved - x)
        x = moved
    return x
