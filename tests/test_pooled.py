"""Pooled fits of imputed data: against sums over components, draws and Rubin's rules."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pybayesridge
from pybayesridge import BayesRidge, SpikeSlab, fit_imputed, pool
from pybayesridge.posterior.laws import Ask, quantiles
from pybayesridge.results.contrast import law_of
from tests.effort import THOROUGH, number, only_thorough, share

N, M = 40, number(4, 2)

SAME = 1e-9
"""Quantiles that two searches find, relative to the standard deviation, and probabilities; 1e-11 was seen."""

PROBABILITY, TABLE = 2e-3, 5e-3
"""Of levels of quantiles of mixtures, and of such quantiles themselves: tables of a thousandth of the probability."""

DRAWS = 0.06
"""Monte Carlo error of quantiles of 20,000 draws, in standard deviations: five standard errors."""

SHOWN = 1e-12
"""Of the numbers of a report, which another sum over the fits gives."""

KINDS = ("targets", "ep", "exact", "ridge", "em", "weighted", "binary")


def completed(m=M, seed=0):
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b c", "d"])
    x["g"] = np.tile(["u", "v"], N // 2)
    x["y"] = x["a"] - 0.5 * x["b c"] + rng.normal(size=N)
    x["z"] = x["d"] + rng.normal(size=N)
    x["yes"] = (x["y"] > 0).astype(int)
    x["w"] = rng.uniform(0.5, 2.0, N)
    lost = rng.random(N) < 0.3
    out = []
    for _ in range(m):
        data = x.copy()
        data.loc[lost, "a"] = rng.normal(size=lost.sum())
        out.append(data)
    return out


def fit(kind):
    right = "a + `b c` + d + g"
    return {
        "ridge": lambda data: BayesRidge.from_formula(f"y ~ {right}", data).fit("exact"),
        "em": lambda data: BayesRidge.from_formula(f"y ~ {right}", data).fit("em"),
        "targets": lambda data: BayesRidge.from_formula(f"y + z ~ {right}", data).fit("exact"),
        "weighted": lambda data: BayesRidge.from_formula(f"y ~ {right}", data, weights="w").fit("exact"),
        "binary": lambda data: BayesRidge.from_formula(f"yes ~ {right}", data, family="binomial").fit("laplace"),
        "ep": lambda data: SpikeSlab.from_formula(f"y ~ {right}", data).fit("ep", hyper="maximize"),
        "exact": lambda data: SpikeSlab.from_formula(
            f"y ~ {right}", data, prior_inclusion=0.5, slab_var=0.5, noise_var=0.8
        ).fit("exact"),
        "learned": lambda data: SpikeSlab.from_formula(f"y ~ {right}", data, noise_var=0.8).fit("exact"),
        "binary selection": lambda data: SpikeSlab.from_formula(f"yes ~ {right}", data, family="binomial").fit(
            mcse=0.2, chains=2, maxiter=2_000_000
        ),
    }[kind]


@pytest.fixture(scope="module", params=KINDS if THOROUGH else KINDS[:3])
def pooled(request):
    return fit_imputed(completed(), fit(request.param))


def test_moments_are_those_of_the_components(pooled):
    means = np.stack([one.params for one in pooled.fits])
    second = np.mean([np.square(one.bse) + np.square(one.params) for one in pooled.fits], axis=0)
    np.testing.assert_allclose(pooled.params, means.mean(axis=0), rtol=SAME)
    np.testing.assert_allclose(pooled.bse, np.sqrt(second - means.mean(axis=0) ** 2), rtol=1e-6)
    target = {} if pooled.fits[0].model.one_target else {"target": "z"}
    sd = pooled.bse["z"] if target else pooled.bse
    cov = pooled.cov_params(**target)
    assert list(cov.index) == list(cov.columns) == pooled.fits[0].model.exog_names
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, rtol=1e-6)


def test_rubins_rules(pooled):
    """The variance within and that between; Rubin's rules correct for few imputations."""
    within = np.mean([np.square(one.bse) for one in pooled.fits], axis=0)
    between = np.var([one.params for one in pooled.fits], axis=0, ddof=1)
    rubin = within + (1 + 1 / M) * between
    np.testing.assert_allclose(np.square(pooled.bse), rubin - 2 * between / M, rtol=1e-9)


