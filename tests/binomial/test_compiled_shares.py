"""The compiled likelihood of beta-binomial counts beside sums of logarithms, and fits with it and without."""

import numpy as np
import pytest
from scipy.special import expit

from pybayesridge import BayesRidge
from pybayesridge.binomial import compiled_shares
from pybayesridge.binomial.beta_binomial import of_successes
from pybayesridge.binomial.compiled_shares import LEAST_ALPHA, MOST, MOST_ALPHA, values_and_slopes
from pybayesridge.compiled import library as compiled_library

SAME = 3e-12
"""Largest difference of values and slopes from sums term by term, relative to them or to 1; worst seen 3e-13."""

FITS = 1e-6
"""Largest difference of fits in posterior standard deviations, and of evidence; worst seen 1e-9."""


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The library is made from the sources as they are, if it is not there."""
    compiled_library.library()
    compiled_library.built.cache_clear()


def rows(n=300, seed=0):
    """Few to the most successes and failures, none of either too, and linear predictors near and far."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, MOST + 1, n).astype(float)
    successes = rng.binomial(trials.astype(int), rng.beta(0.5, 0.5, n)).astype(float)
    eta = np.vstack([3 * rng.standard_normal((13, n)), np.clip(200 * rng.standard_normal((4, n)), -600, 600)])
    return eta, successes, trials - successes


def term_by_term(eta, y, f, alpha):
    """The sums in extended precision where there is one."""
    eta, alpha = eta.astype(np.longdouble), np.longdouble(alpha)
    p, q = 1 / (1 + np.exp(-eta)), 1 / (1 + np.exp(eta))
    value, slope = np.zeros(eta.shape, np.longdouble), np.zeros(eta.shape, np.longdouble)
    for i in range(2 * MOST):
        a, b = p + i * alpha, q + i * alpha
        value += (
            np.where(i < y, np.log(a), 0)
            + np.where(i < f, np.log(b), 0)
            - np.where(i < y + f, np.log1p(i * alpha), 0)
        )
        slope += p * q * (np.where(i < y, 1 / a, 0) - np.where(i < f, 1 / b, 0))
    return value, slope


@pytest.mark.parametrize("alpha", [LEAST_ALPHA, 1e-5, 0.05, 1.0, 50.0, MOST_ALPHA])
def test_values_and_slopes_are_sums_term_by_term(alpha):
    eta, y, f = rows()
    for found, wanted in zip(values_and_slopes(eta, y, f, alpha), term_by_term(eta, y, f, alpha), strict=True):
        assert np.abs((found - wanted) / np.maximum(np.abs(wanted), 1)).max() <= SAME


def test_order_of_arrays_and_numbers_of_nodes():
    eta, y, f = rows(40)
    whole = values_and_slopes(eta, y, f, 0.3)
    for count in (1, 7, 8, 9):
        part = values_and_slopes(np.asfortranarray(eta[:count]), y, f, 0.3)
        np.testing.assert_allclose(part, [each[:count] for each in whole], rtol=SAME, atol=SAME)
    assert values_and_slopes(eta[:, :0], y[:0], f[:0], 0.3)[0].shape == (len(eta), 0)


@pytest.mark.parametrize(("most", "alpha"), [(MOST + 1.0, 0.3), (3.0, LEAST_ALPHA / 2), (3.0, 2 * MOST_ALPHA)])
def test_what_is_left_to_numpy(most, alpha):
    y, f = np.array([most, 1.0]), np.array([0.0, 2.0])
    assert values_and_slopes(np.zeros((3, 2)), y, f, alpha) is None
    likelihood = of_successes(y, y + f, None, alpha)
    value, slope = likelihood.values_and_slopes(np.zeros((3, 2)))
    np.testing.assert_array_equal(value, likelihood.values(np.zeros((3, 2))))
    np.testing.assert_array_equal(slope, likelihood.slope(np.zeros((3, 2))))


def test_fits_are_those_without_a_library(monkeypatch):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    trials = rng.integers(2, 30, 60)
    share = expit(0.6 * x[:, 0])
    y = rng.binomial(trials, rng.beta(4 * share, 4 * (1 - share)))
    weights = rng.integers(1, 3, 60).astype(float)
    model = BayesRidge(y, x, family="beta-binomial", trials=trials, weights=weights)
    found = model.fit()
    monkeypatch.setattr(compiled_shares, "built", lambda: None)
    wanted = model.fit()
    np.testing.assert_allclose((found.params - wanted.params) / wanted.bse, 0, atol=FITS)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=FITS)
    assert found.log_evidence == pytest.approx(wanted.log_evidence, abs=FITS)
