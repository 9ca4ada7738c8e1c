"""The exact posterior on the user's scale, compared with sums over all models written out at length."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from pybayesridge import SpikeSlab
from pybayesridge.selection.posterior import ExactPosterior

SUM = 1e-9
"""Of sums over all models with given hyperparameters, relative."""

QUANTILE = 1e-6
"""Of quantiles, relative to the standard deviation."""

DRAWN = 5.0
"""Standard errors of means of draws."""

P, RATIO = 0.3, 0.4


@pytest.fixture(scope="module")
def case() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((25, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 3.0, 1.0, -2.0]
    x[:, 3] = x[:, 0] + 0.3 * x[:, 3]
    y = 4.0 + x[:, 0] - 0.4 * x[:, 1] + rng.standard_normal(25)
    return {"x": x, "y": y, "new": rng.standard_normal((3, 4)) + x[:3]}


@pytest.fixture(scope="module")
def posterior(case) -> ExactPosterior:
    """Given p = .3 and s2, v = RATIO s2: the noise variance is given, too."""
    model = SpikeSlab(case["y"], case["x"], prior_inclusion=P, slab_var=RATIO, noise_var=1.0)
    return model.fit("exact").exact_posterior


@pytest.fixture(scope="module")
def models(case) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Probability, mean and covariance of (constant, coefficients) of each of the 16 models; the constant is flat."""
    x, y = case["x"], case["y"]
    n, sd = y.size, x.std(axis=0)
    out = []
    for inside in product([0, 1], repeat=4):
        at = np.flatnonzero(inside)
        # The constant gets a large variance: its effect on all models is the same.
        prior = np.concatenate([[1e9], np.full(at.size, RATIO) / sd[at] ** 2])
        z = np.column_stack([np.ones(n), x[:, at]])
        cov_y = z * prior @ z.T + np.eye(n)
        log_p = -0.5 * (np.linalg.slogdet(cov_y)[1] + y @ np.linalg.solve(cov_y, y))
        log_p += at.size * np.log(P) + (4 - at.size) * np.log1p(-P)
        cov = np.linalg.inv(z.T @ z + np.diag(1 / prior))
        full = np.concatenate([[0], at + 1])
        mean, spread = np.zeros(5), np.zeros((5, 5))
        mean[full], spread[np.ix_(full, full)] = cov @ (z.T @ y), cov
        out.append((log_p, mean, spread))
    top = max(m[0] for m in out)
    total = sum(np.exp(m[0] - top) for m in out)
    return [(float(np.exp(m[0] - top) / total), m[1], m[2]) for m in out]


def moments(models, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of linear functions."""
    mean = sum(w * rows @ m for w, m, _ in models)
    second = sum(w * (rows @ s @ rows.T + np.outer(rows @ m, rows @ m)) for w, m, s in models)
    return mean, second - np.outer(mean, mean)


FLAT = 1e-5
"""What a prior variance of 1e9 in place of a flat prior leaves, relative."""


def test_means_deviations_and_covariance(posterior, models) -> None:
    mean, cov = moments(models, np.eye(5))
    of_z, b = posterior.coefficient_means()
    np.testing.assert_allclose(np.concatenate([of_z, b]), mean, rtol=FLAT, atol=FLAT)
    sd = np.concatenate(posterior.coefficient_sds())
    np.testing.assert_allclose(sd, np.sqrt(np.diag(cov)), rtol=FLAT)
    np.testing.assert_allclose(posterior.covariance(), cov, rtol=FLAT, atol=FLAT * np.abs(cov).max())
    np.testing.assert_allclose(np.diag(posterior.covariance()), sd**2, rtol=SUM)


def test_given_inclusion(posterior, models) -> None:
    mean, variance = posterior.given_inclusion()
    for j in range(4):
        inside = [(w, m[j + 1], s[j + 1, j + 1]) for w, m, s in models if s[j + 1, j + 1] > 0]
        share = sum(w for w, _, _ in inside)
        first = sum(w * m for w, m, _ in inside) / share
        assert mean[j] == pytest.approx(first, rel=FLAT)
        assert variance[j] == pytest.approx(sum(w * (s + m * m) for w, m, s in inside) / share - first**2, rel=FLAT)
        assert posterior.exact.inclusion_prob[j] == pytest.approx(share, rel=FLAT)


def cdf(models, row: np.ndarray, at: float, noise: float = 0.0) -> float:
    total = 0.0
    for w, m, s in models:
        variance = float(row @ s @ row) + noise
        total += w * (stats.norm.cdf(at, row @ m, np.sqrt(variance)) if variance > 0 else float(at >= row @ m))
    return total


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_intervals_of_new_rows(case, posterior, models, noise) -> None:
    x, z = case["new"], np.ones((3, 1))
    rows = np.column_stack([z, x])
    mean, cov = moments(models, rows)
    np.testing.assert_allclose(posterior.row_moments(x, z)[0], mean, rtol=FLAT)
    np.testing.assert_allclose(posterior.row_moments(x, z)[1], np.sqrt(np.diag(cov)), rtol=FLAT)
    found = posterior.row_quantiles(x, z, np.array([0.05, 0.95]), np.full(3, noise) if noise else None)
    for i, row in enumerate(rows):
        for tail, end in zip((0.05, 0.95), found[i], strict=True):
            right = brentq(lambda t, row=row, tail=tail: cdf(models, row, t, noise) - tail, -100, 100, xtol=1e-12)
            assert end == pytest.approx(right, abs=10 * QUANTILE)


def test_intervals_of_coefficients_have_the_point_at_zero(posterior, models) -> None:
    for alpha in (0.5, 0.05):
        ends = posterior.coefficient_quantiles(np.array([alpha / 2, 1 - alpha / 2]))[1]
        for j in range(4):
            row = np.eye(5)[j + 1]
            for tail, end in zip((alpha / 2, 1 - alpha / 2), ends[j], strict=True):
                below, upto = cdf(models, row, -1e-300), cdf(models, row, 0.0)
                if below < tail <= upto:
                    assert end == 0.0
                else:
                    assert cdf(models, row, end) == pytest.approx(tail, abs=QUANTILE)


def test_draws(posterior, models) -> None:
    of_z, b, noise = posterior.draw(40_000, np.random.default_rng(1))
    both = np.column_stack([of_z, b])
    mean, cov = moments(models, np.eye(5))
    np.testing.assert_array_less(np.abs(both.mean(axis=0) - mean), DRAWN * np.sqrt(np.diag(cov) / 40_000))
    share = posterior.exact.inclusion_prob
    error = np.sqrt(share * (1 - share) / 40_000) + 1e-12
    np.testing.assert_array_less(np.abs((b != 0).mean(axis=0) - share), DRAWN * error)
    np.testing.assert_allclose(noise, 1.0, rtol=SUM)
    np.testing.assert_allclose(np.cov(both.T), cov, atol=0.05 * np.diag(cov).max())


def test_a_row_with_something_missing_has_no_interval(case, posterior) -> None:
    x = case["new"].copy()
    x[1, 2] = np.nan
    found = posterior.row_quantiles(x, np.ones((3, 1)), np.array([0.025, 0.975]), None)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()
