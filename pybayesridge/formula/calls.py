"""Requirements of the calls in a formula on a stream: factors, scaled columns, and declarations."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from formulaic.transforms import TRANSFORMS

from pybayesridge.text import listed

AS_NUMBERS = "_as_numbers"
"""The function that operands of arithmetic are passed through."""

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)

SPLINES = ("bs", "cc", "cr", "cs")


def calls(parsed: Any) -> Iterator[tuple[ast.Call, dict[str, str]]]:
    """Every call in a formula, and the quoted names that placeholders stand for in it."""
    for side in (parsed.lhs, parsed.rhs):
        for term in side:
            for factor in term.factors:
                tree, placeholders = tree_of(str(factor.expr))
                for node in ast.walk(tree) if tree is not None else ():
                    if isinstance(node, ast.Call):
                        yield node, placeholders


def tree_of(expression: str) -> tuple[ast.AST | None, dict[str, str]]:
    """An expression parsed, None where it is not Python, and the quoted names that placeholders stand for."""
    placeholders: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        name = f"_quoted_{len(placeholders)}"
        placeholders[name] = match.group(1)
        return name

    plain = re.sub(r"`([^`]+)`", replaced, expression)
    try:
        return ast.parse(plain.strip(), mode="eval"), placeholders
    except SyntaxError:
        return None, placeholders


def text(node: ast.AST, placeholders: Mapping[str, str]) -> str:
    """A node as the user would write it."""
    out = ast.unparse(node)
    for name, quoted in placeholders.items():
        out = out.replace(name, f"`{quoted}`")
    return out


def column_of_factor(call: ast.Call, placeholders: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The column that ``C(column)`` codes; None where it declares its levels itself."""
    if any(keyword.arg == "levels" for keyword in call.keywords):
        return None
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Name):
        name = placeholders.get(first.id, first.id)
        if name in names:
            return name
    raise ValueError(
        f"the levels of {text(call, placeholders)} cannot be found in a stream: make a column of the expression, or "
        "declare them in the formula, C(..., levels=[...])"
    )


def argument(call: ast.Call, placeholders: Mapping[str, str], own: Mapping[str, Any]) -> str:
    """The argument of ``scale`` or ``center``."""
    told = text(call, placeholders)
    literal = all(k.arg == "ddof" and isinstance(k.value, ast.Constant) for k in call.keywords)
    if len(call.args) != 1 or not literal:
        raise ValueError(
            f"in a stream scale takes one argument and ddof=, so that {told} cannot be used: write it out"
        )
    for node in ast.walk(call.args[0]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in own:
            function = TRANSFORMS.get(node.func.id)
            if getattr(function, "__is_stateful_transform__", False):
                raise ValueError(
                    f"{told} needs a pass over the data for each transform: make a column of the inner one"
                )
    return text(call.args[0], placeholders)


def refuse_undeclared(
    function: str, call: ast.Call, placeholders: Mapping[str, str], names: Collection[str] = ()
) -> None:
    """Refuse transforms whose state depends on all rows, unless the formula declares it, without columns `names`."""
    told = text(call, placeholders)
    given = {keyword.arg for keyword in call.keywords}
    if function in SPLINES:
        # What is not given by name is not looked for among the positions.
        declared = {"lower_bound", "upper_bound"} <= given and "df" not in given and len(call.args) == 1
        centred = "constraints" in given
        if not declared or centred or (function != "bs" and "knots" not in given):
            raise ValueError(
                f"the knots of {told} depend on all rows: declare them, {function}(x, knots=[...], lower_bound=..., "
                "upper_bound=...), without df" + (" and constraints" if centred else "")
            )
        read = {node.id for k in call.keywords for node in ast.walk(k.value) if isinstance(node, ast.Name)}
        columns = [name for name in names if name in {placeholders.get(name, name) for name in read}]
        if columns:
            raise ValueError(
                f"the knots or bounds of {told} depend on all rows of {listed(columns)}: declare them as numbers"
            )
    elif function == "poly":
        raw = any(
            k.arg == "raw" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords
        )
        if not raw:
            raise ValueError(
                f"the polynomials of {told} are orthogonal over all rows: use poly(..., raw=True), of a column that "
                "was scaled"
            )
    elif function == "lag":
        raise ValueError(
            f"{told} looks at other rows, and a stream is read in batches: add it to the data as a column"
        )
    elif function == "standardize":
        raise ValueError(f"{told}: use scale(x, ddof=0), which a stream can compute exactly")


def unquoted(expression: str) -> str:
    """An expression as formulaic's states name it: quoted names become identifiers."""
    return re.sub(r"`([^`]+)`", lambda match: re.sub(r"\W", "_", match.group(1)), expression)


class _Arithmetic(ast.NodeTransformer):
    """Pass the operands of arithmetic through :data:`AS_NUMBERS`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ARITHMETIC):
            node.left, node.right = self._number(node.left), self._number(node.right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub):
            node.operand = self._number(node.operand)
        return node

    @staticmethod
    def _number(node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
        ):
            return node
        if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
            return node
        return ast.Call(ast.Name(AS_NUMBERS, ast.Load()), [node], [])


class _AsWritten(ast.NodeTransformer):
    """Undo :class:`_Arithmetic`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[0] if isinstance(node.func, ast.Name) and node.func.id == AS_NUMBERS else node


@lru_cache
def with_numbers(expression: str) -> str:
    """An expression whose arithmetic is that of numbers: a sum of comparisons counts those that hold."""
    tree, placeholders = tree_of(expression)
    if not isinstance(tree, ast.Expression):
        return expression
    written = ast.dump(tree)
    changed = _Arithmetic().visit(tree)
    return expression if ast.dump(changed) == written else text(changed, placeholders)


def as_written(node: ast.AST) -> ast.AST:
    """The expression that :func:`with_numbers` changed."""
    out: ast.AST = _AsWritten().visit(node)
    return out


@lru_cache
def makes_factor(expression: str) -> bool:
    """Whether an expression is a call of ``C``."""
    tree, _ = tree_of(expression)
    call = tree.body if isinstance(tree, ast.Expression) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "C"


@lru_cache
def as_state(expression: str) -> str:
    """A call, as the user wrote it or as a state names it, in one form."""
    tree, placeholders = tree_of(expression)
    return unquoted(expression if tree is None else text(as_written(tree), placeholders))
