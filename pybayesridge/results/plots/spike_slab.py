"""Pictures of a spike-and-slab regression: methods that hand numbers to :mod:`pybayesridge.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.plots import coefficients, selection
from pybayesridge.plots.frame import MOST_NAMES, label, percent, titled
from pybayesridge.results.arguments import (
    check_alpha,
    check_top,
    shown_positions,
    term_positions,
    unit_names,
    units,
)
from pybayesridge.text import TOP, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.selection_estimates import SelectionEstimates

VISIBLE = 1e-4
"""Numbers of included columns of a smaller share of the largest probability are not drawn at either end."""


def plot_inclusion(
    res: SelectionEstimates,
    *,
    terms: str | Sequence[str] | None = None,
    top: int | None = None,
    threshold: float = 0.5,
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior inclusion probabilities of the columns that can be in or out.

    Up to 60 columns are named, the most probable on top; of more than ten those with an inclusion probability below
    0.01 are left out, and the title says how many. More columns are dots in the order of the columns, like a
    Manhattan plot, with the names of at most 20 above the threshold. The columns of each credible set of several
    columns (or groups) of an exact fit have a colour of their own.

    Parameters
    ----------
    terms : str or sequence of str, optional
        Coefficients to show, by column or by term of the formula.
    top : int, optional
        Show only so many, the most probable, however improbable they are.
    threshold : float, default 0.5
        Columns above it are coloured; the default is that of the median probability model.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        The one drawn on.

    Raises
    ------
    ValueError
        For an unknown term, a threshold that is no probability, or where no column can be in or out.
    ImportError
        If matplotlib is missing.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must lie between 0 and 1, not {threshold!r}")
    probability = res.arrays.inclusion_prob
    at, note = _shown(res, terms, check_top(top))
    title = titled(f"{label(res.model.data.targets[0])}: inclusion probabilities", note)
    draw = selection.inclusion_rows if at.size <= MOST_NAMES else selection.inclusion_columns
    names = [res.model.exog_names[i] for i in at]
    return draw(names, probability[at], threshold, title=title, sets=_sets_among(res, at), ax=ax)


def _shown(res: SelectionEstimates, terms: str | Sequence[str] | None, limit: int | None) -> tuple[IntArray, str]:
    """Positions of the columns in the order of the picture, and what it leaves out."""
    if terms is not None:
        return term_positions(res.model, terms), ""
    probability, at = res.arrays.inclusion_prob, res.model.positions(res.posterior.design)[1]
    if at.size == 0:
        raise ValueError("no column can be in or out: every one is unpenalised or constant")
    likely = at[np.argsort(-probability[at], kind="stable")]
    if limit is not None and at.size > limit:
        note = f"the {limit:,} most probable of {at.size:,} columns"
        return (likely[:limit] if limit <= MOST_NAMES else np.sort(likely[:limit])), note
    if at.size > MOST_NAMES:
        return at, ""
    count = at.size if limit is not None else selection.rows_shown(probability[at])
    note = f"not shown: {at.size - count:,} columns with probabilities below {selection.IMPROBABLE:g}"
    return likely[:count], note if count < at.size else ""


def _sets_among(res: SelectionEstimates, at: IntArray) -> dict[int, IntArray]:
    """Credible sets of several columns or groups by number, as positions in `at`; without what is not shown."""
    place = {int(j): i for i, j in enumerate(at)}
    columns = res.model.positions(res.posterior.design)[1]
    found = {
        number: [place[int(j)] for j in columns[res.units.columns(one.units)] if int(j) in place]
        for number, one in res.exchangeable_sets.items()
    }
    return {number: np.array(members, dtype=np.intp) for number, members in found.items() if members}


def plot_coefficients(
    res: SelectionEstimates,
    alpha: float = 0.05,
    *,
    terms: str | Sequence[str] | None = None,
    top: int | None = TOP,
    standardized: bool = True,
    intercept: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coefficients given that they are in, the darker and larger the likelier they are in.

    Posterior means and equal-tailed intervals are those of the slab: ``cond_mean``, not ``params``, which are
    over spike and slab together. The inclusion probabilities stand at the right.

    Parameters
    ----------
    alpha : float
        One minus the probability of the intervals.
    terms : str or sequence of str, optional
        Coefficients to show, by column or by term of the formula, in this order.
    top : int or None, default 40
        Of more coefficients the likeliest are shown, likeliest first; the title says how many. None shows all:
        beyond 60 without names, in the order of the columns.
    standardized : bool, default True
        Per standard deviation of the column, so that sizes compare; else as in ``cond_mean``. Unpenalised
        coefficients are always as in ``cond_mean``, and marked so.
    intercept : bool, default False
        Whether to show the intercept.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        The one drawn on.

    Raises
    ------
    ValueError
        For an unknown term, or where there is nothing to show.
    ImportError
        If matplotlib is missing.
    """
    probability = percent(check_alpha(alpha))
    posterior, model = res.posterior, res.model
    likely = res.arrays.inclusion_prob
    at, note = shown_positions(
        model, posterior.design, likely, terms=terms, top=top, intercept=intercept, most="likeliest"
    )
    if at.size == 0:
        raise ValueError("there is no coefficient to show except the intercept: use intercept=True")
    unit = units(model, posterior.design, standardized)[at]
    tails = np.array([alpha / 2, 1 - alpha / 2])
    of_z = posterior.coefficient_quantiles(tails)[0]
    ends = model.scatter(of_z, posterior.quantiles_given_inclusion(tails), posterior.design)
    return coefficients.given_inclusion(
        unit_names(model, posterior.design, at, standardized),
        res.arrays.cond_mean[at] * unit,
        ends[at] * unit[:, None],
        likely[at],
        xlabel=("coefficient per standard deviation" if standardized else "coefficient") + ", given inclusion",
        title=titled(f"{label(model.data.targets[0])}: {probability} intervals given inclusion", note),
        ax=ax,
    )


