"""Negative binomial counts: the likelihood, and fits with the dispersion integrated out, against dense grids."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import betaln
from scipy.stats import nbinom, norm

from pybayesridge import BayesRidge, load
from pybayesridge.poisson import likelihood as of_poisson
from pybayesridge.poisson.negative_binomial import PRIOR, beyond_stirling, counts_of, from_counts
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.prior import log_prior
from pybayesridge.sites.tilted import Cavity

COUNTS = np.array([0.0, 1.0, 2.0, 5.0, 30.0, 1000.0, 0.0, 3.0])
EXPOSURE = np.array([1.0, 0.5, 2.0, 1.0, 1.3, 4.0, 0.1, 1.0])
OF_RULES = 0.01
"""Few nodes against a fine grid: means in posterior standard deviations, and standard deviations relatively; worst
seen .003."""

COPIES = np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0, 0.5, 1.0])


@pytest.mark.parametrize("log_alpha", [-12.0, -5.0, -1.0, 0.0, 2.0, 5.0])
def test_values_derivatives_and_deviances_are_those_of_the_distribution(log_alpha):
    rows, s = from_counts(COUNTS, EXPOSURE, COPIES, np.exp(log_alpha)), np.exp(-log_alpha)
    eta = np.array([-30.0, 0.3, 1.0, 2.0, 3.0, -2.0, 4.0, 9.0])
    mean = EXPOSURE * np.exp(eta)
    expected = nbinom.logpmf(COUNTS, s, s / (s + mean))
    found = rows.values(eta) / COPIES + rows.log_constants()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-7)
    np.testing.assert_allclose(rows.tops() - 0.5 * rows.deviances(mean), expected, rtol=1e-8, atol=1e-7)
    step = 1e-5
    slope, bend = rows.derivatives(eta)
    by_steps = [(f(eta + step) - f(eta - step)) / (2 * step) for f in (rows.values, lambda x: rows.derivatives(x)[0])]
    np.testing.assert_allclose(slope, by_steps[0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(bend, -by_steps[1], rtol=1e-5, atol=1e-4)
    assert (bend <= rows.largest_curvature() * (1 + 1e-12)).all()


OF_EXTREMES = 1e-13
"""Relative error of deviances and constants; worst seen 6e-15."""


@pytest.mark.parametrize("alpha", [1e-12, 1e-3, 1.0, 1e4])
def test_extreme_counts_and_means(alpha):
    """Of counts that are next to nothing or nearly all of count and 1 / alpha, and expected counts near 0."""
    counts = np.array([0.0, 3.0, 3.0, 1e9, 1e11, 1e11, 1e11, 40.0])
    mean = np.array([1e-3, 1e-320, 3.5, 1e-320, 1e-30, 2e11, 1e40, 1e5])
    rows, s = from_counts(counts, None, None, alpha), 1 / Decimal(alpha)

    def exact(y, m):
        y, m = Decimal(y), Decimal(m)
        own = y * (y / m).ln() if y else Decimal(0)
        return float(2 * (own - (y + s) * ((y + s) / (m + s)).ln()))

    with localcontext() as context:
        context.prec = 60
        expected = [exact(y, m) for y, m in zip(counts.tolist(), mean.tolist(), strict=True)]
    np.testing.assert_allclose(rows.deviances(mean), expected, rtol=OF_EXTREMES)
    ends = from_counts(counts[:3], None, None, alpha).deviances(np.array([np.inf, 0.0, np.inf]))
    np.testing.assert_array_equal(ends, np.inf)
    found = rows.tilted(Cavity(np.log(np.maximum(counts, 1.0)), np.full(8, 100.0), np.zeros(8)))
    assert np.isfinite(found.log_integral).all()


OF_DIFFERENCES = 5
"""Errors of differences of values, in rounding errors of linear predictors and of information; worst seen .5."""


@pytest.mark.parametrize("away", [-3.0, -0.4, 1e-3, 0.7, 5.0])
def test_values_keep_their_digits_for_counts_of_millions(away):
    """Where counts are large a row's information is 1 / alpha: it is no difference of numbers as large as counts."""
    counts, s = np.array([1e3, 1e6, 1e9]), 16.0
    rows = from_counts(counts, None, None, 1 / s)
    top = np.log(counts)
    eta = top + away
    expected = []
    with localcontext() as context:
        context.prec = 50
        for y, here, there in zip(counts.tolist(), eta.tolist(), top.tolist(), strict=True):
            one, size = Decimal(y), Decimal(s)
            value = [one * Decimal(at) - (one + size) * (size + Decimal(at).exp()).ln() for at in (here, there)]
            expected.append(float(value[0] - value[1]))
    rounding = np.abs(rows.derivatives(eta)[0]) * np.spacing(eta) + s * np.finfo(float).eps
    found = rows.values(eta) - rows.values(top)
    np.testing.assert_array_less(np.abs(found - expected), OF_DIFFERENCES * rounding)


