"""Results: labels, intervals, summaries, saving and loading."""

import copy
import io
import pickle

import numpy as np
import pandas as pd
import pytest
from statsmodels.iolib.summary import Summary

from pybayesridge import BayesRidge, SpikeSlab
from tests.problems import regression

THREE_DIGITS = 5.01e-3
"""Half a unit in the third significant digit, and the rounding of the comparison."""

SAME = 1e-12
"""The same numbers by another way through the code."""


@pytest.fixture
def frame():
    y, x = regression(40, 4)
    index = pd.Index([f"r{i}" for i in range(40)], name="unit")
    return pd.Series(y, index=index, name="outcome"), pd.DataFrame(x, index=index, columns=["a", "b", "c", "d"])


MODELS = {
    "gram": ((40, 4), {}, {}),
    "dual": ((15, 30), {}, {}),
    "weights": ((40, 4), {"weights": np.linspace(1, 3, 40)}, {}),
    "dual-weights": ((15, 30), {"weights": np.linspace(1, 3, 15)}, {}),
    "unpenalized": ((40, 4), {"unpenalized": [0]}, {}),
    "dual-unpenalized": ((15, 30), {"unpenalized": [1, 3]}, {}),
    "svd": ((40, 4), {}, {"method": "fixed", "lam": 0.0}),
    "fixed": ((40, 4), {}, {"method": "fixed", "lam": 3.0}),
    "exact": ((40, 4), {}, {"method": "exact"}),
    "dual-exact": ((15, 30), {"weights": np.linspace(1, 3, 15)}, {"method": "exact"}),
    "no-intercept": ((40, 4), {"intercept": False}, {}),
    "targets": ((40, 4), {}, {}),
    "dual-targets": ((15, 30), {}, {}),
}


@pytest.fixture(params=MODELS)
def results(request):
    shape, model, fit = MODELS[request.param]
    y, x = regression(*shape, noise=0.5)
    if request.param == "svd":
        x[:, 3] = x[:, 0] + 1e-6 * x[:, 3]
    if request.param.endswith("targets"):
        y = np.column_stack([y, y + np.random.default_rng(0).normal(size=len(y))])
    return BayesRidge(y, x, **model).fit(**({"method": "em"} | fit))


def everything(res, rows):
    """All that does not run over the rows of the fit."""
    targets = res.model.data.targets
    covariance = res.cov_params() if len(targets) == 1 else res.cov_params(targets[1])
    return {
        "params": res.params,
        "bse": res.bse,
        "posterior_var": res.posterior_var,
        "cov": covariance,
        "interval": res.conf_int(0.2),
        "rsquared": res.rsquared,
        "df_model": res.df_model,
        "df_resid": res.df_resid,
        "nobs": res.nobs,
        "lambda_": res.lambda_,
        "sigma2": res.sigma2,
        "mean": res.predict(rows),
        "prediction": res.get_prediction(rows).summary_frame(0.2),
    }


def text_of(res):
    """The summary without anything that changes with the clock."""
    return str(res.summary())


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        a, b = np.asarray(one[key], dtype=float), np.asarray(other[key], dtype=float)
        size = np.abs(a).max()
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=SAME * size, err_msg=key)


def rows_for(res):
    return regression(5, len(res.model.data.exog_columns), seed=7)[1]


