"""Log odds that each column or group is in, given all others: of all chains at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.selection.factor import Factors
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem

LARGEST = 600.0
"""Log odds beyond this are as good as certain; their exponentials stay finite."""

ROUNDING = 1e-15
"""The share of R that a column leaves is positive."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The units by their number of columns.

    Attributes
    ----------
    units : list of (G_b,) int arrays
        Units of each size b > 1.
    columns : list of (G_b, b) int arrays
    single : (G_1,) int array
        Units of one column, and their columns in `single_columns`.
    """

    units: list[IntArray]
    columns: list[IntArray]
    single: IntArray
    single_columns: IntArray


def layout_of(problem: Problem) -> Layout:
    """Sort the units by size."""
    units = problem.units
    sizes = units.sizes
    classes = [np.flatnonzero(sizes == b) for b in np.unique(sizes) if b > 1]
    columns = [np.stack([units.members(int(j)) for j in members]) for members in classes]
    single = np.flatnonzero(sizes == 1)
    return Layout(classes, columns, single, units.order[units.start[single]])


@dataclass(frozen=True, slots=True)
class Chains:
    """The common quantities of all chains, and their states.

    Attributes
    ----------
    problem, grid, layout
    factors : Factors
        Changed in place, as the arrays that follow.
    node : (C,) int array
        Node of the grid.
    n_in : (C,) int array
        Units in.
    state : (C, G) bool array
        Which.
    max_columns : int
        Sets with more columns are not visited.
    """

    problem: Problem
    grid: Grid
    layout: Layout
    factors: Factors
    node: IntArray
    n_in: IntArray
    state: BoolArray
    max_columns: int


def new_chains(problem: Problem, grid: Grid, n_chains: int, max_columns: int) -> Chains:
    """Chains without a state yet."""
    layout = layout_of(problem)
    return Chains(
        problem,
        grid,
        layout,
        Factors(problem, n_chains, layout.columns),
        np.zeros(n_chains, dtype=np.intp),
        np.zeros(n_chains, dtype=np.intp),
        np.zeros((n_chains, problem.units.n), dtype=bool),
        max_columns,
    )


def near_limit(chains: Chains) -> bool:
    """Whether some unit would make a set too large."""
    if chains.max_columns >= chains.problem.d:
        return False
    return bool(chains.factors.n_columns.max() + chains.problem.units.sizes.max() > chains.max_columns)


@dataclass(frozen=True, slots=True)
class Odds:
    """Log odds, and where those of units that are in stand.

    Attributes
    ----------
    value : (C, G) array
        Log odds that each unit is in given the other units and g; -inf where it would make the set too large.
    chain, unit : (T,) int arrays
        The units that are in, of all chains.
    """

    value: FloatArray
    chain: IntArray
    unit: IntArray


def log_odds(chains: Chains) -> Odds:
    """Log odds of all units in all chains."""
    problem, layout, factors = chains.problem, chains.layout, chains.factors
    left = np.maximum(factors.left(), ROUNDING * problem.yy)
    prior_out, prior_in = prior_odds(chains)
    if problem.units.single:
        out = _single_out(chains, factors.reach, factors.free, left)
    else:
        out = np.empty(chains.state.shape)
        columns = layout.single_columns
        out[:, layout.single] = _single_out(chains, factors.reach[:, columns], factors.free[:, columns], left)
        for units, columns, blocks in zip(layout.units, layout.columns, factors.blocks, strict=True):
            for c in range(left.size):
                log_det, gain = eliminate(blocks[c], factors.reach[c, columns])
                change = 0.5 * columns.shape[1] * np.log(factors.k[c]) - 0.5 * log_det
                out[c, units] = change + _likelihood(chains, c, 1.0 - gain / left[c], left[c])
    out += prior_out
    if near_limit(chains):
        out[problem.units.sizes + factors.n_columns[:, None] > chains.max_columns] = -np.inf
    chain, unit = _put_inside(chains, left, prior_in, out)
    return Odds(out, chain, unit)


def prior_odds(chains: Chains) -> tuple[FloatArray, FloatArray]:
    """Prior log odds of units that are out, (C, 1) or (G,), and of those that are in, (C, 1) or (C, G)."""
    grid = chains.grid
    if grid.unit_odds is not None:
        return grid.unit_odds, np.broadcast_to(grid.unit_odds, chains.state.shape)
    out, inside = np.empty((chains.node.size, 1)), np.empty((chains.node.size, 1))
    for c, (m, node) in enumerate(zip(chains.n_in.tolist(), chains.node.tolist(), strict=True)):
        out[c, 0], inside[c, 0] = grid.size_odds(m, node)
    return out, inside


def _single_out(chains: Chains, reach: FloatArray, free: FloatArray, left: FloatArray) -> FloatArray:
    """The change of the log likelihood by each single column, (C, G_1)."""
    grid, nu = chains.grid, chains.problem.nu
    out = reach * reach
    out /= free
    if grid.noise_var is None:
        out *= (-1.0 / left)[:, None]
        out += 1.0
        np.maximum(out, ROUNDING, out=out)
        np.log(out, out=out)
        out *= -0.5 * nu
    else:
        out *= (0.5 / grid.noise_var[chains.node])[:, None]
    gain = np.log(free)
    gain *= -0.5
    gain += (0.5 * np.log(chains.factors.k))[:, None]
    out += gain
    return out


def _likelihood(chains: Chains, c: int | IntArray, share: FloatArray, left: FloatArray) -> FloatArray:
    """Gain of the log likelihood where R becomes `share` times `left`."""
    noise = chains.grid.noise_var
    if noise is None:
        return -0.5 * chains.problem.nu * np.log(np.maximum(share, ROUNDING))
    return 0.5 * (1.0 - share) * left / noise[chains.node[c]]


def _put_inside(chains: Chains, left: FloatArray, prior: FloatArray, out: FloatArray) -> tuple[IntArray, IntArray]:
    """Replace the log odds of the units that are in; these, as chains and units."""
    factors = chains.factors
    coef, var = factors.inside()
    if chains.problem.units.single:
        mask = np.arange(coef.shape[1]) < chains.n_in[:, None]
        chain = mask.nonzero()[0]
        unit = factors.member[mask]
        one, log_k = var[mask], np.log(factors.k)[chain]
        gain, log_det = coef[mask] ** 2 / one, np.log(one)
    else:
        chain, unit = chains.state.nonzero()
        gain, log_det = _groups_inside(chains, chain, unit, coef)
        log_k = np.log(factors.k)[chain] * chains.problem.units.sizes[unit]
    own = prior[chain, 0] if chains.grid.unit_odds is None else prior[chain, unit]
    base = left[chain]
    out[chain, unit] = own + 0.5 * (log_k + log_det) - _likelihood(chains, chain, (base + gain) / base, base)
    return chain, unit


def _groups_inside(
    chains: Chains, chain: IntArray, unit: IntArray, coef: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``b_J' V_J^-1 b_J`` and ``log|V_J|`` for each unit J that is in, V = M^-1."""
    of_column = chains.problem.units.of_column
    owner = [of_column[np.array(members, dtype=np.intp)] for members in chains.factors.members]
    gain, log_det = np.empty(unit.size), np.empty(unit.size)
    for i, (c, j) in enumerate(zip(chain, unit, strict=True)):
        at = np.flatnonzero(owner[c] == j)
        lower = np.linalg.cholesky(chains.factors.inverse(c, at))
        half = np.linalg.solve(lower, coef[c, at])
        gain[i], log_det[i] = half @ half, 2.0 * np.log(np.diag(lower)).sum()
    return gain, log_det


