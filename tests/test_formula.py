"""Formulas: what formulaic makes of them, and the traps around it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from formulaic import Formula
from formulaic.errors import FormulaicError

from pybayesridge import BayesRidge, DataWarning, SpikeSlab
from tests.oracle import Oracle
from tests.problems import rows_of_two_kinds

SAME = 1e-9
"""Two designs with the same columns, fitted twice."""


def twice(x):
    """A function of the user's, at module level so that it can be pickled."""
    return 2 * x


@pytest.fixture
def data():
    return rows_of_two_kinds()


FORMULAS = [
    "y ~ x1 + x2",
    "y ~ x1 + C(g)",
    "y ~ g + x1",
    "y ~ g * x1",
    "y ~ C(k) + x1:x2",
    "y ~ bs(x2, df=4) + x1",
    "y ~ bs(x2, df=5, degree=2) + C(g):x1",
    "y ~ poly(x1, 3)",
    "np.log(y) ~ x1 + np.sin(x2)",
    "y ~ I(x1**2) + x1",
    "y ~ 0 + x1 + g",
    "y ~ x1 + x2 - 1",
    "y ~ center(x1) + scale(x2)",
    "y ~ twice(x1) + x2",
    "np.log(y) ~ x1 + bs(x2, df=4) + C(g, contr.sum)",
    "y ~ {x1 + x2} + x3",
    "y ~ `x1` + `x2`",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_design_and_fit(formula, data):
    res = BayesRidge.from_formula(formula, data, prior="half-cauchy").fit("em")
    both = Formula(formula).get_model_matrix(data, context=globals())
    lhs, rhs = both.lhs, both.rhs
    assert list(res.params.index) == list(rhs.columns)
    x = rhs.to_numpy(dtype=float)
    intercept = "Intercept" in rhs.columns
    split = int(intercept)
    oracle = Oracle(lhs.to_numpy(dtype=float)[:, 0], x[:, :split], x[:, split:])
    assert abs(np.log(res.tau2) - oracle.mode()) < SAME
    np.testing.assert_allclose(res.params, oracle.coefficients(res.lambda_), rtol=1e-6)
    assert list(res.fittedvalues.index) == list(data.index)
    assert res.model.endog_names == lhs.columns[0]


@pytest.mark.parametrize("formula", FORMULAS)
def test_prediction_of_new_rows_uses_the_coding_of_the_fit(formula, data):
    res = BayesRidge.from_formula(formula, data).fit()
    some = data.iloc[[5, 2, 77]]
    np.testing.assert_allclose(res.predict(some), res.fittedvalues.iloc[[5, 2, 77]], rtol=1e-10)
    assert list(res.predict(some).index) == list(some.index)
    frame = res.get_prediction(some).summary_frame()
    own = res.get_prediction().summary_frame().iloc[[5, 2, 77]]
    pd.testing.assert_frame_equal(frame, own, rtol=1e-8)
    single = res.predict(some.iloc[0])
    np.testing.assert_allclose(single, res.fittedvalues.iloc[[5]], rtol=1e-10)


@pytest.mark.parametrize("formula", FORMULAS)
def test_pickling_does_not_evaluate_the_formula(formula, data):
    res = BayesRidge.from_formula(formula, data).fit()
    back = pickle.loads(pickle.dumps(res))
    some = data.iloc[:3]
    pd.testing.assert_series_equal(back.predict(some), res.predict(some))
    pd.testing.assert_frame_equal(back.get_prediction(some).summary_frame(), res.get_prediction(some).summary_frame())
    assert str(back.summary()).splitlines()[2:] == str(res.summary()).splitlines()[2:]


def test_names_of_the_callers_scope(data):
    factor = 3.0

    def thrice(x):
        return factor * x

    res = BayesRidge.from_formula("y ~ thrice(x1) + I(factor * x2)", data).fit()
    plain = BayesRidge.from_formula("y ~ x1 + x2", data).fit()
    np.testing.assert_allclose(res.params.iloc[1:], plain.params.iloc[1:] / 3, rtol=SAME)
    np.testing.assert_allclose(res.predict(data.iloc[:4]), plain.predict(data.iloc[:4]), rtol=SAME)

    def elsewhere(results):
        # The names of the fit hold, whatever is called so where predict is called.
        factor = 100.0
        return results.predict(data.iloc[:4]) * (factor / 100.0)

    np.testing.assert_allclose(elsewhere(res), plain.predict(data.iloc[:4]), rtol=SAME)


def test_from_formula_through_a_helper_sees_the_helpers_names(data):
    def helper():
        power = 2  # noqa: F841
        return BayesRidge.from_formula("y ~ I(x1 ** power)", data).fit()

    assert list(helper().params.index) == ["Intercept", "I(x1 ** power)"]


@pytest.mark.parametrize("index", ["duplicate", "range", "dates", "multi"])
def test_index_and_missing_rows(index, data):
    n = len(data)
    data.index = {
        "duplicate": pd.Index(["a", "b", "c"] * (n // 3)),
        "range": pd.RangeIndex(n),
        "dates": pd.date_range("2020-01-01", periods=n),
        "multi": pd.MultiIndex.from_product([range(n // 2), ["u", "v"]]),
    }[index]
    holes = data.copy()
    at = {name: holes.columns.get_loc(name) for name in holes.columns}
    holes.iloc[3, at["x1"]] = np.nan
    holes.iloc[10, at["y"]] = np.nan
    holes.iloc[20, at["g"]] = None
    holes.iloc[30, at["w"]] = np.nan
    holes.iloc[40, at["x3"]] = np.nan  # not in the formula
    keep = np.delete(np.arange(n), [3, 10, 20, 30])
    res = BayesRidge.from_formula("y ~ center(x1) + g", holes, weights="w").fit()
    complete = BayesRidge.from_formula("y ~ center(x1) + g", data.iloc[keep], weights="w").fit()
    np.testing.assert_allclose(res.params, complete.params, rtol=SAME)
    pd.testing.assert_index_equal(res.fittedvalues.index, data.index[keep])
    pd.testing.assert_index_equal(res.resid.index, data.index[keep])
    assert res.nobs == n - 4
    assert "4 row(s) with missing values were left out" in str(res.summary())


def test_missing_values_may_be_refused(data):
    data.iloc[[3, 4], 0] = np.nan
    with pytest.raises(ValueError, match=r"missing values in 'x1' \(2\)"):
        BayesRidge.from_formula("y ~ x1 + x2", data, missing="raise")
    assert BayesRidge.from_formula("y ~ x2", data, missing="raise").fit().nobs == len(data)


def test_every_row_missing(data):
    data["x1"] = np.nan
    with pytest.raises(ValueError, match=r"every row has a missing value.*'x1' \(90\)"):
        BayesRidge.from_formula("y ~ x1", data)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:divide by zero:RuntimeWarning")
def test_transform_that_makes_nan_is_told(data):
    data["x1"] = data["x1"].abs() + 0.1
    data.iloc[[0, 7], data.columns.get_loc("x1")] = -5.0
    with pytest.warns(DataWarning, match=r"rows in which 'np\.log\(x1\)' \(2\) is not a number were left out"):
        res = BayesRidge.from_formula("y ~ np.log(x1) + x2", data, weights="w").fit()
    assert (res.nobs, res.model.data.n_dropped) == (len(data) - 2, 2)
    kept = BayesRidge.from_formula("y ~ np.log(x1) + x2", data[data["x1"] > 0], weights="w").fit()
    pd.testing.assert_series_equal(res.fittedvalues, kept.fittedvalues)
    with pytest.raises(ValueError, match=r"missing values in 'np\.log\(x1\)' \(2\)"):
        BayesRidge.from_formula("y ~ np.log(x1) + x2", data, missing="raise")
    data.iloc[9, data.columns.get_loc("x1")] = 0.0
    with pytest.warns(DataWarning), pytest.raises(ValueError, match=r"'np\.log\(x1\)' \(1 infinite\)"):
        BayesRidge.from_formula("y ~ np.log(x1) + x2", data)
    with pytest.raises(ValueError, match="no row has a value"):
        BayesRidge.from_formula("y ~ np.log(-x2 - 1)", data)


@pytest.mark.filterwarnings("ignore:No signal")
@pytest.mark.parametrize("formula", ["y ~ lag(x1, 1) + g", "y + x3 ~ lag(x1, 1) + g", "y ~ {x1.shift(1)} + g"])
@pytest.mark.parametrize("holes", [False, True])
def test_rows_without_a_lag_are_left_out(formula, holes, data):
    if holes:
        data.iloc[10, data.columns.get_loc("x1")] = np.nan
        data.iloc[20, data.columns.get_loc("g")] = None
        data.iloc[30, data.columns.get_loc("w")] = np.nan
    made = BayesRidge.from_formula(formula, data, weights="w")
    by_hand = data.assign(before=data["x1"].shift(1)).dropna(subset=["x1", "before", "g", "w"])
    wanted = BayesRidge.from_formula(formula.split("~")[0] + "~ before + g", by_hand, weights="w")
    assert made.data.n_dropped == len(data) - len(by_hand) == (5 if holes else 1)
    assert list(made.data.row_labels) == list(by_hand.index)
    assert ["before" if "x1" in c else c for c in made.data.exog_columns] == wanted.data.exog_columns
    np.testing.assert_array_equal(made.exog.astype(float), wanted.exog.astype(float))
    np.testing.assert_array_equal(made.endog, wanted.endog)
    np.testing.assert_allclose(made.weights, wanted.weights)
    res = made.fit()
    predicted = np.asarray(res.predict(data))
    np.testing.assert_allclose(predicted[data.index.isin(by_hand.index)], res.fittedvalues, rtol=1e-10)
    left_out = ~data.index.isin(by_hand.index) & data["w"].notna()  # weights are not needed to predict
    assert np.isnan(predicted[left_out]).all()
    with pytest.raises(ValueError, match="missing values"):
        BayesRidge.from_formula(formula, data, missing="raise")


def test_rows_in_which_a_factor_has_no_level_are_left_out(data):
    model = BayesRidge.from_formula("y ~ x1 + lag(g, 1)", data)
    assert model.data.n_dropped == 1
    assert list(model.data.row_labels) == list(data.index[1:])
    before = data["g"].shift(1).iloc[1:]
    dummies = pd.DataFrame(model.data.exog, columns=model.data.exog_columns).filter(like="[T.mid]")
    np.testing.assert_array_equal(dummies.iloc[:, 0], (before == "mid").astype(float))
    assert model.fit().predict(data).isna().tolist() == [True] + [False] * (len(data) - 1)
    with pytest.warns(DataWarning, match="a factor"):
        mapped = BayesRidge.from_formula("y ~ {g.map(dict(low='a', mid='b'))}", data)
    assert mapped.data.n_dropped == (data["g"] == "high").sum()


def test_what_learns_from_all_rows_is_refused_with_missing_values_and_a_lag(data):
    data.iloc[10, data.columns.get_loc("x2")] = np.nan
    with pytest.raises(ValueError, match=r"scale\(x2\)|no row has a value"):
        BayesRidge.from_formula("y ~ lag(x1) + scale(x2, ddof=0)", data)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_factors_with_a_level_for_nearly_every_row_are_told(model, data, tmp_path):
    data["id"] = [f"p{i}" for i in range(len(data))]
    data["price"] = [f"${i + 0.13}" for i in range(len(data))]
    for formula, message in (
        ("y ~ x1 + id", r"factor 'id' has 90 levels in 90 rows.*leave it out \(- id\)"),
        ("y ~ x1 + C(id)", r"factor 'C\(id\)' has 90 levels"),
        ("y ~ x1 + price", r"'price' has 90 levels.*make numbers of values such as '\$0.13'"),
    ):
        with pytest.warns(DataWarning, match=message):
            model.from_formula(formula, data)
    half = data.iloc[: 2 * (len(data) // 2)].assign(id=np.arange(len(data)) // 2)
    model.from_formula("y ~ x1 + C(id)", half)
    pytest.importorskip("pyarrow")
    data.to_parquet(tmp_path / "t.parquet")
    with pytest.warns(DataWarning, match="factor 'id' has 90 levels in 90 rows"):
        model.from_parquet(tmp_path / "t.parquet", "y ~ x1 + id")
    with pytest.raises(ValueError, match=r"lag\(x1, 1\) looks at other rows"):
        model.from_parquet(tmp_path / "t.parquet", "y ~ lag(x1, 1)")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ x1 + X2", r"names 'X2', which is not a column of the data: did you mean 'x2'\?"),
        ("y ~ np.log(x11)", r"names 'x11'.*did you mean 'x1'\?"),
        ("yy ~ x1", r"names 'yy'.*did you mean 'y'\?"),
        ("y ~ units", r"names 'units'.*goes in backticks, `units sold`"),
        ("y ~ units sold + x1", r"cannot be parsed: .*goes in backticks, `units sold`"),
    ],
)
def test_names_that_are_not_there_are_answered_with_the_nearest(formula, message, data):
    data["units sold"] = data["x3"]
    with pytest.raises(ValueError, match=message) as refused:
        BayesRidge.from_formula(formula, data)
    assert isinstance(refused.value, FormulaicError)


def test_unpenalised_interactions_in_any_order(data):
    models = [BayesRidge.from_formula("y ~ x1 * x2", data, unpenalized=[name]) for name in ("x1:x2", "x2:x1")]
    assert models[0].data.unpenalized.tolist() == models[1].data.unpenalized.tolist() == [2]


def test_dot_stands_for_the_other_columns(data):
    numeric = data[["y", "x1", "x2", "x3"]]
    res = BayesRidge.from_formula("y ~ .", numeric).fit()
    assert list(res.params.index) == ["Intercept", "x1", "x2", "x3"]
    log = BayesRidge.from_formula("np.log(y) ~ . - x3", numeric).fit()
    assert "x3" not in log.params.index
    assert {"x1", "x2"} <= set(log.params.index)


def test_dot_leaves_the_weights_in_only_if_they_are_a_column_of_their_own(data):
    numeric = data[["y", "x1", "x2", "w"]]
    res = BayesRidge.from_formula("y ~ . - w", numeric, weights="w").fit()
    assert list(res.params.index) == ["Intercept", "x1", "x2"]


@pytest.mark.parametrize("how", ["name", "series", "array", "list"])
def test_weights(how, data):
    weights = {"name": "w", "series": data["w"], "array": data["w"].to_numpy(), "list": data["w"].tolist()}[how]
    res = BayesRidge.from_formula("y ~ x1 + g", data, weights=weights).fit()
    x = Formula("1 + x1 + g").get_model_matrix(data)
    plain = BayesRidge(data["y"], x.iloc[:, 1:].astype(float), weights=data["w"]).fit()
    np.testing.assert_allclose(res.params, plain.params, rtol=SAME)
    np.testing.assert_allclose(res.bse, plain.bse, rtol=SAME)


@pytest.mark.parametrize("how", ["mask", "series", "labels", "index"])
def test_subset(how, data):
    mask = (data["x1"] > 1.5).to_numpy()
    subset = {
        "mask": mask,
        "series": data["x1"] > 1.5,
        "labels": data.index[mask].tolist(),
        "index": data.index[mask],
    }[how]
    res = BayesRidge.from_formula("y ~ x1 + g", data, subset=subset, weights="w").fit()
    wanted = BayesRidge.from_formula("y ~ x1 + g", data[mask], weights="w").fit()
    pd.testing.assert_series_equal(res.params, wanted.params)
    pd.testing.assert_series_equal(res.fittedvalues, wanted.fittedvalues)


def test_subset_with_weights_of_all_rows(data):
    mask = (data["x1"] > 1.5).to_numpy()
    res = BayesRidge.from_formula("y ~ x1 + x2", data, subset=mask, weights=data["w"]).fit()
    wanted = BayesRidge.from_formula("y ~ x1 + x2", data[mask], weights="w").fit()
    pd.testing.assert_series_equal(res.params, wanted.params)


def test_columns_may_be_left_out(data):
    res = BayesRidge.from_formula("y ~ x1 + C(k)", data, drop_cols=["C(k)[T.2]"]).fit()
    assert list(res.params.index) == ["Intercept", "x1", "C(k)[T.1]", "C(k)[T.3]"]
    np.testing.assert_allclose(res.predict(data.iloc[:6]), res.fittedvalues.iloc[:6], rtol=1e-10)
    without = BayesRidge.from_formula("y ~ x1", data, drop_cols="Intercept").fit()
    pd.testing.assert_series_equal(without.params, BayesRidge.from_formula("y ~ 0 + x1", data).fit().params)


@pytest.mark.parametrize(
    ("unpenalized", "columns"),
    [
        ("C(g)", ["C(g)[T.low]", "C(g)[T.mid]"]),
        (["x1", "C(g)"], ["x1", "C(g)[T.low]", "C(g)[T.mid]"]),
        ("C(g)[T.mid]", ["C(g)[T.mid]"]),
        (["bs(x2, df=4)"], [f"bs(x2, df=4)[{i}]" for i in range(1, 5)]),
        ([0], ["x1"]),
        ([-1], ["bs(x2, df=4)[4]"]),
    ],
)
def test_unpenalised_terms(unpenalized, columns, data):
    formula = "y ~ x1 + C(g) + bs(x2, df=4)"
    res = BayesRidge.from_formula(formula, data, unpenalized=unpenalized).fit()
    x = Formula(formula).get_model_matrix(data).rhs
    x = x.iloc[:, 1:].astype(float)
    by_columns = BayesRidge(data["y"], x, unpenalized=columns).fit()
    assert list(res.params.index) == ["Intercept", *x.columns]
    np.testing.assert_allclose(res.params, by_columns.params, rtol=SAME)
    np.testing.assert_allclose(res.bse, by_columns.bse, rtol=SAME)


def test_unpenalised_interaction(data):
    model = BayesRidge.from_formula("y ~ x1 * x2", data, unpenalized="x1:x2")
    assert [model.data.exog_columns[j] for j in model.data.unpenalized] == ["x1:x2"]


def test_no_intercept(data):
    res = BayesRidge.from_formula("y ~ 0 + x1 + x2", data, prior="half-cauchy").fit("em")
    oracle = Oracle(data["y"].to_numpy(), np.empty((90, 0)), data[["x1", "x2"]].to_numpy())
    assert abs(np.log(res.tau2) - oracle.mode()) < SAME
    np.testing.assert_allclose(res.params, oracle.coefficients(res.lambda_), rtol=1e-8)


def test_constant_column_of_the_data_is_no_second_intercept(data):
    data["one"] = 1.0
    res = BayesRidge.from_formula("y ~ x1 + one", data).fit()
    assert list(res.params.index) == ["Intercept", "x1", "one"]
    assert res.params["one"] == 0
    assert "coefficient 0: 'one'" in str(res.summary())
    np.testing.assert_allclose(res.params[:2], BayesRidge.from_formula("y ~ x1", data).fit().params, rtol=SAME)


def test_constant_column_without_intercept_needs_a_scale(data):
    data["one"] = 1.0
    with pytest.raises(ValueError, match=r"column\(s\) 'one' are constant and the model has no intercept"):
        BayesRidge.from_formula("y ~ 0 + x1 + one", data).fit()
    free = BayesRidge.from_formula("y ~ 0 + x1 + one", data, unpenalized="one").fit()
    plain = BayesRidge.from_formula("y ~ x1", data).fit()
    np.testing.assert_allclose(free.params[["one", "x1"]], plain.params, rtol=SAME)
