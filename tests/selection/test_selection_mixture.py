"""Quantiles of mixtures of t distributions and point masses, one mixture for each row."""

import numpy as np
import pytest
from scipy import optimize, stats

from pybayesridge.selection.mixture import AT_ONCE, FEW, REACH, Mixtures, law_of

TABLE = 1e-10
"""Interpolation of a distribution function: 1e-11 at the worst seen."""

QUANTILE = 1e-8
"""Error of a quantile, in the largest scale plus centre, where the density is not small: 5e-11 at the worst seen."""


def mixture(rng, nu, n_states, n_rows, spike=0.0):
    weight = rng.dirichlet(np.full(n_states, 0.5))
    center = rng.standard_normal((n_states, n_rows)) * rng.choice([0.1, 1.0, 30.0], n_rows)
    scale = np.exp(rng.normal(size=(n_states, n_rows)))
    out = rng.random((n_states, n_rows)) < spike
    return Mixtures.alike(weight, np.where(out, 0.0, center), np.where(out, 0.0, scale), law_of(nu))


def cdf(m, row, x):
    """By scipy's distributions, point masses at 0 included."""
    law = stats.norm if np.isinf(m.law.nu) else stats.t(m.law.nu)
    own = slice(m.start[row], m.start[row + 1])
    scale, center = m.scale[own], m.center[own]
    safe = np.where(scale > 0, scale, 1.0)
    below = np.where(scale > 0, law.cdf((x - center) / safe), float(x >= 0))
    return m.weight[own] @ below


@pytest.mark.parametrize("nu", [1.0, 2.5, 12.0, 300.0, 1e5])
def test_the_table_is_the_distribution_function(nu):
    x = np.concatenate([np.random.default_rng(0).uniform(-1.2 * REACH, 1.2 * REACH, 5000), [-REACH, 0.0, REACH]])
    below, density = law_of(nu).both(x)
    np.testing.assert_allclose(below, stats.t(nu).cdf(x), atol=TABLE, rtol=0)
    np.testing.assert_allclose(density, stats.t(nu).pdf(x), atol=1e-4)


@pytest.mark.parametrize("nu", [1.0, 3.0, 40.0, np.inf])
@pytest.mark.parametrize("n_states", [1, 20, 1500])
@pytest.mark.parametrize("probability", [1e-6, 0.025, 0.5, 0.975])
def test_quantiles_without_point_masses(nu, n_states, probability):
    m = mixture(np.random.default_rng(n_states), nu, n_states, 6)
    found = m.quantiles(np.array([probability]))[:, 0]
    for row, x in enumerate(found):
        own = slice(m.start[row], m.start[row + 1])
        ends = m.center[own] + m.scale[own] * m.law.quantile(np.array([probability]))
        low, high = ends.min() - 1e-6, ends.max() + 1e-6
        wanted = optimize.brentq(lambda at, row=row: cdf(m, row, at) - probability, low, high, xtol=1e-13, rtol=1e-14)
        size = m.scale[own].max() + np.abs(m.center[own]).max()
        slope = (cdf(m, row, wanted + 1e-4) - cdf(m, row, wanted - 1e-4)) / 2e-4
        assert abs(x - wanted) <= QUANTILE * size + TABLE / slope


@pytest.mark.parametrize("probability", [0.025, 0.3, 0.5, 0.8, 0.999])
def test_a_point_mass_has_its_quantiles_at_zero_exactly(probability):
    m = mixture(np.random.default_rng(5), 8.0, 30, 40, spike=0.6)
    found = m.quantiles(np.array([probability]))[:, 0]
    zero = 0
    for row, x in enumerate(found):
        below, reached = cdf(m, row, -1e-300), cdf(m, row, 0.0)
        if below < probability <= reached:
            assert not x
            zero += 1
        else:
            assert cdf(m, row, x) == pytest.approx(probability, abs=QUANTILE)
    assert zero > 0 or not 0.1 < probability < 0.9


def test_two_far_clusters():
    """Between clusters the density vanishes, and Newton's steps leave the bracket."""
    weight = np.array([0.5 - 1e-9, 0.5 + 1e-9])
    m = Mixtures.alike(weight, np.array([[0.0], [1e6]]), np.ones((2, 1)), law_of(np.inf))
    low, high, between = m.quantiles(np.array([0.3, 0.7, 0.5 - 1e-9 / 2]))[0]
    assert cdf(m, 0, low) == pytest.approx(0.3, abs=1e-8)
    assert cdf(m, 0, high) == pytest.approx(0.7, abs=1e-8)
    assert 30 < between < 1e6 - 3


def test_mixtures_of_different_sizes_at_different_probabilities():
    """In pieces, with few and with many components, some of them points."""
    rng = np.random.default_rng(8)
    sizes = np.array([1, 3, 2 * FEW + 1, 40, AT_ONCE // 100, 2])
    start = np.concatenate([[0], np.cumsum(sizes)])
    weight = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
    scale = np.exp(rng.normal(size=start[-1])) * (rng.random(start[-1]) > 0.2)
    center = np.where(scale > 0, rng.normal(size=start[-1]), 0.0)
    m = Mixtures(weight, center, scale, start, law_of(7.0))
    which, probability = rng.integers(0, sizes.size, 700), rng.uniform(0.001, 0.999, 700)
    for row, p, x in zip(which, probability, m.at(which, probability), strict=True):
        if x:
            assert cdf(m, row, x) == pytest.approx(p, abs=QUANTILE)
        else:
            assert cdf(m, row, -1e-300) < p <= cdf(m, row, 0.0)
