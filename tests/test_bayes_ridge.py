"""BayesRidge against brute force, and every degenerate case."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, stats
from scipy.linalg import block_diag

from pybayesridge import BayesRidge, DegenerateFitWarning, PrecisionWarning, SpikeSlab
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.spectrum import rotate
from pybayesridge.text import NO_VARIANCE
from tests.dense_posterior import DensePosterior
from tests.oracle import Oracle
from tests.problems import CASES, Case, regression

MODE = 1e-9
"""Log lambda at the mode; the oracle's dense algebra is good to about 1e-11."""

GIVEN_LAMBDA = 1e-10
"""What follows from lambda by direct formulas; relative to the largest of its kind."""

SAME_ARITHMETIC = 1e-12
"""The same numbers by another layout or dtype of the input."""

LARGE_MEAN = 1e-8
"""Columns of mean 1e6 sd: the input itself has lost six digits."""

SVD_ROUTE = 1e-6
"""Nearly singular problems, where the oracle's normal equations have few digits left."""

DIRECTION = 1e-9
"""X'X beside the SVD, with one direction of X a millionth of the others."""

ALPHA = 0.1


def relative(actual, wanted):
    """Largest error beside the largest value."""
    return np.abs(np.asarray(actual) - wanted).max() / np.abs(wanted).max()


def covariance(case, res):
    """The oracle's posterior covariance at the fitted lambda, in the order of the model."""
    oracle = case.oracle()
    scale2 = oracle.sigma2 or oracle.rss(np.log(res.tau2)) / (oracle.count + 2)
    return scale2 * oracle.unit_covariance(res.lambda_)[np.ix_(case.order, case.order)]


@pytest.fixture(scope="module", params=CASES, ids=list(CASES))
def fitted(request):
    case = CASES[request.param]
    return case, case.results()


def test_mode(fitted):
    case, res = fitted
    assert abs(np.log(res.tau2) - case.oracle().mode()) < MODE
    assert res.lambda_ == pytest.approx(1 / res.tau2, rel=1e-15)
    assert res.converged


def test_number_of_modes(fitted):
    case, res = fitted
    assert res.n_modes == len(case.oracle().modes())


def test_coefficients(fitted):
    case, res = fitted
    wanted = case.oracle().coefficients(res.lambda_)[case.order]
    # Each coefficient beside its own standard deviation: columns differ in scale.
    assert (np.abs(res.params - wanted) / res.bse).max() < GIVEN_LAMBDA


def test_sigma2(fitted):
    case, res = fitted
    oracle = case.oracle()
    wanted = oracle.sigma2 or oracle.rss(np.log(res.tau2)) / (oracle.count + 2)
    assert res.sigma2 == pytest.approx(wanted, rel=GIVEN_LAMBDA)


def test_covariance_of_all_coefficients(fitted):
    case, res = fitted
    wanted = covariance(case, res)
    unit = np.sqrt(np.diag(wanted))
    assert relative(res.cov_params() / np.outer(unit, unit), wanted / np.outer(unit, unit)) < GIVEN_LAMBDA
    assert (np.abs(res.bse / unit - 1)).max() < GIVEN_LAMBDA
    np.testing.assert_allclose(res.posterior_var, res.bse**2, rtol=SAME_ARITHMETIC)


def test_credible_intervals_at_the_mode_are_normal(fitted):
    case, res = fitted
    sd = np.sqrt(np.diag(covariance(case, res)))
    half = stats.norm.ppf(1 - ALPHA / 2) * sd
    interval = res.conf_int(ALPHA).to_numpy()
    wanted = np.stack([res.params - half, res.params + half], axis=1)
    assert (np.abs(interval - wanted) / sd[:, None]).max() < GIVEN_LAMBDA


def test_predictions_of_new_rows(fitted):
    case, res = fitted
    rows = 2 * regression(7, case.p, seed=99)[1]
    z, x = case.split(rows)
    oracle = case.oracle()
    both = np.hstack([z, x])
    scale2 = oracle.sigma2 or oracle.rss(np.log(res.tau2)) / (oracle.count + 2)
    variance = scale2 * np.einsum("ij,jk,ik->i", both, oracle.unit_covariance(res.lambda_), both)
    mean = both @ oracle.coefficients(res.lambda_)
    frame = res.get_prediction(rows).summary_frame(ALPHA)
    assert list(frame) == ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper"]
    sd, obs = np.sqrt(variance), np.sqrt(variance + scale2)
    quantile = stats.norm.ppf(1 - ALPHA / 2)
    wanted = [mean, sd, mean - quantile * sd, mean + quantile * sd, mean - quantile * obs, mean + quantile * obs]
    assert (np.abs(frame.to_numpy() - np.column_stack(wanted)) / sd[:, None]).max() < GIVEN_LAMBDA
    np.testing.assert_allclose(res.predict(rows), frame["mean"], rtol=0, atol=GIVEN_LAMBDA * np.abs(mean).max())


