"""A long Markov chain over inclusion patterns, to compare EP's inclusion probabilities with.

Weighted tempered Gibbs sampling (Zanella and Roberts, 2019): every step computes the conditional inclusion
probabilities of all columns, flips one column chosen by them, and adds the probabilities, weighted, to a
Rao-Blackwellised average. It moves between correlated columns where plain Gibbs sampling stays put.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logsumexp


def conditional_log_odds(X, y, inside, logit_p, slab_var, noise_var):
    """Log odds of inclusion of every column given the others' inclusion, the coefficients integrated out."""
    members = np.flatnonzero(inside)
    if members.size:
        part = X[:, members]
        chol = np.linalg.cholesky(part.T @ part + noise_var / slab_var * np.eye(members.size))
        half = np.linalg.solve(chol, part.T)
        quad = (np.einsum("ij,ij->j", X, X) - np.sum((half @ X) ** 2, axis=0)) / noise_var
        lin = X.T @ (y - half.T @ (half @ y)) / noise_var
    else:
        quad, lin = np.einsum("ij,ij->j", X, X) / noise_var, X.T @ y / noise_var
    left = np.where(inside, np.maximum(1.0 - slab_var * quad, 1e-300), 1.0)
    quad, lin = quad / left, lin / left
    gain = 1.0 + slab_var * quad
    return logit_p - 0.5 * np.log(gain) + 0.5 * slab_var * lin**2 / gain


def chain(X, y, logit_p, slab_var, noise_var, n_steps, rng, inside=None, burn_in=0.1):
    """Posterior inclusion probabilities (d,) from one chain."""
    d = X.shape[1]
    inside = np.zeros(d, dtype=bool) if inside is None else inside.copy()
    total, weight, level = np.zeros(d), 0.0, np.inf
    for step in range(n_steps):
        odds = conditional_log_odds(X, y, inside, logit_p, slab_var, noise_var)
        # log of (P(in) + 5 / d) / P(as it is): from a bad state this picks the best flip, not any good one.
        log_rate = np.log(expit(odds) + 5.0 / d) - log_expit(np.where(inside, odds, -odds))
        log_mass = logsumexp(log_rate)
        if step >= burn_in * n_steps:
            if log_mass < level:
                shrink = np.exp(log_mass - level)
                total, weight, level = total * shrink, weight * shrink, log_mass
            total += np.exp(level - log_mass) * expit(odds)
            weight += np.exp(level - log_mass)
        share = np.cumsum(np.exp(log_rate - log_mass))
        i = int(np.searchsorted(share, rng.random() * share[-1]))
        inside[min(i, d - 1)] ^= True
    return total / weight
