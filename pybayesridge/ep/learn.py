"""Hyperparameters from the data: maximising EP's evidence, or averaging over a grid around the maximum."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.special import expit, logit, logsumexp

from pybayesridge.ep._types import Array, Bools
from pybayesridge.ep.evidence import evidence_gradient
from pybayesridge.ep.problem import Data
from pybayesridge.ep.result import EPResult
from pybayesridge.ep.solve import fit_sites

NAMES = ("prior_inclusion", "slab_var", "noise_var")
#: Standard deviation of the normal priors on the log variances.
_PRIOR_SD = 3.0
_EP_MAXITER = 100
_EP_TOL = 1e-6
_TRIAL_TOL = 1e-2
_TRIAL_MAXITER = 60
_STARTS = 2
_STEP_MAX = 1.5
#: Expected rises of the objective (nats) at which a maximum is reached, and at which being stuck is no loss.
_RISE_LEFT = 1e-5
_RISE_STUCK = 0.05
_PATTERN_STEP = 0.4
_PATTERN_LEAST = 0.1
_PATTERN_MAXITER = 10
#: Unexplained change of the objective that still counts as continuous.
_SLACK = 0.02
#: A rise of the objective below this is not progress.
_RISE = 1e-7
#: Grid of the average: positions in posterior standard deviations, and limits of those in log units.
_GRID = (-1.5, 0.0, 1.5)
_GRID_SD = (0.05, 1.5)
_DIFFERENCE = 0.05


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyperparameters.

    Attributes
    ----------
    prior_inclusion : ndarray (d,)
        Prior inclusion probabilities.
    slab_var, noise_var : float
        Variances.
    """

    prior_inclusion: Array
    slab_var: float
    noise_var: float