def test_intervals_hold_their_probability(pooled):
    """By contrasts, whose exceedance of the ends averages to the tails."""
    names = pooled.fits[0].model.exog_names
    target = {} if pooled.fits[0].model.one_target else {"target": "z"}
    table = pooled.conf_int(0.2)
    ends = table["z"] if target else table
    for j in range(len(names)):
        weights = np.eye(len(names))[[j]]
        for end, tail in zip(ends.iloc[j], (0.1, 0.9), strict=True):
            if end == 0:
                continue
            low, high = (
                1
                - np.mean(
                    [above(one, weights, end + side * 1e-7 * one.bse.to_numpy().max(), target) for one in pooled.fits]
                )
                for side in (-1, 1)
            )
            assert low - 1e-6 <= tail <= high + 1e-6


def above(one, weights, value, target):
    return exceedance(one, weights, np.array([value]), 1 if target else 0)[0]


def exceedance(one, weights, at, target):
    """Probabilities of combinations above `at`, by the posterior of one fit."""
    return law_of(one, weights, np.zeros(len(at)), target).above(np.arange(len(at)), at[:, None])[:, 0]


def test_draws_agree(pooled):
    if not pooled.fits[0].model.one_target or pooled.fits[0].method == "ep":
        pytest.skip("draws of expectation propagation are of an approximation to it")
    draws = pooled.sample(20_000, rng=1)
    assert list(draws.columns) == pooled.fits[0].model.exog_names
    sd = pooled.bse
    assert (np.abs(draws.mean() - pooled.params) / sd).max() < DRAWS
    found = draws.quantile([0.1, 0.9]).T
    for end in (0, 1):
        distance = np.abs(found.iloc[:, end] - pooled.conf_int(0.2).iloc[:, end]) / sd
        if hasattr(pooled.fits[0], "inclusion_prob"):
            distance = distance[pooled.fits[0].model.exog_names[:1]]  # others have quantiles next to an atom
        assert distance.max() < DRAWS
    again = pooled.sample(50, rng=3)
    pd.testing.assert_frame_equal(again, pooled.sample(50, rng=3))


def test_one_posterior_several_times_is_itself(pooled):
    one = pooled.fits[0]
    same = pool([one, one, one])
    unit = np.asarray(one.bse)
    np.testing.assert_allclose(same.params, one.params)
    np.testing.assert_allclose(same.bse, one.bse)
    a, b = (np.asarray(r.conf_int(0.1)).reshape(*unit.shape, 2) for r in (same, one))
    assert (np.abs(a - b) / unit[..., None]).max() < 1e-7
    np.testing.assert_allclose(same.prob_positive, one.prob_positive)
    selects = hasattr(one, "prob_zero")
    assert hasattr(same, "prob_zero") == selects == ("P(=0)" in str(same.summary(direction=True)))
    if selects:
        np.testing.assert_allclose(same.prob_zero, one.prob_zero)
    assert np.abs(np.asarray(same.between_share)).max() < 1e-12


def test_contrasts_and_predictions(pooled):
    one, target = pooled.fits[0], {}
    if not one.model.one_target:
        target = {"target": "z"}
    table = pooled.contrast({"first": "a - d", "second": "a"}, **target)
    each = [fitted.contrast({"first": "a - d", "second": "a"}, **target) for fitted in pooled.fits]
    for name in ("mean", "prob_positive"):
        np.testing.assert_allclose(table[name], np.mean([frame[name] for frame in each], axis=0))
    ends = pooled.conf_int()
    ends = ends["z"] if target else ends
    np.testing.assert_allclose(table.loc["second", ["lower", "upper"]], ends.loc["a"], rtol=1e-6, atol=1e-9)
    new = completed(seed=9)[0].head(4)
    prediction = pooled.get_prediction(new, **target).summary_frame(0.1)
    expected = np.mean([np.asarray(fitted.predict(new)).reshape(4, -1)[:, -1] for fitted in pooled.fits], axis=0)
    np.testing.assert_allclose(prediction["mean"], expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(pooled.predict(new)).reshape(4, -1)[:, -1], expected)
    same = pool([one, one]).get_prediction(new, **target)
    alone = one.get_prediction(new).conf_int(alpha=0.1)
    alone = alone[:, -1] if target else alone
    np.testing.assert_allclose(same.conf_int(alpha=0.1), alone, rtol=1e-6, atol=1e-7)
    missing = new.assign(d=[np.nan, 1, 2, 3])
    assert (
        pooled.get_prediction(missing, **target).summary_frame().isna().any(axis=1).tolist() == [True] + [False] * 3
    )


