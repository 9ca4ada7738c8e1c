"""Laplace's approximation for one t2: Newton's method with a line search, O(n r^2) a step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.binomial.approximation import Approximation
from pybayesridge.binomial.coordinates import Coordinates
from pybayesridge.binomial.gaussian import Sites, combine
from pybayesridge.binomial.likelihood import Binomial, derivatives, log_likelihood

HALVINGS = 40


def first_guess(likelihood: Binomial) -> FloatArray:
    """Linear predictors drawn towards 0 from the rows' own proportions, (n,)."""
    successes, failures = likelihood.totals()
    out: FloatArray = np.log((successes + 0.5) / (failures + 0.5))
    return out if likelihood.link == "logit" else 0.6 * out


def sites_at(likelihood: Binomial, eta: FloatArray) -> Sites:
    """The second-order expansion of the log likelihood about `eta` (n,)."""
    slope, bend = derivatives(*likelihood.totals(), eta, likelihood.link)
    return Sites(bend, slope + bend * eta)


def laplace(
    space: Coordinates, likelihood: Binomial, log_t2: float, start: Sites | None, *, tol: float, maxiter: int
) -> Approximation:
    """Find the posterior mode given t2 and the curvature there.

    Parameters
    ----------
    space : Coordinates
    likelihood : Binomial
    log_t2 : float
    start : Sites or None
        Of an approximation at a t2 close by.
    tol : float
        The iteration stops when a Newton step changes no linear predictor by more than this many posterior standard
        deviations of the step's direction.
    maxiter : int
        Most Newton steps.
    """
    rows, k = space.scaled(log_t2), space.k
    successes, failures = likelihood.totals()

    def height(coefficients: FloatArray, eta: FloatArray) -> float:
        likely = log_likelihood(successes, failures, eta, likelihood.link).sum()
        return float(likely - 0.5 * coefficients[k:] @ coefficients[k:])

    at = combine(rows, k, sites_at(likelihood, first_guess(likelihood))).mean
    if start is not None:
        at = _better(height, rows, at, k, start)
    eta = rows @ at
    best = height(at, eta)
    change, n_iter = np.inf, 0
    while n_iter < maxiter and change > tol:
        n_iter += 1
        target = combine(rows, k, sites_at(likelihood, eta))
        direction = target.mean - at
        change = float(np.sqrt(((target.factor.T @ direction) ** 2).sum()))
        at, eta, best = _search(height, rows, at, direction, best)
    sites = sites_at(likelihood, eta)
    gaussian = combine(rows, k, sites)
    log_evidence = best + 0.5 * k * np.log(2 * np.pi) - np.log(np.diag(gaussian.factor)).sum()
    return Approximation(
        log_t2=log_t2,
        sites=sites,
        mean=rows @ gaussian.mean,
        variance=gaussian.variances(rows),
        log_evidence=float(log_evidence),
        converged=change <= tol,
        n_iter=n_iter,
        change=change,
    )


def _better(
    height: Callable[[FloatArray, FloatArray], float], rows: FloatArray, at: FloatArray, k: int, start: Sites
) -> FloatArray:
    """The coefficients of `start` where these are higher than `at`; sites from afar may not even be proper."""
    try:
        other = combine(rows, k, start).mean
    except FloatingPointError:
        return at
    return other if height(other, rows @ other) >= height(at, rows @ at) else at


def _search(
    height: Callable[[FloatArray, FloatArray], float],
    rows: FloatArray,
    at: FloatArray,
    direction: FloatArray,
    best: float,
) -> tuple[FloatArray, FloatArray, float]:
    """Halve the step until the log posterior does not fall by more than rounding errors."""
    slack = 64 * np.finfo(float).eps * max(abs(best), 1.0)
    for halving in range(HALVINGS):
        new = at + direction / 2**halving
        eta = rows @ new
        value = height(new, eta)
        if value >= best - slack:
            return new, eta, value
    return at, rows @ at, best
