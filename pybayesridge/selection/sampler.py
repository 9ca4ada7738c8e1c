"""Tempered Gibbs sampling of the sets, with everything else integrated out (Zanella & Roberts 2019).

The state is the set of units that are in, and a node of log g. A unit j is chosen with probability proportional to
``(q_j + e) / P_j``, q_j its conditional inclusion probability and P_j the conditional probability of its present
state, and flipped. The chain's distribution is then the posterior times Z, the sum of these weights, so that a state
counts 1 / Z. A new node is proposed from its conditional distribution given the set and accepted with probability
min(1, Z' / Z), which keeps that distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.collapsed import Spectrum, log_joint_of_each, spectra
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.pairs import correlated_pairs
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.tallies import FEW, Estimate, by_size, estimate
from pybayesridge.selection.walk import EXPLORE, REFRESH_EVERY, Trace, Walk

TOLD_EVERY = 64
"""Steps of each chain between two reports of the progress."""

UNIFORMS = 1024
"""Steps for which random numbers are drawn at once."""

FIRST_PAIRS = 128
"""Steps of a chain before the pairs of columns are chosen whose probabilities are averaged together."""

WALKERS = ((FEW, 4), (np.inf, 1))
"""Runs that make up a chain, up to so many units: where these are few, a step of many runs costs little more than one
of a few."""

FIRST_CHECK = ((FEW, 1024), (500, 4096), (5000, 2048), (np.inf, 1024))
"""Steps of a run before its precision is looked at, up to so many units: fewer would miss rare large sets, which few
units reach sooner and many at a price."""

AGREEMENT = 1.1
"""Chains whose potential scale reduction is larger than this disagree, and run on."""

MEAN_ERRORS = 5.0
"""Of a coefficient's mean, in its standard deviations, for each standard error of a probability that is allowed: the
means of coefficients that move slowly are then known to so many times `mcse`, or to `LEAST_MEAN_ERROR`."""

LEAST_MEAN_ERROR = 0.1


def allowed_mean_error(mcse: float) -> float:
    """The largest Monte Carlo standard error of a coefficient's mean at which sampling stops."""
    return max(MEAN_ERRORS * mcse, LEAST_MEAN_ERROR)


@dataclass(frozen=True, slots=True)
class Run:
    """All that the chains gave.

    Attributes
    ----------
    estimate : Estimate
    trace : Trace
        Without the lead.
    coef : (3, d) array
        Sums of weight times conditional inclusion probability, and times the mean and the mean square of the
        coefficient given that its unit is in.
    node_prob : (K,) array
    converged, interrupted, limited : bool
    drift : float
        Largest error that was found when a factorisation was computed afresh, relative to |x|².
    """

    estimate: Estimate
    trace: Trace
    coef: FloatArray
    node_prob: FloatArray
    converged: bool
    interrupted: bool
    limited: bool
    drift: float


