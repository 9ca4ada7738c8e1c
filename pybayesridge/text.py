"""Words and numbers as users read them."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

SHOWN = 5
"""How many names, rows or columns a message lists before it says how many more there are."""


TARGETS = 10
"""A summary and a report show at most this many targets."""

TABLE_ROWS = 60
"""Tables of more coefficients are cut."""

TOP = 40
"""How many coefficients a picture shows unless it is asked for more."""

DIGITS = 4
"""Significant digits of numbers in tables and sentences."""

SPARE = 2
"""A column has the same decimals if its numbers then take at most this many places beside its significant digits."""

ZEROS = 4
"""A number that takes more places than its significant digits and this is in scientific notation."""

NO_VARIANCE = "A dash for sigma or an sd stands for infinity: the tail of the posterior is too heavy for a variance."
"""The note to such a table."""

SMALLEST = 1e-4
"""Smaller probabilities are written as being below it."""

DASH = "–"
"""It stands for a number that does not exist, or is infinite."""


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
    items = {str(item): item for item in known}
    same = [item for item in items if item.lower().strip() == name.lower().strip()]
    near = same or difflib.get_close_matches(name, items, n=1)
    return f": did you mean {items[near[0]]!r}?" if near else f"; there are {listed(items.values())}"


class Number(str):
    """A number as people write it: ``1,239,000``, ``4.9e9``."""

    __slots__ = ()

    @property
    def plain(self) -> str:
        """The same for machines, without thousands separators."""
        return self.replace(",", "")


def column(values: Iterable[float], digits: int = DIGITS) -> list[Number]:
    """The numbers of a column, written alike as far as their sizes allow.

    In fixed notation the column has as many decimals as give the largest number `digits` significant digits and every
    number at least one less, without zeros that end all of them. If this takes more than ``digits + 2`` places, each
    number has its own decimals, for `digits` significant digits, and only those that take more than ``digits + 4``
    places are in scientific notation. Zero is written as 0 and what is not finite as a dash.

    Parameters
    ----------
    values : iterable of float
    digits : int
        At least 1.
    """
    numbers = [float(value) for value in values]
    proper = [value for value in numbers if value != 0 and math.isfinite(value)]
    decimals = _decimals([abs(value) for value in proper], digits, SPARE if len(proper) > 1 else ZEROS)
    texts = iter(_by_size(proper, digits) if decimals is None else _fixed(proper, decimals))
    return [Number(DASH if not math.isfinite(value) else "0" if value == 0 else next(texts)) for value in numbers]


def columns(values: Iterable[Iterable[float]], *, interval: bool = False, digits: int = DIGITS) -> list[list[Number]]:
    """Columns, each written alike; with `interval` the last two, the ends of intervals, like one."""
    numbers = [list(line) for line in values]
    if not interval:
        return [column(line, digits) for line in numbers]
    low, high = numbers[-2:]
    ends = column([*low, *high], digits)
    return [*columns(numbers[:-2], digits=digits), ends[: len(low)], ends[len(low) :]]


def _decimals(sizes: Sequence[float], digits: int, spare: int) -> int | None:
    """Decimals of a column in fixed notation, or None where that takes too many places."""
    if not sizes:
        return 0
    fewer = max(digits - 1, 1)
    largest = _exponent(max(sizes), digits)
    decimals = max(digits - 1 - largest, fewer - 1 - _exponent(min(sizes), fewer), 0)
    return decimals if max(largest + 1, 1) + decimals <= digits + spare else None


def _exponent(size: float, digits: int) -> int:
    """The exponent of a number rounded to so many significant digits."""
    return int(f"{size:.{digits - 1}e}".partition("e")[2])


def _fixed(values: Sequence[float], decimals: int) -> list[str]:
    needed = _needed(f"{value:.{decimals}f}" for value in values)
    return [f"{value:,.{needed}f}" for value in values]


def _by_size(values: Sequence[float], digits: int) -> list[str]:
    """Each number with its own decimals; all in scientific notation only where all need it."""
    decimals = [_decimals([abs(value)], digits, ZEROS) for value in values]
    if all(places is None for places in decimals):
        return _scientific(values, _needed_mantissa(values, digits))
    return [
        _scientific([value], digits - 1)[0] if places is None else f"{value:,.{places}f}"
        for value, places in zip(values, decimals, strict=True)
    ]


def _needed_mantissa(values: Sequence[float], digits: int) -> int:
    """Decimals of mantissas without the zeros that end all of them."""
    return _needed(f"{value:.{digits - 1}e}".partition("e")[0] for value in values)


def _scientific(values: Sequence[float], decimals: int) -> list[str]:
    parts = [f"{value:.{decimals}e}".partition("e") for value in values]
    return [f"{mantissa}e{int(exponent)}" for mantissa, _, exponent in parts]


def _needed(texts: Iterable[str]) -> int:
    """How many decimals are left without the zeros that end all numbers."""
    return max((len(text.partition(".")[2].rstrip("0")) for text in texts), default=0)


def number(value: float, digits: int = DIGITS) -> Number:
    """A single number to so many significant digits: a column of its own."""
    return column([value], digits)[0]


def in_words(value: float) -> str:
    """A single number of a sentence, which has no dash."""
    if math.isnan(value):
        return "not defined"
    return number(value) if math.isfinite(value) else "infinite"


def count(value: int) -> Number:
    """A whole number, all of its digits."""
    return Number(f"{value:,}")


def rounded(value: float, decimals: int = 3) -> Number:
    """A probability, a share of variance or a log evidence: a number of known size, to so many decimals."""
    if not math.isfinite(value):
        return Number(DASH)
    return Number(f"{round(value, decimals) + 0.0:,.{decimals}f}")


def as_probability(value: float) -> str:
    """A probability that may be tiny, such as a prediction, to `DIGITS` significant digits, or ``< 0.0001``."""
    return f"< {SMALLEST:.4f}" if 0 < value < SMALLEST else f"{value:.{DIGITS}g}"


def either(names: Iterable[object]) -> str:
    """Values with quotes, the last after "or"."""
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last
