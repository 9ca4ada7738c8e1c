"""Leave-one-out and generalised cross-validation from the rotation, O(n r) a penalty and target.

With h_i the leverage in the penalised fit, that of the unpenalised columns included, leaving row i out changes its
residual to e_i / (1 - h_i). Both are taken in the form that does not cancel as the penalty vanishes:

    e_i     = (what no coefficients can explain)_i + sum_j u_ij z_j f_j,    f_j = lambda / (s_j^2 + lambda)
    1 - h_i = (leverage of what is outside Z and X)_i + sum_j u_ij^2 f_j

Centring and scaling are those of all n rows, as in glmnet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.profile import complement
from pybayesridge.ridge.spectrum import Spectrum

ELEMENTS = 1 << 21
"""Most elements in a temporary array over rows x penalties x targets."""

FULL_LEVERAGE = 1e-12
"""Below this, what the unpenalised columns leave of a row's leverage is zero: they pass through its response."""

ROUNDING = 1e-14
"""A share of leverage outside Z and X that is smaller is a rounding error."""


@dataclass(frozen=True, slots=True)
class GridSearch:
    """Scores of a grid and its minimiser, for each target.

    Attributes
    ----------
    scores : (L, q) array
        Mean squared error, in units of each target's squared norm.
    best : (q,) int array
        Position of the smallest.
    edge : (q,) bool array
        Whether that is the first or the last.
    """

    scores: FloatArray
    best: IntArray
    edge: BoolArray


class FullLeverageError(ValueError):
    """A row that no other row says anything about; its position, or its label where there is one."""

    def __init__(self, row: Any) -> None:
        self.row = row
        super().__init__(
            f"row {row!r} is fitted exactly whatever its response is (leverage 1), so that leave-one-out is not "
            "defined: raise the smallest penalty, let its unpenalised columns be penalised, or use method='exact'"
        )


