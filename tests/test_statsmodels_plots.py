"""statsmodels' functions on our results: the column that was named, or a sentence."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse
from statsmodels.tools.sm_exceptions import ValueWarning

from pybayesridge import BayesRidge, SpikeSlab

SAME = 1e-9

NAMES = ["educ", "age", "tenure"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)) * [1, 10, 100] + [12, 40, 300], columns=NAMES)
    frame["wage"] = frame["educ"] + 0.1 * frame["age"] + rng.normal(size=40)
    return frame


def fits(data):
    x, y = data[NAMES], data["wage"]
    return {
        "formula": BayesRidge.from_formula("wage ~ educ + age + tenure", data).fit("exact"),
        "arrays": BayesRidge(y, x).fit(),
        "own constant": BayesRidge(y, sm.add_constant(x)).fit(),
        "own constant, last": BayesRidge(y, sm.add_constant(x, prepend=False)).fit(),
        "no intercept": BayesRidge(y, x, intercept=False).fit(),
        "spike and slab": SpikeSlab.from_formula("wage ~ educ + age + tenure", data).fit(),
    }


@pytest.fixture(scope="module", params=range(6))
def res(request, data):
    return list(fits(data).values())[request.param]


@pytest.fixture(autouse=True)
def _figures():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield
    plt.close("all")


def test_exog_has_the_columns_of_its_names(res, data):
    model = res.model
    assert model.exog.shape == (40, len(model.exog_names))
    for j, name in enumerate(model.exog_names):
        wanted = data[name] if name in data else np.ones(40)
        np.testing.assert_array_equal(model.exog[:, j], wanted)
    np.testing.assert_allclose(model.exog @ res.params, res.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(model.predict(res.params, model.exog), res.fittedvalues, rtol=SAME)


def test_predictions_at_the_models_own_columns(data):
    res = BayesRidge(data["wage"], data[NAMES]).fit()
    np.testing.assert_allclose(res.predict(res.model.exog), res.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(res.get_prediction(res.model.exog).se, res.get_prediction().se, rtol=SAME)
    with pytest.raises(ValueError, match="4 columns for 3 of the fit"):
        res.predict(2 * res.model.exog)


def test_the_copy_is_made_late_and_not_pickled(data):
    model = BayesRidge(data["wage"], data[NAMES])
    res = model.fit("exact")
    _ = res.fittedvalues, res.summary(), res.predict(), res.get_prediction()
    assert model._with_intercept is None
    first = model.exog
    assert model.exog is first
    back = pickle.loads(pickle.dumps(model))
    assert back._with_intercept is None
    np.testing.assert_array_equal(back.exog, first)
    res.remove_data()
    assert model.exog is None
    assert model._with_intercept is None
    own = BayesRidge(data["wage"], sm.add_constant(data[NAMES]))
    assert own.exog is own.data.exog


def test_other_types_of_columns(data):
    y = data["wage"]
    single = BayesRidge(y, data[NAMES].to_numpy(dtype=np.float32)).exog
    assert single.dtype == np.float32
    whole = BayesRidge(y, data[NAMES].round().astype(int)).exog
    assert whole.dtype == np.float64
    csc = BayesRidge(y.to_numpy(), sparse.csc_matrix(data[NAMES].to_numpy()))
    assert sparse.issparse(csc.exog)
    np.testing.assert_array_equal(csc.exog.toarray()[:, 0], np.ones(40))
    fit = csc.fit()
    np.testing.assert_allclose(fit.predict(csc.exog), fit.fittedvalues, rtol=SAME)
    with pytest.raises(ValueError, match="cannot be replaced"):
        csc.exog = np.zeros((40, 4))


def points(ax):
    return np.column_stack(ax.lines[0].get_data())


def test_plot_ccpr(res, data):
    for name in NAMES:
        figure = sm.graphics.plot_ccpr(res, name)
        wanted = np.column_stack([data[name], data[name] * res.params[name] + res.resid])
        np.testing.assert_allclose(points(figure.axes[0]), wanted, rtol=SAME)
        assert figure.axes[0].get_xlabel() == name


def test_plot_fit_without_intervals(res, data):
    figure = sm.graphics.plot_fit(res, "age", vlines=False)
    order = np.argsort(data["age"].to_numpy())
    np.testing.assert_allclose(points(figure.axes[0]), data[["age", "wage"]].to_numpy()[order], rtol=SAME)
    fitted = np.column_stack(figure.axes[0].lines[1].get_data())
    np.testing.assert_allclose(fitted, np.column_stack([data["age"], res.fittedvalues])[order], rtol=SAME)


def test_plot_partregress_grid(res, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValueWarning)
        figure = sm.graphics.plot_partregress_grid(res, exog_idx=["educ", "age", "tenure"])
    others = np.delete(res.model.exog, res.model.exog_names.index("age"), axis=1)
    wanted = [data[name] - others @ np.linalg.lstsq(others, data[name], rcond=None)[0] for name in ("age", "wage")]
    np.testing.assert_allclose(points(figure.axes[1]), np.column_stack(wanted), atol=1e-8)


def test_plot_ccpr_grid(res, data):
    figure = sm.graphics.plot_ccpr_grid(res, exog_idx=["age", "educ"])
    for ax, name in zip(figure.axes, ["age", "educ"], strict=True):
        wanted = np.column_stack([data[name], data[name] * res.params[name] + res.resid])
        np.testing.assert_allclose(points(ax), wanted, rtol=SAME)


@pytest.mark.parametrize("function", ["plot_fit", "plot_regress_exog"])
def test_intervals_of_least_squares_are_refused(res, function):
    with pytest.raises(AttributeError, match=r"no mse_resid.*use get_prediction\(\)\.summary_frame\(\)"):
        getattr(sm.graphics, function)(res, "age")


@pytest.mark.parametrize("function", ["influence_plot", "plot_leverage_resid2"])
def test_influence_on_least_squares_is_refused(res, function):
    with pytest.raises(ValueError, match="say nothing of this fit: use plot_residuals"):
        getattr(sm.graphics, function)(res)
