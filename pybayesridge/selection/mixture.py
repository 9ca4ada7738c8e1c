"""Quantiles of mixtures of t or normal distributions with common degrees of freedom, one mixture for each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from pybayesridge._types import FloatArray, IntArray

REACH = 40.0
"""The table of a distribution function covers standard values up to here in absolute value."""

STEP = 0.005
"""Distance of the table's nodes: cubic interpolation between them is accurate to 1e-11."""

FEW = 256
"""Components of the smaller mixture from whose quantile the search begins."""

SMALL_STEP = 1e-11
"""A Newton step below this multiple of the largest scale ends the search."""

MAXITER = 200
"""Most Newton or bisection steps; bisections alone need about 60."""


@dataclass(frozen=True, slots=True)
class Law:
    """The standard t distribution, or with infinitely many degrees of freedom the normal one.

    Attributes
    ----------
    nu : float
    below, density : (k,) arrays or None
        Distribution function and density times `STEP` at the nodes of a table; None for the normal distribution.
    """

    nu: float
    below: FloatArray | None
    density: FloatArray | None

    def quantile(self, probability: float) -> float:
        """Quantile of the law."""
        return float(ndtri(probability) if self.below is None else stdtrit(self.nu, probability))

    def both(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function and, to a relative error of about `STEP` squared, density."""
        if self.below is None or self.density is None:
            return ndtr(x), np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        place = (np.clip(x, -REACH, REACH) + REACH) / STEP
        node = np.minimum(place.astype(np.int32), self.below.size - 2)
        s = place - node
        f0, f1 = self.below[node], self.below[node + 1]
        d0, d1 = self.density[node], self.density[node + 1]
        rise = f1 - f0
        value = f0 + s * (d0 + s * (3.0 * rise - 2.0 * d0 - d1 + s * (d0 + d1 - 2.0 * rise)))
        slope = (d0 + s * (d1 - d0)) / STEP
        far = np.abs(x) > REACH
        if far.any():
            value[far] = stdtr(self.nu, x[far])
            slope[far] = _density(self.nu, x[far])
        return value, slope


def _density(nu: float, x: FloatArray) -> FloatArray:
    log_norm = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
    return np.exp(log_norm - 0.5 * (nu + 1.0) * np.log1p(x * x / nu))


@lru_cache(maxsize=8)
def law_of(nu: float) -> Law:
    """The law with `nu` degrees of freedom, and its table."""
    if np.isinf(nu):
        return Law(nu, None, None)
    nodes = np.linspace(-REACH, REACH, round(2 * REACH / STEP) + 1)
    return Law(nu, stdtr(nu, nodes), STEP * _density(nu, nodes))


@dataclass(frozen=True, slots=True)
class Mixture:
    """For each of m rows a mixture of S components: t distributions, and point masses at 0 where the scale is 0.

    Attributes
    ----------
    weight : (S,) array
        Sums to 1.
    center, scale : (S, m) arrays
        Finite.
    law : Law
    """

    weight: FloatArray
    center: FloatArray
    scale: FloatArray
    law: Law

    def quantile(self, probability: float) -> FloatArray:
        """Quantile of each row, (m,), at a probability between 0 and 1; exactly 0 where a point mass has it."""
        out = np.zeros(self.center.shape[1])
        spike = self.weight @ (self.scale <= 0.0)
        rows = np.arange(out.size)
        if spike.any():
            below = self.below(out)
            rows = np.flatnonzero((below >= probability) | (below + spike < probability))
        if rows.size:
            some = self._of_rows(rows)
            out[rows] = some.search(probability, some.start(probability))
        return out

    def below(self, x: FloatArray) -> FloatArray:
        """Probability of each row below x (m,), without point masses."""
        return self._smooth(x)[0]

    def _of_rows(self, rows: IntArray) -> Mixture:
        return (
            self
            if rows.size == self.center.shape[1]
            else replace(self, center=self.center[:, rows], scale=self.scale[:, rows])
        )

    def start(self, probability: float) -> FloatArray:
        """The quantile of the heaviest components; if these are all, that of a normal distribution."""
        if self.weight.size > 2 * FEW:
            heaviest = np.argsort(-self.weight, kind="stable")[:FEW]
            weight = self.weight[heaviest] / self.weight[heaviest].sum()
            few = Mixture(weight, self.center[heaviest], self.scale[heaviest], self.law)
            return few.search(probability, few.start(probability))
        mean = self.weight @ self.center
        var = self.weight @ (self.scale**2 + (self.center - mean) ** 2)
        return mean + np.sqrt(var) * ndtri(probability)

    def _smooth(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distribution function without the point masses, and density, of each row at x (m,)."""
        point = self.scale <= 0.0
        if not point.any():
            below, density = self.law.both((x - self.center) / self.scale)
            return self.weight @ below, self.weight @ (density / self.scale)
        safe = np.where(point, 1.0, self.scale)
        below, density = self.law.both((x - self.center) / safe)
        return self.weight @ np.where(point, 0.0, below), self.weight @ np.where(point, 0.0, density / safe)

    def search(self, probability: float, first: FloatArray) -> FloatArray:
        """Newton's method in a bracket that shrinks, with bisections where a step would leave it."""
        ends = self.center + self.scale * self.law.quantile(probability)
        low, high = ends.min(axis=0), ends.max(axis=0)
        enough = SMALL_STEP * (self.scale.max(axis=0) + np.abs(self.center).max(axis=0))
        spike = self.weight @ (self.scale <= 0.0)
        x, left, mixture = np.clip(first, low, high), np.arange(first.size), self
        for step in range(MAXITER):
            at = x[left]
            below, density = mixture._smooth(at)
            below = below + np.where(at >= 0.0, spike[left], 0.0)
            reached = below >= probability
            high[left], low[left] = np.where(reached, at, high[left]), np.where(reached, low[left], at)
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = at - (below - probability) / density
            inside = (newton >= low[left]) & (newton <= high[left]) & (step % 8 != 7)
            x[left] = np.where(inside, newton, 0.5 * (low[left] + high[left]))
            narrow = high[left] - low[left] <= enough[left]
            going = ~(narrow | (inside & (np.abs(newton - at) <= enough[left])))
            left = left[going]
            if left.size == 0:
                break
            if not going.all():
                mixture = self._of_rows(left)
        return x
