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
    """Log p(y | A, g), with s2 given or (None) integrated out under 1 / s2, by n x n determinants; and moments."""
    n = y.size
    part = X[:, inside]
    cov = np.eye(n) + g * part @ part.T
    log_det = np.linalg.slogdet(cov)[1]
    left = y @ np.linalg.solve(cov, y)
    precision = part.T @ part + np.eye(part.shape[1]) / g
    coef = np.linalg.solve(precision, part.T @ y)
    var = np.diag(np.linalg.inv(precision)) if inside.any() else np.zeros(0)
    if s2 is None:
        value = gammaln(nu / 2) - nu / 2 * np.log(np.pi * left) - log_det / 2
        noise = left / (nu - 2)
    else:
        value = -nu / 2 * np.log(2 * np.pi * s2) - left / (2 * s2) - log_det / 2
        noise = s2
    return value, coef, noise * var


def hyper_nodes(X, labels, p, v, s2, *, expected_size=1.0, points=32):
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


def brute_force(X, y, *, nu=None, labels=None, p=None, v=None, s2=None, expected_size=1.0, points=32):
    """Sum over all sets of units and all points of the hyperparameters."""
    n, d = X.shape
    nu = n if nu is None else nu
    labels = np.arange(d) if labels is None else labels
    nodes, log_w = hyper_nodes(X, labels, p, v, s2, expected_size=expected_size, points=points)
    logs, rows = [], []
    for pattern in product((False, True), repeat=int(labels.max()) + 1):
        units = np.array(pattern)
        inside = units[labels]
        for (each, g, noise), lw in zip(nodes, log_w, strict=True):
            own = np.where(units, each, 1 - each)
            if (own == 0).any():
                continue
            value, coef, var = log_marginal(X, y, nu, inside, g, noise)
            logs.append(value + lw + np.log(own).sum())
            rows.append((inside, coef, var))
    logs = np.array(logs)
    top = logs.max()
    weight = np.exp(logs - top)
    evidence = top + np.log(weight.sum())
    weight /= weight.sum()
    prob, mean, square = np.zeros(d), np.zeros(d), np.zeros(d)
    for w, (inside, coef, var) in zip(weight, rows, strict=True):
        prob[inside] += w
        mean[inside] += w * coef
        square[inside] += w * (coef**2 + var)
    return Answer(prob, mean, square, evidence)


def regression(seed, n, d, *, noise=1.0, size=2, twins=0.0):
    """X (n, d), y (n,); with `twins` the second column is the first plus that much noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if twins:
        X[:, 1] = X[:, 0] + twins * X[:, 1]
    return X, X[:, :size].sum(axis=1) * 0.7 + noise * rng.standard_normal(n)
