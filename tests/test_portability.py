"""Other systems, as far as one can stand for them: where libraries are, how files behave, how text is encoded."""

import errno
import io
import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, Moments, SpikeSlab, load
from pybayesridge.cli import BAD_INPUT, BROKEN_PIPE, main
from pybayesridge.files import write_text
from pybayesridge.linalg import blas

SAME = 1e-12
"""Between fits with and without a limit on threads: sums may be taken in another order."""

OPEN_FILES = Path("/proc/self/fd")

shows_open_files = pytest.mark.skipif(not OPEN_FILES.exists(), reason="no /proc/self/fd")


class Libraries:
    """Stands for threadpoolctl's controller where the BLAS libraries are at these paths."""

    def __init__(self, paths, limited):
        self.paths, self.limited = paths, limited

    def info(self):
        return [{"filepath": path} for path in self.paths]

    def select(self, user_api=None, filepath=None):
        assert user_api in (None, "blas")
        return Libraries([path for path in self.paths if filepath is None or path in filepath], self.limited)

    @contextmanager
    def limit(self, limits):
        assert limits == 1
        self.limited.append(self.paths)
        yield


SITE = "/home/a user/venv/lib/python3.11/site-packages"
WINDOWS = r"C:\Users\A User\venv\Lib\site-packages"

LAYOUTS = {
    "wheels, Linux": (
        [f"{SITE}/numpy.libs/libopenblas64_-fd.so", f"{SITE}/scipy.libs/libopenblas-68.so"],
        1,
    ),
    "wheels, Windows": ([rf"{WINDOWS}\numpy.libs\libopenblas64.dll", rf"{WINDOWS}\scipy.libs\libopenblas.dll"], 1),
    "older wheels, Windows": (
        [rf"{WINDOWS}\numpy\.libs\libopenblas64.dll", rf"{WINDOWS}\scipy.libs\blas.dll"],
        1,
    ),
    "wheels, macOS": ([f"{SITE}/numpy/.dylibs/libopenblas64_.0.dylib", f"{SITE}/scipy/.dylibs/libopenblas.dylib"], 1),
    "macOS, NumPy with Accelerate": ([f"{SITE}/scipy/.dylibs/libscipy_openblas.dylib"], 0),
    "conda, OpenBLAS": (["/opt/conda/envs/numpy/lib/libopenblasp-r0.3.30.so"], 0),
    "conda, MKL": (["/opt/conda/envs/numpy/lib/libmkl_rt.so.2"], 0),
    "conda, MKL, Windows": ([r"C:\miniconda3\envs\numpy\Library\bin\mkl_rt.2.dll"], 0),
    "conda, with NumPy's wheel": ([f"{SITE}/numpy.libs/libopenblas64.so", "/opt/conda/lib/libopenblas.so.0"], 1),
    "Debian": (["/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"], 0),
    "a name alone": (["libopenblas.so"], 0),
    "none that is known": ([], 0),
}
"""Paths of libraries, and how many of them are NumPy's own where SciPy has another: they come first."""


@pytest.fixture
def discovery(monkeypatch):
    """Replace the controller of threadpoolctl; what was found before is forgotten."""
    blas._pools.cache_clear()
    yield lambda make: monkeypatch.setattr(blas, "ThreadpoolController", make)
    blas._pools.cache_clear()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.every_case
def test_threads_are_limited_where_libraries_are_found(discovery, layout):
    paths, numpys = LAYOUTS[layout]
    limited = []
    discovery(lambda: Libraries(paths, limited))
    with blas.one_pool(0.0):
        pass
    assert limited == [paths]
    with blas.one_pool(10 * blas.WORTH_THREADS):
        pass
    assert limited[1:] == ([paths[:numpys]] if numpys else [])


def not_found():
    raise OSError("no library can be asked")


def test_without_any_library_results_are_the_same(discovery):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    y = x[:, 0] + rng.normal(size=40)
    before = SpikeSlab(y, x).fit("ep").params
    for make in (lambda: Libraries([], []), not_found):
        blas._pools.cache_clear()
        discovery(make)
        np.testing.assert_allclose(SpikeSlab(y, x).fit("ep").params, before, rtol=SAME)
    assert blas._pools() == (None, None)


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_need_no_discovery(discovery, order):
    discovery(not_found)
    rng = np.random.default_rng(1)
    a, b = (np.asarray(rng.normal(size=shape), order=order) for shape in ((6, 4), (4, 3)))
    np.testing.assert_allclose(blas.product(a, b), np.einsum("ij,jk->ik", a, b), rtol=SAME, atol=SAME)
    square = np.tril(blas.add_square(None, a, transposed=True))
    np.testing.assert_allclose(square, np.tril(np.einsum("ij,ik->jk", a, a)), rtol=SAME, atol=SAME)


def opened():
    """The files that this process has open."""
    found = set()
    for link in OPEN_FILES.iterdir():
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found


@pytest.fixture
def windows(monkeypatch):
    """The file operations of Windows for what writes files: no owners, no open file replaced, no folder opened."""
    system = SimpleNamespace(**{name: getattr(os, name) for name in dir(os) if not name.startswith("__")})
    del system.chown
    system.name = "nt"

    def replace(source, target):
        if opened() & {os.path.realpath(source), os.path.realpath(target)}:
            raise PermissionError(errno.EACCES, "The process cannot access the file", source, 32, target)
        os.replace(source, target)

    def open_file(path, flags, mode=0o777):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return os.open(path, flags, mode)

    def chmod(path, mode):
        assert mode & stat.S_IWRITE, "a file that cannot be written cannot be replaced"
        os.chmod(path, 0o666)

    system.replace, system.open, system.chmod = replace, open_file, chmod
    monkeypatch.setattr("pybayesridge.files.os", system)


