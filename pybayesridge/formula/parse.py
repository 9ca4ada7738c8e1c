"""Formulas as text → formulaic's terms: names in backticks stay names, and no formula takes for ever to expand."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, MutableMapping
from functools import reduce
from typing import Any

import pandas as pd
from formulaic import Formula
from formulaic.errors import FormulaicError
from formulaic.parser import DefaultFormulaParser, DefaultOperatorResolver
from formulaic.parser.types import Operator, OrderedSet, Token
from interface_meta import override

from pybayesridge.formula.hints import CROSSING, FormulaError, in_backticks_hint
from pybayesridge.formula.quoted import bare, in_backticks, name_of, without_backticks

MOST_TERMS = 100_000
"""Most terms that products of sums may have."""

DOT = re.compile(r"(?<![\w.)\]`])\.(?![\w(.])")
"""The dot that stands for all other columns; not that of a number or of an attribute."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Codes by which terminals colour text."""

USED = "__formulaic_variables_used_lhs__"
AVAILABLE = "__formulaic_variables_available__"


def parse(formula: str, frame: pd.DataFrame, apart: Collection[str] = ()) -> Any:
    """Parse a two-sided formula; ``.`` stands for the columns of `frame` not named otherwise, but for those `apart`.

    Raises
    ------
    ValueError
        For a formula without a left-hand side.
    FormulaError
        For a formula that cannot be parsed, or has too many terms.
    """
    columns = [str(c) for c in frame.columns if str(c) not in apart]
    text = bare(formula)
    if "1" in columns and (DOT.search(text) or "`1`" in formula):
        raise ValueError("the data have a column named '1', which a formula takes for the intercept: rename it")
    nameless = [name for name in columns if not name or "`" in name]
    if "``" in text or (nameless and DOT.search(text)):
        told = (
            f"the data have a column named {nameless[0]!r}, which"
            if nameless
            else "an empty name in backticks is one that"
        )
        raise FormulaError(f"{told} a formula cannot name: rename it")
    parsed = _read(formula, columns)
    if not hasattr(parsed, "lhs") or not len(parsed.lhs):
        raise ValueError(f"the formula {formula!r} has no left-hand side: write 'y ~ …'")
    if isinstance(parsed.lhs, tuple) or isinstance(parsed.rhs, tuple):
        raise ValueError(
            f"the formula {formula!r} has several parts (|), which these models do not have: write + for |, and "
            "effects that vary by group in parentheses, (x | g)"
        )
    return parsed


def parse_sum(terms: str) -> Any:
    """Parse a sum of terms; an intercept is part of it unless it says ``0 +`` or ``- 1``."""
    return _read(terms, [])


def _read(formula: str, columns: list[str]) -> Any:
    try:
        return Formula.from_spec(without_backticks(formula), parser=_Parser(), context={AVAILABLE: columns})
    except FormulaError:
        raise
    except (FormulaicError, SyntaxError, RecursionError, MemoryError) as error:
        raise _not_parsed(formula, columns, error) from error


def _not_parsed(formula: str, columns: list[str], error: BaseException) -> FormulaError:
    text = bare(formula)
    hint = in_backticks_hint(text, [c for c in columns if c in text])
    told = in_backticks(COLOURS.sub("", str(error)).partition("\n")[0].strip())
    return FormulaError(f"the formula {formula!r} cannot be parsed{hint or (f': {told}' if told else '')}")


class _Parser(DefaultFormulaParser):
    """formulaic's, for formulas whose names in backticks are identifiers; terms have the names."""

    def __init__(self) -> None:
        super().__init__(operator_resolver=_Operators())

    @override
    def get_tokens_from_formula(self, formula: str, *, context: MutableMapping[str, Any]) -> Iterable[Token]:
        tokens = list(super().get_tokens_from_formula(formula, context=context))
        context[USED] = [name_of(str(name)) for name in context[USED]]
        kinds: dict[str, Token.Kind] = {}
        for token in tokens:
            if token.kind is Token.Kind.NAME:
                token.token = name_of(token.token)
            elif token.kind is Token.Kind.PYTHON:
                _refuse_exclusive_or(token.token)
                token.token = in_backticks(token.token)
            if token.kind not in (Token.Kind.NAME, Token.Kind.PYTHON):
                continue
            if kinds.setdefault(token.token, token.kind) is not token.kind:
                raise FormulaError(
                    f"the formula has the column `{token.token}` and the expression {token.token}, whose "
                    "coefficients would have one name: rename the column"
                )
        return tokens


class _Operators(DefaultOperatorResolver):
    """formulaic's, each of which makes at most :data:`MOST_TERMS` terms."""

    @property
    @override
    def operators(self) -> list[Operator]:
        found: list[Operator] = super().operators
        return [_limited(operator) for operator in found]


def _limited(operator: Operator) -> Operator:
    if operator.symbol in ("**", "^"):
        made: Callable[..., Any] = _power
    elif operator.symbol in ("*", ":", "/", "in", "%in%"):

        def made(left: Any, right: Any) -> Any:
            _refuse_many(len(left) * len(right))
            return operator.to_terms(left, right)

    else:
        return operator
    return Operator(
        operator.symbol,
        arity=operator.arity,
        precedence=operator.precedence,
        associativity=operator.associativity,
        fixity=operator.fixity,
        to_terms=made,
    )


def _power(sums: Any, exponent: Any) -> Any:
    """A sum times itself; formulaic's makes each product of `exponent` terms, however often the same."""
    factors: Any = next(iter(exponent)).factors if len(exponent) else ()
    text = str(factors[0].expr) if len(factors) == 1 else ""
    if not (text.isdecimal() and int(text) > 0):
        told = text or "an expression"
        raise FormulaError(f"the exponent of ** must be a positive integer, not {told}{CROSSING}")
    out = OrderedSet(sums)
    for _ in range(int(text) - 1):
        _refuse_many(len(out))
        before = len(out)
        made = OrderedSet(reduce(lambda a, b: a * b, pair) for pair in ((x, y) for x in out for y in sums))
        if len(made) == before and made == out:
            break
        out = made
    return out


def _refuse_many(count: int) -> None:
    if count > MOST_TERMS:
        raise FormulaError(
            f"the formula would have {count:,} terms or more, and at most {MOST_TERMS:,} are made: leave out "
            "interactions of high order"
        )


def _refuse_exclusive_or(code: str) -> None:
    """Refuse ``x ^ 2`` within a call, where Python computes with bits."""
    for node in ast.walk(ast.parse(code.strip(), mode="eval")):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.BitXor)
            and any(
                isinstance(side, ast.Constant) and type(side.value) in (int, float)
                for side in (node.left, node.right)
            )
        ):
            told = in_backticks(ast.unparse(node))
            power = in_backticks(ast.unparse(ast.BinOp(node.left, ast.Pow(), node.right)))
            raise FormulaError(
                f"{told} is not a power within a call, where ^ is Python's exclusive or: write {power}"
            )