def eliminate(blocks: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``log|S|`` and ``r'S^-1 r`` of many small positive definite S (G, b, b) and r (G, b), each (G,)."""
    rest = np.concatenate([blocks, right[:, :, None]], axis=2)
    log_det, gain = np.zeros(right.shape[0]), np.zeros(right.shape[0])
    for _ in range(right.shape[1]):
        pivot = rest[:, 0, 0]
        log_det += np.log(pivot)
        gain += rest[:, 0, -1] ** 2 / pivot
        rest = rest[:, 1:, 1:] - (rest[:, 1:, 0] / pivot[:, None])[:, :, None] * rest[:, None, 0, 1:]
    return log_det, gain


def group_coefficients(chains: Chains, left: FloatArray, coef: FloatArray, var: FloatArray, rest: FloatArray) -> None:
    """Put in means, variances (in units of s2) and R, each (C, d), if a column's group were in."""
    factors = chains.factors
    for columns, blocks in zip(chains.layout.columns, factors.blocks, strict=True):
        inverse = np.linalg.inv(blocks)
        reach = factors.reach[:, columns]
        b = np.einsum("cgij,cgj->cgi", inverse, reach)
        coef[:, columns] = b
        var[:, columns] = np.einsum("cgii->cgi", inverse)
        rest[:, columns] = left[:, :, None] - np.einsum("cgi,cgi->cg", b, reach)[..., None]
