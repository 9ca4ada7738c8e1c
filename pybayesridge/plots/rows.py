"""Observed against predicted values, and checks of the residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import BLUE, GREY, MOST_MARKS, ORANGE, headline, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 10
"""Fewer rows get no smooth line."""

SHARE = 2 / 3
"""Share of the rows that each point of the smooth line is drawn through."""


def _points(ax: Axes, x: FloatArray, y: FloatArray) -> None:
    faint = float(np.clip(15 / np.sqrt(max(x.size, 1)), 0.15, 0.8))
    ax.scatter(x, y, s=18, c=BLUE, alpha=faint, linewidths=0, rasterized=x.size > MOST_MARKS)


def fit(predicted: FloatArray, observed: FloatArray, *, xlabel: str, title: str, ax: Axes | None = None) -> Axes:
    """Observed over predicted values, and the line on which they are equal."""
    ax = new_axes(ax, width=5.5, height=5.0)
    _points(ax, predicted, observed)
    known = predicted[np.isfinite(predicted)]
    if known.size:
        ax.axline((float(np.median(known)),) * 2, slope=1.0, color=GREY, linewidth=1.2, linestyle="--", zorder=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("observed")
    headline(ax, title)
    return ax


def residuals(fitted: FloatArray, residual: FloatArray, *, ylabel: str, title: str, ax: Axes | None = None) -> Axes:
    """Residuals over fitted values with a smooth line, which should stay near zero."""
    ax = new_axes(ax)
    _points(ax, fitted, residual)
    ax.axhline(0.0, color=GREY, linewidth=1.2, linestyle="--", zorder=0)
    line = smooth(fitted, residual)
    if line is not None:
        ax.plot(line[:, 0], line[:, 1], color=ORANGE, linewidth=1.6, label="smooth (lowess)")
    ax.set_xlabel("fitted values")
    ax.set_ylabel(ylabel)
    if line is not None:
        legend_below(ax)
    headline(ax, title)
    return ax


def smooth(x: FloatArray, y: FloatArray) -> FloatArray | None:
    """Lowess, (m, 2) ascending; None where there is too little to smooth."""
    spread = float(np.ptp(x)) if x.size else 0.0
    if x.size < FEWEST or spread == 0 or np.unique(x).size < FEWEST or not np.isfinite(y).all():
        return None
    from statsmodels.nonparametric.smoothers_lowess import lowess

    with np.errstate(invalid="ignore", divide="ignore"):
        out = lowess(y, x, frac=SHARE, delta=0.01 * spread)
    out = out[np.isfinite(out).all(axis=1)]
    return out if len(out) else None


def normal_qq(residual: FloatArray, *, ylabel: str, title: str, ax: Axes | None = None) -> Axes:
    """Ordered residuals over normal quantiles, with the line through the quartiles."""
    ax = new_axes(ax, width=5.5, height=5.0)
    ordered = np.sort(residual)
    n = ordered.size
    offset = 3 / 8 if n <= 10 else 1 / 2
    normal = ndtri((np.arange(1, n + 1) - offset) / (n + 1 - 2 * offset))
    _points(ax, normal, ordered)
    if n > 1:
        low, high = np.quantile(ordered, [0.25, 0.75])
        q = float(ndtri(0.75))
        slope = float(high - low) / (2 * q)
        ax.axline((0.0, float(low + high) / 2), slope=slope, color=GREY, linewidth=1.2, linestyle="--", zorder=0)
    ax.set_xlabel("normal quantiles")
    ax.set_ylabel(ylabel)
    headline(ax, title)
    return ax