def test_predictions_of_the_own_rows_know_their_weights(fitted):
    case, res = fitted
    own = res.get_prediction()
    weights = case.weights()
    factor = np.ones(case.n) if weights is None else weights.mean() / weights
    np.testing.assert_allclose(own.predicted_mean, res.fittedvalues, rtol=GIVEN_LAMBDA)
    quantile = stats.norm.ppf(1 - ALPHA / 2)
    width = np.sqrt(own.se**2 + res.sigma2 * factor) * quantile
    frame = own.summary_frame(ALPHA)
    np.testing.assert_allclose(frame["obs_ci_upper"] - frame["mean"], width, rtol=GIVEN_LAMBDA)


def test_effective_degrees_of_freedom(fitted):
    case, res = fitted
    oracle = case.oracle()
    both = np.hstack([oracle.zw, oracle.xw])
    hat = np.trace(np.linalg.solve(oracle.precision(res.lambda_), both.T @ both))
    assert res.df_model == pytest.approx(hat - case.intercept, rel=GIVEN_LAMBDA)
    assert res.df_resid == pytest.approx(case.n - hat, rel=GIVEN_LAMBDA)


def test_fitted_values_and_rsquared(fitted):
    case, res = fitted
    y, x = case.arrays()
    z, rest = case.split(x)
    fit = np.hstack([z, rest]) @ case.oracle().coefficients(res.lambda_)
    w = np.ones(case.n) if case.weights() is None else case.weights()
    center = np.average(y, weights=w) if case.intercept else 0.0
    wanted = 1 - (w @ (y - fit) ** 2) / (w @ (y - center) ** 2)
    assert relative(res.fittedvalues, fit) < GIVEN_LAMBDA
    np.testing.assert_allclose(res.resid, y - res.fittedvalues, rtol=SAME_ARITHMETIC)
    assert res.rsquared == pytest.approx(wanted, abs=GIVEN_LAMBDA)
    assert res.nobs == case.n


@pytest.mark.parametrize("lam", [0.3, 50.0, 1e4])
@pytest.mark.parametrize(
    "name", ["tall", "wide", "square", "unpenalized-weights", "no-intercept", "own-scale", "paper", "sigma2"]
)
def test_fixed_penalty_integrates_sigma_out(name, lam):
    case = CASES[name]
    dof = case.fit.get("dof", "nu")
    y, x = case.arrays()
    model = BayesRidge(y, x, weights=case.weights(), unpenalized=list(case.unpenalized), **case.options)
    res = model.fit(method="fixed", lam=lam, dof=dof)
    oracle = case.oracle()
    df = np.inf if oracle.sigma2 else oracle.count
    scale2 = oracle.sigma2 or oracle.rss(-np.log(lam)) / df
    mean_sigma2 = oracle.sigma2 or scale2 * df / (df - 2)
    unit = oracle.unit_covariance(lam)[np.ix_(case.order, case.order)]
    wanted = oracle.coefficients(lam)[case.order]
    assert (np.abs(res.params - wanted) / res.bse).max() < GIVEN_LAMBDA
    assert res.sigma2 == pytest.approx(mean_sigma2, rel=GIVEN_LAMBDA)
    np.testing.assert_allclose(res.bse, np.sqrt(mean_sigma2 * np.diag(unit)), rtol=GIVEN_LAMBDA)
    half = stats.t.ppf(1 - ALPHA / 2, df) * np.sqrt(scale2 * np.diag(unit))
    np.testing.assert_allclose(res.conf_int(ALPHA)[1] - res.params, half, rtol=GIVEN_LAMBDA)
    assert (res.lambda_, res.tau2) == pytest.approx((lam, 1 / lam), rel=1e-14)
    rows = x[:3] + 1.0
    both = np.hstack(case.split(rows))
    variance = scale2 * np.einsum("ij,jk,ik->i", both, oracle.unit_covariance(lam), both)
    frame = res.get_prediction(rows).summary_frame(ALPHA)
    obs = stats.t.ppf(1 - ALPHA / 2, df) * np.sqrt(variance + scale2)
    np.testing.assert_allclose(frame["obs_ci_upper"] - frame["mean"], obs, rtol=GIVEN_LAMBDA)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_penalty_is_least_squares(weighted, intercept):
    case = Case(40, 5, weighted=weighted)
    y, x = case.arrays()
    w = np.ones(40) if case.weights() is None else case.weights()
    ols = sm.WLS(y, sm.add_constant(x) if intercept else x, weights=w).fit()
    res = BayesRidge(y, x, weights=w, intercept=intercept).fit(method="fixed", lam=0)
    assert (np.abs(res.params - ols.params) / ols.bse).max() < GIVEN_LAMBDA
    # The prior of b is on the scale of sigma, so that sigma has nu degrees of freedom however flat it is.
    nu = 40 - intercept
    np.testing.assert_allclose(res.bse, ols.bse * np.sqrt(ols.df_resid / (nu - 2)), rtol=GIVEN_LAMBDA)
    assert res.df_model == pytest.approx(ols.df_model, rel=GIVEN_LAMBDA)
    assert res.rsquared == pytest.approx(ols.rsquared, rel=GIVEN_LAMBDA)


