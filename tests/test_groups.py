"""Groups of columns in SpikeSlab: what users can say, what they get, on the user's scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import SpikeSlab, compare_evidence, r_bridge

from .ep.ep_checks import enumerate_groups

EXACT = 1e-9
"""Where EP is exact, or two computations are the same but for rounding."""

SAME_FIT = 1e-4
"""Two fits with another order of the arithmetic, beside EP's tolerance of 1e-4."""

EP = 0.03
"""Error of EP beside enumeration, coefficients of order 1 and 60 rows."""

MC = 0.03
"""Error of 10,000 dependent draws."""

FORMULA = "y ~ x + C(g) + poly(z, 3) + h"


def frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "z": rng.standard_normal(n),
            "g": rng.choice(list("abcd"), n),
            "h": rng.choice(list("uv"), n),
        }
    )
    data["y"] = 3 + data["g"].map({"a": 0, "b": 2, "c": -1, "d": 0.5}) + 0.2 * data["x"] + rng.standard_normal(n)
    return data


def arrays(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.standard_normal((n, 6)) * [1, 2, 3, 1, 1, 5] + 3, columns=list("abcdef"))
    x["b"] += x["a"]
    y = pd.Series(1 + x["a"] - 0.2 * x["c"] + rng.standard_normal(n), name="y")
    return y, x


FIXED = {"slab_var": 0.8, "noise_var": 1.1, "prior_inclusion": 0.4}
LISTS = [["a", "b"], ["d", "f", "e"]]


def standardized(x):
    x = np.asarray(x, dtype=float)
    x = x - x.mean(axis=0)
    return x / x.std(axis=0)


def test_a_formula_takes_terms_whole_and_none_takes_columns():
    data = frame()
    by_term = SpikeSlab.from_formula(FORMULA, data).fit()
    by_column = SpikeSlab.from_formula(FORMULA, data, group=None).fit()
    levels = ["C(g)[T.b]", "C(g)[T.c]", "C(g)[T.d]"]
    assert (by_term.inclusion_prob[levels] == by_term.inclusion_prob[levels[0]]).all()
    assert by_column.inclusion_prob[levels].nunique() == 3
    assert by_term.group_inclusion_prob.index.tolist() == ["x", "C(g)", "poly(z, 3)", "h"]
    assert by_term.group_inclusion_prob["C(g)"] == by_term.inclusion_prob["C(g)[T.b]"]
    assert by_term.group_inclusion_prob["h"] == by_term.inclusion_prob["h[T.v]"]
    assert by_column.group_inclusion_prob.index.tolist() == by_column.inclusion_prob.index.tolist()[1:]
    assert set(levels) <= set(by_term.median_model())


def test_terms_of_one_column_change_nothing():
    data = frame()
    by_term = SpikeSlab.from_formula("y ~ x + z + h", data).fit()
    by_column = SpikeSlab.from_formula("y ~ x + z + h", data, group=None).fit()
    pd.testing.assert_series_equal(by_term.params, by_column.params, rtol=EXACT)
    assert by_term.log_evidence == pytest.approx(by_column.log_evidence, rel=EXACT)
    assert "included or excluded together" not in str(by_term.summary())


@pytest.mark.parametrize(
    "group",
    [
        ["ab", "ab", "c", "def", "def", "def"],
        np.array([7, 7, 1, 2, 2, 2]),
        pd.Series({"f": 2, "e": 2, "d": 2, "c": 1, "b": 7, "a": 7}),
        {"first": ["a", "b"], "second": ["d", "e", "f"]},
        LISTS,
        [("f", "e", "d"), ("b", "a")],
    ],
)
def test_ways_to_name_groups_are_the_same_model(group):
    y, x = arrays()
    expected = SpikeSlab(y, x, group=LISTS, **FIXED).fit("ep", tol=1e-9)
    fit = SpikeSlab(y, x, group=group, **FIXED).fit("ep", tol=1e-9)
    assert np.allclose(fit.params, expected.params, atol=EXACT)
    assert fit.log_evidence == pytest.approx(expected.log_evidence, abs=EXACT)
    assert fit.group_inclusion_prob.size == 3


