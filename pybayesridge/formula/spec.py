"""Formulas of a fitted model: how columns are coded, and what was coded."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import dataclass, fields, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import pandas as pd
from formulaic import ModelSpec

from pybayesridge.exceptions import DataWarning
from pybayesridge.formula.bands import Band, BandColumns
from pybayesridge.formula.calls import column_of
from pybayesridge.formula.names import factors_of, is_plain, names_in, names_of
from pybayesridge.text import listed

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
        The user's own functions and values that the right-hand side uses, as they were where the model was fitted,
        without values of each row.
    has_intercept : bool
    own : tuple of str
        Their names, also of values of each row and of what a file cannot hold.
    of_all_rows : tuple of str
        Terms whose values in a row depend on other rows.
    bands : tuple of Band
        Of terms with a variance of their own, which `spec` and `columns` are without.
    """

    formula: str
    spec: ModelSpec | None
    columns: list[str]
    variables: list[str]
    kinds: dict[str, str]
    context: dict[str, Any]
    has_intercept: bool
    own: tuple[str, ...] = ()
    of_all_rows: tuple[str, ...] = ()
    bands: tuple[Band, ...] = ()

    @property
    def groups(self) -> frozenset[str]:
        """Columns of the data that are groups and nothing else: new rows may have other groups, or none."""
        formulas = [*({id(band.spec): band.spec.formula for band in self.bands}.values())]
        read = names_of([term for formula in formulas for term in formula]).read
        read |= names_of(self.spec.formula).read if self.spec is not None else frozenset()
        read |= {band.by[0] for band in self.bands if band.by is not None}
        groups = {
            name for band in self.bands if band.kind == "group" and band.groups for name in band.groups.variables
        }
        return frozenset(groups - read)

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
        fixed = {str(term): names[where] for term, where in self.spec.term_slices.items()}
        return fixed | {band.of_term: list(band.all_columns) for band in self.bands}

    def columns_by_variable(self) -> dict[str, list[str]]:
        """Columns of the design that depend on each variable."""
        if self.spec is None:
            return {name: [name] for name in self.variables}
        names = list(self.spec.column_names)
        out = {str(name): [names[j] for j in at] for name, at in self.spec.variable_indices.items()}
        for band in self.bands:
            groups = () if band.groups is None else band.groups.variables
            by = () if band.by is None else band.by[:1]
            for name in {*names_of(band.spec.formula).read, *groups, *by}:
                out[name] = [*out.get(name, []), *band.all_columns]
        return out

    def is_linear_in(self, name: str) -> bool:
        """Whether all columns of the design are linear in a variable that is a number."""
        sums = [] if self.spec is None else [self.spec.formula, *(band.spec.formula for band in self.bands)]
        return all(is_plain(one, name) for one in sums)

    def without_rows(self, lengths: tuple[int, ...]) -> FormulaSpec:
        """The same without the user's arrays that have an entry for each row (whose number is one of `lengths`)."""
        context = {name: value for name, value in self.context.items() if not has_length(value, lengths)}
        return replace(self, context=context)

    def refuse_lost(self) -> None:
        """Refuse to evaluate the formula without a function or a value that it used in the fit."""
        lost = [name for name in self.own if name not in self.context]
        if lost:
            raise ValueError(
                f"the formula {self.formula!r} uses {listed(lost)} of the session in which the model was fitted, "
                "which cannot be used here: values of each row of the fit are not those of other rows, files hold no "
                "functions, and pickles none without a name in a module. Make a column of the expression before the "
                'fit, or define the function in a module and use save(format="pickle")'
            )

    def refuse_all_rows(self) -> None:
        """Refuse to code new rows by terms whose values depend on all rows of the data."""
        if self.of_all_rows:
            raise ValueError(
                f"the values of {listed(self.of_all_rows)} in the formula {self.formula!r} depend on all rows of the "
                "data, and those of new rows would be others: make a column of it before the fit, or use a transform "
                "that keeps what it learned, such as scale() or center()"
            )

    def __getstate__(self) -> tuple[Any, ...]:
        """Leave out what cannot be pickled; modules are imported again."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        context = {name: _Module(v.__name__) if isinstance(v, ModuleType) else v for name, v in self.context.items()}
        state["context"] = {name: value for name, value in context.items() if _picklable(value)}
        return tuple(state.values())

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the fields in order."""
        for field, value in zip(fields(self), (*state, (), (), ()), strict=False):
            object.__setattr__(self, field.name, value)


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
    extent : pandas.Series or None
        How large rows are: numbers of trials, or exposures.
    variables : pandas.DataFrame or None
        The columns of the data that the right-hand side reads, at the rows of `exog`; None where they are those of
        `exog`, or not in memory.
    bands : tuple of BandColumns
        Of terms with a variance of their own, whose columns `exog` is without.
    """

    endog: pd.DataFrame
    exog: pd.DataFrame
    weights: Any
    terms: dict[str, list[int]]
    spec: FormulaSpec
    n_dropped: int
    library: str = "pandas"
    extent: Any = None
    variables: pd.DataFrame | None = None
    bands: tuple[BandColumns, ...] = ()


def has_length(value: Any, lengths: tuple[int, ...]) -> bool:
    """Whether a value has one of these numbers of entries, or an array as many rows or columns."""
    if isinstance(value, list | tuple | dict | set):
        return len(value) in lengths
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and any(n in shape for n in lengths)


@dataclass(frozen=True, slots=True)
class _Module:
    """What a pickle has of a module, in place of which it reads the module."""

    name: str

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.name,)


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
    """Levels of a variable that is a factor or a group, the reference first; empty where an expression makes it.

    None for a variable that is a number.
    """
    kind = spec.kinds.get(name, "number")
    if spec.spec is None:
        return [False, True] if kind == "boolean" else None
    for band in spec.bands:
        if band.groups is not None and name in band.groups.variables:
            return list(band.groups.levels[band.groups.variables.index(name)])
    found: list[Any] | None = None if kind == "number" else []
    for factor in factors_of(spec.spec.formula):
        _, state = spec.spec.encoder_state.get(factor.expr, (None, {}))
        if "categories" not in state or name not in names_in(factor).read:
            continue
        if column_of(factor) == name:
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
