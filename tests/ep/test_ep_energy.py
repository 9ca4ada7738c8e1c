import numpy as np
import pytest
from scipy.optimize import approx_fprime

from pybayesridge.ep.algorithms.energy import energy_point, slopes, state_of_point
from pybayesridge.ep.algorithms.newton import newton_direction
from pybayesridge.ep.algorithms.solve import fit_sites
from pybayesridge.ep.algorithms.state import EPModel, find_copies
from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.prior import Prior

from .ep_checks import problem

GRADIENT_TOL = 1e-5
FIXED_POINT_TOL = 1e-9


def model(n=12, d=6, dual=None, p=0.3):
    X, y = problem(4, n, d)
    data = Data.from_rows(X, y)
    return EPModel.build(
        GaussianSide.build(GaussianLikelihood(data, 0.5), dual), Prior.from_probability(np.full(d, p), 1.5)
    )


def somewhere(m, seed=0):
    rng = np.random.default_rng(seed)
    d = m.gaussian.n_columns
    return energy_point(m, 0.3 * rng.standard_normal(d), rng.uniform(0.5, 3.0, d) - 0.7 * (np.arange(d) == 1))


def test_energy_gradient_matches_finite_differences():
    m = model()
    point = somewhere(m)
    grad_m, gap = slopes(m, point)
    grad_t2 = -0.5 * point.factor.square_times(gap)
    numeric_m = approx_fprime(point.mean, lambda x: energy_point(m, x, point.t2).energy, 1e-7)
    numeric_t2 = approx_fprime(point.t2, lambda x: energy_point(m, point.mean, x).energy, 1e-7)
    assert np.allclose(grad_m, numeric_m, atol=GRADIENT_TOL)
    assert np.allclose(grad_t2, numeric_t2, atol=GRADIENT_TOL)


def test_energy_is_minus_log_evidence_at_a_fixed_point():
    m = model()
    X, y = problem(4, 12, 6)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.5), np.full(6, 0.3), 1.5, tol=1e-11)
    point = energy_point(m, r.mean, r.site2)
    grad_m, gap = slopes(m, point)
    assert r.converged
    assert point.energy == pytest.approx(-r.log_evidence, abs=FIXED_POINT_TOL)
    assert np.max(np.abs(grad_m)) < 1e-8
    assert np.max(np.abs(gap)) < 1e-8
    state = state_of_point(m, point)
    assert np.allclose(state.t1, r.site1, atol=1e-7)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("refine", [0, 50])
def test_newton_direction_falls_whatever_the_core(dual, refine):
    m = model(n=5, d=12, dual=dual)
    point = somewhere(m)
    grad_m, gap = slopes(m, point)
    grad_t2 = -0.5 * point.factor.square_times(gap)
    for core in (2, 6, 12):
        step = newton_direction(m, point, core, 1e-2, refine)
        assert step.slope < 0
        assert step.slope == pytest.approx(grad_m @ step.mean + grad_t2 @ step.t2)
        short = 1e-4
        ahead = energy_point(m, point.mean + short * step.mean, point.t2 + short * step.t2)
        assert (ahead.energy - point.energy) / short == pytest.approx(step.slope, rel=0.05)


def test_full_newton_converges_quadratically_near_a_fixed_point():
    X, y = problem(4, 12, 6)
    m = model()
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.5), np.full(6, 0.3), 1.5, tol=1e-11)
    point = energy_point(m, r.mean + 1e-5, r.site2 * (1 + 1e-5))
    step = newton_direction(m, point, 6, 0.0, 0)
    new = energy_point(m, point.mean + step.mean, point.t2 + step.t2)
    assert np.max(np.abs(new.mean - r.mean)) < 0.02 * 1e-5
    assert np.max(np.abs(new.t2 - r.site2) / np.abs(r.site2)) < 0.02 * 1e-5


def test_copies_are_found_up_to_sign_and_only_with_the_same_prior():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((7, 6))
    X[:, 3], X[:, 5] = -X[:, 0], X[:, 1]
    groups, signs = find_copies(X, np.zeros(6))
    assert groups[0] == groups[3]
    assert groups[1] == groups[5]
    assert np.unique(groups).size == 4
    assert signs[0] * signs[3] == -1
    assert find_copies(X[:, [0, 3]], np.array([0.0, -1.0]))[0] is None
