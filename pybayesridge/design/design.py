"""Data → a frozen `Design`: unpenalised columns projected out, weighted, scaled; and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.design.columns import ColumnStream, Standardizer
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import block_size, column_blocks, column_selector, even_parts, is_all, row_blocks

NOTHING_LEFT = 32 * np.finfo(float).eps
"""A target whose part outside Z is at most this share of its size counts as fitted exactly by Z."""

LARGE_MEAN = 1e4
"""Where what Z takes from a column, such as its mean, exceeds its scale so many times, products are taken of blocks
from which it was taken explicitly."""


HELD = 1 << 22
"""Most elements of targets that are held in the units of the numerics; of more, parts are made when they are read."""

FEWEST_TARGETS = 32
"""Targets in such a part at least, however many rows they have."""


@dataclass(frozen=True, slots=True)
class Design:
    """The data as the numerics see them, and all that is needed to report on the user's scale.

    In what follows ``X`` stands for ``sqrt(W) (x - center - z @ projection) / scale``: the weighted, standardised,
    penalised columns with Z projected out. It is never formed whole.

    Attributes
    ----------
    n : int
        Number of rows of the data; it stays when the rows are dropped.
    x : (n, m) array, CSC matrix or ColumnStream
        The user's columns, in the user's dtype and memory order; not a copy.
    columns : (p,) int array
        Positions in `x` of the penalised columns that vary.
    constant : int array
        Positions in `x` of penalised columns without variation; their coefficient is 0.
    block : Unpenalized
        The unpenalised columns Z.
    center, scale : (p,) arrays
        On the user's scale.
    sd : (p,) array
        Weighted, 1/n standard deviations of the columns, user's scale; `scale` where they are standardised.
    projection : (k, p) array or None
        Coefficients of the centred columns on Z; None where centring alone projects Z out.
    y : (n, q) array, or (0, q)
        Weighted targets with Z projected out, each of norm 1 (or 0); none where `given` is there in their place.
    y_norm : (q,) array
        The norms, on the user's scale; an arbitrary positive unit for a target that vanishes.
    y_on_z : (k, q) array
        Coefficients of the targets on Z, user's scale.
    y_vanishes : (q,) bool array
        Whether Z fits the target exactly.
    y_size : (q,) array
        Norm of the whole weighted target relative to `y_norm`: the unit of rounding errors.
    standardized_columns : bool
        Whether each column was divided by its own standard deviation.
    constant_serves : bool
        Whether a column of `x` is the intercept.
    n : int
        Number of rows of the data, whether or not they are here.
    given : (n, q) array or None
        The targets as the user gave them, not a copy, where there are too many to hold others: :meth:`parts` yields
        designs of some of them.
    on_taken, taken, marks : (n, l), (l, l), (p,) arrays or None
        Of columns that are read in blocks: see :class:`pybayesridge.design.wide.WideProducts`.
    """

    x: Any
    columns: IntArray
    constant: IntArray
    block: Unpenalized
    center: FloatArray
    scale: FloatArray
    sd: FloatArray
    projection: FloatArray | None
    y: FloatArray
    y_norm: FloatArray
    y_on_z: FloatArray
    y_vanishes: BoolArray
    y_size: FloatArray
    standardized_columns: bool
    constant_serves: bool
    n: int
    given: FloatArray | None = None
    on_taken: FloatArray | None = None
    taken: FloatArray | None = None
    marks: FloatArray | None = None

    @property
    def has_rows(self) -> bool:
        """Whether the rows themselves are here, not only what was computed from them."""
        return int(self.x.shape[0]) == self.n

    @property
    def in_blocks(self) -> bool:
        """Whether the columns are read in blocks each time they are needed."""
        return isinstance(self.x, ColumnStream)

    @property
    def in_memory(self) -> bool:
        """Whether X can be rotated anew, by a route that needs all of it."""
        return self.has_rows and not self.in_blocks

    @property
    def p(self) -> int:
        """Number of penalised columns that vary."""
        return int(self.columns.size)

    @property
    def q(self) -> int:
        """Number of targets."""
        return int(self.y.shape[1])

    @property
    def nu(self) -> int:
        """Degrees of freedom left by Z: n - rank(Z)."""
        return self.n - self.block.k

    @property
    def common_scale(self) -> float:
        """The common divisor of all columns if they are not standardised individually."""
        return float(self.scale[0]) if self.p and not self.standardized_columns else 1.0

    @property
    def cancellation(self) -> float:
        """Largest ratio of what Z takes from a column, such as its mean, to its scale; 1 at least."""
        taken = np.abs(self.center)
        if self.projection is not None:
            on_q = self.block.r @ self.projection
            taken = np.maximum(taken, np.sqrt((on_q**2).sum(axis=0) / self.n))
        return float((taken / self.scale).max(initial=1.0))

    @property
    def row_units(self) -> FloatArray:
        """Units of a single target in `y` at each row, (n,): its norm, divided by the root of the weight."""
        root = np.ones(self.n) if self.block.sqrt_w is None else self.block.sqrt_w
        out: FloatArray = self.y_norm[0] / root
        return out

    def of_targets(self, which: IntArray | slice) -> Design:
        """The same with some of the targets."""
        if is_all(which, self.q):
            return self
        return replace(
            self,
            y=self.y[:, which],
            y_norm=self.y_norm[which],
            y_on_z=self.y_on_z[:, which],
            y_vanishes=self.y_vanishes[which],
            y_size=self.y_size[which],
            given=None if self.given is None else self.given[:, which],
        )

    def of_columns(self, which: IntArray) -> Design:
        """The same with some of the penalised columns, by their positions, ascending."""
        return replace(
            self,
            columns=self.columns[which],
            center=self.center[which],
            scale=self.scale[which],
            sd=self.sd[which],
            projection=None if self.projection is None else self.projection[:, which],
            marks=None if self.marks is None else self.marks[which],
        )

    def holding_targets(self) -> Design:
        """The same with the targets in `y`."""
        if self.given is None:
            return self
        return replace(self, y=project_targets(self.given, self.block)[0], given=None)

    def target_parts(self) -> Iterator[slice]:
        """Yield consecutive parts of the targets, each small enough to be held: one part if all are."""
        yield from even_parts(self.q, self.q if self.given is None else held_at_once(self.n))

    def parts(self) -> Iterator[tuple[slice, Design]]:
        """Yield ``(part, design)`` for consecutive parts of the targets, these in ``design.y``."""
        if self.given is None:
            yield slice(0, self.q), self
            return
        for part in self.target_parts():
            yield part, self.of_targets(part).holding_targets()

    def _standardize(self, piece: AnyArray, part: slice, z: FloatArray) -> FloatArray:
        """Centre and scale rows of some columns and take their part outside Z; unweighted."""
        out: FloatArray = piece - self.center[part]
        if self.projection is not None:
            out -= z @ self.projection[:, part]
        out /= self.scale[part]
        return out

    def standardizer(self, start: int, stop: int, wanted: IntArray | None = None) -> Standardizer:
        """What makes X of the columns of a block, from position `start` in `x` to `stop`.

        `wanted` (ascending positions among the penalised columns that vary) leaves out all others.
        """
        first, last = np.searchsorted(self.columns, [start, stop])
        part = np.arange(first, last)
        if wanted is not None:
            part = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, last)]
        assert self.marks is not None
        some = part if wanted is not None else slice(first, last)
        projection = None if self.projection is None else self.projection[:, some]
        return Standardizer(
            start,
            part,
            self.columns[some] - start,
            self.center[some],
            self.scale[some],
            projection,
            self.marks[some],
        )

    def column_pieces(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ``(part, X[:, part])`` for consecutive parts of the columns."""
        if isinstance(self.x, ColumnStream):
            for start, raw in self.x.blocks():
                own = self.standardizer(start, start + raw.shape[1])
                for some, piece in own.pieces(raw, self.block):
                    first = int(own.part[0])
                    yield slice(first + some.start, first + some.stop), piece
            return
        for part, piece in column_blocks(self.x, self.columns):
            yield part, self.block.weigh(self._standardize(piece, part, self.block.z))

    def row_pieces(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ``(rows, X[rows])`` for consecutive rows."""
        every = slice(0, self.p)
        for rows, piece in row_blocks(self.x, self.columns):
            out = self._standardize(piece, every, self.block.z[rows])
            if self.block.sqrt_w is not None:
                out *= self.block.sqrt_w[rows, None]
            yield rows, out

    def transposed_times(self, v: FloatArray) -> FloatArray:
        """``X' v``, (p, m), for `v` (n, m); its part in Z does not matter."""
        # Then neither the centre nor the projection contributes, and X may be taken as it is. Of singular vectors
        # with tiny singular values, where rounding mixes the null spaces of X and Z, much more has to go than noise.
        v = self.block.residual(v)
        as_given = not self.in_blocks and self.cancellation <= LARGE_MEAN
        if issparse(self.x) and as_given:
            return np.asarray(self.x.T @ self.block.weigh(v))[self.columns] / self.scale[:, None]
        direct = as_given and not issparse(self.x) and self.x.dtype == np.float64
        if direct and (self.x.flags.c_contiguous or self.x.flags.f_contiguous):
            full = blas.product(self.x, self.block.weigh(v), transpose_a=True)
            return full[column_selector(self.columns)] / self.scale[:, None]
        out = np.empty((self.p, v.shape[1]))
        for part, piece in self.column_pieces():
            out[part] = blas.product(piece, v, transpose_a=True)
        return out

    def times(self, b: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """``X b``, (n, m), for `b` (p, m); written into `out` if that is given."""
        if out is None:
            out = np.empty((int(self.x.shape[0]), b.shape[1]))
        out[:] = 0.0
        if issparse(self.x) and self.cancellation <= LARGE_MEAN:
            user = b / self.scale[:, None]
            out += self.block.weigh(np.asarray(self.x[:, self.columns] @ user))
            out += self.block.weigh(blas.product(self.block.z, self.taken_from_z(user)))
            return out
        if self.n >= self.p and not self.in_blocks:
            for rows, piece in self.row_pieces():
                out[rows] = blas.product(piece, b)
        else:
            for part, piece in self.column_pieces():
                out += blas.product(piece, b[part])
        return out

    def rows_outside_z(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Standardised rows of new data, (m, p): what multiplies b when the coefficients of Z adapt to it.

        Parameters
        ----------
        x_rows : (m, p) array
            The penalised columns that vary, on the user's scale.
        z_rows : (m, k) array
            The unpenalised columns, on the user's scale.
        """
        out: FloatArray = x_rows / self.scale
        if self.block.ones is not None:
            out -= np.outer(z_rows @ self.block.ones, self.center / self.scale)
        if self.projection is not None:
            out -= z_rows @ (self.projection / self.scale)
        return out

    def coefficients_of_z(self, b_user: FloatArray) -> FloatArray:
        """Coefficients of the unpenalised columns given those of the penalised ones, both on the user's scale.

        Parameters
        ----------
        b_user : (p, q) array

        Returns
        -------
        (k, q) array
        """
        return self.y_on_z + self.taken_from_z(b_user)

    def taken_from_z(self, b_user: FloatArray) -> FloatArray:
        """Change of the unpenalised coefficients, (k, m), due to penalised ones (p, m), user's scale."""
        out = np.zeros((self.block.k, b_user.shape[1]))
        if self.block.ones is not None:
            out -= np.outer(self.block.ones, np.einsum("j,jt->t", self.center, b_user))
        if self.projection is not None:
            out -= blas.product(self.projection, b_user)
        return out

    def without_rows(self) -> Design:
        """The same design with every array over rows emptied: enough to report and to predict means."""
        empty = np.empty((0, self.x.shape[1]))
        block = replace(self.block, z=self.block.z[:0], q=self.block.q[:0], sqrt_w=None)
        return replace(self, x=empty, y=self.y[:0], block=block, given=None)

    def without_row_space(self) -> Design:
        """The same without what combinations of rows or products of columns could be computed from but for means."""
        out = self.without_rows()
        nothing = np.empty((0, 0))
        return replace(out, projection=None, block=replace(out.block, r=nothing))


def held_at_once(n: int) -> int:
    """How many targets of n rows are held in the units of the numerics."""
    return max(FEWEST_TARGETS, HELD // max(n, 1))


def project_targets(
    y: FloatArray, block: Unpenalized
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray, FloatArray]:
    """Targets outside Z in units of their norms, the norms, coefficients on Z, whether Z fits, and whole norms."""
    n, q = y.shape
    step = block_size(n)
    if q <= step:
        return _project_some(y, block)
    residual = np.empty((n, q))
    found = []
    for start in range(0, q, step):
        part = slice(start, start + step)
        residual[:, part], *others = _project_some(y[:, part], block)
        found.append(others)
    norm, on_z, vanishes, ratio = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
    return residual, norm, on_z, vanishes, ratio


def _project_some(
    y: FloatArray, block: Unpenalized
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray, FloatArray]:
    """:func:`project_targets` of as many targets as fit into a cache."""
    top = np.abs(y).max(axis=0, initial=0.0)
    unit = 2.0 ** np.ceil(np.log2(np.where(top > 0, top, 1.0)))
    small = y / unit
    # A shift by the first row makes a constant target vanish exactly, and costs no digits otherwise.
    first = small[0] if block.ones is not None else np.zeros(y.shape[1])
    weighted = block.weigh(small - first)
    on_z = block.regress(blas.product(block.q, weighted, transpose_a=True))
    if block.ones is not None:
        on_z = on_z + np.outer(block.ones, first)
    residual = block.residual(weighted)
    norm = np.sqrt((residual**2).sum(axis=0))
    size = np.sqrt((block.weigh(small) ** 2).sum(axis=0))
    vanishes = norm <= NOTHING_LEFT * size
    divisor = np.where(vanishes, 1.0, norm)
    residual /= divisor
    residual[:, vanishes] = 0.0
    ratio = np.where(vanishes, 1.0, size / divisor)
    return residual, divisor * unit, on_z * unit, vanishes, ratio
