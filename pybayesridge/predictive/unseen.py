"""Sets of columns that matter only without a row, of which the posterior of all rows has no draw.

A row can be what alone speaks for or against a column. The sets that predict it from the others can then have so
small a posterior probability that they are not among the kept states, whose weights for the row say nothing of this.
The posterior probability of any set is known, though, up to the evidence, and so is its weight without a row.

From the kept sets of largest weight all sets are looked at that differ by a column, or by one column in place of
another (of groups by a group). If these have a share without a row that they do not have with it, the row is in
doubt, and sets are added for it, one step after the other, until no neighbour of them has a share. Their weights are
then exact; the kept states stand for all other sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.predictive.left_out import Densities, LeftOut, Noise, densities
from pybayesridge.selection.collapsed import Spectrum, log_joint, of_left_over, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import Exact
from pybayesridge.selection.traces import EVIDENCE_SETS, log_joints

NODES = 6
"""Nodes of log g at which neighbours are looked at."""

SETS = 24
"""Kept sets whose neighbours are looked at, at most."""

SCREENED = 500_000
"""Rows times neighbours times nodes that are looked at for all rows, at most."""

SEARCHED = 2_000_000
"""Likewise for the rows in doubt, beyond the neighbours of one set."""

LISTED = 1e-5
"""Share of a row's prediction from which a neighbour is taken note of."""

DOUBT = 0.01
"""Share, beyond that with the row, from which a row is in doubt."""

RAISED = 2.0
"""Nats by which the weight of a set has to be larger without a row for the set, and its neighbours, to count."""

UNSETTLED = 0.25
"""Share of sets that were not added from which a row stays in doubt."""

DEEPEST = 60.0
"""Nats that the weight of such a set may lie below that of all."""

STEPS = 100
"""Such sets, at most."""

LARGEST = 500.0
"""Logarithm of the largest share that is told from larger ones, before sets are added."""

SAME_NODE = 1e-9
"""Differences of log g that are rounding."""

SETTLED = 1e-3
"""Share of a set from which its neighbours are looked at, too."""

EXPANDED = 50
"""Sets whose neighbours are looked at for the rows in doubt, at most."""

NEW_SETS = 200
"""Sets that are added at once, at most."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows in the coordinates of the columns: X (r, d), the response (r,), leverages from Z (r,)."""

    x: FloatArray
    y: FloatArray
    own: FloatArray

    def only(self, which: AnyArray) -> Rows:
        """Some of them."""
        return Rows(self.x[which], self.y[which], self.own[which])


