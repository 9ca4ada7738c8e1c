"""Sets of a few columns for yes/no responses and counts by quadrature over all coefficients.

Shares no code with the package. Of counts, whose link is "log", `successes` are the counts and `failures` the
exposures; with `alpha` they are negative binomial ones.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import expit, gammaln, log_expit, log_ndtr, logit, logsumexp

LATENT = {"logit": np.pi**2 / 3, "probit": 1.0}


@dataclass(frozen=True)
class Answer:
    """Inclusion probabilities, means and second moments of all coefficients (the intercept first).

    Also the log of the sum, up to a constant that depends on neither the responses nor alpha.
    """

    prob: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    total: float


def log_likelihood(psi, successes, failures, link, alpha=None):
    if link == "log" and alpha is not None:
        y, log_mean, s = successes, psi + np.log(failures), 1 / alpha
        of_count = gammaln(y + s) - gammaln(s) - gammaln(y + 1) + y * (log_mean - np.log(s))
        return (of_count - (y + s) * np.logaddexp(0.0, log_mean - np.log(s))).sum(axis=-1)
    if link == "log":
        return (successes * psi - failures * np.exp(psi)).sum(axis=-1)
    log_cdf = log_expit if link == "logit" else log_ndtr
    return (successes * log_cdf(psi) + failures * log_cdf(-psi)).sum(axis=-1)


def integral(columns, successes, failures, v, link, points, alpha=None):
    """Log of the integral of likelihood times N(b; 0, v) over (intercept, b), and their means and second moments.

    Gauss-Hermite quadrature about the mode, in the coordinates of the curvature there.
    """
    rows = np.column_stack([np.ones(successes.size), columns])
    size = rows.shape[1]

    def log_density(beta):
        value = log_likelihood(beta @ rows.T, successes, failures, link, alpha)
        prior = -0.5 * (beta[..., 1:] ** 2).sum(axis=-1) / v - 0.5 * (size - 1) * np.log(2 * np.pi * v)
        return value + prior

    found = minimize(lambda beta: -log_density(beta), np.zeros(size), method="BFGS", options={"gtol": 1e-8})
    step, mode = 1e-3, found.x
    unit = step * np.eye(size)
    curvature = np.array(
        [
            [
                (
                    log_density(mode + a + b)
                    - log_density(mode + a - b)
                    - log_density(mode - a + b)
                    + log_density(mode - a - b)
                )
                / (4 * step**2)
                for a in unit
            ]
            for b in unit
        ]
    )
    root = np.linalg.cholesky(np.linalg.inv(-curvature))
    x, w = np.polynomial.hermite.hermgauss(points)
    grid = np.array(list(product(x, repeat=size)))
    log_w = np.log(np.array(list(product(w, repeat=size)))).sum(axis=1) + (grid**2).sum(axis=1)
    beta = mode + np.sqrt(2) * grid @ root.T
    log_mass = log_density(beta) + log_w + size * np.log(np.sqrt(2)) + np.log(np.diag(root)).sum()
    total = logsumexp(log_mass)
    share = np.exp(log_mass - total)
    return total, share @ beta, share @ beta**2


def brute_force(X, successes, failures, *, link="logit", p=None, v=None, points=11, nodes=40, alpha=None):
    """Sum over all sets, t and log v; columns of X have mean 0 by trials."""
    d = X.shape[1]
    trials = np.ones(successes.size) if link == "log" else successes + failures
    latent = np.log1p(1 / successes.mean() + (alpha or 0.0)) if link == "log" else LATENT[link]
    spread = (trials[:, None] * X**2).sum() / trials.sum()
    log_v = np.log([v]) if v is not None else np.linspace(*_range(spread, d, p, latent), nodes)
    sets = [np.array(inside) for inside in product((False, True), repeat=d)]
    values = np.zeros((len(sets), log_v.size))
    means, squares = np.zeros((2, len(sets), log_v.size, d + 1))
    for s, inside in enumerate(sets):
        at = np.concatenate([[True], inside])
        for i, each in enumerate(np.exp(log_v)):
            found = integral(X[:, inside], successes, failures, each, link, points, alpha)
            values[s, i], means[s, i, at], squares[s, i, at] = found
    ts, wt, vs = _hyper(spread, d, p, v, latent)
    logs = np.empty((len(sets), ts.size))
    of_mean, of_square = np.zeros((2, len(sets), ts.size, d + 1))
    for s, inside in enumerate(sets):
        prior = inside.sum() * log_expit(ts) + (d - inside.sum()) * log_expit(-ts)
        if v is not None:
            logs[s] = values[s, 0] + prior + wt
            of_mean[s], of_square[s] = means[s, 0], squares[s, 0]
        else:
            logs[s] = CubicSpline(log_v, values[s])(np.log(vs)) + prior + wt
            of_mean[s], of_square[s] = (CubicSpline(log_v, part[s])(np.log(vs)) for part in (means, squares))
    weight = np.exp(logs - logsumexp(logs))
    inside = np.array(sets, dtype=float)
    return Answer(
        weight.sum(axis=1) @ inside,
        np.einsum("st,stj->j", weight, of_mean),
        np.einsum("st,stj->j", weight, of_square),
        float(logsumexp(logs)),
    )


def _range(spread, d, p, latent):
    low = (0.005 if d == 1 else 0.01 / d) if p is None else p
    high = 0.995 if p is None else p
    return -5.0 + np.log(latent / (spread * high)), 6.0 + np.log(latent / (spread * low))


def _hyper(spread, d, p, v, latent, points=40):
    """Nodes of t and v, and logarithms of their weights; one unpenalised coefficient, flat in latent units.

    The share that is explained given p is uniform where v is learned.
    """
    x, w = np.polynomial.legendre.leggauss(points)
    t0 = logit(0.5 if d == 1 else 1 / d)
    if p is not None:
        ts, log_wt = np.array([logit(p)]), np.zeros(1)
    else:
        low, high = logit(0.005 if d == 1 else 0.01 / d), logit(0.995)
        ts, log_wt = low + (high - low) * (x + 1) / 2, np.log(w)
        log_wt = log_wt + log_expit(ts - t0) + log_expit(t0 - ts)
    if v is not None:
        eta = np.log(expit(ts) * spread * v / latent)
        return ts, log_wt + 0.5 * log_expit(-eta), np.full(ts.size, v)
    eta, log_we = -5.0 + 11.0 * (x + 1) / 2, np.log(w)
    log_we = log_we + log_expit(eta) + 1.5 * log_expit(-eta)
    every = np.array(list(product(range(ts.size), range(eta.size))))
    t, e = ts[every[:, 0]], eta[every[:, 1]]
    return t, log_wt[every[:, 0]] + log_we[every[:, 1]], np.exp(e) * latent / (expit(t) * spread)
