"""The sampler beside enumeration, and its parts beside what is computed from scratch."""

import numpy as np
import pytest

from pybayesridge.selection.collapsed import spectrum
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.factor import Factors
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.odds import eliminate, layout_of, log_odds, new_chains
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.tallies import Tallies, estimate
from tests.effort import number
from tests.selection.oracle import log_marginal, regression

WITHIN = 4.0
FLOOR = 2e-4  # of a standard error: what the errors of tiny probabilities are measured by
DRIFT = 1e-10  # worst seen 1e-13
ODDS = 1e-8  # worst seen 1e-11

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
    found = fit_exact(problem, given, method="sampler", mcse=0.0, maxiter=number(12_000, 3_000))
    z = (found.unit_prob - exact.unit_prob) / np.maximum(found.unit_se, FLOOR)
    assert np.abs(z).max() < WITHIN
    assert abs(found.log_evidence - exact.log_evidence) < max(WITHIN * found.log_evidence_se, 0.01)
    assert np.allclose(
        found.mean, exact.mean, rtol=0, atol=0.1 * np.sqrt(exact.var.max()) + 0.02 * np.abs(exact.mean)
    )
    assert np.allclose(found.size_prob.sum(), 1.0)


def test_always_and_never_stay():
    p = np.array([0.3, 1.0, 0.0, 0.5, 0.2, 1.0, 0.3, 0.3])
    problem = make()
    exact = enumerate_sets(problem, Given(p))
    found = fit_exact(problem, Given(p), method="sampler", maxiter=4_000, mcse=0.0)
    assert found.unit_prob[1] == 1.0
    assert found.unit_prob[2] == 0.0
    assert np.abs((found.unit_prob - exact.unit_prob) / np.maximum(found.unit_se, FLOOR)).max() < WITHIN
    assert all({1, 5} <= set(found.states.set_of(i)) for i in range(found.states.n))
    assert all(2 not in found.states.set_of(i) for i in range(found.states.n))


def test_two_runs_give_the_same_numbers():
    problem = make()
    one, two = (fit_exact(problem, Given(), method="sampler", maxiter=2_000, mcse=0.0, rng=0) for _ in range(2))
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


def test_factor_keeps_up_with_what_comes_and_goes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 12))
    X[:, 7] = X[:, 2]
    problem = problem_of_rows(X, X[:, 0] + rng.standard_normal(30), labels=np.repeat(np.arange(6), 2))
    layout = layout_of(problem)
    factors, fresh = (Factors(problem, 2, layout.columns) for _ in range(2))
    inside = [{1, 3}, set()]
    for c in range(2):
        factors.rebuild(c, spectrum(problem, np.array(sorted(inside[c]), dtype=np.intp)), 0.05)
    for c, j in zip(rng.integers(0, 2, 600).tolist(), rng.integers(0, 12, 600).tolist(), strict=True):
        (factors.remove if j in inside[c] else factors.append)(c, j)
        inside[c] ^= {j}
    for c in range(2):
        fresh.rebuild(c, spectrum(problem, np.array(sorted(inside[c]))), 0.05)
    scale = problem.diag.max()
    assert np.allclose(factors.free, fresh.free, rtol=0, atol=DRIFT * scale)
    assert np.allclose(factors.reach, fresh.reach, rtol=0, atol=DRIFT * scale)
    assert np.allclose(factors.left(), fresh.left(), rtol=DRIFT)
    assert np.allclose(factors.blocks[0], fresh.blocks[0], rtol=0, atol=DRIFT * scale)
    for c in range(2):
        order = np.argsort(factors.members[c])
        for a, b in zip(factors.inside(), fresh.inside(), strict=True):
            assert np.allclose(a[c][order], b[c, : order.size], rtol=1e4 * DRIFT)
    fresh.copy_from(factors, 0)
    assert np.array_equal(fresh.inside()[0][0], factors.inside()[0][0])


def test_factors_of_all_chains_at_once():
    problem = make(twins=0.3)
    rng = np.random.default_rng(6)
    one, all_at_once = (Factors(problem, 3, layout_of(problem).columns) for _ in range(2))
    inside = [set(), {2, 5}, {0}]
    for c, units in enumerate(inside):
        part = spectrum(problem, np.array(sorted(units), dtype=np.intp))
        for factors in (one, all_at_once):
            factors.rebuild(c, part, 0.05)
    for _ in range(200):
        column = rng.integers(0, 8, 3)
        leaves = np.array([j in units for j, units in zip(column.tolist(), inside, strict=True)])
        for change, chain in (
            (all_at_once.remove_each, leaves.nonzero()[0]),
            (all_at_once.append_each, (~leaves).nonzero()[0]),
        ):
            if chain.size:
                change(chain, column[chain])
        for c, (j, out) in enumerate(zip(column.tolist(), leaves.tolist(), strict=True)):
            (one.remove if out else one.append)(c, j)
            inside[c] ^= {j}
    assert [set(m) for m in all_at_once.members] == inside
    scale = problem.diag.max()
    assert np.allclose(all_at_once.free, one.free, rtol=0, atol=DRIFT * scale)
    assert np.allclose(all_at_once.reach, one.reach, rtol=0, atol=DRIFT * scale)
    assert np.allclose(all_at_once.left(), one.left(), rtol=DRIFT)


