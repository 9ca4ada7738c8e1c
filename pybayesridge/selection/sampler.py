"""Monte Carlo averages over the sets: walkers that start apart, their proposals adapted, and when to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joint, of_left_over, spectrum
from pybayesridge.selection.estimates import (
    FEWEST_DRAWS,
    GROWTH,
    KEPT,
    OFTEN_VISITED,
    Estimate,
    Tallies,
    estimate,
    inflated,
    is_heavy,
    probabilities,
    with_unseen,
)
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import (
    RENEW_EVERY,
    Proposals,
    Renewed,
    Sums,
    Walkers,
    Weighted,
    tabulate,
)
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.recalled import recalled_sets
from pybayesridge.selection.renewed import (
    LIKELY_IN,
    can_renew,
    longer_step,
    n_sizes,
    renewal_work,
    renewed_sets,
    shares_of_sizes,
    step_work,
)
from pybayesridge.selection.search import ForwardSearch
from pybayesridge.selection.starts import Start
from pybayesridge.selection.summits import MOST_FREE, summits, with_pairs
from pybayesridge.selection.traces import Recorder, Trace
from pybayesridge.selection.unseen import Unseen, unseen

STEPS = (64, 10_000)
"""Steps between passes: a fourth of the number of units, but at least and at most so many."""

LEAST_STEPS = 10_240
"""Steps of a walker that count, at least, if there are few units: fewer do not find what is rare and apart, so that
differences from the sum over all sets are larger than stated errors (``python -m tests.fuzz``)."""

PHASES = (4, 8, 16, 32)
"""Passes of a walker while proposals are adapted to what is known of the probabilities; they do not count."""

FEWER = ((MOST_FREE, 1), (np.inf, 2))
"""These passes are divided by this, up to so many units: where there are few, sets that are seldom visited are found
while proposals are adapted."""

WEIGHTED_FEWER = ((2000, 1), (5000, 2), (np.inf, 6))
"""And by this where rows have weights that change: a pass costs more with more units."""

OPTIONAL_STOPPING = 1.3
"""Errors are too small by this factor where they are small by chance: sampling stops as late as that takes."""

AGREEMENT = 1.1
"""Walkers whose potential scale reduction is larger than this disagree, and walk on."""

MEAN_ERRORS = 5.0
"""Of a coefficient's mean, in its standard deviations, for each standard error of a probability that is allowed: the
means of coefficients that move slowly are then known to so many times `mcse`, or to `LEAST_MEAN_ERROR`."""

LEAST_MEAN_ERROR = 0.1

EVENLY = 0.1
"""Share of the births that all units have the same part of."""

POWER = 1.0
"""Births are proposed with a probability that grows with the variance of the indicator to this power: with less than
1, most of the steps of a problem with many columns are spent on unlikely ones."""

NEARLY_SURE = 0.9
"""Births of likelier units are proposed as often as of units with this probability: a walker that lacks one of them
has to find it, and averages over passes do not show that it is missing."""

RARE_DEATHS = 0.02
"""The weight of deaths is at least this share, and at most its inverse, of that of a unit of probability 1/2."""

OFTEN_FROM = 2.0
"""Times the mean number of units from which sets are visited more often than they are likely: such sets are seldom
reached, and have a large part in the mean, so that walks which hardly saw them differ too little from each other.
With `WATCHED_FROM` units and moves to other sets altogether that are accepted easily (`EASILY_RENEWED`), which bring
walkers there, it is the mean by chance, times how much longer a step in the largest sets takes."""

LEAST_WEIGHT = 0.5
"""Mean weight of a pass, below which this number of units is doubled while proposals are adapted."""

LEAST_EXCHANGE = 0.05
"""Units give way to others with weights that are the standard deviations of their indicators, and this at least:
those that are surely in, or hardly ever, seldom do."""

LISTED = 0.005
"""Probability from which a unit is exchanged for correlated ones, where X'X is not held: that takes a row of it."""

