"""``effects()`` and ``predictions()``: against least squares, finite differences, closed forms and draws."""

import io
import pickle
import sys
import warnings

import formulaic
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import statsmodels.formula.api as smf

from pybayesridge import BayesRidge, DegenerateFitWarning, ExtrapolationWarning, Moments, SpikeSlab, load
from pybayesridge.binomial.link import probability, probability_slope

SAME = 1e-9
"""The same number by another way through the code."""

LEAST_SQUARES = 1e-6
"""Beside statsmodels; of effects per unit the error of the derivative."""

SLOPE = 1e-6
"""Derivatives by differences of the design, relative to those in closed form."""

DRAWS = 20_000
ERRORS = 5.0
"""Monte Carlo standard errors, at most."""

MIXTURE = 1e-5
"""What is left out of a mixture of normals moves means of probabilities by less than this."""

CURVED = "y ~ bs(x, df=5)*g + np.log(z) + C(k) + u"


def data(n=150):
    rng = np.random.default_rng(0)
    out = pd.DataFrame(
        {
            "x": rng.uniform(0, 10, n),
            "z": rng.lognormal(0, 2, n),
            "g": rng.choice(list("abc"), n),
            "k": rng.integers(1, 4, n),
            "u": rng.random(n) > 0.5,
        },
        index=[f"row {i}" for i in range(n)],
    )
    out["y"] = np.sin(out["x"] / 2) + 0.3 * np.log(out["z"]) + 0.2 * (out["g"] == "b") * out["x"]
    out["y"] += 0.3 * rng.normal(size=n)
    out["event"] = (out["y"] + rng.normal(size=n) > 1).astype(int)
    return out


@pytest.fixture(scope="module")
def frame():
    return data()


@pytest.fixture(scope="module")
def curved(frame):
    return BayesRidge.from_formula(CURVED, frame).fit()


@pytest.fixture(scope="module")
def binary(frame):
    return BayesRidge.from_formula("event ~ x + np.log(z) + g", frame, family="binomial").fit()


@pytest.fixture(scope="module")
def flat(frame):
    """Least squares: no coefficient has a penalty."""
    terms = ["x", "g", "I(x ** 2)", "x:g", "np.log(z)"]
    model = BayesRidge.from_formula("y ~ x*g + I(x**2) + np.log(z)", frame, unpenalized=terms)
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink"):
        return model.fit("exact")


@pytest.fixture(scope="module")
def least_squares(frame):
    return smf.ols("y ~ x*g + I(x**2) + np.log(z)", frame).fit()


def test_effects_are_those_of_least_squares(frame, flat, least_squares):
    """Weights written out by hand: those of x depend on g, those of g on x."""
    weights = {
        ("g", "b - a"): {"g[T.b]": 1.0, "x:g[T.b]": frame["x"].mean()},
        ("g", "c - a"): {"g[T.c]": 1.0, "x:g[T.c]": frame["x"].mean()},
        ("x", "per unit"): {
            "x": 1.0,
            "I(x ** 2)": 2 * frame["x"].mean(),
            "x:g[T.b]": (frame["g"] == "b").mean(),
            "x:g[T.c]": (frame["g"] == "c").mean(),
        },
        ("z", "per unit"): {"np.log(z)": (1 / frame["z"]).mean()},
    }
    rows = pd.DataFrame(weights).T.reindex(columns=least_squares.params.index).fillna(0.0)
    test = least_squares.t_test(rows.to_numpy())
    found = flat.effects()
    assert list(found.index) == list(weights)
    np.testing.assert_allclose(found["mean"], test.effect, rtol=LEAST_SQUARES, atol=LEAST_SQUARES)
    np.testing.assert_allclose(found[["lower", "upper"]], test.conf_int(), rtol=LEAST_SQUARES, atol=LEAST_SQUARES)


