from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from pybayesridge.ep import Data, average, evidence_gradient, fit_sites, learn
from pybayesridge.ep.learning.objective import build_objective
from pybayesridge.ep.learning.starts import start_points
from pybayesridge.ep.model.hyperparameters import KnownHyperparameters
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.rotation import orthogonal_groups
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.problem import problem_of_rows
from tests.effort import number, share

from .ep_checks import enumerate_models, problem

GRADIENT_TOL = 1e-5
SCALE_TOL = 1e-6
PRIOR_TOL = 1e-8
OPTIMUM_TOL = 1e-4
PLACE_TOL = 0.02
LATTICE_TOL = 0.02
EVIDENCE_TOL = 0.1
EXACT_TOL = 0.02
EXACT_EVIDENCE_TOL = 0.1
MOST_UNDER_NOISE = 3.0


def test_gradient_matches_finite_differences():
    X, y = problem(3, 25, 8, sigma=0.7)
    data = Data.from_rows(X, y, 24)
    p = np.linspace(0.1, 0.5, 8)

    def evidence(shift_p, shift_slab, shift_noise):
        odds = np.log(p / (1 - p)) + shift_p
        r = fit_sites(
            GaussianLikelihood(data, 0.5 * np.exp(shift_noise)),
            1 / (1 + np.exp(-odds)),
            np.exp(shift_slab),
            tol=1e-11,
        )
        assert r.converged
        return r.log_evidence

    r = fit_sites(GaussianLikelihood(data, 0.5), p, 1.0, tol=1e-11)
    g = evidence_gradient(GaussianLikelihood(data, 0.5), p, 1.0, r)
    h, zero = 1e-4, np.zeros(8)
    for i in (0, 5):
        e = h * (np.arange(8) == i)
        numeric = (evidence(e, 0, 0) - evidence(-e, 0, 0)) / (2 * h)
        assert g.logit_inclusion[i] == pytest.approx(numeric, abs=GRADIENT_TOL)
    assert g.log_slab_var == pytest.approx((evidence(zero, h, 0) - evidence(zero, -h, 0)) / (2 * h), abs=GRADIENT_TOL)
    assert g.log_noise_var == pytest.approx(
        (evidence(zero, 0, h) - evidence(zero, 0, -h)) / (2 * h), abs=GRADIENT_TOL
    )


@pytest.mark.parametrize(("n", "d", "sigma"), [(80, 15, 1.0), (20, 40, 0.3), (4, 3, 1.0), (1, 1, 1.0), (2, 5, 0.1)])
def test_learning_ends_at_a_maximum_and_does_not_see_units(n, d, sigma):
    X, y = problem(2, n, d, sigma=sigma, size=4)
    fit = learn(Data.from_rows(X, y))
    scaled = learn(Data.from_rows(X, 1e3 * y))
    assert fit.converged
    assert fit.learned == ("prior_inclusion", "slab_var", "noise_var")
    assert np.allclose(scaled.hyper.prior_inclusion, fit.hyper.prior_inclusion, rtol=SCALE_TOL)
    assert scaled.hyper.noise_var == pytest.approx(1e6 * fit.hyper.noise_var, rel=SCALE_TOL)
    assert scaled.hyper.slab_var == pytest.approx(1e6 * fit.hyper.slab_var, rel=SCALE_TOL)
    assert np.allclose(scaled.result.inclusion_prob, fit.result.inclusion_prob, atol=SCALE_TOL)


def test_learned_values_are_near_those_the_data_came_from():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 60))
    w = rng.standard_normal(60) * 2.0 * (np.arange(60) < 20)
    fit = learn(Data.from_rows(X, X @ w + 1.5 * rng.standard_normal(400)))
    assert fit.hyper.prior_inclusion[0] == pytest.approx(1 / 3, abs=0.1)
    assert 2.0 < fit.hyper.slab_var < 8.0
    assert fit.hyper.noise_var == pytest.approx(2.25, rel=0.2)


def test_what_is_given_stays():
    X, y = problem(5, 30, 6)
    data, p = Data.from_rows(X, y), np.full(6, 0.4)
    fit = learn(data, KnownHyperparameters(p, None, 0.9))
    assert fit.learned == ("slab_var",)
    assert fit.hyper.noise_var == pytest.approx(0.9, rel=1e-12)
    assert np.array_equal(fit.hyper.prior_inclusion, p)
    nothing = learn(data, KnownHyperparameters(p, 1.0, 0.9))
    assert nothing.learned == ()
    assert nothing.converged


