"""The rotation without a squared condition number: QR of X or X', and the SVD of its triangle."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, qr, svd
from scipy.linalg.lapack import dormqr

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import block_size
from pybayesridge.linalg.qr import triangle
from pybayesridge.ridge.spectrum import Spectrum, empty, make_spectrum, noise_of_values, rotated_targets


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
    if design.given is None:
        # The triangle of [Q y] over Z, X and y holds what Z and X leave of the others, without forming the Q of X.
        pieces = (np.hstack([block.q[rows], piece, design.y[rows]]) for rows, piece in design.row_pieces())
        r = triangle(pieces)[block.k :, block.k :]
        r, on_q, beyond = r[:p, :p], r[:p, p:], (r[p:, p:] ** 2).sum(axis=0)
    else:
        r, on_q, beyond = _many_on_q(design)
    left, values, right_t = _svd(r)
    if values[0] == 0:
        return empty(design, "svd")
    noise = noise_of_values(design)
    rank = int(np.count_nonzero(values > noise * values[0]))
    z = blas.product(left, on_q, transpose_a=True)
    rss0 = beyond + (z[rank:] ** 2).sum(axis=0)
    s = values[:rank] / values[0]
    right = np.ascontiguousarray(right_t[:rank].T)
    return make_spectrum(
        design, s, values[0], z[:rank], rss0, "svd", right=right, smallest=float(s[-1] ** 2), noise=noise
    )


def _many_on_q(design: Design) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The triangle of X outside Z (p, p); the coordinates of many targets in its Q (p, q), and squares beyond (q,).

    An array of the size of X is allocated, and none of the size of the targets.
    """
    k, p = design.block.k, design.p
    whole = np.empty((design.n, k + p), order="F")
    whole[:, :k] = design.block.q
    for rows, piece in design.row_pieces():
        whole[rows, k:] = piece
    (reflectors, tau), r = qr(whole, mode="raw", overwrite_a=True, check_finite=False)
    on_q, beyond = np.empty((p, design.q), order="F"), np.empty(design.q)
    for part, some in design.parts():
        turned = np.asfortranarray(some.y)
        work = int(dormqr("L", "T", reflectors, tau, turned, -1, overwrite_c=1)[1][0])
        turned = dormqr("L", "T", reflectors, tau, turned, work, overwrite_c=1)[0]
        on_q[:, part] = turned[k : k + p]
        beyond[part] = (turned[k + p :] ** 2).sum(axis=0)
    return r[k:, k:], on_q, beyond


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
    z, rss0 = rotated_targets(design, left)
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
