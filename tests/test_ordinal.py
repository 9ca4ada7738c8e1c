"""The ridge for ordered categories as users call it."""

import importlib
import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest

from pybayesridge import (
    BayesRidge,
    SpikeSlab,
    compare_evidence,
    compare_loo,
    compare_models,
    fit_imputed,
    load,
    stack,
)
from pybayesridge.cli import BAD_INPUT, main
from pybayesridge.cli.as_json import as_json
from pybayesridge.results import export
from pybayesridge.results.export_fields import check

SAME = 1e-3
"""The same fit by another way, in posterior standard deviations: 1e-4 is the largest seen."""

LEVELS = ["low", "mid", "high", "top"]

FORMULA = "y ~ a + b + C(g)"


def frame(n=90, seed=3):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    out["g"] = np.resize(["u", "v", "w"], n)
    out["w"] = np.resize([1, 2, 1, 3], n)
    code = np.digitize(0.9 * out["a"] - 0.5 * (out["g"] == "v") + rng.logistic(size=n), [-1.2, 0.2, 1.5])
    out["code"] = code
    return out.assign(y=pd.Categorical.from_codes(code, LEVELS, ordered=True), text=np.array(LEVELS)[code])


DATA = frame()


def fit(formula=FORMULA, data=DATA, method=None, *, weights=None, options=None, **given):
    return BayesRidge.from_formula(formula, data, family="ordinal", weights=weights, **given).fit(
        method, **(options or {})
    )


@pytest.fixture(scope="module")
def fitted():
    return fit()


def agree(one, other, tolerance=SAME):
    np.testing.assert_allclose(
        (np.asarray(one.params) - np.asarray(other.params)) / np.asarray(one.bse), 0, atol=tolerance
    )
    np.testing.assert_allclose(one.bse, other.bse, rtol=tolerance)
    cuts, others = one.cut_points(), other.cut_points()
    np.testing.assert_allclose((cuts["mean"].to_numpy() - others["mean"]) / others["sd"], 0, atol=tolerance)


def test_only_a_noise_variance_is_refused_for_want_of_noise():
    for name, value in (("exposure", np.ones(len(DATA))), ("trials", 3), ("event", "top")):
        with pytest.raises(ValueError, match=f"{name} requires family=[^:]*$"):
            BayesRidge(DATA["y"], DATA[["a"]], family="ordinal", **{name: value})
    with pytest.raises(ValueError, match="ordered categories have no noise variance"):
        BayesRidge(DATA["y"], DATA[["a"]], family="ordinal", sigma2=1.0)


def test_categories_can_be_given_in_several_ways(fitted):
    assert fitted.categories == tuple(LEVELS)
    assert list(fitted.params.index) == ["a", "b", "C(g)[T.v]", "C(g)[T.w]"]
    assert list(fitted.cut_points().index) == ["low|mid", "mid|high", "high|top"]
    agree(fitted, fit("code ~ a + b + C(g)"))
    agree(fitted, fit("text ~ a + b + C(g)", categories=LEVELS))
    assert len(fit("y ~ 0 + a + b + C(g)").params) == 5
    columns = DATA[["a", "b"]]
    plain = BayesRidge(DATA["y"], columns, family="ordinal").fit()
    agree(plain, BayesRidge(DATA["code"].to_numpy(), columns.to_numpy(), family="ordinal").fit())
    agree(plain, BayesRidge(DATA["text"], columns, family="ordinal", categories=LEVELS).fit())
    constant = BayesRidge(DATA["y"], columns.assign(one=1.0), family="ordinal").fit()
    np.testing.assert_allclose(constant.params, [*plain.params, 0.0], atol=SAME)
    backwards = BayesRidge(DATA["text"], columns, family="ordinal", categories=LEVELS[::-1]).fit()
    np.testing.assert_allclose(backwards.params, -plain.params, atol=SAME)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_with_next_to_no_penalty_it_is_maximum_likelihood(link):
    model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    other = model.OrderedModel(DATA["y"], DATA[["a", "b"]], distr=link).fit(disp=0, method="bfgs")
    res = BayesRidge(DATA["y"], DATA[["a", "b"]], family="ordinal", link=link).fit(
        "fixed", lam=1e-8, solver="laplace"
    )
    np.testing.assert_allclose((res.params - other.params.iloc[:2]) / other.bse.iloc[:2], 0, atol=1e-3)
    np.testing.assert_allclose(res.bse, other.bse.iloc[:2], rtol=1e-3)
    cuts = other.model.transform_threshold_params(other.params.to_numpy())[1:-1]
    np.testing.assert_allclose(res.cut_points()["mean"], cuts, atol=1e-3)
    # Averages over the posterior are not the probabilities at its mode.
    np.testing.assert_allclose(res.predict(), other.predict(), atol=0.04)


