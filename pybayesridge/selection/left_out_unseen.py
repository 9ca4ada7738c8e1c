"""Sets of columns that matter only without a row, of which the posterior of all rows has no draw.

A row can be what alone speaks for or against a column. The sets that predict it from the others can then have so
small a posterior probability that they are not among the kept states, whose weights for the row say nothing of this.
The posterior probability of any set is known, though, up to the evidence, and so is its weight without a row.

From the kept sets of largest weight all sets are looked at that differ by a column, or by one column in place of
another (of groups by a group). If these have a share without a row that they do not have with it, the row is in
doubt, and sets are added for it, one step after the other, until no neighbour of them has a share. Their weights are
then exact; the kept states of other sets stand for all of these, whose posterior probability is what is left of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.posterior.left_out import Densities, LeftOut
from pybayesridge.selection.left_out_known import NODES, CoordinateRows, KeptStates, KnownSets
from pybayesridge.selection.left_out_summed import UNRESOLVED
from pybayesridge.selection.left_out_walked import without_row
from pybayesridge.selection.recalled import MOST_UNITS
from pybayesridge.selection.summits import summits

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

ASCENDED = 1e-4
"""Share of a row's prediction from which the end of a path puts it in doubt: around it there may be many sets."""

MOST_ASCENDED = 100
"""Rows up to which there are paths for each."""

TINY = float(np.finfo(float).tiny)
"""Least sum of weights."""

LARGEST = 500.0
"""Logarithm of the largest share that is told from larger ones, before sets are added."""

SETTLED = 1e-3
"""Share of a set from which its neighbours are looked at, too."""

MOST_KEPT = 1000
"""Kept sets that get exact weights for the rows in doubt, at most: of their draws few may be where a row matters."""

REPRESENTED = 0.5
"""Share of the posterior probability of all other sets that the other kept states must have to stand for them."""

EXPANDED = 50
"""Sets whose neighbours are looked at for the rows in doubt, at most."""

NEW_SETS = 200
"""Sets that are added at once, at most."""


Name = Callable[[], IntArray]
"""What returns a set: many are taken note of, and few looked at."""


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
    sets: KnownSets,
    kept: KeptStates,
    rows: CoordinateRows,
    found: LeftOut,
    given: Densities,
    few: BoolArray,
    total: int,
) -> Added:
    """Add to predictions of rows by the kept states the sets that matter only without them.

    Parameters
    ----------
    sets : KnownSets
    kept : KeptStates
    rows : CoordinateRows
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
    far, at = _far(sets, kept, rows, found.log_density) if total <= MOST_ASCENDED else ([], np.zeros(0, np.intp))
    candidates = [*far, *candidates]
    doubt = np.flatnonzero((missing > DOUBT) | few | np.isin(np.arange(n), at))
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
    return replace(out, found=replace(out.found, efficiency=efficiency), missing=missing + out.missing)


def _far(
    sets: KnownSets, kept: KeptStates, rows: CoordinateRows, log_density: FloatArray
) -> tuple[list[IntArray], IntArray]:
    """Sets that are not kept, at which paths end without a row that they have a share of; and these rows.

    They may differ from kept sets in many units: as many columns as the other rows can fit these exactly.
    """
    if sets.problem.gram is None:
        return [], np.zeros(0, dtype=np.intp)
    every, seen = np.arange(sets.grid.log_g.size), set(kept.key.tolist())
    out: dict[int, IntArray] = {}
    doubt = []
    for i in range(rows.y.size):
        # What a row alone has of a column leaves rounding errors, negative ones too: a path ends there.
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = summits(without_row(sets.problem, rows, i), sets.grid, MOST_UNITS)
        for units in ends:
            if sets.key(units) in seen:
                continue
            log_new, _, log_lost = sets.densities(units, every, rows.only(np.array([i])))
            log_new = logsumexp([log_new, log_lost]) + log_density[i]
            if log_new - logsumexp(sets.of(units)[2]) > RAISED and log_new > np.log(ASCENDED):
                out[sets.key(units)] = units
                doubt.append(i)
    return list(out.values()), np.array(doubt, dtype=np.intp)


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
    sets: KnownSets, kept: KeptStates, rows: CoordinateRows, log_density: FloatArray, share: FloatArray, total: int
) -> tuple[Excess, list[IntArray]]:
    """Shares of sets and nodes that are not kept without each row, less those with it; and such sets.

    A set of which a row's share is far larger than that of all rows is a step towards others, and looked at, too.
    """
    most = max(SCREENED // max(total * sets.free.size, 1), 1)
    nodes = int(min(NODES, most))
    queue: dict[int, tuple[float, Name]] = {
        sets.key(units): (np.inf, partial(np.copy, units))
        for units in _bases(sets, kept, share, max(most // nodes, 1))
    }
    done: set[int] = set()
    lists: list[WithOneMore] = []
    for _ in range(min(len(queue) + STEPS, max(most // nodes, 1))):
        waiting = [key for key in queue if key not in done]
        if not waiting:
            break
        key = max(waiting, key=lambda key: queue[key][0])
        done.add(key)
        lists.append(_neighbours(sets, queue[key][1](), rows, log_density, nodes, kept.pairs))
        for step, (value, name) in lists[-1].steps.items():
            if step not in queue or queue[step][0] < value:
                queue[step] = value, name
    row, pair = (np.concatenate([getattr(each, name) for each in lists]) for name in ("row", "pair"))
    order = np.lexsort((pair, row))
    again = (np.diff(row[order]) == 0) & (np.diff(pair[order]) == 0)
    first = order[np.append(True, ~again)[: order.size]]
    key, excess = (np.concatenate([getattr(each, name) for each in lists])[first] for name in ("key", "excess"))
    found = {key: units for each in lists for key, units in each.sets.items()}
    return Excess(row[first], key, excess), list(found.values())


def _bases(sets: KnownSets, kept: KeptStates, share: FloatArray, most: int) -> list[IntArray]:
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


def _without_one(sets: KnownSets, units: IntArray) -> list[IntArray]:
    return [units[units != j] for j in units[np.isin(units, sets.free)]]


@dataclass(frozen=True, slots=True)
class WithOneMore:
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
    steps : dict of int to (float, callable)
        Sets with much more of a row's prediction than of the posterior: the logarithm of this share, and what returns
        the set.
    """

    row: IntArray
    key: AnyArray
    pair: AnyArray
    excess: FloatArray
    sets: dict[int, IntArray]
    steps: dict[int, tuple[float, Name]]


