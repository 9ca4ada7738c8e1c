"""The defaults of the options of ``SpikeSlab.fit``, and the checks of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from pybayesridge.checks import positive

TOL = 1e-4
"""Tolerance of EP's residual, unless another is given."""

MCSE = 0.01
"""Largest Monte Carlo standard error of an inclusion probability, unless another is given."""

CHAINS = 4

DAMPING = 0.5
"""The share of the new sites in an update of damped EP, unless another is given."""


def damping_share(name: str, value: Any) -> float:
    """A share in (0, 1], or a ValueError that names the option."""
    if not 0 < positive(name, value) <= 1:
        raise ValueError(f"{name} must lie in (0, 1], not {value!r}")
    return float(value)


def seed(name: str, value: Any) -> np.random.Generator | int:
    """A seed or a generator, or a ValueError that names the option."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
    if not whole and not isinstance(value, np.random.Generator):
        raise ValueError(f"{name} must be a seed (an integer of at least 0) or a numpy Generator, not {value!r}")
    return value
