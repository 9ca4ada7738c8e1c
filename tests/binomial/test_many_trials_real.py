"""A data set with hundreds of trials a row and interactions as columns: sampled sets beside importance sampling."""

import warnings

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from pybayesridge import SpikeSlab
from tests.binomial.importance import Data, integrate, slab_nodes
from tests.effort import only_thorough

SHARE = 0.05  # of the probability of the likeliest sets; worst seen .009
SETS, DRAWS, NODES, FINE = 6, 1000, 15, 200
SLAB = (0.02, 15.0)  # where the slab's variance can be


def log_evidence(data, inside, rng):
    """Of a set, the slab's variance integrated out on a grid between nodes of importance sampling."""
    values, prior = slab_nodes(data, FINE)
    some = np.exp(np.linspace(*np.log(SLAB), NODES))
    use = (values >= SLAB[0]) & (values <= SLAB[1])
    at = CubicSpline(np.log(some), [integrate(data, inside, v, DRAWS, rng)[0] for v in some])
    return logsumexp(at(np.log(values[use])) + prior[inside.sum()][use])


@only_thorough
def test_the_likeliest_sets_of_school_districts():
    star = pytest.importorskip("statsmodels.api").datasets.star98.load_pandas()
    trials = np.asarray(star.endog.sum(axis=1), dtype=float)
    successes = np.asarray(star.endog.iloc[:, 0], dtype=float)
    x = np.asarray(star.exog, dtype=float)
    x = x - np.average(x, axis=0, weights=trials)
    x /= np.sqrt(np.average(x**2, axis=0, weights=trials))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = SpikeSlab(successes, x, family="binomial", trials=trials).fit("exact", rng=1)
    assert fit.converged
    best = fit.exact_sets.models[:SETS]
    sampled = np.array([one.probability for one in best])
    data, rng = Data.of(x, successes, trials), np.random.default_rng(0)
    wanted = np.array([log_evidence(data, np.isin(np.arange(x.shape[1]), one.units), rng) for one in best])
    wanted = np.exp(wanted - logsumexp(wanted))
    np.testing.assert_allclose(sampled / sampled.sum(), wanted, rtol=0, atol=SHARE)
