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
from pybayesridge.selection.collapsed import Spectrum, log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.odds import LARGEST, Chains, log_odds, new_chains
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.tallies import Estimate, Tallies, estimate

EXPLORE = 5.0
"""Sum over all units of e, the part of the choice that does not depend on the data."""

NODE_EVERY = 8
"""Steps between proposals of g."""

REFRESH_EVERY = 512
"""Steps after which the factorisations are computed afresh."""

MOMENTS_EVERY = 4
"""Steps between those that count for moments of coefficients."""

UNIFORMS = 1024
"""Steps for which random numbers are drawn at once."""

FIRST_CHECK = 512
"""Steps of a chain before its precision is looked at."""

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
    key: np.ndarray
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
    progress: Callable[[int, Estimate], None] | None = None,
) -> Run:
    """Run one chain from each start until the largest standard error is at most `mcse`.

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
        Called with the number of steps and the estimate whenever the precision is looked at.
    """
    walk = _Walk(problem, grid, starts, rng, explore)
    check, converged, interrupted = FIRST_CHECK, False, False
    most = max(maxiter // len(starts), 1)
    try:
        while walk.tallies.steps < most:
            walk.advance(min(check, most) - walk.tallies.steps)
            now = estimate(walk.tallies)
            if progress is not None:
                progress(walk.tallies.steps * len(starts), now)
            if check >= FIRST_CHECK and float(now.se.max(initial=0.0)) <= mcse:
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
        self.marks = np.random.default_rng(12345).integers(0, 2**63, n_units, dtype=np.uint64)
        self.key = np.zeros(n_chains, dtype=np.uint64)
        self.starts = [np.asarray(s, dtype=np.intp) for s in starts]
        self.tallies = Tallies(n_chains, n_units)
        self.coef = np.zeros((3, problem.d))
        self.node_sum = np.zeros(grid.log_g.size)
        self.pieces: list[tuple[np.ndarray, ...]] = []
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
        chains.factors[c].rebuild(part, float(chains.grid.k[chains.node[c]]))
        if start.size:
            self.key[c] = np.bitwise_xor.reduce(self.marks[start])

    def _draw_node(self, part: Spectrum, units: IntArray, uniform: float) -> tuple[int, FloatArray]:
        log_prob = log_joint(self.chains.problem, self.chains.grid, part, units)
        prob = np.exp(log_prob - log_prob.max())
        prob /= prob.sum()
        return int(min(np.searchsorted(np.cumsum(prob), uniform), prob.size - 1)), prob

    def _look(self) -> None:
        """Conditional probabilities and weights of the present states."""
        self.odds = log_odds(self.chains)
        self.prob, self.choice, self.total = self._choices(self.chains, self.odds)

    def _choices(self, chains: Chains, odds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return q (C, G), running sums of the weights of choice (C, G), and their totals Z (C,)."""
        e = self.explore
        blocked = None
        if self.movable is not None or self._near_limit(chains):
            blocked = np.isinf(odds)
        u = np.clip(odds, -LARGEST, LARGEST)
        np.exp(u, out=u)
        prob = u + 1.0
        np.divide(u, prob, out=prob)
        choice = (1.0 + e) * u
        choice += e
        for c in range(odds.shape[0]):
            if chains.n_in[c]:
                inside = (
                    np.flatnonzero(chains.state[c]) if not chains.problem.units.single else chains.factors[c].members
                )
                choice[c, inside] = 1.0 + e + e / u[c, inside]
        if blocked is not None:
            choice[blocked] = 0.0
        np.cumsum(choice, axis=1, out=choice)
        return prob, choice, choice[:, -1]

    def _near_limit(self, chains: Chains) -> bool:
        widest = 1 if chains.problem.units.single else int(chains.problem.units.sizes.max())
        near = any(f.m + widest > self.max_columns for f in chains.factors) and self.max_columns < chains.problem.d
        self.limited = self.limited or near
        return near

    def advance(self, steps: int) -> None:
        """Take steps."""
        n_chains = len(self.starts)
        while steps > 0:
            size = min(steps, UNIFORMS)
            uniform = self.rng.random((size, 3, n_chains))
            flipped = np.empty((size, n_chains), dtype=np.int32)
            node, weight = np.empty((size, n_chains), dtype=np.int32), np.empty((size, n_chains))
            key = np.empty((size, n_chains), dtype=np.uint64)
            piece = (flipped, node, weight, key)
            for t in range(size):
                self._step(t, uniform[t], piece)
            self.pieces.append(piece)
            steps -= size

    def _step(self, t: int, uniform: FloatArray, piece: tuple[np.ndarray, ...]) -> None:
        chains, steps = self.chains, self.tallies.steps
        if steps % NODE_EVERY == 0 and chains.grid.log_g.size > 1:
            self._move_nodes(uniform[1], uniform[2])
        elif steps % REFRESH_EVERY == 0:
            self._refresh()
        flipped, node, weight, key = piece
        w = 1.0 / self.total
        node[t], weight[t], key[t] = chains.node, w, self.key
        self.tallies.add(w, w[:, None] * self.prob)
        if steps % MOMENTS_EVERY == 0:
            self._moments(w)
        for c in range(w.size):
            j = min(
                int(self.choice[c].searchsorted(uniform[0, c] * self.total[c], side="right")),
                self.choice.shape[1] - 1,
            )
            flipped[t, c] = j
            self._flip(c, j)
        self._look()

    def _flip(self, c: int, j: int) -> None:
        chains = self.chains
        factor, units = chains.factors[c], chains.problem.units
        inside = chains.state[c, j]
        change = factor.remove if inside else factor.append
        if units.single:
            change(j)
        else:
            for column in units.members(j):
                change(int(column))
        chains.state[c, j] = not inside
        chains.n_in[c] += -1 if inside else 1
        self.key[c] ^= self.marks[j]

    def _move_nodes(self, uniform: FloatArray, accept: FloatArray) -> None:
        chains, spare = self.chains, self.spare
        w = 1.0 / self.total
        moved = []
        for c in range(w.size):
            inside = np.flatnonzero(chains.state[c])
            part = spectrum(chains.problem, chains.problem.units.columns(inside))
            new, prob = self._draw_node(part, inside, float(uniform[c]))
            self.node_sum += w[c] * prob
            spare.node[c], spare.n_in[c] = new, chains.n_in[c]
            spare.state[c] = chains.state[c]
            spare.factors[c].rebuild(part, float(chains.grid.k[new]))
            moved.append(new != chains.node[c])
            if not moved[-1]:
                self._note_drift(c)
        odds = log_odds(spare)
        prob, choice, total = self._choices(spare, odds)
        for c in range(len(moved)):
            if accept[c] * self.total[c] < total[c]:
                self._take(c)
                self.prob[c], self.choice[c], self.total[c] = prob[c], choice[c], total[c]
                self.odds[c] = odds[c]

    def _take(self, c: int) -> None:
        """Make the spare state of chain c the present one."""
        chains, spare = self.chains, self.spare
        chains.factors[c], spare.factors[c] = spare.factors[c], chains.factors[c]
        chains.reach[c], spare.reach[c] = spare.reach[c], chains.reach[c].copy()
        chains.free[c], spare.free[c] = spare.free[c], chains.free[c].copy()
        for which in (chains, spare):
            which.factors[c].reach, which.factors[c].free = which.reach[c], which.free[c]
        chains.node[c] = spare.node[c]

    def _note_drift(self, c: int) -> None:
        """Compare with what was computed afresh for the same state."""
        gap = np.abs(self.chains.free[c] - self.spare.free[c])
        scale = float(self.chains.problem.diag.max(initial=0.0)) + self.chains.factors[c].k
        self.drift = max(self.drift, float(gap.max(initial=0.0)) / scale)

    def _refresh(self) -> None:
        chains, spare = self.chains, self.spare
        for c, factor in enumerate(chains.factors):
            inside = np.flatnonzero(chains.state[c])
            part = spectrum(chains.problem, chains.problem.units.columns(inside))
            spare.node[c] = chains.node[c]
            spare.factors[c].rebuild(part, factor.k)
            self._note_drift(c)
            self._take(c)
        self._look()

    def _moments(self, w: FloatArray) -> None:
        chains = self.chains
        problem, grid = chains.problem, chains.grid
        for c, factor in enumerate(chains.factors):
            left = max(factor.left, 1e-15 * problem.yy)
            if problem.units.single:
                coef, var = factor.reach / factor.free, 1.0 / factor.free
                rest = left - factor.reach * coef
                q = self.prob[c]
            else:
                coef, var, rest = _group_coefficients(chains, c, left)
                q = self.prob[c][problem.units.of_column]
            if factor.members:
                coef[factor.members], var[factor.members] = factor.inside()
                rest[factor.members] = left
            if grid.noise_var is not None:
                noise: FloatArray | float = float(grid.noise_var[chains.node[c]])
            else:
                noise = np.maximum(rest, 0.0) / (problem.nu - 2.0) if problem.nu > 2 else np.inf
            weighted = w[c] * q
            self.coef[0] += weighted
            self.coef[1] += weighted * coef
            self.coef[2] += weighted * (coef * coef + noise * var)

    def trace(self) -> Trace:
        """Everything after the lead; its first sets are those at its beginning."""
        steps = self.tallies.steps
        flipped, node, weight, key = (np.concatenate(parts)[:steps] for parts in zip(*self.pieces, strict=True))
        lead = self.tallies.lead
        starts = [np.sort(_after(start, flipped[:lead, c])).astype(np.intp) for c, start in enumerate(self.starts)]
        return Trace(flipped[lead:], node[lead:], weight[lead:], key[lead:], starts)


def _after(start: IntArray, flipped: IntArray) -> IntArray:
    """The set after some flips."""
    unit, count = np.unique(np.concatenate([start, flipped]), return_counts=True)
    return unit[count % 2 == 1]


def _group_coefficients(chains: Chains, c: int, left: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, variances (relative to s2) and R if the column's unit were in, each (d,)."""
    factor, layout = chains.factors[c], chains.layout
    coef, var = factor.reach / factor.free, 1.0 / factor.free
    rest = left - factor.reach * coef
    for columns, block in zip(layout.columns, factor.blocks, strict=True):
        inverse = np.linalg.inv(block)
        b = np.einsum("gij,gj->gi", inverse, factor.reach[columns])
        coef[columns] = b
        var[columns] = np.einsum("gii->gi", inverse)
        rest[columns] = left - np.einsum("gi,gi->g", b, factor.reach[columns])[:, None]
    return coef, var, rest
