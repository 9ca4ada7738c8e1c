"""Selections with hardly any noise, compared with sums over all sets under a prior without an upper bound."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, log_expit, logit, logsumexp

from pybayesridge import PrecisionWarning, SpikeSlab
from pybayesridge.ep.learning.average import average
from pybayesridge.ep.model.hyper_prior import ETA_BOUNDS, bell
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, prior_of
from pybayesridge.selection.problem import problem_of_rows

SUMMED = 3e-3  # of noise and standard deviations, by rounding errors of sums of squares; worst seen 3e-4
EVIDENCE = 0.05  # worst seen 5e-3, likewise
SAMPLED = 0.03  # worst seen 3e-3
BY_EP = 0.1  # worst seen .01
CERTAIN = 0.02  # the closed form; worst seen 2e-3

STEP = 0.1
"""Of eta and log g in the sums."""


def sums(X, y, nu, highest=70.0):
    """Means of s2 and log evidence, means and standard deviations of coefficients, by singular values of X_A."""
    n, d = X.shape
    t = np.linspace(logit(0.01 / d), -logit(min(0.005, 0.01 * (1 - 1 / d))), 121)
    spread, log_p = np.log((X**2).sum() / n), log_expit(t)
    log_g = np.arange(-5.0, highest - log_p[0], STEP) - spread
    eta = spread + log_p[:, None] + log_g
    prior = np.where(eta >= ETA_BOUNDS[0], bell(eta), -np.inf) + bell(t + np.log(d - 1))[:, None]
    prior[[0, -1]] -= np.log(2)
    prior -= logsumexp(prior)
    k = np.exp(-log_g)[:, None]
    logs, parts = [], []
    for pattern in product((False, True), repeat=d):
        inside = np.flatnonzero(pattern)
        u, s, vt = np.linalg.svd(X[:, inside], full_matrices=False)
        fit = u.T @ y
        left = np.sum((y - u @ fit) ** 2) + (fit**2 * k / (s**2 + k)).sum(axis=1)
        size = logsumexp(prior + (inside.size * log_p + (d - inside.size) * log_expit(-t))[:, None], axis=0)
        value = gammaln(nu / 2) - nu / 2 * np.log(np.pi * left) - 0.5 * np.log1p(s**2 / k).sum(axis=1)
        logs.append(value + size)
        coef, square = np.zeros((log_g.size, d)), np.zeros((log_g.size, d))
        coef[:, inside], square[:, inside] = (s * fit / (s**2 + k)) @ vt, (1 / (s**2 + k)) @ vt**2
        parts.append((coef, square, left / (nu - 2)))
    evidence = logsumexp(logs)
    weights = np.exp(np.array(logs) - evidence)
    noise = sum(w @ s2 for w, (_, _, s2) in zip(weights, parts, strict=True))
    mean = sum(w @ coef for w, (coef, _, _) in zip(weights, parts, strict=True))
    var = sum(
        w @ ((coef - mean) ** 2 + square * s2[:, None]) for w, (coef, square, s2) in zip(weights, parts, strict=True)
    )
    return noise, mean, np.sqrt(var), evidence


def data(kind, f, n=50, d=4):
    """Centred columns and a response of norm 1, with noise of f of the signal."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    if kind != "plain":
        X[:, 1] = X[:, 0] + {"correlated": 0.1, "cancelling": 0.01}[kind] * X[:, 1]
    signal = X[:, 0] - X[:, 1] if kind == "cancelling" else X[:, :3].sum(axis=1)
    y = signal + f * signal.std() * rng.standard_normal(n)
    y -= y.mean()
    return X - X.mean(axis=0), y / np.sqrt(y @ y)


CASES = [("plain", 1e-2), ("plain", 1e-4), ("plain", 1e-6), ("correlated", 1e-5), ("cancelling", 1e-3)]


