"""Approximations at several t2, each started from those at its neighbours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.binomial.approximation import Approximation
from pybayesridge.binomial.coordinates import Coordinates
from pybayesridge.binomial.ep import expectation_propagation
from pybayesridge.binomial.gaussian import Sites
from pybayesridge.binomial.laplace import laplace
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.prior import LogPrior

SOLVERS: dict[str, Callable[..., Approximation]] = {"ep": expectation_propagation, "laplace": laplace}

NEIGHBOURS = 4
"""Sites are interpolated between this many neighbours."""

REACH = 3.0
"""Beyond this distance in log t2 from the nearest node its sites are taken as they are."""


@dataclass(slots=True)
class Nodes:
    """Approximations in ascending order of log t2; grows as values are asked for.

    Attributes
    ----------
    space : Coordinates
    likelihood : Binomial
    prior : LogPrior
    solver : {"ep", "laplace"}
    tol, maxiter : float, int
        Of the solver.
    """

    space: Coordinates
    likelihood: Binomial
    prior: LogPrior
    solver: str
    tol: float
    maxiter: int
    log_t2: list[float] = field(default_factory=list)
    found: list[Approximation] = field(default_factory=list)

    def at(self, log_t2: float) -> Approximation:
        """The approximation at `log_t2`."""
        place = bisect_left(self.log_t2, log_t2)
        if place < len(self.log_t2) and self.log_t2[place] == log_t2:
            return self.found[place]
        solve = SOLVERS[self.solver]
        new = solve(self.space, self.likelihood, log_t2, self._start(log_t2), tol=self.tol, maxiter=self.maxiter)
        self.log_t2.insert(place, log_t2)
        self.found.insert(place, new)
        return new

    def log_density(self, log_t2: float) -> float:
        """Unnormalised log posterior density of log t2."""
        return self.at(log_t2).log_evidence + self.prior(log_t2)

    def log_densities(self) -> FloatArray:
        """The same at every node so far."""
        return np.array([node.log_evidence + self.prior(l) for l, node in zip(self.log_t2, self.found, strict=True)])

    def _start(self, log_t2: float) -> Sites | None:
        """Sites interpolated (nearby: extrapolated) from the nearest nodes."""
        if not self.found:
            return None
        where = np.array(self.log_t2)
        nearest = np.argsort(np.abs(where - log_t2))[:NEIGHBOURS]
        inside = where[0] < log_t2 < where[-1]
        if not inside:
            close = np.abs(where[nearest] - where[nearest[0]]) <= REACH
            nearest = nearest[close & (np.abs(log_t2 - where[nearest[0]]) <= REACH)][:2]
            if nearest.size == 0:
                nearest = np.array([int(np.abs(where - log_t2).argmin())])
        weights = _lagrange(where[nearest], log_t2)
        logs = np.stack([np.log(np.maximum(self.found[i].sites.precision, 1e-300)) for i in nearest])
        slopes = np.stack([_relative_shift(self.found[i].sites) for i in nearest])
        precision = np.exp(np.clip(weights @ logs, logs.min(axis=0) - 2.0, logs.max(axis=0) + 2.0))
        return Sites(precision, (weights @ slopes) * np.sqrt(precision))


def _relative_shift(sites: Sites) -> FloatArray:
    out: FloatArray = sites.shift / np.sqrt(np.maximum(sites.precision, 1e-300))
    return out


def _lagrange(points: FloatArray, x: float) -> FloatArray:
    """Weights of the interpolating polynomial's value at `x`."""
    out = np.ones(points.size)
    for i in range(points.size):
        others = np.delete(points, i)
        out[i] = np.prod((x - others) / (points[i] - others))
    return out
