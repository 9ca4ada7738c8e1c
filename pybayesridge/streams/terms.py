"""Formulas whose cross-products follow from those of plain columns and of the cells of factors: one pass is enough.

Each term has to be a product of columns of numbers, of factors, and at most of one ``scale(x)`` or ``center(x)``.
Then neither the levels nor the means have to be known before the rows are read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formulaic.parser.types import Factor

from pybayesridge.formula.calls import tree_of, unquoted
from pybayesridge.streams.plan import EXACT, StreamPlan

Key = tuple[str, ...]
"""Names of columns, sorted: those whose product a number is, or factors whose levels make cells."""


@dataclass(frozen=True, slots=True)
class PlainTerm:
    """A term of plain columns.

    Attributes
    ----------
    numbers : tuple of str
        Columns whose product the term contains, sorted.
    factors : tuple of str
        Factors whose dummies it contains, sorted.
    scaled : str
        The call of ``scale`` or ``center`` that stands for its only number; else empty.
    """

    numbers: Key
    factors: Key
    scaled: str = ""


@dataclass(frozen=True, slots=True)
class PlainTerms:
    """A formula of plain terms.

    Attributes
    ----------
    responses : list of str
    terms : dict
        By formulaic's term, without the intercept.
    scaled : list of str
        Columns that are scaled or centred.
    """

    responses: list[str]
    terms: dict[Any, PlainTerm]
    scaled: list[str]

    @property
    def dense(self) -> list[Key]:
        """Numbers that are columns of the cross-products: of terms without factors, responses, scaled columns."""
        numbers = [term.numbers for term in self.terms.values() if not term.factors]
        return list(dict.fromkeys([*numbers, *((name,) for name in (*self.responses, *self.scaled))]))

    @property
    def cells(self) -> list[tuple[Key, Key]]:
        """Numbers (none for the dummies themselves) and factors of each set of cells, the dummies first."""
        with_factors = [term for term in self.terms.values() if term.factors]
        dummies: list[tuple[Key, Key]] = [((), term.factors) for term in with_factors]
        return list(dict.fromkeys([*dummies, *((term.numbers, term.factors) for term in with_factors)]))


def plain_terms(plan: StreamPlan, numeric: Mapping[str, bool]) -> PlainTerms | None:
    """The terms of a formula; None if one of them is not plain.

    Parameters
    ----------
    plan : StreamPlan
    numeric : mapping
        Whether each column holds numbers (or truth values).
    """
    terms: dict[Any, PlainTerm] = {}
    for term in plan.parsed.rhs:
        if all(
            factor.eval_method is Factor.EvalMethod.LITERAL and str(factor.expr) == "1" for factor in term.factors
        ):
            continue
        known = _plain_term(term, plan, numeric)
        if known is None:
            return None
        terms[term] = known
    responses: list[str] = []
    for term in plan.parsed.lhs:
        known = _plain_term(term, plan, numeric)
        if known is None or known.factors or known.scaled or len(known.numbers) != 1:
            return None
        responses += known.numbers
    if any(isinstance(value, bool) for values in plan.declared.values() for value in values):
        return None
    if len({unquoted(f"`{name}`") for name in plan.variables}) < len(plan.variables):
        return None
    scaled = list(dict.fromkeys(term.numbers[0] for term in terms.values() if term.scaled))
    return PlainTerms(responses, terms, scaled)


def _plain_term(term: Any, plan: StreamPlan, numeric: Mapping[str, bool]) -> PlainTerm | None:
    numbers: list[str] = []
    factors: list[str] = []
    scaled = ""
    for factor in term.factors:
        text = str(factor.expr)
        if factor.eval_method is Factor.EvalMethod.LOOKUP and text in plan.variables:
            (numbers if numeric[text] else factors).append(text)
            continue
        function, column = _call(factor, plan)
        if function == "C" and column in plan.factors:
            factors.append(column)
        elif function in EXACT and numeric.get(column, False) and not scaled:
            numbers.append(column)
            scaled = text
        else:
            return None
    if not (numbers or factors) or len({*numbers, *factors}) < len(numbers) + len(factors):
        return None
    if scaled and len(numbers) > 1:
        return None
    return PlainTerm(tuple(sorted(numbers)), tuple(sorted(factors)), scaled)


def _call(factor: Any, plan: StreamPlan) -> tuple[str, str]:
    """The name of the function that a factor calls on a column, and the column; else empty."""
    if factor.eval_method is not Factor.EvalMethod.PYTHON:
        return "", ""
    tree, placeholders = tree_of(str(factor.expr))
    call = tree.body if isinstance(tree, ast.Expression) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id in plan.context:
        return "", ""
    first = call.args[0] if call.args else None
    if not isinstance(first, ast.Name) or any(keyword.arg == "levels" for keyword in call.keywords):
        return "", ""
    column = placeholders.get(first.id, first.id)
    return (call.func.id, column) if column in plan.variables else ("", "")
