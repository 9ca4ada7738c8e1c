"""How many columns a formula may make: counted before they are made, since what is too large would never end."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import numpy as np
import pandas as pd
from formulaic.materializers.types import FactorValues
from formulaic.parser.types import Factor, Term
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.hints import FormulaError

MOST_COLUMNS = 100_000
"""Most columns that factors and transforms may make together; columns of numbers in the data are not counted."""

MOST_OF_A_CURVE = 1_000
"""Most columns of a spline or a polynomial, whose time grows with a power of their number."""

MOST_FACTORS = 8
"""Most factors in one interaction: with each, formulaic's search of columns takes 7 times as long."""

COLUMNS = "_self_columns"
"""Attribute of the values of a factor whose levels the formula declares: their number."""

SIZES = {
    "hashed": {"levels": MOST_COLUMNS},
    "C": {"levels": MOST_COLUMNS},
    "poly": {"degree": MOST_OF_A_CURVE},
    **dict.fromkeys(("bs", "cc", "cr", "cs"), dict.fromkeys(("df", "knots", "degree"), MOST_OF_A_CURVE)),
}
"""Arguments of transforms that say how many columns they make, and the most of them."""


def refuse_many_columns(terms: Iterable[Term], factors: Mapping[str, Any]) -> None:
    """Refuse terms that would have too many columns; `factors` are the evaluated ones by their text."""
    widths = {name: _width(found) for name, found in factors.items()}
    total = 0
    for term in terms:
        found = [widths[str(factor.expr)] for factor in term.factors]
        count = math.prod(found)
        several = sum(
            width > 1 and _is_factor(factors[str(factor.expr)])
            for width, factor in zip(found, term.factors, strict=True)
        )
        if several > MOST_FACTORS:
            raise FormulaError(
                f"the interaction {term} is of {several} factors, and at most {MOST_FACTORS} can be multiplied: "
                "leave out interactions of high order"
            )
        total += count if count > 1 else 0
        if total > MOST_COLUMNS:
            raise FormulaError(
                f"the formula would make {total:,} columns or more ({count:,} of {term}), and at most "
                f"{MOST_COLUMNS:,} are made: use fewer levels, or leave out interactions"
            )


def _is_factor(found: Any) -> bool:
    return found.metadata.kind is Factor.Kind.CATEGORICAL


def _width(found: Any) -> int:
    """How many columns an evaluated factor has at most."""
    declared: int = getattr(found.values, COLUMNS, 0)
    if declared:
        return declared
    values = getattr(found.values, "__wrapped__", found.values)
    if _is_factor(found):
        values = getattr(values, "__wrapped__", values)
        dtype = getattr(values, "dtype", None)
        return len(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else pd.Series(values).nunique()
    if isinstance(values, dict):
        return sum(not (isinstance(key, str) and key.startswith("__")) for key in values)
    shape: Any = getattr(values, "shape", ())
    return int(shape[1]) if len(shape) == 2 else 1


def _limited(name: str, function: Callable[..., Any], most: Mapping[str, int]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        plain = {key: value for key, value in kwargs.items() if not key.startswith("_")}
        try:
            given = signature.bind_partial(*args, **plain).arguments
        except TypeError:  # the function itself says what is wrong
            given = {}
        for argument, limit in most.items():
            count = _count(given.get(argument))
            if count > limit:
                raise FormulaError(
                    f"{name}(..., {argument}={count:,}) would make too many columns: at most {limit:,}"
                )
        made = function(*args, **kwargs)
        if "levels" in most and isinstance(made, FactorValues) and "levels" in given:
            setattr(made, COLUMNS, int(_count(given["levels"])))
        return made

    return checked


def _count(value: Any) -> float:
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value) if np.isinf(value) else int(value)
    return len(value) if isinstance(value, Sized) and not isinstance(value, str) else 0


FUNCTIONS: dict[str, Any] = {
    name: _limited(name, function, SIZES[name]) if name in SIZES else function
    for name, function in TRANSFORMS.items()
}
"""The functions of formulas; those that can make any number of columns refuse too many."""