def of(pooled):
    """The target, where there are several."""
    return {} if pooled.fits[0].model.one_target else {"target": "z"}


def spread(tables):
    """Standard deviation of the equal-weight mixture of what tables of several fits have."""
    mean = np.mean([table["mean"] for table in tables], axis=0)
    second = np.mean([table["sd"] ** 2 + table["mean"] ** 2 for table in tables], axis=0)
    return np.sqrt(second - mean**2)


@pytest.mark.parametrize("ask", ["effects", "effects of one", "grid", "observed", "linear"])
def test_effects_and_predictions_are_mixtures(pooled, ask):
    call = {
        "effects": lambda res: res.effects(alpha=0.1, **of(pooled)),
        "effects of one": lambda res: res.effects("a", values=(0, 1), alpha=0.1, **of(pooled)),
        "grid": lambda res: res.predictions({"a": [0.0, 0.5]}, alpha=0.1, **of(pooled)),
        "observed": lambda res: res.predictions({"a": [0.0, 0.5]}, at="observed", alpha=0.1, **of(pooled)),
        "linear": lambda res: res.effects("a", which="linear", alpha=0.1, **of(pooled)),
    }[ask]
    found, each = call(pooled), [call(one) for one in pooled.fits]
    drawn = np.asarray(found.get("mcse", 0.0)) * 5 * np.sqrt(2)
    assert (np.abs(found["mean"] - np.mean([table["mean"] for table in each], axis=0)) <= drawn + 1e-9).all()
    np.testing.assert_allclose(found["sd"], spread(each), rtol=0.1 if np.any(drawn) else 1e-6)
    low, high = (np.stack([table[end] for table in each]) for end in ("lower", "upper"))
    slack = 0.1 * found["sd"] if np.any(drawn) else 1e-7
    assert (found["lower"] >= low.min(axis=0) - slack).all()
    assert (found["upper"] <= high.max(axis=0) + slack).all()
    one = pooled.fits[0]
    same, alone = call(pool([one, one])), call(one)
    assert list(same.columns) == list(alone.columns)
    np.testing.assert_allclose(same, alone, rtol=0.2 if np.any(drawn) else 1e-6, atol=0.1 if np.any(drawn) else 1e-7)


def test_predictions_have_the_columns_of_a_single_fit(pooled):
    one, new = pooled.fits[0], completed(seed=9)[0].head(4)
    same = pool([one, one, one])
    for exog in (new, None):
        wanted = one.get_prediction(exog).summary_frame(0.1)
        found = same.get_prediction(exog).summary_frame(0.1)
        assert list(found.columns) == list(wanted.columns)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    mixed = pooled.get_prediction(new).summary_frame(0.1)
    each = [fitted.get_prediction(new).summary_frame(0.1) for fitted in pooled.fits]
    for column in [name for name in mixed if "lower" in str(name) or "upper" in str(name)]:
        ends = np.stack([frame[column] for frame in each])
        assert ((ends.min(axis=0) - 1e-7 <= mixed[column]) & (mixed[column] <= ends.max(axis=0) + 1e-7)).all()
    if one.model.family == "binomial":
        linear = pooled.get_prediction(new, which="linear").summary_frame()
        np.testing.assert_allclose(linear["mean"], pooled.predict(new, which="linear"), rtol=1e-6)
    else:
        np.testing.assert_allclose(pooled.predict(new, which="linear"), pooled.predict(new))


@pytest.mark.parametrize("kind", ["ridge", "em", "ep", "exact", "learned"])
def test_each_kind_of_law_agrees_with_itself(kind):
    """Quantiles and exceedances of rows and of new observations, which pooling needs both."""
    one = fit(kind)(completed(1)[0])
    rows = one.model.new_rows(completed(seed=9)[0].head(6), True)[0]
    plain = one.law_of_rows(rows)
    for law in (plain, plain.with_noise(np.linspace(0.5, 2.0, 6))):
        at = law.ask(Ask((0.1, 0.8))).quantiles[:, 0]
        some = np.array([4, 1])
        for j, p in enumerate((0.1, 0.8)):
            np.testing.assert_allclose(law.above(some, at[some, j][:, None])[:, 0], 1 - p, atol=SAME)


