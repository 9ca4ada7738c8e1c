"""Compiles the package's C code, with the system's compiler where there is one, else with that of ziglang.

The build of the package runs this file alone, so that it imports nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "c"

FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fvisibility=hidden", "-shared")
"""No numbers that depend on the processor, and no contraction of products and sums: the same ones everywhere. Some
functions of ``c/sets`` also have a version for wider registers, which does the same operations."""

PREFIX = "_compiled-"
"""How the names of libraries begin; a mark of their sources follows."""

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

ZIG = "ziglang"


class CompilerError(OSError):
    """There is no compiler, or it failed."""


def library_name() -> str:
    """The name of the library that belongs to the sources."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCES.rglob("*.c"), *SOURCES.rglob("*.h")]):
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return f"{PREFIX}{digest.hexdigest()[:12]}{SUFFIX}"


def system_compiler() -> list[str] | None:
    """The command of the system's C compiler: `CC`, else the first of the usual names; None if there is none."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    names = () if sys.platform == "win32" else ("cc", "gcc", "clang")
    return next(([name] for name in names if shutil.which(name)), None)


def compiler() -> list[str]:
    """The command of a C compiler."""
    found = system_compiler()
    if found is None and importlib.util.find_spec(ZIG):
        # Without this, that compiler writes code for the processor of this machine alone.
        found = [sys.executable, "-m", ZIG, "cc", "-mcpu=baseline"]
    if found is None:
        raise CompilerError("there is no C compiler: install one (cc, gcc or clang), or the Python package ziglang")
    return found


def compile_library(target: Path) -> None:
    """Compile the library into a file, at once or not at all."""
    command = [*compiler(), *FLAGS, *([] if sys.platform == "win32" else ["-fPIC"])]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        sources = sorted(str(path) for path in SOURCES.rglob("*.c"))
        done = subprocess.run(
            [*command, "-o", str(made), *sources, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompilerError(f"the C compiler failed: {' '.join(command)}\n{done.stderr}")
        made.replace(target)
