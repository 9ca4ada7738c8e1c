"""The ridge for counts as users call it."""

import importlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import poisson

from pybayesridge import (
    BayesRidge,
    ConvergenceWarning,
    SpikeSlab,
    compare_evidence,
    compare_loo,
    compare_models,
    fit_imputed,
    load,
    stack,
)
from pybayesridge.cli.as_json import as_json
from pybayesridge.poisson.likelihood import from_counts
from pybayesridge.results import export_fields
from pybayesridge.results.export import export

FLAT = 1e-6
"""Beside maximum likelihood, in standard errors: the penalty that is left moves coefficients by 2e-8 of them."""

ROUNDING = 1e-13

SAME = 4e-5
"""The same fit by another way: EP stops at 3e-5 of a standard deviation; 3.6e-6 is the worst seen."""

MEAN, SD = 0.02, 0.04
"""EP beside the integral over a grid, in posterior standard deviations and relative: seen are .007 and .039."""


REFITTED = 0.2
"""Leave-one-out densities of selections by cavities, hyperparameters those of all rows, beside refits; seen .022."""

COPIED = 0.05
"""A row of weight 2 beside two rows: EP has one site for the first; seen are 6e-5."""

LARGE = 1e-3
"""EP beside Laplace for large counts, in standard deviations and nats; 3e-5 is the worst seen."""


def frame(n=90, seed=2, level=1.0):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    out["g"] = np.resize(["u", "v", "w"], n)
    out["t"] = rng.gamma(3, 1 / 3, n)
    out["w"] = rng.integers(1, 4, n)
    out["y"] = rng.poisson(level * out["t"] * np.exp(0.5 * out["a"] + 0.4 * (out["g"] == "v")))
    return out


DATA = frame()
FORMULA = "y ~ a + b + C(g)"


def fit(formula=FORMULA, data=DATA, method=None, *, exposure="t", weights=None, **options):
    model = BayesRidge.from_formula(formula, data, family="poisson", exposure=exposure, weights=weights)
    return model.fit(method, **options)


@pytest.fixture(scope="module")
def fitted():
    return fit()


@pytest.mark.parametrize("level", [0.2, 3.0, 1e5])
def test_the_flat_limit_is_maximum_likelihood(level):
    sm = pytest.importorskip("statsmodels.api")
    data = frame(level=level)
    res = fit("y ~ a + b", data, "fixed", lam=1e-7, solver="laplace", weights="w")
    y, exog, t, w = (data[name].to_numpy() for name in ("y", ["a", "b"], "t", "w"))
    family = sm.families.Poisson()
    expected = sm.GLM(y, sm.add_constant(exog), family=family, exposure=t, freq_weights=w).fit(tol=1e-12)
    np.testing.assert_allclose((res.params.to_numpy() - expected.params) / expected.bse, 0, atol=FLAT)
    np.testing.assert_allclose(res.bse.to_numpy(), expected.bse, rtol=FLAT)


def by_grid(x, y, t):
    """Mean and sd of the slope with the intercept, the slope and log tau2 integrated over a grid."""
    z, scale = (x - x.mean()) / x.std(), np.log1p(1 / y.mean())
    level = np.log(y.sum() / t.sum())
    g, b = level + np.linspace(-6, 3, 201) / max(y.sum(), 1) ** 0.5 * 1.5, np.linspace(-4, 4, 801)
    eta = g[:, None, None] + b[:, None] * z
    given_b = logsumexp((y * eta - t * np.exp(eta)).sum(-1), axis=0)
    l = np.log(scale) + np.linspace(-16, 16, 161)
    share = l - np.log(scale)
    log_prior = 0.5 * share - 1.5 * np.logaddexp(0, share)
    half, root = 0.5 * (b[1] - b[0]), np.exp(0.5 * l)[:, None]
    inside = ndtr((b + half) / root) - ndtr((b - half) / root)
    log_mass = np.where(inside > 0, np.log(np.maximum(inside, 1e-300)), log_ndtr(-(np.abs(b) - half) / root))
    log_weight = log_prior[:, None] + log_mass + given_b
    weight = np.exp(log_weight - log_weight.max()).sum(axis=0)
    weight /= weight.sum()
    mean = weight @ b
    return mean / x.std(), np.sqrt(weight @ b**2 - mean**2) / x.std()


