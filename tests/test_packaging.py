"""What the packaging files promise: tested lower bounds, one version, a light import."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST_MARKER = 'python_version < "3.13"'

IMPORT_PROBE = """
import sys

class Spy:
    asked = set()

    def find_spec(self, name, path=None, target=None):
        self.asked.add(name.partition(".")[0])

sys.meta_path.insert(0, Spy())
import pybayesridge
print(*sorted(Spy.asked | {name.partition(".")[0] for name in sys.modules}))
"""


def release(version: str) -> tuple[int, ...]:
    """1.26 and 1.26.0 are the same release."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def lower_bounds(requirements: list[str]) -> dict[str, tuple[int, ...]]:
    matches = [re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement) for requirement in requirements]
    assert all(matches), f"a requirement without a plain lower bound in {requirements}"
    return {match[1]: release(match[2]) for match in matches if match}


def oldest_pins() -> dict[str, tuple[int, ...]]:
    """Pins of tools/oldest-requirements.txt that hold on the oldest supported Python."""
    pins = {}
    for line in (ROOT / "tools" / "oldest-requirements.txt").read_text(encoding="utf-8").splitlines():
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        if requirement and not requirement.startswith(("#", "-")) and marker in ("", OLDEST_MARKER):
            name, version = requirement.split("==")
            assert name not in pins, f"{name} is pinned twice"
            pins[name] = release(version)
    return pins


def test_oldest_environment_pins_the_declared_lower_bounds():
    core = lower_bounds(PYPROJECT["dependencies"])
    dev = lower_bounds(PYPROJECT["optional-dependencies"]["dev"])
    assert oldest_pins() == core | {name: dev[name] for name in ("pytest", "pytest-xdist", "hypothesis")}


def test_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, flags=re.MULTILINE) == [PYPROJECT["version"]]


@pytest.fixture(scope="module")
def packages_asked_for_on_import() -> set[str]:
    """Top-level packages that `import pybayesridge` loads, or tries to load, installed or not."""
    probe = subprocess.run([sys.executable, "-c", IMPORT_PROBE], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(probe.stdout.split())


# patsy is not in the list: statsmodels itself imports it.
LATE = ["arviz", "dask", "distributed", "jinja2", "matplotlib", "rpy2", "sklearn", "tqdm", "xarray"]


@pytest.mark.parametrize("package", LATE)
def test_import_is_light(package, packages_asked_for_on_import):
    assert "pybayesridge" in packages_asked_for_on_import
    assert package not in packages_asked_for_on_import
