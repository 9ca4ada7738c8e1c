"""Formulas of plain terms: cross-products from codes of factors, compared with those of the coded rows."""

import numpy as np
import pandas as pd
import pytest
from formulaic.errors import FormulaicError

from pybayesridge import BayesRidge
from pybayesridge.formula import build
from pybayesridge.streams.expressions import rows_alone
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
    "np.log(w) ~ np.exp(z):g + scale(np.log(x**2)) + I(b > 0.5)*h + x*g",
    "y ~ bs(x, knots=[4, 6], lower_bound=-10, upper_bound=20)*g + poly(`my col`, 2, raw=True):z + center(x + z):h:g",
    "y ~ 0 + bs(z, knots=[0], lower_bound=-9, upper_bound=9, include_intercept=True) + poly(z, 3, raw=True):C(k):h",
    "y ~ cr(x, knots=[2, 5, 7], lower_bound=-10, upper_bound=20):poly(z, 2, raw=True) + scale(I(far**2)):g + x.abs()",
]


AFTER_A_FIRST_PASS = [
    "y ~ np.exp(scale(x))*g + z + C(k)",
    "y ~ scale(x)*scale(z)*g + big",
    "y ~ I(scale(far)**2):h + center(x):z + poly(scale(z), 2, raw=True)*C(b)",
    "np.log(w) ~ scale(np.log(x)):b:C(k, contr.sum) + np.abs(center(drift)):g + I(x > 5)",
]

WAYS = [(None, 90), ("w", 90), (None, 2000), ("w", 2000)]
"""Weights, and rows in a batch."""


@pytest.mark.parametrize(("formula", "way"), pairs(FORMULAS, WAYS, 1))
def test_moments_are_those_of_the_coded_rows(formula, way, frame, table):
    weights, size = way
    names, mean, products = of_rows(formula, frame, weights)
    # A reader can be read only once.
    model = BayesRidge.from_arrow(table.to_reader(), formula, weights=weights, batch_size=size)
    check(model.source.moments, names, mean, products)


@pytest.mark.parametrize(("formula", "way"), pairs(AFTER_A_FIRST_PASS, WAYS, 1))
def test_moments_of_a_second_pass(formula, way, frame, table):
    weights, size = way
    model = BayesRidge.from_arrow(table, formula, weights=weights, batch_size=size)
    check(model.source.moments, *of_rows(formula, frame, weights))


def check(moments, names, mean, products):
    """Compare moments with those of the coded rows."""
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


def log_and_square(x):
    return pd.DataFrame({"log": np.log(x), "square": x**2})


def three_ones(x):
    return np.ones(3)


def test_functions_of_the_user(frame, table):
    for formula in ("y ~ log_and_square(w):g + z", "y ~ log_and_square(w) + np.float64(k) + g"):
        expected = BayesRidge.from_formula(formula, frame).fit()
        for size in (1, 300):
            res = BayesRidge.from_arrow(table[:40] if size == 1 else table, formula, batch_size=size)
            assert res.nobs == (40 if size == 1 else ROWS)
        res = res.fit()
        assert list(res.params.index) == list(expected.params.index)
        np.testing.assert_allclose(res.params, expected.params, rtol=1e-9)
        new = frame.iloc[3:9]
        np.testing.assert_allclose(res.predict(new), expected.predict(new), rtol=1e-9)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("I(x - x.mean())", "depend on more than their own row"),
        ("x.rank()", "depend on more than their own row"),
        ("x.cumsum()", "depend on more than their own row"),
        ("I(np.arange(len(x)))", "depend on more than their own row"),
        ("np.unique(x, return_inverse=True)[1]", "depend on more than their own row"),
        ("pd.factorize(k)[0]", "depend on more than their own row"),
        ("scale(x - x.mean())", "depend on more than their own row"),
        ("pd.get_dummies(drift // 1000)", r"'pd.get_dummies\(.*\)\[.*\]' depend on more than their own row"),
        ("np.log(z)", r"'np.log\(z\)' is not a number in \d+ row\(s\) whose columns have values"),
        ("I(1/(k - 1))", r"not finite in column\(s\) 'I\(1 / \(k - 1\)\)'"),
        ("three_ones(x)", "does not give each row a number"),
        ("np.where(x > 5, 'a', 'b')", "is a factor whose levels cannot be found in a stream"),
        ("x.astype(str)", "is a factor whose levels cannot be found in a stream"),
        ("scale(log_and_square(w))", "must be one column in a response, scale or center"),
        ("I(1e160 * x)", r"the squares of 'I\(1e\+160 \* x\)' leave the range of floats"),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_expressions_that_are_refused_beside_factors(expression, message, table):
    for size in (150, 1) if "own row" in message else (150,):
        with pytest.raises(ValueError, match=message):
            BayesRidge.from_arrow(table[:300].to_reader(), f"y ~ {expression} + x + g", batch_size=size)


@pytest.mark.parametrize(
    "expression",
    ["I(g.cat.codes)", "I(pd.Categorical(g).codes)", "I(pd.factorize(g)[0])", "bs(x, knots=[x.mean()], **BOUNDS)"],
)
def test_expressions_of_text_and_knots_that_depend_on_the_rows(expression, table):
    expression = expression.replace("**BOUNDS", "lower_bound=-10, upper_bound=20")
    with pytest.raises(
        (ValueError, FormulaicError), match=r"own row|Can only use .cat accessor|depend on all rows of 'x'"
    ):
        BayesRidge.from_arrow(table, f"y ~ {expression} + z", batch_size=100)


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 9, 15, 16, 904, 2500, 4096, 65_536])
def test_rows_by_themselves_have_no_order_and_no_symmetry(rows):
    at = rows_alone(rows)
    assert at.size == np.unique(at).size == min(8, rows // 2)
    np.testing.assert_array_equal(at, rows_alone(rows))
    x = np.arange(rows)
    for other in (lambda v: v[::-1], lambda v: np.roll(v, 1), np.sort, lambda v: v - v.mean(), lambda v: v - v[0]):
        assert (other(x)[at] != other(x[at])).any() or rows < 4


@pytest.mark.parametrize("formula", ["y ~ x[::-1]", "y ~ x[::-1] + g"])
def test_reversed_columns(formula):
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(size=5000), "y": rng.normal(size=5000), "g": rng.choice(["a", "b"], 5000)})
    for size in (2500, 4096):
        with pytest.raises(ValueError, match="depend on more than their own row"):
            BayesRidge.from_arrow(table, formula, batch_size=size)


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