def test_labels_of_groups():
    y, x = arrays()
    assert SpikeSlab(y, x, group=LISTS).groups.labels == ["a + b", "c", "d + f + e"]
    assert SpikeSlab(y, x, group=[list("abcd")]).groups.labels == ["a + … + d", "e", "f"]
    assert SpikeSlab(y, x, group={"s": "a"}).groups.labels == ["s", "b", "c", "d", "e", "f"]
    assert SpikeSlab(y, x, group=[3, 3, 1, 0, 0, 0]).groups.labels == ["3", "1", "0"]


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([1, 2], "one label for each of the 6 columns of exog, got 2"),
        ([1, 1, 1, None, 2, 2], "no label for column.*'d'"),
        ([1, "1", 2, 3, 4, 5], "different types"),
        ("terms", "'terms'"),
        ("term", "requires a formula"),
        (3, "must be None"),
        ({"g": ["a", "nope"]}, "'g' names 'nope'"),
        ({"g": ["a", "b"], "h": ["b", "c"]}, "'b' of group 'h' are already in a group"),
        ([["a", "a"]], "twice"),
        ({"a": ["b", "c"]}, "'a' are names of columns outside"),
        (pd.Series([1, 2], index=["a", "b"]), "index of group"),
    ],
)
def test_bad_groups_say_what_is_wrong(group, message):
    y, x = arrays()
    with pytest.raises(ValueError, match=message):
        SpikeSlab(y, x, group=group)


@pytest.mark.parametrize("standardize", [True, False])
def test_beside_enumeration_of_the_models_of_groups(standardize):
    y, x = arrays()
    fit = SpikeSlab(y, x, group=LISTS, standardize=standardize, **FIXED).fit("ep", tol=1e-9)
    columns = standardized(x) if standardize else (x - x.mean()).to_numpy()
    unit = x.std(ddof=0).to_numpy() if standardize else 1.0
    groups, p = np.array([0, 0, 1, 2, 2, 2]), np.full(3, 0.4)
    exact = enumerate_groups(columns, (y - y.mean()).to_numpy(), groups, p, 0.8, 1.1, nu=59)
    assert np.allclose(fit.group_inclusion_prob, exact.inclusion_prob, atol=EP)
    assert np.allclose(fit.params[1:], exact.mean / unit, atol=EP)
    assert np.allclose(fit.bse[1:], np.sqrt(np.diag(exact.cov)) / unit, atol=EP)
    assert fit.log_evidence == pytest.approx(exact.log_evidence, abs=EP)
    cov = fit.cov_params()
    assert np.allclose(np.diag(cov), fit.bse**2, rtol=1e-9)
    assert np.allclose(cov.iloc[1:, 1:], exact.cov / np.outer(unit, unit), atol=EP)


def test_intervals_of_a_single_group_are_quantiles_of_the_exact_mixture():
    y, x = arrays(seed=3)
    y = 0.72 * (y - y.mean()) + np.random.default_rng(1).standard_normal(60)
    fit = SpikeSlab(y, x, group=[0] * 6, **FIXED).fit("ep", tol=1e-11)
    columns, unit = standardized(x), x.std(ddof=0).to_numpy()
    exact = enumerate_groups(columns, (y - y.mean()).to_numpy(), np.zeros(6, int), np.array([0.4]), 0.8, 1.1)
    cov = np.linalg.inv(columns.T @ columns / 1.1 + np.eye(6) / 0.8)
    mean = cov @ columns.T @ (y - y.mean()).to_numpy() / 1.1
    assert 0.05 < exact.inclusion_prob[0] < 0.999
    assert fit.group_inclusion_prob.iloc[0] == pytest.approx(exact.inclusion_prob[0], abs=EXACT)
    assert np.allclose(fit.cond_mean[1:], mean / unit, atol=EXACT)
    assert np.allclose(fit.cond_var[1:], np.diag(cov) / unit**2, atol=EXACT)
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(mean, cov, 200_000) / unit * (rng.random((200_000, 1)) < exact.inclusion_prob[0])
    assert np.allclose(fit.conf_int().to_numpy()[1:], np.quantile(draws, [0.025, 0.975], axis=0).T, atol=0.01)


