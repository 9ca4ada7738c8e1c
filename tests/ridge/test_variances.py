"""Standard deviations that little carries: tails of tau2, directions next to none, rows next to the row space."""

import numpy as np
import pytest

from pybayesridge import BayesRidge
from tests.fuzz.linear_algebra import ENOUGH
from tests.fuzz.oracle import Oracle

pytestmark = pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision: no oracle")

CLOSE = 1e-7
"""Ten times the largest error seen, relative; before, 1e-5 to 1."""

LAST_PLACES = 6e-14
"""Ten times the largest error seen, relative to a length of 1."""

PENALTY = {"exact": {}, "fixed": {"lam": 1e-4}}


def steep(n, p, digits, seed=0):
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((m, n)))[0] for m in (n, p))
    return (u * np.logspace(0, -digits, n)) @ v.T


def exact_sd(oracle, prior, rows=None):
    options = {"prior": prior, "sigma2": None, "count": oracle.nu}
    mixture, _ = oracle.exact(0, options)
    z, x = rows if rows is not None else (np.eye(oracle.p + 1)[:, :1], np.eye(oracle.p + 1)[:, 1:])
    return oracle.sd(oracle.functionals(z, x, 0), mixture, 0).astype(float)


def oracle_of(y, x, **options):
    return Oracle(y[:, None], np.ones((len(y), 1)), x, constant=0, **options)


@pytest.mark.parametrize("prior", [(0.5, 0.5), (1.5, 0.5), (0.2, 0.1)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(5, 13), (4, 4)])
def test_quadrature_of_the_variance_of_weak_directions(prior, seed, shape):
    x = steep(*shape, 8, seed)
    y = np.random.default_rng(seed).standard_normal(shape[0])
    found = BayesRidge(y, x, prior=prior).fit("exact").bse
    np.testing.assert_allclose(found, exact_sd(oracle_of(y, x), prior), rtol=CLOSE)


@pytest.mark.parametrize("shape", [(8, 7), (8, 8), (30, 4)])
@pytest.mark.parametrize("b", [0.5, 1.0])
def test_tail_of_tau2_where_columns_are_tiny(shape, b):
    # All variance comes from tau2 around 1e200, of which the prior leaves a probability of 1e-100.
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(shape) * 1e-100, rng.standard_normal(shape[0])
    found = BayesRidge(y, x, prior=(1.0, b), standardize=False).fit("exact").bse
    np.testing.assert_allclose(found, exact_sd(oracle_of(y, x, standardize=False), (1.0, b)), rtol=CLOSE)


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
def test_rows_next_to_the_row_space():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((12, 14)) + 10.0 ** rng.uniform(4, 6, 14)
    y = x @ rng.standard_normal(14)
    new = x[:3] + 0.1 * rng.standard_normal((3, 14))
    oracle = Oracle(y[:, None], np.empty((12, 0)), x)
    size = float(oracle.s[0] ** 2)
    found = BayesRidge(y, x, intercept=False).fit("fixed", lam=1e-17 * size).get_prediction(new).se
    mixture = oracle.given(1e-17 * size, 0, {"sigma2": None, "count": 12})
    wanted = oracle.sd(oracle.functionals(np.empty((3, 0)), new, 0), mixture, 0).astype(float)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("lam", [1e-6, 1e-4])
def test_directions_that_the_products_of_rows_lose(lam):
    x = steep(12, 14, 14, seed=3)
    y = np.random.default_rng(3).standard_normal(12)
    oracle = oracle_of(y, x)
    penalty = lam * float(oracle.s[0] ** 2)
    found = BayesRidge(y, x).fit("fixed", lam=penalty)
    mixture = oracle.given(penalty, 0, {"sigma2": None, "count": 11})
    f = oracle.functionals(np.eye(15)[:, :1], np.eye(15)[:, 1:], 0)
    mean, sd = oracle.mean(f, mixture, 0).astype(float), oracle.sd(f, mixture, 0).astype(float)
    np.testing.assert_allclose((found.params - mean) / sd, 0, atol=CLOSE)
    np.testing.assert_allclose(found.bse, sd, rtol=CLOSE)


