"""t2 found or integrated out, by the methods of the table: the way in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import scipy
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.linalg.blas import one_pool
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.coordinates import Coordinates, Space
from pybayesridge.sites.ep import compact, expectation_propagation
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.integrate import PenaltyQuadrature, Plan, find_ends, integrate, planned
from pybayesridge.sites.laplace import mode, sites_at
from pybayesridge.sites.leave_one_out import total_log_score
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.nodes import Nodes
from pybayesridge.sites.posterior import NEGLIGIBLE
from pybayesridge.sites.prior import FlatIn, log_prior
from pybayesridge.sites.result import SitesFit
from pybayesridge.sites.shape import CLOSE, FormGrid, ShapeGrid, ShapePrior, integrate_shape, top_of

Solver = Literal["ep", "laplace"]

APPROXIMATION = {"ep": "by expectation propagation", "laplace": "by Laplace's approximation"}
"""Solvers in words."""

SITE_TOL = 3e-5
"""Accuracy of the approximation at one t2, in posterior standard deviations: EP itself is less accurate by far."""

SITE_TOL_OF_MIXED = 2e-3
"""The same where values of a further parameter are mixed."""

BEYOND = 2.0
"""A log density is taken to fall by no more than this from one value to the next."""

MORE = 2.0
"""Log of a factor by which the integral whose rule the others follow is taken to count more."""

DOUBLINGS, OF_SEVERAL_TOPS = 5, 2
"""Most doublings of the nodes of an integral over t2, and where Laplace's evidence may jump between tops."""

NO_VARIANCE = -1600.0
"""Log of t2 that stands for 0: the root of t2 underflows."""

LEVEL = 1e-6
"""Differences of the log density that may be errors of the approximation."""

POWERS = {"tau2": 1.0, "tau": 0.5}
"""Powers of t2 of which a density is taken."""

PASSES = 4
"""Most fits by which the most probable value of a further parameter of the likelihood is located."""

ROUGH = 0.05
"""Accuracy of the approximations that locate it."""

FEW = 0.1
"""Coefficients, relative to the rows, up to which residuals say what the parameter is."""

APART = 0.05
"""Step for its curvature there."""

FAR = 1.0
"""Where the most probable value is so far from that for which the penalty was located, both are located again."""

OF_MIXED = 4e-3
"""Least tolerance of the integral over the penalty where values of a further parameter are mixed, which is less
accurate."""

REFINED = 1e-6
"""Nodes of smaller weight are not refined by EP where that starts from Laplace's approximation."""

MOST_LOST = 1e-2
"""Weight of nodes at which EP may fail, so that Laplace's approximation stays, in a fit that has converged: its means
are off by some tenths of a standard deviation, and those of the fit by such a part of that."""

MOST_UNSURE = 5e-3
"""So much of the posterior may be where the integral over the penalty has not been found, in a fit that has
converged: it moves means by little more than such a part of a standard deviation. Where sigma is far below its most
probable values the likelihood of Student-t noise has several tops, between which Laplace's evidence jumps."""


@dataclass(frozen=True, slots=True)
class SitesOptions:
    """Options of ``fit``, checked.

    Attributes
    ----------
    solver : {"ep", "laplace"}
        The approximation, for methods that do not stand for one.
    parameterization : {"tau2", "tau"}
        Whether the mode is that of the density of t2 or of its root.
    log_t2 : float or None
        The value that is given, in the units of the coordinates.
    grid : (L,) array or None
        Log t2 likewise.
    tol : float
        Largest estimated error of the integral over t2 that counts as none, or of the mode of log t2; where a further
        parameter of the likelihood is integrated out too `OF_MIXED` at the least.
    maxiter : int
        Most sweeps or Newton steps at one t2.
    """

    solver: Solver = "ep"
    parameterization: Literal["tau2", "tau"] = "tau2"
    log_t2: float | None = None
    grid: FloatArray | None = None
    tol: float = 1e-6
    maxiter: int = 200


Find = Callable[[Nodes, SitesOptions], SitesFit]
"""Finds t2, or integrates it out."""


