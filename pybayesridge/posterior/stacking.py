"""Stacking: weights of several predictive distributions whose mixture predicts rows left out best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pybayesridge._types import FloatArray

TOL = 1e-12
"""Of the mean log score."""

MAXITER = 1000


@dataclass(frozen=True, slots=True)
class Stacking:
    """Weights (m,) of m models, and whether the optimiser has converged."""

    weights: FloatArray
    converged: bool


def stacking_weights(log_density: FloatArray, copies: FloatArray) -> Stacking:
    """Weights w that maximise ``sum_i copies_i log sum_k w_k p_k(y_i)``, not negative and with the sum 1.

    Yao, Vehtari, Simpson and Gelman (2018), equation 4. The problem is concave.

    Parameters
    ----------
    log_density : (n, m) array
        Of each row left out under each model.
    copies : (n,) array
        How many times each row counts.
    """
    m = log_density.shape[1]
    if m == 1:
        return Stacking(np.ones(1), True)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    share = copies / copies.sum()

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        """Minus the mean log score of a mixture, and its gradient."""
        total = np.maximum(density @ w, np.finfo(float).tiny)
        return -float(share @ np.log(total)), -(share / total) @ density

    found = scipy.optimize.minimize(
        loss,
        np.full(m, 1.0 / m),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * m,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": TOL, "maxiter": MAXITER},
    )
    weights = np.clip(found.x, 0.0, 1.0)
    return Stacking(weights / weights.sum(), bool(found.success))
