"""What scripts change for their own process is changed back after each test."""

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def _parameters_of_matplotlib():
    if importlib.util.find_spec("matplotlib") is None:
        yield
        return
    import matplotlib

    with matplotlib.rc_context():
        yield
