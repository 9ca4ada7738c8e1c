"""The profile of the posterior and its derivatives, against brute force and finite differences."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from pybayesridge import BayesRidge, DegenerateFitWarning
from pybayesridge.ridge import profile
from pybayesridge.ridge.fit import penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.prior import NAMED, BetaPrime, log_unit
from pybayesridge.ridge.spectrum import rotate
from tests.oracle import Oracle
from tests.problems import CASES, regression

VALUE = 1e-10
"""f up to its constant, beside dense determinants and solves."""

FINITE_DIFFERENCE = 1e-7
"""Central differences of step 1e-4."""

DENSE = 1e-9
"""The slope beside dense algebra."""

STATIONARY = 1e-9
"""|f'| at the mode."""

POINTS = np.linspace(-9.0, 6.0, 31)


def rotated(case):
    y, x = case.arrays()
    model = BayesRidge(y, x, weights=case.weights(), unpenalized=list(case.unpenalized), **case.options)
    design, spectrum = model.prepare(rotate)
    fit = {"dof": "nu", "parameterization": "tau2"} | case.fit
    noise = GaussianNoise(model.known_sigma2, fit["dof"])
    prior = penalty_model(design, spectrum, model.prior_of_tau2, noise, fit["parameterization"])
    return spectrum, prior, log_unit(design, spectrum)


def values(spectrum, prior, unit, l):
    return profile.value(spectrum, prior, np.asarray(l)[:, None] + unit)[:, 0]


@pytest.mark.parametrize("name", CASES)
def test_value(name):
    case = CASES[name]
    oracle = case.oracle()
    wanted = np.array([oracle.f(l) for l in POINTS])
    actual = values(*rotated(case), POINTS)
    np.testing.assert_allclose(actual - actual[0], wanted - wanted[0], rtol=VALUE, atol=VALUE * np.abs(wanted).max())


@pytest.mark.parametrize("name", CASES)
def test_slope_and_second_derivative(name):
    spectrum, prior, unit = rotated(CASES[name])
    h = 1e-4
    first, second = profile._slope(spectrum, prior, POINTS + unit, np.zeros(POINTS.size, dtype=int))
    by_values = (values(spectrum, prior, unit, POINTS + h) - values(spectrum, prior, unit, POINTS - h)) / (2 * h)
    size = np.abs(first).max()
    np.testing.assert_allclose(first, by_values, rtol=0, atol=FINITE_DIFFERENCE * size)
    ahead, behind = (
        profile._slope(spectrum, prior, POINTS + s * h + unit, np.zeros(POINTS.size, dtype=int))[0] for s in (1, -1)
    )
    np.testing.assert_allclose(second, (ahead - behind) / (2 * h), rtol=0, atol=FINITE_DIFFERENCE * size)
    on_grid = profile.slopes_on_grid(spectrum, prior, POINTS + unit)[:, 0]
    np.testing.assert_allclose(on_grid, first, rtol=0, atol=1e-12 * size)
    oracle = CASES[name].oracle()
    wanted = [oracle.slope(l) for l in POINTS]
    np.testing.assert_allclose(first, wanted, rtol=0, atol=DENSE * size)


@pytest.mark.parametrize("name", CASES)
def test_mode_is_a_minimum(name):
    case = CASES[name]
    spectrum, prior, _ = rotated(case)
    modes = profile.find_modes(spectrum, prior, tol=1e-10, maxiter=100)
    first, second = profile._slope(spectrum, prior, modes.log_t2, np.zeros(1, dtype=int))
    assert abs(first[0]) < STATIONARY
    assert second[0] > 0
    assert modes.converged.all()


