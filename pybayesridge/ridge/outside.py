"""Components of single coefficients outside the row space of X, where only the prior informs them.

A column that is nearly alone in its direction has a tiny share of it, which a large tau2 makes a variance: then the
share is not what a sum of squares leaves of 1, but the squared length of the part of the unit vector that is left.
"""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.spectrum import EPS, Spectrum

DIFFERENCE = 1e-8
"""Relative error with which a share may be taken as a difference."""

NEAR = 1e-3
"""Shares that are not this small always are."""

CERTAIN = 16.0
"""The remainder of a unit vector is more than rounding errors if it is so many times their size."""

MOST = 1e-6
"""Directions that rounding errors turn by more are known too little to say that a share is none."""

ELEMENTS = 1 << 19
"""Most elements in a temporary array over columns x columns."""


def outside_of_columns(design: Design, spectrum: Spectrum, first: int, right: FloatArray) -> FloatArray:
    """Share of consecutive columns, from `first` on, outside the row space, (m,), from their rows of V (m, r)."""
    if spectrum.rank == design.p:
        return np.zeros(right.shape[0])
    out: FloatArray = np.maximum(1.0 - np.einsum("ij,ij->i", right, right), 0.0)
    spread = 1.0 / float(spectrum.s[-1]) if spectrum.solver == "dual" and spectrum.rank else 1.0
    near = np.flatnonzero(out < min(NEAR, EPS * spread / DIFFERENCE))
    step = max(1, ELEMENTS // design.p)
    for start in range(0, near.size, step):
        part = near[start : start + step]
        rest = np.zeros((design.p, part.size))
        rest[first + part, np.arange(part.size)] = 1.0
        rest -= spectrum.standardized_coefficients(design, np.ascontiguousarray(right[part].T))
        # Once more, since V is orthonormal only up to rounding errors.
        again = spectrum.project_rows(design, np.ascontiguousarray(rest.T))
        rest -= spectrum.standardized_coefficients(design, np.ascontiguousarray(again.T))
        square = np.einsum("ij,ij->j", rest, rest)
        lean = blas.product(right[part] ** 2, np.minimum(spectrum.lean, MOST)[:, None] ** 2)[:, 0]
        out[part] = np.where(square > CERTAIN**2 * lean, square, 0.0)
    return out