def test_pickle(results):
    rows = rows_for(results)
    back = pickle.loads(pickle.dumps(results))
    assert_same(everything(back, rows), everything(results, rows))
    assert text_of(back) == text_of(results)
    np.testing.assert_allclose(back.fittedvalues, results.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(back.model.fit(**_fit_of(results)).params, results.params, rtol=1e-9)


def _fit_of(res):
    return {"method": res.method} | ({"lam": res.lambda_} if res.method == "fixed" else {})


def test_deepcopy(results):
    rows = rows_for(results)
    assert_same(everything(copy.deepcopy(results), rows), everything(results, rows))


def test_save_and_load(results, tmp_path):
    rows = rows_for(results)
    results.save(tmp_path / "fit.pickle")
    back = type(results).load(tmp_path / "fit.pickle")
    assert type(back) is type(results)
    assert_same(everything(back, rows), everything(results, rows))
    assert isinstance(back.params, pd.Series | pd.DataFrame)
    handle = io.BytesIO()
    results.save(handle)
    handle.seek(0)
    again = type(results).load(handle)
    assert_same(everything(again, rows), everything(results, rows))


def test_without_data(results, tmp_path):
    rows = rows_for(results)
    before, text = everything(results, rows), text_of(results)
    fresh = pickle.loads(pickle.dumps(results))
    fresh.remove_data()
    assert_same(everything(fresh, rows), before)
    assert text_of(fresh) == text
    back = pickle.loads(pickle.dumps(fresh))
    assert_same(everything(back, rows), before)
    assert text_of(back) == text
    fresh.remove_data()
    assert_same(everything(fresh, rows), before)
    for name in ("fittedvalues", "resid"):
        with pytest.raises(ValueError, match="removed"):
            getattr(back, name)
    with pytest.raises(ValueError, match="removed"):
        back.predict()
    with pytest.raises(ValueError, match="removed"):
        back.get_prediction()
    with pytest.raises(ValueError, match="removed"):
        back.model.fit()
    with_attribute = type(results).load(file_of(results, tmp_path))
    assert_same(everything(with_attribute, rows), before)


def file_of(res, folder):
    res.save(folder / "small.pickle", remove_data=True)
    return folder / "small.pickle"


def test_labels_of_frames(frame):
    res = BayesRidge(*frame).fit()
    names = ["const", "a", "b", "c", "d"]
    for vector in (res.params, res.bse, res.posterior_var):
        assert isinstance(vector, pd.Series)
        assert list(vector.index) == names
    for vector in (res.fittedvalues, res.resid, res.predict()):
        pd.testing.assert_index_equal(vector.index, frame[0].index)
    covariance = res.cov_params()
    assert list(covariance.index) == list(covariance.columns) == names
    assert list(res.conf_int().index) == names
    assert list(res.conf_int().columns) == [0, 1]
    pd.testing.assert_index_equal(res.get_prediction().summary_frame().index, frame[0].index)
    new = frame[1].iloc[[3, 1]]
    assert list(res.predict(new).index) == ["r3", "r1"]
    assert res.model.endog_names == "outcome"
    assert res.model.exog_names == names


def test_labels_of_arrays():
    y, x = regression(30, 2)
    res = BayesRidge(y, x).fit()
    assert list(res.params.index) == ["const", "x1", "x2"]
    assert res.model.endog_names == "y"
    pd.testing.assert_index_equal(res.fittedvalues.index, pd.RangeIndex(30))
    one = BayesRidge(y, x[:, 0]).fit()
    assert list(one.params.index) == ["const", "x1"]
    assert one.predict(x[:3, 0]).shape == (3,)


def test_labels_of_a_series_as_exog(frame):
    x = frame[1]
    y = 2 * x["a"] + frame[0] / 100
    res = BayesRidge(y, x["a"]).fit()
    assert list(res.params.index) == ["const", "a"]
    np.testing.assert_allclose(res.predict(x["a"].iloc[:3]), res.fittedvalues.iloc[:3], rtol=SAME)
    assert list(res.predict(x["a"].iloc[:3]).index) == ["r0", "r1", "r2"]


def test_labels_of_several_targets(frame):
    y, x = frame
    endog = pd.DataFrame({"u": y, "v": y**2})
    res = BayesRidge(endog, x).fit()
    for table in (res.params, res.bse, res.posterior_var):
        assert list(table.columns) == ["u", "v"]
        assert list(table.index) == ["const", "a", "b", "c", "d"]
    for series in (res.rsquared, res.df_model, res.df_resid, res.sigma2, res.lambda_, res.tau2, res.n_modes):
        assert list(series.index) == ["u", "v"]
    assert res.fittedvalues.shape == res.resid.shape == (40, 2)
    assert list(res.fittedvalues.columns) == ["u", "v"]
    assert res.conf_int().columns.tolist() == [("u", 0), ("u", 1), ("v", 0), ("v", 1)]
    predictions = res.get_prediction(x.iloc[:3])
    assert predictions.summary_frame()["u"].columns.tolist()[0] == "mean"
    assert predictions.predicted_mean.shape == (3, 2)
    text = str(res.summary())
    assert text.count("Dep. Variable:") == 2
    with pytest.raises(ValueError, match="cov_params needs target= for a model with 2 targets"):
        res.cov_params()
    pd.testing.assert_frame_equal(res.cov_params("v"), res.cov_params(1))
    for wrong in ("w", 2, -1, 0.5):
        with pytest.raises(ValueError, match="is not one of"):
            res.cov_params(wrong)


def test_one_column_frame_is_one_target(frame):
    y, x = frame
    res = BayesRidge(y.to_frame(), x).fit()
    assert isinstance(res.params, pd.Series)
    assert isinstance(res.lambda_, float)
    assert res.model.endog_names == "outcome"


def test_columns_of_new_frames_are_matched_by_name(frame):
    y, x = frame
    res = BayesRidge(y, x).fit()
    shuffled = x[["d", "b", "a", "c"]].assign(other="text")
    np.testing.assert_allclose(res.predict(shuffled), res.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(res.get_prediction(shuffled).se, res.get_prediction().se, rtol=1e-10)


def test_one_row_as_a_vector(frame):
    y, x = frame
    res = BayesRidge(y, x).fit()
    for row in (x.iloc[2].to_numpy(), x.iloc[2].tolist(), x.iloc[2]):
        assert res.predict(row).to_numpy() == pytest.approx([res.fittedvalues.iloc[2]])


def test_one_row_as_a_series_is_matched_by_name(frame):
    y, x = frame
    res = BayesRidge(y, x).fit()
    assert res.predict(x.iloc[2][["d", "a", "c", "b"]]).to_numpy() == pytest.approx([res.fittedvalues.iloc[2]])


def test_intervals_widen_with_their_probability(results):
    inner, outer = results.conf_int(alpha=0.5), results.conf_int(alpha=0.01)
    low, high = slice(0, None, 2), slice(1, None, 2)
    assert (outer.to_numpy()[:, low] <= inner.to_numpy()[:, low]).all()
    assert (outer.to_numpy()[:, high] >= inner.to_numpy()[:, high]).all()
    centre = (inner.to_numpy()[:, low] + inner.to_numpy()[:, high]) / 2
    if results.method != "exact":
        np.testing.assert_allclose(centre.ravel(), results.params.to_numpy().ravel(), rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(results.conf_int(), results.conf_int(0.05))


def test_covariance_is_symmetric_and_agrees_with_the_deviations(results):
    for i, name in enumerate(results.model.data.targets):
        covariance = results.cov_params(name).to_numpy()
        np.testing.assert_allclose(covariance, covariance.T, rtol=0, atol=1e-12 * np.abs(covariance).max())
        sd = results.bse if results.model.one_target else results.bse.iloc[:, i]
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sd, rtol=1e-6)


def test_prediction_agrees_with_the_covariance(results):
    rows = rows_for(results)
    shift = int(results.model.data.intercept_name is not None)
    both = np.column_stack([np.ones((5, shift)), rows])
    prediction = results.get_prediction(rows)
    for i, name in enumerate(results.model.data.targets):
        covariance = results.cov_params(name).to_numpy()
        wanted = np.sqrt(np.einsum("ij,jk,ik->i", both, covariance, both))
        se = prediction.se if results.model.one_target else prediction.se[:, i]
        np.testing.assert_allclose(se, wanted, rtol=1e-6)


def test_row_labels_of_predictions(frame):
    y, x = frame
    res = BayesRidge(y, x).fit()
    assert list(res.get_prediction(x.iloc[:2], row_labels=["p", "q"]).summary_frame().index) == ["p", "q"]


def test_no_rows_to_predict(frame):
    y, x = frame
    res = BayesRidge(y, x).fit()
    assert res.predict(x.iloc[:0]).shape == (0,)
    assert res.get_prediction(x.iloc[:0]).summary_frame().shape == (0, 6)


def test_summary(frame):
    y, x = frame
    res = BayesRidge(y, x).fit()
    summary = res.summary()
    assert isinstance(summary, Summary)
    text = str(summary)
    assert max(map(len, text.splitlines())) <= 82
    for wanted in (
        "Bayesian Ridge Regression",
        "Dep. Variable:                outcome",
        "Method:",
        "No. Observations:",
        "lambda:",
        "tau:",
        "sigma:",
        "Df Model (effective):",
        "R-squared:",
        "Converged:",
        "mean",
        "[0.025",
        "0.975]",
        "Intervals are of the exact marginal posterior: lambda and sigma are",
    ):
        assert wanted in text
    for name in res.params.index:
        line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
        numbers = [float(part) for part in line.split()[1:]]
        wanted = [res.params[name], res.bse[name], *res.conf_int().loc[name]]
        np.testing.assert_allclose(numbers, wanted, rtol=THREE_DIGITS)
    assert "[0.05 " in str(res.summary(alpha=0.1))
    assert "0.95]" in str(res.summary(alpha=0.1))


def test_summary_as_html_and_latex(results):
    summary = results.summary()
    html, latex = summary.as_html(), summary.as_latex()
    assert html.count("<table") >= 2
    assert "Bayesian Ridge Regression" in html
    assert r"\begin{tabular}" in latex
    assert "Df Model" in latex
    assert "Notes" in html
    assert "," in summary.as_csv()


def test_attributes_of_both_families(results):
    assert results.method in ("em", "exact", "fixed")
    assert results.converged is True
    assert isinstance(results.n_iter, int)
    assert results.nobs == results.model.nobs
    assert results.solver in ("gram", "dual", "svd")


def test_what_is_read_twice_is_the_same_object(frame):
    res = BayesRidge(*frame).fit()
    assert res.arrays.bse is res.arrays.bse
    np.testing.assert_array_equal(res.bse, res.bse)


def test_weights_of_new_rows(frame):
    res = BayesRidge(*frame).fit()
    new = frame[1].iloc[:2]
    plain = res.get_prediction(new)
    heavy = res.get_prediction(new, weights=[4.0, 1.0])
    np.testing.assert_allclose(heavy.var_resid, plain.var_resid / [4.0, 1.0], rtol=SAME)
    with pytest.raises(ValueError, match="weights has 3 entries for 2 rows"):
        res.get_prediction(new, weights=[1, 2, 3])
    with pytest.raises(ValueError, match="weights must be positive"):
        res.get_prediction(new, weights=[1, 0])


@pytest.mark.parametrize(
    "name", ["summary", "params", "conf_int", "inclusion_prob", "odds_ratios", "lambda_", "report"]
)
@pytest.mark.parametrize("options", [{}, {"family": "binomial"}])
@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_a_model_that_is_asked_for_results_says_that_it_has_to_be_fitted(model, options, name):
    made = model([0.0, 1.0, 1.0, 0.0], [[1.0], [2.0], [3.0], [4.0]], **options)
    with pytest.raises(AttributeError, match=rf"{name} is of the results, not of the model: call fit\(\) first"):
        getattr(made, name)
    assert not hasattr(made, name)


def test_a_model_has_no_other_attributes_and_can_be_copied():
    made = BayesRidge([0.0, 1.0, 1.0], [[1.0], [2.0], [4.0]])
    with pytest.raises(AttributeError, match="'BayesRidge' object has no attribute 'sumary'"):
        _ = made.sumary
    for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(copied.exog, made.exog)
