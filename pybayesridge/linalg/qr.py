"""QR factorisation of a tall matrix by blocks of rows: only its triangle is kept."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.linalg import qr

from pybayesridge._types import FloatArray


def triangle(pieces: Iterable[FloatArray]) -> FloatArray:
    """The triangle R, (min(n, m), m), of a QR factorisation of stacked blocks of rows (b, m).

    Blocks wait until together they are twice as tall as R is, so that the work stays proportional to that of one
    factorisation.
    """
    found: FloatArray | None = None
    waiting: list[FloatArray] = []
    height = 0
    for piece in pieces:
        waiting.append(piece)
        height += piece.shape[0]
        if height >= 2 * piece.shape[1]:
            found, waiting, height = _shrunk(found, waiting), [], 0
    return _shrunk(found, waiting) if waiting or found is None else found


def _shrunk(found: FloatArray | None, waiting: list[FloatArray]) -> FloatArray:
    stack = np.vstack(waiting if found is None else [found, *waiting])
    r: FloatArray = qr(stack, mode="r", overwrite_a=True, check_finite=False)[0]
    return r[: min(stack.shape)]
