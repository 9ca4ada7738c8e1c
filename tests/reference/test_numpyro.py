"""method="exact" against a stored run of NumPyro's NUTS; numpyro_ridge.py made it."""

import json
from pathlib import Path

import numpy as np
import pytest

from pybayesridge import BayesRidge
from tests.reference.numpyro_ridge import PROBABILITIES, PROBLEMS, data

MONTE_CARLO = 4.0
"""Largest of some hundred errors, in Monte Carlo standard errors."""

STORED = json.loads((Path(__file__).parent / "numpyro_ridge.json").read_text(encoding="utf-8"))["problems"]


@pytest.fixture(scope="module", params=list(PROBLEMS))
def problem(request):
    settings = PROBLEMS[request.param]
    y, x = data(**settings)
    stored = STORED[request.param]
    assert {key: stored[key] for key in settings} == settings
    return BayesRidge(y, x, prior="half-cauchy").fit("exact"), x, stored["quantities"]


def errors(quantity, wanted):
    """Differences of the stored values from the exact ones, in Monte Carlo standard errors."""
    return {key: (quantity[key][0] - value) / quantity[key][1] for key, value in wanted.items()}


def check(quantity, wanted):
    off = {key: round(float(z), 2) for key, z in errors(quantity, wanted).items() if abs(z) > MONTE_CARLO}
    assert not off


def limits(interval):
    """Quantiles by name, `interval(alpha)` giving the lower and the upper one."""
    out = {}
    for probability in PROBABILITIES:
        side = int(probability >= 0.5)
        alpha = 2 * min(probability, 1 - probability)
        out[f"q{probability}"] = interval(min(alpha, 1 - 1e-12))[side]
    return out


def test_coefficients(problem):
    res, x, stored = problem
    names = ["intercept", *(f"b{j}" for j in range(x.shape[1]))]
    intervals = {}

    def interval(position):
        def both(alpha):
            if alpha not in intervals:
                intervals[alpha] = np.asarray(res.conf_int(alpha))
            return intervals[alpha][position]

        return both

    for i, name in enumerate(names):
        wanted = {"mean": res.params.iloc[i], "sd": res.bse.iloc[i]} | limits(interval(i))
        check(stored[name], wanted)


def test_fitted_value(problem):
    res, x, stored = problem
    prediction = res.get_prediction(x[:1])
    frame = prediction.summary_frame()
    wanted = {"mean": frame["mean"].iloc[0], "sd": frame["mean_se"].iloc[0]}
    check(stored["fitted0"], wanted | limits(lambda alpha: prediction.conf_int(alpha=alpha)[0]))


def test_penalty(problem):
    res, _, stored = problem

    def interval(alpha):
        return np.log(res.hyperparameters(alpha).loc["tau2", ["lower", "upper"]].to_numpy(dtype=float))

    check(stored["log_tau2"], {"mean": np.log(res.tau2)} | limits(interval))


def test_noise(problem):
    res, _, stored = problem

    def interval(alpha):
        return np.sqrt(res.hyperparameters(alpha).loc["sigma2", ["lower", "upper"]].to_numpy(dtype=float))

    mean_square = stored["sigma"]["mean"][0] ** 2 + stored["sigma"]["sd"][0] ** 2
    assert res.sigma2 == pytest.approx(mean_square, rel=0.02)
    check(stored["sigma"], limits(interval))
