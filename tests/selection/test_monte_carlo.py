"""Monte Carlo errors that a fit states: as claims, and where they are shown."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from pybayesridge import ConvergenceWarning, PrecisionWarning, SpikeSlab, load
from pybayesridge.data.units import units_of
from pybayesridge.selection import enumeration, states
from pybayesridge.selection.estimates import HEAVY, OFTEN_VISITED, Tallies, estimate
from tests.effort import number, only_thorough

SEEDS = number(30, 6)
SPREAD = 1.2 * np.sqrt(chi2.isf(1e-6, SEEDS) / SEEDS)  # root mean square of z scores of a kind, errors 20 % too small
ALONE = 6.0  # the largest: worst seen 4.2
LONG_TAIL = 2.0  # both for the log evidence, whose error is known from few walkers: worst seen 1.63 and 5.2
AVERAGE = 5.0  # |z| of the mean over seeds, in its standard errors
WIDE = 5.0  # errors are not this many times too large, where the reference is exact
ROUNDING = 1e-12
BY_RUN = 2e-5  # relative to standard deviations: worst seen 2e-6 (1.7e-3 of them if squares are not centred)

HYPERPARAMETERS = ("prior_inclusion", "slab_var", "noise_var", "prior_share")


def model(kind: str) -> SpikeSlab:
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.normal(size=(30, 7))).add_prefix("x")
    x["x1"] += x["x0"]
    y = pd.Series(x["x0"] + 0.4 * x["x2"] + rng.normal(size=30), name="y")
    options = {"columns": {}, "groups": {"group": [0, 0, 1, 1, 2, 3, 4]}, "noise given": {"noise_var": 1.0}}
    return SpikeSlab(y, x, **options[kind])


def by_name(res) -> pd.DataFrame:
    return res.diagnostics().set_index(["quantity", "name"])


@pytest.fixture
def sampled(monkeypatch):
    def force() -> None:
        monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)

    return force


def all_states(weight, sizes, rng, kept=enumeration.resampled):
    return kept(weight, sizes, rng, 10**7)


@pytest.mark.parametrize("kind", ["columns", "groups", "noise given"])
def test_stated_errors_are_those_of_the_sum_over_all_sets(kind, sampled, monkeypatch):
    monkeypatch.setattr(enumeration, "resampled", all_states)
    monkeypatch.setattr(states, "MAX_ROOTS", 10**12)
    truth = by_name(model(kind).fit("exact"))
    monkeypatch.undo()
    sampled()
    scores: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        found = by_name(model(kind).fit("exact", rng=seed + 1, mcse=0.02))
        assert set(found.index) == set(truth.index)
        for place in found.index[found["mcse"] > ROUNDING]:
            quantity = str(place[0])
            # Means and standard deviations of the truth are sums, hyperparameters need draws of t.
            own = truth.loc[place, "mcse"] if quantity in (*HYPERPARAMETERS, "explained_variance") else 0.0
            off = float(found.loc[place, "estimate"] - truth.loc[place, "estimate"])
            error = float(np.hypot(found.loc[place, "mcse"], own))
            scores.setdefault(quantity, []).append(off / error)
            shares.setdefault(quantity, []).append(own / error)
    for quantity, each in scores.items():
        z = np.array(each)
        room = LONG_TAIL if quantity == "log_evidence" else 1.0
        assert np.sqrt(np.mean(z**2)) < room * SPREAD, quantity
        assert np.abs(z).max() < room * ALONE, quantity
        # The truth is the same for all seeds: its own error does not average out.
        of_mean = np.hypot(1 / np.sqrt(SEEDS), np.mean(shares[quantity]))
        assert abs(z.mean()) < AVERAGE * of_mean, quantity
        if quantity not in (*HYPERPARAMETERS, "explained_variance"):
            assert np.sqrt(np.mean(z**2)) > 1 / WIDE, quantity


@pytest.mark.parametrize("noise", [1e-3, 1e-5])
def test_standard_deviations_that_are_far_smaller_than_coefficients(noise, sampled):
    """Of columns that are always in: what squares of coefficients resolve is more than their variances."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 8))
    y = 3.0 * x[:, 0] + 2.0 * x[:, 1] + noise * rng.standard_normal(50)
    truth = SpikeSlab(y, x, noise_var=noise**2).fit("exact").exact_sets
    sampled()
    found = SpikeSlab(y, x, noise_var=noise**2).fit("exact").exact_sets
    strong, sd = slice(0, 2), np.sqrt(truth.var)
    assert (np.abs(found.mean - truth.mean) <= ALONE * found.errors.mean + BY_RUN * sd)[strong].all()
    for name in ("var", "cond_var"):
        assert np.sqrt(getattr(found, name)[strong]) == pytest.approx(sd[strong], rel=BY_RUN)
    assert (np.abs(np.sqrt(found.var) - sd) <= ALONE * found.errors.sd)[strong].all()


