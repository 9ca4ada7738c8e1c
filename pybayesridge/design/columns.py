"""Columns that are not in memory but read in blocks, each time they are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.design.wide import WideProducts, marking, wide_products
from pybayesridge.linalg import blas

Shared = TypeVar("Shared")
Own = TypeVar("Own")
Answer = TypeVar("Answer")

SAME = 1e-6
"""Difference between two passes, relative to a column, that rounding errors do not explain."""

ROUNDING = 64 * float(np.finfo(float).eps)
"""Rounding errors relative to what Z takes from a column."""

MOST = 2048
"""Columns that are worked on at once."""


def cut(raw: AnyArray) -> Iterator[AnyArray]:
    """Consecutive columns of a block, as many as are worked on at once."""
    for start in range(0, raw.shape[1], MOST):
        yield raw[:, start : start + MOST]


class ColumnStream(ABC):
    """Columns in blocks.

    Attributes
    ----------
    shape : (int, int)
        Rows, and columns with those that precede the blocks.
    first : int
        Columns that precede those of the blocks: the unpenalised ones.
    """

    shape: tuple[int, int]
    first: int

    @abstractmethod
    def blocks(self, wanted: IntArray | None = None) -> Iterator[tuple[int, AnyArray]]:
        """Yield the position of the first column of each block, and its columns (n, b), from the first one on.

        Blocks without any of the columns `wanted` (ascending positions) may be left out.
        """

    def products(self, block: Unpenalized, *, standardize: bool) -> WideProducts:
        """What the model needs of the columns, by one pass over them."""
        pieces = (piece for _, raw in self.blocks() for piece in cut(raw))
        return wide_products(pieces, block, standardize=standardize, with_taken=True)

    def map(
        self,
        function: Callable[[Shared, Own, AnyArray], Answer],
        shared: Shared,
        own: Callable[[int, int], Own],
    ) -> Iterator[Answer]:
        """Yield ``function(shared, own(start, stop), block)`` for all blocks in their order.

        Parameters
        ----------
        function : callable
            Of a module, since it may be sent to other processes.
        shared : object
            Of use for all blocks.
        own : callable
            What is of use for the columns from `start` to `stop` only.
        """
        for start, block in self.blocks():
            yield function(shared, own(start, start + block.shape[1]), block)

    def __deepcopy__(self, _: object) -> ColumnStream:
        """The same: nothing of it changes after the first pass."""
        return self

    def __reduce__(self) -> tuple[type[Detached], tuple[tuple[int, int], int]]:
        """Pickles hold no columns."""
        return Detached, (self.shape, self.first)


@dataclass(frozen=True)
class Detached(ColumnStream):
    """Columns that were not saved with a fit.

    Attributes
    ----------
    shape : (int, int)
    first : int
    """

    shape: tuple[int, int]
    first: int

    def blocks(self, wanted: IntArray | None = None) -> NoReturn:
        """Not here."""
        raise ValueError(
            "a saved fit does not hold the columns of X, which this requires: make the fit again from its source; "
            "write_coefficients() makes a file of all coefficients"
        )


@dataclass(frozen=True, slots=True)
class Standardizer:
    """What makes X of the penalised columns that vary in a block.

    Attributes
    ----------
    first : int
        Position of the first column of the block.
    part : int array
        Their positions among all penalised columns that vary.
    columns : int array
        Their positions in the block.
    center, scale : (b,) arrays
    projection : (k, b) array or None
    marks : (b,) array
        See :class:`pybayesridge.design.wide.WideProducts`.
    """

    first: int
    part: IntArray
    columns: IntArray
    center: FloatArray
    scale: FloatArray
    projection: FloatArray | None
    marks: FloatArray

    def pieces(self, raw: AnyArray, block: Unpenalized) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ``(some, X[:, some])`` for parts of these columns.

        Raises
        ------
        ValueError
            If the columns are not those from which the means and scales are.
        """
        for start in range(0, self.columns.size, MOST):
            some = slice(start, min(start + MOST, self.columns.size))
            columns = self.columns[some]
            whole = columns[-1] - columns[0] + 1 == columns.size
            piece = raw[:, slice(columns[0], columns[-1] + 1) if whole else columns]
            out: FloatArray = piece - self.center[some]
            if self.projection is not None:
                out -= block.z @ self.projection[:, some]
            out /= self.scale[some]
            out = block.weigh(out)
            self._check(out, some, block)
            yield some, out

    def _check(self, piece: FloatArray, some: slice, block: Unpenalized) -> None:
        """Compare columns of X with those of the first pass by their marks."""
        n = piece.shape[0]
        taken = np.abs(self.center[some])
        if self.projection is not None:
            on_q = block.r @ self.projection[:, some]
            taken = np.maximum(taken, np.sqrt((on_q**2).sum(axis=0) / n))
        found = blas.product(piece, marking(n), transpose_a=True)[:, 0]
        size = np.sqrt(np.einsum("ij,ij->j", piece, piece) / n)
        tolerance = n * (SAME * size + ROUNDING * taken / self.scale[some])
        other = np.flatnonzero(~(np.abs(found - self.marks[some]) <= tolerance))
        if other.size:
            raise ValueError(
                f"column {self.first + self.columns[some][other[0]] + 1:,} of the model has other values than when "
                "the source was first read: a source must give the same columns, with the same rows, each time"
            )
