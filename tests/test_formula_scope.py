"""Names in a formula: columns, its own functions, and what it used of the caller's where the model was fitted."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, fit_imputed, load
from pybayesridge.exceptions import DataWarning

SAME = 1e-12
"""Relative rounding of the same arithmetic on the same columns under other names."""


@pytest.fixture
def data():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["y", "x", "z"])
    return frame.assign(y=lambda d: d.y + 2 * d.x, g=rng.choice(["a", "b", "c"], 40), k=np.arange(40) % 4)


OF_FORMULAS = {
    "scale": "y ~ scale(x)",
    "center": "y ~ center(x) + z",
    "bs": "y ~ bs(x, df=4)",
    "poly": "y ~ poly(x, 2)",
    "C": "y ~ C(g) + x",
    "I": "y ~ I(x ** 2)",
    "log": "y ~ log(np.abs(x))",
    "np": "y ~ np.exp(x) + z",
    "contr": "y ~ C(g, contr.sum)",
    "Q": "y ~ Q('x') + z",
    "hashed": "y ~ hashed(g, levels=7)",
}


@pytest.mark.parametrize("name", OF_FORMULAS)
def test_predictions_use_the_formulas_own_functions_whatever_the_caller_calls_so(name, data):
    formula = OF_FORMULAS[name]
    res = BayesRidge.from_formula(formula, data).fit()
    expected, some = res.predict(data[:5]), data[:5]
    effects = res.effects(data=data)

    def elsewhere(what, other):
        scope = {"res": res, "some": some, "data": data, name: other}
        return eval(what, scope)  # the caller's scope has another thing of this name

    for other in (3.0, lambda *_, **__: pytest.fail("called"), "text", data):
        pd.testing.assert_series_equal(elsewhere("res.predict(some)", other), expected)
        pd.testing.assert_frame_equal(elsewhere("res.effects(data=data)", other), effects)
        frame = elsewhere("res.get_prediction(some).summary_frame()", other)
        np.testing.assert_allclose(frame["mean"], expected, rtol=SAME)


@pytest.mark.parametrize("name", OF_FORMULAS)
def test_fits_use_the_formulas_own_functions_too(name, data):
    expected = BayesRidge.from_formula(OF_FORMULAS[name], data).fit().params
    scope = {"BayesRidge": BayesRidge, "data": data, name: lambda *_, **__: pytest.fail("called")}
    found = eval(f"BayesRidge.from_formula({OF_FORMULAS[name]!r}, data).fit().params", scope)
    pd.testing.assert_series_equal(found, expected)


@pytest.mark.parametrize("name", OF_FORMULAS)
def test_columns_that_are_called_as_a_function_is_do_not_hide_it(name, data):
    res = BayesRidge.from_formula(OF_FORMULAS[name], data).fit()
    holes = np.where(np.arange(40) < 10, np.nan, 1.0)
    with_column = data.assign(**{name: holes})
    again = BayesRidge.from_formula(OF_FORMULAS[name], with_column).fit()
    pd.testing.assert_series_equal(again.params, res.params)
    pd.testing.assert_series_equal(res.predict(with_column), res.predict(data))
    pd.testing.assert_series_equal(again.predict(data), res.predict(data))


@pytest.mark.parametrize(
    "formula", ["y ~ scale(scale)", "y ~ I(scale * 2) + scale(z)", "y ~ I(`scale` + np.exp(np))"]
)
def test_columns_beside_functions_of_their_names(formula, data):
    odd = data.rename(columns={"x": "scale"}).assign(np=data.k / 4)
    plain = formula.replace("`", "").replace("scale(scale)", "scale(x)").replace("(np)", "(w)")
    plain = plain.replace("scale *", "x *").replace("scale +", "x +")
    res = BayesRidge.from_formula(formula, odd).fit()
    same = BayesRidge.from_formula(plain, data.assign(w=data.k / 4)).fit()
    np.testing.assert_allclose(res.params, same.params, rtol=SAME)
    np.testing.assert_allclose(res.predict(odd[:4]), same.predict(data.assign(w=data.k / 4)[:4]), rtol=SAME)
    assert sorted(res.model.formula_spec.variables) == sorted(
        {"scale", "z", "np"} & set(res.model.formula_spec.variables)
    )


def test_own_values_stay_those_of_the_fit(data):
    factor, table = 2.0, [1.0, 2.0, 3.0, 4.0]
    array = np.array([1.0, 2.0, 4.0, 8.0])
    res = BayesRidge.from_formula("y ~ I(factor * x) + I(array[k]) + np.take(table, k)", data).fit()
    expected = res.predict(data[:5])
    factor, array[:] = 100.0, 0.0  # noqa: F841
    table.clear()
    pd.testing.assert_series_equal(res.predict(data[:5]), expected)
    pd.testing.assert_series_equal(pickle.loads(pickle.dumps(res)).predict(data[:5]), expected)
    # A column of new data that is called as a value of the fit was is not looked at.
    pd.testing.assert_series_equal(res.predict(data[:5].assign(factor=5.0, array=1.0, table=0.0)), expected)


def test_modules_are_imported_again(data):
    import scipy.special as special

    res = BayesRidge.from_formula("y ~ special.expit(x) + pd.Series.abs(z)", data).fit()
    back = pickle.loads(pickle.dumps(res))
    pd.testing.assert_series_equal(back.predict(data[:4]), res.predict(data[:4]))
    assert special.__name__ == "scipy.special"


@pytest.mark.parametrize("formula", ["y ~ x:own", "y ~ I(x * own)", "y ~ x + own"])
def test_own_values_with_row_labels(formula, data):
    moved = data.set_axis(range(10, 50), axis=0)
    own = data.z.to_numpy()
    expected = BayesRidge.from_formula(formula, moved).fit().params
    own = moved.z
    pd.testing.assert_series_equal(BayesRidge.from_formula(formula, moved).fit().params, expected)
    for own in (data.z, moved.z[::-1]):  # noqa: B007
        with pytest.raises(ValueError, match="row labels of 'own' and of the data differ"):
            BayesRidge.from_formula(formula, moved)


def saved(res, path):
    """A file of a fit, of which it does not matter here what it says of the formula."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        res.save(path)


