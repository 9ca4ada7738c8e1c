"""The ridge paper's algorithms as it prints them, with nothing of the package: its peers in the same run.

Tew, Boley & Schmidt (2023): EM (Table 3), leave-one-out by the short cut (Table 4), and the direct adaption of EM
that inverts a p x p matrix in every iteration (equations 9 and 11). n is counted as in the paper, the intercept's
degree of freedom included, and EM stops by its rule, the relative change of the residual sum of squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, svd

EPSILON = 1e-8
"""The paper's threshold of EM."""

MAXITER = 100_000
"""Most iterations of EM; the paper has no bound."""

FIXED_GRID = np.logspace(10, -10, 100)


@dataclass(frozen=True, slots=True)
class Standardized:
    """Columns with mean 0 (and standard deviation 1), a centred response, and the way back.

    Attributes
    ----------
    x : (n, p) array
        Without the constant columns.
    y : (n,) array
    scale : (p,) array
        What the columns were divided by.
    kept : (P,) bool array
        Which of the columns given vary.
    """

    x: np.ndarray
    y: np.ndarray
    scale: np.ndarray
    kept: np.ndarray

    def original(self, b: np.ndarray) -> np.ndarray:
        """Coefficients of the columns as they were given, (P,); those of constant columns are 0."""
        out = np.zeros(self.kept.size)
        out[self.kept] = b / self.scale
        return out


@dataclass(frozen=True, slots=True)
class Rotated:
    """The compact singular value decomposition ``x = u diag(s) v'``, and what it makes of y.

    Attributes
    ----------
    s2, c : (r,) arrays
        Squared singular values; ``s * (u'y)``.
    v : (p, r) array
    u : (n, r) array or None
        Where it was asked for.
    """

    s2: np.ndarray
    c: np.ndarray
    v: np.ndarray
    u: np.ndarray | None


@dataclass(frozen=True, slots=True)
class EM:
    """Where EM ended: hyperparameters, coefficients (rotated or not), iterations, whether its rule was met."""

    tau2: float
    sigma2: float
    b: np.ndarray
    n_iter: int
    converged: bool


def standardize(x: np.ndarray, y: np.ndarray, scale: bool = True) -> Standardized:
    """Centre, drop constant columns, and scale by the 1/n standard deviation unless told not to."""
    kept = np.ptp(x, axis=0) > 0
    x = x[:, kept] - x[:, kept].mean(axis=0)
    by = x.std(axis=0) if scale else np.ones(x.shape[1])
    return Standardized(x / by, y - y.mean(), by, kept)


def rotate(x: np.ndarray, y: np.ndarray, left: bool = False) -> Rotated:
    """Preprocessing of Tables 3 and 4, O(m r^2): eigenvectors of x'x where n > p, else an SVD.

    Directions whose singular value is a rounding error are left out of `u`, and so of everything, when `left`.
    """
    n, p = x.shape
    if n > p:
        values, v = eigh(x.T @ x, driver="evd")
        values = np.maximum(values, 0.0)
        if left:
            v, values = v[:, _real(values, n)], values[_real(values, n)]
            r = x @ v
            return Rotated(values, r.T @ y, v, r / np.sqrt(values))
        return Rotated(values, v.T @ (x.T @ y), v, None)
    u, s, vt = svd(x, full_matrices=False)
    keep = _real(s**2, p) if left else slice(None)
    u, s, vt = u[:, keep], s[keep], vt[keep]
    return Rotated(s**2, (u.T @ y) * s, vt.T, u if left else None)


def _real(values: np.ndarray, m: int) -> np.ndarray:
    return values > values.max() * m * np.finfo(float).eps


def m_step(ess: float, esn: float, n: int, p: int) -> tuple[float, float]:
    """Equation 11: tau2 and sigma2."""
    g = (4 * n + 4) * esn * (3 + p) * ess + ((1 - n) * esn + (p + 1) * ess) ** 2
    tau2 = ((n - 1) * esn - (1 + p) * ess + np.sqrt(g)) / ((6 + 2 * p) * ess)
    return float(tau2), float((tau2 * ess + esn) / ((n + p + 2) * tau2))


