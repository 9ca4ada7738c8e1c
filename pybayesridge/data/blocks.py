"""Blocks of columns as the user has them → arrays of n rows, with names where there are such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import AnyArray
from pybayesridge.data.arrays import as_matrix, numeric_frame
from pybayesridge.data.frames import to_pandas
from pybayesridge.text import listed


def as_block(
    obj: Any,
    n: int,
    *,
    transposed: bool = False,
    names_in: str | None = None,
    labels: pd.Index | None = None,
) -> tuple[AnyArray, list[str] | None]:
    """A block as an array (n, b) in its own dtype, and the names of its columns.

    Parameters
    ----------
    obj : array-like or frame
    n : int
        Rows of the response.
    transposed : bool
        Whether the rows of `obj` are columns of X.
    names_in : str, optional
        Column of a transposed frame that holds the names of its rows.
    labels : pandas.Index, optional
        Labels of the rows of the response. Those of a frame must be the same; a transposed frame has a column for
        each of them, and others that are left out.

    Raises
    ------
    ValueError
        For a block of another number of rows, with other labels, or that is not numeric.
    """
    obj = to_pandas(obj, "a block of the source")
    if isinstance(obj, pd.DataFrame):
        out, names = _transposed_frame(obj, names_in, labels) if transposed else _frame(obj, labels)
    else:
        if names_in is not None:
            raise ValueError(f"names={names_in!r} is the name of a column, and the source has none: give the names")
        # A vector may be a column, or a row of a list of rows: which of them is not guessed.
        if np.ndim(obj) != 2:
            raise ValueError(
                f"a block of the source must have two dimensions, got {np.ndim(obj)}: a column alone is x[:, None]"
            )
        matrix = obj.toarray() if sparse.issparse(obj) else as_matrix(obj, "a block of the source")
        out, names = (matrix.T if transposed else matrix), None
    if out.shape[0] != n:
        raise ValueError(wrong_rows(out.shape, n, transposed=transposed))
    return out, names


def wrong_rows(shape: tuple[int, ...], n: int, *, transposed: bool) -> str:
    """The message of columns that have another number of rows than the response."""
    text = f"the source has {shape[0]} rows of observations and endog has {n}: they must be equal"
    if len(shape) == 2 and shape[1] == n:
        text += ". If each row of the source is a column of X, " + (
            "leave out transposed" if transposed else "pass transposed=True"
        )
    return text


def _frame(frame: pd.DataFrame, labels: pd.Index | None) -> tuple[AnyArray, list[str]]:
    if labels is not None and len(frame) == len(labels) and not frame.index.equals(labels):
        raise ValueError("the row labels of endog and of the source differ: align them, or pass arrays")
    return numeric_frame(frame, "source"), [str(name) for name in frame.columns]


def _transposed_frame(
    frame: pd.DataFrame, names_in: str | None, labels: pd.Index | None
) -> tuple[AnyArray, list[str] | None]:
    names = None if isinstance(frame.index, pd.RangeIndex) else [str(label) for label in frame.index]
    if names_in is not None:
        if names_in not in frame.columns:
            raise ValueError(f"names={names_in!r} is not a column of the source: it has {listed(frame.columns)}")
        names = [str(name) for name in frame[names_in]]
    columns = sample_columns([str(name) for name in frame.columns], names_in, labels)
    at = [list(map(str, frame.columns)).index(name) for name in columns] if labels is not None else None
    some = frame.drop(columns=[names_in] if names_in is not None else []) if at is None else frame.iloc[:, at]
    return numeric_frame(some, "source").T, names


def sample_columns(columns: Sequence[str], names_in: str | None, labels: pd.Index | None) -> list[str]:
    """The columns of a transposed table that are observations: those that the labels name, or all but the names."""
    if labels is None:
        return [name for name in columns if name != names_in]
    known, wanted = set(columns), [str(label) for label in labels]
    absent = [name for name in wanted if name not in known]
    if absent:
        raise ValueError(
            f"the source has no column for the observation(s) {listed(absent)} of endog: it has {listed(columns)}. "
            "The labels of endog must be the names of columns; or pass endog as an array in the order of the columns"
        )
    return wanted


def labels_of(endog: Any) -> pd.Index | None:
    """Labels of the rows of a response that say which observation each is; None for numbers from 0."""
    given = getattr(endog, "index", None) if isinstance(endog, pd.Series | pd.DataFrame) else None
    return None if given is None or isinstance(given, pd.RangeIndex) else given
