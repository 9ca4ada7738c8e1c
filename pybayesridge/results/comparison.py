"""Models side by side: what is read of each fit, of this package or of statsmodels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, Names
from pybayesridge.results.arguments import check_alpha, named_fits
from pybayesridge.results.base import LinearResults
from pybayesridge.results.facts import FACTS, values_of
from pybayesridge.results.matching import MARKS, FitInTable, marks_of, matched, same_values
from pybayesridge.results.pooled import PooledResults
from pybayesridge.text import did_you_mean, listed, repeated

if TYPE_CHECKING:
    from pybayesridge.results.summary.comparison import ModelTable

SHOWS = ("sd", "interval")

VALUES = ("estimate", "sd", "lower", "upper", "inclusion_prob")
"""What is read of each coefficient."""

OF_STATSMODELS = (
    "{names}: standard errors and confidence intervals of statsmodels; for the other models these are posterior "
    "standard deviations and credible intervals."
)

EVIDENCE = (
    "The log marginal likelihood of a ridge and the log evidence of a selection leave out different constants: "
    "compare fits of one kind, with the same rows and unpenalised columns."
)

FAMILIES = "The models are of different families: their evidence and leave-one-out scores cannot be compared."

FACT_ROWS = [fact.row for fact in FACTS if fact.row]

NOT_COMPARABLE = "their numbers cannot be compared"


OTHER_COLUMNS = "Columns of one name that differ between the models have rows of their own: {names}."


def compare_models(
    fits: Mapping[str, Any] | Sequence[Any], *, alpha: float = 0.05, show: str = "sd", terms: Names | None = None
) -> ModelTable:
    """Put the estimates of several models side by side.

    Parameters
    ----------
    fits : dict, or list of results
        Results by the name of their column: of BayesRidge, of SpikeSlab, and of statsmodels (such as OLS and Logit).
        The columns of a list are "(1)", "(2)" and so on.
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

    A coefficient of one fit is in the row of one of another if their columns have the same name and, where both are
    in memory for the same rows, the same values: columns of one name that differ have rows of their own. Columns
    that are numbered, such as those of ``bs(x, df=4)``, are matched by their values if the numbers differ, since
    formulaic counts them from 1 and patsy from 0.

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
    read, differing = matched({name: _read(name, fit, alpha) for name, fit in named_fits(fits).items()})
    return comparison_table(_frame(read), _notes(read, differing), show=show, alpha=alpha, terms=_terms(read, terms))


def _read(name: str, given: Any, alpha: float) -> FitInTable:
    if isinstance(given, LinearResults):
        if not given.model.one_target:
            raise ValueError(f"the fit {name!r} has several responses: fit those to compare one by one")
        return _own(given, alpha)
    if isinstance(given, PooledResults):
        raise ValueError(f"the fit {name!r} is pooled over imputed data sets: compare fits of one of them")
    if not all(hasattr(given, attribute) for attribute in ("params", "bse", "conf_int", "model")):
        raise ValueError(
            f"the fit {name!r} is {type(given).__name__}, neither results of this package nor of statsmodels"
        )
    if np.ndim(given.params) != 1:
        raise ValueError(f"the fit {name!r} has several responses: fit those to compare one by one")
    return _of_statsmodels(given, alpha)


def _own(res: LinearResults, alpha: float) -> FitInTable:
    interval = res.arrays.conf_int(alpha)
    inclusion = getattr(res.arrays, "inclusion_prob", np.full(len(interval), np.nan))
    facts = dict.fromkeys(FACT_ROWS, np.nan) | values_of(res, "row")
    columns = [res.arrays.params, res.arrays.bse, interval[:, 0], interval[:, 1], inclusion]
    coefficients = pd.DataFrame(dict(zip(VALUES, columns, strict=True)), index=list(res.model.exog_names))
    marks = marks_of(res.model.data.exog)
    if marks is not None and res.model.data.intercept_name is not None:
        marks = np.vstack([marks_of(np.ones((res.model.data.exog.shape[0], 1))), marks])  # type: ignore[list-item]
    observed = _numbers(res.model.endog)
    return FitInTable(
        coefficients,
        facts,
        res.model.data.targets[0],
        observed,
        own=True,
        marks=marks,
        kind=res.model.distribution.kind_of_response,
        copies=None if observed is None else res.model.copies,
        no_score=getattr(res, "no_loo_score", ""),
    )


