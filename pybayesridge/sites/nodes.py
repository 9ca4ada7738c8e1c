"""Approximations at several t2, each started from those at its neighbours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.coordinates import Coordinates
from pybayesridge.sites.ep import expanded, expectation_propagation
from pybayesridge.sites.laplace import ABSOLUTE, laplace
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.prior import LogPrior

NEIGHBOURS = 12
"""Sites are interpolated between at most this many neighbours."""

SMOOTH, FINEST = 3.0, 1e-7
"""Distance in log t2 over which sites change, and the least error that they are taken to have; the largest is 1."""

STRIDE = 1.0
"""Steps in log t2 towards a first value at which the solver does not settle by itself."""

REACH = 3.0
"""Sites are extrapolated over no more than this many times the distance of the two nearest nodes."""

SAME = 1e-9
"""Values of log t2 that are one."""

ENOUGH, OF_NEAR = 6, 0.1
"""With so many nodes of their own others need none of another shape, and the least error that those are taken to
have."""

ACROSS, MOST_ACROSS, APART = 3, 8.0, 0.5
"""At most so many values of the further parameter are extrapolated from, and no more than let their errors grow by
this; they lie this far apart at the least, relative to the distance of the nearest."""

ASTRAY = 100.0
"""Change by another sweep, in posterior standard deviations, from which sweeps were led astray, and begin again from
the mode: the evidence may be anything there."""

LAPLACE, OF_SHAPES = 0.003, 0.3
"""Accuracy of Laplace's mode relative to that of EP's moments, and where values of a further parameter are mixed: the
evidence is right to second order, but the curvature only to first."""


@dataclass(slots=True)
class Nodes:
    """Approximations in ascending order of log t2; grows as values are asked for.

    Attributes
    ----------
    space : Coordinates
    likelihood : Likelihood
    prior : LogPrior
    solver : {"ep", "laplace"}
    tol, maxiter : float, int
        Of the solver.
    near : tuple of Nodes
        Of other values of the likelihood's further parameter, the nearest first, from which these start.
    first : array or None
        What the first of all starts from.
    """

    space: Coordinates
    likelihood: Likelihood
    prior: LogPrior
    solver: str
    tol: float
    maxiter: int
    log_t2: list[float] = field(default_factory=list)
    found: list[Approximation] = field(default_factory=list)
    near: tuple[Nodes, ...] = ()
    first: AnyArray | None = None

    def at(self, log_t2: float, tol: float | None = None) -> Approximation:
        """The approximation at `log_t2`, solved to `tol` at least, by default to that of all."""
        tol = self.tol if tol is None else tol
        place = bisect_left(self.log_t2, log_t2)
        there = place < len(self.log_t2) and self.log_t2[place] == log_t2
        if there and self.found[place].change <= tol and self.found[place].has_rows:
            return self.found[place]
        new = self._solved(log_t2, tol)
        if not (new.converged or self.found) and abs(log_t2 - self.prior.log_scale) > STRIDE:
            self._approach(log_t2)
            new = self._solved(log_t2, tol)
            place = bisect_left(self.log_t2, log_t2)
        if self.solver == "ep" and not new.converged and new.change > ASTRAY:
            again = self._solved(log_t2, tol, from_mode=True)
            new = again if again.change < new.change else new
        if there:
            self.found[place] = new
        else:
            self.log_t2.insert(place, log_t2)
            self.found.insert(place, new)
        return new

    def _solved(self, log_t2: float, tol: float, *, from_mode: bool = False) -> Approximation:
        of, most = (self.space, self.likelihood, log_t2), self.maxiter
        first = None if from_mode else self.start(log_t2)
        if self.solver == "laplace":
            share = LAPLACE if np.isnan(self.likelihood.log_shape) else OF_SHAPES
            absolute = ABSOLUTE * LAPLACE / share
            out = laplace(*of, first, tol=share * tol, maxiter=most, absolute=absolute)
        else:
            sites = None if first is None else expanded(first, self.likelihood.signed_unit)
            out = expectation_propagation(*of, sites, tol=tol, maxiter=most)
        return replace(out, log_shape=self.likelihood.log_shape, form=self.likelihood.form)

    def starting(self, node: Approximation) -> AnyArray:
        """What others start from."""
        out = node.center if self.solver == "laplace" else node.start
        assert out is not None
        return out

    def start(self, log_t2: float) -> AnyArray | None:
        """What to start from: that of other values of the further parameter, and by how much own nodes differ."""
        donors = self._donors(log_t2)
        own = [i for i, l in enumerate(self.log_t2) if all(nodes.same(l) for _, nodes in donors)]
        most = max(self.near, key=lambda nodes: len(nodes.found), default=self)
        reference: Callable[[float], AnyArray]
        if donors:
            reference = partial(_mixed, donors)
        elif own and len(own) < min(len(most.found), ENOUGH):
            reference = most.between
        else:
            return self.between(log_t2) if self._known()[1] else self.first
        out = reference(log_t2)
        if own:
            where, error = (
                np.array([each[i] for i in own]) for each in (self.log_t2, [n.change for n in self.found])
            )
            for i, weight in zip(*_neighbours(where, error, log_t2), strict=True):
                out = out + weight * (self.starting(self.found[own[i]]) - reference(float(where[i])))
        return out

    def _donors(self, log_t2: float) -> list[tuple[float, Nodes]]:
        """Nodes of other values of the further parameter with one at the same t2, and weights that extrapolate."""
        there: list[Nodes] = []
        for nodes in self.near:
            apart = [abs(nodes.likelihood.log_shape - other.likelihood.log_shape) for other in there]
            far = abs(self.likelihood.log_shape - there[0].likelihood.log_shape) if there else 0.0
            if len(there) < ACROSS and min(apart, default=np.inf) >= APART * far and nodes.same(log_t2):
                there.append(nodes)
        if not there:
            return []
        where = np.array([nodes.likelihood.log_shape for nodes in there])
        for few in range(len(there), 0, -1):
            weights = _lagrange(where[:few], self.likelihood.log_shape)
            if np.abs(weights).sum() <= MOST_ACROSS:
                break
        return list(zip(weights.tolist(), there, strict=False))

    def same(self, log_t2: float) -> list[int]:
        """The position of the node at a value of log t2, if there is one."""
        place = bisect_left(self.log_t2, log_t2 - SAME)
        there = place < len(self.log_t2) and abs(self.log_t2[place] - log_t2) <= SAME
        return [place] if there else []

    def _known(self) -> tuple[FloatArray, list[Approximation], FloatArray]:
        """Places, approximations there, and their errors: of these nodes, and of those near while these are few."""
        where, found = self.log_t2, self.found
        error = [node.change for node in found]
        if self.near and len(found) < ENOUGH:
            where, found = where + self.near[0].log_t2, found + self.near[0].found
            error += [max(node.change, OF_NEAR) for node in self.near[0].found]
        return np.array(where), found, np.array(error)

    def _approach(self, log_t2: float) -> None:
        """Solve on the way from the prior's scale, in steps over which sites can be followed."""
        begin = self.prior.log_scale
        for l in np.linspace(begin, log_t2, max(2, int(np.ceil(abs(log_t2 - begin) / STRIDE)) + 1))[:-1]:
            self.at(float(l))

    def log_density(self, log_t2: float, tol: float | None = None) -> float:
        """Unnormalised log posterior density of log t2."""
        return self.at(log_t2, tol).log_evidence + self.prior(log_t2)

    def slope(self, log_t2: float) -> float:
        """Its derivative at a node."""
        return self.found[bisect_left(self.log_t2, log_t2)].slope + self.prior.slope(log_t2)

    def strip(self) -> None:
        """Keep of the approximations so far what others start from, and their evidence."""
        self.found = [node.stripped() for node in self.found]

    def log_densities(self) -> FloatArray:
        """The log density at every node so far."""
        return np.array([node.log_evidence + self.prior(l) for l, node in zip(self.log_t2, self.found, strict=True)])

    def between(self, log_t2: float) -> AnyArray:
        """What others start from, interpolated (nearby: extrapolated) between the nearest nodes."""
        where, found, error = self._known()
        nearest, weights = _neighbours(where, error, log_t2)
        starts = [self.starting(found[i]) for i in nearest]
        out = np.zeros(starts[0].shape)
        for start, weight in zip(starts, weights.tolist(), strict=True):
            out += weight * start
        if self.solver == "ep":
            slack = 2.0 + float(np.ptp(where[nearest])) * REACH
            lowest, highest = (each.reduce([start[0] for start in starts]) for each in (np.minimum, np.maximum))
            np.clip(out[0], lowest - slack, highest + slack, out=out[0])
        return out


