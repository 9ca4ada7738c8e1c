"""PC-EP, the provably convergent double loop of Hernández-Lobato and Hernández-Lobato (2011).

The inner loop (inner.py) maximises a concave function of the sites with the marginals v held; the outer loop then
moves v so that the energy E falls. The paper's eq. 37 lacks a term: the second moment under Q is ``z +
m^2``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import eigh, solve

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ep.algorithms.damped import FLOOR, DampedRun
from pybayesridge.ep.algorithms.inner import ROUNDING, Effort, Inner, held_sites, solve_inner
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.ep.model.gaussian import PrimalFactor
from pybayesridge.ep.model.prior import coupling, curvature

#: The loop also ends after so many covariance evaluations per allowed outer iteration.
_FAC_PER_STEP = 50
_MEMORY = 10
#: Least outer curvature relative to that of the plain update.
_LEAST_OUTER = 1e-3
#: Longest accelerated step at most, likewise.
_REACH_MAX = 4.0


@dataclass(frozen=True, slots=True)
class Outer:
    """A point of the outer problem.

    Attributes
    ----------
    v1, v2 : ndarray (d,)
        Natural parameters of the marginals.
    inner : Inner
        Solution of the inner problem.
    energy : float
        E.
    """

    v1: FloatArray
    v2: FloatArray
    inner: Inner
    energy: float


def _first_point(model: EPModel, t1: FloatArray, t2: FloatArray, floor: float, effort: Effort) -> Outer | None:
    """Outer point at the marginals that the sites to start from give."""
    effort.n_fac += 1
    factor = model.gaussian.factor(t2)
    if factor is None:
        return None
    v2 = np.maximum(1.0 / factor.var, t2 + 2.0 * floor)
    return _outer_point(model, factor.mean(t1) * v2, v2, (t1, t2), floor, effort)


def _outer_point(
    model: EPModel, v1: FloatArray, v2: FloatArray, sites: tuple[FloatArray, FloatArray], floor: float, effort: Effort
) -> Outer | None:
    """Solve the inner problem at v, starting from these sites, and evaluate E."""
    inner = solve_inner(model, v1, v2, *sites, floor, effort)
    if inner is None:
        return None
    log_marginal = 0.5 * (np.log(2.0 * np.pi / v2) + v1**2 / v2)
    return Outer(v1, v2, inner, float(np.sum(log_marginal)) - inner.value)


def _next_marginals(outer: Outer, moving: BoolArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Apply the paper's outer update: match the moments of P where the site is at its floor, else of Q.

    The energy does not depend on the v of columns that are always in; theirs stays.
    """
    inner = outer.inner
    at_floor = inner.t2 <= floor * (1.0 + 1e-9)
    v2 = np.maximum(3.0 * floor, 1.0 / np.where(at_floor, inner.tilt.var, inner.factor.var))
    return np.where(moving, inner.mean * v2, outer.v1), np.where(moving, v2, outer.v2)


def _coordinates(v1: FloatArray, v2: FloatArray) -> FloatArray:
    """Marginals in the scale-free coordinates (mean / sd, log precision), shape (2d,)."""
    return np.concatenate([v1 / np.sqrt(v2), np.log(v2)])


