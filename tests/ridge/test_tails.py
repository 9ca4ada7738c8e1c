"""The tails of the posterior of the penalty: moments that live there, and posteriors that have no integral."""

import warnings

import numpy as np
import pytest
from scipy import stats

from pybayesridge import BayesRidge, PrecisionWarning
from pybayesridge.posterior.quantiles import Common
from tests.long_double import LongDouble

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs extended precision")

MOMENTS = 1e-9
"""Posterior standard deviations, means of tau2 and lambda, and log lambda, relative to an endless sum."""

WIDE = 3000.0
"""How far that sum goes in log t2: e^-37 of what decays at a rate of 1/80 is beyond it."""


SPACING = 0.1
"""Of that sum, which converges geometrically."""


def problem(rank, n=12, p=8, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p))
    return x[:, 0] + rng.normal(size=n), x


def mean_of(log_weight, log_value):
    """Mean of exp(log_value), by weights that may be too small to be numbers."""
    both = log_weight + log_value
    return float(np.exp(both.max()) * np.exp(both - both.max()).sum() / np.exp(log_weight).sum())


def endless(y, x, prior, sigma2):
    """Standard deviations of the coefficients, means of tau2 and lambda, and the mean of log tau2."""
    o = LongDouble(y, x, np.ones((len(y), 1)), standardize=False, prior=prior, sigma2=sigma2, zero=1e-13)
    l = o.grid(SPACING, WIDE)
    weight = o.log_density(l)
    weight -= weight.max()
    log_s2 = np.full(l.size, np.log(np.longdouble(sigma2))) if sigma2 else np.log(o.rss(l) / (o.nu - 2))
    share = np.exp(weight)
    share /= share.sum()
    lam = np.exp(-l)
    inside = np.array([share @ (np.exp(log_s2) / (s**2 + lam)) for s in o.s])
    a = o.s * o.z / (o.s**2 + lam[:, None])
    spread = ((a - share @ a) * np.sqrt(share)[:, None]) @ o.v.T
    variance = o.v**2 @ inside + (spread**2).sum(axis=0)
    if o.p > o.s.size:
        outside = np.eye(o.p) - o.v @ o.v.T  # squared, and not a difference of squares
        variance += (outside**2).sum(axis=1) * mean_of(weight, log_s2 + l)
    return np.sqrt(variance.astype(float)), mean_of(weight, l), mean_of(weight, -l), float(share @ l)


CASES = [(rank, b, s2) for s2 in (1.0, None) for b in (0.1, 0.3, 0.6, 1.0) for rank in (1, 2, 3)]
CASES = [(rank, b, s2) for rank, b, s2 in CASES if b + rank / 2 > 1] + [(2, 0.05, None), (2, 0.02, 1.0)]


@pytest.mark.parametrize(("rank", "b", "sigma2"), CASES)
def test_moments_that_live_in_the_tail(rank, b, sigma2):
    y, x = problem(rank)
    res = BayesRidge(y, x, prior=(0.5, b), sigma2=sigma2, standardize=False).fit("exact")
    sd, t2, _, log_t2 = endless(y, x, (0.5, b), sigma2)
    np.testing.assert_allclose(res.bse.iloc[1:], sd, rtol=MOMENTS)
    assert res.hyperparameters().loc["tau2", "mean"] == pytest.approx(t2, rel=MOMENTS)
    assert abs(np.log(res.lambda_) + log_t2) < MOMENTS
    assert res.conf_int().notna().to_numpy().all()


@pytest.mark.parametrize("a", [1.05, 1.5])
def test_the_mean_of_lambda_lives_in_the_other_tail(a):
    y, x = problem(2)
    res = BayesRidge(y, x, prior=(a, 0.5), standardize=False).fit("exact")
    assert res.hyperparameters().loc["lambda", "mean"] == pytest.approx(endless(y, x, (a, 0.5), None)[2], rel=MOMENTS)


def test_priors_with_almost_no_tail_are_closed_in_closed_form():
    rng = np.random.default_rng(1)
    y, x = rng.normal(size=10), rng.normal(size=(10, 15))
    for b in (0.01, 0.02):
        res = BayesRidge(y, x, prior=(0.5, b), standardize=False).fit("exact")
        sd, _, _, log_t2 = endless(y, x, (0.5, b), None)
        np.testing.assert_allclose(res.bse.iloc[1:], sd, rtol=MOMENTS)
        assert abs(np.log(res.lambda_) + log_t2) < MOMENTS * abs(log_t2)


@pytest.mark.parametrize("sigma2", [None, 1.0])
@pytest.mark.parametrize("b", [0.5, 0.3, 0.02])
def test_moments_that_do_not_exist_are_infinite(b, sigma2):
    y, x = problem(1)
    res = BayesRidge(y, x, prior=(0.5, b), sigma2=sigma2, standardize=False).fit("exact")
    assert np.isinf(res.bse.iloc[1:]).all()
    assert np.isinf(res.hyperparameters().loc["tau2", "mean"])
    assert np.isfinite(res.conf_int().to_numpy()).all()