@pytest.mark.parametrize(
    ("method", "options"),
    [("laplace", {}), ("em", {}), ("em", {"solver": "laplace"}), ("loocv", {}), ("fixed", {"lam": 5.0})],
)
def test_methods(fitted, method, options):
    other = fit(method=method, options=options)
    assert other.converged
    assert ((other.params - fitted.params).abs() < 0.6 * fitted.bse).all()
    assert "cut points" in " ".join(other.notes).lower()
    np.testing.assert_allclose(other.predict().sum(axis=1), 1.0, rtol=1e-9)


def test_probit_is_fitted_by_laplace():
    with pytest.raises(ValueError, match=r"use fit\('laplace'\), or solver='laplace'"):
        fit(link="probit")
    res = fit(link="probit", method="laplace")
    assert res.converged
    with pytest.raises(ValueError, match="odds_ratios"):
        res.odds_ratios()
    refitted = fit(data=DATA.drop(index=4), link="probit", method="laplace")
    score = np.log(refitted.predict(DATA.loc[[4]]).iloc[0][DATA.loc[4, "y"]])
    assert res.loo().pointwise[4] == pytest.approx(score, abs=0.05)


def test_leave_one_out_is_refitting(fitted):
    pointwise = fitted.loo().pointwise
    for at in (0, 7, 20, 33):
        rest = fit(data=DATA.drop(index=at))
        assert pointwise[at] == pytest.approx(
            np.log(rest.predict(DATA.loc[[at]]).iloc[0][DATA.loc[at, "y"]]), abs=0.02
        )


def test_the_only_row_of_a_category_cannot_be_left_out():
    data = DATA[(DATA["y"] != "mid") | (DATA.index == DATA.index[DATA["y"] == "mid"][0])]
    res = fit(data=data)
    assert res.converged
    with pytest.raises(ValueError, match=r"row \d+ has no .*: without it a category does not occur"):
        res.loo()
    assert "fewer than 10 rows in the categories 'mid'" in " ".join(res.notes)


def test_weights_are_copies():
    repeated = DATA.loc[np.repeat(DATA.index, DATA["w"])].reset_index(drop=True)
    one, other = fit(weights="w"), fit(data=repeated)
    agree(one, other)
    assert one.loo_log_score == pytest.approx(other.loo_log_score, abs=1e-3)
    assert one.log_marginal == pytest.approx(other.log_marginal, abs=1e-2)


def test_unpenalized_missing_wide_and_noise():
    data = DATA.copy()
    data.loc[3, "a"] = np.nan
    res = fit(data=data, unpenalized=["a"])
    assert (res.nobs, res.converged) == (len(DATA) - 1, True)
    assert res.predict(data).iloc[3].isna().all()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 100))
    wide = BayesRidge(np.digitize(x[:, 0] + rng.logistic(size=40), [-1, 1]), x, family="ordinal").fit()
    assert wide.converged
    np.testing.assert_allclose(wide.predict(rng.normal(size=(3, 100))).sum(axis=1), 1.0, rtol=1e-9)
    noise = BayesRidge(np.resize([0, 1, 2, 3], 120), rng.normal(size=(120, 5)), family="ordinal").fit()
    assert noise.explained_variance()["median"] < 0.05