def test_every_number_that_is_sampled_is_there(sampled):
    sampled()
    res = model("columns").fit("exact")
    found = by_name(res)
    assert found.loc["inclusion_prob", "estimate"].to_numpy() == pytest.approx(res.inclusion_prob[1:], abs=0)
    assert found.loc["inclusion_prob", "mcse"].to_numpy() == pytest.approx(res.inclusion_se[1:], abs=0)
    for quantity, values in {"mean": res.params, "sd": res.bse}.items():
        assert list(found.loc[quantity].index) == list(values.index)
        assert found.loc[quantity, "estimate"].to_numpy() == pytest.approx(values.to_numpy(), abs=0)
    table = res.hyperparameters()
    for name in table.index:
        assert found.loc[(name, ""), "estimate"] == pytest.approx(table.loc[name, "mean"], abs=0)
    assert found.loc[("elpd", ""), "estimate"] == pytest.approx(res.loo().elpd, abs=0)
    assert found.loc[("elpd", ""), "mcse"] == pytest.approx(res.loo().mcse, abs=0)
    share = res.explained_variance()["mean"]
    assert found.loc[("explained_variance", ""), "estimate"] == pytest.approx(share, rel=ROUNDING)
    assert (found["mcse"] > 0).all()
    averages = found[~found.index.get_level_values("quantity").isin(["sd", "log_evidence", "elpd"])]
    assert (averages["effective"] > 0).all()
    assert (averages["agreement"] >= 1).all()


def test_odds_ratios_have_the_errors_of_means():
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(60, 4))).add_prefix("x")
    yes = (x["x0"] + rng.logistic(size=60) > 0).astype(int)
    res = SpikeSlab(yes, x, family="binomial").fit("exact", mcse=0.05)
    found = by_name(res)
    ratios = res.odds_ratios()["odds_ratio"]
    assert found.loc["odds_ratio", "estimate"].to_numpy() == pytest.approx(ratios.to_numpy(), rel=ROUNDING)
    relative = found.loc["odds_ratio", "mcse"] / found.loc["odds_ratio", "estimate"]
    assert relative.to_numpy() == pytest.approx(found.loc["mean", "mcse"].to_numpy(), rel=ROUNDING)
    assert found.loc[("elpd", ""), "mcse"] > 0


def test_a_sentence_says_how_large_errors_are(sampled):
    summed = model("columns").fit("exact")
    assert "monte-carlo-error" not in [found.code for found in summed.findings]
    sampled()
    res = model("columns").fit("exact")
    text = next(found.text for found in res.findings if found.code == "monte-carlo-error")
    table = by_name(res)
    largest = float(text.partition("at most ")[2].split()[0])
    assert largest >= table.loc["inclusion_prob", "mcse"].max() > 0.85 * largest
    for words in ("standard deviations for means", "expected number of included columns", "% for noise_var"):
        assert words in text
    assert "Monte Carlo standard errors" in str(res.summary())


def test_the_sentence_is_on_standard_deviations_of_columns_that_are_in_at_times():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 18))
    res = SpikeSlab(3.0 * x[:, 0] + 2.0 * x[:, 1] + 0.1 * rng.normal(size=60), x).fit("exact", mcse=0.03)
    text = next(found.text for found in res.findings if found.code == "monte-carlo-error")
    said = " % for the standard deviations of coefficients with an inclusion probability of at least 0.05"
    assert said in text
    table = by_name(res)
    relative = 100.0 * table.loc["sd", "mcse"] / table.loc["sd", "estimate"]
    often = ["const", *np.asarray(res.inclusion_prob.index)[np.asarray(res.inclusion_prob) >= 0.05]]
    largest = relative.loc[often].max()
    assert largest < 0.2 * relative.max()
    assert float(text.partition(said)[0].split()[-1]) >= largest


def test_a_sum_over_all_sets_has_no_error_but_that_of_draws():
    found = by_name(model("columns").fit("exact"))
    for quantity in ("inclusion_prob", "size", "log_evidence"):
        assert (found.loc[quantity, "mcse"] == 0).all()
    assert found.loc[("prior_inclusion", ""), "mcse"] > 0
    assert model("columns").fit("exact").loo().mcse < 0.1