UNPENALIZED = {0: {"intercept": False}, 1: {}, 2: {"unpenalized": [0]}}


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_paper_count_is_improper_where_the_columns_fit_everything(k):
    # The tail of log t2 is exp(l (k/2 - b)).
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=10), rng.normal(size=(10, 15))
    for b in (k / 2 - 0.01, k / 2):
        if b > 0:
            model = BayesRidge(y, x, prior=(0.5, b), **UNPENALIZED[k])
            with pytest.raises(ValueError, match=r"improper: .* Use dof='nu', a prior with b > "):
                model.fit("exact", dof="paper")
            assert model.fit("exact").converged
    proper = BayesRidge(y, x, prior=(0.5, k / 2 + 0.1), **UNPENALIZED[k]).fit("exact", dof="paper")
    assert proper.converged
    assert np.isfinite(proper.log_marginal)
    assert BayesRidge(y, x, sigma2=0.5, **UNPENALIZED[k]).fit("exact", dof="paper").converged


def test_the_paper_count_is_proper_where_a_residual_is_left():
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=10), rng.normal(size=(10, 8))
    assert BayesRidge(y, x).fit("exact", dof="paper").converged
    x = np.column_stack([x, x[:, :4]])
    assert BayesRidge(y, x).fit("exact", dof="paper").converged


def test_near_the_border_the_integral_is_right():
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=10), rng.normal(size=(10, 15))
    res = BayesRidge(y, x, prior=(0.5, 0.55)).fit("exact", dof="paper")
    o = LongDouble(y, x, np.ones((10, 1)), prior=(0.5, 0.55), dof="paper", zero=1e-13)
    l = o.grid(SPACING, WIDE)
    weight = np.exp(o.log_density(l) - o.log_density(l).max())
    assert np.log(res.lambda_) == pytest.approx(-float(weight @ l / weight.sum()), rel=MOMENTS)


@pytest.mark.filterwarnings("ignore::pybayesridge.DegenerateFitWarning")
def test_the_marginal_likelihood_of_an_improper_posterior_is_not_a_number():
    rng = np.random.default_rng(0)
    res = BayesRidge(rng.normal(size=10), rng.normal(size=(10, 15))).fit("em", dof="paper")
    assert np.isnan(res.log_marginal)


def test_quantiles_are_accurate_where_the_tail_rules_the_standard_deviation():
    rng = np.random.default_rng(0)
    where, scale = np.zeros((3, 1)), np.array([[1e-30], [1e3], [1e50]])
    weight = np.array([1.0, 1e-2, 1e-10])
    for probability in rng.uniform(1e-3, 1 - 1e-3, 20):
        found = Common(where, scale, weight / weight.sum(), 7.0).quantiles(np.array([probability]))[:, 0]
        cdf = weight @ stats.t(7).cdf(found[0] / scale[:, 0]) / weight.sum()
        assert cdf == pytest.approx(probability, rel=MOMENTS)


@pytest.mark.parametrize("p", [9, 15])
@pytest.mark.parametrize("unit", [1.0, 1e-20])
def test_noise_variances_that_live_in_the_tail(p, unit):
    # Between the scale of the data and that of the prior the noise variance falls as 1/tau2.
    rng = np.random.default_rng(4)
    y, x = rng.normal(size=10), unit * rng.normal(size=(10, p))
    res = BayesRidge(y, x, standardize=False, prior="half-cauchy").fit("exact", tol=1e-12)
    o = LongDouble(y, x, np.ones((10, 1)), standardize=False, zero=1e-13)
    l = o.grid(SPACING, WIDE)
    weight = o.log_density(l)
    expected = mean_of(weight - weight.max(), np.log(o.rss(l) / (o.nu - 2)))
    assert res.sigma2 == pytest.approx(expected, rel=MOMENTS)
    np.testing.assert_allclose(res.bse.iloc[1:], endless(y, x, (0.5, 0.5), None)[0], rtol=MOMENTS)


@pytest.mark.parametrize("large", [1e-1, 1.0, 1e1, 1e3, 1e5])
def test_a_column_almost_in_the_row_space_keeps_its_variance_or_says_that_it_is_lost(large):
    rng = np.random.default_rng(6)
    rest = rng.normal(size=(10, 14))
    x = np.column_stack([large * rest[:, 0], 1e-3 * rest[:, 1:]])
    y = 1e-3 * (rest @ rng.normal(size=14)) + 1e-6 * rng.normal(size=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = BayesRidge(y, x, sigma2=1e-12, standardize=False, prior="half-cauchy").fit("exact")
    error = np.abs(res.bse.iloc[1:] / endless(y, x, (0.5, 0.5), 1e-12)[0] - 1).max()
    assert error < max(res.precision_loss, MOMENTS)
    assert error < 1e-7 or any(issubclass(each.category, PrecisionWarning) for each in caught)