def test_comparisons_and_predictions_are_those_of_least_squares(frame, flat, least_squares):
    new = pd.DataFrame({"x": [2.0, 2.0, 6.0, 6.0], "g": list("abab"), "z": frame["z"].mean()})
    wanted = least_squares.get_prediction(new).summary_frame()
    found = flat.predictions({"x": [2, 6], "g": ["a", "b"]})
    assert list(found.index) == [(2.0, "a"), (2.0, "b"), (6.0, "a"), (6.0, "b")]
    columns = ["mean", "mean_ci_lower", "mean_ci_upper"]
    np.testing.assert_allclose(found[["mean", "lower", "upper"]], wanted[columns], rtol=LEAST_SQUARES)
    change = flat.effects("x", values=(2, 6)).iloc[0]
    ends = [least_squares.predict(frame.assign(x=value)).mean() for value in (2.0, 6.0)]
    assert change["mean"] == pytest.approx(ends[1] - ends[0], rel=LEAST_SQUARES)
    averaged = flat.predictions({"x": [2, 6]}, at="observed")
    np.testing.assert_allclose(averaged["mean"], ends, rtol=LEAST_SQUARES)


def test_effects_through_splines_transforms_and_factors_follow_from_predict(frame, curved):
    found = curved.effects()["mean"]
    assert list(found.loc["g"].index) == ["b - a", "c - a"]
    assert list(found.loc["k"].index) == ["2 - 1", "3 - 1"]
    assert list(found.loc["u"].index) == ["True - False"]
    for (name, change), a, b in [
        (("g", "c - a"), "a", "c"),
        (("k", "3 - 1"), 1, 3),
        (("u", "True - False"), False, True),
    ]:
        ends = [curved.predict(frame.assign(**{name: value})).mean() for value in (a, b)]
        assert found[name, change] == pytest.approx(ends[1] - ends[0], rel=SAME)
    assert found["z", "per unit"] == pytest.approx(curved.params["np.log(z)"] * (1 / frame["z"]).mean(), rel=SLOPE)
    step = 1e-5
    low, high = (frame["x"] - step).clip(lower=frame["x"].min()), (frame["x"] + step).clip(upper=frame["x"].max())
    by_differences = (
        (curved.predict(frame.assign(x=high)) - curved.predict(frame.assign(x=low))) / (high - low)
    ).mean()
    assert found["x", "per unit"] == pytest.approx(by_differences, rel=1e-4)


def test_posterior_of_an_effect_is_that_of_draws(frame, curved):
    draws = curved.sample(DRAWS, rng=1)
    spec = curved.model.formula_spec.spec
    ends = [spec.get_model_matrix(frame.assign(x=value)).to_numpy().mean(axis=0) for value in (2.0, 6.0)]
    drawn = draws.to_numpy() @ (ends[1] - ends[0])
    found = curved.effects("x", values=(2, 6), alpha=0.1).iloc[0]
    assert abs(drawn.mean() - found["mean"]) < ERRORS * found["sd"] / np.sqrt(DRAWS)
    assert abs((drawn < found["lower"]).mean() - 0.05) < ERRORS * np.sqrt(0.05 / DRAWS)
    assert abs((drawn > found["upper"]).mean() - 0.05) < ERRORS * np.sqrt(0.05 / DRAWS)


@pytest.mark.parametrize("method", ["exact", "damped"])
def test_selection(frame, method):
    res = SpikeSlab.from_formula("y ~ poly(x, 2) + g + np.log(z)", frame).fit(method)
    found = res.effects(["x", "g", "z"])
    assert list(found.columns) == ["mean", "sd", "lower", "upper", "prob_positive", "prob_zero"]
    slope = res.contrast({"z": f"{(1 / frame['z']).mean()}*`np.log(z)`"}).iloc[0]
    np.testing.assert_allclose(found.loc[("z", "per unit")], slope, rtol=SLOPE, atol=SLOPE)
    assert found.loc[("x", "per unit"), "prob_zero"] == pytest.approx(
        1 - res.group_inclusion_prob["poly(x, 2)"], abs=1e-6
    )
    assert list(res.predictions({"g": ["a", "b"]}).columns) == ["mean", "sd", "lower", "upper"]


