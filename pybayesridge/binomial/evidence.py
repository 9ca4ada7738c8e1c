"""The evidence of yes/no responses, averaged over all sets, by importance from the expansion of the likelihood.

Under the second-order expansion of the log likelihood about the mean of the linear predictors, sets are sampled as
those of a Gaussian response with known noise: that is fast, and gives the evidence. It is corrected by the mean ratio
of the likelihood to its expansion, over draws of the coefficients. With many trials a row this ratio hardly varies.
Where it varies too much there is no such evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import GRAM_COLUMNS, Augmented, AugmentedProblem, BinomialRows, problem_given
from pybayesridge.binomial.link import log_likelihood
from pybayesridge.linalg.blas import one_pool
from pybayesridge.selection.collapsed import inverse_root, spectra
from pybayesridge.selection.estimates import Estimate
from pybayesridge.selection.fit import largest_set, n_walkers
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.sampler import Run, Walk, run_walk
from pybayesridge.selection.starts import starting_states
from pybayesridge.selection.traces import Trace, evidence
from pybayesridge.selection.unseen import Unseen

MCSE, MOST_STEPS = 0.02, 2_000_000
"""Of the walk: errors of inclusion probabilities at which it ends, and its steps at most."""

STATES, DRAWS = 1000, 4
"""States of the walk at which the likelihood is compared with its expansion, and draws in each."""

EFFICIENT = 0.5
"""Effective share of these draws from which the evidence is taken."""

MOST_RATIO = 4.0
"""Ratio of likelihood and expansion, averaged over draws of the posterior, up to which the evidence is taken: that of
independent draws is the inverse of the effective share, which is too large where no draw has come to a long tail."""

MOST_ERROR = 0.1
"""Standard error of the log evidence from which there is none."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence, without factors that depend on the responses alone.

    Attributes
    ----------
    log_evidence, se : float
        Its logarithm, and the Monte Carlo standard error.
    draws : float
        Effective number of independent draws.
    """

    log_evidence: float
    se: float
    draws: float


class ShortWalk(Walk):
    """Walkers that are asked for the share of likely sets alone: that needs neither many steps nor rare sets."""

    least_steps = 0

    def _unseen(self, found: Estimate, trace: Trace) -> Unseen:
        """Nothing: errors of probabilities are not used."""
        return Unseen(np.zeros(self.problem.d), np.zeros(self.problem.d), np.zeros(self.problem.units.n))


def log_evidence(
    rows: BinomialRows,
    grid: Grid,
    seen: FloatArray,
    rng: np.random.Generator,
    *,
    n_chains: int,
    rounds: int,
    sets: Sequence[IntArray] = (),
) -> Evidence | None:
    """The evidence of a prior, if the expansion is good enough.

    Parameters
    ----------
    rows : BinomialRows
    grid : Grid
        Nodes of log g and the prior.
    seen : (m, n) array
        Draws of the posterior's linear predictors, about: the likelihood is expanded about their mean at first.
    rng : numpy.random.Generator
    n_chains : int
        With twice as many the error is smaller by about a third, in twice the time.
    rounds : int
        Expansions that are tried, each about the mean that the one before has found.
    sets : sequence of int arrays
        Sets of units that walkers may start from.
    """
    if rows.x.shape[1] > GRAM_COLUMNS:
        return None
    psi = seen.mean(axis=0)
    for _ in range(rounds):
        given = rows.expanded(psi)
        problem = problem_given(rows, given)
        run = _sampled(problem, grid, rng, n_chains, sets)
        log_gaussian, se = evidence(problem, grid, run.trace)
        if not se < MOST_ERROR:
            return None
        beyond, predictor, walker = _compared(problem, grid, run, rng)
        total = float(logsumexp(beyond)) - np.log(beyond.size)
        relative = np.exp(beyond - total)
        efficiency = 1.0 / float(np.mean(relative**2))
        if efficiency >= EFFICIENT:
            if logsumexp(_beyond(rows, given, seen)) - np.log(seen.shape[0]) - total > np.log(MOST_RATIO):
                return None
            error = run.estimate.inflation * (se + _between(relative.mean(axis=1), walker))
            draws = efficiency * min(run.estimate.effective, float(walker.size))
            value = log_gaussian + _constant(problem, given) + total
            return Evidence(value, error, draws) if error < MOST_ERROR else None
        psi = relative.ravel() @ predictor / relative.size
    return None


def _sampled(
    problem: AugmentedProblem, grid: Grid, rng: np.random.Generator, n_chains: int, sets: Sequence[IntArray]
) -> Run:
    """Walk under the expansion."""
    walkers = n_walkers(n_chains, grid.n_units)
    most = largest_set(problem, walkers)
    with one_pool(0.0):
        starts = starting_states(problem, grid, walkers, rng, sets, most)
        return run_walk(ShortWalk(problem, grid, starts, rng, most, None), MCSE, MOST_STEPS)


def _compared(
    problem: AugmentedProblem, grid: Grid, run: Run, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The log likelihood less its expansion at draws in some states, (S, m); their linear predictors; the walkers."""
    rows, trace = problem.source, run.trace
    some = np.unique(np.linspace(0, trace.n - 1, STATES).round().astype(np.intp))
    sets, nodes = trace.sets_of(some), trace.node[some]
    different = {units.tobytes(): problem.units.columns(units) for units in sets}
    parts = dict(zip(different, spectra(problem, list(different.values())), strict=True))
    b = np.zeros((some.size, DRAWS, problem.d))
    for own, units, k in zip(b, sets, grid.k[nodes].tolist(), strict=True):
        part = parts[units.tobytes()]
        coef, root = part.vectors @ (part.cross / (part.values + k)), inverse_root(part, k)
        own[:, part.columns] = coef + rng.standard_normal((DRAWS, root.shape[1])) @ root.T
    flat = b.reshape(-1, problem.d)
    predictor = flat @ rows.x.T
    if rows.c.shape[1]:
        right = problem.half - flat @ problem.on_c.T + rng.standard_normal((flat.shape[0], rows.c.shape[1]))
        predictor += solve_triangular(problem.factor, right.T, check_finite=False).T @ rows.c.T
    return _beyond(rows, problem.given, predictor).reshape(-1, DRAWS), predictor, trace.walker[some]


def _beyond(rows: BinomialRows, given: Augmented, predictor: FloatArray) -> FloatArray:
    """The log likelihood of linear predictors (m, n) less its expansion, (m,)."""
    likelihood = rows.likelihood
    value = log_likelihood(*likelihood.totals(), predictor, likelihood.link)
    out: FloatArray = (value - predictor * (given.linear - 0.5 * given.weight * predictor)).sum(axis=1)
    return out


def _between(values: FloatArray, walker: IntArray) -> float:
    """Standard error of the mean of values (S,) by the differences between walkers."""
    of = np.unique(walker, return_inverse=True)[1].reshape(-1)
    gap = np.bincount(of, values - values.mean()) / values.size
    return float(np.sqrt(gap.size / max(gap.size - 1, 1) * (gap**2).sum()))


def _constant(problem: AugmentedProblem, given: Augmented) -> float:
    """What the density of a Gaussian response lacks of the integral of the expansion's exponential."""
    k = problem.factor.shape[0]
    square = float(given.linear @ (given.linear / given.weight))
    volume = 0.5 * (problem.nu + k) * np.log(2.0 * np.pi) - np.log(np.abs(np.diag(problem.factor))).sum()
    return float(volume + 0.5 * square)
