"""The design: Z projected out, weights, scales, and the way back to the user's scale."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import LinAlgError
from scipy.sparse import csc_array

from pybayesridge import BayesRidge
from pybayesridge.design.unpenalized import factorize
from tests.problems import CASES, Case, regression

ORTHOGONAL = 1e-13
"""Inner products with Q, of columns of norm sqrt(n)."""

DENSE = 1e-10
"""The standardised matrix beside dense algebra."""

FAR = 2e-9
"""The same where the columns' means are 1e6 standard deviations."""


def build(case, x=None):
    y, own = case.arrays()
    x = own if x is None else x
    model = BayesRidge(y, x, weights=case.weights(), unpenalized=list(case.unpenalized), **case.options)
    return *model._build(), x


def standardized(design):
    """X itself."""
    return np.hstack([piece for _, piece in design.column_pieces()])


# Without an intercept a large mean is signal.
NEAR_AND_FAR = [(name, False) for name in CASES] + [(name, True) for name, case in CASES.items() if case.intercept]


@pytest.mark.parametrize(("name", "far"), NEAR_AND_FAR)
def test_standardized_matrix(name, far):
    case = CASES[name]
    design, products, x = build(case)
    wanted = case.oracle().xr / design.common_scale
    if far:
        design, products, x = build(case, x + 1e6 * x.std(axis=0))
    standard = standardized(design)
    np.testing.assert_allclose(standard, wanted, rtol=0, atol=(FAR if far else DENSE) * np.abs(wanted).max())
    assert np.abs(design.block.q.T @ standard).max(initial=0) < ORTHOGONAL * (1e6 if far else 10) * case.n
    assert np.abs(design.block.q.T @ design.y).max(initial=0) < ORTHOGONAL
    product = standard.T @ standard if products.side == "gram" else standard @ standard.T
    lower = np.tril_indices(len(product))
    np.testing.assert_allclose(
        products.product[lower], product[lower], rtol=0, atol=(FAR if far else DENSE) * np.abs(product).max()
    )
    if products.xty is not None:
        np.testing.assert_allclose(products.xty, standard.T @ design.y, rtol=0, atol=FAR * np.sqrt(case.n))


@pytest.mark.parametrize("sparse", [False, True])
def test_products_with_x_ignore_what_lies_in_z(sparse):
    # Singular vectors of tiny singular values have a part in Z: the null space of both is nearly one.
    case = CASES["unpenalized-weights-wide"]
    y, x = case.arrays()
    x += 100.0 * x.std(axis=0)
    columns = csc_array(x) if sparse else x
    model = BayesRidge(y, columns, weights=case.weights(), unpenalized=list(case.unpenalized))
    design, _ = model._build()
    v = design.y + 1e-7 * design.block.q.sum(axis=1, keepdims=True)
    found = design.transposed_times(v)
    np.testing.assert_allclose(found, standardized(design).T @ v, rtol=0, atol=DENSE * np.abs(found).max())


