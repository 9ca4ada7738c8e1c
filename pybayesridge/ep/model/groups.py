"""Columns that are in or out together: sums over groups, and what couples their columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray


def compress(labels: IntArray | None, used: BoolArray) -> IntArray | None:
    """Number the groups of the columns that are used from 0 on; None where each column is on its own."""
    if labels is None:
        return None
    groups = np.unique(labels[used], return_inverse=True)[1].astype(np.intp)
    return None if groups.size == 0 or int(groups.max()) + 1 == groups.size else groups


def group_sum(x: FloatArray, groups: IntArray | None) -> FloatArray:
    """Sum over each column's group, at each of its columns, (d,); x itself where columns are on their own."""
    return x if groups is None else totals(x, groups)[groups]


def totals(x: FloatArray, groups: IntArray) -> FloatArray:
    """Sum over each group, (G,)."""
    return np.bincount(groups, x).astype(np.float64, copy=False)


def group_sizes(groups: IntArray) -> FloatArray:
    """Number of columns in each column's group, (d,)."""
    return np.bincount(groups)[groups].astype(float)


def one_of_each(x: FloatArray, labels: IntArray | None) -> FloatArray:
    """The values of each group's first column, (G,), of an array (d,) that is constant within groups."""
    return x if labels is None else x[np.unique(labels, return_index=True)[1]]


@dataclass(frozen=True, slots=True)
class Coupling:
    """The part of a symmetric (2d, 2d) matrix between different columns of a group.

    For columns i and j of a group it is ``sign * (first_i, second_i) (first_j, second_j)'``.

    Attributes
    ----------
    groups : ndarray (d,) of int
        The columns' groups.
    sign : float
        1 or -1.
    first, second : ndarray (d,)
        The vector of which products are taken.
    """

    groups: IntArray
    sign: float
    first: FloatArray
    second: FloatArray

    def times(self, x1: FloatArray, x2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Products with a vector (2d,) in two halves."""
        own = self.first * x1 + self.second * x2
        others = self.sign * (group_sum(own, self.groups) - own)
        return self.first * others, self.second * others

    def blocks(self, index: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The matrix of the columns `index` (c,): blocks 11, 12 and 22, each (c, c)."""
        groups, first, second = self.groups[index], self.first[index], self.second[index]
        together = self.sign * (groups[:, None] == groups)
        np.fill_diagonal(together, 0.0)
        return (
            together * np.outer(first, first),
            together * np.outer(first, second),
            together * np.outer(second, second),
        )