@pytest.mark.parametrize(("n", "level", "slope"), [(20, 0.5, 0.0), (20, 3.0, 0.5), (100, 0.3, 0.5), (100, 20.0, 0.1)])
def test_one_column_beside_the_integral_over_a_grid(n, level, slope):
    rng = np.random.default_rng(5)
    x, t = rng.normal(size=n), rng.gamma(3, 1 / 3, size=n)
    y = rng.poisson(level * t * np.exp(slope * x)).astype(float)
    mean, sd = by_grid(x, y, t)
    res = BayesRidge(y, x[:, None], family="poisson", exposure=t).fit()
    assert abs(res.params.iloc[1] - mean) < MEAN * sd
    assert res.bse.iloc[1] == pytest.approx(sd, rel=SD)


def test_weights_are_rows_and_columns_have_no_scale(fitted):
    rows = DATA.loc[DATA.index.repeat(DATA["w"])].reset_index(drop=True)
    # EP has one site for all copies of a row; Laplace's approximation does not depend on that.
    weighted, repeated = fit(method="laplace", weights="w"), fit(data=rows, method="laplace")
    np.testing.assert_allclose(weighted.params, repeated.params, atol=SAME)
    assert weighted.log_evidence == pytest.approx(repeated.log_evidence, abs=1e-5)
    # Of a weighted row one copy is left out by its likelihood, of repeated ones by its site.
    assert weighted.loo_log_score == pytest.approx(repeated.loo_log_score, abs=2e-3)
    assert fit(weights="w").loo().elpd == pytest.approx(fit(data=rows).loo().elpd, abs=0.01)
    assert f"score of {len(DATA)} rows ({len(rows)} with copies by weights)" in str(weighted.loo())
    assert f"score of {len(rows)} rows\n" in str(repeated.loo())
    assert weighted.nobs == len(DATA)
    scaled = fit(data=DATA.assign(a=DATA["a"] * 1000 + 5))
    assert scaled.params["a"] * 1000 == pytest.approx(fitted.params["a"], abs=SAME)


def test_exposures_shift_the_intercept_alone(fitted):
    more = fit(data=DATA.assign(t=DATA["t"] * 1000))
    np.testing.assert_allclose(more.params[1:], fitted.params[1:], atol=SAME)
    assert more.params.iloc[0] + np.log(1000) == pytest.approx(fitted.params.iloc[0], abs=SAME)
    assert more.log_evidence == pytest.approx(fitted.log_evidence, abs=1e-6)
    np.testing.assert_allclose(more.predict(), fitted.predict(), rtol=1e-5)


