"""Which moments the posterior of a band's standard deviation has, beside integrals with an ever larger cut-off."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

from pybayesridge import BayesRidge, fit_imputed, load
from pybayesridge.bands.components import is_heavy
from pybayesridge.cli import main
from pybayesridge.text import NO_VARIANCE

N = 40

CLOSE = 0.04
"""Relative error of means and standard deviations of the integral over the variances; 0.004 was seen."""

GROWS, STAYS = 1.1, 1.001
"""By what factor a standard deviation grows if the cut-off is moved from e^40 to e^80: if infinite, and if finite."""


def rows(levels):
    rng = np.random.default_rng(levels)
    g = np.arange(N) % levels
    frame = pd.DataFrame({"x": rng.normal(size=N), "g": np.array(list("abcd"))[g]})
    frame["y"] = rng.normal(size=levels)[g] * 1.5 + 0.5 * frame["x"] + rng.normal(size=N)
    frame["count"] = rng.poisson(np.exp(0.4 * frame["y"]))
    frame["yes"] = (frame["y"] > frame["y"].median()).astype(int)
    return frame


def dummies(frame):
    x = pd.get_dummies(frame["g"]).to_numpy(dtype=float)
    return x - x.mean(axis=0)


def moments(frame, cut, b=0.5):
    """Mean and standard deviation of the standard deviation of the effects of g alone, with normal noise."""
    x, y = dummies(frame), (frame["y"] - frame["y"].mean()).to_numpy()
    values, vectors = np.linalg.eigh(x.T @ x)
    of_y = (x @ vectors).T @ y
    keep = values > 1e-9
    values, of_y, nu = values[keep], of_y[keep], N - 1
    log_t = np.linspace(-60, cut, 20_001)
    t = np.exp(log_t)[:, None]
    rest = y @ y - (of_y**2 * t / (1 + t * values)).sum(axis=1)
    log_w = log_t + np.log(values.sum() / N)
    log_p = 0.5 * log_w - (0.5 + b) * np.logaddexp(0, log_w)
    log_p = log_p - 0.5 * np.log1p(t * values).sum(axis=1) - nu / 2 * np.log(rest)
    p = np.exp(log_p - logsumexp(log_p))
    root = np.exp(0.5 * np.log(0.5) + gammaln((nu - 1) / 2) - gammaln(nu / 2))
    mean = root * (p @ np.sqrt(t[:, 0] * rest))
    return mean, np.sqrt((p @ (t[:, 0] * rest)) / (nu - 2) - mean**2)


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("given", [None, 0.25, 0.75])
def test_normal_noise_beside_an_integral(levels, given):
    """Of a group of r + 1 levels, whose columns have rank r given the intercept; by default b is 1/2."""
    frame, b = rows(levels), 0.5 if given is None else given
    prior = {} if given is None else {"prior": (0.5, b, 1 / float((dummies(frame) ** 2).sum() / N))}
    res = BayesRidge.from_formula("y ~ 1 + (1 | g)", frame, **prior).fit()
    found = res.variance_components().loc["g"]
    (_, near), (mean, sd) = moments(frame, 40, b), moments(frame, 80, b)
    assert found["mean"] == pytest.approx(mean, rel=CLOSE)
    heavy = is_heavy(b, levels - 1)
    assert (sd / near > GROWS) == heavy
    assert (sd / near < STAYS) != heavy
    assert np.isinf(found["sd"]) if heavy else found["sd"] == pytest.approx(sd, rel=CLOSE)
    assert ("no-variance" in [each.code for each in res.findings]) == heavy


def test_two_bands_of_rank_one_have_a_variance_unless_they_are_the_same():
    """Their prior falls faster where the other variance stays as it is; that of both together does not."""
    frame = rows(2).assign(z=np.random.default_rng(1).normal(size=N))
    twice = frame[["x"]].assign(again=frame["x"])
    apart = BayesRidge(frame["y"], frame[["x", "z"]], bands={"x": ["x"], "z": ["z"]}).fit()
    assert np.isfinite(apart.variance_components()["sd"]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = BayesRidge(frame["y"], twice, bands={"x": ["x"], "again": ["again"]}).fit()
    assert np.isinf(same.variance_components()["sd"]).all()


def slope(frame, flat_in):
    """By how much the log density of log t falls in the end, of counts with an intercept and the effects of g."""
    x, y = dummies(frame)[:, 0] * np.sqrt(2), frame["count"].to_numpy()
    intercept, effect = np.linspace(-4, 4, 161), np.linspace(-4, 4, 161)
    eta = intercept[:, None, None] + effect[:, None] * x
    likely = (y * eta - np.exp(eta)).sum(axis=-1)
    c = np.log1p(1 / y.mean())
    ends = np.array([20.0, 22.0])
    size = (x**2).mean() / c
    log_w = ends + np.log(size)
    out = 0.5 * log_w - np.logaddexp(0, log_w) * (1.5 if flat_in == "latent" else 1.0)
    given = [logsumexp(likely - 0.5 * effect**2 / np.exp(end) - 0.5 * end) for end in ends]
    return -float(np.diff(out + given)[0]) / 2


@pytest.mark.parametrize("flat_in", ["link", "latent"])
def test_counts_by_the_tail(flat_in):
    """With an intercept that is flat in latent units the prior of the variance falls faster."""
    frame = rows(2)
    falls = slope(frame, flat_in)
    assert falls == pytest.approx(1.0 if flat_in == "link" else 1.5, abs=1e-6)
    res = BayesRidge.from_formula("count ~ 1 + (1 | g)", frame, family="poisson", flat_in=flat_in).fit("laplace")
    assert np.isinf(res.variance_components().loc["g", "sd"]) == (flat_in == "link")


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_outputs(family, tmp_path, capsys):
    frame = rows(2)
    own = {} if family == "gaussian" else {"family": family, "flat_in": "link"}
    name = "y" if family == "gaussian" else "count"
    res = BayesRidge.from_formula(f"{name} ~ 1 + (1 | g)", frame, **own).fit()
    sentence = next(each.text for each in res.findings if each.code == "no-variance")
    assert sentence.split(":")[0] in " ".join(str(res.summary()).split())
    assert np.isfinite(res.hyperparameters().loc["sd[g]"]).all()
    res.save(tmp_path / "fit", remove_data=True)
    assert np.isinf(load(tmp_path / "fit").variance_components().loc["g", "sd"])
    if family == "gaussian":
        frame.to_csv(tmp_path / "rows.csv", index=False)
        assert main(["ridge", "y ~ 1 + (1 | g)", str(tmp_path / "rows.csv"), "--json"]) == 0
        out = json.loads(capsys.readouterr().out)
        assert out["targets"][0]["bands"][0]["sd"] is None
        assert sentence in out["notes"]


def test_pooled_fits():
    frames = [rows(2), rows(2).assign(x=0.0)]
    pooled = fit_imputed(frames, lambda frame: BayesRidge.from_formula("y ~ 1 + (1 | g)", frame).fit())
    assert np.isinf(pooled.variance_components().loc["g", "sd"])
    assert NO_VARIANCE in " ".join(str(pooled.summary()).split())
