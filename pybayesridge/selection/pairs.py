"""Inclusion probabilities given all columns but a correlated pair: less noise where one stands in for the other.

A chain that has one of two correlated columns in says 1 for it and 0 for the other. Given all columns but these two,
the probabilities of the four sets are known, and their averages have less Monte Carlo error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.odds import ROUNDING, Chains
from pybayesridge.selection.problem import Problem

MOST_PAIRS = 48
"""Columns at most that look for a partner."""

LEAST_CORRELATION = 0.5

LEAST_VARIANCE = 1e-3
"""Columns whose inclusion is more certain than this have no partner."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Columns, their partners, and their cross-products, each (K,)."""

    column: IntArray
    partner: IntArray
    cross: FloatArray


def correlated_pairs(problem: Problem, prob: FloatArray) -> Pairs | None:
    """The undecided columns in pairs, each with the most probable column that is correlated with it and still free.

    A column and its partner stand in both orders: what one of them gains the other loses, so that sums of
    probabilities over correlated columns are no less precise.

    Parameters
    ----------
    problem : Problem
        Without groups.
    prob : (d,) array
        Inclusion probabilities as far as they are known; columns with 0 or 1 are in no pair.
    """
    if not problem.units.single:
        return None
    variance = prob * (1.0 - prob)
    order = np.argsort(-variance, kind="stable")[:MOST_PAIRS]
    columns, partners, cross = [], [], []
    taken = variance <= 0
    for j in order[variance[order] >= LEAST_VARIANCE].tolist():
        products = problem.column(j)
        near = products**2 >= LEAST_CORRELATION**2 * problem.diag * problem.diag[j]
        near[taken | (problem.diag <= 0)] = False
        near[j] = False
        if not taken[j] and near.any():
            at = np.flatnonzero(near)
            k = int(at[prob[at].argmax()])
            columns += [j, k]
            partners += [k, j]
            cross += [float(products[k])] * 2
            taken[[j, k]] = True
    if not columns:
        return None
    return Pairs(np.array(columns, dtype=np.intp), np.array(partners, dtype=np.intp), np.array(cross))


def pair_probabilities(chains: Chains, pairs: Pairs, odds: FloatArray) -> FloatArray:
    """Probability of each pair's column given all columns but the pair, (C, K).

    Parameters
    ----------
    chains : Chains
    pairs : Pairs
    odds : (C, d) array
        Log odds of each column given all others.
    """
    factors = chains.factors
    left = np.maximum(factors.left(), ROUNDING * chains.problem.yy)
    # Log posterior of the column alone, the partner alone and both, less that of neither.
    own, other = odds[:, pairs.column], odds[:, pairs.partner]
    both = own + _partner_joins(chains, pairs, left)
    column_in, partner_in = chains.state[:, pairs.column], chains.state[:, pairs.partner]
    chain, i = np.nonzero(column_in ^ partner_in)
    if chain.size:
        first = column_in[chain, i]
        inside = np.where(first, pairs.column[i], pairs.partner[i])
        outside = np.where(first, pairs.partner[i], pairs.column[i])
        both[chain, i] = own[chain, i] + other[chain, i]
        instead = _instead(chains, chain, inside, outside, left)
        own[chain, i] = np.where(first, own[chain, i], instead)
        other[chain, i] = np.where(first, instead, other[chain, i])
    for c, i in zip(*np.nonzero(column_in & partner_in), strict=True):
        both[c, i] = _both_in(chains, int(c), int(pairs.column[i]), int(pairs.partner[i]), float(left[c]))
        own[c, i], other[c, i] = both[c, i] - other[c, i], both[c, i] - own[c, i]
    top = np.maximum(np.maximum(own, other), np.maximum(both, 0.0))
    with_column = np.exp(own - top) + np.exp(both - top)
    return with_column / (with_column + np.exp(other - top) + np.exp(-top))


