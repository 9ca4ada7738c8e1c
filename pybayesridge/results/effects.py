"""Effects of variables, and predictions at chosen values, with their posterior."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import RandomLike, RowsLike
from pybayesridge.checks import check_which
from pybayesridge.formula.late import build as formulas
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.averages import Change, effects_of, predictions_of
from pybayesridge.results.variables import Variables
from pybayesridge.text import listed, number

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.results.estimates import LinearEstimates

MOST = 200
"""Without names, effects of at most this many variables."""


def effects(
    res: LinearEstimates,
    variables: str | Sequence[str] | None = None,
    *,
    values: Sequence[Any] | None = None,
    data: RowsLike | None = None,
    alpha: float = 0.05,
    which: str = "mean",
    rng: RandomLike = 0,
    target: str | int | None = None,
) -> pd.DataFrame:
    """Average changes of the prediction with a variable, whatever terms of the formula it is in.

    Parameters
    ----------
    variables : str or sequence of str, optional
        Variables of the data (columns, for fits without a formula), not coefficients; by default all but groups, as
        in ``(1 | g)``, whose effects ``random_effects()`` has.
    values : (a, b), optional
        Compare the predictions at the value or level b with those at a. By default a number has its average effect
        per unit, and each level of a factor is compared with the reference level.
    data : frame, dict or array-like, optional
        Rows over which changes are averaged; those of the fit by default. Rows with missing values are treated as by
        the fit: left out, or with ``missing="raise"`` refused.
    alpha : float, default 0.05
        One minus the probability of the intervals.
    which : {"mean", "linear"}
        With ``family="binomial"``: changes of probabilities, or of the linear predictor.
    rng : numpy.random.Generator, int or None
        For changes of probabilities that follow from 4,000 draws from the posterior, by default the same at each
        call; see the notes.
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    DataFrame
        A row for each effect, labelled by ``variable`` and ``change``; columns as in :meth:`contrast`: ``mean``,
        ``sd``, ``lower``, ``upper``, ``prob_positive``, and of a SpikeSlab ``prob_zero`` and if sets of columns were
        sampled ``mcse``, the Monte Carlo standard error of the mean. Effects on probabilities also have it; it is 0
        where nothing was drawn.

    Raises
    ------
    ValueError
        For an unknown variable, or a value that it cannot have; for the effect per unit of a variable of which the
        prediction is a step function; if the data were removed and are not given.

    Notes
    -----
    All other variables keep the values that they have in each row. Rows count alike, with ``family="binomial"`` as
    often as they have trials and weights. The effect per unit is the average over rows of the derivative of the
    prediction, by differences of the design within the range of the data. A prediction is linear in the
    coefficients, and so is an effect: its posterior is that of the contrast with the averaged differences of the
    rows of the design as weights. A change of probabilities is not linear. For a BayesRidge its mean and its
    distribution given its linear part follow by quadrature, and the rest of its variance is added to that of the
    linear part: quantiles are within .06 standard deviations of those of long simulations. Where that rest is more
    than 3 %, as with few events or separated responses, and for a SpikeSlab, changes of probabilities are drawn from
    the posterior. By expectation propagation the coefficients of a variable whose columns are all in one unit of
    selection are drawn by spike and slab, and changes with columns of several units from the joint Gaussian, which
    has no point mass: there ``prob_zero`` is as in :meth:`contrast`. Of counts ``mean`` is the median, which is 0
    where a change is more probably zero than not, and ``sd`` half the distance of the quantiles one standard
    deviation below and above. An effect is a statement on the predictions of the model; it is causal only if the
    model is.

    Warns
    -----
    ExtrapolationWarning
        For values outside the range of the data of the fit.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ np.log(GNP) + UNEMP", longley).fit()
    >>> res.effects("GNP", values=(300000, 500000)).round(0).to_numpy().tolist()
    [[6752.0, 469.0, 5796.0, 7660.0, 1.0]]
    """
    i, alpha = checked(res, target, which, alpha, "effects")
    founds = variables_of(res, data)
    found = founds[0]
    changes = [change for name in _names(found, variables) for change in _changes(found, name, values)]
    if values is not None:
        found.warn_outside({change.variable: change.ends for change in changes})
    table = effects_of(res, founds, changes, alpha=alpha, which=which, rng=rng, target=i)
    labels = [(change.variable, change.label) for change in changes]
    return table.set_axis(pd.MultiIndex.from_tuples(labels, names=["variable", "change"]), axis=0)


def predictions(
    res: LinearEstimates,
    grid: Mapping[str, Any] | IntoDataFrame | None = None,
    *,
    at: str = "mean",
    data: RowsLike | None = None,
    alpha: float = 0.05,
    which: str = "mean",
    rng: RandomLike = 0,
    target: str | int | None = None,
) -> pd.DataFrame:
    """Predictions at chosen values of some variables.

    Parameters
    ----------
    grid : dict or frame, optional
        Values by variable: of a dict all combinations, of a frame its rows. Without it there is one prediction.
    at : {"mean", "observed"}
        The other variables: ``"mean"`` puts numbers at their mean, factors at their reference level and groups, as in
        ``(1 | g)``, in the middle of their population;
        ``"observed"`` leaves them as they are in each row, and averages the predictions over the rows.
    data : frame, dict or array-like, optional
        Rows of which the means are taken, or over which predictions are averaged; those of the fit by default. Rows
        with missing values are treated as by the fit: left out, or with ``missing="raise"`` refused.
    alpha : float, default 0.05
        One minus the probability of the intervals.
    which : {"mean", "linear"}
        With ``family="binomial"``: probabilities, or linear predictors.
    rng : numpy.random.Generator, int or None
        For averages of probabilities that follow from 4,000 draws from the posterior, by default the same at each
        call; see the notes of :meth:`effects`.
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    DataFrame
        A row for each combination, labelled by the values of the grid: ``mean``, ``sd``, ``lower`` and ``upper`` (the
        equal-tailed credible interval of the expected response; :meth:`get_prediction` also has the interval of a
        new observation). Averages of probabilities, and selections that sampled sets of columns, also have ``mcse``,
        the Monte Carlo standard error of the mean, which is 0 where nothing was drawn.

    Raises
    ------
    ValueError
        For an unknown variable, or a value that it cannot have; if the data were removed and are not given.

    Warns
    -----
    ExtrapolationWarning
        For values outside the range of the data of the fit.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ np.log(GNP) + UNEMP", longley).fit()
    >>> res.predictions({"GNP": [300000, 500000]}).round(0)
                 mean     sd    lower    upper
    GNP
    300000.0  62358.0  283.0  61806.0  62932.0
    500000.0  69110.0  328.0  68446.0  69748.0
    """
    i, alpha = checked(res, target, which, alpha, "predictions")
    founds = variables_of(res, data)
    return predictions_of(res, founds, as_grid(founds[0], grid), at=at, alpha=alpha, which=which, rng=rng, target=i)


def variables_of(res: LinearEstimates, data: RowsLike | None) -> list[Variables]:
    """The variables of each of the fits whose posteriors count alike; warnings are those of the first."""
    return [Variables.of(part.model, data, warn=i == 0) for i, part in enumerate(res.parts)]


def as_grid(found: Variables, grid: Any) -> pd.DataFrame:
    """The points of a grid, a row for each, with checked values."""
    if grid is None:
        return pd.DataFrame(index=range(1))
    if isinstance(grid, Mapping):
        lists = {found.checked(name): _listed(values) for name, values in grid.items()}
        empty = [name for name, values in lists.items() if not values]
        if empty:
            raise ValueError(f"grid has no values of {listed(empty)}")
        rows = list(itertools.product(*lists.values()))
        frame = pd.DataFrame(rows, columns=list(lists), index=range(len(rows)), dtype=object)
    else:
        if isinstance(grid, str | Sequence | float | int):
            raise ValueError(
                f'grid must be a dict of values by variable, such as {{"x": [0, 1]}}, or a frame, not {grid!r}'
            )
        frame = formulas.to_frame(grid).reset_index(drop=True)
        if frame.empty:
            raise ValueError("grid has no rows")
    out = pd.DataFrame(index=frame.index)
    for name in map(found.checked, frame.columns):
        out[name] = [found.check_value(name, value) for value in frame[name].tolist()]
    return out


def checked(res: LinearEstimates, target: str | int | None, which: str, alpha: float, what: str) -> tuple[int, float]:
    """The target's position and alpha, where what effects and predictions need is there."""
    i = target_position(res.model.data.targets, target, what)
    check_which(which)
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what=what))
    return i, check_alpha(alpha)


