"""Predictions over the values of one variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import BLUE, GREY, MOST_MARKS, headline, labels, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RUG = 0.025
"""Height of the marks of a rug, as a share of the picture's."""


def curve(
    x: FloatArray,
    mean: FloatArray,
    interval: FloatArray,
    rug: FloatArray,
    *,
    xlabel: str,
    ylabel: str,
    interval_label: str,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """A curve with its band, and below it a mark for each value in the data.

    Parameters
    ----------
    x, mean : (m,) arrays
    interval : (m, 2) array
    rug : (n,) array
        Empty for none.
    xlabel, ylabel, interval_label, title : str
    ax : Axes, optional
    """
    ax = new_axes(ax)
    ax.fill_between(x, interval[:, 0], interval[:, 1], color=BLUE, alpha=0.18, linewidth=0, label=interval_label)
    ax.plot(x, mean, color=BLUE, linewidth=1.8, label="posterior mean")
    if rug.size:
        ax.vlines(
            np.unique(rug),
            0.0,
            RUG,
            transform=ax.get_xaxis_transform(),
            colors=GREY,
            linewidths=0.8,
            alpha=0.7,
            rasterized=rug.size > MOST_MARKS,
        )
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    legend_below(ax)
    headline(ax, title)
    return ax


def levels(
    names: Sequence[str],
    mean: FloatArray,
    interval: FloatArray,
    *,
    xlabel: str,
    ylabel: str,
    interval_label: str,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """A point with its interval for each level of a factor.

    Parameters
    ----------
    names : sequence of str
    mean : (m,) array
    interval : (m, 2) array
    xlabel, ylabel, interval_label, title : str
    ax : Axes, optional
    """
    ax = new_axes(ax)
    at = np.arange(len(names), dtype=np.float64)
    ax.vlines(at, interval[:, 0], interval[:, 1], colors=BLUE, linewidths=2.2, alpha=0.5, label=interval_label)
    ax.plot(at, mean, "o", color=BLUE, markersize=6, label="posterior mean")
    ax.set_xticks(at, labels(names), fontsize=9)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    legend_below(ax)
    headline(ax, title)
    return ax
