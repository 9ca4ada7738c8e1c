"""Cross-products of columns of numbers and of the cells of factors, batch by batch; dummies are never made dense.

As in a sandwich product of tabmat's split matrices, a factor is kept as codes: sums over its cells are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.linalg import blas
from pybayesridge.linalg.scale import SAFE

BLOCK = 6000
"""Rows that are worked on at a time: their columns stay in the cache of one core. With a power of two, columns would
compete for the same lines of the cache."""

Key = tuple[str, ...]


@dataclass(slots=True)
class Rows:
    """Complete, finite rows of a batch.

    Attributes
    ----------
    n : int
    numbers : dict of (n,) arrays
        Of any numeric type.
    codes : dict of (n,) arrays
        Positions of the levels of each factor.
    sizes : dict of int
        Numbers of levels of each factor that are known so far.
    weights : (n,) array or None
    """

    n: int
    numbers: Mapping[str, AnyArray]
    codes: Mapping[str, IntArray]
    sizes: Mapping[str, int]
    weights: FloatArray | None

    def product(self, key: Key) -> AnyArray:
        """The product of columns."""
        if len(key) == 1:
            return self.numbers[key[0]]
        out = np.multiply(self.numbers[key[0]], self.numbers[key[1]], dtype=np.float64)
        for name in key[2:]:
            out = out * self.numbers[name]
        return out


@dataclass(slots=True, eq=False)
class Cells:
    """Sums over the cells of factors: dummies, or dummies times a number.

    Attributes
    ----------
    numbers, factors : tuple of str
    origin : (cells,) array
        What is subtracted from the number in each cell: near its mean there.
    shape : tuple of int
        Numbers of levels of the factors.
    sums : (1 + m, cells) array
        Weighted sums of the value of the cells, and of its products with the dense columns about their origin.
    """

    numbers: Key
    factors: Key
    origin: FloatArray = field(default_factory=lambda: np.zeros(1))
    shape: tuple[int, ...] = ()
    sums: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)


class RowSums:
    """Weighted sums and cross-products of all rows so far, about origins that follow the means.

    Parameters
    ----------
    dense : sequence of tuples of str
        Columns, or those whose product is one.
    cells : sequence of (tuple of str, tuple of str)
        Numbers and factors of sets of cells.

    Attributes
    ----------
    n : int
    log_weight_sum : float
    origin : (m,) array
        Near the means of the dense columns.
    gram : (1 + m, 1 + m) array
        Lower triangle of the cross-products of a column of ones and the dense columns about the origin.
    pairs : dict
        Cross-products of two sets of cells by position: by cell where the factors are the same, else a matrix.
    flat : (m,) bool array
        Dense columns that were constant in each batch.
    """

    def __init__(self, dense: Sequence[Key], cells: Sequence[tuple[Key, Key]]) -> None:
        self.dense = list(dense)
        self.cells = [Cells(numbers, factors) for numbers, factors in cells]
        m = len(self.dense)
        self.n, self.log_weight_sum = 0, 0.0
        self.origin = np.zeros(m)
        self.gram = np.zeros((1 + m, 1 + m), order="F")
        self.pairs: dict[tuple[int, int], FloatArray] = {}
        self.flat = np.ones(m, dtype=bool)
        self._recentred = 0
        for block in self.cells:
            block.sums = np.zeros((1 + m, 1))
            block.shape = (1,) * len(block.factors)

    def add(self, rows: Rows) -> None:
        """Add rows."""
        if self.n == 0:
            self.origin = np.array([near_mean(rows.product(key), rows.weights) for key in self.dense])
        self._grow(rows.sizes)
        with np.errstate(over="ignore", invalid="ignore"):
            codes = [_cell_codes(rows, block) for block in self.cells]
            values = [self._values(rows, block, code) for block, code in zip(self.cells, codes, strict=True)]
            self._add_dense(rows, codes, values)
            self._add_pairs(rows, codes, values)
            self._note_flat(rows)
            self.n += rows.n
            self.log_weight_sum += 0.0 if rows.weights is None else float(np.log(rows.weights).sum())
            self._recentre()
            if self.n >= 2 * self._recentred:
                self._recentre_cells()
                self._recentred = self.n

    def _values(self, rows: Rows, block: Cells, codes: IntArray) -> FloatArray | None:
        """The numbers of a set of cells about their origins; a row of a cell is its first origin."""
        if not block.numbers:
            return None
        values = rows.product(block.numbers)
        empty = self._dummies(block).sums[0] == 0
        if empty.any():
            first = empty[codes]
            block.origin[codes[first]] = values[first]
        return np.subtract(values, block.origin[codes], dtype=np.float64)

    def _dummies(self, block: Cells) -> Cells:
        """The dummies of the same factors."""
        return next(other for other in self.cells if not other.numbers and other.factors == block.factors)

    def _add_dense(self, rows: Rows, codes: list[IntArray], values: list[FloatArray | None]) -> None:
        products = [rows.product(key) for key in self.dense]
        root = None if rows.weights is None else np.sqrt(rows.weights)
        a, ends = np.empty((0, 0)), np.arange(BLOCK + 1)
        for start in range(0, rows.n, BLOCK):
            at = slice(start, min(start + BLOCK, rows.n))
            if a.shape[0] != at.stop - start:
                a = np.empty((at.stop - start, 1 + len(products)), order="F")
            a[:, 0] = 1.0
            for j, column in enumerate(products, start=1):
                # float32 minus a float64 would be a float32 in some versions of NumPy.
                np.subtract(column[at], self.origin[j - 1], out=a[:, j], dtype=np.float64)
            if root is not None:
                a *= root[at, None]
            self.gram = blas.add_square(self.gram, a, transposed=True)
            if root is not None and self.cells:
                a *= root[at, None]
            across = np.ascontiguousarray(a) if self.cells else a
            for block, code, value in zip(self.cells, codes, values, strict=True):
                each = np.ones(len(a)) if value is None else value[at]
                of_cells = sparse.csc_matrix((each, code[at], ends[: len(a) + 1]), shape=(block.size, len(a)))
                block.sums += (of_cells @ across).T

    def _add_pairs(self, rows: Rows, codes: list[IntArray], values: list[FloatArray | None]) -> None:
        for (i, j), total in self.pairs.items():
            value = _times(_times(values[i], values[j]), rows.weights)
            if total.ndim == 1:
                total += np.bincount(codes[i], weights=value, minlength=total.size)
                continue
            flat = codes[i] * total.shape[1] + codes[j]
            if total.size <= rows.n:
                total += np.bincount(flat, weights=value, minlength=total.size).reshape(total.shape)
            else:
                np.add.at(total.reshape(-1), flat, 1.0 if value is None else value)

    def _note_flat(self, rows: Rows) -> None:
        """Find columns that vary although their squares are too small to show it."""
        for j in np.flatnonzero(~(np.diag(self.gram)[1:] > SAFE[0]) & self.flat):
            self.flat[j] = np.ptp(np.asarray(rows.product(self.dense[j]), dtype=np.float64)) == 0

    def _recentre(self) -> None:
        """Move the origin to the mean; what is summed about the old one follows."""
        total, first = self.gram[0, 0], self.gram[1:, 0]
        moved = self.origin + first / total
        by = moved - self.origin
        if not np.isfinite(by).all() or not by.any():
            return
        self.gram[1:, 1:] += total * np.outer(by, by) - np.outer(first, by) - np.outer(by, first)
        self.gram[1:, 0] = first - total * by
        for block in self.cells:
            block.sums[1:] -= np.outer(by, block.sums[0])
        self.origin = moved

    def _recentre_cells(self) -> None:
        """Move the origins of numbers in cells to their means in each cell."""
        for i, block in enumerate(self.cells):
            if not block.numbers:
                continue
            dummies = self._dummies(block)
            d = self.cells.index(dummies)
            count = dummies.sums[0]
            moved = block.origin + np.divide(block.sums[0], count, out=np.zeros_like(count), where=count > 0)
            by = moved - block.origin
            if not np.isfinite(by).all():
                continue
            own = self._pair(i, i)
            own += by**2 * self._pair(d, d) - 2 * by * self._pair(i, d)
            block.sums -= by * dummies.sums
            for j in range(len(self.cells)):
                if j != i:
                    pair = self._pair(i, j)
                    pair -= (by if pair.ndim == 1 else by[:, None]) * self._pair(d, j)
            block.origin = moved

    def _pair(self, i: int, j: int) -> FloatArray:
        """Cross-products of two sets of cells, those of the first in the rows: a view."""
        return self.pairs[i, j] if i >= j else self.pairs[j, i].T

    def _grow(self, sizes: Mapping[str, int]) -> None:
        """Make room for new levels."""
        for block in self.cells:
            shape = tuple(sizes[name] for name in block.factors)
            if shape != block.shape:
                block.sums = _padded(block.sums, (len(block.sums), *block.shape), (len(block.sums), *shape))
                block.sums = block.sums.reshape(len(block.sums), -1)
                block.origin = _padded(block.origin, block.shape, shape).reshape(-1)
        for i, first in enumerate(self.cells):
            for j, second in enumerate(self.cells[: i + 1]):
                same = first.factors == second.factors
                old = first.shape if same else (*first.shape, *second.shape)
                new = [tuple(sizes[name] for name in block.factors) for block in (first, second)]
                total = self.pairs.get((i, j), np.zeros(old))
                if same:
                    self.pairs[i, j] = _padded(total, old, new[0]).reshape(-1)
                else:
                    padded = _padded(total, old, (*new[0], *new[1]))
                    self.pairs[i, j] = padded.reshape(math.prod(new[0]), math.prod(new[1]))
        for block in self.cells:
            block.shape = tuple(sizes[name] for name in block.factors)


def near_mean(x: AnyArray, weights: FloatArray | None) -> float:
    """A point within rounding of the mean; the value itself where there is only one."""
    first = np.float64(x[0])
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.subtract(x, first, dtype=np.float64)
        mean = first + (deviation.mean() if weights is None else weights @ deviation / weights.sum())
    return float(mean) if np.isfinite(mean) else float(first)


def _cell_codes(rows: Rows, block: Cells) -> IntArray:
    out = np.zeros(rows.n, dtype=np.intp)
    for name, size in zip(block.factors, block.shape, strict=True):
        out = out * size + rows.codes[name]
    return out


def _times(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
    if a is None or b is None:
        return a if b is None else b
    return a * b


def _padded(total: FloatArray, old: tuple[int, ...], new: tuple[int, ...]) -> FloatArray:
    """An array over cells with room for more levels, zeros there."""
    if old == new:
        return total
    out = np.zeros(new)
    out[tuple(slice(0, size) for size in old)] = total.reshape(old)
    return out
