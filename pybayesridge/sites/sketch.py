"""A sketch of the posterior of l = log t2, from a few nodes of little accuracy, and rules that fit it.

A rule is the trapezoidal one in u with ``l = center + width sinh(u)``: its nodes are even where the density has its
mass and far apart in the exponential tails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.sites.nodes import Nodes

DROP = 18.0
"""Nodes end where the density, and its products with moments, have fallen by this in logarithm: e^-18 is 2e-8, and
the tails beyond are those of an exponential."""

ORDERS = (0.0, 0.5, 1.0)
"""Powers of t2 that the density is multiplied by for probabilities, means and variances of coefficients."""

FALLS = 0.1
"""Rate from which a product falls: the slower ones have no integral, or one that a rule cannot find."""

ROUGH, TAILS, LOOSER = 1e-2, 1e-3, 5.0
"""Accuracy of the approximations that make the sketch, and of those of a rule in the tails: so many times that at the
top if this is more."""

FINE = 4001
"""Points at which the sketch is looked at."""

NEAR, LOOKS = 2.5, 8
"""The sketch has a node within so many standard deviations of its top, after at most so many more nodes."""

NARROWEST = 1e-3
"""The least standard deviation of l."""


TAIL = 40.0
"""The exponential tails of a rule end where they have fallen by this in logarithm."""


@dataclass(frozen=True, slots=True)
class TrapezoidalRule:
    """Places of the trapezoidal rule; beyond its nodes the density is exponential.

    Attributes
    ----------
    nodes : (K,) array
    log_t2 : (M,) array
        All places, in ascending order.
    node : (M,) int array
        Which of the nodes stands for a place.
    log_factor : (M,) array
        Log of spacing times density, relative to that of the node.
    """

    nodes: FloatArray
    log_t2: FloatArray
    node: IntArray
    log_factor: FloatArray


@dataclass(frozen=True, slots=True)
class Sketch:
    """An interpolated density of l.

    Attributes
    ----------
    density : function
        Log density.
    center, sd : float
        Mean and standard deviation.
    low, high : float
        Where the density and its products with moments have become negligible.
    log_t2, relative : (m,) arrays
        The largest of these, each relative to its top, in logarithm.
    """

    density: Callable[[FloatArray], FloatArray]
    center: float
    sd: float
    low: float
    high: float
    log_t2: FloatArray
    relative: FloatArray

    def rule(self, count: int, shape: tuple[float, float], rise: float, fall: float) -> TrapezoidalRule:
        """The rule of `count` nodes, of which the density rises and falls at these rates beyond them.

        Its `shape` is where it has its center, and over which distance nodes are about even, in standard deviations
        of l, the center beside the mean.
        """
        center, width = self.center + shape[0] * self.sd, shape[1] * self.sd
        first, last = np.arcsinh((np.array([self.low, self.high]) - center) / width)
        h = (last - first) / (count - 1)
        reach = (self.low - TAIL / rise, self.high + TAIL / fall)
        ends = np.arcsinh((np.array(reach) - center) / width)
        before, after = int((first - ends[0]) / h), int((ends[1] - last) / h)
        at = np.arange(-before, count + after)
        u = first + h * at
        l = center + width * np.sinh(u)
        l[[before, before + count - 1]] = self.low, self.high
        tails = rise * np.minimum(l - self.low, 0.0) - fall * np.maximum(l - self.high, 0.0)
        log_factor = np.log(h * width * np.cosh(u)) + tails
        return TrapezoidalRule(l[before : before + count], l, np.clip(at, 0, count - 1), log_factor)

    def tolerance(self, log_t2: float, tol: float, loss: float = 0.0) -> float:
        """Accuracy that a node has to have, if it is `tol` at the top: its square counts with the density.

        The `loss` is the log of the factor by which the whole density counts less.
        """
        relative = float(np.interp(log_t2, self.log_t2, self.relative)) - loss
        return tol * float(np.exp(np.clip(-0.5 * relative, 0.0, np.log(max(TAILS / tol, LOOSER)))))


def sketched(nodes: Nodes, drop: float = DROP) -> Sketch:
    """A sketch that has a node near its top; the nodes must reach to where the density is negligible.

    Below the top it ends where the density has fallen by `drop`.
    """
    for _ in range(LOOKS):
        found = _through(nodes, drop)
        top = float(found.log_t2[found.density(found.log_t2).argmax()])
        if np.abs(np.array(nodes.log_t2) - top).min() <= NEAR * found.sd:
            break
        nodes.at(top, ROUGH)
    return found


def _through(nodes: Nodes, drop: float) -> Sketch:
    """The sketch through the nodes so far."""
    where, prior = np.array(nodes.log_t2), nodes.prior
    evidence = scipy.interpolate.CubicHermiteSpline(
        where, [node.log_evidence for node in nodes.found], [node.slope for node in nodes.found]
    )
    fine = np.linspace(where[0], where[-1], FINE)

    def log_density(l: FloatArray) -> FloatArray:
        out: FloatArray = evidence(l) + prior.values(l)
        return out

    density = log_density(fine)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    center = float(weight @ fine)
    sd = float(np.sqrt(weight @ (fine - center) ** 2))
    last = nodes.found[-1].slope + prior.slope(nodes.log_t2[-1])
    products = [density + order * fine for order in ORDERS if order == 0.0 or last + order < -FALLS]
    relative = np.max([product - product.max() for product in products], axis=0)
    low = int(np.argmax(density - density.max() >= -drop))
    high = fine.size - 1 - int(np.argmax(relative[::-1] >= -DROP))
    return Sketch(
        density=log_density,
        center=center,
        sd=max(sd, NARROWEST),
        low=float(fine[max(low - 1, 0)]),
        high=float(fine[min(high + 1, fine.size - 1)]),
        log_t2=fine,
        relative=relative,
    )
