"""Responses without variation or signal, exact fits, data of few rows, nothing to penalise."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pybayesridge import BayesRidge, DegenerateFitWarning
from tests.dense_posterior import DensePosterior
from tests.oracle import Oracle
from tests.problems import CASES, regression

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


@pytest.mark.parametrize("scale", [1e160, 1e-160])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_unpenalised_columns_whose_squares_are_no_floats(scale, family):
    y, x = regression(20, 2)
    with pytest.raises(ValueError, match=r"unpenalised column\(s\) 'x1' leave the range of floats: rescale them"):
        BayesRidge(np.round(np.exp(y - y.max())), x * [scale, 1.0], unpenalized=[0], family=family).fit()


@pytest.mark.parametrize("method", ["laplace", "ep"])
def test_another_method_is_advised(method):
    x = np.random.default_rng(2).normal(size=40)
    data = pd.DataFrame({"x": x, "y": 2 * x, "g": np.resize(list("abcd"), 40)})
    model = BayesRidge.from_formula("y ~ x + (1 | g)", data, family="student-t", df=4, unpenalized="fixed")
    with pytest.raises(ValueError, match="double precision resolves") as refused:
        model.fit(method)
    assert ("use fit('laplace')" in str(refused.value)) == (method == "ep")
