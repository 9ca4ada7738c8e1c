"""Pictures of a ridge regression of yes/no responses: methods that hand numbers to :mod:`pybayesridge.plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv

from pybayesridge.binomial.leave_one_out import Calibration, roc_curve
from pybayesridge.plots import binary
from pybayesridge.plots.frame import label, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.binary import BinaryRidgeResults
    from pybayesridge.results.probabilities import ProbabilityResults

INTERVAL = 0.05
"""One minus the probability of the bins' intervals."""


def plot_calibration(res: BinaryRidgeResults, bins: int = 10, *, ax: Axes | None = None) -> Axes:
    """Draw observed shares of events against leave-one-out probabilities, in bins of equally many trials.

    Parameters
    ----------
    bins : int, default 10
        How many bins.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        Points are bins, with Clopper-Pearson 95 % intervals of the observed share. The title has the
        intercept and the slope of a logistic regression of the outcomes on the logits of the probabilities: 0 and 1
        where these are calibrated.

    Raises
    ------
    ValueError
        If the rows were removed.
    ImportError
        If matplotlib is missing.
    """
    found = res.loo_calibration(bins)
    line = f"calibration intercept {found.intercept:.2f}, slope {found.slope:.2f}"
    return draw_calibration(res, found, "leave-one-out probability", line if np.isfinite(found.slope) else "", ax)


def draw_calibration(res: ProbabilityResults, found: Calibration, xlabel: str, line: str, ax: Axes | None) -> Axes:
    """Draw bins of probabilities with intervals of the observed shares; `line` stands below the title."""
    up, down = found.observed * found.trials, (1 - found.observed) * found.trials
    low = np.where(up > 0, betaincinv(np.maximum(up, 1e-9), down + 1, INTERVAL / 2), 0.0)
    high = np.where(down > 0, betaincinv(up + 1, np.maximum(down, 1e-9), 1 - INTERVAL / 2), 1.0)
    return binary.calibration(
        found.predicted,
        found.observed,
        np.column_stack([low, high]),
        xlabel=xlabel,
        ylabel=f"share of {label(res.event)}",
        title=titled(f"{label(res.model.data.targets[0])}: calibration", line),
        ax=ax,
    )


def plot_roc(res: BinaryRidgeResults, *, ax: Axes | None = None) -> Axes:
    """Draw the ROC curve of the leave-one-out probabilities.

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
    false_positive, true_positive = roc_curve(res.binary_fit.likelihood, res.loo_probabilities)
    title = f"{label(res.model.data.targets[0])}: leave-one-out ROC curve, area {res.loo_auc:.3f}"
    return binary.roc(false_positive, true_positive, title=title, ax=ax)
