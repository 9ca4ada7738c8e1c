"""Several bands with a further parameter of the likelihood: fits given its values, and their mixture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp, softmax

from pybayesridge._types import AnyArray, BoolArray, FloatArray
from pybayesridge.bands.lattice import Lattice
from pybayesridge.bands.mixed import independent
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.mixed_sampled import SampledPoints
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow_bands import ArrowSpace
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_integral import summed
from pybayesridge.sites.band_place import (
    ACCEPTED,
    DROP,
    MOST,
    Place,
    SampledPlace,
    asked,
    height_of,
    placed,
    placed_near,
    watched_at,
)
from pybayesridge.sites.bands import BandSpace
from pybayesridge.sites.fit import MOST_LOST, MOST_UNSURE, over_forms
from pybayesridge.sites.levels import Levels
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.posterior import NEGLIGIBLE
from pybayesridge.sites.seen import Seen
from pybayesridge.sites.shape import ACCURACY, ShapeGrid, ShapePrior, integrate_shape, top_of

ROOM = 2.0
"""The log of the total with the most probable further parameter is to be smaller by so much."""

BY_EP = 5e-3
"""Weight of the least likely nodes together that stay by Laplace's approximation where EP starts from that: their
means are off by some tenths of a standard deviation, and those of the fit by such a part of that."""

WORST = 0.1
"""Largest accepted error of the integral over the further parameter, of forms of little posterior probability."""

ROUNDS = 4
"""So often it is looked for such nodes at the most."""

PASSES, FAR_SHAPE = 4, 1.0
"""Where the most probable value of a further parameter is so far from that for which the variances were located, both
are located again, at most so many times."""

GUESSES = 2
"""So often the further parameter is guessed before that."""

LITTLE, HALF = 2e-5, 0.5
"""Where values of a further parameter are mixed, the least likely nodes of each are left out: about so much weight of
the whole at the most, and of the nodes of a value."""

LEAST_DROP, MORE = 5.0, 2.0
"""Where the further parameter is less probable lattices end at a smaller fall of the log density, but no smaller than
the first of these, and the log of the accepted error is larger, by the second at the most."""

OF_TOL, COARSEST = 0.25, 1e-2
"""Accepted error of the integral over the further parameter in units of `tol`, and the largest."""

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


@dataclass(frozen=True, slots=True)
class Located:
    """Where the posterior of the variances is for the most probable value of a further parameter.

    Attributes
    ----------
    problem : MixedProblem
    prior : BetaPrime
    power, tol : float
    seen : Seen
        For the likelihood at the `top`.
    place : Place or SampledPlace
    top, spacing : float
    fit : BandSitesFit
        At the top.
    """

    problem: MixedProblem
    prior: BetaPrime
    power: float
    tol: float
    seen: Seen
    place: Place | SampledPlace
    top: float
    spacing: float
    fit: BandSitesFit

    @property
    def height(self) -> float:
        """The log density of the further parameter at the top."""
        return self.fit.log_evidence + _prior_of(self.seen.likelihood)(self.top)


def _prior_of(likelihood: Likelihood) -> ShapePrior:
    """The prior of the further parameter of a likelihood, whether it has a value or not."""
    shapes = likelihood.of_shape(np.nan).unknown_shape
    assert shapes is not None
    return shapes


def located(
    problem: MixedProblem, seen: Seen, prior: BetaPrime, power: float, tol: float, like: Located | None = None
) -> Located:
    """Where the variances and the likelihood's further parameter are, searched from where another form has them."""
    shapes = _prior_of(seen.likelihood)
    start = _first_shape(seen) if like is None else like.top
    start = float(np.clip(start, shapes.low, shapes.high))
    near = like
    for _ in range(PASSES):
        place: Place | SampledPlace
        if near is None or isinstance(near.place, SampledPlace):
            first = seen.of_shape(start)
            place = placed(problem, first, prior, power)
        else:
            first = replace(near.seen.copied(), likelihood=seen.likelihood.of_shape(start))
            place = placed_near(problem, first, near.place, prior, power)
        near = None

        def height(log_shape: float) -> float:
            other = first.of_shape(log_shape)  # noqa: B023
            own = _of_unit(problem, place, other, prior)  # noqa: B023
            return height_of(other, own.coordinates, own.middle, power) + shapes(log_shape)

        node = first.at(place.middle, place.coordinates.factors(place.middle))
        guess = float(np.clip(first.likelihood.shape_near(node.mean), shapes.low, shapes.high))
        top, spacing = top_of(height, guess, shapes)
        _check_noise(first, place, first.likelihood.of_shape(top).latent_variance)
        if abs(top - start) <= max(spacing, FAR_SHAPE):
            break
        start = top
    at_top = first.of_shape(top)
    suited = _of_unit(problem, place, at_top, prior)
    place = suited.settled(*asked(at_top, suited, power), tol)
    fit = summed(problem, at_top.of_shape(top), place, prior, power, tol)
    return Located(problem, prior, power, tol, at_top, place, top, spacing, fit)


