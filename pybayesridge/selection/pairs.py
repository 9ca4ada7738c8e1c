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
    """Columns, their partners, and their cross-products, each (K,); `all` is both, one after the other, (2 K,)."""

    column: IntArray
    partner: IntArray
    cross: FloatArray
    all: IntArray


def correlated_pairs(problem: Problem, prob: FloatArray) -> Pairs | None:
    """The undecided columns in pairs, each with the most probable column that is correlated with it and still free.

    Both take part in the averages: what one of them gains the other loses, so that sums of probabilities over
    correlated columns are no less precise.

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
            columns.append(j)
            partners.append(k)
            cross.append(float(products[k]))
            taken[[j, k]] = True
    if not columns:
        return None
    column, partner = np.array(columns, dtype=np.intp), np.array(partners, dtype=np.intp)
    return Pairs(column, partner, np.array(cross), np.concatenate([column, partner]))


def pair_probabilities(chains: Chains, pairs: Pairs, odds: FloatArray) -> FloatArray:
    """Probability of each pair's columns given all columns but the pair, (C, 2 K), in the order of ``pairs.all``.

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
    chain, i = np.nonzero(column_in & partner_in)
    if chain.size:
        pair = _both_in(chains, chain, pairs.column[i], pairs.partner[i], left)
        both[chain, i] = pair
        own[chain, i], other[chain, i] = pair - other[chain, i], pair - own[chain, i]
    top = np.maximum(np.maximum(own, other), np.maximum(both, 0.0))
    column, partner, two = np.exp(own - top), np.exp(other - top), np.exp(both - top)
    total = column + partner + two + np.exp(-top)
    return np.concatenate([(column + two) / total, (partner + two) / total], axis=1)


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
    factors = chains.factors
    w = _columns_of_w(chains, chain, inside)
    length = np.sqrt(np.einsum("ai,ai->a", w, w))
    # The last row of the factorisation, if the column that is in were the last to come.
    z = np.einsum("ai,ai->a", w, factors.z[chain]) / length
    row = np.einsum("ai,ai->a", w, factors.whole[chain, :, outside]) / length
    free = factors.free[chain, outside] + row**2
    reach = factors.reach[chain, outside] + row * z
    gain = _gain(chains, chain, left[chain] + z**2, reach**2 / free)
    return gain + 0.5 * np.log(factors.k[chain] / free) + _prior(chains, chain, outside, -1)[:, 0]


def _both_in(chains: Chains, chain: IntArray, column: IntArray, partner: IntArray, left: FloatArray) -> FloatArray:
    """Log odds of both of two columns, which are in, against neither, (a,)."""
    factors = chains.factors
    z = factors.z[chain]
    first, second = _columns_of_w(chains, chain, column), _columns_of_w(chains, chain, partner)
    size = np.einsum("ai,ai->a", first, first)
    # What the second has beyond the first: M^-1 of near copies is nearly singular, and its determinant would cancel.
    second -= (np.einsum("ai,ai->a", first, second) / size)[:, None] * first
    its_size = np.einsum("ai,ai->a", second, second)
    less = np.einsum("ai,ai->a", first, z) ** 2 / size + np.einsum("ai,ai->a", second, z) ** 2 / its_size
    gain = _gain(chains, chain, left[chain] + less, less)
    prior = _prior(chains, chain, column, -1) + _prior(chains, chain, partner, -2)
    return gain + 0.5 * np.log(size * its_size) + np.log(factors.k[chain]) + prior[:, 0]


def _columns_of_w(chains: Chains, chain: IntArray, inside: IntArray) -> FloatArray:
    """The columns of W that belong to columns that are in, (a, cap)."""
    factors = chains.factors
    own = np.arange(factors.member.shape[1]) < factors.n_columns[chain][:, None]
    at = ((factors.member[chain] == inside[:, None]) & own).argmax(axis=1)
    return factors.whole[chain, :, chains.problem.d + 1 + at]


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
            value[c] = grid.size_odds(m + more, node)[0]
    return value[chain][:, None]