def em(
    s2: np.ndarray,
    c: np.ndarray,
    yy: float,
    n: int,
    p: int,
    *,
    epsilon: float = EPSILON,
    maxiter: int = MAXITER,
) -> EM:
    """The main loop of Table 3, O(r) an iteration, from tau2 = 1 and sigma2 = y'y / n.

    An `epsilon` below zero never stops it before `maxiter`.
    """
    tau2, sigma2, rss = 1.0, yy / n, np.inf
    unseen = max(p - s2.size, 0)
    for iteration in range(1, maxiter + 1):
        old = rss
        d = s2 + 1.0 / tau2
        alpha = c / d
        esn = float(alpha @ alpha + sigma2 * (np.sum(1.0 / d) + tau2 * unseen))
        rss = float(yy - 2.0 * (alpha @ c) + (alpha * alpha) @ s2)
        ess = float(rss + sigma2 * np.sum(s2 / d))
        tau2, sigma2 = m_step(ess, esn, n, p)
        if not abs(old - rss) >= epsilon * (1.0 + abs(rss)):
            return EM(tau2, sigma2, c / (s2 + 1.0 / tau2), iteration, True)
    return EM(tau2, sigma2, c / (s2 + 1.0 / tau2), maxiter, False)


def naive_em(
    gram: np.ndarray,
    xty: np.ndarray,
    yy: float,
    n: int,
    *,
    epsilon: float = EPSILON,
    maxiter: int = MAXITER,
) -> EM:
    """EM without a rotation: the p x p matrix of equation 6 is inverted in every iteration, O(p^3)."""
    p = xty.size
    tau2, sigma2, rss = 1.0, yy / n, np.inf
    identity = np.eye(p)
    for iteration in range(1, maxiter + 1):
        old = rss
        inverse = np.linalg.inv(gram + identity / tau2)
        b = inverse @ xty
        rss = float(yy - 2.0 * (b @ xty) + b @ (gram @ b))
        esn = float(b @ b + sigma2 * np.trace(inverse))
        ess = float(rss + sigma2 * np.sum(gram * inverse))
        tau2, sigma2 = m_step(ess, esn, n, p)
        if not abs(old - rss) >= epsilon * (1.0 + abs(rss)):
            return EM(tau2, sigma2, np.linalg.solve(gram + identity / tau2, xty), iteration, True)
    return EM(tau2, sigma2, np.linalg.solve(gram + identity / tau2, xty), maxiter, False)


def loocv(rotated: Rotated, y: np.ndarray, grid: np.ndarray, *, intercept: bool) -> np.ndarray:
    """The main loop of Table 4, O(n r) a penalty: a score for each.

    Table 4 forgets the intercept's leverage 1/n though y was centred; `intercept` puts it in.
    """
    if rotated.u is None:
        raise ValueError("leave-one-out needs the left singular vectors: rotate(..., left=True)")
    n = y.size
    squares = rotated.u**2
    r = rotated.u * np.sqrt(rotated.s2)
    scores = np.empty(grid.size)
    for i, lam in enumerate(grid):
        d = rotated.s2 + lam
        leverage = squares @ (rotated.s2 / d) + (1.0 / n if intercept else 0.0)
        residual = y - r @ (rotated.c / d)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores[i] = np.mean((residual / (1.0 - leverage)) ** 2)
    return scores


def fit_em(x: np.ndarray, y: np.ndarray, scale: bool = True) -> tuple[np.ndarray, EM]:
    """Table 3 from data to coefficients on the scale of the columns given."""
    data = standardize(x, y, scale)
    rotated = rotate(data.x, data.y)
    n, p = data.x.shape
    found = em(rotated.s2, rotated.c, float(data.y @ data.y), n, p)
    return data.original(rotated.v @ found.b), found


def fit_loocv(
    x: np.ndarray, y: np.ndarray, grid: np.ndarray = FIXED_GRID, *, intercept: bool, scale: bool = True
) -> tuple[np.ndarray, float]:
    """Table 4 from data to coefficients and the penalty chosen."""
    data = standardize(x, y, scale)
    rotated = rotate(data.x, data.y, left=True)
    best = float(grid[np.nanargmin(loocv(rotated, data.y, grid, intercept=intercept))])
    return data.original(rotated.v @ (rotated.c / (rotated.s2 + best))), best


def glmnet_grid(x: np.ndarray, y: np.ndarray, *, times_n: bool) -> np.ndarray:
    """The 100 penalties of glmnet for standardised columns, largest first.

    glmnet's objective divides the sum of squares by n, so that its lambda has to be multiplied by n to serve as the
    ridge penalty; `times_n` says whether that is done.
    """
    data = standardize(x, y)
    n, p = data.x.shape
    top = np.abs(data.x.T @ (data.y / data.y.std())).max() / (0.001 * n)
    floor = 1e-4 if n >= p else 1e-2
    return top * (n if times_n else 1) * np.logspace(0, np.log10(floor), 100)
