"""Types of the results: mypy knows them, and they are what the attributes hold."""

import inspect
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
from pybayesridge.results.labelled import (
    BayesRidgeResultsWrapper,
    GeneralizedRidgeResultsWrapper,
    GeneralizedSpikeSlabResultsWrapper,
    SpikeSlabResultsWrapper,
)

ROOT = Path(__file__).resolve().parents[1]

SNIPPETS = [Path("tests", "typing", f"{name}.py") for name in ("results", "arguments")]

INTERNAL = {
    "shown_fact",
    "of_earlier",
    "loo_log_density",
    "own_columns",
    "left_out_predictions",
    "importance",
    "hyperparameter_names",
    "sites_fit",
    "center",
    "converged_by_target",
    "shown_coefficients",
    "shown_tables",
    "left_out",
    "check",
    "default_sets",
    "diagnostics_by_target",
    "exchangeable_sets",
    "has_joint_posterior",
    "has_penalty_posterior",
    "hyperparameter_means",
    "hyperparameters_of",
    "log_unit",
    "penalty_distribution",
    "exact_sets",
    "exact_posterior",
    "explained_variance_of",
    "method_entry",
    "noise",
    "noise_sd",
    "penalty_model",
    "posterior",
    "prior_by_column",
    "ridge_fit",
    "law_of_rows",
    "parts",
    "row_law",
    "some_coefficients",
    "standardized_size",
    "starting_point",
    "unit_names",
    "units",
    "as_saved",
    "ask",
    "rows_left_out",
    "shares",
}
"""Names that report, summary and export read of the unlabelled results."""

REFUSED = {"get_influence", "sigma2", "mse_resid", "t_test", "f_test", "wald_test", "pvalues", "tvalues"} | {
    "noise_var",
    "log_evidence",
    "log_evidence_se",
}
"""Names of statsmodels, and of the Gaussian family, that raise in some results."""


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
    if hint is int:
        return isinstance(value, int | np.integer)
    alias = getattr(origin, "__value__", None)  # NumPy's NDArray is one, with Python 3.12 and later
    return holds(value, alias) if alias is not None else isinstance(value, origin or hint)


def test_attributes_hold_what_they_declare(fits):
    classes = (LinearModel, BayesRidge, SpikeSlab)
    models = {cls.__name__: cls for cls in classes}
    for res in fits:
        hints = typing.get_type_hints(type(res), localns=models)
        for name, hint in hints.items():
            if name != "_wrap_attrs" and name != "_results":
                assert holds(getattr(res, name), hint), f"{type(res).__name__}.{name} is {type(getattr(res, name))}"


def test_every_attribute_of_the_results_is_declared(fits):
    for res in fits:
        declared = {name for cls in type(res).__mro__ for name in (*vars(cls), *vars(cls).get("__annotations__", {}))}
        own = [cls for cls in type(res.unlabelled).__mro__ if cls.__module__.startswith("pybayesridge")]
        there = {name for cls in own for name in vars(cls)} | set(vars(res.unlabelled))
        public = {name for name in there if not name.startswith("_")}
        assert public - declared - INTERNAL - REFUSED == set()


@pytest.mark.parametrize(
    "wrapper",
    [
        BayesRidgeResultsWrapper,
        GeneralizedRidgeResultsWrapper,
        SpikeSlabResultsWrapper,
        GeneralizedSpikeSlabResultsWrapper,
    ],
)
def test_methods_keep_signature_and_docstring(wrapper):
    for name in ("summary", "predict", "sample"):
        assert getattr(wrapper, name).__doc__
        assert "self" in inspect.signature(getattr(wrapper, name)).parameters


def test_several_targets_label_every_number_of_a_target(fits):
    res = fits[0]
    for name in ("loo_rsquared", "loo_mse", "penalty_information", "quadrature_error", "lambda_"):
        assert list(getattr(res, name).index) == ["u", "v"]
