"""Moments that no rows can have, files that are damaged, digits that are lost."""

import dataclasses
import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, DegenerateFitWarning, Moments, PrecisionWarning, SpikeSlab
from tests.problems import regression
from tests.test_moments import close


def test_bad_moments_are_refused():
    y, x = regression(20, 2)
    moments = Moments.from_arrays(y, x)
    named = Moments.from_arrays(y, pd.DataFrame(x, columns=["x1", "b"]))
    with pytest.raises(ValueError, match=r"columns of the moments to merge differ: 'b', 'x2' are in only one"):
        moments.merge(named)
    swapped = Moments.from_arrays(y, pd.DataFrame(x, columns=["x2", "x1"]))
    with pytest.raises(ValueError, match="their order is not the same"):
        moments.merge(swapped)
    with pytest.raises(ValueError, match="there are no batches"):
        Moments.from_batches([])
    with pytest.raises(ValueError, match=r"batch 0 must be \(endog, exog\)"):
        Moments.from_batches([y])
    with pytest.raises(ValueError, match=r"moments must be pybayesridge.Moments, not ndarray"):
        BayesRidge.from_moments(x)
    for name in ("weights", "missing"):
        with pytest.raises(ValueError, match=f"{name} is not an argument of from_moments"):
            BayesRidge.from_moments(moments, **{name: None})
    with pytest.raises(ValueError, match="leave the range of floats: rescale"):
        Moments.from_arrays(y, x * 1e-170)
    with pytest.raises(ValueError, match="leave the range of floats: rescale"):
        Moments.from_arrays(y, x * 1e170)
    with pytest.raises(ValueError, match=r"x_origin must have shape \(1,\) for 1 columns"):
        Moments(**{name: getattr(moments, name) for name in moments.__dataclass_fields__} | {"columns": ("x1",)})
    with pytest.raises(ValueError, match="read-only"):
        moments.xx[0, 0] = 1.0


def test_files_have_the_name_that_was_given(tmp_path):
    moments = Moments.from_arrays(*regression(40, 3))
    moments.save(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    with (tmp_path / "x").open("rb") as file:
        for given in (tmp_path / "x", str(tmp_path / "x"), file):
            np.testing.assert_array_equal(Moments.load(given).xx, moments.xx)


def loaded_or_told(path):
    try:
        return Moments.load(path), ""
    except ValueError as error:
        return None, str(error)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    moments = Moments.from_arrays(*regression(40, 3))
    moments.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(200):
        broken = bytearray(content)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken[: rng.integers(1, len(broken))] if trial % 2 else broken)
        back, told = loaded_or_told(path)
        if back is None:
            assert "m.npz" in told
            assert "damaged" in told or "does not hold moments" in told
        else:  # a bit that no reader looks at, such as a date
            np.testing.assert_array_equal(back.xx, moments.xx)
            np.testing.assert_array_equal(back.xy, moments.xy)
    for content in (b"", b"a,b\n1,2\n", pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"m\.npz' does not hold moments: it is"):
            Moments.load(path)
    with pytest.raises(FileNotFoundError):
        Moments.load(tmp_path / "none")


def changed(moments, **fields):
    """Moments of which single entries were changed: ``xx=(0, 1, value)``."""
    arrays = {}
    for name, (*at, value) in fields.items():
        arrays[name] = getattr(moments, name).copy()
        arrays[name][tuple(at)] = value
    return dataclasses.replace(moments, **arrays)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"xx": (0, 0, -1.0)}, r"xx has a negative sum of squares for column\(s\) 'a'"),
        ({"yy": (0, -3.0)}, r"yy has a negative sum of squares for target\(s\) 'y'"),
        ({"xx": (0, 1, 7.0)}, "xx is not symmetric: of 'a' and 'b' it has 7 and"),
    ],
)
def test_sums_that_cannot_be_are_refused(fields, message):
    y, x = regression(50, 3)
    moments = Moments.from_arrays(y, pd.DataFrame(x, columns=["a", "b", "c"]))
    with pytest.raises(ValueError, match=message):
        changed(moments, **fields)


@pytest.mark.parametrize(("field", "value"), [("n", 2.5), ("n", True), ("log_weight_sum", np.nan)])
def test_counts_that_cannot_be_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be"):
        dataclasses.replace(Moments.from_arrays(*regression(50, 3)), **{field: value})


