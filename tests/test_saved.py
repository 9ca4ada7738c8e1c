"""Fits in files: read in a new session, refused where they are damaged or something else."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import pybayesridge
from pybayesridge import BayesRidge, Moments, SpikeSlab, load
from pybayesridge.results import files as saved
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults

MODELS = {"ridge": BayesRidge, "spikeslab": SpikeSlab}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(50, 3)), columns=["a", "b", "c"])
    frame["g"] = np.tile(["u", "v"], 25)
    frame["y"] = frame["a"] + (frame["g"] == "v") + rng.normal(size=50)
    return frame


def fit(kind, data):
    if kind == "two targets":
        return BayesRidge(data[["y", "c"]], data[["a", "b"]]).fit("exact")
    if kind == "moments":
        return BayesRidge.from_moments(Moments.from_arrays(data["y"], data[["a", "b"]])).fit()
    return MODELS[kind].from_formula("y ~ a + b + g", data).fit()


KINDS = ["ridge", "spikeslab", "two targets", "moments"]


@pytest.fixture(scope="module", params=KINDS)
def res(request, data):
    return fit(request.param, data)


@pytest.mark.parametrize("form", ["portable", "pickle"])
def test_every_kind_of_fit_is_read_in_a_new_session(data, tmp_path, form):
    fits = [(fit(kind, data), without) for kind in KINDS for without in (False, True)]
    for i, (res, without) in enumerate(fits):
        res.save(tmp_path / f"{i}.fit", remove_data=without, format=form)
    data.head(3).to_csv(tmp_path / "new.csv", index=False)
    code = (
        "import sys, pandas as pd, pybayesridge\n"
        "from pathlib import Path\n"
        "new = pd.read_csv(sys.argv[1])\n"
        "for path in map(Path, sys.argv[2:]):\n"
        "    res = pybayesridge.load(path, allow_code=True)\n"
        "    frame = res.get_prediction(new if res.model.formula_spec else new[['a', 'b']]).summary_frame()\n"
        "    frame.to_csv(path.with_suffix('.csv'), float_format='%.17g')\n"
    )
    paths = [tmp_path / f"{i}.fit" for i in range(len(fits))]
    subprocess.run([sys.executable, "-c", code, tmp_path / "new.csv", *paths], check=True, timeout=300)
    for path, (res, _) in zip(paths, fits, strict=True):
        new = data.head(3) if res.model.formula_spec else data.head(3)[["a", "b"]]
        mine = res.get_prediction(new).summary_frame()
        header = [0, 1] if isinstance(mine.columns, pd.MultiIndex) else 0
        there = pd.read_csv(path.with_suffix(".csv"), index_col=0, header=header)
        np.testing.assert_allclose(there.to_numpy(), mine.to_numpy(), rtol=1e-9)


def test_every_load_reads_the_same(res, tmp_path):
    path = tmp_path / "fit"
    res.save(path, format="pickle")
    handle = io.BytesIO(path.read_bytes())
    for back in (
        load(path, allow_code=True),
        load(str(path), allow_code=True),
        load(handle, allow_code=True),
        type(res).load(path, allow_code=True),
        sm.load(path),
        pickle.loads(path.read_bytes()),
        pd.read_pickle(path),
    ):
        assert type(back) is type(res)
        np.testing.assert_array_equal(back.params, res.params)


def test_results_that_pickle_wrote(res, tmp_path):
    pd.to_pickle(res, tmp_path / "fit.pickle")
    np.testing.assert_array_equal(load(tmp_path / "fit.pickle", allow_code=True).params, res.params)


def test_saving_without_data_leaves_the_results_as_they_are(data, tmp_path):
    for cls, results in ((BayesRidge, BayesRidgeResults), (SpikeSlab, SpikeSlabResults)):
        fit = cls.from_formula("y ~ a + b + g", data).fit()
        fitted, text = fit.fittedvalues.copy(), str(fit.summary())
        fit.save(tmp_path / "fit", remove_data=True)
        pd.testing.assert_series_equal(fit.fittedvalues, fitted)
        assert fit.predict().index.equals(data.index)
        assert str(fit.summary()) == text
        np.testing.assert_allclose(fit.model.fit().params, fit.params, rtol=1e-8)
        back = load(tmp_path / "fit")
        assert isinstance(back, results)
        with pytest.raises(ValueError, match="removed"):
            _ = back.fittedvalues
        assert str(back.summary()) == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"a": 1}), "it holds a dict"),
        (pickle.dumps(np.zeros(3)), "it holds a ndarray"),
        (b"", "it is empty"),
        (b"x,y\n1,2\n", "it is no complete pickle"),
        (b"\x80\x05C", "it is no complete pickle"),
        (b"\x80\x05C\x10pybayesridge fix0", "not a fit saved by pybayesridge"),
        (b"PK\x03\x04", "is damaged"),
    ],
)
def test_something_else_is_refused(tmp_path, content, message):
    path = tmp_path / "other"
    path.write_bytes(content)
    for reader in (load, BayesRidgeResults.load, pybayesridge.results.base.LinearResults.load):
        with pytest.raises(ValueError, match=message) as caught:
            reader(path, allow_code=True)
        assert str(path) in str(caught.value)


class Marked:
    """Pickles of it say what they run."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_not_read_unless_asked_for(data, tmp_path, protocol):
    path = tmp_path / "fit"
    path.write_bytes(pickle.dumps(Marked(), protocol))
    named = r"is a pickle, which can run code.*allow_code=True" if protocol >= 2 else "it is no archive"
    for source in (path, io.BytesIO(path.read_bytes())):
        with pytest.raises(ValueError, match=named):
            load(source)
    fit("ridge", data).save(path, format="pickle")
    with pytest.raises(ValueError, match=r"is a pickle, which can run code.*allow_code=True"):
        load(path)


