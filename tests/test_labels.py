"""Labels of rows, bands and targets decide what a number belongs to; where rows have others it is an error."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, compare_loo, pool, stack

N = 30

SAME = 1e-10
"""Averages that are summed in another order."""

OTHER_ORDER = "of the same rows in another order"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    out = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"), index=[f"r{i}" for i in range(N)])
    out["y"] = out["a"] - 0.5 * out["b"] + rng.normal(size=N)
    out["z"] = out["b"] + rng.normal(size=N)
    out["yes"] = (out["y"] > 0).astype(int)
    out["t"] = rng.uniform(0.5, 3.0, N)
    out["count"] = rng.poisson(out["t"] * np.exp(0.5 * out["a"]))
    out["m"] = rng.integers(2, 9, N)
    out["k"] = rng.binomial(out["m"], 0.4)
    out["g"] = np.resize(list("uvwxz"), N)
    return out


def turned(values):
    """The same values and labels, the last first."""
    return values.iloc[::-1]


def test_a_mask_of_rows_has_the_labels_of_the_rows(data):
    mask = data["a"] > 0
    kept = BayesRidge.from_formula("y ~ a + b", data[mask]).fit()
    for form in (mask, mask.to_numpy(), mask.astype("boolean"), data.index[mask]):
        res = BayesRidge.from_formula("y ~ a + b", data, subset=form).fit()
        np.testing.assert_array_equal(res.params, kept.params)
    with pytest.raises(ValueError, match="row labels of subset and of the data differ: align them, or pass an array"):
        BayesRidge.from_formula("y ~ a + b", data, subset=turned(mask))


KINDS = {
    "weights": ("y ~ a", {"weights": "t"}, "t"),
    "weights, groups": ("y ~ a + (1 | g)", {"weights": "t"}, "t"),
    "exposure": ("count ~ a", {"family": "poisson", "exposure": "t"}, "t"),
    "exposure, groups": ("count ~ a + (1 | g)", {"family": "poisson", "exposure": "t"}, "t"),
    "trials": ("k ~ a", {"family": "binomial", "trials": "m"}, "m"),
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_rows_to_predict_have_the_labels_of_the_rows(data, kind):
    formula, options, column = KINDS[kind]
    res = BayesRidge.from_formula(formula, data, **options).fit()
    new, what = data.head(4), kind.split(",")[0]
    named = res.get_prediction(new, **{what: column}).summary_frame()
    one_by_one = [res.get_prediction(new.iloc[[i]], **{what: new[column].iloc[i]}).summary_frame() for i in range(4)]
    pd.testing.assert_frame_equal(named, pd.concat(one_by_one))
    for form in (new[column], new[column].to_numpy(), list(new[column])):
        pd.testing.assert_frame_equal(res.get_prediction(new, **{what: form}).summary_frame(), named)
    for rows, form in ((new, turned(new[column])), (None, turned(data[column]))):
        with pytest.raises(ValueError, match=f"row labels of {what} and of the rows to predict differ"):
            res.get_prediction(rows, **{what: form})
    own = res.get_prediction(**{what: data[column]}).summary_frame()
    pd.testing.assert_frame_equal(own, res.get_prediction().summary_frame())
    with pytest.raises(ValueError, match=f"{what} names 'size', which is not a column of exog"):
        res.get_prediction(new, **{what: "size"})


def test_mixtures_take_a_column_of_weights(data):
    fits = [BayesRidge.from_formula(f"y ~ {x}", data, weights="t").fit("em") for x in ("a", "a + b")]
    for mixed in (stack(fits, weights=[0.3, 0.7]), pool([fits[0], fits[0]])):
        named = mixed.get_prediction(data.head(3), weights="t").summary_frame()
        given = mixed.get_prediction(data.head(3), weights=data["t"].head(3).to_numpy()).summary_frame()
        pd.testing.assert_frame_equal(named, given)


def test_missing_weights_of_new_rows_leave_out_the_interval_of_a_new_response(data):
    res = BayesRidge.from_formula("y ~ a", data, weights="t").fit("em")
    frame = res.get_prediction(data.head(2), weights=[np.nan, 2.0]).summary_frame()
    assert np.isnan(frame[["obs_ci_lower", "obs_ci_upper"]].to_numpy()).tolist() == [[True, True], [False, False]]
    assert np.isfinite(frame["mean_ci_lower"]).all()


@pytest.mark.parametrize("form", [dict, pd.Series])
def test_penalties_by_name(data, form):
    exog, named = data[["a", "b", "c"]], form({"z": 50.0, "y": 1.0})
    targets = BayesRidge(data[["y", "z"]], exog)
    by_position = targets.fit("fixed", lam=[1.0, 50.0]).params
    pd.testing.assert_frame_equal(targets.fit("fixed", lam=named).params, by_position)
    bands = BayesRidge(data["y"], exog, bands={"y": ["a"], "z": ["b", "c"]})
    pd.testing.assert_series_equal(bands.fit("fixed", lam=named).params, bands.fit("fixed", lam=[1.0, 50.0]).params)
    for model, of in ((targets, "targets"), (bands, "bands")):
        with pytest.raises(ValueError, match=f"lam must have a number for each of the {of} 'y', 'z'"):
            model.fit("fixed", lam=form({"x": 50.0, "y": 1.0}))
    unlabelled = targets.fit("fixed", lam=pd.Series([1.0, 50.0]))
    pd.testing.assert_frame_equal(unlabelled.params, by_position)


def test_rows_in_another_order_are_not_compared_by_position(data):
    """Sorted by a response of zeros and ones the responses are equal row by row, and the rows are not."""
    one, other = data.sort_values(["yes", "a"]), data.sort_values(["yes", "b"])
    assert one["yes"].tolist() == other["yes"].tolist()
    fits = [BayesRidge.from_formula("yes ~ a", each, family="binomial").fit("laplace") for each in (one, other)]
    for ask in (compare_loo, stack, lambda both: stack(both, weights=[0.5, 0.5]), pool):
        with pytest.raises(ValueError, match=OTHER_ORDER):
            ask(fits)


def test_new_labels_of_the_same_rows_are_no_other_order(data):
    """Rows that were sorted, and then numbered: the labels are those of other rows, the responses are not."""
    numbered = data.reset_index(drop=True).sort_values("a")
    again = numbered.reset_index(drop=True)
    for response, family in (("yes", "binomial"), ("y", "gaussian")):
        fits = [BayesRidge.from_formula(f"{response} ~ a", each, family=family).fit("fixed", lam=1.0)
                for each in (numbered, again)]  # fmt: skip
        assert len(compare_loo(fits)) == 2
        assert pool(fits).nobs == N


def test_pooled_fits_have_the_rows_in_one_order(data):
    """Predictions of the rows of the fits would mix those of different rows; imputed responses may differ."""
    imputed = data.copy()
    imputed.iloc[:3, imputed.columns.get_loc("y")] += 0.1
    formula = "y ~ a + b"
    fits = [BayesRidge.from_formula(formula, each).fit("em") for each in (data, imputed, turned(imputed))]
    with pytest.raises(ValueError, match=r"fits\[1\] and fits\[0\] are " + OTHER_ORDER):
        pool([fits[0], fits[2]])
    mean = pool(fits[:2]).predict()
    np.testing.assert_allclose(mean, 0.5 * (fits[0].fittedvalues + fits[1].fittedvalues), rtol=SAME, atol=SAME)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("unpenalised columns: 'a' and none", {"unpenalized": ["a"]}),
        ("standardize: False and True", {"standardize": False}),
        ("bands: 'one', 'two' and none", {"bands": {"one": ["a"], "two": ["b"]}}),
    ],
)
def test_pooled_fits_are_of_one_model(data, what, options):
    fits = [BayesRidge(data["y"], data[["a", "b"]], **given).fit("em") for given in ({}, options)]
    with pytest.raises(ValueError, match="differ in " + what):
        pool(fits)


def test_unpenalised_columns_need_no_prior_probability(data):
    fixed = {"slab_var": 0.5, "noise_var": 1.0, "unpenalized": ["a"]}
    given = {"b": 0.2, "c": 0.7}
    res, named = (
        SpikeSlab(data["y"], data[["a", "b", "c"]], prior_inclusion=each, **fixed).fit("exact")
        for each in (given, given | {"a": 0.1})
    )
    np.testing.assert_array_equal(res.inclusion_prob, named.inclusion_prob)
    array = SpikeSlab(data["y"], data[["a", "b", "c"]], prior_inclusion=[1.0, 0.2, 0.7], **fixed).fit("exact")
    np.testing.assert_array_equal(res.inclusion_prob, array.inclusion_prob)
    with pytest.raises(ValueError, match=r"prior_inclusion lacks column\(s\) 'c'"):
        SpikeSlab(data["y"], data[["a", "b", "c"]], prior_inclusion={"b": 0.2}, **fixed)


def test_a_number_that_is_a_position_and_the_name_of_another_is_refused(data):
    """Columns of a frame that was made of an array are called 0, 1, …, and some are left out or moved later."""
    numbered = data[["a", "b", "c"]].set_axis([0, 1, 2], axis=1)
    later = numbered[[1, 2]]
    assert BayesRidge(data["y"], numbered, unpenalized=[1]).data.unpenalized.tolist() == [1]
    assert BayesRidge(data["y"], later, unpenalized=[2]).data.unpenalized.tolist() == [1]
    assert BayesRidge(data["y"], later, unpenalized=["1"]).data.unpenalized.tolist() == [0]
    for options in ({"unpenalized": [1]}, {"bands": {"one": [1]}}):
        with pytest.raises(ValueError, match=" 1 is the position of '2', and another is called '1'"):
            BayesRidge(data["y"], later, **options)
    with pytest.raises(ValueError, match="unpenalized position 3 is out of range: exog has 2 columns"):
        BayesRidge(data["y"], later, unpenalized=[3])
