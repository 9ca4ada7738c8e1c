"""Results from the trace of a run: sets at chosen steps, the most probable sets, the evidence."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.sampler import Trace

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


def log_joint_of(problem: Problem, grid: Grid, units: IntArray) -> float:
    """Log p(y, A), summed over the nodes."""
    part = spectrum(problem, problem.units.columns(units))
    return float(logsumexp(log_joint(problem, grid, part, units)))


def evidence(problem: Problem, grid: Grid, trace: Trace) -> tuple[float, float]:
    """Log p(y) and its standard error, by sets that one half of the steps chooses and the other estimates."""
    steps = trace.key.shape[0]
    half = steps // 2
    if half < EVIDENCE_BATCHES:
        return np.nan, np.inf
    found = [
        _evidence(problem, grid, trace, (0, half), (half, steps)),
        _evidence(problem, grid, trace, (half, steps), (0, half)),
    ]
    value = np.array([f[0] for f in found])
    se = np.array([f[1] for f in found])
    if not np.isfinite(se).all():
        return np.nan, np.inf
    # The halves' sets are much the same, their estimates are of different steps.
    return float(value.mean()), float(max(0.5 * np.sqrt((se**2).sum()), 0.5 * np.ptp(value)))


def _evidence(
    problem: Problem, grid: Grid, trace: Trace, choose: tuple[int, int], use: tuple[int, int]
) -> tuple[float, float]:
    best = heaviest(trace, *choose, EVIDENCE_SETS)
    sets = sets_at(trace, [where for _, where, _ in best])
    joint = logsumexp([log_joint_of(problem, grid, sets[where]) for _, where, _ in best])
    weight = trace.weight[slice(*use)]
    inside = weight * np.isin(trace.key[slice(*use)], np.array([key for key, _, _ in best]))
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
