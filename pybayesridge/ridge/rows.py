"""The contribution of each row to the fit: its row of U, and its part outside Z and X.

Where other rows say next to nothing of a row, 1 less its leverage is a small difference of numbers near 1, and so is
its residual. There both are taken from the row's unit vector with Z and U projected out: its squared length is the
first, its product with y the second, and neither cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.spectrum import EPS, Spectrum

ELEMENTS = 1 << 21
"""Most elements in a temporary array over rows and something else."""

NEAR = 1e-3
"""The remainder of a row is computed without differences if it is smaller than this."""

NOTHING = 64 * EPS
"""Length that rounding errors leave of a vector of length 1 when all of it is taken away."""


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Consecutive rows of the data.

    Attributes
    ----------
    rows : slice
    u : (b, r) array
        U[rows].
    share : (b,) array
        Share of each row outside Z and X.
    residual : (b, q) array
        What Z and X leave of y.
    """

    rows: slice
    u: FloatArray
    share: FloatArray
    residual: FloatArray


def left_rows(design: Design, spectrum: Spectrum) -> Iterator[tuple[slice, FloatArray]]:
    """Yield ``(rows, U[rows])`` for consecutive rows."""
    if spectrum.left is not None:
        step = max(1, ELEMENTS // max(spectrum.rank, 1))
        for start in range(0, design.n, step):
            rows = slice(start, min(start + step, design.n))
            yield rows, spectrum.left[rows]
        return
    if spectrum.right is None or spectrum.rank == 0:
        yield slice(0, design.n), np.zeros((design.n, 0))
        return
    half = spectrum.right / (spectrum.s * spectrum.top)
    for rows, piece in design.row_pieces():
        yield rows, blas.product(piece, half)


def row_pieces(design: Design, spectrum: Spectrum) -> Iterator[RowPiece]:
    """All rows in turn; U is held whole only where `spectrum` holds it."""
    for rows, u in left_rows(design, spectrum):
        if spectrum.rank == design.nu:
            yield RowPiece(rows, u, np.zeros(u.shape[0]), np.zeros((u.shape[0], design.q)))
            continue
        share = 1.0 - (design.block.q[rows] ** 2).sum(axis=1) - (u**2).sum(axis=1)
        residual = design.y[rows] - blas.product(u, spectrum.z)
        if spectrum.left is not None:
            near = np.flatnonzero(share < NEAR)
            share[near], residual[near] = _alone(design, spectrum, rows.start + near)
        yield RowPiece(rows, u, np.maximum(share, 0.0), residual)


def orthonormal(design: Design, spectrum: Spectrum) -> Spectrum:
    """The same rotation holding a U that is orthonormal, and orthogonal to Z, to the last digits.

    Products of X with V/s lose digits by the square of the condition number: small singular vectors take part in
    large ones. A QR factorisation in the order of the singular values takes these parts out again.
    """
    left = np.empty((design.n, spectrum.rank))
    for rows, u in left_rows(design, spectrum):
        left[rows] = u
    left, r = qr(design.block.residual(left), mode="economic", overwrite_a=True, check_finite=False)
    left = np.where(np.diag(r) < 0, -left, left)
    return replace(spectrum, left=left, z=blas.product(left, design.y, transpose_a=True))


def _alone(design: Design, spectrum: Spectrum, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Share of some rows outside Z and X (m,), and what is left of y there (m, q), by their unit vectors."""
    assert spectrum.left is not None
    share, residual = np.empty(rows.size), np.empty((rows.size, design.q))
    lost = NOTHING / (float(spectrum.s[-1]) if spectrum.rank else 1.0)
    step = max(1, ELEMENTS // design.n)
    for start in range(0, rows.size, step):
        part = slice(start, start + step)
        unit = np.zeros((design.n, rows[part].size))
        unit[rows[part], np.arange(rows[part].size)] = 1.0
        for _ in range(2):
            unit = design.block.residual(unit)
            unit -= blas.product(spectrum.left, blas.product(spectrum.left, unit, transpose_a=True))
        square = (unit**2).sum(axis=0)
        # What rounding leaves of a row that X fits exactly is nothing.
        unit[:, square <= lost**2] = 0.0
        share[part] = np.where(square <= lost**2, 0.0, square)
        residual[part] = blas.product(unit, design.y, transpose_a=True)
    return share, residual
