import numpy as np
import pytest

from pybayesridge.ep import Data, average, evidence_gradient, fit_sites, learn
from pybayesridge.ep.model.hyperparameters import Given
from pybayesridge.ep.model.likelihood import GaussianLikelihood

from .ep_checks import enumerate_models, problem

GRADIENT_TOL = 1e-5
SCALE_TOL = 1e-6


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
    fit = learn(data, Given(p, None, 0.9))
    assert fit.learned == ("slab_var",)
    assert fit.hyper.noise_var == pytest.approx(0.9, rel=1e-12)
    assert np.array_equal(fit.hyper.prior_inclusion, p)
    nothing = learn(data, Given(p, 1.0, 0.9))
    assert nothing.learned == ()
    assert nothing.converged


def test_the_learned_evidence_is_that_of_enumeration():
    X, y = problem(8, 30, 9, sigma=0.8)
    fit = learn(Data.from_rows(X, y))
    h = fit.hyper
    exact = enumerate_models(X, y, h.prior_inclusion, h.slab_var, h.noise_var)
    assert fit.result.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    # No direction along the axes has a visibly higher exact evidence plus prior.
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


def test_average_is_a_mixture_around_the_maximum():
    X, y = problem(6, 20, 8)
    a = average(Data.from_rows(X, y))
    assert a.converged
    assert len(a.results) == len(a.hypers) == 27
    assert a.weights.sum() == pytest.approx(1.0)
    assert a.log_evidence < a.best.result.log_evidence
    spread = [
        np.min([r.inclusion_prob for r in a.results], axis=0),
        np.max([r.inclusion_prob for r in a.results], axis=0),
    ]
    assert np.all((a.inclusion_prob >= spread[0]) & (a.inclusion_prob <= spread[1]))
    assert np.all(a.var > 0)
    best = int(np.argmax(a.weights))
    assert a.hypers[best].noise_var == pytest.approx(a.best.hyper.noise_var, rel=2.0)
