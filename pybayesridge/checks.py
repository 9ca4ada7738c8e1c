"""Checks of scalar arguments, used by all."""

from __future__ import annotations

from typing import Any

import numpy as np


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


def check_new_levels(new_levels: str) -> None:
    """How predictions take groups that a fit has not seen."""
    if new_levels not in ("sample", "zero"):
        raise ValueError(f"new_levels must be 'sample' or 'zero', not {new_levels!r}")


def check_which(which: str) -> str:
    """Whether means of responses ("mean") or linear predictors ("linear") are asked for."""
    if which not in ("mean", "linear"):
        raise ValueError(
            "which must be 'mean' (of the response, such as a probability) or 'linear' (the linear predictor), not "
            f"{which!r}"
        )
    return which
