"""Frames and columns of other libraries than pandas, in and out: the only file that knows narwhals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge.late import Late

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = Late("narwhals.stable.v2")

UNORDERED = b"_PL_CATEGORICAL"
"""Start of the key by which polars marks, in Arrow, a dictionary whose order is that of appearance."""


def to_pandas(obj: Any, what: str = "data") -> Any:
    """An eager frame or column that narwhals knows (polars, pyarrow, …) as pandas; anything else as it is.

    Integers and booleans with nulls become pandas' nullable ones, so that formulas code them as they code columns
    without nulls. A categorical column keeps its categories in their order, and stays an ordered factor if it is one,
    as an ``Enum`` always is; that of polars' ``Categorical``, whose order is that of appearance, becomes strings.
    Decimals become floats.

    Parameters
    ----------
    obj : Any
    what : str
        What `obj` is called in a message.

    Raises
    ------
    ValueError
        For a lazy frame.
    """
    if isinstance(obj, pd.DataFrame | pd.Series | np.ndarray):
        return obj
    native = nw.from_native(_chunked(obj), pass_through=True, allow_series=True)
    if isinstance(native, nw.LazyFrame):
        raise ValueError(f"{what} is lazy ({type(obj).__name__}): collect it first, with .collect() or the like")
    if isinstance(native, nw.Series):
        return pd.Series(_column(native), name=native.name or None)
    if not isinstance(native, nw.DataFrame):
        return obj
    as_text = without_order(getattr(nw.to_native(native), "schema", None))
    dtypes = set(native.schema.values())
    if len(dtypes) == 1 and dtypes <= {nw.Float64(), nw.Float32()}:
        return pd.DataFrame(native.to_numpy(), columns=native.columns)
    return pd.DataFrame({name: _column(native[name], as_text=name in as_text) for name in native.columns})


def _chunked(obj: Any) -> Any:
    """An array or a record batch of pyarrow as the chunked array or the table that narwhals knows."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(obj, arrow.Array):
        return arrow.chunked_array([obj])
    if arrow is not None and isinstance(obj, arrow.RecordBatch):
        return arrow.Table.from_batches([obj])
    return obj


def without_order(schema: Any) -> frozenset[str]:
    """Columns of an Arrow schema that are polars' ``Categorical``; none of other schemas."""
    return frozenset(
        field.name
        for field in schema or ()
        if any(key.startswith(UNORDERED) for key in getattr(field, "metadata", None) or ())
    )


def _column(column: nw.Series[Any], *, as_text: bool = False) -> Any:
    """A column as pandas takes it, without needing pyarrow."""
    dtype = column.dtype
    if dtype == nw.Enum:
        return pd.Categorical(column.to_list(), categories=column.cat.get_categories().to_list(), ordered=True)
    if dtype == nw.Categorical and not as_text and not column.implementation.is_polars():
        ordered = bool(getattr(getattr(column.to_native(), "type", None), "ordered", False))
        return pd.Categorical(column.to_list(), categories=_categories(column), ordered=ordered)
    if dtype == nw.Boolean or dtype.is_integer():
        if not column.null_count():
            return column.to_numpy()
        nullable = pd.arrays.BooleanArray if dtype == nw.Boolean else pd.arrays.IntegerArray
        return nullable(column.fill_null(False if dtype == nw.Boolean else 0).to_numpy(), column.is_null().to_numpy())
    if dtype.is_numeric():
        return column.cast(nw.Float64).to_numpy() if dtype == nw.Decimal else column.to_numpy()
    return column.to_list()


def as_array(column: Any) -> Any:
    """A column of polars or pyarrow as an array of pandas; anything else as it is."""
    made = to_pandas(column)
    return made.array if isinstance(made, pd.Series) and made is not column else made


def without_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of pandas with its columns that are Arrow's as pandas' own, unless they are numbers."""
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    found = [name for name, dtype in dtypes.items() if isinstance(dtype, pd.ArrowDtype) and dtype.kind not in "iufb"]
    return with_columns(frame, {name: as_array(frame[name].array.__arrow_array__()) for name in found})


def with_columns(frame: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A frame with other values in some columns, whatever these are called (``assign`` has an argument `self`)."""
    out = frame.copy(deep=False) if columns else frame
    for name, values in columns.items():
        out[name] = values
    return out


def _categories(column: nw.Series[Any]) -> list[Any]:
    """The categories of a column in their order."""
    native: Any = column.to_native()
    if not hasattr(native, "unify_dictionaries"):
        return list(column.cat.get_categories().to_list())
    chunks = native.unify_dictionaries().chunks
    return list(dict.fromkeys(chunks[0].dictionary.drop_null().to_pylist())) if chunks else []


def masked_column(column: Any) -> Any:
    """A NumPy masked array as a column with missing values, integers staying integers; anything else as it is."""
    if not isinstance(column, np.ma.MaskedArray) or column.ndim != 1:
        return column
    mask = np.ma.getmaskarray(column)
    if mask.any() and column.dtype.kind in "iub":
        nullable = pd.arrays.BooleanArray if column.dtype.kind == "b" else pd.arrays.IntegerArray
        return nullable(np.array(column.data), mask)
    return unmasked(column)


def unmasked(obj: Any) -> Any:
    """A NumPy masked array as an array with NaN (None among objects) where it is masked; anything else as it is."""
    if not isinstance(obj, np.ma.MaskedArray) or obj.dtype.names is not None:
        return obj
    mask = np.ma.getmaskarray(obj)
    if not mask.any():
        return obj.data
    out: Any = obj.data.astype(
        np.float64 if obj.dtype.kind in "iub" else obj.dtype if obj.dtype.kind in "fc" else object
    )
    out[mask] = None if out.dtype == object else np.nan
    return out


def library_of(*objects: Any) -> str:
    """The library of the first of these that is an eager frame or column; pandas where none is."""
    for obj in objects:
        if isinstance(obj, pd.DataFrame | pd.Series):
            return "pandas"
        if isinstance(obj, np.ndarray):
            continue
        native = nw.from_native(obj, pass_through=True, allow_series=True)
        if isinstance(native, nw.DataFrame | nw.Series):
            return str(nw.get_native_namespace(native).__name__).partition(".")[0]
    return "pandas"


def make_frame(columns: dict[str, Any], library: Any) -> Any:
    """A frame of the library that :func:`library_of` named."""
    return nw.from_dict(columns, backend=library).to_native()