def test_single_group_predictions_are_exact():
    y, x = arrays(seed=4)
    fit = SpikeSlab(y, x, group=[0] * 6, **FIXED).fit("ep", tol=1e-11)
    columns, at = standardized(x), (x.iloc[:5] * 1.3 - x.mean()) / x.std(ddof=0)
    exact = enumerate_groups(columns, (y - y.mean()).to_numpy(), np.zeros(6, int), np.array([0.4]), 0.8, 1.1)
    table = fit.get_prediction(x.iloc[:5] * 1.3).summary_frame()
    assert np.allclose(table["mean"], y.mean() + at @ exact.mean, atol=EXACT)
    variance = np.einsum("ij,jk,ik->i", at, exact.cov, at) + 1.1 / 60
    assert np.allclose(table["mean_se"], np.sqrt(variance), atol=EXACT)


def test_unpenalized_and_constant_columns_are_not_part_of_a_group():
    y, x = arrays()
    x["flat"] = 0.0
    group = ["g", "g", "g", "h", "h", "h", "h"]
    part = SpikeSlab(y, x, group=group, unpenalized=["a", "d", "e", "f"], **FIXED).fit("ep", tol=1e-9)
    rest = SpikeSlab(y, x, group=[["b", "c"]], unpenalized=["a", "d", "e", "f"], **FIXED).fit("ep", tol=1e-9)
    assert part.group_inclusion_prob.index.tolist() == ["g", "h"]
    assert part.group_inclusion_prob["h"] == 0
    assert part.inclusion_prob[["a", "d", "e", "f"]].tolist() == [1, 1, 1, 1]
    assert np.allclose(part.params, rest.params, atol=EXACT)
    data = frame()
    term = SpikeSlab.from_formula(FORMULA, data, unpenalized="C(g)").fit()
    assert term.group_inclusion_prob.index.tolist() == ["x", "poly(z, 3)", "h"]
    assert (term.inclusion_prob.filter(like="C(g)") == 1).all()
    one = SpikeSlab.from_formula(FORMULA, data, unpenalized="C(g)[T.b]", **FIXED).fit()
    assert one.inclusion_prob["C(g)[T.c]"] == one.inclusion_prob["C(g)[T.d]"] == one.group_inclusion_prob["C(g)"]


def test_prior_inclusion_by_group():
    y, x = arrays()
    known = {"slab_var": 0.8, "noise_var": 1.1}
    group = {"g": ["a", "b"], "h": ["d", "e", "f"]}
    by_column = SpikeSlab(y, x, group=group, prior_inclusion=[0.3, 0.3, 0.2, 0.6, 0.6, 0.6], **known).fit()
    by_group = SpikeSlab(y, x, group=group, prior_inclusion={"g": 0.3, "c": 0.2, "h": 0.6}, **known).fit()
    pd.testing.assert_series_equal(by_group.params, by_column.params, rtol=EXACT)
    assert by_group.prior_inclusion.tolist() == [1, 0.3, 0.3, 0.2, 0.6, 0.6, 0.6]
    with pytest.raises(ValueError, match=r"differs within the group 'h' \(0.5 to 0.6\)"):
        SpikeSlab(y, x, group=group, prior_inclusion=[0.3, 0.3, 0.2, 0.6, 0.5, 0.6])
    with pytest.raises(ValueError, match="'a' a probability twice"):
        SpikeSlab(y, x, group=group, prior_inclusion={"a": 0.3, "g": 0.3, "c": 0.2, "h": 0.6})
    with pytest.raises(ValueError, match="'k', which are not columns"):
        SpikeSlab(y, x, group=group, prior_inclusion={"k": 0.3})
    # What an unpenalised column is given does not count.
    SpikeSlab(y, x, group=group, unpenalized="e", prior_inclusion=[0.3, 0.3, 0.2, 0.6, 0.5, 0.6], **known)


