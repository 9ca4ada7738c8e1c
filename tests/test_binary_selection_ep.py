"""SpikeSlab with family="binomial" by expectation propagation, from data to results."""

import io

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pybayesridge import (
    BayesRidge,
    ConvergenceWarning,
    SpikeSlab,
    compare_evidence,
    compare_loo,
    load,
)
from tests.binomial.selection_oracle import brute_force
from tests.test_privacy import arrays

SAME = 1e-9  # relative; what is computed twice by other formulas, worst seen 1e-14
DRAWN = 0.06  # of a posterior sd and of probabilities: 20,000 independent draws, worst seen .02
APPROXIMATE = 0.06  # EP's own error of a probability, worst seen .01
SAMPLED = 0.15  # of a probability: the errors of a short run of the sampler and of EP; worst seen .04
ROUNDED = 1e-6  # relative; sites to 1e-4 in other units
SETTLED = 1e-4  # relative; two runs that stop when their sites hardly change, worst seen 1.1e-5


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.standard_normal((n, 6)), columns=["a", "b", "c", "d", "e", "age"])
    data["a"], data["age"] = 3 + 2 * data["a"], 40 + 10 * data["age"]
    data["kind"] = rng.choice(["x", "y", "z"], n)
    data["ill"] = np.where(rng.random(n) < expit(0.6 * (data["a"] - 3) - data["b"] - 0.5), "yes", "no")
    return data


FORMULA = "ill ~ a + b + c + d + e + age + C(kind)"


@pytest.fixture(scope="module")
def model():
    return SpikeSlab.from_formula(FORMULA, table(), family="binomial", unpenalized=["age"])


@pytest.fixture(scope="module")
def fit(model):
    return model.fit("ep")


def test_probabilities_are_near_those_of_the_sampler(model, fit):
    sampled = model.fit("exact", mcse=0.05, chains=2)
    assert fit.converged
    assert np.abs(fit.inclusion_prob - sampled.inclusion_prob).max() < SAMPLED
    assert fit.group_inclusion_prob.index.tolist() == ["a", "b", "c", "d", "e", "C(kind)"]
    assert fit.inclusion_prob["age"] == fit.inclusion_prob["Intercept"] == 1.0
    assert fit.inclusion_prob["C(kind)[T.y]"] == fit.inclusion_prob["C(kind)[T.z]"]
    assert np.isnan(fit.inclusion_se["a"])
    assert np.abs(fit.fittedvalues - sampled.fittedvalues).max() < SAMPLED
    scores = compare_loo({"ep": fit, "exact": sampled})["elpd"]
    assert abs(scores["ep"] - scores["exact"]) < 1.0


