"""Coefficients asked for all together, some by position, block by block, and as rows: the same answers."""

import numpy as np
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.posterior.coefficients import some_of
from pybayesridge.posterior.laws import Ask

SAME = 1e-9
"""Between ways to one number, relative to the largest."""

ASK = Ask((0.05, 0.5, 0.9), above=True)
FIELDS = ("mean", "sd", "center", "quantiles", "above", "mass_at_zero")

X = np.random.default_rng(4).normal(size=(30, 6))
Y = X[:, 0] - X[:, 3] + 0.4 * np.random.default_rng(5).normal(size=30)
FITS = {
    "ridge": lambda: BayesRidge(Y, X, unpenalized=[2]).fit(),
    "targets": lambda: BayesRidge(np.column_stack([Y, Y[::-1]]), X).fit(),
    "wide": lambda: BayesRidge(Y[:5], X[:5]).fit(),
    "columns": lambda: BayesRidge.from_columns(Y, X).fit(),
    "binomial": lambda: BayesRidge(Y > 0, X + 2, family="binomial").fit(),
    "ep": lambda: SpikeSlab(Y, X, unpenalized=[2]).fit("ep"),
    "sets": lambda: SpikeSlab(Y, X).fit("exact"),
    "binomial ep": lambda: SpikeSlab(X[:, 5] < Y, X, family="binomial", prior_inclusion=0.5, slab_var=0.5).fit("ep"),
}


@pytest.fixture(scope="module", params=FITS)
def res(request):
    return FITS[request.param]().arrays


def assert_same(one, other):
    for name in FIELDS:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            scale = np.abs(b).max(initial=0.0, where=np.isfinite(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=SAME * max(scale, 1.0), err_msg=name)


def test_some_are_those_of_all(res):
    laws = res.posterior.coefficients
    every = laws.ask(ASK)
    which = np.array([4, 0, 2])
    assert_same(laws.ask(ASK, which), some_of(every, which))
    assert laws.ask(ASK, which[:0]).quantiles.shape == (0, *every.quantiles.shape[1:])


def test_blocks_are_all_together(res):
    every = res.posterior.coefficients.ask(ASK)
    seen = []
    for which, answer in res.posterior.coefficients.blocks(ASK):
        assert_same(answer, some_of(every, which))
        seen += which.tolist()
    assert seen == list(range(len(every.mean)))


def test_single_coefficients_are_contrasts(res):
    """A law of rows, by which contrasts are made, says the same of rows with a single 1."""
    every = res.ask(ASK, target=0)
    k = len(res.model.exog_names)
    assert_same(res.row_law(np.eye(k), np.zeros(k), 0).ask(ASK), every)


def test_what_is_not_asked_for_is_not_there(res):
    found = res.ask(Ask(mean=False, sd=False))
    assert all(np.isnan(values).all() for values in (found.mean, found.sd, found.above))
    assert found.quantiles.shape[-1] == 0
    assert np.isfinite(res.ask(Ask(sd=False)).center).all()


def test_columns_that_do_not_vary_are_zero():
    x = X.copy()
    x[:, 4:] = 1.0, 3.0  # the first is the intercept
    for fit in (BayesRidge(Y, x).fit(), SpikeSlab(Y, x).fit()):
        found = fit.ask(ASK, [5, 0])
        assert found.mean[0] == found.sd[0] == found.above[0] == 0.0
        assert not found.quantiles[0].any()
        assert found.quantiles[1].any()
        assert found.mass_at_zero is None or found.mass_at_zero[0] == 1.0
