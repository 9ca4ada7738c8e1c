"""Variances of several bands and what follows from them: integrated out, at their maximum, or given.

Given the variances the problem is that of a single penalty (:mod:`pybayesridge.sites.bands`). Coordinates, prior and
lattice are those of Gaussian responses (:mod:`pybayesridge.bands.covariance`, :mod:`pybayesridge.bands.lattice`) with
the variance of the latent noise in place of that of the noise: for the total W of the bands, ``W / c`` is beta-prime,
and the shares are Dirichlet(1/2, …, 1/2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from scipy.special import logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.bands.covariance import Coordinates, Factors, factors_of_entries, lower_entries
from pybayesridge.bands.lattice import FINE, FINER, Lattice, Refinement, Value, grown, refined, root_at
from pybayesridge.bands.mixed import MOST_DIMENSIONS, STARTS, WINDOW, independent, watched, without_nothing
from pybayesridge.bands.mixed_components import MixedGrid
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.mixed_sampled import Drawn, SampledPoints, Scores, first_proposal, sampled
from pybayesridge.bands.sampled import Proposal
from pybayesridge.bands.system import System
from pybayesridge.linalg.blas import one_pool
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow_bands import ArrowSpace, arrow_from_problem
from pybayesridge.sites.arrow_posterior import make_arrow_posterior
from pybayesridge.sites.band_posterior import BandSitesPosterior, make_band_posterior
from pybayesridge.sites.bands import BandSpace, from_problem
from pybayesridge.sites.ep import expanded, expectation_propagation
from pybayesridge.sites.fit import EXISTS, MOST_LOST, MOST_UNSURE, NEGLIGIBLE, SitesFit, node_by_ep, over_forms
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.integrate import SETTLED
from pybayesridge.sites.laplace import laplace
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.nodes import LAPLACE
from pybayesridge.sites.prior import FlatIn, LogPrior
from pybayesridge.sites.separation import dimensions
from pybayesridge.sites.shape import ACCURACY, ShapeGrid, integrate_shape, top_of

SITE_TOL = 1e-4
"""Accuracy of the approximation at a node, in posterior standard deviations."""

DROP = 9.0
"""Points of the lattice at which the log density is smaller than its maximum by more than this are left out."""

MOST = 16.0
"""Totals whose log, relative to the latent variance, is larger are not looked at."""

ROOM = 2.0
"""The log of the total with the most probable further parameter is to be smaller by so much."""

NEIGHBOURS = 12
"""Sites are interpolated between at most this many nodes."""

SMOOTH, FINEST = 3.0, 1e-3
"""Distance over which sites change, relative to that of the nearest nodes, and the error these are taken to have."""

SLOPE, BEND = 1e-3, 0.1
"""Of differences of the log density: for the gradient, and for the curvature at the mode."""

MAXITER = 60
"""Most iterations of the search of a mode."""

SLOW = 1.5
"""A density of the log of the total that falls at a smaller rate may have no moments."""

FAR = 4.0
"""Logs of totals relative to the latent variance that the lattice goes beyond if the density falls so slowly."""

RANK = 1e-9
"""Singular values that are smaller, relative to the largest, are 0."""

MOST_NUMBERS = 1 << 25
"""Most numbers of joint posteriors that are kept of each value of a further parameter, of all forms together."""

BY_EP = 5e-3
"""Weight of the least likely nodes together that stay by Laplace's approximation where EP starts from that: their
means are off by some tenths of a standard deviation, and those of the fit by such a part of that."""

MANY = 16
"""Parts of the posterior of the variances above which each has fewer points between those of its lattice."""

FIRST, FIRST_DROP = 0.7, 5.0
"""Spacing of a first lattice, and the fall of the log density within which its points are."""

ROUGH, LEVEL = 1e-2, 1e-4
"""Gradients of the log density at the middle of the lattice, and of the log evidence at its maximum."""

PART = 0.3
"""Steps over which curvatures are differences, in posterior standard deviations."""

PASSES, FAR_SHAPE = 4, 1.0
"""Where the most probable value of a further parameter is so far from that for which the variances were located, both
are located again, at most so many times."""

LITTLE, HALF = 2e-5, 0.5
"""Where values of a further parameter are mixed, the least likely nodes of each are left out: about so much weight of
the whole at the most, and of the nodes of a value."""

IMPROPER = (
    "the posterior of the variances is improper: the columns of the bands separate the responses, and the prior does "
    "not rule out coefficients of any size; pass a `prior` with a larger second number"
)

NOISELESS = (
    "the columns of the bands explain the responses but for next to no noise, less than a thousandth of their "
    "standard deviation: fit with one penalty, or use family='gaussian'"
)

MUCH = 10.0
"""Errors so many times the tolerance need more than the next finer distance."""

AIM, ACCEPTED = 1.0, 2.0
"""With weighted points, which there are over more than :data:`MOST_DIMENSIONS` variances and correlations: errors, in
units of `tol`, at which no more are added, and at which the integral counts as converged."""

LADDER = (1.3, 1.0, 0.7, 0.5, 0.35, *FINER)
"""Distances of the points of the lattices that are tried, in posterior standard deviations."""


@dataclass(frozen=True, slots=True)
class Part:
    """The posterior of the variances, given a further parameter of the likelihood if it has one.

    Attributes
    ----------
    coordinates : Coordinates or Scores
    lattice : Lattice or SampledPoints
    latent_variance : float
        Of the noise.
    weight : float
        Posterior probability of the value of the parameter.
    """

    coordinates: Coordinates | Scores
    lattice: Lattice | SampledPoints
    latent_variance: float
    weight: float


@dataclass(frozen=True, slots=True)
class BandSitesFit(SitesFit):
    """The outcome of one method with several bands.

    Attributes
    ----------
    factors : tuple of (M, q, q) arrays
        Roots of the covariances of each term at the nodes.
    parts : tuple of Part
        Where variances are integrated out, for each value of a further parameter of the likelihood.
    log_unit : float
        What logs of variances are larger by than on the user's scale of the prior.
    """

    space: BandSpace | ArrowSpace  # type: ignore[assignment]
    factors: Factors = ()
    parts: tuple[Part, ...] = ()
    log_unit: float = 0.0

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, in which there was one lattice."""
        state = SitesFit.of_earlier(state)
        if "lattice" not in state:
            return state
        rest = {name: value for name, value in state.items() if name not in ("coordinates", "lattice")}
        if state["lattice"] is None:
            return {"parts": (), **rest}
        c = state["likelihood"].latent_variance
        return {"parts": (Part(state["coordinates"], state["lattice"], c, 1.0),), **rest}

    def without_rows(self) -> BandSitesFit:
        """The same with every array over rows emptied; nodes of negligible weight are left out."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        factors = tuple(each[keep] for each in self.factors)
        nodes = tuple(
            self.nodes[i].without_rows(self.space.at(tuple(each[j] for each in factors)), joint=True)
            for j, i in enumerate(keep.tolist())
        )
        weight = self.weight[keep] / self.weight[keep].sum()
        space, likelihood = self.space.without_rows(), self.likelihood.without_rows()
        shape = None if self.shape is None else self.shape.of_nodes(keep)
        return replace(
            self, shape=shape, space=space, likelihood=likelihood, nodes=nodes, weight=weight, factors=factors
        )

    def posterior(self) -> BandSitesPosterior:
        """The joint posterior of the coefficients."""
        make = make_band_posterior if isinstance(self.space, BandSpace) else make_arrow_posterior
        return make(
            self.space,  # type: ignore[arg-type]
            self.likelihood,
            self.nodes,
            self.weight,
            self.factors,
            has_mean=self.fall > 0.5 + EXISTS,
            has_variance=self.fall > 1 + EXISTS,
        )

    def variances(self) -> MixedGrid:
        """The joint posterior of variances and correlations; the noise is the latent one."""
        terms, unit = self.space.terms, self.log_unit
        if not self.parts:
            c = np.array([self.likelihood.of_shape(node.log_shape).latent_variance for node in self.nodes])
            scaled = tuple(each / np.sqrt(c)[:, None, None] for each in self.factors)
            return MixedGrid.of(terms, scaled, self.weight, c, np.inf, unit)
        found, weights, variances = [], [], []
        parts = [part for part in self.parts if part.weight > NEGLIGIBLE]
        for part in parts:
            points, weight, _ = part.lattice.fine(FINE if len(parts) <= MANY else FINE // len(parts))
            c = np.full(weight.size, part.latent_variance)
            found.append(tuple(each / np.sqrt(part.latent_variance) for each in part.coordinates.factors(points)))
            weights.append(part.weight * weight)
            variances.append(c)
        factors = tuple(np.concatenate(each) for each in zip(*found, strict=True))
        return MixedGrid.of(terms, factors, np.concatenate(weights), np.concatenate(variances), np.inf, unit)


@dataclass(slots=True)
class _Seen:
    """Approximations at several places, each started from those nearby.

    Attributes
    ----------
    space : BandSpace
    likelihood : Likelihood
    solver : {"ep", "laplace"}
    maxiter : int
        Of the solver.
    most : int
        Most numbers of joint posteriors that are kept.
    places : (m, d) array
        The first of its rows are the places of what was found.
    found : list of Approximation
    """

    space: BandSpace | ArrowSpace
    likelihood: Likelihood
    solver: str
    maxiter: int
    most: int = MOST_NUMBERS
    places: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    found: list[Approximation] = field(default_factory=list)
    sweeps: int = 0

    def at(self, place: FloatArray, factors: Factors) -> Approximation:
        """The approximation at a place (d,) in coordinates in which sites change smoothly."""
        own, most = self.space.at(factors), self.maxiter
        if self.solver == "laplace":
            new = laplace(own, self.likelihood, 0.0, self._mode(place), tol=LAPLACE * SITE_TOL, maxiter=most)
        else:
            new = expectation_propagation(own, self.likelihood, 0.0, self._sites(place), tol=SITE_TOL, maxiter=most)
        new = replace(new, log_shape=self.likelihood.log_shape, form=self.likelihood.form)
        self._remember(place, new)
        return new

    def refined(self, node: Approximation, place: FloatArray, factors: Factors) -> Approximation | None:
        """A node at a place by EP, from the sites nearby or else from its mode; None where neither settles."""
        own, start = self.space.at(factors), self._sites(place)
        new = node_by_ep(node, own, self.likelihood, self.maxiter, start)
        if new is None and start is not None:
            new = node_by_ep(node, own, self.likelihood, self.maxiter)
        if new is not None:
            self._remember(place, new)
        return new

    def renew(self, place: FloatArray) -> None:
        """Forget all but the last approximation, which is near a place in other coordinates."""
        self.found, self.places = self.found[-1:], place[None]

    def of_shape(self, log_shape: float) -> _Seen:
        """The same places for another value of the likelihood's further parameter, which sites then start from."""
        return replace(
            self,
            likelihood=self.likelihood.of_shape(log_shape),
            places=self.places.copy(),
            found=list(self.found),
            sweeps=0,
        )

    def _remember(self, place: FloatArray, new: Approximation) -> None:
        self.sweeps += new.n_iter
        count = len(self.found)
        if count >= len(self.places):
            longer = np.empty((2 * count + 1, place.size))
            if count:
                longer[:count] = self.places[:count]
            self.places = longer
        self.places[count] = place
        self.found.append(new)

    def _mode(self, place: FloatArray) -> FloatArray | None:
        if not self.found:
            return None
        nearest, weights = self._neighbours(place)
        out: FloatArray = weights @ np.array([self.found[i].center for i in nearest])
        return out

    def _sites(self, place: FloatArray) -> Sites | None:
        if not self.found:
            return None
        nearest, weights = self._neighbours(place)
        starts = np.array([self.found[i].start for i in nearest], dtype=np.float64)
        log, shift = np.tensordot(weights, starts, axes=1)
        lowest, highest = starts[:, 0].min(axis=0), starts[:, 0].max(axis=0)
        start = np.stack([np.clip(log, lowest - 1.0, highest + 1.0), shift])
        return expanded(start, self.likelihood.signed_unit)

    def _neighbours(self, place: FloatArray) -> tuple[list[int], FloatArray]:
        """The nearest places, and their weights in the value at another: a Gaussian process around a plane."""
        away = self.places[: len(self.found)] - place
        distance = np.sqrt((away**2).sum(axis=1))
        nearest = np.arange(distance.size)
        if distance.size > NEIGHBOURS:
            nearest = np.sort(np.argpartition(distance, NEIGHBOURS)[:NEIGHBOURS])
        d = place.size
        if nearest.size < d + 2:
            return [int(distance.argmin())], np.ones(1)
        unit = SMOOTH * max(float(np.median(distance[nearest])), 1e-12)
        away = away[nearest] / unit
        m = nearest.size
        system = np.zeros((m + d + 1, m + d + 1))
        square = ((away[:, None] - away[None]) ** 2).sum(axis=2)
        system[:m, :m] = np.exp(-0.5 * square) + FINEST**2 * np.eye(m)
        system[:m, m] = system[m, :m] = 1.0
        system[:m, m + 1 :], system[m + 1 :, :m] = away, away.T
        right = np.r_[np.exp(-0.5 * (away**2).sum(axis=1)), 1.0, np.zeros(d)]
        weights = np.asarray(np.linalg.lstsq(system, right, rcond=1e-10)[0][:m], dtype=np.float64)
        if not np.isfinite(weights).all() or np.abs(weights).sum() > NEIGHBOURS:
            return [int(distance.argmin())], np.ones(1)
        return nearest.tolist(), weights


