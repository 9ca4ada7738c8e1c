"""EP and Laplace's approximation at one t2 beside grids over all coefficients and dense EP by other code."""

import numpy as np
import pytest
from scipy.special import ndtr

from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.binomial.tilted import tilted_moments
from pybayesridge.sites.acceleration import History
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.laplace import _search, laplace
from pybayesridge.sites.prior import log_prior
from pybayesridge.sites.tilted import Cavity
from tests.binomial import brute_force
from tests.binomial.problems import R2, columns, nodes, problem, responses, standardized
from tests.effort import pairs

# EP is an approximation: these bound its distance from the posterior. The worst is seen at t2 = 30 with 25 rows; at
# t2 = 1 with 100 rows it is .002 posterior standard deviations for means, 1.5 % for standard deviations, .007 for the
# log evidence.
EP_MEAN_TOL = 0.03
EP_SD_TOL = 0.1
EP_EVIDENCE_TOL = 0.06
SAME_TOL = 1e-5
PRECISE = {"tol": 1e-9, "maxiter": 300}


def coefficients(space, found):
    """Intercept at the mean of the columns and standardised coefficients: mean and covariance."""
    gaussian = found.gaussian(space)
    t = np.exp(0.5 * found.log_t2)
    back = np.eye(space.k + space.design.p, space.k + space.rank)
    back[: space.k, : space.k] = np.linalg.inv(space.design.block.r) * np.sqrt(space.n)
    back[space.k :, space.k :] = t * space.spectrum.right
    return back @ gaussian.mean, back @ gaussian.covariance() @ back.T


SMALL = [(link, n, p) for link in ("logit", "probit") for n, p in ((40, 1), (25, 2))]


@pytest.mark.parametrize(("case", "t2"), pairs(SMALL, [0.01, 30.0, 1.0], 2))
def test_ep_is_close_to_the_posterior(case, t2):
    link, n, p = case
    x = columns(n, p, 3)
    y = responses(x, 3)
    space, likelihood = problem(x, y, link=link)
    found = expectation_propagation(space, likelihood, np.log(t2), None, **PRECISE)
    evidence, mean, cov = brute_force.posterior(y, 1 - y, link, standardized(x), t2, points=161 if p == 1 else 81)
    own_mean, own_cov = coefficients(space, found)
    sd = np.sqrt(np.diag(cov))
    assert found.converged
    assert (np.abs(own_mean - mean) <= EP_MEAN_TOL * sd).all()
    np.testing.assert_allclose(np.sqrt(np.diag(own_cov)), sd, rtol=EP_SD_TOL)
    assert found.log_evidence == pytest.approx(evidence, abs=EP_EVIDENCE_TOL)


class Identity:
    """Rows whose linear predictors are the coefficients."""

    times = staticmethod(np.asarray)


@pytest.mark.parametrize(
    ("length", "end"), [(1.0, (1.0, 1.0)), (1e20, (0.5, 2.0)), (1e304, (0.5, 2.0)), (np.inf, (0.0, 0.0))]
)
def test_steps_of_any_length_are_shortened_to_the_top(length, end):
    def height(at, _):
        return -abs(float(at[0]) - 1.0)

    at, eta, best = _search(height, Identity(), np.zeros(1), np.full(1, length), -1.0, 1e-12, length, 1.0)
    assert end[0] <= at[0] <= end[1]
    assert eta[0] == at[0]
    assert best == height(at, eta)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_laplace_finds_mode_and_curvature(link):
    x = columns(60, 2, 5)
    y = responses(x, 5)
    space, likelihood = problem(x, y, link=link)
    found = laplace(space, likelihood, np.log(0.7), None, **PRECISE)
    mode, curvature = brute_force.newton(y, 1 - y, link, np.column_stack([np.ones(60), standardized(x)]), 0.7)
    own_mean, own_cov = coefficients(space, found)
    assert found.converged
    np.testing.assert_allclose(own_mean, mode, atol=SAME_TOL)
    np.testing.assert_allclose(own_cov, np.linalg.inv(curvature), rtol=1e-4, atol=SAME_TOL)


