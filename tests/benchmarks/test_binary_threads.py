"""Threads and memory of yes/no fits: one quick case and the page."""

import pytest

pytest.importorskip("sklearn")
from benchmarks import binary_threads as threads


def test_a_case_and_its_page(monkeypatch):
    monkeypatch.setattr(threads, "QUICK_LARGE", 300)
    found = threads.one_case("200,000 × 50", quick=True)
    assert [one["method"] for one in found] == ["GLM", "ep", "laplace"]
    assert all(one["wall"] > 0 for one in found)
    text = threads.page([{"case": "200,000 × 50", "threads": 1, "found": found}])
    assert "GLM" in text
    assert "MiB" in text
