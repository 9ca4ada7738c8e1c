"""Directions that cross-products do not tell from none: looked at in X itself."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas

NULL_COLUMNS = 32
"""Directions looked at in one product with X."""


def all_vanish(design: Design, vectors: FloatArray, squares: FloatArray, side: str, bound: float) -> bool:
    """Whether X (or X') maps all but the first eigenvectors to rounding errors of its norm."""
    if design.in_blocks:
        return _all_vanish_in_blocks(design, vectors, squares, bound)
    there, back = (
        (design.times, design.transposed_times) if side == "gram" else (design.transposed_times, design.times)
    )
    known = vectors[:, : squares.size]
    # Of XX' the directions of Z are null by construction: they may be mixed with others, so that all are looked at.
    top2 = None
    for start in range(squares.size, vectors.shape[1], NULL_COLUMNS):
        part = vectors[:, start : start + NULL_COLUMNS]
        if side == "dual":
            part = design.block.residual(part)
        if top2 is None:
            top2 = float((there(np.ascontiguousarray(known[:, :1])) ** 2).sum())
        image = there(np.ascontiguousarray(part))
        if ((image**2).sum(axis=0) > bound * top2).any():
            # By the errors of X'X the eigenvectors may lean towards the directions kept: take that out, look again.
            leaning = blas.product(known, back(image), transpose_a=True) / (squares[:, None] * top2)
            image = there(np.ascontiguousarray(part - blas.product(known, leaning)))
            if ((image**2).sum(axis=0) > bound * top2).any():
                return False
    return True


def _all_vanish_in_blocks(design: Design, vectors: FloatArray, squares: FloatArray, bound: float) -> bool:
    """A :func:`all_vanish` of X', by one pass over the columns for all eigenvectors, or two."""
    known = np.ascontiguousarray(vectors[:, : squares.size])
    others = design.block.residual(vectors[:, squares.size :])
    for leaning in (False, True):
        image, back, top2 = np.zeros(others.shape[1]), np.zeros(others.shape), 0.0
        for _, piece in design.column_pieces():
            part = blas.product(piece, others, transpose_a=True)
            image += (part**2).sum(axis=0)
            back += blas.product(piece, part)
            top2 += float((blas.product(piece, known[:, :1], transpose_a=True) ** 2).sum())
        if (image <= bound * top2).all():
            return True
        if not leaning:
            lean = blas.product(known, back, transpose_a=True) / (squares[:, None] * top2)
            others = others - blas.product(known, lean)
    return False
