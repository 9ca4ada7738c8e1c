"""The ridge for negative binomial counts as users call it."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nbinom

from pybayesridge import (
    BayesRidge,
    compare_evidence,
    compare_loo,
    compare_models,
    fit_imputed,
    load,
    stack,
)
from pybayesridge.cli.as_json import as_json
from pybayesridge.results import export
from pybayesridge.results.export_fields import check

SAME = 1e-3
"""The same fit by another way, in posterior standard deviations: the sum over the dispersion has errors of 1e-4."""

OF_BANDS, DRAWN = 2e-3, 0.02
"""A band of all columns and a single penalty, in standard deviations; shares of draws."""

NEAR = 0.05
"""Other solvers and the penalty at one value, in standard deviations and relative: .025 is the largest seen."""


def frame(n=80, seed=3, alpha=0.5):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    out["g"] = np.resize(["u", "v", "w"], n)
    out["t"] = rng.gamma(3, 1 / 3, n)
    out["w"] = rng.integers(1, 4, n)
    mean = out["t"] * np.exp(1.0 + 0.5 * out["a"] + 0.4 * (out["g"] == "v"))
    return out.assign(y=rng.poisson(mean * rng.gamma(1 / alpha, alpha, n)))


DATA = frame()
FORMULA = "y ~ a + b + C(g)"


def fit(formula=FORMULA, data=DATA, method=None, *, family="negative-binomial", weights=None, options=None, **given):
    model = BayesRidge.from_formula(formula, data, family=family, exposure="t", weights=weights, **given)
    return model.fit(method, **(options or {}))


@pytest.fixture(scope="module")
def fitted():
    return fit()


@pytest.fixture(scope="module")
def poisson():
    return fit(family="poisson")


def agree(one, other, tolerance):
    np.testing.assert_allclose((one.params - other.params) / other.bse, 0, atol=tolerance)
    np.testing.assert_allclose(one.bse, other.bse, rtol=tolerance)


@pytest.mark.parametrize(
    ("method", "options"),
    [("laplace", {}), ("em", {"solver": "laplace"}), ("loocv", {}), ("fixed", {"lam": 12.0})],
)
def test_every_method_integrates_the_dispersion_out(fitted, method, options):
    other = fit(method=method, options=options)
    assert other.converged
    found, expected = (res.hyperparameters().loc["alpha"] for res in (other, fitted))
    np.testing.assert_allclose(np.log(found), np.log(expected), atol=0.1)
    assert "alpha" in str(other.summary())
    if method == "laplace":
        agree(other, fitted, NEAR)


def test_a_given_dispersion():
    sm = pytest.importorskip("statsmodels.api")
    res = fit(dispersion=0.5)
    assert res.sites_fit.shape is None
    assert "alpha" not in res.hyperparameters().index
    assert "alpha is given: 0.5" in str(res.summary())
    by_object = fit(family=sm.families.NegativeBinomial(alpha=0.5))
    np.testing.assert_array_equal(by_object.params, res.params)
    assert "dispersion=0.5" in by_object.recipe.code
    with pytest.raises(ValueError, match=r"dispersion=0\.3 contradicts that of the family, 0\.5"):
        fit(family=sm.families.NegativeBinomial(alpha=0.5), dispersion=0.3)


def test_with_next_to_no_penalty_it_is_maximum_likelihood():
    sm = pytest.importorskip("statsmodels.api")
    data = frame(n=400)
    res = fit(data=data, dispersion=0.5, method="fixed", options={"lam": 1e-8, "solver": "laplace"})
    glm = sm.GLM.from_formula(
        FORMULA, data, family=sm.families.NegativeBinomial(alpha=0.5), exposure=data["t"].to_numpy()
    ).fit()
    np.testing.assert_allclose((res.params - glm.params) / glm.bse, 0, atol=1e-4)
    np.testing.assert_allclose(res.resid_pearson, glm.resid_pearson, atol=1e-3)
    np.testing.assert_allclose(res.resid_deviance, glm.resid_deviance, atol=1e-3)
    free = fit(data=data, method="fixed", options={"lam": 1e-8})
    both = sm.NegativeBinomial.from_formula(FORMULA, data, exposure=data["t"].to_numpy()).fit(disp=0, maxiter=500)
    at, error = both.params["alpha"], both.bse["alpha"]
    assert abs(free.hyperparameters().loc["alpha", "median"] - at) < 0.3 * error


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_residuals_are_those_of_statsmodels(family):
    sm = pytest.importorskip("statsmodels.api")
    data = frame(n=300)
    data["yes"] = (data["y"] > 2).astype(int)
    name, of_statsmodels = ("y", sm.families.Poisson()) if family == "poisson" else ("yes", sm.families.Binomial())
    res = BayesRidge.from_formula(f"{name} ~ a + b", data, family=family).fit("fixed", lam=1e-8, solver="laplace")
    glm = sm.GLM.from_formula(f"{name} ~ a + b", data, family=of_statsmodels).fit()
    for which in ("resid_response", "resid_pearson", "resid_deviance"):
        own = getattr(res, which)
        assert own.index.equals(data.index)
        # Fitted values are averages over the posterior, or medians.
        np.testing.assert_allclose(own, getattr(glm, which), atol=0.1 * getattr(glm, which).std())


def test_without_dispersion_in_the_data_it_is_near_the_poisson_fit():
    rng = np.random.default_rng(0)
    data = frame(n=300)
    data["y"] = rng.poisson(data["t"] * np.exp(1.0 + 0.5 * data["a"]))
    one, other = fit(data=data), fit(data=data, family="poisson")
    agree(one, other, 0.15)
    agree(fit(data=data, dispersion=1e-8), other, SAME)
    assert one.hyperparameters().loc["alpha", "upper"] < 0.1
    assert one.log_evidence < other.log_evidence


def test_comparisons_with_poisson_counts(fitted, poisson):
    scores = compare_loo({"nb": fitted, "poisson": poisson})
    assert scores.index[0] == "nb"
    assert compare_evidence({"nb": fitted, "poisson": poisson}).index[0] == "nb"
    assert "alpha" not in str(compare_models({"nb": fitted, "poisson": poisson}))
    both = stack({"nb": fitted, "poisson": poisson})
    assert both.predict(DATA.head(2)).notna().all()
    replicated = fitted.ppc(["zeros", "dispersion"], draws=400)
    assert replicated["p"].between(0.02, 0.98).all()
    assert poisson.ppc("dispersion", draws=400)["p"].iloc[0] < 0.02


def test_leave_one_out_is_refitting():
    data = frame(n=30, seed=5)
    res = fit(data=data)
    pointwise = res.loo().pointwise
    for at in (0, 7, int(data["y"].argmax())):
        rest = fit(data=data.drop(index=at))
        rng = np.random.default_rng(0)
        drawn = rest.sample(20_000, rng=rng, hyper_columns=True)
        row = rest.model.new_rows(data.loc[[at]], True)[0]
        rates = rest.model.predict(drawn[rest.model.exog_names].to_numpy().T, row)
        size = 1.0 / drawn["alpha"].to_numpy()
        mean = data.loc[at, "t"] * rates.ravel()
        direct = np.log(nbinom.pmf(data.loc[at, "y"], size, size / (size + mean)).mean())
        assert pointwise.iloc[at] == pytest.approx(direct, abs=0.1)


def test_weights_are_copies():
    data = DATA.assign(w=np.resize([1, 2, 1, 3], len(DATA)))
    repeated = data.loc[np.repeat(data.index, data["w"])].reset_index(drop=True)
    one, other = fit(data=data, weights="w"), fit(data=repeated)
    agree(one, other, 0.02)
    assert one.loo_log_score == pytest.approx(other.loo_log_score, abs=0.01)


def test_unpenalized_columns_and_missing_values():
    data = DATA.copy()
    data.loc[data.index[3], "a"] = np.nan
    res = fit(data=data, unpenalized=["a"])
    assert res.nobs == len(DATA) - 1
    assert res.converged
    assert np.isnan(res.predict(data).iloc[3])
    frames = [DATA, DATA.assign(a=DATA["a"] + 0.01)]
    imputed = fit_imputed(frames, lambda each: fit(data=each))
    assert imputed.rate_ratios().drop(columns="prob_above_1").notna().all(axis=None)
    assert imputed.ppc("zeros", draws=100)["p"].between(0, 1).all()


def test_draws_reports_files_and_json(fitted, tmp_path):
    drawn = fitted.sample(2000, rng=0, hyper_columns=True)
    expected = fitted.hyperparameters().loc["alpha"]
    assert drawn["alpha"].median() == pytest.approx(expected["median"], rel=0.1)
    pytest.importorskip("jinja2")
    fitted.report(tmp_path / "report.html")
    assert "alpha" in (tmp_path / "report.html").read_text()
    fitted.save(tmp_path / "fit.npz", remove_data=True)
    read = load(tmp_path / "fit.npz")
    pd.testing.assert_frame_equal(read.hyperparameters(), fitted.hyperparameters())
    new = DATA.head(3)
    pd.testing.assert_frame_equal(
        read.get_prediction(new).summary_frame(), fitted.get_prediction(new).summary_frame(), rtol=1e-6
    )
    with pytest.raises(ValueError, match="rows"):
        _ = read.resid_pearson
    content = as_json(fitted, "ridge", alpha=0.05, warnings=[])
    assert content["targets"][0]["hyperparameters"]["alpha"]["median"] == pytest.approx(expected["median"])
    json.dumps(content, allow_nan=False)
    exported = export.export(fitted)
    check(exported)
    assert exported["dispersion_mean"] == pytest.approx(fitted.hyperparameters().loc["alpha", "mean"])
    assert exported["posterior"]["log_shape"].size == len(exported["posterior"]["weight"])


def test_priors_are_moved(fitted):
    assert (fitted.prior_sensitivity()["shift"] < 0.5).all()
    assert 0 < fitted.explained_variance()["median"] < 1


def test_hard_data():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 80))
    wide = BayesRidge(rng.poisson(np.exp(0.5 + x[:, 0]) * rng.gamma(2, 0.5, 40)), x, family="negative-binomial").fit()
    assert wide.converged
    noise = BayesRidge(rng.poisson(rng.gamma(1, 3, 80)), rng.normal(size=(80, 3)), family="negative-binomial").fit()
    assert noise.df_model < 3
    assert 0.4 < noise.hyperparameters().loc["alpha", "median"] < 2.0
    one = BayesRidge(np.r_[np.zeros(39), 5.0], x[:, :2], family="negative-binomial").fit("laplace")
    assert np.isfinite(one.params).all()
    # With a large dispersion the log likelihood is nearly straight on both sides of its top.
    alone = BayesRidge(np.r_[np.zeros(49), 78.0], rng.normal(size=(50, 5)), family="negative-binomial").fit("laplace")
    assert alone.converged


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({"y": -1}, {}, "family='negative-binomial' takes counts, but endog is negative: row.* 0"),
        ({"y": 0.5}, {}, "family='negative-binomial' takes counts, whole numbers, but endog has fractions"),
        ({"t": 0.0}, {}, "exposure must be positive and finite, but those of row.* 0 are not"),
        ({}, {"dispersion": -1.0}, "dispersion must be positive and finite, not -1"),
        ({}, {"dispersion": 1e9}, "dispersion must be between 1e-08 and 1000"),
        ({}, {"trials": "t"}, "trials requires family='binomial'"),
    ],
)
def test_bad_input_is_refused(change, given, message):
    data = DATA.astype({"y": float})
    for name, value in change.items():
        data.loc[0, name] = value
    with pytest.raises(ValueError, match=message):
        fit(data=data, **given)


def test_what_there_is_not():
    with pytest.raises(ValueError, match="all counts are 0"):
        fit(data=DATA.assign(y=0))
    with pytest.raises(ValueError, match="dispersion requires family='negative-binomial'"):
        fit(family="poisson", dispersion=0.5)


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_a_band_of_all_columns_is_a_single_penalty(method):
    columns = DATA[["a", "b"]]
    one = BayesRidge(DATA["y"], columns, family="negative-binomial").fit(method)
    band = BayesRidge(DATA["y"], columns, family="negative-binomial", bands={"all": ["a", "b"]}).fit(method)
    np.testing.assert_allclose((band.params - one.params) / one.bse, 0, atol=OF_BANDS)
    np.testing.assert_allclose(band.bse, one.bse, rtol=OF_BANDS)
    assert band.log_marginal == pytest.approx(one.log_marginal, abs=OF_BANDS)
    assert band.loo_log_score == pytest.approx(one.loo_log_score, abs=OF_BANDS)
    np.testing.assert_allclose(
        band.hyperparameters().loc["alpha"].astype(float),
        one.hyperparameters().loc["alpha"].astype(float),
        rtol=OF_BANDS,
    )


def test_groups_with_a_dispersion(tmp_path):
    rng = np.random.default_rng(9)
    data = pd.DataFrame({"x": rng.standard_normal(90), "g": rng.choice(list("abcdef"), 90)})
    effect = dict(zip("abcdef", 0.7 * rng.standard_normal(6), strict=True))
    mean = np.exp(1.0 + 0.4 * data["x"] + data["g"].map(effect))
    data["y"] = rng.poisson(mean * rng.gamma(2.0, 0.5, 90))
    model = BayesRidge.from_formula("y ~ x + (1 | g)", data, family="negative-binomial", unpenalized="fixed")
    res = model.fit("laplace")
    assert list(res.hyperparameters().index) == ["sd[g]", "alpha"]
    drawn = res.sample(20_000, rng=1, hyper_columns=True)
    low, high = res.hyperparameters().loc["alpha", ["lower", "upper"]]
    assert drawn["alpha"].nunique() == len(drawn)
    assert ((drawn["alpha"] > low) & (drawn["alpha"] < high)).mean() == pytest.approx(0.95, abs=DRAWN)
    assert (drawn["x"] < res.conf_int().loc["x"].iloc[0]).mean() == pytest.approx(0.025, abs=DRAWN)
    # Given the dispersion it is a model with one; at the posterior's middle that has about the same coefficients.
    alpha = float(res.hyperparameters().loc["alpha", "median"])
    given = BayesRidge.from_formula(
        "y ~ x + (1 | g)", data, family="negative-binomial", unpenalized="fixed", dispersion=alpha
    ).fit("laplace")
    assert abs(given.params["x"] - res.params["x"]) < 0.1 * res.bse["x"]
    assert given.sites_fit.shape is None
    res.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit")
    np.testing.assert_allclose(again.hyperparameters(), res.hyperparameters(), rtol=1e-9)
    new = data.head(2).assign(g=["a", "new"])
    np.testing.assert_allclose(
        again.get_prediction(new).summary_frame(), res.get_prediction(new).summary_frame(), rtol=1e-6
    )
    assert "alpha" in str(res.summary())
    assert res.ppc("dispersion", draws=400)["p"].between(0.01, 0.99).all()
    fixed = model.fit("fixed", lam=[1.0 / float(res.variance_components().loc["g", "mean"]) ** 2])
    assert abs(fixed.params["x"] - res.params["x"]) < 0.2 * res.bse["x"]
    with pytest.raises(ValueError, match="takes a known alpha"):
        model.fit("reml")
