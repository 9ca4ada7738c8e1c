"""The exact posterior by brute force: an oracle's full SVD, and thousands of equally spaced values of log t2."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import special, stats
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import betaln, gammaln

LOW, HIGH, SPACING = -110.0, 110.0, 0.04
"""Where log t2 is looked at: for priors with a, b >= 1/2 less than e^-40 of the mass lies outside."""

NEGLIGIBLE = 1e-22
"""Values of log t2 of smaller weight are left out, except where t2 itself is averaged."""


ROUNDING = 1e-19
"""All values of log t2 of smaller weight together do not change a probability."""


class DensePosterior:
    """Everything about [Z, X] coefficients, noise and penalty of an oracle, with the penalty integrated out."""

    def __init__(self, oracle):
        self.o = oracle
        n = len(oracle.y)
        self.nu, self.k, self.p = oracle.nu, oracle.k, oracle.p
        outside = np.linalg.qr(oracle.zw, mode="complete")[0][:, self.k :]
        a, self.target = outside.T @ oracle.xw, outside.T @ oracle.yw
        u, s, vt = np.linalg.svd(a, full_matrices=True)
        s = np.r_[s, np.zeros(max(self.nu, self.p) - s.size)]
        s[s < 1e-11 * max(s[0], 1e-300)] = 0.0
        self.rows2, self.columns2 = s[: self.nu] ** 2, s[: self.p] ** 2
        self.v = vt.T
        z = u.T @ self.target
        self.z2 = z**2
        common = min(self.nu, self.p)
        self.cross = np.zeros(self.p)
        self.cross[:common] = s[:common] * z[:common]
        grid = np.arange(LOW, HIGH + SPACING / 2, SPACING)
        lam = np.exp(-grid)
        self.grid = grid
        self.rss = (lam[:, None] / (self.rows2 + lam[:, None])) @ self.z2
        det = np.log1p(np.exp(grid)[:, None] * self.rows2).sum(axis=1)
        if oracle.sigma2:
            fit = self.rss / (2 * oracle.sigma2) + self.nu / 2 * np.log(2 * np.pi * oracle.sigma2)
        else:
            fit = self.nu / 2 * np.log(np.pi * self.rss) - gammaln(self.nu / 2)
        self.log_likelihood = -0.5 * det - fit - 0.5 * np.linalg.slogdet(oracle.zw.T @ oracle.zw)[1]
        if oracle.weights is not None:
            self.log_likelihood += 0.5 * np.log(oracle.weights / oracle.weights.mean()).sum()
        prior = oracle.log_prior(grid) - oracle.a * oracle.log_scale - betaln(oracle.a, oracle.b)
        log = self.log_likelihood + prior
        self.log_marginal = log.max() + np.log(np.exp(log - log.max()).sum() * SPACING)
        self.all_weights = np.exp(log - self.log_marginal) * SPACING
        keep = self.all_weights > NEGLIGIBLE
        self.l, self.weight, self.rss = grid[keep], self.all_weights[keep], self.rss[keep]
        self.df = np.inf if oracle.sigma2 else self.nu
        self.factor = 1.0 if oracle.sigma2 else (self.nu / (self.nu - 2) if self.nu > 2 else np.inf)
        self.scale2 = np.full(self.l.size, oracle.sigma2) if oracle.sigma2 else self.rss / self.nu
        assert n == self.nu + self.k

    @cached_property
    def locations(self):
        """Centres of the [Z, X] coefficients on the user's scale, (K, k + p)."""
        b = (self.cross / (self.columns2 + np.exp(-self.l)[:, None])) @ self.v.T
        z, zw = self.o.zw, self.o.yw - b @ self.o.xw.T
        g = np.linalg.solve(z.T @ z, z.T @ zw.T).T if self.k else np.zeros((b.shape[0], 0))
        return np.hstack([g, b]) / self.o.units

    def forms(self, rows):
        """Variances for noise variance 1 of rows (m, k + p) of coefficients, (K, m)."""
        rows = np.atleast_2d(rows) / self.o.units
        z, x = rows[:, : self.k], rows[:, self.k :]
        gram = self.o.zw.T @ self.o.zw
        back = np.linalg.solve(gram, self.o.zw.T @ self.o.xw) if self.k else np.zeros((0, self.p))
        coords = (x - z @ back) @ self.v
        out = (1 / (self.columns2 + np.exp(-self.l)[:, None])) @ (coords**2).T
        return out + (np.einsum("ij,ij->i", z, np.linalg.solve(gram, z.T).T) if self.k else 0.0)

    def covariance(self):
        """Posterior covariance of the [Z, X] coefficients."""
        gram = self.o.zw.T @ self.o.zw
        back = np.linalg.solve(gram, self.o.zw.T @ self.o.xw) if self.k else np.zeros((0, self.p))
        half = np.vstack([-back, np.eye(self.p)]) @ self.v
        factor = (self.weight * self.scale2) @ (1 / (self.columns2 + np.exp(-self.l)[:, None]))
        out = (half * factor) @ half.T
        out[: self.k, : self.k] += (self.weight @ self.scale2) * np.linalg.inv(gram)
        out = self.factor * out / np.outer(self.o.units, self.o.units)
        centred = self.locations - self.weight @ self.locations
        return out + (centred * self.weight[:, None]).T @ centred

    def mean(self, rows):
        """Posterior means of linear functions, rows (m, k + p)."""
        return np.atleast_2d(rows) @ (self.weight @ self.locations)

    def variance(self, rows, noise=0.0):
        """Posterior variances of linear functions plus `noise` times the noise variance."""
        where = self.locations @ np.atleast_2d(rows).T
        inside = self.factor * (self.weight * self.scale2) @ (self.forms(rows) + noise)
        return inside + self.weight @ (where - self.weight @ where) ** 2

    def quantile(self, rows, probability, noise=0.0):
        """Quantiles of linear functions plus noise: roots of the mixture's distribution function."""
        where = self.locations @ np.atleast_2d(rows).T
        scale = np.sqrt(self.scale2[:, None] * (self.forms(rows) + noise))
        normal = np.isinf(self.df)
        base = special.ndtri(probability) if normal else special.stdtrit(self.df, probability)
        out = []
        for at, spread in zip(where.T, scale.T, strict=True):
            each = at + spread * base
            if np.ptp(each) == 0:
                out.append(each[0])
                continue

            def excess(value, at=at, spread=spread):
                x = (value - at) / spread
                return self.weight @ (special.ndtr(x) if normal else special.stdtr(self.df, x)) - probability

            heavy = self.weight > 1e-14
            width = np.ptp(each[heavy])
            ends = each[heavy].min() - width - 1e-9, each[heavy].max() + width + 1e-9
            out.append(brentq(excess, *ends, xtol=1e-14 * abs(ends[1] - ends[0]), rtol=1e-14))
        return np.array(out)

    def probability(self, rows, values, noise=0.0):
        """Distribution functions of linear functions plus noise, each at its value."""
        heavy = self.weight > ROUNDING
        where = self.locations[heavy] @ np.atleast_2d(rows).T
        scale = np.sqrt(self.scale2[heavy, None] * (self.forms(rows)[heavy] + noise))
        x = (np.asarray(values) - where) / scale
        return self.weight[heavy] @ (special.ndtr(x) if np.isinf(self.df) else special.stdtr(self.df, x))

    def quantile_of_log_t2(self, probability):
        """Root of the distribution function of log t2, the antiderivative of a spline through the density."""
        density = CubicSpline(self.l, self.weight / SPACING)
        cdf = density.antiderivative()
        total = float(cdf(self.l[-1]))
        return brentq(lambda l: float(cdf(l)) / total - probability, self.l[0], self.l[-1], xtol=1e-13)

    def quantile_of_sigma2(self, probability):
        """Root of the distribution function of the noise variance, a mixture of inverse gammas."""
        law = stats.invgamma(self.nu / 2, scale=self.rss / 2)
        middle = np.log(self.weight @ self.rss / self.nu)

        def excess(log_s2):
            return self.weight @ law.cdf(np.exp(log_s2)) - probability

        return np.exp(brentq(excess, middle - 200, middle + 200, xtol=1e-13))

    def mean_of_sigma2(self):
        """Posterior mean of the noise variance."""
        return self.weight @ self.rss / (self.nu - 2)

    def mean_of_t2(self):
        """Posterior mean of t2 over the whole grid; meaningful where it exists."""
        return self.all_weights @ np.exp(self.grid)

    def mean_of_penalty(self):
        """Posterior mean of 1/t2; meaningful where it exists."""
        return self.all_weights @ np.exp(-self.grid)

    def effective_df(self, l):
        """Trace of the hat matrix without Z at log t2."""
        return (self.columns2 / (self.columns2 + np.exp(-np.asarray(l)[..., None]))).sum(axis=-1)
