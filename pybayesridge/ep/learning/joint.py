"""EP and learning at once: every sweep moves the sites and the hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ep.algorithms.damped import FLOOR
from pybayesridge.ep.algorithms.solve import first_sites, model_of
from pybayesridge.ep.algorithms.state import EPModel, State
from pybayesridge.ep.learning.objective import Objective, Warm
from pybayesridge.ep.model.groups import one_of_each
from pybayesridge.ep.model.result import ColumnSites

#: Steps of the hyperparameters relative to those of the EM algorithm, and their limit.
_OVER = 1.5
_STEP_MAX = 1.0
_DAMPING = 0.7
#: Tolerance under the floor, from where on the sweeps do without it, and when they do so in any case.
_FLOOR_TOL = 1e-2
_FLOOR_MAXITER = 30
#: Damping without a floor is multiplied by these where the residual has fallen or risen, and its least value.
_MORE, _LESS, _LEAST = 1.2, 0.6, 0.1
_BACKTRACKS = 4
#: Sweeps without a floor in which the residual has to have fallen.
_PATIENCE = 6


@dataclass(frozen=True, slots=True)
class Joint:
    """Where joint sweeps ended.

    Attributes
    ----------
    x : (k,) array
    warm : Warm or None
        Sites there; None where not even the first Gaussian exists.
    residual : float
        Of the sites, without a floor.
    step : float
        The largest next step of a hyperparameter.
    settled : bool
        Whether both are within their tolerances.
    """

    x: FloatArray
    warm: Warm | None
    residual: float
    step: float
    settled: bool


def joint_sweeps(
    objective: Objective,
    x: FloatArray,
    start: Warm | None,
    *,
    tol: float,
    maxiter: int,
    moving: BoolArray | None = None,
) -> Joint:
    """Sweep until neither sites nor hyperparameters move.

    Parameters
    ----------
    objective : Objective
    x : (k,) array
        Where to start.
    start : Warm, optional
        Sites to start from. They come from a solution nearby, and precisions have no floor then.
    tol : float
        Tolerance of the residual of the sites and of the steps in x.
    maxiter : int
        Sweeps at most.
    moving : (k,) bool array, optional
        The elements of x that move; all by default.

    Returns
    -------
    Joint
        Where they ended.
    """
    h = objective.place.hyper(x)
    used = h.prior_inclusion > 0
    if not used.any():
        return Joint(x, None, np.inf, np.inf, False)
    with np.errstate(all="ignore"):
        model = model_of(h.likelihood(objective.data), h.prior_inclusion, h.slab_var, used, objective.groups)
        t1, t2, _ = first_sites(model, used, None if start is None else start.at(h.noise_var))
        run = _Run(objective, used, model, np.ones(x.size, bool) if moving is None else moving, tol)
        if start is None:
            first = run.sweep(x, t1, t2, FLOOR, min(_FLOOR_MAXITER, maxiter))
            if first.settled or first.warm is None:
                return first
            x, t1, t2 = first.x, first.warm.sites.site1[used], first.warm.sites.site2[used]
            second = run.sweep(x, t1, t2, None, maxiter - _FLOOR_MAXITER)
            return first if second.warm is None else second
        return run.sweep(x, t1, t2, None, maxiter)


@dataclass(slots=True)
class _Run:
    """Joint sweeps with and without a floor."""

    objective: Objective
    used: BoolArray
    model: EPModel
    moving: BoolArray
    tol: float

    def sweep(self, x: FloatArray, t1: FloatArray, t2: FloatArray, floor: float | None, maxiter: int) -> Joint:
        """From x and the sites, under a floor until that has settled, or without.

        Without a floor steps are shortened where the next Gaussian or a cavity does not exist, and damping adapts.
        """
        objective, model, cavity_floor = self.objective, self.model, None if floor is None else 0.0
        out, before, since = Joint(x, None, np.inf, np.inf, False), np.inf, 0
        state, share = model.state(t1, t2, cavity_floor=cavity_floor), _DAMPING
        for _ in range(maxiter):
            objective.n_fac += 1
            if state is None:
                break
            step = np.where(self.moving, hyper_step(objective, x, model, state), 0.0)
            # A step against a bound is none.
            step = objective.place.clip(x + step) - x
            largest, residual = float(np.max(np.abs(step), initial=0.0)), model.residual(state)
            if floor is not None or residual < out.residual:
                warm = Warm(self._spread(state), model.likelihood.noise_var)
                out = Joint(x, warm, residual, largest, max(residual, largest) <= self.tol)
                since = 0
            else:
                since += 1
            if out.settled or since >= _PATIENCE:
                break
            if floor is not None and max(largest, model.residual(state, floor)) <= max(self.tol, _FLOOR_TOL):
                break
            if floor is None:
                share = np.clip(share * (_MORE if residual < before else _LESS), _LEAST, _DAMPING)
            before = residual
            new1, new2 = model.target_sites(state, floor)
            old, from_x = state, x
            for _ in range(_BACKTRACKS):
                scale = 1.0 if floor is not None else min(share / _DAMPING, 1.0)
                x = from_x + scale * step
                h = objective.place.hyper(x)
                ratio = model.likelihood.noise_var / h.noise_var
                t1 = ratio * (old.t1 + share * (new1 - old.t1))
                t2 = ratio * (old.t2 + share * (new2 - old.t2))
                trial = model.at(h.prior_inclusion[self.used], h.slab_var, h.noise_var)
                state = trial.state(t1, t2, cavity_floor=cavity_floor)
                if state is not None or floor is not None:
                    break
                objective.n_fac += 1
                share *= 0.5
            model = trial
        self.model = model
        return out

    def _spread(self, state: State) -> ColumnSites:
        t1, t2 = np.zeros(self.used.size), np.full(self.used.size, np.inf)
        t1[self.used], t2[self.used] = state.t1, state.t2
        return ColumnSites(t1, t2)


def hyper_step(objective: Objective, x: FloatArray, model: EPModel, state: State) -> FloatArray:
    """The step in x that a state of the sites asks for, (k,).

    log s2 at a fixed v / s2 goes to its maximum for a fixed set of columns; the others take steps of the EM
    algorithm, slope over the information there would be if the inclusions were known, lengthened.
    """
    place, tilt = objective.place, state.tilt
    r = one_of_each(tilt.prob, tilt.groups)
    p = one_of_each(np.exp(model.prior.log_p), tilt.groups)
    v, nu = model.prior.slab_var, objective.data.nu
    size = float(np.sum(tilt.prob))
    of_v = 0.5 * float(np.sum(tilt.prob * ((tilt.slab_mean**2 + tilt.slab_var) / v - 1.0)))
    of_s2 = model.likelihood.slope(state.mean, float(np.sum(1.0 - state.t2 * state.var)))
    slopes = place.slopes(x)
    grad = np.array([float(np.sum(r - p)), of_v, of_s2]) @ slopes + place.log_prior(x)[1]
    both = bool(place.axes[2])
    information = np.array([float(np.sum(p * (1.0 - p))), 0.5 * size, 0.0 if both else 0.5 * nu])
    k = x.size - both
    matrix = slopes[:, :k].T @ (information[:, None] * slopes[:, :k]) + np.diag(place.curvature(x)[:k])
    out = np.zeros(x.size)
    if k:
        out[:k] = _OVER * np.linalg.solve(matrix + 1e-12 * np.eye(k), grad[:k])
    if both:
        out[-1] = np.log(max(1.0 + 2.0 * grad[-1] / nu, 1e-8))
    return np.clip(out, -_STEP_MAX, _STEP_MAX)
