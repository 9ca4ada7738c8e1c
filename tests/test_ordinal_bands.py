"""Ordered categories with several penalties: against quadrature, one penalty, and draws."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, expit, logsumexp
from scipy.stats import norm

import pybayesridge.formula.bands as of_formula
from pybayesridge import BayesRidge, fit_imputed, load, stack
from pybayesridge.cli import main
from pybayesridge.cli.as_json import as_json
from pybayesridge.results import export
from pybayesridge.results.export_fields import check

NEAR_MEAN, NEAR_SD = 0.01, 0.02
"""Expectation propagation and quadrature, in standard deviations, and relative: 8e-4 and .0018 are the most seen."""

LAPLACE_MEAN, LAPLACE_SD = 0.3, 0.1
"""Laplace's approximation likewise: .12 and .033."""

EVIDENCE = 0.03
"""Of the log evidence by EP: .0025 is the largest seen."""

SAME = 5e-3
"""A band of all columns and a single penalty, integrated by other rules, in standard deviations: 5e-4."""

DRAWN = 4.0
"""Draws and averages, in standard errors."""

LEVELS = ["low", "mid", "high"]
UTMOST = float(np.arcsinh(1e7))


def data(n: int = 70, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.standard_normal(n), "z": rng.uniform(-2, 2, n)})
    out["g"] = rng.permutation(np.resize(list("abcdef"), n))
    out["w"] = np.resize([1, 2, 1, 3], n)
    effect = dict(zip("abcdef", rng.standard_normal(6), strict=True))
    latent = 0.8 * out["x"] + out["g"].map(effect) + rng.logistic(size=n)
    code = np.digitize(latent, [-0.7, 0.9])
    return out.assign(code=code, y=pd.Categorical.from_codes(code, LEVELS, ordered=True))


DATA = data()
GROUPED = "y ~ x + (1 | g)"


def fit(formula=GROUPED, method=None, of=DATA, options=None, **given):
    return BayesRidge.from_formula(formula, of, family="ordinal", **given).fit(method, **(options or {}))


@pytest.fixture(scope="module")
def fitted():
    return fit(unpenalized="fixed", options={"tol": 5e-3})


@pytest.fixture(scope="module")
def truth(fitted):
    return by_quadrature(fitted)


def by_quadrature(res) -> dict[str, np.ndarray | float]:
    """The first cut point, the distance, the slope and the variance on a grid; effects of groups each by itself.

    The grid of the first three is one of Gauss and Hermite around the middle of the fit, three times as wide as its
    standard deviations reach: that says where points are, not what is summed.
    """
    y, x, g = DATA["code"].to_numpy(), DATA["x"].to_numpy(), DATA["g"].to_numpy()
    draws = res.sample(20_000, rng=1, hyper_columns=True)
    first, second = draws["low|mid"], draws["mid|high"]
    of = np.column_stack([first, np.log(second - first), draws["x"]])
    middle, root = of.mean(axis=0), 1.3 * np.linalg.cholesky(np.cov(of.T))
    nodes, weights = np.polynomial.hermite_e.hermegauss(11)
    at = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij")).reshape(3, -1)
    log_w = np.log(np.einsum("i,j,k->ijk", weights, weights, weights).ravel()) + 0.5 * (at**2).sum(axis=0)
    c1, log_d, slope = middle[:, None] + root @ at
    d = np.exp(log_d)
    # Flat in the distance, of which the logarithm is the coordinate.
    log_w += np.log(np.diag(root)).sum() + log_d
    # Dense near 0, where effects of a small variance lie, and out to 100, beyond which nothing changes.
    grid = np.linspace(-UTMOST, UTMOST, 301)
    effects, of_effects = 1e-5 * np.sinh(grid), 1e-5 * np.cosh(grid) * (grid[1] - grid[0])
    sds = np.geomspace(1e-4, 50, 81)
    densities = norm.pdf(effects, scale=sds[:, None]) * of_effects
    log_l = np.zeros((sds.size, c1.size))
    for level in np.unique(g):
        rows = g == level
        eta = (slope[:, None] * x[rows])[:, None, :] + effects[None, :, None]
        low, high = c1[:, None, None] - eta, (c1 + d)[:, None, None] - eta
        share = np.where(y[rows] == 0, expit(low), np.where(y[rows] == 1, expit(high) - expit(low), expit(-high)))
        log_l += np.log(densities @ share.prod(axis=2).T)
    columns = (g[:, None] == np.unique(g)).astype(float)
    flat = np.column_stack([np.ones(len(x)), x])
    columns -= flat @ np.linalg.lstsq(flat, columns, rcond=None)[0]
    t = sds**2 * (columns**2).sum() / len(x) / (np.pi**2 / 3)
    # W / c is beta-prime(1/2, 1/2); three flat coordinates are so in units of the latent response.
    log_prior = 0.5 * np.log(t) - (1.0 + 1.5) * np.log1p(t) - betaln(0.5, 0.5) + np.log(2 * np.log(sds[1] / sds[0]))
    joint = log_l + log_w + log_prior[:, None]
    evidence = logsumexp(joint)
    weight = np.exp(joint - evidence)
    own, of_sd = weight.sum(axis=0), weight.sum(axis=1)
    values = np.column_stack([c1, c1 + d, slope])
    mean = own @ values
    spread = np.sqrt(own @ (values - mean) ** 2)
    return {"mean": mean, "sd": spread, "tau": float(of_sd @ sds), "evidence": float(evidence)}


