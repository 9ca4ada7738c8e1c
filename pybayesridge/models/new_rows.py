"""New rows in the columns of a fit, and linear predictors at them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.data.arrays import as_exog
from pybayesridge.data.frames import to_pandas
from pybayesridge.data.prepare import ModelData
from pybayesridge.linalg.blocks import block_size
from pybayesridge.text import listed


def rows_of_exog(exog: Any, data: ModelData) -> tuple[AnyArray, pd.Index]:
    """New data, in the columns of the fit, and their row labels; a frame's columns are matched by name."""
    names, added = data.exog_columns, data.intercept_name is not None
    exog = to_pandas(exog, "exog")
    if isinstance(exog, pd.Series) and sorted(map(str, exog.index)) == sorted(names):
        exog = exog.to_frame().T.infer_objects()  # one row, whose labels are those of the columns
    if isinstance(exog, pd.DataFrame):
        return _frame_rows(exog, data)
    width = len(names)
    own: Any = exog.index if isinstance(exog, pd.Series) and len(exog) != width else None
    rows = as_exog(exog)
    if np.ndim(exog) == 1 and rows.shape[0] == width and width != 1:
        rows = rows.T
    if added and rows.shape[1] == width + 1 and _is_one(rows):
        rows = rows[:, 1:]  # columns as in ``exog``, the intercept first
    if rows.shape[1] != width:
        raise ValueError(
            f"exog has {rows.shape[1]} columns for {width} of the fit (without the intercept that was added)"
            if added
            else f"exog has {rows.shape[1]} columns for {width} of the fit"
        )
    return rows, pd.RangeIndex(rows.shape[0]) if own is None else own


def _frame_rows(exog: pd.DataFrame, data: ModelData) -> tuple[AnyArray, pd.Index]:
    names = data.exog_columns
    given = [str(c) for c in exog.columns]
    if set(names) <= set(given):
        position = {name: i for i, name in enumerate(given)}
        if len(position) < len(given):
            count = Counter(given)
            twice = [name for name in names if count[name] > 1]
            if twice:
                raise ValueError(
                    f"duplicate column name(s) {listed(twice)} in exog: give each column a name of its own"
                )
        return as_exog(exog.iloc[:, [position[name] for name in names]]), exog.index
    generic = not isinstance(data.orig_exog, pd.DataFrame)
    if generic and len(given) == len(names):
        return as_exog(exog), exog.index
    known = set(given)
    absent = [name for name in names if name not in known]
    raise ValueError(f"exog lacks the column(s) {listed(absent)} of the fit")


def linear_predictor(rows: Any, b: FloatArray, data: ModelData) -> FloatArray:
    """Linear predictor at rows for coefficients (k,) or (k, q), in float64 whatever the dtype of the rows."""
    if data.intercept_name is not None and rows.shape[1] == len(b) and _is_one(rows):
        rows = rows[:, 1:]
    shift = int(data.intercept_name is not None)
    base = b[0] if shift else 0.0
    slopes = b[shift:]
    if sparse.issparse(rows) or rows.dtype == np.float64:
        out: FloatArray = np.asarray(rows @ slopes)
        out += base
        return out
    step = block_size(rows.shape[1])
    pieces = [rows[i : i + step].astype(np.float64) @ slopes + base for i in range(0, max(len(rows), 1), step)]
    return np.concatenate(pieces)


def _is_one(rows: Any) -> bool:
    """Whether the first column is one of ones."""
    first = rows[:, [0]].toarray() if sparse.issparse(rows) else rows[:, 0]
    return bool((first == 1).all())


def after_ones(columns: Any) -> Any:
    """Columns with ones before them, in a type of floats."""
    n = columns.shape[0]
    if sparse.issparse(columns):
        return sparse.hstack([sparse.csc_matrix(np.ones((n, 1))), columns], format="csc")
    out = np.empty((n, columns.shape[1] + 1), dtype=columns.dtype if columns.dtype.kind == "f" else np.float64)
    out[:, 0], out[:, 1:] = 1.0, columns
    return out
