"""Credible sets where readers see them: pictures, reports and summaries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import SpikeSlab
from pybayesridge.exceptions import ConvergenceWarning

EQUAL = 1e-12
"""The same number in two places."""

SUMMED = 1e-6
"""Sums over the kept sets, of which those of negligible probability are left out, and EP's clipped probabilities."""

EFFECTS = {"x0": 0.7, "x2": 0.8, "x5": 0.8}


def twins(p=12, n=150):
    """Columns that replace each other, and others."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(n, p))).add_prefix("x")
    x["x1"] = x["x0"] + 0.15 * x["x1"]
    x["x3"], x["x4"] = x["x2"] + 0.2 * x["x3"], x["x2"] + 0.2 * x["x4"]
    y = pd.Series(sum(b * x[name] for name, b in EFFECTS.items()) + rng.normal(size=n), name="y")
    return y, x


@pytest.fixture(scope="module")
def fit():
    return SpikeSlab(*twins()).fit("exact")


@pytest.fixture(scope="module")
def many():
    y, x = twins()
    more = pd.DataFrame(np.random.default_rng(1).normal(size=(150, 60))).add_prefix("z")
    return SpikeSlab(y, x.join(more)).fit("exact", mcse=0.05)


def sets_of(res):
    found = res.credible_sets()
    return {number: set(rows["column"]) for number, rows in found.groupby("set")}


def test_the_sets_are_those_of_the_design(fit):
    assert sorted(map(sorted, sets_of(fit).values())) == [["x0", "x1"], ["x2", "x4"], ["x5"]]
    pd.testing.assert_frame_equal(fit.credible_sets(0.95, 0.5), fit.credible_sets())
    assert len(fit.credible_sets(min_abs_corr=0.999)) < len(fit.credible_sets())


def test_summary_has_a_line_for_each_set_of_several_columns(fit):
    found = [f for f in fit.findings if f.code == "credible-set"]
    assert [f.severity for f in found] == ["note", "note"]
    text = " ".join(str(fit.summary()).split())
    for number, columns in sets_of(fit).items():
        assert (f"Credible set {number}: " in text) == (len(columns) > 1)
        rows = fit.credible_sets().query("set == @number")
        said = ", ".join(map(repr, rows["column"]))
        if len(columns) > 1:
            assert f"Credible set {number}: {said}. At least one of them is included" in text
            assert f"correlation is {rows['purity'].iloc[0]:.2f}." in text


def test_summary_names_five_sets_and_counts_the_others():
    rng = np.random.default_rng(4)
    x = pd.DataFrame(rng.normal(size=(120, 7))).add_prefix("a")
    both = x.join((x + 0.02 * rng.normal(size=x.shape)).set_axis([f"b{i}" for i in range(7)], axis=1))
    res = SpikeSlab(x.sum(axis=1) + 0.5 * rng.normal(size=120), both).fit("exact")
    pairs = sum(len(columns) > 1 for columns in sets_of(res).values())
    assert pairs > 5
    codes = [f.code for f in res.findings]
    assert codes.count("credible-set") == 5
    text = " ".join(str(res.summary()).split())
    more = pairs - 5
    assert ("There is 1 more" if more == 1 else f"There are {more} more") in text


def test_no_line_and_no_colour_without_sets():
    y, x = twins()
    alone = x[["x0", "x2", "x5", "x6"]]
    res = SpikeSlab(y, alone).fit("exact")
    assert "Credible set" not in str(res.summary())
    ep = SpikeSlab(y, alone).fit("ep")
    assert ep.default_sets == ()
    pytest.importorskip("matplotlib")
    for each in (res, ep):
        assert each.plot_inclusion().get_legend() is None


@pytest.mark.parametrize("which", ["fit", "many"])
def test_picture_of_inclusion_has_the_sets_in_colours(which, request):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    res = request.getfixturevalue(which)
    ax = res.plot_inclusion()
    wanted = {number: columns for number, columns in sets_of(res).items() if len(columns) > 1}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"credible set {i}" for i in wanted]
    colours = set()
    for number, columns in wanted.items():
        part = next(c for c in ax.collections if c.get_label() == f"credible set {number}")
        shown = np.asarray(part.get_offsets())
        probability = shown[:, 0] if which == "fit" else shown[:, 1]
        np.testing.assert_allclose(np.sort(probability), np.sort(res.inclusion_prob[list(columns)]), rtol=EQUAL)
        if which == "many":
            at = {name: i for i, name in enumerate(res.penalized_names, 1)}
            assert {at[name] for name in columns} == set(shown[:, 0].astype(int))
        colours.add(tuple(part.get_facecolor()[0]))
    assert len(colours) == len(wanted)
    matplotlib.pyplot.close("all")


def test_picture_of_some_columns_has_their_sets(fit):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = fit.plot_inclusion(terms=["x4", "x6"])
    part = next(c for c in ax.collections if str(c.get_label()).startswith("credible set"))
    np.testing.assert_allclose(np.asarray(part.get_offsets())[0, 0], fit.inclusion_prob["x4"], rtol=EQUAL)
    matplotlib.pyplot.close("all")


def test_report_has_a_table_of_the_sets_and_what_is_selected(fit, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    fit.report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    text = " ".join(page.replace("<wbr>", "").split())
    assert "Credible sets: at least one column of each" in text
    for _, rows in fit.credible_sets().groupby("set"):
        assert ", ".join(rows["column"]) in text
    chosen = fit.select(0.1)
    false = (1 - chosen["inclusion_prob"]).sum()
    assert f"false discovery rate of at most 10 %, {len(chosen)} columns are selected, of which {false:.2g}" in text
    y, x = twins()
    none = SpikeSlab(np.random.default_rng(3).normal(size=len(y)), x[["x6", "x7"]]).fit("exact")
    none.report(tmp_path / "none.html")
    text = " ".join((tmp_path / "none.html").read_text(encoding="utf-8").split())
    assert "No column can be selected with an expected false discovery rate of at most 10 %." in text
    assert "Credible sets" not in text


@pytest.mark.parametrize("method", ["exact", "ep"])
def test_the_number_of_columns_has_a_distribution_and_an_interval(method):
    """Beside the sum over the models of an exact fit, and over all sets of independent inclusions of EP."""
    y, x = twins()
    hyper = "maximize" if method == "ep" else None
    res = SpikeSlab(y, x[["x0", "x2", "x6", "x7"]], noise_var=1.5).fit(method, hyper=hyper)
    found = res.size_distribution()
    assert found.sum() == pytest.approx(1, rel=EQUAL)
    assert found.index @ found == pytest.approx(res.expected_size, rel=SUMMED)
    if method == "exact":
        wanted = res.models(16).groupby("size")["probability"].sum()
    else:
        p = res.inclusion_prob[["x0", "x2", "x6", "x7"]].to_numpy()
        sets = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
        wanted = pd.Series(np.prod(np.where(sets, p, 1 - p), axis=1)).groupby(sets.sum(axis=1)).sum()
    for size, probability in wanted.items():
        assert found.get(size, 0.0) == pytest.approx(probability, abs=SUMMED)
    for alpha in (0.05, 0.5):
        low, high = res.size_interval(alpha)
        assert found[:low].sum() <= alpha / 2 + SUMMED
        assert found[: low + 1].sum() >= alpha / 2 - SUMMED
        assert found[:high].sum() <= 1 - alpha / 2 + SUMMED
        assert found[: high + 1].sum() >= 1 - alpha / 2 - SUMMED
    with pytest.raises(ValueError, match="alpha"):
        res.size_interval(1.5)


@pytest.mark.parametrize("method", ["exact", "ep"])
def test_columns_of_groups_are_counted(method):
    y, x = twins()
    res = SpikeSlab(y, x[["x0", "x1", "x2", "x6"]], group={"pair": ["x0", "x1"]}, noise_var=1.5).fit(method)
    found = res.size_distribution()
    assert found.index @ found == pytest.approx(res.expected_size, rel=SUMMED)
    assert res.size_interval() == (3, 3) or res.size_interval() == (3, 4)
    low, high = res.size_interval()
    groups, text = res.group_inclusion_prob.sum(), " ".join(str(res.summary()).split())
    assert groups < res.expected_size - 0.5
    if method == "ep":
        assert f"Expected size: {res.expected_size:.2f}" in text
        assert f"Groups included: {groups:.2f}" in text
        return
    assert f"Expected size: {res.expected_size:.2f} [{low}, {high}]" in text
    assert f"Groups included: {groups:.2f} [" in text
    table = res.hyperparameters()
    assert table.loc["size"].tolist() == pytest.approx([res.expected_size, low, high], rel=EQUAL)
    assert table.loc["groups_included", "mean"] == pytest.approx(groups, rel=EQUAL)
    assert table.loc["groups_included", ["lower", "upper"]].tolist() in ([2, 2], [2, 3])


def test_without_groups_of_several_columns_there_is_one_size(fit):
    assert "groups_included" not in fit.hyperparameters().index
    assert "Groups included" not in str(fit.summary())


def test_groups_are_named_and_a_group_alone_is_no_set(fit):
    y, x = twins()
    res = SpikeSlab(y, x, group={"first": ["x0", "x1"], "second": ["x2", "x3", "x4"]}).fit("exact")
    assert res.exchangeable_sets == {}
    assert {"first", "second"} <= set(res.unit_names)


@pytest.mark.parametrize("method", ["exact", "ep"])
def test_without_penalised_columns_nothing_says_to_fit_as_was_done(method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    res = SpikeSlab(x[:, 0] + rng.normal(size=30), x, unpenalized=["x1", "x2"]).fit(method)
    for ask in (
        res.models,
        res.credible_sets,
        res.explained_variance,
        lambda: res.pair_inclusion(["x1"]),
        lambda: res.joint_contrast("x1, x2"),
    ):
        with pytest.raises(ValueError, match="no column of this fit is penalised and varies"):
            ask()


def test_advice_is_another_method_than_the_one_that_did_not_converge():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    with pytest.warns(ConvergenceWarning, match=r"raise maxiter, or use method='exact'\."):
        SpikeSlab(x[:, 0] + rng.normal(size=40), x).fit("ep", maxiter=1)
    with pytest.warns(ConvergenceWarning, match=r"raise maxiter, or use method='ep'\."):
        SpikeSlab(x[:, 0] + rng.normal(size=40), x).fit("damped", maxiter=1)
