"""The export of a fit with several bands: what its formulas give is what the fit says."""

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import t as student

from pybayesridge import BayesRidge
from pybayesridge.bands.tables import tabulated
from pybayesridge.exceptions import DegenerateFitWarning
from pybayesridge.results import export_fields
from pybayesridge.results.export import export
from pybayesridge.results.export_generalized import in_r

LINEAR = 1e-9
"""Error of means and standard deviations, relative to the largest."""

BETWEEN = 1e-4
"""Error of a probability that is interpolated between the points of a table."""


TABLED = 2e-3
"""Error of quantiles of shares and correlations, which are known by the points of a lattice."""


def data(n=30, p=6, q=1, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    return x[:, :2] @ rng.normal(size=(2, q)) + rng.normal(size=(n, q)), x


@pytest.fixture(scope="module", params=["tall", "wide", "targets", "reml", "weights", "known"])
def res(request):
    y, x = data(**{"wide": {"n": 8, "p": 12}, "targets": {"q": 2}}.get(request.param, {}))
    weights = np.linspace(0.5, 2.0, len(x)) if request.param == "weights" else None
    labels = ["a", "b", "b"] * (x.shape[1] // 3)
    free, known = [1] if request.param == "tall" else None, 1.5 if request.param == "known" else None
    model = BayesRidge(y, x, bands=labels, weights=weights, unpenalized=free, sigma2=known)
    return model.fit("reml") if request.param == "reml" else model.fit()


def moments(post, target):
    """Means and standard deviations of the penalised coefficients of a target, from an export alone."""
    band = post["band"].astype(int) - 1
    means, variances, weights = [], [], []
    for node in np.unique(post["node_of"]):
        at = post["node_of"] == node
        factor = post["factors"][int(node) - 1, band]
        u, s, vt = np.linalg.svd(post["base"] * factor, full_matrices=False)
        z, right = u.T @ post["z"][:, target], vt.T
        log_t2, noise = post["log_t2"][at, target], post["noise"][at, target]
        e = s**2 / (s**2 + np.exp(-log_t2)[:, None])
        means.append((e * z / s) @ right.T * factor)
        outside = np.maximum(1 - (right**2).sum(axis=1), 0.0)
        scale2 = noise[:, None] * ((e / s**2) @ (right**2).T + np.exp(log_t2)[:, None] * outside)
        variances.append(scale2 * factor**2)
        weights.append(post["weight"][at, target])
    m, v, w = np.concatenate(means), np.concatenate(variances), np.concatenate(weights)
    spread = 1.0 if np.isinf(post["df"]) else post["df"] / (post["df"] - 2)
    mean = w @ m
    return mean, np.sqrt(spread * (w @ v) + w @ (m - mean) ** 2)


def test_the_nodes_give_the_posterior(res):
    exported = export(res)
    export_fields.check(exported)
    post = exported["posterior"]
    at = post["at"].astype(int) - 1
    np.testing.assert_allclose(post["weight"].sum(axis=0), 1.0, rtol=1e-12)
    for i in range(len(res.model.data.targets)):
        unit = post["y_norm"][i] / post["scale"]
        mean, sd = moments(post, i)
        params = exported["params"][at, i]
        np.testing.assert_allclose(mean * unit, params, rtol=0, atol=LINEAR * np.abs(params).max())
        np.testing.assert_allclose(sd * unit, exported["bse"][at, i], rtol=1e-6)


def test_tables_have_the_quantiles(res):
    found = export(res)["components"]
    ends = np.cumsum(found["sizes"].T.ravel()).astype(int)
    of = {"sd": lambda x: 2 * np.log(x), "share": logit, "sigma2": np.log}
    for i in range(len(res.model.data.targets)):
        components, hyper = res.components_of(i, 0.1), res.hyperparameters_of(i, np.array([0.5, 0.05, 0.95]))
        expected = [limits for row in components for limits in (row[2:4], row[5:7])] + [hyper[-1, 2:]]
        for row, quantity in enumerate(found["quantity"]):
            end = ends[i * len(found["quantity"]) + row]
            some = slice(end - int(found["sizes"][row, i]), end)
            points, scores = found["points"][some], found["scores"][some]
            if points.size == 1:
                np.testing.assert_allclose(of[quantity](expected[row]), points[[0, 0]], rtol=1e-9)
            else:
                below = ndtr(PchipInterpolator(points, scores)(of[quantity](expected[row])))
                np.testing.assert_allclose(below, [0.05, 0.95], rtol=0, atol=BETWEEN)
        np.testing.assert_allclose(found["mean"][0:-1:2, i], components[:, 0])
        np.testing.assert_allclose(found["little"][1:-1:2, i], components[:, 7])


@pytest.fixture(scope="module", params=["lattice", "targets", "several", "weights", "known", "reml"])
def mixed(request):
    rng = np.random.default_rng(4)
    g, x = np.repeat(np.arange(6), 5), np.tile(np.arange(5.0) - 2, 6)
    slope = rng.normal(size=6)
    d = pd.DataFrame({"x": x, "g": g, "k": np.arange(30) % 4, "z": rng.normal(size=30)})
    d["y"] = x + rng.normal(size=6)[g] + slope[g] * x + rng.normal(size=30)
    d["w"] = slope[g] + rng.normal(size=30)
    response, given = "y", {}
    formula = "z + (1 | k) + (x | g)" if request.param == "several" else "(x | g)"
    if request.param == "targets":
        response = "y + w"
    elif request.param == "weights":
        given = {"weights": np.linspace(0.5, 2.0, 30)}
    elif request.param == "known":
        given = {"sigma2": 1.5}
    model = BayesRidge.from_formula(f"{response} ~ x + {formula}", d, unpenalized=["x"], **given)
    if request.param == "several":
        with pytest.warns(DegenerateFitWarning):
            return model.fit("reml")
    return model.fit("reml") if request.param == "reml" else model.fit(tol=0.02)


def mixed_moments(post, target):
    """Means and standard deviations of the penalised coefficients of a target, from an export alone."""
    band, p = post["band"].astype(int) - 1, len(post["band"])
    row, column = (post[name].astype(int) - 1 for name in ("entry_row", "entry_column"))
    mean, variance, square = np.zeros((3, p))
    spread = 1.0 if np.isinf(post["df"]) else post["df"] / (post["df"] - 2)
    for m in np.flatnonzero(post["weight"][:, target]):
        root = np.zeros((p, p))
        for i, j, value in zip(row, column, post["entries"][m], strict=True):
            root[np.flatnonzero(band == i), np.flatnonzero(band == j)] = value
        h = root.T @ post["gram"] @ root + np.eye(p)
        covariance = root @ np.linalg.solve(h, root.T)
        center = covariance @ post["gram_y"][:, target]
        mean += post["weight"][m, target] * center
        square += post["weight"][m, target] * center**2
        variance += post["weight"][m, target] * post["noise"][m, target] * np.diag(covariance)
    return mean, np.sqrt(spread * variance + square - mean**2)


def test_the_nodes_of_correlated_effects_give_the_posterior(mixed):
    exported = export(mixed)
    export_fields.check(exported)
    post = exported["posterior"]
    at = post["at"].astype(int) - 1
    np.testing.assert_allclose(post["weight"].sum(axis=0), 1.0, rtol=1e-12)
    for i in range(len(mixed.model.data.targets)):
        unit = post["y_norm"][i] / post["scale"]
        mean, sd = mixed_moments(post, i)
        params = exported["params"][at, i]
        np.testing.assert_allclose(mean * unit, params, rtol=0, atol=LINEAR * np.abs(params).max())
        np.testing.assert_allclose(sd * unit, exported["bse"][at, i], rtol=1e-6)


@pytest.mark.parametrize("formula", ["y ~ x + (1 | s) + (1 | d)", "y ~ x + z + (1 | s) + (x | d)"])
def test_the_nodes_of_groups_with_very_many_levels_give_the_posterior(formula, monkeypatch):
    """The export has products of the columns that the fit has not formed."""
    rng = np.random.default_rng(2)
    d = pd.DataFrame({"s": rng.integers(25, size=150), "d": rng.integers(6, size=150), "w": rng.gamma(3.0, size=150)})
    d[["x", "z"]] = rng.normal(1.0, 1.0, (150, 2))
    d["y"] = d["x"] + d["z"] + rng.normal(size=25)[d["s"]] + rng.normal(size=150)
    d["y"] += rng.normal(size=6)[d["d"]] + rng.normal(size=6)[d["d"]] * d["x"]
    monkeypatch.setattr("pybayesridge.formula.bands.MANY_LEVELS", 10)
    fit = BayesRidge.from_formula(formula, d, unpenalized=["x"], weights="w").fit("reml")
    exported = export(fit)
    export_fields.check(exported)
    post = exported["posterior"]
    at, unit = post["at"].astype(int) - 1, post["y_norm"][0] / post["scale"]
    mean, sd = mixed_moments(post, 0)
    params = exported["params"][at, 0]
    np.testing.assert_allclose(mean * unit, params, rtol=0, atol=LINEAR * np.abs(params).max())
    np.testing.assert_allclose(sd * unit, exported["bse"][at, 0], rtol=1e-6)


def test_tables_have_the_quantiles_of_correlations(mixed):
    found = export(mixed)["components"]
    ends = np.cumsum(found["sizes"].T.ravel()).astype(int)
    names, of = mixed.bands.names, {"sd": lambda x: np.exp(x / 2), "share": expit}
    of |= {"correlation": np.tanh, "sigma2": np.exp}
    probabilities = np.array([0.5, 0.05, 0.95])
    for i in range(len(mixed.model.data.targets)):
        components, correlations = mixed.components_of(i, 0.1), mixed.correlations_of(i, 0.1)
        hyper = mixed.hyperparameters_of(i, probabilities)
        expected = [limits for row in components for limits in (row[2:4], row[5:7])]
        expected += [*correlations[:, 2:], hyper[-1, 2:]]
        assert found["quantity"][2 * len(names) : -1] == ["correlation"] * len(correlations)
        assert found["band"][2 * len(names) : -1] == mixed.correlation_names
        for row, quantity in enumerate(found["quantity"]):
            end = ends[i * len(found["quantity"]) + row]
            some = slice(end - int(found["sizes"][row, i]), end)
            points, scores = found["points"][some], found["scores"][some]
            if points.size == 1:
                limits = of[quantity](points[[0, 0]])
            else:
                limits = of[quantity](PchipInterpolator(scores, points)(ndtri(probabilities[1:])))
            np.testing.assert_allclose(limits, expected[row], rtol=TABLED, atol=TABLED)
        np.testing.assert_allclose(found["mean"][2 * len(names) : -1, i], correlations[:, 0])


@pytest.mark.parametrize(("start", "width"), [(0.0, 1.0), (-300.0, 0.1), (4.0, 100.0)])
def test_a_table_finds_its_distribution(start, width):
    points, scores = tabulated(lambda x: student.cdf(x, 4.0), start, width)
    assert (np.diff(points) > 0).all()
    assert (np.diff(scores) > 0).all()
    assert scores[0] < -5
    assert scores[-1] > 5
    probabilities = np.array([0.001, 0.3, 0.5, 0.999])
    at = PchipInterpolator(scores, points)(ndtri(probabilities))
    np.testing.assert_allclose(student.cdf(at, 4.0), probabilities, atol=1e-5)


def test_what_r_does_not_take_is_said(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": np.arange(60) % 12, "m": 9})
    frame["k"] = rng.binomial(9, 0.4, 60)
    assert in_r(["gaussian", "poisson", "ordinal"]) == ["poisson", "ordinal"]
    fit = BayesRidge.from_formula("k ~ x + (1 | g)", frame, family="poisson").fit("fixed", lam=[2.0, 2.0])
    with monkeypatch.context() as patched:
        patched.setattr("pybayesridge.results.export_generalized.in_r", lambda *_, **__: ["student-t"])
        with pytest.raises(ValueError, match="family='poisson' are for Python alone: R has 'student-t'"):
            export(fit)
    coarse = {"method": "laplace", "tol": 0.5}
    for given, how, wanted in (
        ({"family": "poisson"}, {"method": "fixed", "lam": [2.0, 2.0]}, "fewer terms, or method='reml'$"),
        ({"family": "student-t"}, coarse, "fewer terms, or give 'df'$"),
        ({"family": "student-t", "df": 4.0}, coarse, "too large for R: .* or fewer terms$"),
    ):
        fit = BayesRidge.from_formula("k ~ x + (1 | g)", frame[:24], **given).fit(**how)
        with monkeypatch.context() as patched:
            patched.setattr("pybayesridge.sites.posterior.MOST_OF_NODES", 100)
            with pytest.raises(ValueError, match=wanted):
                export(fit)
    monkeypatch.setattr("pybayesridge.formula.bands.MANY_LEVELS", 10)
    monkeypatch.setattr("pybayesridge.results.export.MOST_COLUMNS", 12)
    for given, wanted in (
        ({}, "up to 12 penalised columns, and this one has 13"),
        ({"family": "binomial", "trials": "m"}, "500 levels or more and family='binomial' are for Python alone"),
    ):
        fit = BayesRidge.from_formula("k ~ x + (1 | g)", frame, **given).fit("fixed", lam=[2.0, 2.0])
        with pytest.raises(ValueError, match=wanted):
            export(fit)
