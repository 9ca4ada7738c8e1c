"""Moments of Dask collections: one tree of merges on Dask's scheduler. The only file that knows Dask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.data.arrays import missing_rows
from pybayesridge.data.frames import unmasked
from pybayesridge.formula.names import Context
from pybayesridge.formula.spec import FormulaData, warn_of_levels
from pybayesridge.moments.moments import Moments
from pybayesridge.streams.coding import Coding, Survey, make_coding, survey
from pybayesridge.streams.plan import StreamPlan, make_plan

SAMPLE = 64
"""Rows that show the types of the columns."""

BRANCHES = 8
"""How many parts one task merges."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task: a survey or moments of some rows, and the numbers of omitted rows.

    Attributes
    ----------
    value : Survey, Moments or None
        None where there is no complete row.
    n_dropped : int
        Rows with a missing value.
    missing : dict
        Missing values in each column.
    """

    value: Any
    n_dropped: int = 0
    missing: dict[str, int] = field(default_factory=dict)

    def merge(self, other: TaskResult) -> TaskResult:
        """The part of the rows of both."""
        missing = {
            name: self.missing.get(name, 0) + other.missing.get(name, 0) for name in {**self.missing, **other.missing}
        }
        values = [value for value in (self.value, other.value) if value is not None]
        value = values[0].merge(values[1]) if len(values) == 2 else (values[0] if values else None)
        return TaskResult(value, self.n_dropped + other.n_dropped, missing)

    def where_missing(self) -> str:
        """Columns with missing values, and their numbers."""
        return ", ".join(f"{name!r} ({count})" for name, count in list(self.missing.items())[:5])

    def checked(self, missing: str) -> TaskResult:
        """The same, or a ValueError where rows are missing that must not be."""
        if self.n_dropped and missing == "raise":
            where = f" in {self.where_missing()}" if self.missing else f" in {self.n_dropped} row(s)"
            raise ValueError(f"missing values{where}: impute them, or use missing='drop'")
        if self.value is None and self.n_dropped:
            where = f" (in {self.where_missing()})" if self.missing else ""
            raise ValueError(f"every row has a missing value{where}: nothing is left to fit")
        if self.value is None:
            raise ValueError("there are no rows: nothing can be fitted")
        return self


def moments_of_frame(
    data: Any,
    formula: str,
    *,
    weights: str | None,
    levels: Mapping[str, Iterable[Any]] | None,
    drop_cols: Iterable[str] | None,
    missing: str,
    context: Context | None,
) -> tuple[Moments, FormulaData]:
    """Moments of a formula's columns of a Dask DataFrame; arguments as for ``from_dask``."""
    dask = _dask()
    names = [str(name) for name in data.columns]
    numeric = {name: pd.api.types.is_numeric_dtype(dtype) for name, dtype in zip(names, data.dtypes, strict=True)}
    plan = make_plan(formula, names, numeric, weights=weights, levels=levels, context=context)
    if plan.bands:
        raise ValueError(
            f"{plan.bands[0].term.written} is not for Dask: use from_parquet or from_arrow, or from_formula on a "
            "data frame"
        )
    partitions = data[plan.columns].to_delayed()
    shared = dask.delayed(plan, traverse=False)
    found = Survey()
    if plan.needs_survey:
        found = _reduced(dask, [dask.delayed(_surveyed)(shared, part, i) for i, part in enumerate(partitions)]).value
    sample = _sample(dask, partitions)
    categories = [n for n, dtype in zip(names, data.dtypes, strict=True) if isinstance(dtype, pd.CategoricalDtype)]
    coding = make_coding(plan, found or Survey(), sample, categories, drop_cols)
    shared = dask.delayed(coding, traverse=False)
    tasks = [dask.delayed(_coded)(shared, part, i) for i, part in enumerate(partitions)]
    total = _reduced(dask, tasks).checked(missing)
    moments = total.value.with_dropped(total.n_dropped)
    warn_of_levels(coding.spec, moments.n)
    return moments, FormulaData(pd.DataFrame(), pd.DataFrame(), None, coding.terms, coding.spec, 0)


