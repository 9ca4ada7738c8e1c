"""Tables written to Parquet or CSV some rows at a time."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import pandas as pd

from pybayesridge._types import PathLike
from pybayesridge.files import written_whole

SUFFIXES = (".parquet", ".csv")


def write_table(path: PathLike, pieces: Iterable[Mapping[str, Any]], kind: str) -> None:
    """Write columns that come some rows at a time; the file is there once all of it is written.

    Parameters
    ----------
    path : str or os.PathLike
    pieces : iterable of mappings
        Columns by name, the same ones in each.
    kind : str
        One of `SUFFIXES`.
    """
    with written_whole(path) as file:
        if kind == ".csv":
            _write_csv(file, pieces)
        else:
            _write_parquet(file, pieces)


def suffix_of(path: PathLike) -> str:
    """The suffix of a file, or a ValueError for one that tables are not written to."""
    kind = PurePath(path).suffix.lower() if isinstance(path, str | PurePath) or hasattr(path, "__fspath__") else ""
    if kind not in SUFFIXES:
        raise ValueError(f"the name of the file must end in .parquet or .csv, which {str(path)!r} does not")
    if kind == ".parquet":
        _pyarrow()
    return kind


def _write_csv(file: Any, pieces: Iterable[Mapping[str, Any]]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    for i, piece in enumerate(pieces):
        pd.DataFrame(dict(piece)).to_csv(text, index=False, header=i == 0, lineterminator="\n")
    text.detach()


def _write_parquet(file: Any, pieces: Iterable[Mapping[str, Any]]) -> None:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    tables = _tables(pa, pieces)
    first = next(tables)
    with pq.ParquetWriter(file, first.schema, write_page_checksum=True) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _tables(pa: Any, pieces: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    for piece in pieces:
        yield pa.table(dict(piece))


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install 'pybayesridge[stream]'") from error
    return pa
