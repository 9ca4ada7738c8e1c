"""Eigenvectors of symmetric matrices: orthogonal and accurate by either route, in little memory if they are large."""

import tracemalloc

import numpy as np
import pytest

from pybayesridge import BayesRidge
from pybayesridge.linalg import eigen

ORTHOGONAL = 2e-13
"""Largest inner product of two vectors, or error of a norm; 3e-15 seen."""

RESIDUAL = 5e-14
"""Largest entry of ``A V - V D``, relative to the largest eigenvalue; 3e-15 seen."""

SAME = 1e-8
"""Fits by either route."""


def matrix(kind, m):
    """Symmetric matrices whose eigenvalues are apart, clustered, repeated or tiny."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((m + 5, m))
    if kind == "steep":
        x = x * np.geomspace(1, 1e-7, m)
    elif kind == "copies":
        x[:, m // 2 :] = x[:, : m - m // 2]
    elif kind == "identity":
        x = np.linalg.qr(x)[0]
    elif kind == "zero":
        x = np.zeros((m, m))
    out = x.T @ x
    if kind == "pairs":
        # Wilkinson's matrix: pairs of eigenvalues that agree to the last digits.
        out = np.diag(np.abs(np.arange(m) - m // 2) + 2.0) + np.diag(np.ones(m - 1), 1) + np.diag(np.ones(m - 1), -1)
    return np.asfortranarray(out)


@pytest.mark.every_case
@pytest.mark.parametrize("large", [1, 10**6], ids=["large", "small"])
@pytest.mark.parametrize("m", [1, 2, 5, 6, 121])
@pytest.mark.parametrize("kind", ["random", "steep", "copies", "identity", "zero", "pairs"])
def test_orthogonal_and_accurate(kind, m, large, monkeypatch):
    monkeypatch.setattr(eigen, "LARGE", large)
    monkeypatch.setattr(eigen, "COLUMNS", 2)
    a = matrix(kind, m)
    values, vectors = eigen.decompose(np.asfortranarray(np.tril(a)))
    assert vectors.flags.f_contiguous
    assert (np.diff(values) <= 0).all()
    assert np.abs(vectors.T @ vectors - np.eye(m)).max() < ORTHOGONAL
    unit = max(np.abs(values).max(), 1e-300)
    assert np.abs(a @ vectors - vectors * values).max() / unit < RESIDUAL
    np.testing.assert_allclose(values / unit, np.linalg.eigvalsh(a)[::-1] / unit, atol=RESIDUAL)


def test_large_matrices_need_the_room_of_one_more(monkeypatch):
    monkeypatch.setattr(eigen, "LARGE", 1)
    monkeypatch.setattr(eigen, "COLUMNS", 16)
    a = matrix("random", 500)
    tracemalloc.start()
    try:
        eigen.decompose(a)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1.5 * a.nbytes


@pytest.mark.parametrize("shape", [(80, 40), (40, 80), (40, 40)])
def test_fits_are_the_same_by_either_route(shape, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    y = x[:, :3].sum(axis=1) + rng.standard_normal(shape[0])
    small = BayesRidge(y, x).fit()
    monkeypatch.setattr(eigen, "LARGE", 1)
    large = BayesRidge(y, x).fit()
    assert large.solver == small.solver
    np.testing.assert_allclose(large.params, small.params, atol=SAME * small.bse.max())
    np.testing.assert_allclose(large.bse, small.bse, rtol=SAME)
    assert large.log_marginal == pytest.approx(small.log_marginal, rel=SAME)