def test_a_new_observation_has_the_noise_of_each_fit():
    pooled = fit_imputed(completed(3), fit("em"))
    new = completed(seed=9)[0].head(2)
    low = pooled.get_prediction(new).conf_int(obs=True, alpha=0.2)[:, 0]
    below = []
    for one in pooled.fits:
        frame = one.get_prediction(new)
        below.append(stats.norm.cdf((low - frame.predicted_mean) / frame.se_obs))
    np.testing.assert_allclose(np.mean(below, axis=0), 0.1, atol=1e-6)


def test_hyperparameters_are_mixtures(pooled):
    if pooled.fits[0].method == "ep":
        with pytest.raises(ValueError, match=re.escape("use fit('exact')")):
            pooled.hyperparameters()
        return
    found, each = pooled.hyperparameters(0.2), [one.hyperparameters(0.2) for one in pooled.fits]
    assert found.index.equals(each[0].index)
    assert list(found.columns) == list(each[0].columns)
    np.testing.assert_allclose(found["mean"], np.mean([table["mean"] for table in each], axis=0))
    same = pool([pooled.fits[0]] * 2).hyperparameters(0.2)
    np.testing.assert_allclose(same, each[0], rtol=5e-3)
    for end in ("lower", "upper"):
        ends = np.stack([table[end] for table in each])
        inside = (found[end] >= ends.min(axis=0) * 0.99) & (found[end] <= ends.max(axis=0) * 1.01)
        assert (inside | found[end].isna()).all()


def test_statements_on_several_coefficients(pooled):
    one = pooled.fits[0]
    if one.method == "ep":
        with pytest.raises(ValueError, match="needs the joint posterior of the columns"):
            pooled.joint_contrast("a, d")
        return
    found = pooled.joint_contrast(["a", "d"], **of(pooled))
    if "prob_zero" in found:
        each = [fitted.joint_contrast(["a", "d"])["prob_zero"] for fitted in pooled.fits]
        assert found["prob_zero"] == pytest.approx(np.mean(each))
        return
    same = pool([one, one]).joint_contrast(["a", "d"], **of(pooled))
    alone = one.joint_contrast(["a", "d"], **of(pooled))
    assert abs(same["content"] - alone["content"]) <= 5 * np.hypot(same["mcse"], alone["mcse"])


def test_scores_and_checks_of_observed_responses(pooled):
    one = pooled.fits[0]
    found, each = pooled.loo(**of(pooled)), [fitted.loo(**of(pooled)) for fitted in pooled.fits]
    wanted = np.log(np.mean([np.exp(score.pointwise / score.copies) for score in each], axis=0))
    np.testing.assert_allclose(found.pointwise / found.copies, wanted, rtol=1e-9)
    assert found.pointwise.index.equals(each[0].pointwise.index)
    same = pool([one, one]).loo(**of(pooled))
    assert same.elpd == pytest.approx(each[0].elpd)
    assert same.p_loo == pytest.approx(each[0].p_loo)
    table = pooled.ppc(draws=number(301, 31), **of(pooled))
    assert list(table.index) == ["mean", "sd", "min", "max"]
    assert table["observed"].equals(one.ppc(draws=2, **of(pooled))["observed"])
    assert table["p"].between(0, 1).all()
    if one.model.family != "binomial":
        np.testing.assert_allclose(pooled.pit(**of(pooled)), np.mean([score.pit for score in each], axis=0))


def test_scores_of_imputed_responses_are_refused():
    first, second = completed(2)
    second["y"] = second["y"] + 0.1
    pooled = fit_imputed([first, second], fit("em"))
    for call in (pooled.loo, pooled.pit, pooled.ppc):
        with pytest.raises(ValueError, match="the responses of these pooled fits differ"):
            call()


def test_pooled_fits_in_files(pooled, tmp_path):
    for options in ({}, {"remove_data": True}, {"format": "pickle"}):
        pooled.save(tmp_path / "pooled.fit", **options)
        found = pybayesridge.load(tmp_path / "pooled.fit", allow_code="format" in options)
        assert type(found) is type(pooled)
        assert [type(one) for one in found.fits] == [type(one) for one in pooled.fits]
        pd.testing.assert_frame_equal(found.conf_int(), pooled.conf_int())
        pd.testing.assert_frame_equal(found.contrast("a - d", **of(pooled)), pooled.contrast("a - d", **of(pooled)))
        if "remove_data" in options:
            assert found.model.endog is None
            with pytest.raises(ValueError, match="removed"):
                found.loo(**of(pooled))
    assert pooled.model.endog is not None


