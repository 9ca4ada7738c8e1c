"""Brute force: the posterior of the ridge by dense algebra, sharing no code with the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq


@dataclass
class Oracle:
    """A ridge with design [Z, X], flat prior on Z, N(0, s2/lam) on the standardised X.

    The prior of t2 = 1/lam is "half-cauchy" (of t), "r2", (a, b) or (a, b, scale).
    """

    y: np.ndarray
    z: np.ndarray
    x: np.ndarray
    weights: np.ndarray | None = None
    standardize: bool = True
    prior: str | tuple[float, ...] = "half-cauchy"
    sigma2: float | None = None
    dof: str = "nu"
    parameterization: str = "tau2"

    def __post_init__(self):
        n = len(self.y)
        w = np.ones(n) if self.weights is None else self.weights / self.weights.mean()
        mean = w @ self.x / w.sum()
        sd = np.sqrt(w @ (self.x - mean) ** 2 / w.sum())
        self.scale = sd if self.standardize else np.ones(self.x.shape[1])
        root = np.sqrt(w)[:, None]
        self.zw, self.xw, self.yw = root * self.z, root * self.x / self.scale, root[:, 0] * self.y
        self.k, self.p = self.z.shape[1], self.x.shape[1]
        self.nu = n - self.k
        self.count = self.nu if self.dof == "nu" else n
        q = np.linalg.qr(self.zw)[0]
        self.xr = self.xw - q @ (q.T @ self.xw)
        self.xr -= q @ (q.T @ self.xr)
        self.yr = self.yw - q @ (q.T @ self.yw)
        self.yr -= q @ (q.T @ self.yr)
        # sum_j |x_j|^2 t2 / n is the prior mean of b'X'Xb / (n s2): "r2" takes it for the signal-to-noise ratio.
        named = {"half-cauchy": (0.5, 0.5, 1.0), "r2": (0.5, 0.5, n / max((self.xr**2).sum(), 1e-300))}
        self.a, self.b, scale = named[self.prior] if isinstance(self.prior, str) else (*self.prior, 1.0)[:3]
        self.log_scale = np.log(scale)

    @property
    def jacobian(self):
        """Power of t2 that makes a density in l = log t2 one in t2 or in t, with its sign turned."""
        return 1.0 if self.parameterization == "tau2" else 0.5

    def log_prior(self, l):
        """Log density of l = log t2, up to a constant: t2 / scale is beta-prime(a, b)."""
        return self.a * l - (self.a + self.b) * np.logaddexp(0, l - self.log_scale)

    def rss(self, l):
        """y'(I + t2 XX')^-1 y, by a dense solve on rows."""
        return self.yr @ np.linalg.solve(np.eye(len(self.yr)) + np.exp(l) * self.xr @ self.xr.T, self.yr)

    def f(self, l):
        """Minus the log profile posterior of l = log t2."""
        det = np.linalg.slogdet(np.eye(len(self.yr)) + np.exp(l) * self.xr @ self.xr.T)[1]
        fit = self.rss(l) / (2 * self.sigma2) if self.sigma2 else (self.count + 2) / 2 * np.log(self.rss(l))
        return 0.5 * det + fit - self.log_prior(l) + self.jacobian * l

    def slope(self, l):
        """df/dl, by a dense inverse on rows; a root is found to more digits than a minimum."""
        prior = self.a - (self.a + self.b) / (1 + np.exp(self.log_scale - l))
        gram = np.exp(l) * self.xr @ self.xr.T
        inverse = np.linalg.inv(np.eye(len(self.yr)) + gram)
        v = inverse @ self.yr
        factor = 1 / (2 * self.sigma2) if self.sigma2 else (self.count + 2) / 2 / (self.yr @ v)
        return 0.5 * np.sum(gram * inverse) - factor * v @ gram @ v + self.jacobian - prior

    def modes(self, low=-14.0, high=10.0):
        """Every interior minimum of f: upward changes of sign of its slope on a fine grid, solved for."""
        grid = np.linspace(low, high, 481)
        up = np.array([self.slope(l) > 0 for l in grid])
        starts = np.flatnonzero(~up[:-1] & up[1:])
        return [brentq(self.slope, grid[i], grid[i + 1], xtol=1e-13) for i in starts]

    def mode(self):
        """The lowest interior minimum of f."""
        return min(self.modes(), key=self.f)

    def log_posterior(self, l):
        """Log density of l = log t2, b and s2 integrated out, up to a constant."""
        det = np.linalg.slogdet(np.eye(len(self.yr)) + np.exp(l) * self.xr @ self.xr.T)[1]
        fit = self.rss(l) / (2 * self.sigma2) if self.sigma2 else self.nu / 2 * np.log(self.rss(l))
        return -0.5 * det - fit + self.log_prior(l)

    def coefficients(self, lam):
        """Posterior mean of [Z, X] coefficients on the user's scale, from the joint normal equations."""
        return np.linalg.solve(self.precision(lam), np.r_[self.zw.T @ self.yw, self.xw.T @ self.yw]) / self.units

    def precision(self, lam):
        """(Z, X)'W(Z, X) + diag(0, lam), X standardised but not centred."""
        both = np.hstack([self.zw, self.xw])
        return both.T @ both + np.diag(np.r_[np.zeros(self.k), np.full(self.p, lam)])

    @property
    def units(self):
        """Standardised coefficients over these are on the user's scale."""
        return np.r_[np.ones(self.k), self.scale]

    def unit_covariance(self, lam):
        """Posterior covariance of [Z, X] coefficients for noise variance 1, user's scale."""
        return np.linalg.inv(self.precision(lam)) / np.outer(self.units, self.units)
