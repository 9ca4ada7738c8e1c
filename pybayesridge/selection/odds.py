"""Log odds that each column or group is in, given all others: of all chains at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.factor import Factor
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
    factors : list of C Factors
        Changed in place.
    reach, free : (C, d) arrays
        Their `reach` and `free`.
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
    factors: list[Factor]
    reach: FloatArray
    free: FloatArray
    node: IntArray
    n_in: IntArray
    state: np.ndarray
    max_columns: int


def new_chains(problem: Problem, grid: Grid, n_chains: int, max_columns: int) -> Chains:
    """Chains without a state yet."""
    layout = layout_of(problem)
    reach, free = np.empty((n_chains, problem.d)), np.empty((n_chains, problem.d))
    factors = [Factor(problem, reach[c], free[c], layout.columns) for c in range(n_chains)]
    nothing = np.zeros(n_chains, dtype=np.intp)
    state = np.zeros((n_chains, problem.units.n), dtype=bool)
    return Chains(problem, grid, layout, factors, reach, free, nothing, nothing.copy(), state, max_columns)


def log_odds(chains: Chains) -> FloatArray:
    """Log odds that each unit is in given the other units and g, (C, G)."""
    problem, layout = chains.problem, chains.layout
    k = chains.grid.k[chains.node]
    left = np.array([max(f.left, ROUNDING * problem.yy) for f in chains.factors])
    prior_out, prior_in = prior_odds(chains)
    if problem.units.single:
        out = _single_out(chains, chains.reach, chains.free, left, k)
        out += prior_out
    else:
        out = np.empty((k.size, problem.units.n))
        columns = layout.single_columns
        out[:, layout.single] = _single_out(chains, chains.reach[:, columns], chains.free[:, columns], left, k)
        for c, factor in enumerate(chains.factors):
            for units, columns, block in zip(layout.units, layout.columns, factor.blocks, strict=True):
                log_det, gain = eliminate(block, factor.reach[columns])
                change = 0.5 * columns.shape[1] * np.log(k[c]) - 0.5 * log_det
                out[c, units] = change + _likelihood(chains, c, 1.0 - gain / left[c], left[c])
        out += prior_out
        full = problem.units.sizes
        for c, factor in enumerate(chains.factors):
            out[c, full + factor.m > chains.max_columns] = -np.inf
    for c, factor in enumerate(chains.factors):
        if problem.units.single and factor.m >= chains.max_columns:
            out[c] = -np.inf
        _put_inside(chains, c, left[c], k[c], prior_in[c], out[c])
    return out


def prior_odds(chains: Chains) -> tuple[FloatArray, FloatArray]:
    """Prior log odds of units that are out, (C, 1) or (G,), and of those that are in, (C, 1) or (C, G)."""
    grid = chains.grid
    if grid.unit_odds is not None:
        return grid.unit_odds, np.broadcast_to(grid.unit_odds, chains.state.shape)
    out, inside = np.empty((chains.node.size, 1)), np.empty((chains.node.size, 1))
    for c, (m, node) in enumerate(zip(chains.n_in, chains.node, strict=True)):
        here = grid.log_size(int(m))[node]
        out[c] = grid.log_size(int(m) + 1)[node] - here if m < grid.n_units else -np.inf
        inside[c] = here - grid.log_size(int(m) - 1)[node] if m else 0.0
    return out, inside


def _single_out(chains: Chains, reach: FloatArray, free: FloatArray, left: FloatArray, k: FloatArray) -> FloatArray:
    """The change of the log likelihood by each single column, (C, G_1)."""
    grid, nu = chains.grid, chains.problem.nu
    out = reach * reach
    out /= free
    if grid.noise_var is None:
        out *= -1.0 / left[:, None]
        out += 1.0
        np.maximum(out, ROUNDING, out=out)
        np.log(out, out=out)
        out *= -0.5 * nu
    else:
        out *= 0.5 / grid.noise_var[chains.node][:, None]
    gain = np.log(free)
    gain *= -0.5
    out += gain
    out += 0.5 * np.log(k)[:, None]
    return out


def _likelihood(chains: Chains, c: int, share: FloatArray, left: float) -> FloatArray:
    """Gain of the log likelihood where R becomes `share` times `left`."""
    noise = chains.grid.noise_var
    if noise is None:
        return -0.5 * chains.problem.nu * np.log(np.maximum(share, ROUNDING))
    return 0.5 * (1.0 - share) * left / noise[chains.node[c]]


def _put_inside(chains: Chains, c: int, left: float, k: float, prior: FloatArray, out: FloatArray) -> None:
    """Replace the log odds of the units that are in."""
    factor, units = chains.factors[c], chains.problem.units
    if not factor.members:
        return
    coef, var = factor.inside()
    if units.single:
        inside = np.array(factor.members)
        gain = coef * coef / var
        log_det = np.log(var)
        sizes = np.ones(inside.size)
    else:
        inside = np.flatnonzero(chains.state[c])
        gain, log_det = _groups_inside(factor, units.of_column, inside, coef)
        sizes = units.sizes[inside].astype(float)
    change = 0.5 * (sizes * np.log(k) + log_det)
    own = prior[inside] if chains.grid.unit_odds is not None else prior
    out[inside] = own + change - _likelihood(chains, c, (left + gain) / left, left)


def _groups_inside(
    factor: Factor, of_column: IntArray, inside: IntArray, coef: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``b_J' V_J^-1 b_J`` and ``log|V_J|`` for each unit J that is in, V = M^-1."""
    unit = of_column[np.array(factor.members)]
    gain, log_det = np.empty(inside.size), np.empty(inside.size)
    for i, j in enumerate(inside):
        at = np.flatnonzero(unit == j)
        lower = np.linalg.cholesky(factor.inverse(at))
        half = np.linalg.solve(lower, coef[at])
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
