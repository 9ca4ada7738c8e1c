"""Selections for yes/no responses beside importance sampling of all coefficients: means, errors, rows left out."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pybayesridge import PrecisionWarning, SpikeSlab
from tests.binomial.importance import Data, leave_one_out, reference
from tests.binomial.selection_oracle import brute_force
from tests.effort import number, only_thorough

SEEDS = number(10, 2)
ALONE = 6.0  # |z| of one number; worst seen 3.5, the standard deviation of the intercept of CARS
SPREAD = 2.0  # root mean square of z scores of a kind over seeds and coefficients; worst seen 1.26
DRAWS = number(4000, 1500)
SCORE = 5.0  # |z| of the sum of rows' log scores; worst seen 2.3
GRID = 0.01  # probabilities, and standard deviations of means and their spread, beside quadrature; worst seen .003

# R's mtcars: am, wt, hp, qsec.
CARS = np.fromstring(
    """
    1 2.62 110 16.46  1 2.875 110 17.02  1 2.32 93 18.61  0 3.215 110 19.44  0 3.44 175 17.02  0 3.46 105 20.22
    0 3.57 245 15.84  0 3.19 62 20  0 3.15 95 22.9  0 3.44 123 18.3  0 3.44 123 18.9  0 4.07 180 17.4
    0 3.73 180 17.6  0 3.78 180 18  0 5.25 205 17.98  0 5.424 215 17.82  0 5.345 230 17.42  1 2.2 66 19.47
    1 1.615 52 18.52  1 1.835 65 19.9  0 2.465 97 20.01  0 3.52 150 16.87  0 3.435 150 17.3  0 3.84 245 15.41
    0 3.845 175 17.05  1 1.935 66 18.9  1 2.14 91 16.7  1 1.513 113 16.9  1 3.17 264 14.5  1 2.77 175 15.5
    1 3.57 335 14.6  1 2.78 109 18.6
    """,
    sep=" ",
).reshape(-1, 4)


def standardized(x, trials):
    x = x - np.average(x, axis=0, weights=trials)
    return x / np.sqrt(np.average(x**2, axis=0, weights=trials))


def made_up(kind):
    """Columns, successes and trials of 16 rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 3))
    trials = np.full(16, 1000.0) if kind == "thousands" else np.exp(rng.uniform(0, 7, 16)).round()
    yes = rng.binomial(trials.astype(int), expit(0.2 + x[:, 0] - 0.03 * x[:, 1])).astype(float)
    return standardized(x, trials), yes, trials


def scores(data, trials, draws):
    """z scores of several seeds by kind of number, against one reference; and the fits."""
    wanted = reference(data, draws=draws, nodes=24)
    values = {
        "inclusion_prob": (wanted.prob, wanted.error["prob"]),
        "mean": (wanted.mean, wanted.error["mean"]),
        "sd": (wanted.sd, wanted.error["sd"]),
        "slab_var": (wanted.slab, wanted.error["slab"]),
    }
    x = pd.DataFrame(data.x).add_prefix("x")
    model, out, fits = SpikeSlab(data.successes, x, family="binomial", trials=trials), {}, []
    for seed in range(SEEDS):
        fits.append(model.fit("exact", rng=seed))
        assert fits[-1].converged
        found = fits[-1].diagnostics().set_index("quantity")
        for name, (value, error) in values.items():
            own = found.loc[[name]]
            z = (own["estimate"].to_numpy() - value) / np.hypot(own["mcse"].to_numpy(), error)
            out.setdefault(name, []).append(z)
    return {name: np.array(z) for name, z in out.items()}, fits


def check(found):
    for name, z in found.items():
        assert np.abs(z).max() < ALONE, name
        assert np.sqrt(np.mean(z**2)) < SPREAD * number(1.0, 1.5), name


@pytest.mark.parametrize("given", [{}, {"p": 0.4}, {"v": 1.0}, {"link": "probit"}])
def test_the_reference_agrees_with_quadrature(given):
    rng = np.random.default_rng(3)
    trials = rng.integers(1, 5, 30).astype(float)
    x = standardized(rng.standard_normal((30, 2)), trials)
    yes = rng.binomial(trials.astype(int), expit(0.3 + x[:, 0])).astype(float)
    one = reference(Data.of(x, yes, trials, **given), draws=DRAWS, nodes=30)
    two = brute_force(x, yes, trials - yes, points=9, nodes=30, **given)
    sd = np.sqrt(two.square - two.mean**2)
    assert np.abs(one.prob - two.prob).max() < GRID
    assert (np.abs(one.mean - two.mean) < GRID * sd).all()
    assert (np.abs(one.sd - sd) < GRID * sd).all()


@only_thorough
@pytest.mark.every_case
@pytest.mark.parametrize("kind", ["thousands", "mixed"])
def test_many_trials_are_within_the_stated_errors(kind):
    x, yes, trials = made_up(kind)
    data = Data.of(x, yes, trials)
    found, fits = scores(data, trials, 3000)
    check(found)
    options = {"draws": 500, "nodes": 24}
    rows = np.arange(16)[:: number(1, 4)]
    each, error = leave_one_out(data, reference(data, **options), rows, **options)
    for res in fits:
        with warnings.catch_warnings():
            # One row has half of all trials.
            warnings.simplefilter("ignore", PrecisionWarning)
            score = res.loo()
        sure = ~score.pointwise.index[rows].isin(score.in_doubt)
        off = (score.pointwise.to_numpy()[rows] - each)[sure]
        # The error of all rows: that of some is hardly larger.
        assert abs(off.sum()) < SCORE * np.hypot(score.mcse, error)


@only_thorough
def test_long_tails_of_nearly_separated_responses_are_within_the_stated_errors():
    ones = np.ones(32)
    x = standardized(CARS[:, 1:], ones)
    check(scores(Data.of(x, CARS[:, 0], ones), None, DRAWS)[0])
