"""The variances of several bands: integrated out, at their maximum, or given.

Coordinates, prior and lattice are those of Gaussian responses (:mod:`pybayesridge.bands.covariance`,
:mod:`pybayesridge.bands.lattice`) with the variance c of the latent noise in place of that of the noise: for the
total W of the bands, ``W / c`` is beta-prime, and the shares are Dirichlet(1/2, …, 1/2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.bands.covariance import Factors, factors_of_entries, lower_entries
from pybayesridge.bands.mixed import STARTS, independent, without_nothing
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.system import System
from pybayesridge.linalg.blas import one_pool
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow_bands import ArrowSpace, SeparatedLevelsError, arrow_from_problem, eliminating
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_integral import summed
from pybayesridge.sites.band_place import LEVEL, MOST, maximum, placed
from pybayesridge.sites.band_shapes import Located, OfShapes, as_one, by_ep, located, mixed, over_shapes
from pybayesridge.sites.bands import BandSpace, from_problem
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.prior import FlatIn
from pybayesridge.sites.seen import MOST_NUMBERS, Seen
from pybayesridge.sites.shape import integrate_shape, top_of


def space_of(problem: MixedProblem, likelihood: Likelihood) -> BandSpace | ArrowSpace:
    """Linear predictors of a likelihood in the columns of a problem."""
    by_rows = from_problem if isinstance(problem.system, System) else arrow_from_problem
    found: BandSpace | ArrowSpace = likelihood.in_coordinates(by_rows(problem))
    return found


def solved_quickly(
    problem: MixedProblem, likelihood: Likelihood, find: Callable[[MixedProblem], BandSitesFit]
) -> BandSitesFit:
    """What `find` finds, by nodes at which the largest group is eliminated where that takes less time.

    Sites and evidence are the same; the joint posteriors are of all columns, as without.
    """
    quick = eliminating(problem) if likelihood.signed_unit is None else None
    if quick is None:
        return find(problem)
    try:
        found = find(quick)
    except SeparatedLevelsError:
        return find(problem)
    space, nodes = space_of(problem, likelihood), []
    keeps = len(found.nodes) * space.numbers <= MOST_NUMBERS
    for i, node in enumerate(found.nodes):
        assert isinstance(node, Approximation)
        at: Any = found.space_at(i)
        own: Any = node.gaussian(at)
        nodes.append(replace(node, joint=at.of_all_columns(own, node.log_t2) if keeps else None))
    return replace(found, space=space, nodes=tuple(nodes))


def fit_integrated(
    problem: MixedProblem,
    likelihood: Likelihood,
    prior: BetaPrime,
    flat_in: FlatIn,
    solver: str,
    tol: float,
    maxiter: int,
) -> BandSitesFit:
    """All variances and correlations integrated out.

    Parameters
    ----------
    problem : MixedProblem
        Weighted by trials.
    likelihood : Likelihood
    prior : BetaPrime
        Of the total of all terms, covariances included, relative to the variance of the latent noise.
    flat_in : {"link", "latent"}
        Units in which the unpenalised coefficients are flat; see :mod:`pybayesridge.sites.prior`.
    solver : {"ep", "laplace"}
    tol : float
        Accuracy: of the log of the integral, and of means of roots of shares, of correlations and of coefficients in
        posterior standard deviations. The lattice is refined until its halves say so. With more than
        :data:`pybayesridge.bands.mixed.MOST_DIMENSIONS` variances and correlations there are weighted points, which
        are added to until their scrambles say so, and an error twice as large is accepted.
    maxiter : int
        Most sweeps or Newton steps at a node.

    Raises
    ------
    ValueError
        If the posterior of the variances is improper.
    FloatingPointError
        If rounding errors outweigh the prior.
    """
    space, forms = space_of(problem, likelihood), likelihood.forms()
    first = "laplace" if likelihood.modes_first else solver
    seen = Seen(space, likelihood, first, maxiter, MOST_NUMBERS // len(forms))
    with one_pool(space.flops):
        power = 0.5 * space.k if flat_in == "latent" else 0.0
        if likelihood.unknown_shape is not None:
            places: list[Located] = []
            for form in forms:
                own = replace(seen, likelihood=form)
                places.append(located(problem, own, prior, power, tol, places[-1] if places else None))
            highest = max(place.height for place in places)
            found = [over_shapes(place, highest) for place in places]
            if first != solver:
                found = by_ep(space, found, tol, maxiter)
            return as_one(found)
        return summed(problem, seen, placed(problem, seen, prior, power), prior, power, tol)


def fit_given(
    problem: MixedProblem, likelihood: Likelihood, solver: str, log_variance: FloatArray, maxiter: int
) -> BandSitesFit:
    """Given logs of the variances of the coefficients of each band (K,) on the user's scale of the prior."""
    space = space_of(problem, likelihood)
    seen = Seen(space, likelihood, solver, maxiter)
    root = np.exp(0.5 * (log_variance + problem.log_unit))
    factors = tuple(np.diag(root[list(each)]) for each in space.terms.bands)
    with one_pool(space.flops):
        shapes = likelihood.unknown_shape
        if shapes is None:
            return _one(problem, seen, np.zeros(1), factors, converged=True)
        fits: dict[float, BandSitesFit] = {}

        def evidence(log_shape: float) -> float:
            if log_shape not in fits:
                fits[log_shape] = _one(problem, seen.of_shape(log_shape), np.zeros(1), factors, converged=True)
            return fits[log_shape].log_evidence

        top, spacing = top_of(lambda u: evidence(u) + shapes(u), likelihood.first_shape(), shapes)
        grid = integrate_shape(evidence, shapes, top, spacing)
        return mixed(OfShapes(likelihood, [fits[u] for u in grid.u.tolist()], grid))


