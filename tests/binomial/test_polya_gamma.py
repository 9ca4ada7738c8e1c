"""Pólya-Gamma draws beside their Laplace transform, mean and variance."""

import numpy as np
import pytest
from scipy.stats import norm

from pybayesridge.binomial import polya_gamma as module
from pybayesridge.binomial.polya_gamma import moments, polya_gamma, tail
from tests.effort import number

SERIES = 1e-9  # relative; worst seen 3e-11, where the variance's formula cancels
TRANSFORM = 1e-10  # of the log transform, for arguments up to 10 and |c| up to 20; worst seen 4e-12
Z = 4.5
DRAWS = number(200_000, 20_000)


def log_transform(b, c, s):
    """Log E exp(-s PG(b, c)), from b copies of cosh(c / 2) / cosh(sqrt((c² / 2 + s) / 2))."""

    def log_cosh(x):
        return np.logaddexp(x, -x) - np.log(2)

    return b * (log_cosh(np.abs(c) / 2) - log_cosh(np.sqrt((c**2 / 2 + s) / 2)))


@pytest.mark.parametrize("c", [0.0, 1e-6, 0.02, 0.049, 0.051, 1.0, -3.0, 30.0, 400.0])
def test_moments_are_those_of_the_sum(c):
    k = np.arange(1, 2_000_001) - 0.5
    scale = 1 / (2 * np.pi**2 * (k**2 + (c / (2 * np.pi)) ** 2))
    rest = 1 / (2 * np.pi**2 * (k[-1] + 0.5))
    mean, variance = moments(np.array([1.7]), np.array([c]))
    assert np.isclose(mean[0], 1.7 * (scale.sum() + rest), rtol=SERIES)
    assert np.isclose(variance[0], 1.7 * (scale**2).sum(), rtol=SERIES)


@pytest.mark.parametrize("c", [0.0, 9e-5, 0.02, 0.049, 0.051, 0.5, 3.0, 10.0, 20.0])
def test_rest_of_the_sum_has_nearly_its_law(c):
    b = np.array([2.5])
    scale, shape, unit = tail(b, np.array([c]), 64)
    for s in (0.1, 1.0, 10.0):
        found = -(b[0] * np.log1p(s * scale[:, 0])).sum() - shape[0] * np.log1p(s * unit[0])
        assert abs(found - log_transform(b[0], c, s)) < TRANSFORM * b[0]


NEAR, FAR = (3.0, 1e-4), (7.0, 2e-3)  # standard deviations of a step, and errors; worst seen 1.0e-4 and 1.3e-3


@pytest.mark.parametrize("b", [0.0, 2.0, 5.0, 30.0, 1000.0, 40_000.0])
def test_few_terms_are_enough_for_the_steps_that_are_taken(b):
    """The ratio of densities of a step from c to d and back, d within some 1 / sqrt(w) of c."""
    least = max(b, 0.2)
    for c in np.linspace(0.0, 20.0, 41):
        terms = next(terms for low, high, terms in module.TERMS if least >= low and c <= high)
        scale, shape, unit = tail(np.array([least]), np.array([c]), terms)
        for reach, error in (NEAR, FAR):
            far = reach / np.sqrt(moments(np.array([least]), np.array([c]))[0][0])
            for to in np.linspace(c - far, c + far, 21):
                s = (to**2 - c**2) / 2
                found = -(least * np.log1p(s * scale[:, 0])).sum() - shape[0] * np.log1p(s * unit[0])
                truth = least * (np.logaddexp(c / 2, -c / 2) - np.logaddexp(to / 2, -to / 2))
                assert abs(found - truth) < error


@pytest.mark.parametrize("b", [1.0, 0.3, 2.0, 40.0, 3000.0])
@pytest.mark.parametrize("c", [0.0, 1.0, 4.0, -15.0, 120.0])
def test_draws_have_mean_variance_and_transform(b, c):
    rng = np.random.default_rng(1)
    drawn = polya_gamma(np.full(DRAWS, b), np.full(DRAWS, c), rng)
    assert drawn.min() > 0
    mean, variance = (part[0] for part in moments(np.array([b]), np.array([c])))
    assert abs(drawn.mean() - mean) < Z * np.sqrt(variance / DRAWS)
    square = (drawn - mean) ** 2
    assert abs(square.mean() - variance) < Z * square.std() / np.sqrt(DRAWS)
    for s in (0.5 / mean, 3.0 / mean):
        values = np.exp(-s * drawn)
        assert abs(values.mean() - np.exp(log_transform(b, c, s))) < Z * values.std() / np.sqrt(DRAWS)


def test_both_methods_draw_the_same_law():
    rng = np.random.default_rng(2)
    c = np.full(DRAWS, 2.0)
    exact = polya_gamma(np.ones(DRAWS), c, rng)
    by_terms = module._by_terms(np.ones(DRAWS), c, rng)
    at = np.quantile(exact, [0.01, 0.1, 0.5, 0.9, 0.99])
    for point in at:
        one, two = (exact < point).mean(), (by_terms < point).mean()
        error = np.sqrt((one * (1 - one) + two * (1 - two)) / DRAWS)
        assert abs(one - two) < norm.isf(1e-6) * error


def test_rows_keep_their_own_law():
    rng = np.random.default_rng(3)
    b, c = np.tile([1.0, 3.0, 1.0, 0.5], 5000), np.tile([0.0, 2.0, 9.0, 1.0], 5000)
    drawn = polya_gamma(b, c, rng).reshape(-1, 4)
    mean, variance = moments(b[:4], c[:4])
    assert np.abs((drawn.mean(axis=0) - mean) / np.sqrt(variance / 5000)).max() < Z


@pytest.mark.parametrize("c", [np.nan, np.inf, -1e200])
def test_what_has_no_draws_is_refused(c):
    with pytest.raises(ValueError, match="leaves the range of floats"):
        polya_gamma(np.ones(2), np.array([0.3, c]), np.random.default_rng(0))
