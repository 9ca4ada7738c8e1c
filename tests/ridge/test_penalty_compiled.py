"""The compiled posterior of the penalty against that of NumPy, and what is left to the latter."""

from functools import partial

import numpy as np
import pytest

from pybayesridge.compiled import library as compiled_library
from pybayesridge.ridge import penalty_compiled
from pybayesridge.ridge.likelihood import PenaltyLikelihood
from pybayesridge.ridge.profile import PenaltyModel, described, find_modes, search_grid
from pybayesridge.ridge.quadrature import integrate
from pybayesridge.ridge.spectrum import Spectrum

MODE = 1e-8
"""Modes, which are as flat as the slope's rounding errors allow."""

INTEGRAL = 2e-11
"""Log integrals with 50,000 rows, of which each has a rounding error."""

DIGITS = 2e-15
"""Relative, of the largest: of 7e5 the last digit is 1e-10."""

WEIGHTS = 1e-9
"""Weights, relative: they are exponentials of as many terms."""

NODES = 1e-12
"""Nodes, in log t2."""

PRIORS = [(0.5, 0.5), (2.0, 0.5), (1.0, 1.0), (0.05, 3.0), (5.0, 0.1)]
CASES = [
    (rank, left, spread, rss0)
    for rank in (1, 2, 3, 4, 5, 37, 200)
    for left in (0, 100, 50_000)
    for spread in (0.0, 4.0)
    for rss0 in (1.0, 0.5, 1e-12)
]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    compiled_library.library()
    compiled_library.built.cache_clear()


def problem(rank, left, spread, rss0, *, prior=(0.5, 0.5), variance=None, outside=50, q=1, seed=0):
    """A rotated problem of some rank, with `left` degrees of freedom beyond it."""
    rng = np.random.default_rng(seed)
    s = np.sort(10.0 ** (-spread * rng.random(rank)))[::-1]
    rss0 = rss0 if left else 0.0
    z = rng.standard_normal((rank, q))
    z *= np.sqrt(max(1 - rss0, 1e-6)) / np.linalg.norm(z, axis=0)
    noise = None if variance is None else np.full(q, variance)
    spectrum = Spectrum(
        s=s / s[0],
        top=1.0,
        z=z,
        rss0=np.full(q, rss0),
        p=rank + outside,
        nu=rank + left,
        solver="dual",
        right=None,
        left=None,
        smallest=float((s[-1] / s[0]) ** 2),
        noise=1e-14,
    )
    likelihood = PenaltyLikelihood(float(rank + left), noise)
    return spectrum, PenaltyModel(*prior, 2.0 - 2 * prior[0], float(rng.normal()), likelihood)


def by_numpy(monkeypatch, function):
    with monkeypatch.context() as without:
        without.setattr(penalty_compiled, "built", lambda: None)
        return function()


def compare(monkeypatch, spectrum, model, tol):
    find = partial(find_modes, spectrum, model, tol=1e-8, maxiter=100)
    found, expected = find(), by_numpy(monkeypatch, find)
    np.testing.assert_allclose(found.log_t2, expected.log_t2, rtol=0, atol=MODE)
    for name in ("n_modes", "converged", "unbounded"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    sum_up = partial(integrate, spectrum, model, tol=tol, maxiter=14)
    found, expected = sum_up(), by_numpy(monkeypatch, sum_up)
    assert found.converged.all()
    assert expected.converged.all()
    np.testing.assert_allclose(found.log_integral, expected.log_integral, rtol=DIGITS, atol=INTEGRAL)
    np.testing.assert_allclose(found.log_t2, expected.log_t2, rtol=NODES, atol=NODES)
    np.testing.assert_allclose(found.weight, expected.weight, rtol=WEIGHTS, atol=1e-25)
    np.testing.assert_allclose(found.error, expected.error, rtol=0, atol=tol)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_one_target_by_either_way(monkeypatch, prior):
    for seed, case in enumerate(CASES):
        compare(monkeypatch, *problem(*case, prior=prior, outside=50 * (seed % 2), seed=seed), tol=1e-8)


@pytest.mark.parametrize("variance", [1e-6, 0.01, 50.0])
def test_known_noise(monkeypatch, variance):
    for case in CASES[::5]:
        compare(monkeypatch, *problem(*case, variance=variance), tol=1e-12)


def two_scales(first, second, small, share, rss0, nu):
    """Singular values 1 and `small`, `share` of the signal with the former."""
    s = np.r_[np.ones(first), np.full(second, small)]
    z = np.r_[np.full(first, np.sqrt(share / first)), np.full(second, np.sqrt((1 - share - rss0) / second))]
    spectrum = Spectrum(s, 1.0, z[:, None], np.array([rss0]), s.size, nu, "svd", None, None, small**2, 1e-14)
    return spectrum, PenaltyModel(0.5, 0.5, 1.0, 0.0, PenaltyLikelihood(float(nu)))


@pytest.mark.parametrize("rss0", [1e-2, 1e-8])
def test_the_lower_one_of_two_modes(monkeypatch, rss0):
    spectrum, model = two_scales(20, 5, 1e-3, 0.5, rss0, 60)
    assert find_modes(spectrum, model, tol=1e-8, maxiter=100).n_modes[0] == 2
    compare(monkeypatch, spectrum, model, tol=1e-10)


def test_a_mode_that_may_lie_between_two_points_of_the_grid_is_left_to_numpy(monkeypatch):
    spectrum, model = two_scales(1, 1, 1.1704e-4, 0.2557, 0.01788, 30)
    grid = search_grid(spectrum, model)
    assert penalty_compiled.modes(described(spectrum, model), grid, tol=1e-8, maxiter=100) is None
    compare(monkeypatch, spectrum, model, tol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_a_flat_mode_converges_where_its_slope_is_a_rounding_error(seed):
    """Steps of Newton's iteration are rounding errors of the slope over its small derivative: more than `tol`."""
    spectrum, model = problem(2, 0, 1.0, 0.0, prior=(2.0, 0.5), outside=0, seed=seed)
    found = find_modes(spectrum, model, tol=1e-15, maxiter=100)
    assert found.n_modes[0] == 1
    assert found.converged[0]
    assert found.n_iter < 50


def test_what_is_left_to_numpy(monkeypatch):
    several = problem(5, 20, 1.0, 0.5, q=2)
    assert described(*several) is None
    nothing = problem(5, 20, 1.0, 0.5, variance=np.inf)
    assert described(*nothing) is None
    spectrum, model = problem(200, 50_000, 0.0, 1e-12)
    slow = partial(integrate, spectrum, model, tol=1e-300, maxiter=2)
    assert not slow().converged.any()
    np.testing.assert_array_equal(slow().log_integral, by_numpy(monkeypatch, slow).log_integral)


def test_several_targets_are_those_of_one(monkeypatch):
    spectrum, model = problem(12, 40, 2.0, 0.3, q=5)
    together = integrate(spectrum, model, tol=1e-10, maxiter=14)
    for target in range(5):
        which = slice(target, target + 1)
        alone = integrate(spectrum.of_targets(which), model.only(which), tol=1e-10, maxiter=14)
        np.testing.assert_allclose(alone.log_integral, together.log_integral[which], rtol=DIGITS, atol=INTEGRAL)
