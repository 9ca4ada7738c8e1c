"""The summary of a Bayesian ridge regression: its tables and its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.results.direction import DIRECTION, probabilities_positive
from pybayesridge.results.summary.formats import FormattedSummary
from pybayesridge.results.summary.tables import (
    coefficient_table,
    facts_table,
    interval_heads,
    make_summary,
    rows_of,
    rows_to_show,
    table,
)
from pybayesridge.ridge.hyperparameters import HYPERPARAMETERS
from pybayesridge.text import NO_VARIANCE, TARGETS, count, number, rounded

if TYPE_CHECKING:
    from pybayesridge.results.ridge import BayesRidgeResults


def summary(res: BayesRidgeResults, alpha: float, direction: bool = False) -> FormattedSummary:
    """See :meth:`BayesRidgeResults.summary`."""
    tables = []
    names = res.model.exog_names
    targets = res.model.data.targets
    notes = [finding.labelled for finding in res.findings]
    left_out, undefined, infinite = 0, False, bool(np.isinf(res.noise_sd).any())
    for i in range(min(len(targets), TARGETS)):
        explained = _explained_variance(res, i, alpha)
        tables.append(facts_table("Bayesian Ridge Regression" if i == 0 else None, *_facts(res, i, explained[0])))
        shown = rows_to_show(res.standardized_size(i))
        left_out = len(names) - len(shown)
        mean, sd, interval = res.some_coefficients(shown, i, alpha)
        positive = probabilities_positive(res, shown, i) if direction else None
        tables.append(coefficient_table([names[j] for j in shown], mean, sd, interval, alpha, positive=positive))
        infinite = infinite or bool(np.isinf(sd).any())
        if res.method_entry.integrates:
            heads = ["mean", "median", *interval_heads(alpha)]
            values = res.hyperparameters_of(i, np.array([0.5, alpha / 2, 1 - alpha / 2]))
            cells = rows_of(np.vstack([values, explained]))
            tables.append(table([*HYPERPARAMETERS, "explained variance"], heads, cells))
            undefined = undefined or not np.isfinite(values[:, 0]).all()
    if direction:
        notes.append(DIRECTION)
    if undefined:
        notes.append("A dash stands for a mean that does not exist: the tail of the posterior is too heavy.")
    if infinite:
        notes.append(NO_VARIANCE)
    if not np.isfinite(np.array([res.lambda_, res.tau2])).all():
        notes.append("A dash for lambda or tau stands for infinity.")
    if left_out:
        notes.append(f"The {left_out} smallest standardised coefficients are omitted; see params, conf_int().")
    if len(targets) > TARGETS:
        notes.append(f"{len(targets) - TARGETS} more targets are omitted.")
    return make_summary(tables, notes)


def _explained_variance(res: BayesRidgeResults, i: int, alpha: float) -> FloatArray:
    """Mean, median and interval of one target, where the summary shows any of them."""
    shown = res.method_entry.integrates or res.can_fit_anything
    return res.explained_variance_of(i, alpha) if shown else np.full(4, np.nan)


def _facts(res: BayesRidgeResults, i: int, explained: float) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    def pick(value: Any) -> float:
        return float(np.atleast_1d(value)[i])

    iterations = f"{res.n_iter}" if res.method_entry.iterates else "-"
    left = [
        ("Dep. Variable:", res.model.data.targets[i]),
        ("Model:", "BayesRidge"),
        ("Method:", res.method),
        ("Solver:", res.solver),
        ("No. Observations:", count(int(res.nobs))),
        ("Iterations:", iterations),
        ("Converged:", "yes" if res.ridge_fit.converged[i] else "NO"),
    ]
    right = [
        ("lambda:", number(pick(res.lambda_))),
        ("tau:", number(np.sqrt(pick(res.tau2)))),
        ("sigma:", number(float(res.noise_sd[i]))),
        ("Df Model (effective):", number(pick(res.df_model))),
        ("Df Residuals:", number(pick(res.df_resid))),
        _share(res, i, explained),
        ("Modes:", f"{int(np.atleast_1d(res.n_modes)[i])}"),
    ]
    return left, right


def _share(res: BayesRidgeResults, i: int, explained: float) -> tuple[str, str]:
    """R-squared, or the posterior mean of the explained variance where the columns can fit any response."""
    if not res.can_fit_anything:
        return "R-squared:", rounded(float(np.atleast_1d(res.rsquared)[i]))
    return "Explained variance:", rounded(explained)
