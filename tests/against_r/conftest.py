"""Fixtures: R, or one line that says how to get it; on continuous integration its absence is a failure."""

import os

import numpy as np
import pytest

from tests.against_r import page, r_session, tolerances

HOW = "install R with glmnet, lme4, MASS, mgcv and susieR, and rpy2: `make test-r` does so on Debian"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "against_r" in item.path.parts:
            item.add_marker(pytest.mark.against_r)


def missing(what):
    if os.environ.get("CI"):
        pytest.fail(f"{what}; {HOW}")
    pytest.skip(f"{what}; {HOW}")


@pytest.fixture(scope="session")
def r_or_reason():
    try:
        session = r_session.RSession(r_session.start())
    except RuntimeError as error:
        return str(error)
    page.versions["R"] = session.r_version()
    for package in ("glmnet", "lme4", "MASS", "susieR", "mgcv"):
        if session.has(package):
            page.versions[package] = session.version(package)
    return session


@pytest.fixture
def r(r_or_reason, request):
    """Runs R functions; a test's marker ``r_packages`` names what it needs."""
    if isinstance(r_or_reason, str):
        missing(r_or_reason)
    for marker in request.node.iter_markers("r_packages"):
        for package in marker.args:
            if not r_or_reason.has(package):
                missing(f"the R package {package} is missing")
    return r_or_reason


@pytest.fixture
def note(request):
    """Hold a discrepancy against its tolerance, by the tolerance's name, and remember it for the page."""

    def check(name, discrepancy):
        page.remember(name, request.node.name, float(discrepancy))
        assert discrepancy <= getattr(tolerances, name), name

    return check


@pytest.fixture
def close(note):
    """Hold two arrays against each other: the largest difference beside the largest entry."""

    def check(ours, theirs, name):
        ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
        assert ours.shape == theirs.shape
        finite = np.isfinite(theirs)
        assert np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
        ours, theirs = ours[finite], theirs[finite]
        assert np.isfinite(ours).all()
        size = np.abs(theirs).max(initial=0.0)
        note(name, np.abs(ours - theirs).max(initial=0.0) / (size if size > 0 else 1.0))

    return check


def pytest_sessionfinish():
    if "AGAINST_R_PAGE" in os.environ:
        page.write(os.environ["AGAINST_R_PAGE"])
