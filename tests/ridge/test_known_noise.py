"""A known noise variance; with the identity as design, the paper's estimator of multiple means (Appendix A)."""

import numpy as np
import pytest

from pybayesridge import BayesRidge, DegenerateFitWarning
from tests.dense_posterior import DensePosterior
from tests.problems import CASES, Case

KAPPA = 1e-8
"""Shrinkage factor, a root of the profile."""

SAME = 1e-9

STANDARD_ERRORS = 3.0
"""By how many standard errors a simulated risk must lie below that of least squares."""


def multiple_means(y):
    """The model of Appendix A: one observation of unit variance for each mean, shrunk towards zero."""
    return BayesRidge(y, np.eye(len(y)), intercept=False, standardize=False, sigma2=1.0, prior="half-cauchy")


@pytest.mark.parametrize("p", [1, 3, 6, 20, 150])
@pytest.mark.parametrize("size", [1.2, 3.0, 1e3, 1e10])
def test_shrinkage_of_multiple_means(p, size):
    y = np.random.default_rng(p).standard_normal(p)
    y *= np.sqrt(size * (p + 2)) / np.linalg.norm(y)
    res = multiple_means(y).fit("em", parameterization="tau")
    kappa = (p + 2) / (y @ y)
    # 1 - kappa multiplies y, and kappa = 1 / (1 + tau2).
    assert 1 / (1 + res.tau2) == pytest.approx(kappa, rel=KAPPA)
    np.testing.assert_allclose(res.params, (1 - kappa) * y, rtol=KAPPA)
    np.testing.assert_allclose(res.bse, np.sqrt(1 - kappa), rtol=KAPPA)
    assert res.sigma2 == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("accelerate", [True, False])
def test_shrinkage_by_both_algorithms(accelerate):
    y = np.linspace(-3, 4, 9)
    res = multiple_means(y).fit("em", parameterization="tau", accelerate=accelerate, tol=1e-12)
    assert 1 / (1 + res.tau2) == pytest.approx(11 / (y @ y), rel=KAPPA)


def test_shrinkage_does_not_depend_on_the_units():
    y = np.linspace(-3, 4, 9)
    for unit in (1e-150, 1e-3, 1e100):
        sigma2 = unit**2 or 1e-300
        model = BayesRidge(
            unit * y, np.eye(9), intercept=False, standardize=False, sigma2=sigma2, prior="half-cauchy"
        )
        res = model.fit("em", parameterization="tau")
        assert 1 / (1 + res.tau2) == pytest.approx(11 / (y @ y), rel=KAPPA)


@pytest.mark.parametrize("size", [1e-6, 0.5, 0.99])
def test_everything_is_shrunk_where_the_means_are_smaller_than_noise(size):
    y = np.ones(10) * np.sqrt(size * 12 / 10)
    with pytest.warns(DegenerateFitWarning, match="no interior mode"):
        res = multiple_means(y).fit("em", parameterization="tau")
    assert (res.params == 0).all()
    assert res.lambda_ == np.inf


@pytest.mark.filterwarnings("ignore::pybayesridge.DegenerateFitWarning")
@pytest.mark.parametrize("p", [6, 12, 50])
@pytest.mark.parametrize("length", [0.0, 0.5, 1.0, 2.0])
def test_risk_is_below_that_of_least_squares(p, length):
    """Minimax for p >= 6: the risk, here by simulation with as many targets as draws, is nowhere above p."""
    rng = np.random.default_rng(100 * p + int(10 * length))
    truth = length * rng.standard_normal(p)
    y = truth[:, None] + rng.standard_normal((p, 2000))
    res = multiple_means(y).fit("em", parameterization="tau")
    loss = ((np.asarray(res.params) - truth[:, None]) ** 2).sum(axis=0)
    # Paired with the loss of least squares on the same draws.
    gain = ((y - truth[:, None]) ** 2).sum(axis=0) - loss
    assert gain.mean() > STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(gain.size)


@pytest.mark.parametrize("method", ["em", "exact", "fixed", "gcv", "loocv"])
def test_noise_is_what_it_is_said_to_be(method):
    case = Case(40, 5, model={"sigma2": 7.0})
    res = case.results(method=method, **({"lam": 2.0} if method == "fixed" else {}))
    assert res.sigma2 == pytest.approx(7.0, rel=1e-14)
    if method != "exact":
        oracle = case.oracle()
        wanted = 7.0 * oracle.unit_covariance(res.lambda_)
        unit = np.sqrt(np.diag(wanted))
        np.testing.assert_allclose(res.cov_params() / np.outer(unit, unit), wanted / np.outer(unit, unit), atol=SAME)
        z = np.diff(res.conf_int(0.05), axis=1)[:, 0] / unit / 2
        np.testing.assert_allclose(z, 1.959963984540054, rtol=SAME)
    assert "sigma is known" in res.summary().as_text()


def test_least_squares_with_known_noise_is_textbook():
    y, x = CASES["tall"].arrays()
    res = BayesRidge(y, x, sigma2=2.0).fit("fixed", lam=0.0)
    both = np.column_stack([np.ones(len(y)), x])
    np.testing.assert_allclose(res.bse, np.sqrt(2.0 * np.diag(np.linalg.inv(both.T @ both))), rtol=1e-8)


def test_multiple_means_with_the_penalty_integrated_out():
    y = np.random.default_rng(3).normal(0, 2, 8)
    res = multiple_means(y).fit("exact", tol=1e-12)
    # Given kappa = 1/(1 + tau2) the means are (1 - kappa) y: one-dimensional integrals over (0, 1).
    nodes, weights = np.polynomial.legendre.leggauss(400)
    root = (nodes + 1) / 2  # kappa = 1 - root^2 takes the prior's singularity at kappa = 1 away
    kappa = 1 - root**2
    density = weights * kappa ** (8 / 2) * np.exp(-kappa * (y @ y) / 2) * kappa**-0.5
    density /= density.sum()
    mean = density @ (1 - kappa)
    np.testing.assert_allclose(res.params, mean * y, rtol=1e-6)
    variance = mean + (density @ (1 - kappa) ** 2 - mean**2) * y**2
    np.testing.assert_allclose(res.posterior_var, variance, rtol=1e-6)


def test_a_response_that_vanishes_is_no_news_with_known_noise():
    x = np.random.default_rng(0).standard_normal((20, 3))
    res = BayesRidge(np.zeros(20), x, sigma2=1.0).fit("exact")
    assert (res.params == 0).all()
    assert (res.bse > 0).all()
    assert res.sigma2 == pytest.approx(1.0, rel=1e-13)
    assert np.isfinite(res.log_marginal)


@pytest.mark.parametrize("sigma2", [0.0, -1.0, np.inf, np.nan, "one", [1.0, 2.0]])
def test_bad_noise(sigma2):
    y, x = CASES["tall"].arrays()
    with pytest.raises(ValueError, match="sigma2 must be"):
        BayesRidge(y, x, sigma2=sigma2)


def test_effective_degrees_of_freedom_with_known_noise():
    case = Case(30, 5, model={"sigma2": 7.0})
    dense, res = DensePosterior(case.oracle()), case.results(method="exact", tol=1e-12)
    assert res.df_model == pytest.approx(dense.weight @ dense.effective_df(dense.l), rel=SAME)
