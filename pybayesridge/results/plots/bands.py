"""Pictures of a ridge with bands: methods that hand numbers to :mod:`pybayesridge.plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import ArrayLike
from pybayesridge.plots import bands, effects
from pybayesridge.plots.frame import label, percent
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.curves import curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.band_estimates import BandEstimates

WHAT = {
    "sd": "Standard deviation of the coefficients, on the scale of the prior",
    "share": "Share of the variance of the response",
}


def plot_variance_components(
    res: BandEstimates,
    alpha: float = 0.05,
    *,
    what: str = "share",
    target: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of the variance of each band, or the standard deviation of its coefficients, with intervals.

    Parameters
    ----------
    alpha : float
        One minus the probability of the intervals.
    what : {"share", "sd"}
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
    """
    if what not in WHAT:
        raise ValueError(f"what must be {' or '.join(map(repr, WHAT))}, not {what!r}")
    i = target_position(res.model.data.targets, target, "plot_variance_components")
    values = res.components_of(i, check_alpha(alpha))
    columns = [0, 2, 3] if what == "sd" else [4, 5, 6]
    mean, low, high = values[:, columns].T
    return bands.caterpillar(
        list(res.bands.names),
        mean,
        np.column_stack([low, high]),
        xlabel=WHAT[what],
        interval_label=f"{percent(alpha)} interval",
        title=f"Bands of {res.model.data.targets[i]}",
        zero=False,
        ax=ax,
    )


def plot_random_effects(
    res: BandEstimates,
    band: str | None = None,
    alpha: float = 0.05,
    *,
    sort: bool = True,
    target: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coefficients of a band with their intervals, a caterpillar plot.

    Parameters
    ----------
    band : str, optional
        Its name; needed where there are several.
    alpha : float
        One minus the probability of the intervals.
    sort : bool
        Whether they stand in the order of their means, and not of their columns.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
    """
    names = res.named_bands(band)
    if len(names) > 1:
        raise ValueError(f"there are the bands {', '.join(map(repr, names))}: say which")
    table = res.random_effects(names[0], alpha, target)
    if sort:
        table = table.sort_values("mean", ascending=False)
    grouped = table["level"].notna().all()
    return bands.caterpillar(
        table["level"].astype(str).tolist() if grouped else table["term"].tolist(),
        table["mean"].to_numpy(),
        table[["lower", "upper"]].to_numpy(),
        xlabel=f"Effect of {table['group'].iloc[0]}: {table['term'].iloc[0]}" if grouped else "Coefficient",
        interval_label=f"{percent(alpha)} interval",
        title=f"Band {names[0]}",
        zero=True,
        ax=ax,
    )


def plot_smooth(
    res: BandEstimates,
    band: str | None = None,
    at: ArrayLike | None = None,
    alpha: float = 0.05,
    *,
    target: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a smooth curve of the formula, whose mean over the rows is 0, with its credible interval at each value.

    Parameters
    ----------
    band : str, optional
        Its name, such as ``"s(x)"``; needed where there are several.
    at : array-like, optional
        Values of the variable; the range of the data by default.
    alpha : float
        One minus the probability of the interval at each value.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
    """
    found = curve(res, band, at, alpha, target)
    order = np.argsort(found.at, kind="stable")
    rug = np.empty(0) if res.model.variables is None else res.model.variables[found.variable].to_numpy(np.float64)
    return effects.curve(
        found.at[order],
        found.mean[order],
        found.interval[order],
        rug,
        xlabel=label(found.variable),
        ylabel=label(found.name),
        interval_label=f"{percent(alpha)} credible interval",
        title=label(found.name),
        ax=ax,
    )
