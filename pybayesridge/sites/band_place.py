"""Where the posterior of the variances of several bands is, how wide it is, and integrals over it.

Few variances and correlations are integrated out by a lattice around the middle (:class:`Place`), many by weighted
points (:class:`SampledPlace`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy

from pybayesridge._types import FloatArray
from pybayesridge.bands.covariance import CovarianceCoordinates, Factors
from pybayesridge.bands.lattice import FINER, Lattice, Refinement, Value, covariance_at, grown, refined, root_of
from pybayesridge.bands.mixed import MOST_DIMENSIONS, STARTS, WINDOW, independent, watched
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.mixed_sampled import Drawn, SampledPoints, Scores, first_proposal, sampled
from pybayesridge.bands.sampled import Proposal
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.seen import Seen

DROP = 9.0
"""Points of the lattice at which the log density is smaller than its maximum by more than this are left out."""

MOST = 16.0
"""Totals whose log, relative to the latent variance, is larger are not looked at."""

SLOPE, BEND = 1e-3, 0.1
"""Of differences of the log density: for the gradient, and for the curvature at the mode."""

MAXITER = 60
"""Most iterations of the search of a mode."""

FIRST, FIRST_DROP = 0.7, 5.0
"""Spacing of a first lattice, and the fall of the log density within which its points are."""

ROUGH, LEVEL = 1e-2, 1e-4
"""Gradients of the log density at the middle of the lattice, and of the log evidence at its maximum."""

PART = 0.3
"""Steps over which curvatures are differences, in posterior standard deviations."""

MUCH = 10.0
"""Errors so many times the tolerance need more than the next finer distance."""

AIM, ACCEPTED = 1.0, 2.0
"""With weighted points, which there are over more than :data:`MOST_DIMENSIONS` variances and correlations: errors, in
units of `tol`, at which no more are added, and at which the integral counts as converged."""

LADDER = (1.0, 0.7, 0.5, 0.35, *FINER)
"""Distances of the points of the lattices that are tried, in posterior standard deviations."""

SLIGHT = 1e-2
"""Means of coefficients that differ less between points, in posterior standard deviations, are not looked at: where
rows have very many trials, approximations at points are hardly more accurate than they differ."""

SPARE = 1.0
"""Points are not looked at where the log density is foretold to be lower by so much than where it is left out."""


Density = Callable[[FloatArray], Value]
"""Of coordinates, with what is kept of a point: the position of the approximation, and its coefficients."""


Functions = Callable[[Lattice | SampledPoints, FloatArray], FloatArray]
"""Functions at the points of an integral, whose means are to be accurate."""


@dataclass(frozen=True, slots=True)
class Integral:
    """The points of an integral, what is kept of each, and its error."""

    points: Lattice | SampledPoints
    kept: FloatArray
    error: float
    enough: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Coordinates that suit a posterior, its middle, a root of its covariance, and where lattices begin.

    `begin` are positions on the :data:`LADDER`; without any, the first ones. Points of lattices are within a fall of
    the log density by `drop`.
    """

    coordinates: CovarianceCoordinates
    middle: FloatArray
    root: FloatArray
    begin: tuple[int, ...] = ()
    drop: float = DROP

    def with_log_unit(self, log_unit: float) -> Place:
        """The same where the prior has another unit."""
        return replace(self, coordinates=replace(self.coordinates, log_unit=log_unit))

    def settled(self, density: Density, functions: Functions, tol: float) -> Place:
        """The same: lattices are made for each density."""
        return self

    def beginning_as(self, lattice: Lattice | SampledPoints) -> Place:
        """The same, whose lattices begin with the distances of one for another density like it."""
        assert isinstance(lattice, Lattice)
        distance = np.linalg.norm(lattice.root, axis=0) / np.linalg.norm(self.root, axis=0)
        begin = np.abs(np.array(LADDER)[:, None] - distance).argmin(axis=0)
        return replace(self, begin=tuple(begin.tolist()))

    def within(self, drop: float) -> Place:
        """The same, whose lattices are within another fall of the log density."""
        return replace(self, drop=drop)

    def integral(self, density: Density, functions: Functions, tol: float) -> Integral:
        """By a lattice."""
        how = Refinement(LADDER, self.drop, step=_step, spare=SPARE, begin=self.begin)
        lattice, kept, error, _ = refined(density, self.middle, self.root, functions, tol, how)
        return Integral(lattice, kept, error, error <= tol and lattice.complete)


