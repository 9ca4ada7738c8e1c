"""Bands as users have them: arguments, results, what is refused, invariances, refits."""

from __future__ import annotations

import json
import pickle
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

import pybayesridge
from pybayesridge import BayesRidge, compare_models
from pybayesridge.exceptions import DegenerateFitWarning

NAMES = ["g1", "g2", "g3", "c1", "c2", "c3", "c4"]
BANDS = {"genes": ["g1", "g2", "g3"], "clinic": ["c1", "c2", "c3", "c4"]}


def frame(n=24, seed=0):
    """A response, two of them, and columns of which the first three matter."""
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(n, 7)), columns=NAMES)
    y = x.iloc[:, :3] @ [1.0, -1.0, 0.5] + 0.1 * x["c1"] + rng.normal(size=n) + 2
    return y.rename("y"), x


@pytest.fixture(scope="module")
def res():
    y, x = frame()
    return BayesRidge(y, x, bands=BANDS).fit(tol=1e-5)


def test_variance_components(res):
    table = res.variance_components()
    assert table.index.tolist() == ["genes", "clinic"]
    assert table.columns.tolist()[:7] == ["mean", "sd", "lower", "upper", "share", "share_lower", "share_upper"]
    assert ((table["lower"] < table["mean"]) & (table["mean"] < table["upper"])).all()
    assert table.loc["genes", "share"] > table.loc["clinic", "share"]
    assert table["prob_below_1pct"].between(0, 1).all()
    wider = res.variance_components(alpha=0.01)
    assert (wider["lower"] < table["lower"]).all()
    assert res.hyperparameters().index.tolist() == ["sd[genes]", "sd[clinic]", "sigma2"]


def test_draws_have_the_moments_of_the_posterior(res):
    draws = res.sample(20_000, rng=1, hyper_columns=True)
    z = (draws[res.params.index].mean() - res.params) / (res.bse / np.sqrt(20_000))
    assert z.abs().max() < 4.5
    assert (draws[res.params.index].std() / res.bse - 1).abs().max() < 0.05
    sd = np.sqrt(draws["tau2[genes]"] * draws["sigma2"])
    table = res.variance_components()
    assert abs(sd.quantile(0.975) / table.loc["genes", "upper"] - 1) < 0.05
    assert abs(draws["sigma2"].mean() / res.sigma2 - 1) < 0.03


def test_leave_one_out_equals_refits(res):
    y, x = frame()
    found = res.loo()
    scale = x.std(ddof=0)
    for i in (0, 7):
        # The refit keeps the scale of the columns and the unit of the prior of all rows.
        other = BayesRidge(y, x / scale, bands=BANDS, standardize=False)
        again = refit_without(other, i)
        assert abs(found.pointwise.iloc[i] - again) < 1e-4


def refit_without(model, i):
    """Log density of a row given the others, by ridges of the others at the nodes of a fit of all rows."""
    from pybayesridge.bands.fit import fit_exact
    from pybayesridge.bands.problem import BandProblem
    from pybayesridge.ridge.likelihood import GaussianNoise
    from pybayesridge.ridge.prior import BetaPrime

    whole = BandProblem.of(*model._build(), model.bands.of_column, model.bands.own_scale)
    y, x = np.delete(model.endog, i), np.delete(model.data.exog, i, axis=0)
    rest = BayesRidge(y, x, standardize=False)
    part = BandProblem.of(*rest._build(), model.bands.of_column, model.bands.own_scale)
    common = whole.design.common_scale / part.design.common_scale
    # The same prior: shares and the total are defined by the sizes of the bands in all rows.
    object.__setattr__(part, "size", whole.size * common**2)
    prior = BetaPrime(0.5, 0.5, 1.0 / (whole.total * whole.design.common_scale**2))
    fit = fit_exact(part, prior, GaussianNoise(), 1e-6)
    law = fit.posterior.rows(model.data.exog[[i]], np.ones((1, 1))).with_noise(np.ones(1))
    step = 1e-4 * float(fit.posterior.design.y_norm[0])
    at = model.endog[i]
    above = [float(law.above(np.array([0]), np.array([[value]]))[0, 0]) for value in (at - step, at + step)]
    return float(np.log((above[0] - above[1]) / (2 * step)))


