import numpy as np
import pytest

from pybayesridge.ep.model.prior import (
    Prior,
    cavity_of_moments,
    conjugate,
    curvature,
    inverse_curvature,
    matching_sites,
    tilted,
)

QUADRATURE_TOL = 1e-10
INVERSE_TOL = 1e-12
DIFFERENCE_TOL = 1e-6

CASES = [
    (h1, h2, p, vs)
    for h1 in (-3.0, 0.0, 0.4, 6.0)
    for h2 in (-0.3, 0.0, 2.0, 50.0)
    for p, vs in ((0.1, 1.0), (0.7, 2.5))
]
#: Gauss-Hermite nodes, exact for the moments of a Gaussian.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def one(p, vs):
    return Prior.from_probability(np.array([p]), vs)


@pytest.mark.parametrize(("h1", "h2", "p", "vs"), CASES)
def test_tilted_moments_match_quadrature(h1, h2, p, vs):
    # Integrate against the prior itself: nodes under the slab, and the spike at zero.
    precision = h2 + 1.0 / vs
    w = h1 / precision + NODES / np.sqrt(precision)
    density = np.exp(h1 * w - 0.5 * h2 * w**2 - 0.5 * w**2 / vs) / np.sqrt(2 * np.pi * vs)
    volume = WEIGHTS * np.exp(0.5 * NODES**2) / np.sqrt(precision)
    slab = [p * np.sum(volume * density * w**k) for k in range(5)]
    norm = slab[0] + 1 - p
    t = tilted(np.array([h1]), np.array([h2]), one(p, vs))
    moments = [s / norm for s in slab[1:]]
    assert t.log_norm[0] == pytest.approx(np.log(norm), abs=QUADRATURE_TOL)
    assert t.prob[0] == pytest.approx(slab[0] / norm, abs=QUADRATURE_TOL)
    assert t.mean[0] == pytest.approx(moments[0], abs=QUADRATURE_TOL)
    assert t.var[0] == pytest.approx(moments[1] - moments[0] ** 2, rel=QUADRATURE_TOL)
    c11, c12, c22 = (c[0] for c in curvature(t))
    assert c11 == pytest.approx(moments[1] - moments[0] ** 2, rel=1e-8)
    assert c12 == pytest.approx(moments[2] - moments[0] * moments[1], rel=1e-8, abs=1e-10)
    assert c22 == pytest.approx(moments[3] - moments[1] ** 2, rel=1e-8)


def wide_range(d=20_000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.choice([1e-8, 0.01, 0.2, 0.5, 0.99, 1 - 1e-9, 1.0], d)
    h2 = 10.0 ** rng.uniform(-6, 6, d)
    h2[:500] = -0.49
    h1 = rng.standard_normal(d) * np.sqrt(np.abs(h2) + 0.5) * 10 ** rng.uniform(-3, 1, d)
    return h1, h2, Prior.from_probability(p, 2.0)


def test_inverse_map_undoes_tilting_over_twelve_orders_of_magnitude():
    h1, h2, prior = wide_range()
    t = tilted(h1, h2, prior)
    back = cavity_of_moments(t.mean, t.var, prior)
    size = np.abs(h2) + 1.0 / prior.slab_var
    assert np.max(np.abs(back.h2 - h2) / size) < 10 * INVERSE_TOL
    assert np.max(np.abs(back.h1 - h1) / np.sqrt(size) / (1 + np.abs(h1) / np.sqrt(size))) < 10 * INVERSE_TOL
    assert np.max(np.abs(back.prob / t.prob - 1)) < 100 * INVERSE_TOL


@pytest.mark.parametrize("mean", [0.0, 1e-12, 1.0, 1e6])
@pytest.mark.parametrize("var", [1e-30, 1e-8, 1.0, 1e4])
def test_inverse_map_survives_extreme_moments(mean, var):
    prior = Prior.from_probability(np.array([0.3]), 1.0)
    c = cavity_of_moments(np.array([mean]), np.array([var]), prior)
    assert 0 < c.prob[0] <= 1
    assert c.slab_var[0] > 0
    again = tilted(c.h1, c.h2, prior)
    assert again.mean[0] == pytest.approx(mean, rel=1e-6)
    if mean == 0 or var / mean**2 > 1e-12:
        assert again.var[0] == pytest.approx(var, rel=1e-4)


def test_matching_sites_are_the_differences_of_natural_parameters():
    h1, h2, prior = wide_range()
    t = tilted(h1, h2, prior)
    t1, t2 = matching_sites(t, prior)
    scale = 1.0 / t.var
    assert np.max(np.abs(t2 - (1.0 / t.var - h2)) / scale) < 1e-12
    assert np.max(np.abs(t1 - (t.mean / t.var - h1)) / (np.abs(t.mean) / t.var + np.abs(h1) + 1e-300)) < 1e-12


def test_sure_columns_get_exactly_the_slab_as_site():
    prior = Prior.from_probability(np.ones(3), 4.0)
    t1, t2 = matching_sites(tilted(np.array([-5.0, 0.0, 3e4]), np.array([1e-6, 3.0, 1e9]), prior), prior)
    assert np.array_equal(t2, np.full(3, 0.25))
    assert np.all(t1 == 0)


def test_inverse_curvature_inverts_curvature_and_is_the_derivative_of_the_inverse_map():
    h1, h2, p, vs = np.array([0.5, 2.0, -1.0]), np.array([0.2, 3.0, 8.0]), np.array([0.2, 0.5, 0.05]), 1.5
    prior = Prior.from_probability(p, vs)
    t = tilted(h1, h2, prior)
    c11, c12, _ = curvature(t)
    p11, p12, p22 = inverse_curvature(t)
    assert np.allclose(c11 * p11 + c12 * p12, 1.0, atol=1e-10)
    assert np.allclose(c11 * p12 + c12 * p22, 0.0, atol=1e-10)
    step = 1e-6
    up = cavity_of_moments(t.mean + step, t.var, prior)
    down = cavity_of_moments(t.mean - step, t.var, prior)
    ds = 2 * t.mean  # d(var + mean^2) / d mean
    assert np.allclose((up.h1 - down.h1) / (2 * step), p11 + ds * p12, rtol=DIFFERENCE_TOL)
    assert np.allclose((up.h2 - down.h2) / (2 * step), -2 * (p12 + ds * p22), rtol=DIFFERENCE_TOL, atol=1e-6)


def test_conjugate_is_the_supremum():
    prior = Prior.from_probability(np.array([0.3]), 1.0)
    mean, var = np.array([0.4]), np.array([0.6])
    best = conjugate(cavity_of_moments(mean, var, prior), mean, var)[0]
    second = var[0] + mean[0] ** 2
    rng = np.random.default_rng(1)
    c = cavity_of_moments(mean, var, prior)
    for _ in range(200):
        h1, h2 = c.h1 + 0.3 * rng.standard_normal(1), c.h2 + 0.3 * rng.standard_normal(1)
        value = h1[0] * mean[0] - 0.5 * h2[0] * second - tilted(h1, h2, prior).log_norm[0]
        assert value <= best + 1e-12
