"""Several penalties integrated out, compared with dense grids over the variances and with refits."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import gammaincc
from scipy.stats import invgamma

from pybayesridge import BayesRidge, ConvergenceWarning
from pybayesridge.bands.components import VarianceGrid
from pybayesridge.bands.evidence import Evidence
from pybayesridge.bands.fit import ExactFitError, _fit_sampled, fit_exact, fit_given, fit_mode
from pybayesridge.bands.problem import BandProblem
from pybayesridge.bands.result import BandFit
from pybayesridge.bands.sampled import LookedAt, Proposal, angles_at, scores_of
from pybayesridge.bands.shares import Box, ShareRule, angles_of, shares_of
from pybayesridge.posterior.laws import Ask
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import rotated_coefficients
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.profile import log_determinant, penalized_rss
from pybayesridge.ridge.spectrum import CANCELLED
from tests.dense_bands import cdf, dense_grid
from tests.effort import share
from tests.fuzz.bands import compare_bands, make_bands

R2 = BetaPrime(scale=None)


SOLVED_EXACTLY = 1e-13
"""Of linear equations with some ten columns, solved in different ways; the worst seen is 4e-15."""

SOLVED = 1e-6
"""Relative difference of quantiles that are solved for from different points."""


def problem_of(y, x, band, *, own=None, **options) -> BandProblem:
    """The problem of an intercept and columns in bands."""
    design, products = BayesRidge(y, x, **options)._build()
    own_scale = np.zeros(x.shape[1], dtype=bool) if own is None else own
    return BandProblem.of(design, products, np.asarray(band, dtype=np.intp), own_scale)


def fitted(y, x, band, *, prior=R2, tol=1e-5, sigma2=None, **options) -> BandFit:
    """All penalties integrated out."""
    return fit_exact(problem_of(y, x, band, **options), prior, GaussianNoise(sigma2), tol)


def data(n, sizes, effects, seed=0, noise=1.0):
    """Columns in bands of some sizes with coefficients of some standard deviations."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, sum(sizes)))
    b = np.concatenate([effect * rng.normal(size=m) for m, effect in zip(sizes, effects, strict=True)])
    return x @ b + noise * rng.normal(size=n) + 3.0, x, np.repeat(np.arange(len(sizes)), sizes)


BINNED = 1e-5
"""Probabilities of a mixture whose thousands of components are put on a grid."""

ERROR = 1e-4
"""In standard deviations, of means and standard deviations, and of distribution functions; the worst seen is 5e-6."""


def compared(grid, fit: BandFit, quantiles=(0.025, 0.975)) -> float:
    """The largest difference of the posteriors of the coefficients."""
    found = fit.posterior.coefficients.ask(Ask(quantiles, above=True))
    worst = [np.abs((found.mean[:, 0] - grid["mean"]) / grid["sd"]).max()]
    worst += [
        np.abs(cdf(grid, at) - level).max() for level, at in zip(quantiles, found.quantiles[:, 0].T, strict=True)
    ]
    worst.append(np.abs(found.above[:, 0] - (1 - cdf(grid, np.zeros(found.mean.shape[0])))).max())
    if not 2 < grid["df"] < 5:  # else the grid's own tails are too short for variances
        worst.append(np.abs(found.sd[:, 0] / grid["sd"] - 1).max())
    return float(max(worst))


CASES = {
    "signal": lambda: data(14, (3, 4), (1.0, 0.3)),
    "a band of noise": lambda: data(16, (3, 5), (1.0, 0.0), seed=1),
    "all noise": lambda: data(12, (2, 3), (0.0, 0.0), seed=2),
    "wide": lambda: data(10, (4, 14), (1.0, 0.1), seed=3),
    "a single column": lambda: data(12, (1, 6), (2.0, 0.3), seed=4),
    "five rows": lambda: data(5, (2, 3), (1.0, 1.0), seed=5),
    "strong": lambda: data(15, (3, 3), (30.0, 3.0), seed=6),
}


@pytest.fixture(scope="module", params=share(CASES, 2))
def case(request):
    """The data of a case, their dense grid and the fit."""
    y, x, band = CASES[request.param]()
    return dense_grid(y, x, band), fitted(y, x, band)


