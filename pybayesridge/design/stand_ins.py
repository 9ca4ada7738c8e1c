"""Rows that have given cross-products: what computes with the rows of a design computes with these.

Of columns E whose block of cross-products is diagonal, D, there is a row for each, ``(sqrt D, D^-1/2 E'B)``; beside
them those of the Cholesky factor, with pivots, of what they leave of ``B'B``. Responses have a row each for what no
column explains. Columns are on the user's scale, and in place of a column of ones there is another one: centring is
projecting that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design, project_targets
from pybayesridge.design.from_moments import NOISE, ROUNDING
from pybayesridge.design.unpenalized import Unpenalized, factorize
from pybayesridge.linalg.scale import common_scale, constant_columns
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments

SPAN = 1e-12
"""A column of which the others leave a smaller share of the sum of squares is in their span."""


@dataclass(frozen=True, slots=True)
class StandIns:
    """Rows with the cross-products of weighted ones, of weights with mean 1.

    Attributes
    ----------
    x : (r, m) array or csc matrix
    ones : (r,) array
    y : (r, q) array
    n : int
        How many rows they stand for.
    mean, variance : (m,) arrays
        Of the columns.
    """

    x: Any
    ones: FloatArray
    y: FloatArray
    n: int
    mean: FloatArray
    variance: FloatArray


def of_moments(moments: Moments) -> StandIns:
    """Stand-ins for the rows of moments."""
    total, offset = moments.weight_sum, moments.x_offset
    unit = moments.n / total
    gram = np.empty((1 + offset.size, 1 + offset.size))
    gram[0, 0], gram[0, 1:], gram[1:, 0] = total, total * offset, total * offset
    gram[1:, 1:] = moments.xx + total * np.outer(offset, offset)
    cross = np.vstack([total * moments.y_offset, moments.xy + total * np.outer(offset, moments.y_offset)])
    squares = moments.yy + total * moments.y_offset**2
    root, y = _rooted(gram * unit, cross * unit, squares * unit)
    ones = root[:, 0]
    return StandIns(
        root[:, 1:] + np.outer(ones, moments.x_origin),
        ones,
        y + np.outer(ones, moments.y_origin),
        moments.n,
        moments.x_mean,
        np.diag(moments.xx) / total,
    )


def of_blocks(moments: BlockMoments, eliminated: IntArray) -> StandIns:
    """Stand-ins for the rows of moments with sparse columns.

    Parameters
    ----------
    moments : BlockMoments
    eliminated : int array
        Positions, among all columns, of sparse ones of which each row has one at most.
    """
    unit = moments.n / moments.weight_sum
    own = np.isin(moments.sparse, eliminated)
    squares = sparse.csr_matrix(moments.squares) * unit
    size, across = squares.diagonal()[own], moments.across * unit
    between, groups = squares[own][:, ~own], np.flatnonzero(~own)
    top = sparse.diags(1 / np.sqrt(size))
    first = sparse.csr_matrix(top @ between)
    beside, y_top = np.asarray(top @ across[own]), np.asarray(top @ (moments.sy[own] * unit))
    p2 = groups.size
    gram = np.empty((p2 + len(moments.gram), p2 + len(moments.gram)))
    gram[:p2, :p2] = (squares[~own][:, ~own] - first.T @ first).toarray()
    gram[:p2, p2:] = across[~own] - np.asarray(first.T @ beside)
    gram[p2:, :p2] = gram[:p2, p2:].T
    gram[p2:, p2:] = moments.gram * unit - beside.T @ beside
    y_cross = np.vstack([moments.sy[~own] * unit - np.asarray(first.T @ y_top), moments.xy * unit - beside.T @ y_top])
    root, y = _rooted(
        gram, y_cross, moments.yy * unit - (y_top**2).sum(axis=0), _whole(squares, groups, moments, unit)
    )
    ones = np.concatenate([beside[:, 0], root[:, p2]])
    plain = np.vstack([beside[:, 1:], root[:, p2 + 1 :]]) + np.outer(ones, moments.origin)
    columns: list[Any] = [None] * 3
    columns[0] = sparse.vstack([sparse.diags(np.sqrt(size)), sparse.csr_matrix((len(root), size.size))])
    columns[1] = sparse.vstack([first, sparse.csr_matrix(root[:, :p2])])
    columns[2] = sparse.csr_matrix(plain)
    order = np.concatenate([moments.sparse[own], moments.sparse[~own], moments.dense])
    x = sparse.csc_matrix(sparse.hstack(columns, format="csc")[:, np.argsort(order)])
    return StandIns(
        x,
        ones,
        np.vstack([y_top, y]) + np.outer(ones, moments.y_origin),
        moments.n,
        moments.x_mean,
        np.maximum(moments.variation, 0.0) / moments.weight_sum,
    )


def _whole(squares: Any, groups: IntArray, moments: BlockMoments, unit: float) -> FloatArray:
    """Sums of squares of the columns that are not eliminated, before that."""
    own = np.isin(np.arange(squares.shape[0]), groups)
    return np.concatenate([squares.diagonal()[own], np.diag(moments.gram) * unit])


def _rooted(
    gram: FloatArray, cross: FloatArray, squares: FloatArray, whole: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Rows (r, s) with cross-products `gram`, those of responses `cross`, of which the last q are of these alone.

    What is left of a sum of squares is compared with `whole`; by default with itself.
    """
    size = np.sqrt(np.maximum(np.diag(gram) if whole is None else whole, 0.0))
    size[size == 0] = 1.0
    factor, pivot, rank, _ = dpstrf(gram / size / size[:, None], tol=SPAN)
    order, root = pivot - 1, np.triu(factor)[:rank]
    inside = solve_triangular(root[:, :rank], (cross / size[:, None])[order[:rank]], trans="T", check_finite=False)
    rest = np.sqrt(np.maximum(squares - (inside**2).sum(axis=0), 0.0))
    out = np.zeros((rank + rest.size, len(gram)))
    out[:rank, order] = root
    return out * size, np.vstack([inside, np.diag(rest)])


