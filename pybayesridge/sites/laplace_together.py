"""Laplace's approximation at several penalties at once, each from a mode nearby.

Of few rows and columns one approximation takes hardly longer to compute than to ask for: many share each call. Those
that are not at hand in a few whole Newton steps are left to :mod:`pybayesridge.sites.laplace`, which has no products
of all pairs of columns, and takes less time for one approximation, or for any number of them with many rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.laplace import ABSOLUTE, LITTLE, STEP
from pybayesridge.sites.likelihood import RowSites

MOST_STEPS = 12
"""Newton steps."""

MOST_PRODUCTS = 1 << 20
"""Most products of columns at all rows, which are kept; of more numbers single approximations take as little time."""


def laplace_together(
    rows: FloatArray,
    products: FloatArray,
    k: int,
    units: FloatArray,
    likelihood: RowSites,
    start: FloatArray,
    tol: float,
) -> list[Approximation | None]:
    """Approximate posteriors that differ in the prior's scales by their modes and the curvature there.

    Parameters
    ----------
    rows : (n, D) array
    products : (n, D^2) array
        Of all pairs of their columns.
    k : int
        Number of flat coordinates, which come first.
    units : (B, D) array
        Factors of the columns for coordinates of unit prior variance.
    likelihood : RowSites
        Its functions take linear predictors (B, n).
    start : (B, D) array
        Modes nearby, in the coordinates of the rows.
    tol : float
        As of :func:`pybayesridge.sites.laplace.mode`.

    Returns
    -------
    list
        None where whole Newton steps do not lead upwards, or not there in a few.
    """
    at = np.divide(start, units, out=np.zeros_like(start), where=units > 0)
    best = _heights(rows, k, units, likelihood, at)
    left = best >= _heights(rows, k, units, likelihood, np.zeros_like(at))
    out: list[Approximation | None] = [None] * len(at)
    for n_iter in range(1, MOST_STEPS + 1):
        active = np.flatnonzero(left)
        if not active.size:
            break
        own, here = units[active], at[active]
        eta = (own * here) @ rows.T
        slope, bend = likelihood.derivatives(eta)
        root, proper = _roots(_precisions(products, k, own, bend))
        left[active[~proper]] = False
        active, own, here = active[proper], own[proper], here[proper]
        eta, slope, bend = eta[proper], slope[proper], bend[proper]
        inverse = _inverse(root)
        mean = _solved(inverse, own * ((slope + bend * eta) @ rows))
        direction = mean - here
        length = np.linalg.norm(np.einsum("bji,bj->bi", root, direction), axis=1)
        far = np.abs((own * direction) @ rows.T).max(axis=1, initial=0.0) / likelihood.unit
        change = np.maximum(length, far / ABSOLUTE)
        done = change <= tol
        if done.any():
            found = _approximations(
                rows, products, k, own[done], likelihood, eta[done], slope[done], bend[done], root[done], mean[done]
            )
            for i, one in zip(np.flatnonzero(done).tolist(), found, strict=True):
                out[int(active[i])] = replace(one, n_iter=n_iter, change=float(change[i]))
            left[active[done]] = False
        rest = np.flatnonzero(~done)
        new = _heights(rows, k, own[rest], likelihood, mean[rest])
        slack = 64 * float(np.finfo(float).eps) * np.maximum(np.abs(slope * eta).sum(axis=1)[rest], 1.0)
        slack = np.maximum(slack, 64 * float(np.finfo(float).eps) * np.abs(best[active[rest]]))
        upwards = new - best[active[rest]] >= np.maximum(LITTLE * 0.5 * length[rest] ** 2, 0.0) - slack
        left[active[rest[~upwards]]] = False
        at[active[rest]], best[active[rest]] = mean[rest], new
    return out


def _heights(rows: FloatArray, k: int, units: FloatArray, likelihood: RowSites, at: FloatArray) -> FloatArray:
    """Logs of likelihood times prior, without its constant factor, (B,)."""
    out: FloatArray = likelihood.values((units * at) @ rows.T).sum(axis=1) - 0.5 * (at[:, k:] ** 2).sum(axis=1)
    return out


def _precisions(products: FloatArray, k: int, units: FloatArray, bend: FloatArray) -> FloatArray:
    """Posterior precisions, (B, D, D)."""
    size = units.shape[1]
    out: FloatArray = (bend @ products).reshape(-1, size, size) * units[:, :, None] * units[:, None, :]
    out[:, range(k, size), range(k, size)] += 1.0
    return out


def _roots(precision: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Lower triangular roots of those that are positive definite, and which are."""
    try:
        return _root(precision), np.full(len(precision), True)
    except np.linalg.LinAlgError:
        proper = np.asarray(np.linalg.eigvalsh(precision)[:, 0] > 0)
    if not proper.any():
        return precision[:0], proper
    try:
        return _root(precision[proper]), proper
    except np.linalg.LinAlgError:
        return precision[:0], np.full(len(precision), False)


def _root(precision: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(precision), dtype=np.float64)


def _inverse(root: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(root), dtype=np.float64)


def _solved(inverse: FloatArray, right: FloatArray) -> FloatArray:
    """Covariances times right-hand sides (B, D), from the inverses of roots of precisions."""
    out: FloatArray = np.einsum("bji,bj->bi", inverse, np.einsum("bij,bj->bi", inverse, right))
    return out


def _approximations(
    rows: FloatArray,
    products: FloatArray,
    k: int,
    units: FloatArray,
    likelihood: RowSites,
    eta: FloatArray,
    slope: FloatArray,
    bend: FloatArray,
    root: FloatArray,
    mean: FloatArray,
) -> list[Approximation]:
    """What :func:`pybayesridge.sites.laplace.laplace` makes of the last step."""
    inverse = _inverse(root)
    covariance = np.einsum("bji,bjl->bil", inverse, inverse) * units[:, :, None] * units[:, None, :]
    variance = covariance.reshape(len(mean), -1) @ products.T
    center = units * mean
    moved = center @ rows.T
    square = (mean[:, k:] ** 2).sum(axis=1)
    log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    evidence = likelihood.values(moved).sum(axis=1) - 0.5 * square + 0.5 * k * np.log(2 * np.pi) - log_root
    evidence -= 0.5 * (variance * (likelihood.derivatives(moved)[1] - bend)).sum(axis=1)
    pulled = mean.copy()
    pulled[:, :k] = 0.0
    moves = (units * _solved(inverse, pulled)) @ rows.T
    step = STEP * likelihood.unit / np.maximum(np.abs(moves).max(axis=1, initial=0.0), 1e-300)
    up, down = (likelihood.derivatives(eta + sign * step[:, None] * moves)[1] for sign in (1.0, -1.0))
    loss = 0.5 * (variance * (up - down)).sum(axis=1) / (2.0 * step)
    fall = 0.5 * (square - (bend * variance).sum(axis=1) + k) - loss
    return [
        Approximation(
            log_t2=0.0,
            sites=Sites(bend[i], slope[i] + bend[i] * eta[i]),
            mean=moved[i],
            variance=variance[i],
            log_evidence=float(evidence[i]),
            converged=True,
            n_iter=0,
            change=0.0,
            slope=float(fall[i]),
            center=center[i],
        )
        for i in range(len(mean))
    ]
