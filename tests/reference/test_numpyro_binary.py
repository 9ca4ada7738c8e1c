"""The ridge for yes/no responses beside NumPyro's NUTS: EP's means and standard deviations, t2 integrated out."""

import json
from pathlib import Path

import numpy as np
import pytest

from pybayesridge.binomial.fit import fit
from pybayesridge.ridge.prior import BetaPrime
from tests.binomial.problems import problem
from tests.reference.numpyro_binary import ROWS, data

STORED = json.loads((Path(__file__).parent / "numpyro_binary.json").read_text())["problems"]
MEAN_TOL = 0.05
"""In posterior standard deviations, besides four Monte Carlo standard errors."""

SD_TOL = 0.03


@pytest.mark.parametrize("name", STORED)
def test_ep_agrees_with_nuts(name):
    settings = STORED[name]
    y, x = data(settings["n"], settings["p"], settings["seed"])
    found = fit(*problem(x, y), prior=BetaPrime(0.5, settings["b"], None), flat_in="link")
    post = found.posterior()
    mean, sd = post.linear_moments(x[:ROWS], np.ones((ROWS, 1)))
    own = {f"eta{i}": (mean[i], sd[i]) for i in range(ROWS)}
    log_t2 = np.array([node.log_t2 for node in found.nodes])
    center = found.weight @ log_t2
    own["log_tau2"] = (center, np.sqrt(found.weight @ (log_t2 - center) ** 2))
    if settings["p"] < settings["n"]:
        (g, b), (g_sd, b_sd) = post.coefficient_means(), post.coefficient_sds()
        own["intercept"] = (g[0], g_sd[0])
        own |= {f"b{j}": (b[j], b_sd[j]) for j in range(settings["p"])}
    assert settings["divergences"] == 0
    assert found.converged
    assert own.keys() == settings["quantities"].keys()
    for key, stored in settings["quantities"].items():
        (mean, mean_error), (sd, sd_error) = stored["mean"], stored["sd"]
        assert abs(own[key][0] - mean) <= MEAN_TOL * sd + 4 * mean_error, key
        assert abs(own[key][1] - sd) <= SD_TOL * sd + 4 * sd_error, key
