"""A fit as JSON; ``result.schema.json`` describes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

SCHEMA = 1
"""Raised when a field changes its meaning or goes away."""

TARGET_NUMBERS = {
    "ridge": {
        "lambda": "lambda_",
        "tau2": "tau2",
        "sigma2": "sigma2",
        "df_model": "df_model",
        "df_resid": "df_resid",
        "rsquared": "rsquared",
        "log_marginal": "log_marginal",
        "n_modes": "n_modes",
    },
    "binomial ridge": {
        "lambda": "lambda_",
        "tau2": "tau2",
        "df_model": "df_model",
        "n_trials": "n_trials",
        "n_events": "n_events",
        "log_marginal": "log_marginal",
        "loo_log_score": "loo_log_score",
        "loo_brier": "loo_brier",
        "loo_auc": "loo_auc",
    },
    "spikeslab": {
        "slab_var": "slab_var",
        "noise_var": "noise_var",
        "expected_size": "expected_size",
        "df_model": "df_model",
        "df_resid": "df_resid",
        "rsquared": "rsquared",
        "log_evidence": "log_evidence",
        "log_evidence_se": "log_evidence_se",
        "residual": "residual",
    },
    "binomial spikeslab": {
        "slab_var": "slab_var",
        "n_trials": "n_trials",
        "n_events": "n_events",
        "expected_size": "expected_size",
        "df_model": "df_model",
        "df_resid": "df_resid",
        "residual": "residual",
    },
}
"""Field of a target → attribute of the results."""


def finite(value: float | np.number) -> float | int | None:
    """A number, or None where it is infinite or not a number: JSON has neither."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def as_json(results: Any, command: str, *, alpha: float, warnings: Sequence[str]) -> dict[str, Any]:
    """Results as JSON's types: finite numbers, null, strings, lists and dicts.

    Parameters
    ----------
    results : results of a model with a formula
    command : {"ridge", "spikeslab"}
    alpha : float
        One minus the probability of the intervals.
    warnings : sequence of str
        Warnings of the fit.
    """
    from pybayesridge import __version__

    model = results.model
    return {
        "schema": SCHEMA,
        "version": __version__,
        "command": command,
        "formula": model.formula,
        "method": results.method,
        "converged": bool(results.converged),
        "n_iter": int(results.n_iter),
        "nobs": int(results.nobs),
        "n_dropped": int(model.data.n_dropped),
        "standardize": bool(model.standardize),
        "alpha": alpha,
        "targets": [_target(results, command, i, alpha) for i in range(len(model.data.targets))],
        "notes": list(results.notes),
        "findings": [
            {"code": found.code, "severity": found.severity, "text": found.text, "targets": list(found.targets)}
            for found in results.findings
        ],
        "warnings": list(warnings),
    }


def _target(results: Any, command: str, i: int, alpha: float) -> dict[str, Any]:
    name = results.model.data.targets[i]
    out: dict[str, Any] = {"name": name}
    binomial = results.model.family == "binomial"
    for field, attribute in TARGET_NUMBERS[f"binomial {command}" if binomial else command].items():
        out[field] = finite(np.atleast_1d(getattr(results, attribute))[i])
    if binomial:
        out |= {"family": "binomial", "link": results.link, "event": results.event}
    if command == "ridge":
        out["hyperparameters"] = _hyperparameters(results, name, alpha)
    else:
        prior = results.prior_inclusion
        out["prior_inclusion"] = finite(prior) if np.ndim(prior) == 0 else None
        out["learned"] = list(results.learned)
        if not binomial:
            out["evidence_biased"] = bool(results.evidence_biased)
        elif results.exact_sets is None:
            out["log_evidence"] = finite(results.log_evidence)
        out["median_model"] = results.median_model()
        out["groups"] = _groups(results)
        out["size"] = _size(results, alpha)
        out["credible_sets"] = _credible_sets(results)
    out["coefficients"] = _coefficients(results, command, name, alpha)
    return out


def _groups(results: Any) -> list[dict[str, Any]]:
    model = results.model
    columns: dict[Any, list[str]] = {}
    for j in np.setdiff1d(np.arange(len(model.data.exog_columns)), model.data.unpenalized):
        label = model.groups.labels[model.groups.of_column[j]]
        columns.setdefault(label, []).append(model.data.exog_columns[j])
    prob, se = results.group_inclusion_prob, results.group_inclusion_se
    return [
        {
            "name": str(label),
            "inclusion_prob": finite(prob[label]),
            "inclusion_se": finite(se[label]),
            "columns": columns[label],
        }
        for label in prob.index
    ]


def _size(results: Any, alpha: float) -> dict[str, Any] | None:
    if results.exact_sets is None:
        return None
    return {name: finite(value) for name, value in results.hyperparameters(alpha=alpha).loc["size"].items()}


def _credible_sets(results: Any) -> list[dict[str, Any]] | None:
    if results.exact_sets is None:
        return None
    return [
        {
            "columns": rows["column"].tolist(),
            "probability": finite(rows["probability"].iloc[0]),
            "purity": finite(rows["purity"].iloc[0]),
        }
        for _, rows in results.credible_sets().groupby("set")
    ]


def _hyperparameters(results: Any, target: str, alpha: float) -> dict[str, dict[str, Any]]:
    table = results.hyperparameters(alpha=alpha)
    if isinstance(table.index, pd.MultiIndex):
        table = table.loc[target]
    return {row: {column: finite(table.loc[row, column]) for column in table} for row in table.index}


def _coefficients(results: Any, command: str, target: str, alpha: float) -> list[dict[str, Any]]:
    interval = results.conf_int(alpha=alpha)
    mean, sd = results.params, results.bse
    if isinstance(mean, pd.DataFrame):
        mean, sd, interval = mean[target], sd[target], interval[target]
    columns = {"mean": mean, "sd": sd, "lower": interval[0], "upper": interval[1]}
    if results.model.family == "binomial" and results.link == "logit":
        ratios = results.odds_ratios(alpha=alpha)
        columns |= {"odds_ratio": ratios["odds_ratio"], "or_lower": ratios["lower"], "or_upper": ratios["upper"]}
    if command == "spikeslab":
        columns |= {
            "inclusion_prob": results.inclusion_prob,
            "inclusion_se": results.inclusion_se,
            "cond_mean": results.cond_mean,
            "cond_sd": np.sqrt(results.cond_var),
        }
    numbers = [[finite(value) for value in np.asarray(values).tolist()] for values in columns.values()]
    return [
        {"name": str(name), **dict(zip(columns, row, strict=True))}
        for name, *row in zip(mean.index, *numbers, strict=True)
    ]
