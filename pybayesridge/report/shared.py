"""The report: what both families share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.plots.frame import height_for, percent
from pybayesridge.report.figures import svg
from pybayesridge.report.parts import EMBEDDED, Picture, Remark, Table, table_of
from pybayesridge.text import NO_VARIANCE, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.base import LinearResults
    from pybayesridge.results.binary import BinaryRidgeResults
    from pybayesridge.results.ridge import BayesRidgeResults
    from pybayesridge.results.spike_slab import SpikeSlabResults

LARGE = 4.0
"""Of standardised residuals; one normal one in 16,000 is as large."""


class Album:
    """Draws pictures and counts them, so that their ids stay apart."""

    def __init__(self) -> None:
        self.count = 0

    def picture(self, draw: Callable[[Axes], Axes], caption: str, height: float = 4.6) -> Picture:
        """The picture that ``draw(ax)`` makes, with a caption."""
        self.count += 1
        return Picture(svg(draw, self.count, height), caption)

    def rows(self, draw: Callable[[Axes], Axes], caption: str, count: int) -> Picture:
        """Likewise of a picture with a row for each of `count` names."""
        return self.picture(draw, caption, height=height_for(count))


def rows_there(res: LinearResults) -> bool:
    """Whether the rows of the data are still with the results."""
    return res.model.endog is not None


def order_by(size: FloatArray, first: IntArray) -> IntArray:
    """Positions, those of `first` before the others, which follow by `size`."""
    rest = np.setdiff1d(np.arange(size.size), first)
    return np.concatenate([first, rest[np.argsort(-size[rest], kind="stable")]]).astype(np.intp)


def coefficients_table(
    res: BayesRidgeResults | BinaryRidgeResults, i: int, alpha: float, center: str = "mean"
) -> tuple[Table, FloatArray, IntArray]:
    """The table of a ridge's coefficients, its numbers, and the positions of its rows in ``exog_names``.

    Parameters
    ----------
    res : results of a ridge
    i : int
        Which target.
    alpha : float
    center : str
        What `params` are.
    """
    names, design = res.model.exog_names, res.posterior.design
    at = order_by(res.standardized_size(i), res.model.positions(design)[0])[:EMBEDDED]
    mean, sd, interval = res.some_coefficients(at.tolist(), i, alpha)
    values = np.column_stack([mean, sd, interval])
    scale = "data" if res.model.family == "gaussian" else "link"
    table = table_of(
        f"Coefficients, on the scale of the {scale}, with {percent(alpha)} intervals",
        "coefficient",
        [center, "sd", *ends(alpha)],
        [names[j] for j in at],
        values,
        interval=True,
        left_out=len(names) - at.size,
        note=NO_VARIANCE if np.isinf(sd).any() else "",
        file="coefficients.csv",
    )
    return table, values, at


def ends(alpha: float) -> list[str]:
    """Heads of the ends of an interval."""
    return [f"{100 * alpha / 2:g} %", f"{100 * (1 - alpha / 2):g} %"]


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


def left_out_error(res: SpikeSlabResults) -> FloatArray | None:
    """Observed minus predicted values of rows left out, (n,); None where a row cannot be predicted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        try:
            predicted = res.loo().predicted
        except ValueError:
            return None
    assert predicted is not None
    out: FloatArray = res.model.endog - predicted.to_numpy()
    return out


def row_pictures(res: LinearResults, i: int, album: Album) -> list[Picture]:
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
