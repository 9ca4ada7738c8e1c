"""Groups of columns: derivatives by finite differences, answers beside enumeration of all models of groups."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from pybayesridge.ep.algorithms.energy import energy_point, separable_curvature, slopes
from pybayesridge.ep.algorithms.newton import newton_direction
from pybayesridge.ep.algorithms.state import EPModel, find_copies
from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.prior import (
    Prior,
    cavity_of_moments,
    conjugate,
    coupling,
    curvature,
    inverse_coupling,
    inverse_curvature,
    tilted,
)
from pybayesridge.ep.model.result import ColumnSites
from pybayesridge.ep.model.rotation import orthogonal_groups

from .ep_checks import problem

INVERSE_TOL = 1e-10
SAME = 1e-13
ROTATED = 1e-11
DERIVATIVE_TOL = 1e-5

GROUPS = np.array([1, 0, 1, 2, 1, 0])


def prior(groups=GROUPS, slab_var=1.5):
    p = np.array([0.3, 0.6, 0.1, 0.8, 0.5, 0.2])
    return Prior.from_probability(p if groups is None else p[groups], slab_var, groups)


def model(n=12, dual=None):
    X, y = problem(4, n, GROUPS.size)
    return EPModel.build(GaussianSide.build(GaussianLikelihood(Data.from_rows(X, y), 0.5), dual), prior())


def somewhere(m):
    rng = np.random.default_rng(0)
    d = GROUPS.size
    return energy_point(m, 0.3 * rng.standard_normal(d), rng.uniform(0.5, 3.0, d) - 0.7 * (np.arange(d) == 1))


def dense(parts, between):
    """A (2d, 2d) matrix of entries by column and a coupling."""
    blocks = between.blocks(np.arange(GROUPS.size))
    b11, b12, b22 = (np.diag(part) + block for part, block in zip(parts, blocks, strict=True))
    return np.block([[b11, b12], [b12.T, b22]])


def test_tilted_distribution_of_a_group_by_summing_over_in_and_out():
    rng = np.random.default_rng(1)
    h1, h2 = rng.standard_normal(6), rng.uniform(0.1, 3, 6)
    q = prior()
    t = tilted(h1, h2, q)
    for g in range(3):
        inside = g == GROUPS
        tau = 1.0 / (h2[inside] + 1.0 / 1.5)
        mu = tau * h1[inside]
        p = np.exp(q.log_p[inside][0])
        weight = p * np.prod(np.sqrt(tau / 1.5) * np.exp(0.5 * mu**2 / tau))
        r = weight / (weight + 1.0 - p)
        assert np.allclose(t.prob[inside], r, rtol=SAME)
        assert np.allclose(t.mean[inside], r * mu, rtol=SAME)
        assert np.allclose(t.var[inside], r * (tau + mu**2) - (r * mu) ** 2, rtol=1e-12)
        assert t.log_norm[inside].sum() == pytest.approx(np.log(weight + 1.0 - p), rel=SAME)


def test_moments_give_back_their_cavity():
    rng = np.random.default_rng(2)
    for _ in range(60):
        groups = np.concatenate([np.arange(4), rng.integers(0, 4, 12)])
        rng.shuffle(groups)
        slab_var = 10.0 ** rng.uniform(-2, 2)
        q = Prior.from_probability(rng.choice([1e-6, 0.1, 0.5, 0.9, 1.0], 4)[groups], slab_var, groups)
        h2 = 10.0 ** rng.uniform(-2, 4, groups.size) / slab_var
        h1 = rng.standard_normal(groups.size) * np.sqrt(h2)
        t = tilted(h1, h2, q)
        back = cavity_of_moments(t.mean, t.var, q)
        assert np.max(np.abs(back.h1 - h1) / np.sqrt(h2)) < INVERSE_TOL
        assert np.max(np.abs(back.h2 - h2) / h2) < INVERSE_TOL
        assert np.allclose(back.prob, t.prob, rtol=INVERSE_TOL)
        assert np.allclose(back.not_prob, t.not_prob, rtol=1e-7)
        assert back.log_norm.sum() == pytest.approx(t.log_norm.sum(), rel=1e-9, abs=1e-9)


def test_groups_of_one_are_columns_on_their_own():
    rng = np.random.default_rng(3)
    mean, var = rng.standard_normal(6), rng.uniform(0.01, 2, 6)
    alone = cavity_of_moments(mean, var, prior(None))
    grouped = cavity_of_moments(mean, var, prior(np.arange(6)))
    for name in ("prob", "not_prob", "slab_mean", "slab_var", "h1", "h2", "log_norm"):
        assert np.allclose(getattr(grouped, name), getattr(alone, name), rtol=1e-12, atol=SAME)


def test_curvature_is_the_derivative_of_the_moments_and_its_inverse_that_of_the_cavities():
    rng = np.random.default_rng(5)
    h1, h2, d = rng.standard_normal(6), rng.uniform(0.1, 3, 6), 6
    q = prior()

    def moments(x):
        t = tilted(x[:d], -2.0 * x[d:], q)
        return np.concatenate([t.mean, t.var + t.mean**2])

    natural = np.concatenate([h1, -0.5 * h2])
    t = tilted(h1, h2, q)
    analytic = dense(curvature(t), coupling(t))
    assert np.allclose(approx_fprime(natural, moments, 1e-7), analytic, atol=DERIVATIVE_TOL)
    assert np.allclose(dense(inverse_curvature(t), inverse_coupling(t)) @ analytic, np.eye(2 * d), atol=1e-10)


def test_conjugate_has_the_cavity_as_its_gradient():
    rng = np.random.default_rng(6)
    mean, var = rng.standard_normal(6), rng.uniform(0.1, 2, 6)
    q = prior()

    def value(x):
        z = x[6:] - x[:6] ** 2
        return conjugate(cavity_of_moments(x[:6], z, q), x[:6], z).sum()

    t = cavity_of_moments(mean, var, q)
    numeric = approx_fprime(np.concatenate([mean, var + mean**2]), value, 1e-7)
    assert np.allclose(numeric, np.concatenate([t.h1, -0.5 * t.h2]), atol=DERIVATIVE_TOL)


def test_coupling_times_a_vector_is_its_blocks_times_it():
    rng = np.random.default_rng(7)
    between = inverse_coupling(tilted(rng.standard_normal(6), rng.uniform(0.1, 3, 6), prior()))
    b11, b12, b22 = between.blocks(np.arange(6))
    x1, x2 = rng.standard_normal(6), rng.standard_normal(6)
    top, low = between.times(x1, x2)
    assert np.allclose(top, b11 @ x1 + b12 @ x2, rtol=1e-12)
    assert np.allclose(low, b12.T @ x1 + b22 @ x2, rtol=1e-12)


def test_energy_gradient_and_second_derivatives_by_finite_differences():
    m = model()
    point = somewhere(m)
    grad_m, gap = slopes(m, point)
    grad_t2 = -0.5 * point.factor.square_times(gap)
    numeric_m = approx_fprime(point.mean, lambda x: energy_point(m, x, point.t2).energy, 1e-7)
    numeric_t2 = approx_fprime(point.t2, lambda x: energy_point(m, point.mean, x).energy, 1e-7)
    assert np.allclose(grad_m, numeric_m, atol=DERIVATIVE_TOL)
    assert np.allclose(grad_t2, numeric_t2, atol=DERIVATIVE_TOL)

    def separable_slope(x):
        t = cavity_of_moments(x[:6], x[6:], m.prior)
        return np.concatenate([t.h1 - t.h2 * x[:6], 0.5 / x[6:] - 0.5 * t.h2])

    curv = separable_curvature(point)
    numeric = approx_fprime(np.concatenate([point.mean, point.var]), separable_slope, 1e-7)
    analytic = dense((curv.mm, curv.mz, 0.5 * curv.zz), curv.coupling)
    assert np.allclose(numeric, analytic, atol=2e-5)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("refine", [0, 50])
def test_newton_direction_falls_whatever_the_core(dual, refine):
    m = model(n=5, dual=dual)
    point = somewhere(m)
    grad_m, gap = slopes(m, point)
    grad_t2 = -0.5 * point.factor.square_times(gap)
    for core in (2, 4, 6):
        step = newton_direction(m, point, core, 1e-2, refine)
        assert step.slope < 0
        assert step.slope == pytest.approx(grad_m @ step.mean + grad_t2 @ step.t2)
        ahead = energy_point(m, point.mean + 1e-4 * step.mean, point.t2 + 1e-4 * step.t2)
        assert (ahead.energy - point.energy) / 1e-4 == pytest.approx(step.slope, rel=0.05)


def test_copies_across_groups_need_groups_that_are_copies():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((7, 6))
    X[:, 3], X[:, 5] = -X[:, 0], X[:, 1]
    same = find_copies(X, np.zeros(6), np.array([0, 0, 1, 2, 1, 2]))
    assert np.unique(same[0]).size == 4
    assert same[0][0] == same[0][3]
    assert same[0][1] == same[0][5]
    assert find_copies(X, np.zeros(6), np.array([0, 1, 1, 2, 2, 0]))[0] is None
    within = find_copies(X, np.zeros(6), np.array([0, 1, 1, 0, 2, 2]))[0]
    assert np.unique(within).size == 5
    assert within[0] == within[3]


def test_rotation_makes_columns_of_a_group_orthogonal_and_leads_back():
    X, y = problem(8, 9, 6)
    X[:, 4] = X[:, 0] - X[:, 2]  # a group of rank two
    data = Data.from_rows(X, y)
    rotated, rotation = orthogonal_groups(data, GROUPS)
    u = rotation.rows(np.eye(6))
    assert np.allclose(u.T @ u, np.eye(6), atol=SAME)
    assert np.allclose(rotated.root, data.root @ u, atol=1e-12)
    gram = rotated.root.T @ rotated.root
    within = (GROUPS[:, None] == GROUPS) & ~np.eye(6, dtype=bool)
    assert np.allclose(gram[within], 0.0, atol=1e-12)
    assert np.sum(rotated.gram_diag[GROUPS == 1] == 0) == 1
    assert np.allclose(rotated.gram_diag, gram.diagonal(), atol=1e-12)
    assert np.allclose(rotated.cross, X.T @ y @ u, atol=1e-12)
    w = np.random.default_rng(0).standard_normal((2, 6))
    assert np.allclose(rotation.back(w), w @ u.T, atol=SAME)
    cov = gram + np.eye(6)
    assert np.allclose(rotation.covariance(cov), u @ cov @ u.T, atol=1e-12)
    assert np.allclose(rotation.variances(w**2), w**2 @ (u**2).T, atol=SAME)
    assert rotation.turned.tolist() == [1, 5, 0, 2, 4]
    sites = rotation.unknown(ColumnSites(np.ones(6), np.ones(6)))
    assert np.isinf(sites.site2).tolist() == [True, True, True, False, True, True]


def test_columns_on_their_own_are_not_rotated():
    X, y = problem(8, 9, 6)
    data = Data.from_rows(X, y)
    same, rotation = orthogonal_groups(data, None)
    assert same is data
    assert rotation.blocks == ()


def test_data_are_rotated_back():
    rng = np.random.default_rng(5)
    data = Data.from_rows(rng.standard_normal((30, 5)) @ rng.standard_normal((5, 5)), rng.standard_normal(30))
    rotated, rotation = orthogonal_groups(data, np.array([0, 0, 1, 1, 1]))
    back = rotation.unrotated(rotated)
    for name in ("root", "cross", "gram_diag", "target"):
        np.testing.assert_allclose(getattr(back, name), getattr(data, name), rtol=ROTATED, atol=ROTATED)
