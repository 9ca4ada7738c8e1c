"""One table through every entrance: the same levels, the same reference level, the same numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, cli

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
import pyarrow.parquet as pq  # noqa: E402

SAME = 1e-7
"""Relative rounding of fits to rows and to their moments."""

ORDER = ["low", "mid", "high"]


def table(kind: str) -> pd.DataFrame:
    """Forty rows with a factor: text, or a categorical whose order is not that of the alphabet."""
    rng = np.random.default_rng(3)
    values = np.array(["high", *rng.choice(ORDER, 39)])
    frame = pd.DataFrame({"y": rng.normal(size=40) + (values == "high"), "x": rng.normal(size=40)})
    dtype = {
        "text": object,
        "ordered": pd.CategoricalDtype(ORDER, ordered=True),
        "declared": pd.CategoricalDtype(ORDER),
    }
    return frame.assign(g=pd.Series(values).astype(dtype[kind]))


def polars_of(frame: pd.DataFrame) -> object:
    """As polars has it: a declared order is that of an Enum."""
    out = pl.DataFrame({name: [None if pd.isna(one) else one for one in frame[name]] for name in frame})
    return out if frame.g.dtype == object else out.with_columns(pl.col("g").cast(pl.Enum(ORDER)))


def in_memory(frame: pd.DataFrame) -> dict[str, object]:
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    half = frame.iloc[20:].assign(g=frame.g.iloc[20:])
    return {
        "pandas": frame,
        "pyarrow": arrow,
        "chunks": pa.concat_tables([arrow.slice(0, 20), pa.Table.from_pandas(half, preserve_index=False)]),
        "polars": polars_of(frame),
        "Arrow in pandas": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "dict of pandas": {name: frame[name] for name in frame},
        "dict of pyarrow": {name: arrow[name] for name in frame},
        "dict of polars": {name: polars_of(frame)[name] for name in frame},
        "dict of arrays": {name: frame[name].array for name in frame},
    }


@pytest.mark.parametrize("kind", ["text", "ordered", "declared"])
def test_levels_do_not_depend_on_the_entrance(kind, tmp_path, capsys):
    frame = table(kind)
    expected = BayesRidge.from_formula("y ~ x + g", frame).fit().params
    assert list(expected.index[2:]) == (["g[T.low]", "g[T.mid]"] if kind == "text" else ["g[T.mid]", "g[T.high]"])
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(arrow, tmp_path / "pandas.parquet")
    polars_of(frame).write_parquet(tmp_path / "polars.parquet")
    fits = {name: BayesRidge.from_formula("y ~ x + g", data) for name, data in in_memory(frame).items()}
    fits |= {
        "stream of pyarrow": BayesRidge.from_arrow(arrow, "y ~ x + g", batch_size=7),
        "stream of polars": BayesRidge.from_arrow(polars_of(frame), "y ~ x + g"),
        "two passes": BayesRidge.from_arrow(arrow, "y ~ exp(scale(x)) - exp(scale(x)) + x + g"),
        **{
            f"{name}.parquet": BayesRidge.from_parquet(tmp_path / f"{name}.parquet", "y ~ x + g")
            for name in ("pandas", "polars")
        },
    }
    for name, model in fits.items():
        params = model.fit().params
        assert list(params.index) == list(expected.index), name
        np.testing.assert_allclose(params, expected, rtol=SAME, atol=SAME, err_msg=name)
    for name in ("pandas", "polars"):
        assert cli.main(["ridge", "y ~ x + g", str(tmp_path / f"{name}.parquet")]) == 0
        shown = capsys.readouterr().out
        assert all(level in shown for level in expected.index[2:]), shown


def test_arrays_and_record_batches_of_pyarrow():
    frame = table("ordered")
    expected = BayesRidge.from_formula("y ~ x + g", frame).fit()
    codes = pa.array(frame.g.cat.codes)
    holes = pa.array([None if i == 3 else code for i, code in enumerate(frame.g.cat.codes)], pa.int8())
    columns = {"y": pa.array(frame.y), "x": pa.array(frame.x), "g": pa.DictionaryArray.from_arrays(codes, ORDER)}
    for data in (columns, pa.record_batch(columns)):
        pd.testing.assert_series_equal(BayesRidge.from_formula("y ~ x + g", data).fit().params, expected.params)
    new = pa.record_batch({"x": pa.array([0.5]), "g": pa.array(["low"])})
    np.testing.assert_allclose(expected.predict(new), expected.predict(pd.DataFrame({"x": [0.5], "g": ["low"]})))
    model = BayesRidge.from_formula("y ~ x + g", columns | {"g": pa.DictionaryArray.from_arrays(holes, ORDER)})
    assert list(model.fit().params.index) == list(expected.params.index)
    assert model.endog.size == len(frame) - 1


def test_polars_categorical_is_text_everywhere(tmp_path, capsys):
    """Its order is that in which values were first seen, in any frame of the session."""
    frame = table("text")
    cat = polars_of(frame).with_columns(pl.col("g").cast(pl.Categorical))
    expected = BayesRidge.from_formula("y ~ x + g", frame).fit().params
    cat.write_parquet(tmp_path / "polars.parquet")
    pq.write_table(cat[:20].to_arrow(), tmp_path / "one.parquet")
    pq.write_table(cat[20:].to_arrow(), tmp_path / "two.parquet")
    for model in (
        BayesRidge.from_formula("y ~ x + g", cat),
        BayesRidge.from_formula("y ~ x + g", cat.to_arrow()),
        BayesRidge.from_formula("y ~ x + g", pq.read_table(tmp_path / "polars.parquet")),
        BayesRidge.from_formula("y ~ x + g", {name: cat[name] for name in cat.columns}),
        BayesRidge.from_arrow(cat, "y ~ x + g"),
        BayesRidge.from_arrow(cat.to_arrow(), "y ~ x + g"),
        BayesRidge.from_parquet(tmp_path / "polars.parquet", "y ~ x + g"),
        BayesRidge.from_parquet([tmp_path / "one.parquet", tmp_path / "two.parquet"], "y ~ x + g"),
    ):
        params = model.fit().params
        assert list(params.index) == list(expected.index)
        np.testing.assert_allclose(params, expected, rtol=SAME, atol=SAME)
    assert cli.main(["ridge", "y ~ x + g", str(tmp_path / "polars.parquet")]) == 0
    assert "g[T.low]" in capsys.readouterr().out


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_levels_without_rows_and_missing_levels(unused, holes, tmp_path):
    frame = table("ordered")
    if unused:
        frame = frame[frame.g != "mid"].reset_index(drop=True)
    if holes:
        frame.loc[[2, 5], "g"] = np.nan
    expected = BayesRidge.from_formula("y ~ x + g", frame).fit()
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(arrow, tmp_path / "rows.parquet")
    for model in (
        *(BayesRidge.from_formula("y ~ x + g", data) for data in in_memory(frame).values()),
        BayesRidge.from_arrow(arrow, "y ~ x + g"),
        BayesRidge.from_parquet(tmp_path / "rows.parquet", "y ~ x + g"),
    ):
        res = model.fit()
        assert res.nobs == expected.nobs
        assert list(res.params.index) == list(expected.params.index)
        np.testing.assert_allclose(res.params, expected.params, rtol=SAME, atol=SAME)


def test_numbers_declared_as_levels():
    """A dictionary of numbers is a factor, as a categorical of pandas is."""
    frame = table("text").assign(g=lambda d: pd.Categorical(d.g.map({"low": 30, "mid": 2, "high": 1}), [30, 2, 1]))
    expected = BayesRidge.from_formula("y ~ x + g", frame).fit().params
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    for model in (
        BayesRidge.from_formula("y ~ x + g", arrow),
        BayesRidge.from_formula("y ~ x + g", arrow.to_pandas(types_mapper=pd.ArrowDtype)),
        BayesRidge.from_arrow(arrow, "y ~ x + g"),
    ):
        params = model.fit().params
        assert list(params.index) == list(expected.index) == ["Intercept", "x", "g[T.2]", "g[T.1]"]
        np.testing.assert_allclose(params, expected, rtol=SAME, atol=SAME)


def test_the_event_of_a_response_does_not_depend_on_the_entrance():
    frame = table("declared").assign(r=lambda d: pd.Categorical(np.where(d.x > 0.3, "no", "yes"), ["yes", "no"]))
    arrow = pa.Table.from_pandas(frame[["r", "y"]], preserve_index=False)
    expected = BayesRidge.from_formula("r ~ y", frame, family="binomial").fit("laplace").params
    for data in (arrow, {name: arrow[name] for name in ("r", "y")}):
        params = BayesRidge.from_formula("r ~ y", data, family="binomial").fit("laplace").params
        np.testing.assert_allclose(params, expected, rtol=SAME)
    params = BayesRidge(arrow["r"], frame[["y"]], family="binomial").fit("laplace").params
    np.testing.assert_allclose(params, expected, rtol=SAME)
