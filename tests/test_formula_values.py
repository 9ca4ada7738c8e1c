"""What formulas compute of columns of every type, beside the same columns as float64."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix

from pybayesridge import BayesRidge, SpikeSlab
from tests.effort import pairs

EQUAL = 1e-12
"""Relative difference of two designs computed in float64."""

SMALL = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "Int8",
    "Int64",
    "UInt8",
]
COMPUTED = [
    "y ~ a:b",
    "y ~ a*b",
    "y ~ I(a + b)",
    "y ~ I(a - b)",
    "y ~ I(a**5)",
    "y ~ I(a**-1)",
    "y ~ I(-a)",
    "y ~ np.square(a)",
    "y ~ poly(a, 2) + scale(a*b)",
    "y ~ 100:a",
    "y ~ {a*b}",
    "I(a*b) ~ b",
    "y ~ outer:a",
    "y ~ C(g):a",
    "y ~ I(a.astype(int)**12)",
]


def table(dtype="float64"):
    rng = np.random.default_rng(3)
    n, top = 60, 120
    columns = {"a": rng.integers(20, top, n), "b": rng.integers(20, top, n)}
    out = {name: pd.Series(values).astype(dtype) for name, values in columns.items()}
    g, x = rng.integers(1, 4, n), rng.normal(size=n)
    y = columns["a"] / 20 + columns["b"] / 50 + g + x + 0.1 * rng.normal(size=n)
    return pd.DataFrame(out | {"g": g, "x": x, "y": y})


def design(model):
    return pd.DataFrame(model.data.exog, columns=model.data.exog_columns)


@pytest.mark.parametrize(("formula", "dtype"), pairs(COMPUTED, SMALL, 2))
def test_numbers_are_computed_in_double_precision(formula, dtype):
    outer = np.arange(60, dtype="int8") + np.int8(60)  # noqa: F841 the caller's own array
    wide, narrow = table(), table(dtype)
    wanted, model = BayesRidge.from_formula(formula, wide), BayesRidge.from_formula(formula, narrow)
    pd.testing.assert_frame_equal(design(model), design(wanted), rtol=EQUAL, check_dtype=False)
    np.testing.assert_allclose(model.endog, wanted.endog, rtol=EQUAL)
    if "outer" not in formula:
        new = narrow.iloc[:7]
        np.testing.assert_allclose(model.fit().predict(new), wanted.fit().predict(wide.iloc[:7]), rtol=1e-9)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("kind", ["dict", "polars", "pyarrow", "records"])
def test_every_kind_of_table_is_computed_in_double_precision(kind, model):
    narrow = table("int8")
    if kind == "dict":
        data = {name: narrow[name].to_numpy() for name in narrow}
    elif kind == "records":
        data = narrow.to_records(index=False)
    elif kind == "polars":
        data = pytest.importorskip("polars").DataFrame({name: narrow[name].to_numpy() for name in narrow})
    else:
        data = pytest.importorskip("pyarrow").table({name: narrow[name].to_numpy() for name in narrow})
    formula = "y ~ a:b + I(a + b) + C(g)"
    made, wanted = (model.from_formula(formula, given) for given in (data, table()))
    pd.testing.assert_frame_equal(design(made), design(wanted), rtol=EQUAL, check_dtype=False)


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")  # a:b and scale(a*b) are collinear
@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_streams_are_computed_in_double_precision(model, tmp_path):
    pytest.importorskip("pyarrow")
    narrow = table("int8")
    narrow.to_parquet(tmp_path / "narrow.parquet")
    formula = "y ~ a:b + I(a + b) + scale(a*b) + scale((x > 0) + (a > 60)) + C(g)"
    wanted = model.from_formula(formula, table()).fit()
    streamed = model.from_parquet(tmp_path / "narrow.parquet", formula, batch_size=25).fit()
    pd.testing.assert_series_equal(streamed.params, wanted.params, rtol=1e-5)
    dd = pytest.importorskip("dask.dataframe")
    dask = model.from_dask(dd.from_pandas(narrow, npartitions=3), formula).fit()
    pd.testing.assert_series_equal(dask.params, wanted.params, rtol=1e-5)


def test_truth_values_of_arrow_are_numbers():
    pytest.importorskip("pyarrow")
    data = table()
    data["v"] = data["x"] > 0
    arrow = data.astype({"v": "bool[pyarrow]"})
    for formula in ("y ~ v*a", "y ~ I(v*2 - x) + I(v + 1):a", "I(v*2 - x) ~ a", "y ~ C(v)"):
        wanted, found = (BayesRidge.from_formula(formula, one).fit() for one in (data, arrow))
        pd.testing.assert_series_equal(found.params, wanted.params, rtol=1e-12)
        np.testing.assert_allclose(found.predict(arrow[3:4]), wanted.fittedvalues[3:4], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "Int64", "float64"])
def test_labels_of_numbers_stay(dtype):
    data = table()
    data["g"] = data["g"].astype(dtype)
    end = ".0" if dtype == "float64" else ""
    model = BayesRidge.from_formula("y ~ C(g)", data)
    assert model.data.exog_columns == [f"C(g)[T.2{end}]", f"C(g)[T.3{end}]"]
    if dtype != "float64":
        text = BayesRidge.from_formula("y ~ {g.astype(str)}", data)
        assert text.data.exog_columns == ["g.astype(str)[T.2]", "g.astype(str)[T.3]"]


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("y ~ I(u + v)", lambda d: d.u.astype(float) + d.v),
        ("y ~ I(u - v)", lambda d: d.u.astype(float) - d.v),
        ("y ~ I((x > 0) + (x > 1))", lambda d: (d.x > 0).astype(float) + (d.x > 1)),
        ("y ~ I(~u + v)", lambda d: (~d.u).astype(float) + d.v),
        ("y ~ I((u & v) + u)", lambda d: (d.u & d.v).astype(float) + d.u),
        ("y ~ u:v", lambda d: (d.u & d.v).astype(float)),
        ("y ~ I(u | v)", lambda d: (d.u | d.v).astype(float)),
        ("y ~ I(k & 1)", lambda d: (d.k & 1).astype(float)),
        ("y ~ half(table[k])", lambda d: d.k * 0.75),
    ],
)
def test_truth_values_and_what_needs_integers(formula, values):
    table = np.arange(5) * 1.5  # noqa: F841 the caller's own

    def half(x):
        return x / 2

    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    data = pd.DataFrame({"x": x, "u": x > 0.3, "v": rng.random(50) > 0.5, "k": rng.integers(0, 5, 50), "y": x + 1})
    model = BayesRidge.from_formula(formula, data)
    np.testing.assert_allclose(model.data.exog[:, 0].astype(float), values(data), rtol=EQUAL)


@pytest.mark.parametrize("kind", ["decimal", "mixed", "integer", "float", "boolean"])
def test_objects_that_are_numbers_are_numbers(kind):
    data = table()
    given = {
        "decimal": [Decimal(str(v)) for v in data["x"].round(3)],
        "mixed": [Decimal(str(v)) if i % 2 else v for i, v in enumerate(data["x"].round(3))],
        "integer": [int(v) for v in data["a"]],
        "float": data["x"].tolist(),
        "boolean": (data["x"] > 0).tolist(),
    }[kind]
    numbers = np.array([float(v) for v in given])
    data["o"] = pd.Series(given, dtype=object)
    res = BayesRidge.from_formula("y ~ o", data).fit()
    assert res.model.data.exog_columns == ["o"]
    np.testing.assert_allclose(res.model.data.exog[:, 0].astype(float), numbers, rtol=EQUAL)
    np.testing.assert_allclose(res.predict(data[["o"]].iloc[:5]), res.fittedvalues[:5], rtol=1e-9)
    data.loc[3, "o"] = None
    with_hole = BayesRidge.from_formula("y ~ o", data)
    assert (with_hole.nobs, with_hole.data.exog_columns) == (59, ["o"])


@pytest.fixture
def coded():
    rng = np.random.default_rng(1)
    n = 80
    frame = pd.DataFrame({"g": rng.choice(["1", "2", "A"], n), "k": rng.integers(0, 3, n), "x": rng.normal(size=n)})
    frame["u"] = frame["x"] > 0
    frame["date"] = pd.date_range("2020-01-01", periods=n)
    level = frame["g"].map({"1": 1.0, "2": 2.0, "A": 3.0})
    frame["y"] = level + frame["x"] + frame["k"] + 0.1 * rng.normal(size=n)
    return frame


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize(
    ("formula", "new", "message"),
    [
        ("y ~ g", {"g": [1, 2]}, r"'g' was a factor with levels '1', '2', 'A' in the fit, and is numeric"),
        ("y ~ g", {"g": [1.0, 9.0]}, r"'g' was a factor"),
        ("y ~ g", {"g": [True, False]}, r"'g' was a factor"),
        ("y ~ g:x", {"g": [1, 2], "x": [0.0, 1.0]}, r"'g' was a factor"),
        ("y ~ C(g)", {"g": [1, 2]}, r"level.*1, 2"),
        ("y ~ C(u)", {"u": [0, 1]}, r"level.*0, 1"),
        ("y ~ C(k)", {"k": [True, False]}, r"level.*True"),
        ("y ~ C(k)", {"k": ["1", "2"]}, r"level.*'1', '2'"),
        ("y ~ x", {"x": ["1", "2"]}, r"'x' was numeric in the fit, and is text"),
        ("y ~ x", {"x": pd.Categorical([1, 2])}, r"'x' was numeric in the fit"),
        ("y ~ x", {"x": pd.to_datetime(["2020-01-01", "2020-01-02"])}, r"'x' holds dates"),
        ("y ~ x", {"x": [1j, 2.0]}, r"'x' has complex numbers"),
        ("y ~ I(u + x)", {"u": [True, False], "x": [0.0, 1j]}, r"'x' has complex numbers"),
        ("y ~ u", {"u": [0, 2]}, r"'u' was true or false in the fit"),
        ("y ~ u", {"u": ["True", "False"]}, r"'u' was true or false in the fit, and has text"),
        ("y ~ I(u + x)", {"u": [0.5, 1], "x": [0.0, 1.0]}, r"'u' was true or false in the fit"),
    ],
)
def test_columns_that_come_with_another_type_are_refused(formula, new, message, model, coded):
    res = model.from_formula(formula, coded).fit()
    with pytest.raises(ValueError, match=message):
        res.predict(new)
    with pytest.raises(ValueError, match=message):
        res.get_prediction(new)


def test_other_types_that_say_the_same(coded):
    res = BayesRidge.from_formula("y ~ g + u + C(k)", coded).fit()
    wanted = res.predict(coded)
    same = coded.assign(
        g=pd.Categorical(coded["g"], categories=["A", "never", "2", "1"]),
        u=coded["u"].astype(int),
        k=coded["k"].astype(float),
    )
    np.testing.assert_allclose(res.predict(same), wanted, rtol=EQUAL)
    numbers = BayesRidge.from_formula("y ~ k", coded).fit()
    some = coded[coded["k"] < 2]
    np.testing.assert_allclose(
        numbers.predict(some.assign(k=some["k"].astype(bool))), numbers.predict(some), rtol=EQUAL
    )


def test_streams_refuse_columns_of_another_type_at_prediction(coded, tmp_path):
    pytest.importorskip("pyarrow")
    coded.drop(columns="date").to_parquet(tmp_path / "t.parquet")
    res = BayesRidge.from_parquet(tmp_path / "t.parquet", "y ~ g + u").fit()
    np.testing.assert_allclose(
        res.predict(coded), BayesRidge.from_formula("y ~ g + u", coded).fit().fittedvalues, rtol=1e-6
    )
    with pytest.raises(ValueError, match="'g' was a factor"):
        res.predict(coded.assign(g=1))
    with pytest.raises(ValueError, match="'u' was true or false"):
        res.predict(coded.assign(u=2))


@pytest.mark.parametrize("kind", ["datetime64", "date", "timedelta", "period", "zone"])
@pytest.mark.parametrize("formula", ["y ~ x + when", "y ~ .", "y ~ x:when"])
def test_dates_are_refused_by_name(formula, kind, coded):
    dates = coded.pop("date")
    coded["when"] = {
        "datetime64": dates,
        "date": dates.dt.date,
        "timedelta": dates - dates[0],
        "period": dates.dt.to_period("M"),
        "zone": dates.dt.tz_localize("Europe/Vienna"),
    }[kind]
    with pytest.raises(ValueError, match=r"'when' holds dates or times .*convert it to a number"):
        BayesRidge.from_formula(formula, coded)


def test_what_is_made_of_dates_is_taken(coded):
    model = BayesRidge.from_formula("y ~ {date.dt.month} + C(date.dt.month) + x", coded)
    assert model.data.exog_columns[0] == "date.dt.month"


def test_text_that_an_expression_makes_is_a_factor():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.normal(size=30), "y": rng.normal(size=30)})
    data["k"] = np.where(data["x"] > 0, "b", "a")
    for written, column in (("np.where(x > 0, 'b', 'a')", "k"), ("C(np.where(x > 0, 'b', 'a'))", "C(k)")):
        res = BayesRidge.from_formula(f"y ~ {written} + x", data).fit()
        same = BayesRidge.from_formula(f"y ~ {column} + x", data).fit()
        np.testing.assert_array_equal(res.model.exog, same.model.exog)
        np.testing.assert_allclose(res.predict(data.tail(3)), same.predict(data.tail(3)), rtol=1e-12)
    of_two = BayesRidge.from_formula("np.where(x > 0, 'b', 'a') ~ y", data, family="binomial")
    np.testing.assert_array_equal(of_two.endog, data["k"] == "b")


def test_polynomials_of_too_high_a_degree_are_refused():
    data = table().assign(k=np.tile([1.0, 2.0, 3.0], 20))
    for formula, count in (("y ~ poly(k, 3)", 3), ("y ~ poly(x, 60)", 60), ("y ~ a + poly(x, degree=99)", 60)):
        with pytest.raises(ValueError, match=rf"poly\(.*degree \d+ needs at least \d+ distinct.*there are {count}"):
            BayesRidge.from_formula(formula, data)
    assert BayesRidge.from_formula("y ~ poly(k, 2)", data).fit().predict(data.iloc[:1]).shape == (1,)
    with pytest.raises(ValueError, match=r"poly\(zero, 1\).*there are 1:"), np.errstate(invalid="ignore"):
        BayesRidge.from_formula("y ~ poly(zero, 1)", data.assign(zero=0.0))


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(g, contr.helmert)*x + C(g):bs(a, df=4)",
        "y ~ 0 + C(g, contr.poly) + C(h, contr.treatment('b'))*poly(x, 2)",
        "y ~ h*C(a > 60, contr.sum) + C(h, {'u': [1, 0, -1]}):x",
        "y ~ C(h, levels=['c', 'a', 'b']) + cr(x, df=4):h + I(a > 60):h",
    ],
)
def test_contrasts_and_products_are_those_of_formulaic(formula):
    data = table().assign(h=np.resize(["a", "b", "c"], 60))
    expected = pd.DataFrame(model_matrix(formula, data).rhs).drop(columns="Intercept", errors="ignore")
    found = design(BayesRidge.from_formula(formula, data))
    assert list(found.columns) == list(expected.columns)
    np.testing.assert_allclose(found, expected.to_numpy(dtype=float), rtol=EQUAL, atol=EQUAL)
