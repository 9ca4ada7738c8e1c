"""Posterior predictive checks and probability integral transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import BLUE, GREY, ORANGE, headline, labels, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 512
"""Of a density."""

REACH = 4.0
"""Bandwidths that a density reaches beyond the values."""

BAND = 0.95
"""Probability of the band of a histogram of uniform values, and of intervals of numbers of rows."""

VALUE, BETWEEN, ROOM = 18, 2, 80
"""Letters of the longest name of a value below a rootogram, between two names, and of all of them together."""


def densities(observed: FloatArray, replicated: FloatArray, *, xlabel: str, title: str, ax: Axes | None) -> Axes:
    """Smoothed densities of the response (n,) and of replicated ones (m, n)."""
    ax = new_axes(ax)
    width = bandwidth(observed)
    low = min(float(observed.min()), float(replicated.min()))
    high = max(float(observed.max()), float(replicated.max()))
    ends = low - REACH * width, high + REACH * width
    for i, one in enumerate(replicated):
        at, density = smoothed(one, width, ends)
        ax.plot(at, density, color=BLUE, linewidth=0.7, alpha=0.3, label=None if i else "replicated")
    at, density = smoothed(observed, width, ends)
    ax.plot(at, density, color=ORANGE, linewidth=2.0, label="observed")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("density")
    legend_below(ax)
    headline(ax, title)
    return ax


def bandwidth(values: FloatArray) -> float:
    """Silverman's rule of thumb; positive also for values that are all alike."""
    low, high = np.quantile(values, [0.25, 0.75])
    spreads = [s for s in (float(np.std(values)), float(high - low) / 1.34) if s > 0]
    size = min(spreads) if spreads else max(float(np.abs(values).max(initial=0.0)), 1.0) * 0.1
    return float(0.9 * size * values.size**-0.2)


def smoothed(values: FloatArray, width: float, ends: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Points and kernel density estimates there, by a histogram with narrow bins."""
    count, edges = np.histogram(values, bins=POINTS, range=ends)
    step = float(edges[1] - edges[0])
    density = scipy.ndimage.gaussian_filter1d(count / (values.size * step), width / step, mode="constant")
    return (edges[1:] + edges[:-1]) / 2, density


def statistic(observed: float, replicated: FloatArray, *, xlabel: str, title: str, ax: Axes | None) -> Axes:
    """Histogram of a statistic of replicated responses (m,), and its observed value."""
    ax = new_axes(ax)
    bins = 30 if float(np.ptp(replicated)) > 0 else 1
    ax.hist(replicated, bins=bins, color=BLUE, alpha=0.5, label="replicated")
    ax.axvline(observed, color=ORANGE, linewidth=2.0, label="observed")
    ax.set_xlabel(xlabel)
    ax.set_ylabel("replicated responses")
    legend_below(ax)
    headline(ax, title)
    return ax


def rootogram(
    names: Sequence[str],
    observed: FloatArray,
    replicated: FloatArray,
    *,
    xlabel: str,
    title: str,
    ax: Axes | None,
) -> Axes:
    """Numbers of rows with each value (k,), and the intervals of those of replicated responses (m, k), as roots."""
    ax = new_axes(ax)
    at = np.arange(len(names))
    ax.bar(at, observed, width=0.9, color=ORANGE, alpha=0.5, label="observed")
    low, high = np.quantile(replicated, [(1 - BAND) / 2, (1 + BAND) / 2], axis=0)
    mean = replicated.mean(axis=0)
    ax.vlines(at, low, high, color=BLUE, linewidth=2.0, label=f"{100 * BAND:g} % of the replicated")
    ax.plot(at, mean, "o", color=BLUE, markersize=4.0, label="mean of the replicated")
    ax.set_yscale("function", functions=(lambda rows: np.sqrt(np.maximum(rows, 0.0)), np.square))
    ax.set_ylim(0.0, 1.05 * float(max(observed.max(), high.max())))
    texts = labels(names, VALUE)
    every = -(-(len(texts) * (max(map(len, texts)) + BETWEEN)) // ROOM)
    ax.set_xticks(at[::every], texts[::every])
    ax.set_xlabel(xlabel)
    ax.set_ylabel("rows (scale of square roots)")
    legend_below(ax)
    headline(ax, title)
    return ax


def uniform(values: FloatArray, bins: int, *, title: str, ax: Axes | None) -> Axes:
    """Histogram of values that should be uniform, with the band of the counts of bins if they are."""
    ax = new_axes(ax)
    n, share = values.size, 1.0 / bins
    low, high = scipy.stats.binom.ppf([(1 - BAND) / 2, (1 + BAND) / 2], n, share)
    ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0, label=f"{100 * BAND:g} % of uniform values")
    ax.axhline(n * share, color=GREY, linewidth=1.2, linestyle="--")
    ax.hist(values, bins=bins, range=(0.0, 1.0), color=BLUE, alpha=0.6, rwidth=0.96)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("probability integral transform (leave-one-out)")
    ax.set_ylabel("rows")
    legend_below(ax)
    headline(ax, title)
    return ax
