"""The sampler beside enumeration, and its parts beside what is computed from scratch."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import chi2

from pybayesridge import SpikeSlab
from pybayesridge.data.units import units_of
from pybayesridge.selection import light, sampler
from pybayesridge.selection.collapsed import inverse_root, left_over, log_joint, log_likelihood, spectra, spectrum
from pybayesridge.selection.enumeration import enumerate_sets, joint_table
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.light import Proposals, Sums, Walkers, priors_of_sizes, tabulate
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.states import build_states
from pybayesridge.selection.traces import sorted_sets
from tests.effort import number, only_thorough
from tests.selection.oracle import log_marginal, regression

WITHIN = 6.0  # |z| of single walks; worst seen 4.2, of some hundred: errors that few walkers tell have long tails

WALKS = 3
"""Of which the one in the middle is judged."""
MOMENTS = 6.0  # errors of moments with long tails are not normal: worst seen 4.9
SMALLEST = 1e-12
FLOOR = 2e-4  # of a standard error: what the errors of tiny probabilities are measured by
DRIFT = 1e-10  # worst seen 1e-13
ODDS = 1e-8  # worst seen 1e-11
TABLE = 1e-6
ROUNDING = 1e-14
LIKELIHOOD = 1e-8  # worst seen 1e-11
FITTED = 1e-7  # where the columns leave 8e-7 of y'y, so that nine digits of R are left; worst seen 1.1e-8
COPIES = 1e-6  # worst seen 7e-8
EDGE = 1e-7  # worst seen 2e-9
SHARE = 2e-3  # least standard error of the share of a size

CASES = {
    "plain": {},
    "twins": {"twins": 0.05},
    "copy": {"copy": True},
    "groups": {"labels": np.array([0, 0, 1, 2, 2, 2, 3, 4])},
    "wide": {"n": 5},
    "zero column": {"zero": True},
    "noiseless": {"noise": 1e-4},
    "pure noise": {"size": 0},
}


def make(n=25, d=8, noise=1.0, twins=0.0, copy=False, zero=False, size=2, labels=None):
    X, y = regression(11, n, d, noise=noise, twins=twins, size=size)
    if copy:
        X[:, 5] = X[:, 0]
    if zero:
        X[:, 3] = 0.0
    return problem_of_rows(X, y, labels=labels)


KNOWN = [Given(), Given(np.full(8, 0.25), 0.8, 1.2), Given(None, 0.5, None), Given(np.full(8, 0.3))]
PAIRS = [("plain", i) for i in range(4)] + [(case, i % 2) for i, case in enumerate(CASES) if case != "plain"]


@pytest.mark.parametrize(("case", "known"), PAIRS)
def test_sampler_agrees_with_the_sum(case, known):
    given = KNOWN[known]
    problem = make(**CASES[case])
    exact = enumerate_sets(problem, given)
    found = fit_exact(problem, given, method="sampler", mcse=0.0, maxiter=number(2_000_000, 400_000))
    z = (found.unit_prob - exact.unit_prob) / np.maximum(found.unit_se, FLOOR)
    assert np.abs(z).max() < WITHIN
    assert abs(found.log_evidence - exact.log_evidence) < max(WITHIN * found.log_evidence_se, 0.01)
    sd = np.sqrt(exact.var)
    assert np.abs((found.mean - exact.mean) / np.maximum(found.errors.mean, FLOOR * sd + SMALLEST)).max() < MOMENTS
    assert np.abs((np.sqrt(found.var) - sd) / np.maximum(found.errors.sd, FLOOR * sd + SMALLEST)).max() < MOMENTS
    assert abs(found.expected_size - exact.expected_size) < WITHIN * found.errors.size
    assert np.allclose(found.size_prob.sum(), 1.0)


def test_always_and_never_stay():
    p = np.array([0.3, 1.0, 0.0, 0.5, 0.2, 1.0, 0.3, 0.3])
    problem = make()
    exact = enumerate_sets(problem, Given(p))
    found = fit_exact(problem, Given(p), method="sampler", maxiter=400_000, mcse=0.0)
    assert found.unit_prob[1] == 1.0
    assert found.unit_prob[2] == 0.0
    assert np.abs((found.unit_prob - exact.unit_prob) / np.maximum(found.unit_se, FLOOR)).max() < WITHIN
    assert all({1, 5} <= set(found.states.set_of(i)) for i in range(found.states.n))
    assert all(2 not in found.states.set_of(i) for i in range(found.states.n))


def test_two_runs_give_the_same_numbers():
    problem = make()
    one, two = (fit_exact(problem, Given(), method="sampler", maxiter=200_000, mcse=0.0, rng=0) for _ in range(2))
    assert np.array_equal(one.unit_prob, two.unit_prob)
    assert np.array_equal(one.states.t, two.states.t)


def test_what_was_drawn_is_kept_when_interrupted():
    def stop(steps, estimate):
        raise KeyboardInterrupt

    found = fit_exact(make(), Given(), method="sampler", progress=stop)
    assert found.interrupted
    assert not found.converged
    assert found.n_iter > 0
    assert found.states.n > 0


def test_maxiter_is_said():
    found = fit_exact(make(), Given(), method="sampler", maxiter=800, mcse=1e-6)
    assert not found.converged
    assert found.max_se > 1e-6


def walkers(problem, grid, n=1, most=1000, seed=0):
    found = Walkers(problem, grid, n, most)
    seeds = np.random.default_rng(seed).integers(0, 2**64, (n, 4), dtype=np.uint64)
    for i in range(n):
        found.start(i, np.zeros(0, dtype=np.intp), grid.log_g.size // 2, seeds[i])
    return found


@pytest.mark.parametrize("labels", [None, np.array([0, 0, 1, 2, 2, 2, 3])])
@pytest.mark.parametrize("s2", [None, 0.7])
@pytest.mark.parametrize("rows", [False, True])
def test_a_pass_gives_the_odds_of_log_marginals(labels, s2, rows):
    """By hand: probabilities and moments of each unit given the others; also with X in place of X'X."""
    X, y = regression(12, 5 if rows else 15, 7)
    problem = problem_of_rows(X, y, nu=15.0, labels=labels)
    if rows:
        problem = replace(problem, gram=None, rows=np.ascontiguousarray(X))
    of = np.arange(7) if labels is None else labels
    n_units = int(of.max()) + 1
    p, v = np.linspace(0.2, 0.5, n_units)[of], 0.6
    grid = grid_of(problem, Given(p, v, s2))
    # Where columns can fit the response exactly the grid goes on to where rounding errors are larger.
    node, inside = int(np.abs(grid.log_g - 2.0).argmin()), np.array([0, 2])
    g = float(np.exp(grid.log_g[node]))
    noise = v / g if s2 is None else s2
    found, sums = walkers(problem, grid), Sums.empty(n_units, 7)
    found.start(0, inside, node, np.array([1, 2, 3, 4], dtype=np.uint64))
    found.advance(0, 0, 1, sums)
    for j in range(n_units):
        with_j, without = np.isin(of, np.union1d(inside, [j])), np.isin(of, np.setdiff1d(inside, [j]))
        value, coef, var = log_marginal(X, y, 15, with_j, g, noise)
        odds = (
            value[0] - log_marginal(X, y, 15, without, g, noise)[0][0] + np.log(p[of == j][0] / (1 - p[of == j][0]))
        )
        assert np.isclose(sums.prob[j], expit(odds), rtol=ODDS)
        own = of[with_j] == j
        assert np.allclose(sums.mean[of == j], expit(odds) * coef[0][own], rtol=1e2 * ODDS)
        assert np.allclose(sums.square[of == j], expit(odds) * (coef[0] ** 2 + var[0])[own], rtol=1e2 * ODDS)


