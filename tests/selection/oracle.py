"""Long-hand posteriors over all sets of a few columns, and problems to try them on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit, gammaln, logit


@dataclass(frozen=True)
class Answer:
    """Inclusion probabilities of columns, posterior means and second moments of coefficients, log evidence."""

    prob: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    log_evidence: float


def log_marginal(X, y, nu, inside, g, s2):
    """Log p(y | A, g), with s2 given or (None) integrated out under 1 / s2, by n x n determinants; and moments.

    g (and s2) are numbers or arrays (k,); the values are (k,), the moments (k, m).
    """
    g = np.atleast_1d(g)[:, None, None]
    part = X[:, inside]
    m = part.shape[1]
    cov = np.eye(y.size) + g * (part @ part.T)
    log_det = np.linalg.slogdet(cov)[1]
    left = np.linalg.solve(cov, np.broadcast_to(y[:, None], (g.size, y.size, 1)))[..., 0] @ y
    precision = part.T @ part + np.eye(m) / g
    coef = np.linalg.solve(precision, np.broadcast_to((part.T @ y)[:, None], (g.size, m, 1)))[..., 0]
    var = np.diagonal(np.linalg.inv(precision), axis1=1, axis2=2)
    if s2 is None:
        value = gammaln(nu / 2) - nu / 2 * np.log(np.pi * left) - log_det / 2
        noise = left / (nu - 2)
    else:
        noise = np.broadcast_to(s2, left.shape)
        value = -nu / 2 * np.log(2 * np.pi * noise) - left / (2 * noise) - log_det / 2
    return value, coef, noise[:, None] * var


def hyper_nodes(X, labels, p, v, s2, *, expected_size=1.0, points=48):
    """Points (prior probabilities of units, g, s2 or None) and log weights that sum to 1."""
    n = X.shape[0]
    n_units = labels.max() + 1
    lengths = (X**2).sum(axis=0) / n
    share = min(expected_size, 0.5) if n_units == 1 else expected_size
    t0 = logit(share / n_units)
    x, w = np.polynomial.legendre.leggauss(points)

    def nodes(low, high):
        return low + (high - low) * (x + 1) / 2, np.log(w * (high - low) / 2)

    if p is not None:
        of_unit = np.array([p[labels == j][0] for j in range(n_units)])
        ts, log_wt = [None], [0.0]
    else:
        ts, log_wt = nodes(logit(0.01 * min(expected_size, 1) / n_units), logit(0.995))
    out, weights = [], []
    for t, wt in zip(ts, log_wt, strict=True):
        each = of_unit if t is None else np.full(n_units, expit(t))
        spread = np.sum(p * lengths) if t is None else expit(t) * lengths.sum()
        prior = 0.0 if t is None else np.log(expit(t - t0) * expit(t0 - t))
        if v is not None and s2 is not None:
            eta = np.log(spread * v / s2)
            out.append((each, v / s2, s2))
            weights.append(0.0 if t is None else wt + prior + np.log(expit(eta) * expit(-eta)))
            continue
        for eta, we in zip(*nodes(-5.0, 6.0), strict=True):
            g = np.exp(eta) / spread
            noise = s2 if s2 is not None else v / g if v is not None else None
            out.append((each, g, noise))
            weights.append(wt + we + prior + np.log(expit(eta) * expit(-eta)))
    weights = np.array(weights)
    return out, weights - np.log(np.exp(weights - weights.max()).sum()) - weights.max()


def brute_force(X, y, *, nu=None, labels=None, p=None, v=None, s2=None, expected_size=1.0, points=48):
    """Sum over all sets of units and all points of the hyperparameters."""
    n, d = X.shape
    nu = n if nu is None else nu
    labels = np.arange(d) if labels is None else labels
    nodes, log_w = hyper_nodes(X, labels, p, v, s2, expected_size=expected_size, points=points)
    each = np.array([node[0] for node in nodes])
    g = np.array([node[1] for node in nodes])
    noise = None if nodes[0][2] is None else np.array([node[2] for node in nodes])
    logs, found = [], []
    for pattern in product((False, True), repeat=int(labels.max()) + 1):
        units = np.array(pattern)
        own = np.where(units, each, 1 - each)
        if (own == 0).any():
            continue
        value, coef, var = log_marginal(X, y, nu, units[labels], g, noise)
        logs.append(value + log_w + np.log(own).sum(axis=1))
        found.append((units[labels], coef, var))
    top = np.max(logs)
    weights = np.exp(np.array(logs) - top)
    total = weights.sum()
    prob, mean, square = np.zeros(d), np.zeros(d), np.zeros(d)
    for w, (inside, coef, var) in zip(weights / total, found, strict=True):
        prob[inside] += w.sum()
        mean[inside] += w @ coef
        square[inside] += w @ (coef**2 + var)
    return Answer(prob, mean, square, top + np.log(total))


def regression(seed, n, d, *, noise=1.0, size=2, twins=0.0):
    """X (n, d), y (n,); with `twins` the second column is the first plus that much noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if twins:
        X[:, 1] = X[:, 0] + twins * X[:, 1]
    return X, X[:, :size].sum(axis=1) * 0.7 + noise * rng.standard_normal(n)
