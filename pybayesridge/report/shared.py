"""The report: what both families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import height_for
from pybayesridge.report.figures import svg
from pybayesridge.report.parts import Picture, Remark
from pybayesridge.text import listed

LARGE = 4.0
"""Of standardised residuals; one normal one in 16,000 is as large."""


class Album:
    """Draws pictures and counts them, so that their ids stay apart."""

    def __init__(self) -> None:
        self.count = 0

    def picture(self, draw: Callable[..., Any], caption: str, height: float = 4.6) -> Picture:
        """The picture that ``draw(ax=...)`` makes, with a caption."""
        self.count += 1
        return Picture(svg(draw, self.count, height), caption)

    def rows(self, draw: Callable[..., Any], caption: str, count: int) -> Picture:
        """Likewise of a picture with a row for each of `count` names."""
        return self.picture(draw, caption, height=height_for(count))


def rows_there(res: Any) -> bool:
    """Whether the rows of the data are still with the results."""
    return res.model.endog is not None


def order_by(size: FloatArray, first: Any) -> Any:
    """Positions, those of `first` before the others, which follow by `size`."""
    rest = np.setdiff1d(np.arange(size.size), first)
    return np.concatenate([first, rest[np.argsort(-size[rest], kind="stable")]]).astype(np.intp)


def residual_remarks(residual: FloatArray, labels: Any, sigma: float) -> list[Remark]:
    """Rows whose standardised residual is large.

    Parameters
    ----------
    residual : (n,) array
        Standardised.
    labels : pandas.Index
    sigma : float
        0 where there is no noise to compare with.
    """
    if not sigma > 0 or not np.isfinite(residual).any():
        return []
    large = np.flatnonzero(np.abs(residual) > LARGE)
    if large.size == 0:
        return [Remark("good", f"No residual is larger than {LARGE:g} standard deviations.")]
    worst = large[np.argsort(-np.abs(residual[large]), kind="stable")]
    return [
        Remark(
            "note",
            f"{large.size:,} residual(s) are larger than {LARGE:g} standard deviations: row(s) "
            f"{listed(labels[worst].tolist())}. Check these rows.",
        )
    ]


def row_pictures(res: Any, i: int, album: Album) -> list[Picture]:
    """Residuals over fitted values and the normal QQ plot."""

    def draw(kind: str) -> Callable[..., Any]:
        return lambda ax: res.plot_residuals(kind, target=i, ax=ax)

    return [
        album.picture(
            draw("fitted"),
            "Residuals should scatter about zero without a pattern, and the smooth line should stay near zero.",
        ),
        album.picture(draw("qq"), "Normally distributed residuals lie along the line."),
    ]
