"""The sampler of sets for yes/no responses beside quadrature over all coefficients, and its parts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pybayesridge.binomial import selection
from pybayesridge.binomial.augmentation import Augmented, BinomialRows, problem_given
from pybayesridge.binomial.kept import FEWEST_STATES, KeptWalks, WalkState
from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.binomial.link import log_likelihood
from pybayesridge.binomial.selection import fit_binary_selection
from pybayesridge.binomial.walk import BinaryWalk, lower_root
from pybayesridge.data.units import units_of
from pybayesridge.selection import light, methods, sampler
from pybayesridge.selection.grid import Given
from pybayesridge.selection.light import Sums, Walkers, Weighted
from pybayesridge.selection.sampler import allowed_mean_error
from pybayesridge.selection.starts import Start
from tests.binomial.problems import with_responses
from tests.binomial.selection_oracle import brute_force
from tests.effort import number, only_thorough

WITHIN = 4.0
KEPT = 0.07  # of probabilities by some 1,000 kept states
MOMENTS = 0.15  # of a posterior standard deviation; worst seen .04
ALGEBRA = 1e-9  # worst seen 1e-13
ROOT = 1e-13  # of a matrix with entries up to 6; worst seen 6e-15


def data(seed=3, n=30, d=3, trials=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
    return with_responses(X, trials, rng)


CASES = [
    ("logit", None, None, None, None),
    ("logit", 0.4, None, 5, 0.5),
    ("probit", 0.4, 1.0, None, None),
    ("probit", None, 1.0, 3, None),
]


@pytest.mark.parametrize(("link", "p", "v", "trials", "weight"), CASES)
def test_sampler_agrees_with_quadrature(link, p, v, trials, weight):
    X, y, count = data(trials=trials)
    weights = None if weight is None else np.full(y.size, weight)
    rows = BinomialRows.of(X, np.ones((y.size, 1)), from_counts(y, count, weights, link), units_of(3))
    given = Given(None if p is None else np.full(3, p), v)
    found = fit_binary_selection(rows, given, mcse=0.0, maxiter=number(400_000, 150_000))
    exact, copies = found.exact, 1.0 if weight is None else weight
    oracle = brute_force(X, copies * y, copies * (count - y), link=link, p=p, v=v, points=7, nodes=16)
    assert np.abs((exact.unit_prob - oracle.prob) / exact.unit_se).max() < WITHIN
    sd = np.sqrt(oracle.square - oracle.mean**2)
    assert np.abs(exact.mean - oracle.mean[1:]).max() < MOMENTS * sd.max()
    assert np.abs(np.sqrt(exact.var) / sd[1:] - 1).max() < MOMENTS
    joint = found.joint
    intercept = sum(w * joint.coef[joint.start[i]] for i, w in enumerate(joint.weight))
    assert abs(intercept - oracle.mean[0]) < MOMENTS * sd[0]
    assert np.isnan(exact.log_evidence)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(("link", "d", "k"), [("logit", 5, 2), ("probit", 5, 0), ("logit", 70, 1)])
def test_cross_products_are_those_of_weighted_rows(link, d, k, expanded):
    """Given auxiliary variables, and by an expansion of the likelihood, which has linear terms of its own."""
    rng = np.random.default_rng(1)
    n = 40
    X, c = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    y = (rng.random(n) < 0.5).astype(float)
    rows = BinomialRows.of(X, c, from_counts(y, None, None, link), units_of(d))
    psi = rng.standard_normal(n)
    given = rows.expanded(psi) if expanded else rows.draw(psi, rng)
    problem = problem_given(rows, given)
    root = np.sqrt(given.weight)
    outside = np.eye(n) - (root[:, None] * c) @ np.linalg.pinv(root[:, None] * c) if k else np.eye(n)
    weighted, response = outside @ (root[:, None] * X), outside @ (given.linear / root)
    gram = weighted.T @ weighted
    some = np.array([3, 0])
    assert np.allclose(problem.cross, weighted.T @ response, rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.diag, np.diag(gram), rtol=ALGEBRA)
    assert np.isclose(problem.yy, response @ response, rtol=ALGEBRA)
    assert np.allclose(problem.stacked(some), gram[some], rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.column(4), gram[4], rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.block(some), gram[np.ix_(some, some)], rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.blocks(some[:, None])[:, 0, 0], np.diag(gram)[some], rtol=0, atol=ALGEBRA * n)


@pytest.mark.parametrize("k", [0, 2])
def test_coefficients_given_the_variables_are_normal(k):
    """Their moments, and draws of the linear predictor from given normal numbers."""
    X, y, count = data(n=20)
    c = np.column_stack([np.ones(20), np.arange(20) / 20])[:, :k]
    rows = BinomialRows.of(X, c, from_counts(y, count, None, "logit"), units_of(3))
    rng = np.random.default_rng(0)
    drawn = Augmented(rng.random(20), y - 0.5)
    problem = problem_given(rows, drawn)
    grid = selection.binary_grid(rows, Given(np.full(3, 0.4), 1 / 0.7))
    units = np.array([0, 2])
    walk = BinaryWalk(problem, grid, [Start(units, 0, "empty")] * 2, rng, 3, None)
    columns, mean, cov = walk.walkers.coefficients(1)
    assert columns.tolist() == [0, 2, *range(3, 3 + k)]
    both = np.column_stack([X[:, units], c])
    precision = (both * drawn.weight[:, None]).T @ both + np.diag([0.7, 0.7, *[0.0] * k])
    assert np.allclose(mean, np.linalg.solve(precision, both.T @ drawn.linear), rtol=1e-6)
    assert np.allclose(cov, np.linalg.inv(precision), rtol=1e-6)
    normal = np.stack([np.zeros(2 + k), rng.standard_normal(2 + k)])
    center, psi = walk.walkers.draw_predictors(normal)
    assert np.allclose(center, both @ mean, rtol=1e-6)
    order = np.r_[2 + np.arange(k), 0, 1]  # as the walker holds them
    root = np.linalg.cholesky(cov[np.ix_(order, order)])
    assert np.allclose(psi, both[:, order] @ (mean[order] + root @ normal[1]), rtol=1e-6)


ROUNDED = 1e-8  # of numbers held after 1,800 steps; worst seen 2e-12
DRAWS = 20_000
MEANS = 5.0  # standard errors of the means of 20 rows
COVARIANCE = 0.1  # of the largest variance; worst seen .03


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("labels", [None, np.repeat(np.arange(30), 2)])
def test_sets_held_by_their_weighted_rows_are_those_held_by_their_columns(k, labels):
    """The same walks, passes, coefficients and weights; and draws of the predictor have their mean and covariance."""
    rng = np.random.default_rng(0)
    n, d, most = 20, 60, 18
    X, c = rng.standard_normal((n, d)), np.column_stack([np.ones(n), rng.standard_normal((n, 2))])[:, :k]
    likelihood = from_counts((rng.random(n) < 0.5).astype(float), None, None, "logit")
    rows = BinomialRows.of(X, c, likelihood, units_of(d, labels))
    problem, grid = problem_given(rows, rows.start()), selection.binary_grid(rows, Given())
    node = grid.log_g.size // 2
    xt = np.ascontiguousarray(np.hstack([rows.x, rows.c]).T)
    both, sums = [], [Sums.empty(problem.units.n, d + k) for _ in range(2)]
    for dual_from in (0, 1):
        linear, weight = np.zeros((1, n)), np.ones((1, n))
        walkers = Walkers(problem, grid, 1, most, Weighted(xt, k, weight, linear, np.zeros((1, d + k)), np.ones(1)))
        walkers._struct.dual_from = dual_from
        walkers.start(0, np.arange(4), node, np.arange(1, 5, dtype=np.uint64))
        both.append(walkers)
    for _ in range(3):
        weight, linear = rng.uniform(0.01, 0.3, n), rng.standard_normal(n)
        for walkers, total in zip(both, sums, strict=True):
            own = walkers.weighted
            own.weight[:], own.linear[:], own.cross[:] = weight, linear, xt @ linear
            own.yy[:] = (linear**2 / weight).sum()
            walkers.reweigh(np.array([node]))
            walkers.advance(0, 30, 20, total)
        (units, at, held), (units_too, at_too, held_too) = (walkers.state(0) for walkers in both)
        assert (units.tolist(), at) == (units_too.tolist(), at_too)
        assert (bool(held[3]), bool(held_too[3])) == (False, True)
        assert np.allclose(held[:2], held_too[:2], rtol=ROUNDED)
        for part, other in zip(*(walkers.coefficients(0) for walkers in both), strict=True):
            assert np.allclose(part, other, rtol=ROUNDED, atol=ROUNDED)
    for name in ("prob", "mean", "square"):
        assert np.allclose(getattr(sums[0], name), getattr(sums[1], name), rtol=ROUNDED, atol=ROUNDED)
    columns, mean, cov = both[1].coefficients(0)
    x = xt[columns].T
    normal = rng.standard_normal((DRAWS, 1, both[1].normals()))
    psi = np.concatenate([both[1].draw_predictors(each) for each in normal])
    cov = x @ cov @ x.T
    assert (np.abs(psi.mean(axis=0) - x @ mean) < MEANS * np.sqrt(np.diag(cov) / DRAWS)).all()
    assert np.abs(np.cov(psi.T) - cov).max() < COVARIANCE * cov.max()


@pytest.mark.parametrize(("link", "p", "v", "trials"), [("logit", None, None, None), ("probit", None, 1.0, 3)])
def test_sets_held_by_their_rows_agree_with_quadrature(link, p, v, trials, monkeypatch):
    """All walks in the rows' form, whatever the size of the sets."""
    X, y, count = data(trials=trials)
    rows = BinomialRows.of(X, np.ones((y.size, 1)), from_counts(y, count, None, link), units_of(3))
    monkeypatch.setattr(light, "dual_from", lambda n: 1)
    exact = fit_binary_selection(rows, Given(p, v), mcse=0.0, maxiter=number(400_000, 150_000)).exact
    oracle = brute_force(X, y, count - y, link=link, p=p, v=v, points=7, nodes=16)
    assert np.abs((exact.unit_prob - oracle.prob) / exact.unit_se).max() < WITHIN
    sd = np.sqrt(oracle.square - oracle.mean**2)
    assert np.abs(exact.mean - oracle.mean[1:]).max() < MOMENTS * sd.max()
    assert np.abs(np.sqrt(exact.var) / sd[1:] - 1).max() < MOMENTS


