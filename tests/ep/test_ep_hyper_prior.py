"""The prior of the hyperparameters: its density, gradients and quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp

from pybayesridge.ep.model.hyper_prior import hyper_prior, log_density, log_density_gradient
from pybayesridge.selection.grid import Given, grid_of, quantiles_of_t
from pybayesridge.selection.problem import problem_of_rows

STEP = 1e-5
GRADIENT = 1e-8  # worst seen 3e-10
QUADRATURE = 1e-10  # worst seen 1e-14
MEAN_OF_T = 0.02  # worst seen 0.002
ONE_DIMENSION = 1e-6  # worst seen 1e-8: quad's own error


@pytest.fixture
def prior():
    rng = np.random.default_rng(3)
    return hyper_prior(7, rng.uniform(5, 60, 20), 30.0, expected_size=2.0)


@pytest.mark.parametrize("point", [(-1.0, 0.3, -0.4), (2.0, -2.0, 0.1), (-4.0, 3.0, 1.0)])
def test_gradients_are_those_of_the_density(prior, point):
    found = log_density_gradient(prior, *point)
    for i in range(3):
        up, down = list(point), list(point)
        up[i] += STEP
        down[i] -= STEP
        slope = (log_density(prior, *up) - log_density(prior, *down)) / (2 * STEP)
        assert np.isclose(found[i], slope, rtol=0, atol=GRADIENT)


def test_gradients_with_given_probabilities(prior):
    found = log_density_gradient(prior, None, 0.4, 1.1)
    of_v = (log_density(prior, None, 0.4 + STEP, 1.1) - log_density(prior, None, 0.4 - STEP, 1.1)) / (2 * STEP)
    of_s2 = (log_density(prior, None, 0.4, 1.1 + STEP) - log_density(prior, None, 0.4, 1.1 - STEP)) / (2 * STEP)
    assert np.allclose(found, [0.0, of_v, of_s2], rtol=0, atol=GRADIENT)


def test_explained_share_is_uniform_and_free_of_units():
    """eta does not change when columns, response and slab change their units."""
    diag = np.array([10.0, 20.0, 5.0])
    one = hyper_prior(3, diag, 10.0)
    other = hyper_prior(3, diag * 4.0, 10.0)
    assert np.isclose(log_density(one, -1.0, 0.5, 0.2), log_density(other, -1.0, 0.5 - np.log(4.0), 0.2), rtol=1e-12)
    eta = np.linspace(-4, 4, 9)
    share = expit(eta)
    # Density of the share: that of eta divided by its derivative.
    of_share = np.exp(log_density(one, 0.0, eta - one.log_spread - np.log(0.5), 0.0)) / (share * (1 - share))
    assert np.allclose(of_share, of_share[0], rtol=1e-12)


def test_given_probabilities_weigh_the_columns():
    diag, p = np.array([10.0, 20.0, 5.0]), np.array([0.5, 0.0, 1.0])
    assert np.isclose(hyper_prior(3, diag, 10.0, given=p).log_spread, np.log(1.0), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("n_units", "size"), [(3, 3.0), (3, 4.0), (5, 0.0), (5, -1.0), (5, np.nan)])
def test_an_impossible_expected_size_is_refused(n_units, size):
    with pytest.raises(ValueError, match="expected_size"):
        hyper_prior(n_units, np.ones(n_units), 10.0, expected_size=size)


def test_one_column_has_even_odds():
    assert abs(hyper_prior(1, np.ones(1), 10.0).center) < 1e-12


@pytest.mark.parametrize(("v", "s2"), [(None, None), (0.7, None), (None, 1.3), (0.7, 1.3)])
def test_sizes_have_prior_probabilities_that_sum_to_one(v, s2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 6))
    grid = grid_of(problem_of_rows(X, X[:, 0]), Given(None, v, s2))
    counts = np.array([1, 6, 15, 20, 15, 6, 1])
    total = sum(c * np.exp(logsumexp(grid.log_size(m))) for m, c in enumerate(counts))
    assert np.isclose(total, 1.0, rtol=0, atol=QUADRATURE)


def test_prior_of_a_size_by_adaptive_quadrature():
    """With v and s2 given the probability of a set is one integral over t."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 6))
    problem = problem_of_rows(X, X[:, 0])
    grid = grid_of(problem, Given(None, 0.7, 1.3))
    prior, eta0 = grid.prior, grid.prior.log_spread + np.log(0.7 / 1.3)

    def density(t, m):
        p = expit(t)
        eta = eta0 + np.log(p)
        bells = expit(t - prior.center) * expit(prior.center - t) * expit(eta) * expit(-eta)
        return bells * p**m * (1 - p) ** (6 - m) if m is not None else bells

    def integral(m):
        return quad(density, prior.t_low, prior.t_high, args=(m,), limit=200)[0]

    for m in range(7):
        assert np.isclose(np.exp(grid.log_size(m)[0]), integral(m) / integral(None), rtol=ONE_DIMENSION)


def test_draws_of_t_have_their_distribution():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 6))
    grid = grid_of(problem_of_rows(X, X[:, 0]), Given(None, 0.7, 1.3))
    t, log_w = (part[0] for part in grid.t_nodes(2))
    mass = np.exp(log_w + grid.log_set(t, 2))
    mean = (t * mass).sum() / mass.sum()
    draws = quantiles_of_t(grid, 2, 0, (np.arange(2000) + 0.5) / 2000)
    assert np.isclose(np.mean(draws), mean, rtol=0, atol=MEAN_OF_T)