@pytest.mark.parametrize(("kind", "f"), CASES)
def test_noise_and_standard_deviations_are_those_of_the_sums(kind, f):
    X, y = data(kind, f)
    noise, mean, sd, evidence = sums(X, y, 49)
    active = slice(0, 2 if kind == "cancelling" else 3)
    for method, tol in (("enumeration", SUMMED), ("sampler", SAMPLED)):
        found = fit_exact(problem_of_rows(X, y, nu=49), Given(), method=method)
        assert found.converged
        assert found.states.weight @ found.states.mean_noise() == pytest.approx(noise, rel=tol)
        assert np.allclose(np.sqrt(found.var[active]), sd[active], rtol=tol)
        assert np.allclose((found.mean - mean)[active] / sd[active], 0.0, atol=tol)
        assert found.log_evidence == pytest.approx(evidence, abs=EVIDENCE)
    ep = average(Data.from_rows(X, y, 49), n=50)
    # Its noise variance is a maximum, and coefficients are normal, not t.
    wider = 49 / 47
    assert ep.converged
    assert wider * sum(w * h.noise_var for w, h in zip(ep.weights, ep.hypers, strict=True)) == pytest.approx(
        noise, rel=BY_EP
    )
    assert np.allclose(np.sqrt(wider * ep.var[active]), sd[active], rtol=BY_EP)
    assert ep.log_evidence == pytest.approx(evidence, abs=10 * EVIDENCE)


@pytest.mark.parametrize("dropped", [2, 3])
def test_evidences_are_those_of_one_prior(dropped):
    """Of the same response with and without a column, an active one or not: the bounds differ, the prior does not."""
    X, y = data("plain", 1e-4)
    few = np.delete(X, dropped, axis=1)
    found = [fit_exact(problem_of_rows(part, y, nu=49), Given()) for part in (X, few)]
    wanted = [sums(part, y, 49)[3] for part in (X, few)]
    assert found[0].log_evidence - found[1].log_evidence == pytest.approx(wanted[0] - wanted[1], abs=EVIDENCE)
    assert (found[0].grid.prior.eta_high > found[1].grid.prior.eta_high + 1.0) is (dropped == 2)


def test_ordinary_data_keep_the_bound():
    rng = np.random.default_rng(0)
    for n, d, f in ((50, 8, 0.3), (50, 8, 3.0), (30, 60, 1.0), (10, 20, 0.5), (100, 300, 0.5)):
        X = rng.standard_normal((n, d))
        y = X[:, 0] + X[:, 1] + f * rng.standard_normal(n)
        assert prior_of(problem_of_rows(X, y), Given()).eta_high == ETA_BOUNDS[1]


@pytest.mark.parametrize(
    "case", ["columns", "wide", "groups", "p given", "slab given", "wide, slab given", "weights"]
)
def test_the_noise_of_a_set_that_is_certain(case):
    """1 / s2 then is a gamma variable; m coefficients, and the prior of eta, take m + 2 degrees of freedom."""
    rng = np.random.default_rng(5)
    n, d, f = (30, 60, 1e-6) if "wide" in case else (50, 9, 1e-6)
    X = rng.standard_normal((n, d))
    signal = X[:, :3].sum(axis=1)
    y = signal + f * signal.std() * rng.standard_normal(n)
    options = {
        "groups": {"group": np.repeat([0, 1, 2], 3).tolist()},
        "p given": {"prior_inclusion": 0.2},
        "slab given": {"slab_var": 1.0},
        "wide, slab given": {"slab_var": 1.0},
        "weights": {"weights": rng.uniform(0.5, 2.0, n)},
    }.get(case, {})
    root = np.sqrt(options.get("weights", np.ones(n)))
    left = np.linalg.lstsq(root[:, None] * np.c_[np.ones(n), X[:, :3]], root * y, rcond=None)[1][0]
    wanted = left / (n - 1 - 3 - 4)
    model = SpikeSlab(y, X, **options)
    exact, ep = model.fit("exact"), model.fit("ep")
    assert exact.noise_var == pytest.approx(wanted, rel=CERTAIN)
    assert ep.noise_var * (n - 1) / (n - 3) == pytest.approx(wanted, rel=BY_EP)


def test_noise_that_rounding_errors_hide_is_a_warning():
    X, y = data("plain", 1e-8)
    for method in ("exact", "ep"):
        with pytest.warns(PrecisionWarning, match="noise is so small"):
            SpikeSlab(y, X).fit(method)


def test_sets_that_fit_exactly_under_next_to_no_noise_are_a_warning():
    """X_A'X_A + k of more columns than rows is nearly singular: what the sampler carries along loses its digits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 16))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(8)
    with pytest.warns(PrecisionWarning, match="noise is so small"):
        SpikeSlab(y, X, slab_var=1.0, noise_var=1e-10).fit("exact", mcse=0.03)
    SpikeSlab(y, X, slab_var=1.0, noise_var=1e-4).fit("exact", mcse=0.03)
