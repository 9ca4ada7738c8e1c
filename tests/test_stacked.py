"""Mixtures of models with weights, compared with mixtures of normal distributions and with their parts."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pybayesridge import BayesRidge, SpikeSlab, compare_loo, pool, stack

SAME = 1e-10
"""Sums in another order."""

QUANTILE = 1e-6
"""Probability at a quantile of a mixture, which is solved for to 1e-7 of the distance of the parts."""

WEIGHTS = [0.3, 0.7]
NOISE = 0.25


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    out = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    out["y"] = out["a"] - 0.5 * out["b"] + 0.5 * rng.normal(size=40)
    out["event"] = (out["a"] + rng.logistic(size=40) > 0).astype(int)
    return out


@pytest.fixture(scope="module")
def normals(data):
    """Fits with other columns, whose predictions are normal: the penalty and the noise are known."""
    formulas = ("y ~ a", "y ~ a + b + c")
    return [BayesRidge.from_formula(one, data, sigma2=NOISE).fit("fixed", lam=2.0) for one in formulas]


def test_intervals_are_quantiles_of_the_mixture(data, normals):
    new = data.iloc[:4] + 0.5
    mixed = stack(normals, weights=WEIGHTS)
    each = [fit.get_prediction(new) for fit in normals]
    frame = mixed.get_prediction(new).summary_frame(0.1)
    for kind, noise in (("mean", 0.0), ("obs", NOISE)):
        for end, p in (("lower", 0.05), ("upper", 0.95)):
            at = frame[f"{kind}_ci_{end}"].to_numpy()
            below = [norm.cdf((at - one.predicted_mean) / np.sqrt(one.se**2 + noise)) for one in each]
            np.testing.assert_allclose(np.tensordot(WEIGHTS, below, 1), p, atol=QUANTILE)
    mean = np.tensordot(WEIGHTS, [one.predicted_mean for one in each], 1)
    second = np.tensordot(WEIGHTS, [one.predicted_mean**2 + one.se**2 for one in each], 1)
    np.testing.assert_allclose(frame["mean"], mean, rtol=SAME)
    np.testing.assert_allclose(mixed.predict(new), mean, rtol=SAME)
    np.testing.assert_allclose(frame["mean_se"], np.sqrt(second - mean**2), rtol=SAME)
    assert mixed.predict(new).index.equals(new.index)


def test_contrasts_of_coefficients_that_all_have(normals):
    mixed = stack(normals, weights=WEIGHTS)
    found = mixed.contrast("a = 0.5", alpha=0.1).iloc[0]
    each = [fit.contrast("a = 0.5").iloc[0] for fit in normals]
    for end, p in (("lower", 0.05), ("upper", 0.95)):
        assert sum(
            w * norm.cdf((found[end] - one["mean"]) / one["sd"]) for w, one in zip(WEIGHTS, each, strict=True)
        ) == (pytest.approx(p, abs=QUANTILE))
    positive = sum(w * norm.cdf(one["mean"] / one["sd"]) for w, one in zip(WEIGHTS, each, strict=True))
    assert found["prob_positive"] == pytest.approx(positive, abs=SAME)
    with pytest.raises(ValueError, match="b"):
        mixed.contrast("b")


def test_equal_weights_are_those_of_pooled_fits(data):
    for fits in (
        [BayesRidge.from_formula("y ~ a + b", data).fit(method) for method in ("exact", "em")],
        [SpikeSlab.from_formula("y ~ a + b", data, prior_inclusion=p).fit("exact") for p in (0.2, 0.6)],
    ):
        fits[1].method = fits[0].method
        one, other = stack(fits, weights=[0.5, 0.5]), pool(fits)
        for frame in (
            lambda res: res.get_prediction(data.iloc[:3]).summary_frame(),
            lambda res: res.contrast("a - b"),
        ):
            pd.testing.assert_frame_equal(frame(one), frame(other), rtol=1e-6)


def test_models_of_both_kinds(data):
    """A ridge has no point masses: those of the mixture are the selection's, by its weight."""
    fits = {"ridge": BayesRidge.from_formula("y ~ a + c", data).fit()}
    fits["selection"] = SpikeSlab.from_formula("y ~ a + c", data).fit("exact")
    mixed = stack(fits, weights={"selection": 0.7, "ridge": 0.3})
    found, own = mixed.contrast("c").iloc[0], fits["selection"].contrast("c").iloc[0]
    assert found["prob_zero"] == pytest.approx(0.7 * own["prob_zero"], rel=SAME)
    assert mixed.weights.to_dict() == pytest.approx({"ridge": 0.3, "selection": 0.7})


