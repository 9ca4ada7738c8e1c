"""Modules of this folder for those that need them with formulas only: formulaic is imported when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybayesridge.late import Late

__all__ = ["build", "check", "constraints", "names", "quoted", "spec", "stored"]

if TYPE_CHECKING:
    from pybayesridge.formula import build, check, constraints, names, quoted, spec, stored
else:
    build, check, constraints, names, quoted, spec, stored = (
        Late(f"pybayesridge.formula.{name}") for name in __all__
    )