def _marginals(x: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Inverse of :func:`_coordinates`."""
    d = x.size // 2
    v2 = np.maximum(np.exp(np.clip(x[d:], -600.0, 600.0)), 3.0 * floor)
    return x[:d] * np.sqrt(v2), v2


def _inner_curvature(inner: Inner, free: BoolArray, upper: BoolArray) -> FloatArray:
    """Second derivatives of the inner optimum in (v1, -v2 / 2), 2d x 2d: ``P - P (Q + P)^-1 P``.

    A site at its upper bound follows v2, so that Q changes with it and P does not.
    """
    d, m = inner.mean.size, inner.mean
    c11, c12, c22 = curvature(inner.tilt)
    p = np.block([[np.diag(c11), np.diag(c12)], [np.diag(c12), np.diag(c22)]])
    between = coupling(inner.tilt)
    if between is not None:
        b11, b12, b22 = between.blocks(np.arange(d))
        p += np.block([[b11, b12], [b12.T, b22]])
    cov = inner.factor.cov()
    cross = 2.0 * cov * m
    q = np.block([[cov, cross], [cross.T, 2.0 * cov**2 + 4.0 * cov * np.outer(m, m)]])
    keep = np.concatenate([np.arange(d), d + np.flatnonzero(free)])
    total = (q + p)[np.ix_(keep, keep)]
    scale = 1.0 / np.sqrt(total.diagonal())
    follows = np.concatenate([np.zeros(d, dtype=bool), upper])
    cross = np.where(follows, -q[keep], p[keep])
    solved = scale[:, None] * solve(total * np.outer(scale, scale), scale[:, None] * cross, assume_a="sym")
    own = np.where(np.outer(follows, follows), q, np.where(np.outer(~follows, ~follows), p, 0.0))
    return own - cross.T @ solved


def _outer_newton(outer: Outer, plain: tuple[FloatArray, FloatArray], floor: float) -> FloatArray | None:
    """Newton step for E in the coordinates of :func:`_coordinates`, made a descent direction.

    By the envelope theorem the gradient in (v1, -v2 / 2) is the difference of the moments of the marginals
    and those the plain update matches; the metric of the plain update scales it.
    """
    d = outer.v1.size
    held = held_sites(outer.inner, np.full(d, floor), outer.v2 - floor)
    upper = held & (outer.inner.grad2 < 0)
    mean, z = outer.v1 / outer.v2, 1.0 / outer.v2
    new_mean = plain[0] / plain[1]
    g1, g2 = mean - new_mean, z + mean**2 - 1.0 / plain[1] - new_mean**2
    # The marginals' own covariance of (w, w^2) is L L' with L = [[sd, 0], [2 m sd, sqrt(2) z]].
    sd, flat = np.sqrt(z), np.sqrt(2.0) * z
    h = _inner_curvature(outer.inner, ~held, upper)
    top = h[:d] / sd[:, None]
    low = (h[d:] - (2.0 * mean)[:, None] * h[:d]) / flat[:, None]
    rows = np.concatenate([top, low])
    left = rows[:, :d] / sd
    right = (rows[:, d:] - rows[:, :d] * (2.0 * mean)) / flat
    scaled = np.eye(2 * d) - np.concatenate([left, right], axis=1)
    grad = np.concatenate([g1 / sd, (g2 - 2.0 * mean * g1) / flat])
    if not np.all(np.isfinite(scaled)):
        return None
    lam, vec = eigh(0.5 * (scaled + scaled.T))
    step = -vec @ ((vec.T @ grad) / np.maximum(np.abs(lam), _LEAST_OUTER))
    d_half = step[d:] / flat
    d1, d2 = step[:d] / sd - 2.0 * mean * d_half, -2.0 * d_half
    return np.concatenate([d1 * sd - 0.5 * outer.v1 * d2 * z * sd, d2 * z])


def _extrapolate(history: deque[tuple[FloatArray, FloatArray]]) -> FloatArray | None:
    """Anderson's extrapolation from pairs (x, g(x) - x), as a step from the last x."""
    if len(history) < 3:
        return None
    pairs = list(history)
    dx = np.stack([b[0] - a[0] for a, b in pairwise(pairs)])
    df = np.stack([b[1] - a[1] for a, b in pairwise(pairs)])
    weights = np.linalg.lstsq(df.T, pairs[-1][1], rcond=1e-10)[0]
    return pairs[-1][1] - weights @ (dx + df)


def run_convergent(
    model: EPModel, t1: FloatArray, t2: FloatArray, *, tol: float = 1e-4, maxiter: int = 1000
) -> DampedRun:
    """Run the double loop, with a projected Newton method inside and safeguarded acceleration outside.

    An accelerated v (by Newton's method where the d x d covariance is at hand, else by Anderson's
    extrapolation) is kept only if the energy falls there; else the paper's own update follows, which cannot
    raise it. Stops when that update would move no marginal mean by more than ``tol`` standard deviations
    and no marginal variance by more than the fraction ``tol``.

    Parameters
    ----------
    model : EPModel
        Likelihood and prior.
    t1, t2 : ndarray (d,)
        Sites to start from.
    tol : float
        Tolerance of the residual.
    maxiter : int
        Outer iterations at most; also at most 50 covariance evaluations for each, on average.

    Returns
    -------
    DampedRun
        ``energies`` is E after each outer iteration; it never rises.
    """
    floor = FLOOR / model.prior.slab_var
    effort = Effort()
    outer = _first_point(model, t1, np.maximum(t2, floor), floor, effort)
    history: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_MEMORY)
    residual, energies = np.inf, []
    for _ in range(maxiter):
        if outer is None:
            break
        energies.append(outer.energy)
        plain = _next_marginals(outer, ~model.prior.always_in, floor)
        residual = _change(outer, plain)
        if residual <= tol or effort.n_fac > _FAC_PER_STEP * maxiter:
            break
        x = _coordinates(outer.v1, outer.v2)
        history.append((x, _coordinates(*plain) - x))
        new = _advance(model, outer, plain, history, floor, effort)
        if new is not None and new.energy > outer.energy + ROUNDING * (1.0 + abs(outer.energy)):
            break
        outer = new
    if outer is None:
        return DampedRun(None, np.inf, False, len(energies), effort.n_fac, tuple(energies))
    state = model.state(outer.inner.t1, outer.inner.t2, cavity_floor=FLOOR)
    return DampedRun(state, residual, residual <= tol, len(energies), effort.n_fac + 1, tuple(energies))


def _advance(
    model: EPModel,
    outer: Outer,
    plain: tuple[FloatArray, FloatArray],
    history: deque[tuple[FloatArray, FloatArray]],
    floor: float,
    effort: Effort,
) -> Outer | None:
    """Find the next outer point: accelerated if that lowers the energy, else the plain update."""
    x, sites = history[-1][0], (outer.inner.t1, outer.inner.t2)
    dense = isinstance(outer.inner.factor, PrimalFactor)
    step = _outer_newton(outer, plain, floor) if dense else _extrapolate(history)
    if step is not None and np.all(np.isfinite(step)):
        step = np.where(np.tile(model.prior.always_in, 2), 0.0, step)
        length = min(1.0, effort.reach / max(float(np.max(np.abs(step))), 1e-300))
        trial = _outer_point(model, *_marginals(x + length * step, floor), sites, floor, effort)
        if trial is not None and trial.energy < outer.energy:
            effort.reach = min(2.0 * effort.reach, _REACH_MAX)
            return trial
        effort.reach *= 0.25
        history.clear()
    return _outer_point(model, *plain, sites, floor, effort)


def _change(outer: Outer, new: tuple[FloatArray, FloatArray]) -> float:
    """Largest relative move of a marginal."""
    move = np.abs(new[0] / new[1] - outer.v1 / outer.v2) * np.sqrt(outer.v2)
    return float(np.max(np.maximum(move, np.abs(outer.v2 / new[1] - 1.0))))
