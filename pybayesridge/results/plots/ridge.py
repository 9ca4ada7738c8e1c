"""Pictures of a Bayesian ridge regression: methods that hand numbers to :mod:`pybayesridge.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.plots import coefficients, penalty
from pybayesridge.plots.frame import count, label, percent, titled
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import (
    check_alpha,
    check_top,
    shown_positions,
    target_position,
    unit_names,
    units,
)
from pybayesridge.text import TOP, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.band_estimates import BandEstimates
    from pybayesridge.results.generalized_estimates import GeneralizedEstimates
    from pybayesridge.results.ridge_estimates import RidgeEstimates

MOST_PATHS = 1000
"""More paths are not drawn: the largest are."""

LOO_POINTS = 61
"""Penalties of the leave-one-out curve."""


def plot_coefficients(
    res: RidgeEstimates | BandEstimates | GeneralizedEstimates,
    alpha: float = 0.05,
    *,
    target: str | int | None = None,
    terms: str | Sequence[str] | None = None,
    top: int | None = TOP,
    standardized: bool = True,
    intercept: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw posterior means of the coefficients with their credible intervals.

    Parameters
    ----------
    alpha : float
        One minus the probability of the intervals.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    terms : str or sequence of str, optional
        Coefficients to show, by column or by term of the formula, in this order.
    top : int or None, default 40
        Of more coefficients the largest per standard deviation are shown, largest first, unpenalised ones before
        them; the title says how many. None shows all: beyond 60 without names, in the order of the columns.
    standardized : bool, default True
        Per standard deviation of the column, so that sizes compare; else as in ``params``. Unpenalised
        coefficients are always as in ``params``, and marked so.
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
        For an unknown target or term, or where there is nothing to show.
    ImportError
        If matplotlib is missing.
    """
    i = target_position(res.model.data.targets, target, "plot_coefficients")
    probability = percent(check_alpha(alpha))
    design = res.parts[0].posterior.design
    at, note = shown_positions(
        res.model, design, res.standardized_size(i), terms=terms, top=top, intercept=intercept, most="largest"
    )
    if at.size == 0:
        raise ValueError("there is no coefficient to show except the intercept: use intercept=True")
    unit = units(res.model, design, standardized)[at]
    mean, _, interval = res.some_coefficients(at.tolist(), i, alpha)
    return coefficients.intervals(
        unit_names(res.model, design, at, standardized),
        mean * unit,
        interval * unit[:, None],
        xlabel="coefficient per standard deviation" if standardized else "coefficient",
        title=titled(f"{label(res.model.data.targets[i])}: {probability} intervals", note),
        ax=ax,
    )