def fit(
    space: Coordinates,
    likelihood: Likelihood,
    prior: BetaPrime,
    flat_in: FlatIn,
    options: SitesOptions,
    find: Find,
) -> SitesFit:
    """Fit the ridge to responses that are not Gaussian.

    Parameters
    ----------
    space : Coordinates
    likelihood : Likelihood
    prior : BetaPrime
    flat_in : {"link", "latent"}
        Units in which the unpenalised coefficients are flat; see :mod:`pybayesridge.sites.prior`.
    options : SitesOptions
    find : callable
        :func:`integrated`, :func:`at_mode`, :func:`best_of_grid` or :func:`as_given`.

    Raises
    ------
    ValueError
        If the posterior of t2 is improper, or rounding errors outweigh the prior.
    """

    def given(one: Likelihood, near: tuple[Nodes, ...]) -> Nodes:
        density = log_prior(prior, space, one, flat_in)
        tol = SITE_TOL if likelihood.unknown_shape is None else SITE_TOL_OF_MIXED
        solver = "laplace" if likelihood.modes_first else options.solver
        return Nodes(space, one, density, solver, tol, options.maxiter, near=near)

    def found(nodes: Nodes, tol: float) -> SitesFit:
        own = replace(options, tol=max(options.tol, tol))
        return find(nodes, own) if space.rank else _one(nodes, nodes.prior.log_scale)

    with one_pool(space.flops):
        try:
            if likelihood.unknown_shape is None:
                return found(given(likelihood, ()), 0.0)
            tol = max(options.tol, OF_MIXED) if find is integrated and space.rank else None
            fits = [_over_shapes(form, given, found, tol) for form in likelihood.forms()]
            refines = likelihood.modes_first and options.solver == "ep"
            return over_forms(_by_ep(fits, options.maxiter) if refines else fits)
        except FloatingPointError as error:
            raise ValueError(
                "what some rows say outweighs the others by more than double precision resolves: look for rows with "
                "a very large count, weight or exposure, or use the other of fit('ep') and fit('laplace')"
            ) from error


def _over_shapes(
    likelihood: Likelihood,
    given: Callable[[Likelihood, tuple[Nodes, ...]], Nodes],
    found: Callable[[Nodes, float], SitesFit],
    tol: float | None,
) -> SitesFit:
    """The mixture over values of the likelihood's further parameter.

    A method that finds one penalty does so at the most probable value; given it, the parameter is integrated out.

    Parameters
    ----------
    likelihood : Likelihood
        Without a value of the parameter.
    given : callable
        Nodes for a likelihood with one, started from those for another.
    found : callable
        The fit given the parameter, to some tolerance of the integral over the penalty at the least.
    tol : float or None
        Tolerance of the integral over the penalty; None where it is not integrated out.
    """
    prior = likelihood.unknown_shape
    assert prior is not None
    doublings = OF_SEVERAL_TOPS if likelihood.modes_first else DOUBLINGS
    family: dict[float, Nodes] = {}

    def nodes_of(log_shape: float) -> Nodes:
        if log_shape not in family:
            near = sorted(family, key=lambda u: abs(u - log_shape))
            one = likelihood.of_shape(log_shape)
            family[log_shape] = given(one, tuple(family[u] for u in near))
        return family[log_shape]

    guess = float(np.clip(likelihood.first_shape(), prior.low, prior.high))
    start, step, first_start = _first_shape(given(likelihood.of_shape(guess), ()), prior)
    nodes_of(start).first = first_start

    def height(log_shape: float, at: float) -> float:
        return nodes_of(log_shape).at(at, ROUGH).log_evidence + prior(log_shape)

    plan: Plan | None = None
    for _ in range(PASSES):
        nodes = nodes_of(start)
        if tol is None:
            at = _center(found(nodes, ROUGH))
        else:
            plan, at = planned(nodes, tol)
        guess = float(np.clip(likelihood.shape_near(nodes.at(at, ROUGH).mean), prior.low, prior.high))
        top, spacing = top_of(partial(height, at=at), guess, prior, step)
        if abs(top - start) <= max(spacing, FAR):
            break
        start = top
    if tol is None:
        first = found(nodes_of(top), OF_MIXED)
    else:
        nodes = nodes_of(top)
        whole = integrate(nodes, tol=tol, maxiter=doublings, plan=plan, loss=-MORE)
        first, plan = _of_quadrature(nodes, whole), whole.plan or plan
    at, fits = first.nodes[0].log_t2, {top: first}

    def lost(log_shape: float) -> float:
        """By how much the log density has fallen at a value, at the least about: a straight line from those seen."""
        near = sorted(fits, key=lambda u: abs(u - log_shape))[:2]
        density = {u: fit.log_evidence + prior(u) for u, fit in fits.items()}
        loss = [max(density.values()) - density[u] for u in near]
        return loss[0] + (min(max(loss[0] - loss[1], 0.0), BEYOND) if len(near) > 1 else 0.0)

    def evidence(log_shape: float) -> float:
        if log_shape not in fits:
            nodes = nodes_of(log_shape)
            if tol is None:
                fits[log_shape] = _one(nodes, at)
            else:
                loss = lost(log_shape)
                whole = integrate(nodes, tol=tol, maxiter=doublings, plan=plan, loss=loss)
                fits[log_shape] = _of_quadrature(nodes, whole)
        return fits[log_shape].log_evidence

    grid = integrate_shape(evidence, prior, top, spacing)
    return _mixed(first, [fits[u] for u in grid.u.tolist()], likelihood, grid)


