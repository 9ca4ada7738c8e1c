"""Requirements of the calls in a formula on a stream: factors, scaled columns, and declarations."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.names import factors_of, functions_at
from pybayesridge.formula.quoted import identifier, in_backticks, name_of, without_backticks
from pybayesridge.text import listed

AS_NUMBERS = "_as_numbers"
"""The function that operands of arithmetic are passed through."""

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)

FUNCTIONS = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

SPLINES = ("bs", "cc", "cr", "cs")


def calls(parsed: Any) -> Iterator[ast.Call]:
    """Every call in a formula."""
    for factor in factors_of(parsed):
        tree = tree_of(factor)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call):
                yield node


def tree_of(factor: Factor) -> ast.expr | None:
    """The expression that a factor is, None for a column or a number."""
    return code_tree(str(factor.expr)) if factor.eval_method is Factor.EvalMethod.PYTHON else None


def code_tree(expression: str) -> ast.expr:
    """An expression parsed, with identifiers for the names in backticks."""
    return ast.parse(without_backticks(expression).strip(), mode="eval").body


def text(node: ast.AST) -> str:
    """A node as the user would write it."""
    return in_backticks(ast.unparse(node))


def column_of_factor(call: ast.Call, names: Sequence[str]) -> str | None:
    """The column that ``C(column)`` codes; None where it declares its levels itself."""
    if any(keyword.arg == "levels" for keyword in call.keywords):
        return None
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Name):
        name = name_of(first.id)
        if name in names:
            return name
    raise ValueError(
        f"the levels of {text(call)} cannot be found in a stream: make a column of the expression, or "
        "declare them in the formula, C(..., levels=[...])"
    )


def argument(call: ast.Call) -> str:
    """The argument of ``scale`` or ``center``."""
    told = text(call)
    literal = all(k.arg == "ddof" and isinstance(k.value, ast.Constant) for k in call.keywords)
    if len(call.args) != 1 or not literal:
        raise ValueError(
            f"in a stream scale takes one argument and ddof=, so that {told} cannot be used: write it out"
        )
    for node in ast.walk(call.args[0]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = TRANSFORMS.get(node.func.id)
            if getattr(function, "__is_stateful_transform__", False):
                raise ValueError(
                    f"{told} needs a pass over the data for each transform: make a column of the inner one"
                )
    return text(call.args[0])


def refuse_undeclared(function: str, call: ast.Call, names: Collection[str] = ()) -> None:
    """Refuse transforms whose state depends on all rows, unless the formula declares it, without columns `names`."""
    told = text(call)
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
        columns = [name for name in names if name in {name_of(one) for one in read}]
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


class _Arithmetic(ast.NodeTransformer):
    """Pass the operands of arithmetic through :data:`AS_NUMBERS`, but in functions, which see single values alone."""

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, FUNCTIONS) else super().visit(node)

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
    """Undo :class:`_Arithmetic` and :class:`_Columns`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[0] if isinstance(node.func, ast.Name) and node.func.id == AS_NUMBERS else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(identifier(name_of(node.id)), node.ctx)


class _Columns(ast.NodeTransformer):
    """Write the names of some columns, where they stand for values, as if they were in backticks."""

    def __init__(self, names: Collection[str], functions: Collection[int]) -> None:
        self.names, self.functions = names, functions

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.names and id(node) not in self.functions:
            return ast.Name(identifier(node.id, always=True), node.ctx)
        return node


@lru_cache(maxsize=4096)
def as_code(expression: str, hidden: frozenset[str] = frozenset(), *, numbers: bool = False) -> str:
    """An expression as it is evaluated, with identifiers for the names in backticks.

    Parameters
    ----------
    expression : str
    hidden : frozenset of str
        Columns whose names are those of functions: as values they are the columns.
    numbers : bool
        Whether arithmetic is that of numbers: a sum of comparisons counts those that hold.
    """
    tree: ast.AST = code_tree(expression)
    if hidden:
        tree = _Columns(hidden, {id(node) for node in functions_at(tree)}).visit(tree)
    return ast.unparse(_Arithmetic().visit(tree) if numbers else tree).replace("\n", " ")


def as_written(node: ast.AST) -> ast.AST:
    """The expression whose arithmetic :func:`as_code` changed."""
    out: ast.AST = _AsWritten().visit(node)
    return out


@lru_cache
def makes_factor(expression: str) -> bool:
    """Whether an expression is a call of ``C``."""
    call = code_tree(expression)
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "C"


@lru_cache
def as_state(expression: str) -> str:
    """A call, as the user wrote it or as a state names it, in one form."""
    return ast.unparse(as_written(code_tree(expression)))


def column_of(factor: Factor) -> str:
    """The column that a factor is, as it is or as ``C`` codes it; else empty."""
    if factor.eval_method is Factor.EvalMethod.LOOKUP:
        return str(factor.expr)
    call = code_tree(str(factor.expr)) if makes_factor(str(factor.expr)) else None
    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return name_of(first.id) if isinstance(first, ast.Name) else ""
