"""The compiled pass over wide columns against the pass by NumPy and BLAS, and what is left to the latter."""

import shutil
import warnings

import numpy as np
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.compiled import compiler
from pybayesridge.compiled import library as compiled_library
from pybayesridge.design import crossproducts, wide_compiled
from pybayesridge.design.unpenalized import factorize
from pybayesridge.design.wide import wide_products
from pybayesridge.design.wide_compiled import WIDTH, compiled_products

N, P = 23, 2 * WIDTH + 7

PRODUCT = 6e-14
"""Largest difference of XX', relative to its largest entry."""

COLUMN = 3e-14
"""Largest difference of a standard deviation relative to itself, and of a mean relative to the standard deviation."""

MEANS = (0.0, 1e4, 1e7)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The library is made from the sources as they are, if it is not there."""
    library = compiled_library.library()
    compiled_library.built.cache_clear()
    assert compiled_library.built() is library


def rows(n, *, weighted, intercept):
    """The unpenalised columns of n rows."""
    weights = np.random.default_rng(1).uniform(0.1, 3, n) if weighted else None
    sqrt_w = None if weights is None else np.sqrt(weights / weights.mean())
    z = np.ones((n, 1)) if intercept else np.empty((n, 0))
    return factorize(z, sqrt_w, ["intercept"][: z.shape[1]], 0 if intercept else None)


def columns(n=N, p=P, mean=0.0):
    """Columns of very different sizes around a common mean."""
    rng = np.random.default_rng(n + p)
    return mean + rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-2, 2, p)


def agree(x, block):
    """Both ways give the same; returns what compiled code found."""
    where = np.arange(x.shape[1])
    found = compiled_products(x, where, block)
    assert found is not None
    step = 100
    parts = [x[:, i : i + step] for i in range(0, x.shape[1], step)]
    known = wide_products(parts, block, standardize=True)
    lower = np.tril_indices(x.shape[0])
    difference = np.abs(found.product[lower] - known.product[lower]).max()
    assert difference <= PRODUCT * np.abs(known.product[lower]).max()
    np.testing.assert_array_equal(found.constant, known.constant)
    np.testing.assert_allclose(found.sd, known.sd, rtol=COLUMN)
    np.testing.assert_allclose(found.scale, known.scale, rtol=COLUMN)
    assert (np.abs(found.center - known.center) <= COLUMN * known.scale + 4e-16 * np.abs(known.center)).all()
    assert (found.projection, found.on_taken, found.taken, found.marks, found.shared) == (None, None, None, None, 1.0)
    return found


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
def test_both_ways_agree(order, weighted, intercept):
    block = rows(N, weighted=weighted, intercept=intercept)
    for mean in MEANS:
        agree(np.array(columns(mean=mean), order=order), block)


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_number_of_rows_and_columns(order):
    for n in range(1, 10):
        for p in (n + 1, WIDTH - 1, WIDTH, WIDTH + 1, 256, 257):
            agree(np.array(columns(n, p), order=order), rows(n, weighted=n % 2 == 0, intercept=True))


def test_parts_of_larger_matrices_and_reversed_ones():
    whole = columns(3 * N, 3 * P)
    block = rows(N, weighted=False, intercept=True)
    for x in (whole[::3, P : 2 * P], whole[:N, 5:-1], whole[::-3, :P], np.asfortranarray(whole)[:N, ::3]):
        agree(x, block)
    # Columns that are chosen one by one are left to NumPy, as is every other memory order.
    assert compiled_products(whole, np.arange(0, 3 * P, 2), block) is None
    assert compiled_products(whole[:N, ::2], np.arange(P), block) is None


def test_an_intercept_among_the_columns():
    x = columns()
    x[:, 0] = 1.0
    block = rows(N, weighted=False, intercept=True)
    found = compiled_products(x, np.arange(1, P), block)
    np.testing.assert_array_equal(found.product, agree(np.array(x[:, 1:]), block).product)


def test_first_rows_far_from_the_others():
    x = columns()
    x[0] *= 1e6  # The sums of squares about the first row tell nothing of those about the mean.
    x[1:, ::3] += 1e5
    for order in "CF":
        agree(np.array(x, order=order), rows(N, weighted=order == "C", intercept=True))


def test_means_of_ten_million_cost_no_digits():
    exact = np.random.default_rng(3).integers(-(2**20), 2**20, (N, P)).astype(float)
    block = rows(N, weighted=False, intercept=True)
    away = agree(exact + 2.0**24, block)
    # The shift is exact, so that it must not show.
    np.testing.assert_array_equal(away.product, agree(exact, block).product)


@pytest.mark.parametrize("intercept", [True, False])
def test_columns_without_variation(intercept):
    x = columns()
    x[:, [0, 4, WIDTH, P - 1]] = [3.0, 0.0, -1e7, 0.1]
    x[:, 7] = 1e8 * (1 + 2e-16 * np.arange(N))
    found = agree(x, rows(N, weighted=False, intercept=intercept))
    assert np.flatnonzero(found.constant).tolist() == [0, 4, 7, WIDTH, P - 1]


@pytest.mark.parametrize("size", [1e150, 1e-150, 1e300, 1e-300])
def test_squares_beyond_the_range_of_numbers_are_left_to_numpy(size):
    x = columns()
    x[:, P // 2] *= size
    block = rows(N, weighted=False, intercept=True)
    assert compiled_products(x, np.arange(P), block) is None
    y = x[:, 0] + columns(N, 1)[:, 0]
    unit = x.copy()
    unit[:, P // 2] /= size
    res, ordinary = (BayesRidge(y, columns_).fit("exact") for columns_ in (x, unit))
    np.testing.assert_allclose(res.params.iloc[P // 2 + 1] * size, ordinary.params.iloc[P // 2 + 1], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "bool", ">f8"])
def test_other_dtypes_are_left_to_numpy(dtype):
    x = (columns() > 0).astype(dtype)
    assert compiled_products(x, np.arange(P), rows(N, weighted=False, intercept=True)) is None
    y = np.arange(N) % 5 + 0.1
    res, known = (BayesRidge(y, each).fit("exact") for each in (x, x.astype(float)))
    np.testing.assert_allclose(res.params, known.params, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named_wherever_they_are(value):
    for row, column in ((0, 0), (N - 1, P - 1), (5, WIDTH), (0, WIDTH - 1), (N - 1, 0)):
        for order in "CF":
            x = np.array(columns(), order=order)
            x[row, column] = value
            with pytest.raises(ValueError, match=rf"'x{column + 1}' \(1 (NaN|infinite)\)"):
                BayesRidge(np.arange(N, dtype=float), x)


def test_calls_for_parts_of_the_columns_make_the_same_product(monkeypatch):
    x, block = columns(), rows(N, weighted=True, intercept=True)
    whole = compiled_products(x, np.arange(P), block)
    monkeypatch.setattr(wide_compiled, "ELEMENTS", 1)
    np.testing.assert_array_equal(compiled_products(x, np.arange(P), block).product, whole.product)


def test_a_ridge_needs_neither_a_compiler_nor_the_library(monkeypatch, tmp_path):
    x, y = columns(), np.arange(N, dtype=float) % 7
    known = BayesRidge(y, x).fit("exact")
    monkeypatch.setattr(compiled_library, "_places", lambda: (tmp_path / "none", tmp_path / "nothing"))

    def no_compiler(target):
        raise compiler.CompilerError("there is no C compiler")

    monkeypatch.setattr(compiler, "compile_library", no_compiler)
    compiled_library.built.cache_clear()
    try:
        assert compiled_library.built() is None
        res = BayesRidge(y, x).fit("exact")
    finally:
        compiled_library.built.cache_clear()
    np.testing.assert_allclose(res.params, known.params, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_the_first_selection_compiles_before_it_takes_its_way(family, monkeypatch, tmp_path):
    """Without the library the design has other last digits, and walks are others then."""
    x, place, made = columns(), tmp_path / "lib.so", compiled_library.library()._name
    y = x[:, 0] + columns(N, 1)[:, 0]
    y = y if family == "gaussian" else (y > 0).astype(int)

    def fit():
        return SpikeSlab(y, x, family=family).fit("exact", maxiter=20_000)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monkeypatch.setattr(compiled_library, "_places", lambda: (place, place))
        monkeypatch.setattr(compiler, "compile_library", lambda target: shutil.copy(made, target))
        caches = compiled_library.library, compiled_library.built
        for each in caches:
            each.cache_clear()
        try:
            assert compiled_library.built() is None
            first = fit()
            assert compiled_library.built() is not None
            second = fit()
        finally:
            for each in caches:
                each.cache_clear()
    np.testing.assert_array_equal(first.inclusion_prob, second.inclusion_prob)
    np.testing.assert_array_equal(first.params, second.params)


def test_a_library_that_cannot_be_loaded_is_none(monkeypatch, tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    monkeypatch.setattr(compiled_library, "_places", lambda: (broken, broken))
    monkeypatch.setattr(compiled_library, "_loaded", compiled_library._loaded.__wrapped__)
    compiled_library.built.cache_clear()
    try:
        assert compiled_library.built() is None
    finally:
        compiled_library.built.cache_clear()


def test_a_blas_with_other_arguments_is_not_called(monkeypatch):
    monkeypatch.setattr(wide_compiled, "_DSYRK", "void (int)")
    wide_compiled._dsyrk.cache_clear()
    try:
        assert compiled_products(columns(), np.arange(P), rows(N, weighted=False, intercept=True)) is None
    finally:
        wide_compiled._dsyrk.cache_clear()


def test_wide_fits_take_the_compiled_way(monkeypatch):
    asked = []
    whole = crossproducts.compiled_products

    def watched(*args):
        asked.append(whole(*args))
        return asked[-1]

    monkeypatch.setattr(crossproducts, "compiled_products", watched)
    BayesRidge(np.arange(N, dtype=float) % 7, columns()).fit("exact")
    assert len(asked) == 1
    assert asked[0] is not None