def space_of(problem: MixedProblem) -> BandSpace | ArrowSpace:
    """Rows in the columns of a problem."""
    return from_problem(problem) if isinstance(problem.system, System) else arrow_from_problem(problem)


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
        :data:`MOST_DIMENSIONS` variances and correlations there are weighted points, which are added to until their
        scrambles say so, and an error twice as large is accepted.
    maxiter : int
        Most sweeps or Newton steps at a node.

    Raises
    ------
    ValueError
        If the posterior of the variances is improper.
    FloatingPointError
        If rounding errors outweigh the prior.
    """
    space, forms = space_of(problem), likelihood.forms()
    first = "laplace" if likelihood.modes_first else solver
    seen = _Seen(space, likelihood, first, maxiter, MOST_NUMBERS // len(forms))
    with one_pool(space.flops):
        power = 0.5 * space.k if flat_in == "latent" else 0.0
        if likelihood.unknown_shape is not None:
            found = [_over_shapes(problem, replace(seen, likelihood=form), prior, power, tol) for form in forms]
            if first != solver:
                found = _by_ep(space, found, maxiter)
            return _over_forms(found)
        return _summed(problem, seen, _placed(problem, seen, prior, power), prior, power, tol)


Density = Callable[[FloatArray], Value]
"""Of coordinates, with what is kept of a point: the position of the approximation, and its coefficients."""

Functions = Callable[[Lattice | SampledPoints, FloatArray], FloatArray]
"""Functions at the points of an integral, whose means are to be accurate."""


@dataclass(frozen=True, slots=True)
class _Integral:
    """The points of an integral, what is kept of each, and its error."""

    points: Lattice | SampledPoints
    kept: FloatArray
    error: float
    enough: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """Coordinates that suit a posterior, its middle, and a root of its covariance."""

    coordinates: Coordinates
    middle: FloatArray
    root: FloatArray

    def with_log_unit(self, log_unit: float) -> _Place:
        """The same where the prior has another unit."""
        return replace(self, coordinates=replace(self.coordinates, log_unit=log_unit))

    def settled(self, density: Density, functions: Functions, tol: float) -> _Place:
        """The same: lattices are made for each density."""
        return self

    def integral(self, density: Density, functions: Functions, tol: float) -> _Integral:
        """By a lattice."""
        how = Refinement(LADDER, DROP, step=_step)
        lattice, kept, error, _ = refined(density, self.middle, self.root, functions, tol, how)
        return _Integral(lattice, kept, error, error <= tol and lattice.complete)


@dataclass(frozen=True, slots=True)
class _SampledPlace:
    """Scores, those of the mode, and a proposal or points that were drawn already."""

    coordinates: Scores
    middle: FloatArray
    points: Proposal | Drawn

    def with_log_unit(self, log_unit: float) -> _SampledPlace:
        """The same where the prior has another unit."""
        return replace(self, coordinates=replace(self.coordinates, log_unit=log_unit))

    def settled(self, density: Density, functions: Functions, tol: float) -> _SampledPlace:
        """The same with points that suit a density, for all others like it."""
        drawn, _, _ = self._sampled(density, functions, tol)
        return replace(self, points=drawn)

    def integral(self, density: Density, functions: Functions, tol: float) -> _Integral:
        """By weighted points."""
        if isinstance(self.points, Drawn):
            points, kept = self.points.at(density)
        else:
            _, points, kept = self._sampled(density, functions, tol)
        error = points.error(functions(points, kept))
        # Points that were drawn for another value of a parameter are judged by the errors of all values together.
        return _Integral(points, kept, error, isinstance(self.points, Drawn) or error <= ACCEPTED * tol)

    def _sampled(self, density: Density, functions: Functions, tol: float) -> tuple[Drawn, SampledPoints, FloatArray]:
        assert isinstance(self.points, Proposal)
        return sampled(density, self.points, lambda points, kept: points.error(functions(points, kept)) <= AIM * tol)


def _flatness(at: Coordinates | Scores, total: float, power: float) -> float:
    """What coefficients that are flat in units of the latent response take from the log density."""
    return power * float(np.log1p(total * np.exp(-at.log_unit)))


def _height(seen: _Seen, at: Coordinates | Scores, x: FloatArray, power: float) -> float:
    """The log density of coordinates, without their window."""
    factors = at.factors(x)
    total = float(seen.space.terms.totals(factors).sum())
    return seen.at(x, factors).log_evidence + float(at.log_prior(x)) - _flatness(at, total, power)


def _density(seen: _Seen, coordinates: Coordinates | Scores, power: float, x: FloatArray) -> Value:
    """The log density of coordinates, and where the approximation is with its coefficients."""
    space, c = seen.space, seen.likelihood.latent_variance
    factors = coordinates.factors(x)
    total = float(space.terms.totals(factors).sum())
    if total > c * np.exp(MOST):
        return Value(-np.inf, 0.0, 0.0, np.zeros(space.k + space.rank + 1))
    new = seen.at(x, factors)
    of_prior = float(coordinates.log_density(x, factors)) - _flatness(coordinates, total, power)
    assert new.center is not None
    mean = space.coefficients(new.center[:, None], factors)[:, 0]
    return Value(new.log_evidence + of_prior, float(np.log1p(total / c)), 0.0, np.r_[len(seen.found) - 1.0, mean])


def _placed(problem: MixedProblem, seen: _Seen, prior: BetaPrime, power: float) -> _Place | _SampledPlace:
    """Where the posterior of the variances is, and how wide."""
    terms, c = seen.space.terms, seen.likelihood.latent_variance
    coordinates = problem.coordinates(prior, c)
    starts = [coordinates.of_factors(independent(terms, start + np.log(c))) for start in STARTS]
    values = [_height(seen, coordinates, start, power) for start in starts]
    begin = starts[int(np.argmax(values))]
    bounds = coordinates.bounds(MOST + np.log(c))
    top = _maximum(lambda x: _height(seen, coordinates, x, power), begin, bounds, ROUGH)
    factors = coordinates.factors(top.at)
    if top.at.size > MOST_DIMENSIONS:
        scores = Scores.like(coordinates)
        middle = scores.near(factors)
        seen.renew(middle)
        return _SampledPlace(scores, middle, first_proposal(partial(_density, seen, scores, power), middle))
    around = coordinates.around(terms.variances(factors) * terms.size)
    seen.renew(around.of_factors(factors))
    bounds = around.bounds(MOST + np.log(c))
    top = _maximum(lambda x: _height(seen, around, x, power), around.of_factors(factors), bounds, ROUGH)
    mode = around.of_factors(around.factors(top.at))
    root = root_at(_curvature(lambda x: _height(seen, around, x, power), mode))
    # The density may be flat where it is highest, and fall steeply further away: what spacing suits it, a first
    # lattice tells better than the curvature at the mode.
    for _ in range(2):
        around = replace(around, window=_window(root, terms.count))
        lattice, _ = grown(partial(_density, seen, around, power), mode, FIRST * root, FIRST_DROP)
        mode, root = _moments(lattice)
    return _Place(replace(around, window=_window(root, terms.count)), mode, root)


def _asked(seen: _Seen, place: _Place | _SampledPlace, power: float) -> tuple[Density, Functions]:
    """The density to be integrated, and functions whose means are to be accurate."""
    coordinates, space = place.coordinates, seen.space
    unit = np.r_[np.full(space.k, float(space.design.n)), space.diagonal]

    def functions(points: Lattice | SampledPoints, kept: FloatArray) -> FloatArray:
        at, c = coordinates.factors(points.points), seen.likelihood.latent_variance
        return watched(space.terms, at, points.weight, kept[:, 1:], unit, c)

    return partial(_density, seen, coordinates, power), functions


def _summed(
    problem: MixedProblem, seen: _Seen, place: _Place | _SampledPlace, prior: BetaPrime, power: float, tol: float
) -> BandSitesFit:
    """The integral over the variances."""
    space, likelihood, terms = seen.space, seen.likelihood, seen.space.terms
    coordinates = place.coordinates
    density, functions = _asked(seen, place, power)
    integral = place.integral(density, functions, tol)
    lattice, kept, error = integral.points, integral.kept, integral.error
    factors = coordinates.factors(lattice.points)
    nodes = _kept(space, factors, [seen.found[int(i)] for i in kept[:, 0]], seen.most)
    of_total = LogPrior(prior.a, prior.b, coordinates.log_unit, power)
    separated, fall = _fall(space, likelihood, factors, nodes, of_total)
    weight = lattice.weight
    totals = terms.totals(factors).sum(axis=-1)
    return BandSitesFit(
        space=space,
        likelihood=likelihood,
        nodes=nodes,
        weight=weight,
        log_t2=float(weight @ np.log(np.maximum(totals, 1e-300))),
        log_evidence=lattice.log_integral,
        error=error,
        fall=fall,
        separated=separated,
        null=False,
        at_edge=False,
        grid=None,
        grid_scores=None,
        converged=integral.enough and all(node.converged for node in nodes),
        n_iter=seen.sweeps,
        factors=factors,
        parts=(Part(coordinates, lattice, likelihood.latent_variance, 1.0),),
        log_unit=problem.log_unit,
    )


def _step(ladder: FloatArray, at: int, error: float, tol: float) -> int:
    """The position of the next distance on the ladder, or of that after it if the error is large."""
    return at + 1 + (error > MUCH * tol)


@dataclass(frozen=True, slots=True)
class _OfShapes:
    """Fits given values of a further parameter of the likelihood, and the posterior of this.

    An error of the whole that is larger than the `most` is too large, whatever the fits say of theirs.
    """

    likelihood: Likelihood
    fits: list[BandSitesFit]
    grid: ShapeGrid
    most: float = np.inf


def _over_shapes(problem: MixedProblem, seen: _Seen, prior: BetaPrime, power: float, tol: float) -> _OfShapes:
    """The integrals over the variances for values of the likelihood's further parameter.

    All have the same coordinates: only the unit of the prior differs.
    """
    likelihood = seen.likelihood
    shapes = likelihood.unknown_shape
    assert shapes is not None
    start = float(np.clip(likelihood.first_shape(), shapes.low, shapes.high))
    for _ in range(PASSES):
        first = seen.of_shape(start)
        place = _placed(problem, first, prior, power)

        def of_unit(one: Likelihood) -> _Place | _SampledPlace:
            return place.with_log_unit(problem.coordinates(prior, one.latent_variance).log_unit)  # noqa: B023

        def height(log_shape: float) -> float:
            other = first.of_shape(log_shape)  # noqa: B023
            own = of_unit(other.likelihood)
            return _height(other, own.coordinates, own.middle, power) + shapes(log_shape)

        node = first.at(place.middle, place.coordinates.factors(place.middle))
        guess = float(np.clip(likelihood.shape_near(node.mean), shapes.low, shapes.high))
        top, spacing = top_of(height, guess, shapes)
        _check_noise(first, place, likelihood.of_shape(top).latent_variance)
        if abs(top - start) <= max(spacing, FAR_SHAPE):
            break
        start = top
    at_top = first.of_shape(top)
    suited = of_unit(at_top.likelihood)
    place = suited.settled(*_asked(at_top, suited, power), tol)
    fits: dict[float, BandSitesFit] = {}

    def evidence(log_shape: float) -> float:
        if log_shape not in fits:
            other = at_top.of_shape(log_shape)
            fits[log_shape] = _summed(problem, other, of_unit(other.likelihood), prior, power, tol)
        return fits[log_shape].log_evidence

    by_points = isinstance(place, _SampledPlace)
    grid = integrate_shape(evidence, shapes, top, spacing, tol if by_points else ACCURACY)
    most = ACCEPTED * tol if by_points else np.inf
    return _OfShapes(likelihood, [fits[u] for u in grid.u.tolist()], grid, most)


def _check_noise(seen: _Seen, place: _Place | _SampledPlace, latent_variance: float) -> None:
    """Refuse totals whose posterior is too close to the largest that are looked at."""
    total = float(seen.space.terms.totals(place.coordinates.factors(place.middle)).sum())
    if total > latent_variance * np.exp(MOST - ROOM):
        raise ValueError(NOISELESS)


def _by_ep(space: BandSpace | ArrowSpace, forms: list[_OfShapes], maxiter: int) -> list[_OfShapes]:
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


def _form_by_ep(
    space: BandSpace | ArrowSpace, form: _OfShapes, share: float, least: float, maxiter: int
) -> _OfShapes:
    """The fits of a form of some posterior probability, with EP at nodes of no less than the `least` weight."""
    if form.fits[0].likelihood.signed_unit is None:
        return form
    fits, grid, seen = list(form.fits), form.grid, None
    change, lost = np.full(len(fits), np.nan), 0.0
    for s in np.argsort(-grid.weight).tolist():
        fit, weight = fits[s], share * float(grid.weight[s])
        if weight * fit.weight.max() < least:
            continue
        start = _Seen(space, fit.likelihood, "ep", maxiter) if seen is None else seen.of_shape(float(grid.u[s]))
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


def _fit_by_ep(seen: _Seen, fit: BandSitesFit, least: float) -> tuple[BandSitesFit, float, float]:
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
        nodes=_kept(seen.space, fit.factors, nodes, seen.most),
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


def _shares(forms: list[_OfShapes]) -> list[float]:
    """Posterior probabilities of equally probable forms."""
    evidence = np.array([form.grid.log_integral for form in forms])
    out: list[float] = np.exp(evidence - logsumexp(evidence)).tolist()
    return out


def _over_forms(forms: list[_OfShapes]) -> BandSitesFit:
    """Fits of equally probable forms of the likelihood as one, with weights by their evidence."""
    shares = _shares(forms)
    fits = [_mixed(form, share) for form, share in zip(forms, shares, strict=True)]
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


def _mixed(found: _OfShapes, of_all: float = 1.0) -> BandSitesFit:
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


def _kept(
    space: BandSpace | ArrowSpace, factors: Factors, found: list[Approximation], most: int
) -> tuple[Approximation, ...]:
    """The nodes without what others start from, with their joint posteriors where these take little memory."""
    nodes = [replace(node, start=None, center=None) for node in found]
    if len(nodes) * space.numbers > most:
        return tuple(nodes)
    at = [space.at(tuple(each[i] for each in factors)) for i in range(len(nodes))]
    return tuple(replace(node, joint=node.gaussian(own)) for node, own in zip(nodes, at, strict=True))


def fit_given(
    problem: MixedProblem, likelihood: Likelihood, solver: str, log_variance: FloatArray, maxiter: int
) -> BandSitesFit:
    """Given logs of the variances of the coefficients of each band (K,) on the user's scale of the prior."""
    space = space_of(problem)
    seen = _Seen(space, likelihood, solver, maxiter)
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
        return _mixed(_OfShapes(likelihood, [fits[u] for u in grid.u.tolist()], grid))


