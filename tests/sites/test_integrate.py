"""The posterior of log t2 beside grids over intercept, coefficient and log t2."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaln

from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites import integrate as integration
from pybayesridge.sites.fit import SITE_TOL
from pybayesridge.sites.integrate import integrate
from tests.binomial import brute_force
from tests.binomial.problems import columns, nodes, problem, responses, standardized
from tests.effort import pairs, share

MEAN_TOL = 0.05
"""EP is an approximation: its distance from the posterior, in posterior standard deviations."""

VARIATION_TOL = 0.015
RULE_TOL = 1e-5

OF_SITES = 3e-6
"""What the integral and the mean are off by because the approximations at the nodes are."""

STEP, SLOPE_TOL = 1e-3, 1e-5


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


def rare_events():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((1000, 6)), np.zeros(1000)
    y[np.argsort(x[:, 0] + rng.standard_normal(1000))[-5:]] = 1
    return problem(x, y)


def separated(p):
    x = columns(40, p, 8)
    return problem(x, (x[:, 0] > np.median(x[:, 0])).astype(float))


def counted(n, p, signal, trials):
    x = columns(n, p, 2)
    count = np.random.default_rng(3).integers(trials, 5 * trials, n)
    return problem(x, responses(x, 3, signal=signal, trials=count), trials=count)


def weighted():
    x = columns(50, 5, 2)
    return problem(x, responses(x, 3), weights=np.random.default_rng(4).uniform(0.2, 30, 50))


def plain(n, p, signal=1.0):
    x = columns(n, p, 20 + p)
    return problem(x, responses(x, 20, signal=signal))


NASTY = {
    "rare events": rare_events,
    "separated by one column": lambda: separated(1),
    "separated by one of three": lambda: separated(3),
    "thousands of trials": lambda: counted(40, 4, 1.5, 1000),
    "thousands of trials, no signal": lambda: counted(12, 1, 0.02, 1000),
    "weights": weighted,
    "one column": lambda: plain(40, 1, 1.5),
    "one column, no signal": lambda: plain(40, 1, 0.0),
    "ten rows": lambda: plain(10, 1),
    "many more columns than rows": lambda: plain(10, 300),
    "a narrow density": lambda: plain(2000, 40),
}


@pytest.mark.parametrize(("solver", "case"), pairs(["ep", "laplace"], list(NASTY), 3))
def test_the_stated_error_is_right_in_nasty_cases(solver, case):
    """Beside even nodes in log t2 and geometric series for the tails."""
    space, likelihood = NASTY[case]()
    every = nodes(space, likelihood, solver=solver, flat_in="latent", tol=1e-7)
    found = integrate(nodes(space, likelihood, solver=solver, flat_in="latent", tol=SITE_TOL), tol=1e-6, maxiter=5)
    middle, reach = every.prior.log_scale, 35.0 if solver == "ep" else 25.0
    low, high = max(found.log_t2[0] - 2, middle - reach), min(found.log_t2[-1] + 2, middle + reach)
    l = np.linspace(low, high, 161)
    h = l[1] - l[0]
    density = np.array([every.log_density(float(x)) for x in l])
    mass = np.exp(density - density.max())
    rates = np.array([every.prior.a, found.fall if found.separated else -every.slope(float(l[-1]))])
    beyond = mass[[0, -1]] / np.expm1(rates * h)
    centers = l[[0, -1]] + np.array([-1.0, 1.0]) * h / -np.expm1(-rates * h)
    total = mass.sum() + beyond.sum()
    mean = (mass @ l + beyond @ centers) / total
    assert found.converged
    assert abs(found.log_integral - (np.log(total * h) + density.max())) <= found.error + OF_SITES
    assert abs(found.mean - mean) <= found.error + OF_SITES


@pytest.mark.parametrize("solver", ["ep", "laplace"])
@pytest.mark.parametrize(
    "case", ["weights", "rare events", "separated by one of three", "many more columns than rows"]
)
def test_slopes_of_the_evidence_are_its_derivatives(solver, case):
    space, likelihood = NASTY[case]()
    every = nodes(space, likelihood, solver=solver, tol=1e-9)
    for distance in (-2.0, 1.0, 4.0):
        l = every.prior.log_scale + distance
        rise = every.at(l + STEP).log_evidence - every.at(l - STEP).log_evidence
        assert every.at(l).slope == pytest.approx(rise / (2 * STEP), abs=SLOPE_TOL)


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


@pytest.mark.parametrize("solver", ["ep", "laplace"])
def test_columns_that_separate_need_a_prior_that_makes_the_posterior_proper(solver):
    """Laplace's evidence falls where EP's does not, but it is the posterior that has no integral."""
    x = np.random.default_rng(1).standard_normal((60, 200))
    found = integrate(nodes(*problem(x, responses(x, 2)), solver=solver, flat_in="latent"), tol=1e-6, maxiter=5)
    assert found.converged
    with pytest.raises(ValueError, match="improper"):
        integrate(nodes(*problem(x, responses(x, 2)), solver=solver, flat_in="link"), tol=1e-6, maxiter=5)


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