def test_two_bands_equal_a_dense_grid(case):
    grid, fit = case
    assert fit.converged.all()
    assert compared(grid, fit) < ERROR


def test_variances_equal_a_dense_grid(case):
    grid, fit = case
    found, at, half = fit.grid(GaussianNoise(), 0), np.array([0.025, 0.5, 0.975]), grid["df"] / 2
    for k in range(2):
        log_scale2 = grid["log_t"][:, k] + np.log(grid["noise"])
        sds = found.sd(k, at)[1]
        reached = [grid["weight"] @ gammaincc(half, half * np.exp(log_scale2) / sd**2) for sd in sds]
        assert np.abs(reached - at).max() < 5 * ERROR
        mean, ends, _ = found.shares(k, at)
        assert abs(mean - grid["weight"] @ grid["share"][:, k]) < ERROR
        assert found.totals is not None
        reached = [grid["weight"] @ (grid["share"][:, k] < end) for end in ends]
        # The grid has steps: half the weight of a point is its error.
        assert np.abs(reached - at).max() < 0.1


def test_the_log_evidence_equals_a_dense_grid():
    y, x, band = CASES["signal"]()
    grid = dense_grid(y, x, band)
    res = BayesRidge(y, x, bands=band.tolist()).fit(tol=1e-6)
    assert abs(res.log_marginal - grid["log_evidence"]) < 1e-5


def test_weights_unpenalised_columns_and_a_known_noise_variance():
    y, x, band = data(14, (3, 4), (1.0, 0.5), seed=8)
    rng = np.random.default_rng(1)
    z, w = rng.normal(size=14), rng.uniform(0.3, 3.0, size=14)
    grid = dense_grid(y, x, band, weights=w, z=np.column_stack([np.ones(14), z]), sigma2=1.3)
    model = BayesRidge(y, np.column_stack([z, x]), weights=w, unpenalized=[0])
    design, products = model._build()
    problem = BandProblem.of(design, products, band, np.zeros(7, dtype=bool))
    assert compared(grid, fit_exact(problem, R2, GaussianNoise(1.3), 1e-5)) < ERROR


def test_bands_of_the_least_shares_are_left_out_of_the_rotation():
    y, x, band = data(20, (3, 4, 2), (1.0, 0.5, 0.3), seed=8)
    problem = problem_of(y, x, band)
    shares = np.array([0.3, 1e-6, 0.7 - 1e-6])
    design, spectrum = problem.without_least(shares, 1e-6, CANCELLED)
    kept, centred = band != 1, x - x.mean(axis=0)
    columns = (centred / centred.std(axis=0))[:, kept] * problem.factors(shares)[band[kept]]
    response = (y - y.mean()) / np.linalg.norm(y - y.mean())
    assert spectrum.rank == spectrum.p == 5
    for t2 in (1e-3, 1.0, 1e2):
        square = np.eye(20) + t2 * columns @ columns.T / spectrum.top**2
        rss = penalized_rss(spectrum, np.array([[np.log(t2)]]))[0, 0]
        assert abs(rss / (response @ np.linalg.solve(square, response)) - 1) < SOLVED_EXACTLY
        assert abs(log_determinant(spectrum, np.log(t2)) - np.linalg.slogdet(square)[1]) < SOLVED_EXACTLY
        expected = t2 * columns.T @ np.linalg.solve(square, response) / spectrum.top**2
        a = rotated_coefficients(spectrum, np.array([[np.log(t2)]]))[0].T
        found = spectrum.standardized_coefficients(design, a / spectrum.top)[:, 0]
        np.testing.assert_allclose(found[kept], expected, rtol=0, atol=SOLVED_EXACTLY * np.abs(expected).max())
        assert (found[~kept] == 0).all()
    # Without such a band it is the rotation of all.
    every = problem.without_least(shares, 0.0, CANCELLED)[1]
    assert every.rank == every.p == 9