def moments_of_arrays(endog: Any, exog: Any, weights: Any, *, missing: str) -> Moments:
    """Moments of Dask arrays: rows in chunks, which those of `exog` decide."""
    dask = _dask()
    from dask import array

    x = array.asarray(exog)
    if x.ndim != 2:
        raise ValueError(f"exog must have two dimensions, got {x.ndim}")
    if x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    columns = [x.to_delayed().ravel()]
    for what, given in (("endog", endog), ("weights", weights)):
        if given is None:
            columns.append(np.full(x.numblocks[0], None))
            continue
        other = array.asarray(given)
        known = not (np.isnan(x.shape[0]) or np.isnan(other.shape[0]))
        if known and other.shape[0] != x.shape[0]:
            raise ValueError(f"{what} has {other.shape[0]} rows and exog has {x.shape[0]}: they must be equal")
        if known:
            other = other.rechunk({0: x.chunks[0], **({1: -1} if other.ndim == 2 else {})})
        elif other.numblocks[0] != x.numblocks[0]:
            raise ValueError(f"{what} and exog have chunks of unknown, different sizes: call compute_chunk_sizes()")
        columns.append(other.to_delayed().ravel())
    blocks = enumerate(zip(*columns, strict=True))
    tasks = [dask.delayed(_block)(y, rows, w, i) for i, (rows, y, w) in blocks]
    total = _reduced(dask, tasks).checked(missing)
    return total.value.with_dropped(total.n_dropped)


def _dask() -> Any:
    try:
        import dask
    except ImportError as error:
        raise ImportError("Dask collections need dask: pip install 'pybayesridge[dask]'") from error
    return dask


def _reduced(dask: Any, tasks: Sequence[Any]) -> TaskResult:
    """Merge the results of all tasks, some at a time, where Dask runs them; only the last comes back."""
    level = list(tasks)
    if not level:
        return TaskResult(None)
    while len(level) > 1:
        level = [dask.delayed(_merged)(level[i : i + BRANCHES]) for i in range(0, len(level), BRANCHES)]
    return dask.compute(level[0])[0]


def _merged(parts: Sequence[TaskResult]) -> TaskResult:
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    return total


def _sample(dask: Any, partitions: Sequence[Any]) -> pd.DataFrame:
    """The first complete rows; partitions are asked one after the other."""
    total = TaskResult(None)
    for partition in partitions:
        part = dask.compute(dask.delayed(_head)(partition))[0]
        if part.value is not None:
            return part.value
        total = total.merge(part)
    total.checked("drop")
    raise AssertionError("no rows were found, and none were missed")


def _complete(frame: pd.DataFrame) -> tuple[pd.DataFrame, int, dict[str, int]]:
    gone = frame.isna()
    absent = gone.any(axis=1).to_numpy()
    if not absent.any():
        return frame, 0, {}
    missing = {str(name): int(count) for name, count in gone.sum().items() if count}
    return frame.loc[~absent].infer_objects(), int(absent.sum()), missing


def _head(frame: pd.DataFrame) -> TaskResult:
    complete, n_dropped, missing = _complete(frame)
    return TaskResult(complete.head(SAMPLE) if len(complete) else None, n_dropped, missing)


def _surveyed(plan: StreamPlan, frame: pd.DataFrame, position: int) -> TaskResult:
    complete, n_dropped, missing = _complete(frame)
    try:
        return TaskResult(survey(plan, complete), n_dropped, missing)
    except ValueError as error:
        raise ValueError(f"partition {position}: {error}") from error


def _coded(coding: Coding, frame: pd.DataFrame, position: int) -> TaskResult:
    complete, n_dropped, missing = _complete(frame)
    try:
        return TaskResult(coding.moments(complete), n_dropped, missing)
    except ValueError as error:
        raise ValueError(f"partition {position}: {error}") from error


def _block(endog: Any, exog: Any, weights: Any, position: int) -> TaskResult:
    y, x = np.asarray(unmasked(endog)), np.asarray(unmasked(exog))
    w = None if weights is None else np.asarray(unmasked(weights))
    for what, a in (("endog", y), ("weights", w)):
        if a is not None and len(a) != len(x):
            raise ValueError(f"chunk {position}: {what} has {len(a)} rows and exog has {len(x)}: they must be equal")
    keep = ~missing_rows(x, y, w)
    n_dropped = int((~keep).sum())
    if not keep.any():
        return TaskResult(None, n_dropped)
    if n_dropped:
        y, x, w = y[keep], x[keep], None if w is None else w[keep]
    try:
        return TaskResult(Moments.from_arrays(y, x, weights=w), n_dropped)
    except ValueError as error:
        raise ValueError(f"chunk {position}: {error}") from error