def test_predictions_are_medians_and_take_exposures(fitted):
    new = DATA.iloc[:4]
    np.testing.assert_allclose(fitted.predict(new, exposure="t"), fitted.fittedvalues[:4], rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(new, exposure=2.0), 2 * fitted.predict(new))
    shown = fitted.get_prediction(new, exposure=new["t"]).summary_frame()
    linear = fitted.get_prediction(new, which="linear").summary_frame()
    np.testing.assert_allclose(shown["mean_ci_upper"], new["t"] * np.exp(linear["mean_ci_upper"]))
    assert (shown["mean_se"] > 0).all()
    of_rows = fitted.get_prediction(new, which="linear", exposure="t").summary_frame()
    np.testing.assert_allclose(np.exp(of_rows["mean_ci_upper"]), shown["mean_ci_upper"])
    np.testing.assert_allclose(of_rows["mean_se"], linear["mean_se"])
    added = fitted.predict(new, which="linear", exposure="t")
    np.testing.assert_allclose(added - np.log(new["t"]), fitted.predict(new, which="linear"))
    np.testing.assert_allclose(fitted.predict(which="linear")[:4], added)
    gaps = new.assign(a=[0.0, np.nan, 1.0, 2.0])
    assert fitted.predict(gaps).isna().tolist() == [False, True, False, False]
    np.testing.assert_allclose(fitted.resid, DATA["y"] - fitted.fittedvalues)
    for exposure, message in (("q", "not a column"), ([1, 0, 2, 3], "must be positive"), (-1.0, "exposure must be")):
        with pytest.raises(ValueError, match=message):
            fitted.predict(new, exposure=exposure)
    with pytest.raises(ValueError, match="requires a fit with family='poisson'"):
        BayesRidge(DATA["y"] > 0, DATA[["a"]], family="binomial").fit("laplace").predict(DATA[["a"]], exposure=1.0)


def test_leave_one_out_beside_fits_without_the_row(fitted):
    given = fit(method="fixed", lam=5.0)
    for i in (0, 7):
        rest = fit(data=DATA.drop(index=i), method="fixed", lam=5.0)
        law = rest.get_prediction(DATA.iloc[[i]], which="linear")
        z = np.linspace(-8, 8, 2001)
        density = np.exp(-0.5 * z**2)
        mean = DATA["t"][i] * np.exp(law.predicted_mean[0] + law.se[0] * z)
        expected = np.log((poisson.pmf(DATA["y"][i], mean) * density).sum() / density.sum())
        # Columns are standardised by the rows that are there.
        assert given.loo().pointwise[i] == pytest.approx(expected, abs=0.02)
    assert fitted.loo().elpd == pytest.approx(fitted.loo_log_score * fitted.nobs)
    assert 0 < fitted.loo_deviance < 1
    assert fitted.loo_means.shape == (len(DATA),)


def test_rate_ratios_effects_and_checks(fitted):
    ratios = fitted.rate_ratios()
    np.testing.assert_allclose(ratios["rate_ratio"], np.exp(fitted.params))
    assert fitted.rate_ratios(terms="C(g)").index.tolist() == ["C(g)[T.v]", "C(g)[T.w]"]
    assert "odds_ratios" not in dir(fitted)
    assert "rate_ratios" in dir(fitted)
    with pytest.raises(AttributeError, match="odds_ratios is an attribute of fits with family='binomial'"):
        fitted.odds_ratios()
    # Beside draws: the average of the rates' derivatives.
    drawn = fitted.sample(4000, rng=1)
    design = np.column_stack([np.ones(len(DATA)), DATA["a"], DATA["b"], DATA["g"] == "v", DATA["g"] == "w"])
    rates = np.exp(design.astype(float) @ drawn.to_numpy().T)
    slope = rates.mean(axis=0) * drawn["a"].to_numpy()
    effect = fitted.effects("a").iloc[0]
    assert effect["mean"] == pytest.approx(np.median(slope), abs=0.1 * slope.std())
    assert effect[["lower", "upper"]].to_numpy() == pytest.approx(
        np.quantile(slope, [0.025, 0.975]), abs=0.3 * slope.std()
    )
    assert fitted.ppc().index.tolist() == ["mean", "sd", "max", "zeros", "dispersion"]
    rng = np.random.default_rng(3)
    wild = fit(data=DATA.assign(y=rng.poisson(rng.gamma(0.3, 5, len(DATA)))), exposure=None)
    assert (wild.ppc(["zeros", "dispersion"], draws=200)["p"] < 0.01).all()


