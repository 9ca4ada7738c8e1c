"""What sets that were not visited can add to errors: neighbours beside what is computed from scratch, and sums."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from pybayesridge.data.units import units_of
from pybayesridge.selection.collapsed import left_over, log_joint, log_joints_by_size, spectra_by_size, spectrum
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.estimates import Tallies, estimate, with_unseen
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.states import mean_noise
from pybayesridge.selection.traces import Trace, evidence
from pybayesridge.selection.unseen import ENOUGH, UNKNOWN, Neighbours, Unseen, _of_nodes, _of_other_sets, unseen
from tests.selection.oracle import regression

EXACT = 1e-9  # relative, of what is computed twice; worst seen 2e-13
BY_SUM = 1e-3  # relative, of sums over nodes: the visits are rounded
WITHIN = 6.0
DRAWS = 1e4

GIVEN = [Given(), Given(np.array([0.3, 0.3, 0.2, 0.2, 0.01, 0.6]), 0.8, 1.2), Given(None, 0.5, None)]
LABELS = np.array([0, 0, 1, 1, 2, 3])


def make(labels=None, **options):
    X, y = regression(11, 20, 6, **{"noise": 1.0, "size": 2} | options)
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    return problem_of_rows(X, y, labels=labels)


def scratch(problem, grid, units, node):
    """Log p(y, A, node), and the moments of the coefficients, by eigenvalues."""
    part = spectrum(problem, problem.units.columns(units))
    values = part.values + grid.k[node]
    left = left_over(problem, part, grid.k[node : node + 1])
    noise = mean_noise(left, problem.nu)[0] if grid.noise_var is None else grid.noise_var[node]
    coef = part.vectors @ (part.cross / values)
    return log_joint(problem, grid, part, units)[node], coef, noise * ((part.vectors**2) @ (1.0 / values))


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("labels", [None, LABELS])
def test_sets_at_once_are_those_one_by_one(labels, given):
    """Sets of any sizes, the empty one too: diagonalised and factorised together, in the order that was asked for."""
    problem = make(labels)
    if labels is not None:
        given = replace(given, prior_inclusion=None)
    grid, n = grid_of(problem, given), problem.units.n
    sets = [np.flatnonzero(code >> np.arange(n) & 1) for code in (5, 0, 3, 2**n - 1, 6, 1)]
    nodes = [i % grid.log_g.size for i in range(len(sets))]
    parts = spectra_by_size(problem, [problem.units.columns(units) for units in sets])
    found = np.empty((len(sets), grid.log_g.size))
    for some, joint, _ in log_joints_by_size(problem, grid, parts, sets):
        found[some] = joint
    for i, (one, node) in enumerate(zip(Neighbours(problem, grid).at_each(sets, nodes), nodes, strict=True)):
        joint = log_joint(problem, grid, spectrum(problem, problem.units.columns(sets[i])), sets[i])
        assert np.allclose(found[i], joint, rtol=EXACT, atol=EXACT)
        _, coef, var = scratch(problem, grid, sets[i], node)
        assert np.array_equal(one.units, sets[i])
        assert one.log_joint - joint[node] == pytest.approx(empty_gap(problem, grid, node), rel=EXACT, abs=EXACT)
        assert np.allclose(one.coef, coef, rtol=EXACT, atol=EXACT)
        noise = Neighbours(problem, grid).noise(np.array([one.left]), node)
        assert np.allclose(np.diagonal(one.inverse) * noise, var, rtol=EXACT, atol=EXACT)


def empty_gap(problem, grid, node):
    """By how much densities of sets at nodes differ from others: the constant that these leave out."""
    nothing = np.zeros(0, dtype=np.intp)
    return Neighbours(problem, grid).at(nothing, node).log_joint - scratch(problem, grid, nothing, node)[0]


def trace_of(sets, node, walkers=4):
    """Walkers that all visit the same sets, one after the other."""
    sets = list(sets) * walkers
    size = np.array([len(one) for one in sets])
    return Trace(
        np.concatenate([np.array(one, dtype=np.intp) for one in sets]),
        np.concatenate([[0], np.cumsum(size)]),
        np.full(len(sets), node),
        np.repeat(np.arange(walkers), len(sets) // walkers),
        np.array([hash(tuple(one)) % 2**60 for one in sets], dtype=np.uint64),
    )


@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize("known", range(3))
def test_neighbours_are_what_they_are_from_scratch(known, labels):
    problem, given = make(labels), GIVEN[known]
    grid = grid_of(problem, given)
    node, next_to, count = grid.log_g.size // 2, Neighbours(problem, grid), problem.units.n
    for units in (np.array([], dtype=np.intp), np.array([0, 2]), np.arange(count - 1)):
        one = next_to.at(units, node)
        value, coef, var = scratch(problem, grid, units, node)
        assert np.allclose(one.coef, coef, rtol=EXACT)
        products, found = problem.stacked(one.columns), []
        for born in next_to.births(one, products):
            for i, unit in enumerate(born.units.tolist()):
                after, coef, var = scratch(problem, grid, np.append(units, unit), node)
                m = one.columns.size
                assert born.log_joint[i] - one.log_joint == pytest.approx(after - value, rel=EXACT, abs=EXACT)
                assert np.allclose(np.append(born.coef[:, i], born.own_coef[i]), coef, rtol=EXACT, atol=EXACT)
                assert np.allclose(np.append(born.var[:, i], born.own_var[i]), var, rtol=EXACT)
                assert m + born.columns.shape[1] == coef.size
                found.append(unit)
            if born.columns.shape[1] == 1:
                pairs = next_to.pairs(one, born, products, np.arange(born.units.size))
                check_pairs(problem, grid, one, born, pairs)
                first = np.arange(born.units.size)[1::2]
                for all_rows, rows in zip(pairs, next_to.pairs(one, born, products, first), strict=True):
                    assert np.allclose(rows, all_rows[first], rtol=EXACT, atol=EXACT)
        assert sorted(found) == np.setdiff1d(np.arange(count), units).tolist()


def check_pairs(problem, grid, one, born, pairs):
    inside, coef, var = pairs
    for i, first in enumerate(born.units.tolist()):
        base = one.units if born.units.size == 0 else np.append(one.units, first)
        for j, second in enumerate(born.units.tolist()):
            before = one.units if i == j else base
            value = scratch(problem, grid, before, one.node)[0]
            after, both, spread = scratch(problem, grid, np.append(before, second), one.node)
            assert inside[i, j] == pytest.approx(expit(after - value), rel=EXACT)
            assert coef[i, j] == pytest.approx(both[-1], rel=EXACT, abs=EXACT)
            assert var[i, j] == pytest.approx(spread[-1], rel=EXACT)


def of_states(problem, grid, sets, node):
    """Means, mean squares and inclusion probabilities by some sets alone."""
    logs, mean, square = [], np.zeros((len(sets), problem.d)), np.zeros((len(sets), problem.d))
    inside = np.zeros((len(sets), problem.units.n))
    for i, one in enumerate(sets):
        units = np.array(one, dtype=np.intp)
        value, coef, var = scratch(problem, grid, units, node)
        columns = problem.units.columns(units)
        logs.append(value)
        mean[i, columns], square[i, columns], inside[i, units] = coef, coef**2 + var, 1.0
    weight = np.exp(np.array(logs) - logsumexp(logs))
    return weight @ mean, weight @ square, weight @ inside


def test_copies_that_are_hardly_ever_both_in():
    """Both in have a probability of 7e-7, and nearly all of the variance of each."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 3))
    X[:, 1] = X[:, 0]
    y = X[:, 0] + 1e-3 * rng.standard_normal(30)
    problem = problem_of_rows(X, y)
    given = Given(np.array([1.0, 1e-6, 1e-6]), 1.0, 1e-6)
    grid, exact = grid_of(problem, given), enumerate_sets(problem, given)
    visited = [(0,)]
    mean, square, prob = of_states(problem, grid, visited, 0)
    found = unseen(problem, grid, trace_of(visited, 0), prob, mean, square - mean**2, DRAWS)
    beyond = np.sqrt(square - mean**2 + found.square) - np.sqrt(square - mean**2)
    gap = np.sqrt(exact.var) - np.sqrt(square - mean**2)
    assert gap[0] > 3 * np.sqrt(square - mean**2)[0]
    # By the neighbours alone.
    assert beyond[0] == pytest.approx(gap[0], rel=0.01)
    # All that is known of columns that were never in is the slab: more than there is.
    assert (found.square[1:] >= (1.0 - EXACT) * UNKNOWN / DRAWS).all()
    assert np.abs(found.mean[0] - np.abs(exact.mean - mean)[0]) < 0.1 * found.mean[0]


