"""Groups of rows: the levels of a column, or of several together, and which of them each row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.formula.hints import FormulaError
from pybayesridge.formula.values import plain_dtypes
from pybayesridge.text import listed

KINDS = {
    "string": "text",
    "empty": "text",
    "boolean": "true or false",
    "integer": "numbers",
    "floating": "numbers",
    "mixed-integer-float": "numbers",
}
"""What levels may be, by pandas' names of what a column holds."""


@dataclass(frozen=True, slots=True)
class GroupLevels:
    """The levels of a grouping factor, or of several factors together.

    Attributes
    ----------
    variables : tuple of str
        Columns of the data: ``("a", "b")`` for ``(1 | a:b)``.
    levels : tuple of tuples
        Of each of them: those that occur in the fit, in ascending order or in that of the categories.
    pairs : (L, number of variables) int array
        The combinations that occur, as positions in `levels`, in lexicographic order.
    """

    variables: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    pairs: IntArray

    @classmethod
    def of(cls, frame: pd.DataFrame, variables: Sequence[str]) -> GroupLevels:
        """The groups that occur in some rows, in which no value is missing."""
        levels = tuple(tuple(_levels(frame[name], name)) for name in variables)
        each = [_positions(frame[name], known) for name, known in zip(variables, levels, strict=True)]
        return cls(tuple(variables), levels, np.unique(np.column_stack(each), axis=0))

    @property
    def name(self) -> str:
        """As the formula has it."""
        return ":".join(self.variables)

    def told(self) -> list[str]:
        """Each group as names of columns have it, ``g[a]`` or ``a[1]:b[2]``."""
        text = [
            [f"{name}[{one}]" for one in told_levels(known)]
            for name, known in zip(self.variables, self.levels, strict=True)
        ]
        return [":".join(text[j][at] for j, at in enumerate(pair)) for pair in self.pairs]

    def keys(self) -> list[Any]:
        """Each group as a value, or as a tuple of values."""
        out = [tuple(self.levels[j][at] for j, at in enumerate(pair)) for pair in self.pairs.tolist()]
        return [key[0] for key in out] if len(self.variables) == 1 else out

    def codes(self, frame: pd.DataFrame) -> IntArray:
        """The group of each row, (n,) int64: -1 where a value is missing, or the fit has not seen the combination.

        Raises
        ------
        ValueError
            For values of another kind than those of the fit, which would all be new: 1 is not "1", nor True.
        """
        out = np.zeros(len(frame), dtype=np.int64)
        known = np.zeros(len(self.pairs), dtype=np.int64)
        gone = np.zeros(len(frame), dtype=bool)
        for j, (name, levels) in enumerate(zip(self.variables, self.levels, strict=True)):
            _refuse_other_kind(frame[name], name, levels)
            at = _positions(frame[name], levels)
            gone |= at < 0
            out, known = out * len(levels) + at, known * len(levels) + self.pairs[:, j]
            # What is known is in lexicographic order, and stays so when it is counted through.
            found, known = np.unique(known, return_inverse=True)
            out, missed = _lookup(found, out)
            gone |= missed
        return np.where(gone, -1, out)

    def new(self, frame: pd.DataFrame, codes: IntArray) -> IntArray:
        """Which of the groups that the fit has not seen each row has, from 0; -1 at rows of known ones.

        A row in which a value is missing is a group of its own.
        """
        out = np.full(len(frame), -1, dtype=np.int64)
        rows = np.flatnonzero(codes < 0)
        if not rows.size:
            return out
        some = frame.iloc[rows]
        gone = some[list(self.variables)].isna().to_numpy().any(axis=1)
        each = [pd.factorize(some[name])[0] for name in self.variables]
        each += [np.where(gone, np.arange(rows.size), -1)]
        out[rows] = np.unique(np.column_stack(each), axis=0, return_inverse=True)[1].reshape(-1)
        return out


def dummies(codes: IntArray, values: FloatArray, count: int) -> sparse.csc_matrix:
    """The column of each group: `values` at its rows, zero at others, (n, count)."""
    rows = np.flatnonzero(codes >= 0)
    return sparse.csc_matrix((values[rows], (rows, codes[rows])), shape=(codes.size, count))


def _lookup(known: IntArray, asked: IntArray) -> tuple[IntArray, Any]:
    """Positions in ascending numbers, and where there are none."""
    at = np.minimum(np.searchsorted(known, asked), max(known.size - 1, 0))
    return at, known[at] != asked


def _levels(column: pd.Series, name: str) -> list[Any]:
    """The values that occur, in the order of the categories or ascending."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        out = column.cat.remove_unused_categories().cat.categories.tolist()
    else:
        out = pd.unique(column).tolist()
    if _kind(out) is None:
        raise FormulaError(
            f"{name!r} cannot be a grouping factor: its values are {pd.api.types.infer_dtype(out, skipna=True)}, and "
            "groups are text, numbers or true and false: convert it to text"
        )
    return out if isinstance(column.dtype, pd.CategoricalDtype) else sorted(out)


def _kind(levels: Sequence[Any]) -> str | None:
    return KINDS.get(pd.api.types.infer_dtype(levels, skipna=True))


def _positions(column: pd.Series, levels: Sequence[Any]) -> IntArray:
    """The position of each value among the levels, -1 for missing and other ones."""
    out = np.full(len(column), -1, dtype=np.int64)
    present = column.notna().to_numpy()
    values = _plain(column[present])
    out[present] = pd.Index(list(levels)).get_indexer(pd.Index(values))
    return out


def _plain(column: pd.Series) -> pd.Series:
    """The values of a column in which none is missing, in NumPy's types."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype)
    return plain_dtypes(column.to_frame("g"), ["g"])["g"]


def _refuse_other_kind(column: pd.Series, name: str, levels: Sequence[Any]) -> None:
    given = pd.unique(_plain(column.dropna())).tolist()
    then, now = _kind(levels), _kind(given)
    if given and then != now:
        raise ValueError(
            f"the groups {name!r} were {then} in the fit ({listed(list(levels))}), and are "
            f"{now or pd.api.types.infer_dtype(given)} in the new data ({listed(given)}): give the column the type "
            "that it had"
        )


def told_levels(levels: Sequence[Any]) -> list[str]:
    """Levels as text; whole numbers without the point that they have in a column with missing values."""
    whole = all(isinstance(one, float) and one.is_integer() for one in levels)
    return [str(int(one)) if whole else str(one) for one in levels]
