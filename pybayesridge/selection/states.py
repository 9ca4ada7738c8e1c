"""States of the posterior that are kept: sets of columns, g, t, and the conditional posterior of the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.units import Units
from pybayesridge.selection.collapsed import SetSpectrum, inverse_root, left_over, log_joints_by_size, spectra
from pybayesridge.selection.grid import Grid, quantiles_of_t
from pybayesridge.selection.problem import Problem

MAX_STATES = 4000
"""States that are kept."""

MAX_ROOTS = 4_000_000
"""Numbers in the square roots of all kept states: fewer states are kept of large sets."""

NEGLIGIBLE = 1e-9
"""Posterior probability that may be left out."""


@dataclass(frozen=True, slots=True)
class States:
    """S weighted states. Given a state and s2, the coefficients of its m columns are N(coef, s2 root root').

    Attributes
    ----------
    columns : (total,) int array
        The columns of state i are ``columns[start[i] : start[i + 1]]``.
    start : (S + 1,) int array
    weight : (S,) array
        Sums to 1.
    chain : (S,) int array
        The chain it comes from; 0 by enumeration.
    log_g : (S,) array
        log(v / s2).
    t : (S,) array
        Logit of the prior inclusion probability, drawn given the set and g; NaN where it is given.
    left : (S,) array
        R: given the state, s2 ~ inverse-gamma(nu / 2, R / 2) where it is integrated out.
    noise_var : (S,) array or None
        s2 where the state determines it.
    nu : float
    coef : (total,) array
    root : tuple of S arrays (m, m)
    walker : (S,) int array or None
        The walker it comes from, of which several make up a chain; None by enumeration, and of earlier versions.
    slab_mean : (S,) array or None
        Mean of the slab's variance given the set of the state (and auxiliary variables, where there are any),
        averaged over g too: its tail is long, and a state has one g. None where it is not known.
    """

    columns: IntArray
    start: IntArray
    weight: FloatArray
    chain: IntArray
    log_g: FloatArray
    t: FloatArray
    left: FloatArray
    noise_var: FloatArray | None
    nu: float
    coef: FloatArray
    root: tuple[FloatArray, ...]
    walker: IntArray | None = None
    slab_mean: FloatArray | None = None

    @property
    def n(self) -> int:
        """Number of states."""
        return int(self.weight.size)

    @property
    def sizes(self) -> IntArray:
        """Number of columns of each state, (S,)."""
        return np.diff(self.start)

    @property
    def of_state(self) -> IntArray:
        """The state of each entry of `columns`, (total,)."""
        return np.repeat(np.arange(self.n), self.sizes)

    def set_of(self, i: int) -> IntArray:
        """Columns of state i."""
        return self.columns[self.start[i] : self.start[i + 1]]

    def membership(self, units: Units, which: IntArray) -> FloatArray:
        """1 where a unit of `which` (a,) is in a state, (S, a)."""
        position = np.full(units.n, -1, dtype=np.intp)
        position[which] = np.arange(which.size)
        at = position[units.of_column[self.columns]]
        out = np.zeros((self.n, which.size))
        out[self.of_state[at >= 0], at[at >= 0]] = 1.0
        return out

    def pair_inclusion(self, units: Units, which: IntArray) -> FloatArray:
        """Posterior probabilities that two units are in together, (a, a); on the diagonal those of each alone."""
        inside = self.membership(units, which)
        return np.minimum((inside * self.weight[:, None]).T @ inside, 1.0)

    def sets_alone(self) -> States:
        """The distinct sets with their weights, the most probable first, and nothing else."""
        sets: dict[bytes, IntArray] = {}
        weights: dict[bytes, float] = {}
        for i in range(self.n):
            inside = self.set_of(i)
            key = inside.tobytes()
            sets[key] = inside
            weights[key] = weights.get(key, 0.0) + float(self.weight[i])
        ordered = sorted(sets, key=lambda key: -weights[key])
        none: FloatArray = np.zeros(0)
        return States(
            columns=np.concatenate([np.zeros(0, dtype=np.intp), *(sets[key] for key in ordered)]),
            start=np.concatenate([[0], np.cumsum([sets[key].size for key in ordered])]).astype(np.intp),
            weight=np.array([weights[key] for key in ordered]),
            chain=np.zeros(0, dtype=np.intp),
            log_g=none,
            t=none,
            left=none,
            noise_var=None,
            nu=self.nu,
            coef=none,
            root=(),
        )

    def mean_noise(self) -> FloatArray:
        """Mean of s2 given each state, (S,); infinite with 2 degrees of freedom or fewer."""
        return self.noise_var if self.noise_var is not None else mean_noise(self.left, self.nu)

    def mean_slab(self) -> FloatArray:
        """Mean of the slab's variance given each state, (S,), or given its set where that is known."""
        return np.exp(self.log_g) * self.mean_noise() if self.slab_mean is None else self.slab_mean

    def draw_noise(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """One s2 for each of the states `index`."""
        if self.noise_var is not None:
            return self.noise_var[index]
        return self.left[index] / rng.chisquare(self.nu, index.size)


def mean_noise(left: FloatArray, nu: float) -> FloatArray:
    """Mean of the inverse-gamma(nu / 2, left / 2) distribution; infinite where it has none."""
    return left / (nu - 2.0) if nu > 2.0 else np.full(np.shape(left), np.inf)


def resampled(
    weight: FloatArray, sizes: FloatArray, rng: np.random.Generator, most: int = MAX_STATES
) -> tuple[IntArray, FloatArray]:
    """Choose states: all that matter if these are few, else by systematic resampling.

    Parameters
    ----------
    weight : (N,) array
        Sums to 1.
    sizes : (N,) array
        Number of columns of each.
    rng : numpy.random.Generator
    most : int

    Returns
    -------
    index, weight : arrays
    """
    per_state = float(np.sum(weight * sizes**2))
    most = int(min(most, max(MAX_ROOTS / max(per_state, 1.0), 100)))
    largest = np.arange(weight.size)
    if weight.size > most:
        largest = np.sort(np.argpartition(-weight, most - 1)[:most])
    order = largest[np.argsort(-weight[largest], kind="stable")]
    needed = int(np.searchsorted(np.cumsum(weight[order]), 1.0 - NEGLIGIBLE)) + 1
    if needed <= most:
        index = np.sort(order[:needed])
        return index, weight[index] / weight[index].sum()
    points = (rng.random() + np.arange(most)) / most
    picked = np.minimum(np.searchsorted(np.cumsum(weight), points * weight.sum()), weight.size - 1)
    index, count = np.unique(picked, return_counts=True)
    return index, count / most


def build_states(
    problem: Problem,
    grid: Grid,
    sets: list[IntArray],
    nodes: IntArray,
    weight: FloatArray,
    chain: IntArray,
    rng: np.random.Generator,
) -> States:
    """Compute what the kept states need.

    Parameters
    ----------
    problem : Problem
    grid : Grid
    sets : list of S int arrays
        Units in.
    nodes : (S,) int array
        Of log g.
    weight, chain : (S,) arrays
    rng : numpy.random.Generator
        For t.
    """
    left, slab, coef, root, columns = np.empty(len(sets)), np.empty(len(sets)), [], [], []
    different = {units.tobytes(): problem.units.columns(units) for units in sets}
    parts = dict(zip(different, spectra(problem, list(different.values())), strict=True))
    first = {units.tobytes(): units for units in sets}
    slabs = dict(zip(first, _mean_slabs(problem, grid, list(parts.values()), list(first.values())), strict=True))
    for i, units in enumerate(sets):
        key = units.tobytes()
        part = parts[key]
        slab[i] = slabs[key]
        k = grid.k[nodes[i] : nodes[i] + 1]
        left[i] = left_over(problem, part, k)[0]
        values = part.values + k
        coef.append(part.vectors @ (part.cross / values))
        root.append(inverse_root(part, float(k[0])))
        columns.append(part.columns)
    empty = [np.zeros(0)]
    return States(
        columns=np.concatenate([*columns, np.zeros(0, dtype=np.intp)]).astype(np.intp),
        start=np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.intp),
        weight=weight / weight.sum(),
        chain=chain,
        log_g=grid.log_g[nodes],
        t=draw_t(grid, np.array([units.size for units in sets], dtype=np.intp), nodes, rng),
        left=left,
        noise_var=None if grid.noise_var is None else grid.noise_var[nodes],
        nu=problem.nu,
        coef=np.concatenate(coef + empty),
        root=tuple(root),
        slab_mean=slab,
    )


def _mean_slabs(problem: Problem, grid: Grid, parts: Sequence[SetSpectrum], units: Sequence[IntArray]) -> FloatArray:
    """Mean of v given each of several sets of units, over the nodes of g, (S,)."""
    out = np.empty(len(parts))
    for some, joint, left in log_joints_by_size(problem, grid, parts, units):
        weight = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        noise = mean_noise(left, problem.nu) if grid.noise_var is None else grid.noise_var
        out[some] = (weight * (np.exp(grid.log_g) * noise)).sum(axis=1)
    return out


def draw_t(grid: Grid, sizes: IntArray, nodes: IntArray, rng: np.random.Generator) -> FloatArray:
    """One t for each state, given its number of units and its node; NaN where the probabilities are given."""
    if grid.unit_odds is not None:
        return np.full(sizes.size, np.nan)
    return quantiles_of_t(grid, sizes, nodes, rng.random(sizes.size))
