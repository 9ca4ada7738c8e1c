"""Recipes: how a model and its fit were called, as Python code that makes them again.

A recipe holds code and no data: arrays and frames are named (``data``, ``weights``), with a few words on them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

NAMED = {
    "endog": "the response",
    "exog": "the columns",
    "data": "the table with the variables",
    "subset": "the rows to use",
    "weights": "a weight for each row",
    "trials": "the number of trials of each row",
    "exposure": "the exposure of each row",
    "moments": "the sufficient statistics",
    "source": "the files, or the blocks of columns",
    "start": "an earlier fit of the same columns",
    "batches": "the batches of rows",
    "correlation": "the correlations of the columns",
    "z": "z scores of the marginal regressions",
    "estimates": "slopes of the marginal regressions",
    "se": "standard errors of the marginal regressions",
}
"""Arguments that hold data, which a recipe names unless they are the name of a column or a file."""

LONGEST = 600
"""An argument whose code has more characters is named and not written out."""

RENAMED = {("family", "'negativebinomial'"): ("family", "'negative-binomial'")}
"""Arguments in files of earlier versions, and how they are written now."""

SILENT = ("disp", "progress")
"""Arguments that no number of a fit depends on."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as code.

    Attributes
    ----------
    entry : str
        What was called: ``"BayesRidge.from_formula"``.
    arguments : tuple of (str, str)
        Keyword (empty where the argument is positional) and code.
    named : tuple of (str, str)
        Names in the code that stand for the user's objects, and what these are.
    before : Assignment or None
        What has to be made before.
    """

    entry: str
    arguments: tuple[tuple[str, str], ...]
    named: tuple[tuple[str, str], ...] = ()
    before: Assignment | None = None

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, which named some families otherwise."""
        return {**state, "arguments": tuple(RENAMED.get(each, each) for each in state["arguments"])}

    def using(self, names: Iterable[str]) -> Call:
        """The call with the caller's own names that its formula reads."""
        return replace(self, named=self.named + tuple((name, "used in the formula") for name in sorted(names)))

    def after(self, name: str, call: Call | None) -> Call:
        """The call with the one that made its argument `name`, where that is known."""
        if call is None:
            return self
        named = call.named + tuple(pair for pair in self.named if pair[0] != name)
        return replace(self, named=named, before=Assignment(name, call))

    def lines(self) -> list[str]:
        """Each argument as it stands in the call."""
        return [f"{keyword}={code}" if keyword else code for keyword, code in self.arguments]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A name and the call whose value it has."""

    name: str
    call: Call

    @property
    def code(self) -> str:
        """The assignment as code."""
        inner = "".join(f"    {line},\n" for line in self.call.lines())
        return f"{self.name} = {self.call.entry}(\n{inner})\n"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a fit was made.

    Attributes
    ----------
    model : Call
    fit : Call
    """

    model: Call
    fit: Call

    @property
    def code(self) -> str:
        """Python code that makes the fit again, where the names of `named` stand for the same objects."""
        steps = [] if self.model.before is None else [self.model.before]
        steps.append(Assignment("model", self.model))
        classes = sorted({step.call.entry.partition(".")[0] for step in steps})
        made = "".join(step.code for step in steps)
        return (
            f"from pybayesridge import {', '.join(classes)}\n\n{made}res = model.fit({', '.join(self.fit.lines())})"
        )

    @property
    def named(self) -> dict[str, str]:
        """Names in the code that stand for the user's objects, and what these are."""
        return dict(self.model.named + self.fit.named)


def call_of(
    entry: str,
    function: Callable[..., object],
    given: Mapping[str, object],
    *,
    rest: Callable[..., object] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Call:
    """A call as code: what differs from the defaults, and what has none.

    Parameters
    ----------
    entry : str
    function : callable
        What was called; the order, the kinds and the defaults of arguments are those of its signature.
    given : mapping
        Values by name of argument; other names are ignored.
    rest : callable, optional
        What the keyword arguments of `function` are passed to.
    defaults : mapping, optional
        Defaults that differ from those of the signatures.
    """
    arguments, named = [], []
    for name, usual, positional in _parameters(function, rest):
        if name not in given:
            continue
        value, default = given[name], usual if defaults is None else defaults.get(name, usual)
        if value is default or (default is not inspect.Parameter.empty and _same(value, default)):
            continue
        code = _code(name, value)
        if code is None:
            named.append((name, NAMED[name] if name in NAMED else _about(value)))
        bare = positional and default is inspect.Parameter.empty
        arguments.append(("" if bare else name, code or name))
    return Call(entry, tuple(arguments), tuple(named))


@lru_cache
def _parameters(
    function: Callable[..., object], rest: Callable[..., object] | None
) -> list[tuple[str, object, bool]]:
    """Of each argument: its name, its default, and whether it may be given by position."""
    found = dict(inspect.signature(function).parameters)
    for name, parameter in {} if rest is None else inspect.signature(rest).parameters.items():
        found.setdefault(name, parameter)
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    left_out = ("self", "cls", "formula_data", *SILENT)
    return [
        (name, parameter.default, parameter.kind is not parameter.KEYWORD_ONLY)
        for name, parameter in found.items()
        if parameter.kind not in variadic and name not in left_out
    ]


def _same(value: object, default: object) -> bool:
    plain = value is None or isinstance(value, bool | int | float | str | tuple)
    return value is default or (plain and type(value) is type(default) and value == default)


def _code(name: str, value: object) -> str | None:
    """A value as code; None where only its name can stand there."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if name in NAMED:
        written = isinstance(value, str) or (name == "source" and isinstance(value, list | tuple))
        return _literal(value) if written or value is None else None
    code = _literal(value)
    return None if code is None or len(code) > LONGEST else code


def _literal(value: object) -> str | None:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, np.ndarray | pd.Index) and value.size < LONGEST:
        value = value.tolist()
    if isinstance(value, list | tuple | Mapping):
        return _collection(value)
    return None


def _collection(value: list[object] | tuple[object, ...] | Mapping[object, object]) -> str | None:
    if len(value) > LONGEST:
        return None
    if isinstance(value, Mapping):
        pairs = [(_literal(key), _literal(item)) for key, item in value.items()]
        if any(key is None or item is None for key, item in pairs):
            return None
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    items = [_literal(item) for item in value]
    if any(item is None for item in items):
        return None
    inner = ", ".join(map(str, items))
    if isinstance(value, list):
        return f"[{inner}]"
    return f"({inner},)" if len(items) == 1 else f"({inner})"


def _about(value: object) -> str:
    """A short description of a named argument."""
    shape = np.shape(value) if isinstance(value, list | tuple | np.ndarray | pd.Series | pd.DataFrame) else ()
    return f"{' × '.join(map(str, shape))} values" if shape else f"a {type(value).__name__}"
