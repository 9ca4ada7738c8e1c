"""Shared by every picture: axes, colours, labels, and which coefficients are shown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#b5578f"
"""Told apart by readers who confuse red and green, and on white as well as on black paper."""

GREY = "#808080"
"""Readable on white as well as on black."""

CYCLE = (BLUE, ORANGE, GREEN, PURPLE)
STYLES = ("-", "--", ":")
"""A line's colour and dashes: twelve that differ without colour, too, after every fourth."""

LONGEST_NAME = 40
"""Longer names are shortened in the middle."""

NEAR = 8
"""So many characters a shortened name may lose in addition, so that no word of it is cut."""

BELOW = 0.55
"""Inches between the axes and a legend below them: the room of ticks and label."""

MOST_ENTRIES, SYMBOL, ENTRY_PER_INCH = 4, 0.6, 12.0
"""Entries of a legend side by side, inches of an entry without its text, and how many characters go into an inch."""

HEAD = 6
"""Characters that names keep of what they have in common."""

TITLE_SIZE, TITLE_PER_INCH, LEAST_TITLE = 11, 11.0, 24
"""Size of a title in points, how many characters go into an inch of it, and the shortest line."""

MOST_NAMES = 60
"""A picture of more coefficients has no room for their names."""

MOST_MARKS = 2000
"""More marks are drawn as pixels in vector formats, so that files stay small."""


def new_axes(ax: Axes | None, width: float = 7.0, height: float = 4.5) -> Axes:
    """The Axes to draw on: the caller's, or a new figure's in inches."""
    if ax is not None:
        if not (hasattr(ax, "plot") and hasattr(ax, "set_xlabel")):
            raise ValueError(f"ax must be a matplotlib Axes, not {type(ax).__name__}")
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'pybayesridge[plot]'") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def height_for(rows: int) -> float:
    """Height in inches of a figure with a row for each name."""
    return 1.5 + 0.24 * max(rows, 4)


def label(name: str, longest: int = LONGEST_NAME) -> str:
    """A name as text: on one line, without mathematics, shortened in the middle where it is long."""
    return _shortened(" ".join(str(name).split()), longest).replace("$", r"\$")


def labels(names: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Names as :func:`label` writes them; those it would write alike show where they differ."""
    flat = [" ".join(str(name).split()) for name in names]
    out = [_shortened(name, longest) for name in flat]
    alike: dict[str, list[int]] = {}
    for i, text in enumerate(out):
        alike.setdefault(text, []).append(i)
    for group in alike.values():
        if len(group) > 1:
            for i, text in zip(group, _told_apart([flat[i] for i in group], longest), strict=True):
                out[i] = text
    return [text.replace("$", r"\$") for text in out]


def _shortened(text: str, longest: int) -> str:
    """Beginning and end of a long text, cut between words where one ends nearby."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    head = _whole_words(text[: longest - 1 - tail], text[longest - 1 - tail])
    end = _whole_words(text[-tail:][::-1], text[-tail - 1])[::-1]
    return f"{head}…{end}"


def _whole_words(kept: str, following: str) -> str:
    """What is kept of a text without the beginning of a word that goes on after it, if that is short."""
    if not (kept[-1].isalnum() and following.isalnum()):
        return kept
    whole = re.sub(r"[^\W_]+$", "", kept)
    return whole if whole and len(kept) - len(whole) <= NEAR else kept


def _alike(names: list[str]) -> int:
    """How many characters all begin with."""
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))


def _told_apart(names: list[str], longest: int) -> list[str]:
    """Long names as a common beginning and what differs; numbered where what differs is too long to show."""
    start = _alike(names)
    end = _alike([name[start:][::-1] for name in names])
    room = longest - HEAD - 2
    parts = [name[start : len(name) - end] for name in names]
    shown = [part[:room] for part in parts]
    if len(set(shown)) < len(shown):
        return [f"{_shortened(name, longest - 5)} ({i})" for i, name in enumerate(names, 1)]
    head = min(start, max(longest - 2 - max(map(len, shown)), HEAD))
    cut = [end > 0 or len(part) > room for part in parts]
    begin = [name[:head] + ("…" if start > head else "") for name in names]
    return [f"{first}{part}{'…' if more else ''}" for first, part, more in zip(begin, shown, cut, strict=True)]


def percent(alpha: float) -> str:
    """The probability of an interval: ``95 %``."""
    return f"{100 * (1 - alpha):g} %"


def count(n: int) -> str:
    """A number with separated thousands."""
    return f"{n:,}"


def spread_out(at: FloatArray, gap: float, low: float, high: float) -> FloatArray:
    """Ascending places as near to `at` (ascending) as a least distance of `gap` within [low, high] allows."""
    out = np.asarray(at, dtype=np.float64).copy()
    if out.size * gap > high - low:
        return np.linspace(low, high, out.size)
    for i in range(out.size):
        out[i] = max(out[i], low if i == 0 else out[i - 1] + gap)
    for i in range(out.size - 1, -1, -1):
        out[i] = min(out[i], high if i == out.size - 1 else out[i + 1] - gap)
    return out


def name_rows(ax: Axes, names: Sequence[str]) -> FloatArray:
    """A row for each name, the first on top; the rows' positions."""
    at = np.arange(len(names), dtype=np.float64)
    size = 9 if len(names) <= MOST_NAMES / 2 else 8
    ax.set_yticks(at, labels(names), fontsize=size)
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    return at


def clipped(ends: FloatArray, middle: FloatArray) -> FloatArray:
    """Ends of intervals, those at infinity moved just beyond everything finite."""
    finite = np.concatenate([ends[np.isfinite(ends)], middle[np.isfinite(middle)], [0.0]])
    reach = float(np.ptp(finite)) or 1.0
    return np.clip(np.nan_to_num(ends, nan=0.0), finite.min() - 0.3 * reach, finite.max() + 0.3 * reach)


def whole_numbers(ax: Axes) -> None:
    """Ticks of the horizontal axis at whole numbers only, however short it is."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def headline(ax: Axes, title: str) -> None:
    """Set the title, its lines broken where they would leave the figure, and long names beside the axes make room."""
    figure: Any = ax.figure
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
    inches = ax.get_position().width * figure.get_figwidth()
    width = max(LEAST_TITLE, int(TITLE_PER_INCH * inches))
    lines = [part for line in title.split("\n") for part in textwrap.wrap(line, width)]
    ax.set_title("\n".join(lines), fontsize=TITLE_SIZE)


def legend_below(ax: Axes, entries: tuple[list[Any], list[str]] | None = None, *, title: str | None = None) -> None:
    """A legend below the label of the axis, where it covers nothing and no mark is taken for one of its own.

    Parameters
    ----------
    ax : Axes
    entries : (handles, texts), optional
        Those of the axes by default.
    title : str, optional
    """
    handles, texts = entries or ax.get_legend_handles_labels()
    inches = ax.get_position().height * ax.figure.get_figheight()  # type: ignore[union-attr]
    width = ax.get_position().width * ax.figure.get_figwidth()  # type: ignore[union-attr]
    side_by_side = int(width / (SYMBOL + max(map(len, texts)) / ENTRY_PER_INCH))
    ax.legend(
        handles,
        texts,
        loc="upper center",
        bbox_to_anchor=(0.5, -BELOW / inches),
        ncols=min(len(texts), max(side_by_side, 1), MOST_ENTRIES),
        frameon=False,
        fontsize=9,
        title=title,
        title_fontsize=9,
    )


def titled(title: str, note: str) -> str:
    """A title with a second line where there is something to note."""
    return f"{title}\n{note}" if note else title
