"""SpikeSlab with family="binomial", from data to results."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit

from pybayesridge import BayesRidge, ConvergenceWarning, Moments, SpikeSlab, compare_evidence, load
from tests.binomial.selection_oracle import brute_force
from tests.effort import number
from tests.test_privacy import arrays

WITHIN = 4.5
SAME = 1e-9  # relative; what is computed twice by other formulas, worst seen 1e-14
DRAWN = 0.05  # of a posterior sd and of probabilities: 4,000 draws of some hundred dependent states
LOOSE, QUICK = {"mcse": 0.2, "chains": 2}, {"mcse": 0.5, "chains": 1}


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.standard_normal((n, 4)), columns=["a", "b", "c", "age"])
    data["a"], data["age"] = 3 + 2 * data["a"], 40 + 10 * data["age"]
    data["kind"] = rng.choice(["x", "y", "z"], n)
    data["ill"] = np.where(rng.random(n) < expit(0.8 * (data["a"] - 3) - 0.5), "yes", "no")
    return data


@pytest.fixture(scope="module")
def fit():
    model = SpikeSlab.from_formula("ill ~ a + b + c + age + C(kind)", table(), family="binomial", unpenalized=["age"])
    return model.fit(**LOOSE)


def test_results_are_labelled_and_consistent(fit):
    names = fit.model.exog_names
    assert fit.converged
    assert list(fit.params.index) == list(fit.inclusion_prob.index) == names
    assert fit.inclusion_prob["Intercept"] == fit.inclusion_prob["age"] == 1.0
    assert fit.inclusion_prob["a"] > 0.8
    assert fit.inclusion_se["a"] > 0.0
    assert fit.inclusion_se["age"] == 0.0
    assert fit.inclusion_prob["C(kind)[T.y]"] == fit.inclusion_prob["C(kind)[T.z]"]
    assert fit.group_inclusion_prob.index.tolist() == ["a", "b", "c", "C(kind)"]
    assert (fit.event, fit.link, fit.n_trials) == ("yes", "logit", 60.0)
    assert fit.n_events == (table()["ill"] == "yes").sum()
    np.testing.assert_allclose(np.diag(fit.cov_params()), fit.bse**2, rtol=SAME)
    assert (np.linalg.eigvalsh(fit.cov_params()) > -SAME * np.trace(fit.cov_params())).all()
    assert np.isclose(fit.models(100)["probability"].sum(), 1.0, rtol=0.2)
    assert fit.learned == ("prior_inclusion", "slab_var")
    both = fit.pair_inclusion(["a", "b"])
    assert abs(both.loc["a", "a"] - fit.inclusion_prob["a"]) < 0.1
    assert fit.select(0.3).index[0] == "a"
    assert fit.median_model()[0] == "a"
    assert abs(fit.size_distribution().sum() - 1.0) < SAME


def test_odds_ratios_are_those_of_the_coefficients(fit):
    ratios = fit.odds_ratios(0.1)
    np.testing.assert_allclose(ratios["odds_ratio"], np.exp(fit.params), rtol=SAME)
    np.testing.assert_allclose(ratios[["lower", "upper"]], np.exp(fit.conf_int(0.1)), rtol=SAME)
    above = (fit.sample(4000, rng=0) > 0).mean()
    assert np.abs(ratios["prob_above_1"] - above).max() < 2 * DRAWN


def test_signs_are_those_of_draws(fit):
    draws = fit.sample(4000, rng=4)
    assert np.abs(fit.prob_positive - (draws > 0).mean()).max() < 2 * DRAWN
    assert "P(>0)" in str(fit.summary(direction=True))
    both = fit.joint_contrast(["b", "c"])
    assert abs(both["prob_zero"] - (draws[["b", "c"]] == 0).all(axis=1).mean()) < 2 * DRAWN


def test_draws_have_the_moments_and_the_zeros(fit):
    draws = fit.sample(4000, rng=1)
    zero = (draws == 0).mean()
    assert np.abs(1 - zero - fit.inclusion_prob).max() < 4 * DRAWN
    assert (np.abs(draws.mean() - fit.params) / fit.bse).max() < 6 * DRAWN
    assert np.abs(draws.std() / fit.bse - 1).max() < 8 * DRAWN
    assert ((draws["C(kind)[T.y]"] == 0) == (draws["C(kind)[T.z]"] == 0)).all()


def test_predictions_are_averages_of_probabilities(fit):
    data = table()
    new = data.iloc[:3].assign(a=[3.0, np.nan, 6.0])
    frame = fit.get_prediction(new).summary_frame(0.2)
    assert np.isnan(frame.iloc[1]).all()
    some = frame.iloc[[0, 2]]
    assert ((some["mean_ci_lower"] < some["mean"]) & (some["mean"] < some["mean_ci_upper"])).all()
    np.testing.assert_allclose(frame["mean"], fit.predict(new), rtol=SAME)
    linear = fit.predict(which="linear")
    np.testing.assert_allclose(linear, fit.model.exog @ fit.params.to_numpy(), rtol=1e-6)
    drawn = expit(fit.model.exog @ fit.sample(4000, rng=2).to_numpy().T)
    own = fit.get_prediction().summary_frame()
    np.testing.assert_allclose(own["mean"], fit.fittedvalues, rtol=SAME)
    assert np.abs(own["mean"] - drawn.mean(axis=1)).max() < DRAWN
    assert np.abs(own["mean_se"] - drawn.std(axis=1)).max() < DRAWN
    assert np.abs(own["mean_ci_lower"] - np.quantile(drawn, 0.025, axis=1)).max() < DRAWN
    on_link = fit.get_prediction(which="linear").summary_frame()
    np.testing.assert_allclose(on_link["mean"], linear, rtol=0, atol=6 * DRAWN * on_link["mean_se"].max())
    assert fit.resid.abs().max() < 1


def test_effects_and_predictions_are_those_of_probabilities(fit):
    data = table()
    found = fit.effects(["a", "kind"]).droplevel("change")
    draws = fit.sample(4000, rng=3).to_numpy().T
    p = expit(fit.model.exog @ draws)
    slopes = (p * (1 - p)).mean(axis=0) * draws[fit.model.exog_names.index("a")]
    assert abs(found.loc["a", "mean"] - slopes.mean()) < DRAWN * slopes.std()
    assert abs(found.loc["a", "prob_zero"] + fit.inclusion_prob["a"] - 1) < 4 * DRAWN
    assert (abs(found.loc["kind", "prob_zero"] + fit.inclusion_prob["C(kind)[T.y]"] - 1) < 4 * DRAWN).all()
    at = fit.predictions({"a": [1.0, 5.0]}, at="observed")
    assert ((at["lower"] > 0) & (at["upper"] < 1)).all()
    rows = np.column_stack([np.ones(len(data)), fit.model.new_rows(data.assign(a=5.0), True)[0]])
    high = expit(rows @ draws).mean(axis=0)
    assert abs(at.loc[5.0, "mean"] - high.mean()) < 2 * DRAWN * high.std()
    linear = fit.effects("a", which="linear").iloc[0]
    assert abs(linear["mean"] - fit.params["a"]) < 6 * DRAWN * fit.bse["a"]


def test_summary_and_other_outputs_say_what_they_are(fit):
    text = str(fit.summary())
    for word in ("binomial", "Event:", "yes", "logit", "slab_var (mean)", "PIP"):
        assert word in text
    assert "noise" not in text
    rows = ["prior_inclusion", "slab_var", "prior_share", "size", "groups_included"]
    assert fit.hyperparameters().index.tolist() == rows
    assert "family='binomial'" in fit.recipe.code
    assert list(fit.tidy()["term"]) == fit.model.exog_names
    assert fit.contrast("a - b").loc["a - b", "sd"] > 0
    assert fit.notes[0].startswith("Hyperparameters that are not given are integrated out")


def test_pictures_of_sets_and_coefficients(fit):
    pytest.importorskip("matplotlib").use("Agg")
    for draw in (fit.plot_inclusion, fit.plot_coefficients, fit.plot_n_included):
        assert draw().get_title()


def test_what_there_is_not_says_so(fit):
    for name in ("sigma2", "noise_var", "log_evidence", "log_evidence_se"):
        with pytest.raises(AttributeError, match="binomial"):
            getattr(fit, name)
    with pytest.raises(ValueError, match="have no evidence"):
        compare_evidence({"one": fit, "two": fit})
    with pytest.raises(ValueError, match="is for family='gaussian'"):
        fit.plot_fit()
    with pytest.raises(ValueError, match="draws of an exact fit"):
        fit.sample(3, kind="gibbs")
    with pytest.raises(ValueError, match="row_space=False"):
        fit.save("fit.pkl", remove_data=True, row_space=False)
    data = table()
    gaussian = SpikeSlab(data["b"], data[["a", "c"]])
    with pytest.raises(ValueError, match="start must be results of a SpikeSlab with family='gaussian'"):
        gaussian.fit("ep", start=fit)


def test_saved_without_rows(fit, tmp_path):
    fit.save(tmp_path / "fit.pkl", remove_data=True)
    again = load(tmp_path / "fit.pkl")
    new = table(5, seed=3)
    np.testing.assert_allclose(again.predict(new), fit.predict(new), rtol=SAME)
    np.testing.assert_allclose(again.cov_params(), fit.cov_params(), rtol=1e-6)
    pd.testing.assert_frame_equal(again.credible_sets(), fit.credible_sets())
    assert str(again.summary()) == str(fit.summary())
    assert np.array_equal(again.sample(5, rng=0), fit.sample(5, rng=0))
    with pytest.raises(ValueError, match="removed"):
        _ = again.fittedvalues
    assert again.model.data.exog is None
    assert all(len(fit.fittedvalues) not in array.shape for array in arrays(again))


@pytest.mark.parametrize(("link", "v"), [("logit", 0.5), ("probit", 0.5), ("logit", 0.005)])
def test_arrays_with_trials_and_weights_agree_with_quadrature(link, v):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((25, 2)) * [3.0, 0.1] + [10.0, -1.0]
    trials = rng.integers(1, 5, 25)
    successes = rng.binomial(trials, expit(0.3 * (X[:, 0] - 10)))
    weights = rng.integers(1, 3, 25)
    model = SpikeSlab(successes, X, family="binomial", link=link, trials=trials, weights=weights, slab_var=v)
    found = model.fit(mcse=number(0.01, 0.03), chains=2)
    count = (weights * trials).astype(float)
    center = np.average(X, axis=0, weights=count)
    scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=count))
    events = (weights * successes).astype(float)
    oracle = brute_force((X - center) / scale, events, count - events, link=link, v=v, points=15)
    inside, se = found.inclusion_prob.to_numpy()[1:], found.inclusion_se.to_numpy()[1:]
    assert np.abs((inside - oracle.prob) / se).max() < WITHIN
    sd = np.sqrt(oracle.square - oracle.mean**2)[1:] / scale
    assert (np.abs(found.params.to_numpy()[1:] - oracle.mean[1:] / scale) / sd).max() < 4 * DRAWN
    assert np.abs(found.bse.to_numpy()[1:] / sd - 1).max() < 4 * DRAWN
    intercept = oracle.mean[0] - center @ (oracle.mean[1:] / scale)
    assert abs(found.params["const"] - intercept) < 4 * DRAWN * found.bse["const"]


def test_units_of_columns_and_their_order_of_magnitude():
    data = table(40)
    y, X = data["ill"], data[["a", "b"]]
    one = SpikeSlab(y, X, family="binomial", prior_inclusion=0.5).fit(**QUICK)
    two = SpikeSlab(y, X * 1024, family="binomial", prior_inclusion=0.5).fit(**QUICK)
    np.testing.assert_allclose(two.params[["a", "b"]] * 1024, one.params[["a", "b"]], rtol=1e-6)
    scaled = X / X.std(ddof=0)
    three = SpikeSlab(y, scaled, family="binomial", standardize=False, prior_inclusion=0.5).fit(**QUICK)
    np.testing.assert_allclose(three.inclusion_prob, one.inclusion_prob, rtol=0, atol=0.2)
    assert 0.3 < three.slab_var / one.slab_var < 3.0


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.ConvergenceWarning")
def test_perfect_prediction_has_a_defined_answer():
    x = np.linspace(-1, 1, 20)
    X = np.column_stack([x, np.random.default_rng(1).standard_normal((20, 3))])
    res = SpikeSlab(x > 0, X, family="binomial").fit(**QUICK, maxiter=500_000)
    assert res.inclusion_prob["x1"] > 0.95
    assert np.isfinite(res.params).all()
    assert res.fittedvalues[x > 0.3].min() > 0.8


def test_rare_events_and_unfinished_sampling_are_said():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((300, 2)), np.zeros(300)
    y[:4] = 1.0
    with pytest.warns(ConvergenceWarning, match=r"standard error .* for mcse=0\.0001"):
        res = SpikeSlab(y, X, family="binomial").fit(mcse=1e-4, maxiter=4000, chains=2)
    assert not res.converged
    assert "only 4 events among 300 trials" in " ".join(res.notes)


X5 = np.arange(10.0).reshape(5, 2) ** 1.5
Y5 = [0, 1, 0, 1, 1]

REFUSED = {
    "damped": (
        lambda: SpikeSlab(Y5, X5, family="binomial").fit("damped"),
        "requires family='gaussian': use method='exact' or 'ep'",
    ),
    "pcep": (lambda: SpikeSlab(Y5, X5, family="binomial").fit("pcep"), "requires family='gaussian'"),
    "unknown": (lambda: SpikeSlab(Y5, X5, family="binomial").fit("exat"), "exact"),
    "noise": (
        lambda: SpikeSlab(Y5, X5, family="binomial", noise_var=1.0),
        "binomial responses have no noise variance",
    ),
    "link": (lambda: SpikeSlab(Y5, X5, family="binomial", link="cloglog"), "link must be 'logit' or 'probit'"),
    "gaussian link": (lambda: SpikeSlab(Y5, X5, link="logit"), "link requires family='binomial'"),
    "gaussian trials": (lambda: SpikeSlab(Y5, X5, trials=[2] * 5), "trials requires family='binomial'"),
    "family": (
        lambda: SpikeSlab(Y5, X5, family="beta-binomial"),
        "does not have family='beta-binomial', but 'gaussian', 'binomial', 'poisson' or 'negative-binomial'",
    ),
    "sparse": (lambda: SpikeSlab(Y5, csr_matrix(X5), family="binomial"), "dense columns"),
    "moments": (
        lambda: SpikeSlab.from_moments(Moments.from_arrays(Y5, X5), family="binomial"),
        "from_moments is for family='gaussian'",
    ),
    "levels": (lambda: SpikeSlab(list("abcab"), X5, family="binomial"), "levels"),
    "one outcome": (lambda: SpikeSlab([1] * 5, X5, family="binomial"), "1"),
    "nothing to select": (
        lambda: SpikeSlab(Y5, X5, family="binomial", prior_inclusion=1.0).fit(),
        "no column can be both in and out",
    ),
    "no column": (
        lambda: SpikeSlab(Y5, np.ones((5, 1)), family="binomial", intercept="add").fit(),
        "no column can be both in and out",
    ),
    "shares": (
        lambda: SpikeSlab(Y5, X5, family="binomial", link="probit", weights=[1.5] * 5).fit(),
        "weights must be whole numbers",
    ),
    "separation": (
        lambda: SpikeSlab(
            [0, 0, 0, 1, 1], pd.DataFrame(X5, columns=["a", "b"]), family="binomial", unpenalized=["b"]
        ).fit(),
        "'b' separate the responses",
    ),
    "text without family": (
        lambda: SpikeSlab.from_formula("ill ~ a", table()),
        "must be numeric; for two values use family='binomial'",
    ),
    "chains": (lambda: SpikeSlab(Y5, X5, family="binomial").fit(chains=0), "chains"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_do_is_refused(case):
    make, words = REFUSED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            make()


def test_ridge_and_selection_name_the_same_event():
    data = table()
    ridge = BayesRidge.from_formula("ill ~ a", data, family="binomial", event="no")
    selection = SpikeSlab.from_formula("ill ~ a", data, family="binomial", event="no")
    assert selection.event == ridge.event == "no"
    assert np.array_equal(selection.endog, ridge.endog)


def test_variances_of_coefficients_include_that_of_the_intercept(fit):
    joint, states = fit.posterior.joint, fit.posterior.exact.states
    k = fit.posterior.design.block.k
    for whole, own in zip(joint.root, states.root, strict=True):
        np.testing.assert_allclose((own**2).sum(axis=1), (whole[k:] ** 2).sum(axis=1), rtol=1e-10)
