"""Sets that walkers may not find by themselves: many forward selections, each by chance.

Where units explain the response only together, none of them stands out among thousands, and a walker that lets units
in and out wanders among small sets that explain it a little. A forward selection that has let in two or three of the
right units by chance finds the others. Each goes on from the posterior odds of the units given those that are in, at
one node of log g.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import FLOOR, log_prior, of_left_over
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.traces import log_joints

PATHS = 192
"""Forward selections, at most. Of twelve searches (100 rows, 20,000 independent columns, ten coefficients of 1, noise
of .5; one of the tests) ten found all columns with so many, seven with 48."""

UNITS = 100
"""There is one for each of so many units, at most."""

LEAST_UNITS = 500
"""Units from which there are any."""

WORK = 2e10
"""Additions and multiplications of all paths, about, at most."""

PASSES = 20
"""Those of a step that are no products of matrices, for each column."""

AT_ONCE = 5e5
"""Paths times columns that are looked at at once, about: they stay in the processor's cache."""

FIRST = 3
"""Units that a path lets in by chance, with their posterior odds; later ones are the likeliest each time. At first
most units that stand out are the wrong ones."""

PATIENCE = 13
"""Steps at least: the first right units cost more than they gain."""

LAG = 4
"""And so many without a better set of any path, after which all end."""

STEPS = 60
"""Steps at most."""

RESOLVED = 1e-5
"""Part of a sum of squares that single precision resolves."""


