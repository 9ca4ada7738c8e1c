"""A Newton direction for the EP energy at the price of a few factorisations, whatever d.

The Hessian of G couples (m, t2) of all columns, but only few columns are undecided; the others sit at the
spike, where their block is nearly diagonal in t2. So: the columns with the largest posterior variances (the
*core*, c of them) get the exact 2c x 2c block; the means of the others are coupled through the likelihood by
Woodbury's formula; their t2 are treated as separate, and what couples the columns of a group outside the core is
left to conjugate gradients. What is indefinite is made definite, hence every direction falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, eigh, lapack

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.algorithms.energy import Curvature, EnergyPoint, separable_curvature, slopes
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.linalg.conjugate_gradients import conjugate_gradients

#: Least curvature allowed, in units of the posterior variances.
_LEAST = 0.05
_LEAST_CORE = 1e-4
#: Accuracy of conjugate gradients.
_CG_TOL = 0.1


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction in which G falls.

    Attributes
    ----------
    mean, t2 : ndarray (d,)
        Changes of m and t2.
    slope : float
        Directional derivative of G, negative.
    """

    mean: FloatArray
    t2: FloatArray
    slope: float


def choose_core(point: EnergyPoint, curv: Curvature, size: int) -> IntArray:
    """Pick the ``size`` columns with the largest variances, those with too little curvature in m first.

    Columns of a group go together, but for the last group that finds room.
    """
    d = point.mean.size
    if size >= d:
        return np.arange(d)
    score = np.where(curv.mm * point.var <= _LEAST, np.inf, point.var)
    if curv.coupling is not None:
        groups = curv.coupling.groups
        largest = np.zeros(int(groups.max()) + 1)
        np.maximum.at(largest, groups, score)
        return np.sort(np.lexsort((groups, -largest[groups]))[:size])
    return np.sort(np.argpartition(-score, size)[:size])


def _core_hessian(core: IntArray, data_part: FloatArray, point: EnergyPoint, curv: Curvature) -> FloatArray:
    """Hessian of G in the core's scaled (m, t2), 2c x 2c; ``data_part`` (c, c) is the likelihood's share.

    With ``M = A^-1 o A^-1`` restricted to the core and without the term that vanishes at stationary points:
    ``[[data + diag(mm), -diag(mz) M], [., M / 2 + M diag(zz) M / 2]]``, m in units of sd, t2 of 1 / z.
    """
    z = point.var[core]
    sd = np.sqrt(z)
    square = point.factor.cov_block(core) ** 2 / np.outer(z, z)
    h_mm = data_part * np.outer(sd, sd)
    h_mm.flat[:: core.size + 1] += curv.mm[core] * z
    h_mt = -(curv.mz[core] * z * sd)[:, None] * square
    h_tt = 0.5 * square + 0.5 * (square * (curv.zz[core] * z**2)) @ square
    if curv.coupling is not None:
        between_mm, between_mz, between_zz = curv.coupling.blocks(core)
        h_mm += between_mm * np.outer(sd, sd)
        h_mt -= (between_mz * np.outer(sd, z)) @ square
        h_tt += square @ (between_zz * np.outer(z, z)) @ square
    hess = np.empty((2 * core.size, 2 * core.size), order="F")
    c = core.size
    hess[:c, :c], hess[:c, c:], hess[c:, :c], hess[c:, c:] = h_mm, h_mt, h_mt.T, 0.5 * (h_tt + h_tt.T)
    return hess


def _definite_solver(hess: FloatArray, shift: float) -> Callable[[FloatArray], FloatArray]:
    """Inverse of the matrix plus a shift if that is safely definite, else with its eigenvalues' moduli."""
    trial = hess.copy(order="F")
    trial.flat[:: hess.shape[0] + 1] += shift
    chol, info = lapack.dpotrf(trial, lower=1, overwrite_a=1)
    if info == 0 and np.min(chol.diagonal()) ** 2 > _LEAST_CORE:
        return lambda rhs: lapack.dpotrs(chol, rhs, lower=1)[0]
    lam, vec = eigh(hess)
    lam = np.maximum(np.abs(lam), _LEAST_CORE) + shift
    return lambda rhs: vec @ ((vec.T @ rhs) / lam)