@pytest.mark.parametrize(("mine", "its"), [(20, 17), (17, 20), (3, 40), (40, 9), (33, 18)])
def test_factorisations_of_any_size_are_copied(mine, its):
    problem = make(n=60, d=48)
    first, second = (Factors(problem, 2, []) for _ in range(2))
    for j in range(mine):
        first.append(0, j)
    second.rebuild(1, spectrum(problem, np.arange(its)), 1.0)
    second.rebuild(0, spectrum(problem, np.arange(its)), 1.0)
    first.copy_from(second, 0)
    np.testing.assert_array_equal(first.reach[0], second.reach[0])
    for j in range(its, 48):
        first.append(0, j)
    whole = Factors(problem, 1, [])
    whole.rebuild(0, spectrum(problem, np.arange(48)), 1.0)
    np.testing.assert_allclose(first.reach[0], whole.reach[0], rtol=0, atol=DRIFT)
    np.testing.assert_allclose(first.free[0], whole.free[0], rtol=0, atol=DRIFT * problem.diag.max())


@pytest.mark.parametrize("labels", [None, np.array([0, 0, 1, 2, 2, 2, 3])])
@pytest.mark.parametrize("s2", [None, 0.7])
def test_log_odds_are_differences_of_log_marginals(labels, s2):
    X, y = regression(12, 15, 7)
    problem = problem_of_rows(X, y, labels=labels)
    of = np.arange(7) if labels is None else labels
    n_units = int(of.max()) + 1
    p = np.linspace(0.2, 0.5, n_units)[of]
    v = 0.6
    grid = grid_of(problem, Given(p, v, s2))
    chains = new_chains(problem, grid, 1, 7)
    inside = np.array([0, 2])
    chains.node[0] = grid.log_g.size // 2
    g = float(np.exp(grid.log_g[chains.node[0]]))
    chains.factors.rebuild(0, spectrum(problem, problem.units.columns(inside)), 1.0 / g)
    chains.state[0, inside] = True
    chains.n_in[0] = 2
    noise = v / g if s2 is None else s2
    found = log_odds(chains).value[0]
    for j in range(n_units):
        with_j, without = np.isin(of, np.union1d(inside, [j])), np.isin(of, np.setdiff1d(inside, [j]))
        gain = log_marginal(X, y, 15, with_j, g, noise)[0] - log_marginal(X, y, 15, without, g, noise)[0]
        odds = np.log(p[of == j][0] / (1 - p[of == j][0]))
        assert np.isclose(found[j], gain + odds, rtol=0, atol=ODDS)


def test_elimination_of_many_small_systems():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 4, 4))
    blocks, right = root @ root.transpose(0, 2, 1) + np.eye(4), rng.standard_normal((5, 4))
    log_det, gain = eliminate(blocks, right)
    for s, r, a, b in zip(blocks, right, log_det, gain, strict=True):
        assert np.isclose(a, np.linalg.slogdet(s)[1], rtol=1e-10)
        assert np.isclose(b, r @ np.linalg.solve(s, r), rtol=1e-10)


def test_standard_errors_are_right():
    """Errors of several runs, in standard errors, have variance 1."""
    problem, given = make(twins=0.3), Given(np.full(8, 0.25), 0.8, 1.2)
    exact = enumerate_sets(problem, given)
    z = []
    for seed in range(12):
        found = fit_exact(problem, given, method="sampler", mcse=0.0, maxiter=number(4_000, 2_000), rng=seed)
        z.append((found.unit_prob - exact.unit_prob) / found.unit_se)
    # Columns are dependent, runs are not: 12 runs or more for a chi-square between 0.3 and 2.4 times its mean.
    assert 0.3 < np.mean(np.square(z)) < 2.4


def test_a_limit_of_the_size_of_sets_is_said(monkeypatch):
    problem = make(n=60, noise=0.1, size=6)
    whole = fit_exact(problem, Given(), method="sampler", mcse=0.1)
    assert whole.size_limit is None
    assert whole.converged
    for module in ("walk", "fit", "starts"):
        monkeypatch.setattr(f"pybayesridge.selection.{module}.largest_set", lambda problem, n_chains: 4)
    found = fit_exact(problem, Given(), method="sampler", mcse=0.1)
    assert found.size_limit == 4
    assert found.states.sizes.max() <= 4
    assert not found.converged


def test_chains_that_disagree_run_on(monkeypatch):
    problem = make(twins=0.3)
    agreed = fit_exact(problem, Given(), method="sampler", mcse=0.1, maxiter=24_000)
    assert agreed.converged
    assert agreed.n_iter < 24_000
    monkeypatch.setattr("pybayesridge.selection.sampler.AGREEMENT", 0.5)
    found = fit_exact(problem, Given(), method="sampler", mcse=0.1, maxiter=24_000)
    assert found.n_iter > agreed.n_iter
    assert not found.converged


def test_standard_errors_of_dependent_batches():
    """Averages of autoregressive series whose batches of 64 steps are dependent: errors in standard errors."""
    rng = np.random.default_rng(4)
    steps, chains, series, rho = 1024, 4, 400, 0.96
    tallies, now = Tallies(chains, series), rng.standard_normal((chains, series))
    for _ in range(steps):
        tallies.add(np.ones(chains), 0.5 + 0.01 * now)
        now = rho * now + np.sqrt(1 - rho**2) * rng.standard_normal((chains, series))
    found = estimate(tallies)
    z = (found.prob - 0.5) / found.se
    # Without the batches' dependence 1.31, of independent ones 1; sd of the sd 0.04.
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.2
