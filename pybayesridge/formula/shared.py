"""What transforms learn from data, such as knots and means: learned once for several data sets."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.errors import DataMismatchWarning, FormulaicError

from pybayesridge._types import BoolArray
from pybayesridge.formula.values import model_matrix
from pybayesridge.text import listed

States = dict[str, Any]
"""What each transform has learned, by its text."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A formula that was evaluated on a data set."""

    parsed: Any
    frame: pd.DataFrame
    context: Mapping[str, Any] | None
    states: States


@dataclass(frozen=True, slots=True)
class Learned:
    """The formulas that are evaluated for one data set, in this order, and what their transforms learn.

    Attributes
    ----------
    given : list of dict
        For each formula what transforms have learned before; those that are not there learn from the data set.
    uses : list
        Of the formulas.
    """

    given: list[States] = field(default_factory=list)
    uses: list[_Use] = field(default_factory=list)


_CURRENT: ContextVar[Learned | None] = ContextVar("pybayesridge_learned", default=None)


@contextmanager
def learning(given: Sequence[States] = ()) -> Iterator[Learned]:
    """Note what transforms learn, or let them use what is given."""
    token = _CURRENT.set(Learned(list(given)))
    try:
        found = _CURRENT.get()
        assert found is not None
        yield found
    finally:
        _CURRENT.reset(token)


def matrices_of(parsed: Any, frame: pd.DataFrame, context: Mapping[str, Any] | None) -> tuple[Any, BoolArray]:
    """The matrices of a parsed formula or sum as :func:`model_matrix` makes them, with what was learned before.

    Raises
    ------
    ValueError
        For values that the ``levels=`` of a factor do not name.
    """
    try:
        return _matrices_of(parsed, frame, context)
    except DataMismatchWarning as error:
        values = str(error).partition("{")[2].rpartition("}")[0]
        raise ValueError(
            f"a factor of the formula has values that its levels= do not name ({values}): name them too, or leave "
            "those rows out, as with subset="
        ) from error


def _matrices_of(parsed: Any, frame: pd.DataFrame, context: Mapping[str, Any] | None) -> tuple[Any, BoolArray]:
    now = _CURRENT.get()
    if now is None:
        return model_matrix(parsed, frame, context)
    at = len(now.uses)
    given = copy.deepcopy(now.given[at]) if at < len(now.given) else {}
    spec = ModelSpec.from_spec(parsed, transform_state=given) if given else parsed
    made = model_matrix(spec, frame, context)
    now.uses.append(_Use(parsed, frame, context, copy.deepcopy(_states(made[0]))))
    return made


def learned_together(sets: Sequence[Learned]) -> list[States] | None:
    """For each formula what its transforms learn from the rows of all data sets; None where they agree anyhow.

    Transforms that learn the same of each data set keep that.

    Raises
    ------
    ValueError
        If a formula cannot be evaluated on all rows together, as with an array that is in no data set.
    """
    if len({len(each.uses) for each in sets}) != 1:
        return None
    out = []
    differs = False
    for uses in zip(*(each.uses for each in sets), strict=True):
        first = uses[0]
        other = {
            name for name in first.states if not all(_same(first.states[name], u.states.get(name)) for u in uses)
        }
        joint: States = {}
        if other:
            differs = True
            rows = pd.concat([use.frame for use in uses], ignore_index=True)
            try:
                joint = _states(model_matrix(first.parsed, rows, first.context)[0])
            except (FormulaicError, ValueError) as error:
                raise ValueError(
                    f"{listed(sorted(other))} cannot be evaluated on the rows of all data sets together: {error}. "
                    "Make every variable of the formula a column of the data sets"
                ) from error
        out.append({name: joint[name] if name in other else state for name, state in first.states.items()})
    return out if differs else None


def first_difference(states: Sequence[States]) -> tuple[int, str] | None:
    """The first data set whose transforms learned something else than those of the first one, and the transform."""
    for i, each in enumerate(states):
        for name in states[0].keys() & each.keys():
            if not _same(states[0][name], each[name]):
                return i, name
    return None


def _states(made: Any) -> States:
    parts = [made.lhs, made.rhs] if hasattr(made, "lhs") else [made]
    return {name: state for part in parts for name, state in part.model_spec.transform_state.items()}


def _same(one: Any, other: Any) -> bool:
    """Whether two states are equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    try:
        return bool(np.array_equal(np.asarray(one), np.asarray(other)))
    except (TypeError, ValueError):
        return False
