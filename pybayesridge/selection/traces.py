"""Results from the trace of a run: sets at chosen steps, the most probable sets, the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joint, spectra
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.walk import Trace

EVIDENCE_SETS = 200
"""Sets whose posterior probability is compared with their joint density."""

EVIDENCE_BATCHES = 12


def sets_at(trace: Trace, positions: Iterable[tuple[int, int]]) -> dict[tuple[int, int], IntArray]:
    """The units in at (step, chain)."""
    out: dict[tuple[int, int], IntArray] = {}
    by_chain: dict[int, list[int]] = {}
    for t, c in positions:
        by_chain.setdefault(c, []).append(t)
    for c, steps in by_chain.items():
        now, at = set(trace.starts[c].tolist()), 0
        flips = trace.flipped[:, c].tolist()
        for t in sorted(set(steps)):
            for j in flips[at:t]:
                now.symmetric_difference_update((j,))
            at = t
            out[t, c] = np.array(sorted(now), dtype=np.intp)
    return out


def heaviest(trace: Trace, first: int, last: int, most: int) -> list[tuple[np.uint64, tuple[int, int], float]]:
    """Key, a (step, chain) and the share of the weight of the sets with most of it, over steps `first` to `last`."""
    key, weight = trace.key[first:last].ravel(), trace.weight[first:last].ravel()
    unique, where, inverse = np.unique(key, return_index=True, return_inverse=True)
    share = np.bincount(inverse.reshape(-1), weight) / weight.sum()
    n_chains = trace.key.shape[1]
    order = np.argsort(-share, kind="stable")[:most]
    return [
        (unique[i], (first + int(where[i]) // n_chains, int(where[i]) % n_chains), float(share[i])) for i in order
    ]


def log_joints(problem: Problem, grid: Grid, sets: Sequence[IntArray]) -> FloatArray:
    """Log p(y, A) of several sets of units, summed over the nodes, (S,)."""
    different = {units.tobytes(): units for units in sets}
    parts = spectra(problem, [problem.units.columns(units) for units in different.values()])
    found = {}
    for (key, units), part in zip(different.items(), parts, strict=True):
        at_nodes = log_joint(problem, grid, part, units)
        top = at_nodes.max()
        found[key] = top + np.log(np.exp(at_nodes - top).sum())
    return np.array([found[units.tobytes()] for units in sets])


def evidence(problem: Problem, grid: Grid, trace: Trace) -> tuple[float, float]:
    """Log p(y) and its standard error, by sets that one half of the steps chooses and the other estimates."""
    steps = trace.key.shape[0]
    half = steps // 2
    if half < EVIDENCE_BATCHES:
        return np.nan, np.inf
    halves: tuple[tuple[int, int], tuple[int, int]] = ((0, half), (half, steps))
    best = [heaviest(trace, first, last, EVIDENCE_SETS) for first, last in halves]
    sets = [sets_at(trace, [where for _, where, _ in some]) for some in best]
    joint = log_joints(
        problem, grid, [own[where] for some, own in zip(best, sets, strict=True) for _, where, _ in some]
    )
    parts = np.split(joint, [len(best[0])])
    found = [
        _evidence(trace, use, [key for key, _, _ in some], float(logsumexp(own)))
        for use, some, own in zip(halves[::-1], best, parts, strict=True)
    ]
    value = np.array([f[0] for f in found])
    se = np.array([f[1] for f in found])
    if not np.isfinite(se).all():
        return np.nan, np.inf
    # The halves' sets are much the same, their estimates are of different steps.
    return float(value.mean()), float(max(0.5 * np.sqrt((se**2).sum()), 0.5 * np.ptp(value)))


def _evidence(trace: Trace, use: tuple[int, int], keys: list[np.uint64], joint: float) -> tuple[float, float]:
    """Log p(y) and its error, by the log joint density of some sets and their share of the steps `use`."""
    weight = trace.weight[slice(*use)]
    inside = weight * np.isin(trace.key[slice(*use)], np.array(keys))
    parts = np.array_split(np.arange(weight.shape[0]), EVIDENCE_BATCHES)
    numer = np.array([inside[p].sum(axis=0) for p in parts])
    denom = np.array([weight[p].sum(axis=0) for p in parts])
    share = float(numer.sum() / denom.sum())
    if share <= 0:
        return np.nan, np.inf
    gap = numer - share * denom
    variance = (gap**2).sum() * gap.size / (gap.size - 1) / denom.sum() ** 2
    return float(joint - np.log(share)), float(np.sqrt(variance)) / share


def size_distribution(trace: Trace, n_units: int) -> FloatArray:
    """Posterior probabilities of 0, 1, ... units in."""
    sizes = np.empty(trace.key.shape, dtype=np.intp)
    for c, start in enumerate(trace.starts):
        now = np.zeros(n_units, dtype=bool)
        now[start] = True
        change = _changes(now, trace.flipped[:, c])
        sizes[:, c] = start.size + np.concatenate([[0], np.cumsum(change)[:-1]])
    weight = np.bincount(sizes.ravel(), trace.weight.ravel())
    return weight / weight.sum()


def _changes(inside: np.ndarray, flipped: IntArray) -> IntArray:
    """+1 where a flip lets a unit in, -1 where it takes one out."""
    out = np.empty(flipped.size, dtype=np.intp)
    order = np.argsort(flipped, kind="stable")
    unit = flipped[order]
    first = np.concatenate([[True], unit[1:] != unit[:-1]])
    run = np.arange(unit.size) - np.maximum.accumulate(np.where(first, np.arange(unit.size), 0))
    out[order] = np.where((run + inside[unit]) % 2 == 0, 1, -1)
    return out
