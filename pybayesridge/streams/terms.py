"""Formulas whose cross-products follow from those of numbers and of the cells of factors: one pass is enough.

Each term has to be a product of columns of numbers, of expressions that give each row numbers, and of factors, or of
factors and one ``scale(x)`` or ``center(x)``. Then neither levels nor means have to be known before rows are read.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.calls import SPLINES, code_tree, text, tree_of
from pybayesridge.formula.names import names_in
from pybayesridge.formula.quoted import name_of
from pybayesridge.streams.plan import EXACT, StreamPlan

Key = tuple[str, ...]
"""Names of numbers (columns or expressions), sorted: those whose product a number is; or factors whose levels make
cells."""

DECLARED = (*SPLINES, "poly")
"""Transforms whose state the formula declares: a plan has no others."""


@dataclass(frozen=True, slots=True)
class PlainTerm:
    """A term of numbers and factors.

    Attributes
    ----------
    numbers : tuple of str
        Columns and expressions whose product the term contains, sorted.
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
    scaled : dict
        Of each argument of ``scale`` and ``center``, as the plan has it, the column or expression.
    expressions : dict
        Formulaic's factor of each expression.
    fields : dict
        Of each expression with several columns (or none of its own in some terms) their names, once they are known.
    """

    responses: list[str]
    terms: dict[Any, PlainTerm]
    scaled: dict[str, str]
    expressions: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def products(self, term: PlainTerm) -> list[Key]:
        """The numbers of a term: one for each choice of a column of each expression, that of the last the fastest."""
        choices = [self.fields.get(name, [name]) for name in term.numbers]
        return [tuple(sorted(choice)) for choice in itertools.product(*choices)]

    @property
    def dense(self) -> list[Key]:
        """Numbers that are columns of the cross-products: of terms without factors, responses, scaled numbers."""
        numbers = [key for term in self.terms.values() if not term.factors for key in self.products(term)]
        return list(dict.fromkeys([*numbers, *((name,) for name in (*self.responses, *self.scaled.values()))]))

    @property
    def cells(self) -> list[tuple[Key, Key]]:
        """Numbers (none for the dummies themselves) and factors of each set of cells, the dummies first."""
        with_factors = [term for term in self.terms.values() if term.factors]
        dummies: list[tuple[Key, Key]] = [((), term.factors) for term in with_factors]
        numbers = [(key, term.factors) for term in with_factors for key in self.products(term)]
        return list(dict.fromkeys([*dummies, *numbers]))


def plain_terms(plan: StreamPlan, numeric: Mapping[str, bool], *, surveyed: bool = False) -> PlainTerms | None:
    """The terms of a formula; None if one of them is not plain.

    Parameters
    ----------
    plan : StreamPlan
    numeric : mapping
        Whether each column holds numbers (or truth values).
    surveyed : bool
        Whether the means and standard deviations of ``scale`` and ``center`` are known: these are expressions then.
    """
    found = _Found(plan, numeric, surveyed)
    terms: dict[Any, PlainTerm] = {}
    for term in plan.parsed.rhs:
        if all(
            factor.eval_method is Factor.EvalMethod.LITERAL and str(factor.expr) == "1" for factor in term.factors
        ):
            continue
        known = found.plain_term(term)
        if known is None:
            return None
        terms[term] = known
    responses: list[str] = []
    for term in plan.parsed.lhs:
        known = found.plain_term(term)
        if known is None or known.factors or known.scaled or len(known.numbers) != 1:
            return None
        responses += known.numbers
    if any(isinstance(value, bool) for values in plan.declared.values() for value in values):
        return None
    if set(found.expressions) & set(plan.columns):
        return None
    return PlainTerms(responses, terms, found.scaled, found.expressions)


class _Found:
    """What the terms that were looked at have in them."""

    def __init__(self, plan: StreamPlan, numeric: Mapping[str, bool], surveyed: bool) -> None:
        self.plan, self.numeric, self.surveyed = plan, numeric, surveyed
        self.scaled: dict[str, str] = {}
        self.expressions: dict[str, Any] = {}

    def plain_term(self, term: Any) -> PlainTerm | None:
        """A term of the formula; None if it is not plain."""
        numbers: list[str] = []
        factors: list[str] = []
        scaled = ""
        for factor in term.factors:
            name = str(factor.expr)
            if factor.eval_method is Factor.EvalMethod.LOOKUP and name in self.plan.variables:
                (numbers if self.numeric[name] else factors).append(name)
                continue
            function, argument = self._call(factor)
            if function == "C" and argument in self.plan.factors:
                factors.append(argument)
            elif function in EXACT and not scaled and not self.surveyed:
                number = self._number(argument)
                if number is None:
                    return None
                self.scaled[argument] = number
                numbers.append(number)
                scaled = name
            elif self._is_expression(factor):
                self.expressions[name] = factor
                numbers.append(name)
            else:
                return None
        if not (numbers or factors) or len({*numbers, *factors}) < len(numbers) + len(factors):
            return None
        if scaled and len(numbers) > 1:
            return None
        return PlainTerm(tuple(sorted(numbers)), tuple(sorted(factors)), scaled)

    def _call(self, factor: Any) -> tuple[str, str]:
        """The transform ``C``, ``scale`` or ``center`` that a factor calls, and its argument; else empty.

        Of ``C`` the argument is a column, of the others an expression as the plan has it.
        """
        call = tree_of(factor)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return "", ""
        if call.func.id in EXACT:
            return call.func.id, text(call.args[0])
        first = call.args[0] if call.args else None
        if call.func.id != "C" or not isinstance(first, ast.Name):
            return "", ""
        if any(keyword.arg == "levels" for keyword in call.keywords):
            return "", ""
        return "C", name_of(first.id)

    def _number(self, expression: str) -> str | None:
        """A column of numbers, or an expression, that is scaled."""
        tree = code_tree(expression)
        if isinstance(tree, ast.Name):
            name = name_of(tree.id)
            if name in self.plan.variables:
                return name if self.numeric[name] else None
        factor = Factor(expression, eval_method=Factor.EvalMethod.PYTHON)
        if not self._is_expression(factor):
            return None
        self.expressions[expression] = factor
        return expression

    def _is_expression(self, factor: Any) -> bool:
        """Whether a factor computes with columns of numbers and calls no transform that learns from all rows."""
        if factor.eval_method is not Factor.EvalMethod.PYTHON:
            return False
        found = names_in(factor)
        read = found.read & set(self.plan.variables)
        if not read or not all(self.numeric[name] for name in read):
            return False
        names = found.functions - {*DECLARED, *(EXACT if self.surveyed else ())}
        learning = {name for name in names if getattr(TRANSFORMS.get(name), "__is_stateful_transform__", False)}
        return not (learning or names & {"C", "hashed", "lag"})