LISTED_WORK = 5e8
"""Multiplications for all of these rows, at most: then only the likeliest units are exchanged so."""

WATCHED_FROM = 500
"""Units from which most passes look only at those whose indicators vary most: averages of the others need few."""

WATCHED = (64, 16)
"""At most so many units are watched, or one of so many."""

TIERED_STEPS = (1000, 5000)
"""Steps between full passes then: half of the number of units, but at least and at most so many."""

TIERED_FEWER = 8
"""And by what `PHASES` are divided then, full passes."""

LEAST_WATCHED = 0.0025
"""Variance of an indicator from which it is watched."""

PER_WATCHED = 3
"""Steps between passes for each unit that is watched."""

HOPELESS = 16.0
"""Nats that the posterior probability of where a walker is lies below that of the best walker's state, at least, for
it to start again from there."""

LOOKS = 2
"""Looks at a walk that has not ended after which each further one comes with a search for better sets."""

RENEWAL_WORK = (0.2, 1.0)
"""Work of the moves to other sets altogether, relative to that of all other steps, at most: to begin with, and where
they are accepted often."""

ENOUGH_RENEWALS, RARELY_RENEWED, OFTEN_RENEWED = 100, 0.005, 0.01
"""Of so many of them, or more, these shares are rare, so that there are no more of them, and often."""

EASILY_RENEWED = 0.4
"""Share of them from which the posterior is much as by chance: with 0.3, as for some of 71 rows and 4,000 columns of
gene expression, errors were too small where it was taken for that."""

MOST_BETWEEN = 1000
"""Steps between them from which there are none."""

SLICE = 0.1
"""Seconds of a call of the compiled code, about: between two of them Ctrl-C is seen and progress is shown."""

Progress = Callable[[int, Estimate | None], None]


def allowed_mean_error(mcse: float) -> float:
    """The largest Monte Carlo standard error of a coefficient's mean at which sampling stops."""
    return max(MEAN_ERRORS * mcse, LEAST_MEAN_ERROR)


@dataclass(frozen=True, slots=True)
class Run:
    """All that the walkers gave.

    Attributes
    ----------
    estimate : Estimate
    trace : Trace
        States after the lead.
    steps : int
        Of all walkers.
    converged, interrupted, limited : bool
    drift : float
        Largest error that was found when a set was factorised afresh: of log |M|, or relative of R.
    """

    estimate: Estimate
    trace: Trace
    steps: int
    converged: bool
    interrupted: bool
    limited: bool
    drift: float


def sample_sets(
    problem: Problem,
    grid: Grid,
    starts: Sequence[Start],
    *,
    rng: np.random.Generator,
    most_columns: int,
    mcse: float = 0.01,
    maxiter: int = 100_000_000,
    progress: Progress | None = None,
    search: ForwardSearch | None = None,
) -> Run:
    """Run one walker from each start until the largest standard error is at most `mcse` and the walkers agree.

    Parameters
    ----------
    problem : Problem
    grid : Grid
    starts : sequence of Start
    rng : numpy.random.Generator
    most_columns : int
        Of a set.
    mcse : float
    maxiter : int
        Steps of all walkers together.
    progress : callable, optional
        Called now and then with the number of steps and the last estimate, None before the first one.
    search : ForwardSearch, optional
        For sets that are out of the walkers' reach: it goes on while they walk.
    """
    return run_walk(Walk(problem, grid, starts, rng, most_columns, progress, search=search), mcse, maxiter)


def run_walk(walk: Walk, mcse: float, maxiter: int) -> Run:
    """Walk until the largest standard error is at most `mcse` and the walkers agree, or `maxiter` is reached."""
    converged = interrupted = False
    try:
        walk.adapt(maxiter)
        while walk.lengthen(maxiter):
            now = walk.look()
            if _precise(now, mcse) and walk.settled:
                converged = True
                break
    except KeyboardInterrupt:
        interrupted = True
        if walk.steps == 0:
            raise
    return walk.finished(converged, interrupted)