def test_the_learned_evidence_is_that_of_enumeration():
    X, y = problem(8, 30, 9, sigma=0.8)
    fit = learn(Data.from_rows(X, y))
    h = fit.hyper
    exact = enumerate_models(X, y, h.prior_inclusion, h.slab_var, h.noise_var)
    assert fit.result.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    # No direction along the axes has a visibly higher exact evidence, to which the prior adds little.
    for name in ("slab_var", "noise_var"):
        for factor in (0.5, 2.0):
            values = {"slab_var": h.slab_var, "noise_var": h.noise_var}
            values[name] *= factor
            other = enumerate_models(X, y, h.prior_inclusion, values["slab_var"], values["noise_var"])
            assert other.log_evidence < exact.log_evidence + 0.5


@pytest.mark.parametrize("y_is", ["zero", "noise"])
def test_no_signal(y_is):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 10))
    y = np.zeros(30) if y_is == "zero" else rng.standard_normal(30)
    fit = learn(Data.from_rows(X, y))
    assert np.all((fit.result.inclusion_prob >= 0) & (fit.result.inclusion_prob <= 1))
    assert np.all(fit.result.var > 0)
    assert fit.hyper.noise_var > 0


# --- the objective and its coordinates ---------------------------------------

FREE = {
    "all": {},
    "p given": {"p": 0.3},
    "v given": {"v": 0.8},
    "s2 given": {"s2": 0.6},
    "p alone": {"v": 0.8, "s2": 0.6},
    "v alone": {"p": 0.3, "s2": 0.6},
    "s2 alone": {"p": 0.3, "v": 0.8},
}
COLUMNS = 6


def given_of(p=None, v=None, s2=None):
    probabilities = None if p is None else np.linspace(p, 2 * p, COLUMNS)
    return KnownHyperparameters(probabilities, v, s2)


@pytest.mark.parametrize("case", FREE)
def test_the_gradient_of_the_objective_is_its_slope(case):
    X, y = problem(3, 40, COLUMNS, sigma=0.7)
    objective = build_objective(Data.from_rows(X, y, 39), given_of(**FREE[case]), n=40)
    x = start_points(objective)[0] + 0.3
    trial = objective.evaluate(x, None, tol=1e-11)
    h = 1e-4
    for i in range(x.size):
        e = h * (np.arange(x.size) == i)
        ahead, behind = objective.evaluate(x + e, trial, tol=1e-11), objective.evaluate(x - e, trial, tol=1e-11)
        assert trial.grad[i] == pytest.approx((ahead.value - behind.value) / (2 * h), abs=GRADIENT_TOL)


@pytest.mark.parametrize("case", FREE)
def test_coordinates_go_there_and_back_under_the_prior_of_the_exact_method(case):
    """The prior of the lattice is that whose quadrature the exact method uses, density and normalisation."""
    X, y = problem(3, 40, COLUMNS)
    given = given_of(**FREE[case])
    place = build_objective(Data.from_rows(X, y, 39), given, n=40, expected_size=2.0).place
    x = place.clip(start_points(build_objective(Data.from_rows(X, y, 39), given, n=40))[0])
    assert np.allclose(place.place(place.hyper(x)), x, rtol=0, atol=1e-12)
    own = Given(given.prior_inclusion, given.slab_var, given.noise_var, 2.0)
    grid = grid_of(problem_of_rows(X, y, nu=39), own)
    assert grid.prior == place.prior
    if place.axes[0]:
        assert place.log_prior_total() == pytest.approx(grid.log_total, abs=PRIOR_TOL)


@pytest.mark.parametrize("case", share(FREE, 3))
@pytest.mark.parametrize(("seed", "n", "size"), [(1, 40, 2), (2, 15, 0)])
def test_the_maximum_is_that_of_a_general_optimiser(case, seed, n, size):
    X, y = problem(seed, n, COLUMNS, size=size)
    data, given = Data.from_rows(X, y, n - 1), given_of(**FREE[case])
    fit = learn(data, given, n=n)
    objective = build_objective(data, given, n=n)
    place = objective.place

    def loss(x):
        return -objective.evaluate(place.clip(x), None, tol=1e-9).value

    found = minimize(loss, place.place(fit.hyper) + 0.4, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7})
    assert fit.converged
    assert fit.objective == pytest.approx(-found.fun, abs=OPTIMUM_TOL)
    assert np.allclose(place.place(fit.hyper), place.clip(found.x), rtol=0, atol=PLACE_TOL)


# --- averages ------------------------------------------------------------------


