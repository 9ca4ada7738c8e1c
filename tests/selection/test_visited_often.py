"""Far larger sets are visited more often than they are likely, and averages are those of the posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pybayesridge.selection import sampler
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.light import Sums, Visits, Walkers, log_sets
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.renewed import shares_of_sizes, step_work
from pybayesridge.selection.sampler import HOPELESS, LISTED_WORK, Walk, proposals
from pybayesridge.selection.starts import Start
from pybayesridge.selection.traces import Recorder
from tests.effort import number

WITHIN = 4.5
"""Standard errors."""

SHARE = 1e-4
"""Probabilities whose standard error is smaller are not resolved."""

WALKERS = 16

HELD = 1e-12
"""Relative difference of what is held of a set from what its columns give."""


def noise(n, d):
    rng = np.random.default_rng([n, d])
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    return problem_of_rows(X - X.mean(axis=0), y - y.mean(), nu=n - 1, labels=np.arange(d) // 2 if n == 21 else None)


@pytest.mark.parametrize("rows", [20, 21, 5])
def test_weighted_averages_are_those_of_all_sets(rows):
    """Columns, groups of two, and more columns than rows, whose sets are held by their rows."""
    problem = noise(rows, 10)
    grid = grid_of(problem, Given())
    n, wanted = problem.units.n, enumerate_sets(problem, Given())
    found = Walkers(problem, grid, WALKERS, problem.d)
    found.visit_often(0.5)
    prob, absent, mean, sizes, log_g = [], [], [], [], []
    for i in range(WALKERS):
        found.start(i, np.arange(i % 4), 3, np.array([7, 2, 3, i], dtype=np.uint64))
        found.advance(i, 10, 200, Sums.empty(n, 10))
        sums = Sums.empty(n, 10)
        visits = found.advance(i, 10, number(8000, 1500), sums)
        weight = found.weight_of(visits.size)
        assert sums.weight == pytest.approx([weight.sum()] * 2, rel=1e-9)
        assert weight.min() < 0.3
        prob.append(sums.prob / sums.weight[1])
        absent.append(sums.absent / sums.weight[1])
        mean.append(sums.mean / sums.weight[1])
        sizes.append(np.bincount(visits.size, weight, minlength=n + 1) / weight.sum())
        log_g.append([weight @ grid.log_g[visits.node] / weight.sum(), sums.others[1] / sums.weight[0]])
    sized = np.zeros(n + 1)
    sized[: wanted.size_prob.size] = wanted.size_prob
    for values, truth in (
        (prob, wanted.unit_prob),
        (absent, 1 - wanted.unit_prob),
        (mean, wanted.mean),
        (sizes, sized),
        (log_g, wanted.node_prob @ wanted.grid.log_g),
    ):
        se = np.std(values, axis=0, ddof=1) / np.sqrt(WALKERS)
        assert (np.abs(np.mean(values, axis=0) - truth) < WITHIN * np.maximum(se, SHARE)).all()


def visits_of(sizes):
    size = np.array(sizes, dtype=np.int32)
    units = np.concatenate([np.arange(one) for one in sizes]).astype(np.int32)
    return Visits(units, size, size * 10, size.astype(np.uint64))


def test_states_that_are_not_kept_count_as_passes():
    recorder = Recorder(1)
    recorder.add(0, visits_of([1, 2, 3, 4]), np.array([True, False, True, True]))
    recorder.add(0, visits_of([5, 6]), np.array([False, True]))
    assert recorder.after(0).sizes.tolist() == [1, 3, 4, 6]
    assert recorder.after(3).sizes.tolist() == [4, 6]
    assert recorder.after(3).node.tolist() == [40, 60]
    recorder.every = 2
    recorder.add(0, visits_of([7, 8, 9]), np.array([True, True, False]))
    assert recorder.after(0).sizes.tolist() == [1, 3, 4, 6, 7]


@pytest.mark.parametrize("d", [300, 600])
def test_walkers_in_large_sets_of_many_columns_stay(d):
    """Each of so many sizes and values of g has little of the posterior, and is visited nevertheless."""
    problem, rng = noise(30, d), np.random.default_rng(1)
    grid = grid_of(problem, Given())
    nodes = grid.log_g.size
    walk = Walk(problem, grid, [Start(np.arange(i), 3, "given") for i in range(4)], rng, problem.d, None)
    walk.adapt(200_000)
    assert walk.walkers.weight_of(np.array([d]))[0] < 0.5
    units = np.sort(rng.choice(d, 3 * d // 4, replace=False))
    below = np.empty(nodes)
    moved = np.zeros(nodes, dtype=bool)
    for node in range(nodes):
        for i in range(1, 4):
            walk.walkers.start(i, np.arange(0), nodes // 2, None)
        walk.walkers.start(0, units, node, None)
        at, best = (walk._log_joint(*walk.walkers.state(i)) for i in (0, 1))
        below[node] = best - at - log_sets(d, np.array([3 * d // 4]))[0]
        moved[node] = walk._leave()
    allowed = np.log(d * nodes)
    assert ((below > HOPELESS) & (below < HOPELESS + allowed)).any()
    np.testing.assert_array_equal(moved, below > HOPELESS + allowed)


def test_large_sets_are_held_as_they_are():
    """After moves of hundreds of columns at once, what is held of a set is what its columns give."""
    problem = noise(20, 700)
    grid = grid_of(problem, Given())
    found = Walkers(problem, grid, 2, problem.d)
    found.visit_often(0.5)
    for i in range(2):
        found.start(i, np.arange(400), 3, np.array([5, 2, 3, i], dtype=np.uint64))
        sizes = found.advance(i, 50, 60, Sums.empty(700, 700)).size
        units, node, (left, log_det, drift, by_rows) = found.state(i)
        part = problem.rows[:, units]
        outer = np.eye(20) + part @ part.T / grid.k[node]
        assert sizes.max() - sizes.min() > 64
        assert by_rows or units.size <= 20
        wanted = np.linalg.slogdet(outer)[1] + units.size * np.log(grid.k[node])
        assert log_det == pytest.approx(wanted, rel=HELD)
        assert left == pytest.approx(problem.target @ np.linalg.solve(outer, problem.target), rel=HELD)
        assert drift < HELD


def test_sets_by_chance_set_how_often_large_ones_are_visited(monkeypatch):
    """Without signal nearly all is by chance, and steps in large sets take longest."""
    monkeypatch.setattr(sampler, "EASILY_RENEWED", 0.1)
    problem, rng = noise(30, 600), np.random.default_rng(1)
    grid = grid_of(problem, Given())
    walk = Walk(problem, grid, [Start(np.arange(i), 3, "given") for i in range(4)], rng, problem.d, None)
    walk.adapt(200_000)
    assert walk.easily
    mean = shares_of_sizes(walk.renewed) @ walk.renewed.sizes
    longer = step_work(problem, 30.0) / step_work(problem, mean)
    first = 2.0 * mean * longer
    assert walk.walkers.weight_of(np.array([599]))[0] == pytest.approx((first + 1.0) / 600.0)


def test_few_columns_are_exchanged_for_correlated_ones_where_there_are_many():
    n, d = 10, 3000
    problem = noise(n, d)
    assert problem.gram is None
    prob = np.linspace(0.5, 0.9, d)
    assert proposals(problem, grid_of(problem, Given()), prob).listed.all()
    problem = replace(problem, n=1e6)
    listed = proposals(problem, grid_of(problem, Given()), prob).listed
    np.testing.assert_array_equal(np.flatnonzero(listed), np.arange(d - int(LISTED_WORK // (d * 1e6)), d))
