"""The list of pages, their small forms, and the times on made-up shapes."""

import json
import re

import numpy as np
import pytest

from benchmarks import common, pages
from benchmarks.paper_ridge import quick as quick_table2
from benchmarks.paper_ridge import stand_ins


def page(code: str, stored: str = "page") -> pages.Page:
    """A page that this code of Python makes."""
    return pages.Page(("-c", code), stored, ("{out}", "{data}"))


def test_one_failure_does_not_stop_the_others(tmp_path, monkeypatch, capfd):
    said_by = "import os, sys; print(sys.argv[1:], os.environ.get('OPENBLAS_NUM_THREADS'))"
    monkeypatch.setattr(pages, "PAGES", {"bad": page("raise SystemExit(3)"), "good": page(said_by)})
    arguments = ["--quick", "--out", str(tmp_path / "out"), "--data-dir", str(tmp_path / "data")]
    assert pages.main(arguments) == 1
    said = capfd.readouterr()
    assert "bad: FAILED" in said.out
    assert "good: done" in said.out
    assert f"{[str(tmp_path / 'out' / 'good'), str(tmp_path / 'data')]} 1" in said.out
    assert "failed: bad" in said.err
    assert pages.main([*arguments, "--only", "good"]) == 0


def test_all_threads(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    given = pages.surroundings("all")
    assert "OPENBLAS_NUM_THREADS" not in given
    assert given[common.THREADS] == "all"
    assert pages.surroundings("one")["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setenv(common.THREADS, "all")
    monkeypatch.setattr(common.os, "execv", lambda *call: pytest.fail("started again"))
    common.use_one_thread()


@pytest.mark.parametrize(
    ("threads", "stored", "current"),
    [
        ("one", {"threads": 1, "commit": "abc"}, True),
        ("all", {"threads": 1, "commit": "abc"}, False),
        ("all", {"threads": 2, "commit": "abc"}, True),
        ("one", {"threads": 1, "commit": "abd"}, False),
        ("one", {"threads": 1}, False),
    ],
)
def test_pages_of_this_commit_are_left(tmp_path, monkeypatch, threads, stored, current):
    monkeypatch.setattr(pages, "commit", lambda: "abc")
    (tmp_path / "page.json").write_text(json.dumps({"environment": stored}), encoding="utf-8")
    assert pages.is_current(page(""), threads, tmp_path) is current
    assert not pages.is_current(page("", "other"), threads, tmp_path)


def test_the_list_names_every_stored_page():
    stored = {path.stem for path in common.RESULTS.glob("*.json")}
    assert stored <= {page.stored for page in pages.PAGES.values()}


def test_every_page_can_be_made():
    for made in pages.PAGES.values():
        where = made.script[1].replace(".", "/") + ".py" if made.script[0] == "-m" else made.script[0]
        text = (pages.ROOT / where).read_text(encoding="utf-8")
        # A script finds its neighbours, a module the package that it is part of.
        not_found = r"^from benchmarks\b" if made.script[0] != "-m" else r"^(from|import) common\b"
        assert re.search(not_found, text, re.MULTILINE) is None


def test_without_the_papers_data_what_is_shipped_stands_in(tmp_path, capsys):
    pytest.importorskip("sklearn")
    assert quick_table2.main(["--out", str(tmp_path), "--data-dir", str(tmp_path / "none"), "--splits", "1"]) == 0
    assert "what scikit-learn ships stands in" in capsys.readouterr().out
    text = (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert text.count("| sklearn_") == 4


@pytest.mark.parametrize("q", [1, 3])
def test_made_up_shapes(q):
    y, x = stand_ins.made_up(50, 7, q, 0)
    assert x.shape == (50, 7)
    assert y.shape == ((50,) if q == 1 else (50, 3))
    if q > 1:
        np.testing.assert_array_equal(y.sum(axis=1), 1)


def test_columns_are_left_out_beyond_the_cap():
    found = stand_ins.measure("starlight", 1, 6465 * 4, 1)
    assert (found["n"], found["p"], found["q"]) == (6465, 4, 3)
    assert all(found[m] > 0 for m in stand_ins.TIMED)
