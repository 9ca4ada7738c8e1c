"""Leave-one-out and generalised cross-validation from the rotation, O(n r) a penalty and target.

With h_i the leverage in the penalised fit, that of the unpenalised columns included, leaving row i out changes its
residual to e_i / (1 - h_i). Both are taken in the form that does not cancel as the penalty vanishes:

    e_i     = (what no coefficients can explain)_i + sum_j u_ij z_j f_j,    f_j = lambda / (s_j^2 + lambda)
    1 - h_i = (leverage of what is outside Z and X)_i + sum_j u_ij^2 f_j

Centring and scaling are those of all n rows, as in glmnet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.posterior.left_out import undetermined
from pybayesridge.ridge.profile import complement, node_blocks
from pybayesridge.ridge.rows import NEAR, orthonormal, row_pieces
from pybayesridge.ridge.spectrum import Spectrum


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


def _stuck(design: Design, rows: slice, slack: FloatArray) -> BoolArray:
    """Rows that cannot be predicted from the others."""
    stuck: BoolArray = (slack <= 0).any(axis=1) | undetermined((design.block.q[rows] ** 2).sum(axis=1))
    return stuck


def loo_residuals(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Residuals of rows left out, on the user's scale and unweighted, (n, q), at each target's penalty.

    NaN where the leverage of a row is 1, so that it cannot be predicted from the others.
    """
    out = np.empty((design.n, design.q))
    for part, some in design.parts():
        of_part, at = spectrum.of_targets(part), log_t2[part]
        residuals, least = _residuals(some, of_part, at)
        if least < NEAR:
            residuals, _ = _residuals(some, orthonormal(some, of_part), at)
        if design.block.sqrt_w is not None:
            residuals /= design.block.sqrt_w[:, None]
        np.multiply(residuals, some.y_norm, out=out[:, part])
    return out


def _residuals(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> tuple[FloatArray, float]:
    """Weighted residuals in units of each target's norm, (n, q), and the least slack, 1 less leverage, of a row."""
    out = np.empty((design.n, design.q))
    least = np.inf
    f = complement(spectrum.s, log_t2)
    for piece in row_pieces(design, spectrum):
        error = piece.residual + blas.product(piece.u, f.T * spectrum.z)
        slack = piece.share[:, None] + blas.product(piece.u**2, np.ascontiguousarray(f.T))
        least = min(least, float(slack.min(initial=np.inf)))
        slack[_stuck(design, piece.rows, slack)] = np.nan
        out[piece.rows] = error / slack
    return out, least


def leverages(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Leverage of each row in the penalised fit of each target, the unpenalised columns' included, (n, q)."""
    out = np.empty((design.n, design.q))
    for part, some in design.parts():
        f = np.ascontiguousarray(complement(spectrum.s, log_t2[part]).T)
        for piece in row_pieces(some, spectrum.of_targets(part)):
            out[piece.rows, part] = 1.0 - piece.share[:, None] - blas.product(piece.u**2, f)
    return out


def loo_scores(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Leave-one-out mean squared errors (weighted where the rows are), (L, q) for `log_t2` (L, q).

    In units of each target's squared norm. No array over rows, penalties and targets together is formed.

    Raises
    ------
    ValueError
        If a row has leverage 1 from the unpenalised columns alone.
    """
    found = []
    for part, some in design.parts():
        of_part, at = spectrum.of_targets(part), log_t2[:, part]
        scores, least = _scores(some, of_part, at)
        if least < NEAR:
            scores, _ = _scores(some, orthonormal(some, of_part), at)
        found.append(scores)
    return np.concatenate(found, axis=1)


def _scores(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> tuple[FloatArray, float]:
    """Scores, and the least slack, 1 less leverage, that any row has at any penalty."""
    points, q = log_t2.shape
    scores = np.zeros((points, q))
    least = np.inf
    same = _same_for_all(log_t2)
    for piece in row_pieces(design, spectrum):
        squares = piece.u**2
        for target in range(q):
            if target == 0 or not same:
                f = complement(spectrum.s, log_t2[:, target])
                slack = piece.share[:, None] + blas.product(squares, np.ascontiguousarray(f.T))
                _check_leverage(design, slack, piece.rows)
                least = min(least, float(slack.min(initial=np.inf)))
            error = piece.residual[:, [target]] + blas.product(piece.u, (f * spectrum.z[:, target]).T)
            error /= slack
            scores[:, target] += np.einsum("il,il->l", error, error)
    return scores / design.n, least


def _same_for_all(log_t2: FloatArray) -> bool:
    """Whether the penalties (L, q) of all targets are the same."""
    return log_t2.shape[1] == 1 or bool((log_t2 == log_t2[:, :1]).all())


def loo_curve(design: Design, spectrum: Spectrum, target: int, log_t2: FloatArray) -> FloatArray:
    """Leave-one-out mean squared error of one target over penalties (L,), on the user's scale, (L,).

    Raises
    ------
    ValueError
        If a row has leverage 1 from the unpenalised columns alone.
    """
    only = slice(target, target + 1)
    scores = loo_scores(design.of_targets(only).holding_targets(), spectrum.of_targets(only), log_t2[:, None])[:, 0]
    return scores * design.y_norm[target] ** 2


def _check_leverage(design: Design, slack: FloatArray, rows: slice) -> None:
    stuck = np.flatnonzero(_stuck(design, rows, slack))
    if stuck.size:
        raise FullLeverageError(rows.start + int(stuck[0]))


def gcv_scores(design: Design, spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Generalised cross-validation, ``(RSS / n) / (1 - tr(H) / n)^2``, (L, q), O(r) a penalty and target."""
    common = _same_for_all(log_t2)
    slack, inside = np.empty((len(log_t2), 1 if common else design.q)), np.empty(log_t2.shape)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for at in node_blocks(log_t2[:, :1] if common else log_t2, spectrum.rank):
            f = complement(spectrum.s, log_t2[at])
            slack[at] = (design.nu - spectrum.rank) + f.sum(axis=-1)
            # Divided before they are squared: squares of small penalties would vanish.
            share = (f / slack[at][..., None]) ** 2
            if common:
                inside[at[0]] = blas.product(share[:, 0], spectrum.z**2)
            else:
                inside[at] = np.einsum("ktj,jt->kt", share, spectrum.z[:, at[1]] ** 2)
        outside = np.where(spectrum.rss0 > 0, spectrum.rss0 / slack**2, 0.0)
        out: FloatArray = np.where(slack > 0, (inside + outside) * design.n, np.inf)
    return out


def search(scores: FloatArray, penalties: FloatArray) -> GridSearch:
    """The minimiser of each column; among equal scores that of the largest penalty."""
    order = np.argsort(-penalties, axis=0, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=0)
    best = np.take_along_axis(order, ordered.argmin(axis=0)[None], axis=0)[0]
    at = np.take_along_axis(penalties, best[None], axis=0)[0]
    edge = (at == penalties.max(axis=0)) | (at == penalties.min(axis=0))
    return GridSearch(scores, best, edge & (penalties.shape[0] > 1))
