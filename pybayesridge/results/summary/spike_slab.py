"""The summary of a spike-and-slab regression: its tables and its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from statsmodels.iolib.table import SimpleTable

from pybayesridge.results.direction import DIRECTION, probabilities_positive
from pybayesridge.results.summary.formats import FormattedSummary
from pybayesridge.results.summary.tables import (
    SHOWN,
    facts_table,
    interval_heads,
    make_summary,
    rows_of,
    table,
    with_direction,
)
from pybayesridge.selection.hyperparameters import size
from pybayesridge.text import count, number, rounded

if TYPE_CHECKING:
    from pybayesridge.results.spike_slab import SpikeSlabResults


Facts: TypeAlias = tuple[list[tuple[str, str]], list[tuple[str, str]]]
"""Names and values at the top of a summary, in two columns."""


def summary(res: SpikeSlabResults, alpha: float, direction: bool = False) -> FormattedSummary:
    """See :meth:`SpikeSlabResults.summary`."""
    return summary_with(res, alpha, "Spike-and-Slab Regression", _facts(res), direction)


def summary_with(res: SpikeSlabResults, alpha: float, title: str, facts: Facts, direction: bool) -> FormattedSummary:
    """A summary with a title and facts."""
    names = res.model.exog_names
    z_at, at = res.model.positions(res.posterior.design)
    flat = np.setdiff1d(np.arange(len(names)), np.concatenate([z_at, at]))
    pip = np.asarray(res.inclusion_prob)
    by_pip = at[np.argsort(-pip[at], kind="stable")]
    order = np.concatenate([z_at, by_pip[:SHOWN], flat[: max(SHOWN - by_pip.size, 0)]]).astype(int)
    intervals = res.conf_int(alpha)
    columns = np.column_stack([res.params, res.bse, res.cond_mean, np.sqrt(res.cond_var), intervals])
    heads = ["PIP", "mean", "sd", "mean|in", "sd|in", *interval_heads(alpha)]
    rows = [[rounded(pip[i]), *cells] for i, cells in zip(order, rows_of(columns[order]), strict=True)]
    positive = probabilities_positive(res, order, 0) if direction else None
    tables = [
        facts_table(title, *facts),
        table([names[i] for i in order], *with_direction(heads, rows, positive)),
    ]
    if res.group_members():
        tables.append(_group_table(res))
    notes = [finding.labelled for finding in res.findings]
    if direction:
        notes.append(f"{DIRECTION} The remainder of the PIP is that of a negative coefficient.")
    left_out = len(names) - len(order)
    if left_out:
        notes.append(f"{left_out} columns with smaller inclusion probabilities are omitted; see inclusion_prob.")
    return make_summary(tables, notes)


def _group_table(res: SpikeSlabResults) -> SimpleTable:
    """A row for each group, the most probable first; at most 30."""
    prob, large = res.group_inclusion_prob, res.group_members()
    order = np.argsort(-prob.to_numpy(), kind="stable")[:SHOWN]
    rows = [[rounded(prob.iloc[i]), count(len(large.get(prob.index[i], [""])))] for i in order]
    return table([str(prob.index[i]) for i in order], ["PIP", "columns"], rows)


def how(res: SpikeSlabResults, name: str) -> str:
    """Where the value of a hyperparameter comes from."""
    if name not in res.learned:
        return "fixed"
    return "learned" if res.exact_sets is None else "mean"


def prior_of(res: SpikeSlabResults) -> str:
    """The prior inclusion probability."""
    return number(float(res.prior_inclusion)) if np.ndim(res.prior_inclusion) == 0 else "by column"


def _facts(res: SpikeSlabResults) -> Facts:
    left = [
        ("Dep. Variable:", res.model.data.targets[0]),
        ("Model:", "SpikeSlab"),
        ("Method:", res.method),
        ("No. Observations:", count(int(res.nobs))),
        ("Iterations:", f"{res.n_iter}"),
        (f"{res.method_entry.measure}:", number(res.residual, 2)),
        ("Converged:", "yes" if res.converged else "NO"),
    ]
    right = [
        (f"prior_inclusion ({how(res, 'prior_inclusion')}):", prior_of(res)),
        (f"slab_var ({how(res, 'slab_var')}):", number(res.slab_var)),
        (f"noise_var ({how(res, 'noise_var')}):", number(res.noise_var)),
        ("Expected size:", expected_size(res)),
        ("R-squared:", rounded(float(res.rsquared))),
        ("Log Evidence:", rounded(res.log_evidence)),
        ("", ""),
    ]
    return left, right


def expected_size(res: SpikeSlabResults) -> str:
    """The posterior mean of the number of columns in; of an exact fit with its 95 % interval, groups counted once."""
    if res.exact_sets is None:
        return rounded(res.expected_size, 2)
    mean, low, high = size(res.exact_sets, 0.05)
    return f"{rounded(mean, 2)} [{low:,.0f}, {high:,.0f}]"
