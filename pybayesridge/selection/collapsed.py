"""The posterior of a set of columns with coefficients (and s2) integrated out, at every node of log g at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem

FLOOR = 1e-15
"""R, what a set leaves of y'y (ridge penalty included), is positive; below this fraction it is rounding."""

AT_ONCE = 2**14
"""Sets times nodes of g that are treated at once: what is held of them stays in the processor's cache."""

AT_ONCE_IN_LOG = 8
"""Factors of ``|I + g X_A'X_A|`` whose product is no larger than a number can be."""


@dataclass(frozen=True, slots=True)
class SetSpectrum:
    """A set of columns in the coordinates in which they are orthogonal.

    Of more columns than rows there are as many coordinates as rows: in the others nothing is seen.

    Attributes
    ----------
    columns : (m,) int array
    values : (r,) array
        Eigenvalues of X_A'X_A.
    vectors : (m, r) array
    cross : (r,) array
        X_A'y in these coordinates.
    """

    columns: IntArray
    values: FloatArray
    vectors: FloatArray
    cross: FloatArray


def spectrum(problem: Problem, columns: IntArray) -> SetSpectrum:
    """Diagonalise X'X of some columns."""
    if columns.size == 0:
        return SetSpectrum(columns, np.zeros(0), np.zeros((0, 0)), np.zeros(0))
    if problem.rows is not None and columns.size > problem.rows.shape[0]:
        _, singular, axes = np.linalg.svd(problem.rows[:, columns], full_matrices=False)
        return SetSpectrum(columns, singular**2, axes.T, axes @ problem.cross[columns])
    values, vectors = np.linalg.eigh(problem.block(columns))
    return SetSpectrum(columns, np.maximum(values, 0.0), vectors, problem.cross[columns] @ vectors)


@dataclass(frozen=True, slots=True)
class SpectraOfSize:
    """S sets of equally many columns, each as a :class:`SetSpectrum`.

    Attributes
    ----------
    which : (S,) int array
        Their places among the sets that were asked for, ascending.
    columns : (S, m) int array
    values : (S, r) array
    vectors : (S, m, r) array
    cross : (S, r) array
    """

    which: IntArray
    columns: IntArray
    values: FloatArray
    vectors: FloatArray
    cross: FloatArray

    def each(self) -> Iterator[SetSpectrum]:
        """The sets one by one."""
        for columns, values, vectors, cross in zip(self.columns, self.values, self.vectors, self.cross, strict=True):
            yield SetSpectrum(columns, values, vectors, cross)


def spectra_by_size(problem: Problem, sets: Sequence[IntArray]) -> list[SpectraOfSize]:
    """Diagonalise X'X of several sets of columns, those of equal size at once."""
    by_size: dict[int, list[int]] = {}
    most = np.inf if problem.rows is None else problem.rows.shape[0]
    for i, columns in enumerate(sets):
        by_size.setdefault(columns.size, []).append(i)
    out = []
    for size, members in by_size.items():
        columns = np.stack([sets[i] for i in members])
        if size == 0 or size > most:
            parts = [spectrum(problem, own) for own in columns]
            values, vectors, cross = (
                np.stack([getattr(part, name) for part in parts]) for name in ("values", "vectors", "cross")
            )
        else:
            values, vectors = np.linalg.eigh(problem.blocks(columns))
            values, cross = np.maximum(values, 0.0), (problem.cross[columns][:, None, :] @ vectors)[:, 0]
        out.append(SpectraOfSize(np.array(members, dtype=np.intp), columns, values, vectors, cross))
    return out


def spectra(problem: Problem, sets: Sequence[IntArray]) -> list[SetSpectrum]:
    """Diagonalise X'X of each of several sets of columns."""
    out: dict[int, SetSpectrum] = {}
    for of_size in spectra_by_size(problem, sets):
        out.update(zip(of_size.which.tolist(), of_size.each(), strict=True))
    return [out[i] for i in range(len(sets))]


def inverse_root(part: SetSpectrum, k: float) -> FloatArray:
    """A square root of ``(X_A'X_A + k)^-1``, (m, m)."""
    return inverse_roots(part.vectors[None], part.values[None] + k, np.array([k]))[0]


