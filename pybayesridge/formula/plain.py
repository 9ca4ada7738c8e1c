"""Formulas of nothing but columns of numbers, ``y ~ x1 + x2`` and ``y ~ .``: read without formulaic.

Formulaic takes a millisecond for each factor. What is made here is what it would make.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray

ITEM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:`(?P<quoted>[^`:\[\]\\]+)`|(?P<name>[^\W\d]\w*)|(?P<other>[01.]))\s*(?=[+-]|$)"
)
"""One name, number or dot of a sum, with its sign."""

NUMERAL = re.compile(r"[\d.]+")


@dataclass(frozen=True, slots=True)
class PlainFormula:
    """A formula that is two sums of columns of numbers.

    Attributes
    ----------
    responses, columns : list of str
        In the order of the formula.
    has_intercept : bool
    """

    responses: list[str]
    columns: list[str]
    has_intercept: bool


def plain_formula(formula: str, frame: pd.DataFrame, apart: Collection[str] = ()) -> PlainFormula | None:
    """The sums that a formula is; None where it is anything else, or where a column is no number.

    The dot stands for the columns not named otherwise, but for those `apart`.
    """
    left, tilde, right = formula.partition("~")
    if not tilde or "~" in right or frame.columns.inferred_type != "string":
        return None
    available = list(dict.fromkeys(frame.columns))
    responses, columns = _items(left), _items(right)
    if not responses or columns is None or any(sign != "+" or kind != "name" for sign, kind, _ in responses):
        return None
    targets = list(dict.fromkeys(name for _, _, name in responses))
    taken = {*targets, *apart}
    rest = [name for name in available if name not in taken]
    chosen: dict[str, None] = {}
    intercept = True
    for sign, kind, item in columns:
        if kind == "name" or item == ".":
            for name in [item] if kind == "name" else rest:
                chosen[name] = None
                if sign == "-":
                    del chosen[name]
        elif (sign, item) == ("-", "0"):
            return None
        else:
            intercept = (sign, item) == ("+", "1")
    named = [name for _, kind, name in columns if kind == "name"]
    if not _all_numbers(frame, [*targets, *named, *chosen]):
        return None
    return PlainFormula(targets, list(chosen), intercept)


def _items(side: str) -> list[tuple[str, str, str]] | None:
    """Sign, kind ("name" or "other") and text of each item of a sum; None where it is no sum of items."""
    out, at = [], 0
    side = side.strip()
    while at < len(side):
        match = ITEM.match(side, at)
        if match is None or (at > 0 and not match["sign"]):
            return None
        name = match["quoted"] or match["name"]
        if name is not None and (name == "Intercept" or NUMERAL.fullmatch(name) or name != name.strip()):
            return None
        out.append((match["sign"] or "+", "other" if name is None else "name", name or match["other"]))
        at = match.end()
    return out


def _all_numbers(frame: pd.DataFrame, names: Sequence[str]) -> bool:
    """Whether each of these names one column of real numbers or truth values."""
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    known = {dtype: getattr(dtype, "kind", "O") in "iufb" for dtype in set(dtypes.values())}
    wanted = set(names)
    if not all(name in dtypes and known[dtypes[name]] and _readable(name) for name in wanted):
        return False
    return len(dtypes) == frame.shape[1] or sum(name in wanted for name in frame.columns) == len(wanted)


def _readable(name: str) -> bool:
    return name != "Intercept" and not NUMERAL.fullmatch(name) and not set(name) & set("`:")


def numbers(frame: pd.DataFrame, names: Sequence[str]) -> FloatArray:
    """Columns of numbers as one matrix of float64, NaN where they are missing."""
    some = frame[list(names)]
    if all(isinstance(dtype, np.dtype) for dtype in set(some.dtypes)):
        return some.to_numpy(dtype=np.float64)
    return some.to_numpy(dtype=np.float64, na_value=np.nan)


def kinds_of_numbers(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Of each column of numbers "number" or "boolean"."""
    dtypes: dict[str, Any] = dict(zip(frame.columns, frame.dtypes, strict=True))
    return {name: "boolean" if dtypes[name].kind == "b" else "number" for name in names}