def test_stacking_weights_by_default(data, normals):
    fits = {"small": normals[0], "large": normals[1]}
    mixed = stack(fits)
    pd.testing.assert_series_equal(mixed.weights, compare_loo(fits)["weight"][["small", "large"]])
    assert "mixed with weights" in repr(mixed)


def test_a_fit_without_weight_needs_no_data(data, normals):
    mixed = stack(normals, weights=[1.0, 0.0])
    pd.testing.assert_series_equal(mixed.predict({"a": [1.0]}), normals[0].predict({"a": [1.0]}))
    frame = mixed.get_prediction({"a": [1.0]}).summary_frame()
    pd.testing.assert_frame_equal(frame, normals[0].get_prediction({"a": [1.0]}).summary_frame())


def test_probabilities(data):
    fits = [
        BayesRidge.from_formula(f"event ~ {x}", data, family="binomial").fit("fixed", lam=2.0) for x in ("a", "a + b")
    ]
    mixed, new = stack(fits, weights=WEIGHTS), data.iloc[:3]
    each = [fit.get_prediction(new) for fit in fits]
    frame = mixed.get_prediction(new).summary_frame(0.1)
    np.testing.assert_allclose(
        frame["mean"], np.tensordot(WEIGHTS, [one.predicted_mean for one in each], 1), rtol=SAME
    )
    linear = [fit.get_prediction(new, which="linear") for fit in fits]
    at = np.log(frame["mean_ci_lower"] / (1 - frame["mean_ci_lower"])).to_numpy()
    below = [norm.cdf((at - one.predicted_mean) / one.se) for one in linear]
    np.testing.assert_allclose(np.tensordot(WEIGHTS, below, 1), 0.05, atol=QUANTILE)
    np.testing.assert_allclose(mixed.predict(new), frame["mean"], rtol=SAME)


def test_what_is_refused(data, normals):
    for weights in ([0.5, 0.6], [-0.5, 1.5], [1.0], [np.nan, 1.0], {"(1)": 1.0}):
        with pytest.raises(ValueError, match="weights must"):
            stack(normals, weights=weights)
    with pytest.raises(ValueError, match="at least two"):
        stack(normals[:1], weights=[1.0])
    binary = BayesRidge.from_formula("event ~ a", data, family="binomial").fit()
    with pytest.raises(ValueError, match="whose predictions cannot be mixed"):
        stack([normals[0], binary], weights=WEIGHTS)
    fewer = BayesRidge.from_formula("y ~ a", data.iloc[1:]).fit()
    with pytest.raises(ValueError, match="different rows"):
        stack([normals[0], fewer], weights=WEIGHTS)
    for mixed in (stack(normals, weights=WEIGHTS), pool([normals[0]] * 2)):
        for ask in (mixed.predict, mixed.get_prediction):
            with pytest.raises(ValueError, match="new_levels and groups require a fit with several penalties"):
                ask(data, groups=False)
            with pytest.raises(ValueError, match="new_levels must be 'sample' or 'zero', not 'mean'"):
                ask(data, new_levels="mean")


@pytest.mark.every_case
@pytest.mark.parametrize("option", [{"groups": False}, {"new_levels": "zero"}, {}])
@pytest.mark.parametrize("kind", ["gaussian", "binomial", "poisson"])
def test_groups(data, kind, option):
    """Of fits with and without groups; a fit that has all of the weight is itself."""
    rng = np.random.default_rng(4)
    data = data.assign(g=np.resize(list("uvwxz"), len(data)), count=rng.poisson(2.0, len(data)))
    response = {"gaussian": "y", "binomial": "event", "poisson": "count"}[kind]
    method = "exact" if kind == "gaussian" else "laplace"
    fits = [
        BayesRidge.from_formula(f"{response} ~ {right}", data, family=kind).fit(method)
        for right in ("a + (1 | g)", "a")
    ]
    new = data.iloc[:3].assign(g=["another", "u", None])
    one = fits[0].get_prediction(new, **option).summary_frame()
    for mixed in (stack(fits, weights=[1.0, 0.0]), pool([fits[0], fits[0]])):
        frame = mixed.get_prediction(new, **option).summary_frame()
        np.testing.assert_allclose(frame, one, rtol=QUANTILE)
        np.testing.assert_allclose(mixed.predict(new, **option), one["mean"], rtol=QUANTILE)
    both = stack(fits, weights=WEIGHTS)
    if kind != "poisson":
        each = [one["mean"], fits[1].predict(new)]
        np.testing.assert_allclose(both.predict(new, **option), np.tensordot(WEIGHTS, each, 1), rtol=SAME)
    if option:
        wide, narrow = (both.get_prediction(new, which="linear", **given).se[0] for given in ({}, option))
        assert wide > 1.02 * narrow
