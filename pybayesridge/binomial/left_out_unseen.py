"""Sets of columns that matter only without a row, for responses that are not Gaussian: of which rows there are some.

The sets that predict a row from the others can be such that a walk through the posterior of all rows never comes to
them. With Laplace's approximation of a set at a node of log g, and with what it says of the set without each row,
neighbours of the kept sets are looked at: those that differ by a unit, or by one in place of another. Which of many
units would come in is told from the score at the mode, for all rows at once; what this finds is then approximated in
turn, and its neighbours are looked at if it matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import BinomialRows
from pybayesridge.selection.collapsed import log_prior
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.result import Exact
from pybayesridge.sites.approximation import cavity
from pybayesridge.sites.coordinates import Scaled
from pybayesridge.sites.laplace import mode

SETS = 24
"""Kept sets that are looked at, at most."""

QUANTILES = (0.1, 0.5, 0.9)
"""Of log g over the kept states: there sets are looked at."""

WORK, FEWEST, MOST = 400_000, 60, 2000
"""Sets that are approximated, times rows, and so many at least and at most."""

NEW_SETS = 12
"""Neighbours of a set that are approximated, at most."""

LISTED = 1e-3
"""Share of a row's prediction from which a neighbour counts."""

RAISED = 2.0
"""Nats by which this has to be more than its share of the posterior."""

TOL, MAXITER = 1e-3, 50
"""Of the modes, in standard deviations, and their Newton steps."""


@dataclass(frozen=True, slots=True)
class Look:
    """A set at a node, and all with one more unit.

    Attributes
    ----------
    units : int array
    node : int
    log_joint : float
        Log density of the responses, the set and the node.
    without : (n,) array
        The same without each row.
    others : (u,) int array
        Units that may come in.
    more, more_without : (u,), (n, u) arrays
        What each of them adds to the first and to the second, by the score.
    """

    units: IntArray
    node: int
    log_joint: float
    without: FloatArray
    others: IntArray
    more: FloatArray
    more_without: FloatArray


