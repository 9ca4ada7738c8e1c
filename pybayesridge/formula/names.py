"""The names in a formula: which columns it reads, and what to say of those that are not there."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

import pandas as pd
from formulaic import Formula
from formulaic.errors import FormulaicError
from formulaic.transforms import TRANSFORMS

from pybayesridge.text import did_you_mean

NEIGHBOURS = ("lag", "shift", "diff", "rolling", "expanding", "ewm")
"""Functions and methods that look at the rows before or after a row."""

DOT = re.compile(r"(?<![\w.)\]`])\.(?![\w(.])")
"""The dot that stands for all other columns; not that of a number or of an attribute."""


class FormulaError(ValueError, FormulaicError):
    """A formula that cannot be parsed, or that names a variable that is not there."""


def names_read(formula: str, frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Columns of the data that a formula reads, and names in it that are neither columns nor formulaic's own.

    Raises
    ------
    ValueError
        For a formula without a left-hand side.
    formulaic.errors.FormulaicError
        For a formula that cannot be parsed.
    """
    columns = [str(c) for c in frame.columns]
    known = set(columns)
    own = {*known, *TRANSFORMS, *dir(builtins)}
    parsed = parse(formula, frame)
    read: set[str] = set()
    unknown: set[str] = set()
    for side in (parsed.lhs, parsed.rhs):
        for term in side:
            for factor in term.factors:
                expr = str(factor.expr)
                names = frozenset({expr}) if expr in known else _names_in(expr)
                read |= names & known
                unknown |= names - own
    return [c for c in columns if c in read], sorted(unknown)


def parse(formula: str, frame: pd.DataFrame, apart: str | None = None) -> Any:
    """Parse a two-sided formula; ``.`` stands for the columns of `frame` not named otherwise, but for `apart`."""
    available = {"__formulaic_variables_available__": [str(c) for c in frame.columns if str(c) != apart]}
    names_one = "1" in available["__formulaic_variables_available__"]
    if names_one and (DOT.search(formula) or "`1`" in formula):
        raise ValueError("the data have a column named '1', which a formula takes for the intercept: rename it")
    try:
        parsed = Formula.from_spec(formula, context=available)
    except (FormulaicError, SyntaxError) as error:
        bare = re.sub(r"`[^`]*`", "", formula)
        hint = _in_backticks(bare, [c for c in available["__formulaic_variables_available__"] if c in bare])
        if not hint:
            raise
        raise FormulaError(f"the formula {formula!r} cannot be parsed{hint}") from error
    if not hasattr(parsed, "lhs") or not len(parsed.lhs):
        raise ValueError(f"the formula {formula!r} has no left-hand side: write 'y ~ …'")
    if isinstance(parsed.lhs, tuple) or isinstance(parsed.rhs, tuple):
        raise ValueError(
            f"the formula {formula!r} has several parts (|), which these models do not have: write + for |"
        )
    return parsed


def names_of(parsed: Any) -> set[str]:
    """Every name that a formula reads, whether a column or not."""
    out: set[str] = set()
    for side in (parsed.lhs, parsed.rhs):
        for term in side:
            for factor in term.factors:
                out |= names_in_factor(str(factor.expr))
    return out


def names_in_factor(expr: str) -> set[str]:
    """The factor itself, which may be a column, and the names in it."""
    return {expr} | _names_in(expr)


@lru_cache(maxsize=1024)
def _names_in(expr: str) -> frozenset[str]:
    """Names that an expression looks up; the expression itself where it is not Python (a name with a space)."""
    quoted = set(re.findall(r"`([^`]+)`", expr))
    try:
        tree = ast.parse(re.sub(r"`[^`]+`", "0", expr).strip(), mode="eval")
    except SyntaxError:
        return frozenset(quoted or {expr})
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in nodes if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return frozenset(quoted | ({node.id for node in nodes} - bound))


def refuse_unknown(names: Iterable[str], columns: Collection[str], context: Collection[str]) -> None:
    """Refuse a name that is neither a column, nor the caller's own, nor one of formulaic's or Python's."""
    known = {*columns, *TRANSFORMS, *dir(builtins)}
    for name in sorted(name for name in names if name not in known and name not in context):
        if name.replace(".", "", 1).isnumeric() or not name.isidentifier():
            continue
        hint = _in_backticks(name, columns) or did_you_mean(name, columns)
        raise FormulaError(f"the formula names {name!r}, which is not a column of the data{hint}")


def _in_backticks(text: str, columns: Collection[str]) -> str:
    """A hint where `text` has a column, or is a word of one, that formulas take in backticks only."""
    quoted = [c for c in columns if not c.isidentifier() and (c in text or text in re.split(r"\W+", c))]
    return f": a name with spaces or signs goes in backticks, `{quoted[0]}`" if quoted else ""


def sees_other_rows(parsed: Any) -> bool:
    """Whether a formula, or its right-hand side, says in so many words that it looks at neighbouring rows."""
    terms = [*parsed.lhs, *parsed.rhs] if hasattr(parsed, "lhs") else parsed
    return any(
        re.search(rf"\b{name}\s*\(", str(factor.expr)) is not None
        for term in terms
        for factor in term.factors
        for name in NEIGHBOURS
    )
