"""Columns of every type, memory layout, size and mean, constant ones among them."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pybayesridge import BayesRidge, PrecisionWarning, SpikeSlab
from tests.oracle import Oracle
from tests.problems import CASES, regression
from tests.test_bayes_ridge import MODE, SAME_ARITHMETIC, relative

LARGE_MEAN = 1e-8
"""Columns of mean 1e6 sd: the input itself has lost six digits."""

SVD_ROUTE = 1e-6
"""Nearly singular problems, where the oracle's normal equations have few digits left."""

DTYPES = ["float32", "int64", "int8", "uint8", "bool", "float16", "longdouble"]


@pytest.mark.parametrize("shape", [(60, 5), (20, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_columns(shape, dtype):
    rng = np.random.default_rng(2)
    x = (rng.integers(0, 2, shape) if dtype == "bool" else rng.integers(0, 100, shape)).astype(dtype)
    y = x[:, :3].astype(float) @ [1.0, -2.0, 1.5] + x[:, 0].std() * rng.normal(size=shape[0])
    narrow = BayesRidge(y, x).fit()
    wide = BayesRidge(y, x.astype(np.float64)).fit()
    assert narrow.lambda_ == pytest.approx(wide.lambda_, rel=SAME_ARITHMETIC * 100)
    assert (np.abs(narrow.params - wide.params) / wide.bse).max() < SAME_ARITHMETIC * 100
    assert relative(narrow.fittedvalues, wide.fittedvalues) < SAME_ARITHMETIC * 10
    np.testing.assert_allclose(narrow.bse, wide.bse, rtol=SAME_ARITHMETIC * 100)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_dtype_of_endog(dtype):
    _, x = regression(40, 3)
    y = (x[:, 0] + np.random.default_rng(0).normal(size=40) > x[:, 0].mean()).astype(dtype)
    narrow, wide = BayesRidge(y, x).fit(), BayesRidge(y.astype(float), x).fit()
    np.testing.assert_allclose(narrow.params, wide.params, rtol=SAME_ARITHMETIC * 100)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "view of more columns": lambda x: np.column_stack([x, x])[:, : x.shape[1]],
    "view of every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "view of every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed twice": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "transposed view": lambda x: np.asfortranarray(np.vstack([x, x]))[: len(x)],
    "list": lambda x: x.tolist(),
    "frame": pd.DataFrame,
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
    "big-endian": lambda x: x.astype(">f8"),
}


@pytest.mark.parametrize("options", [{}, {"unpenalized": [1]}], ids=["intercept", "unpenalized"])
@pytest.mark.parametrize("shape", [(600, 5), (20, 45)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout(layout, shape, options):
    y, x = regression(*shape, seed=1)
    x = np.ascontiguousarray(x)
    given = LAYOUTS[layout](x)
    before = np.array(given)
    res, plain = (BayesRidge(y, a, **options).fit() for a in (given, x))
    np.testing.assert_array_equal(np.array(given), before)
    assert res.lambda_ == pytest.approx(plain.lambda_, rel=SAME_ARITHMETIC * 100)
    assert (np.abs(np.asarray(res.params) - plain.params.to_numpy()) / plain.bse.to_numpy()).max() < 1e-10
    np.testing.assert_allclose(res.bse, plain.bse, rtol=1e-10)


def test_blocks_of_rows_and_columns_give_what_one_block_gives(monkeypatch):
    import pybayesridge.linalg.blocks as blocks

    cases = [
        CASES[name] for name in ("tall", "wide", "unpenalized-weights", "unpenalized-weights-wide", "no-intercept")
    ]
    whole = [case.results() for case in cases]
    monkeypatch.setattr(blocks, "MIN_BLOCK", 7)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8)
    for case, res in zip(cases, whole, strict=True):
        pieces = case.results()
        assert pieces.lambda_ == pytest.approx(res.lambda_, rel=1e-10)
        assert (np.abs(pieces.params - res.params) / res.bse).max() < 1e-10
        np.testing.assert_allclose(pieces.bse, res.bse, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(3000, 5), (20, 45)])
@pytest.mark.parametrize("ratio", [1e3, 1e6, -1e6])
def test_large_means_of_columns(shape, ratio, weighted):
    y, x = regression(*shape, seed=1)
    w = np.random.default_rng(0).uniform(1, 3, shape[0]) if weighted else None
    shifted = x + ratio * x.std(axis=0)
    # What is left of x after the shift has been rounded.
    rounded = shifted - ratio * x.std(axis=0)
    res = BayesRidge(y, shifted, weights=w).fit()
    plain = BayesRidge(y, rounded, weights=w).fit()
    assert res.lambda_ == pytest.approx(plain.lambda_, rel=LARGE_MEAN)
    slopes = res.params.iloc[1:] - plain.params.iloc[1:]
    assert (np.abs(slopes) / plain.bse.iloc[1:]).max() < LARGE_MEAN
    np.testing.assert_allclose(res.bse.iloc[1:], plain.bse.iloc[1:], rtol=LARGE_MEAN)
    assert relative(res.fittedvalues, plain.fittedvalues) < LARGE_MEAN
    frame = res.get_prediction(shifted[:5]).summary_frame()
    wanted = plain.get_prediction(rounded[:5]).summary_frame()
    assert (np.abs(frame - wanted).max(axis=1) / wanted["mean_se"]).max() < LARGE_MEAN


def test_large_mean_of_y():
    y, x = regression(50, 4)
    shifted = y + 1e8 * y.std()
    rounded = shifted - 1e8 * y.std()
    res, plain = BayesRidge(shifted, x).fit(), BayesRidge(rounded, x).fit()
    assert res.lambda_ == pytest.approx(plain.lambda_, rel=LARGE_MEAN)
    assert (np.abs(res.params - plain.params).iloc[1:] / plain.bse.iloc[1:]).max() < LARGE_MEAN


def test_nearly_collinear_columns_fall_back_to_the_svd():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 3))
    x[:, 2] = x[:, 0] + 1e-6 * rng.standard_normal(60)
    y = x @ [1.0, 2.0, -3.0] + 1e-2 * rng.standard_normal(60)
    res = BayesRidge(y, x).fit(method="fixed", lam=1e-12)
    assert res.solver == "svd"
    # The mean is the minimum of an augmented least-squares problem, which QR solves without squaring X.
    sd = x.std(axis=0)
    s = (x - x.mean(axis=0)) / sd
    q, r = np.linalg.qr(np.vstack([s, 1e-6 * np.eye(3)]))
    b = np.linalg.solve(r, q.T @ np.r_[y - y.mean(), np.zeros(3)])
    np.testing.assert_allclose(res.params.iloc[1:], b / sd, rtol=SVD_ROUTE)
    sigma2 = (np.sum((y - y.mean() - s @ b) ** 2) + 1e-12 * np.sum(b**2)) / 57
    np.testing.assert_allclose(res.sigma2, sigma2, rtol=SVD_ROUTE)
    wanted = np.sqrt(sigma2 * np.sum(np.linalg.inv(r) ** 2, axis=1)) / sd
    np.testing.assert_allclose(res.bse.iloc[1:], wanted, rtol=SVD_ROUTE)


