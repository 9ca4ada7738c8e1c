"""Quadrature over the shares of the bands.

With phi = u^2, u uniform on the positive part of the sphere is phi ~ Dirichlet(1/2, …, 1/2). In spherical angles

    u_1 = cos a_1,  u_2 = sin a_1 cos a_2,  …,  u_K = sin a_1 … sin a_{K-1}

the density of the prior is ``prod_j sin(a_j)^(K-1-j)``, and that of the posterior is analytic up to the ends, where a
share vanishes: Gauss-Legendre rules in the angles converge geometrically.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss, legvander
from scipy.special import gammaln

from pybayesridge._types import BoolArray, FloatArray

RIGHT_ANGLE = np.pi / 2

WHOLE = np.array([-1.0, 1.0])

FIRST = 1e-7
"""The smallest piece beside an end, relative to the whole."""


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the angles, in which a product rule is set up.

    Attributes
    ----------
    low, high : (K - 1,) arrays
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def whole(cls, count: int) -> Box:
        """All shares of `count` bands."""
        return cls(np.zeros(count - 1), np.full(count - 1, RIGHT_ANGLE))

    @property
    def volume(self) -> float:
        """Product of its sides."""
        return float(np.prod(self.high - self.low))


@dataclass(frozen=True, slots=True)
class ShareRule:
    """Nodes of a product of Gauss-Legendre rules, or of such in pieces, the last angle varying fastest.

    Attributes
    ----------
    box : Box
    order : int
        Nodes in each angle.
    angles : (M, K - 1) array
    shares : (M, K) array
    log_weight : (M,) array
        Log of the weights, the density of the prior included: over the whole box they sum to 1.
    """

    box: Box
    order: int
    angles: FloatArray
    shares: FloatArray
    log_weight: FloatArray

    @classmethod
    def of(cls, box: Box, order: int, edges: FloatArray = WHOLE) -> ShareRule:
        """The rule with so many nodes in each piece of an angle, between edges (-1 to 1); one node for one band."""
        x, w = leggauss(order)
        middle, length = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        x, w = (middle[:, None] + np.outer(length, x)).ravel(), np.outer(length, w).ravel()
        half = (box.high - box.low) / 2
        each = [low + h * (x + 1) for low, h in zip(box.low, half, strict=True)]
        angles = grid_of(each)
        weight = grid_of([h * w for h in half]).prod(axis=1)
        return cls(box, x.size, angles, shares_of(angles), np.log(weight) + log_prior(angles))

    @classmethod
    def at(cls, shares: FloatArray) -> ShareRule:
        """Points (M, K) that are no rule, of weight 1."""
        return cls(Box.whole(shares.shape[1]), 0, angles_of(shares), shares, np.zeros(len(shares)))

    def narrowed(self, inside: BoolArray) -> Box:
        """The box between the neighbours of the nodes that are inside (M,)."""
        low, high = self.box.low.copy(), self.box.high.copy()
        shape = (self.order,) * low.size
        for j in range(low.size):
            others = tuple(i for i in range(low.size) if i != j)
            some = np.flatnonzero(inside.reshape(shape).any(axis=others))
            points = np.unique(self.angles[:, j])
            if some[0] > 0:
                low[j] = points[some[0] - 1]
            if some[-1] < self.order - 1:
                high[j] = points[some[-1] + 1]
        return Box(low, high)

    def interpolated(self, other: ShareRule, values: FloatArray, *, in_logs: bool) -> FloatArray:
        """Values of functions between the nodes, at those of another rule.

        Parameters
        ----------
        other : ShareRule
            In the box of this one.
        values : (M, L) array
            At these nodes.
        in_logs : bool
            By cubic splines in the logs of the tangents, in which log densities are smooth near shares of zero; else
            by polynomials in the angles.

        Returns
        -------
        (M', L) array
        """
        out, count = values, values.shape[1]
        for j in range(self.box.low.size):
            here, there = np.unique(self.angles[:, j]), np.unique(other.angles[:, j])
            middle, half = (self.box.low[j] + self.box.high[j]) / 2, (self.box.high[j] - self.box.low[j]) / 2
            if in_logs:
                logs, ends = np.log(np.tan(here)), np.log(np.tan(there))
                one = scipy.interpolate.CubicSpline(logs, np.eye(self.order))(np.clip(ends, logs[0], logs[-1]))
            else:
                to_coefficients = np.linalg.inv(legvander((here - middle) / half, self.order - 1))
                one = legvander((there - middle) / half, self.order - 1) @ to_coefficients
            # One angle after the other: those before it have the points of the other rule, those after it the nodes.
            rest = self.order ** (self.box.low.size - j - 1)
            out = np.matmul(one, out.reshape(-1, here.size, rest * count))
            out = out.reshape(-1, count)
        return np.asarray(out, dtype=np.float64)


def pieces_of(number: int, ratio: float) -> FloatArray:
    """Edges, from -1 to 1, of even pieces, those near the ends divided so that they grow by no more than a ratio."""
    if number == 1:
        return WHOLE
    inner = 1 / (number * (1 - 1 / ratio))
    steps = int(np.ceil(np.log(inner / FIRST) / np.log(ratio)))
    graded = np.concatenate([[0.0], np.geomspace(FIRST, inner, steps)])
    between = np.linspace(inner, 1 - inner, max(int(np.ceil(number * (1 - 2 * inner))), 1) + 1)[1:-1]
    return 2 * np.concatenate([graded, between, 1 - graded[::-1]]) - 1


def grid_of(each: list[FloatArray]) -> FloatArray:
    """All combinations of the values of several coordinates, the last varying fastest, (M, number of coordinates)."""
    if not each:
        return np.zeros((1, 0))
    return np.stack([a.ravel() for a in np.meshgrid(*each, indexing="ij")], axis=1)


def shares_of(angles: FloatArray) -> FloatArray:
    """Shares (M, K) at angles (M, K - 1); they sum to 1."""
    ones = np.ones((angles.shape[0], 1))
    sines = np.hstack([ones, np.cumprod(np.sin(angles) ** 2, axis=1)])
    out: FloatArray = sines * np.hstack([np.cos(angles) ** 2, ones])
    return out


def angles_of(shares: FloatArray) -> FloatArray:
    """The angles (M, K - 1) at which the shares (M, K) are these."""
    rest = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return np.arctan2(np.sqrt(rest), np.sqrt(shares[:, :-1]))


def log_prior(angles: FloatArray) -> FloatArray:
    """Log density of the prior of the shares with respect to the angles, (M,): that of a uniform direction."""
    count = angles.shape[1] + 1
    if count == 1:
        return np.zeros(len(angles))
    power = np.arange(count - 2, -1, -1, dtype=float)
    with np.errstate(divide="ignore"):
        sines = np.where(power > 0, power * np.log(np.sin(angles)), 0.0)
    constant = float(gammaln(count / 2)) + (count - 1) * np.log(2.0) - (count - 1) / 2 * np.log(np.pi)
    out: FloatArray = sines.sum(axis=1) + constant - 0.5 * np.log(np.pi)  # 2^K Gamma(K/2) / (2 pi^(K/2))
    return out


def share_moments(rule: ShareRule, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of the roots of the shares and their standard deviations, (K, q)."""
    root = np.sqrt(rule.shares)
    mean = root.T @ weight
    square = (root**2).T @ weight
    return mean, np.sqrt(np.maximum(square - mean**2, 1e-10 * square))


def posterior_weight(log_terms: FloatArray) -> FloatArray:
    """Posterior weights of nodes with such terms of the integral, (M, q)."""
    out = log_terms.copy()
    log_of_sum(out)
    return out


def log_of_sum(logs: FloatArray) -> FloatArray:
    """Logs of the sums (q,) of numbers with given logs (M, q), which are overwritten with their shares of these."""
    top = logs.max(axis=0)
    logs -= top
    np.exp(logs, out=logs)
    total = logs.sum(axis=0)
    logs /= total
    out: FloatArray = top + np.log(total)
    return out