def test_no_penalty_needs_independent_columns():
    y, x = regression(30, 4)
    with pytest.raises(ValueError, match=r"lam=0 needs columns that are linearly independent.*rank is 4 for 5"):
        BayesRidge(y, np.column_stack([x, x[:, 0]])).fit(method="fixed", lam=0)
    y, x = regression(10, 20)
    with pytest.raises(ValueError, match="linearly independent"):
        BayesRidge(y, x).fit(method="fixed", lam=0)


def test_two_degrees_of_freedom_give_intervals_but_no_variance():
    y, x = regression(3, 1)
    res = BayesRidge(y, x).fit(method="fixed", lam=1.0)
    assert np.isinf(res.bse).all()
    assert np.isinf(res.sigma2)
    oracle = Oracle(y, np.ones((3, 1)), x)
    sd = np.sqrt(oracle.rss(0.0) / 2 * np.diag(oracle.unit_covariance(1.0)))
    np.testing.assert_allclose(res.conf_int(ALPHA)[1] - res.params, stats.t.ppf(1 - ALPHA / 2, 2) * sd, rtol=1e-10)
    frame = res.get_prediction(x).summary_frame()
    assert np.isfinite(frame[["mean_ci_lower", "obs_ci_upper"]]).all(axis=None)
    text = " ".join(str(res.summary()).split())
    assert "sigma: –" in text
    assert NO_VARIANCE in text


def test_many_means_in_closed_form():
    # Appendix A: X = I, known noise variance 1: b = (1 - kappa) y with kappa = (p + 2) / ||y||^2.
    y = np.random.default_rng(0).normal(3.0, 1.0, 20)
    model = BayesRidge(y, np.eye(20), intercept=False, standardize=False, sigma2=1.0, prior="half-cauchy")
    res = model.fit("em", parameterization="tau")
    kappa = 22 / (y @ y)
    np.testing.assert_allclose(res.params, (1 - kappa) * y, rtol=1e-12)
    assert res.sigma2 == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("shape", [(50, 6), (20, 45)])
@pytest.mark.parametrize("options", [{}, {"weights": True}, {"unpenalized": [-1]}, {"sigma2": 3.0}])
def test_targets_are_fitted_as_if_alone(shape, options):
    y, x = regression(*shape, seed=3)
    rng = np.random.default_rng(5)
    endog = y[:, None] / y.std() + 0.4 * rng.normal(size=(shape[0], 3))
    endog = endog * [1.0, 100.0, 1e-3] + [5.0, 0.0, 1.0]
    if "weights" in options:
        options = {"weights": rng.uniform(1, 4, shape[0])}
    options = options | ({"sigma2": 3.0} if "sigma2" in options else {})
    if "sigma2" in options:
        endog = endog / endog.std(axis=0) * 5
    together = BayesRidge(endog, x, **options).fit()
    new = regression(4, shape[1], seed=8)[1]
    frame = together.get_prediction(new).summary_frame()
    intervals = together.conf_int()
    for i, name in enumerate(["y1", "y2", "y3"]):
        alone = BayesRidge(endog[:, i], x, **options).fit()
        assert together.lambda_[name] == pytest.approx(alone.lambda_, rel=MODE)
        assert together.sigma2[name] == pytest.approx(alone.sigma2, rel=MODE)
        assert together.df_model[name] == pytest.approx(alone.df_model, rel=MODE)
        assert together.rsquared[name] == pytest.approx(alone.rsquared, rel=MODE)
        assert together.n_modes[name] == alone.n_modes
        sd = alone.bse
        assert (np.abs(together.params[name] - alone.params) / sd).max() < MODE
        np.testing.assert_allclose(together.bse[name], sd, rtol=MODE)
        assert (np.abs(intervals[name] - alone.conf_int()).max(axis=1) / sd).max() < MODE
        np.testing.assert_allclose(together.cov_params(name), alone.cov_params(), rtol=0, atol=MODE * sd.max() ** 2)
        single = alone.get_prediction(new).summary_frame()
        assert (np.abs(frame[name] - single).max(axis=1) / single["mean_se"]).max() < MODE
        np.testing.assert_allclose(together.fittedvalues[name], alone.fittedvalues, rtol=MODE)
    assert list(together.params.columns) == ["y1", "y2", "y3"]
    assert together.params.shape == together.posterior_var.shape == (shape[1] + 1, 3)


def test_targets_with_degenerate_ones_among_them():
    y, x = regression(40, 3)
    noise = np.random.default_rng(1).normal(size=40)
    noise -= sm.OLS(noise, sm.add_constant(x)).fit().fittedvalues
    endog = pd.DataFrame({"fine": y, "flat": 7.0, "exact": x @ [1.0, 2.0, 3.0] + 4, "noise": noise})
    with pytest.warns(DegenerateFitWarning) as caught:
        res = BayesRidge(endog, x).fit("em")
    messages = [str(w.message) for w in caught]
    assert [m.split("(target ")[1] for m in messages] == ["'flat').", "'noise').", "'exact')."]
    alone = BayesRidge(y, x).fit("em")
    np.testing.assert_allclose(res.params["fine"], alone.params, rtol=MODE)
    assert (res.params.loc["x1":, "flat"] == 0).all()
    assert res.params.loc["const", "flat"] == 7.0
    assert (res.params.loc["x1":, "noise"] == 0).all()
    np.testing.assert_allclose(res.params["exact"], [4.0, 1.0, 2.0, 3.0], rtol=1e-10)
    text = str(res.summary())
    for name in ("flat", "noise", "exact"):
        assert f"(target {name!r})" in " ".join(text.split())