def test_summary_says_which_columns_go_together():
    text = str(SpikeSlab.from_formula(FORMULA, frame()).fit().summary())
    assert "poly(z, 3)  " in text
    assert "PIP    columns" in text
    assert "included or excluded together" in text.replace("\n    ", " ")


def test_draws_of_a_group_are_zero_together():
    data = frame()
    fit = SpikeSlab.from_formula(FORMULA, data, **FIXED).fit("ep")
    draws = fit.sample(10_000, rng=0, kind="gibbs")
    for columns in (["C(g)[T.b]", "C(g)[T.c]", "C(g)[T.d]"], [f"poly(z, 3)[{k}]" for k in (1, 2, 3)]):
        zero = draws[columns] == 0
        assert (zero.all(axis=1) == zero.any(axis=1)).all()
    assert np.allclose((draws != 0).mean(), fit.inclusion_prob, atol=MC)
    gaussian = fit.sample(10_000, rng=0)
    ratio = np.cov(gaussian.T) / np.outer(fit.bse, fit.bse)
    assert np.allclose(ratio, fit.cov_params() / np.outer(fit.bse, fit.bse), atol=0.06)


@pytest.mark.parametrize("method", ["damped", "pcep", "ep"])
def test_methods(method):
    fit = SpikeSlab.from_formula(FORMULA, frame(), **FIXED).fit(method)
    exact = SpikeSlab.from_formula(FORMULA, frame(), **FIXED).fit("exact")
    assert fit.converged
    assert np.allclose(fit.group_inclusion_prob, exact.group_inclusion_prob, atol=EP)


def test_saved_and_reduced_fits_keep_their_groups(tmp_path):
    data = frame()
    fit = SpikeSlab.from_formula(FORMULA, data).fit()
    expected = fit.get_prediction(data.iloc[:3]).summary_frame()
    bse, table = fit.bse.copy(), str(fit.summary())
    fit.save(tmp_path / "fit.pickle", remove_data=True)
    loaded = type(fit).load(tmp_path / "fit.pickle")
    assert loaded.group_inclusion_prob.equals(fit.group_inclusion_prob)
    assert np.allclose(loaded.get_prediction(data.iloc[:3]).summary_frame(), expected, rtol=1e-12)
    assert np.allclose(loaded.bse, bse, rtol=1e-12)
    assert str(loaded.summary()) == table


def test_averaging_and_starting_from_another_fit():
    data = frame()
    model = SpikeSlab.from_formula(FORMULA, data)
    fit = model.fit("ep", hyper="average")
    assert fit.converged
    assert (fit.inclusion_prob.filter(like="poly") == fit.group_inclusion_prob["poly(z, 3)"]).all()
    assert np.allclose(np.diag(fit.cov_params()), fit.bse**2, rtol=1e-9)
    base = SpikeSlab.from_formula(FORMULA, data, **FIXED).fit("ep", tol=1e-8)
    columns = SpikeSlab.from_formula(FORMULA, data, group=None, **FIXED).fit("ep", tol=1e-8)
    other = SpikeSlab.from_formula(FORMULA, data.iloc[:50], **FIXED).fit("ep", tol=1e-8)
    for start in (base, columns, other):
        fit = SpikeSlab.from_formula(FORMULA, data, **FIXED).fit("ep", start=start, tol=1e-8)
        assert np.allclose(fit.params, base.params, atol=SAME_FIT)


