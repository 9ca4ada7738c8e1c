"""Rows of a selection predicted from the others by all sets of columns, where so few that they can be summed over.

Sets that all rows together exclude can be what predicts a row from the others, and many of them together even where
each is improbable. So nothing is left out: with w the posterior probability of a set at a node of log g, and p the
density of the row given the others there, the prediction is ``1 / sum(w / p)`` over all sets and nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.posterior.left_out import (
    EXACT,
    FITTED,
    LEVERAGE_ONE,
    LeftOut,
    NoDensityError,
    Noise,
    densities,
    log_within,
    undetermined,
)
from pybayesridge.selection.collapsed import FLOOR, log_prior, of_left_over, spectra
from pybayesridge.selection.enumeration import can_enumerate, fits_of_all_sets, joint_table, units_in
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.left_out_known import CoordinateRows, outweighed
from pybayesridge.selection.problem import Problem

MOST_SUMMED = 10_000_000
"""Sets times nodes times rows at which all sets are looked at, at most."""

STEP = 8
"""All sets are looked at at one of so many nodes."""

LEFT_OUT = 1e-7
"""Share of a row's prediction that sets may have together which are not summed over at all nodes."""

NODE_LEFT_OUT = 1e-9
"""Share of a set that one of these nodes may have and not be summed over."""

AT_ONCE = 1 << 16
"""Numbers of sets, nodes and rows held at once."""

ROWS = 16
"""Rows that are looked at at once, at least."""

NEGLIGIBLE = 20.0
"""Nats below the sum so far from which sets are left out of means and distribution functions."""

NEGLIGIBLE_WITHIN = 25.0
"""Likewise of densities with the row."""

POSSIBLE = 1e-9
"""Posterior probability from which a set that has no density of a row is an error."""

LEAST_SLACK = 1e-12
"""What a set, with the unpenalised columns, leaves of a row's leverage: less is not resolved."""

UNRESOLVED = 1e-3
"""Share of a row's prediction, of sets whose fit to the other rows is not resolved, that makes it doubtful."""


def can_sum(grid: Grid, rows: int) -> bool:
    """Whether so many rows can be predicted by all sets."""
    return can_enumerate(grid) and grid.log_g[::STEP].size * 2.0**grid.free.size * rows <= MOST_SUMMED