def _first_shape(nodes: Nodes, prior: ShapePrior) -> tuple[float, float, AnyArray | None]:
    """A guess of the most probable value of the further parameter, a step for its search, and what that starts from.

    Where there are many rows for each column the mode at the prior's scale says about what it is, and its width.
    """
    space, likelihood = nodes.space, nodes.likelihood
    if space.rank + space.k > FEW * likelihood.n:
        return likelihood.log_shape, CLOSE, None
    rows = space.scaled(nodes.prior.log_scale)
    found = mode(rows, likelihood, None, tol=ROUGH, maxiter=nodes.maxiter)
    start = float(np.clip(likelihood.shape_near(found.eta), prior.low, prior.high))
    own = likelihood.of_shape(start)
    below, middle, above = (float(own.of_shape(start + d).values(found.eta).sum()) for d in (-APART, 0.0, APART))
    bend = (2.0 * middle - below - above) / APART**2
    if nodes.solver == "laplace":
        first = rows.units * found.gaussian.mean
    else:
        first = compact(sites_at(own, found.eta), own.signed_unit)
    return start, CLOSE if bend <= CLOSE**-2 else float(bend**-0.5), first


def _by_ep(fits: list[SitesFit], maxiter: int) -> list[SitesFit]:
    """Fits by Laplace's approximation of equally probable forms, with EP at the nodes that matter.

    Weights change by the ratio of the two approximations of the evidence.
    """
    evidence = np.array([fit.log_evidence for fit in fits])
    share = np.exp(evidence - logsumexp(evidence)).tolist()
    return [_refined(fit, w, maxiter) for fit, w in zip(fits, share, strict=True)]


def _refined(fit: SitesFit, share: float, maxiter: int) -> SitesFit:
    """A fit of a form of some posterior probability, with EP at the nodes that matter."""
    assert isinstance(fit.shape, ShapeGrid)
    if fit.likelihood.signed_unit is None:
        return fit
    nodes, change, lost = list(fit.nodes), np.zeros(len(fit.nodes)), 0.0
    for i in np.flatnonzero(share * fit.weight > REFINED).tolist():
        node = nodes[i]
        assert isinstance(node, Approximation)
        found = node_by_ep(node, fit.space, fit.likelihood.of_node(node), maxiter)
        if found is None:
            lost += float(fit.weight[i])
            continue
        change[i] = found.log_evidence - node.log_evidence
        nodes[i] = replace(found, start=None)
    total = float(logsumexp(change, b=fit.weight))
    weight = fit.weight * np.exp(change - total)
    of_shape = np.bincount(fit.shape.which, weights=weight).astype(np.float64)
    more = np.log(of_shape) - np.log(fit.shape.weight)
    grid = replace(
        fit.shape,
        log_density=fit.shape.log_density + more + total,
        weight=of_shape,
        log_integral=fit.shape.log_integral + total,
    )
    return replace(
        fit,
        nodes=tuple(nodes),
        weight=weight,
        log_evidence=fit.log_evidence + total,
        log_t2=fit.log_t2 + float((weight - fit.weight) @ [node.log_t2 for node in nodes]),
        converged=fit.converged and share * lost <= MOST_LOST,
        shape=grid,
    )


