"""What a release consists of says one version, one date and one list of requirements."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

import pybayesridge

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]

FOR_DEVELOPMENT = {"benchmarks", "dev", "docs"}
"""Extras that no part of the package needs."""

IN_CONDA = {"matplotlib": "matplotlib-base", "dask[dataframe]": "dask"}
"""Packages that have another name there."""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def found(pattern: str, name: str) -> list[str]:
    return re.findall(pattern, text_of(name), flags=re.MULTILINE)


def newest_release() -> tuple[str, str]:
    """Version and date of the first heading of the changelog that is a release."""
    releases = re.findall(r"^## (\d\S*) - (\S+)$", text_of("CHANGELOG.md"), flags=re.MULTILINE)
    return releases[0]


def test_the_version_is_written_in_the_package_alone():
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "pybayesridge/_version.py"
    assert "version" not in PYPROJECT["project"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("r-wrapper/DESCRIPTION", r"^Version: (\S+)$"),
        ("conda/recipe/recipe.yaml", r'^  version: "(\S+)"$'),
    ],
)
@pytest.mark.every_case
def test_every_file_has_the_version_of_the_package(name, pattern):
    assert found(pattern, name) == [pybayesridge.__version__]


FILES = re.compile(r"pybayesridge[-_](\d[^-\s]*?)(?:-py3-none-\w+\.whl|\.tar\.gz)")


@pytest.mark.parametrize("name", ["README.md", "docs/getting-started.md", "docs/how-to/r.md"])
@pytest.mark.every_case
def test_installation_names_the_files_of_this_release(name):
    named = FILES.findall(text_of(name))
    assert len(named) >= 2
    assert set(named) == {pybayesridge.__version__}
    assert set(re.findall(r"[Rr]elease (\d[\w.]*\w)", text_of(name))) == {pybayesridge.__version__}


def test_the_changelogs_begin_with_this_release():
    assert newest_release()[0] == pybayesridge.__version__
    assert found(r"^# pybayesridge (\S+)$", "r-wrapper/NEWS.md")[0] == pybayesridge.__version__


def test_the_release_has_one_date():
    written = newest_release()[1]
    assert date.fromisoformat(written).isoformat() == written
    assert found(r'^date-released: "(\S+)"$', "CITATION.cff") == [written]


def requirements_of_conda(section: str) -> set[str]:
    """The list of a section of the recipe, without python itself."""
    block = re.search(rf"^  {section}:\n((?:    - .*\n)+)", text_of("conda/recipe/recipe.yaml"), flags=re.MULTILINE)
    assert block, f"the recipe has no list {section!r}"
    names = re.findall(r"^    - (.+)$", block[1], flags=re.MULTILINE)
    return {name.replace(" ", "") for name in names if not name.startswith("python ")}


def in_conda(requirements: list[str]) -> set[str]:
    """Requirements of pip as conda writes them, their upper bounds left out."""
    out = set()
    for requirement in requirements:
        name, bound = requirement.split(",")[0].split(">=")
        out.add(f"{IN_CONDA.get(name, name)}>={bound}")
    return out


def test_conda_has_the_requirements_of_the_package():
    assert requirements_of_conda("run") == in_conda(PYPROJECT["project"]["dependencies"])
    build = {requirement for requirement in requirements_of_conda("host") if requirement != "pip"}
    assert build == in_conda(PYPROJECT["build-system"]["requires"])
    python = found(r'^  python_min: "(\S+)"$', "conda/recipe/recipe.yaml")
    assert PYPROJECT["project"]["requires-python"] == f">={python[0]}"


def test_conda_bounds_what_the_extras_need():
    wanted = set().union(*(in_conda(packages) for extra, packages in EXTRAS.items() if extra not in FOR_DEVELOPMENT))
    assert requirements_of_conda("run_constraints") == {
        bound for bound in wanted if not bound.startswith("polars")
    }, "polars is bounded by marginaleffects alone"


def test_the_workflow_tests_the_oldest_python_and_three_systems():
    text = text_of(".github/workflows/checks.yml")
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    assert f'python: ["{oldest}", "3.x"]' in text
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in text
    assert "secrets." not in text
