"""Beta-binomial shares: the likelihood, sites with negative precisions, and fits, against other sums and draws."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import betabinom

from pybayesridge import BayesRidge
from pybayesridge.binomial import likelihood as binomial
from pybayesridge.binomial.beta_binomial import log_rising, of_successes, successes_of
from pybayesridge.sites.acceleration import free, of_free
from pybayesridge.sites.tilted import Cavity, normal_cavity

SUCCESSES = np.array([0.0, 3.0, 7.0, 10.0, 1.0, 50.0])
TRIALS = np.array([10.0, 10.0, 10.0, 10.0, 1.0, 400.0])
COPIES = np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0])
ETA = np.array([-3.0, 0.5, 1.0, 4.0, -1.0, -2.2])

OF_MEANS, OF_SDS = 0.03, 0.03
"""Expectation propagation beside the sum over a grid, n = 14: .003 standard deviations and .3 % where it was made."""

WIDE_CAVITY = 1e-8
"""Moments of cavities with standard deviations of hundreds and more: 3e-10 where it was made."""


@pytest.mark.parametrize("log_alpha", [-12.0, -3.0, -1.0, 1.0, 4.0])
def test_likelihood_and_its_derivatives(log_alpha):
    rows, s = of_successes(SUCCESSES, TRIALS, COPIES, np.exp(log_alpha)), np.exp(-log_alpha)
    wanted = betabinom.logpmf(SUCCESSES, TRIALS, expit(ETA) * s, expit(-ETA) * s)
    np.testing.assert_allclose(rows.values(ETA) / COPIES + rows.log_constants(), wanted, rtol=1e-7, atol=1e-8)
    step = 1e-5
    slope, bend = rows.derivatives(ETA)
    np.testing.assert_allclose(slope, rows.slope(ETA), rtol=1e-12)
    by_steps = [(f(ETA + step) - f(ETA - step)) / (2 * step) for f in (rows.values, rows.slope)]
    np.testing.assert_allclose(slope, by_steps[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(bend, -by_steps[1], rtol=1e-4, atol=1e-4)
    assert (bend <= rows.largest_curvature() * (1 + 1e-12)).all()


def test_without_dispersion_it_is_binomial():
    rows, other = (
        of_successes(SUCCESSES, TRIALS, COPIES, 1e-12),
        binomial.from_counts(SUCCESSES, TRIALS, COPIES, "logit"),
    )
    np.testing.assert_allclose(rows.values(ETA), other.values(ETA), rtol=1e-7, atol=1e-6)
    assert rows.latent_variance == other.latent_variance


def test_products_of_consecutive_numbers():
    for a in (0.3, 5.0, 99.0, 101.0, 1e6):
        direct = np.log(a + np.arange(7)).sum()
        assert log_rising(np.array(a), np.array(7.0)) == pytest.approx(direct, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("log_alpha", [-3.0, 1.0])
@pytest.mark.parametrize(("sd", "far"), [(0.1, 0.0), (1.0, 0.0), (20.0, 0.0), (0.3, 2.5)])
def test_tilted_moments_are_those_of_a_fine_sum(log_alpha, sd, far):
    rows = of_successes(SUCCESSES, TRIALS, COPIES, np.exp(log_alpha))
    center = np.linspace(-2.0, 2.0, 6) + far
    cavity = Cavity(center, np.full(6, sd**-2.0), np.zeros(6))
    found = rows.tilted(cavity)
    eta = found.mean + np.sqrt(found.variance) * np.linspace(-40.0, 40.0, 40_001)[:, None]
    log_density = rows.values(eta) - 0.5 * ((eta - center) / sd) ** 2
    top = log_density.max(axis=0)
    mass = np.exp(log_density - top)
    total = mass.sum(axis=0)
    mean = (mass * eta).sum(axis=0) / total
    variance = (mass * (eta - mean) ** 2).sum(axis=0) / total
    np.testing.assert_allclose((found.mean - mean) / np.sqrt(variance), 0, atol=1e-6)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-6)
    np.testing.assert_allclose(found.log_integral, top + np.log(total * (eta[1] - eta[0])), atol=1e-6)
    np.testing.assert_allclose(found.site_precision, 1.0 / variance - sd**-2.0, atol=1e-6 * sd**-2.0 + 1e-6)


def test_a_row_far_from_its_share_has_a_negative_precision():
    row = of_successes(np.zeros(1), np.array([200.0]), None, 0.05)
    found = row.tilted(Cavity(np.array([1.5]), np.array([25.0]), np.zeros(1)))
    assert found.site_precision[0] < -0.1
    unit = row.signed_unit
    for precision in (-3.0, 0.0, 1e-9, 40.0):
        assert of_free(free(np.array([precision]), unit), unit)[0] == pytest.approx(precision, abs=1e-12)


def by_grid(x, y, trials, size=61):
    """Posterior means and standard deviations of (intercept, b, log alpha), one column, by a sum over a grid."""
    a, u, v = np.linspace(-4.0, 4.0, size), np.linspace(-14.0, 7.0, 43), np.linspace(-7.0, 7.0, size)
    # Dense near 0, where the prior has a peak.
    b = 4.5 * np.sinh(v) / np.sinh(7.0)
    eta = (a[:, None, None] + b[:, None] * x).reshape(-1, x.size)
    log_like = np.empty((u.size, size, size))
    for i, log_alpha in enumerate(u):
        s = np.exp(-log_alpha)
        log_like[i] = betabinom.logpmf(y, trials, expit(eta) * s, expit(-eta) * s).sum(axis=1).reshape(size, size)
    log_like += (0.5 * u - np.logaddexp(0.0, u))[:, None, None]
    log_t = np.linspace(-14.0, 9.0, 93)
    t, noise = np.exp(log_t), np.pi**2 / 3
    # t2 / noise is beta-prime(1/2, 1/2), and the intercept is flat in units of the latent response.
    log_prior = 0.5 * log_t - np.log1p(t) - 0.5 * np.log1p(t)
    of_b = (np.exp(-0.5 * b[:, None] ** 2 / (t * noise)) / np.sqrt(t)) @ np.exp(log_prior)
    weight = np.exp(log_like - log_like.max()) * (of_b * np.cosh(v))
    weight /= weight.sum()
    out = []
    for values in (a[:, None], b, u[:, None, None]):
        mean = float((weight * values).sum())
        out.append((mean, float(np.sqrt((weight * (values - mean) ** 2).sum()))))
    return np.array(out)


def test_a_fit_beside_a_sum_over_a_grid():
    rng = np.random.default_rng(2)
    n = 14
    x = rng.normal(size=n)
    x = (x - x.mean()) / x.std()
    trials = np.full(n, 12)
    y = successes_of(trials.astype(float), expit(0.3 + 0.8 * x), np.array(0.4), rng)
    wanted = by_grid(x, y, trials)
    res = BayesRidge(y, x[:, None], family="beta-binomial", trials=trials).fit()
    np.testing.assert_allclose((res.params.to_numpy() - wanted[:2, 0]) / wanted[:2, 1], 0, atol=OF_MEANS)
    np.testing.assert_allclose(res.bse, wanted[:2, 1], rtol=OF_SDS)
    grid = res.sites_fit.shape
    sd = np.sqrt(grid.weight @ (grid.u - grid.mean) ** 2)
    assert (grid.mean - wanted[2, 0]) / wanted[2, 1] == pytest.approx(0.0, abs=0.03)
    assert sd == pytest.approx(wanted[2, 1], rel=0.05)


def test_draws_have_mean_and_variance():
    drawn = successes_of(np.full(200_000, 10.0), np.full(200_000, 0.3), np.array(0.5), np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(3.0, abs=0.03)
    rho = 0.5 / 1.5
    assert drawn.var() == pytest.approx(10 * 0.21 * (1 + 9 * rho), rel=0.03)


@pytest.mark.parametrize("log_alpha", [-18.0, -2.0, 0.0, 5.0])
@pytest.mark.parametrize("sd", [300.0, 3e4])
@pytest.mark.parametrize("away", [0.0, 1.0, -3.0])
def test_moments_of_very_wide_cavities(log_alpha, sd, away):
    """Rows whose trials have one outcome leave cavities wide where columns separate the rows."""
    successes, failures = np.array([20.0, 0.0, 0.0]), np.array([0.0, 20.0, 1.0])
    likelihood = of_successes(successes, successes + failures, np.ones(3), np.exp(log_alpha))
    mean = away * sd
    found = likelihood.tilted(normal_cavity(np.full(3, mean), np.full(3, sd**2)))
    outer = np.geomspace(1e-2, (12 + abs(away)) * sd, 400)
    edges = np.unique(np.concatenate([-outer, [0.0], outer, mean + sd * np.linspace(-12, 12, 200)]))
    x, w = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    eta, weight = (edges[:-1, None] + half + half * x).ravel(), (half * w).ravel()
    for i in range(3):
        density = likelihood.rows(np.array([i])).values(eta[:, None])[:, 0] - ((eta - mean) / sd) ** 2 / 2
        mass = weight * np.exp(density - density.max())
        own = mass @ eta / mass.sum()
        spread = mass @ (eta - own) ** 2 / mass.sum()
        assert abs(found.log_integral[i] - density.max() - np.log(mass.sum())) < WIDE_CAVITY
        assert abs(found.mean[i] - own) < WIDE_CAVITY * np.sqrt(spread)
        assert abs(found.variance[i] / spread - 1) < WIDE_CAVITY
