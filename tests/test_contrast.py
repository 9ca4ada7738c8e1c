"""``contrast()``: linear combinations of coefficients, against closed forms, brute force and draws."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pybayesridge import BayesRidge, DegenerateFitWarning, Moments, SpikeSlab
from pybayesridge.formula.constraints import combinations
from tests.dense_posterior import DensePosterior
from tests.oracle import Oracle
from tests.problems import regression

SAME = 1e-10
"""The same number by another way through the code."""

DENSE = 1e-8
"""Beside the sum over thousands of equally spaced penalties; quantiles are solved for less accurately."""

SUMS = 1e-13  # of probabilities: rounding
MOMENTS = 1e-9
"""A fit from moments beside the fit from rows."""

DRAWS = 20_000
ERRORS = 5.0
"""Monte Carlo standard errors, at most."""

FORMULA = "y ~ x1 + x2 + x3 + `body mass` + g"
ASKED = ["x1 - x2", "g[T.w] - g[T.v]", "`body mass` - 2*x3 = 0.1", "(x1 + x2)/2", "Intercept + x1"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((60, 4)), columns=["x1", "x2", "x3", "body mass"])
    data["x2"] = data["x1"] + 0.5 * data["x2"] + 3.0
    data["g"] = rng.choice(["u", "v", "w"], 60)
    data["y"] = 0.5 * data["x1"] + 0.3 * data["x3"] + 0.6 * (data["g"] == "w") + rng.standard_normal(60)
    return data


@pytest.fixture(scope="module")
def ridge(frame):
    return BayesRidge.from_formula(FORMULA, frame).fit()


@pytest.fixture(scope="module")
def by_ep(frame):
    return SpikeSlab.from_formula(FORMULA, frame).fit("damped")


@pytest.fixture(scope="module")
def by_sets(frame):
    return SpikeSlab.from_formula(FORMULA, frame).fit("exact")


NAMES = ["Intercept", "x1", "x2", "body mass", "C(g)[T.b]", "C(g)[T.c d]", "a:b", "poly(x, 2)[1]", "0", "1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x1 - x2", [({"x1": 1, "x2": -1}, 0)]),
        ("-x1 + x2", [({"x1": -1, "x2": 1}, 0)]),
        ("x1 - (x2 - 3)", [({"x1": 1, "x2": -1}, -3)]),
        ("x1 = -2", [({"x1": 1}, -2)]),
        ("x1 + 1 = x2 + 3", [({"x1": 1, "x2": -1}, 2)]),
        ("x1,-x2", [({"x1": 1}, 0), ({"x2": -1}, 0)]),
        ("2*x1/4 - 0.5*(x2 + x1)", [({"x2": -0.5}, 0)]),
        ("`body mass` - x1", [({"body mass": 1, "x1": -1}, 0)]),
        ("'body mass' - \"a:b\"", [({"body mass": 1, "a:b": -1}, 0)]),
        ("body mass", [({"body mass": 1}, 0)]),
        ("C(g)[T.b] - C(g)[T.c d]", [({"C(g)[T.b]": 1, "C(g)[T.c d]": -1}, 0)]),
        ("poly(x, 2)[1], a:b", [({"poly(x, 2)[1]": 1}, 0), ({"a:b": 1}, 0)]),
        ("poly(x, 2)[1] - x1, `a:b`", [({"poly(x, 2)[1]": 1, "x1": -1}, 0), ({"a:b": 1}, 0)]),
        ("`1` - 1 = `0`", [({"1": 1, "0": -1}, 1)]),
        ("b:a - 2*x1 = 1, b:a", [({"a:b": 1, "x1": -2}, 1), ({"a:b": 1}, 0)]),
    ],
)
def test_texts_are_read_as_algebra(text, expected):
    found = combinations(text, NAMES)
    assert len(found) == len(expected)
    for each, (weights, value) in zip(found, expected, strict=True):
        assert {NAMES[i]: each.weights[i] for i in np.flatnonzero(each.weights)} == pytest.approx(weights)
        assert each.value == pytest.approx(value)


def test_the_nearest_interaction_is_suggested():
    with pytest.raises(ValueError, match=r"'g\[b\]:x', which is not a coefficient.*did you mean 'x:g\[T.b\]'"):
        combinations("g[b]:x", ["x", "g[T.b]", "x:g[T.b]"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("x1 - xx3", "contrast 'x1 - xx3' names 'xx3', which is not a coefficient of the fit: did you mean 'x3'"),
        ("g[T.u]", r"names 'g\[T.u\]'.*the reference level of a factor has none"),
        ("x1 * x2", "not linear in the coefficients"),
        ("x1 / x2", "not linear in the coefficients"),
        ("x1 = x2 = 0", "more than one '='"),
        ("x1 > 0", "cannot be parsed.*backticks"),
        ("x1^2", "cannot be parsed"),
        ("x1 == 2", "cannot be parsed"),
        ("body mass - x1", "cannot be parsed"),
        ("1e-3 * x1", "exponent: write 0.001"),
        ("x1 / 0", "divides by zero"),
        ("", "cannot be parsed"),
        ("x1 - x1", "'x1 - x1' has no coefficient, or they cancel"),
        ([], "shape|empty"),
        (["x1", 2], "must be text, a list of text"),
        ({"both": "x1, x2"}, "contrast 'both' must be one contrast as text"),
        ({"number": 2.0}, "contrast 'number' must be one contrast as text"),
        (np.ones((1, 3)), r"shape \(1, 3\).*each of the 7 coefficients"),
        (np.zeros((1, 7)), "'row 0' has no coefficient"),
        (np.full((1, 7), np.nan), "'row 0' has weights that are not finite"),
        (pd.DataFrame({"x1": [1.0], "xx3": [1.0]}), "contrasts names 'xx3'.*did you mean 'x3'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x1", "x1"]), "more than once"),
    ],
)
def test_what_is_no_contrast_is_refused(ridge, asked, message):
    with pytest.raises(ValueError, match=message):
        ridge.contrast(asked)


def test_all_ways_to_write_a_contrast_agree(ridge):
    by_text = ridge.contrast("x1 - x2, x3")
    assert list(by_text.index) == ["x1 - x2", "x3"]
    assert list(by_text.columns) == ["mean", "sd", "lower", "upper", "prob_positive"]
    weights = pd.DataFrame(0.0, index=["p", "q"], columns=ridge.params.index)
    weights.loc["p", ["x1", "x2"]], weights.loc["q", "x3"] = [1.0, -1.0], 1.0
    for other, labels in [
        (["x1 - x2", "x3"], ["x1 - x2", "x3"]),
        ({"p": "x1 - x2", "q": "x3"}, ["p", "q"]),
        (weights, ["p", "q"]),
        (weights[["x3", "x2", "x1"]], ["p", "q"]),
        (weights.to_numpy(), ["row 0", "row 1"]),
        (weights.to_numpy().tolist(), ["row 0", "row 1"]),
    ]:
        found = ridge.contrast(other)
        assert list(found.index) == labels
        np.testing.assert_allclose(found, by_text, rtol=SAME)
    one = ridge.contrast(pd.Series({"x1": 1.0, "x2": -1.0}, name="difference"))
    assert list(one.index) == ["difference"]
    np.testing.assert_allclose(one, by_text[:1], rtol=SAME)
    np.testing.assert_allclose(ridge.contrast(weights.to_numpy()[1]), by_text[1:], rtol=SAME)


def test_fixed_penalty_and_known_noise_in_closed_form():
    y, x = regression(40, 4)
    w = np.linspace(0.5, 2.0, 40)
    res = BayesRidge(y, x, weights=w, sigma2=1.7, standardize=False).fit("fixed", lam=2.5)
    z = np.column_stack([np.ones(40), x])
    root = np.sqrt(w / w.mean())[:, None]
    precision = (root * z).T @ (root * z) + 2.5 * np.diag([0, 1, 1, 1, 1])
    mean, cov = np.linalg.solve(precision, (root * z).T @ (root[:, 0] * y)), 1.7 * np.linalg.inv(precision)
    rows = np.random.default_rng(1).standard_normal((3, 5))
    found = res.contrast(rows, alpha=0.1)
    sd = np.sqrt(np.einsum("ij,jk,ik->i", rows, cov, rows))
    law = stats.norm(rows @ mean, sd)
    np.testing.assert_allclose(found["mean"], rows @ mean, rtol=SAME)
    np.testing.assert_allclose(found["sd"], sd, rtol=SAME)
    np.testing.assert_allclose(found[["lower", "upper"]].T, law.ppf([[0.05], [0.95]]), rtol=SAME)
    np.testing.assert_allclose(found["prob_positive"], law.sf(0), rtol=1e-7)


@pytest.mark.parametrize("shape", [(40, 4), (15, 25)], ids=["tall", "wide"])
@pytest.mark.parametrize("sigma2", [None, 30.0])
def test_ridge_is_the_mixture_over_the_penalty(shape, sigma2):
    y, x = regression(*shape)
    res = BayesRidge(y, x, sigma2=sigma2, prior="half-cauchy").fit("exact", tol=1e-12)
    z = np.ones((shape[0], 1))
    dense = DensePosterior(Oracle(y, z, x, sigma2=sigma2))
    rows = np.random.default_rng(2).standard_normal((4, shape[1] + 1))
    rows[:2, 0] = 0.0
    found = res.contrast(rows)
    where, scale = dense.locations @ rows.T, np.sqrt(dense.scale2[:, None] * dense.forms(rows))
    law = stats.norm() if np.isinf(dense.df) else stats.t(dense.df)
    np.testing.assert_allclose(found["mean"], dense.mean(rows), rtol=DENSE)
    np.testing.assert_allclose(found["prob_positive"], dense.weight @ law.cdf(where / scale), rtol=DENSE)
    size = found["sd"].to_numpy()
    for name, tail in (("lower", 0.025), ("upper", 0.975)):
        assert (np.abs(found[name] - dense.quantile(rows, tail)) <= 1e-5 * size).all()
    if shape[0] > shape[1]:
        np.testing.assert_allclose(found["sd"], np.sqrt(dense.variance(rows)), rtol=DENSE)


@pytest.mark.parametrize("method", ["exact", "em", "loocv", "gcv"])
def test_one_coefficient_is_the_coefficient_of_the_ridge(frame, method):
    res = BayesRidge.from_formula(FORMULA, frame, weights=np.linspace(1, 2, 60)).fit(method)
    single(res)


@pytest.mark.parametrize("method", ["damped", "pcep", "exact"])
@pytest.mark.parametrize("group", ["terms", None])
def test_one_coefficient_is_the_coefficient_of_the_selection(frame, method, group):
    given = {} if group else {"group": None}
    res = SpikeSlab.from_formula(FORMULA, frame, weights=np.linspace(1, 2, 60), **given).fit(method)
    found = single(res)
    np.testing.assert_allclose(1 - found["prob_zero"], res.inclusion_prob, rtol=0, atol=SAME)


def single(res):
    found = res.contrast(np.eye(len(res.params)), alpha=0.1)
    np.testing.assert_allclose(found["mean"], res.params, rtol=SAME)
    np.testing.assert_allclose(found["sd"], res.bse, rtol=SAME)
    np.testing.assert_allclose(found[["lower", "upper"]], res.conf_int(0.1), rtol=0, atol=SAME)
    return found


@pytest.mark.parametrize("fitted", ["ridge", "by_ep", "by_sets"])
def test_means_and_variances_are_those_of_the_joint_posterior(fitted, request):
    res = request.getfixturevalue(fitted)
    found = res.contrast(ASKED)
    weights = np.stack([combinations(text, list(res.params.index))[0].weights for text in ASKED])
    expected = weights @ res.params.to_numpy() - np.array([0, 0, 0.1, 0, 0])
    np.testing.assert_allclose(found["mean"], expected, rtol=0, atol=SAME)
    variance = np.einsum("ij,jk,ik->i", weights, res.cov_params().to_numpy(), weights)
    np.testing.assert_allclose(found["sd"], np.sqrt(variance), rtol=2e-3 if fitted == "by_sets" else SAME)


@pytest.mark.parametrize("fitted", ["ridge", "by_sets"])
def test_probabilities_are_those_of_draws(fitted, request):
    res = request.getfixturevalue(fitted)
    found = res.contrast(ASKED)
    draws = res.sample(DRAWS, rng=3)
    weights = np.stack([combinations(text, list(res.params.index))[0].weights for text in ASKED])
    drawn = draws.to_numpy() @ weights.T - np.array([0, 0, 0.1, 0, 0])
    within = ERRORS / np.sqrt(DRAWS)
    assert (np.abs(drawn.mean(axis=0) - found["mean"]) <= within * found["sd"]).all()
    assert (np.abs((drawn > 0).mean(axis=0) - found["prob_positive"]) <= 0.5 * within).all()
    assert (np.abs((drawn < found["lower"].to_numpy()).mean(axis=0) <= 0.025 + 0.2 * within)).all()
    if fitted == "by_sets":
        assert (np.abs((drawn == 0).mean(axis=0) - found["prob_zero"]) <= 0.5 * within).all()
        assert found.loc["x1 - x2", "prob_zero"] > 0
        assert found.loc["g[T.w] - g[T.v]", "prob_zero"] > 0


def test_selection_with_given_hyperparameters_in_closed_form(frame):
    """Two columns: four sets, each with a normal posterior."""
    x, y = frame[["x1", "x2"]].to_numpy(), frame["y"].to_numpy()
    given = {"prior_inclusion": 0.3, "slab_var": 0.5, "noise_var": 1.3}
    res = SpikeSlab(frame["y"], frame[["x1", "x2"]], standardize=False, **given).fit("exact")
    centred, log_p, laws = x - x.mean(axis=0), [], []
    for inside in ([], [0], [1], [0, 1]):
        part = centred[:, inside]
        precision = part.T @ part / 1.3 + np.eye(len(inside)) / 0.5
        b = np.linalg.solve(precision, part.T @ y / 1.3)
        density = 0.5 * b @ precision @ b - 0.5 * np.linalg.slogdet(precision * 0.5)[1]
        log_p.append(density + len(inside) * np.log(0.3 / 0.7))
        c = np.array([1.0, -1.0])[inside]
        laws.append((c @ b, np.sqrt(c @ np.linalg.solve(precision, c))))
    share = np.exp(np.array(log_p) - max(log_p))
    share /= share.sum()
    found = res.contrast("x1 - x2, x1 - x2 = 0.2, x1")
    difference = found.iloc[0]
    assert difference["mean"] == pytest.approx(sum(p * m for p, (m, _) in zip(share, laws, strict=True)), rel=SAME)
    above = sum(p * stats.norm.sf(0, m, s) for p, (m, s) in zip(share[1:], laws[1:], strict=True))
    assert difference["prob_positive"] == pytest.approx(above, rel=1e-8)
    assert difference["prob_zero"] == pytest.approx(share[0], rel=1e-8)
    beyond = sum(p * stats.norm.sf(0.2, m, s) for p, (m, s) in zip(share[1:], laws[1:], strict=True))
    assert found.iloc[1]["prob_positive"] == pytest.approx(beyond, rel=1e-8)
    assert found.iloc[1]["prob_zero"] == pytest.approx(0.0, abs=1e-15)
    assert found.iloc[2]["prob_zero"] == pytest.approx(share[0] + share[2], rel=1e-8)


def test_expectation_propagation_of_one_column_is_exact(frame):
    """With one column the tilted distribution of EP is the posterior: spike and slab."""
    given = {"prior_inclusion": 0.3, "slab_var": 0.5, "noise_var": 1.3}
    fits = [SpikeSlab(frame["y"], frame[["x3"]], **given).fit(method) for method in ("damped", "exact")]
    found = [fit.contrast("x3, -2*x3, x3 = 0.1, x3 = -0.1").loc[:, "lower":] for fit in fits]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8)


def test_expectation_propagation_within_a_group_and_across(by_ep):
    found = by_ep.contrast("g[T.w] - g[T.v], x1 - x2, Intercept + x1")
    assert found["prob_zero"].iloc[0] == pytest.approx(1 - by_ep.inclusion_prob["g[T.w]"], rel=1e-8)
    assert np.isnan(found["prob_zero"].iloc[1])
    assert found["prob_zero"].iloc[2] == pytest.approx(0.0, abs=1e-15)
    across = found.iloc[1]
    assert across["prob_positive"] == pytest.approx(stats.norm.sf(0, across["mean"], across["sd"]), rel=SAME)


@pytest.mark.parametrize("fitted", ["ridge", "by_ep", "by_sets"])
def test_contrasts_scale_and_turn(fitted, request):
    res = request.getfixturevalue(fitted)
    plain = res.contrast("x1 - x2, x3, g[T.w] - g[T.v]")
    turned = res.contrast("-300*x1 + 300*x2, -300*x3, 300*g[T.v] - 300*g[T.w]")
    np.testing.assert_allclose(turned["mean"], -300 * plain["mean"], rtol=SAME)
    np.testing.assert_allclose(turned["sd"], 300 * plain["sd"], rtol=SAME)
    size = 1e-8 * turned["sd"].to_numpy()
    assert (np.abs(turned["upper"].to_numpy() + 300 * plain["lower"].to_numpy()) <= size).all()
    assert (np.abs(turned["lower"].to_numpy() + 300 * plain["upper"].to_numpy()) <= size).all()
    zero = plain.get("prob_zero", pd.Series(0.0, plain.index)).fillna(0.0).to_numpy()
    total = turned["prob_positive"].to_numpy() + plain["prob_positive"].to_numpy() + zero
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=SAME)


@pytest.mark.parametrize("fitted", ["ridge", "by_ep", "by_sets"])
def test_a_row_of_data_is_its_prediction(frame, fitted, request):
    res = request.getfixturevalue(fitted)
    row = frame[frame["g"] == "w"].iloc[:1]
    text = "Intercept + g[T.w]" + "".join(f" + {row[name].iloc[0]:.17f} * `{name}`" for name in frame.columns[:4])
    found = res.contrast(text.replace("+ -", "- ")).iloc[0]
    predicted = res.get_prediction(row).summary_frame().iloc[0]
    wanted = predicted[["mean", "mean_se", "mean_ci_lower", "mean_ci_upper"]].to_numpy(dtype=float)
    np.testing.assert_allclose(found[["mean", "sd", "lower", "upper"]].to_numpy(), wanted, rtol=1e-8)


def test_value_is_subtracted(ridge, by_sets):
    for res in (ridge, by_sets):
        plain, less = res.contrast("x1 - x2").iloc[0], res.contrast("x1 - x2 = 0.3").iloc[0]
        for name in ("mean", "lower", "upper"):
            assert less[name] == pytest.approx(plain[name] - 0.3, abs=SAME)
        assert less["sd"] == pytest.approx(plain["sd"], rel=SAME)
        assert less["prob_positive"] < plain["prob_positive"]


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_fits_from_moments_answer_alike(model):
    y, x = regression(60, 4)
    rows = np.random.default_rng(4).standard_normal((3, 5))
    by_rows, by_moments = model(y, x).fit(), model.from_moments(Moments.from_arrays(y, x)).fit()
    found = by_moments.contrast(rows)
    assert found["prob_positive"].between(0, 1).all()
    np.testing.assert_allclose(found, by_rows.contrast(rows), rtol=0, atol=MOMENTS * np.abs(by_rows.params).max())


def test_results_without_rows(frame):
    for make, method in ((BayesRidge, "exact"), (SpikeSlab, "ep")):
        res = make.from_formula(FORMULA, frame).fit(method, **({"hyper": "maximize"} if method == "ep" else {}))
        before = res.contrast(ASKED)
        res.remove_data()
        np.testing.assert_allclose(res.contrast(ASKED), before, rtol=1e-8)
        res.remove_data(row_space=False)
        with pytest.raises(ValueError, match="a contrast needs all of them together"):
            res.contrast("x1 - x2")


def test_several_targets_are_as_each_alone():
    y, x = regression(40, 3)
    other = y[::-1].copy()
    both = BayesRidge(pd.DataFrame({"a": y, "b": other}), x).fit()
    rows = [[0.0, 1.0, -1.0, 0.0], [1.0, 0.0, 0.0, 2.0]]
    for target, alone in (("a", y), (1, other)):
        np.testing.assert_allclose(
            both.contrast(rows, target=target), BayesRidge(alone, x).fit().contrast(rows), 1e-7
        )
    with pytest.raises(ValueError, match="contrast needs target="):
        both.contrast(rows)


@pytest.mark.parametrize("method", ["em", "exact"])
def test_a_fit_without_noise_is_a_point(method):
    _, x = regression(30, 3)
    with pytest.warns(DegenerateFitWarning):
        res = BayesRidge(x @ [1.0, 2.0, 0.0], x).fit(method)
    found = res.contrast("x1 - x2, x2, const, x3, x1 - x2/2, x1 = 1")
    np.testing.assert_allclose(found["mean"], [-1, 2, 0, 0, 0, 0], atol=1e-10)
    np.testing.assert_allclose(found["sd"], 0.0, atol=0)
    np.testing.assert_allclose(found["prob_positive"], [0, 1, 0, 0, 0, 0], atol=0)


@pytest.mark.parametrize("method", ["damped", "exact"])
def test_a_column_that_cannot_be_in_is_zero(method):
    y, x = regression(30, 3)
    res = SpikeSlab(y, x, prior_inclusion=[0.5, 0.5, 0.0]).fit(method)
    found = res.contrast(np.eye(4)[3:]).iloc[0]
    assert found["prob_zero"] == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(found[["mean", "sd", "lower", "upper", "prob_positive"]], 0.0, atol=0)


@pytest.mark.parametrize("name", ["t_test", "f_test", "wald_test", "pvalues", "tvalues"])
def test_tests_of_least_squares_name_what_to_use(ridge, by_ep, name):
    for res in (ridge, by_ep):
        assert not hasattr(res, name)
        with pytest.raises(AttributeError, match=rf"no {name}: the estimates are shrunken.*contrast\(\).*prob_posit"):
            getattr(res, name)


def test_positive_and_zero_are_apart_where_all_kept_states_have_a_column():
    """A column that hardly any state lacks, none of the kept ones: the three probabilities sum to one."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3))
    y = (1.1 * x[:, 0] + 1.4 * rng.normal(size=200) > 0).astype(float)
    res = SpikeSlab(y, x, family="binomial").fit(chains=1, mcse=0.5)
    assert 0 < res.prob_zero["x1"] < 1e-4
    other = res.contrast([0, -1, 0, 0])
    total = res.prob_positive["x1"] + res.prob_zero["x1"] + float(other["prob_positive"].iloc[0])
    assert abs(total - 1) < SUMS
    assert abs(float(other["prob_zero"].iloc[0]) - res.prob_zero["x1"]) < SUMS