def fit_mode(problem: MixedProblem, likelihood: Likelihood, solver: str, maxiter: int) -> BandSitesFit:
    """Variances and correlations at the maximum of the approximate evidence, the prior being flat.

    The free entries of the A of all terms, in which the evidence is smooth also where variances are zero or
    correlations 1, are found by a quasi-Newton method from several starts.
    """
    space = space_of(problem, likelihood)
    seen = Seen(space, likelihood, solver, maxiter)
    terms, c = space.terms, likelihood.latent_variance
    entries = lower_entries(terms)
    unit = np.array([np.sqrt(terms.size[terms.bands[t][i]] / c) for t, i, _ in entries])

    def height(x: FloatArray) -> float:
        return seen.at(x, factors_of_entries(terms, x / unit)).log_evidence

    most = np.full(unit.size, np.exp(MOST / 2))
    with one_pool(space.flops):
        best, at, converged = -np.inf, np.zeros(unit.size), False
        for start in STARTS:
            begin = independent(terms, start + np.log(c))
            found = maximum(height, unit * [begin[t][i, j] for t, i, j in entries], most, LEVEL)
            if found.value > best:
                best, at, converged = found.value, found.at, found.converged
        factors = factors_of_entries(terms, at / unit)
        w = terms.variances(factors) * terms.size
        inside = bool((w < c * np.exp(MOST - 1)).all())
        return _one(problem, seen, at, without_nothing(terms, factors, c), converged=converged and inside)


def _one(problem: MixedProblem, seen: Seen, place: FloatArray, factors: Factors, *, converged: bool) -> BandSitesFit:
    node = seen.at(place, factors)
    total = float(seen.space.terms.totals(factors).sum())
    return BandSitesFit(
        space=seen.space,
        likelihood=seen.likelihood,
        nodes=(replace(node, start=None, center=None),),
        weight=np.ones(1),
        log_t2=float(np.log(total)) if total > 0 else -np.inf,
        log_evidence=node.log_evidence,
        error=0.0,
        fall=np.inf,
        separated=False,
        null=False,
        at_edge=False,
        grid=None,
        grid_scores=None,
        converged=converged and node.converged,
        n_iter=seen.sweeps,
        factors=tuple(each[None] for each in factors),
        log_unit=problem.log_unit,
    )
