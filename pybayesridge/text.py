"""Words and numbers as users read them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

SHOWN = 5
"""How many names, rows or columns a message lists before it says how many more there are."""


TARGETS = 10
"""A summary and a report show at most this many targets."""

TOP = 40
"""How many coefficients a picture shows unless it is asked for more."""


def listed(items: Iterable[Any]) -> str:
    """Name a few things in a message, and how many more there are."""
    everything = list(items)
    head = ", ".join(repr(item) for item in everything[:SHOWN])
    more = len(everything) - SHOWN
    return head if more <= 0 else f"{head} and {more} more"


def repeated(names: Iterable[Any]) -> list[Any]:
    """Names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def did_you_mean(name: str, known: Iterable[Any]) -> str:
    """The end of a message about an unknown name: the nearest known one, or those that there are."""
    names = [str(item) for item in known]
    same = [item for item in names if item.lower().strip() == name.lower().strip()]
    near = same or difflib.get_close_matches(name, names, n=1)
    return f": did you mean {near[0]!r}?" if near else f"; there are {listed(names)}"


def number(value: float) -> str:
    """Four significant digits, in the shorter of the usual notations."""
    return f"{value:.4g}"


def number_or_dash(value: float) -> str:
    """A number as tables write it, or a dash where there is none."""
    return number(value) if np.isfinite(value) else "–"