def test_draws_and_predictions_agree_with_each_other(fit):
    draws = fit.sample(20_000, rng=1)
    assert (np.abs(draws.mean() - fit.params) / fit.bse).max() < DRAWN
    sd = np.sqrt(np.diag(fit.cov_params()))
    assert np.abs(draws.std() / sd - 1).max() < DRAWN
    np.testing.assert_allclose(sd, fit.bse, rtol=1e-6)
    correlation = fit.cov_params() / np.outer(sd, sd)
    assert np.abs(draws.corr() - correlation).max().max() < DRAWN
    drawn = expit(fit.model.exog @ draws.to_numpy().T)
    frame = fit.get_prediction().summary_frame(0.2)
    assert np.abs(frame["mean"] - drawn.mean(axis=1)).max() < DRAWN
    assert np.abs(frame["mean_se"] - drawn.std(axis=1)).max() < DRAWN
    assert np.abs(frame["mean_ci_lower"] - np.quantile(drawn, 0.1, axis=1)).max() < DRAWN
    np.testing.assert_allclose(frame["mean"], fit.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(fit.predict(which="linear"), fit.model.exog @ fit.params.to_numpy(), rtol=ROUNDED)
    new = table(3, seed=5)
    new.loc[1, "a"] = np.nan
    assert fit.get_prediction(new).summary_frame().isna().all(axis=1).tolist() == [False, True, False]


def test_intervals_and_signs_hold_the_spike(fit):
    ends, ratios = fit.conf_int(0.1), fit.odds_ratios(0.1)
    np.testing.assert_allclose(ratios[["lower", "upper"]], np.exp(ends), rtol=SAME)
    assert (ends.loc["c"] == 0).any()
    signs = fit.contrast("c")
    inside = fit.inclusion_prob["c"]
    assert signs.loc["c", "prob_zero"] == pytest.approx(1 - inside, abs=1e-6)
    assert ratios.loc["c", "prob_above_1"] == pytest.approx(signs.loc["c", "prob_positive"], abs=1e-9)
    assert signs.loc["c", "prob_positive"] <= inside
    assert ratios.loc["c", "prob_equal_1"] == pytest.approx(signs.loc["c", "prob_zero"], abs=1e-6)
    assert "P(>0)" in str(fit.summary(direction=True))


def test_changes_of_probabilities_hold_the_spike(fit):
    """A change within one unit has the sign of its coefficient, or is zero, as the contrast says."""
    effects, names = fit.effects(["a", "b", "c"]), ["a", "b", "c"]
    contrasts = fit.contrast(names)
    for column in ("prob_positive", "prob_zero"):
        assert np.abs(effects[column].to_numpy() - contrasts[column].to_numpy()).max() < DRAWN
    np.testing.assert_array_equal(effects[["lower", "upper"]] == 0, contrasts[["lower", "upper"]] == 0)
    of_group = fit.effects("kind")["prob_zero"]
    assert np.abs(of_group - (1 - fit.group_inclusion_prob["C(kind)"])).max() < DRAWN
    assert of_group.iloc[0] == of_group.iloc[1]  # the columns of a group are out together
    assert fit.effects("age")["prob_zero"].iloc[0] == 0.0
    draws = fit.sample(20_000, rng=1)
    p = expit(fit.model.exog @ draws.to_numpy().T)
    mean = ((p * (1 - p)).mean(axis=0) * draws["a"]).mean()
    assert abs(effects["mean"].iloc[0] - mean) < DRAWN * effects["sd"].iloc[0]


def test_a_change_across_units_has_no_point_mass():
    data = table()
    found = SpikeSlab.from_formula("ill ~ a * b + c", data, family="binomial").fit("ep").effects(["a", "c"])
    assert np.isnan(found["prob_zero"].iloc[0])
    assert 0 < found["prob_zero"].iloc[1] < 1


@pytest.mark.parametrize("known", [{"p": 0.4}, {"v": 0.5}, {"v": 0.005}], ids=["p", "v", "narrow v"])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_trials_and_weights_agree_with_quadrature(link, known):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((25, 2)) * [3.0, 0.1] + [10.0, -1.0]
    trials = rng.integers(1, 5, 25)
    successes = rng.binomial(trials, expit(0.3 * (X[:, 0] - 10)))
    weights = rng.integers(1, 3, 25)
    given = {"family": "binomial", "link": link, "trials": trials}
    own = {"prior_inclusion": known.get("p"), "slab_var": known.get("v")}
    found = SpikeSlab(successes, X, weights=weights, **own, **given).fit("ep")
    count, events = (weights * trials).astype(float), (weights * successes).astype(float)
    center = np.average(X, axis=0, weights=count)
    scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=count))
    oracle = brute_force((X - center) / scale, events, count - events, link=link, **known, points=9, nodes=16)
    assert np.abs(found.inclusion_prob.to_numpy()[1:] - oracle.prob).max() < APPROXIMATE
    sd = np.sqrt(oracle.square - oracle.mean**2)[1:] / scale
    assert (np.abs(found.params.to_numpy()[1:] - oracle.mean[1:] / scale) / sd).max() < 2 * APPROXIMATE
    assert np.abs(found.bse.to_numpy()[1:] / sd - 1).max() < 3 * APPROXIMATE
    intercept = oracle.mean[0] - center @ (oracle.mean[1:] / scale)
    assert abs(found.params["const"] - intercept) < 2 * APPROXIMATE * found.bse["const"]


def test_fractions_of_weights():
    rng = np.random.default_rng(5)
    X, trials = rng.standard_normal((25, 2)), rng.integers(1, 5, 25)
    successes, weights = rng.binomial(trials, expit(X[:, 0])), rng.integers(1, 3, 25)
    given = {"family": "binomial", "trials": trials, "prior_inclusion": 0.4, "slab_var": 1.0}
    whole, half = (SpikeSlab(successes, X, weights=w, **given).fit("ep") for w in (weights, weights / 2))
    assert half.converged
    assert half.bse.iloc[1] > whole.bse.iloc[1]


def test_units_of_columns_do_not_matter():
    data = table(40)
    y, X = data["ill"], data[["a", "b"]]
    one = SpikeSlab(y, X, family="binomial", prior_inclusion=0.3).fit("ep")
    two = SpikeSlab(y, X * 1000, family="binomial", prior_inclusion=0.3).fit("ep")
    np.testing.assert_allclose(two.params[["a", "b"]] * 1000, one.params[["a", "b"]], rtol=ROUNDED)
    assert two.log_evidence == pytest.approx(one.log_evidence, rel=ROUNDED)