@dataclass(frozen=True, slots=True)
class _Block:
    """The block approximation of the Hessian, factorised; k rows of data, c core columns.

    Attributes
    ----------
    core, other : ndarray (c,), (d - c,)
        Indices.
    z : ndarray (d,)
        Posterior variances, which set the units.
    hess : ndarray (2c, 2c)
        Scaled Hessian of the core.
    half_core, half : ndarray (k, c), (k, d - c)
        ``L^-1 X_core`` and ``L^-1 X_other diag(weight)``, ``L L' = s2 I + X_other diag(weight^2) X_other'``.
    weight : ndarray (d - c,)
        Inverse square roots of the other columns' own curvature in m.
    own : ndarray (d - c,)
        Their curvature in t2, in units of ``z^2``.
    shift : float
        Regularisation.
    """

    core: IntArray
    other: IntArray
    z: FloatArray
    hess: FloatArray
    half_core: FloatArray
    half: FloatArray
    weight: FloatArray
    own: FloatArray
    shift: float

    @classmethod
    def build(cls, model: EPModel, point: EnergyPoint, curv: Curvature, core_size: int, shift: float) -> _Block:
        """Set up with a core of so many columns."""
        z, root = point.var, model.likelihood.data.root
        core = choose_core(point, curv, core_size)
        other = np.setdiff1d(np.arange(z.size), core, assume_unique=True)
        weight = 1.0 / np.sqrt(np.maximum(curv.mm[other], _LEAST / z[other]) + shift / z[other])
        scaled = root[:, other] * weight
        k = scaled @ scaled.T
        k.flat[:: k.shape[0] + 1] += model.likelihood.noise_var
        chol, _ = lapack.dpotrf(k, lower=1)
        half_core = blas.dtrsm(1.0, chol, root[:, core], lower=1)
        half = blas.dtrsm(1.0, chol, scaled.T, side=1, lower=1, trans_a=1).T
        own = np.maximum(0.5 * (1.0 + curv.zz[other] * z[other] ** 2), _LEAST) + shift
        # The likelihood's Hessian X'X / s2 with the other means eliminated is X_c' K^-1 X_c.
        hess = _core_hessian(core, half_core.T @ half_core, point, curv)
        return cls(core, other, z, hess, half_core, half, weight, own, shift)

    def solver(self) -> Callable[[FloatArray], FloatArray]:
        """Return the inverse, on stacked vectors (2d,) in units of sd (m) and 1 / z (t2)."""
        core_solve = _definite_solver(self.hess, self.shift)
        c, d = self.core.size, self.z.size
        sd = np.sqrt(self.z)

        def solve(r: FloatArray) -> FloatArray:
            r_m, r_t2 = r[:d] / sd, r[d:]
            r_other = self.weight * r_m[self.other]
            seen = self.half @ r_other
            rhs = np.concatenate([(r_m[self.core] - self.half_core.T @ seen) * sd[self.core], r_t2[self.core]])
            x = core_solve(rhs)
            out = np.empty(2 * d)
            out[self.core], out[d + self.core] = x[:c], x[c:]
            back = self.half.T @ (self.half_core @ (x[:c] * sd[self.core]) + seen)
            out[self.other] = self.weight * (r_other - back) / sd[self.other]
            out[d + self.other] = r_t2[self.other] / self.own
            return out

        return solve


def newton_direction(model: EPModel, point: EnergyPoint, core_size: int, shift: float, refine: int) -> Direction:
    """Newton direction from a core of ``core_size`` columns and ``refine`` conjugate-gradient iterations.

    Parameters
    ----------
    model : EPModel
        Likelihood and prior.
    point : EnergyPoint
        Where G stands.
    core_size : int
        Number of columns with an exact block.
    shift : float
        Added to the scaled Hessian (Levenberg-Marquardt).
    refine : int
        Iterations of conjugate gradients on the full Hessian, preconditioned by the block approximation. Each
        takes two products with ``A^-1 o A^-1``. With none the direction is the block approximation's.

    Returns
    -------
    Direction
        A descent direction; zero where numbers have left the range of floats.
    """
    grad_m, gap = slopes(model, point)
    grad_t2 = -0.5 * point.factor.square_times(gap)
    curv = separable_curvature(point)
    z = point.var
    d, sd = z.size, np.sqrt(z)
    block = _Block.build(model, point, curv, core_size, shift)
    rhs = -np.concatenate([grad_m * sd, grad_t2 / z])
    if not (np.all(np.isfinite(block.hess)) and np.all(np.isfinite(rhs))):
        return Direction(np.zeros(d), np.zeros(d), 0.0)
    solve = block.solver()
    times = _hessian(model, point, curv, shift)
    step = conjugate_gradients(times, solve, rhs, refine, _CG_TOL) if refine else solve(rhs)
    d_mean, d_t2 = step[:d] * sd, step[d:] / z
    d_t2[model.prior.always_in] = 0.0
    d_mean, d_t2 = model.symmetric(d_mean, d_t2)
    return Direction(d_mean, d_t2, float(grad_m @ d_mean + grad_t2 @ d_t2))


def _hessian(model: EPModel, point: EnergyPoint, curv: Curvature, shift: float) -> Callable[[FloatArray], FloatArray]:
    """Products with the full scaled Hessian plus ``shift``; see :func:`_core_hessian`."""
    z, likelihood = point.var, model.likelihood
    d, sd = z.size, np.sqrt(z)

    def times(x: FloatArray) -> FloatArray:
        d_mean = x[:d] * sd
        change = point.factor.square_times(x[d:] / z)
        top = likelihood.gram_times(d_mean) + curv.mm * d_mean - curv.mz * change
        slope_z = 0.5 * curv.zz * change - curv.mz * d_mean
        if curv.coupling is not None:
            between_m, between_z = curv.coupling.times(d_mean, -change)
            top, slope_z = top + between_m, slope_z - between_z
        low = 0.5 * change + point.factor.square_times(slope_z)
        return np.concatenate([sd * top, low / z]) + shift * x

    return times
