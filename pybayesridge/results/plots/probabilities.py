"""Pictures of probabilities of yes/no responses: methods that hand numbers to :mod:`pybayesridge.plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincinv

from pybayesridge._types import FloatArray
from pybayesridge.checks import positive_int
from pybayesridge.families.scores import Calibration, area_under_curve, calibration, roc_curve
from pybayesridge.plots import probabilities as drawing
from pybayesridge.plots.frame import label, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.estimates import LinearEstimates

INTERVAL = 0.05
"""One minus the probability of the bins' intervals."""

IN_SAMPLE = "in-sample"


def _probabilities(res: LinearEstimates) -> tuple[FloatArray, bool]:
    """Of the event at each row, and whether they are predicted from the other rows."""
    left_out: FloatArray | None = getattr(res.arrays, "loo_probabilities", None)
    return (res.arrays.fittedvalues, False) if left_out is None else (left_out, True)


def plot_calibration(res: LinearEstimates, bins: int = 10, *, ax: Axes | None = None) -> Axes:
    """Draw observed shares of events against predicted probabilities, in bins of equally many trials.

    The probabilities of :class:`~pybayesridge.BayesRidge` are leave-one-out ones. Those of
    :class:`~pybayesridge.SpikeSlab` are of the rows to which the model was fitted: the picture then shows where the
    model does not fit, and not how well it predicts.

    Parameters
    ----------
    bins : int, default 10
        How many bins.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        Points are bins, with Clopper-Pearson 95 % intervals of the observed share. With leave-one-out probabilities
        the title has the intercept and the slope of a logistic regression of the outcomes on the logits of the
        probabilities: 0 and 1 where these are calibrated.

    Raises
    ------
    ValueError
        If the rows were removed.
    ImportError
        If matplotlib is missing.
    """
    count = positive_int("bins", bins)
    probabilities, left_out = _probabilities(res)
    found = calibration(res.model.likelihood(), probabilities, count)
    if not left_out:
        return _draw_calibration(res, found, "fitted probability", IN_SAMPLE, ax)
    line = f"intercept {found.intercept:.2f}, slope {found.slope:.2f}" if np.isfinite(found.slope) else ""
    return _draw_calibration(res, found, "leave-one-out probability", line, ax)


def _draw_calibration(res: Any, found: Calibration, xlabel: str, line: str, ax: Axes | None) -> Axes:
    """Draw bins of probabilities with intervals of the observed shares; `line` stands below the title."""
    up, down = found.observed * found.trials, (1 - found.observed) * found.trials
    low = np.where(up > 0, betaincinv(np.maximum(up, 1e-9), down + 1, INTERVAL / 2), 0.0)
    high = np.where(down > 0, betaincinv(up + 1, np.maximum(down, 1e-9), 1 - INTERVAL / 2), 1.0)
    return drawing.calibration(
        found.predicted,
        found.observed,
        np.column_stack([low, high]),
        xlabel=xlabel,
        ylabel=f"share of {label(res.model.event)}",
        title=titled(f"{label(res.model.data.targets[0])}: calibration", line),
        ax=ax,
    )


def plot_roc(res: LinearEstimates, *, ax: Axes | None = None) -> Axes:
    """Draw the ROC curve of the predicted probabilities.

    They are those of :meth:`plot_calibration`: of a SpikeSlab in-sample, with an area that is larger than that for
    new rows.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        The one drawn on.

    Raises
    ------
    ValueError
        If the rows were removed.
    ImportError
        If matplotlib is missing.
    """
    probabilities, left_out = _probabilities(res)
    rows = res.model.likelihood()
    told = f"{'leave-one-out' if left_out else IN_SAMPLE}, area {area_under_curve(rows, probabilities):.3f}"
    title = titled(f"{label(res.model.data.targets[0])}: ROC curve", told)
    return drawing.roc(*roc_curve(rows, probabilities), title=title, ax=ax)
