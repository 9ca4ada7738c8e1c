"""Numbers that go with the rows of the data and are no part of the formula: weights, trials, exposures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.data.arrays import as_weights
from pybayesridge.data.prepare import check_labels
from pybayesridge.text import SHOWN

PerRow = dict[str, FloatArray]
"""By what they are."""


def per_row(frame: pd.DataFrame, **given: Any) -> PerRow:
    """Arguments with a number for each row, by name; each is a column's name or the numbers, or None."""
    out = {}
    for what, values in given.items():
        if values is None:
            continue
        if isinstance(values, str):
            if values not in frame.columns:
                raise ValueError(f"{what} names {values!r}, which is not a column of the data")
            values = frame[values]
        out[what] = as_weights(values, len(frame), what)
        if isinstance(values, pd.Series):
            check_labels(values, frame.index, "the data", what)
    return out


def aligned(own: Mapping[str, Any], labels: pd.Index) -> dict[str, Any]:
    """The caller's values in a formula, without the row labels of Series that have an entry for each row.

    Other labels than those of the data are refused: expressions would match them by label, products by position.
    """
    out = dict(own)
    for name, values in own.items():
        if isinstance(values, pd.Series) and len(values) == len(labels):
            check_labels(values, labels, "the data", repr(name))
            out[name] = values.reset_index(drop=True)
    return out


def missing_in(per_row: PerRow) -> Any:
    """Rows in which any of them is missing; False where there are none."""
    return np.logical_or.reduce([np.isnan(values) for values in per_row.values()])


def labelled(per_row: PerRow, what: str, rows: Any, labels: pd.Index) -> pd.Series | None:
    """Those of some rows, with their labels; None where there are none."""
    return pd.Series(per_row[what][rows], index=labels) if what in per_row else None


def take(frame: pd.DataFrame, per_row: PerRow, subset: Any) -> tuple[pd.DataFrame, PerRow]:
    """The rows of a mask or of row labels."""
    mask = np.asarray(subset)
    if mask.dtype == bool:
        if mask.size != len(frame):
            raise ValueError(f"subset has {mask.size} entries for {len(frame)} rows of data")
        if isinstance(subset, pd.Series):
            check_labels(subset, frame.index, "the data", "subset")
        return frame.loc[mask], {what: values[mask] for what, values in per_row.items()}
    rows = pd.Series(np.arange(len(frame)), index=frame.index)
    try:
        positions = rows.loc[subset].to_numpy()
    except KeyError as error:
        raise ValueError(f"subset has row labels that the data lack: {error}") from error
    return frame.iloc[positions], {what: values[positions] for what, values in per_row.items()}


def check_missing(absent: Any, counts: Mapping[str, int], per_row: PerRow, missing: str) -> None:
    """Refuse missing values where they may not be left out, or where nothing else is there."""
    found = {name: int(count) for name, count in counts.items() if count}
    found |= {what: int(np.isnan(values).sum()) for what, values in per_row.items() if np.isnan(values).any()}
    told = ", ".join(f"{name!r} ({count})" for name, count in list(found.items())[:SHOWN])
    told += f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    if missing == "raise":
        raise ValueError(f"missing values in {told}: impute them, or use missing='drop'")
    if absent.all():
        raise ValueError(f"every row has a missing value (in {told}): nothing is left to fit")
