"""The left-hand side of a formula: numbers, or a factor with two levels."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from formulaic.parser.types import Factor

from pybayesridge.formula.calls import tree_of
from pybayesridge.formula.values import Coder
from pybayesridge.text import listed


def response(
    made: Any, formula: str, binary: bool, frame: pd.DataFrame, context: Mapping[str, Any] | None
) -> pd.DataFrame:
    """The left-hand side as formulaic made it of a frame; if it is `binary`, it may be a factor."""
    return _as_factor(made, frame, context) if binary else numeric_endog(made, formula)


def numeric_endog(made: Any, formula: str) -> pd.DataFrame:
    """The left-hand side, which must not be a factor."""
    levels = [name for name, factor in _columns(made.model_spec) if factor]
    if levels:
        hint = "; for two values use family='binomial'" if len(levels) == 2 else ""
        raise ValueError(
            f"the left-hand side of {formula!r} is a factor (columns {listed(levels)}): the response must be "
            f"numeric{hint}"
        )
    out: pd.DataFrame = made.__wrapped__
    return out


def _as_factor(made: Any, frame: pd.DataFrame, context: Mapping[str, Any] | None) -> pd.DataFrame:
    """The left-hand side with the columns of a factor put together again; an ordered one keeps its order."""
    spec, lhs = made.model_spec, made.__wrapped__
    terms = [factor for term in spec.formula for factor in term.factors]
    if len(terms) != 1 or not all(factor for _, factor in _columns(spec)):
        return lhs
    name, declared = str(terms[0].expr), _declares_levels(terms[0])
    if not declared:
        coder = Coder(frame, context=dict(context or {}))
        given = pd.Series(coder.values_of({name: terms[0]}, spec.transform_state)[name].__wrapped__)
        if isinstance(given.dtype, pd.CategoricalDtype) and given.cat.ordered:
            return pd.DataFrame({name: given.set_axis(frame.index, axis=0).loc[lhs.index]}, index=lhs.index)
    start = f"{name}["
    values = lhs.to_numpy(dtype=np.float64)
    codes = np.where(np.isnan(values).any(axis=1), -1, np.nan_to_num(values).argmax(axis=1))
    levels = [str(column)[len(start) : -1] for column in lhs.columns]
    factor = pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(levels), ordered=declared)
    return pd.DataFrame({name: factor}, index=lhs.index)


def _declares_levels(factor: Factor) -> bool:
    """Whether it is a call ``C(..., levels=[...])``, which says the order of the levels."""
    tree = tree_of(factor)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id != "C":
        return False
    return any(keyword.arg == "levels" for keyword in tree.keywords)


def _columns(spec: Any) -> list[tuple[str, bool]]:
    """The columns, and whether the term of each has a factor."""
    names = list(spec.column_names)
    kinds = {str(name): kind for name, (kind, _) in spec.encoder_state.items()}
    return [
        (name, any(kinds.get(str(factor.expr)) is Factor.Kind.CATEGORICAL for factor in term.factors))
        for term, where in spec.term_slices.items()
        for name in names[where]
    ]
