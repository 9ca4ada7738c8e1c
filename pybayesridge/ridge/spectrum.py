"""The one-off rotation, O(max(n,p) min(n,p)^2): after it everything about the ridge costs O(min(n,p)).

Three routes. ``gram``: X'X = V diag(s^2) V' where n >= p. ``dual``: XX' = U diag(s^2) U' where n < p; V is never
formed. ``svd``: QR of X (or X') and the SVD of its triangle, which does not square the condition number; it is
the fallback where the penalty is too small beside the rounding errors of the other two. ``moments``: the Gram route
where there are no rows to fall back on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import LinAlgError, eigh, svd

from pybayesridge import blas
from pybayesridge._types import FloatArray
from pybayesridge.crossproducts import CrossProducts
from pybayesridge.design import Design
from pybayesridge.triangle import triangle

Solver = Literal["gram", "dual", "svd", "moments"]

EPS = float(np.finfo(float).eps)

EIGENVALUE_NOISE = 4 * EPS
"""Errors of the eigenvalues of a Gram matrix, relative to the largest."""

ACCURACY = 1e-8
"""Relative accuracy wanted of ``s_j^2 + lambda``; below it the Gram routes give way to the SVD."""

CANCELLED = 1e-6
"""A residual sum of squares below this share of y'y is computed from residuals, not by subtraction."""

