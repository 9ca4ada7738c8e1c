"""BayesRidge against brute force, and every degenerate case."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, stats
from scipy.linalg import block_diag

from pybayesridge import BayesRidge, DegenerateFitWarning
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.spectrum import rotate
from pybayesridge.text import NO_VARIANCE
from tests.oracle import Oracle
from tests.problems import CASES, Case, regression

MODE = 1e-9
"""Log lambda at the mode; the oracle's dense algebra is good to about 1e-11."""

GIVEN_LAMBDA = 1e-10
"""What follows from lambda by direct formulas; relative to the largest of its kind."""

SAME_ARITHMETIC = 1e-12
"""The same numbers by another layout or dtype of the input."""

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
    by_products = replace(expected.posterior, spectrum=gram).coefficient_means()[1][:, 0]
    np.testing.assert_allclose(by_products, expected.params.iloc[1:], rtol=0, atol=DIRECTION)
