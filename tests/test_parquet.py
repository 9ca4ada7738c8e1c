"""Formulas on Parquet files, batch by batch, beside the same formulas on frames in memory."""

import io
import sys
from contextlib import redirect_stderr

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, DataWarning, SpikeSlab
from tests.effort import pairs

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")

SAME = 1e-10
"""A fit from a stream beside the fit from a frame; relative to the largest entry."""

ROWS = 700


def close(actual, wanted):
    actual, wanted = np.asarray(actual, dtype=float), np.asarray(wanted, dtype=float)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=SAME * np.abs(wanted).max())


def doubled(v):
    return 2 * v


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "x": rng.normal(5.0, 3.0, ROWS),
            # The last batch has a level that no other has; so has a row that is incomplete.
            "g": np.r_[rng.choice(list("abc"), ROWS - 3), ["d", "d", "e"]],
            "k": rng.integers(1, 5, ROWS),
            "c": pd.Categorical(rng.choice(["low", "high", "mid"], ROWS), ["low", "mid", "high"]),
            "b": rng.random(ROWS) > 0.5,
            "my col": rng.normal(size=ROWS),
            "w": rng.uniform(0.5, 2.0, ROWS),
        }
    )
    data["z"] = np.exp(0.2 * data["my col"] + 0.05 * data.x + 0.2 * rng.normal(size=ROWS))
    data["y"] = 0.3 * data.x + 2.0 * (data.g == "b") + 0.2 * data.k + rng.normal(size=ROWS)
    for row, name in ((5, "x"), (20, "y"), (ROWS - 1, "z")):
        data.loc[row, name] = np.nan
    data.loc[17, "g"] = None
    return data


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    frame.iloc[:400].to_parquet(folder / "a.parquet", row_group_size=150)
    frame.iloc[400:].to_parquet(folder / "b.parquet", row_group_size=150)
    return folder


FORMULAS = [
    "y ~ x + z + g + C(k) + k + c + b",
    "y ~ .",
    "y ~ x + z + `my col` + b + k - 1",
    "np.log(z) ~ scale(x) + center(np.log(x**2)):g + scale(`my col`, ddof=0)",
    "y ~ 0 + g + bs(x, knots=[4, 6], lower_bound=-10, upper_bound=20) + poly(z, 2, raw=True)",
    "y ~ C(g, contr.sum) * x + doubled(z) + C(x > 5, levels=[False, True])",
]


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")  # columns that others sum to
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_stream_is_coded_as_a_frame_is(formula, frame, path):
    wanted = BayesRidge.from_formula(formula, frame, weights="w").fit()
    res = BayesRidge.from_parquet(path, formula, weights="w", batch_size=128).fit()
    assert list(res.params.index) == list(wanted.params.index)
    close(res.params, wanted.params)
    close(res.bse, wanted.bse)
    close(res.conf_int(), wanted.conf_int())
    close(res.rsquared, wanted.rsquared)
    assert res.nobs == wanted.nobs
    new = frame.iloc[30:40]
    close(res.get_prediction(new).summary_frame(), wanted.get_prediction(new).summary_frame())
    assert [note for note in res.notes if "row(s)" in note] == [note for note in wanted.notes if "row(s)" in note]


def test_selection_and_terms(frame, path):
    formula = "y ~ x + z + g + C(k)"
    wanted = SpikeSlab.from_formula(formula, frame, unpenalized=["g"]).fit()
    res = SpikeSlab.from_parquet(path, formula, unpenalized=["g"], batch_size=100).fit()
    close(res.params, wanted.params)
    close(res.inclusion_prob, wanted.inclusion_prob)


def test_several_responses_a_dataset_a_list_and_columns_left_out(frame, path):
    formula = "y + x ~ z + g"
    complete = frame[["y", "x", "z", "g"]].notna().all(axis=1)
    wanted = BayesRidge.from_formula(formula, frame[frame.k > 1], drop_cols=["g[T.c]"]).fit()
    chosen = ds.dataset(path).filter(ds.field("k") > 1)
    close(BayesRidge.from_parquet(chosen, formula, drop_cols=["g[T.c]"]).fit().params, wanted.params)
    res = BayesRidge.from_parquet([path / "a.parquet", path / "b.parquet"], formula).fit()
    assert res.nobs == complete.sum()
    assert list(res.params.columns) == ["y", "x"]


