"""The enumeration over inclusion patterns beside brute force."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

pytest.importorskip("numba")
from benchmarks.paper_ep import enumeration

TOL = 1e-9  # sums of 2^d terms in another order
TOL_NOISELESS = 1e-7  # noise of 2.5e-5 beside a slab of 1 costs the inverse five digits


def brute_force(x, y, p, slab, noise):
    """Log evidence, inclusion probabilities, means and variances, pattern by pattern, from densities of y."""
    n, d = x.shape
    logs, patterns, means, squares = [], [], [], []
    for pattern in product((False, True), repeat=d):
        inside = np.array(pattern)
        part = x[:, inside]
        cov_y = noise * np.eye(n) + slab * part @ part.T
        logs.append(np.log(np.where(inside, p, 1 - p)).sum() + multivariate_normal.logpdf(y, np.zeros(n), cov_y))
        cov = np.linalg.inv(part.T @ part / noise + np.eye(part.shape[1]) / slab)
        mean, square = np.zeros(d), np.zeros(d)
        mean[inside] = cov @ part.T @ y / noise
        square[inside] = np.diag(cov) + mean[inside] ** 2
        patterns.append(inside)
        means.append(mean)
        squares.append(square)
    total = logsumexp(logs)
    weight = np.exp(np.array(logs) - total)
    mean = weight @ np.array(means)
    return total, weight @ np.array(patterns, dtype=float), mean, weight @ np.array(squares) - mean**2


@pytest.mark.parametrize(
    ("n", "d", "noise", "slab", "tol"),
    [
        (5, 1, 0.3, 1.0, TOL),
        (4, 8, 0.5, 2.0, TOL),
        (12, 6, 1.0, 0.1, TOL),
        (6, 10, 2.5e-5, 1.0, TOL_NOISELESS),
    ],
)
def test_brute_force(n, d, noise, slab, tol):
    rng = np.random.default_rng([n, d])
    x = rng.standard_normal((n, d))
    w = rng.standard_normal(d) * (rng.random(d) < 0.4)
    y = x @ w + np.sqrt(noise) * rng.standard_normal(n)
    p = rng.uniform(0.05, 0.9, d)
    total, inside, mean, var = brute_force(x, y, p, slab, noise)
    found = enumeration.enumerate_patterns(x, y, p, slab, noise)
    np.testing.assert_allclose(found.log_evidence, total, rtol=tol, atol=tol)
    np.testing.assert_allclose(found.inclusion_prob, inside, rtol=0, atol=tol)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=tol)
    np.testing.assert_allclose(found.var, var, rtol=0, atol=tol)


def test_weights_far_above_the_empty_pattern():
    """The log weight rises by thousands: the unit of the weights has to follow."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((8, 7))
    y = 100 * x[:, 3] + 0.01 * rng.standard_normal(8)
    p = np.full(7, 0.2)
    total, inside, mean, _ = brute_force(x, y, p, 1e4, 1e-4)
    found = enumeration.enumerate_patterns(x, y, p, 1e4, 1e-4)
    np.testing.assert_allclose(found.log_evidence, total, rtol=1e-6)
    np.testing.assert_allclose(found.inclusion_prob, inside, atol=1e-6)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_certain_columns_are_refused(bad):
    with pytest.raises(ValueError, match="strictly between"):
        enumeration.enumerate_patterns(np.ones((2, 2)), np.ones(2), np.array([0.5, bad]), 1.0, 1.0)
