"""Enumeration beside long-hand sums over all sets and a fine grid of the hyperparameters."""

from dataclasses import replace

import numpy as np
import pytest

from pybayesridge import SpikeSlab
from pybayesridge.selection.enumeration import QUADRATURE_TOL, _marginals, enumerate_sets, joint_table
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.problem import problem_of_rows
from tests.selection.oracle import brute_force, regression

KNOWN_NOISE = 2e-3  # worst seen 2e-4
GIVEN = 1e-10  # worst seen 1e-12
LEARNED = 1e-7  # worst seen 1e-9: the oracle's quadrature

TRAPEZOIDS = 1e-8  # worst seen 5e-11
COARSE = 1e-7  # the sampler's grid, which is not refined; worst seen 2e-10
STRONG = 1e-8  # worst seen 1e-10


def compare(X, y, tol, **known):
    labels, nu = known.get("labels"), known.get("nu")
    given = Given(known.get("p"), known.get("v"), known.get("s2"), known.get("expected_size", 1.0))
    found = enumerate_sets(problem_of_rows(X, y, nu=nu, labels=labels), given)
    exact = brute_force(X, y, eta_high=found.grid.prior.eta_high, **known)
    assert np.allclose(found.inclusion_prob, exact.prob, rtol=0, atol=tol)
    assert np.isclose(found.log_evidence, exact.log_evidence, rtol=0, atol=tol * max(abs(exact.log_evidence), 1))
    scale = np.sqrt(exact.square.max())
    assert np.allclose(found.mean / scale, exact.mean / scale, rtol=0, atol=tol)
    assert np.allclose((found.var + found.mean**2) / scale**2, exact.square / scale**2, rtol=0, atol=tol)
    return found


@pytest.mark.parametrize("s2", [None, 0.8])
@pytest.mark.parametrize("case", ["plain", "twins", "wide", "noiseless", "pure noise", "zero column", "copy"])
def test_with_g_and_p_given(case, s2):
    n, d = (4, 7) if case == "wide" else (20, 6)
    # The oracle's residual sums of squares have few digits where there is no noise.
    noise = {"noiseless": 1e-7 if s2 is not None else 1e-3}.get(case, 1.0)
    X, y = regression(1, n, d, noise=noise, twins=0.05 if case == "twins" else 0.0)
    if case == "pure noise":
        y = np.random.default_rng(5).standard_normal(n)
    if case == "zero column":
        X[:, 3] = 0.0
    if case == "copy":
        X[:, 4] = X[:, 0]
    p = np.linspace(0.1, 0.6, d)
    known = {"p": p, "v": 0.9, "s2": s2} if s2 is not None else {"p": p}
    compare(X, y, GIVEN if s2 is not None else LEARNED, **known)


@pytest.mark.parametrize(("v", "s2"), [(None, None), (0.7, None), (None, 1.3), (0.7, 1.3)])
@pytest.mark.parametrize("size", [1.0, 2.5])
def test_with_learned_hyperparameters(v, s2, size):
    X, y = regression(2, 12, 4, twins=0.1)
    found = compare(X, y, LEARNED, v=v, s2=s2, expected_size=size)
    assert found.converged


@pytest.mark.parametrize("v", [1e-3, 1e3, 1e6])
@pytest.mark.parametrize("s2", [None, 0.8])
def test_slabs_far_from_the_scale_of_the_data(v, s2):
    """Neither the noise nor the prior of p follows a slab that is much too narrow or wide."""
    X, y = regression(2, 12, 4, twins=0.1)
    found = compare(X, y, LEARNED, v=v, s2=s2)
    assert found.converged
    probabilities = np.full(4, 0.5)
    assert compare(X, y, LEARNED, p=probabilities, v=v, s2=s2).converged


@pytest.mark.parametrize("v", [0.05, 0.7])
def test_a_given_slab_whose_columns_can_fit_the_response_exactly(v):
    X, y = regression(7, 5, 6)
    compare(X, y, LEARNED, v=v)