def test_folders_give_columns(frame, tmp_path):
    complete = frame.dropna()
    complete.drop(columns="c").to_parquet(tmp_path / "parts", partition_cols=["g"])
    res = BayesRidge.from_parquet(tmp_path / "parts", "y ~ x + g").fit()
    close(res.params, BayesRidge.from_formula("y ~ x + g", complete).fit().params)


def test_batches_of_any_size_give_the_same(path):
    formula = "y ~ scale(x) + I(z**2) + g"
    results = [BayesRidge.from_parquet(path, formula, batch_size=size).fit() for size in (41, 1000)]
    close(results[0].params, results[1].params)
    close(results[0].log_marginal, results[1].log_marginal)


def test_declared_levels_need_one_pass_and_set_the_order(frame, path):
    levels = {"g": ["c", "b", "a", "d", "e"], "k": [1, 2, 3, 4]}
    with redirect_stderr(io.StringIO()) as told:
        res = BayesRidge.from_parquet(path, "y ~ x + g + C(k)", levels=levels, progress=True).fit()
    assert "moments" in told.getvalue()
    assert "levels" not in told.getvalue()
    ordered = frame.assign(g=pd.Categorical(frame.g, levels["g"]))
    wanted = BayesRidge.from_formula("y ~ x + g + C(k)", ordered).fit()
    assert list(res.params.index) == list(wanted.params.index)
    close(res.params, wanted.params)
    with pytest.raises(ValueError, match=r"a level that is neither declared nor found .*'d'"):
        BayesRidge.from_parquet(path, "y ~ g", levels={"g": ["a", "b", "c"]})
    with pytest.raises(ValueError, match=r"levels names 'x', which the formula .* does not use as factors"):
        BayesRidge.from_parquet(path, "y ~ x + g", levels={"x": [1, 2]})


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("y ~ bs(x, df=4)", r"knots of bs\(x, df=4\) depend on all rows: declare them, bs\(x, knots="),
        ("y ~ bs(x, knots=[4])", r"knots of bs\(x, knots=\[4\]\) depend on all rows"),
        ("y ~ cr(x, knots=[4], lower_bound=0, upper_bound=9, constraints='center')", "and constraints"),
        ("y ~ poly(x, 2)", r"poly\(x, 2\) are orthogonal over all rows: use poly\(..., raw=True\)"),
        ("y ~ standardize(x)", r"use scale\(x, ddof=0\)"),
        ("y ~ scale(x, center=False)", r"scale takes one argument and ddof="),
        ("y ~ scale(center(x))", "make a column of the inner one"),
        ("y ~ C(x > 5)", r"levels of C\(x > 5\) cannot be found in a stream"),
        ("y ~ lag(x)", r"lag\(x\) looks at other rows"),
        ("y ~ I(x - x.mean())", r"'I\(x - x.mean\(\)\)' depend on more than their own row"),
        ("y ~ x.rank()", "depend on more than their own row"),
        ("g ~ x", "the response must be numeric"),
        ("y ~ np.log(z - 4)", r"'np.log\(z - 4\)' is not a number in \d+ row\(s\) whose columns have values"),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_what_a_stream_cannot_compute_is_refused(formula, told, path):
    with pytest.raises(ValueError, match=told):
        BayesRidge.from_parquet(path, formula, batch_size=64)


def test_an_expression_over_rows_is_found_in_batches_of_one_row(path):
    with pytest.raises(ValueError, match="depend on more than their own row"):
        BayesRidge.from_parquet(path / "b.parquet", "y ~ I(x - x.mean())", batch_size=1)


