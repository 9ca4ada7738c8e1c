"""Interpolation over the shares of the bands by polynomials, at few nodes.

Log densities are analytic in the shares, also where a share vanishes: a polynomial of low total degree in them is
accurate for all but narrow densities. Its nodes are a discrete Leja sequence (Bos, De Marchi, Sommariva & Vianello
2010): those for one degree are the first of those for any larger one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.linalg import lu_factor, solve_triangular

from pybayesridge._types import FloatArray
from pybayesridge.bands.shares import Box, ShareRule

CANDIDATES = {2: 200, 3: 36}
"""Points on an edge of the lattice from which nodes are chosen, by the number of bands."""

LARGEST = {2: 32, 3: 18}
"""Largest degree."""

GOLDEN = 0.6180339887498949

APART = 1e-6
"""Relative differences of points that are alike by symmetry: rounding errors do not choose among them."""

EDGES = (1e-6, 1e-4)
"""Shares at which densities beside the edges are looked at: one that stands for none, one between it and nodes."""

STEPS = 500
"""Of the projection onto weights that are not negative."""

DAMPED = 0.5
"""A moment of a higher degree counts by this factor less."""


@dataclass(frozen=True, slots=True)
class PolynomialRule:
    """Nodes at which a polynomial of the shares is determined.

    Attributes
    ----------
    degree : int
    shares : (M, K) array
    """

    degree: int
    shares: FloatArray

    @classmethod
    def of(cls, count: int, degree: int) -> PolynomialRule:
        """The nodes for `count` bands."""
        return cls(degree, _nodes(count)[: _terms(count, degree)])

    @property
    def order(self) -> int:
        """Nodes in one direction."""
        return self.degree + 1

    @property
    def box(self) -> Box:
        """All shares."""
        return Box.whole(self.shares.shape[1])

    def lower(self, degree: int) -> PolynomialRule:
        """The rule of a lower degree, whose nodes are the first of these."""
        return PolynomialRule(degree, self.shares[: _terms(self.shares.shape[1], degree)])

    def interpolation(self, other: ShareRule, *, in_logs: bool = False) -> FloatArray:
        """The matrix (M', M) from values at these nodes to values at those of another rule: by polynomials only."""
        if in_logs:
            raise ValueError("polynomials are those of the shares, not of their logs")
        return self.between(other.shares)

    def between(self, shares: FloatArray) -> FloatArray:
        """The matrix (M', M) from values at these nodes to values at shares (M', K)."""
        found = np.linalg.solve(_basis(self.shares, self.degree).T, _basis(shares, self.degree).T)
        return np.asarray(found.T, dtype=np.float64)

    @property
    def margin(self) -> float:
        """A share below which polynomials of the degree do not vary."""
        return float(np.sin(np.pi / (4 * self.order)) ** 2)

    def nonnegative(self, weight: FloatArray) -> FloatArray:
        """Weights (M, q) that are not negative and whose moments are nearest to those of others, (M, q).

        Of moments of the shares up to the degree of the rule, lower ones counting more.
        """
        degrees = np.array([sum(power) for power in _powers(self.shares.shape[1], self.degree)])
        features = _basis(self.shares, self.degree).T * (DAMPED ** np.maximum(degrees - 1, 0))[:, None]
        normal = features.T @ features
        step, aim = 1.0 / float(np.linalg.eigvalsh(normal)[-1]), normal @ weight
        found = np.maximum(weight, 0.0)
        found /= found.sum(axis=0)
        ahead, momentum = found, 1.0
        for _ in range(STEPS):  # an accelerated projected gradient
            new = np.maximum(ahead - step * (normal @ ahead - aim), 0.0)
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + (momentum - 1) / following * (new - found)
            found, momentum = new, following
        return found / found.sum(axis=0)


def edges(count: int, share: float) -> FloatArray:
    """Points (E, K) where shares are as small as one: corners, and the middles between each two of them.

    What polynomials do not see of a log density changes within a margin along the edges.
    """
    sets = [which for size in range(1, min(count, 3)) for which in itertools.combinations(range(count), size)]
    out = np.full((len(sets), count), share)
    for row, which in zip(out, sets, strict=True):
        row[list(which)] = 1.0
    return out / out.sum(axis=1, keepdims=True)


def _terms(count: int, degree: int) -> int:
    return comb(degree + count - 1, count - 1)


def _powers(count: int, degree: int) -> list[tuple[int, ...]]:
    """Powers of all but the last share in a basis, in order of their sum."""
    each = itertools.product(range(degree + 1), repeat=count - 1)
    return sorted((power for power in each if sum(power) <= degree), key=lambda power: (sum(power), power))


def _basis(shares: FloatArray, degree: int) -> FloatArray:
    """Products of Chebyshev polynomials of all but the last share, at shares (M, K), in order of their degrees."""
    count = shares.shape[1]
    each = [chebvander(2 * shares[:, k] - 1, degree) for k in range(count - 1)]
    columns = [
        np.prod([one[:, j] for one, j in zip(each, power, strict=True)], axis=0) for power in _powers(count, degree)
    ]
    return np.stack(columns, axis=1)


@cache
def _nodes(count: int) -> FloatArray:
    """The nodes of all degrees in turn, inside the simplex: by row exchanges of an LU factorisation."""
    size, degree = CANDIDATES[count], LARGEST[count]
    steps = np.array([i for i in itertools.product(range(size), repeat=count - 1) if sum(i) < size], dtype=float)
    steps = np.column_stack([steps, size - 1 - steps.sum(axis=1)])
    root = np.sin(np.pi / 2 * (steps + 1 / count) / size) ** 2
    shares = root / root.sum(axis=1, keepdims=True)
    likes = 1 - APART * ((GOLDEN * np.arange(len(shares))) % 1.0)
    basis = _basis(shares, degree) * likes[:, None]
    # In a basis that is orthonormal on the candidates, of the same flag of spaces.
    upper = np.linalg.qr(basis, mode="r")
    _, exchanges = lu_factor(solve_triangular(upper, basis.T, trans="T").T)
    order = np.arange(len(shares))
    for i, j in enumerate(exchanges):
        order[[i, j]] = order[[j, i]]
    return shares[order[: basis.shape[1]]]