@pytest.mark.every_case
@pytest.mark.parametrize("form", ["gram", "rows", "dual"])
@pytest.mark.parametrize("m", [5, 8, 45])
@pytest.mark.parametrize("known", [False, True])
def test_a_pass_over_many_columns_gives_the_odds_of_log_marginals(form, m, known):
    """Columns are looked at by blocks, and matrices factorised by tiles: of sizes that fill these, and do not."""
    n, d, noise = 27, 131, 0.7 if known else None
    X, y = regression(13, n, d)
    problem = problem_of_rows(X, y)
    if form != "gram":
        problem = replace(problem, gram=None, rows=np.ascontiguousarray(X))
    grid = grid_of(problem, Given(np.full(d, 0.2), 0.2, noise) if known else Given())
    node = int(np.abs(grid.log_g - np.log(0.3)).argmin())
    found, sums, g = walkers(problem, grid), Sums.empty(d, d), np.exp(grid.log_g[node])
    found._struct.dual_from = 1 if form == "dual" else 0
    inside = np.sort(np.random.default_rng(m).permutation(d)[:m])
    found.start(0, inside, node, np.array([1, 2, 3, 4], dtype=np.uint64))
    assert found.state(0)[2][3] == (form == "dual")
    found.advance(0, 0, 1, sums)
    sets = [np.setdiff1d(inside, [j]) for j in range(d)], [np.union1d(inside, [j]) for j in range(d)]
    without, with_j = ([log_marginal(X, y, n, np.isin(np.arange(d), one), g, noise) for one in some] for some in sets)
    odds = np.array([one[0][0] - other[0][0] for one, other in zip(with_j, without, strict=True)])
    fewer = [one.size for one in sets[0]]
    odds += np.log(0.25) if known else [found.log_prior(k + 1, node) - found.log_prior(k, node) for k in fewer]
    at = [int(np.flatnonzero(one == j)[0]) for j, one in enumerate(sets[1])]
    coef, var = (np.array([one[k].reshape(-1)[i] for one, i in zip(with_j, at, strict=True)]) for k in (1, 2))
    assert np.allclose(sums.prob, expit(odds), rtol=ODDS, atol=0)
    assert np.allclose(sums.absent, expit(-odds), rtol=ODDS, atol=0)
    assert np.allclose(sums.mean, expit(odds) * coef, rtol=ODDS, atol=ODDS * np.abs(coef).max())
    assert np.allclose(sums.square, expit(odds) * (coef**2 + var), rtol=ODDS, atol=0)
    assert np.isclose(sums.others[4], expit(odds).sum(), rtol=ODDS)