@pytest.mark.parametrize("name", CASES)
def test_products_with_x_need_no_x(name):
    design, _, _ = build(CASES[name])
    x = standardized(design)
    rng = np.random.default_rng(0)
    b = rng.normal(size=(design.p, 2))
    np.testing.assert_allclose(design.times(b), x @ b, rtol=0, atol=1e-11 * np.abs(x @ b).max())
    v = design.block.residual(rng.normal(size=(design.n, 2)))
    np.testing.assert_allclose(design.transposed_times(v), x.T @ v, rtol=0, atol=1e-10 * np.abs(x.T @ v).max())
    np.testing.assert_allclose(np.vstack([piece for _, piece in design.row_pieces()]), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_targets_come_back(name):
    case = CASES[name]
    y, _ = case.arrays()
    design, _, _ = build(case)
    assert np.linalg.norm(design.y[:, 0]) == pytest.approx(1, rel=1e-13)
    root = 1.0 if design.block.sqrt_w is None else design.block.sqrt_w
    back = design.y[:, 0] * design.y_norm[0] + root * (design.block.z @ design.y_on_z[:, 0])
    np.testing.assert_allclose(back, root * y, rtol=1e-10, atol=1e-12 * np.abs(y).max())


@pytest.mark.parametrize("name", CASES)
def test_linear_predictor_on_both_scales(name):
    case = CASES[name]
    design, _, x = build(case)
    b = np.random.default_rng(0).normal(size=(design.p, 1)) / design.scale[:, None]
    g = design.coefficients_of_z(b)
    rest = x[:, design.columns]
    direct = design.block.z @ g + rest @ b
    split = design.block.z @ design.y_on_z + design.rows_outside_z(rest, design.block.z) @ (b * design.scale[:, None])
    np.testing.assert_allclose(split, direct, rtol=0, atol=1e-11 * np.abs(direct).max())
    root = 1.0 if design.block.sqrt_w is None else design.block.sqrt_w[:, None]
    np.testing.assert_allclose(
        root * design.rows_outside_z(rest, design.block.z), standardized(design), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("shape", [(50, 4), (12, 30)])
def test_scale_is_the_weighted_standard_deviation(shape):
    case = Case(*shape, weighted=True)
    design, _, x = build(case)
    w = case.weights()
    mean = np.average(x, axis=0, weights=w)
    np.testing.assert_allclose(design.center, mean, rtol=1e-12)
    np.testing.assert_allclose(design.scale, np.sqrt(np.average((x - mean) ** 2, axis=0, weights=w)), rtol=1e-12)


@pytest.mark.parametrize("shape", [(50, 4), (12, 30)])
def test_scale_of_an_unpenalised_problem_ignores_the_unpenalised_columns(shape):
    # The prior is on the standard deviation of a column, not on that of its part outside Z.
    design, _, x = build(Case(*shape, unpenalized=(0,)))
    np.testing.assert_allclose(design.scale, x[:, 1:].std(axis=0), rtol=1e-12)


def test_the_matrix_is_referred_to_and_not_changed():
    y, x = regression(40, 5)
    before = x.copy()
    model = BayesRidge(y, x)
    design, _ = model._build()
    assert np.shares_memory(design.x, x)
    model.fit()
    np.testing.assert_array_equal(x, before)


def test_a_frame_of_one_dtype_is_not_copied():
    y, x = regression(40, 5)
    frame = pd.DataFrame(x)
    assert np.shares_memory(BayesRidge(y, frame).data.exog, frame.to_numpy())


@pytest.mark.parametrize("weighted", [False, True])
def test_unpenalised_block(weighted):
    rng = np.random.default_rng(0)
    z = np.column_stack(
        [rng.normal(size=20), np.full(20, 2.0), 1e8 * rng.normal(size=20), 1e-8 * rng.normal(size=20)]
    )
    root = np.sqrt(rng.uniform(0.5, 3, 20)) if weighted else None
    block = factorize(z, root, ["a", "one", "b", "c"], 1)
    zw = z if root is None else z * root[:, None]
    np.testing.assert_allclose(block.q.T @ block.q, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(block.q @ block.r, zw, rtol=0, atol=1e-14 * np.abs(zw).max(axis=0).max())
    np.testing.assert_allclose((block.q @ block.r)[:, [0, 1, 3]], zw[:, [0, 1, 3]], rtol=1e-9, atol=1e-14)
    assert np.abs(np.tril(block.r, -1)).max() == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(z @ block.ones, 1.0, rtol=1e-12)
    rows = rng.normal(size=(5, 4)) * np.abs(z).max(axis=0)
    wanted = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(zw.T @ zw), rows)
    np.testing.assert_allclose(block.leverage(rows), wanted, rtol=1e-6)


def test_dummies_of_every_level_span_the_constant():
    rng = np.random.default_rng(0)
    dummies = np.eye(3)[rng.integers(0, 3, 40)]
    y, x = regression(40, 4)
    data = np.column_stack([dummies, x])
    model = BayesRidge(y, data, intercept=False, unpenalized=[0, 1, 2])
    res = model.fit()
    with_intercept = BayesRidge(y, data[:, 1:], unpenalized=[0, 1]).fit()
    assert model.k_constant == 1
    assert res.lambda_ == pytest.approx(with_intercept.lambda_, rel=1e-9)
    np.testing.assert_allclose(res.fittedvalues, with_intercept.fittedvalues, rtol=1e-8)
    np.testing.assert_allclose(res.params.iloc[3:], with_intercept.params.iloc[3:], rtol=1e-8)
    assert res.df_model == pytest.approx(with_intercept.df_model, rel=1e-9)
    assert res.rsquared == pytest.approx(with_intercept.rsquared, rel=1e-9)


@pytest.mark.parametrize("extra", ["copy", "sum", "tiny"])
def test_collinear_unpenalised_columns_are_named(extra):
    y, x = regression(30, 4)
    more = {"copy": x[:, 0], "sum": x[:, 0] + 2 * x[:, 1] + 3, "tiny": x[:, 0] * 1e-200}[extra]
    frame = pd.DataFrame(np.column_stack([x, more]), columns=["a", "b", "c", "d", "again"])
    model = BayesRidge(y, frame, unpenalized=["a", "b", "again"])
    with pytest.raises(ValueError, match=r"unpenalised column\(s\) '(again|a|b)' are linear combinations"):
        model.fit()


def test_more_unpenalised_columns_than_rows():
    y, x = regression(4, 6)
    with pytest.raises(ValueError, match=r"6 unpenalised columns \(the intercept among them\) for 4 rows"):
        BayesRidge(y, x, unpenalized=[0, 1, 2, 3, 4]).fit()


def test_the_kept_intercept_is_that_of_any_other_constant():
    kept, computed = (factorize(np.full((40, 1), value), None, ["const"], 0) for value in (1.0, 2.0))
    assert factorize(np.ones((40, 1)), None, ["const"], 0) is kept
    np.testing.assert_allclose(kept.q, computed.q, rtol=ORTHOGONAL)
    np.testing.assert_allclose(kept.r, computed.r / 2, rtol=ORTHOGONAL)
    np.testing.assert_allclose(kept.ones, 2 * computed.ones, rtol=ORTHOGONAL)
    with pytest.raises(ValueError, match="read-only"):
        kept.q[0] = 0.0
    assert factorize(np.ones((41, 1)), None, ["const"], 0).q.shape == (41, 1)
    assert factorize(np.ones((40, 1)), np.full(40, 2.0), ["const"], 0) is not kept


@pytest.mark.parametrize("order", ["C", "F"])
def test_regression_on_the_unpenalised_block(order):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(30, 3))
    block = factorize(z, None, list("abc"), None)
    block = replace(block, r=np.asarray(block.r, order=order))
    a = rng.normal(size=(30, 2))
    slopes = np.linalg.lstsq(z, a, rcond=None)[0]
    np.testing.assert_allclose(block.regress(block.q.T @ a), slopes, rtol=0, atol=ORTHOGONAL)
    assert block.regress(np.empty((3, 0))).shape == (3, 0)
    for missing in (np.empty((0, 0)), np.diag([1.0, 0.0, 1.0])):
        with pytest.raises(LinAlgError, match="not there, or is singular"):
            replace(block, r=missing).regress(block.q.T @ a)