def test_files_json_report_and_comparison(fitted):
    file = io.BytesIO()
    fitted.save(file, remove_data=True)
    file.seek(0)
    back = load(file)
    new = DATA.iloc[:3]
    np.testing.assert_allclose(back.predict(new), fitted.predict(new))
    assert back.loo_deviance == fitted.loo_deviance
    found = as_json(fitted, "ridge", alpha=0.05, warnings=[])
    jsonschema = pytest.importorskip("jsonschema")
    from importlib.resources import files

    schema = json.loads(files("pybayesridge.cli").joinpath("result.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema)
    assert found["targets"][0]["coefficients"][1]["rate_ratio"] == pytest.approx(np.exp(fitted.params["a"]))
    smaller = fit("y ~ b")
    assert compare_loo([fitted, smaller]).index[0] == "(1)"
    # Exposures are of a model: the true ones predict better than none.
    assert compare_loo([fit(exposure=None), fitted]).index[0] == "(2)"
    assert compare_evidence([fit(exposure=None), fitted]).index[0] == "(2)"
    assert "rate" not in str(compare_models([fitted, smaller]))


def test_the_report_has_its_words(fitted, tmp_path):
    for package in ("jinja2", "matplotlib"):
        pytest.importorskip(package)
    path = tmp_path / "counts.html"
    fitted.report(path)
    text = path.read_text(encoding="utf-8")
    assert "Poisson" in text
    assert "Rate ratios per unit of the column" in text
    assert "overall rate" in text
    assert "probabilit" not in text.split("<h2")[0].lower()


def test_pooled_and_stacked(fitted):
    alike = fit_imputed([DATA, DATA], lambda each: fit(data=each, method="laplace"))
    one = fit(method="laplace")
    np.testing.assert_allclose(alike.predict(DATA[:3]), one.predict(DATA[:3]), rtol=1e-6)
    np.testing.assert_allclose(alike.rate_ratios(), one.rate_ratios(), rtol=1e-4)
    with pytest.raises(ValueError, match="odds_ratios"):
        alike.odds_ratios()
    mixed = stack([fitted, one], weights=[0.5, 0.5])
    ends = np.stack([fitted.predict(), one.predict()])
    assert (mixed.predict() >= ends.min(axis=0) - 1e-9).all()
    assert (mixed.predict() <= ends.max(axis=0) + 1e-9).all()


def test_mixtures_take_exposures_and_have_those_of_each_fit(fitted):
    new = DATA[:3]
    one, other = fit(method="laplace"), fit(exposure=None, method="laplace")
    for mixed in (stack([one, one], weights=[0.5, 0.5]), fit_imputed([DATA, DATA], lambda each: fit(data=each))):
        rates, counts = mixed.predict(new), mixed.predict(new, exposure="t")
        np.testing.assert_allclose(counts, rates * new["t"], rtol=1e-9)
        found = mixed.get_prediction(new, exposure="t").summary_frame()
        np.testing.assert_allclose(found["mean"], counts, rtol=1e-9)
    # Of rows of the fits each has its own exposures.
    mixed = stack([one, other], weights=[0.5, 0.5])
    ends = np.stack([one.predict(), other.predict()])
    assert (mixed.predict() >= ends.min(axis=0) * (1 - 1e-9)).all()
    assert (mixed.predict() <= ends.max(axis=0) * (1 + 1e-9)).all()
    plain = BayesRidge(DATA["t"], DATA[["a", "b"]]).fit()
    with pytest.raises(ValueError, match="exposure requires fits with family='poisson'"):
        stack([plain, plain], weights=[0.5, 0.5]).predict(DATA[["a", "b"]], exposure=1.0)


@pytest.mark.parametrize("level", [1e8, 1e10])
def test_large_counts_lose_no_digits(level):
    # Relative to its noise a response of such counts is normal to 1e-4: both approximations have the same posterior.
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 4))
    y = rng.poisson(level * np.exp(0.3 * x @ [0.5, -0.3, 0.0, 0.1]))
    ep, laplace = (BayesRidge(y, x, family="poisson").fit(method) for method in ("ep", "laplace"))
    assert ep.converged
    assert laplace.converged
    np.testing.assert_allclose((ep.params - laplace.params) / laplace.bse, 0, atol=LARGE)
    np.testing.assert_allclose(ep.bse, laplace.bse, rtol=LARGE)
    assert ep.log_marginal == pytest.approx(laplace.log_marginal, abs=LARGE)
    one = int(np.argmax(y))
    with pytest.raises(ValueError, match=r"above 1e\+11, where .* hardly any noise .*row\(s\) " + str(one)):
        BayesRidge(np.where(np.arange(60) == one, 1e12, y), x, family="poisson")