@pytest.mark.parametrize("labels", [None, np.array([0, 0, 1, 2, 2, 2, 3])])
@pytest.mark.parametrize("form", ["gram", "rows", "held", "dual"])
def test_few_units_and_the_others_make_a_whole_pass(labels, form, monkeypatch):
    """Passes over units that are watched, and full ones over the others, give what passes over all units do."""
    monkeypatch.setattr(light, "SWEEP_BYTES", 1)
    monkeypatch.setattr(light, "LEAST_SWEPT", 3)
    X, y = regression(12, 5, 7)
    problem = problem_of_rows(X, y, labels=labels)
    if form != "gram":
        problem = replace(problem, gram=None, rows=np.ascontiguousarray(X))
    n_units = problem.units.n
    grid = grid_of(problem, Given())
    found, watched = walkers(problem, grid, 2), np.array([1, 3])
    if form == "held":
        even = np.full(n_units, 1.0 / n_units)
        found.propose(Proposals(even, even, even, np.arange(n_units) < 2))
    found._struct.dual_from = 2 if form == "dual" else 0
    for i, units in enumerate((np.array([0, 1]), np.array([2, 3]))):
        found.start(i, units, 3 + i, np.array([1, 2, 3, 4], dtype=np.uint64))
    whole, parts = ([Sums.empty(n_units, 7) for _ in range(2)] for _ in range(2))
    for i in range(2):
        found.advance(i, 0, 2, whole[i])
    found.watch(watched)
    for i in range(2):
        found.advance(i, 0, 2, parts[i])
        assert not parts[i].prob[np.setdiff1d(np.arange(n_units), watched)].any()
    for _ in range(2):
        found.sweep(parts)
    for ours, theirs in zip(parts, whole, strict=True):
        assert ours.passes == theirs.passes == ours.full == theirs.full == 2
        for name in ("prob", "mean", "square"):
            assert np.allclose(getattr(ours, name), getattr(theirs, name), rtol=ODDS, atol=0)
        assert np.isclose(ours.others[[0, 4]].sum(), theirs.others[[0, 4]].sum(), rtol=ODDS)
        assert np.allclose(ours.others[1:4], theirs.others[1:4], rtol=ODDS)


