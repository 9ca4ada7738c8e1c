"""Leave-one-out scores of yes/no selections where a row decides which sets matter, beside importance sampling."""

from __future__ import annotations

import warnings
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pybayesridge import ConvergenceWarning, PrecisionWarning, SpikeSlab
from pybayesridge.binomial import left_out
from pybayesridge.binomial.left_out import RowLikelihoods, bridge
from pybayesridge.binomial.left_out_unseen import unseen_shares
from pybayesridge.posterior.left_out import NoDensityError
from pybayesridge.selection.result import Exact
from tests.binomial.importance import Data, leave_one_out, reference

GIVEN = {"p": 0.3, "v": 1.0}
QUICK = {"mcse": 0.03, "chains": 2}
SCORE = 5.0  # |z| of a row's score; worst seen 2
FLOOR = 0.02  # of its standard error: the reference has errors of .01
EXACT = 1e-6


def standardized(x, trials):
    x = x - np.average(x, axis=0, weights=trials)
    return x / np.sqrt(np.average(x**2, axis=0, weights=trials))


def deciding_row(kind):
    """Columns, successes and trials of a problem whose first row decides between sets, or is far from the others."""
    rng = np.random.default_rng(5)
    x, trials = rng.standard_normal((24, 2)), np.full(24, 1000.0)
    if kind == "between columns":
        # The columns are alike but for the first row, which says which of them it is.
        x[:, 1] = x[:, 0] + 0.05 * x[:, 1]
        x[0, 1] = x[0, 0] + 2.0
        psi = 0.6 * x[:, 0]
        psi[0] = 0.6 * x[0, 1]
    elif kind == "against all":
        psi = 0.5 * x[:, 0]
        x[0, 0], psi[0] = 2.0, -1.0
    else:
        trials, psi = np.ones(24), 4.0 * x[:, 0]
        x[0, 0], psi[0] = 6.0, -50.0
    yes = rng.binomial(trials.astype(int), expit(psi)).astype(float)
    return standardized(x, trials), yes, trials


KINDS = ("between columns", "against all", "outlier")


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    x, yes, trials = deciding_row(request.param)
    data = Data.of(x, yes, trials, **GIVEN)
    options = {"draws": 600, "nodes": 1, "runs": 4}
    rows = np.arange(0, 24, 6)
    wanted, _ = leave_one_out(data, reference(data, **options), rows, **options)
    model = SpikeSlab(yes, x, family="binomial", trials=trials, prior_inclusion=0.3, slab_var=1.0)
    return SimpleNamespace(kind=request.param, fit=model.fit("exact", **QUICK), rows=rows, wanted=wanted)


@pytest.mark.every_case
def test_a_row_that_decides_is_predicted_by_sets_sampled_without_it(case, monkeypatch):
    """Where the expansion of the likelihood gives no evidence."""
    monkeypatch.setattr(left_out, "log_evidence", lambda *_, **__: None)
    model, posterior = case.fit.model, case.fit.posterior
    found = posterior.rows_left_out(model.likelihood())
    off = (found.log_density[case.rows] - case.wanted) / np.hypot(found.mcse[case.rows], FLOOR)
    assert np.abs(off).max() < SCORE
    assert found.efficiency.min() > 0


def test_a_row_that_decides_is_predicted_by_evidences(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        score = case.fit.loo()
    error = np.hypot(score.pointwise_mcse.to_numpy()[case.rows], FLOOR)
    off = (score.pointwise.to_numpy()[case.rows] - case.wanted) / error
    assert np.abs(off).max() < SCORE
    assert score.mcse >= score.pointwise_mcse.iloc[0] * (1 - EXACT)


def test_unseen_sets_are_those_of_the_deciding_row_which_is_named(monkeypatch):
    x, yes, trials = deciding_row("between columns")
    model = SpikeSlab(yes, x, family="binomial", trials=trials, prior_inclusion=0.3, slab_var=1.0)
    fit = model.fit("exact", **QUICK)
    share = unseen_shares(fit.posterior.sampled_sets(model.likelihood()).rows, fit.posterior.exact)
    assert share[0] > 0.1
    assert share[1:].max() < left_out.UNSEEN
    monkeypatch.setattr(left_out, "BY_EVIDENCE", 0)
    with pytest.warns(PrecisionWarning, match=r"fewer than 100 effective draws: 0\."):
        score = fit.loo()
    assert score.n_eff[0] == 0.0


def test_bridge_of_two_normal_posteriors():
    """Log likelihoods of a row that are linear in the predictor: the mean of its likelihood is in closed form."""
    rng = np.random.default_rng(2)
    slope, walkers, each = 1.5, 40, 500

    def draws(mean):
        psi = mean + rng.standard_normal((walkers * each, 1))
        n = walkers * each
        states = SimpleNamespace(
            weight=np.full(n, 1 / n), walker=np.repeat(np.arange(walkers), each), chain=np.zeros(n, dtype=int)
        )
        known = {"states": states, "method": "sampler", "effective": float(n), "inflation": 1.0}
        return RowLikelihoods(Exact(**dict.fromkeys(field.name for field in fields(Exact)) | known), slope * psi)

    z = []
    for part in (1.0, 0.3):
        # The posterior without the row is standard normal; with a part of it the mean is larger by its slope.
        found = bridge(draws(part * slope), draws(0.0), part)
        z.append((found.log_density - 0.5 * (part * slope) ** 2) / found.mcse)
    assert np.abs(z).max() < SCORE


def test_the_only_event_cannot_be_predicted():
    x, yes = np.random.default_rng(0).standard_normal((20, 2)), np.zeros(20)
    yes[7] = 1.0
    with pytest.warns(ConvergenceWarning):
        fit = SpikeSlab(yes, x, family="binomial").fit("exact", mcse=0.1, chains=2, maxiter=20_000)
    with pytest.raises(NoDensityError, match=r"row 7 .* do not determine an unpenalised coefficient"):
        fit.loo()


def test_a_row_of_weight_two_is_predicted_as_two_rows():
    """With a group of columns and one that is unpenalised: the scores of the copies add up to that of the row."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.standard_normal((30, 2)), columns=["a", "b"]).assign(g=rng.choice(["u", "v", "w"], 30))
    frame["y"] = rng.random(30) < expit(1.5 * frame["a"] - frame["b"])
    frame["w"] = rng.integers(1, 3, 30)
    options = {"family": "binomial", "unpenalized": ["a"]}
    weighted = SpikeSlab.from_formula("y ~ a + b + g", frame, weights="w", **options).fit("exact", **QUICK).loo()
    copies = frame.loc[frame.index.repeat(frame["w"])].reset_index(drop=True)
    copied = SpikeSlab.from_formula("y ~ a + b + g", copies, **options).fit("exact", **QUICK).loo()
    row = np.repeat(np.arange(30), frame["w"])
    summed = np.bincount(row, copied.pointwise)
    error = np.hypot(weighted.pointwise_mcse, np.bincount(row, copied.pointwise_mcse))
    off = (weighted.pointwise - summed) / np.hypot(error, FLOOR)
    assert np.abs(off).max() < SCORE