def test_a_model_is_not_a_fit(data, tmp_path):
    pd.to_pickle(BayesRidge.from_formula("y ~ a", data), tmp_path / "model")
    with pytest.raises(ValueError, match=r"it holds a BayesRidge$"):
        load(tmp_path / "model", allow_code=True)


def test_damage_is_seen_before_anything_is_unpickled(res, tmp_path, monkeypatch):
    path = tmp_path / "fit"
    res.save(path, format="pickle")
    content = path.read_bytes()
    monkeypatch.setattr(saved.pickle, "load", lambda file: pytest.fail("unpickled"))
    monkeypatch.setattr(saved.pickle, "loads", lambda file: pytest.fail("unpickled"))
    rng = np.random.default_rng(0)
    start = len(saved.Header(1, 0, bytes(32), pybayesridge.__version__).packed())
    for at in [start, len(content) - 1, *rng.integers(start, len(content), 40)]:
        broken = bytearray(content)
        broken[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is damaged") as caught:
            load(path)
        assert str(path) in str(caught.value)
    for length in [start - 3, start, start + 1, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="is damaged"):
            load(path)
        with pytest.raises(ValueError, match="the file is damaged"):
            load(io.BytesIO(content[:length]))


def test_later_formats_and_foreign_libraries(res, tmp_path):
    path = tmp_path / "fit"
    res.save(path, format="pickle")
    content = path.read_bytes()
    length = len(saved.Header(1, 0, bytes(32), pybayesridge.__version__).packed())
    later = saved.Header(7, len(content) - length, bytes(32), "9.1").packed()
    path.write_bytes(later + content[length:])
    with pytest.raises(ValueError, match=r"written by pybayesridge 9\.1, in format 7.*upgrade pybayesridge"):
        load(path)
    body = b"cno.such.module\nThing\n."
    total = saved._Sum(io.BytesIO())
    total.write(body)
    path.write_bytes(total.header().packed() + body)
    with pytest.raises(ValueError, match=r"cannot be read by version .*ModuleNotFoundError"):
        load(path, allow_code=True)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        load(tmp_path / "none")


@pytest.mark.parametrize("form", ["portable", "pickle"])
def test_streams_without_positions(res, tmp_path, form):
    res.save(tmp_path / "fit", format=form)

    class Stream(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation("seek")

        tell = seek

    trusted = {"allow_code": form == "pickle"}
    np.testing.assert_array_equal(load(Stream((tmp_path / "fit").read_bytes()), **trusted).params, res.params)
    out = Stream()
    res.save(out, format=form)
    np.testing.assert_array_equal(load(Stream(out.getvalue()), **trusted).params, res.params)
