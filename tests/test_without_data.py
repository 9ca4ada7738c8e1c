"""Fits from which the data were removed: the same hyperparameters and draws, in a small file."""

import pickle

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from tests.problems import regression
from tests.test_results import SAME


@pytest.mark.parametrize("shape", [(30, 4), (12, 30)])
@pytest.mark.parametrize("fit", [{"method": "em"}, {"method": "exact"}, {"method": "fixed", "lam": 1.0}])
def test_hyperparameters_and_draws_without_data(fit, shape):
    y, x = regression(*shape, noise=0.3)
    res = BayesRidge(y, x).fit(**fit)
    before, draws = res.hyperparameters(), res.sample(5, rng=0, hyper_columns=True)
    text = str(res.summary())
    res.remove_data()
    pd.testing.assert_frame_equal(res.hyperparameters(), before)
    pd.testing.assert_frame_equal(res.sample(5, rng=0, hyper_columns=True), draws)
    assert str(res.summary()) == text


@pytest.mark.parametrize("method", ["em", "exact"])
def test_hyperparameters_and_draws_are_the_same_without_data(method):
    y, x = regression(40, 4, noise=0.5)
    res = BayesRidge(y, x).fit(method)
    table, draws = res.hyperparameters(), res.sample(5, rng=1, hyper_columns=True)
    res.remove_data()
    pd.testing.assert_frame_equal(res.hyperparameters(), table, rtol=SAME)
    pd.testing.assert_frame_equal(res.sample(5, rng=1, hyper_columns=True), draws, rtol=SAME)


@pytest.mark.parametrize("shape", [(5000, 4), (20, 500)])
def test_a_fit_without_data_is_small(shape):
    y, x = regression(*shape, noise=0.3)
    res = BayesRidge(y, pd.DataFrame(x), weights=np.linspace(1, 2, shape[0])).fit()
    full = len(pickle.dumps(res))
    res.remove_data()
    small = len(pickle.dumps(res))
    if shape[0] > shape[1]:
        assert small < 20_000 < full
    else:
        # Beside V itself there is next to nothing.
        assert small < 8 * x.size + 40 * shape[1] * 8


def test_without_data_after_a_formula():
    y, x = regression(60, 2)
    data = pd.DataFrame({"y": y, "a": x[:, 0], "b": x[:, 1], "g": np.tile(["u", "v", "w"], 20)})
    res = BayesRidge.from_formula("y ~ a + bs(b, df=4) + g", data).fit()
    new = data.iloc[:5]
    before = res.get_prediction(new).summary_frame()
    res.remove_data()
    back = pickle.loads(pickle.dumps(res))
    pd.testing.assert_frame_equal(back.get_prediction(new).summary_frame(), before, rtol=1e-10)
    with pytest.raises(ValueError, match="level"):
        back.predict(new.assign(g="new"))
