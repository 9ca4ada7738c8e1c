"""The law of averages of probabilities beside long simulations, and which averages are drawn."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from pybayesridge.binomial.link import probability
from pybayesridge.results import averages

ERRORS = 5.0
"""Monte Carlo standard errors, at most."""

MANY, LAW = 100_000, 0.08
"""Draws of a long simulation, and how far its intervals may be away, in standard deviations (.057 was seen)."""


def yes_no(n, p, kind="plain"):
    rng = np.random.default_rng(1)
    out = pd.DataFrame(rng.standard_normal((n, p)), columns=[f"x{i}" for i in range(p)])
    eta = out.to_numpy() @ rng.standard_normal(p) * 1.2 / np.sqrt(p) + 0.3
    out["y"] = (rng.random(n) < probability(eta, "logit")).astype(int)
    if kind == "separated":
        out["y"] = (out["x0"] > 0).astype(int)
    if kind == "rare":
        out["y"] = (out["x0"] >= out["x0"].nlargest(4).min()).astype(int)
    out["g"] = rng.choice(list("abc"), n)
    return out


@pytest.mark.parametrize(("n", "p", "link"), [(15, 2, "logit"), (30, 3, "probit"), (60, 5, "logit")])
def test_the_law_of_an_average_is_that_of_many_draws(n, p, link):
    """Ends of intervals differ little, the simulation's own error among it."""
    res = BayesRidge.from_formula("y ~ g + x0 + x1", yes_no(n, p), family="binomial", link=link).fit()
    with pytest.MonkeyPatch.context() as patch:
        found = res.effects(), res.predictions({"x0": [0.0, 1.0]}, at="observed")
        patch.setattr(averages, "LARGEST_REST", -1.0)
        patch.setattr(averages, "DRAWS", MANY)
        drawn = res.effects(rng=1), res.predictions({"x0": [0.0, 1.0]}, at="observed", rng=1)
    for ours, theirs in zip(found, drawn, strict=True):
        assert (ours["mcse"] == 0).mean() > 0.7
        assert ((ours["mean"] - theirs["mean"]).abs() <= ERRORS * np.hypot(theirs["mcse"], ours["mcse"])).all()
        np.testing.assert_allclose(ours["sd"], theirs["sd"], rtol=ERRORS / np.sqrt(2 * 4000))
        some = ours["mcse"] == 0
        for end in ("lower", "upper"):
            assert ((ours[end] - theirs[end])[some].abs() <= LAW * theirs["sd"][some]).all()


@pytest.mark.parametrize("kind", ["separated", "rare"])
def test_averages_that_are_far_from_linear_are_drawn(kind):
    data = yes_no(40 if kind == "separated" else 300, 2, kind)
    res = BayesRidge.from_formula("y ~ x0 + x1", data, family="binomial").fit()
    found = res.effects("x0").iloc[0]
    assert found["mcse"] > 0
    pd.testing.assert_frame_equal(res.effects("x0"), res.effects("x0"))


def test_more_columns_than_rows_have_effects():
    """Changed rows are outside the space of the rows, so that they are drawn."""
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.standard_normal((20, 30)), columns=[f"x{i}" for i in range(30)])
    res = BayesRidge((x["x0"] + rng.standard_normal(20) > 0).astype(int), x, family="binomial").fit()
    found = res.effects("x0").iloc[0]
    assert found["mcse"] > 0
    assert found["lower"] < found["mean"] < found["upper"]
