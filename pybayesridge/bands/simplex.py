"""Interpolation over the shares of the bands by polynomials, at few nodes.

Log densities are analytic in the shares, also where a share vanishes: a polynomial of low total degree in them is
accurate for all but narrow densities. Its nodes are a discrete Leja sequence (Bos, De Marchi, Sommariva & Vianello
2010): those for one degree are the first of those for any larger one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from math import comb

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.linalg import lu_factor, solve_triangular

from pybayesridge._types import FloatArray
from pybayesridge.bands.shares import WHOLE, Box, ShareRule, angles_of

CANDIDATES = {2: 200, 3: 36}
"""Points on an edge of the lattice from which nodes are chosen, by the number of bands."""

LARGEST = {2: 32, 3: 18}
"""Largest degree."""

GOLDEN = 0.6180339887498949

APART = 1e-6
"""Relative differences of points that are alike by symmetry: rounding errors do not choose among them."""

INSIDE = 0.9
"""Points inside count so much less than those on the border, where rotations take less time."""

EDGES = (1e-6, 1e-4)
"""Shares at which densities beside the edges are looked at: one that stands for none, one between it and nodes."""

STEPS = 500
"""Of the projection onto weights that are not negative."""

ROUNDING = 1e-12
"""Points that are so little outside a part are on its border."""

LEAST_WEIGHT = 1e-12
"""Of a node, where the projection begins."""

DAMPED = 0.5
"""A moment of a higher degree counts by this factor less."""


@dataclass(frozen=True, slots=True)
class PolynomialRule:
    """Nodes at which a polynomial of the shares is determined, of all shares or of those above some numbers.

    Attributes
    ----------
    degree : int
    shares : (M, K) array
    part : (K,) array or None
        Least shares of the part, a smaller simplex; None for all shares.
    """

    degree: int
    shares: FloatArray
    part: FloatArray | None = None

    @classmethod
    def of(cls, degree: int, low: FloatArray, *, closed: bool = False) -> PolynomialRule:
        """The nodes of the part above `low` (K,), which is zero for all shares.

        Of a `closed` rule some are on its border, where shares stand for none; else all are inside.
        """
        unit = _nodes(low.size, closed)[: terms_of(low.size, degree)]
        return cls(degree, low + (1 - low.sum()) * unit, low)

    @property
    def order(self) -> int:
        """Nodes in one direction."""
        return self.degree + 1

    @property
    def low(self) -> FloatArray:
        """Least shares, (K,)."""
        return np.zeros(self.shares.shape[1]) if self.part is None else self.part

    @property
    def size(self) -> float:
        """Of the part, relative to all shares."""
        return float(1 - self.low.sum())

    @property
    def box(self) -> Box:
        """Angles between which the part is: ratios of shares are extreme at its corners."""
        corners = self.low + self.size * np.eye(self.low.size)
        angles = angles_of(corners)
        # A corner where both sides of a ratio vanish says nothing of it.
        angles[np.cumsum(corners[:, ::-1], axis=1)[:, ::-1][:, :-1] == 0] = np.nan
        return Box(np.nanmin(angles, axis=0), np.nanmax(angles, axis=0))

    def local(self, shares: FloatArray) -> FloatArray:
        """Coordinates (M, K) of shares in the part: they sum to 1, and are negative outside."""
        out: FloatArray = (shares - self.low) / self.size
        return out

    def points(self, order: int, pieces: FloatArray = WHOLE) -> ShareRule:
        """The product rule of so many points in each piece of an angle, but for those outside the part."""
        rule = ShareRule.of(self.box, order, pieces)
        inside = (self.local(rule.shares) >= -ROUNDING).all(axis=1)
        if inside.all():
            return rule
        return replace(
            rule, angles=rule.angles[inside], shares=rule.shares[inside], log_weight=rule.log_weight[inside]
        )

    def lower(self, degree: int) -> PolynomialRule:
        """The rule of a lower degree, whose nodes are the first of these."""
        return replace(self, degree=degree, shares=self.shares[: terms_of(self.low.size, degree)])

    def between(self, shares: FloatArray) -> FloatArray:
        """The matrix (M', M) from values at these nodes to values at shares (M', K)."""
        return np.asarray(np.linalg.solve(self._basis(self.shares).T, self._basis(shares).T).T, dtype=np.float64)

    def _basis(self, shares: FloatArray) -> FloatArray:
        return _basis(self.local(shares), self.degree)

    @property
    def margin(self) -> float:
        """A share below which polynomials of the degree do not vary."""
        return self.size * float(np.sin(np.pi / (4 * self.order)) ** 2)

    def nonnegative(self, weight: FloatArray, shares: FloatArray) -> FloatArray:
        """Weights (M, q) that are not negative, and whose moments are nearest to those of others (M', q), M' >= M.

        Of moments of the shares up to the degree of the rule, lower ones counting more. The others are at `shares`
        (M', K), of which the first are those of the rule.
        """
        degrees = np.array([sum(power) for power in _powers(self.shares.shape[1], self.degree)])
        every = self._basis(shares).T * (DAMPED ** np.maximum(degrees - 1, 0))[:, None]
        features = every[:, : len(self.shares)]
        normal = features.T @ features
        step, aim = 1.0 / float(np.linalg.eigvalsh(normal)[-1]), features.T @ (every @ weight)
        found = np.maximum(weight[: len(self.shares)], LEAST_WEIGHT)
        found /= found.sum(axis=0)
        ahead, momentum = found, 1.0
        for _ in range(STEPS):  # an accelerated projected gradient
            new = np.maximum(ahead - step * (normal @ ahead - aim), 0.0)
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + (momentum - 1) / following * (new - found)
            found, momentum = new, following
        return found / found.sum(axis=0)


def edges(low: FloatArray, share: float) -> FloatArray:
    """Points (E, K) of a part where shares are as small as one: corners, and the middles between each two of them.

    What polynomials do not see of a log density changes within a margin along the edges of all shares.
    """
    count = low.size
    sets = [
        which
        for size in range(1, min(count, 3))
        for which in itertools.combinations(range(count), size)
        if set(which) >= set(np.flatnonzero(low > 0).tolist())
    ]
    out = np.full((len(sets), count), share)
    for row, which in zip(out, sets, strict=True):
        chosen = list(which)
        row[chosen] = low[chosen] + (1 - low.sum() - share * (count - len(chosen))) / len(chosen)
    return out


def corners(count: int, size: float) -> FloatArray:
    """Least shares (C, K) of parts of a size that overlap by half of it and cover all shares, for 1 / size whole."""
    steps = round(2 * (1 / size - 1))
    each = [i for i in itertools.product(range(steps + 1), repeat=count) if sum(i) == steps]
    return np.array(each, dtype=float) * size / 2


def terms_of(count: int, degree: int) -> int:
    """Number of nodes of a rule for `count` bands."""
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
def _nodes(count: int, closed: bool) -> FloatArray:
    """The nodes of all degrees in turn: by row exchanges of an LU factorisation.

    They are inside the simplex or, if it is `closed`, also on its border: there shares are those that stand for none.
    """
    size, degree = CANDIDATES[count], LARGEST[count]
    steps = np.array([i for i in itertools.product(range(size), repeat=count - 1) if sum(i) < size], dtype=float)
    steps = np.column_stack([steps, size - 1 - steps.sum(axis=1)])
    beside = 0 if closed else 1 / count
    root = np.sin(np.pi / 2 * (steps + beside) / (size - 1 + count * beside)) ** 2
    shares = root / root.sum(axis=1, keepdims=True)
    if closed:
        shares = EDGES[0] + (1 - count * EDGES[0]) * shares
    likes = 1 - APART * ((GOLDEN * np.arange(len(shares))) % 1.0)
    if closed:
        likes[(shares > EDGES[0]).all(axis=1)] *= INSIDE
    basis = _basis(shares, degree) * likes[:, None]
    # In a basis that is orthonormal on the candidates, of the same flag of spaces.
    upper = np.linalg.qr(basis, mode="r")
    _, exchanges = lu_factor(solve_triangular(upper, basis.T, trans="T").T)
    order = np.arange(len(shares))
    for i, j in enumerate(exchanges):
        order[[i, j]] = order[[j, i]]
    return shares[order[: basis.shape[1]]]
