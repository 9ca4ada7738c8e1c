"""Columns that are in or out together, by their positions: single columns, or groups of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import IntArray


@dataclass(frozen=True, slots=True)
class Units:
    """Units of selection: single columns, or groups of columns.

    Attributes
    ----------
    of_column : (d,) int array
        The unit of each column, 0 to G - 1.
    order, start : (d,), (G + 1,) int arrays
        The columns of unit j are ``order[start[j] : start[j + 1]]``, ascending.
    """

    of_column: IntArray
    order: IntArray
    start: IntArray

    @property
    def n(self) -> int:
        """Number of units G."""
        return int(self.start.size) - 1

    @property
    def sizes(self) -> IntArray:
        """Number of columns of each unit, (G,)."""
        return np.diff(self.start)

    @property
    def single(self) -> bool:
        """Whether each column is a unit of its own."""
        return self.n == self.order.size

    def members(self, j: int) -> IntArray:
        """Columns of unit j."""
        return self.order[self.start[j] : self.start[j + 1]]

    def columns(self, units: IntArray) -> IntArray:
        """Columns of several units, unit by unit."""
        if self.single:
            return self.order[units]
        return np.concatenate([self.members(int(j)) for j in units] or [np.zeros(0, dtype=np.intp)])


def units_of(d: int, labels: IntArray | None = None) -> Units:
    """Units of d columns; columns with equal labels (d,) are one."""
    if labels is None:
        every = np.arange(d, dtype=np.intp)
        return Units(every, every, np.arange(d + 1, dtype=np.intp))
    of_column = np.unique(labels, return_inverse=True)[1].astype(np.intp).reshape(-1)
    order = np.argsort(of_column, kind="stable").astype(np.intp)
    n_units = int(of_column.max()) + 1 if d else 0
    sizes = np.bincount(of_column, minlength=n_units)
    return Units(of_column, order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp))
