"""Cross-validation against refitting without each row, and against dense hat matrices."""

import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, GridEdgeWarning
from pybayesridge.ridge import given
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.loocv import loo_scores
from pybayesridge.ridge.spectrum import WEAK, rotate, sharpened
from tests.fuzz.linear_algebra import ENOUGH
from tests.fuzz.oracle import Oracle
from tests.problems import CASES, regression

BRUTE = 1e-8
"""Leave-one-out errors, beside the largest; refitting by least squares is good to about 1e-10."""

GCV = 1e-9
"""Scores relative to the dense hat matrix's."""

SAME = 1e-10
"""The same numbers by another path through the package."""

STEEP = 1e-7
"""Scores of columns of condition 1e9 relative to those in long double."""

PENALTIES = np.logspace(10, -10, 100)

LOOCV_CASES = {
    name: CASES[name]
    for name in (
        "tall",
        "wide",
        "square",
        "square-nu",
        "one-column",
        "weights",
        "weights-wide",
        "unpenalized",
        "unpenalized-wide",
        "unpenalized-weights",
        "unpenalized-weights-wide",
        "no-intercept",
        "no-intercept-wide",
        "no-intercept-unpenalized",
        "own-scale",
        "own-scale-wide",
        "own-scale-weights",
    )
}


def left_out(case, lam, rows=None):
    """Errors of predicting each row by a fit without it, the columns' scales being those of all rows."""
    oracle = case.oracle()
    n = len(oracle.y)
    w = np.ones(n) if oracle.weights is None else oracle.weights / oracle.weights.mean()
    both = np.hstack([oracle.z, oracle.x / oracle.scale])
    root = np.sqrt(w)[:, None]
    ridge = np.hstack([np.zeros((oracle.p, oracle.k)), np.sqrt(lam) * np.eye(oracle.p)])
    out = []
    for i in range(n) if rows is None else rows:
        rest = np.arange(n) != i
        a = np.vstack([(root * both)[rest], ridge])
        target = np.r_[(root[:, 0] * oracle.y)[rest], np.zeros(oracle.p)]
        out.append(oracle.y[i] - both[i] @ np.linalg.lstsq(a, target, rcond=1e-15)[0])
    return np.array(out)


def weighted_mse(case, errors):
    return np.average(errors**2, weights=case.weights())


@pytest.fixture(params=LOOCV_CASES, ids=list(LOOCV_CASES))
def case(request):
    return LOOCV_CASES[request.param]


@pytest.mark.parametrize("lam", [1e-10, 1e-4, 1.0, 30.0, 1e10])
def test_residuals_of_rows_left_out(case, lam):
    res = case.results(method="fixed", lam=lam)
    wanted = left_out(case, lam)
    np.testing.assert_allclose(res.loo_residuals, wanted, atol=BRUTE * np.abs(wanted).max())
    assert res.loo_mse == pytest.approx(weighted_mse(case, wanted), rel=BRUTE)


@pytest.mark.parametrize("method", ["em", "exact", "gcv", "loocv"])
def test_residuals_come_with_every_method(method):
    case = CASES["unpenalized-weights-wide"]
    res = case.results(method=method)
    wanted = left_out(case, res.lambda_)
    np.testing.assert_allclose(res.loo_residuals, wanted, atol=BRUTE * np.abs(wanted).max())
    assert res.loo_mse == pytest.approx(weighted_mse(case, wanted), rel=BRUTE)


@pytest.mark.parametrize("name", ["tall", "wide", "weights", "unpenalized-weights-wide", "no-intercept"])
def test_scores_of_every_penalty(name):
    case = LOOCV_CASES[name]
    res = case.results(method="loocv")
    wanted = np.array([weighted_mse(case, left_out(case, lam)) for lam in PENALTIES])
    np.testing.assert_allclose(res.grid, PENALTIES, rtol=1e-14)
    np.testing.assert_allclose(res.grid_scores, wanted, rtol=BRUTE)
    assert res.lambda_ == pytest.approx(PENALTIES[wanted.argmin()], rel=1e-12)
    assert res.loo_mse == pytest.approx(res.grid_scores.min(), rel=SAME)