def test_probabilities_at_single_rows_are_those_of_get_prediction(frame, binary):
    new = {"x": [1.0, 5.0], "z": [frame["z"].mean()] * 2, "g": ["a", "a"]}
    wanted = binary.get_prediction(new).summary_frame()
    found = binary.predictions({"x": [1, 5]})
    np.testing.assert_allclose(found, wanted, rtol=SAME)
    linear = binary.get_prediction(new, which="linear").summary_frame()
    np.testing.assert_allclose(binary.predictions({"x": [1, 5]}, which="linear"), linear, rtol=SAME)


def test_averages_of_probabilities_are_those_of_draws(frame, binary):
    averaged = binary.predictions(at="observed").iloc[0]
    assert averaged["mcse"] == 0
    assert abs(averaged["mean"] - binary.predict().mean()) < MIXTURE
    ends = [binary.predict(frame.assign(g=level)).mean() for level in "ac"]
    effect = binary.effects("g").loc[("g", "c - a")]
    assert abs(effect["mean"] - (ends[1] - ends[0])) < MIXTURE + ERRORS * effect["mcse"]
    draws = binary.sample(DRAWS, rng=1).to_numpy()
    matrix = formulaic.model_matrix("x + np.log(z) + g", frame).to_numpy()
    slopes = np.zeros(matrix.shape)
    slopes[:, list(binary.params.index).index("x")] = 1.0
    linear = draws @ matrix.T
    drawn = (probability_slope(linear, "logit") * (draws @ slopes.T)).mean(axis=1)
    found = binary.effects("x").iloc[0]
    assert abs(found["mean"] - drawn.mean()) < ERRORS * drawn.std() / np.sqrt(DRAWS)
    assert found["sd"] == pytest.approx(drawn.std(), rel=0.03)
    below = [(drawn < found["lower"]).mean(), (drawn < found["upper"]).mean()]
    np.testing.assert_allclose(below, [0.025, 0.975], atol=ERRORS * np.sqrt(0.025 / DRAWS))
    assert binary.effects("x", which="linear").iloc[0]["mean"] == pytest.approx(binary.params["x"], rel=SAME)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_slopes_of_probabilities_are_derivatives(link):
    eta, step = np.linspace(-6, 6, 13), 1e-6
    by_differences = (probability(eta + step, link) - probability(eta - step, link)) / (2 * step)
    np.testing.assert_allclose(probability_slope(eta, link), by_differences, atol=1e-8)


def test_rows_of_probabilities_count_as_often_as_they_have_trials(frame):
    counts = pd.DataFrame({"x": [1.0, 2.0, 3.0, 5.0], "trials": [2, 9, 4, 5], "hits": [0, 4, 2, 4]})
    grouped = BayesRidge(counts["hits"], counts[["x"]], family="binomial", trials=counts["trials"]).fit()
    single = counts.loc[counts.index.repeat(counts["trials"])]
    order = single.groupby("x").cumcount()
    expanded = BayesRidge((order < single["hits"]).astype(int), single[["x"]], family="binomial").fit()
    np.testing.assert_allclose(grouped.effects()["mean"], expanded.effects()["mean"], rtol=0.1)
    assert grouped.predictions(at="observed")["mean"].iloc[0] == pytest.approx(
        np.average(grouped.predict(), weights=counts["trials"]), rel=0.05
    )
    assert grouped.predictions()["mean"].iloc[0] == pytest.approx(
        grouped.predict([[np.average(counts["x"], weights=counts["trials"])]]).iloc[0], rel=SAME
    )


