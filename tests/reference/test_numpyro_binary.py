"""The ridge for yes/no responses beside NumPyro's NUTS: EP's means and standard deviations, the penalty integrated
out."""

import json
from pathlib import Path

import numpy as np
import pytest

from pybayesridge import BayesRidge
from tests.reference.numpyro_binary import LATENT, ROWS, data

STORED = json.loads((Path(__file__).parent / "numpyro_binary.json").read_text(encoding="utf-8"))["problems"]
MEAN_TOL = 0.05
"""In posterior standard deviations, besides four Monte Carlo standard errors."""

SD_TOL = 0.03


@pytest.mark.parametrize("name", STORED)
def test_ep_agrees_with_nuts(name):
    settings = STORED[name]
    y, x = data(settings["n"], settings["p"], settings["seed"])
    prior = (0.5, settings["b"], LATENT / settings["p"])
    res = BayesRidge(y, x, family="binomial", prior=prior, flat_in="link").fit()
    linear = res.get_prediction(x[:ROWS], which="linear")
    own = {f"eta{i}": (linear.predicted_mean[i], linear.se[i]) for i in range(ROWS)}
    fit = res.sites_fit
    log_tau2 = np.array([node.log_t2 for node in fit.nodes])
    center = fit.weight @ log_tau2
    own["log_tau2"] = (center, np.sqrt(fit.weight @ (log_tau2 - center) ** 2))
    if settings["p"] < settings["n"]:
        for j, name in enumerate(["intercept", *(f"b{j}" for j in range(settings["p"]))]):
            own[name] = (res.params.iloc[j], res.bse.iloc[j])
    assert settings["divergences"] == 0
    assert res.converged
    assert own.keys() == settings["quantities"].keys()
    for key, stored in settings["quantities"].items():
        (mean, mean_error), (sd, sd_error) = stored["mean"], stored["sd"]
        assert abs(own[key][0] - mean) <= MEAN_TOL * sd + 4 * mean_error, key
        assert abs(own[key][1] - sd) <= SD_TOL * sd + 4 * sd_error, key
