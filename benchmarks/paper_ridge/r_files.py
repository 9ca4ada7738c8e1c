"""Files of R: data frames, some with a matrix among their columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def r_objects(path: Path) -> dict[str, Any]:
    """The objects of an R file, by package rdata (an extra of the benchmarks)."""
    try:
        import rdata
    except ImportError:
        raise ImportError(f"{path.name} needs rdata: pip install 'pybayesridge[benchmarks]'") from None
    return rdata.conversion.convert(
        rdata.parser.parse_file(path), constructor_dict=R_CLASSES, default_encoding="ascii"
    )


def _data_frame(columns: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    # A data frame with a matrix among its columns is no frame of pandas'.
    return {name: columns[name] for name in columns}


def _as_is(value: Any, attributes: dict[str, Any]) -> Any:
    return value


R_CLASSES: dict[str, Callable[..., Any]] = {"data.frame": _data_frame, "AsIs": _as_is}


def r_matrix(value: Any) -> pd.DataFrame:
    """An R matrix as a frame, with its column names where it has some."""
    if hasattr(value, "to_pandas"):
        value = value.to_pandas()
    frame = pd.DataFrame(value).reset_index(drop=True)
    frame.columns = [str(c) if isinstance(c, str) else f"x{i + 1}" for i, c in enumerate(frame.columns)]
    return frame


def r_frame(path: Path) -> dict[str, Any]:
    """R's data frame with a matrix ``x`` and a vector ``y``, the only object of its file."""
    (columns,) = r_objects(path).values()
    return {"x": r_matrix(columns["x"]), "y": np.asarray(columns["y"], dtype=np.float64).ravel()}