@pytest.mark.parametrize(
    ("method", "near", "wide"), [("ep", NEAR_MEAN, NEAR_SD), ("laplace", LAPLACE_MEAN, LAPLACE_SD)]
)
def test_against_quadrature(fitted, truth, method, near, wide):
    res = fitted if method == "ep" else fit(method="laplace", unpenalized="fixed", options={"tol": 5e-3})
    cuts = res.cut_points()
    mean, sd = np.r_[cuts["mean"], res.params["x"]], np.r_[cuts["sd"], res.bse["x"]]
    np.testing.assert_allclose((mean - truth["mean"]) / truth["sd"], 0, atol=near)
    np.testing.assert_allclose(sd / truth["sd"], 1, atol=wide)
    assert res.variance_components().loc["g", "mean"] == pytest.approx(truth["tau"], rel=wide)
    assert res.converged


def test_the_evidence_against_quadrature(fitted, truth):
    assert fitted.log_evidence == pytest.approx(truth["evidence"], abs=EVIDENCE)


@pytest.mark.parametrize(("method", "link"), [("ep", "logit"), ("laplace", "logit"), ("laplace", "probit")])
def test_a_band_of_all_columns_is_a_single_penalty(method, link):
    columns, more = DATA[["x", "z"]], {"family": "ordinal", "link": link}
    one = BayesRidge(DATA["y"], columns, **more).fit(method)
    band = BayesRidge(DATA["y"], columns, bands={"all": list(columns)}, **more).fit(method, tol=1e-6)
    np.testing.assert_allclose((band.params - one.params) / one.bse, 0, atol=SAME)
    np.testing.assert_allclose(band.bse, one.bse, rtol=SAME)
    np.testing.assert_allclose(band.conf_int(), one.conf_int(), atol=SAME * one.bse.max())
    np.testing.assert_allclose(band.cut_points(), one.cut_points(), rtol=SAME)
    np.testing.assert_allclose(band.fittedvalues, one.fittedvalues, atol=SAME)
    assert band.log_marginal == pytest.approx(one.log_marginal, abs=SAME)
    assert band.loo_log_score == pytest.approx(one.loo_log_score, abs=SAME)
    given = BayesRidge(DATA["y"], columns, **more).fit("fixed", lam=2.0, solver=method)
    two = BayesRidge(DATA["y"], columns, bands={"a": ["x"], "b": ["z"]}, **more)
    two = two.fit("fixed", lam=[2.0, 2.0], solver=method)
    np.testing.assert_allclose(two.params, given.params, rtol=SAME)
    np.testing.assert_allclose(two.cut_points(), given.cut_points(), rtol=SAME)


def test_predictions_are_averages_of_draws(fitted):
    new = DATA.head(4).assign(g=["a", "b", "new", None])
    draws = fitted.sample(20_000, rng=3, hyper_columns=True)
    rng = np.random.default_rng(0)
    sd = np.sqrt(draws["tau2[g]"].to_numpy())
    for row, (_, values) in enumerate(new.iterrows()):
        known = f"g[{values['g']}]" in draws
        effect = draws[f"g[{values['g']}]"].to_numpy() if known else sd * rng.standard_normal(len(draws))
        eta = draws["x"].to_numpy() * values["x"] + effect
        below = expit(draws[["low|mid", "mid|high"]].to_numpy() - eta[:, None])
        share = np.diff(np.column_stack([np.zeros(len(eta)), below, np.ones(len(eta))]), axis=1)
        found = fitted.predict(new).iloc[row]
        np.testing.assert_allclose(
            (share.mean(axis=0) - found) / (share.std(axis=0) / np.sqrt(len(eta))), 0, atol=DRAWN
        )
        frame = fitted.get_prediction(new).summary_frame().iloc[row]
        spread = frame[[(name, "mean_se") for name in LEVELS]].to_numpy()
        np.testing.assert_allclose(spread, share.std(axis=0), rtol=0.1)
    none = fitted.predict(new, groups=False)
    np.testing.assert_allclose(none.sum(axis=1), 1.0)
    np.testing.assert_allclose(none, fitted.predict(new.assign(g="new"), new_levels="zero"))


