"""The exact posterior of which columns are in: by enumeration where that is possible, else by Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.linalg.blas import one_pool
from pybayesridge.selection.enumeration import can_enumerate, enumerate_sets
from pybayesridge.selection.grid import Given, Grid, grid_of
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import Exact, Model
from pybayesridge.selection.sampler import WALKERS, Run, sample_sets
from pybayesridge.selection.starts import starting_sets
from pybayesridge.selection.states import States, build_states, resampled
from pybayesridge.selection.tallies import Estimate, by_size
from pybayesridge.selection.traces import evidence, heaviest, log_joints, sets_at, size_distribution
from pybayesridge.selection.walk import largest_set

N_MODELS = 100

MAXITER = 200_000


def fit_exact(
    problem: Problem,
    given: Given,
    *,
    method: str = "auto",
    mcse: float = 0.01,
    n_chains: int = 4,
    maxiter: int = MAXITER,
    rng: int | np.random.Generator = 0,
    starts: Sequence[IntArray] = (),
    progress: Callable[[int, Estimate | None], None] | None = None,
) -> Exact:
    """Compute inclusion probabilities, moments and all that rests on the joint posterior.

    Parameters
    ----------
    problem : Problem
    given : Given
    method : {"auto", "enumeration", "sampler"}
        "auto": enumeration for at most 15 units that may be in or out.
    mcse : float
        The largest standard error of an inclusion probability at which sampling stops.
    n_chains : int
    maxiter : int
        Steps of all chains together.
    rng : int or numpy.random.Generator
    starts : sequence of int arrays
        Sets of units that chains may start from, as EP's answer.
    progress : callable, optional
        Called now and then with the number of steps and the last :class:`Estimate`, None before the first one.

    Raises
    ------
    ValueError
        If the response vanishes and s2 is to be learned.
    """
    if not problem.yy > 0 and given.noise_var is None:
        raise ValueError("the response is 0 outside the unpenalised columns: give noise_var")
    generator = np.random.default_rng(rng)
    grid = grid_of(problem, given)
    if method == "enumeration" or (method == "auto" and can_enumerate(grid)):
        return enumerate_sets(problem, given, rng=generator, n_models=N_MODELS)
    # Matrix-vector products: threads cost more than they gain.
    with one_pool(0.0):
        walkers = by_size(WALKERS, grid.n_units)
        first = starting_sets(problem, grid, n_chains * walkers, generator, starts)
        run = sample_sets(problem, grid, first, rng=generator, mcse=mcse, maxiter=maxiter, progress=progress)
        states = _kept(problem, grid, run, walkers, generator)
        return assembled(problem, grid, run, states, evidence(problem, grid, run.trace))


def assembled(
    problem: Problem, grid: Grid, run: Run, states: States, log_evidence_with_se: tuple[float, float]
) -> Exact:
    """The answer from a run, the states that are kept of it, and the log evidence, NaN if it is not known."""
    found, of_column = run.estimate, problem.units.of_column
    unit_prob = _with_fixed(grid, found.prob)
    prob = unit_prob[of_column]
    share = run.coef[0]
    safe = np.where(share > 0, share, 1.0)
    cond_mean = run.coef[1] / safe
    square = run.coef[2] / safe
    log_evidence, evidence_se = log_evidence_with_se
    node_prob = run.node_prob if run.node_prob.sum() > 0 else np.ones(grid.log_g.size) / grid.log_g.size
    return Exact(
        unit_prob=unit_prob,
        unit_se=found.se,
        inclusion_prob=prob,
        inclusion_se=found.se[of_column],
        mean=prob * cond_mean,
        var=np.maximum(prob * square - (prob * cond_mean) ** 2, 0.0),
        cond_mean=cond_mean,
        cond_var=np.maximum(square - cond_mean**2, 0.0),
        size_prob=size_distribution(run.trace, problem.units.n),
        node_prob=node_prob,
        models=_models(problem, grid, run, log_evidence),
        log_evidence=log_evidence,
        log_evidence_se=evidence_se,
        states=states,
        grid=grid,
        method="sampler",
        converged=run.converged and not run.limited,
        n_iter=int(run.trace.key.size),
        agreement=found.agreement,
        effective=found.effective,
        size_limit=largest_set(problem, len(run.trace.starts)) if run.limited else None,
        interrupted=run.interrupted,
    )


def _with_fixed(grid: Grid, prob: FloatArray) -> FloatArray:
    """Probabilities with 0 and 1, without rounding, where the prior says so."""
    if grid.unit_odds is None:
        return prob
    return np.where(np.isfinite(grid.unit_odds), prob, (grid.unit_odds > 0).astype(float))


def _models(problem: Problem, grid: Grid, run: Run, log_evidence: float) -> tuple[Model, ...]:
    """The sets that were visited most; probabilities by their joint densities and the evidence."""
    best = heaviest(run.trace, 0, run.trace.key.shape[0], N_MODELS)
    at = sets_at(run.trace, [where for _, where, _ in best])
    sets = [at[where] for _, where, _ in best]
    if np.isfinite(log_evidence):
        prob = np.minimum(np.exp(log_joints(problem, grid, sets) - log_evidence), 1.0)
    else:
        prob = np.array([share for _, _, share in best])
    models = [Model(units, float(p)) for units, p in zip(sets, prob, strict=True)]
    return tuple(sorted(models, key=lambda model: -model.probability))


def _kept(problem: Problem, grid: Grid, run: Run, walkers: int, rng: np.random.Generator) -> States:
    """States of the runs, one run after the other; `walkers` of them are a chain."""
    trace = run.trace
    steps = trace.key.shape[0]
    weight = (trace.weight / trace.weight.sum()).T.ravel()
    typical: FloatArray = np.full(weight.size, max(run.estimate.prob.sum(), 1.0))
    index, kept = resampled(weight, typical, rng)
    runs, at = index // steps, index % steps
    positions = list(zip(at.tolist(), runs.tolist(), strict=True))
    sets = sets_at(trace, positions)
    nodes = trace.node[at, runs].astype(np.intp)
    return build_states(problem, grid, [sets[p] for p in positions], nodes, kept, runs // walkers, rng)
