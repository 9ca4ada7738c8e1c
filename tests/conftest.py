"""Fixtures of several files."""

import pytest


@pytest.fixture
def sketched(monkeypatch):
    """Pictures of reports are drawn but not laid out and written, which is what takes time."""
    from matplotlib.figure import Figure

    def svg(draw, number, height):
        draw(ax=Figure().subplots())
        return "<svg></svg>"

    monkeypatch.setattr("pybayesridge.report.shared.svg", svg)
