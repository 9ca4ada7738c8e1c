"""Pictures over the rows of a fit, of both families."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots import rows
from pybayesridge.plots.frame import label, titled
from pybayesridge.results.arguments import target_position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybayesridge.results.estimates import LinearEstimates

KINDS = ("fitted", "qq")


def plot_fit(
    res: LinearEstimates, *, target: str | int | None = None, left_out: bool = False, ax: Axes | None = None
) -> Axes:
    """Draw observed against predicted values, with the line on which they are equal.

    Parameters
    ----------
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    left_out : bool, default False
        Predict each row from the others instead of drawing the fitted values: what to judge a fit by. For a ridge at
        the same penalty (`loo_residuals`), for a spike and slab the mean of the prediction of ``loo()``. For
        Gaussian responses.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        The one drawn on.

    Raises
    ------
    ValueError
        For an unknown target, if the rows were removed, or for `left_out` where it does not exist.
    ImportError
        If matplotlib is missing.
    """
    names = res.model.data.targets
    i = target_position(names, target, "plot_fit")
    if res.model.endog is None:
        raise ValueError(res.model.why_no_rows)
    observed = _column(res.model.endog, i)
    if left_out:
        predicted, share = res.left_out_predictions(i), None
    else:
        predicted, share = _column(res.arrays.fittedvalues, i), float(np.atleast_1d(res.arrays.rsquared)[i])
    note = "" if share is None or not np.isfinite(share) else f"R-squared {share:.3f}"
    return rows.fit(
        predicted,
        observed,
        xlabel="predicted from the other rows" if left_out else "fitted",
        title=titled(f"{label(names[i])}: observed and {'predicted' if left_out else 'fitted'} values", note),
        ax=ax,
    )


def plot_residuals(
    res: LinearEstimates, kind: str = "fitted", *, target: str | int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw residuals against fitted values, or their ordered values against normal quantiles.

    Parameters
    ----------
    kind : {"fitted", "qq"}
        ``"fitted"``: over fitted values, with a smooth line where there are ten rows or more. ``"qq"``: a
        normal QQ plot, with the line through the quartiles.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of pyplot's by default.

    Returns
    -------
    matplotlib.axes.Axes
        Residuals of weighted rows are multiplied by the roots of their weights (of mean 1), so that
        all have the same variance; the label says so.

    Raises
    ------
    ValueError
        For an unknown kind or target, or if the rows were removed.
    ImportError
        If matplotlib is missing.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    names = res.model.data.targets
    i = target_position(names, target, "plot_residuals")
    residual = _column(res.arrays.resid, i)
    weights = res.model.weights
    if weights is not None:
        residual = residual * np.sqrt(weights)
    ylabel = "residual" if weights is None else "residual times root of weight"
    if kind == "qq":
        return rows.normal_qq(residual, ylabel=ylabel, title=f"{label(names[i])}: normal QQ plot", ax=ax)
    title = f"{label(names[i])}: residuals"
    return rows.residuals(_column(res.arrays.fittedvalues, i), residual, ylabel=ylabel, title=title, ax=ax)


def _column(values: FloatArray, i: int) -> FloatArray:
    return values if values.ndim == 1 else values[:, i]
