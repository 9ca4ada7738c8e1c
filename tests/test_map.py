"""The repository map of CONTRIBUTING.md: every folder, in the order of dependence, and nothing that is not there."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pybayesridge"

SCREEN = 60
"""Most lines of the map."""

SERVE_ALL = "for all"
"""The entry of the modules that every folder may import."""


def the_map():
    """The lines of the map on the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text[text.index("    pybayesridge/\n") : text.index("    r-wrapper/")].splitlines()[1:]


def entries():
    """Folders and modules that have an entry, in their order; a folder within a folder with its path."""
    found, outer = [], ""
    for line in the_map():
        entry = re.match(r"( {6}| {8})([\w.]+/?)(?= )", line)
        if entry and not line.strip().startswith(SERVE_ALL):
            outer = outer if len(entry[1]) > 6 else entry[2]
            found.append(entry[2] if entry[2] == outer else outer + entry[2])
    return found


def serve_all():
    (line,) = [line for line in the_map() if line.strip().startswith(SERVE_ALL)]
    return set(line.partition(SERVE_ALL)[2].replace(",", " ").split())


def layers():
    """The layers of the package, and the modules that are in none."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (one,) = [each for each in settings["contracts"] if each.get("exhaustive")]
    return [set(layer.split(" | ")) for layer in one["layers"]], set(one["exhaustive_ignores"])


def test_every_folder_is_on_the_map():
    folders = {f"{path.parent.relative_to(PACKAGE)}/" for path in PACKAGE.rglob("__init__.py")} - {"./"}
    assert {entry for entry in entries() if entry.endswith("/")} == folders


def test_every_module_outside_of_folders_is_on_the_map():
    text = "\n".join(the_map())
    named = set(re.findall(r"\b(\w+)\.py\b", text)) | serve_all()
    assert named == {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}


def test_the_map_is_in_the_order_of_dependence():
    order, ignored = layers()
    of_layer = {name: i for i, layer in enumerate(order) for name in layer}
    shown = [entry.rstrip("/").removesuffix(".py") for entry in entries() if "/" not in entry.rstrip("/")]
    places = [of_layer[name] for name in shown]
    assert places == sorted(places)
    assert serve_all() == ignored


def test_the_map_fits_on_a_screen():
    assert len(the_map()) <= SCREEN


def test_modules_say_what_they_are():
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "map", "ridge"], capture_output=True, text=True, check=True
    )
    lines = run.stdout.splitlines()
    assert len(lines) == len(list((PACKAGE / "ridge").glob("*.py")))
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)
