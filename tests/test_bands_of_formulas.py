"""Ridges with the bands that formulas make: mixed models, smooth curves, predictions for known and new groups."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pybayesridge import BayesRidge, SpikeSlab, load
from pybayesridge.formula.smooths import knots_of, penalized

SAME = 1e-9
"""Relative difference of fits to the same columns."""

LIKELIHOOD = 2e-4
"""Relative difference of standard deviations from those of an optimiser that stops early."""

QUADRATURE = 1e-3
"""Posterior standard deviations: what fits ask of the integral over the shares of bands."""

MONTE_CARLO = 4.0
"""Standard errors."""


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(1)
    subject, days = np.repeat(np.arange(18), 8), np.tile(np.arange(8.0), 18)
    slope, height = 6 * rng.normal(size=18), 25 * rng.normal(size=18)
    y = 250 + (10 + slope[subject]) * days + height[subject] + 20 * rng.normal(size=subject.size)
    frame = pd.DataFrame({"y": y, "days": days, "subject": subject, "z": rng.normal(size=y.size)})
    return frame.assign(lab=rng.choice(list("abcd"), 18)[subject]).set_axis(range(1000, 1000 + y.size))


@pytest.fixture(scope="module")
def slopes(study):
    return BayesRidge.from_formula("y ~ days + (days || subject)", study, unpenalized="fixed").fit()


def test_equals_the_model_of_arrays(study):
    model = BayesRidge.from_formula("y ~ days + z + (1 | subject)", study, unpenalized="days")
    dummies = pd.get_dummies(study["subject"]).to_numpy(float)
    columns = np.column_stack([study[["days", "z"]], dummies])
    alone = BayesRidge(study["y"], columns, bands={"subject": range(2, 20)}, unpenalized=[0])
    scale = dummies.std(axis=0)
    assert np.ptp(scale) < SAME  # the design is balanced, so that standardising changes nothing but the unit
    res, other = model.fit(), alone.fit()
    np.testing.assert_allclose(res.fittedvalues, other.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(
        res.variance_components().loc["subject", ["mean", "lower"]] * scale[0],
        other.variance_components().loc["subject", ["mean", "lower"]].to_numpy(),
        rtol=1e-6,
    )
    assert list(res.variance_components().index) == ["subject", "other"]


def test_restricted_maximum_likelihood_is_that_of_mixed_models(study):
    res = BayesRidge.from_formula("y ~ days + (days || subject)", study, unpenalized="fixed").fit("reml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = sm.MixedLM.from_formula(
            "y ~ days", study, groups="subject", re_formula="1", vc_formula={"d": "0 + days:C(subject)"}
        ).fit()
    sds = np.sqrt([wanted.cov_re.iloc[0, 0], wanted.vcomp[0]])
    np.testing.assert_allclose(res.variance_components()["mean"], sds, rtol=LIKELIHOOD)
    np.testing.assert_allclose(res.params.iloc[:2], wanted.fe_params, rtol=LIKELIHOOD)


def test_smooth_curve_is_a_band_on_its_own_scale(study):
    res = BayesRidge.from_formula("y ~ s(days, k=5) + z", study, unpenalized="fixed").fit()
    x = study["days"].to_numpy()
    columns = np.column_stack([x, study["z"], penalized(knots_of(x, 5), x, centered=True).at(x)])
    other = BayesRidge(study["y"], columns, standardize=False, unpenalized=[0, 1], bands={"s": [2, 3, 4]}).fit()
    np.testing.assert_allclose(res.fittedvalues, other.fittedvalues, rtol=SAME)
    assert list(res.params.index) == ["Intercept", "z", "s(days).line", "s(days).1", "s(days).2", "s(days).3"]


def test_new_groups_are_draws_from_the_population(slopes, study):
    new = study.iloc[[3, 3, 3, 20]].assign(subject=[99, None, 0, 99])
    sampled, zero = (slopes.get_prediction(new, new_levels=how) for how in ("sample", "zero"))
    alone = slopes.get_prediction(new, groups=False)
    np.testing.assert_allclose(sampled.predicted_mean, zero.predicted_mean, rtol=SAME)
    np.testing.assert_allclose(zero.se_mean[[0, 1, 3]], alone.se_mean[[0, 1, 3]], rtol=SAME)
    np.testing.assert_allclose(sampled.se_mean[2], zero.se_mean[2], rtol=SAME)
    for how in ("sample", "zero"):
        np.testing.assert_allclose(slopes.predict(new, new_levels=how), sampled.predicted_mean, rtol=SAME)
    with pytest.raises(ValueError, match="new_levels must be 'sample' or 'zero', not 'mean'"):
        slopes.predict(new, new_levels="mean")
    np.testing.assert_allclose(slopes.predict(new, groups=False), alone.predicted_mean, rtol=SAME)
    assert abs(slopes.predict(new).iloc[2] - slopes.predict(new, groups=False).iloc[2]) > 1
    draws = slopes.sample(20_000, rng=0, hyper_columns=True)
    for row in (0, 3):
        days = new["days"].iloc[row]
        line = draws["Intercept"] + days * draws["days"]
        effects = np.random.default_rng(1).normal(size=(2, len(draws)))
        sds = np.sqrt([draws["tau2[subject]"] * draws["sigma2"], draws["tau2[days|subject]"] * draws["sigma2"]])
        drawn = line + sds[0] * effects[0] + days * sds[1] * effects[1]
        low, high = sampled.conf_int()[row]
        for at, tail in ((low, 0.025), (high, 0.975)):
            error = np.sqrt(0.025 * 0.975 / len(draws))
            assert abs(np.mean(drawn < at) - tail) < MONTE_CARLO * error
        assert sampled.se_mean[row] == pytest.approx(drawn.std(), rel=0.03)


def test_new_groups_given_the_variances(study):
    model = BayesRidge.from_formula("y ~ days + (days || subject)", study, unpenalized="fixed", sigma2=400.0)
    res = model.fit("fixed", lam={"subject": 0.5, "days|subject": 4.0})
    new = study.iloc[[3, 5]].assign(subject=99)
    sampled, zero = (res.get_prediction(new, new_levels=how).se_mean for how in ("sample", "zero"))
    wanted = 400.0 * (1 / 0.5 + new["days"] ** 2 / 4.0)
    np.testing.assert_allclose(sampled**2 - zero**2, wanted, rtol=SAME)


def test_a_saved_fit_predicts_new_groups(slopes, study, tmp_path):
    path = tmp_path / "slopes.fit"
    slopes.save(path)
    again = load(path)
    new = study.iloc[:2].assign(subject=[3, 99])
    pd.testing.assert_frame_equal(
        again.get_prediction(new).summary_frame(), slopes.get_prediction(new).summary_frame()
    )


def test_everything_else_refuses_new_groups(slopes, study):
    with pytest.raises(ValueError, match=r"'subject' is missing, or a group that the fit has not seen"):
        slopes.effects("days", data=study.assign(subject=99))
    effects = slopes.effects("subject")
    assert len(effects) == 17
    assert slopes.effects().index.get_level_values("variable").tolist() == ["days"]


def test_missing_values_of_other_variables_are_missing_predictions(slopes, study):
    new = study.iloc[:3].copy()
    new.iloc[1, new.columns.get_loc("days")] = np.nan
    assert slopes.predict(new).isna().tolist() == [False, True, False]
    frame = slopes.get_prediction(new).summary_frame()
    assert frame.isna().all(axis=1).tolist() == [False, True, False]
    np.testing.assert_allclose(frame["mean"].iloc[[0, 2]], slopes.fittedvalues.iloc[[0, 2]], rtol=SAME)


def test_several_responses(study):
    both = study.assign(other=study["z"] + study["y"] / 50)
    res = BayesRidge.from_formula("y + other ~ days + (1 | subject)", both).fit()
    alone = BayesRidge.from_formula("other ~ days + (1 | subject)", both).fit()
    assert (abs(res.params["other"] - alone.params) < QUADRATURE * alone.bse).all()


@pytest.mark.parametrize(
    ("formula", "options", "told"),
    [
        ("y ~ (1 | lab)", {"bands": {"lab": ["lab[a]"]}}, "bands names 'lab', which the formula makes itself"),
        ("y ~ z + (1 | lab)", {"bands": ["a"]}, "bands must be a dict of columns"),
        ("y ~ (1 | lab)", {"unpenalized": ["(1 | lab)"]}, "'lab' are unpenalised|band 'lab' are unpenalised"),
        ("y ~ z", {"unpenalized": "fixed"}, "'fixed', which is not a column"),
    ],
)
def test_refusals(formula, options, told, study):
    with pytest.raises(ValueError, match=told):
        BayesRidge.from_formula(formula, study, **options)


def test_models_without_bands_refuse_them(study):
    with pytest.raises(
        ValueError, match=r"\(1 \| subject\), whose variance is a parameter .*which SpikeSlab .*BayesRidge$"
    ):
        SpikeSlab.from_formula("y ~ days + (1 | subject)", study)


def test_bands_of_the_user_beside_those_of_the_formula(study):
    given = BayesRidge.from_formula("y ~ days + z + (1 | lab)", study, bands={"own": ["z"]}, unpenalized="days").fit()
    written = BayesRidge.from_formula("y ~ days + band(z, name='own') + (1 | lab)", study, unpenalized="days").fit()
    np.testing.assert_allclose(given.fittedvalues, written.fittedvalues, rtol=SAME)
    assert list(given.variance_components().index) == ["own", "lab"]


def test_an_array_that_would_not_fit_into_memory_is_refused():
    many = pd.DataFrame({"y": np.arange(2e5), "g": np.arange(200_000) // 3, "x": np.arange(2e5) % 7})
    with pytest.raises(ValueError, match=r"would take 213 GB, most of them those of \(1 \| g\)"):
        BayesRidge.from_formula("y ~ (x | g)", many)


def test_smooth_curves_alone(study):
    res = BayesRidge.from_formula("y ~ s(days, k=5) + z + (1 | subject)", study, unpenalized="fixed").fit()
    rest = res.params["Intercept"] + res.params["z"] * study["z"]
    curve = res.smooth(at=study["days"])
    np.testing.assert_allclose(rest + curve["mean"].to_numpy(), res.predict(groups=False), rtol=SAME)
    assert abs(curve["mean"].mean()) < SAME * res.fittedvalues.max()
    assert res.smooth().index.name == "days"
    assert len(res.smooth()) == 101
    assert (res.smooth("s(days)", at=[2.0])["lower"] < res.smooth(at=[2.0])["mean"]).all()
    with pytest.raises(ValueError, match=r"no curve 's\(x\)'; there are 's\(days\)'"):
        res.smooth("s(x)")


def test_pictures_of_curves(study):
    pytest.importorskip("matplotlib")
    res = BayesRidge.from_formula("y ~ s(days, k=4)", study).fit()
    drawn = res.plot_smooth(at=[5.0, 1.0, 3.0])
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("days", "s(days)")
    np.testing.assert_allclose(drawn.lines[0].get_ydata(), res.smooth(at=[1.0, 3.0, 5.0])["mean"], rtol=SAME)


def test_smooth_curves_of_levels_and_numbers(study):
    res = BayesRidge.from_formula("y ~ lab + s(days, by=lab, k=4)", study, unpenalized="fixed")
    res = res.fit("fixed", lam=[1.0, 2.0, 3.0, 4.0])
    found = res.smooth("s(days):lab[b]", at=[1.0, 5.0])["mean"]
    rows = study.iloc[[0, 0]].assign(days=[1.0, 5.0], lab="b")
    np.testing.assert_allclose(np.diff(found), np.diff(res.predict(rows)), rtol=SAME)
    with pytest.raises(ValueError, match="say which"):
        res.smooth()
    times = BayesRidge.from_formula("y ~ s(days, by=z, k=4)", study).fit()
    rows = study.iloc[[0, 0]].assign(days=2.0, z=[0.0, 1.0])
    np.testing.assert_allclose(times.smooth(at=2.0)["mean"], np.diff(times.predict(rows)), rtol=SAME)


def test_predictions_at_means_are_of_the_population(slopes, study):
    table = slopes.predictions({"days": [1.0, 4.0]})
    new = pd.DataFrame({"days": [1.0, 4.0], "subject": 0})
    wanted = slopes.get_prediction(new, groups=False).summary_frame()
    np.testing.assert_allclose(table[["mean", "sd"]], wanted[["mean", "mean_se"]], rtol=SAME)
    of_one = slopes.predictions({"days": [1.0], "subject": [7]})
    single = slopes.get_prediction(new.iloc[:1].assign(subject=7)).summary_frame()
    np.testing.assert_allclose(of_one[["mean", "sd"]], single[["mean", "mean_se"]], rtol=SAME)