def test_numpy_by_another_name_is_numpy(data, tmp_path):
    import numpy  # noqa: F401

    res = BayesRidge.from_formula("y ~ numpy.exp(x) + I(z * numpy.pi)", data).fit()
    res.save(tmp_path / "fit.pbr")
    pd.testing.assert_series_equal(load(tmp_path / "fit.pbr").predict(data[:5]), res.predict(data[:5]))
    odd = BayesRidge.from_formula("y ~ x + I(numpy.asarray(z))", data).fit()
    with pytest.warns(DataWarning, match="allow_code=True alone"):
        odd.save(tmp_path / "fit.pbr")
    with pytest.raises(ValueError, match=r"numpy\.asarray"):
        load(tmp_path / "fit.pbr")


def test_saving_says_that_the_file_cannot_predict(data, tmp_path):
    import scipy.special as special

    res = BayesRidge.from_formula("y ~ special.expit(x)", data).fit()
    with pytest.warns(DataWarning, match="uses 'special', which the file does not hold") as caught:
        res.save(tmp_path / "fit.pbr")
    assert caught[0].filename == __file__
    with pytest.warns(DataWarning, match="allow_code=True alone"):
        BayesRidge.from_formula("y ~ x.clip(0, 1)", data).fit().save(tmp_path / "fit.pbr")
    assert special.__name__ == "scipy.special"


BY_ROW = [
    "own",
    "x:own",
    "I(x + own)",
    "I(x * np.asarray(listed))",
    "I((own > 0) * x)",
    "I(x + matrix[:, 1])",
    "I(series)",
]


