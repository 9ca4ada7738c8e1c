"""Quantiles of new responses beside sums over a fine grid of the linear predictor."""

import numpy as np
import pytest
from scipy import stats

from pybayesridge.binomial.beta_binomial import FEW, of_successes
from pybayesridge.binomial.likelihood import from_counts as binomial
from pybayesridge.poisson.likelihood import from_counts as poisson
from pybayesridge.poisson.negative_binomial import from_counts as negative_binomial
from pybayesridge.posterior.quantiles import Common
from pybayesridge.posterior.responses import SCORES, Curves, Normals, Part, ResponseLaw, in_blocks
from pybayesridge.sites.student import from_responses

OFF = 1 / 128 * 0.3990
"""Of the probability up to a quantile, at the most, where the response is all but determined by the linear predictor:
half a step of the finest rule times the largest normal density."""

CLOSE = 1e-4
"""Where it is not: ten times what was seen, for noise with three degrees of freedom."""

BY_NODES = 1e-4
"""Of probabilities where predictors are mixtures of normal distributions: ten times what was seen, but where they are
so wide that single events decide."""

OF_SUMS, OF_INTEGRALS = 1e-10, 1e-5
"""Of the beta-binomial distribution function: ten times what was seen."""

AT = np.array([0.005, 0.025, 0.5, 0.9, 0.975])
FINE = np.linspace(-7.0, 7.0, 40_001)
NONE = np.empty(0)


def mixture(likelihoods, weights, center, scale, extent=None, by_curves=False):
    """The law for normal linear predictors, of which each likelihood has its own, and its distribution function."""

    def linear(c, s):
        if by_curves:
            return Curves((c + s * SCORES)[None])
        return Normals(Common(np.array([[c]]), np.array([[s]]), np.ones(1), np.inf))

    size = None if extent is None else np.array([extent])
    parts = [
        Part(w, linear(c, s), one.up_to, one.around, size)
        for one, w, c, s in zip(likelihoods, weights, center, scale, strict=True)
    ]
    density = stats.norm.pdf(FINE)
    density /= density.sum()

    def up_to(y):
        own = [
            w * (one.up_to(np.array([y]), c + s * FINE, size) @ density)
            for one, w, c, s in zip(likelihoods, weights, center, scale, strict=True)
        ]
        return float(np.sum(own))

    return ResponseLaw(parts, likelihoods[0].whole), up_to


def checked(law, up_to, off):
    for p, y in zip(AT, law.quantiles(AT)[0], strict=True):
        if law.whole:
            assert y == np.rint(y) >= 0
            assert up_to(y) >= p - off
            assert y == 0 or up_to(y - 1.0) <= p + off
        else:
            assert abs(up_to(y) - p) <= off


@pytest.mark.parametrize("center", [-3.0, 1.0, 6.0, 15.0])
@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.5, 3.0])
@pytest.mark.parametrize("by_curves", [False, True])
def test_poisson_counts(center, scale, by_curves):
    law, up_to = mixture([poisson(NONE, None, None)], [1.0], [center], [scale], by_curves=by_curves)
    steep = scale * np.exp(0.5 * (center + scale * 2)) > 1.0
    checked(law, up_to, OFF if steep else CLOSE)


@pytest.mark.parametrize("alpha", [(0.1, 2.0), (1e-12, 1e-3)])
def test_counts_with_several_dispersions(alpha):
    each = [negative_binomial(NONE, None, None, a) for a in alpha]
    law, up_to = mixture(each, [0.3, 0.7], [1.0, 1.2], [0.3, 0.2])
    checked(law, up_to, CLOSE)


def test_overdispersed_counts_are_those_of_the_distribution():
    alpha, mean = 0.7, 6.0
    likelihood = negative_binomial(NONE, None, None, alpha)
    y = np.arange(40.0)
    expected = stats.nbinom.cdf(y, 1 / alpha, 1 / (1 + alpha * mean))
    np.testing.assert_allclose(likelihood.up_to(y, np.log(mean)), expected, atol=1e-12)
    np.testing.assert_allclose(
        poisson(NONE, None, None).up_to(y, np.log(mean)), stats.poisson.cdf(y, mean), atol=1e-12
    )


@pytest.mark.parametrize("eta", [-900.0, 900.0])
@pytest.mark.parametrize("alpha", [None, 0.5])
def test_rates_beyond_all_numbers(eta, alpha):
    likelihood = poisson(NONE, None, None) if alpha is None else negative_binomial(NONE, None, None, alpha)
    found = likelihood.up_to(np.array([0.0, 7.0]), np.array(eta))
    np.testing.assert_array_equal(found, 1.0 if eta < 0 else 0.0)


@pytest.mark.parametrize("df", [3.0, np.inf])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_responses_with_student_noise(df, scale):
    likelihood = from_responses(np.array([0.0, 1.0, 3.0]), None, df)
    each = [likelihood.of_shape(0.0), likelihood.of_shape(1.0)]
    law, up_to = mixture(each, [0.6, 0.4], [2.0, 5.0], [scale, 0.5 * scale])
    checked(law, up_to, OFF if scale > 10 else CLOSE)


def test_a_mixture_of_two_equal_laws_is_either():
    law, _ = mixture([poisson(NONE, None, None)], [1.0], [2.0], [0.4])
    both = ResponseLaw.mixed([law, law], np.array([0.25, 0.75]))
    np.testing.assert_array_equal(both.quantiles(AT), law.quantiles(AT))


