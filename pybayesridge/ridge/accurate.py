"""The rotation without a squared condition number: QR of X or X', and the SVD of its triangle."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, qr, svd

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import block_size
from pybayesridge.linalg.qr import triangle
from pybayesridge.ridge.spectrum import Spectrum, empty, make_spectrum, noise_of_values, outside


def rotate_accurately(design: Design) -> Spectrum:
    """Rotate by QR and SVD.

    Where the columns leave residuals only blocks of X are held at a time. Elsewhere one array of the size of X is
    allocated, which holds X', then the Q of its QR factorisation and in the end V: a V made by products with X' would
    have lost digits by the square of the condition number again, and a U made by products with X likewise.
    """
    if min(design.p, design.nu) == 0:
        return empty(design, "svd")
    return _tall(design) if design.nu > design.p else _wide(design)


def _tall(design: Design) -> Spectrum:
    p, block = design.p, design.block
    # The triangle of [Q y] over Z, X and y holds what Z and X leave of the others, without forming the Q of X.
    pieces = (np.hstack([block.q[rows], piece, design.y[rows]]) for rows, piece in design.row_pieces())
    r = triangle(pieces)[block.k :, block.k :]
    left, values, right_t = _svd(r[:p, :p])
    if values[0] == 0:
        return empty(design, "svd")
    noise = noise_of_values(design)
    rank = int(np.count_nonzero(values > noise * values[0]))
    z = left.T @ r[:p, p:]
    rss0 = (r[p:, p:] ** 2).sum(axis=0) + (z[rank:] ** 2).sum(axis=0)
    s = values[:rank] / values[0]
    right = np.ascontiguousarray(right_t[:rank].T)
    return make_spectrum(
        design, s, values[0], z[:rank], rss0, "svd", right=right, smallest=float(s[-1] ** 2), noise=noise
    )


def _wide(design: Design) -> Spectrum:
    whole = np.empty((design.p, design.n), order="F")
    for part, piece in design.column_pieces():
        whole[part] = design.block.residual(piece).T
    whole, r = qr(whole, mode="economic", overwrite_a=True, check_finite=False)
    # In coordinates outside Z: singular vectors of tiny singular values would otherwise have a part in Z.
    k = design.block.k
    beyond = qr(design.block.q, check_finite=False)[0][:, k:] if k else np.eye(design.n)
    left, values, right_t = _svd(blas.product(beyond, np.ascontiguousarray(r.T), transpose_a=True))
    if values[0] == 0:
        return empty(design, "svd")
    noise = noise_of_values(design)
    rank = min(int(np.count_nonzero(values > noise * values[0])), design.nu)
    left, s = blas.product(beyond, np.ascontiguousarray(left[:, :rank])), values[:rank] / values[0]
    turn = np.ascontiguousarray(right_t[:rank].T)
    step = block_size(design.n)
    for start in range(0, design.p, step):
        rows = slice(start, start + step)
        whole[rows, :rank] = blas.product(whole[rows], turn)
    z = left.T @ design.y
    rss0 = outside(design, left, z)
    return make_spectrum(
        design,
        s,
        values[0],
        z,
        rss0,
        "svd",
        right=whole[:, :rank],
        left=left,
        smallest=float(s[-1] ** 2),
        noise=noise,
    )


def _svd(a: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    try:
        u, s, vt = svd(a, check_finite=False)
    except LinAlgError:  # gesdd can fail to converge where the slower gesvd does not
        u, s, vt = svd(a, check_finite=False, lapack_driver="gesvd")
    return u, s, vt
