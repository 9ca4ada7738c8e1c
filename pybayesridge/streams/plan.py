"""The columns, levels and statistics that a formula needs when it is coded batch by batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.band_terms import ParsedTerm, left_out, names_of_terms, parsed_terms
from pybayesridge.formula.bars import BandTerm, GroupTerm, SmoothTerm, take_out
from pybayesridge.formula.calls import (
    argument,
    calls,
    column_of_factor,
    refuse_undeclared,
)
from pybayesridge.formula.names import Context, names_in_code, names_of, own_values
from pybayesridge.formula.parse import parse
from pybayesridge.text import listed, repeated

EXACT = ("center", "scale")


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Requirements of a formula on a stream, before any row is read.

    Attributes
    ----------
    formula : str
    parsed : formulaic.Formula
    columns : list of str
        Columns of the data that are read, the weights' among them.
    variables : list of str
        Those the formula names.
    weights : str or None
        The column of the weights.
    factors : list of str
        Columns whose levels have to be known.
    declared : dict
        Levels of those that the user declared.
    moments_of : list of str
        Arguments of ``scale`` and ``center``, as Python expressions.
    context : dict
        The user's own names that the formula uses.
    bands : tuple of ParsedTerm
        Terms with a variance of their own, which `parsed` is without.
    """

    formula: str
    parsed: Any
    columns: list[str]
    variables: list[str]
    weights: str | None
    factors: list[str]
    declared: dict[str, list[Any]]
    moments_of: list[str]
    context: dict[str, Any]
    bands: tuple[ParsedTerm, ...] = ()

    @property
    def combinations(self) -> dict[BandTerm, list[str]]:
        """Columns of which a first pass has to find the combinations: those of groups, and of smooth curves."""
        out: dict[BandTerm, list[str]] = {}
        for one in self.bands:
            if isinstance(one.term, GroupTerm):
                out[one.term] = list(one.term.groups)
            elif isinstance(one.term, SmoothTerm):
                out[one.term] = [one.term.argument, *([one.term.by] if one.term.by and not one.multiplied else [])]
        return out

    @property
    def undeclared(self) -> list[str]:
        """Factors whose levels a first pass must find."""
        return [name for name in self.factors if name not in self.declared]

    @property
    def surveyed(self) -> list[str]:
        """Columns whose values a first pass needs."""
        read = {name for expression in self.moments_of for name in names_in_code(expression).read}
        read |= {name for names in self.combinations.values() for name in names}
        return [name for name in self.variables if name in read or name in self.undeclared]

    @property
    def needs_survey(self) -> bool:
        """Whether the rows must be read once before they can be coded."""
        return bool(self.undeclared or self.moments_of or self.bands)


def make_plan(
    formula: str,
    names: Sequence[str],
    numeric: Mapping[str, bool],
    *,
    weights: str | None,
    levels: Mapping[str, Iterable[Any]] | None,
    context: Context | None,
) -> StreamPlan:
    """Find out what a formula needs.

    Parameters
    ----------
    formula : str
    names : sequence of str
        The columns there are.
    numeric : mapping
        Whether each of them holds numbers (or truth values).
    weights : str or None
    levels : mapping or None
        Levels that the user declares.
    context : mapping or None
        Where names that are neither columns nor functions of formulas are looked up.

    Raises
    ------
    ValueError
        For a transform whose state a stream cannot give; the message says what to declare instead.
    """
    if not isinstance(formula, str):
        raise ValueError(f"formula must be a string such as 'y ~ x', not {type(formula).__name__}")
    if weights is not None and weights not in names:
        raise ValueError(f"weights names {weights!r}, which is not a column of the data")
    split = take_out(formula)
    empty = pd.DataFrame({name: pd.Series(dtype=np.float64 if numeric[name] else object) for name in names})
    bands = parsed_terms(split.terms, empty, context)
    parsed = parse(split.fixed, pd.DataFrame(columns=list(names)), left_out(bands))
    found = names_of(parsed) | names_of_terms(bands)
    own, used = own_values(found, names, context), found.read
    variables = [name for name in names if name in used]
    twice = repeated(name for name in names if name in used)
    if twice:
        raise ValueError(f"duplicate column name(s) {listed(twice)} in the data: give each column a name of its own")
    factors, arguments = [name for name in variables if not numeric[name]], []
    for name in (name for one in bands for name in _factors_of(one, names)):
        factors += [name] if name not in factors else []
    for call in [call for each in (parsed, *(one.parsed for one in bands)) for call in calls(each)]:
        function = call.func.id if isinstance(call.func, ast.Name) else ""
        if function not in TRANSFORMS:
            continue
        if function == "C":
            coded = column_of_factor(call, names)
            factors += [coded] if coded is not None and coded not in factors else []
        elif function in EXACT:
            arguments.append(argument(call))
        else:
            refuse_undeclared(function, call, names)
    declared = {str(name): list(dict.fromkeys(values)) for name, values in (levels or {}).items()}
    stray = [name for name in declared if name not in factors]
    if stray:
        raise ValueError(f"levels names {listed(stray)}, which the formula {formula!r} does not use as factors")
    columns = variables + ([weights] if weights is not None and weights not in variables else [])
    return StreamPlan(
        formula, parsed, columns, variables, weights, factors, declared, list(dict.fromkeys(arguments)), own, bands
    )


def _factors_of(one: ParsedTerm, names: Sequence[str]) -> list[str]:
    """Columns of a term whose levels have to be known: groups, and the factor of a smooth curve.

    Raises
    ------
    ValueError
        For a smooth curve of an expression: its knots are at quantiles of values, which are those of a column here.
    """
    if isinstance(one.term, GroupTerm):
        return list(one.term.groups)
    if isinstance(one.term, SmoothTerm):
        if one.term.argument not in names:
            raise ValueError(
                f"{one.term.written} is a curve of an expression, and these rows are read in batches: add "
                f"{one.term.argument} to the data as a column"
            )
        return [one.term.by] if one.term.by and not one.multiplied else []
    return []
