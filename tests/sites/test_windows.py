"""The posterior in parts beside integrals on a grid."""

import numpy as np
import pytest
from scipy.special import logsumexp

from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.windows import moved_by, split
from tests.binomial import brute_force
from tests.binomial.problems import problem, standardized

EVIDENCE_TOL, MEAN_TOL, SD_TOL = 0.04, 0.04, 0.03
"""Of the log evidence, of means in standard deviations, and of standard deviations: of an approximation, whose errors
are half as large at the most, 0.018, 0.018 and 1 %."""

ONE_PART = 0.2
"""The log evidence in one part is too small by this at the least: by 0.23 to 0.39."""


ALIKE = 1e-3
"""What turning leaves."""


@pytest.mark.parametrize(("link", "t2"), [("logit", 30.0), ("logit", 1000.0), ("probit", 30.0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_parts_have_the_evidence_and_the_moments_of_the_posterior(link, t2, sign):
    x = np.repeat([[1.0], [0.0]], 20, axis=0)
    y = np.r_[np.ones(20), np.tile([1.0, 0.0], 10)]
    y = y if sign > 0 else 1.0 - y
    space, likelihood = problem(x, y, link=link)
    node = expectation_propagation(space, likelihood, np.log(t2), None, tol=1e-6, maxiter=300)
    moved = moved_by(space.rows, space.rows[:, 1:], likelihood)
    assert moved.shape == (1, 1)
    parts = split(node, space, likelihood, space.in_units(np.hstack([[[0.0]], moved]), node.log_t2))
    log_evidence = np.array([part.log_evidence for part in parts])
    share = np.exp(log_evidence - logsumexp(log_evidence))
    laws = [part.gaussian(space) for part in parts]
    slope = np.sqrt(t2) * space.spectrum.right[0, 0]
    center = np.array([slope * law.mean[1] for law in laws])
    variance = slope**2 * np.array([law.covariance()[1, 1] for law in laws])
    mean = share @ center
    sd = np.sqrt(share @ (variance + (center - mean) ** 2))
    evidence, exact, cov = brute_force.posterior(y, 1 - y, link, standardized(x), t2, points=801)
    assert logsumexp(log_evidence) == pytest.approx(evidence, abs=EVIDENCE_TOL)
    assert abs(mean - exact[1]) < MEAN_TOL * np.sqrt(cov[1, 1])
    assert sd == pytest.approx(np.sqrt(cov[1, 1]), rel=SD_TOL)
    assert node.log_evidence < evidence - ONE_PART


def test_nothing_is_moved_where_no_column_separates():
    x = np.repeat([[1.0], [0.0]], 20, axis=0)
    space, likelihood = problem(x, np.tile([1.0, 0.0], 20))
    assert moved_by(space.rows, space.rows[:, 1:], likelihood).shape == (0, 1)


def test_a_row_by_itself_stays_in_one_part():
    x, y = np.repeat([[1.0], [0.0]], [1, 5], axis=0), np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    space, likelihood = problem(x, y)
    assert moved_by(space.rows, space.rows[:, 1:], likelihood).shape == (0, 1)


def test_functions_are_those_of_the_levels():
    levels = np.repeat(np.eye(4), [3, 9, 20, 20], axis=0)[:, :3]
    y = np.r_[np.ones(3), np.zeros(9), np.tile([1.0, 0.0], 20)]
    space, likelihood = problem(levels, y)
    moved = moved_by(space.rows, space.rows[:, 1:], likelihood)
    at_levels = space.rows[[0, 3], 1:]
    away = [np.abs(row - sign * level).max() for level in at_levels for row in moved for sign in (1, -1)]
    assert (np.array(away).reshape(2, 4).min(axis=1) < ALIKE).all()
