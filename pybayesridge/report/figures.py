"""Pictures as SVG inside the page, in the page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pybayesridge.plots.frame import BLUE, GREEN, GREY, ORANGE, PURPLE, height_for
from pybayesridge.report.parts import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#123457"
"""Stands for the page's colour of text until the picture is in the page."""

COLORS = {
    INK: "currentColor",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    GREEN: "var(--green)",
    PURPLE: "var(--purple)",
    GREY: "var(--grey)",
}

WIDTH = 10.5
"""Of every picture, in inches: as wide as the page's text, whose type the picture's then resembles."""

HEIGHT = 4.6
"""Of a picture, in inches."""

STYLE: dict[Any, object] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pybayesridge",
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Album:
    """Draws pictures and counts them, so that their ids stay apart."""

    def __init__(self) -> None:
        self.count = 0

    def picture(self, draw: Callable[[Axes], Axes], caption: str, height: float = HEIGHT) -> Picture:
        """The picture that ``draw(ax)`` makes, with a caption."""
        self.count += 1
        return Picture(svg(draw, self.count, height), caption)

    def rows(self, draw: Callable[[Axes], Axes], caption: str, count: int) -> Picture:
        """Likewise of a picture with a row for each of `count` names."""
        return self.picture(draw, caption, height=height_for(count))


def svg(draw: Callable[[Axes], Axes], number: int, height: float) -> str:
    """The picture that ``draw(ax)`` makes, as an SVG element whose text is text and whose ids are its own.

    Parameters
    ----------
    draw : callable
    number : int
        Of the picture on the page.
    height : float
        In inches.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=nothing, dpi=150)
    return _inline(file.getvalue(), f"f{number}-")


def _inline(text: str, prefix: str) -> str:
    out = text[text.index("<svg") :].strip()
    out = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", out, flags=re.DOTALL)
    out = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", out)
    out = out.replace("xlink:href=", "href=")
    out = re.sub(r'\bid="', f'id="{prefix}', out)
    out = re.sub(r'href="#', f'href="#{prefix}', out)
    out = re.sub(r"url\(#", f"url(#{prefix}", out)
    for color, name in COLORS.items():
        out = out.replace(color, name)
    # Text without a colour of its own is black.
    return out.replace("<svg ", '<svg fill="currentColor" aria-hidden="true" focusable="false" ', 1)
