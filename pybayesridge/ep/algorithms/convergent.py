"""PC-EP, the provably convergent double loop of Hernández-Lobato and Hernández-Lobato (2011).

The inner loop maximises a concave function of the sites with the marginals v held; the outer loop then
moves v so that the energy E falls. The paper's eq. 37 lacks a term: the second moment under Q is ``z +
m^2``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import eigh, lapack, solve

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ep.algorithms.damped import FLOOR, Run
from pybayesridge.ep.algorithms.state import Model
from pybayesridge.ep.model.gaussian import Factor, PrimalFactor
from pybayesridge.ep.model.prior import Tilted, coupling, curvature, tilted
from pybayesridge.linalg.conjugate_gradients import conjugate_gradients

_INNER_TOL = 1e-7
_INNER_MAXITER = 100
_INNER_CG = 200
_BACKTRACKS = 30
#: The loop also ends after so many covariance evaluations per allowed outer iteration.
_FAC_PER_STEP = 50
_ACTIVE_SETS = 25
_MEMORY = 10
#: Least outer curvature relative to that of the plain update.
_LEAST_OUTER = 1e-3
#: Longest accelerated step, in standard deviations and in log precisions: at first, and at most.
_REACH = 1.0
_REACH_MAX = 4.0
#: A fall of the energy below this fraction of it is rounding.
_ROUNDING = 1e-11


@dataclass(frozen=True, slots=True)
class Inner:
    """A point of the inner problem; every array has shape (d,).

    Attributes
    ----------
    t1, t2 : ndarray (d,)
        Sites.
    factor : Factor
        The factorised precision of Q.
    mean : ndarray (d,)
        Mean of Q.
    tilt : Tilted
        The tilted distributions P of the cavities v - t.
    value : float
        ``log Z(t) + sum log Zhat(v - t)``, to be minimised.
    grad1, grad2 : ndarray (d,)
        Its gradient.
    """

    t1: FloatArray
    t2: FloatArray
    factor: Factor
    mean: FloatArray
    tilt: Tilted
    value: float
    grad1: FloatArray
    grad2: FloatArray


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


@dataclass(slots=True)
class _Effort:
    """Factorisations so far, and how far accelerated outer steps may reach."""

    n_fac: int = 0
    reach: float = _REACH


def _evaluate(
    model: Model, v1: FloatArray, v2: FloatArray, t1: FloatArray, t2: FloatArray, effort: _Effort
) -> Inner | None:
    """Inner objective and gradient."""
    effort.n_fac += 1
    factor = model.gaussian.factor(t2)
    if factor is None:
        return None
    mean = factor.mean(t1)
    tilt = tilted(v1 - t1, v2 - t2, model.prior)
    value = model.gaussian.log_z(factor, t1, mean) + float(np.sum(tilt.log_norm))
    grad2 = 0.5 * (tilt.var + tilt.mean**2 - factor.var - mean**2)
    moving = ~model.prior.always_in
    return Inner(t1, t2, factor, mean, tilt, value, moving * (mean - tilt.mean), moving * grad2)


def _held(point: Inner, low: FloatArray, high: FloatArray) -> BoolArray:
    """Sites at a bound that the gradient pushes against, or that do not move at all."""
    margin = 1e-10 * high
    still = low == high
    below = (point.t2 <= low + margin) & (point.grad2 > 0)
    return still | below | ((point.t2 >= high - margin) & (point.grad2 < 0))


def _newton_step(
    point: Inner, moving: BoolArray, free: BoolArray, bounds: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Step in (t1, t2) to the minimum of the quadratic model within the bounds on t2.

    The Hessian is the covariance of (w, -w^2 / 2) under Q plus that under P; positive definite. Where no d
    x d array may be built, the bounds are only respected by keeping t2 outside ``free`` where it is.
    """
    if not isinstance(point.factor, PrimalFactor):
        return _newton_step_cg(point, moving, free)
    c11, c12, c22 = curvature(point.tilt)
    d, m, cov = point.mean.size, point.mean, point.factor.cov()
    hess = np.empty((2 * d, 2 * d))
    hess[:d, :d] = cov + np.diag(c11)
    hess[:d, d:] = -cov * m - np.diag(0.5 * c12)
    hess[d:, d:] = 0.5 * point.factor.square() + cov * np.outer(m, m) + np.diag(0.25 * c22)
    between = coupling(point.tilt)
    if between is not None:
        b11, b12, b22 = between.blocks(np.arange(d))
        hess[:d, :d] += b11
        hess[:d, d:] -= 0.5 * b12
        hess[d:, d:] += 0.25 * b22
    hess[d:, :d] = hess[:d, d:].T
    step = _bounded_quadratic(
        hess,
        np.concatenate([point.grad1, point.grad2]),
        np.concatenate([np.where(moving, -np.inf, 0.0), bounds[0] - point.t2]),
        np.concatenate([np.where(moving, np.inf, 0.0), bounds[1] - point.t2]),
    )
    return step[:d], step[d:]


