"""Quantiles of mixtures whose components lie on scales from 1e-13 to 1e65: roots of the distribution function."""

import numpy as np
import pytest
from scipy import stats

from pybayesridge import BayesRidge
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.posterior import quantiles
from pybayesridge.posterior.quantiles import Common
from pybayesridge.posterior.student import tabulated
from pybayesridge.quantile_tables import QuantileTable
from pybayesridge.ridge import mixture

PROBABILITY = 1e-8
"""Ten times the largest error seen, relative to the probability in the shorter tail."""

CURVE = 5e-4
"""Ten times the largest error of a quantile for a table, relative to its distance from the median and the scale."""

LAW = 5e-11
"""Ten times the largest error of the tabulated distribution function."""

TABLE = 1e-9
"""Quantiles by the table of the distribution function, relative to the largest."""

SOLVED = 1e-10
"""Quantiles that are solved for from different first guesses."""

TAIL = 1e-7
"""Likewise, relative to the tail."""

DENSITY = 1e-7
"""Likewise, of the density."""


def mixture_quantile(where, scale, weight, df, probability):
    return Common(where, scale, weight, df).quantiles(np.array([probability]))[:, 0]


@pytest.mark.parametrize("df", [1.0, 5.0, np.inf])
@pytest.mark.parametrize("tail", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("probability", [0.005, 0.05, 0.5, 0.8, 0.975])
def test_heavy_tails(df, tail, probability):
    # As under the prior alone: the variance rises with l = log t2, whose density falls as exp(-tail l).
    l = np.arange(-60.0, 300.0, 0.5)
    weight = np.exp(-np.maximum(tail * l, 0) + np.minimum(l, 0))
    weight /= weight.sum()
    shrunk = 1 / (1 + np.exp(-l))
    where = np.outer(shrunk, [0.0, 3.0, -1e6, 1e-9])
    scale = np.outer(np.exp(l / 2), [1.0, 1e-8, 1.0, 1e40])
    keep = weight > 1e-13
    found = mixture_quantile(where[keep], scale[keep], weight[keep] / weight[keep].sum(), df, probability)
    law = stats.norm if np.isinf(df) else stats.t(df)
    below = weight[keep] @ law.cdf((found - where[keep]) / scale[keep]) / weight[keep].sum()
    np.testing.assert_allclose(below, probability, rtol=0, atol=PROBABILITY * min(probability, 1 - probability))


@pytest.mark.parametrize("probability", [0.045, 0.05, 0.3])
def test_point_masses_between_which_there_is_next_to_nothing(probability):
    # The first guess lies on a component so narrow that its density is all there is.
    where = np.array([[0.0], [0.2], [1.0], [0.164]])
    scale = np.array([[1e-55], [1e-3], [0.05], [1e-55]])
    weight = np.array([0.04, 1e-9, 0.95, 0.01 - 1e-9])
    found = mixture_quantile(where, scale, weight, 8.0, probability)[0]
    cdf = weight @ stats.t(8.0).cdf((found * (1 + np.array([[-1e-9], [1e-9]])) - where[:, 0]) / scale[:, 0]).T
    assert cdf[0] - 1e-9 <= probability <= cdf[1] + 1e-9


@pytest.mark.parametrize("left", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-12])
def test_many_components_with_a_spike_that_holds_nearly_all_of_the_probability(left, width):
    # In the tail of the spike Newton's steps are as short as it is wide, and the root lies far beyond.
    probability = 0.025
    spike = np.exp(-0.5 * np.linspace(-3, 3, 40) ** 2)
    spike *= probability * (1 - left) / spike.sum()
    weight = np.concatenate([spike, np.full(40, (1 - spike.sum()) / 40)])
    where = np.concatenate([np.zeros(40), np.full(40, 4.0)])[:, None]
    scale = np.concatenate([np.full(40, width), np.linspace(0.5, 1.0, 40)])[:, None]
    found = mixture_quantile(where, scale, weight, np.inf, probability)
    below = weight @ stats.norm.cdf((found - where) / scale)
    np.testing.assert_allclose(below, probability, rtol=0, atol=PROBABILITY * probability)