def test_values_go_on_falling_where_exponentials_are_infinite():
    rows, s = from_counts(COUNTS, EXPOSURE, COPIES, np.exp(5.0)), np.exp(-5.0)
    near, far = (rows.values(np.full(COUNTS.size, eta)) for eta in (450.0, 4e7))
    np.testing.assert_allclose(far, near - COPIES * s * (4e7 - 450.0), rtol=1e-10)


@pytest.mark.parametrize("log_alpha", [-12.0, -1.0, 2.0, 5.0])
@pytest.mark.parametrize("sd", [0.05, 0.5, 3.0, 20.0])
def test_tilted_moments_are_those_of_a_fine_sum(log_alpha, sd):
    rows = from_counts(COUNTS, EXPOSURE, COPIES, np.exp(log_alpha))
    center = np.linspace(-1.0, 1.0, COUNTS.size)
    found = rows.tilted(Cavity(center, np.full(COUNTS.size, sd**-2.0), np.zeros(COUNTS.size)))
    unit = np.sqrt(found.variance)
    eta = found.mean + unit * np.linspace(-40.0, 40.0, 40001)[:, None]
    log_density = rows.values(eta) - 0.5 * ((eta - center) / sd) ** 2
    top = log_density.max(axis=0)
    weight = np.exp(log_density - top)
    total = weight.sum(axis=0)
    mean = (weight * eta).sum(axis=0) / total
    variance = (weight * (eta - mean) ** 2).sum(axis=0) / total
    np.testing.assert_allclose(found.log_integral, top + np.log(total * (eta[1] - eta[0])), rtol=0, atol=3e-6)
    np.testing.assert_allclose((found.mean - mean) / unit, 0, atol=3e-6)
    np.testing.assert_allclose(found.variance, variance, rtol=3e-6)


def test_without_dispersion_it_is_the_poisson_likelihood():
    poisson = of_poisson.from_counts(COUNTS, EXPOSURE, COPIES)
    rows = from_counts(COUNTS, EXPOSURE, COPIES, 1e-12)
    eta = np.linspace(-3.0, 5.0, COUNTS.size)
    np.testing.assert_allclose(rows.values(eta), poisson.values(eta), rtol=1e-6, atol=1e-6)
    assert rows.latent_variance == pytest.approx(poisson.latent_variance, rel=1e-9)


def test_what_stirling_leaves():
    for x in (0.01, 0.7, 3.0, 9.99, 10.0, 11.0, 500.0, 1e8):
        direct = beyond_stirling(np.array(x)) - beyond_stirling(np.array(x + 1.0))
        # log Gamma(x + 1) - log Gamma(x) = log x
        assert direct == pytest.approx((x + 0.5) * np.log1p(1.0 / x) - 1.0, rel=1e-6, abs=1e-12)