def inverse_roots(vectors: FloatArray, values: FloatArray, k: FloatArray) -> FloatArray:
    """Square roots of ``(X_A'X_A + k)^-1``, (S, m, m), of S sets with as many columns and coordinates.

    `vectors` (S, m, r) are those of :class:`SetSpectrum`, `values` (S, r) its eigenvalues plus `k` (S,).
    """
    m, r = vectors.shape[1:]
    root = np.sqrt(values)[:, None, :]
    if r == m:
        return np.asarray(vectors / root)
    slab = 1.0 / np.sqrt(k)[:, None, None]
    out: FloatArray = (vectors * (1.0 / root - slab)) @ vectors.transpose(0, 2, 1)
    return out + slab * np.eye(m)


def left_over(problem: Problem, part: SetSpectrum, k: FloatArray) -> FloatArray:
    """``R = y'y - c_A' (X_A'X_A + k)^-1 c_A`` for each k, (K,)."""
    explained = (part.cross**2 / (part.values + k[:, None])).sum(axis=1)
    return np.maximum(problem.yy - explained, FLOOR * problem.yy)


def log_likelihood(problem: Problem, grid: Grid, part: SetSpectrum) -> FloatArray:
    """Log p(y | A, g) at each node, (K,).

    With s2 integrated out under 1 / s2: ``log Γ(ν/2) - (ν/2) log(π R) - ½ log|I + g X_A'X_A|``; else
    ``-(ν/2) log(2π s2) - R / (2 s2) - ½ log|I + g X_A'X_A|``.
    """
    k = grid.k
    log_det = np.log1p(part.values / k[:, None]).sum(axis=1)
    return of_left_over(problem, grid.noise_var, left_over(problem, part, k)) - 0.5 * log_det


def log_joints_by_size(
    problem: Problem, grid: Grid, parts: Sequence[SpectraOfSize], units: Sequence[IntArray]
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """:func:`log_joint_of_each` of sets, piece by piece: which sets, and both; `units` are those of all sets."""
    at_once = max(AT_ONCE // grid.log_g.size, 1)
    for part in parts:
        for first in range(0, part.which.size, at_once):
            some = slice(first, first + at_once)
            own = [units[i] for i in part.which[some].tolist()]
            yield part.which[some], *log_joint_of_each(problem, grid, part.values[some], part.cross[some], own)


def log_joint_of_each(
    problem: Problem, grid: Grid, values: FloatArray, cross: FloatArray, units: Sequence[IntArray]
) -> tuple[FloatArray, FloatArray]:
    """Log p(y, A, node) of several sets at each node, and R there, (S, K) both.

    `values` and `cross` (S, r) are those of :class:`SpectraOfSize`.
    """
    k = grid.k
    left, log_det = np.full((len(units), k.size), problem.yy), np.zeros((len(units), k.size))
    own, square = values.T[:, :, None], (cross**2).T[:, :, None]
    for first in range(0, len(own), AT_ONCE_IN_LOG):
        product = np.ones_like(left)
        for value, explained in zip(
            own[first : first + AT_ONCE_IN_LOG], square[first : first + AT_ONCE_IN_LOG], strict=True
        ):
            ridge = value + k
            left -= explained / ridge
            ridge /= k
            product *= ridge
        log_det += np.log(product)
    np.maximum(left, FLOOR * problem.yy, out=left)
    return of_left_over(problem, grid.noise_var, left) - 0.5 * log_det + log_priors(grid, units), left


def of_left_over(problem: Problem, noise_var: FloatArray | None, left: FloatArray) -> FloatArray:
    """The part of the log likelihood that depends on R, broadcast against s2."""
    half = 0.5 * problem.nu
    if noise_var is None:
        return gammaln(half) - half * np.log(np.pi * left)
    return -half * np.log(2.0 * np.pi * noise_var) - 0.5 * left / noise_var


def log_joint(problem: Problem, grid: Grid, part: SetSpectrum, units: IntArray) -> FloatArray:
    """Log p(y, A, node) at each node, (K,); `units` (m,) are the units of the set."""
    return log_likelihood(problem, grid, part) + log_prior(grid, units)


def log_prior(grid: Grid, units: IntArray) -> FloatArray:
    """Log prior of a set and each node, (K,)."""
    prior = grid.log_size(int(units.size))
    if grid.unit_odds is None:
        return prior
    own = grid.unit_odds[units]
    return prior + grid.log_none + own[np.isfinite(own)].sum()


def log_priors(grid: Grid, units: Sequence[IntArray]) -> FloatArray:
    """:func:`log_prior` of several sets, (S, K)."""
    if grid.unit_odds is not None:
        return np.stack([log_prior(grid, each) for each in units])
    sizes, of_set = np.unique([each.size for each in units], return_inverse=True)
    return np.stack([grid.log_size(size) for size in sizes.tolist()])[of_set]