@pytest.mark.parametrize(("sizes", "rows"), share([((2, 2, 3), 12), ((3, 4, 5), 8)], 2))
def test_three_bands_equal_a_dense_grid(sizes, rows):
    y, x, band = data(rows, sizes, (1.0, 0.0, 0.3), seed=9)
    grid = dense_grid(y, x, band, step=1.0, low=-24.0, high=16.0)
    # The grid's own error is 3e-5.
    assert compared(grid, fitted(y, x, band, tol=1e-2)) < 5 * ERROR


def test_variances_of_three_bands_equal_a_dense_grid():
    y, x, band = data(16, (1, 2, 2), (0.3, 3.0, 0.3), seed=4)
    grid = dense_grid(y, x, band, step=1.0, low=-26.0, high=22.0)
    found = BayesRidge(y, x, bands=band.tolist()).fit().variance_components()
    # The worst seen is 3e-4: the fit is asked for 1e-3.
    assert np.abs(found["share"] - grid["weight"] @ grid["share"]).max() < 3e-3
    for k in range(3):
        log_scale2 = grid["log_t"][:, k] + np.log(grid["noise"])
        half = grid["df"] / 2
        for name, level in (("lower", 0.025), ("upper", 0.975)):
            below = gammaincc(half, half * np.exp(log_scale2) / found[name].iloc[k] ** 2)
            assert abs(grid["weight"] @ below - level) < 3e-3


@pytest.mark.parametrize(
    ("sizes", "known"), share([((3, 4), None), ((4, 14), None), ((3, 4), 1.3), ((2, 2, 3), None)], 2)
)
def test_several_responses_equal_a_dense_grid_for_each(sizes, known):
    effects = [(1.0, 0.3, 0.0), (0.0, 0.0, 0.0), (0.2, 3.0, 1.0)]
    each = [data(14, sizes, some[: len(sizes)], seed=9) for some in effects]
    y, x, band = np.column_stack([one[0] for one in each]), each[0][1], each[0][2]
    many = fitted(y, x, band, tol=1e-2 if len(sizes) > 2 else 1e-5, sigma2=known)
    assert many.converged.all()
    given = {"step": 1.0, "low": -24.0, "high": 16.0} if len(sizes) > 2 else {}
    for i in range(y.shape[1]):
        grid = dense_grid(y[:, i], x, band, sigma2=known, **given)
        alone = SimpleNamespace(posterior=many.posterior.of_target(i))
        # As of single responses: with three bands the grid's own error is 3e-5.
        assert compared(grid, alone) < 5 * ERROR


HARD = {
    "strong signals and a known noise variance": 98,
    "a band of vanishing share beside a strong one": 141,
    "columns of other scales in a band": 340,
    "copies of a column in two bands, an exact fit": 381,
}
"""Numbers of random problems whose shares or standard deviations once were wrong without a warning."""


@pytest.mark.parametrize("case", share(HARD, 2))
def test_hard_problems_equal_a_dense_grid(case):
    verdict = compare_bands(make_bands(1, HARD[case]))
    assert not verdict.failure
    assert not verdict.faults


def test_one_band_is_a_ridge_to_the_last_bit():
    y, x, _ = data(30, (5, 4), (1.0, 0.3))
    one, many = BayesRidge(y, x).fit(), BayesRidge(y, x, bands=["a"] * 9).fit()
    assert (one.params.to_numpy() == many.params.to_numpy()).all()
    assert (one.bse.to_numpy() == many.bse.to_numpy()).all()
    assert one.log_marginal == many.log_marginal
    assert np.abs(one.conf_int() - many.conf_int()).to_numpy().max() < 1e-8
    sd = many.hyperparameters().loc["sd[a]", "median"]
    assert 0.8 < sd / np.sqrt(one.tau2 * one.sigma2) < 1.2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", ["columns", "wide", "unpenalised", "targets", "own scale", "known noise", "prior"])