def _partner_joins(chains: Chains, pairs: Pairs, left: FloatArray) -> FloatArray:
    """Log odds of the partner if the column were in and both are out, (C, K)."""
    factors = chains.factors
    own = np.arange(factors.member.shape[1]) < factors.n_columns[:, None]
    h = factors.whole[:, :, pairs.column] * own[:, :, None]
    mixed = pairs.cross - np.einsum("cmk,cmk->ck", h, factors.whole[:, :, pairs.partner])
    reach, free = factors.reach[:, pairs.column], factors.free[:, pairs.column]
    k = factors.k[:, None]
    before = np.maximum(left[:, None] - reach**2 / free, ROUNDING * left[:, None])
    its_free = np.maximum(factors.free[:, pairs.partner] - mixed**2 / free, k)
    its_reach = factors.reach[:, pairs.partner] - mixed * reach / free
    every = np.arange(k.size)
    gain = _gain(chains, every[:, None], before, its_reach**2 / its_free)
    return gain + 0.5 * np.log(k / its_free) + _prior(chains, every, pairs.partner, 1)


def _instead(chains: Chains, chain: IntArray, inside: IntArray, outside: IntArray, left: FloatArray) -> FloatArray:
    """Log odds of columns that are out, each in place of one that is in, against neither, (a,)."""
    factors, d = chains.factors, chains.problem.d
    at = (factors.member[chain] == inside[:, None]) & (
        np.arange(factors.member.shape[1]) < factors.n_columns[chain][:, None]
    )
    w = factors.whole[chain, :, d + 1 + at.argmax(axis=1)]
    length = np.sqrt(np.einsum("ai,ai->a", w, w))
    # The last row of the factorisation, if the column that is in were the last to come.
    z = np.einsum("ai,ai->a", w, factors.z[chain]) / length
    row = np.einsum("ai,ai->a", w, factors.whole[chain, :, outside]) / length
    free = factors.free[chain, outside] + row**2
    reach = factors.reach[chain, outside] + row * z
    gain = _gain(chains, chain, left[chain] + z**2, reach**2 / free)
    return gain + 0.5 * np.log(factors.k[chain] / free) + _prior(chains, chain, outside, -1)[:, 0]


def _both_in(chains: Chains, c: int, j: int, k: int, left: float) -> float:
    """Log odds of both columns, which are in, against neither."""
    factors = chains.factors
    members = factors.members[c]
    at = np.array([members.index(j), members.index(k)])
    inverse = factors.inverse(c, at)
    coef = factors.z[c] @ factors.w[c][:, at]
    less = float(coef @ np.linalg.solve(inverse, coef))
    gain = _gain(chains, np.array([c]), np.array([left + less]), np.array([less]))
    log_det = float(np.log(inverse[0, 0] * inverse[1, 1] - inverse[0, 1] ** 2))
    prior = _prior(chains, np.array([c]), np.array([j]), -1) + _prior(chains, np.array([c]), np.array([k]), -2)
    return float(gain[0] + 0.5 * log_det + np.log(factors.k[c]) + prior[0, 0])


def _gain(chains: Chains, chain: IntArray, left: FloatArray, less: FloatArray) -> FloatArray:
    """Change of the log likelihood where R is `left` and becomes smaller by `less`."""
    noise = chains.grid.noise_var
    if noise is None:
        return -0.5 * chains.problem.nu * np.log(np.maximum(1.0 - less / left, ROUNDING))
    return 0.5 * less / noise[chains.node][chain]


def _prior(chains: Chains, chain: IntArray, columns: IntArray, more: int) -> FloatArray:
    """Log prior odds of a column that joins a set with `more` columns than there are in, (a, 1) or (a, K).

    Where the probabilities are given, (a, K) or, for as many columns as chains, (a, 1).
    """
    grid = chains.grid
    if grid.unit_odds is not None:
        odds = grid.unit_odds[columns]
        return odds[:, None] if more < 0 else np.broadcast_to(odds, (chain.size, columns.size))
    value = np.zeros(chains.node.size)
    for c, (m, node) in enumerate(zip(chains.n_in.tolist(), chains.node.tolist(), strict=True)):
        if 0 <= m + more < grid.n_units:
            value[c] = grid.log_size(m + more + 1)[node] - grid.log_size(m + more)[node]
    return value[chain][:, None]
