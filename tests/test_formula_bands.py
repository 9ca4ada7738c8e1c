"""Formulas with groups, smooth curves and bands: columns of the rows of the fit and of new rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import DataWarning
from pybayesridge.cli.commands import names_read
from pybayesridge.formula.build import build, transform, transform_with_bands
from pybayesridge.formula.check import CodeError, refuse_code, refuse_code_of
from pybayesridge.formula.groups import GroupLevels
from pybayesridge.formula.hints import FormulaError
from pybayesridge.formula.smooths import knots_of, penalized
from pybayesridge.results.encoding import Decoder, Encoder

SAME = 1e-12
"""Relative difference of the same columns made of the same numbers."""

N = 60


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "y": rng.normal(size=N),
            "x": rng.gamma(1.0, size=N),
            "z": rng.normal(size=N),
            "g": rng.choice(list("cab"), N),
            "h": rng.choice([10, 2, 3], N),
            "my g": rng.choice(["u", "v"], N),
        },
        index=range(100, 100 + N),
    )
    frame["o"] = pd.Categorical(frame["g"], categories=["c", "never", "b", "a"], ordered=True)
    return frame


def made(formula, data, **options):
    given = {"subset": None, "drop_cols": None, "missing": "drop", "weights": None, "context": {"np": np}} | options
    return build(formula, data, **given)


def bands(formula, data, **options):
    return {each.band.name: each for each in made(formula, data, **options).bands}


def dense(values):
    return values.toarray() if sparse.issparse(values) else values


def test_intercepts_of_groups(data):
    one = bands("y ~ x + (1 | g)", data)["g"]
    assert sparse.isspmatrix_csc(one.penalized)
    assert one.band.columns == ("g[a]", "g[b]", "g[c]")
    assert not one.band.standardized
    assert one.band.unpenalized == ()
    assert one.band.correlated == ""
    np.testing.assert_array_equal(dense(one.penalized), pd.get_dummies(data["g"]).to_numpy(float))


def test_levels_of_categories_keep_their_order_without_those_that_do_not_occur(data):
    assert bands("y ~ (1 | o)", data)["o"].band.columns == ("o[c]", "o[b]", "o[a]")


def test_slopes_of_groups(data):
    found = bands("y ~ (x || g)", data)
    assert list(found) == ["g", "x|g"]
    assert found["x|g"].band.columns == ("x|g[a]", "x|g[b]", "x|g[c]")
    wanted = pd.get_dummies(data["g"]).to_numpy(float) * data[["x"]].to_numpy()
    np.testing.assert_array_equal(dense(found["x|g"].penalized), wanted)
    assert {each.band.correlated for each in found.values()} == {""}
    (alone,) = bands("y ~ (0 + x | g)", data).values()
    np.testing.assert_array_equal(dense(alone.penalized), wanted)


def test_correlated_slopes_say_so(data):
    found = bands("y ~ (x | g) + (0 + z | h)", data)
    assert {name: each.band.correlated for name, each in found.items()} == {
        "g": "(x | g)",
        "x|g": "(x | g)",
        "z|h": "",
    }
    factors = bands("y ~ (0 + g | h)", data)
    assert list(factors) == ["g[a]|h", "g[b]|h", "g[c]|h"]
    assert {each.band.correlated for each in factors.values()} == {"(0 + g | h)"}
    assert list(bands("y ~ (g | h)", data)) == ["h", "g[T.b]|h", "g[T.c]|h"]


def test_nested_and_crossed_groups(data):
    found = bands("y ~ (1 | g/h) + (1 | `my g`)", data)
    assert list(found) == ["g", "g:h", "my g"]
    pairs = sorted(set(zip(data["g"], data["h"], strict=True)))
    assert found["g:h"].band.columns == tuple(f"g[{g}]:h[{h}]" for g, h in pairs)
    wanted = np.column_stack([(data["g"] == g) & (data["h"] == h) for g, h in pairs])
    np.testing.assert_array_equal(dense(found["g:h"].penalized), wanted)
    assert found["g:h"].band.groups.keys() == pairs


def test_pairs_are_not_pasted_text():
    frame = pd.DataFrame({"a": ["x", "x:y", "x", "x:y"], "b": ["y:z", "z", "z", "y:z"]})
    assert len(GroupLevels.of(frame, ["a", "b"]).pairs) == 4


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1.0, np.nan, 3.0, 1.0, 3.0], ["k[1]", "k[3]"]),
        ([1.5, 1.0, 1.0, 1.5, 1.0], ["k[1.0]", "k[1.5]"]),
        (pd.array([100000, None, 3, 3, 100000], dtype="Int64"), ["k[3]", "k[100000]"]),
        ([True, False, True, True, False], ["k[False]", "k[True]"]),
        (pd.array(["é", "z", "Z", None, "z"], dtype="string"), ["k[Z]", "k[z]", "k[é]"]),
    ],
)
def test_names_of_levels(values, told):
    frame = pd.DataFrame({"k": values, "y": np.arange(5.0)})
    built = made("y ~ (1 | k)", frame)
    assert list(built.bands[0].band.columns) == told
    assert built.n_dropped == int(frame["k"].isna().sum())
    again = transform_with_bands(built.spec, frame)[1][0]
    present = frame["k"].notna().to_numpy()
    np.testing.assert_array_equal(dense(again.penalized)[present], dense(built.bands[0].penalized))
    np.testing.assert_array_equal(again.unseen, ~present)


def test_a_million_rows_of_ten_thousand_groups_stay_sparse():
    codes = np.random.default_rng(0).integers(0, 10_000, 1_000_000)
    groups = GroupLevels.of(pd.DataFrame({"k": codes}), ["k"])
    np.testing.assert_array_equal(groups.codes(pd.DataFrame({"k": codes})), codes)
    assert groups.codes(pd.DataFrame({"k": [3, 10_000]})).dtype == np.int64


def test_smooth_curve(data):
    one = bands("y ~ s(x, k=6) + z", data)["s(x)"]
    x = data["x"].to_numpy()
    assert one.band.columns == ("s(x).1", "s(x).2", "s(x).3", "s(x).4")
    assert one.band.unpenalized == ("s(x).line",)
    np.testing.assert_allclose(one.unpenalized[:, 0], x - x.mean(), rtol=SAME, atol=SAME)
    wanted = penalized(knots_of(x, 6), x, centered=True).at(x)
    np.testing.assert_allclose(one.penalized, wanted, rtol=SAME, atol=SAME)
    assert not one.band.standardized


def test_smooth_curves_of_levels(data):
    whole = bands("y ~ s(x, k=5)", data)["s(x)"]
    found = bands("y ~ g + s(x, by=g, k=5)", data)
    assert list(found) == ["s(x):g[a]", "s(x):g[b]", "s(x):g[c]"]
    for level in "abc":
        here = (data["g"] == level).to_numpy()[:, None]
        np.testing.assert_allclose(found[f"s(x):g[{level}]"].penalized, here * whole.penalized, atol=SAME)
        np.testing.assert_allclose(found[f"s(x):g[{level}]"].unpenalized, here * whole.unpenalized, atol=SAME)
    ordered = bands("y ~ o + s(x, k=5) + s(x, by=o, k=5)", data)
    assert list(ordered) == ["s(x)", "s(x):o[b]", "s(x):o[a]"]
    numbers = bands("y ~ (1 | h) + s(x, by=C(h), k=5)", data)
    assert list(numbers) == ["h", "s(x):h[2]", "s(x):h[3]", "s(x):h[10]"]


def test_smooth_curve_that_a_number_multiplies(data):
    one = bands("y ~ s(x, by=z, k=5)", data)["s(x):z"]
    z, x = data[["z"]].to_numpy(), data["x"].to_numpy()
    assert one.band.unpenalized == ("s(x):z.constant", "s(x):z.line")
    np.testing.assert_allclose(one.unpenalized, z * np.column_stack([np.ones(N), x - x.mean()]), atol=SAME)
    wanted = z * penalized(knots_of(x, 5), x, centered=False).at(x)
    np.testing.assert_allclose(one.penalized, wanted, rtol=SAME, atol=SAME)


def test_band_of_columns(data):
    one = bands("y ~ h + band(z, np.exp(x), g:z, name='genes')", data)["genes"]
    assert one.band.columns == ("z", "np.exp(x)", "g[T.b]:z", "g[T.c]:z")
    assert one.band.standardized
    np.testing.assert_allclose(one.penalized[:, 1], np.exp(data["x"]))


def test_the_rest_of_the_formula_is_what_it_is_without_them(data):
    built = made("np.log(x) ~ C(h) + (1 | g) + z - 1 + s(z, by=x)", data)
    alone = made("np.log(x) ~ C(h) + z - 1", data)
    pd.testing.assert_frame_equal(built.exog, alone.exog)
    pd.testing.assert_frame_equal(built.endog, alone.endog)
    assert not built.spec.has_intercept
    assert made("y ~ (1 | g)", data).spec.has_intercept
    assert not made("y ~ (1 | g) - 1", data).spec.has_intercept


def test_a_dot_leaves_out_what_bands_are_made_of(data):
    kept = ["x", "z", "g", "h", "my g", "o"]

    def columns(formula):
        return [name for name in made(formula, data).spec.variables if name in kept]

    assert set(columns("y ~ . - o + (1 | g)")) == {"x", "z", "g", "h", "my g"}
    assert "g[T.b]" not in made("y ~ . - o + (1 | g)", data).exog
    assert "x" in made("y ~ . - o + (x || g)", data).exog
    assert "x" not in made("y ~ . - o + s(np.log(x))", data).exog
    assert {"g[T.b]"} < set(made("y ~ . - o + s(x, by=g, k=4)", data).exog)
    assert not {"z", "x"} & set(made("y ~ . - o + s(x, by=z)", data).exog)
    assert not {"z", "x"} & set(made("y ~ . - o + band(x, z)", data).exog)


def test_missing_values_and_subset(data):
    data.loc[103, "g"] = None
    data.loc[104, "x"] = np.nan
    data.loc[105, "h"] = np.nan
    weights = pd.Series(1.0, data.index)
    weights[106] = np.nan
    built = made("y ~ (1 | g/h) + s(x, k=4)", data, subset=data.index > 101, weights=weights)
    assert list(built.exog.index) == [102, *range(107, 100 + N)]
    assert {each.penalized.shape[0] for each in built.bands} == {N - 6}
    alone = made("y ~ (1 | g/h) + s(x, k=4)", data.loc[built.exog.index])
    for one, other in zip(built.bands, alone.bands, strict=True):
        np.testing.assert_allclose(dense(one.penalized), dense(other.penalized), atol=SAME)
    with pytest.raises(ValueError, match="missing values in 'g'"):
        made("y ~ (1 | g)", data, missing="raise")


def test_levels_of_rows_that_an_expression_leaves_out_are_no_levels(data):
    data["g"] = np.where(data["z"] < 0, "only here", data["g"])
    with np.errstate(invalid="ignore"), pytest.warns(DataWarning, match=r"np.log\(z\)"):
        found = bands("y ~ np.log(z) + (1 | g)", data)
    assert found["g"].band.columns == ("g[a]", "g[b]", "g[c]")


FORMULAS = [
    "y ~ x + (1 | g)",
    "y ~ (1 | g/h) + s(x, k=5) + z",
    "y ~ g + s(x, by=g, k=4)",
    "y ~ s(x, by=z, k=4) + (scale(x) || h)",
    "y ~ o + s(np.sqrt(x), by=o, k=4)",
    "y ~ band(z, np.exp(x), g, name='q') + (0 + x | `my g`)",
    "y ~ (0 + g | h)",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_new_rows_are_coded_as_those_of_the_fit(formula, data):
    built = made(formula, data)
    spec = pickle.loads(pickle.dumps(built.spec))
    encoder = Encoder()
    stored = encoder.value(spec, "spec")
    arrays = {kind: np.concatenate(parts) for kind, parts in encoder.arrays.items()}
    stored = Decoder(encoder.entries, arrays).root(stored)
    refuse_code_of(stored)
    some = data.iloc[[5, 2, 40]]
    for each in (built.spec, spec, stored):
        again = transform_with_bands(each, some)[1]
        for one, other in zip(built.bands, again, strict=True):
            np.testing.assert_allclose(dense(other.penalized), dense(one.penalized)[[5, 2, 40]], atol=SAME)
            np.testing.assert_allclose(other.unpenalized, one.unpenalized[[5, 2, 40]], atol=SAME)
            assert not other.unseen.any()
            assert (other.unseen_level == -1).all()
        single = transform_with_bands(each, data.iloc[7])[1]
        for one, other in zip(built.bands, single, strict=True):
            np.testing.assert_allclose(dense(other.penalized), dense(one.penalized)[[7]], atol=SAME)


def test_groups_that_the_fit_has_not_seen(data):
    spec = made("y ~ z + (x || g) + (1 | g:h)", data).spec
    new = pd.DataFrame(
        {"x": [2.0, 3.0, 5.0, 7.0, np.nan], "z": 0.0, "g": ["a", "new", None, "new", "a"], "h": [2, 2, 3, 2, 2]}
    )
    plain, found, _ = transform_with_bands(spec, new)
    intercepts, slopes, both = found
    assert plain["z"].isna().tolist() == [False, False, False, False, True]
    np.testing.assert_array_equal(intercepts.unseen, [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(slopes.unseen, [0, 3, 5, 7, 0])
    assert intercepts.unseen_level[1] == intercepts.unseen_level[3] != intercepts.unseen_level[2]
    assert (slopes.unseen_level == intercepts.unseen_level).all()
    assert (both.unseen > 0).tolist() == [False, True, True, True, False]
    rows = dense(slopes.penalized)
    np.testing.assert_array_equal(rows[:4], [[2, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert np.isnan(rows[4]).any()
    with pytest.raises(ValueError, match=r"row 1 and 2 more: 'g' is missing, or a group that the fit has not seen"):
        transform(spec, new)
    with pytest.raises(ValueError, match="row 1 and 2 more: 'g' is missing"):
        transform(spec, pd.concat([new, new]))  # as a derivative asks
    nothing = transform_with_bands(spec, new.assign(x=np.nan))[1]
    assert all(np.isnan(dense(each.penalized)).any(axis=1).all() for each in nothing)


@pytest.mark.parametrize(
    ("formula", "new", "told"),
    [
        ("y ~ (1 | h)", {"h": ["2", "3"]}, "'h' were numbers in the fit .*, and are text in the new data"),
        ("y ~ (1 | g)", {"g": [1.0, 2.0]}, "'g' were text in the fit"),
        ("y ~ g + s(x, by=g, k=4)", {"g": ["a", "new"], "x": 1.0}, "a level that the fit has not seen"),
        ("y ~ (1 | g) + s(x, by=g, k=4)", {"g": ["a", "new"], "x": 1.0}, "a level of 'g' that the fit has not seen"),
        ("y ~ s(x, by=z)", {"x": [1.0], "z": ["a"]}, "'z' was numeric in the fit"),
        ("y ~ (1 | g)", {"z": [1.0]}, "lack the variable"),
    ],
)
def test_new_rows_of_another_kind_are_refused(formula, new, told, data):
    spec = made(formula, data).spec
    with pytest.raises(ValueError, match=told):
        transform_with_bands(spec, pd.DataFrame(new))


def test_curves_go_on_as_lines_outside_the_data(data):
    spec = made("y ~ s(x, k=6)", data).spec
    top = data["x"].max()
    (one,) = transform_with_bands(spec, pd.DataFrame({"x": top + np.arange(4.0)}))[1]
    np.testing.assert_allclose(np.diff(one.penalized, n=2, axis=0), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("formula", "told"),
    {
        "y ~ x + s(x)": r"x is part of s\(x\) already: leave x out",
        "y ~ `x` + s(x)": "x is part of",
        "y ~ np.log(x) + s(np.log( x ))": "np.log.x. is part of",
        "y ~ band(x, z) + s(x)": "x is part of",
        "y ~ z + s(x, by=z)": r"z is part of s\(x\):z already",
        "y ~ z:x + s(x, by=z)": "z:x is part of",
        "y ~ g*x + s(x, by=g, k=4)": "is part of",
        "y ~ x + g + s(x, by=g, k=4)": "x is part of",
        "y ~ s(x) + s(x, k=5)": r"has s\(x\) twice",
        "y ~ g + s(x, k=4) + s(x, by=g, k=4)": r"s\(x\) is the sum of the curves of all levels of 'g'.*ordered",
        "y ~ g + s(x, by=g, k=4) + s(x, by=C(h), k=4) + C(h)": "have the same sum",
        "y ~ g + (1 | g)": r"g is part of \(1 \| g\) already",
        "y ~ C(h) + (1 | h)": r"h is part of \(1 \| h\) already",
        "y ~ (1 | g) + (x | g)": r"has the effects \(1 \| g\) twice.*\(0 \+ x \| g\).*\(x \|\| g\)",
        "y ~ (1 | g:h) + (1 | h:g)": r"has the effects \(1 \| h:g\) twice",
        "y ~ z + band(x, z)": "'z' are in the band",
        "y ~ band(x, z) + band(z, h)": "'z' are in two bands",
        "y ~ 0 + g + (0 + z | g) + (1 | g)": "part of",
        "y ~ (g || h)": r"two bars.*\(0 \+ f \| g\), or \(1 \| g:f\)",
        "y ~ (1 | one)": r"'one' has one level, one\[1\].*leave the term out",
        "y ~ (1 | row)": "as many levels as there are rows .* overdispersed counts have family='negative-binomial'",
        "y ~ (0 + one | g) + (0 + zero | g)": "'zero' is zero in every row",
        "y ~ (0 | g)": r"has no effects: write \(1 \| g\)",
        "y ~ (1 | absent)": "'absent', which is not a column of the data",
        "y ~ s(absent)": "'absent', which is not a column of the data",
        "y ~ s(x, by=absent)": "'absent', which is not a column of the data",
        "y ~ (1 | when)": "'when' cannot be a grouping factor: its values are",
        "y ~ (1 | mixed)": "'mixed' cannot be a grouping factor: its values are mixed",
        "y ~ s(g)": r"s\(g\): .*not of text",
        "y ~ s(bs(x, df=4))": "not of several columns",
        "y ~ s(poly(x, 2))": "not of several columns",
        "y ~ s(x, k=61)": r"60 distinct values, .* needs at least 61: use k=60 or less",
        "y ~ s(one)": "the same value in every row",
        "y ~ s(infinite)": "infinite in row 3",
        "y ~ s(x, by=one)": r"'one' is constant, so that the curve is s\(x\)",
        "y ~ s(x, by=C(one))": "'one' has one level",
        "y ~ few + s(x, by=few)": r"rows of few\[b\] have one value of x",
        "y ~ s(lag(x))": "neighbouring rows",
    }.items(),
)
def test_refusals(formula, told, data):
    data["one"], data["zero"], data["row"], data["when"] = 1, 0, range(N), pd.Timestamp("2020-01-01")
    data["mixed"] = ["a", 1] * (N // 2)
    data["infinite"] = np.where(np.arange(N) == 3, np.inf, data["x"])
    data["few"] = np.where(np.arange(N) == 3, "b", "a")
    with pytest.raises(ValueError, match=told):
        made(formula, data)


@pytest.mark.parametrize(
    "name", ["(1 | g)", "s(x)", "a|b", "{z}", "it's", "a:b", "lambda", "s", "_curve", "~", "1st", "µ"]
)
def test_columns_with_odd_names(name, data):
    plain = bands("y ~ (z || g) + s(z, k=4) + (1 | g:h) + band(x, np.exp(x))", data)
    for renamed in ("z", "x", "g"):
        f = {one: f"`{name}`" if one == renamed else one for one in ("z", "x", "g")}
        formula = "y ~ ({z} || {g}) + s({z}, k=4) + (1 | {g}:h) + band({x}, np.exp({x}))".format(**f)
        found = bands(formula, data.rename(columns={renamed: name}))
        for one, other in zip(plain.values(), found.values(), strict=True):
            np.testing.assert_array_equal(dense(one.penalized), dense(other.penalized))
        with pytest.raises(FormulaError, match="is part of"):
            bands("y ~ {z} + {z}:{x} + s({x}, by={z})".format(**f), data.rename(columns={renamed: name}))


def test_curves_of_levels_without_their_heights_warn(data):
    with pytest.warns(DataWarning, match=r"add g, or \(1 \| g\)"):
        made("y ~ s(x, by=g, k=4)", data)


def test_functions_of_the_callers_with_these_names(data):
    with pytest.raises(ValueError, match=r"a function s of yours.*\{s\(x\)\}"):
        made("y ~ s(x)", data, context={"s": np.exp})
    with pytest.raises(ValueError, match="a function band of yours"):
        made("y ~ band(x)", data, context={"band": np.exp})
    own = made("y ~ {s(x)} + np.log(s(z))", data, context={"s": np.exp, "np": np})
    np.testing.assert_allclose(own.exog["s(x)"], np.exp(data["x"]))
    assert made("y ~ s(x)", data, context={"s": "text"}).bands


def test_formulas_from_elsewhere(data):
    columns = list(data.columns)
    refuse_code("y ~ s(np.log(x), by=g) + (0 + scale(z) | g:h) + band(x, C(h), name='b')", columns)
    for code in ("s(print(x))", "(0 + open('f') | g)", "band(x.sum())", "np.log(s(x))", "{s(x)}", "(1 | nobody)"):
        with pytest.raises((CodeError, ValueError)):
            refuse_code(f"y ~ {code}", columns) or made(f"y ~ {code}", data)
    assert names_read("y ~ s(np.log(x), by=g) + (z | h) + .", data[["y", "x", "z", "g", "h"]])[0] == list("yxzgh")
