"""Columns of X that are read in blocks: of arrays on disk, of lists and functions of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, IntArray
from pybayesridge.data.arrays import check_finite, is_finite
from pybayesridge.data.blocks import as_block, wrong_rows
from pybayesridge.data.prepare import array_names
from pybayesridge.design.columns import ColumnStream
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.design.wide import WideProducts
from pybayesridge.streams.bar import progress_bar

BLOCK_BYTES = 1 << 24
"""Target size of a block that is read at once, in the dtype of the source."""

MANY_CHUNKS = 8
"""Chunks of an array are read whole unless they are so many times larger than a block should be."""

Block = tuple[int, AnyArray, list[str] | None]
"""Position of the first column, the columns (n, b), their names."""


class Reader(Protocol):
    """A source of columns.

    Attributes
    ----------
    total : int or None
        Number of columns, where it is known before they are read.
    """

    total: int | None

    def blocks(self, wanted: IntArray | None) -> Iterator[Block]:
        """The blocks, from the first column on; those without any of the columns `wanted` may be left out."""


class ReadColumns(ColumnStream):
    """Columns that are read here.

    Parameters
    ----------
    reader : Reader
    n : int
        Rows.
    first : int
        Unpenalised columns that precede them.
    names : sequence of str or None
        Names of the columns, where they are given.
    progress : bool or None
        Whether to show a bar.

    Attributes
    ----------
    names : list of str
        Known after the first pass.
    """

    def __init__(
        self, reader: Reader, n: int, first: int, names: Sequence[str] | None, progress: bool | None
    ) -> None:
        self.reader, self.first, self.progress = reader, first, progress
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        self.shape = (n, first)
        self._found: list[str] = []
        self._known = False
        self._read = False

    def products(self, block: Unpenalized, *, standardize: bool) -> WideProducts:
        """What the model needs of the columns, by the first pass over them."""
        out = super().products(block, standardize=standardize)
        if not self._read:
            self._settle()
        return out

    def blocks(self, wanted: IntArray | None = None) -> Iterator[tuple[int, AnyArray]]:
        """Yield blocks, checked in the first pass; the later ones have to give the same columns."""
        inner = None if wanted is None else wanted - self.first
        seen = 0
        with progress_bar(self._total, "columns", self.progress, "columns") as bar:
            for start, block, names in self.reader.blocks(inner):
                if not self._read:
                    self._take(start, block, names)
                elif self._known and names is not None and names != self._found[start : start + len(names)]:
                    raise _changed("columns of other names, or in another order")
                seen += block.shape[1]
                yield start + self.first, block
                bar.update(block.shape[1])
        if not self._read:
            self.shape = (self.shape[0], self.first + seen)
        elif wanted is None and seen != self.shape[1] - self.first:
            raise _changed(f"{seen:,} columns, and {self.shape[1] - self.first:,} before")

    @property
    def _total(self) -> int | None:
        return self.shape[1] - self.first if self._read else self.reader.total

    def _take(self, start: int, block: AnyArray, names: list[str] | None) -> None:
        """Check a block of the first pass, and keep its names."""
        if start == 0:
            self._known = names is not None
        if (names is not None) != self._known:
            raise ValueError("some blocks of the source have names of columns and some have none: name all or none")
        if names is not None:
            self._found += names
        check_block(block, start, names if self.names is None else self.names[start : start + block.shape[1]])

    def _settle(self) -> None:
        """Names of all columns, after the first pass."""
        p = self.shape[1] - self.first
        if p == 0:
            raise ValueError("the source has no columns: use BayesRidge(endog, exog) for a model of covariates alone")
        self.names = names_for(self.names, self._found if self._known else None, p)
        self._read = True


def names_for(given: list[str] | None, found: list[str] | None, p: int) -> list[str]:
    """Names of p columns: those given, those found in the source, or x1, x2, and so on."""
    if given is None:
        return array_names(p, None) if found is None else found
    if len(given) != p:
        raise ValueError(f"names has {len(given):,} entries for {p:,} columns of the source")
    return given


def check_block(block: AnyArray, start: int, names: Sequence[str] | None) -> None:
    """Refuse NaN and infinities, naming the columns."""
    if is_finite(block):
        return
    named = names if names else [f"x{start + j + 1}" for j in range(block.shape[1])]
    try:
        check_finite(block, named, "the source")
    except ValueError as error:
        raise ValueError(str(error).partition(" (missing=")[0]) from None


def check_width(block: AnyArray, width: int, where: str) -> None:
    """Refuse a part of an array that has not as many columns of X as its shape or its chunks say."""
    if block.shape[1] != width:
        raise ValueError(
            f"the source {where} has {block.shape[1]:,} columns of X instead of {width:,}: pass an array whose parts "
            "are what its shape says, or a function that returns an iterator of blocks"
        )


def _changed(how: str) -> ValueError:
    return ValueError(f"the source gave {how} when it was read again: it must give the same columns each time")


class ArrayReader:
    """Columns of anything with ``shape``, ``dtype`` and slices; `array` has the samples in its rows or columns."""

    def __init__(self, array: Any, n: int, *, transposed: bool) -> None:
        self.array, self.n, self.transposed = array, n, transposed
        shape = tuple(int(size) for size in array.shape)
        rows, p = shape[::-1] if transposed else shape
        self.total: int | None = p
        if rows != n:
            raise ValueError(wrong_rows((rows, p), n, transposed=transposed))
        self.p = p

    def blocks(self, wanted: IntArray | None) -> Iterator[Block]:
        """Blocks of whole chunks, one read while the one before is worked on."""
        step = self._step()
        starts = [a for a in range(0, self.p, step) if wanted is None or _any_in(wanted, a, a + step)]
        yield from ahead(self._block, [(a, min(a + step, self.p)) for a in starts])

    def _block(self, start: int, stop: int) -> Block:
        part = self.array[start:stop, :] if self.transposed else self.array[:, start:stop]
        block = as_block(part, self.n, transposed=self.transposed)[0]
        wanted = f"[{start}:{stop}, :]" if self.transposed else f"[:, {start}:{stop}]"
        check_width(block, stop - start, f"has shape {tuple(self.array.shape)}, and its {wanted}")
        return start, block, None

    def _step(self) -> int:
        size = np.dtype(self.array.dtype).itemsize
        most = max(1, BLOCK_BYTES // max(1, size * self.n))
        chunks = getattr(self.array, "chunks", None)
        chunk = chunks[0 if self.transposed else 1] if isinstance(chunks, tuple) and len(chunks) == 2 else None
        if not isinstance(chunk, int | np.integer) or chunk < 1 or chunk > MANY_CHUNKS * most:
            return most
        return max(int(chunk), most // int(chunk) * int(chunk))


class BlockReader:
    """Columns of blocks that a function returns anew for each pass."""

    total: int | None = None

    def __init__(
        self,
        opened: Callable[[], Iterable[Any]],
        n: int,
        *,
        transposed: bool,
        names_in: str | None,
        labels: pd.Index | None,
    ) -> None:
        self.opened, self.n = opened, n
        self.options: dict[str, Any] = {"transposed": transposed, "names_in": names_in, "labels": labels}

    def blocks(self, wanted: IntArray | None) -> Iterator[Block]:
        """The blocks."""
        start = 0
        for obj in self.opened():
            block, names = as_block(obj, self.n, **self.options)
            yield start, block, names
            start += block.shape[1]


def ahead(read: Callable[[int, int], Block], parts: Sequence[tuple[int, int]]) -> Iterator[Block]:
    """Read parts in turn, each in a thread while the one before is worked on."""
    if len(parts) < 2:
        yield from (read(*part) for part in parts)
        return
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, *parts[0])
        for part in parts[1:]:
            found = waiting.result()
            waiting = pool.submit(read, *part)
            yield found
            del found
        yield waiting.result()


def _any_in(wanted: IntArray, start: int, stop: int) -> bool:
    first, last = np.searchsorted(wanted, [start, stop])
    return bool(first < last)
