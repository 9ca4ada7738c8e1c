"""Pooled fits of imputed data whose formulas learn from the data; odds ratios of pooled fits."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, fit_imputed, pool

SAME = 1e-9
"""The same number by another way through the code."""

QUANTILES = 1e-6
"""Of mixtures, by two searches, in standard deviations."""


def completed(m=3, n=60, seed=1):
    rng = np.random.default_rng(seed)
    whole = pd.DataFrame({"x": rng.normal(size=n), "u": rng.normal(size=n), "g": rng.choice(list("ab"), n)})
    whole["y"] = np.sin(2 * whole["x"]) + 0.3 * rng.normal(size=n)
    whole["yes"] = (whole["y"] > 0).astype(int)
    lost = rng.random(n) < 0.4
    return [whole.assign(x=np.where(lost, rng.normal(size=n) * (1 + i), whole["x"])) for i in range(m)]


def states(pooled):
    return [fit.model.formula_spec.spec.transform_state for fit in pooled.fits]


TRANSFORMS = [
    "bs(x, df=5)",
    "cs(x, df=4)",
    "poly(x, 2)",
    "scale(x)",
    "center(x)",
    "bs(scale(x), df=4)",
    "bs(x, df=4):g",
]


@pytest.mark.parametrize("term", TRANSFORMS)
def test_transforms_learn_from_all_data_sets_together(term):
    sets = completed()
    pooled = fit_imputed(sets, lambda data: BayesRidge.from_formula(f"y ~ {term} + u", data).fit())
    stacked = BayesRidge.from_formula(f"y ~ {term} + u", pd.concat(sets, ignore_index=True)).formula_spec.spec
    for fit, data in zip(pooled.fits, sets, strict=True):
        columns = stacked.get_model_matrix(data)[fit.model.data.exog_columns].to_numpy()
        np.testing.assert_allclose(fit.model.data.exog, columns, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(pooled.params, np.mean([fit.params for fit in pooled.fits], axis=0), rtol=SAME)
    new = sets[0].iloc[:4]
    mean = np.mean([fit.predict(new) for fit in pooled.fits], axis=0)
    np.testing.assert_allclose(pooled.predict(new), mean, rtol=SAME)
    np.testing.assert_allclose(pooled.get_prediction(new).summary_frame()["mean"], mean, rtol=1e-7)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_both_models_and_families(model, family):
    response = "y" if family == "gaussian" else "yes"
    method = {BayesRidge: {}, SpikeSlab: {"method": "ep"}}[model]
    pooled = fit_imputed(
        completed(),
        lambda data: model.from_formula(f"{response} ~ bs(x, df=4) + u", data, family=family).fit(**method),
    )
    knots = [state["bs(x, df=4)"]["knots"] for state in states(pooled)]
    np.testing.assert_array_equal(knots[0], knots[1])
    assert np.isfinite(pooled.params).all()


def test_the_response_is_transformed_alike():
    sets = completed()
    swapped = [data.rename(columns={"x": "y", "y": "x"}) for data in sets]
    pooled = fit_imputed(swapped, lambda data: BayesRidge.from_formula("scale(y) ~ x + u", data).fit())
    everything = np.concatenate([data["y"] for data in swapped])
    for fit, data in zip(pooled.fits, swapped, strict=True):
        wanted = (data["y"] - everything.mean()) / everything.std(ddof=1)
        np.testing.assert_allclose(fit.model.endog, wanted, rtol=SAME, atol=SAME)


def test_what_the_data_sets_agree_on_stays():
    """Transforms of observed variables keep what they learn from one data set, and nothing is fitted twice."""
    sets, calls = completed(), []

    def fit(data):
        calls.append(len(calls))
        return BayesRidge.from_formula("y ~ bs(u, df=4) + x", data).fit()

    pooled = fit_imputed(sets, fit)
    assert len(calls) == 3
    alone = BayesRidge.from_formula("y ~ bs(u, df=4) + x", sets[0])
    assert states(pooled)[1] == alone.formula_spec.spec.transform_state
    both = fit_imputed(sets, lambda data: BayesRidge.from_formula("y ~ bs(u, df=4) + bs(x, df=4)", data).fit())
    assert states(both)[2]["bs(u, df=4)"] == alone.formula_spec.spec.transform_state["bs(u, df=4)"]
    assert states(both)[0] == states(both)[2]


def test_nothing_is_shared_after_or_beside_pooling():
    sets = completed()
    before = BayesRidge.from_formula("y ~ bs(x, df=4)", sets[1]).formula_spec.spec.transform_state
    fit_imputed(sets, lambda data: BayesRidge.from_formula("y ~ bs(x, df=4)", data).fit())
    assert BayesRidge.from_formula("y ~ bs(x, df=4)", sets[1]).formula_spec.spec.transform_state == before
    with pytest.raises(ValueError, match=r"data_sets\[0\]"):
        fit_imputed(sets, lambda data: BayesRidge.from_formula("y ~ bs(x, df=4)", data).fit("none"))
    assert BayesRidge.from_formula("y ~ bs(x, df=4)", sets[1]).formula_spec.spec.transform_state == before


def test_several_models_for_a_data_set():
    """Each formula learns on its own, in the order in which they are used."""

    def fit(data):
        first = BayesRidge.from_formula("y ~ scale(x)", data).fit()
        rest = data.assign(left=data["y"] - first.fittedvalues)
        return BayesRidge.from_formula("left ~ bs(x, df=4) + scale(u)", rest).fit()

    pooled = fit_imputed(completed(), fit)
    assert states(pooled)[0] == states(pooled)[1]


def test_fits_with_other_numbers_are_not_pooled():
    sets = completed()
    fits = [BayesRidge.from_formula("y ~ bs(x, df=4) + u", data).fit() for data in sets]
    with pytest.raises(ValueError, match=r"fits\[1\] and fits\[0\] use different numbers in 'bs\(x, df=4\)'"):
        pool(fits)
    knots = "bs(x, knots=[-.5, .5], lower_bound=-9, upper_bound=9)"
    pool([BayesRidge.from_formula(f"y ~ {knots} + u", data).fit() for data in sets])
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"different numbers in 'scale\(x\)'"):
        fit_imputed(sets, lambda d: BayesRidge.from_arrow(pa.Table.from_pandas(d), "y ~ scale(x)").fit())


def test_factors_with_other_reference_levels_are_not_pooled():
    sets = completed(2)
    three = [data.assign(g=np.tile(["a", "b", "c"], 20)) for data in sets]
    three[1]["g"] = np.tile(["aa", "b", "c"], 20)
    with pytest.raises(ValueError, match="differ in levels of factors: 'g: aa, b, c' and 'g: a, b, c'"):
        fit_imputed(three, lambda data: BayesRidge.from_formula("y ~ g + x", data).fit())


def test_arrays_that_are_no_columns_are_named():
    sets = completed()

    def fit(data):
        outside = data["x"].to_numpy() * 2  # noqa: F841
        return BayesRidge.from_formula("y ~ scale(outside)", data).fit()

    with pytest.raises(ValueError, match=r"'scale\(outside\)' cannot be evaluated on the rows of all data sets"):
        fit_imputed(sets, fit)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_odds_ratios(model):
    options = {BayesRidge: {}, SpikeSlab: {"method": "ep"}}[model]
    sets = completed()
    pooled = fit_imputed(
        sets, lambda data: model.from_formula("yes ~ x + u + g", data, family="binomial").fit(**options)
    )
    found = pooled.odds_ratios(alpha=0.1)
    probabilities = ["prob_above_1", "prob_equal_1"][: 2 if model is SpikeSlab else 1]
    assert list(found.columns) == ["odds_ratio", "lower", "upper", *probabilities]
    assert list(found.index) == list(pooled.params.index)
    np.testing.assert_allclose(found["odds_ratio"], np.exp(pooled.params), rtol=SAME)
    np.testing.assert_allclose(found[["lower", "upper"]], np.exp(pooled.conf_int(0.1)), rtol=QUANTILES)
    for name in probabilities:
        wanted = np.mean([fit.odds_ratios()[name] for fit in pooled.fits], axis=0)
        np.testing.assert_allclose(found[name], wanted, rtol=SAME)
    pd.testing.assert_frame_equal(
        pooled.odds_ratios(0.1, terms=["g", "x"]), found.loc[["g[T.b]", "x"]], rtol=QUANTILES
    )


def test_one_fit_several_times_has_its_odds_ratios():
    res = BayesRidge.from_formula("yes ~ x + u", completed(2)[0], family="binomial").fit()
    np.testing.assert_allclose(pool([res, res]).odds_ratios(), res.odds_ratios(), rtol=QUANTILES)


def test_odds_ratios_are_of_logits():
    sets = completed(2)
    gaussian = fit_imputed(sets, lambda data: BayesRidge.from_formula("y ~ x", data).fit())
    probit = fit_imputed(
        sets, lambda data: BayesRidge.from_formula("yes ~ x", data, family="binomial", link="probit").fit()
    )
    with pytest.raises(ValueError, match="is for fits with family='binomial'"):
        gaussian.odds_ratios()
    with pytest.raises(ValueError, match="is for link='logit'"):
        probit.odds_ratios()
