"""What does not apply to new rows.

Terms whose values depend on other rows, such as ``x - x.mean()``, would have other values, and the caller's values of
each row of the fit are not those of other rows.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.parser.types import Term
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.calls import tree_of
from pybayesridge.formula.names import names_of, sees_other_rows
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
    doubted = [term for term in spec.formula if _in_doubt(term)]
    if len(frame) < 2 or not doubted:
        return ()
    whole = made.to_numpy(np.float64)
    own_row = [term for term in doubted if not sees_other_rows([term])]
    odd = [term for term in own_row if _has_other_values(spec, frame, whole, own, term)]
    odd += [term for term in doubted if term not in own_row and _is_moved(spec, frame, whole, own, term)]
    return tuple(str(term) for term in spec.formula if term in odd)


def _has_other_values(spec: ModelSpec, frame: pd.DataFrame, whole: Any, own: Mapping[str, Any], term: Term) -> bool:
    """Whether a term has other values in some rows where these are coded without the others, or none."""
    only, whole = spec.subset([term]), whole[:, spec.term_slices[term]]
    try:
        return any(_differ(whole, rows, _alone(only, frame, rows, own)).any() for rows in _halves(len(frame)))
    except Exception:
        return True


def _is_moved(spec: ModelSpec, frame: pd.DataFrame, whole: Any, own: Mapping[str, Any], term: Term) -> bool:
    """Whether a term that looks at neighbouring rows has other values everywhere if the first rows are left out."""
    only, whole = spec.subset([term]), whole[:, spec.term_slices[term]]
    rows = np.arange(1 + len(frame) // ROWS, len(frame))
    try:
        alone = _alone(only, frame, rows, own)
    except Exception:
        return True
    there = ~np.isnan(alone)
    same = _near(whole, rows, alone)
    return bool((there.any(axis=0) & ~same.any(axis=0)).any())


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


def _in_doubt(term: Term) -> bool:
    """Whether a term has more than functions of formulas and of single values, and names of columns."""
    names = names_of([term])
    methods = {name for name in names.methods if not isinstance(getattr(np, name, None), np.ufunc)}
    trees = [tree for tree in map(tree_of, term.factors) if tree is not None]
    looked_up = any(isinstance(node, ast.Subscript) for tree in trees for node in ast.walk(tree))
    return bool(looked_up or methods or names.functions - set(TRANSFORMS) - set(OF_ONE_ROW))


def _differ(whole: Any, rows: Any, alone: Any) -> Any:
    """Columns whose values at some rows are others."""
    return ~(_near(whole, rows, alone) | (np.isnan(whole[rows]) & np.isnan(alone))).all(axis=0)


def _near(whole: Any, rows: Any, alone: Any) -> Any:
    """Values at some rows that are the same but for rounding."""
    size = np.nanmax(np.abs(whole), axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(whole[rows] - alone) <= ROUNDING * size)