@dataclass(frozen=True, slots=True)
class SampledPlace:
    """Scores, those of the mode, and a proposal or points that were drawn already."""

    coordinates: Scores
    middle: FloatArray
    points: Proposal | Drawn

    def with_log_unit(self, log_unit: float) -> SampledPlace:
        """The same where the prior has another unit."""
        return replace(self, coordinates=replace(self.coordinates, log_unit=log_unit))

    def settled(self, density: Density, functions: Functions, tol: float) -> SampledPlace:
        """The same with points that suit a density, for all others like it."""
        drawn, _, _ = self._sampled(density, functions, tol)
        return replace(self, points=drawn)

    def beginning_as(self, lattice: Lattice | SampledPoints) -> SampledPlace:
        """The same: points are those that were drawn."""
        return self

    def within(self, drop: float) -> SampledPlace:
        """The same, likewise."""
        return self

    def integral(self, density: Density, functions: Functions, tol: float) -> Integral:
        """By weighted points."""
        if isinstance(self.points, Drawn):
            points, kept = self.points.at(density)
        else:
            _, points, kept = self._sampled(density, functions, tol)
        error = points.error(functions(points, kept))
        # Points that were drawn for another value of a parameter are judged by the errors of all values together.
        return Integral(points, kept, error, isinstance(self.points, Drawn) or error <= ACCEPTED * tol)

    def _sampled(self, density: Density, functions: Functions, tol: float) -> tuple[Drawn, SampledPoints, FloatArray]:
        assert isinstance(self.points, Proposal)
        return sampled(density, self.points, lambda points, kept: points.error(functions(points, kept)) <= AIM * tol)


def _step(ladder: FloatArray, at: int, error: float, tol: float) -> int:
    """The position of the next distance on the ladder, or of that after it if the error is large."""
    return at + 1 + (error > MUCH * tol)


def _flatness(at: CovarianceCoordinates | Scores, total: float, power: float) -> float:
    """What coefficients that are flat in units of the latent response take from the log density."""
    return power * float(np.log1p(total * np.exp(-at.log_unit)))


def height_of(seen: Seen, at: CovarianceCoordinates | Scores, x: FloatArray, power: float) -> float:
    """The log density of coordinates, without their window."""
    factors = at.factors(x)
    total = float(seen.space.terms.totals(factors).sum())
    return seen.at(x, factors).log_evidence + float(at.log_prior(x)) - _flatness(at, total, power)


@dataclass(frozen=True, slots=True)
class BandDensity:
    """The log density of coordinates, and where the approximation is with its coefficients."""

    seen: Seen
    coordinates: CovarianceCoordinates | Scores
    power: float

    def __call__(self, x: FloatArray) -> Value:
        """At a point (d,)."""
        (out,) = self.at_all(x[None])
        return out

    def at_all(self, points: FloatArray) -> list[Value]:
        """At points (B, d)."""
        seen, coordinates, space = self.seen, self.coordinates, self.seen.space
        factors = coordinates.factors(points)
        totals, moments = space.terms.totals(factors).sum(axis=-1), space.terms.log_w(factors)
        of_prior = coordinates.log_density(points, factors) - self.power * np.log1p(
            totals * np.exp(-coordinates.log_unit)
        )
        out = [Value(-np.inf, own, 0.0, np.zeros(space.k + space.rank + 1)) for own in moments]
        some = np.flatnonzero(totals <= seen.likelihood.latent_variance * np.exp(MOST))
        before = len(seen.found)
        found = seen.at_all(points[some], tuple(each[some] for each in factors)) if some.size else []
        for j, (i, new) in enumerate(zip(some.tolist(), found, strict=True)):
            assert new.center is not None
            own = space.at(tuple(each[i] for each in factors))
            kept = np.r_[float(before + j), own.at_center(new.center)]
            out[i] = Value(new.log_evidence + float(of_prior[i]), moments[i], 0.0, kept)
        return out


def placed(problem: MixedProblem, seen: Seen, prior: BetaPrime, power: float) -> Place | SampledPlace:
    """Where the posterior of the variances is, and how wide."""
    terms, c = seen.space.terms, seen.likelihood.latent_variance
    coordinates = problem.coordinates(prior, c)
    starts = [coordinates.of_factors(independent(terms, start + np.log(c))) for start in STARTS]
    values = [height_of(seen, coordinates, start, power) for start in starts]
    begin = starts[int(np.argmax(values))]
    bounds = coordinates.bounds(MOST + np.log(c))
    top = maximum(lambda x: height_of(seen, coordinates, x, power), begin, bounds, ROUGH)
    factors = coordinates.factors(top.at)
    if top.at.size > MOST_DIMENSIONS:
        scores = Scores.like(coordinates)
        middle = scores.near(factors)
        seen.renew(middle)
        return SampledPlace(scores, middle, first_proposal(BandDensity(seen, scores, power), middle))
    for each in coordinates.to_try():
        around = each.around(terms.variances(factors) * terms.size)
        mode, root = _mode_around(seen, around, factors, power)
        if around.suits(partial(height_of, seen.copied(), around, power=power), mode):
            break
    return _by_lattices(seen, Place(around, mode, root), power, 2)


