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

STRIDE = 1.0
"""Steps in log t2 towards a first value at which the solver does not settle by itself."""

REACH = 3.0
"""Sites are extrapolated over no more than this many times the distance of the two nearest nodes."""


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
        new = self._solved(log_t2)
        if not (new.converged or self.found) and abs(log_t2 - self.prior.log_scale) > STRIDE:
            self._approach(log_t2)
            new = self._solved(log_t2)
            place = bisect_left(self.log_t2, log_t2)
        self.log_t2.insert(place, log_t2)
        self.found.insert(place, new)
        return new

    def _solved(self, log_t2: float) -> Approximation:
        solve = SOLVERS[self.solver]
        return solve(self.space, self.likelihood, log_t2, self._start(log_t2), tol=self.tol, maxiter=self.maxiter)

    def _approach(self, log_t2: float) -> None:
        """Solve on the way from the prior's scale, in steps over which sites can be followed."""
        begin = self.prior.log_scale
        for l in np.linspace(begin, log_t2, max(2, int(np.ceil(abs(log_t2 - begin) / STRIDE)) + 1))[:-1]:
            self.at(float(l))

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
            nearest = nearest[:2]
            gap = REACH * float(np.ptp(where[nearest]))
            log_t2 = float(np.clip(log_t2, where[nearest[0]] - gap, where[nearest[0]] + gap))
        weights = _lagrange(where[nearest], log_t2)
        slack = 2.0 + float(np.ptp(where[nearest])) * REACH
        logs = np.stack([np.log(np.maximum(self.found[i].sites.precision, 1e-300)) for i in nearest])
        slopes = np.stack([_relative_shift(self.found[i].sites) for i in nearest])
        precision = np.exp(np.clip(weights @ logs, logs.min(axis=0) - slack, logs.max(axis=0) + slack))
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