def test_expectation_propagation_has_none():
    with pytest.raises(ValueError, match=r"a Monte Carlo error needs .* fit\('exact'\)"):
        model("columns").fit("ep").diagnostics()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        assert model("columns").fit("ep").loo().mcse == 0


def test_saved_fits_keep_them(tmp_path, sampled):
    sampled()
    res = model("columns").fit("exact")
    before = by_name(res)
    for row_space in (True, False):
        file = tmp_path / f"fit-{row_space}"
        res.save(file, remove_data=True, row_space=row_space)
        after = by_name(load(file))
        assert set(before.index) - set(after.index) <= {("elpd", ""), ("explained_variance", "")}
        pd.testing.assert_frame_equal(after, before.loc[after.index])
        assert load(file).notes == res.notes


@pytest.mark.parametrize("which", [1, 3])
def test_walkers_disagree_also_by_log_g_and_size(which):
    """Convergence asks for both: walkers whose probabilities agree go on if these do not."""
    tallies = Tallies(4, units_of(2), 0)
    for i, sums in enumerate(tallies.new_stretch()):
        sums.passes, sums.weight[:] = 100, 100.0
        sums.prob += 50.0
        sums.mean += 1.0
        sums.square += 100.0
        sums.others += 100.0
        sums.others[which] += 100.0 * i
    found = estimate(tallies, 16, np.array([0, 2]), 1.0)
    assert float(found.se.max()) == pytest.approx(0, abs=ROUNDING)
    assert found.agreement > 1.5


def test_errors_are_larger_where_few_sets_are_far_larger():
    tallies = Tallies(4, units_of(2), 0)
    for i, sums in enumerate(tallies.new_stretch()):
        sums.passes, sums.weight[:] = 100, 100.0
        sums.prob += np.array([50.0, 5.0]) + i
        sums.mean += 1.0 + i
        sums.square += 100.0
        sums.others += 1.0 + i
    usual, large = (estimate(tallies, 16, np.repeat([5, size], [94, 6]), 1.0) for size in (6, 199))
    times = np.array([1.0, HEAVY[1]])  # it is not by large sets that the likelier one is in
    assert large.se == pytest.approx(times * usual.se, rel=ROUNDING)
    assert large.errors.mean == pytest.approx(times * usual.errors.mean, rel=ROUNDING)
    assert large.errors.sd == pytest.approx(times * usual.errors.sd, rel=ROUNDING)
    assert large.errors.log_g == pytest.approx(HEAVY[1] * usual.errors.log_g, rel=ROUNDING)
    assert usual.agreement > 1.0


def stated_errors(res: SpikeSlab, new: pd.DataFrame) -> dict[str, np.ndarray]:
    """Every Monte Carlo error that a fit states, but for those of few draws."""
    table = res.diagnostics()
    score = res.loo()
    return {
        "diagnostics": table.loc[table["quantity"] != "elpd", "mcse"].to_numpy(),
        "contrast": res.contrast("x0 - x1 + 2*x2")["mcse"].to_numpy(),
        "one": res.contrast("x0")["mcse"].to_numpy(),
        "joint": np.array([res.joint_contrast("x0, x1")["mcse"]]),
        "effects": res.effects("x0")["mcse"].to_numpy(),
        "predictions": res.get_prediction(new).mcse,
        "loo": score.pointwise_mcse.to_numpy(),
        "elpd": np.array([score.mcse]),
    }


@only_thorough
def test_every_error_is_larger_where_few_sets_are_far_larger(monkeypatch):
    """The same walk with and without the factor: nothing is left without it."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(25, 20))).add_prefix("x")
    y = pd.Series(rng.normal(size=25), name="y")
    found = []
    for factor in (1.0, OFTEN_VISITED):
        monkeypatch.setattr("pybayesridge.selection.sampler.OFTEN_VISITED", factor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            res = SpikeSlab(y, x).fit("exact", mcse=1e-9, maxiter=400_000)
        assert res.exact_sets.inflation == pytest.approx(factor, rel=ROUNDING)
        found.append(stated_errors(res, x[:3]))
    for name, plain in found[0].items():
        assert (plain > 0).all(), name
        times = found[1][name] / plain
        # Scores also count what may be left of sets without a row, which is not drawn: one row's are mostly that.
        if name == "elpd":
            assert times > 1.0
        elif name == "loo":
            assert np.median(times) > 0.99 * OFTEN_VISITED
        else:
            assert times == pytest.approx(OFTEN_VISITED, rel=ROUNDING) or (times > OFTEN_VISITED).all(), name


def test_no_warning_is_raised_on_the_way(sampled):
    sampled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model("groups").fit("exact").diagnostics()