def test_draws_have_mean_and_variance():
    drawn = counts_of(np.full(200_000, 4.0), np.array(0.5), np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(4.0, abs=0.05)
    assert drawn.var() == pytest.approx(4.0 + 0.5 * 16.0, rel=0.03)


def _simulated(n, alpha, seed, slope=0.5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    x = (x - x.mean()) / x.std()
    mean = np.exp(0.7 + slope * x)
    rate = mean if alpha is None else mean * rng.gamma(1 / alpha, alpha, n)
    return x, rng.poisson(rate).astype(float)


def _by_grid(x, y):
    """Means and standard deviations of intercept, slope and log alpha, and the evidence against Poisson counts.

    A sum over a grid of four unknowns: the intercept, the slope (where t2 is small its ratio to the root of t2), log
    t2 and log alpha.
    """
    g, b, z = np.linspace(-1.5, 3.5, 61), np.linspace(-2.5, 2.5, 151), np.linspace(-8.0, 8.0, 65)
    l, u = np.linspace(-22.0, 10.0, 97), np.linspace(-14.0, 4.0, 73)

    def sums(log_alpha):
        """Sums over intercept, slope and log t2: of 1, of the first two, and of their squares; log of the unit."""
        rows = from_counts(y, None, None, np.exp(log_alpha))
        likely = np.array([rows.values(h + b[:, None] * x).sum(axis=1) for h in g])
        top, curve, out = likely.max(), CubicSpline(b, likely, axis=1), np.zeros(5)
        for at in l:
            t, tau = at - np.log(rows.latent_variance), np.exp(0.5 * at)
            prior = np.exp(0.5 * t - 1.5 * np.logaddexp(0.0, t) - betaln(0.5, 0.5))
            small = tau < 0.3
            slope, of_slope = (
                (tau * z, norm.pdf(z) * (z[1] - z[0])) if small else (b, norm.pdf(b, scale=tau) * (b[1] - b[0]))
            )
            weight = np.exp(curve(slope) - top) * of_slope * prior
            out += [
                weight.sum(),
                (g @ weight).sum(),
                (weight @ slope).sum(),
                (g**2 @ weight).sum(),
                (weight @ slope**2).sum(),
            ]
        return out, top

    found = [sums(each) for each in u]
    top = max(each for _, each in found)
    prior = np.exp(0.5 * u - np.logaddexp(0.0, u) - betaln(0.5, 0.5)) * (u[1] - u[0])
    mass = np.array([each * np.exp(unit - top) for each, unit in found]) * prior[:, None]
    total = mass.sum(axis=0)
    means = total[1:3] / total[0]
    sds = np.sqrt(total[3:] / total[0] - means**2)
    of_u = mass[:, 0] / total[0]
    of_poisson, unit = sums(-25.0)
    ratio = np.log(total[0]) + top - np.log(of_poisson[0]) - unit
    return means, sds, (of_u, u), ratio


@pytest.fixture(scope="module", params=[(40, 0.6, 0), (30, None, 1), (25, 2.0, 2)])
def against_grid(request):
    x, y = _simulated(*request.param)
    return (
        _by_grid(x, y),
        BayesRidge(y, x[:, None], family="negative-binomial").fit(),
        BayesRidge(y, x[:, None], family="poisson").fit(),
    )


def test_fits_agree_with_a_grid(against_grid):
    (means, sds, (of_u, u), ratio), res, poisson = against_grid
    print((res.params.to_numpy() - means) / sds, res.bse.to_numpy() / sds)
    np.testing.assert_allclose((res.params.to_numpy() - means) / sds, 0, atol=0.02)
    np.testing.assert_allclose(res.bse, sds, rtol=0.03)
    alpha = res.hyperparameters(0.05).loc["alpha", ["lower", "median", "upper"]]
    print(
        np.interp(np.log(alpha), u + 0.5 * (u[1] - u[0]), of_u.cumsum()),
        res.log_evidence - poisson.log_evidence,
        ratio,
    )
    below = np.interp(np.log(alpha), u + 0.5 * (u[1] - u[0]), of_u.cumsum())
    np.testing.assert_allclose(below, [0.025, 0.5, 0.975], atol=0.01)
    assert res.log_evidence - poisson.log_evidence == pytest.approx(ratio, abs=0.02)


def _by_fine_grid(space, rows, prior, flat_in, u):
    """Means and standard deviations of linear predictors by EP at close values of log t2 and of the log of alpha."""
    weights, means, variances, start = [], [], [], None
    for each in u:
        likelihood = rows.of_shape(float(each))
        of_l = log_prior(prior, space, likelihood, flat_in)
        for l in of_l.log_scale + np.arange(-30.0, 8.0, 0.35):
            found = expectation_propagation(space, likelihood, float(l), start, tol=1e-5, maxiter=200)
            start = found.sites
            weights.append(found.log_evidence + of_l(float(l)) + PRIOR(float(each)))
            means.append(found.mean)
            variances.append(found.variance)
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mean = weight @ np.array(means)
    return mean, np.sqrt(weight @ (np.array(variances) + (np.array(means) - mean) ** 2))


@pytest.mark.parametrize(
    ("n", "slope", "level", "alpha", "u"),
    [
        (80, 0.4, 3.0, 0.5, np.arange(-3.0, 1.0, 0.15)),
        (200, 0.0, 2.0, 6.0, np.arange(0.8, 3.0, 0.1)),
        (60, 1.0, 300.0, 0.05, np.arange(-4.5, -1.2, 0.15)),
    ],
)
def test_rules_of_penalty_and_dispersion_are_those_of_a_fine_grid(n, slope, level, alpha, u):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 4))
    y = rng.poisson(level * np.exp(slope * x[:, 0]) * rng.gamma(1 / alpha, alpha, n))
    model = BayesRidge(y, x, family="negative-binomial")
    fit = model.fit().sites_fit
    mean, sd = _by_fine_grid(fit.space, from_counts(y, None, None, None), model.prior_of_tau2, model.flat_in, u)
    means, variances = (np.array([getattr(node, name) for node in fit.nodes]) for name in ("mean", "variance"))
    found = fit.weight @ means
    np.testing.assert_allclose((found - mean) / sd, 0, atol=OF_RULES)
    np.testing.assert_allclose(np.sqrt(fit.weight @ (variances + (means - found) ** 2)), sd, rtol=OF_RULES)


