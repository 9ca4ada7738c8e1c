"""The ridge by dense algebra in extended precision (64 bits of mantissa on x86), sharing no code with the package."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, gammaln

LONG = np.longdouble

SWEEPS = 40
"""Most sweeps of Jacobi's rotations; about eight are needed."""

ZERO = 64 * np.finfo(LONG).eps
"""Singular values below this share of the largest are zero."""


def orthonormal(z):
    """An orthonormal basis of the columns of z, by Gram and Schmidt's method, twice."""
    q = np.array(z, dtype=LONG)
    for j in range(q.shape[1]):
        for _ in range(2):
            q[:, j] -= q[:, :j] @ (q[:, :j].T @ q[:, j])
        q[:, j] /= np.sqrt(q[:, j] @ q[:, j])
    return q


def jacobi(a):
    """Singular values (descending) and vectors u, v of a (m, k), k <= m, by one-sided Jacobi rotations."""
    u, v = np.array(a, dtype=LONG), np.eye(a.shape[1], dtype=LONG)
    k = u.shape[1]
    for _ in range(SWEEPS):
        worst = LONG(0)
        for i in range(k - 1):
            for j in range(i + 1, k):
                alpha, beta, gamma = u[:, i] @ u[:, i], u[:, j] @ u[:, j], u[:, i] @ u[:, j]
                if gamma == 0:
                    continue
                worst = max(worst, abs(gamma) / np.sqrt(alpha * beta))
                zeta = (beta - alpha) / (2 * gamma)
                t = (LONG(1) if zeta >= 0 else LONG(-1)) / (abs(zeta) + np.sqrt(1 + zeta * zeta))
                c = 1 / np.sqrt(1 + t * t)
                for matrix in (u, v):
                    left, right = matrix[:, i].copy(), matrix[:, j].copy()
                    matrix[:, i], matrix[:, j] = c * left - c * t * right, c * t * left + c * right
        if worst < 8 * np.finfo(LONG).eps:
            break
    s = np.sqrt((u * u).sum(axis=0))
    order = np.argsort(-s)
    return u[:, order], s[order], v[:, order]


