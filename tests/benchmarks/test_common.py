"""What is saved can be read by anyone."""

import json

import pytest

from benchmarks import common


def test_save(tmp_path, capsys):
    data = {"a": [1.5, float("nan")], "b": (True, 2, "x"), "c": {"d": float("inf")}}
    common.save("page", common.environment(["numpy"]), data, "text", tmp_path / "new")
    assert "# page" in capsys.readouterr().out
    assert (tmp_path / "new" / "page.md").read_text(encoding="utf-8").endswith("text\n")
    stored = json.loads((tmp_path / "new" / "page.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert stored["results"] == {"a": [1.5, None], "b": [True, 2, "x"], "c": {"d": None}}
    assert stored["environment"]["packages"].keys() == {"numpy"}


def test_the_page_names_its_commit(tmp_path, capsys, monkeypatch):
    env = {**common.environment([]), "commit": "abc1234"}
    common.save("page", env, {}, "text", tmp_path)
    assert f"{env['date']}, commit abc1234; " in capsys.readouterr().out
    monkeypatch.setattr(common, "__file__", str(tmp_path / "common.py"))
    assert common.commit() is None
