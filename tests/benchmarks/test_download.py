"""Fetching the data sets from a server of our own."""

import functools
import http.server
import threading

import pytest

from benchmarks.paper_ridge import download
from benchmarks.paper_ridge.datasets import LOADERS, MissingDataError
from benchmarks.paper_ridge.download import SOURCES, Source
from tests.benchmarks.made_up import abalone, archive, lines, numbers, write, yacht

FILES = {
    "abalone": Source("1/abalone.zip", {"abalone.data": "abalone.data"}, {"abalone": 12}),
    "concrete": Source("165/data.csv", {"data.csv": "concrete.csv"}, {"concrete": 7}),
    "blog": Source("304/blogfeedback.zip", {"*": "BlogFeedback.zip"}, {"blog": 5}),
    "yacht": Source("243/yacht.zip", {"yacht_hydrodynamics.data": "yacht_hydrodynamics.data"}, {"yacht": 10}),
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """Address of a server of made-up archives, and its directory."""
    root = tmp_path / "server"
    write(root, "1", "abalone.zip", archive(abalone__names="-", abalone__data=abalone(12, head=False)))
    write(root, "165", "data.csv", lines(numbers(7, 9), head=["Cement", *"abcdefgh"]))
    inner = archive(blogData_train__csv=lines(numbers(5, 4)))
    write(root, "304", "blogfeedback.zip", archive(BlogFeedback__zip=inner))
    write(root, "243", "yacht.zip", archive(yacht_hydrodynamics__data=yacht(9, " ", head=False)))
    handler = functools.partial(Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/", root
        running.shutdown()
        thread.join()


def fetch(directory, names, server):
    return download.download(directory, names, server[0], FILES)


@pytest.mark.parametrize(("name", "rows"), [("abalone", 12), ("concrete", 7), ("blog", 5)])
def test_what_arrives_can_be_loaded(tmp_path, server, name, rows):
    assert fetch(tmp_path / "data", [name], server) == 0
    assert len(LOADERS[name](tmp_path / "data").x) == rows


def test_only_what_was_asked_for(tmp_path, server, capsys):
    assert fetch(tmp_path / "data", ["abalone", "boston"], server) == 0
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["abalone"]
    assert "not UCI's: boston" in capsys.readouterr().out


def test_other_counts_are_refused(tmp_path, server, capsys):
    assert fetch(tmp_path / "data", ["yacht"], server) == 1
    assert "yacht has 9 rows" in capsys.readouterr().err
    with pytest.raises(MissingDataError):
        LOADERS["yacht"](tmp_path / "data")


def test_missing_member_and_missing_archive(tmp_path, server, capsys):
    write(server[1], "1", "abalone.zip", archive(other__txt="-"))
    (server[1] / "165" / "data.csv").unlink()
    assert fetch(tmp_path / "data", ["abalone", "concrete"], server) == 1
    said = capsys.readouterr().err
    assert "abalone.zip has no abalone.data, only other.txt" in said
    assert "concrete: HTTP Error 404" in said


def test_files_that_are_there_stay(tmp_path, server):
    write(tmp_path / "data", "concrete", "concrete.csv", lines(numbers(7, 9, 5), head=["Cement", *"abcdefgh"]))
    before = (tmp_path / "data" / "concrete" / "concrete.csv").read_bytes()
    assert fetch(tmp_path / "data", ["concrete"], server) == 0
    assert (tmp_path / "data" / "concrete" / "concrete.csv").read_bytes() == before


def test_every_source_has_loaders():
    for folder, source in SOURCES.items():
        assert set(source.rows) <= set(LOADERS), folder
        assert source.members, folder


def test_from_the_command_line_with_another_home(tmp_path, server, capsys):
    from benchmarks.paper_ridge import table2

    arguments = ["--download", "--data-dir", str(tmp_path / "data"), "--data", "concrete", "--base-url", server[0]]
    assert table2.main(arguments) == 1
    assert "concrete has 7 rows after cleaning (4 to train on), not 1030" in capsys.readouterr().err
