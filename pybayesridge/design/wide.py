"""One pass over columns that come in blocks: XX', and centre, projection, scale and spread of each column.

A block holds all n rows of some columns. What is computed of it depends on no other block: blocks may be parts of a
matrix in memory or of a file, or chunks on the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import work_buffer
from pybayesridge.linalg.scale import SAFE, common_scale, constant_columns


@dataclass(frozen=True, slots=True)
class WideProducts:
    """Results of a pass over p columns.

    Attributes
    ----------
    product : (n, n) array, Fortran order, lower triangle
        XX' of ``X = sqrt(W) (X - center - Z @ projection) / scale``; constant columns count as zero where there is an
        intercept.
    center, scale, sd : (p,) arrays
        On the user's scale; see :class:`pybayesridge.design.crossproducts.CrossProducts`.
    projection : (k, p) array or None
        Coefficients of the centred columns on Z; None where centring has done it all.
    constant : (p,) bool array
        Columns without variation.
    on_taken : (n, l) array or None
        ``X B'``, with the rows of B (l, p) what Z takes from the columns: the centres where the constant is in the
        span of Z, and the projections where there are such, divided by the scales.
    taken : (l, l) array or None
        ``B B'``.
    marks : (p,) array or None
        X' times :func:`marking`, by which the columns are recognised when they are read again.
    shared : float
        The unit of columns that are not standardised; 1 for those that are.
    """

    product: FloatArray
    center: FloatArray
    scale: FloatArray
    sd: FloatArray
    projection: FloatArray | None
    constant: BoolArray
    on_taken: FloatArray | None
    taken: FloatArray | None
    marks: FloatArray | None
    shared: float

    @property
    def p(self) -> int:
        """Number of columns."""
        return int(self.center.size)


@dataclass(frozen=True, slots=True)
class _Block:
    """What is kept of a block; attributes as of :class:`WideProducts`."""

    center: FloatArray
    scale: FloatArray
    sd: FloatArray
    projection: FloatArray | None
    constant: BoolArray
    weight: FloatArray


def wide_products(
    pieces: Iterable[AnyArray], block: Unpenalized, *, standardize: bool, with_taken: bool = False
) -> WideProducts:
    """Accumulate the products of all blocks.

    Parameters
    ----------
    pieces : iterable of (n, b) arrays of any real dtype
        Finite; the columns in their order.
    block : Unpenalized
        The factorised Z.
    standardize : bool
        Divide by each column's own (weighted, 1/n) standard deviation, or all columns by one power of two: that near
        the largest standard deviation of the first block, which only conditions numbers.
    with_taken : bool
        Whether `on_taken`, `taken` and `marks` are made.
    """
    n = block.z.shape[0]
    product: FloatArray = np.zeros((n, n), order="F")
    rank = int(block.ones is not None) + (0 if centring_is_all(block) else block.k)
    on_taken, taken = (np.zeros((n, rank)), np.zeros((rank, rank))) if with_taken else (None, None)
    shared: float | None = 1.0 if standardize else None
    found: list[_Block] = []
    marks: list[FloatArray] = []
    a = np.empty((0, 0))
    for piece in pieces:
        if not piece.shape[1]:
            continue
        # A narrower last block gets a buffer of its own: a slice of the wide one would have to be copied.
        a = _buffer_for(a, piece)
        part, shared = _standardized(piece, a, block, shared, standardize=standardize)
        product = blas.add_square(product, a, transposed=False)
        if on_taken is not None and taken is not None:
            rows = _taken_from_columns(part, block)
            on_taken += blas.product(a, np.ascontiguousarray(rows.T))
            taken += blas.product(rows, np.ascontiguousarray(rows.T))
            marks.append(blas.product(a, marking(n), transpose_a=True)[:, 0])
        found.append(part)
    return WideProducts(
        product=product,
        center=_joined([part.center for part in found]),
        scale=_joined([part.scale for part in found]),
        sd=_joined([part.sd for part in found]),
        projection=None if centring_is_all(block) else _side_by_side(block.k, [part.projection for part in found]),
        constant=np.concatenate([np.empty(0, dtype=bool), *(part.constant for part in found)]),
        on_taken=on_taken,
        taken=taken,
        marks=_joined(marks) if with_taken else None,
        shared=1.0 if shared is None else shared,
    )


@lru_cache(maxsize=4)
def marking(n: int) -> FloatArray:
    """Numbers that differ from row to row, (n, 1): always the same ones for n rows."""
    return np.random.default_rng(n).standard_normal((n, 1))


def merge(parts: Sequence[WideProducts]) -> WideProducts:
    """The products of consecutive columns from those of their parts."""
    known = [part for part in parts if part.p]
    if not known:
        return parts[0]
    # Powers of two: nothing is lost in going from one to another.
    shared = max(part.shared for part in known)
    factors = [part.shared / shared for part in known]
    first = known[0]
    product = first.product * factors[0] ** 2
    for part, factor in zip(known[1:], factors[1:], strict=True):
        product += part.product * factor**2
    pairs = list(zip(known, factors, strict=True))
    return WideProducts(
        product=np.asfortranarray(product),
        center=_joined([part.center for part in known]),
        scale=_joined([part.scale / factor for part, factor in pairs]),
        sd=_joined([part.sd for part in known]),
        projection=(
            None
            if first.projection is None
            else _side_by_side(len(first.projection), [part.projection for part in known])
        ),
        constant=np.concatenate([part.constant for part in known]),
        on_taken=_summed([part.on_taken for part in known], factors),
        taken=_summed([part.taken for part in known], factors),
        marks=_joined([part.marks * factor for part, factor in pairs if part.marks is not None]),
        shared=shared,
    )


def project_out(a: FloatArray, q: FloatArray) -> FloatArray:
    """Remove from columns, in place and twice, what lies in the span of `q`; return its coordinates."""
    on_q = np.zeros((q.shape[1], a.shape[1]))
    for _ in range(2):
        step = blas.product(q, a, transpose_a=True)
        a -= blas.product(q, step)
        on_q += step
    return on_q


def fill(buffer: FloatArray, piece: AnyArray, shift: FloatArray, unit: FloatArray | None) -> FloatArray:
    """Put ``(piece - shift) * unit`` into the first rows and columns of a buffer."""
    out = buffer[: piece.shape[0], : piece.shape[1]]
    np.copyto(out, piece)
    blas.subtract_row(out, shift)
    if unit is not None:
        out *= unit
    return out


def units(piece: AnyArray, shift: FloatArray) -> FloatArray:
    """Powers of two that bring the largest deviation from `shift` of each column near 1."""
    top = np.maximum(np.abs(piece - shift).max(axis=0), 0.0)
    top[top == 0] = 1.0
    out: FloatArray = 2.0 ** -np.round(np.log2(top))
    return out


def centring_is_all(block: Unpenalized) -> bool:
    """Whether the unpenalised columns are none, or a constant one."""
    return block.k == 0 or block.only_constant


def _buffer_for(buffer: FloatArray, piece: AnyArray) -> FloatArray:
    fortran = piece.flags.f_contiguous and not piece.flags.c_contiguous
    same = buffer.shape == piece.shape and buffer.flags.f_contiguous == fortran
    return buffer if same and buffer.size else work_buffer(piece, *piece.shape)


def _standardized(
    piece: AnyArray, a: FloatArray, block: Unpenalized, shared: float | None, *, standardize: bool
) -> tuple[_Block, float]:
    """Fill `a` with X of a block; what was taken from its columns, and the unit of columns as they are."""
    shift = piece[0].astype(np.float64)
    unit: FloatArray | None = None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mean, sumsq = _center(piece, a, block, shift, None)
        if not (sumsq.min() > SAFE[0] and sumsq.max() < SAFE[1]):
            odd = ~((sumsq > SAFE[0]) & (sumsq < SAFE[1]))
            if (np.ptp(piece[:, odd].astype(np.float64), axis=0) > 0).any():
                unit = units(piece, shift)
                mean, sumsq = _center(piece, a, block, shift, unit)
    centred = block.ones is not None
    with np.errstate(under="ignore"):
        one = np.ones(shift.size) if unit is None else unit
        sd = np.sqrt(sumsq / len(piece))
        flat = constant_columns(sd, np.abs(shift * one + mean))
        center = shift + mean / one if centred else np.zeros(shift.size)
        if not centred:
            fill(a, piece, center, unit)
            if block.sqrt_w is not None:
                a *= block.sqrt_w[:, None]
        projection = None if centring_is_all(block) else block.regress(project_out(a, block.q)) / one
        if shared is None:
            shared = common_scale(sd / one)
        inner = np.where(flat, 1.0, sd) if standardize else shared * one
        weight = np.where(flat & centred, 0.0, 1.0 / inner)
        a *= weight
        return _Block(center, inner / one, sd / one, projection, flat, weight * one), shared


def _center(
    piece: AnyArray, a: FloatArray, block: Unpenalized, shift: FloatArray, unit: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Fill `a` with the weighted deviations of columns from their means; means less `shift`, sums of squares."""
    fill(a, piece, shift, unit)
    mean: FloatArray = blas.product(a, _shares(block), transpose_a=True)[:, 0]
    blas.subtract_row(a, mean)
    if block.sqrt_w is not None:
        a *= block.sqrt_w[:, None]
    return mean, np.einsum("ij,ij->j", a, a)


def _shares(block: Unpenalized) -> FloatArray:
    """Weights of the rows in means, (n, 1)."""
    n = len(block.z)
    return np.full((n, 1), 1.0 / n) if block.sqrt_w is None else block.sqrt_w[:, None] ** 2 / n


def _taken_from_columns(part: _Block, block: Unpenalized) -> FloatArray:
    """Rows of B of a block, (l, b): centres and projections over the scales; zero for columns that count as zero."""
    rows = [part.center[None]] if block.ones is not None else []
    if part.projection is not None:
        rows.append(part.projection)
    return np.concatenate([np.empty((0, part.center.size)), *rows]) * part.weight


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate([np.empty(0), *parts])


def _side_by_side(k: int, parts: Sequence[FloatArray | None]) -> FloatArray:
    return np.concatenate([np.empty((k, 0)), *(part for part in parts if part is not None)], axis=1)


def _summed(parts: Sequence[FloatArray | None], factors: Sequence[float]) -> FloatArray | None:
    """Sum of products of columns in units that differ by `factors`; the square of each enters once per column."""
    if any(part is None for part in parts):
        return None
    return np.sum([part * factor**2 for part, factor in zip(parts, factors, strict=True) if part is not None], axis=0)