def _with_one(units: IntArray, more: IntArray, one: int) -> IntArray:
    return np.sort(np.append(units, more[one]))


def _neighbours(
    sets: KnownSets, units: IntArray, rows: CoordinateRows, log_density: FloatArray, nodes: int, known: AnyArray
) -> WithOneMore:
    """Look at a set and all with one more unit; `known` are keys of sets and nodes, ascending."""
    own, every = sets.key(units), np.arange(sets.grid.log_g.size)
    at = sets.nodes(units, nodes)
    stands = every.size / at.size
    found: dict[int, tuple[float, Name]] = {}
    steps: dict[int, tuple[float, Name]] = {}
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
            of, whole = int(keys[one]), partial(name, one)
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
    return WithOneMore(row, key, pair, excess, {one: found[one][1]() for one in ordered}, steps)


def _among(keys: AnyArray, known: AnyArray) -> BoolArray:
    """Whether each of `keys` is one of `known`, which ascend."""
    out: BoolArray = known[np.minimum(np.searchsorted(known, keys), known.size - 1)] == keys
    return out


def _search(
    sets: KnownSets, kept: KeptStates, rows: CoordinateRows, left_out: FloatArray, first: list[IntArray]
) -> tuple[list[IntArray], FloatArray]:
    """Sets that have a share of the prediction of some of the rows, and the share (r,) that is left of neighbours."""
    found: dict[int, IntArray] = {}
    table, log_all = np.zeros((0, rows.y.size)), np.zeros((0, 1))

    def add(some: list[IntArray]) -> None:
        nonlocal table, log_all
        new = {key: units for units in some if (key := sets.key(units)) not in found}
        if not new:
            return
        found.update(new)
        weights = np.empty((len(new), rows.y.size))
        for which, log_new, _, _ in sets.densities_of_each(list(new.values()), rows):
            weights[which] = logsumexp(log_new.reshape(which.size, -1, rows.y.size), axis=1)
        table = np.concatenate([table, weights])
        in_posterior = logsumexp([sets.of(units)[2] for units in new.values()], axis=1, keepdims=True)
        log_all = np.concatenate([log_all, in_posterior])

    share = np.exp(-left_out - logsumexp(-left_out, axis=0)).max(axis=1) + kept.weight
    order = np.argsort(-share, kind="stable")
    distinct = dict.fromkeys(kept.key[order].tolist())
    at = dict(zip(kept.key[order][::-1].tolist(), order[::-1].tolist(), strict=True))
    most = int(np.clip(SEARCHED // (sets.grid.log_g.size * rows.y.size), 4 * SETS, MOST_KEPT))
    add([kept.units[at[key]] for key in list(distinct)[:most]])
    add(first[:NEW_SETS])
    done: set[int] = set()
    bases: set[int] = set()
    rest = np.full(rows.y.size, np.inf)
    looked_at = 0
    for _ in range(EXPANDED):
        total = logsumexp(table, axis=0)
        relative, keys = np.exp(table - total), list(found)
        open_ = np.array([[key not in done] for key in keys]) & (table - total - log_all > RAISED)
        # What is beyond sets whose neighbours were not looked at is about as much as these.
        rest = np.where(open_, relative, 0.0).sum(axis=0)
        settled = rest.max() < SETTLED or not (relative[open_] >= SETTLED / 10.0).any()
        if settled or looked_at > SEARCHED:
            break
        key = keys[int(np.argmax(np.where(open_, relative, -1.0).max(axis=1)))]
        done.add(key)
        known = np.sort((np.array(keys, dtype=np.uint64)[:, None] ^ sets.node_marks).ravel())
        new: dict[int, IntArray] = {}
        # Shares fall as sets are added: a second look at the neighbours of a set finds no more of them.
        around = [units for units in (found[key], *_without_one(sets, found[key])) if sets.key(units) not in bases]
        looked_at += len(around) * NODES * sets.free.size * rows.y.size
        for units in around:
            new |= _neighbours(sets, units, rows, -total, NODES, known).sets
        if len(new) <= NEW_SETS:
            bases |= {sets.key(units) for units in around}
        add(list(new.values())[:NEW_SETS])
    return list(found.values()), rest


def _put_together(
    kept: KeptStates,
    sets: KnownSets,
    rows: CoordinateRows,
    doubt: IntArray,
    more: list[IntArray],
    keys: AnyArray,
    found: LeftOut,
    given: Densities,
    share: FloatArray,
) -> Added:
    """Predictions of the rows in doubt with the sets `more`, of exact weights, in place of kept states of these."""
    other, left = ~np.isin(kept.key, keys), max(1.0 - sum(np.exp(sets.of(units)[2]).sum() for units in more), 0.0)
    stands = kept.weight @ other >= REPRESENTED * left
    weight = np.where(other | ~stands, kept.weight, 0.0)
    with np.errstate(divide="ignore"):
        log_w = np.log(weight * (left / max(weight.sum(), TINY)))[:, None] - given.left_out[:, doubt]
    pieces = [piece[1:] for piece in sets.densities_of_each(more, rows)]
    log_new = np.concatenate([piece[0] for piece in pieces])
    total = logsumexp(np.concatenate([log_w, log_new]), axis=0)
    log_lost = logsumexp(np.concatenate([piece[2] for piece in pieces]), axis=0)
    of_states, of_sets = np.exp(log_w - total), np.exp(log_new - total)
    rest, exact = share.copy(), np.zeros(share.shape[1])
    rest[:, doubt], exact[doubt] = of_states, of_sets.sum(axis=0)
    below, means = (np.concatenate([getattr(piece[1], name) for piece in pieces]) for name in ("below", "error"))
    below, means = (_sum(of_sets, new) for new in (below, means))
    states = (of_states**2 / np.where(kept.weight > 0, kept.weight, 1.0)[:, None]).sum(axis=0)
    values = {
        "log_density": -total,
        "efficiency": np.where(log_lost - total > np.log(UNRESOLVED), 0.0, 1.0 / np.maximum(states, 1.0)),
        "pit": np.clip(_sum(of_states, given.below[:, doubt]) + below, 0.0, 1.0),
        "error": _sum(of_states, given.error[:, doubt]) + means,
    }
    changed = {}
    for name, value in values.items():
        changed[name] = getattr(found, name).copy()
        changed[name][doubt] = value
    # Where no kept state is of another set, all kept ones stand for these.
    missing = np.zeros(exact.size) if stands else REPRESENTED * rest.sum(axis=0) * (exact > 0)
    return Added(replace(found, **changed), rest, exact, missing)


def _sum(share: FloatArray, values: FloatArray) -> FloatArray:
    return np.where(share > 0, share * np.where(share > 0, values, 0.0), 0.0).sum(axis=0)
