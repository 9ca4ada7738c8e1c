"""Sparse columns: the numbers of the dense ones, without an array of their size."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, GridEdgeWarning, SpikeSlab
from tests.effort import pairs

SAME = 1e-9
"""Against dense columns: implicit centring sums in another order, lambda is a root."""

LARGE_MEANS = 1e-7
"""Columns whose mean is 1e6 standard deviations have lost that many digits themselves."""

DENSITY = 0.15


def random_csr(n, p, density, rng):
    # SciPy's own random_array is younger than the oldest version supported.
    return sparse.csr_array(sparse.random(n, p, density, "csr", random_state=rng, data_rvs=rng.standard_normal))


def problem(n, p, seed=0):
    rng = np.random.default_rng(seed)
    x = random_csr(n, p, DENSITY, rng)
    x = sparse.csr_array(x @ sparse.diags(rng.uniform(0.5, 5, p)))
    y = 2 + x @ rng.standard_normal(p) + 0.5 * rng.standard_normal(n)
    return y, x


SETTINGS = {
    "tall": (200, 12, {}),
    "wide": (40, 90, {}),
    "weights": (200, 12, {"weights": np.random.default_rng(5).uniform(0.2, 5, 200)}),
    "weights-wide": (40, 90, {"weights": np.random.default_rng(5).uniform(0.2, 5, 40)}),
    "unpenalized": (200, 12, {"unpenalized": [0, 7]}),
    "unpenalized-wide": (60, 90, {"unpenalized": [3, 88]}),
    "no-intercept": (200, 12, {"intercept": False}),
    "no-intercept-wide": (40, 90, {"intercept": False}),
    "no-intercept-unpenalized": (200, 12, {"intercept": False, "unpenalized": [2]}),
    "own-scale": (200, 12, {"standardize": False}),
    "own-scale-wide": (40, 90, {"standardize": False}),
    "everything": (60, 90, {"unpenalized": [1], "standardize": False, "weights": np.linspace(0.5, 2, 60)}),
    "sigma2": (200, 12, {"sigma2": 0.3}),
}
METHODS = {
    "em": {},
    "exact": {"method": "exact"},
    "loocv": {"method": "loocv"},
    "gcv": {"method": "gcv", "grid": "glmnet"},
    "fixed": {"method": "fixed", "lam": 2.0},
}


def agree(actual, wanted, tolerance=SAME):
    sd = wanted.bse.to_numpy()
    np.testing.assert_allclose(actual.params / sd, wanted.params / sd, atol=tolerance)
    np.testing.assert_allclose(actual.bse, sd, rtol=tolerance)
    assert actual.lambda_ == pytest.approx(wanted.lambda_, rel=10 * tolerance)
    assert actual.sigma2 == pytest.approx(wanted.sigma2, rel=tolerance)
    assert actual.log_marginal == pytest.approx(wanted.log_marginal, rel=tolerance)
    assert actual.df_model == pytest.approx(wanted.df_model, rel=10 * tolerance)
    unit = np.abs(wanted.fittedvalues).max()
    np.testing.assert_allclose(actual.fittedvalues / unit, wanted.fittedvalues / unit, atol=tolerance)
    assert actual.rsquared == pytest.approx(wanted.rsquared, rel=tolerance)


@pytest.mark.filterwarnings("ignore::pybayesridge.GridEdgeWarning")
@pytest.mark.parametrize(("name", "method"), pairs(SETTINGS, METHODS, 2))
def test_like_dense(name, method):
    n, p, settings = SETTINGS[name]
    y, x = problem(n, p)
    res = BayesRidge(y, x, **settings).fit(**METHODS[method])
    wanted = BayesRidge(y, x.toarray(), **settings).fit(**METHODS[method])
    agree(res, wanted)
    unit = np.abs(wanted.loo_residuals).max()
    np.testing.assert_allclose(res.loo_residuals / unit, wanted.loo_residuals / unit, atol=100 * SAME)
    if wanted.grid_scores is not None:
        np.testing.assert_allclose(res.grid, wanted.grid, rtol=SAME)
        np.testing.assert_allclose(res.grid_scores, wanted.grid_scores, rtol=1e3 * SAME)
    sd = wanted.bse.to_numpy()[:, None]
    np.testing.assert_allclose(res.conf_int() / sd, wanted.conf_int() / sd, atol=10 * SAME)
    unit = sd * sd.T
    np.testing.assert_allclose(res.cov_params() / unit, wanted.cov_params() / unit, atol=10 * SAME)


@pytest.mark.parametrize("method", ["em", "exact"])
@pytest.mark.parametrize("name", ["tall", "wide", "unpenalized-wide"])
def test_predictions_for_sparse_and_dense_rows(name, method):
    n, p, settings = SETTINGS[name]
    y, x = problem(n, p)
    res = BayesRidge(y, x, **settings).fit(method)
    wanted = BayesRidge(y, x.toarray(), **settings).fit(method)
    rows = problem(n, p, seed=1)[1][:5]
    frame = wanted.get_prediction(rows.toarray()).summary_frame()
    for given in (rows, rows.tocsc(), rows.toarray()):
        np.testing.assert_allclose(res.get_prediction(given).summary_frame(), frame, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(res.predict(given), frame["mean"], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(wanted.predict(rows), frame["mean"], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix", "csc_matrix", "coo_array"])
def test_kinds_of_sparse(kind):
    y, x = problem(100, 10)
    given = getattr(sparse, kind)(x)
    res = BayesRidge(y, given).fit()
    agree(res, BayesRidge(y, x.toarray()).fit())
    assert res.params.index.tolist() == ["const", *(f"x{j + 1}" for j in range(10))]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool])
def test_dtypes(dtype):
    y, x = problem(100, 10)
    x = (x != 0).astype(dtype) if dtype is bool else (3 * x).astype(dtype)
    y = y + x @ np.arange(10.0)
    agree(BayesRidge(y, x).fit(), BayesRidge(y, x.toarray().astype(float)).fit())


def test_duplicate_entries_are_summed_and_the_input_is_left_alone():
    y, x = problem(100, 10)
    coo = x.tocoo()
    doubled = sparse.coo_array(
        (np.r_[coo.data / 2, coo.data / 2], (np.r_[coo.row, coo.row], np.r_[coo.col, coo.col])), shape=x.shape
    )
    before = x.copy()
    agree(BayesRidge(y, doubled).fit(), BayesRidge(y, x).fit())
    assert (x != before).nnz == 0


def test_many_targets():
    y, x = problem(200, 12)
    both = np.column_stack([y, np.random.default_rng(9).permutation(y) + y])
    for method in ("em", "exact", "gcv"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridEdgeWarning)
            res, wanted = BayesRidge(both, x).fit(method), BayesRidge(both, x.toarray()).fit(method)
        np.testing.assert_allclose(res.params / wanted.bse, wanted.params / wanted.bse, atol=SAME)
        np.testing.assert_allclose(res.bse, wanted.bse, rtol=SAME)


@pytest.mark.parametrize("shape", [(200, 12), (60, 70)])
def test_large_means(shape):
    """Columns of ones with small changes: the rank-one correction alone would cancel all digits."""
    y, x = problem(*shape)
    dense = 1e6 + x.toarray()
    res, wanted = BayesRidge(y, sparse.csr_array(dense)).fit(), BayesRidge(y, dense).fit()
    sd = wanted.bse.iloc[1:]
    np.testing.assert_allclose(res.params.iloc[1:] / sd, wanted.params.iloc[1:] / sd, atol=LARGE_MEANS)
    np.testing.assert_allclose(res.bse.iloc[1:], sd, rtol=LARGE_MEANS)
    np.testing.assert_allclose(res.fittedvalues, wanted.fittedvalues, atol=1e-4)


@pytest.mark.parametrize("shape", [(60, 8), (20, 40)])
def test_columns_that_the_unpenalized_ones_nearly_explain(shape):
    # One row is an outlier in every column: the unpenalised column takes it, and with it most of the others' size.
    n, p = shape
    y, x = problem(n, p, seed=3)
    dense = x.toarray()
    dense[4] = 1e7 * (1 + np.arange(p) / p)
    options = {"unpenalized": [0], "standardize": False}
    wanted = BayesRidge(y, dense, **options).fit()
    found = BayesRidge(y, sparse.csr_array(dense), **options).fit()
    np.testing.assert_allclose(found.lambda_, wanted.lambda_, rtol=LARGE_MEANS)
    np.testing.assert_allclose(found.params, wanted.params, rtol=0, atol=LARGE_MEANS * np.abs(wanted.params).max())


def test_empty_and_constant_columns():
    y, x = problem(100, 6)
    wide = sparse.hstack([x, sparse.csr_array((100, 1)), sparse.csr_array(np.full((100, 1), 2.0))]).tocsr()
    res, wanted = BayesRidge(y, wide).fit(), BayesRidge(y, wide.toarray()).fit()
    assert res.params.index.tolist() == wanted.params.index.tolist()
    np.testing.assert_allclose(res.params, wanted.params, rtol=1e-7, atol=1e-12)
    assert res.params["x7"] == 0
    assert "Constant column(s), coefficient 0: x7" in res.summary().as_text().replace("'", "")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["tocsr", "tocsc"])
def test_missing_values_name_the_column(bad, kind):
    y, x = problem(100, 6)
    x = x.tolil()
    x[17, 3] = bad
    with pytest.raises(ValueError, match="x4"):
        BayesRidge(y, getattr(x, kind)())


def test_missing_response_drops_rows():
    y, x = problem(100, 6)
    y[[4, 9]] = np.nan
    res = BayesRidge(y, x, missing="drop").fit()
    keep = np.isfinite(y)
    agree(res, BayesRidge(y[keep], x.toarray()[keep]).fit())


def test_draws():
    y, x = problem(40, 90)
    res, wanted = BayesRidge(y, x).fit("exact"), BayesRidge(y, x.toarray()).fit("exact")
    draws = res.sample(4000, rng=0)
    sd = wanted.bse
    assert np.abs((draws - wanted.params).mean() / sd).max() < 5 / np.sqrt(4000)


def test_memory():
    """Far below the dense size, at its highest: the Gram matrix and a few vectors over rows."""
    n, p = 50_000, 500
    rng = np.random.default_rng(0)
    x = random_csr(n, p, 0.002, rng)
    y = x @ rng.standard_normal(p) + 0.1 * rng.standard_normal(n)
    dense = n * p * 8
    for method in ("em", "exact"):
        tracemalloc.start()
        res = BayesRidge(y, x).fit(method)
        _ = res.bse, res.fittedvalues, res.conf_int(), res.predict(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < dense / 5


def test_memory_of_leave_one_out():
    n, p = 50_000, 500
    rng = np.random.default_rng(0)
    x = random_csr(n, p, 0.002, rng)
    y = x @ rng.standard_normal(p) + 0.1 * rng.standard_normal(n)
    tracemalloc.start()
    res = BayesRidge(y, x).fit("loocv", grid=np.logspace(4, -4, 9))
    _ = res.loo_mse
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * p * 8 / 2


def test_a_frame_of_sparse_columns_stays_sparse():
    frame = pd.DataFrame(np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [5.0, 5.0], [7.0, 0.0]]), columns=["a", "b"])
    columns = frame.astype(pd.SparseDtype(float, 0.0))
    y = np.array([1.0, 2.0, 0.1, 5.0, 7.2])
    model = BayesRidge(y, columns, unpenalized=["b"])
    assert sparse.issparse(model.data.exog)
    np.testing.assert_array_equal(model.data.exog.toarray(), frame)
    assert model.exog_names == ["const", "a", "b"]
    ours, dense = BayesRidge(y, columns).fit(), BayesRidge(y, frame).fit()
    np.testing.assert_allclose(ours.params, dense.params, rtol=1e-9)
    np.testing.assert_allclose(ours.predict(columns.iloc[:2]), dense.predict(frame.iloc[:2]), rtol=1e-9)
    with pytest.raises(ValueError, match="dense columns"):
        SpikeSlab(y, columns)
