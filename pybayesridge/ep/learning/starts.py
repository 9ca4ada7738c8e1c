"""Where learning starts: joint sweeps from few and from many columns."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray
from pybayesridge.ep.learning.joint import joint_sweeps
from pybayesridge.ep.learning.objective import Objective, Trial, Warm
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.result import ColumnSites

#: Shares of the response's variance that are noise at the two starts, and the columns in a row of the second.
_NOISES = (0.5, 0.05)
_MANY = 0.2
#: How roughly sites and hyperparameters settle, and sweeps at most: before starts are compared, and after.
_TOL = 1e-2
_SWEEPS = 40
_MORE_SWEEPS = 60
#: Starts that come as near as this in every coordinate lead to the same mode.
_SAME = 0.3


def start_points(objective: Objective) -> list[FloatArray]:
    """As few columns as expected and much noise, or many and little noise; the slab explains the rest.

    Where there is hardly any noise also what a forward selection explains: it is far from both.
    """
    place, data = objective.place, objective.data
    given, unit = place.given, objective.noise_unit
    few = expit(place.prior.center)
    many = _MANY * min(data.nu / max(data.n_columns, 1), 1.0)
    out: list[FloatArray] = []
    for p, noise in zip((few, many), _NOISES, strict=True):
        shared = given.prior_inclusion is None
        s2 = noise * unit if given.noise_var is None else given.noise_var
        spread = np.exp(place.prior.log_spread) * (p if shared else 1.0)
        v = max(unit - s2, 0.1 * unit) / spread if given.slab_var is None else given.slab_var
        out.append(_placed(objective, p, float(v), float(s2)))
    if objective.strong is not None:
        out.append(_placed(objective, *objective.strong))
    return out


def _placed(objective: Objective, p: float, v: float, s2: float) -> FloatArray:
    """The x of these hyperparameters, and of given p_j."""
    given, d = objective.place.given.prior_inclusion, objective.data.n_columns
    return objective.place.place(Hyperparameters(np.full(d, p) if given is None else given, v, s2))


def rough_modes(objective: Objective, start: tuple[Hyperparameters, ColumnSites] | None = None) -> list[Trial]:
    """Fits near the maxima that the starts lead to, the highest first.

    Parameters
    ----------
    objective : Objective
    start : (Hyperparameters, ColumnSites), optional
        Where to start instead.
    """
    if start is not None:
        x = objective.place.place(start[0])
        return [_settle(objective, x, Warm(start[1], objective.place.hyper(x).noise_var))]
    found: list[Trial] = []
    for x in start_points(objective):
        joint = joint_sweeps(objective, x, None, tol=_TOL, maxiter=_SWEEPS)
        if any(np.max(np.abs(joint.x - t.x), initial=0.0) <= _SAME for t in found):
            continue
        found.append(_settle(objective, joint.x, joint.warm) if found else _evaluate(objective, joint.x, joint.warm))
    return sorted(found, key=lambda t: (not t.result.converged, -t.value))


def _settle(objective: Objective, x: FloatArray, warm: Warm | None) -> Trial:
    joint = joint_sweeps(objective, x, warm, tol=_TOL, maxiter=_MORE_SWEEPS)
    return _evaluate(objective, joint.x, joint.warm or warm)


def _evaluate(objective: Objective, x: FloatArray, warm: Warm | None) -> Trial:
    return objective.evaluate(x, warm, tol=_TOL, maxiter=_MORE_SWEEPS)
