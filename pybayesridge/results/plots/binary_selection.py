"""Pictures of how a spike-and-slab regression of yes/no responses fits the rows of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybayesridge.binomial.leave_one_out import area_under_curve, calibration, roc_curve
from pybayesridge.checks import positive_int
from pybayesridge.plots import binary
from pybayesridge.plots.frame import label
from pybayesridge.results.plots.binary import draw_calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.binary_selection import BinarySpikeSlabResults

IN_SAMPLE = "in-sample"


def plot_calibration(res: BinarySpikeSlabResults, bins: int = 10, *, ax: Axes | None = None) -> Axes:
    """Draw observed shares of events against fitted probabilities, in bins of equally many trials.

    The probabilities are those of the rows to which the model was fitted, and not leave-one-out ones as for
    :class:`~pybayesridge.BayesRidge`: the picture shows where the model does not fit, and not how well it predicts.

    Parameters
    ----------
    bins : int, default 10
        How many bins.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        Points are bins, with Clopper-Pearson 95 % intervals of the observed share.

    Raises
    ------
    ValueError
        If the rows were removed.
    ImportError
        If matplotlib is missing.
    """
    found = calibration(res.model.likelihood(), res.fittedvalues, positive_int("bins", bins))
    return draw_calibration(res, found, "fitted probability", IN_SAMPLE, ax)


def plot_roc(res: BinarySpikeSlabResults, *, ax: Axes | None = None) -> Axes:
    """Draw the ROC curve of the fitted probabilities.

    It is in-sample, like that of :meth:`plot_calibration`: its area is larger than that for new rows.

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
    rows = res.model.likelihood()
    area = area_under_curve(rows, res.fittedvalues)
    title = f"{label(res.model.data.targets[0])}: in-sample ROC curve, area {area:.3f}"
    return binary.roc(*roc_curve(rows, res.fittedvalues), title=title, ax=ax)
