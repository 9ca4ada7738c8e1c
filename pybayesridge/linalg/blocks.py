"""Walk over a tall or wide matrix in cache-sized float64 blocks, so that nothing of its size is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from pybayesridge._types import AnyArray, FloatArray, IntArray

BLOCK_BYTES = 1 << 20
"""Target size of a float64 block: it stays in a second-level cache."""

MIN_BLOCK = 256
"""Fewest rows (or columns) in a block: a rank-k update with a smaller k is bound by memory, not arithmetic."""


def block_size(other: int) -> int:
    """Rows (or columns) in a block of a matrix whose other dimension is `other`."""
    return max(MIN_BLOCK, BLOCK_BYTES // (8 * max(other, 1)))


def even_parts(count: int, most: int) -> Iterator[slice]:
    """Yield consecutive parts of so many things, nearly equal and none larger than `most`; one part of nothing."""
    step = max(1, -(-count // max(1, -(-count // max(1, most)))))
    for start in range(0, max(count, 1), step):
        yield slice(start, min(start + step, count))


def is_all(which: Any, count: int) -> bool:
    """Whether an index of so many things is the slice of all of them."""
    return isinstance(which, slice) and which == slice(0, count)


def column_selector(columns: IntArray) -> slice | IntArray:
    """Turn column positions into a slice where they are consecutive, so that selecting them makes a view."""
    if columns.size and columns[-1] - columns[0] + 1 == columns.size and (np.diff(columns) == 1).all():
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns


def dense(piece: Any) -> AnyArray:
    """A block as an array, whether it comes from an array or a sparse matrix."""
    return piece.toarray() if issparse(piece) else piece


def row_blocks(x: Any, columns: IntArray, size: int | None = None) -> Iterator[tuple[slice, AnyArray]]:
    """Yield ``(rows, x[rows][:, columns])`` over all rows; views where `columns` are consecutive.

    Blocks of a sparse matrix are made dense one at a time.
    """
    n = x.shape[0]
    selector = column_selector(columns)
    step = size or block_size(columns.size)
    if issparse(x):
        x = x.tocsr()[:, selector]
        selector = slice(None)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        yield rows, dense(x[rows, selector])


def column_blocks(x: Any, columns: IntArray, size: int | None = None) -> Iterator[tuple[slice, AnyArray]]:
    """Yield ``(part, x[:, columns[part]])`` over all of `columns`; views where they are consecutive."""
    step = size or block_size(x.shape[0])
    whole = column_selector(columns)
    for start in range(0, columns.size, step):
        part = slice(start, min(start + step, columns.size))
        if isinstance(whole, slice):
            selector: slice | IntArray = slice(whole.start + part.start, whole.start + part.stop)
        else:
            selector = column_selector(columns[part])
        yield part, dense(x[:, selector])


def work_buffer(x: Any, rows: int, columns: int) -> FloatArray:
    """Allocate a float64 block in the memory order of `x`, so that filling it walks `x` along its lines."""
    fortran = not issparse(x) and x.flags.f_contiguous and not x.flags.c_contiguous
    return np.empty((rows, columns), order="F" if fortran else "C")
