"""Formulas of plain columns of numbers are read without formulaic: what is made is what formulaic makes."""

import pickle

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.formula import build as formulas
from pybayesridge.formula.plain import plain_formula
from tests.effort import pairs

N = 30
NAMES = ["x1", "x2", "units sold", "x.1", "100%", "größe", "_z", "log", "a[b", "T", "class"]
PLAIN = [
    "y ~ .",
    "y~x1",
    " y  ~  x1+x2 ",
    "y ~ x1 + `units sold` + `x.1`",
    "y ~ . - x1",
    "y ~ . - 1",
    "y ~ 0 + .",
    "y ~ -1 + x1",
    "y ~ x1 - 1 + x2",
    "y ~ x1 + 0 + x2",
    "y ~ 1 + x1",
    "y ~ 0 + x1 + 1",
    "y ~ x2 + . ",
    "y ~ x2 + x1 + x2",
    "y ~ x1 + x2 - x1 + x1",
    "y ~ . - . + x1",
    "y + x1 ~ .",
    "y + `units sold` ~ x1 + x2",
    "x1 ~ . - y",
    "y ~ 1",
    "y ~ y + x1",
    "y ~ log + T + `class` + größe + _z",
    "y ~ x1 + b + i",
    "`100%` ~ .",
]
NOT_PLAIN = [
    "y ~ x1:x2",
    "y ~ x1*x2",
    "np.log(y) ~ .",
    "y ~ I(x1)",
    "y ~ g + x1",
    "y ~ C(i)",
    "y ~ x1 + nothing",
    "y ~ x1 x2",
    "y ~ x1 | x2",
    "y ~ -0 + x1",
    "y ~ (x1 + x2)",
    "y - x1 ~ x2",
    "y ~ x1 + 2",
    "y ~ x1 + -x2",
]


def table(seed=0, kind="float64"):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(2, 1, (N, len(NAMES))), columns=NAMES)
    frame["y"] = frame["x1"] + frame["T"] + 0.1 * rng.normal(size=N)
    frame["b"], frame["i"] = frame["x2"] > 2, rng.integers(0, 9, N)
    frame.index = [f"r{i}" for i in range(N)]
    return frame[rng.permutation(frame.columns)] if seed else frame


def both(monkeypatch, make):
    """What is made (or refused) with and without formulaic."""
    out = []
    for plain in (plain_formula, lambda *_: None):
        monkeypatch.setattr(formulas, "plain_formula", plain)
        try:
            out.append(make())
        except ValueError as error:
            out.append(str(error))
    return out


def build(formula, data, **options):
    given = {"subset": None, "drop_cols": None, "missing": "drop", "weights": None, "context": {}} | options
    return formulas.build(formula, data, **given)


def same(plain, slow):
    assert plain.spec.spec is None
    assert slow.spec.spec is not None
    for name in ("endog", "exog"):
        pd.testing.assert_frame_equal(
            getattr(plain, name), getattr(slow, name).astype(float), check_column_type=False, check_exact=True
        )
    assert list(plain.terms.items()) == list(slow.terms.items())
    assert (plain.weights is None) == (slow.weights is None)
    if slow.weights is not None:
        pd.testing.assert_series_equal(plain.weights, slow.weights)
    assert (plain.n_dropped, plain.library) == (slow.n_dropped, slow.library)
    for name in ("formula", "columns", "variables", "kinds", "context", "has_intercept"):
        assert getattr(plain.spec, name) == getattr(slow.spec, name), name
    if slow.spec.has_intercept or "1" not in slow.terms:  # the intercept was not left out by drop_cols
        assert plain.spec.columns_of_terms() == slow.spec.columns_of_terms()


OPTIONS = [
    {},
    {"weights": "x1"},
    {"weights": np.linspace(1, 2, N)},
    {"subset": np.arange(N) % 3 > 0},
    {"subset": ["r3", "r1", "r9", "r20", "r21"]},
    {"drop_cols": ["x1"]},
    {"drop_cols": ["Intercept"]},
    {"drop_cols": ["nowhere"]},
    {"missing": "raise"},
]