class LongDouble:
    """A Bayesian ridge with design [Z, X] and a flat prior on the coefficients of Z."""

    def __init__(
        self, y, x, z, *, weights=None, standardize=True, prior=(0.5, 0.5), sigma2=None, dof="nu", zero=ZERO
    ):
        n, self.p = x.shape
        w = np.ones(n, dtype=LONG) if weights is None else np.array(weights, dtype=LONG)
        w = w / w.mean()
        root = np.sqrt(w)[:, None]
        x, y, z = np.array(x, dtype=LONG), np.array(y, dtype=LONG), np.array(z, dtype=LONG)
        mean = w @ x / n
        sd = np.sqrt(w @ (x - mean) ** 2 / n)
        self.scale = sd if standardize else np.ones(self.p, dtype=LONG)
        q = orthonormal(root * z)
        self.xr, self.yr = root * (x / self.scale), root[:, 0] * y
        for _ in range(2):
            self.xr = self.xr - q @ (q.T @ self.xr)
            self.yr = self.yr - q @ (q.T @ self.yr)
        self.nu = n - z.shape[1]
        self.count = self.nu if dof == "nu" else n
        self.prior, self.sigma2 = prior, sigma2
        if n >= self.p:
            u, s, v = jacobi(self.xr)
        else:
            v, s, u = jacobi(self.xr.T)
        rank = min(int((s > zero * s[0]).sum()), self.nu)
        self.s = s[:rank]
        if n >= self.p:
            self.v, self.u = v[:, :rank], u[:, :rank] / self.s
        else:
            self.u, self.v = u[:, :rank], v[:, :rank] / self.s
        self.z = self.u.T @ self.yr
        rest = self.yr - self.u @ self.z
        self.rss0 = LONG(0) if rank == self.nu else rest @ rest
        self.log_z = 2 * np.log(np.abs(np.diag(q.T @ (root * z)))).sum() if z.shape[1] == 1 else None
        self.log_w = np.log(w).sum()

    def rss(self, l):
        lam = np.exp(-np.atleast_1d(np.asarray(l, dtype=LONG)))[:, None]
        return self.rss0 + (lam / (self.s**2 + lam) * self.z**2).sum(axis=1)

    def _terms(self, l):
        l = np.atleast_1d(np.asarray(l, dtype=LONG))
        det = np.logaddexp(LONG(0), l[:, None] + 2 * np.log(self.s)).sum(axis=1) / 2
        return l, det, np.logaddexp(LONG(0), l) * (self.prior[0] + self.prior[1])

    def f(self, l):
        """Minus the log profile posterior of l = log t2, as a density in t2."""
        l, det, prior = self._terms(l)
        fit = self.rss(l) / (2 * self.sigma2) if self.sigma2 else (self.count + 2) / LONG(2) * np.log(self.rss(l))
        return det + fit + (1 - self.prior[0]) * l + prior

    def log_density(self, l):
        """Log density of l, b and s2 integrated out, up to a constant."""
        l, det, prior = self._terms(l)
        fit = self.rss(l) / (2 * self.sigma2) if self.sigma2 else self.count / LONG(2) * np.log(self.rss(l))
        return -det - fit + self.prior[0] * l - prior

    def slope(self, l):
        """df/dl at one point."""
        lam = np.exp(-LONG(l))
        e, c = self.s**2 / (self.s**2 + lam), lam / (self.s**2 + lam)
        drop = (e * c * self.z**2).sum()
        factor = 1 / (2 * self.sigma2) if self.sigma2 else (self.count + 2) / (2 * self.rss(l)[0])
        share = 1 / (1 + lam)
        return e.sum() / 2 - factor * drop + 1 - self.prior[0] + (self.prior[0] + self.prior[1]) * share

    def grid(self, spacing=0.05, wide=30.0):
        """Points of l that hold every feature of the profile."""
        low = -2 * np.log(self.s[0]) - np.log(LONG(self.count + 2)) - wide
        high = max(-2 * np.log(self.s[-1]) + np.log(LONG(self.count + 2)), LONG(0)) + wide
        if self.rss0 > 0:
            gain = ((self.z / self.s) ** 2).sum() / self.rss0
            high = max(high, np.log(gain * (self.count + 2)) + wide)
        return np.arange(min(low, LONG(-wide)), high, LONG(spacing))

    def modes(self):
        """Every interior minimum of f: upward changes of sign of its slope, bisected."""
        grid = self.grid()
        slopes = np.array([self.slope(l) for l in grid])
        out = []
        for i in np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] >= 0)):
            low, high = grid[i], grid[i + 1]
            for _ in range(70):
                middle = (low + high) / 2
                low, high = (middle, high) if self.slope(middle) < 0 else (low, middle)
            out.append((low + high) / 2)
        return out

    def mode(self):
        """The lowest interior minimum of f, or None."""
        modes = self.modes()
        return min(modes, key=lambda l: self.f(l)[0]) if modes else None

    def noise_at_mode(self, l):
        return self.rss(l)[0] / (self.count + 2)

    def coefficients(self, l):
        """Posterior mean of the penalised coefficients, user's scale, at one l."""
        lam = np.exp(-LONG(l))
        return self.v @ (self.s * self.z / (self.s**2 + lam)) / self.scale

    def fitted(self, l):
        """Weighted fitted values outside Z, at one l."""
        lam = np.exp(-LONG(l))
        return self.u @ (self.s**2 * self.z / (self.s**2 + lam))

    def nodes(self, spacing=0.05, wide=80.0):
        """Points of l and their posterior weights."""
        grid = self.grid(spacing, wide)
        density = self.log_density(grid)
        weight = np.exp(density - density.max())
        return grid, weight / weight.sum()

    def log_marginal(self, spacing=0.05, wide=80.0):
        """Log p(y) with one unpenalised column or none."""
        grid = self.grid(spacing, wide)
        density = self.log_density(grid)
        total = density.max() + np.log(np.exp(density - density.max()).sum() * spacing)
        total += (self.log_w - (self.log_z or 0)) / 2 - betaln(*self.prior)
        if self.sigma2:
            return total - self.nu / 2 * np.log(2 * np.pi * self.sigma2)
        return total + gammaln(self.nu / 2) - self.nu / 2 * np.log(np.pi)
