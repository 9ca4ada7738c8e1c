"""Groups of the rows of a fit, as the argument `by` says: a factor of the formula, or a label for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import IntArray
from pybayesridge.data.frames import to_pandas
from pybayesridge.text import listed


def groups_of_rows(model: Any, by: Any) -> tuple[pd.Series, IntArray, pd.Index]:
    """The label of each row, the position of its group (n,), and the labels of the groups.

    Parameters
    ----------
    model : model
    by : str or array-like
        A variable of the formula, several joined by ":", or a label for each row of the fit. A Series is matched by
        the labels of its rows, of which it may have more.

    Raises
    ------
    ValueError
        For an unknown variable, labels that are missing or of another number than the rows, or a single group.
    """
    labels = _of_formula(model, by) if isinstance(by, str) else _given(model, by)
    gone = labels.isna().to_numpy()
    if gone.any():
        raise ValueError(
            f"by has no label for row(s) {listed(labels.index[gone].tolist())}: give each row of the fit a label"
        )
    codes, found = pd.factorize(labels, sort=True)
    if len(found) < 2:
        raise ValueError("by makes a single group: there are no other rows to predict it from")
    return labels, codes.astype(np.intp), pd.Index(found, name=labels.name, tupleize_cols=False)


def _of_formula(model: Any, by: str) -> pd.Series:
    columns = model.variables
    if columns is None and isinstance(model.data.orig_exog, pd.DataFrame) and model.formula_spec is not None:
        columns = model.data.orig_exog
    if columns is None:
        raise ValueError(
            f"by={by!r} names a variable of the formula, and the fit keeps none: pass an array with a label for each "
            "row"
        )
    names = [by] if by in columns else by.split(":")
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ValueError(
            f"by names {listed(unknown)}, which the formula does not read (it reads {listed(columns)}): pass the "
            "column itself, or an array with a label for each row"
        )
    values = [columns[name].tolist() for name in names]
    keys = values[0] if len(names) == 1 else list(zip(*values, strict=True))
    return pd.Series(keys, index=model.data.row_labels, name=by, dtype=None if len(names) == 1 else object)


def _given(model: Any, by: Any) -> pd.Series:
    rows = model.data.row_labels
    try:
        given = to_pandas(by, "by")
    except TypeError:
        given = None
    if given is None or np.ndim(given) != 1:
        raise ValueError(f"by must be the name of a variable or a label for each row, not {type(by).__name__}")
    if isinstance(given, pd.Series) and not given.index.equals(rows):
        if not (given.index.is_unique and rows.isin(given.index).all()):
            raise ValueError("the row labels of by and of the fit differ: align them, or pass an array")
        given = given.loc[rows]
    if len(given) != len(rows):
        raise ValueError(f"by has {len(given):,} labels for the {len(rows):,} rows of the fit: give each row one")
    out = pd.Series(list(given), index=rows, name=getattr(given, "name", None))
    return out.rename("group") if out.name is None else out
