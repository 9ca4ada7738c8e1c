"""Formulas on rows that come in batches of Arrow: one or two passes, whatever the rows are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pybayesridge.formula.bands import largest_group
from pybayesridge.formula.names import Context
from pybayesridge.formula.spec import FormulaData, warn_of_levels
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments
from pybayesridge.streams.assembly import check_range, dense_moments, moments_of_terms
from pybayesridge.streams.bar import progress_bar
from pybayesridge.streams.blocks import BlockSums
from pybayesridge.streams.coding import Coding, Survey, make_coding, survey
from pybayesridge.streams.plain import PlainBatches, frame_of, is_clean
from pybayesridge.streams.plan import StreamPlan, make_plan
from pybayesridge.streams.schemas import is_dictionary, is_numeric, is_text
from pybayesridge.streams.sums import RowSums
from pybayesridge.streams.terms import PlainTerms, plain_terms
from pybayesridge.text import listed

SAMPLE = 64
"""Rows that show the types of the columns."""


class BatchSource(Protocol):
    """Rows that can be read in batches.

    Attributes
    ----------
    schema : pyarrow.Schema
    n_rows : int or None
        Number of rows; None where only reading tells.
    once : str
        The kind of an object that can be read only once; else empty.
    unordered : frozenset of str
        Dictionaries whose order has no meaning: their levels are sorted, as those of text are.
    """

    schema: Any
    once: str
    unordered: frozenset[str]

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only reading tells."""

    def check(self, columns: Iterable[str]) -> None:
        """Refuse a source that does not have these columns throughout."""

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Record batches of at most `size` rows of these columns, from the first row on."""


@dataclass(slots=True)
class Pass:
    """One pass over the complete rows.

    Attributes
    ----------
    n_rows : int
        Rows, those with a missing value among them.
    n_dropped : int
        Rows with a missing value that were left out.
    missing : dict
        Missing values in each column.
    """

    n_rows: int = 0
    n_dropped: int = 0
    missing: dict[str, int] = field(default_factory=dict)

    def where_missing(self) -> str:
        """Columns with missing values, and their numbers."""
        return ", ".join(f"{name!r} ({count})" for name, count in list(self.missing.items())[:5])


def moments_of_source(
    opened: Callable[[], BatchSource],
    formula: str,
    *,
    weights: str | None,
    levels: Mapping[str, Iterable[Any]] | None,
    drop_cols: Iterable[str] | None,
    missing: str,
    batch_size: int,
    progress: bool | None,
    context: Context | None,
) -> tuple[Moments | BlockMoments, FormulaData]:
    """Moments of a formula's columns; other arguments than `opened` as for ``BayesRidge.from_parquet``."""
    if missing not in ("drop", "raise"):
        raise ValueError(f"missing must be 'drop' or 'raise', not {missing!r}")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f"batch_size must be a positive integer, not {batch_size!r}")
    source = opened()
    kinds = dict(zip(source.schema.names, source.schema.types, strict=True))
    labels = _index_columns(source.schema)
    names = [name for name in source.schema.names if name not in labels]
    numeric = {name: is_numeric(kinds[name]) for name in names}
    plan = make_plan(formula, names, numeric, weights=weights, levels=levels, context=context)
    source.check(plan.columns)
    _check_types(kinds, plan.columns)
    reader = _Reader(source, plan, int(batch_size), progress)
    ordered = [name for name in plan.factors if is_dictionary(kinds[name]) and name not in source.unordered]
    plain = None if plan.bands else plain_terms(plan, numeric)
    total: Moments | BlockMoments
    if plan.bands:
        coding, total = _with_bands(reader, plan, ordered, drop_cols)
    elif plain is not None:
        coding, total = _in_one_pass(reader, plan, plain, ordered, drop_cols)
    else:
        again = plain_terms(plan, numeric, surveyed=True)
        coding, total = _in_two_passes(reader, plan, again, ordered, drop_cols)
    if reader.last.n_dropped and missing == "raise":
        raise ValueError(f"missing values in {reader.last.where_missing()}: impute them, or use missing='drop'")
    total = total.with_dropped(reader.last.n_dropped)
    warn_of_levels(coding.spec, total.n)
    columns = pd.DataFrame(columns=coding.spec.columns)
    return total, FormulaData(pd.DataFrame(), columns, None, coding.terms, coding.spec, 0)