def _first_shape(seen: Seen) -> float:
    """A guess of the further parameter, by what variances of about that of the latent noise leave open."""
    shapes, start = _prior_of(seen.likelihood), seen.likelihood.first_shape()
    # Of several modes the first that is found may be far from the others.
    for _ in range(0 if seen.likelihood.modes_first else GUESSES):
        own = seen.of_shape(float(np.clip(start, shapes.low, shapes.high)))
        factors = independent(seen.space.terms, float(np.log(own.likelihood.latent_variance)))
        start = own.likelihood.shape_near(own.at(np.zeros(1), factors).mean)
    return start


def _of_unit(
    problem: MixedProblem, place: Place | SampledPlace, seen: Seen, prior: BetaPrime
) -> Place | SampledPlace:
    """A place with the prior that a likelihood has: all have the same coordinates, only its unit differs."""
    return place.with_log_unit(problem.coordinates(prior, seen.likelihood.latent_variance).log_unit)


def over_shapes(found: Located, highest: float) -> OfShapes:
    """The integrals over the variances for values of the likelihood's further parameter.

    Parameters
    ----------
    found : Located
    highest : float
        The log density at the top of the most probable form: where it is lower by some amount integrals matter less,
        and lattices end and errors are accepted by as much earlier.
    """
    shapes, tol = _prior_of(found.seen.likelihood), found.tol
    fits = {found.top: found.fit}

    def evidence(log_shape: float) -> float:
        if log_shape not in fits:
            near = min(fits, key=lambda u: abs(u - log_shape))
            lower = max(highest - fits[near].log_evidence - shapes(near), 0.0)
            other = found.seen.of_shape(log_shape)
            own = _of_unit(found.problem, found.place, other, found.prior).beginning_as(found.fit.parts[0].lattice)
            own = own.within(max(DROP - lower, LEAST_DROP))
            most = tol * float(np.exp(min(0.5 * lower, MORE)))
            fits[log_shape] = summed(found.problem, other, own, found.prior, found.power, most)
        return fits[log_shape].log_evidence

    by_points = isinstance(found.place, SampledPlace)
    accuracy = tol if by_points else _accuracy(tol)
    grid = integrate_shape(evidence, shapes, found.top, found.spacing, accuracy, lower=highest - found.height)
    most = ACCEPTED * tol if by_points else tol
    return OfShapes(found.seen.likelihood.of_shape(np.nan), [fits[u] for u in grid.u.tolist()], grid, most)


def _accuracy(tol: float) -> float:
    """The accepted error of the integral over the further parameter, where there are lattices."""
    return float(np.clip(OF_TOL * tol, ACCURACY, COARSEST))


def _check_noise(seen: Seen, place: Place | SampledPlace, latent_variance: float) -> None:
    """Refuse totals whose posterior is too close to the largest that are looked at."""
    total = float(seen.space.terms.totals(place.coordinates.factors(place.middle)).sum())
    if total > latent_variance * np.exp(MOST - ROOM):
        raise ValueError(NOISELESS)


