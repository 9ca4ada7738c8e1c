"""Coefficients from what the nodes of a fit with several penalties keep of their means."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from pybayesridge.formula import bands as of_formula
from pybayesridge.sites.laplace import laplace

SOLVED = 1e-12
"""Of means of coefficients of about 1 that are computed twice; the worst seen is 2e-16."""

TERMS = [("(1 | g)", 500), ("(x | g)", 500), ("(1 | g)", 2), ("(x | g) + (1 | h)", 2)]


@pytest.mark.parametrize(("term", "many"), TERMS)
def test_coefficients_of_centers_are_those_of_the_joint_posterior(term, many, monkeypatch):
    monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.normal(size=40), "g": rng.integers(0, 5, 40), "h": rng.integers(0, 8, 40)})
    data["y"] = rng.poisson(np.exp(0.5 * data["x"] + 0.7 * rng.normal(size=5)[data["g"]]))
    fit = BayesRidge.from_formula(f"y ~ x + {term}", data, family="poisson").fit("laplace", tol=0.5).sites_fit
    own = fit.space_at(int(np.argmax(fit.weight)))
    node = laplace(own, fit.likelihood, 0.0, None, tol=1e-8, maxiter=100)
    expected = own.coefficients(node.gaussian(own).mean[:, None])[:, 0]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(own.at_center(node.center), expected, rtol=0, atol=SOLVED)
