"""Columns that are not in memory but read in blocks, each time they are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.design.wide import WideProducts, wide_products

Shared = TypeVar("Shared")
Own = TypeVar("Own")
Answer = TypeVar("Answer")

SAME = 1e-6
"""Relative difference of a standard deviation between two passes that rounding errors do not explain."""

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
    center, scale, sd : (b,) arrays
    projection : (k, b) array or None
    """

    first: int
    part: IntArray
    columns: IntArray
    center: FloatArray
    scale: FloatArray
    sd: FloatArray
    projection: FloatArray | None

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
            self._check(piece[:, 0], some.start, block)
            out: FloatArray = piece - self.center[some]
            if self.projection is not None:
                out -= block.z @ self.projection[:, some]
            out /= self.scale[some]
            yield some, block.weigh(out)

    def _check(self, column: AnyArray, at: int, block: Unpenalized) -> None:
        """Compare the standard deviation of a column with that of the first pass."""
        share = 1.0 if block.sqrt_w is None else block.sqrt_w**2
        values = column.astype(np.float64)
        unit = float(np.abs(values).max()) or 1.0
        values = values / unit
        deviation = values - (share * values).mean()
        sd = float(np.sqrt((share * deviation**2).mean())) * unit
        if not abs(sd - self.sd[at]) <= SAME * (self.sd[at] + SAME * unit):
            raise ValueError(
                f"column {self.first + self.columns[at] + 1:,} of the model has other values than when the source "
                "was first read: a source must give the same columns each time"
            )
