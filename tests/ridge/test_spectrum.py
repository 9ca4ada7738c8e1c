"""The three routes of the rotation: they agree with an SVD and with each other, and hold no copy of X."""

import tracemalloc

import numpy as np
import pytest

from pybayesridge import BayesRidge
from pybayesridge.ridge import accurate as accurate_rotation
from pybayesridge.ridge import spectrum as rotation
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.spectrum import rotate
from tests.effort import pairs
from tests.problems import CASES, regression

WELL_CONDITIONED = 1e-11
"""Singular values and projections beside LAPACK's SVD of the dense matrix."""

ROUTES = 1e-9
"""Whole fits by different routes; in log lambda, and coefficients beside their standard deviation."""

ORTHONORMAL = 1e-13
"""Inner products of singular vectors with each other and with Z."""

SHARE_OF_X = 0.6
"""Peak of what a fit allocates, beside X itself: no copy of it."""

SHARE_WITH_INTERVALS = 0.8
"""The same with the intervals of the exact posterior, which take one block of nodes × coefficients."""


def parts(name):
    case = CASES[name]
    y, x = case.arrays()
    model = BayesRidge(y, x, weights=case.weights(), unpenalized=list(case.unpenalized), **case.options)
    return case, *model._build()


def dense(case):
    """Weighted, scaled X with Z projected out, and y likewise with norm 1."""
    oracle = case.oracle()
    return oracle.xr, oracle.yr / np.linalg.norm(oracle.yr)


@pytest.mark.parametrize("route", ["products", "accurate"])
@pytest.mark.parametrize("name", CASES)
def test_singular_values_and_projections(name, route):
    case, design, products = parts(name)
    spectrum = rotate(design, products) if route == "products" else rotate_accurately(design)
    x, y = dense(case)
    u, s, vt = np.linalg.svd(x / design.common_scale, full_matrices=False)
    rank = min(design.p, design.nu)
    assert spectrum.rank == rank
    assert spectrum.solver == (("gram" if case.n >= design.p else "dual") if route == "products" else "svd")
    assert spectrum.top == pytest.approx(s[0], rel=WELL_CONDITIONED)
    np.testing.assert_allclose(spectrum.s, s[:rank] / s[0], rtol=0, atol=WELL_CONDITIONED)
    np.testing.assert_allclose(np.abs(spectrum.z[:, 0]), np.abs(u.T @ y)[:rank], rtol=0, atol=1e-9)
    outside = y - u[:, :rank] @ (u[:, :rank].T @ y)
    assert spectrum.rss0[0] == pytest.approx(outside @ outside, abs=1e-10)
    # V: rows of X are U S V', and coefficients are V a.
    rows = np.random.default_rng(0).normal(size=(3, design.p))
    inside = np.linalg.norm(rows @ vt[:rank].T, axis=1)
    np.testing.assert_allclose(np.linalg.norm(spectrum.project_rows(design, rows), axis=1), inside, rtol=1e-9)
    a = np.random.default_rng(1).normal(size=(rank, 2))
    b = spectrum.standardized_coefficients(design, a)
    np.testing.assert_allclose(np.linalg.norm(b, axis=0), np.linalg.norm(a, axis=0), rtol=1e-9)
    right = np.vstack([piece for _, piece in spectrum.right_pieces(design)])
    np.testing.assert_allclose(right @ a, b, rtol=0, atol=1e-9)
    np.testing.assert_allclose(right.T @ right, np.eye(rank), rtol=0, atol=1e-9)
    np.testing.assert_allclose(spectrum.with_right(design).right, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_svd_route_fits_the_same(name, monkeypatch):
    case = CASES[name]
    plain = case.results()
    monkeypatch.setattr(rotation.Spectrum, "trusts", lambda self, penalty: self.solver == "svd")
    accurate = case.results()
    assert accurate.solver == "svd"
    assert abs(np.log(accurate.lambda_ / plain.lambda_)) < ROUTES
    assert (np.abs(accurate.params - plain.params) / plain.bse).max() < ROUTES
    np.testing.assert_allclose(accurate.bse, plain.bse, rtol=ROUTES)
    unit = np.outer(plain.bse, plain.bse)
    np.testing.assert_allclose(accurate.cov_params() / unit, plain.cov_params() / unit, rtol=0, atol=ROUTES)
    rows = regression(3, case.p, seed=9)[1]
    np.testing.assert_allclose(
        accurate.get_prediction(rows).summary_frame(), plain.get_prediction(rows).summary_frame(), rtol=1e-7
    )


@pytest.mark.parametrize("options", [{}, {"weights": True}, {"unpenalized": ["x2"]}, {"standardize": False}])
def test_gram_and_dual_fit_the_same(options):
    y, x = regression(30, 12, seed=1)
    options = options | ({"weights": np.random.default_rng(2).uniform(1, 4, 30)} if "weights" in options else {})
    # Columns of zeros change nothing but the shape, by which the route is chosen.
    gram = BayesRidge(y, x, **options).fit()
    dual = BayesRidge(y, np.hstack([x, np.zeros((30, 25))]), **options).fit()
    assert (gram.solver, dual.solver) == ("gram", "dual")
    assert abs(np.log(gram.lambda_ / dual.lambda_)) < ROUTES
    assert (np.abs(dual.params.iloc[:13] - gram.params) / gram.bse).max() < ROUTES
    np.testing.assert_allclose(dual.bse.iloc[:13], gram.bse, rtol=ROUTES)
    assert (dual.params.iloc[13:] == 0).all()


@pytest.mark.parametrize("shape", [(40, 6), (40, 60)])
def test_rank_is_numerical(shape):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(shape[0], 4)) @ rng.normal(size=(4, shape[1]))
    y = x @ rng.normal(size=shape[1]) + rng.normal(size=shape[0])
    model = BayesRidge(y, x)
    design, products = model._build()
    assert rotate(design, products).rank == 4
    assert rotate_accurately(design).rank == 4
    assert model.fit().converged