@dataclass(frozen=True, slots=True)
class HyperFit:
    """Learned hyperparameters and the fit at them.

    Attributes
    ----------
    hyper : Hyper
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

    hyper: Hyper
    result: EPResult
    learned: tuple[str, ...]
    gradient: Array
    objective: float
    converged: bool
    n_steps: int
    n_fac: int


@dataclass(frozen=True, slots=True)
class HyperAverage:
    """A mixture of fits over a grid of hyperparameters; g grid points.

    Attributes
    ----------
    best : HyperFit
        The maximum, around which the grid lies.
    hypers : tuple of Hyper
        The grid.
    results : tuple of EPResult
        The fits.
    weights : ndarray (g,)
        Posterior weights, summing to one.
    inclusion_prob, mean, var : ndarray (d,)
        Moments of the mixture.
    log_evidence : float
        Log of the evidence averaged over the grid with the prior's weights.
    converged : bool
        Whether every fit with a weight above 1e-3 has converged.
    """

    best: HyperFit
    hypers: tuple[Hyper, ...]
    results: tuple[EPResult, ...]
    weights: Array
    inclusion_prob: Array
    mean: Array
    var: Array
    log_evidence: float
    converged: bool


@dataclass(slots=True)
class _Objective:
    """Log evidence plus log prior in coordinates that do not change with the units of y or X.

    The coordinates are logit p, log(slab_var / slab_unit) and log(noise_var / noise_unit), of which only the
    learned ones (``free``) appear in a vector x.
    """

    data: Data
    fixed_p: Array | None
    fixed: Array
    free: Bools
    noise_unit: float
    slab_unit: float
    n_steps: int = 0
    n_fac: int = 0
    low: Array = field(default_factory=lambda: np.zeros(3))
    high: Array = field(default_factory=lambda: np.zeros(3))

    def hyper(self, x: Array) -> Hyper:
        """Hyperparameters at x."""
        full = self.fixed.copy()
        full[self.free] = x
        d = self.data.n_columns
        p = np.full(d, expit(full[0])) if self.fixed_p is None else self.fixed_p
        return Hyper(p, self.slab_unit * float(np.exp(full[1])), self.noise_unit * float(np.exp(full[2])))

    def log_prior(self, x: Array) -> tuple[float, Array]:
        """Log prior of the learned coordinates and its gradient.

        ``p (1 - p)`` on the log odds: as if one more column had been seen in and one out. Normal with
        standard deviation 3 on the log variances.
        """
        full = np.zeros(3)
        full[self.free] = x
        value = -0.5 * float(np.sum(full[1:] ** 2)) / _PRIOR_SD**2
        grad = -full / _PRIOR_SD**2
        if self.free[0]:
            value += float(np.log(expit(full[0])) + np.log(expit(-full[0])))
            grad[0] = 1.0 - 2.0 * expit(full[0])
        return value, grad[self.free]

    def evaluate(self, x: Array, start: EPResult | None, rough: bool = False) -> _Trial:
        """Fit at x and evaluate."""
        h = self.hyper(x)
        result = fit_sites(
            self.data,
            h.prior_inclusion,
            h.slab_var,
            h.noise_var,
            tol=_TRIAL_TOL if rough else _EP_TOL,
            maxiter=_TRIAL_MAXITER if rough else _EP_MAXITER,
            start=start,
        )
        self.n_steps += 1
        self.n_fac += result.n_fac
        prior, prior_grad = self.log_prior(x)
        g = evidence_gradient(self.data, h.prior_inclusion, h.slab_var, h.noise_var, result)
        full = np.array([np.sum(g.logit_inclusion), g.log_slab_var, g.log_noise_var])
        value = result.log_evidence + prior
        if not np.isfinite(value):
            value = -np.inf
        return _Trial(x, result, value, full[self.free] + prior_grad)

    def clip(self, x: Array) -> Array:
        """Project on the bounds."""
        return np.clip(x, self.low[self.free], self.high[self.free])


@dataclass(frozen=True, slots=True)
class _Trial:
    """One evaluation of the objective."""

    x: Array
    result: EPResult
    value: float
    grad: Array

    def beats(self, other: _Trial) -> bool:
        """Whether this is a better answer: converged before not converged, then the value."""
        if self.result.converged != other.result.converged:
            return self.result.converged
        return self.value > other.value + _RISE


def _objective(data: Data, p: Array | None, slab_var: float | None, noise_var: float | None) -> _Objective:
    """Set up units, bounds and what is fixed.

    Units: for the noise the mean square of y; for the slab the variance of a coefficient whose column alone
    would explain y.
    """
    noise_unit = data.yy / data.nu if data.yy > 0 else 1.0
    seen = data.gram_diag[data.gram_diag > 0]
    slab_unit = noise_unit * data.nu / float(np.mean(seen)) if seen.size else noise_unit
    fixed = np.zeros(3)
    fixed[1] = 0.0 if slab_var is None else np.log(slab_var / slab_unit)
    fixed[2] = 0.0 if noise_var is None else np.log(noise_var / noise_unit)
    free = np.array([p is None, slab_var is None, noise_var is None])
    objective = _Objective(data, p, fixed, free, noise_unit, slab_unit)
    least_p = 0.01 / max(data.n_columns, 1)
    objective.low = np.array([logit(least_p), np.log(1e-8), np.log(1e-8)])
    objective.high = np.array([logit(1.0 - 1e-3), np.log(1e4), np.log(4.0)])
    return objective


def _starts(objective: _Objective) -> list[Array]:
    """Few or many variables, much or little noise; the slab such that they explain the rest."""
    d = max(objective.data.n_columns, 1)
    if objective.fixed_p is None:
        sizes = sorted({min(1.0, 0.5 * d), min(min(objective.data.nu, d) / 5.0, 0.5 * d)})
    else:
        sizes = [max(float(np.sum(objective.fixed_p)), 0.1)]
    noises = [0.5, 0.05] if objective.free[2] else [float(np.exp(objective.fixed[2]))]
    out = []
    for size, noise in product(sizes, noises):
        full = np.array([logit(size / d), np.log(max(1.0 - noise, 0.1) / size), np.log(noise)])
        out.append(objective.clip(full[objective.free]))
    return out


def learn(
    data: Data,
    prior_inclusion: Array | None = None,
    slab_var: float | None = None,
    noise_var: float | None = None,
    *,
    maxiter: int = 30,
    start: tuple[Hyper, EPResult] | None = None,
) -> HyperFit:
    """Maximise EP's evidence over the hyperparameters left at None.

    A weak prior keeps the answer away from p = 0 and from noise-free fits. On the log odds of a shared p it is
    ``p (1 - p)``: as if one more column had been seen in and one more out. On each log variance it is normal
    with standard deviation 3, around the mean square of y (noise) and around the variance of a coefficient
    whose column alone would explain y (slab). Bounds: p from 0.01 / d to 0.999, the noise from 1e-8 to 4 and
    the slab from 1e-8 to 1e4 of those units. Nothing depends on the units of y.

    Quasi-Newton steps are kept only if the objective itself rises, since gradients are wrong where EP has not
    converged; when they no longer help, a pattern search makes sure or goes on.

    Parameters
    ----------
    data : Data
        Least-squares data.
    prior_inclusion : ndarray (d,), optional
        Fixed probabilities; a shared one is learned if None.
    slab_var, noise_var : float, optional
        Fixed variances.
    maxiter : int
        Quasi-Newton steps at most, from each of two starts.
    start : (Hyper, EPResult), optional
        Where to start instead.

    Returns
    -------
    HyperFit
        The best that was found.
    """
    objective = _objective(data, prior_inclusion, slab_var, noise_var)
    learned = tuple(n for n, f in zip(NAMES, objective.free, strict=True) if f)
    if start is not None:
        firsts = [objective.evaluate(_position(objective, start[0]), start[1])]
    else:
        rough = [objective.evaluate(x, None, rough=True) for x in _starts(objective)]
        rough.sort(key=lambda t: -t.value)
        firsts = [objective.evaluate(t.x, t.result) for t in rough[:_STARTS]]
    best, certain = firsts[0], False
    for k, first in enumerate(firsts):
        found, sure = _climb(objective, first, maxiter) if learned else (first, True)
        if k == 0 or found.beats(best):
            best, certain = found, sure
    if not certain:
        best, certain = _pattern_search(objective, best)
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


def _position(objective: _Objective, hyper: Hyper) -> Array:
    """Coordinates of the learned hyperparameters."""
    p = np.clip(np.mean(hyper.prior_inclusion) if hyper.prior_inclusion.size else 0.5, 1e-12, 1.0 - 1e-12)
    full = np.array(
        [
            logit(p),
            np.log(hyper.slab_var / objective.slab_unit),
            np.log(hyper.noise_var / objective.noise_unit),
        ]
    )
    return objective.clip(full[objective.free])


def _projected(objective: _Objective, trial: _Trial) -> Array:
    """Gradient without the components that push against a bound."""
    low, high = objective.low[objective.free], objective.high[objective.free]
    out = ((trial.x <= low) & (trial.grad < 0)) | ((trial.x >= high) & (trial.grad > 0))
    return np.where(out, 0.0, trial.grad)


def _information(objective: _Objective, trial: _Trial) -> Array:
    """Curvature to expect if the inclusions were known, shape (k,): scales the first step."""
    r = trial.result.inclusion_prob
    p = objective.hyper(trial.x).prior_inclusion
    full = np.array([float(np.sum(p * (1.0 - p))), 0.5 * float(np.sum(r)), 0.5 * objective.data.nu])
    return full[objective.free] + 0.5


def _climb(objective: _Objective, trial: _Trial, maxiter: int) -> tuple[_Trial, bool]:
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


def _line_search(objective: _Objective, trial: _Trial, move: Array) -> _Trial | None:
    """Shorten the step until the objective rises along one branch of fixed points."""
    for length in (1.0, 0.3, 0.1):
        candidate = objective.evaluate(objective.clip(trial.x + length * move), trial.result)
        if candidate.beats(trial) and _continues(trial, candidate):
            return candidate
    return None


def _continues(old: _Trial, new: _Trial) -> bool:
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


def _pattern_search(objective: _Objective, best: _Trial) -> tuple[_Trial, bool]:
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


def average(
    data: Data,
    prior_inclusion: Array | None = None,
    slab_var: float | None = None,
    noise_var: float | None = None,
    *,
    maxiter: int = 30,
) -> HyperAverage:
    """Average over a grid of the hyperparameters left at None, weighted by evidence and prior.

    The grid has three values per hyperparameter: the maximum (see :func:`learn`) and 1.5 posterior standard
    deviations to either side along the principal axes of the curvature there.

    Parameters
    ----------
    data : Data
        Least-squares data.
    prior_inclusion : ndarray (d,), optional
        Fixed probabilities.
    slab_var, noise_var : float, optional
        Fixed variances.
    maxiter : int
        As in :func:`learn`.

    Returns
    -------
    HyperAverage
        The mixture.
    """
    best = learn(data, prior_inclusion, slab_var, noise_var, maxiter=maxiter)
    objective = _objective(data, prior_inclusion, slab_var, noise_var)
    centre = _position(objective, best.hyper)
    axes = _principal_axes(objective, centre, best.result)
    trials = []
    for place in product(_GRID, repeat=centre.size):
        x = objective.clip(centre + axes @ np.array(place))
        trials.append(objective.evaluate(x, best.result))
    values = np.array([t.value for t in trials])
    weights = np.exp(values - logsumexp(values))
    priors = np.array([objective.log_prior(t.x)[0] for t in trials])
    results = tuple(t.result for t in trials)
    mean = sum_weighted(weights, [r.mean for r in results])
    second = sum_weighted(weights, [r.var + r.mean**2 for r in results])
    return HyperAverage(
        best=best,
        hypers=tuple(objective.hyper(t.x) for t in trials),
        results=results,
        weights=weights,
        inclusion_prob=np.clip(sum_weighted(weights, [r.inclusion_prob for r in results]), 0.0, 1.0),
        mean=mean,
        var=np.maximum(second - mean**2, 0.0),
        log_evidence=float(logsumexp(values) - logsumexp(priors)),
        converged=all(r.converged for r, w in zip(results, weights, strict=True) if w > 1e-3),
    )


def sum_weighted(weights: Array, arrays: list[Array]) -> Array:
    """``sum_j weights_j arrays_j``."""
    return np.einsum("j,ji->i", weights, np.stack(arrays))


def _principal_axes(objective: _Objective, centre: Array, start: EPResult) -> Array:
    """Columns: principal axes of the objective's curvature, as long as one posterior standard deviation."""
    k = centre.size
    hess = np.zeros((k, k))
    for i in range(k):
        shift = np.zeros(k)
        shift[i] = _DIFFERENCE
        ahead = objective.evaluate(centre + shift, start).grad
        behind = objective.evaluate(centre - shift, start).grad
        hess[i] = (behind - ahead) / (2.0 * _DIFFERENCE)
    lam, vec = np.linalg.eigh(0.5 * (hess + hess.T))
    sd = np.clip(1.0 / np.sqrt(np.maximum(lam, 1e-12)), *_GRID_SD)
    return vec * sd
