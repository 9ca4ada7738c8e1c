"""Indexes, Series and frames of pandas as plain data, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.results.stored_classes import NotStoredError

NEW_TEXT = int(pd.__version__.partition(".")[0]) >= 3
"""Whether pandas has the type "str" of its own."""

MASKED = ("Int", "UInt", "Float", "boolean")
"""Beginnings of the names of pandas' own types of numbers with missing values."""


def as_data(value: pd.Index | pd.Series | pd.DataFrame, where: str) -> tuple[str, Any]:
    """What it is ("index", "series" or "frame") and its content."""
    if isinstance(value, pd.DataFrame):
        columns = [_values(value.iloc[:, j], f"{where}[{name!r}]") for j, name in enumerate(value.columns)]
        return "frame", {
            "columns": _index(value.columns, where),
            "values": columns,
            "rows": _index(value.index, where),
        }
    if isinstance(value, pd.Series):
        content = {"name": value.name, "values": _values(value, where), "rows": _index(value.index, where)}
        return "series", content
    return "index", _index(value, where)


def from_data(kind: str, content: Any) -> pd.Index | pd.Series | pd.DataFrame:
    """The object that :func:`as_data` made data of."""
    if kind == "frame":
        rows = _made_index(content["rows"])
        columns = {j: _made(one) for j, one in enumerate(content["values"])}
        out = pd.DataFrame(columns, index=rows) if columns else pd.DataFrame(index=rows)
        out.columns = _made_index(content["columns"])
        return out
    if kind == "series":
        return pd.Series(_made(content["values"]), index=_made_index(content["rows"]), name=content["name"])
    if kind != "index":
        raise KeyError(kind)
    return _made_index(content)


def _index(index: pd.Index, where: str) -> dict[str, Any]:
    """Labels; rows that are counted have no more than their range."""
    names = list(index.names)
    if isinstance(index, pd.RangeIndex):
        return {"names": names, "range": [index.start, index.stop, index.step]}
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    return {"names": names, "levels": [_values(level, f"the labels of {where}") for level in levels]}


def _made_index(content: dict[str, Any]) -> pd.Index:
    names = content["names"]
    if "range" in content:
        start, stop, step = content["range"]
        return pd.RangeIndex(start, stop, step, name=names[0])
    levels = [pd.Index(_made(level)) for level in content["levels"]]
    if len(levels) == 1:
        return levels[0].rename(names[0])
    return pd.MultiIndex.from_arrays(levels, names=names)


def _values(column: pd.Series | pd.Index, where: str) -> dict[str, Any]:
    """The values of a column with their type."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        taken = pd.Categorical(column)
        levels = _values(taken.categories, where)
        return {"kind": "category", "codes": taken.codes, "levels": levels, "ordered": bool(taken.ordered)}
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return {"kind": "numbers", "values": column.to_numpy()}
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        return {"kind": "times", "dtype": dtype.str, "values": column.to_numpy().view(np.int64)}
    if isinstance(dtype, pd.DatetimeTZDtype):
        times = pd.DatetimeIndex(column).tz_convert("UTC").tz_localize(None)
        return {"kind": "zoned", "zone": str(dtype.tz), "times": _values(times, where)}
    if isinstance(dtype, pd.PeriodDtype):
        return {"kind": "periods", "dtype": str(dtype), "values": pd.PeriodIndex(column).asi8}
    if isinstance(dtype, pd.StringDtype) or str(dtype).startswith(MASKED):
        values = [None if pd.isna(value) else value for value in column.tolist()]
        return {"kind": "masked", "dtype": str(dtype), "values": values}
    if (isinstance(dtype, np.dtype) and dtype.kind == "O") or isinstance(dtype, pd.ArrowDtype):
        values = [math.nan if value is pd.NA or value is pd.NaT else value for value in column.tolist()]
        return {"kind": "objects", "values": values}
    raise NotStoredError(f"{where} is of type {dtype}")


def _made(content: dict[str, Any]) -> Any:
    kind = content["kind"]
    if kind == "category":
        return pd.Categorical.from_codes(content["codes"], pd.Index(_made(content["levels"])), content["ordered"])
    if kind == "numbers":
        return content["values"]
    if kind == "times":
        return content["values"].view(np.dtype(content["dtype"]))
    if kind == "zoned":
        return pd.DatetimeIndex(_made(content["times"])).tz_localize("UTC").tz_convert(content["zone"])
    if kind == "periods":
        dtype: Any = pd.PeriodDtype.construct_from_string(content["dtype"])
        return pd.arrays.PeriodArray(content["values"], dtype=dtype)
    if kind == "masked" and (content["dtype"] != "str" or NEW_TEXT):
        return pd.array(content["values"], dtype=content["dtype"])
    if kind in ("objects", "masked"):
        out = np.empty(len(content["values"]), dtype=object)
        out[:] = content["values"]
        return out
    raise KeyError(kind)
