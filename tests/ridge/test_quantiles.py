"""Quantiles of mixtures whose components lie on scales from 1e-13 to 1e65: roots of the distribution function."""

import numpy as np
import pytest
from scipy import stats

from pybayesridge.ridge.mixture import _mixture_quantile

PROBABILITY = 1e-8
"""Ten times the largest error seen, relative to the probability in the shorter tail."""


@pytest.mark.parametrize("df", [1.0, 5.0, np.inf])
@pytest.mark.parametrize("tail", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("probability", [0.005, 0.05, 0.5, 0.8, 0.975])
def test_heavy_tails(df, tail, probability):
    # As under the prior alone: the variance rises with l = log t2, whose density falls as exp(-tail l).
    l = np.arange(-60.0, 300.0, 0.5)
    weight = np.exp(-np.maximum(tail * l, 0) + np.minimum(l, 0))
    weight /= weight.sum()
    shrunk = 1 / (1 + np.exp(-l))
    where = np.outer(shrunk, [0.0, 3.0, -1e6, 1e-9])
    scale = np.outer(np.exp(l / 2), [1.0, 1e-8, 1.0, 1e40])
    keep = weight > 1e-13
    found = _mixture_quantile(where[keep], scale[keep], weight[keep] / weight[keep].sum(), df, probability)
    law = stats.norm if np.isinf(df) else stats.t(df)
    below = weight[keep] @ law.cdf((found - where[keep]) / scale[keep]) / weight[keep].sum()
    np.testing.assert_allclose(below, probability, rtol=0, atol=PROBABILITY * min(probability, 1 - probability))


@pytest.mark.parametrize("probability", [0.045, 0.05, 0.3])
def test_point_masses_between_which_there_is_next_to_nothing(probability):
    # The first guess lies on a component so narrow that its density is all there is.
    where = np.array([[0.0], [0.2], [1.0], [0.164]])
    scale = np.array([[1e-55], [1e-3], [0.05], [1e-55]])
    weight = np.array([0.04, 1e-9, 0.95, 0.01 - 1e-9])
    found = _mixture_quantile(where, scale, weight, 8.0, probability)[0]
    cdf = weight @ stats.t(8.0).cdf((found * (1 + np.array([[-1e-9], [1e-9]])) - where[:, 0]) / scale[:, 0]).T
    assert cdf[0] - 1e-9 <= probability <= cdf[1] + 1e-9