@pytest.mark.parametrize(("formula", "number"), pairs(PLAIN, range(len(OPTIONS)), 2))
def test_the_design_is_formulaics(formula, number, monkeypatch):
    data = table(number)
    if number % 2:
        rng = np.random.default_rng(number)
        for name in ("x1", "T", "units sold"):
            data.loc[data.index[rng.integers(0, N, 2)], name] = np.nan
    plain, slow = both(monkeypatch, lambda: build(formula, data, **OPTIONS[number]))
    if isinstance(slow, str):
        assert plain == slow
    else:
        same(plain, slow)
        new = table(number + 50).iloc[:6].copy()
        new.loc[new.index[2], "x2"] = np.nan
        for rows in (new, new.iloc[0], new.astype(object), new.drop(columns="x1"), new.assign(x1="a")):
            same_rows(coded(plain.spec, rows), coded(slow.spec, rows))


def coded(spec, rows):
    try:
        return formulas.transform(spec, rows)
    except ValueError as error:
        return str(error)


def same_rows(made, wanted):
    if isinstance(wanted, str):
        assert made == wanted
    else:
        np.testing.assert_array_equal(made[0], wanted[0])
        assert made[1].equals(wanted[1])


@pytest.mark.parametrize("formula", NOT_PLAIN)
def test_what_is_no_sum_of_numbers_is_left_to_formulaic(formula):
    data = table().assign(g=["u", "v"] * (N // 2))
    assert plain_formula(formula, data) is None


def test_columns_that_are_no_numbers_are_left_to_formulaic():
    data = table()
    assert plain_formula("y ~ .", data) is not None
    for bad in (
        data.assign(g="text"),
        data.assign(g=1j),
        data.assign(g=pd.Timestamp("2020-01-01")),
        data.assign(g=pd.Categorical(["a"] * N)),
        data.assign(g=pd.Series([1] * N, dtype=object).to_numpy()),
        data.rename(columns={"x1": "Intercept"}),
        data.rename(columns={"x1": "1"}),
        data.rename(columns={"x1": "x:y"}),
        pd.concat([data, data[["x1"]]], axis=1),
    ):
        assert plain_formula("y ~ .", bad) is None
    assert plain_formula("y ~ x2", data.assign(g="text")) is not None


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "uint8", "float32"])
def test_other_dtypes_of_numbers(dtype, monkeypatch):
    data = table().assign(v=(table()["x1"] > 2).astype(dtype))
    if dtype[0].isupper() or dtype == "boolean":
        data.iloc[4, data.columns.get_loc("v")] = pd.NA
    same(*both(monkeypatch, lambda: build("y ~ v + x2", data)))


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_models_are_the_same(model, monkeypatch):
    data = table()
    data.iloc[3, 2] = np.nan
    options = {"weights": "_z", "unpenalized": ["x2"]} | (
        {"group": {"two": ["x1", "T"]}} if model is SpikeSlab else {}
    )
    plain, slow = both(monkeypatch, lambda: model.from_formula("y ~ . - _z", data.assign(_z=1.0), **options).fit())
    pd.testing.assert_series_equal(plain.params, slow.params)
    again = pickle.loads(pickle.dumps(plain))
    pd.testing.assert_series_equal(again.predict(table(5)), slow.predict(table(5)))
    assert str(plain.summary()).split() == str(slow.summary()).split()
    if model is SpikeSlab:
        assert plain.model.groups.labels == slow.model.groups.labels


def test_booleans_stay_booleans_and_dates_no_numbers():
    res = BayesRidge.from_formula("y ~ x1 + b", table()).fit()
    for bad, message in (
        ({"b": 2}, "'b' was true or false"),
        ({"x1": pd.Timestamp("2020-01-01")}, "'x1' holds dates"),
        ({"x1": "a"}, "'x1' was numeric in the fit, and is text"),
    ):
        with pytest.raises(ValueError, match=message):
            res.predict(table().assign(**bad))