DTYPES = ["float32", "int64", "int8", "uint8", "bool", "float16", "longdouble"]


@pytest.mark.parametrize("shape", [(60, 5), (20, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_columns(shape, dtype):
    rng = np.random.default_rng(2)
    x = (rng.integers(0, 2, shape) if dtype == "bool" else rng.integers(0, 100, shape)).astype(dtype)
    y = x[:, :3].astype(float) @ [1.0, -2.0, 1.5] + x[:, 0].std() * rng.normal(size=shape[0])
    narrow = BayesRidge(y, x).fit()
    wide = BayesRidge(y, x.astype(np.float64)).fit()
    assert narrow.lambda_ == pytest.approx(wide.lambda_, rel=SAME_ARITHMETIC * 100)
    assert (np.abs(narrow.params - wide.params) / wide.bse).max() < SAME_ARITHMETIC * 100
    assert relative(narrow.fittedvalues, wide.fittedvalues) < SAME_ARITHMETIC * 10
    np.testing.assert_allclose(narrow.bse, wide.bse, rtol=SAME_ARITHMETIC * 100)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_dtype_of_endog(dtype):
    _, x = regression(40, 3)
    y = (x[:, 0] + np.random.default_rng(0).normal(size=40) > x[:, 0].mean()).astype(dtype)
    narrow, wide = BayesRidge(y, x).fit(), BayesRidge(y.astype(float), x).fit()
    np.testing.assert_allclose(narrow.params, wide.params, rtol=SAME_ARITHMETIC * 100)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "view of more columns": lambda x: np.column_stack([x, x])[:, : x.shape[1]],
    "view of every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "view of every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed twice": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "transposed view": lambda x: np.asfortranarray(np.vstack([x, x]))[: len(x)],
    "list": lambda x: x.tolist(),
    "frame": pd.DataFrame,
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
    "big-endian": lambda x: x.astype(">f8"),
}


@pytest.mark.parametrize("options", [{}, {"unpenalized": [1]}], ids=["intercept", "unpenalized"])
@pytest.mark.parametrize("shape", [(600, 5), (20, 45)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout(layout, shape, options):
    y, x = regression(*shape, seed=1)
    x = np.ascontiguousarray(x)
    given = LAYOUTS[layout](x)
    before = np.array(given)
    res, plain = (BayesRidge(y, a, **options).fit() for a in (given, x))
    np.testing.assert_array_equal(np.array(given), before)
    assert res.lambda_ == pytest.approx(plain.lambda_, rel=SAME_ARITHMETIC * 100)
    assert (np.abs(np.asarray(res.params) - plain.params.to_numpy()) / plain.bse.to_numpy()).max() < 1e-10
    np.testing.assert_allclose(res.bse, plain.bse, rtol=1e-10)


def test_blocks_of_rows_and_columns_give_what_one_block_gives(monkeypatch):
    import pybayesridge.linalg.blocks as blocks

    cases = [
        CASES[name] for name in ("tall", "wide", "unpenalized-weights", "unpenalized-weights-wide", "no-intercept")
    ]
    whole = [case.results() for case in cases]
    monkeypatch.setattr(blocks, "MIN_BLOCK", 7)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8)
    for case, res in zip(cases, whole, strict=True):
        pieces = case.results()
        assert pieces.lambda_ == pytest.approx(res.lambda_, rel=1e-10)
        assert (np.abs(pieces.params - res.params) / res.bse).max() < 1e-10
        np.testing.assert_allclose(pieces.bse, res.bse, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(3000, 5), (20, 45)])
@pytest.mark.parametrize("ratio", [1e3, 1e6, -1e6])
def test_large_means_of_columns(shape, ratio, weighted):
    y, x = regression(*shape, seed=1)
    w = np.random.default_rng(0).uniform(1, 3, shape[0]) if weighted else None
    shifted = x + ratio * x.std(axis=0)
    # What is left of x after the shift has been rounded.
    rounded = shifted - ratio * x.std(axis=0)
    res = BayesRidge(y, shifted, weights=w).fit()
    plain = BayesRidge(y, rounded, weights=w).fit()
    assert res.lambda_ == pytest.approx(plain.lambda_, rel=LARGE_MEAN)
    slopes = res.params.iloc[1:] - plain.params.iloc[1:]
    assert (np.abs(slopes) / plain.bse.iloc[1:]).max() < LARGE_MEAN
    np.testing.assert_allclose(res.bse.iloc[1:], plain.bse.iloc[1:], rtol=LARGE_MEAN)
    assert relative(res.fittedvalues, plain.fittedvalues) < LARGE_MEAN
    frame = res.get_prediction(shifted[:5]).summary_frame()
    wanted = plain.get_prediction(rounded[:5]).summary_frame()
    assert (np.abs(frame - wanted).max(axis=1) / wanted["mean_se"]).max() < LARGE_MEAN


def test_large_mean_of_y():
    y, x = regression(50, 4)
    shifted = y + 1e8 * y.std()
    rounded = shifted - 1e8 * y.std()
    res, plain = BayesRidge(shifted, x).fit(), BayesRidge(rounded, x).fit()
    assert res.lambda_ == pytest.approx(plain.lambda_, rel=LARGE_MEAN)
    assert (np.abs(res.params - plain.params).iloc[1:] / plain.bse.iloc[1:]).max() < LARGE_MEAN


def test_nearly_collinear_columns_fall_back_to_the_svd():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 3))
    x[:, 2] = x[:, 0] + 1e-6 * rng.standard_normal(60)
    y = x @ [1.0, 2.0, -3.0] + 1e-2 * rng.standard_normal(60)
    res = BayesRidge(y, x).fit(method="fixed", lam=1e-12)
    assert res.solver == "svd"
    # The mean is the minimum of an augmented least-squares problem, which QR solves without squaring X.
    sd = x.std(axis=0)
    s = (x - x.mean(axis=0)) / sd
    q, r = np.linalg.qr(np.vstack([s, 1e-6 * np.eye(3)]))
    b = np.linalg.solve(r, q.T @ np.r_[y - y.mean(), np.zeros(3)])
    np.testing.assert_allclose(res.params.iloc[1:], b / sd, rtol=SVD_ROUTE)
    sigma2 = (np.sum((y - y.mean() - s @ b) ** 2) + 1e-12 * np.sum(b**2)) / 57
    np.testing.assert_allclose(res.sigma2, sigma2, rtol=SVD_ROUTE)
    wanted = np.sqrt(sigma2 * np.sum(np.linalg.inv(r) ** 2, axis=1)) / sd
    np.testing.assert_allclose(res.bse.iloc[1:], wanted, rtol=SVD_ROUTE)


