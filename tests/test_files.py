"""Whatever is written replaces the old file whole, or leaves it as it was."""

import errno
import io
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, Moments, load
from pybayesridge.cli import main
from pybayesridge.files import write_text, written_whole

OLD = b"what was there before"

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, links and devices of POSIX")


@pytest.fixture(scope="module")
def res():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    return BayesRidge(x[:, 0] + rng.normal(size=60), x).fit()


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["y", "x"])
    (tmp_path / "data").mkdir()
    frame.to_csv(tmp_path / "data" / "table.csv", index=False)
    return tmp_path / "data" / "table.csv"


def full_after(monkeypatch, size, error):
    """Let every file that the package opens for writing break after some bytes."""
    real_open = open

    class Breaking:
        def __init__(self, file):
            self.file, self.left = file, size

        def write(self, data):
            self.left -= memoryview(data).nbytes
            if self.left < 0:
                raise error
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *what):
            self.file.close()

    def breaking(name, mode="r", *args, **kwargs):
        file = real_open(name, mode, *args, **kwargs)
        return Breaking(file) if "r" not in mode else file

    monkeypatch.setattr("pybayesridge.files.open", breaking, raising=False)


def writers(res, table, path):
    """Every way in which the package writes a file."""
    moments = Moments.from_arrays(np.arange(9.0), np.eye(9, 3))
    saved = table.parent / "model.fit"
    command = ["ridge", "y ~ x", str(table), "--quiet"]
    assert main([*command, "--save", str(saved)]) == 0
    ways = {
        "save": lambda: res.save(path),
        "save without data": lambda: res.save(path, remove_data=True),
        "moments": lambda: moments.save(path),
        "command line, fit": lambda: main([*command, "--save", str(path)]),
        "command line, predictions": lambda: main(["predict", str(saved), str(table), "--output", str(path)]),
    }
    if "matplotlib" in sys.modules or _there("matplotlib"):
        ways["report"] = lambda: res.report(path)
    if _there("pyarrow"):
        parquet = path.with_suffix(".parquet")
        ways["command line, Parquet"] = lambda: main(["predict", str(saved), str(table), "--output", str(parquet)])
    return ways


def _there(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=["full disk", "interrupt"]
)
def test_a_write_that_fails_leaves_the_old_file(res, table, tmp_path, monkeypatch, capsys, error):
    path = tmp_path / "out.csv"
    ways = writers(res, table, path)
    full_after(monkeypatch, 100, error)
    for way, write in ways.items():
        target = path.with_suffix(".parquet") if "Parquet" in way else path
        target.write_bytes(OLD)
        if way.startswith("command"):
            assert write() == (130 if isinstance(error, KeyboardInterrupt) else 2), way
            if isinstance(error, OSError):
                told = capsys.readouterr().err
                assert f"{target}: No space left on device" in told, way
        elif isinstance(error, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                write()
        else:
            with pytest.raises(OSError, match="No space left") as caught:
                write()
            assert caught.value.errno == errno.ENOSPC
            assert str(target) in str(caught.value), way
        assert target.read_bytes() == OLD, way
        target.unlink()
        assert [p.name for p in tmp_path.iterdir()] == ["data"], way


def test_whatever_is_written_replaces_the_old_file(res, table, tmp_path, capsys):
    path = tmp_path / "out.csv"
    for way, write in writers(res, table, path).items():
        target = path.with_suffix(".parquet") if "Parquet" in way else path
        target.write_bytes(OLD * 100_000)
        write()
        assert OLD not in target.read_bytes(), way
        target.unlink()
        assert [p.name for p in tmp_path.iterdir()] == ["data"], way


@posix
def test_a_full_device(res):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        res.save("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@posix
def test_permissions_are_those_of_the_old_file_or_of_the_umask(tmp_path):
    path = tmp_path / "a"
    before = os.umask(0o027)
    try:
        write_text(path, "new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_text(path, "newer")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        private = tmp_path / "b"
        private.touch(0o600)
        with written_whole(private) as file:
            (beside,) = (p for p in tmp_path.iterdir() if p.name.endswith(".tmp"))
            assert stat.S_IMODE(beside.stat().st_mode) == 0o600
            file.write(b"secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert path.read_text(encoding="utf-8") == "newer"


@posix
def test_a_file_that_must_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    path.chmod(0o444)
    real = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: real(p, mode) and str(p) != str(path))
    with pytest.raises(PermissionError, match=str(path)):
        write_text(path, "new")
    assert path.read_bytes() == OLD


@posix
def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    for text in ("made through a link", "replaced through a link"):
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text(encoding="utf-8") == text
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "link", "target"]


@posix
def test_a_pipe_is_written_directly(tmp_path, res):
    reading, writing = os.pipe()
    try:
        moments = Moments.from_arrays(np.arange(9.0), np.eye(9, 3))
        moments.save(f"/dev/fd/{writing}")
        os.close(writing)
        with open(reading, "rb", closefd=False) as file:
            assert Moments.load(io.BytesIO(file.read())).n == 9
    finally:
        os.close(reading)


def test_file_objects_are_handed_through(res):
    handle = io.BytesIO()
    with written_whole(handle) as file:
        assert file is handle
    assert not handle.closed


def test_several_fits_in_one_file_object(res):
    handle = io.BytesIO()
    res.save(handle, format="pickle")
    res.save(handle, remove_data=True, format="pickle")
    handle.seek(0)
    first, second = (load(handle, allow_code=True) for _ in range(2))
    assert first.model.exog is not None
    assert second.model.exog is None


def test_errors_name_the_file(res, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"fit\.pickle"):
        res.save(tmp_path / "none" / "fit.pickle")
    with pytest.raises(IsADirectoryError, match=str(tmp_path.name)):
        res.save(tmp_path)
    with pytest.raises(ValueError, match=r"given by its name or as an open binary file, not as 3\.5"):
        res.save(3.5)


def test_long_names(tmp_path, res):
    path = tmp_path / ("x" * 250)
    res.save(path)
    assert load(path).nobs == res.nobs


@pytest.mark.parametrize("name", ["p.csv.gz", "p.csv.zip", "p.tsv.xz", "p.csv"])
def test_compressed_predictions(res, table, tmp_path, name):
    saved = tmp_path / "fit"
    assert main(["ridge", "y ~ x", str(table), "--quiet", "--save", str(saved)]) == 0
    assert main(["predict", str(saved), str(table), "--output", str(tmp_path / name)]) == 0
    back = pd.read_csv(tmp_path / name, sep="\t" if "tsv" in name else ",")
    assert "obs_ci_upper" in back
    assert len(back) == 30
