"""Types of the results: mypy knows them, and they are what the attributes hold."""

import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.models.base import LinearModel
from pybayesridge.models.priors import RidgeModel, SelectionModel
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.labelled import Labelled
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults

ROOT = Path(__file__).resolve().parents[1]

SNIPPETS = [Path("tests", "typing", f"{name}.py") for name in ("results", "arguments")]

GAUSSIAN_ALONE = {"sigma2", "noise_var", "log_evidence"}
"""Numbers of Gaussian selections, where other families have properties that raise."""


def spoken(text):
    """A type as the comments of the snippet write it: no module, no parameters of arrays and Series."""
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("Series[Any]", "Series")
    return re.sub(r"\bndarray\[(?:[^][]|\[[^][]*\])*\]", "ndarray", text)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.stem)
def test_mypy_knows_what_users_write(snippet):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(snippet)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    found = {}
    for line in run.stdout.splitlines():
        path, number, severity, message = line.split(":", 3)
        assert Path(path) == snippet, line
        revealed = re.fullmatch(r' Revealed type is "(.*)"', message)
        told = re.sub(r'("from_\w+") of "StreamedModel"', r"\1", re.sub(r' for "\w+" of.*', "", message))
        error = f"{severity.strip()}:{re.split('; expected|  .(?=[a-z-]+.$)', told)[0]}"
        if not revealed and severity.strip() == "note":
            continue
        found[int(number)] = spoken(revealed[1]) if revealed else error
    expected = {
        number: line.split("  # ")[1]
        for number, line in enumerate((ROOT / snippet).read_text(encoding="utf-8").splitlines(), 1)
        if "  # " in line
    }
    assert found == expected


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=["a", "b", "c"])
    Y = pd.DataFrame({"u": X["a"] + rng.normal(size=30), "v": rng.normal(size=30)})
    ridge = [BayesRidge(y, X).fit(method) for y in (Y, Y["u"]) for method in ("exact", "em", "loocv")]
    binary = BayesRidge(Y["u"] > 0, X, family="binomial").fit()
    chosen = SpikeSlab(Y["u"] > 0, X, family="binomial").fit(mcse=0.5, chains=1)
    return [
        *ridge,
        binary,
        chosen,
        SpikeSlab(Y["u"], X).fit(),
        SpikeSlab(Y["u"], X, prior_inclusion=[0.1, 0.2, 0.3]).fit(),
    ]


def holds(value, hint):
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(holds(value, each) for each in typing.get_args(hint))
    if hint is typing.Any:
        return True
    if origin in (typing.ClassVar, Labelled):
        return holds(value, typing.get_args(hint)[0])
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if hint is int:
        return isinstance(value, int | np.integer)
    alias = getattr(origin, "__value__", None)  # NumPy's NDArray is one, with Python 3.12 and later
    return holds(value, alias) if alias is not None else isinstance(value, origin or hint)


def test_attributes_hold_what_they_declare(fits):
    classes = (LinearModel, RidgeModel, SelectionModel)
    names = {cls.__name__: cls for cls in classes}
    for res in fits:
        hints = typing.get_type_hints(type(res), localns=names)
        for name, hint in hints.items():
            if not name.startswith("_") and hasattr(res, name):
                assert holds(getattr(res, name), hint), f"{type(res).__name__}.{name} is {type(getattr(res, name))}"


def test_every_attribute_of_the_results_is_declared(fits):
    for res in fits:
        declared = {name for cls in type(res).__mro__ for name in (*vars(cls), *vars(cls).get("__annotations__", {}))}
        assert {name for name in vars(res) if not name.startswith("_")} - GAUSSIAN_ALONE <= declared


@pytest.mark.parametrize(
    "results",
    [BayesRidgeResults, GeneralizedRidgeResults, SpikeSlabResults, GeneralizedSpikeSlabResults],
)
def test_labelled_attributes_have_docstrings(results):
    found = {name for name in dir(results) if isinstance(getattr(results, name), Labelled)}
    assert {"params", "bse", "fittedvalues", "resid", "rsquared", "prob_positive"} <= found
    undocumented = {name for name in found if not getattr(results, name).__doc__}
    assert undocumented <= {"lambda_", "tau2", "sigma2"}  # among the attributes of the class


def test_several_targets_label_every_number_of_a_target(fits):
    res = fits[0]
    for name in ("loo_rsquared", "loo_mse", "penalty_information", "quadrature_error", "lambda_"):
        assert list(getattr(res, name).index) == ["u", "v"]
