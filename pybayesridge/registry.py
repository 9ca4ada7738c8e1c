"""Looking up a method by name, and refusing options that are not its own: what both registries share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry:
    """One way to fit: what the entries of all registries say.

    Attributes
    ----------
    name : str
        As ``fit`` takes it.
    options : tuple of str
        Options of ``fit`` that only some methods take, and this one does.
    required : tuple of str
        Those of them that have to be given.
    help : str
        A clause for the command line's help.
    intervals : str
        What intervals are conditional on, for the summary.
    treatment : str
        How the posterior is found, or how penalties are treated and what intervals account for, for the report.
    needs_rows : str
        Why it cannot do with moments; empty where it can.
    """

    name: str
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    help: str
    intervals: str
    treatment: str
    needs_rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PenaltyMethod(MethodEntry):
    """One way to find a penalty, or several, or to integrate them out.

    Attributes
    ----------
    caption : str
        What the report adds to the caption of the table of hyperparameters.
    uses_prior : bool
        Whether the prior of the penalty has a say.
    integrates : bool
        Whether the penalty is integrated out.
    given : bool
        Whether the user gives the penalty.
    grid : bool
        Whether it is chosen from a grid.
    """

    caption: str = ""
    uses_prior: bool = False
    integrates: bool = False
    given: bool = False
    grid: bool = False


M = TypeVar("M")


def look_up(methods: Mapping[str, M], name: object) -> M:
    """The entry with a name, or a ValueError that lists those there are."""
    if not isinstance(name, str) or name not in methods:
        raise ValueError(f"method must be one of {', '.join(map(repr, methods))}, not {name!r}")
    return methods[name]


def check_options(methods: Mapping[str, MethodEntry], method: MethodEntry, given: Mapping[str, bool]) -> None:
    """Refuse options that are not the method's, and missing ones.

    Parameters
    ----------
    methods : mapping
        The registry.
    method : MethodEntry
    given : mapping of str to bool
        Of each option that only some methods take: whether it differs from its default.
    """
    for option, differs in given.items():
        if differs and option not in method.options:
            takers = [repr(other.name) for other in methods.values() if option in other.options]
            raise ValueError(f"{option} is an option of method={' or '.join(takers)}, not of {method.name!r}")
        if not differs and option in method.required:
            raise ValueError(f"method={method.name!r} requires {option}")


def check_rows(method: MethodEntry, *, has_rows: bool) -> None:
    """Refuse a method that needs rows where there are none."""
    if method.needs_rows and not has_rows:
        raise ValueError(f"method={method.name!r} {method.needs_rows}")
