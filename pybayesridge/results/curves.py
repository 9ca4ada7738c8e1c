"""Smooth curves of a formula alone, without the rest of the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.formula.late import build as formulas
from pybayesridge.formula.late import names as formula_names
from pybayesridge.posterior.laws import Ask
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.text import did_you_mean, listed

if TYPE_CHECKING:
    from pybayesridge.formula.bands import Band
    from pybayesridge.results.band_estimates import BandEstimates

POINTS = 101
"""Values of a variable at which its curve is given by default."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A smooth curve at some values.

    Attributes
    ----------
    name : str
        Of its band.
    variable : str
        The column of the data that it is a function of.
    at : (m,) array
    mean, sd : (m,) arrays
    interval : (m, 2) array
    """

    name: str
    variable: str
    at: FloatArray
    mean: FloatArray
    sd: FloatArray
    interval: FloatArray


def curve(res: BandEstimates, name: str | None, at: ArrayLike | None, alpha: float, target: Any) -> Curve:
    """The curve of a band with its interval; see :meth:`BandRidgeResults.smooth`."""
    tails = check_alpha(alpha) / 2, 1 - alpha / 2
    i = target_position(res.model.data.targets, target, "smooth")
    band = _band(res, name)
    variable = _variable(res, band)
    values = _values(res, band, variable, at)
    frame = pd.DataFrame({variable: values})
    if band.by is not None:
        frame[band.by[0]] = 1.0 if band.by[1] is None else [band.by[1]] * len(frame)
    spec = res.model.formula_spec
    assert spec is not None
    spec.refuse_lost()
    (coded,) = formulas.bands_at((band,), frame, spec.context)
    where = {column: j for j, column in enumerate(res.model.exog_names)}
    weights = np.zeros((values.size, len(where)))
    weights[:, [where[column] for column in band.all_columns]] = np.hstack([coded.unpenalized, coded.penalized])
    if not np.isfinite(weights).all():
        raise ValueError(f"{band.name} is no number at some of the values of {variable!r} asked for")
    found = res.row_law(weights, np.zeros(values.size), i).ask(Ask(tails))
    return Curve(band.name, variable, values, found.mean[:, 0], found.sd[:, 0], found.quantiles[:, 0])


def smooth(
    res: Any,
    band: str | None = None,
    at: ArrayLike | None = None,
    alpha: float = 0.05,
    target: str | int | None = None,
) -> pd.DataFrame:
    """The smooth curve ``s(x)`` of a formula, without the rest of the prediction: its mean over the rows is 0.

    Parameters
    ----------
    band : str, optional
        Its name, such as ``"s(x)"`` or ``"s(x):g[a]"``; needed where there are several.
    at : array-like, optional
        Values of the variable; 101 from the smallest to the largest of the fit by default.
    alpha : float
        One minus the probability of the interval at each value.
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    DataFrame
        A row for each value: ``mean``, ``sd``, ``lower``, ``upper``. Of a curve that a number multiplies,
        ``s(x, by=z)``, the number being 1.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + s(YEAR, k=5)", longley, unpenalized="fixed").fit()
    >>> list(res.smooth(at=[1950, 1960]).columns)
    ['mean', 'sd', 'lower', 'upper']
    """
    found = curve(res, band, at, alpha, target)
    index = pd.Index(found.at, name=found.variable)
    values = np.column_stack([found.mean, found.sd, found.interval])
    return pd.DataFrame(values, index=index, columns=["mean", "sd", "lower", "upper"])


def _band(res: BandEstimates, name: str | None) -> Band:
    spec = res.model.formula_spec
    known = {} if spec is None else {band.name: band for band in spec.bands if band.kind == "smooth"}
    if not known:
        raise ValueError("the formula of the fit has no smooth curve, s(x)")
    if name is None and len(known) > 1:
        raise ValueError(f"there are the curves {listed(known)}: say which")
    name = next(iter(known)) if name is None else name
    if name not in known:
        raise ValueError(f"there is no curve {name!r}{did_you_mean(str(name), known)}")
    return known[name]


def _variable(res: BandEstimates, band: Band) -> str:
    spec = res.model.formula_spec
    assert spec is not None
    read = [name for name in spec.variables if name in formula_names.names_of(band.spec.formula).read]
    if len(read) != 1:
        raise ValueError(f"{band.name} is a function of several variables ({listed(read)}): use predictions()")
    return read[0]


def _values(res: BandEstimates, band: Band, variable: str, at: ArrayLike | None) -> FloatArray:
    """The values asked for, or the range of the data."""
    if at is not None:
        values = np.atleast_1d(np.asarray(at, dtype=np.float64))
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise ValueError(f"values of {variable!r} must be finite numbers")
        return values
    if res.model.variables is None:
        raise ValueError(f"the data of this fit are not in memory: give values of {variable!r}, at=[...]")
    column = res.model.variables[variable].to_numpy(dtype=np.float64)
    return np.linspace(column.min(), column.max(), POINTS)
