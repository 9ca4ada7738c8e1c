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


def bell(x):
    """Density of the logistic distribution."""
    return expit(x) * expit(-x)


def gauss(low, high, points, panels=1):
    """Nodes and log weights on panels of equal width."""
    x, w = np.polynomial.legendre.leggauss(points)
    width = (high - low) / panels
    left = low + width * np.arange(panels)[:, None]
    return (left + width * (x + 1) / 2).ravel(), np.log(np.tile(w * width / 2, panels))


def hyper_nodes(X, y, labels, p, v, s2, *, expected_size=1.0, points=48, eta_high=6.0):
    """Points (prior probabilities of units, g, s2 or None) and log weights.

    Each point has the density of t = logit p, where that is learned, times that of v or s2: v is such that the share
    explained given p is uniform; where v is given, s2 is such that the share at the median of p is. Weights sum to 1,
    but those of s2, whose distribution reaches farther than the likelihood.
    """
    n_units = labels.max() + 1
    lengths = (X**2).mean(axis=0)
    size = 0.5 if n_units == 1 and expected_size == 1 else expected_size
    t0 = logit(size / n_units)
    if p is not None:
        of_unit = np.array([p[labels == j][0] for j in range(n_units)])
        ts, log_wt = [None], np.zeros(1)
        middle = np.sum(p * lengths)
    else:
        highest = 1 - min(0.005, 0.01 * (1 - size / n_units))
        ts, log_wt = gauss(logit(0.01 * min(size, 1) / n_units), logit(highest), points)
        log_wt = log_wt + np.log(bell(ts - t0))
        middle = size / n_units * lengths.sum()
    log_wt = log_wt - np.log(np.exp(log_wt).sum())
    etas, log_we = gauss(-5.0, eta_high, points, int(np.ceil((eta_high + 5.0) / 11.0)))
    log_we = log_we + np.log(bell(etas))
    log_we -= np.log(np.exp(log_we).sum())
    if v is not None and s2 is None:
        # The residual sum of squares bounds s2 from below, unless columns can fit the response exactly.
        low = 10 if X.shape[1] < X.shape[0] else 23
        log_s2, log_we = gauss(np.log(y.var()) - low, np.log(y.var()) + 9, 12, (low + 9) // 2)
        log_we = log_we + np.log(bell(np.log(middle * v) - log_s2))
    out, weights = [], []
    for t, wt in zip(ts, log_wt, strict=True):
        each = of_unit if t is None else np.full(n_units, expit(t))
        spread = np.sum(p * lengths) if t is None else expit(t) * lengths.sum()
        if v is not None and s2 is not None:
            new = [(v / s2, s2, 0.0)]
        elif v is not None:
            new = [(v / noise, noise, we) for noise, we in zip(np.exp(log_s2), log_we, strict=True)]
        else:
            new = [(np.exp(eta) / spread, s2, we) for eta, we in zip(etas, log_we, strict=True)]
        out += [(each, g, noise) for g, noise, _ in new]
        weights += [wt + we for _, _, we in new]
    return out, np.array(weights)


def brute_force(X, y, *, nu=None, labels=None, p=None, v=None, s2=None, expected_size=1.0, points=48, eta_high=6.0):
    """Sum over all sets of units and all points of the hyperparameters."""
    n, d = X.shape
    nu = n if nu is None else nu
    labels = np.arange(d) if labels is None else labels
    nodes, log_w = hyper_nodes(X, y, labels, p, v, s2, expected_size=expected_size, points=points, eta_high=eta_high)
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
