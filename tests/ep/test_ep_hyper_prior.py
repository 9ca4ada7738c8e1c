"""The prior of the hyperparameters: its density, gradients and quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import comb, expit, log_expit, logit, logsumexp
from scipy.stats import binom

from pybayesridge.data.units import units_of
from pybayesridge.ep.learning.objective import build_objective
from pybayesridge.ep.model.hyper_prior import hyper_prior, median_size
from pybayesridge.ep.model.hyperparameters import KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.selection.grid import Given, composite, grid_of, least_prior, quantiles_of_t
from pybayesridge.selection.problem import problem_of_rows

STEP = 1e-5
GRADIENT = 1e-8  # worst seen 3e-10
QUADRATURE = 1e-10  # worst seen 1e-14
MEAN_OF_T = 0.02  # worst seen 0.002
ONE_DIMENSION = 1e-6  # worst seen 1e-8: quad's own error
LOG_SIZE = 1e-3  # worst seen 1.7e-4: bounds of eta between nodes of log g
TRAPEZOIDS = 1e-8  # worst seen 1e-9
MEDIAN = 0.01  # the bounds cut a hundredth off, at most


@pytest.fixture(params=[(False, False), (False, True), (True, False), (True, True)])
def prior(request):
    rng = np.random.default_rng(3)
    slab, noise = request.param
    lengths = rng.uniform(5, 60, 20)
    flat = 2 if noise else 0
    return hyper_prior(7, lengths, 30.0, expected_size=2.0, slab_given=slab, noise_given=noise, flat=flat)


@pytest.mark.parametrize("point", [(-1.0, 0.3, -0.4), (2.0, -2.0, 0.1), (-4.0, 3.0, 1.0)])
def test_gradients_are_those_of_the_density(prior, point):
    found = prior.log_density_gradient(*point)
    for i in range(3):
        up, down = list(point), list(point)
        up[i] += STEP
        down[i] -= STEP
        slope = (prior.log_density(*up) - prior.log_density(*down)) / (2 * STEP)
        assert np.isclose(found[i], slope, rtol=0, atol=GRADIENT)


def test_gradients_with_given_probabilities(prior):
    found = prior.log_density_gradient(None, 0.4, 1.1)
    of_v = (prior.log_density(None, 0.4 + STEP, 1.1) - prior.log_density(None, 0.4 - STEP, 1.1)) / (2 * STEP)
    of_s2 = (prior.log_density(None, 0.4, 1.1 + STEP) - prior.log_density(None, 0.4, 1.1 - STEP)) / (2 * STEP)
    assert np.allclose(found, [0.0, of_v, of_s2], rtol=0, atol=GRADIENT)


def test_explained_share_is_uniform_and_free_of_units():
    """eta does not change when columns, response and slab change their units."""
    diag = np.array([10.0, 20.0, 5.0])
    one = hyper_prior(3, diag, 10.0)
    other = hyper_prior(3, diag * 4.0, 10.0)
    assert np.isclose(one.log_density(-1.0, 0.5, 0.2), other.log_density(-1.0, 0.5 - np.log(4.0), 0.2), rtol=1e-12)
    eta = np.linspace(-4, 4, 9)
    share = expit(eta)
    # Density of the share: that of eta divided by its derivative.
    of_share = np.exp(one.log_density(0.0, eta - one.log_spread - np.log(0.5), 0.0)) / (share * (1 - share))
    assert np.allclose(of_share, of_share[0], rtol=1e-12)


def test_given_probabilities_weigh_the_columns():
    diag, p = np.array([10.0, 20.0, 5.0]), np.array([0.5, 0.0, 1.0])
    assert np.isclose(hyper_prior(3, diag, 10.0, given=p).log_spread, np.log(1.0), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("n_units", "size"), [(3, 3.0), (3, 4.0), (5, 0.0), (5, -1.0), (5, np.nan), (1, 1.5), (1, 2.0)]
)
def test_an_impossible_expected_size_is_refused(n_units, size):
    with pytest.raises(ValueError, match="expected_size"):
        hyper_prior(n_units, np.ones(n_units), 10.0, expected_size=size)


def test_one_column_has_even_odds():
    assert abs(hyper_prior(1, np.ones(1), 10.0).center) < 1e-12


def test_half_a_column_is_expected_of_one_unless_another_number_is_given():
    assert median_size(1.0, 1) == 0.5
    assert median_size(0.8, 1) == 0.8
    assert expit(hyper_prior(1, np.ones(1), 10.0, expected_size=0.8).center) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("n_units", "size"), [(1, 0.9), (1, 1 - 1e-9), (6, 5.9), (6, 6 - 1e-9), (6, 1e-9), (300, 299.9)]
)
def test_half_of_the_prior_lies_on_either_side_of_an_extreme_size(n_units, size):
    prior = hyper_prior(n_units, np.ones(n_units), 10.0, expected_size=size)
    low, high = expit(prior.t_low - prior.center), expit(prior.t_high - prior.center)
    assert (0.5 - low) / (high - low) == pytest.approx(0.5, abs=MEDIAN)


KNOWN = {
    "none": {},
    "v": {"slab_var": 0.7},
    "s2": {"noise_var": 1.3},
    "v and s2": {"slab_var": 0.7, "noise_var": 1.3},
}


def stated_law(n_units, size):
    """Probabilities of the number of units in, by the trapezoidal rule in t: logistic between the stated bounds."""
    size = 0.5 if n_units == size == 1 else size
    low, high = logit(0.01 * min(size, 1) / n_units), logit(1 - min(0.005, 0.01 * (1 - size / n_units)))
    t = np.linspace(low, high, 100_001)
    weight = expit(t - logit(size / n_units)) * expit(logit(size / n_units) - t)
    weight[[0, -1]] /= 2
    return np.array([(weight / weight.sum()) @ binom.pmf(m, n_units, expit(t)) for m in range(n_units + 1)])


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize(
    ("n_units", "size"), [(1, 1.0), (1, 0.8), (6, 1.0), (6, 0.2), (6, 5.5), (40, 1.0), (40, 39.0)]
)
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_prior_of_the_size_is_the_stated_one_whatever_is_given(known, n_units, size, scale):
    """Of any slab and noise, at any scale of the columns; sizes are counted over all sets and nodes."""
    X = np.sqrt(scale) * np.random.default_rng(0).standard_normal((20, n_units))
    given = Given(**KNOWN[known], expected_size=size)
    grid = grid_of(problem_of_rows(X, np.ones(20)), given)
    law = np.array([comb(n_units, m) * np.exp(logsumexp(grid.log_size(m))) for m in range(n_units + 1)])
    assert np.allclose(law / law.sum(), stated_law(n_units, size), rtol=0, atol=TRAPEZOIDS)
    # The nodes of s2 do not reach as far as its prior does where v is given.
    if known != "v":
        assert law.sum() == pytest.approx(1.0, abs=QUADRATURE)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("n_units", [300, 20_000])
def test_probabilities_of_nearly_none_and_nearly_all_of_many_columns(known, n_units):
    """Where p^m (1 - p)^(n - m) rises within a hundredth of the range of t."""
    x = np.random.default_rng(0).standard_normal((20, 6))
    problem = replace(problem_of_rows(x, np.ones(20)), units=units_of(n_units), diag=np.full(n_units, 20.0))
    given = Given(**KNOWN[known])
    grid = grid_of(problem, given, prior=least_prior(problem, given))
    center = logit(1 / n_units)
    low, high = logit(0.01 / n_units), logit(0.995)
    # Closer nodes at both ends, where the density is steep.
    ends = np.concatenate([np.zeros(1), np.geomspace(1e-6, 0.5, 1500)])
    breaks = np.concatenate([low + (high - low) * ends, high - (high - low) * ends[-2::-1]])
    t, weight = composite(breaks, 8)
    prior = np.log(weight) + np.log(expit(t - center) * expit(center - t))
    prior -= logsumexp(prior)
    of_none = None
    for m in (0, 1, 2, n_units // 2, n_units - 1, n_units):
        wanted = logsumexp(prior + m * log_expit(t) + (n_units - m) * log_expit(-t))
        found = logsumexp(grid.log_size(m))
        # Relative to no column: the nodes of s2 do not reach as far as its prior where v is given.
        of_none = found - wanted if of_none is None else of_none
        assert found - wanted == pytest.approx(of_none, abs=LOG_SIZE)
    assert of_none == pytest.approx(0.0, abs=LOG_SIZE if known != "v" else 0.1)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("p", [None, np.linspace(0.1, 0.9, 6)], ids=["p learned", "p given"])
def test_the_density_of_the_coordinates_has_the_stated_law_of_p(known, p):
    """EP's prior, integrated over v or s2, is the same function of t in every case."""
    place = build_objective(
        Data.from_rows(np.random.default_rng(0).standard_normal((20, 6)), np.ones(20), 19),
        KnownHyperparameters(p, **KNOWN[known]),
        expected_size=2.0,
    ).place
    if p is not None:
        assert np.isclose(place.log_prior_total(), np.log(law_of_eta(known)), rtol=0, atol=ONE_DIMENSION)
        return

    def of_t(t):
        others = int(place.axes[1:].sum())
        if not others:
            return np.exp(place.log_prior(np.array([t]))[0])
        bounds = (-60.0, 60.0) if known == "v" else (-5.0, 6.0)
        x = [t, 0.0, 0.0][: 1 + others]
        return quad(lambda eta: np.exp(place.log_prior(np.array([t, eta, *x[2:]]))[0]), *bounds, points=[0.0])[0]

    t = np.array([-4.0, -1.0, 0.5, 3.0])
    found = np.array([of_t(each) for each in t])
    stated = law_of_eta(known) * expit(t - logit(1 / 3)) * expit(logit(1 / 3) - t)
    assert np.allclose(found, stated, rtol=ONE_DIMENSION)


def law_of_eta(known):
    """Integral of the density of eta: within bounds where v is learned, else over all numbers or none."""
    return expit(6.0) - expit(-5.0) if known in ("none", "s2") else 1.0


def test_draws_of_t_have_their_distribution():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 6))
    grid = grid_of(problem_of_rows(X, X[:, 0]), Given(None, 0.7, 1.3))
    t, log_w = (part[0] for part in grid.t_nodes(2))
    mass = np.exp(log_w + grid.log_set(t, 2))
    mean = (t * mass).sum() / mass.sum()
    draws = quantiles_of_t(grid, np.full(2000, 2), np.zeros(2000, dtype=int), (np.arange(2000) + 0.5) / 2000)
    assert np.isclose(np.mean(draws), mean, rtol=0, atol=MEAN_OF_T)
