"""What the user gives as columns: an array, blocks, a function that returns blocks, Parquet files or a Dask array."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from pybayesridge.streams.columns import ArrayReader, BlockReader, ReadColumns, Reader


def open_columns(
    source: Any,
    n: int,
    *,
    first: int,
    labels: pd.Index | None,
    names: str | Sequence[str] | None,
    transposed: bool,
    progress: bool | None,
) -> Any:
    """The columns of whatever the user gives as `source`; arguments as for ``BayesRidge.from_columns``.

    Returns
    -------
    ColumnStream with the attribute ``names``

    Raises
    ------
    ValueError
        For a source that can be read only once, or is none.
    """
    names_in = names if isinstance(names, str) else None
    if names_in is not None and not transposed:
        raise ValueError(
            "names must be a sequence with a name for each column; the name of a column that holds them is for "
            "transposed=True"
        )
    given = None if names is None or names_in is not None else [str(name) for name in names]
    if hasattr(source, "compute_chunk_sizes"):
        from pybayesridge.streams.dask_columns import DaskColumns

        return DaskColumns(source, n, first, given, transposed=transposed)
    options: dict[str, Any] = {"transposed": transposed, "names_in": names_in, "labels": labels}
    reader: Reader
    if is_path(source):
        from pybayesridge.streams.parquet_columns import parquet_reader

        reader = parquet_reader(source, n, **options)
    elif _is_array(source):
        if names_in is not None:
            raise ValueError(f"names={names_in!r} is the name of a column, and the source has none: give the names")
        reader = ArrayReader(source, n, transposed=transposed)
    else:
        reader = BlockReader(_function_of(source), n, **options)
    return ReadColumns(reader, n, first, given, progress)


def is_path(source: Any) -> bool:
    """Whether a source is the name of a file, or a list of such names."""
    several = isinstance(source, list | tuple) and len(source) > 0
    return all(isinstance(one, str | os.PathLike) for one in (source if several else [source]))


def _is_array(source: Any) -> bool:
    sliced = hasattr(source, "dtype") and hasattr(source, "__getitem__") and hasattr(source, "shape")
    return sliced and len(source.shape) == 2


def _function_of(source: Any) -> Callable[[], Iterable[Any]]:
    """The function that returns the blocks for each pass."""
    if hasattr(source, "columns") or hasattr(source, "__dataframe__"):
        return lambda: [source]
    if callable(source):
        function: Callable[[], Iterable[Any]] = source

        def opened() -> Iterable[Any]:
            found = function()
            if not hasattr(found, "__iter__") or _is_array(found):
                raise ValueError(
                    "the function that is the source must return an iterator of blocks (n, b), and returned an "
                    f"object of type {type(found).__name__}"
                )
            return found

        return opened
    if hasattr(source, "__next__"):
        raise ValueError(
            f"the source is an object of type {type(source).__name__} that can be read only once, and coefficients "
            "require another pass: pass a function without arguments that returns a new iterator of the blocks"
        )
    if isinstance(source, str | bytes) or not hasattr(source, "__iter__"):
        raise ValueError(
            "source must be an array, a list of blocks of columns, a function that returns an iterator of such "
            f"blocks, or Parquet files, not an object of type {type(source).__name__}"
        )
    blocks: Iterable[Any] = source
    return lambda: blocks