def _bounded_quadratic(hess: FloatArray, grad: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Minimise ``grad' x + x' hess x / 2`` within bounds by guessing the active set until it repeats."""
    scale = 1.0 / np.sqrt(hess.diagonal())
    hess, grad, low, high = hess * np.outer(scale, scale), grad * scale, low / scale, high / scale
    x = np.zeros_like(grad)
    fixed = np.zeros(grad.size, dtype=bool)
    for _ in range(_ACTIVE_SETS):
        free = np.flatnonzero(~fixed)
        pull = grad[free] + hess[np.ix_(free, np.flatnonzero(fixed))] @ x[fixed]
        chol, info = lapack.dpotrf(hess[np.ix_(free, free)], lower=1)
        if info:
            break
        x[free] = -lapack.dpotrs(chol, pull, lower=1)[0]
        force = grad + hess @ x
        now = (x < low) | (x > high) | (fixed & (((x <= low) & (force > 0)) | ((x >= high) & (force < 0))))
        x = np.clip(x, low, high)
        if np.array_equal(now, fixed):
            break
        fixed = now
    return x * scale


def _newton_step_cg(point: Inner, moving: BoolArray, free: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Newton step on what is free by conjugate gradients with a diagonal preconditioner."""
    rhs = -np.concatenate([point.grad1, np.where(free, point.grad2, 0.0)])
    c11, c12, c22 = curvature(point.tilt)
    d, m, z = point.mean.size, point.mean, point.factor.var
    own = np.concatenate([z + c11, 0.5 * z**2 + m**2 * z + 0.25 * c22])
    either = np.concatenate([moving, free])
    between = coupling(point.tilt)

    def times(x: FloatArray) -> FloatArray:
        x1, x2 = np.where(moving, x[:d], 0.0), np.where(free, x[d:], 0.0)
        linear = point.factor.solve(x1 - m * x2)
        top = linear + c11 * x1 - 0.5 * c12 * x2
        low = 0.5 * point.factor.square_times(x2) - m * linear - 0.5 * c12 * x1 + 0.25 * c22 * x2
        if between is not None:
            of_w, of_square = between.times(x1, -0.5 * x2)
            top, low = top + of_w, low - 0.5 * of_square
        return np.where(either, np.concatenate([top, low]), own * x)

    step = np.where(either, conjugate_gradients(times, lambda r: r / own, rhs, _INNER_CG, 1e-4), 0.0)
    return step[:d], step[d:]


def solve_inner(
    model: Model, v1: FloatArray, v2: FloatArray, t1: FloatArray, t2: FloatArray, floor: float, effort: _Effort
) -> Inner | None:
    """Minimise ``log Z(t) + sum log Zhat(v - t)`` over ``floor <= t2 <= v2 - floor`` by projected Newton."""
    moving = ~model.prior.always_in
    own = 1.0 / model.prior.slab_var
    bounds = np.where(moving, floor, own), np.where(moving, v2 - floor, own)
    point = _evaluate(model, v1, v2, t1, np.clip(t2, *bounds), effort)
    for _ in range(_INNER_MAXITER):
        if point is None:
            return None
        free = ~_held(point, *bounds)
        var = np.minimum(point.factor.var, point.tilt.var)
        gap = np.abs(point.grad1) / np.sqrt(var) + np.where(free, 2.0 * np.abs(point.grad2) / var, 0.0)
        if np.max(gap) <= _INNER_TOL:
            break
        d1, d2 = _newton_step(point, moving, free, bounds)
        new = _line_search(model, v1, v2, point, d1, d2, bounds, effort)
        if new is None:
            break
        point = new
    return point


def _line_search(
    model: Model,
    v1: FloatArray,
    v2: FloatArray,
    point: Inner,
    d1: FloatArray,
    d2: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    effort: _Effort,
) -> Inner | None:
    """Backtrack along the projected direction; None when nothing lowers the objective any more."""
    length = 1.0
    for _ in range(_BACKTRACKS):
        t2 = np.clip(point.t2 + length * d2, *bounds)
        t1 = point.t1 + length * d1
        new = _evaluate(model, v1, v2, t1, t2, effort)
        if new is not None:
            slope = float(point.grad1 @ (t1 - point.t1) + point.grad2 @ (t2 - point.t2))
            if slope < 0 and new.value <= point.value + 1e-4 * slope:
                return new
            if abs(slope) < _ROUNDING * (1.0 + abs(point.value)):
                return None
        length *= 0.5
    return None


def _first_point(model: Model, t1: FloatArray, t2: FloatArray, floor: float, effort: _Effort) -> Outer | None:
    """Outer point at the marginals that the sites to start from give."""
    effort.n_fac += 1
    factor = model.gaussian.factor(t2)
    if factor is None:
        return None
    v2 = np.maximum(1.0 / factor.var, t2 + 2.0 * floor)
    return _outer_point(model, factor.mean(t1) * v2, v2, (t1, t2), floor, effort)


def _outer_point(
    model: Model, v1: FloatArray, v2: FloatArray, sites: tuple[FloatArray, FloatArray], floor: float, effort: _Effort
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
    held = _held(outer.inner, np.full(d, floor), outer.v2 - floor)
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


def run_convergent(model: Model, t1: FloatArray, t2: FloatArray, *, tol: float = 1e-4, maxiter: int = 1000) -> Run:
    """Run the double loop, with a projected Newton method inside and safeguarded acceleration outside.

    An accelerated v (by Newton's method where the d x d covariance is at hand, else by Anderson's
    extrapolation) is kept only if the energy falls there; else the paper's own update follows, which cannot
    raise it. Stops when that update would move no marginal mean by more than ``tol`` standard deviations
    and no marginal variance by more than the fraction ``tol``.

    Parameters
    ----------
    model : Model
        Likelihood and prior.
    t1, t2 : ndarray (d,)
        Sites to start from.
    tol : float
        Tolerance of the residual.
    maxiter : int
        Outer iterations at most; also at most 50 covariance evaluations for each, on average.

    Returns
    -------
    Run
        ``energies`` is E after each outer iteration; it never rises.
    """
    floor = FLOOR / model.prior.slab_var
    effort = _Effort()
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
        if new is not None and new.energy > outer.energy + _ROUNDING * (1.0 + abs(outer.energy)):
            break
        outer = new
    if outer is None:
        return Run(None, np.inf, False, len(energies), effort.n_fac, tuple(energies))
    state = model.state(outer.inner.t1, outer.inner.t2, cavity_floor=FLOOR)
    return Run(state, residual, residual <= tol, len(energies), effort.n_fac + 1, tuple(energies))


def _advance(
    model: Model,
    outer: Outer,
    plain: tuple[FloatArray, FloatArray],
    history: deque[tuple[FloatArray, FloatArray]],
    floor: float,
    effort: _Effort,
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