@pytest.mark.parametrize(
    ("n", "p", "sigma2"), [(50, 20, None), (30, 100, None), (30, 100, 1.0), (8, 40, None), (8, 3, None), (6, 3, None)]
)
def test_quantiles_for_tables_are_those_that_are_solved_for_one_by_one(n, p, sigma2):
    rng = np.random.default_rng(n + p)
    X = rng.normal(size=(n, p))
    fit = BayesRidge(X[:, :3].sum(axis=1) + rng.normal(size=n), X, sigma2=sigma2).fit("exact")
    posterior = fit.posterior
    at = QuantileTable.probabilities(exactly=False)
    several = [0, 5, 20, 31, 42, 58, 63]
    for table, each in zip(
        posterior.quantile_curves(at), posterior._quantiles(mixture.quantiles, at[several]), strict=True
    ):
        width = np.ptp(stats.norm.ppf(at[several])[[2, 4]]) / np.ptp(each[..., [2, 4]], axis=-1)
        error = np.abs(table[..., several] - each) * width[..., None]
        np.testing.assert_array_less(error, CURVE * (1 + np.abs(each - each[..., 3:4]) * width[..., None]))


def test_a_curve_over_point_masses_and_gaps():
    # Newton's steps do not settle here: these quantiles are left to the bracketed iteration.
    where = np.array([[0.0], [1.0], [4.0]])
    scale = np.array([[1e-9], [0.01], [1.0]])
    weight = np.array([0.4, 0.3, 0.3])
    at = QuantileTable.probabilities(exactly=False)
    found = Common(where, scale, weight, 6.0).curves(at)
    each = np.stack([mixture_quantile(where, scale, weight, 6.0, float(p)) for p in at], axis=-1)
    np.testing.assert_allclose(found, each, rtol=CURVE, atol=CURVE * scale[1, 0])
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize(
    ("df", "law"), [(1.0, stats.t(1.0)), (3.0, stats.t(3.0)), (50.0, stats.t(50.0)), (np.inf, stats.norm)]
)
def test_the_tabulated_distribution_function(df, law):
    x = np.concatenate([[-np.inf, np.inf], np.linspace(-60, 60, 100_001)])
    cdf, density = tabulated(df)(x)
    np.testing.assert_allclose(cdf, law.cdf(x), rtol=0, atol=LAW)
    tail = (x > -35) & (x < -2)
    np.testing.assert_allclose(cdf[tail], law.cdf(x[tail]), rtol=TAIL, atol=1e-13)
    np.testing.assert_allclose(density, law.pdf(x), rtol=0, atol=DENSITY)
    beyond = np.abs(x) > 40
    np.testing.assert_allclose(density[beyond], law.pdf(x[beyond]), rtol=TAIL, atol=1e-13)


@pytest.mark.parametrize("rows", [3, 4, 12])
def test_many_quantiles_are_those_of_few(rows, monkeypatch):
    # Many are solved for by a table of the t distribution. With 3 rows it has 2 degrees of freedom, and the narrowest
    # components are far from the quantiles in their own scales.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 400))
    fit = BayesRidge(X[:, :3].sum(axis=1) + rng.normal(size=rows), X).fit("exact")
    assert 400 * np.count_nonzero(fit.posterior.mixture.weight > mixture.NEGLIGIBLE) > quantiles.MANY
    for alpha in (1e-6, 0.05, 0.5):
        many = fit.conf_int(alpha)
        with monkeypatch.context() as few:
            few.setattr(quantiles, "MANY", np.inf)
            alone = fit.conf_int(alpha)
        np.testing.assert_allclose(many, alone, rtol=SOLVED, atol=SOLVED * np.abs(alone).max(axis=None))


def test_parts_of_one_size():
    for count, most in ((0, 5), (1, 5), (5, 5), (6, 5), (655, 374), (11, 1)):
        parts = list(even_parts(count, most))
        assert np.array_equal(np.concatenate([np.arange(count)[part] for part in parts]), np.arange(count))
        sizes = [part.stop - part.start for part in parts]
        assert max(sizes) <= most
        assert len(sizes) == max(1, -(-count // most))


def test_a_part_of_many_is_solved_for_as_all_of_them():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 40))
    posterior = BayesRidge(x[:, 0] + rng.standard_normal(60), x).fit("exact").posterior
    parts = mixture.Functionals(rng.standard_normal((4, posterior.spectrum.rank)), np.zeros(4), np.zeros(4))
    at = np.array([0.025, 0.5])
    alone, of_many = (
        mixture.quantiles(parts, posterior.spectrum, posterior.mixture, at, total) for total in (None, 1_000_000)
    )
    np.testing.assert_allclose(of_many, alone, rtol=0, atol=TABLE * np.abs(alone).max())