def changed(**values):
    return BayesRidge.from_formula(FORMULA, DATA.assign(**values), family="poisson", exposure="t")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: changed(y=DATA["y"] - 1), r"endog is negative: row\(s\)"),
        (lambda: changed(y=DATA["y"] + 0.5), "endog has fractions .if these are rates"),
        (lambda: changed(y=0), "all counts are 0"),
        (
            lambda: changed(t=DATA["t"].where(DATA.index != 3, 0.0)),
            r"exposure must be positive and finite.*row\(s\) 3",
        ),
        (lambda: BayesRidge(DATA["y"], DATA[["a"]], family="poisson", exposure=[1.0]), "exposure has 1 entries"),
        (
            lambda: BayesRidge(DATA["y"], DATA[["a"]], family="poisson", exposure=DATA["t"].where(DATA["t"] < 1)),
            "exposure must be positive and finite",
        ),
        (lambda: BayesRidge(DATA["y"], DATA[["a"]], exposure=DATA["t"]), "exposure requires family='poisson'"),
        (lambda: BayesRidge(DATA[["y", "w"]], DATA[["a"]], family="poisson"), "endog has 2 columns"),
        (lambda: BayesRidge(DATA["y"], DATA[["a"]], family="poisson", link="sqrt"), "link must be 'log', not 'sqrt'"),
        (
            lambda: SpikeSlab(DATA["y"], DATA[["a"]], family="poisson").fit("exact"),
            "method='exact' is not available for counts: use method='ep'",
        ),
        (lambda: SpikeSlab(DATA["y"], DATA[["a"]], exposure=DATA["t"]), "exposure requires family='poisson'"),
        (lambda: fit(method="exact"), "has no closed form"),
        (lambda: fit(data=DATA.assign(y=DATA["y"].where(DATA.index != 50, 1e9))), "what some rows say outweighs"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_missing_exposures_are_dropped_by_formulas():
    assert changed(t=DATA["t"].where(DATA.index != 3)).nobs == len(DATA) - 1


def test_columns_for_which_no_event_was_seen():
    data = DATA.assign(z=(DATA.index < 4).astype(float), y=DATA["y"].where(DATA.index >= 4, 0))
    with pytest.raises(ValueError, match="'z' separate the counts: all 4 of the 90 rows"):
        BayesRidge.from_formula("y ~ a + z", data, family="poisson", unpenalized="z").fit()
    res = BayesRidge.from_formula("y ~ a + z", data, family="poisson").fit()
    assert res.converged
    assert res.params["z"] < -0.5
    assert res.predict(data)[:4].max() < 1
    assert np.isfinite(res.loo().elpd)


def test_more_columns_than_rows():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(30, 60))
    y = rng.poisson(np.exp(0.5 + 0.5 * x[:, 0]))
    res = BayesRidge(y, x, family="poisson").fit()
    assert res.converged
    assert np.isfinite(res.predict(rng.normal(size=(3, 60)))).all()


def test_draws_and_means_of_the_likelihood():
    rows = from_counts(np.array([0.0, 3.0]), np.array([1.0, 2.0]), None)
    drawn = rows.draws(np.zeros((2, 4000)), np.random.default_rng(0))
    assert drawn.mean(axis=1) == pytest.approx([1.0, 2.0], abs=0.1)
    assert rows.latent_variance == pytest.approx(np.log1p(1 / 1.5))
    expected = poisson.logpmf(rows.counts, rows.exposure * np.exp(0.3))
    np.testing.assert_allclose(rows.values(np.full(2, 0.3)) + rows.log_constants(), expected)


