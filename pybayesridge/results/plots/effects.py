"""The picture of the predictions over the values of one variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import RandomLike, RowsLike
from pybayesridge.plots import effects as drawing
from pybayesridge.plots.frame import label, percent
from pybayesridge.results.averages import AT, predictions_of
from pybayesridge.results.effects import as_grid, checked, variables_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.estimates import LinearEstimates

POINTS = 60
"""Points of a curve, at equal distances over the range of the data."""

OTHERS = {"mean": "other variables at mean or reference", "observed": "averaged over the rows"}


def plot_effect(
    res: LinearEstimates,
    variable: str,
    *,
    values: Sequence[Any] | None = None,
    at: str = "mean",
    data: RowsLike | None = None,
    alpha: float = 0.05,
    which: str = "mean",
    rng: RandomLike = 0,
    target: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the prediction over the values of one variable, with its credible band.

    A number has a curve over the range of the data, with a mark for each value in the data below it; a factor has a
    point with an interval for each level. The numbers are those of :meth:`predictions`.

    Parameters
    ----------
    variable : str
        A variable of the data.
    values : sequence, optional
        Values or levels to predict at; the range of the data, or all levels, by default.
    at : {"mean", "observed"}
        The other variables: at their means and reference levels, or as they are in each row, with predictions
        averaged.
    data : frame, dict or array-like, optional
        Rows for means, averages and marks; those of the fit by default.
    alpha : float
        One minus the probability of the interval at each value.
    which : {"mean", "linear"}
        With ``family="binomial"``: probabilities, or linear predictors.
    rng : numpy.random.Generator, int or None
        For averages of probabilities, as in :meth:`predictions`.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        The one drawn on.

    Raises
    ------
    ValueError
        For an unknown variable or value; if the data were removed and are not given.
    ImportError
        If matplotlib is missing.
    """
    if at not in AT:
        raise ValueError(f"at must be 'mean' or 'observed', not {at!r}")
    i, alpha = checked(res, target, which, alpha, "plot_effect")
    founds = variables_of(res, data)
    found = founds[0]
    levels = found.levels(found.checked(variable))
    if values is not None:
        points = list(values)
    else:
        points = levels if levels is not None else np.linspace(*found.limits(variable), POINTS).tolist()
    grid = as_grid(found, {variable: points})
    table = predictions_of(res, founds, grid, at=at, alpha=alpha, which=which, rng=rng, target=i)
    name = label(res.model.data.targets[i])
    shown: dict[str, Any] = {
        "xlabel": label(variable),
        "ylabel": _ylabel(res, name, which),
        "interval_label": f"{percent(alpha)} credible interval",
        "title": f"{name}: prediction over {label(variable)}\n{OTHERS[at]}",
        "ax": ax,
    }
    mean, interval = table["mean"].to_numpy(), table[["lower", "upper"]].to_numpy()
    if levels is not None:
        return drawing.levels([str(level) for level in grid[variable]], mean, interval, **shown)
    order = np.argsort(grid[variable].to_numpy(dtype=np.float64), kind="stable")
    x = grid[variable].to_numpy(dtype=np.float64)[order]
    rug = np.empty(0) if found.frame is None else found.numbers(variable)
    return drawing.curve(x, mean[order], interval[order], rug, **shown)


def _ylabel(res: LinearEstimates, name: str, which: str) -> str:
    family = res.model.distribution
    if family.is_linear:
        return f"expected {name}"
    return family.predicted if which == "mean" else "linear predictor"