def test_tiny_mode_falls_back_to_the_svd():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 4))
    x[:, 3] = x[:, 0] + 1e-5 * rng.standard_normal(50)
    y = x @ [1.0, 2.0, 3.0, 4.0] + 1e5 * (x[:, 3] - x[:, 0]) + 1e-6 * rng.standard_normal(50)
    with pytest.warns(PrecisionWarning, match="Rounding errors limit this fit"):
        res = BayesRidge(y, x).fit()
    assert res.solver == "svd"
    assert res.converged
    least_squares = np.linalg.lstsq(sm.add_constant(x), y, rcond=None)[0]
    np.testing.assert_allclose(res.params, least_squares, rtol=1e-4, atol=1e-4)


def test_duplicated_columns_share_a_coefficient():
    y, x = regression(40, 4)
    res = BayesRidge(y, np.column_stack([x, x[:, 1], x[:, 1]]), prior="half-cauchy").fit("em")
    oracle = Oracle(y, np.ones((40, 1)), np.column_stack([x, x[:, 1], x[:, 1]]))
    assert abs(np.log(res.tau2) - oracle.mode()) < MODE
    np.testing.assert_allclose(res.params[["x5", "x6"]], res.params["x2"], rtol=1e-9)
    wanted = oracle.rss(np.log(res.tau2)) / 41 * oracle.unit_covariance(res.lambda_)
    np.testing.assert_allclose(res.bse, np.sqrt(np.diag(wanted)), rtol=1e-9)


