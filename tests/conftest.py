"""Options and fixtures of several files."""

from collections import defaultdict

import pytest

from tests.effort import chosen


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, metavar="N", help="of each parametrised test at most N cases")


def pytest_collection_modifyitems(config, items):
    """Leave out the cases that ``--cases`` does not ask for, but of tests marked ``every_case``."""
    most = config.getoption("--cases")
    if most is None:
        return
    cases = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("every_case") is None:
            cases[item.path, item.cls, item.originalname].append(item.nodeid)
    left_out = {name for names in cases.values() for name in set(names) - chosen(names, most)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.fixture(scope="module")
def short_runs():
    """Sampled selections may stop after few steps: for tests of what is made of their numbers, not of the numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pybayesridge.selection.sampler.PHASES", (1, 2))
        yield


@pytest.fixture
def sketched(monkeypatch):
    """Pictures of reports are drawn but not laid out and written, which is what takes time."""
    from matplotlib.figure import Figure

    def svg(draw, number, height):
        draw(ax=Figure().subplots())
        return "<svg></svg>"

    monkeypatch.setattr("pybayesridge.report.figures.svg", svg)