def test_groups_and_sure_columns_stay_together():
    X, y, count = data(d=5)
    labels = np.array([0, 0, 1, 2, 3])
    rows = BinomialRows.of(X, np.ones((30, 1)), from_counts(y, count, None, "logit"), units_of(5, labels))
    p = np.array([0.3, 0.3, 1.0, 0.0, 0.3])
    found = fit_binary_selection(rows, Given(p), mcse=0.0, maxiter=20_000, n_chains=2)
    assert found.exact.unit_prob[1] == 1.0
    assert found.exact.unit_prob[2] == 0.0
    for i in range(found.joint.n):
        inside = set((found.joint.set_of(i)[1:] - 1).tolist())
        assert 2 in inside
        assert 3 not in inside
        assert (0 in inside) == (1 in inside)


def test_two_runs_are_alike_and_an_interruption_keeps_what_is_there():
    X, y, count = data()
    rows = BinomialRows.of(X, np.ones((30, 1)), from_counts(y, count, None, "logit"), units_of(3))
    one, two = (fit_binary_selection(rows, Given(), mcse=0.0, maxiter=10_000, n_chains=2) for _ in range(2))
    assert np.array_equal(one.exact.unit_prob, two.exact.unit_prob)

    def stop(steps, _):
        if steps > 20_000:
            raise KeyboardInterrupt

    found = fit_binary_selection(rows, Given(), progress=stop)
    assert found.exact.interrupted
    assert not found.exact.converged
    assert found.joint.n > 0