def _in_one_pass(
    reader: _Reader, plan: StreamPlan, plain: PlainTerms, ordered: list[str], drop_cols: Iterable[str] | None
) -> tuple[Coding, Moments]:
    """The moments of a formula of plain terms, from sums over numbers and cells of factors."""
    batches = PlainBatches(plan, plain, {})
    summed = _summed(reader, batches, plain)
    if summed is None:
        raise reader.last_is_empty()
    scaled = [summed.plain.scaled[expression] for expression in plan.moments_of]
    means = dense_moments(summed.unweighted, scaled, plan.moments_of) if scaled else None
    coding = make_coding(plan, Survey(batches.levels, means), summed.sample, ordered, drop_cols)
    return coding, moments_of_terms(summed.sums, summed.plain, coding, batches)


@dataclass(frozen=True, slots=True)
class _Summed:
    """The sums of one pass.

    Attributes
    ----------
    plain : PlainTerms
        With the names of all columns.
    sums : RowSums
    unweighted : RowSums
        Those of scaled numbers without weights; if there are none, `sums`.
    sample : pandas.DataFrame
        The first complete rows.
    """

    plain: PlainTerms
    sums: RowSums
    unweighted: RowSums
    sample: pd.DataFrame


def _summed(reader: _Reader, batches: PlainBatches, plain: PlainTerms) -> _Summed | None:
    """The sums over all rows; None if no row is complete."""
    out: _Summed | None = None
    for batch in reader.batches("moments"):
        clean = is_clean(batch)
        complete = batch if clean else reader.complete(batch)
        if not complete.num_rows:
            continue
        rows = batches.rows(complete, clean=clean)
        if out is None:
            named = batches.with_fields(plain)
            sums = RowSums(named.dense, named.cells)
            apart = batches.plan.weights is not None and bool(plain.scaled)
            unweighted = RowSums([(name,) for name in plain.scaled.values()], []) if apart else sums
            out = _Summed(named, sums, unweighted, frame_of(complete.slice(0, SAMPLE)).copy())
        out.sums.add(rows)
        if out.unweighted is not out.sums:
            out.unweighted.add(replace(rows, weights=None))
    if out is not None:
        check_range(out.sums)
    return out


def _in_two_passes(
    reader: _Reader, plan: StreamPlan, again: PlainTerms | None, ordered: list[str], drop_cols: Iterable[str] | None
) -> tuple[Coding, Moments]:
    """The moments of any formula, after a first pass if it takes one.

    With levels, means and standard deviations from that the second pass is over the plain terms `again`; if they are
    not plain, every batch is coded.
    """
    if not plan.needs_survey:
        frames = reader.frames("moments")
        first = next(frames, None)
        if first is None:
            raise reader.last_is_empty()
        coding = make_coding(plan, Survey(), first.head(SAMPLE).copy(), ordered, drop_cols)
        return coding, _batch_by_batch(coding, chain([first], frames))
    coding, found = _surveyed(reader, plan, ordered, drop_cols)
    expected = reader.last.n_rows
    if again is None:
        return coding, _batch_by_batch(coding, reader.frames("moments", expected))
    batches = PlainBatches(replace(plan, declared={**found.levels, **plan.declared}), again, coding.states)
    summed = _summed(reader, batches, again)
    if summed is None or reader.last.n_rows != expected:
        raise _changed(reader.last.n_rows, expected)
    return coding, moments_of_terms(summed.sums, summed.plain, coding, batches)


def _with_bands(
    reader: _Reader, plan: StreamPlan, ordered: list[str], drop_cols: Iterable[str] | None
) -> tuple[Coding, Moments | BlockMoments]:
    """The moments of a formula that has terms with a variance of their own, sparse where a group has many levels."""
    coding, _ = _surveyed(reader, plan, ordered, drop_cols)
    expected, sums = reader.last.n_rows, BlockSums()
    for frame in reader.frames("moments", expected):
        coding.add_to(sums, frame)
    total = coding.moments_of_blocks(sums)
    large = largest_group(coding.spec.bands) is not None
    return coding, total if large else total.as_moments()


def _batch_by_batch(coding: Coding, frames: Iterable[pd.DataFrame]) -> Moments:
    """The moments of batches, each of which is coded."""
    total: Moments | None = None
    for frame in frames:
        part = coding.moments(frame)
        total = part if total is None or part is None else total.merge(part)
    if total is None:
        raise _changed(0, 1)
    return total