def placed_near(
    problem: MixedProblem, seen: Seen, near: Place, prior: BetaPrime, power: float
) -> Place | SampledPlace:
    """The same for a posterior like another one, whose place is known, with `seen` in its coordinates."""
    own = near.with_log_unit(problem.coordinates(prior, seen.likelihood.latent_variance).log_unit)
    found = _by_lattices(seen, own, power, 1)
    if found.coordinates.suits(partial(height_of, seen.copied(), found.coordinates, power=power), found.middle):
        return found
    return placed(problem, seen, prior, power)


def _by_lattices(seen: Seen, place: Place, power: float, times: int) -> Place:
    """The place where a density has the moments that first lattices tell, each from the place that the last has told.

    The density may be flat where it is highest, and fall steeply further away: what spacing suits it, a lattice tells
    better than the curvature at the mode.
    """
    terms = seen.space.terms
    around, mode, root = place.coordinates, place.middle, place.root
    for _ in range(times):
        around = replace(around, window=_window(root, terms.count))
        lattice, _ = grown(BandDensity(seen, around, power), mode, FIRST * root, FIRST_DROP)
        mode, root = _moments(lattice, terms.order)
    return Place(replace(around, window=_window(root, terms.count)), mode, root)


def _mode_around(
    seen: Seen, coordinates: CovarianceCoordinates, factors: Factors, power: float
) -> tuple[FloatArray, FloatArray]:
    """The mode (d,) near given covariances, and a root of the covariance (d, d)."""
    start = coordinates.of_factors(factors)
    seen.renew(start)

    def height(x: FloatArray) -> float:
        return height_of(seen, coordinates, x, power)

    top = maximum(height, start, coordinates.bounds(MOST + np.log(seen.likelihood.latent_variance)), ROUGH)
    mode = coordinates.of_factors(coordinates.factors(top.at))
    return mode, root_of(covariance_at(_curvature(height, mode)), coordinates.terms.order)


def asked(seen: Seen, place: Place | SampledPlace, power: float) -> tuple[Density, Functions]:
    """The density to be integrated, and functions whose means are to be accurate."""
    coordinates = place.coordinates

    def functions(points: Lattice | SampledPoints, kept: FloatArray) -> FloatArray:
        top = seen.found[int(kept[int(np.argmax(points.weight)), 0])]
        return watched_at(seen, coordinates.factors(points.points), points.weight, kept[:, 1:], top)

    return BandDensity(seen, coordinates, power), functions


def watched_at(seen: Seen, factors: Factors, weight: FloatArray, mean: FloatArray, top: Approximation) -> FloatArray:
    """Functions (M, J) whose means are to be accurate.

    From the means of all coefficients at points (M, k + p), and the approximation at that with the largest weight.
    """
    space = seen.space
    unit = np.r_[np.full(space.k, float(space.design.n)), space.diagonal]
    own: Any = space.at(tuple(each[int(np.argmax(weight))] for each in factors))
    least = SLIGHT * own.coefficient_sds(top.gaussian(own))
    return watched(space.terms, factors, weight, mean, unit, seen.likelihood.latent_variance, least)


@dataclass(frozen=True, slots=True)
class _Top:
    """A maximum, where it is, and whether the gradient vanishes there."""

    value: float
    at: FloatArray
    converged: bool


def maximum(height: Callable[[FloatArray], float], start: FloatArray, most: FloatArray, level: float) -> _Top:
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
    return WINDOW * _spread(root, count)


def _spread(root: FloatArray, count: int) -> FloatArray:
    out: FloatArray = np.sqrt((root**2).sum(axis=1))[:count]
    return out


def _moments(lattice: Lattice, order: list[int]) -> tuple[FloatArray, FloatArray]:
    """Mean (d,) and a root of the covariance (d, d) of a density."""
    points, weight = lattice.points, lattice.weight
    mean = weight @ points
    away = points - mean
    # The spacing itself adds to a covariance that it hardly resolves.
    spacing = lattice.root @ lattice.root.T / 12
    return mean, root_of(away.T @ (away * weight[:, None]) + spacing, order)
