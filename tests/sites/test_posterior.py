"""Coefficients, linear predictors and probabilities beside dense algebra with p x p matrices."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import norm

from pybayesridge.binomial.likelihood import mean_probability
from pybayesridge.binomial.link import probability
from pybayesridge.posterior.laws import Ask
from tests.binomial.problems import R2, columns, fit, problem, responses

TOL = 1e-6
QUANTILE_TOL = 1e-5
DRAWS = 20000

CASES = [(60, 4, False), (30, 50, False), (40, 3, True), (25, 40, True)]


def fitted(n, p, extra, *, link="logit", flat_in="latent", **options):
    x = columns(n, p, n + p)
    y = responses(x, n + p, signal=1.0)
    z = np.column_stack([np.ones(n), np.random.default_rng(5).standard_normal(n)]) if extra else np.ones((n, 1))
    space, likelihood = problem(x, y, link=link, z=z)
    return x, y, z, fit(space, likelihood, prior=R2, flat_in=flat_in, **options)


def dense(x, z, node):
    """Mean and covariance of (g, b), user's scale, from a node's sites."""
    scale = x.std(axis=0)
    resid = x - z @ np.linalg.lstsq(z, x, rcond=None)[0]
    design = np.column_stack([z, resid / scale])
    k, p = z.shape[1], x.shape[1]
    precision = (design.T * node.sites.precision) @ design
    precision += np.diag(np.r_[np.zeros(k), np.full(p, np.exp(-node.log_t2))])
    cov = np.linalg.inv(precision)
    mean = cov @ design.T @ node.sites.shift
    back = np.eye(k + p)
    back[k:, k:] /= scale
    back[:k, k:] = -np.linalg.lstsq(z, x, rcond=None)[0] / scale
    return back @ mean, back @ cov @ back.T


@pytest.mark.parametrize(("n", "p", "extra"), CASES)
def test_one_node_is_dense_algebra(n, p, extra):
    x, _, z, found = fitted(n, p, extra, method="fixed", log_t2=-1.0)
    mean, cov = dense(x, z, found.nodes[0])
    k, post = z.shape[1], found.posterior()
    for own, wanted in zip(post.coefficient_means(), (mean[:k], mean[k:]), strict=True):
        np.testing.assert_allclose(own, wanted, atol=TOL)
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(np.concatenate(post.coefficient_sds()), sd, rtol=TOL)
    low = np.concatenate(post.coefficient_quantiles(np.array([0.025])))[:, 0]
    np.testing.assert_allclose(low, mean + norm.ppf(0.025) * sd, atol=QUANTILE_TOL)
    rng = np.random.default_rng(1)
    new_x, new_z = rng.standard_normal((7, p)), np.column_stack([np.ones(7), rng.standard_normal((7, k - 1))])
    rows = np.hstack([new_z, new_x])
    law = post.rows(new_x, new_z)
    np.testing.assert_allclose(law.mean, rows @ mean, atol=TOL)
    np.testing.assert_allclose(law.sd, np.sqrt(np.einsum("ij,jk,ik->i", rows, cov, rows)), rtol=TOL)


def test_mixtures_add_up_over_the_nodes():
    x, _, z, found = fitted(60, 4, False)
    post = found.posterior()
    every = [dense(x, z, node) for node in found.nodes]
    mean = sum(w * m for w, (m, _) in zip(found.weight, every, strict=True))
    second = sum(w * (np.diag(c) + m**2) for w, (m, c) in zip(found.weight, every, strict=True))
    np.testing.assert_allclose(np.concatenate(post.coefficient_means()), mean, atol=TOL)
    np.testing.assert_allclose(np.concatenate(post.coefficient_sds()), np.sqrt(second - mean**2), rtol=1e-5)
    quantiles = np.concatenate(post.coefficient_quantiles(np.array([0.025, 0.5, 0.975])))

    def share_below(value, j):
        parts = [w * ndtr((value - m[j]) / np.sqrt(c[j, j])) for w, (m, c) in zip(found.weight, every, strict=True)]
        return sum(parts)

    for j in range(5):
        for i, p in enumerate((0.025, 0.5, 0.975)):
            wanted = brentq(lambda value, j=j, p=p: share_below(value, j) - p, -50, 50, xtol=1e-12)
            assert quantiles[j, i] == pytest.approx(wanted, abs=QUANTILE_TOL)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_probabilities_are_means_and_quantiles_of_the_curve(link):
    x, _, z, found = fitted(60, 4, False, link=link)
    post = found.posterior()
    g, b = post.draws(DRAWS, np.random.default_rng(3))
    eta = g @ z[:5].T + b @ x[:5].T
    share = expit(eta) if link == "logit" else ndtr(eta)
    np.testing.assert_allclose(post.response_means(x[:5], z[:5]), share.mean(axis=0), atol=0.01)
    bounds = probability(post.rows(x[:5], z[:5]).ask(Ask((0.1, 0.9))).quantiles[:, 0], link)
    np.testing.assert_allclose(bounds, np.quantile(share, [0.1, 0.9], axis=0).T, atol=0.02)


@pytest.mark.parametrize(("n", "p", "extra"), CASES)
def test_draws_have_the_posterior_covariance(n, p, extra):
    x, _, z, found = fitted(n, p, extra, method="fixed", log_t2=-1.0)
    mean, cov = dense(x, z, found.nodes[0])
    draws = np.hstack(found.posterior().draws(DRAWS, np.random.default_rng(7)))
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1.0, atol=0.04)
    error = (np.cov(draws.T) - cov) / np.outer(sd, sd)
    assert np.abs(error).max() <= 0.06


def test_mean_probability_of_the_logistic_curve():
    x, w = np.polynomial.hermite_e.hermegauss(180)
    mean, sd = np.array([0.0, 1.0, -4.0, 8.0, -30.0]), np.array([0.5, 2.0, 1.0, 3.0, 1.0])
    wanted = expit(mean[:, None] + sd[:, None] * x) @ w / w.sum()
    np.testing.assert_allclose(mean_probability(mean, sd**2, "logit"), wanted, rtol=1e-6)


def test_moments_that_do_not_exist_are_not_numbers():
    """Columns that separate the responses leave medians and probabilities, but no means under the default prior."""
    x, _, z, found = fitted(30, 50, False)
    post = found.posterior()
    assert found.separated
    assert found.converged
    assert np.isnan(post.coefficient_means()[1]).all()
    assert np.isinf(post.coefficient_sds()[1]).all()
    median = post.coefficient_quantiles(np.array([0.5]))[1]
    assert np.isfinite(median).all()
    share = post.response_means(x, z)
    assert ((share > 0) & (share < 1)).all()
