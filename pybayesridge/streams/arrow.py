"""Objects with the Arrow stream protocol as rows in batches: tables, readers, relations, lazy frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pybayesridge.data.frames import without_order
from pybayesridge.streams.schemas import is_dictionary


class ArrowSource:
    """The rows of a stream; attributes as in :class:`pybayesridge.streams.passes.BatchSource`."""

    def __init__(self, data: Any) -> None:
        _pyarrow()
        self._new = _opener(data)
        self.once = type(data).__name__ if hasattr(data, "__next__") else ""
        self._first: Stream | None = self._new()
        self.schema = self._first.schema
        self._n_rows = data.num_rows if isinstance(getattr(data, "num_rows", None), int) else None
        self.unordered = without_order(self.schema)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where the object states it."""
        return self._n_rows

    def check(self, columns: Iterable[str]) -> None:
        """Nothing to refuse: the batches of a stream have one schema."""

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Record batches of `size` rows of these columns, the last of fewer."""
        stream, self._first = self._first or self._new(), None
        names = stream.schema.names
        for name in columns:
            before = self.schema.types[self.schema.names.index(name)]
            if name not in names or stream.schema.types[names.index(name)] != before:
                raise ValueError(f"the column {name!r} of the second stream is not that of the first ({before})")
        return _of_size((_plain(batch, columns) for batch in stream.batches), size)


class Stream:
    """One reading of the rows.

    Attributes
    ----------
    schema : pyarrow.Schema
    batches : iterator of pyarrow.RecordBatch
    """

    def __init__(self, schema: Any, batches: Iterable[Any]) -> None:
        self.schema, self.batches = schema, iter(batches)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("Arrow streams need pyarrow: pip install 'pybayesridge[stream]'") from error
    return pa


def _opener(data: Any) -> Callable[[], Stream]:
    """A function that starts to read the rows."""
    if _is_stream(data):
        return lambda: _opened(data)
    if isinstance(data, str | os.PathLike):
        raise ValueError(
            f"data must be an object with Arrow's stream protocol, not a path ({data!r}): use from_parquet"
        )
    if hasattr(data, "get_fragments"):
        raise ValueError("data must be an object with Arrow's stream protocol, not a dataset: use from_parquet")
    if not callable(data):
        raise _not_a_stream(data, "data")

    def new() -> Stream:
        made = data()
        if not _is_stream(made):
            raise _not_a_stream(made, "the object that the function returns")
        return _opened(made)

    return new


def _is_stream(data: Any) -> bool:
    return not isinstance(data, type) and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect_batches"))


def _not_a_stream(data: Any, what: str) -> ValueError:
    return ValueError(
        f"{what} must have Arrow's stream protocol (the method __arrow_c_stream__), as tables of pyarrow, frames of "
        f"polars and relations of DuckDB do, not {type(data).__name__}"
    )


def _opened(data: Any) -> Stream:
    pa = _pyarrow()
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Stream(reader.schema, reader)
    # A lazy frame of polars.
    empty = pa.RecordBatchReader.from_stream(data.collect_schema().to_frame())
    frames = data.collect_batches(maintain_order=True)
    return Stream(empty.schema, (batch for frame in frames for batch in pa.RecordBatchReader.from_stream(frame)))


def _plain(batch: Any, columns: list[str]) -> Any:
    """These columns of a batch, in types that every function of pyarrow knows."""
    return _pyarrow().RecordBatch.from_arrays([_plain_text(batch.column(name)) for name in columns], names=columns)


def _plain_text(column: Any) -> Any:
    """Views of text, also as values of a dictionary, as text."""
    pa = _pyarrow()
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        values = column.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(column.indices, values, ordered=column.type.ordered)
    return column


def _of_size(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """The same rows in batches of `size` rows, the last of fewer; large ones are cut without copying."""
    pa = _pyarrow()
    kept: list[Any] = []
    rows = 0
    for batch in batches:
        start = 0
        while rows + batch.num_rows - start >= size:
            stop = start + size - rows
            yield _joined(pa, [*kept, batch.slice(start, stop - start)])
            kept, rows, start = [], 0, stop
        if start < batch.num_rows:
            kept.append(batch.slice(start))
            rows += batch.num_rows - start
    if kept:
        yield _joined(pa, kept)


def _joined(pa: Any, batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]
