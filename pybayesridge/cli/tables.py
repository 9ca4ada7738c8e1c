"""Tables in files: CSV, TSV and Parquet in; predictions out."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from pybayesridge.data import listed
from pybayesridge.files import written_whole

PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")

MOSTLY = 0.5
"""A column of text of whose values more than this share are numbers is suspicious."""


def kind_of(path: str) -> str:
    """Which of "csv", "tsv" and "parquet" a file is, from the end of a file's name."""
    suffixes = [s.lower() for s in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return "parquet" if last in PARQUET else "tsv" if last in TABS else "csv"


def read_table(path: str, na_values: Sequence[str] = (), text: Sequence[str] = ()) -> pd.DataFrame:
    """A table from a file, or as CSV from standard input where `path` is ``-``.

    A first column without a name holds row labels, as R and pandas write them. The columns `text` of a text file are
    text even where all their values look like numbers.

    Raises
    ------
    ValueError
        If there is no table in the file, or two columns have one name.
    OSError
        If the file cannot be read.
    ImportError
        If Parquet is to be read without pyarrow.
    """
    if path != "-" and Path(path).is_dir():
        raise ValueError(f"{path} is a directory: a CSV, TSV or Parquet file is wanted")
    try:
        frame = _read_parquet(path) if kind_of(path) == "parquet" else _read_text(path, na_values, text)
    except EmptyDataError:
        raise ValueError(f"{path} is empty") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except (ParserError, ParserWarning, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None
    if frame.shape[1] == 0:
        raise ValueError(f"{path} has no columns")
    return frame


def _read_parquet(path: str) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'pybayesridge[parquet]'") from None
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except OSError:
        raise
    except Exception as error:  # pyarrow's errors share no public class that pandas names
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def _read_text(path: str, na_values: Sequence[str], text: Sequence[str]) -> pd.DataFrame:
    separator = "\t" if kind_of(path) == "tsv" else ","
    source: Any = io.StringIO(sys.stdin.read()) if path == "-" else path
    header = pd.read_csv(source, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
    names = [str(name) for name in header.iloc[0]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has duplicate column name(s) {listed(twice)}: give every column a name of its own")
    if path == "-":
        source.seek(0)
    labelled = names[0] == ""
    with warnings.catch_warnings():
        # Rows longer than the header would lose their last fields.
        warnings.simplefilter("error", ParserWarning)
        return pd.read_csv(
            source,
            sep=separator,
            index_col=0 if labelled else False,
            na_values=list(na_values),
            low_memory=False,
            dtype=dict.fromkeys(text, str),
        )


def numbers_among_text(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Sentences about columns of text that are mostly numbers, and would be taken as factors."""
    out = []
    for name in names:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
            continue
        given = column.dropna()
        text = given[pd.to_numeric(given, errors="coerce").isna().to_numpy()]
        if 0 < len(text) < (1 - MOSTLY) * len(given):
            out.append(
                f"column {name!r} has text among its numbers ({listed(text.unique().tolist())}) and is taken as a "
                "factor: if that means missing, say so with --na"
            )
    return out


def write_table(frame: pd.DataFrame, path: str | None) -> None:
    """Write a table by the end of the file's name, or as CSV to standard output."""
    labelled = not isinstance(frame.index, pd.RangeIndex)
    if path is None:
        _write_text(frame, sys.stdout, ",", labelled)
        return
    with written_whole(path) as file:
        if kind_of(path) != "parquet":
            _write_text(frame, file, "\t" if kind_of(path) == "tsv" else ",", labelled, _compression(path))
            return
        try:
            frame.to_parquet(file, engine="pyarrow", index=labelled)
        except ImportError:
            raise ImportError("writing Parquet needs pyarrow: pip install 'pybayesridge[parquet]'") from None


def _write_text(frame: pd.DataFrame, target: Any, separator: str, labelled: bool, compression: Any = None) -> None:
    frame.to_csv(
        target,
        sep=separator,
        index=labelled,
        lineterminator="\n",
        quoting=csv.QUOTE_MINIMAL,
        mode="w" if target is sys.stdout else "wb",
        compression=compression,
    )


def _compression(path: str) -> Any:
    """How pandas is to compress a file of that name."""
    name = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}.get(Path(path).suffix.lower())
    if name == "zip":
        return {"method": name, "archive_name": Path(path).stem}
    return name
