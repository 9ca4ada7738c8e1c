"""Models side by side: what is read of each fit, of this package or of statsmodels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, Names
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.base import LinearResults
from pybayesridge.text import did_you_mean, listed, repeated

if TYPE_CHECKING:
    from pybayesridge.results.summary.comparison import ModelTable

SHOWS = ("sd", "interval")

VALUES = ("estimate", "sd", "lower", "upper", "inclusion_prob")
"""What is read of each coefficient."""

SAME_RESPONSE = 1e-9
"""Largest difference between responses that are the same, relative to the largest value."""

OF_STATSMODELS = (
    "{names}: standard errors and confidence intervals of statsmodels; for the other models these are posterior "
    "standard deviations and credible intervals."
)

EVIDENCE = (
    "The log marginal likelihood of a ridge and the log evidence of a selection leave out different constants: "
    "compare fits of one kind, with the same rows and unpenalised columns."
)

NOT_COMPARABLE = "their numbers cannot be compared"


@dataclass(frozen=True, slots=True)
class _Fit:
    """What a column of the table shows.

    Attributes
    ----------
    coefficients : DataFrame
        A row for each coefficient, the columns `VALUES`; NaN for what a fit does not have.
    facts : dict
        Numbers of the whole fit by name.
    response : str
    observed : (n,) array or None
        The response.
    own : bool
        Whether the fit is of this package.
    """

    coefficients: pd.DataFrame
    facts: dict[str, float]
    response: str
    observed: FloatArray | None
    own: bool


def compare_models(
    fits: Mapping[str, Any], *, alpha: float = 0.05, show: str = "sd", terms: Names | None = None
) -> ModelTable:
    """Put the estimates of several models side by side.

    Parameters
    ----------
    fits : dict
        Results by the name of their column: of BayesRidge, of SpikeSlab, and of statsmodels (such as OLS and Logit).
    alpha : float, default 0.05
        One minus the probability of the intervals.
    show : {"sd", "interval"}
        What stands below each estimate: the posterior standard deviation, or the interval.
    terms : str or sequence of str, optional
        Coefficients to show, by name; by default all, or if there are more than 60 the 30 that are largest relative
        to their standard deviation.

    Returns
    -------
    ModelTable
        ``print`` shows it as text; ``as_html()``, ``as_latex()``, ``as_csv()`` and ``to_markdown()`` are other
        formats, and ``frame`` has all numbers.

    Raises
    ------
    ValueError
        For something else than results, results with several responses, or an unknown term.

    Notes
    -----
    The table has a row for each coefficient (with the inclusion probability, PIP, of a SpikeSlab), and then the
    number of rows, R-squared, sigma (of a row of average weight), the log marginal likelihood of a ridge or the log
    evidence of a SpikeSlab, and leave-one-out R-squared and log score where a fit has them. If the models have
    different responses or rows, a note says so.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> import statsmodels.formula.api as smf
    >>> from pybayesridge import BayesRidge, SpikeSlab, compare_models
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> formula = "TOTEMP ~ UNEMP + ARMED"
    >>> ridge, selection = (model.from_formula(formula, longley).fit() for model in (BayesRidge, SpikeSlab))
    >>> table = compare_models({"ridge": ridge, "selection": selection, "OLS": smf.ols(formula, longley).fit()})
    >>> table.frame.loc["UNEMP"].round(2).loc[["estimate", "sd"], ["ridge", "OLS"]].to_numpy().tolist()
    [[1.85, 2.26], [0.81, 0.7]]
    """
    from pybayesridge.results.summary.comparison import comparison_table

    check_alpha(alpha)
    if show not in SHOWS:
        raise ValueError(f"show must be 'sd' or 'interval', not {show!r}")
    if not isinstance(fits, Mapping) or not fits:
        raise ValueError("fits must be a dict from names to results, with at least one fit")
    if len({str(name) for name in fits}) < len(fits):
        raise ValueError(f"the names of fits must differ as text, not {listed(fits)}")
    read = {str(name): _read(str(name), fit, alpha) for name, fit in fits.items()}
    return comparison_table(_frame(read), _notes(read), show=show, alpha=alpha, terms=_terms(read, terms))


def _read(name: str, fit: Any, alpha: float) -> _Fit:
    inner = getattr(fit, "unlabelled", fit)
    if isinstance(inner, LinearResults):
        if not inner.model.one_target:
            raise ValueError(f"the fit {name!r} has several responses: fit those to compare one by one")
        return _own(inner, alpha)
    if not all(hasattr(fit, attribute) for attribute in ("params", "bse", "conf_int", "model")):
        raise ValueError(
            f"the fit {name!r} is {type(fit).__name__}, neither results of this package nor of statsmodels"
        )
    if np.ndim(fit.params) != 1:
        raise ValueError(f"the fit {name!r} has several responses: fit those to compare one by one")
    return _of_statsmodels(fit, alpha)


def _own(res: LinearResults, alpha: float) -> _Fit:
    interval = res.conf_int(alpha)
    inclusion = getattr(res, "inclusion_prob", np.full(len(res.params), np.nan))
    sigma2 = getattr(res, "sigma2", np.nan)
    selects = hasattr(res, "inclusion_prob")
    facts = {
        "N": res.nobs,
        "R-squared": float(res.rsquared),
        "sigma": float(np.sqrt(sigma2)),
        "log marginal": np.nan if selects else float(getattr(res, "log_marginal", np.nan)),
        "log evidence": float(getattr(res, "log_evidence", np.nan)) if selects else np.nan,
        "LOO R-squared": _left_out(res, "loo_rsquared"),
        "LOO log score": _left_out(res, "loo_log_score"),
    }
    columns = [res.params, res.bse, interval[:, 0], interval[:, 1], inclusion]
    coefficients = pd.DataFrame(dict(zip(VALUES, columns, strict=True)), index=list(res.model.exog_names))
    return _Fit(coefficients, facts, res.model.data.targets[0], _numbers(res.model.endog), own=True)


def _left_out(res: LinearResults, name: str) -> float:
    """A leave-one-out score, NaN where a fit has none or its rows are not in memory."""
    return float(getattr(res, name, np.nan)) if res.model.endog is not None else np.nan


def _of_statsmodels(fit: Any, alpha: float) -> _Fit:
    params, interval = fit.params, np.asarray(fit.conf_int(alpha=alpha), dtype=np.float64)
    names = list(params.index) if isinstance(params, pd.Series) else list(fit.model.exog_names)
    none = np.full(len(names), np.nan)
    columns = [np.asarray(params), np.asarray(fit.bse), interval[:, 0], interval[:, 1], none]
    twice = repeated(names)
    if twice:
        raise ValueError(f"a fit of statsmodels has several coefficients named {listed(twice)}: rename the columns")
    coefficients = pd.DataFrame(dict(zip(VALUES, columns, strict=True)), index=[str(name) for name in names])
    facts = {
        "N": float(getattr(fit, "nobs", np.nan)),
        "R-squared": float(getattr(fit, "rsquared", np.nan)),
        "sigma": float(np.sqrt(fit.mse_resid / _mean_weight(fit.model))) if hasattr(fit, "rsquared") else np.nan,
    }
    return _Fit(coefficients, facts, str(fit.model.endog_names), _numbers(fit.model.endog), own=False)


def _mean_weight(model: Any) -> float:
    """Mean of the weights of least squares: sigma is that of a row of average weight, as in this package."""
    weights = getattr(model, "weights", None)
    return float(np.mean(weights)) if isinstance(weights, np.ndarray) and weights.ndim == 1 else 1.0


def _numbers(values: Any) -> FloatArray | None:
    return None if values is None else np.asarray(values, dtype=np.float64).reshape(-1)


def _terms(read: Mapping[str, _Fit], terms: Names | None) -> list[str] | None:
    known = list(dict.fromkeys(name for fit in read.values() for name in fit.coefficients.index))
    if terms is None:
        return None
    asked = [terms] if isinstance(terms, str) else list(terms)  # type: ignore[arg-type]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(
            f"{unknown[0]!r} is not a coefficient of any of the fits{did_you_mean(str(unknown[0]), known)}"
        )
    if not asked:
        raise ValueError("terms is empty: name the coefficients to show, or leave it out")
    return [str(name) for name in asked]


def _frame(read: Mapping[str, _Fit]) -> pd.DataFrame:
    """Rows (term, value) of all coefficients and, under the term "", of the fits; a column for each fit."""
    columns = {}
    for name, fit in read.items():
        places = [(term, value) for term in fit.coefficients.index for value in VALUES]
        numbers = [*fit.coefficients.to_numpy().ravel(), *fit.facts.values()]
        columns[name] = pd.Series(numbers, pd.MultiIndex.from_tuples([*places, *(("", fact) for fact in fit.facts)]))
    known = list(dict.fromkeys(term for fit in read.values() for term in fit.coefficients.index))
    facts_there = list(dict.fromkeys(fact for fit in read.values() for fact in fit.facts))
    rows = [(term, value) for term in known for value in VALUES] + [("", fact) for fact in facts_there]
    index = pd.MultiIndex.from_tuples(rows, names=["term", "value"])
    out = pd.DataFrame({name: column.reindex(index) for name, column in columns.items()})
    return out[out.notna().any(axis=1)]


def _notes(read: Mapping[str, _Fit]) -> list[str]:
    """Whether the models can be compared, and what their numbers are."""
    notes = []
    responses = {fit.response for fit in read.values()}
    sizes = {name: fit.facts["N"] for name, fit in read.items()}
    if len(responses) > 1:
        notes.append(f"The models have different responses ({listed(sorted(responses))}): {NOT_COMPARABLE}.")
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name}: {int(n):,}" for name, n in sizes.items() if np.isfinite(n))
        notes.append(f"The models are of different rows ({told}): {NOT_COMPARABLE}.")
    elif len(responses) == 1 and not _same([fit.observed for fit in read.values() if fit.observed is not None]):
        notes.append(f"The values of the response differ between the models: {NOT_COMPARABLE}.")
    others = [name for name, fit in read.items() if not fit.own]
    if others and len(others) < len(read):
        notes.append(OF_STATSMODELS.format(names=", ".join(others)))
    evidence = [fit.facts[name] for fit in read.values() if fit.own for name in ("log marginal", "log evidence")]
    if np.isfinite(evidence).sum() > 1:
        notes.append(EVIDENCE)
    return notes


def _same(observed: list[FloatArray]) -> bool:
    first = observed[0] if observed else np.zeros(0)
    size = SAME_RESPONSE * float(np.abs(first).max(initial=0.0))
    return all(y.shape == first.shape and bool((np.abs(y - first) <= size).all()) for y in observed)
