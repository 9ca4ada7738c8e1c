"""Means of the logistic function and of its derivatives over normal linear predictors."""

import numpy as np
import pytest
from scipy.special import expit

from pybayesridge.binomial import logistic_normal
from pybayesridge.binomial.logistic_normal import expected_derivatives

TOL = np.array([4e-6, 1.2e-5, 4e-5, 1.5e-4, 5.5e-4])
"""By the order of the derivative; ten times the worst seen."""

JUST = 1e-6


def derivatives(eta):
    """Of orders 0 to 4."""
    p = expit(eta)
    b, t = p * (1 - p), 1 - 2 * p
    return np.array([p, b, b * t, b * (1 - 6 * b), b * t * (1 - 12 * b)])


@pytest.mark.parametrize("of", [0.0, 0.3, 1.0 - JUST, 1.0 + JUST])
@pytest.mark.parametrize("limit", [logistic_normal.SERIES, logistic_normal.RULE[0]])
def test_means_are_those_of_a_long_rule(of, limit):
    """On both sides of the variances at which the way to compute them changes."""
    eta, variance = np.linspace(-9, 9, 2001), of * limit
    at, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    exact = sum(w * derivatives(eta + np.sqrt(variance) * x) for x, w in zip(at, weight, strict=True))
    found = expected_derivatives(eta, np.full(eta.size, variance), "logit", (0, 1, 2, 3, 4))
    assert (np.abs(np.array(found) - exact).max(axis=1) <= TOL).all()


def test_rows_of_all_variances_and_several_means_go_together():
    rng = np.random.default_rng(3)
    eta, variance = rng.normal(size=(5, 30_000)), 10.0 ** rng.uniform(-4, 1, 30_000)
    both = expected_derivatives(eta, variance, "logit", (0, 2))
    for i in (0, 17, 29_999):
        one = expected_derivatives(eta[:, [i]], variance[[i]], "logit", (0, 2))
        np.testing.assert_allclose([part[:, i] for part in both], [part[:, 0] for part in one], rtol=1e-12)
