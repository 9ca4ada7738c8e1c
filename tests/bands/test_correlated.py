"""Correlated effects of groups, ``(x | g)``: compared with dense grids, with MixedLM and with refits."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import betaln, gammaln, logsumexp, ndtri
from scipy.stats import gamma
from scipy.stats import t as student

from pybayesridge import BayesRidge, SpikeSlab, compare_loo, fit_imputed, load
from pybayesridge.bands import fit as independent
from pybayesridge.bands import lattice as lattices
from pybayesridge.bands import mixed
from pybayesridge.bands.covariance import CovarianceCoordinates, correlation_root
from pybayesridge.bands.lattice import Value, grown
from pybayesridge.bands.mixed import _likelihood_at, fit_exact
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.problem import BandProblem
from pybayesridge.cli import main
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.posterior.laws import Ask
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.prior import BetaPrime
from tests.effort import only_thorough

R2 = BetaPrime(scale=None)
MEAN = 1e-3
"""Posterior standard deviations."""

QUANTILE = 4e-3
"""Likewise, and probabilities, of quantiles."""

COARSE = 2e-3
"""Probabilities between the points of coarse lattices: four times the largest error that was seen."""

INTERPOLATED = 3e-3
"""Means of variances and correlations, which are taken between the points of the lattice."""

MANY_DIMENSIONS = 0.03
"""Standard deviations: of means by weighted points, whose error is about .01; three times as much of limits."""

SAME = 1e-9
LIKELIHOOD = 2e-4
"""Relative difference of estimates from those of an optimiser that stops early."""


def groups(levels=8, rows=6, sd=(1.0, 0.5), rho=0.5, noise=1.0, seed=0):
    """A response, a variable and groups."""
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(levels), rows), np.tile(np.arange(rows) - 1.0, levels)
    z = rng.normal(size=(levels, 2))
    slope = sd[1] * (rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1])
    y = 2 + 0.3 * x + sd[0] * z[g, 0] + slope[g] * x + noise * rng.normal(size=g.size)
    return pd.DataFrame({"y": y, "x": x, "g": g})


def problem_of(data, sets=((0, 1),)):
    """The problem of intercepts and slopes, and its design."""
    dummies = (data["g"].to_numpy()[:, None] == np.unique(data["g"])).astype(float)
    x = data["x"].to_numpy()[:, None]
    model = BayesRidge(data["y"], np.hstack([x, dummies, x * dummies]), unpenalized=[0], standardize=False)
    design, products = model._build()
    band = np.repeat([0, 1], dummies.shape[1])
    own = np.ones(band.size, dtype=bool)
    return MixedProblem.of(design, band, own, sets), BandProblem.of(design, products, band, own)


def dense_grid(data, points=70, rhos=41, low=-20.0, high=8.0):
    """Everything by a product rule over the logs of both variances and the correlation."""
    g, x, y = (data[name].to_numpy() for name in ("g", "x", "y"))
    dummies = (g[:, None] == np.unique(g)).astype(float)
    n, count = dummies.shape
    columns = np.hstack([dummies, x[:, None] * dummies])
    q = np.linalg.qr(np.column_stack([np.ones(n), x]))[0]
    outside, rest, nu = columns - q @ (q.T @ columns), y - q @ (q.T @ y), n - 2
    gram, xty, total = outside.T @ outside, outside.T @ rest, rest @ rest
    parts = [slice(0, count), slice(count, 2 * count)]
    s = np.array([[np.trace(gram[a, b]) for b in parts] for a in parts]) / n
    log_t = np.linspace(low, high, points)
    node, node_weight = np.polynomial.legendre.leggauss(rhos)
    a, b, r = (each.ravel() for each in np.meshgrid(log_t, log_t, np.arange(rhos), indexing="ij"))
    rho, width = node[r], log_t[1] - log_t[0]
    made = {name: [] for name in ("logs", "center", "variance", "noise")}
    for at in np.array_split(np.arange(a.size), a.size // 5000):
        root = np.exp(np.stack([a[at], b[at]], axis=1) / 2)
        factor = np.zeros((at.size, 2 * count, 2 * count))
        i = np.arange(count)
        factor[:, i, i], factor[:, count + i, i] = root[:, :1], (rho[at] * root[:, 1])[:, None]
        factor[:, count + i, count + i] = (np.sqrt(1 - rho[at] ** 2) * root[:, 1])[:, None]
        turned = factor.transpose(0, 2, 1)
        h = turned @ gram @ factor + np.eye(2 * count)
        u, inverse = turned @ xty, np.linalg.inv(h)
        v = np.einsum("mij,mj->mi", inverse, u)
        rss = total - np.einsum("mi,mi->m", u, v)
        w = root**2 * np.diag(s)
        own, explained = w.sum(axis=1), w.sum(axis=1) + 2 * rho[at] * root.prod(axis=1) * s[0, 1]
        logs = 0.5 * np.log(explained) - np.log1p(explained) - np.log(np.pi)
        logs += 0.5 * np.log(w.prod(axis=1)) - np.log(own) + gammaln(1.0) - np.log(np.pi)
        logs += np.log(node_weight[r[at]] / 2) + 2 * np.log(width)
        made["logs"].append(logs - 0.5 * np.linalg.slogdet(h)[1] - nu / 2 * np.log(rss / total))
        made["center"].append(np.einsum("mij,mj->mi", factor, v))
        made["variance"].append(np.einsum("mij,mjk,mik->mi", factor, inverse, factor) * rss[:, None] / nu)
        made["noise"].append(rss / nu)
    out = {name: np.concatenate(each) for name, each in made.items()}
    weight = np.exp(out["logs"] - logsumexp(out["logs"]))
    mean = weight @ out["center"]
    sd = np.sqrt(weight @ (out["variance"] * nu / (nu - 2) + (out["center"] - mean) ** 2))
    more = {"weight": weight, "mean": mean, "sd": sd, "nu": nu, "rho": rho, "log_t": np.stack([a, b], axis=1)}
    return out | more | {"evidence": logsumexp(out["logs"])}


CASES = {
    "plain": {"levels": 7, "rows": 5},
    "no slopes": {"levels": 7, "rows": 5, "sd": (1.0, 0.0)},
    "few groups": {"levels": 4, "rows": 5, "noise": 0.3},
    "correlation near one": {"levels": 7, "rows": 5, "rho": -0.95},
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    data = groups(**CASES[request.param])
    problem, _ = problem_of(data)
    return problem, fit_exact(problem, R2, GaussianNoise(None), 1e-3), dense_grid(data)


def test_equals_a_dense_grid(case):
    problem, fit, grid = case
    assert fit.converged.all()
    assert fit.log_integral[0] == pytest.approx(grid["evidence"], abs=2e-3)
    answer = fit.posterior.coefficients.ask(Ask((0.025, 0.5, 0.975)))
    k = problem.design.block.k
    mean, sd = answer.mean[k:, 0], answer.sd[k:, 0]
    assert np.abs((mean - grid["mean"]) / grid["sd"]).max() < MEAN
    assert np.abs(sd / grid["sd"] - 1).max() < MEAN
    for c, probability in enumerate((0.025, 0.5, 0.975)):
        for way in (-1, 1):
            at = answer.quantiles[k:, 0, c] + way * QUANTILE * sd
            below = grid["weight"] @ student.cdf((at - grid["center"]) / np.sqrt(grid["variance"]), grid["nu"])
            assert (way * (below - probability) > -1e-4).all()
    assert fit.posterior.covariance()[k:, k:].diagonal() ** 0.5 == pytest.approx(sd, rel=SAME)


def test_variances_and_correlations_equal_a_dense_grid(case):
    _, fit, grid = case
    found, weight = fit.grid(GaussianNoise(None), 0), grid["weight"]
    mean, ends, sd = found.correlations_at(np.array([0.1, 0.5, 0.9]))[0]
    middle = weight @ grid["rho"]
    spread = np.sqrt(weight @ (grid["rho"] - middle) ** 2)
    assert mean == pytest.approx(middle, abs=INTERPOLATED * spread)
    assert sd == pytest.approx(spread, rel=INTERPOLATED)
    # Partial sums of the rule are the distribution function at partial sums of its weights.
    node, node_weight = np.polynomial.legendre.leggauss(np.unique(grid["rho"]).size)
    mass = np.bincount(np.searchsorted(node, grid["rho"] - 1e-12), weight)
    below = np.interp(ends, np.cumsum(node_weight) - 1, np.cumsum(mass))
    assert np.abs(below - [0.1, 0.5, 0.9]).max() < 2 * QUANTILE
    half = grid["nu"] / 2
    factor = np.exp(0.5 * np.log(half) + gammaln(half - 0.5) - gammaln(half))
    for k in range(2):
        value = np.exp((grid["log_t"][:, k] + np.log(grid["noise"])) / 2)
        own = found.sd(k, np.array([0.5]))
        assert own[0] == pytest.approx(factor * (weight @ value), rel=INTERPOLATED)


def test_without_correlations_it_is_the_fit_of_independent_bands():
    data = groups(levels=6, rows=5)
    problem, other = problem_of(data, sets=())
    one, two = (
        fit_exact(problem, R2, GaussianNoise(None), 1e-3),
        independent.fit_exact(other, R2, GaussianNoise(None), 1e-5),
    )
    noise = GaussianNoise(None)
    evidence = (fit.log_marginal(noise, 0.0, given=False)[0] for fit in (one, two))
    assert next(evidence) == pytest.approx(next(evidence), abs=MEAN)
    at = Ask((0.025, 0.975))
    first, second = (fit.posterior.coefficients.ask(at) for fit in (one, two))
    assert np.abs((first.mean - second.mean) / second.sd).max() < MEAN
    assert np.abs((first.quantiles - second.quantiles) / second.sd[..., None]).max() < QUANTILE
    grids = [fit.grid(GaussianNoise(None), 0) for fit in (one, two)]
    for k in range(2):
        (_, ends, sd), (_, others, _) = (grid.sd(k, np.array([0.025, 0.5, 0.975])) for grid in grids)
        assert np.abs(ends - others).max() < QUANTILE * sd
        (_, ends, _), (_, others, _) = (grid.shares(k, np.array([0.025, 0.5, 0.975])) for grid in grids)
        assert np.abs(ends - others).max() < QUANTILE


@pytest.mark.parametrize("sigma2", [None, 0.8])
def test_derivatives_of_the_likelihood(sigma2):
    problem, _ = problem_of(groups(levels=5, rows=4))
    problem = problem.of_target(0)
    likelihood = GaussianNoise(sigma2).of(problem.design)
    coordinates = problem.coordinates(R2)
    x = np.array([0.7, 1.1, -0.4])

    def value(at):
        return _likelihood_at(problem, likelihood, coordinates.factors, at)

    slope = value(x)[1]
    differences = [(value(x + step)[0] - value(x - step)[0]) / 2e-5 for step in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("prior", [R2, BetaPrime(1.0, 0.7, 2.0)])
def test_the_prior_in_the_coordinates_is_that_of_the_variances(prior, apart):
    problem, _ = problem_of(groups(levels=5, rows=4))
    coordinates = problem.coordinates(prior)
    coordinates = (coordinates.each_apart() if apart else coordinates).around(np.array([0.5, 0.1]))
    terms, x = coordinates.terms, np.array([0.8, 1.3, -0.6])

    def outer(at):
        factors = coordinates.factors(at)
        return np.r_[np.log(terms.variances(factors) * terms.size), terms.correlations(factors)]

    step = 1e-6
    jacobian = np.column_stack([(outer(x + step * one) - outer(x - step * one)) / (2 * step) for one in np.eye(3)])
    log_w, total = outer(x)[:2], float(terms.totals(coordinates.factors(x)).sum())
    ratio = total / np.exp(coordinates.log_unit)
    wanted = prior.a * np.log(ratio) - (prior.a + prior.b) * np.log1p(ratio) - betaln(prior.a, prior.b)
    wanted += 0.5 * log_w.sum() - np.log(np.exp(log_w).sum()) - np.log(np.pi) - np.log(2.0)
    assert float(coordinates.log_prior(x)) == pytest.approx(wanted + np.linalg.slogdet(jacobian)[1], abs=1e-7)
    np.testing.assert_allclose(coordinates.of_factors(coordinates.factors(x)), x, atol=1e-9)
    reflected = coordinates.of_factors(coordinates.factors(x * [1, -1, -1]))
    np.testing.assert_allclose(reflected, x, atol=1e-9)


def test_windows_of_all_reflections_sum_to_one():
    problem, _ = problem_of(groups(levels=5, rows=4))
    coordinates = replace(problem.coordinates(R2), window=np.array([0.3, 2.0]))
    signs = np.array([[a, b, 1.0] for a in (-1, 1) for b in (-1, 1)])
    assert np.exp(coordinates.log_window(signs * [0.4, 1.1, 0.2])).sum() == pytest.approx(1.0, rel=1e-14)


def test_correlation_matrices_of_three():
    # Under the LKJ prior with eta = 1 each correlation of three is 2 u - 1 with u ~ Beta(3/2, 3/2): variance 1/4.
    uniform = (np.stack(np.meshgrid(*[np.arange(30)] * 3), axis=-1).reshape(-1, 3) + 0.5) / 30
    root = correlation_root(ndtri(uniform), 3)
    matrix = root @ root.swapaxes(-1, -2)
    np.testing.assert_allclose(np.diagonal(matrix, axis1=-2, axis2=-1), 1.0, rtol=1e-12)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert np.mean(matrix[:, i, j] ** 2) == pytest.approx(0.25, rel=2e-2)


def test_lattices():
    """A skewed density whose integral and moments are known: logs of gamma variables, turned."""
    shape, turn = np.array([2.0, 5.0]), np.array([[1.0, 0.4], [-0.3, 1.0]])

    def density(x):
        z = turn @ x
        value = float((shape * z - np.exp(z) - gammaln(shape)).sum() + np.linalg.slogdet(turn)[1])
        return Value(value, np.zeros(1), z[0], x)

    origin = np.linalg.solve(turn, np.log(shape))
    root = np.linalg.inv(turn) / np.sqrt(shape)
    errors = []
    for step in (1.6, 1.1, 0.8):
        lattice, kept = grown(density, origin, step * root)
        np.testing.assert_allclose(kept, lattice.points, atol=1e-12)
        error = lattice.error(lattice.points)
        errors.append(abs(lattice.log_integral))
        assert lattice.complete
        assert errors[-1] < max(10 * error, 1e-4)
    assert errors[-1] < 1e-4
    points, weight, other = lattice.fine()
    z = points @ turn.T
    assert weight @ np.abs(other - z[:, 0]) < MEAN
    for k, alpha in enumerate(shape):
        order = np.argsort(z[:, k])
        below = np.cumsum(weight[order])
        assert np.abs(below - gamma.cdf(np.exp(z[order, k]), alpha)).max() < QUANTILE


@pytest.mark.parametrize(("shape", "step"), [(2.0, 1.0), (2.0, 0.7), (1.0, 0.7)])
def test_between_points_of_coarse_lattices(shape, step):
    """Logs of gamma variables, steep on one side and straight on the other, where few points have any weight."""
    turn = np.array([[1.0, 0.0], [0.6, 1.0]])

    def density(x):
        z = turn @ x
        return Value(float((shape * z - np.exp(z)).sum()), np.zeros(1), 0.0, x)

    root = step * np.linalg.inv(turn) / np.sqrt(shape)
    lattice, _ = grown(density, np.linalg.solve(turn, np.full(2, np.log(shape))), root, 10.0)
    points, weight, _ = lattice.fine()
    for z in (points @ turn.T).T:
        order = np.argsort(z)
        assert np.abs(np.cumsum(weight[order]) - gamma.cdf(np.exp(z[order]), shape)).max() < COARSE


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(1)
    data = groups(levels=10, rows=6, sd=(1.5, 0.6), seed=4)
    center = data["g"] % 3 == 0
    return data.assign(
        g=[f"s{k:02d}" for k in data["g"]],
        z=rng.normal(size=len(data)),
        treated=np.where(center, 0.0, data["x"] > 1),
        w=rng.uniform(0.5, 2.0, size=len(data)),
    )


@pytest.fixture(scope="module")
def res(study):
    return BayesRidge.from_formula("y ~ x + (x | g)", study, unpenalized="fixed").fit()


def mixed_lm(formula, data, effects):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sm.MixedLM.from_formula(formula, data, groups="g", re_formula=effects).fit()


@pytest.mark.parametrize(("term", "effects"), [("(x | g)", "~x"), ("(0 + x + z | g)", "~0+x+z")])
def test_restricted_maximum_likelihood_is_that_of_mixed_models(study, term, effects):
    data = study.assign(y=study["y"] + 0.7 * study["z"] * study["g"].map(hash_of))
    res = BayesRidge.from_formula(f"y ~ x + z + {term}", data, unpenalized="fixed").fit("reml")
    wanted = mixed_lm("y ~ x + z", data, effects)
    covariance = wanted.cov_re.to_numpy()
    sds = np.sqrt(np.diag(covariance))
    found = res.variance_components()["mean"].to_numpy()
    np.testing.assert_allclose(found[:2], sds, rtol=LIKELIHOOD)
    assert found[2] == pytest.approx(covariance[1, 0] / sds.prod(), rel=LIKELIHOOD)
    assert res.sigma2 == pytest.approx(wanted.scale, rel=LIKELIHOOD)
    np.testing.assert_allclose(res.params.iloc[:3], wanted.fe_params, rtol=LIKELIHOOD, atol=LIKELIHOOD)


def test_three_correlated_effects(study):
    data = study.assign(y=study["y"] + 0.7 * study["z"] * study["g"].map(hash_of))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = BayesRidge.from_formula("y ~ x + z + (x + z | g)", data, unpenalized="fixed").fit("reml")
    wanted = mixed_lm("y ~ x + z", data, "~x+z")
    table = res.variance_components()
    assert res.converged
    assert list(table.index[3:]) == ["cor(g, x|g)", "cor(g, z|g)", "cor(x|g, z|g)"]
    sds, rho = table["mean"].to_numpy()[:3], np.eye(3)
    rho[np.tril_indices(3, -1)] = table["mean"].to_numpy()[3:]
    ours = np.outer(sds, sds) * (rho + np.tril(rho, -1).T)
    own, other = (restricted(data, a, s2) for a, s2 in ((ours, res.sigma2), (wanted.cov_re.to_numpy(), wanted.scale)))
    assert own > other - 1e-7


def restricted(data, covariance, sigma2):
    """The restricted log likelihood of intercepts and slopes of x and z, but for constants."""
    fixed = np.column_stack([np.ones(len(data)), data["x"], data["z"]])
    same = data["g"].to_numpy()[:, None] == data["g"].to_numpy()
    v = same * (fixed @ covariance @ fixed.T) + sigma2 * np.eye(len(data))
    inverse = np.linalg.inv(v)
    inner = fixed.T @ inverse @ fixed
    rest = data["y"] - fixed @ np.linalg.solve(inner, fixed.T @ inverse @ data["y"])
    return -0.5 * (np.linalg.slogdet(v)[1] + np.linalg.slogdet(inner)[1] + rest @ inverse @ rest)


def hash_of(level):
    """A number for each level."""
    return np.random.default_rng(int(level[1:])).normal()


def test_a_certain_correlation_is_told():
    data = groups(levels=6, rows=4, rho=1.0, seed=3)
    with pytest.warns(match="The correlation cor\\(g, x|g\\) is estimated to be 1"):
        res = BayesRidge.from_formula("y ~ x + (x | g)", data, unpenalized="fixed").fit("reml")
    assert res.converged
    assert res.variance_components()["mean"].iloc[2] == pytest.approx(1.0)
    assert BayesRidge.from_formula("y ~ x + (x | g)", data, unpenalized="fixed").fit().converged


def test_tables(res):
    table = res.variance_components()
    assert list(table.index) == ["g", "x|g", "cor(g, x|g)"]
    assert table["share"].iloc[0] == table["share"].iloc[1]
    assert table["share"].isna().tolist() == [False, False, True]
    assert (table["bound"].iloc[:2] < table["upper"].iloc[:2]).all()
    assert (table["share_bound"].iloc[:2] < table["share_upper"].iloc[:2]).all()
    effects = res.random_effects("x|g")
    assert effects["group"].unique().tolist() == ["g"]
    assert effects["term"].unique().tolist() == ["x"]
    assert effects["level"].tolist() == [f"s{k:02d}" for k in range(10)]
    assert res.random_effects("g")["term"].iloc[0] == "Intercept"
    assert "cor(g, x|g)" in str(res.summary())
    assert "cor(g, x|g)" in res.hyperparameters().index


def test_draws_have_the_moments_of_the_posterior(res):
    drawn = res.sample(20_000, rng=0, hyper_columns=True)
    np.testing.assert_allclose(drawn[res.params.index].mean(), res.params, atol=0.05 * float(res.bse.max()))
    np.testing.assert_allclose(drawn[res.params.index].std(), res.bse, rtol=0.04)
    assert drawn["cor(g, x|g)"].mean() == pytest.approx(res.variance_components()["mean"].iloc[2], abs=0.02)
    assert drawn["sigma2"].mean() == pytest.approx(float(res.sigma2), rel=0.02)
    share = res.explained_variance()["mean"]
    assert 0.5 < share < 1


def test_leave_one_out_equals_refits(study):
    """Given the variances by the formula of generalised least squares, else by a fit without the row."""
    small = study.reset_index(drop=True)
    formula, row = "y ~ x + (x | g)", 7
    full = BayesRidge.from_formula(formula, small, unpenalized="fixed").fit("reml")
    sds = full.variance_components()["mean"].to_numpy()
    covariance = np.diag(sds[:2] ** 2)
    covariance[0, 1] = covariance[1, 0] = sds[2] * sds[0] * sds[1]
    fixed = np.column_stack([np.ones(len(small)), small["x"]])
    same = small["g"].to_numpy()[:, None] == small["g"].to_numpy()
    v = same * (fixed @ covariance @ fixed.T) + float(full.sigma2) * np.eye(len(small))
    inverse = np.linalg.inv(v)
    p = inverse - inverse @ fixed @ np.linalg.solve(fixed.T @ inverse @ fixed, fixed.T @ inverse)
    np.testing.assert_allclose(full.loo_residuals, p @ small["y"] / np.diag(p), rtol=1e-7)
    whole = BayesRidge.from_formula(formula, small, unpenalized="fixed").fit()
    rest = BayesRidge.from_formula(formula, small.drop(index=row), unpenalized="fixed").fit()
    law = rest.get_prediction(small.iloc[[row]])
    # Of the prior of the total only its unit, that of the columns, depends on the row.
    assert whole.loo_residuals.iloc[row] == pytest.approx(
        small["y"].iloc[row] - float(law.predicted_mean[0]), abs=0.02 * float(law.se_obs[0])
    )


def test_new_levels(res, study):
    new = study.iloc[[3, 3, 3]].assign(g=["new", None, "s00"])
    sampled, zero = (res.get_prediction(new, new_levels=how) for how in ("sample", "zero"))
    np.testing.assert_allclose(sampled.predicted_mean, zero.predicted_mean, rtol=SAME)
    assert sampled.se_mean[2] == pytest.approx(zero.se_mean[2], rel=SAME)
    drawn = res.sample(40_000, rng=0, hyper_columns=True)
    x = float(new["x"].iloc[0])
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, len(drawn)))
    rho, sds = drawn["cor(g, x|g)"], [np.sqrt(drawn[f"tau2[{name}]"] * drawn["sigma2"]) for name in ("g", "x|g")]
    effect = sds[0] * first + x * sds[1] * (rho * first + np.sqrt(1 - rho**2) * second)
    wanted = drawn["Intercept"] + x * drawn["x"] + effect
    assert sampled.se_mean[0] == pytest.approx(wanted.std(), rel=0.03)
    assert sampled.se_mean[0] == pytest.approx(sampled.se_mean[1], rel=SAME)
    assert sampled.se_mean[0] > zero.se_mean[0]


def test_levels_in_which_the_slope_is_not_seen(study):
    """Their slopes follow from the intercepts, and from what other levels say of both."""
    rng = np.random.default_rng(5)
    level = np.repeat(np.arange(30), 6)
    z = rng.normal(size=(30, 2))
    treated = np.where(level % 3 == 0, 0.0, np.tile([0.0, 1.0], 90))
    y = 2 * z[level, 0] + (1.0 * z[level, 0] + 1.2 * z[level, 1]) * treated + 0.5 * rng.normal(size=180)
    data = pd.DataFrame({"y": y, "treated": treated, "g": [f"s{k:02d}" for k in level]})
    model = BayesRidge.from_formula("y ~ treated + (treated | g)", data, unpenalized="fixed")
    res = model.fit("reml")
    wanted = mixed_lm("y ~ treated", data, "~treated")
    slopes = [float(effects.iloc[1]) for _, effects in sorted(wanted.random_effects.items())]
    np.testing.assert_allclose(res.random_effects("treated|g")["mean"], slopes, atol=2e-3)
    assert abs(slopes[0]) > 0.1
    whole = model.fit().random_effects("treated|g")
    assert whole["sd"].iloc[0] > whole["sd"].iloc[1]


def test_questions_after_the_fit(res, study, tmp_path):
    assert np.isfinite(res.contrast("x").to_numpy(dtype=float)).all()
    assert len(res.effects(["x"])) == 1
    assert np.isfinite(float(res.loo().elpd))
    assert np.isfinite(float(np.atleast_1d(res.log_marginal)[0]))
    other = BayesRidge.from_formula("y ~ x + (x || g)", study, unpenalized="fixed").fit()
    assert len(compare_loo({"correlated": res, "independent": other})) == 2
    assert np.isfinite(res.prior_sensitivity().to_numpy()).all()
    res.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    pd.testing.assert_frame_equal(again.variance_components(), res.variance_components())
    new = study.iloc[:3].assign(g=["s01", "new", "s02"])
    pd.testing.assert_frame_equal(again.get_prediction(new).summary_frame(), res.get_prediction(new).summary_frame())


def test_the_report_has_the_correlations(res, tmp_path):
    pytest.importorskip("jinja2")
    assert "Correlations of effects" in res.report(tmp_path / "fit.html").read_text(encoding="utf-8")


def test_without_rows(study, tmp_path):
    res = BayesRidge.from_formula("y ~ x + (x | g)", study, unpenalized="fixed").fit()
    quantiles = res.conf_int()
    res.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit")
    pd.testing.assert_frame_equal(again.conf_int(), quantiles)


def test_pictures(res):
    pytest.importorskip("matplotlib").use("Agg")
    ax = res.plot_random_effects("x|g")
    assert {label.get_text() for label in ax.get_yticklabels()} == {f"s{k:02d}" for k in range(10)}
    res.plot_variance_components(what="sd")


@only_thorough
def test_several_responses_weights_and_a_known_noise(study):
    data = study.assign(y2=-2 * study["y"] + study["z"])
    both = BayesRidge.from_formula("y + y2 ~ x + (x | g)", data, unpenalized="fixed", weights="w").fit()
    for name in ("y", "y2"):
        one = BayesRidge.from_formula(f"{name} ~ x + (x | g)", data, unpenalized="fixed", weights="w").fit()
        np.testing.assert_allclose(both.params[name], one.params, rtol=1e-7)
        np.testing.assert_allclose(both.variance_components().loc[name], one.variance_components(), rtol=1e-6)
    known = BayesRidge.from_formula("y ~ x + (x | g)", study, unpenalized="fixed", sigma2=1.0).fit()
    free = BayesRidge.from_formula("y ~ x + (x | g)", study, unpenalized="fixed").fit()
    np.testing.assert_allclose(known.params, free.params, atol=0.5)
    table = known.variance_components()
    assert (table["lower"] < table["mean"]).all()
    assert (table["mean"] < table["upper"]).all()
    assert known.sample(5, rng=0).shape == (5, 22)


def test_imputed_data(study):
    tables = [study.assign(z=study["z"] + shift) for shift in (0.0, 0.3)]
    pooled = fit_imputed(
        tables, lambda data: BayesRidge.from_formula("y ~ x + z + (x | g)", data, unpenalized="fixed").fit()
    )
    assert np.isfinite(pooled.params.to_numpy()).all()


def test_missing_values(study, res):
    data = pd.concat([study, study.iloc[[0, 1]].assign(y=np.nan)], ignore_index=True)
    other = BayesRidge.from_formula("y ~ x + (x | g)", data, unpenalized="fixed").fit()
    np.testing.assert_allclose(other.params, res.params, rtol=1e-10)


def test_the_command_line(study, tmp_path, capsys):
    study.to_csv(tmp_path / "data.csv", index=False)
    command = ["ridge", "y ~ x + (x | g)", str(tmp_path / "data.csv"), "--unpenalized", "fixed"]
    assert main([*command, "--json", "--quiet"]) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert found["targets"][0]["correlations"][0]["name"] == "cor(g, x|g)"
    schema = json.loads((files("pybayesridge.cli") / "result.schema.json").read_text(encoding="utf-8"))
    pytest.importorskip("jsonschema").validate(found, schema)


@pytest.mark.parametrize(
    ("formula", "options", "told"),
    [
        ("y ~ x + (x | g)", {"method": "em"}, "use 'exact' or 'reml'"),
        ("y ~ x + (x | g)", {"method": "fixed", "lam": [1, 1]}, "does not estimate the correlation"),
        ("y ~ x + z + w + (x + z + w | g)", {}, "at most 8 variances and correlations"),
    ],
)
def test_refusals(study, formula, options, told):
    with pytest.raises(ValueError, match=told):
        BayesRidge.from_formula(formula, study, unpenalized="fixed").fit(**options)


def test_given_penalties_say_nothing_of_the_correlation(study):
    """A fit with given penalties would take the correlation to be 0, as (x || g) does."""
    events = study.assign(y=(study["y"] > study["y"].mean()).astype(int))
    lam = {"g": 1.0, "x|g": 2.0}
    models = [
        BayesRidge.from_formula(f"y ~ x + {term}", events, family="binomial", unpenalized="fixed")
        for term in ("(x | g)", "(x || g)")
    ]
    with pytest.raises(ValueError, match=r"does not estimate the correlation.*use 'ep' or 'laplace' or 'reml'"):
        models[0].fit("fixed", lam=lam)
    assert models[1].fit("fixed", lam=lam).converged


def test_a_variable_far_from_zero(study):
    far = study.assign(x=study["x"] + 2000)
    with pytest.raises(ValueError, match="subtract a typical value"):
        BayesRidge.from_formula("y ~ x + (x | g)", far, unpenalized="fixed").fit()
    made = [
        BayesRidge.from_formula("y ~ x + (center(x) | g)", data, unpenalized="fixed").fit() for data in (far, study)
    ]
    first, second = (res.variance_components().to_numpy() for res in made)
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_little_noise(study):
    """Where nearly nothing is left of the response, squares are taken of residuals."""
    data = study.assign(y=study["x"] * study["g"].map(hash_of) + 1e-4 * study["z"])
    with pytest.warns(PrecisionWarning, match="about 4 digits"):
        res = BayesRidge.from_formula("y ~ x + (x | g)", data, unpenalized="fixed").fit()
    slopes = [np.polyfit(part["x"], part["y"], 1)[0] for _, part in data.groupby("g")]
    found = res.random_effects("x|g")["mean"] + res.params["x"]
    np.testing.assert_allclose(found, slopes, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x": 1e-150}, r"a column of 'x\|g' has a standard deviation of .*e-151, .*: measure the variable in other"),
        ({"x": 1e150}, "the squares of unpenalised column\\(s\\) 'x' leave the range of floats: rescale them"),
        ({"y": 1e200}, "'y' has a standard deviation of .*e\\+200, .*: measure it in other units"),
    ],
)
def test_units_in_which_nothing_can_be_computed(study, change, told):
    far = study.assign(**{name: study[name] * factor for name, factor in change.items()})
    with pytest.raises(ValueError, match=told):
        BayesRidge.from_formula("y ~ x + (x | g)", far, unpenalized="fixed").fit()


def test_other_models_refuse_them(study):
    with pytest.raises(ValueError, match="use BayesRidge"):
        SpikeSlab.from_formula("y ~ x + (x | g)", study)
    with pytest.raises(ValueError, match="exactly"):
        BayesRidge.from_formula("y ~ x + (x | g)", study.assign(y=study["x"]), unpenalized="fixed").fit()


def test_units_and_order_do_not_matter(study, res):
    data = study.assign(y=1e6 * study["y"], x=study["x"] / 1000).sample(frac=1, random_state=0)
    other = BayesRidge.from_formula("y ~ x + (x | g)", data, unpenalized="fixed").fit()
    table = other.variance_components()
    table.loc["x|g", ["mean", "lower"]] /= 1000
    wanted = res.variance_components()
    np.testing.assert_allclose(table["mean"] / [1e6, 1e6, 1], wanted["mean"], rtol=1e-5)
    np.testing.assert_allclose(other.loo_residuals.sort_index() / 1e6, res.loo_residuals, atol=1e-5)
    assert isinstance(res.band_fit.coordinates[0], CovarianceCoordinates)


def test_a_variance_near_zero_makes_one_axis_rough(monkeypatch):
    """Halves that mix all axes do not see it: the stated error was 5e-5 where a limit was off by .12 sd."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=60), "g": rng.integers(0, 8, 60)})
    data["y"] = data["x"] + rng.normal(size=8)[data["g"]] + rng.normal(size=60)
    columns = ["mean", "sd", "lower", "upper"]
    fits = []
    for steps in (mixed.STEPS, (0.4,)):
        monkeypatch.setattr(mixed, "STEPS", steps)
        fits.append(BayesRidge.from_formula("y ~ x + (x | g)", data, unpenalized="fixed").fit())
    found, fine = fits
    assert found.converged
    assert (np.abs(found.params - fine.params) / fine.bse).max() < 2e-3  # worst seen 2e-4
    first, second = (fit.variance_components()[columns].astype(float) for fit in fits)
    assert np.abs(first - second).div(second["sd"], axis=0).max().max() < 0.05  # worst seen .008


