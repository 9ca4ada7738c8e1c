"""The directions of imports that pyproject.toml states (the repository map of CONTRIBUTING.md)."""

from pathlib import Path

import pytest

pytest.importorskip("importlinter")

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).resolve().parents[1]


def test_imports_keep_their_direction(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out
