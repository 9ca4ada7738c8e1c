"""Expectation propagation over rows for one t2, O(n r^2) a sweep.

All sites are updated at once, accelerated by what the last sweeps have shown. For log-concave likelihoods site
precisions cannot become negative, so every intermediate posterior is proper, and not larger than the curvature of the
likelihood, which bounds what acceleration extrapolates; where the sweeps do not come closer they are damped.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.sites.acceleration import History, free, of_free
from pybayesridge.sites.approximation import Approximation, cavity
from pybayesridge.sites.coordinates import Scaled, Space
from pybayesridge.sites.gaussian import Gaussian, Sites, Windows, combine, prior_slope
from pybayesridge.sites.laplace import mode
from pybayesridge.sites.likelihood import RowSites
from pybayesridge.sites.tilted import Tilted

RECOVERY = 1.1
"""Growth of damped steps with each sweep that is the best so far."""

PATIENCE = 8
"""So is what followed the best sweep after this many that were no better."""

ROUGH = 0.1
"""Accuracy of the mode where EP starts from it."""

FLOOR, FARTHEST = 1e-300, 1e30
"""Least precision and largest relative shift of sites that others start from."""

LEAST_DAMPING, TWICE = 0.05, 2
"""Share of an update that is made at the least; sweeps end when these steps from the best so far have been undone so
often: they would be the same again."""

CLOSE, LEADS = 0.3, 2.0
"""Means that move by at most `CLOSE` standard deviations of all rows together, and by `LEADS` times more than
variances, are brought to rest first: the matrix of the sweep serves for that too."""

FEW = 0.1
"""Where rows have a smaller leverage than this, on average, variances hardly depend on the sites, and each sweep
takes away most of what is left by itself."""

SOON = 4
"""Sweeps within which that shows; later ones are accelerated as all others."""

SWITCH = 25
"""Sweeps after which the best is that with the least change of all rows together: where this alone is large, sweeps
that lead away from the last sites look worse row by row."""

WORSE = 3.0
"""A sweep after which more than this many times the least change is left is undone, and steps are halved."""


def expectation_propagation(
    space: Space,
    likelihood: RowSites,
    log_t2: float,
    start: Sites | None,
    *,
    tol: float,
    maxiter: int,
    windows: Windows | None = None,
) -> Approximation:
    """Approximate the posterior given t2 by EP, or a part of it.

    Parameters
    ----------
    space : Space
    likelihood : RowSites
    log_t2 : float
    start : Sites or None
        Of an approximation at a t2 close by.
    tol : float
        Change by another sweep that counts as none: of marginal means and standard deviations of any row, and of the
        mean and the covariance of all rows together, in standard deviations. The log evidence is then off by its
        square.
    maxiter : int
        Most sweeps.
    windows : Windows or None
        What the posterior is multiplied by; only from sites to `start` from.
    """
    rows = space.scaled(log_t2)
    if start is None:
        start = mode(rows, likelihood, None, tol=ROUGH, maxiter=maxiter).sites
    sites, most = start, likelihood.largest_curvature()
    share, least, waiting, again, history = 1.0, np.inf, 0, 0, History(likelihood.signed_unit)
    best: tuple[Sites, Sites, FloatArray] | None = None
    for sweep in range(1, maxiter + 1):
        sites = Sites(np.minimum(sites.precision, most), sites.shift)
        try:
            gaussian = combine(rows, sites, windows)
            mean, variance = rows.times(gaussian.mean), gaussian.variances(rows)
            tilted = _tilted(likelihood, mean, variance, sites)
        except FloatingPointError:
            if sweep == maxiter or (best is None and (sweep > 1 or likelihood.signed_unit is None)):
                raise
            if best is None:
                # Between sites with negative precisions those of another t2 need not be a density.
                found = mode(rows, likelihood, None, tol=ROUGH, maxiter=maxiter)
                raised = np.maximum(found.sites.precision, 0.0)
                sites = Sites(raised, found.sites.shift + (raised - found.sites.precision) * found.eta)
                continue
            again += int(share == LEAST_DAMPING)
            share, waiting = max(0.5 * share, LEAST_DAMPING), 0
            history.clear()
            sites = best[0] if again == TWICE else history.next(*best, share)
            continue
        swept = swept_sites(tilted)
        of_rows = difference(tilted, mean, variance)
        step, moved, widened = _joint_change(rows, gaussian, sites, swept, mean, variance)
        change = max(of_rows, moved, widened)
        if change <= tol or again == TWICE:
            break
        waiting += 1
        left = of_rows if sweep <= SWITCH else change
        if sweep == SWITCH + 1:
            least, share = np.inf, 1.0
        if left <= least:
            if waiting == 1:
                share = min(RECOVERY * share, 1.0)
            least, best, waiting, again = left, (sites, swept, variance), 0, 0
        if sweep == maxiter:
            break
        if best is None or (left <= WORSE * least and waiting <= PATIENCE):
            settles = sweep <= SOON and float(sites.precision @ variance) <= FEW * likelihood.n
            if settles and LEADS * widened <= moved <= CLOSE:
                with suppress(FloatingPointError):
                    swept = swept_sites(_tilted(likelihood, mean + rows.times(step), variance, swept))
            sites = history.next(sites, swept, variance, share, 2 if settles else 1)
        else:
            again += int(share == LEAST_DAMPING)
            share, waiting = max(0.5 * share, LEAST_DAMPING), 0
            history.clear()
            sites = best[0] if again == TWICE else history.next(*best, share)
    return Approximation(
        log_t2=log_t2,
        sites=sites,
        mean=mean,
        variance=variance,
        log_evidence=_log_evidence(gaussian, rows.k, tilted, variance, windows),
        converged=change <= tol,
        n_iter=sweep,
        change=change,
        start=compact(swept, likelihood.signed_unit),
        # The evidence is stationary in the sites: only the prior's density depends on t2.
        slope=prior_slope(gaussian, rows.k, sites, variance) if windows is None else np.nan,
        center=rows.units * gaussian.mean,
        joint=gaussian if space.keeps(gaussian.mean.size) else None,
        windows=windows,
    )


def compact(sites: Sites, unit: FloatArray | None) -> AnyArray:
    """Log precisions and shifts relative to their roots, (2, n), which are smooth in log t2."""
    out = np.empty((2, sites.precision.size), dtype=np.float32)
    out[0] = free(sites.precision, unit)
    out[1] = np.clip(sites.shift / root_of(sites.precision, unit), -FARTHEST, FARTHEST)
    return out


def expanded(start: AnyArray, unit: FloatArray | None) -> Sites:
    """The sites that were made small."""
    precision = of_free(start[0].astype(np.float64), unit)
    return Sites(precision, start[1] * root_of(precision, unit))


def root_of(precision: FloatArray, unit: FloatArray | None) -> FloatArray:
    """Roots of precisions, in units of which shifts are kept; nowhere 0."""
    out: FloatArray = np.sqrt(np.maximum(precision, FLOOR) if unit is None else np.abs(precision) + unit)
    return out


def _tilted(likelihood: RowSites, mean: FloatArray, variance: FloatArray, sites: Sites) -> Tilted:
    """The tilted moments.

    Raises
    ------
    FloatingPointError
        If a cavity is flat, from rounding errors, where the row's likelihood is flat too.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        out = likelihood.tilted(cavity(mean, variance, sites))
    if not (np.isfinite(out.mean).all() and np.isfinite(out.site_precision).all()):
        raise FloatingPointError("the rounding errors of the rows' variances outweigh the prior")
    return out


