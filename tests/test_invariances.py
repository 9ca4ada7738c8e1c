"""What must not change, and what must change in step, when the data are written down differently."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pybayesridge import BayesRidge
from tests.effort import number
from tests.problems import regression

LOG_LAMBDA = 1e-8
"""Log lambda of two fits of the same problem in other units."""

IN_SD = 1e-7
"""Coefficients beside their standard deviations; the deviations themselves."""

SHIFTED = 1e-6
"""The same where a shift has cost digits of the input."""

settings.register_profile("pybayesridge", max_examples=number(25, 10), deadline=None, derandomize=True)
settings.load_profile("pybayesridge")

SHAPES = st.sampled_from([(30, 1), (40, 4), (25, 20), (12, 12), (12, 30)])
SEEDS = st.integers(0, 10_000)


@st.composite
def problems(draw):
    """A regression with an interior mode, and how it is modelled."""
    n, p = draw(SHAPES)
    seed = draw(SEEDS)
    y, x = regression(n, p, seed=seed, noise=0.4)
    options = {}
    if draw(st.booleans()):
        options["weights"] = np.random.default_rng(seed).uniform(0.3, 4, n)
    if p > 2 and draw(st.booleans()):
        options["unpenalized"] = [p - 1]
    return y, x, options


def fit(y, x, options, **how):
    """The fit, or a rejected example where noise has won."""
    with np.errstate(all="raise", under="ignore"):
        model = BayesRidge(y, x, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            res = model.fit(**how)
    assume(0 < res.lambda_ < np.inf)
    return res


def assert_same_fit(res, plain, unit=1.0, *, order=None, tol=IN_SD):
    """`res` is `plain` with its coefficients multiplied by `unit` and taken in `order`."""
    b, sd = (np.asarray(v) if order is None else np.asarray(v)[order] for v in (plain.params, plain.bse))
    assert abs(np.log(res.lambda_ / plain.lambda_)) < max(LOG_LAMBDA, tol)
    assert res.n_modes == plain.n_modes
    assert (np.abs(res.params / unit - b) / sd).max() < tol
    assert np.abs(res.bse / unit / sd - 1).max() < tol
    assert np.abs(res.df_model - plain.df_model) < tol * len(b)
    assert abs(res.rsquared - plain.rsquared) < tol


@given(problems(), st.sampled_from([-100, -37, -3, 3, 37, 100]), st.booleans())
def test_scale_of_y(problem, power, negative):
    y, x, options = problem
    unit = (-1 if negative else 1) * 10.0**power
    plain, res = fit(y, x, options), fit(y * unit, x, options)
    assert abs(np.log(res.lambda_ / plain.lambda_)) < LOG_LAMBDA
    assert (np.abs(res.params / unit - plain.params) / plain.bse).max() < IN_SD
    np.testing.assert_allclose(res.bse / abs(unit), plain.bse, rtol=IN_SD)
    assert np.sqrt(res.sigma2) / abs(unit) == pytest.approx(np.sqrt(plain.sigma2), rel=IN_SD)
    interval = np.sort(res.conf_int().to_numpy() / unit, axis=1)
    assert (np.abs(interval - plain.conf_int()).max(axis=1) / plain.bse).max() < IN_SD
    frame, own = (r.get_prediction(x[:3]).summary_frame() for r in (res, plain))
    assert np.abs((frame["mean"] / unit - own["mean"]) / own["mean_se"]).max() < IN_SD
    widths = [(f["obs_ci_upper"] - f["obs_ci_lower"]).to_numpy() for f in (frame, own)]
    np.testing.assert_allclose(widths[0] / abs(unit), widths[1], rtol=IN_SD)
    assert "lambda" in str(res.summary())


@given(problems(), st.sampled_from([-100, -37, -3, 3, 37, 100]), st.integers(0, 29), st.booleans())
def test_scale_of_a_column(problem, power, column, negative):
    y, x, options = problem
    column %= x.shape[1]
    unit = np.ones(x.shape[1])
    unit[column] = (-1 if negative else 1) * 10.0**power
    plain, res = fit(y, x, options), fit(y, x * unit, options)
    back = np.r_[1.0, unit]
    assert abs(np.log(res.lambda_ / plain.lambda_)) < LOG_LAMBDA
    assert (np.abs(res.params * back - plain.params) / plain.bse).max() < IN_SD
    np.testing.assert_allclose(res.bse * np.abs(back), plain.bse, rtol=IN_SD)
    np.testing.assert_allclose(res.fittedvalues, plain.fittedvalues, rtol=0, atol=IN_SD * np.abs(y).max())
    assert (np.abs(res.get_prediction(x[:3] * unit).se / plain.get_prediction(x[:3]).se - 1)).max() < IN_SD


@given(problems(), st.sampled_from([-100, -50, 50, 100]), st.sampled_from([-100, 0, 100]))
def test_scale_of_everything(problem, power, y_power):
    y, x, options = problem
    plain, res = fit(y, x, options), fit(y * 10.0**y_power, x * 10.0**power, options)
    with np.errstate(over="ignore"):
        assert abs(np.log(res.lambda_ / plain.lambda_)) < LOG_LAMBDA
        slopes = res.params.iloc[1:] * 10.0 ** (power - y_power)
    assert (np.abs(slopes - plain.params.iloc[1:]) / plain.bse.iloc[1:]).max() < IN_SD


@given(problems(), st.sampled_from([-100, -3, 3, 100]))
def test_own_scale_carries_over_to_lambda(problem, power):
    y, x, options = problem
    options = options | {"standardize": False, "intercept": True}
    # A prior that is flat in log tau2 over the range has no unit of its own; the half-Cauchy's is 1.
    plain = fit(y, x, options, method="fixed", lam=2.0)
    res = fit(y, x * 10.0**power, options, method="fixed", lam=2.0 * 10.0 ** (2 * power))
    back = np.r_[1.0, np.full(x.shape[1], 10.0**power)]
    assert (np.abs(res.params * back - plain.params) / plain.bse).max() < IN_SD
    np.testing.assert_allclose(res.bse * back, plain.bse, rtol=IN_SD)


@given(problems(), st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))
def test_shifts(problem, of_y, of_x):
    y, x, options = problem
    plain, res = fit(y, x, options), fit(y + of_y, x + of_x, options)
    assert abs(np.log(res.lambda_ / plain.lambda_)) < SHIFTED
    assert (np.abs(res.params - plain.params).iloc[1:] / plain.bse.iloc[1:]).max() < SHIFTED
    np.testing.assert_allclose(res.bse.iloc[1:], plain.bse.iloc[1:], rtol=SHIFTED)
    size = np.abs(plain.fittedvalues).max()
    np.testing.assert_allclose(res.fittedvalues - of_y, plain.fittedvalues, rtol=0, atol=SHIFTED * size)
    own, shifted = (r.get_prediction(a[:3]).se for r, a in ((plain, x), (res, x + of_x)))
    np.testing.assert_allclose(shifted, own, rtol=SHIFTED)


@given(problems(), SEEDS)
def test_order_of_rows(problem, seed):
    y, x, options = problem
    order = np.random.default_rng(seed).permutation(len(y))
    moved = options | ({"weights": options["weights"][order]} if "weights" in options else {})
    plain, res = fit(y, x, options), fit(y[order], x[order], moved)
    assert_same_fit(res, plain)
    np.testing.assert_allclose(res.fittedvalues, plain.fittedvalues.to_numpy()[order], rtol=0, atol=1e-8)


@given(problems(), SEEDS)
def test_order_of_columns(problem, seed):
    y, x, options = problem
    order = np.random.default_rng(seed).permutation(x.shape[1])
    moved = dict(options)
    if "unpenalized" in options:
        moved["unpenalized"] = [int(np.flatnonzero(order == options["unpenalized"][0])[0])]
    plain, res = fit(y, x, options), fit(y, x[:, order], moved)
    full = np.r_[0, 1 + order]
    assert_same_fit(res, plain, order=full)
    own = plain.cov_params().to_numpy()[np.ix_(full, full)]
    np.testing.assert_allclose(res.cov_params(), own, rtol=0, atol=IN_SD * np.abs(own).max())


@given(problems(), st.sampled_from([1e-100, 1e-3, 7.0, 1e100]))
def test_unit_of_the_weights(problem, unit):
    y, x, options = problem
    weights = options.get("weights", np.ones(len(y)))
    plain = fit(y, x, options)
    res = fit(y, x, options | {"weights": weights * unit})
    assert_same_fit(res, plain)
    assert res.sigma2 == pytest.approx(plain.sigma2, rel=IN_SD)
    own, other = (r.get_prediction().summary_frame() for r in (plain, res))
    np.testing.assert_allclose(other, own, rtol=0, atol=IN_SD * np.abs(own.to_numpy()).max())
    new = plain.get_prediction(x[:2], weights=[1.0, 2.0]).var_resid
    np.testing.assert_allclose(res.get_prediction(x[:2], weights=[unit, 2.0 * unit]).var_resid, new, rtol=IN_SD)


@given(problems(), SEEDS, st.sampled_from([0.1, 3.0, 100.0]))
def test_row_given_twice_counts_twice(problem, seed, lam):
    y, x, options = problem
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 4, len(y))
    weights = options.get("weights", np.ones(len(y)))
    # Standardised columns have the same penalty in units of the sum of the weights.
    model = options | {"standardize": False}
    twice = fit(
        np.repeat(y, times),
        np.repeat(x, times, axis=0),
        model | {"weights": np.repeat(weights, times)},
        method="fixed",
        lam=lam,
    )
    ratio = (weights * times).mean() / np.repeat(weights, times).mean()
    heavy = fit(y, x, model | {"weights": weights * times}, method="fixed", lam=lam / ratio)
    sd = heavy.bse
    assert (np.abs(twice.params - heavy.params) / sd).max() < IN_SD


@given(problems(), SEEDS)
def test_row_given_twice_counts_twice_in_the_scale(problem, seed):
    y, x, options = problem
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    options = {key: value for key, value in options.items() if key != "weights"}
    # sum(w) = n for both, so that a penalty on the standardised scale has another unit.
    heavy = fit(y, x, options | {"weights": times}, method="fixed", lam=1.0)
    twice = fit(np.repeat(y, times), np.repeat(x, times, axis=0), options, method="fixed", lam=times.mean())
    assert (np.abs(twice.params - heavy.params) / heavy.bse).max() < IN_SD


@given(problems(), SEEDS)
def test_weights_of_one_are_no_weights(problem, seed):
    y, x, options = problem
    options = {key: value for key, value in options.items() if key != "weights"}
    assert_same_fit(fit(y, x, options | {"weights": np.full(len(y), 3)}), fit(y, x, options))


@given(problems())
def test_linear_combinations_of_unpenalised_columns_change_nothing_else(problem):
    y, x, options = problem
    assume(x.shape[1] > 3)
    options = options | {"unpenalized": [0, 1]}
    mixed = x.copy()
    mixed[:, 0] = 3 * x[:, 0] - 2 * x[:, 1] + 5
    mixed[:, 2] = x[:, 2]
    plain, res = fit(y, x, options), fit(y, mixed, options)
    assert abs(np.log(res.lambda_ / plain.lambda_)) < LOG_LAMBDA
    np.testing.assert_allclose(res.params.iloc[3:], plain.params.iloc[3:], rtol=0, atol=1e-6 * plain.bse.max())
    np.testing.assert_allclose(res.fittedvalues, plain.fittedvalues, rtol=0, atol=1e-7 * np.abs(y).max())


@given(problems(), st.floats(-50, 50))
def test_adding_unpenalised_columns_to_y_moves_their_coefficients_alone(problem, amount):
    y, x, options = problem
    assume(x.shape[1] > 2)
    options = options | {"unpenalized": [0]}
    plain, res = fit(y, x, options), fit(y + amount * x[:, 0], x, options)
    moved = np.zeros(x.shape[1] + 1)
    moved[1] = amount
    assert abs(np.log(res.lambda_ / plain.lambda_)) < SHIFTED
    assert (np.abs(res.params - plain.params - moved) / plain.bse).max() < SHIFTED
    np.testing.assert_allclose(res.bse, plain.bse, rtol=SHIFTED)
