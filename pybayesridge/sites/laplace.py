"""Laplace's approximation for one t2: Newton's method with a line search, O(n r^2) a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.coordinates import Scaled, Space
from pybayesridge.sites.gaussian import Gaussian, Sites, combine, prior_slope
from pybayesridge.sites.likelihood import RowSites

HALVINGS = 40

LITTLE = 0.1
"""Of what a step gains by its expansion: one that gains less may be too long though it goes upwards."""

LONGEST = 1e6
"""The longest steps that are tried, about: changes of linear predictors in units of the likelihood's."""

ABSOLUTE = 1e3
"""The last Newton step changes no linear predictor by more than this many times the tolerance, in its own units:
where the columns separate the responses standard deviations are wide, and within one the curvature, which they depend
on, changes by orders of magnitude."""

SHARPER = 10.0 ** np.arange(0, 14, 2)
"""Factors of the precisions of a first guess: one that is sharp enough is where the likelihood is not 0."""

FLOORS = np.array([0.0, 1e-9, 1e-6, 1e-3, 1.0])
"""Least precisions of sites, relative to the largest, that are tried where the expansion is no density."""

STEP = 1e-3
"""Largest difference of linear predictors in derivatives of their curvature, in units of the likelihood's."""


def sites_at(likelihood: RowSites, eta: FloatArray) -> Sites:
    """The second-order expansion of the log likelihood about `eta` (n,)."""
    slope, bend = likelihood.derivatives(eta)
    return Sites(bend, slope + bend * eta)


@dataclass(frozen=True, slots=True)
class LaplaceMode:
    """The posterior mode given t2.

    Attributes
    ----------
    sites : Sites
        The second-order expansion about the last point, where the linear predictors are `eta`.
    eta : (n,) array
    gaussian : Gaussian
        What the sites make.
    height : float
        Log of likelihood times prior at `eta`, without its constant factor.
    converged : bool
    n_iter : int
    change : float
    """

    sites: Sites
    eta: FloatArray
    gaussian: Gaussian
    height: float
    converged: bool
    n_iter: int
    change: float


def mode(
    rows: Scaled,
    likelihood: RowSites,
    start: FloatArray | None,
    *,
    tol: float,
    maxiter: int,
    absolute: float = ABSOLUTE,
) -> LaplaceMode:
    """Find the posterior mode given t2.

    Parameters
    ----------
    rows : Scaled
    likelihood : RowSites
    start : (k + r,) array or None
        The mode at a t2 close by, in the coordinates of the rows.
    tol : float
        The iteration stops when a Newton step changes no linear predictor by more than this many posterior standard
        deviations of the step's direction, nor by more than `absolute` times as much in its own units.
    maxiter : int
        Most Newton steps.
    absolute : float
    """
    k = rows.k

    def height(coefficients: FloatArray, eta: FloatArray) -> float:
        likely = likelihood.values(eta).sum()
        return float(likely - 0.5 * coefficients[k:] @ coefficients[k:])

    at = _first(rows, likelihood, start, height)
    eta = rows.times(at)
    best = height(at, eta)
    for n_iter in range(1, maxiter + 1):
        sites, gaussian, is_it = _expanded(rows, likelihood, eta)
        direction = gaussian.mean - at
        length = gaussian.length(direction)
        far = float(np.abs(rows.times(direction)).max(initial=0.0)) / likelihood.unit
        change = max(length, far / absolute)
        if (change <= tol and is_it) or n_iter == maxiter:
            break
        slack, foretold = _rounding(likelihood, eta, best), 0.5 * length * length
        at, eta, best = _search(height, rows, at, direction, best, slack, far, foretold)
    return LaplaceMode(sites, eta, gaussian, best, change <= tol and is_it, n_iter, change)


def _expanded(rows: Scaled, likelihood: RowSites, eta: FloatArray) -> tuple[Sites, Gaussian, bool]:
    """The second-order expansion, what it makes, and whether that is it.

    Where it is no density, since the likelihood of some rows is convex there, precisions have a floor, with which
    steps are shorter and go upwards all the same.
    """
    sites = sites_at(likelihood, eta)
    try:
        return sites, combine(rows, sites), True
    except FloatingPointError:
        if (sites.precision >= 0).all():
            raise
        for floor in FLOORS * max(float(np.abs(sites.precision).max(initial=0.0)), float(np.finfo(float).tiny)):
            precision = np.maximum(sites.precision, floor)
            raised = Sites(precision, sites.shift + (precision - sites.precision) * eta)
            try:
                return raised, combine(rows, raised), False
            except FloatingPointError:
                continue
        raise


