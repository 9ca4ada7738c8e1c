"""Looking up a method by name, and refusing options that are not its own: what both registries share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar


class Method(Protocol):
    """Common interface of the entries of a registry."""

    @property
    def name(self) -> str:
        """As ``fit`` takes it."""

    @property
    def options(self) -> tuple[str, ...]:
        """Options of ``fit`` that only some methods take, and this one does."""

    @property
    def required(self) -> tuple[str, ...]:
        """Those of them that have to be given."""

    @property
    def needs_rows(self) -> str:
        """Why it cannot do with moments; empty where it can."""


M = TypeVar("M")


def look_up(methods: Mapping[str, M], name: object) -> M:
    """The entry with a name, or a ValueError that lists those there are."""
    if not isinstance(name, str) or name not in methods:
        raise ValueError(f"method must be one of {', '.join(map(repr, methods))}, not {name!r}")
    return methods[name]


def check_options(methods: Mapping[str, Method], method: Method, given: Mapping[str, bool]) -> None:
    """Refuse options that are not the method's, and missing ones.

    Parameters
    ----------
    methods : mapping
        The registry.
    method : Method
    given : mapping of str to bool
        Of each option that only some methods take: whether it differs from its default.
    """
    for option, differs in given.items():
        if differs and option not in method.options:
            takers = [repr(other.name) for other in methods.values() if option in other.options]
            raise ValueError(f"{option} is an option of method={' or '.join(takers)}, not of {method.name!r}")
        if not differs and option in method.required:
            raise ValueError(f"method={method.name!r} requires {option}")


def check_rows(method: Method, *, has_rows: bool) -> None:
    """Refuse a method that needs rows where there are none."""
    if method.needs_rows and not has_rows:
        raise ValueError(f"method={method.name!r} {method.needs_rows}")
