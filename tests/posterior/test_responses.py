"""Quantiles of new responses beside sums over a fine grid of the linear predictor."""

import numpy as np
import pytest
from scipy import stats

from pybayesridge.poisson.likelihood import from_counts as poisson
from pybayesridge.poisson.negative_binomial import from_counts as negative_binomial
from pybayesridge.posterior.responses import SCORES, Part, ResponseLaw, levels
from pybayesridge.sites.student import from_responses

OFF = 1 / 128 * 0.3990
"""Of the probability up to a quantile, at the most, where the response is all but determined by the linear predictor:
half a step of the finest rule times the largest normal density."""

CLOSE = 1e-4
"""Where it is not: ten times what was seen, for noise with three degrees of freedom."""

AT = np.array([0.005, 0.025, 0.5, 0.9, 0.975])
FINE = np.linspace(-7.0, 7.0, 40_001)
NONE = np.empty(0)


def mixture(likelihoods, weights, center, scale):
    """The law for normal linear predictors, of which each likelihood has its own, and its distribution function."""
    parts = [
        Part(w, (c + s * SCORES)[None], one.up_to, one.around)
        for one, w, c, s in zip(likelihoods, weights, center, scale, strict=True)
    ]
    density = stats.norm.pdf(FINE)
    density /= density.sum()

    def up_to(y):
        own = [
            w * (one.up_to(np.array([y]), c + s * FINE) @ density)
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
def test_poisson_counts(center, scale):
    law, up_to = mixture([poisson(NONE, None, None)], [1.0], [center], [scale])
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
    found = likelihood.up_to(np.array([-1.0, 0.0, 7.0]), np.array(eta))
    np.testing.assert_array_equal(found, [0.0, 1.0, 1.0] if eta < 0 else 0.0)


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


def test_many_rows_are_those_one_by_one():
    rng = np.random.default_rng(0)
    linear = rng.normal(size=(20_000, 1)) + 0.2 * SCORES
    likelihood = poisson(NONE, None, None)
    law = ResponseLaw([Part(1.0, linear, likelihood.up_to, likelihood.around)], whole=True)
    np.testing.assert_array_equal(law.quantiles(AT)[12_345], law.taken(slice(12_345, 12_346)).quantiles(AT)[0])


def test_levels_are_those_of_the_scores():
    np.testing.assert_allclose(stats.norm.ppf(levels()), SCORES, atol=1e-8)
