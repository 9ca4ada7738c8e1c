"""Models, results and predictions have what those of statsmodels have, without being instances of its classes."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.base.model import Model, Results
from statsmodels.base.wrapper import ResultsWrapper

from pybayesridge import BayesRidge, SpikeSlab

# A distribution and its degrees of freedom would say how to make an interval, wrongly: it is no normal or t quantile.
NOT_OF_A_POSTERIOR = {"df", "dist", "dist_args"}

SAME = 1e-12


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((40, 3)), columns=["a", "b", "y"], index=[f"row {i}" for i in range(40)])
    frame["y"] += frame["a"]
    return frame


@pytest.fixture(scope="module", params=["arrays", "formula", "selection", "yes/no", "two targets"])
def res(request, data):
    x, y = data[["a", "b"]], data["y"]
    if request.param == "formula":
        return BayesRidge.from_formula("y ~ a + b", data).fit()
    if request.param == "selection":
        return SpikeSlab(y, x).fit()
    if request.param == "yes/no":
        return BayesRidge(y > 0, x, family="binomial").fit()
    return BayesRidge(data[["y", "b"]] if request.param == "two targets" else y, x[["a"]]).fit()


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_public_names(res, data):
    own = Model(data["y"].to_numpy(), data[["a"]].to_numpy())
    assert public(own) | set(vars(own)) - {"_data_attr", "_init_keys"} <= set(dir(res.model))
    wrapped = Results(own, np.zeros(1))
    # `initialize` fills results that exist: ours are made once.
    assert public(wrapped) - {"initialize"} <= set(dir(res))
    assert public(ResultsWrapper) <= set(dir(type(res)))


def test_names_of_predictions(data):
    own = sm.OLS(data["y"], data[["a"]]).fit().get_prediction()
    ours = BayesRidge(data["y"], data[["a"]], intercept=False).fit("fixed", lam=0.0).get_prediction()
    assert public(own) - NOT_OF_A_POSTERIOR - {"t_test", "tvalues", "pvalues", "p_values"} <= public(ours)
    np.testing.assert_allclose(ours.predicted, own.predicted, rtol=SAME)
    np.testing.assert_array_equal(ours.predicted, ours.predicted_mean)
    np.testing.assert_array_equal(ours.var_pred, ours.se**2)
    np.testing.assert_array_equal(ours.se_mean, ours.se)
    np.testing.assert_allclose(ours.se_obs**2, ours.var_pred_mean + ours.var_resid, rtol=SAME)
    assert list(ours.summary_frame().columns) == list(own.summary_frame().columns)


def test_names_of_columns_and_response(data):
    own, ours = sm.OLS(data["y"], sm.add_constant(data[["a", "b"]])), BayesRidge(data["y"], data[["a", "b"]])
    assert ours.exog_names == own.exog_names
    assert ours.endog_names == own.endog_names
    assert ours.k_constant == own.k_constant == 1
    np.testing.assert_array_equal(ours.exog, own.exog)
    np.testing.assert_array_equal(ours.endog, own.endog)


def test_arrays_are_what_is_labelled(res):
    inner = res._results
    for name in ("params", "bse", "fittedvalues", "resid", "prob_positive"):
        assert isinstance(getattr(res, name), pd.Series | pd.DataFrame)
        assert isinstance(getattr(inner, name), np.ndarray)
        np.testing.assert_array_equal(getattr(res, name), getattr(inner, name))
    assert inner.model is res.model
    for name in public(ResultsWrapper):
        assert callable(getattr(res, name))
    for one in (res, inner):
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = one.no_such_name


def test_what_users_change_is_their_own(res):
    before = np.array(res.params)
    changed = res.params
    changed.iloc[0] = 7.0
    np.testing.assert_array_equal(res.params, before)


def test_pickles(res):
    again = pickle.loads(pickle.dumps(res))
    assert type(again) is type(res)
    assert vars(again).keys() == vars(res).keys()
    np.testing.assert_array_equal(again.params, res.params)
