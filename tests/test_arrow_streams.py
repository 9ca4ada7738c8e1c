"""Formulas on Arrow streams, batch by batch, compared with the same formulas on frames in memory."""

import io
import sys
from contextlib import redirect_stderr

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")

SAME = 1e-10
"""A fit from a stream compared with the fit from a frame; relative to the largest entry."""

ROWS = 500
TWO_PASSES = "y ~ np.exp(scale(x)) + g"
FORMULA = "y ~ scale(x) + z + g + C(k) + e"


def close(actual, expected):
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=SAME * np.abs(expected).max())


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "x": rng.normal(5.0, 3.0, ROWS),
            "z": rng.normal(size=ROWS),
            "g": np.r_[rng.choice(["c", "b", "a"], ROWS - 3), ["d", "d", "e"]].astype(object),
            "k": rng.integers(1, 5, ROWS),
            "e": pd.Categorical(rng.choice(["low", "high", "mid"], ROWS), ["low", "mid", "high"]),
            "w": rng.uniform(0.5, 2.0, ROWS),
            "unused": pd.Timestamp("2020-01-01"),
        }
    )
    data["y"] = 0.3 * data.x + 2.0 * (data.g == "b") + 0.2 * data.k + rng.normal(size=ROWS)
    data.loc[[5, 80], "x"] = np.nan
    data.loc[ROWS - 1, "g"] = None
    return data


@pytest.fixture(scope="module")
def table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def same_fit(res, expected):
    assert list(res.params.index) == list(expected.params.index)
    assert res.nobs == expected.nobs
    assert res.model.data.n_dropped == expected.model.data.n_dropped
    close(res.params, expected.params)
    close(res.bse, expected.bse)
    close(res.log_marginal, expected.log_marginal)


