"""Yes/no responses where fits go wrong: offsets, copies, one value, many columns; coverage, and leave-one-out."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pybayesridge import BayesRidge
from tests.effort import THOROUGH, number, only_thorough

SAME = 1e-4
"""Relative to posterior standard deviations: fits stop at 1e-6 of them."""

OFFSET = 1e-3
"""The same for columns whose mean is 1e7 standard deviations: they have lost seven digits."""

COPIES = 4e-3
"""Copies of a row have a site each, a row of weight 3 has one: 3.4e-4 standard deviations is the most seen."""

LEFT_OUT = 0.02
"""Probability of a row by its cavity and by fitting the others: .004 is the most seen."""


def problem(n, p, seed, signal=1.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    eta = x @ rng.standard_normal(p) * signal / np.sqrt(p) + 0.3
    y = (rng.random(n) < expit(eta)).astype(float)
    y[:2] = 0.0, 1.0
    return x, y


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_extreme_offsets_of_columns_do_not_matter(method):
    x, y = problem(60, 3, 1)
    plain = BayesRidge(y, x, family="binomial").fit(method)
    shifted = BayesRidge(y, x + np.array([1e7, -1e5, 300.0]), family="binomial").fit(method)
    assert shifted.converged
    for name in ("params", "bse"):
        error = np.abs(getattr(shifted, name) - getattr(plain, name))[1:] / plain.bse[1:]
        assert error.max() <= OFFSET
    assert shifted.loo_log_score == pytest.approx(plain.loo_log_score, abs=OFFSET)
    np.testing.assert_allclose(shifted.fittedvalues, plain.fittedvalues, atol=OFFSET)


@pytest.mark.parametrize(("method", "tolerance"), [("laplace", SAME), ("ep", COPIES)])
def test_copies_of_rows_are_weights_are_trials(method, tolerance):
    x, y = problem(40, 3, 2)
    times = 1.0 + np.arange(40) % 3
    repeat = np.repeat(np.arange(40), times.astype(int))
    copied = BayesRidge(y[repeat], x[repeat], family="binomial").fit(method)
    weighted = BayesRidge(y, x, family="binomial", weights=times).fit(method)
    counted = BayesRidge(y * times, x, family="binomial", trials=times).fit(method)
    assert ((weighted.params - copied.params).abs() <= tolerance * copied.bse).all()
    assert ((counted.params - weighted.params).abs() <= SAME * copied.bse).all()
    assert weighted.n_trials == counted.n_trials == copied.n_trials == times.sum()
    np.testing.assert_allclose(weighted.bse, copied.bse, rtol=tolerance)
    assert weighted.loo_brier == pytest.approx(copied.loo_brier, abs=COPIES)


@pytest.mark.parametrize(
    ("endog", "options"),
    [
        (np.ones(6), {}),
        (np.zeros(6), {}),
        (np.full(6, False), {}),
        (["no"] * 6, {}),
        (pd.Categorical(["no"] * 6, categories=["no", "yes"]), {}),
        (np.full(6, 3.0), {"trials": np.full(6, 3.0)}),
        (np.zeros(6), {"trials": np.arange(1.0, 7.0)}),
    ],
)
def test_one_value_only_is_refused(endog, options):
    with pytest.raises(ValueError, match="a binomial model needs both outcomes"):
        BayesRidge(endog, np.random.default_rng(0).standard_normal((6, 2)), family="binomial", **options)


@pytest.mark.parametrize(("n", "p"), [(4, 3), (12, 400), (2, 5)])
def test_more_columns_than_rows_have_finite_intervals_and_probabilities(n, p):
    x, y = problem(n, p, 5)
    res = BayesRidge(y, x, family="binomial").fit()
    assert res.converged
    assert np.isfinite(res.params).all()
    assert np.isfinite(res.conf_int()).to_numpy().all()
    table = res.get_prediction(x[:2] * 3.0).summary_frame()
    assert ((table >= 0) & (table <= 1)).to_numpy().all()
    assert table["mean"].between(0.01, 0.99).all()
    assert np.isfinite(res.loo_log_score) == (min(y.sum(), n - y.sum()) > 1)


def test_leave_one_out_is_fitting_without_the_row():
    x, y = problem(30, 3, 6)
    res = BayesRidge(y, x, family="binomial").fit()
    for i in (0, 7, 19, 29):
        keep = np.arange(30) != i
        rest = BayesRidge(y[keep], x[keep], family="binomial").fit()
        assert res.loo_probabilities[i] == pytest.approx(rest.predict(x[[i]])[0], abs=LEFT_OUT)


def drawn_from_the_prior(n, p, rng):
    """Columns, responses and coefficients; the intercept is flat, and here it is 0 on average."""
    x = rng.standard_normal((n, p))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    while True:
        t = rng.beta(0.5, 0.5)
        t = t / (1.0 - t)
        b = rng.standard_normal(p) * np.sqrt(t * np.pi**2 / 3 / p)
        eta = x @ b + 0.5 * np.sqrt(1 + t) * rng.standard_normal()
        y = (rng.random(n) < expit(eta)).astype(float)
        if 2 <= y.sum() <= n - 2:
            return x, y, b


@only_thorough
def test_intervals_cover_coefficients_drawn_from_the_prior():
    """A short simulation-based calibration, ordinarily of Laplace's approximation, which is faster."""
    rng = np.random.default_rng(8)
    runs, p = number(150, 40), 3
    inside = np.zeros((runs, p, 2))
    for i in range(runs):
        x, y, b = drawn_from_the_prior(50, p, rng)
        res = BayesRidge(y, x, family="binomial").fit("ep" if THOROUGH else "laplace")
        for j, alpha in enumerate((0.5, 0.1)):
            ends = res.conf_int(alpha).to_numpy()[1:]
            inside[i, :, j] = (ends[:, 0] <= b) & (b <= ends[:, 1])
    # Coefficients of one fit go together: the standard errors count fits.
    for j, expected in enumerate((0.5, 0.9)):
        error = np.sqrt(expected * (1 - expected) / runs)
        assert inside[..., j].mean() == pytest.approx(expected, abs=4 * error)
