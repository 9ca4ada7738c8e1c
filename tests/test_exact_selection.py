"""``SpikeSlab.fit("exact")`` as users call it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import Moments, SpikeSlab, compare_evidence, load
from pybayesridge.exceptions import ConvergenceWarning, DegenerateFitWarning
from pybayesridge.selection.moments import draw

TABLE = 1e-5
"""Intervals by a table, in standard deviations: 1e-7 at the worst seen."""

EQUAL = 1e-9
"""Of two ways to the same sum over all sets, relative."""

LEARNED = 1e-6
"""The same where hyperparameters are integrated out by quadrature."""

NEAR_EVIDENCE = 0.5
"""EP's evidence, hyperparameters integrated out, is this near to the exact one."""
MCSE = 0.01
NOISE = 0.2
"""Of a noise variance that is learned, relative: far narrower or wider slabs do not move it."""
NEAR_EP, NEAR_MODE = 0.05, 0.2
"""EP averaged over hyperparameters, and at their mode, this near to the exact probabilities."""
ERRORS = 5.0
"""Monte Carlo standard errors between a sampler and the truth, at most."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    data = pd.DataFrame(rng.standard_normal((60, 5)), columns=list("abcde"))
    data["b"] = data["a"] + 0.2 * data["b"]
    data["g"] = np.repeat(["u", "v", "w"], 20)
    data["y"] = data["a"] + 0.4 * data["c"] + (data["g"] == "w") + rng.standard_normal(60)
    return data


@pytest.fixture(scope="module")
def fit(frame):
    return SpikeSlab(frame["y"], frame[list("abcde")]).fit("exact")


def test_a_sum_over_all_sets_has_no_sampling_error(fit) -> None:
    assert fit.converged
    assert fit.method == "exact"
    assert (fit.inclusion_se == 0).all()
    assert fit.log_evidence_se == 0
    assert set(fit.learned) == {"prior_inclusion", "slab_var", "noise_var"}
    found = fit.models(32)
    assert found["probability"].sum() == pytest.approx(1.0, rel=EQUAL)
    for name in "abcde":
        share = found["probability"][[name in columns for columns in found["columns"]]].sum()
        assert fit.inclusion_prob[name] == pytest.approx(share, rel=EQUAL)


def test_given_hyperparameters_are_those_of_the_user(frame) -> None:
    """Two columns: four sets by normal densities of the response, on the user's own scale."""
    x, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    given = {"prior_inclusion": 0.2, "slab_var": 0.5, "noise_var": 1.3}
    res = SpikeSlab(frame["y"], frame[["a", "b"]], standardize=False, **given).fit("exact")
    centred, n = x - x.mean(axis=0), len(y)
    q = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]
    log_p = []
    for inside in ([], [0], [1], [0, 1]):
        cov = 1.3 * np.eye(n) + 0.5 * centred[:, inside] @ centred[:, inside].T
        cov, r = q.T @ cov @ q, q.T @ y
        density = -0.5 * (np.linalg.slogdet(cov)[1] + r @ np.linalg.solve(cov, r) + (n - 1) * np.log(2 * np.pi))
        log_p.append(density + len(inside) * np.log(0.2) + (2 - len(inside)) * np.log(0.8))
    weight = np.exp(np.array(log_p) - max(log_p))
    share = weight / weight.sum()
    assert res.inclusion_prob["a"] == pytest.approx(share[1] + share[3], rel=EQUAL)
    assert res.inclusion_prob["b"] == pytest.approx(share[2] + share[3], rel=EQUAL)
    assert res.log_evidence == pytest.approx(max(log_p) + np.log(weight.sum()), rel=EQUAL)
    assert res.pair_inclusion(["a", "b"]).loc["a", "b"] == pytest.approx(share[3], rel=EQUAL)
    assert res.noise_var == pytest.approx(1.3, rel=EQUAL)
    assert res.slab_var == pytest.approx(0.5, rel=EQUAL)


