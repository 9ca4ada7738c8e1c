"""Pictures of predictive checks, of both families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.plots import predictive
from pybayesridge.plots.frame import label, titled
from pybayesridge.results.arguments import target_position
from pybayesridge.results.leave_one_out import pit
from pybayesridge.results.predictive_checks import (
    FREQUENCIES,
    Statistic,
    replicated,
    replicated_statistics,
    statistics,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = 50
"""Replicated responses in a picture of densities."""

STATISTICS = 1000
"""Replicated responses in a picture of a statistic."""

MOST_BINS, ROWS_PER_BIN = 20, 10
"""Of a histogram whose number of bins is not given."""


def plot_ppc(
    res: Any,
    stat: Statistic | None = None,
    *,
    draws: int | None = None,
    rng: RandomLike = 0,
    target: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a posterior predictive check: the density of the response over those of replicated responses.

    Of counts and ordered categories it is a rootogram: the numbers of rows with each value on a scale of square
    roots, where deviations from numbers that are small and large are alike, with 95 % intervals of those of
    replicated responses. ``ppc("frequencies")`` has the numbers.

    Parameters
    ----------
    stat : {"mean", "sd", "min", "max", "zeros", "dispersion", "frequencies"} or callable, optional
        Draw a histogram of this statistic of replicated responses, with its observed value.
    draws : int, optional
        How many responses to replicate: by default 50 for densities and 1000 for a statistic or a rootogram.
    rng : numpy.random.Generator, int or None
        Source of randomness; by default the picture is the same at each call.
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
        For an unknown statistic or target, if the rows were removed, or for densities of responses that have none.
    ImportError
        If matplotlib is missing.
    """
    names = res.model.data.targets
    i = target_position(names, target, "plot_ppc")
    name = label(names[i])
    family = res.model.distribution
    if stat is None and family.in_whole_numbers:
        stat = FREQUENCIES
    if stat is not None:
        functions = statistics(stat)
        if len(functions) > 1:
            raise ValueError("plot_ppc draws one statistic: call it for each")
        of = next(iter(functions))
        count = positive_int("draws", STATISTICS if draws is None else draws)
        observed, found = replicated_statistics(res, functions, count, rng, i, "plot_ppc")
        if of == FREQUENCIES and not callable(stat):
            rows = np.array(list(observed.values()))
            title = f"{name}: rows with each value, observed and in {count:,} replicated responses"
            counts = np.column_stack(list(found.values()))
            return predictive.rootogram(list(found), rows, counts, xlabel=name, title=title, ax=ax)
        title = f"{name}: {of} of the observed and of replicated responses"
        xlabel = f"{of} of {name}" + ", as a share of trials" * (res.model.per_row == "trials")
        return predictive.statistic(observed[of], found[of], xlabel=xlabel, title=title, ax=ax)
    if not family.has_density:
        raise ValueError(
            f"the response has no density: use {family.instead_of_residuals}, or name a statistic of it, as in "
            "plot_ppc(stat='mean')"
        )
    count = positive_int("draws", CURVES if draws is None else draws)
    y, parts = replicated(res, count, rng, i, "plot_ppc")
    title = f"{name}: observed and {count} replicated responses"
    return predictive.densities(y, np.concatenate(list(parts)), xlabel=name, title=title, ax=ax)


def plot_pit(res: Any, bins: int | None = None, *, target: str | int | None = None, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the leave-one-out probability integral transform.

    If the predictive distributions describe the data, the histogram is flat: 95 % of the bars end in the grey band.
    A U shape means that predictive intervals are too narrow, a hump that they are too wide, a slope that predictions
    are biased.

    Parameters
    ----------
    bins : int, optional
        How many bins; by default one for every ten rows, between 4 and 20.
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
        As for :meth:`pit`.
    ImportError
        If matplotlib is missing.
    """
    values = pit(res, target=target)
    if bins is None:
        bins = int(np.clip(values.size // ROWS_PER_BIN, 4, MOST_BINS))
    title = titled(f"{label(str(values.name))}: leave-one-out predictive distributions", f"{values.size:,} rows")
    return predictive.uniform(values.to_numpy(), positive_int("bins", bins), title=title, ax=ax)