def _of_statsmodels(given: Any, alpha: float) -> FitInTable:
    params, interval = given.params, np.asarray(given.conf_int(alpha=alpha), dtype=np.float64)
    names = list(params.index) if isinstance(params, pd.Series) else list(given.model.exog_names)
    none = np.full(len(names), np.nan)
    columns = [np.asarray(params), np.asarray(given.bse), interval[:, 0], interval[:, 1], none]
    twice = repeated(names)
    if twice:
        raise ValueError(f"a fit of statsmodels has several coefficients named {listed(twice)}: rename the columns")
    coefficients = pd.DataFrame(dict(zip(VALUES, columns, strict=True)), index=[str(name) for name in names])
    facts = {
        "N": float(getattr(given, "nobs", np.nan)),
        "R-squared": float(getattr(given, "rsquared", np.nan)),
        "sigma": _sigma(given),
    }
    of_columns = marks_of(getattr(given.model, "exog", None))
    known = dict(zip(map(str, given.model.exog_names), () if of_columns is None else of_columns, strict=False))
    marks = np.array([known.get(name, np.full(MARKS, np.nan)) for name in coefficients.index]).reshape(-1, MARKS)
    response, observed = str(given.model.endog_names), _numbers(given.model.endog)
    return FitInTable(coefficients, facts, response, observed, own=False, marks=marks)


def _sigma(given: Any) -> float:
    """Noise of a row of average weight, of models that have one."""
    return float(np.sqrt(given.mse_resid / _mean_weight(given.model))) if hasattr(given, "rsquared") else np.nan


def _mean_weight(model: Any) -> float:
    """Mean of the weights of least squares: sigma is that of a row of average weight, as in this package."""
    weights = getattr(model, "weights", None)
    return float(np.mean(weights)) if isinstance(weights, np.ndarray) and weights.ndim == 1 else 1.0


def _numbers(values: Any) -> FloatArray | None:
    return None if values is None else np.asarray(values, dtype=np.float64).reshape(-1)


def _terms(read: Mapping[str, FitInTable], terms: Names | None) -> list[str] | None:
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


def _frame(read: Mapping[str, FitInTable]) -> pd.DataFrame:
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


def _notes(read: Mapping[str, FitInTable], differing: Sequence[str]) -> list[str]:
    """Whether the models can be compared, and what their numbers are."""
    notes = [OTHER_COLUMNS.format(names=listed(differing))] if differing else []
    responses = {fit.response for fit in read.values()}
    sizes = {name: fit.facts["N"] for name, fit in read.items()}
    if len(responses) > 1:
        notes.append(f"The models have different responses ({listed(sorted(responses))}): {NOT_COMPARABLE}.")
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name}: {int(n):,}" for name, n in sizes.items() if np.isfinite(n))
        notes.append(f"The models are of different rows ({told}): {NOT_COMPARABLE}.")
    elif len(responses) == 1 and not same_values([fit.observed for fit in read.values() if fit.observed is not None]):
        notes.append(f"The values of the response differ between the models: {NOT_COMPARABLE}.")
    elif not same_values([fit.copies for fit in read.values() if fit.copies is not None]):
        notes.append(f"The frequency weights differ between the models: {NOT_COMPARABLE}.")
    if len({fit.kind for fit in read.values() if fit.own}) > 1:
        notes.append(FAMILIES)
    others = [name for name, fit in read.items() if not fit.own]
    if others and len(others) < len(read):
        notes.append(OF_STATSMODELS.format(names=", ".join(others)))
    without = {name: fit.no_score for name, fit in read.items() if fit.no_score}
    notes += [f"Model {name!r}: {sentence[0].lower()}{sentence[1:]}" for name, sentence in without.items()]
    evidence = [fit.facts[name] for fit in read.values() if fit.own for name in ("log marginal", "log evidence")]
    if np.isfinite(evidence).sum() > 1:
        notes.append(EVIDENCE)
    return notes
