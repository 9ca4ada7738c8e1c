"""Starts of approximations from those at other t2."""

from dataclasses import replace

import numpy as np
import pytest

from pybayesridge.poisson.negative_binomial import from_counts
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.laplace import laplace
from pybayesridge.sites.nodes import ASTRAY, _smoothed
from tests.binomial.problems import columns, nodes, problem, responses

AGAIN = 1e-4
"""Differences of linear predictors that come from other starts."""

CLOSE = 0.05
"""Of linear predictors that others start from, where values of a further parameter are .2 apart."""

ROUGH = (0.3, 0.02)
"""Accuracy of a mode, and of the evidence there, which is off by about the square; .005 is the most seen."""

AWAY = np.array([-4.0, -2.5, -1.0, -0.3, 0.6, 1.5, 3.0])


def test_a_straight_line_is_continued():
    weights = _smoothed(AWAY, np.full(AWAY.size, 1e-4))
    assert weights @ (3.0 - 2.0 * AWAY) == pytest.approx(3.0, abs=1e-9)


def test_a_node_of_little_accuracy_hardly_counts():
    error = np.where(AWAY == -0.3, 1e-1, 1e-5)
    value = np.sin(AWAY / 2) + np.where(AWAY == -0.3, 1e-1, 0.0)
    found = _smoothed(AWAY, error) @ value
    assert abs(found) <= 5e-3
    assert abs(_smoothed(AWAY, np.full(AWAY.size, 1e-5)) @ value) > 1e-2


def test_stripped_approximations_are_found_again():
    """What others start from is left of them, and their evidence; asked for, they have their rows again."""
    x = columns(60, 3, seed=1)
    found, other = (nodes(*problem(x, responses(x, seed=1)), solver="ep") for _ in range(2))
    before = [found.at(place) for place in (-1.0, 0.0)]
    found.strip()
    assert all(node.mean.size == 0 for node in found.found)
    assert [node.log_evidence for node in found.found] == [node.log_evidence for node in before]
    np.testing.assert_allclose(found.at(0.0).mean, before[1].mean, atol=AGAIN)
    np.testing.assert_allclose(found.at(-0.5).mean, other.at(-0.5).mean, atol=AGAIN)
    assert found.log_t2 == [-1.0, -0.5, 0.0]


def test_values_of_a_further_parameter_start_from_each_other():
    """Where another value has a node what that starts from is taken, with what the two differ by at other t2."""
    x = columns(80, 3, seed=2)
    y = np.random.default_rng(2).poisson(np.exp(0.5 + 0.5 * x[:, 0]) * 1.5).astype(float)
    space, _ = problem(x, responses(x, seed=2))
    first, second, alone = (
        nodes(space, from_counts(y, None, None, alpha), solver="laplace") for alpha in (0.5, 0.6, 0.6)
    )
    second.near = (first,)
    for place in (-2.0, -1.0, 0.0):
        first.at(place)
    second.at(-2.0)
    for place in (-1.0, 0.0, -0.5):
        wanted = alone.at(place)
        rows = space.scaled(place)
        start = rows.times(second.start(place) / rows.units)
        np.testing.assert_allclose(start, wanted.mean, atol=CLOSE)


@pytest.mark.parametrize("place", [-2.0, 0.5])
def test_the_evidence_of_a_rough_mode_is_right_to_second_order(place):
    x = columns(40, 6, seed=3)
    space, likelihood = problem(x, responses(x, seed=3))
    sure = laplace(space, likelihood, place, None, tol=1e-9, maxiter=100)
    direction = np.random.default_rng(0).standard_normal(sure.center.size)
    gaussian = sure.gaussian(space)
    step = space.scaled(place).units * direction * 0.5 * ROUGH[0] / gaussian.length(direction)
    found = laplace(space, likelihood, place, sure.center + step, tol=ROUGH[0], maxiter=100)
    assert found.n_iter == 1
    assert found.change > 0.1
    assert found.log_evidence == pytest.approx(sure.log_evidence, abs=ROUGH[1])


def test_sweeps_that_were_led_astray_begin_again_from_the_mode(monkeypatch):
    """Where they end far from rest the evidence may be anything, and would have all of the weight."""
    x = columns(40, 4, seed=3)
    of = problem(x, responses(x, seed=3))
    found, astray = (nodes(*of, solver="ep") for _ in range(2))

    def sweeps(space, likelihood, log_t2, start, **options):
        out = expectation_propagation(space, likelihood, log_t2, start, **options)
        return out if start is None else replace(out, converged=False, change=2 * ASTRAY, log_evidence=1e6)

    found.at(-3.0)
    astray.at(-3.0)
    monkeypatch.setattr("pybayesridge.sites.nodes.expectation_propagation", sweeps)
    node = astray.at(0.8)
    monkeypatch.undo()
    assert node.converged
    assert node.log_evidence == pytest.approx(found.at(0.8).log_evidence, abs=AGAIN)
