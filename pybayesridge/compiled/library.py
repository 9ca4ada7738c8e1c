"""The compiled library: that of the installed package, else compiled for the user once."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from pathlib import Path

from pybayesridge.compiled import compiler


def _cache() -> Path:
    """The user's folder for what can be computed again."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pybayesridge"


def _path() -> Path:
    """Where the library is; compiled first if it is nowhere, as in a folder whose sources have changed."""
    name = compiler.library_name()
    installed, cached = compiler.SOURCES / name, _cache() / name
    for path in (installed, cached):
        if path.exists():
            return path
    cached.parent.mkdir(parents=True, exist_ok=True)
    compiler.compile_library(cached)
    return cached


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The library, loaded once."""
    loaded = ctypes.CDLL(str(_path()))
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in (
        ("run_new", pointer, [pointer, integer]),
        ("run_free", None, [pointer]),
        (
            "run_start",
            ctypes.c_int,
            [pointer, integer, pointer, integer, integer, pointer, pointer, pointer, ctypes.c_double],
        ),
        ("run_advance", ctypes.c_int, [pointer, integer, integer, integer, pointer, pointer]),
        ("run_sweep", ctypes.c_int, [pointer, *[integer] * 3, *[pointer] * 3]),
        ("run_state", integer, [pointer, integer, pointer, pointer, pointer]),
        ("run_walk", ctypes.c_int, [pointer, integer, integer]),
        ("run_coefficients", integer, [pointer, integer, *[pointer] * 5]),
        ("run_reweigh", ctypes.c_int, [pointer, integer, integer, pointer, ctypes.c_double]),
        ("run_forget", None, [pointer]),
        ("run_table", None, [pointer, *[integer] * 5, *[pointer] * 3]),
        ("run_counts", integer, [pointer, pointer, pointer]),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
