"""Linear combinations of coefficients: their posterior, and the answer to what least squares calls a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.binomial.posterior import BinaryPosterior
from pybayesridge.data.frames import to_pandas
from pybayesridge.ep.posterior import SelectionPosterior, mixture_quantile, rows_within_unit, tail_of_unit
from pybayesridge.formula.constraints import Combination, combinations
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.ridge.posterior import RidgePosterior
from pybayesridge.selection.posterior import ExactPosterior
from pybayesridge.text import did_you_mean, listed

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.results.base import LinearResults

REFUSED = (
    "these results have no {name}: the estimates are shrunken, so that tests and p-values of least squares do not "
    "apply. Use contrast(), whose column prob_positive is the posterior probability that a coefficient, or a "
    "combination of several, is positive"
)
"""The message of what statsmodels has for least squares."""

NEXT_TO_ZERO = 1e-12
"""Distance from 0, in standard deviations, that is left of a bisection."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Contrasts as rows over the penalised columns (m, p) and the unpenalised ones (m, k), user's scale.

    `value` (m,) is subtracted.
    """

    x: FloatArray
    z: FloatArray
    value: FloatArray


@dataclass(frozen=True, slots=True)
class Answer:
    """The posterior of m combinations of coefficients, less their values.

    Attributes
    ----------
    mean, sd : (m,) arrays
    interval : (m, 2) array
        Equal-tailed.
    positive : (m,) array
        Probabilities of a value above 0.
    zero : (m,) array or None
        Probabilities of exactly 0, for variable selection.
    """

    mean: FloatArray
    sd: FloatArray
    interval: FloatArray
    positive: FloatArray
    zero: FloatArray | None = None


def contrast(
    res: LinearResults,
    contrasts: str | Sequence[str] | Mapping[str, str] | ArrayLike | pd.Series | IntoDataFrame,
    *,
    alpha: float = 0.05,
    target: str | int | None = None,
) -> pd.DataFrame:
    """Posterior of linear combinations of coefficients, such as the difference of two.

    Parameters
    ----------
    contrasts : str, sequence of str, dict, array-like, Series or frame
        ``"x1 - x2"``; several with commas between them or in a list; a dict from labels to contrasts. What stands
        on the right of ``=`` is subtracted: ``"x1 = 2"`` is ``x1 - 2``. Names that contain spaces or signs
        (``"`body mass` - age"``) go in backticks or quotes; terms such as ``C(site)[T.Lyon]`` are written as they
        are. Or weights: an array with a row for each contrast and a column for each coefficient in the order of
        `params`, a frame with columns named after coefficients, a Series of one contrast; coefficients that a frame
        or a Series does not name have weight 0.
    alpha : float, default 0.05
        One minus the probability of the intervals.
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    DataFrame
        A row for each contrast, labelled by its text: ``mean``, ``sd``, ``lower``, ``upper`` (the equal-tailed
        credible interval) and ``prob_positive``, the posterior probability of a value above 0. Of a SpikeSlab also
        ``prob_zero``, the probability of exactly 0, which ``prob_positive`` does not include.

    Raises
    ------
    ValueError
        For a contrast that cannot be parsed, is not linear, has no coefficient, or names one that is not there; if
        the results were saved without the space of the rows.

    Notes
    -----
    For the ridge the posterior is a mixture over the penalty of normal or t distributions, the one from which the
    intervals of coefficients and predictions come. With ``family="binomial"`` contrasts are on the scale of the link,
    and `mean` is the posterior median where `params` are medians. For ``SpikeSlab.fit("exact")`` it is a mixture over
    the sets of columns, with a point mass where no column of the contrast is in. Expectation propagation gives spike
    and slab for the columns of one group, and so for a single coefficient; contrasts across groups follow from its
    joint Gaussian, which has no point mass: there ``prob_zero`` is NaN, or 0 if an unpenalised coefficient takes
    part.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
    >>> res.contrast("UNEMP - ARMED, UNEMP = -1").round(2)
                   mean    sd  lower  upper  prob_positive
    UNEMP - ARMED -0.32  0.24  -0.79   0.15           0.08
    UNEMP = -1     0.26  0.25  -0.22   0.77           0.87
    """
    i = target_position(res.model.data.targets, target, "contrast")
    check_alpha(alpha)
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="a contrast"))
    weights, value, labels = read_contrasts(contrasts, list(res.model.exog_names))
    return as_table(combined(res, weights, value, alpha, i), labels)


def read_contrasts(contrasts: Any, names: list[str]) -> tuple[FloatArray, FloatArray, list[str]]:
    """Weights (m, k), values (m,) and labels of contrasts however they are given."""
    asked = _combinations(contrasts, names)
    weights = np.stack([each.weights for each in asked])
    return weights, np.array([each.value for each in asked]), [each.text for each in asked]


def as_table(answer: Answer, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """A row for each combination: mean, sd, interval and probabilities."""
    columns = {
        "mean": answer.mean,
        "sd": answer.sd,
        "lower": answer.interval[:, 0] + 0.0,  # no negative zeros
        "upper": answer.interval[:, 1] + 0.0,
        "prob_positive": answer.positive,
    }
    if answer.zero is not None:
        columns["prob_zero"] = answer.zero
    return pd.DataFrame(columns, index=None if labels is None else list(labels))


class refused(property):  # noqa: N801
    """A property that raises an AttributeError, with a sentence on what to use instead."""

    def __init__(self, name: str) -> None:
        def refuse(_: object) -> NoReturn:
            raise AttributeError(REFUSED.format(name=name))

        super().__init__(refuse, doc="Not available: of least squares. Use :meth:`contrast`.")


def _combinations(contrasts: Any, names: list[str]) -> list[Combination]:
    given = to_pandas(contrasts, "contrasts")
    if isinstance(given, str):
        out = combinations(given, names)
    elif isinstance(given, Mapping):
        out = [_labelled(str(label), text, names) for label, text in given.items()]
    elif isinstance(given, pd.Series) and not all(isinstance(each, str) for each in given):
        out = _of_frame(given.to_frame(str(given.name or "contrast")).T, names)
    elif isinstance(given, pd.DataFrame):
        out = _of_frame(given, names)
    elif (parts := list(given) if isinstance(given, Sequence | pd.Series) else []) and all(
        isinstance(each, str) for each in parts
    ):
        out = [each for part in parts for each in combinations(part, names)]
    else:
        out = _of_array(given, names)
    if not out:
        raise ValueError("contrasts is empty: write a contrast such as 'x1 - x2'")
    for each in out:
        if not np.any(each.weights):
            raise ValueError(f"the contrast {each.text!r} has no coefficient, or they cancel")
        if not (np.isfinite(each.weights).all() and np.isfinite(each.value)):
            raise ValueError(f"the contrast {each.text!r} has weights that are not finite numbers")
    return out


def _labelled(label: str, text: object, names: list[str]) -> Combination:
    parts = combinations(text, names) if isinstance(text, str) else []
    if len(parts) != 1:
        raise ValueError(f"the contrast {label!r} must be one contrast as text, not {text!r}")
    return Combination(label, parts[0].weights, parts[0].value)


def _of_frame(frame: pd.DataFrame, names: list[str]) -> list[Combination]:
    columns = [str(name) for name in frame.columns]
    unknown = [name for name in columns if name not in names]
    if unknown:
        near = did_you_mean(unknown[0], names) if len(unknown) == 1 else ""
        raise ValueError(f"contrasts names {listed(unknown)}, not coefficients of the fit{near}")
    if len(set(columns)) < len(columns):
        raise ValueError("contrasts names a coefficient more than once")
    weights = np.zeros((len(frame), len(names)))
    weights[:, [names.index(name) for name in columns]] = _numbers(frame.to_numpy())
    return [Combination(str(label), row, 0.0) for label, row in zip(frame.index, weights, strict=True)]


def _of_array(array: ArrayLike, names: list[str]) -> list[Combination]:
    weights = np.atleast_2d(_numbers(array))
    if weights.ndim != 2 or weights.shape[1] != len(names):
        raise ValueError(
            f"contrasts has shape {np.shape(array)}: it needs a column for each of the {len(names)} coefficients of "
            f"params ({listed(names)}), or names"
        )
    return [Combination(f"row {i}", row, 0.0) for i, row in enumerate(weights)]


def _numbers(values: ArrayLike) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "contrasts must be text, a list of text, a dict from labels to text, or an array or frame of numbers"
        ) from None


def combined(res: LinearResults, weights: FloatArray, value: FloatArray, alpha: float, target: int) -> Answer:
    """The posterior of combinations of coefficients with `weights` (m, k), less `value` (m,)."""
    posterior, rows = res.posterior, _rows(res, weights, value)
    if isinstance(posterior, RidgePosterior):
        return _of_ridge(posterior, rows, alpha, target)
    if isinstance(posterior, BinaryPosterior):
        return _of_binary(posterior, rows, alpha)
    if isinstance(posterior, ExactPosterior):
        return _of_exact(posterior, rows, alpha)
    assert isinstance(posterior, SelectionPosterior)
    return _of_ep(posterior, rows, alpha)


def exceedance(res: LinearResults, weights: FloatArray, at: FloatArray, target: int) -> FloatArray:
    """Posterior probability that combinations of coefficients with `weights` (m, k) are larger than `at`, (m,)."""
    posterior, rows = res.posterior, _rows(res, weights, at)
    if isinstance(posterior, RidgePosterior):
        return posterior.row_exceedance(posterior.row_functions(rows.x, rows.z), at)[:, target]
    if isinstance(posterior, BinaryPosterior):
        return posterior.linear_exceedance(rows.x, rows.z, at)
    if isinstance(posterior, ExactPosterior):
        return posterior.row_exceedance(rows.x, rows.z, at)[0]
    assert isinstance(posterior, SelectionPosterior)
    return posterior.exceedance(rows.x, rows.z, at)


def _rows(res: LinearResults, weights: FloatArray, value: FloatArray) -> _Rows:
    of_z, penalized = res.model.positions(res.posterior.design)
    return _Rows(weights[:, penalized], weights[:, of_z], value)


def _of_ridge(posterior: RidgePosterior, rows: _Rows, alpha: float, target: int) -> Answer:
    prepared = posterior.row_functions(rows.x, rows.z)
    mean, sd = (each[:, target] for each in posterior.row_moments(prepared))
    interval = posterior.row_intervals(prepared, alpha, None)[:, target]
    positive = posterior.row_exceedance(prepared, rows.value)[:, target]
    return Answer(mean - rows.value, sd, interval - rows.value[:, None], positive)


def _of_binary(posterior: BinaryPosterior, rows: _Rows, alpha: float) -> Answer:
    _, sd = posterior.linear_moments(rows.x, rows.z)
    quantiles = posterior.linear_quantiles(rows.x, rows.z, np.array([alpha / 2, 1 - alpha / 2]))
    positive = posterior.linear_exceedance(rows.x, rows.z, rows.value)
    mean = posterior.linear_centers(rows.x, rows.z)
    return Answer(mean - rows.value, sd, quantiles - rows.value[:, None], positive)


def _of_ep(posterior: SelectionPosterior, rows: _Rows, alpha: float) -> Answer:
    mean, sd = posterior.row_moments(rows.x, rows.z)
    interval = posterior.row_intervals(rows.x, rows.z, alpha, None)
    positive = posterior.row_exceedance(rows.x, rows.z, rows.value)
    certain = (rows.z != 0).any(axis=1) | ((rows.x != 0) & (posterior.selection.inclusion_prob >= 1)).any(axis=1)
    zero = np.where(sd > 0, np.where(certain, 0.0, np.nan), mean == rows.value)
    own = rows_within_unit(rows.x, rows.z, posterior.units())
    if own.any():
        slab_mean, slab_sd, weight = posterior.within_unit(rows.x[own])
        spike, value = np.maximum(1.0 - weight.sum(axis=0), 0.0), rows.value[own]
        tails = (alpha / 2, 1 - alpha / 2)
        interval[own] = np.stack([mixture_quantile(slab_mean, slab_sd, weight, at) for at in tails], axis=-1)
        positive[own] = tail_of_unit(slab_mean, slab_sd, weight, value)
        at_value = (weight * ((slab_sd == 0) & (slab_mean == value))).sum(axis=0)
        zero[own] = at_value + spike * (value == 0)
    return Answer(mean - rows.value, sd, interval - rows.value[:, None], np.clip(positive, 0.0, 1.0), zero)


def _of_exact(posterior: ExactPosterior, rows: _Rows, alpha: float) -> Answer:
    mean, sd = posterior.row_moments(rows.x, rows.z)
    interval = posterior.row_intervals(rows.x, rows.z, alpha, None)
    # A bisection ends next to a point mass at 0.
    interval[np.abs(interval) <= NEXT_TO_ZERO * sd[:, None]] = 0.0
    single = ((rows.x != 0).sum(axis=1) == 1) & ~(rows.z != 0).any(axis=1)
    if single.any():
        column = np.abs(rows.x[single]).argmax(axis=1)
        weight = rows.x[single, column]
        sd[single] = np.abs(weight) * posterior.standard_deviations()[1][column]
        ends = weight[:, None] * posterior.intervals(alpha)[1][column]
        interval[single] = np.sort(ends, axis=1)
    positive, zero = posterior.row_exceedance(rows.x, rows.z, rows.value)
    return Answer(mean - rows.value, sd, interval - rows.value[:, None], positive, zero)