@pytest.mark.parametrize("by_curves", [False, True])
def test_many_rows_are_those_one_by_one(by_curves):
    rng = np.random.default_rng(0)
    center, scale = rng.normal(size=(1, 9000)), np.full((1, 9000), 0.2)
    likelihood = poisson(NONE, None, None)

    def law(part):
        linear = Normals(Common(center[:, part], scale[:, part], np.ones(1), np.inf))
        linear = Curves(linear.curves()) if by_curves else linear
        return ResponseLaw([Part(1.0, linear, likelihood.up_to, likelihood.around)], whole=True)

    every = in_blocks(9000, law, AT)
    np.testing.assert_array_equal(every[4321], law(slice(4321, 4322)).quantiles(AT)[0])
    np.testing.assert_array_equal(every[4321], law(slice(0, 9000)).taken(np.array([4321])).quantiles(AT)[0])
    assert in_blocks(0, law, AT).shape == (0, AT.size)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("scale", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("kind", ["poisson", "negative-binomial", "student-t"])
def test_mixtures_of_wide_and_narrow_predictors(kind, scale, spread):
    """Standard deviations of the components differ by factors of up to 20, and so do their means from each other."""
    rng = np.random.default_rng(3)
    likelihood = {
        "poisson": poisson(NONE, None, None),
        "negative-binomial": negative_binomial(NONE, None, None, 0.6),
        "student-t": from_responses(np.array([0.0, 1.0, 3.0]), None, 2.0).of_shape(0.0),
    }[kind]
    weight = rng.dirichlet(np.full(9, 3.0))
    own = scale * np.exp(spread * np.linspace(-1.5, 1.5, 9))
    center = 1.0 + 0.3 * own * rng.normal(size=9)
    linear = Normals(Common(center[:, None], own[:, None], weight, np.inf))
    law = ResponseLaw([Part(1.0, linear, likelihood.up_to, likelihood.around)], likelihood.whole)
    _, up_to = mixture([likelihood] * 9, weight, center, own)
    checked(law, up_to, BY_NODES)


@pytest.mark.parametrize("trials", [1.0, 30.0, 2000.0, 1e6])
@pytest.mark.parametrize("scale", [1e-3, 0.3, 2.0])
@pytest.mark.parametrize("center", [-6.0, 0.4])
def test_successes_among_trials(center, scale, trials):
    for link in ("logit", "probit"):
        law, up_to = mixture([binomial(NONE, None, None, link)], [1.0], [center], [scale], trials)
        checked(law, up_to, OFF if scale * np.sqrt(trials) > 100 else CLOSE)


@pytest.mark.parametrize("trials", [2.0, 40.0, 3000.0])
def test_successes_with_several_dispersions(trials):
    each = [of_successes(NONE, NONE, None, a) for a in (0.02, 1.5)]
    law, up_to = mixture(each, [0.3, 0.7], [1.0, 1.2], [0.3, 0.2], trials)
    found = law.quantiles(AT)[0]
    assert (found <= trials).all()
    # The sum over the grid takes long: two of the probabilities.
    for p, y in zip(AT[1:3], found[1:3], strict=True):
        assert up_to(y) >= p - CLOSE
        assert y == 0 or up_to(y - 1.0) <= p + CLOSE


@pytest.mark.parametrize("trials", [5, FEW, FEW + 1, 20_000])
@pytest.mark.parametrize("alpha", [1e-5, 0.01, 0.5, 50.0])
def test_beta_binomial_distribution_function(trials, alpha):
    likelihood = of_successes(NONE, NONE, None, alpha)
    share = np.array([1e-5, 0.01, 0.3, 0.95, 0.9999])[:, None]
    mass = stats.betabinom.pmf(np.arange(trials + 1), trials, share / alpha, (1 - share) / alpha)
    expected = np.cumsum(mass, axis=1)
    y = np.unique(np.r_[0, 1, trials // 2, trials - 1, trials, np.linspace(0, trials, 30).astype(int)])
    found = likelihood.up_to(y.astype(float), np.log(share) - np.log1p(-share), np.array([float(trials)]))
    # scipy's masses have lost digits for small alpha.
    off = max(OF_SUMS if trials <= FEW else OF_INTEGRALS, 1e-12 * trials / alpha)
    np.testing.assert_allclose(found, expected[:, y], atol=off)


@pytest.mark.parametrize("trials", [1.0, 40.0])
def test_predictors_of_rows_that_the_data_say_nothing_about(trials):
    """A tail of components that are up to 1e5 times as wide, and as far off: no rule of moments has it."""
    likelihood = binomial(NONE, None, None, "logit")
    width = np.exp(np.linspace(0.0, np.log(1e5), 25))
    weight = width**-0.7 / (width**-0.7).sum()
    for side in (-1.0, 0.0, 1.0):
        linear = Normals(Common(side * 1.5 * width[:, None], width[:, None], weight, np.inf))
        law = ResponseLaw([Part(1.0, linear, likelihood.up_to, likelihood.around, np.array([trials]))], whole=True)
        _, up_to = mixture([likelihood] * 25, weight, side * 1.5 * width, width, trials)
        checked(law, up_to, OFF)


@pytest.mark.parametrize("tail", [1e-8, 1e-10, 1e-13, 1e-300])
def test_extreme_probabilities(tail):
    """The search among whole numbers ends, and intervals do not become shorter, where tails are next to nothing."""
    counts = mixture([poisson(NONE, None, None)], [1.0], [1.0], [0.1])[0]
    shares = mixture([binomial(NONE, None, None, "logit")], [1.0], [0.3], [0.1], extent=20.0)[0]
    for law, most in ((counts, 200.0), (shares, 20.0)):
        low, inside, high = law.quantiles(np.array([tail, 1.0 - 1e-6, 1.0 - tail]))[0]
        assert low == 0.0
        assert 0.0 < inside <= high <= most
