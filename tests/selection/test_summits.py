"""Sets that lie apart: what is found of them, that walks go to them, and what they add to errors if they do not."""

import numpy as np
import pytest
from scipy.special import logsumexp

from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.recalled import _Visited, _with_others
from pybayesridge.selection.summits import MOST_FREE, _ascended, summits, with_pairs
from pybayesridge.selection.unseen import Neighbours, _of_sets
from tests.fuzz.sets import compare_sets, make_sets
from tests.selection.oracle import regression

EXACT = 1e-8  # of what is computed twice; worst seen 1e-11
SEED = 20240607
LABELS = np.array([0, 0, 1, 2, 2, 3, 4, 5])
GIVEN = [Given(), Given(np.array([0.3, 0.3, 0.2, 0.6, 0.6, 0.01, 1.0, 0.0]), 0.8, 0.1), Given(None, 2.0, None)]


def value_of(problem, grid, units):
    """Log p(y, A, node) at the likeliest node, and that node."""
    table = log_joint(problem, grid, spectrum(problem, problem.units.columns(units)), units)
    return float(table.max()), int(np.argmax(table))


def make(labels=None):
    X, y = regression(5, 12, 8, noise=0.2, size=4, twins=0.2)
    return problem_of_rows(X, y, labels=labels)


@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize("given", GIVEN)
def test_paths_end_where_no_unit_makes_a_set_better(labels, given):
    problem = make(labels)
    grid = grid_of(problem, given)
    for start in range(4):
        units = np.union1d(grid.always, grid.free[: 2 * start]).astype(np.intp)
        before = value_of(problem, grid, units)[0]
        units = _ascended(Neighbours(problem, grid), units, 8)
        value, node = value_of(problem, grid, units)
        assert value >= before - EXACT
        for unit in grid.free:
            other = np.setxor1d(units, [unit])
            part = spectrum(problem, problem.units.columns(other))
            assert log_joint(problem, grid, part, other)[node] <= value + EXACT


@pytest.mark.parametrize("given", GIVEN)
def test_paths_at_a_node(given):
    problem = make()
    grid = grid_of(problem, given)
    for node in (0, grid.log_g.size - 1):
        units = _ascended(Neighbours(problem, grid), grid.always, 8, node)
        values = []
        for unit in [None, *grid.free]:
            other = units if unit is None else np.setxor1d(units, [unit]).astype(np.intp)
            values.append(log_joint(problem, grid, spectrum(problem, problem.units.columns(other)), other)[node])
        assert max(values) <= values[0] + EXACT


def test_much_noise_and_no_column_or_little_noise_and_two():
    """With the variance of the slab given: no set alone is better than all that differ from it in one column."""
    fit = make_sets(SEED, 557).fit(by_sampler=False)
    found = summits(fit.exact_posterior.problem(), fit.exact_sets.grid, 7)
    assert any(units.size == 0 for units in found)
    assert any(units.tolist() == [0, 6] for units in found)


@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize("given", GIVEN)
def test_sets_without_one_unit(labels, given):
    problem = make(labels)
    grid = grid_of(problem, given)
    next_to, node = Neighbours(problem, grid), grid.log_g.size // 2
    units = np.union1d(grid.always, grid.free[:4]).astype(np.intp)
    found = next_to.deaths(next_to.at(units, node))
    here = log_joint(problem, grid, spectrum(problem, problem.units.columns(units)), units)[node]
    start = next_to.at(units, node).log_joint
    for unit, value in zip(units.tolist(), found, strict=True):
        if unit in grid.always:
            assert value == -np.inf
            continue
        other = units[units != unit]
        there = log_joint(problem, grid, spectrum(problem, problem.units.columns(other)), other)[node]
        assert value - start == pytest.approx(there - here, abs=EXACT)


def test_small_sets_and_many_units():
    problem = make()
    grid = grid_of(problem, Given())
    assert all(units.size <= 2 for units in summits(problem, grid, 2))
    found = with_pairs(problem, grid, summits(problem, grid, 8), 8)
    assert len({units.tobytes() for units in found}) == len(found)
    X, y = regression(5, 12, MOST_FREE + 1)
    many = problem_of_rows(X, y)
    assert summits(many, grid_of(many, Given()), 12) == []


def test_others_join_what_is_recalled():
    marks = np.array([5, 9, 17], dtype=np.uint64)
    core = np.ones(3, dtype=bool)
    empty, first, last = (np.array(units, dtype=np.intp) for units in ([], [0], [1, 2]))
    visited = _Visited(core, np.array([0, 5], dtype=np.uint64), [empty, first], np.array([7, 2]), 0.9)
    found = _with_others(visited, [empty, last], marks)
    assert found.key.tolist() == [0, 5, 9 ^ 17]
    assert [units.tolist() for units in found.sets] == [[], [0], [1, 2]]
    assert found.count.tolist() == [7, 2, 0]
    assert _with_others(visited, [], marks).key.tolist() == [0, 5]


def test_what_sets_apart_add_to_errors():
    """One draw is to show them once in a hundred times: what they add is what they make of the sum over all sets."""
    problem = make()
    given = Given(np.full(8, 0.2), 1.0, 0.3)
    grid, exact = grid_of(problem, given), enumerate_sets(problem, given)
    units = np.array([1, 4, 7])
    table = log_joint(problem, grid, spectrum(problem, units), units)
    share = float(np.exp(logsumexp(table) - exact.log_evidence))
    one = Neighbours(problem, grid).at(units, 0)
    coef = np.zeros(8)
    coef[units] = one.coef
    for expected, scale in ((0.01, 1.0), (4.0, 0.5)):
        found = _of_sets(
            Neighbours(problem, grid), [units], exact.log_evidence, exact.unit_prob, exact.mean, expected / share
        )
        assert np.allclose(found.mean, scale * share * np.abs(coef - exact.mean), rtol=EXACT)
        inside = np.isin(np.arange(8), units)
        assert np.allclose(found.prob, scale * share * np.abs(inside - exact.unit_prob), rtol=EXACT)
        square = (coef - exact.mean) ** 2
        square[units] += np.diagonal(one.inverse) * 0.3
        assert np.allclose(found.square, scale * share * square, rtol=EXACT)
    often = _of_sets(
        Neighbours(problem, grid), [units], exact.log_evidence, exact.unit_prob, exact.mean, 100.0 / share
    )
    assert not often.mean.any()


@pytest.mark.parametrize("number", [621, 997])
def test_isolated_sets_of_small_probability(number):
    """Sets with probabilities of 1e-5 to 1e-3 that walks do not come to: numbers are right within their errors."""
    assert not compare_sets(make_sets(SEED, number)).faults


def test_sets_that_fit_all_other_rows_exactly():
    """At next to no noise rounding errors outweigh their weights without a row: it is named, or they do not count."""
    assert not compare_sets(make_sets(SEED, 651)).faults


@pytest.mark.parametrize("number", [169, 566])
def test_isolated_sets_that_are_hardly_ever_visited(number):
    """With a probability of 1e-6 to 1e-4 they make most of the standard deviations: right within their errors."""
    faults = compare_sets(make_sets(SEED, number)).faults
    assert {fault.quantity for fault in faults} <= {"loo"}
