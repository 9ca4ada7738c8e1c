"""Tempered Gibbs sampling of sets for yes/no responses: the moves of selection/sampler.py given auxiliary variables.

The state of a chain is a set of units, a node of log g and the auxiliary variables, and its distribution is the
posterior of these times Z(set, node, variables), the total weight of the flips. Given the variables the model is
Gaussian with known noise 1, and flips and moves of the node are those of a Gaussian response. New variables are
proposed by drawing the coefficients given the set, g and the variables, and then variables given the coefficients.
That move is reversible for the posterior of the variables given the set and g; accepted with probability
min(1, Z' / Z), it is reversible for the chain's distribution (Jankowiak 2022, arXiv 2106.14981, moves all parts so).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.binomial.augmentation import AugmentedProblem, problem_given
from pybayesridge.binomial.kept import Kept, State, conditional
from pybayesridge.selection.collapsed import spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.sampler import Trace, _Walk, by_size
from pybayesridge.selection.tallies import Tallies

RENEW_EVERY = ((15, 4), (np.inf, 8))
"""Steps between proposals of new auxiliary variables, up to so many units."""

TOGETHER = 8
"""Steps that a chain takes before the next one takes as many."""

KEEP_EVERY = 4
"""Steps between states that are kept, to begin with."""


class AugmentedWalk(_Walk):
    """One chain, whose auxiliary variables, and with them the cross-products, change on the way."""

    def __init__(
        self,
        problem: AugmentedProblem,
        grid: Grid,
        start: IntArray,
        rng: np.random.Generator,
        explore: float,
        *,
        label: int,
        kept: Kept,
    ) -> None:
        super().__init__(problem, grid, [start], rng, explore)
        self.label, self.kept = label, kept
        self.renew_every = by_size(RENEW_EVERY, problem.units.n)
        self.proposed = self.accepted = 0

    def _step(self, t: int, uniform: FloatArray, piece: tuple[AnyArray, ...]) -> None:
        steps = self.tallies.steps
        if steps % self.renew_every == 0:
            self._renew()
        if steps % self.kept.every == 0:
            self._keep()
        super()._step(t, uniform, piece)

    def _conditional(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """Units and columns of the present set, and the law of the coefficients given it."""
        chains = self.chains
        units = chains.state[0].nonzero()[0]
        part = spectrum(chains.problem, chains.problem.units.columns(units))
        assert isinstance(chains.problem, AugmentedProblem)
        return units, part.columns, *conditional(chains.problem, part, float(chains.grid.k[chains.node[0]]))

    def _keep(self) -> None:
        units, columns, mean, root = self._conditional()
        node, weight = int(self.chains.node[0]), float(1.0 / self.total[0])
        self.kept.add(State(self.tallies.steps, self.label, units, columns, node, weight, mean, root))

    def _renew(self) -> None:
        """Propose new auxiliary variables, and accept them by the totals Z."""
        chains, spare = self.chains, self.spare
        units, columns, mean, root = self._conditional()
        assert isinstance(chains.problem, AugmentedProblem)
        source, k = chains.problem.source, chains.problem.half.size
        drawn = mean + root @ self.rng.standard_normal(mean.size)
        psi = source.c @ drawn[:k] + source.x[:, columns] @ drawn[k:]
        problem = problem_given(source, source.draw(psi, self.rng))
        spare = replace(spare, problem=problem)
        spare.factors.problem = problem
        spare.node[0], spare.n_in[0], spare.state[0] = chains.node[0], chains.n_in[0], chains.state[0]
        part = spectrum(problem, problem.units.columns(units))
        spare.factors.rebuild(0, part, float(chains.grid.k[chains.node[0]]))
        prob, choice, total, pair_prob = self._choices(spare)
        self.proposed += 1
        if self.rng.random() * self.total[0] < total[0]:
            self.accepted += 1
            chains, spare = spare, chains
            self.prob, self.choice, self.total, self.pair_prob = prob, choice, total, pair_prob
        spare.factors.problem = chains.problem
        self.chains, self.spare = chains, replace(spare, problem=chains.problem)


class Walks:
    """Several chains, each with its own auxiliary variables; what the loop of ``sample_sets`` asks of chains."""

    def __init__(
        self,
        problem: AugmentedProblem,
        grid: Grid,
        starts: Sequence[IntArray],
        rng: np.random.Generator,
        explore: float,
        *,
        kept: Kept,
    ) -> None:
        self.kept = kept
        self.each = [
            AugmentedWalk(problem, grid, start, rng, explore, label=c, kept=kept) for c, start in enumerate(starts)
        ]

    def pair_up(self, prob: FloatArray) -> None:
        """Nothing: pairs of correlated columns need cross-products that do not change."""

    def advance(self, steps: int, told: Callable[[int], None]) -> None:
        """Take steps with every chain; an interruption waits until all have taken as many."""
        while steps > 0:
            size = min(steps, TOGETHER)
            with later() as interrupted:
                for walk in self.each:
                    walk.advance(size, _nothing)
            self.kept.thin()
            told(self.each[0].tallies.steps)
            if interrupted:
                raise KeyboardInterrupt
            steps -= size

    @property
    def tallies(self) -> Tallies:
        """The chains' tallies, side by side."""
        first = self.each[0].tallies
        out = Tallies(0, 0)
        out.length, out.filled, out.used = first.length, first.filled, first.used
        out.numer = np.concatenate([walk.tallies.numer for walk in self.each], axis=1)
        out.denom = np.concatenate([walk.tallies.denom for walk in self.each], axis=1)
        return out

    def trace(self) -> Trace:
        """The chains' traces, side by side."""
        traces = [walk.trace() for walk in self.each]
        joined: dict[str, Any] = {}
        for part in fields(Trace):
            values = [getattr(trace, part.name) for trace in traces]
            listed = isinstance(values[0], list)
            joined[part.name] = list(chain(*values)) if listed else np.concatenate(values, axis=1)
        return Trace(**joined)

    @property
    def coef(self) -> FloatArray:
        """Sums for the moments of coefficients."""
        return np.sum([walk.coef for walk in self.each], axis=0)

    @property
    def node_sum(self) -> FloatArray:
        """Weights of the nodes."""
        return np.sum([walk.node_sum for walk in self.each], axis=0)

    @property
    def limited(self) -> bool:
        """Whether a chain has reached the largest set that is considered."""
        return any(walk.limited for walk in self.each)

    @property
    def drift(self) -> float:
        """The largest rounding error of a factorisation that was updated."""
        return max(walk.drift for walk in self.each)

    @property
    def acceptance(self) -> float:
        """Share of the proposals of auxiliary variables that were accepted."""
        return sum(walk.accepted for walk in self.each) / max(sum(walk.proposed for walk in self.each), 1)


def _nothing(_: int) -> None:
    pass


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
