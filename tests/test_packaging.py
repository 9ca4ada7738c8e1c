"""What the packaging files promise: tested lower bounds, one version, a light import."""

import ast
import inspect
import pydoc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pybayesridge

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
try:
    exec(sys.argv.pop(1))
except SystemExit as stop:
    assert not stop.code, stop
print()
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


def packages_asked_for(statement: str, *arguments: str) -> set[str]:
    """Top-level packages that a new Python loads, or tries to load, installed or not."""
    command = [sys.executable, "-c", IMPORT_PROBE, statement, *arguments]
    probe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(probe.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def without_the_package() -> set[str]:
    return packages_asked_for("import sys")


@pytest.mark.parametrize(
    "statement",
    [
        "import pybayesridge",
        "import pybayesridge; dir(pybayesridge); pybayesridge.__version__; pybayesridge.text.listed",
        "import pybayesridge.cli; pybayesridge.cli.main(['--help'])",
        "import runpy; sys.argv = ['pybayesridge', '--version']; runpy.run_module('pybayesridge')",
    ],
)
def test_what_shows_no_numbers_imports_no_other_package(statement, without_the_package):
    asked = packages_asked_for(statement) - without_the_package
    assert asked - set(sys.stdlib_module_names) == {"pybayesridge"}


def test_a_fit_of_arrays_imports_no_extra():
    asked = packages_asked_for(
        "import numpy as np; from pybayesridge import BayesRidge; "
        "str(BayesRidge(np.arange(5.0) ** 2, np.eye(5)[:, :3]).fit().summary())"
    )
    extras = {"arviz", "dask", "jinja2", "marginaleffects", "maketables", "matplotlib", "sklearn", "tqdm"}
    assert not asked & extras


@pytest.mark.parametrize("command", ["ridge", "spikeslab", "predict"])
def test_help_of_a_command_imports_no_statistics(command):
    asked = packages_asked_for(f"import pybayesridge.cli; pybayesridge.cli.main([{command!r}, '--help'])")
    assert asked.isdisjoint({*LATE, "formulaic", "matplotlib", "pandas", "patsy", "polars", "pyarrow", "statsmodels"})


LATE = [
    *("arviz", "dask", "distributed", "jinja2", "matplotlib", "patsy", "polars", "rpy2", "sklearn", "statsmodels"),
    *("tqdm", "xarray"),
]


FAMILY_FROM_ITS_MODULE = """
from pybayesridge.models.ridge import BayesRidge
assert BayesRidge([0, 1, 1], [[1], [2], [2.5]], family="binomial").link == "logit"
from pybayesridge import *
assert SpikeSlab([0, 1, 1], [[1], [2], [2.5]], family="binomial").link == "logit"
"""
"""A model that is imported alone, as pickles import it, knows the other families."""


@pytest.fixture(scope="module")
def packages_of_all_names() -> set[str]:
    return packages_asked_for(FAMILY_FROM_ITS_MODULE)


@pytest.mark.parametrize("package", LATE)
def test_the_models_import_nothing_optional(package, packages_of_all_names):
    assert "scipy" in packages_of_all_names
    assert package not in packages_of_all_names


FITS = """
import numpy as np, pandas as pd
from pybayesridge import BayesRidge, SpikeSlab
x = np.random.default_rng(0).standard_normal((30, 3))
data = pd.DataFrame(x, columns=["y", "a", "b"])
for fit in (
    BayesRidge(x[:, 0], x[:, 1:]).fit(), BayesRidge(x[:, 0], x[:, 1:]).fit("em"), SpikeSlab(x[:, 0], x[:, 1:]).fit(),
    BayesRidge(x[:, 0] > 0, x[:, 1:], family="binomial").fit(), BayesRidge.from_formula("y ~ a + b", data).fit(),
):
    fit.params, fit.bse, fit.conf_int(), fit.predict(), fit.get_prediction()
import sys
print(*sorted(sys.modules))
"""


ARRAYS = """
import numpy as np
from pybayesridge import BayesRidge
x = np.random.default_rng(0).standard_normal((30, 3))
fit = BayesRidge(x[:, 0], x[:, 1:]).fit()
str(fit.summary()), repr(fit), fit.conf_int(), fit.predict(x[:, 1:]), fit.get_prediction(x[:, 1:]).summary_frame()
import sys
print(*sorted(sys.modules))
"""


def test_fits_to_arrays_import_neither_formulaic_nor_narwhals():
    probe = subprocess.run([sys.executable, "-c", ARRAYS], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(probe.stdout.split())
    assert "pandas" in modules
    assert modules.isdisjoint({"formulaic", "narwhals"})


FIRST = """
import numpy as np
from pybayesridge import BayesRidge
x = np.random.default_rng(0).standard_normal((30, 3))
BayesRidge(x[:, 0], x[:, 1:]).fit().params, BayesRidge(x[:, 0], x[:, 1:]).fit("em").params
import sys
print(*sorted(sys.modules))
"""


def test_a_first_fit_does_not_wait_for_parts_of_scipy_that_others_need():
    """Interpolation alone brings four packages, a third of what a first fit takes."""
    probe = subprocess.run([sys.executable, "-c", FIRST], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(probe.stdout.split())
    assert "scipy.special" in modules
    assert modules.isdisjoint({"scipy.interpolate", "scipy.optimize", "scipy.spatial", "scipy.fft", "scipy.stats"})
    # Nor for selections and other families, which are as many modules again.
    parts = {name.split(".")[1] for name in modules if name.startswith("pybayesridge.")}
    assert "ridge" in parts
    assert parts.isdisjoint({"ep", "sites"})
    assert modules.isdisjoint({"pybayesridge.selection.sampler", "pybayesridge.results.generalized_ridge"})


@pytest.mark.parametrize("module", ["matplotlib", "polars", "scipy.ndimage", "scipy.stats", "statsmodels"])
def test_fits_import_no_tables_and_no_pictures(module, modules_of_fits):
    assert "scipy.special" in modules_of_fits
    assert module not in modules_of_fits


@pytest.fixture(scope="module")
def modules_of_fits() -> set[str]:
    probe = subprocess.run([sys.executable, "-c", FITS], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(probe.stdout.split())


def test_every_public_name_is_imported_from_where_types_say():
    tree = ast.parse(inspect.getsource(pybayesridge))
    typed = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        for alias in node.names
    }
    late = {name: f"pybayesridge.{module}" for name, module in pybayesridge._MODULES.items()}
    assert typed == late
    assert sorted(typed) == pybayesridge.__all__
    for name, module in typed.items():
        assert getattr(pybayesridge, name) is getattr(sys.modules[module], name)


def test_names_of_the_package_are_listed_and_documented():
    assert set(pybayesridge.__all__) < set(dir(pybayesridge))
    text = pydoc.plain(pydoc.render_doc(pybayesridge))
    assert [name for name in pybayesridge.__all__ if name not in text] == []


def test_names_that_are_not_there_are_refused():
    for name in ("BayesRige", "_private", "__wrapped__"):
        assert not hasattr(pybayesridge, name)
    with pytest.raises(AttributeError, match="module 'pybayesridge' has no attribute 'BayesRige'"):
        _ = pybayesridge.BayesRige