@pytest.mark.parametrize("distance", [-12.0, -4.0, 0.0])
def test_an_approximation_is_as_close_to_its_limit_as_it_says(distance):
    """With rare events a thousand rows share the intercept: each moves it a thousandth of what all do."""
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((1000, 6)), np.zeros(1000)
    y[np.argsort(x[:, 0] + rng.standard_normal(1000))[-5:]] = 1
    space, likelihood = problem(x, y)
    log_t2 = log_prior(R2, space, likelihood, "link").log_scale + distance
    limit = expectation_propagation(space, likelihood, log_t2, None, **PRECISE)
    found = expectation_propagation(space, likelihood, log_t2, None, tol=1e-3, maxiter=200)
    assert found.converged
    assert np.abs((found.mean - limit.mean) / np.sqrt(limit.variance)).max() <= 3 * 1e-3
    np.testing.assert_allclose(found.variance, limit.variance, rtol=6 * 1e-3)
    assert found.log_evidence == pytest.approx(limit.log_evidence, abs=1e-5)


def dense_ep(design, prior_precision, y, sweeps):
    """Sequential EP for the probit link, with whole covariance matrices: mean and covariance of the rows."""
    n = len(y)
    tau, nu = np.full(n, 0.1), 0.1 * (2 * y - 1)
    for _ in range(sweeps):
        for i in range(n):
            cov = np.linalg.inv(prior_precision + (design.T * tau) @ design)
            mean = cov @ design.T @ nu
            v, m = design[i] @ cov @ design[i], design[i] @ mean
            v_c = 1 / (1 / v - tau[i])
            m_c = v_c * (m / v - nu[i])
            sign = 2 * y[i] - 1
            z = sign * m_c / np.sqrt(1 + v_c)
            hazard = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / ndtr(z)
            m_t = m_c + sign * v_c * hazard / np.sqrt(1 + v_c)
            v_t = v_c - v_c**2 * hazard * (z + hazard) / (1 + v_c)
            tau[i], nu[i] = 1 / v_t - 1 / v_c, m_t / v_t - m_c / v_c
    cov = np.linalg.inv(prior_precision + (design.T * tau) @ design)
    return design @ cov @ design.T @ nu, design @ cov @ design.T


@pytest.mark.parametrize(("n", "p"), [(20, 3), (12, 30)])
def test_ep_is_that_of_dense_sequential_sweeps(n, p):
    x = columns(n, p, 8)
    y = responses(x, 8)
    space, likelihood = problem(x, y, link="probit")
    found = expectation_propagation(space, likelihood, np.log(0.3), None, **PRECISE)
    design = np.column_stack([np.ones(n), standardized(x)])
    mean, cov = dense_ep(design, np.diag(np.r_[0.0, np.full(p, 1 / 0.3)]), y, 60)
    assert found.converged
    np.testing.assert_allclose(found.mean, mean, atol=SAME_TOL)
    np.testing.assert_allclose(found.variance, np.diag(cov), rtol=SAME_TOL)


@pytest.mark.parametrize("solve", [expectation_propagation, laplace])
def test_no_prior_variance_leaves_the_intercept(solve):
    """The evidence tends to Beta(successes, failures), the integral over a flat intercept."""
    x = columns(30, 4, 2)
    y = np.zeros(30)
    y[:12] = 1
    space, likelihood = problem(x, y)
    found = solve(space, likelihood, -40.0, None, **PRECISE)
    eta, weight = brute_force.legendre(-40, 40, 1000)
    evidence = np.log(weight @ np.exp(brute_force.log_likelihood(12, 18, eta, "logit")))
    assert found.converged
    np.testing.assert_allclose(found.mean, np.log(12 / 18), atol=0.02)
    assert found.log_evidence == pytest.approx(evidence, abs=0.02)


@pytest.mark.parametrize("solve", [expectation_propagation, laplace])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_swapping_the_event_swaps_signs(solve, link):
    x = columns(40, 6, 4)
    y = responses(x, 4)
    first, second = (solve(*problem(x, s, link=link), 0.0, None, **PRECISE) for s in (y, 1 - y))
    np.testing.assert_allclose(first.mean, -second.mean, atol=1e-8)
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-8)


def test_duplicated_rows_are_frequency_weights_for_laplace():
    """For EP a row of weight 2 is one factor, and two rows are two: the results differ by EP's error."""
    x = columns(30, 4, 6)
    y = responses(x, 6)
    weights = 1.0 + np.arange(30) % 3
    repeat = np.repeat(np.arange(30), weights.astype(int))
    for solve, tol in ((laplace, 1e-8), (expectation_propagation, 0.02)):
        weighted = solve(*problem(x, y, weights=weights), 0.0, None, **PRECISE)
        repeated = solve(*problem(x[repeat], y[repeat]), 0.0, None, **PRECISE)
        np.testing.assert_allclose(weighted.mean[repeat], repeated.mean, atol=tol)
        np.testing.assert_allclose(weighted.variance[repeat], repeated.variance, rtol=tol)


