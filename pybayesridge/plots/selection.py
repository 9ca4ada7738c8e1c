"""Variable selection: inclusion probabilities, the number of included columns, the course of the iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.plots.frame import (
    BLUE,
    GREEN,
    GREY,
    MOST_MARKS,
    ORANGE,
    PURPLE,
    headline,
    height_for,
    labels,
    legend_below,
    name_rows,
    new_axes,
    spread_out,
    whole_numbers,
)
from pybayesridge.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 20
"""Most names above a picture of many columns."""

IMPROBABLE = 0.01
"""A picture with a row for each column leaves out columns with smaller inclusion probabilities."""

FEWEST_ROWS = 10
"""It shows the most probable of them where it would have fewer rows than this."""

SET_COLORS, SET_MARKERS = (ORANGE, GREEN, PURPLE), ("o", "D", "s", "^")
"""Of credible sets; the colours are those that are not used for other columns."""

MOST_SETS = 12
"""Credible sets in the legend."""

NO_SETS: Mapping[int, IntArray] = {}

MOST_BARS = 60
"""More bars are drawn as one outline."""


def rows_shown(probability: FloatArray) -> int:
    """How many columns a picture with a row for each shows."""
    return min(probability.size, max(int((probability >= IMPROBABLE).sum()), FEWEST_ROWS))


def inclusion_rows(
    names: Sequence[str],
    probability: FloatArray,
    threshold: float,
    *,
    title: str,
    sets: Mapping[int, IntArray] = NO_SETS,
    ax: Axes | None = None,
) -> Axes:
    """A row with a name and a line as long as its probability for each column; those of a set in its colour."""
    ax = new_axes(ax, height=height_for(len(names)))
    at = name_rows(ax, names)
    color = np.where(probability > threshold, BLUE, GREY).astype(object)
    alone = np.ones(probability.size, dtype=bool)
    for i, members in enumerate(sets.values()):
        color[members], alone[members] = SET_COLORS[i % len(SET_COLORS)], False
    ax.hlines(at, 0.0, probability, color=color.tolist(), linewidth=2.0)
    ax.scatter(probability[alone], at[alone], s=30, c=color[alone].tolist(), zorder=3)
    for i, (which, members) in enumerate(sets.items()):
        _mark_set(ax, i, which, probability[members], at[members])
    ax.axvline(threshold, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
    ax.set_xlim(-0.02, 1.03)
    ax.set_xlabel("inclusion probability")
    headline(ax, title)
    _name_sets(ax, sets)
    return ax


def _mark_set(ax: Axes, i: int, which: int, x: FloatArray, y: FloatArray) -> None:
    """Dots of the columns of the i-th set, whose form changes after each round of colours."""
    label = f"credible set {which}" if i < MOST_SETS else None
    marker = SET_MARKERS[i // len(SET_COLORS) % len(SET_MARKERS)]
    color = SET_COLORS[i % len(SET_COLORS)]
    ax.scatter(x, y, s=34, c=color, marker=marker, linewidths=0, zorder=4, label=label)


def _name_sets(ax: Axes, sets: Mapping[int, IntArray]) -> None:
    """Legend of the sets below the label of the axis."""
    if not sets:
        return
    more = len(sets) - MOST_SETS
    legend_below(ax, title=f"and {more:,} more sets" if more > 0 else None)


def inclusion_columns(
    names: Sequence[str],
    probability: FloatArray,
    threshold: float,
    *,
    title: str,
    sets: Mapping[int, IntArray] = NO_SETS,
    ax: Axes | None = None,
) -> Axes:
    """A dot for each column in the order of the columns, those of a set in its colour.

    The most probable above the threshold are named on top.
    """
    ax = new_axes(ax, width=9.0, height=5.0)
    at = np.arange(1, probability.size + 1, dtype=np.float64)
    chosen = probability > threshold
    many = probability.size > MOST_MARKS
    ax.scatter(at[~chosen], probability[~chosen], s=9, c=GREY, linewidths=0, rasterized=many)
    ax.scatter(at[chosen], probability[chosen], s=26, c=BLUE, linewidths=0)
    for i, (which, members) in enumerate(sets.items()):
        _mark_set(ax, i, which, at[members], probability[members])
    ax.axhline(threshold, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
    ax.set_xlim(0.0, probability.size + 1.0)
    ax.set_ylim(-0.02, 1.05)
    ax.set_xlabel("position of the column")
    ax.set_ylabel("inclusion probability")
    above = int(chosen.sum())
    if above > NAMED:
        title += f"\nnamed: {NAMED} of {above:,} above {threshold:g}"
    headline(ax, title)
    _name_sets(ax, sets)
    likely = np.argsort(-probability, kind="stable")[: min(NAMED, above)]
    likely.sort()
    if likely.size:
        # Names stand side by side above the frame; a thin line leads from each to its dot.
        width = probability.size + 1.0
        places = spread_out(at[likely], width / 28, 0.01 * width, 0.99 * width)
        top = ax.secondary_xaxis("top")
        top.set_xticks(places, labels([names[i] for i in likely], 24), rotation=60, ha="left", fontsize=8)
        top.tick_params(length=0, pad=1)
        for place, i in zip(places, likely, strict=True):
            ax.plot([place, at[i]], [1.05, probability[i]], color=GREY, linewidth=0.4, alpha=0.6, zorder=1)
    return ax


def sizes(probability: FloatArray, first: int, mean: float, *, title: str, ax: Axes | None = None) -> Axes:
    """Probabilities of consecutive numbers of included columns from `first` on, and their mean."""
    ax = new_axes(ax)
    at = np.arange(first, first + probability.size)
    if probability.size <= MOST_BARS:
        ax.bar(at, probability, width=0.8, color=BLUE)
    else:
        ax.stairs(probability, np.append(at, at[-1] + 1) - 0.5, fill=True, color=BLUE)
    ax.axvline(mean, color=ORANGE, linewidth=1.4, linestyle="--", label=f"mean {number(mean, 3)}")
    whole_numbers(ax)
    ax.set_xlim(at[0] - 1.0, max(at[-1], at[0] + 3) + 1.0)
    ax.set_xlabel("number of included columns (unpenalised ones not counted)")
    ax.set_ylabel("posterior probability")
    headline(ax, title)
    legend_below(ax)
    return ax


def trace(
    energy: FloatArray, descent_from: int | None, *, title: str, single: str = "", ax: Axes | None = None
) -> Axes:
    """The energy after each iteration, from `descent_from` on (counted from 0) that of the descent.

    `single` labels the point if there is only one; without points the picture says so.
    """
    ax = new_axes(ax)
    if energy.size == 0:
        ax.text(0.5, 0.5, "There was nothing to iterate.", ha="center", transform=ax.transAxes, fontsize=9)
        ax.set_axis_off()
        headline(ax, title)
        return ax
    at = np.arange(1, energy.size + 1)
    dot = "o" if energy.size <= 60 else ""
    ax.plot(at, energy, color=BLUE, linewidth=1.6, marker=dot, markersize=4)
    if descent_from is not None:
        ax.axvline(descent_from + 1, color=ORANGE, linewidth=1.4, linestyle="--", label="from here on it cannot rise")
    if energy.size == 1:
        ax.margins(y=0.5)
        ax.annotate(
            single,
            (1.0, float(energy[0])),
            xytext=(0, 24),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set_xlim(0.5, energy.size + 0.5)
    whole_numbers(ax)
    ax.set_xlabel("iteration")
    ax.set_ylabel("minus log evidence")
    if descent_from is not None:
        legend_below(ax)
    headline(ax, title)
    return ax
