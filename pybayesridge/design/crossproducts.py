"""One pass over the columns of X: centre, project Z out, measure spread, accumulate X'X or XX'.

Nothing of the size of X is allocated: blocks of a few MiB are converted, centred and weighted in a buffer and
handed to a symmetric rank-k update. Products are taken of deviations from a shift near the mean and corrected by
the exact mean afterwards, so that columns with a large mean lose no digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.design.sparse import sparse_products
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.design.wide import WideProducts, centring_is_all, fill, units, wide_products
from pybayesridge.design.wide_compiled import compiled_products
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import block_size, column_blocks, row_blocks, work_buffer
from pybayesridge.linalg.scale import SAFE, common_scale, constant_columns

MANY_COLUMNS = 1024
"""Columns of a very wide matrix that are worth a block beyond the cache: each block costs a dozen calls."""


@dataclass(frozen=True, slots=True)
class CrossProducts:
    """Results of one pass over X.

    Attributes
    ----------
    side : {"gram", "dual"}
        Whether `product` is X'X (p, p) or XX' (n, n), of the standardised, weighted, projected X.
    product : (r, r) array, Fortran order, lower triangle
        Taken of ``sqrt(W) (X - center - Z @ projection) / scale``; constant columns count as zero.
    xty : (p, q) array or None
        X'y for the side "gram".
    center : (p,) array
        Subtracted from every row; zero when the constant is not in the span of Z.
    projection : (k, p) array or None
        Coefficients of the centred columns on Z; None where centring has done it all.
    scale : (p,) array
        What a column was divided by.
    sd : (p,) array
        Its (weighted, 1/n) standard deviation.
    constant : (p,) bool array
        Columns without variation.
    """

    side: Literal["gram", "dual"]
    product: FloatArray
    xty: FloatArray | None
    center: FloatArray
    projection: FloatArray | None
    scale: FloatArray
    sd: FloatArray
    constant: BoolArray


def accumulate(x: Any, columns: IntArray, block: Unpenalized, y: FloatArray, *, standardize: bool) -> CrossProducts:
    """Form X'X and X'y where n >= p, XX' otherwise.

    Parameters
    ----------
    x : (n, m) array of any real dtype and memory order, or CSC matrix
        Finite.
    columns : (p,) int array
        Positions in `x` of the penalised columns.
    block : Unpenalized
        The factorised Z.
    y : (n, q) array
        Weighted targets with Z projected out.
    standardize : bool
        Divide by each column's own (weighted, 1/n) standard deviation, or all columns by one power of two.
    """
    tall = x.shape[0] >= columns.size
    if issparse(x):
        parts = sparse_products(x, columns, block, y, standardize=standardize)
        if parts is not None:
            return CrossProducts(**parts)
    if not tall:
        n, p = x.shape[0], columns.size
        size = min(p, max(block_size(n), min(MANY_COLUMNS, p // 16))) or 1
        if standardize and centring_is_all(block) and not issparse(x):
            found = compiled_products(x, columns, block)
            if found is not None:
                return of_wide(found)
        pieces = (piece for _, piece in column_blocks(x, columns, size))
        return of_wide(wide_products(pieces, block, standardize=standardize))
    shift = _shift(x, columns, block_size(columns.size))
    unit = np.ones(columns.size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        parts = _tall(x, columns, block, y, shift, unit, standardize)
    if _unsafe(x, columns, parts["sumsq"]):
        unit = _units(x, columns, shift)
        with np.errstate(under="ignore"):
            parts = _tall(x, columns, block, y, shift, unit, standardize)
    parts.pop("sumsq")
    return CrossProducts(**parts)


def of_wide(found: WideProducts) -> CrossProducts:
    """Products of wide columns as those of the side "dual"."""
    return CrossProducts(
        side="dual",
        product=found.product,
        xty=None,
        center=found.center,
        projection=found.projection,
        scale=found.scale,
        sd=found.sd,
        constant=found.constant,
    )


def _shift(x: AnyArray, columns: IntArray, rows: int) -> FloatArray:
    # The mean of a first block of b rows lies within sqrt(n/b) standard deviations of the column's mean, so
    # the correction that follows loses a factor n/b in relative accuracy at worst.
    shift = np.empty(columns.size)
    for part, piece in column_blocks(x[:rows], columns):
        first = piece[0].astype(np.float64)
        shift[part] = first + (piece - first).mean(axis=0)
    return shift


def _unsafe(x: AnyArray, columns: IntArray, sumsq: FloatArray) -> bool:
    odd = columns[~((sumsq > SAFE[0]) & (sumsq < SAFE[1]))]
    return any((np.ptp(piece.astype(np.float64), axis=0) > 0).any() for _, piece in column_blocks(x, odd))


def _units(x: AnyArray, columns: IntArray, shift: FloatArray) -> FloatArray:
    unit = np.ones(columns.size)
    for part, piece in column_blocks(x, columns):
        unit[part] = units(piece, shift[part])
    return unit


def _contiguous(buffer: FloatArray, rows: int) -> FloatArray:
    """The first `rows` rows of a buffer, in a layout that BLAS takes as it is."""
    if rows == buffer.shape[0]:
        return buffer
    return np.copy(buffer[:rows], order="F" if buffer.flags.f_contiguous else "C")


def _tall(
    x: AnyArray,
    columns: IntArray,
    block: Unpenalized,
    y: FloatArray,
    shift: FloatArray,
    unit: FloatArray,
    standardize: bool,
) -> dict[str, Any]:
    n, p = x.shape[0], columns.size
    scaled = None if (unit == 1.0).all() else unit
    buffer = work_buffer(x, min(n, block_size(p)), p)
    centred = block.ones is not None
    explicit = block.k > 0 and not block.only_constant
    base = shift if centred else np.zeros(p)
    on_q = _coordinates(x, columns, block, buffer, base, scaled) if explicit else np.zeros((block.k, p))
    same = centred and not explicit  # Then squares of columns are on the diagonal of their products.
    gram = np.zeros((p, p), order="F")
    xty = np.zeros((p, y.shape[1]))
    total, sumsq = np.zeros(p), np.zeros(p)
    for rows, piece in row_blocks(x, columns, buffer.shape[0]):
        root = np.ones(piece.shape[0]) if block.sqrt_w is None else block.sqrt_w[rows]
        for offset in (shift,) if centred else (shift, base):
            a = fill(buffer, piece, offset, scaled)
            if block.sqrt_w is not None:
                a *= root[:, None]
            if offset is shift:
                total += blas.product(a, root[:, None], transpose_a=True)[:, 0]
                sumsq += 0.0 if same else np.einsum("ij,ij->j", a, a)
        if explicit:
            a -= blas.product(block.q[rows], on_q)
        a = _contiguous(buffer, piece.shape[0])
        gram = blas.add_square(gram, a, transposed=True)
        xty += blas.product(a, y[rows], transpose_a=True)
    sumsq = gram.diagonal().copy() if same else sumsq
    mean = total / n
    variance = sumsq / n - mean**2
    center, projection = base, None
    if explicit:
        projection = block.regress(on_q) / unit
    elif centred:
        center = shift + mean / unit
        gram -= np.outer(mean, mean * n).T
    sd = np.sqrt(np.maximum(variance, 0.0))
    constant = constant_columns(sd, np.abs(shift * unit))
    inner = np.where(constant, 1.0, sd) if standardize else common_scale(sd / unit) * unit
    weight = np.where(constant & centred, 0.0, 1.0 / inner)
    gram *= weight[:, None]
    gram *= weight
    return {
        "side": "gram",
        "product": gram,
        "xty": xty * weight[:, None],
        "center": center,
        "projection": projection,
        "scale": inner / unit,
        "sd": sd / unit,
        "constant": constant,
        "sumsq": sumsq,
    }


def _coordinates(
    x: AnyArray,
    columns: IntArray,
    block: Unpenalized,
    buffer: FloatArray,
    base: FloatArray,
    scaled: FloatArray | None,
) -> FloatArray:
    """Coordinates of the columns in the orthonormal basis of the unpenalised ones, (k, p)."""
    on_q = np.zeros((block.k, columns.size))
    for rows, piece in row_blocks(x, columns, buffer.shape[0]):
        a = fill(buffer, piece, base, scaled)
        q_rows = block.q[rows] if block.sqrt_w is None else block.q[rows] * block.sqrt_w[rows, None]
        on_q += blas.product(q_rows, a, transpose_a=True)
    return on_q
