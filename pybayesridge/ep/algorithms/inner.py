"""The inner problem of PC-EP: a concave function of the sites, maximised with the marginals held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.ep.model.gaussian import Factor, PrimalFactor
from pybayesridge.ep.model.prior import TiltedCoefficients, coupling, curvature, tilted
from pybayesridge.linalg.conjugate_gradients import conjugate_gradients

_INNER_TOL = 1e-7


_INNER_MAXITER = 100


_INNER_CG = 200


_BACKTRACKS = 30


_ACTIVE_SETS = 25


#: Longest accelerated step at first, in standard deviations and in log precisions.
REACH = 1.0


#: A fall of the energy below this fraction of it is rounding.
ROUNDING = 1e-11


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
    tilt : TiltedCoefficients
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
    tilt: TiltedCoefficients
    value: float
    grad1: FloatArray
    grad2: FloatArray


@dataclass(slots=True)
class Effort:
    """Factorisations so far, and how far accelerated outer steps may reach."""

    n_fac: int = 0
    reach: float = REACH


def evaluate(
    model: EPModel, v1: FloatArray, v2: FloatArray, t1: FloatArray, t2: FloatArray, effort: Effort
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


def held_sites(point: Inner, low: FloatArray, high: FloatArray) -> BoolArray:
    """Sites at a bound that the gradient pushes against, or that do not move at all."""
    margin = 1e-10 * high
    still = low == high
    below = (point.t2 <= low + margin) & (point.grad2 > 0)
    return still | below | ((point.t2 >= high - margin) & (point.grad2 < 0))


def newton_step(
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
    model: EPModel, v1: FloatArray, v2: FloatArray, t1: FloatArray, t2: FloatArray, floor: float, effort: Effort
) -> Inner | None:
    """Minimise ``log Z(t) + sum log Zhat(v - t)`` over ``floor <= t2 <= v2 - floor`` by projected Newton."""
    moving = ~model.prior.always_in
    own = 1.0 / model.prior.slab_var
    bounds = np.where(moving, floor, own), np.where(moving, v2 - floor, own)
    point = evaluate(model, v1, v2, t1, np.clip(t2, *bounds), effort)
    for _ in range(_INNER_MAXITER):
        if point is None:
            return None
        free = ~held_sites(point, *bounds)
        var = np.minimum(point.factor.var, point.tilt.var)
        gap = np.abs(point.grad1) / np.sqrt(var) + np.where(free, 2.0 * np.abs(point.grad2) / var, 0.0)
        if np.max(gap) <= _INNER_TOL:
            break
        d1, d2 = newton_step(point, moving, free, bounds)
        new = _line_search(model, v1, v2, point, d1, d2, bounds, effort)
        if new is None:
            break
        point = new
    return point


def _line_search(
    model: EPModel,
    v1: FloatArray,
    v2: FloatArray,
    point: Inner,
    d1: FloatArray,
    d2: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    effort: Effort,
) -> Inner | None:
    """Backtrack along the projected direction; None when nothing lowers the objective any more."""
    length = 1.0
    for _ in range(_BACKTRACKS):
        t2 = np.clip(point.t2 + length * d2, *bounds)
        t1 = point.t1 + length * d1
        new = evaluate(model, v1, v2, t1, t2, effort)
        if new is not None:
            slope = float(point.grad1 @ (t1 - point.t1) + point.grad2 @ (t2 - point.t2))
            if slope < 0 and new.value <= point.value + 1e-4 * slope:
                return new
            if abs(slope) < ROUNDING * (1.0 + abs(point.value)):
                return None
        length *= 0.5
    return None
