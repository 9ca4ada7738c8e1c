"""Summary statistics of marginal regressions and a correlation matrix → the moments of the rows behind them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.linalg import eigh

from pybayesridge._types import ArrayLike, BoolArray, FloatArray, TableLike
from pybayesridge.data.arrays import as_column_names
from pybayesridge.exceptions import InconsistentSummaryWarning
from pybayesridge.text import listed, number

ROUNDED = 1e-6
"""Entries of a correlation matrix may be off by this much: single precision, six decimals."""

NULL = 1e-10
"""Eigenvalues of a correlation matrix at most this share of the largest count as zero."""

FAR = 5.0
"""A z score this many conditional standard deviations from what the others say contradicts them ..."""

NEAR = 3.0
"""... where its opposite is this near: its sign is wrong, rather than its effect its own."""

NUGGET = 1e-3
"""Added to the diagonal of R for that comparison, so that rounding in R does not decide it."""


@dataclass(frozen=True, slots=True)
class SummaryMoments:
    """Cross-products of centred columns (p of them) and response.

    Attributes
    ----------
    names : list of str
    xx : (p, p) array
    xy : (p,) array
    yy : float
    """

    names: list[str]
    xx: FloatArray
    xy: FloatArray
    yy: float


def moments_of_summary(
    correlation: TableLike,
    z: ArrayLike | None,
    *,
    n: int,
    estimates: ArrayLike | None,
    se: ArrayLike | None,
    var_y: float | None,
    names: Sequence[str] | None,
    shrink: float,
) -> SummaryMoments:
    """Check summary statistics and make moments of them; see :meth:`pybayesridge.Moments.from_summary`.

    In a regression on one column with an intercept ``r^2 = z^2 / (z^2 + n - 2)``, so that z gives the correlation
    r with the response; with ``S_yy = (n - 1) var_y`` the standard error gives the column's sum of squares,
    ``S_jj = S_yy / (se^2 (z^2 + n - 2))``.
    """
    r, labels = _correlation_matrix(correlation, names)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 3:
        raise ValueError(f"n must be an integer of at least 3, not {n!r}")
    scores, errors = _z_scores(z, estimates, se, labels)
    if var_y is not None and not (np.isfinite(var_y) and var_y > 0):
        raise ValueError(f"var_y must be positive and finite, not {var_y!r}")
    if var_y is not None and errors is None:
        raise ValueError("var_y requires estimates and se: z scores have no units")
    if not 0 <= shrink <= 1:
        raise ValueError(f"shrink must lie between 0 and 1, not {shrink!r}")
    if shrink > 0:
        r = (1.0 - shrink) * r
        np.fill_diagonal(r, 1.0)
    values, vectors = eigh(r)
    _check_positive(values, vectors, labels)
    marginal = scores / np.sqrt(scores**2 + (n - 2))
    swapped = _named(_wrong_signs(values, vectors, marginal, n), labels)
    _check_explained(values, vectors, marginal, labels, swapped)
    if swapped:
        warnings.warn(_about_signs(swapped), InconsistentSummaryWarning, stacklevel=3)
    yy = float(n - 1) * (1.0 if var_y is None else float(var_y))
    if var_y is None or errors is None:
        size = np.full(len(labels), np.sqrt(n - 1.0))
    else:
        size = np.sqrt(yy / (scores**2 + (n - 2))) / errors
    return SummaryMoments(labels, r * np.outer(size, size), marginal * size * np.sqrt(yy), yy)


def _correlation_matrix(correlation: TableLike, names: Sequence[str] | None) -> tuple[FloatArray, list[str]]:
    given = None
    if isinstance(correlation, pd.DataFrame):
        given = as_column_names(correlation.columns)
        rows = [str(name) for name in correlation.index]
        if not isinstance(correlation.index, pd.RangeIndex) and rows != given:
            raise ValueError("the rows and columns of correlation have different names, or another order")
    try:
        r = np.array(correlation, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"correlation cannot be made an array of numbers: {error}") from error
    if r.ndim != 2 or r.shape[0] != r.shape[1] or r.size == 0:
        raise ValueError(f"correlation must be a square matrix, got shape {r.shape}")
    p = r.shape[0]
    labels = as_column_names(names) if names is not None else given or [f"x{i}" for i in range(1, p + 1)]
    if len(labels) != p:
        raise ValueError(f"there are {len(labels)} names for {p} columns of correlation")
    bad = ~np.isfinite(r)
    if bad.any():
        raise ValueError(f"correlation has values that are not finite, of {listed(_named(bad.any(axis=0), labels))}")
    gap = np.abs(r - r.T)
    i, j = np.unravel_index(gap.argmax(), gap.shape)
    if gap[i, j] > ROUNDED:
        raise ValueError(
            f"correlation is not symmetric: between {labels[i]!r} and {labels[j]!r} it is {r[i, j]:.6g} and "
            f"{r[j, i]:.6g}"
        )
    off = np.abs(np.diag(r) - 1.0) > ROUNDED
    if off.any():
        at = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"the diagonal of correlation is not 1 for {listed(_named(off, labels))} (the first is {r[at, at]:.6g}): "
            "divide a covariance by the standard deviations, and leave out columns that do not vary"
        )
    r = 0.5 * (r + r.T)
    np.fill_diagonal(r, 1.0)
    beyond = np.abs(r) > 1.0 + ROUNDED
    if beyond.any():
        raise ValueError(f"correlation has entries beyond 1, of {listed(_named(beyond.any(axis=0), labels))}")
    return r, labels


def _named(mask: ArrayLike, labels: list[str]) -> list[str]:
    return [labels[i] for i in np.flatnonzero(mask)]


def _z_scores(
    z: ArrayLike | None, estimates: ArrayLike | None, se: ArrayLike | None, labels: list[str]
) -> tuple[FloatArray, FloatArray | None]:
    if (z is None) == (estimates is None and se is None):
        raise ValueError("give either z, or estimates and se")
    if z is not None:
        return _vector(z, "z", labels), None
    if estimates is None or se is None:
        raise ValueError("estimates and se must be given together")
    errors = _vector(se, "se", labels)
    if (errors <= 0).any():
        raise ValueError(f"se must be positive; that of {listed(_named(errors <= 0, labels))} is not")
    return _vector(estimates, "estimates", labels) / errors, errors


def _vector(values: ArrayLike, what: str, labels: list[str]) -> FloatArray:
    if isinstance(values, pd.Series) and not isinstance(values.index, pd.RangeIndex):
        given = [str(name) for name in values.index]
        if given != labels:
            raise ValueError(f"the labels of {what} and correlation differ in name or order: align them")
    out = np.asarray(values, dtype=np.float64)
    if out.shape != (len(labels),):
        raise ValueError(f"{what} has shape {out.shape} for {len(labels)} columns of correlation")
    bad = ~np.isfinite(out)
    if bad.any():
        raise ValueError(f"{what} is not finite for {listed(_named(bad, labels))}: leave those out")
    return out


def _check_positive(values: FloatArray, vectors: FloatArray, labels: list[str]) -> None:
    if values[0] < -ROUNDED * values[-1]:
        worst = listed([labels[i] for i in np.argsort(-np.abs(vectors[:, 0]))[:3]])
        raise ValueError(
            f"correlation has a negative eigenvalue ({number(values[0], 3)}), so that no data have it; the columns "
            f"most in its direction are {worst}: compute all entries from the same rows, or use "
            f"shrink={min(1.0, 2 * -values[0] / (1 - values[0])):.2g}"
        )


def _about_signs(swapped: list[str]) -> str:
    return (
        f"z of {listed(swapped)} is far from what the other columns say, and its opposite is not: check which allele "
        "(which direction) it counts"
    )


def _check_explained(
    values: FloatArray, vectors: FloatArray, marginal: FloatArray, labels: list[str], swapped: list[str]
) -> None:
    """The share of variance explained by all columns, r'R^-1 r, cannot exceed 1."""
    rotated = vectors.T @ marginal
    null = values <= NULL * values[-1]
    stray = vectors[:, null] @ rotated[null]
    share = float((rotated[~null] ** 2 / values[~null]).sum())
    hint = f"; {_about_signs(swapped)}" if swapped else ""
    # In exact arithmetic r has nothing outside R's span; what six decimals leave there is not evidence of much.
    if np.abs(stray).max(initial=0.0) > ROUNDED * max(np.abs(marginal).max(), ROUNDED) * len(labels):
        worst = np.argsort(-np.abs(stray))[:3]
        raise ValueError(
            "the z scores contradict the correlations: columns that are combinations of others by R are not by z; "
            f"most of all {listed([labels[i] for i in worst])}: use the R of the same rows, or shrink=0.01{hint}"
        )
    if share > 1.0 + ROUNDED:
        gain = np.abs(marginal * (vectors[:, ~null] @ (rotated[~null] / values[~null])))
        most = listed([labels[i] for i in np.argsort(-gain)[:3]])
        raise ValueError(
            f"the z scores contradict the correlations: together the columns would explain {number(100 * share)} % "
            f"of the variance of the response; most of all {most}: use the R of the "
            f"same rows and the n of the regressions, or shrink=0.01{hint}"
        )


def _wrong_signs(values: FloatArray, vectors: FloatArray, marginal: FloatArray, n: int) -> BoolArray:
    """Scores far from their expectation given the others, under R, whose opposites are near it."""
    # z of a response standardised by its own standard deviation is N(., R).
    score = marginal * np.sqrt(n)
    precision = np.maximum(values, 0.0) + NUGGET
    diagonal = np.einsum("ij,j,ij->i", vectors, 1.0 / precision, vectors)
    pull = vectors @ ((vectors.T @ score) / precision)
    sd = 1.0 / np.sqrt(diagonal)
    expected = score - pull / diagonal
    odd: BoolArray = (np.abs(score - expected) > FAR * sd) & (np.abs(score + expected) < NEAR * sd)
    return odd
