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

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import Spectrum, log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.odds import (
    LARGEST,
    ROUNDING,
    Chains,
    group_coefficients,
    log_odds,
    near_limit,
    new_chains,
)
from pybayesridge.selection.pairs import Pairs, correlated_pairs, pair_probabilities
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.states import mean_noise
from pybayesridge.selection.tallies import Estimate, Tallies, estimate

EXPLORE = 1.0
"""Sum over all units of e, the part of the choice that does not depend on the data."""

NODE_EVERY = ((200, 4), (np.inf, 16))
"""Steps between proposals of g, up to so many units: a proposal costs more than a step where there are many."""

REFRESH_EVERY = 512
"""Steps after which the factorisations are computed afresh."""

MOMENTS_EVERY = 8
"""Steps between those that count for moments of coefficients."""

TOLD_EVERY = 64
"""Steps of each chain between two reports of the progress."""

UNIFORMS = 1024
"""Steps for which random numbers are drawn at once."""

FIRST_PAIRS = 128
"""Steps of a chain before the pairs of columns are chosen whose probabilities are averaged together."""

FIRST_CHECK = ((50, 2048), (500, 4096), (5000, 2048), (np.inf, 1024))
"""Steps of a chain before its precision is looked at, up to so many units: fewer would miss rare large sets, which
few units reach sooner and many at a price."""

AGREEMENT = 1.1
"""Chains whose potential scale reduction is larger than this disagree, and run on."""

MEMORY = 2**28
"""Bytes for all chains' factorisations: they limit the size of a set."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of all steps t and chains c.

    Attributes
    ----------
    flipped, node : (T, C) int arrays
        The unit that was flipped after step t, and the node of step t.
    weight : (T, C) array
    key : (T, C) uint64 array
        The set at step t: exclusive or of a random number for each unit that is in.
    starts : list of int arrays
        The chains' first sets.
    """

    flipped: IntArray
    node: IntArray
    weight: FloatArray
    key: AnyArray
    starts: list[IntArray]


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


def by_size(table: tuple[tuple[float, int], ...], n_units: int) -> int:
    """The entry of a table for so many units."""
    return next(value for most, value in table if n_units <= most)