def test_probit_refuses_shares_of_rows():
    X, y, count = data()
    with pytest.raises(ValueError, match="weights must be whole numbers"):
        BinomialRows.of(X, np.ones((30, 1)), from_counts(y, count, np.full(30, 1.5), "probit"), units_of(3))


def test_kept_states_are_thinned_evenly():
    kept, none = KeptWalks(), np.zeros(0, dtype=np.intp)
    for step in range(9000):
        if kept.due:
            kept.add(WalkState(step, 0, none, none, 0, np.zeros(1), np.zeros((1, 1))))
        kept.next()
    assert kept.every == 2
    assert {state.step for state in kept.states} == set(range(0, 9000, 2))
    large = KeptWalks()
    for step in range(2 * FEWEST_STATES):
        large.add(WalkState(step, 0, none, none, 0, np.zeros(300), np.zeros((300, 300))))
        large.next()
    assert FEWEST_STATES // 2 <= len(large.states) <= FEWEST_STATES
    assert len(large.after(10**6)) == len(large.states)


@only_thorough
def test_sampling_goes_on_until_means_are_known(monkeypatch):
    """Probabilities are known at once to 0.1: what is left decides."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((40, 4))
    y = (x[:, 0] + x[:, 1] + 0.5 * rng.logistic(size=40) > 0).astype(float)
    rows = BinomialRows.of(x, np.ones((40, 1)), from_counts(y, np.ones(40), None, "logit"), units_of(4))
    rough = fit_binary_selection(rows, Given(), mcse=0.1).exact
    assert rough.converged
    assert rough.mean_error <= allowed_mean_error(0.1)
    precise = rough.mean_error / 2  # four times as many steps, give or take
    monkeypatch.setattr(sampler, "allowed_mean_error", lambda mcse: precise)
    done = fit_binary_selection(rows, Given(), mcse=0.1).exact
    assert done.converged
    assert done.mean_error <= precise
    assert done.n_iter > rough.n_iter
    assert not fit_binary_selection(rows, Given(), mcse=0.1, maxiter=rough.n_iter // 4).exact.converged
    unsettled = SimpleNamespace(exact=replace(done, mean_error=0.6))
    monkeypatch.setattr(methods, "ExactSelection", SimpleNamespace)
    assert "the mean of a coefficient" in methods.imprecise(unsettled, 0.1)


@pytest.mark.every_case
@pytest.mark.parametrize("d", [1, 2])
def test_kept_states_have_the_probabilities_of_all_passes(d):
    X, y, count = data()
    rows = BinomialRows.of(X[:, :d], np.ones((y.size, 1)), from_counts(y, count, None, "logit"), units_of(d))
    found = fit_binary_selection(rows, Given(np.full(d, 0.4), 0.3), mcse=0.0, maxiter=200_000)
    states, kept = found.exact.states, np.zeros(d)
    for i in range(states.n):
        kept[states.set_of(i)] += states.weight[i]
    assert np.abs(kept - found.exact.inclusion_prob).max() < KEPT


@pytest.mark.parametrize(("least", "goes_on"), [(0.0, True), (2.0, False)])
@pytest.mark.parametrize("maxiter", [30_000, 200_000])
def test_walks_under_the_expansion_go_on_where_they_were_of_use(monkeypatch, least, goes_on, maxiter):
    """However often they were tried while proposals were adapted."""
    monkeypatch.setattr("pybayesridge.binomial.walk.LEAST_TAKEN", least)
    X, y, count = data()
    rows = BinomialRows.of(X, np.ones((y.size, 1)), from_counts(y, count, None, "logit"), units_of(3))
    grid, rng = selection.binary_grid(rows, Given()), np.random.default_rng(0)
    starts = [Start(np.array([0, 2]), 5, "prior")] * 4
    walk = BinaryWalk(problem_given(rows, rows.start()), grid, starts, rng, 3, None)
    walk.adapt(maxiter)
    assert (walk.expansion is not None) == goes_on


@pytest.mark.parametrize(("link", "k"), [("logit", 1), ("logit", 2), ("probit", 0)])
def test_rescaling_alone_keeps_the_posterior_of_the_slab(link, k):
    """From one linear predictor: the nodes that many walkers come to have the probabilities of its density."""
    X, y, _ = data(n=12)
    c = np.column_stack([np.ones(12), np.arange(12) / 12])[:, :k]
    likelihood = from_counts(y, None, None, link)
    rows, walkers, rounds = BinomialRows.of(X, c, likelihood, units_of(3)), 50, number(400, 100)
    grid = selection.binary_grid(rows, Given(np.full(3, 0.4)))
    rng = np.random.default_rng(0)
    start = Start(np.array([0, 2]), grid.log_g.size // 2, "prior")
    walk = BinaryWalk(problem_given(rows, rows.start()), grid, [start] * walkers, rng, 3, None)
    psi = np.tile(X[:, 0] - 0.5 * X[:, 2], (walkers, 1))
    half = np.exp(0.5 * (grid.log_g - grid.log_g[start.node]))
    density = grid.log_size(2) + k * np.log(half)
    density = density + np.array([log_likelihood(y, 1 - y, h * psi[0], link).sum() for h in half])
    expected = np.exp(density - density.max())
    expected /= expected.sum()
    seen = np.zeros((walkers, half.size))
    for step in range(rounds):
        node = walk._rescale(psi)
        walk.walkers.reweigh(node)
        if step >= rounds // 10:
            seen[np.arange(walkers), node] += 1
    levels = (seen / seen.sum(axis=1, keepdims=True)) @ np.column_stack([grid.log_g, grid.log_g**2])
    truth = expected @ np.column_stack([grid.log_g, grid.log_g**2])
    se = levels.std(axis=0, ddof=1) / np.sqrt(walkers)
    assert (np.abs(levels.mean(axis=0) - truth) < WITHIN * se).all()
    assert np.allclose(psi, half[node][:, None] * (X[:, 0] - 0.5 * X[:, 2]), rtol=1e-9)


@pytest.mark.parametrize("lost", [0.0, -1e-16])
def test_covariances_that_are_singular_but_for_rounding_have_a_root(lost):
    half = np.random.default_rng(0).standard_normal((6, 4))
    cov = half @ half.T + lost * np.eye(6)
    root = lower_root(cov)
    assert np.array_equal(root, np.tril(root))
    assert np.abs(root @ root.T - cov).max() < ROOT
