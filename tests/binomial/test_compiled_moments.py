"""The compiled moments of rows beside those of NumPy, and what is left to the latter."""

import numpy as np
import pytest

from pybayesridge import BayesRidge
from pybayesridge.binomial import compiled_moments
from pybayesridge.binomial.tilted import tilted_moments
from pybayesridge.compiled import library as compiled_library
from pybayesridge.sites.tilted import Cavity, normal_cavity

SAME = 1e-11
"""Largest difference: of means in standard deviations, of the others relative to themselves or to 1."""

GRADIENTS = 2e-10
"""Likewise of gradients, which are small differences of slopes that are as large as the number of trials; worst seen
1.8e-11, without AVX."""

SITES = 1e-9
"""Largest relative difference of variances and site precisions: differences of nearly equal numbers in cavities that
are wide, or narrow."""

FITS = 3e-7
"""Largest difference of fits in posterior standard deviations."""


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The library is made from the sources as they are, if it is not there."""
    compiled_library.library()
    compiled_library.built.cache_clear()


def rows(trials, seed=0, n=400):
    """Counts, and cavities of standard deviations from .001 to 1,000 about any point of reference."""
    rng = np.random.default_rng(seed)
    total = np.ones(n) if trials == 1 else np.ceil(10.0 ** rng.uniform(0, np.log10(trials), n))
    sd, center = 10.0 ** rng.uniform(-3, 3, n), 3 * rng.standard_normal(n)
    mean = center + sd * rng.uniform(-2, 2, n)
    successes = rng.binomial(total.astype(int), 1 / (1 + np.exp(-center))).astype(float)
    return successes, total - successes, Cavity(center, sd**-2, (mean - center) * sd**-2)


def both_ways(successes, failures, cavity, monkeypatch):
    found = tilted_moments(successes, failures, "logit", cavity)
    with monkeypatch.context() as without:
        without.setattr(compiled_moments, "built", lambda: None)
        return found, tilted_moments(successes, failures, "logit", cavity)


@pytest.mark.parametrize("trials", [1, 20, 1e6])
def test_moments_are_those_of_numpy(trials, monkeypatch):
    successes, failures, cavity = rows(trials)
    found, wanted = both_ways(successes, failures, cavity, monkeypatch)
    left = compiled_moments.moments(successes, failures, cavity)[1]
    assert left.size < successes.size
    scale = np.maximum(np.abs(wanted.log_integral), 1.0)
    assert np.abs((found.log_integral - wanted.log_integral) / scale).max() <= SAME
    assert np.abs((found.mean - wanted.mean) / np.sqrt(wanted.variance)).max() <= SAME * max(1, trials**0.5)
    assert np.abs(found.variance / wanted.variance - 1).max() <= SITES * max(1, trials**0.5)
    gradient = np.maximum(np.abs(wanted.gradient), 1.0)
    assert np.abs((found.gradient - wanted.gradient) / gradient).max() <= GRADIENTS * max(1, trials**0.5)
    seen = wanted.site_precision > 1e-6 * cavity.precision
    assert np.abs(found.site_precision / wanted.site_precision - 1)[seen].max() <= SITES * max(1, trials**0.5)


def test_a_row_is_the_same_among_others_and_alone():
    """Rows are summed together with those that need as many nodes."""
    successes, failures, cavity = rows(1)
    together = tilted_moments(successes, failures, "logit", cavity)
    for i in range(0, successes.size, 17):
        one = np.array([i])
        alone = tilted_moments(successes[one], failures[one], "logit", cavity.rows(one))
        assert alone.mean[0] == pytest.approx(together.mean[i], rel=1e-12, abs=1e-12)
        assert alone.variance[0] == pytest.approx(together.variance[i], rel=1e-12)


@pytest.mark.parametrize("name", ["center", "precision", "slope"])
def test_what_is_not_a_number_is_left(name):
    given = {"center": np.zeros(3), "precision": np.ones(3), "slope": np.zeros(3)}
    given[name][1] = np.nan
    left = compiled_moments.moments(np.ones(3), np.zeros(3), Cavity(**given))[1]
    assert 1 in left


def test_flat_cavities_are_left():
    flat = Cavity(*np.zeros((3, 2)))
    left = compiled_moments.moments(np.array([3.0, 1.0]), np.array([5.0, 0.0]), flat)[1]
    np.testing.assert_array_equal(left, [0, 1])


def test_no_rows_have_no_moments():
    none = np.empty(0)
    found, left = compiled_moments.moments(none, none, normal_cavity(none, none))
    assert found.mean.size == left.size == 0


def test_strided_arrays_are_read_as_they_are():
    successes, failures, cavity = rows(1)
    strided = np.column_stack([successes, failures])
    plain = compiled_moments.moments(successes, failures, cavity)[0]
    found = compiled_moments.moments(strided[:, 0], strided[:, 1], cavity)[0]
    np.testing.assert_array_equal(found.mean[:5], plain.mean[:5])


def test_a_fit_is_that_of_numpy(monkeypatch):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((80, 4))
    trials = rng.integers(1, 4, 80)
    y = rng.binomial(trials, 1 / (1 + np.exp(-x[:, 0])))
    found = BayesRidge(y, x, family="binomial", trials=trials).fit()
    monkeypatch.setattr(compiled_moments, "built", lambda: None)
    wanted = BayesRidge(y, x, family="binomial", trials=trials).fit()
    sd = np.asarray(wanted.bse)
    assert (np.abs(np.asarray(found.params) - np.asarray(wanted.params)) / sd).max() <= FITS
    np.testing.assert_allclose(np.asarray(found.bse), sd, rtol=FITS)
