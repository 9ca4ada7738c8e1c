"""Posteriors with the effects of a group's levels by quadrature, against a dense grid over the other coefficients."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t

from pybayesridge import BayesRidge
from pybayesridge.models.banded import mixed_problem
from pybayesridge.sites.band_variances import space_of
from pybayesridge.sites.gaussian import Sites, combine
from pybayesridge.sites.laplace import laplace
from pybayesridge.sites.levels import Given, Levels, _points, by_levels, matched

EVIDENCE, MOMENTS = 1e-2, 1e-2
"""Of log ratios of evidences, and of means and standard deviations relative to these, by 81 points: the largest seen
are 1.2e-3 and 1.1e-3 (with 196 points 8e-5 and 2e-4)."""
PAIRS = 0.04
"""The same for two effects of each level, with a grid that is coarser: the largest seen is 4e-3."""
SITES = 2e-3
"""Of standard deviations of rows that are asked of sites."""
SEVERAL = 0.06
"""Of standard deviations by 256 points for five coefficients: the largest seen is .006."""


def model(formula="y ~ x + (1 | g)", levels=8, seed=3):
    """Groups of three rows, of which one contradicts the others in two of them."""
    rng, g = np.random.default_rng(seed), np.repeat(np.arange(levels), 3)
    x = rng.standard_normal((g.size, 4))
    y = 1 + 0.8 * x[:, 0] + 0.7 * rng.standard_normal(levels)[g] + 0.2 * rng.standard_normal(g.size)
    y[1] += 3.0
    y[8] -= 2.5
    frame = pd.DataFrame(x, columns=["x", "b", "c", "d"]).assign(y=y, g=[f"l{k:02d}" for k in g])
    return BayesRidge.from_formula(formula, frame, family="student-t", df=3, unpenalized="fixed"), frame


def space_in(of):
    """The rows of a model in the columns of its bands."""
    _, problem = of.prepare(lambda design, products: mixed_problem(design, products, of.bands))
    return space_of(problem, of.likelihood())


def parts(of, sigma, sd):
    """The space of a model, its likelihood at a scale, and the rows at a standard deviation of the effects."""
    likelihood, space = of.likelihood().of_shape(float(np.log(sigma))), space_in(of)
    return space, likelihood, space.at((np.array([[sd]]),))


def on_a_grid(frame, sigma, sd):
    """Log evidence but for a constant, means and variances of the rows, all by equal steps."""
    x, y, g = frame["x"].to_numpy(), frame["y"].to_numpy(), frame["g"].astype("category").cat.codes.to_numpy()
    a, b, u = np.linspace(-2, 4, 40), np.linspace(-0.5, 2.1, 30), np.linspace(-5 * sd, 5 * sd, 150)
    prior, density, first, second = norm.pdf(u, 0, sd), np.zeros((a.size, b.size)), [], []
    for level in range(g.max() + 1):
        own = g == level
        fixed = a[:, None, None] + b[:, None] * x[own]
        noise = y[own] - fixed[:, :, None] - u[:, None]
        each = student_t.pdf(noise / sigma, 3).prod(axis=-1) * prior
        total = each.sum(axis=-1)
        density += np.log(total * (u[1] - u[0]))
        for i in range(3):
            eta = fixed[:, :, i, None] + u
            first.append((each * eta).sum(axis=-1) / total)
            second.append((each * eta**2).sum(axis=-1) / total)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    mean, square = ([float((weight * each).sum()) for each in some] for some in (first, second))
    return density.max() - np.log(weight.max()), np.array(mean), np.array(square) - np.array(mean) ** 2


@pytest.mark.parametrize("sigma", [0.25, 0.6])
def test_evidence_and_moments_are_those_of_a_grid(sigma):
    of, frame = model()
    log_evidence = []
    for sd in (0.5, 1.5):
        space, likelihood, own = parts(of, sigma, sd)
        mode = laplace(own, likelihood, 0.0, None, tol=1e-6, maxiter=100)
        found = by_levels(Levels.of(space), mode, own, likelihood)
        evidence, mean, variance = on_a_grid(frame, sigma, sd)
        log_evidence.append((found.log_evidence, evidence))
        np.testing.assert_allclose((found.mean - mean) / np.sqrt(variance), 0, atol=MOMENTS)
        np.testing.assert_allclose(np.sqrt(found.variance / variance), 1, atol=MOMENTS)
    (first, of_first), (second, of_second) = log_evidence
    assert second - first == pytest.approx(of_second - of_first, abs=EVIDENCE)


def on_a_grid_of_pairs(frame, sigma, factor):
    """The same for an intercept and a slope of each level."""
    x, y, g = frame["x"].to_numpy(), frame["y"].to_numpy(), frame["g"].astype("category").cat.codes.to_numpy()
    a, b, v = np.linspace(-2.5, 4.5, 31), np.linspace(-2, 3.6, 29), np.linspace(-5, 5, 51)
    u = np.stack(np.meshgrid(v, v, indexing="ij"), axis=-1).reshape(-1, 2)
    prior, effects, density = norm.pdf(u).prod(axis=1), u @ factor.T, np.zeros((a.size, b.size))
    first, second = [], []
    for level in range(g.max() + 1):
        own = g == level
        fixed = a[:, None, None] + b[:, None] * x[own]
        more = effects[:, :1] + effects[:, 1:] * x[own]
        noise = y[own] - fixed[:, :, None] - more
        each = np.exp(-2.0 * np.log1p((noise / sigma) ** 2 / 3)).prod(axis=-1) * prior
        total = each.sum(axis=-1)
        density += np.log(total * (v[1] - v[0]) ** 2) + own.sum() * student_t.logpdf(0, 3, scale=sigma)
        for i in range(own.sum()):
            mean = (each @ more[:, i]) / total
            first.append(fixed[:, :, i] + mean)
            second.append((each @ more[:, i] ** 2) / total + fixed[:, :, i] ** 2 + 2 * fixed[:, :, i] * mean)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    mean, square = ([float((weight * each).sum()) for each in some] for some in (first, second))
    return density.max() - np.log(weight.max()), np.array(mean), np.array(square) - np.array(mean) ** 2


@pytest.mark.parametrize("sigma", [0.25, 0.6])
def test_intercepts_and_slopes_are_those_of_a_grid(sigma):
    of, frame = model("y ~ x + (x | g)", levels=5)
    log_evidence = []
    for factor in (np.array([[0.6, 0.0], [0.3, 0.4]]), np.array([[1.2, 0.0], [-0.2, 0.3]])):
        likelihood, space = of.likelihood().of_shape(float(np.log(sigma))), space_in(of)
        own = space.at((factor,))
        mode = laplace(own, likelihood, 0.0, None, tol=1e-6, maxiter=100)
        found = by_levels(Levels.of(space), mode, own, likelihood)
        evidence, mean, variance = on_a_grid_of_pairs(frame, sigma, factor)
        log_evidence.append((found.log_evidence, evidence))
        np.testing.assert_allclose((found.mean - mean) / np.sqrt(variance), 0, atol=PAIRS)
        np.testing.assert_allclose(np.sqrt(found.variance / variance), 1, atol=PAIRS)
    (first, of_first), (second, of_second) = log_evidence
    assert second - first == pytest.approx(of_second - of_first, abs=EVIDENCE)


def test_points_without_a_rule_agree_with_a_rule(monkeypatch):
    """Five coefficients: a rule of five nodes for each takes 3,125 points."""
    of, _ = model("y ~ x + b + c + d + (1 | g)", levels=20)
    space, likelihood, own = parts(of, 0.3, 0.7)
    levels = Levels.of(space)
    assert levels.others.size == 5
    mode = laplace(own, likelihood, 0.0, None, tol=1e-6, maxiter=100)
    found = by_levels(levels, mode, own, likelihood)
    monkeypatch.setattr("pybayesridge.sites.levels.RULES", (16, 7, 5, 4, 5))
    monkeypatch.setattr("pybayesridge.sites.levels._points", _points.__wrapped__)
    other = by_levels(levels, mode, own, likelihood)
    assert found.log_evidence == pytest.approx(other.log_evidence, abs=SEVERAL)
    np.testing.assert_allclose((found.mean - other.mean) / np.sqrt(other.variance), 0, atol=SEVERAL)
    np.testing.assert_allclose(np.sqrt(found.variance / other.variance), 1, atol=SEVERAL)


def test_sites_give_rows_the_variances_that_are_asked_for():
    """Those of a posterior, some of whose sites have negative precisions, are found again."""
    of, _ = model(levels=8)
    space, likelihood, own = parts(of, 0.3, 0.7)
    rows, precision = own.scaled(0.0), np.random.default_rng(1).uniform(-0.3, 6.0, space.n)
    variance = combine(rows, Sites(precision, np.zeros(space.n))).variances(rows)
    found = matched(Given.of(Levels.of(space), own, 0.0, likelihood), np.ones(space.n), variance)
    given = combine(rows, Sites(found.precision, np.zeros(space.n))).variances(rows)
    np.testing.assert_allclose(np.sqrt(given / variance), 1, atol=SITES)


def test_other_groups_are_left_to_expectation_propagation():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"y": rng.standard_t(3, 40), "x": rng.normal(size=40), "g": np.arange(40) % 8})
    frame["g"] = frame["g"].astype(str)
    frame["z"] = rng.normal(size=40)
    for formula in ("y ~ x + (x + z | g)", "y ~ s(x) + (1 | g)"):
        of = BayesRidge.from_formula(formula, frame, family="student-t", df=3, unpenalized="fixed")
        assert Levels.of(space_in(of)) is None