def test_what_takes_the_place_of_a_column():
    """A column that was in all states, and another one that is as good with a probability of 1e-5."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 4))
    X[:, 1] = X[:, 0] + 0.02 * X[:, 1]
    problem = problem_of_rows(X, 3.0 * X[:, 0] + 0.3 * rng.standard_normal(40))
    given = Given(np.array([0.5, 1e-5, 0.01, 0.01]), 1.0, 0.09)
    grid, exact = grid_of(problem, given), enumerate_sets(problem, given)
    visited = [(0,)]
    mean, square, _ = of_states(problem, grid, visited, 0)
    # As passes say: without the other column the first is certain, and the other is as probable as both.
    alone, both = (scratch(problem, grid, np.array(units), 0)[0] for units in ((0,), (0, 1)))
    prob = np.array([1.0, expit(both - alone), *exact.unit_prob[2:]])
    gap = np.abs(exact.unit_prob - prob)[:2]
    assert (gap > 1e-6).all()
    found = unseen(problem, grid, trace_of(visited, 0), prob, mean, square - mean**2, DRAWS)
    by_neighbours = np.sqrt(found.prob**2 - _of_other_sets(prob, DRAWS) ** 2)
    assert np.allclose(by_neighbours[:2], gap, rtol=0.1)
    much = unseen(problem, grid, trace_of(visited, 0), prob, mean, square - mean**2, 1e12)
    assert np.allclose(much.prob, 0.0, atol=1e-11)


def test_what_is_seen_often_adds_nothing():
    """All sets were visited by what the walks are worth: errors are those between walkers."""
    problem = make()
    given = Given(np.full(6, 0.4), 0.8, 1.2)
    grid = grid_of(problem, given)
    mean, square, prob = of_states(problem, grid, [(0,), (1,), (0, 3), (1, 3), ()], 0)
    found = unseen(problem, grid, trace_of([(0,), (1,), (0, 3), (1, 3), ()], 0), prob, mean, square - mean**2, 1e9)
    sd = np.sqrt(square - mean**2)[[0, 1, 3]]
    assert (found.mean[[0, 1, 3]] < 1e-3 * sd).all()
    assert (found.prob <= 1.01e-9).all()


def test_sets_far_from_what_was_visited_may_lack_any_unit():
    """All walkers have the same two columns in, and a pass says that these are certain."""
    problem = make()
    given = Given(np.array([0.5, 0.5, 0.5, 0.5, 0.0, 1.0]), 0.8, 1.2)
    prob = np.array([1.0 - 1e-15, 1e-15, 0.5, 0.004, 0.0, 1.0])
    found = unseen(problem, grid_of(problem, given), trace_of([(0, 5)], 0), prob, np.zeros(6), np.ones(6), DRAWS)
    assert found.prob[0] >= 1 / DRAWS
    assert found.prob[1] > 1e-6
    assert found.prob[3] >= 1 / DRAWS
    assert (found.prob[4:] == 0).all()


def test_errors_with_what_was_not_seen():
    tallies = Tallies(4, units_of(3, np.array([0, 0, 1, 2])), 1)
    for i, sums in enumerate(tallies.new_stretch()):
        sums.passes, sums.weight[:] = 100, 100.0
        sums.prob += 100 * np.array([0.5 + 0.01 * i, 1e-4, 1.0])
        sums.mean += 100.0 * np.arange(5)
        sums.square += 100.0 * (np.arange(5) ** 2 + 4.0)
        sums.others += 1.0
    seen = estimate(tallies, 16, np.array([0, 2]), 1.0)
    assert (seen.se[1:] == 0).all()
    beyond = Unseen(np.array([0.1, 0.0, 0.0, 0.0]), np.array([5.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.01, 0.0]))
    found = with_unseen(seen, beyond, tallies.units)
    assert np.array_equal(found.se, np.hypot(seen.se, beyond.prob))
    assert found.errors.mean.tolist() == [0.1, 0.0, 0.0, 0.0, 0.0]
    assert found.errors.sd.tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0])  # from 2 to 3
    assert found.errors.size == max(seen.errors.size, 0.01)
    with np.errstate(invalid="ignore"):
        endless = with_unseen(replace(seen, var=np.full(5, np.inf)), beyond, tallies.units)
    assert np.array_equal(endless.errors.sd, seen.errors.sd)


def test_sets_that_no_walker_left_leave_the_evidence_uncertain():
    problem, given = make(), Given(np.full(6, 1e-3), 0.8, 1.2)
    grid = grid_of(problem, given)
    value, se = evidence(problem, grid, trace_of([(0,)], 0, walkers=40))
    assert se == pytest.approx(np.sqrt(0.5) / 20)
    assert value < enumerate_sets(problem, given).log_evidence


@pytest.mark.parametrize("n", [2, 3])
def test_variances_that_are_infinite_have_no_error(n):
    """With two degrees of freedom or fewer."""
    rng = np.random.default_rng(n)
    problem = problem_of_rows(rng.standard_normal((n, 4)), rng.standard_normal(n), nu=2.0)
    found = fit_exact(problem, Given(np.full(4, 0.3), 1.0), method="sampler", mcse=0.05, maxiter=100_000)
    assert np.isfinite(found.unit_se).all()
    assert not np.isnan(found.errors.sd).any()
    assert not np.isnan(found.errors.mean).any()


def test_nodes_that_were_hardly_seen():
    """One set is possible; each node of log g has a known probability, and is a ridge."""
    problem = make()
    given = Given(np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0]), None, None)
    exact = enumerate_sets(problem, given)
    grid = exact.grid
    share, columns = exact.node_prob, np.array([0, 2])
    coef, square, noise = np.zeros((share.size, 2)), np.zeros((share.size, 2)), np.zeros(share.size)
    for i, k in enumerate(grid.k):
        inverse = np.linalg.inv(problem.block(columns) + k * np.eye(2))
        coef[i] = inverse @ problem.cross[columns]
        noise[i] = (problem.yy - problem.cross[columns] @ coef[i]) / (problem.nu - 2.0)
        square[i] = (coef[i] - exact.mean[columns]) ** 2 + noise[i] * np.diagonal(inverse)
    gap = np.column_stack([coef - exact.mean[columns], square - share @ square, grid.log_g - share @ grid.log_g])
    never, seldom = share < 1 / DRAWS, (share >= 1 / DRAWS) & (share < ENOUGH / DRAWS)
    assert never.any()
    assert seldom.any()
    of_never = share[never] @ gap[never] / np.sqrt(max(DRAWS * share[never].sum(), 1.0))
    expected = np.sqrt(of_never**2 + share[seldom] / DRAWS @ gap[seldom] ** 2)
    visited = np.repeat(np.arange(share.size), np.round(1e6 * share).astype(int))
    found = _of_nodes(Neighbours(problem, grid), [(columns, 1.0)], visited, exact.mean, DRAWS)
    own = np.concatenate([found.mean[columns], found.square[columns], [found.log_g]])
    assert own == pytest.approx(expected, rel=BY_SUM)
    assert not np.delete(found.mean, columns).any()
    assert 0 < found.noise_var < noise.max()
    every = _of_nodes(Neighbours(problem, grid), [(columns, 1.0)], visited, exact.mean, 1e300)
    assert not every.mean.any()