def test_tiny_mode_falls_back_to_the_svd():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 4))
    x[:, 3] = x[:, 0] + 1e-5 * rng.standard_normal(50)
    y = x @ [1.0, 2.0, 3.0, 4.0] + 1e5 * (x[:, 3] - x[:, 0]) + 1e-6 * rng.standard_normal(50)
    with pytest.warns(PrecisionWarning, match="Rounding errors limit this fit"):
        res = BayesRidge(y, x).fit()
    assert res.solver == "svd"
    assert res.converged
    least_squares = np.linalg.lstsq(sm.add_constant(x), y, rcond=None)[0]
    np.testing.assert_allclose(res.params, least_squares, rtol=1e-4, atol=1e-4)


def test_duplicated_columns_share_a_coefficient():
    y, x = regression(40, 4)
    res = BayesRidge(y, np.column_stack([x, x[:, 1], x[:, 1]]), prior="half-cauchy").fit("em")
    oracle = Oracle(y, np.ones((40, 1)), np.column_stack([x, x[:, 1], x[:, 1]]))
    assert abs(np.log(res.tau2) - oracle.mode()) < MODE
    np.testing.assert_allclose(res.params[["x5", "x6"]], res.params["x2"], rtol=1e-9)
    wanted = oracle.rss(np.log(res.tau2)) / 41 * oracle.unit_covariance(res.lambda_)
    np.testing.assert_allclose(res.bse, np.sqrt(np.diag(wanted)), rtol=1e-9)


@pytest.mark.parametrize("shape", [(40, 4), (15, 30)])
@pytest.mark.parametrize(
    ("value", "how"), [(0.0, "exactly"), (5.0, "exactly"), (1e30, "exactly"), (5.0, "nearly"), (1e30, "nearly")]
)
def test_constant_column_next_to_an_intercept(shape, value, how):
    y, x = regression(*shape, seed=2)
    flat = np.full(shape[0], value)
    if how == "nearly":
        flat[::2] = np.nextafter(value, np.inf)
    frame = pd.DataFrame(np.column_stack([np.ones(shape[0]), x, flat]))
    frame.columns = ["one", *(f"v{i}" for i in range(shape[1])), "flat"]
    res = BayesRidge(y, frame).fit()
    plain = BayesRidge(y, x).fit()
    assert list(res.params.index) == list(frame.columns)
    assert (res.params["flat"], res.bse["flat"]) == (0.0, 0.0)
    assert (res.conf_int().loc["flat"] == 0).all()
    np.testing.assert_allclose(res.params.iloc[:-1], plain.params, rtol=1e-10)
    np.testing.assert_allclose(res.bse.iloc[:-1], plain.bse, rtol=1e-10)
    text = str(res.summary())
    assert "Constant column(s), coefficient 0: 'flat'" in text
    assert "'one' serves as the intercept" in text
    np.testing.assert_allclose(res.predict(frame.iloc[:3]), plain.predict(x[:3]), rtol=1e-10)


