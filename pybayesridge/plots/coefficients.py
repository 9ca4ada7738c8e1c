"""Coefficients with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import (
    BLUE,
    GREY,
    MOST_MARKS,
    MOST_NAMES,
    clipped,
    headline,
    height_for,
    name_rows,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def intervals(
    names: Sequence[str], middle: FloatArray, ends: FloatArray, *, xlabel: str, title: str, ax: Axes | None = None
) -> Axes:
    """A row with a name, a dot and an interval for each coefficient; unnamed columns where there are very many.

    Parameters
    ----------
    names : sequence of str
    middle : (m,) array
    ends : (m, 2) array
    xlabel, title : str
    ax : Axes, optional
    """
    ends = clipped(ends, middle)
    if len(names) > MOST_NAMES:
        return _columns(middle, ends, ylabel=xlabel, title=title, ax=ax)
    ax = new_axes(ax, height=height_for(len(names)))
    at = name_rows(ax, names)
    ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(at, ends[:, 0], ends[:, 1], color=BLUE, linewidth=1.6)
    ax.plot(middle, at, "o", color=BLUE, markersize=5)
    ax.set_xlabel(xlabel)
    headline(ax, title)
    return ax


def _columns(middle: FloatArray, ends: FloatArray, *, ylabel: str, title: str, ax: Axes | None) -> Axes:
    """An upright interval for each coefficient, in the order of the columns."""
    ax = new_axes(ax, width=9.0)
    at = np.arange(1, middle.size + 1, dtype=np.float64)
    many = middle.size > MOST_MARKS
    ax.vlines(at, ends[:, 0], ends[:, 1], color=BLUE, linewidth=0.6, alpha=0.35, rasterized=many)
    ax.plot(at, middle, ".", color=BLUE, markersize=3, rasterized=many)
    ax.axhline(0.0, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    ax.set_xlim(0, middle.size + 1)
    ax.set_xlabel("position of the column")
    ax.set_ylabel(ylabel)
    headline(ax, title)
    return ax


def given_inclusion(
    names: Sequence[str],
    middle: FloatArray,
    ends: FloatArray,
    probability: FloatArray,
    *,
    xlabel: str,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """As :func:`intervals`, the darker and larger the likelier the coefficient is in; its probability at the right.

    Parameters
    ----------
    names : sequence of str
    middle : (m,) array
        Given that the coefficient is in.
    ends : (m, 2) array
        Likewise.
    probability : (m,) array
        Inclusion probabilities.
    xlabel, title : str
    ax : Axes, optional
    """
    ends = clipped(ends, middle)
    named = len(names) <= MOST_NAMES
    ax = new_axes(ax, height=height_for(len(names))) if named else new_axes(ax, width=9.0)
    from matplotlib.colors import to_rgba

    shade = [to_rgba(BLUE, min(0.25 + 0.75 * float(p), 1.0)) for p in probability]
    size = 14 + 36 * probability
    if named:
        at = name_rows(ax, names)
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
        ax.hlines(at, ends[:, 0], ends[:, 1], color=shade, linewidth=1.6)
        ax.scatter(middle, at, s=size, c=shade)
        right = ax.secondary_yaxis("right")
        right.set_yticks(at, [f"{p:.2f}" for p in probability], fontsize=8)
        right.tick_params(length=0)
        right.set_ylabel("inclusion probability")
        ax.set_xlabel(xlabel)
    else:
        at = np.arange(1, middle.size + 1, dtype=np.float64)
        many = middle.size > MOST_MARKS
        ax.vlines(at, ends[:, 0], ends[:, 1], color=shade, linewidth=0.6, rasterized=many)
        ax.scatter(at, middle, s=size / 3, c=shade, linewidths=0, rasterized=many)
        ax.axhline(0.0, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
        ax.set_xlim(0, middle.size + 1)
        ax.set_xlabel("position of the column")
        ax.set_ylabel(xlabel)
    headline(ax, title)
    return ax
