"""Hyperparameters from the data, by maximising EP's evidence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.learning.objective import Objective, Trial, build_objective
from pybayesridge.ep.learning.starts import rough_modes
from pybayesridge.ep.model.groups import one_of_each
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites, EPResult

NAMES = ("prior_inclusion", "slab_var", "noise_var")
#: EP's iterations at the end if it has not settled.
_LAST_MAXITER = 1000
#: A second mode so many nats below the first is not followed.
_WORTH_CLIMBING = 3.0
_STEP_MAX = 1.5
#: Expected rises of the objective (nats) at which a maximum is reached, and at which being stuck is no loss.
_RISE_LEFT = 1e-5
_RISE_STUCK = 0.05
_PATTERN_STEP = 0.4
_PATTERN_LEAST = 0.1
_PATTERN_MAXITER = 10
#: Unexplained change of the objective that still counts as continuous.
_SLACK = 0.02


@dataclass(frozen=True, slots=True)
class HyperFit:
    """Learned hyperparameters and the fit at them.

    Attributes
    ----------
    hyper : Hyperparameters
        All hyperparameters, learned or not.
    result : EPResult
        The EP approximation at them.
    learned : tuple of str
        Names of the learned ones.
    gradient : ndarray (len(learned),)
        Gradient of the objective in the coordinates of learning.
    objective : float
        Log evidence plus log prior of the learned ones.
    converged : bool
        Whether EP converged and the objective is at a maximum: by its gradient, or, where the gradient is
        not to be trusted, by trial steps.
    n_steps : int
        Values of the hyperparameters tried.
    n_fac : int
        Covariance evaluations in all.
    """

    hyper: Hyperparameters
    result: EPResult
    learned: tuple[str, ...]
    gradient: FloatArray
    objective: float
    converged: bool
    n_steps: int
    n_fac: int


def learn(
    data: Data,
    given: KnownHyperparameters | None = None,
    *,
    groups: IntArray | None = None,
    n: float | None = None,
    expected_size: float = 1.0,
    maxiter: int = 30,
    start: tuple[Hyperparameters, ColumnSites] | None = None,
) -> HyperFit:
    """Maximise EP's evidence times the prior over the hyperparameters left at None.

    The prior is that of :mod:`pybayesridge.ep.model.hyper_prior`, and the maximum that of the density of logit p, the
    log odds of the explained share, and log s2. Nothing depends on the units of y.

    Joint sweeps of sites and hyperparameters lead near the maximum. Quasi-Newton steps from there are kept only if
    the objective itself rises, since gradients are wrong where EP has not converged; when they no longer help, a
    pattern search makes sure or goes on.

    Parameters
    ----------
    data : Data
        Least-squares data.
    given : KnownHyperparameters, optional
        Those that are not learned; one probability is learned for all columns.
    groups : ndarray (d,) of int, optional
        Columns with equal numbers are in or out together.
    n : float, optional
        Rows, by default the degrees of freedom of the noise.
    expected_size : float
        Columns or groups expected to be in, in the middle of the prior.
    maxiter : int
        Quasi-Newton steps at most.
    start : (Hyperparameters, ColumnSites), optional
        Where to start.

    Returns
    -------
    HyperFit
        The best that was found.
    """
    objective = build_objective(data, given or KnownHyperparameters(), groups, n=n, expected_size=expected_size)
    found = rough_modes(objective, start)
    first = objective.evaluate(found[0].x, found[0])
    best, certain = _climb(objective, first, maxiter) if first.x.size else (first, True)
    for other in found[1:]:
        # Another mode is worth climbing only if it might end higher.
        if other.result.converged and other.value > best.value - _WORTH_CLIMBING:
            again, sure = _climb(objective, objective.evaluate(other.x, other), maxiter)
            if again.beats(best):
                best, certain = again, sure
    if not certain:
        best, certain = _pattern_search(objective, best)
    if not best.result.converged:
        best = objective.evaluate(best.x, best, maxiter=_LAST_MAXITER)
    return HyperFit(
        hyper=best.hyper,
        result=best.result,
        learned=learned_names(objective),
        gradient=best.grad,
        objective=best.value,
        converged=bool(certain and best.result.converged),
        n_steps=objective.n_steps,
        n_fac=objective.n_fac,
    )


def learned_names(objective: Objective) -> tuple[str, ...]:
    """Names of the hyperparameters that are not given."""
    return tuple(name for name, free in zip(NAMES, objective.place.free, strict=True) if free)


def _projected(objective: Objective, trial: Trial) -> FloatArray:
    """Gradient without the components that push against a bound."""
    low, high = objective.place.low, objective.place.high
    out = ((trial.x <= low) & (trial.grad < 0)) | ((trial.x >= high) & (trial.grad > 0))
    return np.where(out, 0.0, trial.grad)


def information(objective: Objective, trial: Trial) -> FloatArray:
    """Curvature to expect if the inclusions were known, shape (k, k): scales the first step."""
    r = trial.result.inclusion_prob
    p = one_of_each(trial.hyper.prior_inclusion, objective.groups)
    full = np.array([float(np.sum(p * (1.0 - p))), 0.5 * float(np.sum(r)), 0.5 * objective.data.nu])
    slopes = objective.place.slopes(trial.x)
    return np.asarray(slopes.T @ (full[:, None] * slopes) + 0.5 * np.eye(slopes.shape[1]))


def _climb(objective: Objective, trial: Trial, maxiter: int) -> tuple[Trial, bool]:
    """BFGS with bounds and a limit on the step; also whether it ended at a maximum of a converged fit."""
    first = 2.0 * np.linalg.inv(information(objective, trial))
    inverse = first
    for _ in range(maxiter):
        grad = _projected(objective, trial)
        move = np.where(grad != 0, inverse @ grad, 0.0)
        if move @ grad < 0:
            inverse, move = first, first @ grad
        rise = 0.5 * float(move @ grad)
        if rise <= _RISE_LEFT:
            return trial, trial.result.converged
        move *= min(1.0, _STEP_MAX / np.max(np.abs(move)))
        new = _line_search(objective, trial, move)
        if new is None:
            return trial, bool(rise <= _RISE_STUCK and trial.result.converged)
        s, y = new.x - trial.x, trial.grad - new.grad
        if s @ y > 1e-10 * np.sqrt((s @ s) * (y @ y)):
            left = np.eye(s.size) - np.outer(s, y) / (s @ y)
            inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
        trial = new
    return trial, False


def _line_search(objective: Objective, trial: Trial, move: FloatArray) -> Trial | None:
    """Shorten the step until the objective rises along one branch of fixed points."""
    for length in (1.0, 0.3, 0.1):
        candidate = objective.evaluate(objective.place.clip(trial.x + length * move), trial)
        if candidate.beats(trial) and continues(trial, candidate):
            return candidate
    return None


def continues(old: Trial, new: Trial) -> bool:
    """Whether the gradients at both ends account for the change: if not, EP went to another fixed point.

    Among several fixed points the one of highest evidence is not the most accurate, so a rise of that kind
    is not taken for an improvement.
    """
    if not old.result.converged:
        return True
    move, change = new.x - old.x, new.value - old.value
    ends = 0.5 * float((old.grad + new.grad) @ move)
    slack = 0.25 * float((np.abs(old.grad) + np.abs(new.grad)) @ np.abs(move))
    return abs(change - ends) <= slack + _SLACK


def _pattern_search(objective: Objective, best: Trial) -> tuple[Trial, bool]:
    """Step along the coordinates, halved until none helps; also whether that is how it ended."""
    step, used = _PATTERN_STEP, 0
    while step >= _PATTERN_LEAST:
        improved = False
        for i, sign in product(range(best.x.size), (1.0, -1.0)):
            x = best.x.copy()
            x[i] += sign * step
            x = objective.place.clip(x)
            if np.array_equal(x, best.x):
                continue
            if used >= _PATTERN_MAXITER:
                return best, False
            used += 1
            trial = objective.evaluate(x, best)
            if trial.beats(best) and continues(best, trial):
                best, improved = trial, True
        if not improved:
            step *= 0.5
    return best, True