@pytest.mark.parametrize("labels", [None, np.array([0, 0, 1, 2, 2, 2, 3, 4])])
@pytest.mark.parametrize("rows", [False, True])
def test_sampler_that_watches_few_units_agrees_with_the_sum(labels, rows, monkeypatch):
    monkeypatch.setattr(sampler, "WATCHED_FROM", 1)
    monkeypatch.setattr(sampler, "WATCHED", (3, 8))
    monkeypatch.setattr(sampler, "TIERED_STEPS", (100, 100))
    problem = make(labels=labels)
    exact = enumerate_sets(problem, Given())
    if rows:
        X, _ = regression(11, 25, 8, noise=1.0, size=2)
        problem = replace(problem, gram=None, rows=np.ascontiguousarray(X))
    sizes = np.arange(exact.size_prob.size)
    scores = []
    for seed in range(WALKS):
        found = fit_exact(problem, Given(), method="sampler", mcse=0.0, maxiter=number(1_000_000, 200_000), rng=seed)
        z = (found.unit_prob - exact.unit_prob) / np.maximum(found.unit_se, FLOOR)
        size = (found.unit_prob.sum() - sizes @ exact.size_prob) / found.errors.size
        evidence = (found.log_evidence - exact.log_evidence) / max(found.log_evidence_se, 0.01 / WITHIN)
        scores.append([np.abs(z).max(), abs(size), abs(evidence)])
    # Errors that few walkers tell have long tails, and probabilities err together: what is wrong is so in every walk.
    assert (np.median(scores, axis=0) < WITHIN).all()


CHANGING = {
    "columns": {},
    "twins": {"twins": 1e-3},
    "copy": {"copy": True},
    "groups": {"labels": np.array([0, 0, 1, 2, 2, 2, 3, 4])},
    "strong": {"noise": 1e-5},
}


@pytest.mark.parametrize("case", CHANGING)
@pytest.mark.parametrize("form", ["columns", "rows"])
def test_what_is_held_of_a_set_stays_exact(case, form):
    """R and log |M| after many changes, beside what is computed from scratch; sets held by their rows as well."""
    problem = make(**CHANGING[case])
    values, vectors = np.linalg.eigh(problem.gram)
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    problem = replace(problem, rows=rows, target=np.linalg.lstsq(rows.T, problem.cross, rcond=None)[0])
    given = Given(np.full(8, 0.4), 1.0, 1.0)
    grid = grid_of(problem, given)
    found = walkers(problem, grid)
    found._struct.dual_from = 2 if form == "rows" else 0
    forms = set()
    for _ in range(20):
        found.walk(380)
        units, node, (left, log_det, drift, dual) = found.state(0)
        part = spectrum(problem, problem.units.columns(units))
        k = grid.k[node : node + 1]
        assert np.isclose(log_det, np.log(part.values + k).sum(), rtol=0, atol=DRIFT)
        scale = problem.yy * DRIFT / left
        assert np.isclose(left, left_over(problem, part, k)[0], rtol=max(DRIFT, scale))
        assert drift <= max(DRIFT, scale)
        forms.add(bool(dual))
    assert forms >= {form == "rows"}


