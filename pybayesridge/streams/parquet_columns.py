"""Columns of X in Parquet files: as rows of the files (transposed), or as their columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, IntArray
from pybayesridge.data.blocks import sample_columns, wrong_rows
from pybayesridge.streams.columns import BLOCK_BYTES, Block, Reader, ahead
from pybayesridge.streams.parquet import intact, readable
from pybayesridge.text import listed, repeated


def parquet_reader(source: Any, n: int, *, transposed: bool, names_in: str | None, labels: pd.Index | None) -> Reader:
    """A reader of files whose rows (`transposed`) or columns are the columns of X."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'pybayesridge[stream]'") from error
    files = []
    for path in _paths(source):
        with readable(path):
            files.append(pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True))
    if transposed:
        return TransposedFiles(files, n, names_in, labels)
    return WideFiles(files, n)


def _paths(source: Any) -> list[Path]:
    several = source if isinstance(source, list | tuple) else [source]
    out: list[Path] = []
    for one in several:
        path = Path(os.fspath(one))
        if path.is_dir():
            found = sorted(path.glob("*.parquet"))
            if not found:
                raise ValueError(f"the folder {path} holds no file with the suffix .parquet")
            out += found
            continue
        if path.suffix in (".npy", ".zarr", ".h5", ".hdf5", ".csv"):
            raise ValueError(
                f"{path} is not a Parquet file: open it and pass the array (np.load(path, mmap_mode='r') for .npy, "
                "zarr.open_array, h5py.File(path)[name]), or a function that returns blocks of columns"
            )
        out.append(path)
    return out


class TransposedFiles:
    """Files with a row for each column of X, and a column for each observation."""

    def __init__(self, files: Sequence[Any], n: int, names_in: str | None, labels: pd.Index | None) -> None:
        self.files, self.n, self.names_in = files, n, names_in
        self.total: int | None = sum(file.metadata.num_rows for file in files)
        self.columns = [self._columns(file, labels) for file in files]

    def _columns(self, file: Any, labels: pd.Index | None) -> list[str]:
        schema = file.schema_arrow
        index = {name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)}
        known = [name for name in schema.names if name == self.names_in or name not in index]
        if self.names_in is not None and self.names_in not in known:
            raise ValueError(f"names={self.names_in!r} is not a column of the source: it has {listed(known)}")
        columns = sample_columns(known, self.names_in, labels)
        _check_numbers(schema, columns)
        if len(columns) != self.n:
            rows = file.metadata.num_rows
            raise ValueError(wrong_rows((len(columns), rows), self.n, transposed=True))
        return columns

    def blocks(self, wanted: IntArray | None) -> Iterator[Block]:
        """Some rows of a row group at a time."""
        start = 0
        size = max(1, BLOCK_BYTES // (8 * self.n))
        for file, columns in zip(self.files, self.columns, strict=True):
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if wanted is not None and not _any_in(wanted, start, start + rows):
                    start += rows
                    continue
                read = columns if self.names_in is None else [*columns, self.names_in]
                batches = file.iter_batches(batch_size=size, row_groups=[group], columns=read, use_threads=False)
                for batch in intact(batches, "the source"):
                    names = None
                    if self.names_in is not None:
                        names = [str(name) for name in batch.column(self.names_in).to_pylist()]
                    yield start, _rows_of(batch, columns), names
                    start += batch.num_rows


class WideFiles:
    """Files whose columns are those of X; the files stand side by side."""

    def __init__(self, files: Sequence[Any], n: int) -> None:
        self.files, self.n = files, n
        self.names: list[tuple[int, str]] = []
        for i, file in enumerate(files):
            schema = file.schema_arrow
            index = {
                name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)
            }
            columns = [name for name in schema.names if name not in index]
            if file.metadata.num_rows != n:
                raise ValueError(wrong_rows((file.metadata.num_rows, len(columns)), n, transposed=False))
            _check_numbers(schema, columns)
            self.names += [(i, name) for name in columns]
        twice = repeated([name for _, name in self.names])
        if twice:
            raise ValueError(
                f"the column(s) {listed(twice)} are in several files: files are read side by side, each with other "
                "columns of the same rows"
            )
        self.total: int | None = len(self.names)

    def blocks(self, wanted: IntArray | None) -> Iterator[Block]:
        """As many columns at a time as make a block, one block read while the one before is worked on."""
        step = max(1, BLOCK_BYTES // (8 * self.n))
        parts = []
        for i in range(len(self.files)):
            at = [j for j, (file, _) in enumerate(self.names) if file == i]
            starts = range(at[0], at[-1] + 1, step) if at else ()
            parts += [(a, min(a + step, at[-1] + 1)) for a in starts]
        parts = [part for part in parts if wanted is None or _any_in(wanted, *part)]
        yield from ahead(self._block, parts)

    def _block(self, start: int, stop: int) -> Block:
        names = [name for _, name in self.names[start:stop]]
        with readable("the source"):
            table = self.files[self.names[start][0]].read(columns=names, use_threads=False)
        arrays = [table.column(name).to_numpy() for name in names]
        out = np.empty((self.n, len(names)), dtype=np.result_type(*arrays), order="F")
        for j, array in enumerate(arrays):
            out[:, j] = array
        return start, out, names


def _rows_of(batch: Any, columns: Sequence[str]) -> AnyArray:
    """The columns of a batch as rows of an array."""
    arrays = [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
    out = np.empty((len(arrays), batch.num_rows), dtype=np.result_type(*arrays))
    for i, array in enumerate(arrays):
        out[i] = array
    return out


def _check_numbers(schema: Any, columns: Sequence[str]) -> None:
    """Refuse columns that are not numbers, and names of several columns of a file."""
    import pyarrow as pa

    known = set(columns)
    twice = repeated(name for name in schema.names if name in known)
    if twice:
        raise ValueError(f"a file of the source has several columns of the name {listed(twice)}")

    def is_number(kind: Any) -> bool:
        return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)

    odd = [name for name in columns if not is_number(schema.field(name).type)]
    if odd:
        raise ValueError(
            f"column(s) {listed(odd)} of the source are not numbers. With transposed=True pass names= for the column "
            "with the names, and endog as a Series whose labels are the names of the other columns to read"
        )


def _any_in(wanted: IntArray, start: int, stop: int) -> bool:
    first, last = np.searchsorted(wanted, [start, stop])
    return bool(first < last)
