"""What is left of the exact posterior without the row space: tables of quantiles, also where these nearly jump."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from pybayesridge import SpikeSlab
from pybayesridge.posterior.quantiles import Ragged
from pybayesridge.quantile_tables import REACH, MonotoneTable, QuantileTable
from pybayesridge.selection.hyperparameters import shares, variances
from pybayesridge.selection.marginals import POINTS, ExactMarginals
from pybayesridge.selection.moments import slabs_of

BETWEEN = float(ndtr(REACH / (POINTS - 1)) - ndtr(-REACH / (POINTS - 1)))
"""The probability between two points of the table, .0173: no quantile can be further off, however it jumps."""

TWINS = 0.01
"""Probability up to a quantile of a twin's coefficient less the one asked for: 1.9e-3 at the worst seen."""

SINGLE = 1e-5
"""Relative error of a number of single precision, and of what is computed with a few of them."""

UNPENALIZED = 1e-5
"""Intervals of the intercept, in standard deviations: 1e-7 at the worst seen."""

PROBABILITIES = np.concatenate([[1e-6, 1e-4], np.linspace(0.001, 0.999, 331), [1 - 1e-4, 1 - 1e-6]])


def below(slabs, i, x):
    """The distribution function of the mixture i at each of x, by scipy's."""
    own = slice(slabs.start[i], slabs.start[i + 1])
    law = stats.norm if np.isinf(slabs.df) else stats.t(slabs.df)
    return np.array([slabs.weight[own] @ law.cdf((at - slabs.center[own]) / slabs.scale[own]) for at in x])


@pytest.fixture(scope="module", params=[None, 0.09], ids=["noise learned", "noise given"])
def twins(request):
    """Two columns that are nearly the same: a coefficient is large on its own, and small or nothing with its twin."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 3))
    x[:, 1] = x[:, 0] + 0.02 * x[:, 1]
    y = x[:, 0] + 0.3 * rng.normal(size=200)
    return SpikeSlab(y, x, noise_var=request.param, prior_inclusion=0.3).fit("exact").arrays


def test_quantiles_of_twins_have_the_probability_asked_for(twins):
    whole = twins.posterior
    left = ExactMarginals.of(whole, ())
    visited, slabs = slabs_of(whole.exact.states)
    assert visited.tolist() == [0, 1, 2]
    for i, j in enumerate(visited):
        found = np.array([left.slab.at(p)[i, 0] for p in PROBABILITIES]) / whole.unit[j]
        assert (np.diff(found) >= 0).all()
        assert np.abs(below(slabs, i, found) - PROBABILITIES).max() < TWINS
    low, middle, high = slabs.quantiles(np.array([0.1, 0.5, 0.9]))[0]
    assert middle - low > 3 * (high - middle), "the case has a wide and a narrow mode"


def tails(alpha):
    return np.array([alpha / 2, 1 - alpha / 2])


def test_intervals_of_twins_hold_their_probability(twins):
    """Spike and slab together, at every alpha: quantiles at 0 where the whole posterior has them there."""
    whole = twins.posterior
    left = ExactMarginals.of(whole, ())
    _, slabs = slabs_of(whole.exact.states)
    share = whole.exact.inclusion_prob
    for alpha in (1e-5, 0.01, 0.05, 0.2, 0.5, 0.8):
        (left_z, ends), (whole_z, wanted) = (each.coefficient_quantiles(tails(alpha)) for each in (left, whole))
        for i in range(3):
            for end, other, p in zip(ends[i], wanted[i], (alpha / 2, 1 - alpha / 2), strict=True):
                if other == 0.0:
                    assert end == 0.0
                    continue
                at = share[i] * below(slabs, i, [end / whole.unit[i]])[0] + (1 - share[i]) * (end >= 0)
                assert abs(at - p) < TWINS
        np.testing.assert_allclose(left_z, whole_z, atol=UNPENALIZED * twins.bse[0], rtol=0)


def test_a_jump_makes_no_oscillation():
    """Two points far apart: between them the quantile function is a step."""
    two = Ragged(np.array([0.4, 0.6]), np.array([0.0, 1.0]), np.full(2, 1e-4), np.array([0, 2]), np.inf)
    at = MonotoneTable.probabilities(exactly=False, points=POINTS)
    quantiles = two.quantiles(at)[:, None]
    tables = [kind.of(quantiles, np.inf, exactly=False, points=POINTS) for kind in (MonotoneTable, QuantileTable)]
    monotone, spline = (np.array([table.at(p)[0, 0] for p in PROBABILITIES]) for table in tables)
    assert (np.diff(monotone) >= 0).all()
    assert np.abs(below(two, 0, monotone) - PROBABILITIES).max() < BETWEEN
    assert (np.diff(spline) < -0.01).any()


def test_columns_that_no_state_has_in():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 4))
    res = SpikeSlab(x[:, 0] + rng.normal(size=30), x, prior_inclusion=[0.5, 0.0, 1.0, 0.0]).fit("exact").arrays
    left = ExactMarginals.of(res.posterior, ())
    assert left.visited.tolist() == [0, 2]
    assert not left.coefficient_quantiles(tails(0.05))[1][[1, 3]].any()
    assert np.isnan(left.quantiles_given_inclusion(tails(0.05))[[1, 3]]).all()
    np.testing.assert_allclose(
        left.coefficient_quantiles(tails(0.05))[1], res.posterior.coefficient_quantiles(tails(0.05))[1], atol=1e-5
    )
    none = SpikeSlab(x[:, 0], x, prior_inclusion=0.0, intercept=False).fit("exact").arrays
    nothing = ExactMarginals.of(none.posterior, ())
    assert nothing.coefficient_quantiles(tails(0.05))[0].shape == (0, 2)
    assert not nothing.coefficient_quantiles(tails(0.05))[1].any()


def test_hyperparameters_by_table(twins):
    left = ExactMarginals.of(twins.posterior, ())
    grid = np.linspace(0.0005, 0.9995, 2001)
    whole = variances(twins.posterior, grid) | shares(twins.posterior, grid)
    for alpha in (0.01, 0.05, 0.2, 0.5):
        found = left.hyperparameters(alpha)
        assert set(found) == set(whole)
        for name, (mean, quantiles) in whole.items():
            assert found[name][0] == mean or np.isnan(mean)
            if np.isnan(quantiles).any():
                assert np.isnan(found[name][1:]).all()
                continue
            for end, p in zip(found[name][1:], (alpha / 2, 1 - alpha / 2), strict=True):
                reached = grid[np.searchsorted(quantiles, end * (1 + SINGLE), side="right").clip(1, grid.size) - 1]
                before = grid[np.searchsorted(quantiles, end * (1 - SINGLE), side="left").clip(0, grid.size - 1)]
                assert before - BETWEEN < p < reached + BETWEEN
    with pytest.raises(ValueError, match="alpha is 1e-09"):
        left.hyperparameters(1e-9)
