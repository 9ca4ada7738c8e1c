"""The ridge penalty: its posterior, and the coefficients along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import (
    BLUE,
    CYCLE,
    GREY,
    MOST_MARKS,
    ORANGE,
    STYLES,
    headline,
    labels,
    legend_below,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


def posterior(
    penalty: FloatArray,
    density: FloatArray,
    interval: FloatArray,
    chosen: float,
    *,
    chosen_label: str,
    interval_label: str,
    scores: tuple[FloatArray, FloatArray, str] | None,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Posterior density of log10 lambda, the penalty in use, and a cross-validation curve on a second axis.

    Parameters
    ----------
    penalty, density : (m,) arrays
        The penalties ascending, the density with respect to their log10.
    interval : (2,) array
        Shaded.
    chosen : float
        Marked where it is finite and positive.
    chosen_label, interval_label : str
    scores : (penalties, scores, name) or None
    title : str
    ax : Axes, optional
    """
    ax = new_axes(ax)
    ax.set_xscale("log")
    ax.plot(penalty, density, color=BLUE, linewidth=1.8, label="posterior density")
    inside = (penalty >= interval[0]) & (penalty <= interval[1])
    x = np.concatenate([interval[:1], penalty[inside], interval[1:]])
    height = np.interp(np.log(x), np.log(penalty), density)
    ax.fill_between(x, height, color=BLUE, alpha=0.18, linewidth=0, label=interval_label)
    marked = np.isfinite(chosen) and chosen > 0
    low, high = penalty[0], penalty[-1]
    if marked:
        ax.axvline(chosen, color=GREY, linewidth=1.4, linestyle="--", label=chosen_label)
        low, high = min(low, chosen / 2), max(high, chosen * 2)
    else:
        ax.plot([], [], " ", label=chosen_label)
    ax.set_xlim(low, high)
    ax.set_ylim(bottom=0.0)
    _plain_ticks(ax, low, high)
    ax.set_xlabel("lambda")
    ax.set_ylabel("density of log10 lambda")
    headline(ax, title)
    handles, texts = ax.get_legend_handles_labels()
    if scores is not None:
        handles, texts = _second_axis(ax, *scores, low, high, handles, texts)
    legend_below(ax, (handles, texts))
    return ax


def _plain_ticks(ax: Axes, low: float, high: float) -> None:
    """Plain numbers on a logarithmic axis of less than two decades, where powers of ten are too few."""
    if high / low >= 100:
        return
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _second_axis(
    ax: Axes,
    at: FloatArray,
    scores: FloatArray,
    name: str,
    low: float,
    high: float,
    handles: list[Artist],
    texts: list[str],
) -> tuple[list[Artist], list[str]]:
    twin = ax.twinx()
    twin.spines["right"].set_visible(True)
    visible = (at >= low) & (at <= high) & np.isfinite(scores)
    marker = "." if visible.sum() < 20 else ""
    line = twin.plot(at[visible], scores[visible], color=ORANGE, linewidth=1.4, linestyle="-.", marker=marker)
    twin.set_ylabel(name)
    twin.set_xlim(low, high)
    return [*handles, line[0]], [*texts, name]


def path(
    penalty: FloatArray,
    coefficients: FloatArray,
    names: Sequence[str],
    named: Sequence[int],
    chosen: float,
    *,
    chosen_label: str,
    ylabel: str,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Coefficients over the penalty: a few coloured and named, the others grey.

    Parameters
    ----------
    penalty : (L,) array
        Ascending.
    coefficients : (m, L) array
    names : sequence of m str
    named : sequence of int
        Rows of `coefficients` in colour, in the order of the legend.
    chosen : float
        Marked where it is finite and positive.
    chosen_label, ylabel, title : str
    ax : Axes, optional
    """
    ax = new_axes(ax, width=8.0)
    ax.set_xscale("log")
    others = np.setdiff1d(np.arange(len(names)), named)
    many = others.size * penalty.size > 20 * MOST_MARKS
    if others.size:
        faint = float(np.clip(20 / others.size, 0.15, 0.6))
        ax.plot(penalty, coefficients[others].T, color=GREY, linewidth=0.7, alpha=faint, rasterized=many)
    text = labels([names[row] for row in named], 26)
    for i, row in enumerate(named):
        color, style = CYCLE[i % len(CYCLE)], STYLES[i // len(CYCLE) % len(STYLES)]
        ax.plot(penalty, coefficients[row], style, color=color, linewidth=1.6, label=text[i])
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    if np.isfinite(chosen) and chosen > 0:
        ax.axvline(chosen, color=GREY, linewidth=1.4, linestyle="--", label=chosen_label)
    ax.set_xlim(penalty[0], penalty[-1])
    ax.set_xlabel("lambda")
    ax.set_ylabel(ylabel)
    headline(ax, title)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    return ax