def test_predictions_and_draws(fitted):
    table = fitted.get_prediction(DATA.head(3)).summary_frame(alpha=0.1)
    means = table.xs("mean", axis=1, level=1)
    np.testing.assert_allclose(means, fitted.predict(DATA.head(3)), rtol=1e-12)
    np.testing.assert_allclose(fitted.predict().head(3), means, atol=1e-9)
    assert (table.xs("mean_ci_lower", axis=1, level=1) < means).all(axis=None)
    drawn = fitted.sample(20_000, rng=0, hyper_columns=True)
    cuts = fitted.cut_points()
    np.testing.assert_allclose((drawn[cuts.index].mean() - cuts["mean"]) / cuts["sd"], 0, atol=0.04)
    np.testing.assert_allclose(drawn[cuts.index].std(), cuts["sd"], rtol=0.05)
    np.testing.assert_allclose(drawn[cuts.index].quantile(0.025), cuts["lower"], atol=0.05)
    from_draws = fitted.get_prediction(DATA.head(3)).se
    np.testing.assert_allclose(from_draws, table.xs("mean_se", axis=1, level=1))
    linear = fitted.get_prediction(DATA.head(3), which="linear").summary_frame()
    np.testing.assert_allclose(linear["mean"], fitted.predict(DATA.head(3), which="linear"), atol=1e-9)
    assert fitted.ppc(draws=300)["p"].between(0.02, 0.98).all()
    assert (fitted.ppc({"low": lambda y: (y == 0).mean()}, draws=300)["p"] > 0.02).all()


def test_effects_contrasts_and_sensitivity(fitted):
    ratios = fitted.odds_ratios()
    np.testing.assert_allclose(ratios["odds_ratio"], np.exp(fitted.params), rtol=1e-9)
    assert fitted.effects("a").loc[("a", "per unit"), "mean"] == pytest.approx(fitted.params["a"])
    assert fitted.contrast("a - b")["prob_positive"].iloc[0] > 0.9
    assert len(fitted.predictions({"a": [0.0, 1.0]})) == 2
    assert (fitted.prior_sensitivity()["shift"] < 0.5).all()
    with pytest.raises(ValueError, match="which='linear'"):
        fitted.effects("a", which="mean")


def test_comparisons(fitted):
    smaller = fit("y ~ b")
    assert compare_loo({"all": fitted, "b": smaller}).index[0] == "all"
    assert compare_evidence({"all": fitted, "b": smaller}).index[0] == "all"
    assert "LOO log score" in str(compare_models({"all": fitted, "b": smaller}))
    with pytest.raises(ValueError, match="cannot be mixed"):
        stack([fitted, smaller])
    with pytest.raises(ValueError, match="cannot be pooled"):
        fit_imputed([DATA, DATA.assign(a=DATA["a"] + 0.01)], lambda data: fit(data=data))


def test_files_reports_json(fitted, tmp_path):
    for removed in (False, True):
        file = io.BytesIO()
        fitted.save(file, remove_data=removed)
        file.seek(0)
        read = load(file)
        new = DATA.head(4)
        np.testing.assert_allclose(read.predict(new), fitted.predict(new), rtol=1e-9)
        np.testing.assert_allclose(read.cut_points(), fitted.cut_points(), rtol=1e-9)
        pd.testing.assert_frame_equal(read.hyperparameters(), fitted.hyperparameters())
        assert str(read.summary()) == str(fitted.summary())
        np.testing.assert_allclose(
            read.sample(5, rng=1, hyper_columns=True), fitted.sample(5, rng=1, hyper_columns=True)
        )
    with pytest.raises(ValueError, match="data of this fit were removed"):
        _ = read.fittedvalues
    assert pickle.loads(pickle.dumps(fitted)).cut_points().equals(fitted.cut_points())
    content = as_json(fitted, "ridge", alpha=0.05, warnings=[])
    assert content["targets"][0]["cut_points"][0]["name"] == "low|mid"
    json.dumps(content, allow_nan=False)
    check(export.export(fitted))
    check(export.export(read))
    pytest.importorskip("jinja2")
    fitted.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "low: " in text
    assert "high|<wbr>top" in text
    assert "shares of the categories" in text


def test_command_line(tmp_path, capsys):
    file, saved = tmp_path / "data.csv", tmp_path / "fit.npz"
    DATA.drop(columns=["y", "code"]).to_csv(file, index=False)
    line = ["ridge", "text ~ a + b + g", str(file), "--family", "ordinal"]
    assert main([*line, "--categories", "low,mid,high,top", "--save", str(saved)]) in (0, None)
    assert "mid|high" in capsys.readouterr().out
    assert main(["predict", str(saved), str(file)]) in (0, None)
    assert "low:mean" in capsys.readouterr().out.splitlines()[0]
    assert main(line) == BAD_INPUT
    assert "have no order: pass an ordered Categorical" in capsys.readouterr().err


def changed(**values):
    return DATA.assign(**values)


