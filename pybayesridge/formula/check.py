"""Which formulas only compute: what a formula from elsewhere may say before it is evaluated.

Formulaic evaluates what a formula says as Python, so that a formula can do all that Python can. A formula that passes
:func:`refuse_code` reads columns and calls formulaic's transforms and NumPy's functions, nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Set

import numpy as np
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token
from formulaic.transforms import TRANSFORMS

from pybayesridge.text import did_you_mean

NUMPY = {"where": 3, "clip": 3, "round": 2}
"""Functions of NumPy that are not ufuncs, and how many arguments they may have (a further one is overwritten)."""

CONSTANTS = ("pi", "e")
CONTRASTS = tuple(name for name in vars(TRANSFORMS["contr"]) if not name.startswith("_"))

FUNCTIONS = ("np", *TRANSFORMS)

QUOTED = re.compile(r"`([^`]*)`")
STAND_IN = "_quoted_column_{}_"
RESERVED = re.compile(r"_quoted_column_\d+_|_formulaic_|__FORMULAIC_")

LARGEST_POWER = 100
"""Powers of numbers alone are computed when the formula is read: a larger exponent could take for ever."""

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor)
SIMPLE = (
    ast.Name,
    ast.UnaryOp,
    ast.Compare,
    ast.List,
    ast.Tuple,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)


def refuse_code(formula: str, columns: Collection[str]) -> None:
    """Raise unless a formula does nothing but compute with columns.

    To be called before formulaic parses the formula: it evaluates parts of it even then.

    Parameters
    ----------
    formula : str
    columns : collection of str
        Names of the columns of the data.

    Raises
    ------
    ValueError
        For anything but columns, numbers, plain strings, lists of these, arithmetic, comparisons, formulaic's
        transforms and NumPy's ufuncs.
    formulaic.errors.FormulaicError
        For a formula that ends within quotes or brackets.
    """
    known = dict.fromkeys(columns).keys()
    for token in tokenize(formula):
        text = str(token.token)
        if token.kind is Token.Kind.PYTHON:
            _check(text, known)
        elif token.kind is Token.Kind.NAME and text != "." and text not in known:
            raise _unknown(text, known)


def _check(code: str, columns: Set[str]) -> None:
    quoted = QUOTED.findall(code)
    if RESERVED.search(code) or any(not _plain(name) for name in quoted):
        raise _refusal(code)
    names = iter(range(len(quoted)))
    try:
        tree = ast.parse(QUOTED.sub(lambda _: STAND_IN.format(next(names)), code).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"the formula has {_short(code)}, which is not an expression") from None
    stand_ins = {STAND_IN.format(i) for i in range(len(quoted))}
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not stand_ins <= found:  # a backtick within a string
        raise _refusal(code)
    hidden = {name for name in FUNCTIONS if name in columns}
    for node in _values(tree.body, hidden):
        if isinstance(node, ast.Name) and node.id not in columns and node.id not in stand_ins:
            raise _unknown(node.id, columns)
        if not _allowed(node):
            raise _refusal(ast.unparse(node) if isinstance(node, ast.expr) else code)


def _values(tree: ast.expr, hidden: Set[str]) -> list[ast.AST]:
    """Every node but the names of known functions, which are checked here."""
    out: list[ast.AST] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call):
            if not _known_call(node, hidden):
                raise _refusal(ast.unparse(node))
            todo += [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Attribute):
            if not _known_value(node, hidden):
                raise _refusal(ast.unparse(node))
        else:
            out.append(node)
            todo += ast.iter_child_nodes(node)
    return out


def _known_value(node: ast.Attribute, hidden: Set[str]) -> bool:
    """Whether an attribute that is not called is a number of NumPy or a contrast."""
    if not isinstance(node.value, ast.Name) or node.value.id in hidden:
        return False
    return (node.value.id == "np" and node.attr in CONSTANTS) or (node.value.id == "contr" and node.attr in CONTRASTS)


def _known_call(node: ast.Call, hidden: Set[str]) -> bool:
    """Whether a call is of a transform or a function of NumPy, with arguments that it only reads."""
    function, plain = node.func, not node.keywords
    if any(keyword.arg is None or keyword.arg.startswith("_") for keyword in node.keywords):
        return False
    if isinstance(function, ast.Name):
        found = None if function.id in hidden else TRANSFORMS.get(function.id)
        if isinstance(found, np.ufunc):
            return plain and len(node.args) <= found.nin
        return callable(found) and function.id != "contr"
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
        return False
    owner, name = function.value.id, function.attr
    if owner in hidden or name.startswith("_"):
        return False
    if owner == "contr":
        return name in CONTRASTS
    found = getattr(np, name, None) if owner == "np" else None
    most = found.nin if isinstance(found, np.ufunc) else NUMPY.get(name, -1)
    return owner == "np" and plain and len(node.args) <= most


def _allowed(node: ast.AST) -> bool:
    """Whether a node that is neither call nor attribute only computes, once its names are known."""
    if isinstance(node, ast.Constant):
        value = node.value
        return _plain(value) if isinstance(value, str) else value is None or isinstance(value, bool | int | float)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        numbers = not any(isinstance(side, ast.List | ast.Tuple | ast.Dict) or _is_text(side) for side in sides)
        return numbers and isinstance(node.op, OPERATORS) and not _endless(node)
    if isinstance(node, ast.Dict):
        return None not in node.keys
    return isinstance(node, SIMPLE + OPERATORS)


def _endless(node: ast.BinOp) -> bool:
    """Whether a power of numbers alone is too large to be computed."""
    if not isinstance(node.op, ast.Pow) or any(isinstance(part, ast.Name) for part in ast.walk(node)):
        return False
    base, power = node.left, node.right
    return not (
        isinstance(base, ast.Constant)
        and isinstance(power, ast.Constant)
        and isinstance(power.value, int | float)
        and power.value <= LARGEST_POWER
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _plain(text: str) -> bool:
    """Whether formulaic can put a text within quotes: what has quotes or a backslash would end them."""
    return text.isprintable() and not set(text) & set("\"'`\\")


def _short(code: str) -> str:
    return repr(code if len(code) <= 60 else f"{code[:57]}...")


def _unknown(name: str, columns: Set[str]) -> ValueError:
    return ValueError(
        f"the formula names {name!r}, which is not a column of the data{did_you_mean(name, list(columns))}"
    )


def _refusal(code: str) -> ValueError:
    return ValueError(
        f"the formula has {_short(code)}, which is not a column, a transform of the formula language "
        "(bs, C, poly, scale, ...) or a function of NumPy (np.sqrt, ...) with plain arguments; "
        "--allow-code evaluates any Python code in it: use that only for formulas you trust"
    )
