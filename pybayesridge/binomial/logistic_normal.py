"""Moments of the probability of success where the linear predictor is normal, for many normals at once.

For the logit link the logistic distribution function is replaced by a mixture of eight normal ones (Monahan &
Stefanski 1992, in Balakrishnan, Handbook of the Logistic Distribution), which is within 3e-9 of it. Moments then have
a closed form for any variance.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr, owens_t

from pybayesridge._types import FloatArray
from pybayesridge.binomial.link import Link

SHARES = (
    0.003246343272134,
    0.051517477033972,
    0.195077912673858,
    0.315569823632818,
    0.274149576158423,
    0.131076880695470,
    0.027912418727972,
    0.001449567805354,
)
"""Shares of the normal distribution functions."""

SLOPES = (
    1.365340806296348,
    1.059523971016916,
    0.830791313765644,
    0.650732166639391,
    0.508135425366489,
    0.396313345166341,
    0.308904252267995,
    0.238212616409306,
)
"""Reciprocals of their standard deviations."""


def probability_moments(mean: FloatArray, variance: FloatArray, link: Link) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of the probability of success, in the shape of `mean` and `variance`."""
    if link == "probit":
        total = 1.0 + variance
        at = mean / np.sqrt(total)
        first: FloatArray = ndtr(at)
        return first, first - 2.0 * owens_t(at, 1.0 / np.sqrt(total + variance))
    first, slope = np.zeros(mean.shape), np.zeros(mean.shape)
    for share, steep in zip(SHARES, SLOPES, strict=True):
        scale = steep / np.sqrt(1.0 + steep**2 * variance)
        at = scale * mean
        first += share * ndtr(at)
        slope += share * scale * np.exp(-0.5 * at**2)
    # F' = F (1 - F) for the logistic function F.
    return first, first - slope / np.sqrt(2.0 * np.pi)


SERIES = 0.02
"""Up to this variance the series in it, of three terms, gives the mean of the logistic function to 1e-7."""

RULE = (0.25, 5)
"""Up to this variance so many nodes of a Gauss-Hermite rule average the logistic function to 4e-7."""

BLOCK = 1 << 13
"""Numbers that are worked on at once: they stay in a cache."""


def expected_derivatives(
    mean: FloatArray, variance: FloatArray, link: Link, orders: tuple[int, ...]
) -> list[FloatArray]:
    """Means of derivatives of the probability of success with respect to the linear predictor; order 0 is itself.

    Parameters
    ----------
    mean : (..., n) array
    variance : (n,) array
        Of normal linear predictors.
    link : {"logit", "probit"}
    orders : tuple of int
        From 0 to 4.
    """
    if link == "probit":
        return _of_normal(mean, 1.0 / np.sqrt(1.0 + variance), orders)
    out = [np.empty(mean.shape) for _ in orders]
    group = np.searchsorted([SERIES, RULE[0]], variance)
    size = max(1, BLOCK * variance.size // max(mean.size, 1))
    for which, some in enumerate((_by_series, _by_rule, _by_normals)):
        members = np.flatnonzero(group == which)
        for start in range(0, members.size, size):
            rows = members[start : start + size]
            for total, part in zip(out, some(mean[..., rows], variance[rows], orders), strict=True):
                total[..., rows] = part
    return out


@lru_cache(maxsize=1)
def _polynomials(most: int) -> list[FloatArray]:
    """Coefficients of q_k, in ascending order, for k from 1 to `most`.

    With ``b = F (1 - F)`` and ``t = 1 - 2 F`` derivative k of the logistic function F is ``b q_k(b)`` where k is odd
    and ``b t q_k(b)`` where it is even, since the derivative of b is ``b t`` and that of t is ``-2 b``.
    """
    polynomial = np.polynomial.Polynomial
    q = polynomial([1.0])
    out = [np.ones(1)]
    for k in range(2, most + 1):
        of_it, of_slope = ([1, -6], [0, 1, -4]) if k % 2 else ([1], [0, 1])
        q = polynomial(of_it) * q + polynomial(of_slope) * q.deriv()
        out.append(np.asarray(q.coef, dtype=np.float64))
    return out


def _by_series(mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]) -> list[FloatArray]:
    """By Taylor's series about the mean, ``F + v F2 / 2 + v^2 F4 / 8`` for the function itself."""
    p = expit(mean)
    b = p * (1.0 - p)
    even = b * (1.0 - 2.0 * p) if any(order % 2 == 0 for order in orders) else b
    derivatives, out = _polynomials(8), []
    for order in orders:
        terms = [(0.5 * variance, order + 2), (0.125 * variance**2, order + 4)]
        terms = terms if order == 0 else [(np.ones(variance.size), order), *terms]
        factors = np.zeros((derivatives[terms[-1][1] - 1].size, variance.size))
        for size, k in terms:
            of_power = derivatives[k - 1]
            factors[: of_power.size] += np.multiply.outer(of_power, size)
        total = np.multiply(b, factors[-1])
        for factor in factors[-2:0:-1]:
            total += factor
            total *= b
        total += factors[0]
        total *= b if order % 2 else even
        if order == 0:
            total += p
        out.append(total)
    return out


def _by_rule(mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]) -> list[FloatArray]:
    """By a Gauss-Hermite rule."""
    at, weight = _hermite(RULE[1])
    sd, out = np.sqrt(variance), [np.zeros(mean.shape) for _ in orders]
    for x, w in zip(at, weight, strict=True):
        for total, part in zip(out, _of_logistic(mean + sd * x, orders), strict=True):
            total += w * part
    return out


@lru_cache(maxsize=1)
def _hermite(size: int) -> tuple[list[float], list[float]]:
    """Nodes and weights of the rule for a standard normal variable."""
    at, weight = np.polynomial.hermite_e.hermegauss(size)
    return at.tolist(), (weight / weight.sum()).tolist()


def _by_normals(mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]) -> list[FloatArray]:
    """By the mixture of normal distribution functions."""
    out = [np.zeros(mean.shape) for _ in orders]
    for share, steep in zip(SHARES, SLOPES, strict=True):
        scale = steep / np.sqrt(1.0 + steep**2 * variance)
        for total, part in zip(out, _of_normal(mean, scale, orders), strict=True):
            total += share * part
    return out


def _of_logistic(eta: FloatArray, orders: tuple[int, ...]) -> list[FloatArray]:
    """Derivatives of the logistic function."""
    p = expit(eta)
    both, less = p * (1.0 - p), 1.0 - 2.0 * p
    formulas = {
        0: lambda: p,
        1: lambda: both,
        2: lambda: both * less,
        3: lambda: both * (1.0 - 6.0 * both),
        4: lambda: both * less * (1.0 - 12.0 * both),
    }
    return [formulas[order]() for order in orders]


def _of_normal(mean: FloatArray, scale: FloatArray, orders: tuple[int, ...]) -> list[FloatArray]:
    """Derivatives of ``ndtr(scale * mean)`` with respect to `mean`."""
    at = scale * mean
    slope = scale * np.exp(-0.5 * at**2) / np.sqrt(2.0 * np.pi)
    formulas = {
        0: lambda: ndtr(at),
        1: lambda: slope,
        2: lambda: -slope * scale * at,
        3: lambda: slope * scale**2 * (at**2 - 1.0),
        4: lambda: -slope * scale**3 * at * (at**2 - 3.0),
    }
    return [formulas[order]() for order in orders]