def _precise(now: Estimate, mcse: float) -> bool:
    return (
        float(now.se.max(initial=0.0)) <= mcse / OPTIONAL_STOPPING
        and now.agreement <= AGREEMENT
        and now.effective >= FEWEST_DRAWS
        and now.mean_error <= allowed_mean_error(mcse) / OPTIONAL_STOPPING
    )


class Walk:
    """The walkers on their way; changed in place."""

    least_steps = LEAST_STEPS

    def __init__(
        self,
        problem: Problem,
        grid: Grid,
        starts: Sequence[Start],
        rng: np.random.Generator,
        most_columns: int,
        progress: Progress | None,
        weighted: Weighted | None = None,
        search: ForwardSearch | None = None,
    ) -> None:
        n = len(starts)
        self.search = search
        self.problem, self.grid, self.n, self.progress = problem, grid, n, progress
        self.walkers = Walkers(problem, grid, n, most_columns, weighted)
        seeds = rng.integers(0, 2**64, (n, 4), dtype=np.uint64)
        self.random = np.random.default_rng(seeds[0])
        for i, start in enumerate(starts):
            self.walkers.start(i, start.units, start.node, seeds[i])
        fixed = 0 if weighted is None else weighted.fixed
        self.tallies, self.recorder = Tallies(n, problem.units, fixed), Recorder(n)
        # With weights the posterior is another one at each step.
        self.recalls = weighted is None
        self.summits = summits(problem, grid, most_columns) if self.recalls else []
        self.proposed = with_pairs(problem, grid, self.summits, most_columns)
        self.renewals = np.zeros(2)
        self.renewed: Renewed | None = None
        self.renewal_work = 0.0
        self.easily = False
        self.renewed_sizes = n_sizes(problem, most_columns) if self.recalls and can_renew(problem, grid) else 0
        self.every = 1
        self.tiers = weighted is None and problem.units.n >= WATCHED_FROM
        self.evens = self.recalls and grid.unit_odds is None and grid.log_g.size > 1
        self.often_from = OFTEN_FROM
        n_units = problem.units.n
        self.span = int(np.clip(n_units // 2, *TIERED_STEPS) if self.tiers else np.clip(n_units // 4, *STEPS))
        self.between = self.span
        if self.tiers:
            self._watch(np.zeros(problem.units.n))
        self.steps = self.counted = 0
        self.now: Estimate | None = None
        self.chunk = 1
        fewer = FEWER if weighted is None else WEIGHTED_FEWER
        divisor = TIERED_FEWER if self.tiers else next(by for most, by in fewer if problem.units.n <= most)
        self.phases = [max(passes // divisor, 1) for passes in PHASES]
        self.first = max(2 * sum(self.phases), 0 if self.tiers else self.least_steps // self.span)
        self.ends: list[int] = []

    @property
    def settled(self) -> bool:
        """Whether the walk is as long as the shortest one that may end."""
        return self.counted >= self.first * self.every

    def advance(self, passes: int) -> None:
        """Every walker makes so many passes; those that look at few units are in groups that end with a full one."""
        sums = self.tallies.stretches[-1]
        left = passes
        while left:
            size = min(left, self.every) if self.tiers else left
            for i in range(self.n):
                self._walk(i, size, sums[i])
            if self.tiers:
                self._sweep(sums)
            left -= size

    def _walk(self, walker: int, passes: int, sums: Sums) -> None:
        """One walker makes so many passes, a slice of time after the other."""
        while passes:
            size = min(passes, self.chunk)
            begin = time.perf_counter()
            visits = self.walkers.advance(walker, self.between, size, sums)
            taken = time.perf_counter() - begin
            if visits is not None:
                self.recorder.add(walker, visits, self._kept(visits.size))
            self.steps += size * self.between
            passes -= size
            # How much is done at once changes no number.
            self.chunk = int(np.clip(size * SLICE / max(taken, 1e-9), 1, 4 * self.chunk))
            if self.progress is not None:
                self.progress(self.steps, self.now)

    def _kept(self, size: IntArray) -> BoolArray:
        """Which states of such sizes are kept: with their weights as probabilities, as the posterior has them."""
        return self.random.random(size.size) < self.walkers.weight_of(size)

    def _sweep(self, sums: list[Sums]) -> None:
        """A full pass of all walkers."""
        with later() as interrupted:
            self.walkers.sweep(sums)
        if interrupted:
            raise KeyboardInterrupt

    def _watch(self, prob: FloatArray) -> None:
        """Let most passes look only at units whose indicators vary most."""
        variance = prob * (1.0 - prob)
        most = max(WATCHED[0], self.problem.units.n // WATCHED[1])
        units = np.argsort(-variance, kind="stable")[:most]
        units = np.sort(units[variance[units] > LEAST_WATCHED])
        mask = np.isin(np.arange(prob.size), units)
        self.walkers.watch(units)
        self.tallies.watch(mask, mask[self.problem.units.of_column])
        self.every = max(self.span // max(PER_WATCHED * units.size, STEPS[0]), 1) if units.size else 1
        self.between = self.span // self.every

    def forget(self) -> None:
        """Drop the states so far."""
        self.recorder.forget()

    def adapt(self, maxiter: int) -> None:
        """Walk for a while, and fit the proposals to it; a walk that may not be long adapts less."""
        most = maxiter // (3 * self.n * self.span)
        self.tallies.new_stretch(alone=True)
        if most < 1:
            return
        # One span of each from where it starts.
        for spans in [1, *self.phases]:
            spans = min(spans, most)
            if spans == 0:
                break
            most -= spans
            self.tallies.new_stretch(alone=True)
            self.forget()
            self.advance(spans * self.every)
            prob = probabilities(self.tallies)
            self._visit_often(float(prob.sum()))
            self.walkers.propose(proposals(self.problem, self.grid, prob))
            if self.tiers:
                self._watch(prob)
            if self.recalls and spans >= self.phases[-2]:
                self._recall(self.recorder.after(0), prob)
            self._propose_others(prob)
            self._adapted()

    def _visit_often(self, mean: float) -> None:
        """Let walkers visit sets far larger than the mean more often, unless most of their passes would be there."""
        if not self.evens:
            return
        problem, renewed = self.problem, self.renewed
        if self.tiers and self.easily and renewed is not None:
            by_chance = float(shares_of_sizes(renewed) @ renewed.sizes)
            longer = longer_step(problem, by_chance * problem.d / problem.units.n)
            self.walkers.visit_often(OFTEN_FROM * max(longer, 1.0) * by_chance)
            return
        sums = self.tallies.stretches[-1]
        share = sum(float(one.weight[0]) for one in sums) / max(sum(one.passes for one in sums), 1)
        if share < LEAST_WEIGHT:
            self.often_from *= 2.0
        self.walkers.visit_often(self.often_from * mean)

    def _recall(self, trace: Trace, prob: FloatArray) -> None:
        """Let walkers go to sets of these states at once.

        Until the next call all moves keep the posterior, whatever the sets; calls become rarer as the walk grows.
        """
        tabulate(self.grid, np.unique(trace.sizes))
        marks = self.walkers.marks
        self.walkers.recall(recalled_sets(self.problem, self.grid, trace, prob, marks, self.proposed))

    def _propose_others(self, prob: FloatArray) -> None:
        """Let walkers go to sets that have nothing to do with theirs, seldom if they hardly do."""
        if not self.renewed_sizes:
            return
        counts = np.array(self.walkers.counts()[0]["renew"])
        proposed, accepted = counts - self.renewals
        self.renewals = counts
        if proposed >= ENOUGH_RENEWALS and accepted < RARELY_RENEWED * proposed:
            self.renewed_sizes = 0
            self.walkers.renew(None)
            return
        often = proposed >= ENOUGH_RENEWALS and accepted > OFTEN_RENEWED * proposed
        self.easily = bool(often and accepted > EASILY_RENEWED * proposed)
        loose = prob < LIKELY_IN
        if self.renewed is None or (loose != self.renewed.loose).any():
            self.renewed = renewed_sets(self.problem, self.grid, loose, self.renewed_sizes)
            self.renewal_work = renewal_work(self.problem, self.renewed)
        work = RENEWAL_WORK[int(often)] * step_work(self.problem, float(prob @ self.problem.units.sizes))
        every = int(np.ceil(self.renewal_work / work))
        self.walkers.renew(self.renewed if every <= MOST_BETWEEN else None, max(every, RENEW_EVERY))

    def _adapted(self) -> None:
        """What follows when proposals have been adapted."""
        self._leave()

    def _leave(self) -> bool:
        """Take walkers from where the posterior has nothing, but no way out, to the best state that is known."""
        states = [self.walkers.state(i) for i in range(self.n)]
        value = np.array([self._log_joint(*state) for state in states])
        first = int(np.argmax(value))
        best, most = states[first][:2], value[first]
        if self.search is not None and len(self.ends) >= LOOKS:
            best, most = self._better_of(best, most, self.search.sets())
        moved = False
        for i, (units, _, _) in enumerate(states):
            # As many sets as there are of this size, all of them as probable, would not do either.
            n = self.problem.units.n
            others = gammaln(n + 1.0) - gammaln(units.size + 1.0) - gammaln(n - units.size + 1.0)
            # There are so many sizes and nodes that each may have a small part of the posterior.
            others += np.log(n * self.grid.log_g.size)
            if value[i] + others < most - HOPELESS:
                self.walkers.start(i, *best, None)
                moved = True
        return moved

    def _better_of(
        self, state: tuple[IntArray, int], value: float, sets: Sequence[IntArray]
    ) -> tuple[tuple[IntArray, int], float]:
        """A state, or the first of some sets at its likeliest node; and its log joint density as of `_log_joint`."""
        if not sets:
            return state, value
        part = spectrum(self.problem, self.problem.units.columns(sets[0]))
        density = log_joint(self.problem, self.grid, part, sets[0]) - self.grid.log_none
        node = int(np.argmax(density))
        return ((sets[0], node), float(density[node])) if density[node] > value else (state, value)

    def _log_joint(self, units: IntArray, node: int, held: FloatArray) -> float:
        """Log p(y, A, node) of a state, up to a constant; `held` is R, log |M| and more."""
        problem, grid = self.problem, self.grid
        columns = int(problem.units.sizes[units].sum())
        noise = None if grid.noise_var is None else grid.noise_var[node]
        value = 0.5 * (-columns * grid.log_g[node] - held[1]) + of_left_over(problem, noise, held[0])
        value += self.walkers.log_prior(units.size, node)
        if grid.unit_odds is not None:
            odds = grid.unit_odds[units]
            value += odds[np.isfinite(odds)].sum()
        return float(value)

    def lengthen(self, maxiter: int) -> bool:
        """Walk on until the walk is longer by `GROWTH`; False if `maxiter` leaves nothing.

        If a walker has found a far better place than others have, all that was counted was on the way.
        """
        if self.counted and self.steps < maxiter and self._leave():
            self.counted, self.ends = 0, []
        wanted = self.first * self.every if self.counted == 0 else GROWTH * self.counted
        wanted = self.every * int(np.ceil(wanted / self.every))
        most = (maxiter - self.steps) // (self.n * self.between)
        passes = min(wanted - self.counted, most)
        if passes < 1 and self.counted:
            return False
        passes = max(passes, 1)
        if self.counted == 0:
            self.forget()
        elif self.recalls and self.now is not None:
            self._recall(self.recorder.after(self.lead), self.now.prob)
        self.tallies.new_stretch(alone=self.counted == 0)
        self.ends.append(self.counted)
        self.advance(passes)
        self.counted += passes
        return True

    @property
    def lead(self) -> int:
        """Passes of a walker that no longer count."""
        return self.ends[-min(KEPT, len(self.ends))] if self.ends else 0

    def look(self) -> Estimate:
        """Estimate everything from what counts."""
        trace = self.recorder.after(self.lead)
        log_g = self.grid.log_g[trace.node]
        # The mean of equal numbers may differ from them in the last digit, by which nothing is to be divided.
        within = float(np.var(log_g)) if np.ptp(log_g) > 0 else 0.0
        self.now = estimate(self.tallies, self.between, trace.sizes, within, far=not self.evens)
        return self.now

    def _neighbours(self) -> Problem:
        """The problem by which sets that were not visited are judged."""
        return self.problem

    def _unseen(self, found: Estimate, trace: Trace) -> Unseen:
        """What rare events add to the errors."""
        d = self.problem.d
        moments = found.prob, found.mean[:d], found.var[:d]
        return unseen(self._neighbours(), self.grid, trace, *moments, found.effective, self.summits)

    def _inflation(self, trace: Trace) -> float:
        """What errors are multiplied by at the end, at most `OPTIONAL_STOPPING`."""
        return OFTEN_VISITED if self.evens and is_heavy(trace.sizes) else 1.0

    def finished(self, converged: bool, interrupted: bool) -> Run:
        """Collect the results."""
        if interrupted and self.tiers:
            self._sweep(self.tallies.stretches[-1])
        found = self.look() if interrupted or self.now is None else self.now
        drift = max(float(self.walkers.state(i)[2][2]) for i in range(self.n))
        limited = self.walkers.counts()[1]
        trace = self.recorder.after(self.lead)
        tabulate(self.grid, np.unique(trace.sizes))
        found = inflated(found, self._inflation(trace))
        found = with_unseen(found, self._unseen(found, trace), self.problem.units)
        return Run(found, trace, self.steps, converged, interrupted, limited, drift)


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


def proposals(problem: Problem, grid: Grid, prob: FloatArray) -> Proposals:
    """Births and deaths for units with about these probabilities.

    Independent units would come and go as often as they should if the weight of a unit's death were that of its
    birth times its odds against being in.
    """
    moves = np.ones(prob.size, dtype=bool) if grid.unit_odds is None else np.isfinite(grid.unit_odds)
    inside = np.clip(np.where(moves, prob, 0.0), 1e-12, 1.0 - 1e-4)
    open_ = np.minimum(inside, NEARLY_SURE)
    birth = np.where(moves, (open_ * (1.0 - open_)) ** POWER, 0.0)
    total = birth.sum()
    even = moves / max(moves.sum(), 1)
    birth = even if total <= 0 else (1.0 - EVENLY) * birth / total + EVENLY * even
    weight = birth * (1.0 - inside) / inside
    middle = float(0.25**POWER * (1.0 - EVENLY) / max(total, 1e-300)) if total > 0 else 1.0
    listed = moves.copy()
    if problem.gram is None:
        listed &= prob > LISTED
        likely = np.argsort(-prob, kind="stable")
        listed[likely[int(LISTED_WORK // (problem.d * problem.n)) :]] = False
    death = np.where(moves, np.clip(weight, RARE_DEATHS * middle, middle / RARE_DEATHS), 0.0)
    exchange = np.where(moves, np.sqrt(inside * (1.0 - inside)) + LEAST_EXCHANGE, 0.0)
    return Proposals(birth, death / max(death.max(initial=0.0), 1e-300), exchange, listed)
