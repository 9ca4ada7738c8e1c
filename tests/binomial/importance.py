"""Sets of columns for yes/no responses by importance sampling of all coefficients; shares no code with the package.

At each set and each node of the slab's variance the coefficients are drawn from a t distribution that is fitted to
their posterior, first at its mode, then by the weighted draws. The prior of the inclusion probability is integrated
on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, gammaln, log_expit, log_ndtr, logit, logsumexp

LATENT = {"logit": np.pi**2 / 3, "probit": 1.0}
FREEDOM = 5.0
ROUNDS = 2
HYPER_POINTS, FINE = 1500, 500  # of the inclusion probability, and of the slab's variance where that is cheap
BOUNDS = (-5.0, 6.0)


@dataclass(frozen=True)
class Reference:
    """Posterior of d columns and an intercept, which comes first; each the mean of independent runs.

    Attributes
    ----------
    prob : (d,) array
    mean, sd : (1 + d,) arrays
    slab : float
        Mean of the slab's variance.
    log_evidence : (runs,) array
        Of each run, up to a constant that depends on the prior alone. The same run of two references has the same
        random numbers, so that much of its error cancels in a difference.
    error : dict
        Standard errors of these, by the differences between runs.
    fewest : float
        Smallest effective number of draws at a set and a node.
    """

    prob: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    slab: float
    log_evidence: np.ndarray
    error: dict
    fewest: float


@dataclass(frozen=True)
class Data:
    """Columns (n, d), successes and failures (n,), with the prior that a fit to all rows has.

    Attributes
    ----------
    spread : (d,) array
        Mean squares of the columns, weighted by trials.
    p : float, (d,) array or None
        Given prior inclusion probabilities.
    v : float or None
    """

    x: np.ndarray
    successes: np.ndarray
    failures: np.ndarray
    spread: np.ndarray
    link: str = "logit"
    p: float | np.ndarray | None = None
    v: float | None = None

    @classmethod
    def of(cls, x, successes, trials, *, link="logit", p=None, v=None):
        """Columns have mean 0 by trials."""
        return cls(x, successes, trials - successes, trials @ x**2 / trials.sum(), link, p, v)

    def without(self, i):
        """The same without row i."""
        rest = np.arange(len(self.x)) != i
        return Data(self.x[rest], self.successes[rest], self.failures[rest], self.spread, self.link, self.p, self.v)


def log_likelihood(data, psi):
    """Sum over rows, (...)."""
    log_cdf = log_expit if data.link == "logit" else log_ndtr
    return log_cdf(psi) @ data.successes + log_cdf(-psi) @ data.failures


def _slope_and_bend(data, psi):
    if data.link == "logit":
        p = expit(psi)
        trials = data.successes + data.failures
        return data.successes - trials * p, trials * p * (1 - p)
    up, down = (np.exp(-0.5 * psi**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(s * psi)) for s in (1, -1))
    bend = data.successes * up * (up + psi) + data.failures * down * (down - psi)
    return data.successes * up - data.failures * down, bend


def mode(data, rows, penalty):
    """Newton's method with halved steps: the mode and the inverse of the curvature."""
    beta = np.zeros(rows.shape[1])

    def value(at):
        return log_likelihood(data, rows @ at) - 0.5 * penalty @ at**2

    now = value(beta)
    for _ in range(200):
        slope, bend = _slope_and_bend(data, rows @ beta)
        curvature = (rows * bend[:, None]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(curvature, rows.T @ slope - penalty * beta)
        size = 1.0
        while value(beta + size * step) < now - 1e-10 and size > 1e-6:
            size /= 2
        beta, before = beta + size * step, now
        now = value(beta)
        if abs(now - before) < 1e-11:
            break
    return beta, np.linalg.inv(curvature)


def integrate(data, inside, v, draws, rng):
    """Log of the integral over intercept and coefficients, their means and squares, and the effective draws."""
    rows = np.column_stack([np.ones(len(data.x)), data.x[:, inside]])
    size = rows.shape[1]
    penalty = np.r_[0.0, np.full(size - 1, 1.0 / v)]
    center, cov = mode(data, rows, penalty)
    for _ in range(ROUNDS):
        root = np.linalg.cholesky(cov)
        normal = rng.standard_normal((draws, size))
        chi = rng.chisquare(FREEDOM, draws) / FREEDOM
        standard = normal / np.sqrt(chi)[:, None]
        beta = center + standard @ root.T
        log_proposal = (
            gammaln((FREEDOM + size) / 2)
            - gammaln(FREEDOM / 2)
            - size / 2 * np.log(FREEDOM * np.pi)
            - np.log(np.diag(root)).sum()
            - (FREEDOM + size) / 2 * np.log1p((standard**2).sum(axis=1) / FREEDOM)
        )
        log_target = log_likelihood(data, beta @ rows.T) - 0.5 * (beta**2) @ penalty
        log_target -= 0.5 * (size - 1) * np.log(2 * np.pi * v)
        ratio = log_target - log_proposal
        total = logsumexp(ratio)
        weight = np.exp(ratio - total)
        mean = weight @ beta
        center, cov = mean, (beta - mean).T @ (weight[:, None] * (beta - mean)) + 1e-12 * np.diag(np.diag(cov))
    return total - np.log(draws), mean, weight @ beta**2, 1.0 / (weight**2).sum()


def slab_nodes(data, nodes):
    """Values of v, and logarithms of prior weights of sets of 0 to d columns there, (nodes,) and (d + 1, nodes).

    With given inclusion probabilities these are those of the slab's variance alone.
    """
    d, latent = data.spread.size, LATENT[data.link]
    if data.p is not None:
        explained = float((np.zeros(d) + data.p) @ data.spread)
        log_v, log_w = _log_v(data, np.log(explained), np.log(explained), nodes)
        eta = log_v + np.log(explained / latent)
        return np.exp(log_v), np.tile(log_w + _of_eta(data, eta), (d + 1, 1))
    total = data.spread.sum()
    low, high = logit(0.005 if d == 1 else 0.01 / d), logit(0.995)
    center = logit(0.5 if d == 1 else 1 / d)
    t = np.linspace(low, high, HYPER_POINTS)
    log_v, log_w = _log_v(data, np.log(total) + log_expit(low), np.log(total) + log_expit(high), nodes)
    eta = log_expit(t)[:, None] + np.log(total / latent) + log_v
    prior = (log_expit(t - center) + log_expit(center - t))[:, None] + _of_eta(data, eta)
    ends = np.where((t == low) | (t == high), np.log(0.5), 0.0)[:, None]
    sizes = np.arange(d + 1)[:, None, None]
    of_set = sizes * log_expit(t)[:, None] + (d - sizes) * log_expit(-t)[:, None]
    return np.exp(log_v), logsumexp(of_set + prior + ends, axis=1) + log_w


def _log_v(data, least, most, nodes):
    """Nodes of log v where eta is within its bounds for some p, and weights of the trapezoidal rule."""
    if data.v is not None:
        return np.log([data.v]), np.zeros(1)
    ends = BOUNDS[0] + np.log(LATENT[data.link]) - most, BOUNDS[1] + np.log(LATENT[data.link]) - least
    out = np.linspace(*ends, nodes)
    weight = np.full(nodes, np.log(out[1] - out[0]))
    weight[[0, -1]] -= np.log(2)
    return out, weight


def _of_eta(data, eta):
    """The explained share is uniform where v is learned; the intercept is flat in latent units."""
    flat = 0.5 * log_expit(-eta)
    if data.v is not None:
        return flat
    within = (eta >= BOUNDS[0]) & (eta <= BOUNDS[1])
    return np.where(within, flat + log_expit(eta) + log_expit(-eta), -np.inf)


def _run(data, sets, nodes, draws, rng):
    """One run: the integrals at some nodes of log v, and between them by splines."""
    d = data.x.shape[1]
    coarse, _ = slab_nodes(data, nodes)
    values, prior = slab_nodes(data, FINE)
    logs, effective = np.empty((len(sets), values.size)), np.inf
    means, squares = np.zeros((2, len(sets), values.size, d + 1))
    odds = np.zeros(d) if data.p is None else logit(np.zeros(d) + data.p)
    for s, inside in enumerate(sets):
        at, some = np.r_[True, inside], coarse if inside.any() else coarse[:1]
        each = [integrate(data, inside, v, draws, rng) for v in some]
        total, mean, square = (np.array([one[i] for one in each]) for i in range(3))
        if some.size > 1:
            total, mean, square = (CubicSpline(np.log(some), part)(np.log(values)) for part in (total, mean, square))
        logs[s] = total + prior[inside.sum()] + odds[inside].sum()
        means[s][:, at], squares[s][:, at] = mean, square
        effective = min(effective, *(one[3] for one in each))
    evidence = logsumexp(logs)
    weight = np.exp(logs - evidence)
    mean = np.einsum("sv,svj->j", weight, means)
    sd = np.sqrt(np.einsum("sv,svj->j", weight, squares) - mean**2)
    prob = weight.sum(axis=1) @ np.array(sets, dtype=float)
    return (prob, mean, sd, weight.sum(axis=0) @ values, evidence), effective


def reference(data, *, draws=2000, nodes=40, runs=4, sets=None, seed=0):
    """Sum over sets (boolean arrays; all by default), with independent runs of the importance sampling."""
    d = data.x.shape[1]
    if sets is None:
        sets = [np.array(inside) for inside in product((False, True), repeat=d)]
    found = [_run(data, sets, nodes, draws, np.random.default_rng([seed, run])) for run in range(runs)]
    *parts, evidence = [np.array(each) for each in zip(*(run for run, _ in found), strict=True)]
    names = ("prob", "mean", "sd", "slab")
    error = {name: part.std(axis=0, ddof=1) / np.sqrt(runs) for name, part in zip(names, parts, strict=True)}
    return Reference(*(part.mean(axis=0) for part in parts), evidence, error, min(fewest for _, fewest in found))


def leave_one_out(data, whole, rows, **options):
    """Log predictive probabilities of some rows from all others, (rows,), and the error of their sum.

    `whole` is the reference of all rows with the same options.
    """
    s, f = data.successes[rows], data.failures[rows]
    count = gammaln(s + f + 1) - gammaln(s + 1) - gammaln(f + 1)
    each = np.stack([whole.log_evidence - reference(data.without(i), **options).log_evidence for i in rows])
    total = each.sum(axis=0)
    return each.mean(axis=1) + count, total.std(ddof=1) / np.sqrt(total.size)