@pytest.mark.parametrize("shape", [(40, 4), (15, 30)])
@pytest.mark.parametrize(
    ("value", "how"), [(0.0, "exactly"), (5.0, "exactly"), (1e30, "exactly"), (5.0, "nearly"), (1e30, "nearly")]
)
def test_constant_column_next_to_an_intercept(shape, value, how):
    y, x = regression(*shape, seed=2)
    flat = np.full(shape[0], value)
    if how == "nearly":
        flat[::2] = np.nextafter(value, np.inf)
    frame = pd.DataFrame(np.column_stack([np.ones(shape[0]), x, flat]))
    frame.columns = ["one", *(f"v{i}" for i in range(shape[1])), "flat"]
    res = BayesRidge(y, frame).fit()
    plain = BayesRidge(y, x).fit()
    assert list(res.params.index) == list(frame.columns)
    assert (res.params["flat"], res.bse["flat"]) == (0.0, 0.0)
    assert (res.conf_int().loc["flat"] == 0).all()
    np.testing.assert_allclose(res.params.iloc[:-1], plain.params, rtol=1e-10)
    np.testing.assert_allclose(res.bse.iloc[:-1], plain.bse, rtol=1e-10)
    text = str(res.summary())
    assert "Constant column(s), coefficient 0: 'flat'" in text
    assert "'one' serves as the intercept" in text
    np.testing.assert_allclose(res.predict(frame.iloc[:3]), plain.predict(x[:3]), rtol=1e-10)


@pytest.mark.parametrize("prepend", [True, False])
@pytest.mark.parametrize("shape", [(40, 4), (15, 30)])
def test_add_constant_serves_as_the_intercept(shape, prepend):
    y, x = regression(*shape, seed=2)
    res = BayesRidge(y, sm.add_constant(x, prepend=prepend)).fit()
    plain = BayesRidge(y, x).fit()
    at = 0 if prepend else shape[1]
    assert res.params.index[at] == "const"
    assert list(np.delete(res.params.index, at)) == list(plain.params.index[1:])
    order = [at, *np.delete(np.arange(shape[1] + 1), at)]
    np.testing.assert_allclose(res.params.iloc[order], plain.params, rtol=1e-10)
    np.testing.assert_allclose(res.cov_params().iloc[order, order], plain.cov_params(), rtol=1e-8, atol=1e-12)
    assert res.df_model == pytest.approx(plain.df_model)
    new = regression(3, shape[1], seed=11)[1]
    np.testing.assert_allclose(
        res.get_prediction(sm.add_constant(new, prepend=prepend, has_constant="add")).summary_frame(),
        plain.get_prediction(new).summary_frame(),
        rtol=1e-10,
    )


def test_users_constant_need_not_be_one():
    y, x = regression(30, 2)
    res = BayesRidge(y, np.column_stack([x, np.full(30, 2.5)])).fit()
    plain = BayesRidge(y, x).fit()
    assert list(res.params.index) == ["x1", "x2", "const"]
    np.testing.assert_allclose(res.params["const"] * 2.5, plain.params["const"], rtol=1e-10)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("arguments", [{}, {"standardize": False}, {"unpenalized": ["const"]}])
def test_an_intercept_that_is_added_whatever_there_is(model, arguments):
    y, x = regression(40, 4, seed=2)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(const=1.0, flat=5.0)
    res = model(y, frame, intercept="add", **arguments).fit()
    plain = model(y, x, standardize=arguments.get("standardize", True)).fit()
    assert list(res.params.index) == ["Intercept", *frame.columns]
    for values in (res.params, res.bse, res.conf_int()[0], res.conf_int()[1]):
        assert (values[["const", "flat"]] == 0).all()
    np.testing.assert_allclose(res.params.iloc[:5], plain.params, rtol=1e-9)
    np.testing.assert_allclose(res.bse.iloc[:5], plain.bse, rtol=1e-9)
    assert "Constant column(s), coefficient 0: 'const', 'flat'" in str(res.summary())
    other = frame.assign(const=3.0, flat=-2.0)
    np.testing.assert_allclose(
        res.get_prediction(other).summary_frame(), plain.get_prediction(x).summary_frame(), rtol=1e-8
    )
    for bad in ("always", None, 1):
        with pytest.raises(ValueError, match="intercept must be True, False or 'add'"):
            model(y, x, intercept=bad)


def test_constant_column_without_intercept_is_a_column_like_others():
    y, x = regression(30, 3)
    with_flat = np.column_stack([x, np.full(30, 2.0)])
    res = BayesRidge(y, with_flat, intercept=False, standardize=False, prior="half-cauchy").fit("em")
    oracle = Oracle(y, np.empty((30, 0)), with_flat, standardize=False)
    assert abs(np.log(res.tau2) - oracle.mode()) < MODE
    np.testing.assert_allclose(res.params, oracle.coefficients(res.lambda_), rtol=1e-9)
