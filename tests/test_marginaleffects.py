"""Fits as models of the Python package marginaleffects, beside our own effects and predictions."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab

polars = pytest.importorskip("polars")
if not polars.__version__.startswith("1."):
    pytest.skip("marginaleffects 0.6 needs polars 1", allow_module_level=True)
me = pytest.importorskip("marginaleffects")

pytestmark = pytest.mark.filterwarnings("ignore:.*get_categories")

SAME = 1e-9
"""Linear functions of posterior means."""

PLUG_IN = 5e-6
"""Derivatives by one difference, of step 1e-5 on data of unit scale."""

MIXTURE = 1e-5

MCSES = 5
"""Monte Carlo standard errors of ours for averages of probabilities."""

NAMES = ["ridge", "selection", "binary ridge", "binary selection"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    out = pd.DataFrame(rng.normal(size=(70, 2)), columns=["a", "b"])
    out["g"] = rng.choice(["u", "v", "w"], 70)
    out["k"] = rng.choice([1, 2], 70)
    out["y"] = out["a"] + (out["g"] == "v") + rng.normal(size=70)
    out["event"] = (out["y"] > 0).astype(int)
    return out


@pytest.fixture(scope="module")
def fits(frame):
    formula = "~ a * g + b + C(k)"
    models = {"ridge": BayesRidge, "selection": SpikeSlab}
    out = {name: model.from_formula("y" + formula, frame).fit() for name, model in models.items()}
    binary = {name: model.from_formula("event" + formula, frame, family="binomial") for name, model in models.items()}
    return out | {"binary ridge": binary["ridge"].fit(), "binary selection": binary["selection"].fit(mcse=0.1)}


def close(found, ours, name, tol=SAME):
    wanted = ours["mean"].to_numpy()
    # What is left out of a mixture of normals moves means of probabilities by less than this.
    atol = np.maximum(MCSES * ours["mcse"].to_numpy(), MIXTURE) if "mcse" in ours else tol
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= atol + tol).all(), (name, found, wanted)


@pytest.mark.every_case
@pytest.mark.parametrize("name", NAMES)
def test_estimates_are_those_of_our_own_methods(fits, name):
    res = fits[name]
    model = res.to_marginaleffects()
    grid = me.datagrid(model, a=[0.0, 1.0], b=[0.3], g=["v"], k=["2"])
    found = me.predictions(model, newdata=grid)
    close(found["estimate"].to_numpy(), res.predictions({"a": [0.0, 1.0], "b": [0.3], "g": ["v"], "k": [2]}), name)
    assert "p_value" not in found.columns
    assert "conf_low" not in found.columns
    slopes = me.avg_slopes(model, eps=1e-5)
    for variable, contrasts in (("a", ["dY/dX"]), ("g", ["v - u", "w - u"])):
        rows = slopes.filter((polars.col("term") == variable) & polars.col("contrast").is_in(contrasts))
        close(rows.sort("contrast")["estimate"].to_numpy(), res.effects(variable), name, PLUG_IN)
    step = me.avg_comparisons(model, variables={"a": [0, 1]})
    close(step["estimate"].to_numpy(), res.effects("a", values=(0.0, 1.0)), name)


def test_a_covariance_that_is_asked_for_gives_normal_intervals(fits):
    res = fits["ridge"]
    model = res.to_marginaleffects()
    found = me.avg_predictions(model, by="g", vcov=np.asarray(res.cov_params()))
    rows = {
        level: np.asarray(model.get_exog(model.get_modeldata().filter(polars.col("g") == level))) for level in "uvw"
    }
    weights = np.stack([rows[level].mean(axis=0) for level in found["g"].to_list()])
    wanted = np.sqrt(np.einsum("ij,jk,ik->i", weights, np.asarray(res.cov_params()), weights))
    np.testing.assert_allclose(found["std_error"].to_numpy(), wanted, rtol=1e-5)
    with pytest.raises(ValueError, match="cov_params"):
        me.avg_predictions(model, vcov="HC3")


def test_arrays_and_other_rows(frame):
    res = BayesRidge(frame["y"], frame[["a", "b"]]).fit()
    model = res.to_marginaleffects()
    found = me.avg_slopes(model)
    np.testing.assert_allclose(found.sort("term")["estimate"].to_numpy(), res.params[["a", "b"]], rtol=1e-6)
    some = frame[["a", "b"]].iloc[:5]
    average = me.avg_predictions(res.to_marginaleffects(data=some))["estimate"].to_numpy()
    np.testing.assert_allclose(average, [res.predict(some).mean()], rtol=SAME)


def test_what_cannot_be_done(frame):
    two = BayesRidge(frame[["y", "b"]], frame[["a"]]).fit()
    with pytest.raises(ValueError, match="one by one"):
        two.to_marginaleffects()
    one = BayesRidge.from_formula("y ~ a", frame).fit()
    removed = one.remove_data() or one
    with pytest.raises(ValueError, match="data="):
        removed.to_marginaleffects()