def fit_mode(problem: MixedProblem, likelihood: Likelihood, solver: str, maxiter: int) -> BandSitesFit:
    """Variances and correlations at the maximum of the approximate evidence, the prior being flat.

    The free entries of the A of all terms, in which the evidence is smooth also where variances are zero or
    correlations 1, are found by a quasi-Newton method from several starts.
    """
    space = space_of(problem)
    seen = _Seen(space, likelihood, solver, maxiter)
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
            found = _maximum(height, unit * [begin[t][i, j] for t, i, j in entries], most, LEVEL)
            if found.value > best:
                best, at, converged = found.value, found.at, found.converged
        factors = factors_of_entries(terms, at / unit)
        w = terms.variances(factors) * terms.size
        inside = bool((w < c * np.exp(MOST - 1)).all())
        return _one(problem, seen, at, without_nothing(terms, factors, c), converged=converged and inside)


def _one(problem: MixedProblem, seen: _Seen, place: FloatArray, factors: Factors, *, converged: bool) -> BandSitesFit:
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


@dataclass(frozen=True, slots=True)
class _Top:
    """A maximum, where it is, and whether the gradient vanishes there."""

    value: float
    at: FloatArray
    converged: bool


def _maximum(height: Callable[[FloatArray], float], start: FloatArray, most: FloatArray, level: float) -> _Top:
    """The highest point between -`most` and `most` (d,) that a quasi-Newton method finds from a start."""

    def slope(x: FloatArray) -> FloatArray:
        return np.array([height(x + SLOPE * one) - height(x - SLOPE * one) for one in np.eye(x.size)]) / (2 * SLOPE)

    found = scipy.optimize.minimize(
        lambda x: (-height(x), -slope(x)),
        np.clip(start, -most, most),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([-most, most]),
        options={"gtol": level, "ftol": 1e-10, "maxiter": MAXITER},
    )
    return _Top(-float(found.fun), found.x, bool(found.success))


