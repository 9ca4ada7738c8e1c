"""What maketables reads of results: its plug-in attributes; maketables itself is never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pybayesridge.results.facts import FACTS, value_of

if TYPE_CHECKING:
    from pybayesridge.results.estimates import LinearEstimates

LABELS = {fact.table[0]: fact.table[1] for fact in FACTS if fact.table[1]}
"""Labels of statistics that maketables does not know, or knows under a name of least squares."""


def coef_table(res: LinearEstimates) -> pd.DataFrame:
    """Posterior means, standard deviations and intervals; t and p are NaN, so that there are no stars.

    Parameters
    ----------
    res : LinearEstimates

    Returns
    -------
    DataFrame
        A row for each coefficient: ``b``, ``se``, ``t``, ``p``, ``ci95l``, ``ci95u``, ``ci90l``, ``ci90u``,
        ``prob_positive``, and ``prob_zero`` and ``inclusion_prob``, which are NaN for a ridge.
    """
    if not res.model.one_target:
        raise ValueError("tables of maketables are for one response: fit the responses one by one")
    none = np.full(len(res.model.exog_names), np.nan)
    ninety_five, ninety = res.arrays.conf_int(0.05), res.arrays.conf_int(0.10)
    columns = {
        "b": res.arrays.params,
        "se": res.arrays.bse,
        "t": none,
        "p": none,
        "ci95l": ninety_five[:, 0],
        "ci95u": ninety_five[:, 1],
        "ci90l": ninety[:, 0],
        "ci90u": ninety[:, 1],
        "prob_positive": res.arrays.prob_positive,
        "prob_zero": getattr(res.arrays, "prob_zero", none),
        "inclusion_prob": getattr(res.arrays, "inclusion_prob", none),
    }
    return pd.DataFrame(columns, index=pd.Index(list(res.model.exog_names), name="Coefficient"))


def stat(res: LinearEstimates, key: str) -> float | int | str | None:
    """A statistic of the whole fit, None for what a Bayesian fit does not have (AIC, F, p values)."""
    if key == "se_type":
        return "posterior SD"
    value = value_of(res, "table", key)
    return int(value) if key == "N" else value


def default_stat_keys(res: LinearEstimates) -> list[str]:
    """The statistics that a table shows unless it is asked for others."""
    return ["N", "r2", "df_model"] if res.model.distribution.has_noise else ["N", "df_model"]


def response(res: LinearEstimates) -> str:
    """Name of the response."""
    return str(res.model.data.targets[0])
