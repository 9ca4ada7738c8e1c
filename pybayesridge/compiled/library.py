"""The compiled library: that of the installed package, else compiled for the user once."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pybayesridge.compiled import compiler

_POINTER, _INTEGER, _INT, _DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double

FUNCTIONS = (
    ("run_new", _POINTER, [_POINTER, _INTEGER]),
    ("run_free", None, [_POINTER]),
    ("run_start", _INT, [_POINTER, _INTEGER, _POINTER, _INTEGER, _INTEGER, *[_POINTER] * 4, _DOUBLE]),
    ("run_advance", _INT, [_POINTER, _INTEGER, _INTEGER, _INTEGER, _POINTER, _POINTER]),
    ("run_sweep", _INT, [_POINTER, *[_INTEGER] * 3, *[_POINTER] * 3]),
    ("run_state", _INTEGER, [_POINTER, _INTEGER, _POINTER, _POINTER, _POINTER]),
    ("run_walk", _INT, [_POINTER, _INTEGER]),
    ("run_normals", _INTEGER, [_POINTER]),
    ("run_predictors", _INT, [_POINTER, _POINTER, _INTEGER, _POINTER]),
    ("run_coefficients", _INTEGER, [_POINTER, _INTEGER, *[_POINTER] * 3]),
    ("run_reweigh", _INT, [_POINTER] * 4),
    ("run_states", None, [_POINTER] * 4),
    ("run_return", _INT, [_POINTER] * 5),
    ("run_forget", None, [_POINTER]),
    ("run_table", None, [_POINTER, *[_INTEGER] * 5, *[_POINTER] * 3]),
    ("run_log_prior", _DOUBLE, [_POINTER, _INTEGER, _INTEGER]),
    ("alias_table", None, [_POINTER, _INTEGER, *[_POINTER] * 3]),
    ("polya_gamma", None, [_POINTER, _INTEGER, *[_POINTER] * 2]),
    ("run_counts", _INTEGER, [_POINTER, _POINTER, _POINTER]),
    ("wide_product", _INT, [_POINTER, _INTEGER, _INTEGER]),
    ("penalty_modes", _INTEGER, [_POINTER, _POINTER, _INTEGER, _DOUBLE, _INTEGER, _POINTER, _POINTER]),
    ("penalty_quadrature", _INTEGER, [_POINTER, _POINTER, _DOUBLE]),
    ("groups_square", None, [*[_POINTER] * 4, *[_INTEGER] * 3, _POINTER]),
    ("groups_scaled", None, [*[_POINTER] * 2, *[_INTEGER] * 2, _POINTER]),
    ("groups_forms", None, [*[_POINTER] * 4, *[_INTEGER] * 2, _POINTER]),
    ("beta_binomial", None, [_INTEGER, _INTEGER, *[_POINTER] * 3, _DOUBLE, _POINTER, _POINTER]),
    ("tilted_logit", _INTEGER, [_POINTER, _INTEGER, *[_POINTER] * 7]),
)
"""Names, results and arguments of the functions in ``c``."""


def _cache() -> Path:
    """The user's folder for what can be computed again."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pybayesridge"


def _places() -> tuple[Path, Path]:
    """Where the library may be: in the package, or in the user's folder."""
    name = compiler.library_name()
    return compiler.SOURCES / name, _cache() / name


@lru_cache(maxsize=1)
def _loaded(path: Path) -> ctypes.CDLL:
    found = ctypes.CDLL(str(path))
    for name, result, arguments in FUNCTIONS:
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The library, loaded once; compiled first if it is nowhere, as in a folder whose sources have changed."""
    installed, cached = _places()
    for path in (installed, cached):
        if path.exists():
            return _loaded(path)
    cached.parent.mkdir(parents=True, exist_ok=True)
    compiler.compile_library(cached)
    built.cache_clear()
    return _loaded(cached)


def compile_if_possible() -> None:
    """Compile the library if it is nowhere, before what can do without it runs: it then runs as it would later.

    Without a compiler nothing happens: what cannot do without says so.
    """
    with suppress(OSError, RuntimeError):
        library()


@lru_cache(maxsize=1)
def built() -> ctypes.CDLL | None:
    """The library for what can do without: None if it is not there or cannot be loaded. Nothing is compiled."""
    try:
        return next((_loaded(path) for path in _places() if path.exists()), None)
    except (OSError, RuntimeError):  # no home folder, or a library that this system refuses
        return None
