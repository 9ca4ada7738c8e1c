"""User input → real numeric matrices, dense or sparse, and the checks of their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.linalg.blas import dasum

from pybayesridge._types import AnyArray, BoolArray, FloatArray
from pybayesridge.data.frames import to_pandas, unmasked
from pybayesridge.text import SHOWN, listed, repeated

LONGEST = 1 << 30
"""Longest vector of one call: BLAS counts with 32 bits."""


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """A dense or sparse matrix with names of its columns: no frame is made, which would be slow for sparse ones."""

    matrix: Any
    names: list[str]


def as_column_names(names: Iterable[Any]) -> list[str]:
    """Column labels as strings; duplicates are refused."""
    out = [str(name) for name in names]
    if len(set(out)) < len(out):
        raise ValueError(
            f"duplicate column name(s) {listed(repeated(out))} in exog: give every column a name of its own"
        )
    return out


def is_pandas(obj: Any) -> bool:
    """Whether an object is a frame or a series of pandas."""
    return isinstance(obj, pd.DataFrame | pd.Series)


def numeric_frame(frame: pd.DataFrame, what: str) -> AnyArray:
    """The values of a frame whose columns are all numeric, without a copy where pandas allows that.

    Numbers that are Python's own, such as the decimals of databases, are numeric too.
    """
    dtypes = list(frame.dtypes)
    kinds = set(dtypes)
    odd = {
        dtype for dtype in kinds if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_complex_dtype(dtype)
    }
    if odd:
        at = [j for j, dtype in enumerate(dtypes) if dtype in odd]
        bad = [str(frame.columns[j]) for j in at if not _are_numbers(frame.iloc[:, j])]
        if bad:
            coded = "encode them, or use from_formula, which codes factors by itself"
            instead = coded if what in ("exog", "endog") else "convert them to numbers"
            raise ValueError(f"{what} column(s) {listed(bad)} are not numeric: {instead}")
        out = np.empty(frame.shape)
        for j in range(frame.shape[1]):
            values = frame.iloc[:, j].to_numpy()
            out[:, j] = _numbers_in_objects(values, what) if values.dtype == object else values
        return out
    if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype):
        return frame.to_numpy()
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def as_matrix(obj: Any, what: str) -> AnyArray:
    """An array-like as a real numeric matrix in its own dtype, NaN where it is masked; a vector is one column."""
    obj = unmasked(obj)
    if is_pandas(obj):
        frame = obj.to_frame() if isinstance(obj, pd.Series) else obj
        return numeric_frame(frame, what)
    try:
        array = np.asarray(obj)
    except ValueError as error:
        raise ValueError(f"{what} cannot be made an array: {error}") from error
    if array.ndim not in (1, 2):
        raise ValueError(f"{what} must have one or two dimensions, got {array.ndim}")
    if array.dtype == object:
        array = _numbers_in_objects(array, what)
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{what} has dtype {array.dtype}, which is not real and numeric: encode it, "
            "or use from_formula, which codes factors by itself"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float64)
    return array[:, None] if array.ndim == 1 else array


def _are_numbers(values: pd.Series) -> bool:
    """Whether values are objects that are real numbers or missing."""
    return pd.api.types.is_object_dtype(values.dtype) and all(
        value is None or value is pd.NA or isinstance(value, Real | Decimal) for value in values
    )


def _numbers_in_objects(array: AnyArray, what: str) -> AnyArray:
    columns: AnyArray = array.reshape(len(array), -1)
    out: FloatArray = np.empty(columns.shape)
    for j in range(out.shape[1]):
        values = columns[:, j]
        if any(isinstance(value, str | bytes) for value in values):
            raise ValueError(f"{what} column {j} holds strings: use from_formula, which codes factors by itself")
        try:
            out[:, j] = [np.nan if value is None or value is pd.NA else value for value in values]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{what} column {j} has values that are not numbers ({error})") from error
    return out if array.ndim == 2 else out[:, 0]


def is_sparse_frame(obj: Any) -> bool:
    """Whether all columns of a frame are sparse, with zero as the value that is not stored."""
    return (
        isinstance(obj, pd.DataFrame)
        and obj.shape[1] > 0
        and all(isinstance(dtype, pd.SparseDtype) and dtype.fill_value == 0 for dtype in obj.dtypes)
    )


def as_exog(obj: Any) -> Any:
    """Columns of the design: a real matrix, or a scipy.sparse one (or a frame of sparse columns) as CSC."""
    if is_sparse_frame(obj):
        obj = obj.sparse.to_coo()
    return canonical_csc(obj) if sparse.issparse(obj) else as_matrix(obj, "exog")


def canonical_csc(obj: Any) -> Any:
    """A sparse matrix as CSC with each entry stored once and no stored zeros; the user's own is never changed."""
    out = obj.tocsc()
    if out.dtype.kind not in "fiub":
        raise ValueError(f"exog has dtype {out.dtype}, which is not real and numeric")
    if out.dtype.kind != "f" and (obj.format == "coo" or not _own_view(out).has_canonical_format):
        out = obj.astype(np.float64).tocsc()  # sums of entries stored twice would wrap around
    if not _own_view(out).has_canonical_format:
        out = out.copy() if np.may_share_memory(out.data, getattr(obj, "data", out.data)) else out
        out = _own_view(out)
        out.sum_duplicates()
    if not out.data.all():
        out = out.copy()
        out.eliminate_zeros()
    return out


