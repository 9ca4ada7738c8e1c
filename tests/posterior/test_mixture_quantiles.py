"""Quantiles of mixtures with common and with ragged weights, against bisection on the distribution function."""

import numpy as np
import pytest
from scipy import special, stats

from pybayesridge.posterior.quantiles import FEW, RAGGED_ELEMENTS, Common, Ragged, slab_quantiles
from pybayesridge.posterior.student import REACH, tabulated

TABLE = 1e-10
"""Interpolation of a distribution function: 1e-11 at the worst seen."""

PROBABILITY = 1e-7
"""How far the probability up to a quantile is off, relative to the shorter tail: 7e-9 at the worst seen."""

QUANTILE = 1e-7
"""Error of a quantile in standard deviations (of t distributions without one: scales), where the density is not
small: 5e-9 at the worst seen."""

BISECTIONS = 100
"""Halvings: to the last digit."""


def law_of(df):
    if np.isinf(df):
        return special.ndtr, special.ndtri
    return (lambda x: special.stdtr(df, x)), (lambda p: special.stdtrit(df, p))


def cdf(weight, center, scale, df, x):
    """By scipy's functions, point masses included; all (K,)."""
    safe = np.where(scale > 0, scale, 1.0)
    below = np.where(scale > 0, law_of(df)[0]((x - center) / safe), np.asarray(x >= center, dtype=float))
    return float(weight @ below)


def slow(weight, center, scale, df, probability):
    """The quantile by bisection of the distribution function alone."""
    ends = center + scale * law_of(df)[1](probability)
    low, high = ends.min(), ends.max()
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if cdf(weight, center, scale, df, middle) >= probability:
            high = middle
        else:
            low = middle
    return high


def spread(weight, center, scale, df):
    """Standard deviation, with the scale in its place where a t distribution has none."""
    factor = df / (df - 2) if 2 < df < np.inf else 1.0
    mean = weight @ center
    return np.sqrt(weight @ (factor * scale**2 + (center - mean) ** 2))


def assert_right(all_found, weight, center, scale, df, probability):
    """Close to the slow quantile, or, where there is next to no density, with nearly the same probability below."""
    oracle = slow(weight, center, scale, df, probability)
    for found in np.atleast_1d(all_found):
        if abs(found - oracle) <= QUANTILE * spread(weight, center, scale, df):
            continue
        tail = PROBABILITY * min(probability, 1 - probability)
        assert cdf(weight, center, scale, df, np.nextafter(found, -np.inf)) - tail <= probability
        assert cdf(weight, center, scale, df, found) + tail >= probability


def nasty(name, rng):
    """Weights (K,), centres and scales (K, m)."""
    if name == "one node dominates":
        weight = np.append(1 - 1e-9, np.full(9, 1e-9 / 9))
        return weight, rng.normal(size=(10, 5)) * 100, np.exp(rng.normal(size=(10, 5)))
    if name == "twelve orders":
        weight = rng.dirichlet(np.ones(40))
        return weight, rng.normal(size=(40, 5)), 10 ** rng.uniform(-12, 0, size=(40, 5))
    if name == "twelve orders and one dominates":
        weight = np.append(1 - 1e-3, rng.dirichlet(np.ones(30)) * 1e-3)
        return weight, rng.normal(size=(31, 5)), 10 ** rng.uniform(-12, 0, size=(31, 5))
    if name == "thousands":
        weight = rng.dirichlet(np.full(5000, 0.3))
        return weight, rng.normal(size=(5000, 1)), np.exp(rng.normal(size=(5000, 1)))
    if name == "far clusters":
        weight = np.array([0.3, 0.3, 0.4 - 1e-12, 1e-12])
        center = np.array([0.0, 1e-3, 1e6, -1e9])[:, None] * np.ones(3)
        return weight, center, np.array([1.0, 1e-6, 1e-3, 1.0])[:, None] * np.ones(3)
    if name == "two":
        return np.array([0.5 - 1e-9, 0.5 + 1e-9]), np.array([[0.0], [1e6]]), np.ones((2, 1))
    weight = rng.dirichlet(np.full(30, 0.5))
    out = rng.random((30, 12)) < (0.6 if name == "mass at zero" else 0.02)
    center = rng.normal(size=(30, 12)) * rng.choice([0.1, 1.0, 30.0], 12)
    return weight, np.where(out, 0.0, center), np.where(out, 0.0, np.exp(rng.normal(size=(30, 12))))


NASTY = (
    "one node dominates",
    "twelve orders",
    "twelve orders and one dominates",
    "thousands",
    "far clusters",
    "two",
    "mass at zero",
    "little mass at zero",
)
AT = np.array([1e-6, 0.025, 0.3, 0.5, 0.8, 0.975, 1 - 1e-4])


