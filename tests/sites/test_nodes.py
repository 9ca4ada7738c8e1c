"""Starts of approximations from those at other t2."""

import numpy as np
import pytest

from pybayesridge.sites.nodes import _smoothed
from tests.binomial.problems import columns, nodes, problem, responses

AGAIN = 1e-4
"""Differences of linear predictors that come from other starts."""

AWAY = np.array([-4.0, -2.5, -1.0, -0.3, 0.6, 1.5, 3.0])


def test_a_straight_line_is_continued():
    weights = _smoothed(AWAY, np.full(AWAY.size, 1e-4))
    assert weights @ (3.0 - 2.0 * AWAY) == pytest.approx(3.0, abs=1e-9)


def test_a_node_of_little_accuracy_hardly_counts():
    error = np.where(AWAY == -0.3, 1e-1, 1e-5)
    value = np.sin(AWAY / 2) + np.where(AWAY == -0.3, 1e-1, 0.0)
    found = _smoothed(AWAY, error) @ value
    assert abs(found) <= 5e-3
    assert abs(_smoothed(AWAY, np.full(AWAY.size, 1e-5)) @ value) > 1e-2


def test_stripped_approximations_are_found_again():
    """What others start from is left of them, and their evidence; asked for, they have their rows again."""
    x = columns(60, 3, seed=1)
    found, other = (nodes(*problem(x, responses(x, seed=1)), solver="ep") for _ in range(2))
    before = [found.at(place) for place in (-1.0, 0.0)]
    found.strip()
    assert all(node.mean.size == 0 for node in found.found)
    assert [node.log_evidence for node in found.found] == [node.log_evidence for node in before]
    np.testing.assert_allclose(found.at(0.0).mean, before[1].mean, atol=AGAIN)
    np.testing.assert_allclose(found.at(-0.5).mean, other.at(-0.5).mean, atol=AGAIN)
    assert found.log_t2 == [-1.0, -0.5, 0.0]
