"""What scripts change for their own process is changed back after each test."""

import importlib.util
from pathlib import Path

import pytest

# An installed package comes without its benchmarks.
collect_ignore_glob = [] if (Path(__file__).parents[2] / "benchmarks").is_dir() else ["test_*.py"]


@pytest.fixture(autouse=True)
def _parameters_of_matplotlib():
    if importlib.util.find_spec("matplotlib") is None:
        yield
        return
    import matplotlib

    with matplotlib.rc_context():
        yield
