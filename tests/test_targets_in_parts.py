"""Very many responses, of which only parts are held: the same numbers, in the memory of blocks."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, load
from pybayesridge.design import design
from pybayesridge.models import sources
from pybayesridge.ridge import many, posterior
from tests.effort import pairs
from tests.test_many_targets import METHODS, check, quietly

NOT_HELD = 1e-8
"""Targets in parts that are made when they are read, and all at once: nodes of quadratures differ."""

OVER_TARGETS = (
    "params",
    "bse",
    "sigma2",
    "df_model",
    "rsquared",
    "log_marginal",
    "n_modes",
)

OF_RESULTS = {
    "positive": lambda res, new: np.where(res.sigma2 > 0, res.prob_positive, 0.5),
    "penalty": lambda res, new: 1 / (1 + res.lambda_),
    "interval": lambda res, new: res.conf_int(0.1),
    "residuals": lambda res, new: res.loo_residuals,
    "prediction": lambda res, new: res.get_prediction(new).summary_frame(0.1).to_numpy(),
    "scores": lambda res, new: [0.0] if res.grid_scores is None else res.grid_scores,
}

CASES = {
    "tall": (30, 4, {}),
    "wide": (20, 45, {}),
    "weights": (30, 4, {"weights": np.random.default_rng(8).uniform(0.2, 5, 30), "unpenalized": ["x2"]}),
    "no-intercept": (30, 4, {"intercept": False, "standardize": False}),
    "sigma2": (20, 45, {"sigma2": 2.0}),
    "collinear": (30, 6, {}),
    "steep": (30, 6, {}),
    "sparse": (30, 4, {}),
}


def responses(case):
    """Forty targets, one of them constant and one fitted exactly by the columns, and columns of a case."""
    n, p, settings = CASES[case]
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, p))
    if case == "collinear":
        x[:, 1] = x[:, 0]
    if case == "steep":
        x = x[:, :2] @ rng.standard_normal((2, p)) + 1e-6 * x
    if case == "sparse":
        x = np.where(rng.uniform(size=x.shape) < 0.4, x, 0.0)
    y = x @ (rng.standard_normal((p, 40)) * np.linspace(0, 3, 40)) + rng.standard_normal((n, 40))
    y[:, 17] = 7.0
    y[:, 18] = x[:, 0]
    columns = pd.DataFrame(x, columns=[f"x{j + 1}" for j in range(p)])
    return y, sparse.csc_array(x) if case == "sparse" else columns, settings


@pytest.mark.parametrize("problem", pairs(CASES, METHODS, 3), ids="-".join)
def test_targets_that_are_not_held_have_the_same_numbers(problem, monkeypatch):
    case, method = problem
    y, x, settings = responses(case)

    def fit():
        return quietly(BayesRidge(y, x, **settings).fit, **METHODS[method]).arrays

    whole, new = fit(), x[:3] if case == "sparse" else x.iloc[:3]
    # What is read only now must not be of all targets either.
    with monkeypatch.context() as small:
        small.setattr(design, "HELD", 0)
        small.setattr(design, "FEWEST_TARGETS", 7)
        small.setattr(many, "TARGETS", 9)
        small.setattr(posterior, "TARGETS", 1)
        small.setattr(sources, "MOST", 1)
        parts = fit()
        assert parts.posterior.design.given is not None
        values = {name: getattr(parts, name) for name in (*OVER_TARGETS, "loo_mse", "loo_rsquared", "resid")}
        values |= {name: function(parts, new) for name, function in OF_RESULTS.items()}
    sd = np.where(whole.bse > 0, whole.bse, 1.0)
    for name, value in values.items():
        wanted = OF_RESULTS[name](whole, new) if name in OF_RESULTS else getattr(whole, name)
        unit = {"params": sd, "bse": sd, "interval": sd[..., None]}.get(name)
        check(value, wanted, NOT_HELD, unit)


def test_a_file_of_targets_that_are_not_held(monkeypatch, tmp_path):
    y, x, _ = responses("tall")
    monkeypatch.setattr(design, "HELD", 0)
    res = quietly(BayesRidge(y, x).fit, "exact")
    for remove_data in (False, True):
        res.save(tmp_path / "many.fit", remove_data=remove_data)
        again = load(tmp_path / "many.fit").arrays
        assert (again.posterior.design.given is None) == remove_data
        np.testing.assert_allclose(again.params, res.params, rtol=NOT_HELD)
        np.testing.assert_allclose(again.bse, res.bse, rtol=NOT_HELD)
        np.testing.assert_allclose(again.rsquared, res.rsquared, rtol=NOT_HELD, equal_nan=True)
    np.testing.assert_allclose(res.loo(target="y3").elpd, BayesRidge(y[:, 2], x).fit("exact").loo().elpd, rtol=1e-8)


def test_memory_of_many_targets_is_that_of_blocks_and_of_coefficients(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2000, 4)), rng.standard_normal((2000, 3000))
    monkeypatch.setattr(design, "HELD", 1 << 17)
    monkeypatch.setattr(sources, "MOST", 1 << 17)
    for method in ("em", "gcv", "loocv"):
        model = BayesRidge(y, x)
        tracemalloc.start()
        try:
            res = quietly(model.fit, method).arrays
            _ = res.rsquared, res.df_model, res.bse
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 0.7 * y.nbytes
