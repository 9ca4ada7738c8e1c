"""A treatment at one level of which all responses are 1: what the fits say beside importance sampling."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, gammaln, logsumexp

from pybayesridge import BayesRidge, load

DF, WIDER, DRAWS = 6.0, 1.15, 4000
"""Degrees of freedom and scale of the t distributions that draws are from, relative to EP's normal distributions, and
the number of draws at a penalty."""

EVEN = 0.15
"""Share of the draws that all parts of a posterior get alike."""

CASES = {
    "one": ("y ~ t", 3, 1.5, -1.0, (0.02, 0.03)),
    "both": ("y ~ t", 5, 0.7, 99.0, (0.03, 0.06)),
    "blocks": ("y ~ t + (1 | block)", 5, 0.7, -1.0, (0.02, 0.03)),
    "unlike": ("y ~ t + (1 | block)", 3, 1.5, -1.0, (0.07, 0.09)),
}
"""Formula, seed, standard deviation of the effects of blocks, effect of the last level, and the largest errors of
means in standard deviations, and of standard deviations. Seen: .01 and 1.6 %; .01 and 4 % where two levels separate;
.005 and 1 %; .04 and 6 % where blocks are very different, of all coefficients alike: there expectation propagation is
less accurate along the effects of blocks. In one part those that separate have .84 to .88 of the standard
deviation."""

LAPLACE = 0.8
"""Standard deviation of the coefficient that separates by Laplace's method, relative to that by sampling, at most:
.53 to .74."""


def responses(seed=3, spread=1.5, last=-1.0):
    rng = np.random.default_rng(seed)
    block, t = np.repeat(np.arange(10), 8), np.tile(np.repeat(np.arange(4), 2), 10)
    eta = np.array([99.0, 1.0, 0.5, last])[t] + rng.normal(size=10)[block] * spread
    y = (rng.random(80) < expit(np.clip(eta, -30, 30))).astype(float)
    names = np.array(["none", "crabs", "shrimp", "both"])[t]
    return pd.DataFrame({"y": y, "t": names, "block": [f"b{i}" for i in block]})


def log_t(away, roots):
    """Log density of t distributions with triangular roots of precisions at distances from their centres."""
    dim = away.shape[1]
    square = ((away @ roots / WIDER) ** 2).sum(axis=1)
    constant = gammaln((DF + dim) / 2) - gammaln(DF / 2) - 0.5 * dim * np.log(DF * np.pi) - dim * np.log(WIDER)
    return constant + np.log(np.diag(roots)).sum() - 0.5 * (DF + dim) * np.log1p(square / DF)


def sampled(fit, y, count):
    """Means and standard deviations of the first coefficients by importance sampling at each penalty."""
    space, k, rng = fit.space, fit.space.k, np.random.default_rng(0)
    penalties = np.column_stack([[node.log_t2 for node in fit.nodes], *(f.reshape(len(f), -1) for f in fit.factors)])
    _, which = np.unique(penalties, axis=0, return_inverse=True)
    which, draws, logs = which.reshape(-1), [], []
    weight = np.bincount(which, fit.weight)
    for penalty in np.flatnonzero(weight > 1e-6):
        parts = np.flatnonzero(which == penalty)
        at, log_t2 = fit.space_at(parts[0]), fit.nodes[parts[0]].log_t2
        rows = at.scaled(log_t2)
        laws = [fit.nodes[i].gaussian(at) for i in parts]
        log_evidence = logsumexp([fit.nodes[i].log_evidence for i in parts])
        share = (1 - EVEN) * fit.weight[parts] / weight[penalty] + EVEN / parts.size
        own = rng.multinomial(DRAWS, share / share.sum())
        u = []
        for law, size in zip(laws, own, strict=True):
            noise = rng.normal(size=(size, law.mean.size)) * np.sqrt(DF / rng.chisquare(DF, size=size))[:, None]
            u.append(law.mean + WIDER * noise @ law.root().T)
        u = np.vstack(u)
        seen = zip(laws, own / DRAWS, strict=True)
        log_mixture = logsumexp([log_t(u - g.mean, g.factor) + np.log(s) for g, s in seen if s > 0], axis=0)
        eta = u @ (rows.rows * rows.units).T
        log_posterior = -np.logaddexp(0.0, np.where(y > 0, -eta, eta)).sum(axis=1)
        log_posterior -= 0.5 * (u[:, k:] ** 2).sum(axis=1) + 0.5 * (u.shape[1] - k) * np.log(2 * np.pi)
        drawn = at.coefficients(u.T, log_t2)
        draws.append(np.column_stack(space.on_user_scale(drawn, np.full(DRAWS, log_t2), rng))[:, :count])
        logs.append(log_posterior - log_mixture - log_evidence + np.log(weight[penalty]))
    log_weight = np.concatenate(logs)
    weight, b = np.exp(log_weight - logsumexp(log_weight)), np.vstack(draws)
    mean = weight @ b
    return mean, np.sqrt(weight @ (b - mean) ** 2)


@pytest.mark.parametrize("case", CASES)
def test_an_effect_that_separates(case):
    formula, *of_data, (mean_tol, sd_tol) = CASES[case]
    data = responses(*of_data)
    fit = BayesRidge.from_formula(formula, data, family="binomial").fit()
    assert fit.sites_fit.split
    mean, sd = sampled(fit.sites_fit, data["y"].to_numpy(), 4)
    assert (np.abs(fit.params[:4] - mean) < mean_tol * sd).all()
    assert (np.abs(fit.bse[:4] / sd - 1.0) < sd_tol).all()
    assert ["in parts" in each.text for each in fit.findings if each.code == "separation"] == [True]
    by_laplace = BayesRidge.from_formula(formula, data, family="binomial").fit("laplace")
    assert by_laplace.bse["t[T.none]"] < LAPLACE * sd[list(fit.params.index).index("t[T.none]")]
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