@dataclass(frozen=True, slots=True)
class ForwardSearch:
    """Forward selections for a problem.

    Attributes
    ----------
    problem : Problem
    grid : Grid
    most_columns : int
        Of a set.
    rng : numpy.random.Generator
        Further sets are found by further numbers.
    """

    problem: Problem
    grid: Grid
    most_columns: int
    rng: np.random.Generator

    @classmethod
    def beside(cls, problem: Problem, grid: Grid, most_columns: int, rng: np.random.Generator) -> ForwardSearch:
        """Take random numbers that follow from a generator without drawing from it: its own stay what they are."""
        return cls(problem, grid, most_columns, np.random.default_rng(deepcopy(rng).integers(2**63)))

    def sets(self) -> list[IntArray]:
        """The best set of each path, those with the largest posterior probability first.

        None twice, and only those that are better than the smallest set. Meanwhile X, where the problem holds it, is
        held in single precision as well.
        """
        problem, grid = self.problem, self.grid
        always, left = grid.always, _number(problem, grid.free.size)
        if not left or not problem.yy > 0:
            return []
        scaled, found = _Scaled.of(problem), {always.tobytes(): always}
        while left > 0:
            size = min(left, max(int(AT_ONCE // problem.d), 1))
            paths = _Paths(scaled, grid, self.rng, size)
            paths.walk(self.most_columns)
            found |= {units.tobytes(): units for units in paths.best}
            left -= size
        sets = list(found.values())
        value = log_joints(problem, grid, sets)
        return [sets[i] for i in np.argsort(-value, kind="stable").tolist() if value[i] > value[0]]


def _number(problem: Problem, units: int) -> int:
    """How many paths there are."""
    if units < LEAST_UNITS:
        return 0
    rows = PATIENCE if problem.rows is None else problem.rows.shape[0]
    return int(min(PATHS, units // UNITS, max(WORK / (2.0 * PATIENCE * problem.d * (rows + PASSES)), 1.0)))


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A problem, and what single precision needs of it: columns and the response with lengths of 1.

    Attributes
    ----------
    problem : Problem
    scale : (d,) array
        What columns are multiplied by.
    cross : (d,) array, single precision
    rows : (n, d) array, single precision, or None
    """

    problem: Problem
    scale: FloatArray
    cross: AnyArray
    rows: AnyArray | None

    @classmethod
    def of(cls, problem: Problem) -> _Scaled:
        scale = 1.0 / np.sqrt(np.where(problem.diag > 0, problem.diag, 1.0))
        rows = None
        if problem.rows is not None:
            rows = np.empty(problem.rows.shape, dtype=np.float32)
            np.multiply(problem.rows, scale, out=rows, casting="same_kind")
        cross = (problem.cross * scale / np.sqrt(problem.yy)).astype(np.float32)
        return cls(problem, scale, cross, rows)

    def products(self, weights: Sequence[tuple[IntArray, FloatArray]]) -> AnyArray:
        """Of all columns with combinations of some: of each pair, columns (m,) and weights (s, m), s rows."""
        problem = self.problem
        if problem.rows is None or self.rows is None:
            products = np.concatenate([weight @ problem.stacked(columns) for columns, weight in weights])
            return (products * self.scale).astype(np.float32)
        own = problem.columns_alone()
        axes = np.concatenate([weight @ own[columns] for columns, weight in weights])
        return axes.astype(np.float32) @ self.rows


class _Paths:
    """Forward selections on their way, each at one node of log g; changed in place.

    Attributes
    ----------
    sets : list of int arrays
        Units in, in the order in which they were let in.
    best : list of int arrays
        The best of each path's sets so far, ascending.
    node, k : (B,) arrays
        Of log g, and 1 / g there.
    odds : (B, G) array, single precision
        Log prior odds where they are given; minus infinity for units that may not be let in.
    cross, length : (B, d) arrays, single precision
        Of each scaled column, its cross-product with the response and its squared length plus k, beyond the set.
    log_k : (B, d) array, single precision
        The logarithm of k as it is for scaled columns.
    left, log_det : (B,) arrays
        R, and log |I + g X_A'X_A|.
    """

    def __init__(self, scaled: _Scaled, grid: Grid, rng: np.random.Generator, n: int) -> None:
        always, free = grid.always, grid.free
        self.scaled, self.problem, self.grid, self.rng = scaled, scaled.problem, grid, rng
        weight = grid.log_size(1)
        share = np.cumsum(np.exp(weight - logsumexp(weight)))
        self.node = np.minimum(np.searchsorted(share, rng.uniform(size=n)), share.size - 1)
        self.k = grid.k[self.node]
        self.noise_var = None if grid.noise_var is None else grid.noise_var[self.node]
        self.odds = np.full((n, self.problem.units.n), -np.inf, dtype=np.float32)
        self.odds[:, free] = 0.0 if grid.unit_odds is None else grid.unit_odds[free]
        k = self.k[:, None] * scaled.scale**2
        self.cross = np.tile(scaled.cross, (n, 1))
        self.length, self.log_k = (1.0 + k).astype(np.float32), np.log(k).astype(np.float32)
        self.least = (RESOLVED + k).astype(np.float32)
        self.left, self.log_det = np.full(n, self.problem.yy), np.zeros(n)
        self.sets: list[IntArray] = [always[:0]] * n
        if always.size:
            self._let_in([always] * n)
        self.best, self.best_value = list(self.sets), self._values()

    def walk(self, most_columns: int) -> None:
        """Let in a unit after the other, for as long as some set is better than all before it now and then."""
        since, sizes = 0, self.problem.units.sizes
        for step in range(min(STEPS, int(np.isfinite(self.odds[0]).sum()))):
            chosen = self._chosen(by_chance=step < FIRST)
            sets = [np.append(units, j) for units, j in zip(self.sets, chosen, strict=True)]
            if (step >= PATIENCE and since >= LAG) or max(sizes[units].sum() for units in sets) > most_columns:
                break
            self._let_in([units[-1:] for units in sets])
            value = self._values()
            better = np.flatnonzero(value > self.best_value).tolist()
            for i in better:
                self.best[i], self.best_value[i] = np.sort(self.sets[i]), value[i]
            since = 0 if better else since + 1

    def _values(self) -> FloatArray:
        """Log p(y, A, node) of each path."""
        prior = [log_prior(self.grid, units)[node] for units, node in zip(self.sets, self.node, strict=True)]
        return of_left_over(self.problem, self.noise_var, self.left) - 0.5 * self.log_det + np.array(prior)

    def _chosen(self, *, by_chance: bool) -> IntArray:
        """A unit for each path, by its odds of being in given the set: by chance, or the likeliest, (B,).

        Columns of one unit count as if they were orthogonal: that is exact for units of one column.
        """
        units = self.problem.units
        gain: AnyArray = self.cross**2
        gain /= self.length
        log_det: AnyArray = np.log(self.length)
        log_det -= self.log_k
        if not units.single:
            gain, log_det = (
                np.add.reduceat(each[:, units.order], units.start[:-1], axis=1) for each in (gain, log_det)
            )
        if self.noise_var is None:
            gain *= (-self.problem.yy / self.left).astype(np.float32)[:, None]
            odds: AnyArray = np.log1p(np.maximum(gain, RESOLVED - 1.0, out=gain), out=gain)
            odds *= np.float32(-0.5 * self.problem.nu)
        else:
            odds = gain * (0.5 * self.problem.yy / self.noise_var).astype(np.float32)[:, None]
        log_det *= np.float32(-0.5)
        odds += log_det
        odds += self.odds
        if not by_chance:
            return odds.argmax(axis=1)
        chance = np.cumsum(np.exp(odds - odds.max(axis=1, keepdims=True)), axis=1, dtype=np.float64)
        at = self.rng.uniform(size=len(chance)) * chance[:, -1]
        return np.array(
            [np.searchsorted(row, u, side="right") for row, u in zip(chance, at, strict=True)], dtype=np.intp
        )

    def _let_in(self, new: Sequence[IntArray]) -> None:
        """Let units into each path's set."""
        problem = self.problem
        own = [problem.units.columns(units) for units in new]
        columns = [
            np.concatenate([problem.units.columns(before), each]).astype(np.intp)
            for before, each in zip(self.sets, own, strict=True)
        ]
        shapes: dict[tuple[int, int], list[int]] = {}
        for i, (each, last) in enumerate(zip(columns, own, strict=True)):
            shapes.setdefault((each.size, last.size), []).append(i)
            self.sets[i] = np.concatenate([self.sets[i], new[i]]).astype(np.intp)
            self.odds[i, new[i]] = -np.inf
        of_path: dict[int, FloatArray] = {}
        for (size, width), some in shapes.items():
            at, k = np.stack([columns[i] for i in some]), self.k[some]
            matrix = problem.blocks(at)
            # Columns that are nearly combinations of others do not take part with all of their length.
            matrix[:, np.arange(size), np.arange(size)] += k[:, None] + RESOLVED * problem.diag[at]
            inverse = np.linalg.inv(matrix)[:, :, size - width :]
            # What is new of the units' columns, with lengths of 1 and orthogonal to each other.
            root = np.linalg.cholesky(inverse[:, size - width :])
            self.log_det[some] -= 2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) + width * np.log(k)
            of_path.update(zip(some, np.linalg.solve(root, inverse.transpose(0, 2, 1)), strict=True))
        weights = [(each, of_path[i]) for i, each in enumerate(columns)]
        explained = [weight @ problem.cross[columns] for columns, weight in weights]
        path = np.repeat(np.arange(len(new)), [each.size for each in explained]).tolist()
        products = self.scaled.products(weights)
        for i, product, by in zip(path, products, np.concatenate(explained).tolist(), strict=True):
            self.cross[i] -= product * np.float32(by / np.sqrt(problem.yy))
            self.length[i] -= np.multiply(product, product, out=product)
            self.left[i] -= by**2
        np.maximum(self.length, self.least, out=self.length)
        np.maximum(self.left, FLOOR * problem.yy, out=self.left)
