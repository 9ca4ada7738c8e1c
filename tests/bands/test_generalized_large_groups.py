"""Groups with very many levels, for yes/no responses and counts: against the same models with dense columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, load
from pybayesridge.formula import bands as of_formulas
from pybayesridge.models.banded import mixed_problem
from pybayesridge.sites import arrow_bands
from pybayesridge.sites.arrow import ArrowRows
from pybayesridge.sites.arrow_bands import ArrowSpace, arrow_from_problem, eliminating
from pybayesridge.sites.bands import from_problem
from pybayesridge.sites.gaussian import Gaussian, Sites, combine
from tests.effort import only_thorough

FINE = 1e-4
"""Tolerance of integrals over the variances at which two lattices, whose middles differ a little, agree to `SAME`:
with a larger one the points of one lattice may be further apart than those of the other."""

SAME = 1e-4
"""Coefficients in standard deviations, and standard deviations relatively: places where integrals end differ."""

EXACT = 1e-9
"""Linear algebra in two ways."""

DRAWN = 0.01
"""Quantiles of draws."""

LEVELS, N = 12, 90


def data() -> pd.DataFrame:
    """Rows in two groups, of which a few lack the first."""
    rng = np.random.default_rng(8)
    out = pd.DataFrame({"x": rng.standard_normal(N), "z": rng.uniform(0, 3, N), "t": rng.uniform(0.5, 2, N)})
    g = rng.permutation(np.resize(np.arange(LEVELS), N))
    h = rng.integers(0, 4, N)
    eta = 0.3 + 0.6 * out["x"] + rng.standard_normal(LEVELS)[g] + 0.5 * rng.standard_normal(4)[h]
    out["g"], out["h"] = [f"g{i}" for i in g], [f"h{i}" for i in h]
    out["k"], out["m"] = rng.binomial(3, 1 / (1 + np.exp(-eta))), 3
    out["c"] = rng.poisson(np.exp(eta) * out["t"])
    return out


DATA = data()
MODELS = {
    "trials": ("k ~ x + (1 | g)", {"family": "binomial", "trials": "m"}),
    "exposure": ("c ~ x + (1 | g) + (1 | h)", {"family": "poisson", "exposure": "t"}),
    "slopes": ("c ~ x + (0 + x | g)", {"family": "poisson"}),
    "curve": ("k ~ x + (1 | g) + s(z, k=4)", {"family": "binomial", "trials": "m"}),
}


def test_an_arrow_is_factorised_as_the_whole_matrix():
    rng = np.random.default_rng(1)
    n, m, k, count = 40, 3, 2, 7
    level, value = rng.integers(0, count - 1, n), rng.normal(size=n)
    beside, units = np.asfortranarray(rng.normal(size=(n, m))), rng.uniform(0.5, 2.0, m + count)
    units[:k] = 1.0
    rows = ArrowRows(level, value, beside, k, units)
    dummies = np.zeros((n, count))
    dummies[np.arange(n), level] = value
    whole = np.hstack([beside, dummies]) * units
    sites = Sites(rng.uniform(0.1, 3.0, n), rng.normal(size=n))
    precision = (whole.T * sites.precision) @ whole + np.diag(np.r_[np.zeros(k), np.ones(m + count - k)])
    covariance = np.linalg.inv(precision)
    found = combine(rows, sites)
    assert not isinstance(found, Gaussian)
    np.testing.assert_allclose(found.mean, covariance @ whole.T @ sites.shift, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(found.variances(rows), np.einsum("ij,jk,ik->i", whole, covariance, whole), rtol=EXACT)
    assert found.log_root == pytest.approx(0.5 * np.linalg.slogdet(precision)[1], rel=EXACT)
    right = rng.normal(size=m + count)
    np.testing.assert_allclose(found.unhalf(found.half(right)), covariance @ right, rtol=EXACT, atol=EXACT)
    assert found.length(right) == pytest.approx(np.sqrt(right @ precision @ right), rel=EXACT)
    of_levels, of_others = found.halves(sparse.csr_matrix(dummies * units[m:]), beside * units[:m])
    square = (of_levels @ of_levels.T).toarray() + of_others @ of_others.T
    np.testing.assert_allclose(square, whole @ covariance @ whole.T, rtol=EXACT, atol=EXACT)
    noise = found.unhalf(np.eye(m + count))
    np.testing.assert_allclose(noise @ noise.T, covariance, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("method", ["laplace", "ep"])
@pytest.mark.parametrize("name", MODELS)
def test_groups_that_are_eliminated_are_those_with_dense_columns(name, method, monkeypatch, tmp_path):
    formula, more = MODELS[name]
    dense = BayesRidge.from_formula(formula, DATA, unpenalized="fixed", **more).fit(method, tol=FINE)
    new = DATA.head(4).assign(g=["g1", "new", None, "g2"])
    expected = dense.get_prediction(new).summary_frame()
    monkeypatch.setattr(of_formulas, "MANY_LEVELS", 5)
    large = BayesRidge.from_formula(formula, DATA, unpenalized="fixed", **more).fit(method, tol=FINE)
    names = list(dense.params.index)
    np.testing.assert_allclose((large.params[names] - dense.params) / dense.bse, 0, atol=SAME)
    np.testing.assert_allclose(large.bse[names], dense.bse, rtol=SAME)
    np.testing.assert_allclose(large.conf_int().loc[names], dense.conf_int(), atol=2 * SAME)
    change = large.cov_params().loc[names, names] - dense.cov_params()
    np.testing.assert_allclose(change / np.outer(dense.bse, dense.bse), 0, atol=SAME)
    np.testing.assert_allclose(large.fittedvalues, dense.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(large.get_prediction(new).summary_frame(), expected, rtol=10 * SAME)
    np.testing.assert_allclose(large.variance_components()["mean"], dense.variance_components()["mean"], rtol=1e-3)
    assert large.log_marginal == pytest.approx(dense.log_marginal, abs=SAME)
    assert large.loo_log_score == pytest.approx(dense.loo_log_score, abs=SAME)
    drawn = large.sample(20_000, rng=1)
    below = (drawn < large.conf_int()[large.conf_int().columns[0]]).mean()
    np.testing.assert_allclose(below, 0.025, atol=DRAWN)
    np.testing.assert_allclose(large.explained_variance()["mean"], dense.explained_variance()["mean"], atol=DRAWN)
    large.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit")
    np.testing.assert_allclose(again.params, large.params, rtol=1e-9)
    np.testing.assert_allclose(again.get_prediction(new).summary_frame(), expected, rtol=10 * SAME)


@pytest.mark.parametrize(
    ("formula", "more", "method"),
    [
        (*MODELS["trials"], "reml"),
        *((*each, "laplace") for each in MODELS.values()),
        ("c ~ 0 + x + (1 | g) + (z | h)", {"family": "poisson", "weights": "m"}, "reml"),
        ("o ~ x + (1 | g)", {"family": "ordinal"}, "laplace"),
        ("c ~ x + (1 | g)", {"family": "negative-binomial", "exposure": "t"}, "laplace"),
    ],
)
def test_groups_that_nodes_eliminate_change_nothing(formula, more, method, monkeypatch):
    frame = DATA.assign(o=pd.Categorical(np.minimum(DATA["c"], 3).astype(str), ordered=True))
    found = []
    for work in (np.inf, 0):
        monkeypatch.setattr(arrow_bands, "LEAST_WORK", work)
        model = BayesRidge.from_formula(formula, frame, unpenalized="fixed", **more)
        found.append(model.fit(method, **({} if method == "reml" else {"tol": FINE})))
    without, with_it = found
    np.testing.assert_allclose((with_it.params - without.params) / without.bse, 0, atol=SAME)
    np.testing.assert_allclose(with_it.bse, without.bse, rtol=SAME)
    np.testing.assert_allclose(with_it.cov_params(), without.cov_params(), atol=SAME * without.bse.max() ** 2)
    assert with_it.loo_log_score == pytest.approx(without.loo_log_score, abs=SAME)
    if method == "laplace":
        assert with_it.log_marginal == pytest.approx(without.log_marginal, abs=SAME)


def test_a_node_with_a_group_eliminated_is_that_with_all_columns(monkeypatch):
    monkeypatch.setattr(arrow_bands, "LEAST_WORK", 0)
    model = BayesRidge.from_formula(
        "k ~ x + (1 | g) + (z | h)", DATA, unpenalized="fixed", family="binomial", trials="m"
    )
    _, problem = model.prepare(lambda design, products: mixed_problem(design, products, model.bands))
    quick, whole = arrow_from_problem(eliminating(problem)), from_problem(problem)
    rng = np.random.default_rng(4)
    factors = tuple(np.tril(rng.uniform(0.3, 2.0, (len(bands), len(bands)))) for bands in whole.terms.bands)
    sites = Sites(rng.uniform(0.1, 3.0, N), rng.normal(size=N))
    found = combine(quick.at(factors).scaled(0.0), sites)
    expected = combine(whole.at(factors).scaled(0.0), sites)
    same = quick.at(factors).of_all_columns(found, 0.0)
    np.testing.assert_allclose(same.mean, expected.mean, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(same.covariance(), expected.covariance(), rtol=EXACT, atol=EXACT)
    sds = whole.at(factors).coefficient_sds(expected)
    np.testing.assert_allclose(quick.at(factors).coefficient_sds(found)[whole.k :], sds[whole.k :], rtol=EXACT)


def test_levels_that_are_separated_and_too_many_to_be_looked_at(monkeypatch):
    """Where rows in the columns of all levels are needed nothing is eliminated."""
    frame = pd.DataFrame({"g": [f"g{i}" for i in np.arange(N) % LEVELS]})
    frame["y"] = np.arange(N) % 2
    monkeypatch.setattr(arrow_bands, "LEAST_WORK", np.inf)
    expected = BayesRidge.from_formula("y ~ (1 | g)", frame, family="binomial").fit("laplace")
    monkeypatch.setattr(arrow_bands, "LEAST_WORK", 0)
    monkeypatch.setattr(arrow_bands, "MOST_DENSE", 0)
    asked = []
    rows_in = ArrowSpace.rows_in
    monkeypatch.setattr(ArrowSpace, "rows_in", lambda *args: asked.append(0) or rows_in(*args))
    found = BayesRidge.from_formula("y ~ (1 | g)", frame, family="binomial").fit("laplace")
    assert asked
    assert found.log_marginal == pytest.approx(expected.log_marginal, abs=EXACT)


@only_thorough
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_separation_beside_a_group_that_is_eliminated(family, monkeypatch):
    frame = DATA.assign(t=[f"t{i}" for i in np.arange(N) % 3], y=DATA["k"] > 1 if family == "binomial" else DATA["c"])
    frame["y"] = frame["y"].astype(int).mask(frame["t"] == "t1", int(family == "binomial"))
    found = []
    for work in (np.inf, 0):
        monkeypatch.setattr(arrow_bands, "LEAST_WORK", work)
        found.append(BayesRidge.from_formula("y ~ t + (1 | g)", frame, family=family).fit())
    without, with_it = found
    assert without.sites_fit.separated
    assert with_it.sites_fit.separated
    low, high = without.conf_int().to_numpy().T
    gap = np.abs(with_it.conf_int().to_numpy() - without.conf_int().to_numpy()).max(axis=1)
    np.testing.assert_array_less(gap / (high - low), DRAWN)


def test_columns_that_are_no_group_are_not_eliminated(monkeypatch):
    monkeypatch.setattr(arrow_bands, "LEAST_WORK", 0)
    assert _eliminated("k ~ x + (1 | g)") is not None
    assert _eliminated("k ~ x + (x | g)") is None
    assert _eliminated("k ~ x + (1 | h) + s(z, k=9)") is None
    monkeypatch.setattr(arrow_bands, "LEAST_WORK", np.inf)
    assert _eliminated("k ~ x + (1 | g)") is None


def _eliminated(formula: str):
    model = BayesRidge.from_formula(formula, DATA, family="binomial", trials="m")
    _, problem = model.prepare(lambda design, products: mixed_problem(design, products, model.bands))
    return eliminating(problem)


def test_six_hundred_levels():
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(600), 4)
    x = rng.standard_normal(g.size)
    y = rng.poisson(np.exp(0.4 + 0.5 * x + 0.7 * rng.standard_normal(600)[g]))
    frame = pd.DataFrame({"y": y, "x": x, "g": g.astype(str)})
    model = BayesRidge.from_formula("y ~ x + (1 | g)", frame, family="poisson", unpenalized="fixed")
    res = model.fit("laplace")
    low, high = res.variance_components().loc["g", ["lower", "upper"]]
    assert low < 0.7 < high
    assert abs(res.params["x"] - 0.5) < 4 * res.bse["x"]
    effects = res.random_effects()
    assert len(effects) == 600
    mode = model.fit("reml")
    assert abs(mode.params["x"] - res.params["x"]) < 0.1 * res.bse["x"]
    assert low < mode.variance_components().loc["g", "mean"] < high
