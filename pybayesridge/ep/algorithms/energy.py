"""The EP energy as a function of means and site precisions, with the cavities eliminated.

    G(m, t2) = nu/2 log 2 pi s2 + ||y - X m||^2 / (2 s2) + 1/2 log|A(t2)|
               + sum_i [1/2 - t2_i z_i / 2 + log(z_i) / 2 + h*_i(m_i, z_i + m_i^2)],   z = diag A(t2)^-1,

h* the convex conjugate of the log tilted normaliser; of a group of columns one function of all its moments. The
stationary points of G are exactly EP's fixed points, and there G is minus the log evidence. Site precisions may be
negative: only A has to be positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.algorithms.state import CAVITY_FLOOR, EPModel, State
from pybayesridge.ep.model.gaussian import Factor
from pybayesridge.ep.model.groups import Coupling
from pybayesridge.ep.model.prior import (
    TiltedCoefficients,
    cavity_of_moments,
    conjugate,
    inverse_coupling,
    inverse_curvature,
    tilted,
)


@dataclass(frozen=True, slots=True)
class EnergyPoint:
    """A point (m, t2) of the energy; d coefficients.

    Attributes
    ----------
    mean, t2 : ndarray (d,)
        Its coordinates.
    factor : Factor
        The factorised A(t2).
    cavity : TiltedCoefficients
        The cavities whose tilted moments are (mean, z).
    energy : float
        G.
    """

    mean: FloatArray
    t2: FloatArray
    factor: Factor
    cavity: TiltedCoefficients
    energy: float

    @property
    def var(self) -> FloatArray:
        """z, shape (d,)."""
        return self.factor.var


@dataclass(frozen=True, slots=True)
class Curvature:
    """Second derivatives of the separable part of G in (m_i, z_i); every array has shape (d,).

    Attributes
    ----------
    mm, mz, zz : ndarray (d,)
        ``[[mm, mz], [mz, zz / 2]]`` is the Hessian of ``h*(m, z + m^2) + log(z) / 2``.
    coupling : Coupling or None
        What there is between the columns of a group.
    """

    mm: FloatArray
    mz: FloatArray
    zz: FloatArray
    coupling: Coupling | None = None


def energy_point(
    model: EPModel, mean: FloatArray, t2: FloatArray, factor: Factor | None = None
) -> EnergyPoint | None:
    """Evaluate G, factorising A(t2) unless its factor is given; None when A is not positive definite."""
    factor = factor or model.gaussian.factor(t2)
    if factor is None or not np.all(np.isfinite(mean)):
        return None
    z, likelihood = factor.var, model.likelihood
    cavity = cavity_of_moments(mean, z, model.prior)
    sites = 0.5 * (1.0 - t2 * z + np.log(z)) + conjugate(cavity, mean, z)
    energy = 0.5 * (likelihood.misfit(mean) + factor.log_det) + float(np.sum(sites))
    return EnergyPoint(mean, t2, factor, cavity, float(energy - likelihood.log_norm))


def slopes(model: EPModel, point: EnergyPoint) -> tuple[FloatArray, FloatArray]:
    """Gradient of G in m, and the gap ``1 / z - h2 - t2``; both (d,).

    The gradient in t2 is ``-(A^-1 o A^-1) gap / 2``; the matrix is positive definite, so the gap vanishes at
    stationary points only and is always a descent direction.
    """
    grad_mean = point.cavity.h1 - point.cavity.h2 * point.mean - model.likelihood.gradient(point.mean)
    gap = 1.0 / point.var - point.cavity.h2 - point.t2
    return grad_mean, np.where(model.prior.always_in, 0.0, gap)


def separable_curvature(point: EnergyPoint) -> Curvature:
    """Second derivatives of the separable part of G."""
    m = point.mean
    p11, p12, p22 = inverse_curvature(point.cavity)
    between = inverse_coupling(point.cavity)
    if between is not None:
        between = replace(between, first=between.first + 2.0 * m * between.second)
    return Curvature(
        mm=p11 + 4.0 * m * (p12 + m * p22) - point.cavity.h2,
        mz=p12 + 2.0 * m * p22,
        zz=2.0 * p22 - 1.0 / point.var**2,
        coupling=between,
    )


def state_of_point(model: EPModel, point: EnergyPoint) -> State | None:
    """Build the EP state with this mean and these site precisions; None when a cavity does not exist."""
    t1 = point.t2 * point.mean - model.likelihood.gradient(point.mean)
    h2 = point.factor.cavity2
    if np.any(h2 * model.prior.slab_var <= CAVITY_FLOOR):
        return None
    h1 = point.mean / point.var - t1
    return State(t1, point.t2, point.factor, point.mean, tilted(h1, h2, model.prior))
