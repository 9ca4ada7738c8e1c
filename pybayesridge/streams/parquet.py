"""Parquet files and datasets, a batch at a time: the only file that knows pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.formula.spec import Context, FormulaData, warn_of_levels
from pybayesridge.moments.moments import Moments
from pybayesridge.streams.coding import Survey, make_coding, survey
from pybayesridge.streams.plan import StreamPlan, make_plan
from pybayesridge.streams.schemas import check_files, common_schema, is_text

SAMPLE = 64
"""Rows that show the types of the columns."""

READAHEAD = 2
"""Batches that are read while one is worked on."""


@dataclass(slots=True)
class Pass:
    """One pass over a dataset's complete rows.

    Attributes
    ----------
    n_dropped : int
        Rows with a missing value that were left out.
    missing : dict
        Missing values in each column.
    """

    n_dropped: int
    missing: dict[str, int]

    def where_missing(self) -> str:
        """Columns with missing values, and their numbers."""
        return ", ".join(f"{name!r} ({count})" for name, count in list(self.missing.items())[:5])


def moments_of_parquet(
    source: Any,
    formula: str,
    *,
    weights: str | None,
    levels: Mapping[str, Iterable[Any]] | None,
    drop_cols: Iterable[str] | None,
    missing: str,
    batch_size: int,
    progress: bool | None,
    context: Context | None,
) -> tuple[Moments, FormulaData]:
    """Moments of a formula's columns; arguments as for :meth:`pybayesridge.BayesRidge.from_parquet`."""
    if missing not in ("drop", "raise"):
        raise ValueError(f"missing must be 'drop' or 'raise', not {missing!r}")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f"batch_size must be a positive integer, not {batch_size!r}")
    dataset = _dataset(source)
    names = [name for name in dataset.schema.names if name not in _index_columns(dataset.schema)]
    numeric = {name: _is_numeric(dataset.schema, name) for name in names}
    plan = make_plan(formula, names, numeric, weights=weights, levels=levels, context=context)
    check_files(dataset, plan.columns, own=dataset is not source)
    _check_types(dataset.schema, plan.columns)
    reader = _Reader(dataset, plan, int(batch_size), progress, own=dataset is not source)
    found = Survey()
    if plan.needs_survey:
        for part in reader.frames("levels and means", lambda frame: survey(plan, frame)):
            found = found.merge(part)
    ordered = [name for name in plan.factors if _is_dictionary(dataset.schema, name)]
    coding = make_coding(plan, found, reader.sample(missing), ordered, drop_cols)
    total: Moments | None = None
    for part in reader.frames("moments", coding.moments):
        total = part if total is None else total.merge(part)
    if total is None:
        raise AssertionError("the sample was not empty")
    if reader.last.n_dropped and missing == "raise":
        raise ValueError(f"missing values in {reader.last.where_missing()}: impute them, or use missing='drop'")
    total = total.with_dropped(reader.last.n_dropped)
    warn_of_levels(coding.spec, total.n)
    return total, FormulaData(pd.DataFrame(), pd.DataFrame(), None, coding.terms, coding.spec, 0)