@pytest.mark.parametrize("given", [Given(np.full(90, 0.6), 0.5, 1.0), Given(None, 0.5, None, 80.0)])
def test_sets_of_more_columns_than_rows_are_held_by_their_rows(given):
    """By their rows or by X'X: the same posterior, and what is held stays exact."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((10, 90)) + rng.standard_normal((10, 1))
    by_gram = replace(problem_of_rows(X, X @ rng.standard_normal(90) + rng.standard_normal(10)), rows=None)
    by_rows = replace(by_gram, gram=None, rows=X)
    grid = grid_of(by_rows, given)
    walker, sizes = walkers(by_rows, grid, most=90), []
    walker.start(0, np.arange(60), grid.log_g.size // 2, np.arange(1, 5, dtype=np.uint64))
    for _ in range(10):
        walker.walk(300)
        units, node, (left, log_det, drift, dual) = walker.state(0)
        part = spectrum(by_gram, units)
        k = grid.k[node : node + 1]
        assert np.isclose(log_det, np.log(part.values + k).sum(), rtol=0, atol=10 * DRIFT)
        assert np.isclose(left, left_over(by_gram, part, k)[0], rtol=10 * DRIFT)
        assert drift <= 10 * DRIFT
        sizes.append(units.size)
        assert dual or units.size < 31
    assert max(sizes) > 31
    one, two = (
        fit_exact(problem, given, method="sampler", rng=seed, mcse=0.0, maxiter=number(300_000, 100_000))
        for seed, problem in enumerate((by_rows, by_gram))
    )
    assert np.abs((one.unit_prob - two.unit_prob) / np.hypot(one.unit_se, two.unit_se)).max() < WITHIN
    assert abs(one.expected_size - two.expected_size) < WITHIN * np.hypot(one.errors.size, two.errors.size)


@pytest.mark.parametrize("m", [4, 9, 60])
def test_sets_of_more_columns_than_rows_are_diagonalised_by_their_rows(m):
    """By their rows or by X'X: the same likelihoods, coefficients and covariances."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((9, 80)) + rng.standard_normal((9, 1))
    X[:, 3] = 2.0 * X[:, 0]
    by_gram = problem_of_rows(X, rng.standard_normal(9))
    by_rows = replace(by_gram, gram=None, rows=X)
    grid, columns = grid_of(by_rows, Given()), np.arange(m)
    one, two = spectrum(by_gram, columns), spectra(by_rows, [columns, columns[:0]])[0]
    assert two.values.size == min(m, 9)
    expected, found = (log_likelihood(by_gram, grid, part) for part in (one, two))
    assert np.allclose(found, expected, rtol=0, atol=FITTED)
    for k in (0.01, 1.0):
        root = inverse_root(two, k)
        assert np.allclose(root @ root.T @ (by_gram.block(columns) + k * np.eye(m)), np.eye(m), atol=LIKELIHOOD)
        expected = np.linalg.solve(by_gram.block(columns) + k * np.eye(m), by_gram.cross[columns])
        assert np.allclose(two.vectors @ (two.cross / (two.values + k)), expected, atol=LIKELIHOOD)


def test_copies_come_and_go_without_a_trace():
    """With next to no noise, one of two equal columns that leaves takes nearly all digits of V with it."""
    X, y = regression(3, 13, 4, noise=1e-4, size=1)
    X[:, 3] = 0.7 * X[:, 0]
    problem = problem_of_rows(X, X[:, 0] + 1e-4 * y)
    grid = grid_of(problem, Given(np.full(4, 0.8), 40.0, 1e-6))
    found, visited = walkers(problem, grid), set()
    for _ in range(40):
        found.walk(50)
        columns, mean, covariance = found.coefficients(0)
        part = spectrum(problem, columns)
        exact = part.vectors / (part.values + grid.k)
        assert np.allclose(mean, exact @ part.cross, rtol=0, atol=COPIES)
        assert np.allclose(covariance, exact @ part.vectors.T, rtol=COPIES, atol=COPIES)
        visited.add(columns.size)
    assert visited >= {1, 2}


@pytest.mark.parametrize("noise", [None, 1e-6])
def test_next_to_no_noise_lies_at_the_edge_of_the_grid(noise):
    """The bound of the explained share cuts the posterior of log g off where it is steepest."""
    X, y = regression(4, 30, 5, size=0)
    problem = problem_of_rows(X, X[:, 0] - X[:, 3] + 1e-3 * y)
    given = Given(np.full(5, 0.3), None, noise)
    exact = enumerate_sets(problem, given)
    grid, table = (part(problem, given) for part in (grid_of, lambda *own: joint_table(problem, grid_of(*own))))
    assert exact.converged
    assert abs(logsumexp(table) - exact.log_evidence) < EDGE
    of_node = np.exp(logsumexp(table, axis=1) - logsumexp(table))
    assert abs(of_node @ grid.log_g - exact.node_prob @ exact.grid.log_g) < EDGE