def design_of_stand_ins(
    rows: StandIns,
    *,
    penalized: IntArray,
    unpenalized: IntArray,
    z_names: Sequence[str],
    z_constant: int | None,
    standardize: bool,
    constant_serves: bool,
) -> tuple[Design, CrossProducts, float]:
    """Do what :func:`pybayesridge.design.build.build_design` does; products only of dense columns.

    Other arguments than `rows` as for :func:`pybayesridge.design.from_moments.design_of_moments`.
    """
    added = z_constant is not None and not constant_serves
    columns = rows.x[:, unpenalized]
    z = columns.toarray() if sparse.issparse(columns) else columns
    z = np.column_stack([rows.ones, z]) if added else np.ascontiguousarray(z)
    if len(z_names) > rows.n:
        raise ValueError(
            f"{len(z_names)} unpenalised columns (the intercept among them) for {rows.n} rows: leave some out of "
            "`unpenalized`"
        )
    block = factorize(z, None, z_names, None)
    ones = _ones(block, rows.ones)
    y, y_norm, y_on_z, vanishes, y_size = project_targets(rows.y, replace(block, ones=None))
    vanishes = vanishes | (y_norm**2 <= NOISE * (y_size * y_norm) ** 2)
    sd = np.sqrt(rows.variance[penalized])
    flat = constant_columns(sd, np.abs(rows.mean[penalized]))
    scale = np.where(flat, 1.0, sd) if standardize else np.full(penalized.size, common_scale(sd))
    keep = ~flat if ones is not None or standardize else np.ones(penalized.size, dtype=bool)
    chosen = rows.x[:, penalized]
    on_q = np.asarray(chosen.T @ block.q).T
    projection = block.regress(on_q) if block.k else None
    product, xty, loss = np.empty((0, 0)), None, ROUNDING
    if not sparse.issparse(chosen):
        outside = block.residual(chosen / scale)[:, keep]
        product, xty = np.asfortranarray(outside.T @ outside), outside.T @ y
        left = np.diag(product) * scale[keep] ** 2 / rows.n
        varies = rows.variance[penalized][keep]
        real = left > NOISE * varies
        loss = float((ROUNDING * varies[real] / left[real]).max(initial=ROUNDING))
    center = np.zeros(penalized.size)
    products = CrossProducts(
        side="gram",
        product=product,
        xty=xty,
        center=center,
        projection=projection,
        scale=scale,
        sd=sd,
        constant=flat,
    )
    design = Design(
        x=rows.x,
        columns=penalized[keep],
        constant=penalized[~keep],
        block=replace(block, ones=ones),
        center=center[keep],
        scale=scale[keep],
        sd=sd[keep],
        projection=None if projection is None else projection[:, keep],
        y=y,
        y_norm=y_norm,
        y_on_z=y_on_z,
        y_vanishes=vanishes,
        y_size=y_size,
        standardized_columns=standardize,
        constant_serves=constant_serves,
        n=rows.n,
    )
    return design, products, loss


def _ones(block: Unpenalized, ones: FloatArray) -> FloatArray | None:
    """The combination of Z that is what stands for ones, or None where there is none."""
    if not block.k:
        return None
    out = block.regress((block.q.T @ ones)[:, None])[:, 0]
    left = ones - block.z @ out
    return out if left @ left <= SPAN * (ones @ ones) else None
