"""Integrals over the penalties of many targets at shared nodes, compared with those of each target alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from pybayesridge import BayesRidge
from pybayesridge.ridge.density import log_density
from pybayesridge.ridge.fit import penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import effective_directions, mean_coefficients, moment_factors
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.profile import penalized_rss
from pybayesridge.ridge.quadrature import integrate, mixture
from pybayesridge.ridge.shared_nodes import integrate_together
from pybayesridge.ridge.spectrum import rotate
from pybayesridge.ridge.trust import expected_loss

TOL = 1e-10
"""Asked of both integrals."""

CLOSE = 1e-8
"""Between integrals with different nodes; the worst seen is 3e-10."""

FEW = 1e-3
"""Asked of the fewest nodes."""

ENDS = 2e-7
"""What is left out beyond the ends of the fewest nodes; the most seen is 2e-8."""

FEWER = 0.5
"""Share of the nodes that are evenly spaced that the fewest are, at most; the largest seen is 0.31."""

SAME = 1e-10
"""Between matrix products and sums for each target at the same nodes."""

SETTINGS = {
    "long": (60, 8, {}, BetaPrime()),
    "wide": (15, 30, {}, BetaPrime()),
    "square": (12, 11, {}, BetaPrime(0.5, 0.5, None)),
    "known noise": (40, 6, {"sigma2": 0.7}, BetaPrime()),
    "light tails": (30, 5, {}, BetaPrime(2.0, 3.0)),
}


def problem_of(name):
    """The rotation of targets from none to very strong signals, and the model of their penalties."""
    n, p, known, prior = SETTINGS[name]
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, p))
    y = x @ (rng.normal(size=(p, 6)) * np.array([0.0, 0.02, 0.3, 1.0, 20.0, 3e3])) + rng.normal(size=(n, 6))
    design, products = BayesRidge(y, x)._build()
    spectrum = rotate(design, products)
    return spectrum, penalty_model(design, spectrum, prior, GaussianNoise(**known))


@pytest.mark.parametrize("name", SETTINGS)
def test_shared_nodes_have_the_integrals_of_each_target_alone(name):
    spectrum, model = problem_of(name)
    found = integrate_together(spectrum, model, tol=TOL, maxiter=14)
    own = integrate(spectrum, model, tol=TOL, maxiter=14)
    assert found is not None
    assert found.converged.all()
    assert np.abs(found.log_integral - own.log_integral).max() < CLOSE
    assert np.abs(found.weight.sum(axis=0) - 1).max() < SAME
    many, each = (mixture(spectrum, model, one) for one in (found, own))
    assert np.abs(mean_coefficients(spectrum, many) - mean_coefficients(spectrum, each)).max() < CLOSE
    assert np.abs(effective_directions(spectrum, many) / effective_directions(spectrum, each) - 1).max() < CLOSE
    one, other = (moment_factors(spectrum, some, 5) for some in (many, each))
    assert np.abs(one.inside / other.inside - 1).max() < CLOSE
    assert np.abs(one.noise / other.noise - 1).max() < CLOSE
    assert np.abs(one.outside / other.outside - 1).max() < 100 * CLOSE


def test_the_log_integral_of_a_target_is_that_of_an_adaptive_rule():
    spectrum, model = problem_of("long")
    found = integrate_together(spectrum, model, tol=TOL, maxiter=14)
    assert found is not None
    for target in range(6):
        only = np.array([target])
        one, own = spectrum.of_targets(only), model.only(only)
        top = found.log_integral[target]

        def density(log_t2, one=one, own=own, top=top):
            return float(np.exp(log_density(one, own, np.array([[log_t2]]))[0, 0] - top))

        pieces = [quad(density, low, low + 4.0, epsabs=1e-12, limit=200)[0] for low in np.arange(-90.0, 60.0, 4.0)]
        assert abs(sum(pieces) - 1) < CLOSE


def test_products_at_shared_nodes_equal_sums_for_each_target():
    spectrum, model = problem_of("long")
    found = integrate_together(spectrum, model, tol=TOL, maxiter=14)
    assert found is not None
    shared = mixture(spectrum, model, found)
    assert shared.log_t2.strides[1] == 0
    for target in range(6):
        only = np.array([target])
        one, alone = spectrum.of_targets(only), shared.of_targets(only)
        assert np.abs(penalized_rss(one, alone.log_t2)[:, 0] / (shared.scale2[:, target] * 59) - 1).max() < SAME
        assert (
            np.abs(mean_coefficients(one, alone)[:, 0] - mean_coefficients(spectrum, shared)[:, target]).max() < SAME
        )
        first, second = moment_factors(one, alone, 5), moment_factors(spectrum, shared, 5)
        assert np.abs(first.inside[:, 0] / second.inside[:, target] - 1).max() < SAME
        assert abs(effective_directions(one, alone)[0] / effective_directions(spectrum, shared)[target] - 1) < SAME
    each = max(
        expected_loss(spectrum.of_targets(np.array([i])), 59, shared.of_targets(np.array([i]))) for i in range(6)
    )
    assert abs(expected_loss(spectrum, 59, shared) / each - 1) < 1e-6


@pytest.mark.parametrize("name", SETTINGS)
def test_the_fewest_nodes_are_as_accurate_as_they_say(name):
    spectrum, model = problem_of(name)
    fewest, every = (integrate_together(spectrum, model, tol=FEW, maxiter=14, fewest=few) for few in (True, False))
    own = integrate(spectrum, model, tol=TOL, maxiter=14)
    assert fewest is not None
    assert every is not None
    assert len(fewest.log_t2) < FEWER * len(every.log_t2)
    assert fewest.converged.all()
    assert (np.abs(fewest.log_integral - own.log_integral) <= fewest.error + ENDS).all()
    left = effective_directions(spectrum, mixture(spectrum, model, fewest))
    right = effective_directions(spectrum, mixture(spectrum, model, own))
    assert np.abs(left - right).max() <= FEW * spectrum.rank
    assert fewest.rss is not None
    assert np.abs(fewest.rss / penalized_rss(spectrum, fewest.log_t2) - 1).max() < SAME


def test_a_tail_without_an_end_is_left_to_each_target_alone():
    spectrum, model = problem_of("long")
    assert integrate_together(spectrum, replace(model, a=1e-3), tol=TOL, maxiter=14) is None


def test_too_few_doublings_are_told():
    spectrum, model = problem_of("long")
    found = integrate_together(spectrum, model, tol=1e-15, maxiter=1)
    assert found is not None
    assert not found.converged.all()
