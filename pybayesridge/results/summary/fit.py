"""The summary of a fit: facts, coefficients, what else the results show of themselves, and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.results.direction import DIRECTION, DIRECTION_OR_ZERO, directions
from pybayesridge.results.facts import Fact, facts_for, interval_heads, label_of, rows_of
from pybayesridge.results.summary.formats import FormattedSummary
from pybayesridge.results.summary.tables import facts_table, make_summary, table, with_direction
from pybayesridge.text import NO_VARIANCE, TARGETS, rounded

if TYPE_CHECKING:
    from pybayesridge.results.estimates import LinearEstimates

LAST_OF_THE_LEFT = "converged"
"""Facts up to this one are in the left column, numbers in the right one."""

LOO = "LOO predicts each row from the others; the log score is the mean log probability of the outcomes."
LOO_DENSITY = "LOO predicts each row from the others; the log score is the mean log density of the responses."
LOW_AUC = (
    "The AUC of predictions from other rows is below 1/2 where the columns say little: without an event the others "
    "have fewer, and predict it to be less probable."
)
NO_MEAN = "A dash stands for a mean that does not exist: the tail of the posterior is too heavy."
INFINITE = "A dash for lambda or tau stands for infinity."

PENALTY = ("lambda", "tau")

TITLES = {"BayesRidge": "Bayesian Ridge Regression", "SpikeSlab": "Spike-and-Slab Regression"}


def summary(res: LinearEstimates, alpha: float, direction: bool = False) -> FormattedSummary:
    """See :meth:`LinearResults.summary`."""
    targets, names = res.model.data.targets, res.model.exog_names
    tables, seen, left_out = [], set(), ""
    for i in range(min(len(targets), TARGETS)):
        facts = list(facts_for(res, "summary", i))
        tables.append(facts_table(title_of(res) if i == 0 else None, *_sides(res, facts)))
        seen |= _explained_by(facts, LOO_DENSITY if res.model.distribution.has_density else LOO)
        shown = res.shown_coefficients(i, alpha)
        rows: list[list[str]] = [list(cells) for cells in rows_of(shown.values)]
        heads = [*shown.heads, *interval_heads(alpha)]
        if shown.probability is not None:
            heads = ["PIP", *heads]
            rows = [[rounded(p), *cells] for p, cells in zip(shown.probability, rows, strict=True)]
        signs = directions(res, shown.at, i) if direction else ()
        tables.append(table([names[j] for j in shown.at], *with_direction(heads, rows, signs)))
        if np.isinf(shown.values[:, 1]).any():
            seen.add(NO_VARIANCE)
        for more in res.shown_tables(i, alpha):
            tables.append(table(more.names, more.heads, more.cells))
            seen |= {NO_MEAN} if more.undefined else set()
        left_out = shown.left_out.format(count=len(names) - len(shown.at)) if len(shown.at) < len(names) else ""
    notes = [finding.labelled for finding in res.findings]
    if direction:
        notes.append(DIRECTION if res.model_name == "BayesRidge" else DIRECTION_OR_ZERO)
    ordered = (NO_MEAN, LOO, LOO_DENSITY, LOW_AUC, NO_VARIANCE, INFINITE)
    notes += [sentence for sentence in ordered if sentence in seen]
    notes += [left_out] if left_out else []
    if len(targets) > TARGETS:
        notes.append(f"{len(targets) - TARGETS} more targets are omitted.")
    return make_summary(tables, notes)


def title_of(res: LinearEstimates) -> str:
    """The model, with the family of the response unless it is the normal one."""
    family = "" if res.model.distribution.is_linear else f" ({res.model.distribution.name})"
    return f"{TITLES[res.model_name]}{family}"


def _sides(
    res: LinearEstimates, facts: list[tuple[Fact, Any]]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Labels and values of the two columns."""
    written = [(f"{label_of(fact, res)}:", fact.text(value)) for fact, value in facts]
    middle = [fact.name for fact, _ in facts].index(LAST_OF_THE_LEFT) + 1
    return written[:middle], written[middle:]


def _explained_by(facts: list[tuple[Fact, Any]], of_loo: str) -> set[str]:
    """Sentences that facts call for; `of_loo` is that on predictions of rows left out."""
    out = set()
    for fact, value in facts:
        if fact.name in PENALTY and not np.isfinite(value):
            out.add(INFINITE)
        if fact.name == "sigma" and np.isinf(value):
            out.add(NO_VARIANCE)
        if fact.name.startswith("loo_"):
            out.add(of_loo)
        if fact.name == "loo_auc" and value < 0.5:
            out.add(LOW_AUC)
    return out