@pytest.mark.parametrize("df", [1.0, 3.0, 12.0, 300.0, 1e6, np.inf])
@pytest.mark.parametrize("name", NASTY)
def test_both_kernels_are_right_for_nasty_mixtures(name, df):
    weight, center, scale = nasty(name, np.random.default_rng(3))
    common = Common(center, scale, weight, df).quantiles(AT)
    of_many = Common(center, scale, weight, df).quantiles(AT[1:-1], total=10**7)
    ragged = Ragged.of_columns(np.repeat(weight[:, None], center.shape[1], axis=1), center, scale, df).quantiles(AT)
    for i in range(center.shape[1]):
        own = weight, center[:, i], scale[:, i], df
        for j, probability in enumerate(AT.tolist()):
            of_part = [of_many[i, j - 1]] if 0 < j < AT.size - 1 else []
            assert_right([common[i, j], ragged[i, j], *of_part], *own, probability)


@pytest.mark.parametrize("probability", [0.025, 0.3, 0.5, 0.8, 0.999])
def test_a_point_mass_has_its_quantiles_at_zero_exactly(probability):
    weight, center, scale = nasty("mass at zero", np.random.default_rng(5))
    at = np.array([probability])
    common = Common(center, scale, weight, 8.0).quantiles(at)[:, 0]
    ragged = Ragged.of_columns(np.repeat(weight[:, None], 12, axis=1), center, scale, 8.0).quantiles(at)[:, 0]
    zero = 0
    for i in range(12):
        own = weight, center[:, i], scale[:, i], 8.0
        on_zero = cdf(*own, -1e-300) < probability <= cdf(*own, 0.0)
        zero += on_zero
        assert (not common[i]) == (not ragged[i]) == on_zero
    assert zero > 0 or not 0.1 < probability < 0.9


def test_ragged_mixtures_of_different_sizes_at_different_probabilities():
    """In pieces, with few and with many components, some of them points."""
    rng = np.random.default_rng(8)
    sizes = np.array([1, 3, 2 * FEW + 1, 40, RAGGED_ELEMENTS // 100, 2])
    start = np.concatenate([[0], np.cumsum(sizes)])
    weight = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
    scale = np.exp(rng.normal(size=start[-1])) * (rng.random(start[-1]) > 0.2)
    center = np.where(scale > 0, rng.normal(size=start[-1]), 0.0)
    m = Ragged(weight, center, scale, start, 7.0)
    which, probability = rng.integers(0, sizes.size, 300), rng.uniform(0.001, 0.999, 300)
    for row, p, x in zip(which, probability, m.at(which, probability), strict=True):
        own = slice(start[row], start[row + 1])
        assert_right(x, weight[own], center[own], scale[own], 7.0, p)


@pytest.mark.parametrize("k", [1, 4])
def test_spike_and_slab(k):
    """A point mass at zero with the weight that the slabs leave: all, some or none of it."""
    rng = np.random.default_rng(k)
    weight = rng.dirichlet(np.ones(k + 1), size=7).T[:k] * np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    weight[:, 1] /= weight[:, 1].sum()
    center, scale = rng.normal(size=(k, 7)), np.exp(rng.normal(size=(k, 7)))
    at = np.array([0.001, 0.025, 0.4, 0.7, 0.975])
    found = slab_quantiles(weight, center, scale, np.inf, at)
    assert not found[0].any()
    for i in range(1, 7):
        own = (
            np.append(weight[:, i], 1 - weight[:, i].sum()),
            np.append(center[:, i], 0.0),
            np.append(scale[:, i], 0.0),
        )
        for p, x in zip(at.tolist(), found[i], strict=True):
            assert_right(x, *own, np.inf, p)


def test_rows_with_missing_values_have_no_quantiles():
    center = np.array([[0.0, np.nan], [1.0, np.nan]])
    found = Common(center, np.where(np.isnan(center), np.nan, 1.0), np.array([0.4, 0.6]), 5.0).quantiles(AT)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("df", [1.0, 2.5, 12.0, 300.0, 1e5])
def test_the_table_is_the_distribution_function(df):
    x = np.concatenate([np.random.default_rng(0).uniform(-1.2 * REACH, 1.2 * REACH, 5000), [-REACH, 0.0, REACH]])
    below, density = tabulated(df)(x)
    np.testing.assert_allclose(below, stats.t(df).cdf(x), atol=TABLE, rtol=0)
    np.testing.assert_allclose(density, stats.t(df).pdf(x), atol=1e-4)
