"""Matrices of low numerical rank as products of thin ones, and quantiles from them."""

import numpy as np
import pytest

from pybayesridge import BayesRidge
from pybayesridge.linalg.low_rank import factorize
from pybayesridge.ridge import mixture

TOL = 1e-10
"""Accuracy asked for."""

QUANTILES = 1e-10
"""Ends of intervals relative to their length; 2e-13 seen."""


def smooth(m, r):
    """A function of a row's and a column's parameter, over many powers of ten, and units in which it is near 1."""
    row, column = np.linspace(-3, 3, m)[:, None], np.linspace(-1.5, 1.5, r)
    return 1.0 / (np.exp(column) + np.exp(-row)) * np.exp(column), np.exp(-np.logaddexp(0.0, -row - column))


def test_errors_are_in_the_units_of_the_entries():
    a, size = smooth(90, 70)
    slack = np.geomspace(1, 1e6, 90)
    for factor in (np.ones(90), slack):
        found = factorize(a, size, factor, TOL)
        assert found.left is not None
        error = found.times(np.eye(70)) - a
        assert np.linalg.norm(error / (size * factor[:, None]), axis=1).max() < TOL


def test_slack_saves_columns():
    a, size = smooth(90, 70)
    strict, lax = (factorize(a, size, slack, TOL).left.shape[1] for slack in (np.ones(90), np.full(90, 1e4)))
    assert lax < strict < 30


def test_the_matrix_itself_where_its_rank_is_not_low_or_a_size_is_zero():
    a = np.random.default_rng(0).standard_normal((40, 30))
    b = np.random.default_rng(1).standard_normal((30, 5))
    zero = np.ones_like(a)
    zero[3, 4] = 0.0
    for size in (np.ones_like(a), zero):
        found = factorize(a, size, np.ones(40), TOL)
        assert found.left is None
        np.testing.assert_allclose(found.times(b), a @ b, rtol=1e-12, atol=1e-12)
    # Rounding errors alone would be larger than what is asked for.
    large, size = smooth(90, 70)
    assert factorize(large, 1e-8 * size, np.ones(90), TOL).left is None


PROBLEMS = {
    "wide": (30, 300, 1.0, {}),
    "strong": (30, 300, 1e-4, {}),
    "half-cauchy": (30, 300, 1.0, {"prior": "half-cauchy"}),
    "tall": (400, 150, 2.0, {}),
    "known": (30, 300, 1.0, {"sigma2": 4.0}),
    "unpenalized": (30, 300, 1.0, {"unpenalized": [3]}),
}


@pytest.mark.every_case
@pytest.mark.parametrize("problem", PROBLEMS)
def test_intervals_are_those_of_the_whole_matrices(problem, monkeypatch):
    n, p, noise, settings = PROBLEMS[problem]
    rng = np.random.default_rng(4)
    x = rng.standard_normal((n, p))
    signal = x[:, :5].sum(axis=1)
    y = np.column_stack([signal + noise * rng.standard_normal(n), 0.1 * signal + rng.standard_normal(n)])
    res = BayesRidge(y, x, **settings).fit("exact")
    used = []

    def counted(*args):
        used.append(factorize(*args))
        return used[-1]

    monkeypatch.setattr(mixture, "factorize", counted)
    for alpha in (0.05, 0.6, 0.01):
        monkeypatch.setattr(mixture, "QUANTILES_PER_MOMENT", np.inf)
        whole = res.arrays.conf_int(alpha)
        assert not used
        monkeypatch.setattr(mixture, "QUANTILES_PER_MOMENT", 0)
        thin = res.arrays.conf_int(alpha)
        assert any(each.left is not None for each in used)
        used.clear()
        length = whole[..., 1:] - whole[..., :1]
        assert np.abs((thin - whole) / length).max() < QUANTILES


def test_extreme_quantiles_are_from_the_whole_matrices(monkeypatch):
    monkeypatch.setattr(mixture, "QUANTILES_PER_MOMENT", 0)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((30, 300))
    posterior = BayesRidge(x[:, 0] + rng.standard_normal(30), x).fit("exact").posterior
    for tail, thin in ((0.01, True), (1e-5, False)):
        nodes = mixture.quantile_nodes(posterior.spectrum, posterior.mixture, np.array([tail, 1 - tail]), 300)
        assert (nodes[0].inside.left is not None) == thin
