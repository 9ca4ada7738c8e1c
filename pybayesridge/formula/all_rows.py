"""What does not apply to new rows.

Terms whose values depend on other rows, such as ``x - x.mean()``, would have other values, and the caller's values of
each row of the fit are not those of other rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.names import Names, names_of, sees_other_rows
from pybayesridge.formula.spec import has_length
from pybayesridge.formula.values import model_matrix, used_categories

ROWS = 10
"""So many rows are coded again, at most, in two halves: the largest value of a column is in one of them at most."""

ROUNDING = 1e-9
"""Values that differ by less, relative to the largest of the column, are equal."""

OF_ONE_ROW = ("abs", "float", "int", "bool", "round", "pow")
"""Functions of Python that treat each value alone."""


def values_by_row(
    spec: ModelSpec, frame: pd.DataFrame, made: pd.DataFrame, own: Mapping[str, Any]
) -> tuple[str, ...]:
    """The caller's values, by name, that have an entry for each row and cannot be used for some rows alone.

    An array of as many entries that is looked up in, such as ``table[k]``, gives some rows what it gave them among
    all. The arguments are those of :func:`terms_of_all_rows`.
    """
    names = tuple(name for name, value in own.items() if has_length(value, (len(frame),)))
    if not names or len(frame) < 2:
        return ()
    try:
        for half in _halves(len(frame)):
            if _differ(made.to_numpy(np.float64), half, _alone(spec, frame, half, own)).any():
                return names
    except Exception:
        return names
    return ()


def terms_of_all_rows(
    spec: ModelSpec, frame: pd.DataFrame, made: pd.DataFrame, own: Mapping[str, Any]
) -> tuple[str, ...]:
    """Terms of a right-hand side that have other values where some rows are coded without the others.

    Parameters
    ----------
    spec : formulaic.ModelSpec
        With what its transforms have learned.
    frame : pandas.DataFrame
        The columns that it reads.
    made : pandas.DataFrame
        What it makes of them.
    own : mapping
        What it uses of the caller's.
    """
    if len(frame) < 2 or not _in_doubt(names_of(spec.formula)) or sees_other_rows(spec.formula):
        return ()
    odd = np.zeros(made.shape[1], dtype=bool)
    for half in _halves(len(frame)):
        try:
            odd |= _differ(made.to_numpy(np.float64), half, _alone(spec, frame, half, own))
        except Exception:
            # What cannot be coded without the other rows is an error of predictions too, which says why.
            return ()
    return tuple(str(term) for term, where in spec.term_slices.items() if odd[where].any())


def _halves(count: int) -> tuple[Any, Any]:
    """Positions of some rows, in two halves."""
    rows = np.unique(np.linspace(0, count - 1, ROWS).astype(int))
    return rows[::2], rows[1::2]


def _alone(spec: ModelSpec, frame: pd.DataFrame, rows: Any, own: Mapping[str, Any]) -> Any:
    """What some rows are coded as without the others."""
    some = frame.iloc[rows].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = pd.DataFrame(model_matrix(spec, used_categories(some, some.columns), own)[0])
    return made.to_numpy(np.float64)


def _in_doubt(names: Names) -> bool:
    """Whether expressions have more than functions of formulas and of single values."""
    methods = {name for name in names.methods if not isinstance(getattr(np, name, None), np.ufunc)}
    return bool(methods or names.functions - set(TRANSFORMS) - set(OF_ONE_ROW))


def _differ(whole: Any, rows: Any, alone: Any) -> Any:
    """Columns whose values at some rows are others."""
    size = np.nanmax(np.abs(whole), axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):
        near = np.abs(whole[rows] - alone) <= ROUNDING * size
    return ~(near | (np.isnan(whole[rows]) & np.isnan(alone))).all(axis=0)
