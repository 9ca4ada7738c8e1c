"""The summary of a ridge regression of yes/no responses: its tables and its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
from pybayesridge.text import NO_VARIANCE, count, number, rounded

if TYPE_CHECKING:
    from pybayesridge.results.binary import BinaryRidgeResults

LOO = "LOO predicts each row from the others; the log score is the mean log probability of the outcomes."


def summary(res: BinaryRidgeResults, alpha: float, direction: bool = False) -> FormattedSummary:
    """See :meth:`BinaryRidgeResults.summary`."""
    names = res.model.exog_names
    notes = [finding.labelled for finding in res.findings]
    tables = [facts_table("Bayesian Ridge Regression (binomial)", *_facts(res))]
    shown = rows_to_show(res.standardized_size(0))
    mean, sd, interval = res.some_coefficients(shown, 0, alpha)
    center = "mean" if res.posterior.has_mean else "median"
    positive = probabilities_positive(res, shown, 0) if direction else None
    stubs = [names[j] for j in shown]
    tables.append(coefficient_table(stubs, mean, sd, interval, alpha, positive=positive, center=center))
    infinite = bool(np.isinf(sd).any())
    if res.method_entry.integrates and res.binary_fit.space.rank:
        hyper = res.hyperparameters(alpha)
        tables.append(table(list(hyper.index), ["mean", "median", *interval_heads(alpha)], rows_of(hyper.to_numpy())))
        if not np.isfinite(hyper["mean"]).all():
            notes.append("A dash stands for a mean that does not exist: the tail of the posterior is too heavy.")
    notes.append(LOO)
    if direction:
        notes.append(DIRECTION)
    if infinite:
        notes.append(NO_VARIANCE)
    if len(shown) < len(names):
        left_out = len(names) - len(shown)
        notes.append(f"The {left_out} smallest standardised coefficients are omitted; see params, conf_int().")
    return make_summary(tables, notes)


def _facts(res: BinaryRidgeResults) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    left: list[tuple[str, str]] = [
        ("Dep. Variable:", res.model.data.targets[0]),
        ("Model:", "BayesRidge"),
        ("Family:", "binomial"),
        ("Link:", res.link),
        ("Event:", res.event),
        ("Method:", res.method),
        ("No. Observations:", count(int(res.nobs))),
        ("Converged:", "yes" if res.converged else "NO"),
    ]
    right: list[tuple[str, str]] = [
        ("No. Trials:", number(res.n_trials, 15)),
        ("No. Events:", number(res.n_events, 15)),
        ("lambda:", number(res.lambda_)),
        ("Df Model (effective):", number(res.df_model)),
        ("Log marginal:", rounded(res.log_marginal, 2)),
        ("LOO log score:", rounded(res.loo_log_score)),
        ("LOO Brier score:", rounded(res.loo_brier)),
        ("LOO AUC:", rounded(res.loo_auc)),
    ]
    return left, right
