"""Independent answers that EP is compared with: enumeration, quadrature, and ways to make problems."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logsumexp


@dataclass(frozen=True)
class Exact:
    """The exact posterior: log evidence, inclusion probabilities (d,), means (d,)."""

    log_evidence: float
    inclusion_prob: np.ndarray
    mean: np.ndarray


def enumerate_models(X, y, p, slab_var, noise_var, nu=None):
    """Sum over all 2^d inclusion patterns."""
    n, d = X.shape
    nu = n if nu is None else nu
    logs, patterns, means = [], [], []
    for pattern in product((False, True), repeat=d):
        inside = np.array(pattern)
        prior = np.where(inside, p, 1.0 - p)
        if np.any(prior == 0):
            continue
        part = X[:, inside]
        precision = part.T @ part / noise_var + np.eye(part.shape[1]) / slab_var
        cross = part.T @ y / noise_var
        coef = np.linalg.solve(precision, cross)
        log_det = np.linalg.slogdet(precision * slab_var)[1]
        quad = 0.5 * (y @ y / noise_var - cross @ coef)
        logs.append(np.sum(np.log(prior)) - 0.5 * nu * np.log(2 * np.pi * noise_var) - 0.5 * log_det - quad)
        patterns.append(inside)
        mean = np.zeros(d)
        mean[inside] = coef
        means.append(mean)
    total = logsumexp(logs)
    weights = np.exp(np.array(logs) - total)
    return Exact(float(total), weights @ np.array(patterns, dtype=float), weights @ np.array(means))


def problem(seed, n, d, *, rho=0.0, sigma=1.0, size=3):
    """X (n, d) with AR(1) columns, y (n,), from a model with a few coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    w = np.zeros(d)
    w[: min(size, d)] = rng.standard_normal(min(size, d))
    return X, X @ w + sigma * rng.standard_normal(n)


def paper_set(seed):
    """The experiment of Hernández-Lobato and Hernández-Lobato (2011)."""
    rng = np.random.default_rng([1, seed])
    w = rng.standard_normal(25) * (rng.random(25) < 0.2)
    X = rng.standard_normal((110, 25))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ w + 0.005 * rng.standard_normal(110)
    return X[:10], y[:10], X[10:], y[10:]


def nasty(seed):
    """A small problem with something wrong with it: X, y, p, slab_var, noise_var."""
    rng = np.random.default_rng([2, seed])
    n, d = int(rng.choice([1, 2, 3, 5, 10, 20])), int(rng.choice([0, 1, 2, 3, 5, 10, 20]))
    X = rng.standard_normal((n, d))
    kind = rng.integers(0, 7)
    if d > 1:
        if kind == 0:
            X[:, 1] = X[:, 0]
        elif kind == 1:
            X[:, -1] = -X[:, 0]
        elif kind == 2:
            X = X[:, :1] + 10.0 ** rng.uniform(-6, 0) * X
        elif kind == 3:
            X[:, 0] = 0.0
        elif kind == 4:
            X *= 10.0 ** rng.uniform(-4, 4, d)
        elif kind == 5:
            X = np.sign(X)
    scale, sigma = 10.0 ** rng.uniform(-4, 4), 10.0 ** rng.uniform(-4, 2)
    w = rng.standard_normal(d) * (rng.random(d) < 0.3)
    y = (X @ w + sigma * rng.standard_normal(n)) * (scale if rng.random() > 0.05 else 0.0)
    odd = np.array([0.0, 1e-12, 1e-3, 0.1, 0.5, 0.9, 1.0 - 1e-9, 1.0])
    p = np.full(d, 10.0 ** rng.uniform(-4, 0)) if rng.random() < 0.6 else rng.choice(odd, d)
    return X, y, p, 10.0 ** rng.uniform(-3, 3) * scale**2, (sigma * 10.0 ** rng.uniform(-1, 1) * scale) ** 2


@dataclass(frozen=True)
class ExactGroups:
    """The exact posterior: log evidence, groups' inclusion probabilities (G,), means (d,), covariance (d, d)."""

    log_evidence: float
    inclusion_prob: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


def enumerate_groups(X, y, groups, p, slab_var, noise_var, nu=None):
    """Sum over all 2^G patterns of groups 0..G-1, with prior probabilities p (G,)."""
    n, d = X.shape
    nu = n if nu is None else nu
    logs, patterns, means, seconds = [], [], [], []
    for pattern in product((False, True), repeat=len(p)):
        chosen = np.array(pattern)
        prior = np.where(chosen, p, 1.0 - p)
        if np.any(prior == 0):
            continue
        inside = chosen[groups]
        part = X[:, inside]
        precision = part.T @ part / noise_var + np.eye(part.shape[1]) / slab_var
        cross = part.T @ y / noise_var
        coef = np.linalg.solve(precision, cross)
        log_det = np.linalg.slogdet(precision * slab_var)[1]
        quad = 0.5 * (y @ y / noise_var - cross @ coef)
        logs.append(np.sum(np.log(prior)) - 0.5 * nu * np.log(2 * np.pi * noise_var) - 0.5 * log_det - quad)
        mean, second = np.zeros(d), np.zeros((d, d))
        mean[inside] = coef
        second[np.ix_(inside, inside)] = np.linalg.inv(precision)
        patterns.append(chosen)
        means.append(mean)
        seconds.append(second + np.outer(mean, mean))
    total = logsumexp(logs)
    weights = np.exp(np.array(logs) - total)
    mean = weights @ np.array(means)
    cov = np.einsum("m,mij->ij", weights, np.array(seconds)) - np.outer(mean, mean)
    return ExactGroups(float(total), weights @ np.array(patterns, dtype=float), mean, cov)