def test_bad_files_and_arguments(frame, path, tmp_path):
    with pytest.raises(ValueError, match=r"missing values in .*'x' \(1\).*use missing='drop'"):
        BayesRidge.from_parquet(path, "y ~ x", missing="raise")
    frame.assign(x=np.nan).to_parquet(tmp_path / "nan.parquet")
    with pytest.raises(ValueError, match=r"every row has a missing value \(in .*'x' \(700\)"):
        BayesRidge.from_parquet(tmp_path / "nan.parquet", "y ~ x")
    frame.iloc[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="there are no rows"):
        BayesRidge.from_parquet(tmp_path / "none.parquet", "y ~ x")
    frame.assign(x=np.inf).to_parquet(tmp_path / "inf.parquet")
    with pytest.raises(ValueError, match=r"not finite in column\(s\) 'x'"):
        BayesRidge.from_parquet(tmp_path / "inf.parquet", "y ~ x")
    frame.assign(t=pd.Timestamp("2020-01-01")).to_parquet(tmp_path / "time.parquet")
    with pytest.raises(ValueError, match=r"'t' \(timestamp.*\) are neither numbers nor text"):
        BayesRidge.from_parquet(tmp_path / "time.parquet", "y ~ t")
    for name in ("intercept", "subset"):
        with pytest.raises(ValueError, match=f"{name} is not an argument of from_parquet"):
            BayesRidge.from_parquet(path, "y ~ x", **{name: True})
    with pytest.raises(ValueError, match="weights names 'v'"):
        BayesRidge.from_parquet(path, "y ~ x", weights="v")
    with pytest.raises(ValueError, match="batch_size must be a positive integer"):
        BayesRidge.from_parquet(path, "y ~ x", batch_size=0)
    frame.assign(w=-1.0).to_parquet(tmp_path / "w.parquet")
    with pytest.raises(ValueError, match=r"row\(s\) 0.* are not: leave out rows that should not count"):
        BayesRidge.from_parquet(tmp_path / "w.parquet", "y ~ x", weights="w")


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")  # columns that others sum to
def test_decimals_and_incomplete_integers(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 9, 50)
    table = pa.table(
        {
            "y": pa.array(x + 0.1 * np.arange(50) + rng.normal(size=50)),
            "x": pa.array([None if i == 3 else int(v) for i, v in enumerate(x)]),
            "d": pa.array(np.arange(50.0)).cast(pa.decimal128(20, 4)),
            "t": pa.array([None if i == 4 else bool(v % 2) for i, v in enumerate(x)]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    data = pd.DataFrame({"y": table["y"].to_numpy(), "x": x, "d": np.arange(50.0), "t": x % 2 == 1}).drop(
        index=[3, 4]
    )
    wanted = BayesRidge.from_formula("y ~ C(x) + d + t", data).fit()
    res = BayesRidge.from_parquet(tmp_path / "t.parquet", "y ~ C(x) + d + t", batch_size=9).fit()
    assert list(res.params.index) == list(wanted.params.index)
    close(res.params, wanted.params)


def test_without_pyarrow_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r"pip install 'pybayesridge\[stream\]'"):
        BayesRidge.from_parquet("nowhere", "y ~ x")


def small(n=41, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.normal(size=n), "g": rng.choice(["a", "b", "c"], n)})
    data["y"] = data.x + (data.g == "b") + rng.normal(size=n)
    return data


def folder_of(folder, *parts):
    for i, part in enumerate(parts):
        if isinstance(part, pd.DataFrame):
            part.to_parquet(folder / f"{i}.parquet")
        else:
            pq.write_table(part, folder / f"{i}.parquet")
    return folder


def same_as_memory(folder, formula, whole, **options):
    found = BayesRidge.from_parquet(folder, formula, **options).fit()
    wanted = BayesRidge.from_formula(formula, whole).fit()
    assert list(found.params.index) == list(wanted.params.index)
    assert found.nobs == wanted.nobs
    assert found.model.data.n_dropped == wanted.model.data.n_dropped
    close(found.params, wanted.params)
    close(found.bse, wanted.bse)


FACTORS = ["y ~ x + C(g)", "y ~ log(x + 9) * C(g)", "y ~ scale(x) + C(g)", "y ~ x + g"]


@pytest.mark.parametrize(("formula", "batch_size"), pairs(FACTORS, [1, 2, 8], 1))
def test_batches_with_one_complete_row(formula, batch_size, tmp_path):
    data = small()
    data.loc[[1, 2, 4, 5, 6], "x"] = np.nan
    data.loc[8:15, "g"] = None
    same_as_memory(folder_of(tmp_path, data), formula, data, batch_size=batch_size)


def test_one_row_and_a_category_type(tmp_path):
    data = small().astype({"g": pd.CategoricalDtype(["c", "b", "a", "never"])})
    same_as_memory(folder_of(tmp_path, data), "y ~ x + C(g)", data, batch_size=1)


def test_a_file_that_lacks_a_column_is_refused(tmp_path):
    data = small()
    for i, parts in enumerate([(data, data.drop(columns="x")), (data.drop(columns="x"), data)]):
        (folder := tmp_path / str(i)).mkdir()
        folder_of(folder, *parts)
        for source in (folder, [str(folder / "0.parquet"), str(folder / "1.parquet")]):
            for formula in ("y ~ x + g", "y ~ .", "y ~ g + log(x + 9)"):
                with pytest.raises(ValueError, match=rf"{1 - i}\.parquet lacks the column 'x', which other files"):
                    BayesRidge.from_parquet(source, formula)
        assert BayesRidge.from_parquet(folder, "y ~ g").nobs == 2 * len(data)
        whole = ds.dataset(folder, schema=pa.Schema.from_pandas(data))
        with pytest.raises(ValueError, match=r"lacks the column 'x'"):
            BayesRidge.from_parquet(whole.filter(ds.field("y") > 0), "y ~ x + g")
    (folder := tmp_path / "weights").mkdir()
    with pytest.raises(ValueError, match=r"1\.parquet lacks the column 'w'"):
        BayesRidge.from_parquet(folder_of(folder, data.assign(w=1.0), data), "y ~ x", weights="w")


def test_a_file_outside_the_folders_that_give_a_column_is_refused(tmp_path):
    data = small()
    folder_of(tmp_path, data)
    (tmp_path / "k=1").mkdir()
    folder_of(tmp_path / "k=1", data)
    with pytest.raises(ValueError, match=r"0\.parquet lacks the column 'k'"):
        BayesRidge.from_parquet(tmp_path, "y ~ x + k")


def integers(data, dtype="int64"):
    return data.assign(x=np.arange(len(data), dtype=dtype))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: (integers(d), d),
        lambda d: (d, integers(d)),
        lambda d: (integers(d, "int8"), integers(d)),
        lambda d: (d.astype({"x": "float32"}), d),
        lambda d: (d, d.assign(g=d.g.astype("category"))),
        lambda d: (d.assign(g=d.g.astype("category")), d),
        lambda d: (d[d.g != "c"], d[d.g == "c"]),
        lambda d: (d.iloc[:0], d, d.iloc[:0]),
        lambda d: (d.assign(g=None), d),
        lambda d: (d, d.assign(g=None)),
        lambda d: (d.assign(x=None), d),
        lambda d: (d.assign(x=np.nan), d),
    ],
    ids=[
        "int, float",
        "float, int",
        "int8, int64",
        "float32, float64",
        "text, dictionary",
        "dictionary, text",
        "a level in one file",
        "empty files",
        "text missing first",
        "text missing last",
        "numbers missing first",
        "NaN first",
    ],
)
def test_files_of_one_kind_of_values(change, tmp_path):
    parts = change(small())
    whole = pd.concat([part.astype(object) for part in parts], ignore_index=True).infer_objects()
    whole["x"] = whole["x"].astype(float)
    for formula in ("y ~ x + g", "y ~ x + C(g)"):
        same_as_memory(folder_of(tmp_path, *parts), formula, whole)