def largest_set(problem: Problem, n_chains: int) -> int:
    """Most columns of a set, by memory."""
    return int(min(problem.d, max(64, MEMORY // (8 * n_chains * max(problem.d, 1)))))


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


class _Walk:
    """The chains on their way; changed in place."""

    def __init__(
        self, problem: Problem, grid: Grid, starts: Sequence[IntArray], rng: np.random.Generator, explore: float
    ) -> None:
        n_chains, n_units = len(starts), problem.units.n
        self.rng = rng
        self.max_columns = largest_set(problem, n_chains)
        self.chains = new_chains(problem, grid, n_chains, self.max_columns)
        self.spare = new_chains(problem, grid, n_chains, self.max_columns)
        self.movable = None if grid.unit_odds is None else np.isfinite(grid.unit_odds)
        if self.movable is not None and self.movable.all():
            self.movable = None
        n_free = n_units if self.movable is None else max(int(self.movable.sum()), 1)
        self.explore = explore / n_free
        self.pairs: Pairs | None = None
        self.node_every = by_size(NODE_EVERY, n_units)
        self.marks = np.random.default_rng(12345).integers(0, 2**63, n_units, dtype=np.uint64)
        self.key = np.zeros(n_chains, dtype=np.uint64)
        self.starts = [np.asarray(s, dtype=np.intp) for s in starts]
        self.tallies = Tallies(n_chains, n_units)
        self.coef = np.zeros((3, problem.d))
        self.node_sum = np.zeros(grid.log_g.size)
        self.pieces: list[tuple[AnyArray, ...]] = []
        self.limited, self.drift = False, 0.0
        for c, start in enumerate(self.starts):
            self._begin(c, start)
        self._look()

    def _begin(self, c: int, start: IntArray) -> None:
        chains = self.chains
        part = spectrum(chains.problem, chains.problem.units.columns(start))
        chains.state[c, start] = True
        chains.n_in[c] = start.size
        chains.node[c] = self._draw_node(part, start, 0.5)[0]
        chains.factors.rebuild(c, part, float(chains.grid.k[chains.node[c]]))
        if start.size:
            self.key[c] = np.bitwise_xor.reduce(self.marks[start])

    def _draw_node(self, part: Spectrum, units: IntArray, uniform: float) -> tuple[int, FloatArray]:
        """A node from its conditional distribution given the set, and that distribution."""
        log_prob = log_joint(self.chains.problem, self.chains.grid, part, units)
        prob = np.exp(log_prob - log_prob.max())
        prob /= prob.sum()
        return min(int(prob.cumsum().searchsorted(uniform)), prob.size - 1), prob

    def _look(self) -> None:
        """Conditional probabilities and weights of the present states."""
        self.prob, self.choice, self.total, self.pair_prob = self._choices(self.chains)

    def pair_up(self, prob: FloatArray) -> None:
        """Choose pairs of correlated columns by what is known of the inclusion probabilities."""
        free = prob if self.movable is None else np.where(self.movable, prob, 0.0)
        self.pairs = correlated_pairs(self.chains.problem, free)
        self._look()

    def _choices(self, chains: Chains) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """Return q (C, G), running sums of the weights of choice (C, G), totals Z (C,), and q of pairs (C, K)."""
        e = self.explore
        odds = log_odds(chains)
        near = near_limit(chains)
        self.limited = self.limited or near
        paired = None if self.pairs is None or near else pair_probabilities(chains, self.pairs, odds.value)
        blocked = np.isinf(odds.value) if near or self.movable is not None else None
        u = np.clip(odds.value, -LARGEST, LARGEST, out=odds.value)
        np.exp(u, out=u)
        prob = u + 1.0
        np.divide(u, prob, out=prob)
        own = 1.0 + e + e / u[odds.chain, odds.unit]
        choice = u
        choice *= 1.0 + e
        choice += e
        choice[odds.chain, odds.unit] = own
        if blocked is not None:
            choice[blocked] = 0.0
        np.cumsum(choice, axis=1, out=choice)
        if self.pairs is not None and paired is None:
            paired = prob[:, self.pairs.all]
        return prob, choice, choice[:, -1].copy(), paired

    def advance(self, steps: int, told: Callable[[int], None]) -> None:
        """Take steps, telling their number now and then."""
        while steps > 0:
            size = min(steps, UNIFORMS)
            uniform = self.rng.random((size, 3, len(self.starts)))
            # Zeros: a step that is interrupted has no flip.
            shape = (size, len(self.starts))
            kinds = (np.int32, np.int32, np.float64, np.uint64)
            piece: tuple[AnyArray, ...] = tuple(np.zeros(shape, dtype=kind) for kind in kinds)
            self.pieces.append(piece)
            for t in range(size):
                self._step(t, uniform[t], piece)
                if t % TOLD_EVERY == TOLD_EVERY - 1:
                    told(self.tallies.steps)
            steps -= size

    def _step(self, t: int, uniform: FloatArray, piece: tuple[AnyArray, ...]) -> None:
        chains, steps = self.chains, self.tallies.steps
        if steps % self.node_every == 0 and chains.grid.log_g.size > 1:
            self._move_nodes(uniform[1], uniform[2])
        elif steps % REFRESH_EVERY == 0:
            self._refresh()
        flipped, node, weight, key = piece
        w = 1.0 / self.total
        node[t], weight[t], key[t] = chains.node, w, self.key
        if steps % MOMENTS_EVERY == 0:
            self._moments(w)
        # Before the flips, so that an interruption leaves whole steps.
        weighted = w[:, None] * self.prob
        if self.pairs is not None and self.pair_prob is not None:
            weighted[:, self.pairs.all] = w[:, None] * self.pair_prob
        self.tallies.add(w, weighted)
        last = self.choice.shape[1] - 1
        for c, point in enumerate((uniform[0] * self.total).tolist()):
            j = min(int(self.choice[c].searchsorted(point, side="right")), last)
            flipped[t, c] = j
            self._flip(c, j)
        self._look()

    def _flip(self, c: int, j: int) -> None:
        chains = self.chains
        factors, units = chains.factors, chains.problem.units
        inside = bool(chains.state[c, j])
        change = factors.remove if inside else factors.append
        if units.single:
            change(c, j)
        else:
            for column in units.members(j).tolist():
                change(c, column)
        chains.state[c, j] = not inside
        chains.n_in[c] += -1 if inside else 1
        self.key[c] ^= self.marks[j]

    def _move_nodes(self, uniform: FloatArray, accept: FloatArray) -> None:
        """Propose a node to each chain from its conditional distribution, and accept by the totals Z."""
        chains, spare = self.chains, self.spare
        w = 1.0 / self.total
        for c in range(w.size):
            inside = chains.state[c].nonzero()[0]
            part = spectrum(chains.problem, chains.problem.units.columns(inside))
            new, prob = self._draw_node(part, inside, float(uniform[c]))
            self.node_sum += w[c] * prob
            spare.node[c], spare.n_in[c], spare.state[c] = new, chains.n_in[c], chains.state[c]
            spare.factors.rebuild(c, part, float(chains.grid.k[new]))
            if new == chains.node[c]:
                self._note_drift(c)
        prob, choice, total, paired = self._choices(spare)
        for c in np.flatnonzero(accept * self.total < total).tolist():
            chains.node[c] = spare.node[c]
            chains.factors.copy_from(spare.factors, c)
            self.prob[c], self.choice[c], self.total[c] = prob[c], choice[c], total[c]
            if paired is not None and self.pair_prob is not None:
                self.pair_prob[c] = paired[c]

    def _note_drift(self, c: int) -> None:
        """Compare with what was computed afresh for the same state."""
        gap = np.abs(self.chains.factors.free[c] - self.spare.factors.free[c])
        scale = float(self.chains.problem.diag.max(initial=0.0)) + float(self.chains.factors.k[c])
        self.drift = max(self.drift, float(gap.max(initial=0.0)) / scale)

    def _refresh(self) -> None:
        chains, spare = self.chains, self.spare
        for c in range(len(self.starts)):
            inside = chains.state[c].nonzero()[0]
            part = spectrum(chains.problem, chains.problem.units.columns(inside))
            spare.factors.rebuild(c, part, float(chains.factors.k[c]))
            self._note_drift(c)
            chains.factors.copy_from(spare.factors, c)
        self._look()

    def _moments(self, w: FloatArray) -> None:
        """Add up moments of each coefficient given that its unit is in and given the other units."""
        chains, factors = self.chains, self.chains.factors
        problem, grid = chains.problem, chains.grid
        left = np.maximum(factors.left(), ROUNDING * problem.yy)[:, None]
        coef, var = factors.reach / factors.free, 1.0 / factors.free
        rest = left - factors.reach * coef
        prob = self.prob
        if not problem.units.single:
            prob = prob[:, problem.units.of_column]
            group_coefficients(chains, left, coef, var, rest)
        own_coef, own_var = factors.inside()
        for c, members in enumerate(factors.members):
            m = len(members)
            coef[c, members], var[c, members], rest[c, members] = own_coef[c, :m], own_var[c, :m], left[c]
        if grid.noise_var is not None:
            noise = grid.noise_var[chains.node][:, None]
        else:
            noise = mean_noise(np.maximum(rest, 0.0), problem.nu)
        var *= noise
        weighted = w[:, None] * prob
        self.coef[0] += weighted.sum(axis=0)
        self.coef[1] += np.einsum("cj,cj->j", weighted, coef)
        self.coef[2] += np.einsum("cj,cj->j", weighted, var) + np.einsum("cj,cj,cj->j", weighted, coef, coef)

    def trace(self) -> Trace:
        """Everything after the lead; its first sets are those at its beginning."""
        steps = self.tallies.steps
        flipped, node, weight, key = (np.concatenate(parts)[:steps] for parts in zip(*self.pieces, strict=True))
        lead = self.tallies.lead
        starts = [after(start, flipped[:lead, c]) for c, start in enumerate(self.starts)]
        return Trace(flipped[lead:], node[lead:], weight[lead:], key[lead:], starts)


def after(start: IntArray, flipped: IntArray) -> IntArray:
    """The set, ascending, after some flips."""
    unit, count = np.unique(np.concatenate([start, flipped]), return_counts=True)
    return unit[count % 2 == 1].astype(np.intp)