@pytest.mark.parametrize("shape", [(60, 5), (5, 60)])
def test_residual_of_a_nearly_exact_fit_is_not_lost(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    exact = x @ rng.normal(size=5)
    error = rng.normal(size=60)
    both = np.column_stack([np.ones(60), x])
    error -= both @ np.linalg.lstsq(both, error, rcond=None)[0]
    y = exact + 1e-7 * error / np.linalg.norm(error) * np.linalg.norm(exact - exact.mean())
    if shape[0] < shape[1]:
        x = np.hstack([x, np.zeros((60, 60))])
    design, products = BayesRidge(y, x)._build()
    assert rotate(design, products).rss0[0] == pytest.approx(1e-14, rel=1e-6)
    assert rotate_accurately(design).rss0[0] == pytest.approx(1e-14, rel=1e-6)


def test_svd_falls_back_to_gesvd(monkeypatch):
    calls = []
    plain = accurate_rotation.svd

    def failing(a, **options):
        calls.append(options.get("lapack_driver", "gesdd"))
        if calls[-1] == "gesdd":
            raise accurate_rotation.LinAlgError("SVD did not converge")
        return plain(a, **options)

    y, x = regression(30, 5)
    design, _ = BayesRidge(y, x)._build()
    wanted = rotate_accurately(design)
    monkeypatch.setattr(accurate_rotation, "svd", failing)
    np.testing.assert_allclose(rotate_accurately(design).s, wanted.s, rtol=1e-13)
    assert calls == ["gesdd", "gesvd"]


@pytest.mark.parametrize("options", [{}, {"unpenalized": [0, 3]}, {"weights": np.linspace(0.1, 3, 12)}])
def test_left_vectors_of_steep_wide_columns_lie_outside_z(options):
    # Those of tiny singular values are next to the null space, where Z lies too.
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.standard_normal((m, 12)))[0] for m in (12, 30))
    design, _ = BayesRidge(u[:, 0], (u * np.logspace(0, -12, 12)) @ v.T, **options)._build()
    left = rotate_accurately(design).left
    assert np.abs(design.block.q.T @ left).max() < ORTHONORMAL
    assert np.abs(left.T @ left - np.eye(design.nu)).max() < ORTHONORMAL


def peak(function):
    """Largest memory that Python and NumPy hold beyond what they held before, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LAYOUTS = [(dtype, order, None) for dtype in ("float64", "float32") for order in "CF"]
LAYOUTS += [("float64", "C", "weights"), ("float64", "C", "unpenalized")]


LARGE = [((200, 25_000), "dual"), ((50_000, 100), "gram")]


@pytest.mark.parametrize(("layout", "large"), pairs(LAYOUTS, LARGE, 1))
def test_a_fit_holds_no_copy_of_x(layout, large):
    (dtype, order, option), (shape, solver) = layout, large
    rng = np.random.default_rng(0)
    x = np.asarray(rng.standard_normal(shape, dtype=dtype), order=order)
    y = x[:, :10].sum(axis=1) + rng.standard_normal(shape[0])
    options = {"weights": {"weights": rng.uniform(1, 2, shape[0])}, "unpenalized": {"unpenalized": [0]}}.get(
        option, {}
    )
    results = []
    held = peak(lambda: results.append(BayesRidge(y, x, **options).fit()))
    assert results[0].solver == solver
    assert held < SHARE_OF_X * 8 * x.size
    if dtype == "float64":
        # Intervals of the exact posterior take seconds, and do not see how X lies in memory.
        res = results[0] if (order, option) == ("C", None) else BayesRidge(y, x, **options).fit("fixed", lam=10.0)
        after = peak(lambda: (res.bse, res.conf_int(), res.fittedvalues, res.summary()))
        assert after < SHARE_WITH_INTERVALS * 8 * x.size


def test_no_square_matrix_of_many_columns():
    shape = (30, 12_000)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    y = x[:, :5].sum(axis=1) + rng.standard_normal(30)

    def everything():
        res = BayesRidge(y, x).fit()
        res.conf_int()
        res.get_prediction(x[:4]).summary_frame()
        res.get_prediction().summary_frame()
        res.summary()
        res.remove_data()

    assert peak(everything) < 0.05 * 8 * shape[1] ** 2