@pytest.fixture
def folder(tmp_path):
    """A folder whose name has what names on other systems have: blanks, letters beyond ASCII."""
    path = tmp_path / "Jörg's data (1)"
    path.mkdir()
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["y", "größe λ"])
    frame.to_csv(path / "table.csv", index=False)
    return path


def fitted(folder):
    return BayesRidge.from_formula("y ~ .", pd.read_csv(folder / "table.csv")).fit()


@shows_open_files
def test_files_are_replaced_as_on_windows(windows, folder):
    res, moments = fitted(folder), Moments.from_arrays(np.arange(9.0), np.eye(9, 3))
    table, fit, out = (str(folder / name) for name in ("table.csv", "a fit", "out.csv"))
    for _ in range(2):
        res.save(fit)
        assert load(fit).nobs == res.nobs
        res.save(fit, format="pickle")
        assert load(fit, allow_code=True).nobs == res.nobs
        assert main(["ridge", "y ~ .", table, "--quiet", "--save", fit]) == 0
        assert main(["predict", fit, table, "--output", out]) == 0
        moments.save(folder / "moments")
        assert Moments.load(folder / "moments").n == 9
        write_text(folder / "text", "größe\n")
        assert (folder / "text").read_bytes() == "größe\n".encode()
    assert sorted(path.name for path in folder.iterdir()) == ["a fit", "moments", "out.csv", "table.csv", "text"]


@shows_open_files
def test_a_file_that_another_program_has_open_is_left_as_it_was(windows, folder):
    path = folder / "open.fit"
    path.write_bytes(b"old")
    with open(path, "rb"), pytest.raises(PermissionError, match=r"open\.fit"):
        fitted(folder).save(path)
    assert path.read_bytes() == b"old"
    assert sorted(file.name for file in folder.iterdir()) == ["open.fit", "table.csv"]


@shows_open_files
def test_what_was_read_is_closed(folder):
    fitted(folder).save(folder / "fit")
    Moments.from_arrays(np.arange(9.0), np.eye(9, 3)).save(folder / "moments")
    load(folder / "fit")
    Moments.load(folder / "moments")
    assert main(["predict", str(folder / "fit"), str(folder / "table.csv"), "--output", str(folder / "out.tsv")]) == 0
    assert not [name for name in opened() if name.startswith(str(folder))]


def test_a_folder_is_no_file(windows, folder):
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        write_text(folder, "text")


@pytest.mark.skipif(os.name == "nt", reason="a backslash separates folders there")
def test_a_backslash_is_a_letter_of_a_name(folder):
    table = folder / "C:\\data\\table.new.csv"
    table.write_bytes((folder / "table.csv").read_bytes())
    fit, out = folder / "a\\fit", folder / "out\\1.csv"
    assert main(["ridge", "y ~ .", str(table), "--quiet", "--save", str(fit)]) == 0
    assert main(["predict", str(fit), str(table), "--output", str(out)]) == 0
    assert len(pd.read_csv(out)) == 30


@pytest.mark.parametrize("start", [b"", "\ufeff".encode()], ids=["", "byte order mark"])
def test_line_ends_of_windows(folder, capsys, start):
    text = (folder / "table.csv").read_bytes().replace(b"\r\n", b"\n")
    printed = []
    for content in (text, start + text.replace(b"\n", b"\r\n")):
        (folder / "table.csv").write_bytes(content)
        assert main(["ridge", "y ~ .", str(folder / "table.csv")]) == 0
        printed.append(capsys.readouterr().out)
    assert "größe λ" in printed[0]
    assert printed[0] == printed[1]


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def printed_in(monkeypatch, folder, encoding, kind):
    """What a command that names a column in German and Greek writes to an output of that encoding."""
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", kind(raw, encoding=encoding))
    status = main(["ridge", "y ~ .", str(folder / "table.csv")])
    sys.stdout.flush()
    return status, raw.getvalue()


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "utf-8"])
@pytest.mark.every_case
def test_files_and_pipes_get_utf_8(monkeypatch, folder, encoding):
    status, raw = printed_in(monkeypatch, folder, encoding, io.TextIOWrapper)
    assert status == 0
    assert "größe λ" in raw.decode("utf-8")


def test_a_terminal_without_the_letters_gets_their_numbers(monkeypatch, folder):
    status, raw = printed_in(monkeypatch, folder, "cp1252", Terminal)
    assert status == 0
    assert r"größe \u03bb" in raw.decode("cp1252")


class Gone(io.StringIO):
    """A pipe whose reader has gone, on Windows."""

    def flush(self):
        raise OSError(errno.EINVAL, "Invalid argument")


def test_a_reader_that_has_gone(monkeypatch, folder, capsys):
    command = ["ridge", "y ~ .", str(folder / "table.csv")]
    for platform, status in (("linux", BAD_INPUT), ("win32", BROKEN_PIPE)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "platform", platform)
            patch.setattr(sys, "stdout", Gone())
            assert main(command) == status
            sys.stdout.close()  # what stands in its place from then on
        assert bool(capsys.readouterr().err) == (platform == "linux")
