"""Sufficient statistics of columns some of which are sparse: the effects of groups with very many levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.moments.moments import Moments


@dataclass(frozen=True, eq=False, repr=False)
class BlockMoments:
    """Weighted cross-products of columns, of which those of sparse ones with each other are a sparse matrix.

    Dense columns and responses are taken about a point near their means.

    Attributes
    ----------
    n : int
        Number of rows.
    weight_sum, log_weight_sum : float
        Sums of their weights and of the logs of these.
    columns, targets : tuple of str
        Names.
    dense, sparse : int arrays
        Positions of the m dense and the p sparse columns.
    origin, y_origin : (m,), (q,) arrays
    gram : (1 + m, 1 + m) array
        Of a column of ones and the dense columns.
    across : (p, 1 + m) array
        Of the sparse columns with these.
    squares : (p, p) csr matrix
        Of the sparse columns.
    xy, sy, yy : (1 + m, q), (p, q), (q,) arrays
        Of either with the responses, and of each response with itself.
    n_dropped : int
        Rows left out because something in them was missing.
    """

    n: int
    weight_sum: float
    log_weight_sum: float
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    dense: IntArray
    sparse: IntArray
    origin: FloatArray
    y_origin: FloatArray
    gram: FloatArray
    across: FloatArray
    squares: Any
    xy: FloatArray
    sy: FloatArray
    yy: FloatArray
    n_dropped: int = 0

    def with_dropped(self, count: int) -> Self:
        """The same with so many rows left out."""
        return replace(self, n_dropped=count)

    @property
    def x_mean(self) -> FloatArray:
        """Weighted means of the columns."""
        out = np.empty(len(self.columns))
        out[self.dense] = self.origin + self.gram[0, 1:] / self.weight_sum
        out[self.sparse] = self.across[:, 0] / self.weight_sum
        return out

    @property
    def y_mean(self) -> FloatArray:
        """Weighted means of the responses, (q,)."""
        return self.y_origin + self.xy[0] / self.weight_sum

    @property
    def variation(self) -> FloatArray:
        """Weighted sums of squares of the columns about their means."""
        out, total = np.empty(len(self.columns)), self.weight_sum
        out[self.dense] = np.diag(self.gram)[1:] - self.gram[0, 1:] ** 2 / total
        out[self.sparse] = self.squares.diagonal() - self.across[:, 0] ** 2 / total
        return out

    def about_means(self, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weighted sums about the means of squares of what slopes (columns, q) make, and of that times responses."""
        dense, sparse, total = slopes[self.dense], slopes[self.sparse], self.weight_sum
        first = self.gram[0, 1:] @ dense + self.across[:, 0] @ sparse
        square = (dense * (self.gram[1:, 1:] @ dense)).sum(axis=0) + 2 * (sparse * (self.across[:, 1:] @ dense)).sum(
            axis=0
        )
        square += (sparse * np.asarray(self.squares @ sparse)).sum(axis=0) - first**2 / total
        product = (dense * self.xy[1:]).sum(axis=0) + (sparse * self.sy).sum(axis=0) - first * self.xy[0] / total
        return square, product

    def as_moments(self) -> Moments:
        """The same with all cross-products in one matrix."""
        m, q, total = len(self.columns), len(self.targets), self.weight_sum
        origin, first = np.zeros(m), np.zeros(m)
        origin[self.dense] = self.origin
        first[self.dense], first[self.sparse] = self.gram[0, 1:], self.across[:, 0]
        xx, xy = np.zeros((m, m)), np.zeros((m, q))
        xx[np.ix_(self.dense, self.dense)] = self.gram[1:, 1:]
        xx[np.ix_(self.sparse, self.dense)] = self.across[:, 1:]
        xx[np.ix_(self.dense, self.sparse)] = self.across[:, 1:].T
        xx[np.ix_(self.sparse, self.sparse)] = self.squares.toarray()
        xy[self.dense], xy[self.sparse] = self.xy[1:], self.sy
        xx -= np.outer(first, first) / total
        return Moments(
            n=self.n,
            weight_sum=total,
            log_weight_sum=self.log_weight_sum,
            x_origin=origin,
            x_offset=first / total,
            y_origin=self.y_origin,
            y_offset=self.xy[0] / total,
            xx=(xx + xx.T) / 2,
            xy=xy - np.outer(first, self.xy[0]) / total,
            yy=self.yy - self.xy[0] ** 2 / total,
            columns=self.columns,
            targets=self.targets,
            n_dropped=self.n_dropped,
        )
