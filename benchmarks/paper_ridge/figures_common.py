"""Shared functions of the figures and tables of the ridge paper: colours, panels, slopes, tables of expectations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import arguments, clock, measured, peak_bytes, save, show_seconds, table, use_one_thread

__all__ = [
    "Style",
    "arguments",
    "claims",
    "clock",
    "local_slopes",
    "measured",
    "new_figure",
    "peak_bytes",
    "progress",
    "save",
    "save_figure",
    "show_seconds",
    "slope",
    "summary",
    "table",
    "timed",
    "use_one_thread",
    "verdict",
]

PACKAGES = ["pybayesridge", "numpy", "scipy", "matplotlib"]

BLUE, ORANGE, GREEN, PINK, GREY, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#595959", "#56B4E9"
"""Okabe and Ito's colours, told apart by readers of every kind of colour vision."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a series is drawn: never by colour alone."""

    label: str
    colour: str
    marker: str
    line: str = "-"

    def options(self) -> dict[str, Any]:
        """Keyword arguments for matplotlib's ``plot``."""
        return {
            "label": self.label,
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "markersize": 4.5,
            "linewidth": 1.5,
        }


def progress(items: Iterable[Any], label: str) -> Iterable[Any]:
    """A progress bar on stderr."""
    from tqdm import tqdm

    return tqdm(items, desc=label, file=sys.stderr, mininterval=1.0)


def new_figure(rows: int, columns: int, width: float, height: float, sharex: str | bool = False) -> tuple[Any, Any]:
    """A figure and its panels, (rows, columns), that needs no display."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e4e4e4",
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "legend.frameon": False,
        }
    )
    return plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained", sharex=sharex
    )


def save_figure(figure: Any, out: Path, name: str) -> str:
    """Write ``name.png`` into `out`; the line that shows it in a Markdown page."""
    import matplotlib.pyplot as plt

    out.mkdir(parents=True, exist_ok=True)
    # No software version in the file: it changes only where the picture does.
    figure.savefig(out / f"{name}.png", dpi=100, metadata={"Software": None})
    plt.close(figure)
    return f"![{name}]({name}.png)"


def slope(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Exponent e of ``cost = constant * size^e`` by least squares in logarithms, and its standard error.

    Raises
    ------
    ValueError
        For fewer than three points, or sizes or costs that are not positive.
    """
    if len(sizes) < 3 or len(sizes) != len(costs):
        raise ValueError(f"a slope needs three points or more, with a cost each; got {len(sizes)} and {len(costs)}")
    if min(*sizes, *costs) <= 0:
        raise ValueError("sizes and costs must be positive")
    l, c = np.log(sizes), np.log(costs)
    l = l - l.mean()
    e = float(l @ c / (l @ l))
    rest = c - c.mean() - e * l
    return e, float(np.sqrt(rest @ rest / (len(sizes) - 2) / (l @ l)))


def local_slopes(sizes: Sequence[float], costs: Sequence[float]) -> list[float]:
    """Exponents between neighbouring sizes."""
    return [float(v) for v in np.diff(np.log(costs)) / np.diff(np.log(sizes))]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean with its standard error, median and quartiles of what is finite, and how many values that is."""
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    if v.size == 0:
        return {"count": 0}
    quarter, median, three = np.quantile(v, [0.25, 0.5, 0.75])
    error = v.std(ddof=1) / np.sqrt(v.size) if v.size > 1 else np.nan
    return {
        "count": int(v.size),
        "mean": float(v.mean()),
        "se": float(error),
        "median": float(median),
        "q25": float(quarter),
        "q75": float(three),
    }


def claims(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of expectations: what is said, what was measured, whether that agrees."""
    head = ["expected", "measured", "agrees"]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * 3, *rows))


def verdict(agrees: bool) -> str:
    """The last column of a table of expectations."""
    return "yes" if agrees else "**no**"


def timed(function: Callable[[], Any], repetitions: int) -> float:
    """Least seconds of some repetitions after one to warm up: what else runs on the machine only adds."""
    function()
    seconds = []
    for _ in range(repetitions):
        start = clock()
        function()
        seconds.append(clock() - start)
    return min(seconds)