def test_evidence_compares_groups_with_columns():
    data = frame()
    fits = {g or "columns": SpikeSlab.from_formula(FORMULA, data, group=g, **FIXED).fit() for g in ("term", None)}
    table = compare_evidence(fits)
    assert set(table.index) == {"term", "columns"}
    assert table["probability"].sum() == pytest.approx(1)


def test_weights_and_units_of_grouped_fits():
    y, x = arrays()
    rng = np.random.default_rng(2)
    weights = rng.integers(1, 4, 60)
    # A rotation of standardised columns by weights: repeated rows are weights, the noise being that of one row.
    known = {"slab_var": 0.8, "prior_inclusion": 0.4, "group": LISTS}
    weighted = SpikeSlab(y, x, weights=weights, noise_var=1.1 / weights.mean(), **known).fit("ep", tol=1e-9)
    rows = np.repeat(np.arange(60), weights)
    repeated = SpikeSlab(
        y.to_numpy()[rows], x.to_numpy()[rows], noise_var=1.1, **(known | {"group": [0, 0, 1, 2, 2, 2]})
    )
    fit = repeated.fit("ep", tol=1e-9)
    assert np.allclose(weighted.params, fit.params, atol=1e-6)
    assert np.allclose(weighted.inclusion_prob, fit.inclusion_prob, atol=1e-6)
    known |= {"slab_var": 0.8 * 100}
    scaled = SpikeSlab(10 * y, x * [1, 2, 3, 4, 5, 1e3], noise_var=110, **known).fit("ep", tol=1e-9)
    plain = SpikeSlab(y, x, noise_var=1.1, **(known | {"slab_var": 0.8})).fit("ep", tol=1e-9)
    assert np.allclose(scaled.inclusion_prob, plain.inclusion_prob, atol=1e-6)
    assert scaled.params["f"] * 1e3 / 10 == pytest.approx(plain.params["f"] * 1.0, abs=1e-6)


@pytest.mark.parametrize("n", [60, 10])
def test_bridge_to_r_has_groups_and_their_covariance(n):
    y, x = arrays(n)
    more = np.random.default_rng(5).standard_normal((n, 70))
    columns = np.column_stack([np.ones(n), x, more])
    names = ["(Intercept)", *x.columns, *(f"m{j}" for j in range(70))]
    assign = np.concatenate([[0, 1, 1, 2, 3, 3, 3], 4 + np.arange(70) // 7]).astype(float)
    out = r_bridge.spike_slab(
        y.to_numpy()[:, None], columns, x_names=names, y_names=["y"], from_formula=True, model=dict(FIXED),
        fit={"method": "ep"}, group=assign.tolist(),
    )  # fmt: skip
    assert out["error"] is None
    value = out["value"]
    direct = SpikeSlab(y, pd.DataFrame(columns, columns=names), group=assign.astype(int), **FIXED).fit("ep")
    assert value["group_labels"] == [str(k) for k in range(1, 14)]
    assert np.allclose(value["group_inclusion_prob"], direct.group_inclusion_prob)
    part = value["posterior"]
    unit = value["posterior"]["y_norm"][0] / value["posterior"]["scale"]
    cov = np.diag(part["own"][0]) + part["root"].T @ (part["root_sign"][:, None] * part["root"])
    assert np.allclose(cov * np.outer(unit, unit), direct.cov_params().iloc[1:, 1:], atol=1e-9)
    assert np.allclose(part["mean"][0] * unit, direct.params[1:], atol=1e-9)
    assert np.allclose(part["slab_var"][0] * unit**2, direct.cond_var[1:], rtol=1e-9)
    alone = r_bridge.spike_slab(
        y.to_numpy()[:, None],
        columns,
        x_names=names,
        y_names=["y"],
        from_formula=True,
        model=dict(FIXED),
        fit={"method": "ep"},
    )["value"]
    assert alone["group_labels"] == names[1:]
