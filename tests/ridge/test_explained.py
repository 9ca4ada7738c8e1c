"""The share of explained variance: closed forms, draws of the coefficients, invariances, limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pybayesridge import BayesRidge, Moments
from pybayesridge.ridge import penalty

MONTE_CARLO = 5.0
"""Standard errors of a quantile's probability."""

SAME_DRAWS = 1e-6
"""Relative difference of quantiles of the same draws in other units."""


def problem(seed, n=40, p=6, signal=1.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + rng.standard_normal(p)
    y = signal * x @ rng.standard_normal(p) + 3.0 * rng.standard_normal(n) + 10.0
    return x, y, rng.uniform(0.3, 3.0, n)


def probabilities_agree(probabilities, expected, n_draws):
    error = np.sqrt(expected * (1 - expected) / n_draws)
    np.testing.assert_array_less(np.abs(np.asarray(probabilities) - expected), MONTE_CARLO * error)


def test_one_column_of_known_noise_and_penalty_in_closed_form():
    x, y, _ = problem(0, p=1, signal=0.3)
    noise, lam, n = 7.0, 5.0, y.size
    res = BayesRidge(y, x, sigma2=noise).fit("fixed", lam=lam)
    u = x[:, 0] - x[:, 0].mean()
    u /= u.std()
    # |u b|^2 / noise is e times a noncentral chi-square of one degree of freedom.
    e = n / (n + lam)
    location = e * (u @ y) / np.sqrt(n)
    found = res.explained_variance()[["median", "lower", "upper"]].to_numpy()
    odds = found / (1 - found) * n
    reached = stats.ncx2.cdf(odds / e, 1, location**2 / (e * noise))
    probabilities_agree(reached, np.array([0.5, 0.025, 0.975]), 20_000)


@pytest.mark.parametrize("method", ["exact", "em", "loocv"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
def test_draws_of_the_coefficients_say_the_same(method, weighted, shape):
    x, y, w = problem(1, *shape)
    w = w if weighted else np.ones(y.size)
    free = [0, 1]
    res = BayesRidge(y, x, weights=w, unpenalized=free).fit(method)
    draws = res.sample(20_000, rng=5, hyper_columns=True)
    root = np.sqrt(w / w.mean())[:, None]
    z = root * np.column_stack([np.ones(y.size), x[:, free]])
    fitted = root * (x[:, 2:] @ draws.iloc[:, 3 : 1 + x.shape[1]].to_numpy().T)
    fitted -= z @ np.linalg.lstsq(z, fitted, rcond=None)[0]
    size = (fitted**2).sum(axis=0)
    share = size / (size + y.size * draws["sigma2"].to_numpy())
    found = res.explained_variance()
    for column, probability in (("median", 0.5), ("lower", 0.025), ("upper", 0.975)):
        probabilities_agree((share <= found[column]).mean(), probability, 10_000)
    assert abs(found["mean"] - share.mean()) < MONTE_CARLO * share.std() / np.sqrt(10_000)


def test_units_and_repetition():
    x, y, w = problem(2)
    first = BayesRidge(y, x, weights=w).fit("exact").explained_variance()
    again = BayesRidge(y * 1e6 - 3.0, x * 1e-3, weights=5 * w).fit("exact").explained_variance()
    np.testing.assert_allclose(again, first, rtol=SAME_DRAWS)
    narrow = BayesRidge(y, x, weights=w).fit("exact").explained_variance(alpha=0.5)
    assert first["lower"] < narrow["lower"] < first["median"] < narrow["upper"] < first["upper"]


def test_several_targets_and_moments():
    x, y, _ = problem(3)
    together = BayesRidge(np.column_stack([y, y[::-1]]), x).fit("exact")
    table = together.explained_variance()
    assert table.shape == (2, 4)
    assert list(table.index) == ["y1", "y2"]
    alone = BayesRidge(y, x).fit("exact").explained_variance()
    np.testing.assert_allclose(table.loc["y1"], alone, rtol=SAME_DRAWS)
    other = BayesRidge(y[::-1], x).fit("exact").explained_variance()
    np.testing.assert_allclose(table.loc["y2"], other, rtol=SAME_DRAWS)
    from_moments = BayesRidge.from_moments(Moments.from_arrays(y, x)).fit("exact").explained_variance()
    np.testing.assert_allclose(from_moments, alone, rtol=SAME_DRAWS)


def test_a_summary_draws_once_for_each_target(monkeypatch):
    x, y, _ = problem(3)
    calls = []
    plain = penalty.explained_share
    monkeypatch.setattr(penalty, "explained_share", lambda *a: calls.append(a[3]) or plain(*a))
    for columns in (x, np.hstack([x, np.random.default_rng(0).normal(size=(y.size, 2 * y.size))])):
        res = BayesRidge(np.column_stack([y, y[::-1], y**2]), columns).fit("exact")
        calls.clear()
        res.summary()
        assert calls == [0, 1, 2]


def test_limits():
    x, y, _ = problem(4)
    with pytest.warns(UserWarning, match="exactly"):
        assert BayesRidge(x @ np.arange(1.0, 7.0), x).fit("exact").explained_variance()["lower"] > 1 - SAME_DRAWS
    with pytest.warns(UserWarning, match="exactly"):
        assert np.isnan(BayesRidge(np.full(40, 2.5), x).fit("exact").explained_variance()["mean"])
    with pytest.raises(ValueError, match="alpha"):
        BayesRidge(y, x).fit("exact").explained_variance(alpha=2)