def test_walkers_leave_places_that_are_out_of_the_question():
    """Two columns explain all that neither does alone, and one of them is improbable: some walkers start without."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((14, 4))
    y = X[:, 0] + X[:, 1] + 1e-4 * rng.standard_normal(14)
    problem, given = problem_of_rows(X, y), Given(np.array([1e-9, 1e-3, 0.3, 0.3]), 1.5)
    exact = enumerate_sets(problem, given)
    found = fit_exact(problem, given, method="sampler", mcse=0.02, maxiter=5_000_000)
    assert exact.unit_prob[:2].min() > 0.999
    assert found.converged
    assert np.abs(found.unit_prob - exact.unit_prob).max() < 1e-3


def test_the_prior_of_all_sizes_is_that_of_each():
    for given in (Given(), Given(None, 0.5, None), Given(None, 0.5, 1.0)):
        grid = grid_of(make(n=40), given)
        exact = np.stack([grid.log_size(m) for m in range(9)])
        likely = exact > exact.max() - 60.0
        walkers = Walkers(make(n=40), grid, 1, 8)
        walked = [[walkers.log_prior(m, node) for node in range(grid.log_g.size)] for m in range(9)]
        grid.tables.clear()
        tabulate(grid, np.arange(9))
        tabulated = [grid.tables[m] for m in range(9)]
        for table in (priors_of_sizes(grid, np.arange(9), 9), np.array(walked), np.array(tabulated)):
            assert np.abs(table - exact)[likely].max() < TABLE


@pytest.mark.parametrize("by_rows", [False, True])
def test_kept_states_have_the_posterior_of_their_set_and_node(by_rows):
    """Moments by solving, the mean of v by a sum over nodes: sets of several sizes, one twice and the empty one."""
    X, y = regression(7, 9, 20)
    problem = problem_of_rows(X, y)
    if by_rows:
        problem = replace(problem, gram=None, rows=X)
    grid, noise = grid_of(problem, Given()), problem.nu - 2.0
    sets = [np.arange(m) for m in (3, 0, 12, 3, 9)] + [np.array([2, 5, 19])]
    nodes, share = np.array([40, 50, 45, 70, 60, 55]), np.arange(1.0, 7.0)
    states = build_states(problem, grid, sets, nodes, share, np.arange(6), np.random.default_rng(0))
    assert np.allclose(states.weight, share / 21.0, rtol=ROUNDING)
    for i, (units, node) in enumerate(zip(sets, nodes, strict=True)):
        part, k = spectrum(problem, units), grid.k[node]
        matrix = X[:, units].T @ X[:, units] + k * np.eye(units.size)
        assert (states.set_of(i) == units).all()
        coef, root = states.coef[states.start[i] : states.start[i + 1]], states.root[i]
        assert np.allclose(matrix @ coef, X[:, units].T @ y, atol=LIKELIHOOD)
        assert np.allclose(root @ root.T @ matrix, np.eye(units.size), atol=LIKELIHOOD)
        assert states.left[i] == pytest.approx(y @ (y - X[:, units] @ coef), rel=LIKELIHOOD)
        joint = log_joint(problem, grid, part, units)
        slab = np.exp(grid.log_g) * left_over(problem, part, grid.k) / noise
        mass = np.exp(joint - logsumexp(joint))
        assert states.slab_mean[i] == pytest.approx(mass @ slab, rel=LIKELIHOOD)


def test_states_of_a_trace_are_sorted():
    units = np.array([5, 2, 9, 4, 1, 7, 3], dtype=np.int32)
    found = sorted_sets(units, np.array([0, 3, 3, 4, 7]), np.array([3, 1, 0, 3]))
    assert [one.tolist() for one in found] == [[1, 3, 7], [], [2, 5, 9], [1, 3, 7]]


def test_the_prior_is_known_of_sets_that_become_larger():
    rng = np.random.default_rng(4)
    problem = problem_of_rows(rng.standard_normal((30, 500)), rng.standard_normal(30))
    grid = grid_of(problem, Given())
    walkers = Walkers(problem, grid, 1, 500)
    for units in (np.arange(3), np.arange(200)):
        walkers.start(0, units, 40, np.arange(4, dtype=np.uint64))
        for m in (0, 3, units.size):
            assert walkers.log_prior(m, 40) == pytest.approx(float(grid.log_size(m)[40]), abs=TABLE)


STRONG = [Given(np.r_[0.5, 0.5, np.full(15, 1e-9)], None, 1.0), Given(np.r_[0.5, 0.5, np.full(15, 1e-9)])]


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("seed", range(number(10, 2)))
def test_strong_signals(known, seed):
    """One of two correlated columns is certain: states without it are out of the question, not merely improbable."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((33, 17))
    X[:, 1] = 0.95 * X[:, 0] + np.sqrt(1 - 0.95**2) * X[:, 1]
    y = 30.0 * X[:, 0] + rng.standard_normal(33)
    given = STRONG[known]
    found = fit_exact(problem_of_rows(X, y), given, method="sampler", rng=seed)
    few = enumerate_sets(problem_of_rows(X[:, :2], y), replace(given, prior_inclusion=given.prior_inclusion[:2]))
    assert found.converged
    assert np.abs((found.unit_prob[:2] - few.unit_prob) / np.maximum(found.unit_se[:2], FLOOR)).max() < WITHIN
    gap = np.sqrt(found.var[:2]) - np.sqrt(few.var)
    assert np.abs(gap / np.maximum(found.errors.sd[:2], FLOOR * np.sqrt(few.var))).max() < WITHIN