@pytest.mark.parametrize(
    ("text", "weights", "value"),
    [
        ("a:t[T.B] = 0", {"a:t[T.B]": 1}, 0),
        ("a:t[T.B]-a:t[T.C]", {"a:t[T.B]": 1, "a:t[T.C]": -1}, 0),
        ("2*a:t[T.B] = a:b", {"a:t[T.B]": 2, "a:b": -1}, 0),
        ("(a:b:t[T.B] - b)/2 = 1", {"a:b:t[T.B]": 0.5, "b": -0.5}, 1),
        ("`my col`:a - 'my col:a' + C(g)[T.q:r]", {"C(g)[T.q:r]": 1}, 0),
    ],
)
def test_interactions_are_written_as_they_are(text, weights, value):
    names = ["a", "b", "a:b", "a:t[T.B]", "a:t[T.C]", "a:b:t[T.B]", "my col:a", "C(g)[T.q:r]"]
    (found,) = combinations(text, names)
    np.testing.assert_allclose(found.weights, [weights.get(name, 0) for name in names])
    assert found.value == pytest.approx(value)


@pytest.mark.parametrize("text", ["a:", ":a", "a:-b", "a::b"])
def test_a_colon_needs_names_on_both_sides(text):
    with pytest.raises(ValueError, match="cannot be parsed"):
        combinations(text, ["a", "b", "a:b"])
