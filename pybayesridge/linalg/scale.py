"""Constant columns, and the units of columns."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import BoolArray, FloatArray

CONSTANT = 1e-13
"""A column whose standard deviation is at most this share of its magnitude counts as constant."""

SAFE = (1e-120, 1e120)
"""Sums of squares within these bounds have met neither overflow nor underflow."""


def constant_columns(sd: FloatArray, magnitude: FloatArray) -> BoolArray:
    """Mark the columns whose standard deviation is negligible relative to their magnitude."""
    flat: BoolArray = sd <= CONSTANT * magnitude
    return flat


def common_scale(sd: FloatArray) -> float:
    """Power of two near the largest standard deviation: the unit of an X that is not standardised."""
    top = float(sd.max(initial=0.0))
    return 2.0 ** float(np.round(np.log2(top))) if 0 < top < np.inf else 1.0