def test_evidence_is_that_of_the_ridge_where_all_columns_are_nearly_certain():
    data = table(40)
    y, X = data["ill"], data[["a", "b"]]
    v = 0.5
    ridge = BayesRidge(y, X, family="binomial").fit("fixed", lam=1 / v)
    sure = SpikeSlab(y, X, family="binomial", prior_inclusion=1 - 1e-12, slab_var=v).fit("ep", tol=1e-7)
    np.testing.assert_allclose(sure.params, ridge.params, rtol=SETTLED)
    np.testing.assert_allclose(sure.bse, ridge.bse, rtol=SETTLED)
    assert sure.log_evidence == pytest.approx(float(ridge.log_marginal), abs=1e-7)


def test_evidence_compares_columns(fit):
    data = table()
    other = SpikeSlab.from_formula("ill ~ c + d + age", data, family="binomial", unpenalized=["age"])
    found = compare_evidence({"all": fit, "other": other.fit("ep")})
    assert found.index[0] == "all"
    probit = SpikeSlab.from_formula(FORMULA, data, family="binomial", link="probit", unpenalized=["age"])
    with pytest.raises(ValueError, match="differ in family or link"):
        compare_evidence({"logit": fit, "probit": probit.fit("ep")})
    with pytest.raises(ValueError, match="use method='ep'"):
        compare_evidence({"logit": fit, "exact": other.fit(mcse=0.5, chains=1)})


def test_saved_with_and_without_rows(fit):
    new = table(5, seed=3)
    for removed in (False, True):
        file = io.BytesIO()
        fit.save(file, remove_data=removed)
        file.seek(0)
        again = load(file)
        np.testing.assert_allclose(again.predict(new), fit.predict(new), rtol=SAME)
        np.testing.assert_allclose(again.cov_params(), fit.cov_params(), rtol=1e-6)
        np.testing.assert_allclose(again.conf_int(), fit.conf_int(), rtol=1e-6)
        assert str(again.summary()) == str(fit.summary())
        draws = again.sample(5, rng=0)
        np.testing.assert_allclose(draws, fit.sample(5, rng=0), rtol=1e-6)
    assert again.model.data.exog is None
    assert all(len(fit.fittedvalues) not in array.shape for array in arrays(again))


def test_outputs_say_what_they_are(fit, tmp_path):
    text = str(fit.summary())
    for word in ("binomial", "Method:", "ep", "PIP", "Residual:", "integrated out"):
        assert word in text
    assert "noise" not in text
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib").use("Agg")
    fit.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "expectation propagation" in page
    assert "Pólya" not in page
    for draw in (fit.plot_inclusion, fit.plot_coefficients, fit.plot_n_included, fit.plot_trace, fit.plot_roc):
        assert draw().get_title()


def test_what_there_is_not_says_so(fit, model):
    with pytest.raises(ValueError, match=r"use fit\('exact'\)"):
        fit.hyperparameters()
    with pytest.raises(ValueError, match=r"use fit\('exact'\)"):
        fit.pair_inclusion(["a", "b"])
    with pytest.raises(ValueError, match="is for family='gaussian'"):
        fit.sample(3, kind="gibbs")
    with pytest.raises(ValueError, match="row_space=False"):
        fit.save(io.BytesIO(), remove_data=True, row_space=False)
    for option in ({"mcse": 0.1}, {"chains": 2}, {"rng": 3}):
        with pytest.raises(ValueError, match=next(iter(option))):
            model.fit("ep", **option)
    with pytest.raises(ValueError, match="tol"):
        model.fit("exact", tol=1e-3)


def test_what_has_not_converged_says_so(model):
    with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED .*use method='exact'"):
        res = SpikeSlab.from_formula(FORMULA, table(), family="binomial", prior_inclusion=0.2, slab_var=1.0).fit(
            "ep", maxiter=2
        )
    assert not res.converged
    assert "NOT CONVERGED" in str(res.summary())


def test_columns_that_can_replace_each_other_are_named():
    rng = np.random.default_rng(2)
    n = 300
    X = pd.DataFrame(rng.standard_normal((n, 4)), columns=["one", "two", "three", "four"])
    X["two"] = X["one"] + 0.05 * X["two"]
    y = rng.random(n) < expit(1.5 * X["one"])
    res = SpikeSlab(y, X, family="binomial", prior_inclusion=0.1, slab_var=1.0).fit("ep")
    said = next(text for text in res.notes if "can replace each other" in text)
    assert "'one' and 'two'" in said
    assert "check=True" not in said
