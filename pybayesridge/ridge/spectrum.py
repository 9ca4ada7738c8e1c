"""The one-off rotation, O(max(n,p) min(n,p)^2): after it everything about the ridge costs O(min(n,p)).

Three routes. ``gram``: X'X = V diag(s^2) V' where n >= p. ``dual``: XX' = U diag(s^2) U' where n < p; V is never
formed. ``svd``: QR of X (or X') and the SVD of its triangle, which does not square the condition number
(:mod:`pybayesridge.ridge.accurate`); it takes over where the other two are not accurate at some penalty that matters
(:mod:`pybayesridge.ridge.trust`). ``moments``: the Gram route where there are no rows to fall back on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.linalg import eigh

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import is_all
from pybayesridge.linalg.eigen import decompose
from pybayesridge.ridge.null_space import all_vanish

Solver = Literal["gram", "dual", "svd", "moments"]

EPS = float(np.finfo(float).eps)

EIGENVALUE_NOISE = 4 * EPS
"""Errors of the eigenvalues of a Gram matrix, relative to the largest."""

ACCURACY = 1e-8
"""Required relative accuracy of ``s_j^2 + lambda``; where they miss it the Gram routes give way to the SVD."""

WEAK = EIGENVALUE_NOISE / ACCURACY
"""Where both the least squared singular value and the penalty are below this, the Gram routes are not accurate."""

SHARPEN = 1e-4
"""Squared singular values below this are taken again where some are weak."""

STEEP = 1e-2
"""Smallest singular value, relative to the largest, of columns without means whose coefficients need no
refinement."""

CANCELLED = 1e-6
"""A residual sum of squares below this share of y'y is computed from residuals, not by subtraction; earlier where the
condition number makes the errors of what is subtracted larger."""

UNSEEN = 1e-13
"""From moments, a residual sum of squares below this share of y'y cannot be distinguished from zero."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The rotated problem, in units where the largest singular value and each target's norm are 1.

    Attributes
    ----------
    s : (r,) array
        Singular values of X divided by the largest, descending; r is the numerical rank.
    top : float
        The largest singular value (1 where there is none).
    z : (r, q) array
        U'y.
    rss0 : (q,) array
        ``||(I - UU')y||^2``: the part of y'y = 1 that no coefficients can explain. (1 for a target that Z fits
        exactly: it has no signal, and its unit is arbitrary.)
    p : int
        Number of penalised columns that were rotated.
    nu : int
        n - rank(Z).
    solver : {"gram", "dual", "svd", "moments"}
    right : (p, r) array or None
        V, where the route yields it.
    left : (n, r) array or None
        U, where the route yields it.
    smallest : float
        Smallest squared singular value relative to the largest; those known to be zero do not count, and those that
        may be lost in rounding errors count as 0.
    noise : float
        Bound of the errors of the singular values (of their squares, by other routes than "svd"), relative to the
        largest.
    unseen : (q,) array or None
        From moments, the norms of what X'y has outside V, in these units: of directions that count as none.
    """

    s: FloatArray
    top: float
    z: FloatArray
    rss0: FloatArray
    p: int
    nu: int
    solver: Solver
    right: FloatArray | None
    left: FloatArray | None
    smallest: float
    noise: float
    unseen: FloatArray | None = None

    def of_targets(self, which: IntArray | slice) -> Spectrum:
        """The same with some of the targets."""
        if is_all(which, self.rss0.size):
            return self
        unseen = None if self.unseen is None else self.unseen[which]
        return replace(self, z=self.z[:, which], rss0=self.rss0[which], unseen=unseen)

    @property
    def rank(self) -> int:
        """Numerical rank of X."""
        return int(self.s.size)

    @property
    def lean(self) -> FloatArray:
        """Angles, about, by which rounding errors turn each row of V' out of the row space, (r,)."""
        return EIGENVALUE_NOISE / (self.s**2 if self.solver in ("gram", "moments") else self.s)

    def trusts(self, penalty: float) -> bool:
        """Whether ``s_j^2 + penalty`` has the required accuracy; `penalty` relative to the squared top value."""
        return self.solver in ("svd", "moments") or self.loss(penalty) <= ACCURACY

    def loss(self, penalty: float) -> float:
        """Relative error, about, of what depends on ``s_j^2 + penalty``."""
        if self.rank == 0:
            return 0.0
        left = max(self.smallest + penalty, 0.0)
        if self.solver == "svd":
            return EIGENVALUE_NOISE / max(float(np.sqrt(left)), EIGENVALUE_NOISE)
        if self.solver == "dual" and self.smallest <= 2 * self.noise:
            # Directions were lost whose s may be the root of the noise: coefficients lose s u'y / penalty.
            return float(np.sqrt(EIGENVALUE_NOISE / max(left, EIGENVALUE_NOISE)))
        return EIGENVALUE_NOISE / max(left, EIGENVALUE_NOISE)

    def standardized_coefficients(self, design: Design, a: FloatArray) -> FloatArray:
        """``V a``, (p, m), for `a` (r, m)."""
        if self.right is not None:
            return blas.product(self.right, a)
        if self.left is None:
            return np.zeros((self.p, a.shape[1]))
        out = self._times_right(design, a)
        if not design.in_blocks and self.s[-1] < STEEP * design.cancellation:
            # Rounding errors of products with X' are relative to X, means and all, and the large directions take them
            # up: V'b is no longer a. What is missing is added.
            found = blas.product(self.left, design.times(out), transpose_a=True) / (self.s[:, None] * self.top)
            out += self._times_right(design, a - found)
        return out

    def _times_right(self, design: Design, a: FloatArray) -> FloatArray:
        """``V a`` by products with X', where V is not held."""
        assert self.left is not None
        return design.transposed_times(blas.product(self.left, a / self.s[:, None])) / self.top

    def right_pieces(self, design: Design) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ``(part, V[part])`` for consecutive parts of the columns."""
        if self.right is not None or self.left is None:
            right = np.zeros((self.p, 0)) if self.right is None else self.right
            step = max(1, (1 << 19) // max(self.rank, 1))
            for start in range(0, len(right), step):
                part = slice(start, min(start + step, len(right)))
                yield part, right[part]
            return
        half = self.left / (self.s * self.top)
        for part, piece in design.column_pieces():
            yield part, blas.product(piece, half, transpose_a=True)

    def project_rows(self, design: Design, rows: FloatArray) -> FloatArray:
        """``rows @ V``, (m, r), for standardised rows (m, p)."""
        if self.right is not None:
            return blas.product(rows, self.right)
        if self.left is None:
            return np.zeros((rows.shape[0], 0))
        inner = np.zeros((rows.shape[0], design.n))
        for part, piece in design.column_pieces():
            inner += blas.product(rows[:, part], piece.T)
        return blas.product(inner, self.left / (self.s * self.top))

    def with_right(self, design: Design) -> Spectrum:
        """The same rotation with V formed, so that the rows of X are needed no more."""
        if self.right is not None:
            return replace(self, left=None)
        right = np.empty((self.p, self.rank))
        for part, piece in self.right_pieces(design):
            right[part] = piece
        return replace(self, right=right, left=None)


def rotate(design: Design, products: CrossProducts, cancelled: float = CANCELLED) -> Spectrum:
    """Diagonalise X'X or XX'; overwrites ``products.product``.

    Residual sums of squares below the share `cancelled` of y'y, times the condition, are computed from residuals.
    """
    if min(design.p, design.nu) == 0:
        return empty(design, products.side if design.has_rows else "moments")
    values, vectors = decompose(products.product)
    solver: Solver = products.side if design.has_rows else "moments"
    if values[0] <= 0:
        return empty(design, solver)
    top = float(np.sqrt(values[0]))
    noise = _noise_of_squares(design)
    rank, smallest = _rank_of_squares(design, values / values[0], vectors, products.side, noise)
    s, vectors = np.sqrt(values[:rank] / values[0]), vectors[:, :rank]
    lost = smallest <= 2 * noise
    if solver == "gram" and smallest < WEAK and not lost:
        s, vectors = _sharpened(design, s, top, vectors)
    spectrum = _with_targets(design, products, s, top, vectors, smallest, noise)
    if solver != "gram":
        return spectrum
    few_digits = spectrum.rss0 * (1.0 if lost else min(smallest, 1.0)) < cancelled
    return _refined(design, spectrum, few_digits & ~design.y_vanishes)


def _sharpened(design: Design, s: FloatArray, top: float, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Small singular values and their directions again, from X times these directions: relative errors are small.

    Overwrites `s` and `right`.
    """
    weak = s**2 < SHARPEN
    directions = np.ascontiguousarray(right[:, weak])
    square = np.zeros((directions.shape[1],) * 2, order="F")
    for _, piece in design.row_pieces():
        square = blas.add_square(square, blas.product(piece, directions), transposed=True)
    values, turn = eigh(square, lower=True, overwrite_a=True, check_finite=False)
    s[weak] = np.sqrt(values[::-1]) / top
    right[:, weak] = blas.product(directions, np.ascontiguousarray(turn[:, ::-1]))
    return s, right


def sharpened(design: Design, spectrum: Spectrum) -> Spectrum:
    """The rotation by X'X with small singular values, their directions and their part of U'y again, from X itself.

    Rows of U, which are those of X V / s, are then known to ten digits although small s differ in few.
    """
    assert spectrum.right is not None
    weak = spectrum.s**2 < SHARPEN
    s, right = _sharpened(design, spectrum.s.copy(), spectrum.top, spectrum.right.copy(order="F"))
    z = spectrum.z.copy(order="K")
    for part, some in design.parts():
        z[weak, part] = blas.product(right[:, weak], some.transposed_times(some.y), transpose_a=True)
        z[weak, part] /= s[weak, None] * spectrum.top
    return replace(spectrum, s=s, right=right, z=z, smallest=float(s[-1] ** 2))


def _with_targets(
    design: Design,
    products: CrossProducts,
    s: FloatArray,
    top: float,
    vectors: FloatArray,
    smallest: float,
    noise: float,
) -> Spectrum:
    """Rotate the targets too."""
    if products.xty is None:
        z, rss0 = rotated_targets(design, vectors)
        return make_spectrum(design, s, top, z, rss0, "dual", left=vectors, smallest=smallest, noise=noise)
    z = blas.product(vectors, products.xty, transpose_a=True)
    z /= s[:, None] * top
    rss0 = 1.0 - np.einsum("jt,jt->t", z, z)
    if design.has_rows:
        return make_spectrum(design, s, top, z, rss0, "gram", right=vectors, smallest=smallest, noise=noise)
    rss0[rss0 <= UNSEEN] = 0.0
    found = make_spectrum(design, s, top, z, rss0, "moments", right=vectors, smallest=smallest, noise=noise)
    beyond = products.xty / top - blas.product(vectors, s[:, None] * z)
    return replace(found, unseen=np.sqrt((beyond**2).sum(axis=0)))


def certain_rank(design: Design, spectrum: Spectrum) -> int:
    """Number of singular values that are certainly not rounding errors."""
    if spectrum.solver in ("svd", "dual"):
        return spectrum.rank
    return int(np.count_nonzero(spectrum.s**2 > spectrum.noise))


def noise_of_values(design: Design) -> float:
    """Bound of what rounding errors make of a zero singular value, relative to the largest."""
    return max(16.0, 8.0 * float(np.sqrt(max(design.n, design.p)))) * EPS


def _noise_of_squares(design: Design) -> float:
    """Bound of the errors of the eigenvalues of X'X or XX', relative to the largest."""
    rows = design.n if design.has_rows else 0
    return max(16.0, 8.0 * float(np.sqrt(max(rows, design.p)))) * EPS


def _rank_of_squares(
    design: Design, relative: FloatArray, vectors: FloatArray, side: str, noise: float
) -> tuple[int, float]:
    """Numerical rank from squared singular values relative to the largest, and the smallest that counts.

    Directions that rounding errors hide are looked at in X itself: those that vanish there are dropped.
    """
    expected = min(design.p, design.nu)
    sure = min(int(np.count_nonzero(relative > 2 * noise)), expected)
    if sure == expected:
        return sure, float(relative[sure - 1])
    bound = noise_of_values(design) ** 2
    if design.has_rows and all_vanish(design, vectors, relative[:sure], side, bound):
        return sure, float(relative[sure - 1])
    # A direction whose s^2 is lost in rounding still matters through s u'y: X'X keeps all but what is surely noise.
    least = EIGENVALUE_NOISE if side == "gram" else 2 * noise
    return min(int(np.count_nonzero(relative > least)), design.nu), 0.0


def rotated_targets(design: Design, left: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``U'y`` (r, q), and ``||(I - UU')y||^2`` (q,) from residuals; exactly zero where X spans all that Z leaves."""
    z, rss0 = np.empty((left.shape[1], design.q), order="F"), np.zeros(design.q)
    for part, some in design.parts():
        z[:, part] = blas.product(left, some.y, transpose_a=True)
        if left.shape[1] < design.nu:
            rest = design.block.residual(some.y - blas.product(left, z[:, part]))
            rss0[part] = (rest**2).sum(axis=0)
    return z, rss0


def _refined(design: Design, spectrum: Spectrum, targets: BoolArray) -> Spectrum:
    """Correct U'y of some targets by the residual it leaves, and take the residual sum of squares from residuals."""
    if not targets.any():
        return spectrum
    z, rss0 = spectrum.z.copy(order="K"), spectrum.rss0.copy()
    for part in design.target_parts():
        which = np.flatnonzero(targets[part]) + part.start
        if which.size:
            z[:, which], rss0[which] = _corrected(design.of_targets(which).holding_targets(), spectrum, z[:, which])
    if _spans_all(design, spectrum.s, "gram", spectrum.noise):
        rss0[targets] = 0.0
    return replace(spectrum, z=z, rss0=rss0)


def _corrected(design: Design, spectrum: Spectrum, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """U'y of all targets of a design and their residual sums of squares, by X."""
    right, s = spectrum.right, spectrum.s[:, None] * spectrum.top
    assert right is not None
    for step in range(2):
        residual = design.block.residual(design.y - design.times(blas.product(right, z / s)))
        if step == 0:
            z = z + blas.product(right, design.transposed_times(residual), transpose_a=True) / s
    return z, (residual**2).sum(axis=0)


def _spans_all(design: Design, s: FloatArray, solver: Solver, noise: float) -> bool:
    # The Gram route keeps directions that may be noise: these do not show that X spans everything.
    sure = solver in ("svd", "dual") or (s.size > 0 and s[-1] ** 2 > noise)
    return bool(0 < s.size == design.nu and sure)


def make_spectrum(
    design: Design,
    s: FloatArray,
    top: float,
    z: FloatArray,
    rss0: FloatArray,
    solver: Solver,
    *,
    right: FloatArray | None = None,
    left: FloatArray | None = None,
    smallest: float,
    noise: float,
) -> Spectrum:
    """A rotation in its own units, see :class:`Spectrum`; no residual where X spans all that Z leaves."""
    spans_all = _spans_all(design, s, solver, noise)
    return Spectrum(
        s=s,
        top=float(top),
        z=z,
        rss0=np.where(design.y_vanishes, 1.0, 0.0 if spans_all else np.maximum(rss0, 0.0)),
        p=design.p,
        nu=design.nu,
        solver=solver,
        right=right,
        left=left,
        smallest=smallest,
        noise=noise,
    )


def empty(design: Design, solver: Solver) -> Spectrum:
    """The rotation of no columns, or of columns without variation."""
    return make_spectrum(
        design,
        np.empty(0),
        1.0,
        np.empty((0, design.q)),
        np.ones(design.q),
        solver,
        right=np.empty((design.p, 0)),
        smallest=0.0,
        noise=EPS,
    )
