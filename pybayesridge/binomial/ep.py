"""Expectation propagation over rows for one t2, O(n r^2) a sweep.

All sites are updated at once, accelerated by what the last sweeps have shown. For log-concave likelihoods site
precisions cannot become negative, so every intermediate posterior is proper, and not larger than the curvature of the
likelihood, which bounds what acceleration extrapolates; where the sweeps do not come closer they are damped.
"""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.binomial.acceleration import History
from pybayesridge.binomial.approximation import Approximation, cavity
from pybayesridge.binomial.coordinates import Coordinates
from pybayesridge.binomial.gaussian import Gaussian, Sites, combine
from pybayesridge.binomial.laplace import laplace
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.tilted import Tilted, tilted_moments

RECOVERY = 1.1
"""Growth of damped steps with each sweep that is the best so far."""

PATIENCE = 8
"""So is what followed the best sweep after this many that were no better."""

ROUGH = 0.1
"""Accuracy of Laplace's approximation where EP starts from it."""

LEAST_DAMPING = 0.05
"""Share of an update that is made at the least."""

WORSE = 3.0
"""A sweep after which more than this many times the least change is left is undone, and steps are halved."""


def expectation_propagation(
    space: Coordinates, likelihood: Binomial, log_t2: float, start: Sites | None, *, tol: float, maxiter: int
) -> Approximation:
    """Approximate the posterior given t2 by EP.

    Parameters
    ----------
    space : Coordinates
    likelihood : Binomial
    log_t2 : float
    start : Sites or None
        Of an approximation at a t2 close by.
    tol : float
        Largest difference between marginal and tilted means and standard deviations of any row, in standard
        deviations, that counts as equal: the log evidence is then off by its square.
    maxiter : int
        Most sweeps.
    """
    rows, k = space.scaled(log_t2), space.k
    if start is None:
        start = laplace(space, likelihood, log_t2, None, tol=ROUGH, maxiter=maxiter).sites
    sites, most = start, likelihood.largest_curvature()
    share, least, waiting, history = 1.0, np.inf, 0, History()
    best: tuple[Sites, Sites, FloatArray] | None = None
    for sweep in range(1, maxiter + 1):
        sites = Sites(np.minimum(sites.precision, most), sites.shift)
        try:
            gaussian = combine(rows, k, sites)
        except FloatingPointError:
            if sweep == maxiter or best is None:
                raise
            share, waiting = max(0.5 * share, LEAST_DAMPING), 0
            history.clear()
            sites = history.next(*best, share)
            continue
        mean, variance = rows @ gaussian.mean, gaussian.variances(rows)
        around = cavity(mean, variance, sites)
        tilted = tilted_moments(*likelihood.totals(), likelihood.link, around)
        change = difference(tilted, mean, variance)
        if change <= tol:
            break
        waiting += 1
        if change <= least:
            if waiting == 1:
                share = min(RECOVERY * share, 1.0)
            least, best, waiting = change, (sites, swept_sites(tilted), variance), 0
        if sweep == maxiter:
            break
        if best is None or (change <= WORSE * least and waiting <= PATIENCE):
            sites = history.next(sites, swept_sites(tilted), variance, share)
        else:
            share, waiting = max(0.5 * share, LEAST_DAMPING), 0
            history.clear()
            sites = history.next(*best, share)
    return Approximation(
        log_t2=log_t2,
        sites=sites,
        mean=mean,
        variance=variance,
        log_evidence=_log_evidence(gaussian, sites, tilted, mean, variance),
        converged=change <= tol,
        n_iter=sweep,
        change=change,
    )


def difference(tilted: Tilted, mean: FloatArray, variance: FloatArray) -> float:
    """Largest difference of marginal and tilted means and standard deviations, in standard deviations."""
    moved = np.abs(tilted.mean - mean) / np.sqrt(variance)
    widened = 0.5 * np.abs(tilted.variance / variance - 1.0)
    return float(np.maximum(moved, widened).max(initial=0.0))


def swept_sites(tilted: Tilted) -> Sites:
    """Sites that match the tilted moments."""
    return Sites(tilted.site_precision, tilted.gradient + tilted.site_precision * tilted.mean)


def _log_evidence(gaussian: Gaussian, sites: Sites, tilted: Tilted, mean: FloatArray, variance: FloatArray) -> float:
    """The sites' own normaliser and what the rows add; stationary in the sites where the moments agree."""
    return gaussian.log_normalizer + log_evidence_of_rows(sites, tilted, mean, variance)


def log_evidence_of_rows(sites: Sites, tilted: Tilted, mean: FloatArray, variance: FloatArray) -> float:
    """Sum over rows of the log mean of likelihood / site under the marginal."""
    of_row = (
        tilted.log_integral - 0.5 * np.log(2 * np.pi * variance) - mean * (sites.shift - 0.5 * sites.precision * mean)
    )
    return float(of_row.sum())