def difference(tilted: Tilted, mean: FloatArray, variance: FloatArray) -> float:
    """Largest difference of marginal and tilted means and standard deviations, in standard deviations."""
    moved = np.abs(tilted.mean - mean) / np.sqrt(variance)
    widened = 0.5 * np.abs(tilted.variance / variance - 1.0)
    return float(np.maximum(moved, widened).max(initial=0.0))


def _joint_change(
    rows: Scaled, gaussian: Gaussian, before: Sites, after: Sites, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, float, float]:
    """What other sites change in the joint posterior to first order.

    Returns the step of the coordinates, its length in posterior standard deviations, and what the covariance changes,
    likewise. Where many rows share a direction each of them moves its own marginal very little, and all of them the
    posterior a lot.
    """
    precision = after.precision - before.precision
    pull = rows.transposed_times(after.shift - before.shift - precision * mean)
    half = gaussian.half(pull)
    step = gaussian.unhalf(half)
    # Relative to the sites' own precision, or summed over rows: each bounds what variances change relatively.
    size = np.abs(precision)
    with np.errstate(over="ignore"):
        relative = float((size / np.maximum(before.precision, 1e-300)).max(initial=0.0))
    return step, float(np.linalg.norm(half)), 0.5 * min(relative, float(size @ variance))


def swept_sites(tilted: Tilted) -> Sites:
    """Sites that match the tilted moments."""
    return Sites(tilted.site_precision, tilted.gradient + tilted.site_precision * tilted.mean)


def _log_evidence(gaussian: Gaussian, k: int, tilted: Tilted, variance: FloatArray, windows: Windows | None) -> float:
    """Log evidence, stationary in the sites where the moments agree.

    What the sites add at the mean, and the sites' own normaliser there, leave ``-|u|^2 / 2`` with u the penalised
    coordinates: of many events both are large, and their difference would be lost in rounding errors.
    """
    u = gaussian.mean[k:]
    of_coordinates = 0.5 * k * np.log(2 * np.pi) - gaussian.log_root - 0.5 * float(u @ u)
    if windows is not None:
        of_coordinates += windows.log_value(gaussian.mean)
    return float(of_coordinates + (tilted.log_integral - 0.5 * np.log(2 * np.pi * variance)).sum())
