"""Arrays in unusual clothes: masked, stored twice, matrices; they say what plain arrays say."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, Moments, SpikeSlab, polynomial_features
from pybayesridge.data.arrays import is_finite

EQUAL = 1e-10
N = 40
MODELS = [BayesRidge, SpikeSlab]


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(N, 3))


@pytest.fixture
def y(x):
    return x @ [1.0, -2.0, 0.5] + 0.3 * np.random.default_rng(1).normal(size=N)


def hidden(a, *at):
    """A masked array with nonsense under the mask, and the same with NaN."""
    mask = np.zeros(a.shape, dtype=bool)
    for i in at:
        mask[i] = True
    nan = None if a.dtype.kind == "U" else np.where(mask, np.nan, a.astype(float))
    return np.ma.masked_array(np.where(mask, "w" if a.dtype.kind == "U" else 99, a).astype(a.dtype), mask=mask), nan


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("where", ["exog", "endog", "weights"])
def test_masked_values_are_missing(where, model, x, y):
    given = {"exog": x, "endog": y, "weights": np.linspace(1, 2, N)}
    masked, nan = hidden(given[where], *([(3, 1), (7, 0)] if where == "exog" else [3, 7]))
    made = model(**given | {where: masked}, missing="drop")
    wanted = model(**given | {where: nan}, missing="drop")
    assert (made.nobs, made.data.n_dropped) == (N - 2, 2)
    pd.testing.assert_series_equal(made.fit().params, wanted.fit().params, rtol=EQUAL)
    names = {"exog": "x", "endog": "y", "weights": "weights"}[where]
    with pytest.raises(ValueError, match=names):
        model(**given | {where: masked})


@pytest.mark.parametrize("dtype", ["int8", "int64", "bool", "float32", "object"])
def test_masks_of_every_type(dtype, x, y):
    column = (x > 0).astype(dtype)
    masked, nan = hidden(column, (0, 0))
    made, wanted = BayesRidge(y, masked, missing="drop"), BayesRidge(y, nan, missing="drop")
    np.testing.assert_array_equal(made.exog.astype(float), wanted.exog)
    assert BayesRidge(y, np.ma.masked_array(column)).nobs == N


@pytest.mark.parametrize("call", ["predict", "get_prediction"])
def test_masked_new_rows_give_nan(call, x, y):
    res = BayesRidge(y, x).fit()
    masked, nan = hidden(x[:4], (1, 2))
    if call == "predict":
        np.testing.assert_allclose(res.predict(masked), res.predict(nan), rtol=EQUAL)
    else:
        frames = [res.get_prediction(rows).summary_frame() for rows in (masked, nan)]
        pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize("kind", ["dict", "records"])
def test_masked_columns_of_a_formula(kind, x, y):
    a, nan = hidden(x[:, 0], 5)
    k, _ = hidden((x[:, 1] > 0).astype("int8"), 6)
    g, _ = hidden(np.where(x[:, 2] > 0, "u", "v"), 7)
    u, _ = hidden(x[:, 1] > 0.5, 8)
    data = {"a": a, "k": k, "g": g, "u": u, "y": np.ma.masked_array(y)}
    if kind == "records":
        types = [(name, v.dtype) for name, v in data.items()]
        records = np.ma.zeros(N, dtype=types)
        for name, v in data.items():
            records[name] = v
        data = records
    model = BayesRidge.from_formula("y ~ a + C(k) + g + u", data)
    frame = pd.DataFrame({"a": nan, "k": (x[:, 1] > 0).astype(int), "g": np.where(x[:, 2] > 0, "u", "v")})
    frame = frame.assign(u=x[:, 1] > 0.5, y=y).drop(index=[5, 6, 7, 8])
    wanted = BayesRidge.from_formula("y ~ a + C(k) + g + u", frame)
    assert model.data.n_dropped == 4
    assert model.data.exog_columns == wanted.data.exog_columns
    np.testing.assert_allclose(model.data.exog.astype(float), wanted.data.exog.astype(float))


def test_masks_in_moments_and_expansions(x, y):
    masked, nan = hidden(x, (2, 1))
    made, wanted = (Moments.from_arrays(y, rows, missing="drop") for rows in (masked, nan))
    np.testing.assert_allclose(made.xx, wanted.xx, rtol=EQUAL)
    assert made.n_dropped == 1
    with pytest.raises(ValueError, match=r"'x2' \(1 NaN\)"):
        Moments.from_arrays(y, masked)
    pd.testing.assert_frame_equal(polynomial_features(masked, 2), polynomial_features(nan, 2))


def test_masked_chunks_of_dask_arrays(x, y):
    array = pytest.importorskip("dask.array")
    masked, nan = hidden(x, (2, 1))
    fits = [
        BayesRidge.from_dask(
            array.from_array(rows, chunks=(10, 3)), endog=array.from_array(y, 10), missing="drop"
        ).fit()
        for rows in (masked, nan)
    ]
    pd.testing.assert_series_equal(fits[0].params, fits[1].params, rtol=EQUAL)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_na_among_objects_and_numpy_matrices(x, y):
    objects = x.astype(object)
    objects[3, 1] = pd.NA
    assert BayesRidge(y, objects, missing="drop").nobs == N - 1
    made = BayesRidge(np.asmatrix(y).T, np.asmatrix(x)).fit()
    pd.testing.assert_series_equal(made.params, BayesRidge(y, x).fit().params, rtol=EQUAL)


def doubled(x, dtype=float):
    """CSC with each entry stored as two halves, rows not in order, and stored zeros."""
    parts = [sparse.coo_matrix(x * share) for share in (0.25, 0.75)]
    row, col = (np.concatenate([getattr(p, what) for p in parts]) for what in ("row", "col"))
    data = np.concatenate([p.data for p in parts])
    order = np.lexsort((-row, col))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(col, minlength=x.shape[1]))])
    return sparse.csc_matrix((data[order].astype(dtype), row[order], indptr), shape=x.shape)


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
@pytest.mark.parametrize("kind", [sparse.csc_matrix, sparse.csc_array])
def test_entries_stored_twice_are_added(kind, form, x, y):
    rng = np.random.default_rng(2)
    dense = np.column_stack([x, rng.random(N) < 0.5, np.zeros(N)])
    twice = kind(doubled(dense)).asformat(form) if form != "coo" else _coo_with_duplicates(dense)
    before = [a.copy() for a in (twice.data, *(getattr(twice, n) for n in ("indices", "indptr") if form != "coo"))]
    made, wanted = BayesRidge(y, twice), BayesRidge(y, sparse.csc_matrix(dense))
    assert made.data.const_idx is None
    pd.testing.assert_series_equal(made.fit().params, wanted.fit().params, rtol=EQUAL)
    res = wanted.fit()
    np.testing.assert_allclose(res.predict(twice), res.predict(dense), rtol=EQUAL)
    after = (twice.data, *(getattr(twice, n) for n in ("indices", "indptr") if form != "coo"))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def _coo_with_duplicates(dense):
    parts = [sparse.coo_matrix(dense * share) for share in (0.25, 0.75)]
    ij = [np.concatenate([getattr(p, what) for p in parts]) for what in ("row", "col")]
    return sparse.coo_matrix((np.concatenate([p.data for p in parts]), tuple(ij)), shape=dense.shape)


def test_a_dummy_of_two_halves_is_no_intercept(y):
    y = y + 5.0 * (np.arange(N) < N // 2)
    dummy = (np.arange(N) < N // 2).astype(float)[:, None]
    rows = np.repeat(np.arange(N // 2), 2)
    halves = sparse.csc_matrix((np.full(N, 0.5), rows, [0, N]), shape=(N, 1))
    made, wanted = BayesRidge(y, halves), BayesRidge(y, dummy)
    assert made.data.intercept_name == "const"
    pd.testing.assert_series_equal(made.fit().params, wanted.fit().params, rtol=EQUAL)


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
def test_small_integers_stored_twice_do_not_wrap(form, y):
    rows, half = np.repeat(np.arange(N), 2), np.arange(1, N + 1)
    values = np.repeat(half + 60, 2).astype("int8")
    twice = sparse.coo_matrix((values, (rows, np.zeros(2 * N, dtype=int))), shape=(N, 1))
    if form == "csc":
        twice = sparse.csc_matrix((values, rows, [0, 2 * N]), shape=(N, 1))
    elif form == "csr":
        twice = sparse.csr_matrix((values, np.zeros(2 * N, dtype=int), 2 * np.arange(N + 1)), shape=(N, 1))
    np.testing.assert_allclose(BayesRidge(y, twice).data.exog.toarray()[:, 0], 2 * (half + 60))


def test_stored_zeros(y):
    zeros = sparse.csc_matrix((np.zeros(3), [0, 1, 2], [0, 3]), shape=(N, 1))
    full = sparse.hstack([zeros, sparse.csc_matrix(y[:, None] + np.sin(np.arange(N))[:, None])], format="csc")
    model = BayesRidge(y, full)
    assert full.nnz == N + 3
    res = model.fit()
    assert res.params["x1"] == pytest.approx(0.0, abs=1e-300)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("call", ["predict", "get_prediction"])
def test_infinite_new_rows_are_refused(call, model, x, y):
    res = model(y, pd.DataFrame(x, columns=["a", "b", "c"])).fit()
    new = x[:3].copy()
    new[1, 1] = np.inf
    new[2, 0] = np.nan
    with pytest.raises(ValueError, match=r"infinite values in column\(s\) 'b' \(1 infinite\)"):
        getattr(res, call)(new)
    formula = model.from_formula("y ~ a + I(a * b)", pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y)).fit()
    with pytest.raises(ValueError, match=r"infinite values in column\(s\) 'I\(a \* b\)'"):
        getattr(formula, call)({"a": [0.5, 1.0], "b": [1.0, -np.inf]})


def test_infinite_sparse_new_rows_are_refused(x, y):
    new = sparse.csr_matrix(np.where(np.arange(9).reshape(3, 3) == 4, np.inf, 0.0))
    with pytest.raises(ValueError, match=r"'x2' \(1 infinite\)"):
        BayesRidge(y, x).fit().predict(new)


@pytest.mark.parametrize("flag", [True, np.True_, [True]])
def test_truth_values_are_no_numbers(flag, x, y):
    with pytest.raises(ValueError, match="lam must be a number"):
        BayesRidge(y, x).fit("fixed", lam=flag)
    for name in ("sigma2",):
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            BayesRidge(y, x, **{name: flag})
    with pytest.raises(ValueError, match="prior_inclusion must be a probability"):
        SpikeSlab(y, x, prior_inclusion=flag)
    for name in ("slab_var", "noise_var"):
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            SpikeSlab(y, x, **{name: flag})
    with pytest.raises(ValueError, match="tol must be a positive number"):
        BayesRidge(y, x).fit(tol=flag)


def test_leave_one_out_names_the_label_of_the_row(x, y):
    frame = pd.DataFrame(np.column_stack([x, np.arange(N) == 30]), columns=["a", "b", "c", "alone"])
    frame.index = [f"row{i}" for i in range(N)]
    frame.iloc[3, 0] = np.nan
    model = BayesRidge(y, frame, unpenalized=["alone"], missing="drop")
    with pytest.raises(ValueError, match="row 'row30' is fitted exactly"):
        model.fit("loocv")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "largest", 1.0])
def test_whether_all_values_are_finite(value, order, dtype):
    x = np.ones((9, 4), dtype=dtype)
    # Two of the largest numbers have no finite sum, and are finite.
    x[[3, 5], 2] = np.finfo(dtype).max if value == "largest" else value
    x[5, 2] *= -1
    laid_out = x[::2, ::2] if order == "strided" else np.array(x, order=order)
    assert is_finite(laid_out) == bool(np.isfinite(laid_out).all())
