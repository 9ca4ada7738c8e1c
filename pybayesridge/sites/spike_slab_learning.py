"""EP for responses that are not Gaussian, averaged over hyperparameters by the lattice of the Gaussian family.

The noise is that of the latent response: its variance c takes the place of s2 in the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.learning.average import Explored, average_from, mixture_of
from pybayesridge.ep.learning.coordinates import coordinates
from pybayesridge.ep.learning.lattice import DEPTH, FitLattice
from pybayesridge.ep.learning.maximize import information
from pybayesridge.ep.learning.objective import Objective, Trial, Warm
from pybayesridge.ep.model.groups import one_of_each
from pybayesridge.ep.model.hyper_prior import hyper_prior
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection, averaged_selection
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.shape import ShapeGrid, ShapePrior, integrate_shape, top_of
from pybayesridge.sites.spike_slab import RowSitesResult, fit_row_sites, start_sites
from pybayesridge.sites.working import Working

TOL = 1e-2
"""Residual of EP where the hyperparameters are still on their way."""

SWEEPS = 300
"""Most sweeps and steps there and at the nodes of the lattice."""

SHARES = (0.5, 0.9)
"""Shares of the latent variance that the columns explain at the two starts."""

MANY = 0.2
"""Columns in a row at the second start."""

STEP, LONGEST, NEAR, STEPS = 1.5, 1.0, 0.05, 30
"""Steps relative to those of the EM algorithm, the longest one, one that is none, and their number at most."""

SAME = 0.3
"""Starts that come as near as this in every coordinate lead to the same mode."""

PASSES, FAR = 4, 1.0
"""Most searches for the most probable value of a further parameter of the likelihood; where it is so far from that
for which the modes were found, they are found again."""

ACCURACY, HALVINGS = 0.05, 1
"""Estimated relative error of the integral over that parameter that counts as none, lattices being as inaccurate, and
most halvings of the spacing: smooth evidence needs none, and where EP jumps between fixed points more do not help."""

FLAT = 0.005
"""Changes of the log evidence from one value to the next that count as none."""

LOWEST = 30.0
"""The evidence is taken to be lower than the largest by no more than this where EP finds no approximation at all."""

LEAST_DEPTH = 1.5
"""Lattices of values that count less are filled to a smaller depth, but to this at the least."""


@dataclass(frozen=True, slots=True)
class LearningProblem:
    """The data of a model.

    Attributes
    ----------
    x, c : (n, d), (n, k) arrays
        Penalised columns on the scale of the prior, rotated within groups, and unpenalised ones, of full rank.
    likelihood : Likelihood
    groups : (d,) int array or None
        Columns with equal numbers are in or out together.
    """

    x: FloatArray
    c: FloatArray
    likelihood: Likelihood
    groups: IntArray | None = None


@dataclass(slots=True, kw_only=True)
class SitesObjective(Objective):
    """Log evidence plus log prior.

    Attributes
    ----------
    problem : LearningProblem
    """

    problem: LearningProblem

    def evaluate(
        self, x: FloatArray, start: Warm | Trial | None, *, tol: float = TOL, maxiter: int = SWEEPS
    ) -> Trial:
        """Fit at x and evaluate."""
        h, problem = self.place.hyper(x), self.problem
        warm = start.warm if isinstance(start, Trial) else start
        sites = None if warm is None else warm.sites
        result = fit_row_sites(
            problem.x,
            problem.c,
            problem.likelihood,
            h.prior_inclusion,
            h.slab_var,
            groups=problem.groups,
            tol=tol,
            maxiter=max(maxiter, SWEEPS),
            start=sites if isinstance(sites, RowSitesResult) else None,
        )
        self.n_steps += 1
        self.n_fac += result.n_fac
        prior, prior_grad = self.place.log_prior(x)
        used = np.isfinite(result.site2)
        second = (result.cond_mean**2 + result.cond_var)[used]
        slab = 0.5 * float(np.sum(result.inclusion_prob[used] * (second / h.slab_var - 1.0)))
        odds = float(np.sum(one_of_each(result.inclusion_prob - h.prior_inclusion, problem.groups)))
        value = result.log_evidence + prior
        slopes = np.array([odds, slab, 0.0]) @ self.place.slopes(x)
        return Trial(x, h, result, value if np.isfinite(value) else -np.inf, slopes + prior_grad)


def sites_objective(problem: LearningProblem, given: KnownHyperparameters, expected_size: float) -> SitesObjective:
    """Set up the prior, and the coordinates with their bounds; a noise variance in `given` is not looked at."""
    likelihood, d = problem.likelihood, problem.x.shape[1]
    size = likelihood.size
    groups, p = problem.groups, given.prior_inclusion
    prior = hyper_prior(
        d if groups is None else int(np.unique(groups).size),
        (size / size.mean()) @ problem.x**2,
        likelihood.n * likelihood.latent_variance,
        expected_size=expected_size,
        given=p,
        slab_given=given.slab_var is not None,
        noise_given=True,
        # Without a hyperparameter to learn there is none to which flat coefficients could be relative.
        flat=0 if p is not None and given.slab_var is not None else problem.c.shape[1],
    )
    data = Working.of(problem.x, problem.c, start_sites(likelihood)).likelihood.data
    place = coordinates(prior, KnownHyperparameters(p, given.slab_var, 1.0), d, 1.0)
    return SitesObjective(data, place, 1.0, groups, problem=problem)


def select_by_sites(
    problem: LearningProblem,
    given: KnownHyperparameters,
    *,
    tol: float = 1e-4,
    maxiter: int = 1000,
    expected_size: float = 1.0,
    rotation: Rotation | None = None,
) -> Selection:
    """EP at given hyperparameters, or averaged over those that are not given.

    Parameters
    ----------
    problem : LearningProblem
    given : KnownHyperparameters
        On the scale of the link; a noise variance is not looked at.
    tol, maxiter : float, int
        Tolerance of EP's residual; sweeps and steps at most, for each value of the hyperparameters.
    expected_size : float
        Columns or groups expected to be in, in the middle of the prior of a shared inclusion probability.
    rotation : Rotation, optional
        How `problem` was rotated within groups.

    Returns
    -------
    Selection
        With noise variances 1, those given the sites of the rows.
    """
    rotation = rotation or Rotation()
    p, v = given.prior_inclusion, given.slab_var
    if p is not None and v is not None:
        result = fit_row_sites(
            problem.x, problem.c, problem.likelihood, p, v, groups=problem.groups, tol=tol, maxiter=maxiter
        )
        hyper = Hyperparameters(np.asarray(p, dtype=np.float64), float(v), 1.0)
        one = np.ones(1)
        return Selection((result,), (hyper,), one, (), result.log_evidence, result.converged, result.n_fac, rotation)
    objective = sites_objective(problem, given, expected_size)
    found = average_from(objective, rough_modes(objective), tol=tol, maxiter=maxiter, by_sweeps=False)
    return averaged_selection(found, rotation)


def select_over_shapes(
    problem: LearningProblem,
    given: KnownHyperparameters,
    *,
    tol: float = 1e-4,
    maxiter: int = 1000,
    expected_size: float = 1.0,
    rotation: Rotation | None = None,
) -> tuple[Selection, ShapeGrid]:
    """The same for a likelihood with an unknown further parameter: a lattice of hyperparameters for each value of it.

    Parameters
    ----------
    problem, given, tol, maxiter, expected_size, rotation
        As for :func:`select_by_sites`.

    Returns
    -------
    selection : Selection
    shape : ShapeGrid
        Of the log of the parameter, with the value of each result.

    Raises
    ------
    ValueError
        If there is no approximation for any value.
    """
    prior = problem.likelihood.unknown_shape
    assert prior is not None

    def objective_of(log_shape: float) -> SitesObjective:
        one = replace(problem, likelihood=problem.likelihood.of_shape(log_shape))
        return sites_objective(one, given, expected_size)

    start = float(np.clip(problem.likelihood.first_shape(), prior.low, prior.high))
    for _ in range(PASSES):
        seeds = rough_modes(objective_of(start))
        top, spacing = top_of(_heights(objective_of, seeds[0], start, prior), start, prior)
        if abs(top - start) <= max(spacing, FAR):
            break
        start = top
    found: dict[float, Explored] = {}

    def evidence(log_shape: float) -> float:
        if log_shape not in found:
            found[log_shape] = _explored(objective_of(log_shape), log_shape, found, seeds, prior)
        known = [part.log_evidence for part in found.values() if np.isfinite(part.log_evidence)]
        return max(found[log_shape].log_evidence, max(known, default=0.0) - LOWEST)

    grid = integrate_shape(evidence, prior, top, spacing, ACCURACY, FLAT, HALVINGS)
    parts = [found[u] for u in grid.u.tolist()]
    if not any(np.isfinite(part.log_evidence) for part in parts):
        raise ValueError("expectation propagation finds no approximation for these responses: use BayesRidge")
    mixture, which = mixture_of(parts, grid.weight, grid.log_integral, tol=tol, maxiter=maxiter)
    mixture = replace(mixture, converged=mixture.converged and grid.converged)
    return averaged_selection(mixture, rotation or Rotation()), replace(grid, which=which)


def _heights(
    objective_of: Callable[[float], SitesObjective], seed: Trial, start: float, prior: ShapePrior
) -> Callable[[float], float]:
    """The log density of the further parameter given the hyperparameters of a fit, each from the nearest fit."""
    trials = {start: seed}

    def height(log_shape: float) -> float:
        nearest = min(trials, key=lambda u: abs(u - log_shape))
        objective = objective_of(log_shape)
        trials[log_shape] = objective.evaluate(objective.place.place(seed.hyper), trials[nearest])
        return trials[log_shape].value + prior(log_shape)

    return height


def _explored(
    objective: SitesObjective,
    log_shape: float,
    found: Mapping[float, Explored],
    seeds: Sequence[Trial],
    prior: ShapePrior,
) -> Explored:
    """The lattice for a value of the further parameter: that of the nearest one, less of it where it counts less."""
    width, depth = None, DEPTH
    if found:
        nearest = min(found, key=lambda u: abs(u - log_shape))
        width, seeds = found[nearest].lattice.spacing, found[nearest].lattice.peaks() or seeds
        density = {u: part.log_evidence + prior(u) for u, part in found.items()}
        depth = max(DEPTH - (max(density.values()) - density[nearest]), LEAST_DEPTH)
    again = [objective.evaluate(seed.x, seed) for seed in seeds]
    return Explored.of(FitLattice(objective, again, by_sweeps=False, depth=depth, width=width))


def rough_modes(objective: SitesObjective) -> list[Trial]:
    """Fits near the maxima to which starts with few and with many columns lead, the highest first."""
    found: list[Trial] = []
    for x in _starts(objective):
        trial = _climb(objective, x)
        if not any(np.max(np.abs(trial.x - other.x), initial=0.0) <= SAME for other in found):
            found.append(trial)
    return sorted(found, key=lambda trial: (not trial.result.converged, -trial.value))


def _starts(objective: SitesObjective) -> list[FloatArray]:
    place, (n, d) = objective.place, objective.problem.x.shape
    given, out = place.given, []
    for share, p in zip(SHARES, (float(expit(place.prior.center)), MANY * min(n / d, 1.0)), strict=True):
        shared = given.prior_inclusion is None
        spread = np.exp(place.prior.log_spread) * (p if shared else 1.0)
        v = share / (1.0 - share) / spread if given.slab_var is None else given.slab_var
        probabilities = np.full(d, p) if given.prior_inclusion is None else given.prior_inclusion
        out.append(place.place(Hyperparameters(probabilities, float(v), 1.0)))
    return out


def _climb(objective: SitesObjective, x: FloatArray) -> Trial:
    """Steps of the EM algorithm, lengthened, each from the sites of the last."""
    trial = objective.evaluate(x, None)
    for _ in range(STEPS):
        step = STEP * np.linalg.solve(information(objective, trial), trial.grad)
        step = objective.place.clip(trial.x + np.clip(step, -LONGEST, LONGEST)) - trial.x
        if not np.isfinite(step).all() or np.max(np.abs(step), initial=0.0) <= NEAR:
            break
        trial = objective.evaluate(trial.x + step, trial)
    return trial
