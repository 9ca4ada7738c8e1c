"""A treatment at one level of which all responses are 1: what the fits say beside importance sampling."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, gammaln, logsumexp

from pybayesridge import BayesRidge, load

DF, WIDER, DRAWS = 6.0, 1.15, 8000
"""Degrees of freedom and scale of the t distribution that draws are from, relative to EP's normal distribution, and
half their number."""

LEAST, MOST = 0.76, 0.92
"""Standard deviation of the coefficient that separates by EP, relative to that by sampling: .84 to .86
with other seeds and numbers of draws. This is not a tolerance of the method but what the finding says of it."""

LAPLACE = 0.7
"""The same by Laplace's method, at most: .62, .53."""

MEAN_TOL = 0.13
"""Of its mean, in standard deviations: -.04 and, with blocks, -.08."""

OTHERS_MEAN_TOL, OTHERS_SD_TOL = 0.1, 0.15
"""Of other coefficients: .065 and 9 % with blocks, .02 and 2 % without."""


def responses():
    rng = np.random.default_rng(3)
    block, t = np.repeat(np.arange(10), 8), np.tile(np.repeat(np.arange(4), 2), 10)
    eta = np.array([99.0, 1.0, 0.5, -1.0])[t] + rng.normal(size=10)[block] * 1.5
    y = (rng.random(80) < expit(np.clip(eta, -30, 30))).astype(float)
    names = np.array(["none", "crabs", "shrimp", "both"])[t]
    return pd.DataFrame({"y": y, "t": names, "block": [f"b{i}" for i in block]})


def sampled(fit, y, count):
    """Means and standard deviations of the first coefficients by importance sampling at each node."""
    space, k, rng = fit.space, fit.space.k, np.random.default_rng(0)
    draws, logs = [], []
    for i in np.flatnonzero(fit.weight > 1e-6):
        node, at = fit.nodes[i], fit.space_at(i)
        rows = at.scaled(node.log_t2)
        root, mean = node.gaussian(at).root(), node.gaussian(at).mean
        dim = mean.size
        if not draws:
            z = rng.normal(size=(DRAWS, dim))
            spread = np.sqrt(DF / rng.chisquare(DF, size=DRAWS))
            z = WIDER * np.vstack([z, -z]) * np.r_[spread, spread][:, None]
        log_t = -0.5 * (DF + dim) * np.log1p((z**2).sum(axis=1) / WIDER**2 / DF)
        log_t += gammaln((DF + dim) / 2) - gammaln(DF / 2) - 0.5 * dim * np.log(DF * np.pi) - dim * np.log(WIDER)
        u = mean + z @ root.T
        eta = u @ (rows.rows * rows.units).T
        log_posterior = -np.logaddexp(0.0, np.where(y > 0, -eta, eta)).sum(axis=1)
        log_posterior -= 0.5 * (u[:, k:] ** 2).sum(axis=1) + 0.5 * (dim - k) * np.log(2 * np.pi)
        log_weight = log_posterior - log_t + np.log(np.abs(np.diag(root))).sum() - node.log_evidence
        drawn = at.coefficients(u.T, node.log_t2)
        draws.append(
            np.column_stack(space.on_user_scale(drawn, np.full(drawn.shape[1], node.log_t2), rng))[:, :count]
        )
        logs.append(log_weight + np.log(fit.weight[i]))
    log_weight = np.concatenate(logs)
    weight, b = np.exp(log_weight - logsumexp(log_weight)), np.vstack(draws)
    mean = weight @ b
    return mean, np.sqrt(weight @ (b - mean) ** 2)


@pytest.mark.parametrize("formula", ["y ~ t", "y ~ t + (1 | block)"])
def test_an_effect_that_separates(formula):
    data = responses()
    fit = BayesRidge.from_formula(formula, data, family="binomial").fit()
    mean, sd = sampled(fit.sites_fit, data["y"].to_numpy(), 4)
    off, ratio = (fit.params[:4] - mean) / sd, fit.bse[:4] / sd
    separates = fit.params.index[:4] == "t[T.none]"
    assert (np.abs(off[separates]) < MEAN_TOL).all()
    assert ((ratio[separates] > LEAST) & (ratio[separates] < MOST)).all()
    assert (np.abs(off[~separates]) < OTHERS_MEAN_TOL).all()
    assert (np.abs(ratio[~separates] - 1.0) < OTHERS_SD_TOL).all()
    assert "a fifth too small" in str(fit.summary())
    by_laplace = BayesRidge.from_formula(formula, data, family="binomial").fit("laplace")
    assert ((by_laplace.bse[:4] / sd)[separates] < LAPLACE).all()
    assert "about half as large" in str(by_laplace.summary())


@pytest.mark.parametrize("changed", [[0], [0, 3]])
def test_responses_that_no_column_separates(changed):
    data = responses()
    data.loc[data.index[data["t"] == "none"][changed], "y"] = 0.0
    fit = BayesRidge.from_formula("y ~ t + (1 | block)", data, family="binomial").fit()
    assert not fit.sites_fit.separated
    assert "separate the responses" not in str(fit.summary())


def arrays(data):
    columns = pd.get_dummies(data["t"]).iloc[:, 1:].assign(x=np.arange(80) % 7.0).astype(float)
    return columns, {"t": list(columns.columns[:3]), "x": ["x"]}


def of_some_responses(kind):
    """A model of the same treatment, and a response that it does not separate."""
    data, rng = responses(), np.random.default_rng(4)
    none = (data["t"] == "none").to_numpy()
    if kind == "poisson":
        data["y"] = np.where(none, 0, rng.poisson(2.0, size=80))
    if kind in ("ordinal", "eliminated"):
        data["block"] = np.arange(80) % 20 if kind == "ordinal" else np.arange(80) % 40
    if kind == "ordinal":
        data["y"] = np.where(none, "c", rng.choice(list("abc"), size=80))
    mixed = data.copy()
    mixed.loc[data.index[none][:3], "y"] = {"poisson": 2, "ordinal": "a"}.get(kind, 0)
    family = kind if kind in ("poisson", "ordinal") else "binomial"
    given = {"link": "probit"} if kind == "probit" else {"categories": list("abc")} if kind == "ordinal" else {}

    def made(frame):
        if kind == "arrays":
            columns, bands = arrays(frame)
            return BayesRidge(frame["y"], columns, bands=bands, family=family)
        return BayesRidge.from_formula("y ~ t + (1 | block)", frame, family=family, **given)

    return made(data), made(mixed)


@pytest.mark.parametrize("kind", ["arrays", "poisson", "ordinal", "probit", "eliminated"])
def test_separation_is_said_of_all_kinds_of_responses(kind, monkeypatch, tmp_path):
    if kind == "eliminated":
        monkeypatch.setattr("pybayesridge.formula.bands.MANY_LEVELS", 30)
    separated, mixed = (model.fit("laplace", tol=0.1) for model in of_some_responses(kind))
    assert [each.name for each in mixed.findings if each.code == "separation"] == []
    (found,) = [each for each in separated.findings if each.code == "separation"]
    assert "Laplace" in found.text
    separated.save(tmp_path / "fit.pbr", remove_data=True)
    assert found.text in [each.text for each in load(tmp_path / "fit.pbr").findings]
