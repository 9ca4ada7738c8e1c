"""The error of expectation propagation: suspected from correlations, and measured by the exact posterior."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import ApproximationWarning, Moments, SpikeSlab, load
from pybayesridge.selection.result import CONTRADICTED

GIVEN = {"prior_inclusion": 0.05, "slab_var": 1.0, "noise_var": 1.0}
"""With these there is no error of learning."""

EXACT = 1e-8
"""Two ways to the same sum."""

FROM_MOMENTS = 1e-6
"""Probabilities by EP, which stops at a tolerance, from rows and from cross-products."""

NEAR = 0.05
"""Probabilities given EP's median model and averaged over all; three times the largest seen."""


def twins(seed, p=12, noise=0.15):
    """Two columns with a correlation of .99, of which the first matters, among independent ones."""
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(150, p))).add_prefix("x")
    x["x1"] = x["x0"] + noise * x["x1"]
    y = pd.Series(0.6 * x["x0"] + 0.8 * x["x5"] + rng.normal(size=150), name="y")
    return y, x


def finding(res):
    found = [f for f in res.findings if f.code.startswith("approximation")]
    assert len(found) <= 1
    return found[0] if found else None


def given(y, x, **options):
    return SpikeSlab(y, x, standardize=False, **GIVEN, **options)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_twins_that_ep_gets_wrong(seed):
    y, x = twins(seed)
    model = given(y, x)
    with pytest.warns(ApproximationWarning, match="replace each other: 'x[01]' and 'x[01]' "):
        res = model.fit("ep")
    error = (res.inclusion_prob - model.fit("exact").inclusion_prob).abs()
    assert error.max() > CONTRADICTED
    assert error.idxmax() in ("x0", "x1")
    assert res.doubts[0].error == pytest.approx(error.max(), abs=NEAR)
    assert res.doubts[0].correlation == pytest.approx(np.corrcoef(x["x0"], x["x1"])[0, 1], rel=EXACT)
    assert finding(res).severity == "warning"
    assert "Use method='exact'" in " ".join(str(res.summary()).split())


def test_two_columns_alone_are_a_sum_over_four_sets():
    """Nothing is left out of the look: its error is EP's."""
    y, x = twins(0)
    model = given(y, x[["x0", "x1"]])
    with pytest.warns(ApproximationWarning):
        res = model.fit("ep")
    error = (res.inclusion_prob - model.fit("exact").inclusion_prob).abs().max()
    assert res.doubts[0].error == pytest.approx(error, abs=EXACT)


def test_columns_that_can_hardly_replace_each_other_are_a_note():
    y, x = twins(1, noise=0.4)
    res = given(y, x).fit("ep")
    assert 0 < res.doubts[0].error < CONTRADICTED
    found = finding(res)
    assert (found.code, found.severity) == ("approximation-doubtful", "note")
    assert "'x0' and 'x1' (absolute correlation 0.93)" in found.text


@pytest.mark.parametrize("method", ["ep", "damped", "pcep", "exact"])
def test_no_doubt_where_there_is_none(method):
    """Independent columns; correlated ones with a clear effect; an exact fit."""
    y, x = twins(1)
    x["x1"] = x["x0"] + 0.8 * np.random.default_rng(0).normal(size=150)
    y = 5 * x["x0"] + x["x5"] + 0.1 * (y - y.mean())
    res = SpikeSlab(y, x).fit(method)
    assert res.doubts == ()
    assert finding(res) is None
    independent = x.drop(columns=["x0", "x1"])
    assert finding(SpikeSlab(x["x5"] + y - y, independent, noise_var=1.0).fit(method)) is None


def test_moments_have_the_doubts_of_rows():
    y, x = twins(0)
    with pytest.warns(ApproximationWarning):
        wanted = given(y, x).fit("ep")
    with pytest.warns(ApproximationWarning):
        found = SpikeSlab.from_moments(Moments.from_arrays(y, x), standardize=False, **GIVEN).fit("ep")
    assert len(found.doubts) == len(wanted.doubts)
    for one, other in zip(found.doubts, wanted.doubts, strict=True):
        assert {one.unit, one.partner} == {other.unit, other.partner}
        assert one.correlation == pytest.approx(other.correlation, rel=FROM_MOMENTS)
        assert one.error == pytest.approx(other.error, abs=FROM_MOMENTS)


def test_groups_are_named_and_compared_by_their_closest_columns():
    y, x = twins(3)
    groups = {"first": ["x0", "x2"], "second": ["x3", "x1"]}
    model = given(y, x, group=groups)
    with pytest.warns(ApproximationWarning, match="'(first|second)' and '(first|second)'"):
        res = model.fit("ep")
    across = np.abs(np.corrcoef(x[["x0", "x2", "x3", "x1"]].T)[:2, 2:])
    assert res.doubts[0].correlation == pytest.approx(across.max(), rel=EXACT)
    error = (res.group_inclusion_prob - model.fit("exact").group_inclusion_prob).abs()
    assert res.doubts[0].error == pytest.approx(error.max(), abs=NEAR)


