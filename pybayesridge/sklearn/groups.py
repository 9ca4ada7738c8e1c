"""Columns of X that are groups: they become terms ``(1 | g)`` of a formula, and the others its plain columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from pybayesridge._types import AnyArray, BandsLike, FloatArray, IntArray, Names, TableLike
from pybayesridge.data.arrays import constant_values
from pybayesridge.data.bands import resolve_bands
from pybayesridge.data.frames import to_pandas
from pybayesridge.data.prepare import resolve_columns
from pybayesridge.formula.late import quoted
from pybayesridge.text import listed

NO_NAMES = ("", "1")
"""Of responses: labels of classes that a formula takes for something else than a name."""


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """Which columns of X are groups.

    Attributes
    ----------
    names : tuple of str
        Of all columns of X; of an array x1, x2, …
    at : int array
        Positions of the groups.
    """

    names: tuple[str, ...]
    at: IntArray

    @classmethod
    def of(cls, groups: Names, names: Sequence[str] | None, count: int) -> GroupColumns:
        """The columns that the argument `groups` names, of `count` columns.

        Raises
        ------
        ValueError
            For a name that is no column, a position out of range, no column at all, or names that a formula cannot
            have.
        """
        known = [f"x{j + 1}" for j in range(count)] if names is None else [str(name) for name in names]
        at = resolve_columns(groups, known, what="groups", of="X")
        if not at.size:
            raise ValueError("groups names no column: leave it out for a model without groups")
        if len(set(known)) < len(known):
            raise ValueError("groups requires columns of X whose names differ: rename columns")
        odd = [name for name in known if "`" in name]
        if odd:
            raise ValueError(f"groups requires names of columns without backticks: rename {listed(odd)}")
        return cls(tuple(known), at)

    @property
    def plain(self) -> IntArray:
        """Positions of the other columns."""
        return np.setdiff1d(np.arange(len(self.names)), self.at)

    @property
    def plain_names(self) -> list[str]:
        """Names of the other columns."""
        return [self.names[j] for j in self.plain]

    def frame(self, X: TableLike) -> pd.DataFrame:
        """Rows of X as a frame for the formula: numbers, checked as scikit-learn does, and groups as they are.

        Raises
        ------
        ValueError
            For sparse rows, and for columns besides the groups that are not finite numbers.
        """
        if issparse(X):
            raise ValueError("groups requires dense rows: pass X.toarray(), or a frame")
        X = to_pandas(X, "X")
        values = X if isinstance(X, pd.DataFrame) else np.asarray(X)
        columns: dict[str, Any] = {}
        if self.plain.size:
            some = values.iloc[:, self.plain] if isinstance(values, pd.DataFrame) else values[:, self.plain]
            checked = check_array(some, dtype=np.float64, ensure_min_samples=0, input_name="X")
            columns = dict(zip(self.plain_names, checked.T, strict=True))
        for j in self.at:
            group = values.iloc[:, j] if isinstance(values, pd.DataFrame) else pd.Series(values[:, j])
            columns[self.names[j]] = group.infer_objects().reset_index(drop=True)
        return pd.DataFrame(columns)

    def refuse_missing(self, frame: pd.DataFrame) -> None:
        """Refuse rows of the fit whose group is missing."""
        gone = [self.names[j] for j in self.at if frame[self.names[j]].isna().any()]
        if gone:
            raise ValueError(
                f"X has missing values in {listed(gone)} of `groups`: leave those rows out, or give them a level of "
                "their own"
            )

    def constant(self, frame: pd.DataFrame) -> list[str]:
        """Plain columns all of whose values are equal."""
        names = self.plain_names
        return [names[j] for j in constant_values(frame[names].to_numpy(dtype=np.float64))] if names else []

    def formula(self, responses: Sequence[str], *, intercept: bool) -> str:
        """The formula of a model of all columns."""
        terms = [] if intercept else ["0"]
        terms += ["."] if self.plain.size else ["1"] if intercept else []
        terms += [f"(1 | {_quoted(self.names[j])})" for j in self.at]
        return f"{' + '.join(map(_quoted, responses))} ~ {' + '.join(terms)}"

    def unpenalized(self, given: Names | None, without: Sequence[str]) -> list[str]:
        """Names of the unpenalised columns, but for some that the model does not have.

        Raises
        ------
        ValueError
            If a group is among them.
        """
        at = resolve_columns(given, self.names, of="X")
        self._refuse(at, "unpenalized names")
        return [self.names[j] for j in at if self.names[j] not in without]

    def bands(
        self, given: BandsLike | None, unpenalized: Sequence[str], without: Sequence[str]
    ) -> dict[str, list[str]] | None:
        """The bands of plain columns by name, but for columns that the model does not have.

        Raises
        ------
        ValueError
            If a group is in one of them, or nothing is left of one.
        """
        if given is None:
            return None
        named: set[int] = set()
        for name, members in given.items() if isinstance(given, Mapping) else ():
            at = resolve_columns(members, self.names, what=f"band {name!r}", of="X")
            self._refuse(at, f"band {name!r} has")
            named.update(at.tolist())
        free = {*self.at.tolist(), *(j for j, name in enumerate(self.names) if name in unpenalized)}
        free |= {j for j, name in enumerate(self.names) if name in without and j not in named}
        found = resolve_bands(given, self.names, np.array(sorted(free), dtype=np.intp))
        out = {}
        for k, name in enumerate(found.names):
            out[name] = [self.names[j] for j in found.members(k) if self.names[j] not in without]
            if not out[name]:
                raise ValueError(f"no column of band {name!r} varies: leave the band out")
        return out

    def _refuse(self, at: IntArray, what: str) -> None:
        both = np.intersect1d(at, self.at)
        if both.size:
            raise ValueError(
                f"{what} {listed(self.names[j] for j in both)}, which `groups` has: the effects of a group have a "
                "variance of their own; name the column in one of them"
            )


def _quoted(name: str) -> str:
    return name if quoted.is_plain(name) else f"`{name}`"


def responses_as_columns(y: AnyArray, names: Sequence[str] | None, taken: Sequence[str]) -> dict[str, FloatArray]:
    """The responses by names that no column of X has and that a formula can have."""
    columns = y.reshape(len(y), -1).T
    if names is None:
        names = ["y"] if len(columns) == 1 else [f"y{j + 1}" for j in range(len(columns))]
    out: dict[str, FloatArray] = {}
    for name, column in zip(names, columns, strict=True):
        free = str(name).replace("`", "'")
        while free in taken or free in out or free in NO_NAMES:
            free += "_"
        out[free] = column
    return out
