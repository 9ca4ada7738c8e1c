"""The posterior of log t2 beside grids over intercept, coefficient and log t2."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaln

from pybayesridge.binomial import integrate as integration
from pybayesridge.binomial.integrate import integrate
from pybayesridge.ridge.prior import BetaPrime
from tests.binomial import brute_force
from tests.binomial.problems import columns, nodes, problem, responses, standardized
from tests.effort import share

MEAN_TOL = 0.05
"""EP is an approximation: its distance from the posterior, in posterior standard deviations."""

VARIATION_TOL = 0.015
RULE_TOL = 1e-5


def log_prior(l, scale, a=0.5, b=0.5):
    u = l - np.log(scale)
    return a * u - (a + b) * np.logaddexp(0, u) - betaln(a, b)


@pytest.mark.parametrize(("link", "scale"), share([("logit", np.pi**2 / 3), ("probit", 1.0)], 2))
def test_one_column_with_t2_integrated_out(link, scale):
    x = columns(40, 1, 12)
    y = responses(x, 12)
    found = integrate(nodes(*problem(x, y, link=link)), tol=1e-7, maxiter=5)
    grid = np.linspace(-12, 14, 40)
    exact = [brute_force.posterior(y, 1 - y, link, standardized(x), np.exp(l)) for l in grid]
    density = np.exp([e[0] + log_prior(l, scale) for e, l in zip(exact, grid, strict=True)])
    mass = density.sum() * (grid[1] - grid[0])
    weight = density / density.sum()
    mean = sum(w * e[1][1] for w, e in zip(weight, exact, strict=True))
    second = sum(w * (e[2][1, 1] + e[1][1] ** 2) for w, e in zip(weight, exact, strict=True))
    sd = np.sqrt(second - mean**2)
    column = standardized(x)[:, 0]
    slopes = np.array([column @ node.mean / 40 for node in found.nodes])
    assert found.converged
    assert abs(found.weight @ slopes - mean) <= MEAN_TOL * sd
    assert found.log_integral == pytest.approx(np.log(mass), abs=0.05)
    every = nodes(*problem(x, y, link=link))
    own = np.exp([every.log_density(float(l)) for l in grid])
    assert 0.5 * np.abs(own / own.sum() - weight).sum() <= VARIATION_TOL


@pytest.mark.parametrize("solver", ["ep", "laplace"])
@pytest.mark.parametrize(("n", "p", "signal"), [(60, 5, 2.0), (60, 5, 0.0), (150, 20, 1.5)])
def test_the_rule_has_the_error_that_it_states(solver, n, p, signal):
    x = columns(n, p, 20 + p)
    every = nodes(*problem(x, responses(x, 20, signal=signal)), solver=solver, tol=1e-8)
    found = integrate(every, tol=1e-6, maxiter=5)
    fine = np.linspace(found.log_t2[0] - 2, found.log_t2[-1] + 2, 121)
    density = np.array([every.log_density(float(l)) for l in fine])
    step = fine[1] - fine[0]
    total = np.log(np.exp(density - density.max()).sum() * step) + density.max()
    assert found.converged
    assert found.log_integral == pytest.approx(total, abs=RULE_TOL)


def test_an_improper_posterior_is_refused():
    """With more columns than rows the evidence grows as the root of t2, the range of a flat intercept."""
    x = columns(20, 40, 1)
    every = nodes(*problem(x, responses(x, 1)))
    with pytest.raises(ValueError, match="improper"):
        integrate(every, tol=1e-6, maxiter=4)


def test_flat_on_the_latent_scale_is_proper_for_any_columns():
    x = columns(20, 40, 1)
    found = integrate(nodes(*problem(x, responses(x, 1)), flat_in="latent"), tol=1e-6, maxiter=5)
    assert found.converged
    assert found.fall == pytest.approx(0.5, abs=1e-3)
    assert found.weight.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("b", [0.75, 1.0, 2.0])
def test_the_density_falls_as_the_prior_and_the_separation_say(b):
    x = columns(20, 40, 1)
    found = integrate(nodes(*problem(x, responses(x, 1)), prior=BetaPrime(0.5, b, None)), tol=1e-6, maxiter=5)
    assert found.fall == pytest.approx(b - 0.5, abs=1e-3)


@pytest.mark.parametrize("flat_in", ["link", "latent"])
def test_laplace_integrates_where_the_columns_separate(flat_in):
    """Laplace's evidence falls where EP's does not: its mode runs away with t2."""
    x = np.random.default_rng(1).standard_normal((60, 200))
    found = integrate(nodes(*problem(x, responses(x, 2)), solver="laplace", flat_in=flat_in), tol=1e-6, maxiter=5)
    assert found.converged


@pytest.mark.parametrize(
    ("change", "weight", "enough"),
    [(0.01, 1e-13, True), (1e-5, 1e-8, True), (0.01, 1e-6, False), (1.0, 1e-13, False)],
)
def test_nodes_of_negligible_weight_need_not_settle_to_all_digits(change, weight, enough):
    x = columns(30, 1, 3)
    space, likelihood = problem(x, responses(x, 3))
    node = nodes(space, likelihood).at(0.0)
    assert integration._settled(node, 1.0)
    assert integration._settled(replace(node, converged=False, change=change), weight) == enough