def node_by_ep(
    node: Approximation, space: Space, likelihood: Likelihood, maxiter: int, start: Sites | None = None
) -> Approximation | None:
    """A node by EP, from its mode or from other sites; None where that does not settle."""
    if start is None:
        raised = np.maximum(node.sites.precision, 0.0)
        start = Sites(raised, node.sites.shift + (raised - node.sites.precision) * node.mean)
    try:
        found = expectation_propagation(space, likelihood, node.log_t2, start, tol=SITE_TOL_OF_MIXED, maxiter=maxiter)
    except FloatingPointError:
        return None
    return replace(found, log_shape=node.log_shape, form=node.form) if found.converged else None


def over_forms(fits: Sequence[SitesFit]) -> SitesFit:
    """Fits of equally probable forms of the likelihood as one, with weights by their evidence."""
    if len(fits) == 1:
        return fits[0]
    evidence = np.array([fit.log_evidence for fit in fits])
    share = np.exp(evidence - logsumexp(evidence))
    likely = [fit for fit, w in zip(fits, share.tolist(), strict=True) if w > NEGLIGIBLE]
    best = fits[int(share.argmax())]
    grids = tuple(fit.shape for fit in fits if isinstance(fit.shape, ShapeGrid))
    grid = FormGrid(np.array([fit.likelihood.form for fit in fits]), share, grids)
    return replace(
        best,
        likelihood=best.likelihood.of_shape(grid.mean),
        nodes=tuple(node for fit in fits for node in fit.nodes),
        weight=np.concatenate([w * fit.weight for w, fit in zip(share.tolist(), fits, strict=True)]),
        log_t2=float(share @ [fit.log_t2 for fit in fits]) if np.isfinite(best.log_t2) else -np.inf,
        log_evidence=float(logsumexp(evidence) - np.log(share.size)),
        error=float(share @ [fit.error for fit in fits]),
        fall=min(fit.fall for fit in likely),
        separated=any(fit.separated for fit in likely),
        converged=float(share @ [not fit.converged for fit in fits]) <= MOST_UNSURE,
        n_iter=sum(fit.n_iter for fit in fits),
        shape=grid,
    )


def _unsure(fit: SitesFit) -> float:
    """The part of the integral over the penalty that has not been found."""
    if fit.converged:
        return 0.0
    settled = all(isinstance(node, Approximation) and node.converged for node in fit.nodes)
    return min(fit.error, 1.0) if settled else 1.0


def _center(fit: SitesFit) -> float:
    """Log t2 of the middle of a fit, of a null model that which stands for 0."""
    return fit.log_t2 if np.isfinite(fit.log_t2) else fit.nodes[0].log_t2


def _mixed(first: SitesFit, fits: list[SitesFit], likelihood: Likelihood, grid: ShapeGrid) -> SitesFit:
    """Fits given values of the further parameter as one, with the weights of the grid."""
    counts = [len(fit.nodes) for fit in fits]
    likely = [fit for fit, weight in zip(fits, grid.weight.tolist(), strict=True) if weight > NEGLIGIBLE]
    mean_log_t2 = float(grid.weight @ [fit.log_t2 for fit in fits]) if np.isfinite(first.log_t2) else -np.inf
    return replace(
        first,
        likelihood=likelihood.of_shape(grid.mean),
        nodes=tuple(node for fit in fits for node in fit.nodes),
        weight=np.concatenate([w * fit.weight for w, fit in zip(grid.weight.tolist(), fits, strict=True)]),
        log_t2=mean_log_t2,
        log_evidence=grid.log_integral,
        error=float(grid.weight @ [fit.error for fit in fits]) + grid.error,
        fall=min(fit.fall for fit in likely),
        separated=any(fit.separated for fit in likely),
        converged=grid.converged and first.converged and float(grid.weight @ [*map(_unsure, fits)]) <= MOST_UNSURE,
        n_iter=sum(fit.n_iter for fit in fits),
        shape=replace(grid, which=np.repeat(np.arange(len(fits)), counts)),
        order=likelihood.order if first.space.k else np.inf,
    )


