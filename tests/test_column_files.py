"""Ridges of columns in Parquet files and Dask arrays equal those of the same columns in memory."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from tests.test_from_columns import N, P, data, same

PEOPLE = [f"i{i}" for i in range(N)]
NAMES = [f"rs{j}" for j in range(P)]


@pytest.fixture
def rng():
    return np.random.default_rng(6)


def in_memory(y, x, names=NAMES):
    return BayesRidge(y, pd.DataFrame(x, columns=names)).fit()


def write(table, path, **options):
    pytest.importorskip("pyarrow")
    table.to_parquet(path, index=False, **options)


@pytest.mark.parametrize("labels", [True, False])
def test_a_row_for_each_column(labels, rng, tmp_path):
    y, x = data(rng)
    table = pd.DataFrame(x.T, columns=PEOPLE).assign(snp=NAMES)
    response = pd.Series(y, index=PEOPLE) if labels else y
    if labels:
        table = table[rng.permutation(table.columns)].assign(chromosome="X")
    write(table[:130], tmp_path / "1.parquet", row_group_size=40)
    write(table[130:], tmp_path / "2.parquet", row_group_size=1000)
    memory = in_memory(y, x)
    for source in (tmp_path, [tmp_path / "1.parquet", str(tmp_path / "2.parquet")]):
        res = BayesRidge.from_columns(response, source, transposed=True, names="snp").fit()
        np.testing.assert_allclose(res.params, memory.params, rtol=0, atol=1e-12)
        assert res.params.index.equals(memory.params.index)
        assert str(res.summary()).count("rs") == str(memory.summary()).count("rs")


def test_a_column_for_each_column(rng, tmp_path):
    y, x = data(rng)
    table = pd.DataFrame(x, columns=NAMES)
    write(table.iloc[:, :100], tmp_path / "1.parquet")
    write(table.iloc[:, 100:].astype(np.float32), tmp_path / "2.parquet", row_group_size=7)
    same(in_memory(y, x), BayesRidge.from_columns(y, tmp_path).fit())
    write(table.iloc[:, 99:102], tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"'rs100', 'rs101', 'rs99' are in several files"):
        BayesRidge.from_columns(y, tmp_path)
    with pytest.raises(ValueError, match="leave out transposed"):
        BayesRidge.from_columns(y, tmp_path / "3.parquet", transposed=True)


def test_files_that_do_not_do(rng, tmp_path):
    y, x = data(rng)
    table = pd.DataFrame(x.T, columns=PEOPLE).assign(snp=NAMES, chromosome="X")
    write(table, tmp_path / "1.parquet")
    path = tmp_path / "1.parquet"
    with pytest.raises(ValueError, match=r"'chromosome' of the source are not numbers"):
        BayesRidge.from_columns(y, path, transposed=True, names="snp")
    with pytest.raises(ValueError, match="source has 300 rows"):
        BayesRidge.from_columns(y, path)
    with pytest.raises(ValueError, match="names='id' is not a column"):
        BayesRidge.from_columns(y, path, transposed=True, names="id")
    with pytest.raises(ValueError, match="for transposed=True"):
        BayesRidge.from_columns(y, path, names="snp")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no file"):
        BayesRidge.from_columns(y, tmp_path / "empty")
    with pytest.raises(ValueError, match=r"np\.load"):
        BayesRidge.from_columns(y, "x.npy")
    table.loc[7, "i3"] = np.nan
    write(table, path)
    with pytest.raises(ValueError, match=r"'rs7' \(1 NaN\)"):
        BayesRidge.from_columns(pd.Series(y, index=PEOPLE), path, transposed=True, names="snp")


FLIPS = 60
"""Damaged files of each kind."""


@pytest.mark.parametrize("kind", ["columns", "rows", "formula"])
def test_damaged_files_with_checksums_give_the_same_numbers_or_an_error(kind, rng, tmp_path):
    y, x = data(rng)
    x = x[:, :12]
    table = pd.DataFrame(x.T if kind == "rows" else x).rename(columns=lambda j: f"c{j}")
    if kind == "formula":
        table["y"] = y
    path = tmp_path / "whole.parquet"
    write(table, path, write_page_checksum=True)

    def fit(file):
        if kind == "formula":
            return BayesRidge.from_parquet(file, "y ~ c0 + c1 + c2 + c3 + c4").fit().params.to_numpy()
        return BayesRidge.from_columns(y, file, transposed=kind == "rows").fit().params.to_numpy()

    wanted, whole = fit(path), path.read_bytes()
    refused = 0
    for at in rng.integers(0, len(whole), FLIPS):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        broken = tmp_path / "broken.parquet"
        broken.write_bytes(damaged)
        try:
            got = fit(broken)
        except ValueError:
            refused += 1
            continue
        np.testing.assert_array_equal(got, wanted)
    assert refused > FLIPS / 4


@pytest.mark.parametrize("transposed", [True, False])
def test_dask(transposed, rng):
    array = pytest.importorskip("dask.array")
    y, x = data(rng)
    z = rng.normal(size=(N, 1))
    x[:, 3] = 1
    given = array.from_array(x.T if transposed else x, chunks=(37, 13))
    options = {"standardize": False, "weights": rng.uniform(1, 2, N)}
    whole = pd.DataFrame(np.hstack([z, x]), columns=["z1", *NAMES])
    memory = BayesRidge(y, whole, unpenalized=["z1"], intercept="add", **options).fit()
    res = BayesRidge.from_columns(y, given, unpenalized=z, names=NAMES, transposed=transposed, **options).fit()
    same(memory, res)
    assert str(res.summary()).count("rs") == str(memory.summary()).count("rs")


@pytest.mark.parametrize("cut", [lambda part: part[:, :-1], lambda part: part[1:], lambda part: part.repeat(2, 1)])
def test_dask_chunks_that_are_not_what_they_say(cut, rng):
    array = pytest.importorskip("dask.array")
    y, x = data(rng)
    chunked = array.from_array(x, chunks=(len(y), 50))
    odd = chunked.map_blocks(cut, chunks=chunked.chunks, dtype=x.dtype)
    with pytest.raises(ValueError, match=r"columns of X instead of 50|rows of observations"):
        BayesRidge.from_columns(y, odd).fit()


def test_dask_arrays_that_do_not_do(rng):
    array = pytest.importorskip("dask.array")
    y, x = data(rng)
    bad = x.astype(float)
    bad[2, 200] = np.nan
    with pytest.raises(ValueError, match=r"'x201' \(1 NaN\)"):
        BayesRidge.from_columns(y, array.from_array(bad, chunks=(N, 50)))
    with pytest.raises(ValueError, match="pass transposed=True"):
        BayesRidge.from_columns(y, array.from_array(x.T, chunks=(N, 50)))
    with pytest.raises(ValueError, match="two dimensions"):
        BayesRidge.from_columns(y, array.from_array(y, chunks=5))


def test_arrays_of_zarr_and_h5py(rng, tmp_path):
    y, x = data(rng)
    found = 0
    try:
        import zarr

        stored = zarr.open_array(str(tmp_path / "x.zarr"), mode="w", shape=x.shape, chunks=(N, 64), dtype="i1")
        stored[:] = x
        same(BayesRidge(y, x).fit(), BayesRidge.from_columns(y, stored).fit())
        found += 1
    except ImportError:
        pass
    try:
        import h5py

        with h5py.File(tmp_path / "x.h5", "w") as file:
            stored = file.create_dataset("x", data=x, chunks=(N, 64))
            same(BayesRidge(y, x).fit(), BayesRidge.from_columns(y, stored).fit())
        found += 1
    except ImportError:
        pass
    if not found:
        pytest.skip("neither zarr nor h5py")


def test_memory_maps(rng, tmp_path):
    y, x = data(rng)
    np.save(tmp_path / "x.npy", x)
    same(BayesRidge(y, x).fit(), BayesRidge.from_columns(y, np.load(tmp_path / "x.npy", mmap_mode="r")).fit())