def _listed(values: Any) -> list[Any]:
    if isinstance(values, str) or np.ndim(values) == 0:
        return [values]
    return pd.Series(values).tolist()


def _names(found: Variables, variables: Any) -> list[str]:
    if variables is None:
        spec = found.model.formula_spec
        names = [name for name in found.names if spec is None or name not in spec.groups]
        if not names:
            has = "variables but groups, of which random_effects() has the effects" if found.names else "variables"
            raise ValueError(f"the fit has no {has}")
        if len(names) > MOST:
            raise ValueError(f"the fit has {len(names)} variables: name those whose effects are asked for")
        return names
    if isinstance(variables, Mapping):
        raise ValueError("variables are given by name, and their values by values=: effects('x', values=(0, 1))")
    asked = list(dict.fromkeys(_listed(variables)))
    if not asked:
        raise ValueError("variables is empty: name the variables, or leave it out")
    return [found.checked(name) for name in asked]


def _changes(found: Variables, name: str, values: Any) -> list[Change]:
    levels = found.levels(name)
    if values is not None:
        pair = _listed(values)
        if len(pair) != 2:
            raise ValueError(f"values must be two values to compare, (a, b), not {values!r}")
        a, b = (found.check_value(name, value) for value in pair)
        return [Change(name, _label(a, b, is_number=levels is None), (a, b))]
    if levels is None:
        return [Change(name, "per unit", None)]
    return [Change(name, _label(levels[0], b, is_number=False), (levels[0], b)) for b in levels[1:]]


def _label(a: Any, b: Any, *, is_number: bool) -> str:
    return f"{number(a)} to {number(b)}" if is_number else f"{b} - {a}"
