"""Polynomial expansions: every product once, and a fair part of them where there are too many."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from pybayesridge import BayesRidge
from pybayesridge.data.polynomial import polynomial_features


def columns(n=7, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.standard_normal((n, p)), columns=[f"v{j}" for j in range(p)], index=range(10, 10 + n))


def value(x, name):
    """A product by its name."""
    out = np.ones(len(x))
    for factor in name.split(":"):
        base, _, power = factor.partition("^")
        out = out * x[base].to_numpy() ** int(power or 1)
    return out


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_every_product_once(degree, p):
    x = columns(p=p)
    out = polynomial_features(x, degree)
    wanted = {c for d in range(1, degree + 1) for c in itertools.combinations_with_replacement(x.columns, d)}
    assert out.shape == (7, len(wanted))
    assert out.columns.is_unique
    assert out.index.equals(x.index)
    assert list(out.columns[:p]) == list(x.columns)
    for name in out:
        np.testing.assert_allclose(out[name], value(x, name), rtol=1e-14)


def test_names_and_order():
    out = polynomial_features(np.arange(6.0).reshape(2, 3), 3)
    assert list(out.columns) == [
        *("x1", "x2", "x3"),
        *("x1^2", "x1:x2", "x1:x3", "x2^2", "x2:x3", "x3^2"),
        *("x1^3", "x1^2:x2", "x1^2:x3", "x1:x2^2", "x1:x2:x3", "x1:x3^2", "x2^3", "x2^2:x3", "x2:x3^2", "x3^3"),
    ]


@pytest.mark.parametrize(
    ("p", "second", "third"),
    [(5, 20, 55), (6, 27, 83), (8, 44, 164), (10, 65, 285), (13, 104, 559), (99, 5049, None)],
)
def test_sizes_are_those_of_the_paper(p, second, third):
    x = np.ones((1, p))
    assert polynomial_features(x, 2).shape[1] == second
    if third:
        assert polynomial_features(x, 3).shape[1] == third


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("cap", [7 * 4, 7 * 5, 7 * 9 + 6, 7 * 30])
def test_cap(degree, cap):
    x = columns()
    full = polynomial_features(x, degree)
    out = polynomial_features(x, degree, max_entries=cap, rng=0)
    assert out.shape[1] == min(cap // 7, full.shape[1])
    assert list(out.columns[:4]) == list(x.columns)
    assert out.columns.is_unique
    assert set(out.columns) <= set(full.columns)
    for name in out:
        np.testing.assert_allclose(out[name], value(x, name), rtol=1e-14)


def test_main_effects_stay_whatever_the_cap():
    assert list(polynomial_features(columns(), 3, max_entries=1).columns) == ["v0", "v1", "v2", "v3"]


def test_cap_counts_training_rows():
    x = columns(n=100, p=10)
    assert polynomial_features(x, 2, max_entries=2000, rng=0).shape[1] == 20
    assert polynomial_features(x, 2, max_entries=2000, rng=0, n_train=70).shape[1] == 28
    assert polynomial_features(x, 2, max_entries=35e5, rng=0, n_train=0.7 * 100).shape[1] == 65


def test_seeds():
    x = columns(p=8)
    draw = [list(polynomial_features(x, 3, max_entries=7 * 20, rng=r).columns) for r in (1, 1, 2)]
    assert draw[0] == draw[1] != draw[2]
    again = polynomial_features(x, 3, max_entries=7 * 20, rng=np.random.default_rng(1))
    assert list(again.columns) == draw[0]


@pytest.mark.parametrize("room", [3, 12])
def test_draws_are_uniform(room):
    """Each product is in as often as any other; 3 of 30 are drawn by rejection, 12 by permutation."""
    x = np.ones((1, 4))
    rng = np.random.default_rng(5)
    repeats = 1000
    counts = dict.fromkeys(polynomial_features(x, 3).columns[4:], 0)
    for _ in range(repeats):
        for name in polynomial_features(x, 3, max_entries=4 + room, rng=rng).columns[4:]:
            counts[name] += 1
    observed = np.array(list(counts.values()))
    assert observed.sum() == room * repeats
    expected = repeats * room / observed.size
    # Without replacement the counts vary by less than the multinomial ones.
    statistic = ((observed - expected) ** 2 / expected).sum() * (observed.size - 1) / (observed.size - room)
    assert 1e-3 < stats.chi2(observed.size - 1).sf(statistic) < 1 - 1e-3


def test_huge_numbers_of_products_are_never_listed():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 20_000))
    tracemalloc.start()
    out = polynomial_features(x, 3, max_entries=20 * 22_000, rng=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out.shape == (20, 22_000)
    assert out.columns.is_unique
    assert peak < 40 * out.to_numpy().nbytes
    x = pd.DataFrame(x).add_prefix("x")
    x.columns = [f"x{j + 1}" for j in range(x.shape[1])]
    for name in out.columns[-50:]:
        np.testing.assert_allclose(out[name], value(x, name), rtol=1e-13)
    # Of 1.3e12 products nearly all have three different factors.
    assert all(name.count(":") == 2 for name in out.columns[-1990:])


def test_memory_of_a_full_expansion():
    x = np.random.default_rng(0).standard_normal((2000, 100))
    tracemalloc.start()
    out = polynomial_features(x, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.2 * out.to_numpy().nbytes


def test_integers_booleans_and_missing_values():
    x = pd.DataFrame({"i": [1, 2, 3], "b": [True, False, True], "f": [0.5, np.nan, 2.0]})
    out = polynomial_features(x, 2)
    assert out["i:b"].tolist() == [1, 0, 3]
    assert out["b^2"].tolist() == [1, 0, 1]
    assert np.isnan(out["i:f"].iloc[1])
    assert (out.dtypes == np.float64).all()


def test_input_is_left_alone():
    x = columns()
    before = x.copy()
    out = polynomial_features(x, 2)
    out.iloc[:, :] = 0.0
    pd.testing.assert_frame_equal(x, before)
    array = np.asfortranarray(x.to_numpy(copy=True))
    out = polynomial_features(array, 2)
    out.iloc[:, :] = 0.0
    assert (array == before.to_numpy()).all()


def test_like_a_formula():
    data = columns(n=40, p=3)
    data["y"] = np.random.default_rng(1).standard_normal(40) + 3 * data["v0"] * data["v1"]
    x = polynomial_features(data[["v0", "v1", "v2"]], 2)
    res = BayesRidge(data["y"], x).fit()
    formula = "y ~ (v0 + v1 + v2)**2 + I(v0**2) + I(v1**2) + I(v2**2)"
    wanted = BayesRidge.from_formula(formula, data).fit()
    assert res.lambda_ == pytest.approx(wanted.lambda_, rel=1e-8)
    assert res.params["v0:v1"] == pytest.approx(wanted.params["v0:v1"], rel=1e-8)
    assert res.params["v2^2"] == pytest.approx(wanted.params["I(v2 ** 2)"], rel=1e-7)


@pytest.mark.parametrize("degree", [0, 4, -1, 2.5, "two", True, None])
def test_bad_degree(degree):
    with pytest.raises(ValueError, match="degree must be 1, 2 or 3"):
        polynomial_features(columns(), degree)


@pytest.mark.parametrize("name", ["max_entries", "n_train"])
@pytest.mark.parametrize("bad", [0, -5, "many", True, np.nan])
def test_bad_sizes(name, bad):
    with pytest.raises(ValueError, match=name):
        polynomial_features(columns(), 2, **{name: bad})


def test_bad_columns():
    with pytest.raises(ValueError, match=r"'g'.*not numeric"):
        polynomial_features(pd.DataFrame({"a": [1.0, 2.0], "g": ["u", "v"]}), 2)
    with pytest.raises(ValueError, match="duplicate column name 'a'"):
        polynomial_features(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), 2)
    with pytest.raises(ValueError, match="sparse"):
        polynomial_features(sparse.csr_array(np.eye(3)), 2)
