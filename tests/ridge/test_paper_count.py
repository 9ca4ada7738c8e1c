"""log p(y) with the paper's count: n values, and the unpenalised coefficients maximised over."""

import numpy as np
import pytest
from scipy.special import betaln

from pybayesridge import BayesRidge

QUADRATURE = 1e-7
"""Ten times the largest difference seen; the sum over log s2 and log t2 is good to 1e-9."""

N, P = 14, 3


def problem(weighted):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(N, P)) * [1.0, 20.0, 0.1] + 5.0
    y = x @ [1.0, -0.1, 3.0] + rng.normal(size=N)
    return y, x, rng.uniform(0.5, 2.0, N) if weighted else np.ones(N)


def profile_density(y, x, w, log_t2, log_s2):
    """Log density of n values of which the best unpenalised coefficients were taken away, at a grid; (K, L)."""
    root = np.sqrt(w / w.mean())
    z = root[:, None] * np.ones((N, 1))
    project = np.eye(N) - z @ np.linalg.pinv(z)
    scale = np.sqrt(np.average((x - np.average(x, axis=0, weights=w)) ** 2, axis=0, weights=w))
    xs, ys = project @ (root[:, None] * (x / scale)), project @ (root * y)
    left, s, _ = np.linalg.svd(xs)
    squares = (left.T @ ys) ** 2
    out = []
    for l in np.atleast_1d(log_t2):
        v = np.append(1 + np.exp(l) * s**2, np.ones(N - P))
        quadratic, det = (squares / v).sum(), np.log(v).sum()
        out.append(-N / 2 * (np.log(2 * np.pi) + log_s2) - 0.5 * det - quadratic / (2 * np.exp(log_s2)))
    return np.array(out) + np.log(root).sum()


def log_sum(log, spacing):
    return log.max() + np.log(np.exp(log - log.max()).sum() * spacing)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["em", "exact"])
def test_the_penalty_integrated_out(method, weighted):
    y, x, w = problem(weighted)
    res = BayesRidge(y, x, weights=w, prior="half-cauchy").fit(method, dof="paper")
    l, s = np.arange(-60.0, 60.0, 0.1), np.arange(-15.0, 20.0, 0.05)
    prior = 0.5 * l - np.logaddexp(0.0, l) - betaln(0.5, 0.5)
    log = profile_density(y, x, w, l, s) + prior[:, None]
    assert res.log_marginal == pytest.approx(log_sum(log, 0.1 * 0.05), abs=QUADRATURE)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_penalty_given(weighted):
    y, x, w = problem(weighted)
    res = BayesRidge(y, x, weights=w, prior="half-cauchy").fit("fixed", lam=2.0, dof="paper")
    s = np.arange(-15.0, 20.0, 0.05)
    log = profile_density(y, x, w, -np.log(2.0), s)
    assert res.log_marginal == pytest.approx(log_sum(log, 0.05), abs=QUADRATURE)


def test_without_unpenalised_columns_both_counts_are_one():
    y, x, _ = problem(False)
    both = [BayesRidge(y, x, intercept=False).fit("exact", dof=dof).log_marginal for dof in ("nu", "paper")]
    assert both[0] == pytest.approx(both[1], abs=QUADRATURE)
    known = [BayesRidge(y, x, sigma2=1.0).fit("exact", dof=dof).log_marginal for dof in ("nu", "paper")]
    assert known[0] == pytest.approx(known[1], abs=QUADRATURE)