def _at(nodes: Nodes, log_t2: float) -> Approximation:
    """The approximation at a penalty that was given.

    Raises
    ------
    ValueError
        If the penalty is too small.
    """
    try:
        return nodes.at(log_t2)
    except FloatingPointError as error:
        penalty = nodes.space.design.common_scale**2 * np.exp(-log_t2)
        raise ValueError(
            f"a penalty of {penalty:.3g} is too small: where the columns separate the responses it alone limits the "
            "coefficients, and rounding errors outweigh it; pass a larger one"
        ) from error


def _sweeps(nodes: Nodes) -> int:
    return sum(node.n_iter for node in nodes.found)


def _one(
    nodes: Nodes,
    log_t2: float,
    *,
    converged: bool = True,
    null: bool = False,
    at_edge: bool = False,
    grid: FloatArray | None = None,
    scores: FloatArray | None = None,
) -> SitesFit:
    node = _at(nodes, log_t2)
    return SitesFit(
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


def integrated(nodes: Nodes, options: SitesOptions) -> SitesFit:
    """The integral over t2."""
    return _of_quadrature(nodes, integrate(nodes, tol=options.tol, maxiter=DOUBLINGS))


def _of_quadrature(nodes: Nodes, found: PenaltyQuadrature) -> SitesFit:
    return SitesFit(
        space=nodes.space,
        likelihood=nodes.likelihood,
        nodes=found.nodes,
        weight=found.weight,
        log_t2=found.mean,
        log_evidence=found.log_integral,
        error=found.error,
        fall=found.fall,
        separated=found.separated,
        null=False,
        at_edge=False,
        grid=None,
        grid_scores=None,
        converged=found.converged,
        n_iter=_sweeps(nodes),
    )


def at_mode(nodes: Nodes, options: SitesOptions) -> SitesFit:
    """The highest interior mode of the density of t2 or of its root."""
    power = POWERS[options.parameterization]

    def height(log_t2: float) -> float:
        return nodes.log_density(log_t2) - power * log_t2

    find_ends(nodes, nodes.tol)
    where = np.array(nodes.log_t2)
    value = nodes.log_densities() - power * where
    # Towards t2 = 0 the density of the root of t2 can be level to the last digits.
    rise = value - np.minimum.accumulate(value) > LEVEL
    peaks = np.flatnonzero((value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:]) & rise[1:-1]) + 1
    if peaks.size == 0:
        return _one(nodes, nodes.prior.log_scale + NO_VARIANCE, null=True)
    top = int(peaks[np.argmax(value[peaks])])
    refined = _refine(height, where[top - 1], where[top + 1], options.tol)
    return _one(nodes, refined[0], converged=refined[1])


def _refine(height: Callable[[float], float], low: float, high: float, tol: float) -> tuple[float, bool]:
    found = scipy.optimize.minimize_scalar(
        lambda l: -height(l), bounds=(low, high), method="bounded", options={"xatol": tol}
    )
    return float(found.x), bool(found.success)


def as_given(nodes: Nodes, options: SitesOptions) -> SitesFit:
    """The value that is given."""
    assert options.log_t2 is not None
    return _one(nodes, options.log_t2)


def best_of_grid(nodes: Nodes, options: SitesOptions) -> SitesFit:
    """The point of the grid with the best leave-one-out log score."""
    grid = options.grid
    assert grid is not None
    order = np.argsort(grid)
    scores = np.empty(grid.size)
    for i in order:
        predictions = nodes.likelihood.left_out_at(_at(nodes, float(grid[i])))
        scores[i] = total_log_score(nodes.likelihood, predictions)
    best = int(scores.argmax())
    converged = all(node.converged for node in nodes.found)
    return _one(
        nodes,
        float(grid[best]),
        converged=converged,
        at_edge=best in (int(order[0]), int(order[-1])),
        grid=grid,
        scores=scores,
    )