def _surveyed(
    reader: _Reader, plan: StreamPlan, ordered: list[str], drop_cols: Iterable[str] | None
) -> tuple[Coding, Survey]:
    """How the rows are coded, found by a first pass."""
    if reader.source.once:
        raise ValueError(_two_passes(plan, reader.source.once))
    found = Survey()
    sample: pd.DataFrame | None = None
    for batch in reader.complete_batches("levels and means"):
        sample = frame_of(batch.slice(0, SAMPLE)).copy() if sample is None else sample
        part = survey(plan, frame_of(batch.select(plan.surveyed)))
        found = found if part is None else found.merge(part)
    if sample is None:
        raise reader.last_is_empty()
    return make_coding(plan, found, sample, ordered, drop_cols), found


def _two_passes(plan: StreamPlan, kind: str) -> str:
    needs = [f"the levels of {listed(plan.undeclared)}"] if plan.undeclared else []
    needs += [f"the values of {listed(one.term.written for one in plan.bands)}"] if plan.bands else []
    needs += [f"the mean of {listed(plan.moments_of)}"] if plan.moments_of else []
    declare = ", or declare `levels`" if plan.undeclared and not (plan.moments_of or plan.bands) else ""
    return (
        f"the formula {plan.formula!r} requires two passes over the rows, the first for {' and '.join(needs)}, and a "
        f"{kind} can be read only once: pass a table, or a function without arguments that returns a new "
        f"stream{declare}"
    )


def _changed(now: int, before: int) -> ValueError:
    return ValueError(
        f"the second pass gave {now:,} row(s) and the first {before:,}: the object can be read only once, or its "
        "rows change. Pass a table, or a function without arguments that returns a new stream of the same rows"
    )


class _Reader:
    """Passes over the complete rows of a source."""

    def __init__(self, source: BatchSource, plan: StreamPlan, batch_size: int, progress: bool | None) -> None:
        self.source, self.plan = source, plan
        self.batch_size, self.progress = batch_size, progress
        self.last = Pass()

    def frames(self, label: str, expected: int | None = None) -> Iterator[pd.DataFrame]:
        """The complete rows of each batch that has any; an error unless there are `expected` rows in all."""
        for batch in self.complete_batches(label):
            yield frame_of(batch)
        if expected is not None and self.last.n_rows != expected:
            raise _changed(self.last.n_rows, expected)

    def complete_batches(self, label: str) -> Iterator[Any]:
        """The complete rows of each batch that has any."""
        for batch in self.batches(label):
            complete = batch if is_clean(batch) else self.complete(batch)
            if complete.num_rows:
                yield complete

    def batches(self, label: str) -> Iterator[Any]:
        """All rows."""
        self.last = Pass()
        with progress_bar(self.source.n_rows, "rows", self.progress, label) as bar:
            for batch in self.source.batches(self.plan.columns, self.batch_size):
                self.last.n_rows += batch.num_rows
                yield batch
                bar.update(batch.num_rows)

    def last_is_empty(self) -> ValueError:
        """The error of a pass without a complete row."""
        if self.last.missing:
            return ValueError(
                f"every row has a missing value (in {self.last.where_missing()}): nothing is left to fit"
            )
        return ValueError("there are no rows: nothing can be fitted")

    def complete(self, batch: Any) -> Any:
        """The complete rows of a batch; the others are counted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = [_without_null_level(batch.column(name)) for name in batch.schema.names]
        batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        absent: Any = None
        for name in batch.schema.names:
            gone = pc.is_null(batch.column(name), nan_is_null=True)
            count = pc.sum(gone).as_py() or 0
            if count:
                self.last.missing[name] = self.last.missing.get(name, 0) + count
                absent = gone if absent is None else pc.or_(absent, gone)
        if absent is None:
            return batch
        self.last.n_dropped += pc.sum(absent).as_py()
        return batch.filter(pc.invert(absent))


def _without_null_level(column: Any) -> Any:
    """A dictionary with a level that stands for missing values as one without."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_dictionary(column.type) or not column.dictionary.null_count:
        return column
    levels = column.dictionary.drop_null()
    codes = pc.index_in(column.dictionary_decode(), value_set=levels)
    return pa.DictionaryArray.from_arrays(codes, levels, ordered=column.type.ordered)


def _index_columns(schema: Any) -> set[str]:
    """Columns that pandas would make row labels of."""
    stored = schema.pandas_metadata or {}
    return {name for name in stored.get("index_columns", []) if isinstance(name, str)}


def _check_types(kinds: Mapping[str, Any], names: Iterable[str]) -> None:
    odd = [
        f"{name!r} ({kinds[name]})"
        for name in names
        if not (is_numeric(kinds[name]) or is_dictionary(kinds[name]) or is_text(kinds[name]))
    ]
    if odd:
        raise ValueError(f"column(s) {', '.join(odd)} are neither numbers nor text: convert them before")