def test_one_band_is_a_ridge_to_the_last_bit_of_all_that_is_reported(case, weighted):
    y, x, _ = data(30, (25, 15) if case == "wide" else (5, 4), (1.0, 0.3))
    given = {
        "unpenalised": {"unpenalized": [0, 3]},
        "own scale": {"standardize": False},
        "known noise": {"sigma2": 0.7},
        "prior": {"prior": "half-cauchy"},
    }.get(case, {})
    if weighted:
        given["weights"] = np.random.default_rng(5).gamma(3.0, size=30)
    response = np.column_stack([y, y**2, np.cos(y)]) if case == "targets" else y
    one = BayesRidge(response, x, **given).fit()
    many = BayesRidge(response, x, bands=["a"] * x.shape[1], **given).fit()
    for name in ("params", "bse", "log_marginal", "sigma2", "fittedvalues"):
        assert np.array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(many, name))), name
    wanted, found = (fit.get_prediction(x[:3]).summary_frame() for fit in (one, many))
    np.testing.assert_allclose(found, wanted, rtol=SOLVED)


def test_one_band_of_a_formula_is_a_ridge_to_the_last_bit():
    y, x, _ = data(30, (2, 2), (1.0, 0.3))
    frame = pd.DataFrame(x, columns=list("abcd")).assign(y=y, w=np.arange(1.0, 31.0))
    one = BayesRidge.from_formula("y ~ a + b + c + d", frame, weights="w").fit()
    many = BayesRidge.from_formula('y ~ band(a, b, c, d, name="all")', frame, weights="w").fit()
    assert (one.params.to_numpy() == many.params.to_numpy()).all()
    assert (one.bse.to_numpy() == many.bse.to_numpy()).all()
    assert one.log_marginal == many.log_marginal


@pytest.mark.parametrize("sizes", [(3, 4), (9, 20)])
def test_derivatives_of_the_likelihood(sizes):
    y, x, band = data(12, sizes, (1.0, 0.5))
    problem = problem_of(y, x, band)
    evidence = Evidence.of(problem, GaussianNoise().of(problem.design), 0)
    theta, step = np.array([-1.0, 0.3]), 1e-5
    at = evidence.at(theta)
    ends = [(evidence.at(theta + step * e), evidence.at(theta - step * e)) for e in np.eye(2)]
    assert np.abs([(a.value - b.value) / (2 * step) for a, b in ends] - at.gradient).max() < 1e-7
    assert np.abs(np.array([(a.gradient - b.gradient) / (2 * step) for a, b in ends]) - at.hessian).max() < 1e-7


def unbalanced(seed=3, groups=12, n=90):
    """A random intercept and a random slope, independent: response, covariate, groups, columns, bands."""
    rng = np.random.default_rng(seed)
    size = rng.gamma(2, size=groups)
    g = np.concatenate([np.arange(groups), rng.choice(groups, size=n - groups, p=size / size.sum())])
    t = rng.normal(size=n)
    u, s = 1.5 * rng.normal(size=groups), 0.7 * rng.normal(size=groups)
    dummies = (g[:, None] == np.arange(groups)).astype(float)
    y = 2 + 0.5 * t + u[g] + s[g] * t + rng.normal(size=n)
    return y, t, g, np.hstack([dummies, dummies * t[:, None]]), np.repeat([0, 1], groups)


def restricted(y, fixed, x, band, sds, noise):
    """The restricted log likelihood by its definition."""
    v = noise**2 * np.eye(len(y)) + (x * np.asarray(sds)[band] ** 2) @ x.T
    vi = np.linalg.inv(v)
    zvz = fixed.T @ vi @ fixed
    r = y - fixed @ np.linalg.solve(zvz, fixed.T @ vi @ y)
    nu = len(y) - fixed.shape[1]
    logs = np.linalg.slogdet(v)[1] + np.linalg.slogdet(zvz)[1] + r @ vi @ r + nu * np.log(2 * np.pi)
    return -0.5 * logs