def test_effects_of_columns_are_coefficients(frame):
    x = frame[["x", "z"]]
    for made in (
        BayesRidge(frame["y"], x, weights=frame["k"]),
        BayesRidge(frame["y"], x.assign(one=1.0)),
        BayesRidge(frame["y"].to_numpy(), sp.csc_matrix(x)),
        BayesRidge.from_formula("y ~ x + z", frame),
        BayesRidge.from_formula("y ~ x + z + u", frame, drop_cols=["u"]),
    ):
        res = made.fit()
        found = res.effects()
        names = list(found.index.get_level_values(0))
        np.testing.assert_allclose(found["mean"], res.params[names], rtol=SAME)
        np.testing.assert_allclose(found["sd"], res.bse[names], rtol=SAME)
        low, high = (float(v) for v in np.quantile(frame["x"], [0.2, 0.8]))
        change = res.effects(names[0], values=(low, high)).iloc[0]
        assert change["mean"] == pytest.approx(res.params[names[0]] * (high - low), rel=SAME)
        at = res.predictions({names[0]: [low, high]})
        assert np.diff(at["mean"])[0] == pytest.approx(change["mean"], rel=SAME)
        np.testing.assert_allclose(res.predictions(at="observed")["mean"], res.fittedvalues.mean(), rtol=SAME)
        np.testing.assert_allclose(res.predictions()["mean"], res.fittedvalues.mean(), rtol=SAME)


def test_truth_values_of_a_plain_formula(frame):
    res = BayesRidge.from_formula("y ~ x + u", frame).fit()
    assert res.effects("u").loc[("u", "True - False"), "mean"] == pytest.approx(res.params["u"], rel=SAME)
    assert list(res.predictions({"u": [True, False]}).index) == [True, False]


def test_several_targets(frame):
    res = BayesRidge(frame[["y", "z"]], frame[["x"]]).fit()
    assert res.effects(target="z")["mean"].iloc[0] == pytest.approx(res.params.loc["x", "z"], rel=SAME)
    with pytest.raises(ValueError, match="effects needs target="):
        res.effects()


def test_other_codings_and_expressions_of_a_factor(frame):
    lyon = BayesRidge.from_formula("y ~ C(g, contr.treatment('b')) + x", frame).fit()
    assert list(lyon.effects("g").loc["g"].index) == ["a - b", "c - b"]
    middle = BayesRidge.from_formula("y ~ C(g, contr.sum) + x", frame).fit()
    assert list(middle.effects("g").loc["g"].index) == ["b - a", "c - a"]
    made = BayesRidge.from_formula("y ~ C(g == 'a') + x", frame).fit()
    found = made.effects("g")
    np.testing.assert_allclose(found["mean"], -made.params.iloc[1] * np.ones(2), rtol=SAME)
    cut = BayesRidge.from_formula("y ~ C(x > 4) + z", frame).fit()
    with pytest.raises(ValueError, match="no derivative with respect to 'x'"):
        cut.effects("x")
    assert abs(cut.effects("x", values=(3, 5))["mean"].iloc[0]) == pytest.approx(abs(cut.params.iloc[1]), rel=SAME)
    typed = frame.assign(g=pd.Categorical(frame["g"], categories=list("cba")))
    assert list(BayesRidge.from_formula("y ~ g", typed).fit().effects().loc["g"].index) == ["b - c", "a - c"]
    numbers = frame.assign(k=pd.Categorical(frame["k"]))
    assert list(BayesRidge.from_formula("y ~ k", numbers).fit().predictions({"k": [2, 3]}).index) == [2, 3]


def test_kinks_have_derivatives_and_jumps_do_not(frame):
    res = BayesRidge.from_formula("y ~ np.maximum(x - 4, 0) + z", frame).fit()
    share = (frame["x"] > 4).mean()
    assert res.effects("x")["mean"].iloc[0] == pytest.approx(share * res.params.iloc[1], rel=SLOPE)
    for step in ("I(x > 4)", "np.floor(x)", "np.floor(40 * x)", "np.round(x, 3)", "np.where(x > 9.9, 1.0, 0.0)"):
        jumps = BayesRidge.from_formula(f"y ~ {step} + z", frame).fit()
        with pytest.raises(ValueError, match=r"no derivative with respect to 'x'.*values=\(a, b\)"):
            jumps.effects("x")
        assert np.isfinite(jumps.effects("x", values=(2, 9.95)).to_numpy()).all()
    late = BayesRidge.from_formula("y ~ np.maximum(x - 9.8, 0) + z", frame).fit()
    share = (frame["x"] > 9.8).mean()
    assert late.effects("x")["mean"].iloc[0] == pytest.approx(share * late.params.iloc[1], rel=SLOPE)