@only_thorough
def test_four_dimensions_by_weighted_points(monkeypatch):
    """An intercept, a slope, their correlation and a band: a lattice needs ten times as many points."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.normal(size=60), "g": rng.integers(0, 8, 60)})
    data["y"] = data["x"] + rng.normal(size=8)[data["g"]] + rng.normal(size=60)
    model = BayesRidge.from_formula("y ~ x + (x | g)", data)
    found = model.fit()
    assert found.converged
    assert found.quadrature_error <= 0.04
    monkeypatch.setattr(mixed, "MOST_DIMENSIONS", 4)
    monkeypatch.setattr(mixed, "STEPS", (0.8,))
    fine = model.fit(tol=0.02)
    assert (np.abs(found.params - fine.params) / fine.bse).max() < MANY_DIMENSIONS
    first, second = (fit.variance_components()[["mean", "lower", "upper"]].astype(float) for fit in (found, fine))
    assert np.abs(first - second).div(fine.variance_components()["sd"], axis=0).max().max() < 3 * MANY_DIMENSIONS


@only_thorough
def test_several_variances_near_zero_are_refined_along_their_axes(monkeypatch):
    """Two variances near zero and their correlation: the lattices for all axes alike are not fine enough."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": rng.integers(6, size=60), "h": rng.integers(5, size=60)})
    frame["y"] = frame["x"] + rng.normal(size=60)
    steps = []
    known = lattices.grown
    monkeypatch.setattr(lattices, "grown", lambda *args: steps.append(np.diag(args[2])) or known(*args))
    res = BayesRidge.from_formula("y ~ x + (x | g)", frame, unpenalized="fixed").fit()
    ratio = steps[-1] / steps[0]
    assert ratio.max() / ratio.min() > 1.2
    assert res.quadrature_error < MEAN
