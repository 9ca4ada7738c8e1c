"""The compiled likelihood of :mod:`pybayesridge.binomial.beta_binomial` for few trials a row."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.compiled.library import built

MOST = 64
"""Most successes, and failures, of a row: the work grows with them."""

LEAST_ALPHA, MOST_ALPHA = 1e-9, 1e6
"""Dispersions for which products are numbers."""


def values_and_slopes(
    eta: FloatArray, successes: FloatArray, failures: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray] | None:
    """Log likelihoods and their slopes, each (K, m); None without a library, or where it does not serve.

    Parameters
    ----------
    eta : (K, m) array
        Linear predictors.
    successes, failures : (m,) arrays
        Whole numbers.
    alpha : float
        The dispersion.
    """
    most = max(successes.max(initial=0.0), failures.max(initial=0.0))
    if not (LEAST_ALPHA <= alpha <= MOST_ALPHA and most <= MOST) or (code := built()) is None:
        return None
    given = [np.ascontiguousarray(each, dtype=np.float64) for each in (eta, successes, failures)]
    value, slope = np.empty(eta.shape), np.empty(eta.shape)
    pointers = [each.ctypes.data for each in given]
    code.beta_binomial(eta.shape[1], eta.shape[0], *pointers, alpha, value.ctypes.data, slope.ctypes.data)
    return value, slope
