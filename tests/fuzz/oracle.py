"""The ridge by dense algebra in long double, sharing nothing with the package.

The weighted unpenalised columns are rotated away by Householder's reflections, what is left of X is decomposed by
Jacobi's SVD, and everything else is a sum over singular values and over equally spaced values of l = log tau2. The
errors are of the order of 1e-19 times a condition number (not its square), far below what is compared.

One :class:`Oracle` knows the data; ``oracle.fit(...)`` gives the answers of one method for one target.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betainc, betaln, gammaln, ndtr

from tests.fuzz.linear_algebra import EPS, LONG, reflect, solve_lower, solve_upper, svd, times_q

RANK = 16 * EPS
"""A singular value this small relative to the largest (and to the size of the columns) is a rounding error."""

FLAT = 256 * EPS
"""A slope of the profile that is this small relative to its terms is a rounding error."""

REACH = 50.0
"""Quadrature ends where the density has certainly fallen by e^-50."""

AGREEMENT = 1e-13
"""Change by which halving the spacing of the quadrature must not exceed."""

SPACINGS = (0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125)
"""Spacings in log tau2 of the quadrature, tried in turn."""

SAME_PROBABILITY = 1e-12
"""A quantile is the last one whose probability differs by less from what was asked: then a Newton step follows."""

MODE_SPACING = 0.05
"""Spacing in log tau2 of the grid on which modes are looked for."""


@dataclass(frozen=True)
class Functionals:
    """Linear functions of all coefficients, in the rotated basis; one row each."""

    base: np.ndarray
    coords: np.ndarray
    outside2: np.ndarray
    leverage: np.ndarray


@dataclass(frozen=True)
class Mixture:
    """The posterior given the method: nodes of log tau2, their weights, and the law given each."""

    l: np.ndarray
    weight: np.ndarray
    scale2: np.ndarray
    df: float
    heavy: bool = False

    @property
    def factor(self):
        """Variance relative to squared scale."""
        return 1.0 if np.isinf(self.df) else self.df / (self.df - 2) if self.df > 2 else np.inf


class Oracle:
    """Data in long double, rotated.

    Parameters
    ----------
    y : (n, q) array
    z : (n, k) array
        Unpenalised columns, the intercept among them.
    x : (n, p) array
        Penalised columns, none of them constant where Z holds a constant.
    weights : (n,) array or None
    constant : int or None
        Which column of Z is constant.
    standardize : bool
    """

    def __init__(self, y, z, x, *, weights=None, constant=None, standardize=True):
        y, z, x = (np.asarray(a, dtype=LONG) for a in (y, z, x))
        n = len(y)
        w = np.ones(n, dtype=LONG) if weights is None else np.asarray(weights, dtype=LONG)
        w = w / (w.sum() / n)
        self.log_weights = float(np.log(w).sum())
        mean = (w[:, None] * (x - x[0])).sum(axis=0) / n + x[0]
        sd = np.sqrt((w[:, None] * (x - mean) ** 2).sum(axis=0) / n)
        self.scale = sd if standardize else np.ones(x.shape[1], dtype=LONG)
        centred = constant is not None
        self.center = mean if centred else np.zeros(x.shape[1], dtype=LONG)
        # What is subtracted from y only saves digits: it is given back to the coefficient of the constant.
        self.level = y[0].copy() if centred else np.zeros(y.shape[1], dtype=LONG)
        self.constant, self.unit = constant, z[0, constant] if centred else LONG(1)
        root = np.sqrt(w)[:, None]
        self.root_w = root[:, 0]
        zw, xw = root * z, root * (x - self.center) / self.scale
        yw = root * (y - self.level)
        self.y_size = np.sqrt(((root * y) ** 2).sum(axis=0))
        self.n, self.k, self.p, self.q = n, z.shape[1], x.shape[1], y.shape[1]
        self.nu = n - self.k
        reflectors, self.r, _ = reflect(zw)
        self._reflectors = reflectors
        rotated = times_q(reflectors, np.hstack([xw, yw]), transpose=True)
        on_q, rest = rotated[: self.k], rotated[self.k :]
        self.x_on_z = solve_upper(self.r, on_q[:, : self.p])
        self.y_on_z = solve_upper(self.r, on_q[:, self.p :])
        self.xr, self.yr = rest[:, : self.p], rest[:, self.p :]
        self.y_norm = np.sqrt((self.yr**2).sum(axis=0))
        self.x_size = np.sqrt((xw**2).sum(axis=0))
        self._decompose(self.x_size)

    def _decompose(self, size):
        u, s, v = svd(self.xr)
        top = max(s.max(initial=0), size.max(initial=0))
        rank = int(np.count_nonzero(s > RANK * max(self.n, self.p) * top))
        self.s, self.right, self.left = s[:rank], v[:, :rank], u[:, :rank]
        self.z = self.left.T @ self.yr
        rest = self.yr - self.left @ self.z
        rest -= self.left @ (self.left.T @ rest)
        self.rss0 = (rest**2).sum(axis=0) if rank < self.nu else np.zeros(self.q, dtype=LONG)
        self.rest = rest if rank < self.nu else np.zeros_like(rest)
        self.rank = rank

    def without(self, share):
        """The same data without directions whose singular value is at most this share of the largest."""
        out = copy(self)
        out.rank = int(np.count_nonzero(self.s > share * self.s.max(initial=0)))
        out.s, out.right, out.left = self.s[: out.rank], self.right[:, : out.rank], self.left[:, : out.rank]
        out.z = self.z[: out.rank]
        out.rest = self.rest + self.left[:, out.rank :] @ self.z[out.rank :]
        out.rss0 = self.rss0 + (self.z[out.rank :] ** 2).sum(axis=0)
        return out

    # Functions of log tau2 for one target; `l` is (K,).

    def shrinkage(self, l):
        """``s^2 / (s^2 + 1/tau2)``, (K, r)."""
        ratio = np.exp(np.asarray(l, dtype=LONG))[:, None] * self.s**2
        return ratio / (1 + ratio)

    def complement(self, l):
        """``1 / (1 + tau2 s^2)``, (K, r)."""
        return 1 / (1 + np.exp(np.asarray(l, dtype=LONG))[:, None] * self.s**2)

    def rss(self, l, target):
        """Penalised residual sum of squares."""
        return self.rss0[target] + self.complement(l) @ self.z[:, target] ** 2

    def log_likelihood(self, l, target, sigma2, count):
        """Log p(y | tau2) up to a constant."""
        det = np.log1p(np.exp(np.asarray(l, dtype=LONG))[:, None] * self.s**2).sum(axis=1)
        rss = self.rss(l, target)
        fit = rss / (2 * LONG(sigma2)) if sigma2 else LONG(count) / 2 * np.log(rss)
        return -det / 2 - fit

    def constant_of_likelihood(self, sigma2):
        """What :meth:`log_likelihood` leaves out, flat prior on Z and 1/sigma2 on the noise."""
        log_z = 2 * np.log(np.abs(np.diag(self.r))).sum()
        data = -self.nu / 2 * np.log(2 * np.pi * LONG(sigma2)) if sigma2 else gammaln(self.nu / 2)
        return float(data - (0 if sigma2 else self.nu / 2 * np.log(np.pi)) - log_z / 2 + self.log_weights / 2)

    def beta_prime(self, prior):
        """``(a, b, log scale)`` of a prior: tau2 / scale is beta-prime(a, b)."""
        if prior == "r2":
            total = (self.xr**2).sum()
            return 0.5, 0.5, np.log(self.n / total) if total > 0 else LONG(0)
        a, b, scale = (0.5, 0.5, 1.0) if prior == "half-cauchy" else (*prior, 1.0)[:3]
        return a, b, np.log(LONG(scale))

    def density(self, l, target, prior, sigma2, count):
        """Log density of l, unnormalised."""
        a, b, log_scale = self.beta_prime(prior)
        l = np.asarray(l, dtype=LONG)
        own = l - log_scale
        return self.log_likelihood(l, target, sigma2, count) + a * own - (a + b) * np.logaddexp(0, own)

    # The mode.

    def profile(self, l, target, options):
        """Minus the log density of (tau2 or tau, sigma2) at its largest over sigma2."""
        a, b, log_scale = self.beta_prime(options["prior"])
        k = 2 - 2 * a if options["parameterization"] == "tau2" else 1 - 2 * a
        l = np.asarray(l, dtype=LONG)
        fit = -self.log_likelihood(l, target, options["sigma2"], options["count"] + 2)
        return fit + k / 2 * l + (a + b) * np.logaddexp(0, l - log_scale)

    def slope(self, l, target, options):
        """Derivative of :meth:`profile` in l; what may be rounding of its terms is 0."""
        a, b, log_scale = self.beta_prime(options["prior"])
        k = 2 - 2 * a if options["parameterization"] == "tau2" else 1 - 2 * a
        l = np.asarray(l, dtype=LONG)
        e, f = self.shrinkage(l), self.complement(l)
        z2 = self.z[:, target] ** 2
        drop = (e * f) @ z2
        sigma2 = options["sigma2"]
        data = drop / (2 * LONG(sigma2)) if sigma2 else (options["count"] + 2) / LONG(2) * drop / self.rss(l, target)
        rise = e.sum(axis=1) / 2 + (a + b) / (1 + np.exp(log_scale - l))
        slope = rise - data + LONG(k) / 2
        return np.where(np.abs(slope) <= FLAT * (rise + data + abs(k) / 2), 0, slope)

    def features(self, target, sigma2, count, prior):
        """Values of l between which prior and likelihood do all that they do."""
        own = float(self.beta_prime(prior)[2])
        if not self.rank:
            return own, own
        z2 = self.z[:, target] ** 2
        log_s2 = 2 * np.log(self.s)
        noise = LONG(sigma2) if sigma2 else self.rss0[target] + z2.sum() * EPS**2
        share = np.maximum(
            z2 / (LONG(sigma2) if sigma2 else max(self.yr[:, target] @ self.yr[:, target], 1e-4000)), 1
        )
        low = -(log_s2 + np.log(share * (count + 2))).max()
        high = -log_s2.min() + np.log(LONG(count + 2))
        if noise > 0:
            high = max(
                high, (np.log(np.maximum(z2, 1e-4000)) - log_s2).max() - np.log(noise) + np.log(LONG(count + 2))
            )
        return min(float(low), own), max(float(high), own)

    def modes(self, target, options):
        """Every interior minimum of the profile, in l, and whether it still falls where the penalty vanishes."""
        low, high = self.features(target, options["sigma2"], options["count"], options["prior"])
        grid = np.arange(low - 12, high + 12, MODE_SPACING, dtype=LONG)
        slope = self.slope(grid, target, options)
        grid, slope = grid[slope != 0], slope[slope != 0]
        at = np.flatnonzero((slope[:-1] < 0) & (slope[1:] > 0))
        falls = slope.size > 0 and bool(slope[-1] < 0)
        return self.refine(grid[at], grid[at + 1], target, options), falls

    def refine(self, low, high, target, options):
        """Bisect brackets of upward changes of sign of the slope."""
        low, high = low.copy(), high.copy()
        for _ in range(48 if low.size else 0):
            middle = (low + high) / 2
            below = self.slope(middle, target, options) < 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    # The three kinds of posterior.

    def at_mode(self, l, target, options):
        """Normal given tau2 and sigma2 at the mode."""
        l = np.array([l], dtype=LONG)
        scale2 = np.array([options["sigma2"]], dtype=LONG) if options["sigma2"] else None
        if scale2 is None:
            scale2 = self.rss(l, target) / (options["count"] + 2)
        return Mixture(l, np.ones(1, dtype=LONG), scale2, np.inf)

    def without_penalty(self):
        """Least squares without noise."""
        least = -2 * np.log(self.s.min(initial=np.inf))
        return Mixture(np.array([least + 200]), np.ones(1, dtype=LONG), np.zeros(1, dtype=LONG), np.inf)

    def given(self, lam, target, options):
        """The noise integrated out (unless known) at a penalty."""
        l = -np.log(np.array([lam], dtype=LONG))
        if options["sigma2"]:
            return Mixture(l, np.ones(1, dtype=LONG), np.array([options["sigma2"]], dtype=LONG), np.inf)
        count = options["count"]
        return Mixture(l, np.ones(1, dtype=LONG), self.rss(l, target) / count, float(count))

    def exact(self, target, options):
        """The penalty integrated out too: ``(mixture, log marginal likelihood)``."""
        prior, sigma2, count = options["prior"], options["sigma2"], options["count"]
        a, b, _ = self.beta_prime(prior)
        low, high = self.features(target, sigma2, count, prior)
        zero = self.rss0[target] == 0 and not sigma2
        tail = b + (self.rank - (count if zero else 0)) / 2
        # The variance outside the row space is scale2 * tau2: a power of tau2 less, unless scale2 falls with it.
        of_variance = tail - (0 if zero or self.rank == self.p else 1)
        heavy = self.rank < self.p and of_variance <= 0
        low, high = low - REACH / a, high + REACH / max(min(tail, of_variance) if not heavy else tail, 0.02)
        l = np.arange(low, high + SPACINGS[0], SPACINGS[0], dtype=LONG)
        log = self.density(l, target, prior, sigma2, count)
        lifted = log + self._log_variance(l, target, sigma2, heavy)
        near = (log > log.max() - REACH) | (lifted > lifted.max() - REACH)
        if not sigma2:
            noise = log + np.log(self.rss(l, target))
            near |= noise > noise.max() - REACH
        first, last = np.flatnonzero(near)[[0, -1]]
        low, high = l[max(first - 2, 0)], l[min(last + 2, l.size - 1)]
        previous = None
        for spacing in SPACINGS:
            l = np.arange(low, high + spacing / 2, spacing, dtype=LONG)
            log = self.density(l, target, prior, sigma2, count)
            top = log.max()
            weight = np.exp(log - top)
            total = weight.sum()
            weight /= total
            found = np.array([np.log(total * LONG(spacing)) + top, weight @ l])
            scale2 = np.full(l.size, LONG(sigma2)) if sigma2 else self.rss(l, target) / count
            noise = np.log(weight @ scale2)
            found = np.append(found, noise)
            if previous is not None and np.abs(found - previous).max() < AGREEMENT * (1 + np.abs(top)):
                break
            previous = found
        log_marginal = float(found[0] - betaln(a, b)) + self.constant_of_likelihood(sigma2)
        return Mixture(l, weight, scale2, np.inf if sigma2 else float(count), heavy), log_marginal

    def _log_variance(self, l, target, sigma2, heavy):
        """Log of the largest variance of a direction given tau2; where it has no mean, that of the row space."""
        least = LONG(0) if self.rank < self.p and not heavy else self.s.min(initial=np.inf) ** 2
        noise = 0 if sigma2 else np.log(self.rss(l, target))
        return noise + l - np.log1p(np.exp(l) * least) if np.isfinite(least) else np.zeros_like(l)

    # Linear functions.

    def functionals(self, z_rows, x_rows, target):
        """Functions ``z'g + x'b`` of the coefficients on the user's scale, for rows (m, k) and (m, p)."""
        z_rows, x_rows = np.asarray(z_rows, dtype=LONG), np.asarray(x_rows, dtype=LONG)
        if self.constant is not None:
            # g_constant on the user's scale is that of the centred problem less center'b / unit.
            x_rows = x_rows - np.outer(z_rows[:, self.constant] / self.unit, self.center)
        h = x_rows / self.scale - z_rows @ self.x_on_z
        coords = h @ self.right
        beyond = h - coords @ self.right.T
        beyond -= (beyond @ self.right) @ self.right.T
        outside2 = (beyond**2).sum(axis=1)
        outside2 = np.where(outside2 > (1e3 * EPS) ** 2 * (h**2).sum(axis=1), outside2, 0)
        half = solve_lower(self.r, z_rows.T)
        base = z_rows @ self.y_on_z[:, target]
        if self.constant is not None:
            base = base + z_rows[:, self.constant] * self.level[target] / self.unit
        if self.rank == self.p:
            outside2 = np.zeros_like(outside2)
        return Functionals(base, coords, outside2, (half**2).sum(axis=0))

    def locations(self, f, mixture, target):
        """Centres at every node, (K, m), without the base."""
        a = self.shrinkage(mixture.l) * (self.z[:, target] / self.s)
        return a @ f.coords.T

    def mean(self, f, mixture, target):
        """Posterior means."""
        a = (mixture.weight @ self.shrinkage(mixture.l)) * (self.z[:, target] / self.s)
        return f.base + f.coords @ a

    def squared_scales(self, f, mixture, noise=0.0):
        """Squared scales at every node, (K, m)."""
        out = (self.shrinkage(mixture.l) / self.s**2) @ (f.coords**2).T + f.leverage + noise
        if f.outside2.any():
            out = out + np.exp(mixture.l)[:, None] * f.outside2
        return out * mixture.scale2[:, None]

    def sd(self, f, mixture, target, noise=0.0):
        """Posterior standard deviations."""
        where = self.locations(f, mixture, target)
        inside = mixture.weight @ self.squared_scales(f, mixture, noise)
        centre = mixture.weight @ where
        spread = mixture.weight @ (where - centre) ** 2
        if mixture.heavy:
            inside = np.where(f.outside2 > 0, np.inf, inside)
        return np.sqrt(np.where(inside == 0, 0, inside * mixture.factor) + spread)

    def quantiles(self, f, mixture, target, probability, start, noise=0.0):
        """Quantiles less the base, by a safeguarded Newton iteration from `start` (m,) (it only saves time)."""
        keep = mixture.weight > 1e-16
        part = Mixture(mixture.l[keep], mixture.weight[keep], mixture.scale2[keep], mixture.df)
        where = self.locations(f, part, target)
        scale = np.sqrt(self.squared_scales(f, part, noise))
        weight = part.weight.astype(float)
        low, high = (where - 50 * scale).min(axis=0), (where + 50 * scale).max(axis=0)
        point = np.asarray(start, dtype=LONG) - f.base
        centre = weight @ where
        point = np.where(np.isfinite(point) & (point > low) & (point < high), point, centre)
        active = np.flatnonzero(scale.max(axis=0) > 0)
        for _ in range(400):
            if not active.size:
                break
            at, spread, x = where[:, active], scale[:, active], point[active]
            cdf, density = _law(((x - at) / spread).astype(float), mixture.df)
            excess = weight @ cdf - probability
            rise = part.weight @ (density / spread)
            high[active] = np.where(excess >= 0, x, high[active])
            low[active] = np.where(excess < 0, x, low[active])
            with np.errstate(divide="ignore", invalid="ignore"):
                new = x - excess / rise
            found = np.abs(excess) <= SAME_PROBABILITY
            inside = (new > low[active]) & (new < high[active])
            point[active] = np.where(found | inside, new, (low[active] + high[active]) / 2)
            active = active[~found & (point[active] != x)]
        return point

    # Cross-validation.

    @cached_property
    def _rows(self):
        """Of each row: U, and the squared norm and residual of what is outside Z and X."""
        basis = np.zeros((self.n, self.nu), dtype=LONG)
        basis[self.k :] = np.eye(self.nu, dtype=LONG)
        basis = times_q(self._reflectors, basis)
        u = basis @ self.left
        outside = (basis**2).sum(axis=1) - (u**2).sum(axis=1)
        if self.rank == self.nu:
            outside = np.zeros(self.n, dtype=LONG)
        return u, outside, basis @ self.rest

    def loo(self, lam, target):
        """Leave-one-out (weighted) mean squared error at a penalty, and the least 1 - leverage."""
        u, outside, rest = self._rows
        f = self.complement(-np.log(np.array([lam], dtype=LONG)))[0]
        left = outside + (u**2) @ f
        error = (rest[:, target] + u @ (f * self.z[:, target])) / left
        return (error**2).sum() / self.n, left.min()

    def gcv(self, lam, target):
        """Generalised cross-validation at a penalty."""
        f = self.complement(-np.log(np.array([lam], dtype=LONG)))[0]
        rss = self.rss0[target] + (f * self.z[:, target]) @ (f * self.z[:, target])
        return rss * self.n / (self.nu - self.rank + f.sum()) ** 2


def _law(x, df):
    """Distribution function and density of the normal or Student's t."""
    if np.isinf(df):
        return ndtr(x), np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    tail = betainc(df / 2, 0.5, df / (df + x**2)) / 2
    constant = np.exp(gammaln((df + 1) / 2) - gammaln(df / 2)) / np.sqrt(np.pi * df)
    return np.where(x < 0, tail, 1 - tail), constant * np.exp(-(df + 1) / 2 * np.log1p(x**2 / df))
