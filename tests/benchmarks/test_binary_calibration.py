"""Simulation-based calibration of yes/no responses: draws from the prior, one fit of each model, the page."""

import numpy as np
from scipy.stats import kstest

from benchmarks import binary_calibration as calibration
from tests.effort import only_thorough

LEAST_P = 1e-3
"""Of a test whose null hypothesis holds, with a fixed seed."""


def test_draws_have_the_prior_share_explained():
    """Beta(1/2, 1/2) of the latent variance, given the penalty; standardised columns."""
    setting = calibration.Setting(50, 6, "probit", "ep", 1)
    tau2 = np.array([calibration.ridge_draw(setting, np.random.default_rng(i))[1] for i in range(400)])
    share = 6 * tau2 / (1 + 6 * tau2)
    assert kstest(share, "beta", (0.5, 0.5)).pvalue > LEAST_P


def test_columns_are_standardised():
    setting = calibration.Setting(50, 6, "logit", None, 1)
    x, new = calibration.columns(setting, np.random.default_rng(0))
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(x.std(axis=0), 1, rtol=1e-12)
    assert new.shape == (calibration.NEW_ROWS, 6)


@only_thorough
def test_a_run_and_its_page():
    found = {name: calibration.measure(name, one, np.inf) for name, one in calibration.QUICK.items()}
    text = calibration.page(found)
    assert all(0 <= one["coef"][0] <= 1 and one["sets"] + one["all_the_same"] > 0 for one in found.values())
    assert "## The ridge" in text
    assert "| inclusion probability |" in text
