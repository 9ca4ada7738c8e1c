"""Rows in memory → their means and cross-products: the fields of :class:`pybayesridge.Moments`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray, SparseLike
from pybayesridge.data.prepare import ModelData
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import row_blocks, work_buffer
from pybayesridge.linalg.scale import SAFE


def sums_of_rows(data: ModelData) -> dict[str, Any]:
    """All fields but the count of dropped rows, of checked arrays; nothing of their size is allocated."""
    x, w = data.exog, data.weights
    y = data.endog[:, None] if data.endog.ndim == 1 else data.endog
    n, m = x.shape
    columns = np.arange(m)
    total = float(n) if w is None else float(w.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        x_origin, y_origin = _near_mean(x, w, total), _near_mean(y, w, total)
        buffer: FloatArray | None = None
        xx, xy, yy = np.zeros((m, m), order="F"), np.zeros((m, y.shape[1])), np.zeros(y.shape[1])
        x_sum, y_sum = np.zeros(m), np.zeros(y.shape[1])
        for rows, piece in row_blocks(x, columns):
            if buffer is None or buffer.shape[0] != piece.shape[0]:
                buffer = work_buffer(x, *piece.shape)
            a: FloatArray = np.subtract(piece, x_origin, out=buffer)
            b = y[rows] - y_origin
            if w is not None:
                root = np.sqrt(w[rows])[:, None]
                a *= root
                b *= root
                x_sum += blas.product(a, root, transpose_a=True)[:, 0]
                y_sum += (b * root).sum(axis=0)
            else:
                x_sum += a.sum(axis=0)
                y_sum += b.sum(axis=0)
            xx = blas.add_square(xx, a, transposed=True)
            xy += blas.product(a, b, transpose_a=True)
            yy += np.einsum("ij,ij->j", b, b)
        _check_range(x, columns, np.diag(xx), data.exog_columns)
        _check_range(y, np.arange(y.shape[1]), yy, data.targets)
        dx, dy = x_sum / total, y_sum / total
        xx = np.tril(xx) + np.tril(xx, -1).T - np.outer(total * dx, dx)
        xy -= np.outer(total * dx, dy)
        yy -= total * dy**2
    return {
        "n": int(n),
        "weight_sum": total,
        "log_weight_sum": 0.0 if w is None else float(np.log(w).sum()),
        "x_origin": x_origin,
        "x_offset": dx,
        "y_origin": y_origin,
        "y_offset": dy,
        "xx": xx,
        "xy": xy,
        "yy": yy,
        "columns": tuple(data.exog_columns),
        "targets": tuple(data.targets),
    }


def _near_mean(x: AnyArray | SparseLike, w: FloatArray | None, total: float) -> FloatArray:
    """A point within rounding of the weighted mean of each column; the value itself where there is only one."""
    columns = np.arange(x.shape[1])
    first: FloatArray | None = None
    out = np.zeros(x.shape[1])
    for rows, piece in row_blocks(x, columns):
        if first is None:
            first = piece[0].astype(np.float64)
        deviation = piece - first
        out += deviation.sum(axis=0) if w is None else w[rows] @ deviation
    return out if first is None else first + out / total


def _check_range(x: AnyArray, columns: IntArray, squares: FloatArray, names: Sequence[str]) -> None:
    """Refuse columns whose squares leave the range of floats."""
    odd = columns[~((squares > SAFE[0]) & (squares < SAFE[1]))]
    for j in odd:
        column = x[:, [j]].toarray() if not isinstance(x, np.ndarray) else x[:, j]
        if np.ptp(column.astype(np.float64)) > 0:
            raise ValueError(f"the squares of {names[j]!r} leave the range of floats: rescale it")
