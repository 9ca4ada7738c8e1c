"""Reports, pictures and draws for ArviZ of SpikeSlab with family="binomial": their numbers are the results'."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import mannwhitneyu

from pybayesridge import SpikeSlab, load

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from matplotlib import pyplot

from tests.test_report import report

SAME = 1e-9
"""Relative; the same numbers by other formulas, worst seen 1e-14."""

QUICK = {"mcse": 0.5, "chains": 1}


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "age"])
    data["kind"] = rng.choice(["x", "y", "z"], 60)
    data["ill"] = np.where(rng.random(60) < expit(1.5 * data["a"]), "yes", "no")
    data.index = [f"row {i}" for i in range(60)]
    model = SpikeSlab.from_formula("ill ~ a + b + age + kind", data, family="binomial", unpenalized=["age"])
    return model.fit(**QUICK)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(1)
    x, trials = rng.standard_normal((20, 2)), rng.integers(1, 6, 20)
    model = SpikeSlab(
        rng.binomial(trials, 0.4), x, family="binomial", link="probit", trials=trials, prior_inclusion=[0.3, 0.5]
    )
    return model.fit(**QUICK)


@pytest.fixture(scope="module")
def page(fit, tmp_path_factory):
    return report(fit, tmp_path_factory.mktemp("page"), question="Who is ill?", alpha=0.1)


def scores(successes, failures, p):
    total = (successes + failures).sum()
    log = (successes * np.log(p) + failures * np.log1p(-p)).sum() / total
    brier = (successes * (1 - p) ** 2 + failures * p**2).sum() / total
    up, down = (np.repeat(p, count.astype(int)) for count in (successes, failures))
    return [log, brier, mannwhitneyu(up, down).statistic / (up.size * down.size)]


def test_report_has_the_numbers_of_the_results(fit, page):
    def table(head):
        return next(page.numbers(i) for i, found in enumerate(page.tables) if head in found[0])

    odds = table("odds ratio")
    wanted = fit.odds_ratios(0.1).loc[odds.index, ["odds_ratio", "prob_above_1", "lower", "upper"]]
    np.testing.assert_allclose(odds.iloc[:, 1:], wanted, rtol=SAME)
    np.testing.assert_allclose(odds["inclusion probability"], fit.inclusion_prob[odds.index], rtol=SAME)
    coefficients = table("mean given inclusion")
    np.testing.assert_allclose(coefficients["mean"], fit.params[coefficients.index], rtol=SAME)
    rows = table("observed share")
    frame = fit.get_prediction().summary_frame(0.1).drop(columns="mcse").loc[rows.index]
    np.testing.assert_allclose(rows.iloc[:, 1:], frame, rtol=SAME)
    assert rows["mean"].is_monotonic_increasing
    assert rows.index[[0, -1]].tolist() == [fit.fittedvalues.idxmin(), fit.fittedvalues.idxmax()]
    np.testing.assert_allclose(rows["observed share"], pd.Series(fit.model.endog, fit.fittedvalues.index)[rows.index])
    found = table("share of events")["this model"]
    y = np.asarray(fit.model.endog)
    np.testing.assert_allclose(found, scores(y, 1 - y, fit.fittedvalues.to_numpy()), rtol=SAME)


def test_report_says_what_it_is(page):
    text = page.said()
    for words in (
        "Who is ill?",
        "Spike-and-slab regression (binomial) of ill",
        "responses are events (yes)",
        "log odds of the probability of the event (yes) is a linear function",
        "which is optimistic",
        "(in-sample)",
        "Pólya-Gamma",
        "share of the latent variance",
        "family='binomial'",
    ):
        assert words in text
    for words in ("noise", "R-squared", "evidence", "residual"):
        assert words not in text
    assert sum("in-sample" in caption for caption in page.text) >= 2


def test_report_of_counts_without_rows(counts, tmp_path):
    whole = report(counts, tmp_path).said()
    assert "normal quantile of the probability of the event (success) is a linear function" in whole
    assert "m: the numbers of trials" in whole
    assert "prior_inclusion (by column; mean)" in whole
    assert "odds" not in whole
    assert "Albert, J. H." in whole
    assert "Pólya-Gamma" not in whole
    counts.save(tmp_path / "counts.fit", remove_data=True)
    text = report(load(tmp_path / "counts.fit"), tmp_path).said()
    assert "Not shown." in text
    for words in ("optimistic", "In-sample scores", "ROC curve"):
        assert words in whole
        assert words not in text


def test_calibration_and_roc_are_those_of_the_fitted_rows(fit, counts):
    for res in (fit, counts):
        ax = res.plot_calibration(bins=4)
        assert "in-sample" in ax.get_title()
        assert ax.get_xlabel() == "fitted probability"
        shown = np.asarray(ax.lines[1].get_xydata())
        rows = res.model.likelihood()
        trials = rows.successes + rows.failures
        assert len(shown) == 4
        assert shown[:, 0].min() >= res.fittedvalues.min()
        assert shown[:, 0].max() <= res.fittedvalues.max()
        curve = np.asarray(res.plot_roc().lines[1].get_xydata())
        area = scores(rows.successes, rows.failures, res.fittedvalues.to_numpy())[2]
        assert np.isclose(trapezoid(curve[:, 1], curve[:, 0]), area, rtol=SAME)
        assert f"ROC curve\nin-sample, area {area:.3f}" in pyplot.gca().get_title()
        assert trials.sum() == res.n_trials
    order = np.argsort(fit.fittedvalues.to_numpy())
    groups = np.split(order, 4)
    shown = np.asarray(fit.plot_calibration(bins=4).lines[1].get_xydata())
    y, p = np.asarray(fit.model.endog), fit.fittedvalues.to_numpy()
    np.testing.assert_allclose(shown, [[p[part].mean(), y[part].mean()] for part in groups], rtol=SAME)
    with pytest.raises(ValueError, match="bins"):
        fit.plot_calibration(bins=0)


def test_pictures_of_rows_that_are_gone_say_so(counts, tmp_path):
    counts.save(tmp_path / "counts.fit", remove_data=True)
    again = load(tmp_path / "counts.fit")
    for draw in (again.plot_calibration, again.plot_roc):
        with pytest.raises(ValueError, match="removed"):
            draw()
    with pytest.raises(ValueError, match=r"plot_fit is for family='gaussian': use plot_calibration\(\)"):
        counts.plot_fit()


def test_draws_for_arviz(counts):
    pytest.importorskip("arviz")
    found = counts.to_arviz(draws=50, rng=0)
    posterior = found["posterior"]
    assert posterior["beta"].shape == (1, 50, 3)
    assert "sigma2" not in posterior
    assert posterior["slab_var"].shape == (1, 50)
    rows, name = counts.model.likelihood(), counts.model.data.targets[0]
    trials = rows.successes + rows.failures
    assert np.array_equal(found["observed_data"][name], rows.successes)
    predicted = found["posterior_predictive"][name].to_numpy()
    assert predicted.shape == (1, 50, 20)
    assert (predicted <= trials).all()
    assert found["log_likelihood"][name].shape == (1, 50, 20)
    assert float(found["log_likelihood"][name].max()) < 0.0