@pytest.mark.parametrize("formula", ["y ~ x*z + g", "y ~ x:g + z", "y ~ x*z + np.exp(x / 5)", "y ~ `x`*z + I(x)"])
def test_slopes_of_columns_that_are_products_of_a_number(formula, frame):
    """Where no expression reads the number, and where one does too."""
    res = BayesRidge.from_formula(formula, frame).fit()
    step = 1e-5
    ends = [res.predict(frame.assign(x=frame["x"] + sign * step)).mean() for sign in (-1, 1)]
    assert res.effects("x")["mean"].iloc[0] == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6)


def test_slopes_of_numbers_far_from_zero(frame):
    moved = frame.assign(x=frame["x"] * 1e-3 + 1e6)
    res = BayesRidge.from_formula("y ~ scale(x) + z", moved).fit()
    wanted = res.params["scale(x)"] / moved["x"].std()
    assert res.effects("x")["mean"].iloc[0] == pytest.approx(wanted, rel=1e-5)


def test_rows_given_by_the_user(frame, curved):
    some = frame[frame["g"] == "b"]
    found = curved.effects("x", values=(2, 6), data=some)["mean"].iloc[0]
    ends = [curved.predict(some.assign(x=value)).mean() for value in (2.0, 6.0)]
    assert found == pytest.approx(ends[1] - ends[0], rel=SAME)
    one = curved.effects("x", data=frame.iloc[[3]]).iloc[0]
    assert np.isfinite(one).all()
    with pytest.warns(ExtrapolationWarning, match="'z'"):
        curved.effects("g", data=some.assign(z=1e9))


def test_without_data_the_message_says_what_to_pass(frame, curved):
    file = io.BytesIO()
    curved.save(file, remove_data=True)
    file.seek(0)
    saved = load(file)
    assert saved.model.variables is None
    assert b"row 17" not in pickle.dumps(saved)
    assert b"row 17" in pickle.dumps(curved)
    with pytest.raises(ValueError, match="data of this fit are not in memory: pass data="):
        saved.effects("x")
    pd.testing.assert_frame_equal(saved.effects(["k", "z"], data=frame), curved.effects(["k", "z"]), rtol=SAME)
    full = {"x": 5, "z": 1.0, "g": "a", "k": 2, "u": True}
    pd.testing.assert_frame_equal(saved.predictions(full), curved.predictions(full), rtol=SAME)
    moments = BayesRidge.from_moments(Moments.from_arrays(frame["y"], frame[["x", "z"]])).fit()
    np.testing.assert_allclose(moments.effects()["mean"], moments.params[["x", "z"]], rtol=SAME)
    with pytest.raises(ValueError, match="pass data="):
        moments.predictions({"x": 1.0})
    no_space = BayesRidge(frame["y"], frame[["x", "z"]]).fit()
    no_space.remove_data(row_space=False)
    with pytest.raises(ValueError, match="space"):
        no_space.effects()


