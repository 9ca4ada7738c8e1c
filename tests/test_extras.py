"""Every optional part without the package that it needs: the error names the extra and the command to install it."""

import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.cli import BAD_INPUT, main

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

FOR_DEVELOPMENT = {"benchmarks", "dev", "docs"}
"""Extras that no part of the package needs."""

NOT_IMPORTED = {"distributed"}
"""Packages of extras that are for whoever uses them: a cluster of Dask is made by its user."""

IMPORTED_AS = {"scikit-learn": "sklearn", "dask[dataframe]": "dask"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    out = pd.DataFrame(rng.normal(size=(30, 3)), columns=["y", "x1", "x2"])
    out["d"] = (out["x1"] + rng.normal(size=30) > 0).astype(int)
    return out


@pytest.fixture(scope="module")
def fits(frame):
    """A fit of every class of results, and of both kinds where methods answer from one of them alone."""
    binary = {"family": "binomial", "data": frame}
    return [
        BayesRidge.from_formula("y ~ x1 + x2", frame).fit(),
        SpikeSlab.from_formula("y ~ x1 + x2", frame).fit("exact"),
        SpikeSlab.from_formula("y ~ x1 + x2", frame).fit("ep"),
        BayesRidge.from_formula("d ~ x1 + x2", **binary).fit(),
        SpikeSlab.from_formula("d ~ x1 + x2", **binary).fit("exact", rng=0, mcse=0.05),
        SpikeSlab.from_formula("d ~ x1 + x2", **binary).fit("ep"),
    ]


@pytest.fixture
def without(monkeypatch):
    """Make the import of a package fail, as where it is not installed."""
    return lambda package: monkeypatch.setitem(sys.modules, package, None)


def names(error, extra):
    return f"pip install 'pybayesridge[{extra}]'" in str(error)


def packages(extra):
    """The packages of an extra as they are imported."""
    required = [re.match(r"[\w\-\[\]]+", requirement)[0] for requirement in EXTRAS[extra]]
    return [IMPORTED_AS.get(name, name) for name in required if name not in NOT_IMPORTED]


ARGUMENTS = {"plot_effect": ["x1"], "plot_ppc": ["mean"]}


def plots(fit):
    """Names of the pictures of a fit, but of those that its class refuses."""
    found = {name: getattr(fit, name) for name in dir(fit) if name.startswith("plot_")}
    return {name: plot for name, plot in found.items() if "_" not in inspect.signature(plot).parameters}


def test_plots(fits, without):
    without("matplotlib")
    asked, named = set(), set()
    for fit in fits:
        for name, plot in plots(fit).items():
            asked.add((type(fit), name))
            with pytest.raises((ImportError, ValueError)) as caught:
                plot(*ARGUMENTS.get(name, []))
            if isinstance(caught.value, ImportError):
                assert names(caught.value, "plot"), (type(fit), name)
                named.add((type(fit), name))
    refused = {(kind.__name__.removesuffix("Results"), name) for kind, name in asked - named}
    assert refused == {("GeneralizedRidge", "plot_pit"), ("GeneralizedSpikeSlab", "plot_pit")}  # of yes/no responses
    assert len(named) > 25


@pytest.mark.parametrize("package", packages("report"))
@pytest.mark.every_case
def test_reports(fits, without, tmp_path, package):
    without(package)
    for fit in fits:
        with pytest.raises(ImportError) as caught:
            fit.report(tmp_path / "report.html")
        assert names(caught.value, "report")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("extra", ["arviz", "marginaleffects"])
@pytest.mark.every_case
def test_conversions(fits, without, extra):
    for package in packages(extra):
        without(package)
        for fit in fits:
            with pytest.raises(ImportError) as caught:
                getattr(fit, f"to_{extra}")()
            assert names(caught.value, extra)


@pytest.fixture
def no_estimators(monkeypatch):
    """Forget the estimators where they have been imported before."""
    for name in [name for name in sys.modules if name.startswith("pybayesridge.sklearn")]:
        monkeypatch.delitem(sys.modules, name)


def test_estimators(no_estimators, without):
    without("sklearn")
    for name in ("pybayesridge.sklearn", "pybayesridge.sklearn.ridge"):
        with pytest.raises(ImportError) as caught:
            importlib.import_module(name)
        assert names(caught.value, "sklearn")


def test_estimators_with_an_old_scikit_learn(no_estimators, monkeypatch):
    old = ModuleType("sklearn.utils")
    monkeypatch.setitem(sys.modules, "sklearn", ModuleType("sklearn"))
    monkeypatch.setitem(sys.modules, "sklearn.utils", old)
    with pytest.raises(ImportError, match=r"1\.6 or newer") as caught:
        importlib.import_module("pybayesridge.sklearn")
    assert names(caught.value, "sklearn")


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.every_case
def test_streams(model, without, frame, tmp_path):
    without("pyarrow")
    with pytest.raises(ImportError) as caught:
        model.from_parquet(tmp_path / "data.parquet", "y ~ x1")
    assert names(caught.value, "stream")
    with pytest.raises(ImportError) as caught:
        model.from_arrow(frame, "y ~ x1")
    assert names(caught.value, "stream")


def test_progress_of_streams(without, frame, tmp_path):
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "data.parquet")
    without("tqdm")
    path = tmp_path / "data.parquet"
    with pytest.raises(ImportError) as caught:
        BayesRidge.from_parquet(path, "y ~ x1", progress=True)
    assert names(caught.value, "stream")
    assert BayesRidge.from_parquet(path, "y ~ x1").fit().nobs == len(frame)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.every_case
def test_dask(model, without, frame):
    without("dask")
    for source in (
        {"data": frame, "formula": "y ~ x1"},
        {"data": frame[["x1"]].to_numpy(), "endog": frame["y"].to_numpy()},
    ):
        with pytest.raises(ImportError) as caught:
            model.from_dask(**source)
        assert names(caught.value, "dask")


def said(capsys, *command):
    """What a command says when it fails."""
    assert main(list(command)) == BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_command_line(frame, fits, without, tmp_path, capsys):
    table, fit, report = (str(tmp_path / name) for name in ("data.csv", "a.fit", "report.html"))
    frame.to_csv(table, index=False)
    fits[0].save(fit)
    without("pyarrow")
    (tmp_path / "data.parquet").touch()
    assert names(said(capsys, "ridge", "y ~ x1", str(tmp_path / "data.parquet")), "parquet")
    assert names(said(capsys, "predict", fit, table, "--output", str(tmp_path / "out.parquet")), "parquet")
    assert not (tmp_path / "out.parquet").exists()
    without("jinja2")
    for command in ("ridge", "spikeslab"):
        assert names(said(capsys, command, "y ~ x1", table, "--quiet", "--report", report), "report")


def test_every_extra_is_tried():
    source = Path(__file__).read_text(encoding="utf-8")
    tried = set(re.findall(r'names\(.*, "(\w+)"\)', source)) | {"arviz", "marginaleffects"}
    assert tried == set(EXTRAS) - FOR_DEVELOPMENT
