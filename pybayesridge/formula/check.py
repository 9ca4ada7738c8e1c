"""Which formulas only compute: what a formula from elsewhere may say before it is evaluated.

Formulaic evaluates what a formula says as Python, so that a formula can do all that Python can. A formula that passes
:func:`refuse_code` reads columns and calls formulaic's transforms and NumPy's functions, nothing else.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Mapping, Set
from typing import Any

import numpy as np
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token
from formulaic.transforms import TRANSFORMS

from pybayesridge.formula.bars import take_out
from pybayesridge.formula.quoted import in_backticks, name_of, without_backticks
from pybayesridge.formula.smooths import CURVE, curve
from pybayesridge.formula.spec import FormulaSpec
from pybayesridge.text import did_you_mean

NUMPY = {"where": 3, "clip": 3, "round": 2}
"""Functions of NumPy that are not ufuncs, and how many arguments they may have (a further one is overwritten)."""

CONSTANTS = ("pi", "e")
CONTRASTS = tuple(name for name in vars(TRANSFORMS["contr"]) if not name.startswith("_"))

RESERVED = ("_formulaic_", "__FORMULAIC_")
"""Beginnings of names that formulaic makes itself."""

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


class CodeError(ValueError):
    """A formula that does more than compute with columns."""


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
    CodeError
        For anything but columns, numbers, plain strings, lists of these, arithmetic, comparisons, formulaic's
        transforms and NumPy's ufuncs.
    formulaic.errors.FormulaicError
        For a formula that ends within quotes or brackets.
    """
    known = dict.fromkeys(columns).keys()
    split = take_out(formula)
    for part in [split.fixed, *(code for term in split.terms for code in term.codes)]:
        for token in tokenize(without_backticks(part)):
            text = str(token.token)
            if token.kind is Token.Kind.PYTHON:
                _check(text, known)
            elif token.kind is Token.Kind.NAME and text != "." and name_of(text) not in known:
                raise _unknown(name_of(text), known)


def refuse_code_of(spec: FormulaSpec) -> None:
    """Raise, as :func:`refuse_code` does, unless coding new rows as `spec` says does nothing but compute."""
    if spec.spec is None:
        return
    functions: dict[str, Any] = {name: value for name, value in spec.context.items() if isinstance(value, np.ufunc)}
    # What the file does not hold is not found where it is called, unless Python has something of its name.
    lost = [name for name in spec.own if name not in spec.context and not hasattr(builtins, name)]
    data = [name for name, value in spec.context.items() if name not in functions and value is not np]
    names = [*spec.variables, *data, *lost]
    known = dict.fromkeys(names).keys()
    functions |= dict.fromkeys(lost, _lost)
    functions |= {name: np for name, value in spec.context.items() if value is np}
    specs = [spec.spec, *(band.spec for band in spec.bands)]
    structure = [entry for one in specs for entry in one.structure or []]
    terms = [*(term for one in specs for term in one.formula), *(entry.term for entry in structure)]
    factors = [factor for term in terms for factor in term.factors]
    functions[CURVE] = curve
    factors += [one.factor.factor for entry in structure for part in entry.scoped_terms for one in part.factors]
    for expression in {str(factor.expr) for factor in factors if factor.eval_method.value == "python"}:
        _check(without_backticks(expression), known, functions)


def _lost() -> None:
    """Stands for the user's functions, which files do not hold."""


def _check(code: str, columns: Set[str], functions: Mapping[str, Any] = TRANSFORMS) -> None:
    """Raise unless an expression, with identifiers for the names in backticks, does nothing but compute."""
    try:
        tree = ast.parse(code.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"the formula has {_short(code)}, which is not an expression") from None
    for node in _values(tree.body, {**functions, **TRANSFORMS}):
        if isinstance(node, ast.Name) and (name_of(node.id) not in columns or node.id.startswith(RESERVED)):
            raise _unknown(name_of(node.id), columns)
        if not _allowed(node):
            raise _refusal(ast.unparse(node) if isinstance(node, ast.expr) else code)


def _values(tree: ast.expr, functions: Mapping[str, Any]) -> list[ast.AST]:
    """Every node but the names of known functions, which are checked here."""
    out: list[ast.AST] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call):
            if not _known_call(node, functions):
                raise _refusal(ast.unparse(node))
            todo += [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Attribute):
            if not _known_value(node, functions):
                raise _refusal(ast.unparse(node))
        else:
            out.append(node)
            todo += ast.iter_child_nodes(node)
    return out


def _known_value(node: ast.Attribute, functions: Mapping[str, Any]) -> bool:
    """Whether an attribute that is not called is a number of NumPy or a contrast."""
    if not isinstance(node.value, ast.Name):
        return False
    owner = node.value.id
    return (functions.get(owner) is np and node.attr in CONSTANTS) or (owner == "contr" and node.attr in CONTRASTS)


def _known_call(node: ast.Call, functions: Mapping[str, Any]) -> bool:
    """Whether a call is of a transform or a function of NumPy, with arguments that it only reads."""
    function, plain = node.func, not node.keywords
    if any(keyword.arg is None or keyword.arg.startswith("_") for keyword in node.keywords):
        return False
    if isinstance(function, ast.Name):
        found = functions.get(function.id)
        if isinstance(found, np.ufunc):
            return plain and len(node.args) <= found.nin
        return callable(found) and function.id != "contr"
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
        return False
    owner, name = function.value.id, function.attr
    if name.startswith("_"):
        return False
    if owner == "contr":
        return name in CONTRASTS
    if functions.get(owner) is not np:
        return False
    found = getattr(np, name, None)
    most = found.nin if isinstance(found, np.ufunc) else NUMPY.get(name, -1)
    return plain and len(node.args) <= most


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
    code = in_backticks(code)
    return repr(code if len(code) <= 60 else f"{code[:57]}...")


def _unknown(name: str, columns: Set[str]) -> ValueError:
    return ValueError(
        f"the formula names {name!r}, which is not a column of the data{did_you_mean(name, list(columns))}"
    )


def _refusal(code: str) -> CodeError:
    return CodeError(
        f"the formula has {_short(code)}, which is not a column, a transform of the formula language "
        "(bs, C, poly, scale, ...) or a function of NumPy (np.sqrt, ...) with plain arguments"
    )