def test_values_outside_the_data_are_a_warning_of_their_own(curved, flat):
    with pytest.warns(ExtrapolationWarning, match=r"outside the range of the data: 'z' \(1e9|'z' \(1,000,000,000"):
        flat.effects("z", values=(1, 1e9))
    with pytest.warns(ExtrapolationWarning, match="'x'"):
        flat.predictions({"x": [-1, 5]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        with pytest.raises(ValueError, match=r"extend beyond|extrapolation"):
            curved.predictions({"x": [11]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda res: res.effects("xx"), "'xx' is not a variable of the fit.*did you mean 'x'"),
        (lambda res: res.effects("bs(x, df=5)[1]"), "not a variable of the fit"),
        (lambda res: res.effects(["x", 3]), "variables are given by name, not 3"),
        (lambda res: res.effects([]), "variables is empty"),
        (lambda res: res.effects("x", values=(1, 2, 3)), "values must be two values"),
        (lambda res: res.effects("x", values=(1, "b")), "values of 'x' must be finite numbers, not 'b'"),
        (lambda res: res.effects("x", values=(1, np.nan)), "must be finite numbers, not nan"),
        (lambda res: res.effects("g", values=("a", "bb")), "'bb' is not a level of 'g': did you mean 'b'"),
        (lambda res: res.predictions({"g": ["A"]}), "'A' is not a level of 'g': did you mean 'a'"),
        (lambda res: res.effects("k", values=(1, 7)), "7 is not a level of 'k'; there are 1, 2, 3"),
        (lambda res: res.effects("x", which="link"), "which must be"),
        (lambda res: res.effects("x", alpha=2), "alpha must lie"),
        (lambda res: res.effects("x", data={"x": [1.0]}), r"data lacks the variable\(s\) 'g', 'k', 'u', 'z'"),
        (lambda res: res.effects({"x": (1, 2)}), "variables are given by name, and their values by values="),
        (lambda res: res.predictions("x"), "grid must be a dict of values by variable.* not 'x'"),
        (lambda res: res.predictions(["x"]), "grid must be a dict of values by variable"),
        (lambda res: res.predictions({"x": []}), "grid has no values of 'x'"),
        (lambda res: res.predictions({"X": [1]}), "'X' is not a variable.*did you mean 'x'"),
        (lambda res: res.predictions(pd.DataFrame({"x": []})), "grid has no rows"),
        (lambda res: res.predictions(at="median"), "at must be 'mean' or 'observed'"),
        (lambda res: res.predictions({"z": [-1.0]}), r"np.log\(z\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::pybayesridge.ExtrapolationWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in log:RuntimeWarning")
def test_bad_input_is_refused(curved, call, message):
    with pytest.raises(ValueError, match=message):
        call(curved)


def test_missing_values_and_neighbours_are_refused(frame, curved):
    with pytest.raises(ValueError, match="missing values in 'z': leave those rows out"):
        curved.effects("x", data=frame.assign(z=np.nan))
    lagged = BayesRidge.from_formula("y ~ lag(x) + z", frame).fit()
    with pytest.raises(ValueError, match="looks at neighbouring rows"):
        lagged.effects("z")
    wide = BayesRidge(np.arange(6.0), np.random.default_rng(0).normal(size=(6, 201))).fit()
    with pytest.raises(ValueError, match="201 variables: name those"):
        wide.effects()
    assert wide.effects("x3").index[0] == ("x3", "per unit")


def test_functions_of_the_caller_are_found(frame):
    def half(x):
        return x / 2

    res = BayesRidge.from_formula("y ~ half(x) + g", frame).fit()
    assert res.effects("x")["mean"].iloc[0] == pytest.approx(res.params["half(x)"] / 2, rel=SLOPE)


def test_rows_with_missing_values_are_not_in_averages(frame):
    gaps = frame.copy()
    gaps.iloc[:5, gaps.columns.get_loc("z")] = np.nan
    res = BayesRidge.from_formula("y ~ np.log(z) + g", gaps).fit()
    assert len(res.model.variables) == len(frame) - 5
    wanted = res.params["np.log(z)"] * (1 / frame["z"].iloc[5:]).mean()
    assert res.effects("z")["mean"].iloc[0] == pytest.approx(wanted, rel=SLOPE)


def test_marginaleffects_missing_is_an_error_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "marginaleffects.classes", None)
    x = np.random.default_rng(0).normal(size=(20, 2))
    res = BayesRidge(x[:, 0] + x[:, 1], x).fit("fixed", lam=1.0)
    with pytest.raises(ImportError, match=r"pybayesridge\[marginaleffects\]"):
        res.to_marginaleffects()
