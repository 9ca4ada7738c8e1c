"""t2 and what follows from it: one `BinaryFit` for every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from pybayesridge._types import FloatArray
from pybayesridge.binomial.approximation import Node
from pybayesridge.binomial.coordinates import Coordinates
from pybayesridge.binomial.integrate import find_ends, integrate
from pybayesridge.binomial.leave_one_out import at_node, total_log_score
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.nodes import Nodes
from pybayesridge.binomial.posterior import NEGLIGIBLE, BinaryPosterior, make_posterior, mean_probability
from pybayesridge.binomial.prior import FlatIn, log_prior
from pybayesridge.ridge.prior import BetaPrime

Method = Literal["ep", "laplace", "em", "loocv", "fixed"]

SITE_TOL = 1e-6
"""Accuracy of the approximation at one t2, in posterior standard deviations."""

NO_VARIANCE = -1600.0
"""Log of t2 that stands for 0: the root of t2 underflows."""

LEVEL = 1e-6
"""Differences of the log density that may be errors of the approximation."""

EXISTS = 1e-3
"""A moment exists where the density of t2 falls faster than the moment grows by more than this."""


@dataclass(frozen=True, slots=True)
class BinaryFit:
    """The outcome of one method.

    Attributes
    ----------
    method : {"ep", "laplace", "em", "loocv", "fixed"}
    space : Coordinates
    likelihood : Binomial
    nodes : tuple of K approximations
        One where t2 was chosen or given.
    weight : (K,) array
        Posterior weights of the nodes.
    log_t2 : float
        In the units of the coordinates: the posterior mean where t2 was integrated out, else the value chosen or
        given; -inf for a null model.
    log_evidence : float
        Log of the integral of likelihood times prior, over t2 too where that was integrated out. The binomial
        coefficients are left out, and flat coefficients have Lebesgue measure where each orthonormalised unpenalised
        column has mean square 1.
    error : float
        Estimated error of the integral over t2; 0 for one node.
    fall : float
        The posterior density of log t2 falls as ``exp(-fall log_t2)``; inf for one node.
    separated : bool
        The tail of t2 shows that the columns separate the responses, completely or in part.
    null : bool
        Method "em": the density of t2 has no interior mode; every penalised coefficient is 0.
    at_edge : bool
        Method "loocv": the best score is at an end of the grid.
    grid, grid_scores : (L,) arrays or None
        Method "loocv": log t2 and the leave-one-out log score.
    converged : bool
    n_iter : int
        Sweeps or Newton steps in all.
    """

    method: str
    space: Coordinates
    likelihood: Binomial
    nodes: tuple[Node, ...]
    weight: FloatArray
    log_t2: float
    log_evidence: float
    error: float
    fall: float
    separated: bool
    null: bool
    at_edge: bool
    grid: FloatArray | None
    grid_scores: FloatArray | None
    converged: bool
    n_iter: int

    def fitted(self) -> FloatArray:
        """Posterior mean of each row's probability of success, (n,); needs the rows."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        nodes = [self.nodes[i] for i in keep]
        mean, variance = (np.stack([getattr(node, name) for node in nodes]) for name in ("mean", "variance"))
        out: FloatArray = self.weight[keep] @ mean_probability(mean, variance, self.likelihood.link)
        return out / self.weight[keep].sum()

    def without_rows(self) -> BinaryFit:
        """The same with every array over rows emptied."""
        nodes = tuple(
            n.without_rows(self.space, w > NEGLIGIBLE) for n, w in zip(self.nodes, self.weight, strict=True)
        )
        none = self.likelihood.rows(np.empty(0, dtype=np.intp))
        return replace(self, space=self.space.without_rows(), likelihood=none, nodes=nodes)

    def posterior(self) -> BinaryPosterior:
        """The joint posterior of the coefficients."""
        return make_posterior(
            self.space,
            self.likelihood.link,
            self.nodes,
            self.weight,
            has_mean=not self.separated or self.fall > 0.5 + EXISTS,
            has_variance=not self.separated or self.fall > 1 + EXISTS,
            t2_has_mean=self.fall > 1 + EXISTS,
        )


