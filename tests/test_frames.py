"""Frames of other libraries in, and coefficient tables of the same library out."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.data.frames import to_pandas

SAME = 1e-12
"""The same numbers by another road."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "count": rng.integers(0, 5, n),
            "flag": rng.random(n) < 0.5,
            "size": pd.Categorical(rng.choice(["small", "middle", "large"], n), ["small", "middle", "large"]),
            "color": rng.choice(["red", "green", "blue"], n),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )
    effect = frame["size"].cat.codes.to_numpy()
    frame["y"] = frame["x"] + frame["flag"] + effect + rng.normal(size=n)
    frame["y2"] = frame["count"] - frame["x"] + rng.normal(size=n)
    return frame


def as_polars(frame):
    pl = pytest.importorskip("polars")
    columns = {name: frame[name].tolist() for name in frame.columns}
    out = pl.DataFrame(columns)
    return out.with_columns(
        pl.Series("size", columns["size"], dtype=pl.Enum(["small", "middle", "large"])),
        pl.col("color").cast(pl.Categorical),
    )


def as_pyarrow(frame):
    pa = pytest.importorskip("pyarrow")
    return pa.table({name: frame[name].tolist() for name in frame.columns})


KINDS = {"polars": as_polars, "pyarrow": as_pyarrow}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_numeric_frames_as_exog(kind, model, data):
    numeric = data[["x", "count", "flag"]]
    other = KINDS[kind](data)
    names = ["x", "count", "flag"]
    res = model(other["y"], other.select(names), weights=other["w"]).fit()
    wanted = model(data["y"], numeric, weights=data["w"]).fit()
    np.testing.assert_allclose(res.params, wanted.params, rtol=SAME)
    assert list(res.params.index) == ["const", *names]
    new = other.select(names[::-1])
    np.testing.assert_allclose(res.predict(new), wanted.fittedvalues, rtol=SAME)
    found = res.get_prediction(new, weights=other["w"]).summary_frame()
    np.testing.assert_allclose(found, wanted.get_prediction(numeric, weights=data["w"]).summary_frame(), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["Float64", "Float32"])
def test_frames_of_one_float_dtype(dtype, data):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": data["x"].to_numpy(), "b": data["w"].to_numpy()}).cast(getattr(pl, dtype))
    out = to_pandas(frame)
    assert list(out.columns) == ["a", "b"]
    assert set(map(str, out.dtypes)) == {dtype.lower()}
    np.testing.assert_array_equal(out, frame.to_numpy())
    res = BayesRidge(data["y"].to_numpy(), frame).fit()
    wanted = BayesRidge(data["y"].to_numpy(), frame.to_numpy()).fit()
    np.testing.assert_allclose(res.params, wanted.params, rtol=SAME)


@pytest.mark.parametrize("kind", KINDS)
def test_formulas_code_factors_as_with_pandas(kind, data):
    formula = "y ~ x + flag + size + color + C(count)"
    plain = data if kind == "polars" else data.astype({"size": str})
    res = BayesRidge.from_formula(formula, KINDS[kind](data), weights="w").fit()
    wanted = BayesRidge.from_formula(formula, plain, weights="w").fit()
    assert list(res.params.index) == list(wanted.params.index)
    if kind == "polars":
        assert "size[T.middle]" in res.params.index, "an Enum's first category is the baseline"
    np.testing.assert_allclose(res.params, wanted.params, rtol=SAME)
    np.testing.assert_allclose(res.predict(KINDS[kind](data.head(5))), wanted.fittedvalues.head(5), rtol=SAME)


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_are_missing_and_change_no_coding(kind, data):
    holes = {"x": 3, "count": 5, "flag": 7, "color": 11, "size": 13}
    columns = {name: data[name].astype(object).tolist() for name in data.columns}
    for name, row in holes.items():
        columns[name][row] = None
    with_nulls = pd.DataFrame(columns, dtype=object)
    other = KINDS[kind](with_nulls)
    complete = data.drop(index=list(holes.values()))
    complete = complete if kind == "polars" else complete.astype({"size": str})
    formula = "y ~ x + flag + size + color + C(count)"
    res = BayesRidge.from_formula(formula, other).fit()
    wanted = BayesRidge.from_formula(formula, complete).fit()
    assert list(res.params.index) == list(wanted.params.index)
    np.testing.assert_allclose(res.params, wanted.params, rtol=SAME)
    assert res.model.data.n_dropped == len(holes)

    exog = other.select(["x", "count", "flag"])
    with pytest.raises(ValueError, match=r"'x' \(1 NaN\), 'count' \(1 NaN\), 'flag' \(1 NaN\)"):
        BayesRidge(data["y"].to_numpy(), exog)
    dropped = BayesRidge(data["y"].to_numpy(), exog, missing="drop").fit()
    rows = data.drop(index=[3, 5, 7])
    np.testing.assert_allclose(
        dropped.params, BayesRidge(rows["y"], rows[["x", "count", "flag"]]).fit().params, rtol=SAME
    )


@pytest.mark.parametrize("library", KINDS)
def test_decimals_are_numbers(library):
    module = pytest.importorskip(library)
    values = [Decimal("1.5"), None, Decimal("2.0")]
    column = module.Series(values) if library == "polars" else module.chunked_array([values])
    np.testing.assert_array_equal(to_pandas(column), [1.5, np.nan, 2.0])


