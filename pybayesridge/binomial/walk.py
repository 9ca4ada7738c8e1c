"""Walks through the sets for yes/no responses: light moves given auxiliary variables, which are redrawn now and then.

Given the variables the model is Gaussian with known weights and noise 1, so that the moves are those of
:mod:`pybayesridge.selection.light`. New variables are drawn given the linear predictor, and that given the set, g and
the old variables (Polson, Scott & Windle 2013; Albert & Chib 1993): every step keeps the posterior. Given the old
variables it moves little where columns nearly separate the responses; so before the new ones are drawn it is
multiplied as a whole, together with the slab's standard deviation (as in Yu & Meng 2011, "To center or not to
center").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import AugmentedProblem
from pybayesridge.binomial.kept import Kept, State
from pybayesridge.binomial.link import log_likelihood
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import Weighted
from pybayesridge.selection.sampler import Progress, Walk, later
from pybayesridge.selection.starts import Start

RENEW_EVERY = 32
"""Light moves between two draws of the auxiliary variables."""

RESCALINGS = 4
"""Proposals to multiply the linear predictor before each of these draws."""

FEWEST_DRAWS = 2500
"""Independent draws that the means of unpenalised coefficients, and of those that are likely in, are worth where
sampling stops."""

LIKELY = 0.5

SD_ERROR = 0.03
"""Relative error of their standard deviations at which sampling stops: it is large where tails are long, and there
the errors of means are too small until the tails have been visited."""

AT_ONCE = 2**15
"""Auxiliary variables that are drawn at once."""


class BinaryWalk(Walk):
    """Walkers with auxiliary variables of their own; changed in place.

    Attributes
    ----------
    kept : Kept
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
        self.kept = Kept()
        first = problem.given
        xt = np.ascontiguousarray(np.hstack([source.x, source.c]).T)
        self.weighted = Weighted(
            xt=xt,
            fixed=source.c.shape[1],
            weight=np.tile(first.weight, (n, 1)),
            cross=np.tile(xt @ first.linear, (n, 1)),
            yy=np.full(n, float(first.linear @ (first.linear / first.weight))),
        )
        super().__init__(problem, grid, starts, rng, most_columns, progress, self.weighted)
        self.rounds = max(self.between // RENEW_EVERY, 1)
        self.between = self.rounds * RENEW_EVERY

    @property
    def settled(self) -> bool:
        """Whether the walk is long enough for errors by the differences between walkers."""
        now = self.now
        if now is None or not super().settled:
            return False
        likely = now.prob[self.problem.units.of_column] > LIKELY
        known = np.append(likely, np.ones(self.weighted.fixed, dtype=bool))
        sd = np.sqrt(np.maximum(now.square - now.mean**2, 0.0))[known]
        precise = now.errors.mean[known] <= sd / np.sqrt(FEWEST_DRAWS)
        return bool((precise & (now.errors.sd[known] <= SD_ERROR * sd)).all())

    def advance(self, passes: int) -> None:
        """Every walker makes so many passes; an interruption waits until all have made one."""
        sums = self.tallies.stretches[-1]
        for _ in range(passes):
            with later() as interrupted:
                for _ in range(self.rounds):
                    for i in range(self.n):
                        self.walkers.walk(i, RENEW_EVERY)
                    self._renew()
                for i in range(self.n):
                    visits = self.walkers.advance(i, 0, 1, sums[i])
                    if visits is not None:
                        self.recorder.add(i, visits)
                        self._keep(i)
                self.kept.next()
                self.steps += self.n * self.between
            if self.progress is not None:
                self.progress(self.steps, self.now)
            if interrupted:
                raise KeyboardInterrupt

    def _leave(self) -> bool:
        """Nothing: the probability of a set alone is not known."""
        return False

    def _renew(self) -> None:
        """Draw the auxiliary variables of all walkers anew."""
        n_rows = self.weighted.xt.shape[1]
        psi = np.empty((self.n, n_rows))
        most = max(self.walkers.columns_in(i) for i in range(self.n))
        normal = self.rng.standard_normal((self.n, most))
        for i in range(self.n):
            self.walkers.draw_predictor(i, normal[i], psi[i])
        node = self._rescale(psi)
        at_once = max(AT_ONCE // n_rows, 1)
        own = self.weighted
        for first in range(0, self.n, at_once):
            some = slice(first, first + at_once)
            drawn = self.source.draw(psi[some], self.rng)
            own.weight[some] = drawn.weight
            own.yy[some] = (drawn.linear**2 / drawn.weight).sum(axis=1)
            if self.source.likelihood.link == "probit":
                own.cross[some] = drawn.linear @ own.xt.T
        for i in range(self.n):
            self.walkers.reweigh(i, int(node[i]))

    def _rescale(self, psi: FloatArray) -> IntArray:
        """Multiply linear predictors (w, n) and the slab's standard deviation by the same; the nodes of log g then.

        Given the penalised coefficients in units of that deviation, and unpenalised ones h that go with it, the
        density of a node is its prior weight times the likelihood times ``g**(k / 2)``, the Jacobian of k of the h.
        """
        states = [self.walkers.state(i)[:2] for i in range(self.n)]
        node = np.array([at for _, at in states], dtype=np.intp)
        log_g, n_nodes = self.grid.log_g, self.grid.log_g.size
        if n_nodes == 1:
            return node
        likelihood = self.source.likelihood
        counts = likelihood.totals()
        prior = np.stack([self.grid.log_size(units.size) for units, _ in states]) + 0.5 * self.weighted.fixed * log_g
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

    def _keep(self, i: int) -> None:
        if not self.kept.due:
            return
        columns, mean, cov = self.walkers.coefficients(i)
        units, node, _ = self.walkers.state(i)
        d, k = self.problem.d, self.weighted.fixed
        order = np.roll(np.arange(columns.size), k)  # the fixed ones first
        # Upper triangular, so that the part of the penalised coefficients, which come last, is the root of their own.
        last_first = order[::-1]
        root = np.linalg.cholesky(cov[np.ix_(last_first, last_first)])[::-1, ::-1].astype(np.float64)
        self.kept.add(State(self.kept.step, i, units, columns[columns < d], node, mean[order], root))

    def forget(self) -> None:
        """Drop the states so far."""
        super().forget()
        self.kept.forget()