class _Reader:
    """Passes over the complete rows of a dataset."""

    def __init__(self, dataset: Any, plan: StreamPlan, batch_size: int, progress: bool | None, own: bool) -> None:
        self.dataset, self.plan, self.own = dataset, plan, own
        self.batch_size, self.progress = batch_size, progress
        self.last = Pass(0, {})

    def frames(self, label: str, function: Callable[[pd.DataFrame], Any]) -> Iterator[Any]:
        """Yield what `function` makes of each batch, leaving out None."""
        self.last = Pass(0, {})
        with _bar(self.dataset, self.progress, label) as bar:
            for batch in self._batches(READAHEAD):
                frame = self._complete(batch)
                result = function(frame) if len(frame) else None
                bar.update(batch.num_rows)
                if result is not None:
                    yield result

    def _batches(self, readahead: int) -> Iterator[Any]:
        import pyarrow.dataset as ds

        options: dict[str, Any] = {
            "columns": self.plan.columns,
            "batch_size": self.batch_size,
            "batch_readahead": readahead,
            "fragment_readahead": 1,
        }
        if not self.own:
            yield from self.dataset.to_batches(**options)
            return
        # A row group at a time, since a scan of the whole dataset runs ahead of slow work by up to a gigabyte; and
        # without a buffer that holds a file until its last row group has been read.
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False)
        for fragment in self.dataset.get_fragments():
            for group in fragment.split_by_row_group():
                yield from group.to_batches(schema=self.dataset.schema, **options)

    def sample(self, missing: str) -> pd.DataFrame:
        """The first complete rows."""
        frame: pd.DataFrame | None = next(iter(self._heads()), None)
        if frame is not None:
            return frame
        if self.last.missing:
            raise ValueError(
                f"every row has a missing value (in {self.last.where_missing()}): nothing is left to fit"
            )
        raise ValueError("there are no rows: nothing can be fitted")

    def _heads(self) -> Iterator[pd.DataFrame]:
        self.last = Pass(0, {})
        for batch in self._batches(0):
            frame = self._complete(batch).head(SAMPLE)
            if len(frame):
                yield frame

    def _complete(self, batch: Any) -> pd.DataFrame:
        """The complete rows of a batch as a frame; text as categories, decimal numbers as floats."""
        import pyarrow as pa
        import pyarrow.compute as pc

        absent: Any = None
        for name in batch.schema.names:
            gone = pc.is_null(batch.column(name), nan_is_null=True)
            count = pc.sum(gone).as_py() or 0
            if count:
                self.last.missing[name] = self.last.missing.get(name, 0) + count
                absent = gone if absent is None else pc.or_(absent, gone)
        if absent is not None:
            self.last.n_dropped += pc.sum(absent).as_py()
            batch = batch.filter(pc.invert(absent))
        columns = {}
        for name in batch.schema.names:
            column = batch.column(name)
            if pa.types.is_decimal(column.type):
                column = column.cast(pa.float64())
            elif is_text(column.type):
                column = column.dictionary_encode()
            columns[name] = column.to_pandas()
        return pd.DataFrame(columns, copy=False)


def _dataset(source: Any) -> Any:
    try:
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'pybayesridge[stream]'") from error
    if isinstance(source, ds.Dataset):
        return source
    several = isinstance(source, list | tuple)
    files = [str(path) for path in source] if several else str(source)
    options = {"format": "parquet", "partitioning": "hive"}
    return ds.dataset(files, schema=common_schema(ds.dataset(files, **options)), **options)


def _index_columns(schema: Any) -> set[str]:
    """Columns that pandas would make row labels of."""
    stored = schema.pandas_metadata or {}
    return {name for name in stored.get("index_columns", []) if isinstance(name, str)}


def _is_numeric(schema: Any, name: str) -> bool:
    import pyarrow as pa

    kind = schema.field(name).type
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_dictionary(schema: Any, name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(schema.field(name).type))


def _check_types(schema: Any, names: Iterable[str]) -> None:
    odd = [
        f"{name!r} ({schema.field(name).type})"
        for name in names
        if not (_is_numeric(schema, name) or _is_dictionary(schema, name) or is_text(schema.field(name).type))
    ]
    if odd:
        raise ValueError(f"column(s) {', '.join(odd)} are neither numbers nor text: convert them before")


def _bar(dataset: Any, progress: bool | None, label: str) -> Any:
    """A progress bar on a terminal (None), always (True) or never (False)."""
    try:
        from tqdm import tqdm
    except ImportError as error:
        if progress:
            raise ImportError("progress needs tqdm: pip install 'pybayesridge[stream]'") from error
        return _NoBar()
    if progress is False:
        return _NoBar()
    return tqdm(
        total=dataset.count_rows(),
        unit=" rows",
        unit_scale=True,
        desc=label,
        disable=None if progress is None else False,
    )


class _NoBar:
    """A progress bar that shows nothing."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def update(self, _: int) -> None:
        """Nothing to show."""
