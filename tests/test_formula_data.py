"""Formulas: levels and types of new rows, kinds of data, names of columns."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula as smf
from formulaic import Formula
from formulaic.errors import FormulaicError

from pybayesridge import BayesRidge
from tests.problems import rows_of_two_kinds
from tests.test_formula import SAME


@pytest.fixture
def data():
    return rows_of_two_kinds()


def test_level_that_the_fit_has_not_seen(data):
    res = BayesRidge.from_formula("y ~ x1 + g", data).fit()
    new = data.iloc[:3].copy()
    new.iloc[1, new.columns.get_loc("g")] = "huge"
    with pytest.raises(ValueError, match=r"level.*huge"):
        res.predict(new)
    with pytest.raises(ValueError, match=r"level.*huge"):
        res.get_prediction(new)


def test_fewer_levels_at_prediction(data):
    res = BayesRidge.from_formula("y ~ x1 + C(k) + g", data).fit()
    some = data[(data["g"] == "mid") & (data["k"] == 2)]
    np.testing.assert_allclose(res.predict(some), res.fittedvalues.loc[some.index], rtol=1e-10)


def test_categorical_columns(data):
    data["g"] = pd.Categorical(data["g"], categories=["low", "mid", "high", "never"])
    res = BayesRidge.from_formula("y ~ x1 + g", data).fit()
    assert "g[T.mid]" in res.params.index
    np.testing.assert_allclose(res.predict(data.iloc[:5]), res.fittedvalues.iloc[:5], rtol=1e-10)


def test_boolean_columns(data):
    data["b"] = data["x1"] > 2
    res = BayesRidge.from_formula("y ~ b + x2", data).fit()
    plain = BayesRidge.from_formula("y ~ b + x2", data.assign(b=data["b"].astype(float))).fit()
    np.testing.assert_allclose(res.fittedvalues, plain.fittedvalues, rtol=SAME)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "string"])
def test_nullable_dtypes(dtype, data):
    plain = data.copy()
    plain["v"] = data["g"] if dtype == "string" else data["k"] % 2
    given = plain.astype({"v": dtype})
    res = BayesRidge.from_formula("y ~ v + x1", given).fit()
    wanted = BayesRidge.from_formula("y ~ v + x1", plain).fit()
    np.testing.assert_allclose(res.fittedvalues, wanted.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(res.predict(given.iloc[:4]), wanted.predict(plain.iloc[:4]), rtol=SAME)
    given.iloc[2, given.columns.get_loc("v")] = pd.NA
    assert BayesRidge.from_formula("y ~ v + x1", given).fit().nobs == len(data) - 1
    assert res.predict(given.iloc[:4]).isna().tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    "formula", ["y ~ x1 + missing", "nowhere ~ x1", "y ~ twice(missing)", "y ~ bs(missing, df=4)"]
)
def test_variable_that_the_data_lack(formula, data):
    with pytest.raises((FormulaicError, ValueError), match=r"missing|nowhere"):
        BayesRidge.from_formula(formula, data).fit()


def test_variable_that_new_data_lack(data):
    res = BayesRidge.from_formula("y ~ x1 + bs(x2, df=4)", data).fit()
    with pytest.raises(ValueError, match=r"new data lack the variable\(s\) 'x2'"):
        res.predict(data[["x1"]])
    assert res.predict(data[["x1", "x2"]]).notna().all()


@pytest.mark.parametrize("formula", ["y ~ x1 +", "y ~ (x1", "y ~ x1 ~ x2"])
def test_formula_that_cannot_be_parsed(formula, data):
    with pytest.raises((FormulaicError, ValueError, SyntaxError)):
        BayesRidge.from_formula(formula, data)


def test_formula_without_left_hand_side(data):
    with pytest.raises(ValueError, match="no left-hand side: write 'y ~ …'"):
        BayesRidge.from_formula("~ x1", data)
    with pytest.raises(ValueError, match="no left-hand side"):
        BayesRidge.from_formula("x1 + x2", data)


def test_factor_on_the_left(data):
    with pytest.raises(ValueError, match=r"left-hand side.*is a factor"):
        BayesRidge.from_formula("g ~ x1", data)


def test_new_rows_with_missing_values_keep_their_place(data):
    res = BayesRidge.from_formula("y ~ center(x1) + g", data).fit()
    new = data.iloc[:5].copy()
    new.index = ["a", "b", "a", "c", "d"]
    new.iloc[1, new.columns.get_loc("x1")] = np.nan
    new.iloc[3, new.columns.get_loc("g")] = None
    mean = res.predict(new)
    assert list(mean.index) == ["a", "b", "a", "c", "d"]
    assert mean.isna().tolist() == [False, True, False, True, False]
    np.testing.assert_allclose(mean.iloc[[0, 2, 4]], res.fittedvalues.iloc[[0, 2, 4]], rtol=1e-10)
    frame = res.get_prediction(new).summary_frame()
    assert frame.isna().all(axis=1).tolist() == [False, True, False, True, False]
    assert list(frame.index) == ["a", "b", "a", "c", "d"]
    assert res.predict(new.iloc[[1, 3]]).isna().all()


def test_response_is_not_needed_at_prediction(data):
    res = BayesRidge.from_formula("np.log(y) ~ x1 + g", data).fit()
    new = data.drop(columns="y").iloc[:4]
    np.testing.assert_allclose(res.predict(new), res.fittedvalues.iloc[:4], rtol=1e-10)


def test_rows_may_be_given_as_columns_of_the_design(data):
    res = BayesRidge.from_formula("y ~ x1 + g", data).fit()
    design = Formula("x1 + g").get_model_matrix(data).iloc[:4, 1:].astype(float)
    np.testing.assert_allclose(res.predict(design, transform=False), res.fittedvalues.iloc[:4], rtol=1e-10)


@pytest.mark.parametrize("kind", ["dict", "dict of lists", "polars", "polars lazy dtypes"])
def test_other_kinds_of_data(kind, data):
    columns = ["y", "x1", "x2", "g", "w"]
    if kind.startswith("polars"):
        polars = pytest.importorskip("polars")
        given = polars.DataFrame({name: data[name].tolist() for name in columns})
        if kind.endswith("dtypes"):
            given = given.with_columns(
                polars.col("g").cast(polars.Categorical), polars.col("x1").cast(polars.Float32)
            )
            data = data.astype({"x1": "float32"})
    elif kind == "dict":
        given = {name: data[name].to_numpy() for name in columns}
    else:
        given = {name: data[name].tolist() for name in columns}
    formula = "np.log(y) ~ x1 + bs(x2, df=4) + C(g)"
    res = BayesRidge.from_formula(formula, given, weights="w").fit()
    wanted = BayesRidge.from_formula(formula, data, weights="w").fit()
    np.testing.assert_allclose(res.params, wanted.params, rtol=1e-7)
    assert list(res.params.index) == list(wanted.params.index)
    new = given.head(5) if kind.startswith("polars") else {name: given[name][:5] for name in columns}
    np.testing.assert_allclose(res.predict(new), wanted.fittedvalues.iloc[:5], rtol=1e-7)
    assert res.get_prediction(new).summary_frame().shape == (5, 6)


def test_polars_arrays():
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    y = x.sum(axis=1) + rng.normal(size=30)
    res = BayesRidge(polars.Series("target", y), polars.DataFrame(x, schema=["a", "b", "c"])).fit()
    plain = BayesRidge(y, x).fit()
    np.testing.assert_allclose(res.params, plain.params, rtol=SAME)
    assert list(res.params.index) == ["const", "a", "b", "c"]
    assert res.model.endog_names == "target"
    np.testing.assert_allclose(
        res.predict(polars.DataFrame(x[:4], schema=["a", "b", "c"])), plain.fittedvalues.iloc[:4], rtol=SAME
    )
    np.testing.assert_allclose(
        res.predict(polars.DataFrame(x[:4, ::-1], schema=["c", "b", "a"])), plain.fittedvalues.iloc[:4], rtol=SAME
    )


def test_several_targets(data):
    res = BayesRidge.from_formula("y + np.log(y) ~ x1 + g", data).fit()
    assert list(res.params.columns) == ["y", "np.log(y)"]
    alone = BayesRidge.from_formula("np.log(y) ~ x1 + g", data).fit()
    np.testing.assert_allclose(res.params["np.log(y)"], alone.params, rtol=SAME)
    assert list(res.predict(data.iloc[:2]).columns) == ["y", "np.log(y)"]


@pytest.fixture(params=["patsy", "formulaic"])
def engine(request):
    if not hasattr(smf, "options"):
        pytest.skip("this statsmodels has one formula engine only")
    before = smf.options.formula_engine
    smf.options.formula_engine = request.param
    yield request.param
    smf.options.formula_engine = before


def test_statsmodels_engine_does_not_matter(engine, data):
    formula = "np.log(y) ~ x1 + bs(x2, df=4) + C(g)"
    res = BayesRidge.from_formula(formula, data).fit()
    assert list(res.params.index)[-2:] == ["C(g)[T.low]", "C(g)[T.mid]"]
    back = pickle.loads(pickle.dumps(res))
    smf.options.formula_engine = "patsy" if engine == "formulaic" else "formulaic"
    for results in (res, back):
        np.testing.assert_allclose(results.predict(data.iloc[:4]), res.fittedvalues.iloc[:4], rtol=1e-10)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(back)).predict(data.iloc[:4]), res.fittedvalues.iloc[:4])


def test_the_data_are_not_changed(data):
    before = data.copy()
    BayesRidge.from_formula("np.log(y) ~ x1 + bs(x2, df=4) + C(g)", data, weights="w").fit().predict(data)
    pd.testing.assert_frame_equal(data, before)


def test_column_names_that_are_no_identifiers(data):
    named = data.rename(columns={"x1": "body mass (kg)", "x2": "x.2"})
    res = BayesRidge.from_formula("y ~ `body mass (kg)` + `x.2`", named).fit()
    plain = BayesRidge.from_formula("y ~ x1 + x2", data).fit()
    np.testing.assert_allclose(res.params, plain.params, rtol=SAME)
    named.iloc[0, named.columns.get_loc("body mass (kg)")] = np.nan
    assert BayesRidge.from_formula("y ~ `body mass (kg)`", named).fit().nobs == len(data) - 1


def test_column_that_shares_its_name_with_a_function(data):
    named = data.rename(columns={"x1": "scale", "x2": "C"})
    res = BayesRidge.from_formula("y ~ scale + C", named).fit()
    plain = BayesRidge.from_formula("y ~ x1 + x2", data).fit()
    np.testing.assert_allclose(res.params, plain.params, rtol=SAME)


def test_data_of_the_fit_are_remembered_for_the_summary(data):
    res = BayesRidge.from_formula("np.log(y) ~ x1 + g", data).fit()
    assert "np.log(y)" in str(res.summary())
    assert res.model.formula == "np.log(y) ~ x1 + g"


@pytest.mark.parametrize("formula", ["y ~ .", "y ~ x + .", "y ~ (.)**2", "y ~ x + `1`"])
def test_column_that_a_formula_takes_for_the_intercept(formula):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["y", "x", "1"])
    with pytest.raises(ValueError, match="a column named '1', which a formula takes for the intercept: rename it"):
        BayesRidge.from_formula(formula, frame)


@pytest.mark.parametrize("formula", ["y ~ x + 1", "y ~ np.log(x + 9.5)", "y ~ I(x * .5)", "y ~ x"])
def test_column_named_1_that_is_not_meant(formula):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["y", "x", "1"])
    assert len(BayesRidge.from_formula(formula, frame).exog_names) == 2
