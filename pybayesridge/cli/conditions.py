"""Conditions on rows, such as ``age > 30 and sex == "f"``: read by themselves, never evaluated as Python."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.text import did_you_mean

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}

WORDS = {"&": "and", "|": "or", "&&": "and", "||": "or"}
"""Signs that bind as loosely as these words here, as in pandas' queries."""

QUOTED = "_quoted_column_{}_"


def rows_where(condition: str, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Which rows satisfy a condition.

    Parameters
    ----------
    condition : str
        Columns (those whose names are no Python names in backticks), numbers and quoted text, arithmetic,
        comparisons (chained, too), ``in`` and ``not in`` lists, ``and``, ``or``, ``not``, brackets.
    frame : DataFrame

    Returns
    -------
    (n,) array of bool
        A comparison with a missing value is false, except ``!=`` and ``not in``.

    Raises
    ------
    ValueError
        For anything else, or a condition that no row satisfies.
    """
    try:
        return _checked(_Reader(condition, frame).value(), frame)
    except ValueError as error:
        raise ValueError(f"--subset {condition!r}: {error}") from None
    except (TypeError, ArithmeticError):
        raise ValueError(f"--subset {condition!r} compares or computes with values that do not go together") from None
    except RecursionError:
        raise ValueError("--subset has too many brackets within brackets") from None


def _checked(values: Any, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    if not isinstance(values, pd.Series) or not pd.api.types.is_bool_dtype(values):
        raise ValueError("this is not a condition on rows, such as 'age > 30'")
    out = values.fillna(False).to_numpy(dtype=bool)
    if not out.any():
        raise ValueError("the condition leaves no row")
    return out


class _Reader:
    """One condition and the frame whose columns it names."""

    def __init__(self, condition: str, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.columns = {str(name): i for i, name in enumerate(frame.columns)}
        self.quoted: dict[str, str] = {}
        try:
            self.tree = ast.parse(self._as_python(condition), mode="eval").body
        except (SyntaxError, MemoryError):
            raise ValueError("this is not a condition on rows, such as 'age > 30'") from None

    def _as_python(self, condition: str) -> str:
        """The condition with names in backticks replaced and signs for words, outside of quotes."""
        out = []
        for text, is_quoted in _pieces(condition):
            if is_quoted and text.startswith("`"):
                name = QUOTED.format(len(self.quoted))
                self.quoted[name] = text[1:-1]
                out.append(f" {name} ")
            elif is_quoted:
                out.append(text)
            else:
                for sign in ("&&", "||", "&", "|"):
                    text = text.replace(sign, f" {WORDS[sign]} ")
                out.append(text)
        return "".join(out).strip()

    def value(self) -> Any:
        """The value of the whole condition."""
        return self._value(self.tree)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self._column(self.quoted.get(node.id, node.id))
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return node.value
        if isinstance(node, ast.BoolOp):
            return self._joined(node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return ARITHMETIC[type(node.op)](self._number(node.left), self._number(node.right))
        raise ValueError(
            f"{ast.unparse(node)!r} is not among what a condition can say: columns, numbers, quoted text, "
            "arithmetic, comparisons, 'in' and 'not in' lists, and, or, not"
        )

    def _column(self, name: str) -> pd.Series:
        if name not in self.columns:
            raise ValueError(f"{name!r} is not a column of the data{did_you_mean(name, list(self.columns))}")
        return self.frame.iloc[:, self.columns[name]]

    def _number(self, node: ast.expr) -> Any:
        """Operands as floats: integers of a file would wrap."""
        value = self._value(node)
        if isinstance(value, pd.Series) and pd.api.types.is_numeric_dtype(value):
            return value.astype("float64")
        if isinstance(value, bool | int | float):
            return float(value)
        raise ValueError(f"{ast.unparse(node)!r} is not a number")

    def _condition(self, node: ast.expr) -> pd.Series:
        value = self._value(node)
        if not isinstance(value, pd.Series) or not pd.api.types.is_bool_dtype(value):
            raise ValueError(f"{ast.unparse(node)!r} is not a condition on rows, such as 'age > 30'")
        return value.fillna(False).astype(bool)

    def _joined(self, node: ast.BoolOp) -> pd.Series:
        both = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        parts = [self._condition(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return functools.reduce(both, parts)

    def _unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not | ast.Invert):
            return ~self._condition(node.operand)
        value = self._number(node.operand)
        return -value if isinstance(node.op, ast.USub) else value

    def _compared(self, node: ast.Compare) -> pd.Series:
        out: Any = None
        left = node.left
        for sign, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(sign, ast.In | ast.NotIn):
                found = self._within(left, right)
                found = ~found if isinstance(sign, ast.NotIn) else found
            elif type(sign) in COMPARISONS:
                sides = self._value(left), self._value(right)
                _refuse_mixture(*sides, ast.unparse(node))
                found = COMPARISONS[type(sign)](*sides)
            else:
                raise ValueError("use == and != to compare")
            if not isinstance(found, pd.Series):
                raise ValueError(f"{ast.unparse(node)!r} compares no column")
            out = found if out is None else out.fillna(False).astype(bool) & found.fillna(False).astype(bool)
            left = right
        return out

    def _within(self, left: ast.expr, right: ast.expr) -> pd.Series:
        column = self._value(left)
        if not isinstance(column, pd.Series) or not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise ValueError("'in' needs a column on its left and a list on its right, such as: g in ['a', 'b']")
        values = [self._value(item) for item in right.elts]
        for value in values:
            if isinstance(value, pd.Series):
                raise ValueError("a list after 'in' holds numbers and quoted text, no columns")
            _refuse_mixture(column, value, ast.unparse(left))
        return column.isin(values)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """A text as pieces, with whether each is quoted (by ', " or `)."""
    out, start, quote, i = [], 0, "", 0
    while i < len(text):
        c = text[i]
        if quote and c == "\\" and quote != "`":
            i += 1
        elif quote and c == quote:
            out.append((text[start : i + 1], True))
            start, quote = i + 1, ""
        elif not quote and c in "'\"`":
            out.append((text[start:i], False))
            start, quote = i, c
        i += 1
    if quote:
        raise ValueError(f"the quote {quote} is not closed")
    return [*out, (text[start:], False)]


def _refuse_mixture(left: Any, right: Any, where: str) -> None:
    """A number is never equal to a text: such a comparison would answer without a word."""
    for one, other in ((left, right), (right, left)):
        numbers = isinstance(one, bool | int | float) or (
            isinstance(one, pd.Series) and pd.api.types.is_numeric_dtype(one)
        )
        text = isinstance(other, str) or (
            isinstance(other, pd.Series)
            and (isinstance(other.dtype, pd.StringDtype) or pd.api.types.infer_dtype(other) == "string")
        )
        if numbers and text:
            raise ValueError(f"{where!r} compares numbers with text")