@pytest.mark.parametrize("p", [None, np.full(4, 0.3)], ids=["p learned", "p given"])
@pytest.mark.parametrize("v", [0.002, 0.5, 500.0])
def test_many_rows_make_a_learned_noise_a_given_one(p, v):
    """The prior of p is the same whether s2 is given or known by the data."""
    X, y = regression(6, 20_000, 4, size=1)
    y -= 0.69 * X[:, 0]
    problem = problem_of_rows(X, y)
    learned = enumerate_sets(problem, Given(p, v, None))
    noise = learned.states.weight @ learned.states.mean_noise()
    given = enumerate_sets(problem, Given(p, v, noise))
    assert np.abs(learned.unit_prob - given.unit_prob).max() < KNOWN_NOISE


def test_always_and_never():
    X, y = regression(3, 15, 6)
    found = compare(X, y, GIVEN, p=np.array([0.3, 1.0, 0.0, 0.5, 0.2, 1.0]), v=1.0, s2=0.5)
    assert found.inclusion_prob[1] == 1.0
    assert found.inclusion_prob[2] == 0.0
    compare(X, y, LEARNED, p=np.array([0.3, 1.0, 0.0, 0.5, 0.2, 1.0]))


@pytest.mark.parametrize("known", [{"p": np.repeat([0.2, 0.5, 0.4], [2, 1, 3]), "v": 0.8, "s2": 1.1}, {}])
def test_groups(known):
    X, y = regression(4, 15, 6, twins=0.2)
    compare(X, y, GIVEN if known else LEARNED, labels=np.array([0, 0, 1, 2, 2, 2]), **known)


def test_groups_need_not_be_neighbours():
    X, y = regression(5, 15, 5)
    labels = np.array([2, 0, 2, 1, 0])
    compare(X, y, LEARNED, labels=labels)


def test_degrees_of_freedom():
    X, y = regression(6, 15, 4)
    compare(X, y, LEARNED, nu=12.0)


def test_columns_of_cross_products_on_demand_give_the_same():
    X, y = regression(7, 15, 5)
    problem = problem_of_rows(X, y)
    held = enumerate_sets(problem, Given())
    on_demand = enumerate_sets(replace(problem, gram=None, rows=X), Given())
    assert np.allclose(held.inclusion_prob, on_demand.inclusion_prob, rtol=0, atol=GIVEN)


def test_units_of_the_response_and_order_of_columns_do_not_matter():
    X, y = regression(8, 15, 6)
    order = np.array([3, 1, 5, 0, 2, 4])
    base = enumerate_sets(problem_of_rows(X, y), Given())
    other = enumerate_sets(problem_of_rows(X[:, order], 1e3 * y), Given())
    assert np.allclose(base.inclusion_prob[order], other.inclusion_prob, rtol=0, atol=GIVEN)
    assert np.allclose(1e3 * base.mean[order], other.mean, rtol=0, atol=1e3 * GIVEN)


def test_fifteen_columns_are_summed_over_and_sixteen_sampled():
    X, y = regression(9, 30, 16)
    p = np.full(16, 0.1)
    assert fit_exact(problem_of_rows(X[:, :15], y), Given(p[:15], 1.0, 1.0)).method == "enumeration"
    assert fit_exact(problem_of_rows(X, y), Given(p, 1.0, 1.0), maxiter=400).method == "sampler"
    p[3] = 1.0
    assert fit_exact(problem_of_rows(X, y), Given(p, 1.0, 1.0)).method == "enumeration"