def plot_lambda(
    res: RidgeEstimates,
    alpha: float = 0.05,
    *,
    target: str | int | None = None,
    loo: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior density of the penalty, on a logarithmic axis, with the penalty in use.

    The density is with respect to log10 lambda. The mode that ``"em"`` finds is that of the density of tau2 (or
    of tau), which lies elsewhere than the top of this curve. A second axis has the score of the grid for
    ``"loocv"`` and ``"gcv"``, and for the other methods the leave-one-out mean squared error where the
    rows are still there and each can be predicted from the others.

    Parameters
    ----------
    alpha : float
        One minus the probability of the equal-tailed interval that is shaded.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    loo : bool, default True
        Whether to draw the cross-validation curve.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        Of the density; the second one is its twin.

    Raises
    ------
    ValueError
        For an unknown target, or where lambda has no posterior: nothing to shrink, or an exact fit.
    ImportError
        If matplotlib is missing.
    """
    i = target_position(res.model.data.targets, target, "plot_lambda")
    shaded = percent(check_alpha(alpha))
    fit = res.ridge_fit
    if not res.has_penalty_posterior(i):
        raise ValueError(
            "lambda has no posterior here: there is nothing to shrink, or the response is fitted exactly"
        )
    found = res.penalty.density(i, alpha)
    return penalty.posterior(
        np.exp(fit.log_unit - found.log_t2[::-1]),
        found.density[::-1] * np.log(10.0),
        np.exp(fit.log_unit - found.interval[::-1]),
        float(np.atleast_1d(res.arrays.lambda_)[i]),
        chosen_label=_penalty_in_use(res, i),
        interval_label=f"{shaded} interval",
        scores=_penalty_scores(res, i, found.log_t2) if loo else None,
        title=f"{label(res.model.data.targets[i])}: posterior of lambda",
        ax=ax,
    )


def _penalty_in_use(res: RidgeEstimates, i: int) -> str:
    """The kind of penalty that is reported, and its value."""
    value = float(np.atleast_1d(res.arrays.lambda_)[i])
    if not np.isfinite(value):
        return "no interior mode: lambda infinite"
    of = "tau" if res.parameterization == "tau" else "tau2"
    return f"{res.method_entry.in_use.format(of=of)}: {number(value)}"


def _penalty_scores(res: RidgeEstimates, i: int, log_t2: FloatArray) -> tuple[FloatArray, FloatArray, str] | None:
    """A cross-validation curve: penalties ascending, scores, and what they are."""
    fit, design = res.ridge_fit, res.posterior.design
    if fit.search is not None and fit.grid is not None:
        order = np.argsort(fit.grid[:, i])
        scores = fit.search.scores[order, i] * design.y_norm[i] ** 2
        return fit.grid[order, i], scores, res.method_entry.score
    if res.model.endog is None:
        return None
    ends = [log_t2[0], log_t2[-1]]
    if np.isfinite(fit.log_t2[i]):
        ends = [min(ends[0], fit.log_t2[i] - np.log(2)), max(ends[1], fit.log_t2[i] + np.log(2))]
    points = np.linspace(ends[0], ends[1], LOO_POINTS)
    try:
        scores = res.penalty.loo_curve(i, points)
    except ValueError:  # a row that cannot be predicted from the others: the curve is not defined
        return None
    return np.exp(fit.log_unit - points[::-1]), scores[::-1], "leave-one-out MSE"


def plot_path(
    res: RidgeEstimates,
    *,
    target: str | int | None = None,
    lambdas: ArrayLike | None = None,
    top: int = 8,
    standardized: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the penalised coefficients as functions of the penalty, with the penalty in use.

    Parameters
    ----------
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    lambdas : array-like, optional
        Positive penalties; 120 around the one in use by default.
    top : int, default 8
        How many are coloured and named: the largest per standard deviation.
    standardized : bool, default True
        Per standard deviation of the column, else on the user's scale.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        Of more than 1,000 coefficients the largest are drawn; the title says so.

    Raises
    ------
    ValueError
        For an unknown target, penalties that are not positive, or where nothing is penalised.
    ImportError
        If matplotlib is missing.
    """
    i = target_position(res.model.data.targets, target, "plot_path")
    named = check_top(top) or 0
    fit, design = res.ridge_fit, res.posterior.design
    if fit.spectrum.rank == 0:
        raise ValueError("there is no path: no penalised column varies")
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="a path"))
    points = res.penalty.path_points(i) if lambdas is None else fit.log_unit - _logs(lambdas)
    points = np.sort(points)[::-1]
    at = res.model.positions(design)[1]
    size = res.standardized_size(i)[at]
    if not size.any():
        size = np.abs(design.sd * res.penalty.path(i, points[:1], np.arange(design.p))[:, 0])
    rows = np.sort(np.argsort(-size, kind="stable")[:MOST_PATHS])
    values = res.penalty.path(i, points, rows)
    if standardized:
        values *= design.sd[rows, None]
    names = res.model.exog_names
    note = "" if rows.size == design.p else f"the {count(rows.size)} largest of {count(design.p)} coefficients"
    return penalty.path(
        np.exp(fit.log_unit - points),
        values,
        [names[j] for j in at[rows]],
        np.argsort(-size[rows], kind="stable")[:named].tolist(),
        float(np.atleast_1d(res.arrays.lambda_)[i]),
        chosen_label="lambda in use",
        ylabel="coefficient per standard deviation" if standardized else "coefficient",
        title=titled(f"{label(res.model.data.targets[i])}: coefficients over the penalty", note),
        ax=ax,
    )


def _logs(lambdas: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(lambdas, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise ValueError(f"lambdas must be positive numbers, not {lambdas!r}") from None
    if values.size < 2 or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("lambdas must be at least two penalties, positive and finite")
    out: FloatArray = np.log(values)
    return out
