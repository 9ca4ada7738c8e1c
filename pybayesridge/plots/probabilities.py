"""How predicted probabilities agree with outcomes: calibration and ROC curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import BLUE, GREY, headline, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibration(
    predicted: FloatArray,
    observed: FloatArray,
    interval: FloatArray,
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    ax: Axes | None,
) -> Axes:
    """Observed shares with intervals (m, 2) over mean predicted probabilities of bins."""
    ax = new_axes(ax, width=5.5, height=5.0)
    _diagonal(ax)
    ax.vlines(predicted, interval[:, 0], interval[:, 1], color=BLUE, linewidth=1.4, alpha=0.6)
    ax.plot(predicted, observed, color=BLUE, marker="o", markersize=4.5, linewidth=1.2)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    headline(ax, title)
    return ax


def roc(false_positive: FloatArray, true_positive: FloatArray, *, title: str, ax: Axes | None) -> Axes:
    """Share of events above a threshold over the share of non-events above it."""
    ax = new_axes(ax, width=5.5, height=5.0)
    _diagonal(ax)
    ax.plot(false_positive, true_positive, color=BLUE, linewidth=1.6)
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("true positive rate")
    headline(ax, title)
    return ax


def _diagonal(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.2, linestyle="--", zorder=0)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