def test_dictionaries_of_different_widths(tmp_path):
    data = small()
    parts = [
        data.assign(g=pd.Categorical(data.g, ["a", "b", "c"])),
        data.assign(g=pd.Categorical(data.g, ["a", "b", "c", *map(str, range(300))])),
    ]
    with pytest.warns(DataWarning, match="'g' has 303 levels in 82 rows"):
        res = BayesRidge.from_parquet(folder_of(tmp_path, *parts), "y ~ x + g").fit()
    wanted = BayesRidge.from_formula("y ~ x + g", pd.concat([data, data], ignore_index=True)).fit()
    close(res.params[wanted.params.index], wanted.params)


@pytest.mark.parametrize(
    ("change", "types"),
    [
        (lambda d: d.assign(g=1), "large_string|string"),
        (lambda d: d.assign(x="3"), "double"),
        (lambda d: d.assign(x=True), "double"),
    ],
)
def test_files_whose_types_do_not_go_together_are_refused(change, types, tmp_path):
    data = small()
    for i, parts in enumerate([(data, change(data)), (change(data), data)]):
        (folder := tmp_path / str(i)).mkdir()
        with pytest.raises(ValueError, match=rf"column '[gx]' has the type .*({types})") as caught:
            BayesRidge.from_parquet(folder_of(folder, *parts), "y ~ x + C(g)")
        assert "0.parquet" in str(caught.value)
        assert "1.parquet" in str(caught.value)


def test_a_batch_without_a_complete_row(tmp_path):
    data = small()
    data.loc[:9, "x"] = np.nan
    same_as_memory(folder_of(tmp_path, data), "y ~ x + C(g)", data, batch_size=5)
    for name, part, message in (
        ("none", data.assign(x=np.nan), r"every row has a missing value \(in 'x' \(41\)\)"),
        ("empty", data.iloc[:0], "there are no rows"),
    ):
        (tmp_path / name).mkdir()
        folder_of(tmp_path / name, part)
        with pytest.raises(ValueError, match=message):
            BayesRidge.from_parquet(tmp_path / name, "y ~ x + C(g)")
