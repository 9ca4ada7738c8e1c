"""What follows from the states at the passes: the most probable sets, the number of units in, the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joints_by_size, spectra_by_size
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.light import Visits
from pybayesridge.selection.problem import Problem

EVIDENCE_SETS = 200
"""Sets whose posterior probability is compared with their joint density."""

MOST_UNITS = 4_000_000
"""Units in, of all states that are held: beyond, every second state is dropped."""

MOST_STATES = 400_000


@dataclass(frozen=True, slots=True)
class Trace:
    """States, walker by walker, in the order of their passes; each counts the same.

    Attributes
    ----------
    units : (total,) int array
        The units in of state i, ascending, are ``units[start[i] : start[i + 1]]``.
    start : (N + 1,) int array
    node, walker : (N,) int arrays
    key : (N,) uint64 array
        Equal for equal sets.
    """

    units: IntArray
    start: IntArray
    node: IntArray
    walker: IntArray
    key: AnyArray

    @property
    def n(self) -> int:
        """Number of states."""
        return int(self.node.size)

    @property
    def sizes(self) -> IntArray:
        """Number of units in, (N,)."""
        return np.diff(self.start)

    def thinned(self, most: int) -> Trace:
        """At most so many states, evenly."""
        if self.n <= most:
            return self
        kept = np.zeros(self.n, dtype=bool)
        kept[:: -(-self.n // most)] = True
        sizes, units = self.sizes, np.repeat(kept, self.sizes)
        start = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.intp)
        return Trace(self.units[units], start, self.node[kept], self.walker[kept], self.key[kept])

    def set_of(self, i: int) -> IntArray:
        """Units of state i."""
        return self.sets_of(np.array([i]))[0]

    def sets_of(self, chosen: IntArray) -> list[IntArray]:
        """Units of several states."""
        return sorted_sets(self.units, self.start, chosen)


def sorted_sets(units: AnyArray, start: IntArray, chosen: IntArray) -> list[IntArray]:
    """``units[start[i] : start[i + 1]]``, ascending, for each i of `chosen`."""
    sizes = start[chosen + 1] - start[chosen]
    ends = np.cumsum(sizes)
    found = units[np.repeat(start[chosen] - (ends - sizes), sizes) + np.arange(sizes.sum())].astype(np.intp)
    found = found[np.lexsort((found, np.repeat(np.arange(chosen.size), sizes)))]
    return [found[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]


class Recorder:
    """The states of all walkers since the last stretches began, thinned as they become too many; changed in place."""

    __slots__ = ("_held", "_parts", "_seen", "_states", "every", "n_walkers")

    def __init__(self, n_walkers: int) -> None:
        self.n_walkers, self.every = n_walkers, 1
        self.forget()

    def forget(self) -> None:
        """Drop all states."""
        self._parts: list[list[tuple[IntArray, Visits]]] = [[] for _ in range(self.n_walkers)]
        self._seen = [0] * self.n_walkers
        self._held = self._states = 0

    def add(self, walker: int, visits: Visits, kept: BoolArray | None = None) -> None:
        """Add the states of some passes, those of `kept` (T,)."""
        numbers = self._seen[walker] + np.arange(visits.size.size)
        self._seen[walker] += visits.size.size
        chosen = numbers % self.every == 0
        self._parts[walker].append(_some(numbers, visits, chosen if kept is None else chosen & kept))
        self._count(self._parts[walker][-1:])
        while self._held > MOST_UNITS or self._states > MOST_STATES:
            self.every *= 2
            self._parts = [
                [_some(numbers, visits, numbers % self.every == 0) for numbers, visits in parts]
                for parts in self._parts
            ]
            self._held = self._states = 0
            for parts in self._parts:
                self._count(parts)

    def _count(self, parts: list[tuple[IntArray, Visits]]) -> None:
        self._held += sum(visits.units.size for _, visits in parts)
        self._states += sum(visits.size.size for _, visits in parts)

    def after(self, lead: int) -> Trace:
        """The states after the first `lead` passes of each walker; all, if there are none."""
        found: list[tuple[int, Visits]] = []
        for walker, parts in enumerate(self._parts):
            found += [(walker, _some(numbers, visits, numbers >= lead)[1]) for numbers, visits in parts]
        if not sum(visits.size.size for _, visits in found):
            found = [(walker, visits) for walker, parts in enumerate(self._parts) for _, visits in parts]
        size = np.concatenate([visits.size for _, visits in found])
        return Trace(
            units=np.concatenate([visits.units for _, visits in found]),
            start=np.concatenate([[0], np.cumsum(size)]).astype(np.intp),
            node=np.concatenate([visits.node for _, visits in found]).astype(np.intp),
            walker=np.concatenate([np.full(visits.size.size, walker, dtype=np.intp) for walker, visits in found]),
            key=np.concatenate([visits.key for _, visits in found]),
        )


def _some(numbers: IntArray, visits: Visits, chosen: BoolArray) -> tuple[IntArray, Visits]:
    """Some of the states, with their numbers."""
    if chosen.all():
        return numbers, visits
    units = visits.units[np.repeat(chosen, visits.size)]
    return numbers[chosen], Visits(units, visits.size[chosen], visits.node[chosen], visits.key[chosen])


def heaviest(trace: Trace, chosen: IntArray, most: int) -> list[tuple[np.uint64, int, float]]:
    """Key, a state, and the share of the sets that are most frequent among the states `chosen`."""
    unique, where, count = np.unique(trace.key[chosen], return_index=True, return_counts=True)
    order = np.argsort(-count, kind="stable")[:most]
    return [(unique[i], int(chosen[where[i]]), float(count[i]) / chosen.size) for i in order]


def log_joints(problem: Problem, grid: Grid, sets: Sequence[IntArray]) -> FloatArray:
    """Log p(y, A) of several sets of units, summed over the nodes, (S,)."""
    units = list({units.tobytes(): units for units in sets}.values())
    parts, value = spectra_by_size(problem, [problem.units.columns(each) for each in units]), np.empty(len(units))
    for some, joint, _ in log_joints_by_size(problem, grid, parts, units):
        value[some] = logsumexp(joint, axis=1)
    found = {each.tobytes(): float(one) for each, one in zip(units, value, strict=True)}
    return np.array([found[each.tobytes()] for each in sets])


def evidence(problem: Problem, grid: Grid, trace: Trace) -> tuple[float, float]:
    """Log p(y) and its standard error, by sets that half of the walkers choose and the others estimate."""
    halves = [np.flatnonzero(trace.walker % 2 == part) for part in (0, 1)]
    if min(half.size for half in halves) == 0:
        return np.nan, np.inf
    best = [_often(heaviest(trace, half, EVIDENCE_SETS), half.size) for half in halves]
    found = []
    for use, some in zip(halves[::-1], best, strict=True):
        joint = float(logsumexp(log_joints(problem, grid, trace.sets_of(np.array([at for _, at, _ in some])))))
        found.append(_evidence(trace, use, [key for key, _, _ in some], joint))
    value, se = np.array(found).T
    if not np.isfinite(se).all():
        return np.nan, np.inf
    # The halves' sets are much the same, their estimates are of different walkers.
    return float(value.mean()), float(max(0.5 * np.sqrt((se**2).sum()), 0.5 * np.ptp(value)))


def _often(sets: list[tuple[np.uint64, int, float]], n_states: int) -> list[tuple[np.uint64, int, float]]:
    """Those that more than one state has, if there are any: the others hardly recur, and large ones take time."""
    return [one for one in sets if one[2] * n_states > 1.5] or sets


def _evidence(trace: Trace, use: IntArray, keys: list[np.uint64], joint: float) -> tuple[float, float]:
    """Log p(y) and its error, by the log joint density of some sets and their share of the states `use`."""
    inside = np.isin(trace.key[use], np.array(keys))
    walkers, of = np.unique(trace.walker[use], return_inverse=True)
    numer, denom = np.bincount(of, inside), np.bincount(of).astype(float)
    share = float(numer.sum() / denom.sum())
    if share <= 0 or walkers.size < 2:
        return np.nan, np.inf
    gap = numer - share * denom
    variance = (gap**2).sum() * gap.size / (gap.size - 1) / denom.sum() ** 2
    # Walkers that hardly ever left these sets do not show how often they do: once more is as likely as not.
    few = share * (1.0 - share) / use.size + 1.0 / use.size**2
    return float(joint - np.log(share)), float(np.sqrt(max(variance, few))) / share


def size_distribution(trace: Trace) -> FloatArray:
    """Posterior probabilities of 0, 1, ... units in."""
    count = np.bincount(trace.sizes)
    return count / count.sum()