def test_objects_of_statsmodels_and_of_scikit_learn():
    families = pytest.importorskip("statsmodels.genmod.families")
    x = DATA[["a", "b"]]
    by_name = BayesRidge(DATA["y"], x, family="poisson").fit("laplace")
    by_object = BayesRidge(DATA["y"], x, family=families.Poisson()).fit("laplace")
    np.testing.assert_array_equal(by_object.params, by_name.params)
    pytest.importorskip("sklearn")
    sklearn = importlib.import_module("pybayesridge.sklearn")
    regressor = sklearn.BayesRidgeRegressor("laplace", family="poisson").fit(x, DATA["y"])
    np.testing.assert_allclose(regressor.predict(x), by_name.predict())
    with pytest.raises(ValueError, match="return_std is for family='gaussian'"):
        regressor.predict(x, return_std=True)
    with pytest.raises(ValueError, match="use BayesRidgeClassifier"):
        sklearn.BayesRidgeRegressor(family="binomial").fit(x, DATA["y"])


@pytest.fixture(scope="module")
def selected():
    return SpikeSlab.from_formula("y ~ a + b + g", DATA, family="poisson", exposure="t").fit()


def test_selection(selected):
    """Answers are of the model with exposures, and those that need the joint posterior say what to ask instead."""
    assert selected.method == "ep"
    assert selected.converged
    assert selected.inclusion_prob["a"] > 0.9
    assert selected.inclusion_prob["b"] < 0.5
    assert selected.n_events == DATA["y"].sum()
    per_unit = selected.predict(DATA)
    np.testing.assert_allclose(selected.fittedvalues, DATA["t"] * per_unit, rtol=1e-12)
    np.testing.assert_allclose(selected.predict(DATA, exposure="t"), selected.fittedvalues, rtol=1e-12)
    ends = selected.get_prediction(DATA.head(3), which="linear").summary_frame()
    means = selected.get_prediction(DATA.head(3), exposure=2.0).summary_frame()
    np.testing.assert_allclose(means["mean_ci_upper"], 2 * np.exp(ends["mean_ci_upper"]), rtol=1e-12)
    ratios = selected.rate_ratios()
    np.testing.assert_allclose(ratios["upper"], np.exp(selected.conf_int()[1]), rtol=1e-12)
    assert any("only method for family='poisson'" in text for text in selected.notes)
    for name in ("models", "credible_sets", "hyperparameters"):
        with pytest.raises(ValueError, match="which expectation propagation does not give"):
            getattr(selected, name)()
    with pytest.raises(ValueError, match="which expectation propagation does not give"):
        selected.joint_contrast("g")


def test_a_note_on_few_events_says_how_many_rows_there_are():
    x = np.random.default_rng(0).normal(size=1200)
    for count, words in ((3, "are only 3 events"), (1, "is only 1 event")):
        counts = np.repeat([1.0, 0.0], [count, 1200 - count])
        res = BayesRidge(counts, x, family="poisson").fit("laplace")
        assert f"There {words} in 1,200 rows" in str(res.notes)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("method", "advice"),
    [("ep", "raise maxiter or tol, or use method='laplace'"), ("laplace", "raise maxiter or tol")],
)
def test_fits_that_have_not_converged_are_advised_what_is_another_method(method, advice):
    counts = np.repeat([3.0, 1.0, 0.0], [4, 8, 8])
    model = BayesRidge(counts, np.random.default_rng(0).normal(size=20), family="poisson")
    with pytest.warns(ConvergenceWarning, match=rf"{advice}\."):
        assert not model.fit(method, maxiter=1).converged