def by_ep(space: BandSpace | ArrowSpace, forms: list[OfShapes], tol: float, maxiter: int) -> list[OfShapes]:
    """Fits by Laplace's approximation of equally probable forms, with EP at the nodes that matter.

    Weights change by the ratio of the two approximations of the evidence, after which other nodes may matter too. The
    errors are those of EP's: where modes change places Laplace's evidence has steps, which EP's does not have.
    """
    levels = Levels.of(space)
    parts = [_FormByEP.of(space, levels, form, maxiter) for form in forms]
    for _ in range(ROUNDS):
        shares = _shares(part.log_integral for part in parts)
        weights = np.concatenate(
            [share * w for share, part in zip(shares, parts, strict=True) for w in part.weights()]
        )
        ascending = np.sort(weights)
        least = float(ascending[np.searchsorted(np.cumsum(ascending), BY_EP)])
        if not sum(part.improve(least / share) for share, part in zip(shares, parts, strict=True) if share > least):
            break
    shares = _shares(part.log_integral for part in parts)
    return [part.result(tol, share) for share, part in zip(shares, parts, strict=True)]


@dataclass(slots=True)
class _FitByEP:
    """A fit given the further parameter, with EP at some of its nodes.

    Attributes
    ----------
    seen : Seen
    fit : BandSitesFit
        By Laplace's approximation.
    nodes : list of Approximation
    change : (M,) array
        Log of the ratio of the two evidences; nan where it is not known.
    left : (M,) bool array
        Where EP has not been tried.
    """

    seen: Seen
    fit: BandSitesFit
    nodes: list[Approximation]
    change: FloatArray
    left: BoolArray

    @classmethod
    def of(cls, seen: Seen, fit: BandSitesFit) -> _FitByEP:
        """With none so far."""
        nodes = [node for node in fit.nodes if isinstance(node, Approximation)]
        return cls(seen, fit, nodes, np.full(len(nodes), np.nan), np.full(len(nodes), True))

    @property
    def points(self) -> Lattice | SampledPoints:
        """Those of the variances, with Laplace's evidence."""
        (part,) = self.fit.parts
        return part.lattice

    def changes(self) -> FloatArray:
        """Logs of the ratio at all nodes, (M,)."""
        points = self.points
        return _everywhere(self.change, points.index if isinstance(points, Lattice) else points.points)

    @property
    def total(self) -> float:
        """Log of the ratio of the evidence given the further parameter; nan where EP was not tried."""
        if np.isnan(self.change).all():
            return np.nan
        return float(logsumexp(self.changes(), b=self.fit.weight))

    def weight(self) -> FloatArray:
        """Of the nodes, (M,)."""
        change = self.changes()
        out: FloatArray = self.fit.weight * np.exp(change - logsumexp(change, b=self.fit.weight))
        return out

    def improve(self, least: float) -> int:
        """EP at nodes of no less than the `least` weight; how many there are at which it was not tried before."""
        weight, points = self.weight(), self.points.points
        new = [i for i in np.argsort(-weight).tolist() if self.left[i] and weight[i] >= least]
        for i in new:
            own = tuple(each[i] for each in self.fit.factors)
            found, self.left[i] = self.seen.refined(self.nodes[i], points[i], own), False
            if found is not None:
                self.change[i], self.nodes[i] = found.log_evidence - self.nodes[i].log_evidence, found
        return len(new)

    def lost(self) -> float:
        """The weight of the nodes at which it did not settle."""
        return float(self.weight()[~self.left & np.isnan(self.change)].sum())

    def result(self, tol: float) -> BandSitesFit:
        """The fit."""
        fit, weight, change = self.fit, self.weight(), self.changes()
        (part,) = fit.parts
        lattice, kept = part.lattice.changed(change), self.seen.kept(fit.factors, self.nodes)
        error, converged = fit.error, fit.converged
        if isinstance(lattice, Lattice):
            means = self.seen.coefficients(fit.factors, kept)
            top = kept[int(np.argmax(weight))]
            error = lattice.largest_error(watched_at(self.seen, fit.factors, weight, means, top))
            converged = fit.converged or (lattice.complete and error <= tol)
        totals = self.seen.space.terms.totals(fit.factors).sum(axis=-1)
        return replace(
            fit,
            nodes=kept,
            weight=weight,
            error=error,
            converged=converged,
            log_t2=float(weight @ np.log(np.maximum(totals, 1e-300))),
            log_evidence=fit.log_evidence + self.total,
            n_iter=fit.n_iter + self.seen.sweeps,
            parts=(replace(part, lattice=lattice),),
        )