def test_findings_of_several_fits(pooled):
    every = {finding.code for one in pooled.fits for finding in one.findings}
    assert {finding.code for finding in pooled.findings} == every
    assert pooled.notes == [finding.sentence for finding in pooled.findings]


def test_pictures(pooled):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for draw in (
        lambda: pooled.plot_effect("g", **of(pooled)),
        lambda: pooled.plot_coefficients(**of(pooled)),
        lambda: pooled.plot_ppc("mean", draws=20, **of(pooled)),
    ):
        assert draw().get_title()
        pyplot.close("all")
    if pooled.fits[0].model.family != "binomial":
        assert pooled.plot_pit(**of(pooled)).get_title()
    pyplot.close("all")


def test_what_single_fits_alone_have_is_named(pooled):
    with pytest.raises(
        AttributeError, match=re.escape("ask the fits of the completed data sets, as in pooled.fits[0].")
    ):
        _ = pooled.fittedvalues
    with pytest.raises(AttributeError, match="PooledResults object has no attribute 'paramz'"):
        _ = pooled.paramz
    assert not hasattr(pooled, "_repr_latex_")
    if pooled.fits[0].model.family == "binomial":
        with pytest.raises(ValueError, match=r"pit\(\) is for Gaussian responses: check others by plot_calibration"):
            pooled.pit()


