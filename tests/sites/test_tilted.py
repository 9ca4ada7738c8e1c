"""The moments that a family gets without a way of its own, beside those of the binomial family."""

import numpy as np
import pytest

from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.sites.tilted import Cavity, by_equal_steps

TOL = 1e-6
"""Relative for integral and variance, in standard deviations for the mean."""


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("sd", [0.05, 1.0, 10.0])
def test_equal_steps_agree_with_what_the_binomial_family_does(link, sd):
    rng = np.random.default_rng(3)
    trials = rng.integers(1, 30, 50).astype(float)
    rows = from_counts(rng.binomial(trials.astype(int), 0.4).astype(float), trials, None, link)
    cavity = Cavity(rng.standard_normal(50), np.full(50, sd**-2), rng.standard_normal(50) / sd)
    found, expected = by_equal_steps(rows, cavity), rows.tilted(cavity)
    np.testing.assert_allclose(found.log_integral, expected.log_integral, atol=TOL)
    np.testing.assert_allclose((found.mean - expected.mean) / np.sqrt(expected.variance), 0.0, atol=TOL)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=TOL)
    np.testing.assert_allclose(
        found.site_precision * found.variance, expected.site_precision * expected.variance, atol=TOL
    )
