"""What maketables reads of results: its plug-in attributes; maketables itself is never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from pybayesridge.results.base import LinearResults

LABELS = {
    "sigma": "Residual SD",
    "loo_r2": "LOO R²",
    "loo_log_score": "LOO log score",
    "log_marginal": "Log marginal likelihood",
    "log_evidence": "Log evidence",
    "expected_size": "Expected number of columns",
    "df_model": "Effective df",
    "df_resid": "Residual df",
}
"""Labels of statistics that maketables does not know, or knows under a name of least squares."""

ATTRIBUTES = {
    "r2": "rsquared",
    "loo_r2": "loo_rsquared",
    "loo_log_score": "loo_log_score",
    "log_marginal": "log_marginal",
    "log_evidence": "log_evidence",
    "expected_size": "expected_size",
    "df_model": "df_model",
    "df_resid": "df_resid",
}
"""Attributes of results by the key of the statistic."""

SELECTS = {"log_evidence", "expected_size"}
"""Statistics of variable selection, of which a ridge may have an attribute of the same name."""

NEED_ROWS = {"loo_r2", "loo_log_score"}


def coef_table(res: LinearResults) -> pd.DataFrame:
    """Posterior means, standard deviations and intervals; t and p are NaN, so that there are no stars.

    Parameters
    ----------
    res : LinearResults

    Returns
    -------
    DataFrame
        A row for each coefficient: ``b``, ``se``, ``t``, ``p``, ``ci95l``, ``ci95u``, ``ci90l``, ``ci90u``,
        ``prob_positive`` and ``inclusion_prob``, which is NaN for a ridge.
    """
    if not res.model.one_target:
        raise ValueError("tables of maketables are for one response: fit the responses one by one")
    none = np.full(len(res.params), np.nan)
    ninety_five, ninety = res.conf_int(0.05), res.conf_int(0.10)
    columns = {
        "b": res.params,
        "se": res.bse,
        "t": none,
        "p": none,
        "ci95l": ninety_five[:, 0],
        "ci95u": ninety_five[:, 1],
        "ci90l": ninety[:, 0],
        "ci90u": ninety[:, 1],
        "prob_positive": res.prob_positive,
        "inclusion_prob": getattr(res, "inclusion_prob", none),
    }
    return pd.DataFrame(columns, index=pd.Index(list(res.model.exog_names), name="Coefficient"))


def stat(res: LinearResults, key: str) -> float | int | str | None:
    """A statistic of the whole fit, None for what a Bayesian fit does not have (AIC, F, p values)."""
    if key == "N":
        return int(res.nobs)
    if key == "se_type":
        return "posterior SD"
    if key == "sigma":
        sigma2 = getattr(res, "sigma2", None)
        return None if sigma2 is None else float(np.sqrt(sigma2))
    if key not in ATTRIBUTES:
        return None
    selects = hasattr(res, "inclusion_prob")
    if (key in SELECTS and not selects) or (key == "log_marginal" and selects):
        return None
    if key in NEED_ROWS and res.model.endog is None:
        return None
    value = getattr(res, ATTRIBUTES[key], None)
    return None if value is None else float(value)


def default_stat_keys(res: LinearResults) -> list[str]:
    """The statistics that a table shows unless it is asked for others."""
    return ["N", "r2", "df_model"] if hasattr(res, "sigma2") else ["N", "df_model"]


def response(res: LinearResults) -> str:
    """Name of the response."""
    return str(res.model.data.targets[0])
