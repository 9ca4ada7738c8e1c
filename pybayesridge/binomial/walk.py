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

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import AugmentedProblem, problem_given
from pybayesridge.binomial.kept import Kept, State, conditional
from pybayesridge.selection.collapsed import Spectrum, log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.odds import Chains
from pybayesridge.selection.tallies import by_size
from pybayesridge.selection.walk import REFRESH_EVERY, Walk

RENEW_EVERY = ((15, 4), (np.inf, 8))
"""Steps between proposals of new auxiliary variables, up to so many units."""

TOGETHER = 8
"""Steps between two reports of the progress; Ctrl-C waits for them."""


class Walks(Walk):
    """Several chains, each with its own auxiliary variables, and what was gathered; changed in place.

    Attributes
    ----------
    kept : Kept
    proposed, accepted : int
        New auxiliary variables.
    """

    def __init__(
        self, problem: AugmentedProblem, grid: Grid, starts: Sequence[IntArray], rng: np.random.Generator, kept: Kept
    ) -> None:
        super().__init__(problem, grid, starts, rng)
        self.at_once = False
        self.kept = kept
        self.problems = [problem] * len(starts)
        self.renew_every = by_size(RENEW_EVERY, problem.units.n)
        self.proposed, self.accepted = 0, 0
        for c, start in enumerate(self.starts):
            part = self._spectrum(c, start)
            self._put(self.chains, c, start, part, int(np.argmax(log_joint(problem, grid, part, start))))
        self.look()

    def _spectrum(self, c: int, units: IntArray) -> Spectrum:
        return spectrum(self.problems[c], self.problems[c].units.columns(units))

    def _put(self, chains: Chains, c: int, units: IntArray, part: Spectrum, node: int) -> None:
        """Put a chain into a state with its problem as it is now."""
        chains.state[c] = False
        chains.state[c, units] = True
        chains.n_in[c], chains.node[c] = units.size, node
        chains.factors.problems[c] = self.problems[c]
        chains.factors.rebuild(c, part, float(chains.grid.k[node]))

    def advance(self, steps: int, told: Callable[[int], None]) -> None:
        """Take steps, telling their number now and then; an interruption waits until a step is whole."""
        while steps > 0:
            size = min(steps, TOGETHER)
            with later() as interrupted:
                self.new_piece(size)
                for t in range(size):
                    self._step(t)
            self.kept.thin()
            told(self.tallies.steps)
            if interrupted:
                raise KeyboardInterrupt
            steps -= size

    def _step(self, t: int) -> None:
        steps = self.tallies.steps
        if steps % self.renew_every == 0:
            self._renew()
        if steps % self.kept.every == 0:
            self._keep()
        if steps % self.node_every == 0 and self.node_sum.size > 1:
            self._move_nodes()
        elif steps % REFRESH_EVERY == 0:
            self._refresh()
        self.count_and_flip(t, self.rng.random(len(self.starts)))

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
        self.accept(self.rng.random(w.size))

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
        taken = set(self.accept(self.rng.random(len(before))).tolist())
        self.proposed, self.accepted = self.proposed + len(before), self.accepted + len(taken)
        self.problems = [self.problems[c] if c in taken else old for c, old in enumerate(before)]

    def _keep(self) -> None:
        for c, weight in enumerate((1.0 / self.total).tolist()):
            units, columns, mean, root = self._given(c)
            node = int(self.chains.node[c])
            self.kept.add(State(self.tallies.steps, c, units, columns, node, weight, mean, root))

    def _refresh(self) -> None:
        for c, node in enumerate(self.chains.node.tolist()):
            units = self.chains.state[c].nonzero()[0]
            self._put(self.chains, c, units, self._spectrum(c, units), node)
        self.look()


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
