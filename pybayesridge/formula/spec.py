"""Formulas of a fitted model: how columns are coded, and what was coded."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from formulaic import ModelSpec

from pybayesridge.exceptions import DataWarning
from pybayesridge.formula.names import names_in_factor

Context = Mapping[str, Any]

LIKE_A_NUMBER = re.compile(r"[^\w.+-]*[+-]?[^\w.]*\d[\d.,' ]*[^\w.]*")
"""A number with a sign of a currency, a percentage, or separators of thousands."""


@dataclass(frozen=True, slots=True)
class FormulaSpec:
    """How a formula was coded, so that new data are coded the same way.

    Attributes
    ----------
    formula : str
        As the user wrote it.
    spec : formulaic.ModelSpec or None
        Of the right-hand side, with the states of its transforms; None where it is a sum of columns of numbers.
    columns : list of str
        Columns of the design that were kept.
    variables : list of str
        Columns of the data that the right-hand side reads.
    kinds : dict
        Of each of them "number", "boolean", "text", "category" or "other".
    context : dict
        The user's own names (functions, constants) that the right-hand side uses.
    has_intercept : bool
    """

    formula: str
    spec: ModelSpec | None
    columns: list[str]
    variables: list[str]
    kinds: dict[str, str]
    context: dict[str, Any]
    has_intercept: bool

    @property
    def text_variables(self) -> list[str]:
        """Variables whose values were text, which stay text where a file is read whose values look like numbers."""
        return [name for name, kind in self.kinds.items() if kind == "text"]

    def columns_of_terms(self) -> dict[str, list[str]]:
        """Columns of the design, before any was left out, of each term."""
        if self.spec is None:
            first = {"1": ["Intercept"]} if self.has_intercept else {}
            return first | {name: [name] for name in self.variables}
        names = list(self.spec.column_names)
        return {str(term): names[where] for term, where in self.spec.term_slices.items()}

    def without_rows(self, lengths: tuple[int, ...]) -> FormulaSpec:
        """The same without the user's arrays that have an entry for each row (whose number is one of `lengths`)."""
        context = {name: value for name, value in self.context.items() if not _is_over(value, lengths)}
        return replace(self, context=context)

    def __getstate__(self) -> tuple[Any, ...]:
        """Leave out names that cannot be pickled: they are looked up again where the model predicts."""
        context = {name: value for name, value in self.context.items() if _picklable(value)}
        return (self.formula, self.spec, self.columns, self.variables, self.kinds, context, self.has_intercept)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the fields in order."""
        for name, value in zip(self.__slots__, state, strict=True):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class FormulaData:
    """The matrices a formula yields.

    Attributes
    ----------
    endog : pandas.DataFrame
    exog : pandas.DataFrame
        Without the intercept's column.
    weights : pandas.Series or None
    terms : dict
        Positions in `exog` of each term's columns.
    spec : FormulaSpec
    n_dropped : int
        Rows left out because a variable was missing.
    library : str
        Whose frame the data are.
    trials : pandas.Series or None
        Of binomial counts.
    variables : pandas.DataFrame or None
        The columns of the data that the right-hand side reads, at the rows of `exog`; None where they are those of
        `exog`, or not in memory.
    """

    endog: pd.DataFrame
    exog: pd.DataFrame
    weights: Any
    terms: dict[str, list[int]]
    spec: FormulaSpec
    n_dropped: int
    library: str = "pandas"
    trials: Any = None
    variables: pd.DataFrame | None = None


def _is_over(value: Any, lengths: tuple[int, ...]) -> bool:
    if isinstance(value, list | tuple | dict | set):
        return len(value) in lengths
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and any(n in shape for n in lengths)


def _picklable(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def factor_levels(spec: FormulaSpec) -> list[tuple[str, list[str], str]]:
    """The factors of the right-hand side: name, levels in their order, and how they are coded."""
    out = []
    for name, (_, state) in {} if spec.spec is None else spec.spec.encoder_state.items():
        if "categories" in state:
            coding = getattr(state.get("contrasts"), "contrasts", None)
            how = "" if coding is None else type(coding).__name__.removesuffix("Contrasts").lower()
            out.append((str(name), [str(level) for level in state["categories"]], how))
    return out


def levels_of(spec: FormulaSpec, name: str) -> list[Any] | None:
    """Levels of a variable that is a factor, the reference first; empty where an expression makes the factor.

    None for a variable that is a number.
    """
    kind = spec.kinds.get(name, "number")
    if spec.spec is None:
        return [False, True] if kind == "boolean" else None
    own = re.compile(rf"\s*(?:C\()?\s*`?{re.escape(name)}`?\s*(?:[,)].*)?", re.DOTALL)
    found: list[Any] | None = None if kind == "number" else []
    for expr, (_, state) in spec.spec.encoder_state.items():
        if "categories" not in state or name not in names_in_factor(str(expr)):
            continue
        if own.fullmatch(str(expr)):
            levels = list(state["categories"])
            base = getattr(getattr(state.get("contrasts"), "contrasts", None), "base", None)
            return sorted(levels, key=lambda level: level != base)
    return [False, True] if kind == "boolean" else found


def warn_of_levels(spec: FormulaSpec, n: int) -> None:
    """Warn of factors that have more levels than half the rows: identifiers, and numbers that are text."""
    for name, levels, _ in factor_levels(spec):
        if len(levels) > n / 2:
            like = [level for level in levels if LIKE_A_NUMBER.fullmatch(level)]
            numeric = f", or make numbers of values such as {like[0]!r}" if len(like) > len(levels) / 2 else ""
            warnings.warn(
                f"the factor {name!r} has {len(levels)} levels in {n} rows, and the model a coefficient for nearly "
                f"each: leave it out (- {name}){numeric}",
                DataWarning,
                stacklevel=4,
            )