@pytest.mark.parametrize("prepend", [True, False])
@pytest.mark.parametrize("shape", [(40, 4), (15, 30)])
def test_add_constant_serves_as_the_intercept(shape, prepend):
    y, x = regression(*shape, seed=2)
    res = BayesRidge(y, sm.add_constant(x, prepend=prepend)).fit()
    plain = BayesRidge(y, x).fit()
    at = 0 if prepend else shape[1]
    assert res.params.index[at] == "const"
    assert list(np.delete(res.params.index, at)) == list(plain.params.index[1:])
    order = [at, *np.delete(np.arange(shape[1] + 1), at)]
    np.testing.assert_allclose(res.params.iloc[order], plain.params, rtol=1e-10)
    np.testing.assert_allclose(res.cov_params().iloc[order, order], plain.cov_params(), rtol=1e-8, atol=1e-12)
    assert res.df_model == pytest.approx(plain.df_model)
    new = regression(3, shape[1], seed=11)[1]
    np.testing.assert_allclose(
        res.get_prediction(sm.add_constant(new, prepend=prepend, has_constant="add")).summary_frame(),
        plain.get_prediction(new).summary_frame(),
        rtol=1e-10,
    )


def test_users_constant_need_not_be_one():
    y, x = regression(30, 2)
    res = BayesRidge(y, np.column_stack([x, np.full(30, 2.5)])).fit()
    plain = BayesRidge(y, x).fit()
    assert list(res.params.index) == ["x1", "x2", "const"]
    np.testing.assert_allclose(res.params["const"] * 2.5, plain.params["const"], rtol=1e-10)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("arguments", [{}, {"standardize": False}, {"unpenalized": ["const"]}])
def test_an_intercept_that_is_added_whatever_there_is(model, arguments):
    y, x = regression(40, 4, seed=2)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(const=1.0, flat=5.0)
    res = model(y, frame, intercept="add", **arguments).fit()
    plain = model(y, x, standardize=arguments.get("standardize", True)).fit()
    assert list(res.params.index) == ["Intercept", *frame.columns]
    for values in (res.params, res.bse, res.conf_int()[0], res.conf_int()[1]):
        assert (values[["const", "flat"]] == 0).all()
    np.testing.assert_allclose(res.params.iloc[:5], plain.params, rtol=1e-9)
    np.testing.assert_allclose(res.bse.iloc[:5], plain.bse, rtol=1e-9)
    assert "Constant column(s), coefficient 0: 'const', 'flat'" in str(res.summary())
    other = frame.assign(const=3.0, flat=-2.0)
    np.testing.assert_allclose(
        res.get_prediction(other).summary_frame(), plain.get_prediction(x).summary_frame(), rtol=1e-8
    )
    for bad in ("always", None, 1):
        with pytest.raises(ValueError, match="intercept must be True, False or 'add'"):
            model(y, x, intercept=bad)


def test_constant_column_without_intercept_is_a_column_like_others():
    y, x = regression(30, 3)
    with_flat = np.column_stack([x, np.full(30, 2.0)])
    res = BayesRidge(y, with_flat, intercept=False, standardize=False, prior="half-cauchy").fit("em")
    oracle = Oracle(y, np.empty((30, 0)), with_flat, standardize=False)
    assert abs(np.log(res.tau2) - oracle.mode()) < MODE
    np.testing.assert_allclose(res.params, oracle.coefficients(res.lambda_), rtol=1e-9)