class Exported:
    """An object that has nothing but the protocol."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


WAYS = {
    "table": lambda table: table,
    "small batches": lambda table: pa.Table.from_batches(table.to_batches(max_chunksize=7)),
    "protocol": Exported,
    "function of readers": lambda table: table.to_reader,
    "function of tables": lambda table: lambda: table,
    "dictionaries that differ": lambda table: pa.concat_tables(
        [part.set_column(2, "g", part["g"].dictionary_encode()) for part in (table[:300], table[300:])]
    ),
    "text views": lambda table: table.set_column(2, "g", pa.array(table["g"].to_pylist(), pa.string_view())),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_is_coded_as_a_frame_is(way, frame, table):
    order = {"g": ["a", "b", "c", "d"]} if "dictionaries" in way else None
    expected = BayesRidge.from_formula(FORMULA, frame, weights="w").fit()
    res = BayesRidge.from_arrow(WAYS[way](table), FORMULA, weights="w", batch_size=64, levels=order).fit()
    same_fit(res, expected)
    new = frame.iloc[30:40]
    close(res.get_prediction(new).summary_frame(), expected.get_prediction(new).summary_frame())


def test_selection_columns_left_out_and_a_frame_of_pandas(frame, table):
    formula = "y ~ x + z + g"
    expected = SpikeSlab.from_formula(formula, frame, unpenalized=["g"], drop_cols=["z"]).fit()
    for data in (table, frame):
        if hasattr(data, "__arrow_c_stream__"):
            res = SpikeSlab.from_arrow(data, formula, unpenalized=["g"], drop_cols=["z"]).fit()
            close(res.params, expected.params)
            close(res.inclusion_prob, expected.inclusion_prob)


@pytest.mark.parametrize("lazy", [False, True])
def test_polars(lazy, frame):
    pl = pytest.importorskip("polars")
    columns = {name: frame[name].tolist() for name in ("z", "k", "y", "w")}
    data = pl.DataFrame(
        {
            **columns,
            "g": [g if isinstance(g, str) else None for g in frame["g"]],
            "x": pl.Series([None if np.isnan(v) else v for v in frame["x"]], dtype=pl.Float64),
            # In the order of appearance, which says nothing.
            "c": pl.Series(frame["e"].astype(str).tolist(), dtype=pl.Categorical),
            "e": pl.Series(frame["e"].astype(str).tolist(), dtype=pl.Enum(["low", "mid", "high"])),
        }
    )
    if lazy and not hasattr(data.lazy(), "collect_batches"):
        pytest.skip("this polars cannot read lazy frames in batches")
    for formula in (FORMULA, "y ~ x + c"):
        expected = BayesRidge.from_formula(formula, data, weights="w").fit()
        res = BayesRidge.from_arrow(data.lazy() if lazy else data, formula, weights="w", batch_size=90).fit()
        same_fit(res, expected)


def test_duckdb(table):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    rows = table.drop_columns("unused")
    connection.register("rows", rows)
    expected = BayesRidge.from_arrow(rows, FORMULA).fit()
    query = "select * exclude e, e::enum('low', 'mid', 'high') as e from rows"
    same_fit(BayesRidge.from_arrow(connection.sql(query), FORMULA, batch_size=128).fit(), expected)
    same_fit(BayesRidge.from_arrow(lambda: connection.sql(query), FORMULA).fit(), expected)


def test_a_database_through_adbc(frame):
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    pytest.importorskip("adbc_driver_manager")
    complete = frame[["y", "x", "g"]].dropna()
    with dbapi.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("rows", pa.Table.from_pandas(complete, preserve_index=False))

        def query():
            cursor.execute("select * from rows")
            return cursor.fetch_record_batch()

        res = BayesRidge.from_arrow(query, "y ~ x + g").fit()
        same_fit(res, BayesRidge.from_formula("y ~ x + g", complete).fit())
        one = BayesRidge.from_arrow(query(), "y ~ x").fit()
        same_fit(one, BayesRidge.from_formula("y ~ x", complete).fit())


def test_a_reader_serves_one_pass(frame, table):
    complete = frame[frame.x.notna() & frame.g.notna()]
    res = BayesRidge.from_arrow(table.to_reader(), "y ~ x + z").fit()
    same_fit(res, BayesRidge.from_formula("y ~ x + z", frame).fit())
    levels = {"g": ["a", "b", "c", "d"]}
    res = BayesRidge.from_arrow(table.to_reader(), "y ~ x + g", levels=levels, batch_size=50).fit()
    same_fit(res, BayesRidge.from_formula("y ~ x + g", frame).fit())
    assert res.nobs == len(complete)


def test_an_object_that_is_empty_the_second_time_is_refused(table):
    class Once(Exported):
        """Like a reader, but nothing shows that it can be read only once."""

        def __arrow_c_stream__(self, requested_schema=None):
            out, self.table = self.table, self.table[:0]
            return out.__arrow_c_stream__(requested_schema)

    with pytest.raises(ValueError, match=r"the second pass gave 0 row\(s\) and the first 500: .*Pass a table, or a"):
        BayesRidge.from_arrow(Once(table), TWO_PASSES)
    reader = table.to_reader()
    with pytest.raises(ValueError, match=r"the second pass gave 0 row\(s\)"):
        BayesRidge.from_arrow(lambda: reader, TWO_PASSES)
    tables = iter([table, table.drop_columns("g")])
    with pytest.raises(ValueError, match="column 'g' of the second stream is not that of the first"):
        BayesRidge.from_arrow(lambda: next(tables), TWO_PASSES)


def test_what_is_refused(frame, table):
    with pytest.raises(ValueError, match=r"two passes.*mean of .*RecordBatchReader can be read only once"):
        BayesRidge.from_arrow(table.to_reader(), TWO_PASSES)
    for data, message in (
        ("rows.parquet", r"not a path \('rows.parquet'\): use from_parquet"),
        (3, "must have Arrow's stream protocol .* not int"),
        (lambda: 3, "the object that the function returns must have Arrow's stream protocol .* not int"),
        (table[:0], "there are no rows"),
        (pa.Table.from_pandas(frame.assign(x=np.nan)), r"every row has a missing value \(in 'x' \(500\)\)"),
        (pa.Table.from_pandas(frame.assign(x=np.inf)), r"not finite in column\(s\) 'x'"),
        (pa.Table.from_pandas(frame.assign(x=frame.unused)), r"'x' \(timestamp.*\) are neither numbers nor text"),
        (pa.Table.from_arrays([table["y"], table["x"], table["z"]], ["y", "x", "x"]), "duplicate column name"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesRidge.from_arrow(data, "y ~ x")
    with pytest.raises(ValueError, match="use from_parquet"):
        BayesRidge.from_arrow(dataset.dataset(table), "y ~ x")
    with pytest.raises(ValueError, match=r"missing values in 'x' \(2\).*use missing='drop'"):
        BayesRidge.from_arrow(table, "y ~ x", missing="raise")
    with pytest.raises(ValueError, match="subset is not an argument of from_arrow"):
        BayesRidge.from_arrow(table, "y ~ x", subset=[0])
    with pytest.raises(ValueError, match="from_arrow is for family='gaussian'"):
        BayesRidge.from_arrow(table, "y ~ x", family="binomial")
    with pytest.raises(ValueError, match="batch_size must be a positive integer"):
        BayesRidge.from_arrow(table, "y ~ x", batch_size=0)


def test_the_bar_and_the_recipe(table):
    with redirect_stderr(io.StringIO()) as told:
        res = BayesRidge.from_arrow(table.to_reader(), "y ~ x", progress=True).fit()
    assert "moments" in told.getvalue()
    assert "BayesRidge.from_arrow" in res.recipe.code
    assert res.recipe.named["data"] == "the table with the variables"


def test_without_pyarrow_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'pybayesridge\[stream\]'"):
        BayesRidge.from_arrow(lambda: None, "y ~ x")