def _curvature(height: Callable[[FloatArray], float], x: FloatArray) -> FloatArray:
    """Second derivatives of a function at its maximum, by differences over parts of its width, (d, d)."""
    width, d = np.full(x.size, BEND), x.size
    out = np.zeros((d, d))
    for _ in range(2):
        steps = np.diag(width)
        top = height(x)
        for i in range(d):
            out[i, i] = (height(x + steps[i]) + height(x - steps[i]) - 2 * top) / width[i] ** 2
            for j in range(i):
                both = height(x + steps[i] + steps[j]) + height(x - steps[i] - steps[j])
                apart = height(x + steps[i] - steps[j]) + height(x - steps[i] + steps[j])
                out[i, j] = out[j, i] = (both - apart) / (4 * width[i] * width[j])
        width = np.minimum(BEND, PART / np.sqrt(np.maximum(-np.diag(out), 1e-300)))
    return out


def _window(root: FloatArray, count: int) -> FloatArray:
    out: FloatArray = WINDOW * np.sqrt((root**2).sum(axis=1))[:count]
    return out


def _moments(lattice: Lattice) -> tuple[FloatArray, FloatArray]:
    """Mean (d,) and a root of the covariance (d, d) of a density."""
    points, weight = lattice.points, lattice.weight
    mean = weight @ points
    away = points - mean
    # The spacing itself adds to a covariance that it hardly resolves.
    spacing = lattice.root @ lattice.root.T / 12
    root = np.asarray(np.linalg.cholesky(away.T @ (away * weight[:, None]) + spacing), dtype=np.float64)
    return mean, root