DEGENERATE = {
    "constant y": (np.full(20, 3.0), 4, "unpenalised columns fit the response exactly"),
    "constant y, wide": (np.full(10, 1e5), 30, "unpenalised columns fit the response exactly"),
    "y of zeros": (np.zeros(20), 4, "unpenalised columns fit the response exactly"),
    "n = 1": (np.array([2.0]), 3, "unpenalised columns fit the response exactly"),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_response_without_variation(name):
    y, p, message = DEGENERATE[name]
    x = np.random.default_rng(0).normal(size=(len(y), p))
    with pytest.warns(DegenerateFitWarning, match=message):
        res = BayesRidge(y, x).fit()
    assert res.params["const"] == pytest.approx(y[0], rel=1e-14)
    assert (res.params.iloc[1:] == 0).all()
    assert (res.bse == 0).all()
    assert res.sigma2 == 0
    assert np.isinf(res.lambda_)
    assert res.tau2 == 0
    assert np.isnan(res.rsquared)
    assert res.converged
    assert message in " ".join(str(res.summary()).split())
    frame = res.get_prediction(x[:1] + 1).summary_frame()
    np.testing.assert_allclose(frame.iloc[0], [y[0], 0, y[0], y[0], y[0], y[0]], rtol=1e-12)


def test_no_signal_is_a_null_model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    y = rng.normal(size=50)
    y -= sm.OLS(y, sm.add_constant(x)).fit().fittedvalues - 2.0
    with pytest.warns(DegenerateFitWarning, match="No signal"):
        res = BayesRidge(y, x).fit("em")
    assert (res.params.iloc[1:] == 0).all()
    assert (res.bse.iloc[1:] == 0).all()
    assert np.isinf(res.lambda_)
    assert res.n_modes == 0
    assert res.params["const"] == pytest.approx(y.mean(), rel=1e-12)
    sigma2 = y.var() * 50 / 51
    assert res.sigma2 == pytest.approx(sigma2, rel=1e-12)
    assert res.bse["const"] == pytest.approx(np.sqrt(sigma2 / 50), rel=1e-12)
    assert res.df_model == 0
    assert res.rsquared == pytest.approx(0, abs=1e-14)
    assert "No signal: all coefficients are shrunk to zero" in str(res.summary())


@pytest.mark.parametrize("options", [{}, {"method": "em"}, {"method": "em", "accelerate": False}], ids=str)
def test_exact_fit_is_least_squares(options):
    x = regression(40, 3)[1]
    y = x @ [1.0, -2.0, 3.0] + 5.0
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly: least squares"):
        res = BayesRidge(y, x).fit(**options)
    np.testing.assert_allclose(res.params, [5.0, 1.0, -2.0, 3.0], rtol=1e-10)
    assert (res.lambda_, res.sigma2) == (0.0, 0.0)
    assert np.isinf(res.tau2)
    assert (res.bse == 0).all()
    assert res.rsquared == pytest.approx(1.0)
    assert "The columns fit the response exactly" in str(res.summary())
    assert res.df_model == pytest.approx(3)


def test_exact_fit_with_more_columns_than_rows_has_a_mode():
    # There nothing says that the noise is zero.
    case = CASES["wide"]
    assert 0 < case.results().lambda_ < np.inf


# The mode of sigma2 divides by nu + 2, its mean by nu - 2.
@pytest.mark.parametrize(("method", "divisor"), [("em", 21), ("exact", 17)])
@pytest.mark.parametrize("columns", [np.empty((20, 0)), np.ones((20, 1)), np.zeros((20, 2)), np.full((20, 3), 4.0)])
def test_nothing_to_penalise(columns, method, divisor):
    y = np.random.default_rng(0).normal(3, 1, 20)
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink") as caught:
        res = BayesRidge(y, columns).fit(method)
    assert len(caught) == 1
    np.testing.assert_allclose(res.fittedvalues, y.mean(), rtol=1e-12)
    assert res.sigma2 == pytest.approx(y.var() * 20 / divisor, rel=1e-12)
    assert res.df_model == 0
    assert res.lambda_ == np.inf
    assert (res.params.iloc[1:] == 0).all()
    assert (res.bse.iloc[1:] == 0).all()
    assert "nothing to shrink" in str(res.summary())
    np.testing.assert_allclose(res.predict(columns[:2]), y.mean(), rtol=1e-12)


def test_formula_without_columns():
    data = pd.DataFrame({"y": np.random.default_rng(0).normal(3, 1, 20)})
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink"):
        res = BayesRidge.from_formula("y ~ 1", data).fit()
    assert res.params.to_dict() == pytest.approx({"Intercept": data["y"].mean()})
    assert res.predict(data.iloc[:2]).tolist() == pytest.approx([data["y"].mean()] * 2)
    assert res.bse["Intercept"] == pytest.approx(np.sqrt(res.sigma2 / 20))


def test_all_columns_unpenalised():
    y, x = regression(30, 3)
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink"):
        res = BayesRidge(y, x, unpenalized=[0, 1, 2]).fit()
    ols = sm.OLS(y, sm.add_constant(x)).fit()
    np.testing.assert_allclose(res.params, ols.params, rtol=1e-9)
    np.testing.assert_allclose(res.conf_int(), ols.conf_int(), rtol=1e-9)
    fixed = BayesRidge(y, x, unpenalized=[0, 1, 2]).fit(method="fixed", lam=1.0)
    np.testing.assert_allclose(fixed.conf_int(), ols.conf_int(), rtol=1e-9)
    assert res.df_model == pytest.approx(3)


@pytest.mark.parametrize("x", [[[1.0], [2.0]], [[1.0, 5.0, 3.0], [2.0, 3.0, 3.0]]])
def test_two_rows(x):
    y = np.array([1.0, 3.0])
    with pytest.warns(DegenerateFitWarning):
        mode = BayesRidge(y, x).fit("em")
    for res in (mode, BayesRidge(y, x).fit()):
        assert np.isfinite(res.params).all()
        assert res.predict(np.array(x)).mean() == pytest.approx(2.0)
        assert "Notes" in str(res.summary())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 12])
@pytest.mark.parametrize("method", ["exact", "em", "fixed", "plain", "tau", "paper"])
@pytest.mark.filterwarnings("ignore::pybayesridge.DegenerateFitWarning")
@pytest.mark.filterwarnings("ignore::pybayesridge.ConvergenceWarning")
def test_tiny_data_end_in_a_defined_result(n, p, method):
    options = {
        "exact": {},
        "em": {"method": "em"},
        "fixed": {"method": "fixed", "lam": 0.5},
        "plain": {"method": "em", "accelerate": False, "maxiter": 300},
        "tau": {"method": "em", "parameterization": "tau"},
        "paper": {"method": "em", "dof": "paper"},
    }
    rng = np.random.default_rng(10 * n + p)
    y, x = rng.normal(size=n), rng.normal(size=(n, p))
    res = BayesRidge(y, x).fit(**options[method])
    assert np.isfinite(res.params).all()
    assert (res.bse >= 0).all()
    assert np.isfinite(res.predict(x)).all()
    assert len(str(res.summary())) > 500
    if n == 1:
        return
    oracle = Oracle(y, np.ones((n, 1)), x, prior="r2")
    if method == "exact":
        assert np.abs(res.params - DensePosterior(oracle).mean(np.eye(p + 1))).max() < 1e-6
    else:
        assert np.isinf(res.lambda_) or np.abs(res.params - oracle.coefficients(res.lambda_)).max() < 1e-6


