"""The data as the collapsed posterior needs them: X'y, y'y and, on demand, columns of X'X."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.units import Units, units_of
from pybayesridge.linalg import blas

GRAM_COLUMNS = 2500
"""Up to this many columns X'X is formed once, whole; beyond, columns of it as they are asked for."""

CACHE_BYTES = 2**28
"""Memory for columns of X'X that were asked for."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Cross-products of the columns that may be in, unpenalised ones projected out.

    Attributes
    ----------
    cross : (d,) array
        X'y.
    diag : (d,) array
        Squared lengths of the columns.
    yy : float
        y'y.
    nu : float
        Degrees of freedom: rows less the rank of what was projected out.
    n : float
        Rows.
    units : Units
    gram : (d, d) array or None
        X'X.
    rows : (n, d) array or None
        X, where X'X is not held, or where there are more columns than rows.
    cached : OrderedDict
        Columns of X'X computed from `rows`, the last used at the end.
    target : (n,) array or None
        y in the coordinates of the rows, where these are held.
    turned : list of (d, n) arrays
        X', once it was asked for.
    """

    cross: FloatArray
    diag: FloatArray
    yy: float
    nu: float
    n: float
    units: Units
    gram: FloatArray | None
    rows: FloatArray | None
    cached: OrderedDict[int, FloatArray] = field(default_factory=OrderedDict, repr=False, compare=False)
    target: FloatArray | None = field(default=None, repr=False, compare=False)
    turned: list[FloatArray] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.cross.size)

    def in_rows(self) -> tuple[FloatArray | None, FloatArray | None, float]:
        """X' (d, n), y in the coordinates of its rows, and y'y outside them; None where X is not held."""
        if self.rows is None:
            return None, None, 0.0
        if self.target is None:
            raise AssertionError("a problem with X has y in the coordinates of its rows")
        return self.columns_alone(), self.target, max(self.yy - float(self.target @ self.target), 0.0)

    def columns_alone(self) -> FloatArray:
        """X' (d, n), each column in one piece; not to be written to."""
        if self.rows is None:
            raise AssertionError("a problem has X'X or X")
        if not self.turned:
            self.turned.append(np.ascontiguousarray(self.rows.T))
        return self.turned[0]

    def column(self, j: int) -> FloatArray:
        """``X'x_j``, (d,); not to be written to."""
        if self.gram is not None:
            return self.gram[j]
        if self.rows is None:
            raise AssertionError("a problem has X'X or X")
        found = self.cached.get(j)
        if found is None:
            found = self.rows[:, j] @ self.rows
            if len(self.cached) >= max(CACHE_BYTES // (8 * self.d), 8):
                self.cached.popitem(last=False)
            self.cached[j] = found
        else:
            self.cached.move_to_end(j)
        return found

    def block(self, columns: IntArray) -> FloatArray:
        """X'X of some columns, (m, m)."""
        if self.gram is not None:
            return self.gram[np.ix_(columns, columns)]
        part = self.columns_alone()[columns]
        return part @ part.T

    def blocks(self, sets: IntArray) -> FloatArray:
        """X'X of several sets (S, m) of columns, (S, m, m)."""
        if self.gram is not None:
            return self.gram[sets[:, :, None], sets[:, None, :]]
        return np.stack([self.block(columns) for columns in sets])

    def stacked(self, columns: IntArray) -> FloatArray:
        """Columns of X'X as rows, (m, d)."""
        if self.gram is not None:
            return self.gram[columns]
        return np.stack([self.column(int(j)) for j in columns]) if columns.size else np.zeros((0, self.d))


def held(rows: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
    """X'X and X, or None for what is not held of X (n, d).

    With X'X products cost nothing, with X sets of more columns than rows are held by rows.
    """
    n, d = rows.shape
    small = d <= GRAM_COLUMNS
    gram = np.ascontiguousarray(blas.product(rows, rows, transpose_a=True)) if small else None
    return gram, np.ascontiguousarray(rows) if not small or d > n else None


def problem_of_rows(
    rows: FloatArray, y: FloatArray, *, nu: float | None = None, labels: IntArray | None = None
) -> Problem:
    """Take X (n, d) and y (n,); `nu` defaults to n, `labels` (d,) are the groups."""
    n, d = rows.shape
    gram, own = held(rows)
    return Problem(
        cross=rows.T @ y,
        diag=np.einsum("ij,ij->j", rows, rows),
        yy=float(y @ y),
        nu=float(n if nu is None else nu),
        n=float(n),
        units=units_of(d, labels),
        gram=gram,
        rows=own,
        target=y,
    )
