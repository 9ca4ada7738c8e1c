import numpy as np
import pytest

from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood

DENSE_TOL = 1e-10
DRAW_TOL = 0.03

SITES = ["positive", "some negative", "tiny", "wide"]


def sites(kind, d, rng):
    t2 = rng.uniform(0.5, 2.0, d)
    if kind == "some negative":
        t2[:3] = -0.05
    elif kind == "tiny":
        t2[1:4] = 1e-9
    elif kind == "wide":
        t2 *= 10.0 ** rng.uniform(-2, 6, d)
    return rng.standard_normal(d), t2


def dense(X, y, s2, t1, t2):
    A = X.T @ X / s2 + np.diag(t2)
    C = np.linalg.inv(A)
    return A, C, C @ (t1 + X.T @ y / s2)


@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize(("n", "d"), [(8, 20), (20, 8), (6, 6)])
def test_everything_matches_dense_algebra(n, d, dual, moments, kind):
    rng = np.random.default_rng([n, d])
    X, y, s2 = rng.standard_normal((n, d)), rng.standard_normal(n), 0.3
    t1, t2 = sites(kind, d, rng)
    A, C, m = dense(X, y, s2, t1, t2)
    data = Data.from_moments(X.T @ X, X.T @ y, y @ y, n) if moments else Data.from_rows(X, y)
    gaussian = GaussianSide.build(GaussianLikelihood(data, s2), dual)
    factor = gaussian.factor(t2)
    if np.linalg.eigvalsh(A)[0] <= 0:
        assert factor is None
        return
    scale = np.max(np.abs(C))
    v, rows = rng.standard_normal(d), rng.standard_normal((4, d))
    mean = factor.mean(t1)
    assert np.allclose(mean, m, atol=DENSE_TOL * max(1, scale))
    assert np.allclose(factor.var, np.diag(C), rtol=DENSE_TOL, atol=DENSE_TOL * scale)
    assert np.allclose(factor.cavity2, 1 / np.diag(C) - t2, rtol=1e-7, atol=DENSE_TOL * np.max(np.abs(t2)))
    assert factor.log_det == pytest.approx(np.linalg.slogdet(A)[1], abs=1e-9)
    assert np.allclose(factor.solve(v), C @ v, atol=DENSE_TOL * max(1, scale))
    assert np.allclose(factor.square_times(v), C**2 @ v, atol=DENSE_TOL * max(1, scale) ** 2)
    assert np.allclose(factor.row_var(rows), np.diag(rows @ C @ rows.T), rtol=1e-9, atol=DENSE_TOL * scale)
    assert np.allclose(factor.cov(), C, atol=DENSE_TOL * max(1, scale))
    index = np.array([0, 2, d - 1])
    assert np.allclose(factor.cov_block(index), C[np.ix_(index, index)], atol=DENSE_TOL * max(1, scale))
    assert np.allclose(factor.cov_columns(index), C[:, index], atol=DENSE_TOL * max(1, scale))
    b = t1 + X.T @ y / s2
    log_z = -0.5 * n * np.log(2 * np.pi * s2) - 0.5 * y @ y / s2 + 0.5 * d * np.log(2 * np.pi)
    log_z += -0.5 * np.linalg.slogdet(A)[1] + 0.5 * b @ m
    assert gaussian.log_z(factor, t1, mean) == pytest.approx(log_z, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("kind", ["positive", "some negative"])
@pytest.mark.parametrize("dual", [False, True])
def test_draws_have_the_covariance(dual, kind):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((8, 10)), rng.standard_normal(8)
    t1, t2 = sites(kind, 10, rng)
    factor = GaussianSide.build(GaussianLikelihood(Data.from_rows(X, y), 0.3), dual).factor(t2)
    C = dense(X, y, 0.3, t1, t2)[1]
    draws = factor.draw(60_000, rng)
    sd = np.sqrt(np.diag(C))
    assert np.max(np.abs(np.cov(draws.T) - C) / np.outer(sd, sd)) < DRAW_TOL
    assert np.max(np.abs(draws.mean(axis=0)) / sd) < DRAW_TOL


def test_not_positive_definite_is_none():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 90)), rng.standard_normal(5)
    gaussian = GaussianSide.build(GaussianLikelihood(Data.from_rows(X, y), 1.0))
    assert gaussian.gram is None
    assert gaussian.factor(np.full(90, -1.0)) is None
    assert gaussian.factor(np.where(np.arange(90) < 6, -1e-12, 1.0)) is None
    assert gaussian.factor(np.full(90, np.nan)) is None


def test_wide_data_never_become_square():
    rng = np.random.default_rng(0)
    n, d = 5, 400
    gaussian = GaussianSide.build(
        GaussianLikelihood(Data.from_rows(rng.standard_normal((n, d)), rng.standard_normal(n)), 1.0)
    )
    factor = gaussian.factor(rng.uniform(0.5, 2.0, d))
    sizes = [getattr(factor, name) for name in ("half", "chol", "bridge", "rest_chol")]
    assert gaussian.gram is None
    assert max(a.size for a in sizes) == n * d


def test_moments_and_rows_agree_when_columns_repeat():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    X[:, 3] = X[:, 0]
    rows, moments = Data.from_rows(X, y), Data.from_moments(X.T @ X, X.T @ y, y @ y, 30)
    assert moments.root.shape[0] == 3
    w = rng.standard_normal(4)
    assert rows.rss(w) == pytest.approx(np.sum((y - X @ w) ** 2), rel=1e-12)
    assert moments.rss(w) == pytest.approx(np.sum((y - X @ w) ** 2), rel=1e-10)
    assert rows.yy == pytest.approx(y @ y, rel=1e-12)
