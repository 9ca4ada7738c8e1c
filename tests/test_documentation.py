"""What the documentation shows is what the code does."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pybayesridge
from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.cli.demo import demo
from pybayesridge.results.base import LinearResults
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

PRINTED = 2e-3
"""R prints four significant digits in its tables; the last may be rounded either way."""

THREE_DIGITS = 5.01e-3
"""Half a unit in the third significant digit, which every number of a table has, and rounding."""

OPTIONAL = ("arviz", "jinja2", "matplotlib", "polars", "pyarrow", "sklearn")

WITH_EXAMPLES = [
    BayesRidge,
    BayesRidge.fit,
    BayesRidge.from_formula,
    SpikeSlab,
    SpikeSlab.fit,
    LinearResults.get_prediction,
    BayesRidgeResults.hyperparameters,
    BayesRidgeResults.sample,
    SpikeSlabResults.sample,
    pybayesridge.compare_evidence,
    pybayesridge.polynomial_features,
]


def modules():
    names = (found.name for found in pkgutil.walk_packages(pybayesridge.__path__, "pybayesridge."))
    return [name for name in names if not name.endswith("__main__")]


def doctests():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = []
    for name in modules():
        try:
            found += finder.find(importlib.import_module(name))
        except ImportError as error:
            # What an extra brings is not in every environment; each such module says which extra.
            if "pybayesridge[" not in str(error) and error.name not in OPTIONAL:
                raise
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", doctests(), ids=lambda test: test.name)
def test_examples_of_docstrings(example):
    failures = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("member", WITH_EXAMPLES, ids=lambda member: member.__qualname__)
def test_main_functions_have_an_example(member):
    assert ">>> " in member.__doc__


def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language, text=None):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text or readme(), flags=re.MULTILINE | re.DOTALL)
    return [code for name, code in found if name == language]


def test_python_of_the_readme_runs():
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=40) for name in ("x1", "x2", "age")}
    data = pd.DataFrame(columns | {"g": rng.choice(["a", "b"], 40)})
    data["y"] = data["x1"] + (data["g"] == "b") + rng.normal(size=40)
    names = {"data": data, "new_data": data.head(5)}
    found = blocks("python")
    assert found
    for block in found:
        exec(block, names)


@pytest.mark.parametrize("page", ["index.md", "how-to/binary.md"])
def test_python_of_pages_that_is_not_executed_there_runs(page):
    if "binary" in page:
        pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    columns = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x1", "x2", "age"])
    data = columns.assign(g=rng.choice(["a", "b"], 60), y=columns["x1"] + rng.normal(size=60))
    names = {"data": data, "new_data": data.head(5), "X": columns, "y": data["y"] > 0}
    # The report is of the fit on the page.
    found = [block for block in blocks("python", (DOCS / page).read_text(encoding="utf-8")) if "report(" not in block]
    assert found
    for block in found:
        exec(block, names)


def test_summary_of_the_readme_is_that_of_the_demo():
    tables = [block for block in blocks("") if "Bayesian Ridge Regression" in block]
    assert len(tables) == 1
    printed = [line.rstrip() for line in demo().splitlines()]
    shown = [line.rstrip() for line in tables[0].splitlines()]
    where = printed.index(shown[0])
    assert printed[where : where + len(shown)] == shown


def reference():
    return "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))


@pytest.mark.parametrize("name", pybayesridge.__all__)
def test_public_names_are_in_the_reference(name):
    assert re.search(rf"^\.\. auto\w+:: pybayesridge\.{name}$", reference(), flags=re.MULTILINE)


def test_estimators_are_in_the_reference():
    pytest.importorskip("sklearn")
    for name in importlib.import_module("pybayesridge.sklearn").__all__:
        assert f".. autoclass:: pybayesridge.sklearn.{name}\n" in reference()


@pytest.mark.parametrize(
    "results", [BayesRidgeResults, GeneralizedRidgeResults, SpikeSlabResults, GeneralizedSpikeSlabResults]
)
def test_results_are_in_the_reference_with_what_they_inherit(results):
    name = re.escape(f"{results.__module__}.{results.__name__}")
    pattern = rf"^\.\. autoclass:: {name}\n   :members:\n   :inherited-members: Results$"
    assert re.search(pattern, reference(), flags=re.MULTILINE)


def shown_by_r(name):
    return (DOCS / "start" / f"{name}.Rout").read_text(encoding="utf-8")


def numbers(text):
    return np.array([float(x) for x in re.findall(r"(?<![\w.])-?\d+\.?\d*(?:e-?\d+)?(?![\w.])", text)])


def printed_by_r():
    return [*DOCS.rglob("*.Rout"), ROOT / "r-wrapper" / "vignettes" / "pybayesridge.Rmd"]


@pytest.mark.parametrize("path", printed_by_r(), ids=lambda path: path.stem)
def test_code_shown_for_r_runs_without_errors(path):
    assert not re.findall(r"^(?:#> )?Error\b.*", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def started():
    """The session of the page "Getting started", without what it shows."""
    names = {}
    for name in ("read", "ridge", "least_squares", "predict", "select", "terms"):
        code = (DOCS / "start" / f"{name}.py").read_text(encoding="utf-8")
        code = code.replace("print(", "str(")
        exec(code, names)
    return names


@pytest.mark.parametrize("name", ["ridge", "select"])
def test_tables_of_r_are_those_of_python(name, started):
    results = started["ridge" if name == "ridge" else "selection"]
    rows = {line.split()[0]: numbers(line.partition(" ")[2]) for line in shown_by_r(name).splitlines() if line}
    for term in results.params.index:
        found = rows["(Intercept)" if term == "Intercept" else term]
        values = [results.params[term], results.bse[term], *results.conf_int().loc[term]]
        if name == "select":
            values.append(results.inclusion_prob[term])
        np.testing.assert_allclose(found, values, rtol=THREE_DIGITS)


def test_predictions_and_terms_of_r_are_those_of_python(started):
    frame = started["ridge"].get_prediction(started["new"]).summary_frame(alpha=0.1)
    expected = frame[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy().ravel()
    rows = [line for line in shown_by_r("predict").splitlines() if line.startswith(("Fiat", "Duster"))]
    found = np.concatenate([numbers(row)[-3:] for row in rows])
    np.testing.assert_allclose(found, expected, rtol=PRINTED)
    lines = shown_by_r("terms").splitlines()[1::2]
    np.testing.assert_allclose(numbers(" ".join(lines)), started["fit"].params, rtol=PRINTED)
