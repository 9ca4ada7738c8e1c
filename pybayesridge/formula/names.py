"""The names in a formula: the columns it reads, the functions it calls, and what to say of those that are not there.

A name is looked up once, here: a variable is a column of the data, or else a value of the caller's; a function is one
of formulas' own, or else one of the caller's, or of Python's. What was the caller's where a model was fitted is kept
with the fit, so that nobody looks for it again.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.hints import FormulaError, function_hint, name_hint
from pybayesridge.formula.quoted import name_of, without_backticks

NEIGHBOURS = ("lag", "shift", "diff", "rolling", "expanding", "ewm")
"""Functions and methods that look at the rows before or after a row."""

OWNERS = ("np", "contr")
"""Formulas' own names whose attributes are functions."""

Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """Names in a formula, by what they stand for.

    Attributes
    ----------
    terms : frozenset of str
        Columns that are factors of terms.
    variables : frozenset of str
        Values in expressions.
    functions : frozenset of str
        Functions that expressions call, and what has them as attributes (``np``).
    methods : frozenset of str
        Attributes.
    """

    terms: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()

    @property
    def read(self) -> frozenset[str]:
        """All that can be columns."""
        return self.terms | self.variables

    def __or__(self, other: Names) -> Names:
        """The names of both."""
        return Names(
            self.terms | other.terms,
            self.variables | other.variables,
            self.functions | other.functions,
            self.methods | other.methods,
        )


def factors_of(parsed: Any) -> list[Factor]:
    """The factors of the terms of both sides of a formula, or of one."""
    terms = [*parsed.lhs, *parsed.rhs] if hasattr(parsed, "lhs") else parsed
    return list(dict.fromkeys(factor for term in terms for factor in term.factors))


def names_of(parsed: Any) -> Names:
    """Every name in a formula, or in one of its sides."""
    found = [names_in(factor) for factor in factors_of(parsed)]
    return Names(*(frozenset().union(*(getattr(one, part) for one in found)) for part in Names.__slots__))


def names_in(factor: Factor) -> Names:
    """The names in a factor of a term."""
    if factor.eval_method is Factor.EvalMethod.LOOKUP:
        return Names(terms=frozenset({str(factor.expr)}))
    return names_in_code(str(factor.expr)) if factor.eval_method is Factor.EvalMethod.PYTHON else Names()


def is_plain(parsed: Any, name: str) -> bool:
    """Whether a name is read as a factor of terms alone, never in an expression: columns are linear in a number."""
    return not any(name in names_in(factor).variables for factor in factors_of(parsed))


@lru_cache(maxsize=1024)
def names_in_code(expression: str) -> Names:
    """The names in an expression, without those that it gives a value itself."""
    tree = ast.parse(without_backticks(expression).strip(), mode="eval")
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in nodes if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    at = {id(node) for node in functions_at(tree)}
    free = [node for node in nodes if node.id not in bound]
    return Names(
        variables=frozenset(name_of(node.id) for node in free if id(node) not in at) | _quoted_by_q(tree),
        functions=frozenset(name_of(node.id) for node in free if id(node) in at),
        methods=frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)),
    )


def functions_at(tree: ast.AST) -> list[ast.Name]:
    """The names in an expression that stand for functions, not for values."""
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    owners = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    out = [node for node in called if isinstance(node, ast.Name)]
    return out + [node for node in owners if isinstance(node, ast.Name) and node.id in OWNERS]


def _quoted_by_q(tree: ast.AST) -> frozenset[str]:
    """Columns that ``Q("a column")`` names."""
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
            argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                raise FormulaError(f'{ast.unparse(node)}: Q takes the name of a column as text, Q("a column")')
            out.add(argument.value)
    return frozenset(out)


def own_values(names: Names, columns: Collection[str], context: Context | None) -> dict[str, Any]:
    """What a formula uses of the caller's, as it is now.

    Raises
    ------
    FormulaError
        For a name that is neither a column, nor the caller's, nor one of formulas' own or Python's.
    """
    known, scope = set(columns), context or {}
    for name in sorted(names.terms - known):
        if name not in scope or callable(scope[name]) or isinstance(scope[name], ModuleType):
            raise FormulaError(
                f"the formula names {name!r}, which is not a column of the data{name_hint(name, columns)}"
            )
    for name in sorted(names.variables - known):
        if name in TRANSFORMS and name in scope and not callable(scope[name]) and scope[name] is not TRANSFORMS[name]:
            raise FormulaError(f"{name!r} is a function of formulas, so that a value of yours needs another name")
        if name not in scope and name not in TRANSFORMS and not hasattr(builtins, name):
            raise FormulaError(
                f"the formula names {name!r}, which is not a column of the data{name_hint(name, columns)}"
            )
    for name in sorted(names.functions):
        if name not in scope and name not in TRANSFORMS and not hasattr(builtins, name):
            raise FormulaError(
                f"the formula calls {name}(), which is not a function of formulas{function_hint(name)}"
            )
    asked = (names.terms - known) | (names.variables - known - set(TRANSFORMS)) | (names.functions - set(TRANSFORMS))
    return {name: _as_it_is(scope[name]) for name in sorted(asked) if name in scope}


def own_of_side(names: Names, own: Mapping[str, Any]) -> dict[str, Any]:
    """What one side of a formula uses of the caller's."""
    return {name: value for name, value in own.items() if name in names.read | names.functions}


def _as_it_is(value: Any) -> Any:
    """A copy of a value that the caller may change later."""
    changes = isinstance(value, list | dict | set | bytearray | np.ndarray | pd.Series | pd.DataFrame | pd.Index)
    return copy.deepcopy(value) if changes else value


def refuse_named_intercept(spec: ModelSpec) -> None:
    """Refuse a column of the data whose name is that of a formula's intercept."""
    names = list(spec.column_names)
    if any(str(term) != "1" and "Intercept" in names[where] for term, where in spec.term_slices.items()):
        raise FormulaError(
            "the data have a column named 'Intercept', which is the name of a formula's intercept: rename it, or "
            "leave it out if it is 1 in every row"
        )


def sees_other_rows(parsed: Any) -> bool:
    """Whether a formula, or its right-hand side, says in so many words that it looks at neighbouring rows."""
    found = names_of(parsed)
    return bool((found.functions | found.methods) & set(NEIGHBOURS))