def fit(
    space: Coordinates,
    likelihood: Binomial,
    *,
    method: Method = "ep",
    prior: BetaPrime,
    flat_in: FlatIn,
    solver: Literal["ep", "laplace"] = "ep",
    parameterization: Literal["tau2", "tau"] = "tau2",
    log_t2: float | None = None,
    grid: FloatArray | None = None,
    tol: float = 1e-6,
    maxiter: int = 200,
) -> BinaryFit:
    """Fit the ridge to yes/no responses.

    Parameters
    ----------
    space : Coordinates
    likelihood : Binomial
    method : {"ep", "laplace", "em", "loocv", "fixed"}
        t2 integrated out over EP's or Laplace's evidence, its mode, the best of `grid`, or `log_t2`.
    prior : BetaPrime
    flat_in : {"link", "latent"}
        Units in which the unpenalised coefficients are flat; see :mod:`pybayesridge.binomial.prior`.
    solver : {"ep", "laplace"}
        For the methods "em", "loocv" and "fixed".
    parameterization : {"tau2", "tau"}
        Method "em": whether the mode is that of the density of t2 or of its root.
    log_t2 : float or None
        Method "fixed", in the units of the coordinates.
    grid : (L,) array or None
        Method "loocv": log t2 likewise.
    tol : float
        Largest estimated error of the integral over t2 that counts as none, or of the mode of log t2.
    maxiter : int
        Most sweeps or Newton steps at one t2.

    Raises
    ------
    ValueError
        If the posterior of t2 is improper.
    """
    own = method if method in ("ep", "laplace") else solver
    nodes = Nodes(space, likelihood, log_prior(prior, space, likelihood.link, flat_in), own, SITE_TOL, maxiter)
    if space.rank == 0:
        return _one(nodes, method, nodes.prior.log_scale)
    if method in ("ep", "laplace"):
        return _integrated(nodes, method, tol)
    if method == "em":
        return _mode(nodes, 1.0 if parameterization == "tau2" else 0.5, tol)
    if method == "loocv":
        assert grid is not None
        return _best(nodes, grid)
    assert log_t2 is not None
    return _one(nodes, method, log_t2)


def _sweeps(nodes: Nodes) -> int:
    return sum(node.n_iter for node in nodes.found)


def _one(
    nodes: Nodes,
    method: str,
    log_t2: float,
    *,
    converged: bool = True,
    null: bool = False,
    at_edge: bool = False,
    grid: FloatArray | None = None,
    scores: FloatArray | None = None,
) -> BinaryFit:
    node = nodes.at(log_t2)
    return BinaryFit(
        method=method,
        space=nodes.space,
        likelihood=nodes.likelihood,
        nodes=(node,),
        weight=np.ones(1),
        log_t2=-np.inf if null else log_t2,
        log_evidence=node.log_evidence,
        error=0.0,
        fall=np.inf,
        separated=False,
        null=null,
        at_edge=at_edge,
        grid=grid,
        grid_scores=scores,
        converged=converged and node.converged,
        n_iter=_sweeps(nodes),
    )


def _integrated(nodes: Nodes, method: str, tol: float) -> BinaryFit:
    found = integrate(nodes, tol=tol, maxiter=5)
    # Without separation the evidence falls as t2^(-r/2); each separated dimension takes a half off.
    expected = nodes.prior.fall + 0.5 * nodes.space.rank
    slow = found.fall < min(expected, 2.0 + nodes.prior.fall) - 0.25
    return BinaryFit(
        method=method,
        space=nodes.space,
        likelihood=nodes.likelihood,
        nodes=found.nodes,
        weight=found.weight,
        log_t2=float(found.weight @ found.log_t2),
        log_evidence=found.log_integral,
        error=found.error,
        fall=found.fall,
        separated=slow,
        null=False,
        at_edge=False,
        grid=None,
        grid_scores=None,
        converged=found.converged,
        n_iter=_sweeps(nodes),
    )


def _mode(nodes: Nodes, power: float, tol: float) -> BinaryFit:
    """The highest interior mode of the density of t2 (`power` 1) or of its root (1/2)."""

    def height(log_t2: float) -> float:
        return nodes.log_density(log_t2) - power * log_t2

    find_ends(nodes)
    where = np.array(nodes.log_t2)
    value = nodes.log_densities() - power * where
    # Towards t2 = 0 the density of the root of t2 can be level to the last digits.
    rise = value - np.minimum.accumulate(value) > LEVEL
    peaks = np.flatnonzero((value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:]) & rise[1:-1]) + 1
    if peaks.size == 0:
        return _one(nodes, "em", nodes.prior.log_scale + NO_VARIANCE, null=True)
    top = int(peaks[np.argmax(value[peaks])])
    refined = _refine(height, where[top - 1], where[top + 1], tol)
    return _one(nodes, "em", refined[0], converged=refined[1])


def _refine(height: Callable[[float], float], low: float, high: float, tol: float) -> tuple[float, bool]:
    found = scipy.optimize.minimize_scalar(
        lambda l: -height(l), bounds=(low, high), method="bounded", options={"xatol": tol}
    )
    return float(found.x), bool(found.success)


def _best(nodes: Nodes, grid: FloatArray) -> BinaryFit:
    """The point of the grid with the best leave-one-out log score."""
    order = np.argsort(grid)
    scores = np.empty(grid.size)
    for i in order:
        predictions = at_node(nodes.likelihood, nodes.at(float(grid[i])))
        scores[i] = total_log_score(nodes.likelihood, predictions)
    best = int(scores.argmax())
    converged = all(node.converged for node in nodes.found)
    return _one(
        nodes,
        "loocv",
        float(grid[best]),
        converged=converged,
        at_edge=best in (int(order[0]), int(order[-1])),
        grid=grid,
        scores=scores,
    )