@pytest.mark.parametrize(
    "response",
    [
        "pd.Categorical(text, LEVELS, ordered=True)",
        "pd.cut(code, [-1, 0, 1, 2, 3], labels=LEVELS)",
        "C(text, levels=LEVELS)",
        "C(backwards, levels=LEVELS)",
        "C(y)",
    ],
)
def test_a_response_that_the_formula_makes_keeps_its_order(response):
    backwards = pd.Categorical(DATA["text"], LEVELS[::-1], ordered=True)
    data = changed(backwards=backwards, a=DATA["a"].where(DATA.index != 3), code=DATA["code"].where(DATA.index != 5))
    data.loc[5, ["y", "text", "backwards"]] = None
    res = fit(f"{response} ~ a + b", data)
    assert res.categories == tuple(LEVELS)
    given = fit("y ~ a + b", data)
    np.testing.assert_array_equal(res.sites_fit.likelihood.codes, given.sites_fit.likelihood.codes)
    agree(res, given)


def test_levels_that_are_not_declared_are_named():
    with pytest.raises(ValueError, match=r"its levels= do not name \('top'\): name them too"):
        fit("C(text, levels=LEVELS[:3]) ~ a", DATA)


@pytest.mark.parametrize(
    ("formula", "data", "given", "message"),
    [
        ("y ~ a", changed(y=1), {}, "all responses are '1': an ordinal model needs at least two categories"),
        ("y ~ a", changed(y=DATA["code"] + 0.5), {}, "takes whole numbers as categories, and endog has fractions"),
        ("text ~ a", DATA, {}, r"\('high', 'low', 'mid', 'top'\) have no order: pass an ordered Categorical"),
        ("y ~ a", DATA[DATA["y"] != "mid"], {}, "no row of the category 'mid', so that its cut points"),
        ("text ~ a", DATA, {"categories": LEVELS[:3]}, "values that categories does not name: 'top'"),
        ("text ~ a", DATA, {"categories": [*LEVELS, "more"]}, "no row of the category 'more'"),
        ("text ~ a", DATA, {"categories": [*LEVELS, "low"]}, "categories names one twice: 'low'"),
        ("text ~ a", DATA, {"categories": "low"}, "categories must be a list"),
        ("y ~ a", changed(y=range(90)), {}, "90 different values, and an ordinal model a cut point for each"),
        ("y ~ a", DATA, {"event": "low"}, "event requires family='binomial'"),
        ("y ~ a", DATA, {"link": "log"}, "link must be 'logit' or 'probit', not 'log'"),
        ("y ~ a", changed(a=DATA["code"] > 1.0), {"unpenalized": ["a"]}, "separate the ordered categories"),
    ],
)
def test_bad_input_is_refused(formula, data, given, message):
    with pytest.raises(ValueError, match=message):
        fit(formula, data, **given)


def test_what_there_is_not(fitted):
    for name in ("resid", "rsquared", "loo_means", "n_events", "sigma2"):
        with pytest.raises(AttributeError):
            getattr(fitted, name)
        assert name not in dir(fitted)
    for call in (fitted.to_arviz, fitted.to_marginaleffects, fitted.plot_fit, fitted.pit):
        with pytest.raises(ValueError, match=r"ordinal|gaussian|Gaussian"):
            call()
    with pytest.raises(ValueError, match="SpikeSlab does not have family='ordinal'"):
        SpikeSlab(DATA["code"], DATA[["a", "b"]], family="ordinal")
    with pytest.raises(ValueError, match=r"moments do not determine|sufficient statistics"):
        BayesRidge.from_moments(None, family="ordinal")
    with pytest.raises(ValueError, match="categories requires family='ordinal'"):
        BayesRidge(DATA["code"] > 1, DATA[["a"]], family="binomial", categories=[0, 1])
    with pytest.raises(ValueError, match=r"check others by plot_ppc\(\)"):
        fitted.pit()
    pytest.importorskip("sklearn")
    sklearn = importlib.import_module("pybayesridge.sklearn")
    with pytest.raises(ValueError, match="family='ordinal' has no estimator here"):
        sklearn.BayesRidgeRegressor(family="ordinal").fit(DATA[["a", "b"]], DATA["code"])
    with pytest.raises(ValueError, match="family='beta-binomial' has no estimator here"):
        sklearn.BayesRidgeRegressor(family="beta-binomial").fit(DATA[["a", "b"]], DATA["code"])