def test_scores_of_a_coarse_grid(case):
    grid = np.array([1e6, 100.0, 1.0, 1e-3, 1e-9])
    y, x = case.arrays()
    res = BayesRidge(y, x, weights=case.weights(), unpenalized=list(case.unpenalized) or None, **case.options)
    wanted = [weighted_mse(case, left_out(case, lam)) for lam in grid]
    at_edge = int(np.argmin(wanted)) in (0, len(grid) - 1)
    with pytest.warns(GridEdgeWarning) if at_edge else nullcontext():
        fitted = res.fit("loocv", grid=grid)
    np.testing.assert_allclose(fitted.grid_scores, wanted, rtol=BRUTE)


def dense_gcv(case, lam):
    """(RSS / n) / (1 - tr(H) / n)^2; I - H is formed on what Z leaves, so that nothing cancels."""
    oracle = case.oracle()
    n = len(oracle.y)
    outside = np.linalg.qr(oracle.zw, mode="complete")[0][:, oracle.k :]
    a, y = outside.T @ oracle.xw, outside.T @ oracle.yw
    if a.shape[0] > a.shape[1]:
        left = np.eye(len(y)) - a @ np.linalg.solve(a.T @ a + lam * np.eye(a.shape[1]), a.T)
    else:
        left = lam * np.linalg.inv(a @ a.T + lam * np.eye(len(y)))
    return np.sum((left @ y) ** 2) / n / (np.trace(left) / n) ** 2


def test_gcv(case):
    res = case.results(method="gcv")
    wanted = np.array([dense_gcv(case, lam) for lam in PENALTIES])
    # A square Gram matrix that is nearly singular costs the dense inverse digits, not the rotation.
    tolerance = 1e-5 if case.n - 1 <= case.p <= case.n else GCV
    np.testing.assert_allclose(res.grid_scores, wanted, rtol=tolerance)
    assert res.lambda_ == pytest.approx(PENALTIES[wanted.argmin()], rel=1e-12)