@pytest.mark.parametrize("formula", BY_ROW)
def test_own_values_of_each_row_are_refused_for_new_rows(formula, data, tmp_path):
    """New data with as many rows as the fit got the values of the rows of the fit."""
    own = data.z.to_numpy() + 1
    listed, matrix, series = own.tolist(), np.stack([own, own**2], axis=1), data.z  # noqa: F841
    res = BayesRidge.from_formula(f"y ~ z + {formula}", data).fit()
    assert np.isfinite(res.fittedvalues).all()
    new = data.sample(frac=1, random_state=1)
    name = next(name for name in ("own", "listed", "matrix", "series") if name in formula)
    saved(res, tmp_path / "fit.pbr")
    for fit in (res, pickle.loads(pickle.dumps(res)), load(tmp_path / "fit.pbr", allow_code=True)):
        for rows in (new, data, data[:5]):
            with pytest.raises(ValueError, match=f"{name}' of the session.*each row of the fit.*Make a column"):
                fit.predict(rows)
    with pytest.raises(ValueError, match=f"{name}' of the session"):
        res.effects("z")


@pytest.mark.parametrize("term", ["I(table[k])", "np.take(table, k)", "I(x - table.mean())", "k.map(series)"])
def test_tables_with_as_many_entries_as_rows_are_looked_up_in(term, data):
    table = np.arange(40) ** 1.5
    series = pd.Series(table)  # noqa: F841
    res = BayesRidge.from_formula(f"y ~ z + {term}", data.assign(k=np.arange(40)[::-1])).fit()
    some = data.assign(k=np.arange(40)[::-1])[7:12]
    np.testing.assert_allclose(res.predict(some), res.fittedvalues[7:12], rtol=1e-9)


ALL_ROWS = [
    "I(x - x.mean())", "x.rank()", "np.cumsum(x)", "own(x)", "I(x > max(x) / 2)", "I(x / len(x))", "I(x - x[0])",
    "I(x[::-1])", "I(x - x.iloc[30])", "pd.get_dummies(np.floor(x))",
]  # fmt: skip


@pytest.mark.parametrize("term", ALL_ROWS)
def test_terms_that_depend_on_all_rows_are_refused_for_new_rows(term, data, tmp_path):
    own = lambda v: v / np.max(np.abs(v))  # noqa: E731, F841
    res = BayesRidge.from_formula(f"y ~ z + {term}", data).fit()
    assert np.isfinite(res.fittedvalues).all()
    for rows in (data, data[:5]):
        with pytest.raises(ValueError, match=r"depend on all rows of the data"):
            res.predict(rows)
    with pytest.raises(ValueError, match=r"depend on all rows of the data|of the session"):
        res.effects("x")
    with pytest.raises(ValueError, match=r"depend on all rows of the data|of the session"):
        pickle.loads(pickle.dumps(res)).predict(data)
    saved(res, tmp_path / "fit.pbr")
    with pytest.raises(ValueError, match=r"depend on all rows of the data|of the session"):
        load(tmp_path / "fit.pbr", allow_code=True).predict(data)


@pytest.mark.every_case
@pytest.mark.parametrize(
    "term", ["I(x - x.mean()) + lag(z)", "I(lag(x) - x.mean())", "I(x.expanding().mean()):lag(z)"]
)
def test_terms_that_depend_on_all_rows_are_refused_beside_lags(term, data):
    res = BayesRidge.from_formula(f"y ~ z + {term}", data).fit()
    with pytest.raises(ValueError, match=r"depend on all rows of the data"):
        res.predict(data[5:9])


@pytest.mark.every_case
@pytest.mark.parametrize(
    "term", ["lag(x)", "I(x.diff())", "I(x.rolling(20, min_periods=1).mean())", "lag(x, -1)", "lag(x) : z"]
)
def test_terms_that_look_at_neighbours_are_predicted_in_their_order(term, data):
    res = BayesRidge.from_formula(f"y ~ z + {term}", data).fit()
    np.testing.assert_allclose(res.predict(data).dropna(), res.fittedvalues, rtol=1e-9)