def test_a_strong_signal_with_a_correlated_column_by_default():
    """As above by a fit: the sum gives .0441 and standard deviations of .272 and .181 for the two columns."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((33, 17))
    X[:, 1] = 0.95 * X[:, 0] + np.sqrt(1 - 0.95**2) * X[:, 1]
    y = 30.0 * X[:, 0] + rng.standard_normal(33)
    model = SpikeSlab(
        y, X, intercept=False, standardize=False, noise_var=1.0, prior_inclusion=STRONG[0].prior_inclusion
    )
    found = model.fit()
    assert found.converged
    assert np.asarray(found.inclusion_prob)[1] == pytest.approx(0.0441280, abs=4 * found.inclusion_se.iloc[1] + 1e-4)
    for j, sd in enumerate((0.2716648, 0.1808431)):
        assert found.bse.iloc[j] == pytest.approx(sd, abs=4 * found.exact_posterior.errors()[1][j] + 1e-4)


def test_standard_errors_are_right():
    """Errors of several runs, in standard errors, have variance 1."""
    problem, given = make(twins=0.3), Given(np.full(8, 0.25), 0.8, 1.2)
    exact = enumerate_sets(problem, given)
    z, runs = [], number(100, 12)
    for seed in range(runs):
        found = fit_exact(problem, given, method="sampler", mcse=0.0, maxiter=100_000, rng=seed)
        z.append((found.unit_prob - exact.unit_prob) / found.unit_se)
    # Columns are dependent, runs are not: a chi-square, relative to its mean, of as many degrees of freedom as runs.
    low, high = chi2.ppf([1e-4, 1.0 - 1e-4], runs) / runs
    assert low < np.mean(np.square(z)) < high * 31 / 29  # of t distributions with 31 degrees of freedom


def test_a_limit_of_the_size_of_sets_is_said(monkeypatch):
    problem = make(n=60, noise=0.1, size=6)
    whole = fit_exact(problem, Given(), method="sampler", mcse=0.1)
    assert whole.size_limit is None
    assert whole.converged
    monkeypatch.setattr("pybayesridge.selection.fit.largest_set", lambda problem, walkers: 4)
    found = fit_exact(problem, Given(), method="sampler", mcse=0.1)
    assert found.size_limit == 4
    assert found.states.sizes.max() <= 4
    assert not found.converged


def test_walkers_that_disagree_walk_on(monkeypatch):
    problem = make(twins=0.3)
    agreed = fit_exact(problem, Given(), method="sampler", mcse=0.1, maxiter=2_000_000)
    assert agreed.converged
    assert agreed.n_iter < 1_500_000
    monkeypatch.setattr("pybayesridge.selection.sampler.AGREEMENT", 0.5)
    found = fit_exact(problem, Given(), method="sampler", mcse=0.1, maxiter=2_000_000)
    assert found.n_iter > agreed.n_iter
    assert not found.converged


@only_thorough
def test_dense_starts_are_left_and_found():
    """Chains that start with half of the columns, or with none, agree on how many are in."""
    rng = np.random.default_rng(3)
    for n, w in ((40, np.r_[3.0, np.zeros(59)]), (120, np.full(30, 0.5))):
        X = rng.standard_normal((n, w.size))
        problem = problem_of_rows(X, X @ w + rng.standard_normal(n))
        one, two = (fit_exact(problem, Given(), mcse=0.02, rng=seed) for seed in range(2))
        assert one.converged
        assert abs(one.expected_size - (w > 0).sum()) < 2
        assert abs(one.expected_size - two.expected_size) < WITHIN * np.hypot(one.errors.size, two.errors.size)


def test_columns_that_are_surely_in_are_in_every_state():
    """A pass says that a missing column is needed, so that averages over passes do not show that it is missing."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 20))
    y = X[:, 0] + 0.8 * X[:, 4] + X[:, 7] + 0.5 * rng.standard_normal(60)
    found = fit_exact(problem_of_rows(X, y), Given(), mcse=0.02)
    assert (found.unit_prob[[0, 4, 7]] > 0.999).all()
    assert found.size_prob[:3].sum() < 0.001
    assert abs(found.size_prob @ np.arange(found.size_prob.size) - found.unit_prob.sum()) < 0.05