@pytest.mark.parametrize(("method", "groups"), [("ep", "(1 | g)"), ("laplace", "(1 | g) + (1 | h)")])
def test_groups_with_very_many_levels_are_eliminated(method, groups, monkeypatch, tmp_path):
    """The same numbers, whether dummies are columns or eliminated."""
    frame = DATA.assign(h=np.resize(list("pqrs"), len(DATA)))
    formula = f"y ~ x + {groups}"
    dense = fit(formula, method, of=frame, unpenalized="fixed", options={"tol": 0.05})
    new = frame.head(4).assign(g=["a", "b", "new", None], h=["p", "new", "q", "r"])
    told = [dense.predict(new), dense.predict(new, which="linear"), dense.get_prediction(new).se]
    monkeypatch.setattr(of_formula, "MANY_LEVELS", 6)
    large = fit(formula, method, of=frame, unpenalized="fixed", options={"tol": 0.05})
    assert large.bands.eliminated is not None
    names = list(dense.params.index)
    for one, other in (
        (large.params[names], dense.params),
        (large.bse[names], dense.bse),
        (large.cut_points(), dense.cut_points()),
        (large.variance_components(), dense.variance_components().loc[list(large.variance_components().index)]),
        (large.predict(new), told[0]),
        (large.predict(new, which="linear"), told[1]),
        (large.loo().pointwise, dense.loo().pointwise),
        (large.cov_params().loc[names, names], dense.cov_params()),
    ):
        np.testing.assert_allclose(one, other, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(large.get_prediction(new).se, told[2], atol=0.02)
    large.save(tmp_path / "fit", remove_data=True)
    np.testing.assert_allclose(load(tmp_path / "fit").predict(new), large.predict(new))


def test_weights_are_copies():
    weighted = fit(method="laplace", weights="w")
    copied = fit(of=DATA.loc[DATA.index.repeat(DATA["w"])].reset_index(drop=True), method="laplace")
    np.testing.assert_allclose((weighted.params - copied.params) / copied.bse, 0, atol=SAME)
    np.testing.assert_allclose(weighted.cut_points(), copied.cut_points(), rtol=SAME)
    np.testing.assert_allclose(weighted.variance_components(), copied.variance_components(), rtol=10 * SAME)


def test_files_are_the_same_fit(fitted):
    file = io.BytesIO()
    fitted.save(file, remove_data=True)
    file.seek(0)
    read = load(file)
    new = DATA.head(3).assign(g=["a", "b", "new"])
    np.testing.assert_allclose(read.predict(new), fitted.predict(new))
    np.testing.assert_allclose(read.get_prediction(new).conf_int(), fitted.get_prediction(new).conf_int())
    np.testing.assert_allclose(read.cut_points(), fitted.cut_points())
    np.testing.assert_allclose(read.variance_components(), fitted.variance_components())
    assert str(read.summary()) == str(fitted.summary())


def test_a_row_is_left_out(fitted):
    """The log score of a row beside that of a fit without it."""
    score = fitted.loo().pointwise
    for row in (0, 5):
        rest = fit(of=DATA.drop(index=row), unpenalized="fixed", options={"tol": 5e-3})
        share = rest.predict(DATA.iloc[[row]]).iloc[0, DATA["code"].iloc[row]]
        assert score[row] == pytest.approx(np.log(share), abs=0.02)


def test_every_output_has_cut_points_and_bands(fitted, tmp_path, capsys):
    text = str(fitted.summary())
    assert "low|mid" in text
    assert "P(share<1%)" in text
    slopes = fit("y ~ (x | g) + s(z, k=5)", "laplace")
    assert list(slopes.variance_components().index) == ["g", "x|g", "s(z)", "cor(g, x|g)"]
    assert np.isfinite(slopes.variance_components().loc["g", "mean"])
    assert set(fitted.prior_sensitivity().index) == set(fitted.params.index)
    assert fitted.ppc().loc["mean", "p"] > 0.01
    file, saved = tmp_path / "data.csv", tmp_path / "fit.npz"
    DATA.drop(columns="code").to_csv(file, index=False)
    line = ["ridge", GROUPED, str(file), "--family", "ordinal", "--categories", ",".join(LEVELS)]
    assert main([*line, "--save", str(saved)]) in (0, None)
    assert "mid|high" in capsys.readouterr().out
    content = as_json(fitted, "ridge", alpha=0.05, warnings=[])
    assert [each["name"] for each in content["targets"][0]["cut_points"]] == ["low|mid", "mid|high"]
    check(export.export(fitted))
    pytest.importorskip("jinja2")
    fitted.report(tmp_path / "report.html")
    assert "low|<wbr>mid" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_there_is_not(fitted):
    with pytest.raises(ValueError, match=r"use fit\('laplace'\)"):
        fit(link="probit")
    with pytest.raises(ValueError, match="cannot be pooled"):
        fit_imputed([DATA, DATA.assign(x=DATA["x"] + 0.01)], lambda data: fit(of=data))
    with pytest.raises(ValueError, match="predictions cannot be mixed"):
        stack({"a": fitted, "b": fitted})
    separated = DATA.assign(x=DATA["code"] + 0.1 * DATA["x"])
    with pytest.raises(ValueError, match="separate the ordered categories"):
        fit(of=separated, unpenalized="fixed")
    assert fit(of=separated, method="laplace").converged