def test_gcv_has_its_limit_where_the_penalty_is_next_to_nothing():
    # With as many singular values as rows the score tends to a limit, though all that it is made of vanishes.
    y, x = regression(6, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        scores = BayesRidge(y, x).fit("gcv", grid=[1e-12, 1e-150, 1e-250]).grid_scores
    np.testing.assert_allclose(scores, scores[0], rtol=SAME)


@pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision: no oracle")
@pytest.mark.parametrize("shape", [(11, 10), (12, 12), (9, 14)])
def test_scores_of_steep_columns_that_leave_no_residual(shape):
    rng = np.random.default_rng(5)
    r = min(shape)
    u, v = (np.linalg.qr(rng.standard_normal((m, r)))[0] for m in shape)
    x, y = (u * np.logspace(0, -9, r)) @ v.T, rng.standard_normal(shape[0])
    oracle = Oracle(y[:, None], np.ones((shape[0], 1)), x, constant=0)
    grid = float(oracle.s[0] ** 2) * np.logspace(0, -12, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        scores = BayesRidge(y, x).fit("loocv", grid=grid).grid_scores
    np.testing.assert_allclose(scores, [float(oracle.loo(lam, 0)[0]) for lam in grid], rtol=STEEP)


def far_row(shape, free=0, seed=0):
    """Columns of which one row is a hundred thousand times the others: next to nothing is left of its leverage."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    y = x @ rng.standard_normal(shape[1]) + rng.standard_normal(shape[0])
    x[2] *= 1e5
    z = np.column_stack([np.ones(shape[0]), x[:, :free]])
    oracle = Oracle(y[:, None], z, x[:, free:], constant=0)
    return BayesRidge(y, x, unpenalized=list(range(free)) or None), oracle


@pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision: no oracle")
@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("shape", [(12, 9), (14, 4), (60, 5), (8, 8), (4, 4), (6, 15)])
def test_rows_that_the_others_say_next_to_nothing_of(shape, free):
    for seed in range(5):
        model, oracle = far_row(shape, free, seed)
        grid = np.logspace(2, -9, 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridEdgeWarning)
            scores = model.fit("loocv", grid=grid).grid_scores
        np.testing.assert_allclose(scores, [float(oracle.loo(lam, 0)[0]) for lam in grid], rtol=STEEP)
        fixed = model.fit("fixed", lam=1e-3)
        assert fixed.loo_mse == pytest.approx(float(oracle.loo(1e-3, 0)[0]), rel=STEEP)


@pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision: no oracle")
def test_row_that_has_a_column_of_its_own():
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.standard_normal((20, 3)), np.arange(20) == 4])
    y = rng.standard_normal(20)
    oracle = Oracle(y[:, None], np.ones((20, 1)), x, constant=0)
    grid = np.logspace(0, -12, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        scores = BayesRidge(y, x).fit("loocv", grid=grid).grid_scores
    np.testing.assert_allclose(scores, [float(oracle.loo(lam, 0)[0]) for lam in grid], rtol=STEEP)


def test_gcv_is_loocv_where_all_leverages_are_equal():
    n = 32
    x = np.array([[(-1) ** bin(i & j).count("1") for j in range(1, 6)] for i in range(n)], dtype=float)
    y = x @ np.arange(1.0, 6.0) + np.random.default_rng(0).normal(0, 5, n)
    grid = np.logspace(3, -3, 20)
    loocv, gcv = (BayesRidge(y, x).fit(method, grid=grid) for method in ("loocv", "gcv"))
    np.testing.assert_allclose(loocv.grid_scores, gcv.grid_scores, rtol=1e-12)


# -- grids ---------------------------------------------------------------------------------------------------------


def test_fixed_grid_is_the_default():
    default, fixed = CASES["tall"].results(method="loocv"), CASES["tall"].results(method="loocv", grid="fixed")
    np.testing.assert_allclose(default.grid, fixed.grid, rtol=1e-14)
    np.testing.assert_allclose(default.grid, PENALTIES, rtol=1e-14)


def glmnet_lambdas(y, x, weights=None):
    """glmnet's sequence for alpha = 0, in its own units."""
    n, p = x.shape
    w = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    centred = x - w @ x
    xs = centred / np.sqrt(w @ centred**2)
    yc = y - w @ y
    sd = np.sqrt(w @ yc**2)
    top = np.abs(xs.T @ (w * yc / sd)).max() / 0.001
    return sd * np.geomspace(top, top * (1e-2 if n < p else 1e-4), 100), sd


@pytest.mark.filterwarnings("ignore:the smallest cross-validation score:pybayesridge.GridEdgeWarning")
@pytest.mark.parametrize("name", ["tall", "wide", "weights", "weights-wide", "square"])
def test_glmnet_grid(name):
    case = CASES[name]
    y, x = case.arrays()
    lambdas, sd = glmnet_lambdas(y, x, case.weights())
    grid = case.results(method="gcv", grid="glmnet").grid
    np.testing.assert_allclose(grid, len(y) * lambdas / sd, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:the smallest cross-validation score:pybayesridge.GridEdgeWarning")
def test_glmnet_grid_counts_columns_as_glmnet_does():
    # nobs < nvars decides; constant columns count as columns.
    y, x = regression(10, 10)
    ratio = [g[0] / g[-1] for g in (BayesRidge(y, c).fit("gcv", grid="glmnet").grid for c in (x, x[:, :9]))]
    np.testing.assert_allclose(ratio, 1e4, rtol=1e-9)
    y, x = regression(10, 11)
    grid = BayesRidge(y, x).fit("gcv", grid="glmnet").grid
    assert grid[0] / grid[-1] == pytest.approx(1e2, rel=1e-9)


def test_glmnet_grid_belongs_to_each_target():
    y, x = CASES["tall"].arrays()
    both = np.column_stack([y, np.random.default_rng(0).standard_normal(len(y))])
    res = BayesRidge(both, x).fit("gcv", grid="glmnet")
    assert res.grid.shape == (100, 2)
    assert res.grid_scores.shape == (100, 2)
    for i in range(2):
        one = BayesRidge(both[:, i], x).fit("gcv", grid="glmnet")
        np.testing.assert_allclose(res.grid[:, i], one.grid, rtol=SAME)
        np.testing.assert_allclose(res.grid_scores[:, i], one.grid_scores, rtol=SAME)


def test_grid_of_a_response_without_any_correlation():
    x = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    with pytest.warns(GridEdgeWarning):
        res = BayesRidge(np.array([1.0, 1.0, -1.0, -1.0]), x).fit("loocv", grid="glmnet")
    assert np.isfinite(res.grid).all()


def test_array_grid_in_any_order_and_with_ties():
    case = CASES["tall"]
    y, x = case.arrays()
    model = BayesRidge(y, x)
    grid = np.logspace(3, -3, 13)
    down = model.fit("loocv", grid=grid)
    shuffled = np.random.default_rng(0).permutation(13)
    mixed = model.fit("loocv", grid=list(grid[shuffled]))
    assert mixed.lambda_ == pytest.approx(down.lambda_, rel=SAME)
    np.testing.assert_allclose(mixed.grid_scores, down.grid_scores[shuffled], rtol=1e-13)
    assert model.fit("loocv", grid=np.r_[grid, grid]).lambda_ == pytest.approx(down.lambda_, rel=SAME)


def test_one_penalty_is_no_search():
    y, x = CASES["tall"].arrays()
    res = BayesRidge(y, x).fit("loocv", grid=[2.0])
    assert res.lambda_ == pytest.approx(2.0, rel=1e-14)
    assert res.grid_scores.shape == (1,)


def test_grid_with_least_squares():
    y, x = CASES["tall"].arrays()
    with pytest.warns(GridEdgeWarning):
        res = BayesRidge(y, x).fit("loocv", grid=[1000.0, 0.0])
    both = np.column_stack([np.ones(len(y)), x])
    hat = both @ np.linalg.pinv(both)
    wanted = np.mean(((y - hat @ y) / (1 - np.diag(hat))) ** 2)
    assert res.grid_scores[1] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("method", ["loocv", "gcv"])
def test_edge_of_the_grid(method):
    y, x = CASES["tall"].arrays()
    with pytest.warns(GridEdgeWarning, match="edge of the grid"):
        res = BayesRidge(y, x).fit(method, grid=[1e6, 1e5, 1e4])
    assert res.lambda_ == pytest.approx(1e4)
    assert "edge of the grid" in res.summary().as_text()


def test_edge_names_the_target():
    y, x = CASES["tall"].arrays()
    noise = np.random.default_rng(2).standard_normal(len(y))
    both = pd.DataFrame({"signal": y, "noise": noise})
    with pytest.warns(GridEdgeWarning, match="target 'noise'|target noise"):
        BayesRidge(both, x).fit("gcv", grid=np.logspace(3, -6, 40))


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("wide", "'fixed', 'glmnet' or an array"),
        ([], "not empty"),
        ([[1.0, 2.0]], "one-dimensional"),
        ([1.0, -2.0], r"grid\[1\] is -2.0$"),
        ([np.nan], r"grid\[0\]"),
        ([1.0, np.inf], r"grid\[1\]"),
        (["a"], "an array of penalties"),
    ],
)
def test_bad_grids(grid, message):
    with pytest.raises(ValueError, match=message):
        CASES["tall"].results(method="loocv", grid=grid)


def test_grid_with_zero_needs_independent_columns():
    with pytest.raises(ValueError, match="not linearly independent"):
        CASES["wide"].results(method="loocv", grid=[1.0, 0.0])


# -- leverage 1 ----------------------------------------------------------------------------------------------------


def spiked(n=20):
    y, x = regression(n, 3, seed=3)
    spike = np.zeros(n)
    spike[7] = 1.0
    return y, np.column_stack([x, spike])


@pytest.mark.parametrize("grid", ["fixed", "glmnet"])
def test_row_of_leverage_one_is_named(grid):
    y, x = spiked()
    with pytest.raises(ValueError, match=r"row 7 .*leverage 1"):
        BayesRidge(y, x, unpenalized=[3]).fit("loocv", grid=grid)


def test_leave_one_out_of_a_row_of_leverage_one_is_not_a_number():
    y, x = spiked()
    res = BayesRidge(y, x, unpenalized=[3]).fit()
    assert np.flatnonzero(np.isnan(res.loo_residuals)).tolist() == [7]
    assert np.isnan(res.loo_mse)


def test_penalised_spike_can_be_left_out():
    y, x = spiked()
    res = BayesRidge(y, x).fit("fixed", lam=5.0)
    scale = x.std(axis=0)
    rest = np.arange(20) != 7
    both = np.column_stack([np.ones(20), x / scale])
    normal = both[rest].T @ both[rest] + np.diag([0, 5.0, 5.0, 5.0, 5.0])
    wanted = y[7] - both[7] @ np.linalg.solve(normal, both[rest].T @ y[rest])
    assert res.loo_residuals.iloc[7] == pytest.approx(wanted, rel=1e-10)


# -- many targets --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the smallest cross-validation score:pybayesridge.GridEdgeWarning")
@pytest.mark.parametrize("method", ["loocv", "gcv"])
@pytest.mark.parametrize("name", ["tall", "wide", "unpenalized-weights"])
def test_each_target_has_its_own_penalty(name, method):
    case = CASES[name]
    y, x = case.arrays()
    rng = np.random.default_rng(4)
    both = np.column_stack([y, y + rng.normal(0, 3 * y.std(), len(y)), x[:, 0] + 1e-3 * rng.standard_normal(len(y))])
    settings = {"weights": case.weights(), "unpenalized": list(case.unpenalized) or None}
    grid = np.logspace(8, -8, 60)
    res = BayesRidge(both, x, **settings).fit(method, grid=grid)
    assert len(set(res.lambda_)) > 1
    assert res.grid.shape == (60,)
    assert res.grid_scores.shape == (60, 3)
    for i in range(3):
        one = BayesRidge(both[:, i], x, **settings).fit(method, grid=grid)
        assert res.lambda_.iloc[i] == pytest.approx(one.lambda_, rel=1e-14)
        # Scores are as exact as the largest of them: each is a sum of squares of the response.
        rounding = 1e-14 * one.grid_scores.max()
        np.testing.assert_allclose(res.grid_scores[:, i], one.grid_scores, rtol=SAME, atol=rounding)
        unit = np.abs(one.loo_residuals).max()
        np.testing.assert_allclose(res.loo_residuals.iloc[:, i] / unit, one.loo_residuals / unit, atol=SAME)
        assert res.loo_mse.iloc[i] == pytest.approx(one.loo_mse, rel=SAME)


def test_scale_of_the_response_and_of_the_weights():
    case = CASES["weights"]
    y, x = case.arrays()
    res = BayesRidge(y, x, weights=case.weights()).fit("loocv")
    scaled = BayesRidge(y * 1e150, x, weights=case.weights() * 1e100).fit("loocv")
    assert scaled.lambda_ == pytest.approx(res.lambda_, rel=SAME)
    np.testing.assert_allclose(scaled.loo_residuals / 1e150, res.loo_residuals, rtol=1e-10)


def test_labels_of_left_out_residuals():
    y, x = CASES["tall"].arrays()
    index = pd.Index([f"r{i}" for i in range(len(y))])
    res = BayesRidge(pd.Series(y, index=index, name="t"), pd.DataFrame(x, index=index).add_prefix("x")).fit("gcv")
    assert res.loo_residuals.index.equals(index)


def nearly_square(n, p, least):
    """X of p columns and a response; the smallest squared singular value that counts is about `least`."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (n, p))
    rank = min(n - 1, p)
    left = np.linalg.qr(np.column_stack([np.ones(n), left]))[0][:, 1 : rank + 1]
    x = (left * np.r_[np.linspace(1, 0.3, rank - 3), np.sqrt(least) * np.array([8.0, 3.0, 1.0])]) @ right[:rank]
    return x @ rng.normal(size=p) + 0.1 * rng.normal(size=n), x


@pytest.mark.parametrize(("n", "p"), [(60, 60), (61, 60)])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("least", [5e-7, 1.2e-7])
def test_scores_without_a_residual_need_no_svd(n, p, targets, least):
    y, x = nearly_square(n, p, least)
    y = y if targets == 1 else np.column_stack([y, y[::-1], x[:, 0] + y])
    model = BayesRidge(y, x, standardize=False)
    design, products = model._build()
    spectrum = rotate(design, products)
    assert spectrum.rank == design.nu
    assert WEAK < spectrum.smallest < given.SHARP
    log_t2 = np.linspace(0.0, -np.log(1e-12), 30)[:, None] + np.zeros(targets)
    accurate = rotate_accurately(design)
    shift = 2 * np.log(accurate.top / spectrum.top)
    wanted = loo_scores(design, accurate, log_t2 + shift)
    found = loo_scores(design, sharpened(design, spectrum), log_t2)
    np.testing.assert_allclose(found, wanted, rtol=SAME)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        assert model.fit("loocv").solver == "gram"
