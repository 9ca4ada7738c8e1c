"""Standard deviations and shares of bands, and the coefficients of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import BLUE, GREY, MOST_NAMES, headline, height_for, labels, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def caterpillar(
    names: Sequence[str],
    mean: FloatArray,
    interval: FloatArray,
    *,
    xlabel: str,
    interval_label: str,
    title: str,
    zero: bool,
    ax: Axes | None = None,
) -> Axes:
    """A point with its interval for each name, the first at the top.

    Parameters
    ----------
    names : sequence of str
    mean : (m,) array
    interval : (m, 2) array
    xlabel, interval_label, title : str
    zero : bool
        Whether to mark zero.
    ax : Axes, optional
    """
    ax = new_axes(ax, height=height_for(min(len(names), MOST_NAMES)))
    at = np.arange(len(names))[::-1]
    if zero:
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle="--")
    ax.hlines(at, interval[:, 0], interval[:, 1], colors=BLUE, linewidth=1.6, label=interval_label)
    ax.plot(mean, at, "o", color=BLUE, markersize=4, label="posterior mean")
    if len(names) <= MOST_NAMES:
        ax.set_yticks(at, labels(names))
    else:
        ax.set_yticks([])
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlabel(xlabel)
    legend_below(ax)
    headline(ax, title)
    return ax
