"""The R package beside the Python package: each with its own formulas, in a session of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from tests.against_r.conftest import missing

SCRIPT = Path(__file__).with_name("front_end.R")
LIMITS = ("conf_int", "credible", "prediction")
METHODS = ["em", "exact", "loocv", "gcv", "fixed"]

pytestmark = pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")

DATA = """
function(name) {
  data <- as.data.frame(get(name))
  lapply(data, function(column) if (is.factor(column)) as.character(column) else as.numeric(column))
}
"""


@pytest.fixture(scope="module")
def theirs():
    """What the R package printed."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        missing("Rscript is missing")
    env = os.environ | {"RETICULATE_PYTHON": sys.executable}
    installed = subprocess.run([rscript, "-e", "library(pybayesridge)"], capture_output=True, env=env, check=False)
    if installed.returncode:
        missing("the R package pybayesridge is not installed")
    out = subprocess.run([rscript, str(SCRIPT)], capture_output=True, text=True, env=env, check=False)
    assert out.returncode == 0, out.stderr
    lines = out.stdout.splitlines()
    return {
        tuple(head.split("|")): np.array(numbers.split(), dtype=float)
        for head, numbers in zip(lines[::2], lines[1::2], strict=True)
    }


@pytest.fixture
def frame(r):
    def get(name):
        data = pd.DataFrame(r(DATA, name=name))
        data.columns = [str(column).replace(".", "_") for column in data.columns]
        return data

    return get


def tolerance(what):
    return "FRONT_END_LIMITS" if what in LIMITS else "FRONT_END"


def wide():
    i, j = np.arange(1, 61)[:, None], np.arange(1, 401)
    x = np.sin(i * np.sqrt(j))
    return x[:, 0] - 2 * x[:, 6] + np.sin(100.0 * np.arange(1, 61)), x


def model_and_rows(case, frame):
    if case == "wide":
        y, x = wide()
        return BayesRidge(y, x), x[:3] + 0.5
    name = case if case in ("iris", "longley", "warpbreaks") else "mtcars"
    data = frame(name)
    others = " + ".join(column for column in data.columns if column not in ("mpg", "Employed"))
    formula, options = {
        "mtcars": (f"mpg ~ {others}", {}),
        "iris": ("Sepal_Length ~ Species * Petal_Width", {}),
        "longley": (f"Employed ~ {others}", {}),
        "warpbreaks": ("breaks ~ wool * tension", {"unpenalized": ["tension"]}),
        "weighted": ("mpg ~ wt + log(hp)", {"weights": "qsec"}),
        "targets": ("mpg + qsec ~ wt + hp", {}),
    }[case]
    if case == "warpbreaks":
        # R has the levels in the order L, M, H.
        data["tension"] = pd.Categorical(data["tension"], ["L", "M", "H"])
    return BayesRidge.from_formula(formula, data, **options), data.iloc[[0, 10, 12]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", ["mtcars", "iris", "longley", "warpbreaks", "weighted", "targets", "wide"])
def test_every_number(case, method, theirs, frame, close):
    model, rows = model_and_rows(case, frame)
    res = model.fit(method, lam=1.5 if method == "fixed" else None)
    q = 2 if case == "targets" else 1
    k = len(model.exog_names)
    ours = {
        what: np.asarray(getattr(res, what), dtype=float).reshape(-1, order="F")
        for what in ("params", "bse", "lambda_", "sigma2", "log_marginal", "df_model", "rsquared", "fittedvalues")
    }
    # R's intervals: rows are coefficients under each target, then the limits.
    ours["conf_int"] = (
        np.asarray(res.conf_int(0.1)).reshape(k, q, 2).transpose(1, 0, 2).reshape(-1, 2).ravel(order="F")
    )
    table = res.get_prediction(rows).summary_frame(0.1).to_numpy().reshape(3, q, 6)
    for what, columns in (("credible", [0, 2, 3]), ("prediction", [0, 4, 5])):
        ours[what] = table[:, :, columns].transpose(0, 2, 1).ravel(order="F")
    if case != "wide":
        for i in range(q):
            ours[f"cov{i + 1}"] = np.asarray(res.cov_params(i)).ravel(order="F")
    for what, numbers in ours.items():
        close(numbers, theirs[f"{case} {method}", what], tolerance(what))


def crowd():
    """Fractions that both languages have to the last digit, laid out as R does: sums then are rounded alike."""
    i, j = np.arange(1, 41)[:, None], np.arange(1, 19)
    x = ((i**2 * j + 3 * i * j**2 + 7 * i) % 101 - 50) / 25
    x[:, 1] = x[:, 0] + x[:, 1] / 8
    return x[:, 0] + x[:, 4] / 2 + (i[:, 0] ** 3 % 31 - 15) / 16, np.asfortranarray(x)


def selection_and_rows(case, frame):
    if case == "sampled":
        y, x = crowd()
        return SpikeSlab(y, x).fit("exact", mcse=0.05), x[:3] + 0.5
    data = frame("mtcars")
    rows = data.iloc[[0, 10, 12]]
    if case == "terms":
        return SpikeSlab.from_formula("mpg ~ wt + hp + C(cyl) + qsec", data).fit("exact"), rows
    given = {"weights": "disp", "unpenalized": ["am"], "prior_inclusion": 0.4, "noise_var": 6.0}
    return SpikeSlab.from_formula("mpg ~ wt + hp + qsec + am", data, **given).fit("exact"), rows


def table_numbers(table, place):
    """The columns of a table one after another, names of coefficients as their positions from 1."""
    parts = [table[name].map(place) if name == "column" else table[name] for name in table]
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


@pytest.mark.parametrize("case", ["terms", "given", "sampled"])
def test_every_number_of_a_selection(case, theirs, frame, close):
    res, rows = selection_and_rows(case, frame)
    place = {name: i + 1.0 for i, name in enumerate(res.model.exog_names)}
    penalized = sorted(res.penalized_names, key=place.get)
    best = res.models(5)
    held = [place[name] for columns in best["columns"] for name in columns]
    ours = {
        name: getattr(res, name)
        for name in (
            "params",
            "bse",
            "inclusion_prob",
            "inclusion_se",
            "group_inclusion_prob",
            "group_inclusion_se",
        )
    }
    ours |= {
        "log_evidence": [res.log_evidence, res.log_evidence_se],
        "conf_int": np.ravel(res.conf_int(0.1), order="F"),
        "cov": np.ravel(res.cov_params()),
        "credible_sets": table_numbers(res.credible_sets(0.8, 0.4), place),
        "select": table_numbers(res.select(0.3).reset_index(names="column"), place),
        "pair_inclusion": np.ravel(res.pair_inclusion(penalized)),
        "models": np.concatenate([best["size"], best["probability"], held]),
    }
    table = res.get_prediction(rows).summary_frame(0.1).to_numpy()
    ours |= {"credible": table[:, [0, 2, 3]].ravel(order="F"), "prediction": table[:, [0, 4, 5]].ravel(order="F")}
    hyper = res.hyperparameters(0.1)
    ours |= {row: hyper.loc[row] for row in hyper.index}
    for what, numbers in ours.items():
        close(np.asarray(numbers, dtype=float), theirs[f"selection {case}", what], tolerance(what))
