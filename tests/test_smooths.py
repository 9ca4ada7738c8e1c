"""Smooth curves as columns: against the textbook's construction, integrals and a penalised regression."""

import itertools

import numpy as np
import pytest
from scipy import interpolate, linalg

from pybayesridge.formula.hints import FormulaError
from pybayesridge.formula.smooths import Curves, knots_of, learned, penalized

SAME = 1e-9
"""Relative difference of two constructions with well separated knots."""

DIFFERENCES = 3e-11
"""Of integrals of squared second differences, which are exact of cubics but for rounding."""


def textbook(knots, x):
    """Penalised columns at the knots: eigenvectors of the penalty among functions with mean zero over the rows."""
    h = np.diff(knots)
    k = knots.size
    differences, products = np.zeros((k - 2, k)), np.zeros((k - 2, k - 2))
    for i in range(k - 2):
        differences[i, i : i + 3] = 1 / h[i], -1 / h[i] - 1 / h[i + 1], 1 / h[i + 1]
        products[i, i] = (h[i] + h[i + 1]) / 3
        if i:
            products[i, i - 1] = products[i - 1, i] = h[i] / 6
    penalty = differences.T @ np.linalg.solve(products, differences)
    means = cardinal(knots, x).mean(axis=0)
    free = linalg.null_space(means[None])
    values, vectors = np.linalg.eigh(free.T @ penalty @ free)
    return penalty, free @ vectors[:, 1:] / np.sqrt(values[1:])


def cardinal(knots, x):
    """Natural splines that are one at one knot and zero at the others, by SciPy, with lines outside, (n, k)."""
    spline = interpolate.CubicSpline(knots, np.eye(knots.size), bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    return spline(inside) + (x - inside)[:, None] * spline(inside, 1)


@pytest.fixture(params=["even", "skewed", "few", "far"])
def x(request):
    rng = np.random.default_rng(3)
    return {
        "even": np.linspace(-1, 1, 41),
        "skewed": rng.lognormal(size=300),
        "few": np.repeat([1.0, 2.0, 4.0, 7.0, 11.0], 3),
        "far": 1e6 + rng.normal(size=80),
    }[request.param]


@pytest.mark.parametrize("count", [3, 5])
def test_equals_the_eigenvectors_of_the_penalty(x, count):
    knots = knots_of(x, count)
    made = penalized(knots, x, centered=True)
    penalty, wanted = textbook((knots - knots[0]) / np.ptp(knots), (x - knots[0]) / np.ptp(knots))
    wanted = wanted * np.sign((wanted * made.values).sum(axis=0))
    size = np.abs(wanted).max()
    np.testing.assert_allclose(made.values, wanted, rtol=0, atol=SAME * size)
    np.testing.assert_allclose(made.values.T @ penalty @ made.values, np.eye(count - 2), atol=SAME)
    columns = made.at(x)
    np.testing.assert_allclose(columns.mean(axis=0), 0, atol=SAME * size)
    outside = np.concatenate([x, [knots[0] - 0.3 * np.ptp(knots), knots[-1] + 2 * np.ptp(knots)]])
    np.testing.assert_allclose(made.at(outside), cardinal(knots, outside) @ wanted, rtol=0, atol=10 * SAME * size)


@pytest.mark.parametrize("centered", [True, False])
def test_penalty_is_the_integral_of_squared_second_derivatives(centered):
    x = np.random.default_rng(0).gamma(1.0, size=60)
    knots = knots_of(x, 6)
    made, unit = penalized(knots, x, centered=centered), np.ptp(knots)
    nodes, weights = np.polynomial.legendre.leggauss(2)  # exact, since second derivatives are lines between knots
    total = np.zeros((4, 4))
    for low, high in itertools.pairwise(knots):
        half, step = (high - low) / 2, 1e-2 * (high - low)
        at = (low + high) / 2 + half * nodes
        bent = (made.at(at - step) - 2 * made.at(at) + made.at(at + step)) / step**2  # exact of cubics
        total += half * np.einsum("i,ij,ik->jk", weights, bent, bent)
    np.testing.assert_allclose(total * unit**3, np.eye(4), atol=DIFFERENCES)


def test_ridge_of_the_columns_is_the_penalised_regression():
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 3, 90)
    y = np.sin(3 * x) + 0.3 * rng.normal(size=90)
    knots = knots_of(x, 12)
    basis, lam = cardinal(knots, x), 0.01
    penalty, _ = textbook((knots - knots[0]) / np.ptp(knots), (x - knots[0]) / np.ptp(knots))
    wanted = basis @ np.linalg.solve(basis.T @ basis + lam * penalty, basis.T @ y)
    for centered in (True, False):
        columns = np.column_stack([np.ones(90), x, penalized(knots, x, centered=centered).at(x)])
        ridge = np.diag([0.0, 0.0, *np.full(10, lam)])
        fitted = columns @ np.linalg.solve(columns.T @ columns + ridge, columns.T @ y)
        np.testing.assert_allclose(fitted, wanted, atol=SAME)


@pytest.mark.parametrize("gap", [0.5, 1e-4, 1e-10])
def test_is_a_smoothing_spline_however_near_knots_are(gap):
    """With a knot at every point: an integrated random walk with a flat prior on the line, by its covariances."""
    x = np.sort(np.append([0.0, 1.0, 2.0, 3.5, 5.0, 9.0], 2.0 + gap))
    y, lam, unit = np.cos(2 * x), 0.05, np.ptp(x)
    u = x / unit
    low, high = np.minimum.outer(u, u), np.maximum.outer(u, u)
    covariance = low**2 * (3 * high - low) / 6 + lam * np.eye(x.size)
    line = np.column_stack([np.ones(x.size), u])
    solved = np.linalg.solve(covariance, np.column_stack([line, y]))
    beta = np.linalg.solve(line.T @ solved[:, :2], line.T @ solved[:, 2])
    wanted = y - lam * (solved[:, 2] - solved[:, :2] @ beta)
    for centered in (True, False):
        columns = np.column_stack([line, penalized(knots_of(x, x.size), x, centered=centered).at(x)])
        ridge = np.diag([0.0, 0.0, *np.full(x.size - 2, lam)])
        fitted = columns @ np.linalg.solve(columns.T @ columns + ridge, columns.T @ y)
        np.testing.assert_allclose(fitted, wanted, atol=SAME)


def test_signs_do_not_depend_on_rounding():
    x = np.linspace(-1, 1, 31)
    first = penalized(knots_of(x, 9), x, centered=True)
    again = penalized(knots_of(x, 9) * (1 + 1e-15), x, centered=True)
    np.testing.assert_allclose(first.values, again.values, atol=SAME)


def test_missing_values_stay_missing():
    x = np.array([0.0, 1.0, np.nan, 2.0, 3.0, 5.0])
    made = penalized(knots_of(x, 4), x, centered=True)
    assert isinstance(made, Curves)
    assert np.isnan(made.at(x)).all(axis=1).tolist() == [False, False, True, False, False, False]


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_a_range_whose_square_cannot_be_computed(unit):
    with pytest.raises(FormulaError, match="too close together, or too far apart"):
        learned(unit * np.linspace(0.0, 1.0, 40), 8, centered=True)