def test_questions_after_the_fit(res):
    contrast = res.contrast("g1 - g2").iloc[0]
    draws = res.sample(20_000, rng=2)
    assert abs((draws["g1"] - draws["g2"]).mean() - contrast["mean"]) < 0.02
    table = compare_models({"bands": res, "one": BayesRidge(*frame()).fit()})
    assert "bands" in str(table)
    assert res.prior_sensitivity()["shift"].max() < 1
    assert res.ppc(rng=0)["p"].between(0.01, 1).all()
    assert 0 < res.explained_variance()["mean"] < 1
    prediction = res.get_prediction(frame(seed=5)[1].iloc[:3]).summary_frame()
    assert (prediction["obs_ci_lower"] < prediction["mean_ci_lower"]).all()
    effects = res.random_effects("genes")
    assert np.allclose(effects["mean"], res.params[BANDS["genes"]])
    assert np.allclose(np.diag(res.cov_params()), res.bse**2, rtol=1e-9)
    assert np.allclose(np.sqrt(np.diag(res.cov_params())), res.bse, rtol=1e-9)


def test_what_is_written(res):
    text = res.summary().as_text()
    assert "genes" in text
    assert "P(share<1%)" in text
    with pytest.raises(ValueError, match="there is no band 'gene': did you mean 'genes'"):
        res.random_effects("gene")
    with pytest.raises(ValueError, match=r"names of bands, got 0\.1: alpha=0\.1 asks for other intervals"):
        res.random_effects(0.1)
    with pytest.raises(AttributeError):
        _ = res.lambda_