@pytest.mark.parametrize("kind", ["targets", "exact", "binary"])
def test_a_report_has_the_pooled_numbers(kind, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    pooled = fit_imputed(completed(2), fit(kind))
    page = pooled.report(tmp_path / "report.html", alpha=0.1).read_text(encoding="utf-8")
    assert "Completed data sets" in page
    assert "fitted to each of 2 completed data sets" in page
    assert "leave-one-out predictive score" in page
    shown = np.array([float(value) for value in re.findall(r'data-value="([^"]*)"', page)])
    own = [pooled.params, pooled.bse, pooled.between_share, pooled.conf_int(0.1)]
    wanted = [*own, pooled.inclusion_prob] if kind == "exact" else own
    for values in wanted:
        assert np.abs(values.to_numpy().reshape(-1, 1) - shown).min(axis=1).max() < SHOWN


def test_a_report_where_responses_were_imputed(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    sets = completed(2)
    sets[1]["y"] += 0.1 * (np.arange(N) < 3)
    page = fit_imputed(sets, fit("em")).report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "There is no leave-one-out predictive score: " in page
    assert "There are no predictive checks: " in page


def test_groups(pooled):
    if hasattr(pooled.fits[0], "inclusion_prob"):
        wanted = np.mean([one.group_inclusion_prob for one in pooled.fits], axis=0)
        np.testing.assert_allclose(pooled.group_inclusion_prob, wanted)
    else:
        with pytest.raises(AttributeError, match="SpikeSlab"):
            _ = pooled.group_inclusion_prob


def test_tables(pooled):
    text = str(pooled.summary(direction=True))
    assert "Pooled" in text
    assert "P(>0)" in text
    assert f"Pooled posterior of {M} fits" in text
    frame = pooled.tidy()
    one = pooled.fits[0].tidy()
    assert set(one.columns) | {"between_share"} == set(frame.columns)
    np.testing.assert_allclose(frame["estimate"], np.asarray(pooled.params).ravel(order="F"))
    if hasattr(pooled.fits[0], "inclusion_prob"):
        wanted = np.mean([fitted.inclusion_prob for fitted in pooled.fits], axis=0)
        np.testing.assert_allclose(pooled.inclusion_prob, wanted)
    else:
        with pytest.raises(AttributeError, match="SpikeSlab"):
            _ = pooled.inclusion_prob


@only_thorough
@pytest.mark.parametrize("kind", ["binary selection", "learned"])
def test_selection_by_states(kind):
    pooled = fit_imputed(completed(2), fit(kind))
    np.testing.assert_allclose(pooled.params, np.mean([one.params for one in pooled.fits], axis=0))
    ends = pooled.conf_int()
    assert (ends.iloc[:, 0] <= pooled.params).all()
    assert (ends.iloc[:, 1] >= pooled.params).all()
    unit = pooled.bse.max()
    for end, tail in ((0, 0.025), (1, 0.975)):
        at = ends.iloc[:, end].to_numpy()
        low, high = (
            1 - np.mean([exceedance(one, np.eye(5), at + side * unit, 0) for one in pooled.fits], axis=0)
            for side in (-1e-6, 1e-6)
        )
        assert ((low - 1e-6 <= tail) & (tail <= high + 1e-6)).all()


@pytest.mark.parametrize("seed", share(range(10), 5))
def test_quantiles_of_far_components(seed):
    """Normal mixtures whose components overlap, or are far apart, or have widths of other orders of magnitude."""
    rng = np.random.default_rng(seed)
    center, width = 10.0 ** rng.uniform(-3, 3, (3, 20)), 10.0 ** rng.uniform(-4, 2, (3, 20))
    for p in (0.001, 0.05, 0.4):
        each = center + width * stats.norm.ppf(p)

        def above(which, x):
            return stats.norm.sf((x - center[:, which]) / width[:, which]).mean(axis=0)

        found = quantiles(above, each, np.full(20, p))
        step = 2e-7 * np.ptp(each, axis=0)
        low, high = (1 - above(np.arange(20), found + side * step) for side in (-1, 1))
        assert ((low <= p) & (p <= high)).all()


def test_fits_without_posterior_means_cannot_be_pooled():
    x = np.column_stack([np.linspace(-1, 1, 12), np.cos(np.arange(12))])
    apart = BayesRidge((x[:, 0] > 0).astype(float), x, family="binomial").fit()
    mixed = BayesRidge(np.arange(12) % 2.0, x, family="binomial").fit()
    assert pool([mixed, mixed]).converged
    for fits, which in (([mixed, apart], 1), ([apart, mixed], 0)):
        with pytest.raises(
            ValueError, match=re.escape(f"fits[{which}] has no posterior means, which cannot be pooled")
        ):
            pool(fits)


def test_what_cannot_be_pooled():
    first, second, third = completed(3)
    ridge = fit("em")
    with pytest.raises(ValueError, match="at least two results"):
        pool([ridge(first)])
    with pytest.raises(ValueError, match="at least two results"):
        pool([ridge(first), "fit"])
    others = {
        "their model": fit("ep")(second),
        "method": fit("ridge")(second),
        "responses": BayesRidge.from_formula("z ~ a + `b c` + d + g", second).fit("em"),
        "columns": BayesRidge.from_formula("y ~ a + d + g", second).fit("em"),
        "number of rows": ridge(second.head(30)),
    }
    for what, other in others.items():
        with pytest.raises(ValueError, match=re.escape(f"fits[1] and fits[0] differ in {what}")):
            pool([ridge(first), other])
    bare = ridge(third)
    bare.remove_data(row_space=False)
    with pytest.raises(ValueError, match="saved without the space of the rows"):
        pool([ridge(first), bare])
    third.loc[2, "d"] = np.nan
    with pytest.raises(ValueError, match=r"data_sets\[1\] still has missing values in 1 row"):
        fit_imputed([first, third], ridge)
    third["d"] = "text"
    with pytest.raises(ValueError, match=r"data_sets\[1\]: "):
        fit_imputed([first, third], lambda data: BayesRidge(data["y"], data[["a", "d"]]).fit("em"))
    with pytest.raises(ValueError, match="returns BayesRidge, not results"):
        fit_imputed([first, third], lambda data: BayesRidge(data["y"], data[["a"]]))
    with pytest.raises(ValueError, match="fit must be a function"):
        fit_imputed([first], None)
    with pytest.raises(ValueError, match="data_sets must be a list of data sets, not one DataFrame"):
        fit_imputed(first, ridge)
    with pytest.raises(ValueError, match="at least two results"):
        fit_imputed([first], ridge)
    assert pybayesridge.pool is pool


@pytest.mark.parametrize("kind", KINDS)
def test_means_do_not_depend_on_what_else_is_asked(kind):
    one = fit(kind)(completed(1)[0])
    law = one.law_of_rows(one.model.new_rows(completed(seed=9)[0].head(3), True)[0])
    whole, alone = law.ask(Ask((0.5,), above=True)), law.ask(Ask((0.5,), sd=False))
    np.testing.assert_allclose(alone.mean, whole.mean, rtol=SAME)
    np.testing.assert_allclose(alone.quantiles, whole.quantiles, rtol=SAME)


@pytest.fixture(scope="module", params=["y ~ `b c` + (1 | g) + (1 | h)", "y ~ a + (d | h)"])
def banded(request):
    out = []
    for data in completed(2):
        data["h"] = np.arange(N) % 5
        data["y"] += np.repeat([0.0, 1.0, 2.0, -1.0, -2.0], N // 5)[np.argsort(data["h"], kind="stable").argsort()]
        out.append(BayesRidge.from_formula(request.param, data, unpenalized="fixed").fit("exact"))
    return pool(out)


def test_variance_components_are_those_of_the_mixture_over_the_fits(banded):
    found, each = banded.variance_components(0.2), [one.variance_components(0.2) for one in banded.fits]
    for name in ("mean", "share", "prob_below_1pct"):
        np.testing.assert_allclose(found[name], sum(one[name] for one in each) / 2)
    square = sum(one["sd"] ** 2 + one["mean"] ** 2 for one in each) / 2
    np.testing.assert_allclose(found["sd"], np.sqrt(square - found["mean"] ** 2))
    probabilities = np.linspace(0.001, 0.999, 999)
    tables = [one.component_quantiles(probabilities) for one in banded.fits]
    for row, name in enumerate(found.index):
        for k, prefix in enumerate(("", "share_")):
            for end, level in {"lower": 0.1, "upper": 0.9, "bound": 0.8}.items():
                value = found.loc[name, prefix + end]
                quantiles = [table[row, k] for table in tables]
                if np.isnan(quantiles).all() or (end == "bound" and name.startswith("cor(")):
                    assert np.isnan(value)
                    continue
                inside = [np.interp(value, q, probabilities, left=0.0, right=1.0) for q in quantiles]
                assert np.mean(inside) == pytest.approx(level, abs=PROBABILITY)
    same = pool([banded.fits[0]] * 2).variance_components(0.2)
    np.testing.assert_allclose(same, each[0], rtol=TABLE, atol=TABLE)


def test_hyperparameters_of_bands_are_those_of_the_mixture_over_the_fits(banded):
    found, each = banded.hyperparameters(0.2), [one.hyperparameters(0.2) for one in banded.fits]
    np.testing.assert_allclose(found["mean"], sum(one["mean"] for one in each) / 2)
    probabilities = np.linspace(0.001, 0.999, 999)
    tables = [one.hyperparameter_quantiles(probabilities)[1] for one in banded.fits]
    for row, name in enumerate(found.index):
        for end, level in {"median": 0.5, "lower": 0.1, "upper": 0.9}.items():
            inside = [np.interp(found.loc[name, end], q[row], probabilities, left=0.0, right=1.0) for q in tables]
            assert np.mean(inside) == pytest.approx(level, abs=PROBABILITY)
    same = pool([banded.fits[0]] * 2).hyperparameters(0.2)
    np.testing.assert_allclose(same, each[0], rtol=TABLE, atol=TABLE)


def test_random_effects_are_those_of_the_mixture_over_the_fits(banded):
    found, each = banded.random_effects("h", 0.2), [one.random_effects("h", 0.2) for one in banded.fits]
    pd.testing.assert_frame_equal(found.iloc[:, :3], each[0].iloc[:, :3])
    np.testing.assert_allclose(found["mean"], sum(one["mean"] for one in each) / 2, atol=1e-12)
    square = sum(one["sd"] ** 2 + one["mean"] ** 2 for one in each) / 2
    np.testing.assert_allclose(found["sd"], np.sqrt(square - found["mean"] ** 2))
    columns = found.index.get_level_values("column")
    np.testing.assert_allclose(found[["lower", "upper"]], banded.conf_int(0.2).loc[columns].to_numpy(), rtol=1e-7)


def test_fits_with_one_penalty_have_no_components():
    rng = np.random.default_rng(0)
    one = BayesRidge(rng.normal(size=20), rng.normal(size=(20, 3))).fit()
    both = pool([one, one])
    for name in ("variance_components", "random_effects"):
        with pytest.raises(AttributeError, match=f"{name}.*several penalties"):
            getattr(both, name)()
