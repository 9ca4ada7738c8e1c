"""A Gibbs sampler of the Bayesian ridge: many chains side by side, textbook conditional distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Draws:
    """Draws of independent chains, on the user's scale.

    Attributes
    ----------
    coefficients : (chains, draws, k + p) array
        [Z, X] coefficients.
    log_t2, sigma2 : (chains, draws) arrays
    """

    coefficients: np.ndarray
    log_t2: np.ndarray
    sigma2: np.ndarray


def gibbs(oracle, *, chains, draws, burn_in, seed):
    """Sample g, b | t2, s2, then s2 | g, b, t2, then 1/t2 and its auxiliary variable.

    The beta-prime(a, b) prior of t2 / scale is scale / t2 | e ~ Gamma(b, rate e) with e ~ Gamma(a, 1).
    """
    rng = np.random.default_rng(seed)
    a, b, scale = oracle.a, oracle.b, np.exp(oracle.log_scale)
    k, p, n = oracle.k, oracle.p, len(oracle.y)
    both = np.hstack([oracle.zw, oracle.xw])
    moment = both.T @ oracle.yw
    root_z = np.linalg.cholesky(oracle.zw.T @ oracle.zw)
    back = np.linalg.solve(oracle.zw.T @ oracle.zw, oracle.zw.T @ oracle.xw)
    g_hat = np.linalg.solve(oracle.zw.T @ oracle.zw, moment[:k])
    eigenvalues, vectors = np.linalg.eigh(oracle.xr.T @ oracle.xr)
    cross = vectors.T @ (oracle.xr.T @ oracle.yr)
    penalty, s2 = np.exp(rng.standard_normal(chains)), np.full(chains, oracle.sigma2 or oracle.yr.var())
    kept = []
    for step in range(burn_in + draws):
        precision = np.maximum(eigenvalues, 0) + penalty[:, None]
        rotated = cross / precision + np.sqrt(s2[:, None] / precision) * rng.standard_normal((chains, p))
        slopes = rotated @ vectors.T
        noise = np.linalg.solve(root_z.T, rng.standard_normal((k, chains))).T
        g = g_hat - slopes @ back.T + np.sqrt(s2)[:, None] * noise
        size = (slopes**2).sum(axis=1)
        if not oracle.sigma2:
            rss = ((oracle.yw - g @ oracle.zw.T - slopes @ oracle.xw.T) ** 2).sum(axis=1)
            s2 = (rss + penalty * size) / 2 / rng.standard_gamma((n + p) / 2, chains)
        auxiliary = rng.standard_gamma(a + b, chains) / (1 + scale * penalty)
        penalty = rng.standard_gamma(b + p / 2, chains) / (scale * auxiliary + size / (2 * s2))
        if step >= burn_in:
            kept.append((np.hstack([g, slopes]) / oracle.units, -np.log(penalty), s2))
    parts = [np.stack(part, axis=1) for part in zip(*kept, strict=True)]
    return Draws(*parts)
