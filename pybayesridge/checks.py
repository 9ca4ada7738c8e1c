"""Checks of scalar arguments, used by all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.text import listed


def positive_int(name: str, value: object) -> int:
    """A positive integer, or a ValueError that names the argument."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer, not {value!r}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """A positive finite number, or a ValueError that names the argument."""
    try:
        if isinstance(value, bool | np.bool_ | str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a positive number, not {value!r}") from None
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be positive and finite, not {value!r}")
    return number


def in_order(what: str, given: Any, names: Sequence[str], of: str) -> Any:
    """Numbers in the order of names if they are given by name, in a dict or a labelled Series; others as they are.

    Parameters
    ----------
    what : str
        The argument that they are.
    given : Any
    names : sequence of str
    of : str
        What has the names, in the plural.
    """
    by_position = isinstance(given, pd.Series) and isinstance(given.index, pd.RangeIndex)
    if by_position or not isinstance(given, Mapping | pd.Series):
        return given
    values = {str(name): value for name, value in given.items()}
    if len(values) < len(given) or sorted(values) != sorted(names):
        raise ValueError(f"{what} must have a number for each of the {of} {listed(names)}")
    return [values[name] for name in names]


def check_which(which: str) -> str:
    """Whether probabilities ("mean") or linear predictors ("linear") are asked for."""
    if which not in ("mean", "linear"):
        raise ValueError(f"which must be 'mean' (probabilities) or 'linear' (the linear predictor), not {which!r}")
    return which
