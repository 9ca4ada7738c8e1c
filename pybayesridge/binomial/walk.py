"""Tempered Gibbs sampling of sets for yes/no responses (Zanella & Roberts 2019), given auxiliary variables.

The state of a chain is a set of units, a node of log g and the auxiliary variables. A unit j is chosen with
probability proportional to ``(q_j + e) / P_j``, q_j its conditional inclusion probability and P_j the conditional
probability of its present state, and flipped: given the variables the model is Gaussian with known noise 1. The
chain's distribution is then the posterior times Z, the sum of these weights, so that a state counts 1 / Z. A new
node is proposed from its conditional distribution, and new variables by drawing the coefficients given the set, g
and the variables, and then variables given the coefficients. Both moves are reversible for the posterior; accepted
with probability min(1, Z' / Z), they are so for the chain's distribution (Jankowiak 2022, arXiv 2106.14981, has such
moves).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.binomial.augmentation import AugmentedProblem, problem_given
from pybayesridge.binomial.kept import Kept, State, conditional
from pybayesridge.selection.collapsed import Spectrum, log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.odds import LARGEST, Chains, group_coefficients, log_odds, near_limit, new_chains
from pybayesridge.selection.sampler import (
    EXPLORE,
    MOMENTS_EVERY,
    NODE_EVERY,
    REFRESH_EVERY,
    Trace,
    after,
    by_size,
    largest_set,
)
from pybayesridge.selection.tallies import Tallies

RENEW_EVERY = ((15, 4), (np.inf, 8))
"""Steps between proposals of new auxiliary variables, up to so many units."""

TOGETHER = 8
"""Steps between two reports of the progress; Ctrl-C waits for them."""


class Walks:
    """Several chains, each with its own auxiliary variables, and what was gathered; changed in place.

    Attributes
    ----------
    chains : Chains
    tallies : Tallies
    coef : (3, d) array
        Sums of weight times conditional inclusion probability, and times the mean and the mean square of the
        coefficient given that its unit is in.
    node_sum : (K,) array
        Sums of weight times the conditional distribution of the node.
    kept : Kept
    limited : bool
        Whether a set came near the largest one that is considered.
    proposed, accepted : int
        New auxiliary variables.
    """

    def __init__(
        self, problem: AugmentedProblem, grid: Grid, starts: Sequence[IntArray], rng: np.random.Generator, kept: Kept
    ) -> None:
        n_chains, n_units, odds = len(starts), problem.units.n, grid.unit_odds
        most = largest_set(problem, n_chains)
        self.rng, self.kept = rng, kept
        self.chains, self.spare = (new_chains(problem, grid, n_chains, most) for _ in range(2))
        self.problems = [problem] * n_chains
        self.fixed: BoolArray | None = None if odds is None or np.isfinite(odds).all() else np.isinf(odds)
        self.explore = EXPLORE / (n_units if self.fixed is None else n_units - int(self.fixed.sum()))
        self.renew_every, self.node_every = by_size(RENEW_EVERY, n_units), by_size(NODE_EVERY, n_units)
        self.marks = np.random.default_rng(12345).integers(0, 2**63, n_units, dtype=np.uint64)
        self.key = np.zeros(n_chains, dtype=np.uint64)
        self.starts = [np.asarray(start, dtype=np.intp) for start in starts]
        self.tallies = Tallies(n_chains, n_units)
        self.coef, self.node_sum = np.zeros((3, problem.d)), np.zeros(grid.log_g.size)
        self.record: list[tuple[AnyArray, ...]] = []
        self.limited, self.proposed, self.accepted = False, 0, 0
        for c, start in enumerate(self.starts):
            part = self._spectrum(c, start)
            node = int(np.argmax(log_joint(problem, grid, part, start)))
            self._put(self.chains, c, start, part, node)
            self.key[c] = np.bitwise_xor.reduce(self.marks[start]) if start.size else 0
        self._look()

    def _spectrum(self, c: int, units: IntArray) -> Spectrum:
        return spectrum(self.problems[c], self.problems[c].units.columns(units))

    def _put(self, chains: Chains, c: int, units: IntArray, part: Spectrum, node: int) -> None:
        """Put a chain into a state with its problem as it is now."""
        chains.state[c] = False
        chains.state[c, units] = True
        chains.n_in[c], chains.node[c] = units.size, node
        chains.factors.problems[c] = self.problems[c]
        chains.factors.rebuild(c, part, float(chains.grid.k[node]))

    def _look(self) -> None:
        """Conditional probabilities and weights of the present states."""
        self.prob, self.choice, self.total = self._choices(self.chains)

    def _choices(self, chains: Chains) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return q (C, G), running sums of the weights of choice (C, G), and totals Z (C,)."""
        e, odds = self.explore, log_odds(chains)
        near = near_limit(chains)
        self.limited = self.limited or near
        blocked = np.isinf(odds.value) if near or self.fixed is not None else None
        u = np.exp(np.clip(odds.value, -LARGEST, LARGEST))
        prob = u / (1.0 + u)
        choice = u * (1.0 + e) + e
        choice[odds.chain, odds.unit] = 1.0 + e + e / u[odds.chain, odds.unit]
        if blocked is not None:
            choice[blocked] = 0.0
        np.cumsum(choice, axis=1, out=choice)
        return prob, choice, choice[:, -1].copy()

    def advance(self, steps: int, told: Callable[[int], None]) -> None:
        """Take steps, telling their number now and then; an interruption waits until a step is whole."""
        while steps > 0:
            size = min(steps, TOGETHER)
            with later() as interrupted:
                for _ in range(size):
                    self._step()
            self.kept.thin()
            told(self.tallies.steps)
            if interrupted:
                raise KeyboardInterrupt
            steps -= size

    def _step(self) -> None:
        chains, steps = self.chains, self.tallies.steps
        if steps % self.renew_every == 0:
            self._renew()
        if steps % self.kept.every == 0:
            self._keep()
        if steps % self.node_every == 0 and chains.grid.log_g.size > 1:
            self._move_nodes()
        elif steps % REFRESH_EVERY == 0:
            self._refresh()
        w = 1.0 / self.total
        if steps % MOMENTS_EVERY == 0:
            self._moments(w)
        self.tallies.add(w, w[:, None] * self.prob)
        flipped = np.empty(w.size, dtype=np.int32)
        node, key = chains.node.astype(np.int32), self.key.copy()
        for c, point in enumerate((self.rng.random(w.size) * self.total).tolist()):
            flipped[c] = min(int(self.choice[c].searchsorted(point, side="right")), self.choice.shape[1] - 1)
            self._flip(c, int(flipped[c]))
        self.record.append((flipped, node, w, key))
        self._look()

    def _flip(self, c: int, j: int) -> None:
        chains = self.chains
        inside = bool(chains.state[c, j])
        change = chains.factors.remove if inside else chains.factors.append
        for column in chains.problem.units.members(j).tolist():
            change(c, column)
        chains.state[c, j] = not inside
        chains.n_in[c] += -1 if inside else 1
        self.key[c] ^= self.marks[j]

    def _accept(self) -> BoolArray:
        """Take over the spare states by the totals Z; which."""
        chains, spare = self.chains, self.spare
        prob, choice, total = self._choices(spare)
        taken: BoolArray = self.rng.random(total.size) * self.total < total
        for c in np.flatnonzero(taken).tolist():
            chains.node[c] = spare.node[c]
            chains.factors.copy_from(spare.factors, c)
            self.prob[c], self.choice[c], self.total[c] = prob[c], choice[c], total[c]
        return taken

    def _move_nodes(self) -> None:
        """Propose a node to each chain from its conditional distribution given the rest."""
        w = 1.0 / self.total
        for c, uniform in enumerate(self.rng.random(w.size).tolist()):
            units = self.chains.state[c].nonzero()[0]
            part = self._spectrum(c, units)
            log_prob = log_joint(self.problems[c], self.chains.grid, part, units)
            share = np.exp(log_prob - log_prob.max())
            share /= share.sum()
            self.node_sum += w[c] * share
            self._put(self.spare, c, units, part, min(int(share.cumsum().searchsorted(uniform)), share.size - 1))
        self._accept()

    def _given(self, c: int) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """Units and columns of the set of a chain, and the law of the coefficients given it."""
        units = self.chains.state[c].nonzero()[0]
        part = self._spectrum(c, units)
        precision = float(self.chains.grid.k[self.chains.node[c]])
        return units, part.columns, *conditional(self.problems[c], part, precision)

    def _renew(self) -> None:
        """Propose new auxiliary variables to each chain."""
        before = self.problems
        self.problems = list(before)
        for c, problem in enumerate(before):
            units, columns, mean, root = self._given(c)
            source, k = problem.source, problem.half.size
            drawn = mean + root @ self.rng.standard_normal(mean.size)
            psi = source.c @ drawn[:k] + source.x[:, columns] @ drawn[k:]
            self.problems[c] = problem_given(source, source.draw(psi, self.rng))
            self._put(self.spare, c, units, self._spectrum(c, units), int(self.chains.node[c]))
        taken = self._accept()
        self.proposed, self.accepted = self.proposed + taken.size, self.accepted + int(taken.sum())
        self.problems = [new if use else old for use, new, old in zip(taken, self.problems, before, strict=True)]

    def _keep(self) -> None:
        for c, weight in enumerate((1.0 / self.total).tolist()):
            units, columns, mean, root = self._given(c)
            node = int(self.chains.node[c])
            self.kept.add(State(self.tallies.steps, c, units, columns, node, weight, mean, root))

    def _refresh(self) -> None:
        for c, node in enumerate(self.chains.node.tolist()):
            units = self.chains.state[c].nonzero()[0]
            self._put(self.chains, c, units, self._spectrum(c, units), node)
        self._look()

    def _moments(self, w: FloatArray) -> None:
        """Add up moments of each coefficient given that its unit is in and given the other units."""
        factors, units = self.chains.factors, self.chains.problem.units
        coef, var = factors.reach / factors.free, 1.0 / factors.free
        prob = self.prob
        if not units.single:
            prob = prob[:, units.of_column]
            group_coefficients(self.chains, factors.left()[:, None], coef, var, np.empty_like(coef))
        own_coef, own_var = factors.inside()
        for c, members in enumerate(factors.members):
            coef[c, members], var[c, members] = own_coef[c, : len(members)], own_var[c, : len(members)]
        weighted = w[:, None] * prob
        self.coef[0] += weighted.sum(axis=0)
        self.coef[1] += (weighted * coef).sum(axis=0)
        self.coef[2] += (weighted * (var + coef**2)).sum(axis=0)

    def trace(self) -> Trace:
        """Everything after the lead; its first sets are those at its beginning."""
        lead = self.tallies.lead
        flipped, node, weight, key = (np.stack(parts) for parts in zip(*self.record, strict=True))
        starts = [after(start, flipped[:lead, c]) for c, start in enumerate(self.starts)]
        return Trace(flipped[lead:], node[lead:], weight[lead:], key[lead:], starts)


@contextmanager
def later() -> Iterator[list[int]]:
    """Collect what Ctrl-C would raise at once; in other threads than the first nothing is raised anyway."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, before)
