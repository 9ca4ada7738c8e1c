"""The case studies of the documentation: their code runs, and what their sentences claim holds."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.effort import only_thorough

CASES = Path(__file__).resolve().parents[1] / "docs" / "cases"

PRINTED = 0.051
"""Half a unit in the last digit that R prints, and rounding."""

GLUED = re.compile(r"\{glue:text\}`(\w+)(?::[^`]*)?`")


def run(name, monkeypatch, folder):
    """Run the cells of a page; its names, and the values of its sentences."""
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    matplotlib.use("Agg")
    text = (CASES / f"{name}.md").read_text(encoding="utf-8")
    glued = {}
    module = ModuleType("myst_nb")
    module.glue = lambda key, value, display: glued.__setitem__(key, value)
    monkeypatch.setitem(sys.modules, "myst_nb", module)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("os.chdir", lambda _: None)
    names = {}
    for cell in re.findall(
        r"^```\{code-cell\} python\n(?::tags:[^\n]*\n)?(.*?)^```$", text, re.DOTALL | re.MULTILINE
    ):
        exec(cell, names)
    names["plt"].close("all")
    return names, glued, set(GLUED.findall(text))


LONG = ["genotypes", "affairs", "prediction"]


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["income", *(pytest.param(name, marks=only_thorough) for name in LONG)])
def test_sentences_of_a_case_are_those_of_its_numbers(name, monkeypatch, tmp_path):
    if name == "prediction":
        pytest.importorskip("sklearn")
    names, glued, used = run(name, monkeypatch, tmp_path)
    assert used == set(glued)
    assert all(isinstance(value, float | int) and np.isfinite(value) for value in glued.values())
    if name == "income":
        rows = (CASES / "income.Rout").read_text(encoding="utf-8").splitlines()
        found = [[float(x) for x in row.split()[-3:]] for row in rows if re.match(r"\d +level", row)]
        wanted = names["table"][["median income", "lower", "upper"]]
        np.testing.assert_allclose(found, wanted.to_numpy(dtype=float), atol=PRINTED)