def test_all_columns_in_is_the_ridge(selected):
    """With a prior probability of 1 and a given slab it is the ridge with a given penalty."""
    slab = 0.09
    kept = SpikeSlab.from_formula(
        "y ~ a + b", DATA, family="poisson", exposure="t", prior_inclusion=1.0, slab_var=slab
    )
    with pytest.raises(ValueError, match="no column can be both in and out"):
        kept.fit()
    p = {"a": 1.0, "b": 1 - 1e-12}
    kept = SpikeSlab.from_formula("y ~ a + b", DATA, family="poisson", exposure="t", prior_inclusion=p, slab_var=slab)
    ridge = BayesRidge.from_formula("y ~ a + b", DATA, family="poisson", exposure="t").fit("fixed", lam=1 / slab)
    first = kept.fit(tol=1e-8)
    np.testing.assert_allclose(first.params, ridge.params, rtol=0, atol=SAME * ridge.bse.max())
    np.testing.assert_allclose(first.bse, ridge.bse, rtol=SAME)
    rows = from_counts(DATA["y"], DATA["t"], None)
    assert abs(first.log_evidence + rows.log_constants().sum() - ridge.log_evidence) < SAME
    assert abs(first.loo().elpd - ridge.loo().elpd) < 1e-2


def test_selection_leave_one_out_is_that_of_refits(selected):
    found = selected.loo().pointwise
    for row in (0, 7, int(DATA["y"].argmax())):
        rest = DATA.drop(index=row)
        again = SpikeSlab.from_formula("y ~ a + b + g", rest, family="poisson", exposure="t").fit()
        drawn = again.get_prediction(DATA.loc[[row]], which="linear").summary_frame()
        nodes = drawn["mean"].iloc[0] + drawn["mean_se"].iloc[0] * np.polynomial.hermite_e.hermegauss(30)[0]
        share = np.polynomial.hermite_e.hermegauss(30)[1]
        one = poisson.logpmf(DATA["y"][row], DATA["t"][row] * np.exp(nodes))
        assert abs(found[row] - logsumexp(one, b=share / share.sum())) < REFITTED


def test_selection_elsewhere(selected, tmp_path):
    """Files, reports, JSON, priors, imputed data, weights."""
    pytest.importorskip("jinja2")
    selected.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit")
    np.testing.assert_allclose(again.predict(DATA.head()), selected.predict(DATA.head()), rtol=ROUNDING)
    assert again.summary().as_text() == selected.summary().as_text()
    selected.report(tmp_path / "report.html")
    assert "rate ratio" in (tmp_path / "report.html").read_text(encoding="utf-8").lower()
    shown = as_json(selected, "spikeslab", alpha=0.05, warnings=())["targets"][0]
    assert shown["family"] == "poisson"
    exported = export(selected)
    export_fields.check(exported)
    np.testing.assert_array_equal(exported["exposure"], DATA["t"])
    assert shown["coefficients"][1]["rate_ratio"] == pytest.approx(selected.rate_ratios()["rate_ratio"].iloc[1])
    assert set(selected.prior_sensitivity().columns) >= {"inclusion_half", "inclusion_double"}
    pooled = fit_imputed(
        [DATA, DATA], lambda each: SpikeSlab.from_formula("y ~ a + b + g", each, family="poisson", exposure="t").fit()
    )
    np.testing.assert_allclose(pooled.params, selected.params, rtol=1e-12)
    doubled = SpikeSlab.from_formula(
        "y ~ a + b + g", DATA.assign(two=2.0), family="poisson", exposure="t", weights="two"
    )
    copied = SpikeSlab.from_formula("y ~ a + b + g", pd.concat([DATA, DATA]), family="poisson", exposure="t")
    first, second = doubled.fit(), copied.fit()
    assert first.n_events == second.n_events
    assert np.abs(first.inclusion_prob - second.inclusion_prob).max() < COPIED
