"""Enumeration beside long-hand sums over all sets and a fine grid of the hyperparameters."""

from dataclasses import replace

import numpy as np
import pytest

from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given
from pybayesridge.selection.problem import problem_of_rows
from tests.selection.oracle import brute_force, regression

GIVEN = 1e-10  # worst seen 1e-12
LEARNED = 1e-7  # worst seen 1e-9: the oracle's quadrature


def compare(X, y, tol, **known):
    labels, nu = known.get("labels"), known.get("nu")
    given = Given(known.get("p"), known.get("v"), known.get("s2"), known.get("expected_size", 1.0))
    found = enumerate_sets(problem_of_rows(X, y, nu=nu, labels=labels), given)
    exact = brute_force(X, y, **known)
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
    X, y = regression(1, n, d, noise=1e-7 if case == "noiseless" else 1.0, twins=0.05 if case == "twins" else 0.0)
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
