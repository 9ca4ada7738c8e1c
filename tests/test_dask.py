"""Models of Dask collections, beside the same rows in memory; with a worker that dies under the computation."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from tests.effort import only_thorough
from tests.problems import regression

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

SAME = 1e-10
"""A fit from partitions beside the fit from a frame; relative to the largest entry."""

ROWS = 400


def close(actual, wanted):
    actual, wanted = np.asarray(actual, dtype=float), np.asarray(wanted, dtype=float)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=SAME * np.abs(wanted).max())


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    data = pd.DataFrame(
        {
            "x": rng.normal(5.0, 3.0, ROWS),
            "z": rng.normal(size=ROWS),
            "g": np.r_[rng.choice(list("abc"), ROWS - 2), ["d", "d"]],
            "k": rng.integers(1, 4, ROWS),
            "c": pd.Categorical(rng.choice(["low", "high"], ROWS), ["low", "high"]),
            "w": rng.uniform(0.5, 2.0, ROWS),
        }
    )
    data["y"] = 0.3 * data.x + data.z + 2.0 * (data.g == "b") + rng.normal(size=ROWS)
    data.loc[5, "x"] = np.nan
    data.loc[ROWS - 1, "y"] = np.nan
    return data


@pytest.mark.parametrize("cls", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("formula", ["y ~ scale(x) + z + g + C(k) + c", "y ~ x + z"])
def test_a_dask_frame_is_coded_as_a_frame_is(cls, formula, frame):
    wanted = cls.from_formula(formula, frame, weights="w").fit()
    res = cls.from_dask(dd.from_pandas(frame, npartitions=20), formula, weights="w").fit()
    assert list(res.params.index) == list(wanted.params.index)
    close(res.params, wanted.params)
    close(res.bse, wanted.bse)
    close(res.predict(frame.iloc[50:60]), wanted.predict(frame.iloc[50:60]))
    assert res.nobs == wanted.nobs
    assert any("row(s)" in note for note in res.notes)


@pytest.mark.parametrize("weighted", [False, True])
def test_dask_arrays(weighted):
    y, x = regression(300, 6)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 300) if weighted else None
    wanted = BayesRidge(y, x, weights=w, unpenalized=[1]).fit("exact")
    weights = None if w is None else da.from_array(w, chunks=70)
    model = BayesRidge.from_dask(
        da.from_array(x, chunks=(40, 3)), endog=da.from_array(y, chunks=100), weights=weights, unpenalized=[1]
    )
    res = model.fit("exact")
    close(res.params, wanted.params)
    close(res.bse, wanted.bse)
    two = BayesRidge.from_dask(
        da.from_array(x, chunks=(64, 6)), endog=da.from_array(np.c_[y, -y], chunks=(64, 1))
    ).fit()
    close(two.params.iloc[:, 0], -two.params.iloc[:, 1])


def test_missing_rows_of_arrays():
    y, x = regression(90, 3)
    x[:30] = np.nan
    x[40, 1] = y[50] = np.nan
    keep = np.isfinite(x).all(axis=1) & np.isfinite(y)
    arrays = da.from_array(x, chunks=(30, 3)), da.from_array(y, chunks=30)
    res = BayesRidge.from_dask(arrays[0], endog=arrays[1], missing="drop").fit()
    close(res.params, BayesRidge(y[keep], x[keep]).fit().params)
    assert any("32 row(s)" in note for note in res.notes)
    with pytest.raises(ValueError, match=r"missing values in 32 row\(s\)"):
        BayesRidge.from_dask(arrays[0], endog=arrays[1])
    with pytest.raises(ValueError, match="every row has a missing value"):
        BayesRidge.from_dask(arrays[0] * np.nan, endog=arrays[1], missing="drop")


def test_bad_dask_input_is_refused(frame):
    data = dd.from_pandas(frame, npartitions=4)
    y, x = (da.from_array(a, chunks=10) for a in regression(40, 3))
    with pytest.raises(ValueError, match="a DataFrame and a formula, or an array of columns and endog"):
        BayesRidge.from_dask(data)
    with pytest.raises(ValueError, match="with a formula data is a Dask DataFrame"):
        BayesRidge.from_dask(x, "y ~ x", endog=y)
    with pytest.raises(ValueError, match="endog has 30 rows and exog has 40"):
        BayesRidge.from_dask(x, endog=y[:30])
    with pytest.raises(ValueError, match=r"chunk 2: .*not finite"):
        BayesRidge.from_dask(da.where(da.arange(40, chunks=10)[:, None] == 25, np.inf, x), endog=y)
    with pytest.raises(ValueError, match="levels is not an argument of from_dask with arrays"):
        BayesRidge.from_dask(x, endog=y, levels={"a": [1]})
    with pytest.raises(ValueError, match=r"partition \d: .* depend on more than their own row"):
        BayesRidge.from_dask(data, "y ~ I(x - x.mean())")
    with pytest.raises(ValueError, match=r"partition \d: 'I\(np.nan \* x\)' is not a number in"):
        BayesRidge.from_dask(data, "y ~ I(np.nan * x)")
    with pytest.raises(ValueError, match=r"partition 3: the data contain a level .*'d'"):
        BayesRidge.from_dask(data, "y ~ g", levels={"g": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="bs"):
        BayesRidge.from_dask(data, "y ~ bs(x, df=4)")
    with pytest.raises(ValueError, match=r"missing values in 'x' \(1\), 'y' \(1\)|missing values in 'y'"):
        BayesRidge.from_dask(data, "y ~ x", missing="raise")
    with pytest.raises(ValueError, match=r"every row has a missing value \(in 'x' \(400\)"):
        BayesRidge.from_dask(dd.from_pandas(frame[["y", "x"]].assign(x=np.nan), npartitions=2), "y ~ x")


def test_without_dask_the_message_names_the_extra(monkeypatch, frame):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"pip install 'pybayesridge\[dask\]'"):
        BayesRidge.from_dask(frame, "y ~ x")


@pytest.fixture
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=None
    )
    with cluster, distributed.Client(cluster) as connected:
        yield connected


@only_thorough
def test_a_worker_that_dies_changes_nothing(client, frame, tmp_path):
    fallen, here = tmp_path / "fallen", os.getpid()

    def deadly(values):
        """The identity, which the first time it meets one of the last rows takes its process down."""
        if os.getpid() != here and (values == marked).any() and not fallen.exists():
            fallen.touch()
            os._exit(1)
        return values

    marked = float(frame.x.iloc[300])
    data = dd.from_pandas(frame, npartitions=16)
    with dask.config.set(scheduler=client):
        res = BayesRidge.from_dask(data, "y ~ deadly(x) + z + g + C(k)").fit()
    assert fallen.exists()
    wanted = BayesRidge.from_formula("y ~ x + z + g + C(k)", frame).fit()
    close(res.params, wanted.params)
    close(res.bse, wanted.bse)
    close(res.log_marginal, wanted.log_marginal)
    assert res.nobs == wanted.nobs


@pytest.mark.parametrize("formula", ["y ~ x + C(g)", "y ~ scale(x) + g + C(k)"])
def test_partitions_without_rows_or_with_one(formula, frame):
    pieces = [
        frame.iloc[:0],
        frame.iloc[:1],
        frame.iloc[1:1],
        frame.iloc[1:300],
        frame.iloc[300:301],
        frame.iloc[301:],
    ]
    pieces.insert(3, frame.iloc[1:3].assign(x=np.nan))
    parts = dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=frame.iloc[:0], verify_meta=False)
    wanted = BayesRidge.from_formula(formula, frame).fit()
    res = BayesRidge.from_dask(parts, formula).fit()
    assert list(res.params.index) == list(wanted.params.index)
    close(res.params, wanted.params)
    assert res.nobs == wanted.nobs
    assert res.model.data.n_dropped == wanted.model.data.n_dropped + 2
    with pytest.raises(ValueError, match="there are no rows"):
        BayesRidge.from_dask(dd.from_pandas(frame.iloc[:0], npartitions=1), formula)