@pytest.mark.parametrize("term", ["pd.get_dummies(h)", "pd.get_dummies(h):z"])
def test_columns_that_new_rows_lack_are_refused(term, data):
    # Formulaic would use a single column for all.
    h = np.where(np.arange(40) % 2, "even", "odd")
    frame = data.assign(h=h[np.arange(40) // 2])
    res = BayesRidge.from_formula(f"y ~ z + {term}", frame).fit()
    with pytest.raises(ValueError, match=r"makes the columns|depend on all rows of the data"):
        res.predict(frame[:1])


def test_functions_in_formulas_compute_with_their_arguments(data):
    for code in ("x.map(lambda v: 2 * v - 1)", "np.array([2 * v - 1 for v in x])"):
        res = BayesRidge.from_formula(f"y ~ z + I({code})", data).fit()
        by_hand = BayesRidge.from_formula("y ~ z + I(2 * x - 1)", data).fit()
        np.testing.assert_allclose(res.params, by_hand.params, rtol=1e-9)
        np.testing.assert_allclose(res.predict(data[3:4]), by_hand.fittedvalues[3:4], rtol=1e-9)


@pytest.mark.parametrize("term", ["I(x - data.x.mean())", "np.where(x > 0, x, 0)", "x.clip(-1, 1)", "g.map(table)"])
def test_terms_of_their_own_rows_are_predicted(term, data):
    table = {"a": 1.0, "b": 2.0, "c": 4.0}  # noqa: F841
    res = BayesRidge.from_formula(f"y ~ {term} + scale(z) + bs(x, df=4) + C(g)", data).fit()
    np.testing.assert_allclose(res.predict(data[:5]), res.fittedvalues[:5], rtol=1e-9)


def test_own_function_that_a_file_cannot_hold(data, tmp_path):
    thrice = lambda x: 3 * x  # noqa: E731, F841
    round = lambda x: x + 0.5  # noqa: E731, F841
    for formula, name in (("y ~ thrice(x)", "thrice"), ("y ~ round(x)", "round")):
        res = BayesRidge.from_formula(formula, data).fit()
        with pytest.warns(DataWarning, match=f"uses '{name}', which the file does not hold.*cannot predict"):
            res.save(tmp_path / "fit.pbr")
        for back in (pickle.loads(pickle.dumps(res)), load(tmp_path / "fit.pbr", allow_code=True)):
            np.testing.assert_allclose(back.params, res.params, rtol=SAME)
            with pytest.raises(ValueError, match=f"{name}.*of the session"):
                back.predict(data[:4])
            with pytest.raises(ValueError, match=f"{name}.*of the session"):
                back.effects(data=data)


def test_a_callers_value_may_not_be_called_as_a_function_of_formulas_is(data):
    C = 3.0  # noqa: F841
    with pytest.raises(ValueError, match="'C' is a function of formulas"):
        BayesRidge.from_formula("y ~ I(x * C) + C(g)", data)


def test_streams_use_the_formulas_own_functions(data):
    pytest.importorskip("pyarrow")
    import pyarrow as pa

    table = pa.Table.from_pandas(data)
    for formula in ("y ~ scale(x) + C(g)", "y ~ log(np.abs(x)) * z", "y ~ exp(scale(x))"):
        plain = BayesRidge.from_arrow(table, formula).fit()

        def elsewhere(formula=formula):
            scale = C = log = exp = np = lambda *_, **__: pytest.fail("called")  # noqa: F841
            res = BayesRidge.from_arrow(table, formula).fit()
            return res.params, res.predict(data[:5])

        params, predicted = elsewhere()
        pd.testing.assert_series_equal(params, plain.params)
        pd.testing.assert_series_equal(predicted, plain.predict(data[:5]))


def test_pooled_fits_use_what_they_used(data):
    sets = [data.assign(**{"a b": data.x + shift, "a_b": 7.0 * data.z}) for shift in (0.0, 0.25)]
    pooled = fit_imputed(
        sets, lambda one: BayesRidge.from_formula("y ~ scale(`a b`) + C(g)", one).fit("fixed", lam=1.0)
    )
    expected = pooled.get_prediction(sets[0][:5]).summary_frame()

    def elsewhere():
        scale = C = lambda *_, **__: pytest.fail("called")  # noqa: F841
        return pooled.get_prediction(sets[0][:5].drop(columns="a_b")).summary_frame()

    pd.testing.assert_frame_equal(elsewhere(), expected)
