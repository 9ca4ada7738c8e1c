"""The data sets on which we are compared with R: a matrix of shapes and troubles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    """A regression with everything glmnet needs to know.

    Attributes
    ----------
    y : (n,) array
    x : (n, p) array
    weights : (n,) array or None
    """

    y: np.ndarray
    x: np.ndarray
    weights: np.ndarray | None = None

    @property
    def w(self):
        """Weights that sum to 1."""
        n = len(self.y)
        return np.full(n, 1.0 / n) if self.weights is None else self.weights / self.weights.sum()

    @property
    def sd_y(self):
        """Standard deviation of the response as glmnet has it: weighted, 1/n."""
        return np.sqrt(self.w @ (self.y - self.w @ self.y) ** 2)

    @property
    def sd_x(self):
        """Standard deviations of the columns."""
        return np.sqrt(self.w @ (self.x - self.w @ self.x) ** 2)

    def glmnet_units(self, penalty):
        """Our penalty of the sum of squares as glmnet's lambda."""
        return penalty * self.sd_y / len(self.y)


def _problem(n, p, seed, *, scale=0.0, rho=0.3, signal=3, weights=False, factors=False):
    rng = np.random.default_rng(seed)
    x = np.sqrt(1 - rho) * rng.standard_normal((n, p)) + np.sqrt(rho) * rng.standard_normal((n, 1))
    if factors:
        levels = rng.integers(0, 4, (n, p))
        x = np.column_stack([(levels[:, j] == k).astype(float) for j in range(p) for k in (1, 2, 3)])
    x = (x + rng.uniform(-2, 2, x.shape[1])) * 10.0 ** rng.uniform(-scale, scale, x.shape[1])
    b = np.zeros(x.shape[1])
    b[:signal] = rng.uniform(1, 2, signal) / x[:, :signal].std(axis=0)
    y = 5.0 + x @ b + rng.standard_normal(n)
    return Problem(y, x, rng.uniform(0.2, 3.0, n) if weights else None)


PROBLEMS = {
    "n > p": _problem(60, 8, 1),
    "n < p": _problem(30, 80, 2),
    "n = p": _problem(25, 25, 3),
    "factors": _problem(80, 4, 4, factors=True),
    "near-collinear": _problem(50, 6, 5, rho=0.9999),
    "scaled columns": _problem(50, 10, 6, scale=3.0),
    "weights": _problem(40, 7, 7, weights=True),
    "weights, n < p": _problem(20, 45, 8, weights=True),
    "one column": _problem(30, 1, 9, signal=1),
}
