"""Comparison of fits by leave-one-out scores, and stacking weights."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, compare_loo
from pybayesridge.posterior.stacking import stacking_weights

EQUAL = 1e-9
WEIGHT = 1e-4
"""Of a maximum that is flat: 1e-6 at the worst seen."""

COPIES = 0.07
"""EP approximates copies of a row together or one by one."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(size=(40, 4)), columns=list("abcd"))
    frame["y"] = frame["a"] - frame["b"] + rng.normal(size=40)
    frame["z"] = rng.normal(size=40)
    return frame


def by_em(log_density, copies, steps=3000):
    """The weights of a mixture of given components by EM."""
    density = np.exp(log_density)
    w = np.full(density.shape[1], 1 / density.shape[1])
    for _ in range(steps):
        share = density * w
        w = copies @ (share / share.sum(axis=1, keepdims=True)) / copies.sum()
    return w


@pytest.mark.parametrize("seed", range(4))
def test_stacking_weights_are_those_of_em(seed):
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(30, 3)) + np.array([0, 0.3, -0.5])
    copies = rng.integers(1, 4, 30).astype(float)
    found = stacking_weights(logs, copies)
    assert found.converged
    assert found.weights == pytest.approx(by_em(logs, copies), abs=WEIGHT)


def test_a_model_that_is_better_everywhere_has_all_the_weight():
    logs = np.array([[-1.0, -900.0], [-2.0, -950.0]])
    assert stacking_weights(logs, np.ones(2)).weights == pytest.approx([1.0, 0.0], abs=WEIGHT)


def test_the_table(data):
    fits = {
        "one column": BayesRidge.from_formula("y ~ a", data).fit(),
        "ridge": BayesRidge.from_formula("y ~ a + b + c + d", data).fit(),
        "selection": SpikeSlab.from_formula("y ~ a + b + c + d", data).fit("exact"),
    }
    table = compare_loo(fits)
    assert table.columns.tolist() == ["rank", "elpd", "p_loo", "elpd_diff", "weight", "se", "dse", "warning"]
    assert table.index[-1] == "one column"
    assert table["rank"].tolist() == [0, 1, 2]
    assert table["weight"].sum() == pytest.approx(1.0, abs=EQUAL)
    best, last = fits[table.index[0]].loo(), fits["one column"].loo()
    assert table["elpd_diff"].iloc[0] == pytest.approx(0.0, abs=EQUAL)
    assert table.loc["one column", "elpd_diff"] == pytest.approx(best.elpd - last.elpd, abs=EQUAL)
    difference = best.pointwise - last.pointwise
    assert table.loc["one column", "dse"] == pytest.approx(np.sqrt(40) * difference.std(ddof=1), abs=EQUAL)
    assert not table["warning"].any()


def test_copies_of_rows_are_rows(data):
    """Frequency weights of yes/no responses: the table of the rows written out."""
    data = data.assign(up=(data["y"] > 0).astype(int), count=np.tile([1, 2], 20))
    whole = data.loc[data.index.repeat(data["count"])].reset_index(drop=True)

    def table(frame, **weights):
        options = {"family": "binomial", "standardize": False, "prior": (0.5, 0.5, 1.0), **weights}
        return compare_loo({f: BayesRidge.from_formula(f, frame, **options).fit() for f in ("up ~ a", "up ~ a + b")})

    columns = ["elpd", "elpd_diff", "se", "dse"]
    first, second = table(data, weights="count"), table(whole)
    assert first[columns].to_numpy() == pytest.approx(second[columns].to_numpy(), abs=COPIES)


def test_what_cannot_be_compared(data):
    ridge = BayesRidge.from_formula("y ~ a", data).fit()
    with pytest.raises(ValueError, match="'one' and 'two' have different rows or responses"):
        compare_loo({"one": ridge, "two": BayesRidge.from_formula("y ~ a", data[:-1]).fit()})
    with pytest.raises(ValueError, match="different rows or responses"):
        compare_loo({"one": ridge, "two": BayesRidge.from_formula("z ~ a", data).fit()})
    binary = BayesRidge.from_formula("up ~ a", data.assign(up=data["y"] > 0), family="binomial").fit()
    with pytest.raises(ValueError, match="different families"):
        compare_loo({"one": ridge, "two": binary})
    with pytest.raises(ValueError, match="'two' are not results"):
        compare_loo({"one": ridge, "two": 3})
    with pytest.raises(ValueError, match="no fits"):
        compare_loo({})
    several = BayesRidge.from_formula("y + z ~ a", data).fit()
    assert len(compare_loo({"both": several, "again": several}, target="z")) == 2
    with pytest.raises(ValueError, match="target 'z' is not one of"):
        compare_loo({"one": ridge, "both": several}, target="z")
