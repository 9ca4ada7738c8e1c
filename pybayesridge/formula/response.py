"""The left-hand side of a formula: numbers, or a factor with two levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.text import listed


def response(lhs: pd.DataFrame, parsed: Any, formula: str, binary: bool) -> pd.DataFrame:
    """The left-hand side; if it is `binary`, it may be a factor."""
    return _as_factor(lhs, parsed) if binary else numeric_endog(lhs, formula)


def _as_factor(lhs: pd.DataFrame, parsed: Any) -> pd.DataFrame:
    """The left-hand side with the columns of a factor put together again."""
    terms = [str(term) for term in parsed.lhs]
    start = f"{terms[0]}[" if len(terms) == 1 else ""
    names = [str(name) for name in lhs.columns]
    if not start or not all(name.startswith(start) and name.endswith("]") for name in names):
        return lhs
    values = lhs.to_numpy(dtype=np.float64)
    codes = np.where(np.isnan(values).any(axis=1), -1, np.nan_to_num(values).argmax(axis=1))
    levels = [name[len(start) : -1] for name in names]
    factor = pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(levels))
    return pd.DataFrame({terms[0]: factor}, index=lhs.index)


def numeric_endog(lhs: pd.DataFrame, formula: str) -> pd.DataFrame:
    """The left-hand side, which must not be a factor."""
    levels = [name for name in lhs.columns if str(name).endswith("]") and "[" in str(name)]
    if levels:
        hint = "; for two values use family='binomial'" if len(levels) == 2 else ""
        raise ValueError(
            f"the left-hand side of {formula!r} is a factor (columns {listed(levels)}): the response must be "
            f"numeric{hint}"
        )
    return lhs