def test_report_and_pictures(res, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    page = res.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "clinic" in page
    assert res.plot_variance_components().get_title()
    assert res.plot_random_effects("genes").get_title()


@pytest.mark.parametrize("remove", [False, True])
def test_saved_fits_give_the_same_answers(res, tmp_path, remove):
    res.save(tmp_path / "fit", remove_data=remove)
    again = pybayesridge.load(tmp_path / "fit")
    assert np.abs(again.variance_components() - res.variance_components()).to_numpy().max() < 1e-12
    assert np.abs(again.contrast("g1 - g2") - res.contrast("g1 - g2")).to_numpy().max() < 1e-10
    assert np.abs(again.conf_int() - res.conf_int()).to_numpy().max() < 1e-8
    assert (pickle.loads(pickle.dumps(res)).params == res.params).all()


def test_labels_and_positions_and_the_rest(res):
    y, x = frame()
    labels = ["genes"] * 3 + ["clinic"] * 4
    positions = {"genes": [0, 1, 2], "clinic": range(3, 7)}
    for bands in (labels, np.array(labels), pd.Series(labels, index=NAMES), positions):
        again = BayesRidge(y, x, bands=bands).fit(tol=1e-5)
        assert (again.params == res.params).all()
    rest = BayesRidge(y, x, bands={"genes": NAMES[:3]})
    assert rest.bands.names == ("genes", "other")
    taken = BayesRidge(y, x, bands={"other": NAMES[:3], "other columns": NAMES[3:5]})
    assert taken.bands.names == ("other", "other columns", "other columns columns")


def test_a_formula_names_columns_and_terms():
    y, x = frame()
    data = x.assign(y=y, f=np.where(np.arange(len(y)) % 3, "a", "b"))
    model = BayesRidge.from_formula("y ~ g1 + g2 + f", data, bands={"genes": ["g1", "g2"], "factor": ["f"]})
    assert model.bands.names == ("genes", "factor")
    assert model.fit().params.index.tolist() == model.exog_names


REFUSED = [
    ({"a": []}, {}, "band 'a' has no columns"),
    ({}, {}, "names no band"),
    ({"a": ["g1"], "b": ["g1", "g2"]}, {}, r"'g1' of band 'b' are already in band 'a'"),
    ({"a": ["g1"]}, {"unpenalized": ["g1"]}, "are unpenalised"),
    ({"a": ["g9"]}, {}, "'g9', which is not a column"),
    (["a", "b"], {}, "one label for each of the 7 columns, got 2"),
    (["a"] * 6 + [None], {}, "no label for column"),
    ("genes", {}, "dict of columns by band"),
    (3, {}, "dict of columns by band"),
]


@pytest.mark.parametrize(("bands", "more", "message"), REFUSED)
def test_bad_bands_are_refused(bands, more, message):
    y, x = frame()
    with pytest.raises(ValueError, match=message):
        BayesRidge(y, x, bands=bands, **more)


def test_what_bands_do_not_do_is_refused():
    y, x = frame()
    model = BayesRidge(y, x, bands=BANDS)
    for method in ("loocv", "gcv"):
        with pytest.raises(ValueError, match="one penalty for all columns"):
            model.fit(method)
    with pytest.raises(ValueError, match="dof is not an option of fits with bands"):
        model.fit(dof="paper")
    with pytest.raises(ValueError, match="requires lam"):
        model.fit("fixed")
    with pytest.raises(ValueError, match="a penalty for each"):
        model.fit("fixed", lam=1.0)
    with pytest.raises(ValueError, match="positive and finite"):
        model.fit("fixed", lam=[1.0, 0.0])
    with pytest.raises(ValueError, match="at most 8 bands"):
        BayesRidge(y, x.join(x.add_suffix("2")), bands=list("abcdefghijklmn")).fit()
    with pytest.raises(ValueError, match="at most 20 responses"):
        BayesRidge(np.tile(y.to_numpy()[:, None], 21), x, bands=list("aabbccd")).fit()
    with pytest.raises(ValueError, match="no column of band 'b' varies"):
        BayesRidge(y, x.assign(c4=1.0), bands={"a": NAMES[:6], "b": ["c4"]}, intercept="add").fit()
    with pytest.raises(ValueError, match="exactly"):
        BayesRidge(x["g1"] + x["c1"], x, bands=BANDS).fit()


def test_the_fit_depends_on_no_order_and_no_unit(res):
    y, x = frame()
    order = np.random.default_rng(1).permutation(7)
    turned = BayesRidge(y, x.iloc[:, order], bands=dict(reversed(BANDS.items()))).fit(tol=1e-5)
    assert np.abs((turned.params[res.params.index] - res.params) / res.bse).max() < 1e-4
    unit = pd.Series([1e3, 1e-2, 5, 1, 1e4, 2, 3], index=NAMES)
    scaled = BayesRidge(10 * y, x * unit, bands=BANDS).fit(tol=1e-5)
    assert np.abs(scaled.params[NAMES] * unit / 10 / res.params[NAMES] - 1).max() < 1e-6
    # Columns in their own units: a band as a whole may be rescaled.
    units = (1, [7, 7, 7, 0.1, 0.1, 0.1, 0.1])
    own = [BayesRidge(y, x * unit, bands=BANDS, standardize=False).fit(tol=1e-5) for unit in units]
    assert np.abs((own[0].fittedvalues - own[1].fittedvalues) / own[0].fittedvalues.std()).max() < 1e-5


def test_several_responses_are_fitted_each_on_its_own():
    y, x = frame()
    v = 3 * x["c2"] - x["c1"] + x["g3"] - x["g2"] + np.random.default_rng(5).normal(size=len(y))
    both = pd.DataFrame({"y": y, "v": v})
    res = BayesRidge(both, x, bands=BANDS).fit(tol=1e-5)
    for name in both:
        one = BayesRidge(both[name], x, bands=BANDS).fit(tol=1e-5)
        assert np.abs((res.params[name] - one.params) / one.bse).max() < 1e-4
        assert np.abs(res.bse[name] / one.bse - 1).max() < 1e-4
        many, alone = res.variance_components().loc[name], one.variance_components()
        assert np.abs(many - alone).to_numpy().max() < 2e-3
        given = {"genes": 1.0, "clinic": 9.0}
        both_given = BayesRidge(both, x, bands=BANDS).fit("fixed", lam=given)
        one_given = BayesRidge(both[name], x, bands=BANDS).fit("fixed", lam=given)
        assert np.abs(both_given.params[name] - one_given.params).max() < 1e-10


def test_missing_rows_are_left_out():
    y, x = frame()
    gap = x.copy()
    gap.iloc[3, 2] = np.nan
    found = BayesRidge(y, gap, bands=BANDS, missing="drop").fit(tol=1e-5)
    whole = BayesRidge(y.drop(index=3), x.drop(index=3), bands=BANDS).fit(tol=1e-5)
    assert np.abs(found.params - whole.params).max() < 1e-12


def test_a_column_twice_in_two_bands():
    y, x = frame()
    res = BayesRidge(y, x.assign(again=x["g1"]), bands={"genes": NAMES[:3], "rest": [*NAMES[3:], "again"]}).fit()
    assert res.converged
    total = res.contrast("g1 + again").iloc[0]
    assert abs(total["mean"] - 1) < 1


def test_a_variance_of_zero_is_told():
    y, x = frame()
    y = y - x[BANDS["clinic"]] @ np.linalg.lstsq(x - x.mean(), y - y.mean(), rcond=None)[0][3:]
    with pytest.warns(DegenerateFitWarning, match="variance of the band 'clinic' is estimated to be zero"):
        res = BayesRidge(y, x, bands=BANDS).fit("reml")
    assert res.params[BANDS["clinic"]].abs().max() < 1e-9
    exact = BayesRidge(y, x, bands=BANDS).fit()
    assert (exact.bse[BANDS["clinic"]] > 0).all()


def test_the_scikit_learn_regressor():
    sklearn = pytest.importorskip("sklearn.base")
    from pybayesridge.sklearn import BayesRidgeRegressor

    y, x = frame()
    regressor = sklearn.clone(BayesRidgeRegressor(bands=BANDS)).fit(x, y)
    model = BayesRidge(y, x, bands=BANDS).fit()
    assert np.abs(regressor.coef_ - model.params[NAMES]).max() < 1e-12
    assert not hasattr(regressor, "lambda_")
    assert regressor.result_.variance_components().shape == (2, 10)
    fixed = BayesRidgeRegressor("fixed", lam=[1.0, 5.0], bands=BANDS).fit(x, y)
    assert fixed.predict(x.iloc[:2]).shape == (2,)
    assert hasattr(regressor.set_params(bands=None).fit(x, y), "lambda_")


def test_the_command_line(tmp_path, capsys):
    from pybayesridge.cli import main

    y, x = frame()
    x.assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    command = ["ridge", "y ~ .", str(tmp_path / "data.csv"), "--bands", "genes=g1,g2,g3", "clinic=c1,c2,c3,c4"]
    assert main([*command, "--json", "--quiet"]) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert [band["name"] for band in found["targets"][0]["bands"]] == ["genes", "clinic"]
    again = [*command[:-1], "--bands", command[-1]]
    assert main([*again, "--json", "--quiet"]) in (0, None)
    assert json.loads(capsys.readouterr().out) == found
    schema = json.loads((files("pybayesridge.cli") / "result.schema.json").read_text(encoding="utf-8"))
    pytest.importorskip("jsonschema").validate(found, schema)


def test_decompositions_are_limited_on_the_command_line(tmp_path, capsys):
    from pybayesridge.cli import main

    y, x = frame()
    x.assign(y=y, v=y + x["g1"]).to_csv(tmp_path / "data.csv", index=False)
    rest = [str(tmp_path / "data.csv"), "--bands", "genes=g1,g2,g3", "clinic=c1,c2,c3,c4", "--maxiter"]
    one, both = ["ridge", "y ~ . - v", *rest], ["ridge", "y + v ~ .", *rest]
    assert main([*one, "50"]) == 2
    assert "maxiter limits the decompositions of several responses" in capsys.readouterr().err
    assert main([*one, "50", "--method", "reml"]) == 2
    assert "maxiter is an option of method='exact', not of 'reml'" in capsys.readouterr().err
    assert main([*both, "50", "--tol", "0.1", "--json", "--quiet"]) in (0, None)
    assert json.loads(capsys.readouterr().out)["n_iter"] <= 50
    assert main([*both, "9", "--tol", "0.1"]) == 2
    assert "maxiter must be at least 10 with 2 bands, got 9" in capsys.readouterr().err
