"""Files of all coefficients, saved fits of columns that are read in blocks, and memory."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import pybayesridge
from pybayesridge import BayesRidge
from tests.test_from_columns import EXACT, data, split


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_saved_fits_hold_no_column(rng, tmp_path):
    y, x = data(rng, p=20_000)
    res = BayesRidge.from_columns(y, split(x, 9000)).fit()
    res.save(tmp_path / "fit")
    assert (tmp_path / "fit").stat().st_size < 8 * x.size / 4
    for loaded in (pybayesridge.load(tmp_path / "fit"), pickle.loads(pickle.dumps(res))):
        np.testing.assert_allclose(loaded.fittedvalues, res.fittedvalues, rtol=0, atol=EXACT)
        np.testing.assert_array_equal(loaded.params, res.params)
        np.testing.assert_array_equal(loaded.bse, res.bse)
        with pytest.raises(ValueError, match="does not hold the columns"):
            loaded.conf_int()
    with pytest.raises(ValueError, match="write_coefficients"):
        res.remove_data()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("q", [1, 2])
def test_files_of_coefficients(suffix, q, rng, tmp_path):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    y, x = data(rng)
    x[:, [0, 1, 100, 299]] = 1
    targets = y if q == 1 else np.column_stack([y, -2 * y])
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    for i, res in enumerate(
        (
            BayesRidge.from_columns(targets, split(x, 1, 2, 102)).fit(),
            BayesRidge(targets, x, intercept="add").fit(),
        )
    ):
        path = tmp_path / f"{i}{suffix}"
        res.write_coefficients(path, alpha=0.1)
        table, tidy = read(path), res.tidy(alpha=0.1)
        if q == 2:
            table = table.sort_values("target", kind="stable", ignore_index=True)
        pd.testing.assert_frame_equal(table, tidy, rtol=1e-12, atol=1e-15)
    with pytest.raises(ValueError, match=r"must end in \.parquet or \.csv"):
        res.write_coefficients(tmp_path / "table.txt")


def test_interrupted_writing_leaves_the_old_file(rng, tmp_path):
    y, x = data(rng)
    reads = []

    def read():
        reads.append(1)
        yield x[:, :100]
        if len(reads) > 1:
            raise OSError("the disk is gone")
        yield x[:, 100:]

    path = tmp_path / "table.csv"
    path.write_text("old")
    res = BayesRidge.from_columns(y, read).fit()
    with pytest.raises(OSError, match="the disk is gone"):
        res.write_coefficients(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_memory_holds_no_matrix(tmp_path):
    n, p, width = 200, 10_000, 250
    common = np.random.default_rng(0).normal(size=(n, 1))

    def read():
        rng = np.random.default_rng(1)
        for _ in range(p // width):
            yield (common + rng.normal(size=(n, width)) > 0).astype(np.int8)

    tracemalloc.start()
    try:
        res = BayesRidge.from_columns(common[:, 0], read).fit("em")
        _ = res.fittedvalues
        res.write_coefficients(tmp_path / "table.csv")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * p * 8 / 2
