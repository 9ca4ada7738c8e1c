"""The exact posterior of which columns are in: by enumeration where that is possible, else by Monte Carlo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.linalg.blas import one_pool
from pybayesridge.selection.enumeration import can_enumerate, enumerate_sets
from pybayesridge.selection.grid import Given, Grid, grid_of
from pybayesridge.selection.light import FIRST_SIZES, MEMORY, tabulate
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import COMPUTATIONS, Exact, Model
from pybayesridge.selection.sampler import Progress, Run, sample_sets
from pybayesridge.selection.search import ForwardSearch
from pybayesridge.selection.starts import starting_states
from pybayesridge.selection.states import States, build_states, resampled
from pybayesridge.selection.traces import evidence, heaviest, log_joints, size_distribution

N_MODELS = 100

MAXITER = 100_000_000
"""Steps of all chains together at most."""

WALKERS = ((5000, 8), (np.inf, 4))
"""Walks that make up a chain, up to so many units: errors are judged by their differences."""


def n_walkers(n_chains: int, n_units: int) -> int:
    """How many walkers make up so many chains; two at least, since one alone has no error."""
    return max(n_chains * next(value for most, value in WALKERS if n_units <= most), 2)


def largest_set(problem: Problem, walkers: int) -> int:
    """Most columns of a set, by memory: sets of more columns than rows are held by their rows."""
    by_memory = int(np.sqrt(MEMORY / (8 * walkers)))
    if problem.rows is not None and problem.rows.shape[0] < by_memory:
        return problem.d
    return min(problem.d, max(64, by_memory))


def fit_exact(
    problem: Problem,
    given: Given,
    *,
    method: Literal["enumeration", "sampler"] | None = None,
    mcse: float = 0.01,
    n_chains: int = 4,
    maxiter: int = MAXITER,
    rng: int | np.random.Generator = 0,
    starts: Sequence[IntArray] = (),
    progress: Progress | None = None,
) -> Exact:
    """Compute inclusion probabilities, moments and all that rests on the joint posterior.

    Parameters
    ----------
    problem : Problem
    given : Given
    method : {"enumeration", "sampler"}, optional
        By default enumeration for at most 15 units that may be in or out.
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
    if can_enumerate(grid) if method is None else not COMPUTATIONS[method].sampled:
        return enumerate_sets(problem, given, rng=generator, n_models=N_MODELS)
    tabulate(grid, np.arange(min(FIRST_SIZES, grid.n_units + 1)))
    walkers = n_walkers(n_chains, grid.n_units)
    most = largest_set(problem, walkers)
    # Small matrices: threads cost more than they gain.
    with one_pool(0.0):
        search = ForwardSearch.beside(problem, grid, most, generator)
        first = starting_states(problem, grid, walkers, generator, starts, most, search.sets())
        run = sample_sets(
            problem,
            grid,
            first,
            rng=generator,
            most_columns=most,
            mcse=mcse,
            maxiter=maxiter,
            progress=progress,
            search=search,
        )
        states = kept_states(problem, grid, run, walkers // n_chains, generator)
        found = evidence(problem, grid, run.trace)
        return assembled(problem, grid, run, states, found, most)


def assembled(
    problem: Problem,
    grid: Grid,
    run: Run,
    states: States,
    log_evidence_with_se: tuple[float, float],
    most_columns: int,
) -> Exact:
    """The answer from a run, the states that are kept of it, and the log evidence, NaN if it is not known."""
    found, of_column = run.estimate, problem.units.of_column
    unit_prob = _with_fixed(grid, found.prob)
    prob = unit_prob[of_column]
    moments = (part[: problem.d] for part in (found.mean, found.var, found.cond_mean, found.cond_var))
    mean, var, cond_mean, cond_var = moments
    log_evidence, evidence_se = log_evidence_with_se
    node_prob = np.bincount(run.trace.node, minlength=grid.log_g.size) / run.trace.n
    return Exact(
        unit_prob=unit_prob,
        unit_se=found.se,
        inclusion_prob=prob,
        inclusion_se=found.se[of_column],
        mean=mean,
        var=var,
        cond_mean=cond_mean,
        cond_var=cond_var,
        size_prob=size_distribution(run.trace),
        node_prob=node_prob,
        models=_models(problem, grid, run, log_evidence),
        log_evidence=log_evidence,
        log_evidence_se=found.inflation * evidence_se,
        states=states,
        grid=grid,
        method="sampler",
        converged=run.converged and not run.limited,
        n_iter=run.steps,
        agreement=found.agreement,
        effective=found.effective,
        size_limit=most_columns if run.limited else None,
        interrupted=run.interrupted,
        mean_error=found.mean_error,
        errors=found.errors,
        inflation=found.inflation,
        drift=run.drift,
    )


def _with_fixed(grid: Grid, prob: FloatArray) -> FloatArray:
    """Probabilities with 0 and 1, without rounding, where the prior says so."""
    if grid.unit_odds is None:
        return prob
    return np.where(grid.unit_odds == np.inf, 1.0, np.where(grid.unit_odds == -np.inf, 0.0, prob))


def _models(problem: Problem, grid: Grid, run: Run, log_evidence: float) -> tuple[Model, ...]:
    """The sets that were visited most; probabilities by their joint densities and the evidence."""
    best = heaviest(run.trace, np.arange(run.trace.n), N_MODELS)
    sets = run.trace.sets_of(np.array([at for _, at, _ in best], dtype=np.intp))
    if np.isfinite(log_evidence):
        prob = np.minimum(np.exp(log_joints(problem, grid, sets) - log_evidence), 1.0)
    else:
        prob = np.array([share for _, _, share in best])
    models = [Model(units, float(p)) for units, p in zip(sets, prob, strict=True)]
    return tuple(sorted(models, key=lambda model: -model.probability))


def kept_states(problem: Problem, grid: Grid, run: Run, walkers: int, rng: np.random.Generator) -> States:
    """States of the walks, one walk after the other; `walkers` of them are a chain."""
    trace = run.trace
    columns: FloatArray = trace.sizes.astype(np.float64) * (problem.d / max(problem.units.n, 1))
    index, weight = resampled(np.full(trace.n, 1.0 / trace.n), columns, rng)
    walker = trace.walker[index]
    states = build_states(
        problem,
        grid,
        trace.sets_of(index),
        trace.node[index],
        weight,
        walker // max(walkers, 1),
        rng,
    )
    return replace(states, walker=walker)
