"""Selection for yes/no responses beside NumPyro's NUTS over all sets: inclusion probabilities, means and standard
deviations, hyperparameters integrated out.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from pybayesridge import SpikeSlab
from tests.reference.numpyro_binary_selection import data

STORED = json.loads((Path(__file__).parent / "numpyro_binary_selection.json").read_text(encoding="utf-8"))["problems"]
MCSE = 0.015
ERRORS = 4
"""Monte Carlo standard errors, of both, that a probability may be off."""

MEAN_TOL, SD_TOL = 0.1, 0.1
"""Of moments, in posterior standard deviations: the sampler's own errors are up to 0.03."""

EP_TOL = {"prob": 0.02, "mean": 0.2, "sd": 0.45}
"""The approximation's; a standard deviation was 38 % too large where two correlated columns compete."""


def moments(stored, d):
    """Probabilities, means, standard deviations, and the standard errors of the first two."""
    prob, mean, square = (np.array([stored[f"{key}{j}"] for j in range(d)]) for key in ("in", "mean", "square"))
    return prob[:, 0], mean[:, 0], np.sqrt(square[:, 0] - mean[:, 0] ** 2), prob[:, 1], mean[:, 1]


@pytest.fixture(params=list(STORED))
def problem(request):
    settings = STORED[request.param]
    assert settings["divergences"] == 0
    y, x = data(*(settings[key] for key in ("n", "d", "rho", "link", "seed")))
    return SpikeSlab(y, x, family="binomial", link=settings["link"]), moments(settings["quantities"], settings["d"])


def test_sampler_agrees_with_nuts(problem):
    model, (prob, mean, sd, prob_error, mean_error) = problem
    res = model.fit("exact", mcse=MCSE, rng=1)
    assert res.converged
    assert (np.abs(res.inclusion_prob[1:] - prob) <= ERRORS * np.hypot(MCSE, prob_error)).all()
    assert (np.abs(res.params[1:] - mean) <= MEAN_TOL * sd + ERRORS * mean_error).all()
    assert np.abs(res.bse[1:] / sd - 1).max() <= SD_TOL


def test_expectation_propagation_is_near_nuts(problem):
    model, (prob, mean, sd, *_) = problem
    res = model.fit("ep")
    assert np.abs(res.inclusion_prob[1:] - prob).max() <= EP_TOL["prob"]
    assert (np.abs(res.params[1:] - mean) / sd).max() <= EP_TOL["mean"]
    assert np.abs(res.bse[1:] / sd - 1).max() <= EP_TOL["sd"]
