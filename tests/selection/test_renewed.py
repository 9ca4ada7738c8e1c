"""Moves to sets that have nothing to do with the present one: the posterior stays, and large sets get their share."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.light import Proposals, Renewed, Sums, Walkers
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.renewed import can_renew, renewal_work, renewed_sets
from tests.effort import number
from tests.selection.oracle import regression

WITHIN = 6.0  # |z| of single walks; worst seen 3.2
SHARE = 2e-3  # least standard error of a probability
NATS = 0.8  # of the share of large sets, of one fit; worst seen 0.3, and without these moves 2.5 or none at all
EXACT = 1e-9  # of a sum of probabilities; worst seen 1e-13
NODES = 0.05  # nats between nodes, by interpolation; worst seen 0.01
LABELS = np.array([0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9])


def any_renewed(loose, sizes, nodes, rng):
    """Any distribution of the number of units and the node."""
    n = np.count_nonzero(loose)
    size = np.arange(sizes)
    log_prob = rng.standard_normal((sizes, nodes))
    log_prob -= logsumexp(log_prob)
    return Renewed(loose, log_prob - (gammaln(n + 1) - gammaln(size + 1) - gammaln(n - size + 1))[:, None])


@pytest.mark.parametrize("form", ["gram", "both", "dual"])
@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize("given", [Given(), Given(None, None, 0.2)])
def test_the_posterior_stays_what_it_is(form, labels, given):
    """Any numbers of some of the units, beside the other moves, give the sum over all sets."""
    X, y = regression(6, 8, 12, noise=0.4, size=3, twins=0.2)
    problem = replace(problem_of_rows(X, y, labels=labels), rows=X)
    wanted, grid = enumerate_sets(problem, given), grid_of(problem, given)
    n = problem.units.n
    found = Walkers(problem, grid, 16, 12, swap_share=0.6)
    found._struct.dual_from = {"gram": 0, "both": 6, "dual": 2}[form]
    found.propose(Proposals(np.full(n, 1.0 / n), np.ones(n), np.ones(n), np.ones(n, dtype=bool)))
    found.renew(any_renewed(np.arange(n) != 1, n - 2, grid.log_g.size, np.random.default_rng(3)), every=4)
    check_posterior(found, wanted)


@pytest.mark.parametrize("rows", [5, 4])
def test_these_moves_alone_know_sets_of_more_columns_than_rows(rows):
    """Such sets are evaluated by their rows; nine of twelve columns are expected."""
    X, y = regression(6, rows, 12, noise=0.4, size=3)
    problem, given = replace(problem_of_rows(X, y), rows=X), Given(None, None, 0.2, expected_size=9.0)
    grid = grid_of(problem, given)
    found = Walkers(problem, grid, 16, 12)
    found._struct.dual_from = 2
    found.propose(Proposals(np.zeros(12), np.zeros(12), np.zeros(12), np.zeros(12, dtype=bool)))
    found._struct.node_every = 0
    found.renew(renewed_sets(problem, grid, np.ones(12, dtype=bool), 13), every=4)
    check_posterior(found, enumerate_sets(problem, given))


def check_posterior(found, wanted):
    """Sixteen walkers that start apart give the sum over all sets."""
    grid, n, prob, sizes, nodes = found.grid, found.problem.units.n, [], [], []
    for i in range(16):
        found.start(i, np.arange(i % 5), 3, np.array([5, 2, 3, i], dtype=np.uint64))
        found.advance(i, 10, 200, Sums.empty(n, 12))
        visits = found.advance(i, 10, number(10_000, 2500), Sums.empty(n, 12))
        prob.append(np.bincount(visits.units, minlength=n) / visits.size.size)
        sizes.append(np.bincount(visits.size, minlength=wanted.size_prob.size) / visits.size.size)
        nodes.append(np.bincount(visits.node, minlength=grid.log_g.size) / visits.size.size)
    for values, truth in ((prob, wanted.unit_prob), (sizes, wanted.size_prob), (nodes, wanted.node_prob)):
        mean, se = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / 4.0
        assert (np.abs(mean - truth) < WITHIN * np.maximum(se, SHARE)).all()
    proposed, accepted = found.counts()[0]["renew"]
    assert proposed > accepted > 0.01 * proposed


def noise(n, d, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    return problem_of_rows(X - X.mean(axis=0), y - y.mean(), nu=n - 1)


def log_weights(problem, grid, sizes, draws, rng):
    """Log p(y, number of units in) by averages over sets of so many units by chance."""
    d, out = problem.d, []
    for m in sizes:
        sets = [np.sort(rng.choice(d, m, replace=False)) for _ in range(draws)]
        each = [logsumexp(log_joint(problem, grid, spectrum(problem, one), one)) for one in sets]
        out.append(logsumexp(each) - np.log(draws) + gammaln(d + 1) - gammaln(m + 1) - gammaln(d - m + 1))
    return np.array(out)


def test_large_sets_get_their_share():
    """Nothing matters, and sets of more than 80 of 400 columns have a share beside the empty one: by chance."""
    problem = noise(60, 400, 1)
    grid = grid_of(problem, Given())
    some = np.array([80, 100, 125, 160, 200, 250, 320, 360, 390])
    weights = log_weights(problem, grid, some, 60, np.random.default_rng(5))
    large = logsumexp(np.interp(np.arange(81, 391), some, weights))
    wanted = large - log_weights(problem, grid, [0], 1, np.random.default_rng(0))[0]
    found = fit_exact(problem, Given())
    assert found.converged
    assert np.log(found.size_prob[81:391].sum() / found.size_prob[0]) == pytest.approx(wanted, abs=NATS)


def test_where_there_are_such_moves():
    problem = noise(20, 200, 2)
    assert can_renew(problem, grid_of(problem, Given()))
    assert not can_renew(problem, grid_of(problem, Given(slab_var=1.0, noise_var=1.0)))
    assert not can_renew(problem, grid_of(problem, Given(np.full(200, 0.1))))
    assert can_renew(replace(problem, rows=None), grid_of(problem, Given()))
    assert not can_renew(noise(20, 50, 2), grid_of(noise(20, 50, 2), Given()))


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("by_rows", [True, False])
def test_what_is_proposed(kept, by_rows):
    """It sums to one, and sets of all units have the posterior odds of each other's nodes."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 120))
    y = X[:, :3] @ np.ones(3) + rng.standard_normal(30) if kept else rng.standard_normal(30)
    problem = problem_of_rows(X, y)
    problem = problem if by_rows else replace(problem, rows=None)
    grid = grid_of(problem, Given())
    loose = np.arange(120) >= kept
    found = renewed_sets(problem, grid, loose, 121)
    sizes = np.arange(found.log_prob.shape[0])
    n = 120 - kept
    log_sets = gammaln(n + 1) - gammaln(sizes + 1) - gammaln(n - sizes + 1)
    assert sizes.size == n + 1
    assert logsumexp(found.log_prob + log_sets[:, None]) == pytest.approx(0.0, abs=EXACT)
    none = np.flatnonzero(~loose)
    assert np.ptp(found.log_prob[0] - log_joint(problem, grid, spectrum(problem, none), none)) < NODES
    if not kept:
        every = np.arange(120)
        gap = found.log_prob[-1] - log_joint(problem, grid, spectrum(problem, every), every)
        # All but interpolation.
        assert np.ptp(gap) < NODES
    assert renewal_work(problem, found) > 0
