"""The report: residuals of rows with normal noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import percent
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Picture, Remark
from pybayesridge.text import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LARGE = 4.0
"""Of standardised residuals; one normal one in 16,000 is as large."""


def explained_words(who: str, explained: FloatArray, alpha: float) -> str:
    """The share of variance explained, from its mean, median, lower and upper end."""
    mean, _, lower, upper = explained
    return (
        f"The {who} {100 * mean:.0f} % of the variance in the sample (posterior mean; {percent(alpha)} interval "
        f"{100 * lower:.0f} % to {100 * upper:.0f} %)."
    )


def residual_remarks(residual: FloatArray, labels: pd.Index, sigma: float) -> list[Remark]:
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

    def draw(kind: str) -> Callable[[Axes], Axes]:
        return lambda ax: res.plot_residuals(kind, target=i, ax=ax)

    return [
        album.picture(
            draw("fitted"),
            "Residuals should scatter about zero without a pattern, and the smooth line should stay near zero.",
        ),
        album.picture(draw("qq"), "Normally distributed residuals lie along the line."),
    ]
