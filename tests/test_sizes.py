"""Sizes of files and functions, as CONTRIBUTING.md states them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FILE, FUNCTION = 400, 60

REASON = "Long because"
"""What a file above the limit says at its top, with the reason."""


def code_lines(function):
    """Lines of a function without its docstring."""
    lines, first = function.end_lineno - function.lineno + 1, function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return lines - (first.end_lineno - first.lineno + 1 if documented else 0)


def python_functions(text):
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: code_lines(node) for node in found}


def r_functions(text):
    """Functions at the top level: from their name to the brace that closes them at the margin."""
    found = re.finditer(r"^([\w.]+|`[^`]+`) <- function\(.*?^}", text, flags=re.MULTILINE | re.DOTALL)
    return {match[1]: match[0].count("\n") + 1 for match in found}


def sources():
    folders = {
        "pybayesridge": "*.py",
        "benchmarks": "*.py",
        "tests": "*.py",
        "tools": "*.py",
        "r-wrapper/R": "*.R",
        "r-wrapper/tests": "*.R",
    }
    return [path for folder, pattern in folders.items() for path in sorted((ROOT / folder).rglob(pattern))]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= FILE or any(REASON in line for line in lines[:20]), f"{len(lines)} lines without a reason"
    functions = python_functions(text) if path.suffix == ".py" else r_functions(text)
    assert {name: size for name, size in functions.items() if size > FUNCTION} == {}


def test_a_docstring_does_not_count():
    text = 'def f(x):\n    """One.\n\n    Two.\n    """\n    return x\n'
    assert python_functions(text) == {"f": 2}


def test_functions_of_r_are_found():
    assert r_functions("#' Help.\nf <- function(x) {\n  x\n}\n\ng.h <- function(\n  y) {\n  y\n}\n") == {
        "f": 3,
        "g.h": 4,
    }