RATE = 0.01
"""Of the fall of a density between linear predictors of 25,000 and 100,000: the largest seen is 9e-4."""


@pytest.mark.parametrize("events", [1, 2, 3])
def test_moments_that_do_not_exist_with_few_counts(events, tmp_path):
    """The density of a large intercept falls as a power of it, which the integral over alpha tells."""
    counts = np.zeros(40, dtype=int)
    counts[[12, 20, 27][:events]] = [1, 3, 1][:events]
    rows, log_alpha = from_counts(counts.astype(float), np.ones(40), np.ones(40), None), np.linspace(0.0, 40.0, 4001)

    def density(eta):
        each = [rows.of_shape(u).values(np.full(40, eta)) + rows.of_shape(u).log_constants() for u in log_alpha]
        total = np.sum(each, axis=1) + PRIOR.values(log_alpha)
        return np.log(np.exp(total - total.max()).sum()) + total.max()

    fall = (density(2.5e4) - density(1e5)) / np.log(4.0)
    assert fall - 1.0 == pytest.approx(rows.order, abs=RATE)
    res = BayesRidge(counts, np.linspace(-1, 1, 40)[:, None], family="negative-binomial").fit("laplace")
    assert res.posterior.has_mean == (events > 1)
    assert np.isfinite(res.bse["const"]) == (events > 2)
    assert ("few-counts" in [found.code for found in res.findings]) == (events < 3)
    res.save(tmp_path / "fit", remove_data=True)
    assert load(tmp_path / "fit").params["const"] == pytest.approx(res.params["const"], abs=1e-9)
