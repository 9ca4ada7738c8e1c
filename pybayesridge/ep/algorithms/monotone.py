"""EP that always settles: ordinary sweeps first, then descent on the EP energy from where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.algorithms.damped import FLOOR, DampedRun, sweeps
from pybayesridge.ep.algorithms.energy import EnergyPoint, energy_point, slopes, state_of_point
from pybayesridge.ep.algorithms.newton import Direction, newton_direction
from pybayesridge.ep.algorithms.state import EPModel, State

#: Sweeps of ordinary EP before descent takes over, the number at full damping, and the annealing after it.
_SWEEPS = 32
_SWEEPS_FULL = 20
_DAMPING = 0.5
_ANNEALING = 0.97
#: From a solution nearby sweeps end when the residual has not fallen for so many.
_WARM_PATIENCE = 6
_WARM_DAMPING = 0.8
#: After rejected sweeps 1, 3, at most so many Newton steps follow before a sweep is proposed again.
_SWEEP_REST = 4
_CORE = 120
#: When the residual has not halved in so many steps, conjugate gradients refine the direction near a
#: solution.
_SLOW = 8
_REFINE = 4
_REFINE_MAX = 40
_NEAR = 0.1
_BACKTRACKS = 12
#: Descent gives up after so many steps in a row without proper cavities.
_LOST = 200
_POLISH = 30
_SHIFT_MIN, _SHIFT_MAX = 1e-7, 1e8
_ARMIJO = 1e-4
#: Differences of the energy below this fraction of it are rounding.
ROUNDING = 1e-10
#: Where the energy is level within rounding, the residual or gradient must shrink to this fraction.
_LESS = 0.9


@dataclass(frozen=True, slots=True)
class AutoRun:
    """A run of ordinary sweeps followed by descent.

    Attributes
    ----------
    run : DampedRun
        Both phases together.
    n_sweeps : int
        How many of its iterations were ordinary sweeps: ``run.energies[n_sweeps:]`` never rises.
    """

    run: DampedRun
    n_sweeps: int


def run_auto(
    model: EPModel, t1: FloatArray, t2: FloatArray, *, tol: float = 1e-4, maxiter: int = 1000, warm: bool = False
) -> AutoRun:
    """Up to 32 ordinary EP sweeps, then the monotone method until EP's fixed-point equations hold.

    The first phase keeps all precisions above a floor, the second does not. What has converged is
    unconstrained EP in either case.

    Parameters
    ----------
    model : EPModel
        Likelihood and prior.
    t1, t2 : ndarray (d,)
        Sites to start from.
    tol : float
        Tolerance of the scale-free residual.
    maxiter : int
        Iterations at most, sweeps and descent steps together.
    warm : bool
        Whether the sites come from a solution nearby: the sweeps then do without a floor.

    Returns
    -------
    AutoRun
        Where it ended.
    """
    first = _opening(model, t1, t2, tol, min(_SWEEPS, maxiter), None if warm else FLOOR)
    if first.converged or first.state is None or first.n_iter >= maxiter:
        return AutoRun(first, first.n_iter)
    second = run_monotone(model, first.state, tol=tol, maxiter=maxiter - first.n_iter)
    n_iter, n_fac = first.n_iter + second.n_iter, first.n_fac + second.n_fac
    energies = first.energies + second.energies
    run = DampedRun(second.state, second.residual, second.converged, n_iter, n_fac, energies)
    return AutoRun(run if run.converged else _polish(model, run, tol), first.n_iter)


def _polish(model: EPModel, run: DampedRun, tol: float) -> DampedRun:
    """Finish with plain sweeps, keeping the best state, where rounding stopped the descent.

    The mean computed from the sites is more accurate than a mean that is itself a coordinate: at signal-to-
    noise ratios of 1e8 and more that decides.
    """
    best, n_fac, state = run, run.n_fac, run.state
    for _ in range(_POLISH):
        if state is None:
            break
        new1, new2 = model.target_sites(state)
        t1 = state.t1 + _DAMPING * (new1 - state.t1)
        state = model.state(t1, state.t2 + _DAMPING * (new2 - state.t2))
        n_fac += 1
        residual = np.inf if state is None else model.residual(state)
        if residual < best.residual:
            best = replace(best, state=state, residual=residual, converged=residual <= tol)
        if best.converged:
            break
    return replace(best, n_fac=n_fac)


def _opening(
    model: EPModel, t1: FloatArray, t2: FloatArray, tol: float, maxiter: int, floor: float | None
) -> DampedRun:
    """Ordinary sweeps, until converged, stuck at a constraint, or out of patience."""
    best, lowest, since, n_iter, energies = None, np.inf, 0, 0, []
    converged = False
    damping = repeat(_WARM_DAMPING) if floor is None else _annealed()
    # With positive sites no cavity is negative, except by rounding.
    states = sweeps(model, t1, t2, damping, floor, None if floor is None else 0.0)
    for n_iter, state in enumerate(states, start=1):
        residual = model.residual(state)
        energies.append(-model.log_evidence(state))
        if floor is not None or residual < lowest:
            best, lowest, since = state, residual, 0
        else:
            since += 1
        converged = residual <= tol
        if converged or n_iter >= maxiter or since >= _WARM_PATIENCE:
            break
        if floor is not None and model.residual(state, floor) <= max(tol, 1e-3) < residual:
            break
    return DampedRun(best, lowest, converged, n_iter, n_iter, tuple(energies))


def _annealed() -> Iterator[float]:
    step, count = _DAMPING, 0
    while True:
        yield step
        count += 1
        if count >= _SWEEPS_FULL:
            step *= _ANNEALING


@dataclass(slots=True)
class _Patience:
    """Adaptive settings of the descent: regularisation, effort per Newton step, when to propose sweeps."""

    refine: int = 0
    shift: float = 1e-2
    wait: int = 0
    rest: int = 0
    steps: int = 0
    best: float = np.inf

    def accepted(self, full: bool) -> None:
        """Note an accepted Newton step: less regularisation after one of full length, else more."""
        self.shift = max(0.2 * self.shift, _SHIFT_MIN) if full else 2.0 * self.shift

    def rejected(self) -> None:
        """Note a Newton step that was rejected at every length."""
        self.shift = max(10.0 * self.shift, 1e-3)

    def watch(self, residual: float) -> None:
        """Refine the Newton direction further when the residual has not halved in several steps."""
        self.steps += 1
        if residual < 0.5 * self.best:
            self.best, self.steps = residual, 0
        elif self.steps >= _SLOW:
            self.refine, self.steps = min(2 * self.refine + _REFINE, _REFINE_MAX), 0


def run_monotone(model: EPModel, start: State, *, tol: float, maxiter: int) -> DampedRun:
    """Descent on the EP energy: a plain sweep whenever it lowers the energy, else a Newton step.

    Parameters
    ----------
    model : EPModel
        Likelihood and prior.
    start : State
        Where to start.
    tol : float
        Tolerance of the scale-free residual.
    maxiter : int
        Steps at most.

    Returns
    -------
    DampedRun
        The state with the smallest residual; ``energies`` never rises.
    """
    point = energy_point(model, start.mean, start.t2, start.factor)
    if point is None:
        return DampedRun(start, np.inf, False, 0, 0, ())
    patience = _Patience()
    n_fac, lost, energies = 0, 0, []
    kept, lowest = start, model.residual(start)
    for _ in range(maxiter):
        state = state_of_point(model, point)
        residual = np.inf if state is None else model.residual(state)
        energies.append(point.energy)
        lost = lost + 1 if state is None else 0
        if residual < lowest and state is not None:
            kept, lowest = state, residual
        if residual <= tol or lost > _LOST:
            break
        new, used = _step(model, point, state, residual, patience)
        n_fac += used
        if new is None:
            break
        point = new
    return DampedRun(kept, lowest, lowest <= tol, len(energies), n_fac, tuple(energies))


def _step(
    model: EPModel, point: EnergyPoint, state: State | None, residual: float, patience: _Patience
) -> tuple[EnergyPoint | None, int]:
    """One accepted step, and the factorisations it took; None when no step lowers the energy."""
    used = 0
    if state is not None and patience.rest <= 0:
        t1, t2 = model.target_sites(state)
        factor = model.gaussian.factor(t2)
        used = 1
        trial = None if factor is None else energy_point(model, factor.mean(t1), t2, factor)
        if trial is not None:
            noise = ROUNDING * (1.0 + abs(point.energy))
            level = trial.energy < point.energy + noise and _point_residual(model, trial) < _LESS * residual
            if level or trial.energy < point.energy - noise:
                patience.wait = 0
                return trial, used
        patience.wait = min(2 * patience.wait + 1, _SWEEP_REST)
        patience.rest = patience.wait
    patience.rest -= 1
    patience.watch(residual)
    # Far from a solution the landscape changes faster than a better direction could repay.
    refine = patience.refine if _gap(model, point) < _NEAR else 0
    while patience.shift <= _SHIFT_MAX:
        direction = newton_direction(model, point, _CORE, patience.shift, refine)
        trial, tries = _search(model, point, direction)
        used += tries
        if trial is not None:
            patience.accepted(full=tries == 1)
            return trial, used
        patience.rejected()
    return None, used


def _search(model: EPModel, point: EnergyPoint, direction: Direction) -> tuple[EnergyPoint | None, int]:
    """Backtrack until the energy falls enough; at the level of rounding, until the gradient does."""
    length = 1.0
    if not direction.slope < 0:
        return None, 0
    noise, gap = ROUNDING * (1.0 + abs(point.energy)), _gap(model, point)
    for tries in range(1, _BACKTRACKS + 1):
        trial = energy_point(model, point.mean + length * direction.mean, point.t2 + length * direction.t2)
        if trial is not None:
            fall = point.energy - trial.energy
            if fall >= -_ARMIJO * length * direction.slope:
                return trial, tries
            if abs(fall) < noise and _gap(model, trial) < _LESS * gap:
                return trial, tries
        length *= 0.4
    return None, _BACKTRACKS


def _point_residual(model: EPModel, point: EnergyPoint) -> float:
    """Residual of the EP state at a point."""
    state = state_of_point(model, point)
    return np.inf if state is None else model.residual(state)


def _gap(model: EPModel, point: EnergyPoint) -> float:
    """Scaled size of the gradient."""
    grad_m, gap = slopes(model, point)
    return float(max(np.max(np.abs(grad_m) * np.sqrt(point.var)), np.max(np.abs(gap) * point.var)))
