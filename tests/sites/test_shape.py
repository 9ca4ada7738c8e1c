"""The integral over a further parameter of the likelihood, and the penalty's rules shared by its values."""

import numpy as np
import pytest
from scipy.integrate import quad

from pybayesridge import BayesRidge
from pybayesridge.sites import integrate
from pybayesridge.sites.shape import ACCURACY, FlatPrior, ShapeGrid, ShapePrior, integrate_shape, top_of

PRIOR = ShapePrior()

OF_MEAN = 2e-3
"""Error of the mean of u, in standard deviations: the rule has spacings of 1.4 of these."""

OF_TOP = 0.5
"""Of the highest place, in standard deviations."""

OF_TAILS = 2e-3
"""Error of probabilities between the nodes."""

OF_EXPONENTIALS = 0.15
"""Of quantiles beyond the nodes: exponentials of the same mass stand for the prior there."""

OF_INTEGRALS = 1e-4
"""Error of log integrals of the prior alone; worst seen 6e-6."""

SHARED = 1e-2
"""Rules of the penalty that are shared and ones of its own for each value, in standard deviations; .003 seen."""


def _normal(center, sd):
    return lambda u: -0.5 * ((u - center) / sd) ** 2


def _skewed(center, sd):
    return lambda u: 3.0 * (u - center) / sd - 3.0 * np.exp(min((u - center) / sd, 600.0))


@pytest.mark.parametrize("evidence", [_normal, _skewed])
@pytest.mark.parametrize("center", [-6.0, -0.7, 1.0])
@pytest.mark.parametrize("sd", [0.03, 0.3, 1.5])
def test_integrals_of_normal_and_skewed_evidence(evidence, center, sd):
    height, seen = evidence(center, sd), []

    def counted(u):
        seen.append(u)
        return float(height(u))

    grid = integrate_shape(counted, PRIOR, *top_of(lambda u: height(u) + PRIOR(u), -1.0, PRIOR))
    places = np.linspace(center - 14 * sd, center + 9 * sd, 4001)
    density = np.exp([height(u) + PRIOR(u) - grid.log_density.max() for u in places])
    mass = density / density.sum()
    mean = mass @ places
    whole = np.log(density.sum() * (places[1] - places[0])) + grid.log_density.max()
    assert grid.converged
    assert grid.log_integral == pytest.approx(whole, abs=ACCURACY)
    assert abs(grid.mean - mean) < OF_MEAN * np.sqrt(mass @ (places - mean) ** 2)
    quantiles = grid.posterior().quantiles(np.array([0.025, 0.5, 0.975]))
    below = np.interp(quantiles, places + 0.5 * (places[1] - places[0]), mass.cumsum())
    np.testing.assert_allclose(below, [0.025, 0.5, 0.975], atol=OF_TAILS)
    assert sd > 0.1 or evidence is _skewed or len(seen) <= 7


@pytest.mark.parametrize(
    ("evidence", "sd"), [(_normal, 0.003), (_normal, 0.03), (_normal, 0.3), (_skewed, 0.1), (_skewed, 0.3)]
)
def test_the_top_is_located_in_few_looks(evidence, sd):
    height, seen = evidence(-0.7, sd), []

    def counted(u):
        seen.append(u)
        return float(height(u))

    top, spacing = top_of(counted, -1.0, PRIOR)
    assert abs(top + 0.7) < OF_TOP * sd
    assert 0.5 < spacing / (1.4 * sd * (1.0 if evidence is _normal else 3**-0.5)) < 2.0
    assert len(set(seen)) == len(seen) <= 16


def test_tails_are_those_of_the_prior_where_the_evidence_is_constant():
    grid = integrate_shape(lambda _: 0.0, PRIOR, 0.0, 1.0)
    assert grid.log_integral == pytest.approx(0.0, abs=OF_INTEGRALS)
    below = quad(lambda u: np.exp(PRIOR(u)), -60.0, -4.0)[0]
    assert grid.posterior().quantiles(np.array([below])) == pytest.approx(-4.0, abs=OF_EXPONENTIALS)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1e-2])
