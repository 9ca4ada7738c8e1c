"""The ridge for beta-binomial shares as users call it."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import betabinom

from pybayesridge import BayesRidge, SpikeSlab, compare_evidence, compare_loo, load
from pybayesridge.cli import main
from pybayesridge.cli.as_json import as_json
from pybayesridge.results import export
from pybayesridge.results.export_fields import check

BAND = 5e-3  # as SAME, integrated over a lattice; worst seen 5e-4
SAME, NEAR = 1e-3, 0.1
"""The same fit by another way, and Laplace's approximation beside expectation propagation, in standard deviations."""


def frame(n=50, seed=3, rho=0.2):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    out["m"] = rng.integers(5, 40, n)
    out["w"] = np.resize([1, 2, 1], n)
    mean, s = expit(0.2 + 0.7 * out["a"]), (1 - rho) / rho
    return out.assign(y=rng.binomial(out["m"], rng.beta(mean * s, (1 - mean) * s)))


DATA = frame()


def fit(data=DATA, method=None, *, family="beta-binomial", formula="y ~ a + b", weights=None, **given):
    model = BayesRidge.from_formula(formula, data, family=family, trials="m", weights=weights, **given)
    return model.fit(method)


@pytest.fixture(scope="module")
def fitted():
    return fit()


def agree(one, other, tolerance):
    np.testing.assert_allclose((one.params - other.params) / one.bse, 0, atol=tolerance)
    np.testing.assert_allclose(one.bse, other.bse, rtol=tolerance)


def test_numbers_and_words(fitted):
    assert fitted.converged
    found = fitted.hyperparameters().loc["alpha"]
    assert found["lower"] < 0.25 < found["upper"]
    assert "rho = alpha / (1 + alpha) is Beta(1/2, 1/2)" in " ".join(str(fitted.summary()).split())
    agree(fitted, fit(method="laplace"), NEAR)
    plain = fit(family="binomial")
    assert (fitted.bse > 1.3 * plain.bse).all()
    assert compare_loo({"beta": fitted, "plain": plain}).index[0] == "beta"
    assert compare_evidence({"beta": fitted, "plain": plain}).index[0] == "beta"
    assert fitted.ppc(["sd"], draws=300)["p"].between(0.02, 0.98).all()
    assert 0.4 < fitted.predict().mean() < 0.7
    assert fitted.odds_ratios().loc["a", "prob_above_1"] > 0.95
    assert fitted.resid_pearson.std() == pytest.approx(1.0, abs=0.3)
    assert fitted.resid_deviance.notna().all()


def test_a_given_dispersion():
    res = fit(dispersion=0.25)
    assert "alpha is given: 0.25" in str(res.summary())
    agree(fit(dispersion=1e-8), fit(family="binomial"), SAME)
    weighted, repeated = fit(dispersion=0.25, weights="w"), DATA.loc[np.repeat(DATA.index, DATA["w"])]
    agree(weighted, fit(repeated.reset_index(drop=True), dispersion=0.25), 0.02)


def test_leave_one_out_is_refitting():
    res = fit(dispersion=0.25)
    pointwise = res.loo().pointwise
    for at in (0, 11):
        rest = fit(DATA.drop(index=at), dispersion=0.25)
        drawn = rest.sample(20_000, rng=0).to_numpy()
        share = expit(drawn @ np.r_[1.0, DATA.loc[at, ["a", "b"]].to_numpy(dtype=float)])
        direct = np.log(betabinom.pmf(DATA.loc[at, "y"], DATA.loc[at, "m"], share * 4.0, (1 - share) * 4.0).mean())
        assert pointwise[at] == pytest.approx(direct, abs=0.03)


def test_pure_noise_and_outliers():
    rng = np.random.default_rng(0)
    noise = frame(n=60).assign(y=lambda d: rng.binomial(d["m"], rng.beta(2, 3, 60)))
    assert fit(noise, "laplace").explained_variance()["median"] < 0.1
    outlier = DATA.assign(m=200)
    mean = expit(0.2 + 1.5 * outlier["a"])
    outlier["y"] = rng.binomial(200, rng.beta(mean * 40, (1 - mean) * 40))
    top = outlier["a"].idxmax()
    outlier.loc[top, "y"] = 0
    res = fit(outlier, dispersion=0.025)
    assert res.converged
    node = res.sites_fit.nodes[int(res.sites_fit.weight.argmax())]
    assert (node.sites.precision < 0).any()


def test_files_report_and_json(fitted, tmp_path):
    file = io.BytesIO()
    fitted.save(file, remove_data=True)
    file.seek(0)
    read = load(file)
    pd.testing.assert_frame_equal(read.hyperparameters(), fitted.hyperparameters())
    np.testing.assert_allclose(read.predict(DATA.head(3)), fitted.predict(DATA.head(3)), rtol=1e-9)
    content = as_json(fitted, "ridge", alpha=0.05, warnings=[])
    assert content["targets"][0]["family"] == "beta-binomial"
    json.dumps(content, allow_nan=False)
    check(export.export(fitted))
    pytest.importorskip("jinja2")
    fitted.report(tmp_path / "report.html")
    assert "rho" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_command_line(tmp_path, capsys):
    DATA.to_csv(tmp_path / "data.csv", index=False)
    line = ["ridge", "y ~ a + b", str(tmp_path / "data.csv"), "--family", "beta-binomial", "--trials", "m"]
    assert main([*line, "--method", "laplace", "--dispersion", "0.2"]) in (0, None)
    assert "beta-binomial" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": None}, "family='beta-binomial' needs trials="),
        ({"trials": np.ones(50)}, "all rows have one trial, which says nothing of the dispersion"),
        ({"trials": np.full(50, 3)}, "whole numbers from 0 to the number of trials"),
        ({"dispersion": -1.0}, "dispersion must be positive and finite, not -1"),
        ({"link": "probit"}, "link must be 'logit', not 'probit'"),
        ({"event": 1}, "event requires family='binomial'"),
    ],
)
def test_bad_input_is_refused(given, message):
    y = np.where(given.get("trials") is None, DATA["y"], np.minimum(DATA["y"], 1)) if "trials" in given else DATA["y"]
    y = DATA["y"] if np.ndim(given.get("trials")) == 1 and given["trials"][0] == 3 else y
    with pytest.raises(ValueError, match=message):
        BayesRidge(y, DATA[["a", "b"]], family="beta-binomial", **{"trials": DATA["m"], **given})


def test_no_selection():
    with pytest.raises(ValueError, match=r"SpikeSlab does not have family='beta-binomial', .*; use BayesRidge"):
        SpikeSlab(DATA["y"], DATA[["a", "b"]], family="beta-binomial", trials=DATA["m"])


@pytest.mark.parametrize("method", ["laplace", "ep"])
def test_a_band_of_all_columns_is_the_ridge_with_one_penalty(method):
    one, banded = fit(method=method), fit(method=method, formula="y ~ band(a, b, name='both')")
    np.testing.assert_allclose((one.params.to_numpy() - banded.params.to_numpy()) / one.bse.to_numpy(), 0, atol=BAND)
    np.testing.assert_allclose(banded.bse.to_numpy(), one.bse.to_numpy(), rtol=BAND)
    found, wanted = (res.hyperparameters().loc["alpha"] for res in (banded, one))
    np.testing.assert_allclose(found, wanted, rtol=BAND)


def test_very_many_levels_are_refused():
    many = frame(600, seed=4).assign(g=np.arange(600) % 500)
    with pytest.raises(ValueError, match="'g' has 500 levels: groups with 500 or more are not for"):
        fit(many, "laplace", formula="y ~ a + (1 | g)")