def test_the_sampler_agrees_with_the_sum(frame, monkeypatch) -> None:
    x = frame[list("abcde")]
    summed = SpikeSlab(frame["y"], x).fit("exact")
    monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)
    drawn = SpikeSlab(frame["y"], x).fit("exact", rng=3)
    assert drawn.converged
    names = list("abcde")
    assert (drawn.inclusion_se[names] > 0).all()
    assert (drawn.inclusion_se[names] <= MCSE).all()
    difference = (drawn.inclusion_prob - summed.inclusion_prob)[names].abs()
    assert (difference <= ERRORS * drawn.inclusion_se[names]).all()
    assert abs(drawn.log_evidence - summed.log_evidence) <= ERRORS * max(drawn.log_evidence_se, 1e-3)
    again = SpikeSlab(frame["y"], x).fit("exact", rng=3)
    assert (again.inclusion_prob == drawn.inclusion_prob).all()


def test_scale_of_response_and_columns(frame, fit) -> None:
    scaled = SpikeSlab(1e3 * frame["y"] + 7, frame[list("abcde")] * 1e-4).fit("exact")
    np.testing.assert_allclose(scaled.inclusion_prob, fit.inclusion_prob, rtol=LEARNED)
    np.testing.assert_allclose(scaled.params.iloc[1:], fit.params.iloc[1:] * 1e7, rtol=LEARNED)
    np.testing.assert_allclose(scaled.bse.iloc[1:], fit.bse.iloc[1:] * 1e7, rtol=LEARNED)
    assert scaled.noise_var == pytest.approx(1e6 * fit.noise_var, rel=LEARNED)


def test_moments_give_the_same(frame, fit) -> None:
    moments = Moments.from_arrays(frame["y"], frame[list("abcde")])
    res = SpikeSlab.from_moments(moments).fit("exact")
    np.testing.assert_allclose(res.inclusion_prob, fit.inclusion_prob, rtol=LEARNED)
    np.testing.assert_allclose(res.bse, fit.bse, rtol=LEARNED)


def test_groups_weights_and_unpenalized(frame) -> None:
    weights = np.linspace(0.5, 2.0, len(frame))
    res = SpikeSlab.from_formula("y ~ a + c + C(g)", frame, weights=weights, unpenalized=["c"]).fit("exact")
    assert res.inclusion_prob["c"] == 1
    both = [name for name in res.inclusion_prob.index if name.startswith("C(g)")]
    assert res.inclusion_prob[both[0]] == res.inclusion_prob[both[1]]
    assert len(res.models(4)) == 4
    doubled = SpikeSlab.from_formula("y ~ a + c + C(g)", frame, weights=2 * weights, unpenalized=["c"]).fit("exact")
    np.testing.assert_allclose(doubled.inclusion_prob, res.inclusion_prob, rtol=LEARNED)


def test_columns_that_are_always_or_never_in(frame) -> None:
    prior = pd.Series({"a": 1.0, "b": 0.0, "c": 0.5, "d": 0.5, "e": 0.5})
    res = SpikeSlab(frame["y"], frame[list("abcde")], prior_inclusion=prior).fit("exact")
    assert res.inclusion_prob["a"] == 1
    assert res.inclusion_prob["b"] == 0
    assert res.params["b"] == 0
    assert (res.conf_int().loc["b"] == 0).all()


def test_expected_size_moves_the_probabilities(frame, fit) -> None:
    more = SpikeSlab(frame["y"], frame[list("abcde")], expected_size=4).fit("exact")
    assert more.expected_size > fit.expected_size
    with pytest.raises(ValueError, match="expected_size"):
        SpikeSlab(frame["y"], frame[list("abcde")], expected_size=2, prior_inclusion=0.5)


@pytest.mark.parametrize(("method", "hyper"), [("ep", None), ("ep", "maximize"), ("damped", None), ("pcep", None)])
def test_expected_size_moves_what_expectation_propagation_learns(frame, method, hyper) -> None:
    one, more = (
        SpikeSlab(frame["y"], frame[list("abcde")], expected_size=size).fit(method, hyper=hyper).expected_size
        for size in (1, 4)
    )
    assert more > one


