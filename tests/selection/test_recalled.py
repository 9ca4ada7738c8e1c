"""Moves to sets that were visited before: what is recalled, and that the posterior stays what it is."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from pybayesridge.data.units import units_of
from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.light import Proposals, Recalled, Sums, Walkers
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.recalled import _visited_of_few, recalled_sets
from pybayesridge.selection.traces import Trace
from tests.effort import number
from tests.selection.oracle import regression

WITHIN = 6.0  # |z| of single walks; worst seen 3.9
SHARE = 2e-3  # least standard error of a probability
EXACT = 1e-9  # worst seen 1e-13
FEW_STEPS = 4_000_000
"""Without these moves the walk below takes more than 20 times as many."""


def recalled(core, sets, log_prob, marks):
    """Sets of core units, in any order, as the walkers take them."""
    key = np.array([np.bitwise_xor.reduce(marks[list(units)]) if units else 0 for units in sets], dtype=np.uint64)
    order = np.argsort(key)
    bounds = np.concatenate([[0], np.cumsum([len(sets[i]) for i in order])])
    units = np.array([unit for i in order for unit in sorted(sets[i])])
    return Recalled(core, key[order], bounds, units, (log_prob - logsumexp(log_prob))[order])


GIVENS = {"learned": Given(), "odds": Given(np.array([0.3, 0.5, 0.2, 0.4, 0.4, 0.3, 0.2, 0.1, 0.6, 0.5, 1.0, 0.0]))}


@pytest.mark.parametrize("form", ["gram", "dual"])
@pytest.mark.parametrize("labels", [None, np.array([0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9])])
@pytest.mark.parametrize("known", GIVENS)
def test_the_posterior_stays_what_it_is(form, labels, known):
    """Some sets of some of the units, with any probabilities, beside the other moves, give the sum over all sets."""
    groups = labels is not None and known == "odds"
    given = Given(np.linspace(0.2, 0.6, 10)[labels]) if groups else GIVENS[known]
    X, y = regression(6, 14, 12, noise=0.4, size=3, twins=0.2)
    problem = replace(problem_of_rows(X, y, labels=labels), rows=X)
    wanted, grid = enumerate_sets(problem, given), grid_of(problem, given)
    n = problem.units.n
    found = Walkers(problem, grid, 16, 12, recall_every=3, swap_share=0.6)
    found._struct.dual_from = 2 if form == "dual" else 0
    even = np.ones(n) if grid.unit_odds is None else np.isfinite(grid.unit_odds).astype(float)
    found.propose(Proposals(even / even.sum(), even, even, even > 0))
    rng = np.random.default_rng(2)
    core = np.arange(n) < 5
    sets = [(), (0,), (0, 2), (1, 2), (0, 1, 2), (3,), (0, 1, 2, 3, 4), (2, 4)]
    whole = recalled(core, sets, 2.0 * rng.standard_normal((len(sets), grid.log_g.size)), found.marks)
    some = recalled(
        (np.arange(n) > 2) & (np.arange(n) < 7), [(3, 4), (5,), (), (6, 3)], rng.standard_normal(4), found.marks
    )
    few = recalled(np.arange(n) < 2, [(0,), (1,), (0, 1)], rng.standard_normal(3), found.marks)
    found.recall([whole, some, few])
    always = np.flatnonzero(np.zeros(n) if grid.unit_odds is None else grid.unit_odds == np.inf)
    prob, sizes = [], []
    for i in range(16):
        found.start(i, np.union1d(always, np.arange(i % 5)), 3, np.array([5, 2, 3, i], dtype=np.uint64))
        found.advance(i, 10, 200, Sums.empty(n, 12))
        sums = Sums.empty(n, 12)
        visits = found.advance(i, 10, number(10_000, 2500), sums)
        prob.append(np.bincount(visits.units, minlength=n) / visits.size.size)
        sizes.append(np.bincount(visits.size, minlength=wanted.size_prob.size) / visits.size.size)
    for values, truth in ((prob, wanted.unit_prob), (sizes, wanted.size_prob)):
        mean, se = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / 4.0
        assert (np.abs(mean - truth) < WITHIN * np.maximum(se, SHARE)).all()
    proposed, accepted = found.counts()[0]["recall"]
    assert proposed > accepted > 0


def test_what_is_recalled():
    """The sets of likely units that were visited, with their posterior probabilities and those of the nodes."""
    X, y = regression(3, 20, 6)
    problem = problem_of_rows(X, y)
    grid = grid_of(problem, Given())
    states = [[0, 1], [1, 0, 5], [], [2], [5], [0, 1], [3, 2]]
    sizes = [len(units) for units in states]
    trace = Trace(
        units=np.array([unit for units in states for unit in units]),
        start=np.concatenate([[0], np.cumsum(sizes)]),
        node=np.zeros(7, dtype=np.intp),
        walker=np.zeros(7, dtype=np.intp),
        key=np.arange(7, dtype=np.uint64),
    )
    marks = np.random.default_rng(0).integers(0, 2**63, 6, dtype=np.uint64)
    found, *others = recalled_sets(problem, grid, trace, np.array([0.6, 0.6, 0.4, 0.1, 0.0, 1e-4]), marks)
    assert others == []
    assert found.core.tolist() == [True] * 4 + [False] * 2
    assert (np.diff(found.key.astype(float)) > 0).all()
    sets = [found.units[a:b] for a, b in zip(found.start[:-1], found.start[1:], strict=True)]
    assert sorted(units.tolist() for units in sets) == [[], [0, 1], [2], [2, 3]]
    for units, key, own in zip(sets, found.key, found.log_prob, strict=True):
        assert key == np.bitwise_xor.reduce(marks[units])
        expected = log_joint(problem, grid, spectrum(problem, units), units)
        assert np.ptp(own - expected) < EXACT
    assert logsumexp(found.log_prob) == pytest.approx(0.0, abs=EXACT)
    assert recalled_sets(problem, grid, trace, np.zeros(6), marks) == []


def test_what_states_have_of_a_few_units_is_counted():
    """Of more lists of units than are treated at once, and of states without any unit, by hand."""
    rng, n_units = np.random.default_rng(5), 30
    sets = [np.flatnonzero(rng.random(n_units) < share) for share in rng.choice([0.0, 0.1, 0.5], 400)]
    start = np.concatenate([[0], np.cumsum([one.size for one in sets])])
    none = np.zeros(len(sets), dtype=np.intp)
    trace = Trace(np.concatenate(sets).astype(np.int32), start, none, none, none.astype(np.uint64))
    marks = rng.integers(0, 2**63, n_units, dtype=np.uint64)
    cores = [np.sort(rng.permutation(n_units)[:size]) for size in (2, 12, 3, 5, 12, 7, 4)]
    for core, found in zip(cores, _visited_of_few(trace, cores, marks), strict=True):
        count = Counter(tuple(np.intersect1d(one, core).tolist()) for one in sets)
        assert {tuple(one.tolist()): n for one, n in zip(found.sets, found.count, strict=True)} == count
        assert np.flatnonzero(found.core).tolist() == core.tolist()
        keys = [np.bitwise_xor.reduce(marks[one], initial=np.uint64(0)) for one in found.sets]
        assert found.key.tolist() == sorted(keys)
        assert found.share == pytest.approx(sum(n for n in count.values() if n > 1) / len(sets))


def test_explanations_that_have_nothing_in_common():
    """Either nothing matters or four columns together do: walks go from one to the other and back."""
    rng = np.random.default_rng([2011, 0])
    w = rng.standard_normal(25) * (rng.random(25) < 0.2)
    X = rng.standard_normal((1010, 25))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True))[:10]
    y = X @ w + 0.005 * rng.standard_normal(1010)[:10]
    X, y = X - X.mean(axis=0), y - y.mean()
    found = fit_exact(problem_of_rows(X / X.std(axis=0), y, nu=9), Given(), maxiter=FEW_STEPS)
    assert found.converged
    assert found.size_prob[0] > 0.1
    assert found.size_prob[4] > 0.3


def test_units_of_many_columns_that_do_not_fit():
    """Sets that would have more columns than are considered are not recalled."""
    problem = problem_of_rows(*regression(3, 20, 6))
    problem = replace(problem, units=units_of(6, np.array([0, 0, 0, 0, 1, 2])))
    grid = grid_of(problem, Given())
    found = Walkers(problem, grid, 1, 2, recall_every=3)
    found.recall([recalled(np.ones(3, dtype=bool), [(), (0,), (1,)], np.zeros((3, grid.log_g.size)), found.marks)])
    found.start(0, np.zeros(0, dtype=np.intp), 3, np.array([1, 2, 3, 4], dtype=np.uint64))
    visits = found.advance(0, 3, 200, Sums.empty(3, 6))
    assert visits.size.max() <= 2
    assert 0 not in visits.units
    assert 1 in visits.units
    assert found.counts()[1]