UNSEEN = 1e-13
"""From moments, a residual sum of squares below this share of y'y cannot be told from none."""


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
        Number of penalised columns.
    nu : int
        n - rank(Z).
    solver : {"gram", "dual", "svd", "moments"}
    right : (p, r) array or None
        V, where the route yields it.
    left : (n, r) array or None
        U, where the route yields it.
    smallest : float
        Smallest squared singular value beside the largest, before those lost in rounding were dropped.
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

    @property
    def rank(self) -> int:
        """Numerical rank of X."""
        return int(self.s.size)

    def trusts(self, penalty: float) -> bool:
        """Whether ``s_j^2 + penalty`` has the accuracy wanted; `penalty` relative to the squared top value."""
        return self.solver in ("svd", "moments") or self.loss(penalty) <= ACCURACY

    def loss(self, penalty: float) -> float:
        """Relative error of ``s_j^2 + penalty`` by the Gram routes."""
        return EIGENVALUE_NOISE / max(self.smallest + penalty, EIGENVALUE_NOISE)

    def standardized_coefficients(self, design: Design, a: FloatArray) -> FloatArray:
        """``V a``, (p, m), for `a` (r, m)."""
        if self.right is not None:
            return blas.product(self.right, a)
        if self.left is None:
            return np.zeros((self.p, a.shape[1]))
        return design.transposed_times(blas.product(self.left, a / self.s[:, None])) / self.top

    def right_pieces(self, design: Design) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ``(part, V[part])`` for consecutive parts of the columns."""
        if self.right is not None or self.left is None:
            right = np.zeros((self.p, 0)) if self.right is None else self.right
            step = max(1, (1 << 19) // max(self.rank, 1))
            for start in range(0, self.p, step):
                part = slice(start, min(start + step, self.p))
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
            return self
        right = np.empty((self.p, self.rank))
        for part, piece in self.right_pieces(design):
            right[part] = piece
        return Spectrum(self.s, self.top, self.z, self.rss0, self.p, self.nu, self.solver, right, None, self.smallest)


def rotate(design: Design, products: CrossProducts) -> Spectrum:
    """Diagonalise X'X or XX'; overwrites ``products.product``."""
    if min(design.p, design.nu) == 0:
        return _empty(design, products.side if design.has_rows else "moments")
    # SciPy before 1.12 asks evd for too little workspace at size 1.
    driver = "evd" if len(products.product) > 1 else "evr"
    values, vectors = eigh(products.product, lower=True, driver=driver, overwrite_a=True, check_finite=False)
    # Of XX' the directions of Z are known to be null: they are not singular values.
    known_null = design.block.k if products.side == "dual" else 0
    values = values[::-1][: values.size - known_null]
    if values[0] <= 0:
        return _empty(design, products.side if design.has_rows else "moments")
    top = float(np.sqrt(values[0]))
    # A direction whose s^2 is lost in rounding still matters through s u'y: X'X keeps all but what is surely noise.
    least = EIGENVALUE_NOISE if products.side == "gram" else None
    rank, smallest = _rank(values / values[0], design, least=least)
    s = np.sqrt(values[:rank] / values[0])
    vectors = vectors[:, ::-1][:, :rank]
    if products.xty is None:
        z = blas.product(vectors, design.y, transpose_a=True)
        return _spectrum(design, s, top, z, _outside(design, vectors, z), "dual", None, vectors, smallest)
    z = blas.product(vectors, products.xty, transpose_a=True) / (s[:, None] * top)
    rss0 = 1.0 - (z**2).sum(axis=0)
    if not design.has_rows:
        rss0[rss0 <= UNSEEN] = 0.0
        return _spectrum(design, s, top, z, rss0, "moments", vectors, None, smallest)
    small = (rss0 < CANCELLED) & ~design.y_vanishes
    if small.any():
        z[:, small], rss0[small] = _refined(design, vectors, s * top, z[:, small], design.y[:, small])
    return _spectrum(design, s, top, z, rss0, "gram", vectors, None, smallest)


def rotate_accurately(design: Design) -> Spectrum:
    """QR of X by blocks and the SVD of its triangle: no squared condition number, and nothing of the size of X."""
    n, p = design.n, design.p
    if min(p, design.nu) == 0:
        return _empty(design, "svd")
    if n < p:
        r = triangle(piece.T for _, piece in design.column_pieces())
        left, values, _ = _svd(r.T)
        rank, smallest = _rank((values / values[0]) ** 2, design)
        left = left[:, :rank]
        z = left.T @ design.y
        s = values[:rank] / values[0]
        return _spectrum(design, s, values[0], z, _outside(design, left, z), "svd", None, left, smallest)
    # The triangle of [X y] holds Q'y and the norm of the rest, without forming Q.
    r = triangle(np.hstack([piece, design.y[rows]]) for rows, piece in design.row_pieces())
    left, values, right_t = _svd(r[:p, :p])
    if values[0] == 0:
        return _empty(design, "svd")
    rank, smallest = _rank((values / values[0]) ** 2, design, squared=False)
    z = left.T @ r[:p, p:]
    rss0 = (r[p : min(n, p + design.q), p:] ** 2).sum(axis=0) + (z[rank:] ** 2).sum(axis=0)
    s = values[:rank] / values[0]
    return _spectrum(design, s, values[0], z[:rank], rss0, "svd", right_t[:rank].T, None, smallest)


def certain_rank(design: Design, spectrum: Spectrum) -> int:
    """Number of singular values that are certainly not rounding errors."""
    if spectrum.solver in ("svd", "dual"):
        return spectrum.rank
    return int(np.count_nonzero(spectrum.s**2 > _gram_noise(design)))


def _gram_noise(design: Design) -> float:
    """Bound of the rounding errors of squared singular values, relative to the largest."""
    return max(design.n, design.p, 16) * EPS


def _rank(
    relative: FloatArray, design: Design, *, squared: bool = True, least: float | None = None
) -> tuple[int, float]:
    """Numerical rank from squared singular values beside the largest, and the smallest that should be there.

    Values that may be rounding errors do not count, unless `least` says which do.
    """
    noise = _gram_noise(design) if least is None else least
    rank = int(np.count_nonzero(relative > (noise if squared else noise**2)))
    expected = min(design.p, design.nu)
    return min(rank, design.nu), float(max(relative[expected - 1], 0.0))


def _svd(a: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    try:
        u, s, vt = svd(a, check_finite=False)
    except LinAlgError:  # gesdd can fail to converge where the slower gesvd does not
        u, s, vt = svd(a, check_finite=False, lapack_driver="gesvd")
    return u, s, vt


def _outside(design: Design, left: FloatArray, z: FloatArray) -> FloatArray:
    """``||(I - UU')y||^2`` from residuals; exactly zero where X spans all that Z leaves."""
    if left.shape[1] == design.nu:
        return np.zeros(design.q)
    rest: FloatArray = (design.block.residual(design.y - blas.product(left, z)) ** 2).sum(axis=0)
    return rest


def _refined(
    design: Design, right: FloatArray, s: FloatArray, z: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Correct U'y by the residual it leaves, and take the residual sum of squares from residuals."""
    for step in range(2):
        residual = design.block.residual(y - design.times(blas.product(right, z / s[:, None])))
        if step == 0:
            z = z + blas.product(right, design.transposed_times(residual), transpose_a=True) / s[:, None]
    return z, (residual**2).sum(axis=0)


def _spectrum(
    design: Design,
    s: FloatArray,
    top: float,
    z: FloatArray,
    rss0: FloatArray,
    solver: Solver,
    right: FloatArray | None,
    left: FloatArray | None,
    smallest: float,
) -> Spectrum:
    # The Gram route keeps directions that may be noise: these do not show that X spans everything.
    sure = solver in ("svd", "dual") or (s.size > 0 and s[-1] ** 2 > _gram_noise(design))
    spans_all = 0 < s.size == design.nu and sure
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
    )


def _empty(design: Design, solver: Solver) -> Spectrum:
    return _spectrum(
        design,
        np.empty(0),
        1.0,
        np.empty((0, design.q)),
        np.ones(design.q),
        solver,
        np.empty((design.p, 0)),
        None,
        0.0,
    )
