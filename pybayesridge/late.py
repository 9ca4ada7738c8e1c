"""Modules that are imported when something of them is first used: what a fit to arrays needs not takes no time."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Late:
    """A module by its name, whose attributes are those of the module.

    For type checkers the module is imported in a block ``if TYPE_CHECKING``.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        """An attribute of the module, which is imported now."""
        return getattr(import_module(self.__name__), attribute)
