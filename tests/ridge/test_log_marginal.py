"""The marginal likelihood against integrals in two dimensions and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln

from pybayesridge import BayesRidge, ConvergenceWarning
from tests.dense_posterior import DensePosterior
from tests.oracle import Oracle
from tests.problems import Case
from tests.ridge.test_exact import EXACT, MOMENTS, TIGHT

TWO_DIMENSIONS = 1e-10
"""log p(y) against a sum over log t2 and log s2 of normal densities."""

HONEST = 1.0
"""True error beside the reported one."""

ROUNDING = 1e-13
"""Errors below this say nothing about the quadrature."""


def log_marginal_in_two_dimensions(oracle):
    """log p(y) by summing N(y; 0, s2 V(t2)), flat on the unpenalised, over log t2 and log s2."""
    spacing = 0.2
    log_t2 = np.arange(-70.0, 3.0 + 40.0 / (oracle.b + oracle.p / 2), spacing)
    prior_constant = oracle.a * oracle.log_scale + betaln(oracle.a, oracle.b)
    log_s2 = np.log(oracle.yr.var()) + np.arange(-15.0, 20.0, spacing)
    w = np.ones(len(oracle.y)) if oracle.weights is None else oracle.weights / oracle.weights.mean()
    x = oracle.xw / np.sqrt(w)[:, None]
    columns = []
    for l in log_t2:
        v = np.diag(1 / w) + np.exp(l) * x @ x.T
        inverse = np.linalg.inv(v)
        middle = oracle.z.T @ inverse @ oracle.z
        solved = inverse @ oracle.z
        quadratic = oracle.y @ inverse @ oracle.y - (oracle.y @ solved) @ np.linalg.solve(middle, solved.T @ oracle.y)
        det = np.linalg.slogdet(v)[1] + np.linalg.slogdet(middle)[1]
        prior = oracle.log_prior(l) - prior_constant
        columns.append(
            -oracle.nu / 2 * (np.log(2 * np.pi) + log_s2) - 0.5 * det - quadratic / (2 * np.exp(log_s2)) + prior
        )
    log = np.array(columns)
    return log.max() + np.log(np.exp(log - log.max()).sum() * spacing**2)


@pytest.mark.parametrize("name", ["tall", "tall-noisy", "prior-1-1", "unpenalized-weights"])
def test_log_marginal_with_every_constant(name):
    case = EXACT[name]
    small = replace(case, n=max(12, case.p + 6))
    wanted = log_marginal_in_two_dimensions(small.oracle())
    assert small.results(**TIGHT).log_marginal == pytest.approx(wanted, abs=max(TWO_DIMENSIONS, 1e-12 * abs(wanted)))


def test_log_marginal_compares_nested_models():
    y, x = Case(30, 5, seed=4).arrays()
    wanted = [log_marginal_in_two_dimensions(Case(30, 5, seed=4).oracle())]
    oracle = Case(30, 5, seed=4).oracle()
    wanted.append(log_marginal_in_two_dimensions(Oracle(y, oracle.z, x[:, :3])))
    actual = [BayesRidge(y, columns, prior="half-cauchy").fit(**TIGHT).log_marginal for columns in (x, x[:, :3])]
    assert actual[0] - actual[1] == pytest.approx(wanted[0] - wanted[1], abs=TWO_DIMENSIONS)


def test_log_marginal_belongs_to_the_model_and_not_to_the_method():
    case = EXACT["tall"]
    wanted = case.results(**TIGHT).log_marginal
    for method in ("em", "loocv", "gcv"):
        assert case.results(method=method).log_marginal == pytest.approx(wanted, abs=1e-8)


def test_log_marginal_given_the_penalty():
    case = EXACT["unpenalized-weights"]
    dense = DensePosterior(case.oracle())
    at = int(np.argmin(np.abs(dense.grid + 1)))
    actual = case.results(method="fixed", lam=np.exp(-dense.grid[at])).log_marginal
    assert actual == pytest.approx(dense.log_likelihood[at], abs=MOMENTS)


def test_log_marginal_of_known_noise_is_a_normal_density():
    case = EXACT["no-intercept"]
    y, x = case.arrays()
    x = x / x.std(axis=0)
    lam, s2 = 3.0, 50.0
    res = BayesRidge(y, x, intercept=False, sigma2=s2).fit("fixed", lam=lam)
    cov = s2 * (np.eye(len(y)) + x @ x.T / lam)
    assert res.log_marginal == pytest.approx(stats.multivariate_normal(cov=cov).logpdf(y), abs=1e-9)


@pytest.mark.parametrize("name", list(EXACT))
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_quadrature_error_is_honest(name, tol):
    case = EXACT[name]
    rough, best = case.results(method="exact", tol=tol), case.results(method="exact", tol=1e-15, maxiter=9)
    assert 0 < rough.quadrature_error <= tol
    allowed = HONEST * rough.quadrature_error + ROUNDING * max(1.0, abs(best.log_marginal))
    assert abs(rough.log_marginal - best.log_marginal) <= allowed
    assert abs(np.log(rough.tau2 / best.tau2)) <= allowed


def test_too_few_doublings_are_told():
    case = EXACT["tall"]
    with pytest.warns(ConvergenceWarning, match="maxiter=1 "):
        res = case.results(method="exact", tol=1e-15, maxiter=1)
    assert not res.converged
    assert res.quadrature_error > 1e-15
    assert "NOT CONVERGED" in res.summary().as_text()
