"""Posterior predictive checks, their pictures, and the picture of the probability integral transform."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde, norm

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.cli.checks import model_checks
from pybayesridge.plots.predictive import bandwidth, smoothed
from pybayesridge.results.predictive_checks import MOST_VALUES

EQUAL = 1e-12
ERRORS = 5.0
"""Monte Carlo standard errors."""

DRAWS = 2000
BINNED = 0.03
"""Of densities by a histogram, relative to their top: 0.003 at the worst seen."""


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(8)
    data = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    data["y"] = 3 + data["a"] + rng.normal(size=60)
    data["z"] = rng.normal(size=60)
    data["up"] = (data["y"] > 3).astype(int)
    data["w"] = rng.uniform(0.5, 2, 60)
    return data


@pytest.fixture(scope="module")
def ridge(frame):
    return BayesRidge.from_formula("y ~ a + b", frame, weights="w", sigma2=1.0).fit("fixed", lam=2.0)


def test_the_mean_is_normal(ridge, frame):
    """With penalty and noise known the mean of a replicated response is normal."""
    found = ridge.ppc("mean", draws=DRAWS)
    cov = ridge.cov_params().to_numpy()
    center = np.array([1.0, frame["a"].mean(), frame["b"].mean()])
    noise = (frame["w"].mean() / frame["w"]).sum() / 60**2
    sd = np.sqrt(center @ cov @ center + noise)
    law = norm(center @ ridge.params.to_numpy(), sd)
    assert found.index.tolist() == ["mean"]
    assert found.loc["mean", "observed"] == pytest.approx(frame["y"].mean(), rel=EQUAL)
    assert found.loc["mean", "mean"] == pytest.approx(law.mean(), abs=ERRORS * sd / np.sqrt(DRAWS))
    p = law.sf(frame["y"].mean())
    assert found.loc["mean", "p"] == pytest.approx(p, abs=ERRORS * np.sqrt(p * (1 - p) / DRAWS))
    width = found.loc["mean", "upper"] - found.loc["mean", "lower"]
    assert width == pytest.approx(2 * 1.96 * sd, rel=0.1)


def test_statistics_by_name_and_by_function(ridge, frame):
    table = ridge.ppc()
    assert table.index.tolist() == ["mean", "sd", "min", "max"]
    assert table["observed"].to_numpy() == pytest.approx(frame["y"].agg(["mean", "std", "min", "max"]), rel=EQUAL)
    assert table.equals(ridge.ppc())
    assert (table["lower"] < table["upper"]).all()
    assert table["p"].between(0, 1).all()
    both = ridge.ppc({"median": np.median, "sd": lambda y: np.std(y, ddof=1)}, draws=100)
    assert both.loc["sd"].to_numpy() == pytest.approx(ridge.ppc("sd", draws=100).loc["sd"], rel=EQUAL)
    for stat, message in (
        ("median", "stat must be one of 'mean', 'sd', 'min', 'max', 'zeros' and 2 more or a function"),
        ([], "stat is empty"),
        (["max", "max"], "names 'max' twice"),
        (np.cumsum, "'cumsum' must be one finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            ridge.ppc(stat)
    with pytest.raises(ValueError, match="draws must be a positive integer"):
        ridge.ppc(draws=0)


def test_a_misfit_shows(frame):
    far = frame.assign(y=np.where(np.arange(60) == 7, 40.0, frame["y"]))
    table = BayesRidge.from_formula("y ~ a + b", far).fit().ppc("max", draws=200)
    assert table.loc["max", "p"] < 0.05


def test_every_family_and_several_targets(frame, monkeypatch):
    several = BayesRidge.from_formula("y + z ~ a", frame).fit()
    with pytest.raises(ValueError, match="ppc needs target="):
        several.ppc()
    assert several.ppc("mean", target="z").loc["mean", "observed"] == pytest.approx(frame["z"].mean(), rel=EQUAL)
    for method in ("exact", "ep"):
        found = SpikeSlab.from_formula("y ~ a + b", frame).fit(method).ppc(["mean", "sd"], draws=200)
        assert found["p"].between(0.01, 0.99).all()
    binary = BayesRidge.from_formula("up ~ a", frame, family="binomial").fit()
    found = binary.ppc("mean", draws=200)
    assert found.loc["mean", "observed"] == pytest.approx(frame["up"].mean(), rel=EQUAL)
    assert found.loc["mean", ["lower", "upper"]].between(0, 1).all()
    whole = binary.ppc("mean", draws=50)
    monkeypatch.setattr("pybayesridge.results.predictive_checks.ELEMENTS", 60 * 20)
    assert binary.ppc("mean", draws=50).loc["mean", "mean"] == pytest.approx(whole.loc["mean", "mean"], abs=0.1)
    binary.remove_data()
    with pytest.raises(ValueError, match="removed"):
        binary.ppc()


def test_smoothed_densities_are_kernel_estimates():
    values = np.random.default_rng(1).gamma(2.0, size=80)
    width = bandwidth(values)
    at, density = smoothed(values, width, (values.min() - 4 * width, values.max() + 4 * width))
    expected = gaussian_kde(values, bw_method=width / values.std(ddof=1))(at)
    assert np.abs(density - expected).max() < BINNED * expected.max()
    assert bandwidth(np.full(5, 3.0)) > 0


def test_pictures(ridge, frame):
    figure = pytest.importorskip("matplotlib.figure").Figure

    def axes():
        return figure().subplots()

    ax = ridge.plot_ppc(draws=5, ax=axes())
    assert [line.get_label() for line in ax.lines if not line.get_label().startswith("_")] == [
        "replicated",
        "observed",
    ]
    assert len(ax.lines) == 6
    at, density = ax.lines[-1].get_data()
    assert density.sum() * (at[1] - at[0]) == pytest.approx(1.0, abs=0.01)
    ax.figure.canvas.draw()
    ax = ridge.plot_ppc("max", ax=axes())
    assert ax.lines[0].get_xdata()[0] == pytest.approx(frame["y"].max(), rel=EQUAL)
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1000)
    ax.figure.canvas.draw()
    ax = ridge.plot_pit(ax=axes())
    heights = [bar.get_height() for bar in ax.containers[0]]
    assert heights == np.histogram(ridge.pit(), bins=6, range=(0, 1))[0].tolist()
    ax.figure.canvas.draw()
    assert len(ridge.plot_pit(bins=3, ax=axes()).containers[0]) == 3
    binary = BayesRidge.from_formula("up ~ a", frame, family="binomial").fit()
    with pytest.raises(ValueError, match="use plot_calibration"):
        binary.plot_ppc()
    with pytest.raises(ValueError, match="by plot_calibration"):
        binary.plot_pit()
    assert binary.plot_ppc("mean", ax=axes()).get_xlabel() == "mean of up"
    with pytest.raises(ValueError, match="draws one statistic"):
        ridge.plot_ppc(["mean", "max"])


TRIALS = np.tile([20.0, 35.0, 50.0], 20)


@pytest.fixture(scope="module")
def counts(frame):
    rng = np.random.default_rng(3)
    successes = rng.binomial(TRIALS.astype(int), 1 / (1 + np.exp(-0.7 * frame["a"])))
    return frame.assign(k=successes.astype(float), m=TRIALS, copies=np.tile([1.0, 2.0, 3.0, 4.0], 15))


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_shares_of_trials_are_compared_with_shares(counts, model):
    """The observed statistics are of the shares of successes, and so are those of replicated responses."""
    options = {"mcse": 0.05} if model is SpikeSlab else {}
    res = model.from_formula("k ~ a", counts, family="binomial", trials="m").fit(**options)
    found = res.ppc(draws=300)
    shares = counts["k"] / counts["m"]
    assert found["observed"].to_numpy() == pytest.approx(shares.agg(["mean", "std", "min", "max"]), rel=EQUAL)
    assert (found["lower"] >= 0).all()
    assert (found["upper"] <= 1).all()
    assert found["p"].between(0.01, 0.99).all()
    assert found.loc["mean", "mean"] == pytest.approx(shares.mean(), abs=0.02)


def test_the_mean_share_has_the_spread_of_binomial_counts(counts):
    """With a posterior that is next to certain only the binomial noise is left."""
    res = BayesRidge.from_formula("k ~ a", counts, family="binomial", trials="m").fit("fixed", lam=1e9)
    found = res.ppc({"mean": np.mean}, draws=DRAWS)
    center = counts["k"].sum() / counts["m"].sum()
    noise = np.sqrt((center * (1 - center) / TRIALS).sum()) / 60
    of_intercept = np.sqrt(center * (1 - center) / TRIALS.sum())
    width = found.loc["mean", "upper"] - found.loc["mean", "lower"]
    assert width == pytest.approx(2 * 1.96 * np.hypot(noise, of_intercept), rel=0.1)


@pytest.mark.parametrize("response", ["up", "k"])
def test_copies_of_a_row_are_replicated_each(counts, response):
    """A row with weight w stands for w rows, in the response and in what is replicated."""
    trials = {"trials": "m"} if response == "k" else {}
    weighted = BayesRidge.from_formula(f"{response} ~ a", counts, family="binomial", weights="copies", **trials).fit()
    repeated = counts.loc[counts.index.repeat(counts["copies"].astype(int))].reset_index(drop=True)
    copied = BayesRidge.from_formula(f"{response} ~ a", repeated, family="binomial", **trials).fit()
    ours, theirs = weighted.ppc(["mean", "sd"], draws=DRAWS), copied.ppc(["mean", "sd"], draws=DRAWS)
    assert ours["observed"].to_numpy() == pytest.approx(theirs["observed"], rel=EQUAL)
    width = theirs["upper"] - theirs["lower"]
    assert np.abs(ours["mean"] - theirs["mean"]).to_numpy() == pytest.approx(0, abs=0.1 * width.max())
    assert (ours["upper"] - ours["lower"]).to_numpy() == pytest.approx(width, rel=0.15)


def test_statistics_that_say_something(counts):
    """Of zeros and ones the mean says it all; of shares of trials all four statistics do."""
    yes_no = BayesRidge.from_formula("up ~ a", counts, family="binomial", weights="copies").fit()
    shares = BayesRidge.from_formula("k ~ a", counts, family="binomial", trials="m").fit()
    for res, expected in ((yes_no, ["mean"]), (shares, ["mean", "sd", "min", "max"])):
        assert model_checks(res, 0.05)[0].statistics.index.tolist() == expected


def test_the_picture_says_that_the_response_is_a_share(counts):
    figure = pytest.importorskip("matplotlib.figure").Figure
    shares = BayesRidge.from_formula("k ~ a", counts, family="binomial", trials="m").fit()
    assert shares.plot_ppc("max", ax=figure().subplots()).get_xlabel() == "max of k, as a share of trials"


def test_levels_named_success_and_failure_are_no_trials(counts, tmp_path):
    pytest.importorskip("jinja2")
    named = counts.assign(passed=np.where(counts["up"] == 1, "success", "failure"))
    res = BayesRidge.from_formula("passed ~ a", named, family="binomial").fit()
    assert "numbers of trials" not in res.report(tmp_path / "a.html").read_text(encoding="utf-8")
    shares = BayesRidge.from_formula("k ~ a", counts, family="binomial", trials="m").fit()
    assert "numbers of trials" in shares.report(tmp_path / "b.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(frame):
    rng = np.random.default_rng(21)
    return frame.assign(
        few=rng.poisson(np.exp(0.3 * frame["a"])),
        many=rng.poisson(np.exp(6 + 0.4 * frame["a"])),
        grade=pd.Categorical.from_codes(np.digitize(frame["y"], [2.0, 3.0, 4.5]), list("DCBA"), ordered=True),
        copies=np.tile([1.0, 2.0, 3.0, 4.0], 15),
    )


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_frequencies_are_numbers_of_rows(whole, model):
    """Each row of the table is what a function of its own finds in the same replicated responses."""
    res = model.from_formula("few ~ a", whole, family="poisson", weights="copies").fit()
    found = res.ppc("frequencies", draws=300)
    assert found["observed"].sum() == pytest.approx(whole["copies"].sum(), rel=EQUAL)
    assert found["mean"].sum() == pytest.approx(whole["copies"].sum(), rel=EQUAL)
    names = [name for name in found.index if name.isdigit()]
    assert names == [str(k) for k in range(len(names))]
    assert len(found) - len(names) <= 1
    own = res.ppc({k: lambda y, k=k: (y == int(k)).sum() for k in names}, draws=300)
    assert found.loc[names].to_numpy() == pytest.approx(own.to_numpy(), rel=EQUAL)


def test_frequencies_of_large_counts_are_of_intervals(whole):
    res = BayesRidge.from_formula("many ~ a", whole, family="poisson").fit()
    found = res.ppc(["mean", "frequencies"], draws=300)
    assert found.index[0] == "mean"
    intervals = found.iloc[1:]
    assert len(intervals) <= MOST_VALUES + 1
    assert intervals["observed"].sum() == pytest.approx(60, rel=EQUAL)
    assert intervals["mean"].sum() == pytest.approx(60, rel=EQUAL)
    low, high = (int(end.replace(",", "")) for end in intervals.index[7].split(" to "))
    assert intervals["observed"].iloc[7] == pytest.approx(whole["many"].between(low, high).sum(), rel=EQUAL)


def test_frequencies_of_categories_have_their_names(whole):
    res = BayesRidge.from_formula("grade ~ a", whole, family="ordinal").fit()
    found = res.ppc("frequencies", draws=300)
    assert found["observed"].to_dict() == whole["grade"].value_counts().to_dict()
    assert found.index.tolist() == list("DCBA")
    assert found["p"].between(0.02, 0.98).all()


def test_responses_without_frequencies(ridge, counts):
    shares = BayesRidge.from_formula("k ~ a", counts, family="binomial", trials="m").fit()
    for res in (ridge, shares):
        with pytest.raises(ValueError, match="'frequencies' is for counts and ordered categories"):
            res.ppc(["mean", "frequencies"])


def test_the_rootogram_has_the_numbers_of_the_table(whole, tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure
    for formula, family in (("few ~ a", "poisson"), ("many ~ a", "negative-binomial"), ("grade ~ a", "ordinal")):
        res = BayesRidge.from_formula(formula, whole, family=family).fit()
        ax = res.plot_ppc(draws=200, ax=figure().subplots())
        table = res.ppc("frequencies", draws=200)
        assert [bar.get_height() for bar in ax.containers[0]] == table["observed"].tolist()
        assert ax.lines[0].get_ydata() == pytest.approx(table["mean"].to_numpy(), rel=EQUAL)
        ends = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
        assert ends == pytest.approx(table[["lower", "upper"]].to_numpy(), rel=EQUAL)
        ax.figure.canvas.draw()
    pytest.importorskip("jinja2")
    assert "scale of square roots" in res.report(tmp_path / "a.html").read_text(encoding="utf-8")


def test_values_that_are_called_like_statistics(whole):
    """A category named "frequencies" is drawn as one, and one named "mean" does not stand for the mean."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    grades = whole["grade"].cat.rename_categories({"D": "frequencies", "C": "mean"})
    res = BayesRidge.from_formula("grade ~ a", whole.assign(grade=grades), family="ordinal").fit()
    ax = res.plot_ppc(draws=50, ax=figure().subplots())
    assert [bar.get_height() for bar in ax.containers[0]] == grades.value_counts(sort=False).tolist()
    with pytest.raises(ValueError, match="'mean' names a statistic and a value of the response"):
        res.ppc(["mean", "frequencies"], draws=50)