def _own_view(matrix: Any) -> Any:
    """The same arrays in another object, since SciPy notes on an object what it finds out about it."""
    return type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def as_weights(weights: Any, n: int, what: str = "weights") -> FloatArray:
    """Positive finite weights, or a ValueError that says which row is not."""
    w = as_matrix(to_pandas(weights, what), what)
    if w.shape[1] != 1:
        raise ValueError(f"{what} must have one column, got {w.shape[1]}")
    out = w[:, 0].astype(np.float64)
    if out.size != n:
        raise ValueError(f"{what} has {out.size} entries for {n} rows")
    return out


def check_weights(weights: FloatArray | None, labels: pd.Index, what: str = "weights") -> None:
    """Refuse weights that are not positive and finite."""
    if weights is None:
        return
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if bad.size:
        raise ValueError(
            f"{what} must be positive and finite, but those of row(s) {listed(labels[bad].tolist())} are not: "
            "leave out rows that should not count"
        )


def is_finite(a: Any) -> bool:
    """Whether every value of a dense or sparse array is finite."""
    values = a.data if sparse.issparse(a) else a
    if values.dtype.kind != "f":
        return True
    contiguous = values.flags.c_contiguous or values.flags.f_contiguous
    with np.errstate(over="ignore", invalid="ignore"):
        size = _sum_of_sizes(values) if contiguous and values.dtype == np.float64 else values.sum()
        return bool(np.isfinite(size)) or bool(np.isfinite(values).all())


def _sum_of_sizes(a: FloatArray) -> float:
    """Sum of the absolute values of a contiguous array: infinite or NaN if one of them is."""
    flat = a.ravel(order="K")
    return sum(float(dasum(flat[start : start + LONGEST])) for start in range(0, flat.size, LONGEST))


def check_finite(a: Any, names: Sequence[str], what: str) -> None:
    """Refuse NaN and infinities, naming the columns and how many there are in each."""
    if is_finite(a):
        return
    found = []
    for j, name in enumerate(names):
        column = a[:, [j]].data if sparse.issparse(a) else a[:, j]
        nan = int(np.isnan(column).sum())
        inf = int(np.isinf(column).sum())
        counts = [f"{count} {kind}" for count, kind in ((nan, "NaN"), (inf, "infinite")) if count]
        if counts:
            found.append(f"{name!r} ({' and '.join(counts)})")
    shown = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    raise ValueError(
        f"{what} has values that are missing or not finite in column(s) {shown}: "
        "remove or impute them (missing='drop' leaves out rows with NaN)"
    )


def refuse_infinite(rows: Any, names: Sequence[str], what: str = "exog") -> None:
    """Refuse infinities, naming the columns; NaN may stay."""
    values = rows.data if sparse.issparse(rows) else rows
    if values.dtype.kind != "f" or not np.isinf(values).any():
        return
    at = rows.tocoo().col[np.isinf(rows.tocoo().data)] if sparse.issparse(rows) else np.nonzero(np.isinf(values))[1]
    columns, counts = np.unique(at, return_counts=True)
    found = [f"{names[j]!r} ({count} infinite)" for j, count in zip(columns, counts, strict=True)]
    shown = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    raise ValueError(f"{what} has infinite values in column(s) {shown}: there is no prediction for them")


def missing_rows(*arrays: Any) -> BoolArray:
    """Rows in which any of the arrays has a NaN."""
    out: BoolArray = np.zeros(arrays[0].shape[0], dtype=bool)
    for a in arrays:
        if a is None or a.dtype.kind != "f":
            continue
        if sparse.issparse(a):
            rows = a.tocoo()
            out[rows.row[np.isnan(rows.data)]] = True
        elif not is_finite(a):
            for j in range(a.shape[1] if a.ndim == 2 else 0):
                out |= np.isnan(a[:, j])
            if a.ndim == 1:
                out |= np.isnan(a)
    return out


def constant_values(exog: Any) -> dict[int, float]:
    """Columns of `exog` whose values are all equal, and the value."""
    n, m = exog.shape
    if n == 0 or m == 0:
        return {}
    if sparse.issparse(exog):
        count = np.diff(exog.indptr)
        full = np.flatnonzero(count == n)
        out = {int(j): 0.0 for j in np.flatnonzero(count == 0)}
        for j in full:
            values = exog.data[exog.indptr[j] : exog.indptr[j + 1]]
            if (values == values[0]).all():
                out[int(j)] = float(values[0])
        return out
    # Three rows rule out nearly every column before any is read whole.
    candidates = np.flatnonzero((exog[0] == exog[-1]) & (exog[0] == exog[n // 2]))
    return {int(j): float(exog[0, j]) for j in candidates if (exog[:, j] == exog[0, j]).all()}
