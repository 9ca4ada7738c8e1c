"""The posterior of l = log t2 by the trapezoidal rule, as for Gaussian noise.

The rule runs in u with ``l = center + width sinh(u)``: its nodes are even where the density has its mass and far
apart in the exponential tails. Each doubling of the nodes squares the error, so that with d the
change of the last one the error left is about d^2; min(d, 100 d^2) is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.binomial.approximation import Approximation
from pybayesridge.binomial.nodes import Nodes
from pybayesridge.binomial.prior import LogPrior

DROP = 20.0
"""Nodes end where the density, and its products with moments, have fallen by this in logarithm: e^-20 is 2e-9."""

FIRST_STEP = 1.0
GROWTH = 1.5
"""Steps of the search for the ends in log t2, and their growth where little mass is left."""

LITTLE = 4.0
"""Fall of the log density from where steps grow."""

FARTHEST = {"ep": 35.0, "laplace": 25.0}
"""The search ends this far from the prior's scale in log t2: farther out the density is an exponential, to 1e-7.
Where the columns separate the responses Laplace's mode runs away with t2, and rounding takes over earlier."""

FIRST_NODES = 11

NEGLIGIBLE, ROUGH = 1e-12, 0.1
"""A node whose moments are off by at most `ROUGH` standard deviations is right if this, times its weight, is
negligible: that is what the posterior's moments are off by, and the log evidence by about its square."""

SETTLED = 1e-3
"""The rate at which the density falls has reached its limit when its last two estimates agree this well."""


@dataclass(frozen=True, slots=True)
class Quadrature:
    """Nodes and weights of the posterior of log t2.

    Attributes
    ----------
    log_t2 : (K,) array
        In the units of the coordinates.
    weight : (K,) array
        Sums to 1.
    nodes : tuple of K approximations
    log_integral : float
        Log of the integral over log t2.
    error : float
        Estimated error of the log integral, of the mean of log t2 and of the rows' probabilities.
    fall : float
        The density falls as ``exp(-fall log_t2)`` at the upper end: moments of order m of the coefficients exist
        outside the row space, and wherever the responses are separated, for m < 2 fall.
    converged : bool
    """

    log_t2: FloatArray
    weight: FloatArray
    nodes: tuple[Approximation, ...]
    log_integral: float
    error: float
    fall: float
    converged: bool


def integrate(nodes: Nodes, *, tol: float, maxiter: int) -> Quadrature:
    """Integrate the posterior of log t2.

    Parameters
    ----------
    nodes : Nodes
    tol : float
        Largest estimated error accepted.
    maxiter : int
        Most doublings of the nodes.

    Raises
    ------
    ValueError
        If the posterior is improper.
    """
    low, high, fall = find_ends(nodes)
    center, width = _shape(nodes)
    ends = np.arcsinh((np.array([low, high]) - center) / width)
    count, error, previous = FIRST_NODES, np.inf, None
    for _ in range(maxiter + 1):
        u = np.linspace(ends[0], ends[1], count)
        l = center + width * np.sinh(u)
        l[[0, -1]] = low, high
        density = np.array([nodes.log_density(float(x)) for x in l])
        log_weight = _with_tails(density, width * np.cosh(u) * (u[1] - u[0]), nodes.prior.a, fall)
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        log_integral = float(top + np.log(weight.sum()))
        weight /= weight.sum()
        found = tuple(nodes.at(float(x)) for x in l)
        summary = _summary(log_integral, l, weight, found)
        if previous is not None:
            change = float(np.abs(summary - previous).max())
            error = min(change, 100 * change**2) + np.finfo(float).eps
            if error <= tol:
                break
        previous, count = summary, 2 * count - 1
    return Quadrature(
        log_t2=l,
        weight=weight,
        nodes=found,
        log_integral=log_integral,
        error=error,
        fall=fall,
        converged=error <= tol and all(_settled(node, w) for node, w in zip(found, weight.tolist(), strict=True)),
    )


def _settled(node: Approximation, weight: float) -> bool:
    """Whether the approximation at a node is as good as its weight asks."""
    return node.converged or (node.change <= ROUGH and weight * node.change <= NEGLIGIBLE)


def _with_tails(density: FloatArray, spacing: FloatArray, rise: float, fall: float) -> FloatArray:
    """Log weights of the nodes; the end nodes stand for the exponential tails beyond them."""
    factor = spacing.copy()
    factor[[0, -1]] *= 0.5
    factor[[0, -1]] += 1.0 / rise, 1.0 / fall
    out: FloatArray = density + np.log(factor)
    return out


def find_ends(nodes: Nodes) -> tuple[float, float, float]:
    """Ends of the nodes, and the rate at which the density falls at the upper one."""
    start = nodes.prior.log_scale
    nodes.log_density(start)
    up = _walk(nodes, 1.0)
    fall = -_last_slope(nodes, upper=True)
    if fall < SETTLED:
        raise ValueError(
            "the posterior of the penalty is improper: the penalised columns separate the responses, and the prior "
            "does not rule out coefficients of any size; pass a `prior` with a larger second number"
        )
    return _walk(nodes, -1.0), up, fall


def _walk(nodes: Nodes, sign: float) -> float:
    """Go from the middle until the density is negligible, up for `sign` 1, down for -1; the place reached."""
    distance, step, farthest = 0.0, FIRST_STEP, FARTHEST[nodes.solver]
    while distance < farthest:
        distance = min(distance + step, farthest)
        l = nodes.prior.log_scale + sign * distance
        value = nodes.log_density(l)
        where, density = np.array(nodes.log_t2), nodes.log_densities()
        if _negligible(where, density, value, l, sign, nodes.prior):
            break
        if value < density.max() - LITTLE:
            step *= GROWTH
    return l


def _negligible(where: FloatArray, density: FloatArray, value: float, l: float, sign: float, prior: LogPrior) -> bool:
    if value > density.max() - DROP:
        return False
    if sign < 0:
        return True
    # The density times t2 (variances) and times its root (means), where these have an integral.
    slope = (density[-1] - density[-2]) / (where[-1] - where[-2])
    for order in (0.5, 1.0):
        weighted = density + order * where
        if slope + order < -0.1 and value + order * l > weighted.max() - DROP:
            return False
    return True


def _last_slope(nodes: Nodes, *, upper: bool) -> float:
    where, density = np.array(nodes.log_t2), nodes.log_densities()
    pair = [-2, -1] if upper else [0, 1]
    return float(np.diff(density[pair])[0] / np.diff(where[pair])[0])


def _shape(nodes: Nodes) -> tuple[float, float]:
    """Centre and width of the bulk of the density, from the nodes so far."""
    where, density = np.array(nodes.log_t2), nodes.log_densities()
    fine = np.linspace(where[0], where[-1], 2001)
    values = np.interp(fine, where, density)
    weight = np.exp(values - values.max())
    weight /= weight.sum()
    mean = float(weight @ fine)
    sd = float(np.sqrt(weight @ (fine - mean) ** 2))
    return mean, max(2.0 * sd, 0.5)


def _summary(log_integral: float, l: FloatArray, weight: FloatArray, found: tuple[Approximation, ...]) -> FloatArray:
    """Quantities whose change decides on convergence: the log integral, the mean of log t2, rows' probabilities."""
    squashed = [node.mean / np.sqrt(1.0 + node.variance) for node in found]
    rows = weight @ np.arctan(np.stack(squashed))
    return np.concatenate([[log_integral, float(weight @ l)], rows])