def test_trials_are_weights_of_their_outcomes():
    x = columns(25, 3, 7)
    trials = np.arange(1, 26) % 5 + 1
    successes = responses(x, 7, trials=trials)
    grouped = laplace(*problem(x, successes, trials=trials), 0.0, None, **PRECISE)
    outcomes = np.concatenate(
        [np.r_[np.ones(int(s)), np.zeros(int(m - s))] for s, m in zip(successes, trials, strict=True)]
    )
    repeat = np.repeat(np.arange(25), trials)
    single = laplace(*problem(x[repeat], outcomes), 0.0, None, **PRECISE)
    np.testing.assert_allclose(grouped.mean[repeat], single.mean, atol=1e-8)
    assert grouped.log_evidence == pytest.approx(single.log_evidence, abs=1e-7)


def test_a_flat_column_of_one_row_has_a_flat_cavity():
    """A dummy for one row of 7 trials: without the row nothing is known about its coefficient."""
    x = columns(30, 2, 9)
    trials = np.full(30, 7)
    successes = responses(x, 9, trials=trials)
    successes[4] = 3
    z = np.column_stack([np.ones(30), np.arange(30) == 4])
    found = expectation_propagation(*problem(x, successes, trials=trials, z=z), 0.0, None, **PRECISE)
    assert found.converged
    eta, weight = brute_force.legendre(-60, 60, 2000)
    density = weight * np.exp(brute_force.log_likelihood(3, 4, eta, "logit"))
    assert found.mean[4] == pytest.approx(density @ eta / density.sum(), abs=1e-5)


@pytest.mark.parametrize(("kind", "distance"), pairs(["rare", "perfect"], [26.0, 12.0, 3.0], 1))
def test_a_distant_t2_is_reached_without_a_start(kind, distance):
    """Sweeps from afar overshoot with rare events and creep with a perfect predictor."""
    if kind == "rare":
        rng = np.random.default_rng(2)
        x, y = rng.standard_normal((1000, 6)), np.zeros(1000)
        y[np.argsort(x[:, 0] + rng.standard_normal(1000))[-5:]] = 1
    else:
        x = columns(60, 3, 8)
        y = (x[:, 0] > np.median(x[:, 0])).astype(float)
    every = nodes(*problem(x, y), tol=1e-6)
    assert every.at(every.prior.log_scale + distance).converged


def test_a_damped_step_is_a_part_of_the_sweep_in_natural_parameters():
    """Between the logs of the precisions 1e-3 and 1e-100 a twentieth of the way is 1e-8, with the old shift."""
    before = Sites(np.array([1e-3, 0.2]), np.array([0.5, -0.1]))
    swept = Sites(np.array([1e-100, 0.3]), np.array([1e-90, -0.2]))
    found = History().next(before, swept, np.array([4.0, 1.0]), 0.05)
    np.testing.assert_allclose(found.precision, 0.95 * before.precision + 0.05 * swept.precision)
    np.testing.assert_allclose(found.shift, 0.95 * before.shift + 0.05 * swept.shift)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_sites_are_no_more_precise_than_the_likelihood_is_curved(link):
    rng = np.random.default_rng(3)
    trials = rng.integers(1, 6, 400)
    likelihood = from_counts(rng.binomial(trials, 0.4).astype(float), trials.astype(float), None, link)
    around = Cavity(20 * rng.standard_normal(400), 10 ** rng.uniform(-6, 4, 400), np.zeros(400))
    found = tilted_moments(*likelihood.totals(), link, around)
    assert (found.site_precision <= likelihood.largest_curvature() * (1 + 1e-9)).all()


@pytest.mark.parametrize("distance", [0.0, 16.0])
def test_sites_from_too_far_an_extrapolation_are_bounded(distance):
    """With a precision of 1e27 the prior is lost in rounding, and the posterior precision is singular."""
    x = columns(60, 20, 8)
    space, likelihood = problem(x, responses(x, 8, signal=10.0))
    log_t2 = log_prior(R2, space, likelihood, "link").log_scale + distance
    start = Sites(np.geomspace(1e-18, 1e27, 60), np.zeros(60))
    found = expectation_propagation(space, likelihood, log_t2, start, tol=1e-7, maxiter=200)
    other = expectation_propagation(space, likelihood, log_t2, None, tol=1e-7, maxiter=200)
    assert found.converged
    assert found.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    np.testing.assert_allclose(found.mean, other.mean, atol=1e-5 * np.sqrt(other.variance).max())
