"""Tables in files: CSV, TSV and Parquet in; predictions out."""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from pybayesridge.cli.as_json import finite
from pybayesridge.data.frames import without_order
from pybayesridge.files import written_whole
from pybayesridge.text import listed

PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".dta", ".sav", ".sas7bdat", ".rds", ".rda", ".json", ".feather")
"""Files of other programs, which cannot be read as text."""

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")

SEPARATORS = (";", "\t", "|", ",")

DECIMAL_COMMA = r"\s*[+-]?\d*,?\d+(?:[eE][+-]?\d+)?\s*"
"""A number with a decimal comma, or a whole one."""

THOUSANDS = r"\s*[+-]?\d{1,3}(?:,\d{3})*(?:\.\d*)?\s*"
"""A number whose commas may separate thousands."""

QUOTE, BYTE_ORDER_MARK = '"', "\ufeff"

OTHER_ENCODING = "--encoding latin-1"

MOSTLY = 0.5
"""A column of text of whose values more than this share are numbers is suspicious."""


def _last_suffix(path: str) -> str:
    """The end of a file's name, that of a compression left out."""
    suffixes = [s.lower() for s in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def kind_of(path: str) -> str:
    """Which of "csv", "tsv" and "parquet" a file is, from the end of a file's name."""
    last = _last_suffix(path)
    return "parquet" if last in PARQUET else "tsv" if last in TABS else "csv"


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How a text file is written, None where the user did not say.

    Attributes
    ----------
    sep, decimal, encoding : str or None
        By default the separator that goes with the file's name, a point, UTF-8.
    na_values : tuple of str
        Text that means missing, besides pandas' own.
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na_values: tuple[str, ...] = ()


def read_table(path: str, form: TextFormat = TextFormat(), text: Sequence[str] = ()) -> pd.DataFrame:
    """A table from a file, or as CSV from standard input where `path` is ``-``.

    A first column without a name holds row labels, as R and pandas write them. The columns `text` of a text file are
    text even where all their values look like numbers.

    Raises
    ------
    ValueError
        If there is no table in the file, two columns have one name, or the file is not as `form` says.
    OSError
        If the file cannot be read.
    ImportError
        If Parquet is to be read without pyarrow.
    """
    if path != "-" and Path(path).is_dir():
        raise ValueError(f"{path} is a directory: give a CSV, TSV or Parquet file")
    if _last_suffix(path) in SPREADSHEETS:
        raise ValueError(f"{path} is not a CSV, TSV or Parquet file by its name: export it as one of these")
    encoding = form.encoding or "utf-8"
    try:
        frame = _read_parquet(path) if kind_of(path) == "parquet" else _read_text(path, form, text)
    except EmptyDataError:
        raise ValueError(f"{path} is empty") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"{path} cannot be read as a table: {error}") from None
    except UnicodeError as error:
        where = f" ({error.reason} at byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise ValueError(
            f"{path} is not {encoding.upper()} text{where}: name its encoding, such as {OTHER_ENCODING}"
        ) from None
    except (ParserError, ParserWarning, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None
    if frame.shape[1] == 0:
        raise ValueError(f"{path} has no columns")
    return frame


def _read_parquet(path: str) -> pd.DataFrame:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'pybayesridge[parquet]'") from None
    try:
        frame = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
        as_text = without_order(pq.read_schema(path)) & set(frame.columns)
    except OSError:
        raise
    except Exception as error:  # pyarrow's errors share no public class that pandas names
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
    _refuse_duplicates(path, [str(name) for name in frame.columns])
    return frame.astype(dict.fromkeys(as_text, object)) if as_text else frame


def _read_text(path: str, form: TextFormat, text: Sequence[str]) -> pd.DataFrame:
    separator = form.sep or ("\t" if kind_of(path) == "tsv" else ",")
    if separator == form.decimal:
        raise ValueError(f"fields cannot be separated by the decimal sign {separator!r}: give --sep, such as ';'")
    source: Any = _stdin() if path == "-" else path
    options: dict[str, Any] = {"sep": separator, "encoding": form.encoding or "utf-8"}
    names = _header(source, options)
    if "\0" in "".join(names):
        raise ValueError(f"{path} is not a text file")
    _refuse_other_separator(path, names, separator)
    _refuse_duplicates(path, names)
    if path == "-":
        source.seek(0)
    with warnings.catch_warnings():
        # Rows longer than the header would lose their last fields.
        warnings.simplefilter("error", ParserWarning)
        return pd.read_csv(
            source,
            index_col=0 if names[0] == "" else False,
            na_values=list(form.na_values),
            low_memory=False,
            decimal=form.decimal or ".",
            dtype=dict.fromkeys(text, str),
            **options,
        )


def _header(source: Any, options: dict[str, Any]) -> list[str]:
    """The fields of the first line, as they are: pandas would number repeated names."""
    plain = isinstance(source, str) and not source.lower().endswith((*COMPRESSED, ".tar")) and "://" not in source
    if plain and len(options["sep"]) == 1:
        with open(os.path.expanduser(source), encoding=options["encoding"], newline="") as file:
            line = file.readline()
        if QUOTE not in line and line.strip():
            return line.removeprefix(BYTE_ORDER_MARK).rstrip("\r\n").split(options["sep"])
    # Quoted names, compressed files and standard input are left to pandas, which is slow for many columns.
    header = pd.read_csv(source, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    return [str(name) for name in header.iloc[0]]


def _stdin() -> io.StringIO | io.BytesIO:
    buffer = getattr(sys.stdin, "buffer", None)
    return io.StringIO(sys.stdin.read()) if buffer is None else io.BytesIO(buffer.read())


def _refuse_duplicates(path: str, names: list[str]) -> None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise ValueError(f"{path} has duplicate column name(s) {listed(twice)}: give every column a name of its own")


def _refuse_other_separator(path: str, names: list[str], separator: str) -> None:
    """A header that is one field with another separator in it was written with that one."""
    if len(names) != 1:
        return
    for other in SEPARATORS:
        if other != separator and other in names[0]:
            shown = "tab" if other == "\t" else f"{other!r}"
            raise ValueError(
                f"{path} has one column, {names[0][:60]!r}: if its fields end at another sign, use --sep {shown}"
            )


def _text_columns(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Those of the columns named that hold neither numbers nor a declared factor."""
    text = set(frame.columns[[not _numbers_or_factor(dtype) for dtype in frame.dtypes]])
    return [name for name in names if name in text]


def _numbers_or_factor(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype)


def with_commas(frame: pd.DataFrame, names: Sequence[str], number: str) -> list[str]:
    """Names of the columns of text in which every value is such a number, and some have a comma."""
    out = []
    for name in _text_columns(frame, names):
        given = frame[name].dropna().astype(str)
        if len(given) and given.str.fullmatch(number).all() and given.str.contains(",", regex=False).any():
            out.append(name)
    return out


def numbers_among_text(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Sentences about columns of text that are mostly numbers, and would be taken as factors."""
    out = []
    for name in _text_columns(frame, names):
        given = frame[name].dropna()
        text = given[pd.to_numeric(given, errors="coerce").isna().to_numpy()]
        if 0 < len(text) < (1 - MOSTLY) * len(given):
            out.append(
                f"column {name!r} has text among its numbers ({listed(text.unique().tolist())}) and is taken as a "
                "factor: if that means missing, say so with --na"
            )
    return out


def output_kind(path: str | None) -> str:
    """Which of "csv", "tsv", "parquet" and "json" to write, by the end of the file's name.

    Raises
    ------
    ValueError
        For any other name.
    """
    if path is None:
        return "csv"
    last = _last_suffix(path)
    kinds = {".csv": "csv", **dict.fromkeys(TABS, "tsv"), **dict.fromkeys(PARQUET, "parquet"), ".json": "json"}
    kind = kinds.get(last)
    if kind is None or (kind in ("parquet", "json") and Path(path).suffix.lower() in COMPRESSED):
        raise ValueError(f"--output {path}: name a file that ends in .csv, .tsv, .parquet or .json")
    return kind


def write_table(frame: pd.DataFrame, path: str | None) -> None:
    """Write a table by the end of the file's name, or as CSV to standard output."""
    labelled = not isinstance(frame.index, pd.RangeIndex)
    kind = output_kind(path)
    if path is None:
        _write_text(frame, sys.stdout, ",", labelled)
        return
    with written_whole(path) as file:
        if kind == "json":
            file.write(_records(frame, labelled=labelled).encode("utf-8"))
            return
        if kind != "parquet":
            _write_text(frame, file, "\t" if kind == "tsv" else ",", labelled, _compression(path))
            return
        try:
            frame.to_parquet(file, engine="pyarrow", index=labelled, write_page_checksum=True)
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


def _records(frame: pd.DataFrame, *, labelled: bool) -> str:
    """A JSON array with an object for each row, null where a number is missing."""
    rows = [
        ({"row": str(label)} if labelled else {}) | {str(name): finite(value) for name, value in row.items()}
        for label, row in zip(frame.index, frame.to_dict("records"), strict=True)
    ]
    return json.dumps(rows, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