def _fall(
    space: BandSpace | ArrowSpace,
    likelihood: Likelihood,
    factors: Factors,
    nodes: tuple[Approximation, ...],
    prior: LogPrior,
) -> tuple[bool, float]:
    """Whether the columns of bands separate the responses, and the rate at which the density falls if so.

    As in :mod:`pybayesridge.sites.integrate`: along the variances of some bands the evidence falls as
    ``W^(-r/2)``, times ``W^(1/2)`` for each dimension of the cone of directions along which the likelihood does not
    fall. The linear program is needed only where, at the node with the largest variance of a band, it falls slowly.

    Raises
    ------
    ValueError
        If it does not fall.
    """
    terms = space.terms
    variances = terms.variances(factors) * terms.size
    totals = np.log(np.maximum(terms.totals(factors).sum(axis=-1), 1e-300))
    slow = []
    for band in range(terms.count):
        node = int(np.argmax(variances[:, band]))
        far = totals[node] - np.log(likelihood.latent_variance) > FAR
        if far and -(nodes[node].slope + prior.slope(float(totals[node]))) < SLOW:
            slow.append(band)
    if not slow:
        return False, np.inf
    falls, separated = [], False
    for some in {(band,) for band in slow} | {tuple(range(terms.count))}:
        columns: list[int] = []
        for bands, at in zip(terms.bands, terms.columns, strict=True):
            columns += [j for i, band in enumerate(bands) if band in some for j in at[i].tolist()]
        rows = space.rows_in(np.sort(columns).astype(int))
        left, values, _ = np.linalg.svd(rows, full_matrices=False)
        rank = int((values > RANK * values[0]).sum())
        lost = dimensions(left[:, :rank], likelihood)
        separated |= lost > 0
        falls.append(prior.fall + 0.5 * (rank - space.k - lost) if lost else np.inf)
    if min(falls) < SETTLED:
        raise ValueError(IMPROPER)
    return separated, min(falls)