def laplace(
    space: Space,
    likelihood: RowSites,
    log_t2: float,
    start: FloatArray | None,
    *,
    tol: float,
    maxiter: int,
    absolute: float = ABSOLUTE,
) -> Approximation:
    """Approximate the posterior given t2 by its mode and the curvature there; see :func:`mode`."""
    rows = space.scaled(log_t2)
    found = mode(rows, likelihood, start, tol=tol, maxiter=maxiter, absolute=absolute)
    gaussian, sites = found.gaussian, found.sites
    mean, variance = rows.times(gaussian.mean), gaussian.variances(rows)
    return Approximation(
        log_t2=log_t2,
        sites=sites,
        mean=mean,
        variance=variance,
        log_evidence=_log_evidence(rows, likelihood, found, mean, variance),
        converged=found.converged,
        n_iter=found.n_iter,
        change=found.change,
        slope=prior_slope(gaussian, rows.k, sites, variance)
        - _loss_of_curvature(rows, likelihood, gaussian, found.eta, variance),
        center=rows.units * gaussian.mean,
        joint=gaussian if space.keeps(gaussian.mean.size) else None,
    )


def _log_evidence(
    rows: Scaled, likelihood: RowSites, found: LaplaceMode, mean: FloatArray, variance: FloatArray
) -> float:
    """Log evidence, to second order in the last step.

    At the end of the step, where the linear predictors are `mean`, likelihood times prior is looked at again, and the
    log determinant is that before the step plus what the step changes in the curvature.
    """
    constant = 0.5 * rows.k * np.log(2 * np.pi) - found.gaussian.log_root
    if not found.converged:
        return float(found.height + constant)
    u = found.gaussian.mean[rows.k :]
    height = likelihood.values(mean).sum() - 0.5 * float(u @ u)
    bent = likelihood.derivatives(mean)[1] - found.sites.precision
    return float(height + constant - 0.5 * float(variance @ bent))


def _loss_of_curvature(
    rows: Scaled, likelihood: RowSites, gaussian: Gaussian, eta: FloatArray, variance: FloatArray
) -> float:
    """Half the derivative in log t2 of the log determinant by way of the mode, on which the curvature depends."""
    pulled = gaussian.mean.copy()
    pulled[: rows.k] = 0.0
    moves = rows.times(gaussian.unhalf(gaussian.half(pulled)))
    step = STEP * likelihood.unit / max(float(np.abs(moves).max(initial=0.0)), 1e-300)
    up, down = (sites_at(likelihood, eta + sign * step * moves).precision for sign in (1.0, -1.0))
    return 0.5 * float(variance @ (up - down)) / (2.0 * step)


def _first(
    rows: Scaled,
    likelihood: RowSites,
    start: FloatArray | None,
    height: Callable[[FloatArray, FloatArray], float],
) -> FloatArray:
    """The coefficients of `start` where these are better than none, else those of a first guess."""
    none = height(np.zeros(rows.units.size), np.zeros(likelihood.n))
    if start is not None:
        near = np.divide(start, rows.units, out=np.zeros_like(start), where=rows.units > 0)
        found = height(near, rows.times(near))
        if np.isfinite(none) and found >= none:
            return near
    guess = likelihood.first_guess()
    sites = sites_at(likelihood, guess)
    sites = Sites(np.maximum(sites.precision, 0.0), sites.shift + np.maximum(-sites.precision, 0.0) * guess)
    for sharper in SHARPER:
        precision = sharper * sites.precision
        at = combine(rows, Sites(precision, sites.shift + (precision - sites.precision) * guess)).mean
        own = height(at, rows.times(at))
        if np.isfinite(own):
            break
    return near if start is not None and not np.isfinite(none) and found >= own else at


def _search(
    height: Callable[[FloatArray, FloatArray], float],
    rows: Scaled,
    at: FloatArray,
    direction: FloatArray,
    best: float,
    slack: float,
    far: float,
    foretold: float,
) -> tuple[FloatArray, FloatArray, float]:
    """Halve the step until the log posterior does not fall by more than rounding errors, the `slack`.

    A step that was halved, or gains little of what the expansion `foretold`, is halved on while that is better:
    beyond the top the log posterior may be straight, where the next step would be anywhere. The whole step changes
    linear predictors by at most `far` units.
    """
    if not np.isfinite(far):
        return at, rows.times(at), best
    first = max(0, int(np.log2(max(far, 1.0) / LONGEST)))
    found = None
    for halving in range(first, first + HALVINGS):
        new = at + np.ldexp(direction, -halving)
        eta = rows.times(new)
        value = height(new, eta)
        if found is not None and not value > found[2]:
            break
        if value >= best - slack:
            found = new, eta, value
            if halving == 0 and value - best >= LITTLE * foretold - slack:
                break
    return (at, rows.times(at), best) if found is None else found


def _rounding(likelihood: RowSites, eta: FloatArray, height: float) -> float:
    """What rounding errors of linear predictors, which many events multiply, and of sums do to the log posterior."""
    slope, _ = likelihood.derivatives(eta)
    return 64 * float(np.finfo(float).eps) * max(abs(height), float(np.abs(slope * eta).sum()), 1.0)
