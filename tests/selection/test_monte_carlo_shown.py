"""Monte Carlo errors in tables of contrasts, effects and predictions of fits that sampled sets of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, pool
from tests.effort import number, only_thorough

SEEDS = number(24, 8)
ALONE = 6.0  # the largest z score
TOO_SMALL = number(1.6, 1.9)  # root mean square of z scores over numbers and seeds; those of one run are correlated
TOO_LARGE = 8.0  # errors of means over kept states are larger than those over all steps: worst seen 3
ROUNDING = 1e-12

FORMULA, YES_NO = "y ~ x0 + x1 + x2 + x3", "d ~ x0 + x1 + x2"


def frame():
    rng = np.random.default_rng(5)
    f = pd.DataFrame(rng.normal(size=(40, 4))).add_prefix("x")
    f["x1"] = 0.8 * f["x0"] + 0.6 * f["x1"]
    f["y"] = f["x0"] + 0.5 * f["x2"] + rng.normal(size=40)
    f["d"] = (f["y"] > 0.3).astype(int)
    return f


NEW = {f"x{j}": [0.5, -1.0] for j in range(4)}


def tables(res, shown=("mean", "mcse")):
    """Every table that has means with errors, as one: the mean and its error."""
    parts = {
        "contrast": res.contrast("x0 - x1, x2, x0 + x2 = 1"),
        "effects": res.effects(["x0", "x2"], values=(-1.0, 1.0)),
        "predictions": res.predictions({"x0": [-1.0, 0.5]}),
        "averages": res.predictions({"x0": [-1.0, 0.5]}, at="observed"),
        "new rows": res.get_prediction(NEW).summary_frame(),
    }
    if res.model.family == "binomial":
        parts["linear"] = res.get_prediction(NEW, which="linear").summary_frame()
    return pd.concat({name: part[list(shown)].reset_index(drop=True) for name, part in parts.items()})


@pytest.fixture
def sampled(monkeypatch):
    monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)


def test_errors_are_those_of_the_sum_over_all_sets(sampled, monkeypatch):
    model = SpikeSlab.from_formula(FORMULA, frame())
    found = [tables(model.fit(mcse=0.02, rng=seed + 1)) for seed in range(SEEDS)]
    monkeypatch.undo()
    truth = tables(model.fit(), ["mean"])["mean"].to_numpy()
    z = np.stack([(each["mean"].to_numpy() - truth) / each["mcse"].to_numpy() for each in found])
    assert np.abs(z).max() < ALONE
    assert 1 / TOO_LARGE < np.sqrt(np.mean(z**2)) < TOO_SMALL


def test_errors_of_yes_no_selections_are_the_differences_between_runs():
    model = SpikeSlab.from_formula(YES_NO, frame(), family="binomial")
    found = [tables(model.fit(mcse=0.1, chains=1, rng=seed + 1)) for seed in range(SEEDS)]
    mean, error = (np.stack([each[name].to_numpy() for each in found]) for name in ("mean", "mcse"))
    assert (error > 0).all()
    assert 1 / TOO_LARGE < np.sqrt(np.mean(mean.var(axis=0, ddof=1) / (error**2).mean(axis=0))) < TOO_SMALL


def test_single_coefficients_have_the_errors_of_the_table(sampled):
    res = SpikeSlab.from_formula(FORMULA, frame()).fit(mcse=0.05)
    table = res.diagnostics().set_index(["quantity", "name"])["mcse"]["mean"]
    assert res.contrast("x0, -2 * x1, Intercept")["mcse"].to_numpy() == pytest.approx(
        [table["x0"], 2 * table["x1"], table["Intercept"]], rel=ROUNDING
    )
    assert 0 < res.joint_contrast("x0, x1")["mcse"] < 0.1


def test_odds_ratios_have_the_errors_of_the_table():
    res = SpikeSlab.from_formula(YES_NO, frame(), family="binomial").fit(mcse=0.1, chains=1)
    table = res.diagnostics().set_index(["quantity", "name"])["mcse"]["odds_ratio"]
    assert res.odds_ratios()["mcse"].to_numpy() == pytest.approx(table.to_numpy(), abs=0)
    assert res.odds_ratios(terms="x2")["mcse"].to_numpy() == pytest.approx([table["x2"]], abs=0)
    assert "Monte Carlo standard error of elpd" in repr(res.loo())


@only_thorough
def test_errors_of_pooled_fits_are_those_of_means_of_independent_fits(sampled):
    fits = [SpikeSlab.from_formula(FORMULA, frame()).fit(mcse=0.1, rng=seed) for seed in (1, 2)]
    each = [tables(fit)["mcse"] for fit in fits]
    assert tables(pool(fits))["mcse"].to_numpy() == pytest.approx(np.hypot(*each).to_numpy() / 2, rel=ROUNDING)


def test_what_is_not_sampled_has_no_errors():
    fits = [model.from_formula(FORMULA, frame()).fit() for model in (SpikeSlab, BayesRidge)]
    fits += [SpikeSlab.from_formula(FORMULA, frame()).fit("ep")]
    for res in fits:
        found = [res.contrast("x0 - x1"), res.effects("x0"), res.predictions()]
        for table in (*found, res.get_prediction(NEW).summary_frame()):
            assert "mcse" not in table
    assert "mcse" not in fits[0].joint_contrast("x0, x1")
    assert "Monte Carlo" not in repr(fits[1].loo())