@pytest.mark.parametrize("cls", [BayesRidge, SpikeSlab])
def test_cross_products_of_no_rows_are_refused(cls):
    y, x = regression(50, 3, noise=0.5)
    moments = Moments.from_arrays(y, pd.DataFrame(x, columns=["a", "b", "c"]))
    xx = moments.xx.copy()
    xx[0, 1] = xx[1, 0] = 1.5 * np.sqrt(xx[0, 0] * xx[1, 1])
    with pytest.raises(ValueError, match=r"negative variance \(eigenvalue -0\.5.*'a', 'b'"):
        cls.from_moments(dataclasses.replace(moments, xx=xx))
    for change in ({"yy": moments.yy / 100}, {"xy": 10 * moments.xy}):
        with pytest.raises(ValueError, match=r"would explain .* % of the variation of 'y'"):
            cls.from_moments(dataclasses.replace(moments, **change))


def test_moments_of_awkward_rows_are_not_refused():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    for columns in (
        np.c_[x, x[:, 0] + x[:, 1]],
        np.c_[x, 1e-9 * x[:, 0]],
        np.c_[x, x[:, 0] + 1e-9 * x[:, 1]],
        np.c_[x, np.full(40, 0.1)],
        1e9 + x,
        1e50 * x,
        1e-50 * x,
        np.c_[1e50 * x, 1e-50 * x],
        rng.normal(size=(4, 9)),
    ):
        for y in (columns[:, 0], columns @ rng.normal(size=columns.shape[1]), np.full(len(columns), 3.0)):
            with np.errstate(all="raise"):
                BayesRidge.from_moments(Moments.from_arrays(y, columns))


def test_what_unpenalised_columns_leave_of_others_may_be_lost():
    # Rows show that a share of 1e-7 is left of each column; its square is below the rounding errors of moments.
    rng = np.random.default_rng(3)
    free = rng.standard_normal((30, 1))
    x = np.hstack([free, free + 1e-7 * rng.standard_normal((30, 4))])
    y = x[:, 1:] @ rng.standard_normal(4) * 1e7 + rng.standard_normal(30)
    moments = Moments.from_arrays(y, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateFitWarning)
        with pytest.warns(PrecisionWarning, match="0 digits"):
            BayesRidge.from_moments(moments, unpenalized=[0]).fit()


def test_directions_that_moments_lose_count_at_large_penalties():
    # y lies in a direction of length 1e-8 so that the noise is small: its coefficients are a millionth of a
    # standard deviation.
    rng = np.random.default_rng(4)
    x = rng.standard_normal((20, 5))
    x[:, 4] = x[:, 0] + 1e-8 * rng.standard_normal(20)
    y = rng.standard_normal(20)
    moments = Moments.from_arrays(y, x)
    for sigma2, lost in ((1e-6, True), (1e3, False)):
        model = BayesRidge.from_moments(moments, sigma2=sigma2)
        with pytest.warns(PrecisionWarning, match="digits") if lost else nullcontext():
            model.fit("fixed", lam=0.1)


def test_exact_duplicates_lose_nothing_in_moments():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, 5))
    x[:, 4] = x[:, 0]
    BayesRidge.from_moments(Moments.from_arrays(rng.standard_normal(20), x), sigma2=1e-6).fit("fixed", lam=0.1)


def test_lost_digits_are_told():
    y, x = regression(300, 4, noise=0.01)
    near = np.column_stack([x, x[:, 0] + 1e-5 * x[:, 0].std() * np.sin(np.arange(300))])
    with pytest.warns(PrecisionWarning, match=r"This fit from moments is accurate to about [0-7] digits"):
        res = BayesRidge.from_moments(Moments.from_arrays(y, near)).fit("fixed", lam=1e-6)
    assert any("digits" in note for note in res.notes)
    assert 1e-8 < res.precision_loss < 1e-3
    close(res.params, BayesRidge(y, near).fit("fixed", lam=1e-6).params, res.precision_loss)
    with pytest.warns(PrecisionWarning, match="digits"):
        BayesRidge.from_moments(Moments.from_arrays(y, near), unpenalized=[0, 4]).fit()
    with pytest.warns(PrecisionWarning, match="digits"):
        SpikeSlab.from_moments(Moments.from_arrays(y, near), slab_var=1e4, noise_var=1e-4, prior_inclusion=1.0).fit()
    far = Moments.from_arrays(y, x + 1e5)
    with pytest.warns(PrecisionWarning, match="digits"):
        BayesRidge.from_moments(far, intercept=False).fit()
