"""Starts of approximations from those at other t2."""

import numpy as np
import pytest

from pybayesridge.sites.nodes import _smoothed

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