def test_long_tails_take_few_values(scale):
    """Without overdispersion the evidence is flat below, and few values tell of a density that is the prior's."""

    def evidence(u):
        return -0.5 * float(np.exp(min(u, 50.0))) / scale

    top, spacing = top_of(lambda u: evidence(u) + PRIOR(u), np.log(scale), PRIOR)
    grid = integrate_shape(evidence, PRIOR, top, spacing)
    edge = np.log(scale) + 8.0

    def total(f):
        parts = [quad(f, *ends, epsabs=0, limit=200)[0] for ends in ((-80.0, edge - 12.0), (edge - 12.0, edge))]
        return sum(parts)

    mass = total(lambda u: np.exp(evidence(u) + PRIOR(u)))
    assert grid.converged
    assert grid.log_integral == pytest.approx(np.log(mass), abs=ACCURACY)
    of_low = quad(lambda u: np.exp(evidence(u) + PRIOR(u)), -80.0, np.log(scale) - 3.0, limit=200)[0] / mass
    assert grid.posterior().quantiles(np.array([of_low])) == pytest.approx(np.log(scale) - 3.0, abs=0.02)
    assert grid.u.size <= 20


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_rules_of_the_penalty_are_shared(method, monkeypatch):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 4))
    y = rng.poisson(np.exp(1.0 + 0.4 * x[:, 0]) * rng.gamma(2.0, 0.5, 80))
    model = BayesRidge(y, x, family="negative-binomial")
    shared = model.fit(method)
    monkeypatch.setattr(integrate, "_by_plan", lambda *_: None)
    own = model.fit(method)
    assert shared.n_iter < own.n_iter
    np.testing.assert_allclose((shared.params - own.params) / own.bse, 0, atol=SHARED)
    np.testing.assert_allclose(shared.bse, own.bse, rtol=SHARED)
    assert shared.log_evidence == pytest.approx(own.log_evidence, abs=SHARED)


def test_rough_evidence_has_tails():
    """A curve through rough values may end upwards where the values themselves fall."""
    prior, u = FlatPrior(low=-10.0, high=10.0), np.linspace(-2.0, 2.0, 9)
    evidence = -2.0 * u**2
    evidence[1] += 3.0
    mass = np.exp(evidence)
    none = np.empty(0, dtype=np.intp)
    grid = ShapeGrid(u, evidence + prior.values(u), mass / mass.sum(), 0.0, 0.0, True, prior, none)
    low, middle, high = grid.posterior().quantiles(np.array([0.01, 0.5, 0.99]))
    assert u[0] - 1.0 < low < middle < high < u[-1]


def test_another_evidence_at_the_same_nodes():
    """It is the evidence that the rule itself would have found there."""
    first, second = _normal(0.0, 0.3), _normal(0.1, 0.3)
    top, spacing = top_of(lambda u: first(u) + PRIOR(u), 0.0, PRIOR)
    grid = integrate_shape(first, PRIOR, top, spacing)
    other = grid.changed(np.array([second(u) - first(u) for u in grid.u]), ACCURACY)
    direct = integrate_shape(second, PRIOR, top, spacing)
    assert other.converged
    assert other.log_integral == pytest.approx(direct.log_integral, abs=ACCURACY)
    assert other.mean == pytest.approx(direct.mean, abs=0.3 * OF_MEAN)


def test_less_probable_forms_end_earlier():
    height = _normal(0.0, 0.3)
    grids = [integrate_shape(height, PRIOR, 0.0, 0.25, lower=lower) for lower in (0.0, 5.0)]
    assert grids[1].u.size < grids[0].u.size
    assert grids[1].log_integral == pytest.approx(grids[0].log_integral, abs=np.exp(-3.0))