def plot_n_included(res: SelectionEstimates, *, ax: Axes | None = None) -> Axes:
    """Draw the posterior distribution of the number of included columns, of groups all their columns.

    Of an exact fit it is that of :meth:`size_distribution`. The distribution is computed exactly (a Poisson-binomial
    one, no sampling) for EP's approximation, in which columns (or groups of them, whole) are in or out independently
    of each other given the hyperparameters; with ``hyper="average"`` it is the mixture over them. Where columns stand
    in for each other, the true distribution is as a rule narrower.

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
    ImportError
        If matplotlib is missing.
    """
    units = "columns" if res.units.single else "groups of columns"
    exact = res.exact_sets is not None
    text = "posterior probabilities" if exact else f"EP's approximation: {units} are in independently"
    return _draw_sizes(res, res.size_distribution().to_numpy(), res.expected_size, text, ax)


def _draw_sizes(
    res: SelectionEstimates, distribution: FloatArray, expected: float, text: str, ax: Axes | None
) -> Axes:
    seen = np.flatnonzero(distribution >= VISIBLE * distribution.max())
    return selection.sizes(
        distribution[seen[0] : seen[-1] + 1],
        int(seen[0]),
        expected,
        title=titled(f"{label(res.model.data.targets[0])}: number of included columns", text),
        ax=ax,
    )


def plot_trace(res: SelectionEstimates, *, ax: Axes | None = None) -> Axes:
    """Draw minus the log evidence after each iteration: ``energy_trace``.

    From where ordinary EP gave way to an algorithm whose energy cannot rise, a line is drawn. With
    ``hyper="average"`` the trace is that of the likeliest hyperparameters. The iterations that learned the
    hyperparameters are not in it: the last fit starts where they ended, so that it often has a single
    iteration. Fit with the hyperparameters given to see a whole trace.

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
    ImportError
        If matplotlib is missing.
    """
    found = res.posterior.selection
    if res.exact_sets is not None:
        raise ValueError("there is no trace of an exact fit: plot_trace is for expectation propagation")
    start = found.best.monotone_from
    state = "converged" if res.converged else "NOT converged"
    residual = number(res.residual, 2)
    return selection.trace(
        res.energy_trace,
        start if 0 < start < res.energy_trace.size else None,
        title=f"{label(res.model.data.targets[0])}: {res.method}, {state} (residual {residual})",
        single="A single iteration: it started where the search\nfor the hyperparameters ended."
        if res.learned
        else "Converged in a single iteration.",
        ax=ax,
    )
