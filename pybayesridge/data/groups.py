"""Which columns are in or out together: what the user says about it → one label for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, GroupsLike, IntArray
from pybayesridge.data.frames import to_pandas
from pybayesridge.text import listed

TERM = "term"
"""The argument that makes each term of a formula a group."""

NAMED = 3
"""A group without a label is named after its columns if they are no more than these."""


class Groups:
    """Groups of the columns of exog.

    Attributes
    ----------
    labels : list of str
        Names of the groups, in the order of their first columns.
    of_column : (m,) int array
        Each column's group, a position in `labels`.
    """

    def __init__(self, label_of_column: Sequence[str]) -> None:
        position: dict[str, int] = {}
        self.of_column: IntArray = np.array(
            [position.setdefault(label, len(position)) for label in label_of_column], dtype=np.intp
        )
        self.labels = list(position)
        self._position = position
        self._by_group = np.argsort(self.of_column, kind="stable").astype(np.intp)
        self._ends = np.cumsum(np.bincount(self.of_column, minlength=len(position)))

    def members(self, label: str) -> IntArray:
        """Positions of a group's columns."""
        g = self._position[label]
        return self._by_group[self._ends[g - 1] if g else 0 : self._ends[g]]


def resolve_groups(
    group: GroupsLike | None, columns: Sequence[str], terms: Mapping[str, Sequence[int]] | None
) -> Groups:
    """Groups from the argument `group` of :class:`SpikeSlab`.

    Parameters
    ----------
    group : None, "term", sequence of labels, Series, dict or list of lists
    columns : sequence of str
        Names of the columns of exog.
    terms : mapping or None
        Positions of the columns of each term of the formula; None without a formula.

    Raises
    ------
    ValueError
        For labels that are missing or of another number than the columns, for names that are not columns, for a
        column in two groups, and for a label that is also the name of a column outside the group.
    """
    if group is None:
        return Groups(columns)
    if isinstance(group, str):
        if group != TERM:
            raise ValueError(f"group must be None, 'term', labels, a dict or a list of lists, not {group!r}")
        if terms is None:
            raise ValueError("group='term' requires a formula: give labels, a dict or a list of lists of columns")
        return _named({term: [columns[j] for j in where] for term, where in terms.items()}, columns)
    if isinstance(group, Mapping):
        return _named({str(label): _names(names) for label, names in group.items()}, columns)
    if isinstance(group, pd.Series):
        if not group.index.is_unique or sorted(map(str, group.index)) != sorted(columns):
            raise ValueError("the index of group must be the names of the columns of exog, each once")
        by_name = {str(name): label for name, label in group.items()}
        return _labelled([by_name[name] for name in columns], columns)
    try:
        items = list(to_pandas(group, "group"))
    except TypeError:
        raise ValueError(f"group must be None, 'term', labels, a dict or a list of lists, not {group!r}") from None
    if any(isinstance(item, list | tuple | set | np.ndarray | pd.Index) for item in items):
        lists = [_names(item) for item in items]
        return _named({_own_label(names): names for names in lists if names}, columns)
    return _labelled(items, columns)


def _names(names: object) -> list[str]:
    if isinstance(names, Iterable) and not isinstance(names, str):
        return [str(name) for name in names]
    return [str(names)]


def _own_label(names: list[str]) -> str:
    shown = names if len(names) <= NAMED else [names[0], "…", names[-1]]
    return " + ".join(shown)


def _labelled(labels: list[Any], columns: Sequence[str]) -> Groups:
    """One label for each column."""
    if len(labels) != len(columns):
        raise ValueError(
            f"group must have one label for each of the {len(columns)} columns of exog, got {len(labels)}"
        )
    absent = [name for name, label in zip(columns, labels, strict=True) if bool(pd.isna(label))]
    if absent:
        raise ValueError(f"group has no label for column(s) {listed(absent)}: add a label for each")
    names: dict[str, Any] = {}
    for label in labels:
        if names.setdefault(str(label), label) != label:
            raise ValueError(f"group has labels of different types that read {str(label)!r}: use one type")
    return Groups([str(label) for label in labels])


def _named(members: Mapping[str, Sequence[str]], columns: Sequence[str]) -> Groups:
    """Lists of columns by label; a column in none of them is on its own."""
    label_of: dict[str, str] = {}
    known = set(columns)
    for label, names in members.items():
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"group {label!r} names {listed(unknown)}, which are not columns of exog")
        if len(set(names)) < len(names):
            raise ValueError(f"group {label!r} names a column twice: {listed(names)}")
        twice = [name for name in names if name in label_of]
        if twice:
            raise ValueError(
                f"column(s) {listed(twice)} of group {label!r} are already in a group: list each column once"
            )
        label_of |= dict.fromkeys(names, label)
    alone = [name for name in columns if name not in label_of]
    taken = sorted(set(alone) & set(members))
    if taken:
        raise ValueError(f"group label(s) {listed(taken)} are names of columns outside the group: choose others")
    return Groups([label_of.get(name, name) for name in columns])


def shared(values: AnyArray, groups: Groups, among: IntArray, what: str) -> None:
    """Refuse values of columns (m,) that differ within a group, of the columns `among` only."""
    counted = np.asarray(among, dtype=np.intp)
    low, high = np.full(len(groups.labels), np.inf), np.full(len(groups.labels), -np.inf)
    np.minimum.at(low, groups.of_column[counted], values[counted])
    np.maximum.at(high, groups.of_column[counted], values[counted])
    for g in np.flatnonzero(low < high)[:1]:
        raise ValueError(
            f"{what} differs within the group {groups.labels[g]!r} ({low[g]:g} to {high[g]:g}): "
            "its columns are in or out together, with one probability"
        )
