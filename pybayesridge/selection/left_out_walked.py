"""Rows predicted from the others by walks without them, where too many sets matter that the posterior does not show.

The posterior of sets given the other rows is sampled as that of all rows is (:mod:`pybayesridge.selection.sampler`),
with the same prior. The row's density is then the mean of its densities given the states.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import IntArray
from pybayesridge.linalg.blas import one_pool
from pybayesridge.posterior.left_out import Noise, densities
from pybayesridge.selection.fit import kept_states, largest_set
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.left_out_known import CoordinateRows
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.sampler import sample_sets
from pybayesridge.selection.starts import starting_states

WALKERS, MCSE, MOST_STEPS = 8, 0.05, 3_000_000
"""Of a walk: errors of inclusion probabilities at which it ends, and its steps at most."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A row predicted from the others.

    Attributes
    ----------
    log_density, pit, error : float
        As for :class:`pybayesridge.posterior.left_out.LeftOut`.
    efficiency : float
        Effective share of the states.
    se : float
        Monte Carlo standard error of the log density.
    converged : bool
        Whether the walk is as precise as it should be and its walkers agree.
    """

    log_density: float
    pit: float
    error: float
    efficiency: float
    se: float
    converged: bool


def walked(
    problem: Problem, grid: Grid, rows: CoordinateRows, i: int, starts: Sequence[IntArray], seed: int
) -> Walked:
    """Predict row i of some rows of a problem by a walk without it; `starts` are sets that may matter."""
    rng, without = np.random.default_rng(seed), without_row(problem, rows, i)
    most = largest_set(without, WALKERS)
    with one_pool(0.0):
        first = starting_states(without, grid, WALKERS, rng, starts, most)
        run = sample_sets(without, grid, first, rng=rng, most_columns=most, mcse=MCSE, maxiter=MOST_STEPS)
        states = kept_states(without, grid, run, 1, rng)
    root = np.sqrt(1.0 - rows.own[i])
    error, slack = np.empty((2, states.n, 1))
    for s in range(states.n):
        x = rows.x[i, states.set_of(s)] / root
        error[s] = (rows.y[i] / root - x @ states.coef[states.start[s] : states.start[s + 1]]) / root
        slack[s] = root**2 / (1.0 + ((x @ states.root[s]) ** 2).sum())
    known = None if states.noise_var is None else states.noise_var[:, None]
    # R of all rows is larger by the square of what is left of this one.
    given = densities(error, slack, states.left[:, None] + error**2 * slack, Noise(problem.nu, known))
    log_each = given.left_out[:, 0]
    log_density = float(logsumexp(log_each, b=states.weight))
    relative, weight = np.exp(log_each - log_density), states.weight
    walker = np.zeros(states.n, dtype=np.intp) if states.walker is None else states.walker
    # Of each walker what it adds to the mean ratio, which is 1.
    gap = np.bincount(walker, weight * (relative - 1.0), minlength=WALKERS)
    return Walked(
        log_density,
        float(weight @ given.below[:, 0]),
        float(weight @ error[:, 0]),
        float(1.0 / (weight @ relative**2)),
        run.estimate.inflation * float(np.sqrt((gap**2).sum() * WALKERS / (WALKERS - 1))),
        run.converged and not run.limited,
    )


def without_row(problem: Problem, rows: CoordinateRows, i: int) -> Problem:
    """The cross-products of all other rows, where unpenalised columns fit these anew."""
    assert problem.gram is not None
    root = np.sqrt(1.0 - rows.own[i])
    x, y = rows.x[i] / root, float(rows.y[i] / root)
    return replace(
        problem,
        cross=problem.cross - x * y,
        diag=np.maximum(problem.diag - x**2, 0.0),
        yy=problem.yy - y**2,
        nu=problem.nu - 1.0,
        gram=problem.gram - np.outer(x, x),
        rows=None,
        cached=OrderedDict(),
    )
