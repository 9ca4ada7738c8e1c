"""What the tempered samplers of sets share: states of several chains, the choice of flips, sums and the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
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
from pybayesridge.selection.pairs import Pairs, pair_probabilities
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.states import mean_noise
from pybayesridge.selection.tallies import FEW, Tallies, by_size

EXPLORE = 1.0
"""Sum over all units of e, the part of the choice that does not depend on the data."""

NODE_EVERY = ((200, 4), (np.inf, 16))
"""Steps between proposals of g, up to so many units: a proposal costs more than a step where there are many."""

REFRESH_EVERY = 512
"""Steps after which the factorisations are computed afresh."""

MOMENTS_EVERY = 8
"""Steps between those that count for moments of coefficients."""

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


def largest_set(problem: Problem, n_chains: int) -> int:
    """Most columns of a set, by memory."""
    return int(min(problem.d, max(64, MEMORY // (8 * n_chains * max(problem.d, 1)))))


class Walk:
    """Several chains, and what was gathered; changed in place.

    Attributes
    ----------
    chains, spare : Chains
        The present states, and proposed ones.
    tallies : Tallies
    coef : (3, d) array
        Sums of weight times conditional inclusion probability, and times the mean and the mean square of the
        coefficient given that its unit is in.
    node_sum : (K,) array
        Sums of weight times the conditional distribution of the node.
    limited : bool
        Whether a set came near the largest one that is considered.
    at_once : bool
        Whether the chains' factorisations change all at once: these are of one problem, with units of one column,
        and few, since with many copies of them would cost more.
    """

    def __init__(
        self,
        problem: Problem,
        grid: Grid,
        starts: Sequence[IntArray],
        rng: np.random.Generator,
        explore: float = EXPLORE,
    ) -> None:
        n_chains, n_units, odds = len(starts), problem.units.n, grid.unit_odds
        self.rng = rng
        self.max_columns = largest_set(problem, n_chains)
        self.chains, self.spare = (new_chains(problem, grid, n_chains, self.max_columns) for _ in range(2))
        self.movable = None if odds is None or np.isfinite(odds).all() else np.isfinite(odds)
        self.explore = explore / (n_units if self.movable is None else max(int(self.movable.sum()), 1))
        self.at_once = problem.units.single and problem.d <= FEW
        self.pairs: Pairs | None = None
        self.node_every = by_size(NODE_EVERY, n_units)
        self.marks = np.random.default_rng(12345).integers(0, 2**63, n_units, dtype=np.uint64)
        self.key = np.zeros(n_chains, dtype=np.uint64)
        self.starts = [np.asarray(start, dtype=np.intp) for start in starts]
        for c, start in enumerate(self.starts):
            if start.size:
                self.key[c] = np.bitwise_xor.reduce(self.marks[start])
        self.tallies = Tallies(n_chains, n_units)
        self.coef, self.node_sum = np.zeros((3, problem.d)), np.zeros(grid.log_g.size)
        self.pieces: list[tuple[AnyArray, ...]] = []
        self.limited = False

    def look(self) -> None:
        """Conditional probabilities and weights of the present states."""
        self.prob, self.choice, self.total, self.pair_prob = self._choices(self.chains)

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

    def new_piece(self, size: int) -> None:
        """Room for the trace of so many steps; zeros, since a step that is interrupted has no flip."""
        shape = (size, len(self.starts))
        self.pieces.append(tuple(np.zeros(shape, dtype=kind) for kind in (np.int32, np.int32, np.float64, np.uint64)))

    def count_and_flip(self, t: int, uniform: FloatArray) -> None:
        """Count the present states as step t of the last piece, and choose a unit of each chain and flip it."""
        flipped, node, weight, key = self.pieces[-1]
        w = 1.0 / self.total
        node[t], weight[t], key[t] = self.chains.node, w, self.key
        if self.tallies.steps % MOMENTS_EVERY == 0:
            self._moments(w)
        # Before the flips, so that an interruption leaves whole steps.
        weighted = w[:, None] * self.prob
        if self.pairs is not None and self.pair_prob is not None:
            weighted[:, self.pairs.all] = w[:, None] * self.pair_prob
        self.tallies.add(w, weighted)
        last = self.choice.shape[1] - 1
        for c, point in enumerate((uniform * self.total).tolist()):
            flipped[t, c] = min(int(self.choice[c].searchsorted(point, side="right")), last)
        self._flip(flipped[t])
        self.look()

    def _flip(self, unit: AnyArray) -> None:
        """Let a unit of each chain in, or take it out."""
        chains = self.chains
        factors, units = chains.factors, chains.problem.units
        every = np.arange(unit.size)
        inside = chains.state[every, unit]
        if self.at_once:
            for change, chain in (
                (factors.remove_each, np.flatnonzero(inside)),
                (factors.append_each, np.flatnonzero(~inside)),
            ):
                if chain.size:
                    change(chain, unit[chain])
        else:
            for c, (j, leaves) in enumerate(zip(unit.tolist(), inside.tolist(), strict=True)):
                for column in [j] if units.single else units.members(j).tolist():
                    (factors.remove if leaves else factors.append)(c, column)
        chains.state[every, unit] = ~inside
        chains.n_in[:] += np.where(inside, -1, 1)
        self.key ^= self.marks[unit]

    def accept(self, uniform: FloatArray) -> IntArray:
        """Take over the spare states by the totals Z; the chains that do."""
        chains, spare = self.chains, self.spare
        prob, choice, total, paired = self._choices(spare)
        taken = np.flatnonzero(uniform * self.total < total)
        for c in taken.tolist():
            chains.node[c] = spare.node[c]
            chains.factors.copy_from(spare.factors, c)
            self.prob[c], self.choice[c], self.total[c] = prob[c], choice[c], total[c]
            if paired is not None and self.pair_prob is not None:
                self.pair_prob[c] = paired[c]
        return taken

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