def sample_sets(
    problem: Problem,
    grid: Grid,
    starts: Sequence[IntArray],
    *,
    rng: np.random.Generator,
    mcse: float = 0.01,
    maxiter: int = 100_000,
    explore: float = EXPLORE,
    progress: Callable[[int, Estimate | None], None] | None = None,
) -> Run:
    """Run one chain from each start until the largest standard error is at most `mcse` and the chains agree.

    Parameters
    ----------
    problem : Problem
    grid : Grid
    starts : sequence of int arrays
        Units in.
    rng : numpy.random.Generator
    mcse : float
    maxiter : int
        Steps of all chains together.
    explore : float
    progress : callable, optional
        Called now and then with the number of steps and the last estimate, None before the first one.
    """
    walk = _Walk(problem, grid, starts, rng, explore)
    first = check = by_size(FIRST_CHECK, grid.n_units)
    converged = interrupted = False
    now: Estimate | None = None
    most = max(maxiter // len(starts), 1)

    def told(steps: int) -> None:
        if progress is not None:
            progress(steps * len(starts), now)

    try:
        walk.advance(min(FIRST_PAIRS, most), told)
        while walk.tallies.steps < most:
            walk.pair_up(estimate(walk.tallies).prob)
            walk.advance(min(check, most) - walk.tallies.steps, told)
            now = estimate(walk.tallies)
            precise = float(now.se.max(initial=0.0)) <= mcse and now.agreement <= AGREEMENT
            if walk.tallies.steps >= first and precise:
                converged = True
                break
            check = int(1.25 * check)
    except KeyboardInterrupt:
        interrupted = True
        if walk.tallies.steps == 0:
            raise
    return Run(
        estimate=estimate(walk.tallies),
        trace=walk.trace(),
        coef=walk.coef,
        node_prob=walk.node_sum / max(walk.node_sum.sum(), 1e-300) if walk.node_sum.sum() > 0 else walk.node_sum,
        converged=converged,
        interrupted=interrupted,
        limited=walk.limited,
        drift=walk.drift,
    )


class _Walk(Walk):
    """The chains on their way; changed in place."""

    def __init__(
        self, problem: Problem, grid: Grid, starts: Sequence[IntArray], rng: np.random.Generator, explore: float
    ) -> None:
        super().__init__(problem, grid, starts, rng, explore)
        self.drift = 0.0
        self._begin()
        self.look()

    def _begin(self) -> None:
        chains = self.chains
        for c, start in enumerate(self.starts):
            chains.state[c, start] = True
            chains.n_in[c] = start.size
        inside, parts = self._inside()
        chains.node[:] = self._draw_nodes(parts, inside, np.full(len(parts), 0.5))[0]
        for c, part in enumerate(parts):
            chains.factors.rebuild(c, part, float(chains.grid.k[chains.node[c]]))

    def _inside(self) -> tuple[list[IntArray], list[Spectrum]]:
        """The chains' present sets, and their spectra."""
        problem = self.chains.problem
        inside = [state.nonzero()[0] for state in self.chains.state]
        return inside, spectra(problem, [problem.units.columns(units) for units in inside])

    def _draw_nodes(
        self, parts: list[Spectrum], inside: list[IntArray], uniform: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """A node for each chain from its conditional distribution given the set, and these distributions, (C, K)."""
        log_prob = log_joint_of_each(self.chains.problem, self.chains.grid, parts, inside)
        prob = np.exp(log_prob - log_prob.max(axis=1, keepdims=True))
        prob /= prob.sum(axis=1, keepdims=True)
        below = (prob.cumsum(axis=1) < uniform[:, None]).sum(axis=1)
        return np.minimum(below, prob.shape[1] - 1), prob

    def pair_up(self, prob: FloatArray) -> None:
        """Choose pairs of correlated columns by what is known of the inclusion probabilities."""
        free = prob if self.movable is None else np.where(self.movable, prob, 0.0)
        self.pairs = correlated_pairs(self.chains.problem, free)
        self.look()

    def advance(self, steps: int, told: Callable[[int], None]) -> None:
        """Take steps, telling their number now and then."""
        while steps > 0:
            size = min(steps, UNIFORMS)
            uniform = self.rng.random((size, 3, len(self.starts)))
            self.new_piece(size)
            for t in range(size):
                if self.tallies.steps % self.node_every == 0 and self.node_sum.size > 1:
                    self._move_nodes(uniform[t, 1], uniform[t, 2])
                elif self.tallies.steps % REFRESH_EVERY == 0:
                    self._refresh()
                self.count_and_flip(t, uniform[t, 0])
                if t % TOLD_EVERY == TOLD_EVERY - 1:
                    told(self.tallies.steps)
            steps -= size

    def _move_nodes(self, uniform: FloatArray, accept: FloatArray) -> None:
        """Propose a node to each chain from its conditional distribution, and accept by the totals Z."""
        chains, spare = self.chains, self.spare
        inside, parts = self._inside()
        spare.node[:], prob_of_node = self._draw_nodes(parts, inside, uniform)
        self.node_sum += (1.0 / self.total) @ prob_of_node
        spare.n_in[:], spare.state[:] = chains.n_in, chains.state
        for c, (part, k) in enumerate(zip(parts, chains.grid.k[spare.node].tolist(), strict=True)):
            spare.factors.rebuild(c, part, k)
            if spare.node[c] == chains.node[c]:
                self._note_drift(c)
        self.accept(accept)

    def _note_drift(self, c: int) -> None:
        """Compare with what was computed afresh for the same state."""
        gap = np.abs(self.chains.factors.free[c] - self.spare.factors.free[c])
        scale = float(self.chains.problem.diag.max(initial=0.0)) + float(self.chains.factors.k[c])
        self.drift = max(self.drift, float(gap.max(initial=0.0)) / scale)

    def _refresh(self) -> None:
        chains, spare = self.chains, self.spare
        for c, part in enumerate(self._inside()[1]):
            spare.factors.rebuild(c, part, float(chains.factors.k[c]))
            self._note_drift(c)
            chains.factors.copy_from(spare.factors, c)
        self.look()