def test_kept_states_have_the_moments():
    X, y = regression(10, 20, 5)
    found = enumerate_sets(problem_of_rows(X, y), Given(np.full(5, 0.3), 1.0, 1.0))
    states = found.states
    mean = np.bincount(states.columns, states.weight[states.of_state] * states.coef, minlength=5)
    assert np.allclose(mean, found.mean, rtol=0, atol=1e-7)
    assert np.isclose(states.weight.sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n", [60, 3000, 200_000])
def test_many_rows_with_a_given_slab_and_learned_noise(n):
    """By the trapezoidal rule in log s2, whose posterior is the narrower the more rows there are."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4))
    y = 3.0 / np.sqrt(n) * (X[:, 0] + X[:, 1]) + rng.standard_normal(n)
    v, p, nu = 0.4, np.full(4, 0.3), float(n - 1)
    problem = problem_of_rows(X, y, nu=nu)
    exact = enumerate_sets(problem, Given(p, v, None))
    assert exact.quadrature_error <= QUADRATURE_TOL
    gram, cross, yy = X.T @ X, X.T @ y, y @ y
    sd = np.sqrt(2 / nu)
    log_s2 = np.log(yy / nu) + np.linspace(-30, 30, 4001) * sd
    s2 = np.exp(log_s2)
    grid = grid_of(problem, Given(p, v, None))
    prior = grid.prior.log_density(None, np.log(v), log_s2)
    log_joint = np.empty((16, s2.size))
    sets = [np.flatnonzero([code >> j & 1 for j in range(4)]) for code in range(16)]
    for code, inside in enumerate(sets):
        own, axes = np.linalg.eigh(gram[np.ix_(inside, inside)])
        square = (axes.T @ cross[inside]) ** 2
        left = yy - (square[:, None] / (own[:, None] + s2 / v)).sum(axis=0)
        log_det = np.log1p(own[:, None] * v / s2).sum(axis=0)
        log_prior = inside.size * np.log(0.3) + (4 - inside.size) * np.log(0.7)
        log_joint[code] = prior + log_prior - 0.5 * (nu * np.log(2 * np.pi * s2) + left / s2 + log_det)
    joint = np.exp(log_joint - log_joint.max())
    of_set = joint.sum(axis=1) / joint.sum()
    truth = np.array([sum(of_set[c] for c in range(16) if j in sets[c]) for j in range(4)])
    assert np.abs(exact.unit_prob - truth).max() < TRAPEZOIDS
    coarse = _marginals(grid, joint_table(problem, grid))[0]
    assert np.abs(coarse - truth).max() < COARSE


def test_no_probability_exceeds_one():
    """Sums of probabilities of sets do, by rounding, in a quarter of such data sets."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((25, 4))
        y = x @ np.arange(5.0, 25.0, 5.0) + 0.01 * rng.standard_normal(25)
        res = SpikeSlab(y, x).fit("exact")
        assert res.inclusion_prob.max() <= 1.0
        assert res.pair_inclusion(["x1", "x2", "x3", "x4"]).to_numpy().max() <= 1.0
        assert res.models(3)["probability"].max() <= 1.0
        assert res.credible_sets()["probability"].max() <= 1.0


def test_columns_that_others_span_under_next_to_no_noise():
    """What they leave of a column's square is rounding, which can be negative and larger than k."""
    rng = np.random.default_rng(603)
    X = rng.standard_normal((9, 11)) * 10.0
    y = X[:, 0] - X[:, 1] + 1e-6 * rng.standard_normal(9)
    problem = problem_of_rows(X, y)
    with np.errstate(invalid="raise"):
        found = enumerate_sets(problem, Given(np.full(11, 0.2), 1e3, 1e-12))
    assert np.isfinite(found.log_evidence)
    assert np.isfinite(found.unit_prob).all()


def test_standard_deviations_of_strong_signals_are_not_lost():
    """A single set has all of the probability: the moments are those of one regression."""
    X, y = regression(12, 30, 3, noise=0.0)
    y = X @ np.array([1.0, -2.0, 3.0]) + 1e-6 * np.random.default_rng(12).standard_normal(30)
    p, v, s2 = np.full(3, 0.5), 1.0, 1e-12
    found = enumerate_sets(problem_of_rows(X, y), Given(p, v, s2))
    wanted = s2 * np.diag(np.linalg.inv(X.T @ X + s2 / v * np.eye(3)))
    assert np.allclose(found.var / wanted, 1.0, rtol=0, atol=STRONG)
    assert np.allclose(found.cond_var / wanted, 1.0, rtol=0, atol=STRONG)