def test_columns_that_the_prior_keeps_in_or_out_are_not_in_doubt():
    y, x = twins(0)
    for fixed in (0.0, 1.0):
        prior = pd.Series(0.05, index=x.columns)
        prior["x1"] = fixed
        res = SpikeSlab(y, x, standardize=False, **(GIVEN | {"prior_inclusion": prior})).fit("ep")
        assert res.doubts == ()


def test_many_pairs_are_counted():
    rng = np.random.default_rng(5)
    x = pd.DataFrame(rng.normal(size=(150, 5))).add_prefix("a")
    both = x.join((x + 0.15 * rng.normal(size=x.shape)).set_axis([f"b{i}" for i in range(5)], axis=1))
    y = 0.6 * x.sum(axis=1) + rng.normal(size=150)
    with pytest.warns(ApproximationWarning, match=r"(absolute correlation .*){3} and \d more pairs?\."):
        given(y, both).fit("ep")


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_the_check_is_the_exact_posterior_at_the_same_hyperparameters(method):
    y, x = twins(0)
    model = given(y, x)
    with pytest.warns(ApproximationWarning, match="largest error of an inclusion probability") as caught:
        res = model.fit(method, check=True)
    assert len(caught) == 1
    table, exact = res.ep_check, model.fit("exact").inclusion_prob
    np.testing.assert_allclose(table["exact"], exact[table.index], atol=EXACT)
    np.testing.assert_allclose(table["by_ep"], res.inclusion_prob[table.index], atol=EXACT)
    np.testing.assert_allclose(table["difference"], table["by_ep"] - table["exact"], atol=EXACT)
    assert (table["se"] == 0).all()
    assert sorted(table.index) == sorted(x.columns)
    assert table["difference"].abs().is_monotonic_decreasing
    found = finding(res)
    assert found.severity == "warning"
    assert f"{table['difference'].abs().iloc[0]:.3f}: that of {table.index[0]!r}" in found.text
    assert "standard error" not in found.text


@pytest.mark.filterwarnings("ignore::pybayesridge.ApproximationWarning")
def test_the_check_is_conditional_on_the_learned_hyperparameters():
    y, x = twins(0)
    res = SpikeSlab(y, x).fit("ep", hyper="maximize", check=True)
    again = SpikeSlab(y, x, prior_inclusion=res.prior_inclusion, slab_var=res.slab_var, noise_var=res.noise_var).fit(
        "exact"
    )
    np.testing.assert_allclose(res.ep_check["exact"], again.inclusion_prob[res.ep_check.index], atol=EXACT)


def test_a_check_that_is_passed_is_a_note(tmp_path):
    y, x = twins(1)
    res = given(y, x.drop(columns="x1")).fit("ep", check=True)
    found = finding(res)
    assert (found.code, found.severity) == ("approximation-error", "note")
    assert res.ep_check["difference"].abs().max() < NEAR
    assert "largest error" in str(res.summary())
    res.save(tmp_path / "fit.pickle", remove_data=True)
    back = load(tmp_path / "fit.pickle")
    pd.testing.assert_frame_equal(back.ep_check, res.ep_check)
    assert finding(back) == found
    assert given(y, x.drop(columns="x1")).fit("ep").ep_check is None


def test_the_check_by_sampling_states_its_error(monkeypatch):
    y, x = twins(0)
    model = given(y, x)
    exact = model.fit("exact").inclusion_prob
    monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)
    with pytest.warns(ApproximationWarning, match="Monte Carlo standard error 0.0"):
        res = model.fit("ep", check=True)
    table = res.ep_check
    assert ((table["exact"] - exact[table.index]).abs() < 5 * table["se"] + 1e-3).all()


@pytest.mark.filterwarnings("ignore::pybayesridge.ApproximationWarning")
def test_where_a_check_is_refused_and_where_there_is_nothing_to_check():
    y, x = twins(0)
    with pytest.raises(ValueError, match="check is an option of method='ep' or 'damped' or 'pcep', not of 'exact'"):
        SpikeSlab(y, x).fit("exact", check=True)
    with pytest.raises(ValueError, match="check must be True or False, not 'yes'"):
        SpikeSlab(y, x).fit("ep", check="yes")
    res = SpikeSlab(y, x[["x0"]], unpenalized=["x0"], noise_var=1.0).fit("ep", check=True)
    assert res.ep_check is None
    averaged = SpikeSlab(y, x).fit("ep", hyper="average", check=True)
    assert len(averaged.ep_check) == x.shape[1]