@pytest.mark.parametrize("shape", [(40, 6), (15, 40)])
def test_every_zero_of_the_slope_lies_on_the_search_grid(shape):
    for seed in range(20):
        y, x = regression(*shape, seed=seed, noise=10.0 ** (seed % 5 - 3))
        model = BayesRidge(y, x * 10.0 ** (seed % 4), standardize=seed % 2 == 0)
        design, spectrum = model.prepare(rotate)
        own = (NAMED["half-cauchy"], NAMED["r2"], BetaPrime(2.0, 1.0, 1e-4), BetaPrime(0.5, 0.5, 1e5))[seed % 4]
        prior = penalty_model(design, spectrum, own, GaussianNoise())
        grid = profile.search_grid(spectrum, prior)
        wide = np.arange(grid[0] - 30, grid[-1] + 30, 0.05)
        slope = profile.slopes_on_grid(spectrum, prior, wide)[:, 0]
        changes = wide[:-1][np.sign(slope[:-1]) != np.sign(slope[1:])]
        assert ((changes >= grid[0]) & (changes <= grid[-1])).all()


def test_shrinkage_and_its_complement_are_accurate_at_the_ends():
    s = np.array([1.0, 1e-6])
    for l in (-600.0, -40.0, 0.0, 40.0, 600.0):
        t2 = np.exp(np.array([[l]]))
        np.testing.assert_allclose(profile.shrinkage(s, np.array([l])), s**2 * t2 / (1 + s**2 * t2), rtol=1e-14)
        np.testing.assert_allclose(profile.complement(s, np.array([l])), 1 / (1 + s**2 * t2), rtol=1e-14)


def test_infinite_log_t2_is_a_limit():
    s = np.array([1.0, 0.5])
    ends = np.array([-np.inf, np.inf])
    np.testing.assert_array_equal(profile.shrinkage(s, ends), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(profile.complement(s, ends), [[1, 1], [0, 0]])


def test_count_of_modes_along_a_path_of_signals():
    """From noise to signal: none, then one or more; always as many as brute force finds."""
    y, x = regression(30, 6, seed=2)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=30)
    counts = set()
    for share in (0.0, 0.1, 0.2, 0.3, 0.5, 1.0):
        target = share * (y - y.mean()) / y.std() + noise
        oracle = Oracle(target, np.ones((30, 1)), x)
        wanted = len(oracle.modes(-13.0, 10.0))
        if wanted == 0:
            with pytest.warns(DegenerateFitWarning, match="No signal"):
                res = BayesRidge(target, x, prior="half-cauchy").fit("em")
        else:
            res = BayesRidge(target, x, prior="half-cauchy").fit("em")
        assert res.n_modes == wanted
        counts.add(wanted)
    assert {0, 1} <= counts


@pytest.mark.parametrize("beyond", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("shape", [(15, 10), (40, 4), (12, 25)])
def test_shallow_mode_where_it_comes_into_being(shape, beyond):
    """With a little more signal a minimum and a maximum of f part: however close they are, the minimum counts."""
    y, x = regression(*shape, seed=2)
    rng = np.random.default_rng(0)
    signal, noise = (y - y.mean()) / y.std(), rng.normal(size=shape[0])

    def oracle(share):
        return Oracle(share * signal + noise, np.ones((shape[0], 1)), x)

    def lowest_slope(share):
        own = oracle(share)
        grid = np.linspace(-8, 1, 91)
        at = grid[np.argmin([own.slope(l) for l in grid])]
        found = minimize_scalar(own.slope, bounds=(at - 0.1, at + 0.1), method="bounded", options={"xatol": 1e-10})
        return found.fun, found.x

    low, high = 0.0, 20.0
    for _ in range(36):
        middle = (low + high) / 2
        low, high = (low, middle) if lowest_slope(middle)[0] < 0 else (middle, high)
    share = high * (1 + beyond)
    bottom = lowest_slope(share)[1]
    mode = brentq(oracle(share).slope, bottom, bottom + 2)
    res = BayesRidge(share * signal + noise, x, prior="half-cauchy").fit("em")
    assert res.n_modes == 1
    assert abs(np.log(res.tau2) - mode) < 1e-6
