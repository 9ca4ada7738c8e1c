"""Several bands with a further parameter of the likelihood: fits given its values, and their mixture."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow_bands import ArrowSpace
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_integral import summed
from pybayesridge.sites.band_place import ACCEPTED, MOST, Place, SampledPlace, asked, height_of, placed
from pybayesridge.sites.bands import BandSpace
from pybayesridge.sites.fit import MOST_LOST, MOST_UNSURE, over_forms
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.posterior import NEGLIGIBLE
from pybayesridge.sites.seen import Seen
from pybayesridge.sites.shape import ACCURACY, ShapeGrid, integrate_shape, top_of

ROOM = 2.0
"""The log of the total with the most probable further parameter is to be smaller by so much."""

BY_EP = 5e-3
"""Weight of the least likely nodes together that stay by Laplace's approximation where EP starts from that: their
means are off by some tenths of a standard deviation, and those of the fit by such a part of that."""

PASSES, FAR_SHAPE = 4, 1.0
"""Where the most probable value of a further parameter is so far from that for which the variances were located, both
are located again, at most so many times."""

LITTLE, HALF = 2e-5, 0.5
"""Where values of a further parameter are mixed, the least likely nodes of each are left out: about so much weight of
the whole at the most, and of the nodes of a value."""

NOISELESS = (
    "the columns of the bands explain the responses but for next to no noise, less than a thousandth of their "
    "standard deviation: fit with one penalty, or use family='gaussian'"
)


@dataclass(frozen=True, slots=True)
class OfShapes:
    """Fits given values of a further parameter of the likelihood, and the posterior of this.

    An error of the whole that is larger than the `most` is too large, whatever the fits say of theirs.
    """

    likelihood: Likelihood
    fits: list[BandSitesFit]
    grid: ShapeGrid
    most: float = np.inf


def over_shapes(problem: MixedProblem, seen: Seen, prior: BetaPrime, power: float, tol: float) -> OfShapes:
    """The integrals over the variances for values of the likelihood's further parameter.

    All have the same coordinates: only the unit of the prior differs.
    """
    likelihood = seen.likelihood
    shapes = likelihood.unknown_shape
    assert shapes is not None
    start = float(np.clip(likelihood.first_shape(), shapes.low, shapes.high))
    for _ in range(PASSES):
        first = seen.of_shape(start)
        place = placed(problem, first, prior, power)

        def of_unit(one: Likelihood) -> Place | SampledPlace:
            return place.with_log_unit(problem.coordinates(prior, one.latent_variance).log_unit)  # noqa: B023

        def height(log_shape: float) -> float:
            other = first.of_shape(log_shape)  # noqa: B023
            own = of_unit(other.likelihood)
            return height_of(other, own.coordinates, own.middle, power) + shapes(log_shape)

        node = first.at(place.middle, place.coordinates.factors(place.middle))
        guess = float(np.clip(likelihood.shape_near(node.mean), shapes.low, shapes.high))
        top, spacing = top_of(height, guess, shapes)
        _check_noise(first, place, likelihood.of_shape(top).latent_variance)
        if abs(top - start) <= max(spacing, FAR_SHAPE):
            break
        start = top
    at_top = first.of_shape(top)
    suited = of_unit(at_top.likelihood)
    place = suited.settled(*asked(at_top, suited, power), tol)
    fits: dict[float, BandSitesFit] = {}

    def evidence(log_shape: float) -> float:
        if log_shape not in fits:
            other = at_top.of_shape(log_shape)
            own = of_unit(other.likelihood)
            if fits:
                own = own.beginning_as(fits[top].parts[0].lattice)
            fits[log_shape] = summed(problem, other, own, prior, power, tol)
        return fits[log_shape].log_evidence

    by_points = isinstance(place, SampledPlace)
    grid = integrate_shape(evidence, shapes, top, spacing, tol if by_points else ACCURACY)
    most = ACCEPTED * tol if by_points else np.inf
    return OfShapes(likelihood, [fits[u] for u in grid.u.tolist()], grid, most)


def _check_noise(seen: Seen, place: Place | SampledPlace, latent_variance: float) -> None:
    """Refuse totals whose posterior is too close to the largest that are looked at."""
    total = float(seen.space.terms.totals(place.coordinates.factors(place.middle)).sum())
    if total > latent_variance * np.exp(MOST - ROOM):
        raise ValueError(NOISELESS)


def by_ep(space: BandSpace | ArrowSpace, forms: list[OfShapes], maxiter: int) -> list[OfShapes]:
    """Fits by Laplace's approximation of equally probable forms, with EP at the nodes that matter.

    Weights change by the ratio of the two approximations of the evidence.
    """
    shares = _shares(forms)
    weights = np.concatenate(
        [
            share * weight * fit.weight
            for share, form in zip(shares, forms, strict=True)
            for weight, fit in zip(form.grid.weight.tolist(), form.fits, strict=True)
        ]
    )
    ascending = np.sort(weights)
    least = float(ascending[np.searchsorted(np.cumsum(ascending), BY_EP)])
    return [_form_by_ep(space, form, share, least, maxiter) for form, share in zip(forms, shares, strict=True)]


def _form_by_ep(space: BandSpace | ArrowSpace, form: OfShapes, share: float, least: float, maxiter: int) -> OfShapes:
    """The fits of a form of some posterior probability, with EP at nodes of no less than the `least` weight."""
    if form.fits[0].likelihood.signed_unit is None:
        return form
    fits, grid, seen = list(form.fits), form.grid, None
    change, lost = np.full(len(fits), np.nan), 0.0
    for s in np.argsort(-grid.weight).tolist():
        fit, weight = fits[s], share * float(grid.weight[s])
        if weight * fit.weight.max() < least:
            continue
        start = Seen(space, fit.likelihood, "ep", maxiter) if seen is None else seen.of_shape(float(grid.u[s]))
        fits[s], change[s], failed = _fit_by_ep(start, fit, least / weight)
        seen, lost = start if seen is None else seen, lost + weight * failed
    known = np.isfinite(change)
    if not known.any():
        return form
    # Where EP was not tried the two are taken to differ as they do elsewhere.
    change = np.where(known, change, _mean_change(change[known], grid.weight[known]))
    total = float(logsumexp(change, b=grid.weight))
    grid = replace(
        grid,
        log_density=grid.log_density + change,
        weight=grid.weight * np.exp(change - total),
        log_integral=grid.log_integral + total,
        converged=grid.converged and lost <= MOST_LOST,
    )
    return replace(form, fits=fits, grid=grid)


def _fit_by_ep(seen: Seen, fit: BandSitesFit, least: float) -> tuple[BandSitesFit, float, float]:
    """A fit given the further parameter, the log of the ratio of its evidence, and the weight of nodes that failed.

    EP is at the nodes of no less than the `least` weight.
    """
    (part,) = fit.parts
    nodes, points = [node for node in fit.nodes if isinstance(node, Approximation)], part.lattice.points
    change = np.full(fit.weight.size, np.nan)
    lost, before = 0.0, seen.sweeps
    for i in np.argsort(-fit.weight).tolist():
        if fit.weight[i] < least:
            break
        node, own = nodes[i], tuple(each[i] for each in fit.factors)
        found = seen.refined(node, points[i], own)
        if found is None:
            lost += float(fit.weight[i])
            continue
        change[i], nodes[i] = found.log_evidence - node.log_evidence, found
    known = np.isfinite(change)
    if not known.any():
        return fit, 0.0, lost
    change = np.where(known, change, _mean_change(change[known], fit.weight[known]))
    total = float(logsumexp(change, b=fit.weight))
    weight = fit.weight * np.exp(change - total)
    totals = seen.space.terms.totals(fit.factors).sum(axis=-1)
    changed = replace(
        fit,
        nodes=seen.kept(fit.factors, nodes),
        weight=weight,
        log_t2=float(weight @ np.log(np.maximum(totals, 1e-300))),
        log_evidence=fit.log_evidence + total,
        n_iter=fit.n_iter + seen.sweeps - before,
        parts=(replace(part, lattice=part.lattice.changed(change)),),
    )
    return changed, total, lost


def _mean_change(change: FloatArray, weight: FloatArray) -> float:
    """The log of the mean of ratios with weights."""
    return float(logsumexp(change, b=weight / weight.sum()))


def _shares(forms: list[OfShapes]) -> list[float]:
    """Posterior probabilities of equally probable forms."""
    evidence = np.array([form.grid.log_integral for form in forms])
    out: list[float] = np.exp(evidence - logsumexp(evidence)).tolist()
    return out


def as_one(forms: list[OfShapes]) -> BandSitesFit:
    """Fits of equally probable forms of the likelihood as one, with weights by their evidence."""
    shares = _shares(forms)
    fits = [mixed(form, share) for form, share in zip(forms, shares, strict=True)]
    if len(fits) == 1:
        return fits[0]
    parts = tuple(
        replace(part, weight=share * part.weight)
        for fit, share in zip(fits, shares, strict=True)
        for part in fit.parts
    )
    factors = tuple(np.concatenate(each) for each in zip(*(fit.factors for fit in fits), strict=True))
    found = over_forms(fits)
    assert isinstance(found, BandSitesFit)
    return replace(found, factors=factors, parts=parts)


def mixed(found: OfShapes, of_all: float = 1.0) -> BandSitesFit:
    """Fits given values of the further parameter as one, with the weights of the grid.

    The least likely nodes are left out by their part `of_all` forms.
    """
    likelihood, fits, grid = found.likelihood, found.fits, found.grid
    share = grid.weight.tolist()
    fits = [
        _without_little(fit, LITTLE / max(of_all * weight, LITTLE)) for fit, weight in zip(fits, share, strict=True)
    ]
    likely = [fit for fit, weight in zip(fits, share, strict=True) if weight > NEGLIGIBLE]
    parts = tuple(
        replace(part, weight=weight * part.weight)
        for fit, weight in zip(fits, share, strict=True)
        for part in fit.parts
    )
    counts = [len(fit.nodes) for fit in fits]
    error, unsure = grid.weight @ [(fit.error, float(not fit.converged)) for fit in fits]
    return replace(
        fits[int(np.argmax(grid.weight))],
        likelihood=likelihood.of_shape(grid.mean),
        nodes=tuple(node for fit in fits for node in fit.nodes),
        weight=np.concatenate([w * fit.weight for w, fit in zip(share, fits, strict=True)]),
        log_t2=float(grid.weight @ [fit.log_t2 for fit in fits]),
        log_evidence=grid.log_integral,
        error=float(error) + grid.error,
        fall=min(fit.fall for fit in likely),
        separated=any(fit.separated for fit in likely),
        converged=bool(grid.converged and unsure <= MOST_UNSURE and error <= found.most),
        n_iter=sum(fit.n_iter for fit in fits),
        shape=replace(grid, which=np.repeat(np.arange(len(fits)), counts)),
        factors=tuple(np.concatenate(each) for each in zip(*(fit.factors for fit in fits), strict=True)),
        parts=parts,
    )


def _without_little(fit: BandSitesFit, most: float) -> BandSitesFit:
    """The fit without its least likely nodes, which have so much weight together at the most."""
    order = np.argsort(fit.weight)
    keep = np.sort(order[np.cumsum(fit.weight[order]) > min(most, HALF)])
    return replace(
        fit,
        nodes=tuple(fit.nodes[i] for i in keep.tolist()),
        weight=fit.weight[keep] / fit.weight[keep].sum(),
        factors=tuple(each[keep] for each in fit.factors),
    )