def autoregressive(rng, n, d, rho):
    """AR(1) columns with correlation rho, and a response of which five coefficients explain half."""
    x = rng.standard_normal((n, d))
    for j in range(1, d):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    coef = np.zeros(d)
    coef[rng.choice(d, 5, replace=False)] = rng.standard_normal(5)
    signal = x @ coef
    y = signal + signal.std() * rng.standard_normal(n)
    return replace(problem_of_rows(x, y - y.mean(), nu=n - 1), rows=x)


@pytest.mark.parametrize("dual_from", [0, 4])
@pytest.mark.parametrize("labels", [None, np.array([0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9])])
def test_several_units_come_and_go_with_g(labels, dual_from):
    """The moves of several units alone, beside exchanges and moves of g, give the sizes of sets where many are in."""
    problem = autoregressive(np.random.default_rng(8), 20, 12, 0.9)
    problem = replace(problem, units=units_of(12, labels))
    grid, passes = grid_of(problem, Given()), number(10_000, 2500)
    wanted = enumerate_sets(problem, Given())
    found = Walkers(problem, grid, 16, 12, together_every=2, swap_share=1.0)
    found._struct.dual_from = dual_from
    n_units = problem.units.n
    weights = np.linspace(1.0, 3.0, n_units)
    found.propose(Proposals(weights / weights.sum(), weights[::-1].copy(), weights, weights > 0))
    shares, prob = [], []
    for i in range(16):
        found.start(i, np.arange(i % n_units), 3, np.array([1, 2, 3, i], dtype=np.uint64))
        found.advance(i, 10, 200, Sums.empty(n_units, 12))
        sums = Sums.empty(n_units, 12)
        visits = found.advance(i, 10, passes // 4, sums)
        shares.append(np.bincount(visits.size, minlength=n_units + 1) / visits.size.size)
        prob.append(sums.prob / sums.passes)
    for values, truth in ((shares, wanted.size_prob), (prob, wanted.unit_prob)):
        mean, se = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / 4.0
        assert (np.abs(mean - truth) < WITHIN * np.maximum(se, SHARE)).all()


def test_walkers_go_from_few_to_many_units_and_back():
    """Half of 300 correlated columns, or a few of them, explain the response: walkers do both in a short walk."""
    problem = autoregressive(np.random.default_rng(13), 100, 300, 0.99)
    found = fit_exact(problem, Given(), mcse=1e-6, maxiter=700_000)
    assert found.agreement < 1.2
    assert found.size_prob[100:].sum() > 0.01
    assert found.size_prob[:10].sum() > 0.1


def test_without_units_that_move_there_is_an_answer():
    """Several units are drawn among those that may come in: there are none."""
    problem = make()
    known = Given((np.arange(8) < 2).astype(float))
    found, wanted = fit_exact(problem, known, method="sampler", mcse=0.1), enumerate_sets(problem, known)
    assert np.array_equal(found.unit_prob, wanted.unit_prob)
    assert np.allclose(found.mean, wanted.mean, atol=WITHIN * found.errors.mean.max())