def left_rows(design: Design, spectrum: Spectrum) -> Iterator[tuple[slice, FloatArray]]:
    """Yield ``(rows, U[rows])`` for consecutive rows; U is not held whole by the Gram route."""
    if spectrum.left is not None:
        step = max(1, ELEMENTS // max(spectrum.rank, 1))
        for start in range(0, design.n, step):
            rows = slice(start, min(start + step, design.n))
            yield rows, spectrum.left[rows]
        return
    if spectrum.right is None or spectrum.rank == 0:
        yield slice(0, design.n), np.zeros((design.n, 0))
        return
    half = spectrum.right / (spectrum.s * spectrum.top)
    for rows, piece in design.row_pieces():
        yield rows, blas.product(piece, half)


def _outside(design: Design, spectrum: Spectrum, rows: slice, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What rows of the data keep outside Z and X: share of leverage (b,) and residual (b, q)."""
    if spectrum.rank == design.nu:
        return np.zeros(u.shape[0]), np.zeros((u.shape[0], design.q))
    share = 1.0 - (design.block.q[rows] ** 2).sum(axis=1) - (u**2).sum(axis=1)
    return np.where(share > ROUNDING, share, 0.0), design.y[rows] - blas.product(u, spectrum.z)


def _stuck(design: Design, rows: slice, left: FloatArray) -> BoolArray:
    """Rows that cannot be predicted from the others."""
    stuck: BoolArray = (left <= 0).any(axis=1) | ((design.block.q[rows] ** 2).sum(axis=1) >= 1.0 - FULL_LEVERAGE)
    return stuck


def loo_residuals(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Residuals of rows left out, on the user's scale and unweighted, (n, q), at each target's penalty.

    NaN where the leverage of a row is 1, so that it cannot be predicted from the others.
    """
    out = np.empty((design.n, design.q))
    f = complement(spectrum.s, log_t2)
    for rows, u in left_rows(design, spectrum):
        share, residual = _outside(design, spectrum, rows, u)
        error = residual + blas.product(u, f.T * spectrum.z)
        left = share[:, None] + blas.product(u**2, np.ascontiguousarray(f.T))
        stuck = _stuck(design, rows, left)
        left[stuck] = np.nan
        out[rows] = error / left
    if design.block.sqrt_w is not None:
        out /= design.block.sqrt_w[:, None]
    return out * design.y_norm


def leverages(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Leverage of each row in the penalised fit of each target, the unpenalised columns' included, (n, q)."""
    out = np.empty((design.n, design.q))
    f = np.ascontiguousarray(complement(spectrum.s, log_t2).T)
    for rows, u in left_rows(design, spectrum):
        share, _ = _outside(design, spectrum, rows, u)
        out[rows] = 1.0 - share[:, None] - blas.product(u**2, f)
    return out


def loo_scores(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Leave-one-out mean squared errors (weighted where the rows are), (L, q) for `log_t2` (L, q).

    In units of each target's squared norm. No array over rows, penalties and targets together is formed.

    Raises
    ------
    ValueError
        If a row has leverage 1 from the unpenalised columns alone.
    """
    points, q = log_t2.shape
    scores = np.zeros((points, q))
    same = q == 1 or bool((log_t2 == log_t2[:, :1]).all())
    for rows, u in left_rows(design, spectrum):
        share, residual = _outside(design, spectrum, rows, u)
        squares = u**2
        if same:
            f = complement(spectrum.s, log_t2[:, 0])
            left = share[:, None] + blas.product(squares, np.ascontiguousarray(f.T))
            _check_leverage(design, left, rows)
        for target in range(q):
            if not same:
                f = complement(spectrum.s, log_t2[:, target])
                left = share[:, None] + blas.product(squares, np.ascontiguousarray(f.T))
                _check_leverage(design, left, rows)
            error = residual[:, [target]] + blas.product(u, (f * spectrum.z[:, target]).T)
            error /= left
            scores[:, target] += np.einsum("il,il->l", error, error)
    return scores / design.n


def loo_curve(design: Design, spectrum: Spectrum, target: int, log_t2: FloatArray) -> FloatArray:
    """Leave-one-out mean squared error of one target over penalties (L,), on the user's scale, (L,).

    Raises
    ------
    ValueError
        If a row has leverage 1 from the unpenalised columns alone.
    """
    one = replace(design, y=design.y[:, [target]])
    rotated = replace(spectrum, z=spectrum.z[:, [target]], rss0=spectrum.rss0[[target]])
    return loo_scores(one, rotated, log_t2[:, None])[:, 0] * design.y_norm[target] ** 2


def _check_leverage(design: Design, left: FloatArray, rows: slice) -> None:
    stuck = np.flatnonzero(_stuck(design, rows, left))
    if stuck.size:
        raise FullLeverageError(rows.start + int(stuck[0]))


def gcv_scores(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Generalised cross-validation, ``(RSS / n) / (1 - tr(H) / n)^2``, (L, q), O(r) a penalty and target."""
    f = complement(spectrum.s, log_t2)
    left = (design.nu - spectrum.rank) + f.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        # Divided before they are squared: squares of small penalties would vanish.
        inside = np.einsum("ktj,jt->kt", (f / left[..., None]) ** 2, spectrum.z**2)
        outside = np.where(spectrum.rss0 > 0, spectrum.rss0 / left**2, 0.0)
        out: FloatArray = np.where(left > 0, (inside + outside) * design.n, np.inf)
    return out


def search(scores: FloatArray, penalties: FloatArray) -> GridSearch:
    """The minimiser of each column; among equal scores that of the largest penalty."""
    order = np.argsort(-penalties, axis=0, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=0)
    best = np.take_along_axis(order, ordered.argmin(axis=0)[None], axis=0)[0]
    at = np.take_along_axis(penalties, best[None], axis=0)[0]
    edge = (at == penalties.max(axis=0)) | (at == penalties.min(axis=0))
    return GridSearch(scores, best, edge & (penalties.shape[0] > 1))
