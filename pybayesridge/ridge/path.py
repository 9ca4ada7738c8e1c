"""Coefficients as functions of the penalty, from the rotation: O(r) a coefficient and penalty."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.profile import shrinkage
from pybayesridge.ridge.spectrum import Spectrum

POINTS = 120
"""Penalties of a path."""

DOWN, UP = np.log(1e4), np.log(1e3)
"""How far a path reaches below and above the penalty in use, in log lambda."""

SHRUNK = np.log(100.0)
"""A penalty this far above the largest squared singular value leaves nothing of the coefficients."""


def path_points(spectrum: Spectrum, log_t2: float) -> FloatArray:
    """Points of log t2, ascending, in rotated units, around the penalty in use or, without one, all that matter."""
    smallest = 2 * float(np.log(spectrum.s[-1])) if spectrum.rank else 0.0
    if np.isfinite(log_t2):
        high = min(log_t2 + DOWN, max(-smallest + SHRUNK, log_t2 + SHRUNK))
        low = max(log_t2 - UP, min(-SHRUNK, log_t2 - SHRUNK))
    else:
        low, high = -SHRUNK, min(-smallest, 2 * DOWN) + SHRUNK
    return np.linspace(low, high, POINTS)


def coefficient_path(
    design: Design, spectrum: Spectrum, target: int, log_t2: FloatArray, rows: IntArray
) -> FloatArray:
    """Some penalised coefficients at each penalty, user's scale, (m, L).

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    target : int
    log_t2 : (L,) array
        In rotated units.
    rows : (m,) int array
        Which of the design's p columns.
    """
    a = shrinkage(spectrum.s, log_t2) * (spectrum.z[:, target] / spectrum.s)
    rotated = np.ascontiguousarray(a.T)
    out = np.empty((rows.size, log_t2.size))
    for part, right in spectrum.right_pieces(design):
        here = np.flatnonzero((rows >= part.start) & (rows < part.stop))
        if here.size:
            out[here] = blas.product(np.ascontiguousarray(right[rows[here] - part.start]), rotated)
    return out * (design.y_norm[target] / (design.scale[rows] * spectrum.top))[:, None]