def test_restricted_maximum_likelihood_is_not_below_that_of_statsmodels():
    y, t, g, x, band = unbalanced()
    model = BayesRidge(y, np.column_stack([t, x]), unpenalized=[0])
    design, products = model._build()
    problem = BandProblem.of(design, products, band, np.ones(band.size, dtype=bool))
    fit = fit_mode(problem, None, GaussianNoise(), "tau2")
    found = fit.grid(GaussianNoise(), 0)
    noise = float(np.sqrt(found.scale2[0]))
    sds = np.exp(found.log_t[0] / 2) * noise
    formula = {"a": "0 + C(g)", "b": "0 + C(g):t"}
    other = sm.MixedLM.from_formula(
        "y ~ t", pd.DataFrame({"y": y, "t": t, "g": g, "one": 1.0}), groups="one", re_formula="0", vc_formula=formula
    ).fit(reml=True)
    fixed = np.column_stack([np.ones(len(y)), t])
    best = restricted(y, fixed, x, band, sds, noise)
    assert best >= restricted(y, fixed, x, band, np.sqrt(other.vcomp), np.sqrt(other.scale)) - 1e-8
    assert np.abs(sds / np.sqrt(other.vcomp) - 1).max() < 1e-4
    for change in np.vstack([np.eye(3), -np.eye(3)]) * 1e-3:
        moved = np.append(sds, noise) * np.exp(change)
        assert restricted(y, fixed, x, band, moved[:2], moved[2]) < best


def test_a_band_of_variance_zero_is_found_by_the_mode():
    y, x, band = CASES["a band of noise"]()
    fit = fit_mode(problem_of(y, x, band), None, GaussianNoise(), "tau2")
    assert fit.shares[0, 1] == 0
    _, b = fit.posterior.coefficient_means()
    assert np.abs(b[band == 1]).max() < 1e-9


@pytest.mark.parametrize("parameterization", ["tau2", "tau"])
def test_the_mode_of_one_band_is_that_of_a_ridge(parameterization):
    y, x, _ = data(30, (5, 4), (1.0, 0.3))
    one = BayesRidge(y, x).fit("em", parameterization=parameterization)
    many = BayesRidge(y, x, bands=["a"] * 9).fit("em", parameterization=parameterization)
    assert np.abs(one.params / many.params - 1).max() < 1e-6
    assert np.abs(one.bse / many.bse - 1).max() < 1e-6


def test_given_penalties_are_generalised_least_squares():
    y, x, band = data(20, (3, 4), (1.0, 0.5))
    lam = np.array([0.5, 7.0])
    fit = fit_given(problem_of(y, x, band, standardize=False), GaussianNoise(), -np.log(lam))
    both = np.column_stack([np.ones(20), x])
    exact = np.linalg.solve(both.T @ both + np.diag([0.0, *lam[band]]), both.T @ y)
    found = np.concatenate(fit.posterior.coefficient_means())[:, 0]
    assert np.abs(found - exact).max() < 1e-10


def test_an_exact_fit_is_refused():
    x = np.random.default_rng(0).normal(size=(12, 4))
    with pytest.raises(ExactFitError):
        fitted(x @ np.ones(4), x, [0, 0, 1, 1])


def test_shares_and_angles():
    rule = ShareRule.of(Box.whole(4), 8)
    weight = np.exp(rule.log_weight)
    assert abs(weight.sum() - 1) < 1e-9
    assert np.abs(shares_of(angles_of(rule.shares)) - rule.shares).max() < 1e-12
    # Dirichlet(1/2, ..., 1/2): means 1/4, second moments 1/8.
    assert np.abs(weight @ rule.shares - 0.25).max() < 1e-9
    assert np.abs(weight @ rule.shares**2 - 0.125).max() < 1e-9


def test_rules_are_set_up_where_the_density_is():
    y, x, band = data(400, (60, 80), (1.0, 0.4), seed=11)
    fit = fitted(y, x, band, tol=1e-4)
    assert fit.rule is not None
    assert fit.rule.box.volume < 0.7
    assert fit.converged.all()
    found = fit.grid(GaussianNoise(), 0)
    assert 0.7 < found.sd(0, np.array([0.5]))[1][0] < 1.4