@pytest.mark.parametrize("slab_var", [0.01, 1e6])
@pytest.mark.parametrize("noise_var", [None, 1.0])
@pytest.mark.parametrize("prior_inclusion", [None, 0.5])
def test_methods_agree_whatever_is_given(monkeypatch, slab_var, noise_var, prior_inclusion) -> None:
    """Independent columns, for which EP is nearly right; slabs narrower and wider than the effects are."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((200, 6))
    y = 0.3 * x[:, 0] + rng.standard_normal(200)
    model = SpikeSlab(y, x, slab_var=slab_var, noise_var=noise_var, prior_inclusion=prior_inclusion)
    summed = model.fit("exact")
    assert summed.converged
    assert summed.noise_var == pytest.approx(1.0, rel=NOISE)
    for method in ("ep", "damped"):
        found = model.fit(method, hyper="average" if method == "ep" else None)
        tolerance = NEAR_EP if method == "ep" else NEAR_MODE
        np.testing.assert_allclose(found.inclusion_prob, summed.inclusion_prob, rtol=0, atol=tolerance)
    monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)
    drawn = model.fit("exact", rng=3)
    assert (
        (drawn.inclusion_prob - summed.inclusion_prob).abs() <= ERRORS * np.maximum(drawn.inclusion_se, MCSE / 10)
    ).all()


def test_expected_size_of_a_single_column(frame) -> None:
    """Odds of the column are prior odds times the Bayes factor: under p = 1/2 and 4/5 in the middle."""
    model = {
        size: SpikeSlab(frame["y"], frame[["c"]], slab_var=0.3, noise_var=1.3, expected_size=size)
        for size in (1, 0.8)
    }
    half, more = (model[size].fit("exact") for size in (1, 0.8))
    assert half.inclusion_prob["c"] < more.inclusion_prob["c"]
    with pytest.raises(ValueError, match="single column"):
        SpikeSlab(frame["y"], frame[["c"]], expected_size=1.5).fit("exact")


def test_twins_make_a_credible_set(frame) -> None:
    x = pd.DataFrame({"a": frame["a"], "twin": frame["a"] + 1e-3 * frame["d"], "e": frame["e"]})
    res = SpikeSlab(2 * frame["a"] + 0.5 * frame["b"], x).fit("exact")
    found = res.credible_sets()
    assert set(found["column"]) == {"a", "twin"}
    assert (found["set"] == 1).all()
    assert (found["probability"] >= 0.95).all()
    assert (found["purity"] > 0.99).all()
    pair = res.pair_inclusion(["a", "twin"])
    assert pair.loc["a", "twin"] < pair.loc["a", "a"]


def test_selection_by_false_discovery_rate(fit) -> None:
    prob = fit.inclusion_prob[list("abcde")].sort_values(ascending=False)
    for fdr in (0.01, 0.2, 0.6):
        share = (1 - prob).cumsum() / np.arange(1, 6)
        chosen = fit.select(fdr)
        assert list(chosen.index) == list(prob.index[share <= fdr])
        np.testing.assert_allclose(chosen["false_share"], share[share <= fdr], rtol=EQUAL)
    assert list(fit.select(0.999).columns) == ["inclusion_prob", "false_share"]


def test_hyperparameters_have_intervals(fit) -> None:
    found = fit.hyperparameters()
    assert list(found.index) == ["noise_var", "slab_var", "prior_inclusion", "prior_share", "size"]
    assert (found["lower"] <= found["mean"]).all()
    assert (found["mean"] <= found["upper"]).all()
    assert found.loc["size", "mean"] == pytest.approx(fit.inclusion_prob[list("abcde")].sum(), rel=EQUAL)


def test_hyperparameters_are_those_of_draws(frame, fit) -> None:
    """Whose intervals hold the probability that they state, and whose means are the attributes."""
    n = 40_000
    given = SpikeSlab(frame["y"], frame[list("abcde")], noise_var=1.2).fit("exact")
    for res in (fit, given):
        posterior = res.posterior
        exact, design = posterior.exact, posterior.design
        drawn = draw(exact.states, design.p, n, np.random.default_rng(5))
        unit = design.y_norm[0] ** 2
        values = {
            "noise_var": drawn.noise_var * unit,
            "slab_var": drawn.slab_var * unit / design.common_scale**2,
            "prior_inclusion": drawn.prior_inclusion,
            "size": (drawn.coef != 0).sum(axis=1),
        }
        found = res.hyperparameters(0.2)
        for name, own in values.items():
            lower, upper = found.loc[name, ["lower", "upper"]] * [1 - EQUAL, 1 + EQUAL]
            at_most, below = (own <= upper).mean(), (own < lower).mean()
            error = ERRORS * np.sqrt(0.09 / n)
            assert at_most >= 0.9 - error, name
            assert below <= 0.1 + error, name
            assert found.loc[name, "mean"] == pytest.approx(own.mean(), abs=ERRORS * own.std() / np.sqrt(n) + 1e-12)
        assert found.loc["noise_var", "mean"] == pytest.approx(res.noise_var, rel=EQUAL)
        assert found.loc["slab_var", "mean"] == pytest.approx(res.slab_var, rel=EQUAL)
        assert found.loc["prior_inclusion", "mean"] == pytest.approx(res.prior_inclusion, rel=EQUAL)


def test_evidence_is_compared_with_its_error(frame, fit) -> None:
    one = SpikeSlab(frame["y"], frame[["a"]]).fit("exact")
    table = compare_evidence({"one": one, "five": fit})
    assert (table["log_evidence_se"] == 0).all()
    assert table["probability"].sum() == pytest.approx(1.0, rel=EQUAL)
    assert table.loc["five", "log_evidence"] == fit.log_evidence
    assert "log_evidence_se" not in compare_evidence({"one": SpikeSlab(frame["y"], frame[["a"]]).fit("ep")})


def test_draws_have_zeros(fit) -> None:
    draws = fit.sample(4000, rng=1)
    share = (draws[list("abcde")] != 0).mean()
    error = np.sqrt(share * (1 - share) / 4000) + 1e-3
    assert ((share - fit.inclusion_prob[list("abcde")]).abs() <= ERRORS * error).all()
    with pytest.raises(ValueError, match="kind is for"):
        fit.sample(3, kind="gibbs")


def test_saved_without_rows(tmp_path, frame) -> None:
    res = SpikeSlab(frame["y"], frame[list("abcde")]).fit("exact")
    path = tmp_path / "fit.pickle"
    res.save(path, remove_data=True)
    back = load(path)
    pd.testing.assert_series_equal(back.inclusion_prob, res.inclusion_prob)
    pd.testing.assert_frame_equal(back.conf_int(), res.conf_int())
    pd.testing.assert_frame_equal(back.credible_sets(), res.credible_sets())
    new = frame[list("abcde")].head(3)
    pd.testing.assert_series_equal(back.predict(new), res.predict(new))


def test_probabilities_of_all_sets_of_more_columns_than_rows_are_not_saved(tmp_path, frame) -> None:
    few = frame.iloc[:5]
    res = SpikeSlab(few["y"], few[list("abcde")]).fit("exact")
    with pytest.raises(ValueError, match="the probabilities of all sets of 5 columns with 4 degrees of freedom"):
        res.save(tmp_path / "fit.pickle", remove_data=True, row_space=False)
    assert not (tmp_path / "fit.pickle").exists()
    with pytest.raises(ValueError, match="treat the file like the data"):
        res.remove_data(row_space=False)
    assert len(res.fittedvalues) == 5
    res = SpikeSlab(few["y"], few[list("abcde")], group=[0, 0, 1, 1, 2]).fit("exact")
    res.remove_data(row_space=False)
    assert res.credible_sets(coverage=0.95).shape[1] == 5


def test_the_row_space_can_be_left_out_later_and_of_moments(frame) -> None:
    res = SpikeSlab(frame["y"], frame[list("abcde")]).fit("exact")
    ours = res.conf_int()
    of_moments = SpikeSlab.from_moments(Moments.from_arrays(frame["y"], frame[list("abcde")])).fit("exact")
    for each in (res, of_moments):
        each.remove_data()
        each.remove_data(row_space=False)
        assert not each.has_joint_posterior
        np.testing.assert_allclose(each.conf_int(), ours, rtol=0, atol=TABLE * float(res.bse.max()))
    again = SpikeSlab(frame["y"], frame[list("abcde")]).fit("ep", start=res)
    assert again.converged


def test_summary_says_what_was_done(fit, frame) -> None:
    text = str(fit.summary())
    assert "Largest s.e.:" in text
    assert "(mean):" in text
    assert "integrated out" in text
    short = SpikeSlab(frame["y"], pd.DataFrame(np.random.default_rng(1).standard_normal((60, 30))))
    with pytest.warns(ConvergenceWarning, match="Monte Carlo standard error.*mcse=0.0001"):
        res = short.fit("exact", mcse=1e-4, maxiter=20_000)
    assert not res.converged
    assert "NOT CONVERGED" in str(res.summary())


def test_a_constant_response(frame) -> None:
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly"):
        res = SpikeSlab(np.full(60, 3.0), frame[list("abcde")]).fit("exact")
    assert (res.params[list("abcde")] == 0).all()


def test_no_column_to_select(frame) -> None:
    res = SpikeSlab(frame["y"], frame[["a"]], unpenalized=["a"], noise_var=1.0).fit("exact")
    least = np.polyfit(frame["a"], frame["y"], 1)
    assert res.params["a"] == pytest.approx(least[0], rel=EQUAL)
    assert (res.bse > 0).all()
    assert "a" in str(res.summary())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mcse": 0}, "mcse"),
        ({"chains": 0}, "chains"),
        ({"rng": -1}, "rng must be a seed"),
        ({"rng": "x"}, "rng must be a seed"),
        ({"tol": 1e-3}, "tol is an option of"),
        ({"damping": 0.2}, "damping is an option of"),
        ({"hyper": "average"}, "hyper is an option of"),
        ({"maxiter": 2.5}, "maxiter"),
    ],
)
def test_options_that_make_no_sense(frame, options, match) -> None:
    with pytest.raises(ValueError, match=match):
        SpikeSlab(frame["y"], frame[["a", "b"]]).fit("exact", **options)


def test_questions_that_expectation_propagation_cannot_answer(frame, fit) -> None:
    ep = SpikeSlab(frame["y"], frame[list("abcde")]).fit("ep")
    for ask in (ep.credible_sets, ep.models, ep.hyperparameters, lambda: ep.pair_inclusion(["a", "b"])):
        with pytest.raises(ValueError, match=r"use fit\('exact'\)"):
            ask()
    assert ep.inclusion_se[list("abcde")].isna().all()
    # Both have the hyperparameters integrated out under one prior.
    table = compare_evidence({"ep": ep, "exact": fit})
    assert abs(table["difference"].min()) < NEAR_EVIDENCE
    assert table["log_evidence_se"].isna().to_dict() == {"exact": False, "ep": True}
    estimated = SpikeSlab(frame["y"], frame[list("abcde")]).fit("ep", hyper="maximize")
    with pytest.raises(ValueError, match="cannot be compared"):
        compare_evidence({"ep": estimated, "exact": fit})
    with pytest.raises(ValueError, match="'A' is not a column"):
        fit.pair_inclusion(["A"])
    with pytest.raises(ValueError, match="start is for"):
        SpikeSlab(frame["y"], frame[list("abcde")]).fit("exact", start=ep)
    started = SpikeSlab(frame["y"], frame[list("abcde")]).fit("ep", start=fit)
    assert started.converged
