"""Linear combinations of coefficients: their posterior, and the answer to what least squares calls a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.data.frames import to_pandas
from pybayesridge.formula.late import constraints
from pybayesridge.posterior.laws import Answer, Ask, RowLaw, pooled
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.text import did_you_mean, listed

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.formula.constraints import Combination
    from pybayesridge.results.estimates import LinearEstimates

REFUSED = (
    "these results have no {name}: the estimates are shrunken, so that tests and p-values of least squares do not "
    "apply. Use contrast(), whose column prob_positive is the posterior probability that a coefficient, or a "
    "combination of several, is positive"
)
"""The message of what statsmodels has for least squares."""


class Parts(Protocol):
    """Results of one fit, or of several whose posteriors are mixed."""

    @property
    def parts(self) -> Sequence[LinearEstimates]:
        """The fits whose posteriors are mixed."""

    @property
    def shares(self) -> FloatArray | None:
        """Their weights, which sum to 1; None for equal ones."""


def contrast(
    res: LinearEstimates,
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
        ``prob_zero``, the probability of exactly 0, which ``prob_positive`` does not include, and if sets of columns
        were sampled ``mcse``, the Monte Carlo standard error of the mean.

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
        "mean": answer.center[:, 0],
        "sd": answer.sd[:, 0],
        "lower": answer.quantiles[:, 0, 0] + 0.0,  # no negative zeros
        "upper": answer.quantiles[:, 0, 1] + 0.0,
        "prob_positive": answer.above[:, 0],
    }
    if answer.mass_at_zero is not None:
        columns["prob_zero"] = answer.mass_at_zero[:, 0]
    if answer.mcse is not None:
        columns["mcse"] = answer.mcse[:, 0]
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
        out = constraints.combinations(given, names)
    elif isinstance(given, Mapping):
        out = [_labelled(str(label), text, names) for label, text in given.items()]
    elif isinstance(given, pd.Series) and not all(isinstance(each, str) for each in given):
        out = _of_frame(given.to_frame(str(given.name or "contrast")).T, names)
    elif isinstance(given, pd.DataFrame):
        out = _of_frame(given, names)
    elif (parts := list(given) if isinstance(given, Sequence | pd.Series) else []) and all(
        isinstance(each, str) for each in parts
    ):
        out = [each for part in parts for each in constraints.combinations(part, names)]
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
    parts = constraints.combinations(text, names) if isinstance(text, str) else []
    if len(parts) != 1:
        raise ValueError(f"the contrast {label!r} must be one contrast as text, not {text!r}")
    return constraints.Combination(label, parts[0].weights, parts[0].value)


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
    return [constraints.Combination(str(label), row, 0.0) for label, row in zip(frame.index, weights, strict=True)]


def _of_array(array: ArrayLike, names: list[str]) -> list[Combination]:
    weights = np.atleast_2d(_numbers(array))
    if weights.ndim != 2 or weights.shape[1] != len(names):
        raise ValueError(
            f"contrasts has shape {np.shape(array)}: it needs a column for each of the {len(names)} coefficients of "
            f"params ({listed(names)}), or names"
        )
    return [constraints.Combination(f"row {i}", row, 0.0) for i, row in enumerate(weights)]


def _numbers(values: ArrayLike) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "contrasts must be text, a list of text, a dict from labels to text, or an array or frame of numbers"
        ) from None


def law_of(res: Parts, weights: FloatArray | Sequence[FloatArray], offset: FloatArray, target: int) -> RowLaw:
    """The law of combinations of coefficients with `weights` (m, k), plus `offset` (m,).

    Of pooled fits the weights may be a list with those for each fit.
    """
    each: list[FloatArray] = list(weights) if isinstance(weights, list) else [np.asarray(weights)] * len(res.parts)
    return pooled([part.row_law(own, offset, target) for part, own in zip(res.parts, each, strict=True)], res.shares)


def combined(
    res: Parts,
    weights: FloatArray | Sequence[FloatArray],
    value: FloatArray,
    alpha: float,
    target: int,
) -> Answer:
    """The posterior of combinations of coefficients with `weights` (m, k), less `value` (m,), and their interval."""
    return law_of(res, weights, -value, target).ask(Ask((alpha / 2, 1 - alpha / 2), above=True))
