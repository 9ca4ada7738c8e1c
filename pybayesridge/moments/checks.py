"""Whether moments can be those of any rows: what is asked of them that were made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from pybayesridge._types import FloatArray
from pybayesridge.text import listed, number

if TYPE_CHECKING:
    from pybayesridge.moments.moments import Moments

ROUNDED = 1e-6
"""Moments that were printed with six decimals are off by so much, relative to the columns' sums of squares."""

NEGATIVE = 1e-9
"""A sum of squares below zero by this share of what a mean contributes is a rounding error."""


def check_entries(moments: Moments) -> None:
    """Refuse counts and sums that no rows have, at the cost of looking at each entry.

    Raises
    ------
    ValueError
        Naming the field and the column.
    """
    if isinstance(moments.n, bool) or int(moments.n) != moments.n:
        raise ValueError(f"n must be a whole number of rows, not {moments.n!r}")
    if not np.isfinite(moments.log_weight_sum):
        raise ValueError(f"log_weight_sum must be finite, not {moments.log_weight_sum!r}")
    sums: list[tuple[str, str, FloatArray, FloatArray, tuple[str, ...]]] = [
        ("xx", "column", np.diag(moments.xx), moments.x_mean, moments.columns),
        ("yy", "target", moments.yy, moments.y_mean, moments.targets),
    ]
    for field, what, squares, mean, names in sums:
        with np.errstate(over="ignore"):
            bad = squares < -NEGATIVE * moments.weight_sum * mean**2
        if bad.any():
            raise ValueError(
                f"{field} has a negative sum of squares for {what}(s) {listed(np.array(names)[bad].tolist())}: a "
                "variance cannot be negative"
            )
    size = _size(np.diag(moments.xx))
    gap = np.abs(moments.xx - moments.xx.T) / size / size[:, None]
    if gap.max(initial=0.0) > ROUNDED:
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        raise ValueError(
            f"xx is not symmetric: of {moments.columns[i]!r} and {moments.columns[j]!r} it has "
            f"{moments.xx[i, j]:.6g} and {moments.xx[j, i]:.6g}"
        )


def check_definite(moments: Moments) -> None:
    """Refuse cross-products by which a combination of columns has a negative variance, or explains more than all.

    Raises
    ------
    ValueError
        Naming columns or the target.
    """
    names = np.array(moments.columns, dtype=object)
    size, unit = _size(np.diag(moments.xx)), _size(moments.yy)
    r = moments.xx / size / size[:, None]
    marginal = moments.xy / size[:, None] / unit
    try:
        root = cholesky(r + ROUNDED * np.eye(len(r)), lower=True, check_finite=False)
    except LinAlgError:
        values, vectors = eigh(r, check_finite=False)
        worst = np.argsort(-np.abs(vectors[:, 0]))[:3]
        raise ValueError(
            f"xx is not that of any rows: a combination of columns has a negative variance (eigenvalue "
            f"{number(values[0], 3)} of their correlations), most of all of {listed(names[worst].tolist())}; compute "
            "all entries from the same rows"
        ) from None
    half = solve_triangular(root, marginal, lower=True, check_finite=False)
    share = (half**2).sum(axis=0)
    if share.max(initial=0.0) > 1 + ROUNDED:
        at = int(share.argmax())
        percent = number(100 * share[at])
        raise ValueError(
            f"xx, xy and yy are not those of any rows: together the columns would explain {percent} % of "
            f"the variation of {moments.targets[at]!r}; compute all of them from the same rows"
        )


def _size(squares: FloatArray) -> FloatArray:
    out: FloatArray = np.sqrt(np.where(squares > 0, squares, 1.0))
    return out