@dataclass(slots=True)
class Search:
    """Sets that were looked at, by their units and node; changed in place."""

    rows: BinomialRows
    grid: Grid
    found: dict[tuple[bytes, int], Look | None] = field(default_factory=dict)

    def look(self, units: IntArray, node: int) -> Look | None:
        """Approximate a set; None if the other rows do not determine it."""
        key = units.tobytes(), node
        if key not in self.found:
            self.found[key] = self._look(units, node)
        return self.found[key]

    def _look(self, units: IntArray, node: int) -> Look | None:
        rows, grid, likelihood = self.rows, self.grid, self.rows.likelihood
        columns, k = rows.units.columns(units), rows.c.shape[1]
        slab = float(np.exp(grid.log_g[node]))
        whole = np.asfortranarray(np.hstack([rows.c, rows.x[:, columns]]))
        scaled = Scaled(whole, k, np.r_[np.ones(k), np.full(columns.size, np.sqrt(slab))])
        try:
            top = mode(scaled, likelihood, None, tol=TOL, maxiter=MAXITER)
        except FloatingPointError:
            return None
        gaussian, weight = top.gaussian, top.sites.precision
        log_evidence = top.height - np.log(np.diag(gaussian.factor)).sum()
        log_joint = float(log_evidence + log_prior(grid, units)[node])
        root = gaussian.root() * scaled.units[:, None]
        half = whole @ root
        variance = (half**2).sum(axis=1)
        score = likelihood.left_out(cavity(top.eta, variance, top.sites)).log_score
        # Of a row that alone determines an unpenalised coefficient any set says the same.
        score = np.where(np.isfinite(score), score, 0.0)
        births = self._births(units, node, half, weight, top.sites.shift - weight * top.eta, variance)
        return Look(units, node, log_joint, log_joint - score, *births)

    def _births(
        self,
        units: IntArray,
        node: int,
        half: FloatArray,
        weight: FloatArray,
        slope: FloatArray,
        variance: FloatArray,
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """What other units add at most by one of their columns, with all rows and without one copy of each."""
        rows, grid = self.rows, self.grid
        k, copies = float(grid.k[node]), np.maximum(rows.likelihood.copies, 1.0)
        rest = rows.x - half @ ((half * weight[:, None]).T @ rows.x)
        size = np.maximum(weight @ (rows.x * rest), 0.0) + k
        cross = rows.x.T @ slope
        slack = np.maximum(1.0 - weight * variance / copies, np.finfo(float).eps)
        less = rest * (weight / copies / slack)[:, None] * rest
        size_without = np.maximum(size - less, k)
        cross_without = cross - rest * (slope / copies / slack)[:, None]
        gain = 0.5 * cross**2 / size - 0.5 * np.log(size / k)
        gain_without = 0.5 * cross_without**2 / size_without - 0.5 * np.log(size_without / k)
        others = np.setdiff1d(grid.free, units)
        prior = log_prior(grid, units)[node]
        more, more_without = np.empty(others.size), np.empty((rows.x.shape[0], others.size))
        for at, j in enumerate(others.tolist()):
            members = rows.units.members(j)
            change = float(log_prior(grid, np.append(units, j))[node] - prior)
            more[at] = gain[members].max() + change
            more_without[:, at] = gain_without[:, members].max(axis=1) + change
        return others, more, more_without


def unseen_shares(rows: BinomialRows, exact: Exact) -> FloatArray:
    """The share of each row's prediction, (n,), that sets have which are not kept, as far as they are looked at."""
    search, states, n = Search(rows, exact.grid), exact.states, rows.x.shape[0]
    of_column = rows.units.of_column
    weights: dict[bytes, float] = {}
    for i in range(states.n):
        key = np.unique(of_column[states.set_of(i)]).astype(np.intp).tobytes()
        weights[key] = weights.get(key, 0.0) + float(states.weight[i])
    kept = sorted(weights, key=lambda key: -weights[key])[:SETS]
    seen = sum(weights[key] for key in kept)
    log_g = np.quantile(states.log_g, QUANTILES)
    nodes = np.unique(np.abs(exact.grid.log_g - log_g[:, None]).argmin(axis=1)).tolist()
    most = int(np.clip(WORK // n, FEWEST, MOST)) // len(nodes)
    shares = np.zeros(n)
    for node in nodes:
        own = [look for key in kept if (look := search.look(np.frombuffer(key, dtype=np.intp), node)) is not None]
        if own:
            shares = np.maximum(shares, _at_node(search, own, set(weights), np.log(seen), node, most))
    return shares


def _at_node(search: Search, own: list[Look], kept: set[bytes], log_seen: float, node: int, most: int) -> FloatArray:
    """The share of sets that are not kept at one node, (n,)."""
    log_all = logsumexp([look.log_joint for look in own]) - log_seen
    log_rest = logsumexp([look.without for look in own], axis=0) - log_seen
    unseen = np.full(log_rest.size, -np.inf)
    free, known = search.grid.free, set(kept)
    # Sets whose neighbours are looked at, and what they have of a row's prediction.
    waiting = {look.units.tobytes(): (np.inf, look.units) for look in own}
    done: set[bytes] = set()
    left = most - len(own)
    while left > 0 and waiting:
        units = waiting.pop(max(waiting, key=lambda key: waiting[key][0]))[1]
        for base in [units, *(units[units != j] for j in np.intersect1d(units, free))]:
            around = None if base.tobytes() in done else search.look(base, node)
            if around is None:
                continue
            done.add(base.tobytes())
            left -= 1
            for new in [base, *_promising(around, log_all, np.logaddexp(log_rest, unseen))]:
                key = new.tobytes()
                look = None if key in known else search.look(new, node)
                if look is None:
                    continue
                known.add(key)
                left -= 1
                share = look.without - log_rest
                matters = (share > np.log(LISTED)) & (share - (look.log_joint - log_all) > RAISED)
                unseen = np.logaddexp(unseen, np.where(matters, look.without, -np.inf))
                if matters.any():
                    waiting[key] = float(share[matters].max()), new
    return np.exp(unseen - np.logaddexp(unseen, log_rest))


def _promising(look: Look, log_all: float, log_rest: FloatArray) -> list[IntArray]:
    """The set with another unit, where this matters for the prediction of some row more than for the posterior."""
    share = (look.without - log_rest)[:, None] + look.more_without
    raised = share - (look.log_joint - log_all + look.more) > RAISED
    top = np.where(raised, share, -np.inf).max(axis=0, initial=-np.inf)
    order = np.argsort(-top, kind="stable")[:NEW_SETS]
    order = order[top[order] > np.log(LISTED)]
    return [np.sort(np.append(look.units, j)) for j in look.others[order].tolist()]
