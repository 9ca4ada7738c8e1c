"""Formulas of plain terms: cross-products from codes of factors, compared with those of the coded rows."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from pybayesridge.formula import build
from tests.effort import pairs

pa = pytest.importorskip("pyarrow")

SAME = 2e-11
"""Moments compared with those of the coded rows in long double, in units of the standard deviations. One column, a
single row whose value is near the mean that is subtracted from it, loses four digits by the rounding of that mean."""

ROWS = 1500


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {
            "x": rng.normal(5.0, 1.0, ROWS),
            "z": rng.normal(size=ROWS),
            "big": 1e8 + rng.normal(size=ROWS),
            "far": 1e4 + rng.normal(size=ROWS),
            "drift": 10.0 * np.arange(ROWS) + rng.normal(size=ROWS),
            # New levels appear from batch to batch.
            "g": np.sort(rng.choice(list("fedcba"), ROWS))[::-1],
            "h": np.where(rng.random(ROWS) < 4e-3, "rare", "usual"),
            "one": "only",
            "once": np.where(np.arange(ROWS) == ROWS // 2, "a", "b"),
            "k": rng.integers(0, 4, ROWS),
            "b": rng.random(ROWS) < 0.3,
            "my col": rng.normal(size=ROWS).astype(np.float32),
            "w": np.exp(2 * rng.normal(size=ROWS)),
        }
    )
    data["y"] = 1e5 + data.x + rng.normal(size=ROWS)
    return data


@pytest.fixture(scope="module")
def table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def of_rows(formula, frame, weights):
    """Names, means and cross-products of the coded rows, in long double."""
    data = build.build(formula, frame, subset=None, drop_cols=None, missing="drop", weights=weights, context={})
    w = np.ones(len(data.exog)) if weights is None else np.asarray(data.weights, dtype=float).ravel()
    w = w.astype(np.longdouble)
    both = np.hstack([data.exog, data.endog]).astype(np.longdouble)
    mean = both[0] + w @ (both - both[0]) / w.sum()
    deviations = both - mean
    return list(data.exog.columns), mean, (deviations * w[:, None]).T @ deviations


FORMULAS = [
    "y ~ x + z + big + drift",
    "y ~ g + h + one:x",
    "y ~ scale(far) + g*h + C(k) + k + b:g",
    "y ~ big:h + h + scale(`my col`, ddof=0)",
    "y ~ scale(far):g + center(drift)*h",
    "y ~ x*g*h",
    "y ~ 0 + g + scale(x) + z:drift",
    "y + z ~ C(g, contr.sum)*C(k, contr.helmert) + x:z:g",
    "y ~ C(once, contr.treatment('b')) + big:once",
    "y ~ C(k, contr.poly):x + `my col`:g",
    "y ~ scale(drift):once + g:h:x - 1",
    "y ~ C(b) + C(g)",
    "y ~ 1",
]


WAYS = [(None, 90), ("w", 90), (None, 2000), ("w", 2000)]
"""Weights, and rows in a batch."""


@pytest.mark.parametrize(("formula", "way"), pairs(FORMULAS, WAYS, 1))
def test_moments_are_those_of_the_coded_rows(formula, way, frame, table):
    weights, size = way
    names, mean, products = of_rows(formula, frame, weights)
    # A reader can be read only once.
    model = BayesRidge.from_arrow(table.to_reader(), formula, weights=weights, batch_size=size)
    moments = model.source.moments
    assert list(moments.columns) == names
    m = len(names)
    sd = np.sqrt(np.diag(products))
    sd = np.where(sd == 0, 1, sd)  # cells without rows
    scale = np.outer(sd, sd)
    found = np.concatenate(
        [moments.x_origin.astype(np.longdouble) + moments.x_offset, moments.y_origin + moments.y_offset]
    )
    assert np.max(np.abs(found - mean) / sd, initial=0) * np.sqrt(moments.weight_sum) < SAME
    assert np.max(np.abs(moments.xx - products[:m, :m]) / scale[:m, :m], initial=0) < SAME
    assert np.max(np.abs(moments.xy - products[:m, m:]) / scale[:m, m:], initial=0) < SAME
    assert np.max(np.abs(moments.yy / np.diag(products)[m:] - 1)) < SAME


def test_levels_of_incomplete_rows_are_no_levels(frame):
    data = frame.assign(x=np.where(frame.g == "c", np.nan, frame.x))
    data.loc[7, "h"] = None
    expected = BayesRidge.from_formula("y ~ x + g + h", data).fit()
    table = pa.Table.from_pandas(data)
    for way in (table, table.set_column(table.schema.names.index("x"), "x", pa.array(data.x, from_pandas=True))):
        res = BayesRidge.from_arrow(way, "y ~ x + g + h", batch_size=100).fit()
        assert list(res.params.index) == list(expected.params.index)
        assert res.model.data.n_dropped == expected.model.data.n_dropped
        np.testing.assert_allclose(res.params, expected.params, rtol=1e-9)


def test_a_dictionary_with_a_level_that_is_missing():
    rng = np.random.default_rng(5)
    values = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, 60)), pa.array(["u", None, "v"]))
    data = {"y": rng.normal(size=60), "x": rng.normal(size=60)}
    table = pa.table({**data, "g": values})
    frame = pd.DataFrame({**data, "g": pd.Series(values.to_pylist(), dtype=object)})
    for formula in ("y ~ x + g", "y ~ np.exp(x) + g"):
        expected = BayesRidge.from_formula(formula, frame).fit()
        res = BayesRidge.from_arrow(table, formula, batch_size=16).fit()
        assert res.nobs == expected.nobs
        assert list(res.params.index) == list(expected.params.index)
        np.testing.assert_allclose(res.params, expected.params, rtol=1e-9)


def test_a_constant_column_is_exactly_constant(table):
    value = 0.1
    whole = table.append_column("c", pa.array(np.full(ROWS, value)))
    for weights in (None, "w"):
        moments = BayesRidge.from_arrow(whole, "y ~ x + c", weights=weights, batch_size=70).source.moments
        assert moments.xx[1, 1] == 0
        assert moments.x_mean[1] == value


def test_what_is_refused(table):
    size = np.arange(float(ROWS))
    for name, values, message in (
        ("v", np.where(size == ROWS - 1, np.inf, size), r"not finite in column\(s\) 'v'"),
        ("v", 1e-200 * size, "the squares of 'v' leave the range of floats"),
        ("v", 1e200 * size, "the squares of 'v' leave the range of floats"),
        ("w", np.where(size == 77, 0.0, 1.0), "leave out rows that should not count"),
        ("w", np.where(size == 77, np.inf, 1.0), "leave out rows that should not count"),
    ):
        data = table.drop_columns("w").append_column(name, pa.array(values))
        data = data if "w" in data.schema.names else data.append_column("w", pa.array(np.ones(ROWS)))
        formula = "y ~ x + v + g" if "v" in data.schema.names else "y ~ x + g"
        with pytest.raises(ValueError, match=message):
            BayesRidge.from_arrow(data, formula, weights="w", batch_size=100)
    with pytest.raises(ValueError, match=r"neither declared nor found \('c' of 'g'\): declare it in `levels`"):
        BayesRidge.from_arrow(table, "y ~ g", levels={"g": list("abdef")})
    with pytest.raises(ValueError, match="does not vary, so that it has no standard deviation"):
        BayesRidge.from_arrow(table.append_column("c", pa.array(np.ones(ROWS))), "y ~ scale(c)")
    with pytest.raises(ValueError, match="drop_cols names 'q'"):
        BayesRidge.from_arrow(table, "y ~ x + g", drop_cols=["q"])
