"""Data → a `Design` and the cross-products of its columns, by one pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.crossproducts import CrossProducts, accumulate, of_wide
from pybayesridge.design.design import Design, held_at_once, project_targets
from pybayesridge.design.sparse import sparse_columns
from pybayesridge.design.unpenalized import factorize
from pybayesridge.design.wide import WideProducts
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts


def build_design(
    y: FloatArray,
    x: Any,
    *,
    penalized: IntArray,
    z: FloatArray,
    z_names: Sequence[str],
    z_constant: int | None,
    weights: FloatArray | None,
    standardize: bool,
    constant_serves: bool = False,
    wide: WideProducts | None = None,
    columns_only: bool = False,
) -> tuple[Design, CrossProducts]:
    """Prepare the data and take the one pass over X that the rotation needs.

    Parameters
    ----------
    y : (n, q) array
        Targets; finite. Very many are referred to, not copied.
    x : (n, m) array, CSC matrix or ColumnStream
        Finite; any real dtype and memory order. It is referred to, not copied.
    penalized : (p,) int array
        Positions of the penalised columns in `x`, ascending.
    z : (n, k) array
        The unpenalised columns, the intercept among them.
    z_names : sequence of str
        Their names, for messages.
    z_constant : int or None
        Which of them is the intercept.
    weights : (n,) array or None
        Positive, of mean 1.
    standardize : bool
        Whether the prior is on the scale of standard deviations.
    constant_serves : bool
        Whether a column of `x` is the intercept.
    wide : WideProducts, optional
        Results of the pass, if it was taken before.
    columns_only : bool
        Whether there are to be no products of the columns, which are sparse.

    Raises
    ------
    ValueError
        If Z has not full rank, or a penalised column is constant where it has no standard deviation to be
        measured in and no intercept to be absorbed by.
    """
    sqrt_w = None if weights is None else np.sqrt(weights)
    block = factorize(z, sqrt_w, z_names, z_constant)
    # Of very many targets products are taken afterwards, so that no other array of their size is needed.
    few = y.shape[1] <= held_at_once(y.shape[0])
    y_unit, y_norm, y_on_z, vanishes, y_size = project_targets(y if few else y[:, :0], block)
    if columns_only:
        products = CrossProducts(**sparse_columns(x, penalized, block, standardize=standardize))
    else:
        products = of_wide(wide) if wide else accumulate(x, penalized, block, y_unit, standardize=standardize)
    keep = np.ones(penalized.size, dtype=bool)
    if products.constant.any() and (block.ones is not None or standardize):
        keep = ~products.constant
        if products.side == "gram" and not columns_only:
            products = replace(
                products,
                product=np.asfortranarray(products.product[np.ix_(keep, keep)]),
                xty=None if products.xty is None else products.xty[keep],
            )
    projection = products.projection
    design = Design(
        x=x,
        columns=penalized[keep],
        constant=penalized[~keep],
        block=block,
        center=products.center[keep],
        scale=products.scale[keep],
        sd=products.sd[keep],
        projection=projection if projection is None else projection[:, keep],
        y=y_unit,
        y_norm=y_norm,
        y_on_z=y_on_z,
        y_vanishes=vanishes,
        y_size=y_size,
        standardized_columns=standardize,
        constant_serves=constant_serves,
        n=int(x.shape[0]),
        on_taken=None if wide is None else wide.on_taken,
        taken=None if wide is None else wide.taken,
        marks=None if wide is None or wide.marks is None else wide.marks[keep],
    )
    return (design, products) if few else _with_many_targets(design, products, y)


def _with_many_targets(design: Design, products: CrossProducts, y: FloatArray) -> tuple[Design, CrossProducts]:
    """A design of so many targets that only parts of them are held, and their products with X."""
    q = y.shape[1]
    xty = None if products.xty is None else np.empty((design.p, q), order="F")
    found = []
    for part in even_parts(q, held_at_once(design.n)):
        unit, *others = project_targets(y[:, part], design.block)
        found.append(others)
        if xty is not None:
            xty[:, part] = _products_with(design, unit)
    norm, on_z, vanishes, size = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
    design = replace(design, y=np.empty((0, q)), y_norm=norm, y_on_z=on_z, y_vanishes=vanishes, y_size=size, given=y)
    return design, replace(products, xty=xty)


def _products_with(design: Design, y: FloatArray) -> FloatArray:
    """``X'y``, (p, m), for targets `y` (n, m), of columns less what Z takes: large means cost no digits."""
    if issparse(design.x):
        return design.transposed_times(y)
    out = np.zeros((design.p, y.shape[1]), order="F")
    for rows, piece in design.row_pieces():
        out += blas.product(piece, y[rows], transpose_a=True)
    return out
