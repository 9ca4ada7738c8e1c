"""Credible sets, selection, pairs, draws and quantiles from the kept states."""

from itertools import product

import numpy as np
import pytest

from pybayesridge.results.selection_estimates import most_probable
from pybayesridge.selection.credible import credible_sets
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.grid import Given
from pybayesridge.selection.moments import covariance, draw, prior_share, quantiles
from pybayesridge.selection.problem import problem_of_rows
from tests.selection.oracle import log_marginal, regression

EXACT = 1e-7  # what the kept states leave out
DRAWS = 5.0  # standard errors
COVERED = 0.02  # worst seen 0.004


@pytest.fixture(scope="module")
def twins():
    X, y = regression(21, 40, 6, twins=0.02, noise=0.7)
    problem = problem_of_rows(X, y)
    return X, y, problem, enumerate_sets(problem, Given(np.full(6, 0.2), 1.0, 0.5))


def test_pairs_are_those_of_the_sum(twins):
    X, y, problem, exact = twins
    total, pairs = 0.0, np.zeros((6, 6))
    for pattern in product((False, True), repeat=6):
        inside = np.array(pattern)
        value = log_marginal(X, y, 40, inside, 2.0, 0.5)[0][0] + np.log(0.25) * inside.sum()
        total += np.exp(value + 50)
        pairs += np.exp(value + 50) * np.outer(inside, inside)
    assert np.allclose(exact.states.pair_inclusion(problem.units, np.arange(6)), pairs / total, rtol=0, atol=EXACT)


def test_two_nearly_equal_columns_are_one_set(twins):
    X, _, problem, exact = twins
    sets = credible_sets(problem, exact)
    assert sorted(sets[0].units.tolist()) == [0, 1]
    assert sets[0].probability >= 0.95
    assert np.isclose(sets[0].purity, abs(X[:, 0] @ X[:, 1]) / np.sqrt((X[:, 0] @ X[:, 0]) * (X[:, 1] @ X[:, 1])))
    one_or_other = exact.unit_prob[:2].sum() - exact.states.pair_inclusion(problem.units, np.arange(2))[0, 1]
    assert np.isclose(sets[0].probability, one_or_other, rtol=0, atol=EXACT)
    assert exact.unit_prob[:2].max() < 0.95


def test_columns_without_correlation_share_no_set(twins):
    _, _, problem, exact = twins
    assert all(s.units.size == 1 for s in credible_sets(problem, exact, min_abs_corr=0.9999))


def test_sets_are_disjoint_and_hold_what_they_promise():
    X, y = regression(22, 60, 10, size=3, noise=0.6)
    X[:, 5:] = X[:, :5] + 0.1 * np.random.default_rng(0).standard_normal((60, 5))
    problem = problem_of_rows(X, y)
    sets = credible_sets(problem, enumerate_sets(problem, Given()), coverage=0.9)
    every = np.concatenate([s.units for s in sets])
    assert every.size == np.unique(every).size
    assert len(sets) == 3
    assert all(s.probability >= 0.9 for s in sets)
    assert sorted(int(s.units[0]) % 5 for s in sets) == [0, 1, 2]


def test_selection_by_the_false_discovery_rate():
    prob = np.array([0.2, 0.99, 0.9, 0.0, 0.7])
    chosen, share = most_probable(prob, 0.1)
    assert chosen.tolist() == [1, 2]
    assert np.allclose(share, [0.01, 0.055])
    assert most_probable(prob, 0.15)[0].tolist() == [1, 2, 4]
    assert most_probable(prob * 0.1, 0.1)[0].size == 0
    assert most_probable(prob, 1.0)[0].size == 5


@pytest.mark.parametrize("known", [{"s2": 0.5, "v": 1.0}, {}])
def test_draws_have_the_moments(known):
    X, y = regression(23, 30, 5, twins=0.3)
    problem = problem_of_rows(X, y)
    exact = enumerate_sets(problem, Given(None, known.get("v"), known.get("s2")))
    drawn = draw(exact.states, 5, 20_000, np.random.default_rng(1))
    assert np.all(np.abs(drawn.coef.mean(axis=0) - exact.mean) < DRAWS * np.sqrt(exact.var / 20_000) + 0.01)
    assert np.allclose((drawn.coef != 0).mean(axis=0), exact.inclusion_prob, rtol=0, atol=0.03)
    cov = covariance(exact.states, 5)
    scale = np.sqrt(np.outer(exact.var, exact.var))
    assert np.allclose(np.cov(drawn.coef.T) / scale, cov / scale, rtol=0, atol=0.1)
    share = prior_share(exact.states, exact.grid)
    assert np.all((share > 0) & (share < 1))
    if known:
        assert np.allclose(drawn.noise_var, 0.5)
        assert np.allclose(drawn.slab_var, 1.0)


@pytest.mark.parametrize("s2", [0.5, None])
def test_quantiles_hold_their_share_of_draws(s2):
    X, y = regression(24, 12, 5, noise=1.5)
    exact = enumerate_sets(problem_of_rows(X, y), Given(np.full(5, 0.5), 1.0, s2))
    levels = np.array([0.025, 0.2, 0.5, 0.8, 0.975])
    drawn = draw(exact.states, 5, 20_000, np.random.default_rng(1)).coef
    whole = quantiles(exact.states, exact.inclusion_prob, levels)
    slab = quantiles(exact.states, exact.inclusion_prob, levels, given_inclusion=True)
    for j in range(5):
        for level, q, inner in zip(levels, whole[j], slab[j], strict=True):
            assert (drawn[:, j] < q).mean() <= level + COVERED
            assert (drawn[:, j] <= q).mean() >= level - COVERED
            inside = drawn[drawn[:, j] != 0, j]
            assert abs((inside <= inner).mean() - level) < 2 * COVERED


def test_quantiles_of_what_is_never_in():
    X, y = regression(24, 12, 4)
    exact = enumerate_sets(problem_of_rows(X, y), Given(np.array([0.5, 0.0, 0.5, 1.0]), 1.0, 1.0))
    levels = np.array([0.025, 0.975])
    assert np.array_equal(quantiles(exact.states, exact.inclusion_prob, levels)[1], [0.0, 0.0])
    assert np.isnan(quantiles(exact.states, exact.inclusion_prob, levels, given_inclusion=True)[1]).all()
