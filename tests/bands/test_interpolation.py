"""Functions at the nodes of an integral, computed at some of them; lattices, refined until they are fine enough."""

import numpy as np
import pytest
from scipy.special import gammaln

from pybayesridge.bands.interpolation import ACCEPTED, filled
from pybayesridge.bands.lattice import Refinement, Value, foretold_step, grown, refined

TOL = 1e-3
"""Error at which lattices are fine enough."""


def nodes(seed=0, count=600):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3)) * 2
    weight = np.exp(-0.5 * (x**2).sum(axis=1) / 2)
    return x, weight / weight.sum()


def test_smooth_functions_are_computed_at_few_nodes():
    x, weight = nodes()
    values = np.column_stack([np.log1p(np.exp(0.4 * x[:, 0] - 0.2 * x[:, 2])), 0.1 * x @ [1, 2, 3], np.ones(len(x))])
    asked = []

    def function(m):
        asked.append(m)
        return values[m]

    found = filled(x, weight, function)
    assert len(set(asked)) == len(asked) < 200
    np.testing.assert_array_equal(found[asked], values[asked])
    assert (weight @ np.abs(found - values)).max() < ACCEPTED
    np.testing.assert_allclose(found[:, 1:], values[:, 1:], atol=1e-9)


def test_polynomials_of_a_higher_degree_are_tried_before_all_nodes_are_computed():
    x, weight = nodes()
    values = (x[:, [0]] * x[:, [1]]) ** 2 * x[:, [2]]
    asked = []

    def function(m):
        asked.append(m)
        return values[m]

    found = filled(x, weight, function)
    assert len(set(asked)) == len(asked) < len(x) / 2
    np.testing.assert_allclose(found, values, atol=1e-8 * np.abs(values).max())


def test_distances_that_are_likely_to_do_are_gone_to_at_once():
    ladder = np.array([1.3, 1.14, 1.0, 0.84, 0.7])
    assert foretold_step(ladder, 0, 2e-3, 1e-3) == 1
    assert foretold_step(ladder, 0, 9e-3, 1e-3) == 2
    assert foretold_step(ladder, 1, 1.1e-3, 1e-3) == 3
    assert foretold_step(ladder, 0, np.inf, 1e-3) == foretold_step(ladder, 3, 0.1, 1e-3) == 4


def test_functions_that_are_no_polynomials_are_computed_everywhere():
    x, weight = nodes()
    values = np.abs(np.sin(5 * x[:, [0]]))
    np.testing.assert_array_equal(filled(x, weight, lambda m: values[m]), values)


@pytest.mark.parametrize("count", [1, 2, 40])
def test_few_nodes_are_all_computed(count):
    x, weight = nodes(count=count)
    values = np.random.default_rng(1).normal(size=(count, 4))
    np.testing.assert_array_equal(filled(x, weight, lambda m: values[m]), values)


def test_points_that_lines_foretell_to_be_low_are_not_looked_at():
    def density(x):
        value = -0.5 * float(x @ x)
        return Value(value, np.zeros(1), 0.0, x)

    every, _ = grown(density, np.zeros(3), 0.9 * np.eye(3), 10.0)
    spared, _ = grown(density, np.zeros(3), 0.9 * np.eye(3), 10.0, 2.0)
    assert spared.looked_at < every.looked_at
    assert {tuple(each) for each in spared.index} == {tuple(each) for each in every.index}
    found = {}
    grown(density, np.zeros(3), 0.9 * np.eye(3), 5.0, 2.0, found)
    again, _ = grown(density, np.zeros(3), 0.9 * np.eye(3), 10.0, 2.0, found)
    assert {tuple(each) for each in again.index} == {tuple(each) for each in every.index}
    assert again.looked_at == len(found)
    assert again.log_integral == pytest.approx(every.log_integral, abs=1e-12)


@pytest.mark.parametrize(
    "how",
    [
        Refinement((1.1, 0.8, 0.57, 0.4, 0.28, 0.2), early=False, alike=1),
        Refinement((1.3, 1.0, 0.7, 0.5, 0.35, 0.28, 0.2)),
        Refinement((1.3, 1.14, 1.0, 0.84, 0.7, 0.5, 0.35), step=foretold_step, spare=2.0),
    ],
)
def test_the_rough_axis_of_a_lattice_is_refined(how):
    """A normal density of the first coordinate and an exponential tail of the second."""
    calls = []

    def density(x):
        calls.append(x)
        return Value(-0.5 * x[0] ** 2 + 0.5 * x[1] - np.exp(x[1]), np.zeros(1), 0.0, x)

    root = np.diag([1.0, 2.0])
    lattice, kept, error, count = refined(density, np.zeros(2), root, lambda points, kept: kept, TOL, how)
    assert count == len(calls)
    assert lattice.complete
    assert error <= TOL
    np.testing.assert_array_equal(kept, lattice.points)
    exact = 0.5 * np.log(2 * np.pi) + gammaln(0.5)
    assert lattice.log_integral == pytest.approx(exact, abs=TOL)
    steps = np.diag(lattice.root) / np.diag(root)
    assert steps[1] < steps[0]


def test_a_ladder_that_ends_too_early_gives_the_error():
    def density(x):
        return Value(float(0.5 * x[0] - np.exp(x[0])), np.zeros(1), 0.0, x)

    lattice, _, error, _ = refined(
        density, np.zeros(1), 3 * np.eye(1), lambda points, kept: kept, TOL, Refinement((1.3, 1.2))
    )
    assert lattice.root[0, 0] == pytest.approx(3.6)
    assert error > TOL