def _mixed(donors: list[tuple[float, Nodes]], log_t2: float) -> AnyArray:
    """The mixture of what nodes of several values of the further parameter give at one t2."""
    starts = (nodes.starting(nodes.found[nodes.same(log_t2)[0]]) for _, nodes in donors)
    return np.sum([weight * start for (weight, _), start in zip(donors, starts, strict=True)], axis=0)


def _neighbours(where: FloatArray, error: FloatArray, log_t2: float) -> tuple[IntArray, FloatArray]:
    """The nearest of some nodes, and their weights in the value at `log_t2`."""
    nearest = np.argsort(np.abs(where - log_t2), kind="stable")
    if where.min() < log_t2 < where.max():
        nearest = nearest[:NEIGHBOURS]
        return nearest, _smoothed(where[nearest] - log_t2, error[nearest])
    if np.abs(where[nearest[0]] - log_t2) <= SAME:
        return nearest[:1], np.ones(1)
    different = nearest[np.abs(where[nearest] - where[nearest[0]]) > SAME]
    nearest = np.append(nearest[:1], different[:1])
    gap = REACH * float(np.ptp(where[nearest]))
    log_t2 = float(np.clip(log_t2, where[nearest[0]] - gap, where[nearest[0]] + gap))
    return nearest, _lagrange(where[nearest], log_t2)


def _smoothed(away: FloatArray, error: FloatArray) -> FloatArray:
    """Weights of nodes, so far `away`, in the value at 0 of a smooth function which each knows up to an `error`.

    The best linear prediction of a straight line plus a Gaussian process (kriging): nodes of little accuracy, which
    the search for the ends leaves, hardly count beside better ones.
    """
    k = away.size
    out = np.zeros((k + 2, k + 2))
    out[:k, :k] = np.exp(-0.5 * (np.subtract.outer(away, away) / SMOOTH) ** 2)
    out[np.arange(k), np.arange(k)] += np.clip(error, FINEST, 1.0) ** 2
    out[:k, k] = out[k, :k] = 1.0
    out[:k, k + 1] = out[k + 1, :k] = away
    right = np.concatenate([np.exp(-0.5 * (away / SMOOTH) ** 2), [1.0, 0.0]])
    weights: FloatArray = np.linalg.solve(out, right)[:k]
    return weights


def _lagrange(points: FloatArray, x: float) -> FloatArray:
    """Weights of the interpolating polynomial's value at `x`."""
    out = np.ones(points.size)
    for i in range(points.size):
        others = np.delete(points, i)
        out[i] = np.prod((x - others) / (points[i] - others))
    return out