def test_sampled_shares_equal_a_product_rule():
    y, x, band = data(30, (3, 4, 5), (1.0, 0.3, 0.0), seed=3)
    problem = problem_of(y, x, band)
    product = fit_exact(problem, R2, GaussianNoise(), 1e-2)
    sampled = _fit_sampled(problem, R2, GaussianNoise(), 1e-3)
    assert sampled.error < 0.02
    ask = Ask((0.025, 0.975))
    one, other = (fit.posterior.coefficients.ask(ask) for fit in (product, sampled))
    # Two to five times the estimated error of an average.
    assert np.abs((one.mean - other.mean) / one.sd).max() < 0.02
    assert np.abs(other.sd / one.sd - 1).max() < 0.02
    assert np.abs(product.log_integral - sampled.log_integral) < 0.02
    at = np.array([0.025, 0.5, 0.975])
    grids = [fit.grid(GaussianNoise(), 0) for fit in (product, sampled)]
    for k in range(3):
        assert np.abs(grids[0].shares(k, at)[1] - grids[1].shares(k, at)[1]).max() < 0.03


PARTS = Proposal(
    np.array([0.7, 0.3]),
    np.array([[0.3, -0.5], [-1.0, 1.5]]),
    np.array([[[0.5, 0.2], [0.2, 0.4]], [[0.2, 0.0], [0.0, 0.9]]]),
)
"""Of two parts."""


@pytest.mark.parametrize(
    "proposal", [Proposal.normal_like(np.array([0.3, -0.5]), np.array([[0.5, 0.2], [0.2, 0.4]])), PARTS]
)
def test_a_proposal_has_its_density(proposal):
    points = proposal.points(np.random.default_rng(0).random((20_000, 4)))
    wide = Proposal.normal_like(np.zeros(2), 4 * np.eye(2))
    weight = np.exp(wide.log_density(points) - proposal.log_density(points))
    assert abs(weight.mean() - 1) < 0.1
    near = points[np.abs(points).max(axis=1) < 4]
    assert np.abs(scores_of(angles_at(near)) - near).max() < 1e-6


def test_a_proposal_is_like_the_points_it_is_fitted_to():
    first = Proposal.normal_like(np.zeros(2), 2 * np.eye(2))
    seen = LookedAt.nowhere(2)
    for seed in range(3):  # a skewed density: that of PARTS
        points = first.points(np.random.default_rng(seed).random((500, 4)))
        seen = seen.with_more(first, points, PARTS.log_density(points))
        first = seen.proposal()
    points = first.points(np.random.default_rng(9).random((4000, 4)))
    weight = np.exp(PARTS.log_density(points) - first.log_density(points))
    assert abs(weight.mean() - 1) < 0.05  # seen: 0.005
    assert weight.sum() ** 2 / (weight**2).sum() > 0.7 * len(points)  # seen: 0.86; one t distribution has 0.5
    log_ratio = seen.log_density - seen.log_proposal()
    assert abs(np.exp(log_ratio).mean() - 1) < 0.1  # seen: 0.01


@pytest.mark.parametrize("seed", [1, 11])
def test_a_slope_that_does_not_vary_by_group_is_integrated_over(seed):
    rng = np.random.default_rng(seed)
    groups, x = rng.integers(0, 30, 600), rng.normal(size=600)
    y = 1 + 0.5 * x + 0.5 * rng.normal(size=30)[groups] + rng.normal(size=600)
    data = pd.DataFrame({"y": y, "x": x, "g": groups.astype(str)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        res = BayesRidge.from_formula("y ~ x + (x | g)", data).fit()
    assert res.quadrature_error < 0.03  # seen: 0.014; with one t distribution as proposal 0.06


@pytest.mark.parametrize("df", [2.5, 30.0, 5000.0])
@pytest.mark.parametrize("size", [1, 40, 6000])
def test_quantiles_of_a_variance_have_their_probabilities(df, size):
    rng = np.random.default_rng(0)
    weight, scale2 = rng.dirichlet(np.ones(size)), np.exp(2 * rng.normal(size=size))
    grid = VarianceGrid(weight, np.zeros((size, 1)), np.zeros((size, 1)), scale2, df)
    probabilities = np.array([0.5, 1e-3, 0.025, 0.975, 0.5, 0.999])
    _, quantiles = grid.noise(probabilities)
    below = [weight @ invgamma.cdf(x, df / 2, scale=df * scale2 / 2) for x in quantiles]
    np.testing.assert_allclose(below, probabilities, atol=BINNED)
    assert grid.noise(np.zeros(0))[1].size == 0