def test_objects_that_are_numbers_are_numbers(data):
    """As databases give them: decimals in columns of objects."""
    frame = pd.DataFrame({name: np.asarray(data[name]).round(3) for name in ("x", "y")}).assign(w=2.0)
    frame.loc[3:, "w"] = 1.0
    objects = frame.map(lambda value: Decimal(str(value))).astype(object)
    own = BayesRidge(frame["y"], frame[["x"]], weights=frame["w"]).fit("em")
    same = BayesRidge(objects["y"], objects[["x"]], weights=objects["w"]).fit("em")
    np.testing.assert_allclose(same.params, own.params, rtol=SAME)
    formula = BayesRidge.from_formula("y ~ x", objects, weights="w").fit("em")
    np.testing.assert_allclose(formula.params, own.params, rtol=SAME)
    mixed = objects[["x"]].assign(k=np.arange(len(frame)), n=pd.array(np.arange(len(frame)) % 3, dtype="Int64"))
    with pytest.raises(ValueError, match=r"missing or not finite in column\(s\) 'x'"):
        BayesRidge(frame["y"], mixed.assign(x=[None, *objects["x"][1:]]))
    np.testing.assert_allclose(BayesRidge(frame["y"], mixed).data.exog[:, 0], frame["x"], rtol=SAME)
    with pytest.raises(ValueError, match=r"weights column\(s\) 'w' are not numeric: convert them to numbers"):
        BayesRidge.from_formula("y ~ x", frame.assign(w="2"), weights="w")


def test_strings_are_refused_as_numbers(data):
    with pytest.raises(ValueError, match=r"exog column\(s\) 'size', 'color' are not numeric"):
        BayesRidge(data["y"].to_numpy(), as_polars(data).select("x", "size", "color"))


def test_lazy_frames_are_refused(data):
    lazy = as_polars(data).lazy()
    with pytest.raises(ValueError, match=r"exog is lazy \(LazyFrame\): collect it first"):
        BayesRidge(data["y"], lazy.select("x"))
    with pytest.raises(ValueError, match=r"data is lazy \(LazyFrame\): collect it first"):
        BayesRidge.from_formula("y ~ x", lazy)


def columns_of(table):
    return {name: np.asarray(table[name]) for name in getattr(table, "column_names", None) or table.columns}


@pytest.mark.parametrize("kind", ["pandas", *KINDS])
def test_tidy_is_a_frame_of_the_library_of_the_data(kind, data):
    given = KINDS[kind](data) if kind in KINDS else data.set_axis(np.arange(len(data)) + 100)
    res = pickle.loads(pickle.dumps(BayesRidge.from_formula("y ~ x + flag", given).fit("exact")))
    table = res.tidy(alpha=0.1)
    assert type(table) is type(given)
    found = columns_of(table)
    assert list(found) == ["term", "estimate", "std_error", "conf_low", "conf_high"]
    interval = np.asarray(res.conf_int(0.1))
    assert found["term"].tolist() == list(res.params.index)
    for name, wanted in {
        "estimate": res.params,
        "std_error": res.bse,
        "conf_low": interval[:, 0],
        "conf_high": interval[:, 1],
    }.items():
        np.testing.assert_array_equal(found[name], np.asarray(wanted))
    if kind == "pandas":
        assert table.index.equals(pd.RangeIndex(3))


def test_tidy_of_several_targets(data):
    res = BayesRidge.from_formula("y + y2 ~ x + flag", data).fit()
    table = res.tidy()
    assert table["target"].tolist() == ["y"] * 3 + ["y2"] * 3
    interval = res.conf_int()
    for name in ("y", "y2"):
        part = table[table["target"] == name].set_index("term")
        pd.testing.assert_series_equal(part["estimate"], res.params[name], check_names=False)
        pd.testing.assert_series_equal(part["std_error"], res.bse[name], check_names=False)
        np.testing.assert_array_equal(part[["conf_low", "conf_high"]], interval[name])


def test_tidy_of_a_selection(data):
    res = SpikeSlab(data["y"].to_numpy(), data[["x", "count", "flag"]].to_numpy()).fit()
    table = res.tidy()
    assert isinstance(table, pd.DataFrame)
    np.testing.assert_array_equal(table["inclusion_prob"], res.inclusion_prob)
    np.testing.assert_array_equal(table[["conf_low", "conf_high"]], res.conf_int())
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
        res.tidy(alpha=95)


@pytest.mark.parametrize("frame", ["polars", "arrow"])
def test_ordered_categories_of_other_frames(frame):
    """An Enum of polars, and an ordered dictionary of Arrow, are ordered categories."""
    code, x = np.resize([0, 1, 2, 1], 40), np.resize([0.3, -1.0, 0.5, 2.0, 0.1], 40)
    levels = ["low", "mid", "high"]
    pandas = pd.DataFrame({"x": x, "y": pd.Categorical.from_codes(code, levels, ordered=True)})
    if frame == "arrow":
        other = pytest.importorskip("pyarrow").Table.from_pandas(pandas)
    else:
        pl = pytest.importorskip("polars")
        other = pl.DataFrame({"x": x, "y": pl.Series([levels[i] for i in code], dtype=pl.Enum(levels))})
    wanted, found = (
        BayesRidge.from_formula("y ~ x", each, family="ordinal").fit("laplace") for each in (pandas, other)
    )
    np.testing.assert_allclose(found.cut_points(), wanted.cut_points(), rtol=1e-9)