@pytest.mark.parametrize("accelerate", [True, False])
def test_posterior_without_a_mode_because_it_does_not_fall(accelerate):
    # The paper's count on more columns than rows: the profile is flat where the penalty vanishes.
    y, x = regression(20, 50, seed=1, noise=0.1)
    model = BayesRidge(y, x, prior="half-cauchy")
    with pytest.warns(DegenerateFitWarning, match="no interior mode"):
        res = model.fit("em", dof="paper", parameterization="tau", accelerate=accelerate)
    assert not res.converged
    assert "lambda is a bound" in " ".join(str(res.summary()).split())


def test_known_noise_variance_and_constant_response():
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.warns(DegenerateFitWarning, match="No signal"):
        res = BayesRidge(np.full(20, 3.0), x, sigma2=2.0).fit("em")
    assert res.sigma2 == pytest.approx(2.0, rel=1e-12)
    assert (res.params.iloc[1:] == 0).all()
    assert res.bse["const"] == pytest.approx(np.sqrt(2.0 / 20), rel=1e-12)


def test_a_model_can_be_fitted_again():
    y, x = regression(30, 4)
    model = BayesRidge(y, x)
    first = model.fit()
    model.fit(method="fixed", lam=3.0)
    again = model.fit()
    np.testing.assert_allclose(first.params, again.params, rtol=SAME_ARITHMETIC * 100)
    np.testing.assert_allclose(first.bse, again.bse, rtol=SAME_ARITHMETIC * 100)


def test_fit_says_what_it_did_when_asked(capsys):
    y, x = regression(30, 4)
    BayesRidge(y, x).fit()
    assert capsys.readouterr().out == ""
    BayesRidge(y, x).fit(disp=True)
    assert "converged: True" in capsys.readouterr().out


def test_sigma2_is_that_of_an_observation_of_average_weight():
    y, x = regression(30, 4)
    w = np.random.default_rng(0).uniform(1, 9, 30)
    res = BayesRidge(y, x, weights=w).fit()
    new = res.get_prediction(x[:3], weights=[w.mean()] * 3)
    plain = res.get_prediction(x[:3])
    np.testing.assert_allclose(new.summary_frame(), plain.summary_frame(), rtol=1e-13)
    heavy = res.get_prediction(x[:3], weights=[4 * w.mean()] * 3)
    np.testing.assert_allclose(heavy.var_resid, res.sigma2 / 4, rtol=1e-13)


def test_block_diagonal_problems_share_one_penalty():
    y1, x1 = regression(30, 3, seed=1)
    y2, x2 = regression(25, 2, seed=2)
    y, x = np.r_[y1, y2], block_diag(x1, x2)
    res = BayesRidge(y, x, intercept=False, standardize=False, prior="half-cauchy").fit("em")
    oracle = Oracle(y, np.empty((55, 0)), x, standardize=False)
    assert abs(np.log(res.tau2) - oracle.mode()) < MODE


@pytest.mark.parametrize("options", [{}, {"unpenalized": [1]}, {"intercept": False}], ids=str)
@pytest.mark.parametrize("shape", [(80, 6), (20, 45)])
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_matrix"])
def test_sparse_columns(kind, shape, options):
    y, x = regression(*shape, noise=0.3)
    x[np.random.default_rng(0).random(shape) < 0.5] = 0.0
    w = np.linspace(1, 2, shape[0])
    res = BayesRidge(y, getattr(sparse, kind)(x), weights=w, **options).fit()
    plain = BayesRidge(y, x, weights=w, **options).fit()
    assert abs(np.log(res.lambda_ / plain.lambda_)) < MODE
    assert (np.abs(res.params - plain.params) / plain.bse).max() < MODE
    np.testing.assert_allclose(res.bse, plain.bse, rtol=MODE)
    assert relative(res.fittedvalues, plain.fittedvalues) < GIVEN_LAMBDA
    rows = ((res, sparse.csr_matrix(x[:4])), (plain, x[:4]))
    frames = [r.get_prediction(a).summary_frame().to_numpy() for r, a in rows]
    assert relative(*frames) < GIVEN_LAMBDA


def test_a_direction_lost_in_rounding_still_counts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3))
    x[:, 2] = x[:, 0] + 2e-6 * x[:, 2]
    y = x[:, 1] + x[:, 2] + rng.normal(size=len(x))
    res = BayesRidge(y, x).fit()
    model = BayesRidge(y, x)
    design, products = model._build()
    gram = rotate(design, products)
    assert gram.rank == 3
    model._spectrum = rotate_accurately(design)
    expected = model.fit()
    np.testing.assert_allclose(res.params, expected.params, rtol=0, atol=DIRECTION)
    np.testing.assert_allclose(res.bse, expected.bse, rtol=DIRECTION)
    by_products = replace(expected._results.posterior, spectrum=gram).coefficients()[1][:, 0]
    np.testing.assert_allclose(by_products, expected.params.iloc[1:], rtol=0, atol=DIRECTION)