@dataclass(slots=True)
class Sets:
    """The sets that are known, with what their weights rest on; changed in place.

    Attributes
    ----------
    problem : Problem
    grid : Grid
    log_evidence : float
    nu : float
        Degrees of freedom of the noise.
    """

    problem: Problem
    grid: Grid
    log_evidence: float
    nu: float
    marks: AnyArray = field(init=False)
    node_marks: AnyArray = field(init=False)
    _known: dict[int, tuple[IntArray, Spectrum, FloatArray]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Give each unit and each node a mark, of which sets have their keys."""
        rng = np.random.default_rng(12345)
        self.marks = rng.integers(0, 2**63, self.problem.units.n, dtype=np.uint64)
        self.node_marks = rng.integers(0, 2**63, self.grid.log_g.size, dtype=np.uint64)

    def key(self, units: IntArray) -> int:
        """Equal for equal sets."""
        return int(np.bitwise_xor.reduce(self.marks[units], initial=np.uint64(0)))

    def of(self, units: IntArray) -> tuple[IntArray, Spectrum, FloatArray]:
        """The set in its eigenvectors, and the logarithm of its posterior probability at each node, (K,)."""
        key = self.key(units)
        if key not in self._known:
            part = spectrum(self.problem, self.problem.units.columns(units))
            joint = log_joint(self.problem, self.grid, part, units) - self.log_evidence
            self._known[key] = units, part, joint
        return self._known[key]

    @property
    def free(self) -> IntArray:
        """Units that may be in or out."""
        odds = self.grid.unit_odds
        return np.arange(self.problem.units.n) if odds is None else np.flatnonzero(np.isfinite(odds))

    def nodes(self, units: IntArray, most: int = NODES) -> IntArray:
        """Nodes at equal distances, and the most probable one given the set."""
        joint = self.of(units)[2]
        even = np.linspace(0, joint.size - 1, min(most, joint.size)).round().astype(np.intp)
        even[np.argmin(np.abs(even - int(np.argmax(joint))))] = int(np.argmax(joint))
        return np.unique(even)

    def noise(self, nodes: AnyArray) -> Noise:
        """The noise at some nodes."""
        known = self.grid.noise_var
        return Noise(self.nu, None if known is None else known[nodes][:, None])

    def densities(self, units: IntArray, nodes: AnyArray, rows: Rows) -> tuple[FloatArray, Densities]:
        """Log weights of the set at each node without each row, (K', r), and what it predicts there."""
        _, part, joint = self.of(units)
        k = self.grid.k[nodes][:, None]
        own = rows.x[:, part.columns] @ part.vectors
        inverse = 1.0 / (part.values + k)
        left = self.problem.yy - (part.cross**2 * inverse).sum(axis=1)
        fitted, leverage = (inverse * part.cross) @ own.T, inverse @ (own**2).T + rows.own
        found = _without(rows.y - fitted, leverage, left, self.noise(nodes))
        return joint[nodes][:, None] - found.left_out, found

    def births(self, units: IntArray, node: int, rows: Rows) -> tuple[IntArray, FloatArray, FloatArray]:
        """Units that may come in, (u,), and log weights of the sets with them at a node.

        The weights are those without each row, (r, u), and with all rows, (u,).
        """
        problem, grid = self.problem, self.grid
        _, part, joint = self.of(units)
        k, columns = float(grid.k[node]), part.columns
        inverse = 1.0 / (part.values + k)
        coef = part.vectors @ (part.cross * inverse)
        half = rows.x[:, columns] @ (part.vectors * np.sqrt(inverse))
        residual, leverage = rows.y - rows.x[:, columns] @ coef, (half**2).sum(axis=1) + rows.own
        gram = problem.stacked(columns)
        onto = (part.vectors * inverse) @ (part.vectors.T @ gram)
        cross, x = problem.cross - gram.T @ coef, rows.x - rows.x[:, columns] @ onto
        left = problem.yy - float(part.cross**2 @ inverse)
        out = np.setdiff1d(self.free, units)
        log_new, log_all = np.empty((rows.y.size, out.size)), np.empty(out.size)
        prior = _prior_of_births(grid, units, out, node)
        sizes = problem.units.sizes[out]
        noise = None if grid.noise_var is None else grid.noise_var[node]
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            at = np.stack([problem.units.members(int(j)) for j in out[which]])
            if size == 1:
                values = np.maximum(problem.diag[at[:, 0]] - (gram[:, at[:, 0]] * onto[:, at[:, 0]]).sum(axis=0), 0.0)
                values, target, own = (values + k)[:, None], cross[at], x[:, at]
            else:
                rest = problem.blocks(at) - np.einsum("mua,mub->uab", gram[:, at], onto[:, at])
                values, axes = np.linalg.eigh(rest)
                values = np.maximum(values, 0.0) + k
                target = np.einsum("ua,uab->ub", cross[at], axes)
                own = np.einsum("rua,uab->rub", x[:, at], axes)
            less = left - (target**2 / values).sum(axis=1)
            gain = of_left_over(problem, noise, np.maximum(less, 1e-15 * problem.yy))
            gain = gain - of_left_over(problem, noise, np.array(max(left, 1e-15 * problem.yy)))
            log_all[which] = joint[node] + prior[which] + gain + 0.5 * np.log(k / values).sum(axis=1)
            new_residual = residual[:, None] - (own * (target / values)).sum(axis=2)
            new_leverage = leverage[:, None] + (own**2 / values).sum(axis=2)
            known = Noise(self.nu, None if noise is None else np.array([[noise]]))
            found = _without(new_residual.T, new_leverage.T, less, known)
            log_new[:, which] = (log_all[which][:, None] - found.left_out).T
        return out, log_new, log_all


def _prior_of_births(grid: Grid, units: IntArray, out: IntArray, node: int) -> FloatArray:
    """Changes of the log prior of a set at a node, (u,)."""
    if grid.unit_odds is not None:
        return grid.unit_odds[out]
    change = grid.log_size(units.size + 1)[node] - grid.log_size(units.size)[node]
    return np.full(out.size, float(change))


def _without(residual: FloatArray, leverage: FloatArray, left: FloatArray, noise: Noise) -> Densities:
    """Predictions of rows from the others given components, (K, r), with infinite density where there is none."""
    slack = 1.0 - leverage
    fine = slack > 0
    error = np.divide(residual, slack, out=np.zeros_like(slack), where=fine)
    found = densities(error, np.where(fine, slack, 1.0), left[:, None], noise)
    lost = ~fine | ~found.proper
    return replace(found, left_out=np.where(lost, np.inf, found.left_out))


@dataclass(frozen=True, slots=True)
class Kept:
    """The kept states of a posterior.

    Attributes
    ----------
    units : list of S int arrays
        The units of each.
    key : (S,) uint64 array
        Of its set.
    pairs : (S',) uint64 array
        Keys of the sets and nodes, ascending.
    weight : (S,) array
    """

    units: list[IntArray]
    key: AnyArray
    pairs: AnyArray
    weight: FloatArray


def known_sets(problem: Problem, exact: Exact) -> tuple[Sets, Kept, float]:
    """The sets of a posterior, its kept states, and the standard error of the log evidence."""
    states = exact.states
    of_column = problem.units.of_column
    units = [np.unique(of_column[states.set_of(i)]).astype(np.intp) for i in range(states.n)]
    sets = Sets(problem, exact.grid, exact.log_evidence, states.nu)
    key = np.array([sets.key(each) for each in units], dtype=np.uint64)
    node = np.abs(np.searchsorted(exact.grid.log_g, states.log_g - SAME_NODE))
    pairs = np.unique(key ^ sets.node_marks[np.minimum(node, exact.grid.log_g.size - 1)])
    kept = Kept(units, key, pairs, states.weight)
    if np.isfinite(exact.log_evidence):
        return sets, kept, exact.log_evidence_se
    # No set came back: by those there are.
    different = {int(key): units[i] for i, key in enumerate(kept.key)}
    some = [units for _, units in zip(range(EVIDENCE_SETS), different.values(), strict=False)]
    share = float(states.weight[np.isin(kept.key, [sets.key(each) for each in some])].sum())
    sets.log_evidence = float(logsumexp(log_joints(problem, exact.grid, some))) - np.log(share)
    return sets, kept, 1.0 / np.sqrt(len(some))


@dataclass(frozen=True, slots=True)
class Added:
    """What sets that are not kept add to the predictions of rows.

    Attributes
    ----------
    found : LeftOut
        Of the rows, with the sets that were added.
    rest : (S, r) array
        Shares of the kept states in each prediction.
    exact : (r,) array
        Shares of the sets whose weights are exact.
    missing : (r,) array
        Shares of neighbours that were not added.
    """

    found: LeftOut
    rest: FloatArray
    exact: FloatArray
    missing: FloatArray


def with_unseen(
    sets: Sets, kept: Kept, rows: Rows, found: LeftOut, given: Densities, few: BoolArray, total: int
) -> Added:
    """Add to predictions of rows by the kept states the sets that matter only without them.

    Parameters
    ----------
    sets : Sets
    kept : Kept
    rows : Rows
    found : LeftOut
        Predictions by the kept states.
    given : Densities
        Of the rows given the kept states, (S, r).
    few : (r,) bool array
        Rows that are in doubt for other reasons.
    total : int
        Number of all rows, by which it is decided how many neighbours are looked at.
    """
    with np.errstate(divide="ignore"):
        share = np.exp(np.log(kept.weight)[:, None] - given.left_out + found.log_density)
    excess, candidates = _screen(sets, kept, rows, found.log_density, share, total)
    n = rows.y.size
    missing = np.maximum(excess.of_rows(n), 0.0)
    doubt = np.flatnonzero((missing > DOUBT) | few)
    if not doubt.size:
        return Added(found, share, np.zeros(n), missing)
    own = rows.only(doubt)
    more, left = _search(sets, kept, own, given.left_out[:, doubt], candidates)
    keys = np.array([sets.key(units) for units in more], dtype=np.uint64)
    out = _put_together(kept, sets, own, doubt, more, keys, found, given, share)
    # Shares were of predictions by the kept states alone.
    smaller = np.exp(out.found.log_density[doubt] - found.log_density[doubt])
    missing[doubt] = np.maximum(excess.of_rows(n, keys)[doubt], 0.0) * smaller + left
    efficiency = out.found.efficiency.copy()
    efficiency[doubt[missing[doubt] > UNSETTLED]] = 0.0
    return replace(out, found=replace(out.found, efficiency=efficiency), missing=missing)


@dataclass(frozen=True, slots=True)
class Excess:
    """Shares of sets in predictions of rows that they do not have in the posterior, (L,) each."""

    row: IntArray
    key: AnyArray
    share: FloatArray

    def of_rows(self, n: int, but: AnyArray | None = None) -> FloatArray:
        """Sums for each row, (n,), without some sets."""
        share = self.share if but is None else np.where(np.isin(self.key, but), 0.0, self.share)
        return np.asarray(np.bincount(self.row, share, n), dtype=np.float64)


def _screen(
    sets: Sets, kept: Kept, rows: Rows, log_density: FloatArray, share: FloatArray, total: int
) -> tuple[Excess, list[IntArray]]:
    """Shares of sets and nodes that are not kept without each row, less those with it; and such sets.

    A set of which a row's share is far larger than that of all rows is a step towards others, and looked at, too.
    """
    most = max(SCREENED // max(total * sets.free.size, 1), 1)
    nodes = int(min(NODES, most))
    queue = {sets.key(units): (np.inf, units) for units in _bases(sets, kept, share, max(most // nodes, 1))}
    done: set[int] = set()
    lists: list[Neighbours] = []
    for _ in range(min(len(queue) + STEPS, max(most // nodes, 1))):
        waiting = [key for key in queue if key not in done]
        if not waiting:
            break
        key = max(waiting, key=lambda key: queue[key][0])
        done.add(key)
        lists.append(_neighbours(sets, queue[key][1], rows, log_density, nodes, kept.pairs))
        for step, (value, units) in lists[-1].steps.items():
            if step not in queue or queue[step][0] < value:
                queue[step] = value, units
    row, pair = (np.concatenate([getattr(each, name) for each in lists]) for name in ("row", "pair"))
    order = np.lexsort((pair, row))
    again = (np.diff(row[order]) == 0) & (np.diff(pair[order]) == 0)
    first = order[np.append(True, ~again)[: order.size]]
    key, excess = (np.concatenate([getattr(each, name) for each in lists])[first] for name in ("key", "excess"))
    found = {key: units for each in lists for key, units in each.sets.items()}
    return Excess(row[first], key, excess), list(found.values())


def _bases(sets: Sets, kept: Kept, share: FloatArray, most: int) -> list[IntArray]:
    """The sets of largest share of some row or of all, each followed by it without one of its units."""
    importance = np.maximum(share.max(axis=1, initial=0.0), kept.weight)
    of_set: dict[int, float] = {}
    units: dict[int, IntArray] = {}
    for i in np.argsort(-importance, kind="stable").tolist():
        key = int(kept.key[i])
        if key not in units and len(units) == SETS:
            continue
        units[key] = kept.units[i]
        of_set[key] = of_set.get(key, 0.0) + float(importance[i])
    out: dict[int, IntArray] = {}
    for key in sorted(of_set, key=lambda key: -of_set[key]):
        for one in [units[key], *_without_one(sets, units[key])]:
            out.setdefault(sets.key(one), one)
    return list(out.values())[:most]


def _without_one(sets: Sets, units: IntArray) -> list[IntArray]:
    return [units[units != j] for j in units[np.isin(units, sets.free)]]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A set, and all with one more unit, at some nodes, if they are not known there and matter more without a row.

    Attributes
    ----------
    row : (L,) int array
        Rows of whose predictions they have a share.
    key, pair : (L,) uint64 arrays
        Keys of sets, and of sets and nodes.
    excess : (L,) array
        Their share, less that with the row, for all the nodes that this one stands for.
    sets : dict of int to int array
        These sets by their keys, those of largest share first.
    steps : dict of int to (float, int array)
        Sets with much more of a row's prediction than of the posterior: the logarithm of this share, and the set.
    """

    row: IntArray
    key: AnyArray
    pair: AnyArray
    excess: FloatArray
    sets: dict[int, IntArray]
    steps: dict[int, tuple[float, IntArray]]


def _with_one(units: IntArray, more: IntArray, one: int) -> IntArray:
    return np.sort(np.append(units, more[one]))


def _neighbours(
    sets: Sets, units: IntArray, rows: Rows, log_density: FloatArray, nodes: int, known: AnyArray
) -> Neighbours:
    """Look at a set and all with one more unit; `known` are keys of sets and nodes, ascending."""
    own, every = sets.key(units), np.arange(sets.grid.log_g.size)
    at = sets.nodes(units, nodes)
    stands = every.size / at.size
    found: dict[int, tuple[float, IntArray]] = {}
    steps: dict[int, tuple[float, IntArray]] = {}
    listed: list[tuple[IntArray, AnyArray, AnyArray, FloatArray]] = []

    def take(
        keys: AnyArray,
        node: IntArray,
        log_new: FloatArray,
        log_all: FloatArray,
        each: float,
        name: Callable[[int], IntArray],
    ) -> None:
        """Note what matters of sets (c,) at nodes (c,): log shares without the rows (r, c), and with all (c,)."""
        pair = keys ^ sets.node_marks[node]
        log_new = np.where(_among(pair, known), -np.inf, log_new)
        least = np.log(LISTED / each)
        # Sets of which rows have no more than all rows do are what the kept states stand for.
        log_new = np.where(log_new - log_all > RAISED, log_new, -np.inf)
        r, c = np.nonzero(log_new > least)
        value = np.minimum(log_new[r, c], LARGEST)
        listed.append((r, keys[c], pair[c], each * (np.exp(value) - np.exp(log_all[c]))))
        top = log_new.max(axis=0, initial=-np.inf)
        for one in np.flatnonzero(top > -DEEPEST).tolist():
            of, whole = int(keys[one]), name(one)
            if top[one] > least and found.get(of, (-np.inf,))[0] < top[one]:
                found[of] = float(top[one]), whole
            if steps.get(of, (-np.inf,))[0] < top[one]:
                steps[of] = float(top[one]), whole

    seen = bool(_among(np.uint64(own) ^ sets.node_marks, known).any())
    here = every if seen else at
    log_new = sets.densities(units, here, rows)[0].T + log_density[:, None]
    keys = np.full(here.size, own, dtype=np.uint64)
    take(keys, here, log_new, sets.of(units)[2][here], every.size / here.size, lambda _: units)
    for node in at.tolist():
        more, log_new, log_all = sets.births(units, node, rows)
        keys = np.uint64(own) ^ sets.marks[more]
        where = np.full(more.size, node)
        take(
            keys,
            where,
            log_new + log_density[:, None],
            log_all,
            stands,
            partial(_with_one, units, more),
        )
    row, key, pair, excess = (np.concatenate(part) for part in zip(*listed, strict=True))
    ordered = sorted(found, key=lambda one: -found[one][0])
    return Neighbours(row, key, pair, excess, {one: found[one][1] for one in ordered}, steps)


def _among(keys: AnyArray, known: AnyArray) -> BoolArray:
    """Whether each of `keys` is one of `known`, which ascend."""
    out: BoolArray = known[np.minimum(np.searchsorted(known, keys), known.size - 1)] == keys
    return out


def _search(
    sets: Sets, kept: Kept, rows: Rows, left_out: FloatArray, first: list[IntArray]
) -> tuple[list[IntArray], FloatArray]:
    """Sets that have a share of the prediction of some of the rows, and the share (r,) that is left of neighbours."""
    every = np.arange(sets.grid.log_g.size)
    weights: dict[int, FloatArray] = {}
    in_posterior: dict[int, float] = {}
    found: dict[int, IntArray] = {}

    def add(some: list[IntArray]) -> None:
        for units in some:
            key = sets.key(units)
            if key not in found:
                found[key] = units
                weights[key] = logsumexp(sets.densities(units, every, rows)[0], axis=0)
                in_posterior[key] = float(logsumexp(sets.of(units)[2]))

    share = np.exp(-left_out - logsumexp(-left_out, axis=0)).max(axis=1) + kept.weight
    order = np.argsort(-share, kind="stable")
    distinct = dict.fromkeys(kept.key[order].tolist())
    at = dict(zip(kept.key[order][::-1].tolist(), order[::-1].tolist(), strict=True))
    add([kept.units[at[key]] for key in list(distinct)[: 4 * SETS]])
    add(first[:NEW_SETS])
    done: set[int] = set()
    rest = np.full(rows.y.size, np.inf)
    looked_at = 0
    for _ in range(EXPANDED):
        table = np.stack(list(weights.values()))
        total = logsumexp(table, axis=0)
        relative = np.exp(table - total)
        log_all = np.array(list(in_posterior.values()))[:, None]
        open_ = np.array([[key not in done] for key in weights]) & (table - total - log_all > RAISED)
        # What is beyond sets whose neighbours were not looked at is about as much as these.
        rest = np.where(open_, relative, 0.0).sum(axis=0)
        settled = rest.max() < SETTLED or not (relative[open_] >= SETTLED / 10.0).any()
        if settled or looked_at > SEARCHED:
            break
        best = int(np.argmax(np.where(open_, relative, -1.0).max(axis=1)))
        key = list(weights)[best]
        done.add(key)
        known = np.sort((np.array(list(weights), dtype=np.uint64)[:, None] ^ sets.node_marks).ravel())
        new: dict[int, IntArray] = {}
        around = [found[key], *_without_one(sets, found[key])]
        looked_at += len(around) * NODES * sets.free.size * rows.y.size
        for units in around:
            new |= _neighbours(sets, units, rows, -total, NODES, known).sets
        add(list(new.values())[:NEW_SETS])
    return list(found.values()), rest


def _put_together(
    kept: Kept,
    sets: Sets,
    rows: Rows,
    doubt: IntArray,
    more: list[IntArray],
    keys: AnyArray,
    found: LeftOut,
    given: Densities,
    share: FloatArray,
) -> Added:
    """Predictions of the rows in doubt with the sets `more`, of exact weights, in place of kept states of these."""
    every = np.arange(sets.grid.log_g.size)
    other = ~np.isin(kept.key, keys)
    with np.errstate(divide="ignore"):
        log_w = np.where(other, np.log(kept.weight), -np.inf)[:, None] - given.left_out[:, doubt]
    pieces = [sets.densities(units, every, rows) for units in more]
    log_new = np.concatenate([piece[0] for piece in pieces])
    total = logsumexp(np.concatenate([log_w, log_new]), axis=0)
    of_states, of_sets = np.exp(log_w - total), np.exp(log_new - total)
    rest, exact = share.copy(), np.zeros(share.shape[1])
    rest[:, doubt], exact[doubt] = of_states, of_sets.sum(axis=0)
    below, means = (np.concatenate([getattr(piece[1], name) for piece in pieces]) for name in ("below", "error"))
    below, means = (_sum(of_sets, new) for new in (below, means))
    weight = np.where(kept.weight > 0, kept.weight, 1.0)[:, None]
    values = {
        "log_density": -total,
        "efficiency": 1.0 / np.maximum((of_states**2 / weight).sum(axis=0), 1.0),
        "pit": np.clip(_sum(of_states, given.below[:, doubt]) + below, 0.0, 1.0),
        "error": _sum(of_states, given.error[:, doubt]) + means,
    }
    changed = {}
    for name, value in values.items():
        changed[name] = getattr(found, name).copy()
        changed[name][doubt] = value
    return Added(replace(found, **changed), rest, exact, np.zeros(exact.size))


def _sum(share: FloatArray, values: FloatArray) -> FloatArray:
    return np.where(share > 0, share * np.where(share > 0, values, 0.0), 0.0).sum(axis=0)
