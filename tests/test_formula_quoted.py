"""Names in backticks: whatever they look like, they are columns and nothing else."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, load

SAME = 1e-9
"""Relative rounding of fits to the same numbers under other names."""

NAMES = [
    "b[0]", "~t", "a+b", "p(1)", "log(a)", "lambda", "None", "True", "a b", "a.b", "x.y.z", "a:b", "1st",
    "it's", '"q"', "a-b", "C(g)", "scale(b)", "np", "I", "C", "b[T.1]", "lag(b)", "µg", "µ", "ª", "a'b'c",
    "#", " b ", "b|a", "b*a", "-", "0x", "class", "x2(", "{b}", "%b%", "b, a", "b=1", "_QUOTED_b", "is", "in",
    ".", "..", "b!", "b\\a", "1e3",
]  # fmt: skip
"""Where b, a, t, p, g are columns that have nothing to do with them."""


@pytest.fixture
def data():
    rng = np.random.default_rng(11)
    frame = pd.DataFrame({name: rng.normal(size=50) for name in ("y", "odd", "w")})
    frame = frame.assign(y=frame.y + frame.odd, h=rng.choice(["u", "v", "w"], 50))
    for name in ("b", "a", "t", "p", "a_b", "g", "x", "q", "c", "z", "μ", "μg", "T", "e"):
        frame[name] = np.where(np.arange(50) < 20, np.nan, rng.normal(size=50))
    return frame


FORMULAS = [
    "y ~ {}",
    "y ~ {} * h",
    "y ~ {}:w + h",
    "y ~ I({} ** 2) + w",
    "y ~ scale({}) + w",
    "y ~ bs({}, df=4)",
    "y ~ np.exp({}):h",
    "y ~ scale({}):center(w)",
    "{} ~ w + h",
    "np.exp({}) ~ w",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_quoted_name_is_that_column(formula, name, data):
    odd = data.drop(columns=name, errors="ignore").rename(columns={"odd": name})
    res = BayesRidge.from_formula(formula.format(f"`{name}`"), odd).fit()
    same = BayesRidge.from_formula(formula.format("odd"), data).fit()
    assert res.nobs == 50
    np.testing.assert_allclose(res.params, same.params, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(res.predict(odd[3:9]), same.predict(data[3:9]), rtol=SAME, atol=SAME)
    if not formula.startswith(("{", "np")):
        assert sorted(res.model.formula_spec.variables) == sorted(
            name if n == "odd" else n for n in same.model.formula_spec.variables
        )
        effects = res.effects(name, values=(0.0, 0.5)).to_numpy()
        np.testing.assert_allclose(effects, same.effects("odd", values=(0.0, 0.5)).to_numpy(), rtol=SAME, atol=SAME)


@pytest.mark.parametrize("name", NAMES)
def test_missing_values_of_a_quoted_name_alone_leave_rows_out(name, data):
    odd = data.drop(columns=name, errors="ignore").rename(columns={"odd": name})
    odd.loc[[1, 7], name] = np.nan
    assert BayesRidge.from_formula(f"y ~ scale(`{name}`) + w", odd).nobs == 48
    assert BayesRidge.from_formula(f"y ~ `{name}`:h", odd).nobs == 48
    assert BayesRidge.from_formula(f"y ~ `{name}`", odd).nobs == 48


@pytest.mark.parametrize("name", NAMES)
def test_quoted_names_in_pickles_files_and_arguments(name, data, tmp_path):
    odd = data.drop(columns=name, errors="ignore").rename(columns={"odd": name})
    res = BayesRidge.from_formula(f"y ~ h + scale(`{name}`) + `{name}`", odd, unpenalized=[name]).fit()
    res.save(tmp_path / "fit.pbr")
    for back in (pickle.loads(pickle.dumps(res)), load(tmp_path / "fit.pbr")):
        pd.testing.assert_series_equal(back.predict(odd[:5]), res.predict(odd[:5]))
    at = list(res.params.index).index(name)
    assert res.contrast(name)["mean"].iloc[0] == pytest.approx(res.params.iloc[at], rel=SAME)
    if "`" not in name:
        assert res.contrast(f"2*`{name}`")["mean"].iloc[0] == pytest.approx(2 * res.params.iloc[at], rel=SAME)
    grouped = SpikeSlab.from_formula(f"y ~ h + `{name}`", odd, group="term").fit()
    assert len(grouped.params) == 4


@pytest.mark.parametrize("name", NAMES)
def test_quoted_factors(name, data):
    odd = data.drop(columns=name, errors="ignore").rename(columns={"h": name})
    for formula in ("y ~ {} * odd", "y ~ C({}, contr.sum)", "y ~ C({}):odd"):
        res = BayesRidge.from_formula(formula.format(f"`{name}`"), odd).fit()
        same = BayesRidge.from_formula(formula.format("h"), data).fit()
        assert res.nobs == 50
        np.testing.assert_allclose(res.params, same.params, rtol=SAME, atol=SAME)
        np.testing.assert_allclose(res.effects(name).to_numpy(), same.effects("h").to_numpy(), rtol=SAME, atol=SAME)
        np.testing.assert_allclose(
            res.predictions({name: ["u", "w"]}).to_numpy(),
            same.predictions({"h": ["u", "w"]}).to_numpy(),
            rtol=SAME,
            atol=SAME,
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "formula", ["y ~ {}*h", "y ~ scale({}) + h", "y ~ exp(scale({})):w", "y ~ I({} ** 2):h", "y ~ C(h):{}", "{} ~ w"]
)
def test_streams_with_quoted_names(formula, name, data, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    odd = data.drop(columns=name, errors="ignore").rename(columns={"odd": name})
    table = pa.Table.from_pandas(odd, preserve_index=False)
    pq.write_table(table, tmp_path / "rows.parquet")
    text = formula.format(f"`{name}`")
    same = BayesRidge.from_formula(formula.format("odd"), data).fit()
    for model in (
        BayesRidge.from_arrow(table, text, batch_size=13),
        BayesRidge.from_parquet(tmp_path / "rows.parquet", text),
    ):
        res = model.fit()
        assert res.nobs == 50
        np.testing.assert_allclose(res.params, same.params, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(res.predict(odd[:5]), same.predict(data[:5]), rtol=1e-7, atol=1e-7)


def test_names_that_differ_in_signs_alone(data):
    """Each of them keeps its own mean, whatever other columns there are."""
    odd = data[["y", "h"]].copy()
    names = ["a b", "a_b", "a.b", "a-b", "a_b_", "_a_b"]
    for i, name in enumerate(names):
        odd[name] = data.odd * i + np.cos(np.arange(50.0) * (i + 1)) + 10 * i
    formula = "y ~ " + " + ".join(f"scale(`{name}`)" for name in names)
    res = BayesRidge.from_formula(formula, odd).fit()
    np.testing.assert_allclose(res.predict(odd[:4]), res.fittedvalues[:4], rtol=SAME)
    np.testing.assert_allclose(res.predict(odd[:4].drop(columns="h")), res.fittedvalues[:4], rtol=SAME)


def test_a_name_and_an_expression_of_one_text(data):
    odd = data.assign(**{"log(w)": data.odd, "w": np.abs(data.w)})
    with pytest.raises(ValueError, match=re.escape("the column `log(w)` and the expression log(w)")):
        BayesRidge.from_formula("y ~ `log(w)` + log(w)", odd)


def test_names_with_many_quotes(data):
    names = [f"v {i}" for i in range(13)]
    odd = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 13)), columns=names).assign(y=data.y)
    res = BayesRidge.from_formula(
        "y ~ I(" + " + ".join(f"{i + 1} * `{name}`" for i, name in enumerate(names)) + ")", odd
    )
    expected = odd[names].to_numpy() @ np.arange(1, 14)
    np.testing.assert_allclose(res.exog[:, 1], expected, rtol=SAME)


@pytest.mark.parametrize("formula", ["y ~ np.exp(`w`)", "y ~ bs(`w`, df=4)", "y ~ scale(`w`) + I(`w` ** 2)"])
def test_backticks_that_are_not_needed(formula, data):
    res = BayesRidge.from_formula(formula, data).fit()
    same = BayesRidge.from_formula(formula.replace("`", ""), data).fit()
    pd.testing.assert_series_equal(res.params, same.params)


def test_text_in_formulas_may_have_backticks_and_quotes(data):
    odd = data.assign(h=data.h.replace({"u": "u`s", "v": "it's"}))
    res = BayesRidge.from_formula("""y ~ I(h == "it's") + w""", odd)
    np.testing.assert_array_equal(res.exog[:, 1], (data.h == "v").astype(float))


@pytest.mark.parametrize("formula", ["y ~ h + `h[T.v]`", "y ~ w:odd + `w:odd`", "y ~ `Intercept` + h", "y ~ . - w"])
def test_two_columns_of_one_name(formula, data):
    odd = data[["y", "w", "odd", "h"]].assign(**{"h[T.v]": data.odd, "w:odd": data.w, "Intercept": data.w})
    with pytest.raises(ValueError, match="makes two columns called"):
        BayesRidge.from_formula(formula, odd)


@pytest.mark.parametrize(
    "formula", ["y ~ 0 + Intercept", "y ~ 0 + h + Intercept", "y ~ w + (0 + Intercept | h)", "y ~ band(Intercept, w)"]
)
def test_a_column_named_as_the_intercept_is_not_taken_for_it(formula, data):
    odd = data.assign(Intercept=data.w + data.odd)
    with pytest.raises(ValueError, match="the data have a column named 'Intercept'"):
        BayesRidge.from_formula(formula, odd)
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="the data have a column named 'Intercept'"):
        BayesRidge.from_arrow(odd, formula)


@pytest.mark.parametrize(("name", "formula"), [("", "y ~ `` + g"), ("a`b", "y ~ . + x:g"), ("a", "y ~ `` + g")])
def test_names_that_cannot_be_in_backticks(name, formula, data):
    # Formulaic leaves an empty name out.
    with pytest.raises(ValueError, match="a formula cannot name"):
        BayesRidge.from_formula(formula, data.rename(columns={"z": name}))
