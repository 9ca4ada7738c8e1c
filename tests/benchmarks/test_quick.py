"""The quick form of the benchmarks, and the times on made-up shapes."""

import numpy as np
import pytest

pytest.importorskip("benchmarks.quick")

from benchmarks import quick
from benchmarks.paper_ridge import quick as quick_table2
from benchmarks.paper_ridge import stand_ins


def test_one_failure_does_not_stop_the_others(tmp_path, monkeypatch, capfd):
    scripts = {
        "bad": ["-c", "raise SystemExit(3)"],
        "good": ["-c", "import sys; print(sys.argv[1:])", "{out}", "{data}"],
    }
    monkeypatch.setattr(quick, "SCRIPTS", scripts)
    arguments = ["--out", str(tmp_path / "out"), "--data-dir", str(tmp_path / "data"), "--only", *scripts]
    assert quick.main(arguments) == 1
    said = capfd.readouterr()
    assert "bad: FAILED" in said.out
    assert "good: done" in said.out
    assert str([str(tmp_path / "out" / "good"), str(tmp_path / "data")]) in said.out
    assert "failed: bad" in said.err
    assert quick.main([*arguments[:-2], "good"]) == 0


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
