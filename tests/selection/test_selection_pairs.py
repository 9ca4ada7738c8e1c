"""Inclusion probabilities given all columns but a pair, beside the four sets one by one."""

import numpy as np
import pytest

from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.odds import log_odds, new_chains
from pybayesridge.selection.pairs import correlated_pairs, pair_probabilities
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.sampler import sample_sets
from pybayesridge.selection.starts import starting_sets
from tests.selection.oracle import regression

EQUAL = 1e-9  # worst seen 1e-13

SETS = ([], [0], [1], [0, 1], [3, 1, 5], [6, 0, 2], [0, 4, 1, 7])
"""With neither, one and both of the columns of a pair, which are 0 and 1."""

KNOWN = [
    Given(),
    Given(np.linspace(0.1, 0.6, 8), 0.8, 1.2),
    Given(None, 0.5, None),
    Given(np.linspace(0.1, 0.6, 8)),
]


def problem(twins=0.3):
    X, y = regression(11, 25, 8, twins=twins)
    X[:, 5] = X[:, 4] + 0.4 * X[:, 5]
    return problem_of_rows(X, y)


@pytest.mark.parametrize("given", KNOWN)
def test_probabilities_of_pairs_are_those_of_four_sets(given):
    data = problem()
    grid = grid_of(data, given)
    chains = new_chains(data, grid, len(SETS), 8)
    # Rows of other sets stay behind where a set was larger before.
    for c in range(len(SETS)):
        chains.factors.rebuild(c, spectrum(data, np.arange(6)), 1.0)
    for c, inside in enumerate(SETS):
        chains.node[c] = grid.log_g.size // 2 + (c if grid.log_g.size > 1 else 0)
        chains.factors.rebuild(c, spectrum(data, np.array(inside, dtype=np.intp)), grid.k[chains.node[c]])
        chains.state[c, inside] = True
        chains.n_in[c] = len(inside)
    pairs = correlated_pairs(data, np.full(8, 0.4))
    assert [{j, k} for j, k in zip(pairs.column.tolist(), pairs.partner.tolist(), strict=True)] == [{0, 1}, {4, 5}]
    found = pair_probabilities(chains, pairs, log_odds(chains).value)
    for c, inside in enumerate(SETS):
        partners = np.concatenate([pairs.partner, pairs.column])
        for i, (j, k) in enumerate(zip(pairs.all.tolist(), partners.tolist(), strict=True)):
            rest = sorted(set(inside) - {j, k})
            values = []
            for extra in ([], [k], [j], [j, k]):
                units = np.array(sorted(rest + extra), dtype=np.intp)
                values.append(log_joint(data, grid, spectrum(data, units), units)[chains.node[c]])
            weight = np.exp(np.array(values) - max(values))
            assert found[c, i] == pytest.approx(weight[2:].sum() / weight.sum(), abs=EQUAL)


def test_columns_without_a_partner_are_in_no_pair():
    data = problem()
    assert correlated_pairs(problem_of_rows(np.eye(8), np.ones(8)), np.full(8, 0.4)) is None
    assert correlated_pairs(data, np.zeros(8)) is None
    prob = np.array([0.5, 0.0, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5])
    pairs = correlated_pairs(data, prob)
    assert pairs is None or not {1, 5} & set(pairs.all.tolist())


def test_pairs_make_errors_smaller_and_stay_right(monkeypatch):
    data, given = problem(twins=0.02), Given(np.full(8, 0.25), 0.8, 1.2)
    grid, exact = grid_of(data, given), enumerate_sets(data, given).unit_prob
    errors = []
    for paired in (True, False):
        if not paired:
            monkeypatch.setattr("pybayesridge.selection.sampler.correlated_pairs", lambda problem, prob: None)
        rng = np.random.default_rng(1)
        run = sample_sets(data, grid, starting_sets(data, grid, 4, rng), rng=rng, mcse=0.0, maxiter=6_000)
        assert (np.abs(run.estimate.prob - exact) < 4 * run.estimate.se).all()
        errors.append(run.estimate.se[:2].max())
    assert errors[0] < 0.6 * errors[1]
