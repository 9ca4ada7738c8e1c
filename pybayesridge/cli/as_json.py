"""A fit as JSON; ``result.schema.json`` describes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge.results.facts import values_of

SCHEMA = 1
"""Raised when a field changes its meaning or goes away."""


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
    from pybayesridge._version import __version__

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
    out |= {field: finite(value) for field, value in values_of(results, "json", i).items()}
    out |= results.model.distribution.in_json
    if command == "ridge":
        if results.model.bands is not None:
            out["bands"] = _bands(results, name, alpha)
            if results.correlation_names:
                out["correlations"] = _correlations(results, name, alpha)
        out["hyperparameters"] = _hyperparameters(results, name, alpha)
    else:
        prior = results.prior_inclusion
        out["prior_inclusion"] = finite(prior) if np.ndim(prior) == 0 else None
        out["learned"] = list(results.learned)
        if results.shape_grid is not None:
            out["hyperparameters"] = _hyperparameters(results, name, alpha)
        if results.model.distribution.has_noise:
            out["evidence_biased"] = bool(results.evidence_biased)
        out["median_model"] = results.median_model()
        out["groups"] = _groups(results)
        out |= _sizes(results, alpha)
        out["credible_sets"] = _credible_sets(results)
        out["monte_carlo"] = _monte_carlo(results)
    out["coefficients"] = _coefficients(results, command, name, alpha)
    if results.model.distribution.has_cuts:
        cuts = results.cut_points(alpha=alpha)
        out["cut_points"] = [
            {"name": name, **{what: finite(cuts.loc[name, what]) for what in cuts}} for name in cuts.index
        ]
    return out


def _correlations(results: Any, target: str, alpha: float) -> list[dict[str, Any]]:
    found = results.correlations_of(results.model.data.targets.index(target), alpha)
    heads = ("mean", "sd", "lower", "upper")
    return [
        {"name": name, **{head: finite(value) for head, value in zip(heads, row, strict=True)}}
        for name, row in zip(results.correlation_names, found, strict=True)
    ]


def _bands(results: Any, target: str, alpha: float) -> list[dict[str, Any]]:
    table = results.variance_components(alpha=alpha)
    if isinstance(table.index, pd.MultiIndex):
        table = table.loc[target]
    columns, bands = results.model.data.exog_columns, results.bands
    return [
        {
            "name": name,
            "columns": [columns[j] for j in bands.members(k)],
            **{what: finite(table.loc[name, what]) for what in table},
        }
        for k, name in enumerate(bands.names)
    ]


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


def _sizes(results: Any, alpha: float) -> dict[str, Any]:
    """Mean and interval of the number of included columns, and of included groups where there are any."""
    found = None if results.exact_sets is None else results.hyperparameters(alpha=alpha)
    return {
        what: None if found is None or what not in found.index else {n: finite(v) for n, v in found.loc[what].items()}
        for what in ("size", "groups_included")
    }


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


def _monte_carlo(results: Any) -> list[dict[str, Any]] | None:
    """Estimates and their Monte Carlo standard errors; None for what is not of the posterior of sets."""
    table = results.monte_carlo_errors
    if table is None:
        return None
    rows = [
        {name: finite(row[name]) for name in ("estimate", "mcse", "effective", "agreement")}
        for _, row in table.iterrows()
    ]
    return [
        {"quantity": quantity, "name": name or None, **row}
        for quantity, name, row in zip(table["quantity"], table["name"], rows, strict=True)
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
    ratio = results.model.distribution.ratio
    if ratio:
        ratios, name = results.ratios(alpha=alpha), ratio.replace(" ", "_")
        short = "".join(word[0] for word in ratio.split())
        columns |= {name: ratios[name], f"{short}_lower": ratios["lower"], f"{short}_upper": ratios["upper"]}
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
