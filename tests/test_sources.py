"""Rows and moments give a model the same design: every argument that both take means the same for both."""

import numpy as np
import pytest

from pybayesridge import BayesRidge, Moments, SpikeSlab

CLOSE = 1e-6
"""EP's own tolerance is looser than what moments lose here."""

EXACT = 1e-10


def data():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(30, 2)), np.full(30, 3.0), rng.normal(size=30)])
    return x[:, 0] + rng.normal(size=30), x, rng.uniform(0.5, 2.0, 30)


def pair(family, **options):
    y, x, w = data()
    return (
        family(y, x, weights=w, **options),
        family.from_moments(Moments.from_arrays(y, x, weights=w), **options),
    )


@pytest.mark.parametrize("family", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("unpenalized", [None, [0], [2], [0, 2]])
@pytest.mark.parametrize("intercept", [True, "add"])
@pytest.mark.parametrize("standardize", [True, False])
def test_constant_columns_and_intercepts(family, unpenalized, intercept, standardize):
    rows, moments = pair(family, unpenalized=unpenalized, intercept=intercept, standardize=standardize)
    ours, theirs = rows.fit(), moments.fit()
    added = intercept == "add"
    assert rows.exog_names[0] == ("const" if added else "x1")
    assert moments.exog_names[0] == ("const" if added else "x1")
    assert len(ours.params) == len(theirs.params) == 4 + added
    np.testing.assert_allclose(theirs.params, ours.params, rtol=CLOSE, atol=CLOSE)
    if added:
        assert ours.params["x3"] == theirs.params["x3"] == 0.0
        assert ours.model.flat_columns(ours.posterior.design) == ["x3"]
        assert theirs.model.flat_columns(theirs.posterior.design) == ["x3"]


@pytest.mark.parametrize("family", [BayesRidge, SpikeSlab])
def test_without_an_intercept_a_constant_column_is_refused_alike(family):
    rows, moments = pair(family, intercept=False)
    for model in (rows, moments):
        with pytest.raises(ValueError, match="are constant and the model has no intercept"):
            model.fit()


def test_sources_agree_on_rows_and_weights():
    rows, moments = (model.source for model in pair(BayesRidge))
    assert (rows.n, rows.from_moments) == (30, False)
    assert (moments.n, moments.from_moments) == (30, True)
    assert moments.weight_mean == pytest.approx(rows.weight_mean, rel=EXACT)
    assert moments.log_weights == pytest.approx(rows.log_weights, rel=EXACT)
    assert rows.constants() == moments.constants() == {2: 3.0}


@pytest.mark.parametrize("kind", [0, 1])
def test_removed_data_keep_what_results_need(kind):
    res = pair(BayesRidge)[kind].fit()
    before, notes = res.rsquared, res.notes
    res.remove_data(row_space=False)
    source = res.model.source
    assert (source.n, source.from_moments) == (30, bool(kind))
    assert source.without(row_space=False) is source
    assert res.rsquared == before
    assert res.notes == notes
    with pytest.raises(ValueError, match="were removed: build it again"):
        res.model.fit()
    with pytest.raises(ValueError, match="the data of this fit were removed"):
        _ = res.fittedvalues
    with pytest.raises(ValueError, match="the data of this fit were removed"):
        source.rsquared(np.zeros((4, 1)), lambda: np.zeros(30), constant=True)
