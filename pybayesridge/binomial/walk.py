"""Walks through the sets for yes/no responses: light moves given auxiliary variables, which are redrawn now and then.

Given the variables the model is Gaussian with known weights and noise 1, so that the moves are those of
:mod:`pybayesridge.selection.light`. New variables are drawn given the linear predictor, and that given the set, g and
the old variables (Polson, Scott & Windle 2013; Albert & Chib 1993): every step keeps the posterior. Given the old
variables it moves little where columns nearly separate the responses; so before the new ones are drawn it is
multiplied as a whole, together with the slab's standard deviation (as in Yu & Meng 2011, "To center or not to
center").

A set hardly changes to one with another linear predictor where the variables speak for the old one. So between two
draws of the variables there is a walk under a Gaussian likelihood: the second-order expansion of the log likelihood
about the mean of the linear predictors so far. It ends with a draw of the linear predictor, and the whole is taken
with a probability that depends on the ratio of the likelihood and its expansion at both ends (Liu 2001, "Monte Carlo
Strategies in Scientific Computing", section 9.4.3). With many trials a row it nearly always is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import Augmented, AugmentedProblem, problem_given
from pybayesridge.binomial.kept import KeptWalks, WalkState
from pybayesridge.binomial.link import log_likelihood
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import Visits, Weighted, tabulate
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.sampler import Progress, Walk, later
from pybayesridge.selection.starts import Start
from pybayesridge.selection.traces import Trace

REDRAW_EVERY = 32
"""Light moves between two draws of the auxiliary variables."""

EXPANDED = (16, 64, 128)
"""Light moves of a walk under the expansion for each unit, but at least and at most so many: longer ones take more
time than they save."""

LEAST_TAKEN, ENOUGH_WALKS = 0.2, 500
"""Share of these walks that are taken, from which on they go on when proposals are no longer adapted; and after how
many of them with a smaller share no more are tried before."""

RESCALINGS = 4
"""Proposals to multiply the linear predictor before each of these draws."""

FEWEST_DRAWS = 1000
"""Independent draws that the means of unpenalised coefficients, and of those that are likely in, are worth where
sampling stops."""

EARLY = 1.2
"""Errors are stated so many times as large, since walks go on until they are smaller by `sampler.OPTIONAL_STOPPING`
anyway. Over ten seeds of two problems the root mean squares of differences in errors were 0.7 to 1.3 without it; the
largest were those of standard deviations, which rest on long tails."""

LIKELY = 0.5

SD_ERROR = 0.05
"""Relative error of their standard deviations at which sampling stops: it is large where tails are long, and there
the errors of means are too small until the tails have been visited."""

AT_ONCE = 2**15
"""Auxiliary variables that are drawn at once."""


@dataclass(slots=True)
class Average:
    """Linear predictors seen while proposals are adapted, and what came of the walks under the expansion.

    Attributes
    ----------
    total : (n,) array
        Sum of so many linear predictors.
    count, proposed, taken : int
    """

    total: FloatArray
    count: int = 0
    proposed: int = 0
    taken: int = 0

    @property
    def useful(self) -> bool:
        """Whether enough of the walks were taken."""
        return self.taken >= LEAST_TAKEN * self.proposed

    def add(self, psi: FloatArray) -> None:
        """Add linear predictors (w, n)."""
        self.total += psi.sum(axis=0)
        self.count += psi.shape[0]


class BinaryWalk(Walk):
    """Walkers with auxiliary variables of their own; changed in place.

    Attributes
    ----------
    kept : KeptWalks
    """

    least_steps = 0  # see `settled`

    def __init__(
        self,
        problem: AugmentedProblem,
        grid: Grid,
        starts: Sequence[Start],
        rng: np.random.Generator,
        most_columns: int,
        progress: Progress | None,
    ) -> None:
        source, n = problem.source, len(starts)
        self.rng, self.source = rng, source
        self.kept = KeptWalks()
        first = problem.given
        xt = np.ascontiguousarray(np.hstack([source.x, source.c]).T)
        self.weighted = Weighted(
            xt=xt,
            fixed=source.c.shape[1],
            weight=np.tile(first.weight, (n, 1)),
            linear=np.tile(first.linear, (n, 1)),
            cross=np.tile(xt @ first.linear, (n, 1)),
            yy=np.full(n, float(first.linear @ (first.linear / first.weight))),
        )
        self.linear = self.weighted.cross.copy()
        self.expanded = int(np.clip(EXPANDED[0] * problem.units.n, *EXPANDED[1:]))
        self.expansion: Augmented | None = None
        self.useless = False
        self.about = Average(np.zeros(xt.shape[1]))
        super().__init__(problem, grid, starts, rng, most_columns, progress, self.weighted)
        self.rounds = max(self.between // REDRAW_EVERY, 1)
        self.between = self.rounds * REDRAW_EVERY

    @property
    def settled(self) -> bool:
        """Whether the walk is long enough for errors by the differences between walkers."""
        now = self.now
        if now is None or not super().settled:
            return False
        likely = now.prob[self.problem.units.of_column] > LIKELY
        known = np.append(likely, np.ones(self.weighted.fixed, dtype=bool))
        sd = np.sqrt(now.var)[known]
        precise = now.errors.mean[known] <= sd / np.sqrt(FEWEST_DRAWS)
        return bool((precise & (now.errors.sd[known] <= SD_ERROR * sd)).all())

    def advance(self, passes: int) -> None:
        """Every walker makes so many passes; an interruption waits until all have made one."""
        sums = self.tallies.stretches[-1]
        for _ in range(passes):
            with later() as interrupted:
                for _ in range(self.rounds):
                    self.walkers.walk(REDRAW_EVERY)
                    self._redraw()
                for i in range(self.n):
                    visits = self.walkers.advance(i, 0, 1, sums[i])
                    if visits is not None:
                        self.recorder.add(i, visits)
                        self._keep(i, visits)
                self.kept.next()
                self.steps += self.n * self.between
            if self.progress is not None:
                self.progress(self.steps, self.now)
            if interrupted:
                raise KeyboardInterrupt

    def adapt(self, maxiter: int) -> None:
        """As for other responses; there are walks under the expansion if they were of use when last tried."""
        super().adapt(maxiter)
        if self.useless:
            self.expansion = None

    def _leave(self) -> bool:
        """Nothing: the probability of a set alone is not known."""
        return False

    def _adapted(self) -> None:
        """Expand the likelihood about the mean of the linear predictors, unless that is of no use."""
        about = self.about
        if about.count == 0:
            return
        tried = about.proposed > 0
        if tried:
            self.useless = not about.useful
        self.expansion = None if tried and self.useless else self._expanded()
        self.about = Average(np.zeros(about.total.size))

    def _expanded(self) -> Augmented:
        """The expansion of the likelihood about the mean of the linear predictors."""
        return self.source.expanded(self.about.total / self.about.count)

    def _neighbours(self) -> Problem:
        """With the likelihood expanded: near enough for an error."""
        return problem_given(self.source, self._expanded()) if self.about.count else self.problem

    def _predictors(self) -> FloatArray:
        """Draw the linear predictors given the sets and the auxiliary variables, (w, n)."""
        return self.walkers.draw_predictors(self.rng.standard_normal((self.n, self.walkers.normals())))

    def _redraw(self) -> None:
        """Draw the auxiliary variables of all walkers anew."""
        psi = self._predictors()
        self.about.add(psi)
        if self.expansion is not None:
            self._walk_expanded(psi, self.expansion)
            if not self.ends and self.about.proposed >= ENOUGH_WALKS and not self.about.useful:
                self.expansion = None
        node = self._rescale(psi)
        at_once = max(AT_ONCE // psi.shape[1], 1)
        own = self.weighted
        for first in range(0, self.n, at_once):
            some = slice(first, first + at_once)
            drawn = self.source.draw(psi[some], self.rng)
            own.weight[some], own.linear[some] = drawn.weight, drawn.linear
            own.yy[some] = (drawn.linear**2 / drawn.weight).sum(axis=1)
            if self.source.likelihood.link == "probit":
                self.linear[some] = drawn.linear @ own.xt.T
        own.cross[:] = self.linear
        self.walkers.reweigh(node)

    def _walk_expanded(self, psi: FloatArray, given: Augmented) -> None:
        """Walk under the expansion of the likelihood, and draw the linear predictors (w, n) at the end."""
        own = self.weighted
        before = self.walkers.states()
        own.weight[:], own.linear[:], own.cross[:] = given.weight, given.linear, own.xt @ given.linear
        own.yy[:] = float(given.linear @ (given.linear / given.weight))
        self.walkers.reweigh(before[-1])
        self.walkers.walk(self.expanded)
        moved = self._predictors()
        gain = self._beyond(moved, given) - self._beyond(psi, given)
        taken = np.log(self.rng.random(self.n)) < gain
        psi[taken] = moved[taken]
        self.walkers.go_back(~taken, before)
        self.about.proposed += self.n
        self.about.taken += int(taken.sum())

    def _beyond(self, psi: FloatArray, given: Augmented) -> FloatArray:
        """The log likelihood of linear predictors (w, n) less its expansion, up to a constant, (w,)."""
        likelihood = self.source.likelihood
        value = log_likelihood(*likelihood.totals(), psi, likelihood.link)
        return np.asarray((value - psi * (given.linear - 0.5 * given.weight * psi)).sum(axis=1))

    def _rescale(self, psi: FloatArray) -> IntArray:
        """Multiply linear predictors (w, n) and the slab's standard deviation by the same; the nodes of log g then.

        Given the penalised coefficients in units of that deviation, and unpenalised ones h that go with it, the
        density of a node is its prior weight times the likelihood times ``g**(k / 2)``, the Jacobian of k of the h.
        """
        n_in, node = self.walkers.sizes()
        tabulate(self.grid, n_in)
        log_g, n_nodes = self.grid.log_g, self.grid.log_g.size
        if n_nodes == 1:
            return node
        likelihood = self.source.likelihood
        counts = likelihood.totals()
        prior = np.stack([self.grid.log_size(size) for size in n_in.tolist()]) + 0.5 * self.weighted.fixed * log_g
        every = np.arange(self.n)
        now = prior[every, node] + log_likelihood(*counts, psi, likelihood.link).sum(axis=1)
        for _ in range(RESCALINGS):
            # Near and far nodes, upwards as often as downwards.
            reach = np.ceil((n_nodes / 2.0) ** self.rng.random(self.n)).astype(np.intp)
            to = node + np.where(self.rng.random(self.n) < 0.5, reach, -reach)
            inside = (to >= 0) & (to < n_nodes)
            to = np.where(inside, to, node)
            moved = psi * np.exp(0.5 * (log_g[to] - log_g[node]))[:, None]
            then = prior[every, to] + log_likelihood(*counts, moved, likelihood.link).sum(axis=1)
            taken = inside & (np.log(self.rng.random(self.n)) < then - now)
            psi[taken], node[taken], now[taken] = moved[taken], to[taken], then[taken]
        return node

    def _keep(self, i: int, last: Visits) -> None:
        if not self.kept.due:
            return
        columns, mean, cov = self.walkers.coefficients(i)
        units, node = np.sort(last.units).astype(np.intp), int(last.node[-1])
        d, k = self.problem.d, self.weighted.fixed
        order = np.roll(np.arange(columns.size), k)  # the fixed ones first
        # Upper triangular, so that the part of the penalised coefficients, which come last, is the root of their own.
        last_first = order[::-1]
        root = lower_root(cov[np.ix_(last_first, last_first)])[::-1, ::-1].astype(np.float64)
        self.kept.add(WalkState(self.kept.step, i, units, columns[columns < d], node, mean[order], root))

    def _inflation(self, trace: Trace) -> float:
        """What errors are multiplied by at the end."""
        return EARLY

    def forget(self) -> None:
        """Drop the states so far."""
        super().forget()
        self.kept.forget()


def lower_root(cov: FloatArray) -> FloatArray:
    """A lower triangular L with ``L L' = cov``, which may be singular but for rounding."""
    try:
        return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError:
        value, axes = np.linalg.eigh(cov)
        upper = qr((axes * np.sqrt(np.maximum(value, 0.0))).T, mode="r", check_finite=False)[0]
        return np.asarray(upper.T, dtype=np.float64)
