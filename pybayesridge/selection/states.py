"""States of the posterior that are kept: sets of columns, g, t, and the conditional posterior of the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.units import Units
from pybayesridge.selection.collapsed import FLOOR, SpectraOfSize, inverse_roots, log_joints_by_size, spectra_by_size
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
    index: dict[bytes, int] = {}
    of_set = np.array([index.setdefault(units.tobytes(), len(index)) for units in sets], dtype=np.intp)
    different = [sets[i] for i in np.unique(of_set, return_index=True)[1].tolist()]
    of_units = [problem.units.columns(units) for units in different]
    parts = spectra_by_size(problem, of_units)
    left, coef, root = _moments(problem, parts, of_set, grid.k[nodes])
    columns = [of_units[i] for i in of_set.tolist()]
    none = np.zeros(0)
    return States(
        columns=np.concatenate([*columns, none]).astype(np.intp),
        start=np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.intp),
        weight=weight / weight.sum(),
        chain=chain,
        log_g=grid.log_g[nodes],
        t=draw_t(grid, np.array([units.size for units in sets], dtype=np.intp), nodes, rng),
        left=left,
        noise_var=None if grid.noise_var is None else grid.noise_var[nodes],
        nu=problem.nu,
        coef=np.concatenate([*coef, none]),
        root=tuple(root),
        slab_mean=_mean_slabs(problem, grid, parts, different)[of_set],
    )


def _moments(
    problem: Problem, parts: Sequence[SpectraOfSize], of_set: IntArray, k: FloatArray
) -> tuple[FloatArray, list[FloatArray], list[FloatArray]]:
    """R, mean and :func:`inverse_roots` of the coefficients of S states: sets `of_set` (S,) of `parts` at k (S,)."""
    left, none = np.empty(of_set.size), np.zeros(0)
    coef, root = [none] * of_set.size, [none] * of_set.size
    for part in parts:
        some = np.flatnonzero(np.isin(of_set, part.which))
        at, k_of_some = np.searchsorted(part.which, of_set[some]), k[some]
        cross, vectors = part.cross[at], part.vectors[at]
        values = part.values[at] + k_of_some[:, None]
        left[some] = np.maximum(problem.yy - (cross**2 / values).sum(axis=1), FLOOR * problem.yy)
        of_some = (vectors @ (cross / values)[:, :, None])[:, :, 0]
        roots = inverse_roots(vectors, values, k_of_some)
        for i, own_coef, own_root in zip(some.tolist(), of_some, roots, strict=True):
            coef[i], root[i] = own_coef, own_root
    return left, coef, root


def _mean_slabs(
    problem: Problem, grid: Grid, parts: Sequence[SpectraOfSize], units: Sequence[IntArray]
) -> FloatArray:
    """Mean of v given each of several sets of units, over the nodes of g, (S,)."""
    out, g = np.empty(len(units)), np.exp(grid.log_g)
    for some, joint, left in log_joints_by_size(problem, grid, parts, units):
        weight = np.exp(joint - joint.max(axis=1, keepdims=True))
        noise = mean_noise(left, problem.nu) if grid.noise_var is None else grid.noise_var
        out[some] = (weight * (g * noise)).sum(axis=1) / weight.sum(axis=1)
    return out


def draw_t(grid: Grid, sizes: IntArray, nodes: IntArray, rng: np.random.Generator) -> FloatArray:
    """One t for each state, given its number of units and its node; NaN where the probabilities are given."""
    if grid.unit_odds is not None:
        return np.full(sizes.size, np.nan)
    return quantiles_of_t(grid, sizes, nodes, rng.random(sizes.size))
