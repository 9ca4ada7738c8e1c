"""Eigenvalues and eigenvectors of a symmetric matrix, in no more than the memory of the matrix and the vectors."""

from __future__ import annotations

from scipy.linalg import LinAlgError, eigh
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dsyevd

from pybayesridge._types import FloatArray

LARGE = 2500
"""From this size on memory counts: LAPACK's divide and conquer needs work arrays of twice the size of the matrix."""

COLUMNS = 128
"""Columns that are exchanged at once."""


def decompose(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues in descending order, and eigenvectors, of the lower triangle of `a`, which is overwritten.

    Parameters
    ----------
    a : (m, m) array, Fortran order

    Returns
    -------
    values : (m,) array
    vectors : (m, m) array, Fortran order

    Notes
    -----
    Large matrices are decomposed by multiple relatively robust representations, which need little room, but whose
    vectors are orthogonal to 12 digits only. One Cholesky-QR step in the room of `a` makes them orthogonal to the
    last digit.
    """
    if len(a) < LARGE:
        values, vectors, info = dsyevd(a, lower=1, overwrite_a=1)
        if info:
            raise LinAlgError("LAPACK finds no eigenvalues of the cross-products")
        return values[::-1], _reversed(vectors)
    values, vectors = eigh(a, lower=True, driver="evr", overwrite_a=True, check_finite=False)
    return values[::-1], _reversed(_orthonormal(vectors, a))


def _orthonormal(vectors: FloatArray, room: FloatArray) -> FloatArray:
    """Nearly orthonormal columns made so in their place; `room` is overwritten."""
    square = dsyrk(1.0, vectors, trans=1, lower=1, beta=0.0, c=room, overwrite_c=1)
    root, info = dpotrf(square, lower=1, clean=0, overwrite_a=1)
    if info:
        raise LinAlgError("LAPACK's eigenvectors of the cross-products are not nearly orthogonal")
    out: FloatArray = dtrsm(1.0, root, vectors, side=1, lower=1, trans_a=1, overwrite_b=1)
    return out


def _reversed(vectors: FloatArray) -> FloatArray:
    """The columns in the opposite order, in their place: a view would be copied by every product."""
    count = vectors.shape[1]
    for start in range(0, count // 2, COLUMNS):
        left = slice(start, min(start + COLUMNS, count // 2))
        right = slice(count - left.stop, count - left.start)
        moved = vectors[:, left].copy()
        vectors[:, left] = vectors[:, right][:, ::-1]
        vectors[:, right] = moved[:, ::-1]
    return vectors
