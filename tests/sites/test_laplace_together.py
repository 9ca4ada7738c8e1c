"""Laplace's approximation at several penalties at once, against one at a time."""

import numpy as np
import pytest

from pybayesridge.sites.coordinates import Scaled
from pybayesridge.sites.laplace import laplace
from pybayesridge.sites.laplace_together import laplace_together
from pybayesridge.sites.student import StudentT

SAME = 1e-8
"""Differences in standard deviations, and of log evidences; 3e-13 is the worst seen. A last step may be another."""
TOL = 1e-5


class Rows:
    """Rows at given scales of the prior."""

    def __init__(self, rows, k, units):
        self.rows, self.k, self.units = rows, k, units

    def scaled(self, log_t2):
        return Scaled(self.rows, self.k, self.units)

    def keeps(self, size):
        return False


def problem(seed, outliers):
    rng = np.random.default_rng(seed)
    rows = np.asfortranarray(np.column_stack([np.ones(40), rng.normal(size=(40, 6))]))
    y = rows @ rng.normal(size=7) + rng.standard_t(3, 40)
    y[:outliers] += 20.0
    units = np.column_stack([np.ones(9), np.exp(np.linspace(-3.0, 1.5, 9))[:, None] * np.ones((9, 6))])
    products = (rows[:, :, None] * rows[:, None, :]).reshape(40, -1)
    return rows, products, units, y


@pytest.mark.parametrize("df", [3.0, 20.0, np.inf])
@pytest.mark.parametrize("outliers", [0, 3])
def test_they_are_those_of_one_at_a_time(df, outliers):
    rows, products, units, y = problem(1, outliers)
    likelihood = StudentT(y, np.ones(40), df, 0.0, 1.0)
    middle = laplace(Rows(rows, 1, units[5]), likelihood, 0.0, None, tol=TOL, maxiter=50)
    start = np.tile(middle.center, (9, 1))
    found = laplace_together(rows, products, 1, units, likelihood, start, TOL)
    assert sum(one is not None for one in found) >= 4
    for own, one in zip(units, found, strict=True):
        if one is None:
            continue
        alone = laplace(Rows(rows, 1, own), likelihood, 0.0, middle.center, tol=TOL, maxiter=50)
        sd = np.sqrt(alone.variance)
        np.testing.assert_allclose((one.mean - alone.mean) / sd, 0, atol=SAME)
        np.testing.assert_allclose(np.sqrt(one.variance) / sd, 1, atol=SAME)
        np.testing.assert_allclose(rows @ one.center, one.mean, atol=SAME)
        assert one.log_evidence == pytest.approx(alone.log_evidence, abs=SAME)
        assert one.slope == pytest.approx(alone.slope, abs=SAME)
        assert one.converged


def test_what_is_far_away_is_left_out():
    """Where the first expansion is no density, or a step leads downwards."""
    rows, products, units, y = problem(2, 3)
    likelihood = StudentT(y, np.ones(40), 2.0, -6.0, 1.0)
    start = np.zeros((9, 7))
    start[:, 0] = 100.0
    assert laplace_together(rows, products, 1, units, likelihood, start, TOL) == [None] * 9
