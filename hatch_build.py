"""The build of the package: compiles its C code into it.

With the system's C compiler where there is one; else pip installs the package ziglang for the build, whose compiler
needs nothing else.
"""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _compiler(root: str) -> ModuleType:
    """The module that compiles, without the package around it."""
    path = Path(root) / "pybayesridge" / "compiled" / "compiler.py"
    spec = importlib.util.spec_from_file_location("_pybayesridge_compiler", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CompiledCode(BuildHookInterface):
    """Adds the library to wheels, and to the folder of an editable installation."""

    def dependencies(self) -> list[str]:
        """ziglang, where there is no C compiler."""
        compiler = _compiler(self.root)
        return [] if compiler.system_compiler() else [f"{compiler.ZIG}>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for this platform and any Python 3."""
        compiler = _compiler(self.root)
        folder = compiler.SOURCES
        target = folder / compiler.library_name()
        if not target.exists():
            for old in folder.glob(f"{compiler.PREFIX}*{compiler.SUFFIX}"):
                old.unlink()
            compiler.compile_library(target)
        build_data["artifacts"].append(target.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