@pytest.mark.parametrize("case", share(FREE, 3))
@pytest.mark.parametrize(("seed", "n", "size"), [(1, 40, 2), (2, 15, 0)])
def test_the_average_is_that_of_a_fine_grid(case, seed, n, size):
    """The lattice against an integral over a box of points, log s2 integrated too."""
    X, y = problem(seed, n, COLUMNS, size=size)
    data, given = Data.from_rows(X, y, n - 1), given_of(**FREE[case])
    found = average(data, given, n=n)
    assert found.converged
    objective = build_objective(data, given, n=n)
    place = objective.place
    step = 0.8 if place.low.size > 1 else 0.2
    axes = [np.arange(low, high, step) for low, high in zip(place.low, place.high, strict=True)]
    if place.axes[2]:
        unit = np.log(objective.noise_unit)
        axes[-1] = np.arange(unit - 2.0, unit + 1.0, 0.3)
    elif place.low.size > place.lattice_dimension:
        axes[-1] = np.arange(place.low[-1], place.high[-1], 0.3)
    trials, last = [], None
    for x in product(*axes):
        last = objective.evaluate(np.array(x), last, tol=1e-2)
        trials.append(last)
    values = np.array([t.value if t.result.converged else -np.inf for t in trials])
    weights = np.exp(values - values.max())
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    inclusion = weights @ np.array([t.result.inclusion_prob for t in trials]) / weights.sum()
    evidence = np.log(weights.sum() * cell) + values.max() - place.log_prior_total()
    assert np.allclose(found.inclusion_prob, inclusion, rtol=0, atol=LATTICE_TOL)
    assert found.log_evidence == pytest.approx(evidence, abs=EVIDENCE_TOL)


@pytest.mark.parametrize("groups", [None, np.array([0, 0, 0, 1, 2, 3])], ids=["columns", "groups"])
@pytest.mark.parametrize("case", FREE)
def test_the_average_is_near_the_exact_posterior(case, groups):
    """Independent columns: nearly the sum over all sets and the quadrature of the exact method, under one prior."""
    X, y = problem(4, 60, COLUMNS, size=2)
    given = given_of(**FREE[case])
    p = given.prior_inclusion
    if groups is not None and p is not None:
        p = p[groups]
    data = Data.from_rows(X, y, 59)
    data = data if groups is None else orthogonal_groups(data, groups)[0]
    found = average(
        data, KnownHyperparameters(p, given.slab_var, given.noise_var), groups=groups, n=60, expected_size=2.0
    )
    own = Given(p, given.slab_var, given.noise_var, 2.0)
    exact = fit_exact(problem_of_rows(X, y, nu=59, labels=groups), own)
    assert np.allclose(found.inclusion_prob, exact.inclusion_prob, rtol=0, atol=EXACT_TOL)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=EXACT_EVIDENCE_TOL)


def test_the_average_is_a_mixture_and_does_not_see_units():
    X, y = problem(6, 20, 8)
    a, scaled = average(Data.from_rows(X, y)), average(Data.from_rows(X, 1e3 * y))
    assert a.converged
    assert len(a.results) == len(a.hypers) == a.weights.size > 1
    assert a.weights.sum() == pytest.approx(1.0)
    each = [r.inclusion_prob for r in a.results]
    assert np.all((a.inclusion_prob >= np.min(each, axis=0)) & (a.inclusion_prob <= np.max(each, axis=0)))
    assert np.all(a.var > 0)
    assert np.allclose(scaled.inclusion_prob, a.inclusion_prob, rtol=0, atol=SCALE_TOL)


def test_pure_noise_is_not_expected_to_have_many_columns():
    """Under no signal few of 300 columns are expected to be in, however learning goes."""
    for seed in range(number(3, 1)):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((150, 300)), rng.standard_normal(150)
        data = Data.from_rows(X, y)
        found = average(data)
        assert found.converged
        assert found.inclusion_prob.sum() < MOST_UNDER_NOISE
        best = learn(data)
        assert best.converged
        assert best.result.expected_size < MOST_UNDER_NOISE


def test_expected_size_moves_what_is_learned():
    X, y = problem(5, 40, 20, size=3)
    sizes = [average(Data.from_rows(X, y), expected_size=size).inclusion_prob.sum() for size in (1.0, 5.0, 15.0)]
    assert sizes[0] < sizes[1] < sizes[2]


def test_an_average_without_a_place_where_ep_settles_says_so(monkeypatch):
    X, y = problem(6, 20, 8)
    monkeypatch.setattr("pybayesridge.ep.learning.lattice._MAXITER", 1)
    monkeypatch.setattr("pybayesridge.ep.learning.lattice._SWEEPS", 1)
    monkeypatch.setattr("pybayesridge.ep.learning.starts._SWEEPS", 1)
    monkeypatch.setattr("pybayesridge.ep.learning.starts._MORE_SWEEPS", 1)
    found = average(Data.from_rows(X, y))
    assert not found.converged
    assert found.unsettled == pytest.approx(1.0)
