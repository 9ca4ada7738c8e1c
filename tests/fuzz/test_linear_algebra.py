"""The oracle's own linear algebra: it must do what it says to the last digits of a long double."""

import numpy as np
import pytest

from tests.fuzz.linear_algebra import ENOUGH, LONG, reflect, solve_lower, solve_upper, svd, times_q

pytestmark = pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision")

LAST_DIGITS = 1e-16
"""Ten times the largest error seen, in a matrix of norm 1: a tenth of what a double can hold."""


def steep(m, n, condition):
    rng = np.random.default_rng(m * n)
    r = min(m, n)
    u, v = (np.linalg.qr(rng.standard_normal((k, r)))[0] for k in (m, n))
    return (u * np.logspace(0, -condition, r)).astype(LONG) @ v.T.astype(LONG)


@pytest.mark.parametrize("shape", [(12, 5), (9, 9), (4, 11), (1, 3), (5, 1)])
@pytest.mark.parametrize("condition", [0, 7, 14])
def test_singular_values_and_vectors_give_the_matrix_back(shape, condition):
    a = steep(*shape, condition)
    u, s, v = svd(a)
    eye = np.eye(min(shape))
    assert np.abs((u * s) @ v.T - a).max() < LAST_DIGITS
    assert np.abs(u.T @ u - eye).max() < LAST_DIGITS
    assert np.abs(v.T @ v - eye).max() < LAST_DIGITS
    assert (np.diff(s) <= 0).all()
    assert np.abs(s - np.logspace(0, -condition, min(shape))).max() < 1e-15


def test_duplicate_columns_have_a_singular_value_of_zero():
    a = steep(8, 4, 0)
    s = svd(np.hstack([a, a[:, :1]]))[1]
    assert s[-1] < LAST_DIGITS


def test_reflections_and_triangles():
    a, b = steep(7, 4, 3), steep(7, 2, 0)
    reflectors, r, order = reflect(a, pivot=True)
    padded = np.zeros((7, 4), dtype=LONG)
    padded[:4] = r
    assert np.abs(times_q(reflectors, padded) - a[:, order]).max() < LAST_DIGITS
    assert np.abs(times_q(reflectors, times_q(reflectors, b, transpose=True)) - b).max() < LAST_DIGITS
    assert np.abs(r @ solve_upper(r, b[:4]) - b[:4]).max() < LAST_DIGITS
    assert np.abs(r.T @ solve_lower(r, b[:4]) - b[:4]).max() < LAST_DIGITS