def near_duplicates(shape, apart, seed):
    """Of which two are the same up to a share: all others have next to nothing outside the row space."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    x[:, -1] = x[:, 0] + apart * rng.standard_normal(shape[0])
    return x, rng.standard_normal(shape[0])


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("apart", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("shape", [(8, 8), (3, 3), (9, 10)])
def test_columns_next_to_the_row_space_where_tau2_is_huge(shape, apart):
    for seed in range(4):
        x, y = near_duplicates(shape, apart, seed)
        x *= 1e100
        fitted = BayesRidge(y, x, prior="half-cauchy", standardize=False, sigma2=1.0).fit("exact")
        oracle = oracle_of(y, x, standardize=False)
        mixture, _ = oracle.exact(0, {"prior": "half-cauchy", "sigma2": 1.0, "count": oracle.nu})
        f = oracle.functionals(np.eye(oracle.p + 1)[:, :1], np.eye(oracle.p + 1)[:, 1:], 0)
        wanted = oracle.sd(f, mixture, 0).astype(float)
        # What is outside has a length of the order of that share, known up to rounding errors.
        np.testing.assert_allclose(fitted.bse, wanted, rtol=CLOSE + LAST_PLACES / apart)


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("shape", [(8, 8), (9, 10)])
def test_covariances_of_columns_next_to_the_row_space(shape):
    x, y = near_duplicates(shape, 1e-6, 0)
    oracle = oracle_of(y, x)
    fitted = BayesRidge(y, x).fit("fixed", lam=1e-14)
    mixture = oracle.given(1e-14, 0, {"sigma2": None, "count": oracle.nu})
    f = oracle.functionals(np.eye(oracle.p + 1)[:, :1], np.eye(oracle.p + 1)[:, 1:], 0)
    wanted = oracle.sd(f, mixture, 0).astype(float)
    np.testing.assert_allclose(fitted.bse, wanted, rtol=CLOSE)
    np.testing.assert_allclose(np.sqrt(np.diag(fitted.cov_params())), wanted, rtol=CLOSE)


@pytest.mark.parametrize("method", ["exact", "fixed"])
def test_unpenalised_columns_with_a_large_mean_among_more_columns_than_rows(method):
    # What they take from the others is sharp although the columns' singular values are not: it has to come out so.
    rng = np.random.default_rng(4)
    x = rng.standard_normal((10, 30)) + 10.0 ** rng.uniform(1, 7, 30)
    y = (x - x.mean(axis=0)) @ rng.standard_normal(30) + 1
    fitted = BayesRidge(y, x, intercept=False, unpenalized=[6, 20]).fit(method, **PENALTY[method])
    free = np.isin(np.arange(30), [6, 20])
    oracle = Oracle(y[:, None], x[:, free], x[:, ~free])
    given = {"prior": "r2", "sigma2": None, "count": 8}
    mixture = oracle.exact(0, given)[0] if method == "exact" else oracle.given(1e-4, 0, given)

    def off(found, rows):
        f = oracle.functionals(rows[:, free], rows[:, ~free], 0)
        mean, sd = oracle.mean(f, mixture, 0).astype(float), oracle.sd(f, mixture, 0).astype(float)
        return np.abs((found - mean) / sd).max()

    new = x[:3] + 0.5 * rng.standard_normal((3, 30))
    prediction = fitted.get_prediction(new)
    assert off(fitted.params, np.eye(30)) < CLOSE
    assert off(prediction.predicted_mean, new) < CLOSE
    if method == "fixed":
        assert off(prediction.conf_int().mean(axis=1), new) < CLOSE


def test_intervals_of_rows_where_the_mean_lies_far_out_in_the_tail():
    # Nearly all of the mean comes from a tau2 that has next to no probability: rounding errors of the one are more
    # than the width of the interval.
    for shape in ((53, 1), (6, 9)):
        rng = np.random.default_rng(5)
        x, y = rng.standard_normal(shape) * 1e-100, rng.standard_normal(shape[0])
        model = BayesRidge(y, x, intercept=False, prior=(0.2, 0.1), standardize=False)
        oracle = Oracle(y[:, None], np.empty((shape[0], 0)), x, standardize=False)
        mixture, _ = oracle.exact(0, {"prior": (0.2, 0.1), "sigma2": None, "count": shape[0]})
        f = oracle.functionals(np.empty((3, 0)), x[:3], 0)
        found = model.fit("exact").get_prediction(x[:3]).conf_int()
        ends = [oracle.quantiles(f, mixture, 0, share, found[:, i]) for i, share in enumerate((0.025, 0.975))]
        wanted = np.stack(ends, axis=1).astype(float)
        np.testing.assert_allclose((found - wanted) / np.diff(wanted, axis=1), 0, atol=CLOSE)