@dataclass(frozen=True, slots=True)
class AllSets:
    """All sets at all nodes.

    Attributes
    ----------
    problem : Problem
    grid : Grid
    log_w : (K, 2^f) array
        Logarithms of their posterior probabilities.
    log_evidence : float
        By which these are divided.
    """

    problem: Problem
    grid: Grid
    log_w: FloatArray
    log_evidence: float

    @classmethod
    def of(cls, problem: Problem, grid: Grid) -> AllSets:
        """Of a posterior."""
        table = joint_table(problem, grid)
        log_evidence = float(logsumexp(table))
        return cls(problem, grid, table - log_evidence, log_evidence)

    def left_out(self, rows: CoordinateRows, start: int) -> LeftOut:
        """Predictions of some rows, the first of which has the position `start`.

        The efficiency is infinite, or 0 for a row in doubt.

        Raises
        ------
        NoDensityError
            For a row that has none.
        """
        stuck = np.flatnonzero(undetermined(rows.own))
        if stuck.size:
            raise NoDensityError(start + int(stuck[0]), LEVERAGE_ONE)
        sums = _Sums(rows.y.size)
        for sets, nodes in self._that_matter(rows):
            log_w, fits = self._fits_of_sets(sets, nodes, rows)
            lost = np.argwhere(~fits.resolved & (log_w > np.log(POSSIBLE))[:, None])
            if lost.size:
                which, row = lost[0].tolist()
                raise NoDensityError(start + row, FITTED if fits.slack[which, row] > LEAST_SLACK else LEVERAGE_ONE)
            sums.add(log_w, fits)
        return sums.found()

    def _fits_of_sets(self, sets: IntArray, nodes: IntArray, rows: CoordinateRows) -> tuple[FloatArray, _Fits]:
        """Of sets of equally many columns, the nodes of each after one another; first their log probabilities.

        These are not taken from the table: what the other rows leave is a difference to what all rows do, and where
        noise is next to nothing the rounding errors of another way to compute this are many nats.
        """
        problem, k, all_nodes = self.problem, self.grid.k[nodes][:, None], np.tile(nodes, sets.size)
        units = [units_in(which, self.grid) for which in sets.tolist()]
        parts = spectra(problem, [problem.units.columns(own) for own in units])
        own = rows.x[:, np.stack([part.columns for part in parts])].transpose(1, 0, 2)
        axes = (own @ np.stack([part.vectors for part in parts])).transpose(0, 2, 1)
        values = np.stack([part.values for part in parts])[:, None]
        inverse = 1.0 / (values + k)
        cross = np.stack([part.cross for part in parts])[:, None]
        left = np.maximum(problem.yy - (cross**2 * inverse).sum(axis=2), FLOOR * problem.yy)
        fitted, leverage = (
            (part.reshape(all_nodes.size, -1)) for part in ((inverse * cross) @ axes, inverse @ axes**2)
        )
        noise = None if self.grid.noise_var is None else self.grid.noise_var[nodes]
        log_joint = of_left_over(problem, noise, left) - 0.5 * np.log1p(values / k).sum(axis=2)
        log_joint += np.stack([log_prior(self.grid, own)[nodes] for own in units])
        fits = self._fits(all_nodes, rows, fitted, leverage, left.reshape(-1, 1))
        return log_joint.ravel() - self.log_evidence, fits

    def _fits(
        self, nodes: IntArray, rows: CoordinateRows, fitted: FloatArray, leverage: FloatArray, left: FloatArray
    ) -> _Fits:
        noise = self.grid.noise_var
        variance = None if noise is None else np.broadcast_to(noise[nodes, None], fitted.shape)
        return _fits(rows.y - fitted, 1.0 - leverage - rows.own, left, self.problem.nu, variance)

    def _that_matter(self, rows: CoordinateRows) -> Iterator[tuple[IntArray, IntArray]]:
        """Sets of equally many columns, and nodes, but for those that change no prediction, by some of the nodes."""
        nodes, sets = self.log_w.shape
        some = np.arange(STEP // 2, nodes, STEP) if nodes > STEP else np.arange(nodes)
        # From the most probable node on: what adds little to the sum so far adds less to all of it.
        order = some[np.argsort(-self.log_w[some].max(axis=1), kind="stable")]
        share = np.exp(self.log_w - logsumexp(self.log_w[some]))
        step = max(AT_ONCE // sets, ROWS)
        for first in range(0, rows.y.size, step):
            part = rows.only(np.arange(first, min(first + step, rows.y.size)))
            total = np.full(part.y.size, -np.inf)
            for node in order.tolist():
                fits = fits_of_all_sets(self.problem, self.grid, self.grid.k[node : node + 1], part.x)
                of_rows = fits.fitted[0], fits.leverage[0], fits.left[0][:, None]
                ratio = self.log_w[node][:, None] - self._fits(np.full(sets, node), part, *of_rows).log_density
                total = np.logaddexp(total, logsumexp(ratio, axis=0))
                share[node] = np.maximum(share[node], np.exp((ratio - total).max(axis=1)))
        columns = np.array([self.problem.units.columns(units_in(which, self.grid)).size for which in range(sets)])
        return _chosen(share, some, columns, max(AT_ONCE // rows.y.size, 1))


def _chosen(
    share: FloatArray, some: IntArray, columns: IntArray, at_once: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """Sets of shares (K, 2^f), known at the nodes `some`, without the least; and their nodes, not too many in all."""
    nodes, of_set = np.arange(share.shape[0]), share[some].sum(axis=0)
    order = np.argsort(of_set, kind="stable")
    left = order[int(np.searchsorted(np.cumsum(of_set[order]), LEFT_OUT)) :][::-1]
    # The most probable first: what adds little to the sums so far is left out of some.
    importance = np.bincount(columns[left], of_set[left])
    for size in np.argsort(-importance, kind="stable")[: np.count_nonzero(importance)].tolist():
        alike = left[columns[left] == size]
        for part in np.array_split(alike, -(-alike.size * nodes.size // at_once)):
            if part.size:
                used = some[(share[np.ix_(some, part)] > NODE_LEFT_OUT * of_set[part]).any(axis=1)]
                yield part, nodes[(np.abs(nodes[:, None] - used) <= STEP).any(axis=1)]


@dataclass(frozen=True, slots=True)
class _Fits:
    """What sets at nodes say of rows, (N, r) each; see :func:`pybayesridge.posterior.left_out.densities`."""

    log_density: FloatArray
    error: FloatArray
    slack: FloatArray
    left: FloatArray
    resolved: BoolArray
    noise: Noise

    def below(self, which: BoolArray) -> FloatArray:
        """Distribution functions at the response, of some of them."""
        return densities(self.error[which], self.slack[which], self.left[which], self._noise(which)).below

    def within(self, which: BoolArray) -> FloatArray:
        """Log densities given all rows, of some sets at nodes."""
        return log_within(self.error[which], self.slack[which], self.left[which], self._noise(which))

    def _noise(self, which: BoolArray) -> Noise:
        return Noise(self.noise.count, None if self.noise.variance is None else self.noise.variance[which])


def _fits(residual: FloatArray, slack: FloatArray, left: FloatArray, nu: float, variance: FloatArray | None) -> _Fits:
    """From residuals and slack (N, r) and R (N, 1)."""
    resolved = slack >= LEAST_SLACK
    slack = np.maximum(slack, LEAST_SLACK)
    own = residual**2 / slack
    if variance is None:
        rest = 1.0 - own / left
        resolved &= rest > EXACT
        power = 0.5 * (nu - 1.0)
        log_density = gammaln(0.5 * nu) - gammaln(power) - 0.5 * np.log(np.pi * left)
        log_density = log_density + power * np.log(np.maximum(rest, EXACT))
    else:
        resolved &= ~outweighed(own, slack, left, 2.0 * variance)
        # What the other rows leave, left - own, is not negative.
        log_density = -0.5 * np.log(2.0 * np.pi * variance) - 0.5 * np.minimum(own, left) / variance
    log_density += 0.5 * np.log(slack)
    return _Fits(
        log_density, residual / slack, slack, np.broadcast_to(left, slack.shape), resolved, Noise(nu, variance)
    )


class _Sums:
    """Sums over sets and nodes of r rows; what comes in parts is scaled by the sum of weights so far."""

    def __init__(self, rows: int) -> None:
        self.total, self.within = np.full(rows, -np.inf), np.full(rows, -np.inf)
        self.seen, self.below, self.error, self.lost = np.zeros((4, rows))

    def add(self, log_w: FloatArray, fits: _Fits) -> None:
        """Add sets at nodes with weights (N,)."""
        ratio = log_w[:, None] - fits.log_density
        total = np.logaddexp(self.total, logsumexp(ratio, axis=0))
        for part in (self.seen, self.below, self.error, self.lost):
            part *= np.exp(self.total - total)
        self.total = total
        near = ratio > total - NEGLIGIBLE
        share, row = np.exp((ratio - total)[near]), np.nonzero(near)[1]
        for part, values in (
            (self.seen, np.ones(row.size)),
            (self.below, fits.below(near)),
            (self.error, fits.error[near]),
            (self.lost, ~fits.resolved[near]),
        ):
            part += np.bincount(row, share * values, total.size)
        inside = log_w > -NEGLIGIBLE_WITHIN
        if inside.any():
            within = logsumexp(log_w[inside, None] + fits.within(inside), axis=0)
            self.within = np.logaddexp(self.within, within)

    def found(self) -> LeftOut:
        """Predictions."""
        return LeftOut(
            -self.total,
            self.within,
            np.clip(self.below / self.seen, 0.0, 1.0),
            self.error / self.seen,
            np.where(self.lost > UNRESOLVED, 0.0, np.inf),
            mcse=np.zeros(self.lost.size),
        )
