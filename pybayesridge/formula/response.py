"""The left-hand side of a formula: numbers, or a factor with two levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from formulaic.parser.types import Factor

from pybayesridge.text import listed


def response(made: Any, formula: str, binary: bool, frame: pd.DataFrame) -> pd.DataFrame:
    """The left-hand side as formulaic made it of a frame; if it is `binary`, it may be a factor."""
    return _as_factor(made, frame) if binary else numeric_endog(made, formula)


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


def _as_factor(made: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The left-hand side with the columns of a factor put together again; an ordered one is as it was."""
    spec, lhs = made.model_spec, made.__wrapped__
    terms = [str(factor.expr) for term in spec.formula for factor in term.factors]
    if len(terms) != 1 or not all(factor for _, factor in _columns(spec)):
        return lhs
    given = frame[terms[0]] if terms[0] in frame.columns else None
    if given is not None and isinstance(given.dtype, pd.CategoricalDtype) and given.cat.ordered:
        return pd.DataFrame({terms[0]: given.loc[lhs.index]}, index=lhs.index)
    start = f"{terms[0]}["
    values = lhs.to_numpy(dtype=np.float64)
    codes = np.where(np.isnan(values).any(axis=1), -1, np.nan_to_num(values).argmax(axis=1))
    levels = [str(name)[len(start) : -1] for name in lhs.columns]
    factor = pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(levels))
    return pd.DataFrame({terms[0]: factor}, index=lhs.index)


def _columns(spec: Any) -> list[tuple[str, bool]]:
    """The columns, and whether the term of each has a factor."""
    names = list(spec.column_names)
    kinds = {str(name): kind for name, (kind, _) in spec.encoder_state.items()}
    return [
        (name, any(kinds.get(str(factor.expr)) is Factor.Kind.CATEGORICAL for factor in term.factors))
        for term, where in spec.term_slices.items()
        for name in names[where]
    ]
