"""Hyperparameters from the data, by maximising EP's evidence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.learning.objective import Objective, Trial, build_objective, position
from pybayesridge.ep.model.groups import one_of_each
from pybayesridge.ep.model.hyperparameters import Given, Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import EPResult, Sites

NAMES = ("prior_inclusion", "slab_var", "noise_var")
_STARTS = 2
#: How roughly EP is run to choose the starts, and how long at the end if it has not settled.
_ROUGH_TOL = 1e-2
_ROUGH_MAXITER = 60
_LAST_MAXITER = 1000
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
        Gradient of the objective in log odds and log variances.
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


def _starts(objective: Objective) -> list[FloatArray]:
    """Few or many variables (or groups), much or little noise; the slab such that they explain the rest."""
    d = max(objective.n_groups, 1)
    columns = max(objective.data.n_columns / d, 1.0)
    if objective.fixed_p is None:
        sizes = sorted({min(1.0, 0.5 * d), min(min(objective.data.nu / columns, d) / 5.0, 0.5 * d)})
    else:
        sizes = [max(float(np.sum(objective.fixed_p)), 0.1)]
        columns = 1.0
    noises = [0.5, 0.05] if objective.free[2] else [float(np.exp(objective.fixed[2]))]
    out = []
    for size, noise in product(sizes, noises):
        full = np.array([logit(size / d), np.log(max(1.0 - noise, 0.1) / (size * columns)), np.log(noise)])
        out.append(objective.clip(full[objective.free]))
    return out


def learn(
    data: Data,
    given: Given | None = None,
    *,
    groups: IntArray | None = None,
    maxiter: int = 30,
    start: tuple[Hyperparameters, Sites] | None = None,
) -> HyperFit:
    """Maximise EP's evidence over the hyperparameters left at None.

    A weak prior keeps the answer away from p = 0 and from noise-free fits. On the log odds of a shared p
    it is ``p (1 - p)``: as if one more column (of groups: one more group) had been seen in and one more out.
    On each log variance it is normal with standard deviation 3, around the mean square of y (noise) and
    around the variance of a coefficient whose column alone would explain y (slab). Bounds: p from 0.01 / d to
    0.999, the noise from 1e-8 to 4 and the slab from 1e-8 to 1e4 of those units. Nothing depends on the units
    of y.

    Quasi-Newton steps are kept only if the objective itself rises, since gradients are wrong where EP has not
    converged; when they no longer help, a pattern search makes sure or goes on.

    Parameters
    ----------
    data : Data
        Least-squares data.
    given : Given, optional
        Those that are not learned; one probability is learned for all columns.
    groups : ndarray (d,) of int, optional
        Columns with equal numbers are in or out together; the bound on p is then 0.01 over their number.
    maxiter : int
        Quasi-Newton steps at most, from each of two starts.
    start : (Hyperparameters, Sites), optional
        Where to start instead.

    Returns
    -------
    HyperFit
        The best that was found.
    """
    objective = build_objective(data, given or Given(), groups)
    learned = tuple(n for n, f in zip(NAMES, objective.free, strict=True) if f)
    if start is not None:
        firsts = [objective.evaluate(position(objective, start[0]), start[1])]
    else:
        rough = [objective.evaluate(x, None, tol=_ROUGH_TOL, maxiter=_ROUGH_MAXITER) for x in _starts(objective)]
        rough.sort(key=lambda t: -t.value)
        firsts = [objective.evaluate(t.x, t.result) for t in rough[:_STARTS]]
    best, certain = firsts[0], False
    for k, first in enumerate(firsts):
        found, sure = _climb(objective, first, maxiter) if learned else (first, True)
        if k == 0 or found.beats(best):
            best, certain = found, sure
    if not certain:
        best, certain = _pattern_search(objective, best)
    if not best.result.converged:
        best = objective.evaluate(best.x, best.result, maxiter=_LAST_MAXITER)
    return HyperFit(
        hyper=objective.hyper(best.x),
        result=best.result,
        learned=learned,
        gradient=best.grad,
        objective=best.value,
        converged=bool(certain and best.result.converged),
        n_steps=objective.n_steps,
        n_fac=objective.n_fac,
    )


def _projected(objective: Objective, trial: Trial) -> FloatArray:
    """Gradient without the components that push against a bound."""
    low, high = objective.low[objective.free], objective.high[objective.free]
    out = ((trial.x <= low) & (trial.grad < 0)) | ((trial.x >= high) & (trial.grad > 0))
    return np.where(out, 0.0, trial.grad)


def _information(objective: Objective, trial: Trial) -> FloatArray:
    """Curvature to expect if the inclusions were known, shape (k,): scales the first step."""
    r = trial.result.inclusion_prob
    p = one_of_each(objective.hyper(trial.x).prior_inclusion, objective.groups)
    full = np.array([float(np.sum(p * (1.0 - p))), 0.5 * float(np.sum(r)), 0.5 * objective.data.nu])
    return full[objective.free] + 0.5


def _climb(objective: Objective, trial: Trial, maxiter: int) -> tuple[Trial, bool]:
    """BFGS with bounds and a limit on the step; also whether it ended at a maximum of a converged fit."""
    first = np.diag(2.0 / _information(objective, trial))
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
        candidate = objective.evaluate(objective.clip(trial.x + length * move), trial.result)
        if candidate.beats(trial) and _continues(trial, candidate):
            return candidate
    return None


def _continues(old: Trial, new: Trial) -> bool:
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
            x = objective.clip(x)
            if np.array_equal(x, best.x):
                continue
            if used >= _PATTERN_MAXITER:
                return best, False
            used += 1
            trial = objective.evaluate(x, best.result)
            if trial.beats(best) and _continues(best, trial):
                best, improved = trial, True
        if not improved:
            step *= 0.5
    return best, True
