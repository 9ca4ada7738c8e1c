"""Cross-products of dense and of sparse columns, batch by batch: dummies of groups are never made dense."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray
from pybayesridge.linalg.scale import SAFE
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.streams.sums import near_mean
from pybayesridge.text import listed


class BlockSums:
    """Weighted sums of all rows so far, of dense columns and responses about origins that follow the means.

    Attributes
    ----------
    n : int
    log_weight_sum : float
    origin : (m + q,) array
        Near the means of the dense columns and the responses.
    gram : (1 + m + q, 1 + m + q) array
        Of a column of ones, the dense columns and the responses.
    across : (p, 1 + m + q) array
        Of the sparse columns with these.
    squares : (p, p) csr matrix
    """

    def __init__(self) -> None:
        self.n, self.log_weight_sum = 0, 0.0
        self.origin = np.zeros(0)
        self.gram = np.zeros((1, 1))
        self.across = np.zeros((0, 1))
        self.squares: Any = sparse.csr_matrix((0, 0))

    def add(self, dense: FloatArray, columns: Any, weights: FloatArray | None) -> None:
        """Add rows of the dense columns and the responses (n, m + q), and of the sparse columns (n, p)."""
        n, m = dense.shape
        if self.n == 0:
            self.origin = np.array([near_mean(dense[:, j], weights) for j in range(m)])
            self.gram, self.across = np.zeros((1 + m, 1 + m)), np.zeros((columns.shape[1], 1 + m))
            self.squares = sparse.csr_matrix((columns.shape[1], columns.shape[1]))
        rows = np.column_stack([np.ones(n), dense - self.origin])
        weighted = rows if weights is None else rows * weights[:, None]
        table = sparse.csr_matrix(columns)
        with np.errstate(over="ignore", invalid="ignore"):
            self.gram += rows.T @ weighted
            self.across += np.asarray(table.T @ weighted)
            self.squares = self.squares + table.T @ (table if weights is None else sparse.diags(weights) @ table)
        self.n += n
        self.log_weight_sum += 0.0 if weights is None else float(np.log(weights).sum())
        self._recentre()

    def _recentre(self) -> None:
        """Move the origin to the mean; what is summed about the old one follows."""
        total, first = self.gram[0, 0], self.gram[0, 1:].copy()
        moved = self.origin + first / total
        by = moved - self.origin
        if not np.isfinite(by).all() or not by.any():
            return
        self.gram[1:, 1:] += total * np.outer(by, by) - np.outer(first, by) - np.outer(by, first)
        self.gram[0, 1:] = self.gram[1:, 0] = first - total * by
        self.across[:, 1:] -= np.outer(self.across[:, 0], by)
        self.origin = moved

    def moments(self, dense: list[str], columns: list[str], targets: list[str], order: list[str]) -> BlockMoments:
        """The moments of columns by their names, in an `order`."""
        m, position = len(dense), {name: i for i, name in enumerate(order)}
        odd = ~(np.diag(self.gram)[1:] < SAFE[1])
        if odd.any():
            names = np.array([*dense, *targets], dtype=object)[odd].tolist()
            raise ValueError(f"the squares of {listed(names)} leave the range of floats: rescale them")
        return BlockMoments(
            n=self.n,
            weight_sum=float(self.gram[0, 0]),
            log_weight_sum=self.log_weight_sum,
            columns=tuple(order),
            targets=tuple(targets),
            dense=np.array([position[name] for name in dense], dtype=np.intp),
            sparse=np.array([position[name] for name in columns], dtype=np.intp),
            origin=self.origin[:m],
            y_origin=self.origin[m:],
            gram=self.gram[: 1 + m, : 1 + m],
            across=self.across[:, : 1 + m],
            squares=self.squares.tocsr(),
            xy=self.gram[: 1 + m, 1 + m :],
            sy=self.across[:, 1 + m :],
            yy=np.diag(self.gram)[1 + m :].copy(),
        )
