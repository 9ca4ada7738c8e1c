"""Grids of penalties for cross-validation."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.spectrum import Spectrum

POINTS = 100


def make_grid(grid: str | ArrayLike | None, design: Design, spectrum: Spectrum) -> FloatArray:
    """Penalties on the user's (standardised) scale, (L, q): one column for each target.

    Parameters
    ----------
    grid : {"fixed", "glmnet"} or array-like
        ``"fixed"``: 1e10 … 1e-10, 100 points. ``"glmnet"``: see :func:`glmnet_grid`. Or penalties of the user's.
    design : Design
    spectrum : Spectrum

    Raises
    ------
    ValueError
        For anything else, or penalties that are negative, not finite, or zero where the columns are dependent.
    """
    if isinstance(grid, str):
        if grid == "fixed":
            column = np.logspace(10, -10, POINTS)
        elif grid == "glmnet":
            return glmnet_grid(design, spectrum)
        else:
            raise ValueError(f"grid must be 'fixed', 'glmnet' or an array of penalties, not {grid!r}")
    else:
        try:
            column = np.atleast_1d(np.asarray(grid, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"grid must be 'fixed', 'glmnet' or an array of penalties, not {grid!r}") from None
        if column.ndim != 1 or column.size == 0:
            raise ValueError(f"grid must be one-dimensional and not empty; it has shape {column.shape}")
        bad = np.flatnonzero(~(np.isfinite(column) & (column >= 0)))
        if bad.size:
            value = float(column[bad[0]])
            raise ValueError(f"grid values must be finite and not negative, but grid[{bad[0]}] is {value}")
        if (column == 0).any() and spectrum.rank < design.p:
            raise ValueError("grid has a penalty of 0, but the columns are not linearly independent")
    return np.repeat(column[:, None], design.q, axis=1)


def glmnet_grid(design: Design, spectrum: Spectrum) -> FloatArray:
    """The 100 penalties that glmnet would try for ``alpha = 0``, as penalties of the sum of squares, (100, q).

    glmnet starts at ``max_j |x_j'y| / (0.001 n)`` (of columns and response scaled by their 1/n standard
    deviations) and falls to a share of it of 1e-4 where n >= p and 1e-2 elsewhere. Its lambda, in the units of y, is
    ``sd(y) / n`` times the ridge penalty.
    """
    gradient = spectrum.standardized_coefficients(design, spectrum.s[:, None] * spectrum.z * spectrum.top)
    top = np.abs(gradient).max(axis=0, initial=0.0) * np.sqrt(design.n) / 0.001 * design.common_scale**2
    top[top == 0] = 1.0
    columns = design.x.shape[1] - int(design.constant_serves)
    floor = 1e-4 if design.n >= columns else 1e-2
    return top * np.logspace(0, np.log10(floor), POINTS)[:, None]