@dataclass(slots=True)
class _FormByEP:
    """The fits of a form of the likelihood, with EP at some of their nodes."""

    form: OfShapes
    fits: list[_FitByEP]

    @classmethod
    def of(cls, space: BandSpace | ArrowSpace, levels: Levels | None, form: OfShapes, maxiter: int) -> _FormByEP:
        """With none so far."""
        fits = [_FitByEP.of(Seen(space, fit.likelihood, "ep", maxiter, levels=levels), fit) for fit in form.fits]
        return cls(form, fits)

    def changes(self) -> FloatArray:
        """Logs of the ratio of the evidences given the further parameter, (S,)."""
        return _everywhere(np.array([fit.total for fit in self.fits]), self.form.grid.u[:, None])

    @property
    def log_integral(self) -> float:
        """Log of the evidence of the form."""
        return self.form.grid.log_integral + float(logsumexp(self.changes(), b=self.form.grid.weight))

    def weight(self) -> FloatArray:
        """Of the values of the further parameter, (S,)."""
        change = self.changes()
        out: FloatArray = self.form.grid.weight * np.exp(change - logsumexp(change, b=self.form.grid.weight))
        return out

    def weights(self) -> list[FloatArray]:
        """Of all nodes."""
        return [w * fit.weight() for w, fit in zip(self.weight().tolist(), self.fits, strict=True)]

    def improve(self, least: float) -> int:
        """EP at nodes of no less than the `least` weight; how many there are at which it was not tried before."""
        if self.form.fits[0].likelihood.signed_unit is None:
            return 0
        new, weight, last = 0, self.weight(), None
        for s in np.argsort(-weight).tolist():
            fit = self.fits[s]
            if not fit.seen.found and last is not None:
                # Sites start from those for another value.
                fit.seen = replace(last.of_shape(float(self.form.grid.u[s])), most=fit.seen.most)
            new += fit.improve(least / weight[s])
            last = fit.seen if fit.seen.found else last
        return new

    def result(self, tol: float, share: float) -> OfShapes:
        """The fits and their grid, whose error counts by the posterior probability of the form, its `share`."""
        if all(fit.left.all() for fit in self.fits):
            return self.form
        most = min(ACCEPTED * _accuracy(tol) / max(share, LITTLE), WORST)
        grid = self.form.grid.changed(self.changes(), most)
        lost = float(self.weight() @ [fit.lost() for fit in self.fits])
        fits = [
            before if fit.left.all() else fit.result(tol)
            for before, fit in zip(self.form.fits, self.fits, strict=True)
        ]
        return replace(self.form, fits=fits, grid=replace(grid, converged=grid.converged and lost <= MOST_LOST))


def _everywhere(change: FloatArray, places: AnyArray) -> FloatArray:
    """Changes at all places (M, d), from those that are known: elsewhere that of the nearest place; else none."""
    known = np.isfinite(change)
    if not known.any():
        return np.zeros(len(change))
    _, nearest = cKDTree(places[known]).query(places)
    out: FloatArray = change[known][nearest]
    return out


def _shares(log_integrals: Iterable[float]) -> list[float]:
    """Posterior probabilities of equally probable forms."""
    out: list[float] = softmax(list(log_integrals)).tolist()
    return out


def as_one(forms: list[OfShapes]) -> BandSitesFit:
    """Fits of equally probable forms of the likelihood as one, with weights by their evidence.

    It has converged only where the error that it states is accepted: that of fits by EP may be larger than Laplace's.
    """
    shares = _shares(form.grid.log_integral for form in forms)
    fits = [mixed(form, share) for form, share in zip(forms, shares, strict=True)]
    found = _of_forms(fits, shares)
    return replace(found, converged=found.converged and found.error <= forms[0].most)


def _of_forms(fits: list[BandSitesFit], shares: list[float]) -> BandSitesFit:
    """The mixture of fits of forms, with their posterior probabilities; the fit where there is one."""
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
        converged=bool(grid.converged and unsure <= MOST_UNSURE),
        n_iter=sum(fit.n_iter for fit in fits),
        shape=replace(grid, which=np.repeat(np.arange(len(fits)), counts)),
        factors=tuple(np.concatenate(each) for each in zip(*(fit.factors for fit in fits), strict=True)),
        parts=parts,
        order=likelihood.order if fits[0].space.k else np.inf,
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
