"""The repository map of CONTRIBUTING.md names every module of the package, and nothing that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pybayesridge"


def the_map():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text[text.index("    pybayesridge/") : text.index("    r-wrapper/")]


def parts():
    """The part of the map on each folder directly in the package, and on the package itself."""
    found = re.split(r"^      (?=[a-z])", the_map(), flags=re.MULTILINE)[1:]
    return {re.match(r"\w+(?=/)|", part)[0]: part for part in found} | {"": the_map()}


def test_every_module_is_on_the_map():
    folders = parts()
    absent = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE)
        stem = where.parent.name if path.stem == "__init__" else path.stem
        text = folders.get(where.parts[0] if len(where.parts) > 1 else "", "")
        if stem and not re.search(rf"(?<!\w){stem}(?!\w)", text):
            absent.append(str(where))
    assert absent == []


def test_every_file_on_the_map_is_there():
    named = set(re.findall(r"\b(\w+)\.py\b", the_map()))
    assert named - {path.stem for path in PACKAGE.rglob("*.py")} == set()
