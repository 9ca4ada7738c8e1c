"""Mixtures by importance sampling beside integrals on a grid, where a column predicts all responses."""

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, logsumexp, softmax

from pybayesridge.posterior.quantiles import Common
from pybayesridge.sites import importance
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.importance import Mixture, sampled
from pybayesridge.sites.windows import moved_by, split
from tests.binomial.problems import problem

EVIDENCE_TOL, MEAN_TOL, SD_TOL, END_TOL = 0.04, 0.1, 0.04, 0.3
"""Of the log evidence, of means in standard deviations, of standard deviations, and of ends of 95 % intervals in
standard deviations: Monte Carlo errors of 4,096 draws, and ends also of few normal distributions. Seen: 0.004, 0.011,
0.4 % and 0.045."""

ONE_PART = 0.03
"""Expectation propagation makes the log evidence too small by this at the least, in parts too: by 0.06 to 0.28."""

EXACT = 1e-8
"""Rounding, and what is added to variances."""

LOG_F = {"logit": log_expit, "probit": log_ndtr}
ENDS = np.array([0.025, 0.975])


def at_grid(link, t2, rows, points=2001, reach=7.0):
    """Log evidence, means, standard deviations and ends of intervals of intercept and coefficient, by a grid."""
    widest = reach * np.sqrt(t2)
    a, s = np.linspace(-widest, widest, points)[:, None], np.linspace(-10.0, widest, points)[None]
    value = 0.5 * rows * (LOG_F[link](s + a) + LOG_F[link](s - a)) - 0.5 * s**2 / t2 - 0.5 * np.log(2 * np.pi * t2)
    total = logsumexp(value)
    found = []
    for own, each in ((a.ravel(), 1), (s.ravel(), 0)):
        density = np.exp(value - total).sum(axis=each)
        mean = density @ own
        ends = np.interp(ENDS, np.cumsum(density) - 0.5 * density, own)
        found.append((mean, np.sqrt(density @ (own - mean) ** 2), ends))
    cell = (a[1, 0] - a[0, 0]) * (s[0, 1] - s[0, 0])
    return total + np.log(cell), found


@pytest.mark.parametrize(("link", "t2"), [("logit", 300.0), ("logit", 10.0), ("probit", 30.0)])
def test_a_column_that_predicts_all_responses(link, t2):
    rows = 20
    sure = np.tile([1.0, -1.0], rows // 2)
    space, likelihood = problem(sure[:, None], (sure > 0).astype(float), link=link)
    node = expectation_propagation(space, likelihood, np.log(t2), None, tol=1e-6, maxiter=300)
    own = moved_by(space.rows, space.rows[:, 1:], likelihood)
    moved = np.hstack([np.zeros((len(own), 1)), own])
    parts = split(node, space, likelihood, space.in_units(moved, node.log_t2))
    by_parts = np.array([part.log_evidence for part in parts])
    start = Mixture(softmax(by_parts), [part.gaussian(space) for part in parts])
    scaled = space.scaled(node.log_t2)
    found = sampled(scaled, likelihood, start, 4096, 32, 0)
    evidence, exact = at_grid(link, t2, rows)
    assert found.log_evidence == pytest.approx(evidence, abs=EVIDENCE_TOL)
    assert logsumexp(by_parts) < evidence - ONE_PART
    of_rows = scaled.rows[:2] * scaled.units
    for function, (mean, sd, ends) in zip(
        (of_rows.mean(axis=0), 0.5 * (of_rows[0] - of_rows[1])), exact, strict=True
    ):
        center = np.array([function @ law.mean for law in found.mixture.laws])
        scale = np.array([np.linalg.norm(law.half(function)) for law in found.mixture.laws])
        share = found.mixture.share
        own = share @ center
        assert abs(own - mean) < MEAN_TOL * sd
        assert np.sqrt(share @ (scale**2 + (center - own) ** 2)) == pytest.approx(sd, rel=SD_TOL)
        quantiles = Common(center[:, None], scale[:, None], share, np.inf).quantiles(ENDS)[0]
        assert (np.abs(quantiles - ends) < END_TOL * sd).all()


def test_mixtures_have_the_mean_and_the_covariance_of_the_draws():
    rng = np.random.default_rng(0)
    u, weight = rng.normal(size=(500, 3)) ** 3, rng.dirichlet(np.ones(500))
    mixture = importance._divided(u, weight, rng.normal(size=(20, 3)), 8)
    assert 2 <= mixture.share.size <= 8
    means = np.array([law.mean for law in mixture.laws])
    mean = mixture.share @ means
    inside = np.einsum("i,ijk->jk", mixture.share, [law.covariance() for law in mixture.laws])
    between = ((means - mean).T * mixture.share) @ (means - mean)
    np.testing.assert_allclose(mean, weight @ u, atol=EXACT)
    np.testing.assert_allclose(inside + between, np.cov(u.T, aweights=weight, ddof=0), rtol=EXACT, atol=EXACT)


def test_too_few_effective_draws_are_no_answer():
    space, likelihood = problem(np.tile([[1.0], [-1.0]], (10, 1)), np.tile([1.0, 0.0], 10))
    node = expectation_propagation(space, likelihood, np.log(30.0), None, tol=1e-6, maxiter=300)
    start = Mixture(np.ones(1), [node.gaussian(space)])
    assert sampled(space.scaled(node.log_t2), likelihood, start, 2, 32, 0) is None


def test_weights_are_evened_until_enough_draws_count():
    log_weight = 5.0 * np.random.default_rng(1).normal(size=1000)
    weight = importance._evened(log_weight, 250.0)
    assert importance._effective(weight) == pytest.approx(250.0, rel=1e-3)
    assert importance._effective(importance._evened(0.01 * log_weight, 250.0)) > 900.0


def test_what_draws_have_more_is_added_to_known_moments():
    rng = np.random.default_rng(2)
    start = importance._divided(rng.normal(size=(400, 3)) ** 3, np.full(400, 1 / 400), rng.normal(size=(9, 3)), 4)
    u = rng.normal(size=(400, 3)) ** 3
    weight, known = rng.dirichlet(np.full(400, 50.0), size=2)
    mixture = importance._divided(u, weight, rng.normal(size=(9, 3)), 8)
    mean, covariance = importance._moments(importance._corrected(mixture, start, u, weight - known))
    at, own = importance._moments(start)
    np.testing.assert_allclose(mean, at + weight @ u - known @ u, atol=EXACT)
    square = np.einsum("i,ij,ik->jk", weight - known, u, u) + own + np.outer(at, at)
    np.testing.assert_allclose(covariance + np.outer(mean, mean), square, rtol=EXACT, atol=EXACT)
    assert mixture.share.size == 8
